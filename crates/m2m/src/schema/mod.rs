//! The schema: everything that is public about a table. Never computed from the sensitive data.

mod draft;
mod raw;
pub mod time;

pub use draft::draft;

use std::collections::HashSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Error, math};

/// The public description of a table: its columns with bounds or levels, and whom the release protects.
///
/// ```
/// let schema = m2m::Schema::from_toml(r#"
///     [[column]]
///     name = "age"
///     type = "integer"
///     min = 17
///     max = 90
///
///     [[column]]
///     name = "sex"
///     type = "category"
///     levels = ["Female", "Male"]
/// "#)?;
/// assert_eq!(schema.columns().len(), 2);
/// # Ok::<(), m2m::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "raw::RawSchema", into = "raw::RawSchema")]
pub struct Schema {
    unit: Unit,
    columns: Vec<Column>,
}

/// Whose presence the release hides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// One row.
    Row,
    /// All rows that share a value of `column`, of which at most `max_rows` are used.
    User {
        /// The column that identifies the user; it is not itself released.
        column: String,
        /// How many rows of one user count.
        max_rows: u32,
    },
}

impl Unit {
    /// `"row"`, or the column that identifies a user.
    pub fn name(&self) -> &str {
        match self {
            Self::Row => "row",
            Self::User { column, .. } => column,
        }
    }

    /// How many rows one unit can contribute.
    pub fn max_rows(&self) -> u32 {
        match self {
            Self::Row => 1,
            Self::User { max_rows, .. } => *max_rows,
        }
    }
}

/// One column of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name in the header.
    pub name: String,
    /// Its type with bounds or levels.
    pub kind: Kind,
    /// Whether missing cells are expected. They have a cell of their own either way.
    pub nullable: bool,
    /// Spellings of "missing" besides the empty field, `NA` and `null`.
    pub missing: Vec<String>,
}

/// The type of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Real numbers.
    Number(Range),
    /// Whole numbers.
    Integer(Range),
    /// Days, counted from 1970-01-01.
    Date(Range),
    /// Moments, in seconds from 1970-01-01T00:00:00Z.
    Datetime(Range),
    /// False or true.
    Boolean,
    /// One of a public list of levels.
    Category(Vec<String>),
}

/// The public interval of a numeric column. Values outside are clamped to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    min: f64,
    max: f64,
    transform: Transform,
    atoms: Vec<f64>,
    low: f64,
    inverse_width: f64,
    /// Digits after the point that survive the way to [0, 1] and back, unless that depends on the number.
    decimals: Option<i32>,
}

/// A public, monotone change of scale that is applied before a column is mapped to [0, 1].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transform {
    /// As it is.
    #[default]
    None,
    /// $\ln(1 + x)$.
    Log1p,
    /// $\sqrt x$.
    Sqrt,
    /// $\operatorname{arsinh} x$.
    Asinh,
}

impl Transform {
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::None
    }

    #[inline(always)]
    pub(crate) fn apply(self, x: f64) -> f64 {
        match self {
            Self::None => x,
            Self::Log1p => math::ln_1p(x),
            Self::Sqrt => x.sqrt(),
            Self::Asinh => math::asinh(x),
        }
    }

    fn invert(self, t: f64) -> f64 {
        match self {
            Self::None => t,
            Self::Log1p => t.exp_m1(),
            Self::Sqrt => t * t,
            Self::Asinh => t.sinh(),
        }
    }
}

impl Range {
    /// An interval with `min < max`, both finite and below 10¹⁰⁰ in size.
    pub fn new(min: f64, max: f64) -> Result<Self, Error> {
        Self::with(min, max, Transform::None, Vec::new())
    }

    /// The same with a transform and public atoms (point masses).
    pub fn with(min: f64, max: f64, transform: Transform, mut atoms: Vec<f64>) -> Result<Self, Error> {
        let fail = |message: &str| Err(Error::Schema(message.to_owned()));
        if !(min.abs() < 1e100 && max.abs() < 1e100 && min < max) {
            return fail("min must be below max, and both finite numbers smaller than 1e100 in size");
        }
        match transform {
            Transform::Log1p if min <= -1.0 => return fail("the transform log1p needs min above -1"),
            Transform::Sqrt if min < 0.0 => return fail("the transform sqrt needs min of at least 0"),
            _ => {}
        }
        if atoms.iter().any(|a| !(min..=max).contains(a)) {
            return fail("an atom lies outside min and max");
        }
        atoms.sort_by(f64::total_cmp);
        atoms.dedup();
        if atoms.len() > 1000 {
            return fail("more than 1000 atoms; declare the column as integer or category instead");
        }
        let low = transform.apply(min);
        let width = transform.apply(max) - low;
        if !(width > 0.0 && (1.0 / width).is_finite()) {
            return fail("min and max are too close together to tell apart");
        }
        let decimals = match transform {
            Transform::None | Transform::Sqrt => Some(decimals(min.abs().max(max.abs()))),
            Transform::Log1p | Transform::Asinh => None,
        };
        Ok(Self { min, max, transform, atoms, low, inverse_width: 1.0 / width, decimals })
    }

