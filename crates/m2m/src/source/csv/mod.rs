//! CSV: quotes, gzip, any column order, any delimiter, in blocks that several threads parse at once.

mod number;
mod records;

use std::sync::Mutex;

use memchr::memchr;

use crate::panel::Slot;
use crate::simd::{self, Simd};
use crate::source::cell::Cell;
use crate::source::intake::Intake;
use crate::source::{CsvInput, Shared, Watch, absent, user_column};
use crate::{Error, Schema};
use number::{plain_number, short_numbers};
use records::{Blocks, PADDING, field};

/// How a CSV file is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct CsvOptions {
    /// What stands between fields: a comma, or a tab when the name ends in `.tsv`, unless given.
    pub delimiter: Option<u8>,
}

impl CsvOptions {
    fn delimiter(self) -> u8 {
        self.delimiter.unwrap_or(b',')
    }
}

/// The names in the header.
pub(crate) fn header(input: &CsvInput, options: CsvOptions) -> Result<Vec<String>, Error> {
    Blocks::open(input, options).map(|(_, names)| names)
}

/// Which field holds which column.
pub(crate) fn find_columns(names: &[String], schema: &Schema, source: &str) -> Result<Vec<Field>, Error> {
    let mut fields: Vec<Field> = names.iter().map(|_| Field::Ignored).collect();
    let mut place = |name: &str, field: Field| {
        let mut found = names.iter().enumerate().filter(|(_, other)| *other == name);
        match (found.next(), found.next()) {
            (Some((at, _)), None) => {
                fields[at] = field;
                Ok(())
            }
            (Some(_), Some(_)) => {
                Err(Error::table(source, format!("the header has `{name}` twice; rename one of them")))
            }
            (None, _) => Err(absent(source, name)),
        }
    };
    for (index, column) in schema.columns().iter().enumerate() {
        place(&column.name, Field::Column(index))?;
    }
    if let Some(user) = user_column(schema) {
        place(user, Field::User)?;
    }
    Ok(fields)
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Field {
    Ignored,
    Column(usize),
    User,
}

/// A CSV input that several workers share.
pub(crate) struct SharedCsv {
    blocks: Mutex<Blocks>,
    fields: Vec<Field>,
    delimiter: u8,
}

impl SharedCsv {
    pub fn open(input: &CsvInput, options: CsvOptions, schema: &Schema) -> Result<Self, Error> {
        let (blocks, names) = Blocks::open(input, options)?;
        let fields = find_columns(&names, schema, &blocks.source)?;
        Ok(Self { delimiter: blocks.delimiter, blocks: Mutex::new(blocks), fields })
    }
}

impl Shared for SharedCsv {
    fn read(&self, intake: &mut Intake<'_>, watch: &dyn Watch) -> Result<(), Error> {
        let plan: Vec<Action> = self.fields.iter().map(|field| Action::new(*field, intake)).collect();
        let mut block = Vec::new();
        let mut work = Work { simd: Simd::detect(), places: Vec::new(), values: Vec::new() };
        while !watch.stopped() && !intake.should_stop() {
            let sequence = {
                let mut blocks = self.blocks.lock().expect("no reader panics");
                if !blocks.next(&mut block)? {
                    break;
                }
                blocks.sequence
            };
            self.parse(&plan, &block, &mut work, intake);
            intake.end_chunk(sequence);
            watch.advance((block.len() - PADDING) as u64);
        }
        Ok(())
    }
}

/// What is done with a field.
#[derive(Clone, Copy)]
enum Action {
    Skip,
    /// A number with nothing special about it, into this slot.
    Number {
        slot: usize,
        column: usize,
    },
    Cell {
        column: usize,
    },
    User,
}

impl Action {
    fn new(field: Field, intake: &Intake<'_>) -> Self {
        match field {
            Field::Ignored => Self::Skip,
            Field::User => Self::User,
            Field::Column(column) => match intake.slot(column) {
                Slot::Unit(slot) if intake.readers[column].is_plain_number() => Self::Number { slot, column },
                _ => Self::Cell { column },
            },
        }
    }
}

impl SharedCsv {
    /// Parses a block of whole records, each ended by a newline, with padding behind the last.
    fn parse(&self, plan: &[Action], padded: &[u8], work: &mut Work, intake: &mut Intake<'_>) {
        let block = &padded[..padded.len() - PADDING];
        if memchr(b'"', block).is_none() && self.parse_regular(plan, padded, work, intake) {
            return;
        }
        let mut at = 0;
        while at < block.len() {
            at = self.parse_row(plan, block, at, intake);
        }
    }

    /// Parses a block without quotes in which every row has the right number of fields; otherwise does nothing and answers
    /// no. Finds all separators and reads all short numbers, many at a time, then takes the fields column by column.
    fn parse_regular(&self, plan: &[Action], padded: &[u8], work: &mut Work, intake: &mut Intake<'_>) -> bool {
        let block = &padded[..padded.len() - PADDING];
        let Work { simd, places, values } = work;
        places.resize(block.len() + 64, 0);
        let (count, newlines) = simd::places_of_either(*simd, block, self.delimiter, b'\n', places);
        let fields = Fields { padded, places: &places[..count], width: plan.len() };
        if !fields.are_regular(newlines) {
            return false;
        }
        short_numbers(*simd, padded, 0, fields.places, values);
        let rows = count / plan.len();
        let mut row = 0;
        while row < rows {
            // Few enough rows that their fields stay in the nearest cache while the columns are taken one by one.
            let run = intake.space().min(rows - row).min(64);
            for (column, action) in plan.iter().enumerate() {
                take_column(*action, &fields, values, row * plan.len() + column, run, intake);
            }
            intake.advance(run);
            row += run;
        }
        true
    }

    /// Parses any row: with quotes, too short, too long. Returns where the next row starts.
    fn parse_row(&self, plan: &[Action], block: &[u8], start: usize, intake: &mut Intake<'_>) -> usize {
        if plan.len() > 1 && is_blank(block, start) {
            return end_of_line(block, start) + 1;
        }
        let mut at = start;
        let mut filled = 0;
        // Whether a delimiter follows the fields read so far.
        let mut more = true;
        while more && filled < plan.len() {
            let (text, end) = field(block, at, start, self.delimiter);
            match plan[filled] {
                Action::Number { column, .. } | Action::Cell { column } => put_cell(intake, column, &text),
                Action::Skip => {}
                Action::User => intake.put_user(Some(&text)),
            }
            filled += 1;
            more = block.get(end) == Some(&self.delimiter);
            at = end + usize::from(more);
        }
        if more || filled < plan.len() {
            intake.ragged();
        }
        for action in &plan[filled..] {
            match *action {
                Action::Number { column, .. } | Action::Cell { column } => intake.put(column, Cell::Missing),
                Action::User => intake.put_user(None),
                Action::Skip => {}
            }
        }
        while more {
            let end = field(block, at, start, self.delimiter).1;
            more = block.get(end) == Some(&self.delimiter);
            at = end + usize::from(more);
        }
        intake.advance(1);
        at + 1
    }
}

/// The fields of a block without quotes.
struct Fields<'a> {
    padded: &'a [u8],
    /// Where each ends.
    places: &'a [u32],
    /// How many make a row.
    width: usize,
}

