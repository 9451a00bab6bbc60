//! What is done with input that nobody wrote: whatever it is, no panic, no hang, no huge allocation.
//!
//! Both the fuzz targets and `crates/m2m/tests/fuzz.rs`, which needs no fuzzer, call these.

use std::sync::LazyLock;

use m2m::Release;
use m2m::expr::col;
use m2m::fit::{Fit, Options};
use m2m::sql::{self, Query};
use m2m::task::Ask;
use m2m::task::learn::{self, ClusterOptions, Formula, Learner};
use sha2::{Digest, Sha256};

/// Releases with more sums than this are opened and left alone.
const MAX_SUMS: usize = 3000;
const SAMPLES: usize = 200;

/// Bytes as a release, as they are and with a hash that fits them; if it opens, it is questioned. Whether it did.
pub fn release(bytes: &[u8]) -> bool {
    let as_it_is = Release::from_bytes(bytes);
    let sealed = seal(bytes).and_then(|sealed| Release::from_bytes(&sealed).ok());
    match as_it_is.ok().or(sealed) {
        Some(release) => {
            question(&release);
            true
        }
        None => false,
    }
}

/// The bytes with the hash that they should have: an attacker can compute it too.
pub fn seal(bytes: &[u8]) -> Option<Vec<u8>> {
    const PREFIX: &[u8] = b"sha256:";
    const DIGITS: usize = 64;
    let at = bytes.windows(PREFIX.len()).position(|window| window == PREFIX)? + PREFIX.len();
    let mut sealed = bytes.to_vec();
    sealed.get_mut(at..at + DIGITS)?.fill(b'0');
    let hash: String = Sha256::digest(&sealed).iter().map(|byte| format!("{byte:02x}")).collect();
    sealed[at..at + DIGITS].copy_from_slice(hash.as_bytes());
    Some(sealed)
}

/// One of everything. Refusals are fine.
fn question(release: &Release) {
    let columns = release.schema().columns();
    let sums: usize = release.blocks().iter().map(|block| block.sums().len()).sum();
    if sums > MAX_SUMS || columns.len() > 30 {
        return;
    }
    let Ok(fit) = Fit::new(release, Options { samples: SAMPLES, ..Options::default() }) else { return };
    let numeric: Vec<&str> =
        columns.iter().filter(|column| column.kind.range().is_some()).map(|column| column.name.as_str()).collect();
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let asked = Ask::of(&fit);
    for column in columns {
        let _ = asked.histogram(&column.name, 8);
    }
    let mut text = "SELECT COUNT(*)".to_owned();
    if let [first, .., last] | [first @ last] = numeric[..] {
        let (a, b) = (quoted(first), quoted(last));
        text += &format!(", AVG({a}), MEDIAN({a}), CORR({a}, {b}), STDDEV_POP({b})");
        let _ = asked.quantile(&col(first), 0.9);
        let _ = asked.correlation(&numeric);
        let _ = asked.density(&[first], &[0.5], &[1.0]);
        let _ = learn::pca(&fit, Some(&[first.to_owned()]), true);
        let _ = learn::k_means(&fit, None, &ClusterOptions { k: 2, ..ClusterOptions::default() });
        if let Ok(formula) = Formula::parse(&format!("{b} ~ ."), fit_schema(&fit)) {
            let _ = learn::fit(&fit, &formula, Learner::Linear, &learn::Options::default());
        }
    }
    let table = Query::parse(&text, release.schema()).and_then(|query| query.run(&fit));
    if let Ok(table) = table {
        let (json, csv) = (table.to_json(), table.to_csv());
        assert!(json["rows"].is_array() && !csv.is_empty());
    }
}

fn fit_schema(fit: &Fit) -> &m2m::Schema {
    m2m::estimate::Model::schema(fit)
}

/// A release of twenty people who do not exist.
const TINY: &[u8] = include_bytes!("../corpus/release/tiny.json");

static TINY_FIT: LazyLock<Fit> = LazyLock::new(|| {
    let release = Release::from_bytes(TINY).expect("our own release opens");
    Fit::new(&release, Options { samples: SAMPLES, ..Options::default() }).expect("and can be read")
});

/// A text as a query, as a condition and as a formula. Whether any of them could be read.
pub fn sql(text: &str) -> bool {
    let fit = &*TINY_FIT;
    let schema = fit_schema(fit);
    let query = Query::parse(text, schema);
    let condition = sql::condition(text, schema);
    let formula = Formula::parse(text, schema);
    let read = query.is_ok() || condition.is_ok() || formula.is_ok();
    if let Ok(table) = query.and_then(|query| query.run(fit)) {
        let (json, csv) = (table.to_json(), table.to_csv());
        assert!(json["rows"].is_array() && !csv.is_empty());
    }
    if let Ok(asked) = condition.and_then(|condition| Ask::of(fit).filter(&condition)) {
        let _ = asked.count();
    }
    if let Ok(formula) = formula {
        let _ = learn::fit(fit, &formula, Learner::Linear, &learn::Options::default());
    }
    read
}
