//! What a closer look into the bins of a histogram tells (`auto/look.rs`): where in them the rows are.
//!
//! Parts of a bin are freed of noise like the cells of a histogram, and made to add up to the bin. Parts that stand out are told
//! apart, others are taken together. A part that holds many times the rows of those beside it holds a value that many rows
//! share. If these values are round, as told by all of them, it is taken for the roundest in its part.

use crate::feature::{Cells, HistSpec, MapSpec, MergedColumn};
use crate::fit::columns::near;
use crate::fit::shrink::{Tails, shrink_apart};
use crate::panel::Value;
use crate::prior::Piece;
use crate::release::Release;
use crate::schema::Kind;
use crate::{Error, Schema};

/// A part stands out if it is so many standard deviations of its error.
const CLEAR: f64 = 3.0;
/// It holds a value that many rows share if it is so many, and has so many times the rows of either part beside it.
const SHARED: (f64, f64) = (5.0, 4.0);
/// How far a piece may be from level within, as a variance relative to that of the piece: where parts are taken together, where
/// one stands out, where it holds a value that is not known, and where rows are taken to be at one value, which may be another
/// after all.
const TOGETHER: f64 = 0.05;
const STANDS_OUT: f64 = 0.3;
const UNKNOWN: f64 = 1.0;
const AT_VALUE: f64 = 0.05;
/// Shared values are taken for round ones if this part of their rows is at multiples of a power of ten or half of one, and if
/// these are likelier than by chance by this, as a logarithm: most values that many rows share are round.
const ROUND: (f64, f64) = (0.9, 2.0);
/// Of round values, so many are multiples of the same number.
const ALIKE: f64 = 0.95;
/// A bin of less than this part of the range that is heavy by itself holds a shared value.
pub(super) const NARROW: f64 = 1e-3;
/// What such a bin at the high end has at the end itself, where all that is beyond is counted too. At the low end numbers may
/// crowd on any scale.
const AT_HIGH_END: f64 = 0.999;

/// The parts of a column's bins that were counted.
pub(super) struct Look {
    /// The bins of the finer histogram, and their edges.
    cells: Cells,
    edges: Vec<f64>,
    /// The group of each of its cells, of which the first is all that was not looked into.
    groups: Vec<u32>,
    /// The shares of the rows in the groups, and the deviation of their noise.
    shares: Vec<f64>,
    deviation: f64,
    tails: Tails,
}

/// What was seen in one bin.
pub(super) struct Seen {
    pub pieces: Vec<Piece>,
    /// How far the column may be from those pieces within the bin, as a variance of shares of the rows.
    pub variance: f64,
}

/// What is to be thought of a heavy bin of a histogram, into which there was no closer look, if it is narrow.
pub(super) fn narrow(schema: &Schema, cells: &Cells, bin: usize, mass: f64) -> Option<Seen> {
    let edges = cells.edges()?;
    let (low, high) = (edges[bin], edges[bin + 1]);
    let kind = &schema.columns()[cells.column()].kind;
    let holds = |unit: f64| cells.of(Value::Unit(unit)) as usize == bin;
    let atom = common_value(kind, (low, high), &holds).filter(|unit| high - low < NARROW && holds(*unit))?;
    let variance = AT_VALUE * mass * mass;
    let piece = |low, share, atom| Piece { low, high, share, atom };
    if atom == 1.0 {
        let pieces = vec![piece(low, 1.0 - AT_HIGH_END, None), piece(high, AT_HIGH_END, Some(atom))];
        return Some(Seen { pieces, variance });
    }
    Some(Seen { pieces: vec![piece(low, 1.0, Some(atom))], variance })
}

/// The closer looks that a release holds, by column.
pub(super) fn looks(release: &Release, rows: f64) -> Result<Vec<Option<Look>>, Error> {
    let schema = release.schema();
    let mut found: Vec<Option<Look>> = schema.columns().iter().map(|_| None).collect();
    for block in release.blocks() {
        let MapSpec::Merged(spec) = block.map() else { continue };
        let deviation = (block.noise().standard_deviation(block.sums().len()) / rows).max(1e-9);
        for ((first, table), places) in block.map().tables(schema)?.into_iter().zip(&spec.tables) {
            let [cells] = &table[..] else { continue };
            let column = &spec.columns[places[0] as usize];
            let MergedColumn { bins, halved, about_zero, .. } = *column;
            let columns = vec![column.name.clone()];
            let fine = HistSpec { columns, halved, about_zero, ..HistSpec::with_bins(bins) };
            let unmerged = MapSpec::Hist(fine).tables(schema)?.remove(0).1.remove(0);
            let Some(edges) = unmerged.edges() else { continue };
            let shares = block.sums()[first..][..cells.len()].iter().map(|sum| *sum as f64 / rows).collect();
            found[cells.column()] = Some(Look {
                cells: unmerged,
                edges,
                groups: column.groups.clone(),
                shares,
                deviation,
                tails: Tails::of(block.noise()),
            });
        }
    }
    Ok(found)
}

