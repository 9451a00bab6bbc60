//! Synthetic rows: a table in the image of the one behind a release.
//!
//! ```text
//! Fit ──► random points, none of negative weight ──► raked to the release's answers about single columns
//!                                                                    │
//!                     Arrow batches, CSV, Parquet ◄── resampled, redrawn within cells (or handed out with weights)
//! ```
//!
//! Everything here is post-processing: rows are drawn from what the release says, no row is anybody's, and drawing them
//! costs no privacy. What the release does not know (an effect of four columns together, the shape within a bin) the rows
//! do not have either.
//!
//! ```no_run
//! use m2m::fit::{Fit, Options};
//! use m2m::synth::Synthesis;
//!
//! let release = m2m::Release::open("table.m2m")?;
//! let fit = Fit::new(&release, Options::default())?;
//! for batch in Synthesis::new(&fit)?.rows(10_000, 0) {
//!     println!("{} rows", batch.num_rows());
//! }
//! # Ok::<(), m2m::Error>(())
//! ```

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Float64Type, Int64Type, TimestampMillisecondType};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use arrow_schema::{DataType, Field, SchemaRef, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::estimate::{Sample, WeightedSample};
use crate::expr::{Checked, Expr, Scalar, col, lit, value_of};
use crate::file::{self, Mode};
use crate::fit::{Fit, Points, simplex};
use crate::panel::Value;
use crate::schema::{Column, Kind, Range};
use crate::stream::PublicStream;
use crate::{Error, Schema};

/// Rows of a batch, at most.
const BATCH: usize = 65_536;
/// Rows that can be asked for.
pub const MOST_ROWS: usize = 100_000_000;
/// Cells into which the values of a numeric column are cut for raking.
const CELLS: usize = 64;
const STEPS: usize = 40;
const SWEEPS: usize = 12;

/// Points that stand for the table, ready to be handed out as rows.
pub struct Synthesis<'f> {
    fit: &'f Fit,
    points: Arc<Points>,
    schema: SchemaRef,
    /// For each point; they add up to the number of rows that the points stand for.
    weights: Vec<f64>,
}

impl<'f> Synthesis<'f> {
    /// Rows in the image of all rows.
    pub fn new(fit: &'f Fit) -> Result<Self, Error> {
        let (points, mut weights) = fit.row_points().clone();
        rake(fit, &points, &mut weights)?;
        let scale = fit.rows() / weights.iter().sum::<f64>();
        weights.iter_mut().for_each(|weight| *weight *= scale);
        let fields: Vec<Field> = Sample::schema(fit).columns().iter().map(field).collect();
        Ok(Self { fit, points, schema: Arc::new(arrow_schema::Schema::new(fields)), weights })
    }

    /// Rows in the image of those that meet a condition.
    pub fn filter(mut self, condition: &Expr) -> Result<Self, Error> {
        let condition = condition.check_condition(Sample::schema(self.fit))?;
        let meets = self.points.numbers(Sample::schema(self.fit), &condition);
        self.weights.iter_mut().zip(meets).for_each(|(weight, meets)| *weight *= f64::from(meets == 1.0));
        if self.weights.iter().all(|weight| *weight == 0.0) {
            return Err(Error::Question("no synthetic row meets the condition; ask about more rows".into()));
        }
        Ok(self)
    }

    /// The columns of the rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many rows of the table the points stand for.
    pub fn population(&self) -> f64 {
        self.weights.iter().sum()
    }

    /// How many equal weights would say as much as these do: many more rows than this repeat each other.
    pub fn effective(&self) -> f64 {
        self.population().powi(2) / self.weights.iter().map(|weight| weight * weight).sum::<f64>()
    }

    /// So many rows, all of the same weight. The same seed gives the same rows.
    ///
    /// Points are taken as often as their weights say (systematic resampling: a point of weight w comes ⌊w⌋ or ⌈w⌉ times),
    /// in random order, and continuous values are drawn anew within the cell of the prior that they were in.
    pub fn rows(&self, count: usize, seed: u64) -> impl Iterator<Item = RecordBatch> + use<'_, 'f> {
        let mut stream = PublicStream::new("synth", seed);
        let mut chosen = resample(&self.weights, count, &mut stream);
        for i in (1..chosen.len()).rev() {
            chosen.swap(i, stream.below(i as u64 + 1) as usize);
        }
        (0..count).step_by(BATCH).map(move |from| {
            let part = &chosen[from..(from + BATCH).min(count)];
            self.batch(part, |column, value| self.fit.redrawn(column, value, &mut stream))
        })
    }

