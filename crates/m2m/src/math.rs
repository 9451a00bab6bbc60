//! The few functions that the definition of a feature needs, as fixed sequences of IEEE operations.
//!
//! A library's `ln` or `sin` differs in its last bit between systems; a feature must not. Everything here
//! is additions, multiplications, divisions and square roots in a stated order, so that every machine
//! computes the same bits.

/// The natural logarithm of a positive finite normal number, to about one part in 10¹⁵; NaN of NaN.
///
/// $x = m\,2^e$ with $\sqrt{1/2} \le m < \sqrt 2$ and
/// $\ln m = 2\,\mathrm{artanh}\,s$, $s = (m-1)/(m+1)$, $|s| \le 0.1716$, by its power series to $s^{23}$.
pub fn ln(x: f64) -> f64 {
    const SQRT_2: f64 = std::f64::consts::SQRT_2;
    if x.is_nan() {
        // Its bits would pass for those of a number.
        return x;
    }
    let bits = x.to_bits();
    let mut e = ((bits >> 52) & 0x7ff) as i64 - 1023;
    let mut m = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if m >= SQRT_2 {
        m *= 0.5;
        e += 1;
    }
    let s = (m - 1.0) / (m + 1.0);
    let y = s * s;
    let mut series = 1.0 / 23.0;
    for k in (0..11).rev() {
        series = series * y + 1.0 / (2 * k + 1) as f64;
    }
    e as f64 * std::f64::consts::LN_2 + 2.0 * s * series
}

/// $\ln(1 + x)$ for $x > -1$.
pub fn ln_1p(x: f64) -> f64 {
    ln(1.0 + x)
}

/// $\operatorname{arsinh} x = \operatorname{sgn}(x) \ln(|x| + \sqrt{x^2 + 1})$, for $|x| < 10^{150}$.
pub fn asinh(x: f64) -> f64 {
    let y = ln(x.abs() + (x * x + 1.0).sqrt());
    if x < 0.0 { -y } else { y }
}

/// Cosine and sine of an angle in turns, to about $10^{-11}$.
pub fn cos_sin_turns(turns: f64) -> (f64, f64) {
    let (v, flip) = half_turn(2.0 * turns);
    let y = v * v;
    let sine = v * polynomial(&SIN, y);
    let cosine = 1.0 + y * polynomial(&COS, y);
    if flip { (-cosine, -sine) } else { (cosine, sine) }
}

/// Coefficients of $\sin(\tfrac\pi2 v)/v$ and $(\cos(\tfrac\pi2 v) - 1)/v^2$ in $v^2$ on $[-1, 1]$ (minimax).
pub(crate) const SIN: [f64; 6] = [
    1.570_796_326_621_877,
    -0.645_964_092_652_711_8,
    0.079_692_587_335_099_49,
    -0.004_681_620_350_896_956_5,
    0.000_160_217_246_388_493_36,
    -3.418_213_053_258_077_5e-6,
];
pub(crate) const COS: [f64; 6] = [
    -1.233_700_550_085_303,
    0.253_669_506_910_526_4,
    -0.020_863_474_339_241_615,
    0.000_919_241_107_673_968_7,
    -0.000_025_173_089_861_333_876,
    4.494_970_230_164_978e-7,
];

fn polynomial(coefficients: &[f64; 6], y: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * y + c)
}

/// Splits an angle in half turns into the nearest whole number, of which the parity is returned, and twice the rest.
fn half_turn(t: f64) -> (f64, bool) {
    const ROUND: f64 = 1.5 * (1u64 << 52) as f64;
    let whole = t + ROUND;
    let rest = t - (whole - ROUND);
    (rest + rest, whole.to_bits() & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agree_with_the_standard_library() {
        let mut x: f64 = 1e-12;
        while x < 1e12 {
            assert!((ln(x) - x.ln()).abs() <= 4e-15 * (1.0 + x.ln().abs()), "ln {x}");
            assert!((asinh(x) - x.asinh()).abs() <= 1e-14 * (1.0 + x.asinh()), "asinh {x}");
            assert!((asinh(-x) + asinh(x)).abs() == 0.0);
            let turns = (x * 1e-9).min(300.0);
            let (c, s) = cos_sin_turns(turns);
            let angle = turns * std::f64::consts::TAU;
            assert!((c - angle.cos()).abs() < 1e-10 && (s - angle.sin()).abs() < 1e-10, "turns {turns}");
            x *= 1.0037;
        }
        assert!([ln(f64::NAN), ln_1p(f64::NAN), asinh(f64::NAN)].into_iter().all(f64::is_nan));
        assert_eq!(ln(1.0), 0.0);
        assert_eq!(ln_1p(0.0), 0.0);
    }
}
