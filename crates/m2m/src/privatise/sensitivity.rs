//! How far one privacy unit can move the sums: integers, from the body of the map alone.

use crate::feature::Body;
use crate::privatise::Neighbours;

/// Bounds on the change of a block of sums between neighbouring tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sensitivity {
    /// Bound on the sum of absolute changes.
    pub l1: u128,
    /// Bound on the sum of squared changes.
    pub l2_squared: u128,
}

/// The sensitivity of a block, or nothing when it does not fit 128 bits.
///
/// # Privacy
/// Lemma 3. Adding or removing a row changes the sums by a point of the body, replacing one by a difference of two
/// points, and a unit of `rows` rows by a sum of that many.
/// - Discs of radius r: each pair of coordinates moves by a vector of length at most R, R = r or 2r, hence by at
///   most ⌊√(2R²)⌋ in L1 (an integer below √2·R) and R² in L2².
/// - One-hot groups: 1 in one coordinate per group, or +1 and -1 in two.
/// - Coordinates within r of zero: each by r, or by 2r.
/// - Otherwise the declared bounds, or twice them.
///
/// A sum of k such vectors has at most k times the norm. Checked by `tests/privacy.rs`.
pub fn sensitivity(body: Body, neighbours: Neighbours, rows: u32) -> Option<Sensitivity> {
    let factor = match neighbours {
        Neighbours::AddRemove => 1u128,
        Neighbours::Replace => 2,
    };
    let (l1, l2_squared) = match body {
        Body::Discs { pairs, radius } => {
            let reach = factor * u128::from(radius);
            let (pairs, square) = (u128::from(pairs), reach.checked_mul(reach)?);
            (pairs.checked_mul(square.checked_mul(2)?.isqrt())?, pairs.checked_mul(square)?)
        }
        Body::OneHot { groups } => (factor * u128::from(groups), factor * u128::from(groups)),
        Body::Cube { coordinates, radius } => {
            let (reach, coordinates) = (factor * u128::from(radius), u128::from(coordinates));
            (coordinates.checked_mul(reach)?, coordinates.checked_mul(reach.checked_mul(reach)?)?)
        }
        Body::Bounded { l1, l2_squared } => (factor * u128::from(l1), factor * factor * u128::from(l2_squared)),
    };
    let rows = u128::from(rows);
    Some(Sensitivity { l1: l1.checked_mul(rows)?, l2_squared: l2_squared.checked_mul(rows * rows)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_sensitivities() {
        let at = |body, neighbours, rows| {
            let s = sensitivity(body, neighbours, rows).unwrap();
            (s.l1, s.l2_squared)
        };
        use Neighbours::{AddRemove, Replace};
        let race = Body::OneHot { groups: 80 };
        assert_eq!(at(race, AddRemove, 1), (80, 80));
        assert_eq!(at(race, Replace, 1), (160, 160));
        assert_eq!(at(race, AddRemove, 3), (240, 720));
        let signs = Body::Cube { coordinates: 45, radius: 1 };
        assert_eq!(at(signs, AddRemove, 1), (45, 45));
        assert_eq!(at(signs, Replace, 1), (90, 180));
        assert_eq!(at(signs, Replace, 2), (180, 720));
        let values = Body::Cube { coordinates: 3, radius: 100 };
        assert_eq!(at(values, AddRemove, 1), (300, 30_000));
        assert_eq!(at(values, Replace, 2), (1200, 480_000));
        assert!(sensitivity(Body::Cube { coordinates: 2, radius: u64::MAX }, Replace, 1).is_none());
        // √2 · 1000 = 1414.2…
        let rff = Body::Discs { pairs: 100, radius: 1000 };
        assert_eq!(at(rff, AddRemove, 1), (141_400, 100_000_000));
        assert_eq!(at(rff, Replace, 1), (282_800, 400_000_000));
        assert_eq!(at(Body::Bounded { l1: 5, l2_squared: 7 }, Replace, 2), (20, 112));
        assert!(sensitivity(Body::Discs { pairs: u64::MAX, radius: u64::MAX }, AddRemove, 1).is_none());
    }
}
