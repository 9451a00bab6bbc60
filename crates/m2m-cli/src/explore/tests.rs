//! The API from within: what it answers, what it refuses, and that it is as its description says.

use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode};
use m2m::Schema;
use m2m::auto::{Auto, FirstRound, SecondRound};
use m2m::fit::Options;
use m2m::privatise::{Budget, Privacy};
use m2m::source::{self, Table};
use serde_json::json;
use tower::ServiceExt as _;

use super::*;

const HOST: &str = "127.0.0.1:7777";
const TOKEN: &str = "0123456789abcdef";

const SCHEMA: &str = "
[[column]]
name = 'age'
type = 'integer'
min = 18
max = 90
[[column]]
name = 'pay'
type = 'number'
min = 0
max = 100
atoms = [0]
nullable = true
[[column]]
name = 'team <b>'
type = 'category'
levels = ['red', 'green, \"dark\"', 'blue']
[[column]]
name = 'smoker'
type = 'boolean'
[[column]]
name = 'born'
type = 'date'
min = '1930-01-01'
max = '2000-01-01'
";

/// A release of 4,000 people at ε = 4: pay grows with age, the red do not smoke.
fn explorer() -> &'static Arc<Explorer> {
    static EXPLORER: OnceLock<Arc<Explorer>> = OnceLock::new();
    EXPLORER.get_or_init(|| {
        let mut text = String::from("age,pay,team <b>,smoker,born\n");
        let mut state = 1u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..4000 {
            let age = 18 + draw(73);
            let pay = if draw(5) == 0 { 0 } else { age / 2 + draw(40) };
            let team = ["red", "\"green, \"\"dark\"\"\"", "blue"][draw(3) as usize];
            let smoker = team != "red" && draw(3) == 0;
            let born = m2m::schema::time::show_date((-(365 * (age as i64 - 30)) + draw(365) as i64) as f64);
            text += &format!("{age},{pay},{team},{smoker},{born}\n");
        }
        let schema = Schema::from_toml(SCHEMA).unwrap();
        let table = Table::from_csv_bytes(text.into_bytes());
        let privacy = Privacy::new(Budget::pure("4".parse().unwrap()).unwrap());
        let first = FirstRound::new(&schema, &Auto::default(), privacy).unwrap();
        let (sums, _) = source::sketch(&first.sketcher().unwrap(), &table, 1, &()).unwrap();
        let second = SecondRound::after(&first.privatise(sums).unwrap(), &Auto::default()).unwrap();
        let (sums, _) = source::sketch(&second.sketcher().unwrap(), &table, 1, &()).unwrap();
        let release = second.privatise(sums).unwrap();
        let fit = Fit::new(&release, Options { samples: 20_000, ..Options::default() }).unwrap();
        let guard = Guard::new(HOST.parse().unwrap(), TOKEN.into());
        Explorer::new("people.m2m".into(), release, fit, guard)
    })
}

fn request(method: Method, path: &str) -> axum::http::request::Builder {
    Request::builder().method(method).uri(path).header("host", HOST).header("authorization", format!("Bearer {TOKEN}"))
}

async fn send(request: Request<Body>) -> (StatusCode, axum::http::HeaderMap, Vec<u8>) {
    let response = explorer().router().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    (parts.status, parts.headers, to_bytes(body, 64 << 20).await.unwrap().to_vec())
}

async fn get_json(path: &str) -> (StatusCode, Value) {
    let (status, _, body) = send(request(Method::GET, path).body(Body::empty()).unwrap()).await;
    (status, serde_json::from_slice(&body).unwrap())
}

async fn post_json(path: &str, body: Value) -> (StatusCode, Value) {
    let request = request(Method::POST, path).header("content-type", "application/json");
    let (status, _, body) = send(request.body(Body::from(body.to_string())).unwrap()).await;
    (status, serde_json::from_slice(&body).unwrap())
}

fn run<F: Future<Output = ()>>(test: F) {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(test);
}

