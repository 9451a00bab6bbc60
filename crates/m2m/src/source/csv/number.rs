//! Numbers as they usually stand in a file, read a word at a time and many fields at once.
//!
//! The digits of such a number make a whole number below 2⁵², and the power of ten behind its point is exact too: one
//! division rounds correctly. Whatever is written otherwise is left to the general path.

use crate::simd::{Simd, dispatched};
use crate::source::csv::records::PADDING;

/// Adding the bits of a whole number below 2⁵² to those of 2⁵², and taking 2⁵² off, converts it.
const TWO_52: f64 = (1u64 << 52) as f64;

/// The values of consecutive fields of which the first starts at `start` and each ends at its separator. NaN stands for
/// anything but `-123.456` with at most eight characters.
pub(super) fn short_numbers(simd: Simd, padded: &[u8], start: usize, separators: &[u32], values: &mut Vec<f64>) {
    const BATCH: usize = 256;
    let (mut words, mut lengths) = ([0u64; BATCH], [0u64; BATCH]);
    values.resize(separators.len(), f64::NAN);
    let mut start = start;
    for (separators, values) in separators.chunks(BATCH).zip(values.chunks_mut(BATCH)) {
        for ((separator, word), length) in separators.iter().zip(&mut words).zip(&mut lengths) {
            let end = *separator as usize;
            // Behind the last field there is padding; behind the others, more fields.
            let text = padded.get(start..start + 8).map_or([0; 8], |text| text.try_into().expect("eight bytes"));
            *word = u64::from_le_bytes(text);
            *length = (end - start) as u64;
            start = end + 1;
        }
        let count = values.len();
        parse_words(simd, &words[..count], &lengths[..count], values);
    }
}

dispatched! {
    fn parse_words(words: &[u64], lengths: &[u64], values: &mut [f64]) = parse_words_loop
}

#[inline(always)]
fn parse_words_loop(words: &[u64], lengths: &[u64], values: &mut [f64]) {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH_BITS: u64 = 0x80 * ONES;
    for ((word, length), value) in words.iter().zip(lengths).zip(values) {
        let negative = u64::from(*word & 0xff == u64::from(b'-'));
        let text = *word >> (8 * negative);
        let count = length.wrapping_sub(negative);
        let sized = *length <= 8 && count.wrapping_sub(1) < 8;
        // The digits, the last in the highest byte, zeros below the first.
        let digits = (text ^ (u64::from(b'0') * ONES)) << (64u64.wrapping_sub(8 * count) & 63);
        let gap = digits ^ (u64::from(b'.' ^ b'0') * ONES);
        let points = gap.wrapping_sub(ONES) & !gap & HIGH_BITS;
        // 1 at the foot of the byte that holds the first point, or 0; what is below it moves up, over it.
        let foot = (points & points.wrapping_neg()) >> 7;
        let below = digits & foot.wrapping_sub(1);
        let above = digits & !foot.wrapping_sub(1) & !foot.wrapping_mul(0xff);
        let digits = if foot == 0 { digits } else { above | (below << 8) };
        // Byte 7 - i of this constant is 7 - i: as many digits follow a point in byte i.
        let places = foot.wrapping_mul(0x0706_0504_0302_0100) >> 56;
        let others = (digits.wrapping_add(0x76 * ONES) | digits) & HIGH_BITS;
        let alone = foot != 0 && count == 1;
        let size = f64::from_bits(TWO_52.to_bits() | eight_digits(digits)) - TWO_52;
        let size = size / power_of_ten(places);
        let number = f64::from_bits(size.to_bits() ^ (negative << 63));
        *value = if sized && others == 0 && !alone { number } else { f64::NAN };
    }
}

/// 10 to a power up to 7, by choosing factors: a table would be read lane by lane.
#[inline(always)]
fn power_of_ten(power: u64) -> f64 {
    let factor = |bit: u64, value: f64| if power & bit == 0 { 1.0 } else { value };
    factor(1, 1e1) * factor(2, 1e2) * factor(4, 1e4)
}

/// The number that eight digits spell, the last digit in the highest byte.
#[inline(always)]
fn eight_digits(digits: u64) -> u64 {
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let first = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let second = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    // Only eight digits give a sum below 2⁵⁹; of anything else the result is not used.
    (first.wrapping_add(second) >> 32) & 0x07ff_ffff
}

