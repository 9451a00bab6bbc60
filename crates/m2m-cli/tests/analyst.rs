//! The analyst's side of the command, from the outside: releases of a made-up study, and questions of which the truth is
//! known.
//!
//! At ε = 1000 the noise is nothing and answers must be near the truth. At ε = 1 tolerances are ten standard errors: a
//! Laplace variable is that far out with a probability below 1e-6. Everything else is the same in every run.

mod common;

use std::fmt::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Desk, Outcome, Random, iso_date, iso_moment, transcript};
use insta::assert_snapshot;
use serde_json::{Value, json};

const ROWS: usize = 6000;

/// One row of the study. What depends on what:
/// y = 2 + 0.8 x + N(0, 1); z has two groups, around 20 and 60; P(flag) = σ(0.8 x - 4);
/// log odds of cls: mid 0.9 (x - 5), high -0.6 (x - 5) against low; visits ~ Poisson(exp(0.2 x - 0.5)).
struct Row {
    x: f64,
    y: f64,
    z: f64,
    g: Option<&'static str>,
    flag: bool,
    cls: &'static str,
    visits: i64,
    /// Days and seconds from 1970-01-01.
    born: i64,
    seen: i64,
}

/// Every column with its type, in the order of [`Row`].
const STUDY: [(&str, &str); 9] = [
    ("x", "type = 'number'\nmin = 0\nmax = 10"),
    ("y", "type = 'number'\nmin = -2\nmax = 16"),
    ("z", "type = 'number'\nmin = 0\nmax = 80"),
    ("g", "type = 'category'\nlevels = ['a', 'b', 'c']\nnullable = true"),
    ("flag", "type = 'boolean'"),
    ("cls", "type = 'category'\nlevels = ['low', 'mid', 'high']"),
    ("visits", "type = 'integer'\nmin = 0\nmax = 20"),
    ("born", "type = 'date'\nmin = '1960-01-01'\nmax = '1990-01-01'"),
    ("seen", "type = 'datetime'\nmin = '2020-01-01T00:00:00Z'\nmax = '2021-01-01T00:00:00Z'"),
];

/// A desk with the rows of the study at hand.
struct Study {
    desk: Desk,
    rows: Vec<Row>,
}

fn uniform(random: &mut Random) -> f64 {
    (random.word() >> 11) as f64 / (1u64 << 53) as f64
}

fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - uniform(random)).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform(random)).cos()
}

impl Study {
    fn new() -> Self {
        let mut random = Random(7);
        // As it stands in the file.
        let short = |x: f64| (x * 1000.0).round() / 1000.0;
        let rows = (0..ROWS).map(|row| {
            let x = short((5.0 + 1.5 * normal(&mut random)).clamp(0.0, 10.0));
            let y = short((2.0 + 0.8 * x + normal(&mut random)).clamp(-2.0, 16.0));
            let odds = [1.0, (0.9 * (x - 5.0)).exp(), (-0.6 * (x - 5.0)).exp()];
            let mut at = uniform(&mut random) * odds.iter().sum::<f64>();
            let class = odds.iter().position(|odds| {
                at -= odds;
                at < 0.0
            });
            let (stop, mut product, mut visits) = ((-(0.2 * x - 0.5).exp()).exp(), uniform(&mut random), 0);
            while product > stop && visits < 20 {
                product *= uniform(&mut random);
                visits += 1;
            }
            Row {
                x,
                y,
                z: short((if row % 2 == 0 { 20.0 } else { 60.0 } + 5.0 * normal(&mut random)).clamp(0.0, 80.0)),
                g: [
                    Some("a"),
                    Some("a"),
                    Some("a"),
                    Some("a"),
                    Some("a"),
                    Some("b"),
                    Some("b"),
                    Some("b"),
                    Some("c"),
                    None,
                ][random.below(10)],
                flag: uniform(&mut random) < 1.0 / (1.0 + (4.0 - 0.8 * x).exp()),
                cls: ["low", "mid", "high"][class.unwrap_or(0)],
                visits,
                born: -3653 + random.below(10_000) as i64,
                seen: 1_577_836_800 + random.below(366 * 86_400) as i64,
            }
        });
        let rows = rows.collect();
        Self { desk: Desk::new(), rows }
    }

    /// Writes a table of some columns as `NAME.csv` with `NAME.toml`.
    fn table(&self, name: &str, columns: &str) {
        let columns: Vec<&str> = columns.split(',').collect();
        let mut schema = String::new();
        for (column, kind) in STUDY.iter().filter(|(column, _)| columns.contains(column)) {
            let _ = writeln!(schema, "[[column]]\nname = '{column}'\n{kind}");
        }
        let mut text =
            STUDY.map(|(column, _)| column).into_iter().filter(|c| columns.contains(c)).collect::<Vec<_>>().join(",")
                + "\n";
        for row in &self.rows {
            let cells = [
                row.x.to_string(),
                row.y.to_string(),
                row.z.to_string(),
                row.g.unwrap_or("").to_owned(),
                row.flag.to_string(),
                row.cls.to_owned(),
                row.visits.to_string(),
                iso_date(row.born),
                iso_moment(row.seen),
            ];
            let chosen: Vec<&str> = STUDY
                .iter()
                .zip(&cells)
                .filter(|((column, _), _)| columns.contains(column))
                .map(|(_, cell)| cell.as_str())
                .collect();
            text += &(chosen.join(",") + "\n");
        }
        self.desk.put(&format!("{name}.csv"), text).put(&format!("{name}.toml"), schema);
    }

    /// A release `NAME.m2m` of some columns.
    fn publish(&self, name: &str, columns: &str, options: &str) -> &Self {
        self.table(name, columns);
        self.desk.m2m(&format!("sketch {name}.csv --schema {name}.toml -o {name}.m2m {options}")).ok();
        self
    }

    /// The answer to a query as JSON, of which the form is checked.
    fn sql(&self, release: &str, query: &str) -> Vec<Vec<Value>> {
        let answer = parse(&self.desk.feed(&format!("sql {release} --format json"), query.as_bytes()).ok().stdout);
        let names: Vec<&String> = answer.as_object().unwrap().keys().collect();
        assert_eq!(names, ["columns", "rows", "warnings"], "{query}");
        let rows: Vec<Vec<Value>> = serde_json::from_value(answer["rows"].clone()).unwrap();
        for cell in rows.iter().flatten().filter(|cell| cell.is_object()) {
            check_estimate(cell);
        }
        assert!(rows.iter().all(|row| row.len() == answer["columns"].as_array().unwrap().len()), "{query}");
        rows
    }

    fn of(&self, value: impl Fn(&Row) -> f64) -> Vec<f64> {
        self.rows.iter().map(value).collect()
    }

    fn count(&self, condition: impl Fn(&Row) -> bool) -> f64 {
        self.rows.iter().filter(|row| condition(row)).count() as f64
    }
}

#[track_caller]
fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// `{value, std_error, low, high}`, perhaps with `caution` or `parts`, all of it numbers that make sense.
#[track_caller]
fn check_estimate(cell: &Value) {
    let part = |name: &str| cell[name].as_f64();
    if cell["value"].is_string() {
        assert!(cell["low"].is_string() && cell["high"].is_string() && part("std_error").is_some(), "{cell}");
        return;
    }
    let (Some(value), Some(error), Some(low), Some(high)) =
        (part("value"), part("std_error"), part("low"), part("high"))
    else {
        panic!("{cell}");
    };
    assert!(error >= 0.0 && low <= value && value <= high, "{cell}");
}

