//! Histograms and contingency tables: one-hot features, counted in units.
//!
//! # Privacy
//! Lemma 2: a record is in exactly one cell of each table, so its features are one 1 per table and zeros.

use crate::Error;
use crate::feature::cells::Cells;
use crate::feature::{Adder, Body, FeatureMap, Simd};
use crate::panel::{Lane, Panel, Record};

/// Tables over groups of columns, one after the other. A histogram is a table over one column.
pub(crate) struct Tables {
    tables: Vec<Table>,
    len: usize,
    simd: Simd,
}

struct Table {
    /// With the distance between neighbours along each: the last column varies fastest.
    columns: Vec<(Cells, u32)>,
    first: usize,
    len: usize,
}

/// At most this many features in one map.
pub(crate) const MAX_FEATURES: usize = 1 << 24;

impl Tables {
    pub fn new(groups: Vec<Vec<Cells>>, simd: Simd) -> Result<Self, Error> {
        let mut tables = Vec::with_capacity(groups.len());
        let mut first = 0usize;
        for group in groups {
            let mut len = 1usize;
            let mut columns = Vec::with_capacity(group.len());
            for cells in group.into_iter().rev() {
                columns.push((cells, len as u32));
                len = len.saturating_mul(columns.last().map_or(1, |(cells, _): &(Cells, u32)| cells.len()));
                if first.saturating_add(len) > MAX_FEATURES {
                    return Err(Error::Design(format!(
                        "the tables have more than {MAX_FEATURES} cells; take fewer bins, fewer columns or smaller groups"
                    )));
                }
            }
            columns.reverse();
            tables.push(Table { columns, first, len });
            first += len;
        }
        Ok(Self { tables, len: first, simd })
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
        for table in &self.tables {
            let cell: usize =
                table.columns.iter().map(|(cells, step)| cells.one(record) as usize * *step as usize).sum();
            features[table.first + cell] = 1;
        }
    }

    fn places(&self, panel: &Panel, places: &mut Vec<u32>) -> bool {
        let (mut cells, mut place) = (Lane::default(), Lane::default());
        for table in &self.tables {
            table.places(self.simd, panel, &mut cells, &mut place);
            places.extend(place[..panel.len()].iter().map(|place| table.first as u32 + place));
        }
        true
    }

    fn adder(&self) -> Box<dyn Adder + '_> {
        Box::new(TablesAdder { map: self, cells: Lane::default(), place: Lane::default(), counter: Counter::default() })
    }
}

impl Table {
    /// The cell of each record of a panel.
    fn places(&self, simd: Simd, panel: &Panel, cells: &mut Lane<u32>, places: &mut Lane<u32>) {
        if let [(only, _)] = &self.columns[..] {
            only.all(simd, panel, places);
            return;
        }
        let n = panel.len();
        places.fill(0);
        for (column, step) in &self.columns {
            column.all(simd, panel, cells);
            for (place, cell) in places[..n].iter_mut().zip(cells.iter()) {
                *place += cell * step;
            }
        }
    }
}

struct TablesAdder<'a> {
    map: &'a Tables,
    cells: Lane<u32>,
    place: Lane<u32>,
    counter: Counter,
}

impl Adder for TablesAdder<'_> {
    fn add(&mut self, panel: &Panel, sums: &mut [i64]) {
        let n = panel.len();
        for table in &self.map.tables {
            table.places(self.map.simd, panel, &mut self.cells, &mut self.place);
            self.counter.add(&self.place[..n], &mut sums[table.first..][..table.len]);
        }
    }
}

/// Neighbouring records go to different copies of the counters, so that no increment waits for the last.
const COPIES: usize = 4;
/// Larger tables are counted directly: copies would not stay in the cache.
const COPIED: usize = 1 << 11;

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
