//! What one record can add to the sums.

use serde::{Deserialize, Serialize};

/// A set of integer vectors that contains the features of every record.
///
/// # Privacy
/// Sensitivities are computed from the body alone (`privatise::sensitivity`), so a map is as private as this
/// statement is true. For the maps of this crate it is a theorem (PRIVACY.md, Lemmas 1 to 3); for a map of
/// the user's it is made true by [`Body::enforce`] on every record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "shape", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Body {
    /// Consecutive pairs of coordinates, each in a disc about the origin: $c^2 + s^2 \le r^2$.
    Discs {
        /// How many pairs.
        pairs: u64,
        /// The radius r.
        radius: u64,
    },
    /// Groups of coordinates, in each of which exactly one is 1 and the others are 0.
    OneHot {
        /// How many groups.
        groups: u64,
    },
    /// Coordinates of which none is larger than some number, in size.
    Cube {
        /// How many coordinates.
        coordinates: u64,
        /// That number.
        radius: u64,
    },
    /// Any integers within two norms.
    Bounded {
        /// Bound on the sum of absolute values.
        l1: u64,
        /// Bound on the sum of squares.
        l2_squared: u64,
    },
}

impl Body {
    /// The largest size of one coordinate.
    pub fn largest(&self) -> u64 {
        match *self {
            Self::Discs { radius, .. } => radius,
            Self::Cube { radius, .. } => radius,
            Self::OneHot { .. } => 1,
            Self::Bounded { l1, l2_squared } => l1.min(l2_squared.isqrt()),
        }
    }

    /// Whether a vector lies in the body.
    pub fn contains(&self, features: &[i64]) -> bool {
        let square = |x: &i64| u128::from(x.unsigned_abs()).pow(2);
        match *self {
            Self::Discs { pairs, radius } => {
                features.len() as u64 == 2 * pairs
                    && features
                        .chunks_exact(2)
                        .all(|pair| square(&pair[0]) + square(&pair[1]) <= u128::from(radius).pow(2))
            }
            Self::OneHot { groups } => {
                features.iter().all(|x| (0..=1).contains(x))
                    && features.iter().filter(|x| **x == 1).count() as u64 == groups
            }
            Self::Cube { coordinates, radius } => {
                features.len() as u64 == coordinates && features.iter().all(|x| x.unsigned_abs() <= radius)
            }
            Self::Bounded { l1, l2_squared } => {
                features.iter().map(|x| u128::from(x.unsigned_abs())).sum::<u128>() <= u128::from(l1)
                    && features.iter().map(square).fold(0, u128::saturating_add) <= u128::from(l2_squared)
            }
        }
    }

    /// Pulls a vector into the body, toward zero. A vector that is in it already is not changed.
    ///
    /// Only [`Body::Bounded`] needs it: the other bodies belong to maps of this crate.
    pub fn enforce(&self, features: &mut [i64]) {
        let Self::Bounded { l1, l2_squared } = *self else { return };
        let largest = self.largest().min(i64::MAX as u64) as i64;
        for feature in features.iter_mut() {
            *feature = (*feature).clamp(-largest, largest);
        }
        // |x| ≤ 2⁶³ and at most 2³² features: neither sum overflows 128 bits once clamped by an L2 bound below 2⁶⁴.
        let sum: u128 = features.iter().map(|x| u128::from(x.unsigned_abs())).sum();
        if sum > u128::from(l1) {
            shrink(features, u128::from(l1), sum);
        }
        let squares: u128 = features.iter().map(|x| u128::from(x.unsigned_abs()).pow(2)).sum();
        if squares > u128::from(l2_squared) {
            shrink(features, u128::from(l2_squared.isqrt()), squares.isqrt() + 1);
        }
    }
}

/// Multiplies by `to / from` < 1, rounding toward zero.
fn shrink(features: &mut [i64], to: u128, from: u128) {
    for feature in features {
        let size = u128::from(feature.unsigned_abs()) * to / from;
        *feature = feature.signum() * size as i64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever a user's map returns, what is added lies in the declared body.
        #[test]
        fn enforce_reaches_the_body(
            mut features in prop::collection::vec(any::<i64>(), 0..40),
            small in prop::collection::vec(-50i64..50, 0..40),
            l1 in 0u64..=1 << 50, l2_squared in any::<u64>(),
        ) {
            let body = Body::Bounded { l1, l2_squared };
            body.enforce(&mut features);
            prop_assert!(body.contains(&features));
            let body = Body::Bounded { l1: l1 % 200, l2_squared: l2_squared % 2000 };
            let mut changed = small.clone();
            body.enforce(&mut changed);
            prop_assert!(body.contains(&changed));
            if body.contains(&small) { prop_assert_eq!(changed, small); }
        }
    }
}
