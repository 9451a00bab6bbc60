//! The written form of a schema, before it is checked.

use serde::{Deserialize, Serialize};

use super::{Column, Kind, Range, Schema, Transform, Unit, time};
use crate::Error;

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSchema {
    #[serde(default)]
    privacy: RawPrivacy,
    #[serde(default)]
    column: Vec<RawColumn>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPrivacy {
    unit: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_rows: Option<u32>,
}

impl Default for RawPrivacy {
    fn default() -> Self {
        Self { unit: "row".into(), max_rows: None }
    }
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawColumn {
    name: String,
    #[serde(rename = "type", default)]
    kind: Option<RawKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min: Option<Bound>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max: Option<Bound>,
    #[serde(default, skip_serializing_if = "Transform::is_none")]
    transform: Transform,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    atoms: Vec<Bound>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    levels: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    nullable: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    missing: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawKind {
    Number,
    Integer,
    Date,
    Datetime,
    Boolean,
    Category,
}

/// A number, an ISO text, or TOML's own date.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Bound {
    Whole(i64),
    Number(f64),
    Text(String),
    Toml(toml::value::Datetime),
}

impl Bound {
    fn parse(&self, kind: RawKind) -> Result<f64, String> {
        let text = match (self, kind) {
            (Self::Whole(x), RawKind::Number | RawKind::Integer) => return Ok(*x as f64),
            (Self::Number(x), RawKind::Number | RawKind::Integer) => return Ok(*x),
            (Self::Text(text), RawKind::Date | RawKind::Datetime) => text.clone(),
            (Self::Toml(date), RawKind::Date | RawKind::Datetime) => date.to_string(),
            (_, RawKind::Date | RawKind::Datetime) => {
                return Err("a date is written as text, such as \"2020-01-31\" or \"2020-01-31T12:00:00Z\"".into());
            }
            _ => return Err("a number is expected".into()),
        };
        let parsed = if kind == RawKind::Date { time::parse_date(&text) } else { time::parse_datetime(&text) };
        parsed.ok_or_else(|| format!("`{text}` is not an ISO date, such as 2020-01-31 or 2020-01-31T12:00:00Z"))
    }

    fn write(kind: &Kind, value: f64) -> Self {
        match kind {
            Kind::Date(_) | Kind::Datetime(_) => Self::Text(kind.show(value)),
            _ if value.fract() == 0.0 && value.abs() < 9e15 => Self::Whole(value as i64),
            _ => Self::Number(value),
        }
    }
}

impl TryFrom<RawSchema> for Schema {
    type Error = Error;

    fn try_from(raw: RawSchema) -> Result<Self, Error> {
        let unit = match (raw.privacy.unit.as_str(), raw.privacy.max_rows) {
            ("row", None | Some(1)) => Unit::Row,
            ("row", Some(_)) => {
                return Err(Error::Schema("max_rows goes with a user column; with unit = \"row\" leave it out".into()));
            }
            (column, Some(max_rows)) => Unit::User { column: column.to_owned(), max_rows },
            (column, None) => {
                return Err(Error::Schema(format!(
                    "unit = \"{column}\" needs max_rows, the number of rows of one user that count"
                )));
            }
        };
        let columns = raw.column.into_iter().map(Column::try_from).collect::<Result<_, _>>()?;
        Self::new(unit, columns)
    }
}

impl TryFrom<RawColumn> for Column {
    type Error = Error;

    fn try_from(raw: RawColumn) -> Result<Self, Error> {
        let name = raw.name;
        let fail = |message: &str| Error::Schema(format!("column `{name}`: {message}"));
        let absent = |given: bool, what: &str| {
            if given { Err(fail(&format!("{what} does not go with this type; remove it"))) } else { Ok(()) }
        };
        let Some(raw_kind) = raw.kind else {
            return Err(fail("it has no type; fill in number, integer, date, datetime, boolean or category"));
        };
        let kind = match raw_kind {
            RawKind::Boolean | RawKind::Category => {
                absent(raw.min.is_some(), "min")?;
                absent(raw.max.is_some(), "max")?;
                absent(!raw.atoms.is_empty(), "atoms")?;
                absent(!raw.transform.is_none(), "transform")?;
                match (raw_kind, raw.levels) {
                    (RawKind::Boolean, levels) => {
                        absent(levels.is_some(), "levels")?;
                        Kind::Boolean
                    }
                    (_, Some(levels)) => Kind::Category(levels),
                    (_, None) => return Err(fail("it has no levels; fill in the public list of values it can take")),
                }
            }
            numeric => {
                absent(raw.levels.is_some(), "levels")?;
                let bound = |bound: Option<&Bound>, which: &str| match bound {
                    Some(bound) => bound.parse(numeric).map_err(|message| fail(&format!("{which}: {message}"))),
                    None => Err(fail(&format!(
                        "it has no {which}; fill in a public bound that does not come from the data"
                    ))),
                };
                let atoms = raw.atoms.iter().map(|atom| bound(Some(atom), "atoms")).collect::<Result<_, _>>()?;
                let range =
                    Range::with(bound(raw.min.as_ref(), "min")?, bound(raw.max.as_ref(), "max")?, raw.transform, atoms)
                        .map_err(|error| match error {
                            Error::Schema(message) => fail(&message),
                            other => other,
                        })?;
                match numeric {
                    RawKind::Integer => Kind::Integer(range),
                    RawKind::Date => Kind::Date(range),
                    RawKind::Datetime => Kind::Datetime(range),
                    _ => Kind::Number(range),
                }
            }
        };
        Ok(Self { name, kind, nullable: raw.nullable, missing: raw.missing })
    }
}

impl From<Schema> for RawSchema {
    fn from(schema: Schema) -> Self {
        let privacy = match schema.unit {
            Unit::Row => RawPrivacy::default(),
            Unit::User { column, max_rows } => RawPrivacy { unit: column, max_rows: Some(max_rows) },
        };
        Self { privacy, column: schema.columns.into_iter().map(RawColumn::from).collect() }
    }
}

impl From<Column> for RawColumn {
    fn from(column: Column) -> Self {
        let kind = &column.kind;
        let raw_kind = match kind {
            Kind::Number(_) => RawKind::Number,
            Kind::Integer(_) => RawKind::Integer,
            Kind::Date(_) => RawKind::Date,
            Kind::Datetime(_) => RawKind::Datetime,
            Kind::Boolean => RawKind::Boolean,
            Kind::Category(_) => RawKind::Category,
        };
        let range = kind.range();
        Self {
            kind: Some(raw_kind),
            min: range.map(|range| Bound::write(kind, range.min)),
            max: range.map(|range| Bound::write(kind, range.max)),
            transform: range.map(|range| range.transform).unwrap_or_default(),
            atoms: range.map_or(Vec::new(), |range| range.atoms.iter().map(|a| Bound::write(kind, *a)).collect()),
            levels: if let Kind::Category(levels) = kind { Some(levels.clone()) } else { None },
            nullable: column.nullable,
            missing: column.missing,
            name: column.name,
        }
    }
}
