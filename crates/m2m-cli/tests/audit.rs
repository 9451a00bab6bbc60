//! The audit as a command: it looks at every way to make a release, and finds no fault. That it finds faults where there are
//! some is tested in the library.

mod common;

use common::Desk;
use serde_json::Value;

/// A false alarm has probability at most 10⁻⁴, whatever the number of releases.
#[test]
fn every_way_to_make_a_release_is_audited() {
    let desk = Desk::new();
    let outcome = desk.m2m("audit --trials 200 --format json").ok();
    let found: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let cases = found["cases"].as_array().unwrap();
    for case in cases {
        assert_eq!(case["verdict"], "holds", "{case}");
        let number = |name: &str| case[name].as_f64().unwrap();
        assert!(number("lower_bound_99") <= number("lower_bound_95") && number("attained") > 0.995, "{case}");
    }
    let has = |mechanism: &str, map: &str, unit: &str, neighbours: &str| {
        let wanted = [("mechanism", mechanism), ("map", map), ("unit", unit), ("neighbours", neighbours)];
        cases.iter().any(|case| wanted.iter().all(|(name, value)| case[*name] == **value))
    };
    for (unit, neighbours) in [("row", "add-remove"), ("row", "replace"), ("user × 3", "add-remove")] {
        for mechanism in ["Laplace", "Gaussian", "Gaussian ρ"] {
            for map in ["hist", "tables", "race", "rff", "own", "auto"] {
                assert!(has(mechanism, map, unit, neighbours), "{mechanism} {map} {unit} {neighbours}");
            }
        }
        for map in ["hist", "race", "rff", "auto, three columns"] {
            assert!(has("K-norm", map, unit, neighbours), "{map} {unit} {neighbours}");
        }
    }
    assert!(outcome.stderr.ends_with("promises, none seen broken\n"), "{}", outcome.stderr);
    assert_eq!(desk.names(), ["people.csv", "schema.toml"], "an audit writes nothing");
}

#[test]
fn the_table_says_what_was_claimed_and_found() {
    let outcome = Desk::new().m2m("audit --trials 100").ok();
    let header = outcome.stdout.lines().next().unwrap();
    let words: Vec<&str> = header.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
    assert_eq!(words, ["mechanism", "map", "unit", "neighbours", "claimed ε", "δ", "95%", "99%", "verdict", "by"]);
    assert!(outcome.stdout.lines().skip(1).all(|line| line.contains("holds")));
}
