//! What is shown of a release, whoever shows it: the command line, the report or the page.

use m2m::expr::{Expr, col, find_column, lit};
use m2m::schema::{Kind, Schema};
use m2m::sql::ColumnKind;
use m2m::task::{Ask, Matrix};
use m2m::{Error, Estimate};
use serde_json::{Map, Value, json};

use crate::commands::ask;
use crate::plot::Picture;
use crate::plot::charts::{self, At, Named, Side};
use crate::table;

/// How the numbers of a column are written.
pub fn shown_as(kind: &Kind) -> ColumnKind {
    match kind {
        Kind::Date(_) => ColumnKind::Date,
        Kind::Datetime(_) => ColumnKind::Datetime,
        _ => ColumnKind::Plain,
    }
}

/// How much is found out about a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// What fits on a card.
    Card,
    /// Everything.
    Full,
}

/// One column with its distribution.
pub struct Column {
    pub name: String,
    pub kind: Kind,
    pub count: Estimate,
    pub missing: Estimate,
    /// Mean, standard deviation, skewness.
    pub moments: Vec<(&'static str, Estimate)>,
    pub quantiles: Vec<(f64, Estimate)>,
    /// The rows that have each of the schema's atoms.
    pub atoms: Vec<(f64, Estimate)>,
    pub bars: Vec<Bar>,
    /// The rows below and above the bars, where these do not reach from end to end.
    pub below: Option<Estimate>,
    pub above: Option<Estimate>,
    pub cdf: Vec<(f64, Estimate)>,
}

/// One bar of a histogram.
pub struct Bar {
    pub label: String,
    /// For numbers: where it is drawn from and to.
    pub span: Option<(f64, f64)>,
    pub condition: Expr,
    pub count: Estimate,
}

/// Bars of a histogram on a card, and in full.
const CARD: u32 = 24;
const FULL: u32 = 40;
/// Levels on a card, and in full.
const CARD_LEVELS: usize = 12;
const FULL_LEVELS: usize = 40;
/// Points of a distribution function.
const POINTS: usize = 60;
const QUANTILES: [f64; 7] = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95];

impl Column {
    pub fn read(asked: &Ask<'_>, name: &str, detail: Detail) -> Result<Self, Error> {
        Self::with_bins(asked, name, detail, if detail == Detail::Full { FULL } else { CARD })
    }

    pub fn with_bins(asked: &Ask<'_>, name: &str, detail: Detail, bins: u32) -> Result<Self, Error> {
        let column = &asked.schema().columns()[find_column(asked.schema(), name)?];
        let x = col(column.name.as_str());
        let known = asked.filter(&x.clone().is_not_null())?;
        let mut found = Self {
            name: column.name.clone(),
            kind: column.kind.clone(),
            count: known.count()?,
            missing: asked.filter(&x.clone().is_null())?.count()?,
            moments: Vec::new(),
            quantiles: Vec::new(),
            atoms: Vec::new(),
            bars: Vec::new(),
            below: None,
            above: None,
            cdf: Vec::new(),
        };
        let Some(range) = column.kind.range() else {
            found.bars = level_bars(asked, column, if detail == Detail::Full { FULL_LEVELS } else { CARD_LEVELS })?;
            return Ok(found);
        };
        found.moments.push(("mean", known.mean(&x)?));
        found.moments.push(("std", known.std_dev(&x)?));
        let quantiles: &[f64] = if detail == Detail::Full { &QUANTILES } else { &[0.5] };
        found.quantiles = quantiles.iter().copied().zip(known.quantiles(&x, quantiles)?).collect();
        let (low, high) = window(&known, &column.name, &column.kind)?;
        found.bars = clear_bars(asked, &column.name, &column.kind, (low, high), bins)?;
        let count = |condition: Expr| asked.filter(&condition)?.count();
        if low > range.min() {
            found.below = Some(count(x.clone().lt(lit(low)))?);
        }
        if high < range.max() {
            found.above = Some(count(x.clone().gt(lit(high)))?);
        }
        if detail == Detail::Full {
            found.moments.push(("skewness", known.skewness(&x)?));
            for atom in range.atoms() {
                found.atoms.push((*atom, count(x.clone().eq(lit(*atom)))?));
            }
            let whole = column.kind.is_whole();
            let mut at: Vec<f64> = (0..=POINTS).map(|i| low + (high - low) * i as f64 / POINTS as f64).collect();
            if whole {
                at.iter_mut().for_each(|x| *x = x.round());
                at.dedup();
            }
            found.cdf = at.iter().copied().zip(known.cdf(&x, &at)?).collect();
        }
        Ok(found)
    }

