//! Questions about details: narrow conditions, atoms, what lies within a bin.

mod common;
#[path = "common/seeded.rs"]
mod seeded;

use common::Random;
use m2m::expr::{col, lit};
use m2m::fit::{Fit, Options};
use m2m::task::Ask;
use m2m::{Design, Estimate, Schema};
use seeded::{Exact, normal, pure};

fn fit(column: &str, cells: impl Iterator<Item = String>, design: &str, epsilon: &str) -> Fit {
    let schema = Schema::from_toml(&format!("[[column]]\nname = 'g'\n{column}")).unwrap();
    let text: String = cells.map(|cell| cell + "\n").collect();
    let exact = Exact::new(&schema, &Design::parse(design).unwrap(), pure(epsilon), format!("g\n{text}").as_bytes());
    Fit::new(&exact.release(1), Options::default()).unwrap()
}

/// 200,000 uniform numbers, so about 340 of them. The tables of a question are made by looking at five points of each
/// interval, between which a narrow condition fits.
#[test]
fn narrow_conditions_are_seen() {
    let mut random = Random::new(3);
    let cells = (0..200_000).map(|_| format!("{:.6}", random.unit()));
    let fit = fit("type = 'number'\nmin = 0\nmax = 1", cells, "hist", "10");
    let count = Ask::of(&fit).filter(&col("g").between(lit(0.5001), lit(0.5018))).unwrap().count().unwrap();
    assert!(count.low <= 340.0 && 340.0 <= count.high, "{count:?}");
}

/// Nine of ten rows have the atom, so it is the median.
#[test]
fn a_quantile_may_be_an_atom() {
    let cells = (0..10_000).map(|i| if i % 10 < 9 { "0".into() } else { format!("{}", 500 + i % 300) });
    let fit = fit("type = 'number'\nmin = 0\nmax = 1000\natoms = [0]", cells, "hist", "10");
    let median = Ask::of(&fit).median(&col("g")).unwrap();
    assert!(median.low <= 0.0, "{median:?}");
}

/// The interval of a quantile holds the values at which the distribution function may, within its own error, be q: also
/// where all of it lies between two of the thresholds that are looked at first.
#[test]
fn intervals_of_quantiles_are_those_of_the_distribution_function_turned() {
    let mut random = Random::new(8);
    for (kind, max, digits) in [("number", 2000.0, 4), ("number", 12.0, 6), ("integer", 2e5, 0)] {
        let cells: Vec<String> = (0..20_000)
            .map(|_| (3.0 + 0.5 * normal(&mut random)).exp() * max / 2000.0)
            .map(|x| format!("{x:.digits$}"))
            .collect();
        let fit = fit(&format!("type = '{kind}'\nmin = 0\nmax = {max}"), cells.into_iter(), "hist:bins=64", "1");
        let all = Ask::of(&fit);
        for q in [0.1, 0.3, 0.5, 0.9] {
            let quantile = all.quantile(&col("g"), q).unwrap();
            let ends = all.cdf(&col("g"), &[quantile.low, quantile.high]).unwrap();
            let told = format!("{kind} to {max}, {q}: {quantile:?} {ends:?}");
            assert!(quantile.low < quantile.value && quantile.value < quantile.high, "{told}");
            let far = |end: &Estimate| (end.value - q).abs() / end.std_error;
            assert!(ends.iter().all(|end| (1.4..=2.5).contains(&far(end))), "{told}");
        }
    }
}

/// A column that the schema does not let be missing has a value in every row, as far as noise can tell; cells that could not
/// be read, and stand out of it, are missing all the same.
#[test]
fn nothing_is_missing_unless_it_stands_out() {
    for (unreadable, low, high) in [(0, 0.0, 0.0), (20, 150.0, 250.0)] {
        let cells = (0..2000).map(|i| if i % 200 < unreadable { "?".into() } else { format!("{}", i % 90) });
        for kind in ["type = 'number'\nmin = 0\nmax = 100", "type = 'integer'\nmin = 0\nmax = 100"] {
            let fit = fit(kind, cells.clone(), "hist:bins=20", "0.5");
            let missing = Ask::of(&fit).filter(&col("g").is_null()).unwrap().count().unwrap();
            assert!((low..=high + 0.01).contains(&missing.value), "{unreadable} of 200: {missing:?}");
        }
    }
}

/// A bell in 32 bins. Its density leans towards the middle within every bin; taken as level, the second moment would be too
/// large by w²/6 (w the width of a bin).
#[test]
fn second_moments_are_free_of_the_bins() {
    let mut random = Random::new(3);
    let values: Vec<f64> = (0..30_000).map(|_| normal(&mut random)).collect();
    let truth = values.iter().map(|x| x * x).sum::<f64>() / values.len() as f64;
    let fit = fit("type = 'number'\nmin = -8\nmax = 8", values.iter().map(|x| format!("{x:.5}")), "hist", "10");
    let square = Ask::of(&fit).mean(&(col("g") * col("g"))).unwrap();
    assert!(square.low <= truth && truth <= square.high, "{square:?}, not {truth}");
}