    /// Lower bound.
    pub fn min(&self) -> f64 {
        self.min
    }

    /// Upper bound.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// The change of scale.
    pub fn transform(&self) -> Transform {
        self.transform
    }

    /// The public point masses, in increasing order.
    pub fn atoms(&self) -> &[f64] {
        &self.atoms
    }

    /// Where a value lies in the interval, in [0, 1]; NaN stays NaN. Total: any `f64` has a result.
    ///
    /// The definition, step by step, each step one IEEE operation: clamp, transform, subtract the
    /// transformed minimum, multiply by the reciprocal width, clamp.
    pub fn unit(&self, x: f64) -> f64 {
        self.unit_as(self.transform, x)
    }

    /// The same with the transform known where it is called, so that a loop over it can be vectorised.
    #[inline(always)]
    pub(crate) fn unit_as(&self, transform: Transform, x: f64) -> f64 {
        let x = if x < self.min { self.min } else { x };
        let x = if x > self.max { self.max } else { x };
        let u = (transform.apply(x) - self.low) * self.inverse_width;
        let u = if u < 0.0 { 0.0 } else { u };
        if u > 1.0 { 1.0 } else { u }
    }

    /// The value at a place in [0, 1]. A number of at most a dozen digits comes back as it was from [`Range::unit`], whose
    /// last bits are lost on the way: otherwise `x >= 14.5` would leave out rows with just that value.
    pub fn value(&self, unit: f64) -> f64 {
        let x = self.transform.invert(self.low + unit / self.inverse_width);
        let places = self.decimals.unwrap_or_else(|| decimals(1.0 + x.abs()));
        rounded(x, places).clamp(self.min, self.max)
    }
}

/// Digits after the point that survive the way to [0, 1] and back where numbers are so large.
fn decimals(size: f64) -> i32 {
    const DIGITS: i32 = 12;
    DIGITS - size.log10().ceil() as i32
}

/// Powers of ten that are exact, so that a quotient by one is the number that its decimal stands for.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// The nearest decimal with so many digits after the point, if there are such.
fn rounded(x: f64, places: i32) -> f64 {
    match usize::try_from(places).ok().and_then(|places| POWERS.get(places)) {
        // 0 has no sign.
        Some(power) => (x * power).round() / power + 0.0,
        None => x,
    }
}

impl Kind {
    /// The interval, unless the column holds levels.
    pub fn range(&self) -> Option<&Range> {
        match self {
            Self::Number(range) | Self::Integer(range) | Self::Date(range) | Self::Datetime(range) => Some(range),
            Self::Boolean | Self::Category(_) => None,
        }
    }

    /// Whether values are whole numbers (integers and days).
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Integer(_) | Self::Date(_))
    }

    /// How many codes a column of levels has: its levels, then "other" for a category, then "missing".
    pub fn codes(&self) -> Option<u32> {
        match self {
            Self::Boolean => Some(3),
            Self::Category(levels) => Some(levels.len() as u32 + 2),
            _ => None,
        }
    }

    /// The word for the type in a schema file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Number(_) => "number",
            Self::Integer(_) => "integer",
            Self::Date(_) => "date",
            Self::Datetime(_) => "datetime",
            Self::Boolean => "boolean",
            Self::Category(_) => "category",
        }
    }

    /// A value of this numeric column as a person writes it: dates as ISO text, the rest as numbers.
    pub fn show(&self, value: f64) -> String {
        match self {
            Self::Date(_) => time::show_date(value),
            Self::Datetime(_) => time::show_datetime(value),
            _ => value.to_string(),
        }
    }

    /// What a code of this column of levels stands for.
    pub fn label(&self, code: u32) -> &str {
        match (self, code) {
            (Self::Boolean, 0) => "false",
            (Self::Boolean, 1) => "true",
            (Self::Category(levels), code) if (code as usize) < levels.len() => &levels[code as usize],
            (Self::Category(levels), code) if code as usize == levels.len() => "(other)",
            _ => "(missing)",
        }
    }
}

