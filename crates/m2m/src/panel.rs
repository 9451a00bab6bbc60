//! Records on their way to features: a few hundred at a time, column by column, already within public bounds.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::Schema;
use crate::feature::Simd;
use crate::schema::{Kind, Range, Transform};
use crate::simd::dispatched;

/// How many records a panel holds: enough to fill vectors, few enough to stay in the nearest cache.
pub const PANEL: usize = 768;

/// One column of a panel, aligned to a cache line: a vector load that straddles two lines costs two.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Lane<T>([T; PANEL]);

impl<T: Copy + Default> Default for Lane<T> {
    fn default() -> Self {
        Self([T::default(); PANEL])
    }
}

impl<T> Deref for Lane<T> {
    type Target = [T; PANEL];
    #[inline(always)]
    fn deref(&self) -> &[T; PANEL] {
        &self.0
    }
}

impl<T> DerefMut for Lane<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T; PANEL] {
        &mut self.0
    }
}

/// Where the columns of a schema live in a panel.
pub struct Layout {
    slots: Vec<Slot>,
    units: Vec<UnitColumn>,
    codes: Vec<u32>,
}

/// The place of one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// Numbers in [0, 1], NaN where missing.
    Unit(usize),
    /// Codes of levels; the last one is "missing".
    Code(usize),
}

struct UnitColumn {
    range: Range,
    whole: bool,
}

impl Layout {
    /// The layout for a schema.
    pub fn new(schema: &Schema) -> Arc<Self> {
        let (mut slots, mut units, mut codes) = (Vec::new(), Vec::new(), Vec::new());
        for column in schema.columns() {
            match column.kind.range() {
                Some(range) => {
                    slots.push(Slot::Unit(units.len()));
                    units.push(UnitColumn { range: range.clone(), whole: column.kind.is_whole() });
                }
                None => {
                    slots.push(Slot::Code(codes.len()));
                    codes.push(column.kind.codes().expect("a column has a range or codes"));
                }
            }
        }
        Arc::new(Self { slots, units, codes })
    }

    /// The place of each column of the schema.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// How many codes a slot of codes has.
    pub(crate) fn code_count(&self, slot: usize) -> u32 {
        self.codes[slot]
    }
}

/// Up to [`PANEL`] encoded records.
#[derive(Clone)]
pub struct Panel {
    layout: Arc<Layout>,
    simd: Simd,
    len: usize,
    units: Vec<Lane<f64>>,
    /// While the panel is filled: how many rows of each unit slot are numbers of [0, 1] already.
    encoded: Vec<usize>,
    missing: Vec<bool>,
    codes: Vec<Lane<u32>>,
}

impl Panel {
    /// An empty panel.
    pub fn new(layout: Arc<Layout>) -> Self {
        Self {
            len: 0,
            simd: Simd::detect(),
            units: vec![Lane::default(); layout.units.len()],
            encoded: vec![0; layout.units.len()],
            missing: vec![false; layout.units.len()],
            codes: vec![Lane::default(); layout.codes.len()],
            layout,
        }
    }

    /// A panel of a schema whose columns are all numeric, from numbers already in [0, 1] (or NaN for missing).
    pub fn from_units(schema: &Schema, len: usize, mut unit: impl FnMut(usize, usize) -> f64) -> Self {
        let mut panel = Self::new(Layout::new(schema));
        assert!(len <= PANEL && panel.codes.is_empty());
        panel.len = len;
        for (column, (values, missing)) in panel.units.iter_mut().zip(&mut panel.missing).enumerate() {
            for (row, value) in values[..len].iter_mut().enumerate() {
                *value = unit(row, column).clamp(0.0, 1.0);
                *missing |= value.is_nan();
            }
        }
        panel
    }

    /// How many records are in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// The numbers of all unit slots, column by column. Entries past [`Panel::len`] are leftovers.
    pub(crate) fn units(&self) -> &[Lane<f64>] {
        &self.units
    }

    /// Whether a unit slot has a missing value in this panel.
    pub(crate) fn has_missing(&self, slot: usize) -> bool {
        self.missing[slot]
    }

    pub(crate) fn codes(&self, slot: usize) -> &[u32; PANEL] {
        &self.codes[slot]
    }

