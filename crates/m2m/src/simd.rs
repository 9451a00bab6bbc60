//! One place where wider instructions are chosen. Every path runs the same loop and gives the same integers.

use crate::feature::phase::{GROUP, LOW, SAFE};
use crate::panel::{Lane, PANEL};

/// The instruction set that a kernel is compiled for. Anyone can name one; kernels get what [`Simd::available`] found, to
/// which designs narrow what they are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Simd {
    /// Whatever the target has.
    Portable,
    /// AVX2 with fused multiply-add.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl Simd {
    /// The widest that this processor has.
    pub fn detect() -> Self {
        *Self::available().last().expect("the portable path is always there")
    }

    /// All that this processor has, narrowest first.
    pub fn available() -> Vec<Self> {
        let mut all = vec![Self::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            if avx2 {
                all.push(Self::Avx2);
            }
            if avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
            {
                all.push(Self::Avx512);
            }
        }
        all
    }
}

/// Defines a function that runs an `#[inline(always)]` loop compiled for the given [`Simd`].
macro_rules! dispatched {
    ($vis:vis fn $name:ident $(<$g:ident: $bound:path>)? ($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:ident) => {
        #[allow(unsafe_code)]
        $vis fn $name $(<$g: $bound>)? (simd: $crate::simd::Simd, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn avx2 $(<$g: $bound>)? ($($arg: $ty),*) $(-> $ret)? { $body $(::<$g>)? ($($arg),*) }
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
                fn avx512 $(<$g: $bound>)? ($($arg: $ty),*) $(-> $ret)? { $body $(::<$g>)? ($($arg),*) }
                match simd {
                    // SAFETY: a value other than Portable comes from `Simd::available`, which has
                    // asked the processor for exactly these features.
                    $crate::simd::Simd::Avx2 => return unsafe { avx2 $(::<$g>)? ($($arg),*) },
                    // SAFETY: as above.
                    $crate::simd::Simd::Avx512 => return unsafe { avx512 $(::<$g>)? ($($arg),*) },
                    $crate::simd::Simd::Portable => {}
                }
            }
            let _ = simd;
            $body $(::<$g>)? ($($arg),*)
        }
    };
}

pub(crate) use dispatched;

/// What the phases of a group of outputs are made of, for all records of a panel.
pub(crate) struct Turns<'a> {
    /// Per pair of inputs and record, the high parts of both.
    pub high: &'a [Lane<i32>],
    /// The same of the low parts.
    pub low: &'a [Lane<i32>],
    /// Per pair of inputs and output, the weights of both.
    pub weights: &'a [[i32; GROUP]],
    /// What the sums of all records start with.
    pub middle: [i32; GROUP],
    /// By how many places sums go up to become phases.
    pub shift: [u32; GROUP],
    /// Per output and record, what is added then.
    pub offsets: Option<&'a [Lane<u32>; GROUP]>,
    pub records: usize,
}

