//! Public randomness: the draws that describe a feature map. Never noise.

use sha2::{Digest, Sha256};

use crate::math;

/// A reproducible stream of public random numbers, defined by a label and a seed.
///
/// The state starts as the first eight bytes (little-endian) of the SHA-256 of `label:seed` in decimal, and
/// words follow by SplitMix64. Any language reproduces it in a few lines; the draws are public, so nothing
/// rests on their being hard to guess.
pub(crate) struct PublicStream {
    state: u64,
    spare: Option<f64>,
}

impl PublicStream {
    pub fn new(label: &str, seed: u64) -> Self {
        let digest = Sha256::digest(format!("{label}:{seed}"));
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        Self { state: u64::from_le_bytes(first), spare: None }
    }

    pub fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform on the open interval (0, 1): an odd multiple of 2⁻⁵³.
    pub fn uniform(&mut self) -> f64 {
        ((self.word() >> 12) * 2 + 1) as f64 / (1u64 << 53) as f64
    }

    /// Uniform on 0..n, by rejection.
    pub fn below(&mut self, n: u64) -> u64 {
        loop {
            let wide = u128::from(self.word()) * u128::from(n);
            // The limit below which a word is rejected is less than n: most need no division.
            if wide as u64 >= n || wide as u64 >= n.wrapping_neg() % n {
                return (wide >> 64) as u64;
            }
        }
    }

    /// Standard normal (Box–Muller: the cosine first, then the sine of the same pair of words).
    pub fn normal(&mut self) -> f64 {
        if let Some(z) = self.spare.take() {
            return z;
        }
        let radius = (-2.0 * math::ln(self.uniform())).sqrt();
        let (c, s) = math::cos_sin_turns(self.uniform());
        self.spare = Some(radius * s);
        radius * c
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words are part of the format: a release names a seed and everyone must draw the same map.
    #[test]
    fn words_are_pinned() {
        let mut stream = PublicStream::new("rff", 0);
        let words: Vec<u64> = (0..3).map(|_| stream.word()).collect();
        assert_eq!(words, [0x7560_6c28_2e00_2b2e, 0xc077_6a1e_7503_f803, 0xff0e_4297_ccd4_0bea]);
    }

    /// Five standard errors: a false alarm has probability below 10⁻⁵, and the seed is fixed.
    #[test]
    fn normals_have_the_right_moments() {
        let mut stream = PublicStream::new("test", 1);
        let n = 400_000;
        let (mut m1, mut m2, mut m4) = (0.0, 0.0, 0.0);
        for _ in 0..n {
            let z = stream.normal();
            m1 += z;
            m2 += z * z;
            m4 += z.powi(4);
        }
        let n = f64::from(n);
        assert!((m1 / n).abs() < 5.0 / n.sqrt());
        assert!((m2 / n - 1.0).abs() < 5.0 * (2.0 / n).sqrt());
        assert!((m4 / n - 3.0).abs() < 5.0 * (96.0 / n).sqrt());
    }
}
