//! Exact noise on the integers, by integer arithmetic alone (after Canonne, Kamath and Steinke 2020).
//!
//! Each sampler's doc states its output distribution. No floating-point number enters: what the proof says
//! about the distribution is true of the program.
#![deny(clippy::float_arithmetic)]

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::Error;

/// A positive rational number, the scale of a noise distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawScale")]
pub struct Scale {
    numerator: u64,
    denominator: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScale {
    numerator: u64,
    denominator: u64,
}

impl TryFrom<RawScale> for Scale {
    type Error = Error;
    fn try_from(raw: RawScale) -> Result<Self, Error> {
        Self::new(raw.numerator, raw.denominator)
            .ok_or_else(|| Error::Release("a noise scale is out of range; the file is damaged".into()))
    }
}

impl Scale {
    /// Both parts are at least 1 and the numerator is below 2⁵⁶, so that no sampler overflows.
    pub fn new(numerator: u64, denominator: u64) -> Option<Self> {
        ((1..1 << 56).contains(&numerator) && (1..=1 << 32).contains(&denominator))
            .then_some(Self { numerator, denominator })
    }

    /// The upper part.
    pub fn numerator(self) -> u64 {
        self.numerator
    }

    /// The lower part.
    pub fn denominator(self) -> u64 {
        self.denominator
    }
}

/// The only source of noise: ChaCha20 keyed with 32 bytes from the operating system.
///
/// There is no way to seed it outside the tests of this crate.
pub struct NoiseSource {
    rng: ChaCha20Rng,
    coins: u64,
    left: u32,
}

impl NoiseSource {
    /// A fresh source.
    pub fn from_os() -> Result<Self, Error> {
        let mut key = [0u8; 32];
        getrandom::fill(&mut key).map_err(|error| Error::Random(error.to_string()))?;
        Ok(Self::from_key(key))
    }

    fn from_key(key: [u8; 32]) -> Self {
        Self { rng: ChaCha20Rng::from_seed(key), coins: 0, left: 0 }
    }

    /// A source that can be repeated, for the tests of this crate alone.
    #[cfg(test)]
    pub(crate) fn seeded(seed: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Self::from_key(key)
    }

    /// A fair coin.
    fn coin(&mut self) -> bool {
        if self.left == 0 {
            self.coins = self.rng.next_u64();
            self.left = 64;
        }
        let heads = self.coins & 1 == 1;
        self.coins >>= 1;
        self.left -= 1;
        heads
    }

    /// Uniform on 0..n, for n ≥ 1 (Lemire's rejection).
    fn below(&mut self, n: u64) -> u64 {
        let mut wide = u128::from(self.rng.next_u64()) * u128::from(n);
        if (wide as u64) < n {
            let reject = n.wrapping_neg() % n;
            while (wide as u64) < reject {
                wide = u128::from(self.rng.next_u64()) * u128::from(n);
            }
        }
        (wide >> 64) as u64
    }

    /// True with probability 1/k.
    fn one_in(&mut self, k: u64) -> bool {
        if k == 2 { self.coin() } else { self.below(k) == 0 }
    }

    /// True with probability $e^{-1}$: the number of leading successes of Bernoulli(1/k), k = 1, 2, …, is even
    /// with probability $\sum_k (-1)^k/k!$.
    fn exp_minus_one(&mut self) -> bool {
        let mut k = 2;
        while self.one_in(k) {
            k += 1;
        }
        k % 2 == 1
    }

    /// True with probability $e^{-u/t}$ for 0 ≤ u ≤ t: the same with Bernoulli(u/(tk)).
    fn exp_minus_ratio(&mut self, u: u64, t: u64) -> bool {
        let mut k = 1;
        while (k == 1 || self.one_in(k)) && self.below(t) < u {
            k += 1;
        }
        k % 2 == 1
    }

    /// $P(X = x) = (1 - e^{-1/t})\, e^{-x/t}$ for x = 0, 1, 2, … with t = `scale`.
    ///
    /// With t = a/b: u in 0..a weighted by $e^{-u/a}$ and v geometric with ratio $e^{-1}$ make u + av geometric
    /// with ratio $e^{-1/a}$; its quotient by b is geometric with ratio $e^{-b/a}$.
    pub fn geometric(&mut self, scale: Scale) -> u128 {
        let a = scale.numerator;
        let u = loop {
            let u = self.below(a);
            if self.exp_minus_ratio(u, a) {
                break u;
            }
        };
        let mut v = 0u64;
        while self.exp_minus_one() {
            v += 1;
        }
        (u128::from(u) + u128::from(a) * u128::from(v)) / u128::from(scale.denominator)
    }