/// A TOML error with the place it shows, without the prefix that an error of ours within it has.
pub(crate) fn toml_message(error: &toml::de::Error, prefix: &str) -> String {
    let text = error.to_string();
    let text = text.trim_end();
    match text.rsplit_once('\n') {
        Some((place, message)) => format!("{place}\n{}", message.strip_prefix(prefix).unwrap_or(message)),
        None => text.strip_prefix(prefix).unwrap_or(text).to_owned(),
    }
}

const MAX_COLUMNS: usize = 10_000;
const MAX_LEVELS: usize = 1_000_000;

impl Schema {
    /// A schema from its parts.
    pub fn new(unit: Unit, columns: Vec<Column>) -> Result<Self, Error> {
        let fail = |message: String| Err(Error::Schema(message));
        if columns.is_empty() {
            return fail("there is no column; add at least one [[column]]".into());
        }
        if columns.len() > MAX_COLUMNS {
            return fail(format!("{} columns; at most {MAX_COLUMNS} are possible", columns.len()));
        }
        let mut names = HashSet::new();
        for column in &columns {
            if column.name.is_empty() {
                return fail("a column has an empty name".into());
            }
            if !names.insert(&column.name) {
                return fail(format!("column `{}` is there twice", column.name));
            }
            if let Kind::Category(levels) = &column.kind {
                let distinct: HashSet<_> = levels.iter().collect();
                if levels.is_empty() || levels.len() > MAX_LEVELS {
                    return fail(format!("column `{}` needs between 1 and {MAX_LEVELS} levels", column.name));
                }
                if distinct.len() != levels.len() {
                    return fail(format!("column `{}` lists a level twice", column.name));
                }
                if let Some(level) = levels.iter().find(|level| column.missing.contains(level)) {
                    return fail(format!("column `{}` has `{level}` both as a level and as missing", column.name));
                }
            }
            if let (true, Some(range)) = (column.kind.is_whole(), column.kind.range()) {
                const EXACT: f64 = (1u64 << 53) as f64;
                let whole = |x: f64| x.fract() == 0.0 && x.abs() <= EXACT;
                if !whole(range.min) || !whole(range.max) || !range.atoms.iter().all(|a| whole(*a)) {
                    return fail(format!("column `{}`: bounds and atoms must be whole numbers", column.name));
                }
            }
        }
        if let Unit::User { column, max_rows } = &unit {
            if names.contains(column) {
                return fail(format!(
                    "`{column}` is the privacy unit and cannot be released as a column too; remove its [[column]]"
                ));
            }
            if !(1..=1_000_000).contains(max_rows) {
                return fail("max_rows must be between 1 and 1000000".into());
            }
        }
        Ok(Self { unit, columns })
    }

    /// Reads the TOML form.
    pub fn from_toml(text: &str) -> Result<Self, Error> {
        toml::from_str(text).map_err(|error| Error::Schema(toml_message(&error, "schema: ")))
    }

    /// Reads a `schema.toml`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|error| Error::Read { path: path.to_owned(), error })?;
        Self::from_toml(&text).map_err(|error| match error {
            Error::Schema(message) => Error::Schema(format!("{}: {message}", path.display())),
            other => other,
        })
    }

    /// The TOML form.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a valid schema has a TOML form")
    }

    /// Whose presence the release hides.
    pub fn unit(&self) -> &Unit {
        &self.unit
    }

    /// The columns, in the order of the file.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The place of a column by name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EXAMPLE: &str = r#"
[privacy]
unit = "patient_nbr"
max_rows = 4

[[column]]
name = "age"
type = "integer"
min = 17
max = 90

[[column]]
name = "capital_gain"
type = "number"
min = 0
max = 100000
transform = "log1p"
atoms = [0]

[[column]]
name = "born"
type = "date"
min = "1900-01-01"
max = 2020-12-31

[[column]]
name = "seen"
type = "datetime"
min = "2020-01-01T00:00:00Z"
max = 2021-01-01T00:00:00Z

[[column]]
name = "smoker"
type = "boolean"

