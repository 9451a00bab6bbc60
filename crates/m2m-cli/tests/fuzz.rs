//! Requests that nobody sent, to the explorer: whatever they are, no panic, no failure of ours, nothing for strangers. The
//! same body runs under libFuzzer in `fuzz/`.
//!
//! Every run tests the same requests; `cargo xtask fuzz` tests many more of them.

mod common;
#[path = "../../../fuzz/src/drive.rs"]
#[allow(dead_code)]
mod drive;
#[path = "../../../fuzz/src/http.rs"]
mod requests;

use common::Random;
use drive::{cases, damage, memory_is_bounded, tell};

const REQUESTS: &[&[u8]] = &[
    include_bytes!("../../../fuzz/corpus/http/overview.http"),
    include_bytes!("../../../fuzz/corpus/http/plain.http"),
    include_bytes!("../../../fuzz/corpus/http/column.http"),
    include_bytes!("../../../fuzz/corpus/http/level.http"),
    include_bytes!("../../../fuzz/corpus/http/correlations.http"),
    include_bytes!("../../../fuzz/corpus/http/pair.http"),
    include_bytes!("../../../fuzz/corpus/http/sql.http"),
    include_bytes!("../../../fuzz/corpus/http/ridge.http"),
    include_bytes!("../../../fuzz/corpus/http/logistic.http"),
    include_bytes!("../../../fuzz/corpus/http/rows.http"),
    include_bytes!("../../../fuzz/corpus/http/csv.http"),
    include_bytes!("../../../fuzz/corpus/http/parquet.http"),
    include_bytes!("../../../fuzz/corpus/http/description.http"),
    include_bytes!("../../../fuzz/corpus/http/cookie.http"),
    include_bytes!("../../../fuzz/corpus/http/bearer.http"),
    include_bytes!("../../../fuzz/corpus/http/first.http"),
    include_bytes!("../../../fuzz/corpus/http/stranger.http"),
];

/// Other threads answer, so that the time of all of them counts.
fn run(bytes: &[u8]) -> bool {
    drive::run(&String::from_utf8_lossy(bytes), drive::busy_together, || requests::http(bytes))
}

/// Requests of the corpus are answered, but for the first visit, which is sent on, and the stranger.
#[test]
fn the_corpus_is_answered() {
    for (at, request) in REQUESTS.iter().enumerate() {
        assert_eq!(run(request), at + 2 < REQUESTS.len(), "{}", String::from_utf8_lossy(request));
    }
}

/// A request in which one or two words stand where others stood that end in the same way.
fn reword(random: &mut Random) -> Vec<u8> {
    let words = |at: usize| REQUESTS[at].split_inclusive(|byte| b"/?&=+:, \"()\n".contains(byte));
    let mut tokens: Vec<&[u8]> = words(random.below(REQUESTS.len())).collect();
    for _ in 0..=random.below(2) {
        let at = random.below(tokens.len());
        let alike = |word: &&[u8]| word.last() == tokens[at].last();
        let other: Vec<&[u8]> = (0..REQUESTS.len()).flat_map(words).filter(alike).collect();
        tokens[at] = other[random.below(other.len())];
    }
    tokens.concat()
}

#[test]
fn damaged_requests_are_refused_or_answered() {
    let mut random = Random(18);
    let cases = cases(1000);
    let answered = (0..cases).filter(|case| match case % 2 {
        0 => run(&damage(REQUESTS, &mut |bound| random.below(bound))),
        _ => run(&reword(&mut random)),
    });
    let answered = answered.count();
    tell("http", cases, answered);
    assert!(answered > 100, "too few requests are good enough to test anything: {answered}");
    memory_is_bounded();
}
