//! Phases of fast Fourier features, in whole numbers from the first step on: $t_j = x^\top\omega_j$ in units of 2⁻³² turns,
//! of which whole turns are dropped by letting 32 bits overflow.
//!
//! A number x of [0, 1] is taken as $X = \mathrm{round}(2^{27}(x - ½)) = 2^{12}h + l$ with $0 \le l < 2^{12}$, so that h and l
//! are whole numbers of 16 bits; a frequency is $W\,2^{-g}$ turns with W of 16 bits and one g for all columns
//! ([`on_grid`]). Then
//! $$2^{32}\,x\,W\,2^{-g} = 2^{17-g}\,(hW + 2^{-12}\,lW + 2^{14}\,W),$$
//! and the phase is $2^{17-g}$ times the sum of these brackets over the columns, of which the parts $2^{-12}\,lW$ of up to
//! 16 columns are rounded down together, by less than $2^{17-g}$: no more than the rounding of x may move the largest W, or
//! than the last place of the phase. Processors multiply and add 16-bit numbers two at a time in every lane, faster than
//! numbers of double precision, and whole numbers add up to the same in any order.

use crate::feature::Inputs;
use crate::panel::{Lane, PANEL, Panel, Record, Slot, Value};
use crate::simd::{self, Simd, Turns, dispatched};

/// Outputs computed together: enough to keep the multipliers of AVX-512 busy. Narrower sets take them by halves.
pub(crate) const GROUP: usize = 10;

/// Pairs of inputs whose products with low parts add up to less than 2³¹: 16 · 4095 · 32767.
pub(crate) const SAFE: usize = 8;

/// How many bits l has.
pub(crate) const LOW: u32 = 12;
const LOW_BITS: i32 = (1 << LOW) - 1;

/// The finest grid of frequencies, in binary places of a turn.
const FINEST: i32 = 17;
/// The coarsest, which is enough for [`REACH`].
const COARSEST: i32 = -4;
/// No weight may be larger, in turns.
const REACH: f64 = (1 << 19) as f64;

/// The binary places g of the grid on which the weights of a frequency, in turns, are whole numbers of 16 bits;
/// nothing if they are too large for any.
fn places(weights: impl Iterator<Item = f64>) -> Option<i32> {
    let largest = weights.fold(0.0, |largest: f64, weight| largest.max(weight.abs()));
    (COARSEST..=FINEST).rev().find(|places| rounded(largest, *places) <= 32767.0)
}

fn rounded(weight: f64, places: i32) -> f64 {
    (weight * 2f64.powi(places)).round_ties_even()
}

/// Moves a direction to where phases can be computed exactly: its weights of numbers to the finest grid on which they
/// have 16 bits, those of codes and of missing numbers to 2⁻³² turns. Left as it is if it is too large.
pub(crate) fn on_grid(inputs: &Inputs, direction: &mut [f64]) {
    let Some(places) = places(weights(inputs, direction)) else { return };
    let mut at = 0;
    for input in inputs {
        if input.codes.is_none() {
            direction[at] = rounded(direction[at], places) / 2f64.powi(places);
            at += 1;
        }
        let offsets = &mut direction[at..at + input.codes.unwrap_or(1) as usize];
        at += offsets.len();
        offsets.iter_mut().for_each(|offset| *offset = rounded(*offset, 32) / 2f64.powi(32));
    }
}

/// The weights of numbers in a direction, in the order of the inputs.
fn weights<'a>(inputs: &'a Inputs, direction: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
    let mut at = 0;
    inputs.iter().filter_map(move |input| {
        let weight = direction[at];
        at += input.codes.map_or(2, |codes| codes as usize);
        input.codes.is_none().then_some(weight)
    })
}

pub(crate) struct Phases {
    units: Vec<UnitInput>,
    codes: Vec<CodeInput>,
    /// Per output, padded to a multiple of [`GROUP`]: the sum of all 2¹⁴W.
    middle: Vec<i32>,
    /// Per output, 17 - g.
    shift: Vec<u32>,
    /// `[group][pair of unit inputs]`: the weight of the first in the low half, of the second in the high half.
    weights: Vec<[i32; GROUP]>,
    outputs: usize,
}

struct UnitInput {
    slot: usize,
    column: usize,
    /// Per output, what a missing value adds.
    missing: Vec<u32>,
}

