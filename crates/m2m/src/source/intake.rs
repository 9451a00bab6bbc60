//! Where readers put rows: a panel that is handed on whenever it is full, with a tally of what was odd.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::Schema;
use crate::panel::{Layout, PANEL, Panel, Slot};
use crate::source::cell::{Cell, CellReader, is_missing_word};
use crate::sums::{Partial, UserId};

/// What takes full panels.
pub(crate) trait Sink: Send {
    /// Takes the rows of a panel, with their owners where the schema names users.
    fn add(&mut self, panel: &Panel, users: &[Option<UserId>]);
}

impl Sink for Partial<'_> {
    fn add(&mut self, panel: &Panel, users: &[Option<UserId>]) {
        Partial::add(self, panel, users);
    }
}

impl Sink for Vec<Panel> {
    fn add(&mut self, panel: &Panel, _: &[Option<UserId>]) {
        if !panel.is_empty() {
            self.push(panel.clone());
        }
    }
}

/// One worker's rows.
pub(crate) struct Intake<'a> {
    pub readers: Vec<CellReader>,
    slots: Vec<Slot>,
    panel: Panel,
    row: usize,
    users: Vec<Option<UserId>>,
    sink: &'a mut dyn Sink,
    counts: Counts,
    chunks: Vec<Chunk>,
    part: usize,
    rows_in_chunk: u64,
    fault_in_chunk: Option<(u64, Option<usize>)>,
    has_faults: bool,
    strict: bool,
    worker: usize,
    workers: usize,
}

/// A run of rows that one worker read, to find out afterwards where in the table they were.
pub(crate) struct Chunk {
    part: usize,
    sequence: u64,
    rows: u64,
    /// The first row with a fault and, unless the row as a whole is odd, the column.
    fault: Option<(u64, Option<usize>)>,
}

#[derive(Clone, Default)]
pub(crate) struct Counts {
    rows: u64,
    unreadable: Vec<u64>,
    other: Vec<u64>,
    outside: u64,
    ragged: u64,
    without_user: u64,
}

impl<'a> Intake<'a> {
    pub fn new(
        schema: &Schema,
        layout: &Arc<Layout>,
        sink: &'a mut dyn Sink,
        strict: bool,
        worker: usize,
        workers: usize,
    ) -> Self {
        let columns = schema.columns();
        Self {
            readers: columns.iter().map(CellReader::new).collect(),
            slots: layout.slots().to_vec(),
            panel: Panel::new(layout.clone()),
            row: 0,
            users: Vec::new(),
            sink,
            counts: Counts { unreadable: vec![0; columns.len()], other: vec![0; columns.len()], ..Counts::default() },
            chunks: Vec::new(),
            part: 0,
            rows_in_chunk: 0,
            fault_in_chunk: None,
            has_faults: false,
            strict,
            worker,
            workers,
        }
    }

