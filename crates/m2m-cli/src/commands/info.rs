//! `m2m info`: a release in words.

use std::path::PathBuf;

use m2m::Release;
use m2m::feature::{Body, MapSpec};
use m2m::privatise::{Budget, Mechanism, Neighbours, sensitivity};
use m2m::release::ReleasedBlock;
use m2m::schema::{Column, Kind, Unit};
use serde_json::json;

use super::Format;
use crate::console;

#[derive(clap::Args)]
#[command(after_help = "Example:\n  m2m info people.m2m --format json")]
pub struct Args {
    /// The release
    release: PathBuf,
    /// How it is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let release = Release::open(&args.release)?;
    match args.format {
        Format::Json => console::show!("{}", serde_json::to_string_pretty(&to_json(&release))?),
        Format::Table => print(&release),
    }
    Ok(())
}

/// What a release is, for a person.
pub fn print(release: &Release) {
    let statement = release.statement();
    console::show!("Privacy: {}, {}", statement.budget, neighbours_in_words(release));
    console::show!("  {}", promise_in_words(&statement.budget));
    let count = release.count();
    match count.noise {
        Some(noise) => {
            console::show!(
                "Rows: about {} (noise of standard deviation {:.1})",
                count.value,
                noise.standard_deviation(1)
            )
        }
        None => console::show!("Rows: {} (public)", count.value),
    }
    console::show!("Columns:");
    for column in release.schema().columns() {
        console::show!("  {}", column_in_words(column));
    }
    console::show!("Contents:");
    for block in release.blocks() {
        console::show!("  {}", block_in_words(block));
    }
    if let Some(reserved) = release.reserved() {
        console::show!(
            "This is the first of two rounds: {} of the budget for sums is left to the second (`m2m sketch --after`).",
            reserved.share
        );
    }
    console::show!("Hash: {}", release.hash());
}

fn to_json(release: &Release) -> serde_json::Value {
    let statement = release.statement();
    let count = release.count();
    let blocks: Vec<_> = release
        .blocks()
        .iter()
        .map(|block| {
            let sensitivity = sensitivity(block.body(), statement.neighbours, statement.max_rows);
            json!({
                "map": block.map(),
                "share": block.share(),
                "features": block.sums().len(),
                "grid": block.grid(),
                "body": block.body(),
                "sensitivity": sensitivity.map(|s| json!({"l1": s.l1 as f64, "l2": (s.l2_squared as f64).sqrt()})),
                "noise": block.noise(),
                "noise_std": block.noise().standard_deviation(block.sums().len()),
            })
        })
        .collect();
    json!({
        "privacy": statement,
        "count": {
            "value": count.value,
            "noise": count.noise,
            "noise_std": count.noise.map_or(0.0, |noise| noise.standard_deviation(1)),
        },
        "schema": release.schema(),
        "blocks": blocks,
        "reserved": release.reserved(),
        "hash": release.hash(),
    })
}

pub fn neighbours_in_words(release: &Release) -> String {
    let statement = release.statement();
    match (statement.neighbours, release.schema().unit()) {
        (Neighbours::AddRemove, Unit::Row) => "for adding or removing one row".into(),
        (Neighbours::AddRemove, Unit::User { column, max_rows }) => {
            format!("for adding or removing all rows of one `{column}`, of which at most {max_rows} were used")
        }
        (Neighbours::Replace, _) => "for replacing one row by another; the number of rows is public".into(),
    }
}

pub fn promise_in_words(budget: &Budget) -> String {
    let factor = |epsilon: f64| {
        // Rounded up: it is a bound.
        let factor = (epsilon.exp() * 1000.0).ceil() / 1000.0;
        if factor < 1000.0 { format!("{factor:.3}") } else { format!("{factor:.1e}") }
    };
    match budget {
        Budget::Pure { epsilon } => format!(
            "Whatever is done with this file, the odds of any guess about one of them change by a factor of at most {}.",
            factor(epsilon.to_f64())
        ),
        Budget::Approximate { epsilon, delta } => format!(
            "Whatever is done with this file, the odds of any guess about one of them change by a factor of at most {}, but for a probability of {delta}.",
            factor(epsilon.to_f64())
        ),
        Budget::Concentrated { rho } => format!(
            "The privacy loss of one of them is below that of a normal variable with mean {rho} and variance {}.",
            2.0 * rho.to_f64()
        ),
    }
}

