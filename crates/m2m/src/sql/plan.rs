//! From a SELECT to what has to be added up over the rows, and what is made of the totals.

use sqlparser::ast::{self, SetExpr};

use super::aggregate::{Aggregate, Law, Quantile, RowSum};
use super::dual::ANY;
use super::keys::{self, Form, Key};
use super::read::{arguments, expression, fail, number, select, single_rows};
use super::{Query, names};
use crate::expr::{Checked, Expr, Node, Op, Scalar, Type, find_column, nearest};
use crate::schema::{Column, Kind, Unit};
use crate::{Error, Schema};

/// What a column of a line of the answer is, before arithmetic.
#[derive(Clone, Debug)]
pub(super) enum Slot {
    Key(usize),
    Aggregate(Aggregate),
}

/// What lines are sorted by.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub by: Checked,
    pub descending: bool,
    pub nulls_first: bool,
}

pub(super) fn plan(text: &str, schema: &Schema) -> Result<Query, Error> {
    let tree = select(text)?;
    let select = only_select(&tree)?;
    let items = select.projection.iter().map(item).collect::<Result<Vec<_>, _>>()?;

    let mut binder = Binder::new(schema);
    let filter = match &select.selection {
        Some(condition) => row(condition, schema)?.check_condition(schema)?.node,
        None => Node::Boolean(true),
    };
    binder.group(select, &items)?;
    keys::count(&binder.keys)?;

    let mut outputs = Vec::new();
    for item in &items {
        let expr = binder.line(item.tree)?;
        if let Some(alias) = item.alias {
            binder.aliases.push((alias.to_owned(), expr.clone()));
        }
        outputs.push((item.name(), expr));
    }
    let having = select.having.as_ref().map(|condition| binder.line(condition)).transpose()?;
    let order = binder.order(&tree, &outputs)?;
    let (limit, offset) = limits(&tree, schema)?;

    let slots = binder.slot_schema()?;
    let check = |expr: &Expr| expr.check(&slots);
    Ok(Query {
        filter,
        outputs: outputs.iter().map(|(name, expr)| Ok((name.clone(), check(expr)?))).collect::<Result<_, Error>>()?,
        having: having.map(|condition| condition.check_condition(&slots)).transpose()?,
        order: order
            .into_iter()
            .map(|(expr, descending, nulls_first)| Ok(Order { by: check(&expr)?, descending, nulls_first }))
            .collect::<Result<_, Error>>()?,
        distinct: select.distinct.is_some(),
        limit,
        offset,
        keys: binder.keys,
        sums: binder.sums,
        quantiles: binder.quantiles,
        slots: binder.slots,
        schema: schema.clone(),
    })
}

struct Item<'a> {
    tree: &'a ast::Expr,
    alias: Option<&'a str>,
}

impl Item<'_> {
    fn name(&self) -> String {
        self.alias.map_or_else(|| plain(self.tree).to_string(), str::to_owned)
    }
}

fn item(item: &ast::SelectItem) -> Result<Item<'_>, Error> {
    match item {
        ast::SelectItem::UnnamedExpr(tree) => Ok(Item { tree, alias: None }),
        ast::SelectItem::ExprWithAlias { expr, alias } => Ok(Item { tree: expr, alias: Some(&alias.value) }),
        _ => Err(single_rows()),
    }
}

