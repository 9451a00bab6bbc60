//! `m2m plot`, `synth`, `report` and `explore` from the outside: what they write, and what they refuse.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use common::Desk;

/// A desk with a release of people at ε = 1000: the noise is nothing.
fn desk() -> Desk {
    let desk = Desk::new();
    desk.put("people.csv", common::csv(&common::people(3000)));
    desk.m2m("sketch people.csv --schema schema.toml --epsilon 1000 -o people.m2m").ok();
    desk
}

/// The first numeric column of the schema, and the first with levels.
fn columns(desk: &Desk) -> (String, String) {
    let schema = m2m::Schema::open(desk.path("schema.toml")).unwrap();
    let find = |numeric: bool| {
        let column = schema.columns().iter().find(|column| column.kind.range().is_some() == numeric);
        column.unwrap().name.clone()
    };
    (find(true), find(false))
}

#[test]
fn every_chart_is_written_as_svg_and_png() {
    let desk = desk();
    let (number, level) = columns(&desk);
    for (what, name) in [
        (format!("hist {number}"), "hist"),
        (format!("hist {level}"), "levels"),
        (format!("cdf {number}"), "cdf"),
        ("corr".to_owned(), "corr"),
        (format!("density {number} {level}"), "density"),
        (format!("means {level} {number}"), "means"),
    ] {
        desk.m2m(&format!("plot people.m2m {what} -o {name}.svg")).ok();
        let svg = desk.text(&format!("{name}.svg"));
        assert!(svg.starts_with("<svg") && svg.contains("<title>") && !svg.contains("NaN"), "{name}");
        desk.m2m(&format!("plot people.m2m {what} -o {name}.png")).ok();
        assert!(desk.get(&format!("{name}.png")).starts_with(b"\x89PNG"), "{name}");
    }
    let refused = desk.refused("plot people.m2m corr -o corr.svg");
    assert!(refused.contains("corr.svg exists already") && refused.contains("--force"), "{refused}");
    desk.m2m("plot people.m2m corr -o corr.svg --force").ok();
}

#[test]
fn a_chart_in_text_has_a_bar_with_its_error_on_every_line() {
    let desk = desk();
    let (number, level) = columns(&desk);
    let outcome = desk.m2m(&format!("plot people.m2m hist {number} --bins 6")).ok();
    assert!((2..=12).contains(&outcome.stdout.lines().count()), "{}", outcome.stdout);
    assert!(outcome.stdout.lines().all(|line| line.contains(" ± ")), "{}", outcome.stdout);
    assert!(outcome.stdout.contains('█'));
    let curve = desk.m2m(&format!("plot people.m2m cdf {number}")).ok();
    let last = curve.stdout.lines().last().unwrap();
    assert!(last.contains("1 ± ") || last.contains("1.0"), "{last}");
    let described = desk.m2m(&format!("describe people.m2m --columns {number},{level} --plots")).ok();
    assert!(described.stdout.matches('█').count() > 20, "{}", described.stdout);
}

#[test]
fn synthetic_rows_are_written_and_checked() {
    let desk = desk();
    desk.m2m("synth people.m2m -n 500 -o rows.csv --seed 3").ok();
    desk.m2m("synth people.m2m -n 500 -o again.csv --seed 3").ok();
    desk.m2m("synth people.m2m -n 500 -o other.csv --seed 4").ok();
    assert_eq!(desk.text("rows.csv"), desk.text("again.csv"));
    assert_ne!(desk.text("rows.csv"), desk.text("other.csv"));
    assert_eq!(desk.text("rows.csv").lines().count(), 501);
    // What was written can be published again.
    desk.m2m("synth people.m2m -n 2000 -o rows.parquet").ok();
    desk.m2m("sketch rows.parquet --schema schema.toml --epsilon 1 -o rows.m2m").ok();
    desk.m2m("synth people.m2m --weighted -o points.parquet").ok();
    assert!(desk.get("points.parquet").starts_with(b"PAR1"));
    let outcome = desk.m2m("synth people.m2m -n 4000 --check").ok();
    let line = outcome.stdout.lines().find(|line| line.starts_with("one column")).expect("a line of shares");
    let numbers: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // Off by no more than as many rows of the table would be.
    assert!(numbers[1] < 1.5 * numbers[3], "{}", outcome.stdout);
}

#[test]
fn a_report_is_one_page_that_needs_nothing_else() {
    let desk = desk();
    desk.m2m("report people.m2m -o people.html").ok();
    let page = desk.text("people.html");
    let schema = m2m::Schema::open(desk.path("schema.toml")).unwrap();
    for column in schema.columns() {
        assert!(page.contains(&format!("<h2>{}</h2>", column.name)), "{}", column.name);
    }
    for part in ["What is promised", "ε = 1000", "Correlations", "In Python", "In R", "On the command line"] {
        assert!(page.contains(part), "{part}");
    }
    let elsewhere = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!elsewhere.contains("http") || !elsewhere.contains("//"), "it names another place");
    assert!(!page.contains("<script") && !page.contains("NaN") && page.len() < 2_000_000, "{}", page.len());
    assert!(desk.refused("report people.m2m -o people.html").contains("exists already"));
}

#[test]
fn bad_wishes_are_refused_with_advice() {
    let desk = desk();
    let (number, level) = columns(&desk);
    for line in [
        "plot people.m2m hist".to_owned(),
        format!("plot people.m2m hist {number} {level}"),
        format!("plot people.m2m density {number}"),
        format!("plot people.m2m corr {number}"),
        format!("plot people.m2m hist {number} -o age.jpg"),
        "plot people.m2m hist nobody -o x.svg".to_owned(),
        format!("plot people.m2m cdf {level} -o x.svg"),
        format!("plot people.m2m cdf {level}"),
        "plot people.m2m corr".to_owned(),
        format!("plot people.m2m means {number} {level} -o x.svg"),
        "synth people.m2m -n 0 -o rows.csv".to_owned(),
        "synth people.m2m -n 10 -o rows.json".to_owned(),
        "synth people.m2m -n 10 -o rows.csv --where 1>".to_owned(),
        "synth nowhere.m2m -n 10 -o rows.csv".to_owned(),
        "report people.csv -o x.html".to_owned(),
        "explore nowhere.m2m --no-open".to_owned(),
        "explore people.m2m --no-open --bind 203.0.113.1".to_owned(),
    ] {
        let message = desk.refused(&line);
        assert!(message.contains("error: ") && message.contains("\nhint: "), "{line}: {message}");
    }
}

/// Ends the server when a test is over.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_explorer_answers_on_this_machine_to_who_has_the_token() {
    let desk = desk();
    let mut command = desk.command("explore people.m2m --no-open");
    let mut server = Server(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut link = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut link).unwrap();
    let rest = link.trim().strip_prefix("http://").expect("an address");
    let (host, token) = rest.split_once("/?token=").expect("a token");
    assert!(host.starts_with("127.0.0.1:") && token.len() == 48, "{link}");
    let ask = |line: &str, headers: &str| {
        let mut stream = TcpStream::connect(host).unwrap();
        write!(stream, "GET {line} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    assert!(ask("/", "").starts_with("HTTP/1.1 401 "));
    let bearer = format!("authorization: Bearer {token}\r\n");
    assert!(ask("/", &bearer).contains("<!doctype html>"));
    assert!(ask("/api/overview?cards=false", &bearer).contains("\"rows\""));
    let welcome = ask(&format!("/?token={token}"), "");
    assert!(welcome.starts_with("HTTP/1.1 303 ") && welcome.contains("set-cookie: m2m-"), "{welcome}");
}
