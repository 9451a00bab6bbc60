//! Histograms, distribution functions and quantiles.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::{Ask, monotone};
use crate::estimate::{Estimate, Model, Parts, Z95};
use crate::expr::{Checked, Expr, Scalar, col, find_column, lit};
use crate::schema::Kind;
use crate::stream::PublicStream;
use crate::{Error, Schema};

/// One bar of a histogram.
#[derive(Clone, Debug)]
pub struct Bin {
    /// What is counted, in words: a level, or an interval.
    pub label: String,
    /// For numbers, where it begins and ends. Whole numbers include both ends; others include `low` only, but for the
    /// last bin.
    pub bounds: Option<(f64, f64)>,
    /// How many rows.
    pub count: Estimate,
}

impl Ask<'_> {
    /// How many rows fall into each of `bins` equally wide intervals of a numeric column, or have each level. Counts
    /// are not negative and add up to the rows that have a value.
    pub fn histogram(&self, column: &str, bins: u32) -> Result<Vec<Bin>, Error> {
        let conditions = self.bins(column, bins)?;
        let functions: Vec<Expr> = conditions.iter().map(|(_, _, condition)| condition.clone()).collect();
        let mut counts = self.apart(&functions)?;
        let known = self.filter(&col(column).is_not_null())?.count()?;
        let shares: Vec<f64> = counts.iter().map(|count| count.value / known.value.max(1.0)).collect();
        for (count, share) in counts.iter_mut().zip(crate::fit::simplex(&shares)) {
            count.value = share * known.value;
            *count = count.within(0.0, f64::INFINITY);
            count.low = count.low.min(count.value);
            count.high = count.high.max(count.value);
        }
        Ok(conditions.into_iter().zip(counts).map(|((label, bounds, _), count)| Bin { label, bounds, count }).collect())
    }

    /// Counts over the cells of two columns, row by row of the first.
    pub fn histogram2(&self, columns: [&str; 2], bins: [u32; 2]) -> Result<Vec<Vec<Bin>>, Error> {
        let second = self.bins(columns[1], bins[1])?;
        self.bins(columns[0], bins[0])?
            .into_iter()
            .map(|(label, _, condition)| {
                let functions: Vec<Expr> =
                    second.iter().map(|(_, _, other)| condition.clone().and(other.clone())).collect();
                Ok(self
                    .apart(&functions)?
                    .into_iter()
                    .zip(&second)
                    .map(|(count, (other, bounds, _))| Bin {
                        label: format!("{label}, {other}"),
                        bounds: *bounds,
                        count: count.within(0.0, f64::INFINITY),
                    })
                    .collect())
            })
            .collect()
    }

    /// The part of the rows with a value that are at most each of some values: between 0 and 1, and not decreasing.
    pub fn cdf(&self, of: &Expr, at: &[f64]) -> Result<Vec<Estimate>, Error> {
        self.number(of)?;
        let mut order: Vec<usize> = (0..at.len()).collect();
        order.sort_by(|a, b| at[*a].total_cmp(&at[*b]));
        let known = of.clone().is_not_null();
        let share = |i: &usize| Ok(self.totals(&[of.clone().le(lit(at[*i])), known.clone()])?.ratio(0, 1));
        let raw: Vec<Estimate> = order.iter().map(share).collect::<Result<_, Error>>()?;
        let rising = monotone(&raw.iter().map(|estimate| estimate.value).collect::<Vec<_>>());
        let mut sorted: Vec<Estimate> = raw
            .iter()
            .zip(rising)
            .map(|(estimate, value)| {
                let shift = value - estimate.value;
                Estimate { value, low: estimate.low + shift, high: estimate.high + shift, ..*estimate }.within(0.0, 1.0)
            })
            .collect();
        for i in 0..order.len() {
            while order[i] != i {
                let to = order[i];
                sorted.swap(i, to);
                order.swap(i, to);
            }
        }
        Ok(sorted)
    }

    /// The value below which a part q of the rows lie.
    pub fn quantile(&self, of: &Expr, q: f64) -> Result<Estimate, Error> {
        Ok(self.quantiles(of, &[q])?[0])
    }

    /// The values below which some parts of the rows lie: as [`Ask::quantile`], with the work that they share done once.
    pub fn quantiles(&self, of: &Expr, parts: &[f64]) -> Result<Vec<Estimate>, Error> {
        self.number(of)?;
        let (of, filter) = (of.check(self.schema())?, self.filter.check_condition(self.schema())?);
        let quantiles = Quantiles::new(self.model, &of, &filter);
        parts.iter().map(|q| quantiles.at(*q)).collect()
    }

    /// The median.
    pub fn median(&self, of: &Expr) -> Result<Estimate, Error> {
        self.quantile(of, 0.5)
    }

    /// The distance between the quartiles. Its error takes those of the quartiles as independent.
    pub fn interquartile_range(&self, of: &Expr) -> Result<Estimate, Error> {
        let (low, high) = (self.quantile(of, 0.25)?, self.quantile(of, 0.75)?);
        let both = |a: f64, b: f64| (a * a + b * b).sqrt();
        let parts = Parts {
            privacy: both(low.parts.privacy, high.parts.privacy),
            count: both(low.parts.count, high.parts.count),
            sampling: both(low.parts.sampling, high.parts.sampling),
            approximation: both(low.parts.approximation, high.parts.approximation),
        };
        let caution = low.caution.or(high.caution);
        Ok(Estimate::new(high.value - low.value, parts).within(0.0, f64::INFINITY).with_caution(caution))
    }

    /// Totals one by one, without the covariances between them.
    fn apart(&self, functions: &[Expr]) -> Result<Vec<Estimate>, Error> {
        functions.iter().map(|function| Ok(self.totals(std::slice::from_ref(function))?.estimate(0))).collect()
    }

    /// The bars of a histogram: label, bounds, condition.
    #[allow(clippy::type_complexity)]
    fn bins(&self, column: &str, bins: u32) -> Result<Vec<(String, Option<(f64, f64)>, Expr)>, Error> {
        let schema = self.schema();
        let place = find_column(schema, column)?;
        let kind = &schema.columns()[place].kind;
        let x = || col(column);
        if !(1..=10_000).contains(&bins) {
            return Err(Error::Question(format!("{bins} bins; give a number from 1 to 10000")));
        }
        Ok(match (kind, kind.range()) {
            (Kind::Boolean, _) => {
                vec![("false".into(), None, x().eq(lit(false))), ("true".into(), None, x().eq(lit(true)))]
            }
            (Kind::Category(levels), _) => {
                levels.iter().map(|level| (level.clone(), None, x().eq(lit(level.as_str())))).collect()
            }
            (_, Some(range)) => {
                let whole = kind.is_whole();
                let span = range.max() - range.min() + if whole { 1.0 } else { 0.0 };
                let width = if whole { (span / f64::from(bins)).ceil().max(1.0) } else { span / f64::from(bins) };
                let count = if whole { (span / width).ceil() as u32 } else { bins };
                (0..count)
                    .map(|bin| {
                        let low = range.min() + f64::from(bin) * width;
                        let last = bin + 1 == count;
                        let high = match (whole, last) {
                            (true, _) => (low + width - 1.0).min(range.max()),
                            (false, true) => range.max(),
                            (false, false) => low + width,
                        };
                        let inside = if whole {
                            x().between(lit(low), lit(high))
                        } else if last {
                            x().ge(lit(low))
                        } else {
                            x().ge(lit(low)).and(x().lt(lit(high)))
                        };
                        let label = if low == high {
                            kind.show(low)
                        } else {
                            format!("{} to {}", kind.show(low), kind.show(high))
                        };
                        (label, Some((low, high)), inside)
                    })
                    .collect()
            }
            (_, None) => unreachable!("a column has a range or codes"),
        })
    }
}