    /// The same as values of each column.
    pub(crate) fn values(&self, count: usize, seed: u64) -> Vec<Vec<Value>> {
        let mut stream = PublicStream::new("synth", seed);
        let chosen = resample(&self.weights, count, &mut stream);
        let record = |point: &u32| self.points.record(*point as usize);
        (0..self.schema.fields().len())
            .map(|column| {
                let redrawn = |point| self.fit.redrawn(column, record(point).value(column), &mut stream);
                chosen.iter().map(redrawn).collect()
            })
            .collect()
    }

    /// The points themselves, and for each batch their weights: how many rows of the table each stands for. Points without
    /// weight are left out.
    pub fn weighted(&self) -> impl Iterator<Item = (RecordBatch, Vec<f64>)> + use<'_, 'f> {
        let kept: Vec<u32> = (0..self.weights.len() as u32).filter(|at| self.weights[*at as usize] > 0.0).collect();
        (0..kept.len()).step_by(BATCH).map(move |from| {
            let part = &kept[from..(from + BATCH).min(kept.len())];
            let weights = part.iter().map(|at| self.weights[*at as usize]).collect();
            (self.batch(part, |_, value| value), weights)
        })
    }

    /// The weighted points with their weights in a last column, which is called `weight` or, where the table has one of
    /// that name, `row_weight` and so on.
    pub fn weighted_batches(&self) -> (SchemaRef, impl Iterator<Item = RecordBatch> + use<'_, 'f>) {
        let mut name = "weight".to_owned();
        while self.schema.field_with_name(&name).is_ok() {
            name = format!("row_{name}");
        }
        let mut fields: Vec<Field> = self.schema.fields().iter().map(|field| field.as_ref().clone()).collect();
        fields.push(Field::new(name, DataType::Float64, false));
        let schema: SchemaRef = Arc::new(arrow_schema::Schema::new(fields));
        let same = schema.clone();
        let batches = self.weighted().map(move |(batch, weights)| {
            let mut columns = batch.columns().to_vec();
            columns.push(Arc::new(Float64Array::from(weights)));
            RecordBatch::try_new(same.clone(), columns).expect("a weight for each row")
        });
        (schema, batches)
    }

    fn batch(&self, points: &[u32], mut value: impl FnMut(usize, Value) -> Value) -> RecordBatch {
        let schema = Sample::schema(self.fit);
        let columns: Vec<ArrayRef> = schema
            .columns()
            .iter()
            .enumerate()
            .map(|(at, column)| {
                let values = points.iter().map(|point| value(at, self.points.record(*point as usize).value(at)));
                array(schema, at, &column.kind, values)
            })
            .collect();
        RecordBatch::try_new(self.schema.clone(), columns).expect("columns as the schema says")
    }
}

/// How a column is written.
fn field(column: &Column) -> Field {
    let kind = match column.kind {
        Kind::Number(_) => DataType::Float64,
        Kind::Integer(_) => DataType::Int64,
        Kind::Date(_) => DataType::Date32,
        Kind::Datetime(_) => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        Kind::Boolean => DataType::Boolean,
        Kind::Category(_) => DataType::Utf8,
    };
    Field::new(&column.name, kind, true)
}

fn array(schema: &Schema, at: usize, kind: &Kind, values: impl Iterator<Item = Value>) -> ArrayRef {
    let numbers = |value: Value| match (value, kind.range()) {
        (Value::Unit(unit), Some(range)) => {
            let atom = range.atoms().iter().find(|atom| range.unit(**atom) == unit);
            Some(atom.copied().unwrap_or_else(|| readable(range.value(unit), range.min(), range.max())))
        }
        _ => None,
    };
    match kind {
        Kind::Number(_) => Arc::new(values.map(numbers).collect::<Float64Array>()),
        Kind::Integer(_) => {
            Arc::new(values.map(|value| numbers(value).map(|x| x.round() as i64)).collect::<Int64Array>())
        }
        Kind::Date(_) => {
            Arc::new(values.map(|value| numbers(value).map(|x| x.round() as i32)).collect::<Date32Array>())
        }
        Kind::Datetime(range) => {
            // Whole seconds, where bounds are; an atom between seconds stays where it is.
            let (low, high) = (range.min().ceil(), range.max().floor());
            let seconds =
                |x: f64| if range.atoms().contains(&x) || low > high { x } else { x.round().clamp(low, high) };
            let millis = |value| numbers(value).map(|x| (1000.0 * seconds(x)).round() as i64);
            let array: TimestampMillisecondArray = values.map(millis).collect();
            Arc::new(array.with_timezone("UTC"))
        }
        Kind::Boolean => {
            let truth = |value| match value_of(schema, at, value) {
                Scalar::Boolean(truth) => Some(truth),
                _ => None,
            };
            Arc::new(values.map(truth).collect::<BooleanArray>())
        }
        Kind::Category(_) => {
            let level = |value| match value_of(schema, at, value) {
                Scalar::Text(level) => Some(level),
                _ => None,
            };
            Arc::new(values.map(level).collect::<StringArray>())
        }
    }
}

