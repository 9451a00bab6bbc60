//! `m2m pca`: the directions in which the rows behind a release differ most.

use std::path::PathBuf;

use m2m::task::learn::{self, Pca};

use super::{Format, ask};
use crate::{console, table};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  m2m pca people.m2m --standardise
  m2m pca people.m2m --columns age,income,hours --format json")]
pub struct Args {
    /// The release
    release: PathBuf,
    /// The columns [default: all numeric ones]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Give every column the standard deviation 1 first
    #[arg(long)]
    standardise: bool,
    /// How it is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    reading: ask::Reading,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    ask::distinct(args.columns.as_deref().unwrap_or_default())?;
    let sample = args.reading.open(&args.release)?;
    let pca = learn::pca(&sample, args.columns.as_deref(), args.standardise)?;
    match args.format {
        Format::Json => console::show!("{}", serde_json::to_string_pretty(&pca)?),
        Format::Table => print(&pca),
    }
    Ok(())
}

/// More do not fit on a line.
const SHOWN: usize = 8;

fn print(pca: &Pca) {
    for note in &pca.notes {
        console::say!("note: {note}");
    }
    console::show!("principal components of about {:.0} rows", pca.rows);
    let shown = &pca.components[..pca.components.len().min(SHOWN)];
    let line = |name: &str, cells: Vec<String>| std::iter::once(name.to_owned()).chain(cells).collect::<Vec<_>>();
    let header = line("", (1..=shown.len()).map(|at| at.to_string()).collect());
    let mut rows = vec![
        line("variance", shown.iter().map(|direction| table::number(direction.variance.value)).collect()),
        line("std error", shown.iter().map(|direction| table::number(direction.variance.std_error)).collect()),
        line("share", shown.iter().map(|direction| format!("{:.1}%", 100.0 * direction.share)).collect()),
    ];
    for (at, name) in pca.names.iter().enumerate() {
        rows.push(line(name, shown.iter().map(|direction| table::fixed(direction.loadings[at])).collect()));
    }
    table::grid(&header, &rows);
    if pca.components.len() > shown.len() {
        console::say!("note: {} more are left out; --format json shows all", pca.components.len() - shown.len());
    }
}
