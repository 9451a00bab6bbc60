//! Aggregates as functions of totals over rows.

use super::dual::{ANY, Dual, Inputs, product};
use super::keys::and;
use crate::Schema;
use crate::expr::{Checked, Node, Op, Type};

/// A sum over rows: of a value, or of 1, where a condition holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RowSum {
    pub condition: Node,
    pub value: Option<Node>,
}

/// A quantile, which is no function of a few totals.
#[derive(Clone, Debug)]
pub(super) struct Quantile {
    pub of: Checked,
    pub condition: Node,
    pub share: f64,
}

/// An aggregate: which sums it needs and what is made of them.
#[derive(Clone, Debug)]
pub(super) struct Aggregate {
    pub law: Law,
    /// The places of the sums: a count, then moments of increasing order.
    pub sums: Vec<usize>,
    /// What was subtracted from the values, so that their squares stay small.
    pub centres: [f64; 2],
    /// What the truth lies between.
    pub bounds: (f64, f64),
}

/// What is made of the sums.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Law {
    Count,
    Sum,
    Mean,
    Variance { sample: bool, root: bool },
    Skewness,
    Covariance { sample: bool },
    Correlation,
    Slope,
    Intercept,
    Quantile(usize),
}

impl Law {
    pub fn of_one(name: &str) -> Option<Self> {
        Some(match name {
            "avg" | "mean" => Self::Mean,
            "var_pop" => Self::Variance { sample: false, root: false },
            "var_samp" | "variance" => Self::Variance { sample: true, root: false },
            "stddev_pop" => Self::Variance { sample: false, root: true },
            "stddev_samp" | "stddev" => Self::Variance { sample: true, root: true },
            "skewness" => Self::Skewness,
            _ => return None,
        })
    }

    pub fn of_two(name: &str) -> Option<Self> {
        Some(match name {
            "corr" => Self::Correlation,
            "covar_pop" => Self::Covariance { sample: false },
            "covar_samp" => Self::Covariance { sample: true },
            "regr_slope" => Self::Slope,
            "regr_intercept" => Self::Intercept,
            _ => return None,
        })
    }

    /// The highest power of the value that is summed.
    pub fn order(self) -> usize {
        match self {
            Self::Mean => 1,
            Self::Skewness => 3,
            _ => 2,
        }
    }

    /// What the result lies between if the values lie between these.
    pub fn bounds(self, (low, high): (f64, f64)) -> (f64, f64) {
        let width = high - low;
        match self {
            Self::Mean => (low, high),
            Self::Variance { sample, root } => {
                let most = width * width / if sample { 2.0 } else { 4.0 };
                (0.0, if root { most.sqrt() } else { most })
            }
            Self::Count => (0.0, f64::INFINITY),
            Self::Correlation => (-1.0, 1.0),
            _ => ANY,
        }
    }
}

impl Aggregate {
    pub fn of(sums: Vec<usize>) -> Self {
        Self { law: Law::Count, sums, centres: [0.0; 2], bounds: (0.0, f64::INFINITY) }
    }

    /// What the values of an expression over a row lie between.
    pub fn range(node: &Node, schema: &Schema) -> (f64, f64) {
        let of = |node: &Node| Self::range(node, schema);
        match node {
            Node::Column(column) => {
                schema.columns()[*column].kind.range().map_or(ANY, |range| (range.min(), range.max()))
            }
            Node::Number(x) => (*x, *x),
            Node::Negate(inner) => {
                let (low, high) = of(inner);
                (-high, -low)
            }
            Node::Binary(Op::Add, a, b) => (of(a).0 + of(b).0, of(a).1 + of(b).1),
            Node::Binary(Op::Subtract, a, b) => (of(a).0 - of(b).1, of(a).1 - of(b).0),
            Node::Binary(Op::Multiply, a, b) => product(of(a), of(b)),
            Node::Case { branches, otherwise } => branches
                .iter()
                .map(|(_, value)| value)
                .chain([otherwise.as_ref()])
                .filter(|value| **value != Node::Null)
                .map(of)
                .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
                .unwrap_or(ANY),
            _ => ANY,
        }
    }

