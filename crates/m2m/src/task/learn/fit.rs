//! Linear models: what is minimised, and the errors of what comes out.

use faer::prelude::Solve;
use faer::{Mat, Side};
use serde::{Deserialize, Serialize};

use super::formula::{Encoded, Formula, Outcome};
use super::loss::{Loss, sigmoid};
use super::newton::{CHUNK, Problem, Solution, multiply};
use crate::estimate::{Caution, Estimate, Parts, WeightedSample};
use crate::{Error, Schema};

/// What is learned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Learner {
    /// Least squares.
    #[default]
    Linear,
    /// Least squares with a penalty.
    Ridge,
    /// The probability of one of two classes.
    Logistic,
    /// The probabilities of several classes.
    Multinomial,
    /// The mean of counts.
    Poisson,
    /// A linear support vector machine with the squared hinge loss, whose minimum, unlike the plain hinge's, is smooth.
    Svm,
}

/// Which weights of the points are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weights {
    /// None is negative.
    Positive,
    /// Unbiased, some of them perhaps negative.
    Unbiased,
}

/// How a model is fitted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// $\lambda$; none for [`Learner::Linear`], 0.01 for [`Learner::Ridge`] and 10⁻⁶ for the others unless given.
    pub penalty: Option<f64>,
    /// Unbiased for squares and positive for everything else unless given.
    pub weights: Option<Weights>,
}

/// A model that was fitted.
#[derive(Clone, Debug, Serialize)]
pub struct Fitted {
    /// What was learned.
    pub kind: Learner,
    /// The formula.
    pub formula: String,
    /// The classes that the response was one of, the one that others are compared with first; empty for numbers.
    pub classes: Vec<String>,
    /// The names of the coefficients; with several classes each starts with the class and a colon.
    pub names: Vec<String>,
    /// The coefficients in the columns' own units, class after class.
    pub coefficients: Vec<Estimate>,
    /// $\lambda$.
    pub penalty: f64,
    /// Which weights were used in the end.
    pub weights: Weights,
    /// About how many rows of the table had all that the formula needs.
    pub rows: f64,
    /// What the reader should know.
    pub notes: Vec<String>,
}

