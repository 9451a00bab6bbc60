//! The explorer: a page over a JSON API, for one release, on this machine.
//!
//! ```text
//! browser ──► guard (Host, Origin, token) ──► api ──► Lanes ──► view, sql, learn, synth ──► Fit
//! ```
//!
//! The page (`page/`) is plain HTML, CSS and modules that are part of the program; charts are drawn here, by the module
//! that draws them for the command line and the report. What the API answers is written in `docs/explore.openapi.json`.

mod api;
mod guard;
mod problem;
#[cfg(test)]
mod tests;
mod work;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use m2m::Release;
use m2m::fit::Fit;
use serde_json::Value;

pub use guard::Guard;
use problem::Problem;
use work::Lanes;

/// A release that is being explored.
pub struct Explorer {
    /// The name of its file.
    name: String,
    release: Release,
    fit: Fit,
    guard: Guard,
    lanes: Lanes,
    /// The overview of all rows, which everybody sees first.
    overview: OnceLock<Value>,
}

/// How long a question may take once its turn has come.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a question may be, in bytes.
const LONGEST: usize = 64 << 10;

/// The description of the API.
pub const OPENAPI: &str = include_str!("../../../../docs/explore.openapi.json");

/// The files of the page.
const PAGE: [(&str, &str, &str); 9] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("/app.js", "text/javascript; charset=utf-8", include_str!("page/app.js")),
    ("/dom.js", "text/javascript; charset=utf-8", include_str!("page/dom.js")),
    ("/overview.js", "text/javascript; charset=utf-8", include_str!("page/overview.js")),
    ("/columns.js", "text/javascript; charset=utf-8", include_str!("page/columns.js")),
    ("/sql.js", "text/javascript; charset=utf-8", include_str!("page/sql.js")),
    ("/models.js", "text/javascript; charset=utf-8", include_str!("page/models.js")),
    ("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];

impl Explorer {
    /// An explorer of a release, by the name of its file.
    pub fn new(name: String, release: Release, fit: Fit, guard: Guard) -> Arc<Self> {
        Arc::new(Self { name, release, fit, guard, lanes: Lanes::new(LIMIT), overview: OnceLock::new() })
    }

    /// The address to open in a browser.
    pub fn link(&self) -> String {
        self.guard.link()
    }

    /// Everything that is served.
    pub fn router(self: &Arc<Self>) -> Router {
        let mut router = Router::new()
            .route("/api/overview", get(api::overview))
            .route("/api/columns/{name}", get(api::column))
            .route("/api/correlations", get(api::correlations))
            .route("/api/pairs", get(api::pairs))
            .route("/api/sql", post(api::sql))
            .route("/api/fit", post(api::fit))
            .route("/api/synth", get(api::synth))
            .route("/api/openapi.json", get(|| async { ([(header::CONTENT_TYPE, "application/json")], OPENAPI) }));
        for (path, kind, text) in PAGE {
            router = router.route(path, get(move || async move { ([(header::CONTENT_TYPE, kind)], text) }));
        }
        router
            .fallback(|| async { Problem::nowhere() })
            .method_not_allowed_fallback(|| async {
                let message = "this address is asked in another way; see /api/openapi.json";
                Problem::new(axum::http::StatusCode::METHOD_NOT_ALLOWED, message).into_response()
            })
            .layer(DefaultBodyLimit::max(LONGEST))
            .layer(axum::middleware::from_fn_with_state(self.clone(), guard::guard))
            .with_state(self.clone())
    }

    /// Serves until the process ends.
    pub async fn serve(self: &Arc<Self>, listener: tokio::net::TcpListener) -> std::io::Result<()> {
        // What everybody asks first is ready before anybody asks; random points are drawn when there is time.
        let explorer = self.clone();
        tokio::task::spawn_blocking(move || {
            api::first_view(&explorer);
            m2m::estimate::WeightedSample::positive(&explorer.fit);
        });
        axum::serve(listener, self.router()).await
    }
}

/// Whether only this machine can reach an address.
pub fn is_local(address: &SocketAddr) -> bool {
    address.ip().is_loopback()
}
