//! What is known of single columns: the histograms of a release, as probabilities with errors.

use faer::Mat;

use crate::feature::{Cells, HistSpec, MapSpec, STEPS, clipped};
use crate::fit::closed::Closed;
use crate::fit::look::{Look, NARROW, Seen, looks, narrow};
use crate::fit::points::dot;
use crate::fit::rows::Rows;
use crate::fit::separate::Term;
use crate::fit::shrink::{Tails, shrink};
use crate::panel::Value;
use crate::prior::{Axis, Independent, Inside, Marginal, marginals, tables};
use crate::release::Release;
use crate::{Error, Schema};

/// The state of knowledge about the cells of one column.
pub(crate) struct Knowledge {
    pub cells: Cells,
    /// Variances of the errors of the cells' probabilities, before it is used that they add up to zero.
    pub variance: Vec<f64>,
    /// Where groups of cells are known better than by their cells: the group of each cell, and the variances of the groups.
    pub groups: Option<(Vec<u32>, Vec<f64>)>,
    /// Whether those errors are noise of the release, and not ignorance.
    pub noise: bool,
    /// For each cell, the squared probability times how uneven the column may be within it.
    pub within: Vec<f64>,
    /// `[cell][feature]`: the main effect of the column on the features.
    pub effects: Mat<f64>,
    /// For each cell, if it has more than a point.
    pub tilts: Vec<Option<Tilt>>,
    /// The table that is the tilt of each cell in it.
    pub tilted: Vec<f64>,
    /// What was observed of the column besides its cells, and taken in.
    pub observed: Option<Observed>,
}

/// A mean of one function of a column, with noise.
pub(crate) struct Observed {
    /// The function, and its means over the cells.
    table: Vec<f64>,
    pub cells: Vec<f64>,
    /// The covariance of the cells' errors with the mean, before it was observed.
    moved: Vec<f64>,
    /// The variance of the noise on the observed mean, and that of its difference from what cells alone tell.
    pub noise: f64,
    pub total: f64,
    /// What remains to be added to other means for each part of their covariance with this one within cells: densities on
    /// the axis lean only so far.
    rest: f64,
}

impl Observed {
    /// The covariance of the error of another mean with this one, before it was observed, and what the other moves by besides
    /// what the axis shows.
    pub fn shared(&self, known: &Knowledge, axis: &Axis, table: &[f64], cells: &[f64]) -> (f64, f64) {
        let within = dot(&known.within, &axis.cell_covariances(table, &self.table));
        (dot(cells, &self.moved) + within, self.rest * within)
    }

    /// The same covariance for a mean of which only cells are told apart.
    pub fn shared_by_cells(&self, cells: &[f64]) -> f64 {
        dot(cells, &self.moved)
    }
}

/// How the density may lean within a cell: by the linear function (u - centre) / scale of the place, of mean 0 and variance 1.
pub(crate) struct Tilt {
    centre: f64,
    scale: f64,
    /// What it does to the features.
    effect: Vec<f64>,
}

/// The tilts of a column's cells at points.
pub(crate) struct Tilts {
    /// Of the cell that a point is in; 0 if that is a single place.
    pub of_points: Vec<f64>,
    /// How many points a cell has; 1 if there is none.
    pub points: Vec<f64>,
}

impl Tilts {
    /// Of points in these cells, at these places of [0, 1].
    pub fn new(known: &Knowledge, cells: &[u32], units: &[f64]) -> Self {
        let mut points = vec![0.0f64; known.cells.len()];
        cells.iter().for_each(|cell| points[*cell as usize] += 1.0);
        points.iter_mut().for_each(|count| *count = count.max(1.0));
        let tilt = |(cell, unit): (&u32, &f64)| {
            known.tilts[*cell as usize].as_ref().map_or(0.0, |tilt| (unit - tilt.centre) / tilt.scale)
        };
        Self { of_points: cells.iter().zip(units).map(tilt).collect(), points }
    }
}

impl Knowledge {
    /// Of cells with errors of so large a variance; of features nothing yet.
    fn new(cells: Cells, variance: Vec<f64>, within: Vec<f64>) -> Self {
        Self {
            cells,
            variance,
            groups: None,
            noise: false,
            within,
            effects: Mat::new(),
            tilts: Vec::new(),
            tilted: Vec::new(),
            observed: None,
        }
    }

    /// The covariance of the errors applied to a vector: independent errors of given variances whose sum is zero. Where
    /// groups are known better, cells have independent errors given their group.
    pub fn covariance(&self, vector: &[f64]) -> Vec<f64> {
        if let Some((groups, variances)) = &self.groups {
            let (mut sums, mut means) = (vec![0.0; variances.len()], vec![0.0; variances.len()]);
            for ((group, variance), x) in groups.iter().zip(&self.variance).zip(vector) {
                sums[*group as usize] += variance;
                means[*group as usize] += variance * x;
            }
            means.iter_mut().zip(&sums).for_each(|(mean, sum)| *mean /= sum.max(1e-300));
            let total: f64 = variances.iter().sum::<f64>().max(1e-300);
            let mean = variances.iter().zip(&means).map(|(variance, mean)| variance * mean).sum::<f64>() / total;
            let one = |((group, variance), x): ((&u32, &f64), &f64)| {
                let group = *group as usize;
                let part = variance / sums[group].max(1e-300);
                variance * (x - means[group]) + part * variances[group] * (means[group] - mean)
            };
            return groups.iter().zip(&self.variance).zip(vector).map(one).collect();
        }
        let total: f64 = self.variance.iter().sum();
        let mean = self.variance.iter().zip(vector).map(|(variance, x)| variance * x).sum::<f64>() / total.max(1e-300);
        self.variance.iter().zip(vector).map(|(variance, x)| variance * (x - mean)).collect()
    }

