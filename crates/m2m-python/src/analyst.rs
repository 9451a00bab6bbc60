//! The analyst's side: a release and questions to it.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, BooleanArray, StringArray};
use m2m::estimate::WeightedSample;
use m2m::expr::{Expr, col, lit};
use m2m::fit::{Fit, Lambda, Options};
use m2m::prior::{Prior, PublicTable};
use m2m::schema::Kind;
use m2m::source;
use m2m::sql::{self, ColumnKind, Query};
use m2m::task::Ask;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json;

use crate::curator::Schema;
use crate::input::Source;
use crate::output::{Estimated, Table, estimated, integers, numbers};
use crate::run::{interruptible, whole};
use crate::{fail, raise};

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Release>()
}

/// A release, and the way in which it is read.
#[pyclass(frozen, module = "m2m._native")]
pub struct Release {
    release: Arc<m2m::Release>,
    options: Options,
    fit: OnceLock<Arc<Fit>>,
}

/// A bar: label, bounds, count.
type Bar = (String, Option<(f64, f64)>, Estimated);

impl Release {
    pub fn new(release: m2m::Release) -> Self {
        Self { release: Arc::new(release), options: Options::default(), fit: OnceLock::new() }
    }

    /// The release made ready for questions, once.
    pub fn fit(&self, py: Python<'_>) -> PyResult<Arc<Fit>> {
        if let Some(fit) = self.fit.get() {
            return Ok(fit.clone());
        }
        let (release, options) = (self.release.clone(), self.options.clone());
        let fit = Arc::new(interruptible(py, None, move |_| Fit::new(&release, options))?);
        Ok(self.fit.get_or_init(|| fit).clone())
    }

    /// The schema of the table.
    pub fn described_by(&self) -> &m2m::Schema {
        self.release.schema()
    }

    /// Asks something about the rows that meet a condition.
    fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        condition: Option<String>,
        question: impl FnOnce(&Ask<'_>) -> Result<T, m2m::Error> + Send + 'static,
    ) -> PyResult<T> {
        let fit = self.fit(py)?;
        interruptible(py, None, move |_| {
            let mut asked = Ask::of(&*fit);
            if let Some(condition) = condition {
                asked = asked.filter(&sql::condition(&condition, asked.schema())?)?;
            }
            question(&asked)
        })
    }
}

