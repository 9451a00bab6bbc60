//! Random Fourier features: $q(x) = [\mathrm{round}(A\cos 2\pi t_j),\ \mathrm{round}(A\sin 2\pi t_j)]_j$ with
//! phases $t_j = x^\top\omega_j$ in turns.
//!
//! *Fast* takes A = 2²⁰: the phase is a whole number of 2⁻³² turns, computed in whole numbers ([`phase`]), and sine and
//! cosine are single-precision polynomials of it. *Precise* takes A = 2³⁰ and works in double precision.
//!
//! # Privacy
//! Lemma 1: every pair satisfies $c^2 + s^2 \le (A+1)^2$. Fast: the pair is a function of 32 bits, and the test
//! `every_phase_stays_in_the_disc` tries all 2³² of them. Precise: the test `precise_pairs_stay_in_the_disc`
//! bounds the polynomials on all of [-1, 1].

use crate::Error;
use crate::feature::phase::{self, Phases};
use crate::feature::projection::{All, Projection, Scratch, too_small};
use crate::feature::{Adder, Body, FeatureMap, Inputs, Precision, RffSpec, Simd, frequency};
use crate::math;
use crate::panel::{Panel, Record};
use crate::simd::dispatched;

/// A of the fast and of the precise features.
pub(crate) const FAST: u64 = 1 << 20;
pub(crate) const PRECISE: u64 = 1 << 30;

pub(crate) struct Rff {
    turns: Phase,
    simd: Simd,
}

/// Where phases come from.
enum Phase {
    Fast(Phases),
    /// In half turns.
    Precise(Projection),
}

impl Rff {
    pub fn new(spec: &RffSpec, inputs: &Inputs, simd: Simd) -> Result<Self, Error> {
        let mut directions = frequency::directions(spec, inputs);
        let turns = match spec.precision {
            Precision::Fast => Phase::Fast(Phases::new(inputs, &directions).ok_or_else(too_small)?),
            Precision::Precise => {
                directions.iter_mut().flatten().for_each(|x| *x *= 2.0);
                Phase::Precise(Projection::new(inputs, &directions, &vec![0.0; directions.len()])?)
            }
        };
        Ok(Self { turns, simd })
    }

    fn pairs(&self) -> usize {
        match &self.turns {
            Phase::Fast(phases) => phases.outputs(),
            Phase::Precise(projection) => projection.outputs(),
        }
    }
}

impl FeatureMap for Rff {
    fn len(&self) -> usize {
        2 * self.pairs()
    }

    fn body(&self) -> Body {
        let radius = match self.turns {
            Phase::Fast(_) => FAST + 1,
            Phase::Precise(_) => PRECISE + 1,
        };
        Body::Discs { pairs: self.pairs() as u64, radius }
    }

    fn record(&self, record: Record<'_>, features: &mut [i64]) {
        for (j, pair) in features.chunks_exact_mut(2).enumerate() {
            let (c, s) = match &self.turns {
                Phase::Fast(phases) => Fast::one(phases.one(record, j)),
                Phase::Precise(projection) => Precisely::one(projection.one(record, j)),
            };
            pair.copy_from_slice(&[c, s]);
        }
    }

    fn adder(&self) -> Box<dyn Adder + '_> {
        let simd = self.simd;
        match &self.turns {
            Phase::Fast(phases) => Box::new(FastAdder { phases, simd, scratch: Default::default() }),
            Phase::Precise(projection) => Box::new(PreciseAdder { projection, simd, scratch: Default::default() }),
        }
    }
}

struct FastAdder<'a> {
    phases: &'a Phases,
    simd: Simd,
    scratch: phase::Scratch,
}

impl Adder for FastAdder<'_> {
    fn add(&mut self, panel: &Panel, sums: &mut [i64]) {
        let simd = self.simd;
        self.phases.each_group(simd, panel, &mut self.scratch, |first, phases| {
            add_pairs::<Fast>(simd, phases.iter().map(|phases| &phases[..panel.len()]), &mut sums[2 * first..]);
        });
    }
}

struct PreciseAdder<'a> {
    projection: &'a Projection,
    simd: Simd,
    scratch: Scratch<All>,
}

impl Adder for PreciseAdder<'_> {
    fn add(&mut self, panel: &Panel, sums: &mut [i64]) {
        let simd = self.simd;
        self.projection.each_group(simd, panel, &mut self.scratch, |first, phases| {
            add_pairs::<Precisely>(simd, phases.iter().map(|phases| &phases[..panel.len()]), &mut sums[2 * first..]);
        });
    }
}

/// Adds the pairs of a group of outputs.
fn add_pairs<'a, P: Pair>(simd: Simd, group: impl Iterator<Item = &'a [P::Phase]>, sums: &mut [i64])
where
    P::Phase: 'a,
{
    for (phases, sums) in group.zip(sums.chunks_exact_mut(2)) {
        let (c, s) = sum_pairs::<P>(simd, phases);
        sums[0] += c;
        sums[1] += s;
    }
}

