//! The meaning of a cell's text.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::panel::missing_code;
use crate::schema::{Column, Kind, time};

/// What a cell turned out to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell {
    Number(f64),
    Code(u32),
    /// Missing, as the schema allows; the value to store follows from the column.
    Missing,
    /// Not readable, or missing where the schema expects a value. Stored as missing, and counted.
    Unreadable,
    /// A level that the schema does not list.
    Other(u32),
}

/// Reads the cells of one column.
pub(crate) struct CellReader {
    shape: Shape,
    nullable: bool,
    missing: Vec<Vec<u8>>,
    /// Those spellings of "missing" that are numbers: any way to write them means the same.
    missing_numbers: Vec<f64>,
    pub missing_code: u32,
}

enum Shape {
    Number,
    Date,
    Datetime,
    Boolean,
    Category { codes: HashMap<Box<[u8]>, u32, foldhash::fast::RandomState>, other: u32 },
}

impl CellReader {
    pub fn new(column: &Column) -> Self {
        let shape = match &column.kind {
            Kind::Number(_) | Kind::Integer(_) => Shape::Number,
            Kind::Date(_) => Shape::Date,
            Kind::Datetime(_) => Shape::Datetime,
            Kind::Boolean => Shape::Boolean,
            Kind::Category(levels) => Shape::Category {
                codes: levels.iter().enumerate().map(|(i, level)| (level.as_bytes().into(), i as u32)).collect(),
                other: levels.len() as u32,
            },
        };
        Self {
            shape,
            nullable: column.nullable,
            missing: column.missing.iter().map(|text| text.as_bytes().to_vec()).collect(),
            missing_numbers: column.missing.iter().filter_map(|text| text.parse().ok()).collect(),
            missing_code: missing_code(&column.kind),
        }
    }

    /// Whether every number that can be read is simply itself.
    pub fn is_plain_number(&self) -> bool {
        matches!(self.shape, Shape::Number) && self.missing_numbers.is_empty()
    }

    pub fn is_date(&self) -> bool {
        matches!(self.shape, Shape::Date)
    }

    /// What an absent cell is.
    pub fn absent(&self) -> Cell {
        if self.nullable { Cell::Missing } else { Cell::Unreadable }
    }

    /// What a number is, NaN being absent.
    pub fn number(&self, value: f64) -> Cell {
        let missing = matches!(self.shape, Shape::Number) && self.missing_numbers.contains(&value);
        if value.is_nan() || missing { self.absent() } else { Cell::Number(value) }
    }

    /// What a text is.
    pub fn text(&self, text: &[u8]) -> Cell {
        match &self.shape {
            Shape::Category { codes, other } => match codes.get(text) {
                Some(code) => Cell::Code(*code),
                None if self.is_missing(text) => self.absent(),
                None => Cell::Other(*other),
            },
            _ if self.is_missing(text) => self.absent(),
            Shape::Number => fast_float2::parse(text).map_or(Cell::Unreadable, |value| self.number(value)),
            Shape::Boolean => boolean(text).map_or(Cell::Unreadable, |value| Cell::Code(u32::from(value))),
            Shape::Date => self.moment(text, time::parse_date),
            Shape::Datetime => self.moment(text, time::parse_datetime),
        }
    }

    fn moment(&self, text: &[u8], parse: impl Fn(&str) -> Option<f64>) -> Cell {
        std::str::from_utf8(text).ok().and_then(parse).map_or(Cell::Unreadable, Cell::Number)
    }

    fn is_missing(&self, text: &[u8]) -> bool {
        is_missing_word(text) || self.missing.iter().any(|other| other == text)
    }
}

/// What "missing" is called in every column.
pub(crate) fn is_missing_word(text: &[u8]) -> bool {
    text.is_empty() || text == b"NA" || text.eq_ignore_ascii_case(b"null")
}

fn boolean(text: &[u8]) -> Option<bool> {
    let lower: Cow<'_, [u8]> = if text.len() > 5 { return None } else { text.to_ascii_lowercase().into() };
    match &*lower {
        b"true" | b"t" | b"yes" | b"y" | b"1" => Some(true),
        b"false" | b"f" | b"no" | b"n" | b"0" => Some(false),
        _ => None,
    }
}
