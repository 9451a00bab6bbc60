//! Questions to a release: moments, counts, distributions, densities. Everything is a smooth function of totals over rows
//! ([`Model::totals`]), so everything has an error.
//!
//! ```no_run
//! use m2m::expr::{col, lit};
//! use m2m::fit::{Fit, Options};
//! use m2m::task::Ask;
//!
//! let release = m2m::Release::open("table.m2m")?;
//! let fit = Fit::new(&release, Options::default())?;
//! let women = Ask::of(&fit).filter(&col("sex").eq(lit("Female")))?;
//! println!("{} ± {}", women.mean(&col("age"))?.value, women.mean(&col("age"))?.std_error);
//! # Ok::<(), m2m::Error>(())
//! ```

mod distribution;
pub mod learn;
mod matrix;
mod moments;

pub use distribution::{Bin, quantile};
pub use matrix::Matrix;

use crate::estimate::{Estimate, Model, Totals};
use crate::expr::{Checked, Expr, Type, lit};
use crate::schema::Range;
use crate::{Error, Schema};

/// Questions about the rows that meet a condition.
#[derive(Clone)]
pub struct Ask<'m> {
    model: &'m dyn Model,
    filter: Expr,
}

impl<'m> Ask<'m> {
    /// Questions about all rows.
    pub fn of(model: &'m dyn Model) -> Self {
        Self { model, filter: lit(true) }
    }

    /// Questions about those of the rows that meet a condition too.
    pub fn filter(&self, condition: &Expr) -> Result<Self, Error> {
        condition.check_condition(self.schema())?;
        let filter = match &self.filter {
            Expr::Boolean(true) => condition.clone(),
            filter => filter.clone().and(condition.clone()),
        };
        Ok(Self { model: self.model, filter })
    }

    /// The schema of the table.
    pub fn schema(&self) -> &Schema {
        self.model.schema()
    }

    /// How many rows there are.
    pub fn count(&self) -> Result<Estimate, Error> {
        let totals = self.totals(&[lit(1.0)])?;
        Ok(totals.estimate(0).within(0.0, f64::INFINITY))
    }

    /// The part of all rows that these are.
    pub fn share(&self) -> Result<Estimate, Error> {
        let checked = [self.restrict(&lit(1.0)), lit(1.0)]
            .iter()
            .map(|expr| expr.check(self.schema()))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(self.model.totals(&checked).ratio(0, 1).within(0.0, 1.0))
    }

    /// The totals of functions over these rows.
    pub fn totals(&self, functions: &[Expr]) -> Result<Totals, Error> {
        Ok(self.model.totals(&self.checked(functions)?))
    }

    /// The values of these totals, without their errors: as a rule in less time.
    pub fn total_values(&self, functions: &[Expr]) -> Result<Vec<f64>, Error> {
        Ok(self.model.total_values(&self.checked(functions)?))
    }

    fn checked(&self, functions: &[Expr]) -> Result<Vec<Checked>, Error> {
        functions.iter().map(|function| self.restrict(function).check(self.schema())).collect()
    }

    /// A function that counts only on these rows.
    fn restrict(&self, function: &Expr) -> Expr {
        match &self.filter {
            Expr::Boolean(true) => function.clone(),
            filter => Expr::Case { branches: vec![(filter.clone(), function.clone())], otherwise: None },
        }
    }

    /// Checks that an expression is a number; the public range of its values if it is a plain column.
    fn number(&self, of: &Expr) -> Result<Option<Range>, Error> {
        let checked = of.check(self.schema())?;
        if let Type::Text | Type::Boolean = checked.kind() {
            return Err(Error::Question(format!(
                "a number is needed where {} stands; count rows that meet a condition instead",
                checked.kind().name()
            )));
        }
        let Expr::Column(name) = of else { return Ok(None) };
        let column = crate::expr::find_column(self.schema(), name)?;
        Ok(self.schema().columns()[column].kind.range().cloned())
    }
}

/// A function of totals with its error, by differences: exact to the second order in the step.
pub(crate) fn smooth(totals: &Totals, function: impl Fn(&[f64]) -> f64) -> Estimate {
    let mut at = totals.values.clone();
    let value = function(&at);
    let gradient: Vec<f64> = (0..at.len())
        .map(|i| {
            let x = at[i];
            let step = 1e-5 * (x.abs() + 1e-3 * totals.values[0].abs() + 1e-9);
            at[i] = x + step;
            let above = function(&at);
            at[i] = x - step;
            let below = function(&at);
            at[i] = x;
            (above - below) / (2.0 * step)
        })
        .collect();
    totals.combine(value, &gradient)
}

/// Numbers made non-decreasing with the least change (pool adjacent violators).
pub(crate) fn monotone(numbers: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for x in numbers {
        pools.push((*x, 1));
        while let [.., (a, n), (b, m)] = pools[..]
            && a > b
        {
            pools.truncate(pools.len() - 2);
            pools.push(((a * n as f64 + b * m as f64) / (n + m) as f64, n + m));
        }
    }
    pools.iter().flat_map(|(x, n)| std::iter::repeat_n(*x, *n)).collect()
}