    pub fn shown_as(&self) -> ColumnKind {
        shown_as(&self.kind)
    }

    /// Whether it is a number, a date or a moment.
    pub fn is_numeric(&self) -> bool {
        self.kind.range().is_some()
    }

    /// All numbers that it has but for bars of numbers and the curve.
    pub fn estimates(&self) -> impl Iterator<Item = &Estimate> {
        let levels = self.bars.iter().filter(|bar| bar.span.is_none()).map(|bar| &bar.count);
        let moments = self.moments.iter().map(|(_, estimate)| estimate);
        let quantiles = self.quantiles.iter().map(|(_, estimate)| estimate);
        [&self.count, &self.missing].into_iter().chain(moments).chain(quantiles).chain(levels)
    }

    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        let kind = self.shown_as();
        object.insert("name".into(), json!(self.name));
        object.insert("type".into(), json!(self.kind.name()));
        object.insert("count".into(), worded(&self.count, ColumnKind::Plain));
        object.insert("missing".into(), worded(&self.missing, ColumnKind::Plain));
        let moments = self.moments.iter().map(|(name, estimate)| {
            let kind = if *name == "mean" { kind } else { ColumnKind::Plain };
            ((*name).to_owned(), worded(estimate, kind))
        });
        object.insert("moments".into(), moments.collect::<Map<_, _>>().into());
        let quantiles = self.quantiles.iter().map(|(q, estimate)| json!({ "q": q, "value": worded(estimate, kind) }));
        object.insert("quantiles".into(), quantiles.collect());
        let atoms = self
            .atoms
            .iter()
            .map(|(at, count)| json!({ "at": show(kind, *at), "count": worded(count, ColumnKind::Plain) }));
        object.insert("atoms".into(), atoms.collect());
        let bars = self.bars.iter().map(|bar| match bar.span {
            Some((low, high)) => {
                json!({ "label": bar.label, "low": low, "high": high, "count": worded(&bar.count, ColumnKind::Plain) })
            }
            None => json!({ "label": bar.label, "count": worded(&bar.count, ColumnKind::Plain) }),
        });
        object.insert("histogram".into(), bars.collect());
        for (name, outside) in [("below", &self.below), ("above", &self.above)] {
            if let Some(outside) = outside {
                object.insert(name.into(), worded(outside, ColumnKind::Plain));
            }
        }
        let curve = self.cdf.iter().map(|(x, p)| json!({ "at": x, "share": ask::json(p) }));
        object.insert("cdf".into(), curve.collect());
        Value::Object(object)
    }

    /// The histogram, or bars of levels.
    pub fn histogram(&self) -> Picture {
        let title = format!("How the rows are spread over {}", self.name);
        if !self.is_numeric() {
            return charts::levels(&title, &named(&self.bars));
        }
        charts::histogram(&title, &self.name, self.shown_as(), &at(&self.bars))
    }

    /// The distribution function; nothing for levels.
    pub fn cumulative(&self) -> Option<Picture> {
        let (first, last) = (self.cdf.first()?, self.cdf.last()?);
        let points: Vec<(f64, Option<Estimate>)> = self.cdf.iter().map(|(x, p)| (*x, Some(*p))).collect();
        let title = format!("The share of rows up to each {}", self.name);
        let x = (first.0, last.0, self.shown_as());
        Some(charts::band(&title, [&self.name, "share of rows"], x, Some((0.0, 1.0)), &points, false))
    }

    /// A small histogram.
    pub fn spark(&self) -> Picture {
        let bars: Vec<&Estimate> = self.bars.iter().map(|bar| &bar.count).collect();
        charts::spark(&format!("Distribution of {}", self.name), &bars)
    }
}

fn show(kind: ColumnKind, x: f64) -> String {
    kind.show(x).unwrap_or_else(|| table::number(x))
}

fn at(bars: &[Bar]) -> Vec<At<'_>> {
    bars.iter()
        .filter_map(|bar| {
            let (low, high) = bar.span?;
            let tip = format!("{}: {} rows", bar.label, table::estimate(&bar.count, ColumnKind::Plain));
            Some(At { low, high, value: &bar.count, tip })
        })
        .collect()
}

fn named(bars: &[Bar]) -> Vec<Named<'_>> {
    let words = |bar: &Bar| table::estimate(&bar.count, ColumnKind::Plain);
    bars.iter().map(|bar| Named { name: bar.label.clone(), value: &bar.count, words: words(bar) }).collect()
}

