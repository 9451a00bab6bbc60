//! Numbers that carry their derivatives with respect to the totals of a group, and with them their error.

use crate::Estimate;
use crate::estimate::{Caution, Parts, Totals, Z95};
use crate::expr::{Function, Op};

/// A number computed from totals.
#[derive(Clone, Debug)]
pub(super) struct Dual {
    /// Its value, not yet held within `bounds`.
    pub value: f64,
    /// Its derivatives with respect to the inputs; empty for an exact number.
    pub slope: Vec<f64>,
    /// What the truth is known to lie between.
    pub bounds: (f64, f64),
    pub caution: Option<Caution>,
    /// The estimate that this number is, where its interval is not that of a normal law.
    pub whole: Option<Estimate>,
}

/// The errors of the inputs of one group: some totals, and estimates whose errors are independent of them.
pub(super) struct Inputs<'a> {
    pub totals: &'a Totals,
    /// The place of the group's first total.
    pub first: usize,
    /// How many totals the group has.
    pub count: usize,
    pub others: &'a [Estimate],
}

/// No bounds at all.
pub(super) const ANY: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

impl Dual {
    pub fn exact(value: f64) -> Self {
        Self { value, slope: Vec::new(), bounds: (value, value), caution: None, whole: None }
    }

    pub fn is_exact(&self) -> bool {
        self.slope.is_empty()
    }

    /// The value within its bounds.
    pub fn held(&self) -> f64 {
        self.value.max(self.bounds.0).min(self.bounds.1)
    }

    /// The same, known to lie between two bounds.
    pub fn within(self, low: f64, high: f64) -> Self {
        Self { bounds: (low, high), ..self }
    }

    /// A function of this number with this value and derivative.
    fn map(&self, value: f64, by: f64, bounds: (f64, f64)) -> Option<Self> {
        let slope: Vec<f64> = self.slope.iter().map(|d| d * by).collect();
        Self { value, slope, bounds, caution: self.caution, whole: None }.finite()
    }

    /// A function of two numbers with this value and these derivatives.
    fn join(&self, other: &Self, value: f64, by: (f64, f64), bounds: (f64, f64)) -> Option<Self> {
        let count = self.slope.len().max(other.slope.len());
        let at = |slope: &[f64], i: usize| slope.get(i).copied().unwrap_or(0.0);
        // An exact side contributes nothing, even where its derivative is infinite.
        let part = |slope: &[f64], i: usize, by: f64| if at(slope, i) == 0.0 { 0.0 } else { at(slope, i) * by };
        let slope = (0..count).map(|i| part(&self.slope, i, by.0) + part(&other.slope, i, by.1)).collect();
        Self { value, slope, bounds, caution: self.caution.or(other.caution), whole: None }.finite()
    }

    fn finite(mut self) -> Option<Self> {
        if self.bounds.0.is_nan() || self.bounds.1.is_nan() || self.bounds.0 > self.bounds.1 {
            self.bounds = ANY;
        }
        (self.value.is_finite() && self.slope.iter().all(|d| d.is_finite())).then_some(self)
    }

    pub fn add(&self, other: &Self) -> Option<Self> {
        let bounds = (self.bounds.0 + other.bounds.0, self.bounds.1 + other.bounds.1);
        self.join(other, self.value + other.value, (1.0, 1.0), bounds)
    }

    pub fn subtract(&self, other: &Self) -> Option<Self> {
        self.add(&other.negate())
    }

    pub fn negate(&self) -> Self {
        let slope = self.slope.iter().map(|d| -d).collect();
        let bounds = (-self.bounds.1, -self.bounds.0);
        Self { value: -self.value, slope, bounds, caution: self.caution, whole: None }
    }

    pub fn multiply(&self, other: &Self) -> Option<Self> {
        let bounds = product(self.bounds, other.bounds);
        self.join(other, self.value * other.value, (other.value, self.value), bounds)
    }

    /// Nothing where the denominator is zero, and marked as swamped where it cannot be told from zero.
    pub fn divide(&self, by: &Self, inputs: &Inputs<'_>) -> Option<Self> {
        if by.value == 0.0 {
            return None;
        }
        let reciprocal = match by.bounds {
            (low, high) if low >= 0.0 => (1.0 / high, 1.0 / low.max(0.0)),
            (low, high) if high <= 0.0 => (1.0 / high.min(-0.0), 1.0 / low),
            _ => ANY,
        };
        let swamped = !by.is_exact() && by.value.abs() < Z95 * inputs.error(by);
        let (a, b) = (self.value, by.value);
        let mut ratio = self.join(by, a / b, (1.0 / b, -a / (b * b)), product(self.bounds, reciprocal))?;
        if swamped {
            ratio.caution = ratio.caution.or(Some(Caution::Swamped));
        }
        Some(ratio)
    }

    /// The square root. Where the number is smaller than its error, the slope is that at its error: at zero itself it
    /// would be infinite.
    pub fn root(&self, inputs: &Inputs<'_>) -> Option<Self> {
        let x = self.held();
        if x < 0.0 {
            return None;
        }
        let at = if self.is_exact() { x } else { x.max(inputs.error(self)) };
        let by = if at > 0.0 { 0.5 / at.sqrt() } else { 0.0 };
        self.map(x.sqrt(), by, (self.bounds.0.max(0.0).sqrt(), self.bounds.1.max(0.0).sqrt()))
    }

