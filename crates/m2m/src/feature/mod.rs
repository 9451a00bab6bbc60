//! Feature maps: a record becomes a vector of bounded integers.
//!
//! A map is described by parameters and a public seed ([`Design`]); the same description gives the same
//! integers on every machine, thread count and position in a file. What one record can do to the sums is
//! stated by a [`Body`] and holds for every record.

mod body;
mod cells;
mod design;
mod frequency;
mod hist;
pub(crate) mod phase;
mod projection;
mod race;
mod rff;
mod signs;
mod values;

pub use crate::simd::Simd;
pub use body::Body;
pub use cells::{Cell, Cells};
pub use design::{
    Block, CustomSpec, Design, Frequencies, Hash, HistSpec, Kernel, MapSpec, MergedColumn, MergedSpec, Precision,
    RaceSpec, RffSpec, SignColumn, SignsSpec, TablesSpec, ValueColumn, ValuesSpec,
};

pub(crate) use frequency::directions;
pub(crate) use values::{GRID, STEPS, clipped};

use crate::panel::{Layout, Panel, Record, Slot};
use crate::{Error, Schema};

/// A map from records to integers with a bound that every record keeps.
///
/// Three methods make a map. Everything else, the guard that enforces the bound included, is built from
/// them. A map of your own:
///
/// ```
/// use m2m::feature::{Body, FeatureMap};
/// use m2m::panel::{Record, Value};
///
/// /// The first column and its square, on a grid of one thousandth.
/// struct Powers;
///
/// impl FeatureMap for Powers {
///     fn len(&self) -> usize { 2 }
///     fn body(&self) -> Body { Body::Bounded { l1: 2000, l2_squared: 2_000_000 } }
///     fn record(&self, record: Record<'_>, features: &mut [i64]) {
///         if let Value::Unit(u) = record.value(0) {
///             features[0] = (1000.0 * u) as i64;
///             features[1] = (1000.0 * u * u) as i64;
///         }
///     }
/// }
/// ```
#[allow(clippy::len_without_is_empty)]
pub trait FeatureMap: Send + Sync {
    /// How many features a record has.
    fn len(&self) -> usize;

    /// The set that contains the features of every record.
    fn body(&self) -> Body;

    /// Writes the features of one record into `features`, which comes in as zeros. Must depend on nothing
    /// but the record.
    fn record(&self, record: Record<'_>, features: &mut [i64]);

    /// For a map that gives each record a single 1 per group: writes its places, group by group, the records of the
    /// panel within each. Other maps return false and write nothing.
    #[doc(hidden)]
    fn places(&self, _panel: &Panel, _places: &mut Vec<u32>) -> bool {
        false
    }

    /// What adds records to sums, with the space it needs. The default calls [`FeatureMap::record`] and pulls
    /// every record into [`FeatureMap::body`]; a faster one must give the same sums.
    fn adder(&self) -> Box<dyn Adder + '_> {
        Box::new(Guarded { map: self, features: vec![0; self.len()] })
    }
}

/// Adds the features of whole panels to sums.
pub trait Adder: Send {
    /// Adds the features of every record of the panel.
    fn add(&mut self, panel: &Panel, sums: &mut [i64]);
}

struct Guarded<'a, M: ?Sized> {
    map: &'a M,
    features: Vec<i64>,
}

impl<M: FeatureMap + ?Sized> Adder for Guarded<'_, M> {
    fn add(&mut self, panel: &Panel, sums: &mut [i64]) {
        let body = self.map.body();
        for row in 0..panel.len() {
            self.features.fill(0);
            self.map.record(panel.record(row), &mut self.features);
            body.enforce(&mut self.features);
            for (sum, feature) in sums.iter_mut().zip(&self.features) {
                *sum += feature;
            }
        }
    }
}

/// A column that a map reads.
pub(crate) struct Input {
    pub column: usize,
    pub slot: Slot,
    /// For a column of levels, how many codes it has.
    pub codes: Option<u32>,
}

pub(crate) type Inputs = Vec<Input>;

/// The columns that a map reads: those named, in that order, or all.
pub(crate) fn inputs(schema: &Schema, layout: &Layout, names: &[String]) -> Result<Inputs, Error> {
    let columns: Vec<usize> = if names.is_empty() {
        (0..schema.columns().len()).collect()
    } else {
        names.iter().map(|name| position(schema, name)).collect::<Result<_, _>>()?
    };
    if let Some(twice) = columns.iter().enumerate().find(|(i, column)| columns[..*i].contains(column)) {
        return Err(Error::Design(format!("column `{}` is named twice", schema.columns()[*twice.1].name)));
    }
    Ok(columns
        .into_iter()
        .map(|column| {
            let slot = layout.slots()[column];
            let codes = if let Slot::Code(slot) = slot { Some(layout.code_count(slot)) } else { None };
            Input { column, slot, codes }
        })
        .collect())
}

fn position(schema: &Schema, name: &str) -> Result<usize, Error> {
    schema.position(name).ok_or_else(|| Error::Design(format!("the schema has no column `{name}`")))
}
