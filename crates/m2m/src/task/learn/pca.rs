//! Principal components: the directions in which rows differ most.

use faer::{Mat, Side};
use serde::Serialize;

use super::newton::{gram, multiply};
use super::points::{Points, nothing};
use crate::Error;
use crate::estimate::{Estimate, Parts, WeightedSample};

/// The principal components of some columns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pca {
    /// The columns.
    pub names: Vec<String>,
    /// Their means.
    pub means: Vec<f64>,
    /// What they were divided by: their standard deviations, or 1.
    pub scales: Vec<f64>,
    /// The directions, the one of the largest variance first.
    pub components: Vec<Direction>,
    /// About how many rows of the table have all of the columns.
    pub rows: f64,
    /// What the reader should know.
    pub notes: Vec<String>,
}

/// A direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Direction {
    /// The variance of the rows along it.
    pub variance: Estimate,
    /// Its share of all variance.
    pub share: f64,
    /// The unit vector, a number for each column; the largest in size is positive.
    pub loadings: Vec<f64>,
}

/// The eigenvectors of the covariance of some columns, all numeric ones unless given, or of their correlation if
/// `standardise`.
///
/// Unbiased weights can leave a covariance with negative eigenvalues; they are set to 0, which a note says.
///
/// # Error
/// To first order, an eigenvalue $\lambda$ with eigenvector $v$ moves with the mean of $(v^\top x)^2 - \lambda$, where
/// $x$ is centred, and for correlations with that of $(v^\top z)^2 - \lambda \sum_j v_j^2 z_j^2$.
pub fn pca(sample: &dyn WeightedSample, columns: Option<&[String]>, standardise: bool) -> Result<Pca, Error> {
    let points = Points::new(sample, columns)?;
    let inputs = Points::inputs(sample.schema(), columns)?;
    let d = points.names.len();
    let mut notes = Vec::new();
    let all = sample.weights(&inputs);
    let unbiased = points.weights(&all).filter(|(weights, _)| points.scales(weights).1.is_some());
    let (weights, share) = match unbiased {
        Some(weights) => weights,
        None => {
            if all.iter().any(|weight| *weight < 0.0) {
                notes.push("the unbiased weights leave a column no variance, so negative weights were left out".into());
            }
            let positive: Vec<f64> = all.iter().map(|weight| weight.max(0.0)).collect();
            points.weights(&positive).ok_or_else(nothing)?
        }
    };
    let (means, deviations) = points.scales(&weights);
    let deviations = deviations.ok_or_else(|| points.still(&weights))?;
    let scales = if standardise { deviations } else { vec![1.0; d] };
    let scale = |points: &Points| {
        Mat::from_fn(points.values.nrows(), d, |row, at| {
            if points.complete[row] { (points.values[(row, at)] - means[at]) / scales[at] } else { 0.0 }
        })
    };
    let scaled = scale(&points);
    let eigen = gram(&scaled, &weights)
        .self_adjoint_eigen(Side::Lower)
        .map_err(|_| Error::Question("the values are too large for principal components; standardise them".into()))?;
    let vectors = Mat::from_fn(d, d, |row, at| {
        let column = eigen.U().col(d - 1 - at);
        let largest = (0..d).max_by(|a, b| column[*a].abs().total_cmp(&column[*b].abs())).unwrap_or(0);
        column[row] * column[largest].signum()
    });
    let values: Vec<f64> = (0..d).map(|at| eigen.S().column_vector()[d - 1 - at]).collect();
    if values[d - 1] < -1e-9 * values[0] {
        notes.push("noise left negative variances, which were set to 0".into());
    }
    let judges = Points::new(&*sample.judges(), columns)?;
    let scaled = scale(&judges);
    let mut moves = multiply(scaled.as_ref(), vectors.as_ref());
    let square = |matrix: &Mat<f64>| Mat::from_fn(matrix.nrows(), d, |row, at| matrix[(row, at)].powi(2));
    let own = standardise.then(|| multiply(square(&scaled).as_ref(), square(&vectors).as_ref()));
    for at in 0..d {
        for row in 0..moves.nrows() {
            let own = own.as_ref().map_or(f64::from(judges.complete[row]), |own| own[(row, at)]);
            moves[(row, at)] = (moves[(row, at)].powi(2) - values[at] * own) / share;
        }
    }
    let covariance = sample.covariance(&moves, &inputs);
    let total: f64 = values.iter().map(|value| value.max(0.0)).sum();
    let own = |column: usize| (0..d).map(|at| vectors[(column, at)].powi(2) * values[at].max(0.0)).sum::<f64>();
    if let Some(column) = (0..d).find(|column| d > 1 && !standardise && own(*column) > 0.99 * total) {
        let name = &points.names[column];
        notes.push(format!(
            "nearly all variance is that of `{name}`, whose numbers are the largest; standardise to weigh columns alike"
        ));
    }
    let components = (0..d)
        .map(|at| {
            let approximation = covariance[(at, at)].max(0.0).sqrt();
            let variance = Estimate::new(values[at], Parts { approximation, ..Parts::default() });
            Direction {
                variance: variance.within(0.0, f64::INFINITY),
                share: values[at].max(0.0) / total,
                loadings: (0..d).map(|row| vectors[(row, at)]).collect(),
            }
        })
        .collect();
    Ok(Pca { names: points.names, means, scales, components, rows: sample.rows() * share, notes })
}

