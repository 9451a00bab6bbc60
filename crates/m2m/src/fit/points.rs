//! Random points of the prior with their features: for maps whose moments have no closed form, for questions that do not
//! separate, and for losses.

use faer::Mat;
use faer::linalg::matmul::matmul;
use faer::{Accum, Par};

use crate::Schema;
use crate::expr::{Checked, Scalar};
use crate::feature::{FeatureMap, Simd};
use crate::panel::{Panel, Record, Value};
use crate::simd::{common_bits, equal_bits};

/// Points with their features. Features that no point has are left out: with any noise their coefficients are zero.
pub(crate) struct Points {
    panels: Vec<Panel>,
    /// The first point of each panel.
    starts: Vec<usize>,
    count: usize,
    stored: Vec<Stored>,
    /// For each feature that is kept: its block and its place among the sums of the block.
    kept: Vec<(usize, usize)>,
    mean: Vec<f64>,
}

/// The features of one block.
enum Stored {
    /// A single 1 per group: `[group][point]`, the place among all kept features, or [`NOWHERE`].
    OneHot { first: usize, len: usize, groups: Vec<Group>, places: Vec<u16> },
    /// `[feature][point]`, in real units.
    Dense { first: usize, values: Mat<f64> },
}

/// The kept features of which every point has at most one.
struct Group {
    first: usize,
    len: usize,
    /// If they are few, the points that have each, as sets of bits.
    sets: Vec<u64>,
}

/// The place of a feature that is not kept. (More features than this are too many for any fit.)
const NOWHERE: u16 = u16::MAX;
/// Groups up to this size are held as sets of points: counting what two sets share, 512 points at a time, is then faster than
/// counting pairs of places point by point.
const FEW: usize = 32;

impl Points {
    /// Evaluates the maps (each with its block and grid) at the points.
    pub fn new(
        panels: Vec<Panel>,
        maps: &[(usize, &dyn FeatureMap, f64)],
        keep: impl Fn(usize, usize) -> bool,
    ) -> Self {
        let mut count = 0;
        let mut starts = Vec::with_capacity(panels.len());
        for panel in &panels {
            starts.push(count);
            count += panel.len();
        }
        let mut points = Self { panels, starts, count, stored: Vec::new(), kept: Vec::new(), mean: Vec::new() };
        for (block, map, grid) in maps {
            points.store(*block, *map, *grid, &keep);
        }
        points
    }

    fn store(&mut self, block: usize, map: &dyn FeatureMap, grid: f64, keep: &dyn Fn(usize, usize) -> bool) {
        let first = self.kept.len();
        let mut scratch = Vec::new();
        let groups = {
            let one_hot = self.panels.first().is_some_and(|panel| map.places(panel, &mut scratch));
            if one_hot { Some(scratch.len() / self.panels[0].len().max(1)) } else { None }
        };
        let Some(groups) = groups else {
            let values = dense(&self.panels, self.count, map, grid);
            self.kept.extend((0..map.len()).map(|feature| (block, feature)));
            for feature in 0..map.len() {
                let column = values.col(feature).try_as_col_major().expect("columns of a matrix").as_slice();
                self.mean.push(column.iter().sum::<f64>() / self.count as f64);
            }
            self.stored.push(Stored::Dense { first, values });
            return;
        };
        // Features are named as they turn up, and put in order afterwards.
        let mut places = vec![NOWHERE; groups * self.count];
        let mut names = vec![NOWHERE; map.len()];
        let mut named: Vec<usize> = Vec::new();
        let mut at = 0;
        for panel in &self.panels {
            scratch.clear();
            map.places(panel, &mut scratch);
            for (group, chunk) in scratch.chunks_exact(panel.len()).enumerate() {
                for (name, place) in places[group * self.count + at..].iter_mut().zip(chunk) {
                    let known = &mut names[*place as usize];
                    if *known == NOWHERE {
                        *known = u16::try_from(named.len()).unwrap_or(NOWHERE);
                        named.push(*place as usize);
                    }
                    *name = *known;
                }
            }
            at += panel.len();
        }
        let mut order: Vec<usize> = (0..named.len()).filter(|name| keep(block, named[*name])).collect();
        order.sort_unstable_by_key(|name| named[*name]);
        let mut renamed = vec![NOWHERE; named.len().max(usize::from(NOWHERE) + 1)];
        for name in &order {
            renamed[*name] = u16::try_from(self.kept.len()).unwrap_or(NOWHERE);
            self.kept.push((block, named[*name]));
        }
        self.mean.resize(self.kept.len(), 0.0);
        let groups = places.chunks_exact_mut(self.count.max(1)).map(|places| self.group(places, &renamed)).collect();
        self.stored.push(Stored::OneHot { first, len: self.kept.len() - first, groups, places });
    }