    /// Discrete Laplace: $P(X = x) \propto e^{-|x|/t}$ on the integers, with t = `scale`.
    pub fn laplace(&mut self, scale: Scale) -> i128 {
        loop {
            let negative = self.coin();
            let size = self.geometric(scale) as i128;
            if !(negative && size == 0) {
                return if negative { -size } else { size };
            }
        }
    }

    /// Discrete Gaussian: $P(X = x) \propto e^{-x^2/2\sigma^2}$ on the integers, with σ = `sigma`.
    ///
    /// A discrete Laplace y of scale σ is kept with probability $e^{-(|y|-\sigma)^2/2\sigma^2}$; the product of the
    /// two densities is the Gaussian one up to a constant.
    pub fn gaussian(&mut self, sigma: Scale) -> i128 {
        let (a, b) = (u128::from(sigma.numerator), u128::from(sigma.denominator));
        loop {
            let y = self.laplace(sigma);
            // Saturation needs |y| ≥ 2⁶⁴/b, hence |y| ≥ 2⁸σ: the true probability is then below e^(-2¹⁴).
            let distance = y.unsigned_abs().saturating_mul(b).abs_diff(a);
            if self.exp_minus_square(distance.saturating_mul(distance), sigma.numerator) {
                return y;
            }
        }
    }

    /// True with probability $e^{-n/2a^2}$.
    fn exp_minus_square(&mut self, n: u128, a: u64) -> bool {
        let wide = u128::from(a);
        let full = 2 * wide * wide;
        for _ in 0..n / full {
            if !self.exp_minus_one() {
                return false;
            }
        }
        // Bernoulli(rest/2a²) compares a uniform number below 2a², drawn as two digits, with the rest.
        let rest = n % full;
        let (high, low) = ((rest / wide) as u64, (rest % wide) as u64);
        let mut k = 1;
        loop {
            if k > 1 && !self.one_in(k) {
                break;
            }
            let digit = self.below(2 * a);
            if digit > high || (digit == high && self.below(a) >= low) {
                break;
            }
            k += 1;
        }
        k % 2 == 1
    }

    /// K-norm noise for a product of discs, into pairs: draws ρ as [`Self::radius`] does, and then each pair uniformly
    /// among the integer points of the disc of radius ρ.
    ///
    /// PRIVACY.md, Theorem 4, bounds the ratio of its probabilities at neighbouring points.
    pub fn disc_knorm(&mut self, scale: Scale, minimum: u64, out: &mut [i128]) {
        let radius = self.radius(out.len(), scale, minimum);
        for pair in out.chunks_exact_mut(2) {
            loop {
                let x = i128::from(self.below(2 * radius + 1)) - i128::from(radius);
                let y = i128::from(self.below(2 * radius + 1)) - i128::from(radius);
                if (x * x + y * y) as u128 <= u128::from(radius) * u128::from(radius) {
                    pair.copy_from_slice(&[x, y]);
                    break;
                }
            }
        }
    }

    /// The radius of K-norm noise on so many coordinates: the sum of one more geometric variables of the given scale,
    /// again until it is at least `minimum`.
    pub fn radius(&mut self, coordinates: usize, scale: Scale, minimum: u64) -> u64 {
        loop {
            let radius: u128 = (0..=coordinates).map(|_| self.geometric(scale)).sum();
            if radius >= u128::from(minimum) {
                // Beyond 2⁶² only with probability below e^(-170), as the calibration keeps the mean below 2⁵⁶.
                return radius.min(1 << 62) as u64;
            }
        }
    }