impl Look {
    /// What was seen in each bin of a histogram whose cells have these probabilities.
    pub fn into(&self, schema: &Schema, cells: &Cells, law: &[f64]) -> Vec<Option<Seen>> {
        let ends = cells.edges().unwrap_or_default();
        // The parts of each bin of the histogram that were counted.
        let mut parts: Vec<Vec<usize>> = vec![Vec::new(); ends.len().saturating_sub(1)];
        let mut chain = Vec::new();
        for part in (0..self.edges.len() - 1).filter(|part| self.groups[*part] > 0) {
            let middle = 0.5 * (self.edges[part] + self.edges[part + 1]);
            if let Some(parts) = parts.get_mut(cells.of(Value::Unit(middle)) as usize) {
                parts.push(part);
                chain.push(part);
            }
        }
        let noisy: Vec<f64> = chain.iter().map(|part| self.shares[self.groups[*part] as usize]).collect();
        if noisy.is_empty() {
            return Vec::new();
        }
        let (freed, errors) = shrink_apart(&noisy, (self.deviation, self.tails));
        let mut from = 0;
        let counted: Vec<Option<Counted>> = parts
            .into_iter()
            .enumerate()
            .map(|(bin, parts)| {
                let here = from..from + parts.len();
                from = here.end;
                if parts.is_empty() || law[bin] <= 0.0 {
                    return None;
                }
                let errors = errors[here.clone()].to_vec();
                Some(Counted { masses: near(&freed[here], &errors, law[bin]), parts, errors })
            })
            .collect();
        let round = self.round_to(&schema.columns()[self.cells.column()].kind, counted.iter().flatten());
        let seen = |(bin, counted): (usize, &Option<Counted>)| {
            Some(self.seen(schema, (cells, bin, [ends[bin], ends[bin + 1]]), counted.as_ref()?, round))
        };
        counted.iter().enumerate().map(seen).collect()
    }

    /// Whether a part holds a value that many rows share.
    fn is_shared(&self, Counted { masses, .. }: &Counted, at: usize) -> bool {
        let beside = [at.wrapping_sub(1), at + 1].map(|other| masses.get(other).copied().unwrap_or(0.0));
        masses[at] > SHARED.0 * self.deviation && masses[at] > SHARED.1 * beside[0].max(beside[1])
    }

    fn ends(&self, part: usize) -> (f64, f64) {
        (self.edges[part], self.edges[part + 1])
    }

    /// Whether rows with a value were counted in a part. Round values often lie on the edges of parts, and on which side is
    /// decided by the last bit.
    fn holds(&self, part: usize, unit: f64) -> bool {
        self.cells.of(Value::Unit(unit)) as usize == part
    }

