//! Synthetic rows: of the schema's types, and with the release's answers.

mod common;
#[path = "common/seeded.rs"]
mod seeded;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Float64Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Array, RecordBatch};
use m2m::expr::{col, lit};
use m2m::fit::{Fit, Options};
use m2m::schema::Kind;
use m2m::source::{self, CsvOptions, Table};
use m2m::sums::Sketcher;
use m2m::synth::{self, Synthesis};
use m2m::task::Ask;
use m2m::task::learn::Rows;
use m2m::{Design, Estimate, Release, Schema};
use proptest::prelude::*;
use seeded::{Exact, POPULATION, in_two_rounds, population, pure};

const ROWS: usize = 30_000;

/// The default design at ε = 2.
fn people(rows: usize) -> Release {
    let schema = Schema::from_toml(POPULATION).unwrap();
    in_two_rounds(&schema, pure("2"), &Table::from_csv_bytes(population(7, rows)), rows as u64, 2)
}

fn releases() -> Vec<Release> {
    let schema = Schema::from_toml(POPULATION).unwrap();
    let other = |design: &str| {
        Exact::new(&schema, &Design::parse(design).unwrap(), pure("2"), &population(7, 20_000)).release(1)
    };
    vec![people(20_000), other("hist"), other("rff:m=100")]
}

fn fit(release: &Release) -> Fit {
    Fit::new(release, Options { samples: 40_000, ..Options::default() }).unwrap()
}

fn read(schema: &Schema, batches: Vec<RecordBatch>) -> Rows {
    let all: Vec<usize> = (0..schema.columns().len()).collect();
    Rows::read(&Table::from_batches(batches), schema, &all, &()).unwrap()
}

