//! Answering a query: totals for batches of groups, then what is made of them, line by line.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

use super::dual::{Dual, Inputs};
use super::keys::Form;
use super::plan::Slot;
use super::read::fail;
use super::{Cell, ColumnKind, Query, Table, keys};
use crate::estimate::{Caution, Model};
use crate::expr::{self, Checked, Function, Node, Op, Scalar, Type};
use crate::{Error, Estimate, task};

/// How many functions of a row are summed at a time. The functions of one group stay together.
const BATCH: usize = 256;

/// A value of a line of the answer.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Text(String),
    Boolean(bool),
    Number(Dual),
}

pub(super) fn run(query: &Query, model: &dyn Model) -> Result<Table, Error> {
    if *model.schema() != query.schema {
        return fail("the query was read for another schema; read it again with that of this release");
    }
    let groups: Vec<usize> = (0..keys::count(&query.keys)?).filter(|group| query.is_possible(*group)).collect();
    let mut lines = Vec::new();
    let mut unsupported = BTreeSet::new();
    for batch in groups.chunks((BATCH / query.sums.len()).max(1)) {
        let conditions: Vec<Node> = batch.iter().map(|group| query.condition(*group)).collect();
        let functions: Vec<Checked> =
            conditions.iter().flat_map(|condition| query.sums.iter().map(|sum| sum.function(condition))).collect();
        let totals = model.totals(&functions);
        for (i, (group, condition)) in batch.iter().zip(&conditions).enumerate() {
            let first = i * query.sums.len();
            if !query.keys.is_empty() {
                let size = totals.estimate(first);
                let empty = size.value < 0.5 && size.std_error < 0.1;
                let doubtful = query.values(*group).any(|value| value.doubtful);
                if empty || (doubtful && size.value <= 2.0 * size.std_error) {
                    continue;
                }
            }
            let others = query.quantiles(model, condition)?;
            let mine = &functions[first..first + query.sums.len()];
            let inputs = Inputs { totals: &totals, first, count: mine.len(), others: &others };
            let Some(line) = query.line(*group, &inputs) else { continue };
            let blind = |cell: &Cell| matches!(cell, Cell::Estimate(x) if x.caution == Some(Caution::Unsupported));
            if line.0.iter().any(blind) {
                unsupported.extend(mine.iter().flat_map(Checked::columns));
            }
            lines.push(line);
        }
    }
    lines.sort_by(|(_, a), (_, b)| query.compare(a, b));
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for (cells, _) in lines {
        if !query.distinct || !rows.contains(&cells) {
            rows.push(cells);
        }
    }
    let rows: Vec<_> = rows.into_iter().skip(query.offset).take(query.limit.unwrap_or(usize::MAX)).collect();
    let names = unsupported.into_iter().map(|column| query.schema.columns()[column].name.as_str()).collect();
    Ok(Table {
        columns: query.outputs.iter().map(|(name, _)| name.clone()).collect(),
        kinds: query.outputs.iter().map(|(_, output)| kind(output)).collect(),
        estimated: query.outputs.iter().map(|(_, output)| query.is_estimated(output)).collect(),
        warnings: warnings(query, &rows, names),
        rows,
    })
}

fn kind(output: &Checked) -> ColumnKind {
    match output.kind() {
        Type::Date => ColumnKind::Date,
        Type::Datetime => ColumnKind::Datetime,
        _ => ColumnKind::Plain,
    }
}

fn warnings(query: &Query, rows: &[Vec<Cell>], unsupported: Vec<&str>) -> Vec<String> {
    let cautions = || {
        rows.iter()
            .flatten()
            .filter_map(|cell| if let Cell::Estimate(estimate) = cell { estimate.caution } else { None })
    };
    let estimated: Vec<bool> = query.outputs.iter().map(|(_, output)| query.is_estimated(output)).collect();
    let cells = rows.len() * estimated.iter().filter(|estimated| **estimated).count();
    // Whoever writes CASE or NULL may want it so.
    let numbers =
        query.outputs.iter().zip(estimated).map(|((_, output), estimated)| estimated && !chooses(&output.node));
    let lost = numbers.enumerate().filter(|(_, number)| *number);
    let lost: usize = lost.map(|(at, _)| rows.iter().filter(|row| row[at] == Cell::Null).count()).sum();
    let swamped = cautions().filter(|caution| *caution == Caution::Swamped).count();
    let prior = cautions().filter(|caution| *caution == Caution::Unsupported).count();
    let mut warnings = Vec::new();
    if swamped > 0 {
        warnings.push(format!(
            "in {swamped} of {cells} cells the noise is larger than the group, or than the number divided by; ask for larger groups"
        ));
    }
    if lost > 0 {
        warnings.push(format!(
            "{lost} of {cells} cells have no value (a division by 0, a root or logarithm that does not exist, or no rows); ask for larger groups"
        ));
    }
    if prior > 0 {
        let about = if unsupported.is_empty() { "this".into() } else { unsupported.join(" with ") };
        warnings.push(format!(
            "the release says next to nothing about {about} in {prior} of {cells} cells; the answer is mostly the prior's"
        ));
    }
    warnings
}

