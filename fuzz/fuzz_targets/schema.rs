//! Any text as a schema or a design.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    m2m_fuzz::schema(text);
});