#[cfg(test)]
mod tests {
    use super::super::tests::Sample;
    use super::*;
    use crate::stream::PublicStream;

    fn cloud(n: usize, seed: u64) -> Vec<Vec<f64>> {
        let mut stream = PublicStream::new("cloud", seed);
        let mut columns = vec![Vec::new(); 3];
        for _ in 0..n {
            let (u, v, w) = (stream.normal(), stream.normal(), stream.normal());
            columns[0].push(5.0 + 3.0 * u);
            columns[1].push(2.0 * u + v);
            columns[2].push(0.5 * w - v);
        }
        columns
    }

    #[test]
    fn a_column_that_drowns_the_others_is_named() {
        let mut columns = cloud(500, 0);
        let notes = |columns: &[Vec<f64>], standardise| {
            pca(&Sample::numbers(&["a", "b", "c"], columns.to_vec()), None, standardise).unwrap().notes
        };
        assert!(notes(&columns, false).is_empty());
        columns[1].iter_mut().for_each(|x| *x *= 1000.0);
        assert!(notes(&columns, false)[0].starts_with("nearly all variance is that of `b`"));
        assert!(notes(&columns, true).is_empty());
    }

    /// Components are orthonormal and turn the covariance, computed by hand, into a diagonal.
    #[test]
    fn components_diagonalise_the_covariance() {
        let n = 500;
        let columns = cloud(n, 0);
        for standardise in [false, true] {
            let found = pca(&Sample::numbers(&["a", "b", "c"], columns.clone()), None, standardise).unwrap();
            let covariance = |i: usize, j: usize| {
                let product =
                    |row: usize| (columns[i][row] - found.means[i]) * (columns[j][row] - found.means[j]) / n as f64;
                (0..n).map(product).sum::<f64>() / (found.scales[i] * found.scales[j])
            };
            let sum: f64 = found.components.iter().map(|component| component.share).sum();
            assert!((sum - 1.0).abs() < 1e-12);
            for (at, left) in found.components.iter().enumerate() {
                for (other, right) in found.components.iter().enumerate() {
                    let (mut inner, mut form) = (0.0, 0.0);
                    for i in 0..3 {
                        inner += left.loadings[i] * right.loadings[i];
                        for j in 0..3 {
                            form += left.loadings[i] * covariance(i, j) * right.loadings[j];
                        }
                    }
                    let expected = if at == other { left.variance.value } else { 0.0 };
                    assert!((inner - f64::from(at == other)).abs() < 1e-9 && (form - expected).abs() < 1e-9);
                }
            }
        }
    }

    /// 200 draws give a standard deviation to about 5%; the seeds are fixed.
    #[test]
    fn errors_are_the_spread_over_samples() {
        for standardise in [false, true] {
            let draws: Vec<Pca> = (0..200)
                .map(|seed| pca(&Sample::numbers(&["a", "b", "c"], cloud(300, seed)), None, standardise).unwrap())
                .collect();
            for at in 0..3 {
                let values: Vec<f64> = draws.iter().map(|draw| draw.components[at].variance.value).collect();
                let mean = values.iter().sum::<f64>() / 200.0;
                let spread = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 199.0).sqrt();
                let said = draws.iter().map(|draw| draw.components[at].variance.std_error).sum::<f64>() / 200.0;
                assert!((0.8..1.25).contains(&(said / spread)), "{standardise} {at}: {said} {spread}");
            }
        }
    }

    #[test]
    fn negative_variances_are_repaired_and_that_is_said() {
        let mut sample = Sample::numbers(&["a", "b"], vec![vec![-1.0, 1.0, 2.0, -2.0], vec![-1.0, 1.0, -2.0, 2.0]]);
        sample.weights = vec![2.5, 2.5, -0.5, -0.5];
        let found = pca(&sample, None, false).unwrap();
        assert_eq!(found.components[1].variance.value, 0.0);
        assert!(found.notes[0].contains("set to 0"));
        assert!((found.components[0].share - 1.0).abs() < 1e-12);
    }
}
