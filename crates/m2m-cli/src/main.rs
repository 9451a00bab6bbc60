//! The `m2m` command.

mod commands;
mod console;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    console::exit_on_interrupt();
    match commands::Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => console::report(&error),
    }
}
