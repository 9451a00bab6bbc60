//! Any bytes as a table.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    m2m_fuzz::csv(bytes);
});