/// What the promise means for somebody who wonders whether one of them is in the table; nothing under ρ, where it has no
/// bound.
pub fn guess_in_words(release: &Release) -> Option<String> {
    let (epsilon, but) = match release.statement().budget {
        Budget::Pure { epsilon } => (epsilon.to_f64(), String::new()),
        Budget::Approximate { epsilon, delta } => (epsilon.to_f64(), format!(", but for a probability of {delta}")),
        Budget::Concentrated { .. } => return None,
    };
    let who = match release.schema().unit() {
        Unit::Row => "a row".to_owned(),
        Unit::User { column, .. } => format!("a `{column}`"),
    };
    let most = 1.0 / (1.0 + (-epsilon).exp());
    let percent =
        |p: f64| if (0.001..0.999).contains(&p) { format!("{:.1}%", 100.0 * p) } else { format!("{:.4}%", 100.0 * p) };
    Some(format!(
        "Somebody who thinks it as likely as not that {who} is in the table will, whatever they do with this file, still \
         hold it for between {} and {} likely{but}.",
        percent(1.0 - most),
        percent(most)
    ))
}

/// The promise of a release, in numbers and in words.
pub fn privacy_json(release: &Release) -> serde_json::Value {
    let statement = release.statement();
    let count = release.count();
    json!({
        "budget": statement.budget.to_string(),
        "neighbours": neighbours_in_words(release),
        "promise": promise_in_words(&statement.budget),
        "guess": guess_in_words(release),
        "unit": unit_in_words(release.schema().unit()),
        "rows_released": count.value,
        "rows_noise": count.noise.map_or(0.0, |noise| noise.standard_deviation(1)),
        "statement": statement,
    })
}

/// One line about a column.
pub fn column_in_words(column: &Column) -> String {
    let mut text = format!("{}: {}", column.name, column.kind.name());
    match &column.kind {
        Kind::Category(levels) => {
            let shown = levels.iter().take(6).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = if levels.len() > 6 { ", …" } else { "" };
            text += &format!(" of {} levels ({shown}{more})", levels.len());
        }
        Kind::Boolean => {}
        kind => {
            let range = kind.range().expect("numeric columns have a range");
            text += &format!(" from {} to {}", kind.show(range.min()), kind.show(range.max()));
            if range.transform() != m2m::schema::Transform::None {
                text += &format!(", on a {} scale", format!("{:?}", range.transform()).to_lowercase());
            }
            if !range.atoms().is_empty() {
                let atoms: Vec<String> = range.atoms().iter().map(|atom| kind.show(*atom)).collect();
                text += &format!(", with atoms at {}", atoms.join(", "));
            }
        }
    }
    if column.nullable {
        text += ", may be missing";
    }
    text
}

/// The privacy unit in words.
pub fn unit_in_words(unit: &Unit) -> String {
    match unit {
        Unit::Row => "protects each row".into(),
        Unit::User { column, max_rows } => format!("protects each `{column}`, using at most {max_rows} rows of it"),
    }
}

pub fn block_in_words(block: &ReleasedBlock) -> String {
    let what = match block.map() {
        MapSpec::Rff(spec) => {
            format!("rff: {} Fourier features, kernel {} with sigma {}", spec.m, word(&spec.kernel), spec.sigma)
        }
        MapSpec::Race(spec) => {
            format!("race: {} {} hashes into {} buckets", spec.r, word(&spec.hash), spec.w)
        }
        MapSpec::Hist(spec) => format!("hist: histograms of {} bins", spec.bins),
        MapSpec::Tables(_) => {
            let Body::OneHot { groups } = block.body() else { unreachable!("tables are one-hot") };
            format!("tables: {groups} contingency tables")
        }
        MapSpec::Merged(spec) => {
            let ways = spec.tables.iter().map(Vec::len).max().unwrap_or(0);
            match ways {
                1 => {
                    let names: Vec<&str> = spec.columns.iter().map(|column| column.name.as_str()).collect();
                    format!("merged: parts of crowded bins of {}", names.join(", "))
                }
                _ => format!("merged: {} tables of up to {ways} columns, in groups of cells", spec.tables.len()),
            }
        }
        MapSpec::Signs(spec) => format!("signs: products of the signs of {} pairs of columns", spec.pairs.len()),
        MapSpec::Values(spec) => format!("values: means of {} columns, each within an interval", spec.columns.len()),
        MapSpec::Custom(spec) => format!("{}: a map of the curator's own", spec.name),
    };
    let noise = match block.noise() {
        Mechanism::DiscreteLaplace { .. } => "discrete Laplace",
        Mechanism::DiscreteGaussian { .. } => "discrete Gaussian",
        Mechanism::DiscKnorm { .. } => "disc K-norm",
        Mechanism::OneHotKnorm { .. } => "one-hot K-norm",
    };
    let deviation = block.noise().standard_deviation(block.sums().len()) / block.grid() as f64;
    format!(
        "{what}; {} sums, share {}, {noise} noise of standard deviation {deviation:.1} rows each",
        block.sums().len(),
        block.share()
    )
}

/// The name of a variant, as it is written in a design.
fn word(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}
