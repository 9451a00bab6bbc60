//! Models against slow and plain computations of the same thing.

use std::borrow::Cow;

use faer::Mat;

use super::*;
use crate::Schema;
use crate::estimate::{self, Positive, Sample as _, WeightedSample};
use crate::expr::{Checked, Scalar};
use crate::schema::Kind;
use crate::source::Table;
use crate::stream::PublicStream;

/// Rows with weights. A cell is a number, the code of a level, or NaN.
#[derive(Clone)]
pub(super) struct Sample {
    schema: Schema,
    columns: Vec<Vec<f64>>,
    pub weights: Vec<f64>,
    pub positive: Vec<f64>,
}

impl Sample {
    pub fn new(schema: &str, columns: Vec<Vec<f64>>) -> Self {
        let schema = Schema::from_toml(schema).unwrap();
        assert_eq!(schema.columns().len(), columns.len());
        let weights = vec![1.0; columns[0].len()];
        Self { schema, columns, positive: weights.clone(), weights }
    }

    /// Numeric columns of these names.
    pub fn numbers(names: &[&str], columns: Vec<Vec<f64>>) -> Self {
        let column = |name: &&str| format!("[[column]]\nname='{name}'\ntype='number'\nmin=-1e9\nmax=1e9\n");
        Self::new(&names.iter().map(column).collect::<String>(), columns)
    }

    pub fn weighted(self, weights: Vec<f64>) -> Self {
        Self { positive: weights.clone(), weights, ..self }
    }

    fn fit(&self, formula: &str, learner: Learner, penalty: Option<f64>) -> Fitted {
        let formula = Formula::parse(formula, &self.schema).unwrap();
        fit(self, &formula, learner, &Options { penalty, ..Options::default() }).unwrap()
    }

    fn error(&self, formula: &str, learner: Learner) -> String {
        let formula = Formula::parse(formula, &self.schema).unwrap();
        fit(self, &formula, learner, &Options::default()).unwrap_err().to_string()
    }

    fn encode(&self, formula: &str) -> Encoded {
        Formula::parse(formula, &self.schema).unwrap().encode(self)
    }

    fn pick(&self, rows: &[usize]) -> Self {
        let columns = self.columns.iter().map(|column| rows.iter().map(|row| column[*row]).collect()).collect();
        let weights = |all: &[f64]| rows.iter().map(|row| all[*row]).collect();
        Self {
            schema: self.schema.clone(),
            columns,
            weights: weights(&self.weights),
            positive: weights(&self.positive),
        }
    }
}

impl estimate::Sample for Sample {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn len(&self) -> usize {
        self.weights.len()
    }

    fn values(&self, function: &Checked) -> Vec<f64> {
        let cell = |row: usize, column: usize| match (&self.schema.columns()[column].kind, self.columns[column][row]) {
            (_, x) if x.is_nan() => Scalar::Null,
            (Kind::Boolean, x) => Scalar::Boolean(x == 1.0),
            (kind @ Kind::Category(_), x) => Scalar::Text(kind.label(x as u32)),
            (_, x) => Scalar::Number(x),
        };
        let number = |row: usize| match function.value(&|column| cell(row, column)) {
            Scalar::Number(x) => x,
            Scalar::Boolean(truth) => f64::from(truth),
            _ => f64::NAN,
        };
        (0..self.len()).map(number).collect()
    }
}

impl WeightedSample for Sample {
    fn rows(&self) -> f64 {
        self.weights.iter().sum()
    }

