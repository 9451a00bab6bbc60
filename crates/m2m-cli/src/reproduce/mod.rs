//! The experiments of the M²M paper: data, questions, estimates, measures.

pub mod data;
pub mod dperm;
pub mod estimator;
pub mod logistic;
pub mod metrics;
pub mod questions;
pub mod random;
