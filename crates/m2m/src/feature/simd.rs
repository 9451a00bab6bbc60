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
        $vis fn $name $(<$g: $bound>)? (simd: $crate::feature::Simd, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn avx2 $(<$g: $bound>)? ($($arg: $ty),*) $(-> $ret)? { $body $(::<$g>)? ($($arg),*) }
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
                fn avx512 $(<$g: $bound>)? ($($arg: $ty),*) $(-> $ret)? { $body $(::<$g>)? ($($arg),*) }
                match simd {
                    // SAFETY: a value other than Portable comes from `Simd::available`, which has
                    // asked the processor for exactly these features.
                    $crate::feature::Simd::Avx2 => return unsafe { avx2 $(::<$g>)? ($($arg),*) },
                    // SAFETY: as above.
                    $crate::feature::Simd::Avx512 => return unsafe { avx512 $(::<$g>)? ($($arg),*) },
                    $crate::feature::Simd::Portable => {}
                }
            }
            let _ = simd;
            $body $(::<$g>)? ($($arg),*)
        }
    };
}
pub(crate) use dispatched;
