//! From a budget to noise scales. Scales are computed in floating point, then enlarged by more than the rounding
//! can have cost, then rounded up to a rational: the exact inequality holds for what is used.

use std::collections::BTreeMap;

use crate::Error;
use crate::privatise::Scale;

/// Relative room for the rounding of a dozen operations in double precision.
const ROOM: f64 = 1e-12;

/// The smallest scale on the grid that is at least `value` (1 + 10⁻¹²).
pub(crate) fn round_up(value: f64) -> Result<Scale, Error> {
    let value = value * (1.0 + ROOM);
    let mut denominator = 1u64 << 30;
    while denominator > 1 && value * denominator as f64 >= (1u64 << 42) as f64 {
        denominator >>= 1;
    }
    let numerator = (value * denominator as f64).ceil();
    if numerator.is_nan() || numerator >= (1u64 << 56) as f64 {
        return Err(Error::Budget(
            "the budget is so small that the noise overflows; give a larger one or a smaller map".into(),
        ));
    }
    Ok(Scale::new((numerator as u64).max(1), denominator).expect("in range"))
}

/// The scale as a number.
pub(crate) fn to_f64(scale: Scale) -> f64 {
    scale.numerator() as f64 / scale.denominator() as f64
}

/// $\delta(\varepsilon)$ of Gaussian noise with $\mu = \Delta_2/\sigma$ (Balle and Wang 2018, Theorem 8).
pub(crate) fn gaussian_delta(epsilon: f64, mu: f64) -> f64 {
    let below = |x: f64| 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
    below(mu / 2.0 - epsilon / mu) - epsilon.exp() * below(-mu / 2.0 - epsilon / mu)
}

/// An upper bound on the δ that ρ-zCDP implies at ε (Canonne, Kamath and Steinke 2020, Proposition 12). The bound
/// holds for every order α > 1, so an inexact minimum is still a bound.
pub(crate) fn concentrated_delta(epsilon: f64, rho: f64) -> f64 {
    let bound = |log_excess: f64| {
        let excess = log_excess.exp();
        let alpha = 1.0 + excess;
        excess * (alpha * rho - epsilon) - excess.ln() + alpha * (-1.0 / alpha).ln_1p()
    };
    let (mut low, mut high) = (-20.0, 20.0);
    while high - low > 1e-6 {
        let (a, b) = (low + (high - low) / 3.0, high - (high - low) / 3.0);
        if bound(a) < bound(b) { high = b } else { low = a }
    }
    bound(0.5 * (low + high)).exp().min(1.0)
}

/// The ε that ρ-zero-concentrated differential privacy implies at δ (PRIVACY.md, Theorem 3b), from above.
pub fn epsilon_of_rho(rho: f64, delta: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while concentrated_delta(high, rho) > delta {
        high *= 2.0;
    }
    while high - low > 1e-12 * high {
        let middle = 0.5 * (low + high);
        if concentrated_delta(middle, rho) > delta { low = middle } else { high = middle }
    }
    high
}

/// The largest argument between 10⁻²⁰ and 10⁴ at which an increasing function stays below a limit, less one part in 10⁹;
/// nothing if it does not there.
fn largest(limit: f64, increasing: impl Fn(f64) -> f64) -> Option<f64> {
    let (mut low, mut high) = (-46.0f64, 9.2f64);
    if increasing(low.exp()) > limit {
        return None;
    }
    while high - low > 1e-11 {
        let middle = 0.5 * (low + high);
        if increasing(middle.exp()) <= limit { low = middle } else { high = middle }
    }
    Some(low.exp() * (1.0 - 1e-9))
}

/// Which argument bounds the privacy of discrete Gaussian noise at (ε, δ).
#[derive(Clone, Copy, Debug)]
pub(crate) enum GaussianRule {
    /// Theorem 3a: as private as continuous noise of variance σ² - 2; holds $\mu = \Delta_2/\sqrt{\sigma^2-2}$.
    Analytic(f64),
    /// Theorem 3b: through ρ-zCDP, $\rho = \Delta_2^2/2\sigma^2$.
    Concentrated(f64),
}

/// Variance that Theorem 3a sets aside.
const SET_ASIDE: f64 = 2.0;
/// Per coordinate, twice the logarithm of the ratio in Theorem 3a (2κ/m < 2⁻⁵³).
const PER_COORDINATE: f64 = 1.0 / (1u64 << 53) as f64;

