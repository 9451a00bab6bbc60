//! Random points of the prior with their features: for maps whose moments have no closed form, for questions that do not
//! separate, and for losses.

use faer::Mat;
use faer::linalg::matmul::matmul;
use faer::{Accum, Par};

use crate::Schema;
use crate::expr::Checked;
use crate::feature::{FeatureMap, Simd};
use crate::panel::{Panel, Value};
use crate::simd::common_bits;

/// Points with their features. Features that no point has are left out: with any noise their coefficients are zero.
pub(crate) struct Points {
    panels: Vec<Panel>,
    count: usize,
    stored: Vec<Stored>,
    /// For each feature that is kept: its block and its place among the sums of the block.
    kept: Vec<(usize, usize)>,
    mean: Vec<f64>,
}

/// The features of one block.
enum Stored {
    /// A single 1 per group: `[group][point]`, the place among all kept features.
    OneHot { first: usize, len: usize, places: Vec<u32> },
    /// `[feature][point]`, in real units.
    Dense { first: usize, values: Mat<f64> },
}

impl Points {
    /// Evaluates the maps (each with its block and grid) at the points.
    pub fn new(
        panels: Vec<Panel>,
        maps: &[(usize, &dyn FeatureMap, f64)],
        keep: impl Fn(usize, usize) -> bool,
    ) -> Self {
        let count = panels.iter().map(Panel::len).sum();
        let mut points = Self { panels, count, stored: Vec::new(), kept: Vec::new(), mean: Vec::new() };
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
        let mut places = vec![0u32; groups * self.count];
        let mut hits = vec![0u32; map.len()];
        let mut at = 0;
        for panel in &self.panels {
            scratch.clear();
            map.places(panel, &mut scratch);
            for (group, chunk) in scratch.chunks_exact(panel.len()).enumerate() {
                places[group * self.count + at..][..chunk.len()].copy_from_slice(chunk);
                chunk.iter().for_each(|place| hits[*place as usize] += 1);
            }
            at += panel.len();
        }
        let mut renamed = vec![u32::MAX; map.len()];
        for (feature, hits) in hits.iter().enumerate().filter(|(feature, hits)| **hits > 0 && keep(block, *feature)) {
            renamed[feature] = self.kept.len() as u32;
            self.kept.push((block, feature));
            self.mean.push(f64::from(*hits) / self.count as f64);
        }
        places.iter_mut().for_each(|place| *place = renamed[*place as usize]);
        self.stored.push(Stored::OneHot { first, len: self.kept.len() - first, places });
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

    /// The places of the points along a numeric column; 0 for missing numbers and levels.
    pub fn column(&self, column: usize) -> Vec<f64> {
        let unit = |value| if let Value::Unit(unit) = value { unit } else { 0.0 };
        let of = |panel: &Panel| (0..panel.len()).map(|row| unit(panel.record(row).value(column))).collect::<Vec<_>>();
        self.panels.iter().flat_map(of).collect()
    }

    /// The values of a function at the points.
    pub fn values(
        &self,
        schema: &Schema,
        function: &Checked,
        mut value: impl FnMut(crate::expr::Scalar<'_>) -> f64,
    ) -> Vec<f64> {
        let mut values = Vec::with_capacity(self.count);
        for panel in &self.panels {
            values.extend((0..panel.len()).map(|row| value(function.of_record(schema, panel.record(row)))));
        }
        values
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
                    (Stored::OneHot { first: i, len, places }, Stored::Dense { first: j, values })
                    | (Stored::Dense { first: j, values }, Stored::OneHot { first: i, len, places }) => {
                        let mut block = Mat::zeros(*len, values.ncols());
                        for feature in 0..values.ncols() {
                            let column = values.col(feature).try_as_col_major().expect("columns").as_slice();
                            for chunk in places.chunks_exact(self.count.max(1)) {
                                for (place, value) in chunk.iter().zip(column).filter(|(place, _)| **place != u32::MAX)
                                {
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

    /// One-hot features as sets of points: how often two meet is the number of points that they share.
    fn count_pairs(&self, simd: Simd, gram: &mut Mat<f64>) {
        const TILE: usize = 16;
        let words = self.count.div_ceil(64);
        let mut sets: Vec<(usize, usize, Vec<u64>)> = Vec::new();
        for (block, stored) in self.stored.iter().enumerate() {
            let Stored::OneHot { first, len, places } = stored else { continue };
            let offset = sets.len();
            sets.extend((0..*len).map(|i| (first + i, usize::MAX, vec![0u64; words])));
            for (group, chunk) in places.chunks_exact(self.count.max(1)).enumerate() {
                for (point, place) in chunk.iter().enumerate().filter(|(_, place)| **place != u32::MAX) {
                    let set = &mut sets[offset + *place as usize - first];
                    set.1 = block << 32 | group;
                    set.2[point / 64] |= 1 << (point % 64);
                }
            }
        }
        for tile in (0..sets.len()).step_by(TILE) {
            for a in tile..sets.len() {
                for b in tile..(tile + TILE).min(a + 1) {
                    let ((i, group, x), (j, other, y)) = (&sets[a], &sets[b]);
                    // Two places of one group never meet.
                    if a == b || group != other {
                        let shared = common_bits(simd, x, y) as f64;
                        gram[(*i, *j)] = shared;
                        gram[(*j, *i)] = shared;
                    }
                }
            }
        }
    }
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