/// A drawn number in about six digits: more would pretend to know more. It stays within its bounds.
fn readable(x: f64, min: f64, max: f64) -> f64 {
    let size = x.abs().min(max - min);
    if !(1e-30..1e15).contains(&size) {
        return x;
    }
    let decimals = 5 - size.log10().floor() as i32;
    let rounded = if decimals >= 0 {
        format!("{x:.*}", decimals as usize).parse().unwrap_or(x)
    } else {
        let scale = 10f64.powi(-decimals);
        (x / scale).round() * scale
    };
    rounded.clamp(min, max)
}

/// Makes weights agree with what the fit answers about every column by itself, by raking.
fn rake(fit: &Fit, points: &Points, weights: &mut [f64]) -> Result<(), Error> {
    let schema = Sample::schema(fit);
    let mut margins: Vec<(Vec<u32>, Vec<f64>)> = Vec::new();
    for column in schema.columns() {
        let x = || col(column.name.as_str());
        let check = |expr: Expr| expr.check(schema);
        let (cells, conditions): (Vec<u32>, Vec<Checked>) = match column.kind.range() {
            Some(range) => {
                let values = points.numbers(schema, &check(x())?);
                let cuts = cuts(&values, range);
                let cell = |value: &f64| {
                    if value.is_nan() { 0 } else { 1 + cuts.partition_point(|cut| cut < value) as u32 }
                };
                let conditions = std::iter::once(x().is_null()).chain(cuts.iter().enumerate().map(|(at, cut)| {
                    let below = x().le(lit(*cut));
                    if at == 0 { below } else { below.and(x().gt(lit(cuts[at - 1]))) }
                }));
                let last = cuts.last().map_or_else(|| x().is_not_null(), |cut| x().gt(lit(*cut)));
                let conditions = conditions.chain(std::iter::once(last)).map(check).collect::<Result<_, _>>()?;
                (values.iter().map(cell).collect(), conditions)
            }
            None => {
                let place = schema.position(&column.name).expect("it is a column of the schema");
                let cells = (0..weights.len()).map(|at| match points.record(at).value(place) {
                    Value::Code(code) => code,
                    _ => unreachable!("a column of levels has codes"),
                });
                let conditions = match &column.kind {
                    Kind::Category(levels) => {
                        let is = |level: &String| x().eq(lit(level.as_str()));
                        let listed = x().one_of(levels.iter().map(|level| lit(level.as_str())));
                        let other = x().is_not_null().and(Expr::Not(Box::new(listed)));
                        levels.iter().map(is).chain([other, x().is_null()]).map(check).collect::<Result<_, _>>()?
                    }
                    _ => [x().eq(lit(false)), x().eq(lit(true)), x().is_null()]
                        .into_iter()
                        .map(check)
                        .collect::<Result<_, _>>()?,
                };
                (cells.collect(), conditions)
            }
        };
        let target = simplex(&fit.values_of(&conditions));
        margins.push((cells, target));
    }
    for _ in 0..SWEEPS {
        for (cells, target) in &margins {
            let mut sums = vec![0.0; target.len()];
            cells.iter().zip(&*weights).for_each(|(cell, weight)| sums[*cell as usize] += weight);
            let total: f64 = sums.iter().sum();
            let ratios: Vec<f64> =
                target.iter().zip(&sums).map(|(p, sum)| if *sum > 0.0 { p * total / sum } else { 0.0 }).collect();
            weights.iter_mut().zip(cells).for_each(|(weight, cell)| *weight *= ratios[*cell as usize]);
        }
    }
    Ok(())
}

