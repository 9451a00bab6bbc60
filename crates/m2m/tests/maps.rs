//! Every map, on tables that hold anything: bounds hold, quick paths give the defined sums, and nothing but the
//! records themselves matters.

mod common;

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use common::{Random, csv, definition, files, records, schema, secret, sketch, sums_of};
use m2m::feature::{Block, Body, FeatureMap, Simd};
use m2m::panel::{PANEL, Panel, Record, Value};
use m2m::source::{CsvOptions, Table};
use m2m::sums::Sketcher;
use m2m::{Design, Schema, Sums};
use proptest::prelude::*;

/// A schema of up to six columns and the seed of its records.
fn tables() -> impl Strategy<Value = (Vec<usize>, u64)> {
    (prop::collection::vec(0..common::COLUMNS.len(), 1..=6), any::<u32>().prop_map(u64::from))
}

/// Lengths of tables around the edges of panels and vectors.
fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![0..20usize, 50..70usize, 0..=PANEL, Just(PANEL - 1), Just(PANEL), PANEL..PANEL + 20]
}

proptest! {
    #![proptest_config(common::config(60))]

    #[test]
    fn records_stay_in_their_body((columns, seed) in tables()) {
        let schema = schema(&columns, None);
        let design = common::every_map(&schema, seed);
        prop_assert!(definition(&schema, &design, &records(&schema, seed, 300)).inside);
        for (block, map) in design.blocks().iter().zip(design.maps(&schema, Simd::detect()).unwrap()) {
            prop_assert_eq!(block.map.shape(&schema).unwrap(), (map.len(), map.body()));
        }
    }

    /// On all instructions that the processor has.
    #[test]
    fn panels_add_up_to_their_records((columns, seed) in tables(), length in lengths()) {
        let schema = schema(&columns, None);
        let design = common::every_map(&schema, seed);
        let records = records(&schema, seed, length);
        let expected = definition(&schema, &design, &records).blocks;
        for simd in Simd::available() {
            let sketcher = Sketcher::with_simd(&schema, &design, simd).unwrap();
            let found = secret(&sketch(&sketcher, &Table::from_csv_bytes(csv(&schema, &records)), 1));
            prop_assert_eq!(found.rows, length as i128);
            for ((block, found), expected) in design.blocks().iter().zip(&found.blocks).zip(&expected) {
                prop_assert!(found == expected, "{:?} on {:?}", block.map, simd);
            }
        }
    }

    #[test]
    fn removing_a_record_removes_its_features(
        (columns, seed) in tables(), length in 1usize..900, at in any::<usize>(),
    ) {
        let schema = schema(&columns, None);
        let design = common::every_map(&schema, seed);
        let mut records = records(&schema, seed, length);
        let all = sums_of(&schema, &design, &records);
        let removed = records.remove(at % length);
        let change = all.minus(&sums_of(&schema, &design, &records));
        prop_assert_eq!(change.rows, 1);
        prop_assert!(change.blocks == definition(&schema, &design, &[removed]).blocks);
    }

    #[test]
    fn order_files_threads_and_merges_change_nothing(
        (columns, seed) in tables(), length in 0usize..1600, threads in 1usize..=4,
    ) {
        let schema = schema(&columns, None);
        let design = common::every_map(&schema, seed);
        let mut records = records(&schema, seed, length);
        let expected = sums_of(&schema, &design, &records);
        let mut random = Random::new(seed);
        random.shuffle(&mut records);
        let mut cut = || random.below(length + 1);
        let (a, b) = (cut(), cut());
        let (a, b) = (a.min(b), a.max(b));
        let parts = [&records[..a], &records[a..b], &records[b..]];
        prop_assert!(common::sums_of_files(&schema, &design, &parts, threads) == expected);

        let sketcher = Sketcher::new(&schema, &design).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("part.sums");
        let mut merged = sketch(&sketcher, &Table::from_csv_bytes(csv(&schema, parts[2])), 1);
        for part in &parts[..2] {
            sketch(&sketcher, &Table::from_csv_bytes(csv(&schema, part)), threads).save(&path, true).unwrap();
            merged.merge(Sums::open(&path).unwrap()).unwrap();
        }
        prop_assert!(secret(&merged) == expected);
    }
}