    /// Uniform on the integer points with Σ|x| ≤ `radius`.
    ///
    /// Choosing k of radius + k places is choosing k numbers ≥ 0 with a sum of at most the radius: the gaps before the
    /// chosen places. Each number then gets a sign by a coin, and all is drawn again if a zero got a minus: every point is
    /// reached by one choice of places and one of signs.
    pub fn cross_polytope(&mut self, radius: u64, out: &mut [i128]) {
        let mut places = vec![0; out.len()];
        loop {
            places.iter_mut().for_each(|place| *place = self.below(radius + out.len() as u64));
            places.sort_unstable();
            // Places that are not distinct are drawn again, all of them.
            if places.windows(2).any(|pair| pair[0] == pair[1]) {
                continue;
            }
            let mut next = 0;
            let mut fits = true;
            for (x, place) in out.iter_mut().zip(&places) {
                let (size, negative) = (i128::from(place - next), self.coin());
                fits &= !(negative && size == 0);
                *x = if negative { -size } else { size };
                next = place + 1;
            }
            if fits {
                return;
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::float_arithmetic)]
mod tests {
    use super::*;

    fn source(seed: u8) -> NoiseSource {
        NoiseSource::from_key([seed; 32])
    }

    /// Pearson's statistic of draws against a probability mass function on -range..=range (the rest pooled), as a
    /// number of standard deviations. Cells with few expected draws are pooled too.
    fn chi_square(mut draw: impl FnMut() -> i128, weight: impl Fn(f64) -> f64, range: i128, n: usize) -> f64 {
        let wide = 60 * range;
        let total: f64 = (-wide..=wide).map(|x| weight(x as f64)).sum();
        let mut counts = vec![0.0; (2 * range + 1) as usize];
        for _ in 0..n {
            let x = draw();
            if x.abs() <= range {
                counts[(x + range) as usize] += 1.0;
            }
        }
        let (mut statistic, mut cells, mut seen, mut expected_seen) = (0.0, 0.0, 0.0, 0.0);
        for (i, count) in counts.iter().enumerate() {
            let expected = n as f64 * weight((i as i128 - range) as f64) / total;
            if expected >= 10.0 {
                statistic += (count - expected).powi(2) / expected;
                cells += 1.0;
                seen += count;
                expected_seen += expected;
            }
        }
        let (seen, expected) = (n as f64 - seen, n as f64 - expected_seen);
        if expected > 1.0 {
            statistic += (seen - expected).powi(2) / expected;
            cells += 1.0;
        }
        let degrees: f64 = cells - 1.0;
        (statistic - degrees) / (2.0 * degrees).sqrt()
    }

    /// Seeded; over seeds, exceeding 5 standard deviations of χ² has probability below 10⁻⁵ per case.
    #[test]
    fn samplers_follow_their_mass_functions() {
        for (i, (a, b)) in [(1, 1), (1, 3), (5, 2), (10, 1), (51, 5), (37, 8)].into_iter().enumerate() {
            let scale = Scale::new(a, b).unwrap();
            let t = a as f64 / b as f64;
            let range = (12.0 * t).ceil() as i128 + 2;
            let mut noise = source(i as u8);
            let z = chi_square(|| noise.laplace(scale), |x| (-x.abs() / t).exp(), range, 1_000_000);
            assert!(z.abs() < 5.0, "laplace {a}/{b}: {z}");
            let z = chi_square(|| noise.gaussian(scale), |x| (-x * x / (2.0 * t * t)).exp(), range, 1_000_000);
            assert!(z.abs() < 5.0, "gaussian {a}/{b}: {z}");
            let z = chi_square(
                || noise.geometric(scale) as i128,
                |x| if x < 0.0 { 0.0 } else { (-x / t).exp() },
                range,
                1_000_000,
            );
            assert!(z.abs() < 5.0, "geometric {a}/{b}: {z}");
        }
    }

    /// At scales as large as Fourier features have, moments up to the fourth; 5 standard errors.
    #[test]
    fn noise_variance_is_as_stated() {
        let scale = Scale::new((141 << 20) * 3, 3).unwrap();
        let t = (141u64 << 20) as f64;
        let n = 400_000;
        let mut noise = source(99);
        let moments = |draws: Vec<f64>| {
            let power = |k| draws.iter().map(|x: &f64| x.powi(k)).sum::<f64>() / n as f64;
            (power(1), power(2), power(4))
        };
        let (m1, m2, m4) = moments((0..n).map(|_| noise.laplace(scale) as f64 / t).collect());
        let root = (n as f64).sqrt();
        assert!(m1.abs() < 5.0 * 2f64.sqrt() / root && (m2 - 2.0).abs() < 5.0 * 20f64.sqrt() / root);
        assert!((m4 - 24.0).abs() < 5.0 * 39744f64.sqrt() / root);
        let (m1, m2, m4) = moments((0..n).map(|_| noise.gaussian(scale) as f64 / t).collect());
        assert!(
            m1.abs() < 5.0 / root
                && (m2 - 1.0).abs() < 5.0 * 2f64.sqrt() / root
                && (m4 - 3.0).abs() < 5.0 * 96f64.sqrt() / root
        );
    }

    /// Noise of a product of discs: the mechanism's own distribution in the smallest case, against the mass function
    /// of Theorem 4 summed by brute force.
    #[test]
    fn disc_noise_follows_its_mass_function() {
        let (scale, minimum) = (Scale::new(3, 1).unwrap(), 3u64);
        let q = (-1.0f64 / 3.0).exp();
        let points = |r: i64| {
            (-r..=r).flat_map(|x| (-r..=r).map(move |y| (x, y))).filter(|(x, y)| x * x + y * y <= r * r).count()
        };
        let weights: Vec<f64> = (0..120i64)
            .map(|r| if r < 3 { 0.0 } else { ((r + 1) * (r + 2)) as f64 / 2.0 * q.powi(r as i32) / points(r) as f64 })
            .collect();
        let mass = |x: i64, y: i64| {
            let norm = x * x + y * y;
            weights.iter().enumerate().filter(|(r, _)| (r * r) as i64 >= norm).map(|(_, w)| w).sum::<f64>()
        };
        let total: f64 = (-119..120).flat_map(|x| (-119..120).map(move |y| (x, y))).map(|(x, y)| mass(x, y)).sum();
        let n = 1_000_000;
        let mut noise = source(5);
        let mut counts = std::collections::HashMap::new();
        for _ in 0..n {
            let mut pair = [0; 2];
            noise.disc_knorm(scale, minimum, &mut pair);
            *counts.entry((pair[0] as i64, pair[1] as i64)).or_insert(0.0) += 1.0;
        }
        let (mut statistic, mut cells) = (0.0, 0.0f64);
        for x in -30..=30 {
            for y in -30..=30 {
                let expected = n as f64 * mass(x, y) / total;
                if expected >= 10.0 {
                    statistic += (counts.get(&(x, y)).unwrap_or(&0.0) - expected).powi(2) / expected;
                    cells += 1.0;
                }
            }
        }
        let z = (statistic - cells) / (2.0 * cells).sqrt();
        assert!(z.abs() < 5.0, "{z}");
    }

    /// Points of a cross-polytope: all of them, each as often as any other.
    #[test]
    fn cross_polytopes_are_filled_evenly() {
        for (size, radius) in [(1usize, 4i64), (2, 3), (3, 2), (2, 6), (4, 1)] {
            let mut points = vec![vec![]];
            for _ in 0..size {
                points = points.iter().flat_map(|p| (-radius..=radius).map(move |x| [&p[..], &[x]].concat())).collect();
            }
            points.retain(|point: &Vec<i64>| point.iter().map(|x| x.abs()).sum::<i64>() <= radius);
            let mut noise = source(size as u8);
            let mut counts = std::collections::HashMap::new();
            let n = 4000 * points.len();
            for _ in 0..n {
                let mut point = vec![0; size];
                noise.cross_polytope(radius as u64, &mut point);
                *counts.entry(point.iter().map(|x| *x as i64).collect::<Vec<_>>()).or_insert(0.0) += 1.0;
            }
            assert_eq!(counts.len(), points.len());
            let statistic: f64 =
                points.iter().map(|point| (counts.get(point).unwrap_or(&0.0) - 4000.0f64).powi(2) / 4000.0).sum();
            let degrees = points.len() as f64 - 1.0;
            let z = (statistic - degrees) / (2.0 * degrees).sqrt();
            assert!(z.abs() < 5.0, "{size} {radius}: {z}");
        }
    }

    /// The radius is a sum of geometric variables, cut off below.
    #[test]
    fn radii_follow_their_mass_function() {
        let (t, m, minimum) = (3.0f64, 4, 5.0);
        let binomial = |x: f64| (1..=m).map(|i| (x + f64::from(i)) / f64::from(i)).product::<f64>();
        let mass = |x: f64| if x < minimum { 0.0 } else { binomial(x) * (-x / t).exp() };
        let mut noise = source(8);
        let z = chi_square(|| i128::from(noise.radius(4, Scale::new(3, 1).unwrap(), 5)), mass, 80, 1_000_000);
        assert!(z.abs() < 5.0, "{z}");
    }

    #[test]
    fn sources_differ() {
        let mut draws: Vec<_> = (0..4).map(|_| NoiseSource::from_os().unwrap().rng.next_u64()).collect();
        draws.dedup();
        assert_eq!(draws.len(), 4);
    }
}
