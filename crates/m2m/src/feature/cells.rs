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
#[derive(Clone)]
pub struct Cells {
    column: usize,
    slot: Slot,
    parts: Parts,
    /// What each cell is merged into, and how many those are; nothing where cells stand for themselves.
    merged: Option<(Arc<[u32]>, usize)>,
}

#[derive(Clone)]
enum Parts {
    /// Cell ⌊scale·u + shift⌋ of a number u in [0, 1].
    Bins {
        scale: f64,
        shift: f64,
        bins: u32,
        atoms: Arc<[f64]>,
    },
    Levels {
        codes: u32,
    },
}

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
    /// otherwise; other numbers get `bins` cells that are equally wide after the transform.
    pub(crate) fn new(schema: &Schema, input: &Input, bins: u32) -> Self {
        let kind = &schema.columns()[input.column].kind;
        let parts = match (input.codes, kind.range()) {
            (Some(codes), _) => Parts::Levels { codes },
            (None, range) => {
                let range = range.expect("a column without codes has a range");
                let span = range.max() - range.min();
                let atoms = || range.atoms().iter().map(|atom| range.unit(*atom)).collect::<Arc<[f64]>>();
                if lattice(kind) {
                    let per_cell = ((span + 1.0) / f64::from(bins)).ceil().max(1.0);
                    let bins = ((span + 1.0) / per_cell).ceil() as u32;
                    let atoms = if per_cell > 1.0 { atoms() } else { Arc::new([]) };
                    Parts::Bins { scale: span / per_cell, shift: 0.5 / per_cell, bins, atoms }
                } else {
                    Parts::Bins { scale: f64::from(bins), shift: 0.0, bins, atoms: atoms() }
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
            Parts::Bins { bins, atoms, .. } => *bins as usize + atoms.len() + 1,
            Parts::Levels { codes } => *codes as usize,
        }
    }

    /// What a cell contains, before any merging.
    pub fn describe(&self, schema: &Schema, cell: usize) -> Cell {
        let kind = &schema.columns()[self.column].kind;
        match &self.parts {
            Parts::Levels { .. } => Cell::Level(kind.label(cell as u32).to_owned()),
            Parts::Bins { bins, atoms, scale, .. } => {
                let range = kind.range().expect("bins belong to a range");
                let bins = *bins as usize;
                if cell >= bins {
                    return match range.atoms().get(cell - bins) {
                        Some(atom) if cell - bins < atoms.len() => Cell::Atom(*atom),
                        _ => Cell::Missing,
                    };
                }
                if lattice(kind) {
                    let per_cell = ((range.max() - range.min()) / scale).round();
                    let low = range.min() + cell as f64 * per_cell;
                    Cell::Bin { low, high: (low + per_cell - 1.0).min(range.max()) }
                } else {
                    let edge = |i: usize| range.value(i as f64 / bins as f64);
                    Cell::Bin { low: edge(cell), high: edge(cell + 1) }
                }
            }
        }
    }

    /// Where its bins begin and end in [0, 1]; nothing for a column of levels.
    pub(crate) fn edges(&self) -> Option<Vec<f64>> {
        match &self.parts {
            Parts::Levels { .. } => None,
            Parts::Bins { scale, shift, bins, .. } => {
                let edge = |i: u32| ((f64::from(i) - shift) / scale).clamp(0.0, 1.0);
                Some((0..=*bins).map(|i| if i == *bins { 1.0 } else { edge(i) }).collect())
            }
        }
    }

    /// The cells of numbers (bins and atoms) from low to high; nothing for a column of levels.
    pub(crate) fn in_order(&self) -> Option<Vec<usize>> {
        let Parts::Bins { scale, shift, bins, atoms } = &self.parts else { return None };
        let middle = |bin: u32| (f64::from(bin) + 0.5 - shift) / scale;
        let mut placed: Vec<(f64, usize)> = (0..*bins).map(|bin| (middle(bin), bin as usize)).collect();
        placed.extend(atoms.iter().enumerate().map(|(atom, unit)| (*unit, *bins as usize + atom)));
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
            (Value::Unit(u), Parts::Bins { scale, shift, bins, atoms }) => {
                match atoms.iter().position(|atom| *atom == u) {
                    Some(atom) => bins + atom as u32,
                    None => bin(u, *scale, *shift, *bins),
                }
            }
            _ => self.unmerged() as u32 - 1,
        };
        self.merged.as_ref().map_or(cell, |(groups, _)| groups[cell as usize])
    }

    /// The cells of all records of a panel.
    pub(crate) fn all(&self, simd: Simd, panel: &Panel, cells: &mut [u32; PANEL]) {
        let n = panel.len();
        match (self.slot, &self.parts) {
            (Slot::Unit(slot), Parts::Bins { scale, shift, bins, atoms }) => {
                let missing = self.unmerged() as u32 - 1;
                let units = &panel.units()[slot];
                bin_all(simd, &units[..n], *scale, *shift, *bins, missing, cells);
                // Backwards, so that the first of atoms which the scale cannot tell apart counts, as above.
                for (a, atom) in atoms.iter().enumerate().rev() {
                    for (cell, u) in cells[..n].iter_mut().zip(units.iter()) {
                        *cell = if *u == *atom { bins + a as u32 } else { *cell };
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

/// ⌊scale·u + shift⌋ after rounding to 2⁻³², so that a value which sits on an edge but for the last bits of its
/// arithmetic falls into the upper cell.
#[inline(always)]
fn bin(u: f64, scale: f64, shift: f64, bins: u32) -> u32 {
    let place = u.mul_add(scale, ORIGIN + shift);
    ((place.to_bits() >> 32) as u32).wrapping_sub(ORIGIN_HIGH).min(bins - 1)
}

dispatched! {
    fn bin_all(units: &[f64], scale: f64, shift: f64, bins: u32, missing: u32, cells: &mut [u32; PANEL]) = bin_loop
}

#[inline(always)]
fn bin_loop(units: &[f64], scale: f64, shift: f64, bins: u32, missing: u32, cells: &mut [u32; PANEL]) {
    for (cell, u) in cells.iter_mut().zip(units) {
        let place = bin(*u, scale, shift, bins);
        *cell = if u.is_nan() { missing } else { place };
    }
}