    /// Vectors whose squares, summed, are the covariance that these errors give the features.
    pub fn spread(&self) -> Vec<Vec<f64>> {
        let total: f64 = self.variance.iter().sum::<f64>().max(1e-300);
        let (cells, features) = (self.effects.nrows(), self.effects.ncols());
        let mean = |i: usize| (0..cells).map(|cell| self.variance[cell] * self.effects[(cell, i)]).sum::<f64>() / total;
        let means: Vec<f64> = (0..features).map(mean).collect();
        let of_cell = |cell: usize| {
            let deviation = self.variance[cell].sqrt();
            (0..features).map(|i| deviation * (self.effects[(cell, i)] - means[i])).collect()
        };
        let mut vectors: Vec<Vec<f64>> = (0..cells).map(of_cell).collect();
        for (within, tilt) in self.within.iter().zip(&self.tilts) {
            vectors.extend(tilt.as_ref().map(|tilt| tilt.effect.iter().map(|x| within.sqrt() * x).collect()));
        }
        vectors
    }

    /// Adds what the errors of the cells give the covariance of a question with the features, where `cells` is the mean of
    /// the question's main effect in each.
    pub fn add_effects(&self, cells: &[f64], k: &mut [f64]) {
        if k.is_empty() {
            return;
        }
        for (cell, x) in self.covariance(cells).iter().enumerate().filter(|(_, x)| **x != 0.0) {
            for (i, k) in k.iter_mut().enumerate() {
                *k += x * self.effects[(cell, i)];
            }
        }
    }

    /// Adds what the tilts that a question shares with the features give their covariance, where `shares` are the means of the
    /// question times the tilt in each cell.
    pub fn add_tilts(&self, shares: &[f64], k: &mut [f64]) {
        for ((within, tilt), share) in self.within.iter().zip(&self.tilts).zip(shares) {
            let share = within * share;
            if let Some(tilt) = tilt.as_ref().filter(|_| share != 0.0) {
                k.iter_mut().zip(&tilt.effect).for_each(|(k, x)| *k += share * x);
            }
        }
    }

    /// What an observed mean takes off the covariance of the errors of two others, which share so much with it.
    pub fn explained(&self, one: f64, other: f64) -> f64 {
        self.observed.as_ref().map_or(0.0, |observed| one * other / observed.total)
    }

    /// Takes in the mean of a function of the column's numbers, with noise of a given variance: errors of the cells and within
    /// them are Gaussian, so that all moves by its covariance with the mean.
    fn observe(&mut self, axis: &mut Axis, function: impl Fn(f64) -> f64, ends: &[f64], mean: f64, noise: f64) {
        let of = |value| if let Value::Unit(unit) = value { function(unit) } else { 0.0 };
        let table = axis.tabulate(ends, of);
        let before = self.observed(axis, table.clone(), noise);
        let gain = (mean - axis.mean(&table)) / before.total;
        let expected = mean - noise * gain;
        let masses = axis.cell_masses();
        let mut leans = vec![0.0; masses.len()];
        for (cell, edges) in self.cells.edges().unwrap_or_default().windows(2).enumerate() {
            let change = 0.5 * (function(edges[1]) - function(edges[0]));
            leans[cell] = (gain * self.within[cell] / masses[cell].max(1e-12) * change).clamp(-0.9, 0.9);
        }
        let moved: Vec<f64> = masses.iter().zip(&before.moved).map(|(mass, x)| mass + gain * x).collect();
        axis.lean(&leans);
        // As before, no cell is impossible.
        let mixed = |(p, before): (f64, &f64)| (1.0 - TRACE) * p + TRACE * before;
        let mixed: Vec<f64> = near(&moved, &self.variance, 1.0).into_iter().zip(&masses).map(mixed).collect();
        axis.set_cells(&mixed);
        // Means over the cells have changed a little as they lean.
        let after = self.observed(axis, table, noise);
        let within = after.total - noise - dot(&after.cells, &after.moved);
        let rest = (expected - axis.mean(&after.table)) / within.max(1e-300);
        // Not more than all of it: what cells cannot move, as they would be negative, is not for their insides to make up for.
        let rest = rest.clamp(-gain.abs(), gain.abs());
        self.observed = Some(Observed { rest, ..after });
    }

    fn observed(&self, axis: &Axis, table: Vec<f64>, noise: f64) -> Observed {
        let cells = axis.cell_means(&table);
        let moved = self.covariance(&cells);
        let total = dot(&cells, &moved) + dot(&self.within, &axis.cell_covariances(&table, &table)) + noise;
        Observed { table, cells, moved, noise, total, rest: 0.0 }
    }

