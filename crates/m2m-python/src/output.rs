//! Answers and samples as Arrow, which every library of frames takes without a copy.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
    TimestampSecondArray,
};
use arrow_schema::{Field, Schema, SchemaRef};
use m2m::Estimate;
use m2m::estimate::Caution;
use m2m::sql::{self, Cell, ColumnKind};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

/// Value, standard error, interval, parts of the error, caution.
pub type Estimated = (f64, f64, f64, f64, (f64, f64, f64, f64), Option<&'static str>);

/// An estimate as Python's side takes it.
pub fn estimated(estimate: &Estimate) -> Estimated {
    let parts = estimate.parts;
    (
        estimate.value,
        estimate.std_error,
        estimate.low,
        estimate.high,
        (parts.privacy, parts.count, parts.sampling, parts.approximation),
        estimate.caution.map(|caution| match caution {
            Caution::Unsupported => "unsupported",
            Caution::Swamped => "swamped",
        }),
    )
}

/// Rows under named columns.
#[pyclass(frozen, module = "m2m._native")]
pub struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// The answer that they were made of, if they were.
    answer: Option<sql::Table>,
}

impl Table {
    /// An answer to a query. A column `x` of estimates becomes `x`, `x_std_error`, `x_low` and `x_high`.
    pub fn answer(answer: sql::Table) -> Self {
        let mut columns: Vec<(String, ArrayRef)> = Vec::new();
        for (at, name) in answer.columns.iter().enumerate() {
            let cells = || answer.rows.iter().map(move |row| &row[at]);
            let kind = answer.kinds[at];
            if answer.estimated[at] {
                let part = |part: fn(&Estimate) -> f64| {
                    cells().map(move |cell| match cell {
                        Cell::Estimate(estimate) => Some(part(estimate)),
                        Cell::Number(x) => Some(*x),
                        _ => None,
                    })
                };
                columns.push((name.clone(), numbers(kind, part(|e| e.value))));
                let errors: Float64Array = part(|e| e.std_error).collect();
                columns.push((format!("{name}_std_error"), Arc::new(errors)));
                columns.push((format!("{name}_low"), numbers(kind, part(|e| e.low))));
                columns.push((format!("{name}_high"), numbers(kind, part(|e| e.high))));
                continue;
            }
            columns.push((name.clone(), exact(kind, cells().collect())));
        }
        let batch = batch(columns);
        Self { schema: batch.schema(), batches: vec![batch], answer: Some(answer) }
    }

    /// Rows that are no answer.
    pub fn of_batches(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches, answer: None }
    }
}

fn batch(columns: Vec<(String, ArrayRef)>) -> RecordBatch {
    // Names may repeat, as in SELECT AVG(x), AVG(x).
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(name, array.data_type().clone(), true)).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("columns of one length")
}

/// Numbers as what they are read as.
fn numbers(kind: ColumnKind, values: impl Iterator<Item = Option<f64>>) -> ArrayRef {
    match kind {
        ColumnKind::Plain => Arc::new(values.collect::<Float64Array>()),
        ColumnKind::Date => Arc::new(values.map(|x| x.map(|x| x.round() as i32)).collect::<Date32Array>()),
        ColumnKind::Datetime => {
            let seconds = values.map(|x| x.map(|x| x.round() as i64)).collect::<TimestampSecondArray>();
            Arc::new(seconds.with_timezone("UTC"))
        }
    }
}

/// Whole numbers.
fn integers(values: impl Iterator<Item = Option<f64>>) -> ArrayRef {
    Arc::new(values.map(|x| x.map(|x| x.round() as i64)).collect::<Int64Array>())
}

/// A column without errors: the keys of groups, or constants.
fn exact(kind: ColumnKind, cells: Vec<&Cell>) -> ArrayRef {
    let number = |cell: &&Cell| if let Cell::Number(x) = cell { Some(*x) } else { None };
    if cells.iter().any(|cell| matches!(cell, Cell::Text(_))) {
        let text = |cell: &&Cell| if let Cell::Text(text) = cell { Some(text.clone()) } else { None };
        return Arc::new(cells.iter().map(text).collect::<StringArray>());
    }
    if cells.iter().any(|cell| matches!(cell, Cell::Boolean(_))) {
        let truth = |cell: &&Cell| if let Cell::Boolean(truth) = cell { Some(*truth) } else { None };
        return Arc::new(cells.iter().map(truth).collect::<BooleanArray>());
    }
    let whole = |cell: &&Cell| number(cell).is_none_or(|x| x.fract() == 0.0 && x.abs() < 9e15);
    if kind == ColumnKind::Plain && cells.iter().all(whole) {
        return integers(cells.iter().map(number));
    }
    numbers(kind, cells.iter().map(number))
}

#[pymethods]
impl Table {
    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The names of the columns of the frame.
    fn names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Of an answer: its columns, each with how its numbers are read.
    fn columns(&self) -> Vec<(String, &'static str)> {
        let Some(answer) = &self.answer else { return Vec::new() };
        answer.columns.iter().cloned().zip(answer.kinds.iter().map(|kind| word(*kind))).collect()
    }

    /// Of an answer: its rows. Estimates are tuples.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyList>>> {
        let Some(answer) = &self.answer else { return Ok(Vec::new()) };
        let cell = |cell: &Cell| -> PyResult<Bound<'py, PyAny>> {
            Ok(match cell {
                Cell::Null => py.None().into_bound(py),
                Cell::Text(text) => text.into_pyobject(py)?.into_any(),
                Cell::Number(x) => x.into_pyobject(py)?.into_any(),
                Cell::Boolean(truth) => truth.into_pyobject(py)?.to_owned().into_any(),
                Cell::Estimate(estimate) => estimated(estimate).into_pyobject(py)?.into_any(),
            })
        };
        answer.rows.iter().map(|row| PyList::new(py, row.iter().map(cell).collect::<PyResult<Vec<_>>>()?)).collect()
    }

    fn warnings(&self) -> Vec<String> {
        self.answer.as_ref().map_or_else(Vec::new, |answer| answer.warnings.clone())
    }

    /// An answer as JSON, as the command line prints it.
    fn to_json(&self) -> Option<String> {
        self.answer.as_ref().map(|answer| answer.to_json().to_string())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // Another schema is a wish that need not be met.
        drop(requested_schema);
        let batches = RecordBatchIterator::new(self.batches.clone().into_iter().map(Ok), self.schema.clone());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), c"arrow_array_stream")
    }
}

/// How numbers are read, in a word.
fn word(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Plain => "number",
        ColumnKind::Date => "date",
        ColumnKind::Datetime => "datetime",
    }
}
