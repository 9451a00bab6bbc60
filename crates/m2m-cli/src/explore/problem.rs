//! What is answered when there is no answer.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// What went wrong, and what to do about it.
#[derive(Debug)]
pub struct Problem {
    pub status: StatusCode,
    pub error: String,
    pub hint: Option<String>,
}

impl Problem {
    /// A message whose part behind the last semicolon says what to do.
    pub fn new(status: StatusCode, message: &str) -> Self {
        match message.rsplit_once("; ") {
            // A semicolon within backticks belongs to a name.
            Some((error, hint)) if error.matches('`').count() % 2 == 0 => {
                Self { status, error: error.into(), hint: Some(hint.into()) }
            }
            _ => Self { status, error: message.into(), hint: None },
        }
    }

    /// A question that cannot be asked.
    pub fn question(message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// Nothing is there.
    pub fn nowhere() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is nothing at this address; see /api/openapi.json")
    }

    /// The work took too long, or nobody waits for it.
    pub fn slow() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the question took too long and was stopped; ask for less at a time")
    }

    /// Too many wait already.
    pub fn busy() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "too many questions are waiting; ask again in a while")
    }

    /// A mistake of ours. What a panic says stays here.
    pub fn failed() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "something went wrong in m2m itself; ask in another way")
    }
}

impl From<m2m::Error> for Problem {
    fn from(error: m2m::Error) -> Self {
        if error.is_input() { Self::question(&error.to_string()) } else { Self::failed() }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = json!({ "error": self.error, "hint": self.hint });
        (self.status, Json(body)).into_response()
    }
}
