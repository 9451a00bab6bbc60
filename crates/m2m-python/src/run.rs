//! Work without the interpreter's lock, while the calling thread listens for Ctrl-C.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use m2m::source::Watch;
use pyo3::prelude::*;

use crate::{fail, raise};

/// How often signals are looked for and progress is told.
const TICK: Duration = Duration::from_millis(50);

/// Tells a worker to stop, and how far it is.
#[derive(Default)]
pub struct Flag {
    stopped: AtomicBool,
    bytes: AtomicU64,
}

impl Watch for Flag {
    fn advance(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// Does some work on another thread. On Ctrl-C its result is given up: it is told to stop, and whatever it still does has
/// no effect. So this is not for what debits a ledger or adds noise.
pub fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Flag) -> Result<T, m2m::Error> + Send + 'static,
) -> PyResult<T> {
    let flag = Arc::new(Flag::default());
    let (send, mut receive) = channel();
    let heard = flag.clone();
    let started = std::thread::Builder::new().name("m2m".into()).spawn(move || {
        // Nobody listens after Ctrl-C.
        let _ = send.send(catch_unwind(AssertUnwindSafe(|| work(&heard))));
    });
    if let Err(error) = started {
        return fail(format!("no thread could be started ({error}); free some memory"));
    }
    loop {
        let result;
        (result, receive) = py.detach(move || (receive.recv_timeout(TICK), receive));
        match result {
            Ok(Ok(result)) => return result.map_err(raise),
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => return fail(BUG),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let told = progress.map_or(Ok(()), |tell| tell.call1((flag.bytes.load(Ordering::Relaxed),)).map(|_| ()));
        if let Err(stop) = py.check_signals().and(told) {
            flag.stopped.store(true, Ordering::Relaxed);
            return Err(stop);
        }
    }
}

/// Does some short work, to its end.
pub fn whole<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T, m2m::Error> + Send) -> PyResult<T> {
    match py.detach(|| catch_unwind(AssertUnwindSafe(work))) {
        Ok(result) => result.map_err(raise),
        Err(_) => fail(BUG),
    }
}

const BUG: &str = "something went wrong within m2m that should not; please report the steps that led here";