    /// Tabulates the main effects on features.
    pub fn set_effects(&mut self, axis: &Axis, closed: &Closed, prior: &Independent) {
        let masses = axis.cell_masses();
        // What a function does to the features in a cell.
        let effect = |cell: usize, table: &[f64]| {
            if closed.len() == 0 || masses[cell] <= 0.0 {
                return Vec::new();
            }
            let inside = |(x, other): (&f64, &u32)| if *other as usize == cell { *x } else { 0.0 };
            let table = table.iter().zip(axis.partition()).map(inside).collect();
            closed.against(&Term::of(1.0 / masses[cell], axis.column(), table), prior).all
        };
        let one = axis.tabulate(&[], |_| 1.0);
        self.effects = Mat::zeros(axis.cells(), closed.len());
        for cell in 0..axis.cells() {
            for (feature, value) in effect(cell, &one).into_iter().enumerate() {
                self.effects[(cell, feature)] = value;
            }
        }
        let (tilts, tilted) = axis.tilts();
        let tilt = |(cell, tilt): (usize, Option<(f64, f64)>)| {
            let (centre, scale) = tilt.filter(|_| masses[cell] > 0.0)?;
            Some(Tilt { centre, scale, effect: effect(cell, &tilted) })
        };
        self.tilts = tilts.into_iter().enumerate().map(tilt).collect();
        self.tilted = tilted;
    }
}

/// Bins of a column whose marginal is not in the release.
const UNKNOWN_BINS: u32 = 16;

/// The product prior that a release teaches, with what is known of each column, and which one-way tables were used up.
/// Nothing if the release has no table.
pub(crate) fn learn(release: &Release, rows: f64) -> Result<Option<(Independent, Vec<Knowledge>, Used)>, Error> {
    let schema = release.schema();
    let mut found = marginals(release)?;
    let places = |marginal: &Marginal| marginal.first..marginal.first + marginal.cells.len();
    let used: Used = found.iter().flatten().map(|marginal| (marginal.block, places(marginal))).collect();
    let mut summed = from_wider_tables(release)?;
    let mut merged = from_merged_tables(release, rows)?;
    let looks = looks(release, rows)?;
    if used.is_empty() && summed.iter().all(Option::is_none) {
        return Ok(None);
    }
    let unknown = MapSpec::Hist(HistSpec::with_bins(UNKNOWN_BINS)).tables(schema)?;
    let mut axes = Vec::new();
    let mut all = Vec::new();
    for (column, (_, mut cells)) in unknown.into_iter().enumerate() {
        let (axis, knowledge) = match (found[column].take(), summed[column].take()) {
            (Some(marginal), _) => {
                from_marginal(release, marginal, merged[column].take(), looks[column].as_ref(), rows)
            }
            (None, Some((cells, counts, variance))) => {
                let probabilities: Vec<f64> = counts.iter().map(|count| count / rows).collect();
                let deviation = variance.sqrt() / rows;
                let law = Law::projected(&probabilities, deviation);
                let (axis, mut knowledge) = settle(schema, cells, law, deviation, None);
                // The tables are yet to be read as features, so the cells themselves stay open.
                knowledge.variance = axis.cell_masses();
                knowledge.noise = false;
                (axis, knowledge)
            }
            (None, None) => {
                let cells = cells.remove(0);
                let axis = Axis::new(schema, column, Some(&cells));
                let masses = axis.cell_masses();
                let within = masses.iter().map(|mass| mass * mass).collect();
                (axis, Knowledge::new(cells, masses, within))
            }
        };
        axes.push(axis);
        all.push(knowledge);
    }
    Ok(Some((Independent { axes }, all, used)))
}

/// Takes in the values of single columns that a release tells.
pub(crate) fn observe_values(release: &Release, prior: &mut Independent, known: &mut [Knowledge], counted: Rows) {
    for block in release.blocks() {
        let MapSpec::Values(spec) = block.map() else { continue };
        let scale = 1.0 / (block.grid() as f64 * counted.value);
        let deviation = (block.noise().standard_deviation(block.sums().len()) * scale).max(1e-9);
        for (column, sum) in spec.columns.iter().zip(block.sums()) {
            let at = release.schema().position(&column.name).expect("a release has the columns of its maps");
            if !known[at].noise || known[at].observed.is_some() {
                continue;
            }
            let mean = *sum as f64 * scale;
            // An error of the number of rows counts by the mean.
            let noise = deviation.powi(2) + (mean * counted.deviation / counted.value).powi(2);
            let ends = [column.low, column.high].map(|end| f64::from(end) / f64::from(STEPS));
            let function = |unit: f64| clipped(unit, column.low, column.high);
            known[at].observe(&mut prior.axes[at], function, &ends, mean, noise);
        }
    }
}

/// The same for a release without any table: `probability` tells what a first reading against the uniform prior makes of
/// the cells of each column.
pub(crate) fn learn_from(
    schema: &Schema,
    probability: impl Fn(&Cells, usize) -> f64,
) -> Result<(Independent, Vec<Knowledge>), Error> {
    let partitions = MapSpec::Hist(HistSpec::with_bins(UNKNOWN_BINS)).tables(schema)?;
    let (mut axes, mut all) = (Vec::new(), Vec::new());
    for (_, mut cells) in partitions {
        let cells = cells.remove(0);
        let guess: Vec<f64> = (0..cells.len()).map(|cell| probability(&cells, cell)).collect();
        let deviation = 0.2 / f64::from(UNKNOWN_BINS);
        let (axis, mut knowledge) = settle(schema, cells, Law::projected(&guess, deviation), deviation, None);
        knowledge.variance = axis.cell_masses();
        knowledge.noise = false;
        axes.push(axis);
        all.push(knowledge);
    }
    Ok((Independent { axes }, all))
}

