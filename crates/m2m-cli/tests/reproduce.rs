//! The experiments of the paper run end to end, in miniature.

mod common;

use common::{Desk, Random, gzip};
use serde_json::Value;

/// An office in which the light is on when somebody is there.
fn office(rows: usize) -> Vec<u8> {
    let mut random = Random(1);
    let mut text = String::from("epoch_s,temperature,humidity,light,co2,humidity_ratio,occupancy\n");
    for row in 0..rows {
        let there = row % 4 == 0;
        let mut noise = |scale: f64| scale * random.below(1000) as f64 / 1000.0;
        let light = if there { 350.0 } else { 0.0 } + noise(150.0);
        let (a, b, c, d) = (20.0 + noise(3.0), 20.0 + noise(15.0), 450.0 + noise(900.0), 0.003 + noise(0.003));
        text += &format!("{row},{a},{b},{light},{c},{d},{}\n", u8::from(there));
    }
    gzip(text.as_bytes())
}

#[test]
fn occupancy_is_learned_and_drawn() {
    let desk = Desk::new();
    desk.put("occupancy.csv.gz", office(1000));
    let line = "reproduce figure-occupancy --data . --out out --repetitions 2 --epsilon 10 --points 400 --format json";
    let outcome = desk.m2m(line).ok();
    let results: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let points = results[0]["points"].as_array().unwrap();
    let methods: Vec<&str> = points.iter().map(|point| point["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["RFF", "RACE", "HIST", "DP-ERM", "without privacy"]);
    assert!(points.iter().all(|point| (0.0..=1.0).contains(&point["auc"].as_f64().unwrap())));
    assert!(points[4]["auc"].as_f64().unwrap() > 0.99, "{points:?}");
    assert!(desk.get("out/figure-occupancy.png").starts_with(b"\x89PNG"));
    assert!(desk.text("out/figure-occupancy.svg").contains("DP-ERM"));
}

#[test]
fn a_missing_table_is_asked_for() {
    let desk = Desk::new();
    insta::assert_snapshot!(desk.refused("reproduce figure-occupancy --data nowhere"), @r#"
    error: nowhere/occupancy.csv.gz is not there
    hint: get it (or name its directory with --data): it is UCI's "Occupancy Detection" (archive.ics.uci.edu/dataset/357), its three files in one, gzipped, under the header epoch_s,temperature,humidity,light,co2,humidity_ratio,occupancy
    "#);
}
