//! What a closer look into the bins of a histogram tells (`auto/look.rs`): where in them the rows are.
//!
//! Parts of a bin are freed of noise like the cells of a histogram, and made to add up to the bin. Parts that stand out are told
//! apart, others are taken together. A part that holds many times the rows of those beside it holds a value that many rows
//! share, and of all values in so narrow a part that is most likely the one with the fewest digits.

use crate::feature::{Cells, HistSpec, MapSpec};
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
/// one stands out, and where rows are taken to be at one value. The last also if that is not the value after all.
const UNEVEN: (f64, f64, f64) = (0.05, 0.3, 0.05);
/// A bin of at most this part of the range that is heavy by itself holds a shared value.
const NARROW: f64 = 1e-3;

/// Where so much of a bin is in one part, and not at a value that would explain it, the column lives on a finer scale still:
/// then nothing was seen.
const LOST: f64 = 0.8;

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
    let atom = common_value(&schema.columns()[cells.column()].kind, low, high)
        .filter(|unit| high - low < NARROW && cells.of(Value::Unit(*unit)) as usize == bin)?;
    Some(Seen { pieces: vec![Piece { low, high, share: 1.0, atom: Some(atom) }], variance: UNEVEN.2 * mass * mass })
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
            let (columns, halved) = (vec![column.name.clone()], column.halved);
            let fine = HistSpec { columns, halved, ..HistSpec::with_bins(column.bins) };
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
        parts
            .iter()
            .enumerate()
            .map(|(bin, parts)| {
                let here = from..from + parts.len();
                from = here.end;
                if parts.is_empty() || law[bin] <= 0.0 {
                    return None;
                }
                let masses = near(&freed[here.clone()], &errors[here.clone()], law[bin]);
                self.seen(schema, (cells, bin, [ends[bin], ends[bin + 1]]), parts, &masses, &errors[here])
            })
            .collect()
    }

    fn seen(
        &self,
        schema: &Schema,
        (cells, bin, ends): (&Cells, usize, [f64; 2]),
        parts: &[usize],
        masses: &[f64],
        errors: &[f64],
    ) -> Option<Seen> {
        let total: f64 = masses.iter().sum();
        let kind = &schema.columns()[self.cells.column()].kind;
        let stands_out = |at: usize| masses[at] > CLEAR * errors[at].sqrt();
        let mut pieces: Vec<Piece> = Vec::new();
        let mut variance: f64 = errors.iter().sum();
        let (mut run, mut lost) = (0, 0.0f64);
        for at in 0..parts.len() {
            let (low, high) = (self.edges[parts[at]], self.edges[parts[at] + 1]);
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
            let beside = [at.wrapping_sub(1), at + 1].map(|other| masses.get(other).copied().unwrap_or(0.0));
            let alone = masses[at] > SHARED.0 * self.deviation && masses[at] > SHARED.1 * beside[0].max(beside[1]);
            let atom = if alone { common_value(kind, low, high) } else { None };
            // Declared atoms have cells of their own: they are not what is seen here.
            let atom = atom.filter(|unit| (low..=high).contains(unit) && cells.of(Value::Unit(*unit)) as usize == bin);
            lost = lost.max(if alone && atom.is_none() { masses[at] / total } else { 0.0 });
            variance += masses[at].powi(2) * if atom.is_some() { UNEVEN.2 } else { UNEVEN.1 };
            pieces.push(Piece { low, high, share: masses[at] / total, atom });
        }
        let level: f64 = pieces.iter().map(|piece| (piece.share * total).powi(2)).sum();
        variance += UNEVEN.0 * level;
        if let Some(first) = pieces.first_mut() {
            first.low = ends[0];
        }
        if let Some(last) = pieces.last_mut() {
            last.high = ends[1];
        }
        (lost < LOST).then_some(Seen { pieces, variance })
    }
}

/// The value that many rows share, as a part of a column's range, if they are in this interval of it: an end of the range, where
/// what lies beyond is counted too, or else the number with the fewest digits.
pub(super) fn common_value(kind: &Kind, low: f64, high: f64) -> Option<f64> {
    let range = kind.range()?;
    if low <= 0.0 || high >= 1.0 {
        return Some(if low <= 0.0 { 0.0 } else { 1.0 });
    }
    Some(range.unit(roundest(range.value(low), range.value(high))?))
}

/// The number with the fewest digits from `low` to `high`, the nearest to the middle if there are several.
fn roundest(low: f64, high: f64) -> Option<f64> {
    const DIGITS: i32 = 16;
    let (middle, size) = (0.5 * (low + high), low.abs().max(high.abs()));
    if !(low < high && size.is_finite()) {
        return None;
    }
    let most = size.log10().ceil() as i32;
    (most - DIGITS..=most).rev().find_map(|power| {
        let step = 10f64.powi(power.abs());
        // Digits of a decimal are best divided by a power of ten, which is a whole number.
        let steps = if power < 0 { middle * step } else { middle / step };
        let number = |steps: f64| if power < 0 { steps / step } else { steps * step };
        let inside = |number: &f64| low <= *number && *number < high;
        [steps.round(), steps.floor(), steps.ceil()].into_iter().map(number).find(inside)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roundest_number_has_the_fewest_digits() {
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
            assert_eq!(roundest(low, high), Some(expected), "{low} to {high}");
        }
        assert_eq!(roundest(1.0, 1.0), None);
    }
}
