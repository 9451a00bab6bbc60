//! Questions that take a while: off the threads that serve, so many at a time, and stopped when nobody waits any more.

use std::any::Any;
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use m2m::Schema;
use m2m::estimate::{Model, Positive, Sample, Totals, WeightedSample};
use m2m::expr::Checked;
use m2m::fit::Fit;
use tokio::sync::Semaphore;

use super::problem::Problem;

/// How many may wait for work of a kind; who comes then is sent away, so that a flood of questions takes no more memory.
pub const WAITING: usize = 1000;

/// Work of two kinds, so that the quick never waits for the slow.
pub struct Lanes {
    quick: Line,
    slow: Line,
    limit: Duration,
}

/// Places to work at, and places to wait or work at.
struct Line {
    work: Arc<Semaphore>,
    wait: Semaphore,
}

/// Which kind of work it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Closed forms.
    Quick,
    /// Random points: models and synthetic rows.
    Slow,
}

impl Lanes {
    /// Work that is given up after a while.
    pub fn new(limit: Duration) -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let lane = |count| Line { work: Arc::new(Semaphore::new(count)), wait: Semaphore::new(count + WAITING) };
        Self { quick: lane(2 * cores), slow: lane(cores.div_ceil(2)), limit }
    }

    /// Does some work on a thread of its own when its turn comes. It is told to stop when it has taken too long, which waiting
    /// is no part of, or when the future is dropped because the one who asked has left.
    pub async fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl FnOnce(&Stop) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let stop = Stop::default();
        let _dropped = StopOnDrop(stop.clone());
        let line = if lane == Lane::Quick { &self.quick } else { &self.slow };
        let _place = line.wait.try_acquire().map_err(|_| Problem::busy())?;
        let permit = line.work.clone().acquire_owned().await.map_err(|_| Problem::failed())?;
        let job = move || {
            // Held until the work is done, even if nobody waits for it: threads are what is scarce.
            let _permit = permit;
            catch_unwind(AssertUnwindSafe(|| work(&stop)))
        };
        match tokio::time::timeout(self.limit, tokio::task::spawn_blocking(job)).await {
            Ok(Ok(Ok(result))) => result,
            Ok(Ok(Err(panic))) if panic.is::<Stopped>() => Err(Problem::slow()),
            Ok(_) => Err(Problem::failed()),
            Err(_) => Err(Problem::slow()),
        }
    }
}

/// Whether work is to stop.
#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// What a thread unwinds with when it was told to stop.
struct Stopped;

impl Stop {
    /// Leaves the work if it was told to stop. Without a message: nothing went wrong.
    fn check(&self) {
        if self.0.load(Ordering::Relaxed) {
            resume_unwind(Box::new(Stopped) as Box<dyn Any + Send>);
        }
    }
}

/// A fit that stops answering when it is told to: everything that takes long asks it many times.
pub struct Watched<'a> {
    pub fit: &'a Fit,
    pub stop: &'a Stop,
    /// Rows that do not meet this are left out of models, as if they lacked a value.
    pub condition: Option<&'a Checked>,
}

impl Model for Watched<'_> {
    fn schema(&self) -> &Schema {
        Model::schema(self.fit)
    }

    fn totals(&self, functions: &[Checked]) -> Totals {
        self.stop.check();
        self.fit.totals(functions)
    }

    fn total_values(&self, functions: &[Checked]) -> Vec<f64> {
        self.stop.check();
        self.fit.total_values(functions)
    }
}

impl Sample for Watched<'_> {
    fn schema(&self) -> &Schema {
        Sample::schema(self.fit)
    }

    fn len(&self) -> usize {
        self.fit.len()
    }

    fn values(&self, function: &Checked) -> Vec<f64> {
        self.stop.check();
        filtered(self.fit, function, self.condition)
    }
}

impl WeightedSample for Watched<'_> {
    fn rows(&self) -> f64 {
        self.fit.rows()
    }

    fn weights(&self, columns: &[usize]) -> Cow<'_, [f64]> {
        self.stop.check();
        self.fit.weights(&self.with_condition(columns))
    }

    fn positive(&self) -> Positive<'_> {
        self.stop.check();
        let Positive { sample, weights } = self.fit.positive();
        Positive { sample: self.filtered(sample), weights }
    }

    fn judges(&self) -> Box<dyn Sample + '_> {
        self.stop.check();
        self.filtered(self.fit.judges())
    }

    fn covariance(&self, functions: &faer::Mat<f64>, columns: &[usize]) -> faer::Mat<f64> {
        self.stop.check();
        self.fit.covariance(functions, &self.with_condition(columns))
    }
}

impl Watched<'_> {
    /// Other points, seen through the same filter.
    fn filtered<'b>(&'b self, sample: Box<dyn Sample + 'b>) -> Box<dyn Sample + 'b> {
        Box::new(Filtered { sample, stop: self.stop, condition: self.condition })
    }

    /// What the filtered values of functions of some columns depend on.
    fn with_condition(&self, columns: &[usize]) -> Vec<usize> {
        let mut all = columns.to_vec();
        all.extend(self.condition.iter().flat_map(|condition| condition.columns()));
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Other points under the same watch.
struct Filtered<'a> {
    sample: Box<dyn Sample + 'a>,
    stop: &'a Stop,
    condition: Option<&'a Checked>,
}

impl Sample for Filtered<'_> {
    fn schema(&self) -> &Schema {
        self.sample.schema()
    }

    fn len(&self) -> usize {
        self.sample.len()
    }

    fn values(&self, function: &Checked) -> Vec<f64> {
        self.stop.check();
        filtered(&*self.sample, function, self.condition)
    }
}

/// Values at points, missing where a condition is not met.
fn filtered(sample: &dyn Sample, function: &Checked, condition: Option<&Checked>) -> Vec<f64> {
    let mut values = sample.values(function);
    if let Some(condition) = condition {
        let meets = sample.values(condition);
        values.iter_mut().zip(meets).filter(|(_, meets)| *meets != 1.0).for_each(|(value, _)| *value = f64::NAN);
    }
    values
}
