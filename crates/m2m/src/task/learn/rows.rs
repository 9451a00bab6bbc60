//! Rows that are no secret, as a sample that stands for itself.

use std::borrow::Cow;

use faer::Mat;

use crate::Error;
use crate::estimate::{Model, Positive, Sample, Totals, WeightedSample};
use crate::expr::{Checked, Scalar, value_of};
use crate::panel::Panel;
use crate::schema::{Schema, Unit};
use crate::source::{self, Table, Watch};

/// Rows of a table that the reader owns, such as test data. Each has the weight 1, and they are taken for a random
/// sample of what they stand for.
pub struct Rows {
    schema: Schema,
    /// The columns of the schema that were read, in increasing order; others are missing.
    columns: Vec<usize>,
    read: Schema,
    panels: Vec<Panel>,
    weights: Vec<f64>,
}

impl Rows {
    /// Reads the given columns of the schema, in increasing order; the table needs no others.
    pub fn read(table: &Table, schema: &Schema, columns: &[usize], watch: &dyn Watch) -> Result<Self, Error> {
        let read = Schema::new(Unit::Row, columns.iter().map(|column| schema.columns()[*column].clone()).collect())?;
        let panels = source::read(table, &read, watch)?;
        Ok(Self::new(schema, columns.to_vec(), read, panels))
    }

    /// Rows of all columns that are there already.
    pub(crate) fn of_panels(schema: &Schema, panels: Vec<Panel>) -> Self {
        Self::new(schema, (0..schema.columns().len()).collect(), schema.clone(), panels)
    }

    fn new(schema: &Schema, columns: Vec<usize>, read: Schema, panels: Vec<Panel>) -> Self {
        let count = panels.iter().map(Panel::len).sum();
        Self { schema: schema.clone(), columns, read, panels, weights: vec![1.0; count] }
    }

    pub(crate) fn panels(&self) -> &[Panel] {
        &self.panels
    }
}

impl Sample for Rows {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn len(&self) -> usize {
        self.weights.len()
    }

    fn values(&self, function: &Checked) -> Vec<f64> {
        let records = self.panels.iter().flat_map(|panel| (0..panel.len()).map(|row| panel.record(row)));
        let number = |value: Scalar<'_>| match value {
            Scalar::Number(x) => x,
            Scalar::Boolean(truth) => f64::from(truth),
            Scalar::Null | Scalar::Text(_) => f64::NAN,
        };
        records
            .map(|record| {
                number(function.value(&|column| match self.columns.binary_search(&column) {
                    Ok(at) => value_of(&self.read, at, record.value(at)),
                    Err(_) => Scalar::Null,
                }))
            })
            .collect()
    }
}

impl WeightedSample for Rows {
    fn rows(&self) -> f64 {
        self.len() as f64
    }

    fn weights(&self, _: &[usize]) -> Cow<'_, [f64]> {
        Cow::Borrowed(&self.weights)
    }

    fn positive(&self) -> Positive<'_> {
        Positive { sample: Box::new(self), weights: &self.weights }
    }

    fn judges(&self) -> Box<dyn Sample + '_> {
        Box::new(self)
    }

    /// The sample covariance over the number of rows.
    fn covariance(&self, functions: &Mat<f64>, _: &[usize]) -> Mat<f64> {
        let (n, p) = (functions.nrows(), functions.ncols());
        let means: Vec<f64> = (0..p).map(|at| functions.col_as_slice(at).iter().sum::<f64>() / n as f64).collect();
        let centred = Mat::from_fn(n, p, |row, at| functions[(row, at)] - means[at]);
        let scale = 1.0 / (n as f64 * (n as f64 - 1.0).max(1.0));
        let product = super::newton::multiply(centred.as_ref().transpose(), centred.as_ref());
        Mat::from_fn(p, p, |row, column| product[(row, column)] * scale)
    }
}

/// The rows answer for themselves, without error.
impl Model for Rows {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn totals(&self, functions: &[Checked]) -> Totals {
        let total = |function| self.values(function).into_iter().filter(|x| !x.is_nan()).sum();
        Totals::exact(functions.iter().map(total).collect())
    }
}