/// Three numbers, some missing, among them 0, 1 and the middle.
fn unit(row: usize, column: usize) -> f64 {
    match (row * 3 + column) % 23 {
        0 => f64::NAN,
        1 => 0.0,
        2 => 1.0,
        3 => 0.5,
        _ => Random::new((row * 3 + column) as u64).unit(),
    }
}

/// The adder is used again for the next length, so that what it kept of longer panels would show.
#[test]
fn every_panel_length_adds_up() {
    let schema = schema(&[0, 4, 8], None);
    let design = common::every_map(&schema, 3);
    let portable = design.maps(&schema, Simd::Portable).unwrap();
    let full = Panel::from_units(&schema, PANEL, unit);
    for simd in Simd::available() {
        for (map, definition) in design.maps(&schema, simd).unwrap().iter().zip(&portable) {
            let (mut features, mut expected) = (vec![0; map.len()], vec![0; map.len()]);
            let mut adder = map.adder();
            for row in (0..PANEL).rev() {
                features.fill(0);
                definition.record(full.record(row), &mut features);
                expected.iter_mut().zip(&features).for_each(|(sum, feature)| *sum += feature);
                let panel = Panel::from_units(&schema, PANEL - row, |i, column| unit(i + row, column));
                let mut sums = vec![0; map.len()];
                adder.add(&panel, &mut sums);
                assert!(sums == expected, "{simd:?}, {} records", PANEL - row);
            }
            let mut sums = vec![0; map.len()];
            adder.add(&Panel::from_units(&schema, 0, unit), &mut sums);
            assert!(sums.iter().all(|sum| *sum == 0), "{simd:?}, no record");
        }
    }
}

/// Large enough that every thread gets blocks of the one file.
#[test]
fn sharding_changes_nothing() {
    let schema = schema(&[0, 1, 4, 7, 9, 10], None);
    let design = common::every_map(&schema, 5);
    for seed in [5, 6] {
        let records = records(&schema, seed, 30_000);
        let expected = sums_of(&schema, &design, &records);
        assert_eq!(expected.rows, 30_000);
        for threads in 2..=4 {
            assert!(common::sums_of_files(&schema, &design, &[&records], threads) == expected, "{threads} threads");
        }
        let pieces: Vec<&[Vec<u8>]> = records.chunks(3_001).collect();
        assert!(common::sums_of_files(&schema, &design, &pieces, 3) == expected);
    }
}

/// Features far outside the declared bound, of either sign, and a faster adder that would add them as they are.
struct Liar;

const PROMISE: Body = Body::Bounded { l1: 1000, l2_squared: 90_000 };

impl Liar {
    fn claims(value: Value) -> [i64; 4] {
        match value {
            Value::Unit(u) if u < 0.2 => [1, -2, 3, 0],
            Value::Unit(u) if u < 0.4 => [i64::MIN, i64::MAX, 0, 7],
            Value::Unit(u) if u < 0.6 => [250, -250, 250, -250],
            Value::Unit(u) => [(u * 1e6) as i64, 5, -(u * 1e5) as i64, 300],
            _ => [-301, 0, 0, 0],
        }
    }
}

impl FeatureMap for Liar {
    fn len(&self) -> usize {
        4
    }
    fn body(&self) -> Body {
        PROMISE
    }
    fn record(&self, record: Record<'_>, features: &mut [i64]) {
        features.copy_from_slice(&Self::claims(record.value(0)));
    }
    fn adder(&self) -> Box<dyn m2m::feature::Adder + '_> {
        panic!("a user's adder is not asked: it could leave out the guard")
    }
}