    fn weights(&self, _: &[usize]) -> Cow<'_, [f64]> {
        Cow::Borrowed(&self.weights)
    }

    fn positive(&self) -> Positive<'_> {
        Positive { sample: Box::new(self), weights: &self.positive }
    }

    fn judges(&self) -> Box<dyn estimate::Sample + '_> {
        Box::new(self)
    }

    fn covariance(&self, functions: &Mat<f64>, _: &[usize]) -> Mat<f64> {
        let total: f64 = self.positive.iter().sum();
        let p = functions.ncols();
        let mean =
            |at: usize| (0..self.len()).map(|row| self.positive[row] * functions[(row, at)]).sum::<f64>() / total;
        let means: Vec<f64> = (0..p).map(mean).collect();
        Mat::from_fn(p, p, |a, b| {
            let product = |row: usize| (functions[(row, a)] - means[a]) * (functions[(row, b)] - means[b]);
            (0..self.len()).map(|row| self.positive[row] * product(row)).sum::<f64>() / (total * (total - 1.0))
        })
    }
}

fn values(fitted: &Fitted) -> Vec<f64> {
    fitted.coefficients.iter().map(|coefficient| coefficient.value).collect()
}

fn assert_close(left: &[f64], right: &[f64], tolerance: f64) {
    assert_eq!(left.len(), right.len());
    for (a, b) in left.iter().zip(right) {
        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "{left:?}\n{right:?}");
    }
}

/// Two numbers, a truth, a category, and responses of every kind that depend on them.
fn people(n: usize, seed: u64) -> Sample {
    let mut stream = PublicStream::new("people", seed);
    let mut columns = vec![Vec::new(); 8];
    for _ in 0..n {
        let (a, b) = (2.0 + stream.normal(), 0.5 * stream.normal());
        let (c, d) = (stream.below(2) as f64, stream.below(3) as f64);
        let eta = 0.4 * a - 0.8 * b + 0.5 * c - 0.3 * f64::from(d == 1.0) - 0.5;
        let y = eta + (0.3 + 0.3 * c) * stream.normal();
        let yes = f64::from(stream.uniform() < 1.0 / (1.0 + (-eta).exp()));
        let (mut count, mut left) = (0.0, stream.uniform());
        while left > (-eta.exp()).exp() {
            left *= stream.uniform();
            count += 1.0;
        }
        let gumbel = |stream: &mut PublicStream, score: f64| score - (-stream.uniform().ln()).ln();
        let scores = [gumbel(&mut stream, 0.0), gumbel(&mut stream, eta), gumbel(&mut stream, b - 0.2)];
        let class = (0..3).max_by(|i, j| scores[*i].total_cmp(&scores[*j])).unwrap() as f64;
        for (column, x) in columns.iter_mut().zip([a, b, c, d, y, yes, count, class]) {
            column.push(x);
        }
    }
    Sample::new(
        "[[column]]\nname='a'\ntype='number'\nmin=-99\nmax=99\n[[column]]\nname='b'\ntype='number'\nmin=-99\nmax=99\n\
         [[column]]\nname='c'\ntype='boolean'\n[[column]]\nname='d'\ntype='category'\nlevels=['p','q','r']\n\
         [[column]]\nname='y'\ntype='number'\nmin=-99\nmax=99\n[[column]]\nname='yes'\ntype='integer'\nmin=0\nmax=1\n\
         [[column]]\nname='count'\ntype='integer'\nmin=0\nmax=99\n\
         [[column]]\nname='class'\ntype='category'\nlevels=['u','v','w']",
        columns,
    )
}

/// The derivative of a loss in its scores, written anew.
fn slope(learner: Learner, y: f64, scores: &[f64]) -> Vec<f64> {
    match learner {
        Learner::Linear | Learner::Ridge => vec![scores[0] - y],
        Learner::Logistic => vec![1.0 / (1.0 + (-scores[0]).exp()) - y],
        Learner::Poisson => vec![scores[0].exp() - y],
        Learner::Svm => {
            let t = if y == 1.0 { 1.0 } else { -1.0 };
            vec![if t * scores[0] < 1.0 { scores[0] - t } else { 0.0 }]
        }
        Learner::Multinomial => {
            let sum = 1.0 + scores.iter().map(|score| score.exp()).sum::<f64>();
            let own = |class: usize| f64::from(y == class as f64);
            scores.iter().enumerate().map(|(at, score)| score.exp() / sum - own(at + 1)).collect()
        }
    }
}

