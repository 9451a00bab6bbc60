//! Logistic regression over weighted points, with an L2 penalty and a linear term.

use std::collections::VecDeque;

/// Points with labels ±1.
pub struct Labelled {
    /// One row per point, the intercept's 1 among its entries if there is to be one.
    pub rows: Vec<Vec<f64>>,
    /// +1 or −1.
    pub labels: Vec<f64>,
}

/// $J(\theta) = \frac1N\sum_i w_i\log(1+e^{-y_i\theta^\top x_i}) + \frac\Lambda2\|\theta\|^2 + b^\top\theta$.
pub struct Objective<'a> {
    pub points: &'a Labelled,
    /// Weights; all 1 if there are none. They may be negative, and then J need not be convex.
    pub weights: Option<&'a [f64]>,
    pub penalty: f64,
    /// b; none is zero.
    pub linear: Option<&'a [f64]>,
}

/// Pairs of steps and changes of the gradient that stand for the curvature.
const MEMORY: usize = 10;

impl Objective<'_> {
    /// The value and the gradient.
    pub fn expand(&self, theta: &[f64]) -> (f64, Vec<f64>) {
        let count = self.points.rows.len() as f64;
        let mut value = 0.5 * self.penalty * dot(theta, theta);
        let mut gradient: Vec<f64> = theta.iter().map(|t| self.penalty * t).collect();
        if let Some(linear) = self.linear {
            value += dot(linear, theta);
            add(&mut gradient, 1.0, linear);
        }
        for (at, (row, label)) in self.points.rows.iter().zip(&self.points.labels).enumerate() {
            let weight = self.weights.map_or(1.0, |weights| weights[at]) / count;
            let margin = label * dot(row, theta);
            // log(1 + e^-t) and its slope -1 / (1 + e^t) without overflow, from one power.
            let power = (-margin.abs()).exp();
            value += weight * (power.ln_1p() + (-margin).max(0.0));
            let slope = if margin > 0.0 { power } else { 1.0 } / (1.0 + power);
            add(&mut gradient, -weight * label * slope, row);
        }
        (value, gradient)
    }

    /// A minimum, from zero, by L-BFGS with halved steps. Every step goes down, so that a penalised objective with
    /// negative weights ends in a local minimum. Newton's method was seen to end in worse ones.
    pub fn minimise(&self, size: usize) -> Vec<f64> {
        let mut theta = vec![0.0; size];
        let (mut value, mut gradient) = self.expand(&theta);
        let mut memory: VecDeque<(Vec<f64>, Vec<f64>)> = VecDeque::new();
        for _ in 0..500 {
            let direction = downhill(&gradient, &memory);
            let slope = -dot(&gradient, &direction);
            if slope < 1e-18 {
                break;
            }
            let mut length = 1.0;
            let (next, (next_value, next_gradient)) = loop {
                let mut next = theta.clone();
                add(&mut next, length, &direction);
                let expanded = self.expand(&next);
                if expanded.0 < value - 1e-4 * length * slope {
                    break (next, expanded);
                }
                length *= 0.5;
                // No step is left that rounding would not hide.
                if length * slope <= f64::EPSILON * value.abs() {
                    return theta;
                }
            };
            let step: Vec<f64> = direction.iter().map(|x| length * x).collect();
            let change: Vec<f64> = next_gradient.iter().zip(&gradient).map(|(new, old)| new - old).collect();
            if dot(&step, &change) > 1e-10 * (dot(&step, &step) * dot(&change, &change)).sqrt() {
                memory.push_back((step, change));
                if memory.len() > MEMORY {
                    memory.pop_front();
                }
            }
            (theta, value, gradient) = (next, next_value, next_gradient);
        }
        theta
    }
}

/// The two-loop recursion: minus the gradient, times the inverse of the curvature that the memory stands for.
fn downhill(gradient: &[f64], memory: &VecDeque<(Vec<f64>, Vec<f64>)>) -> Vec<f64> {
    let mut direction: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut factors = Vec::new();
    for (step, change) in memory.iter().rev() {
        let factor = dot(step, &direction) / dot(step, change);
        add(&mut direction, -factor, change);
        factors.push(factor);
    }
    let scale = match memory.back() {
        Some((step, change)) => dot(step, change) / dot(change, change),
        None => 1.0 / dot(gradient, gradient).sqrt().max(f64::MIN_POSITIVE),
    };
    direction.iter_mut().for_each(|x| *x *= scale);
    for ((step, change), factor) in memory.iter().zip(factors.into_iter().rev()) {
        let back = dot(change, &direction) / dot(step, change);
        add(&mut direction, factor - back, step);
    }
    direction
}

fn add(to: &mut [f64], factor: f64, of: &[f64]) {
    to.iter_mut().zip(of).for_each(|(x, y)| *x += factor * y);
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::random::Random;

    #[test]
    fn the_gradient_vanishes_at_the_minimum() {
        let mut random = Random::new("logistic", 0);
        let rows: Vec<Vec<f64>> = (0..300).map(|_| vec![random.normal(), random.normal(), 1.0]).collect();
        let noisy = |row: &Vec<f64>, noise: f64| if row[0] - 0.5 * row[1] + noise > 0.0 { 1.0 } else { -1.0 };
        let labels = rows.iter().map(|row| noisy(row, random.normal())).collect();
        let points = Labelled { rows, labels };
        let signed: Vec<f64> = (0..300).map(|i| if i % 7 == 0 { -0.5 } else { 1.2 }).collect();
        for weights in [None, Some(&signed[..])] {
            let linear = [0.01, -0.02, 0.005];
            let objective = Objective { points: &points, weights, penalty: 1e-3, linear: Some(&linear) };
            let theta = objective.minimise(3);
            assert!(objective.expand(&theta).1.iter().all(|g| g.abs() < 1e-8), "{:?}", objective.expand(&theta).1);
            assert!(theta[0] > 0.0 && theta[1] < 0.0);
        }
    }
}
