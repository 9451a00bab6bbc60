//! Exact confidence bounds on a probability from counts (Clopper and Pearson 1934).

/// The largest p at which so many successes or more would have probability at most `alpha`: with confidence 1 − `alpha`
/// the true probability is no smaller.
pub(super) fn lower(successes: u64, trials: u64, alpha: f64) -> f64 {
    if successes == 0 {
        return 0.0;
    }
    bisect(|p| at_least(successes, trials, p) <= alpha)
}

/// The same from above.
pub(super) fn upper(successes: u64, trials: u64, alpha: f64) -> f64 {
    1.0 - lower(trials - successes, trials, alpha)
}

/// The largest argument between 0 and 1 at which a falling condition still holds.
fn bisect(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

/// The probability of so many successes or more: the incomplete beta function $I_p(k, n-k+1)$.
fn at_least(successes: u64, trials: u64, p: f64) -> f64 {
    let (a, b) = (successes as f64, (trials - successes) as f64 + 1.0);
    if p <= 0.0 || p >= 1.0 {
        return p.clamp(0.0, 1.0);
    }
    let scale = (libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * p.ln() + b * (-p).ln_1p()).exp();
    // The continued fraction converges fast on the side of the mean where it is used.
    if p < (a + 1.0) / (a + b + 2.0) {
        scale * fraction(a, b, p) / a
    } else {
        1.0 - scale * fraction(b, a, 1.0 - p) / b
    }
}

/// The continued fraction of the incomplete beta function, by Lentz's method.
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    let away = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for m in 1..10_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for term in [even, odd] {
            d = 1.0 / away(1.0 + term * d);
            c = away(1.0 + term / c);
            value *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tail summed term by term, each from the one before.
    fn tail(successes: u64, trials: u64, p: f64) -> f64 {
        let mut term = (trials as f64 * (-p).ln_1p()).exp();
        let mut total = 0.0;
        for k in 0..=trials {
            if k >= successes {
                total += term;
            }
            term *= (trials - k) as f64 / (k + 1) as f64 * p / (1.0 - p);
        }
        total
    }

    #[test]
    fn tails_are_those_of_the_sum() {
        for trials in [1u64, 2, 7, 40, 300] {
            for successes in [1, trials.div_ceil(3), trials.div_ceil(2), trials] {
                for p in [0.001, 0.1, 0.37, 0.5, 0.8] {
                    let (ours, summed) = (at_least(successes, trials, p), tail(successes, trials, p));
                    assert!((ours - summed).abs() < 1e-11, "{successes} of {trials} at {p}: {ours} and {summed}");
                }
            }
        }
    }

    #[test]
    fn bounds_at_the_ends_are_known() {
        assert_eq!((lower(0, 50, 0.05), upper(50, 50, 0.05)), (0.0, 1.0));
        assert!((upper(0, 50, 0.05) - (1.0 - 0.05f64.powf(1.0 / 50.0))).abs() < 1e-12);
        assert!((lower(50, 50, 0.05) - 0.05f64.powf(1.0 / 50.0)).abs() < 1e-12);
        // Clopper and Pearson's 95% interval for 10 of 20.
        assert!((lower(10, 20, 0.025) - 0.271_957).abs() < 1e-6 && (upper(10, 20, 0.025) - 0.728_043).abs() < 1e-6);
    }

    /// Over all counts that there can be, the bound is above the truth with probability at most alpha.
    #[test]
    fn bounds_cover_the_truth() {
        for p in [0.02, 0.3, 0.77] {
            let missed = |alpha| {
                let above = |k: &u64| lower(*k, 60, alpha) > p;
                (0..=60).filter(above).map(|k| tail(k, 60, p) - tail(k + 1, 60, p)).sum::<f64>()
            };
            for alpha in [0.05, 0.01] {
                assert!(missed(alpha) <= alpha, "{p} {alpha}: {}", missed(alpha));
            }
        }
    }
}