/// Plain gradient descent on columns of mean 0 and deviation 1, mapped back.
fn descend(encoded: &Encoded, weights: &[f64], learner: Learner, scores: usize, penalty: f64) -> Vec<f64> {
    let (n, p) = (encoded.design.nrows(), encoded.design.ncols());
    let total: f64 = weights.iter().sum();
    let mean = |at: usize| (0..n).map(|row| weights[row] * encoded.design[(row, at)]).sum::<f64>() / total;
    let means: Vec<f64> = (0..p).map(|at| if at == 0 { 0.0 } else { mean(at) }).collect();
    let variance = |at: usize| {
        (0..n).map(|row| weights[row] * (encoded.design[(row, at)] - means[at]).powi(2)).sum::<f64>() / total
    };
    let deviations: Vec<f64> = (0..p).map(|at| if at == 0 { 1.0 } else { variance(at).sqrt() }).collect();
    let z: Vec<Vec<f64>> =
        (0..n).map(|row| (0..p).map(|at| (encoded.design[(row, at)] - means[at]) / deviations[at]).collect()).collect();
    let mut theta = vec![vec![0.0; p]; scores];
    for _ in 0..3000 {
        let mut gradient = vec![vec![0.0; p]; scores];
        for row in 0..n {
            let eta: Vec<f64> = theta.iter().map(|theta| theta.iter().zip(&z[row]).map(|(t, z)| t * z).sum()).collect();
            for (gradient, slope) in gradient.iter_mut().zip(slope(learner, encoded.response[row], &eta)) {
                gradient.iter_mut().zip(&z[row]).for_each(|(g, z)| *g += weights[row] / total * slope * z);
            }
        }
        for (theta, gradient) in theta.iter_mut().zip(gradient) {
            for at in 0..p {
                theta[at] -= 0.25 * (gradient[at] + if at == 0 { 0.0 } else { penalty * theta[at] });
            }
        }
    }
    let raw = |theta: &Vec<f64>| {
        let mut beta: Vec<f64> = theta.iter().zip(&deviations).map(|(t, d)| t / d).collect();
        beta[0] -= (1..p).map(|at| beta[at] * means[at]).sum::<f64>();
        beta
    };
    theta.iter().flat_map(raw).collect()
}

const MODELS: [(Learner, &str, usize); 5] = [
    (Learner::Ridge, "y ~ a + b + c + d", 1),
    (Learner::Logistic, "yes ~ a + b + c + d", 1),
    (Learner::Svm, "yes ~ a + b + c + d", 1),
    (Learner::Poisson, "count ~ a + b + c + d", 1),
    (Learner::Multinomial, "class ~ a + b + c + d", 2),
];

#[test]
fn models_are_what_plain_gradient_descent_finds() {
    let mut sample = people(100, 1);
    let mut stream = PublicStream::new("weights", 0);
    sample = sample.weighted((0..100).map(|_| 2.0 * stream.uniform()).collect());
    for (learner, formula, scores) in MODELS {
        for penalty in [0.0, 0.2] {
            let fitted = sample.fit(formula, learner, Some(penalty));
            let plain = descend(&sample.encode(formula), &sample.weights, learner, scores, penalty);
            assert_close(&values(&fitted), &plain, 1e-6);
            assert!(fitted.notes.is_empty(), "{:?}", fitted.notes);
        }
    }
}

/// Solves a small linear system by elimination.
fn eliminate(mut a: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let n = right.len();
    for i in 0..n {
        for k in i + 1..n {
            let factor = a[k][i] / a[i][i];
            let (above, below) = a.split_at_mut(k);
            below[0].iter_mut().zip(&above[i]).for_each(|(x, y)| *x -= factor * y);
            right[k] -= factor * right[i];
        }
    }
    for i in (0..n).rev() {
        right[i] = (right[i] - (i + 1..n).map(|j| a[i][j] * right[j]).sum::<f64>()) / a[i][i];
    }
    right
}

