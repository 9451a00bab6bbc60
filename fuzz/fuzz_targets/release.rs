//! Any bytes as a release.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    m2m_fuzz::release(bytes);
});
