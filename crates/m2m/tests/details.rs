//! Questions about details: narrow conditions, atoms, what lies within a bin.

mod common;
#[path = "common/seeded.rs"]
mod seeded;

use common::Random;
use m2m::expr::{col, lit};
use m2m::fit::{Fit, Options};
use m2m::task::Ask;
use m2m::{Design, Schema};
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
