//! `m2m sketch`: from a table to a release, or to secret sums.

use std::path::{Path, PathBuf};

use anyhow::Context;
use m2m::auto::{Auto, FirstRound, SecondRound, Weight};
use m2m::privatise::Plan;
use m2m::source::{self, CsvOptions, Report, Table};
use m2m::sums::Sketcher;
use m2m::{Design, Release, Schema, Sums};

use super::privacy::PrivacyArgs;
use crate::console::{self, Mistake, Progress};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  m2m sketch people.csv --schema schema.toml --epsilon 1 -o people.m2m
  m2m sketch 'part-*.parquet' --schema schema.toml --design rff:m=200,sigma=0.5 --epsilon 1 -o table.m2m
  zcat big.csv.gz | m2m sketch - --schema schema.toml --sums part.sums

Two rounds over parts of a table, on as many machines as there are parts:
  m2m sketch part1.csv --schema schema.toml --design auto --sums a1.sums    (and a2, a3, …)
  m2m merge a*.sums -o a.sums
  m2m release a.sums --epsilon 1 -o first.m2m
  m2m sketch part1.csv --after first.m2m --sums b1.sums                     (and b2, b3, …)
  m2m merge b*.sums -o b.sums
  m2m release b.sums --after first.m2m -o table.m2m")]
pub struct Args {
    /// Files of one table: CSV (also gzipped), Parquet or Arrow; a pattern; or - for CSV on standard input
    #[arg(required = true, value_name = "DATA")]
    data: Vec<String>,
    /// What is public about the table
    #[arg(long, value_name = "FILE", required_unless_present = "after")]
    schema: Option<PathBuf>,
    /// Feature maps: auto, which reads the data twice and fits tables of columns to their histograms; or rff, race, hist,
    /// tables, with settings as in rff:m=200,sigma=1; or a .toml file with several maps and their shares [default: auto;
    /// with --sums, so that one round is enough, histograms and Fourier features with half the budget each]
    #[arg(long, value_name = "DESIGN")]
    design: Option<String>,
    /// About how many rows there are, if that is public; otherwise the design auto goes by the noisy count
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rows: Option<u64>,
    /// How much tables of some columns matter to the design auto, besides 1 for all others: `age=2`, `age*income=4`, or
    /// `name=0` for no tables with that column
    #[arg(long, value_name = "COLUMNS=W", value_parser = weight)]
    weight: Vec<Weight>,
    /// The second of two rounds, after what `m2m release` made of the sums of the first
    #[arg(long, value_name = "FIRST", conflicts_with_all = ["schema", "design"])]
    after: Option<PathBuf>,
    /// Where the release goes; gzipped when the name ends in .gz
    #[arg(short, long, value_name = "FILE", required_unless_present = "sums", conflicts_with = "sums")]
    output: Option<PathBuf>,
    /// Write secret sums instead, to be merged and released later; spends nothing
    #[arg(long, value_name = "FILE")]
    sums: Option<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Replace an existing output
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    privacy: PrivacyArgs,
}

