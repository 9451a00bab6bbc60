//! Minimising a weighted mean of losses.

use faer::linalg::matmul::matmul;
use faer::prelude::Solve;
use faer::{Accum, Mat, MatRef, Par, Side};

use super::loss::Loss;

/// $F(\theta) = \sum_i w_i\,\ell(y_i, \theta^\top z_i) + \frac12 \sum_j \lambda_j \sum_a \theta_{ja}^2$, where a point
/// has one score for each column $a$ of $\theta$.
pub(super) struct Problem {
    /// A row per point.
    pub points: Mat<f64>,
    pub response: Vec<f64>,
    /// They add up to 1.
    pub weights: Vec<f64>,
    pub loss: Loss,
    /// $\lambda_j$, one for each column of the points.
    pub penalties: Vec<f64>,
}

/// Where the search ended.
pub(super) struct Solution {
    /// $\theta$: a row per column of the points, a column per score.
    pub theta: Mat<f64>,
    /// The second derivatives of $F$ there, score after score.
    pub hessian: Mat<f64>,
    /// Whether it is a minimum to the last digits.
    pub converged: bool,
    /// The column of the points that the others come closest to making superfluous, with the share of its curvature that
    /// they leave; 0 or less where the Hessian is not positive definite.
    pub weakest: (usize, f64),
}

/// Points whose rows, 50 columns wide, stay in the second cache.
pub(super) const CHUNK: usize = 512;

const MAX_STEPS: usize = 100;

/// Points from which the search for a minimum over all of them starts, if there are several times as many.
const FEW: usize = 4096;

impl Problem {
    /// The first of the points. They are in no order, so the minimum over some thousand of them is near.
    fn first(&self, count: usize) -> Self {
        let weight: f64 = self.weights[..count].iter().sum();
        Self {
            points: self.points.as_ref().subrows(0, count).to_owned(),
            response: self.response[..count].to_vec(),
            weights: self.weights[..count].iter().map(|x| x / weight).collect(),
            loss: self.loss,
            penalties: self.penalties.clone(),
        }
    }

    fn width(&self) -> usize {
        self.points.ncols()
    }

    /// $F$, its gradient and, if wanted, its Hessian.
    fn evaluate(&self, theta: &Mat<f64>, with_hessian: bool) -> (f64, Vec<f64>, Option<Mat<f64>>) {
        let (p, m) = (self.width(), self.loss.scores());
        let mut value = 0.0;
        let mut gradient = Mat::<f64>::zeros(p, m);
        let mut hessian = with_hessian.then(|| Mat::<f64>::zeros(p * m, p * m));
        let (mut scores, mut slopes, mut curves) = (vec![0.0; m], vec![0.0; m], vec![0.0; m * m]);
        let mut scaled = Mat::<f64>::zeros(CHUNK, p);
        for start in (0..self.points.nrows()).step_by(CHUNK) {
            let rows = CHUNK.min(self.points.nrows() - start);
            let chunk = self.points.as_ref().subrows(start, rows);
            let eta = multiply(chunk, theta.as_ref());
            let mut slope = Mat::<f64>::zeros(rows, m);
            let mut curve = Mat::<f64>::zeros(rows, m * m);
            for row in 0..rows {
                let weight = self.weights[start + row];
                (0..m).for_each(|a| scores[a] = eta[(row, a)]);
                value += weight * self.loss.at(self.response[start + row], &scores, &mut slopes, &mut curves);
                (0..m).for_each(|a| slope[(row, a)] = weight * slopes[a]);
                (0..m * m).for_each(|ab| curve[(row, ab)] = weight * curves[ab]);
            }
            matmul(gradient.as_mut(), Accum::Add, chunk.transpose(), slope.as_ref(), 1.0, Par::Seq);
            let Some(hessian) = &mut hessian else { continue };
            for a in 0..m {
                for b in 0..=a {
                    let curve = &curve.col_as_slice(a * m + b)[..rows];
                    scale_rows(&mut scaled, &self.points, start, curve);
                    let block = hessian.as_mut().submatrix_mut(a * p, b * p, p, p);
                    matmul(block, Accum::Add, chunk.transpose(), scaled.as_ref().subrows(0, rows), 1.0, Par::Seq);
                }
            }
        }
        let mut slopes = Vec::with_capacity(p * m);
        for a in 0..m {
            for j in 0..p {
                value += 0.5 * self.penalties[j] * theta[(j, a)].powi(2);
                slopes.push(gradient[(j, a)] + self.penalties[j] * theta[(j, a)]);
            }
        }
        if let Some(hessian) = &mut hessian {
            for at in 0..p * m {
                hessian[(at, at)] += self.penalties[at % p];
            }
            mirror(hessian);
        }
        (value, slopes, hessian)
    }

