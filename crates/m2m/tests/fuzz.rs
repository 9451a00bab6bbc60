//! Input that nobody wrote: damaged and forged releases, tables, sums, ledgers and schemas, and soup of SQL. Whatever it is, no panic, no hang, no huge
//! allocation. The same bodies run under libFuzzer in `fuzz/`.
//!
//! Every run tests the same inputs; `cargo xtask fuzz` tests many more of them.

#[path = "../../../fuzz/src/lib.rs"]
mod bodies;
mod common;
#[path = "../../../fuzz/src/drive.rs"]
#[allow(dead_code)]
mod drive;

use common::Random;
use drive::{cases, memory_is_bounded, tell};
use serde_json::{Value, json};

const RELEASES: &[&[u8]] = &[
    include_bytes!("../../../fuzz/corpus/release/tiny.json"),
    include_bytes!("../../../fuzz/corpus/release/all.json"),
    include_bytes!("../../../fuzz/corpus/release/rff.json"),
    include_bytes!("../../../fuzz/corpus/release/race.json"),
    include_bytes!("../../../fuzz/corpus/release/tables.json"),
    include_bytes!("../../../fuzz/corpus/release/merged.json"),
    include_bytes!("../../../fuzz/corpus/release/replace.json"),
    include_bytes!("../../../fuzz/corpus/release/user.json"),
    include_bytes!("golden/release-v1.json"),
    include_bytes!("golden/release-v1-gaussian.json"),
    include_bytes!("golden/release-v1-knorm.json"),
    include_bytes!("golden/release-v1-custom.json"),
];

const QUERIES: &[&str] = &[
    include_str!("../../../fuzz/corpus/sql/q1.sql"),
    include_str!("../../../fuzz/corpus/sql/q2.sql"),
    include_str!("../../../fuzz/corpus/sql/q3.sql"),
    include_str!("../../../fuzz/corpus/sql/q4.sql"),
    include_str!("../../../fuzz/corpus/sql/q5.sql"),
    include_str!("../../../fuzz/corpus/sql/q6.sql"),
    include_str!("../../../fuzz/corpus/sql/q7.sql"),
    include_str!("../../../fuzz/corpus/sql/q8.sql"),
];

const TABLES: &[&[u8]] = &[
    include_bytes!("../../../fuzz/corpus/csv/a.csv"),
    include_bytes!("../../../fuzz/corpus/csv/b.csv"),
    include_bytes!("../../../fuzz/corpus/csv/c.csv"),
    include_bytes!("../../../fuzz/corpus/csv/d.csv"),
];

const SUMS: &[&[u8]] = &[
    include_bytes!("../../../fuzz/corpus/sums/rows.bin"),
    include_bytes!("../../../fuzz/corpus/sums/users.bin"),
    include_bytes!("../../../fuzz/corpus/sums/race.bin"),
];

const LEDGERS: &[&[u8]] = &[
    include_bytes!("../../../fuzz/corpus/ledger/pure.toml"),
    include_bytes!("../../../fuzz/corpus/ledger/approximate.toml"),
    include_bytes!("../../../fuzz/corpus/ledger/rho.toml"),
];

const SCHEMAS: &[&[u8]] = &[
    include_bytes!("../../../fuzz/corpus/schema/all.toml"),
    include_bytes!("../../../fuzz/corpus/schema/users.toml"),
    include_bytes!("../../../fuzz/corpus/schema/design.toml"),
    include_bytes!("../../../fuzz/corpus/schema/odd.toml"),
];

/// Runs a body on an input, by the time that its thread takes.
fn run<T: std::fmt::Debug + ?Sized>(input: &T, body: impl Fn() -> bool + std::panic::RefUnwindSafe) -> bool {
    drive::run(input, drive::busy, body)
}

fn run_release(bytes: &[u8]) -> bool {
    run(&String::from_utf8_lossy(bytes), || bodies::release(bytes))
}