/// Computes the phases of a group of outputs. What lies past the records is left as it happens to be.
#[allow(unsafe_code)]
pub(crate) fn phases(simd: Simd, turns: &Turns<'_>, phases: &mut [Lane<u32>; GROUP]) {
    debug_assert!(turns.high.len() == turns.weights.len() && turns.low.len() == turns.weights.len());
    debug_assert!(turns.records <= PANEL);
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;

        /// Outputs `FIRST..FIRST + N`, in steps of as many records as a vector has lanes.
        macro_rules! with {
            ($name:ident, $features:literal, $lanes:literal, $spread:ident, $load:ident, $store:ident,
             $add:ident, $up:ident, $down:ident, $dot:expr) => {
                #[target_feature(enable = $features)]
                fn $name<const FIRST: usize, const N: usize>(turns: &Turns<'_>, phases: &mut [Lane<u32>; GROUP]) {
                    const STEPS: usize = PANEL / $lanes;
                    const { assert!(STEPS * $lanes == PANEL) };
                    let pairs = turns.weights.len();
                    let (high, low, weights) = (&turns.high[..pairs], &turns.low[..pairs], &turns.weights[..pairs]);
                    for step in 0..turns.records.div_ceil($lanes).min(STEPS) {
                        let mut sums = [$spread(0); N];
                        for j in 0..N {
                            sums[j] = $spread(turns.middle[FIRST + j]);
                        }
                        let mut from = 0;
                        while from < pairs {
                            let to = pairs.min(from + SAFE);
                            let mut lows = [$spread(0); N];
                            for pair in from..to {
                                let high: &[i32; $lanes] = &high[pair].as_chunks().0[step];
                                let low: &[i32; $lanes] = &low[pair].as_chunks().0[step];
                                // SAFETY: both are as long as what is read, and the loads need no alignment.
                                let (high, low) = unsafe { ($load(high.as_ptr().cast()), $load(low.as_ptr().cast())) };
                                for j in 0..N {
                                    let weights = $spread(weights[pair][FIRST + j]);
                                    sums[j] = $dot(sums[j], high, weights);
                                    lows[j] = $dot(lows[j], low, weights);
                                }
                            }
                            from = to;
                            for j in 0..N {
                                sums[j] = $add(sums[j], $down::<{ LOW as _ }>(lows[j]));
                            }
                        }
                        for j in 0..N {
                            let mut phase = $up(sums[j], $spread(turns.shift[FIRST + j] as i32));
                            if let Some(offsets) = turns.offsets {
                                let offsets: &[u32; $lanes] = &offsets[FIRST + j].as_chunks().0[step];
                                // SAFETY: as above.
                                phase = $add(phase, unsafe { $load(offsets.as_ptr().cast()) });
                            }
                            let phases: &mut [u32; $lanes] = &mut phases[FIRST + j].as_chunks_mut().0[step];
                            // SAFETY: it is as long as what is written, and the store needs no alignment.
                            unsafe { $store(phases.as_mut_ptr().cast(), phase) };
                        }
                    }
                }
            };
        }
        with!(
            vnni,
            "avx512f,avx512bw,avx512vnni",
            16,
            _mm512_set1_epi32,
            _mm512_loadu_si512,
            _mm512_storeu_si512,
            _mm512_add_epi32,
            _mm512_sllv_epi32,
            _mm512_srai_epi32,
            _mm512_dpwssd_epi32
        );
        with!(
            avx512,
            "avx512f,avx512bw",
            16,
            _mm512_set1_epi32,
            _mm512_loadu_si512,
            _mm512_storeu_si512,
            _mm512_add_epi32,
            _mm512_sllv_epi32,
            _mm512_srai_epi32,
            |sum, x, w| _mm512_add_epi32(sum, _mm512_madd_epi16(x, w))
        );
        with!(
            avx2,
            "avx2",
            8,
            _mm256_set1_epi32,
            _mm256_loadu_si256,
            _mm256_storeu_si256,
            _mm256_add_epi32,
            _mm256_sllv_epi32,
            _mm256_srai_epi32,
            |sum, x, w| _mm256_add_epi32(sum, _mm256_madd_epi16(x, w))
        );
        const HALF: usize = GROUP / 2;
        // SAFETY: Avx2 and Avx512 come from `Simd::available`, which has asked the processor for what they stand for, and
        // this line asks for what they do not.
        unsafe {
            match simd {
                Simd::Avx512 if is_x86_feature_detected!("avx512vnni") => return vnni::<0, GROUP>(turns, phases),
                Simd::Avx512 => return avx512::<0, GROUP>(turns, phases),
                Simd::Avx2 => {
                    avx2::<0, HALF>(turns, phases);
                    return avx2::<HALF, HALF>(turns, phases);
                }
                Simd::Portable => {}
            }
        }
    }
    let _ = simd;
    phases_loop(turns, phases);
}

fn phases_loop(turns: &Turns<'_>, phases: &mut [Lane<u32>; GROUP]) {
    let halves = |both: i32| (i32::from(both as i16), both >> 16);
    for (j, phases) in phases.iter_mut().enumerate() {
        for (record, phase) in phases[..turns.records].iter_mut().enumerate() {
            let mut sum = turns.middle[j];
            let all = turns.high.chunks(SAFE).zip(turns.low.chunks(SAFE)).zip(turns.weights.chunks(SAFE));
            for ((high, low), weights) in all {
                let dot = |lanes: &[Lane<i32>]| {
                    lanes.iter().zip(weights).fold(0i32, |sum, (lane, weights)| {
                        let ((x, y), (v, w)) = (halves(lane[record]), halves(weights[j]));
                        sum.wrapping_add(x * v + y * w)
                    })
                };
                sum = sum.wrapping_add(dot(high)).wrapping_add(dot(low) >> LOW);
            }
            let offset = turns.offsets.map_or(0, |offsets| offsets[j][record]);
            *phase = ((sum << turns.shift[j]) as u32).wrapping_add(offset);
        }
    }
}