    pub fn power(&self, exponent: &Self) -> Option<Self> {
        let (x, y) = (self.held(), exponent.value);
        let value = x.powf(y);
        let by = (y * x.powf(y - 1.0), value * x.ln());
        self.join(exponent, value, by, if x >= 0.0 { (0.0, f64::INFINITY) } else { ANY })
    }

    /// A binary operation of arithmetic.
    pub fn binary(op: Op, a: &Self, b: &Self, inputs: &Inputs<'_>) -> Option<Self> {
        match op {
            Op::Add => a.add(b),
            Op::Subtract => a.subtract(b),
            Op::Multiply => a.multiply(b),
            Op::Divide => a.divide(b, inputs),
            _ => a.join(b, a.value % b.value, (1.0, -(a.value / b.value).trunc()), ANY),
        }
    }

    /// A function of numbers. Rounding changes what is shown, not its error.
    pub fn call(function: Function, arguments: &[Self], inputs: &Inputs<'_>) -> Option<Self> {
        let first = arguments.first()?;
        let (x, (low, high)) = (first.held(), first.bounds);
        let monotone = |f: fn(f64) -> f64, by: f64| first.map(f(x), by, (f(low), f(high)));
        match function {
            Function::Abs => {
                first.map(x.abs(), if first.value < 0.0 { -1.0 } else { 1.0 }, (0.0, low.abs().max(high.abs())))
            }
            Function::Sign => monotone(|x| f64::from(x > 0.0) - f64::from(x < 0.0), 0.0),
            Function::Floor => monotone(f64::floor, 1.0),
            Function::Ceil => monotone(f64::ceil, 1.0),
            Function::Round => {
                let scale = 10f64.powf(arguments.get(1).map_or(0.0, |digits| digits.value));
                first.map(
                    (x * scale).round() / scale,
                    1.0,
                    ((low * scale).round() / scale, (high * scale).round() / scale),
                )
            }
            Function::Sqrt => first.root(inputs),
            Function::Exp => monotone(f64::exp, x.exp()),
            Function::Ln if x > 0.0 => first.map(x.ln(), 1.0 / x, (low.max(0.0).ln(), high.ln())),
            Function::Log10 if x > 0.0 => {
                first.map(x.log10(), 1.0 / (x * std::f64::consts::LN_10), (low.max(0.0).log10(), high.log10()))
            }
            Function::Ln | Function::Log10 => None,
            Function::Power => first.power(arguments.get(1)?),
            Function::Least => arguments.iter().min_by(|a, b| a.held().total_cmp(&b.held())).cloned(),
            Function::Greatest => arguments.iter().max_by(|a, b| a.held().total_cmp(&b.held())).cloned(),
            Function::Coalesce => Some(first.clone()),
        }
    }
}

/// The bounds of a product of numbers within bounds.
pub(super) fn product(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    let corners = [a.0 * b.0, a.0 * b.1, a.1 * b.0, a.1 * b.1].map(|x| if x.is_nan() { 0.0 } else { x });
    corners.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(*x), high.max(*x)))
}

impl Inputs<'_> {
    /// One of the group's totals.
    pub fn total(&self, at: usize) -> Dual {
        let mut slope = vec![0.0; self.count + self.others.len()];
        slope[at] = 1.0;
        let value = self.totals.values[self.first + at];
        Dual { value, slope, bounds: ANY, caution: None, whole: None }
    }

    /// One of the other estimates.
    pub fn other(&self, at: usize) -> Option<Dual> {
        let estimate = self.others[at];
        let mut slope = vec![0.0; self.count + self.others.len()];
        slope[self.count + at] = 1.0;
        let dual = Dual { value: estimate.value, slope, bounds: ANY, caution: estimate.caution, whole: Some(estimate) };
        dual.finite()
    }

    fn combine(&self, number: &Dual) -> Estimate {
        let mut gradient = vec![0.0; self.totals.values.len()];
        if number.slope.len() >= self.count {
            gradient[self.first..self.first + self.count].copy_from_slice(&number.slope[..self.count]);
        }
        let Estimate { parts, caution, .. } = self.totals.combine(number.value, &gradient);
        let others = self.others.iter().zip(number.slope.iter().skip(self.count));
        let add = |part: fn(&Parts) -> f64| {
            let more: f64 = others.clone().map(|(other, by)| (part(&other.parts) * by).powi(2)).sum();
            (part(&parts).powi(2) + more).sqrt()
        };
        let parts = Parts {
            privacy: add(|p| p.privacy),
            count: add(|p| p.count),
            sampling: add(|p| p.sampling),
            approximation: add(|p| p.approximation),
        };
        Estimate::new(number.value, parts).with_caution(caution)
    }

    /// The standard deviation of a number's error.
    pub fn error(&self, number: &Dual) -> f64 {
        if number.is_exact() { 0.0 } else { self.combine(number).std_error }
    }

    /// A number as an answer. One that noise swamps can lie anywhere within its bounds.
    pub fn estimate(&self, number: &Dual) -> Estimate {
        if let Some(whole) = number.whole {
            return whole.with_caution(number.caution);
        }
        let (low, high) = number.bounds;
        let combined = self.combine(number);
        let estimate = Estimate { caution: number.caution.or(combined.caution), ..combined };
        let estimate = estimate.within(low, high);
        match number.caution {
            Some(Caution::Swamped) if low.is_finite() && high.is_finite() => Estimate { low, high, ..estimate },
            _ => estimate,
        }
    }
}
