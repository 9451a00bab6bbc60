//! `m2m merge`: exact addition of secret sums.

use std::path::PathBuf;

use anyhow::Context;
use m2m::Sums;

use crate::console;

#[derive(clap::Args)]
#[command(after_help = "Example:\n  m2m merge monday.sums tuesday.sums -o all.sums")]
pub struct Args {
    /// Secret sums of parts of one table, made with the same schema and design
    #[arg(required = true, value_name = "SUMS")]
    parts: Vec<PathBuf>,
    /// Where the secret total goes
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace an existing output
    #[arg(long)]
    force: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let (first, rest) = args.parts.split_first().expect("at least one part is required");
    let mut total = Sums::open(first)?;
    for part in rest {
        total.merge(Sums::open(part)?).with_context(|| part.display().to_string())?;
    }
    let _whole = console::hold_interrupt();
    total.save(&args.output, args.force)?;
    eprintln!("wrote {}: secret sums of {} parts, not for publication", args.output.display(), args.parts.len());
    Ok(())
}
