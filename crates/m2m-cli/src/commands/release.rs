//! `m2m release`: noise on secret sums.

use std::path::PathBuf;

use m2m::privatise::Plan;
use m2m::sums::SumsFile;

use super::privacy::PrivacyArgs;
use crate::console;

#[derive(clap::Args)]
#[command(after_help = "Example:\n  m2m release all.sums --epsilon 1 --ledger budget.toml -o table.m2m")]
pub struct Args {
    /// Secret sums from `m2m sketch --sums` or `m2m merge`
    sums: PathBuf,
    /// Where the release goes; gzipped when the name ends in .gz
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace an existing output
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    privacy: PrivacyArgs,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    m2m::file::check(&args.output, args.force)?;
    let file = SumsFile::open(&args.sums)?;
    let plan = Plan::new(file.schema(), file.design(), args.privacy.privacy()?)?;
    args.privacy.check_ledger(plan.schema(), plan.privacy(), &args.output)?;
    // The noise is there before the first sum is read.
    let noise = plan.draw()?;
    let release = args.privacy.publish(file.read()?, &plan, noise, &args.output, args.force)?;
    console::say!("wrote {}: {}", args.output.display(), release.statement().budget);
    Ok(())
}
