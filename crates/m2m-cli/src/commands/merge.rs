//! `m2m merge`: exact addition of secret sums.

use std::path::{Path, PathBuf};

use anyhow::Context;
use m2m::Sums;

use crate::console::{self, Mistake};

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
    m2m::file::check(&args.output, args.force)?;
    let (first, rest) = args.parts.split_first().expect("at least one part is required");
    let mut total = Sums::open(first)?;
    for (before, part) in rest.iter().enumerate() {
        if args.parts[..=before].iter().any(|other| is_same_file(other, part)) {
            let message = format!("{} is given twice, so its rows would count twice; give it once", part.display());
            return Err(Mistake(message).into());
        }
        total.merge(Sums::open(part)?).with_context(|| part.display().to_string())?;
    }
    let mut written = console::hold_interrupt();
    total.save(&args.output, args.force)?;
    *written = true;
    console::say!("wrote {}: secret sums of {} parts, not for publication", args.output.display(), args.parts.len());
    Ok(())
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}