/// Coefficients from the normal equations, errors from the formula that allows for unequal variances (HC0, with the
/// sample's n/(n-1)), and nearly those of the textbook where variances are equal.
#[test]
fn least_squares_and_its_errors_are_the_textbook_ones() {
    let n = 400;
    let sample = people(n, 2);
    let formula = "y ~ a + b + a:b + d";
    let encoded = sample.encode(formula);
    let p = encoded.design.ncols();
    let x = |row: usize, at: usize| encoded.design[(row, at)];
    let cross: Vec<Vec<f64>> =
        (0..p).map(|i| (0..p).map(|j| (0..n).map(|row| x(row, i) * x(row, j)).sum()).collect()).collect();
    let right = (0..p).map(|i| (0..n).map(|row| x(row, i) * encoded.response[row]).sum()).collect();
    let beta = eliminate(cross.clone(), right);
    let fitted = sample.fit(formula, Learner::Linear, None);
    assert_close(&values(&fitted), &beta, 1e-9);
    let inverse: Vec<Vec<f64>> =
        (0..p).map(|j| eliminate(cross.clone(), (0..p).map(|i| f64::from(i == j)).collect())).collect();
    let residual = |row: usize| encoded.response[row] - (0..p).map(|at| x(row, at) * beta[at]).sum::<f64>();
    let variance = (0..n).map(|row| residual(row).powi(2)).sum::<f64>() / (n - p) as f64;
    for (at, inverse) in inverse.iter().enumerate() {
        let push = |row: usize| (0..p).map(|j| inverse[j] * x(row, j)).sum::<f64>() * residual(row);
        let sandwich = ((0..n).map(|row| push(row).powi(2)).sum::<f64>() * n as f64 / (n - 1) as f64).sqrt();
        let error = fitted.coefficients[at].std_error;
        assert!((error / sandwich - 1.0).abs() < 1e-8, "{error} {sandwich}");
        let textbook = (variance * inverse[at]).sqrt();
        assert!((error / textbook - 1.0).abs() < 0.25, "{error} {textbook}");
    }
}

/// 100 resamples give a standard error to about 7%; the seed is fixed.
#[test]
fn errors_are_those_of_the_bootstrap() {
    let n = 300;
    let sample = people(n, 3);
    for (learner, formula, _) in MODELS {
        let fitted = sample.fit(formula, learner, Some(0.05));
        let mut stream = PublicStream::new("bootstrap", 0);
        let draws: Vec<Vec<f64>> = (0..100)
            .map(|_| {
                let rows: Vec<usize> = (0..n).map(|_| stream.below(n as u64) as usize).collect();
                values(&sample.pick(&rows).fit(formula, learner, Some(0.05)))
            })
            .collect();
        for (at, coefficient) in fitted.coefficients.iter().enumerate() {
            let mean = draws.iter().map(|draw| draw[at]).sum::<f64>() / 100.0;
            let deviation = (draws.iter().map(|draw| (draw[at] - mean).powi(2)).sum::<f64>() / 99.0).sqrt();
            let ratio = coefficient.std_error / deviation;
            assert!((0.75..1.33).contains(&ratio), "{learner:?} {} {ratio}", fitted.names[at]);
        }
    }
}

#[test]
fn units_change_coefficients_and_nothing_else() {
    let sample = people(200, 4);
    let mut moved = sample.clone();
    moved.columns[0].iter_mut().for_each(|a| *a = 1000.0 * *a - 50_000.0);
    for (learner, formula, scores) in MODELS {
        for penalty in [0.0, 0.3] {
            let (first, second) =
                (sample.fit(formula, learner, Some(penalty)), moved.fit(formula, learner, Some(penalty)));
            let p = first.names.len() / scores;
            for at in 0..scores {
                let (a, b) = (&first.coefficients[at * p + 1], &second.coefficients[at * p + 1]);
                assert_close(&[1000.0 * b.value, 1000.0 * b.std_error], &[a.value, a.std_error], 1e-7);
            }
            let (a, b) = (first.predict(&sample.encode(formula).design), second.predict(&moved.encode(formula).design));
            for column in 0..a.ncols() {
                assert_close(a.col_as_slice(column), b.col_as_slice(column), 1e-7);
            }
        }
    }
}

