//! Evaluating a checked expression on one record, with SQL's three-valued logic.

use std::cmp::Ordering;

use super::check::Node;
use super::{Checked, Function, Op};
use crate::panel::{Record, Value};
use crate::schema::{Kind, Schema};

/// A value of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'a> {
    /// None.
    Null,
    /// A number, a day or a moment.
    Number(f64),
    /// A text.
    Text(&'a str),
    /// True or false.
    Boolean(bool),
}

impl Scalar<'_> {
    /// What it adds to a sum: truth counts 1, null and texts nothing.
    pub fn weight(self) -> f64 {
        match self {
            Self::Number(x) => x,
            Self::Boolean(true) => 1.0,
            _ => 0.0,
        }
    }

    fn truth(self) -> Option<bool> {
        if let Self::Boolean(truth) = self { Some(truth) } else { None }
    }
}

/// The value of a column in an encoded record.
pub(crate) fn value_of(schema: &Schema, column: usize, value: Value) -> Scalar<'_> {
    let kind = &schema.columns()[column].kind;
    match (value, kind.range()) {
        (Value::Unit(unit), Some(range)) => {
            let x = range.value(unit);
            Scalar::Number(if kind.is_whole() { x.round() } else { x })
        }
        (Value::Code(code), None) => match kind {
            Kind::Boolean if code < 2 => Scalar::Boolean(code == 1),
            Kind::Category(levels) if code as usize <= levels.len() => Scalar::Text(kind.label(code)),
            _ => Scalar::Null,
        },
        _ => Scalar::Null,
    }
}

impl Checked {
    /// Its value, given the values of the columns.
    pub fn value<'a>(&'a self, column: &dyn Fn(usize) -> Scalar<'a>) -> Scalar<'a> {
        self.node.value(column)
    }

    /// Its value on an encoded record.
    pub(crate) fn of_record<'a>(&'a self, schema: &'a Schema, record: Record<'_>) -> Scalar<'a> {
        self.node.value(&|column| value_of(schema, column, record.value(column)))
    }
}

impl Node {
    pub(crate) fn value<'a>(&'a self, column: &dyn Fn(usize) -> Scalar<'a>) -> Scalar<'a> {
        match self {
            Self::Column(at) => column(*at),
            Self::Number(x) => Scalar::Number(*x),
            Self::Text(text) => Scalar::Text(text),
            Self::Boolean(truth) => Scalar::Boolean(*truth),
            Self::Null => Scalar::Null,
            Self::Negate(inner) => match inner.value(column) {
                Scalar::Number(x) => Scalar::Number(-x),
                _ => Scalar::Null,
            },
            Self::Not(inner) => match inner.value(column) {
                Scalar::Boolean(truth) => Scalar::Boolean(!truth),
                _ => Scalar::Null,
            },
            Self::IsNull(inner) => Scalar::Boolean(inner.value(column) == Scalar::Null),
            Self::Like { text, pattern, ignore_case } => match text.value(column) {
                Scalar::Text(text) => Scalar::Boolean(like(text, pattern, *ignore_case)),
                _ => Scalar::Null,
            },
            Self::Case { branches, otherwise } => branches
                .iter()
                .find(|(condition, _)| condition.value(column) == Scalar::Boolean(true))
                .map_or(otherwise.as_ref(), |(_, value)| value)
                .value(column),
            Self::Call(Function::Coalesce, arguments) => arguments
                .iter()
                .map(|argument| argument.value(column))
                .find(|value| *value != Scalar::Null)
                .unwrap_or(Scalar::Null),
            Self::Call(function, arguments) => call(*function, arguments, column),
            Self::Binary(op, left, right) => binary(*op, left.value(column), || right.value(column)),
        }
    }
}

pub(crate) fn binary<'a>(op: Op, left: Scalar<'a>, right: impl FnOnce() -> Scalar<'a>) -> Scalar<'a> {
    if let Op::And | Op::Or = op {
        let decisive = op == Op::Or;
        if left == Scalar::Boolean(decisive) {
            return left;
        }
        return match (left.truth(), right().truth()) {
            (_, Some(truth)) if truth == decisive => Scalar::Boolean(decisive),
            (Some(_), Some(truth)) => Scalar::Boolean(truth),
            _ => Scalar::Null,
        };
    }
    let ordering = match (left, right()) {
        (Scalar::Number(x), Scalar::Number(y)) => match op {
            Op::Add => return finite(x + y),
            Op::Subtract => return finite(x - y),
            Op::Multiply => return finite(x * y),
            Op::Divide => return finite(x / y),
            Op::Remainder => return finite(x % y),
            _ => x.partial_cmp(&y),
        },
        (Scalar::Text(x), Scalar::Text(y)) => Some(x.cmp(y)),
        (Scalar::Boolean(x), Scalar::Boolean(y)) => Some(x.cmp(&y)),
        _ => None,
    };
    let Some(ordering) = ordering else { return Scalar::Null };
    Scalar::Boolean(match op {
        Op::Equal => ordering == Ordering::Equal,
        Op::NotEqual => ordering != Ordering::Equal,
        Op::Less => ordering == Ordering::Less,
        Op::LessOrEqual => ordering != Ordering::Greater,
        Op::Greater => ordering == Ordering::Greater,
        _ => ordering != Ordering::Less,
    })
}

/// Where arithmetic has no result (a division by zero, the root of a negative number) there is no value.
fn finite<'a>(x: f64) -> Scalar<'a> {
    if x.is_finite() { Scalar::Number(x) } else { Scalar::Null }
}

