//! Tables from Python: files, and whatever speaks the Arrow PyCapsule interface.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_pyarrow::FromPyArrow;
use arrow_schema::{ArrowError, SchemaRef};
use m2m::source::{self, CsvOptions};
use pyo3::exceptions::{PyException, PyStopIteration};
use pyo3::prelude::*;

use crate::run::interruptible;
use crate::{fail, raise};

/// How much of what can be read only once is kept where it has to be read twice.
const MOST_IN_MEMORY: u64 = 4 << 30;

/// A table to be read, as one of the library's.
#[pyclass(frozen, module = "m2m._native")]
pub struct Source(pub Arc<source::Table>);

#[pymethods]
impl Source {
    /// Files of one table. Of a pipe a copy is kept if it is read `twice`.
    #[staticmethod]
    fn files(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        delimiter: Option<&str>,
        twice: bool,
        strict: bool,
    ) -> PyResult<Self> {
        let delimiter = delimiter.map(byte).transpose()?;
        let table = interruptible(py, None, move |flag| {
            let table = source::Table::open(&paths, CsvOptions { delimiter })?;
            if twice { table.rereadable(flag) } else { Ok(table) }
        })?;
        Ok(Self(Arc::new(table.strict(strict))))
    }

    /// Something with `__arrow_c_stream__` that is in memory: its batches are shared, not copied.
    #[staticmethod]
    fn frame(data: &Bound<'_, PyAny>, strict: bool) -> PyResult<Self> {
        let reader = stream(data)?;
        let schema = reader.schema();
        let mut batches = data.py().detach(|| reader.collect::<Result<Vec<_>, _>>()).or_else(|_| fail(FAILED))?;
        if batches.is_empty() {
            batches.push(RecordBatch::new_empty(schema));
        }
        Ok(Self(Arc::new(source::Table::from_batches(batches).strict(strict))))
    }

    /// What makes something with `__arrow_c_stream__` that is read as it comes, anew for each reading.
    #[staticmethod]
    fn reopened(py: Python<'_>, open: Py<PyAny>, strict: bool) -> PyResult<Self> {
        // The first is made here, so that mistakes are seen at once.
        let first = open.call0(py).or_else(|error| calmed(py, error))?;
        let first = Mutex::new(Some(stream(&first.into_bound(py))?));
        let open = move || {
            if let Some(reader) = first.lock().ok().and_then(|mut first| first.take()) {
                return Ok(Box::new(reader) as Box<dyn RecordBatchReader + Send>);
            }
            Python::attach(|py| {
                let reader = open.call0(py).and_then(|data| stream(&data.into_bound(py)));
                let reader = reader.map_err(|_| table_error(FAILED))?;
                Ok(Box::new(reader) as Box<dyn RecordBatchReader + Send>)
            })
        };
        Ok(Self(Arc::new(source::Table::from_stream(Box::new(open)).strict(strict))))
    }

    /// An iterator over record batches or tables, or a stream that can be read only once. Kept if it is read `twice`.
    #[staticmethod]
    fn once(data: &Bound<'_, PyAny>, twice: bool, strict: bool) -> PyResult<Self> {
        let mut reader: Box<dyn RecordBatchReader + Send> =
            if data.hasattr("__arrow_c_stream__")? { Box::new(stream(data)?) } else { Box::new(Batches::new(data)?) };
        let schema = reader.schema();
        if twice {
            let mut batches = Vec::new();
            let mut bytes = 0;
            // One by one, so that Ctrl-C is heard, and without the lock, which threads of the source may wait for.
            while let Some(batch) = data.py().detach(|| reader.next()) {
                data.py().check_signals()?;
                let batch = batch.or_else(|_| fail(FAILED))?;
                bytes += batch.get_array_memory_size() as u64;
                if bytes > MOST_IN_MEMORY {
                    return fail(
                        "memory: the design auto reads the data twice, and this is too much to keep; give a file, or the design hist or rff",
                    );
                }
                batches.push(batch);
            }
            if batches.is_empty() {
                batches.push(RecordBatch::new_empty(schema));
            }
            return Ok(Self(Arc::new(source::Table::from_batches(batches).strict(strict))));
        }
        let reader = Mutex::new(Some(reader));
        let open = move || {
            let taken = reader.lock().ok().and_then(|mut reader| reader.take());
            taken.ok_or_else(|| table_error("memory: these rows can be read only once; hand them over anew"))
        };
        Ok(Self(Arc::new(source::Table::from_stream(Box::new(open)).strict(strict))))
    }

