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

/// Writes the places of all bytes that are `a` or `b`, in order, and returns how many there are. `places` must be 64
/// longer than that.
pub(crate) fn places_of_either(simd: Simd, bytes: &[u8], a: u8, b: u8, places: &mut [u32]) -> usize {
    let mut count = 0;
    let mut chunks = bytes.chunks_exact(64);
    let mut base = 0;
    for chunk in &mut chunks {
        let mut mask = mask_of_either(simd, chunk.try_into().expect("chunks of 64"), a, b);
        let found = mask.count_ones() as usize;
        // Eight at a time without asking how many there are: the surplus is overwritten by the next chunk.
        for group in places[count..].chunks_exact_mut(8).take(found.div_ceil(8)) {
            for place in group {
                *place = base + mask.trailing_zeros();
                mask &= mask.wrapping_sub(1);
            }
        }
        count += found;
        base += 64;
    }
    for (place, byte) in (base..).zip(chunks.remainder()) {
        places[count] = place;
        count += usize::from(*byte == a || *byte == b);
    }
    count
}

/// Bit i is set where byte i is `a` or `b`.
#[allow(unsafe_code)]
#[inline(always)]
fn mask_of_either(simd: Simd, chunk: &[u8; 64], a: u8, b: u8) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::*;
        #[target_feature(enable = "avx2")]
        fn avx2(chunk: &[u8; 64], a: u8, b: u8) -> u64 {
            let half = |at: usize| {
                // SAFETY: both halves are 32 bytes within the chunk, and the load needs no alignment.
                let bytes = unsafe { _mm256_loadu_si256(chunk.as_ptr().add(at).cast()) };
                let either = _mm256_or_si256(
                    _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(a as i8)),
                    _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(b as i8)),
                );
                u64::from(_mm256_movemask_epi8(either) as u32)
            };
            half(0) | half(32) << 32
        }
        if simd >= Simd::Avx2 {
            // SAFETY: Avx2 or more comes from `Simd::available`, which has asked the processor.
            return unsafe { avx2(chunk, a, b) };
        }
    }
    let _ = simd;
    chunk.iter().enumerate().fold(0, |mask, (i, byte)| mask | u64::from(*byte == a || *byte == b) << i)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn places_are_those_of_a_plain_search(bytes in prop::collection::vec(0u8..6, 0..400)) {
            let expected: Vec<u32> = (0..bytes.len() as u32).filter(|i| matches!(bytes[*i as usize], 1 | 3)).collect();
            for simd in Simd::available() {
                let mut places = vec![0; bytes.len() + 64];
                let count = places_of_either(simd, &bytes, 1, 3, &mut places);
                prop_assert_eq!(&places[..count], &expected[..]);
            }
        }
    }
}
