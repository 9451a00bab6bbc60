//! SQL over a release: one SELECT, whose numbers come with their errors.
//!
//! ```text
//! text ──► Query (checked against the schema) ──► totals over rows, per group ──► Table of estimates
//! ```
//!
//! A release holds no single rows, so a query asks for aggregates: `COUNT`, `SUM`, `AVG`, `VAR_POP`, `VAR_SAMP`,
//! `STDDEV_POP`, `STDDEV_SAMP`, `SKEWNESS` (of the population), `CORR`, `COVAR_POP`, `COVAR_SAMP`, `REGR_SLOPE`,
//! `REGR_INTERCEPT`, `MEDIAN`, `PERCENTILE_CONT`, `APPROX_QUANTILE`, `QUANTILE_CONT`, each with `FILTER (WHERE ...)`,
//! and arithmetic over them. Every one but the quantiles is a smooth function of totals over the rows; derivatives
//! are carried along, so that the error of `SUM(x) / COUNT(*)` knows that numerator and denominator share their noise.
//!
//! Rows are grouped by expressions whose values follow from the schema: categories, booleans, whole numbers with at
//! most 1000 values, conditions, `CASE` between constants, and `bin(column, k)`, which is k cells of equal width over
//! the public range. Which groups there are is public, so that small ones are shown too, swamped by noise as they may
//! be; left out are groups that are known to be empty, and those of unlisted levels if they cannot be told from empty.
//!
//! Differences from other dialects: division never truncates, nulls sort last unless `NULLS FIRST` is asked for, and
//! `AVG` of a condition is the share of rows for which it holds.

mod aggregate;
mod dual;
mod keys;
mod names;
mod plan;
mod read;
mod run;
mod table;
#[cfg(test)]
mod tests;

pub use names::{AGGREGATES, FUNCTIONS};
pub(crate) use read::{expression, formula_tokens, is_blank, term, unexpected_in_formula, without_bom};
pub use table::{Cell, ColumnKind, Table};

use crate::estimate::Model;
use crate::expr::{Checked, Expr, Node};
use crate::{Error, Schema};

/// Reads a condition as it stands behind WHERE.
pub fn condition(text: &str, schema: &Schema) -> Result<Expr, Error> {
    let condition = plan::row(&read::alone(text)?, schema)?;
    condition.check_condition(schema)?;
    Ok(condition)
}

/// A SELECT, checked against a schema.
#[derive(Clone, Debug)]
pub struct Query {
    schema: Schema,
    /// The condition of WHERE.
    filter: Node,
    keys: Vec<keys::Key>,
    /// What is added up in every group; the first is the number of its rows.
    sums: Vec<aggregate::RowSum>,
    quantiles: Vec<aggregate::Quantile>,
    /// What the columns of the expressions below stand for.
    slots: Vec<plan::Slot>,
    outputs: Vec<(String, Checked)>,
    having: Option<Checked>,
    order: Vec<plan::Order>,
    distinct: bool,
    limit: Option<usize>,
    offset: usize,
}

impl Query {
    /// Reads a query. Names and types are checked here, so that running it fails only for want of an answer.
    pub fn parse(text: &str, schema: &Schema) -> Result<Self, Error> {
        plan::plan(text, schema)
    }

    /// The same query about those of its rows that meet a condition too.
    pub fn restrict(mut self, condition: &Expr) -> Result<Self, Error> {
        let condition = condition.check_condition(&self.schema)?;
        self.filter = keys::and(vec![self.filter, condition.node]);
        Ok(self)
    }

    /// Answers the query.
    pub fn run(&self, model: &dyn Model) -> Result<Table, Error> {
        run::run(self, model)
    }
}