/// The one plain SELECT of a query.
fn only_select(query: &ast::Query) -> Result<&ast::Select, Error> {
    if query.with.is_some() {
        return fail("WITH is not possible; ask each part as a query of its own");
    }
    let select = match query.body.as_ref() {
        SetExpr::Select(select) => select,
        SetExpr::SetOperation { .. } => {
            return fail("UNION and its like are not possible; ask each part as a query of its own");
        }
        SetExpr::Query(_) => return fail("the query stands in parentheses; leave them out"),
        _ => return fail("a release can only be read; write a SELECT"),
    };
    match &select.from[..] {
        [] => {}
        [table] if table.joins.is_empty() => match &table.relation {
            ast::TableFactor::Table { args: None, sample: None, .. } => {}
            ast::TableFactor::Derived { .. } => {
                return fail("subqueries are not possible; ask each part as a query of its own");
            }
            _ => return fail("FROM takes the name of one table; write any name, a release holds one table"),
        },
        _ => return fail("joins are not possible, as a release holds one table; ask about its own columns"),
    }
    if !select.named_window.is_empty() || select.qualify.is_some() {
        return fail("window functions are not possible; group by the columns instead");
    }
    let more = query.fetch.is_some()
        || !query.locks.is_empty()
        || query.for_clause.is_some()
        || query.settings.is_some()
        || query.format_clause.is_some()
        || !query.pipe_operators.is_empty()
        || select.top.is_some()
        || select.into.is_some()
        || select.exclude.is_some()
        || select.prewhere.is_some()
        || select.value_table_mode.is_some()
        || !select.lateral_views.is_empty()
        || !select.connect_by.is_empty()
        || !select.cluster_by.is_empty()
        || !select.distribute_by.is_empty()
        || !select.sort_by.is_empty()
        || matches!(select.distinct, Some(ast::Distinct::On(_)));
    if more {
        return fail(
            "only SELECT, FROM, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT and OFFSET are possible; leave the rest out",
        );
    }
    if select.projection.is_empty() {
        return fail("nothing is asked for; write for instance SELECT COUNT(*)");
    }
    Ok(select)
}

fn limits(query: &ast::Query, schema: &Schema) -> Result<(Option<usize>, usize), Error> {
    let (limit, offset) = match &query.limit_clause {
        None => (None, None),
        Some(ast::LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
        }
        Some(ast::LimitClause::OffsetCommaLimit { offset, limit }) => (Some(limit), Some(offset)),
        Some(_) => return fail("LIMIT BY is not possible; write LIMIT and OFFSET"),
    };
    let whole = |tree: &ast::Expr| match constant(tree, schema)? {
        Some(x) if x >= 0.0 && x.fract() == 0.0 => Ok(x as usize),
        _ => fail("LIMIT and OFFSET need whole numbers from 0; write for instance LIMIT 10"),
    };
    Ok((limit.map(whole).transpose()?, offset.map(whole).transpose()?.unwrap_or(0)))
}

/// A number that needs no row.
fn constant(tree: &ast::Expr, schema: &Schema) -> Result<Option<f64>, Error> {
    let checked = row(tree, schema)?.check(schema)?;
    if !checked.columns().is_empty() {
        return Ok(None);
    }
    Ok(match checked.value(&|_| Scalar::Null) {
        Scalar::Number(x) => Some(x),
        _ => None,
    })
}

/// A tree as an expression over one row.
pub(super) fn row(tree: &ast::Expr, schema: &Schema) -> Result<Expr, Error> {
    expression(tree, Some(schema), &mut |part| match part {
        ast::Expr::Function(function) if names::is_aggregate(&function.name.to_string()) => fail(format!(
            "{} stands where only one row is seen; put conditions on aggregates into HAVING",
            function.name
        )),
        ast::Expr::Function(function) if is_bin(function) => {
            fail("bin is for GROUP BY; elsewhere compare the column, as in age >= 40")
        }
        ast::Expr::Identifier(name) if name.quote_style == Some('"') && find_column(schema, &name.value).is_err() => {
            fail(format!("there is no column `{}`; put texts in single quotes", name.value))
        }
        _ => Ok(None),
    })
}

fn is_bin(function: &ast::Function) -> bool {
    function.name.to_string().eq_ignore_ascii_case("bin")
}

fn has_aggregate(tree: &ast::Expr) -> bool {
    let mut found = false;
    let _ = expression(tree, None, &mut |part| match part {
        ast::Expr::Function(function) if names::is_aggregate(&function.name.to_string()) => {
            found = true;
            Ok(Some(Expr::Null))
        }
        ast::Expr::Function(function) if is_bin(function) => Ok(Some(Expr::Null)),
        _ => Ok(None),
    });
    found
}

/// What is within parentheses.
fn plain(tree: &ast::Expr) -> &ast::Expr {
    if let ast::Expr::Nested(inner) = tree { plain(inner) } else { tree }
}

struct Binder<'a> {
    schema: &'a Schema,
    keys: Vec<Key>,
    sums: Vec<RowSum>,
    quantiles: Vec<Quantile>,
    slots: Vec<Slot>,
    /// The slots as columns, so that what is made of them is checked as any expression.
    columns: Vec<Column>,
    aliases: Vec<(String, Expr)>,
    /// Whether a name means an alias before it means a column, as in ORDER BY.
    alias_first: bool,
    aggregates: bool,
}