/// The value of one field of the same form with at most 16 characters after the sign.
pub(super) fn plain_number(padded: &[u8], start: usize, end: usize) -> Option<f64> {
    const POWERS: [f64; 16] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    const ONES: u128 = u128::MAX / 0xff;
    const HIGH_BITS: u128 = 0x80 * ONES;
    let negative = padded[start] == b'-';
    let start = start + usize::from(negative);
    let length = end.wrapping_sub(start);
    let window: &[u8; PADDING] = padded.get(start..start + PADDING)?.try_into().ok()?;
    if length == 0 || length > PADDING {
        return None;
    }
    let digits = (u128::from_le_bytes(*window) ^ (u128::from(b'0') * ONES)) << (8 * (PADDING - length));
    let gap = digits ^ (u128::from(b'.' ^ b'0') * ONES);
    let points = gap.wrapping_sub(ONES) & !gap & HIGH_BITS;
    let (digits, places) = if points == 0 {
        (digits, 0)
    } else {
        let at = points.trailing_zeros() / 8;
        let below = digits & ((1 << (8 * at)) - 1);
        let above = (digits >> (8 * at) >> 8) << (8 * at) << 8;
        (above | (below << 8), PADDING as u32 - 1 - at)
    };
    // Adding 0x76 sets the high bit of a byte from 10 on.
    let others = (digits.wrapping_add(0x76 * ONES) | digits) & HIGH_BITS;
    if others != 0 || (points != 0 && length == 1) {
        return None;
    }
    let mantissa = eight_digits(digits as u64) * 100_000_000 + eight_digits((digits >> 64) as u64);
    if mantissa >= 1 << 52 {
        return None;
    }
    let value = (f64::from_bits(TWO_52.to_bits() | mantissa) - TWO_52) / POWERS[places as usize];
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Option<f64> {
        plain_number(&[bytes, b",", &[0; PADDING]].concat(), 0, bytes.len())
    }

    /// By the batch, in the middle of other fields.
    fn read_short(simd: Simd, bytes: &[u8]) -> Option<f64> {
        let padded = [b"7,", bytes, b",12345678,", &[0; PADDING]].concat();
        let end = bytes.len() as u32 + 2;
        let mut values = Vec::new();
        short_numbers(simd, &padded, 0, &[1, end, end + 9], &mut values);
        assert_eq!((values[0], values[2]), (7.0, 12_345_678.0));
        Some(values[1]).filter(|value| !value.is_nan())
    }

    #[test]
    fn plain_numbers() {
        let plain =
            ["0", "-0.5", "12345.678901", "0.000001", "123456789012345", "-0.12345678901234", "4503599627370495"];
        for text in plain.into_iter().chain(["1.", ".5", "-7", "12345678", "1234567.8", "99999999.9", "-123.456", "-0"])
        {
            assert_eq!(read(text.as_bytes()), Some(text.parse().unwrap()), "{text}");
            for simd in Simd::available() {
                let expected = (text.len() <= 8).then(|| text.parse().unwrap());
                assert_eq!(read_short(simd, text.as_bytes()), expected, "{text}");
            }
        }
        let others =
            ["", "-", ".", "-.", "1e5", "+1", "nan", "inf", "12a", " 1", "1 ", "\"1\"", "4503599627370496", "1.2.3"];
        for text in others.into_iter().chain(["--1", "1-", "12345678901234567", "\u{ff11}", "1\u{0}", "1.\r"]) {
            assert_eq!(read(text.as_bytes()), None, "{text}");
            for simd in Simd::available() {
                assert_eq!(read_short(simd, text.as_bytes()), None, "{text}");
            }
        }
    }

    proptest! {
        /// Where the quick paths answer, they answer what the standard library answers.
        #[test]
        fn plain_numbers_round_correctly(text in "-?[0-9]{0,12}(\\.[0-9]{0,12})?") {
            let digits = text.trim_start_matches('-');
            let expected = text.parse::<f64>().ok().map(f64::to_bits);
            let whole: u128 = digits.replace('.', "").parse().unwrap_or(0);
            if digits.len() <= 16 && whole < 1 << 52 {
                prop_assert_eq!(read(text.as_bytes()).map(f64::to_bits), expected);
            }
            if text.len() <= 8 {
                prop_assert_eq!(read_short(Simd::detect(), text.as_bytes()).map(f64::to_bits), expected);
            }
        }

        #[test]
        fn any_bytes_are_a_number_or_not(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            for value in [read(&bytes), read_short(Simd::detect(), &bytes)].into_iter().flatten() {
                let text = std::str::from_utf8(&bytes).unwrap();
                prop_assert_eq!(value.to_bits(), text.parse::<f64>().unwrap().to_bits());
            }
        }
    }
}
