//! Groups of rows: k-means and Gaussian mixtures.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par, Side};
use serde::Serialize;

use super::newton::{CHUNK, multiply};
use super::points::{Points, nothing};
use crate::Error;
use crate::estimate::WeightedSample;
use crate::stream::PublicStream;

/// How groups are looked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClusterOptions {
    /// How many groups.
    pub k: usize,
    /// How many times k-means starts anew; the best result is kept.
    pub starts: usize,
    /// Whether columns count in units of their standard deviation, and not in their own.
    pub standardise: bool,
    /// Of the random starts.
    pub seed: u64,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self { k: 3, starts: 5, standardise: true, seed: 0 }
    }
}

/// Groups of rows around centres.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Clusters {
    /// The columns.
    pub names: Vec<String>,
    /// The unit in which distances count, one for each column.
    pub scales: Vec<f64>,
    /// The groups, the largest first.
    pub clusters: Vec<Cluster>,
    /// The share of the variance, in those units, that lies between the groups.
    pub explained: f64,
    /// About how many rows of the table have all of the columns.
    pub rows: f64,
    /// What the reader should know.
    pub notes: Vec<String>,
}

/// A group of rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cluster {
    /// The share of all rows.
    pub share: f64,
    /// The mean, in the columns' own units.
    pub centre: Vec<f64>,
}

/// A mixture of normal laws.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mixture {
    /// The columns.
    pub names: Vec<String>,
    /// The normal laws, that of the largest share first.
    pub components: Vec<Component>,
    /// The mean logarithm of the density at a row.
    pub log_likelihood: f64,
    /// About how many rows of the table have all of the columns.
    pub rows: f64,
    /// What the reader should know.
    pub notes: Vec<String>,
}

/// A normal law of a mixture, in the columns' own units.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Component {
    /// The share of all rows.
    pub share: f64,
    /// The mean.
    pub mean: Vec<f64>,
    /// The covariance, row by row.
    pub covariance: Vec<Vec<f64>>,
}

/// Finds `k` centres that minimise the weighted mean squared distance of the points to the nearest one.
///
/// Lloyd's iterations from k-means++ seeds, drawn by weight, with the sample's non-negative weights.
pub fn k_means(
    sample: &dyn WeightedSample,
    columns: Option<&[String]>,
    options: &ClusterOptions,
) -> Result<Clusters, Error> {
    let cloud = Cloud::new(sample, columns, options.standardise, options.k)?;
    let partition = cloud.partition(options);
    let mut clusters: Vec<Cluster> = (0..options.k)
        .map(|at| Cluster { share: partition.shares[at], centre: cloud.raw(&partition.centres[at]) })
        .collect();
    clusters.sort_by(|a, b| b.share.total_cmp(&a.share));
    let explained = 1.0 - partition.spread / cloud.spread();
    Ok(Clusters {
        names: cloud.names,
        scales: cloud.scales,
        clusters,
        explained,
        rows: cloud.rows,
        notes: vec![NO_ERRORS.into()],
    })
}

/// Finds the mixture of `k` normal laws under which the weighted points are most likely, by expectation-maximisation
/// from the groups of [`k_means`]. Every law keeps at least a millionth of each column's variance.
pub fn mixture(
    sample: &dyn WeightedSample,
    columns: Option<&[String]>,
    options: &ClusterOptions,
) -> Result<Mixture, Error> {
    let cloud = Cloud::new(sample, columns, true, options.k)?;
    let partition = cloud.partition(options);
    let d = cloud.scales.len();
    let mut laws = cloud
        .round(options.k, |start, _, shares| {
            (0..shares.nrows()).for_each(|row| shares[(row, partition.nearest[start + row])] = 1.0);
            0.0
        })
        .1;
    let mut likelihood = f64::NEG_INFINITY;
    let mut converged = false;
    for _ in 0..MAX_ROUNDS {
        let (next, moved) = cloud.expect_and_maximise(&laws);
        converged = next - likelihood <= 1e-7 * (1.0 + next.abs());
        likelihood = next;
        if converged {
            break;
        }
        laws = moved;
    }
    laws.sort_by(|a, b| b.share.total_cmp(&a.share));
    let mut notes = vec![NO_ERRORS.to_owned()];
    if !converged {
        notes.push(format!("the likelihood still grew after {MAX_ROUNDS} rounds; fewer components may do"));
    }
    if laws.iter().any(|law| (0..d).any(|at| law.covariance[(at, at)] < 10.0 * FLOOR)) {
        notes.push("a component has shrunk to a point or line; fewer components may do".into());
    }
    let scales = &cloud.scales;
    let components = laws
        .iter()
        .map(|law| Component {
            share: law.share,
            mean: cloud.raw(&law.mean),
            covariance: (0..d)
                .map(|i| (0..d).map(|j| law.covariance[(i, j)] * scales[i] * scales[j]).collect())
                .collect(),
        })
        .collect();
    let log_likelihood = likelihood - scales.iter().map(|scale| scale.ln()).sum::<f64>();
    Ok(Mixture { names: cloud.names, components, log_likelihood, rows: cloud.rows, notes })
}

