//! `m2m cluster`: groups among the rows behind a release.

use std::path::PathBuf;

use m2m::Schema;
use m2m::estimate::Sample;
use m2m::task::learn::{self, ClusterOptions, Clusters, Mixture};

use super::{Format, ask};
use crate::{console, table};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  m2m cluster people.m2m --k 4 --columns age,income
  m2m cluster people.m2m --k 2 --mixture --format json")]
pub struct Args {
    /// The release
    release: PathBuf,
    /// How many groups
    #[arg(long, value_name = "N", default_value_t = 3)]
    k: usize,
    /// Fit a mixture of normal laws instead of k-means
    #[arg(long)]
    mixture: bool,
    /// The columns [default: all numeric ones]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Measure distances in the columns' own units, and not in standard deviations
    #[arg(long, conflicts_with = "mixture")]
    raw: bool,
    /// Of the random starts
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// How it is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    reading: ask::Reading,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    ask::distinct(args.columns.as_deref().unwrap_or_default())?;
    let sample = args.reading.open(&args.release)?;
    let options = ClusterOptions { k: args.k, standardise: !args.raw, seed: args.seed, ..ClusterOptions::default() };
    let columns = args.columns.as_deref();
    if args.mixture {
        let mixture = learn::mixture(&sample, columns, &options)?;
        match args.format {
            Format::Json => console::show!("{}", serde_json::to_string_pretty(&mixture)?),
            Format::Table => print_mixture(&mixture, Sample::schema(&sample)),
        }
    } else {
        let clusters = learn::k_means(&sample, columns, &options)?;
        match args.format {
            Format::Json => console::show!("{}", serde_json::to_string_pretty(&clusters)?),
            Format::Table => print_clusters(&clusters, Sample::schema(&sample)),
        }
    }
    Ok(())
}

fn print_clusters(found: &Clusters, schema: &Schema) {
    for note in &found.notes {
        console::say!("note: {note}");
    }
    console::show!(
        "k-means of about {:.0} rows; {:.1}% of the variance lies between the groups",
        found.rows,
        100.0 * found.explained
    );
    let mut rows = vec![line("share", found.clusters.iter().map(|cluster| percent(cluster.share)))];
    for (at, name) in found.names.iter().enumerate() {
        rows.push(line(name, found.clusters.iter().map(|cluster| table::value(schema, name, cluster.centre[at]))));
    }
    table::grid(&header(found.clusters.len()), &rows);
}

fn print_mixture(found: &Mixture, schema: &Schema) {
    for note in &found.notes {
        console::say!("note: {note}");
    }
    console::show!(
        "mixture of normal laws for about {:.0} rows; mean log-likelihood {}",
        found.rows,
        table::number(found.log_likelihood)
    );
    let mut rows = vec![line("share", found.components.iter().map(|law| percent(law.share)))];
    for (at, name) in found.names.iter().enumerate() {
        rows.push(line(name, found.components.iter().map(|law| table::value(schema, name, law.mean[at]))));
        let deviations = found.components.iter().map(|law| table::number(law.covariance[at][at].sqrt()));
        rows.push(line("  std", deviations));
    }
    table::grid(&header(found.components.len()), &rows);
}

fn header(groups: usize) -> Vec<String> {
    line("", (1..=groups).map(|group| group.to_string()))
}

fn line(name: &str, cells: impl Iterator<Item = String>) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(cells).collect()
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}