#[test]
fn weights_count_rows() {
    let sample = people(120, 5);
    let mut stream = PublicStream::new("copies", 0);
    let copies: Vec<usize> = (0..120).map(|_| stream.below(4) as usize).collect();
    let rows: Vec<usize> = copies.iter().enumerate().flat_map(|(row, count)| vec![row; *count]).collect();
    let weighted = sample.clone().weighted(copies.iter().map(|count| *count as f64).collect());
    for (learner, formula, _) in MODELS {
        let (one, other) = (weighted.fit(formula, learner, None), sample.pick(&rows).fit(formula, learner, None));
        assert_close(&values(&one), &values(&other), 1e-9);
    }
}

#[test]
fn rows_with_something_missing_are_left_out() {
    let sample = people(150, 6);
    let mut holes = sample.clone();
    holes.columns[0][7] = f64::NAN;
    // The code after the levels is "(other)".
    holes.columns[3][11] = 3.0;
    holes.columns[4][13] = f64::NAN;
    let rows: Vec<usize> = (0..150).filter(|row| ![7, 11, 13].contains(row)).collect();
    let (one, other) = (
        holes.fit("y ~ a + b + d", Learner::Linear, None),
        sample.pick(&rows).fit("y ~ a + b + d", Learner::Linear, None),
    );
    assert_close(&values(&one), &values(&other), 1e-10);
    let errors = |fitted: &Fitted| fitted.coefficients.iter().map(|c| c.std_error).collect::<Vec<_>>();
    assert_close(&errors(&one), &errors(&other), 0.01);
    assert!((one.rows - 147.0).abs() < 1e-9);
}

#[test]
fn two_classes_are_a_case_of_several() {
    let sample = people(200, 7);
    let (two, many) =
        (sample.fit("yes ~ a + b", Learner::Logistic, None), sample.fit("yes ~ a + b", Learner::Multinomial, None));
    assert_close(&values(&two), &values(&many), 1e-9);
    assert_eq!(many.names[1], "1: a");
    let encoded = sample.encode("yes ~ a + b");
    let (p, q) = (two.evaluate(&encoded), many.evaluate(&encoded));
    assert_close(&[p.auc.unwrap(), p.log_loss.unwrap()], &[q.auc.unwrap(), q.log_loss.unwrap()], 1e-9);
    assert_eq!(p.accuracy, q.accuracy);
}

#[test]
fn classes_without_overlap_are_told() {
    let x: Vec<f64> = (0..50).map(f64::from).collect();
    let y = x.iter().map(|x| f64::from(*x > 24.5)).collect();
    let sample = Sample::numbers(&["x", "y"], vec![x, y]);
    let fitted = sample.fit("y ~ x", Learner::Logistic, None);
    assert!(fitted.notes[0].contains("told apart without error"), "{:?}", fitted.notes);
    assert!(fitted.coefficients.iter().all(|c| c.value.is_finite() && c.std_error.is_finite()));
    let metrics = fitted.evaluate(&sample.encode("y ~ x"));
    assert_eq!((metrics.accuracy, metrics.auc), (Some(1.0), Some(1.0)));
    let free = sample.fit("y ~ x", Learner::Logistic, Some(0.0));
    assert!(free.notes[0].contains("told apart without error"), "{:?}", free.notes);
    assert!(sample.fit("y ~ x", Learner::Logistic, Some(0.1)).notes.is_empty());
}