/// An error for groups as if they were given would leave out that the noise moves their borders.
const NO_ERRORS: &str = "groups have no errors, as noise also moves which rows belong together; \
    for errors, ask for counts and means of rows between bounds";

const MAX_ROUNDS: usize = 150;

/// The least variance of a law, as a share of the column's.
const FLOOR: f64 = 1e-6;

/// The points that count, on a common scale.
struct Cloud {
    names: Vec<String>,
    means: Vec<f64>,
    scales: Vec<f64>,
    /// A row per point.
    points: Mat<f64>,
    /// They add up to 1.
    weights: Vec<f64>,
    rows: f64,
}

struct Partition {
    centres: Vec<Vec<f64>>,
    shares: Vec<f64>,
    /// The group of each point.
    nearest: Vec<usize>,
    /// The mean squared distance to the nearest centre.
    spread: f64,
}

struct Law {
    share: f64,
    mean: Vec<f64>,
    covariance: Mat<f64>,
}

impl Cloud {
    fn new(
        sample: &dyn WeightedSample,
        columns: Option<&[String]>,
        standardise: bool,
        k: usize,
    ) -> Result<Self, Error> {
        let positive = sample.positive();
        let points = Points::new(&*positive.sample, columns)?;
        let (weights, share) = points.weights(positive.weights).ok_or_else(nothing)?;
        let (means, deviations) = points.scales(&weights);
        let deviations = deviations.ok_or_else(|| points.still(&weights))?;
        let scales = if standardise { deviations } else { vec![1.0; means.len()] };
        let kept: Vec<usize> = (0..weights.len()).filter(|row| weights[*row] > 0.0).collect();
        if !(1..=kept.len().min(1000)).contains(&k) {
            return Err(Error::Question(format!(
                "{k} groups are not possible; give a number from 1 to {}",
                kept.len().min(1000)
            )));
        }
        Ok(Self {
            points: Mat::from_fn(kept.len(), means.len(), |row, at| {
                (points.values[(kept[row], at)] - means[at]) / scales[at]
            }),
            weights: kept.iter().map(|row| weights[*row]).collect(),
            names: points.names,
            means,
            scales,
            rows: sample.rows() * share,
        })
    }

    fn raw(&self, point: &[f64]) -> Vec<f64> {
        point.iter().zip(&self.means).zip(&self.scales).map(|((x, mean), scale)| mean + x * scale).collect()
    }

    fn spread(&self) -> f64 {
        let square =
            |at: usize| self.points.col_as_slice(at).iter().zip(&self.weights).map(|(x, w)| w * x * x).sum::<f64>();
        (0..self.scales.len()).map(square).sum()
    }

    /// The best of several starts.
    fn partition(&self, options: &ClusterOptions) -> Partition {
        let mut stream = PublicStream::new("k-means", options.seed);
        let mut start = || self.lloyd(self.seeds(options.k, &mut stream), 20);
        let first = start();
        let best = (1..options.starts).map(|_| start()).fold(first, |a, b| if b.spread < a.spread { b } else { a });
        self.lloyd(best.centres, MAX_ROUNDS)
    }

