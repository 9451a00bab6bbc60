//! Answers: a value, its error, and where the error comes from.

use std::borrow::Cow;
use std::ops::{Index, IndexMut};

use faer::Mat;
use serde::Serialize;

use crate::Schema;
use crate::expr::Checked;

/// Two-sided 95% of a normal law.
pub(crate) const Z95: f64 = 1.959_963_984_540_054;

/// An answer with its error bar.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The answer.
    pub value: f64,
    /// The standard deviation of its error.
    pub std_error: f64,
    /// Lower end of the 95% interval.
    pub low: f64,
    /// Upper end of the 95% interval.
    pub high: f64,
    /// What the error is made of.
    pub parts: Parts,
    /// Why the answer should not be leaned on, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caution: Option<Caution>,
}

/// The standard deviations of the parts of an error. Their squares add up to that of `std_error`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Parts {
    /// The noise on the released sums, exact from the coefficients of the answer.
    pub privacy: f64,
    /// The noise on the number of rows.
    pub count: f64,
    /// The random points of the prior, where an answer needs them.
    pub sampling: f64,
    /// What the released moments do not determine: approximation and distributional shift.
    pub approximation: f64,
}

/// Why an answer should not be leaned on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Caution {
    /// The release holds next to nothing about this question: the answer is mostly the prior's.
    Unsupported,
    /// The group is so small that it cannot be told from noise.
    Swamped,
}

impl Estimate {
    /// A value with the parts of its error; the interval is that of a normal law.
    pub fn new(value: f64, parts: Parts) -> Self {
        let std_error = parts.total();
        Self { value, std_error, low: value - Z95 * std_error, high: value + Z95 * std_error, parts, caution: None }
    }

    /// The same within bounds that the truth is known to keep.
    pub fn within(self, low: f64, high: f64) -> Self {
        Self {
            value: self.value.clamp(low, high),
            low: self.low.clamp(low, high),
            high: self.high.clamp(low, high),
            ..self
        }
    }

    /// The same with a caution, unless there is one already.
    pub fn with_caution(self, caution: Option<Caution>) -> Self {
        Self { caution: self.caution.or(caution), ..self }
    }
}

impl Parts {
    /// The standard deviation of all parts together.
    pub fn total(&self) -> f64 {
        [self.privacy, self.count, self.sampling, self.approximation].iter().map(|part| part * part).sum::<f64>().sqrt()
    }
}

/// Estimated sums over all rows of several functions of a row, with the covariance of their errors.
///
/// Everything else (means, variances, correlations, ratios) is a smooth function of such totals; its error follows
/// from its gradient ([`Totals::combine`]).
pub struct Totals {
    /// The sums.
    pub values: Vec<f64>,
    /// By how much each is off if the number of rows is, by its standard deviation.
    pub(crate) count: Vec<f64>,
    pub(crate) covariance: Covariance,
}

/// The covariances of several errors.
pub(crate) struct Covariance {
    size: usize,
    entries: Vec<Entry>,
}

/// One of them, in parts; those of [`Parts`] but for the number of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Entry {
    pub privacy: f64,
    pub sampling: f64,
    pub approximation: f64,
    /// What it would be if nothing had been released.
    pub ignorance: f64,
}

impl Covariance {
    pub fn zeros(size: usize) -> Self {
        Self { size, entries: vec![Entry::default(); size * size] }
    }

    /// That of errors so many times as large.
    pub fn scaled(mut self, times: f64) -> Self {
        let square = times * times;
        for Entry { privacy, sampling, approximation, ignorance } in &mut self.entries {
            [privacy, sampling, approximation, ignorance].into_iter().for_each(|part| *part *= square);
        }
        self
    }
}

impl Index<(usize, usize)> for Covariance {
    type Output = Entry;
    fn index(&self, (i, j): (usize, usize)) -> &Entry {
        &self.entries[i * self.size + j]
    }
}

impl IndexMut<(usize, usize)> for Covariance {
    fn index_mut(&mut self, (i, j): (usize, usize)) -> &mut Entry {
        &mut self.entries[i * self.size + j]
    }
}

/// An answer of which more than this share of the variance under ignorance is left is the prior's, not the release's.
const UNSUPPORTED: f64 = 0.5;

impl Totals {
    /// Totals without error, as of a table that is at hand.
    pub fn exact(values: Vec<f64>) -> Self {
        Self { count: vec![0.0; values.len()], covariance: Covariance::zeros(values.len()), values }
    }

    /// The total of one function.
    pub fn estimate(&self, at: usize) -> Estimate {
        let mut gradient = vec![0.0; self.values.len()];
        gradient[at] = 1.0;
        self.combine(self.values[at], &gradient)
    }