    /// Gives the features of a group their last names, and their means.
    fn group(&mut self, places: &mut [u16], renamed: &[u16]) -> Group {
        let (mut low, mut high) = (NOWHERE, 0);
        for place in places.iter_mut() {
            *place = renamed[usize::from(*place)];
            if *place != NOWHERE {
                (low, high) = (low.min(*place), high.max(*place));
            }
        }
        let (first, len) = (usize::from(low), (usize::from(high) + 1).saturating_sub(usize::from(low)));
        let mut hits = vec![0u32; len + 1];
        let mut sets = Vec::new();
        if len <= FEW {
            let words = self.words();
            sets.resize(len * words, 0);
            for (set, hits) in sets.chunks_exact_mut(words.max(1)).zip(&mut hits) {
                equal_bits(Simd::detect(), places, low, set);
                low += 1;
                *hits = common_bits(Simd::detect(), [set], [set])[0][0] as u32;
            }
        } else {
            places.iter().for_each(|place| hits[usize::from(*place).wrapping_sub(first).min(len)] += 1);
        }
        for (mean, hits) in self.mean.iter_mut().skip(first).zip(&hits[..len]) {
            *mean = f64::from(*hits) / self.count as f64;
        }
        Group { first, len, sets }
    }

    /// The words of a set of points, in multiples of eight.
    fn words(&self) -> usize {
        self.count.div_ceil(64).next_multiple_of(8)
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn kept(&self) -> &[(usize, usize)] {
        &self.kept
    }

    /// The means of the features over the points.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    pub fn panels(&self) -> &[Panel] {
        &self.panels
    }