    /// k-means++: each centre is a point, drawn by its weight times its squared distance to the centres so far.
    fn seeds(&self, k: usize, stream: &mut PublicStream) -> Vec<Vec<f64>> {
        let mut chances = self.weights.clone();
        let mut nearest = vec![f64::INFINITY; self.weights.len()];
        let mut centres: Vec<Vec<f64>> = Vec::new();
        while centres.len() < k {
            let mut left = stream.uniform() * chances.iter().sum::<f64>();
            let drawn = chances.iter().position(|chance| {
                left -= chance;
                left <= 0.0 && *chance > 0.0
            });
            let row = drawn.unwrap_or_else(|| stream.below(chances.len() as u64) as usize);
            let centre: Vec<f64> = self.points.row(row).iter().copied().collect();
            for (row, distance) in self.distances(&centre).into_iter().enumerate() {
                nearest[row] = nearest[row].min(distance);
                chances[row] = self.weights[row] * nearest[row];
            }
            centres.push(centre);
        }
        centres
    }

    /// The squared distances of all points to one.
    fn distances(&self, centre: &[f64]) -> Vec<f64> {
        let mut distances = vec![0.0; self.weights.len()];
        for (at, centre) in centre.iter().enumerate() {
            for (distance, x) in distances.iter_mut().zip(self.points.col_as_slice(at)) {
                *distance += (x - centre) * (x - centre);
            }
        }
        distances
    }

    /// Moves each centre to the mean of the points nearest to it until that hardly helps.
    fn lloyd(&self, mut centres: Vec<Vec<f64>>, rounds: usize) -> Partition {
        let (n, d, k) = (self.weights.len(), self.scales.len(), centres.len());
        let mut last = f64::INFINITY;
        for round in 0.. {
            let table = Mat::from_fn(d, k, |at, group| centres[group][at]);
            let norms: Vec<f64> = centres.iter().map(|centre| centre.iter().map(|x| x * x).sum()).collect();
            let (mut nearest, mut shares, mut sums) = (Vec::with_capacity(n), vec![0.0; k], vec![vec![0.0; d]; k]);
            let mut spread = self.spread();
            for start in (0..n).step_by(CHUNK) {
                let chunk = self.points.as_ref().subrows(start, CHUNK.min(n - start));
                let inner = multiply(chunk, table.as_ref());
                for row in 0..chunk.nrows() {
                    // The squared distance without that of the point from 0, which is the same for all centres.
                    let (mut group, mut least) = (0, f64::INFINITY);
                    for (at, norm) in norms.iter().enumerate() {
                        let distance = norm - 2.0 * inner[(row, at)];
                        if distance < least {
                            (group, least) = (at, distance);
                        }
                    }
                    let weight = self.weights[start + row];
                    spread += weight * least;
                    shares[group] += weight;
                    (0..d).for_each(|at| sums[group][at] += weight * chunk[(row, at)]);
                    nearest.push(group);
                }
            }
            let spread = spread.max(0.0);
            if last - spread <= 1e-7 * spread || round == rounds {
                return Partition { centres, shares, nearest, spread };
            }
            last = spread;
            for (at, centre) in centres.iter_mut().enumerate() {
                // A centre that lost all points stays where it is.
                if shares[at] > 0.0 {
                    *centre = sums[at].iter().map(|sum| sum / shares[at]).collect();
                }
            }
        }
        unreachable!("the rounds are counted")
    }

    /// One pass over the points: `share` fills in by which shares points belong to the laws and adds up a likelihood, and
    /// the most likely laws for those shares come out.
    ///
    /// A point enters by its monomials $1, x_i, x_i x_j$ of degree at most 2. Log densities are linear in them, and so are
    /// the sums that laws are made of: both are products of matrices.
    fn round(&self, k: usize, mut share: impl FnMut(usize, &Mat<f64>, &mut Mat<f64>) -> f64) -> (f64, Vec<Law>) {
        let (n, d) = (self.weights.len(), self.scales.len());
        let mut sums = Mat::<f64>::zeros(1 + d + d * (d + 1) / 2, k);
        let mut likelihood = 0.0;
        for start in (0..n).step_by(CHUNK) {
            let rows = CHUNK.min(n - start);
            let mut shares = Mat::zeros(rows, k);
            let monomials = self.monomials(start, rows);
            likelihood += share(start, &monomials, &mut shares);
            for at in 0..k {
                for (share, weight) in shares.col_as_slice_mut(at).iter_mut().zip(&self.weights[start..]) {
                    *share *= weight;
                }
            }
            matmul(sums.as_mut(), Accum::Add, monomials.transpose(), shares.as_ref(), 1.0, Par::Seq);
        }
        let law = |at: usize| {
            let share = sums[(0, at)];
            if share < 1e-12 {
                return Law { share, mean: vec![0.0; d], covariance: Mat::identity(d, d) };
            }
            let mean: Vec<f64> = (0..d).map(|i| sums[(1 + i, at)] / share).collect();
            let covariance = Mat::from_fn(d, d, |i, j| {
                sums[(product(d, i, j), at)] / share - mean[i] * mean[j] + if i == j { FLOOR } else { 0.0 }
            });
            Law { share, mean, covariance }
        };
        (likelihood, (0..k).map(law).collect())
    }

