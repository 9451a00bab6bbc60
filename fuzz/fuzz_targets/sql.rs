//! Any text as a question.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    m2m_fuzz::sql(text);
});
