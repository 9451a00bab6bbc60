//! Requests that nobody sent: whatever they are, no panic, no failure of ours, and nothing for those without the token.

use std::sync::{Arc, LazyLock};

use axum::body::{Body, to_bytes};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use m2m::Release;
use m2m::fit::{Fit, Options};
use m2m_cli::{Explorer, Guard};
use tower::ServiceExt as _;

const ADDRESS: &str = "127.0.0.1:7777";
const TOKEN: &str = "0123456789abcdef";
const SAMPLES: usize = 200;
/// Longer than any answer.
const LONGEST: usize = 256 << 20;

/// A release with Fourier features and one of the default design, so small that answers are quick.
static EXPLORERS: LazyLock<[Arc<Explorer>; 2]> = LazyLock::new(|| {
    let releases: [&[u8]; 2] =
        [include_bytes!("../corpus/release/tiny.json"), include_bytes!("../corpus/release/merged.json")];
    releases.map(|bytes| {
        let release = Release::from_bytes(bytes).expect("our own release opens");
        let fit = Fit::new(&release, Options { samples: SAMPLES, ..Options::default() }).expect("and can be read");
        let guard = Guard::new(ADDRESS.parse().expect("an address"), TOKEN.into());
        Explorer::new("tiny.m2m".into(), release, fit, guard)
    })
});

static RUNTIME: LazyLock<tokio::runtime::Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_time().build().expect("threads"));

/// Bytes as a request: a line with method and address, headers, an empty line and a body. One without headers gets the
/// right ones, so that it is heard. Whether it got what it asked for.
pub fn http(bytes: &[u8]) -> bool {
    let Some(request) = parse(bytes) else { return false };
    let shows_token = |bytes: &[u8]| bytes.windows(TOKEN.len()).any(|window| window == TOKEN.as_bytes());
    let is_stranger = !shows_token(bytes) && request.headers().values().all(|value| !shows_token(value.as_bytes()));
    let has_body = request.method() != Method::HEAD;
    let explorer = &EXPLORERS[bytes.len() % 2];
    let (status, headers, body) = RUNTIME.block_on(async {
        let response = explorer.router().oneshot(request).await.expect("every request is answered");
        let (parts, body) = response.into_parts();
        (parts.status, parts.headers, to_bytes(body, LONGEST).await.expect("an answer has an end"))
    });
    // What takes too long is seen by who runs this.
    assert!(!status.is_server_error() || status == StatusCode::SERVICE_UNAVAILABLE, "{status}");
    assert!(headers.contains_key("content-security-policy"));
    if status.is_client_error() && has_body {
        let problem: serde_json::Value = serde_json::from_slice(&body).expect("a refusal is JSON");
        assert!(problem["error"].is_string());
    }
    let refusals = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::MISDIRECTED_REQUEST];
    assert!(!is_stranger || refusals.contains(&status), "a stranger gets {status}");
    status.is_success()
}

/// Nothing for what no server would hand on.
fn parse(bytes: &[u8]) -> Option<Request<Body>> {
    let (head, body) = match bytes.windows(2).position(|window| window == b"\n\n") {
        Some(at) => (&bytes[..at], &bytes[at + 2..]),
        None => (bytes, &[][..]),
    };
    let mut lines = head.split(|byte| *byte == b'\n');
    let mut words = lines.next()?.splitn(2, |byte| *byte == b' ');
    let mut request = Request::builder().method(words.next()?).uri(words.next()?);
    let headers = request.headers_mut()?;
    for line in lines.filter(|line| !line.is_empty()) {
        let at = line.iter().position(|byte| *byte == b':')?;
        let value = HeaderValue::from_bytes(line[at + 1..].trim_ascii()).ok()?;
        headers.try_append(HeaderName::from_bytes(&line[..at]).ok()?, value).ok()?;
    }
    if headers.is_empty() {
        *headers = usual();
    }
    request.body(Body::from(body.to_vec())).ok()
}

/// What a program of the analyst's sends.
fn usual() -> HeaderMap {
    let bearer = format!("Bearer {TOKEN}");
    HeaderMap::from_iter([
        (HOST, HeaderValue::from_static(ADDRESS)),
        (AUTHORIZATION, HeaderValue::try_from(bearer).expect("a token is plain")),
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
    ])
}