    /// One of the points.
    pub fn record(&self, at: usize) -> Record<'_> {
        let panel = self.starts.partition_point(|start| *start <= at) - 1;
        self.panels[panel].record(at - self.starts[panel])
    }

    /// The places of the points along a numeric column; 0 for missing numbers and levels.
    pub fn column(&self, column: usize) -> Vec<f64> {
        let unit = |value| if let Value::Unit(unit) = value { unit } else { 0.0 };
        let of = |panel: &Panel| (0..panel.len()).map(|row| unit(panel.record(row).value(column))).collect::<Vec<_>>();
        self.panels.iter().flat_map(of).collect()
    }

    /// The values of a function at the points.
    pub fn values(&self, schema: &Schema, function: &Checked, mut value: impl FnMut(Scalar<'_>) -> f64) -> Vec<f64> {
        let mut values = Vec::with_capacity(self.count);
        for panel in &self.panels {
            values.extend((0..panel.len()).map(|row| value(function.of_record(schema, panel.record(row)))));
        }
        values
    }

    /// The values of a number or a condition at the points: 1 where it is true, NaN where it is missing.
    pub fn numbers(&self, schema: &Schema, function: &Checked) -> Vec<f64> {
        self.values(schema, function, |value| match value {
            Scalar::Number(x) => x,
            Scalar::Boolean(truth) => f64::from(truth),
            _ => f64::NAN,
        })
    }

    /// The means over the points of a function times each feature.
    pub fn moments(&self, values: &[f64]) -> Vec<f64> {
        let mut moments = vec![0.0; self.kept.len()];
        for stored in &self.stored {
            match stored {
                Stored::OneHot { places, .. } => {
                    for chunk in places.chunks_exact(self.count.max(1)) {
                        for (place, value) in chunk.iter().zip(values) {
                            if let Some(moment) = moments.get_mut(*place as usize) {
                                *moment += value;
                            }
                        }
                    }
                }
                Stored::Dense { first, values: features } => {
                    for feature in 0..features.ncols() {
                        let column = features.col(feature).try_as_col_major().expect("columns of a matrix").as_slice();
                        moments[first + feature] = dot(column, values);
                    }
                }
            }
        }
        moments.iter_mut().for_each(|moment| *moment /= self.count as f64);
        moments
    }

    /// At every point, the sum of coefficients times features.
    pub fn combine(&self, coefficients: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.count];
        for stored in &self.stored {
            match stored {
                Stored::OneHot { places, .. } => {
                    for chunk in places.chunks_exact(self.count.max(1)) {
                        for (sum, place) in sums.iter_mut().zip(chunk) {
                            *sum += coefficients.get(*place as usize).copied().unwrap_or(0.0);
                        }
                    }
                }
                Stored::Dense { first, values } => {
                    for feature in 0..values.ncols() {
                        let column = values.col(feature).try_as_col_major().expect("columns of a matrix").as_slice();
                        let coefficient = coefficients[first + feature];
                        sums.iter_mut().zip(column).for_each(|(sum, x)| *sum += coefficient * x);
                    }
                }
            }
        }
        sums
    }

    /// The mean over the points of every product of two features.
    pub fn gram(&self, simd: Simd) -> Mat<f64> {
        let mut gram = Mat::zeros(self.kept.len(), self.kept.len());
        for (i, a) in self.stored.iter().enumerate() {
            for b in &self.stored[..=i] {
                match (a, b) {
                    (Stored::OneHot { .. }, Stored::OneHot { .. }) => {}
                    (Stored::Dense { first: i, values: a }, Stored::Dense { first: j, values: b }) => {
                        let mut block = Mat::zeros(a.ncols(), b.ncols());
                        matmul(block.as_mut(), Accum::Replace, a.transpose(), b, 1.0, Par::Seq);
                        copy(&mut gram, &block, *i, *j);
                    }
                    (Stored::OneHot { first: i, len, places, .. }, Stored::Dense { first: j, values })
                    | (Stored::Dense { first: j, values }, Stored::OneHot { first: i, len, places, .. }) => {
                        let mut block = Mat::zeros(*len, values.ncols());
                        for feature in 0..values.ncols() {
                            let column = values.col(feature).try_as_col_major().expect("columns").as_slice();
                            for chunk in places.chunks_exact(self.count.max(1)) {
                                for (place, value) in chunk.iter().zip(column).filter(|(place, _)| **place != NOWHERE) {
                                    block[(*place as usize - i, feature)] += value;
                                }
                            }
                        }
                        copy(&mut gram, &block, *i, *j);
                    }
                }
            }
        }
        self.count_pairs(simd, &mut gram);
        let scale = 1.0 / self.count as f64;
        for column in gram.col_iter_mut() {
            column
                .try_as_col_major_mut()
                .expect("columns of a matrix")
                .as_slice_mut()
                .iter_mut()
                .for_each(|x| *x *= scale);
        }
        gram
    }

    /// How often two one-hot features meet.
    fn count_pairs(&self, simd: Simd, gram: &mut Mat<f64>) {
        const TILE: usize = 4;
        let mut groups: Vec<(&Group, &[u16])> = Vec::new();
        for stored in &self.stored {
            if let Stored::OneHot { groups: all, places, .. } = stored {
                groups.extend(all.iter().zip(places.chunks_exact(self.count.max(1))));
            }
        }
        let hits = |i: usize| (self.mean[i] * self.count as f64).round();
        // Sets of points, a few by a few at a time. Where the sets of a group share out all points, the last is what the
        // others leave, and is not looked at.
        let words = self.words();
        let few = |group: &Group| (1..=FEW).contains(&group.len);
        let shared_out = |group: &Group| {
            few(group) && (group.first..group.first + group.len).map(hits).sum::<f64>() == self.count as f64
        };
        let mut sets: Vec<(usize, &[u64])> = Vec::new();
        for (group, _) in groups.iter().filter(|(group, _)| few(group)) {
            let seen = group.len - usize::from(shared_out(group));
            sets.extend((group.first..).zip(group.sets.chunks_exact(words.max(1))).take(seen));
        }
        let empty = vec![0; words];
        let padded = sets.len().next_multiple_of(TILE);
        sets.resize(padded, (usize::MAX, &empty));
        for (at, a) in sets.chunks_exact(TILE).enumerate() {
            for b in sets.chunks_exact(TILE).take(at + 1) {
                let common =
                    common_bits::<TILE>(simd, std::array::from_fn(|i| a[i].1), std::array::from_fn(|i| b[i].1));
                for ((i, _), common) in a.iter().zip(&common) {
                    for ((j, _), common) in b.iter().zip(common).filter(|((j, _), _)| (*i).max(*j) < usize::MAX) {
                        set(gram, *i, *j, *common as f64);
                    }
                }
            }
        }
        for (at, (a, _)) in groups.iter().enumerate().filter(|(_, (group, _))| shared_out(group)) {
            let last = a.first + a.len - 1;
            for (other, (b, _)) in groups.iter().enumerate().filter(|(other, (group, _))| *other != at && few(group)) {
                // Where both leave out their last sets, these two meet when the later group's turn comes.
                let seen = b.len - usize::from(other > at && shared_out(b));
                for j in b.first..b.first + seen {
                    let rest = hits(j) - (a.first..last).map(|i| gram[(i, j)]).sum::<f64>();
                    set(gram, last, j, rest);
                }
            }
            gram[(last, last)] = hits(last);
        }
        // The rest point by point.
        let mut counts = Vec::new();
        for (at, (a, places)) in groups.iter().enumerate() {
            if a.len > FEW {
                (a.first..a.first + a.len).for_each(|i| set(gram, i, i, hits(i)));
            }
            for (b, others) in groups[..at].iter().filter(|(b, _)| a.len > FEW || b.len > FEW) {
                let width = b.len + 1;
                counts.clear();
                counts.resize((a.len + 1) * width, 0u32);
                let within = |place: u16, group: &Group| usize::from(place).wrapping_sub(group.first).min(group.len);
                for (place, other) in places.iter().zip(*others) {
                    counts[within(*place, a) * width + within(*other, b)] += 1;
                }
                for (i, counts) in counts.chunks_exact(width).take(a.len).enumerate() {
                    let counts = counts.iter().take(b.len).enumerate();
                    counts.for_each(|(j, count)| set(gram, a.first + i, b.first + j, f64::from(*count)));
                }
            }
        }
    }
}