#[test]
fn a_map_that_lies_is_held_to_its_bound() {
    let schema = schema(&[0], None);
    let sketcher = common::custom(&schema, Liar);
    let sums = |cells: &[f64]| {
        let records: Vec<Vec<u8>> = cells.iter().map(|cell| cell.to_string().into_bytes()).collect();
        secret(&sketch(&sketcher, &Table::from_csv_bytes(csv(&schema, &records)), 2)).blocks.remove(0)
    };
    let mut total = vec![0; 4];
    let cells: Vec<f64> = (0..200).map(|i| if i % 50 == 0 { f64::NAN } else { f64::from(i) * 0.02 - 1.6 }).collect();
    for cell in &cells {
        let sum = sums(&[*cell]);
        let features: Vec<i64> = sum.iter().map(|feature| *feature as i64).collect();
        assert!(PROMISE.contains(&features), "{cell}: {features:?}");
        assert!(features.iter().any(|feature| *feature != 0), "{cell}: pulled in, not thrown away");
        total.iter_mut().zip(&sum).for_each(|(total, feature)| *total += feature);
    }
    assert_eq!(sums(&cells), total);
    assert_eq!(sums(&[-1.5]), [1, -2, 3, 0], "what keeps the promise is not changed");
}

/// Beside other maps a user's map gives the same sums as alone, and a design gets exactly the maps that it names.
#[test]
fn a_users_map_stands_beside_others() {
    let schema = schema(&[0], None);
    let table = || Table::from_csv_bytes(b"c0\n1\n-0.3\n2\n".to_vec());
    let alone = common::custom(&schema, Liar);
    let hist = Design::parse("hist:bins=5").unwrap();
    let half = |design: &Design| Block { share: "0.5".parse().unwrap(), ..design.blocks()[0].clone() };
    let both = Design::new(vec![half(&hist), half(alone.design())]).unwrap();
    let sketcher = Sketcher::with_maps(&schema, &both, vec![Box::new(Liar)]).unwrap();
    let found = secret(&sketch(&sketcher, &table(), 1)).blocks;
    let expected =
        [Sketcher::new(&schema, &hist).unwrap(), alone].map(|alone| secret(&sketch(&alone, &table(), 1)).blocks);
    assert_eq!(found, expected.concat());
    assert!(Sketcher::with_maps(&schema, &both, vec![]).is_err());
    assert!(Sketcher::with_maps(&schema, &both, vec![Box::new(Liar), Box::new(Liar)]).is_err());
    assert!(Sketcher::new(&schema, &both).is_err());
}

/// A bound that grows after it has been asked for `honest` times.
struct Shifty {
    honest: usize,
    asked: AtomicUsize,
}

impl FeatureMap for Shifty {
    fn len(&self) -> usize {
        1
    }
    fn body(&self) -> Body {
        let bound = if self.asked.fetch_add(1, Ordering::Relaxed) < self.honest { 10 } else { 1_000_000 };
        Body::Bounded { l1: bound, l2_squared: bound * bound }
    }
    fn record(&self, _: Record<'_>, features: &mut [i64]) {
        features[0] = 1_000_000;
    }
}

/// What was declared is what a release states and what its noise is for: a bound that changes is refused or ignored.
#[test]
fn a_bound_cannot_change_after_it_was_declared() {
    let schema = schema(&[0], None);
    let mut held = 0;
    for honest in 1..5 {
        let map = Shifty { honest, asked: AtomicUsize::new(0) };
        let Ok(sketcher) = Sketcher::custom(&schema, "shifty", serde_json::Value::Null, Box::new(map)) else {
            continue;
        };
        let body = sketcher.design().blocks()[0].map.shape(&schema).unwrap().1;
        assert_eq!(body, Body::Bounded { l1: 10, l2_squared: 100 });
        assert_eq!(secret(&sketch(&sketcher, &Table::from_csv_bytes(b"c0\n1\n".to_vec()), 1)).blocks, [[10]]);
        held += 1;
    }
    assert!(held > 0);
}

/// Writes down what a map gets to see.
struct Witness {
    columns: usize,
    seen: Arc<Mutex<Vec<Vec<Value>>>>,
}

impl FeatureMap for Witness {
    fn len(&self) -> usize {
        1
    }
    fn body(&self) -> Body {
        Body::Bounded { l1: 1, l2_squared: 1 }
    }
    fn record(&self, record: Record<'_>, _: &mut [i64]) {
        self.seen.lock().unwrap().push((0..self.columns).map(|column| record.value(column)).collect());
    }
}

