//! The functions that a query can name, and what to say about those that it cannot.

use super::read::fail;
use crate::Error;
use crate::expr::nearest;

/// Functions of all rows of a group.
pub const AGGREGATES: &[&str] = &[
    "count",
    "sum",
    "avg",
    "mean",
    "var_pop",
    "var_samp",
    "variance",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "skewness",
    "corr",
    "covar_pop",
    "covar_samp",
    "regr_slope",
    "regr_intercept",
    "median",
    "percentile_cont",
    "approx_quantile",
    "quantile_cont",
];

/// Functions of the values of one row, or of one line of the answer.
pub const FUNCTIONS: &[&str] = &[
    "abs", "sign", "floor", "ceil", "round", "sqrt", "exp", "ln", "log10", "power", "mod", "least", "greatest",
    "coalesce", "nullif", "bin",
];

/// Functions that no release can answer, with what to ask instead.
const REFUSED: &[(&str, &str)] = &[
    ("min", "ask for APPROX_QUANTILE(x, 0.01)"),
    ("max", "ask for APPROX_QUANTILE(x, 0.99)"),
    ("first", "ask for MEDIAN(x)"),
    ("last", "ask for MEDIAN(x)"),
    ("any_value", "ask for COUNT(*) grouped by it"),
    ("arg_min", "ask for CORR(x, y)"),
    ("arg_max", "ask for CORR(x, y)"),
    ("mode", "ask for COUNT(*) grouped by it, ORDER BY 2 DESC LIMIT 1"),
    ("array_agg", "ask for COUNT(*) grouped by it"),
    ("string_agg", "ask for COUNT(*) grouped by it"),
    ("percentile_disc", "ask for PERCENTILE_CONT"),
    ("row_number", "ask for COUNT(*) grouped by something"),
];

pub(super) fn is_aggregate(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    AGGREGATES.contains(&name.as_str()) || REFUSED.iter().any(|(refused, _)| *refused == name)
}

/// Refuses an aggregate that needs single rows; `of` is what it was asked of.
pub(super) fn refuse(name: &str, of: &str) -> Result<(), Error> {
    let lower = name.to_ascii_lowercase();
    match REFUSED.iter().find(|(refused, _)| *refused == lower) {
        Some((_, instead)) => {
            let instead = instead.replace("(x", &format!("({of}"));
            fail(format!("{} is not possible, as a release holds no single rows; {instead}", name.to_uppercase()))
        }
        None => Ok(()),
    }
}

pub(super) fn unknown(name: &str) -> Error {
    Error::Question(match nearest(name, AGGREGATES.iter().chain(FUNCTIONS).copied()) {
        Some(near) => format!("there is no function `{name}`; did you mean {near}?"),
        None => format!(
            "there is no function `{name}`; there are {}, \
            and in SQL over groups {}",
            FUNCTIONS.join(", "),
            AGGREGATES.join(", ")
        ),
    })
}
