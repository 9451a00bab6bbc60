//! `m2m synth`: rows in the image of those behind a release.

use std::path::PathBuf;

use m2m::estimate::Sample;
use m2m::expr::{Expr, col};
use m2m::fit::Fit;
use m2m::source::Table;
use m2m::sql;
use m2m::synth::{self, Format, MOST_ROWS, Synthesis};
use m2m::task::Ask;
use m2m::task::learn::Rows;

use super::ask;
use crate::console::{self, Mistake};
use crate::table;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  m2m synth people.m2m -n 10000 -o rows.parquet
  m2m synth people.m2m -n 500 --where \"age >= 65\" --seed 7 -o old.csv
  m2m synth people.m2m --weighted -o points.parquet
  m2m synth people.m2m -n 50000 --check

Rows are drawn from what the release says; none is anybody's, and drawing them costs no privacy.")]
pub struct Args {
    /// The release
    release: PathBuf,
    /// How many rows
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10_000)]
    rows: usize,
    /// Where to write them: a name that ends in .csv or .parquet
    #[arg(short, long, value_name = "FILE", required_unless_present = "check")]
    output: Option<PathBuf>,
    /// Points with weights instead of rows: with `weight` rows of the table behind each, they say more than as many rows
    #[arg(long, conflicts_with = "rows")]
    weighted: bool,
    /// Only rows that meet a condition, as in SQL
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    /// The same seed gives the same rows
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,
    /// Compare the rows with the release's own answers
    #[arg(long, conflicts_with = "weighted")]
    check: bool,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    reading: ask::Reading,
}

/// Rows that are kept in memory to be compared.
const MOST_CHECKED: usize = 5_000_000;

pub fn run(args: &Args) -> anyhow::Result<()> {
    if !(1..=MOST_ROWS).contains(&args.rows) {
        return Err(Mistake(format!("-n is {}; give a number from 1 to {MOST_ROWS}", args.rows)).into());
    }
    if args.check && args.rows > MOST_CHECKED {
        return Err(Mistake(format!("--check keeps all rows in memory; give -n of at most {MOST_CHECKED}")).into());
    }
    if let Some(output) = &args.output {
        Format::of(output)?;
        m2m::file::check(output, args.force)?;
    }
    let fit = args.reading.open_seeded(&args.release, args.seed)?;
    let condition = match &args.condition {
        Some(text) => Some(sql::condition(text, Sample::schema(&fit))?),
        None => None,
    };
    let mut synthesis = Synthesis::new(&fit)?;
    if let Some(condition) = &condition {
        synthesis = synthesis.filter(condition)?;
    }
    if let Some(output) = &args.output {
        let mut written = console::hold_interrupt();
        if args.weighted {
            let (schema, batches) = synthesis.weighted_batches();
            synth::save(output, args.force, &schema, batches)?;
        } else {
            synth::save(output, args.force, synthesis.schema(), synthesis.rows(args.rows, args.seed))?;
        }
        *written = true;
        console::say!("wrote {}", output.display());
    }
    if !args.weighted && args.rows as f64 > synthesis.effective() {
        console::say!(
            "note: the points behind these rows say as much as {:.0} independent ones; give more --samples for more",
            synthesis.effective()
        );
    }
    if args.check {
        check(args, &fit, &synthesis, condition.as_ref())?;
    }
    Ok(())
}