/// Fits a model to the rows that a sample stands for.
///
/// With $z$ the columns brought to mean 0 and standard deviation 1 (to root mean square 1 without intercept), the
/// coefficients minimise
/// $$\frac{\sum_i w_i\,\ell(y_i, \theta^\top z_i)}{\sum_i w_i} + \frac\lambda2 \sum_j \theta_j^2$$
/// over the points in which nothing is missing, where the intercept has no penalty, and are then expressed in the
/// columns' own units. The penalty so means the same whatever the units are.
///
/// # Error
/// By the sandwich formula: with $s_i$ the gradient of a point's loss and $H$ the Hessian, the coefficients move by
/// $-H^{-1}\,\overline{s}$ when the mean gradient is wrong by $\overline s$, so their covariance is
/// $H^{-1} \operatorname{Cov}(\overline s) H^{-1}$, and the sample knows the covariance of the errors of its means.
pub fn fit(
    sample: &dyn WeightedSample,
    formula: &Formula,
    learner: Learner,
    options: &Options,
) -> Result<Fitted, Error> {
    let penalty = options.penalty.unwrap_or(learner.usual_penalty());
    if !(penalty.is_finite() && penalty >= 0.0) {
        return fail(format!("the penalty is {penalty}; give a number of at least 0, such as 0.01"));
    }
    let judges = sample.judges();
    let judged = formula.encode(&*judges);
    let (loss, classes) = learner.loss(formula, sample.schema(), &judged)?;
    let count = formula.names().len() * loss.scores();
    if count > MAX_COEFFICIENTS {
        return fail(format!(
            "the model has {count} coefficients, more than {MAX_COEFFICIENTS}; leave out terms, or explain fewer classes"
        ));
    }
    let mut notes = Vec::new();
    let mut used = options.weights.unwrap_or(learner.usual_weights());
    let mut found = None;
    if used == Weights::Unbiased {
        let (encoded, weights) = (formula.encode(sample), sample.weights(formula.columns()));
        // Scales need not be unbiased, and must not be negative.
        let columns =
            Columns::new(formula, &encoded, &weights.iter().map(|weight| weight.max(0.0)).collect::<Vec<_>>())?;
        let solution = solve(&encoded, &columns, &weights, loss, penalty).filter(Solution::is_clear);
        found = solution.map(|solution| (columns, solution, complete_share(&encoded, &weights)));
        if found.is_none() {
            used = Weights::Positive;
            notes.push(
                "the unbiased weights leave no clear minimum (some are negative), so non-negative weights were used"
                    .into(),
            );
        }
    }
    let (columns, solution, share) = match found {
        Some(found) => found,
        None => {
            let positive = sample.positive();
            let encoded = formula.encode(&*positive.sample);
            let columns = Columns::new(formula, &encoded, positive.weights)?;
            let solution = solve(&encoded, &columns, positive.weights, loss, penalty);
            let solution = solution.expect("positive weights have a positive sum");
            (columns, solution, complete_share(&encoded, positive.weights))
        }
    };
    notes.splice(0..0, columns.notes(formula));
    if solution.weakest.1 <= COLLINEAR && penalty == 0.0 && loss == Loss::Square {
        return fail(format!(
            "`{}` says nothing that the other terms do not say; leave it out, or fit with a penalty",
            formula.names()[columns.active[solution.weakest.0]]
        ));
    }
    if !solution.converged {
        notes.push(
            "the search for the minimum did not come to its end; do not lean on this fit, or give a larger penalty"
                .into(),
        );
    } else if (options.penalty.is_none() || penalty == 0.0) && loss != Loss::Square && solution.is_loose(penalty) {
        notes.push(
            "the data hardly determine the coefficients (classes that can be told apart without error, or terms that repeat each other); give a larger penalty or leave terms out"
                .into(),
        );
    }
    let doubts = Doubts { sample, columns: formula.columns(), judged: &judged, share };
    let coefficients = columns.coefficients(&doubts, &solution, loss, penalty);
    let swamped = coefficients.iter().filter(|value| value.caution.is_some()).count();
    if swamped > 0 {
        notes.push(format!(
            "the rows hardly determine {swamped} of the {} coefficients, as for levels that few rows have; leave those terms out, or give a larger penalty",
            coefficients.len()
        ));
    }
    let names = match &classes[..] {
        [_, others @ ..] if learner == Learner::Multinomial => {
            others.iter().flat_map(|class| formula.names().iter().map(move |name| format!("{class}: {name}"))).collect()
        }
        _ => formula.names().to_vec(),
    };
    Ok(Fitted {
        kind: learner,
        formula: formula.text().to_owned(),
        classes,
        names,
        coefficients,
        penalty,
        weights: used,
        rows: sample.rows() * share,
        notes,
    })
}

/// More are refused: Newton's steps would take minutes.
const MAX_COEFFICIENTS: usize = 1000;

/// Below this share of its curvature a column counts as made up of others.
const COLLINEAR: f64 = 1e-11;

impl Learner {
    fn usual_penalty(self) -> f64 {
        match self {
            Self::Linear => 0.0,
            Self::Ridge => 0.01,
            _ => 1e-6,
        }
    }

    fn usual_weights(self) -> Weights {
        if let Self::Linear | Self::Ridge = self { Weights::Unbiased } else { Weights::Positive }
    }

