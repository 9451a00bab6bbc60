//! Losses as functions of a point's scores $\eta$, with their derivatives.

/// What is paid for scores $\eta$ when the response is $y$.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Loss {
    /// $\frac12 (y - \eta)^2$.
    Square,
    /// $\ln(1 + e^\eta) - y\eta$ for $y \in \{0, 1\}$.
    Logistic,
    /// $\ln \sum_c e^{\eta_c} - \eta_y$ with $\eta_0 = 0$; the argument counts the other classes.
    Multinomial(usize),
    /// $e^\eta - y\eta$.
    Poisson,
    /// $\frac12 \max(0, 1 - t\eta)^2$ with $t = 2y - 1$.
    SquaredHinge,
}

impl Loss {
    /// How many scores a point has.
    pub fn scores(self) -> usize {
        if let Self::Multinomial(others) = self { others } else { 1 }
    }

    /// The loss; its gradient in the scores and its Hessian, row by row, are written to the slices.
    pub fn at(self, y: f64, scores: &[f64], gradient: &mut [f64], hessian: &mut [f64]) -> f64 {
        let eta = scores[0];
        match self {
            Self::Square => {
                gradient[0] = eta - y;
                hessian[0] = 1.0;
                0.5 * gradient[0] * gradient[0]
            }
            Self::Logistic => {
                // One exponential for all: the probability of the likelier class is 1 / (1 + e).
                let e = (-eta.abs()).exp();
                let likelier = 1.0 / (1.0 + e);
                gradient[0] = if eta >= 0.0 { likelier } else { e * likelier } - y;
                hessian[0] = e * likelier * likelier;
                // The score of the right class decides: no cancellation where the fit is sure and right.
                (if y > 0.5 { -eta } else { eta }).max(0.0) + e.ln_1p()
            }
            Self::Poisson => {
                let mean = eta.exp();
                gradient[0] = mean - y;
                hessian[0] = mean;
                mean - y * eta
            }
            Self::SquaredHinge => {
                let t = 2.0 * y - 1.0;
                let short = (1.0 - t * eta).max(0.0);
                gradient[0] = -t * short;
                hessian[0] = f64::from(short > 0.0);
                0.5 * short * short
            }
            Self::Multinomial(others) => {
                let top = scores.iter().copied().fold(0.0, f64::max);
                let sum = (-top).exp() + scores.iter().map(|score| (score - top).exp()).sum::<f64>();
                for (g, score) in gradient.iter_mut().zip(scores) {
                    *g = (score - top).exp() / sum;
                }
                for a in 0..others {
                    for b in 0..others {
                        hessian[a * others + b] = gradient[a] * (f64::from(a == b) - gradient[b]);
                    }
                }
                let class = y as usize;
                let own = if class == 0 { 0.0 } else { scores[class - 1] };
                if class > 0 {
                    gradient[class - 1] -= 1.0;
                }
                top + sum.ln() - own
            }
        }
    }
}

/// $1/(1 + e^{-x})$.
pub(super) fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        let e = x.exp();
        e / (1.0 + e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derivatives_are_those_of_the_loss() {
        let step = 1e-6;
        for (loss, y) in [
            (Loss::Square, 1.7),
            (Loss::Logistic, 0.0),
            (Loss::Logistic, 1.0),
            (Loss::Multinomial(3), 0.0),
            (Loss::Multinomial(3), 2.0),
            (Loss::Poisson, 3.0),
            (Loss::SquaredHinge, 0.0),
            (Loss::SquaredHinge, 1.0),
        ] {
            let m = loss.scores();
            for start in [-2.0, -0.3, 0.1, 1.9] {
                let scores: Vec<f64> = (0..m).map(|a| start + 0.7 * a as f64).collect();
                let at = |scores: &[f64]| {
                    let (mut gradient, mut hessian) = (vec![0.0; m], vec![0.0; m * m]);
                    let value = loss.at(y, scores, &mut gradient, &mut hessian);
                    (value, gradient, hessian)
                };
                let (_, gradient, hessian) = at(&scores);
                for a in 0..m {
                    let moved = |by: f64| {
                        let mut scores = scores.clone();
                        scores[a] += by;
                        at(&scores)
                    };
                    let (up, down) = (moved(step), moved(-step));
                    assert!(((up.0 - down.0) / (2.0 * step) - gradient[a]).abs() < 1e-7, "{loss:?} {start}");
                    for b in 0..m {
                        let second = (up.1[b] - down.1[b]) / (2.0 * step);
                        assert!((second - hessian[a * m + b]).abs() < 1e-7, "{loss:?} {start}");
                    }
                }
            }
        }
    }

    #[test]
    fn sure_scores_are_finite() {
        for eta in [-800.0, 800.0] {
            for y in [0.0, 1.0] {
                for loss in [Loss::Logistic, Loss::Multinomial(1)] {
                    let (mut gradient, mut hessian) = ([0.0], [0.0]);
                    let value = loss.at(y, &[eta], &mut gradient, &mut hessian);
                    assert!(value.is_finite() && gradient[0].is_finite() && hessian[0].is_finite());
                }
            }
        }
    }
}
