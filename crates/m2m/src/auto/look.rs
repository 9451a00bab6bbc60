//! Where the second round looks into the bins of a histogram.
//!
//! A histogram does not say where in a bin its rows are. Where a bin holds many of them and the histogram is uneven, they may
//! well be at few values: most numbers that people write down are rounded. Such bins are cut into parts of equal width, and
//! the rows in each part are counted in the second round, as a table of one column whose other cells are merged.

use crate::feature::{Cell, Cells, HistSpec, MapSpec, MergedColumn};
use crate::fit::unevenness;
use crate::{Error, Schema};

use super::Histogram;

/// Parts that a bin is cut into; of whole numbers, the largest divisor of how many a bin holds up to twice as many.
const PARTS: u32 = 32;
/// A bin is looked into if what may hide in it is so many times the noise.
const CLEAR: f64 = 3.0;
/// So uneven, as a variance relative to that of a bin, are smooth columns too.
const SMOOTH: f64 = 0.02;
/// Bins of more whole numbers than this are not looked into: parts of them would still hold thousands.
const MOST_WHOLE: f64 = 1e6;
/// Bins of a column that are looked into, at most.
const MOST_BINS: usize = 24;

/// A column with bins that may be worth a closer look.
pub(super) struct Candidate<'a> {
    histogram: &'a Histogram,
    /// The cells of the finer histogram, and how many of its bins make up one.
    fine: (u32, Cells, u32),
    /// What may hide in each bin, as a standard deviation of shares of the rows.
    hidden: Vec<f64>,
}

impl<'a> Candidate<'a> {
    /// Of a table of so many rows, with noise of this deviation on the shares of a histogram. Nothing for levels, and for
    /// whole numbers with a cell each.
    pub fn new(schema: &Schema, histogram: &'a Histogram, deviation: f64, rows: f64) -> Result<Option<Self>, Error> {
        let Histogram { cells, law, .. } = histogram;
        let bins = cells.edges().map_or(0, |edges| edges.len() - 1);
        // Few rows in many bins are uneven by chance.
        let deviation = (deviation.powi(2) + 1.0 / (rows * bins.max(1) as f64)).sqrt();
        let uneven = ((unevenness(&law[..bins], deviation) - SMOOTH).max(0.0) / 12.0).sqrt();
        if uneven == 0.0 {
            return Ok(None);
        }
        let Some(fine) = fine(schema, histogram)? else { return Ok(None) };
        let hidden = law[..bins].iter().map(|p| uneven * p).collect();
        Ok(Some(Self { histogram, fine, hidden }))
    }

    /// The most that may hide in a bin.
    pub fn most(&self) -> f64 {
        self.hidden.iter().copied().fold(0.0, f64::max)
    }

    /// The table that counts the parts of its bins, where noise of this size leaves something to be seen.
    pub fn table(&self, noise: f64) -> MergedColumn {
        let mut bins: Vec<usize> = (0..self.hidden.len()).filter(|bin| self.hidden[*bin] > CLEAR * noise).collect();
        bins.sort_by(|a, b| self.hidden[*b].total_cmp(&self.hidden[*a]));
        bins.truncate(MOST_BINS);
        bins.sort_unstable();
        let (count, cells, parts) = &self.fine;
        // All else, missing numbers among it, is one group.
        let mut groups = vec![0; cells.len()];
        let inside = bins.iter().flat_map(|bin| (0..*parts as usize).map(move |part| bin * *parts as usize + part));
        let last = cells.edges().map_or(0, |edges| edges.len() - 1);
        inside.filter(|cell| *cell < last).zip(1..).for_each(|(cell, group)| groups[cell] = group);
        MergedColumn { name: self.histogram.name.clone(), bins: *count, groups }
    }
}

/// How many of these candidates, in order of what may hide in them, show more than the noise on so many.
pub(super) fn worthwhile(hidden: &[f64], noise: impl Fn(usize) -> Result<f64, Error>) -> Result<usize, Error> {
    for count in (1..=hidden.len()).rev() {
        if hidden[count - 1] > CLEAR * noise(count)? {
            return Ok(count);
        }
    }
    Ok(0)
}

/// The bins of a histogram that cuts each of the bins of another into equally many, its cells, and how many those are;
/// nothing if there is none.
fn fine(schema: &Schema, histogram: &Histogram) -> Result<Option<(u32, Cells, u32)>, Error> {
    let Some(edges) = histogram.cells.edges() else { return Ok(None) };
    let bins = edges.len() as u32 - 1;
    let kind = &schema.columns()[histogram.cells.column()].kind;
    let range = kind.range().filter(|range| kind.is_whole() && range.transform().is_none());
    let (parts, count) = match (range, histogram.cells.describe(schema, 0)) {
        (Some(range), Cell::Bin { low, high }) => {
            let inside = high - low + 1.0;
            if !(2.0..=MOST_WHOLE).contains(&inside) {
                return Ok(None);
            }
            let inside = inside as u32;
            let Some(parts) = (2..=2 * PARTS).rev().find(|parts| inside.is_multiple_of(*parts)) else {
                return Ok(None);
            };
            (parts, ((range.max() - range.min() + 1.0) / f64::from(inside / parts)).ceil() as u32)
        }
        _ => (PARTS, bins * PARTS),
    };
    let spec = HistSpec { columns: vec![histogram.name.clone()], ..HistSpec::with_bins(count) };
    let cells = MapSpec::Hist(spec).tables(schema)?.remove(0).1.remove(0);
    let found = cells.edges().unwrap_or_default();
    // The last bin of whole numbers may have fewer of them.
    let nested = edges[..bins as usize]
        .iter()
        .enumerate()
        .all(|(bin, edge)| found.get(bin * parts as usize).is_some_and(|other| (other - edge).abs() < 1e-9));
    Ok(nested.then_some((count, cells, parts)))
}
