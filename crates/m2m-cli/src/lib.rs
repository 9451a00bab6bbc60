//! The `m2m` command as a library, so that what fuzzes it can call it.

mod commands;
mod console;
mod explore;
mod plot;
mod report;
mod reproduce;
mod table;
mod view;

use std::process::ExitCode;

use clap::Parser;

pub use explore::{Explorer, Guard};

/// Runs the command line.
pub fn main() -> ExitCode {
    // A panic's own message could show a value.
    std::panic::set_hook(Box::new(|panic| {
        if let (Some(place), Ok(_)) = (panic.location(), std::env::var("RUST_BACKTRACE")) {
            console::say!("panicked at {place}");
        }
    }));
    let cli = commands::Cli::parse();
    console::exit_on_interrupt(cli.writes());
    match cli.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => console::report(&error),
    }
}