/// Cosine and sine of a phase as integers that still carry the bits of the constant which rounded them.
trait Pair {
    type Phase: Copy;
    type Biased: Copy + Default;
    /// The rounded pair, biased.
    fn pair(phase: Self::Phase) -> (Self::Biased, Self::Biased);
    /// Adds without regard to overflow; the bias makes it wrap and wraps back when it is taken off.
    fn add(a: Self::Biased, b: Self::Biased) -> Self::Biased;
    /// The sum without the bias of `count` terms.
    fn unbias(sum: Self::Biased, count: usize) -> i64;

    /// The rounded pair.
    fn one(phase: Self::Phase) -> (i64, i64) {
        let (c, s) = Self::pair(phase);
        (Self::unbias(c, 1), Self::unbias(s, 1))
    }
}

struct Fast;
struct Precisely;

/// Adding this to a number below 4 in size leaves the number, rounded to the nearest 2⁻²⁰, in the low bits.
const ROUND_FAST: f32 = 1.5 * (1 << 3) as f32;
/// The same for 2⁻³⁰ in double precision.
const ROUND_PRECISE: f64 = 1.5 * (1u64 << 22) as f64;

/// Coefficients of $\sqrt2\sin(\tfrac\pi2 v)/v$ and $\sqrt2\cos(\tfrac\pi2 v)$ in $v^2$ on $[-1, 1]$: errors 1e-8 and 2e-7, and
/// so chosen within these that no pair leaves its disc.
const SIN: [f32; 5] = [2.221_441_3, -0.913_530_05, 0.112_696_53, -0.006_607_528_3, 0.000_213_292_49];
const COS: [f32; 5] = [1.414_213_3, -1.744_712_5, 0.358_716_3, -0.029_430_673, 0.001_213_664_8];

impl Pair for Fast {
    type Phase = u32;
    type Biased = u32;

    /// By the double angle, which needs no case for any part of the turn: with S and C the sine and the cosine of half the
    /// angle, times √2, the pair is 1 - S² and SC.
    #[inline(always)]
    fn pair(phase: u32) -> (u32, u32) {
        // Half the angle in quarter turns, in [-1, 1]. An odd number is not 0, so that its exponent can be lowered by 31.
        let whole = (phase | 1) as i32 as f32;
        let v = f32::from_bits(whole.to_bits().wrapping_sub(31 << 23));
        let y = v * v;
        let s = v * SIN[4].mul_add(y, SIN[3]).mul_add(y, SIN[2]).mul_add(y, SIN[1]).mul_add(y, SIN[0]);
        let c = COS[4].mul_add(y, COS[3]).mul_add(y, COS[2]).mul_add(y, COS[1]).mul_add(y, COS[0]);
        (s.mul_add(-s, ROUND_FAST + 1.0).to_bits(), s.mul_add(c, ROUND_FAST).to_bits())
    }

    #[inline(always)]
    fn add(a: u32, b: u32) -> u32 {
        a.wrapping_add(b)
    }

    /// The terms of a panel, at most 768 below 2²¹ in size, add up to less than 2³¹.
    #[inline(always)]
    fn unbias(sum: u32, count: usize) -> i64 {
        i64::from(sum.wrapping_sub(ROUND_FAST.to_bits().wrapping_mul(count as u32)) as i32)
    }
}

impl Pair for Precisely {
    type Phase = f64;
    type Biased = u64;

    #[inline(always)]
    fn pair(half_turns: f64) -> (u64, u64) {
        const NEAREST: f64 = 1.5 * (1u64 << 52) as f64;
        let whole = half_turns + NEAREST;
        let rest = half_turns - (whole - NEAREST);
        let flip = whole.to_bits() << 63;
        let v = rest + rest;
        let y = v * v;
        let signed_v = f64::from_bits(v.to_bits() ^ flip);
        let signed_y = f64::from_bits(y.to_bits() ^ flip);
        let (mut s, mut c) = (math::SIN[5], math::COS[5]);
        for k in (0..5).rev() {
            s = s.mul_add(y, math::SIN[k]);
            c = c.mul_add(y, math::COS[k]);
        }
        let one = (ROUND_PRECISE + 1.0).to_bits().wrapping_sub(flip >> 32);
        let c = c.mul_add(signed_y, f64::from_bits(one));
        let s = s.mul_add(signed_v, ROUND_PRECISE);
        (c.to_bits(), s.to_bits())
    }

    #[inline(always)]
    fn add(a: u64, b: u64) -> u64 {
        a.wrapping_add(b)
    }

    #[inline(always)]
    fn unbias(sum: u64, count: usize) -> i64 {
        sum.wrapping_sub(ROUND_PRECISE.to_bits().wrapping_mul(count as u64)) as i64
    }
}

dispatched! {
    fn sum_pairs<P: Pair>(phases: &[P::Phase]) -> (i64, i64) = sum_pairs_loop
}

