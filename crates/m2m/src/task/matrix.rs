//! Covariance and correlation matrices.

use faer::{Mat, Side};

use super::{Ask, smooth};
use crate::Error;
use crate::estimate::{Caution, Estimate, Parts, Totals, Z95};
use crate::expr::{Expr, col, find_column, lit};

/// A symmetric matrix over columns, each entry with its error.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// The columns.
    pub names: Vec<String>,
    /// The entries, row by row.
    pub entries: Vec<Vec<Estimate>>,
}

impl Ask<'_> {
    /// The covariance matrix of numeric columns, repaired to be positive semi-definite.
    pub fn covariance(&self, columns: &[&str]) -> Result<Matrix, Error> {
        let mut matrix =
            self.pairs(columns, |totals, area| smooth(totals, |s| area * (s[5] / s[0] - s[1] / s[0] * (s[2] / s[0]))))?;
        for (i, row) in matrix.entries.iter_mut().enumerate() {
            row[i] = row[i].within(0.0, f64::INFINITY);
        }
        matrix.repair(false);
        Ok(matrix)
    }

    /// The correlation matrix of numeric columns, repaired to be positive semi-definite with ones on the diagonal.
    pub fn correlation(&self, columns: &[&str]) -> Result<Matrix, Error> {
        let mut matrix = self.pairs(columns, |totals, _| {
            let variance = |s: &[f64], x: usize, square: usize| s[square] / s[0] - (s[x] / s[0]).powi(2);
            let spreads = [(1, 3), (2, 4)].map(|(x, square)| smooth(totals, |s| variance(s, x, square)));
            if spreads.iter().any(|spread| spread.value <= 0.0) {
                // It can be anything.
                return Estimate::new(0.0, Parts { approximation: 1.0, ..Parts::default() })
                    .with_caution(Some(Caution::Swamped));
            }
            let entry = smooth(totals, |s| {
                let covariance = s[5] / s[0] - s[1] / s[0] * (s[2] / s[0]);
                covariance
                    / (variance(s, 1, 3).max(f64::MIN_POSITIVE) * variance(s, 2, 4).max(f64::MIN_POSITIVE)).sqrt()
            });
            let swamped = spreads.iter().any(|spread| spread.value < Z95 * spread.std_error);
            entry.with_caution(swamped.then_some(Caution::Swamped))
        })?;
        for (i, row) in matrix.entries.iter_mut().enumerate() {
            row.iter_mut().for_each(|entry| *entry = entry.within(-1.0, 1.0));
            row[i] = Estimate::new(1.0, Default::default());
        }
        matrix.repair(true);
        Ok(matrix)
    }

    /// A function of Σ1, Σx, Σy, Σx², Σy², Σxy for every pair of columns, over the rows where both have a value. Columns are
    /// rescaled to a width of 1; the function is told by what area that shrank their products.
    fn pairs(&self, columns: &[&str], function: impl Fn(&Totals, f64) -> Estimate) -> Result<Matrix, Error> {
        if columns.is_empty() {
            return Err(Error::Question("there is no numeric column to compare; name some".into()));
        }
        let mut centred = Vec::new();
        for name in columns {
            let column = &self.schema().columns()[find_column(self.schema(), name)?];
            let range = column.kind.range();
            let range =
                range.ok_or_else(|| Error::Question(format!("`{name}` holds no numbers; name numeric columns")))?;
            centred.push((col(*name) - lit(range.min())) / lit(range.max() - range.min()) - lit(0.5));
        }
        let widths: Vec<f64> = columns
            .iter()
            .map(|name| self.number(&col(*name)).map(|range| range.map_or(1.0, |range| range.max() - range.min())))
            .collect::<Result<_, _>>()?;
        let nothing = Estimate::new(0.0, Default::default());
        let mut entries = vec![vec![nothing; columns.len()]; columns.len()];
        for i in 0..columns.len() {
            for j in 0..=i {
                let (x, y) = (centred[i].clone(), centred[j].clone());
                let known = x.clone().is_not_null().and(y.clone().is_not_null());
                let when = |value: Expr| Expr::Case { branches: vec![(known.clone(), value)], otherwise: None };
                let totals = self.totals(&[
                    when(lit(1.0)),
                    when(x.clone()),
                    when(y.clone()),
                    when(x.clone() * x.clone()),
                    when(y.clone() * y.clone()),
                    when(x * y),
                ])?;
                let entry = function(&totals, widths[i] * widths[j]).with_caution(totals.swamped(0));
                entries[i][j] = entry;
                entries[j][i] = entry;
            }
        }
        Ok(Matrix { names: columns.iter().map(|name| (*name).to_owned()).collect(), entries })
    }
}

impl Matrix {
    /// The nearest positive semi-definite matrix: negative eigenvalues become zero, and the diagonal of a correlation
    /// matrix becomes one again. Errors stay; intervals move with the values where they must.
    fn repair(&mut self, correlation: bool) {
        let n = self.names.len();
        let values = Mat::from_fn(n, n, |i, j| self.entries[i][j].value);
        let Ok(eigen) = values.self_adjoint_eigen(Side::Lower) else { return };
        let (u, s) = (eigen.U(), eigen.S().column_vector());
        if (0..n).all(|k| s[k] >= 0.0) {
            return;
        }
        let mut fixed = Mat::from_fn(n, n, |i, j| (0..n).map(|k| u[(i, k)] * s[k].max(0.0) * u[(j, k)]).sum::<f64>());
        if correlation {
            let root: Vec<f64> = (0..n).map(|i| fixed[(i, i)].max(1e-300).sqrt()).collect();
            fixed = Mat::from_fn(n, n, |i, j| if i == j { 1.0 } else { fixed[(i, j)] / (root[i] * root[j]) });
        }
        for i in 0..n {
            for j in 0..n {
                let entry = &mut self.entries[i][j];
                entry.value = fixed[(i, j)];
                entry.low = entry.low.min(entry.value);
                entry.high = entry.high.max(entry.value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Schema;
    use crate::source::Table;
    use crate::task::learn::Rows;

    #[test]
    fn a_column_that_does_not_vary_leaves_every_correlation_open() {
        let column = |name: &str| format!("[[column]]\nname='{name}'\ntype='number'\nmin=0\nmax=8\n");
        let schema = Schema::from_toml(&(column("x") + &column("y") + &column("z"))).unwrap();
        let table = Table::from_csv_bytes(b"x,y,z\n1,4,2\n2,4,4\n3,4,6\n".to_vec());
        let rows = Rows::read(&table, &schema, &[0, 1, 2], &()).unwrap();
        let found = Ask::of(&rows).correlation(&["x", "y", "z"]).unwrap();
        let open = found.entries[1][0];
        assert_eq!((open.low, open.high, open.caution), (-1.0, 1.0, Some(Caution::Swamped)));
        let known = found.entries[2][0];
        assert!((known.value - 1.0).abs() < 1e-9 && known.std_error < 1e-9 && known.caution.is_none(), "{known:?}");
    }
}