    /// The mean logarithm of the density under some laws, and the laws that are more likely.
    fn expect_and_maximise(&self, laws: &[Law]) -> (f64, Vec<Law>) {
        let (d, k) = (self.scales.len(), laws.len());
        let mut forms = Mat::zeros(1 + d + d * (d + 1) / 2, k);
        laws.iter().enumerate().for_each(|(at, law)| law.log_density(forms.col_as_slice_mut(at)));
        self.round(k, |start, monomials, shares| {
            let rows = shares.nrows();
            matmul(shares.as_mut(), Accum::Replace, monomials.as_ref(), forms.as_ref(), 1.0, Par::Seq);
            let mut likelihood = 0.0;
            for row in 0..rows {
                let top = (0..k).map(|at| shares[(row, at)]).fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = (0..k).map(|at| (shares[(row, at)] - top).exp()).sum();
                (0..k).for_each(|at| shares[(row, at)] = (shares[(row, at)] - top).exp() / sum);
                likelihood += self.weights[start + row] * (top + sum.ln());
            }
            likelihood
        })
    }

    fn monomials(&self, start: usize, rows: usize) -> Mat<f64> {
        let d = self.scales.len();
        let column = |at: usize| &self.points.col_as_slice(at)[start..start + rows];
        let mut monomials = Mat::zeros(rows, 1 + d + d * (d + 1) / 2);
        monomials.col_as_slice_mut(0).fill(1.0);
        for i in 0..d {
            monomials.col_as_slice_mut(1 + i).copy_from_slice(column(i));
            for j in 0..=i {
                let products = monomials.col_as_slice_mut(product(d, i, j));
                for ((product, x), y) in products.iter_mut().zip(column(i)).zip(column(j)) {
                    *product = x * y;
                }
            }
        }
        monomials
    }
}

/// The place of the monomial $x_i x_j$.
fn product(d: usize, i: usize, j: usize) -> usize {
    let (low, high) = (i.min(j), i.max(j));
    1 + d + high * (high + 1) / 2 + low
}