#[pymethods]
impl Release {
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        whole(py, || m2m::Release::open(path)).map(Self::new)
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        let bytes = bytes.to_vec();
        whole(py, || m2m::Release::from_bytes(&bytes)).map(Self::new)
    }

    fn save(&self, py: Python<'_>, path: PathBuf, force: bool) -> PyResult<()> {
        whole(py, || self.release.save(path, force))
    }

    fn to_json(&self) -> String {
        self.release.to_json()
    }

    fn hash(&self) -> String {
        self.release.hash()
    }

    fn schema(&self) -> Schema {
        Schema(Arc::new(self.release.schema().clone()))
    }

    fn budget(&self) -> String {
        self.release.statement().budget.to_string()
    }

    /// What the release is, without its sums, as JSON.
    fn info(&self) -> String {
        let (statement, count) = (self.release.statement(), self.release.count());
        let blocks: Vec<_> = self
            .release
            .blocks()
            .iter()
            .map(|block| {
                json!({
                    "map": block.map(),
                    "share": block.share(),
                    "features": block.sums().len(),
                    "noise": block.noise(),
                    "noise_std": block.noise().standard_deviation(block.sums().len()) / block.grid() as f64,
                })
            })
            .collect();
        let noise_std = count.noise.map_or(0.0, |noise| noise.standard_deviation(1));
        json!({
            "privacy": statement,
            "count": {"value": count.value, "noise": count.noise, "noise_std": noise_std},
            "schema": self.release.schema(),
            "blocks": blocks,
            "hash": self.release.hash(),
        })
        .to_string()
    }

    /// The same release, read in another way.
    #[allow(clippy::too_many_arguments)]
    fn read_by(
        &self,
        py: Python<'_>,
        prior: &str,
        table: Option<&Source>,
        ridge: &str,
        factor: f64,
        centred: bool,
        samples: usize,
        seed: u64,
    ) -> PyResult<Self> {
        if !(100..=10_000_000).contains(&samples) {
            return fail(format!("--samples is {samples}; give a number from 100 to 10000000"));
        }
        if !(factor > 0.0 && factor.is_finite()) {
            return fail(format!("the factor {factor} of --lambda is not a number above 0; give one, such as 2"));
        }
        let lambda = match ridge {
            "evidence" => Lambda::Evidence,
            "theorem" => Lambda::Theorem(factor),
            "paper" => Lambda::Paper(factor),
            other => return fail(format!("there is no rule `{other}`; choose evidence, theorem or paper")),
        };
        let public = || match table {
            Some(table) => {
                let (table, schema) = (table.0.clone(), self.release.schema().clone());
                interruptible(py, None, move |flag| PublicTable::new(source::read(&table, &schema, flag)?))
            }
            None => fail(format!("the prior `{prior}` is that of a public table; give one")),
        };
        let prior = match prior {
            "learned" => Prior::Learned,
            "uniform" => Prior::Uniform,
            "marginals" => Prior::Marginals(public()?),
            "sample" => Prior::Sample(public()?),
            other => {
                return fail(format!("there is no prior `{other}`; choose learned, uniform, marginals or sample"));
            }
        };
        let options = Options { prior, lambda, centred, samples, seed, sampled: false };
        Ok(Self { release: self.release.clone(), options, fit: OnceLock::new() })
    }

    fn sql(&self, py: Python<'_>, query: String) -> PyResult<Table> {
        let query = Query::parse(&query, self.release.schema()).map_err(raise)?;
        let fit = self.fit(py)?;
        interruptible(py, None, move |_| query.run(&*fit)).map(Table::answer)
    }

    fn count(&self, py: Python<'_>, condition: Option<String>) -> PyResult<Estimated> {
        self.ask(py, condition, |ask| ask.count()).map(|estimate| estimated(&estimate))
    }

    /// One number about one column: `mean`, `sum`, `variance`, `std`, `skewness`, or `missing` rows.
    fn moment(&self, py: Python<'_>, what: String, column: String, condition: Option<String>) -> PyResult<Estimated> {
        let asked = self.ask(py, condition, move |ask| {
            let x = col(column);
            match what.as_str() {
                "mean" => ask.mean(&x),
                "sum" => ask.sum(&x),
                "variance" => ask.variance(&x),
                "std" => ask.std_dev(&x),
                "skewness" => ask.skewness(&x),
                "present" => ask.filter(&x.is_not_null())?.count(),
                "missing" => ask.filter(&x.is_null())?.count(),
                other => Err(m2m::Error::Question(format!("there is no question `{other}`; ask for the mean"))),
            }
        });
        asked.map(|estimate| estimated(&estimate))
    }

    fn quantiles(
        &self,
        py: Python<'_>,
        column: String,
        parts: Vec<f64>,
        condition: Option<String>,
    ) -> PyResult<Vec<Estimated>> {
        let asked = self.ask(py, condition, move |ask| {
            let x = col(column);
            parts.iter().map(|part| ask.quantile(&x, *part)).collect::<Result<Vec<_>, _>>()
        })?;
        Ok(asked.iter().map(estimated).collect())
    }

    fn cdf(&self, py: Python<'_>, column: String, at: Vec<f64>, condition: Option<String>) -> PyResult<Vec<Estimated>> {
        let asked = self.ask(py, condition, move |ask| ask.cdf(&col(column), &at))?;
        Ok(asked.iter().map(estimated).collect())
    }

    fn histogram(&self, py: Python<'_>, column: String, bins: u32, condition: Option<String>) -> PyResult<Vec<Bar>> {
        let bars = self.ask(py, condition, move |ask| ask.histogram(&column, bins))?;
        Ok(bars.into_iter().map(|bar| (bar.label, bar.bounds, estimated(&bar.count))).collect())
    }

    fn matrix(
        &self,
        py: Python<'_>,
        columns: Vec<String>,
        correlation: bool,
        condition: Option<String>,
    ) -> PyResult<(Vec<String>, Vec<Vec<Estimated>>)> {
        if let Some((_, twice)) = columns.iter().enumerate().find(|(i, name)| columns[..*i].contains(name)) {
            return fail(format!("column `{twice}` is named twice; name it once"));
        }
        let matrix = self.ask(py, condition, move |ask| {
            let names: Vec<&str> = columns.iter().map(String::as_str).collect();
            if correlation { ask.correlation(&names) } else { ask.covariance(&names) }
        })?;
        let entries = matrix.entries.iter().map(|row| row.iter().map(estimated).collect()).collect();
        Ok((matrix.names, entries))
    }

    fn density(
        &self,
        py: Python<'_>,
        columns: Vec<String>,
        points: Vec<Vec<f64>>,
        bandwidth: Vec<f64>,
        condition: Option<String>,
    ) -> PyResult<Vec<Estimated>> {
        let asked = self.ask(py, condition, move |ask| {
            let names: Vec<&str> = columns.iter().map(String::as_str).collect();
            points.iter().map(|point| ask.density(&names, point, &bandwidth)).collect::<Result<Vec<_>, _>>()
        })?;
        Ok(asked.iter().map(estimated).collect())
    }

    /// The points against which the release is read, with the weights under which they stand for its rows: as a frame and
    /// as 64-bit floats.
    fn weighted_sample<'py>(&self, py: Python<'py>) -> PyResult<(Table, Bound<'py, PyBytes>)> {
        let fit = self.fit(py)?;
        let (columns, weights) = interruptible(py, None, move |_| {
            let weights = fit.positive_weights().to_vec();
            Ok((points(&*fit)?, weights))
        })?;
        Ok((Table::of_columns(columns), floats(py, &weights)))
    }
}

