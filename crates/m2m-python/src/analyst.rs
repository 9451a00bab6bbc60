//! The analyst's side: a release and questions to it.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use m2m::estimate::Sample;
use m2m::expr::col;
use m2m::fit::{Fit, Lambda, Options};
use m2m::prior::{Prior, PublicTable};
use m2m::source;
use m2m::sql::{self, Query};
use m2m::synth::{MOST_ROWS, Synthesis};
use m2m::task::Ask;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json;

use crate::curator::Schema;
use crate::input::Source;
use crate::output::{Estimated, Table, estimated};
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

    /// The release itself.
    pub fn released(&self) -> &Arc<m2m::Release> {
        &self.release
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
        check_samples(samples)?;
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

    /// The same release, read in the same way with other random points.
    fn drawn(&self, samples: usize, seed: u64) -> PyResult<Self> {
        check_samples(samples)?;
        let options = Options { samples, seed, ..self.options.clone() };
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

    /// Points in the image of the rows, and as 64-bit floats how many rows each stands for.
    fn weighted_sample<'py>(
        &self,
        py: Python<'py>,
        condition: Option<String>,
    ) -> PyResult<(Table, Bound<'py, PyBytes>)> {
        let fit = self.fit(py)?;
        let (schema, (batches, weights)) = interruptible(py, None, move |_| {
            let synthesis = synthesis(&fit, condition)?;
            Ok((synthesis.schema().clone(), synthesis.weighted().unzip::<_, _, Vec<_>, Vec<_>>()))
        })?;
        Ok((Table::of_batches(schema, batches), floats(py, &weights.concat())))
    }

    /// So many rows in the image of the table's, all of the same weight.
    fn synthesize(&self, py: Python<'_>, rows: usize, condition: Option<String>, seed: u64) -> PyResult<Table> {
        if !(1..=MOST_ROWS).contains(&rows) {
            return fail(format!("-n is {rows}; give a number from 1 to {MOST_ROWS}"));
        }
        let fit = self.fit(py)?;
        let (schema, batches) = interruptible(py, None, move |_| {
            let synthesis = synthesis(&fit, condition)?;
            Ok((synthesis.schema().clone(), synthesis.rows(rows, seed).collect()))
        })?;
        Ok(Table::of_batches(schema, batches))
    }
}

fn check_samples(samples: usize) -> PyResult<()> {
    if (100..=10_000_000).contains(&samples) {
        return Ok(());
    }
    fail(format!("--samples is {samples}; give a number from 100 to 10000000"))
}

fn synthesis(fit: &Fit, condition: Option<String>) -> Result<Synthesis<'_>, m2m::Error> {
    let all = Synthesis::new(fit)?;
    match condition {
        Some(condition) => all.filter(&sql::condition(&condition, Sample::schema(fit))?),
        None => Ok(all),
    }
}

/// Numbers as bytes, which numpy takes as they are.
pub fn floats<'py>(py: Python<'py>, numbers: &[f64]) -> Bound<'py, PyBytes> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_ne_bytes()).collect();
    PyBytes::new(py, &bytes)
}