impl Law {
    /// The logarithm of the share times the density, as coefficients of the monomials.
    fn log_density(&self, form: &mut [f64]) {
        let d = self.mean.len();
        let eigen = self.covariance.self_adjoint_eigen(Side::Lower).expect("a finite matrix has eigenvalues");
        let (vectors, values) = (eigen.U(), eigen.S().column_vector());
        let values: Vec<f64> = (0..d).map(|at| values[at].max(FLOOR)).collect();
        let precision =
            Mat::from_fn(d, d, |i, j| (0..d).map(|at| vectors[(i, at)] * vectors[(j, at)] / values[at]).sum::<f64>());
        let log_volume: f64 = values.iter().map(|value| (std::f64::consts::TAU * value).ln()).sum();
        form[0] = self.share.max(f64::MIN_POSITIVE).ln() - 0.5 * log_volume;
        for i in 0..d {
            let pull: f64 = (0..d).map(|j| precision[(i, j)] * self.mean[j]).sum();
            form[0] -= 0.5 * pull * self.mean[i];
            form[1 + i] = pull;
            for j in 0..=i {
                form[product(d, i, j)] = precision[(i, j)] * if i == j { -0.5 } else { -1.0 };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Sample;
    use super::*;

    const CENTRES: [[f64; 2]; 3] = [[0.0, 100.0], [10.0, 100.0], [0.0, 500.0]];

    /// Half of the points around the first centre, a third around the second, the rest around the third.
    fn blobs(n: usize) -> Sample {
        let mut stream = PublicStream::new("blobs", 0);
        let mut columns = vec![Vec::new(), Vec::new()];
        for row in 0..n {
            let centre = CENTRES[[0, 0, 0, 1, 1, 2][row % 6]];
            let (u, v) = (stream.normal(), stream.normal());
            columns[0].push(centre[0] + u);
            columns[1].push(centre[1] + 10.0 * (0.6 * u + 0.8 * v));
        }
        Sample::numbers(&["a", "b"], columns)
    }

    /// A mean of n/6 points is off by more than five standard errors with probability below 10⁻⁶.
    #[test]
    fn centres_of_blobs_are_found() {
        let n = 3000;
        let error = 5.0 / (n as f64 / 6.0).sqrt();
        let found = k_means(&blobs(n), None, &ClusterOptions::default()).unwrap();
        for (cluster, (centre, share)) in found.clusters.iter().zip(CENTRES.iter().zip([3.0, 2.0, 1.0])) {
            assert!((cluster.share - share / 6.0).abs() < 1e-9);
            assert!(
                (cluster.centre[0] - centre[0]).abs() < error && (cluster.centre[1] - centre[1]).abs() < 10.0 * error
            );
        }
        assert!(found.explained > 0.9);
        let found = mixture(&blobs(n), None, &ClusterOptions::default()).unwrap();
        assert_eq!(found.notes, [NO_ERRORS]);
        for (law, (centre, share)) in found.components.iter().zip(CENTRES.iter().zip([3.0, 2.0, 1.0])) {
            assert!((law.share - share / 6.0).abs() < 1e-3);
            assert!((law.mean[0] - centre[0]).abs() < error && (law.mean[1] - centre[1]).abs() < 10.0 * error);
            assert!((law.covariance[0][0] - 1.0).abs() < 2.0 * error);
            assert!((law.covariance[0][1] - 6.0).abs() < 20.0 * error);
            assert!((law.covariance[1][1] - 100.0).abs() < 200.0 * error);
        }
    }

    #[test]
    fn units_and_copies_change_nothing() {
        let sample = blobs(300);
        let options = ClusterOptions { starts: 3, ..ClusterOptions::default() };
        let first = mixture(&sample, None, &options).unwrap();
        let double = mixture(&sample.clone().weighted(vec![2.0; 300]), None, &options).unwrap();
        assert_eq!(first.components.len(), double.components.len());
        for (a, b) in first.components.iter().zip(&double.components) {
            assert!((a.mean[0] - b.mean[0]).abs() < 1e-6 && (a.mean[1] - b.mean[1]).abs() < 1e-6);
        }
        assert!((first.log_likelihood - double.log_likelihood).abs() < 1e-9);
    }

    /// With one component, the mixture is the mean and covariance.
    #[test]
    fn one_component_is_the_normal_law_of_the_points() {
        let sample = Sample::numbers(&["a"], vec![vec![1.0, 2.0, 3.0, 6.0]]).weighted(vec![1.0, 1.0, 0.0, 2.0]);
        let found = mixture(&sample, None, &ClusterOptions { k: 1, ..ClusterOptions::default() }).unwrap();
        let law = &found.components[0];
        assert!((law.mean[0] - 3.75).abs() < 1e-12 && (law.covariance[0][0] - 5.1875).abs() < 1e-4);
        let expected = -0.5 * (std::f64::consts::TAU * 5.1875).ln() - 0.5;
        assert!((found.log_likelihood - expected).abs() < 1e-4);
    }

    #[test]
    fn mistakes_are_named() {
        let sample = blobs(30);
        let options = |k: usize| ClusterOptions { k, ..ClusterOptions::default() };
        let message = |columns: &[&str], k: usize| {
            let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
            k_means(&sample, Some(&columns), &options(k)).unwrap_err().to_string()
        };
        assert!(message(&["a"], 0).contains("0 groups"));
        assert!(message(&["a"], 31).contains("from 1 to 30"));
        assert!(message(&["c"], 2).contains("no column `c`"));
        assert!(k_means(&sample, None, &options(30)).is_ok());
        let still = Sample::numbers(&["a", "b"], vec![vec![1.0, 2.0], vec![3.0, 3.0]]);
        assert!(k_means(&still, None, &options(1)).unwrap_err().to_string().contains("`b` does not vary"));
    }
}
