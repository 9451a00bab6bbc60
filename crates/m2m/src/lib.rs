//! `m2m` turns a sensitive table into **one differentially private release**, published once and questioned
//! forever.
//!
//! ```text
//! Schema ──► Design (feature maps) ──► Sums (secret, exact integers) ──► privatise ──► Release (public file)
//!                                                                                          │
//!                     Estimate ◄── task::Ask, sql::Query, task::learn ◄── fit::Fit ◄── prior ┘
//! ```
//!
//! A curator describes what is public about the table in a [`Schema`], chooses feature maps in a [`Design`],
//! adds up features exactly in [`Sums`], and spends a [`Budget`](privatise::Budget) once to get a
//! [`Release`]. An analyst reads the release against a [`Prior`](prior::Prior) in a [`Fit`](fit::Fit) and asks it
//! whatever they like; every answer is an [`Estimate`] with its error.

pub mod audit;
pub mod auto;
mod decimal;
mod error;
pub mod estimate;
pub mod expr;
pub mod feature;
pub mod file;
pub mod fit;
pub mod forecast;
mod math;
pub mod panel;
pub mod prior;
pub mod privatise;
pub mod release;
pub mod schema;
mod simd;
pub mod source;
pub mod sql;
mod stream;
pub mod sums;
pub mod synth;
pub mod task;

pub use decimal::Decimal;
pub use error::Error;
pub use estimate::Estimate;
pub use feature::Design;
pub use release::Release;
pub use schema::Schema;
pub use sums::Sums;