impl GaussianRule {
    /// The rules that apply to a budget and a number of noised coordinates.
    pub fn all(epsilon: f64, delta: f64, coordinates: usize) -> Vec<Self> {
        let slack = coordinates as f64 * PER_COORDINATE;
        let (reduced_epsilon, reduced_delta) = (epsilon - slack, delta * (1.0 - slack) * (1.0 - 1e-9));
        // Beyond these bounds the difference of the two terms of δ loses its digits, or the exponential overflows.
        let computable = (1e-6..=300.0).contains(&epsilon) && reduced_epsilon > 0.0 && reduced_delta > 0.0;
        let analytic = if computable { largest(reduced_delta, |mu| gaussian_delta(reduced_epsilon, mu)) } else { None };
        let concentrated = largest(delta * (1.0 - 1e-9), |rho| concentrated_delta(epsilon, rho));
        analytic.map(Self::Analytic).into_iter().chain(concentrated.map(Self::Concentrated)).collect()
    }

    /// σ of a block with the given share of the budget.
    pub fn sigma(self, l2_squared: f64, share: f64) -> f64 {
        match self {
            Self::Analytic(mu) => (l2_squared / (mu * mu * share) + SET_ASIDE).sqrt(),
            Self::Concentrated(rho) => (l2_squared / (2.0 * rho * share)).sqrt(),
        }
    }
}

/// η of Theorem 4: how much the ratio of disc noise at neighbouring points can exceed $e^{B/t}$, in the exponent.
///
/// $$\eta = \sum_{i=1}^{m} \ln\frac{(R+i)(R+B+h)}{(R+B+i)(R-h)},\qquad h = \sqrt{1/2},\ m = 2\cdot\text{pairs}$$
/// with R the minimum radius and B the radius of the discs.
pub(crate) fn disc_slack(pairs: u64, radius: f64, minimum: f64) -> f64 {
    const HALF_DIAGONAL: f64 = 0.707_106_782;
    (1..=2 * pairs)
        .map(|i| {
            let i = i as f64;
            ((i + HALF_DIAGONAL) / (minimum - HALF_DIAGONAL)).ln_1p()
                - ((i - HALF_DIAGONAL) / (minimum + radius + HALF_DIAGONAL)).ln_1p()
        })
        .sum()
}

/// Scale and minimum radius of disc noise that is ε-private, or nothing when no scale is.
pub(crate) fn disc_noise(pairs: u64, radius: f64, epsilon: f64) -> Result<(Scale, u64), Error> {
    let mut target = epsilon;
    // The slack shrinks as the scale grows: a few rounds settle it, and the last line checks.
    for _ in 0..50 {
        let scale = round_up(radius / target)?;
        let minimum = (pairs as f64 * to_f64(scale)).ceil();
        let slack = disc_slack(pairs, radius, minimum) * (1.0 + 1e-6) + 1e-15 * pairs as f64;
        // The mean radius stays below 2⁵⁶, so that a radius beyond the sampler's 2⁶² has probability below e^(-170).
        if 2.0 * (pairs + 1) as f64 * to_f64(scale) >= (1u64 << 56) as f64 {
            return Err(Error::Budget(
                "the budget is so small that the noise overflows; give a larger one or a smaller map".into(),
            ));
        }
        if minimum >= 1.0 && radius / to_f64(scale) * (1.0 + ROOM) + slack <= epsilon {
            return Ok((scale, minimum as u64));
        }
        target = (epsilon - slack).max(target * 0.5).min(target * (1.0 - 1e-9));
    }
    Err(Error::Budget("epsilon is too large for K-norm noise of these features; use Laplace noise".into()))
}

/// One-hot groups of the same size, whose noise has a common radius.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    /// Coordinates of each group.
    pub size: usize,
    /// How many groups.
    pub groups: usize,
    /// Scale of the geometric variables that add up to the radius.
    pub scale: Scale,
    /// The smallest radius.
    pub minimum: u64,
}

