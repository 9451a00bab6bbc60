//! Any bytes as a ledger.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    m2m_fuzz::ledger(bytes);
});