struct CodeInput {
    slot: usize,
    column: usize,
    codes: usize,
    /// `[output][code]`.
    offsets: Vec<u32>,
}

type Columns = [Lane<u32>; GROUP];

/// Space that the phases of a panel are computed in.
pub(crate) struct Scratch {
    offsets: Box<Columns>,
    high: Vec<Lane<i32>>,
    low: Vec<Lane<i32>>,
    phases: Box<Columns>,
}

impl Default for Scratch {
    fn default() -> Self {
        let columns = || Box::new([Lane::default(); GROUP]);
        Self { offsets: columns(), high: Vec::new(), low: Vec::new(), phases: columns() }
    }
}

impl Phases {
    /// Of directions [`on_grid`], laid out as in [`super::projection`]; nothing if one is too large.
    pub fn new(inputs: &Inputs, directions: &[Vec<f64>]) -> Option<Self> {
        let outputs = directions.len();
        let padded = outputs.next_multiple_of(GROUP);
        let unit_count = inputs.iter().filter(|input| input.codes.is_none()).count();
        let pairs = unit_count.div_ceil(2);
        let mut phases = Self {
            units: Vec::new(),
            codes: Vec::new(),
            middle: vec![0; padded],
            shift: vec![0; padded],
            weights: vec![[0; GROUP]; padded / GROUP * pairs],
            outputs,
        };
        for input in inputs {
            match input.slot {
                Slot::Unit(slot) => {
                    phases.units.push(UnitInput { slot, column: input.column, missing: vec![0; padded] });
                }
                Slot::Code(slot) => {
                    let codes = input.codes.expect("a slot of codes has a count") as usize;
                    phases.codes.push(CodeInput {
                        slot,
                        column: input.column,
                        codes,
                        offsets: vec![0; padded * codes],
                    });
                }
            }
        }
        // Whole turns are dropped; what remains is a multiple of 2⁻³².
        let fraction = |turns: f64| ((turns - turns.floor()) * 4_294_967_296.0) as u32;
        for (j, direction) in directions.iter().enumerate() {
            let places = places(weights(inputs, direction))?;
            if !direction.iter().all(|weight| weight.abs() < REACH) {
                return None;
            }
            phases.shift[j] = (FINEST - places) as u32;
            let (mut at, mut unit, mut code) = (0, 0, 0);
            for input in inputs {
                if let Some(codes) = input.codes {
                    let codes = codes as usize;
                    let offsets = &mut phases.codes[code].offsets[j * codes..(j + 1) * codes];
                    offsets.iter_mut().zip(&direction[at..]).for_each(|(offset, turns)| *offset = fraction(*turns));
                    (at, code) = (at + codes, code + 1);
                } else {
                    let weight = rounded(direction[at], places) as i32;
                    let middle = weight << 14;
                    phases.middle[j] = phases.middle[j].wrapping_add(middle);
                    let present = (middle << phases.shift[j]) as u32;
                    phases.units[unit].missing[j] = fraction(direction[at + 1]).wrapping_sub(present);
                    let half = if unit % 2 == 0 { weight & 0xffff } else { weight << 16 };
                    phases.weights[j / GROUP * pairs + unit / 2][j % GROUP] |= half;
                    (at, unit) = (at + 2, unit + 1);
                }
            }
        }
        Some(phases)
    }

    pub fn outputs(&self) -> usize {
        self.outputs
    }

    fn pairs(&self) -> usize {
        self.units.len().div_ceil(2)
    }

    /// The definition: one output of one record.
    pub fn one(&self, record: Record<'_>, output: usize) -> u32 {
        let (mut sum, mut offset) = (self.middle[output], 0u32);
        for input in &self.codes {
            if let Value::Code(code) = record.value(input.column) {
                offset = offset.wrapping_add(input.offsets[output * input.codes + code as usize]);
            }
        }
        let weights = &self.weights[output / GROUP * self.pairs()..];
        for (inputs, weights) in self.units.chunks(2 * SAFE).zip(weights.chunks(SAFE)) {
            let mut low = 0;
            for (at, input) in inputs.iter().enumerate() {
                let both = weights[at / 2][output % GROUP];
                let weight = if at % 2 == 0 { i32::from(both as i16) } else { both >> 16 };
                match record.value(input.column) {
                    Value::Unit(x) => {
                        let x = whole(x);
                        sum = sum.wrapping_add((x >> LOW) * weight);
                        low += (x & LOW_BITS) * weight;
                    }
                    _ => offset = offset.wrapping_add(input.missing[output]),
                }
            }
            sum = sum.wrapping_add(low >> LOW);
        }
        ((sum << self.shift[output]) as u32).wrapping_add(offset)
    }