/// What a map sees of a table of one column, cell by cell.
fn seen(schema: &Schema, cells: &[&str]) -> Vec<Value> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sketcher = common::custom(schema, Witness { columns: 1, seen: seen.clone() });
    let records: Vec<Vec<u8>> = cells.iter().map(|cell| cell.as_bytes().to_vec()).collect();
    sketch(&sketcher, &Table::from_csv_bytes(csv(schema, &records)), 1);
    let seen = seen.lock().unwrap();
    seen.iter().map(|values| values[0]).collect()
}

/// Whether values are the same, up to the rounding of numbers.
fn are_close(a: &[Value], b: &[Value]) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|pair| match pair {
            (Value::Unit(a), Value::Unit(b)) => (a - b).abs() < 1e-12,
            (a, b) => a == b,
        })
}

/// Whatever the bounds and the transform: out of bounds is at the end, and what is not a number is missing.
#[test]
fn numbers_are_clamped_or_missing() {
    for column in (0..=6).chain([12]) {
        let schema = schema(&[column], None);
        let cells = ["inf", "-inf", "1e400", "-1e300", "", "nan", "NA", "garbage", "\"1,5\"", "2020-01-01"];
        let (low, high, missing) = (Value::Unit(0.0), Value::Unit(1.0), Value::Missing);
        let expected = [high, low, high, low, missing, missing, missing, missing, missing, missing];
        let found = seen(&schema, &cells);
        assert!(are_close(&found, &expected), "{found:?} in a column of {}", common::COLUMNS[column]);
    }
}

#[test]
fn cells_mean_what_the_schema_says() {
    use Value::{Code, Missing, Unit};
    let check = |column: usize, cells: &[(&str, Value)]| {
        let (texts, expected): (Vec<&str>, Vec<Value>) = cells.iter().copied().unzip();
        let found = seen(&schema(&[column], None), &texts);
        assert!(are_close(&found, &expected), "{found:?} in a column of {}", common::COLUMNS[column]);
    };
    check(0, &[("-1.5", Unit(0.0)), (" 2.25 ", Unit(1.0)), ("0.375", Unit(0.5)), ("3.75e-1", Unit(0.5))]);
    check(2, &[("-99", Missing), ("-9.9e1", Missing), ("?", Missing), ("1e4", Unit(1.0)), ("-40", Unit(0.0))]);
    check(5, &[("2.5", Unit(0.4)), ("3.5", Unit(0.8)), ("-0.5", Unit(0.0)), ("7", Unit(1.0))]);
    check(
        7,
        &[("1999-12-25", Unit(0.0)), ("2031-01-01", Unit(1.0)), ("2050-01-01", Unit(1.0)), ("2020-02-30", Missing)],
    );
    check(8, &[("2020-07-02T00:00:00Z", Unit(0.5)), ("2020-07-02T02:00:00+02:00", Unit(0.5)), ("soon", Missing)]);
    check(9, &[("TRUE", Code(1)), ("no", Code(0)), ("1", Code(1)), ("", Code(2)), ("maybe", Code(2))]);
    check(
        10,
        &[("red", Code(0)), ("blue", Code(2)), ("Red", Code(3)), ("", Code(4)), ("?", Code(4)), ("NULL", Code(4))],
    );
    check(11, &[("NA", Code(0)), ("\"x,y\"", Code(1)), ("\"a\"\"b\"", Code(2)), ("Zürich", Code(3)), ("?", Code(4))]);
}

