//! Where the second round looks into the bins of a histogram.
//!
//! A histogram does not say where in a bin its rows are. Where a bin holds many of them and the histogram is uneven, they may
//! well be at few values: most numbers that people write down are rounded. Such bins are cut into parts of equal width, and
//! the rows in each part are counted in the second round, as a table of one column whose other cells are merged.

use std::ops::Range;

use crate::feature::{Cell, HistSpec, MapSpec, MergedColumn};
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
const MOST_BINS: usize = 96;

/// A column with bins that may be worth a closer look.
pub(super) struct Candidate<'a> {
    histogram: &'a Histogram,
    fine: Fine,
    /// What may hide in each bin, as a standard deviation of shares of the rows.
    hidden: Vec<f64>,
}

/// A finer histogram.
struct Fine {
    bins: u32,
    halved: u32,
    about_zero: u32,
    /// How many cells it has, and which of them make up each bin of the other, if that is so.
    len: usize,
    inside: Vec<Option<Range<usize>>>,
}

impl<'a> Candidate<'a> {
    /// Of a table of so many rows, with noise of this deviation on the shares of a histogram. Nothing for levels, and for
    /// whole numbers with a cell each.
    pub fn new(schema: &Schema, histogram: &'a Histogram, deviation: f64, rows: f64) -> Result<Option<Self>, Error> {
        let Histogram { cells, law, .. } = histogram;
        let bins = cells.edges().map_or(0, |edges| edges.len() - 1);
        // Few rows in many bins are uneven by chance.
        let deviation = (deviation.powi(2) + 1.0 / (rows * bins.max(1) as f64)).sqrt();
        let uneven = ((unevenness(cells, law, deviation) - SMOOTH).max(0.0) / 12.0).sqrt();
        if uneven == 0.0 {
            return Ok(None);
        }
        let Some(fine) = Fine::new(schema, histogram)? else { return Ok(None) };
        let hidden = |(p, inside): (&f64, &Option<_>)| if inside.is_some() { uneven * p } else { 0.0 };
        let hidden = law.iter().zip(&fine.inside).map(hidden).collect();
        Ok(Some(Self { histogram, fine, hidden }))
    }

    /// The most that may hide in a bin.
    pub fn most(&self) -> f64 {
        self.hidden.iter().copied().fold(0.0, f64::max)
    }

    /// The table that counts the parts of its bins, where noise of this size leaves something to be seen.
    pub fn table(&self, noise: f64) -> MergedColumn {
        let mut looked: Vec<usize> = (0..self.hidden.len()).filter(|bin| self.hidden[*bin] > CLEAR * noise).collect();
        looked.sort_by(|a, b| self.hidden[*b].total_cmp(&self.hidden[*a]));
        looked.truncate(MOST_BINS);
        looked.sort_unstable();
        let Fine { bins, halved, about_zero, len, inside } = &self.fine;
        // All else, missing numbers among it, is one group.
        let mut groups = vec![0; *len];
        let inside = looked.iter().filter_map(|bin| inside[*bin].clone()).flatten();
        inside.zip(1..).for_each(|(cell, group)| groups[cell] = group);
        let name = self.histogram.name.clone();
        MergedColumn { name, bins: *bins, halved: *halved, about_zero: *about_zero, groups }
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

impl Fine {
    /// One that cuts the bins of another into some dozens of parts; nothing if there is none.
    fn new(schema: &Schema, histogram: &Histogram) -> Result<Option<Self>, Error> {
        let Histogram { name, bins, halved, about_zero, cells, .. } = histogram;
        let Some(edges) = cells.edges() else { return Ok(None) };
        let kind = &schema.columns()[cells.column()].kind;
        let (count, halved, about_zero) =
            match kind.range().filter(|range| kind.is_whole() && range.transform().is_none()) {
                Some(range) => {
                    let size = |cell| match cells.describe(schema, cell) {
                        Cell::Bin { low, high } => high - low + 1.0,
                        _ => 0.0,
                    };
                    // Those in the middle are as large as the ones that were halved.
                    let inside = (0..edges.len() - 1).map(size).fold(0.0, f64::max);
                    if !(2.0..=MOST_WHOLE).contains(&inside) {
                        return Ok(None);
                    }
                    let (inside, all) = (inside as u32, range.max() - range.min() + 1.0);
                    // So many bins of a size that divides this one. Where there are few of them, others of that size may not be
                    // to be had.
                    let bins = |size: u32| (all / f64::from(size)).ceil();
                    let fits = |size: &u32| (all / bins(*size)).ceil() == f64::from(*size);
                    let sizes =
                        (2..=2 * PARTS).rev().filter(|parts| inside.is_multiple_of(*parts)).map(|parts| inside / parts);
                    let Some(size) = sizes.into_iter().find(fits) else { return Ok(None) };
                    (bins(size) as u32, 0, 0)
                }
                None => {
                    let finer = |halved: u32| halved.saturating_sub(PARTS.ilog2());
                    (bins * PARTS, finer(*halved), if cells.is_about_zero() { finer(*about_zero).max(1) } else { 0 })
                }
            };
        let spec = HistSpec { columns: vec![name.clone()], halved, about_zero, ..HistSpec::with_bins(count) };
        let fine = MapSpec::Hist(spec).tables(schema)?.remove(0).1.remove(0);
        let found = fine.edges().unwrap_or_default();
        let place = |edge: f64| {
            let at = found.partition_point(|other| *other < edge - SAME);
            found.get(at).is_some_and(|other| (other - edge).abs() < SAME).then_some(at)
        };
        // A part that a bin is halved to may be none of these, or a single one.
        let inside = |pair: &[f64]| {
            let inside = place(pair[0])?..place(pair[1])?;
            (inside.len() > 1).then_some(inside)
        };
        let inside: Vec<_> = edges.windows(2).map(inside).collect();
        let any = inside.iter().any(Option::is_some);
        Ok(any.then(|| Self { bins: count, halved, about_zero, len: fine.len(), inside }))
    }
}

/// Edges that are so near to each other are the same, but for rounding.
const SAME: f64 = 1e-9;