/// K-norm noise for one-hot groups of given sizes, all with the same standard deviation on a fine lattice; the classes by
/// increasing size. Nothing where that is too small or too large to be drawn.
///
/// A uniform point of a cross-polytope of radius ρ has variance 2ρ²/((k+1)(k+2)) per coordinate, and ρ is nearly
/// Gamma(m + 1) for m coordinates in all. Nothing but basic operations and roots is used, which give the same numbers on
/// every machine.
pub(crate) fn classes(deviation: u64, sizes: &[usize]) -> Option<Vec<Class>> {
    let class = |(size, groups): (usize, usize)| {
        let (k, m) = (size as f64, (size * groups) as f64);
        let scale = (deviation as f64 / spread(size, groups)).ceil();
        let minimum = (0.125 * m * scale).ceil();
        // The minimum is beyond twice the h of Theorem 4, and the mean radius below 2⁵⁶.
        let fits = minimum > k && 2.0 * (m + 1.0) * scale < (1u64 << 56) as f64;
        let scale = if fits { Scale::new(scale as u64, 1) } else { None };
        Some(Class { size, groups, scale: scale?, minimum: minimum as u64 })
    };
    by_size(sizes).into_iter().map(class).collect()
}

/// How many groups there are of each size.
fn by_size(sizes: &[usize]) -> BTreeMap<usize, usize> {
    let mut groups = BTreeMap::new();
    sizes.iter().for_each(|size| *groups.entry(*size).or_insert(0) += 1);
    groups
}

/// The standard deviation of a coordinate for a scale of 1.
fn spread(size: usize, groups: usize) -> f64 {
    let (k, m) = (size as f64, (size * groups) as f64);
    (2.0 * ((m + 1.0) * (m + 2.0)) / ((k + 1.0) * (k + 2.0))).sqrt()
}

/// What noise costs, from above, if each group moves by at most `reach` in L1: Σ B/t + η of Theorem 4 over the classes.
///
/// With R the minimum radius and h = k/2, η is at most
/// $$m\Bigl[\ln\Bigl(1+\frac{B+2h}{R-h}\Bigr) - \ln\Bigl(1+\frac{B}{R+(m+1)/2}\Bigr)\Bigr]$$
/// as ln(1 + B/(R+i)) is convex in i, so that its sum over i = 1 … m is at least m times its value in the middle.
pub(crate) fn cost(classes: &[Class], reach: f64) -> f64 {
    let of = |class: &Class| {
        let (k, m, r) = (class.size as f64, (class.size * class.groups) as f64, class.minimum as f64);
        let slack = m * (((reach + k) / (r - 0.5 * k)).ln_1p() - (reach / (r + 0.5 * (m + 1.0))).ln_1p());
        reach / to_f64(class.scale) * (1.0 + ROOM) + slack * (1.0 + 1e-6) + 1e-15 * m
    };
    classes.iter().map(of).sum::<f64>() * (1.0 + ROOM)
}

