//! Releases come back as they were written, old ones open forever, and a file that lies or is damaged is refused.

mod common;

use std::path::{Path, PathBuf};

use common::{Random, csv, records, sketch};
use m2m::feature::{Body, FeatureMap};
use m2m::panel::{Record, Value as Cell};
use m2m::privatise::{Budget, Neighbours, NoiseKind, Plan, Privacy};
use m2m::source::Table;
use m2m::sums::Sketcher;
use m2m::{Design, Release, Schema};
use proptest::prelude::*;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// One file per kind of noise, of budget, of unit and of neighbours; between them all maps and all columns.
const GOLDEN: [&str; 5] = [
    "release-v1.json",
    "release-v1-knorm.json",
    "release-v1-gaussian.json",
    "release-v1-custom.json",
    "release-v1-one-hot.json",
];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(golden(name)).unwrap()
}

/// The text with its hash made right again.
fn rehash(text: &str) -> String {
    let at = text.find("sha256:").unwrap() + "sha256:".len();
    let with = |digits: &str| [&text[..at], digits, &text[at + 64..]].concat();
    let hash: String = Sha256::digest(with(&"0".repeat(64))).iter().map(|byte| format!("{byte:02x}")).collect();
    with(&hash)
}

/// A golden file after an edit, with its hash made right again.
fn edited(name: &str, edit: impl FnOnce(&mut Value)) -> String {
    let mut document: Value = serde_json::from_str(&text(name)).unwrap();
    edit(&mut document);
    rehash(&document.to_string())
}

fn budget(epsilon: Option<&str>, delta: Option<&str>, rho: Option<&str>) -> Privacy {
    let decimal = |text: Option<&str>| text.map(|text| text.parse().unwrap());
    Privacy::new(Budget::new(decimal(epsilon), decimal(delta), decimal(rho)).unwrap())
}

fn release(schema: &Schema, design: &Design, privacy: Privacy, rows: usize) -> Release {
    privatised(&Sketcher::new(schema, design).unwrap(), privacy, rows)
}

fn privatised(sketcher: &Sketcher, privacy: Privacy, rows: usize) -> Release {
    let plan = Plan::new(sketcher.schema(), sketcher.design(), privacy).unwrap();
    let noise = plan.draw().unwrap();
    let text = csv(sketcher.schema(), &records(sketcher.schema(), 1, rows));
    sketch(sketcher, &Table::from_csv_bytes(text), 1).privatise(noise).unwrap()
}

/// A map of a user's own.
struct First;

impl FeatureMap for First {
    fn len(&self) -> usize {
        2
    }
    fn body(&self) -> Body {
        Body::Bounded { l1: 101, l2_squared: 10_001 }
    }
    fn record(&self, record: Record<'_>, features: &mut [i64]) {
        match record.value(0) {
            Cell::Unit(u) => features[0] = (100.0 * u) as i64,
            _ => features[1] = 1,
        }
    }
}

