//! Questions in SQL: what is said about bad ones, and the forms of the answers.

mod common;

use common::Desk;
use insta::assert_snapshot;
use serde_json::Value;

fn desk() -> Desk {
    let desk = Desk::new();
    desk.m2m("sketch people.csv --schema schema.toml --epsilon 1 -o people.m2m").ok();
    desk
}

#[test]
fn answers_have_three_forms() {
    let desk = desk();
    let query = b"SELECT smoker, COUNT(*) AS n FROM people GROUP BY smoker ORDER BY smoker LIMIT 2;";
    let table = desk.feed("sql people.m2m", query).ok();
    assert!(table.stdout.starts_with("smoker") && table.stdout.lines().count() == 3, "{table:?}");
    assert!(table.stdout.contains("±"), "{table:?}");
    let json: Value = serde_json::from_str(&desk.feed("sql people.m2m - --format json", query).ok().stdout).unwrap();
    assert_eq!(json["columns"], serde_json::json!(["smoker", "n"]));
    let names: Vec<&String> =
        json["rows"][0][1].as_object().unwrap().keys().filter(|name| *name != "caution").collect();
    assert_eq!(names, ["high", "low", "std_error", "value"]);
    let csv = desk.feed("sql people.m2m --format csv", query).ok();
    assert!(csv.stdout.starts_with("smoker,n,n_std_error,n_low,n_high\nfalse,"), "{csv:?}");
}

/// Some editors start a file with a byte order mark.
#[test]
fn a_byte_order_mark_is_skipped() {
    let desk = desk();
    let query = "\u{feff}SELECT 1 AS a";
    let csv = "sql people.m2m --format csv";
    assert_eq!(desk.feed(csv, query.as_bytes()).ok().stdout, "a\n1\n");
    assert_eq!(common::Outcome::of(desk.command(csv).arg(query)).ok().stdout, "a\n1\n");
    assert_eq!(desk.feed("shell people.m2m --format csv", query.as_bytes()).ok().stdout, "a\n1\n");
    let outcome = desk.feed("shell people.m2m", "\u{feff}\\d\n".as_bytes()).ok();
    assert!(outcome.stdout.starts_with("age: integer"), "{outcome:?}");
    desk.m2m("describe people.m2m --columns age --where \u{feff}age>3").ok();
}

#[test]
fn bad_questions_are_explained() {
    let desk = desk();
    let said = |query: &str| {
        let outcome = desk.feed("sql people.m2m", query.as_bytes());
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{query}");
        outcome.stderr
    };
    assert_snapshot!(said("SELECT COUNT(*)\nFROM people WHRE age > 3"), @"
    error: the query cannot be read at line 2, column 18: expected end of statement, found age
    hint: correct it here:
      FROM people WHRE age > 3
                       ^
    ");
    assert_snapshot!(said("SELECT MAX(age) FROM people"), @"
    error: MAX is not possible, as a release holds no single rows
    hint: ask for APPROX_QUANTILE(age, 0.99)
    ");
    assert_snapshot!(said("SELECT AVG(hieght) FROM people"), @"
    error: there is no column `hieght`
    hint: did you mean `height`?
    ");
    assert_snapshot!(said(""), @"
    error: there is no query
    hint: ask for instance SELECT COUNT(*)
    ");
}

#[test]
fn the_shell_goes_on_after_an_error() {
    let desk = desk();
    let outcome = desk.feed(
        "shell people.m2m --format csv",
        b"\\d\nSELECT 1 AS a; SELECT nothing;\n-- a comment; and more\nSELECT\n  2 AS b",
    );
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stdout.starts_with("age: integer from 0 to 120\n"), "{outcome:?}");
    assert!(outcome.stdout.ends_with("a\n1\nb\n2\n"), "{outcome:?}");
    assert!(outcome.stderr.ends_with("error: 1 of 3 queries failed\nhint: correct those named above\n"), "{outcome:?}");
    let outcome = desk.feed("shell people.m2m --format csv", b"SELECT 1 AS a;\n\\q\nSELECT nothing;").ok();
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("a\n1\n", ""));
}
