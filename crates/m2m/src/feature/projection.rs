//! Random projections of a record: what precise Fourier features and RACE share.
//!
//! Output j of a record is `start_j + Σ_k x_k w_kj`, accumulated by fused multiply-adds in column order.
//! Categories and missing numbers have coordinates of their own (one-hot), so each of their codes adds a
//! constant. Offsets are multiples of 2⁻³² and the accumulator stays where that is its last place, so adding
//! them is exact.

use crate::Error;
use crate::feature::{Inputs, Simd};
use crate::panel::{Lane, PANEL, Panel, Record, Slot, Value};
use crate::simd::dispatched;
use crate::stream::PublicStream;

/// Outputs computed together: enough to keep the multipliers of AVX-512 busy. Narrower sets take them by halves.
pub(crate) const GROUP: usize = 10;
const HALF: usize = GROUP / 2;
/// Records in one step of the inner loop.
const LANES: usize = 8;
/// An accumulator that starts here has 32 bits behind the binary point: its low word is the fraction of a turn
/// and its high word counts whole turns.
pub(crate) const ORIGIN: f64 = 1.5 * (1u64 << 20) as f64;
/// The high word of [`ORIGIN`].
pub(crate) const ORIGIN_HIGH: u32 = (ORIGIN.to_bits() >> 32) as u32;
/// How far the sum may go from the origin.
const REACH: f64 = (1u64 << 19) as f64;

pub(crate) struct Projection {
    units: Vec<UnitInput>,
    codes: Vec<CodeInput>,
    /// Per output, padded to a multiple of [`GROUP`].
    start: Vec<f64>,
    /// `[group][unit input]`.
    weights: Vec<[f64; GROUP]>,
    outputs: usize,
}

struct UnitInput {
    slot: usize,
    column: usize,
    /// Per output, what a missing value adds.
    missing: Vec<f64>,
}

struct CodeInput {
    slot: usize,
    column: usize,
    codes: usize,
    /// `[output][code]`.
    offsets: Vec<f64>,
}

/// What a caller keeps of an accumulator.
pub(crate) trait Keep {
    type Out: Copy + Default + Send;
    fn keep(sum: f64) -> Self::Out;
}

/// The high word, which counts whole units from [`ORIGIN_HIGH`].
pub(crate) struct High;
/// All of it.
pub(crate) struct All;

impl Keep for High {
    type Out = u32;
    #[inline(always)]
    fn keep(sum: f64) -> u32 {
        (sum.to_bits() >> 32) as u32
    }
}

impl Keep for All {
    type Out = f64;
    #[inline(always)]
    fn keep(sum: f64) -> f64 {
        sum
    }
}

type Columns<T> = [Lane<T>; GROUP];

/// Space that a projection works in.
pub(crate) struct Scratch<K: Keep> {
    start: Box<Columns<f64>>,
    numbers: Vec<Lane<f64>>,
    pub kept: Box<Columns<K::Out>>,
}

impl<K: Keep> Default for Scratch<K> {
    fn default() -> Self {
        Self {
            start: Box::new([Lane::default(); GROUP]),
            numbers: Vec::new(),
            kept: Box::new([Lane::default(); GROUP]),
        }
    }
}

/// How many coordinates the inputs have: one per number and one more for its absence, one per code.
pub(crate) fn coordinates(inputs: &Inputs) -> usize {
    inputs.iter().map(|input| input.codes.map_or(2, |codes| codes as usize)).sum()
}

pub(crate) fn too_small() -> Error {
    Error::Design("sigma is so small that the projections of a record overflow; give a larger sigma".into())
}