impl Fields<'_> {
    /// Whether every row has as many fields as it should: each row's last separator is a newline, and as there are no
    /// more newlines, the others are delimiters.
    fn are_regular(&self, newlines: usize) -> bool {
        let rows = self.places.chunks_exact(self.width);
        newlines * self.width == self.places.len()
            && rows.into_iter().all(|row| self.padded[row[self.width - 1] as usize] == b'\n')
    }

    /// Where a field begins and ends.
    fn bounds(&self, field: usize) -> (usize, usize) {
        let start = if field == 0 { 0 } else { self.places[field - 1] as usize + 1 };
        (start, self.places[field] as usize)
    }

    fn text(&self, field: usize) -> &[u8] {
        let (start, end) = self.bounds(field);
        self.padded[start..end].trim_ascii()
    }
}

/// Takes a column of `rows` regular rows, the first of which has it in the field `first`.
fn take_column(
    action: Action,
    fields: &Fields<'_>,
    values: &[f64],
    first: usize,
    rows: usize,
    intake: &mut Intake<'_>,
) {
    let places = (first..).step_by(fields.width).take(rows);
    match action {
        Action::Skip => {}
        Action::Number { slot, column } => {
            let mut odd = false;
            let column_values = values[first..].iter().step_by(fields.width);
            for (number, value) in intake.numbers(slot)[..rows].iter_mut().zip(column_values) {
                *number = *value;
                odd |= value.is_nan();
            }
            if !odd {
                return;
            }
            for (row, field) in places.enumerate().filter(|(_, field)| values[*field].is_nan()) {
                let (start, end) = fields.bounds(field);
                let cell = match plain_number(fields.padded, start, end) {
                    Some(value) => Cell::Number(value),
                    None => intake.readers[column].text(fields.text(field)),
                };
                intake.put_ahead(column, row, cell);
            }
        }
        Action::Cell { column } => {
            for (row, field) in places.enumerate() {
                let cell = intake.readers[column].text(fields.text(field));
                intake.put_ahead(column, row, cell);
            }
        }
        Action::User => places.for_each(|field| intake.put_user(Some(fields.text(field)))),
    }
}

fn put_cell(intake: &mut Intake<'_>, column: usize, text: &[u8]) {
    let cell = intake.readers[column].text(text);
    intake.put(column, cell);
}

/// Whether nothing but the end of the line stands here.
fn is_blank(block: &[u8], at: usize) -> bool {
    match block[at] {
        b'\n' => true,
        b'\r' => block.get(at + 1) == Some(&b'\n'),
        _ => false,
    }
}

fn end_of_line(block: &[u8], at: usize) -> usize {
    memchr(b'\n', &block[at..]).map_or(block.len(), |newline| at + newline)
}

/// Space that a worker parses in.
struct Work {
    simd: Simd,
    /// Of all delimiters and newlines of the block.
    places: Vec<u32>,
    /// Of all fields that are short numbers.
    values: Vec<f64>,
}
