//! One module per command.

mod demo;
mod info;
mod ledger;
mod merge;
mod privacy;
mod release;
mod schema;
mod sketch;

use clap::{Parser, Subcommand, ValueEnum};

/// One differentially private release of a table, published once and questioned forever.
#[derive(Parser)]
#[command(name = "m2m", version, max_term_width = 110, arg_required_else_help = true)]
#[command(after_help = "Start with `m2m demo`, then `m2m schema draft DATA`.")]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Publish a release of an artificial population and show what is in it
    Demo(demo::Args),
    /// Read a table and write a release, or secret sums to be merged
    Sketch(sketch::Args),
    /// Add up secret sums of parts of one table
    Merge(merge::Args),
    /// Turn secret sums into a release
    Release(release::Args),
    /// Explain a release
    Info(info::Args),
    /// Draft or check a schema
    #[command(subcommand)]
    Schema(schema::Command),
    /// Keep account of what a table has spent
    #[command(subcommand)]
    Ledger(ledger::Command),
}

/// How results are printed.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
}

impl Cli {
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Demo(args) => demo::run(&args),
            Command::Sketch(args) => sketch::run(args),
            Command::Merge(args) => merge::run(&args),
            Command::Release(args) => release::run(&args),
            Command::Info(args) => info::run(&args),
            Command::Schema(command) => schema::run(command),
            Command::Ledger(command) => ledger::run(&command),
        }
    }
}
