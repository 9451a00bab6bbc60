//! Binding an expression to a schema: names become places, types are checked, and what remains cannot fail.

use super::{Expr, Function, Op};
use crate::schema::{Kind, time};
use crate::{Error, Schema};

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A number.
    Number,
    /// A day, counted from 1970-01-01.
    Date,
    /// A moment, in seconds from 1970-01-01T00:00:00Z.
    Datetime,
    /// A text: a level of a category.
    Text,
    /// True or false.
    Boolean,
    /// Always null.
    Null,
}

impl Type {
    /// The word for it in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Number => "a number",
            Self::Date => "a date",
            Self::Datetime => "a moment",
            Self::Text => "a text",
            Self::Boolean => "true or false",
            Self::Null => "null",
        }
    }

    fn is_numeric(self) -> bool {
        matches!(self, Self::Number | Self::Date | Self::Datetime)
    }
}

/// An expression bound to a schema. Evaluating it cannot fail.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    pub(crate) node: Node,
    pub(crate) kind: Type,
}

/// An expression with places for names and dates turned into numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Column(usize),
    Number(f64),
    Text(String),
    Boolean(bool),
    Null,
    Negate(Box<Node>),
    Not(Box<Node>),
    Binary(Op, Box<Node>, Box<Node>),
    IsNull(Box<Node>),
    Like { text: Box<Node>, pattern: Vec<char>, ignore_case: bool },
    Case { branches: Vec<(Node, Node)>, otherwise: Box<Node> },
    Call(Function, Vec<Node>),
}

impl Checked {
    /// The type of its value.
    pub fn kind(&self) -> Type {
        self.kind
    }

    /// The column, if it is nothing but one.
    pub(crate) fn plain_column(&self) -> Option<usize> {
        if let Node::Column(column) = self.node { Some(column) } else { None }
    }

    /// Whether it has a value.
    pub(crate) fn known(&self) -> Self {
        Self { node: Node::Not(Box::new(Node::IsNull(Box::new(self.node.clone())))), kind: Type::Boolean }
    }

    /// Whether it is at most a number.
    pub(crate) fn at_most(&self, threshold: f64) -> Self {
        let number = Box::new(Node::Number(threshold));
        Self { node: Node::Binary(Op::LessOrEqual, Box::new(self.node.clone()), number), kind: Type::Boolean }
    }

    /// Whether both conditions are true.
    pub(crate) fn both(self, other: &Self) -> Self {
        match other.node {
            Node::Boolean(true) => self,
            _ => Self {
                node: Node::Binary(Op::And, Box::new(self.node), Box::new(other.node.clone())),
                kind: Type::Boolean,
            },
        }
    }

    /// The columns that it reads, in increasing order.
    pub fn columns(&self) -> Vec<usize> {
        let mut columns = Vec::new();
        self.node.each_column(&mut |column| columns.push(column));
        columns.sort_unstable();
        columns.dedup();
        columns
    }
}

impl Node {
    /// Calls with every column that it reads, as often as it does.
    pub(crate) fn each_column(&self, call: &mut dyn FnMut(usize)) {
        match self {
            Self::Column(column) => call(*column),
            Self::Number(_) | Self::Text(_) | Self::Boolean(_) | Self::Null => {}
            Self::Negate(node) | Self::Not(node) | Self::IsNull(node) | Self::Like { text: node, .. } => {
                node.each_column(call);
            }
            Self::Binary(_, left, right) => {
                left.each_column(call);
                right.each_column(call);
            }
            Self::Case { branches, otherwise } => {
                for (condition, value) in branches {
                    condition.each_column(call);
                    value.each_column(call);
                }
                otherwise.each_column(call);
            }
            Self::Call(_, arguments) => arguments.iter().for_each(|argument| argument.each_column(call)),
        }
    }
}

impl Node {
    /// The numbers that stand in it.
    pub(crate) fn constants(&self, numbers: &mut Vec<f64>) {
        match self {
            Self::Number(x) => numbers.push(*x),
            Self::Column(_) | Self::Text(_) | Self::Boolean(_) | Self::Null => {}
            Self::Negate(node) | Self::Not(node) | Self::IsNull(node) | Self::Like { text: node, .. } => {
                node.constants(numbers);
            }
            Self::Binary(_, left, right) => {
                left.constants(numbers);
                right.constants(numbers);
            }
            Self::Case { branches, otherwise } => {
                for (condition, value) in branches {
                    condition.constants(numbers);
                    value.constants(numbers);
                }
                otherwise.constants(numbers);
            }
            Self::Call(_, arguments) => arguments.iter().for_each(|argument| argument.constants(numbers)),
        }
    }
}

