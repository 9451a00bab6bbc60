//! The answer to a query.

use serde_json::{Value, json};

use crate::Estimate;
use crate::expr::Scalar;
use crate::schema::time;

/// The answer to a query: lines of cells under named columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// How their numbers are read.
    pub kinds: Vec<ColumnKind>,
    /// Whether their numbers are estimates.
    pub estimated: Vec<bool>,
    /// The lines.
    pub rows: Vec<Vec<Cell>>,
    /// What to know before leaning on the answer.
    pub warnings: Vec<String>,
}

/// How the numbers of a column are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColumnKind {
    /// As they are.
    #[default]
    Plain,
    /// As days from 1970-01-01.
    Date,
    /// As seconds from 1970-01-01T00:00:00Z.
    Datetime,
}

/// One cell of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// No value.
    Null,
    /// A level.
    Text(String),
    /// An exact number: a group's key, or a constant.
    Number(f64),
    /// True or false.
    Boolean(bool),
    /// A number with its error.
    Estimate(Estimate),
}

impl ColumnKind {
    /// The text of a number that is a date; nothing for plain numbers.
    pub fn show(self, number: f64) -> Option<String> {
        match self {
            Self::Plain => None,
            Self::Date => Some(time::show_date(number.round())),
            Self::Datetime => Some(time::show_datetime(number.round())),
        }
    }

    fn to_json(self, number: f64) -> Value {
        self.show(number).map_or_else(|| json!(number), Value::String)
    }

    fn to_text(self, number: f64) -> String {
        self.show(number).unwrap_or_else(|| number.to_string())
    }
}

/// Whole numbers below this are written without a decimal point.
const EXACT: f64 = (1u64 << 53) as f64;

impl Cell {
    /// A group's key as a value of a row.
    pub(super) fn scalar(&self) -> Scalar<'_> {
        match self {
            Self::Text(text) => Scalar::Text(text),
            Self::Number(x) => Scalar::Number(*x),
            Self::Boolean(truth) => Scalar::Boolean(*truth),
            Self::Null | Self::Estimate(_) => Scalar::Null,
        }
    }

    fn to_json(&self, kind: ColumnKind) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Text(text) => json!(text),
            Self::Number(x) if kind == ColumnKind::Plain && x.fract() == 0.0 && x.abs() < EXACT => json!(*x as i64),
            Self::Number(x) => kind.to_json(*x),
            Self::Boolean(truth) => json!(truth),
            Self::Estimate(estimate) => {
                let mut cell = json!({
                    "value": kind.to_json(estimate.value),
                    "std_error": estimate.std_error,
                    "low": kind.to_json(estimate.low),
                    "high": kind.to_json(estimate.high),
                });
                if let Some(caution) = estimate.caution {
                    cell["caution"] = json!(caution);
                }
                cell
            }
        }
    }
}

impl Table {
    /// An object of `columns`, `rows` and `warnings`; an estimate is an object of `value`, `std_error`, `low`, `high`
    /// and, where it should not be leaned on, `caution`. Dates are ISO texts, their errors days or seconds.
    pub fn to_json(&self) -> Value {
        let row = |row: &Vec<Cell>| -> Value {
            row.iter().zip(&self.kinds).map(|(cell, kind)| cell.to_json(*kind)).collect()
        };
        let rows: Vec<Value> = self.rows.iter().map(row).collect();
        json!({"columns": self.columns, "rows": rows, "warnings": self.warnings})
    }

    /// Comma-separated text with a header. A column `x` of estimates becomes `x`, `x_std_error`, `x_low`, `x_high`.
    pub fn to_csv(&self) -> String {
        let mut header = Vec::new();
        for (name, estimated) in self.columns.iter().zip(&self.estimated) {
            header.push(name.clone());
            if *estimated {
                header.extend(["std_error", "low", "high"].map(|part| format!("{name}_{part}")));
            }
        }
        let mut text = line(&header);
        for row in &self.rows {
            let mut fields = Vec::new();
            for ((cell, kind), estimated) in row.iter().zip(&self.kinds).zip(&self.estimated) {
                let width = if *estimated { 4 } else { 1 };
                let from = fields.len();
                match cell {
                    Cell::Null => {}
                    Cell::Text(text) => fields.push(text.clone()),
                    Cell::Number(x) => fields.push(kind.to_text(*x)),
                    Cell::Boolean(truth) => fields.push(truth.to_string()),
                    Cell::Estimate(e) => fields.extend([
                        kind.to_text(e.value),
                        e.std_error.to_string(),
                        kind.to_text(e.low),
                        kind.to_text(e.high),
                    ]),
                }
                fields.resize(from + width, String::new());
            }
            text += &line(&fields);
        }
        text
    }
}

fn line(fields: &[String]) -> String {
    let quoted = |field: &String| {
        if field.contains(['"', ',', '\n', '\r']) {
            format!("\"{}\"", field.replace('"', "\"\""))
        } else {
            field.clone()
        }
    };
    fields.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}