    /// One of the records.
    pub fn record(&self, row: usize) -> Record<'_> {
        assert!(row < self.len);
        Record { panel: self, row }
    }

    /// The space for raw values of a unit slot, to be turned into units by [`Panel::encode`].
    #[inline]
    pub(crate) fn raw_units(&mut self, slot: usize) -> &mut [f64; PANEL] {
        &mut self.units[slot]
    }

    #[inline]
    pub(crate) fn set_code(&mut self, slot: usize, row: usize, code: u32) {
        debug_assert!(code < self.layout.codes[slot]);
        self.codes[slot][row] = code;
    }

    /// Takes raw values of a unit slot for the rows from `at` on and maps them to [0, 1] at once. Returns how many lay
    /// outside their bounds; nothing, and nothing is taken, if one is NaN or rows before them are still raw.
    pub(crate) fn take_raw(&mut self, slot: usize, at: usize, raw: &[f64]) -> Option<u64> {
        if self.encoded[slot] != at {
            return None;
        }
        let column = &self.layout.units[slot];
        let units = &mut self.units[slot][at..at + raw.len()];
        let (outside, missing) = to_units(self.simd, raw, &column.range, column.whole, units);
        (!missing).then(|| {
            self.encoded[slot] += raw.len();
            outside
        })
    }

    /// Declares the first `len` rows filled and maps those with raw values to [0, 1]. Returns how many of these lay
    /// outside their bounds.
    pub(crate) fn encode(&mut self, len: usize) -> u64 {
        self.len = len;
        let mut outside = 0;
        for (slot, column) in self.layout.units.iter().enumerate() {
            let rows = std::mem::take(&mut self.encoded[slot])..len;
            if rows.is_empty() {
                self.missing[slot] = false;
                continue;
            }
            let raw = self.units[slot];
            let units = &mut self.units[slot][rows.clone()];
            let (out, missing) = to_units(self.simd, &raw[rows], &column.range, column.whole, units);
            self.missing[slot] = missing;
            outside += out;
        }
        outside
    }

    /// Adds an encoded record at the end.
    pub(crate) fn push(&mut self, row: &Row) {
        let at = self.len;
        if at == 0 {
            self.missing.fill(false);
        }
        for ((values, missing), unit) in self.units.iter_mut().zip(&mut self.missing).zip(&row.units) {
            values[at] = *unit;
            *missing |= unit.is_nan();
        }
        for (values, code) in self.codes.iter_mut().zip(&row.codes) {
            values[at] = *code;
        }
        self.len += 1;
    }
}

/// One encoded record of a panel: all that a feature map may see.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    panel: &'a Panel,
    row: usize,
}

/// A value of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A number, rescaled to [0, 1] by its public bounds.
    Unit(f64),
    /// The code of a level, of "other", or of "missing" (the last code).
    Code(u32),
    /// A missing number.
    Missing,
}

impl Record<'_> {
    /// The value in a column of the schema.
    pub fn value(&self, column: usize) -> Value {
        match self.panel.layout.slots[column] {
            Slot::Unit(slot) => {
                let unit = self.panel.units[slot][self.row];
                if unit.is_nan() { Value::Missing } else { Value::Unit(unit) }
            }
            Slot::Code(slot) => Value::Code(self.panel.codes[slot][self.row]),
        }
    }

    pub(crate) fn to_row(self) -> Row {
        Row {
            units: self.panel.units.iter().map(|values| values[self.row]).collect(),
            codes: self.panel.codes.iter().map(|values| values[self.row]).collect(),
        }
    }
}

/// An encoded record on its own.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub units: Box<[f64]>,
    pub codes: Box<[u32]>,
}

dispatched! {
    fn to_units(raw: &[f64], range: &Range, whole: bool, units: &mut [f64]) -> (u64, bool) = to_units_loop
}

/// Applies [`Range::unit`] to each, rounded first in a column of whole numbers; how many lay outside the bounds, and
/// whether one was missing.
#[inline(always)]
fn to_units_loop(raw: &[f64], range: &Range, whole: bool, units: &mut [f64]) -> (u64, bool) {
    match (range.transform().is_none(), whole) {
        (true, false) => each_to_unit(raw, range, units, |x| x, |x| range.unit_as(Transform::None, x)),
        (true, true) => each_to_unit(raw, range, units, f64::round_ties_even, |x| range.unit_as(Transform::None, x)),
        (false, false) => each_to_unit(raw, range, units, |x| x, |x| range.unit(x)),
        (false, true) => each_to_unit(raw, range, units, f64::round_ties_even, |x| range.unit(x)),
    }
}

#[inline(always)]
fn each_to_unit(
    raw: &[f64],
    range: &Range,
    units: &mut [f64],
    value: impl Fn(f64) -> f64,
    unit: impl Fn(f64) -> f64,
) -> (u64, bool) {
    let (min, max) = (range.min(), range.max());
    let (mut outside, mut missing) = (0u64, 0u64);
    for (raw, out) in raw.iter().zip(units) {
        let value = value(*raw);
        outside += u64::from(value < min) + u64::from(value > max);
        missing += u64::from(value.is_nan());
        *out = unit(value);
    }
    (outside, missing > 0)
}

/// The code that "missing" has in a column of levels.
pub(crate) fn missing_code(kind: &Kind) -> u32 {
    kind.codes().map_or(0, |codes| codes - 1)
}