/// Writes a count into both triangles.
fn set(gram: &mut Mat<f64>, i: usize, j: usize, count: f64) {
    gram[(i, j)] = count;
    gram[(j, i)] = count;
}

/// Writes a block into both triangles.
fn copy(gram: &mut Mat<f64>, block: &Mat<f64>, first: usize, other: usize) {
    for j in 0..block.ncols() {
        for i in 0..block.nrows() {
            gram[(first + i, other + j)] = block[(i, j)];
            gram[(other + j, first + i)] = block[(i, j)];
        }
    }
}

/// The features of every point, on all processors.
fn dense(panels: &[Panel], count: usize, map: &dyn FeatureMap, grid: f64) -> Mat<f64> {
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    let share = panels.len().div_ceil(threads).max(1);
    let parts: Vec<Vec<f64>> = std::thread::scope(|scope| {
        let running: Vec<_> = panels
            .chunks(share)
            .map(|panels| {
                scope.spawn(move || {
                    let mut features = vec![0i64; map.len()];
                    let mut values = Vec::with_capacity(panels.iter().map(Panel::len).sum::<usize>() * map.len());
                    for panel in panels {
                        for row in 0..panel.len() {
                            features.fill(0);
                            map.record(panel.record(row), &mut features);
                            values.extend(features.iter().map(|x| *x as f64 / grid));
                        }
                    }
                    values
                })
            })
            .collect();
        running.into_iter().map(|thread| thread.join().expect("features are total")).collect()
    });
    let mut values = Mat::zeros(count, map.len());
    let mut at = 0;
    for part in parts {
        for row in part.chunks_exact(map.len()) {
            for (feature, value) in row.iter().enumerate() {
                values[(at, feature)] = *value;
            }
            at += 1;
        }
    }
    values
}

#[inline(always)]
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    let (chunks_a, chunks_b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f64 = chunks_a.remainder().iter().zip(chunks_b.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in chunks_a.zip(chunks_b) {
        for l in 0..LANES {
            sums[l] += a[l] * b[l];
        }
    }
    rest + sums.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Design;
    use crate::prior::Independent;

    /// Sets of bits, counters of pairs and dense products against the sum over points of what `record` gives.
    #[test]
    fn gram_is_the_mean_of_products() {
        let columns = "[[column]]\nname='x'\ntype='number'\nmin=0\nmax=1\n[[column]]\nname='y'\ntype='boolean'\n";
        let schema = Schema::from_toml(columns).unwrap();
        let maps: Vec<Box<dyn FeatureMap>> =
            ["race:r=9,w=16,sigma=0.3", "hist:bins=50", "rff:m=6", "race:r=3,w=90,sigma=0.01"]
                .iter()
                .flat_map(|design| Design::parse(design).unwrap().maps(&schema, Simd::detect()).unwrap())
                .collect();
        let panels = Independent::uniform(&schema, |_| None).sample(&schema, 1000, 3);
        let listed: Vec<(usize, &dyn FeatureMap, f64)> =
            maps.iter().enumerate().map(|(block, map)| (block, map.as_ref(), 1.0)).collect();
        let points = Points::new(panels, &listed, |_, feature| feature != 7);
        let mut sums = Mat::<f64>::zeros(points.kept().len(), points.kept().len());
        let mut means = vec![0.0; points.kept().len()];
        for panel in points.panels() {
            for row in 0..panel.len() {
                let features: Vec<Vec<i64>> = maps
                    .iter()
                    .map(|map| {
                        let mut features = vec![0; map.len()];
                        map.record(panel.record(row), &mut features);
                        features
                    })
                    .collect();
                let kept: Vec<f64> = points.kept().iter().map(|(block, at)| features[*block][*at] as f64).collect();
                super::super::rank_one(&mut sums, &kept, 1e-3);
                means.iter_mut().zip(&kept).for_each(|(mean, x)| *mean += 1e-3 * x);
            }
        }
        assert!(points.kept().iter().filter(|(block, _)| *block == 3).count() > 2 * FEW);
        for simd in Simd::available() {
            let gram = points.gram(simd);
            for j in 0..means.len() {
                assert!((points.mean()[j] - means[j]).abs() <= 1e-9 * means[j].abs().max(1.0));
                for i in 0..means.len() {
                    let (found, expected) = (gram[(i, j)], sums[(i, j)]);
                    assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{i} {j} {found} {expected}");
                }
            }
        }
    }
}
