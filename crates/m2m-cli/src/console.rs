//! Messages, progress and interruption: everything that goes to standard error.

use std::io::{IsTerminal, stderr};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::{ProgressBar, ProgressStyle};
use m2m::source::Watch;

/// Held while files change, so that an interruption waits until they are whole.
static WRITING: Mutex<()> = Mutex::new(());

/// Until the guard is dropped, Ctrl-C does not end the process.
pub fn hold_interrupt() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// On Ctrl-C, ends the process at once, but never in the middle of writing.
pub fn exit_on_interrupt() {
    let installed = ctrlc::set_handler(|| {
        let _guard = hold_interrupt();
        eprintln!("\nstopped; nothing was written");
        std::process::exit(1);
    });
    if let Err(error) = installed {
        eprintln!("warning: Ctrl-C will not be handled: {error}");
    }
}

/// Says what went wrong and what to do: exit code 2 for bad input, 1 for anything else.
pub fn report(error: &anyhow::Error) -> ExitCode {
    let message = format!("{error:#}");
    match message.rsplit_once("; ") {
        Some((problem, advice)) => eprintln!("error: {problem}\nhint: {advice}"),
        None => eprintln!("error: {message}"),
    }
    let input = match error.downcast_ref::<m2m::Error>() {
        Some(error) => error.is_input(),
        None => error.is::<Mistake>(),
    };
    ExitCode::from(if input { 2 } else { 1 })
}

/// A mistake in the command itself.
#[derive(Debug)]
pub struct Mistake(pub String);

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mistake {}

/// A bar over the bytes of the input, when standard error is a terminal.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    pub fn new(bytes: Option<u64>) -> Self {
        if !stderr().is_terminal() {
            return Self(None);
        }
        let (bar, template) = match bytes {
            Some(bytes) => (ProgressBar::new(bytes), "{bar:40} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left"),
            None => (ProgressBar::new_spinner(), "{spinner} {bytes}, {bytes_per_sec}"),
        };
        Self(Some(bar.with_style(ProgressStyle::with_template(template).expect("a valid template"))))
    }
}

impl Watch for Progress {
    fn advance(&self, bytes: u64) {
        if let Some(bar) = &self.0 {
            bar.inc(bytes);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
