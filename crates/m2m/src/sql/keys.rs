//! What rows are grouped by: expressions that take few values, all of them known from the schema.

use std::collections::HashMap;

use super::Cell;
use super::read::fail;
use crate::expr::{Checked, Node, OTHER, Op, Scalar, Type};
use crate::schema::{Column, Kind, Range};
use crate::{Error, Schema};

/// How many values a column of numbers may have to be grouped by each.
const MAX_VALUES: f64 = 1000.0;
/// How many combinations of column values are tried to find the values of an expression.
const MAX_TRIED: usize = 100_000;
const MAX_GROUPS: usize = 10_000;

/// Something that rows are grouped by.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub form: Form,
    /// What its values are like.
    pub kind: Kind,
    pub values: Vec<KeyValue>,
}

/// How a key is recognised elsewhere in the query.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    /// An expression over a row.
    Expression(Node),
    /// Cells of equal width over the range of a column.
    Bin { column: usize, cells: usize },
}

/// One value of a key.
#[derive(Clone, Debug)]
pub(super) struct KeyValue {
    pub cell: Cell,
    /// True for the rows that have it.
    pub condition: Node,
    /// Whether it holds only rows with unlisted levels, of which there may well be none.
    pub doubtful: bool,
}

impl Key {
    /// Cells of equal width of the public range of a column; each is named by its lower edge.
    pub fn bin(schema: &Schema, column: usize, cells: usize) -> Result<Self, Error> {
        let Column { name, kind, nullable, .. } = &schema.columns()[column];
        let Some(range) = kind.range() else {
            return fail(format!("bin needs a column of numbers or dates; group by {name} itself"));
        };
        if !(1..=MAX_VALUES as usize).contains(&cells) {
            return fail("bin needs a number of cells from 1 to 1000; write for instance bin(age, 10)");
        }
        let edge = |i: usize| {
            let edge = range.min() + (range.max() - range.min()) * i as f64 / cells as f64;
            if kind.is_whole() { edge.ceil() } else { edge }
        };
        let node = Node::Column(column);
        let mut values = Vec::new();
        for i in 0..cells {
            let last = i + 1 == cells;
            let (low, high) = (edge(i), if last { range.max() } else { edge(i + 1) });
            if low >= high && !last {
                continue;
            }
            let above = compare(Op::GreaterOrEqual, &node, Node::Number(low));
            let below = compare(if last { Op::LessOrEqual } else { Op::Less }, &node, Node::Number(high));
            let condition = and(vec![above, below]);
            values.push(KeyValue { cell: Cell::Number(low), condition, doubtful: false });
        }
        if *nullable {
            values.push(null(&node));
        }
        Ok(Self { form: Form::Bin { column, cells }, kind: kind.clone(), values })
    }

    /// The values of an expression.
    pub fn expression(schema: &Schema, expr: &Checked, text: &str) -> Result<Self, Error> {
        let columns = expr.columns();
        if columns.is_empty() {
            return fail(format!("grouping by `{text}` makes one group; group by a column"));
        }
        let values = match enumerate(schema, expr, &columns)? {
            Some(values) => values,
            None => few(schema, expr, &columns, text)?,
        };
        let kind = match (&expr.node, expr.kind()) {
            (Node::Column(column), _) => schema.columns()[*column].kind.clone(),
            (_, Type::Boolean) => Kind::Boolean,
            (_, Type::Text) => Kind::Category(
                values
                    .iter()
                    .filter_map(|value| if let Cell::Text(text) = &value.cell { Some(text.clone()) } else { None })
                    .collect(),
            ),
            (_, kind) => wide(kind),
        };
        Ok(Self { form: Form::Expression(expr.node.clone()), kind, values })
    }
}

/// Numbers, days or moments without bounds to speak of.
pub(super) fn wide(kind: Type) -> Kind {
    let range = |size: f64| Range::new(-size, size).expect("a valid range");
    match kind {
        Type::Date => Kind::Date(range(1e12)),
        Type::Datetime => Kind::Datetime(range(1e15)),
        _ => Kind::Number(range(1e99)),
    }
}

/// The number of groups that several keys make.
pub(super) fn count(keys: &[Key]) -> Result<usize, Error> {
    let groups = keys.iter().fold(1usize, |product, key| product.saturating_mul(key.values.len()));
    if groups > MAX_GROUPS {
        return fail(format!(
            "there would be {groups} groups, and at most {MAX_GROUPS} are possible; group by fewer columns, or by bin(x, 10)"
        ));
    }
    Ok(groups)
}

/// All of several conditions; the constant 1 if there is none.
pub(super) fn and(conditions: Vec<Node>) -> Node {
    let real = conditions.into_iter().filter(|condition| *condition != Node::Boolean(true));
    real.reduce(|a, b| Node::Binary(Op::And, Box::new(a), Box::new(b))).unwrap_or(Node::Boolean(true))
}

fn compare(op: Op, node: &Node, value: Node) -> Node {
    Node::Binary(op, Box::new(node.clone()), Box::new(value))
}

