//! One module per command.

pub mod ask;
mod audit;
mod cluster;
mod corr;
mod demo;
mod density;
mod describe;
mod explore;
mod fit;
pub mod info;
mod ledger;
mod merge;
mod pca;
mod plan;
mod plot;
mod privacy;
mod release;
mod report;
mod reproduce;
mod schema;
mod shell;
mod sketch;
mod sql;
mod synth;

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
    /// Publish a release of an artificial population and question it
    Demo(demo::Args),
    /// Predict the errors of a release from its schema, before anything is read or spent
    Plan(plan::Args),
    /// Read a table and write a release, or secret sums to be merged
    Sketch(sketch::Args),
    /// Add up secret sums of parts of one table
    Merge(merge::Args),
    /// Turn secret sums into a release
    Release(release::Args),
    /// Explain a release
    Info(info::Args),
    /// Describe every column of the table behind a release
    Describe(describe::Args),
    /// Show how the columns of the table behind a release go together
    Corr(corr::Args),
    /// Draw a chart of a release, with error bands
    Plot(plot::Args),
    /// Show how dense the rows behind a release are, at points or on a grid
    Density(density::Args),
    /// Fit a model to the rows behind a release
    Fit(fit::Args),
    /// Find groups among the rows behind a release
    Cluster(cluster::Args),
    /// Find the directions in which the rows behind a release differ most
    Pca(pca::Args),
    /// Explore a release on a page in the browser
    Explore(explore::Args),
    /// Write a page about a release, to publish beside it
    Report(report::Args),
    /// Draw synthetic rows from a release
    Synth(synth::Args),
    /// Ask a release a question in SQL
    Sql(sql::Args),
    /// Ask a release one question after the other
    Shell(shell::Args),
    /// Draft or check a schema
    #[command(
        subcommand,
        after_help = "Examples:\n  m2m schema draft people.csv > schema.toml\n  m2m schema check schema.toml"
    )]
    Schema(schema::Command),
    /// Keep account of what a table has spent
    #[command(
        subcommand,
        after_help = "Examples:\n  m2m ledger new budget.toml --epsilon 3\n  m2m ledger show budget.toml"
    )]
    Ledger(ledger::Command),
    /// Try to catch a release breaking its promise
    Audit(audit::Args),
    /// Repeat the experiments of the M²M paper
    Reproduce(reproduce::Args),
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
    /// Whether the command is there to write files.
    pub fn writes(&self) -> bool {
        matches!(
            self.command,
            Command::Demo(_)
                | Command::Sketch(_)
                | Command::Merge(_)
                | Command::Release(_)
                | Command::Ledger(_)
                | Command::Reproduce(_)
                | Command::Synth(_)
                | Command::Plot(_)
                | Command::Report(_)
        )
    }

    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Demo(args) => demo::run(&args),
            Command::Plan(args) => plan::run(&args),
            Command::Sketch(args) => sketch::run(args),
            Command::Merge(args) => merge::run(&args),
            Command::Release(args) => release::run(&args),
            Command::Info(args) => info::run(&args),
            Command::Describe(args) => describe::run(&args),
            Command::Corr(args) => corr::run(&args),
            Command::Plot(args) => plot::run(&args),
            Command::Density(args) => density::run(&args),
            Command::Fit(args) => fit::run(&args),
            Command::Cluster(args) => cluster::run(&args),
            Command::Pca(args) => pca::run(&args),
            Command::Explore(args) => explore::run(&args),
            Command::Report(args) => report::run(&args),
            Command::Synth(args) => synth::run(&args),
            Command::Sql(args) => sql::run(&args),
            Command::Shell(args) => shell::run(&args),
            Command::Schema(command) => schema::run(command),
            Command::Ledger(command) => ledger::run(&command),
            Command::Audit(args) => audit::run(&args),
            Command::Reproduce(args) => reproduce::run(&args),
        }
    }
}