    /// The value of the aggregate in a group; nothing where it is undefined.
    pub fn value(&self, inputs: &Inputs<'_>) -> Option<Dual> {
        Some(self.law_of(inputs)?.within(self.bounds.0, self.bounds.1))
    }

    fn law_of(&self, inputs: &Inputs<'_>) -> Option<Dual> {
        if let Law::Quantile(at) = self.law {
            return inputs.other(at);
        }
        let count = inputs.total(self.sums[0]);
        let mean = |order: usize| inputs.total(self.sums[order]).divide(&count, inputs);
        let [first, second] = self.centres.map(Dual::exact);
        let positive = |x: Dual| Some(x.within(0.0, f64::INFINITY));
        match self.law {
            Law::Count | Law::Sum => Some(count),
            Law::Mean => mean(1)?.add(&first),
            Law::Variance { sample, root } => {
                let m = mean(1)?;
                let variance = mean(2)?.subtract(&m.multiply(&m)?)?;
                let variance = positive(if sample { bessel(&variance, &count, inputs)? } else { variance })?;
                if root { variance.root(inputs) } else { Some(variance) }
            }
            Law::Skewness => {
                let (m1, m2, m3) = (mean(1)?, mean(2)?, mean(3)?);
                let square = m1.multiply(&m1)?;
                let variance = m2.subtract(&square)?;
                let third = m3
                    .subtract(&m1.multiply(&m2)?.multiply(&Dual::exact(3.0))?)?
                    .add(&m1.multiply(&square)?.multiply(&Dual::exact(2.0))?)?;
                if variance.value <= 0.0 {
                    return None;
                }
                third.divide(&variance.power(&Dual::exact(1.5))?, inputs)
            }
            law => {
                let (y, x) = (mean(1)?, mean(2)?);
                let covariance = mean(4)?.subtract(&y.multiply(&x)?)?;
                let variance = |square: usize, mean_of: &Dual| mean(square)?.subtract(&mean_of.multiply(mean_of)?);
                match law {
                    Law::Covariance { sample: true } => bessel(&covariance, &count, inputs),
                    Law::Covariance { sample: false } => Some(covariance),
                    Law::Correlation => {
                        let (of_y, of_x) = (variance(3, &y)?, variance(5, &x)?);
                        if of_y.value <= 0.0 || of_x.value <= 0.0 {
                            return None;
                        }
                        covariance.divide(&of_y.multiply(&of_x)?.root(inputs)?, inputs)
                    }
                    _ => {
                        let slope = covariance.divide(&variance(5, &x)?, inputs)?;
                        if law == Law::Slope {
                            return Some(slope);
                        }
                        y.add(&first)?.subtract(&slope.multiply(&x.add(&second)?)?)
                    }
                }
            }
        }
    }
}

/// A second moment times n / (n - 1).
fn bessel(moment: &Dual, count: &Dual, inputs: &Inputs<'_>) -> Option<Dual> {
    if count.value <= 1.0 {
        return None;
    }
    let factor = count.divide(&count.add(&Dual::exact(-1.0))?, inputs)?;
    moment.multiply(&factor)
}

impl RowSum {
    /// The function of a row that is summed, among the rows for which `condition` holds.
    pub fn function(&self, condition: &Node) -> Checked {
        let condition = and(vec![condition.clone(), self.condition.clone()]);
        let always = condition == Node::Boolean(true);
        let node = match &self.value {
            None if always => Node::Number(1.0),
            None => return Checked { node: condition, kind: Type::Boolean },
            Some(value) if always => value.clone(),
            Some(value) => Node::Case { branches: vec![(condition, value.clone())], otherwise: Box::new(Node::Null) },
        };
        Checked { node, kind: Type::Number }
    }
}