#[inline(always)]
fn sum_pairs_loop<P: Pair>(phases: &[P::Phase]) -> (i64, i64) {
    const LANES: usize = 16;
    let (mut cosines, mut sines) = ([P::Biased::default(); LANES], [P::Biased::default(); LANES]);
    let steps = phases.chunks_exact(LANES);
    let rest = steps.remainder();
    for step in steps {
        let step: &[_; LANES] = step.try_into().expect("chunks of LANES");
        for l in 0..LANES {
            let (c, s) = P::pair(step[l]);
            cosines[l] = P::add(cosines[l], c);
            sines[l] = P::add(sines[l], s);
        }
    }
    for phase in rest {
        let (c, s) = P::pair(*phase);
        cosines[0] = P::add(cosines[0], c);
        sines[0] = P::add(sines[0], s);
    }
    let total = |lanes: [P::Biased; LANES]| {
        let sum = lanes.into_iter().fold(P::Biased::default(), P::add);
        P::unbias(sum, phases.len())
    };
    (total(cosines), total(sines))
}

#[cfg(test)]
mod tests {
    use super::*;

    dispatched! {
        fn largest_norm(first: u32, last: u32) -> f64 = largest_norm_loop
    }

    /// The largest c² + s² over a range of phases. Single terms are below 2²¹, so f64 holds the squares exactly.
    #[inline(always)]
    fn largest_norm_loop(first: u32, last: u32) -> f64 {
        const LANES: usize = 16;
        let bias = ROUND_FAST.to_bits();
        let mut largest = [0f64; LANES];
        let mut phase = first;
        loop {
            for (l, largest) in largest.iter_mut().enumerate() {
                let (c, s) = Fast::pair(phase.wrapping_add(l as u32));
                let c = f64::from(c.wrapping_sub(bias) as i32);
                let s = f64::from(s.wrapping_sub(bias) as i32);
                let norm = c * c + s * s;
                *largest = if norm > *largest { norm } else { *largest };
            }
            if last - phase < LANES as u32 {
                break;
            }
            phase += LANES as u32;
        }
        largest.into_iter().fold(0.0, f64::max)
    }

    /// Lemma 1 for fast features, by exhaustion: all 2³² phases.
    #[test]
    fn every_phase_stays_in_the_disc() {
        let simd = Simd::detect();
        let part = |first, last| std::thread::spawn(move || largest_norm(simd, first, last));
        let parts = [part(0, u32::MAX / 2), part(u32::MAX / 2 + 1, u32::MAX)];
        let largest = parts.into_iter().map(|part| part.join().unwrap()).fold(0.0, f64::max);
        let radius = (FAST + 1) as f64;
        assert!(largest <= radius * radius, "{largest}");
        assert!(largest > ((FAST - 1) as f64).powi(2));
    }

    #[test]
    fn fast_pairs_are_nearly_correctly_rounded() {
        let mut worst: f64 = 0.0;
        for i in 0..1u32 << 20 {
            let phase = i.wrapping_mul(0x9e37_79b9);
            let (c, s) = Fast::one(phase);
            let angle = f64::from(phase) / 4_294_967_296.0 * std::f64::consts::TAU;
            worst = worst.max((c as f64 - FAST as f64 * angle.cos()).abs());
            worst = worst.max((s as f64 - FAST as f64 * angle.sin()).abs());
        }
        assert!(worst < 1.2, "{worst} grid steps");
    }

    /// Lemma 1 for precise features. With p and q the two polynomials, g(v) = (v p)² + (1 + v² q)² - 1 vanishes up
    /// to the polynomials' error. |g''| < 100 on [-1, 1] (every factor and derivative is below 5), so between
    /// points 2⁻²⁰ apart g moves away from them by less than 100·2⁻⁴⁰/8 < 1.2e-11. Rounding adds at most √½ per pair
    /// and double precision less than 1e-14: A(1 + 1.2e-10)^(1/2) + √½ + 1e-5 < A + 1.
    #[test]
    fn precise_pairs_stay_in_the_disc() {
        let steps = 1i32 << 20;
        let mut worst: f64 = 0.0;
        for i in -steps..=steps {
            let v = f64::from(i) / f64::from(steps);
            let y = v * v;
            let at = |coefficients: &[f64; 6]| coefficients.iter().rev().fold(0.0, |sum: f64, c| sum.mul_add(y, *c));
            let (s, c) = (v * at(&math::SIN), 1.0 + y * at(&math::COS));
            worst = worst.max((s * s + c * c - 1.0).abs());
        }
        let largest = PRECISE as f64 * (1.0 + (worst + 1.2e-11 + 1e-14) / 2.0) + 0.5f64.sqrt() + 1e-5;
        assert!(largest < (PRECISE + 1) as f64, "{worst}");
        for i in 0..1 << 20 {
            let (c, s) = Precisely::one(f64::from(i) * 0.001_234_567);
            assert!(i128::from(c).pow(2) + i128::from(s).pow(2) <= i128::from(PRECISE + 1).pow(2));
            let angle = f64::from(i) * 0.001_234_567 * std::f64::consts::PI;
            assert!((c as f64 / PRECISE as f64 - angle.cos()).abs() < 1e-9);
        }
    }
}