/// One-way tables that the prior used up: the block, and the places among its sums.
pub(crate) type Used = Vec<(usize, std::ops::Range<usize>)>;

fn from_marginal(
    release: &Release,
    marginal: Marginal,
    merged: Option<Merged>,
    look: Option<&Look>,
    rows: f64,
) -> (Axis, Knowledge) {
    let block = &release.blocks()[marginal.block];
    let sums = &block.sums()[marginal.first..][..marginal.cells.len()];
    let probabilities: Vec<f64> = sums.iter().map(|sum| *sum as f64 / rows).collect();
    // Noise that is all but none would leave the cells without any scale to be compared with.
    let deviation = (block.noise().standard_deviation(block.sums().len()) / rows).max(1e-9);
    let tails = Tails::of(block.noise());
    let nullable = release.schema().columns()[marginal.cells.column()].nullable;
    let law = match merged.filter(|merged| merged.groups.len() == marginal.cells.len()) {
        Some(merged) => merged.refine(&probabilities, (deviation, tails), nullable, marginal.cells.in_order()),
        None if release.blocks().iter().all(|block| matches!(block.map(), MapSpec::Hist(_))) => {
            let (mut freed, variance) = shrink(&probabilities, (deviation, tails), marginal.cells.in_order());
            let mut freedom = variance.clone();
            let missing = probabilities.len() - 1;
            if !nullable && probabilities[missing] < STANDS_OUT * deviation {
                (freed[missing], freedom[missing]) = (0.0, 0.0);
            }
            Law { probabilities: near(&freed, &freedom, 1.0), variance, groups: None, trace: TRACE }
        }
        // Features see every cell, and how well they do rests on none being all but impossible.
        None => Law::projected(&probabilities, deviation),
    };
    settle(release.schema(), marginal.cells, law, deviation, look)
}

/// A law of the cells of a column.
struct Law {
    probabilities: Vec<f64>,
    /// As in [`Knowledge`].
    variance: Vec<f64>,
    groups: Option<(Vec<u32>, Vec<f64>)>,
    /// How much of the uniform law is mixed in, so that nothing is impossible.
    trace: f64,
}

impl Law {
    /// Noisy probabilities, projected on the simplex.
    fn projected(noisy: &[f64], deviation: f64) -> Self {
        let probabilities = simplex(noisy);
        let left = |p: &f64| deviation * deviation * if *p > 0.0 { 1.0 } else { CLIPPED };
        let variance = probabilities.iter().map(left).collect();
        let trace = (0.1 * deviation * (noisy.len() as f64).sqrt()).clamp(1e-9, 0.02);
        Self { probabilities, variance, groups: None, trace }
    }
}

/// A column that the schema does not let be missing is taken to have a value in every row, unless as many are missing as
/// this many standard deviations of the noise: cells that could not be read.
const STANDS_OUT: f64 = 4.0;

/// Where no feature sees a cell, next to none of the uniform law is enough.
const TRACE: f64 = 1e-6;

/// What tables over merged cells tell of one column: the group of each cell, the share of rows in each group, and the
/// variance of its error.
struct Merged {
    groups: Vec<u32>,
    shares: Vec<f64>,
    variance: f64,
}

impl Merged {
    /// Takes in other shares with errors of a given variance.
    fn average(&mut self, shares: &[f64], variance: f64) {
        let weight = 1.0 / (1.0 + variance / self.variance);
        self.shares.iter_mut().zip(shares).for_each(|(mean, share)| *mean += weight * (share - *mean));
        self.variance = weight * variance;
    }

    /// Cells that agree as well as possible with their own noisy values and with those of the groups: the groups first, then
    /// the cells of each, freed of noise.
    fn refine(self, noisy: &[f64], (deviation, tails): (f64, Tails), nullable: bool, order: Option<Vec<usize>>) -> Law {
        let count = self.shares.len();
        let groups = &self.groups;
        let members = |group: usize| (0..noisy.len()).filter(move |cell| groups[*cell] as usize == group);
        let sums: Vec<f64> = (0..count).map(|group| members(group).map(|cell| noisy[cell]).sum()).collect();
        let sizes: Vec<f64> = (0..count).map(|group| members(group).count() as f64).collect();
        let left: Vec<f64> =
            sizes.iter().map(|size| 1.0 / (1.0 / (size * deviation * deviation) + 1.0 / self.variance)).collect();
        let moved: Vec<f64> =
            (0..count).map(|group| (self.shares[group] - sums[group]) * left[group] / self.variance).collect();
        let mut totals: Vec<f64> = sums.iter().zip(&moved).map(|(sum, step)| sum + step).collect();
        let cells: Vec<f64> = (0..noisy.len())
            .map(|cell| noisy[cell] + moved[groups[cell] as usize] / sizes[groups[cell] as usize])
            .collect();
        let (mut freed, variance) = shrink(&cells, (deviation, tails), order);
        let (mut freedom, mut group_freedom) = (variance.clone(), left.clone());
        let missing = noisy.len() - 1;
        let group = groups[missing] as usize;
        let alone = sizes[group] == 1.0;
        if !nullable && cells[missing] < STANDS_OUT * if alone { left[group].sqrt() } else { deviation } {
            (freed[missing], freedom[missing]) = (0.0, 0.0);
            if alone {
                (totals[group], group_freedom[group]) = (0.0, 0.0);
            }
        }
        let totals = near(&totals, &group_freedom, 1.0);
        let mut probabilities = vec![0.0; noisy.len()];
        for (group, total) in totals.iter().enumerate() {
            let at: Vec<usize> = members(group).collect();
            let of = |all: &[f64]| at.iter().map(|cell| all[*cell]).collect::<Vec<_>>();
            for (cell, p) in at.iter().zip(near(&of(&freed), &of(&freedom), *total)) {
                probabilities[*cell] = p;
            }
        }
        Law { probabilities, variance, groups: Some((self.groups, left)), trace: TRACE }
    }
}