    /// The error of a function of the totals that has this value and this gradient.
    pub fn combine(&self, value: f64, gradient: &[f64]) -> Estimate {
        let mut sum = Entry::default();
        for (i, a) in gradient.iter().enumerate().filter(|(_, a)| **a != 0.0) {
            for (j, b) in gradient.iter().enumerate().filter(|(_, b)| **b != 0.0) {
                let (Entry { privacy, sampling, approximation, ignorance }, ab) = (self.covariance[(i, j)], a * b);
                sum.privacy += ab * privacy;
                sum.sampling += ab * sampling;
                sum.approximation += ab * approximation;
                sum.ignorance += ab * ignorance;
            }
        }
        let deviation = |variance: f64| variance.max(0.0).sqrt();
        let parts = Parts {
            privacy: deviation(sum.privacy),
            count: gradient.iter().zip(&self.count).map(|(a, off)| a * off).sum::<f64>().abs(),
            sampling: deviation(sum.sampling),
            approximation: deviation(sum.approximation),
        };
        let unsupported = sum.approximation > UNSUPPORTED * sum.ignorance.max(0.0);
        let caution = (unsupported && parts.approximation > 0.0).then_some(Caution::Unsupported);
        Estimate::new(value, parts).with_caution(caution)
    }

    /// The ratio of two totals. Where the lower one cannot be told from zero, neither can the ratio be told: it is
    /// marked as swamped.
    pub fn ratio(&self, over: usize, under: usize) -> Estimate {
        let (a, b) = (self.values[over], self.values[under]);
        let mut gradient = vec![0.0; self.values.len()];
        gradient[over] += 1.0 / b;
        gradient[under] -= a / (b * b);
        self.combine(a / b, &gradient).with_caution(self.swamped(under))
    }

    /// The mean over all rows, of which there are so many by the same model: the error of their number does to it only what is
    /// not the same for the total.
    pub fn mean(&self, at: usize, rows: &Estimate) -> Estimate {
        let Estimate { value, parts, caution, .. } = self.estimate(at);
        let mean = value / rows.value;
        let of = |part: f64| part / rows.value;
        let count = of((self.count[at] - mean * rows.parts.count).abs());
        let (privacy, sampling, approximation) = (of(parts.privacy), of(parts.sampling), of(parts.approximation));
        Estimate::new(mean, Parts { privacy, count, sampling, approximation }).with_caution(caution)
    }

    /// Whether a total that ought to be positive cannot be told from zero.
    pub fn swamped(&self, at: usize) -> Option<Caution> {
        let total = self.estimate(at);
        (total.value < Z95 * total.std_error).then_some(Caution::Swamped)
    }
}

/// What estimates totals over all rows of a table: a fit of a release, or, in tests, the table itself.
pub trait Model {
    /// The schema of the table.
    fn schema(&self) -> &Schema;
    /// The sums over all rows of functions of a row, as [`Scalar::weight`](crate::expr::Scalar::weight) counts them.
    fn totals(&self, functions: &[Checked]) -> Totals;
    /// The values of these totals, without their errors.
    fn total_values(&self, functions: &[Checked]) -> Vec<f64> {
        self.totals(functions).values
    }
}

/// Points of the domain.
pub trait Sample {
    /// The schema of the table.
    fn schema(&self) -> &Schema;
    /// How many points there are.
    fn len(&self) -> usize;
    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The values of a function at the points; NaN where it is null.
    fn values(&self, function: &Checked) -> Vec<f64>;
}

/// Random points of the domain with weights under which they stand for the rows of the table.
pub trait WeightedSample: Sample {
    /// The number of rows that the points stand for.
    fn rows(&self) -> f64;
    /// Weights whose mean is 1, for functions of some columns. They give unbiased answers and may be negative.
    fn weights(&self, columns: &[usize]) -> Cow<'_, [f64]>;
    /// Points with weights whose mean is 1 and of which none is negative; they may be other points.
    fn positive(&self) -> Positive<'_>;
    /// The points by which errors are judged: all, or fewer if that is enough.
    fn judges(&self) -> Box<dyn Sample + '_>;
    /// The covariance of the errors with which the points estimate the table's means of functions of some columns, given
    /// by their values at the judges (a row per point, a column per function).
    fn covariance(&self, functions: &Mat<f64>, columns: &[usize]) -> Mat<f64>;
}

/// Points that stand for the rows of the table, none of them with a negative weight.
pub struct Positive<'a> {
    /// The points.
    pub sample: Box<dyn Sample + 'a>,
    /// Weights whose mean is 1.
    pub weights: &'a [f64],
}

impl<S: Sample + ?Sized> Sample for &S {
    fn schema(&self) -> &Schema {
        (**self).schema()
    }

    fn len(&self) -> usize {
        (**self).len()
    }

    fn values(&self, function: &Checked) -> Vec<f64> {
        (**self).values(function)
    }
}
