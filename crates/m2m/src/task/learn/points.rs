//! The points of a sample as vectors of numbers.

use faer::Mat;

use crate::estimate::Sample;
use crate::expr::{Checked, col, find_column, lit};
use crate::schema::Kind;
use crate::{Error, Schema};

/// Numbers for each point.
pub struct Points {
    /// Their names; a level's is `column[level]`.
    pub names: Vec<String>,
    /// A row per point; zeros where something is missing.
    pub values: Mat<f64>,
    /// Whether nothing is missing.
    pub complete: Vec<bool>,
}

impl Points {
    /// The given columns, or all numeric ones. A truth is 0 or 1, a category a column of 0 and 1 for each level.
    pub fn new(sample: &dyn Sample, columns: Option<&[String]>) -> Result<Self, Error> {
        let schema = sample.schema();
        let numeric = || schema.columns().iter().filter(|column| column.kind.range().is_some());
        let wanted = match columns {
            Some(columns) => columns.to_vec(),
            None => numeric().map(|column| column.name.clone()).collect(),
        };
        let mut functions: Vec<(String, Checked)> = Vec::new();
        for name in &wanted {
            let checked = col(name).check(schema)?;
            let column = &schema.columns()[checked.columns()[0]];
            if let Kind::Category(levels) = &column.kind {
                for level in levels {
                    let is_level = col(&column.name).eq(lit(level.as_str())).check(schema)?;
                    functions.push((format!("{}[{level}]", column.name), is_level));
                }
            } else {
                functions.push((column.name.clone(), checked));
            }
        }
        if functions.is_empty() {
            return Err(Error::Question("there is no numeric column; name the columns to use".into()));
        }
        let columns: Vec<Vec<f64>> = functions.iter().map(|(_, function)| sample.values(function)).collect();
        let complete: Vec<bool> =
            (0..sample.len()).map(|row| columns.iter().all(|column| column[row].is_finite())).collect();
        let values =
            Mat::from_fn(sample.len(), columns.len(), |row, at| if complete[row] { columns[at][row] } else { 0.0 });
        Ok(Self { names: functions.into_iter().map(|(name, _)| name).collect(), values, complete })
    }

    /// The columns of the schema that these columns (all numeric ones unless given) are made of, in increasing order.
    pub fn inputs(schema: &Schema, columns: Option<&[String]>) -> Result<Vec<usize>, Error> {
        let mut places: Vec<usize> = match columns {
            Some(names) => names.iter().map(|name| find_column(schema, name)).collect::<Result<_, _>>()?,
            None => (0..schema.columns().len()).filter(|at| schema.columns()[*at].kind.range().is_some()).collect(),
        };
        places.sort_unstable();
        places.dedup();
        Ok(places)
    }

    /// The weights of the complete points, 0 for the others, made to add up to 1, with the share of all points' weight
    /// that they had; absent unless that is positive.
    pub(super) fn weights(&self, weights: &[f64]) -> Option<(Vec<f64>, f64)> {
        let kept = |row: usize| if self.complete[row] { weights[row] } else { 0.0 };
        let total: f64 = (0..weights.len()).map(kept).sum();
        (total > 0.0).then(|| ((0..weights.len()).map(|row| kept(row) / total).collect(), total / weights.len() as f64))
    }

    /// The weighted mean and standard deviation of each column; `None` if a variance is not positive.
    pub(super) fn scales(&self, weights: &[f64]) -> (Vec<f64>, Option<Vec<f64>>) {
        let columns = || (0..self.names.len()).map(|at| self.values.col_as_slice(at));
        let means: Vec<f64> = columns().map(|column| column.iter().zip(weights).map(|(x, w)| x * w).sum()).collect();
        let variances = columns().zip(&means).map(|(column, mean)| {
            let variance: f64 = column.iter().zip(weights).map(|(x, w)| w * (x - mean) * (x - mean)).sum();
            let size = column.iter().map(|x| x.abs()).fold(0.0, f64::max);
            (variance > 0.0 && variance.sqrt() > 1e-10 * size).then(|| variance.sqrt())
        });
        let deviations = variances.collect();
        (means, deviations)
    }

    /// What to say when a column is always the same.
    pub(super) fn still(&self, weights: &[f64]) -> Error {
        let still = (0..self.names.len())
            .find(|at| {
                let one = Self {
                    names: vec![self.names[*at].clone()],
                    values: self.values.as_ref().subcols(*at, 1).to_owned(),
                    complete: self.complete.clone(),
                };
                one.scales(weights).1.is_none()
            })
            .map_or("a column", |at| &self.names[at]);
        Error::Question(format!("`{still}` does not vary; name the columns to use without it"))
    }
}

/// What to say when no point is complete.
pub(super) fn nothing() -> Error {
    Error::Question("no row has all of these columns; leave out columns that are often missing".into())
}