/// How many bits each of some sets has in common with each of others. All are as long, in multiples of eight words.
#[allow(unsafe_code)]
pub(crate) fn common_bits<const N: usize>(simd: Simd, a: [&[u64]; N], b: [&[u64]; N]) -> [[u64; N]; N] {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        #[target_feature(enable = "avx512f,avx512vpopcntdq")]
        fn counting<const N: usize>(a: [&[u64]; N], b: [&[u64]; N]) -> [[u64; N]; N] {
            debug_assert!(a.iter().chain(&b).all(|set| set.len() == a[0].len()) && a[0].len().is_multiple_of(8));
            let mut sums = [[_mm512_setzero_si512(); N]; N];
            for at in (0..a[0].len()).step_by(8) {
                // SAFETY: the slice is eight words, as many as are read, and the load needs no alignment.
                let load = |set: &[u64]| unsafe { _mm512_loadu_si512(set[at..at + 8].as_ptr().cast()) };
                let b = b.map(load);
                for (sums, a) in sums.iter_mut().zip(a.map(load)) {
                    for (sum, b) in sums.iter_mut().zip(b) {
                        *sum = _mm512_add_epi64(*sum, _mm512_popcnt_epi64(_mm512_and_si512(a, b)));
                    }
                }
            }
            sums.map(|sums| sums.map(|sum| _mm512_reduce_add_epi64(sum) as u64))
        }
        if simd == Simd::Avx512 && is_x86_feature_detected!("avx512vpopcntdq") {
            // SAFETY: Avx512 comes from `Simd::available`, which has asked the processor, as this line does.
            return unsafe { counting(a, b) };
        }
    }
    a.map(|a| b.map(|b| common_bits_dispatched(simd, a, b)))
}

dispatched! {
    fn common_bits_dispatched(a: &[u64], b: &[u64]) -> u64 = common_bits_loop
}

#[inline(always)]
fn common_bits_loop(a: &[u64], b: &[u64]) -> u64 {
    const LANES: usize = 32;
    let mut sums = [0u64; LANES];
    let (chunks_a, chunks_b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = chunks_a.remainder().iter().zip(chunks_b.remainder());
    let mut total: u64 = rest.map(|(a, b)| u64::from((a & b).count_ones())).sum();
    for (a, b) in chunks_a.zip(chunks_b) {
        for l in 0..LANES {
            sums[l] += u64::from((a[l] & b[l]).count_ones());
        }
    }
    total += sums.iter().sum::<u64>();
    total
}

/// Writes a bit per number: whether it is `value`.
#[allow(unsafe_code)]
pub(crate) fn equal_bits(simd: Simd, numbers: &[u16], value: u16, bits: &mut [u64]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        #[target_feature(enable = "avx512f,avx512bw")]
        fn avx512(numbers: &[u16], value: u16, bits: &mut [u64]) {
            let value = _mm512_set1_epi16(value as i16);
            for (numbers, bits) in numbers.chunks_exact(64).zip(bits) {
                debug_assert_eq!(numbers.len(), 64);
                // SAFETY: both halves are 32 numbers within the chunk, and the load needs no alignment.
                let halves = [0, 32].map(|at| unsafe { _mm512_loadu_si512(numbers.as_ptr().add(at).cast()) });
                let [low, high] = halves.map(|half| _mm512_cmpeq_epi16_mask(half, value));
                *bits = u64::from(low) | u64::from(high) << 32;
            }
        }
        if simd == Simd::Avx512 {
            let whole = numbers.len() / 64;
            // SAFETY: Avx512 comes from `Simd::available`, which has asked the processor.
            unsafe { avx512(numbers, value, &mut bits[..whole]) };
            return equal_bits_loop(&numbers[64 * whole..], value, &mut bits[whole..]);
        }
    }
    let _ = simd;
    equal_bits_loop(numbers, value, bits);
}

fn equal_bits_loop(numbers: &[u16], value: u16, bits: &mut [u64]) {
    for (numbers, bits) in numbers.chunks(64).zip(bits) {
        *bits = numbers.iter().enumerate().fold(0, |mask, (i, number)| mask | u64::from(*number == value) << i);
    }
}

