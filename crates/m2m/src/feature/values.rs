//! Values of single columns, each from the low to the high end of an interval, and held there beyond.
//!
//! A histogram spreads its noise over all of its bins, and the mean of a column adds up all of it. A value has the noise of
//! one feature, and sees where in a bin the rows are.
//!
//! # Privacy
//! Lemma 2c: the last step of a feature is to hold it between -[`GRID`] and [`GRID`], so the features of a record lie in
//! that cube whatever came before.

use crate::feature::{Adder, Body, FeatureMap};
use crate::panel::{Panel, Record, Value};

/// The ends of an interval are whole multiples of one over this.
pub(crate) const STEPS: u32 = 1 << 16;
/// Features are from minus this to this.
pub(crate) const GRID: i64 = 1 << 12;

/// What a feature stands for, from -1 to 1, of a number between an interval's ends or beyond.
pub(crate) fn clipped(unit: f64, low: u32, high: u32) -> f64 {
    let [low, high] = [low, high].map(|end| f64::from(end) / f64::from(STEPS));
    ((2.0 * unit - low - high) / (high - low)).clamp(-1.0, 1.0)
}

/// Values of numeric columns.
pub(crate) struct Values {
    columns: Vec<Clipped>,
}

/// A numeric column and an interval of it.
pub(crate) struct Clipped {
    /// The place of the column in the schema, and among the numeric columns of a panel.
    column: usize,
    slot: usize,
    /// The low end, in steps.
    low: f64,
    /// What a step adds to the feature.
    slope: f64,
}

impl Clipped {
    /// `low` is below `high`.
    pub fn new(column: usize, slot: usize, low: u32, high: u32) -> Self {
        Self { column, slot, low: f64::from(low), slope: 2.0 * GRID as f64 / (f64::from(high) - f64::from(low)) }
    }

    /// The feature of a number; 0 where it is missing.
    fn at(&self, unit: f64) -> i64 {
        if unit.is_nan() {
            return 0;
        }
        let grid = GRID as f64;
        (((unit * f64::from(STEPS) - self.low) * self.slope - grid + 0.5).floor() as i64).clamp(-GRID, GRID)
    }
}

impl Values {
    pub fn new(columns: Vec<Clipped>) -> Self {
        Self { columns }
    }
}

impl FeatureMap for Values {
    fn len(&self) -> usize {
        self.columns.len()
    }

    fn body(&self) -> Body {
        Body::Cube { coordinates: self.columns.len() as u64, radius: GRID as u64 }
    }

    fn record(&self, record: Record<'_>, features: &mut [i64]) {
        for (feature, column) in features.iter_mut().zip(&self.columns) {
            if let Value::Unit(unit) = record.value(column.column) {
                *feature = column.at(unit);
            }
        }
    }

    fn adder(&self) -> Box<dyn Adder + '_> {
        Box::new(ValuesAdder { map: self })
    }
}

struct ValuesAdder<'a> {
    map: &'a Values,
}

impl Adder for ValuesAdder<'_> {
    fn add(&mut self, panel: &Panel, sums: &mut [i64]) {
        for (sum, column) in sums.iter_mut().zip(&self.map.columns) {
            *sum += panel.units()[column.slot][..panel.len()].iter().map(|unit| column.at(*unit)).sum::<i64>();
        }
    }
}