/// Where the values of a numeric column are cut: at about equal counts of points, and in equal steps for the tails.
fn cuts(values: &[f64], range: &Range) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.last().copied() else { return Vec::new() };
    let step = (range.max() - range.min()) / STEPS as f64;
    let mut cuts: Vec<f64> = (1..CELLS).map(|i| sorted[i * sorted.len() / CELLS]).collect();
    cuts.extend((1..STEPS).map(|i| range.min() + i as f64 * step));
    cuts.retain(|cut| *cut < last);
    cuts.sort_by(f64::total_cmp);
    // Cells without a point would be asked for in vain.
    cuts.dedup_by_key(|cut| sorted.partition_point(|value| value <= cut));
    cuts
}

/// Takes each point as often as its weight says, `count` times in all.
fn resample(weights: &[f64], count: usize, stream: &mut PublicStream) -> Vec<u32> {
    let step = weights.iter().sum::<f64>() / count.max(1) as f64;
    let mut next = step * stream.uniform();
    let mut chosen = Vec::with_capacity(count);
    let mut sum = 0.0;
    for (at, weight) in weights.iter().enumerate() {
        sum += weight;
        while next < sum && chosen.len() < count {
            chosen.push(at as u32);
            next += step;
        }
    }
    // Rounding may leave the last one out.
    let last = weights.iter().rposition(|weight| *weight > 0.0).unwrap_or(0) as u32;
    chosen.resize(count, last);
    chosen
}

/// How rows are written to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated text with a header.
    Csv,
    /// Apache Parquet.
    Parquet,
}

impl Format {
    /// The format that a file's name asks for.
    pub fn of(path: &Path) -> Result<Self, Error> {
        match path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase).as_deref() {
            Some("csv") => Ok(Self::Csv),
            Some("parquet") => Ok(Self::Parquet),
            _ => Err(Error::Question(format!(
                "`{}` ends neither in .csv nor in .parquet; give a name that says what to write",
                path.display()
            ))),
        }
    }
}

/// Writes rows to a file, whole or not at all.
pub fn save(
    path: &Path,
    replace: bool,
    schema: &SchemaRef,
    batches: impl Iterator<Item = RecordBatch>,
) -> Result<(), Error> {
    let format = Format::of(path)?;
    file::write(path, replace, Mode::Public, |file| write(file, format, schema, batches))
}

/// Writes rows.
pub fn write(
    to: impl Write + Send,
    format: Format,
    schema: &SchemaRef,
    batches: impl Iterator<Item = RecordBatch>,
) -> io::Result<()> {
    match format {
        Format::Csv => {
            let mut to = io::BufWriter::new(to);
            let names: Vec<String> = schema.fields().iter().map(|field| quoted(field.name())).collect();
            writeln!(to, "{}", names.join(","))?;
            for batch in batches {
                write_csv(&mut to, &batch)?;
            }
            to.flush()
        }
        Format::Parquet => {
            let compression = Compression::ZSTD(ZstdLevel::default());
            let properties = WriterProperties::builder().set_compression(compression).build();
            let mut writer = ArrowWriter::try_new(to, schema.clone(), Some(properties)).map_err(io::Error::other)?;
            for batch in batches {
                writer.write(&batch).map_err(io::Error::other)?;
            }
            writer.close().map_err(io::Error::other)?;
            Ok(())
        }
    }
}

fn write_csv(to: &mut impl Write, batch: &RecordBatch) -> io::Result<()> {
    for row in 0..batch.num_rows() {
        for (at, column) in batch.columns().iter().enumerate() {
            if at > 0 {
                to.write_all(b",")?;
            }
            // A missing cell is an empty field, and so is that of a file with one column: quotes tell it from no row.
            if column.is_null(row) {
                to.write_all(if batch.num_columns() == 1 { b"\"\"" } else { b"" })?;
                continue;
            }
            match column.data_type() {
                DataType::Float64 => write!(to, "{}", column.as_primitive::<Float64Type>().value(row))?,
                DataType::Int64 => write!(to, "{}", column.as_primitive::<Int64Type>().value(row))?,
                DataType::Boolean => write!(to, "{}", column.as_boolean().value(row))?,
                DataType::Utf8 => write!(to, "{}", quoted(column.as_string::<i32>().value(row)))?,
                DataType::Date32 => {
                    let days = column.as_primitive::<Date32Type>().value(row);
                    write!(to, "{}", crate::schema::time::show_date(f64::from(days)))?;
                }
                DataType::Timestamp(..) => {
                    let millis = column.as_primitive::<TimestampMillisecondType>().value(row);
                    write!(to, "{}", crate::schema::time::show_datetime(millis as f64 / 1000.0))?;
                }
                other => unreachable!("no synthetic column is {other}"),
            }
        }
        to.write_all(b"\n")?;
    }
    Ok(())
}

fn quoted(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.into() }
}