/// Thresholds in each of the two passes of a quantile.
const THRESHOLDS: usize = 48;

/// In the second pass errors are found at one of so many thresholds, and lie on lines between: they take long.
const STRIDE: usize = 6;

/// The value below which a part q of the rows that meet a condition lie, with an interval by inverting the bounds of the
/// distribution function.
pub fn quantile(model: &dyn Model, of: &Checked, filter: &Checked, q: f64) -> Result<Estimate, Error> {
    Quantiles::new(model, of, filter).at(q)
}

/// The quantiles of a function over the rows that meet a condition.
struct Quantiles<'a> {
    shares: Shares<'a>,
    whole: bool,
    /// The distribution function from end to end.
    coarse: Curve,
    /// A second look between two of its thresholds, by the place of the later one.
    fine: RefCell<HashMap<usize, Rc<Curve>>>,
}

impl<'a> Quantiles<'a> {
    fn new(model: &'a dyn Model, of: &'a Checked, filter: &'a Checked) -> Self {
        let (low, high, whole) = range_of(model.schema(), of);
        let shares = Shares { model, of, known: of.known().both(filter), filter };
        let coarse = shares.curve(thresholds(low, high, whole), 1);
        Self { shares, whole, coarse, fine: RefCell::default() }
    }

    fn at(&self, q: f64) -> Result<Estimate, Error> {
        if !(0.0..=1.0).contains(&q) {
            return Err(Error::Question(format!("a quantile of {q}; give a part between 0 and 1, such as 0.5")));
        }
        let value = self.crossing(q, 0.0);
        let (below, above) = (self.crossing(q, Z95).min(value), self.crossing(q, -Z95).max(value));
        let std_error = (above - below) / (2.0 * Z95);
        let near = self.shares.at_most(value);
        let share = |part: f64| if near.std_error > 0.0 { part / near.std_error * std_error } else { 0.0 };
        let parts = Parts {
            privacy: share(near.parts.privacy),
            count: share(near.parts.count),
            sampling: share(near.parts.sampling),
            approximation: share(near.parts.approximation),
        };
        Ok(Estimate { value, std_error, low: below, high: above, parts, caution: near.caution })
    }