/// A level of which there is next to nothing has a coefficient that may be anything, and that is said.
#[test]
fn levels_that_no_row_has_are_marked() {
    let mut sample = people(500, 6);
    assert!(sample.fit("yes ~ a + d", Learner::Logistic, None).notes.is_empty());
    let is_rare: Vec<bool> = sample.columns[3].iter().map(|level| *level == 2.0).collect();
    sample.positive.iter_mut().zip(is_rare).filter(|(_, rare)| *rare).for_each(|(weight, _)| *weight = 1e-6);
    let fitted = sample.fit("yes ~ a + d", Learner::Logistic, Some(0.0));
    let marked: Vec<&str> = (fitted.names.iter().zip(&fitted.coefficients))
        .filter_map(|(name, value)| value.caution.map(|_| name.as_str()))
        .collect();
    assert_eq!(marked, ["d[r]"], "{fitted:?}");
    assert!(fitted.notes.iter().any(|note| note.contains("1 of the 4 coefficients")), "{:?}", fitted.notes);
}

#[test]
fn weights_without_a_minimum_are_replaced_and_that_is_said() {
    let mut sample = people(100, 8);
    let far = sample.columns[0].iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0;
    sample.weights[far] = -60.0;
    let fitted = sample.fit("y ~ a", Learner::Linear, None);
    assert_eq!(fitted.weights, Weights::Positive);
    assert!(fitted.notes[0].contains("non-negative weights were used"));
    sample.weights[far] = -0.1;
    let fitted = sample.fit("y ~ a", Learner::Linear, None);
    assert_eq!((fitted.weights, fitted.notes.len()), (Weights::Unbiased, 0));
}

#[test]
fn unbiased_weights_can_be_asked_for() {
    let mut sample = people(300, 10);
    let far = sample.columns[0].iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0;
    for (weight, used) in [(-0.5, Weights::Unbiased), (-200.0, Weights::Positive)] {
        sample.weights[far] = weight;
        for (learner, text, _) in MODELS {
            let formula = Formula::parse(text, &sample.schema).unwrap();
            let options = Options { weights: Some(Weights::Unbiased), ..Options::default() };
            let fitted = fit(&sample, &formula, learner, &options).unwrap();
            assert_eq!(fitted.weights, used, "{learner:?}");
            assert_eq!(fitted.notes.is_empty(), used == Weights::Unbiased, "{:?}", fitted.notes);
        }
    }
}

#[test]
fn what_cannot_be_fitted_is_explained() {
    let mut sample = people(60, 9);
    for (formula, learner, expected) in [
        ("y ~ a + I(2 * a)", Learner::Linear, "says nothing that the other terms do not"),
        ("d ~ a", Learner::Linear, "not a number"),
        ("y ~ a", Learner::Logistic, "such as y > 10"),
        ("d ~ a", Learner::Logistic, "3 levels"),
        ("y ~ a", Learner::Poisson, "can be negative"),
    ] {
        let message = sample.error(formula, learner);
        assert!(message.contains(expected), "{message}");
    }
    sample.columns[2] = vec![1.0; 60];
    let fitted = sample.fit("y ~ a + c", Learner::Linear, None);
    assert!(fitted.notes[0].contains("`c` does not vary"));
    assert!(fitted.coefficients[2].value == 0.0 && fitted.coefficients[2].std_error.is_nan());
    sample.columns[0] = vec![f64::NAN; 60];
    assert!(sample.error("y ~ a", Learner::Linear).contains("no row has all"));
    let json = serde_json::to_value(&fitted).unwrap();
    assert_eq!(json["kind"], "linear");
    assert!(json["coefficients"][2]["std_error"].is_null());
}

