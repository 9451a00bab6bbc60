//! `m2m release`: noise on secret sums.

use std::path::PathBuf;

use m2m::Release;
use m2m::auto::{Auto, FirstRound, SecondRound};
use m2m::privatise::Plan;
use m2m::sums::SumsFile;

use super::privacy::PrivacyArgs;
use crate::console::{self, Mistake};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  m2m release all.sums --epsilon 1 --ledger budget.toml -o table.m2m
  m2m release second.sums --after first.m2m --ledger budget.toml -o table.m2m")]
pub struct Args {
    /// Secret sums from `m2m sketch --sums` or `m2m merge`
    sums: PathBuf,
    /// Where the release goes; gzipped when the name ends in .gz
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The first round, if the sums are those of a second
    #[arg(long, value_name = "FIRST")]
    after: Option<PathBuf>,
    /// About how many rows there are, if that is public; otherwise a first round goes by the noisy count
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "after")]
    rows: Option<u64>,
    /// Replace an existing output
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    privacy: PrivacyArgs,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    m2m::file::check(&args.output, args.force)?;
    let file = SumsFile::open(&args.sums)?;
    let is_first = file.design() == &m2m::auto::first_round();
    let is_second = file.design().reserved() != m2m::Decimal::ZERO;
    match &args.after {
        Some(first) if is_second => {
            let first = Release::open(first)?;
            args.privacy.check_second(&first, &args.output)?;
            if file.schema() != first.schema() {
                return Err(Mistake(
                    "these sums have another schema than the first round; sketch them with --after".into(),
                )
                .into());
            }
            let second = SecondRound::with_design(&first, file.design().clone())?;
            return args.privacy.publish_second(&first, second, file.read()?, &args.output, args.force);
        }
        Some(_) => return Err(Mistake("these are not the sums of a second round; leave out --after".into()).into()),
        None if is_second => {
            let message = "these are the sums of a second round; give the release of the first with --after";
            return Err(Mistake(message.into()).into());
        }
        None => {}
    }
    let privacy = args.privacy.privacy()?;
    if is_first {
        let schema = file.schema().clone();
        args.privacy.check_ledger(&schema, &privacy, &args.output)?;
        let first = FirstRound::new(&schema, &Auto { rows: args.rows, ..Auto::default() }, privacy)?;
        return args.privacy.publish_first(first, file.read()?, &privacy, &args.output, args.force);
    }
    let plan = Plan::new(file.schema(), file.design(), privacy)?;
    if args.rows.is_some() {
        return Err(Mistake("--rows is for the sums of a first round; leave it out".into()).into());
    }
    args.privacy.check_ledger(plan.schema(), plan.privacy(), &args.output)?;
    // The noise is there before the first sum is read.
    let noise = plan.draw()?;
    let release = args.privacy.publish(file.read()?, &plan, noise, &args.output, args.force)?;
    console::say!("wrote {}: {}", args.output.display(), release.statement().budget);
    Ok(())
}