/// An estimate as JSON with a text as people read it.
pub fn worded(estimate: &Estimate, kind: ColumnKind) -> Value {
    let mut json = ask::json(estimate);
    for (name, number) in [("value", estimate.value), ("low", estimate.low), ("high", estimate.high)] {
        if let Some(text) = kind.show(number) {
            json[name] = json!(text);
        } else if !number.is_finite() {
            json[name] = Value::Null;
        }
    }
    json["text"] = json!(table::estimate(estimate, kind));
    json
}

/// Where the rows of a numeric column are: the whole range, unless nearly all are in less than half of it.
fn window(known: &Ask<'_>, name: &str, kind: &Kind) -> Result<(f64, f64), Error> {
    const CELLS: u32 = 64;
    /// What may lie beyond either end.
    const BEYOND: f64 = 0.005;
    let range = kind.range().expect("a numeric column has a range");
    let (min, max) = (range.min(), range.max());
    let cells = number_bins(name, kind, min, max, CELLS);
    let rows = |bin: &Bin| Ok(known.filter(&bin.condition)?.total_values(&[lit(1.0)])?[0].max(0.0));
    let counts: Vec<f64> = cells.iter().map(rows).collect::<Result<_, Error>>()?;
    let total: f64 = counts.iter().sum();
    let first_beyond = |counts: &mut dyn Iterator<Item = &f64>| {
        let mut sum = 0.0;
        counts
            .take_while(|count| {
                sum += *count;
                sum <= BEYOND * total
            })
            .count()
    };
    let (below, above) = (first_beyond(&mut counts.iter()), first_beyond(&mut counts.iter().rev()));
    if total <= 0.0 || 2 * (below + above) < cells.len() {
        return Ok((min, max));
    }
    let (Some(first), Some(last)) = (cells.get(below), cells.get(cells.len() - 1 - above)) else {
        return Ok((min, max));
    };
    let (low, high) = (first.span.0, last.span.1);
    // Out to round numbers, and to an end that is near.
    let step = 10f64.powf((0.25 * (high - low)).log10().floor());
    let step = if kind.is_whole() { step.max(1.0) } else { step };
    let near = 0.1 * (high - low);
    let low = ((low / step).floor() * step).max(min);
    let high = ((high / step).ceil() * step).min(max);
    Ok((if low - min <= near { min } else { low }, if max - high <= near { max } else { high }))
}

/// Bars that are no narrower than the release can tell, of so many or of fewer.
fn clear_bars(asked: &Ask<'_>, name: &str, kind: &Kind, ends: (f64, f64), most: u32) -> Result<Vec<Bar>, Error> {
    const FEWEST: u32 = 8;
    let mut bins = most;
    loop {
        let bars = number_bars(asked, name, kind, ends.0, ends.1, bins)?;
        let largest = bars.iter().map(|bar| bar.count.value).fold(0.0, f64::max);
        let tall: Vec<&Estimate> = bars.iter().map(|bar| &bar.count).filter(|c| c.value > 0.2 * largest).collect();
        let (height, error) =
            tall.iter().fold((0.0, 0.0), |(value, error), bar| (value + bar.value, error + bar.std_error));
        if error <= CLEAR * height || bins <= FEWEST {
            return Ok(bars);
        }
        bins = (bins * 2 / 3).max(FEWEST);
    }
}

/// A whole width of at most so many bars, up to twice as wide as need be, that leaves the last one as full as can be: half a
/// bar looks like half the rows.
fn whole_width(span: f64, bins: u32) -> f64 {
    let least = (span / f64::from(bins)).ceil().max(1.0);
    let filled = |width: f64| if span % width == 0.0 { 1.0 } else { span % width / width };
    let widths = (0..=(least as u32).min(1000)).map(|more| least + f64::from(more));
    widths.fold(least, |best, width| if filled(width) > filled(best) + 1e-9 { width } else { best })
}

/// The relative error up to which bars are worth drawing apart.
const CLEAR: f64 = 0.15;

/// Bars of equal width over an interval of a numeric column.
fn number_bars(asked: &Ask<'_>, name: &str, kind: &Kind, low: f64, high: f64, bins: u32) -> Result<Vec<Bar>, Error> {
    let bar = |Bin { label, span, condition }| {
        let count = asked.filter(&condition)?.count()?;
        Ok(Bar { label, span: Some(span), condition, count })
    };
    number_bins(name, kind, low, high, bins).into_iter().map(bar).collect()
}

/// What is counted in a bar.
struct Bin {
    label: String,
    span: (f64, f64),
    condition: Expr,
}