    /// Computes the phases group by group for all records of the panel and hands each group over.
    pub fn each_group(&self, simd: Simd, panel: &Panel, scratch: &mut Scratch, mut take: impl FnMut(usize, &Columns)) {
        let Scratch { offsets, high, low, phases } = scratch;
        let pairs = self.pairs();
        high.resize(pairs, Lane::default());
        low.resize(pairs, Lane::default());
        for ((inputs, high), low) in self.units.chunks(2).zip(&mut *high).zip(&mut *low) {
            let first = &panel.units()[inputs[0].slot];
            match inputs.get(1) {
                Some(second) => split(simd, first, &panel.units()[second.slot], high, low),
                None => split(simd, first, &[0.5; PANEL], high, low),
            }
        }
        let complete = !self.units.iter().any(|input| panel.has_missing(input.slot));
        let plain = complete && self.codes.is_empty();
        for group in 0..self.middle.len() / GROUP {
            let outputs = group * GROUP..(group + 1) * GROUP;
            if !plain {
                self.offsets(panel, group, offsets);
            }
            let turns = Turns {
                high,
                low,
                weights: &self.weights[group * pairs..][..pairs],
                middle: self.middle[outputs.clone()].try_into().expect("padded to whole groups"),
                shift: self.shift[outputs].try_into().expect("padded to whole groups"),
                offsets: (!plain).then_some(&**offsets),
                records: panel.len(),
            };
            simd::phases(simd, &turns, phases);
            take(group * GROUP, phases);
        }
    }

    /// What the codes and the missing numbers of each record add to the phases of a group.
    fn offsets(&self, panel: &Panel, group: usize, offsets: &mut Columns) {
        for (j, column) in offsets.iter_mut().enumerate() {
            let output = group * GROUP + j;
            column.fill(0);
            for input in self.units.iter().filter(|input| panel.has_missing(input.slot)) {
                let missing = input.missing[output];
                for (offset, unit) in column.iter_mut().zip(panel.units()[input.slot].iter()) {
                    *offset = offset.wrapping_add(if unit.is_nan() { missing } else { 0 });
                }
            }
            for input in &self.codes {
                let added = &input.offsets[output * input.codes..][..input.codes];
                for (offset, code) in column[..panel.len()].iter_mut().zip(panel.codes(input.slot)) {
                    *offset = offset.wrapping_add(added[*code as usize]);
                }
            }
        }
    }
}

/// X of a number of [0, 1]; 0 for a missing one.
#[inline(always)]
fn whole(x: f64) -> i32 {
    /// A number of size below 2⁵⁰ added to this is rounded to a whole one, in the low bits.
    const ROUND: f64 = 1.5 * (1u64 << 52) as f64;
    const MIDDLE: f64 = (1 << 26) as f64;
    let x = if x.is_nan() { 0.5 } else { x };
    (x * (1 << 27) as f64 + (ROUND - MIDDLE)).to_bits() as i32
}

dispatched! {
    fn split(first: &[f64; PANEL], second: &[f64; PANEL], high: &mut [i32; PANEL], low: &mut [i32; PANEL]) = split_loop
}

