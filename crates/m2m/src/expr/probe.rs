//! What values an expression takes somewhere in the public ranges of its columns.

use super::{Checked, Scalar};
use crate::schema::{Kind, Schema};
use crate::stream::PublicStream;

/// Combinations that are tried, at most.
const TRIED: usize = 20_000;

impl Checked {
    /// The lowest value that was found among ends, atoms, levels, the expression's own constants and what lies between
    /// them. Exact for a column, and wherever the extremes lie at such places.
    pub(crate) fn lowest(&self, schema: &Schema) -> Option<f64> {
        let columns = self.columns();
        let mut constants = Vec::new();
        self.node.constants(&mut constants);
        let places: Vec<Vec<Scalar<'_>>> = columns.iter().map(|column| places(schema, *column, &constants)).collect();
        let count = places.iter().fold(1usize, |count, places| count.saturating_mul(places.len()));
        let mut stream = PublicStream::new("probe", 0);
        let mut lowest: Option<f64> = None;
        for combination in 0..count.min(TRIED) {
            let mut rest = combination;
            let values: Vec<Scalar<'_>> = places
                .iter()
                .map(|places| {
                    let at =
                        if count > TRIED { stream.below(places.len() as u64) as usize } else { rest % places.len() };
                    rest /= places.len();
                    places[at]
                })
                .collect();
            let value = self.value(&|column| columns.binary_search(&column).map_or(Scalar::Null, |at| values[at]));
            if let Scalar::Number(x) = value {
                lowest = Some(lowest.map_or(x, |lowest| lowest.min(x)));
            }
        }
        lowest
    }
}

/// Values of a column that an expression with these constants may tell apart.
fn places<'a>(schema: &'a Schema, column: usize, constants: &[f64]) -> Vec<Scalar<'a>> {
    let column = &schema.columns()[column];
    let mut places = match (&column.kind, column.kind.range()) {
        (kind, Some(range)) => {
            let mut values = vec![range.min(), range.max(), 0f64.clamp(range.min(), range.max())];
            values.extend(range.atoms());
            values.extend(constants.iter().flat_map(|x| [*x, -x]).filter(|x| (range.min()..=range.max()).contains(x)));
            values.sort_by(f64::total_cmp);
            let between: Vec<f64> = values.windows(2).map(|ends| ends[0] + (ends[1] - ends[0]) / 2.0).collect();
            values.extend(between);
            if kind.is_whole() {
                values.iter_mut().for_each(|x| *x = x.round());
            }
            values.sort_by(f64::total_cmp);
            values.dedup();
            values.into_iter().map(Scalar::Number).collect()
        }
        (Kind::Category(levels), None) => {
            (0..=levels.len()).map(|code| Scalar::Text(column.kind.label(code as u32))).collect()
        }
        _ => vec![Scalar::Boolean(false), Scalar::Boolean(true)],
    };
    if column.nullable {
        places.push(Scalar::Null);
    }
    places
}

#[cfg(test)]
mod tests {
    use super::super::{Expr, Function, col, lit};
    use super::*;

    #[test]
    fn the_lowest_value_is_found() {
        let schema = Schema::from_toml(
            "[[column]]\nname='x'\ntype='integer'\nmin=-2\nmax=9\n[[column]]\nname='y'\ntype='number'\nmin=1\nmax=5\n\
             [[column]]\nname='g'\ntype='category'\nlevels=['a','b']\nnullable=true",
        )
        .unwrap();
        let (x, y) = (|| col("x"), || col("y"));
        let case = |condition: Expr, then: Expr, other: Expr| Expr::Case {
            branches: vec![(condition, then)],
            otherwise: Some(Box::new(other)),
        };
        for (expr, expected) in [
            (x(), -2.0),
            (y(), 1.0),
            (x() * x(), 0.0),
            (x() + y() * lit(2.0), 0.0),
            (x() - y(), -7.0),
            (-y(), -5.0),
            (Expr::Call(Function::Greatest, vec![x(), lit(0.0)]), 0.0),
            (case(x().lt(lit(0.0)), lit(0.0), x()), 0.0),
            (case(col("g").eq(lit("b")), x(), y()), -2.0),
            (case(col("g").is_null(), lit(-3.0), y()), -3.0),
            (case(y().gt(lit(2.0)).and(y().lt(lit(2.5))), lit(-1.0), y()), -1.0),
        ] {
            assert_eq!(expr.check(&schema).unwrap().lowest(&schema), Some(expected), "{expr:?}");
        }
    }
}