/// Nesting beyond this is refused, so that no text can exhaust the stack.
const MAX_DEPTH: usize = 200;

impl Expr {
    /// Binds names to the columns of a schema and checks types.
    pub fn check(&self, schema: &Schema) -> Result<Checked, Error> {
        let (node, kind) = Checker { schema }.bind(self, 0)?;
        Ok(Checked { node, kind })
    }

    /// The same, for a condition.
    pub fn check_condition(&self, schema: &Schema) -> Result<Checked, Error> {
        let checked = self.check(schema)?;
        match checked.kind {
            Type::Boolean | Type::Null => Ok(checked),
            other => Err(Error::Question(format!(
                "a condition is needed where {} stands; compare it with something, as in age >= 40",
                other.name()
            ))),
        }
    }
}

struct Checker<'a> {
    schema: &'a Schema,
}

type Bound = Result<(Node, Type), Error>;

impl Checker<'_> {
    fn bind(&self, expr: &Expr, depth: usize) -> Bound {
        if depth > MAX_DEPTH {
            return fail("the expression is nested too deeply; write it flatter".into());
        }
        let depth = depth + 1;
        Ok(match expr {
            Expr::Column(name) => {
                let column = find_column(self.schema, name)?;
                (Node::Column(column), type_of(&self.schema.columns()[column].kind))
            }
            Expr::Number(x) if x.is_nan() => return fail("a constant is not a number; leave it out".into()),
            Expr::Number(x) => (Node::Number(*x), Type::Number),
            Expr::Text(text) => (Node::Text(text.clone()), Type::Text),
            Expr::Boolean(truth) => (Node::Boolean(*truth), Type::Boolean),
            Expr::Null => (Node::Null, Type::Null),
            Expr::Negate(inner) => (Node::Negate(Box::new(self.number(inner, "-", depth)?)), Type::Number),
            Expr::Not(inner) => (Node::Not(Box::new(self.condition(inner, "NOT", depth)?)), Type::Boolean),
            Expr::IsNull(inner) => (Node::IsNull(Box::new(self.bind(inner, depth)?.0)), Type::Boolean),
            Expr::Like { text, pattern, ignore_case } => {
                let (node, kind) = self.bind(text, depth)?;
                if !matches!(kind, Type::Text | Type::Null) {
                    return fail(format!("LIKE needs a category, not {}", kind.name()));
                }
                let pattern = pattern.chars().collect();
                (Node::Like { text: Box::new(node), pattern, ignore_case: *ignore_case }, Type::Boolean)
            }
            Expr::Case { branches, otherwise } => self.case(branches, otherwise.as_deref(), depth)?,
            Expr::Call(function, arguments) => self.call(*function, arguments, depth)?,
            Expr::Binary(op @ (Op::And | Op::Or), left, right) => {
                let word = if *op == Op::And { "AND" } else { "OR" };
                let left = self.condition(left, word, depth)?;
                let right = self.condition(right, word, depth)?;
                (Node::Binary(*op, Box::new(left), Box::new(right)), Type::Boolean)
            }
            Expr::Binary(op, left, right) => {
                let (left, right) = (self.bind(left, depth)?, self.bind(right, depth)?);
                if op.compares() {
                    let (left, right) = self.comparable(left, right)?;
                    (Node::Binary(*op, Box::new(left), Box::new(right)), Type::Boolean)
                } else {
                    for (_, kind) in [&left, &right] {
                        if !kind.is_numeric() && *kind != Type::Null {
                            return fail(format!(
                                "`{}` needs numbers, not {}; count levels with CASE, or with COUNT(*) and WHERE",
                                op.symbol(),
                                kind.name()
                            ));
                        }
                    }
                    let kind = match (op, left.1, right.1) {
                        (Op::Add | Op::Subtract, kind @ (Type::Date | Type::Datetime), Type::Number) => kind,
                        _ => Type::Number,
                    };
                    (Node::Binary(*op, Box::new(left.0), Box::new(right.0)), kind)
                }
            }
        })
    }

    fn number(&self, expr: &Expr, what: &str, depth: usize) -> Result<Node, Error> {
        match self.bind(expr, depth)? {
            (node, kind) if kind.is_numeric() || kind == Type::Null => Ok(node),
            (_, kind) => fail(format!("`{what}` needs a number, not {}", kind.name())),
        }
    }

    fn condition(&self, expr: &Expr, what: &str, depth: usize) -> Result<Node, Error> {
        match self.bind(expr, depth)? {
            (node, Type::Boolean | Type::Null) => Ok(node),
            (_, kind) => fail(format!(
                "{what} needs a condition, not {}; compare it with something, as in age >= 40",
                kind.name()
            )),
        }
    }

    /// Both sides of a comparison, with a text turned into a day or moment where the other side is one.
    fn comparable(&self, left: (Node, Type), right: (Node, Type)) -> Result<(Node, Node), Error> {
        let dated = |side: (Node, Type), other: Type| -> Bound {
            match (side, other) {
                ((Node::Text(text), _), Type::Date) => {
                    let day = time::parse_date(&text)
                        .ok_or_else(|| Error::Question(format!("`{text}` is not a date; write it as 2024-12-31")))?;
                    Ok((Node::Number(day), Type::Date))
                }
                ((Node::Text(text), _), Type::Datetime) => {
                    let moment = time::parse_datetime(&text)
                        .or_else(|| time::parse_date(&text).map(|day| day * 86400.0))
                        .ok_or_else(|| {
                            Error::Question(format!("`{text}` is not a moment; write it as 2024-12-31T23:59:59Z"))
                        })?;
                    Ok((Node::Number(moment), Type::Datetime))
                }
                (side, _) => Ok(side),
            }
        };
        let (left_kind, right_kind) = (left.1, right.1);
        let (left, right) = (dated(left, right_kind)?, dated(right, left_kind)?);
        self.level(&left.0, &right.0)?;
        self.level(&right.0, &left.0)?;
        let fits = left.1 == right.1
            || left.1 == Type::Null
            || right.1 == Type::Null
            || (left.1.is_numeric() && right.1.is_numeric());
        if !fits {
            return fail(format!(
                "{} cannot be compared with {}; put texts in single quotes and numbers without",
                left.1.name(),
                right.1.name()
            ));
        }
        Ok((left.0, right.0))
    }

    /// A text that is compared with a category must be one of its levels.
    fn level(&self, column: &Node, text: &Node) -> Result<(), Error> {
        let (Node::Column(column), Node::Text(text)) = (column, text) else { return Ok(()) };
        let column = &self.schema.columns()[*column];
        let Kind::Category(levels) = &column.kind else { return Ok(()) };
        if text == OTHER || levels.contains(text) {
            return Ok(());
        }
        let known = levels.iter().map(String::as_str);
        fail(match nearest(text, known.clone()) {
            Some(near) => format!("column `{}` has no level `{text}`; did you mean '{near}'?", column.name),
            None => format!(
                "column `{}` has no level `{text}`; its levels are {}{}",
                column.name,
                known.take(SHOWN).map(|level| format!("'{level}'")).collect::<Vec<_>>().join(", "),
                if levels.len() > SHOWN { format!(" and {} more", levels.len() - SHOWN) } else { String::new() }
            ),
        })
    }

    fn case(&self, branches: &[(Expr, Expr)], otherwise: Option<&Expr>, depth: usize) -> Bound {
        let mut kind = Type::Null;
        let mut value = |expr: &Expr| {
            let (node, this) = self.bind(expr, depth)?;
            if kind == Type::Null {
                kind = this;
            } else if this != Type::Null && this != kind {
                return fail(format!("a CASE gives both {} and {}; make them alike", kind.name(), this.name()));
            }
            Ok(node)
        };
        let branches = branches
            .iter()
            .map(|(condition, result)| Ok((self.condition(condition, "CASE", depth)?, value(result)?)))
            .collect::<Result<_, Error>>()?;
        let otherwise = Box::new(otherwise.map_or(Ok(Node::Null), value)?);
        Ok((Node::Case { branches, otherwise }, kind))
    }

    fn call(&self, function: Function, arguments: &[Expr], depth: usize) -> Bound {
        let name = format!("{function:?}").to_lowercase();
        let wanted = match function {
            Function::Power => 2..=2,
            Function::Least | Function::Greatest | Function::Coalesce => 1..=usize::MAX,
            Function::Round => 1..=2,
            _ => 1..=1,
        };
        if !wanted.contains(&arguments.len()) {
            return fail(format!("{name} does not take {} arguments", arguments.len()));
        }
        if function == Function::Coalesce {
            let bound = arguments.iter().map(|argument| self.bind(argument, depth)).collect::<Result<Vec<_>, _>>()?;
            let kind = bound.iter().map(|(_, kind)| *kind).find(|kind| *kind != Type::Null).unwrap_or(Type::Null);
            if let Some((_, other)) = bound.iter().find(|(_, this)| *this != kind && *this != Type::Null) {
                return fail(format!("coalesce gives both {} and {}; make them alike", kind.name(), other.name()));
            }
            return Ok((Node::Call(function, bound.into_iter().map(|(node, _)| node).collect()), kind));
        }
        let nodes = arguments.iter().map(|argument| self.number(argument, &name, depth)).collect::<Result<_, _>>()?;
        Ok((Node::Call(function, nodes), Type::Number))
    }
}