#[test]
fn every_view_has_its_numbers_with_errors_and_its_charts() {
    run(async {
        let (status, all) = get_json("/api/overview?charts=true").await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(all["columns"].as_array().unwrap().len(), 5);
        assert!(all["privacy"]["guess"].as_str().unwrap().contains("98.2%"), "{}", all["privacy"]);
        assert!(all["columns"][2]["charts"]["spark"].as_str().unwrap().contains("team &lt;b&gt;"));
        let (_, column) = get_json("/api/columns/pay?charts=true").await;
        assert_eq!(column["atoms"][0]["at"], "0");
        assert!(column["charts"]["histogram"].as_str().unwrap().starts_with("<svg"));
        assert!(column["quantiles"][3]["value"]["std_error"].as_f64().unwrap() > 0.0);
        let (_, born) = get_json("/api/columns/born").await;
        assert!(born["moments"]["mean"]["value"].as_str().unwrap().starts_with("19"), "{}", born["moments"]);
        let (_, matrix) = get_json("/api/correlations").await;
        let correlation = matrix["matrix"][1][0]["value"].as_f64().unwrap();
        assert!(correlation > 0.3 && correlation < 0.8, "{correlation}");
        let (_, pair) = get_json("/api/pairs?x=team+%3Cb%3E&y=smoker&charts=true").await;
        let means: Vec<f64> =
            pair["groups"].as_array().unwrap().iter().map(|group| group["mean"]["value"].as_f64().unwrap()).collect();
        // Standard errors are about 0.03: ten of them.
        assert!(means[0] < 0.1 && (means[2] - 0.33).abs() < 0.3, "{means:?}");
        assert!(pair["charts"]["means"].as_str().unwrap().contains("share of true"));
    });
}

#[test]
fn sql_is_answered_and_restricted_by_the_filter() {
    run(async {
        let query = "SELECT smoker, COUNT(*) AS n FROM t GROUP BY smoker";
        let (status, all) = post_json("/api/sql", json!({ "query": query, "charts": true })).await;
        assert_eq!(status, StatusCode::OK, "{all}");
        assert!(all["charts"]["answer"].as_str().unwrap().contains("<svg"));
        let (_, red) = post_json("/api/sql", json!({ "query": query, "where": "\"team <b>\" = 'red'" })).await;
        let smokers = |answer: &Value| answer["rows"][1][1]["value"].as_f64().unwrap();
        assert!(smokers(&all) > 700.0 && smokers(&red) < 200.0, "{} {}", smokers(&all), smokers(&red));
        let (status, wrong) = post_json("/api/sql", json!({ "query": "SELECT agee FROM t" })).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(wrong["hint"].as_str().unwrap().contains("age"), "{wrong}");
    });
}

#[test]
fn models_have_intervals_and_heed_the_filter() {
    run(async {
        let (status, line) = post_json("/api/fit", json!({ "formula": "pay ~ age + smoker", "charts": true })).await;
        assert_eq!(status, StatusCode::OK, "{line}");
        let slope = &line["coefficients"][1];
        let of = |name: &str| slope[name].as_f64().unwrap();
        assert!(
            of("low") < of("value") && of("value") < of("high") && (of("value") - 0.4).abs() < 10.0 * of("std_error"),
            "{slope}"
        );
        assert_eq!(line["charts"]["effects"][0]["name"], "age");
        let body = json!({ "formula": "smoker ~ age", "learner": "logistic", "where": "age >= 50" });
        let (_, odds) = post_json("/api/fit", body).await;
        let rows = odds["rows"].as_f64().unwrap();
        assert!((rows - 2250.0).abs() < 500.0, "{rows}");
        let (status, wrong) = post_json("/api/fit", json!({ "formula": "pay ~" })).await;
        assert_eq!((status, wrong["hint"].is_string()), (StatusCode::BAD_REQUEST, true), "{wrong}");
    });
}

#[test]
fn synthetic_rows_come_in_three_formats() {
    run(async {
        let (_, rows) = get_json("/api/synth?rows=7&where=age+%3E+80").await;
        assert_eq!(rows["rows"].as_array().unwrap().len(), 7);
        assert!(rows["rows"].as_array().unwrap().iter().all(|row| row[0].as_str().unwrap() > "80"), "{rows}");
        let load = |path| send(request(Method::GET, path).body(Body::empty()).unwrap());
        let (_, headers, csv) = load("/api/synth?rows=300&format=csv&seed=4").await;
        assert!(headers["content-disposition"].to_str().unwrap().contains("synthetic.csv"));
        assert_eq!(csv, load("/api/synth?rows=300&format=csv&seed=4").await.2);
        let fields = String::from_utf8(csv).unwrap();
        assert!(fields.starts_with("age,pay,team <b>,smoker,born\n") && fields.contains("\"green, \"\"dark\"\"\""));
        let (_, _, parquet) = load("/api/synth?rows=300&format=parquet").await;
        assert_eq!(&parquet[..4], b"PAR1");
        assert_eq!(get_json("/api/synth?rows=0").await.0, StatusCode::BAD_REQUEST);
        assert_eq!(get_json("/api/synth?rows=2000").await.0, StatusCode::BAD_REQUEST);
    });
}