/// Whether counts can be negative is for the schema to say, not for the points that happen to be there.
#[test]
fn a_poisson_model_needs_counts_from_zero_up() {
    let table = Table::from_csv_bytes(b"x,y,z\n1,3,0\n2,5,1\n3,7,2\n4,9,2\n".to_vec());
    let schema = Schema::from_toml(
        "[[column]]\nname='x'\ntype='number'\nmin=0\nmax=9\n[[column]]\nname='y'\ntype='integer'\nmin=-2\nmax=9\n\
         [[column]]\nname='z'\ntype='integer'\nmin=0\nmax=9",
    )
    .unwrap();
    let sample = Rows::read(&table, &schema, &[0, 1, 2], &()).unwrap();
    for (text, lowest) in [
        ("y ~ x", Some("-2")),
        ("z - 1 ~ x", Some("-1")),
        ("CASE WHEN x > 8 THEN -3 ELSE z END ~ x", Some("-3")),
        ("z ~ x", None),
        ("greatest(y, 0) ~ x", None),
        ("y * y ~ x", None),
        ("CASE WHEN y < 0 THEN 0 ELSE y END ~ x", None),
    ] {
        let fitted = fit(&sample, &Formula::parse(text, &schema).unwrap(), Learner::Poisson, &Options::default());
        match (fitted, lowest) {
            (Ok(_), None) => {}
            (Err(error), Some(lowest)) => {
                let message = error.to_string();
                assert!(message.contains(&format!("can be negative (the schema allows {lowest})")), "{message}");
            }
            (other, _) => panic!("{text}: {:?}", other.map(|fitted| fitted.formula)),
        }
    }
}

#[test]
fn without_intercept_the_line_goes_through_zero() {
    let sample = Sample::numbers(&["x", "y"], vec![vec![1.0, 2.0, 4.0], vec![2.0, 3.0, 9.0]]);
    let fitted = sample.fit("y ~ x - 1", Learner::Linear, None);
    assert_close(&values(&fitted), &[44.0 / 21.0], 1e-12);
}

#[test]
fn own_rows_are_read_with_only_the_columns_needed() {
    use crate::source::Table;
    let schema = people(1, 0).schema.clone();
    let formula = Formula::parse("y ~ b + d", &schema).unwrap();
    let table = Table::from_csv_bytes(b"d,y,b\np,1,2\nq,3,5\n,1,1\nr,2,0.5\nz,0,0\n".to_vec());
    let rows = Rows::read(&table, &schema, formula.columns(), &()).unwrap();
    let encoded = formula.encode(&rows);
    assert_eq!(encoded.complete, [true, true, false, true, false]);
    assert_close(&encoded.response, &[1.0, 3.0, 0.0, 2.0, 0.0], 1e-9);
    assert_close(encoded.design.col_as_slice(1), &[2.0, 5.0, 0.0, 0.5, 0.0], 1e-9);
    assert_close(encoded.design.col_as_slice(2), &[0.0, 1.0, 0.0, 0.0, 0.0], 0.0);
    let formula = Formula::parse("y ~ a", &schema).unwrap();
    let message = Rows::read(&table, &schema, formula.columns(), &()).err().unwrap().to_string();
    assert!(message.contains("no column `a`"), "{message}");
}

#[test]
fn rows_keep_their_order() {
    use crate::source::Table;
    let sample = Sample::numbers(&["x"], vec![vec![0.0]]);
    let text: String = (0..2000).map(|row| format!("{row}\n")).collect();
    let rows =
        Rows::read(&Table::from_csv_bytes(format!("x\n{text}").into_bytes()), &sample.schema, &[0], &()).unwrap();
    let values = rows.values(&crate::expr::col("x").check(&sample.schema).unwrap());
    assert_eq!(rows.len(), 2000);
    assert!(values.iter().enumerate().all(|(row, x)| (x - row as f64).abs() < 1e-3));
}

/// A formula of any length is read or refused: its tree must not exhaust the stack.
#[test]
fn long_terms_are_refused() {
    let schema = Schema::from_toml("[[column]]\nname='x'\ntype='number'\nmin=0\nmax=1").unwrap();
    let long = format!("x ~ I({})", vec!["x"; 30_000].join("+"));
    assert!(Formula::parse(&long, &schema).unwrap_err().to_string().contains("too long"));
}
