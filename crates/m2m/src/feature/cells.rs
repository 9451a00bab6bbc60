//! The public partition of a column into cells: bins, atoms, whole numbers or levels, and "missing".

use std::sync::Arc;

use crate::feature::projection::{ORIGIN, ORIGIN_HIGH};
use crate::feature::{Input, Simd};
use crate::panel::{PANEL, Panel, Record, Slot, Value};
use crate::schema::{Kind, Schema};
use crate::simd::dispatched;

/// The cells of one column. Every record falls into exactly one.
///
/// Order: the bins from low to high, then the atoms from low to high, then "missing"; for a column of levels,
/// its codes.
///
/// Cells may be merged: then they are counted and numbered by what they are merged into.
#[derive(Clone, PartialEq)]
pub struct Cells {
    column: usize,
    slot: Slot,
    parts: Parts,
    /// What each cell is merged into, and how many those are; nothing where cells stand for themselves.
    merged: Option<(Arc<[u32]>, usize)>,
}

#[derive(Clone, PartialEq)]
enum Parts {
    Bins { bins: Bins, atoms: Arc<[f64]> },
    Levels { codes: u32 },
}

/// The bins of numbers u in [0, 1], by where v = scale·u + shift is between whole numbers.
///
/// Each of them consists of equally many grains. The first may be halved towards the low end of the range, again and again (of
/// an odd number of grains, the larger half stays), and from the last is cut off as much as is left of the first then, at the
/// high end. Or an edge is laid at 0, and the bins on either side of it are halved towards it; the first and the last are then as
/// wide as the range leaves them. All of it is decided on v rounded to 2⁻³², so that a value which sits on an edge but for the last bits of its
/// arithmetic falls into the upper bin.
#[derive(Clone, Copy, PartialEq)]
struct Bins {
    scale: f64,
    shift: f64,
    /// Whole numbers that v falls between.
    whole: u32,
    /// How many times the first bin is halved.
    halved: u32,
    /// How many grains a bin has: as many whole numbers, unless there are more than v can tell apart.
    grains: u32,
    /// The largest v, in 2⁻³².
    end: u64,
    /// How near to it a last bin is cut off, likewise; 0 if there is none, as where whole numbers fill too little of the last.
    cut: u64,
    /// The bins on either side of 0, which are halved instead.
    about: Option<About>,
}

/// Bins that are halved towards the edge between them.
#[derive(Clone, Copy, PartialEq)]
struct About {
    /// The whole number v at that edge, above 1 and below the last.
    edge: u32,
    /// Where it is in [0, 1].
    unit: f64,
    halved: u32,
}

impl Bins {
    fn even(bins: u32, halved: u32) -> Self {
        let halved = if bins > 1 { halved } else { 0 };
        let cut = if halved > 0 { 1 << (32 - halved) } else { 0 };
        let end = u64::from(bins) << 32;
        Self { scale: f64::from(bins), shift: 0.0, whole: bins, halved, grains: 1 << halved, end, cut, about: None }
    }

    /// Of the same width, with an edge at a place of [0, 1] towards which both bins beside it are halved. Nothing if either
    /// end of the range is less than a bin away.
    fn about(bins: u32, halved: u32, unit: f64) -> Option<Self> {
        let scale = f64::from(bins);
        // As v is rounded, and once only, so that the place itself is on the edge.
        let place = unit.mul_add(scale, ORIGIN) - ORIGIN;
        let (edge, shift) = (place.ceil(), place.ceil() - place);
        let fits = place > 1.0 && place < scale - 1.0;
        let about = About { edge: edge as u32, unit, halved };
        fits.then(|| Self {
            scale,
            shift,
            whole: (scale + shift).ceil() as u32,
            halved: 0,
            grains: 1,
            end: ((scale + shift) * TWO_32).round() as u64,
            cut: 0,
            about: Some(about),
        })
    }