    /// The loss for a response, and its classes.
    fn loss(self, formula: &Formula, schema: &Schema, encoded: &Encoded) -> Result<(Loss, Vec<String>), Error> {
        let name = formula.response().name();
        let outcome = formula.response().outcome();
        let classes = match outcome {
            Outcome::Class(classes) => classes.clone(),
            Outcome::Number => Vec::new(),
        };
        let numeric = matches!(&classes[..], [] | [_, _]);
        match self {
            Self::Linear | Self::Ridge if numeric => Ok((Loss::Square, classes)),
            Self::Poisson if classes.is_empty() => {
                // What is possible decides first, so that the answer does not depend on where the points fell.
                let lowest = formula.response().lowest(schema).unwrap_or(0.0);
                let lowest = encoded.response.iter().copied().fold(lowest, f64::min);
                if lowest < 0.0 {
                    return fail(format!(
                        "`{name}` can be negative (the schema allows {}), and a Poisson model needs counts from 0 up; \
                        fit a linear model, or explain greatest({name}, 0)",
                        shown(lowest)
                    ));
                }
                Ok((Loss::Poisson, classes))
            }
            Self::Linear | Self::Ridge | Self::Poisson => {
                fail(format!("`{name}` is not a number; fit a logistic or multinomial model to it"))
            }
            Self::Logistic | Self::Svm | Self::Multinomial => {
                let classes = match outcome {
                    Outcome::Number if encoded.response.iter().all(|y| *y == 0.0 || *y == 1.0) => {
                        vec!["0".to_owned(), "1".to_owned()]
                    }
                    Outcome::Number => {
                        return fail(format!(
                            "`{name}` is a number and not a class; write a condition left of ~, such as {name} > 10"
                        ));
                    }
                    Outcome::Class(_) => classes,
                };
                match (self, classes.len()) {
                    (_, ..2) => fail(format!("`{name}` has a single level; explain a column that varies")),
                    (Self::Multinomial, count) => Ok((Loss::Multinomial(count - 1), classes)),
                    (Self::Logistic, 2) => Ok((Loss::Logistic, classes)),
                    (Self::Svm, 2) => Ok((Loss::SquaredHinge, classes)),
                    (_, count) => fail(format!(
                        "`{name}` has {count} levels where two are needed; fit a multinomial model, or write a condition left of ~, such as {name} = '{}'",
                        classes[0]
                    )),
                }
            }
        }
    }
}

/// What the errors of coefficients are found by.
struct Doubts<'a> {
    sample: &'a dyn WeightedSample,
    /// Those that the formula reads.
    columns: &'a [usize],
    /// The design at the points by which errors are judged.
    judged: &'a Encoded,
    /// The weight of the points in which nothing is missing among that of all.
    share: f64,
}

/// The columns of a design on a common scale.
struct Columns {
    intercept: bool,
    /// Those that vary, by their place in the design.
    active: Vec<usize>,
    means: Vec<f64>,
    deviations: Vec<f64>,
    /// Of all columns of the design.
    count: usize,
}

impl Columns {
    fn new(formula: &Formula, encoded: &Encoded, weights: &[f64]) -> Result<Self, Error> {
        let total = complete_weight(encoded, weights);
        if total <= 0.0 {
            return fail("no row has all that the formula needs; leave out columns that are often missing".into());
        }
        let intercept = formula.has_intercept();
        let count = formula.names().len();
        let mut columns = Self { intercept, active: Vec::new(), means: Vec::new(), deviations: Vec::new(), count };
        let kept =
            || weights.iter().zip(&encoded.complete).map(|(weight, kept)| if *kept { weight / total } else { 0.0 });
        for at in 0..count {
            let column = encoded.design.col_as_slice(at);
            let constant = intercept && at == 0;
            let mean =
                if intercept && !constant { kept().zip(column).map(|(weight, x)| weight * x).sum() } else { 0.0 };
            let variance: f64 = kept().zip(column).map(|(weight, x)| weight * (x - mean) * (x - mean)).sum();
            let size = column.iter().map(|x| x.abs()).fold(0.0, f64::max);
            if constant || variance.sqrt() > 1e-10 * size {
                columns.active.push(at);
                columns.means.push(mean);
                columns.deviations.push(if constant { 1.0 } else { variance.sqrt() });
            }
        }
        if columns.active.is_empty() {
            return fail("no term varies; explain by columns that do".into());
        }
        Ok(columns)
    }

    fn notes(&self, formula: &Formula) -> Vec<String> {
        let still = |at: &usize| !self.active.contains(at);
        let name = |at: usize| format!("`{}` does not vary, so its coefficient is left at 0", formula.names()[at]);
        (0..self.count).filter(still).map(name).collect()
    }

    fn scaled(&self, design: &Mat<f64>, row: usize, at: usize) -> f64 {
        (design[(row, self.active[at])] - self.means[at]) / self.deviations[at]
    }

    /// $\beta = A\theta$ turns coefficients of scaled columns into those of the design.
    fn back(&self) -> Mat<f64> {
        let mut back = Mat::zeros(self.count, self.active.len());
        for (at, column) in self.active.iter().enumerate() {
            back[(*column, at)] = 1.0 / self.deviations[at];
            if self.intercept && at > 0 {
                back[(0, at)] = -self.means[at] / self.deviations[at];
            }
        }
        back
    }

