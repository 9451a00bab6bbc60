//! What is asked of every sketch, and how its answers are scored.

use m2m::expr::{Checked, Expr, Scalar, col};

use super::data::{Data, name};
use super::metrics;
use super::random::Random;

/// Points at which a CDF is compared.
const CDF_POINTS: usize = 10;
/// Random three-way conjunctions.
const CONJUNCTIONS: usize = 200;

/// The functions of a row whose means are asked for, in an order that [`Questions::score`] knows.
pub struct Questions {
    pub functions: Vec<Checked>,
    truth: Vec<f64>,
    columns: usize,
}

/// The panels of the figure.
pub const MEASURES: [&str; 5] =
    ["E[x], relative", "E[x²], relative", "CDF, EMD", "covariance, Frobenius", "3-way counts"];

/// The error of each of [`MEASURES`].
pub type Scores = [f64; 5];

impl Questions {
    /// The questions about a table: conjunctions cut its columns at quantiles between 10% and 90%.
    pub fn new(data: &Data, repetition: u64) -> Self {
        let d = data.columns.len();
        let x = |at: usize| col(name(at));
        let mut functions: Vec<Expr> = (0..d).map(x).collect();
        functions.extend((0..d).map(|at| x(at) * x(at)));
        for at in 0..d {
            functions.extend((1..=CDF_POINTS).map(|i| x(at).le(i as f64 / CDF_POINTS as f64)));
        }
        for i in 0..d {
            functions.extend((0..i).map(|j| x(i) * x(j)));
        }
        let sorted: Vec<Vec<f64>> = data.columns.iter().map(|column| sorted(column)).collect();
        let mut random = Random::new("conjunctions", repetition);
        for _ in 0..CONJUNCTIONS {
            let mut places: Vec<usize> = (0..d).collect();
            random.shuffle(&mut places);
            let terms = places.into_iter().take(3).map(|at| {
                let rank = (0.1 + 0.8 * random.uniform()) * (data.len() - 1) as f64;
                let cut = sorted[at][rank as usize];
                if random.uniform() < 0.5 { x(at).le(cut) } else { x(at).ge(cut) }
            });
            functions.extend(terms.reduce(Expr::and));
        }
        let functions: Vec<Checked> =
            functions.iter().map(|f| f.check(&data.schema).expect("questions fit their table")).collect();
        let truth = functions
            .iter()
            .map(|function| metrics::mean((0..data.len()).map(|row| value(function, &data.columns, row))))
            .collect();
        Self { functions, truth, columns: d }
    }

    /// The true means of the columns.
    pub fn means(&self) -> &[f64] {
        &self.truth[..self.columns]
    }

    /// The errors of the estimated means of all functions.
    pub fn score(&self, estimates: &[f64]) -> Scores {
        let d = self.columns;
        let parts = |all: &[f64]| -> [Vec<f64>; 5] {
            let (means, rest) = all.split_at(d);
            let (squares, rest) = rest.split_at(d);
            let (cdf, rest) = rest.split_at(d * CDF_POINTS);
            let (products, conjunctions) = rest.split_at(d * (d - 1) / 2);
            let mut covariance = vec![0.0; d * d];
            let mut product = products.iter();
            for i in 0..d {
                for j in 0..i {
                    let both = product.next().expect("a product per pair") - means[i] * means[j];
                    (covariance[i * d + j], covariance[j * d + i]) = (both, both);
                }
                covariance[i * d + i] = squares[i] - means[i] * means[i];
            }
            [means.into(), squares.into(), cdf.into(), covariance, conjunctions.into()]
        };
        let (truth, estimate) = (parts(&self.truth), parts(estimates));
        [
            metrics::relative_error(&truth[0], &estimate[0]),
            metrics::relative_error(&truth[1], &estimate[1]),
            metrics::earth_movers(&truth[2], &estimate[2]),
            metrics::frobenius_error(&truth[3], &estimate[3]),
            metrics::absolute_error(&truth[4], &estimate[4]),
        ]
    }
}

/// The value of a function in a row of a table whose schema reads 0 to 1.
pub fn value(function: &Checked, columns: &[Vec<f64>], row: usize) -> f64 {
    function.value(&|column| Scalar::Number(columns[column][row])).weight()
}

fn sorted(column: &[f64]) -> Vec<f64> {
    let mut sorted = column.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_truth_has_no_error() {
        let data = Data::random10(0).rows(&(0..200).collect::<Vec<_>>());
        let questions = Questions::new(&data, 0);
        assert_eq!(questions.functions.len(), 10 + 10 + 100 + 45 + 200);
        assert_eq!(questions.score(&questions.truth), [0.0; 5]);
        let mut off = questions.truth.clone();
        off[..10].iter_mut().for_each(|mean| *mean *= 1.01);
        let scores = questions.score(&off);
        assert!((scores[0] - 0.01).abs() < 1e-12 && scores[3] > 0.0 && scores[4] == 0.0);
    }
}