[[column]]
name = "education"
type = "category"
levels = ["Bachelors", "HS-grad", "Masters"]
nullable = true
missing = ["?"]
"#;

    #[test]
    fn toml_and_json_forms_come_back() {
        let schema = Schema::from_toml(EXAMPLE).unwrap();
        assert_eq!(Schema::from_toml(&schema.to_toml()).unwrap(), schema);
        let json = serde_json::to_string(&schema).unwrap();
        assert_eq!(serde_json::from_str::<Schema>(&json).unwrap(), schema);
        let born = schema.columns()[2].kind.range().unwrap();
        assert_eq!((born.min(), born.max()), (-25567.0, 18627.0));
    }

    #[test]
    fn mistakes_are_named() {
        let cases = [
            ("[[column]]\nname='a'\ntype='number'\nmin=1", "max"),
            ("[[column]]\nname='a'\ntype='number'\nmin=2\nmax=1", "min must be below max"),
            ("[[column]]\nname='a'\ntype='number'\nmin=nan\nmax=1", "min must be below max"),
            ("[[column]]\nname='a'\ntype='number'\nmin=-1\nmax=1\ntransform='log1p'", "above -1"),
            ("[[column]]\nname='a'\ntype='number'\nmin=0\nmax=1\natoms=[2]", "atom"),
            ("[[column]]\nname='a'\ntype='integer'\nmin=0.5\nmax=1", "whole"),
            ("[[column]]\nname='a'\ntype='category'\nlevels=[]", "levels"),
            ("[[column]]\nname='a'\ntype='category'\nlevels=['x','x']", "twice"),
            ("[[column]]\nname='a'\ntype='category'\nlevels=['x']\nmin=1", "min"),
            ("[[column]]\nname='a'\ntype='boolean'\n[[column]]\nname='a'\ntype='boolean'", "twice"),
            ("[[column]]\nname='a'\ntype='text'", "text"),
            ("[[column]]\nname='a'\ntype='boolean'\nlevel=[]", "level"),
            ("[privacy]\nunit='u'\n[[column]]\nname='a'\ntype='boolean'", "max_rows"),
            ("[privacy]\nunit='row'\nmax_rows=3\n[[column]]\nname='a'\ntype='boolean'", "max_rows"),
            ("", "column"),
            ("[[column]]\nname='a'\ntype='date'\nmin='2020-13-01'\nmax='2021-01-01'", "2020-13-01"),
        ];
        for (text, expected) in cases {
            let message = Schema::from_toml(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text:?} gave {message:?}");
        }
    }

    proptest! {
        /// Any bits at all land in [0, 1] or stay NaN, and order is kept.
        #[test]
        fn unit_is_total_and_monotone(a in any::<u64>(), b in any::<u64>(), which in 0usize..4) {
            let transform = [Transform::None, Transform::Log1p, Transform::Sqrt, Transform::Asinh][which];
            let range = Range::with(0.0, 1e6, transform, vec![]).unwrap();
            prop_assert!(range.unit(f64::NAN).is_nan() && range.unit(-f64::NAN).is_nan());
            let (a, b) = (f64::from_bits(a), f64::from_bits(b));
            let (u, v) = (range.unit(a), range.unit(b));
            prop_assert_eq!(u.is_nan(), a.is_nan());
            prop_assert!(a.is_nan() || (0.0..=1.0).contains(&u));
            if a <= b { prop_assert!(u <= v); }
        }

        #[test]
        fn value_inverts_unit(x in 0.0f64..1e6, which in 0usize..4) {
            let transform = [Transform::None, Transform::Log1p, Transform::Sqrt, Transform::Asinh][which];
            let range = Range::with(0.0, 1e6, transform, vec![]).unwrap();
            let back = range.value(range.unit(x));
            prop_assert!((back - x).abs() <= 1e-9 * (1.0 + x), "{} {}", x, back);
        }

        /// Decimals of a few digits come back to the last bit, whatever the bounds are.
        #[test]
        fn decimals_come_back(digits in 0i64..1_000_000, places in 0i32..5, low in 0i64..7, which in 0usize..4) {
            let transform = [Transform::None, Transform::Log1p, Transform::Sqrt, Transform::Asinh][which];
            let x = digits as f64 / 10f64.powi(places);
            let range = Range::with(low as f64 / 7.0, 1e6, transform, vec![]).unwrap();
            prop_assume!(x >= range.min());
            prop_assert_eq!(range.value(range.unit(x)), x);
        }
    }
}
