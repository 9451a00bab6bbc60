//! The native part of the Python package `m2m`: it converts between Python and the library, and nothing else.
//!
//! ```text
//! Python objects ──► input (Arrow, paths) ──► m2m ──► output (Arrow, tuples) ──► python/m2m
//!                              run: without the interpreter's lock, Ctrl-C heard
//! ```

mod analyst;
mod curator;
mod input;
mod learn;
mod output;
mod run;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;

pyo3::create_exception!(
    m2m,
    Error,
    PyException,
    "What went wrong, and after a semicolon what to do. The words are those of the command line; no value of a cell is in them."
);

/// An error of the library as Python's.
fn raise(error: m2m::Error) -> PyErr {
    Error::new_err(error.to_string())
}

/// An error of Python's side, in our words.
fn fail<T>(message: impl Into<String>) -> PyResult<T> {
    Err(Error::new_err(message.into()))
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // A panic becomes an error; its own message could show a value.
    std::panic::set_hook(Box::new(|_| {}));
    module.add("Error", module.py().get_type::<Error>())?;
    module.add("version", env!("CARGO_PKG_VERSION"))?;
    curator::register(module)?;
    analyst::register(module)?;
    learn::register(module)?;
    module.add_class::<output::Table>()
}
