//! DP-ERM: logistic regression made private by perturbing its objective, the specialist to compare with.
//!
//! Chaudhuri, Monteleoni and Sarwate (2011), *Differentially Private Empirical Risk Minimization*, Algorithm 2. One row
//! is replaced by another; rows have norm at most 1. This is the experiment's float arithmetic, not a mechanism to
//! publish with.

use super::logistic::{Labelled, Objective};
use super::random::Random;

/// Bound on the second derivative of the logistic loss.
const C: f64 = 0.25;

/// How the objective of n rows is perturbed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Perturbation {
    /// What is left of ε for the noise.
    pub epsilon: f64,
    /// Λ + Δ: the penalty with what had to be added for the rest of ε to suffice.
    pub penalty: f64,
}

impl Perturbation {
    /// $\epsilon' = \epsilon - \log(1 + 2c/n\Lambda + c^2/n^2\Lambda^2)$; where that is not positive,
    /// $\Delta = c/(n(e^{\epsilon/4}-1)) - \Lambda$ and $\epsilon' = \epsilon/2$.
    pub fn new(epsilon: f64, penalty: f64, rows: usize) -> Self {
        let n = rows as f64;
        let ratio = C / (n * penalty);
        let left = epsilon - (2.0 * ratio + ratio * ratio).ln_1p();
        if left > 0.0 {
            Self { epsilon: left, penalty }
        } else {
            Self { epsilon: epsilon / 2.0, penalty: C / (n * (epsilon / 4.0).exp_m1()) }
        }
    }

    /// A vector with density $\propto e^{-\epsilon'\|b\|/2}$: a uniform direction, a length ~ Gamma(d, 2/ε').
    pub fn noise(&self, size: usize, random: &mut Random) -> Vec<f64> {
        let length = 2.0 / self.epsilon * (0..size).map(|_| random.exponential()).sum::<f64>();
        let direction: Vec<f64> = (0..size).map(|_| random.normal()).collect();
        let norm = direction.iter().map(|x| x * x).sum::<f64>().sqrt();
        direction.into_iter().map(|x| x * length / norm).collect()
    }
}

/// The private coefficients: the minimum of $\frac1n\sum\ell + \frac{\Lambda+\Delta}2\|\theta\|^2 + \frac1n b^\top\theta$.
pub fn fit(points: &Labelled, epsilon: f64, penalty: f64, random: &mut Random) -> Vec<f64> {
    let size = points.rows.first().map_or(0, Vec::len);
    let perturbation = Perturbation::new(epsilon, penalty, points.rows.len());
    let n = points.rows.len() as f64;
    let linear: Vec<f64> = perturbation.noise(size, random).iter().map(|b| b / n).collect();
    debug_assert!(points.rows.iter().all(|row| row.iter().map(|x| x * x).sum::<f64>() <= 1.0 + 1e-9));
    Objective { points, weights: None, penalty: perturbation.penalty, linear: Some(&linear) }.minimise(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(count: usize) -> Labelled {
        let mut random = Random::new("dperm", 1);
        let rows: Vec<Vec<f64>> =
            (0..count).map(|_| vec![random.uniform() / 2.0, random.uniform() / 2.0, 0.5]).collect();
        let labels = rows.iter().map(|row| if row[0] + 0.2 * random.normal() > 0.25 { 1.0 } else { -1.0 }).collect();
        Labelled { rows, labels }
    }

    #[test]
    fn the_perturbed_gradient_vanishes_at_the_solution() {
        let points = points(400);
        for epsilon in [0.05, 1.0, 20.0] {
            let theta = fit(&points, epsilon, 1e-3, &mut Random::new("fit", 3));
            let perturbation = Perturbation::new(epsilon, 1e-3, 400);
            let noise = perturbation.noise(3, &mut Random::new("fit", 3));
            for k in 0..3 {
                let losses = points.rows.iter().zip(&points.labels).map(|(row, y)| {
                    let margin = y * row.iter().zip(&theta).map(|(x, t)| x * t).sum::<f64>();
                    -y * row[k] / (1.0 + margin.exp())
                });
                let gradient = losses.sum::<f64>() / 400.0 + perturbation.penalty * theta[k] + noise[k] / 400.0;
                assert!(gradient.abs() < 1e-7, "{gradient}");
            }
        }
    }

    #[test]
    fn the_length_of_the_noise_is_gamma_distributed() {
        // Mean d·2/ε' and variance d·(2/ε')²; 20,000 draws leave each within 5 standard errors (false alarm 1e-6).
        let perturbation = Perturbation { epsilon: 0.8, penalty: 1.0 };
        let (d, scale, count) = (4.0, 2.5, 20_000);
        let mut random = Random::new("length", 0);
        let lengths: Vec<f64> =
            (0..count).map(|_| perturbation.noise(4, &mut random).iter().map(|x| x * x).sum::<f64>().sqrt()).collect();
        let n = f64::from(count);
        let mean = lengths.iter().sum::<f64>() / n;
        let variance = lengths.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        assert!((mean - d * scale).abs() < 5.0 * scale * (d / n).sqrt(), "{mean}");
        // The fourth central moment of a Gamma law is 3d(d+2)·scale⁴.
        let spread = scale.powi(2) * ((3.0 * d * (d + 2.0) - d * d) / n).sqrt();
        assert!((variance - d * scale * scale).abs() < 5.0 * spread, "{variance}");
    }

    #[test]
    fn the_correction_starts_where_the_budget_is_used_up() {
        let plenty = Perturbation::new(1.0, 0.01, 1000);
        assert_eq!(plenty.penalty, 0.01);
        assert!((plenty.epsilon - (1.0 - (1.0f64 + 0.05 + 0.000625).ln())).abs() < 1e-12);
        let scarce = Perturbation::new(0.1, 1e-6, 1000);
        assert_eq!(scarce.epsilon, 0.05);
        // With Λ + Δ in place of Λ, log(1 + c/n(Λ+Δ))² = ε/2.
        assert!((2.0 * (0.25 / (1000.0 * scarce.penalty)).ln_1p() - 0.05).abs() < 1e-12);
    }

    #[test]
    fn a_generous_budget_gives_the_plain_fit() {
        let points = points(2000);
        let plain = Objective { points: &points, weights: None, penalty: 1e-3, linear: None }.minimise(3);
        let private = fit(&points, 1e9, 1e-3, &mut Random::new("generous", 0));
        assert!(plain.iter().zip(&private).all(|(a, b)| (a - b).abs() < 1e-5));
    }
}
