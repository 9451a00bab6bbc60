//! Histograms and contingency tables: one-hot features, counted in units.
//!
//! # Privacy
//! Lemma 2: a record is in exactly one cell of each table, so its features are one 1 per table and zeros.

use std::collections::HashMap;

use crate::Error;
use crate::feature::cells::Cells;
use crate::feature::{Adder, Body, FeatureMap, Simd};
use crate::panel::{Lane, PANEL, Panel, Record};
use crate::simd::dispatched;

/// Tables over groups of columns, one after the other. A histogram is a table over one column.
pub(crate) struct Tables {
    /// The columns with their cells. Tables that have a column with the same cells share it.
    columns: Vec<Cells>,
    tables: Vec<Table>,
    len: usize,
    simd: Simd,
}

struct Table {
    /// The places of its columns, with the distance between neighbours along each: the last column varies fastest.
    columns: Vec<(usize, u32)>,
    first: usize,
    len: usize,
}

/// At most this many features in one map.
pub(crate) const MAX_FEATURES: usize = 1 << 24;

impl Tables {
    pub fn new(groups: Vec<Vec<Cells>>, simd: Simd) -> Result<Self, Error> {
        let mut map = Self { columns: Vec::new(), tables: Vec::with_capacity(groups.len()), len: 0, simd };
        let mut of_column: HashMap<usize, Vec<usize>> = HashMap::new();
        for group in groups {
            let mut table = Table { columns: Vec::with_capacity(group.len()), first: map.len, len: 1 };
            for cells in group.into_iter().rev() {
                let step = table.len as u32;
                table.len = table.len.saturating_mul(cells.len());
                if map.len.saturating_add(table.len) > MAX_FEATURES {
                    return Err(Error::Design(format!(
                        "the tables have more than {MAX_FEATURES} cells; take fewer bins, fewer columns or smaller groups"
                    )));
                }
                let same = of_column.entry(cells.column()).or_default();
                let at = same.iter().copied().find(|at| map.columns[*at] == cells).unwrap_or_else(|| {
                    same.push(map.columns.len());
                    map.columns.push(cells);
                    map.columns.len() - 1
                });
                table.columns.push((at, step));
            }
            table.columns.reverse();
            map.len += table.len;
            map.tables.push(table);
        }
        Ok(map)
    }
}

impl FeatureMap for Tables {
    fn len(&self) -> usize {
        self.len
    }

    fn body(&self) -> Body {
        Body::OneHot { groups: self.tables.len() as u64 }
    }

    fn record(&self, record: Record<'_>, features: &mut [i64]) {
        let cells: Vec<u32> = self.columns.iter().map(|cells| cells.one(record)).collect();
        for table in &self.tables {
            let cell: usize = table.columns.iter().map(|(at, step)| cells[*at] as usize * *step as usize).sum();
            features[table.first + cell] = 1;
        }
    }

    fn places(&self, panel: &Panel, places: &mut Vec<u32>) -> bool {
        let mut found = Found::new(self);
        found.look(self, panel);
        for table in &self.tables {
            let place = found.places(self.simd, table);
            places.extend(place[..panel.len()].iter().map(|place| table.first as u32 + place));
        }
        true
    }

    fn adder(&self) -> Box<dyn Adder + '_> {
        Box::new(TablesAdder { map: self, found: Found::new(self), counter: Counter::default() })
    }
}

/// Where the records of a panel are.
struct Found {
    /// The cell of each record, column by column.
    cells: Vec<Lane<u32>>,
    /// Room for its place in a table.
    place: Lane<u32>,
}

impl Found {
    fn new(map: &Tables) -> Self {
        Self { cells: vec![Lane::default(); map.columns.len()], place: Lane::default() }
    }

    fn look(&mut self, map: &Tables, panel: &Panel) {
        map.columns.iter().zip(&mut self.cells).for_each(|(column, cells)| column.all(map.simd, panel, cells));
    }

    /// The place of each record in a table.
    fn places(&mut self, simd: Simd, table: &Table) -> &[u32; PANEL] {
        match table.columns[..] {
            [(only, _)] => &self.cells[only],
            _ => {
                self.place.fill(0);
                table.columns.iter().for_each(|(at, step)| advance(simd, &self.cells[*at], *step, &mut self.place));
                &self.place
            }
        }
    }
}

dispatched! {
    fn advance(cells: &[u32; PANEL], step: u32, places: &mut [u32; PANEL]) = advance_loop
}

#[inline(always)]
fn advance_loop(cells: &[u32; PANEL], step: u32, places: &mut [u32; PANEL]) {
    places.iter_mut().zip(cells).for_each(|(place, cell)| *place = place.wrapping_add(cell.wrapping_mul(step)));
}

struct TablesAdder<'a> {
    map: &'a Tables,
    found: Found,
    counter: Counter,
}

impl Adder for TablesAdder<'_> {
    fn add(&mut self, panel: &Panel, sums: &mut [i64]) {
        self.found.look(self.map, panel);
        for table in &self.map.tables {
            let places = self.found.places(self.map.simd, table);
            self.counter.add(&places[..panel.len()], &mut sums[table.first..][..table.len]);
        }
    }
}

/// Neighbouring records go to different copies of the counters, so that no increment waits for the last.
const COPIES: usize = 4;
/// Larger tables are counted directly: copies would not stay in the cache.
const COPIED: usize = 1 << 8;

/// Counts how often each place occurs.
#[derive(Default)]
pub(crate) struct Counter(Vec<[u32; COPIES]>);

impl Counter {
    pub fn add(&mut self, places: &[u32], sums: &mut [i64]) {
        if sums.len() > COPIED {
            places.iter().for_each(|place| sums[*place as usize] += 1);
            return;
        }
        let Self(counts) = self;
        counts.clear();
        counts.resize(sums.len(), [0; COPIES]);
        let steps = places.chunks_exact(COPIES);
        for place in steps.remainder() {
            counts[*place as usize][0] += 1;
        }
        for step in steps {
            for (copy, place) in step.iter().enumerate() {
                counts[*place as usize][copy] += 1;
            }
        }
        for (sum, counts) in sums.iter_mut().zip(counts) {
            *sum += counts.iter().map(|count| i64::from(*count)).sum::<i64>();
        }
    }
}