/// Levels that a message names.
const SHOWN: usize = 12;

/// How rows with a level that the schema does not list are called.
pub(crate) const OTHER: &str = "(other)";

fn type_of(kind: &Kind) -> Type {
    match kind {
        Kind::Number(_) | Kind::Integer(_) => Type::Number,
        Kind::Date(_) => Type::Date,
        Kind::Datetime(_) => Type::Datetime,
        Kind::Boolean => Type::Boolean,
        Kind::Category(_) => Type::Text,
    }
}

impl Op {
    pub(crate) fn compares(self) -> bool {
        matches!(
            self,
            Self::Equal | Self::NotEqual | Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual
        )
    }

    pub(crate) fn is_arithmetic(self) -> bool {
        matches!(self, Self::Add | Self::Subtract | Self::Multiply | Self::Divide | Self::Remainder)
    }

    fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::And => "AND",
            Self::Or => "OR",
        }
    }
}

/// The place of a column; a name that differs only in case is accepted where it is the only one.
pub fn find_column(schema: &Schema, name: &str) -> Result<usize, Error> {
    if let Some(column) = schema.position(name) {
        return Ok(column);
    }
    let alike: Vec<usize> =
        (0..schema.columns().len()).filter(|i| schema.columns()[*i].name.eq_ignore_ascii_case(name)).collect();
    if let [column] = alike[..] {
        return Ok(column);
    }
    let names = schema.columns().iter().map(|column| column.name.as_str());
    fail(match nearest(name, names.clone()) {
        Some(near) => format!("there is no column `{name}`; did you mean `{near}`?"),
        None => format!("there is no column `{name}`; the columns are {}", names.collect::<Vec<_>>().join(", ")),
    })
}