    /// What the values that many rows share are multiples of, if they are round: the least power of ten, or half of one, of
    /// which there are more multiples in their parts than parts of that width have by chance. Values in other units, or quotients,
    /// have as many digits as fit.
    fn round_to<'a>(&self, kind: &Kind, counted: impl Iterator<Item = &'a Counted>) -> Option<f64> {
        // The rows of each part, what there is a multiple of, and the width of the part.
        let mut shared: Vec<(f64, f64, f64)> = Vec::new();
        for counted in counted {
            for (at, part) in counted.parts.iter().enumerate().filter(|(at, _)| self.is_shared(counted, *at)) {
                let (low, high) = self.ends(*part);
                let found = roundness(kind, (low, high), &|unit| self.holds(*part, unit));
                shared.extend(found.map(|(step, width)| (counted.masses[at], step, width)));
            }
        }
        let total: f64 = shared.iter().map(|(mass, ..)| mass).sum();
        let are_multiples = |step: f64| {
            let multiples = shared.iter().filter(|(_, other, _)| *other >= step).map(|(mass, ..)| mass);
            let evidence = |(_, other, width): &(f64, f64, f64)| {
                let chance = (width / step).min(ALIKE);
                if *other >= step { (ALIKE / chance).ln() } else { ((1.0 - ALIKE) / (1.0 - chance)).ln() }
            };
            multiples.sum::<f64>() >= ROUND.0 * total && shared.iter().map(evidence).sum::<f64>() > ROUND.1
        };
        shared.iter().map(|(_, step, _)| *step).filter(|step| are_multiples(*step)).min_by(f64::total_cmp)
    }

    fn seen(
        &self,
        schema: &Schema,
        (cells, bin, ends): (&Cells, usize, [f64; 2]),
        counted: &Counted,
        round: Option<f64>,
    ) -> Seen {
        let Counted { parts, masses, errors } = counted;
        let total: f64 = masses.iter().sum();
        let kind = &schema.columns()[self.cells.column()].kind;
        let stands_out = |at: usize| masses[at] > CLEAR * errors[at].sqrt();
        let mut pieces: Vec<Piece> = Vec::new();
        let mut variance: f64 = errors.iter().sum();
        let mut run = 0;
        for at in 0..parts.len() {
            let (low, high) = self.ends(parts[at]);
            if !stands_out(at) {
                // Parts that do not stand out follow on each other.
                match pieces.last_mut() {
                    Some(last) if run > 0 => (last.high, last.share) = (high, last.share + masses[at] / total),
                    _ => pieces.push(Piece { low, high, share: masses[at] / total, atom: None }),
                }
                run += 1;
                continue;
            }
            run = 0;
            let shared = self.is_shared(counted, at);
            let holds = |unit: f64| self.holds(parts[at], unit);
            let atom = common_value(kind, (low, high), &holds).filter(|unit| {
                // Declared atoms have cells of their own: they are not what is seen here.
                let is_here = cells.of(Value::Unit(*unit)) as usize == bin;
                let is_round = || {
                    let found = roundness(kind, (low, high), &holds);
                    round.is_some_and(|step| found.is_some_and(|(of, _)| of >= step))
                };
                shared && is_here && (low <= 0.0 || high >= 1.0 || is_round())
            });
            variance += masses[at].powi(2)
                * match (shared, atom) {
                    (_, Some(_)) => AT_VALUE,
                    (true, None) => UNKNOWN,
                    (false, None) => STANDS_OUT,
                };
            pieces.push(Piece { low, high, share: masses[at] / total, atom });
        }
        let level: f64 = pieces.iter().map(|piece| (piece.share * total).powi(2)).sum();
        variance += TOGETHER * level;
        if let Some(first) = pieces.first_mut() {
            first.low = ends[0];
        }
        if let Some(last) = pieces.last_mut() {
            last.high = ends[1];
        }
        Seen { pieces, variance }
    }
}

/// The parts of a bin that were counted, the probabilities that they are left with, and the variances of their errors.
struct Counted {
    parts: Vec<usize>,
    masses: Vec<f64>,
    errors: Vec<f64>,
}

/// What the roundest number in an interval of a column's range is a multiple of, and the width of that interval.
fn roundness(kind: &Kind, (low, high): (f64, f64), holds: &dyn Fn(f64) -> bool) -> Option<(f64, f64)> {
    let range = kind.range()?;
    let (low, high) = (range.value(low), range.value(high));
    let (_, step) = roundest((low, high), |number| holds(range.unit(number)))?;
    // If there is but one whole number, there is no doubt which it is.
    let alone = kind.is_whole() && high - low < 1.5;
    Some((step, if alone { 0.01 * step } else { high - low }))
}

/// The value that many rows share, as a part of a column's range, if they are in this interval of it: an end of the range, where
/// what lies beyond is counted too, or else the roundest number.
pub(super) fn common_value(kind: &Kind, (low, high): (f64, f64), holds: &dyn Fn(f64) -> bool) -> Option<f64> {
    let range = kind.range()?;
    if low <= 0.0 || high >= 1.0 {
        return Some(if low <= 0.0 { 0.0 } else { 1.0 });
    }
    let ends = (range.value(low), range.value(high));
    // It may be beyond an edge by the last bit.
    Some(range.unit(roundest(ends, |number| holds(range.unit(number)))?.0).clamp(low, high))
}