    /// Of span + 1 whole numbers, about as many in each bin; there is at least one in every part of a bin.
    fn lattice(span: f64, bins: u32, halved: u32) -> Self {
        let mut size = ((span + 1.0) / f64::from(bins)).ceil().max(1.0);
        // How often a bin can be halved without a rest.
        let mut even = 0;
        if halved > 0 && size > 1.0 {
            // Where there are many, a number that can be divided; never a multiple of five, of which bins of round numbers
            // would all hold equally many.
            even = if size > LARGE { (size as u64).ilog2() - 4 } else { 0 };
            let step = (1u64 << even) as f64;
            size = (size / step).ceil() * step;
            size += if size % 5.0 == 0.0 { step } else { 0.0 };
        }
        let whole = ((span + 1.0) / size).ceil() as u32;
        let grain = 1u64 << even.saturating_sub(MOST_EVEN);
        let grains = if halved > 0 { (size as u64 / grain) as u32 } else { 1 };
        let halved = if whole > 1 { halved.min(u32::BITS - (grains - 1).leading_zeros()) } else { 0 };
        let left = u64::from(grains).div_ceil(1 << halved);
        let in_last = span + 1.0 - f64::from(whole - 1) * size;
        let is_cut = halved > 0 && in_last > (left * grain) as f64;
        let fixed = |numbers: f64| (numbers / size * TWO_32).round() as u64;
        let cut = if is_cut { fixed((left * grain) as f64) } else { 0 };
        Self { scale: span / size, shift: 0.5 / size, whole, halved, grains, end: fixed(span + 1.0), cut, about: None }
    }

    fn len(&self) -> u32 {
        self.halved + self.whole + u32::from(self.cut > 0) + self.about.map_or(0, |about| 2 * about.halved)
    }

    #[inline(always)]
    fn of(&self, u: f64) -> u32 {
        let place = u.mul_add(self.scale, ORIGIN + self.shift);
        let whole = ((place.to_bits() >> 32) as u32).wrapping_sub(ORIGIN_HIGH).min(self.whole - 1);
        if self.halved == 0 && self.about.is_none() {
            return whole;
        }
        let v = place.to_bits().wrapping_sub(ORIGIN.to_bits()).min(self.end - 1);
        if let Some(about) = self.about {
            return about.of(v);
        }
        if whole > 0 {
            return self.halved + whole + u32::from(self.end - 1 - v < self.cut);
        }
        // The grain, and how often it is to be doubled until it is beyond all: so often was the bin halved above it.
        let grain = ((u64::from(v as u32) * u64::from(self.grains)) >> 32) as u32;
        let doubled = grain.leading_zeros() - self.grains.leading_zeros();
        let above = doubled + u32::from(u64::from(grain) << doubled < u64::from(self.grains));
        (self.halved + 1).saturating_sub(above)
    }

    /// Where the bins begin and end, as numbers v.
    fn edges(&self) -> Vec<f64> {
        if let Some(about) = self.about {
            return about.edges(self.shift, self.whole, self.end as f64 / TWO_32);
        }
        let half =
            |halved: u32| f64::from(u64::from(self.grains).div_ceil(1 << halved) as u32) / f64::from(self.grains);
        let end = self.end as f64 / TWO_32;
        let mut edges = vec![0.0];
        edges.extend((1..=self.halved).rev().map(half));
        edges.extend((1..self.whole).map(f64::from));
        edges.extend((self.cut > 0).then(|| end - self.cut as f64 / TWO_32));
        edges.push(end);
        edges
    }

    /// The same on [0, 1].
    fn units(&self) -> Vec<f64> {
        let mut units: Vec<f64> =
            self.edges().iter().map(|v| ((v - self.shift) / self.scale).clamp(0.0, 1.0)).collect();
        *units.last_mut().expect("there is a bin") = 1.0;
        if let Some(About { edge, unit, halved }) = self.about {
            units[(edge + halved) as usize] = unit;
        }
        units
    }
}

impl About {
    /// The bin of a number v, in 2⁻³².
    #[inline(always)]
    fn of(self, v: u64) -> u32 {
        let (whole, part) = ((v >> 32) as u32, v as u32);
        // How often a bin was halved between its far end and the number.
        let below = (!part).leading_zeros().min(self.halved);
        let above = self.halved - part.leading_zeros().min(self.halved);
        let passed = if whole + 1 == self.edge { below } else { 2 * self.halved };
        let passed = if whole == self.edge { self.halved + above } else { passed };
        whole + if whole + 1 < self.edge { 0 } else { passed }
    }