fn fail<T>(message: String) -> Result<T, Error> {
    Err(Error::Question(message))
}

/// The known word that a mistyped one is most likely meant to be; it has something in common with it.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    known
        .map(|candidate| (edits(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(edits, candidate)| {
            let (a, b) = (word.chars().count(), candidate.chars().count());
            *edits <= 1 + a.min(b) / 4 && *edits < a.max(b)
        })
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance, with a swap of neighbours as one edit.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let last = &rows[i - 1];
            let mut best = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + usize::from(a[i - 1] != b[j - 1]));
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::super::{col, lit};
    use super::*;

    const SCHEMA: &str = "[[column]]\nname='age'\ntype='integer'\nmin=0\nmax=100\n\
        [[column]]\nname='sex'\ntype='category'\nlevels=['Female','Male']\n\
        [[column]]\nname='born'\ntype='date'\nmin='1900-01-01'\nmax='2020-01-01'\n\
        [[column]]\nname='smoker'\ntype='boolean'";

    #[test]
    fn what_is_meant_has_something_in_common() {
        for (word, known, expected) in [
            ("x", "y", None),
            ("x", "X1", Some("X1")),
            ("é", "y", None),
            ("ag", "age", Some("age")),
            ("ga", "ag", Some("ag")),
            ("q", "", None),
            ("hieght", "height", Some("height")),
        ] {
            assert_eq!(nearest(word, std::iter::once(known)), expected, "{word}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let schema = Schema::from_toml(SCHEMA).unwrap();
        let like = Expr::Like { text: Box::new(col("age")), pattern: "x".into(), ignore_case: false };
        for (expr, expected) in [
            (col("agee").eq(lit(1.0)), "did you mean `age`?"),
            (col("income").eq(lit(1.0)), "the columns are age, sex"),
            (col("sex").eq(lit("Femal")), "did you mean 'Female'?"),
            (col("sex").eq(lit("x")), "its levels are"),
            (col("sex").eq(lit(1.0)), "cannot be compared"),
            (col("age").eq(lit("1")), "cannot be compared"),
            (col("sex") + lit(1.0), "needs numbers"),
            (col("age").and(lit(true)), "AND needs a condition"),
            (!col("age"), "NOT needs a condition"),
            (col("born").lt(lit("1950-13-01")), "is not a date"),
            (like, "LIKE needs a category"),
            (Expr::Call(Function::Abs, vec![]), "does not take 0"),
        ] {
            let message = expr.check(&schema).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
        assert!(col("AGE").gt(lit(3.0)).check(&schema).is_ok());
        assert!(col("born").lt(lit("1950-12-01")).check_condition(&schema).is_ok());
        assert!(col("smoker").check_condition(&schema).is_ok());
        assert!(col("age").check_condition(&schema).is_err());
        let deep = (0..300).fold(col("age"), |expr, _| -expr);
        assert!(deep.check(&schema).is_err());
    }
}