#[derive(clap::Args)]
struct ReadingArgs {
    /// What stands between the fields of a CSV file: one character, or `tab`
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    delimiter: Option<u8>,
    /// Stop at a cell that cannot be read, or a row with too few or too many fields
    #[arg(long)]
    strict: bool,
    /// How many threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    let target = args.output.as_ref().or(args.sums.as_ref()).expect("one of the two is required");
    m2m::file::check(target, args.force)?;
    let auto = Auto { rows: args.rows, weights: args.weight.clone() };
    if let Some(first) = &args.after {
        return second_round(&args, &Release::open(first)?, &auto, target);
    }
    let schema = Schema::open(args.schema.as_ref().expect("required without --after"))?;
    let is_auto = args.design.as_ref().map_or(args.output.is_some(), |design| design == "auto");
    if auto != Auto::default() && !is_auto {
        return Err(Mistake("--rows and --weight are for the design auto; leave them out".into()).into());
    }
    match &args.output {
        None => {
            if args.privacy.is_given() {
                let message = "--sums spends nothing, so it takes no budget, ledger or noise; give them to `m2m release`, or -o in place of --sums";
                return Err(Mistake(message.into()).into());
            }
            if auto != Auto::default() {
                let message = "--rows and --weight do not change the sums of a first round; give --rows to `m2m release`, and both to `m2m sketch --after`";
                return Err(Mistake(message.into()).into());
            }
            let design = match args.design.as_deref() {
                Some("auto") => m2m::auto::first_round(),
                Some(design) => read_design(design)?,
                None => Design::default(),
            };
            let sums = add_up(&open(&args)?, &args.reading, &Sketcher::new(&schema, &design)?, Say::All)?;
            save_sums(&sums, target, args.force)?;
        }
        Some(output) if is_auto && schema.columns().len() > 1 => in_two_rounds(&args, &schema, &auto, output)?,
        Some(output) => {
            // A single column has nothing to be tabulated with.
            let design = read_design(args.design.as_deref().filter(|_| !is_auto).unwrap_or("hist"))?;
            let plan = Plan::new(&schema, &design, args.privacy.privacy()?)?;
            args.privacy.check_ledger(&schema, plan.privacy(), output)?;
            let sketcher = Sketcher::new(&schema, &design)?;
            // The noise is there before the first row is read.
            let noise = plan.draw()?;
            let sums = add_up(&open(&args)?, &args.reading, &sketcher, Say::All)?;
            let release = args.privacy.publish(sums, &plan, noise, output, args.force)?;
            console::say!("wrote {}: {}", output.display(), release.statement().budget);
        }
    }
    Ok(())
}

/// The design auto: the data is read once for the marginals, and once for tables that are fitted to them.
fn in_two_rounds(args: &Args, schema: &Schema, auto: &Auto, output: &Path) -> anyhow::Result<()> {
    let privacy = args.privacy.privacy()?;
    args.privacy.check_ledger(schema, &privacy, output)?;
    let first = FirstRound::new(schema, auto, privacy)?;
    let table = open(args)?.rereadable(&Progress::new(None))?;
    if table.is_kept_on_disk() {
        console::say!(
            "note: the data is read twice, so what came through a pipe is kept in an unnamed file in {} until this ends",
            std::env::temp_dir().display()
        );
    }
    let sums = add_up(&table, &args.reading, &first.sketcher()?, Say::All)?;
    let past_recall = args.privacy.debit(schema, &privacy, output)?;
    if args.privacy.has_ledger() {
        let _ = console::DEBITED.set(", but the ledger was debited".into());
    }
    drop(past_recall);
    let second = SecondRound::after(&first.privatise(sums)?, auto)?;
    let sums = add_up(&table, &args.reading, &second.sketcher()?, Say::Nothing)?;
    let mut past_recall = console::hold_interrupt();
    *past_recall = true;
    let release = second.privatise(sums)?;
    args.privacy.write(&release, output, args.force)?;
    console::say!("wrote {}: {}", output.display(), release.statement().budget);
    Ok(())
}

/// The second round by itself: to secret sums, or to the whole release.
fn second_round(args: &Args, first: &Release, auto: &Auto, target: &Path) -> anyhow::Result<()> {
    let second = SecondRound::after(first, auto)?;
    if args.output.is_some() {
        args.privacy.check_second(first, target)?;
    } else if args.privacy.is_given() {
        let message = "--sums spends nothing, so it takes no budget, ledger or noise; give the ledger to `m2m release`";
        return Err(Mistake(message.into()).into());
    }
    let sums = add_up(&open(args)?, &args.reading, &second.sketcher()?, Say::All)?;
    if args.output.is_none() {
        return save_sums(&sums, target, args.force);
    }
    args.privacy.publish_second(first, second, sums, target, args.force)
}

fn save_sums(sums: &Sums, path: &Path, force: bool) -> anyhow::Result<()> {
    let mut whole = console::hold_interrupt();
    sums.save(path, force)?;
    *whole = true;
    console::say!("wrote {}: secret sums, not for publication", path.display());
    Ok(())
}