/// h and l of two numbers of each record, the first in the low half of a word and the second in the high half.
#[inline(always)]
fn split_loop(first: &[f64; PANEL], second: &[f64; PANEL], high: &mut [i32; PANEL], low: &mut [i32; PANEL]) {
    for (((first, second), high), low) in first.iter().zip(second).zip(high).zip(low) {
        let (first, second) = (whole(*first), whole(*second));
        *high = ((first >> LOW) & 0xffff) | ((second >> LOW) << 16);
        *low = (first & LOW_BITS) | ((second & LOW_BITS) << 16);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feature::Input;
    use crate::panel::{Layout, Row};
    use crate::schema::Schema;
    use proptest::prelude::*;

    /// Numbers, each of which may be missing, then a column of levels.
    fn table(numbers: usize) -> (Schema, Inputs) {
        let mut text = String::new();
        for i in 0..numbers {
            text += &format!("[[column]]\nname = \"c{i}\"\ntype = \"number\"\nmin = 0\nmax = 1\nnullable = true\n");
        }
        text += "[[column]]\nname = \"k\"\ntype = \"category\"\nlevels = [\"a\", \"b\"]\n";
        let schema = Schema::from_toml(&text).unwrap();
        let layout = Layout::new(&schema);
        let inputs = crate::feature::inputs(&schema, &layout, &[]).unwrap();
        (schema, inputs)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// Against arithmetic in 128 bits and in double precision: the phase is that of the directions on their grid, but
        /// for the rounding of each number to 2⁻²⁷.
        #[test]
        fn phases_are_those_of_the_directions(
            numbers in 1usize..40,
            seed: u64,
            scale in -9i32..18,
            missing in prop::option::of(0usize..40),
        ) {
            let (schema, inputs) = table(numbers);
            let mut stream = crate::stream::PublicStream::new("test", seed);
            let coordinates = super::super::projection::coordinates(&inputs);
            let mut directions: Vec<Vec<f64>> = (0..13)
                .map(|_| (0..coordinates).map(|_| (stream.uniform() - 0.5) * 2f64.powi(scale)).collect())
                .collect();
            directions.iter_mut().for_each(|direction| on_grid(&inputs, direction));
            let again: Vec<Vec<f64>> = directions
                .iter()
                .cloned()
                .map(|mut direction| {
                    on_grid(&inputs, &mut direction);
                    direction
                })
                .collect();
            prop_assert_eq!(&again, &directions);
            let phases = Phases::new(&inputs, &directions).unwrap();
            let mut panel = Panel::new(Layout::new(&schema));
            let rows = 37;
            for row in 0..rows {
                // The ends of the range too, and a missing number in every fifth row.
                let unit = |i: usize, x: f64| match (row % 5, row % 11) {
                    (1, _) if Some(i) == missing => f64::NAN,
                    (_, 3) => 1.0,
                    (_, 4) => 0.0,
                    _ => x,
                };
                let units = (0..numbers).map(|i| unit(i, stream.uniform())).collect();
                panel.push(&Row { units, codes: [row % 3].into() });
            }
            for simd in Simd::available() {
                let mut scratch = Scratch::default();
                let mut seen = 0;
                phases.each_group(simd, &panel, &mut scratch, |first, group| {
                    for (j, column) in group.iter().enumerate().take(directions.len() - first) {
                        seen += 1;
                        for row in 0..rows as usize {
                            assert_eq!(column[row], phases.one(panel.record(row), first + j), "{simd:?}");
                        }
                    }
                });
                prop_assert_eq!(seen, directions.len());
            }
            for (j, direction) in directions.iter().enumerate() {
                for row in 0..rows as usize {
                    let record = panel.record(row);
                    // In 2⁻⁶⁰ turns, of which 2⁶⁰ are dropped.
                    let exact = |turns: f64| (turns * 2f64.powi(32)) as i128 * (1 << 28);
                    let mut turns = 0i128;
                    for (i, input) in inputs.iter().enumerate() {
                        turns += match record.value(input.column) {
                            Value::Unit(x) => {
                                // Weights are multiples of 2⁻¹⁷; X is one of 2⁻²⁷, and x is rounded to it.
                                let x = ((x * 2f64.powi(27)).round_ties_even()) as i128;
                                (direction[2 * i] * 2f64.powi(17)) as i128 * x * (1 << 16)
                            }
                            Value::Missing => exact(direction[2 * i + 1]),
                            Value::Code(code) => exact(direction[2 * i + code as usize]),
                        };
                    }
                    let expected = (turns >> 28) as u32;
                    let off = expected.wrapping_sub(phases.one(record, j)) as i32;
                    // The low parts of up to 16 inputs are rounded down together, by less than a step of 2¹⁷⁻ᵍ.
                    let step = 1 << phases.shift[j];
                    prop_assert!((0..=step * numbers.div_ceil(16) as i32).contains(&off), "{off}");
                }
            }
        }
    }

    #[test]
    fn directions_that_are_too_large_are_refused() {
        let inputs = vec![Input { column: 0, slot: Slot::Unit(0), codes: None }];
        let direction = |turns: f64| vec![vec![turns, 0.0]];
        assert!(Phases::new(&inputs, &direction(524_272.0)).is_some());
        assert!(Phases::new(&inputs, &direction(524_281.0)).is_none());
        assert!(Phases::new(&inputs, &direction(f64::NAN)).is_none());
    }
}
