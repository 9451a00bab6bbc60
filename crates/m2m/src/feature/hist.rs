//! Histograms and contingency tables: one-hot features, counted in units.
//!
//! # Privacy
//! Lemma 2: a record is in exactly one cell of each table, so its features are one 1 per table and zeros.

use crate::Error;
use crate::feature::cells::Cells;
use crate::feature::{Adder, Body, FeatureMap, Simd};
use crate::panel::{PANEL, Panel, Record};

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

    fn adder(&self) -> Box<dyn Adder + '_> {
        Box::new(TablesAdder { map: self, cells: [0; PANEL], place: [0; PANEL], counts: Vec::new() })
    }
}

/// Neighbouring records go to different copies of the counters, so that no increment waits for the last.
const COPIES: usize = 4;
/// Larger tables are counted directly: copies would not stay in the cache.
const COPIED: usize = 1 << 11;

struct TablesAdder<'a> {
    map: &'a Tables,
    cells: [u32; PANEL],
    place: [u32; PANEL],
    counts: Vec<[u32; COPIES]>,
}

impl Adder for TablesAdder<'_> {
    fn add(&mut self, panel: &Panel, sums: &mut [i64]) {
        let n = panel.len();
        for table in &self.map.tables {
            let place = match &table.columns[..] {
                [(cells, _)] => {
                    cells.all(self.map.simd, panel, &mut self.place);
                    &self.place[..n]
                }
                columns => {
                    self.place.fill(0);
                    for (cells, step) in columns {
                        cells.all(self.map.simd, panel, &mut self.cells);
                        for (place, cell) in self.place[..n].iter_mut().zip(&self.cells) {
                            *place += cell * step;
                        }
                    }
                    &self.place[..n]
                }
            };
            let sums = &mut sums[table.first..][..table.len];
            if table.len <= COPIED {
                self.counts.clear();
                self.counts.resize(table.len, [0; COPIES]);
                count(place, &mut self.counts);
                for (sum, counts) in sums.iter_mut().zip(&self.counts) {
                    *sum += counts.iter().map(|c| i64::from(*c)).sum::<i64>();
                }
            } else {
                for cell in place {
                    sums[*cell as usize] += 1;
                }
            }
        }
    }
}

fn count(place: &[u32], counts: &mut [[u32; COPIES]]) {
    let steps = place.chunks_exact(COPIES);
    for cell in steps.remainder() {
        counts[*cell as usize][0] += 1;
    }
    for step in steps {
        for (copy, cell) in step.iter().enumerate() {
            counts[*cell as usize][copy] += 1;
        }
    }
}