#[test]
fn the_corpus_is_read() {
    for (at, release) in RELEASES.iter().enumerate() {
        assert!(run_release(release), "release {at}");
    }
    for query in QUERIES {
        assert!(run(*query, || bodies::sql(query)), "{query}");
    }
    for (at, sums) in SUMS.iter().enumerate() {
        assert!(run(*sums, || bodies::sums(sums)), "sums {at}");
    }
    for (at, ledger) in LEDGERS.iter().enumerate() {
        assert!(run(*ledger, || bodies::ledger(ledger)), "ledger {at}");
    }
    for (at, schema) in SCHEMAS.iter().enumerate() {
        assert!(run_schema(schema), "schema {at}");
    }
    // The second lacks columns on purpose.
    for (at, table) in TABLES.iter().enumerate() {
        assert_eq!(run(*table, || bodies::csv(table)), at != 1, "table {at}");
    }
}

fn run_schema(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    run(&*text, || bodies::schema(&text))
}

fn damage(corpus: &[&[u8]], random: &mut Random) -> Vec<u8> {
    drive::damage(corpus, &mut |bound| random.below(bound))
}

#[test]
fn damaged_tables_are_refused_or_read() {
    let mut random = Random::new(14);
    let cases = cases(1000);
    let read = (0..cases).filter(|_| {
        let bytes = damage(TABLES, &mut random);
        run(&String::from_utf8_lossy(&bytes), || bodies::csv(&bytes))
    });
    let read = read.count();
    tell("csv", cases, read);
    assert!(read > 100);
    memory_is_bounded();
}

#[test]
fn damaged_sums_are_refused_or_read() {
    let mut random = Random::new(15);
    let cases = cases(1000);
    let read = (0..cases).filter(|_| {
        let bytes = damage(SUMS, &mut random);
        run(&String::from_utf8_lossy(&bytes), || bodies::sums(&bytes))
    });
    let read = read.count();
    tell("sums", cases, read);
    assert!(read > 10);
    memory_is_bounded();
}

/// Files with the right hash whose number of rows or sums are as large as can be.
#[test]
fn sums_that_overflow_are_refused_or_read() {
    for sums in SUMS {
        let header = u64::from_le_bytes(sums[8..16].try_into().unwrap()) as usize;
        for at in [16 + header, 16 + header + 16] {
            for extreme in [i128::MAX, i128::MIN] {
                let mut forged = sums.to_vec();
                forged[at..at + 16].copy_from_slice(&extreme.to_le_bytes());
                assert!(run(&forged, || bodies::sums(&forged)), "they can be read");
            }
        }
    }
}

#[test]
fn damaged_ledgers_are_refused_or_read() {
    let mut random = Random::new(16);
    let cases = cases(300);
    let read = (0..cases).filter(|_| {
        let bytes = damage(LEDGERS, &mut random);
        run(&String::from_utf8_lossy(&bytes), || bodies::ledger(&bytes))
    });
    let read = read.count();
    tell("ledger", cases, read);
    assert!(read > 10);
}

#[test]
fn damaged_schemas_are_refused_or_read() {
    let mut random = Random::new(17);
    let cases = cases(1000);
    let read = (0..cases).filter(|_| run_schema(&damage(SCHEMAS, &mut random)));
    let read = read.count();
    tell("schema", cases, read);
    assert!(read > 20);
    memory_is_bounded();
}

#[test]
fn damaged_bytes_are_refused_or_read() {
    let mut random = Random::new(11);
    let (cases, mut read) = (cases(1000), 0);
    for _ in 0..cases {
        let mut bytes = RELEASES[random.below(RELEASES.len())].to_vec();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            match random.below(5) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes.truncate(at.max(1)),
                2 => bytes[at] = random.word() as u8,
                3 => drop(bytes.remove(at)),
                _ => bytes.insert(at, b"0123456789-.eE\"{}[],:"[random.below(21)]),
            }
            if bytes.is_empty() {
                bytes.push(b'{');
            }
        }
        read += usize::from(run_release(&bytes));
    }
    tell("release (damaged)", cases, read);
    memory_is_bounded();
}

/// Releases that are well-formed and sealed with the right hash, yet say what no curator would.
#[test]
fn forged_documents_are_refused_or_read() {
    let mut random = Random::new(12);
    let (cases, mut opened) = (cases(600), 0);
    for _ in 0..cases {
        let mut document: Value = serde_json::from_slice(RELEASES[random.below(RELEASES.len())]).unwrap();
        for _ in 0..=random.below(3) {
            forge(&mut document, &mut random);
        }
        opened += usize::from(run_release(document.to_string().as_bytes()));
    }
    tell("release (forged)", cases, opened);
    assert!(opened > 40, "too few forgeries are good enough to test anything: {opened}");
    memory_is_bounded();
}