    /// Where the distribution function, raised by so many of its standard errors, reaches q.
    fn crossing(&self, q: f64, raised: f64) -> f64 {
        match self.coarse.reaching(q, raised) {
            // A part of the rows that large lies at the lower end.
            0 => self.coarse.at[0],
            i => self.between(i).crossing(q, raised, self.whole),
        }
    }

    /// The distribution function between a threshold and the one before it.
    fn between(&self, i: usize) -> Rc<Curve> {
        let look = || {
            let at = thresholds(self.coarse.at[i - 1], self.coarse.at[i], self.whole);
            Rc::new(self.shares.curve(at, STRIDE))
        };
        self.fine.borrow_mut().entry(i).or_insert_with(look).clone()
    }
}

/// Of the rows that meet a condition and for which a function has a value, the parts that are at most some threshold.
struct Shares<'a> {
    model: &'a dyn Model,
    of: &'a Checked,
    known: Checked,
    filter: &'a Checked,
}

impl Shares<'_> {
    fn at_most(&self, threshold: f64) -> Estimate {
        self.model.totals(&self.functions(threshold)).ratio(0, 1)
    }

    /// The same without its error.
    fn value(&self, threshold: f64) -> f64 {
        let values = self.model.total_values(&self.functions(threshold));
        values[0] / values[1]
    }

    fn functions(&self, threshold: f64) -> [Checked; 2] {
        [self.of.at_most(threshold).both(self.filter), self.known.clone()]
    }

    /// The distribution function at some thresholds, with errors that are found at one of `stride` and at both ends. They
    /// are asked for one by one: what they have to do with each other is not needed, and takes long to find out.
    fn curve(&self, at: Vec<f64>, stride: usize) -> Curve {
        let last = at.len() - 1;
        let (mut values, mut errors) = (Vec::with_capacity(at.len()), Vec::with_capacity(at.len()));
        for (i, threshold) in at.iter().enumerate() {
            if i % stride != 0 && i != last {
                values.push(self.value(*threshold));
                continue;
            }
            let share = self.at_most(*threshold);
            values.push(share.value);
            let (from, before) = (errors.len(), errors.last().copied().unwrap_or(share.std_error));
            for j in from..=i {
                let part = (j + 1 - from) as f64 / (i + 1 - from) as f64;
                errors.push(before + part * (share.std_error - before));
            }
        }
        Curve { at, values: monotone(&values), errors }
    }
}