    /// The size in bytes, where it is known.
    fn bytes(&self) -> Option<u64> {
        self.0.bytes()
    }

    /// Names of the columns and, where they are stated, their types.
    fn fields(&self) -> PyResult<Vec<(String, Option<&'static str>)>> {
        self.0.fields().map_err(raise)
    }
}

const FAILED: &str = "memory: what hands over the rows failed; read them without m2m to see why";

/// The kind of an error of whoever hands over the rows: its message may hold a value. What is no mistake, such as Ctrl-C,
/// is passed on.
fn kind(py: Python<'_>, error: PyErr) -> PyResult<String> {
    if !error.is_instance_of::<PyException>(py) {
        return Err(error);
    }
    Ok(error.get_type(py).name()?.to_string())
}

/// Such an error without its message.
fn calmed<T>(py: Python<'_>, error: PyErr) -> PyResult<T> {
    fail(FAILED.replace("failed;", &format!("failed ({});", kind(py, error)?)))
}

fn table_error(message: &str) -> m2m::Error {
    let (source_name, message) = message.split_once(": ").unwrap_or(("memory", message));
    m2m::Error::Table { source_name: source_name.into(), message: message.into() }
}

/// What stands between the fields of a CSV file.
fn byte(text: &str) -> PyResult<u8> {
    match text.as_bytes() {
        [byte] if !matches!(byte, b'"' | b'\n' | b'\r' | b'-' | b'.' | b'0'..=b'9') => Ok(*byte),
        _ => fail("the delimiter is not one character that is not part of a number; give one, such as ;"),
    }
}

/// Asks an object for its stream of batches.
fn stream(data: &Bound<'_, PyAny>) -> PyResult<RecordBatchStreamReader> {
    RecordBatchStreamReader::from_pyarrow_bound(data).or_else(|error| {
        let kind = kind(data.py(), error)?;
        fail(format!(
            "memory: these rows cannot be handed over as Arrow ({kind}); give every column one type, such as text or float64, and a new stream if this one was read before"
        ))
    })
}

const NO_BATCH: &str =
    "memory: an iterator of the table gave something that is not a batch of rows; give record batches";

/// A Python iterator of record batches or tables, read as it goes.
struct Batches {
    iterator: Py<PyAny>,
    schema: SchemaRef,
    /// What was taken and not yet given.
    waiting: std::collections::VecDeque<RecordBatch>,
}

impl Batches {
    /// Takes the first batch to know the columns.
    fn new(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let iterator = data.try_iter()?.into_any().unbind();
        let mut batches =
            Self { iterator, schema: Arc::new(arrow_schema::Schema::empty()), waiting: Default::default() };
        if !batches.pull(data.py())? {
            return fail(
                "memory: the iterator has no batches, so nothing is known of its columns; hand over a new one",
            );
        }
        batches.schema = batches.waiting[0].schema();
        Ok(batches)
    }

    /// Takes the next item of the iterator; false at its end.
    fn pull(&mut self, py: Python<'_>) -> PyResult<bool> {
        while self.waiting.is_empty() {
            let item = match self.iterator.call_method0(py, "__next__") {
                Ok(item) => item.into_bound(py),
                Err(end) if end.is_instance_of::<PyStopIteration>(py) => return Ok(false),
                Err(error) => return calmed(py, error),
            };
            if item.hasattr("__arrow_c_stream__")? {
                let reader = stream(&item)?;
                let schema = reader.schema();
                for batch in reader {
                    self.waiting.push_back(batch.or_else(|_| fail(FAILED))?);
                }
                if self.waiting.is_empty() {
                    self.waiting.push_back(RecordBatch::new_empty(schema));
                }
            } else if item.hasattr("__arrow_c_array__")? {
                self.waiting.push_back(RecordBatch::from_pyarrow_bound(&item).or_else(|_| fail(NO_BATCH))?);
            } else {
                return fail(NO_BATCH);
            }
        }
        Ok(true)
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let taken = Python::attach(|py| self.pull(py));
        match taken {
            Ok(_) => self.waiting.pop_front().map(Ok),
            Err(_) => Some(Err(ArrowError::CDataInterface("the iterator failed".into()))),
        }
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
