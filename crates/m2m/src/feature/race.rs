//! RACE: repeated locality-sensitive hashes into buckets, one-hot.
//!
//! Euclidean: $h_r(x) = \lfloor (a_r^\top x + b_r)/\sigma \rfloor \bmod W$ with normal $a_r$ and uniform $b_r$.
//! Angular: $\log_2 W$ signs of random projections about the middle of the domain.
//!
//! # Privacy
//! Lemma 2: each hash puts a record into exactly one bucket.

use crate::Error;
use crate::feature::hist::Counter;
use crate::feature::projection::{
    GROUP, High, Keep, ORIGIN, ORIGIN_HIGH, Projection, Scratch, coordinates, normal_directions,
};
use crate::feature::{Adder, Body, FeatureMap, Hash, Inputs, RaceSpec, Simd};
use crate::panel::{Lane, PANEL, Panel, Record};
use crate::simd::dispatched;
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

    /// The bucket of an accumulator's high word: how far it is from the origin's, modulo the buckets.
    fn bucket(&self, high: u32) -> usize {
        (i64::from(high) - i64::from(ORIGIN_HIGH)).rem_euclid(self.buckets as i64) as usize
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
        let high = |output| High::keep(self.projection.one(record, output));
        for hash in 0..self.hashes {
            let bucket = match self.bits {
                None => self.bucket(high(hash)),
                Some(bits) => (0..bits as usize)
                    .map(|bit| usize::from(high(hash * bits as usize + bit) >= ORIGIN_HIGH) << bit)
                    .sum(),
            };
            features[hash * self.buckets + bucket] = 1;
        }
    }

    fn places(&self, panel: &Panel, places: &mut Vec<u32>) -> bool {
        let mut scratch = Scratch::<High>::default();
        let n = panel.len();
        let first = places.len();
        places.resize(first + self.hashes * n, 0);
        let places = &mut places[first..];
        self.projection.each_group(self.simd, panel, &mut scratch, |first, highs| {
            for (output, highs) in (first..self.projection.outputs()).zip(highs.iter().take(GROUP)) {
                let bits = self.bits.unwrap_or(1) as usize;
                let (hash, bit) = (output / bits, output % bits);
                let places = &mut places[hash * n..(hash + 1) * n];
                match self.bits {
                    None => buckets(self.simd, &highs[..n], self.buckets as u32, places),
                    Some(_) => {
                        places.iter_mut().zip(highs.iter()).for_each(|(place, high)| {
                            *place += u32::from(*high >= ORIGIN_HIGH) << bit;
                        });
                    }
                }
                if bit == 0 {
                    places.iter_mut().for_each(|place| *place += (hash * self.buckets) as u32);
                }
            }
        });
        true
    }

    fn adder(&self) -> Box<dyn Adder + '_> {
        Box::new(RaceAdder { map: self, scratch: Scratch::default(), work: Work::default() })
    }
}

struct RaceAdder<'a> {
    map: &'a Race,
    scratch: Scratch<High>,
    work: Work,
}

#[derive(Default)]
struct Work {
    bytes: Lane<u8>,
    counts: [u32; COMPARED],
    places: Lane<u32>,
    counter: Counter,
}

/// Up to this many different values are counted by comparing, the rest by incrementing.
const COMPARED: usize = 32;

impl Adder for RaceAdder<'_> {
    fn add(&mut self, panel: &Panel, sums: &mut [i64]) {
        let Self { map, scratch, work } = self;
        let n = panel.len();
        if n == 0 {
            return;
        }
        map.projection.each_group(map.simd, panel, scratch, |first, highs| {
            for (output, highs) in (first..map.projection.outputs()).zip(highs.iter().take(GROUP)) {
                match map.bits {
                    None => map.count(&highs[..n], work, &mut sums[output * map.buckets..][..map.buckets]),
                    Some(bits) => {
                        let (hash, bit) = (output / bits as usize, output as u32 % bits);
                        if bit == 0 {
                            work.places.fill(0);
                        }
                        for (place, high) in work.places[..n].iter_mut().zip(highs.iter()) {
                            *place |= u32::from(*high >= ORIGIN_HIGH) << bit;
                        }
                        if bit + 1 == bits {
                            work.counter.add(&work.places[..n], &mut sums[hash * map.buckets..][..map.buckets]);
                        }
                    }
                }
            }
        });
    }
}

impl Race {
    fn count(&self, highs: &[u32], work: &mut Work, sums: &mut [i64]) {
        let (low, values) = compare(self.simd, highs, &mut work.bytes, &mut work.counts);
        if values > 0 {
            for (value, count) in (low..).zip(&work.counts[..values]) {
                sums[self.bucket(value)] += i64::from(*count);
            }
        } else {
            let places = &mut work.places[..highs.len()];
            buckets(self.simd, highs, self.buckets as u32, places);
            work.counter.add(places, sums);
        }
    }
}

dispatched! {
    fn buckets(highs: &[u32], count: u32, places: &mut [u32]) = buckets_loop
}

/// [`Race::bucket`] for many: the distance from [`ORIGIN_HIGH`], lifted above zero by a multiple of the buckets. The
/// quotient by multiplication is exact for values below 2²¹ and divisors up to 2¹².
#[inline(always)]
fn buckets_loop(highs: &[u32], count: u32, places: &mut [u32]) {
    let lift = ((1u32 << 20).div_ceil(count) * count).wrapping_sub(ORIGIN_HIGH);
    let inverse = (1u64 << 33).div_ceil(u64::from(count));
    for (place, high) in places.iter_mut().zip(highs) {
        let value = high.wrapping_add(lift);
        let quotient = ((u64::from(value) * inverse) >> 33) as u32;
        *place = value - quotient * count;
    }
}

dispatched! {
    fn compare(highs: &[u32], bytes: &mut [u8; PANEL], counts: &mut [u32; COMPARED]) -> (u32, usize) = compare_loop
}

/// Counts each value by comparing all with it. Returns the smallest and how many values there may be from there on: none,
/// and nothing is counted, if there are too many.
#[inline(always)]
fn compare_loop(highs: &[u32], bytes: &mut [u8; PANEL], counts: &mut [u32; COMPARED]) -> (u32, usize) {
    const LANES: usize = 64;
    let (mut low, mut high) = (u32::MAX, 0);
    for (byte, value) in bytes.iter_mut().zip(highs) {
        low = low.min(*value);
        high = high.max(*value);
        *byte = *value as u8;
    }
    let last = (high - low) as usize;
    if last >= COMPARED {
        return (low, 0);
    }
    // What has none of the other values has the last.
    let mut rest = highs.len() as u32;
    for (value, count) in (low..).zip(&mut counts[..last]) {
        let value = value as u8;
        let mut lanes = [0u8; LANES];
        let steps = bytes[..highs.len()].chunks_exact(LANES);
        *count = steps.remainder().iter().map(|byte| u32::from(*byte == value)).sum();
        // PANEL / LANES = 12 steps: a lane cannot overflow.
        for step in steps {
            for l in 0..LANES {
                lanes[l] += u8::from(step[l] == value);
            }
        }
        *count += lanes.iter().map(|lane| u32::from(*lane)).sum::<u32>();
        rest -= *count;
    }
    counts[last] = rest;
    (low, last + 1)
}
