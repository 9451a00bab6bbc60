//! `m2m plan`: what is foretold, and what is said of it. Numbers are masked where they follow from the fit.

mod common;

use common::{Desk, trim};
use insta::assert_snapshot;
use serde_json::Value;

/// Numbers as `#` with any unit of time, blanks as one.
fn shape(text: &str) -> String {
    let word = |word: &str| {
        let inner = word.trim_matches(['(', ')', '%', '*']);
        match inner.parse::<f64>() {
            Ok(_) => word.replace(inner, "#"),
            Err(_) if ["days", "h", "s"].contains(&word) => "time".into(),
            Err(_) => word.to_owned(),
        }
    };
    let line = |line: &str| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn plan(desk: &Desk, arguments: &[&str]) -> common::Outcome {
    let mut command = desk.command("plan --schema schema.toml --rows 20000");
    common::Outcome::of(command.args(arguments))
}

fn refused(desk: &Desk, arguments: &[&str]) -> String {
    let outcome = plan(desk, arguments);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{arguments:?}: {outcome:?}");
    outcome.stderr
}

#[test]
fn errors_stand_side_by_side() {
    let desk = Desk::new();
    let outcome = plan(&desk, &["--epsilon", "1"]).ok();
    assert_snapshot!(shape(&outcome.stdout), @"
    Predicted standard errors for # rows with ε = 1:
    auto hist hist+rff tables
    rows # # # #
    mean(age) # (#%) # (#%) # (#%) # (#%)
    mean(height) # (#%) # (#%) # (#%) # (#%)
    mean(income) # (#%) # (#%) # (#%) # (#%)
    mean(born) # time (#%) # time (#%) # time (#%) # time (#%)
    mean(seen) # time (#%) # time (#%) # time (#%) # time (#%)
    cdf(age) #% #% #% #%
    cdf(height) #% #% #% #%
    cdf(income) #% #% #% #%
    cdf(born) #% #% #% #%
    cdf(seen) #% #% #% #%
    share(town) #% #% #% #%
    share(smoker) #% #% #% #%
    correlation of two columns # #* # #
    share of rows, by two columns #% #% #% #%
    share of rows, by three columns #% #% #% #%
    ");
    assert_snapshot!(trim(&outcome.stderr), @"
    note: * the release would hold next to nothing about this; the error is that of a guess
    note: predicted from the schema alone, on invented rows; nothing was read or spent
    note: real errors can be half or twice as large, depending on the rows; --like a release they are nearer
    ");
    let one = plan(&desk, &["--epsilon", "1", "--delta", "1e-6", "--design", "hist:bins=16"]).ok();
    let mut lines = one.stdout.lines();
    assert_eq!(lines.next(), Some("Predicted standard errors for 20000 rows with ε = 1, δ = 0.000001:"));
    assert_eq!(lines.next().map(str::trim), Some("hist:bins=16"));
    assert_eq!(plan(&desk, &["--epsilon", "1"]).ok().stdout, outcome.stdout, "nothing is random");
}

#[test]
fn programs_read_it_too() {
    let desk = Desk::new();
    let outcome = plan(&desk, &["--rho", "0.5", "--design", "auto", "--format", "json"]).ok();
    assert_eq!(outcome.stderr, "");
    let all: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!((&all["rows"], &all["budget"]["rho"]), (&Value::from(20000), &Value::from(0.5)));
    let answers = all["designs"][0]["answers"].as_array().unwrap();
    let mean = answers.iter().find(|answer| answer["question"] == "mean(age)").unwrap();
    let (error, part) = (mean["std_error"].as_f64().unwrap(), mean["part_of_range"].as_f64().unwrap());
    assert!((error - 120.0 * part).abs() < 1e-9 && error > 0.0 && mean["supported"] == true, "{mean}");
}

#[test]
fn the_budget_for_what_is_wanted_is_found() {
    let desk = Desk::new();
    let outcome = plan(&desk, &["--want", "mean(age) ± 5%", "--want", "share(town) +- 0.1%"]).ok();
    assert_snapshot!(shape(&outcome.stdout), @"
    ε = # is enough; `share(town) +- 0.1%` decides
    want predicted error
    mean(age) ± #% # (#%)
    share(town) +- #% #%
    ");
    let json = plan(&desk, &["--want", "rows ± 70", "--format", "json"]).ok();
    let all: Value = serde_json::from_str(&json.stdout).unwrap();
    // Laplace noise with two hundredths of the budget has the standard deviation √2 / 0.02ε, which is 70 at ε = 1.01; the cells
    // of histograms add up to the rows, too.
    assert!(all["epsilon"].as_f64().is_some_and(|epsilon| (0.1..1.0).contains(&epsilon)), "{all}");
    assert_eq!((&all["decisive"], &all["wants"][0]["wanted"]), (&Value::from("rows ± 70"), &Value::from(70.0)));
    let found = plan(&desk, &["--want", "mean(age) ± 1", "--delta", "1e-6", "--design", "hist"]).ok();
    assert!(found.stdout.contains(", δ = 0.000001 is enough\n"), "{found:?}");
}

#[test]
fn what_cannot_be_planned_is_explained() {
    let desk = Desk::new();
    let wants = ["mean(agee) ± 1%", "mean(town) ± 1%", "mean(age ± 1%", "mode(age) ± 1", "mean(age) ± 1% or so"];
    let said = |want: &&str| format!("> {want}\n{}\n\n", trim(&refused(&desk, &["--want", want])));
    assert_snapshot!(wants.iter().map(said).collect::<String>(), @"
    > mean(agee) ± 1%
    error: there is no column `agee`
    hint: did you mean `age`?

    > mean(town) ± 1%
    error: `town` holds levels, so it has no mean
    hint: ask for share(town), or name a numeric column

    > mean(age ± 1%
    error: column 10: expected , or ), found `±`
    hint: correct it here:
      mean(age ± 1%
               ^

    > mode(age) ± 1
    error: column 1: there is no question `mode`, there are rows, mean, cdf, share, corr or count
    hint: correct it here:
      mode(age) ± 1
      ^

    > mean(age) ± 1% or so
    error: column 16: expected the end, found `o`
    hint: correct it here:
      mean(age) ± 1% or so
                     ^
    ");
    let impossible = refused(&desk, &["--design", "hist", "--want", "corr(age, height) ± 0.001"]);
    assert_snapshot!(shape(&impossible), @"
    error: `corr(age, height) ± 0.001` is out of reach: even with ε = # the error is expected to be # times as large
    hint: want less, or try another --design
    ");
    assert_snapshot!(trim(&refused(&desk, &[])), @"
    error: no budget is given
    hint: give --epsilon, --epsilon and --delta, or --rho, or --want to find ε
    ");
    assert_snapshot!(trim(&refused(&desk, &["--epsilon", "1", "--want", "rows ± 1"])), @"
    error: --want looks for an epsilon, and one is given already
    hint: leave out --epsilon or --rho, or --want
    ");
    assert_snapshot!(trim(&refused(&desk, &["--epsilon", "1", "--design", "median"])), @"
    error: design: there is no map `median`
    hint: choose rff, race, hist or tables, or give a .toml file with several
    ");
    let rowless = desk.m2m("plan --schema schema.toml --epsilon 1");
    assert_eq!(rowless.code, Some(2));
    assert!(rowless.stderr.contains("--rows <N>"), "{rowless:?}");
    assert_eq!(desk.m2m("plan --schema schema.toml --rows 0 --epsilon 1").code, Some(2));
    assert_eq!(desk.names(), ["people.csv", "schema.toml"], "nothing is written");
}

/// A release of a table that is like the one to come stands in for schema and rows.
#[test]
fn another_release_tells_what_a_schema_leaves_open() {
    let desk = Desk::new();
    desk.m2m("sketch people.csv --schema schema.toml --epsilon 8 -o last.m2m").ok();
    let outcome = desk.m2m("plan --like last.m2m --epsilon 1 --design auto").ok();
    assert!(outcome.stdout.starts_with("Predicted standard errors for ") && outcome.stdout.contains("mean(age)"));
    assert!(outcome.stderr.contains("on rows drawn from that release; nothing was spent"), "{outcome:?}");
    let outcome = desk.m2m("plan --like last.m2m --rows 9000 --epsilon 1 --design auto --format json").ok();
    assert_eq!(serde_json::from_str::<Value>(&outcome.stdout).unwrap()["rows"], 9000);
    let outcome = desk.m2m("plan --like last.m2m --rows 9000 --design hist --want mean(age)±1%").ok();
    assert!(outcome.stdout.contains("is enough"), "{outcome:?}");
    for (arguments, said) in [
        ("--like last.m2m --schema schema.toml --epsilon 1", "cannot be used with"),
        ("--like last.m2m", "no budget is given"),
        ("--like last.m2m --want mean(agee)±1%", "did you mean `age`?"),
        ("--like people.csv --epsilon 1", "people.csv: this is not a release of m2m"),
        ("--schema schema.toml --epsilon 1", "--rows"),
    ] {
        let refused = desk.refused(&format!("plan {arguments}"));
        assert!(refused.contains(said), "{arguments}: {refused}");
    }
}