    /// Where the bins begin and end, from a first v to a last in the last of so many bins.
    fn edges(self, from: f64, whole: u32, to: f64) -> Vec<f64> {
        let halves = || (1..=self.halved as i32).map(|times| 0.5f64.powi(times));
        let edge = f64::from(self.edge);
        let mut edges = vec![from];
        edges.extend((1..self.edge).map(f64::from));
        edges.extend(halves().map(|half| edge - half));
        edges.push(edge);
        edges.extend(halves().rev().map(|half| edge + half));
        edges.extend((self.edge + 1..whole).map(f64::from));
        edges.push(to);
        edges
    }
}

const TWO_32: f64 = (1u64 << 32) as f64;
/// Bins of at least 2³¹ whole numbers have grains of several, of which there are less than 2²⁹.
const MOST_EVEN: u32 = 24;
/// More whole numbers than this in a bin are made a multiple of a power of two.
const LARGE: f64 = 64.0;

/// What a cell contains.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Numbers from `low` to `high`; whole numbers include both, others include `low` only.
    Bin {
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
    },
    /// One public value.
    Atom(f64),
    /// A level, "(other)" or "(missing)".
    Level(String),
    /// No number.
    Missing,
}

impl Cells {
    /// Whole numbers get a cell each while there are at most `bins` of them, and cells of equally many
    /// otherwise; other numbers get `bins` cells that are equally wide after the transform. The first of them
    /// is halved so many times, or those on either side of 0 are (`about_zero`), if that is not 0 and if the range goes on
    /// beyond these bins.
    pub(crate) fn new(schema: &Schema, input: &Input, bins: u32, halved: u32, about_zero: u32) -> Self {
        let kind = &schema.columns()[input.column].kind;
        let parts = match (input.codes, kind.range()) {
            (Some(codes), _) => Parts::Levels { codes },
            (None, range) => {
                let range = range.expect("a column without codes has a range");
                let span = range.max() - range.min();
                let atoms = || range.atoms().iter().map(|atom| range.unit(*atom)).collect::<Arc<[f64]>>();
                if lattice(kind) {
                    let bins = Bins::lattice(span, bins, halved);
                    let atoms = if f64::from(bins.whole) <= span { atoms() } else { Arc::new([]) };
                    Parts::Bins { bins, atoms }
                } else {
                    let both =
                        range.min() < 0.0 && range.max() > 0.0 && !matches!(kind, Kind::Date(_) | Kind::Datetime(_));
                    let zero = (about_zero > 0 && both).then(|| range.unit(0.0));
                    let about = zero.and_then(|zero| Bins::about(bins, about_zero, zero));
                    Parts::Bins { bins: about.unwrap_or_else(|| Bins::even(bins, halved)), atoms: atoms() }
                }
            }
        };
        Self { column: input.column, slot: input.slot, parts, merged: None }
    }

    /// The same with its cells merged into groups, which are numbered from 0 without gaps. Nothing if there is not one
    /// number for every cell, or a gap.
    pub(crate) fn merge(self, groups: &[u32]) -> Option<Self> {
        let count = groups.iter().max().map_or(0, |last| *last as usize + 1);
        let complete = count <= groups.len() && {
            let mut seen = vec![false; count];
            groups.iter().for_each(|group| seen[*group as usize] = true);
            seen.iter().all(|seen| *seen)
        };
        let fits = self.merged.is_none() && groups.len() == self.len();
        (fits && complete).then(|| Self { merged: Some((groups.into(), count)), ..self })
    }

    /// Which column of the schema it partitions.
    pub fn column(&self) -> usize {
        self.column
    }