/// A design in its short form, or in a file.
pub fn read_design(text: &str) -> anyhow::Result<Design> {
    if !text.ends_with(".toml") {
        return Ok(Design::parse(text)?);
    }
    let path = PathBuf::from(text);
    let toml = std::fs::read_to_string(&path).map_err(|error| m2m::Error::Read { path, error })?;
    Design::from_toml(&toml).with_context(|| text.to_owned())
}

fn open(args: &Args) -> anyhow::Result<Table> {
    let options = CsvOptions { delimiter: args.reading.delimiter };
    Ok(Table::open(&expand(&args.data)?, options)?.strict(args.reading.strict))
}

/// Whether the curator hears how rows were read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Say {
    All,
    Nothing,
}

fn add_up(table: &Table, reading: &ReadingArgs, sketcher: &Sketcher, say: Say) -> anyhow::Result<Sums> {
    let threads = match reading.threads {
        Some(threads) => usize::from(threads),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let progress = Progress::new(table.bytes());
    let (sums, report) = source::sketch(sketcher, table, threads, &progress)?;
    drop(progress);
    if say == Say::All {
        explain(&report);
    }
    Ok(sums)
}

/// Patterns that the shell did not expand; anything that exists, or is no pattern, stands for itself.
pub fn expand(data: &[String]) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for name in data {
        let path = PathBuf::from(name);
        if name == "-" || path.exists() || !name.contains(['*', '?', '[']) {
            paths.push(path);
            continue;
        }
        let matches = glob::glob(name).map_err(|error| Mistake(format!("`{name}` is not a pattern: {error}")))?;
        let before = paths.len();
        for found in matches {
            paths.push(found.map_err(|error| Mistake(error.to_string()))?);
        }
        if paths.len() == before {
            return Err(Mistake(format!("no file matches `{name}`; check the pattern")).into());
        }
    }
    Ok(paths)
}

/// Tells the curator how the rows were read: counts and places, never a value.
fn explain(report: &Report) {
    console::say!("read {} row{}", report.rows, if report.rows == 1 { "" } else { "s" });
    let list = |counts: &[(String, u64)]| {
        let odd: Vec<String> = counts.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name} {n}")).collect();
        if odd.is_empty() { None } else { Some(odd.join(", ")) }
    };
    if let Some(columns) = list(&report.unreadable) {
        console::say!("note: cells that cannot be read count as missing: {columns}");
    }
    if report.ragged > 0 {
        console::say!("note: rows with too few or too many fields: {}", report.ragged);
    }
    if let Some(place) = &report.first {
        console::say!("note: the first is in {}: {place}", place.source);
    }
    if let Some(columns) = list(&report.other) {
        console::say!("note: levels that the schema does not list count as other: {columns}");
    }
    if report.outside > 0 {
        console::say!("note: values outside their bounds were clamped: {}", report.outside);
    }
    if report.without_user > 0 {
        console::say!("note: rows without a user were left out: {}", report.without_user);
    }
    console::say!("note: these counts come from the data itself and are for you alone");
}

/// A weight from the command line.
fn weight(text: &str) -> Result<Weight, String> {
    let wrong = || "give one or more columns and a number, as in age=2 or age*income=0.5".to_owned();
    let (columns, weight) = text.rsplit_once('=').ok_or_else(wrong)?;
    let columns: Vec<String> = columns.split('*').map(|name| name.trim().to_owned()).collect();
    if columns.iter().any(String::is_empty) {
        return Err(wrong());
    }
    Ok(Weight { columns, weight: weight.trim().parse().map_err(|_| wrong())? })
}

/// A delimiter from the command line.
pub fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [byte] if !matches!(byte, b'"' | b'\n' | b'\r' | b'-' | b'.' | b'0'..=b'9') => Ok(*byte),
        _ => Err("give one character that is not part of a number, such as ; or tab".into()),
    }
}
