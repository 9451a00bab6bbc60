//! Products of signs of two columns: whether both lie on the same side of their middles.
//!
//! A table of two columns spreads its noise over all of its cells; what it tells of the one contrast that matters most,
//! whether large goes with large, is the noise of all of them added up. A product of signs asks for that contrast alone.
//!
//! # Privacy
//! Lemma 2b: a sign is -1, 0 or 1 in every cell, so each product is, and the features of a record lie in the cube.

use crate::Error;
use crate::feature::cells::Cells;
use crate::feature::{Adder, Body, FeatureMap, Simd};
use crate::panel::{Lane, Panel, Record};

/// Products of the signs of pairs of columns.
pub(crate) struct Signs {
    /// With the sign of each cell.
    columns: Vec<(Cells, Vec<i8>)>,
    pairs: Vec<[u32; 2]>,
    simd: Simd,
}

impl Signs {
    /// Signs are one for each cell of a column, -1, 0 or 1; pairs are places among the columns.
    pub fn new(columns: Vec<(Cells, Vec<i8>)>, pairs: Vec<[u32; 2]>, simd: Simd) -> Result<Self, Error> {
        let fits = |(cells, signs): &(Cells, Vec<i8>)| {
            signs.len() == cells.len() && signs.iter().all(|sign| (-1..=1).contains(sign))
        };
        if !columns.iter().all(fits) {
            return Err(Error::Design("signs: give a sign, -1, 0 or 1, for each cell of every column".into()));
        }
        Ok(Self { columns, pairs, simd })
    }
}

impl FeatureMap for Signs {
    fn len(&self) -> usize {
        self.pairs.len()
    }

    fn body(&self) -> Body {
        Body::Cube { coordinates: self.pairs.len() as u64, radius: 1 }
    }

    fn record(&self, record: Record<'_>, features: &mut [i64]) {
        let sign = |column: u32| {
            let (cells, signs) = &self.columns[column as usize];
            i64::from(signs[cells.one(record) as usize])
        };
        for (feature, [one, two]) in features.iter_mut().zip(&self.pairs) {
            *feature = sign(*one) * sign(*two);
        }
    }

    fn adder(&self) -> Box<dyn Adder + '_> {
        Box::new(SignsAdder { map: self, cells: Lane::default(), signs: vec![Lane::default(); self.columns.len()] })
    }
}

struct SignsAdder<'a> {
    map: &'a Signs,
    cells: Lane<u32>,
    /// Of the records of a panel, column by column.
    signs: Vec<Lane<i8>>,
}

impl Adder for SignsAdder<'_> {
    fn add(&mut self, panel: &Panel, sums: &mut [i64]) {
        let n = panel.len();
        for ((cells, signs), lane) in self.map.columns.iter().zip(&mut self.signs) {
            cells.all(self.map.simd, panel, &mut self.cells);
            lane[..n].iter_mut().zip(self.cells.iter()).for_each(|(sign, cell)| *sign = signs[*cell as usize]);
        }
        for (sum, [one, two]) in sums.iter_mut().zip(&self.map.pairs) {
            let (one, two) = (&self.signs[*one as usize][..n], &self.signs[*two as usize][..n]);
            // A panel's products add up within 16 bits.
            *sum += i64::from(one.iter().zip(two).map(|(x, y)| i16::from(x * y)).sum::<i16>());
        }
    }
}
