//! Exact decimal numbers for budgets: sums and differences carry no rounding.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Error;

const PLACES: usize = 18;
const ONE: u128 = 1_000_000_000_000_000_000;
/// Up to this many significant digits a decimal survives the trip through an `f64`, hence through JSON and TOML.
const SIGNIFICANT: usize = 15;

/// A non-negative decimal with 18 places, such as an ε, a δ or a share.
///
/// ```
/// use m2m::Decimal;
/// let tenth: Decimal = "0.1".parse()?;
/// assert_eq!(tenth + tenth + tenth, "0.3".parse()?);
/// assert_eq!("1e-6".parse::<Decimal>()?.to_string(), "0.000001");
/// # Ok::<(), m2m::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Decimal(u128);

impl Decimal {
    /// 0.
    pub const ZERO: Self = Self(0);
    /// 1.
    pub const ONE: Self = Self(ONE);

    /// The nearest `f64`.
    pub fn to_f64(self) -> f64 {
        self.to_string().parse().unwrap_or(f64::INFINITY)
    }

    /// The decimal that prints as the shortest text of `value`.
    pub fn from_f64(value: f64) -> Result<Self, Error> {
        format!("{value:e}").parse()
    }

    /// `self - other`, or nothing when that is negative.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }

    /// Half the square, rounded up: the ρ that a pure ε costs.
    pub(crate) fn half_square_up(self) -> Self {
        // (hi·10⁹ + lo)² / (2·10¹⁸), split so that nothing overflows for values below 10⁷.
        const HALF: u128 = 1_000_000_000;
        let (hi, lo) = (self.0 / HALF, self.0 % HALF);
        let rest = 2 * hi * lo * HALF + lo * lo;
        Self((hi * hi + rest.div_ceil(ONE)).div_ceil(2))
    }
}

impl Add for Decimal {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Decimal {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl FromStr for Decimal {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::Decimal { text: text.chars().take(40).collect() };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| bad())?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) || digits.len() > 60 {
            return Err(bad());
        }
        let digits = digits.trim_start_matches('0');
        let trimmed = digits.trim_end_matches('0');
        if trimmed.is_empty() {
            return Ok(Self::ZERO);
        }
        let zeros = (digits.len() - trimmed.len()) as i32;
        let power = exponent.saturating_sub(fraction.len() as i32).saturating_add(zeros + PLACES as i32);
        if trimmed.len() > SIGNIFICANT || !(0..=24).contains(&power) {
            return Err(bad());
        }
        let value: u128 = trimmed.parse().map_err(|_| bad())?;
        let value = value.checked_mul(10u128.pow(power as u32)).ok_or_else(bad)?;
        if value > 1_000_000 * ONE {
            return Err(bad());
        }
        Ok(Self(value))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fraction = format!("{:018}", self.0 % ONE);
        let fraction = fraction.trim_end_matches('0');
        let dot = if fraction.is_empty() { "" } else { "." };
        write!(f, "{}{dot}{fraction}", self.0 / ONE)
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.to_f64())
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_f64(f64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_forms() {
        for (text, shown) in [
            ("1", "1"),
            ("0.98", "0.98"),
            ("1e-6", "0.000001"),
            ("2.50", "2.5"),
            (".5", "0.5"),
            ("1e2", "100"),
            ("0", "0"),
        ] {
            assert_eq!(text.parse::<Decimal>().unwrap().to_string(), shown);
        }
        for text in
            ["", ".", "-1", "+1", "nan", "inf", "1e-19", "1e7", "0.1234567890123456", "1.2.3", "1e", "1e99999999999"]
        {
            assert!(text.parse::<Decimal>().is_err(), "{text}");
        }
    }

    #[test]
    fn half_square_rounds_up() {
        assert_eq!("1".parse::<Decimal>().unwrap().half_square_up().to_string(), "0.5");
        assert_eq!("0.000000001".parse::<Decimal>().unwrap().half_square_up().to_string(), "0.000000000000000001");
        assert_eq!("1000".parse::<Decimal>().unwrap().half_square_up().to_string(), "500000");
    }

    proptest! {
        #[test]
        fn json_keeps_every_digit(digits in 1u64..999_999_999_999_999, places in 0u32..=9) {
            let text = format!("{}.{:0width$}", digits / 10u64.pow(places), digits % 10u64.pow(places), width = places as usize);
            if let Ok(value) = text.parse::<Decimal>() {
                let back: Decimal = serde_json::from_str(&serde_json::to_string(&value).unwrap()).unwrap();
                prop_assert_eq!(back, value);
            }
        }
    }
}