/// Writes the golden files that are not there. Run once per format version, by hand:
/// `cargo test -p m2m --test release -- --ignored make_golden_files`.
#[test]
#[ignore = "golden files are made once and kept"]
fn make_golden_files() {
    let maps = "[[map]]\nkind = 'hist'\nbins = 3\nshare = 0.3\n\
        [[map]]\nkind = 'tables'\ngroups = [['c1', 'c5'], ['c3']]\nbins = 2\nshare = 0.1\n\
        [[map]]\nkind = 'rff'\nm = 6\nsigma = 0.5\nshare = 0.2\n\
        [[map]]\nkind = 'rff'\nm = 4\nkernel = 'laplace'\nprecision = 'precise'\nshare = 0.1\n\
        [[map]]\nkind = 'rff'\nm = 4\nkernel = 'matern32'\nfrequencies = 'iid'\nshare = 0.1\n\
        seed = 18446744073709551615\n\
        [[map]]\nkind = 'race'\nr = 3\nw = 4\nsigma = 0.1\ncolumns = ['c2', 'c0']\nshare = 0.15\n\
        [[map]]\nkind = 'race'\nr = 2\nw = 4\nhash = 'angular'\nshare = 0.05\n";
    let maps = Design::from_toml(maps).unwrap();
    let rows = common::schema(&[0, 1, 4, 7, 8, 9, 10, 11, 12], None);
    let users = common::schema(&[2, 3, 5, 6, 9, 10], Some(3));
    let custom = common::schema(&[0], None);
    let own = Sketcher::custom(&custom, "first", json!({"grid": 100, "edges": [0.1, -2.5e-7, null]}), Box::new(First));
    let replace = Privacy { neighbours: Neighbours::Replace, ..budget(None, None, Some("0.125")) };
    let knorm = Privacy { noise: NoiseKind::Knorm, ..budget(Some("0.75"), None, None) };
    let releases = [
        release(&rows, &maps, budget(Some("1.5"), None, None), 100),
        release(&rows, &maps, knorm, 100),
        release(&users, &maps, budget(Some("2"), Some("1e-6"), None), 100),
        privatised(&own.unwrap(), replace, 100),
        release(&rows, &maps, knorm, 100),
    ];
    for (name, release) in GOLDEN.into_iter().zip(releases) {
        let path = golden(name);
        if !path.exists() {
            release.save(path, false).unwrap();
        }
    }
}

#[test]
fn old_releases_open_and_are_rewritten_byte_for_byte() {
    for name in GOLDEN {
        let release = Release::open(golden(name)).unwrap();
        assert_eq!(release.to_json(), text(name), "{name}");
        assert!(text(name).contains(&release.hash()));
        let custom = release.blocks().iter().any(|block| block.map().name() == "first");
        assert_eq!(custom, release.design().unwrap().maps(release.schema(), m2m::feature::Simd::detect()).is_err());
    }
}

#[test]
fn a_release_comes_back_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let schema = common::schema(&[0, 1, 4, 7, 9, 10, 11], Some(2));
    let release = release(&schema, &common::every_map(&schema, 7), budget(Some("1"), None, None), 500);
    assert_eq!(release.to_json(), release.to_json());
    for name in ["a.json", "a.m2m", "a.json.gz"] {
        let path = folder.path().join(name);
        release.save(&path, false).unwrap();
        let back = Release::open(&path).unwrap();
        assert_eq!(back, release);
        assert_eq!(back.to_json(), release.to_json());
        assert_eq!(std::fs::read(&path).unwrap().starts_with(&[0x1f, 0x8b]), name.ends_with("gz"));
        let again = release.save(&path, false).unwrap_err().to_string();
        assert!(again.contains("exists already"), "{again}");
    }
}

/// Any finite number, all its digits included.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![-1e9..1e9f64, -1.0..1.0f64, any::<f64>().prop_map(|x| if x.abs() < 1e90 { x } else { 0.1 })]
}

proptest! {
    #![proptest_config(common::config(1000))]

    /// Bounds, atoms and bandwidths decide where a record falls, so not even their last bit may change on the way.
    #[test]
    fn every_bit_of_the_description_comes_back(a in number(), b in number(), at in 0.0..1.0f64, sigma in 0.01..100f64) {
        prop_assume!(a < b && b - a > 1e-300);
        let atom = (a + at * (b - a)).clamp(a, b);
        let column = format!("[[column]]\nname='c0'\ntype='number'\nmin={a:e}\nmax={b:e}\natoms=[{atom:e}]");
        let design = Design::parse(&format!("rff:m=2,sigma={sigma}")).unwrap();
        let release = release(&Schema::from_toml(&column).unwrap(), &design, budget(Some("1"), None, None), 1);
        prop_assert_eq!(Release::from_bytes(release.to_json().as_bytes()).unwrap(), release);
    }

    #[test]
    fn arbitrary_bytes_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..300), gzip in any::<bool>()) {
        if gzip {
            bytes.splice(0..0, [0x1f, 0x8b, 8, 0]);
        }
        prop_assert!(Release::from_bytes(&bytes).is_err());
    }

    /// The hash is made right again, so that what lies behind it is reached.
    #[test]
    fn no_edit_makes_the_reader_panic(which in 0..GOLDEN.len(), seed in any::<u64>(), edits in 1usize..4) {
        let mut random = Random::new(seed);
        let text = edited(GOLDEN[which], |document| {
            for _ in 0..edits {
                disturb(document, &mut random);
            }
        });
        if let Ok(release) = Release::from_bytes(text.as_bytes()) {
            prop_assert_eq!(Release::from_bytes(release.to_json().as_bytes()).unwrap(), release);
        }
    }
}