/// Bins of equal width over an interval of a numeric column.
fn number_bins(name: &str, kind: &Kind, low: f64, high: f64, bins: u32) -> Vec<Bin> {
    let x = || col(name);
    let whole = kind.is_whole();
    let span = high - low + f64::from(whole);
    let width = if whole { whole_width(span, bins) } else { span / f64::from(bins) };
    let count = if whole { (span / width).ceil() as u32 } else { bins };
    let as_shown = shown_as(kind);
    (0..count)
        .map(|bin| {
            let from = low + f64::from(bin) * width;
            let last = bin + 1 == count;
            let to = match (whole, last) {
                (true, _) => (from + width - 1.0).min(high),
                (false, true) => high,
                (false, false) => from + width,
            };
            let condition = match (whole, last) {
                (true, _) => x().between(lit(from), lit(to)),
                (false, true) => x().ge(lit(from)).and(x().le(lit(to))),
                (false, false) => x().ge(lit(from)).and(x().lt(lit(to))),
            };
            let name = |x: f64| if whole { kind.show(x) } else { show(as_shown, x) };
            let label = if from == to { name(from) } else { format!("{} to {}", name(from), name(to)) };
            let span = if whole { (from - 0.5, to + 0.5) } else { (from, to) };
            Bin { label, span, condition }
        })
        .collect()
}

/// The largest levels of a column, the rest in one bar.
fn level_bars(asked: &Ask<'_>, column: &m2m::schema::Column, most: usize) -> Result<Vec<Bar>, Error> {
    let x = || col(column.name.as_str());
    let mut conditions: Vec<(String, Expr)> = match &column.kind {
        Kind::Category(levels) => levels.iter().map(|level| (level.clone(), x().eq(lit(level.as_str())))).collect(),
        _ => vec![("false".into(), x().eq(lit(false))), ("true".into(), x().eq(lit(true)))],
    };
    let mut bars = Vec::with_capacity(conditions.len());
    for (label, condition) in conditions.drain(..) {
        let count = asked.filter(&condition)?.count()?;
        bars.push(Bar { label, span: None, condition, count });
    }
    // Few levels may have an order of their own; of many, people look for the largest.
    if bars.len() > CARD_LEVELS {
        bars.sort_by(|a, b| b.count.value.total_cmp(&a.count.value));
    }
    if bars.len() > most {
        let rest = bars.split_off(most - 1);
        let condition = x().one_of(rest.iter().map(|bar| lit(bar.label.as_str())));
        let count = asked.filter(&condition)?.count()?;
        bars.push(Bar { label: format!("{} other levels", rest.len()), span: None, condition, count });
    }
    Ok(bars)
}

/// The correlations of numeric columns.
pub struct Correlations(pub Matrix);

/// A heat map of more is not read by anybody.
pub const MOST_CORRELATED: usize = 60;

impl Correlations {
    pub fn read(asked: &Ask<'_>, names: &[String]) -> Result<Self, Error> {
        let columns: Vec<&str> = names.iter().map(String::as_str).take(MOST_CORRELATED).collect();
        Ok(Self(asked.correlation(&columns)?))
    }

    pub fn picture(&self) -> Picture {
        let entry = |i: usize, j: usize| {
            let value = self.0.entries[i][j];
            (value, table::estimate(&value, ColumnKind::Plain))
        };
        charts::correlations("Correlations of the numeric columns", &self.0.names, entry)
    }

    pub fn to_json(&self) -> Value {
        let rows: Vec<Vec<Value>> = self
            .0
            .entries
            .iter()
            .map(|row| row.iter().map(|entry| worded(entry, ColumnKind::Plain)).collect())
            .collect();
        json!({ "columns": self.0.names, "matrix": rows })
    }
}

/// Two columns together.
pub struct Pair {
    x: Column,
    y: Column,
    /// `[x][y]`.
    cells: Vec<Vec<Estimate>>,
    /// The mean of y (its share of true, if it is a truth) for each bar of x; absent where noise swamps the rows.
    means: Vec<Option<Estimate>>,
}

/// Cells along each axis of two columns.
const GRID: u32 = 16;

impl Pair {
    pub fn read(asked: &Ask<'_>, x: &str, y: &str) -> Result<Self, Error> {
        if x == y {
            return Err(Error::Question(format!("`{x}` is given twice; choose two columns")));
        }
        let x = Column::with_bins(asked, x, Detail::Card, GRID)?;
        let y = Column::with_bins(asked, y, Detail::Card, GRID)?;
        let mut cells = Vec::with_capacity(x.bars.len());
        let mut means = Vec::with_capacity(x.bars.len());
        let value = match &y.kind {
            Kind::Category(_) => None,
            Kind::Boolean => Some(Expr::Case {
                branches: vec![
                    (col(y.name.as_str()).eq(lit(true)), lit(1.0)),
                    (col(y.name.as_str()).eq(lit(false)), lit(0.0)),
                ],
                otherwise: None,
            }),
            _ => Some(col(y.name.as_str())),
        };
        for bar in &x.bars {
            let part = asked.filter(&bar.condition)?;
            cells
                .push(y.bars.iter().map(|other| part.filter(&other.condition)?.count()).collect::<Result<_, Error>>()?);
            if let Some(value) = &value {
                let mean = part.mean(value)?;
                means.push((mean.caution.is_none() && mean.value.is_finite()).then_some(mean));
            }
        }
        Ok(Self { x, y, cells, means })
    }