/// Writes the places of all bytes that are `a` or `b`, in order, and returns how many there are, and how many are `b`.
/// `places` must be 64 longer than that.
#[allow(unsafe_code)]
pub(crate) fn places_of_either(simd: Simd, bytes: &[u8], a: u8, b: u8, places: &mut [u32]) -> (usize, usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        #[target_feature(enable = "avx2,bmi1,popcnt")]
        fn avx2(bytes: &[u8], a: u8, b: u8, places: &mut [u32]) -> (usize, usize) {
            places_loop(bytes, a, b, places, |chunk, byte| {
                // SAFETY: both halves are 32 bytes within the chunk, and the load needs no alignment.
                let halves = [0, 32].map(|at| unsafe { _mm256_loadu_si256(chunk.as_ptr().add(at).cast()) });
                let [low, high] = halves
                    .map(|half| _mm256_movemask_epi8(_mm256_cmpeq_epi8(half, _mm256_set1_epi8(byte as i8))) as u32);
                u64::from(low) | u64::from(high) << 32
            })
        }
        if simd >= Simd::Avx2 && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("popcnt") {
            // SAFETY: Avx2 or more comes from `Simd::available`, which has asked the processor, as this line does.
            return unsafe { avx2(bytes, a, b, places) };
        }
    }
    let _ = simd;
    places_loop(bytes, a, b, places, |chunk, wanted| {
        chunk.iter().enumerate().fold(0, |mask, (i, byte)| mask | u64::from(*byte == wanted) << i)
    })
}

/// `mask` tells, bit by bit, where a byte occurs in a chunk.
#[inline(always)]
fn places_loop(bytes: &[u8], a: u8, b: u8, places: &mut [u32], mask: impl Fn(&[u8; 64], u8) -> u64) -> (usize, usize) {
    let (mut count, mut count_b) = (0, 0);
    let mut chunks = bytes.chunks_exact(64);
    let mut base = 0;
    for chunk in &mut chunks {
        let chunk = chunk.try_into().expect("chunks of 64");
        let mask_b = mask(chunk, b);
        let mut either = mask(chunk, a) | mask_b;
        count_b += mask_b.count_ones() as usize;
        let found = either.count_ones() as usize;
        // Eight at a time without asking how many there are: the surplus is overwritten by the next chunk.
        for group in places[count..].chunks_exact_mut(8).take(found.div_ceil(8)) {
            for place in group {
                *place = base + either.trailing_zeros();
                either &= either.wrapping_sub(1);
            }
        }
        count += found;
        base += 64;
    }
    for (place, byte) in (base..).zip(chunks.remainder()) {
        places[count] = place;
        count += usize::from(*byte == a || *byte == b);
        count_b += usize::from(*byte == b);
    }
    (count, count_b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn common_bits_are_counted(words in prop::collection::vec(any::<[u64; 6]>(), 0..20)) {
            let sets: [Vec<u64>; 6] = std::array::from_fn(|set| {
                let bits = words.iter().map(|word| word[set]);
                bits.chain(std::iter::repeat(0)).take(words.len().next_multiple_of(8)).collect()
            });
            let set = |i: usize| sets[i].as_slice();
            for simd in Simd::available() {
                let found = common_bits(simd, [set(0), set(1), set(2)], [set(3), set(4), set(5)]);
                for (i, j) in (0..9).map(|at| (at / 3, at % 3)) {
                    let expected: u64 = words.iter().map(|word| u64::from((word[i] & word[3 + j]).count_ones())).sum();
                    prop_assert_eq!(found[i][j], expected);
                }
            }
        }

        #[test]
        fn equal_bits_are_those_of_a_plain_search(numbers in prop::collection::vec(0u16..4, 0..300)) {
            let mut expected = vec![0; numbers.len().div_ceil(64)];
            for (i, _) in numbers.iter().enumerate().filter(|(_, number)| **number == 2) {
                expected[i / 64] |= 1u64 << (i % 64);
            }
            for simd in Simd::available() {
                let mut bits = vec![0; expected.len()];
                equal_bits(simd, &numbers, 2, &mut bits);
                prop_assert_eq!(&bits, &expected);
            }
        }

        #[test]
        fn places_are_those_of_a_plain_search(bytes in prop::collection::vec(0u8..6, 0..400)) {
            let expected: Vec<u32> = (0..bytes.len() as u32).filter(|i| matches!(bytes[*i as usize], 1 | 3)).collect();
            for simd in Simd::available() {
                let mut places = vec![0; bytes.len() + 64];
                let (count, threes) = places_of_either(simd, &bytes, 1, 3, &mut places);
                prop_assert_eq!(&places[..count], &expected[..]);
                prop_assert_eq!(threes, bytes.iter().filter(|byte| **byte == 3).count());
            }
        }
    }
}