impl<'a> Binder<'a> {
    fn new(schema: &'a Schema) -> Self {
        Self {
            schema,
            keys: Vec::new(),
            // The size of the group itself, which tells groups that are known to be empty.
            sums: vec![RowSum { condition: Node::Boolean(true), value: None }],
            quantiles: Vec::new(),
            slots: Vec::new(),
            columns: Vec::new(),
            aliases: Vec::new(),
            alias_first: false,
            aggregates: false,
        }
    }

    /// The keys of GROUP BY, or of DISTINCT where there is none.
    fn group(&mut self, select: &ast::Select, items: &[Item<'_>]) -> Result<(), Error> {
        self.aggregates = items.iter().any(|item| has_aggregate(item.tree)) || select.having.is_some();
        let unaggregated = || items.iter().map(|item| item.tree).filter(|tree| !has_aggregate(tree));
        let trees: Vec<&ast::Expr> = match &select.group_by {
            ast::GroupByExpr::All(modifiers) | ast::GroupByExpr::Expressions(_, modifiers) if !modifiers.is_empty() => {
                return fail("ROLLUP, CUBE and the like are not possible; ask for each grouping by itself");
            }
            ast::GroupByExpr::All(_) => unaggregated().collect(),
            ast::GroupByExpr::Expressions(trees, _) if trees.is_empty() => {
                if select.distinct.is_some() && !self.aggregates { unaggregated().collect() } else { Vec::new() }
            }
            ast::GroupByExpr::Expressions(trees, _) => {
                trees.iter().map(|tree| self.meant(tree, items)).collect::<Result<_, _>>()?
            }
        };
        for tree in trees {
            let tree = plain(tree);
            let key = match tree {
                ast::Expr::Rollup(_) | ast::Expr::Cube(_) | ast::Expr::GroupingSets(_) => {
                    return fail("ROLLUP, CUBE and the like are not possible; ask for each grouping by itself");
                }
                ast::Expr::Function(function) if is_bin(function) => {
                    let (column, cells) = self.bin(function)?;
                    Key::bin(self.schema, column, cells)?
                }
                _ => {
                    let checked = row(tree, self.schema)?.check(self.schema)?;
                    if checked.columns().is_empty() && select.distinct.is_some() {
                        continue;
                    }
                    Key::expression(self.schema, &checked, &tree.to_string())?
                }
            };
            if self.keys.iter().all(|other| other.form != key.form) {
                self.slot(&tree.to_string(), key.kind.clone(), Slot::Key(self.keys.len()));
                self.keys.push(key);
            }
        }
        Ok(())
    }

    /// What an ordinal or alias in GROUP BY stands for.
    fn meant<'t>(&self, tree: &'t ast::Expr, items: &[Item<'t>]) -> Result<&'t ast::Expr, Error> {
        match plain(tree) {
            ast::Expr::Value(_) => Ok(items[self.ordinal(tree, items.len())?].tree),
            ast::Expr::Identifier(name) if find_column(self.schema, &name.value).is_err() => {
                let item = items.iter().find(|item| item.alias.is_some_and(|alias| same_name(alias, &name.value)));
                Ok(item.map_or(tree, |item| item.tree))
            }
            _ => Ok(tree),
        }
    }

    fn ordinal(&self, tree: &ast::Expr, count: usize) -> Result<usize, Error> {
        match constant(tree, self.schema)? {
            Some(x) if x.fract() == 0.0 && x >= 1.0 && x <= count as f64 => Ok(x as usize - 1),
            _ => fail(format!("`{tree}` does not name a column of the answer; give a number from 1 to {count}")),
        }
    }

    fn bin(&self, function: &ast::Function) -> Result<(usize, usize), Error> {
        let usage = "bin takes a column and a number of cells; write for instance bin(age, 10)";
        let [column, cells] = arguments(function)?[..] else { return fail(usage) };
        let Node::Column(column) = row(column, self.schema)?.check(self.schema)?.node else { return fail(usage) };
        match constant(cells, self.schema)? {
            Some(cells) if cells.fract() == 0.0 && cells >= 1.0 => Ok((column, cells as usize)),
            _ => fail(usage),
        }
    }

    /// A slot of this name, as an expression.
    fn slot(&mut self, name: &str, kind: Kind, slot: Slot) -> Expr {
        self.slots.push(slot);
        self.columns.push(Column { name: name.to_owned(), kind, nullable: true, missing: Vec::new() });
        Expr::Column(name.to_owned())
    }

    fn slot_schema(&self) -> Result<Schema, Error> {
        let mut columns = self.columns.clone();
        if columns.is_empty() {
            // A schema has at least one column; no expression can name this one.
            columns.push(Column { name: " ".into(), kind: Kind::Boolean, nullable: true, missing: Vec::new() });
        }
        Schema::new(Unit::Row, columns)
    }

    /// A tree as an expression over the slots.
    fn line(&mut self, tree: &ast::Expr) -> Result<Expr, Error> {
        expression(tree, None, &mut |part| self.leaf(part))
    }

    fn leaf(&mut self, tree: &ast::Expr) -> Result<Option<Expr>, Error> {
        let form = match tree {
            ast::Expr::Nested(_) | ast::Expr::Value(_) | ast::Expr::TypedString(_) => return Ok(None),
            ast::Expr::Function(function) if names::is_aggregate(&function.name.to_string()) => {
                return self.aggregate(function).map(Some);
            }
            ast::Expr::Function(function) if is_bin(function) => {
                let (column, cells) = self.bin(function)?;
                Some(Form::Bin { column, cells })
            }
            _ if self.keys.is_empty() => None,
            _ => row(tree, self.schema)
                .and_then(|expr| expr.check(self.schema))
                .ok()
                .map(|checked| Form::Expression(checked.node)),
        };
        let name = match tree {
            ast::Expr::Identifier(name) => Some(&name.value),
            ast::Expr::CompoundIdentifier(names) => names.last().map(|name| &name.value),
            _ => None,
        };
        let alias = name.and_then(|name| self.aliases.iter().find(|(alias, _)| same_name(alias, name)));
        if let (Some((_, expr)), true) = (alias, self.alias_first) {
            return Ok(Some(expr.clone()));
        }
        let key = form.and_then(|form| self.keys.iter().position(|key| key.form == form));
        if let Some(key) = key {
            let slot = self.slots.iter().position(|slot| matches!(slot, Slot::Key(this) if *this == key));
            return Ok(slot.map(|slot| Expr::Column(self.columns[slot].name.clone())));
        }
        match (name, alias) {
            (None, _) if matches!(tree, ast::Expr::Function(function) if is_bin(function)) => {
                fail(format!("`{tree}` is not what the rows are grouped by; add it to GROUP BY"))
            }
            (None, _) => Ok(None),
            (Some(_), Some((_, expr))) => Ok(Some(expr.clone())),
            (Some(name), None) => Err(self.ungrouped(name)),
        }
    }

    fn ungrouped(&self, name: &str) -> Error {
        match find_column(self.schema, name) {
            Err(error) => match nearest(name, self.aliases.iter().map(|(alias, _)| alias.as_str())) {
                Some(near) => Error::Question(format!("there is no column `{name}`; did you mean `{near}`?")),
                None => error,
            },
            Ok(_) if self.keys.is_empty() && !self.aggregates => single_rows(),
            Ok(column) => {
                let column = &self.schema.columns()[column];
                let instead = match column.kind {
                    Kind::Category(_) => format!("add it to GROUP BY, or write COUNT({})", column.name),
                    _ => format!("add it to GROUP BY, or write AVG({})", column.name),
                };
                Error::Question(format!("`{}` is neither grouped nor aggregated; {instead}", column.name))
            }
        }
    }

    fn order(&mut self, query: &ast::Query, outputs: &[(String, Expr)]) -> Result<Vec<(Expr, bool, bool)>, Error> {
        let trees = match query.order_by.as_ref().map(|order| &order.kind) {
            None => return Ok(Vec::new()),
            Some(ast::OrderByKind::Expressions(trees)) => trees,
            Some(ast::OrderByKind::All(_)) => return fail("ORDER BY ALL is not possible; name the columns"),
        };
        self.alias_first = true;
        let mut order = Vec::new();
        for tree in trees {
            let descending = match &tree.options.sort {
                None | Some(ast::OrderBySort::Asc) => false,
                Some(ast::OrderBySort::Desc) => true,
                Some(_) => return fail("ORDER BY ... USING is not possible; write ASC or DESC"),
            };
            let by = match plain(&tree.expr) {
                ast::Expr::Value(_) => outputs[self.ordinal(&tree.expr, outputs.len())?].1.clone(),
                expr => self.line(expr)?,
            };
            order.push((by, descending, tree.options.nulls_first.unwrap_or(false)));
        }
        Ok(order)
    }

    /// The place of a sum over rows, shared with an equal one.
    fn sum(&mut self, condition: Node, value: Option<Node>) -> usize {
        let sum = RowSum { condition, value };
        self.sums.iter().position(|other| *other == sum).unwrap_or_else(|| {
            self.sums.push(sum);
            self.sums.len() - 1
        })
    }

    fn aggregate(&mut self, function: &ast::Function) -> Result<Expr, Error> {
        let text = function.to_string();
        if let Some(known) = self.columns.iter().position(|column| column.name == text) {
            return Ok(Expr::Column(self.columns[known].name.clone()));
        }
        let name = function.name.to_string().to_ascii_lowercase();
        if function.over.is_some() {
            return fail("window functions are not possible; group by the columns instead");
        }
        if let ast::FunctionArguments::List(list) = &function.args {
            if list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct) {
                return fail(format!(
                    "{name}(DISTINCT ...) is not possible, as a release does not tell which values occur; group by the column and count"
                ));
            }
            if !list.clauses.is_empty() {
                return fail(format!("{name} takes plain arguments; leave out what follows them"));
            }
        }
        let condition = match &function.filter {
            Some(filter) => row(filter, self.schema)?.check_condition(self.schema)?.node,
            None => Node::Boolean(true),
        };
        let all = match &function.args {
            ast::FunctionArguments::None => true,
            ast::FunctionArguments::Subquery(_) => false,
            ast::FunctionArguments::List(list) => matches!(
                &list.args[..],
                [] | [ast::FunctionArg::Unnamed(
                    ast::FunctionArgExpr::Wildcard | ast::FunctionArgExpr::QualifiedWildcard(_)
                )]
            ),
        };
        if name == "count" && all {
            let law = Aggregate { law: Law::Count, ..Aggregate::of(vec![self.sum(condition, None)]) };
            return Ok(self.slot(&text, keys::wide(Type::Number), Slot::Aggregate(law)));
        }
        let arguments = arguments(function)?;
        names::refuse(&name, &arguments.first().map_or("x".into(), ToString::to_string))?;
        if !function.within_group.is_empty() && name != "percentile_cont" {
            return fail(format!("{name} takes no WITHIN GROUP; leave it out"));
        }
        let (of_one, of_two) = (Law::of_one(&name), Law::of_two(&name));
        let (aggregate, kind) = match (name.as_str(), &arguments[..]) {
            ("count", [of]) => {
                let of = row(of, self.schema)?.check(self.schema)?.node;
                let place = self.sum(keys::and(vec![condition, given(&of)]), None);
                (Aggregate { law: Law::Count, ..Aggregate::of(vec![place]) }, Type::Number)
            }
            ("sum", [of]) => {
                let (of, _) = self.numeric(of, &name)?;
                (self.total(condition, of), Type::Number)
            }
            ("median", [of]) => self.quantile(condition, of, 0.5, &name)?,
            ("approx_quantile" | "quantile_cont", [of, share]) => {
                let share = self.share(share)?;
                self.quantile(condition, of, share, &name)?
            }
            ("percentile_cont", [share]) if function.within_group.len() == 1 => {
                let by = &function.within_group[0];
                let share = self.share(share)?;
                let share = if by.options.sort == Some(ast::OrderBySort::Desc) { 1.0 - share } else { share };
                self.quantile(condition, &by.expr, share, &name)?
            }
            (_, [of]) if of_one.is_some() => {
                let law = of_one.expect("just seen");
                let (of, kind) = self.numeric(of, &name)?;
                (self.moments(condition, of, law), if law == Law::Mean { kind } else { Type::Number })
            }
            (_, [y, x]) if of_two.is_some() => {
                let ((y, _), (x, _)) = (self.numeric(y, &name)?, self.numeric(x, &name)?);
                (self.joint_moments(condition, y, x, of_two.expect("just seen")), Type::Number)
            }
            _ => return fail(usage(&name)),
        };
        Ok(self.slot(&text, keys::wide(kind), Slot::Aggregate(aggregate)))
    }

    /// An argument that must be a number; truth counts as 1 and 0.
    fn numeric(&self, tree: &ast::Expr, name: &str) -> Result<(Node, Type), Error> {
        let expr = row(tree, self.schema)?;
        let checked = expr.check(self.schema)?;
        match checked.kind() {
            Type::Boolean => Ok((number(expr).check(self.schema)?.node, Type::Number)),
            Type::Text | Type::Null => fail(format!(
                "{} needs numbers, and `{tree}` is {}; count its levels with COUNT(*) and GROUP BY",
                name.to_uppercase(),
                checked.kind().name()
            )),
            kind => Ok((checked.node, kind)),
        }
    }

    fn share(&self, tree: &ast::Expr) -> Result<f64, Error> {
        match constant(tree, self.schema)? {
            Some(share) if (0.0..=1.0).contains(&share) => Ok(share),
            _ => fail("a quantile needs a share from 0 to 1; write 0.5 for the median"),
        }
    }

    fn quantile(
        &mut self,
        condition: Node,
        of: &ast::Expr,
        share: f64,
        name: &str,
    ) -> Result<(Aggregate, Type), Error> {
        let (node, kind) = self.numeric(of, name)?;
        self.quantiles.push(Quantile { of: Checked { node, kind }, condition, share });
        let law = Law::Quantile(self.quantiles.len() - 1);
        Ok((Aggregate { law, bounds: law.bounds(ANY), ..Aggregate::of(Vec::new()) }, kind))
    }

    fn total(&mut self, condition: Node, of: Node) -> Aggregate {
        let (low, high) = Aggregate::range(&of, self.schema);
        let bounds = (if low >= 0.0 { 0.0 } else { f64::NEG_INFINITY }, if high <= 0.0 { 0.0 } else { f64::INFINITY });
        Aggregate { law: Law::Sum, bounds, ..Aggregate::of(vec![self.sum(condition, Some(of))]) }
    }

    fn moments(&mut self, condition: Node, of: Node, law: Law) -> Aggregate {
        let range = Aggregate::range(&of, self.schema);
        let centre = middle(range);
        let count = self.sum(keys::and(vec![condition.clone(), given(&of)]), None);
        let off = centred(of, centre);
        let mut power = off.clone();
        let mut sums = vec![count];
        for order in 1..=law.order() {
            if order > 1 {
                power = times(power, off.clone());
            }
            sums.push(self.sum(condition.clone(), Some(power.clone())));
        }
        Aggregate { law, centres: [centre, 0.0], bounds: law.bounds(range), ..Aggregate::of(sums) }
    }

    fn joint_moments(&mut self, condition: Node, y: Node, x: Node, law: Law) -> Aggregate {
        let centres = [&y, &x].map(|of| middle(Aggregate::range(of, self.schema)));
        let both = keys::and(vec![condition, given(&y), given(&x)]);
        let (y, x) = (centred(y, centres[0]), centred(x, centres[1]));
        let mut sums = vec![self.sum(both.clone(), None)];
        for value in [y.clone(), x.clone(), times(y.clone(), y.clone()), times(y, x.clone()), times(x.clone(), x)] {
            sums.push(self.sum(both.clone(), Some(value)));
        }
        Aggregate { law, centres, bounds: law.bounds(ANY), ..Aggregate::of(sums) }
    }
}

fn same_name(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

/// Whether there is a value.
fn given(node: &Node) -> Node {
    Node::Not(Box::new(Node::IsNull(Box::new(node.clone()))))
}

fn centred(node: Node, centre: f64) -> Node {
    if centre == 0.0 {
        return node;
    }
    Node::Binary(Op::Subtract, Box::new(node), Box::new(Node::Number(centre)))
}

fn times(a: Node, b: Node) -> Node {
    Node::Binary(Op::Multiply, Box::new(a), Box::new(b))
}

fn middle((low, high): (f64, f64)) -> f64 {
    let middle = low / 2.0 + high / 2.0;
    if middle.is_finite() { middle } else { 0.0 }
}

fn usage(name: &str) -> String {
    let example = match name {
        "count" => "COUNT(*)".into(),
        "percentile_cont" => "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age)".into(),
        "approx_quantile" | "quantile_cont" => format!("{}(age, 0.5)", name.to_uppercase()),
        _ if Law::of_two(name).is_some() => format!("{}(y, x)", name.to_uppercase()),
        _ => format!("{}(age)", name.to_uppercase()),
    };
    format!("{name} does not take these arguments; write for instance {example}")
}