    /// How many cells there are.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.merged.as_ref().map_or_else(|| self.unmerged(), |(_, count)| *count)
    }

    fn unmerged(&self) -> usize {
        match &self.parts {
            Parts::Bins { bins, atoms } => bins.len() as usize + atoms.len() + 1,
            Parts::Levels { codes } => *codes as usize,
        }
    }

    /// What a cell contains, before any merging.
    pub fn describe(&self, schema: &Schema, cell: usize) -> Cell {
        let kind = &schema.columns()[self.column].kind;
        match &self.parts {
            Parts::Levels { .. } => Cell::Level(kind.label(cell as u32).to_owned()),
            Parts::Bins { bins, atoms } => {
                let range = kind.range().expect("bins belong to a range");
                let count = bins.len() as usize;
                if cell >= count {
                    return match range.atoms().get(cell - count) {
                        Some(atom) if cell - count < atoms.len() => Cell::Atom(*atom),
                        _ => Cell::Missing,
                    };
                }
                if lattice(kind) {
                    // From the first number that is not below an edge.
                    let size = ((range.max() - range.min()) / bins.scale).round();
                    let from = |edge: f64| range.min() + (edge * size - 0.5 - 1e-6).ceil();
                    let edges = bins.edges();
                    Cell::Bin { low: from(edges[cell]), high: (from(edges[cell + 1]) - 1.0).min(range.max()) }
                } else {
                    let units = bins.units();
                    Cell::Bin { low: range.value(units[cell]), high: range.value(units[cell + 1]) }
                }
            }
        }
    }

    /// Where its bins begin and end in [0, 1]; nothing for a column of levels.
    pub(crate) fn edges(&self) -> Option<Vec<f64>> {
        match &self.parts {
            Parts::Levels { .. } => None,
            Parts::Bins { bins, .. } => Some(bins.units()),
        }
    }

    /// Whether bins are halved towards 0 from both sides.
    pub(crate) fn is_about_zero(&self) -> bool {
        matches!(&self.parts, Parts::Bins { bins, .. } if bins.about.is_some())
    }

    /// The cells of numbers (bins and atoms) from low to high; nothing for a column of levels.
    pub(crate) fn in_order(&self) -> Option<Vec<usize>> {
        let Parts::Bins { bins, atoms } = &self.parts else { return None };
        let middle = |pair: &[f64]| (0.5 * (pair[0] + pair[1]) - bins.shift) / bins.scale;
        let mut placed: Vec<(f64, usize)> =
            bins.edges().windows(2).enumerate().map(|(bin, pair)| (middle(pair), bin)).collect();
        placed.extend(atoms.iter().enumerate().map(|(atom, unit)| (*unit, bins.len() as usize + atom)));
        placed.sort_by(|a, b| a.0.total_cmp(&b.0));
        Some(placed.into_iter().map(|(_, cell)| cell).collect())
    }

    /// The definition: the cell of one record.
    pub(crate) fn one(&self, record: Record<'_>) -> u32 {
        self.of(record.value(self.column))
    }

    /// The cell of a value of the column.
    pub(crate) fn of(&self, value: Value) -> u32 {
        let cell = match (value, &self.parts) {
            (Value::Code(code), _) => code,
            (Value::Unit(u), Parts::Bins { bins, atoms }) => match atoms.iter().position(|atom| *atom == u) {
                Some(atom) => bins.len() + atom as u32,
                None => bins.of(u),
            },
            _ => self.unmerged() as u32 - 1,
        };
        self.merged.as_ref().map_or(cell, |(groups, _)| groups[cell as usize])
    }

    /// The cells of all records of a panel.
    pub(crate) fn all(&self, simd: Simd, panel: &Panel, cells: &mut [u32; PANEL]) {
        let n = panel.len();
        match (self.slot, &self.parts) {
            (Slot::Unit(slot), Parts::Bins { bins, atoms }) => {
                let missing = self.unmerged() as u32 - 1;
                let units = &panel.units()[slot];
                bin_all(simd, &units[..n], bins, missing, cells);
                // Backwards, so that the first of atoms which the scale cannot tell apart counts, as above.
                for (a, atom) in atoms.iter().enumerate().rev() {
                    for (cell, u) in cells[..n].iter_mut().zip(units.iter()) {
                        *cell = if *u == *atom { bins.len() + a as u32 } else { *cell };
                    }
                }
            }
            (Slot::Code(slot), _) => cells[..n].copy_from_slice(&panel.codes(slot)[..n]),
            (Slot::Unit(_), Parts::Levels { .. }) => unreachable!("levels live in slots of codes"),
        }
        if let Some((groups, _)) = &self.merged {
            cells[..n].iter_mut().for_each(|cell| *cell = groups[*cell as usize]);
        }
    }
}

