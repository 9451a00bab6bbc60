//! Who may ask: a page of ours on this machine, with the token.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Explorer;
use super::problem::Problem;

/// The names under which the server may be addressed, and the token.
pub struct Guard {
    address: SocketAddr,
    token: String,
}

/// Everything comes from here, and nothing goes elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

impl Guard {
    /// A guard of the server at some address.
    pub fn new(address: SocketAddr, token: String) -> Self {
        Self { address, token }
    }

    /// A token that nobody guesses.
    pub fn random_token() -> anyhow::Result<String> {
        let mut bytes = [0u8; 24];
        getrandom::fill(&mut bytes).map_err(|error| m2m::Error::Random(error.to_string()))?;
        Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The address to open in a browser.
    pub fn link(&self) -> String {
        let host = if self.address.ip().is_unspecified() { IpAddr::from([127, 0, 0, 1]) } else { self.address.ip() };
        format!("http://{}/?token={}", SocketAddr::new(host, self.address.port()), self.token)
    }

    /// The cookie has the port in its name: browsers share cookies between the ports of a machine.
    fn cookie_name(&self) -> String {
        format!("m2m-{}", self.address.port())
    }

    /// Whether a Host header names this server exactly. A name that somebody else made to point here does not.
    fn is_host(&self, host: &str) -> bool {
        let port = self.address.port();
        if host == format!("localhost:{port}") || host == self.address.to_string() {
            return true;
        }
        // Addresses cannot be made to point elsewhere as names can.
        let Ok(named) = host.parse::<SocketAddr>() else { return false };
        named.port() == port && (named.ip().is_loopback() || self.address.ip().is_unspecified())
    }

    fn is_origin(&self, origin: &str) -> bool {
        origin.strip_prefix("http://").is_some_and(|host| self.is_host(host))
    }

    /// Refuses requests that no page of ours made.
    fn check_source(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let text = |name: header::HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or(""));
        let one = headers.get_all(header::HOST).iter().count() == 1;
        if !one || !text(header::HOST).is_some_and(|host| self.is_host(host)) {
            let message = "this server is asked under a name that is not its own; open the address that m2m printed";
            return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, message));
        }
        let foreign = Problem::new(StatusCode::FORBIDDEN, "another page asks; open the address that m2m printed");
        if text(header::ORIGIN).is_some_and(|origin| !self.is_origin(origin)) {
            return Err(foreign);
        }
        match headers.get("sec-fetch-site").map(|site| site.as_bytes()) {
            None | Some(b"same-origin" | b"none") => Ok(()),
            Some(_) => Err(foreign),
        }
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let name = self.cookie_name();
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|line| line.split("; ")).filter_map(|pair| pair.split_once('='));
        let cookie = pairs.find(|(key, _)| *key == name).map(|(_, value)| value);
        [bearer, cookie].into_iter().flatten().any(|given| same(given, &self.token))
    }

    /// A first visit with the token in its address: the token moves into a cookie and out of sight.
    fn welcome(&self, uri: &Uri) -> Option<Response> {
        let given = uri.query()?.split('&').find_map(|pair| pair.strip_prefix("token="))?;
        if uri.path() != "/" || !same(given, &self.token) {
            return None;
        }
        let cookie = format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie_name(), self.token);
        Some((StatusCode::SEE_OTHER, [(header::SET_COOKIE, cookie), (header::LOCATION, "/".into())]).into_response())
    }
}

/// Compares without telling by the time it takes how much was right.
fn same(given: &str, token: &str) -> bool {
    let differ = given.bytes().zip(token.bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == token.len() && differ == 0
}

/// Lets nobody else in, and tells browsers to be careful with what comes out.
pub async fn guard(State(explorer): State<Arc<Explorer>>, request: Request, next: Next) -> Response {
    let guard = &explorer.guard;
    let mut response = match guard.check_source(request.headers()) {
        Err(problem) => problem.into_response(),
        Ok(()) => match guard.welcome(request.uri()).filter(|_| request.method() == Method::GET) {
            Some(response) => response,
            None if guard.has_token(request.headers()) => next.run(request).await,
            None => {
                let message = "the token is missing; open the address that m2m printed, or send it as a bearer token";
                Problem::new(StatusCode::UNAUTHORIZED, message).into_response()
            }
        },
    };
    let headers = response.headers_mut();
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("x-frame-options", "DENY"),
        ("cache-control", "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> Guard {
        Guard::new(address.parse().unwrap(), "secret".into())
    }

    #[test]
    fn only_its_own_names_are_answered() {
        let here = at("127.0.0.1:8000");
        for host in ["127.0.0.1:8000", "localhost:8000", "[::1]:8000"] {
            assert!(here.is_host(host), "{host}");
        }
        for host in [
            "127.0.0.1",
            "localhost",
            "127.0.0.1:80",
            "evil.example:8000",
            "localhost.evil.example:8000",
            "",
            "192.168.0.7:8000",
            "127.0.0.1:8000.evil.example",
            "localhost:8000 ",
        ] {
            assert!(!here.is_host(host), "{host}");
        }
        let everywhere = at("0.0.0.0:8000");
        assert!(everywhere.is_host("192.168.0.7:8000") && !everywhere.is_host("evil.example:8000"));
        assert!(here.is_origin("http://localhost:8000") && !here.is_origin("https://localhost:8000"));
        assert!(!here.is_origin("null") && !here.is_origin("http://evil.example"));
    }

    #[test]
    fn tokens_are_compared_whole() {
        assert!(same("abc", "abc"));
        for other in ["", "ab", "abd", "abcd"] {
            assert!(!same(other, "abc"));
        }
    }
}
