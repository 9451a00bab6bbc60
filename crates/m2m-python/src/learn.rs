//! Models, groups and components, and what they say about rows of the analyst's own.

use std::sync::Arc;

use m2m::estimate::Sample;
use m2m::task::learn::{self, ClusterOptions, Formula, Learner, Options, Points, Rows, Weights};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::analyst::{Release, floats};
use crate::input::Source;
use crate::run::interruptible;
use crate::{fail, raise};

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Model>()?;
    module.add_function(wrap_pyfunction!(fit, module)?)?;
    module.add_function(wrap_pyfunction!(cluster, module)?)?;
    module.add_function(wrap_pyfunction!(pca, module)?)?;
    module.add_function(wrap_pyfunction!(points, module)?)
}

/// A fitted model with the formula that reads rows for it.
#[pyclass(frozen, module = "m2m._native")]
pub struct Model {
    schema: m2m::Schema,
    formula: Arc<Formula>,
    fitted: Arc<learn::Fitted>,
}

/// Numbers, row by row, as floats in bytes, with how many there are in a row; nothing can be said of rows with NaN.
type Matrix<'py> = (Bound<'py, PyBytes>, usize);

#[pymethods]
impl Model {
    /// All about it, as JSON.
    fn to_json(&self) -> String {
        serde_json::to_string(&*self.fitted).expect("a model has a JSON form")
    }

    /// The names of the columns of the design.
    fn names(&self) -> Vec<String> {
        self.formula.names().to_vec()
    }

    /// The columns of the table that it needs.
    fn inputs(&self) -> Vec<String> {
        self.formula.inputs().into_iter().map(|at| self.schema.columns()[at].name.clone()).collect()
    }

    fn predict<'py>(&self, py: Python<'py>, source: &Source) -> PyResult<Matrix<'py>> {
        let (formula, fitted, table, schema) =
            (self.formula.clone(), self.fitted.clone(), source.0.clone(), self.schema.clone());
        let (numbers, width) = interruptible(py, None, move |flag| {
            let rows = Rows::read(&table, &schema, &formula.inputs(), flag)?;
            let (design, complete) = formula.design(&rows);
            let said = fitted.predict(&design);
            let number = |row: usize, at: usize| if complete[row] { said[(row, at)] } else { f64::NAN };
            let width = said.ncols();
            let numbers: Vec<f64> =
                (0..complete.len()).flat_map(|row| (0..width).map(move |at| number(row, at))).collect();
            Ok((numbers, width))
        })?;
        Ok((floats(py, &numbers), width))
    }

    /// How well it does on rows whose response is known, as JSON.
    fn evaluate(&self, py: Python<'_>, source: &Source) -> PyResult<String> {
        let (formula, fitted, table, schema) =
            (self.formula.clone(), self.fitted.clone(), source.0.clone(), self.schema.clone());
        interruptible(py, None, move |flag| {
            let rows = Rows::read(&table, &schema, formula.columns(), flag)?;
            if Sample::is_empty(&rows) {
                let message = "there are no rows; give a table that has some";
                return Err(m2m::Error::Table { source_name: "memory".into(), message: message.into() });
            }
            let metrics = fitted.evaluate(&formula.encode(&rows));
            Ok(serde_json::to_string(&metrics).expect("metrics have a JSON form"))
        })
    }
}

#[pyfunction]
fn fit(
    py: Python<'_>,
    release: &Release,
    learner: &str,
    formula: &str,
    penalty: Option<f64>,
    weights: Option<&str>,
) -> PyResult<Model> {
    let learner = match learner {
        "linear" => Learner::Linear,
        "ridge" => Learner::Ridge,
        "logistic" => Learner::Logistic,
        "multinomial" => Learner::Multinomial,
        "poisson" => Learner::Poisson,
        "svm" => Learner::Svm,
        other => return fail(format!("there is no model `{other}`; choose linear, ridge, logistic, poisson or svm")),
    };
    let weights = match weights {
        None => None,
        Some("positive") => Some(Weights::Positive),
        Some("unbiased") => Some(Weights::Unbiased),
        Some(other) => return fail(format!("there are no weights `{other}`; choose positive or unbiased")),
    };
    let schema = release.described_by().clone();
    let formula = Arc::new(Formula::parse(formula, &schema).map_err(raise)?);
    let (fit, bound) = (release.fit(py)?, formula.clone());
    let fitted = interruptible(py, None, move |_| learn::fit(&*fit, &bound, learner, &Options { penalty, weights }))?;
    Ok(Model { schema, formula, fitted: Arc::new(fitted) })
}

/// Groups among the rows behind a release, as JSON: of k-means, or a mixture of normal laws.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn cluster(
    py: Python<'_>,
    release: &Release,
    k: usize,
    columns: Option<Vec<String>>,
    standardise: bool,
    mixture: bool,
    starts: usize,
    seed: u64,
) -> PyResult<String> {
    let fit = release.fit(py)?;
    let options = ClusterOptions { k, starts, standardise, seed };
    interruptible(py, None, move |_| {
        let found = if mixture {
            serde_json::to_string(&learn::mixture(&*fit, columns.as_deref(), &options)?)
        } else {
            serde_json::to_string(&learn::k_means(&*fit, columns.as_deref(), &options)?)
        };
        Ok(found.expect("groups have a JSON form"))
    })
}

/// Principal components, as JSON.
#[pyfunction]
fn pca(py: Python<'_>, release: &Release, columns: Option<Vec<String>>, standardise: bool) -> PyResult<String> {
    let fit = release.fit(py)?;
    interruptible(py, None, move |_| {
        let found = learn::pca(&*fit, columns.as_deref(), standardise)?;
        Ok(serde_json::to_string(&found).expect("components have a JSON form"))
    })
}

/// The rows of a table as vectors of numbers, as groups and components see them.
#[pyfunction]
fn points<'py>(
    py: Python<'py>,
    release: &Release,
    source: &Source,
    columns: Option<Vec<String>>,
) -> PyResult<Matrix<'py>> {
    let (schema, table) = (release.described_by().clone(), source.0.clone());
    let (numbers, width) = interruptible(py, None, move |flag| {
        let rows = Rows::read(&table, &schema, &Points::inputs(&schema, columns.as_deref())?, flag)?;
        let points = Points::new(&rows, columns.as_deref())?;
        let number = |row: usize, at: usize| if points.complete[row] { points.values[(row, at)] } else { f64::NAN };
        let width = points.names.len();
        let numbers: Vec<f64> =
            (0..points.complete.len()).flat_map(|row| (0..width).map(move |at| number(row, at))).collect();
        Ok((numbers, width))
    })?;
    Ok((floats(py, &numbers), width))
}
