//! How far an answer is from the truth: the measures of the paper's figures.

/// The mean of |estimate − truth| / truth.
pub fn relative_error(truth: &[f64], estimate: &[f64]) -> f64 {
    mean(truth.iter().zip(estimate).map(|(truth, estimate)| ((estimate - truth) / truth).abs()))
}

/// The mean of |estimate − truth|.
pub fn absolute_error(truth: &[f64], estimate: &[f64]) -> f64 {
    mean(truth.iter().zip(estimate).map(|(truth, estimate)| (estimate - truth).abs()))
}

/// The earth mover's distance between two distributions on [0, 1] from their CDFs at equally spaced points: the area
/// between them.
pub fn earth_movers(truth: &[f64], estimate: &[f64]) -> f64 {
    absolute_error(truth, estimate)
}

/// $\|\hat C - C\|_F / \|C\|_F$ of symmetric matrices given row by row.
pub fn frobenius_error(truth: &[f64], estimate: &[f64]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    norm(&mut truth.iter().zip(estimate).map(|(truth, estimate)| estimate - truth)) / norm(&mut truth.iter().copied())
}

/// The probability that a positive scores above a negative, ties counted half. One half where either is missing.
pub fn auc(scores: &[f64], positive: &[bool]) -> f64 {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    let positives = positive.iter().filter(|p| **p).count() as f64;
    let negatives = scores.len() as f64 - positives;
    if positives == 0.0 || negatives == 0.0 {
        return 0.5;
    }
    let (mut below, mut wins) = (0.0, 0.0);
    for tied in order.chunk_by(|a, b| scores[*a] == scores[*b]) {
        let up = tied.iter().filter(|at| positive[**at]).count() as f64;
        let down = tied.len() as f64 - up;
        wins += up * (below + 0.5 * down);
        below += down;
    }
    wins / (positives * negatives)
}

/// The mean of some numbers; NaN of none.
pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (count, sum) = values.into_iter().fold((0.0, 0.0), |(count, sum), x| (count + 1.0, sum + x));
    sum / count
}

/// The mean with the standard error of the mean.
pub fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let centre = mean(values.iter().copied());
    let n = values.len() as f64;
    let variance = values.iter().map(|x| (x - centre).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (centre, (variance / n).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_a_worked_example() {
        assert_eq!(relative_error(&[2.0, 4.0], &[1.0, 5.0]), 0.375);
        assert_eq!(absolute_error(&[2.0, 4.0], &[1.0, 5.0]), 1.0);
        assert_eq!(frobenius_error(&[3.0, 0.0, 0.0, 4.0], &[3.0, 3.0, 4.0, 4.0]), 1.0);
        assert_eq!(mean_and_error(&[1.0, 3.0]), (2.0, 1.0));
    }

    #[test]
    fn moving_all_mass_by_a_tenth_costs_a_tenth() {
        let cdf = |from: f64| (1..=10).map(|i| if f64::from(i) / 10.0 >= from { 1.0 } else { 0.0 }).collect::<Vec<_>>();
        assert!((earth_movers(&cdf(0.45), &cdf(0.55)) - 0.1).abs() < 1e-12);
    }

    #[test]
    fn auc_counts_pairs() {
        let scores = [0.1, 0.4, 0.4, 0.8, -3.0, f64::INFINITY];
        let positive = [false, true, false, true, false, false];
        let mut wins = 0.0;
        for (i, _) in scores.iter().enumerate().filter(|(i, _)| positive[*i]) {
            for (j, _) in scores.iter().enumerate().filter(|(j, _)| !positive[*j]) {
                wins += if scores[i] > scores[j] {
                    1.0
                } else if scores[i] == scores[j] {
                    0.5
                } else {
                    0.0
                };
            }
        }
        assert_eq!(auc(&scores, &positive), wins / 8.0);
        assert_eq!(auc(&[1.0, 2.0], &[true, true]), 0.5);
    }
}