    fn penalties(&self, penalty: f64) -> Vec<f64> {
        (0..self.active.len()).map(|at| if self.intercept && at == 0 { 0.0 } else { penalty }).collect()
    }

    /// The coefficients of the design with their errors.
    fn coefficients(&self, doubts: &Doubts<'_>, solution: &Solution, loss: Loss, penalty: f64) -> Vec<Estimate> {
        let &Doubts { sample, columns, judged, share } = doubts;
        let (p, m) = (self.active.len(), loss.scores());
        let back = self.back();
        let values = multiply(back.as_ref(), solution.theta.as_ref());
        let wide = Mat::from_fn(p * m, self.count * m, |row, column| {
            if row / p == column / self.count { back[(column % self.count, row % p)] / share } else { 0.0 }
        });
        let deviations = match solution.hessian.llt(Side::Lower) {
            Ok(factor) => {
                let influence = factor.solve(&wide);
                // Few enough columns at a time that a million points fit into memory.
                (0..self.count * m)
                    .step_by(BLOCK)
                    .flat_map(|start| {
                        let width = BLOCK.min(self.count * m - start);
                        let influence = influence.as_ref().subcols(start, width).to_owned();
                        let moves = self.influence(judged, solution, loss, &self.penalties(penalty), &influence);
                        let covariance = sample.covariance(&moves, columns);
                        (0..width).map(|at| covariance[(at, at)].max(0.0).sqrt()).collect::<Vec<_>>()
                    })
                    .collect()
            }
            Err(_) => vec![f64::NAN; self.count * m],
        };
        let estimate = |at: usize| {
            let column = at % self.count;
            let deviation = if self.active.contains(&column) { deviations[at] } else { f64::NAN };
            let parts = Parts { approximation: deviation, ..Parts::default() };
            let cells = judged.design.col_as_slice(column);
            let (low, high) = cells.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(*x), h.max(*x)));
            let swamped = loss != Loss::Square && deviation * (high - low) > SWAMPED;
            Estimate::new(values[(column, at / self.count)], parts).with_caution(swamped.then_some(Caution::Swamped))
        };
        (0..self.count * m).map(estimate).collect()
    }

    /// By how much each point moves each coefficient: its gradient times `influence`, a row per point.
    fn influence(
        &self,
        encoded: &Encoded,
        solution: &Solution,
        loss: Loss,
        penalties: &[f64],
        influence: &Mat<f64>,
    ) -> Mat<f64> {
        let (n, p, m) = (encoded.complete.len(), self.active.len(), loss.scores());
        let mut moves = Mat::zeros(n, influence.ncols());
        let (mut slopes, mut curves) = (vec![0.0; m], vec![0.0; m * m]);
        for start in (0..n).step_by(CHUNK) {
            let rows = CHUNK.min(n - start);
            let points = Mat::from_fn(rows, p, |row, at| self.scaled(&encoded.design, start + row, at));
            let eta = multiply(points.as_ref(), solution.theta.as_ref());
            let mut gradients = Mat::<f64>::zeros(rows, p * m);
            for row in (0..rows).filter(|row| encoded.complete[start + row]) {
                let scores: Vec<f64> = (0..m).map(|a| eta[(row, a)]).collect();
                loss.at(encoded.response[start + row], &scores, &mut slopes, &mut curves);
                for a in 0..m {
                    for at in 0..p {
                        gradients[(row, a * p + at)] =
                            slopes[a] * points[(row, at)] + penalties[at] * solution.theta[(at, a)];
                    }
                }
            }
            let part = multiply(gradients.as_ref(), influence.as_ref());
            moves.as_mut().subrows_mut(start, rows).copy_from(part);
        }
        moves
    }
}

/// A coefficient of a score (log odds, logarithm of a mean, margin) is marked as swamped when the score of a row at one end
/// of its column is known to no more than this many, beside one at the other end: a factor of e¹⁰ in the odds. So are levels
/// that hardly a row has.
const SWAMPED: f64 = 10.0;

/// Columns whose covariance is asked for at once.
const BLOCK: usize = 128;

impl Solution {
    fn is_clear(&self) -> bool {
        self.converged && self.weakest.1 > COLLINEAR
    }

