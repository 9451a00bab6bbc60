//! One question at a time whose function is a single product of functions of one column each: a mean, a count, a cell.
//!
//! Of such a question everything that single columns give scales with what the other factors have for a mean, so it is found
//! once for each factor. A page or a table asks thousands of them with few factors.

use crate::estimate::{Covariance, Entry, Totals};
use crate::fit::interactions::{Interactions, Spread};
use crate::fit::points::dot;
use crate::fit::separate::{Tabulated, Term};
use crate::fit::{Fit, UNKNOWN_TAU};
use crate::prior::Place;

/// What a factor adds to a product of which the others have mean 1.
pub(crate) struct Effect {
    mean: f64,
    variance: f64,
    /// What is observed of the column's values adds to the answer.
    observed: f64,
    /// The variance of the error, and what of it is noise.
    error: f64,
    noise: f64,
}

impl Fit {
    /// The total of one product. Nothing where features have a say in it.
    pub(super) fn alone(&self, term: &Term) -> Option<Totals> {
        let interactions = self
            .interactions
            .as_ref()
            .filter(|_| self.kept.is_empty() && self.options.centred && !self.knowledge.is_empty())?;
        let effects: Vec<&Effect> = term
            .factors
            .iter()
            .map(|(column, table)| table.effect.get_or_init(|| self.effect(*column, table)))
            .collect();
        Some(self.total(interactions, term, &effects))
    }

    fn total(&self, interactions: &Interactions, term: &Term, effects: &[&Effect]) -> Totals {
        let mean: f64 = term.coefficient * effects.iter().map(|effect| effect.mean).product::<f64>();
        let square: f64 = effects.iter().map(|effect| effect.mean.powi(2) + effect.variance).product();
        let all = term.coefficient.powi(2) * square - mean * mean;
        let mut spread = Spread::default();
        interactions.spread(term, term, &self.prior, &mut spread);
        let (mut value, mut error, mut privacy) = (mean, spread.all, spread.privacy);
        let mut main = 0.0;
        for (at, effect) in effects.iter().enumerate() {
            let others = effects.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, effect)| effect.mean);
            let rest = term.coefficient * others.product::<f64>();
            value += rest * effect.observed;
            error += rest * rest * effect.error;
            privacy += rest * rest * effect.noise;
            main += rest * rest * effect.variance;
        }
        value += interactions.value(term.coefficient, &interactions.shares(term, &self.prior));
        let mut covariance = Covariance::zeros(1);
        covariance[(0, 0)] = Entry {
            privacy,
            sampling: 0.0,
            approximation: (error - privacy).max(0.0),
            ignorance: main + UNKNOWN_TAU * (all - main),
        };
        Totals {
            values: vec![value * self.rows],
            count: vec![self.count_deviation * mean],
            covariance: covariance.scaled(self.rows),
        }
    }

    fn effect(&self, column: usize, table: &Tabulated) -> Effect {
        let (axis, known) = (&self.prior.axes[column], &self.knowledge[column]);
        let mean = axis.mean(table);
        let centred = |(x, place): (&f64, &Place)| if *place == Place::Slope { *x } else { x - mean };
        let table: Vec<f64> = table.iter().zip(axis.places()).map(centred).collect();
        let mut cells = axis.cell_means(&table);
        let (shared, observed) =
            known.observed.as_ref().map_or((0.0, 0.0), |observed| observed.shared(known, axis, &table, &cells));
        let error = dot(&cells, &known.covariance(&cells)) + dot(&known.within, &axis.cell_covariances(&table, &table))
            - known.explained(shared, shared);
        let mut noise = 0.0;
        if known.noise {
            if let Some(observed) = &known.observed {
                let gain = shared / observed.total;
                cells.iter_mut().zip(&observed.cells).for_each(|(x, y)| *x -= gain * y);
                noise += gain * gain * observed.noise;
            }
            noise += dot(&cells, &known.covariance(&cells));
        }
        Effect { mean, variance: axis.inner(&table, &table), observed, error, noise }
    }
}