impl Projection {
    /// `directions[output]` has [`coordinates`] entries: for each input either its weight and the weight of
    /// its absence, or a weight per code.
    pub fn new(inputs: &Inputs, directions: &[Vec<f64>], start: &[f64]) -> Result<Self, Error> {
        let outputs = directions.len();
        let padded = outputs.div_ceil(GROUP) * GROUP;
        let on_grid = |offset: f64| (offset * 4294967296.0).round_ties_even() / 4294967296.0;
        let (mut units, mut codes) = (Vec::new(), Vec::new());
        let mut weight_rows: Vec<Vec<f64>> = Vec::new();
        let mut reach = vec![0.0f64; outputs];
        let mut at = 0;
        for input in inputs.iter() {
            match (input.slot, input.codes) {
                (Slot::Unit(slot), _) => {
                    let mut missing = vec![0.0; padded];
                    let mut weights = vec![0.0; padded];
                    for (j, direction) in directions.iter().enumerate() {
                        weights[j] = direction[at];
                        missing[j] = on_grid(direction[at + 1]);
                        reach[j] += weights[j].abs().max(missing[j].abs());
                    }
                    units.push(UnitInput { slot, column: input.column, missing });
                    weight_rows.push(weights);
                    at += 2;
                }
                (Slot::Code(slot), count) => {
                    let count = count.expect("a slot of codes has a count") as usize;
                    let mut offsets = vec![0.0; padded * count];
                    for (j, direction) in directions.iter().enumerate() {
                        for (code, offset) in offsets[j * count..(j + 1) * count].iter_mut().enumerate() {
                            *offset = on_grid(direction[at + code]);
                        }
                        reach[j] += offsets[j * count..(j + 1) * count].iter().fold(0.0, |m: f64, o| m.max(o.abs()));
                    }
                    codes.push(CodeInput { slot, column: input.column, codes: count, offsets });
                    at += count;
                }
            }
        }
        let finite = directions.iter().flatten().all(|weight| weight.is_finite());
        if !finite || reach.iter().any(|reach| *reach + 1.0 >= REACH) {
            return Err(too_small());
        }
        let mut weights = Vec::with_capacity(padded / GROUP * units.len());
        for group in 0..padded / GROUP {
            for row in &weight_rows {
                weights.push(std::array::from_fn(|j| row[group * GROUP + j]));
            }
        }
        let mut padded_start = vec![0.0; padded];
        padded_start[..outputs].copy_from_slice(start);
        Ok(Self { units, codes, start: padded_start, weights, outputs })
    }

    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// The definition: one output of one record.
    pub fn one(&self, record: Record<'_>, output: usize) -> f64 {
        let mut sum = self.start[output];
        for input in &self.units {
            if record.value(input.column) == Value::Missing {
                sum += input.missing[output];
            }
        }
        for input in &self.codes {
            if let Value::Code(code) = record.value(input.column) {
                sum += input.offsets[output * input.codes + code as usize];
            }
        }
        let weights = &self.weights[output / GROUP * self.units.len()..];
        for (input, weights) in self.units.iter().zip(weights) {
            let x = if let Value::Unit(x) = record.value(input.column) { x } else { 0.0 };
            sum = x.mul_add(weights[output % GROUP], sum);
        }
        sum
    }

    /// Computes the outputs group by group for all records of the panel and hands each group over.
    pub fn each_group<K: Keep>(
        &self,
        simd: Simd,
        panel: &Panel,
        scratch: &mut Scratch<K>,
        mut take: impl FnMut(usize, &mut Columns<K::Out>),
    ) {
        let steps = panel.len().div_ceil(LANES);
        let complete = !self.units.iter().any(|input| panel.has_missing(input.slot));
        let Scratch { start: starts, numbers, kept } = scratch;
        // The panel's columns can be read as they are only if all are used, in their own order.
        let in_order = self.units.iter().enumerate().all(|(at, input)| input.slot == at);
        let in_place = complete && in_order && self.units.len() == panel.units().len();
        if !in_place {
            self.gather(panel, numbers);
        }
        let units = if in_place { panel.units() } else { numbers.as_slice() };
        for group in 0..self.start.len() / GROUP {
            let start: &[f64; GROUP] = self.start[group * GROUP..][..GROUP].try_into().expect("padded to whole groups");
            let weights = &self.weights[group * self.units.len()..][..self.units.len()];
            if complete && self.codes.is_empty() {
                if simd == Simd::Avx512 {
                    project_all::<K>(simd, units, weights, start, steps, kept);
                } else {
                    project_half::<K>(simd, units, weights, start, 0, steps, kept);
                    project_half::<K>(simd, units, weights, start, HALF, steps, kept);
                }
            } else {
                self.offsets(panel, group, starts);
                project_half_from::<K>(simd, units, weights, starts, 0, steps, kept);
                project_half_from::<K>(simd, units, weights, starts, HALF, steps, kept);
            }
            take(group * GROUP, kept);
        }
    }

    /// Copies the numbers that are used, with zeros for missing ones.
    fn gather(&self, panel: &Panel, numbers: &mut Vec<Lane<f64>>) {
        numbers.resize(self.units.len(), Lane::default());
        for (input, numbers) in self.units.iter().zip(numbers) {
            for (number, unit) in numbers.iter_mut().zip(panel.units()[input.slot].iter()) {
                *number = if unit.is_nan() { 0.0 } else { *unit };
            }
        }
    }