/// Whether it says itself where it has no value.
fn chooses(node: &Node) -> bool {
    match node {
        Node::Null | Node::Case { .. } => true,
        Node::Column(_) | Node::Number(_) | Node::Text(_) | Node::Boolean(_) => false,
        Node::Negate(inner) | Node::Not(inner) | Node::IsNull(inner) | Node::Like { text: inner, .. } => chooses(inner),
        Node::Binary(_, left, right) => chooses(left) || chooses(right),
        Node::Call(_, arguments) => arguments.iter().any(chooses),
    }
}

impl Query {
    /// The values of the keys in a group; the last key changes fastest.
    fn values(&self, group: usize) -> impl Iterator<Item = &keys::KeyValue> {
        let mut below: usize = self.keys.iter().map(|key| key.values.len()).product();
        self.keys.iter().map(move |key| {
            below /= key.values.len();
            &key.values[group / below % key.values.len()]
        })
    }

    /// True for the rows of a group that WHERE lets through.
    fn condition(&self, group: usize) -> Node {
        keys::and([self.filter.clone()].into_iter().chain(self.values(group).map(|v| v.condition.clone())).collect())
    }

    /// Whether WHERE can hold for a row of the group, as far as its keys tell.
    fn is_possible(&self, group: usize) -> bool {
        let keys = self.keys.iter().zip(self.values(group)).filter_map(|(key, value)| match key.form {
            Form::Expression(Node::Column(column)) => Some((column, value.cell.scalar())),
            _ => None,
        });
        self.keys.is_empty() || can_hold(&self.filter, &keys.collect())
    }

    fn quantiles(&self, model: &dyn Model, condition: &Node) -> Result<Vec<Estimate>, Error> {
        let mut estimates = Vec::new();
        for quantile in &self.quantiles {
            let node = keys::and(vec![condition.clone(), quantile.condition.clone()]);
            let filter = Checked { node, kind: Type::Boolean };
            estimates.push(task::quantile(model, &quantile.of, &filter, quantile.share)?);
        }
        Ok(estimates)
    }

    /// The cells of a group and what it is sorted by, if HAVING lets it through.
    fn line(&self, group: usize, inputs: &Inputs<'_>) -> Option<(Vec<Cell>, Vec<Value>)> {
        let slots: Vec<Value> = self.slots.iter().map(|slot| self.slot(slot, group, inputs)).collect();
        let value = |checked: &Checked| value(&checked.node, &slots, inputs);
        if let Some(having) = &self.having
            && !matches!(value(having), Value::Boolean(true))
        {
            return None;
        }
        let cells = self.outputs.iter().map(|(_, output)| value(output).into_cell(inputs)).collect();
        Some((cells, self.order.iter().map(|order| value(&order.by)).collect()))
    }

    fn slot(&self, slot: &Slot, group: usize, inputs: &Inputs<'_>) -> Value {
        match slot {
            Slot::Aggregate(aggregate) => aggregate.value(inputs).map_or(Value::Null, Value::Number),
            Slot::Key(key) => match self.values(group).nth(*key).map(|value| &value.cell) {
                Some(Cell::Number(x)) => Value::Number(Dual::exact(*x)),
                Some(Cell::Text(text)) => Value::Text(text.clone()),
                Some(Cell::Boolean(truth)) => Value::Boolean(*truth),
                _ => Value::Null,
            },
        }
    }

    fn is_estimated(&self, output: &Checked) -> bool {
        let number = matches!(output.kind(), Type::Number | Type::Date | Type::Datetime);
        number && output.columns().iter().any(|slot| matches!(self.slots[*slot], Slot::Aggregate(_)))
    }