fn call<'a>(function: Function, arguments: &'a [Node], column: &dyn Fn(usize) -> Scalar<'a>) -> Scalar<'a> {
    let mut numbers = [0.0f64; 2];
    if let Function::Least | Function::Greatest = function {
        let mut best: Option<f64> = None;
        for argument in arguments {
            let Scalar::Number(x) = argument.value(column) else { return Scalar::Null };
            best = Some(match best {
                Some(y) if function == Function::Least => x.min(y),
                Some(y) => x.max(y),
                None => x,
            });
        }
        return best.map_or(Scalar::Null, Scalar::Number);
    }
    for (number, argument) in numbers.iter_mut().zip(arguments) {
        let Scalar::Number(x) = argument.value(column) else { return Scalar::Null };
        *number = x;
    }
    let [x, y] = numbers;
    finite(match function {
        Function::Abs => x.abs(),
        Function::Sign => f64::from(x > 0.0) - f64::from(x < 0.0),
        Function::Floor => x.floor(),
        Function::Ceil => x.ceil(),
        Function::Round => (x * 10f64.powf(y)).round() / 10f64.powf(y),
        Function::Sqrt => x.sqrt(),
        Function::Exp => x.exp(),
        Function::Ln => x.ln(),
        Function::Log10 => x.log10(),
        Function::Power => x.powf(y),
        Function::Least | Function::Greatest | Function::Coalesce => unreachable!("handled above"),
    })
}

/// SQL's LIKE: `%` stands for any text, `_` for one character, a backslash takes the next character as it is.
pub(crate) fn like(text: &str, pattern: &[char], ignore_case: bool) -> bool {
    let fold = |c: char| if ignore_case { c.to_lowercase().next().unwrap_or(c) } else { c };
    let text: Vec<char> = text.chars().map(fold).collect();
    // Backtracking only to the last `%`: linear in practice and never exponential.
    let (mut t, mut p) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        let (literal, width) = match pattern.get(p) {
            Some('\\') if p + 1 < pattern.len() => (Some(pattern[p + 1]), 2),
            Some('%') => {
                retry = Some((p + 1, t));
                p += 1;
                continue;
            }
            Some('_') => (None, 1),
            Some(c) => (Some(*c), 1),
            None => (Some('\0'), 0),
        };
        if width > 0 && literal.is_none_or(|c| fold(c) == text[t]) {
            t += 1;
            p += width;
        } else if let Some((after, from)) = retry {
            p = after;
            t = from + 1;
            retry = Some((after, from + 1));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '%')
}

#[cfg(test)]
mod tests {
    use super::super::{Expr, col, lit};
    use super::*;

    fn schema() -> Schema {
        Schema::from_toml(
            "[[column]]\nname='x'\ntype='number'\nmin=-100\nmax=100\n[[column]]\nname='b'\ntype='boolean'",
        )
        .unwrap()
    }

    fn value(expr: &Expr, x: Scalar<'static>, b: Scalar<'static>) -> String {
        let checked = expr.check(&schema()).unwrap();
        format!("{:?}", checked.value(&|column| if column == 0 { x } else { b }))
    }

    #[test]
    fn null_spreads_as_in_sql() {
        use Scalar::{Boolean, Null, Number};
        let (x, b) = (|| col("x"), || col("b"));
        let cases = [
            (x() + lit(1.0), Null, Null, "Null"),
            (x() / lit(0.0), Number(1.0), Null, "Null"),
            (x().gt(lit(1.0)), Null, Null, "Null"),
            (x().gt(lit(1.0)).and(b()), Null, Boolean(false), "Boolean(false)"),
            (x().gt(lit(1.0)).and(b()), Null, Boolean(true), "Null"),
            (x().gt(lit(1.0)).or(b()), Null, Boolean(true), "Boolean(true)"),
            (x().gt(lit(1.0)).or(b()), Null, Boolean(false), "Null"),
            (b().or(x().gt(lit(1.0))), Null, Boolean(true), "Boolean(true)"),
            (!b(), Null, Null, "Null"),
            (x().is_null(), Null, Null, "Boolean(true)"),
            (Expr::Call(Function::Coalesce, vec![x(), lit(7.0)]), Null, Null, "Number(7.0)"),
            (x().between(lit(1.0), lit(2.0)), Number(2.0), Null, "Boolean(true)"),
            (Expr::Call(Function::Sqrt, vec![x()]), Number(-4.0), Null, "Null"),
        ];
        for (expr, x, b, expected) in cases {
            assert_eq!(value(&expr, x, b), expected, "{expr:?}");
        }
    }

    #[test]
    fn like_matches_as_in_sql() {
        for (text, pattern, expected) in [
            ("Bachelors", "Bach%", true),
            ("Bachelors", "%lors", true),
            ("Bachelors", "B_chelors", true),
            ("Bachelors", "bach%", false),
            ("Bachelors", "Bach", false),
            ("", "%", true),
            ("", "_", false),
            ("a%b", "a\\%b", true),
            ("axb", "a\\%b", false),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaab", "%a%a%a%a%a%a%c", false),
        ] {
            let pattern: Vec<char> = pattern.chars().collect();
            assert_eq!(like(text, &pattern, false), expected, "{text} {pattern:?}");
        }
        assert!(like("Bachelors", &"bach%".chars().collect::<Vec<_>>(), true));
    }
}