    /// Whether the least curvature of the loss is nothing, or not large beside the penalty.
    fn is_loose(&self, penalty: f64) -> bool {
        let least = self.hessian.self_adjoint_eigenvalues(Side::Lower).map_or(0.0, |values| values[0]);
        least - penalty < (100.0 * penalty).max(1e-10)
    }
}

fn fail<T>(message: String) -> Result<T, Error> {
    Err(Error::Question(message))
}

/// To three digits, for a message.
fn shown(x: f64) -> f64 {
    format!("{x:.2e}").parse().unwrap_or(x)
}

/// The weights of the points in which nothing is missing, added up.
fn complete_weight(encoded: &Encoded, weights: &[f64]) -> f64 {
    weights.iter().zip(&encoded.complete).filter(|(_, complete)| **complete).map(|(weight, _)| weight).sum()
}

/// The same, as a share of all.
fn complete_share(encoded: &Encoded, weights: &[f64]) -> f64 {
    complete_weight(encoded, weights) / weights.len() as f64
}

/// The minimum over the complete points, unless their weights do not even have a positive sum.
fn solve(encoded: &Encoded, columns: &Columns, weights: &[f64], loss: Loss, penalty: f64) -> Option<Solution> {
    let total = complete_weight(encoded, weights);
    if total <= 0.0 {
        return None;
    }
    let rows: Vec<usize> = (0..weights.len()).filter(|row| encoded.complete[*row] && weights[*row] != 0.0).collect();
    let problem = Problem {
        points: Mat::from_fn(rows.len(), columns.active.len(), |row, at| {
            columns.scaled(&encoded.design, rows[row], at)
        }),
        response: rows.iter().map(|row| encoded.response[*row]).collect(),
        weights: rows.iter().map(|row| weights[*row] / total).collect(),
        loss,
        penalties: columns.penalties(penalty),
    };
    let mut start = Mat::zeros(columns.active.len(), loss.scores());
    if columns.intercept {
        // As if nothing but the intercept explained the response.
        let share = |holds: &dyn Fn(f64) -> f64| -> f64 {
            problem.response.iter().zip(&problem.weights).map(|(y, weight)| weight * holds(*y)).sum()
        };
        let class = |class: usize| share(&|y| f64::from(y == class as f64)).max(1e-3);
        match loss {
            Loss::Square | Loss::SquaredHinge => {}
            Loss::Logistic => start[(0, 0)] = (class(1) / class(0)).ln(),
            Loss::Multinomial(others) => (0..others).for_each(|a| start[(0, a)] = (class(a + 1) / class(0)).ln()),
            Loss::Poisson => start[(0, 0)] = share(&|y| y).max(1e-12).ln(),
        }
    }
    Some(problem.solve(start))
}

impl Fitted {
    /// What the model says about the rows of a design ([`Formula::encode`]), one row each.
    ///
    /// A class model gives the probabilities of its classes; others give one column: the mean, or for
    /// [`Learner::Svm`] the score, whose sign is the class.
    pub fn predict(&self, design: &Mat<f64>) -> Mat<f64> {
        let p = design.ncols();
        let beta = Mat::from_fn(p, self.coefficients.len() / p, |row, a| self.coefficients[a * p + row].value);
        let mut scores = multiply(design.as_ref(), beta.as_ref());
        match self.kind {
            Learner::Linear | Learner::Ridge | Learner::Svm => scores,
            Learner::Poisson => {
                scores.col_as_slice_mut(0).iter_mut().for_each(|eta| *eta = eta.exp());
                scores
            }
            Learner::Logistic => Mat::from_fn(scores.nrows(), 2, |row, class| {
                let eta = scores[(row, 0)];
                sigmoid(if class == 1 { eta } else { -eta })
            }),
            Learner::Multinomial => {
                let mut shares = Mat::from_fn(scores.nrows(), scores.ncols() + 1, |row, class| {
                    if class == 0 { 0.0 } else { scores[(row, class - 1)] }
                });
                for row in 0..shares.nrows() {
                    let top = shares.row(row).iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let sum: f64 = shares.row(row).iter().map(|eta| (eta - top).exp()).sum();
                    shares.row_mut(row).iter_mut().for_each(|eta| *eta = (*eta - top).exp() / sum);
                }
                shares
            }
        }
    }
}