/// Replaces, removes or doubles something somewhere in a document, but for its hash.
fn disturb(value: &mut Value, random: &mut Random) {
    let stop = random.below(5) == 0;
    match value {
        Value::Object(fields) if !stop && !fields.is_empty() => {
            let keys: Vec<String> = fields.keys().filter(|key| *key != "hash").cloned().collect();
            let key = &keys[random.below(keys.len())];
            match random.below(12) {
                0 => drop(fields.remove(key)),
                1 => drop(fields.insert("more".into(), Value::Null)),
                _ => disturb(&mut fields[key], random),
            }
        }
        Value::Array(items) if !stop && !items.is_empty() => {
            let at = random.below(items.len());
            match random.below(12) {
                0 => drop(items.remove(at)),
                1 => items.push(items[at].clone()),
                _ => disturb(&mut items[at], random),
            }
        }
        Value::Object(fields) if fields.contains_key("hash") => {}
        _ => {
            let deep = (0..200).fold(Value::Null, |inner, _| json!([inner]));
            let junk = [
                json!(null),
                json!(0),
                json!(1),
                json!(-1),
                json!(0.5),
                json!(1e300),
                json!(-1e-300),
                json!(u64::MAX),
                json!(i64::MIN),
                json!(1u64 << 24),
                json!(1u64 << 56),
                json!(""),
                json!("row"),
                json!("c0"),
                json!("2020-01-01"),
                json!([]),
                json!({}),
                deep,
            ];
            *value = junk[random.below(junk.len())].clone();
        }
    }
}

#[test]
fn every_damaged_byte_is_noticed() {
    for name in GOLDEN {
        let text = text(name).into_bytes();
        for at in 0..text.len() {
            let mut damaged = text.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(Release::from_bytes(&damaged).is_err(), "{name}: byte {at}");
            assert!(Release::from_bytes(&text[..at]).is_err(), "{name}: cut at {at}");
        }
        assert!(Release::from_bytes(&[&text[..], b" "].concat()).is_err(), "{name}: a byte too many");
    }
}