/// An estimated distribution function at some thresholds, and its standard errors.
struct Curve {
    at: Vec<f64>,
    values: Vec<f64>,
    errors: Vec<f64>,
}

impl Curve {
    /// The first threshold at which the curve, raised by so many of its errors, reaches q; the last if none does.
    fn reaching(&self, q: f64, raised: f64) -> usize {
        (0..self.at.len()).find(|i| self.raised(*i, raised) >= q).unwrap_or(self.at.len() - 1)
    }

    /// Where it does so, on the line between that threshold and the one before.
    fn crossing(&self, q: f64, raised: f64, whole: bool) -> f64 {
        let i = self.reaching(q, raised);
        if whole || i == 0 {
            return self.at[i];
        }
        let (left, below) = (self.at[i - 1], self.raised(i - 1, raised));
        let rise = self.raised(i, raised) - below;
        let part = if rise > 0.0 { ((q - below) / rise).clamp(0.0, 1.0) } else { 1.0 };
        left + part * (self.at[i] - left)
    }

    fn raised(&self, i: usize, by: f64) -> f64 {
        self.values[i] + by * self.errors[i]
    }
}

/// Thresholds from one end of an interval to the other, equally far apart.
fn thresholds(low: f64, high: f64, whole: bool) -> Vec<f64> {
    if whole {
        let step = ((high - low) / THRESHOLDS as f64).ceil().max(1.0);
        let mut all: Vec<f64> = (0..).map(|i| low + f64::from(i) * step).take_while(|x| *x < high).collect();
        all.push(high);
        return all;
    }
    (0..=THRESHOLDS).map(|i| low + (high - low) * i as f64 / THRESHOLDS as f64).collect()
}

/// The range of an expression: that of a plain column, or what random records of the domain show; and whether its values
/// are whole numbers.
fn range_of(schema: &Schema, of: &Checked) -> (f64, f64, bool) {
    if let Some(column) = of.plain_column() {
        let kind = &schema.columns()[column].kind;
        if let Some(range) = kind.range() {
            return (range.min(), range.max(), kind.is_whole());
        }
    }
    const TRIES: usize = 4096;
    let mut stream = PublicStream::new("range", 0);
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for _ in 0..TRIES {
        let draws: Vec<f64> = schema.columns().iter().map(|_| 1.1 * stream.uniform() - 0.05).collect();
        let value = of.value(&|column| {
            let kind = &schema.columns()[column].kind;
            match (kind, kind.range()) {
                (_, Some(range)) => {
                    let x = range.value(draws[column].clamp(0.0, 1.0));
                    Scalar::Number(if kind.is_whole() { x.round() } else { x })
                }
                (Kind::Boolean, _) => Scalar::Boolean(draws[column] > 0.5),
                (_, None) => {
                    let levels = kind.codes().expect("a column has a range or codes") - 2;
                    Scalar::Text(kind.label(((draws[column] * f64::from(levels)) as u32).min(levels - 1)))
                }
            }
        });
        if let Scalar::Number(x) = value {
            low = low.min(x);
            high = high.max(x);
        }
    }
    if low < high { (low, high, false) } else { (low.min(0.0), high.max(low + 1.0).max(1.0), false) }
}
