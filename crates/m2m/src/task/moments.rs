//! Means, variances and the like.

use super::{Ask, smooth};
use crate::Error;
use crate::estimate::{Caution, Estimate, Totals};
use crate::expr::{Expr, lit};

impl Ask<'_> {
    /// The sum of a function over the rows where it has a value.
    pub fn sum(&self, of: &Expr) -> Result<Estimate, Error> {
        self.number(of)?;
        Ok(self.totals(std::slice::from_ref(of))?.estimate(0))
    }

    /// The mean of a function over the rows where it has a value.
    pub fn mean(&self, of: &Expr) -> Result<Estimate, Error> {
        let powers = self.powers(of, 1)?;
        Ok(powers.bounded(powers.smooth(|s| powers.centre + s[1] / s[0])))
    }

    /// The raw moment $E[x^k]$.
    pub fn moment(&self, of: &Expr, k: u32) -> Result<Estimate, Error> {
        let power = (1..k).fold(of.clone(), |power, _| power * of.clone());
        self.mean(&if k == 0 { lit(1.0) } else { power })
    }

    /// The central moment $E[(x - E x)^k]$ for k up to 4.
    pub fn central_moment(&self, of: &Expr, k: u32) -> Result<Estimate, Error> {
        if !(2..=4).contains(&k) {
            return Err(Error::Question(format!("the central moment of order {k}; give an order from 2 to 4")));
        }
        let powers = self.powers(of, k)?;
        Ok(powers.smooth(|s| central(s, k)))
    }

    /// The variance over the rows (dividing by their number).
    pub fn variance(&self, of: &Expr) -> Result<Estimate, Error> {
        let powers = self.powers(of, 2)?;
        Ok(powers.smooth(|s| central(s, 2)).within(0.0, f64::INFINITY))
    }

    /// The standard deviation over the rows.
    pub fn std_dev(&self, of: &Expr) -> Result<Estimate, Error> {
        let powers = self.powers(of, 2)?;
        Ok(powers.smooth(|s| central(s, 2).max(0.0).sqrt()).within(0.0, f64::INFINITY))
    }

    /// The skewness $E[(x-\bar x)^3] / E[(x-\bar x)^2]^{3/2}$.
    pub fn skewness(&self, of: &Expr) -> Result<Estimate, Error> {
        let powers = self.powers(of, 3)?;
        Ok(powers.smooth(|s| central(s, 3) / central(s, 2).max(1e-300).powf(1.5)))
    }

    /// The density at a point: the mean of a product of Gaussian kernels, one per column, in units per unit of each.
    pub fn density(&self, columns: &[&str], point: &[f64], bandwidth: &[f64]) -> Result<Estimate, Error> {
        if columns.is_empty() || columns.len() != point.len() || columns.len() != bandwidth.len() {
            return Err(Error::Question("a density needs a coordinate and a bandwidth for each column".into()));
        }
        if bandwidth.iter().any(|h| !(h.is_finite() && *h > 0.0)) {
            return Err(Error::Question("a bandwidth is not above 0; give positive ones".into()));
        }
        let mut kernel = lit(1.0);
        let mut known = lit(true);
        let mut volume = 1.0;
        for ((name, x), h) in columns.iter().zip(point).zip(bandwidth) {
            let column = crate::expr::col(*name);
            self.number(&column)?;
            let z = (column.clone() - lit(*x)) / lit(*h);
            kernel = kernel * Expr::Call(crate::expr::Function::Exp, vec![z.clone() * z * lit(-0.5)]);
            known = known.and(column.is_not_null());
            volume *= h * std::f64::consts::TAU.sqrt();
        }
        let totals = self.totals(&[kernel, Expr::Case { branches: vec![(known, lit(1.0))], otherwise: None }])?;
        let swamped = totals.swamped(1);
        let density = totals.combine(
            totals.values[0] / totals.values[1] / volume,
            &[1.0 / totals.values[1] / volume, -totals.values[0] / totals.values[1].powi(2) / volume],
        );
        Ok(density.within(0.0, f64::INFINITY).with_caution(swamped))
    }

    /// Totals of 1, x, x², … up to a power, of x about the middle of its range, over rows where x has a value.
    fn powers(&self, of: &Expr, power: u32) -> Result<Powers, Error> {
        let range = self.number(of)?;
        let centre = range.as_ref().map_or(0.0, |range| 0.5 * (range.min() + range.max()));
        let x = || of.clone() - lit(centre);
        let mut functions =
            vec![Expr::Case { branches: vec![(of.clone().is_not_null(), lit(1.0))], otherwise: None }, x()];
        for _ in 1..power {
            let last = functions.last().expect("not empty").clone();
            functions.push(last * x());
        }
        let totals = self.totals(&functions)?;
        let bounds = range.map(|range| (range.min(), range.max()));
        Ok(Powers { swamped: totals.swamped(0), totals, centre, bounds })
    }
}

struct Powers {
    totals: Totals,
    centre: f64,
    bounds: Option<(f64, f64)>,
    swamped: Option<Caution>,
}

impl Powers {
    fn smooth(&self, function: impl Fn(&[f64]) -> f64) -> Estimate {
        smooth(&self.totals, function).with_caution(self.swamped)
    }

    /// A mean keeps the public bounds; where the noise swamps the group, they are all that is known.
    fn bounded(&self, mean: Estimate) -> Estimate {
        let Some((low, high)) = self.bounds else { return mean };
        if self.swamped.is_some() {
            return Estimate { low, high, ..mean.within(low, high) }.with_caution(self.swamped);
        }
        mean.within(low, high)
    }
}

/// A central moment from sums of powers about any centre.
fn central(s: &[f64], k: u32) -> f64 {
    let e = |i: usize| s[i] / s[0];
    let m = e(1);
    match k {
        2 => e(2) - m * m,
        3 => e(3) - 3.0 * m * e(2) + 2.0 * m.powi(3),
        _ => e(4) - 4.0 * m * e(3) + 6.0 * m * m * e(2) - 3.0 * m.powi(4),
    }
}