#[test]
fn a_cut_gzip_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gz");
    Release::open(golden(GOLDEN[0])).unwrap().save(&path, false).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert!(Release::from_bytes(&bytes).is_ok());
    for end in 0..bytes.len() {
        assert!(Release::from_bytes(&bytes[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn a_newer_format_asks_for_a_newer_program() {
    for version in [2, 77] {
        let text = edited(GOLDEN[0], |document| {
            document["version"] = json!(version);
            document["blocks"] = json!({"not": "as in version 1"});
        });
        let message = Release::from_bytes(text.as_bytes()).unwrap_err().to_string();
        assert!(message.contains(&format!("version {version}")) && message.contains("newer m2m"), "{message}");
    }
}

#[test]
fn foreign_files_are_called_foreign() {
    for text in ["", "{}", "[]", "null", "{\"format\":\"parquet\",\"version\":1}", "a,b\n1,2\n"] {
        let message = Release::from_bytes(text.as_bytes()).unwrap_err().to_string();
        assert!(message.contains("not a release"), "{text}: {message}");
    }
}

/// Halves a number.
fn halve(value: &mut Value) {
    *value = json!(value.as_u64().unwrap() / 2);
}

/// What a file says of itself must agree with itself, whatever its hash.
#[test]
fn lies_are_refused() {
    type Edit = fn(&mut Value);
    let lies: [(&str, Edit); 26] = [
        (GOLDEN[4], |file| {
            let deviation = &mut file["blocks"][0]["noise"]["deviation"];
            *deviation = json!(deviation.as_u64().unwrap() / 100_000 * 99_999);
        }),
        (GOLDEN[4], |file| file["count"]["noise"] = json!({"kind": "one-hot-knorm", "deviation": 1u64 << 40})),
        (GOLDEN[4], |file| halve(&mut file["blocks"][0]["noise"]["deviation"])),
        (GOLDEN[4], |file| file["blocks"][0]["noise"]["deviation"] = json!(1u64 << 56)),
        (GOLDEN[0], |file| halve(&mut file["blocks"][0]["noise"]["scale"]["numerator"])),
        (GOLDEN[0], |file| halve(&mut file["blocks"][6]["noise"]["scale"]["numerator"])),
        (GOLDEN[0], |file| halve(&mut file["count"]["noise"]["scale"]["numerator"])),
        (GOLDEN[1], |file| halve(&mut file["blocks"][2]["noise"]["scale"]["numerator"])),
        (GOLDEN[1], |file| halve(&mut file["blocks"][2]["noise"]["minimum_radius"])),
        (GOLDEN[2], |file| halve(&mut file["blocks"][0]["noise"]["sigma"]["numerator"])),
        (GOLDEN[3], |file| halve(&mut file["blocks"][0]["noise"]["sigma"]["numerator"])),
        (GOLDEN[0], |file| file["count"]["noise"] = Value::Null),
        (GOLDEN[0], |file| file["blocks"][0]["noise"] = file["blocks"][1]["noise"].take()),
        (GOLDEN[2], |file| file["privacy"]["budget"]["delta"] = Value::Null),
        (GOLDEN[2], |file| file["privacy"]["budget"]["delta"] = json!(1e-9)),
        (GOLDEN[0], |file| file["privacy"]["budget"]["epsilon"] = json!(0.5)),
        (GOLDEN[0], |file| file["privacy"]["neighbours"] = json!("replace")),
        (GOLDEN[3], |file| file["privacy"]["neighbours"] = json!("add-remove")),
        (GOLDEN[2], |file| file["privacy"]["max_rows"] = json!(1)),
        (GOLDEN[2], |file| {
            file["privacy"]["max_rows"] = json!(30);
            file["schema"]["privacy"]["max_rows"] = json!(30);
        }),
        (GOLDEN[0], |file| file["blocks"][0]["share"] = json!(0.25)),
        (GOLDEN[0], |file| drop(file["blocks"][0]["sums"].as_array_mut().unwrap().pop())),
        (GOLDEN[0], |file| file["blocks"][0]["sums"].as_array_mut().unwrap().push(json!(0))),
        (GOLDEN[0], |file| file["blocks"][2]["body"]["radius"] = json!(1)),
        (GOLDEN[0], |file| file["blocks"][2]["grid"] = json!(1)),
        (GOLDEN[0], |file| file["comment"] = json!("trust me")),
    ];
    for (case, (name, lie)) in lies.into_iter().enumerate() {
        assert!(Release::from_bytes(edited(name, |_| {}).as_bytes()).is_ok(), "{name}: order of fields is free");
        assert!(Release::from_bytes(edited(name, lie).as_bytes()).is_err(), "{name}: lie {case}");
    }
}

/// A curator may add more noise than the budget needs.
#[test]
fn more_noise_than_needed_is_accepted() {
    let text = edited(GOLDEN[0], |file| {
        let scale = &mut file["blocks"][0]["noise"]["scale"]["numerator"];
        *scale = json!(scale.as_u64().unwrap() * 2);
    });
    assert!(Release::from_bytes(text.as_bytes()).is_ok());
}