/// The roundest number about from `low` to `high` of those that are held, the nearest to the middle if there are several, and what
/// it is a multiple of: a power of ten or half of one, as large as may be.
fn roundest((low, high): (f64, f64), holds: impl Fn(f64) -> bool) -> Option<(f64, f64)> {
    const DIGITS: i32 = 16;
    const NEAR: f64 = 1e-9;
    let (middle, size, near) = (0.5 * (low + high), low.abs().max(high.abs()), NEAR * (high - low));
    if !(low < high && size.is_finite()) {
        return None;
    }
    let most = size.log10().ceil() as i32;
    let steps = (most - DIGITS..=most).rev().flat_map(|power| [(power, 1.0), (power - 1, 5.0)]);
    steps.into_iter().find_map(|(power, factor)| {
        let power_of_ten = 10f64.powi(power.abs());
        // Digits of a decimal are best divided by a power of ten, which is a whole number.
        let multiple =
            |times: f64| if power < 0 { times * factor / power_of_ten } else { times * factor * power_of_ten };
        let step = multiple(1.0);
        let inside = |number: &f64| low - near <= *number && *number <= high + near && holds(*number);
        let times = middle / step;
        let found = [times.round(), times.floor(), times.ceil()].into_iter().map(multiple).find(inside);
        Some((found?, step))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roundest_number_is_found() {
        for (low, high, expected) in [
            (4.48, 4.52, 4.5),
            (0.2, 0.7, 0.5),
            (-0.3, 0.1, 0.0),
            (97.0, 130.0, 100.0),
            (1499.0, 1501.0, 1500.0),
            (0.333, 0.334, 0.333),
            (-12.6, -12.4, -12.5),
            (7.241592, 7.2415927, 7.241592),
        ] {
            let found = roundest((low, high), |number| number < high);
            assert_eq!(found.map(|(number, _)| number), Some(expected), "{low} to {high}");
        }
        assert_eq!(roundest((1.0, 1.0), |_| true), None);
        // On which side of an edge a number is counted is not told by the edge's last bit.
        let edge = 0.84f64.next_up();
        assert_eq!(roundest((edge, 0.841), |_| true).map(|(number, _)| number), Some(0.84));
        assert_ne!(roundest((edge, 0.841), |number| number > 0.84).map(|(number, _)| number), Some(0.84));
    }

    /// Round numbers in narrow parts are no coincidence, nor are less round ones if there are many; others are.
    #[test]
    fn shared_values_are_round_unless_by_chance() {
        // Values that stand alone, each in a part of a given width.
        let is_round = |of: &str, max: f64, values: &[f64], width: f64| {
            let toml = format!("[[column]]\nname = 'x'\ntype = '{of}'\nmin = 0\nmax = {max}\n");
            let schema = Schema::from_toml(&toml).unwrap();
            let spec = MapSpec::Hist(HistSpec::with_bins((max / width).round() as u32));
            let cells = spec.tables(&schema).unwrap().remove(0).1.remove(0);
            let part = |x: &f64| cells.of(Value::Unit(x / max)) as usize;
            let parts: Vec<usize> = values.iter().flat_map(|x| [part(x), part(x) + 1]).collect();
            let (edges, groups, shares, deviation) = (cells.edges().unwrap(), Vec::new(), Vec::new(), 1e-4);
            let look = Look { cells, edges, groups, shares, deviation, tails: Tails::Gaussian };
            let masses = (0..parts.len()).map(|at| if at % 2 == 0 { 0.05 } else { 0.0 }).collect();
            let counted = Counted { errors: vec![1e-8; parts.len()], parts, masses };
            look.round_to(&schema.columns()[0].kind, [&counted].into_iter()).is_some()
        };
        let is_decimal = |values: &[f64], width| is_round("number", 100.0, values, width);
        assert!(is_decimal(&[40.0], 0.27));
        assert!(!is_decimal(&[13.37], 0.27));
        // On the edges of parts, or what the last bit leaves of them.
        assert!(is_decimal(&[12.5, 25.0, 62.5], 0.1));
        let halves: Vec<f64> = (0..9).map(|i| 4.5 + 10.0 * f64::from(i)).collect();
        assert!(is_decimal(&halves, 0.136));
        let miles: Vec<f64> = (1..30).map(|i| 1.15078 * f64::from(i)).collect();
        assert!(!is_decimal(&miles, 0.13));
        let fahrenheit: Vec<f64> = (0..40).map(|i| 32.0 + 1.8 * (f64::from(i) - 10.3)).collect();
        assert!(!is_decimal(&fahrenheit, 0.011));
        assert!(is_round("integer", 999.0, &[7.0, 133.0], 0.999));
        // Four of five numbers of four digits have a multiple of five in their part.
        let any = [168_302.0, 173_080.0, 175_180.0, 177_640.0, 177_885.0, 178_440.0, 179_641.0, 182_961.0, 185_213.0];
        assert!(!is_round("integer", 199_999.0, &any, 4.0));
        assert!(is_round("integer", 199_999.0, &any.map(|x| (x / 100.0).round() * 100.0), 4.0));
    }
}