/// Adds up every table of two columns along each of them, and averages what that gives of the other; tables of three
/// likewise, where they have the same groups or there are no others. Nothing for columns that are in no table, or whose
/// cells are merged in two ways in tables of two.
fn from_merged_tables(release: &Release, rows: f64) -> Result<Vec<Option<Merged>>, Error> {
    let schema = release.schema();
    let mut found: Vec<Option<Merged>> = schema.columns().iter().map(|_| None).collect();
    let mut two_ways = vec![false; found.len()];
    for (columns, block) in [2, 3].into_iter().flat_map(|columns| release.blocks().iter().map(move |b| (columns, b))) {
        let MapSpec::Merged(spec) = block.map() else { continue };
        let noise = (block.noise().standard_deviation(block.sums().len()) / rows).max(1e-9).powi(2);
        for ((first, group), places) in block.map().tables(schema)?.iter().zip(&spec.tables) {
            if group.len() != columns {
                continue;
            }
            let len: usize = group.iter().map(Cells::len).product();
            let sums = &block.sums()[*first..][..len];
            for at in 0..columns {
                let groups = &spec.columns[places[at] as usize].groups;
                let (column, size) = (group[at].column(), group[at].len());
                let merged = found[column].get_or_insert_with(|| Merged {
                    groups: groups.clone(),
                    shares: vec![0.0; size],
                    variance: f64::INFINITY,
                });
                if merged.groups != *groups {
                    two_ways[column] |= columns == 2;
                    continue;
                }
                let step: usize = group[at + 1..].iter().map(Cells::len).product();
                let mut shares = vec![0.0; size];
                for (place, sum) in sums.iter().enumerate() {
                    shares[place / step % size] += *sum as f64 / rows;
                }
                merged.average(&shares, noise * (len / size) as f64);
            }
        }
    }
    found.iter_mut().zip(two_ways).filter(|(_, two_ways)| *two_ways).for_each(|(found, _)| *found = None);
    Ok(found)
}

/// The prior of a column, and what is known of it.
fn settle(schema: &Schema, cells: Cells, law: Law, deviation: f64, look: Option<&Look>) -> (Axis, Knowledge) {
    let heavy = heavy(&cells, &law.probabilities, deviation);
    let mut seen = look.map_or_else(Vec::new, |look| look.into(schema, &cells, &law.probabilities));
    seen.resize_with(cells.len(), || None);
    for (bin, seen) in seen.iter_mut().enumerate().filter(|(bin, seen)| heavy[*bin] && seen.is_none()) {
        *seen = narrow(schema, &cells, bin, law.probabilities[bin]);
    }
    let inside = |(heavy, seen): (&bool, &Option<Seen>)| match seen {
        Some(seen) => Inside::Pieces(seen.pieces.clone()),
        None if *heavy => Inside::Heavy,
        None => Inside::Level,
    };
    let insides: Vec<Inside> = heavy.iter().zip(&seen).map(inside).collect();
    let mut axis = Axis::with_insides(schema, cells.column(), Some(&cells), &insides);
    let uniform: Vec<f64> = axis.cell_masses().iter().map(|mass| mass.max(1e-3 / cells.len() as f64)).collect();
    let total: f64 = uniform.iter().sum();
    let mixed = |(p, u): (&f64, &f64)| (1.0 - law.trace) * p + law.trace * u / total;
    let probabilities: Vec<f64> = law.probabilities.iter().zip(&uniform).map(mixed).collect();
    axis.set_cells(&probabilities);
    let mut leans = leans(&cells, &probabilities, deviation);
    leans.iter_mut().zip(&seen).filter(|(_, seen)| seen.is_some()).for_each(|(lean, _)| *lean = 0.0);
    axis.lean(&leans);
    let uneven = unevenness(&cells, &law.probabilities, deviation);
    let within = (probabilities.iter().zip(heavy).zip(&seen))
        .map(|((p, heavy), seen)| {
            let open = if heavy { 1.0 } else { uneven } * p * p;
            seen.as_ref().map_or(open, |seen| seen.variance.min(p * p))
        })
        .collect();
    let Law { variance, groups, .. } = law;
    (axis, Knowledge { groups, noise: true, ..Knowledge::new(cells, variance, within) })
}

