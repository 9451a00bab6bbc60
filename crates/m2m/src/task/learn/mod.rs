//! Learning from the points of a fitted release as if they were the rows of the table.
//!
//! ```text
//! Formula ──encode──► design, response ──fit──► Fitted ──predict, evaluate──► rows of the reader's own
//!                     WeightedSample ──► k_means, mixture, pca
//! ```
//!
//! ```
//! use m2m::source::Table;
//! use m2m::task::learn::{Formula, Learner, Options, Rows, fit};
//! # let schema = m2m::Schema::from_toml("[[column]]\nname='x'\ntype='number'\nmin=0\nmax=9\n[[column]]\nname='y'\ntype='number'\nmin=0\nmax=9")?;
//! let table = Table::from_csv_bytes(b"x,y\n1,3\n2,5\n3,7\n4,9\n".to_vec());
//! let sample = Rows::read(&table, &schema, &[0, 1], &())?;
//! let line = fit(&sample, &Formula::parse("y ~ x", &schema)?, Learner::Linear, &Options::default())?;
//! assert!((line.coefficients[1].value - 2.0).abs() < 1e-9);
//! # Ok::<(), m2m::Error>(())
//! ```

mod cluster;
mod fit;
mod formula;
mod loss;
mod metrics;
mod newton;
mod pca;
mod points;
mod rows;
mod term;

pub use cluster::{Cluster, ClusterOptions, Clusters, Component, Mixture, k_means, mixture};
pub use fit::{Fitted, Learner, Options, Weights, fit};
pub use formula::{Encoded, Formula, INTERCEPT, Outcome, Response};
pub use metrics::{Metrics, accuracy, auc, log_loss, r_squared, rmse};
pub use pca::{Direction, Pca, pca};
pub use points::Points;
pub use rows::Rows;
#[cfg(test)]
mod tests;
