//! Messages, progress and interruption: everything that goes to standard error.

use std::io::{IsTerminal, stderr};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use indicatif::{ProgressBar, ProgressStyle};
use m2m::source::Watch;

/// Prints to standard error. Where nobody can hear, the work goes on.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}
pub(crate) use say;

/// Prints a line to standard output.
macro_rules! show {
    ($($text:tt)*) => { $crate::console::put(format_args!($($text)*)) };
}
pub(crate) use show;

/// Ends the process where the output cannot be written: in peace if its reader has seen enough.
pub fn put(line: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    if let Err(error) = writeln!(std::io::stdout(), "{line}") {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        say!("error: cannot write the output: {error}");
        std::process::exit(1);
    }
}

/// Held while files change, so that an interruption waits until they are whole.
static WRITING: Mutex<bool> = Mutex::new(false);

/// While it lives, Ctrl-C does not end the process. True once the work is past recall.
pub type Interrupt = MutexGuard<'static, bool>;

/// What to add when the work is stopped after a debit.
pub static DEBITED: OnceLock<String> = OnceLock::new();

/// Until the guard is dropped, Ctrl-C does not end the process.
pub fn hold_interrupt() -> Interrupt {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// On Ctrl-C, ends the process at once, but never in the middle of writing. Who was to write something hears that
/// nothing was written.
pub fn exit_on_interrupt(writes: bool) {
    let installed = ctrlc::try_set_handler(move || {
        let written = hold_interrupt();
        if *written {
            // The work is done: let it say so itself.
            drop(written);
            return;
        }
        let nothing = if writes { "; nothing was written" } else { "" };
        say!(
            "
stopped{nothing}{}",
            DEBITED.get().map_or("", String::as_str)
        );
        std::process::exit(1);
    });
    match installed {
        // Somebody ignores these signals on purpose, as nohup does.
        Ok(()) | Err(ctrlc::Error::MultipleHandlers) => {}
        Err(error) => say!("warning: Ctrl-C will not be handled: {error}"),
    }
}

/// Says what went wrong and what to do: exit code 2 for bad input, 1 for anything else.
pub fn report(error: &anyhow::Error) -> ExitCode {
    let message = format!("{error:#}");
    if let Some(debited) = DEBITED.get().filter(|_| !message.contains("was debited")) {
        say!("note: nothing was written{debited}");
    }
    match message.rsplit_once("; ") {
        // A semicolon within backticks belongs to a name.
        Some((problem, advice)) if problem.matches('`').count() % 2 == 0 => {
            say!("error: {problem}\nhint: {advice}")
        }
        _ => say!("error: {message}"),
    }
    let input = match error.downcast_ref::<m2m::Error>() {
        Some(error) => error.is_input(),
        None => error.is::<Mistake>(),
    };
    ExitCode::from(if input { 2 } else { 1 })
}

/// A mistake in the command itself.
#[derive(Debug, PartialEq, Eq)]
pub struct Mistake(pub String);

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mistake {}

/// A bar over the bytes of the input or the steps of a job, when standard error is a terminal.
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

    /// A bar over steps that take about the same time.
    pub fn steps(count: u64) -> Self {
        if !stderr().is_terminal() {
            return Self(None);
        }
        let style = ProgressStyle::with_template("{bar:40} {pos} of {len}, {eta} left").expect("a valid template");
        Self(Some(ProgressBar::new(count).with_style(style)))
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