    /// Newton's method with step halving. Where the Hessian is not positive definite (negative weights), enough is added
    /// to its diagonal.
    pub fn solve(&self, start: Mat<f64>) -> Solution {
        let p = self.width();
        let mut theta = start;
        if self.weights.len() > 4 * FEW && self.loss != Loss::Square && self.weights.iter().all(|x| *x >= 0.0) {
            let first = self.first(FEW).solve(theta.clone());
            if first.converged {
                theta = first.theta;
            }
        }
        let mut scale = None;
        let mut converged = false;
        let (mut value, mut gradient, mut hessian) = self.evaluate(&theta, true);
        for _ in 0..MAX_STEPS {
            let Some(step) = hessian.as_ref().and_then(|hessian| descent(hessian, &gradient)) else { break };
            let slope: f64 = step.iter().zip(&gradient).map(|(step, gradient)| step * gradient).sum();
            let scale = *scale.get_or_insert(value.abs() - slope) + value.abs();
            let mut length = 1.0;
            let next = loop {
                let mut theta = theta.clone();
                for (at, step) in step.iter().enumerate() {
                    theta[(at % p, at / p)] += length * step;
                }
                // Whole steps are mostly taken, and the next one needs the Hessian there.
                let next = self.evaluate(&theta, length == 1.0);
                if next.0 <= value + 1e-4 * length * slope + 1e-14 * scale {
                    break Some((theta, next));
                }
                length *= 0.5;
                if length < 1e-12 {
                    break None;
                }
            };
            let Some((next, found)) = next else { break };
            theta = next;
            (value, gradient, hessian) = if found.2.is_some() { found } else { self.evaluate(&theta, true) };
            // The decrement before this step: the one that is left is its square.
            if length == 1.0 && -slope <= 1e-14 * scale {
                converged = true;
                break;
            }
        }
        let hessian = hessian.expect("it was asked for");
        let weakest = weakest(&hessian);
        Solution { theta, converged: converged && weakest.1 > 0.0, weakest: (weakest.0 % p, weakest.1), hessian }
    }
}

/// $-H^{-1} g$, or with more on the diagonal of $H$ where that is no descent.
fn descent(hessian: &Mat<f64>, gradient: &[f64]) -> Option<Vec<f64>> {
    let n = gradient.len();
    let right = Mat::from_fn(n, 1, |row, _| -gradient[row]);
    let size = (0..n).map(|at| hessian[(at, at)].abs()).fold(0.0, f64::max);
    let mut extra = 0.0;
    while size.is_finite() && extra <= 1e6 * size.max(1e-300) {
        let mut shifted = hessian.clone();
        (0..n).for_each(|at| shifted[(at, at)] += extra);
        if let Ok(factor) = shifted.llt(Side::Lower) {
            let step = factor.solve(&right);
            if (0..n).all(|row| step[(row, 0)].is_finite()) {
                return Some((0..n).map(|row| step[(row, 0)]).collect());
            }
        }
        extra = (extra * 10.0).max(1e-10 * size.max(1e-300));
    }
    None
}

/// The pivot of Cholesky's factorisation that is the smallest share of its diagonal entry.
fn weakest(hessian: &Mat<f64>) -> (usize, f64) {
    let n = hessian.nrows();
    let mut lower = hessian.clone();
    let mut weakest = (0, f64::INFINITY);
    for j in 0..n {
        let share = lower[(j, j)] / hessian[(j, j)];
        let share = if share.is_finite() && hessian[(j, j)] > 0.0 { share } else { 0.0 };
        if share < weakest.1 {
            weakest = (j, share);
        }
        if weakest.1 <= 0.0 {
            break;
        }
        for k in j + 1..n {
            let factor = lower[(k, j)] / lower[(j, j)];
            if factor != 0.0 {
                for i in k..n {
                    lower[(i, k)] -= factor * lower[(i, j)];
                }
            }
        }
    }
    weakest
}

/// $AB$.
pub(super) fn multiply(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    let mut product = Mat::zeros(a.nrows(), b.ncols());
    matmul(product.as_mut(), Accum::Replace, a, b, 1.0, Par::Seq);
    product
}

/// $X^\top \operatorname{diag}(w)\, X$.
pub(super) fn gram(points: &Mat<f64>, weights: &[f64]) -> Mat<f64> {
    let p = points.ncols();
    let mut gram = Mat::zeros(p, p);
    let mut scaled = Mat::zeros(CHUNK, p);
    for start in (0..points.nrows()).step_by(CHUNK) {
        let rows = CHUNK.min(points.nrows() - start);
        let chunk = points.as_ref().subrows(start, rows);
        scale_rows(&mut scaled, points, start, &weights[start..start + rows]);
        matmul(gram.as_mut(), Accum::Add, chunk.transpose(), scaled.as_ref().subrows(0, rows), 1.0, Par::Seq);
    }
    mirror(&mut gram);
    gram
}

/// The rows from `start` on, each times a factor.
fn scale_rows(scaled: &mut Mat<f64>, points: &Mat<f64>, start: usize, factors: &[f64]) {
    for column in 0..points.ncols() {
        let from = &points.col_as_slice(column)[start..start + factors.len()];
        for ((to, from), factor) in scaled.col_as_slice_mut(column).iter_mut().zip(from).zip(factors) {
            *to = from * factor;
        }
    }
}

/// Copies the lower triangle to the upper one.
fn mirror(matrix: &mut Mat<f64>) {
    for column in 0..matrix.ncols() {
        for row in column + 1..matrix.nrows() {
            matrix[(column, row)] = matrix[(row, column)];
        }
    }
}