/// Changes one part of a document.
fn forge(document: &mut Value, random: &mut Random) {
    let mut paths = Vec::new();
    collect(document, String::new(), &mut paths);
    // Sums are most of a document: half of the time, leave them alone.
    if random.below(2) == 0 {
        paths.retain(|path| !path.contains("/sums/"));
    }
    let path = &paths[random.below(paths.len())];
    if path == "/hash" || path == "/format" {
        return;
    }
    let integers = [0, 1, -1, 2, 7, 1000, 1 << 20, 1 << 31, 1 << 53, i64::MAX, i64::MIN];
    let numbers = [0.0, -0.0, 0.5, -1.5, 1e-300, 1e300, -1e300, f64::MAX, f64::MIN_POSITIVE, 1e9, 3.0];
    let place = document.pointer_mut(path).expect("the path was found in it");
    *place = match place {
        Value::Number(number) if number.is_i64() && random.below(4) > 0 => json!(integers[random.below(11)]),
        Value::Number(_) => json!(numbers[random.below(11)]),
        Value::String(text) => match random.below(6) {
            0 => json!(""),
            1 => json!(format!("{text}{text}")),
            2 => json!("\u{0}\u{1f600}'\"`;"),
            3 => json!("0000-00-00"),
            4 => json!("age"),
            _ => json!(numbers[random.below(11)].to_string()),
        },
        Value::Array(items) => {
            let mut items = items.clone();
            match random.below(3) {
                0 => drop(items.pop()),
                1 => items.extend(items.first().cloned()),
                _ => items.reverse(),
            }
            json!(items)
        }
        Value::Object(fields) => {
            let mut fields = fields.clone();
            let names: Vec<String> = fields.keys().cloned().collect();
            if !names.is_empty() {
                fields.remove(&names[random.below(names.len())]);
            }
            json!(fields)
        }
        Value::Bool(truth) => json!(!*truth),
        Value::Null => json!(0),
    };
}

fn collect(value: &Value, path: String, into: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| collect(item, format!("{path}/{at}"), into));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| {
                collect(field, format!("{path}/{}", name.replace('~', "~0").replace('/', "~1")), into)
            });
        }
        _ => {}
    }
    if !path.is_empty() {
        into.push(path);
    }
}

const WORDS: &str = "SELECT SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET AS AND OR NOT IN BETWEEN LIKE ILIKE IS \
    NULL NULLS FIRST DISTINCT CASE WHEN THEN ELSE END FILTER WITHIN TRUE FALSE CAST DATE TIMESTAMP INTERVAL UNION JOIN \
    OVER ALL ANY EXISTS CUBE age x g flag born seen t nothing \"age\" 'a' 'b' 'it''s' 'q' '2010-01-01' '' 0 1 2 -1 3.5 1e9 \
    1e308 1e-308 0.5 1000 99999999999999999999 ( ) ( ) ( ) , , , . * + - / % ^ = <> < <= > >= ; :: || ~ : -- /* */ ' \" \
    COUNT(*) COUNT(x) AVG(x) SUM(age) AVG(flag) MEDIAN(x) CORR(age,x) REGR_SLOPE(x,age) VAR_SAMP(age) STDDEV_POP(x) \
    SKEWNESS(x) APPROX_QUANTILE(x,0.5) bin(age,3) bin(x,4) bin(born,2) MIN(x) ln exp sqrt abs power round floor ceil \
    coalesce nullif ifnull mod greatest least sign é \u{1f600} \u{feff}";