/// The numbers from 0 up that have a given sum and are nearest to some with errors of given variances; those without any
/// stay as they are.
pub(super) fn near(numbers: &[f64], variances: &[f64], sum: f64) -> Vec<f64> {
    // Σ max(0, x + t v) = sum, by bisection over t.
    let at = |t: f64| numbers.iter().zip(variances).map(move |(x, v)| (x + t * v).max(0.0));
    let least = variances.iter().filter(|v| **v > 0.0).fold(f64::INFINITY, |a, b| a.min(*b)).max(1e-300);
    let (mut low, mut high) = (-2.0 / least, 2.0 / least);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if at(middle).sum::<f64>() < sum { low = middle } else { high = middle }
    }
    at(high).collect()
}

/// How a bin compares with the two beside it: how its mass would change from one end to the other if it went along with theirs,
/// how much it is beyond what lies on the line through their densities, and the variance that noise of variance 1 gives either.
struct Between {
    slope: f64,
    spike: f64,
    noise: [f64; 2],
}

/// A bin tells nothing of one that it has less than this part of the width of.
const TOO_NARROW: f64 = 0.4;

/// The second of three bins that follow on each other; nothing if one of the others is too narrow.
fn between(edges: &[f64], masses: &[f64]) -> Option<Between> {
    let width = |at: usize| edges[at + 1] - edges[at];
    if width(0).min(width(2)) < TOO_NARROW * width(1) || width(1) <= 0.0 {
        return None;
    }
    let middle = |at: usize| 0.5 * (edges[at] + edges[at + 1]);
    let apart = middle(2) - middle(0);
    // What either neighbour's mass counts for.
    let beside = [0, 2].map(|at| width(1) / width(at));
    let slope = beside.map(|part| width(1) / apart * part);
    let line = [beside[0] * (middle(2) - middle(1)) / apart, beside[1] * (middle(1) - middle(0)) / apart];
    Some(Between {
        slope: slope[1] * masses[2] - slope[0] * masses[0],
        spike: masses[1] - line[0] * masses[0] - line[1] * masses[2],
        noise: [slope[0].powi(2) + slope[1].powi(2), 1.0 + line[0].powi(2) + line[1].powi(2)],
    })
}

/// How much the density leans within each bin, judged by its neighbours: half its relative change across the bin, as far
/// as that stands out from the noise.
fn leans(cells: &Cells, probabilities: &[f64], deviation: f64) -> Vec<f64> {
    let edges = cells.edges().unwrap_or_default();
    let mut leans = vec![0.0; probabilities.len()];
    for (at, edges) in edges.windows(4).enumerate() {
        let p = probabilities[at + 1].max(1e-12);
        let Some(Between { slope, noise, .. }) = between(edges, &probabilities[at..at + 3]) else { continue };
        let lean = slope / (2.0 * p);
        let noise = deviation * deviation * noise[0] / (4.0 * p * p);
        leans[at + 1] = (lean * (1.0 - noise / (lean * lean).max(1e-300)).max(0.0)).clamp(-0.9, 0.9);
    }
    leans
}

/// A bin that holds at least this part of the rows and so many times as many as either neighbour has on as much room is heavy:
/// the column lives on a finer scale than its bins, and nothing says where in this one the rows are. Of a narrow bin any part
/// will do.
const HEAVY: (f64, f64) = (0.05, 6.0);

/// Which cells are heavy bins.
fn heavy(cells: &Cells, probabilities: &[f64], deviation: f64) -> Vec<bool> {
    let edges = cells.edges().unwrap_or_default();
    let bins = edges.len().saturating_sub(1);
    let width = |bin: usize| edges[bin + 1] - edges[bin];
    let stands_out = |bin: usize| {
        let beside = [bin.wrapping_sub(1), bin + 1].into_iter().filter(|other| *other < bins);
        let most = beside.map(|other| probabilities[other] * (width(bin) / width(other)).min(1.0)).fold(0.0, f64::max);
        let least = if width(bin) < NARROW { 0.0 } else { HEAVY.0 };
        let p = probabilities[bin] - STANDS_OUT * deviation;
        p > least && p > HEAVY.1 * most
    };
    (0..probabilities.len()).map(|cell| cell < bins && stands_out(cell)).collect()
}

/// How much of the noise's variance remains in a cell that came out below zero and was set to it.
const CLIPPED: f64 = 0.25;

/// How far a column may be from level within its cells, as a variance relative to that of the cell: judged by how far
/// neighbouring cells differ (a slope) and how far one stands out from both its neighbours (a spike, whose place within
/// its cell is unknown), less what noise alone would make of them. Narrow cells at the ends have no say: what they hold is not
/// told from that of others.
pub(crate) fn unevenness(cells: &Cells, probabilities: &[f64], deviation: f64) -> f64 {
    let edges = cells.edges().unwrap_or_default();
    let variance = deviation * deviation;
    let bins: Vec<(f64, f64)> =
        edges.windows(2).zip(probabilities).map(|(edges, p)| (edges[1] - edges[0], p * p)).collect();
    let widest = bins.iter().map(|(width, _)| *width).fold(0.0, f64::max);
    // The first and the last have but one neighbour.
    let ends = bins.first().into_iter().chain(bins.last()).filter(|(width, _)| *width > TOO_NARROW * widest);
    let (mut slopes, mut spikes, mut total) = (0.0, 0.0, ends.map(|(_, square)| square).sum::<f64>());
    for (at, edges) in edges.windows(4).enumerate() {
        let Some(Between { slope, spike, noise }) = between(edges, &probabilities[at..at + 3]) else { continue };
        slopes += slope.powi(2) - noise[0] * variance;
        spikes += spike.powi(2) - noise[1] * variance;
        total += probabilities[at + 1].powi(2);
    }
    ((slopes.max(0.0) / 12.0 + spikes.max(0.0)) / total.max(1e-300)).clamp(0.01, 1.0)
}

