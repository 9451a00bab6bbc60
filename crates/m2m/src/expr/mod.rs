//! Expressions over the columns of one record: what questions are made of.
//!
//! Values follow SQL: a missing cell is null, arithmetic and comparisons with null are null, `AND` and `OR` know three
//! values. An [`Expr`] is built with [`col`], [`lit`] and methods, or by the SQL front, and checked against a schema
//! once ([`Expr::check`]); after that evaluating it never fails.
//!
//! ```
//! use m2m::expr::{col, lit};
//! let adults_at_work = col("age").ge(lit(18.0)).and(col("hours").gt(lit(0.0)));
//! # let _ = adults_at_work;
//! ```

mod check;
mod eval;
mod probe;

pub use check::{Checked, Type, find_column};
pub(crate) use check::{Node, OTHER, nearest};
pub use eval::Scalar;
pub(crate) use eval::{binary, like, value_of};

/// An expression over the columns of one record.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// The value of a column, by name.
    Column(String),
    /// A number.
    Number(f64),
    /// A text: a level, or a date or moment where it is compared with one.
    Text(String),
    /// True or false.
    Boolean(bool),
    /// No value.
    Null,
    /// A value with its sign changed.
    Negate(Box<Expr>),
    /// The opposite truth.
    Not(Box<Expr>),
    /// Two values combined.
    Binary(Op, Box<Expr>, Box<Expr>),
    /// Whether there is no value.
    IsNull(Box<Expr>),
    /// Whether a text matches a pattern with `%` for any text and `_` for any character.
    Like {
        /// The text.
        text: Box<Expr>,
        /// The pattern.
        pattern: String,
        /// Whether upper and lower case are the same.
        ignore_case: bool,
    },
    /// The value beside the first condition that is true.
    Case {
        /// Conditions with their values.
        branches: Vec<(Expr, Expr)>,
        /// The value if none is true; null if absent.
        otherwise: Option<Box<Expr>>,
    },
    /// A function.
    Call(Function, Vec<Expr>),
}

/// What combines two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Op {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    And,
    Or,
}

/// A function of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Function {
    Abs,
    Sign,
    Floor,
    Ceil,
    Round,
    Sqrt,
    Exp,
    Ln,
    Log10,
    Power,
    Least,
    Greatest,
    /// The first of its arguments that is not null.
    Coalesce,
}

impl Function {
    /// The function of a name, in any case, with its usual other names.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "abs" => Self::Abs,
            "sign" => Self::Sign,
            "floor" => Self::Floor,
            "ceil" | "ceiling" => Self::Ceil,
            "round" => Self::Round,
            "sqrt" => Self::Sqrt,
            "exp" => Self::Exp,
            "ln" | "log" => Self::Ln,
            "log10" => Self::Log10,
            "power" | "pow" => Self::Power,
            "least" => Self::Least,
            "greatest" => Self::Greatest,
            "coalesce" => Self::Coalesce,
            _ => return None,
        })
    }
}

/// The value of a column.
pub fn col(name: impl Into<String>) -> Expr {
    Expr::Column(name.into())
}

/// A constant.
pub fn lit(value: impl Into<Expr>) -> Expr {
    value.into()
}

impl From<f64> for Expr {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<bool> for Expr {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<&str> for Expr {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident = $op:ident),* $(,)?) => {
        impl Expr {
            $($(#[$doc])* pub fn $name(self, other: impl Into<Expr>) -> Expr {
                Expr::Binary(Op::$op, Box::new(self), Box::new(other.into()))
            })*
        }
    };
}

binary! {
    /// Whether both are equal.
    eq = Equal,
    /// Whether they differ.
    ne = NotEqual,
    /// Whether it is below the other.
    lt = Less,
    /// Whether it is at most the other.
    le = LessOrEqual,
    /// Whether it is above the other.
    gt = Greater,
    /// Whether it is at least the other.
    ge = GreaterOrEqual,
    /// Whether both are true.
    and = And,
    /// Whether one of them is true.
    or = Or,
}

impl Expr {
    /// Whether there is a value.
    pub fn is_not_null(self) -> Expr {
        !self.is_null()
    }

    /// Whether there is no value.
    pub fn is_null(self) -> Expr {
        Expr::IsNull(Box::new(self))
    }

    /// Whether it lies between two values, both included.
    pub fn between(self, low: impl Into<Expr>, high: impl Into<Expr>) -> Expr {
        self.clone().ge(low).and(self.le(high))
    }

    /// Whether it equals one of some values.
    pub fn one_of(self, values: impl IntoIterator<Item = Expr>) -> Expr {
        let parts = values.into_iter().map(|value| self.clone().eq(value)).collect();
        Self::balanced(Op::Or, parts).unwrap_or(Expr::Boolean(false))
    }

    /// How many parts it has.
    pub(crate) fn size(&self) -> usize {
        1 + match self {
            Self::Column(_) | Self::Number(_) | Self::Text(_) | Self::Boolean(_) | Self::Null => 0,
            Self::Negate(inner) | Self::Not(inner) | Self::IsNull(inner) | Self::Like { text: inner, .. } => {
                inner.size()
            }
            Self::Binary(_, left, right) => left.size() + right.size(),
            Self::Case { branches, otherwise } => {
                let branches: usize = branches.iter().map(|(condition, value)| condition.size() + value.size()).sum();
                branches + otherwise.as_ref().map_or(0, |otherwise| otherwise.size())
            }
            Self::Call(_, arguments) => arguments.iter().map(Self::size).sum(),
        }
    }

    /// Many parts joined by `AND` or `OR`, as a tree of little depth.
    pub(crate) fn balanced(op: Op, mut parts: Vec<Expr>) -> Option<Expr> {
        if parts.len() <= 1 {
            return parts.pop();
        }
        let right = Self::balanced(op, parts.split_off(parts.len() / 2))?;
        Some(Expr::Binary(op, Box::new(Self::balanced(op, parts)?), Box::new(right)))
    }
}

impl std::ops::Not for Expr {
    type Output = Expr;
    fn not(self) -> Expr {
        Expr::Not(Box::new(self))
    }
}

impl std::ops::Neg for Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        Expr::Negate(Box::new(self))
    }
}

macro_rules! operator {
    ($($trait:ident $method:ident $op:ident),*) => {
        $(impl<E: Into<Expr>> std::ops::$trait<E> for Expr {
            type Output = Expr;
            fn $method(self, other: E) -> Expr {
                Expr::Binary(Op::$op, Box::new(self), Box::new(other.into()))
            }
        })*
    };
}
operator!(Add add Add, Sub sub Subtract, Mul mul Multiply, Div div Divide, Rem rem Remainder);