/// Another site in the same browser, another name for this machine, or another user of it: none gets an answer.
#[test]
fn strangers_are_refused() {
    run(async {
        let bare = |headers: &[(&str, &str)], path: &str| {
            let mut request = Request::builder().uri(path);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            request.body(Body::empty()).unwrap()
        };
        let bearer = format!("Bearer {TOKEN}");
        let token = ("authorization", bearer.as_str());
        let cookie = format!("other=1; m2m-7777={TOKEN}");
        for (headers, expected) in [
            (vec![("host", HOST), token], StatusCode::OK),
            (vec![("host", HOST), ("cookie", &cookie)], StatusCode::OK),
            (vec![("host", HOST), token, ("origin", "http://127.0.0.1:7777")], StatusCode::OK),
            (vec![("host", HOST)], StatusCode::UNAUTHORIZED),
            (vec![("host", HOST), ("authorization", "Bearer 0123456789abcdeX")], StatusCode::UNAUTHORIZED),
            (vec![("host", HOST), ("cookie", "m2m-7778=0123456789abcdef")], StatusCode::UNAUTHORIZED),
            (vec![token], StatusCode::MISDIRECTED_REQUEST),
            (vec![("host", "evil.example:7777"), token], StatusCode::MISDIRECTED_REQUEST),
            (vec![("host", HOST), ("host", "evil.example"), token], StatusCode::MISDIRECTED_REQUEST),
            (vec![("host", HOST), token, ("origin", "http://evil.example")], StatusCode::FORBIDDEN),
            (vec![("host", HOST), token, ("origin", "null")], StatusCode::FORBIDDEN),
            (vec![("host", HOST), token, ("sec-fetch-site", "cross-site")], StatusCode::FORBIDDEN),
        ] {
            for path in ["/api/overview", "/", "/app.js", "/api/openapi.json"] {
                let (status, sent, _) = send(bare(&headers, path)).await;
                assert_eq!(status, expected, "{path} {headers:?}");
                assert!(sent["content-security-policy"].to_str().unwrap().contains("default-src 'none'"));
                assert_eq!(sent["x-content-type-options"], "nosniff");
            }
        }
        let (status, headers, _) = send(bare(&[("host", HOST)], &format!("/?token={TOKEN}"))).await;
        assert_eq!((status, headers["location"].to_str().unwrap()), (StatusCode::SEE_OTHER, "/"));
        let set = headers["set-cookie"].to_str().unwrap();
        assert!(set.starts_with("m2m-7777=") && set.contains("HttpOnly") && set.contains("SameSite=Strict"), "{set}");
        assert_eq!(send(bare(&[("host", HOST)], "/?token=wrong")).await.0, StatusCode::UNAUTHORIZED);
    });
}

#[test]
fn bad_questions_are_refused_in_the_same_form() {
    run(async {
        for path in [
            "/api/nothing",
            "/api/columns/nothing",
            "/api/columns/age?bins=0",
            "/api/columns/age?bins=x",
            "/api/columns/%FF",
            "/api/pairs?x=age",
            "/api/pairs?x=age&y=age",
            "/api/overview?where=age%20%3E",
            "/api/overview?where=AVG(age)%20%3E%201",
            "/api/synth?format=xml",
            "/api/sql",
        ] {
            let (status, body) = get_json(path).await;
            assert!(status.is_client_error(), "{path}: {status}");
            assert!(body["error"].is_string(), "{path}: {body}");
        }
        let long = "x".repeat(LONGEST + 1);
        let (status, _) = post_json("/api/sql", json!({ "query": long })).await;
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
        let plain = request(Method::POST, "/api/sql").header("content-type", "text/plain");
        let (status, _, _) = send(plain.body(Body::from("{}")).unwrap()).await;
        assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
        let (status, body) = post_json("/api/sql", json!({ "query": "SELECT 1", "other": 1 })).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
    });
}

/// Fifty people who all ask at once get their answers.
#[test]
fn fifty_ask_at_once() {
    run(async {
        let paths = ["/api/columns/age?charts=true", "/api/correlations", "/api/pairs?x=age&y=pay", "/api/overview"];
        let asked: Vec<_> = (0..50).map(|at| tokio::spawn(get_json(paths[at % paths.len()]))).collect();
        for answer in asked {
            assert_eq!(answer.await.unwrap().0, StatusCode::OK);
        }
    });
}

