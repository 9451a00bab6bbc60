//! A check of the promise by somebody who trusts nothing: many releases of two neighbouring tables, made the way that
//! every release is made, and a search for an event that tells the tables apart better than it should.
//!
//! ```text
//! neighbouring tables ──► releases ──► some of them choose an event ──► fresh ones count it ──► lower bound on ε
//! ```
//!
//! If a release is (ε, δ)-private then every event E has P(E) ≤ e^ε P′(E) + δ, so ε ≥ ln((P(E) − δ) / P′(E)). Both
//! probabilities are bounded by exact confidence intervals (Clopper and Pearson), from releases that had no part in
//! the choice of E: a bound above the claimed ε is a broken promise, up to the stated chance of a false alarm. A bound
//! below it proves nothing. That is what the proofs in PRIVACY.md are for.

mod binomial;
mod case;
mod event;
#[cfg(test)]
mod tests;

pub use case::{Case, DELTA, suite};

use crate::{Error, Release};
use event::{Event, Observation};

/// The chance of a false alarm at which a promise is called broken.
pub const ALARM: f64 = 1e-4;
/// One in so many releases is there to choose the event.
const TRAINING: u64 = 4;

/// What an audit found about one case.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The ε that is promised.
    pub epsilon: f64,
    /// The δ that is promised beside it.
    pub delta: f64,
    /// What was counted, in words.
    pub event: String,
    /// Releases of either table in which it was counted.
    pub trials: u64,
    /// How often it happened to the table for which it is likelier, and to the other.
    pub happened: [u64; 2],
}

impl Finding {
    /// With this confidence ε is no smaller.
    pub fn lower_bound(&self, confidence: f64) -> f64 {
        // Half of what may go wrong for each of the two probabilities.
        let alpha = 0.5 * (1.0 - confidence);
        let more = binomial::lower(self.happened[0], self.trials, alpha);
        let less = binomial::upper(self.happened[1], self.trials, alpha);
        ((more - self.delta).max(0.0) / less).ln().max(0.0)
    }

    /// Whether the promise is kept as far as can be seen, with this chance of a false alarm.
    pub fn holds(&self, alarm: f64) -> bool {
        self.lower_bound(1.0 - alarm) <= self.epsilon
    }
}

/// Audits a case with so many releases of either table.
pub fn audit(case: &Case, trials: u64) -> Result<Finding, Error> {
    examine(case, trials, &|table, _| case.release(table))
}

/// Makes a release of the first or the second table of a case; which of many it is may serve as a seed.
type MakeRelease<'a> = dyn Fn(usize, u64) -> Result<Release, Error> + Sync + 'a;

fn examine(case: &Case, trials: u64, release: &MakeRelease<'_>) -> Result<Finding, Error> {
    let training = trials.div_ceil(TRAINING);
    let mut seen = [Vec::new(), Vec::new()];
    for part in in_parallel(0, training, &|number| {
        let observe = |table| case.observe(&release(table, number)?);
        Ok([observe(0)?, observe(1)?])
    })? {
        let [first, second] = part;
        seen[0].push(first);
        seen[1].push(second);
    }
    let (epsilon, delta) = case.claim();
    let event = Event::choose(&seen, delta);
    let fresh = trials.saturating_sub(training).max(1);
    let counts = in_parallel(training, training + fresh, &|number| {
        let happens = |table| Ok::<_, Error>(u64::from(event.happens(&case.observe(&release(table, number)?)?)));
        Ok([happens(event.likelier)?, happens(1 - event.likelier)?])
    })?;
    let happened = [0, 1].map(|at: usize| counts.iter().map(|count| count[at]).sum());
    Ok(Finding { epsilon, delta, event: event.to_string(), trials: fresh, happened })
}

/// Does the work of each number on all cores; the results are in the order of the numbers.
fn in_parallel<T: Send>(from: u64, to: u64, work: &(dyn Fn(u64) -> Result<T, Error> + Sync)) -> Result<Vec<T>, Error> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let size = (to - from).div_ceil(threads).max(1);
    let parts: Vec<Result<Vec<T>, Error>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (from..to)
            .step_by(size as usize)
            .map(|start| scope.spawn(move || (start..(start + size).min(to)).map(work).collect()))
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("an audit does not panic")).collect()
    });
    let mut all = Vec::new();
    for part in parts {
        all.extend(part?);
    }
    Ok(all)
}