    fn compare(&self, a: &[Value], b: &[Value]) -> Ordering {
        for ((order, a), b) in self.order.iter().zip(a).zip(b) {
            let this = match (a, b) {
                (Value::Null, Value::Null) => Ordering::Equal,
                (Value::Null, _) if order.nulls_first => return Ordering::Less,
                (Value::Null, _) => return Ordering::Greater,
                (_, Value::Null) if order.nulls_first => return Ordering::Greater,
                (_, Value::Null) => return Ordering::Less,
                (Value::Number(a), Value::Number(b)) => a.held().total_cmp(&b.held()),
                (Value::Text(a), Value::Text(b)) => a.cmp(b),
                (Value::Boolean(a), Value::Boolean(b)) => a.cmp(b),
                _ => Ordering::Equal,
            };
            let this = if order.descending { this.reverse() } else { this };
            if this != Ordering::Equal {
                return this;
            }
        }
        Ordering::Equal
    }
}

/// Whether a condition can be true, given the values of some columns.
fn can_hold(condition: &Node, known: &HashMap<usize, Scalar<'_>>) -> bool {
    match condition {
        Node::Binary(Op::And, a, b) => can_hold(a, known) && can_hold(b, known),
        Node::Binary(Op::Or, a, b) => can_hold(a, known) || can_hold(b, known),
        _ => {
            let mut columns = Vec::new();
            condition.each_column(&mut |column| columns.push(column));
            columns.iter().any(|column| !known.contains_key(column))
                || condition.value(&|column| known[&column]) == Scalar::Boolean(true)
        }
    }
}

impl Value {
    fn scalar(&self) -> Scalar<'_> {
        match self {
            Self::Null => Scalar::Null,
            Self::Text(text) => Scalar::Text(text),
            Self::Boolean(truth) => Scalar::Boolean(*truth),
            Self::Number(number) => Scalar::Number(number.held()),
        }
    }

    fn truth(truth: Scalar<'_>) -> Self {
        if let Scalar::Boolean(truth) = truth { Self::Boolean(truth) } else { Self::Null }
    }

    fn into_cell(self, inputs: &Inputs<'_>) -> Cell {
        match self {
            Self::Null => Cell::Null,
            Self::Text(text) => Cell::Text(text),
            Self::Boolean(truth) => Cell::Boolean(truth),
            Self::Number(number) if number.is_exact() => Cell::Number(number.value),
            Self::Number(number) => Cell::Estimate(inputs.estimate(&number)),
        }
    }
}

/// The value of an expression over the slots of a line.
pub(super) fn value(node: &Node, slots: &[Value], inputs: &Inputs<'_>) -> Value {
    let of = |node: &Node| value(node, slots, inputs);
    match node {
        Node::Column(slot) => slots[*slot].clone(),
        Node::Number(x) => Value::Number(Dual::exact(*x)),
        Node::Text(text) => Value::Text(text.clone()),
        Node::Boolean(truth) => Value::Boolean(*truth),
        Node::Null => Value::Null,
        Node::Negate(inner) => match of(inner) {
            Value::Number(number) => Value::Number(number.negate()),
            _ => Value::Null,
        },
        Node::Not(inner) => match of(inner) {
            Value::Boolean(truth) => Value::Boolean(!truth),
            _ => Value::Null,
        },
        Node::IsNull(inner) => Value::Boolean(matches!(of(inner), Value::Null)),
        Node::Like { text, pattern, ignore_case } => match of(text) {
            Value::Text(text) => Value::Boolean(expr::like(&text, pattern, *ignore_case)),
            _ => Value::Null,
        },
        Node::Case { branches, otherwise } => branches
            .iter()
            .find(|(condition, _)| matches!(of(condition), Value::Boolean(true)))
            .map_or_else(|| of(otherwise), |(_, result)| of(result)),
        Node::Call(Function::Coalesce, arguments) => {
            arguments.iter().map(of).find(|value| !matches!(value, Value::Null)).unwrap_or(Value::Null)
        }
        Node::Call(function, arguments) => {
            let number = |node| if let Value::Number(number) = of(node) { Some(number) } else { None };
            let numbers: Option<Vec<Dual>> = arguments.iter().map(number).collect();
            numbers.and_then(|n| Dual::call(*function, &n, inputs)).map_or(Value::Null, Value::Number)
        }
        Node::Binary(op, left, right) => match (op.is_arithmetic(), of(left), of(right)) {
            (true, Value::Number(a), Value::Number(b)) => {
                Dual::binary(*op, &a, &b, inputs).map_or(Value::Null, Value::Number)
            }
            (true, ..) => Value::Null,
            (false, a, b) => Value::truth(expr::binary(*op, a.scalar(), || b.scalar())),
        },
    }
}
