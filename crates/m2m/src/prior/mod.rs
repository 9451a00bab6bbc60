//! The prior: the distribution over the domain against which a release is read.

mod axis;

pub(crate) use axis::{Axis, Inside, Piece, Place};

use std::sync::Arc;

use crate::feature::{Cells, MapSpec};
use crate::panel::{Layout, PANEL, Panel, Row, Slot, Value};
use crate::release::Release;
use crate::stream::PublicStream;
use crate::{Error, Schema};

/// Where the prior comes from.
#[derive(Clone, Default)]
pub enum Prior {
    /// The product of the marginals that the release itself holds; uniform for columns without a histogram.
    #[default]
    Learned,
    /// Uniform on the domain of the schema: numbers between their bounds (after the transform), levels alike.
    Uniform,
    /// The product of the marginals of a public table.
    Marginals(PublicTable),
    /// The rows of a public table themselves.
    Sample(PublicTable),
}

/// Rows that are public, or the user's own.
#[derive(Clone)]
pub struct PublicTable(pub(crate) Arc<Vec<Panel>>);

impl PublicTable {
    /// Rows read by [`crate::source::read`].
    pub fn new(panels: Vec<Panel>) -> Result<Self, Error> {
        let rows: usize = panels.iter().map(Panel::len).sum();
        if rows < FEWEST_ROWS {
            return Err(Error::Question(format!(
                "the public table has {rows} rows; give one with at least {FEWEST_ROWS}, for it stands for all that is possible"
            )));
        }
        Ok(Self(Arc::new(panels)))
    }
}

/// A prior of fewer rows would take whatever they happen to lack for impossible.
const FEWEST_ROWS: usize = 100;

/// Independent columns.
pub(crate) struct Independent {
    pub axes: Vec<Axis>,
}

/// The one-way table of a column in a release: in which block, where it starts, and its cells.
pub(crate) struct Marginal {
    pub block: usize,
    pub first: usize,
    pub cells: Cells,
}

/// The first one-way table of each column.
pub(crate) fn marginals(release: &Release) -> Result<Vec<Option<Marginal>>, Error> {
    let schema = release.schema();
    let mut found: Vec<Option<Marginal>> = schema.columns().iter().map(|_| None).collect();
    for (block, released) in release.blocks().iter().enumerate() {
        for (first, mut group) in tables(released.map(), schema)? {
            if group.len() == 1 {
                let cells = group.remove(0);
                let column = cells.column();
                found[column].get_or_insert(Marginal { block, first, cells });
            }
        }
    }
    Ok(found)
}

/// The tables of a map; none unless it is made of tables.
pub(crate) fn tables(map: &MapSpec, schema: &Schema) -> Result<Vec<(usize, Vec<Cells>)>, Error> {
    match map {
        MapSpec::Hist(_) | MapSpec::Tables(_) => map.tables(schema),
        _ => Ok(Vec::new()),
    }
}

/// Bins of a public table's marginals.
const PUBLIC_BINS: u32 = 64;

impl Independent {
    /// The uniform prior, on axes that respect the given partitions.
    pub fn uniform<'a>(schema: &Schema, partition: impl Fn(usize) -> Option<&'a Cells>) -> Self {
        Self { axes: (0..schema.columns().len()).map(|column| Axis::new(schema, column, partition(column))).collect() }
    }

    /// The marginals of a public table, each mixed with a little of the uniform so that nothing is impossible.
    pub fn of_table(schema: &Schema, table: &PublicTable) -> Result<Self, Error> {
        let spec = MapSpec::Hist(crate::feature::HistSpec::with_bins(PUBLIC_BINS));
        let axes = spec
            .tables(schema)?
            .into_iter()
            .map(|(_, group)| {
                let cells = &group[0];
                let mut axis = Axis::new(schema, cells.column(), Some(cells));
                let mut counts = axis.cell_masses();
                let mut rows = 1.0;
                for panel in table.0.iter() {
                    for row in 0..panel.len() {
                        counts[cells.one(panel.record(row)) as usize] += 1.0;
                        rows += 1.0;
                    }
                }
                counts.iter_mut().for_each(|count| *count /= rows);
                axis.set_cells(&counts);
                axis
            })
            .collect();
        Ok(Self { axes })
    }

    /// Random records. Each column's places are drawn in equal steps (stratified), in an order of its own, so that the
    /// sample's marginals are closer to the prior's than independent draws would be.
    pub fn sample(&self, schema: &Schema, count: usize, seed: u64) -> Vec<Panel> {
        let mut stream = PublicStream::new("prior", seed);
        let columns: Vec<Vec<Value>> = self
            .axes
            .iter()
            .zip(schema.columns())
            .map(|(axis, column)| {
                let cumulated = axis.cumulated();
                let mut at = 0;
                let mut values: Vec<Value> = (0..count)
                    .map(|i| {
                        let uniform = (i as f64 + stream.uniform()) / count as f64;
                        axis.draw(&cumulated, &mut at, uniform, &column.kind, &mut stream)
                    })
                    .collect();
                for i in (1..count).rev() {
                    values.swap(i, stream.below(i as u64 + 1) as usize);
                }
                values
            })
            .collect();
        panels(schema, &columns)
    }
}

/// Records from the values of each column.
pub(crate) fn panels(schema: &Schema, columns: &[Vec<Value>]) -> Vec<Panel> {
    let layout = Layout::new(schema);
    let count = columns.first().map_or(0, Vec::len);
    let units = layout.slots().iter().filter(|slot| matches!(slot, Slot::Unit(_))).count();
    let mut row = Row { units: vec![0.0; units].into(), codes: vec![0; layout.slots().len() - units].into() };
    let mut panels: Vec<Panel> = Vec::with_capacity(count.div_ceil(PANEL));
    for i in 0..count {
        if i % PANEL == 0 {
            panels.push(Panel::new(layout.clone()));
        }
        for (slot, values) in layout.slots().iter().zip(columns) {
            match (slot, values[i]) {
                (Slot::Unit(slot), Value::Unit(unit)) => row.units[*slot] = unit,
                (Slot::Unit(slot), _) => row.units[*slot] = f64::NAN,
                (Slot::Code(slot), Value::Code(code)) => row.codes[*slot] = code,
                (Slot::Code(_), _) => unreachable!("a column of levels has codes"),
            }
        }
        panels.last_mut().expect("pushed above").push(&row);
    }
    panels
}