/// Numbers as bytes, which numpy takes as they are.
pub fn floats<'py>(py: Python<'py>, numbers: &[f64]) -> Bound<'py, PyBytes> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_ne_bytes()).collect();
    PyBytes::new(py, &bytes)
}

/// The points of a sample as columns of the types that the schema has.
fn points(sample: &dyn WeightedSample) -> Result<Vec<(String, ArrayRef)>, m2m::Error> {
    let schema = sample.schema();
    let mut columns = Vec::new();
    for column in schema.columns() {
        let x = || col(&column.name);
        let values = |of: Expr| -> Result<Vec<Option<f64>>, m2m::Error> {
            let values = sample.values(&of.check(schema)?);
            Ok(values.into_iter().map(|x| (!x.is_nan()).then_some(x)).collect())
        };
        let array: ArrayRef = match &column.kind {
            Kind::Number(_) => numbers(ColumnKind::Plain, values(x())?.into_iter()),
            Kind::Integer(_) => integers(values(x())?.into_iter()),
            Kind::Date(_) => numbers(ColumnKind::Date, values(x())?.into_iter()),
            Kind::Datetime(_) => numbers(ColumnKind::Datetime, values(x())?.into_iter()),
            Kind::Boolean => {
                let truths = values(x())?.into_iter().map(|x| x.map(|x| x > 0.5));
                Arc::new(truths.collect::<BooleanArray>())
            }
            Kind::Category(levels) => {
                // A level by its place; what is none of them, and not missing, is of a level that is not listed.
                let listed = levels.iter().enumerate();
                let mut branches: Vec<(Expr, Expr)> =
                    listed.map(|(at, level)| (x().eq(lit(level.as_str())), lit(at as f64))).collect();
                branches.push((x().is_not_null(), lit(levels.len() as f64)));
                let places = values(Expr::Case { branches, otherwise: None })?;
                let label = |place: Option<f64>| place.map(|place| column.kind.label(place as u32));
                Arc::new(places.into_iter().map(label).collect::<StringArray>())
            }
        };
        columns.push((column.name.clone(), array));
    }
    Ok(columns)
}
