//! Any bytes as a request to the explorer.
#![no_main]

#[path = "../src/http.rs"]
mod requests;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    requests::http(bytes);
});