/// The same rows as CSV, with and without quotes, with other line ends and delimiters, gzipped, and as Arrow.
#[test]
fn formats_change_nothing() {
    use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
    let schema = schema(&[0, 5, 9, 10], None);
    let design = common::every_map(&schema, 9);
    let mut random = Random::new(1);
    let rows: Vec<(Option<f64>, i64, bool, Option<&str>)> = (0..2000)
        .map(|i| {
            let number = (i % 7 > 0).then(|| random.unit() * 4.0 - 1.6);
            let level = ["red", "green", "mauve", "blue"][random.below(4)];
            (number, random.below(9) as i64 - 1, random.below(2) == 1, (i % 5 > 0).then_some(level))
        })
        .collect();
    let records: Vec<Vec<u8>> = rows
        .iter()
        .map(|(number, whole, flag, level)| {
            let number = number.map_or(String::new(), |number| number.to_string());
            format!("{number},{whole},{flag},{}", level.unwrap_or_default()).into_bytes()
        })
        .collect();
    let expected = sums_of(&schema, &design, &records);

    let sketcher = Sketcher::new(&schema, &design).unwrap();
    let text = String::from_utf8(csv(&schema, &records)).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in [
        ("quoted.csv", format!("\"{}\"\n", text.trim_end().replace(',', "\",\"").replace('\n', "\"\n\"")).into_bytes()),
        ("windows.csv", text.replace('\n', "\r\n").into_bytes()),
        ("blank.csv", text.replace(',', " , ").replace('\n', "\n\n").into_bytes()),
        ("unended.csv", text.trim_end().as_bytes().to_vec()),
        ("tabs.tsv", text.replace(',', "\t").into_bytes()),
        ("table.csv.gz", encoder.finish().unwrap()),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        let table = Table::open(&[path], CsvOptions::default()).unwrap();
        assert!(secret(&sketch(&sketcher, &table, 2)) == expected, "{name}");
    }

    let batches = rows.chunks(300).map(|rows| {
        RecordBatch::try_from_iter([
            ("c3", Arc::new(rows.iter().map(|row| row.3).collect::<StringArray>()) as ArrayRef),
            ("c0", Arc::new(rows.iter().map(|row| row.0).collect::<Float64Array>())),
            ("c2", Arc::new(rows.iter().map(|row| Some(row.2)).collect::<BooleanArray>())),
            ("c1", Arc::new(rows.iter().map(|row| Some(row.1)).collect::<Int64Array>())),
        ])
        .unwrap()
    });
    let batches = Table::from_batches(batches.collect());
    assert!(secret(&sketch(&sketcher, &batches, 3)) == expected);
}

/// Naming columns in another order than the table's draws other frequencies, for the quick path as for the definition.
#[test]
fn columns_are_taken_in_the_order_named() {
    let schema = schema(&[0, 4, 8], None);
    let records = records(&schema, 2, 100);
    for map in ["kind = 'rff'\nm = 6", "kind = 'race'\nr = 3\nw = 9\nsigma = 0.1"] {
        let design = Design::from_toml(&format!("[[map]]\nshare = 1.0\ncolumns = ['c2', 'c0', 'c1']\n{map}")).unwrap();
        let complete = "0.5,40,2020-05-05T00:00:00Z".as_bytes().to_vec();
        for records in [&records[..], &[complete]] {
            assert!(sums_of(&schema, &design, records).blocks == definition(&schema, &design, records).blocks, "{map}");
        }
    }
}

/// Atoms so close together that they fall on the same place in [0, 1].
#[test]
fn atoms_that_coincide_have_one_cell() {
    let schema =
        Schema::from_toml("[[column]]\nname = 'c0'\ntype = 'number'\nmin = -1e15\nmax = 1e15\natoms = [0, 1e-5]")
            .unwrap();
    let design = Design::parse("hist:bins=4").unwrap();
    let records = [b"0".to_vec(), b"0.00001".to_vec()];
    assert_eq!(sums_of(&schema, &design, &records).blocks, definition(&schema, &design, &records).blocks);
}

#[test]
fn an_empty_table_has_zero_sums() {
    let schema = schema(&[0, 9, 10], None);
    let design = common::every_map(&schema, 0);
    let folder = tempfile::tempdir().unwrap();
    let sketcher = Sketcher::new(&schema, &design).unwrap();
    for table in [Table::from_csv_bytes(csv(&schema, &[])), files(folder.path(), &schema, &[&[], &[]])] {
        let sums = secret(&sketch(&sketcher, &table, 3));
        assert!(sums.rows == 0 && sums.blocks.iter().flatten().all(|sum| *sum == 0));
    }
}