#[test]
fn soup_of_sql_is_refused_or_answered() {
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut random = Random::new(13);
    let (cases, mut read) = (cases(1500), 0);
    for case in 0..cases {
        let mut tokens: Vec<&str> = match case % 3 {
            0 => (0..random.below(12)).map(|_| random.pick(&words)).collect(),
            _ => QUERIES[random.below(QUERIES.len())].split_inclusive(&[' ', '(', ',', ')'][..]).collect(),
        };
        for _ in 0..random.below(4) {
            let at = random.below(tokens.len() + 1);
            match random.below(4) {
                0 if at < tokens.len() => drop(tokens.remove(at)),
                1 if at < tokens.len() => tokens[at] = random.pick(&words),
                2 if at < tokens.len() => {
                    let with = random.below(tokens.len());
                    tokens.swap(at, with);
                }
                _ => tokens.insert(at, random.pick(&words)),
            }
        }
        let mut text = tokens.join(if case % 2 == 0 { " " } else { "" });
        if random.below(20) == 0 {
            let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            text.truncate(ends.get(random.below(ends.len() + 1)).copied().unwrap_or(text.len()));
        }
        read += usize::from(run(&text, || bodies::sql(&text)));
    }
    tell("sql", cases, read);
    assert!(read > 100, "too little of the soup can be read to test anything: {read}");
    memory_is_bounded();
}

/// Texts that nest or repeat without end.
#[test]
fn towers_of_sql_are_refused_or_answered() {
    let tall = [3, 38, 45, 170, 1000, 30_000];
    let towers: &[(&str, &str, &str, &str)] = &[
        ("SELECT ", "(", "1", ")"),
        ("SELECT ", "-", "1", ""),
        ("SELECT ", "- ", "1", ""),
        ("SELECT ", "+ ", "1", ""),
        ("SELECT COUNT(*) WHERE ", "NOT ", "flag", ""),
        ("SELECT COUNT(*) WHERE ", "NOT (", "flag", ")"),
        ("SELECT ", "1 + ", "1", ""),
        ("SELECT ", "AVG(x) * ", "1", ""),
        ("SELECT ", "1, ", "1", ""),
        ("SELECT ", "AVG(x), ", "1", ""),
        ("SELECT ", "abs(", "AVG(x)", ")"),
        ("SELECT ", "CASE WHEN AVG(x) > 1 THEN ", "1", " ELSE 0 END"),
        ("SELECT COUNT(*) WHERE x IN (", "1, ", "1)", ""),
        ("SELECT COUNT(*) WHERE x IN (", "age, ", "1)", ""),
        ("SELECT COUNT(*) WHERE ", "x > 1 AND ", "flag", ""),
        ("SELECT COUNT(*) WHERE ", "x BETWEEN 1 AND ", "2", ""),
        ("SELECT COUNT(*) WHERE ", "nullif(x, ", "1", ") > 1"),
        ("SELECT COUNT(*) WHERE 1 = ", "coalesce(x, ", "1", ")"),
        ("SELECT COUNT(*) WHERE flag IS NOT DISTINCT FROM ", "(flag IS NOT DISTINCT FROM ", "flag", ")"),
        ("SELECT COUNT(*) FROM t GROUP BY ", "flag, ", "g", ""),
        ("SELECT COUNT(*) FROM ", "(SELECT 1 FROM ", "t", ")"),
        ("SELECT COUNT(*) FROM t ORDER BY ", "1, ", "1", ""),
        ("SELECT COUNT(*) WHERE g LIKE '", "%a", "'", ""),
        ("SELECT COUNT(*) WHERE g LIKE '", "%_", "b'", ""),
        ("SELECT x", "::int", "", ""),
        ("SELECT ", "/*", "1", "*/"),
        ("SELECT ", "'", "1", "'"),
        ("x ~ ", "age + ", "1", ""),
        ("x ~ ", "(", "age", ")"),
        ("x ~ ", "age:", "age", ""),
        ("x ~ ", "g:flag:", "age", ""),
        ("x ~ ", "log(", "age", ")"),
        ("x ~ .", " - age", "", ""),
        ("x ~ age", " - 1", "", ""),
        ("", "~", "", ""),
    ];
    let mut fallen = Vec::new();
    for (start, up, top, down) in towers {
        for height in tall {
            let text = format!("{start}{}{top}{}", up.repeat(height), down.repeat(height));
            let name = format!("{start}{{{up} × {height}}}{top}{{{down} × {height}}}");
            if std::panic::catch_unwind(|| run(&name, || bodies::sql(&text))).is_err() {
                fallen.push(name);
            }
        }
    }
    assert!(fallen.is_empty(), "{fallen:#?}");
    memory_is_bounded();
}
