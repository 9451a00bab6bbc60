//! What is asked of every sketch, and how its answers are scored.

use m2m::expr::{Checked, Expr, col};

use super::data::{Data, name};
use super::metrics;
use super::random::Random;

/// Points at which a CDF is compared.
const CDF_POINTS: usize = 10;
/// Random three-way conjunctions.
const CONJUNCTIONS: usize = 200;

/// The functions of a row whose means are asked for, in an order that [`Questions::score`] knows.
pub struct Questions {
    /// As the library is asked.
    pub functions: Vec<Checked>,
    /// The same, to be evaluated over many points.
    pub products: Vec<Product>,
    truth: Vec<f64>,
    columns: usize,
}

/// The panels of the figure.
pub const MEASURES: [&str; 5] =
    ["E[x], relative", "E[x²], relative", "CDF, EMD", "covariance, Frobenius", "3-way counts"];

/// The error of each of [`MEASURES`].
pub type Scores = [f64; 5];

/// A function of a row: a product of factors.
pub struct Product(Vec<Factor>);

#[derive(Clone, Copy)]
enum Factor {
    Column(usize),
    AtMost(usize, f64),
    AtLeast(usize, f64),
}

impl Product {
    /// The mean of the function over points, given column by column, each times its weight if there are weights.
    pub fn mean(&self, columns: &[Vec<f64>], weights: Option<&[f64]>) -> f64 {
        let mut values = weights.map_or_else(|| vec![1.0; columns[0].len()], <[f64]>::to_vec);
        for factor in &self.0 {
            match *factor {
                Factor::Column(at) => values.iter_mut().zip(&columns[at]).for_each(|(y, x)| *y *= x),
                Factor::AtMost(at, cut) => {
                    values.iter_mut().zip(&columns[at]).for_each(|(y, x)| *y *= f64::from(u8::from(*x <= cut)));
                }
                Factor::AtLeast(at, cut) => {
                    values.iter_mut().zip(&columns[at]).for_each(|(y, x)| *y *= f64::from(u8::from(*x >= cut)));
                }
            }
        }
        metrics::mean(values)
    }

    fn expr(&self) -> Expr {
        let factor = |factor: &Factor| match *factor {
            Factor::Column(at) => col(name(at)),
            Factor::AtMost(at, cut) => col(name(at)).le(cut),
            Factor::AtLeast(at, cut) => col(name(at)).ge(cut),
        };
        let both = if let Some(Factor::Column(_)) = self.0.first() { |a, b| a * b } else { Expr::and };
        self.0.iter().map(factor).reduce(both).expect("a product has factors")
    }
}

impl Questions {
    /// The questions about a table: conjunctions cut its columns at quantiles between 10% and 90%.
    pub fn new(data: &Data, repetition: u64) -> Self {
        let d = data.columns.len();
        let x = Factor::Column;
        let mut products: Vec<Product> = (0..d).map(|at| Product(vec![x(at)])).collect();
        products.extend((0..d).map(|at| Product(vec![x(at), x(at)])));
        for at in 0..d {
            let cut = |i: usize| i as f64 / CDF_POINTS as f64;
            products.extend((1..=CDF_POINTS).map(|i| Product(vec![Factor::AtMost(at, cut(i))])));
        }
        for i in 0..d {
            products.extend((0..i).map(|j| Product(vec![x(i), x(j)])));
        }
        let sorted: Vec<Vec<f64>> = data.columns.iter().map(|column| sorted(column)).collect();
        let mut random = Random::new("conjunctions", repetition);
        for _ in 0..CONJUNCTIONS {
            let mut places: Vec<usize> = (0..d).collect();
            random.shuffle(&mut places);
            let terms = places.into_iter().take(3).map(|at| {
                let rank = (0.1 + 0.8 * random.uniform()) * (data.len() - 1) as f64;
                let cut = sorted[at][rank as usize];
                if random.uniform() < 0.5 { Factor::AtMost(at, cut) } else { Factor::AtLeast(at, cut) }
            });
            products.push(Product(terms.collect()));
        }
        let check = |product: &Product| product.expr().check(&data.schema).expect("questions fit their table");
        let functions = products.iter().map(check).collect();
        let truth = products.iter().map(|product| product.mean(&data.columns, None)).collect();
        Self { functions, products, truth, columns: d }
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

fn sorted(column: &[f64]) -> Vec<f64> {
    let mut sorted = column.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use m2m::expr::Scalar;

    use super::*;

    #[test]
    fn products_are_the_functions_that_the_library_is_asked() {
        let data = Data::random10(1).rows(&(0..50).collect::<Vec<_>>());
        let questions = Questions::new(&data, 3);
        let weights: Vec<f64> = (0..50).map(|i| f64::from(i) * 0.1 - 1.0).collect();
        for (function, product) in questions.functions.iter().zip(&questions.products) {
            let value = |row: usize| function.value(&|column| Scalar::Number(data.columns[column][row])).weight();
            let mean = metrics::mean((0..50).map(|row| weights[row] * value(row)));
            assert!((product.mean(&data.columns, Some(&weights)) - mean).abs() < 1e-12);
        }
    }

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
