//! What is done with input that nobody wrote: whatever it is, no panic, no hang, no huge allocation.
//!
//! Both the fuzz targets and `crates/m2m/tests/fuzz.rs`, which needs no fuzzer, call these.

use std::path::PathBuf;
use std::sync::LazyLock;

use m2m::expr::col;
use m2m::fit::{Fit, Options};
use m2m::privatise::{Budget, Ledger, Plan, Privacy};
use m2m::source::{self, Table};
use m2m::sql::{self, Query};
use m2m::sums::Sketcher;
use m2m::task::Ask;
use m2m::task::learn::{self, ClusterOptions, Formula, Learner};
use m2m::{Design, Error, Release, Schema, Sums};
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

fn fit_schema(fit: &Fit) -> &Schema {
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

/// A cell that stands in the corpus of tables: no message may show it.
pub const CANARY: &str = "Zq7Kx9Wv";

const ROWS: &str = include_str!("../corpus/schema/all.toml");
const USERS: &str = include_str!("../corpus/schema/users.toml");

/// For a table of rows and for one of users.
static SKETCHERS: LazyLock<[Sketcher; 2]> = LazyLock::new(|| {
    let design = Design::parse("hist:bins=3").expect("a design");
    [ROWS, USERS].map(|text| {
        let schema = Schema::from_toml(text).expect("our own schema");
        Sketcher::new(&schema, &design).expect("and a map for it")
    })
});

/// Bytes as a table of rows and as one of users, calmly and strictly. Whether it could be read.
pub fn csv(bytes: &[u8]) -> bool {
    let mut read = false;
    for sketcher in &*SKETCHERS {
        for strict in [false, true] {
            let table = Table::from_csv_bytes(bytes.to_vec()).strict(strict);
            match source::sketch(sketcher, &table, 1, &()) {
                Ok((_, report)) => {
                    read = true;
                    let panels = source::read(&table, sketcher.schema(), &()).expect("what was added up can be read");
                    assert_eq!(panels.iter().map(|panel| panel.len() as u64).sum::<u64>(), report.rows);
                }
                Err(error) => {
                    assert!(error.is_input(), "{error}");
                    assert!(!error.to_string().contains(CANARY), "a message shows a cell");
                }
            }
        }
    }
    read
}

/// A text as a schema and as a design. Whether either could be read.
pub fn schema(text: &str) -> bool {
    let designs = [Design::from_toml(text), Design::parse(text)];
    let read = Schema::from_toml(text);
    for design in designs.iter().flatten() {
        let json = serde_json::to_string(design).expect("a design has a JSON form");
        assert!(serde_json::from_str::<Design>(&json).is_ok_and(|again| again == *design), "{json}");
    }
    let Ok(schema) = read else { return designs.iter().any(Result::is_ok) };
    let again = Schema::from_toml(&schema.to_toml()).expect("what we write we read");
    assert_eq!(again, schema);
    if schema.columns().len() <= 20 {
        let design = Design::parse("hist:bins=2").expect("a design");
        if let Ok(sketcher) = Sketcher::new(&schema, &design) {
            let names: Vec<&str> = schema.columns().iter().map(|column| column.name.as_str()).collect();
            let table = Table::from_csv_bytes(format!("{}\n1,2\n,\n", names.join(",")).into_bytes());
            let _ = source::sketch(&sketcher, &table, 1, &());
        }
    }
    true
}

/// A file of these bytes, until it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(bytes: &[u8]) -> Self {
        let name = format!("m2m-fuzz-{}-{:?}", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name.replace(['(', ')'], ""));
        std::fs::write(&path, bytes).expect("there is room for a small file");
        Self(path)
    }

    fn beside(&self) -> PathBuf {
        let mut name = self.0.clone().into_os_string();
        name.push(".lock");
        name.into()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_file(self.beside());
    }
}

fn spend_one() -> Privacy {
    Privacy::new(Budget::pure("1".parse().expect("a decimal")).expect("a budget"))
}

/// Bytes as a file of sums, as they are and with a hash that fits them; what opens is merged, written and released.
pub fn sums(bytes: &[u8]) -> bool {
    let sealed = bytes.split_last_chunk::<32>().map(|(start, _)| [start, &Sha256::digest(start)].concat());
    let open = |bytes: &[u8]| Sums::open(&Scratch::new(bytes).0);
    let Some(sums) = open(bytes).ok().or_else(|| open(&sealed?).ok()) else { return false };
    let scratch = Scratch::new(b"");
    sums.save(&scratch.0, true).expect("what was read can be written");
    let mut again = Sums::open(&scratch.0).expect("and read again");
    let _ = again.merge(sums);
    let (schema, design) = (again.schema().clone(), again.design().clone());
    if let Ok(plan) = Plan::new(&schema, &design, spend_one())
        && plan.design().blocks().iter().all(|block| block.map.shape(&schema).is_ok_and(|(len, _)| len <= MAX_SUMS))
    {
        let release = again.privatise(plan.draw().expect("there is noise")).expect("sums fit their own plan");
        assert!(Release::from_bytes(release.to_json().as_bytes()).is_ok());
    }
    true
}

/// Bytes as a ledger, from which something is then spent: never more than is left, and never without a trace.
pub fn ledger(bytes: &[u8]) -> bool {
    let scratch = Scratch::new(bytes);
    let Ok(before) = Ledger::open(&scratch.0) else { return false };
    let schema = SKETCHERS[0].schema();
    let allowed = before.check(schema, &spend_one());
    match Ledger::debit(&scratch.0, schema, &spend_one(), "fuzz") {
        Ok(after) => {
            assert!(allowed.is_ok());
            assert_eq!(after.spent().len(), before.spent().len() + 1);
            assert!(after.left().0 < before.left().0 && after.total() == before.total());
        }
        Err(Error::Ledger(_)) => {
            let text = std::fs::read(&scratch.0).expect("it is still there");
            assert_eq!(text, bytes, "a refusal changes nothing");
        }
        Err(error) => panic!("{error}"),
    }
    true
}
