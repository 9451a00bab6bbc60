//! How well a model does on rows whose response is known.

use faer::Mat;
use serde::Serialize;

use super::fit::{Fitted, Learner};
use super::formula::Encoded;

/// How well a model does; what does not apply to it is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Metrics {
    /// Rows that were used.
    pub rows: usize,
    /// Rows that were left out because something is missing.
    pub left_out: usize,
    /// The share of rows put into the right class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// The probability that a row of the second class scores above one of the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auc: Option<f64>,
    /// The mean of minus the logarithm of the probability given to the right class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_loss: Option<f64>,
    /// The root of the mean squared error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rmse: Option<f64>,
    /// The share of the response's variance that is explained; negative if the mean would do better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r_squared: Option<f64>,
}

impl Fitted {
    /// Compares what the model says about rows with their responses.
    pub fn evaluate(&self, encoded: &Encoded) -> Metrics {
        let known = |y: f64| self.classes.is_empty() || (y.fract() == 0.0 && (y as usize) < self.classes.len());
        let kept: Vec<usize> =
            (0..encoded.complete.len()).filter(|row| encoded.complete[*row] && known(encoded.response[*row])).collect();
        let design = Mat::from_fn(kept.len(), encoded.design.ncols(), |row, at| encoded.design[(kept[row], at)]);
        let truth: Vec<f64> = kept.iter().map(|row| encoded.response[*row]).collect();
        let said = self.predict(&design);
        let metrics = Metrics { rows: kept.len(), left_out: encoded.complete.len() - kept.len(), ..Metrics::default() };
        if kept.is_empty() {
            return metrics;
        }
        let last = said.col_as_slice(said.ncols() - 1);
        match self.kind {
            Learner::Linear | Learner::Ridge | Learner::Poisson => {
                Metrics { rmse: Some(rmse(last, &truth)), r_squared: r_squared(last, &truth), ..metrics }
            }
            Learner::Svm => {
                let classes: Vec<usize> = last.iter().map(|score| usize::from(*score > 0.0)).collect();
                Metrics { accuracy: Some(accuracy(&classes, &truth)), auc: auc(last, &truth), ..metrics }
            }
            Learner::Logistic | Learner::Multinomial => {
                let best = |row: usize| {
                    (0..said.ncols()).max_by(|a, b| said[(row, *a)].total_cmp(&said[(row, *b)])).unwrap_or(0)
                };
                let classes: Vec<usize> = (0..said.nrows()).map(best).collect();
                let given: Vec<f64> = truth.iter().enumerate().map(|(row, y)| said[(row, *y as usize)]).collect();
                Metrics {
                    accuracy: Some(accuracy(&classes, &truth)),
                    auc: if said.ncols() == 2 { auc(last, &truth) } else { None },
                    log_loss: Some(log_loss(&given)),
                    ..metrics
                }
            }
        }
    }
}

/// The share of classes that are right.
pub fn accuracy(classes: &[usize], truth: &[f64]) -> f64 {
    classes.iter().zip(truth).filter(|(class, truth)| **class as f64 == **truth).count() as f64 / truth.len() as f64
}

/// The probability that a row with truth 1 has a higher score than one with truth 0, a tie counting half
/// (Mann–Whitney); absent if there is only one class.
pub fn auc(scores: &[f64], truth: &[f64]) -> Option<f64> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    let (mut below, mut wins) = (0.0, 0.0);
    for tied in order.chunk_by(|a, b| scores[*a] == scores[*b]) {
        let positive = tied.iter().filter(|row| truth[**row] == 1.0).count() as f64;
        let negative = tied.len() as f64 - positive;
        wins += positive * (below + 0.5 * negative);
        below += negative;
    }
    let pairs = below * (scores.len() as f64 - below);
    (pairs > 0.0).then(|| wins / pairs)
}

/// The mean of minus the logarithm of the probabilities that were given to what came true.
pub fn log_loss(given: &[f64]) -> f64 {
    given.iter().map(|p| -p.max(1e-15).ln()).sum::<f64>() / given.len() as f64
}

/// The root of the mean squared error.
pub fn rmse(said: &[f64], truth: &[f64]) -> f64 {
    (squares(said.iter().copied(), truth) / truth.len() as f64).sqrt()
}

/// One minus the ratio of the squared error to that of the mean; absent if the truth does not vary.
pub fn r_squared(said: &[f64], truth: &[f64]) -> Option<f64> {
    let mean = truth.iter().sum::<f64>() / truth.len() as f64;
    let all = squares(std::iter::repeat(mean), truth);
    (all > 0.0).then(|| 1.0 - squares(said.iter().copied(), truth) / all)
}

fn squares(said: impl Iterator<Item = f64>, truth: &[f64]) -> f64 {
    said.zip(truth).map(|(said, truth)| (said - truth).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::PublicStream;

    #[test]
    fn auc_is_the_share_of_pairs_in_order() {
        let mut stream = PublicStream::new("auc", 0);
        for _ in 0..20 {
            let scores: Vec<f64> = (0..60).map(|_| stream.below(12) as f64).collect();
            let truth: Vec<f64> = (0..60).map(|_| stream.below(2) as f64).collect();
            let (mut wins, mut pairs) = (0.0, 0.0);
            for a in (0..60).filter(|a| truth[*a] == 1.0) {
                for b in (0..60).filter(|b| truth[*b] == 0.0) {
                    pairs += 1.0;
                    wins += if scores[a] > scores[b] { 1.0 } else { 0.5 * f64::from(scores[a] == scores[b]) };
                }
            }
            assert!((auc(&scores, &truth).unwrap() - wins / pairs).abs() < 1e-12);
        }
        assert_eq!(auc(&[1.0, 2.0], &[1.0, 1.0]), None);
    }

    #[test]
    fn errors_of_numbers() {
        assert_eq!(rmse(&[1.0, 2.0], &[1.0, 4.0]), 2f64.sqrt());
        assert_eq!(r_squared(&[1.0, 3.0], &[1.0, 3.0]), Some(1.0));
        assert_eq!(r_squared(&[2.0, 2.0], &[1.0, 3.0]), Some(0.0));
        assert_eq!(r_squared(&[2.0, 2.0], &[1.0, 1.0]), None);
        assert_eq!(accuracy(&[0, 1, 1], &[0.0, 1.0, 0.0]), 2.0 / 3.0);
        assert!((log_loss(&[0.5, 0.5]) - 2f64.ln()).abs() < 1e-15);
    }
}