/// Within so many standard errors and a little more.
#[track_caller]
fn near(cell: &Value, truth: f64, errors: f64, slack: f64) {
    let (value, error) = (cell["value"].as_f64().unwrap(), cell["std_error"].as_f64().unwrap());
    assert!((value - truth).abs() <= errors * error + slack, "{value} ± {error}, and the truth is {truth}");
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn covariance(a: &[f64], b: &[f64]) -> f64 {
    let (of_a, of_b) = (mean(a), mean(b));
    mean(&a.iter().zip(b).map(|(a, b)| (a - of_a) * (b - of_b)).collect::<Vec<_>>())
}

fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

const SURE: &str = "--epsilon 1000";

mod sql {
    use super::*;

    #[test]
    fn counts_and_groups_are_near_the_truth() {
        let study = Study::new();
        study.publish("t", "g,flag,visits", &format!("{SURE} --design tables:ways=2,bins=21"));
        let rows = study.sql("t.m2m", "SELECT COUNT(*) AS n FROM t");
        near(&rows[0][0], ROWS as f64, 10.0, 0.5);

        let rows = study.sql("t.m2m", "SELECT g, COUNT(*) AS n FROM t GROUP BY g ORDER BY g");
        let names: Vec<&Value> = rows.iter().map(|row| &row[0]).filter(|name| **name != "(other)").collect();
        assert_eq!(names, [&json!("a"), &json!("b"), &json!("c"), &Value::Null]);
        for row in rows.iter().filter(|row| row[0] != "(other)") {
            near(&row[1], study.count(|r| r.g == row[0].as_str()), 10.0, 1.0);
        }

        let rows = study.sql(
            "t.m2m",
            "SELECT g, flag, COUNT(*) FROM t WHERE g IS NOT NULL AND g <> 'c' GROUP BY g, flag HAVING COUNT(*) > 500 ORDER BY 3 DESC LIMIT 3",
        );
        assert_eq!(rows.len(), 3);
        for row in &rows {
            let truth = study.count(|r| r.g == row[0].as_str() && row[1] == r.flag);
            near(&row[2], truth, 10.0, 2.0);
            assert!(truth > 500.0);
        }
        let values: Vec<f64> = rows.iter().map(|row| row[2]["value"].as_f64().unwrap()).collect();
        assert!(values.is_sorted_by(|a, b| a >= b), "{values:?}");

        let rows =
            study.sql("t.m2m", "SELECT visits, COUNT(*) FROM t GROUP BY visits ORDER BY visits LIMIT 4 OFFSET 1");
        assert_eq!(rows.iter().map(|row| row[0].as_i64().unwrap()).collect::<Vec<_>>(), [1, 2, 3, 4]);
        for row in &rows {
            near(&row[1], study.count(|r| Some(r.visits) == row[0].as_i64()), 10.0, 3.0);
        }
        let rows = study.sql("t.m2m", "SELECT AVG(flag), AVG(CASE WHEN g = 'a' THEN 1 ELSE 0 END) FROM t");
        near(&rows[0][0], study.count(|r| r.flag) / ROWS as f64, 10.0, 1e-3);
        near(&rows[0][1], study.count(|r| r.g == Some("a")) / ROWS as f64, 10.0, 1e-3);
    }

    #[test]
    fn moments_and_quantiles_are_near_the_truth() {
        let study = Study::new();
        study.publish("t", "x,y", &format!("{SURE} --design rff:m=200"));
        let (x, y) = (study.of(|row| row.x), study.of(|row| row.y));
        let rows = study.sql(
            "t.m2m",
            "SELECT AVG(x), STDDEV_POP(x), CORR(x, y), REGR_SLOPE(y, x), REGR_INTERCEPT(y, x), COVAR_POP(x, y), \
             MEDIAN(x), PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x), APPROX_QUANTILE(x, 0.1), SUM(x) / COUNT(*) FROM t",
        );
        let deviation = |values: &[f64]| covariance(values, values).sqrt();
        let slope = covariance(&x, &y) / covariance(&x, &x);
        let truths = [
            mean(&x),
            deviation(&x),
            covariance(&x, &y) / deviation(&x) / deviation(&y),
            slope,
            mean(&y) - slope * mean(&x),
            covariance(&x, &y),
            quantile(&x, 0.5),
            quantile(&x, 0.9),
            quantile(&x, 0.1),
            mean(&x),
        ];
        for (cell, truth) in rows[0].iter().zip(truths) {
            near(cell, truth, 5.0, 0.01);
            // And not by claiming to know nothing.
            assert!(cell["std_error"].as_f64().unwrap() < 1.5, "{cell}");
        }
    }

    #[test]
    fn dates_are_compared_binned_and_shown_as_dates() {
        let study = Study::new();
        study.publish("t", "born,seen", &format!("{SURE} --design hist:bins=64"));
        let born = study.of(|row| row.born as f64);
        let rows = study.sql("t.m2m", "SELECT COUNT(*) FROM t WHERE born >= '1975-01-01'");
        near(&rows[0][0], study.count(|row| row.born >= 1826), 10.0, 50.0);
        let rows = study.sql("t.m2m", "SELECT AVG(born), MEDIAN(seen) FROM t");
        assert_eq!(&rows[0][0]["value"].as_str().unwrap()[..4], &iso_date(mean(&born) as i64)[..4]);
        assert!(rows[0][1]["value"].as_str().unwrap().starts_with("2020-0"), "{rows:?}");
        let rows = study.sql("t.m2m", "SELECT bin(born, 3) AS decade, COUNT(*) FROM t GROUP BY decade ORDER BY decade");
        let starts: Vec<&str> = rows.iter().map(|row| row[0].as_str().unwrap()).collect();
        assert_eq!(starts, ["1960-01-01", "1970-01-01", "1980-01-02"]);
        near(&rows[0][1], study.count(|row| row.born < 0), 10.0, 60.0);
        let table = study.desk.feed("sql t.m2m", b"SELECT AVG(born) FROM t").ok().stdout;
        assert!(table.contains("197") && table.contains(" days"), "{table}");
    }

    #[test]
    fn bins_have_equal_widths_and_their_counts_add_up() {
        let study = Study::new();
        study.publish("t", "x", &format!("{SURE} --design hist:bins=40"));
        let rows = study.sql("t.m2m", "SELECT bin(x, 5), COUNT(*) FROM t GROUP BY 1 ORDER BY 1");
        let edges: Vec<f64> = rows.iter().map(|row| row[0].as_f64().unwrap()).collect();
        assert_eq!(edges, [0.0, 2.0, 4.0, 6.0, 8.0]);
        for row in &rows {
            let low = row[0].as_f64().unwrap();
            // Rows that lie exactly on an edge may be counted on either side.
            near(&row[1], study.count(|r| r.x >= low && r.x < low + 2.0), 10.0, 5.0);
        }
        let sum: f64 = rows.iter().map(|row| row[1]["value"].as_f64().unwrap()).sum();
        assert!((sum - ROWS as f64).abs() < 1.0, "{sum}");
    }

    #[test]
    fn a_noisy_release_is_near_the_truth_within_its_errors() {
        let study = Study::new();
        study.publish("t", "x,g,flag", "--epsilon 1");
        let rows = study.sql("t.m2m", "SELECT COUNT(*), AVG(x), AVG(flag) FROM t");
        near(&rows[0][0], ROWS as f64, 10.0, 0.0);
        near(&rows[0][1], mean(&study.of(|row| row.x)), 10.0, 0.0);
        near(&rows[0][2], study.count(|row| row.flag) / ROWS as f64, 10.0, 0.0);
        assert!((10.0..500.0).contains(&rows[0][0]["std_error"].as_f64().unwrap()), "{rows:?}");
        for row in study.sql("t.m2m", "SELECT g, COUNT(*) FROM t GROUP BY g").iter().filter(|row| row[0] != "(other)") {
            near(&row[1], study.count(|r| r.g == row[0].as_str()), 10.0, 0.0);
        }
    }

    #[test]
    fn the_query_comes_from_the_line_or_from_standard_input() {
        let study = Study::new();
        study.publish("t", "x", "--epsilon 1 --design hist");
        let desk = &study.desk;
        let query = "SELECT 1 AS one, 'a' AS two, NULL AS three, 1 > 2 AS four;";
        let given = Outcome::of(desk.command("sql t.m2m --format csv").arg(query)).ok();
        assert_eq!((given.stdout.as_str(), given.stderr.as_str()), ("one,two,three,four\n1,a,,false\n", ""));
        assert_eq!(desk.feed("sql t.m2m --format csv", query.as_bytes()).ok().stdout, given.stdout);
        assert_eq!(desk.feed("sql t.m2m - --format csv", query.as_bytes()).ok().stdout, given.stdout);
        let json = desk.feed("sql t.m2m --format json", query.as_bytes()).ok().stdout;
        assert_eq!(
            parse(&json),
            json!({"columns": ["one", "two", "three", "four"], "rows": [[1, "a", null, false]], "warnings": []})
        );
    }

    #[test]
    fn csv_is_quoted_and_has_a_field_for_every_part_of_an_estimate() {
        let study = Study::new();
        study.publish("t", "x,g", "--epsilon 1 --design hist");
        let query = b"SELECT g, COUNT(*) AS \"n, \"\"all\"\"\" FROM t GROUP BY g ORDER BY g LIMIT 2";
        let csv = study.desk.feed("sql t.m2m --format csv", query).ok().stdout;
        let mut lines = csv.lines();
        let header = r#"g,"n, ""all""","n, ""all""_std_error","n, ""all""_low","n, ""all""_high""#;
        assert_eq!(lines.next(), Some(header));
        for line in lines {
            let fields: Vec<&str> = line.split(',').collect();
            assert!(fields.len() == 5 && fields[1..].iter().all(|field| field.parse::<f64>().is_ok()), "{csv}");
        }
    }

    #[test]
    fn small_groups_are_shown_with_a_warning() {
        let study = Study::new();
        study.desk.put("few.csv", "x,g\n1,a\n2,b\n").put(
            "few.toml",
            "[[column]]\nname = 'x'\ntype = 'number'\nmin = 0\nmax = 10\n[[column]]\nname = 'g'\ntype = 'category'\nlevels = ['a', 'b']\n",
        );
        study.desk.m2m("sketch few.csv --schema few.toml --design tables --epsilon 0.1 -o few.m2m").ok();
        let answer = study.desk.feed("sql few.m2m", b"SELECT g, AVG(x) FROM t GROUP BY g").ok();
        assert!(answer.stdout.contains('*') && answer.stderr.starts_with("* "), "{answer:?}");
        let json =
            parse(&study.desk.feed("sql few.m2m --format json", b"SELECT g, AVG(x) FROM t GROUP BY g").ok().stdout);
        assert_eq!(json["warnings"].as_array().unwrap().len(), 1, "{json}");
    }

    /// Levels that the schema does not list: nobody has one here.
    #[test]
    fn a_group_that_is_empty_for_sure_is_left_out() {
        let study = Study::new();
        study.publish("t", "x,g,flag", SURE);
        let rows = study.sql("t.m2m", "SELECT g, COUNT(*) FROM t GROUP BY g");
        assert!(rows.iter().all(|row| row[0] != "(other)"), "{rows:?}");
    }
}

mod shell {
    use super::*;

    #[test]
    fn it_reads_statements_and_commands_and_goes_on_after_errors() {
        let study = Study::new();
        study.publish("t", "x,g,born", "--epsilon 1 --design hist");
        let script = "SELECT 1 AS a;\r\n\\d\nSELECT 'x;y' AS b, -- a comment; with more\n 2 AS c;\n\\nothing\nSELECT y FROM t;\n\\timing\nSELECT 3 AS d";
        let outcome = study.desk.feed("shell t.m2m", script.as_bytes());
        assert_eq!(outcome.code, Some(2));
        assert_snapshot!(common::trim(&outcome.stdout), @r"
        a
        1
        x: number from 0 to 10
        g: category of 3 levels (a, b, c), may be missing
        born: date from 1960-01-01 to 1990-01-01
        b    c
        x;y  2
        d
        3
        ");
        assert_snapshot!(common::mask(&outcome.stderr, "Time: ", " ms"), @r"
        error: there is no command \nothing
        hint: \h lists them
        error: there is no column `y`
        hint: the columns are x, g, born
        timing is on
        Time: … ms
        error: 2 of 5 queries failed
        hint: correct those named above
        ");
        let outcome = study.desk.feed("shell t.m2m", b"").ok();
        assert_eq!(outcome.said(), "");
        let outcome = study.desk.feed("shell t.m2m --format json", b"SELECT 1;SELECT 2;\n\\q\nSELECT nothing;").said();
        assert_eq!(outcome.lines().filter(|line| parse(line)["rows"].is_array()).count(), 2, "{outcome}");
    }

    #[test]
    fn a_long_script_takes_no_longer_than_its_queries() {
        let study = Study::new();
        study.publish("t", "x", "--epsilon 1 --design hist");
        let started = Instant::now();
        let outcome = study.desk.feed("shell t.m2m --format csv", "SELECT 1;\n".repeat(2000).as_bytes()).ok();
        assert_eq!(outcome.stdout.lines().count(), 4000);
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    /// Twice the lines, twice the time: a scan of all text at each line would take minutes.
    #[test]
    fn a_statement_of_many_lines_is_read_once() {
        let study = Study::new();
        study.publish("t", "x", "--epsilon 1 --design hist");
        let comments = "-- nothing; to be seen here, but for many letters\n".repeat(20_000);
        let script = format!("{comments}SELECT 1 AS a,\n{}2 AS b;\n{comments}", "--;\n".repeat(100_000));
        let started = Instant::now();
        let outcome = study.desk.feed("shell t.m2m --format csv", script.as_bytes()).ok();
        assert_eq!(outcome.stdout, "a,b\n1,2\n");
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn commands_may_follow_a_query_on_its_line() {
        let study = Study::new();
        study.publish("t", "x,g", "--epsilon 1 --design hist");
        let script = "\u{feff}-- columns\nSELECT 1 AS a; \\d\n\u{feff}SELECT '\\q' AS b; SELECT\n3 AS c; \\timing \\q\nSELECT nothing;";
        let outcome = study.desk.feed("shell t.m2m", script.as_bytes()).ok();
        assert_snapshot!(common::trim(&outcome.stdout), @r"
        a
        1
        x: number from 0 to 10
        g: category of 3 levels (a, b, c), may be missing
        b
        \q
        c
        3
        ");
        assert_eq!(outcome.stderr, "timing is on\n");
    }
}

mod describe {
    use super::*;

    #[test]
    fn every_column_is_described() {
        let study = Study::new();
        study.publish("t", "x,g,flag,visits,born", &format!("{SURE} --design hist:bins=60"));
        let json = parse(&study.desk.m2m("describe t.m2m --format json").ok().stdout);
        near(&json["rows"], ROWS as f64, 10.0, 0.5);
        let columns = json["columns"].as_array().unwrap();
        let names: Vec<&str> = columns.iter().map(|column| column["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["x", "g", "flag", "visits", "born"]);
        let x = study.of(|row| row.x);
        near(&columns[0]["mean"], mean(&x), 5.0, 0.01);
        near(&columns[0]["std"], covariance(&x, &x).sqrt(), 5.0, 0.01);
        for (label, share) in [("25%", 0.25), ("50%", 0.5), ("75%", 0.75)] {
            near(&columns[0][label], quantile(&x, share), 5.0, 0.05);
        }
        near(&columns[1]["missing"], study.count(|row| row.g.is_none()), 10.0, 1.0);
        near(&columns[1]["count"], study.count(|row| row.g.is_some()), 10.0, 1.0);
        for column in columns {
            let bins = column["histogram"].as_array().unwrap();
            let held: f64 = bins.iter().map(|bin| bin["count"]["value"].as_f64().unwrap()).sum();
            let known = column["count"]["value"].as_f64().unwrap();
            assert!((held - known).abs() < 0.02 * known, "{column}");
            bins.iter().for_each(|bin| check_estimate(&bin["count"]));
        }
        near(&columns[3]["mean"], mean(&study.of(|row| row.visits as f64)), 5.0, 0.01);
    }

    #[test]
    fn columns_and_rows_can_be_chosen() {
        let study = Study::new();
        study.publish("t", "x,g,flag", &format!("{SURE} --design tables:bins=20"));
        let line = "describe t.m2m --columns x,g --format json --where";
        let json = parse(&Outcome::of(study.desk.command(line).arg("flag AND g = 'a'")).ok().stdout);
        assert_eq!(json["columns"].as_array().unwrap().len(), 2);
        near(&json["rows"], study.count(|row| row.flag && row.g == Some("a")), 10.0, 3.0);
        let chosen: Vec<f64> = study.rows.iter().filter(|row| row.flag).map(|row| row.x).collect();
        let json = parse(&study.desk.m2m("describe t.m2m --columns x --where flag --format json").ok().stdout);
        near(&json["columns"][0]["mean"], mean(&chosen), 5.0, 0.05);
    }

    #[test]
    fn people_see_aligned_text() {
        let study = Study::new();
        study.publish("t", "x,g,born", "--epsilon 1 --design hist");
        let outcome = study.desk.m2m("describe t.m2m").ok();
        let shape: String = outcome.stdout.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert!(shape.contains("\nx (number; 0") && shape.contains("\n  mean ") && shape.contains("% "), "{shape}");
        assert!(shape.contains("\ng (category; ") && shape.contains(" missing)\n"), "{shape}");
        assert!(
            shape.contains("\nborn (date; ") && shape.contains(" days") && shape.contains("0000-00-00 "),
            "{shape}"
        );
    }

    #[test]
    fn bars_end_at_the_public_bounds() {
        let study = Study::new();
        let schema = "[[column]]\nname = 'x'\ntype = 'number'\nmin = 0\nmax = 1000000\ntransform = 'log1p'\n";
        study.desk.put("s.toml", schema).put("s.csv", "x\n1\n2\n");
        study.desk.m2m("sketch s.csv --schema s.toml --epsilon 1 -o s.m2m").ok();
        let text = study.desk.m2m("describe s.m2m").ok().stdout;
        assert!(text.ends_with(" 1000000\n"), "{text}");
    }

    #[test]
    fn nothing_is_missing_from_a_column_without_missing_cells() {
        let study = Study::new();
        study.publish("t", "x", SURE);
        let text = study.desk.m2m("describe t.m2m").ok().stdout;
        assert!(!text.contains("missing"), "{text}");
    }
}

mod warnings {
    use super::*;

    /// What is said of numbers that should not be leaned on: beside the answer for people and spreadsheets, within it
    /// for programs.
    #[test]
    fn every_form_of_an_answer_has_its_warnings() {
        let study = Study::new();
        study.publish("t", "x,y,g", "--epsilon 0.001 --design hist");
        for (command, list) in [
            ("sql t.m2m", true),
            ("describe t.m2m --where x>9.9", false),
            ("corr t.m2m", true),
            ("density t.m2m --columns x,y --grid 2 --where x>9.9", true),
        ] {
            let query = b"SELECT g, AVG(x) FROM t WHERE y > 15 GROUP BY g";
            let said = |format: &str| study.desk.feed(&format!("{command} --format {format}"), query).ok();
            let json = said("json");
            let warnings: Vec<String> = serde_json::from_value(parse(&json.stdout)["warnings"].clone()).unwrap();
            assert!(!warnings.is_empty() && json.stderr.is_empty(), "{command}: {json:?}");
            assert!(json.stdout.contains("\"caution\":"), "{command}: {json:?}");
            let table = said("table");
            let starred: String = warnings.iter().map(|warning| format!("* {warning}\n")).collect();
            assert_eq!(table.stderr, starred, "{command}");
            assert!(table.stdout.contains('*'), "{command}: {table:?}");
            if list {
                let listed: String = warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
                assert_eq!(said("csv").stderr, listed, "{command}");
            }
        }
    }

    #[test]
    fn a_division_by_an_estimate_of_zero_is_named() {
        let study = Study::new();
        study.publish("t", "x,g", "--epsilon 1 --design hist");
        let query =
            "SELECT AVG(x) / (COUNT(*) - COUNT(*)), SQRT(-COUNT(*)), CASE WHEN COUNT(*) < 0 THEN AVG(x) END FROM t";
        let outcome = study.desk.feed("sql t.m2m --format json", query.as_bytes()).ok();
        assert_eq!(
            parse(&outcome.stdout)["warnings"],
            json!([
                "2 of 3 cells have no value (a division by 0, a root or logarithm that does not exist, or no rows); ask for larger groups"
            ])
        );
    }
}

mod corr {
    use super::*;

    #[test]
    fn correlations_are_near_the_truth() {
        let study = Study::new();
        study.publish("t", "x,y,z", &format!("{SURE} --design rff:m=400"));
        let json = parse(&study.desk.m2m("corr t.m2m --format json").ok().stdout);
        assert_eq!(json["columns"], json!(["x", "y", "z"]));
        let columns = [study.of(|row| row.x), study.of(|row| row.y), study.of(|row| row.z)];
        for (i, a) in columns.iter().enumerate() {
            for (j, b) in columns.iter().enumerate() {
                let truth = covariance(a, b) / (covariance(a, a) * covariance(b, b)).sqrt();
                near(&json["matrix"][i][j], truth, 5.0, 0.05);
                check_estimate(&json["matrix"][i][j]);
            }
        }
        let json = parse(&study.desk.m2m("corr t.m2m --columns x,y --covariance --format json").ok().stdout);
        near(&json["matrix"][1][0], covariance(&columns[0], &columns[1]), 5.0, 0.05);
        near(&json["matrix"][0][0], covariance(&columns[0], &columns[0]), 5.0, 0.05);
        let csv = study.desk.m2m("corr t.m2m --format csv").ok().stdout;
        assert!(csv.starts_with("a,b,value,std_error,low,high\n") && csv.lines().count() == 7, "{csv}");
        let table = study.desk.m2m("corr t.m2m").ok().stdout;
        assert_eq!(table.lines().count(), 4, "{table}");
    }

    /// However much noise there is, a matrix of correlations is one: symmetric, within ±1, positive semidefinite.
    #[test]
    fn noise_leaves_a_matrix_of_correlations() {
        let study = Study::new();
        for epsilon in ["0.01", "0.3", "3"] {
            for design in ["rff:m=60", "tables", "race:r=20,w=8"] {
                study.publish("t", "x,y,z,visits", &format!("--epsilon {epsilon} --design {design} --force"));
                let json = parse(&study.desk.m2m("corr t.m2m --samples 2000 --format json").ok().stdout);
                let entry = |i: usize, j: usize| json["matrix"][i][j]["value"].as_f64().unwrap();
                for i in 0..4 {
                    assert!((entry(i, i) - 1.0).abs() < 1e-9, "{json}");
                    for j in 0..4 {
                        assert!(entry(i, j).abs() <= 1.0 + 1e-9 && (entry(i, j) - entry(j, i)).abs() < 1e-9, "{json}");
                        check_estimate(&json["matrix"][i][j]);
                    }
                }
                assert!(is_psd(4, entry), "{design} at {epsilon}: {json}");
            }
        }
    }

    /// By elimination, with room for rounding.
    fn is_psd(n: usize, entry: impl Fn(usize, usize) -> f64) -> bool {
        let room = |i, j| if i == j { 1e-7 } else { 0.0 };
        let mut rest: Vec<Vec<f64>> = (0..n).map(|i| (0..n).map(|j| entry(i, j) + room(i, j)).collect()).collect();
        while let Some((first, others)) = rest.split_first() {
            if first[0] <= 0.0 {
                return false;
            }
            let below = |row: &Vec<f64>| (1..row.len()).map(|j| row[j] - row[0] / first[0] * first[j]).collect();
            rest = others.iter().map(below).collect();
        }
        true
    }

    /// What a curator gets without choosing anything, of a table with a handful of columns.
    #[test]
    fn the_default_design_knows_its_errors() {
        let study = Study::new();
        for options in ["--epsilon 1", SURE] {
            study.publish("t", "x,y,z,g,flag,cls,visits,born,seen", &format!("{options} --force"));
            let (x, y) = (study.of(|row| row.x), study.of(|row| row.y));
            let truth = covariance(&x, &y) / (covariance(&x, &x) * covariance(&y, &y)).sqrt();
            near(&study.sql("t.m2m", "SELECT CORR(x, y) FROM t")[0][0], truth, 5.0, 0.0);
        }
    }

    #[test]
    fn more_budget_is_no_worse() {
        let study = Study::new();
        study.publish("t", "x,y", SURE);
        let (x, y) = (study.of(|row| row.x), study.of(|row| row.y));
        let truth = covariance(&x, &y) / (covariance(&x, &x) * covariance(&y, &y)).sqrt();
        let upper: Vec<f64> = study.rows.iter().filter(|row| row.x > 5.0).map(|row| row.y).collect();
        let rows = study.sql("t.m2m", "SELECT CORR(x, y), AVG(y) FILTER (WHERE x > 5) FROM t");
        near(&rows[0][0], truth, 5.0, 0.0);
        near(&rows[0][1], mean(&upper), 1e9, 0.0);
        assert!((rows[0][1]["value"].as_f64().unwrap() - mean(&upper)).abs() < 0.5, "{rows:?}");
    }
}

mod density {
    use super::*;

    fn values(json: &Value) -> Vec<f64> {
        json["points"].as_array().unwrap().iter().map(|point| point["density"]["value"].as_f64().unwrap()).collect()
    }

    #[test]
    fn a_density_integrates_to_one() {
        let study = Study::new();
        study.publish("t", "x,y", &format!("{SURE} --design hist"));
        let json = parse(&study.desk.m2m("density t.m2m --columns x --grid 101 --format json").ok().stdout);
        let total: f64 = values(&json).iter().sum::<f64>() * 0.1;
        assert!((total - 1.0).abs() < 0.02, "{total}");
        let peak = values(&json).iter().fold(0.0f64, |most, x| most.max(*x));
        assert!((peak - 0.266).abs() < 0.03, "{peak}");
        let json = parse(&study.desk.m2m("density t.m2m --columns x,y --grid 31 --format json").ok().stdout);
        assert_eq!(json["points"].as_array().unwrap().len(), 31 * 31);
        let total: f64 = values(&json).iter().sum::<f64>() * (10.0 / 30.0) * (18.0 / 30.0);
        assert!((total - 1.0).abs() < 0.05, "{total}");
    }

    #[test]
    fn points_and_forms_can_be_chosen() {
        let study = Study::new();
        study.publish("t", "x,y,born", "--epsilon 1 --design hist");
        let json = parse(
            &study.desk.m2m("density t.m2m --columns x --at 5 --at -1 --bandwidth 0.5 --format json").ok().stdout,
        );
        assert_eq!((&json["bandwidth"], &json["points"][1]["at"]), (&json!([0.5]), &json!([-1.0])));
        assert!(values(&json)[0] > 0.15 && values(&json)[1] < 0.02, "{json}");
        let csv = study.desk.m2m("density t.m2m --columns x,y --grid 3 --format csv").ok().stdout;
        assert!(csv.starts_with("\"x\",\"y\",density,std_error,low,high\n") && csv.lines().count() == 10, "{csv}");
        let table = study.desk.m2m("density t.m2m --columns born --grid 3").ok().stdout;
        assert!(table.contains("1960-01-01") && table.contains("1990-01-01"), "{table}");
        let some = parse(
            &study.desk.m2m("density t.m2m --columns x --at 5 --where x<4 --bandwidth 0.1 --format json").ok().stdout,
        );
        assert!(values(&some)[0] < 0.05, "{some}");
    }

    #[test]
    fn a_grid_takes_seconds() {
        let study = Study::new();
        study.publish("t", "x,y", "--epsilon 1");
        let started = Instant::now();
        study.desk.m2m("density t.m2m --columns x,y --grid 30 --format csv").ok();
        assert!(study.desk.refused("density t.m2m --columns x,y --grid 101").contains("10000 in all"));
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }
}

mod fit {
    use super::*;

    /// A fitted model as JSON; `coefficient` finds one by name.
    fn fit(study: &Study, release: &str, model: &str, formula: &str, more: &str) -> Value {
        let line = format!("fit {release} --samples 20000 --format json {more} --{model}");
        let json = parse(&Outcome::of(study.desk.command(&line).arg(formula)).ok().stdout);
        json["coefficients"].as_array().unwrap().iter().for_each(check_estimate);
        assert_eq!(json["names"].as_array().unwrap().len(), json["coefficients"].as_array().unwrap().len());
        assert_eq!(json["kind"], model);
        json
    }

    fn coefficient<'a>(json: &'a Value, name: &str) -> &'a Value {
        let at = json["names"].as_array().unwrap().iter().position(|other| other == name);
        &json["coefficients"][at.unwrap_or_else(|| panic!("no {name} in {json}"))]
    }

    #[test]
    fn least_squares_finds_the_line() {
        let study = Study::new();
        study.publish("t", "x,y,g", &format!("{SURE} --design rff:m=200"));
        for model in ["linear", "ridge"] {
            let json = fit(&study, "t.m2m", model, "y ~ x + g", "");
            near(coefficient(&json, "(intercept)"), 2.0, 4.0, 0.1);
            near(coefficient(&json, "x"), 0.8, 4.0, 0.03);
            near(coefficient(&json, "g[b]"), 0.0, 4.0, 0.1);
            assert!(coefficient(&json, "x")["std_error"].as_f64().unwrap() < 0.3, "{json}");
        }
        let through_origin = fit(&study, "t.m2m", "linear", "y ~ x - 1", "");
        assert_eq!(through_origin["names"], json!(["x"]));
    }

    #[test]
    fn classes_and_counts_find_their_coefficients() {
        let study = Study::new();
        study.publish("f", "x,flag", &format!("{SURE} --design rff:m=200"));
        study.publish("c", "x,cls", &format!("{SURE} --design rff:m=200"));
        study.publish("v", "x,visits", &format!("{SURE} --design rff:m=200"));
        let json = fit(&study, "f.m2m", "logistic", "flag ~ x", "");
        near(coefficient(&json, "x"), 0.8, 4.0, 0.05);
        near(coefficient(&json, "(intercept)"), -4.0, 4.0, 0.25);
        assert_eq!(json["classes"], json!(["false", "true"]));
        let json = fit(&study, "c.m2m", "multinomial", "cls ~ x", "");
        near(coefficient(&json, "mid: x"), 0.9, 4.0, 0.1);
        near(coefficient(&json, "high: x"), -0.6, 4.0, 0.1);
        let json = fit(&study, "v.m2m", "poisson", "visits ~ x", "");
        near(coefficient(&json, "x"), 0.2, 4.0, 0.05);
        near(coefficient(&json, "(intercept)"), -0.5, 4.0, 0.25);
        let json = fit(&study, "f.m2m", "svm", "flag ~ x", "");
        let (at, slope) = (coefficient(&json, "(intercept)"), coefficient(&json, "x"));
        let border = -at["value"].as_f64().unwrap() / slope["value"].as_f64().unwrap();
        assert!((border - 5.0).abs() < 0.3, "{json}");
    }

    #[test]
    fn a_model_is_tried_on_a_table_of_ones_own() {
        let study = Study::new();
        study.publish("f", "x,flag", &format!("{SURE} --design rff:m=200"));
        study.publish("y", "x,y", &format!("{SURE} --design rff:m=200"));
        let json = fit(&study, "f.m2m", "logistic", "flag ~ x", "--test f.csv");
        let test = &json["test"];
        assert_eq!((&test["rows"], &test["left_out"]), (&json!(ROWS), &json!(0)));
        assert!((0.65..0.8).contains(&test["accuracy"].as_f64().unwrap()), "{test}");
        assert!((0.7..0.85).contains(&test["auc"].as_f64().unwrap()), "{test}");
        assert!((0.45..0.65).contains(&test["log_loss"].as_f64().unwrap()), "{test}");
        let json = fit(&study, "y.m2m", "linear", "y ~ x", "--test y.csv");
        assert!((json["test"]["rmse"].as_f64().unwrap() - 1.0).abs() < 0.1, "{json}");
        assert!((json["test"]["r_squared"].as_f64().unwrap() - 0.59).abs() < 0.1, "{json}");
        // Only the columns of the formula are needed, and any delimiter will do.
        study.desk.put("own.csv", "y;x;more\n6;5;q\n7;6;q\n;6;q\n");
        let json = fit(&study, "y.m2m", "linear", "y ~ x", "--test own.csv --delimiter ;");
        assert_eq!((&json["test"]["rows"], &json["test"]["left_out"]), (&json!(2), &json!(1)));
        let line = "fit y.m2m --samples 2000 --test y.csv --linear";
        let text = Outcome::of(study.desk.command(line).arg("y ~ x")).ok().stdout;
        assert!(text.starts_with("y ~ x (linear; about ") && text.contains("\n  RMSE: "), "{text}");
    }

    /// SQL over the same release has the means of visits by x right.
    #[test]
    fn a_fit_from_tables_knows_its_errors() {
        let study = Study::new();
        study.table("v", "x,visits");
        study.desk.put("v.toml", study.desk.text("v.toml").replace("max = 20", "max = 40"));
        study.desk.m2m(&format!("sketch v.csv --schema v.toml -o v.m2m {SURE} --design tables:bins=41")).ok();
        let json = fit(&study, "v.m2m", "poisson", "visits ~ x", "");
        near(coefficient(&json, "x"), 0.2, 5.0, 0.05);
    }

    #[test]
    fn the_default_design_finds_the_line_at_a_large_budget() {
        let study = Study::new();
        study.publish("t", "x,y", SURE);
        let json = fit(&study, "t.m2m", "linear", "y ~ x", "");
        near(coefficient(&json, "x"), 0.8, 5.0, 0.1);
        assert!(coefficient(&json, "x")["std_error"].as_f64().unwrap() < 3.0, "{json}");
    }
}

mod groups {
    use super::*;

    #[test]
    fn blobs_are_found() {
        let study = Study::new();
        study.publish("t", "x,z", &format!("{SURE} --design rff:m=200,sigma=0.5"));
        for (line, list, place) in
            [("cluster t.m2m --k 2", "clusters", "centre"), ("cluster t.m2m --k 2 --mixture", "components", "mean")]
        {
            let json = parse(&study.desk.m2m(&format!("{line} --samples 20000 --format json")).ok().stdout);
            let at = json["names"].as_array().unwrap().iter().position(|name| name == "z").unwrap();
            let mut centres: Vec<f64> =
                json[list].as_array().unwrap().iter().map(|group| group[place][at].as_f64().unwrap()).collect();
            centres.sort_by(f64::total_cmp);
            assert!((centres[0] - 20.0).abs() < 1.0 && (centres[1] - 60.0).abs() < 1.0, "{line}: {centres:?}");
            for group in json[list].as_array().unwrap() {
                assert!((group["share"].as_f64().unwrap() - 0.5).abs() < 0.03, "{line}: {json}");
            }
            let text = study.desk.m2m(&format!("{line} --samples 20000")).ok().stdout;
            assert!(text.contains("share") && text.contains('%'), "{text}");
            let noted = json["notes"][0].as_str().unwrap();
            assert!(noted.starts_with("groups have no errors, as "), "{noted}");
            assert!(!text.contains('±') && text.contains("\n  std") == line.contains("mixture"), "{text}");
            // The same seed gives the same groups.
            assert_eq!(study.desk.m2m(&format!("{line} --samples 20000")).ok().stdout, text);
        }
    }

    #[test]
    fn directions_are_found() {
        let study = Study::new();
        study.publish("t", "x,y,z", &format!("{SURE} --design rff:m=400"));
        let json = parse(&study.desk.m2m("pca t.m2m --samples 20000 --format json").ok().stdout);
        assert_eq!(json["names"], json!(["x", "y", "z"]));
        let first = &json["components"][0];
        let z = study.of(|row| row.z);
        near(&first["variance"], covariance(&z, &z), 5.0, 5.0);
        assert!(first["loadings"][2].as_f64().unwrap().abs() > 0.99, "{first}");
        let shares: f64 = json["components"].as_array().unwrap().iter().map(|c| c["share"].as_f64().unwrap()).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{json}");
        let json =
            parse(&study.desk.m2m("pca t.m2m --columns x,y --standardise --samples 20000 --format json").ok().stdout);
        near(&json["components"][0]["variance"], 1.77, 5.0, 0.1);
        assert!(study.desk.m2m("pca t.m2m --samples 2000").ok().stdout.starts_with("principal components of about "));
    }
}

mod reading {
    use super::*;

    /// The options with which a release is read change how it falls back, not what it says when there is no noise.
    #[test]
    fn every_way_to_read_a_release_agrees_with_the_truth() {
        let study = Study::new();
        study.publish("t", "x,y,g", &format!("{SURE} --design rff:m=100"));
        let truth = mean(&study.of(|row| row.x));
        for options in [
            "",
            "--prior uniform",
            "--prior marginals:t.csv",
            "--prior sample:t.csv",
            "--lambda theorem",
            "--lambda theorem:5",
            "--lambda evidence",
            "--uncentred --prior sample:t.csv",
            "--samples 5000",
        ] {
            let line = format!("sql t.m2m --format json {options}");
            let answer = parse(&study.desk.feed(&line, b"SELECT COUNT(*), AVG(x) FROM t").ok().stdout);
            near(&answer["rows"][0][0], ROWS as f64, 5.0, 10.0);
            near(&answer["rows"][0][1], truth, 5.0, 0.05);
        }
        // The rule that the paper prints is far too careful: it is there for comparison.
        let answer =
            parse(&study.desk.feed("sql t.m2m --format json --lambda paper:2", b"SELECT AVG(x) FROM t").ok().stdout);
        check_estimate(&answer["rows"][0][0]);
        for command in ["describe t.m2m", "corr t.m2m", "density t.m2m --columns x", "cluster t.m2m", "pca t.m2m"] {
            study.desk.m2m(&format!("{command} --prior uniform --lambda theorem:2 --uncentred --samples 1000")).ok();
        }
    }

    #[test]
    fn uncentred_answers_are_not_doubled() {
        let study = Study::new();
        study.publish("t", "x,y,g", &format!("{SURE} --design rff:m=100"));
        for options in ["--uncentred", "--uncentred --prior uniform", "--uncentred --prior uniform --lambda theorem"] {
            let line = format!("sql t.m2m --format json {options}");
            let answer = parse(&study.desk.feed(&line, b"SELECT COUNT(*) FROM t").ok().stdout);
            near(&answer["rows"][0][0], ROWS as f64, 5.0, 10.0);
        }
    }

    #[test]
    fn every_design_and_budget_can_be_questioned() {
        let study = Study::new();
        study.table("t", "x,y,g,flag,visits,born");
        study.desk.put("own.toml", study.desk.text("t.toml"));
        study.desk.put(
            "several.toml",
            "[[map]]\nkind = 'hist'\nbins = 16\nshare = 0.3\n[[map]]\nkind = 'rff'\nm = 50\nshare = 0.3\n[[map]]\nkind = 'race'\nr = 10\nw = 10\nshare = 0.2\n[[map]]\nkind = 'tables'\ngroups = [['g', 'flag']]\nshare = 0.2\n",
        );
        let all = [
            "--epsilon 1",
            "--epsilon 1 --design rff",
            "--epsilon 1 --design rff:m=40,kernel=laplace,precision=precise --noise knorm",
            "--epsilon 1 --design race:r=20,w=16",
            "--epsilon 1 --design race:r=20,w=16,hash=angular",
            "--epsilon 1 --design hist",
            "--epsilon 1 --design tables",
            "--epsilon 1 --design several.toml",
            "--epsilon 1 --neighbours replace",
            "--epsilon 1 --delta 1e-6",
            "--rho 0.1",
            "--epsilon 0.001",
        ];
        for options in all {
            study.desk.m2m(&format!("sketch t.csv --schema t.toml -o t.m2m --force {options}")).ok();
            question(&study, options);
            if options.contains("replace") {
                let rows = study.sql("t.m2m", "SELECT COUNT(*) FROM t");
                assert_eq!(
                    (&rows[0][0]["value"], &rows[0][0]["std_error"]),
                    (&json!(ROWS as f64), &json!(0.0)),
                    "{rows:?}"
                );
            }
        }
    }

    /// Asks a bit of everything; the number of rows must be near the truth.
    fn question(study: &Study, name: &str) {
        let rows =
            study.sql("t.m2m --samples 2000", "SELECT COUNT(*), AVG(x), CORR(x, y), MEDIAN(visits), AVG(born) FROM t");
        let (count, error) = (rows[0][0]["value"].as_f64().unwrap(), rows[0][0]["std_error"].as_f64().unwrap());
        assert!((count - ROWS as f64).abs() <= 10.0 * error + 1e-6 * ROWS as f64, "{name}: {count} ± {error}");
        study.sql("t.m2m --samples 2000", "SELECT g, COUNT(*), AVG(y) FROM t WHERE flag GROUP BY g");
        for command in [
            "describe t.m2m --format json",
            "corr t.m2m --format json",
            "density t.m2m --columns x --grid 5 --format json",
            "fit t.m2m --linear y~x+g --format json",
            "fit t.m2m --logistic flag~x --format json",
            "cluster t.m2m --k 2 --columns x,y --format json",
            "pca t.m2m --columns x,y --format json",
        ] {
            let outcome = study.desk.m2m(&format!("{command} --samples 2000"));
            // Noise may leave nothing to fit; then it has to say so.
            if outcome.code == Some(2) {
                assert!(
                    outcome.stderr.contains("\nhint: ") && outcome.stdout.is_empty(),
                    "{name}, {command}: {outcome:?}"
                );
            } else {
                parse(&outcome.ok().stdout);
            }
        }
    }

    #[test]
    fn a_release_of_users_can_be_questioned() {
        let study = Study::new();
        study.table("t", "x,g");
        let schema = format!("[privacy]\nunit = 'person'\nmax_rows = 3\n{}", study.desk.text("t.toml"));
        let mut table = String::new();
        for (at, line) in study.desk.text("t.csv").lines().enumerate() {
            let person = if at == 0 { "person".into() } else { format!("p{}", at / 2) };
            let _ = writeln!(table, "{person},{line}");
        }
        study.desk.put("users.toml", schema).put("users.csv", table);
        study.desk.m2m("sketch users.csv --schema users.toml --epsilon 1 -o users.m2m").ok();
        let rows = study.sql("users.m2m", "SELECT COUNT(*), AVG(x) FROM t");
        near(&rows[0][0], ROWS as f64, 10.0, 0.0);
        near(&rows[0][1], mean(&study.of(|row| row.x)), 10.0, 0.0);
        let message = refused_sql(&study, "users.m2m", "SELECT COUNT(person) FROM t");
        assert!(message.contains("person"), "{message}");
    }
}

fn refused_sql(study: &Study, release: &str, query: &str) -> String {
    let outcome = study.desk.feed(&format!("sql {release}"), query.as_bytes());
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{query}: {outcome:?}");
    assert!(outcome.stderr.starts_with("error: ") && outcome.stderr.contains("\nhint: "), "{query}: {outcome:?}");
    outcome.stderr
}

mod bad_input {
    use super::*;

    #[test]
    fn questions_that_cannot_be_answered() {
        let study = Study::new();
        study.publish("t", "x,y,g,flag,born", "--epsilon 1 --design hist");
        let cases = [
            "SELECT AVG(yy) FROM t",
            "SELECT COUNT(*) FROM t WHERE g = 'A'",
            "SELECT COUNT(*) FROM t WHERE g = 'elsewhere'",
            "SELECT COUNT(*) FROM t WHERE x = 'a'",
            "SELECT COUNT(*) FROM t WHERE born > 'yesterday'",
            "SELECT COUNT(*) FROM t WHERE x",
            "SELECT AVG(g) FROM t",
            "SELECT x FROM t",
            "SELECT * FROM t",
            "SELECT MIN(x) FROM t",
            "SELECT max(born) FROM t",
            "SELECT COUNT(DISTINCT g) FROM t",
            "SELECT COUNT(*) FROM a JOIN b ON a.x = b.x",
            "SELECT COUNT(*) FROM a, b",
            "SELECT COUNT(*) FROM (SELECT x FROM t) u",
            "SELECT COUNT(*) FROM t WHERE x > (SELECT AVG(x) FROM t)",
            "WITH u AS (SELECT 1) SELECT COUNT(*) FROM u",
            "SELECT COUNT(*) FROM t UNION SELECT COUNT(*) FROM t",
            "SELECT COUNT(*) OVER (PARTITION BY g) FROM t",
            "SELECT g, COUNT(*) FROM t",
            "SELECT COUNT(*) FROM t GROUP BY x",
            "SELECT COUNT(*) FROM t GROUP BY bin(g, 3)",
            "SELECT COUNT(*) FROM t LIMIT -1",
            "SELECT APPROX_QUANTILE(x, 90) FROM t",
            "SELECT frobnicate(x) FROM t",
            "SELECT EXTRACT(YEAR FROM born), COUNT(*) FROM t GROUP BY 1",
            "DELETE FROM t",
            "SELECT 1; SELECT 2",
            "SELECT COUNT(*) FROM t WHERE (x > 3",
            "SELECT COUNT(*)\nFROM t\nWHERE g = 'a",
            "SELEC COUNT(*)",
            "-- nothing",
        ];
        assert_snapshot!(transcript(&cases, |query| refused_sql(&study, "t.m2m", query)), @"
        > SELECT AVG(yy) FROM t
        error: there is no column `yy`
        hint: did you mean `y`?

        > SELECT COUNT(*) FROM t WHERE g = 'A'
        error: column `g` has no level `A`
        hint: did you mean 'a'?

        > SELECT COUNT(*) FROM t WHERE g = 'elsewhere'
        error: column `g` has no level `elsewhere`
        hint: its levels are 'a', 'b', 'c'

        > SELECT COUNT(*) FROM t WHERE x = 'a'
        error: a number cannot be compared with a text
        hint: put texts in single quotes and numbers without

        > SELECT COUNT(*) FROM t WHERE born > 'yesterday'
        error: `yesterday` is not a date
        hint: write it as 2024-12-31

        > SELECT COUNT(*) FROM t WHERE x
        error: a condition is needed where a number stands
        hint: compare it with something, as in age >= 40

        > SELECT AVG(g) FROM t
        error: AVG needs numbers, and `g` is a text
        hint: count its levels with COUNT(*) and GROUP BY

        > SELECT x FROM t
        error: a release holds no single rows
        hint: ask for COUNT(*) or AVG(...), with GROUP BY for parts

        > SELECT * FROM t
        error: a release holds no single rows
        hint: ask for COUNT(*) or AVG(...), with GROUP BY for parts

        > SELECT MIN(x) FROM t
        error: MIN is not possible, as a release holds no single rows
        hint: ask for APPROX_QUANTILE(x, 0.01)

        > SELECT max(born) FROM t
        error: MAX is not possible, as a release holds no single rows
        hint: ask for APPROX_QUANTILE(born, 0.99)

        > SELECT COUNT(DISTINCT g) FROM t
        error: count(DISTINCT ...) is not possible, as a release does not tell which values occur
        hint: group by the column and count

        > SELECT COUNT(*) FROM a JOIN b ON a.x = b.x
        error: joins are not possible, as a release holds one table
        hint: ask about its own columns

        > SELECT COUNT(*) FROM a, b
        error: joins are not possible, as a release holds one table
        hint: ask about its own columns

        > SELECT COUNT(*) FROM (SELECT x FROM t) u
        error: subqueries are not possible
        hint: ask each part as a query of its own

        > SELECT COUNT(*) FROM t WHERE x > (SELECT AVG(x) FROM t)
        error: subqueries are not possible
        hint: ask each part as a query of its own

        > WITH u AS (SELECT 1) SELECT COUNT(*) FROM u
        error: WITH is not possible
        hint: ask each part as a query of its own

        > SELECT COUNT(*) FROM t UNION SELECT COUNT(*) FROM t
        error: UNION and its like are not possible
        hint: ask each part as a query of its own

        > SELECT COUNT(*) OVER (PARTITION BY g) FROM t
        error: window functions are not possible
        hint: group by the columns instead

        > SELECT g, COUNT(*) FROM t
        error: `g` is neither grouped nor aggregated
        hint: add it to GROUP BY, or write COUNT(g)

        > SELECT COUNT(*) FROM t GROUP BY x
        error: `x` has too many values to group by each
        hint: group by bin(x, 10)

        > SELECT COUNT(*) FROM t GROUP BY bin(g, 3)
        error: bin needs a column of numbers or dates
        hint: group by g itself

        > SELECT COUNT(*) FROM t LIMIT -1
        error: LIMIT and OFFSET need whole numbers from 0
        hint: write for instance LIMIT 10

        > SELECT APPROX_QUANTILE(x, 90) FROM t
        error: a quantile needs a share from 0 to 1
        hint: write 0.5 for the median

        > SELECT frobnicate(x) FROM t
        error: there is no function `frobnicate`
        hint: there are abs, sign, floor, ceil, round, sqrt, exp, ln, log10, power, mod, least, greatest, coalesce, nullif, bin, and in SQL over groups count, sum, avg, mean, var_pop, var_samp, variance, stddev, stddev_pop, stddev_samp, skewness, corr, covar_pop, covar_samp, regr_slope, regr_intercept, median, percentile_cont, approx_quantile, quantile_cont

        > SELECT EXTRACT(YEAR FROM born), COUNT(*) FROM t GROUP BY 1
        error: parts of dates and intervals are not possible
        hint: compare dates, as in born >= '1990-01-01', or group by bin(born, 10)

        > DELETE FROM t
        error: a release can only be read
        hint: write a SELECT

        > SELECT 1; SELECT 2
        error: there are 2 statements
        hint: ask one at a time

        > SELECT COUNT(*) FROM t WHERE (x > 3
        error: the query cannot be read at line 1, column 36: expected ), found the end
        hint: correct it here:
          SELECT COUNT(*) FROM t WHERE (x > 3
                                             ^

        > SELECT COUNT(*)⏎FROM t⏎WHERE g = 'a
        error: the query cannot be read at line 3, column 11: Unterminated string literal
        hint: correct it here:
          WHERE g = 'a
                    ^

        > SELEC COUNT(*)
        error: the query cannot be read at line 1, column 1: expected an SQL statement, found SELEC
        hint: correct it here:
          SELEC COUNT(*)
          ^

        > -- nothing
        error: there is no query
        hint: ask for instance SELECT COUNT(*)
        ");
    }

    #[test]
    fn absurd_questions_are_refused_at_once() {
        let study = Study::new();
        study.publish("t", "x,g,flag", "--epsilon 1 --design hist");
        let started = Instant::now();
        for query in [
            format!("SELECT {}1{}", "(".repeat(5000), ")".repeat(5000)),
            format!("SELECT {}1", "1 + ".repeat(5000)),
            format!("SELECT COUNT(*) WHERE {}flag", "NOT ".repeat(5000)),
            format!("SELECT COUNT(*) WHERE {}flag", "x > 1 OR ".repeat(5000)),
            format!("SELECT {}1", "- ".repeat(5000)),
            format!("SELECT COUNT(*) -- {}", "long ".repeat(500_000)),
            "\u{0}\u{1}\u{2}".into(),
            "SELECT '\u{1b}[2J' FROM t WHERE \u{1f600}".into(),
        ] {
            let message = refused_sql(&study, "t.m2m", &query);
            assert!(message.len() < 1000 && !message.contains('\u{1b}'), "{message}");
        }
        assert!(started.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn files_that_are_no_release() {
        let study = Study::new();
        study.publish("t", "x,g", "--epsilon 1 --design hist");
        let desk = &study.desk;
        desk.m2m("sketch t.csv --schema t.toml --design hist --sums t.sums").ok();
        let release = desk.text("t.m2m");
        desk.put("half.m2m", &release[..release.len() / 2]).put("empty.m2m", "").put("binary.m2m", [0xff, 0, 1, 2]);
        desk.put("future.m2m", release.replacen("\"version\":1", "\"version\":9", 1));
        desk.put("changed.m2m", release.replacen("\"epsilon\":1.0", "\"epsilon\":0.5", 1));
        desk.put("other.json", "{\"format\":\"geojson\",\"version\":1}")
            .put("half.m2m.gz", &common::gzip(release.as_bytes())[..80]);
        std::fs::create_dir(desk.path("folder")).unwrap();
        for file in [
            "half.m2m",
            "empty.m2m",
            "binary.m2m",
            "future.m2m",
            "changed.m2m",
            "other.json",
            "half.m2m.gz",
            "t.csv",
            "t.toml",
            "t.sums",
        ] {
            for line in [
                "sql FILE -",
                "shell FILE",
                "describe FILE",
                "corr FILE",
                "density FILE --columns x",
                "fit FILE --linear x~g",
                "cluster FILE",
                "pca FILE",
            ] {
                let message = desk.refused(&line.replace("FILE", file));
                assert!(message.starts_with(&format!("error: release: {file}: ")), "{line}: {message}");
                assert!(message.contains("\nhint: "), "{line}: {message}");
            }
        }
        for file in ["folder", "nowhere.m2m", "t.csv/t.m2m"] {
            let message = desk.refused(&format!("describe {file}"));
            assert!(message.starts_with(&format!("error: cannot read {file}: ")), "{message}");
        }
    }

    #[test]
    fn a_missing_file_comes_with_a_hint() {
        let study = Study::new();
        for file in ["nowhere.m2m", "."] {
            assert!(study.desk.refused(&format!("describe {file}")).contains("\nhint: "));
        }
    }

    #[test]
    fn sums_in_place_of_a_release_are_recognised() {
        let study = Study::new();
        study.table("t", "x,g");
        study.desk.m2m("sketch t.csv --schema t.toml --design hist --sums t.sums").ok();
        assert!(study.desk.refused("describe t.sums").contains("m2m release"));
    }

    /// The map's code is not here, and the message says who has to bring it.
    #[test]
    fn a_map_that_a_user_wrote() {
        let desk = Desk::new();
        desk.put("own.m2m", include_bytes!("../../m2m/tests/golden/release-v1-custom.json"));
        assert_snapshot!(desk.refused("describe own.m2m"), @"
        error: the release has `first`, a map that a user wrote
        hint: hand its code to the library (Fit::with_maps)
        ");
    }

    #[test]
    fn options_that_make_no_sense() {
        let study = Study::new();
        study.publish("t", "x,y,g,flag,cls,born", "--epsilon 1");
        study.desk.put("lacks.csv", "x,y\n1,2\n").put("nothing.csv", "x,y,g,flag,cls,born\n");
        let cases = [
            "describe t.m2m --columns z",
            "describe t.m2m --where q>1",
            "describe t.m2m --where x>",
            "describe t.m2m --where x",
            "corr t.m2m --columns x,q",
            "corr t.m2m --columns x,g",
            "density t.m2m --columns g",
            "density t.m2m --columns x --at 1,2",
            "density t.m2m --columns x,y --at 1",
            "density t.m2m --columns x --at one",
            "density t.m2m --columns x --bandwidth 0",
            "density t.m2m --columns x --bandwidth 1,2",
            "density t.m2m --columns x --grid 1",
            "density t.m2m --columns x,y --grid 1000",
            "fit t.m2m --linear y",
            "fit t.m2m --linear y~",
            "fit t.m2m --linear ~x",
            "fit t.m2m --linear y~x+",
            "fit t.m2m --linear y~x~g",
            "fit t.m2m --linear y~(x",
            "fit t.m2m --linear y~y",
            "fit t.m2m --linear y~q",
            "fit t.m2m --linear q~x",
            "fit t.m2m --linear g~x",
            "fit t.m2m --logistic y~x",
            "fit t.m2m --logistic cls~x",
            "fit t.m2m --svm cls~x",
            "fit t.m2m --multinomial y~x",
            "fit t.m2m --poisson flag~x",
            "fit t.m2m --poisson y~x",
            "fit t.m2m --poisson x-5~y",
            "fit t.m2m --linear y~x --penalty -1",
            "fit t.m2m --linear y~frob(x)",
            "fit t.m2m --linear y~x+g --test lacks.csv",
            "cluster t.m2m --k 0",
            "cluster t.m2m --k 5000",
            "cluster t.m2m --columns q",
            "pca t.m2m --columns q",
            "describe t.m2m --prior nothing",
            "describe t.m2m --prior sample:lacks.csv",
            "describe t.m2m --prior marginals:lacks.csv",
            "describe t.m2m --prior sample:nothing.csv",
            "describe t.m2m --lambda theorem:0",
            "describe t.m2m --lambda nothing",
            "describe t.m2m --samples 3",
        ];
        let said = |line: &str| {
            let fewer = if line.contains("--samples") { "" } else { " --samples 1000" };
            let message = study.desk.refused(&format!("{line}{fewer}"));
            assert!(message.starts_with("error: "), "{line}: {message}");
            message
        };
        let said = common::mask(&transcript(&cases, said), "number from 1 to ", "\n");
        assert_snapshot!(said, @"
        > describe t.m2m --columns z
        error: there is no column `z`
        hint: the columns are x, y, g, flag, cls, born

        > describe t.m2m --where q>1
        error: there is no column `q`
        hint: the columns are x, y, g, flag, cls, born

        > describe t.m2m --where x>
        error: the condition cannot be read at line 1, column 3: expected an expression, found the end
        hint: correct it here:
          x>
            ^

        > describe t.m2m --where x
        error: a condition is needed where a number stands
        hint: compare it with something, as in age >= 40

        > corr t.m2m --columns x,q
        error: there is no column `q`
        hint: the columns are x, y, g, flag, cls, born

        > corr t.m2m --columns x,g
        error: `g` holds no numbers
        hint: name numeric columns

        > density t.m2m --columns g
        error: `g` holds no numbers
        hint: name numeric columns

        > density t.m2m --columns x --at 1,2
        error: --at 1,2 is not a finite number (or date) for each column
        hint: give one for each, as in --at 40,3.5

        > density t.m2m --columns x,y --at 1
        error: --at 1 is not a finite number (or date) for each column
        hint: give one for each, as in --at 40,3.5

        > density t.m2m --columns x --at one
        error: --at one is not a finite number (or date) for each column
        hint: give one for each, as in --at 40,3.5

        > density t.m2m --columns x --bandwidth 0
        error: a bandwidth is not above 0
        hint: give positive ones

        > density t.m2m --columns x --bandwidth 1,2
        error: --bandwidth needs a number for each column
        hint: give as many

        > density t.m2m --columns x --grid 1
        error: a grid of 1 points along each axis
        hint: give 2 or more, 10000 in all

        > density t.m2m --columns x,y --grid 1000
        error: a grid of 1000 points along each axis
        hint: give 2 or more, 10000 in all

        > fit t.m2m --linear y
        error: the formula cannot be read at line 1, column 2: expected ~, as in y ~ a + b, found the end
        hint: correct it here:
          y
           ^

        > fit t.m2m --linear y~
        error: the formula cannot be read at line 1, column 3: expected terms behind ~ (1 for the intercept alone, . for all columns), found the end
        hint: correct it here:
          y~
            ^

        > fit t.m2m --linear ~x
        error: the formula cannot be read at line 1, column 1: expected what is to be explained, as in y ~ a + b, found ~
        hint: correct it here:
          ~x
          ^

        > fit t.m2m --linear y~x+
        error: the formula cannot be read at line 1, column 5: expected a term behind +, found the end
        hint: correct it here:
          y~x+
              ^

        > fit t.m2m --linear y~x~g
        error: the formula cannot be read at line 1, column 4: expected one ~ only, found ~
        hint: correct it here:
          y~x~g
             ^

        > fit t.m2m --linear y~(x
        error: the formula cannot be read at line 1, column 5: expected ), found the end
        hint: correct it here:
          y~(x
              ^

        > fit t.m2m --linear y~y
        error: `y` is on both sides of ~
        hint: leave it out on the right

        > fit t.m2m --linear y~q
        error: there is no column `q`
        hint: the columns are x, y, g, flag, cls, born

        > fit t.m2m --linear q~x
        error: there is no column `q`
        hint: the columns are x, y, g, flag, cls, born

        > fit t.m2m --linear g~x
        error: `g` is not a number
        hint: fit a logistic or multinomial model to it

        > fit t.m2m --logistic y~x
        error: `y` is a number and not a class
        hint: write a condition left of ~, such as y > 10

        > fit t.m2m --logistic cls~x
        error: `cls` has 3 levels where two are needed
        hint: fit a multinomial model, or write a condition left of ~, such as cls = 'low'

        > fit t.m2m --svm cls~x
        error: `cls` has 3 levels where two are needed
        hint: fit a multinomial model, or write a condition left of ~, such as cls = 'low'

        > fit t.m2m --multinomial y~x
        error: `y` is a number and not a class
        hint: write a condition left of ~, such as y > 10

        > fit t.m2m --poisson flag~x
        error: `flag` is not a number
        hint: fit a logistic or multinomial model to it

        > fit t.m2m --poisson y~x
        error: `y` can be negative (the schema allows -2), and a Poisson model needs counts from 0 up
        hint: fit a linear model, or explain greatest(y, 0)

        > fit t.m2m --poisson x-5~y
        error: `x-5` can be negative (the schema allows -5), and a Poisson model needs counts from 0 up
        hint: fit a linear model, or explain greatest(x-5, 0)

        > fit t.m2m --linear y~x --penalty -1
        error: the penalty is -1
        hint: give a number of at least 0, such as 0.01

        > fit t.m2m --linear y~frob(x)
        error: there is no function `frob`
        hint: there are abs, sign, floor, ceil, round, sqrt, exp, ln, log10, power, mod, least, greatest, coalesce, nullif, bin, and in SQL over groups count, sum, avg, mean, var_pop, var_samp, variance, stddev, stddev_pop, stddev_samp, skewness, corr, covar_pop, covar_samp, regr_slope, regr_intercept, median, percentile_cont, approx_quantile, quantile_cont

        > fit t.m2m --linear y~x+g --test lacks.csv
        error: lacks.csv: there is no column `g`, which the schema has
        hint: check the header and --delimiter, or remove it from the schema

        > cluster t.m2m --k 0
        error: 0 groups are not possible
        hint: give a number from 1 to …

        > cluster t.m2m --k 5000
        error: 5000 groups are not possible
        hint: give a number from 1 to …

        > cluster t.m2m --columns q
        error: there is no column `q`
        hint: the columns are x, y, g, flag, cls, born

        > pca t.m2m --columns q
        error: there is no column `q`
        hint: the columns are x, y, g, flag, cls, born

        > describe t.m2m --prior nothing
        error: there is no prior `nothing`
        hint: choose learned, uniform, marginals:FILE or sample:FILE

        > describe t.m2m --prior sample:lacks.csv
        error: lacks.csv: there is no column `g`, which the schema has
        hint: check the header and --delimiter, or remove it from the schema

        > describe t.m2m --prior marginals:lacks.csv
        error: lacks.csv: there is no column `g`, which the schema has
        hint: check the header and --delimiter, or remove it from the schema

        > describe t.m2m --prior sample:nothing.csv
        error: the public table has 0 rows
        hint: give one with at least 100, for it stands for all that is possible

        > describe t.m2m --lambda theorem:0
        error: the factor `0` of --lambda is not a number above 0
        hint: give one, as in theorem:2

        > describe t.m2m --lambda nothing
        error: there is no rule `nothing`
        hint: choose evidence, theorem or paper

        > describe t.m2m --samples 3
        error: --samples is 3
        hint: give a number from 100 to 10000000
        ");
    }

    /// One class only: the release was made of a table in which the flag is always true.
    #[test]
    fn a_response_that_does_not_vary_is_no_crash() {
        let study = Study::new();
        study.table("t", "x,flag");
        let table = study.desk.text("t.csv").replace("false", "true");
        study.desk.put("t.csv", table);
        study.desk.m2m("sketch t.csv --schema t.toml --design tables --epsilon 1000 -o t.m2m").ok();
        for model in ["logistic", "svm", "multinomial"] {
            let outcome = study.desk.m2m(&format!("fit t.m2m --{model} flag~x --samples 2000"));
            assert!(matches!(outcome.code, Some(0 | 2)), "{outcome:?}");
            assert!(outcome.stderr.contains("note: ") || outcome.stderr.contains("\nhint: "), "{model}: {outcome:?}");
        }
    }

    #[test]
    fn a_point_at_infinity_is_refused() {
        let study = Study::new();
        study.publish("t", "x", "--epsilon 1 --design hist");
        for point in ["inf", "-inf", "nan"] {
            assert!(study.desk.refused(&format!("density t.m2m --columns x --at {point}")).contains("--at"));
        }
    }

    #[test]
    fn a_point_can_be_a_date() {
        let study = Study::new();
        study.publish("t", "born", "--epsilon 1 --design hist");
        study.desk.m2m("density t.m2m --columns born --at 1975-01-01").ok();
    }

    #[test]
    fn a_test_table_without_rows_is_refused() {
        let study = Study::new();
        study.publish("t", "x,y", "--epsilon 1 --design hist");
        study.desk.put("nothing.csv", "x,y\n");
        study.desk.refused("fit t.m2m --linear y~x --test nothing.csv --samples 1000");
    }

    #[test]
    fn a_sample_of_one_row_is_not_certainty() {
        let study = Study::new();
        study.publish("t", "x", "--epsilon 1 --design hist");
        study.desk.put("one.csv", "x\n9\n");
        let answer = study.desk.feed("sql t.m2m --format json --prior sample:one.csv", b"SELECT AVG(x) FROM t");
        if answer.code == Some(0) {
            near(&parse(&answer.stdout)["rows"][0][0], mean(&study.of(|row| row.x)), 5.0, 0.0);
        }
    }

    #[test]
    fn csv_of_a_density_is_quoted() {
        let desk = Desk::new();
        desk.put("t.toml", "[[column]]\nname = 'a \"b\"'\ntype = 'number'\nmin = 0\nmax = 1\n")
            .put("t.csv", "\"a \"\"b\"\"\"\n0.5\n");
        desk.m2m("sketch t.csv --schema t.toml --design hist --epsilon 1 -o t.m2m").ok();
        let csv = Outcome::of(desk.command("density t.m2m --grid 2 --format csv --columns").arg("a \"b\"")).ok().stdout;
        assert!(csv.starts_with("\"a \"\"b\"\"\",density,"), "{csv}");
    }

    /// `m2m ... | head -1`: the reader has seen enough, which is no error.
    #[test]
    fn a_reader_that_leaves_ends_the_command_in_peace() {
        let study = Study::new();
        study.publish("t", "x,y,g", "--epsilon 1 --design hist");
        let queries = "SELECT bin(x, 1000), COUNT(*) FROM t GROUP BY 1;\n".repeat(20);
        study.desk.put("queries.sql", &queries);
        for line in [
            "shell t.m2m < queries.sql",
            "shell t.m2m --format csv < queries.sql",
            "sql t.m2m 'SELECT bin(x, 1000), COUNT(*) FROM t GROUP BY 1'",
            "sql t.m2m 'SELECT bin(x, 1000), COUNT(*) FROM t GROUP BY 1' --format json",
            "density t.m2m --columns x,y --grid 60 --format csv",
            "describe t.m2m",
            "corr t.m2m",
            "fit t.m2m --linear y~x --samples 1000",
        ] {
            let mut command = study.desk.bash(&format!("set -o pipefail; m2m {line} | head -1"));
            let outcome = Outcome::of(command.stdin(Stdio::null()));
            assert!(matches!(outcome.code, Some(0)), "{line}: {outcome:?}");
            assert_eq!(
                outcome.stderr.lines().find(|text| text.contains("error") || text.contains("panic")),
                None,
                "{line}"
            );
        }
    }
}