/// Whether cells are made of whole numbers: not under a transform, where equal steps are no longer equal.
fn lattice(kind: &Kind) -> bool {
    kind.is_whole() && kind.range().is_some_and(|range| range.transform().is_none())
}

dispatched! {
    fn bin_all(units: &[f64], bins: &Bins, missing: u32, cells: &mut [u32; PANEL]) = bin_loop
}

#[inline(always)]
fn bin_loop(units: &[f64], bins: &Bins, missing: u32, cells: &mut [u32; PANEL]) {
    let mut all = |bins: Bins| {
        for (cell, u) in cells.iter_mut().zip(units) {
            let place = bins.of(*u);
            *cell = if u.is_nan() { missing } else { place };
        }
    };
    // Apart, so that each case is a short loop.
    match bins {
        Bins { halved: 0, about: None, .. } => all(Bins { halved: 0, about: None, ..*bins }),
        Bins { about: None, .. } => all(Bins { about: None, ..*bins }),
        Bins { about: Some(about), .. } => all(Bins { halved: 0, about: Some(*about), ..*bins }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feature::{HistSpec, MapSpec};
    use crate::stream::PublicStream;

    fn cells(schema: &Schema, bins: u32, halved: u32) -> Cells {
        let spec = HistSpec { halved, ..HistSpec::with_bins(bins) };
        MapSpec::Hist(spec).tables(schema).unwrap().remove(0).1.remove(0)
    }

    /// Every number lies in its bin, whose edges increase; those on an edge are in the upper bin.
    #[test]
    fn numbers_lie_between_the_edges_of_their_bins() {
        let schema = Schema::from_toml("[[column]]\nname = 'x'\ntype = 'number'\nmin = 0\nmax = 1\n").unwrap();
        let mut random = PublicStream::new("test", 30);
        for (bins, halved) in [(1, 5), (2, 1), (3, 24), (64, 12), (256, 7), (50, 0)] {
            let cells = cells(&schema, bins, halved);
            let edges = cells.edges().unwrap();
            let expected = if bins == 1 || halved == 0 { bins } else { bins + halved + 1 };
            assert_eq!((edges.len(), cells.len()), (expected as usize + 1, expected as usize + 1));
            assert!(edges.windows(2).all(|pair| pair[0] < pair[1]), "{edges:?}");
            for (at, edge) in edges.iter().enumerate().take(expected as usize) {
                assert_eq!(cells.of(Value::Unit(*edge)) as usize, at, "{edge}");
            }
            assert_eq!(cells.of(Value::Unit(1.0)), expected - 1);
            for _ in 0..2000 {
                let u = random.uniform().powi(1 + random.below(12) as i32);
                for u in [u, 1.0 - u] {
                    let at = cells.of(Value::Unit(u)) as usize;
                    assert!(edges[at] <= u + 1e-9 && u <= edges[at + 1] + 1e-9, "{u} in {at}");
                }
            }
        }
    }

    /// The same where bins are halved towards 0 from both sides; 0 and the least numbers beside it are in cells of their own.
    #[test]
    fn bins_are_halved_towards_zero_from_both_sides() {
        let mut random = PublicStream::new("test", 31);
        for at in 0..200 {
            let (min, max) =
                (-1.0 - 50.0 * random.uniform(), 1.0 + if at < 100 { 3.0 } else { 0.0 } * random.uniform());
            let (bins, halved) = [(7, 1), (11, 6), (6112, 6), (251, 24)][at % 4];
            let toml = format!("[[column]]\nname = 'x'\ntype = 'number'\nmin = {min}\nmax = {max}\n");
            let schema = Schema::from_toml(&toml).unwrap();
            let range = schema.columns()[0].kind.range().unwrap();
            let spec = HistSpec { about_zero: halved, halved: 3, ..HistSpec::with_bins(bins) };
            let cells = MapSpec::Hist(spec).tables(&schema).unwrap().remove(0).1.remove(0);
            let (zero, scale) = (range.unit(0.0), f64::from(bins));
            let fits = zero * scale > 1.0 && (1.0 - zero) * scale > 1.0;
            assert_eq!(cells.is_about_zero(), fits);
            if !fits {
                assert_eq!(cells.len() as u32, bins + 3 + 1 + 1);
                continue;
            }
            let edges = cells.edges().unwrap();
            assert_eq!(edges.len(), cells.len());
            assert!((edges[0], edges[edges.len() - 1]) == (0.0, 1.0));
            assert!(edges.windows(2).all(|pair| pair[0] < pair[1]), "{edges:?}");
            let place = edges.iter().position(|edge| *edge == zero).expect("0 is an edge");
            for times in 0..=halved as usize {
                let width = 0.5f64.powi(times as i32) / scale;
                for (edge, expected) in [
                    (edges[place - 1 - halved as usize + times], zero - width),
                    (edges[place + 1 + halved as usize - times], zero + width),
                ] {
                    assert!((edge - expected).abs() < 1e-9, "{edge}, not {expected}");
                }
            }
            assert_eq!(cells.of(Value::Unit(zero)) as usize, place);
            for _ in 0..2000 {
                let far = random.uniform().powi(1 + random.below(12) as i32);
                for u in [far, 1.0 - far, zero - far * zero, zero + far * (1.0 - zero)] {
                    let at = cells.of(Value::Unit(u)) as usize;
                    assert!(edges[at] <= u + 1e-9 && u <= edges[at + 1] + 1e-9, "{u} in {at}");
                }
            }
        }
    }

    /// The bins of whole numbers follow on each other, none is empty, and what they are said to hold is what falls into them.
    #[test]
    fn whole_numbers_are_where_they_are_said_to_be() {
        const RANGES: [(i32, i32); 12] = [
            (0, 6),
            (0, 9),
            (0, 31),
            (0, 33),
            (0, 130),
            (-3, 96),
            (5, 157_608),
            (1, 610),
            (0, 4095),
            (17, 18),
            (0, 127),
            (7, 2470),
        ];
        for (min, max) in RANGES.into_iter().chain((1..300).map(|max| (0, max))) {
            let toml = format!("[[column]]\nname = 'x'\ntype = 'integer'\nmin = {min}\nmax = {max}\n");
            let schema = Schema::from_toml(&toml).unwrap();
            let range = schema.columns()[0].kind.range().unwrap();
            for (bins, halved) in [(2, 3), (3, 2), (7, 12), (11, 12), (47, 12), (64, 12), (16, 0)] {
                let cells = cells(&schema, bins, halved);
                let mut next = f64::from(min);
                for at in 0..cells.len() - 1 {
                    let Cell::Bin { low, high } = cells.describe(&schema, at) else { panic!("{at} is no bin") };
                    assert!(low == next && low <= high, "{min} to {max}, {bins}, {halved}: {at} from {low} to {high}");
                    for x in [low, 0.5 * (low + high), high].map(f64::floor) {
                        assert_eq!(cells.of(Value::Unit(range.unit(x))) as usize, at, "{x}");
                    }
                    next = high + 1.0;
                }
                assert_eq!(next, f64::from(max) + 1.0);
            }
        }
    }

    /// Halves hold whole numbers in proportion to their widths, all of which are whole.
    #[test]
    fn parts_of_bins_are_as_wide_as_they_hold_numbers() {
        for max in [30, 41, 500, 70_000, i32::MAX] {
            let toml = format!("[[column]]\nname = 'x'\ntype = 'integer'\nmin = 0\nmax = {max}\n");
            let schema = Schema::from_toml(&toml).unwrap();
            for bins in [7, 11, 61] {
                let cells = cells(&schema, bins, 12);
                let edges = cells.edges().unwrap();
                // The ends lie at numbers, all others in the middle between two.
                for at in 1..edges.len() - 2 {
                    let Cell::Bin { low, high } = cells.describe(&schema, at) else { panic!("{at} is no bin") };
                    let width = (edges[at + 1] - edges[at]) * f64::from(max);
                    assert!(
                        (width - (high - low + 1.0)).abs() < 1e-3 * width,
                        "{max}, {bins}: {low} to {high}, {width}"
                    );
                }
            }
        }
    }
}