/// The standard deviation, on the fine lattice, of K-norm noise that is ε-private for one-hot groups that each move by at
/// most `reach`; nothing when there is none.
pub(crate) fn one_hot_noise(sizes: &[usize], reach: f64, epsilon: f64) -> Option<u64> {
    // But for slack and rounding, the cost is the sum of reach times spread over the deviation.
    let spreads: f64 = by_size(sizes).into_iter().map(|(size, groups)| spread(size, groups)).sum();
    let mut deviation = reach * spreads / epsilon;
    // Scales are whole numbers, so that a little more noise may change nothing: each step is at least twice the last.
    let mut step = 1e-9;
    for _ in 0..50 {
        let whole = deviation.ceil();
        if !(1.0..(1u64 << 56) as f64).contains(&whole) {
            return None;
        }
        let cost = cost(&classes(whole as u64, sizes)?, reach);
        if cost <= epsilon {
            return Some(whole as u64);
        }
        deviation = whole * (cost / epsilon).max(1.0 + step);
        step *= 2.0;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Values from the Gaussian mechanism's literature: σ = 3.7306 at (1, 1e-5) for Δ = 1.
    #[test]
    fn known_calibrations() {
        let GaussianRule::Analytic(mu) = GaussianRule::all(1.0, 1e-5, 1)[0] else { panic!() };
        assert!((1.0 / mu - 3.7306).abs() < 1e-4, "{}", 1.0 / mu);
        assert!((gaussian_delta(1.0, 1.0) - 0.126_936_737_506_645_9).abs() < 1e-12);
        // Balle and Wang's formula never exceeds the bound by zCDP.
        for epsilon in [0.1, 1.0, 5.0] {
            for mu in [0.01f64, 0.2, 1.0] {
                assert!(gaussian_delta(epsilon, mu) <= concentrated_delta(epsilon, mu * mu / 2.0) * (1.0 + 1e-9));
            }
        }
    }

    /// The exact δ of discrete Gaussian noise on one coordinate, summed over the integers.
    fn discrete_delta(epsilon: f64, sigma: f64, shift: i64) -> f64 {
        let reach = (40.0 * sigma) as i64 + 50 + shift;
        let density = |x: i64| (-(x as f64).powi(2) / (2.0 * sigma * sigma)).exp();
        let total: f64 = (-reach..=reach).map(density).sum();
        (-reach..=reach + shift).map(|x| (density(x) - epsilon.exp() * density(x - shift)).max(0.0)).sum::<f64>()
            / total
    }

    #[test]
    fn discrete_gaussian_keeps_delta() {
        for epsilon in [0.05, 0.3, 1.0, 3.0, 10.0, 40.0] {
            for delta in [1e-9, 1e-6, 1e-3] {
                for rule in GaussianRule::all(epsilon, delta, 1) {
                    for shift in [1i64, 2, 7] {
                        let sigma = to_f64(round_up(rule.sigma((shift * shift) as f64, 1.0)).unwrap());
                        let exact = discrete_delta(epsilon, sigma, shift);
                        assert!(exact <= delta, "{rule:?} at {epsilon}, {delta}, shift {shift}: {exact}");
                    }
                }
            }
        }
    }

    /// Theorem 4 by brute force in two dimensions: the ratio of the mass function at all pairs of points at distance
    /// at most B, near and far from the origin.
    #[test]
    fn disc_noise_keeps_its_ratio() {
        for (radius, epsilon) in [(7i64, 1.0), (12, 0.8), (20, 2.0)] {
            let (scale, minimum) = disc_noise(1, radius as f64, epsilon).unwrap();
            let t = to_f64(scale);
            let top = (80.0 * t) as i64 + minimum as i64;
            let points = |r: i64| (-r..=r).map(|x| 2 * ((r * r - x * x) as f64).sqrt().floor() as i64 + 1).sum::<i64>();
            let weight = |r: i64| ((r + 1) * (r + 2)) as f64 / 2.0 * (-(r as f64) / t).exp() / points(r) as f64;
            let mut tail = vec![0.0; top as usize + 2];
            for r in (0..=top).rev() {
                tail[r as usize] = tail[r as usize + 1] + if r >= minimum as i64 { weight(r) } else { 0.0 };
            }
            let worst = (0..top / 2).map(|r| (tail[r as usize] / tail[(r + radius) as usize]).ln()).fold(0.0, f64::max);
            assert!(worst <= epsilon, "{radius} {epsilon}: {worst}");
            assert!(worst > 0.5 * epsilon);
        }
    }

    #[test]
    fn disc_noise_is_close_to_its_ideal_scale() {
        let radius = ((1u64 << 20) + 1) as f64;
        let (scale, _) = disc_noise(100, radius, 1.0).unwrap();
        assert!(to_f64(scale) / radius < 1.00002, "{}", to_f64(scale) / radius);
    }

    /// The numbers of integer points with Σ|x| ≤ r in k dimensions for r up to some radius, one coordinate after the other.
    fn cross_polytope_points(k: usize, top: usize) -> Vec<f64> {
        let mut points = vec![1.0; top + 1];
        for _ in 0..k {
            let mut inside = 0.0;
            let add = |points: &f64| {
                let here = points + 2.0 * inside;
                inside += points;
                here
            };
            points = points.iter().map(add).collect();
        }
        points
    }

    /// Theorem 4 by brute force: what a change by `reach` in every group costs at all distances from the origin, for each
    /// class by itself and for all together.
    #[test]
    fn one_hot_noise_keeps_its_ratio() {
        for (sizes, reach, epsilon) in [
            (vec![2usize, 2], 120usize, 1.0),
            (vec![3, 3, 3], 200, 0.7),
            (vec![2, 4, 2, 4], 300, 2.0),
            (vec![5], 150, 0.5),
            (vec![1; 5], 300, 2.0),
            (vec![1], 1000, 0.5),
        ] {
            let deviation = one_hot_noise(&sizes, reach as f64, epsilon).unwrap();
            let classes = classes(deviation, &sizes).unwrap();
            let mut total = 0.0;
            for class in &classes {
                let (m, t) = (class.size * class.groups, to_f64(class.scale));
                let top = (40.0 * t) as usize + 4 * class.minimum as usize;
                let points = cross_polytope_points(class.size, top);
                let weight = |r: usize| {
                    let binomial: f64 = (1..=m).map(|i| ((r + i) as f64 / i as f64).ln()).sum();
                    (binomial - r as f64 / t - class.groups as f64 * points[r].ln()).exp()
                };
                let mut tail = vec![0.0; top + 2];
                for r in (0..=top).rev() {
                    tail[r] = tail[r + 1] + if r >= class.minimum as usize { weight(r) } else { 0.0 };
                }
                let worst = (0..top / 2).map(|r| (tail[r] / tail[r + reach]).ln()).fold(0.0, f64::max);
                assert!(worst > 0.5 * reach as f64 / t, "{sizes:?}: {worst}");
                total += worst;
            }
            assert!(total <= epsilon && total > 0.75 * epsilon, "{sizes:?} {reach} {epsilon}: {total}");
        }
    }

    /// The bound that is used for η is above the sum of Theorem 4, and close to it.
    #[test]
    fn slack_is_bounded_from_above() {
        for (size, groups, scale, reach) in
            [(2usize, 3usize, 40u64, 30.0), (1, 45, 1 << 20, 1e5), (9, 45, 1 << 20, 1e5), (289, 6, 1 << 26, 1e6)]
        {
            let m = size * groups;
            let minimum = (0.125 * m as f64 * scale as f64).ceil();
            let class = Class { size, groups, scale: Scale::new(scale, 1).unwrap(), minimum: minimum as u64 };
            let h = 0.5 * size as f64;
            let slack: f64 = (1..=m)
                .map(|i| {
                    let i = i as f64;
                    ((minimum + i) * (minimum + reach + h) / ((minimum + reach + i) * (minimum - h))).ln()
                })
                .sum();
            let bound = cost(&[class], reach) - reach / scale as f64;
            assert!(bound >= slack && bound < 1.2 * slack + 1e-9, "{size} {groups}: {bound}, {slack}");
        }
    }

    /// With many groups of k coordinates the noise is k/√((k+1)(k+2)) of Laplace noise; with one it is the same.
    #[test]
    fn one_hot_noise_is_close_to_its_ideal_deviation() {
        let unit = (1u64 << 20) as f64;
        for (sizes, ideal) in
            [(vec![9; 400], 9.0 / 110f64.sqrt()), (vec![25], 1.0), (vec![64; 400], 64.0 / (65f64 * 66.0).sqrt())]
        {
            let laplace = 2f64.sqrt() * sizes.len() as f64;
            let ratio = one_hot_noise(&sizes, unit, 1.0).unwrap() as f64 / unit / laplace;
            assert!((ratio / ideal - 1.0).abs() < 2e-3, "{}: {ratio}, not {ideal}", sizes.len());
        }
    }

    proptest! {
        /// Whatever the groups, there is noise for them, at most a fiftieth larger than without slack and rounding, and it
        /// costs no more than ε.
        #[test]
        fn one_hot_noise_is_found(
            sizes in prop::collection::vec(1usize..300, 1..60), repeat in 1usize..40, epsilon in 1e-3f64..20.0, rows in 1u32..50,
        ) {
            let sizes = sizes.repeat(repeat);
            let reach = f64::from(rows) * (1u64 << 20) as f64;
            let deviation = one_hot_noise(&sizes, reach, epsilon).unwrap();
            prop_assert!(cost(&classes(deviation, &sizes).unwrap(), reach) <= epsilon);
            let ideal: f64 = by_size(&sizes).into_iter().map(|(size, groups)| spread(size, groups)).sum::<f64>() * reach / epsilon;
            prop_assert!(deviation as f64 >= ideal && deviation as f64 <= 1.02 * ideal, "{}", deviation as f64 / ideal);
        }

        #[test]
        fn scales_round_up(value in 1e-9f64..1e16) {
            let scale = round_up(value).unwrap();
            prop_assert!(scale.numerator() as f64 >= value * scale.denominator() as f64);
            prop_assert!(to_f64(scale) <= value * (1.0 + 1e-9) + 1e-9);
        }
    }
}