/// Work is stopped when nobody waits for it, and when it takes too long; neither keeps others waiting.
#[test]
fn nobody_works_for_one_who_has_left() {
    run(async {
        let endless = |stopped: Arc<std::sync::atomic::AtomicBool>| {
            move |stop: &work::Stop| -> Result<(), Problem> {
                struct Note(Arc<std::sync::atomic::AtomicBool>);
                impl Drop for Note {
                    fn drop(&mut self) {
                        self.0.store(true, std::sync::atomic::Ordering::SeqCst);
                    }
                }
                let _note = Note(stopped);
                let watched = work::Watched { fit: &explorer().fit, stop, condition: None };
                loop {
                    m2m::task::Ask::of(&watched).count()?;
                }
            }
        };
        let is_stopped = |flag: Arc<std::sync::atomic::AtomicBool>| async move {
            let start = Instant::now();
            while !flag.load(std::sync::atomic::Ordering::SeqCst) {
                assert!(start.elapsed() < Duration::from_secs(30), "the work goes on");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let lanes = Lanes::new(Duration::from_secs(60));
        let left = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let asked = lanes.run(work::Lane::Slow, endless(left.clone()));
        assert!(tokio::time::timeout(Duration::from_millis(50), asked).await.is_err(), "it is still at work");
        is_stopped(left).await;
        let lanes = Lanes::new(Duration::from_millis(50));
        let late = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let problem = lanes.run(work::Lane::Quick, endless(late.clone())).await.unwrap_err();
        assert_eq!(problem.status, StatusCode::SERVICE_UNAVAILABLE);
        is_stopped(late).await;
        // A panic is no more than a failed answer.
        let lanes = Lanes::new(Duration::from_secs(60));
        let broken =
            lanes.run(work::Lane::Quick, |_| -> Result<(), Problem> { std::panic::resume_unwind(Box::new(1)) }).await;
        assert_eq!(broken.unwrap_err().status, StatusCode::INTERNAL_SERVER_ERROR);
    });
}

/// Who has to wait longer than work may take is answered all the same.
#[test]
fn waiting_is_not_working() {
    run(async {
        let lanes = Arc::new(Lanes::new(Duration::from_millis(1000)));
        let turns = 6 * std::thread::available_parallelism().map_or(2, usize::from).div_ceil(2);
        let work = |lanes: Arc<Lanes>| async move {
            let nap = |_: &work::Stop| -> Result<(), Problem> {
                std::thread::sleep(Duration::from_millis(250));
                Ok(())
            };
            lanes.run(work::Lane::Slow, nap).await
        };
        let start = Instant::now();
        let asked: Vec<_> = (0..turns).map(|_| tokio::spawn(work(lanes.clone()))).collect();
        for answer in asked {
            answer.await.unwrap().unwrap();
        }
        assert!(start.elapsed() > Duration::from_millis(1000), "nobody had to wait");
    });
}

/// The line has an end: who finds it full is told at once, and there is room again when it has gone.
#[test]
fn the_line_has_an_end() {
    run(async {
        let lanes = Arc::new(Lanes::new(Duration::from_secs(60)));
        let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let work = |lanes: Arc<Lanes>, done: Arc<std::sync::atomic::AtomicBool>| async move {
            let until_done = move |_: &work::Stop| -> Result<(), Problem> {
                while !done.load(std::sync::atomic::Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(())
            };
            lanes.run(work::Lane::Slow, until_done).await
        };
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let places = work::WAITING + cores.div_ceil(2);
        let asked: Vec<_> = (0..places).map(|_| tokio::spawn(work(lanes.clone(), done.clone()))).collect();
        tokio::time::sleep(Duration::from_millis(200)).await;
        let problem = work(lanes.clone(), done.clone()).await.unwrap_err();
        assert!(problem.error.contains("too many"), "{problem:?}");
        assert_eq!(problem.status, StatusCode::SERVICE_UNAVAILABLE);
        done.store(true, std::sync::atomic::Ordering::SeqCst);
        for answer in asked {
            answer.await.unwrap().unwrap();
        }
        work(lanes, done).await.unwrap();
    });
}

/// Every address of the description is served, and nothing else below /api.
#[test]
fn the_description_names_what_is_served() {
    let described: Value = serde_json::from_str(OPENAPI).unwrap();
    let paths: Vec<&str> = described["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    let source = include_str!("mod.rs");
    let mut routed: Vec<&str> = source
        .split(".route(\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .filter(|p| p.starts_with("/api"))
        .collect();
    routed.sort_unstable();
    let mut sorted = paths.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, routed);
}

/// The page asks nobody else, and is light.
#[test]
fn the_page_needs_nothing_from_elsewhere() {
    for (path, _, text) in PAGE {
        let text = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!text.contains("http://") && !text.contains("https://"), "{path}");
    }
    let weight: usize = PAGE.iter().map(|(_, _, text)| text.len()).sum();
    assert!(weight < 100_000, "{weight}");
}
