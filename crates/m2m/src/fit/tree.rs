//! Points along a tree of columns, of which rows are made.
//!
//! Points of the product prior lie where every column by itself is likely, and few such places are likely for all columns
//! together: of many columns that depend on each other, weights leave few points with a say. Here a column is drawn given
//! another, its parent in the spanning tree of the greatest mutual information (Chow and Liu, 1968) in what the tables
//! tell of pairs, so that raking to all tables has little left to do.

use crate::Schema;
use crate::fit::composition::give_margins;
use crate::fit::interactions::Interactions;
use crate::panel::{Panel, Value};
use crate::prior::{Axis, Independent, panels};
use crate::stream::PublicStream;

/// Random records, and for each column the cell of every one.
pub(crate) fn sample(
    interactions: &Interactions,
    prior: &Independent,
    schema: &Schema,
    count: usize,
    seed: u64,
) -> (Vec<Panel>, Vec<Vec<u32>>) {
    let mut stream = PublicStream::new("tree", seed);
    let mut columns: Vec<Vec<Value>> = vec![Vec::new(); prior.axes.len()];
    let mut cells: Vec<Vec<u32>> = vec![Vec::new(); prior.axes.len()];
    for Branch { column, parent, law } in tree(interactions, prior) {
        let axis = &prior.axes[column];
        let kind = &schema.columns()[column].kind;
        // The points among which the column has the same law.
        let alike: Vec<Vec<u32>> = match parent {
            Some(parent) => {
                let mut alike = vec![Vec::new(); law.len()];
                cells[parent].iter().enumerate().for_each(|(at, cell)| alike[*cell as usize].push(at as u32));
                alike
            }
            None => vec![(0..count as u32).collect()],
        };
        let (mut values, mut found) = (vec![Value::Missing; count], vec![0u32; count]);
        for (mut points, law) in alike.into_iter().zip(&law) {
            for i in (1..points.len()).rev() {
                points.swap(i, stream.below(i as u64 + 1) as usize);
            }
            let cumulated = axis.cumulated_given(law);
            let mut at = 0;
            for (step, point) in points.iter().enumerate() {
                // Stratified, as the points of the prior are.
                let uniform = (step as f64 + stream.uniform()) / points.len() as f64;
                values[*point as usize] = axis.draw(&cumulated, &mut at, uniform, kind, &mut stream);
                found[*point as usize] = axis.partition()[at];
            }
        }
        columns[column] = values;
        cells[column] = found;
    }
    (panels(schema, &columns), cells)
}

/// A column, the one that it is drawn after, and its law for each cell of that.
struct Branch {
    column: usize,
    parent: Option<usize>,
    law: Vec<Vec<f64>>,
}

/// All columns, parents first (Prim's algorithm). A column that no table tells of has a parent too, and the same law
/// for all of its cells.
fn tree(interactions: &Interactions, prior: &Independent) -> Vec<Branch> {
    let masses: Vec<Vec<f64>> = prior.axes.iter().map(Axis::cell_masses).collect();
    let mut branches = vec![Branch { column: 0, parent: None, law: vec![masses[0].clone()] }];
    // Each column that is not in the tree yet, with the best parent for it so far.
    let mut open: Vec<(f64, usize, usize)> = (1..masses.len()).map(|column| (-1.0, column, 0)).collect();
    while !open.is_empty() {
        let last = branches.last().expect("the first column is in the tree").column;
        for (best, column, parent) in &mut open {
            let information = interactions.information(last, *column);
            if information > *best {
                (*best, *parent) = (information, last);
            }
        }
        let best = (0..open.len()).max_by(|a, b| open[*a].0.total_cmp(&open[*b].0)).expect("some are open");
        let (_, column, parent) = open.swap_remove(best);
        let law = Joint::new(interactions, prior, &masses, parent, column).with_margins();
        branches.push(Branch { column, parent: Some(parent), law });
    }
    branches
}

/// The fitted probabilities of two columns together, cell by cell, none of them negative.
struct Joint<'a> {
    table: Vec<Vec<f64>>,
    one: &'a [f64],
    two: &'a [f64],
}

impl<'a> Joint<'a> {
    fn new(interactions: &Interactions, prior: &Independent, masses: &'a [Vec<f64>], one: usize, two: usize) -> Self {
        let mut table = interactions.ratios(one, two, prior);
        let (one, two) = (&masses[one][..], &masses[two][..]);
        for (row, p) in table.iter_mut().zip(one) {
            row.iter_mut().zip(two).for_each(|(x, q)| *x = x.max(0.0) * p * q);
        }
        Self { table, one, two }
    }

    /// The table with the margins that it had before negative probabilities were cut off.
    fn with_margins(mut self) -> Vec<Vec<f64>> {
        give_margins(&mut self.table.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>(), self.one, self.two);
        // Of a cell that was left with nothing the tables tell nothing.
        for row in self.table.iter_mut().filter(|row| row.iter().all(|x| *x == 0.0)) {
            row.copy_from_slice(self.two);
        }
        self.table
    }
}
