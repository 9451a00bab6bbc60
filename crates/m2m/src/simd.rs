//! One place where wider instructions are chosen. Every path runs the same loop and gives the same integers.

/// The instruction set that a kernel is compiled for.
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

/// How many bits two sets have in common.
#[allow(unsafe_code)]
pub(crate) fn common_bits(simd: Simd, a: &[u64], b: &[u64]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
        fn counting(a: &[u64], b: &[u64]) -> u64 {
            common_bits_loop(a, b)
        }
        if simd == Simd::Avx512 && is_x86_feature_detected!("avx512vpopcntdq") {
            // SAFETY: Avx512 comes from `Simd::available`, which has asked the processor, as this line does.
            return unsafe { counting(a, b) };
        }
    }
    common_bits_dispatched(simd, a, b)
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
        fn common_bits_are_counted(words in prop::collection::vec(any::<(u64, u64)>(), 0..100)) {
            let (a, b): (Vec<u64>, Vec<u64>) = words.iter().copied().unzip();
            let expected: u64 = words.iter().map(|(a, b)| u64::from((a & b).count_ones())).sum();
            for simd in Simd::available() {
                prop_assert_eq!(common_bits(simd, &a, &b), expected);
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
