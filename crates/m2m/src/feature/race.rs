//! RACE: repeated locality-sensitive hashes into buckets, one-hot.
//!
//! Euclidean: $h_r(x) = \lfloor (a_r^\top x + b_r)/\sigma \rfloor \bmod W$ with normal $a_r$ and uniform $b_r$.
//! Angular: $\log_2 W$ signs of random projections about the middle of the domain.
//!
//! # Privacy
//! Lemma 2: each hash puts a record into exactly one bucket.

use crate::Error;
use crate::feature::projection::{GROUP, Keep, ORIGIN, Projection, Scratch, Whole, coordinates, normal_directions};
use crate::feature::simd::dispatched;
use crate::feature::{Adder, Body, FeatureMap, Hash, Inputs, RaceSpec, Simd};
use crate::panel::{PANEL, Panel, Record};
use crate::stream::PublicStream;

pub(crate) struct Race {
    projection: Projection,
    hashes: usize,
    buckets: usize,
    /// Sign bits per hash; none for the Euclidean hash.
    bits: Option<u32>,
    simd: Simd,
}

impl Race {
    pub fn new(spec: &RaceSpec, inputs: &Inputs, simd: Simd) -> Result<Self, Error> {
        let mut stream = PublicStream::new("race", spec.seed);
        let coordinates = coordinates(inputs);
        let (directions, start, bits) = match spec.hash {
            Hash::Euclidean => {
                let directions = normal_directions(&mut stream, spec.r, coordinates, 1.0 / spec.sigma);
                let start = (0..spec.r).map(|_| ORIGIN + stream.uniform()).collect::<Vec<_>>();
                (directions, start, None)
            }
            Hash::Angular => {
                let bits = spec.w.trailing_zeros();
                let directions = normal_directions(&mut stream, spec.r * bits as usize, coordinates, 1.0);
                let start = directions.iter().map(|direction| ORIGIN - middle(inputs, direction)).collect();
                (directions, start, Some(bits))
            }
        };
        let projection = Projection::new(inputs, &directions, &start)?;
        Ok(Self { projection, hashes: spec.r, buckets: spec.w, bits, simd })
    }

    fn bucket(&self, whole: i32) -> usize {
        i64::from(whole).rem_euclid(self.buckets as i64) as usize
    }
}

/// The projection of the point whose numbers are all ½.
fn middle(inputs: &Inputs, direction: &[f64]) -> f64 {
    let mut at = 0;
    let mut sum = 0.0;
    for input in inputs {
        match input.codes {
            Some(codes) => at += codes as usize,
            None => {
                sum += 0.5 * direction[at];
                at += 2;
            }
        }
    }
    sum
}

impl FeatureMap for Race {
    fn len(&self) -> usize {
        self.hashes * self.buckets
    }

    fn body(&self) -> Body {
        Body::OneHot { groups: self.hashes as u64 }
    }

    fn record(&self, record: Record<'_>, features: &mut [i64]) {
        let whole = |output| Whole::keep(self.projection.one(record, output));
        for hash in 0..self.hashes {
            let bucket = match self.bits {
                None => self.bucket(whole(hash)),
                Some(bits) => {
                    (0..bits as usize).map(|bit| usize::from(whole(hash * bits as usize + bit) >= 0) << bit).sum()
                }
            };
            features[hash * self.buckets + bucket] = 1;
        }
    }

    fn adder(&self) -> Box<dyn Adder + '_> {
        Box::new(RaceAdder { map: self, scratch: Scratch::default(), bytes: [0; PANEL], code: vec![0; PANEL] })
    }
}

struct RaceAdder<'a> {
    map: &'a Race,
    scratch: Scratch<Whole>,
    bytes: [u8; PANEL],
    code: Vec<u32>,
}

/// Up to this many different values are counted by comparing, the rest by incrementing.
const COMPARED: i32 = 20;

impl Adder for RaceAdder<'_> {
    fn add(&mut self, panel: &Panel, sums: &mut [i64]) {
        let Self { map, scratch, bytes, code } = self;
        let n = panel.len();
        if n == 0 {
            return;
        }
        map.projection.each_group(map.simd, panel, scratch, |first, wholes| {
            for (output, whole) in (first..map.projection.outputs()).zip(wholes.iter_mut().take(GROUP)) {
                match map.bits {
                    None => {
                        let sums = &mut sums[output * map.buckets..][..map.buckets];
                        map.count(&whole[..n], bytes, sums);
                    }
                    Some(bits) => {
                        let (hash, bit) = (output / bits as usize, output as u32 % bits);
                        for (code, whole) in code[..n].iter_mut().zip(whole.iter()) {
                            *code = if bit == 0 { 0 } else { *code } | u32::from(*whole >= 0) << bit;
                        }
                        if bit + 1 == bits {
                            for code in &code[..n] {
                                sums[hash * map.buckets + *code as usize] += 1;
                            }
                        }
                    }
                }
            }
        });
    }
}

impl Race {
    fn count(&self, wholes: &[i32], bytes: &mut [u8; PANEL], sums: &mut [i64]) {
        let (low, high) = range(self.simd, wholes, bytes);
        if high - low < COMPARED {
            for value in low..=high {
                sums[self.bucket(value)] += count_equal(self.simd, &bytes[..wholes.len()], value as u8);
            }
        } else {
            // A multiple of the buckets moves every value above zero; the quotient by multiplication is exact
            // for values below 2²¹ and divisors below 2¹².
            let buckets = self.buckets as u32;
            let lift = (1u32 << 20).div_ceil(buckets) * buckets;
            let inverse = (1u64 << 33).div_ceil(u64::from(buckets));
            for whole in wholes {
                let value = whole.wrapping_add_unsigned(lift) as u32;
                let quotient = ((u64::from(value) * inverse) >> 33) as u32;
                sums[(value - quotient * buckets) as usize] += 1;
            }
        }
    }
}

dispatched! {
    fn range(wholes: &[i32], bytes: &mut [u8; PANEL]) -> (i32, i32) = range_loop
}

/// The smallest and the largest value, and the low byte of each.
#[inline(always)]
fn range_loop(wholes: &[i32], bytes: &mut [u8; PANEL]) -> (i32, i32) {
    let (mut low, mut high) = (i32::MAX, i32::MIN);
    for (byte, whole) in bytes.iter_mut().zip(wholes) {
        low = low.min(*whole);
        high = high.max(*whole);
        *byte = *whole as u8;
    }
    (low, high)
}

dispatched! {
    fn count_equal(bytes: &[u8], value: u8) -> i64 = count_equal_loop
}

#[inline(always)]
fn count_equal_loop(bytes: &[u8], value: u8) -> i64 {
    const LANES: usize = 64;
    let mut lanes = [0u8; LANES];
    let steps = bytes.chunks_exact(LANES);
    let rest = steps.remainder().iter().filter(|byte| **byte == value).count();
    // PANEL / LANES = 12 steps: a lane cannot overflow.
    for step in steps {
        for l in 0..LANES {
            lanes[l] += u8::from(step[l] == value);
        }
    }
    lanes.iter().map(|lane| i64::from(*lane)).sum::<i64>() + rest as i64
}