    fn side(column: &Column) -> Side {
        match column.bars.first().and_then(|bar| bar.span) {
            Some((first, _)) => {
                let ends = column.bars.iter().filter_map(|bar| bar.span).map(|(_, high)| high);
                Side::Numbers { edges: std::iter::once(first).chain(ends).collect(), kind: column.shown_as() }
            }
            None => Side::Levels(column.bars.iter().map(|bar| bar.label.clone()).collect()),
        }
    }

    /// Counts over both columns.
    pub fn density(&self) -> Picture {
        let cell = |(x, column): (usize, &Vec<Estimate>)| {
            let tip = |(y, count): (usize, &Estimate)| {
                let (one, two) = (&self.x.bars[x].label, &self.y.bars[y].label);
                let words = table::estimate(count, ColumnKind::Plain);
                (*count, format!("{} {one}, {} {two}: {words} rows", self.x.name, self.y.name))
            };
            column.iter().enumerate().map(tip).collect::<Vec<_>>()
        };
        let cells: Vec<Vec<(Estimate, String)>> = self.cells.iter().enumerate().map(cell).collect();
        let title = format!("How many rows have each {} and {}", self.x.name, self.y.name);
        let sides = [Self::side(&self.x), Self::side(&self.y)];
        charts::grid(&title, [&self.x.name, &self.y.name], [&sides[0], &sides[1]], &cells)
    }

    /// The mean of y along x; nothing if y has levels.
    pub fn conditional(&self) -> Option<Picture> {
        if self.means.is_empty() {
            return None;
        }
        let (kind, what) = match self.y.kind {
            Kind::Boolean => (ColumnKind::Plain, "share of true"),
            _ => (self.y.shown_as(), "mean"),
        };
        let title = format!("The {what} of {} for each {}", self.y.name, self.x.name);
        let label = format!("{what} of {}", self.y.name);
        if self.x.is_numeric() && kind == ColumnKind::Plain {
            let points: Vec<(f64, Option<Estimate>)> = self
                .x
                .bars
                .iter()
                .zip(&self.means)
                .filter_map(|(bar, mean)| bar.span.map(|(low, high)| (0.5 * (low + high), *mean)))
                .collect();
            let ends = (self.x.bars[0].span?.0, self.x.bars.last()?.span?.1, self.x.shown_as());
            return Some(charts::band(&title, [&self.x.name, &label], ends, None, &points, true));
        }
        let all: Vec<Named<'_>> = self
            .x
            .bars
            .iter()
            .zip(&self.means)
            .filter_map(|(bar, mean)| {
                let mean = mean.as_ref()?;
                Some(Named { name: bar.label.clone(), value: mean, words: table::estimate(mean, kind) })
            })
            .collect();
        Some(charts::intervals(&title, &label, &all, false))
    }

    pub fn to_json(&self) -> Value {
        let kind = if self.y.kind == Kind::Boolean { ColumnKind::Plain } else { self.y.shown_as() };
        let rows: Vec<Value> = self
            .x
            .bars
            .iter()
            .enumerate()
            .map(|(at, bar)| {
                let cells: Vec<Value> = self.cells[at].iter().map(|count| worded(count, ColumnKind::Plain)).collect();
                let mut row = json!({ "x": bar.label, "rows": worded(&bar.count, ColumnKind::Plain), "cells": cells });
                if let Some(mean) = self.means.get(at) {
                    row["mean"] = mean.as_ref().map_or(Value::Null, |mean| worded(mean, kind));
                }
                row
            })
            .collect();
        let labels: Vec<&str> = self.y.bars.iter().map(|bar| bar.label.as_str()).collect();
        json!({ "x": self.x.name, "y": self.y.name, "y_labels": labels, "groups": rows })
    }
}

/// The names of all numeric columns.
pub fn numeric(schema: &Schema) -> Vec<String> {
    let numeric = schema.columns().iter().filter(|column| column.kind.range().is_some());
    numeric.map(|column| column.name.clone()).collect()
}