fn null(node: &Node) -> KeyValue {
    KeyValue { cell: Cell::Null, condition: Node::IsNull(Box::new(node.clone())), doubtful: false }
}

fn value(node: &Node, scalar: Scalar<'_>, doubtful: bool) -> KeyValue {
    let (cell, condition) = match scalar {
        Scalar::Null => return null(node),
        Scalar::Number(x) => (Cell::Number(x), compare(Op::Equal, node, Node::Number(x))),
        Scalar::Text(text) => (Cell::Text(text.into()), compare(Op::Equal, node, Node::Text(text.into()))),
        Scalar::Boolean(true) => (Cell::Boolean(true), node.clone()),
        Scalar::Boolean(false) => (Cell::Boolean(false), Node::Not(Box::new(node.clone()))),
    };
    KeyValue { cell, condition, doubtful }
}

/// The values that a column can take, if they are few.
fn domain(column: &Column) -> Option<Vec<Scalar<'_>>> {
    let mut values: Vec<Scalar<'_>> = match &column.kind {
        Kind::Category(levels) => levels.iter().map(|level| Scalar::Text(level)).chain([Scalar::Text(OTHER)]).collect(),
        Kind::Boolean => vec![Scalar::Boolean(false), Scalar::Boolean(true)],
        Kind::Integer(range) | Kind::Date(range) if range.max() - range.min() < MAX_VALUES => {
            (0..=(range.max() - range.min()) as usize).map(|i| Scalar::Number(range.min() + i as f64)).collect()
        }
        _ => return None,
    };
    if column.nullable {
        values.push(Scalar::Null);
    }
    Some(values)
}

/// Tries an expression on all values of its columns, if they are few enough.
fn enumerate(schema: &Schema, expr: &Checked, columns: &[usize]) -> Result<Option<Vec<KeyValue>>, Error> {
    let domains: Option<Vec<_>> = columns.iter().map(|column| domain(&schema.columns()[*column])).collect();
    let Some(domains) = domains else { return Ok(None) };
    let tried = domains.iter().fold(1usize, |product, domain| product.saturating_mul(domain.len()));
    if tried > MAX_TRIED {
        return Ok(None);
    }
    let mut values: Vec<KeyValue> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for mut at in 0..tried {
        let mut point = Vec::with_capacity(columns.len());
        for domain in domains.iter().rev() {
            point.push(domain[at % domain.len()]);
            at /= domain.len();
        }
        point.reverse();
        let other = point.contains(&Scalar::Text(OTHER));
        let result = expr.value(&|column| columns.binary_search(&column).map_or(Scalar::Null, |place| point[place]));
        match places.get(&format!("{result:?}")) {
            Some(place) => values[*place].doubtful &= other,
            None => {
                places.insert(format!("{result:?}"), values.len());
                values.push(value(&expr.node, result, other));
            }
        }
    }
    values.sort_by(|a, b| match (&a.cell, &b.cell) {
        (Cell::Number(x), Cell::Number(y)) => x.total_cmp(y),
        (Cell::Boolean(x), Cell::Boolean(y)) => x.cmp(y),
        (x, y) => (*x == Cell::Null).cmp(&(*y == Cell::Null)),
    });
    Ok(Some(values))
}

/// The values of a condition, or of a CASE between constants, over columns with many values.
fn few(schema: &Schema, expr: &Checked, columns: &[usize], text: &str) -> Result<Vec<KeyValue>, Error> {
    let nullable = columns.iter().any(|column| schema.columns()[*column].nullable);
    let mut scalars: Vec<Scalar<'_>> = match &expr.node {
        _ if expr.kind() == Type::Boolean => {
            let null = nullable.then_some(Scalar::Null);
            [Scalar::Boolean(false), Scalar::Boolean(true)].into_iter().chain(null).collect()
        }
        Node::Case { branches, otherwise } => {
            let results = branches.iter().map(|(_, result)| result).chain([otherwise.as_ref()]);
            let constants: Option<Vec<_>> = results.map(constant).collect();
            constants.unwrap_or_default()
        }
        _ => Vec::new(),
    };
    if scalars.is_empty() {
        let name = columns.first().map_or("x", |column| schema.columns()[*column].name.as_str());
        return fail(format!("`{text}` has too many values to group by each; group by bin({name}, 10)"));
    }
    let mut distinct: Vec<Scalar<'_>> = Vec::new();
    scalars.sort_by_key(|scalar| *scalar == Scalar::Null);
    for scalar in scalars {
        if !distinct.contains(&scalar) {
            distinct.push(scalar);
        }
    }
    Ok(distinct.into_iter().map(|scalar| value(&expr.node, scalar, false)).collect())
}

fn constant(node: &Node) -> Option<Scalar<'_>> {
    Some(match node {
        Node::Null => Scalar::Null,
        Node::Number(x) => Scalar::Number(*x),
        Node::Text(text) => Scalar::Text(text),
        Node::Boolean(truth) => Scalar::Boolean(*truth),
        _ => return None,
    })
}
