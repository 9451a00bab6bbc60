//! `m2m` turns a sensitive table into **one differentially private release**, published once and questioned
//! forever.
//!
//! ```text
//! Schema ──► Design (feature maps) ──► Sums (secret, exact integers) ──► privatise ──► Release (public file)
//! ```
//!
//! A curator describes what is public about the table in a [`Schema`], chooses feature maps in a [`Design`],
//! adds up features exactly in [`Sums`], and spends a [`Budget`](privatise::Budget) once to get a
//! [`Release`].

mod decimal;
mod error;
pub mod feature;
pub mod file;
mod math;
pub mod panel;
pub mod privatise;
pub mod release;
pub mod schema;
mod simd;
pub mod source;
mod stream;
pub mod sums;

pub use decimal::Decimal;
pub use error::Error;
pub use feature::Design;
pub use release::Release;
pub use schema::Schema;
pub use sums::Sums;
