//! Any bytes as a file of sums.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    m2m_fuzz::sums(bytes);
});