    /// What the codes and the missing numbers of each record add to the outputs of a group.
    fn offsets(&self, panel: &Panel, group: usize, starts: &mut Columns<f64>) {
        for (j, column) in starts.iter_mut().enumerate() {
            let output = group * GROUP + j;
            column.fill(self.start[output]);
            for input in self.units.iter().filter(|input| panel.has_missing(input.slot)) {
                for (sum, unit) in column.iter_mut().zip(panel.units()[input.slot].iter()) {
                    *sum += if unit.is_nan() { input.missing[output] } else { 0.0 };
                }
            }
            for input in &self.codes {
                let offsets = &input.offsets[output * input.codes..][..input.codes];
                for (sum, code) in column[..panel.len()].iter_mut().zip(panel.codes(input.slot)) {
                    *sum += offsets[*code as usize];
                }
            }
        }
    }
}

dispatched! {
    fn project_all<K: Keep>(units: &[Lane<f64>], weights: &[[f64; GROUP]], start: &[f64; GROUP], steps: usize, kept: &mut Columns<K::Out>)
        = all_outputs
}
dispatched! {
    fn project_half<K: Keep>(units: &[Lane<f64>], weights: &[[f64; GROUP]], start: &[f64; GROUP], first: usize, steps: usize, kept: &mut Columns<K::Out>)
        = half_of_outputs
}
dispatched! {
    fn project_half_from<K: Keep>(units: &[Lane<f64>], weights: &[[f64; GROUP]], start: &Columns<f64>, first: usize, steps: usize, kept: &mut Columns<K::Out>)
        = half_of_outputs_from
}

#[inline(always)]
fn all_outputs<K: Keep>(
    units: &[Lane<f64>],
    weights: &[[f64; GROUP]],
    start: &[f64; GROUP],
    steps: usize,
    kept: &mut Columns<K::Out>,
) {
    project::<K, GROUP>(units, weights, 0, steps, kept, |j, _| [start[j]; LANES]);
}

#[inline(always)]
fn half_of_outputs<K: Keep>(
    units: &[Lane<f64>],
    weights: &[[f64; GROUP]],
    start: &[f64; GROUP],
    first: usize,
    steps: usize,
    kept: &mut Columns<K::Out>,
) {
    project::<K, HALF>(units, weights, first, steps, kept, |j, _| [start[j]; LANES]);
}

#[inline(always)]
fn half_of_outputs_from<K: Keep>(
    units: &[Lane<f64>],
    weights: &[[f64; GROUP]],
    start: &Columns<f64>,
    first: usize,
    steps: usize,
    kept: &mut Columns<K::Out>,
) {
    project::<K, HALF>(units, weights, first, steps, kept, |j, at| *lanes(&start[j], at));
}

#[inline(always)]
fn lanes(column: &[f64; PANEL], at: usize) -> &[f64; LANES] {
    column[at..at + LANES].try_into().expect("LANES divides PANEL")
}

/// Outputs `first..first + N` of a group.
#[inline(always)]
fn project<K: Keep, const N: usize>(
    units: &[Lane<f64>],
    weights: &[[f64; GROUP]],
    first: usize,
    steps: usize,
    kept: &mut Columns<K::Out>,
    start: impl Fn(usize, usize) -> [f64; LANES],
) {
    let kept: &mut [Lane<K::Out>; N] = (&mut kept[first..first + N]).try_into().expect("within the group");
    for at in (0..PANEL).step_by(LANES).take(steps) {
        let mut sums: [[f64; LANES]; N] = std::array::from_fn(|j| start(first + j, at));
        for (column, weights) in units.iter().zip(weights) {
            let x = lanes(column, at);
            let weights: &[f64; N] = weights[first..first + N].try_into().expect("within the group");
            for (sums, w) in sums.iter_mut().zip(weights) {
                for l in 0..LANES {
                    sums[l] = x[l].mul_add(*w, sums[l]);
                }
            }
        }
        for (kept, sums) in kept.iter_mut().zip(&sums) {
            let kept: &mut [K::Out; LANES] = (&mut kept[at..at + LANES]).try_into().expect("LANES divides PANEL");
            for l in 0..LANES {
                kept[l] = K::keep(sums[l]);
            }
        }
    }
}

/// Draws directions for RACE: independent normals in every coordinate.
pub(crate) fn normal_directions(
    stream: &mut PublicStream,
    outputs: usize,
    coordinates: usize,
    scale: f64,
) -> Vec<Vec<f64>> {
    (0..outputs).map(|_| (0..coordinates).map(|_| stream.normal() * scale).collect()).collect()
}