/// The nearest probabilities to some numbers.
pub(crate) fn simplex(numbers: &[f64]) -> Vec<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let (mut sum, mut threshold) = (0.0, 0.0);
    for (i, x) in sorted.iter().enumerate() {
        sum += x;
        let candidate = (sum - 1.0) / (i + 1) as f64;
        if *x > candidate {
            threshold = candidate;
        }
    }
    numbers.iter().map(|x| (x - threshold).max(0.0)).collect()
}

/// For each column in a table of several, its marginal summed from the table with the least noise: cells, counts, and
/// the variance of the noise on each.
type Summed = Option<(Cells, Vec<f64>, f64)>;

fn from_wider_tables(release: &Release) -> Result<Vec<Summed>, Error> {
    let schema = release.schema();
    let mut best: Vec<Summed> = schema.columns().iter().map(|_| None).collect();
    for block in release.blocks() {
        let noise = block.noise().standard_deviation(block.sums().len()).powi(2);
        for (first, group) in tables(block.map(), schema)? {
            if group.len() < 2 {
                continue;
            }
            let sizes: Vec<usize> = group.iter().map(Cells::len).collect();
            let len: usize = sizes.iter().product();
            let sums = &block.sums()[first..][..len];
            for (at, cells) in group.into_iter().enumerate() {
                let variance = noise * (len / sizes[at]) as f64;
                let column = cells.column();
                if best[column].as_ref().is_some_and(|(_, _, other)| *other <= variance) {
                    continue;
                }
                let step: usize = sizes[at + 1..].iter().product();
                let mut counts = vec![0.0; sizes[at]];
                for (place, sum) in sums.iter().enumerate() {
                    counts[place / step % sizes[at]] += *sum as f64;
                }
                best[column] = Some((cells, counts, variance));
            }
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mean that is taken in moves cells and their insides as dense Gaussian algebra does, for functions that differ between
    /// cells and within them, and leaves as much of their errors.
    #[test]
    fn an_observed_mean_is_taken_in_as_by_dense_algebra() {
        let text = "[[column]]\nname = 'x'\ntype = 'number'\nmin = 0\nmax = 1\n";
        let schema = Schema::from_toml(text).unwrap();
        let cells = MapSpec::Hist(HistSpec::with_bins(4)).tables(&schema).unwrap().remove(0).1.remove(0);
        let variance = vec![4e-4, 1e-4, 2e-4, 3e-4, 1e-9];
        let law = Law { probabilities: vec![0.25, 0.25, 0.25, 0.25, 0.0], variance, groups: None, trace: 1e-9 };
        let (mut axis, mut known) = settle(&schema, cells, law, 1e-3, None);
        known.within = vec![1e-3, 2e-3, 1e-3, 1e-3, 0.0];
        let value = |unit: f64| ((unit - 0.1) / 0.35 - 1.0).clamp(-1.0, 1.0);
        let others: [(&dyn Fn(f64) -> f64, f64); 3] =
            [(&|x| x, 0.0), (&|x| x * x, 0.0), (&|x| f64::from(x < 0.375), 0.375)];
        // By brute force on a fine grid: errors of the cells whose sum is fixed, and independent ones at each point within.
        const POINTS: usize = 4000;
        let at = |i: usize| (i as f64 + 0.5) / POINTS as f64;
        let per_cell = POINTS / 4;
        let cell_means = |f: &dyn Fn(f64) -> f64| -> Vec<f64> {
            let mean = |cell: usize| (0..per_cell).map(|i| f(at(cell * per_cell + i))).sum::<f64>() / per_cell as f64;
            (0..4).map(mean).collect()
        };
        let covariance = |f: &dyn Fn(f64) -> f64, g: &dyn Fn(f64) -> f64| {
            let (a, b) = (cell_means(f), cell_means(g));
            let v = &known.variance;
            let total: f64 = v.iter().sum();
            let mean = |a: &[f64]| a.iter().zip(v).map(|(x, v)| x * v).sum::<f64>() / total;
            let between: f64 =
                a.iter().zip(&b).zip(v).map(|((x, y), v)| x * y * v).sum::<f64>() - total * mean(&a) * mean(&b);
            let inside = |i: usize| (f(at(i)) - a[i / per_cell]) * (g(at(i)) - b[i / per_cell]) / per_cell as f64;
            between + (0..POINTS).map(|i| known.within[i / per_cell] * inside(i)).sum::<f64>()
        };
        let (noise, tables) = (
            1e-4,
            others.map(|(f, jump)| {
                let of = |value| if let Value::Unit(unit) = value { f(unit) } else { 0.0 };
                axis.tabulate(&[jump], of)
            }),
        );
        let before: Vec<f64> = tables.iter().map(|table| axis.mean(table)).collect();
        let masses = axis.cell_masses();
        let mean = cell_means(&value).iter().zip(&masses).map(|(x, mass)| x * mass).sum::<f64>() + 0.02;
        let total = covariance(&value, &value) + noise;
        let moved = others.map(|(f, _)| covariance(f, &value) * 0.02 / total);
        let left = others.map(|(f, _)| covariance(f, f) - covariance(f, &value).powi(2) / total);
        known.observe(&mut axis, value, &[0.1, 0.8], mean, noise);
        let observed = known.observed.as_ref().unwrap();
        for (i, table) in tables.iter().enumerate() {
            let means = axis.cell_means(table);
            let (shared, rest) = observed.shared(&known, &axis, table, &means);
            let change = axis.mean(table) + rest - before[i];
            assert!((change - moved[i]).abs() < 0.05 * moved[i].abs() + 1e-5, "{i}: {change}, not {}", moved[i]);
            let own = dot(&means, &known.covariance(&means)) + dot(&known.within, &axis.cell_covariances(table, table));
            let found = own - known.explained(shared, shared);
            assert!((found - left[i]).abs() < 0.05 * left[i], "{i}: {found}, not {}", left[i]);
        }
    }

    /// Where one bin holds nearly all rows they may all be at one end of it, and a threshold there is not taken to matter to
    /// next to none. In a level column it is; what is expected is the same in both.
    #[test]
    fn rows_of_a_heavy_bin_may_be_at_its_ends() {
        let schema = Schema::from_toml("[[column]]\nname = 'x'\ntype = 'number'\nmin = 0\nmax = 1\n").unwrap();
        let about = |probabilities: [f64; 5], threshold: f64| {
            let cells = MapSpec::Hist(HistSpec::with_bins(4)).tables(&schema).unwrap().remove(0).1.remove(0);
            let law =
                Law { probabilities: probabilities.to_vec(), variance: vec![1e-8; 5], groups: None, trace: TRACE };
            let (axis, known) = settle(&schema, cells, law, 1e-4, None);
            let below = |value| if let Value::Unit(unit) = value { f64::from(unit < threshold) } else { 0.0 };
            let table = axis.tabulate(&[threshold], below);
            let inside = dot(&known.within, &axis.cell_covariances(&table, &table));
            (axis.mean(&table), inside.sqrt())
        };
        let (heavy, level) = ([0.01, 0.95, 0.02, 0.02, 0.0], [0.25, 0.25, 0.25, 0.25, 0.0]);
        for near in [1e-4, 1e-6, 1e-9] {
            for threshold in [0.25 + near, 0.5 - near] {
                assert!(about(heavy, threshold).1 > 0.3, "{threshold}: {:?}", about(heavy, threshold));
                assert!(about(level, threshold).1 < 0.003, "{threshold}: {:?}", about(level, threshold));
            }
        }
        assert!((about(heavy, 0.375).0 - 0.485).abs() < 1e-3 && about(heavy, 0.25).1 < 1e-9);
    }

    /// Rows at the high end are there and not spread over the sliver that holds them, though the bin beside it holds many too;
    /// so are few rows at the low end, if there is next to nothing beside them.
    #[test]
    fn rows_of_a_narrow_end_are_at_the_end() {
        let schema = Schema::from_toml("[[column]]\nname = 'x'\ntype = 'number'\nmin = 0\nmax = 1\n").unwrap();
        let spec = HistSpec { halved: 12, ..HistSpec::with_bins(4) };
        let cells = MapSpec::Hist(spec).tables(&schema).unwrap().remove(0).1.remove(0);
        let bins = cells.edges().unwrap().len() - 1;
        let mut probabilities = vec![0.0; cells.len()];
        (probabilities[0], probabilities[bins - 3], probabilities[bins - 2], probabilities[bins - 1]) =
            (0.02, 0.4, 0.28, 0.3);
        let law = Law { variance: vec![1e-8; cells.len()], probabilities, groups: None, trace: TRACE };
        let (axis, known) = settle(&schema, cells, law, 1e-4, None);
        let at_least = |threshold: f64| {
            let above = |value| if let Value::Unit(unit) = value { f64::from(unit >= threshold) } else { 0.0 };
            let table = axis.tabulate(&[threshold], above);
            (axis.mean(&table), dot(&known.within, &axis.cell_covariances(&table, &table)).sqrt())
        };
        let (ends, inside) = at_least(1.0);
        assert!((ends - 0.3).abs() < 1e-3 && inside < 3e-3, "{ends} ± {inside}");
        let (beyond_low, inside) = at_least(1e-9);
        assert!((beyond_low - 0.981).abs() < 1e-3 && inside < 2e-3, "{beyond_low} ± {inside}");
    }

    /// The projection is optimal: every other point of the simplex is at least as far.
    #[test]
    fn simplex_is_the_nearest_law() {
        let numbers = [0.5, -0.2, 0.9, 0.1, 0.0];
        let nearest = simplex(&numbers);
        assert!((nearest.iter().sum::<f64>() - 1.0).abs() < 1e-12 && nearest.iter().all(|p| *p >= 0.0));
        let distance = |p: &[f64]| p.iter().zip(&numbers).map(|(p, x)| (p - x).powi(2)).sum::<f64>();
        for i in 0..5 {
            for j in 0..5 {
                let mut other = nearest.clone();
                let step = 1e-3f64.min(other[i]);
                other[i] -= step;
                other[j] += step;
                assert!(distance(&other) >= distance(&nearest) - 1e-12);
            }
        }
    }
}