    /// Which of the workers this is.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers
    }

    pub fn start_part(&mut self, part: usize) {
        self.part = part;
    }

    /// Whether something was found that strict reading does not allow.
    pub fn has_faults(&self) -> bool {
        self.has_faults
    }

    pub fn should_stop(&self) -> bool {
        self.strict && self.has_faults
    }

    pub fn slot(&self, column: usize) -> Slot {
        self.slots[column]
    }

    /// Space for the numbers of the current and the following rows; the caller keeps within the panel.
    pub fn numbers(&mut self, slot: usize) -> &mut [f64] {
        &mut self.panel.raw_units(slot)[self.row..]
    }

    /// Takes numbers for the current and the following rows at once, if none is missing; the caller keeps within the panel.
    pub fn take_numbers(&mut self, slot: usize, numbers: &[f64]) -> bool {
        let outside = self.panel.take_raw(slot, self.row, numbers);
        self.counts.outside += outside.unwrap_or(0);
        outside.is_some()
    }

    /// A cell for a column, `ahead` rows after the current one.
    #[inline]
    pub fn put_ahead(&mut self, column: usize, ahead: usize, cell: Cell) {
        let row = self.row + ahead;
        match (self.slots[column], cell) {
            (Slot::Unit(slot), Cell::Number(value)) => self.panel.raw_units(slot)[row] = value,
            (Slot::Unit(slot), _) => self.panel.raw_units(slot)[row] = f64::NAN,
            (Slot::Code(slot), Cell::Code(code)) => self.panel.set_code(slot, row, code),
            (Slot::Code(slot), Cell::Other(code)) => {
                self.counts.other[column] += 1;
                self.panel.set_code(slot, row, code);
            }
            (Slot::Code(slot), _) => {
                let code = self.readers[column].missing_code;
                self.panel.set_code(slot, row, code);
            }
        }
        if cell == Cell::Unreadable {
            self.counts.unreadable[column] += 1;
            self.fault(Some(column), ahead);
        }
    }

    /// A cell for a column of the current row.
    pub fn put(&mut self, column: usize, cell: Cell) {
        self.put_ahead(column, 0, cell);
    }

    /// Notes that the current row is too short or too long.
    pub fn ragged(&mut self) {
        self.counts.ragged += 1;
        self.fault(None, 0);
    }

    fn fault(&mut self, column: Option<usize>, ahead: usize) {
        self.has_faults = true;
        let row = self.rows_in_chunk + ahead as u64;
        if self.fault_in_chunk.is_none_or(|(first, _)| row < first) {
            self.fault_in_chunk = Some((row, column));
        }
    }

    /// The owner of a row, when users are the privacy unit; nobody if it is missing. Called once per row, in order.
    ///
    /// # Privacy
    /// One user has one id whatever kind of file it stands in: blanks around it, which some formats pad with, are not part
    /// of it.
    pub fn put_user(&mut self, id: Option<&[u8]>) {
        let user = id.map(<[u8]>::trim_ascii).filter(|id| !is_missing_word(id)).map(|id| Sha256::digest(id).into());
        self.counts.without_user += u64::from(user.is_none());
        self.users.push(user);
    }

    /// How many rows fit before the panel is full.
    pub fn space(&self) -> usize {
        PANEL - self.row
    }

    /// Declares the current row, and `count - 1` after it, complete.
    #[inline]
    pub fn advance(&mut self, count: usize) {
        self.row += count;
        self.rows_in_chunk += count as u64;
        if self.row == PANEL {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.counts.rows += self.row as u64;
        self.counts.outside += self.panel.encode(self.row);
        self.sink.add(&self.panel, &self.users);
        self.users.clear();
        self.row = 0;
    }

    /// Ends a run of rows that stood together in the input.
    pub fn end_chunk(&mut self, sequence: u64) {
        let (rows, fault) = (std::mem::take(&mut self.rows_in_chunk), self.fault_in_chunk.take());
        self.chunks.push(Chunk { part: self.part, sequence, rows, fault });
    }

    pub fn finish(mut self) -> (Vec<Chunk>, Counts) {
        self.flush();
        (self.chunks, self.counts)
    }
}

/// What a curator should know about how the rows were read. It is computed from the data exactly, so it is for the
/// curator's eyes only and never part of a release.
#[derive(Clone, Debug)]
pub struct Report {
    /// Rows read.
    pub rows: u64,
    /// Cells that could not be read, by column; they count as missing.
    pub unreadable: Vec<(String, u64)>,
    /// Cells with a level that the schema does not list, by column; they count as "other".
    pub other: Vec<(String, u64)>,
    /// Values outside their bounds; they were clamped.
    pub outside: u64,
    /// Rows with too few or too many fields.
    pub ragged: u64,
    /// Rows without the user column's value; they were left out.
    pub without_user: u64,
    /// Where the first unreadable cell or odd row is.
    pub first: Option<Place>,
}

/// A place in the input, without what stands there.
#[derive(Clone, Debug)]
pub struct Place {
    /// The file.
    pub source: String,
    /// The row of data, from 1.
    pub row: u64,
    /// The column, unless the whole row is meant.
    pub column: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.column {
            Some(column) => write!(f, "row {}, column `{column}` cannot be read", self.row),
            None => write!(f, "row {} has too few or too many fields", self.row),
        }
    }
}

impl Report {
    pub(crate) fn new(schema: &Schema) -> Self {
        let zero = || schema.columns().iter().map(|column| (column.name.clone(), 0)).collect();
        Self { rows: 0, unreadable: zero(), other: zero(), outside: 0, ragged: 0, without_user: 0, first: None }
    }

    pub(crate) fn absorb(&mut self, counts: &Counts) {
        self.rows += counts.rows;
        self.outside += counts.outside;
        self.ragged += counts.ragged;
        self.without_user += counts.without_user;
        self.unreadable.iter_mut().zip(&counts.unreadable).for_each(|(total, count)| total.1 += count);
        self.other.iter_mut().zip(&counts.other).for_each(|(total, count)| total.1 += count);
    }

    pub(crate) fn locate(&mut self, mut chunks: Vec<Chunk>, names: &[String], schema: &Schema) {
        chunks.sort_by_key(|chunk| (chunk.part, chunk.sequence));
        let (mut part, mut before) = (0, 0);
        for chunk in chunks {
            if chunk.part != part {
                (part, before) = (chunk.part, 0);
            }
            if let Some((row, column)) = chunk.fault {
                let column = column.map(|column| schema.columns()[column].name.clone());
                self.first = Some(Place { source: names[part].clone(), row: before + row + 1, column });
                return;
            }
            before += chunk.rows;
        }
    }

    /// How many cells could not be read.
    pub fn unreadable_cells(&self) -> u64 {
        self.unreadable.iter().map(|(_, count)| count).sum()
    }
}