/// Prints how far the rows are from the release's own answers, kind by kind, beside the errors that the answers have
/// themselves and those of as many rows drawn from the table.
fn check(args: &Args, fit: &Fit, synthesis: &Synthesis<'_>, condition: Option<&Expr>) -> anyhow::Result<()> {
    let schema = Sample::schema(fit);
    let all: Vec<usize> = (0..schema.columns().len()).collect();
    let batches = synthesis.rows(args.rows, args.seed).collect();
    let rows = Rows::read(&Table::from_batches(batches), schema, &all, &())?;
    let (mut released, drawn) = (Ask::of(fit), Ask::of(&rows));
    if let Some(condition) = condition {
        released = released.filter(condition)?;
    }
    let lines = compare(&released, &drawn, args.rows as f64)?;
    let header = ["", "questions", "off by", "± of the answers", "± of as many rows"].map(str::to_owned);
    let rows: Vec<Vec<String>> = lines
        .into_iter()
        .map(|(what, all)| {
            let mean =
                |of: fn(&Difference) -> f64| table::number(all.iter().map(of).sum::<f64>() / all.len().max(1) as f64);
            vec![what.into(), all.len().to_string(), mean(|d| d.off), mean(|d| d.answer), mean(|d| d.sample)]
        })
        .collect();
    table::grid(&header, &rows);
    console::show!(
        "Means of absolute differences and of standard errors; shares of the rows, means in units of the range."
    );
    Ok(())
}

/// One question: how far the rows are from the answer, the error of the answer, and that of a sample as large.
struct Difference {
    off: f64,
    answer: f64,
    sample: f64,
}

fn compare(released: &Ask<'_>, drawn: &Ask<'_>, rows: f64) -> anyhow::Result<Vec<(&'static str, Vec<Difference>)>> {
    const BINS: u32 = 16;
    const COARSE: u32 = 4;
    let schema = released.schema();
    let (total, here) = (released.count()?.value.max(1.0), drawn.count()?.value.max(1.0));
    let share = |answer: &m2m::Estimate, found: &m2m::Estimate| {
        let p = (answer.value / total).clamp(0.0, 1.0);
        Difference {
            off: (found.value / here - answer.value / total).abs(),
            answer: answer.std_error / total,
            sample: (p * (1.0 - p) / rows).sqrt(),
        }
    };
    let (mut single, mut means, mut pairs, mut correlations) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for column in schema.columns() {
        let (answers, found) = (released.histogram(&column.name, BINS)?, drawn.histogram(&column.name, BINS)?);
        single.extend(answers.iter().zip(&found).map(|(a, b)| share(&a.count, &b.count)));
        if let Some(range) = column.kind.range() {
            let (x, width) = (col(column.name.as_str()), range.max() - range.min());
            let (answer, found) = (released.mean(&x)?, drawn.mean(&x)?);
            means.push(Difference {
                off: (answer.value - found.value).abs() / width,
                answer: answer.std_error / width,
                sample: released.std_dev(&x)?.value / width / rows.sqrt(),
            });
        }
    }
    let names: Vec<&str> = schema.columns().iter().map(|column| column.name.as_str()).collect();
    for (i, a) in names.iter().enumerate() {
        for b in &names[..i] {
            let both = |ask: &Ask<'_>| ask.histogram2([a, b], [COARSE, COARSE]);
            let (answers, found) = (both(released)?, both(drawn)?);
            pairs.extend(answers.iter().flatten().zip(found.iter().flatten()).map(|(a, b)| share(&a.count, &b.count)));
        }
    }
    let numeric: Vec<&str> = names
        .iter()
        .zip(schema.columns())
        .filter(|(_, column)| column.kind.range().is_some())
        .map(|(name, _)| *name)
        .collect();
    if numeric.len() > 1 {
        let (answers, found) = (released.correlation(&numeric)?, drawn.correlation(&numeric)?);
        for i in 0..numeric.len() {
            for j in 0..i {
                let (answer, found) = (answers.entries[i][j], found.entries[i][j]);
                correlations.push(Difference {
                    off: (answer.value - found.value).abs(),
                    answer: answer.std_error,
                    sample: (1.0 - answer.value.powi(2)) / rows.sqrt(),
                });
            }
        }
    }
    let all = [("one column", single), ("means", means), ("two columns", pairs), ("correlations", correlations)];
    Ok(all.into_iter().filter(|(_, all)| !all.is_empty()).collect())
}