/// Every value is one that the schema allows, in the type that the schema asks for.
fn assert_fits(schema: &Schema, batch: &RecordBatch) {
    for (column, array) in schema.columns().iter().zip(batch.columns()) {
        let inside = |x: f64| {
            let range = column.kind.range().unwrap();
            assert!((range.min()..=range.max()).contains(&x), "{}: {x}", column.name);
        };
        for row in (0..array.len()).filter(|row| array.is_valid(*row)) {
            match &column.kind {
                Kind::Number(_) => inside(array.as_primitive::<Float64Type>().value(row)),
                Kind::Integer(_) => inside(array.as_primitive::<Int64Type>().value(row) as f64),
                Kind::Date(_) => inside(f64::from(array.as_primitive::<Date32Type>().value(row))),
                Kind::Datetime(_) => {
                    inside(array.as_primitive::<TimestampMillisecondType>().value(row) as f64 / 1000.0)
                }
                Kind::Boolean => assert!(array.as_boolean_opt().is_some()),
                Kind::Category(levels) => {
                    let level = array.as_string::<i32>().value(row);
                    assert!(level == "(other)" || levels.iter().any(|other| other == level), "{level}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(common::config(12))]

    /// Columns of every kind, with odd cells in the table: rows keep to the schema, come back from CSV and Parquet as they
    /// are, and none of their cells is unreadable or out of bounds.
    #[test]
    fn rows_keep_to_the_schema(columns in proptest::collection::vec(0..common::COLUMNS.len(), 1..5), seed: u64) {
        let schema = common::schema(&columns, None);
        let table = common::csv(&schema, &common::records(&schema, seed, 400));
        let release = Exact::new(&schema, &Design::parse("hist").unwrap(), pure("1"), &table).release(seed);
        let fit = Fit::new(&release, Options { samples: 3000, ..Options::default() }).unwrap();
        let synthesis = Synthesis::new(&fit).unwrap();
        let rows: Vec<RecordBatch> = synthesis.rows(500, seed).collect();
        prop_assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 500);
        rows.iter().for_each(|batch| assert_fits(&schema, batch));
        let folder = tempfile::tempdir().unwrap();
        let sketcher = Sketcher::new(&schema, &Design::parse("hist").unwrap()).unwrap();
        let mut sums = Vec::new();
        for name in ["rows.csv", "rows.parquet"] {
            let path = folder.path().join(name);
            synth::save(&path, false, synthesis.schema(), synthesis.rows(500, seed)).unwrap();
            let table = Table::open(&[path], CsvOptions::default()).unwrap();
            let (found, report) = source::sketch(&sketcher, &table, 1, &()).unwrap();
            prop_assert_eq!((report.rows, report.outside, report.ragged), (500, 0, 0));
            let missing: u64 = rows.iter().flat_map(|batch| batch.columns()).map(|c| c.null_count() as u64).sum();
            let unreadable: u64 = report.unreadable.iter().map(|(_, count)| count).sum();
            prop_assert!(unreadable <= missing, "only missing cells where the schema expects none: {unreadable}");
            sums.push(common::secret(&found));
        }
        prop_assert_eq!(&sums[0].blocks, &sums[1].blocks);
    }
}

/// The share of every bar of every histogram, missing included, is what the release answers. Systematic draws err no more
/// than independent ones: 5.5 standard errors over about 300 bars are passed with probability below 2·10⁻⁵.
#[test]
fn single_columns_have_the_answers_of_the_release() {
    for release in releases() {
        let fit = fit(&release);
        let schema = release.schema();
        let rows = read(schema, Synthesis::new(&fit).unwrap().rows(ROWS, 3).collect());
        let total = Ask::of(&fit).count().unwrap().value;
        for column in schema.columns() {
            let null = col(column.name.as_str()).is_null();
            let answered = |ask: Ask<'_>| {
                let bins = ask.histogram(&column.name, 20).unwrap();
                let missing = ask.filter(&null).unwrap().count().unwrap();
                bins.iter().map(|bin| bin.count).chain([missing]).collect::<Vec<Estimate>>()
            };
            let found = answered(Ask::of(&rows));
            for (bin, (mine, theirs)) in found.iter().zip(answered(Ask::of(&fit))).enumerate() {
                let (p, q) = (theirs.value / total, mine.value / ROWS as f64);
                let drawn = (p.max(q) / ROWS as f64).sqrt();
                // Bars that noise makes negative are lifted, here and there in bars of another width.
                let slack = 0.5 * theirs.std_error / total;
                assert!((p - q).abs() < 5.5 * drawn + slack, "{} bin {bin}: {q} for {p} ± {drawn}", column.name);
            }
        }
    }
}

/// `score` and `income` share a latent factor (correlation 0.72 with its logarithm), `visits` grows with age.
#[test]
fn rows_have_the_dependence_that_the_release_tells() {
    let release = people(ROWS);
    let fit = fit(&release);
    let rows = read(release.schema(), Synthesis::new(&fit).unwrap().rows(ROWS, 4).collect());
    for pair in [["score", "income"], ["age", "visits"], ["score", "wait"], ["age", "wait"]] {
        let of = |ask: Ask<'_>| ask.correlation(&pair).unwrap().entries[0][1];
        let (answer, found) = (of(Ask::of(&fit)), of(Ask::of(&rows)));
        // Rows cannot have the negative weights that answers are made of: a little is lost.
        let off = (answer.value - found.value).abs();
        assert!(off < 0.03 + 3.0 * answer.std_error, "{pair:?}: {} for {}", found.value, answer.value);
    }
    let gold = |ask: Ask<'_>| ask.filter(&col("plan").eq(lit("gold"))).unwrap().mean(&col("score")).unwrap();
    let (answer, found) = (gold(Ask::of(&fit)), gold(Ask::of(&rows)));
    assert!((answer.value - found.value).abs() < 0.1, "{} for {}", found.value, answer.value);
}

#[test]
fn a_seed_gives_the_same_rows_and_another_gives_others() {
    let release = people(2000);
    let fit = fit(&release);
    let synthesis = Synthesis::new(&fit).unwrap();
    let rows = |seed| synthesis.rows(1000, seed).collect::<Vec<_>>();
    assert_eq!(rows(1), rows(1));
    assert_ne!(rows(1), rows(2));
    assert_eq!(synthesis.rows(0, 1).count(), 0);
    let again = Fit::new(&release, Options { samples: 40_000, ..Options::default() }).unwrap();
    assert_eq!(Synthesis::new(&again).unwrap().rows(1000, 1).collect::<Vec<_>>(), rows(1));
}

/// Weighted points add up to the rows of the table and have its means.
#[test]
fn weighted_rows_stand_for_the_table() {
    let release = people(ROWS);
    let fit = fit(&release);
    let synthesis = Synthesis::new(&fit).unwrap();
    let (schema, batches) = synthesis.weighted_batches();
    assert_eq!(schema.fields().last().unwrap().name(), "weight");
    let (mut total, mut ages) = (0.0, 0.0);
    for batch in batches {
        let weights = batch.columns().last().unwrap().as_primitive::<Float64Type>();
        let age = batch.column(0).as_primitive::<Int64Type>();
        assert!(weights.values().iter().all(|weight| *weight > 0.0));
        total += weights.values().iter().sum::<f64>();
        ages += weights.values().iter().zip(age.values()).map(|(w, x)| w * *x as f64).sum::<f64>();
    }
    assert!((total / fit.count().value - 1.0).abs() < 1e-9);
    let mean = Ask::of(&fit).mean(&col("age")).unwrap().value;
    assert!((ages / total - mean).abs() < 0.2, "{} for {mean}", ages / total);
}

#[test]
fn a_filter_keeps_its_rows_only() {
    let release = people(5000);
    let fit = fit(&release);
    let old = col("age").ge(lit(60.0)).and(col("region").eq(lit("north")));
    let synthesis = Synthesis::new(&fit).unwrap().filter(&old).unwrap();
    for batch in synthesis.rows(300, 0) {
        assert!(batch.column(0).as_primitive::<Int64Type>().values().iter().all(|age| *age >= 60));
        assert!(batch.column(5).as_string::<i32>().iter().all(|region| region == Some("north")));
    }
    let count = Ask::of(&fit).filter(&old).unwrap().count().unwrap();
    assert!((synthesis.population() - count.value).abs() < 4.0 * count.std_error + 0.1 * count.value);
    let nobody = col("age").gt(lit(90.0));
    let error = Synthesis::new(&fit).unwrap().filter(&nobody).err().unwrap().to_string();
    assert!(error.contains("no synthetic row meets the condition"), "{error}");
}

/// Ten columns that mostly have the same of four levels. Of points of the product of their marginals one in 4⁹ would be
/// such a row, and a few would have all of the weight. The noise is seeded.
#[test]
fn points_of_dependent_columns_keep_their_say() {
    const COLUMNS: usize = 10;
    let schema: String =
        (0..COLUMNS).map(|i| format!("[[column]]\nname='c{i}'\ntype='category'\nlevels=['a','b','c','d']\n")).collect();
    let schema = Schema::from_toml(&schema).unwrap();
    let mut random = common::Random::new(11);
    let mut level = || random.pick(&["a", "b", "c", "d"]);
    let mut csv = (0..COLUMNS).map(|i| format!("c{i}")).collect::<Vec<_>>().join(",");
    for _ in 0..ROWS {
        let usual = level();
        let cells: Vec<&str> =
            (0..COLUMNS).map(|_| if level() == "a" && level() != "a" { level() } else { usual }).collect();
        csv += &format!("\n{}", cells.join(","));
    }
    let table = Table::from_csv_bytes(csv.into_bytes());
    let release = in_two_rounds(&schema, pure("4"), &table, ROWS as u64, 5);
    let fit = fit(&release);
    let synthesis = Synthesis::new(&fit).unwrap();
    assert!(synthesis.effective() > 500.0, "{} of 40000", synthesis.effective());
    let rows = read(&schema, synthesis.rows(ROWS, 4).collect());
    for i in 0..COLUMNS {
        for j in 0..i {
            let both = col(format!("c{i}")).eq(lit("b")).and(col(format!("c{j}")).eq(lit("b")));
            let share = |ask: Ask<'_>, of: f64| ask.filter(&both).unwrap().count().unwrap().value / of;
            let (answer, found) = (share(Ask::of(&fit), ROWS as f64), share(Ask::of(&rows), ROWS as f64));
            assert!((answer - found).abs() < 0.015, "c{i}, c{j}: {found} for {answer}");
        }
    }
}
