//! Errors that `m2m plan` foretells beside errors of real releases. Run it by `cargo run --release -p m2m-bench -- plan
//! DIR [NAME…]`, where DIR holds public tables as NAME.csv.gz, whose schema is made up, or as NAME/NAME.csv or
//! NAME/NAME.csv.gz with a schema.toml beside it.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context;
use flate2::read::MultiGzDecoder;
use m2m::auto::{Auto, FirstRound, SecondRound};
use m2m::fit::{Fit, Options};
use m2m::forecast::{Choice, Forecaster, Population, Question};
use m2m::privatise::{Budget, Plan, Privacy};
use m2m::source::{self, Table};
use m2m::sums::Sketcher;
use m2m::{Design, Release, Schema};

const NAMES: &[&str] = &["adult", "magic04", "lifesci", "occupancy"];
/// ε and δ.
const BUDGETS: &[(&str, Option<&str>)] = &[
    ("0.1", None),
    ("1", None),
    ("10", None),
    ("0.1", Some("0.00001")),
    ("1", Some("0.00001")),
    ("10", Some("0.00001")),
];
/// Releases of each table whose errors are averaged.
const RELEASES: usize = 12;

/// ε and δ of a release by which the errors of others are foretold, and how these forecasts are called.
const PILOT: (&str, &str) = ("1", "0.00001");
const LIKE: &str = "auto, like";

/// Errors that were foretold and measured.
type Errors = Vec<(f64, f64)>;

pub fn run(directory: &Path, names: &[&str]) -> anyhow::Result<()> {
    let designs = [
        ("auto", Choice::Auto),
        ("hist", Choice::Design(Design::parse("hist")?)),
        ("hist+rff", Choice::Design(Design::default())),
        ("tables", Choice::Design(Design::parse("tables")?)),
    ];
    let mut all: BTreeMap<(&str, &str), Errors> = BTreeMap::new();
    let mut by_table: BTreeMap<(&str, &str), Errors> = BTreeMap::new();
    // Of all tables and budgets, how many forecasts are off by more than a factor of 1.5, and of 2.
    let mut off: BTreeMap<(&str, &str), [usize; 3]> = BTreeMap::new();
    println!("Geometric means over questions of root mean squared errors:");
    println!("{}", line(["table", "budget", "design", "question"], ["predicted", "measured", "ratio"]));
    for name in if names.is_empty() { NAMES } else { names } {
        let (schema, table) = open(directory, name)?;
        let population = Population::read(&table, &schema)?;
        let forecaster = Forecaster::new(&schema, population.len() as u64)?;
        // What a release with a common budget tells of the next one.
        let pilot = Privacy::new(Budget::new(Some(PILOT.0.parse()?), Some(PILOT.1.parse()?), None)?);
        let like = Forecaster::like(&publish(&table, &schema, &Choice::Auto, pilot)?, Some(population.len() as u64))?;
        for (epsilon, delta) in BUDGETS {
            let budget = Budget::new(Some(epsilon.parse()?), delta.map(|delta| delta.parse()).transpose()?, None)?;
            let privacy = Privacy::new(budget);
            let budget = format!("{epsilon}{}", if delta.is_some() { ", δ" } else { "" });
            for (design, choice) in &designs {
                let mut forecasters = vec![(*design, &forecaster)];
                if *choice == Choice::Auto {
                    forecasters.push((LIKE, &like));
                }
                let measured = match measure(&population, &table, choice, privacy) {
                    Ok(measured) => measured,
                    Err(error) => {
                        println!("{}  {error}", line([name, &budget, design, ""], [""; 3]).trim_end());
                        continue;
                    }
                };
                for (label, forecaster) in forecasters {
                    for (kind, errors) in compare(forecaster, &measured, choice, privacy)? {
                        println!("{}", line([name, &budget, label, kind], summary(&errors)));
                        by_table.entry((name, label)).or_default().extend(&errors);
                        let beyond = off.entry((label, kind)).or_default();
                        let far = ratio(&errors).ln().abs();
                        beyond[0] += 1;
                        beyond[1] += usize::from(far > f64::ln(1.5));
                        beyond[2] += usize::from(far > f64::ln(2.0));
                        all.entry((label, kind)).or_default().extend(errors);
                    }
                }
            }
        }
    }
    println!("\nAll budgets and questions:");
    for ((table, design), errors) in &by_table {
        let [_, _, ratio] = summary(errors);
        println!("{}", line([table, "", design, "all"], ["", "", &ratio]));
    }
    println!("\nAll tables and budgets:");
    for ((design, kind), errors) in &all {
        let [count, by_half, by_two] = off[&(*design, *kind)];
        let beyond = format!("  {by_half} of {count} off by more than 1.5, {by_two} by more than 2");
        println!("{}{beyond}", line(["all", "", design, kind], summary(errors)));
    }
    Ok(())
}

/// A table with its schema.
fn open(directory: &Path, name: &str) -> anyhow::Result<(Schema, Table)> {
    let own = directory.join(name);
    let (folder, schema) =
        if own.is_dir() { (own.as_path(), Some(own.join("schema.toml"))) } else { (directory, None) };
    let [plain, packed] = ["csv", "csv.gz"].map(|ending| folder.join(format!("{name}.{ending}")));
    let read = |path: &Path| std::fs::read(path).with_context(|| path.display().to_string());
    let text = if packed.is_file() {
        let mut text = Vec::new();
        MultiGzDecoder::new(read(&packed)?.as_slice()).read_to_end(&mut text)?;
        text
    } else if plain.is_file() {
        read(&plain)?
    } else {
        anyhow::bail!("there is no table {name}: neither {} nor {} is a file", plain.display(), packed.display());
    };
    let schema = match schema {
        Some(path) => {
            let toml = String::from_utf8(read(&path)?).with_context(|| path.display().to_string())?;
            Schema::from_toml(&toml).with_context(|| path.display().to_string())?
        }
        None => public_schema(std::str::from_utf8(&text)?)?,
    };
    Ok((schema, Table::from_csv_bytes(text)))
}

/// Root mean squared errors of all typical questions.
fn measure(population: &Population, table: &Table, choice: &Choice, privacy: Privacy) -> anyhow::Result<Vec<f64>> {
    let questions = Question::typical(population.schema());
    let truths: Vec<Vec<f64>> =
        questions.iter().map(|question| population.truth(question)).collect::<Result<_, _>>()?;
    let mut squares = vec![(0.0, 0.0); questions.len()];
    for _ in 0..RELEASES {
        let fit = Fit::new(&publish(table, population.schema(), choice, privacy)?, Options::default())?;
        for ((question, truths), (sum, count)) in questions.iter().zip(&truths).zip(&mut squares) {
            for (answer, truth) in population.ask(&fit, question)?.iter().zip(truths) {
                *sum += (answer.value - truth).powi(2);
                *count += 1.0;
            }
        }
    }
    Ok(squares.iter().map(|(sum, count)| f64::sqrt(sum / count)).collect())
}

/// The errors that are foretold beside the measured ones, by the kinds of questions.
fn compare(
    forecaster: &Forecaster,
    measured: &[f64],
    choice: &Choice,
    privacy: Privacy,
) -> anyhow::Result<BTreeMap<&'static str, Errors>> {
    let questions = Question::typical(forecaster.schema());
    let expected = forecaster.errors(choice, privacy, &questions)?;
    let mut kinds: BTreeMap<&str, Errors> = BTreeMap::new();
    for ((question, expected), measured) in questions.iter().zip(&expected).zip(measured) {
        if *measured > 0.0 && expected.std_error > 0.0 {
            kinds.entry(question.kind()).or_default().push((expected.std_error, *measured));
        }
    }
    Ok(kinds)
}

fn line(words: [&str; 4], numbers: [impl AsRef<str>; 3]) -> String {
    let [table, budget, design, question] = words;
    let [expected, measured, ratio] = numbers.each_ref().map(AsRef::as_ref);
    format!("{table:<10} {budget:>7}  {design:<10} {question:<12} {expected:>10} {measured:>10} {ratio:>6}")
}

/// What was foretold, what was measured, and the ratio.
fn summary(errors: &Errors) -> [String; 3] {
    let mean = |of: fn(&(f64, f64)) -> f64| {
        (errors.iter().map(|error| of(error).ln()).sum::<f64>() / errors.len() as f64).exp()
    };
    let number = |x: f64| format!("{x:.3e}");
    [number(mean(|error| error.0)), number(mean(|error| error.1)), format!("{:.2}", ratio(errors))]
}

/// The geometric mean of measured over foretold errors.
fn ratio(errors: &Errors) -> f64 {
    (errors.iter().map(|(expected, measured)| (measured / expected).ln()).sum::<f64>() / errors.len() as f64).exp()
}

/// A real release, with real noise.
fn publish(table: &Table, schema: &Schema, choice: &Choice, privacy: Privacy) -> anyhow::Result<Release> {
    match choice {
        Choice::Auto => {
            let first = FirstRound::new(schema, &Auto::default(), privacy)?;
            let (sums, _) = source::sketch(&first.sketcher()?, table, 2, &())?;
            let second = SecondRound::after(&first.privatise(sums)?, &Auto::default())?;
            let (sums, _) = source::sketch(&second.sketcher()?, table, 2, &())?;
            Ok(second.privatise(sums)?)
        }
        Choice::Design(design) => {
            let noise = Plan::new(schema, design, privacy)?.draw()?;
            let (sums, _) = source::sketch(&Sketcher::new(schema, design)?, table, 2, &())?;
            Ok(sums.privatise(noise)?)
        }
    }
}

/// The schema that somebody who knows such tables would write: round bounds, atoms where values pile up, a logarithm where
/// they crowd at the low end. It is made from the table, which is public; nobody must do so with one that is not.
fn public_schema(text: &str) -> anyhow::Result<Schema> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().context("no header")?.split(',').collect();
    let mut cells: Vec<Vec<&str>> = vec![Vec::new(); header.len()];
    for line in lines {
        for (column, cell) in cells.iter_mut().zip(line.split(',')) {
            column.push(cell);
        }
    }
    let mut toml = String::new();
    for (name, cells) in header.iter().zip(&cells) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        cells.iter().for_each(|cell| *counts.entry(cell).or_default() += 1);
        let numbers: Option<Vec<f64>> = cells.iter().map(|cell| cell.parse().ok()).collect();
        toml += &format!("[[column]]\nname = {name:?}\n");
        match numbers {
            Some(mut numbers) if counts.len() > 10 => {
                numbers.sort_by(f64::total_cmp);
                let (low, high) = (numbers[0], numbers[numbers.len() - 1]);
                let step = 10f64.powf((high - low).log10().floor() - 1.0);
                let whole = numbers.iter().all(|x| x.fract() == 0.0) && step >= 1.0;
                let (min, max) = ((low / step).floor() * step, (high / step).ceil() * step);
                let kind = if whole { "integer" } else { "number" };
                toml += &format!("type = \"{kind}\"\nmin = {min}\nmax = {max}\n");
                let atoms: Vec<&&str> =
                    counts.iter().filter(|(_, n)| **n * 5 > cells.len()).map(|(value, _)| value).collect();
                if !atoms.is_empty() && !whole || atoms.len() == 1 {
                    let atoms: Vec<String> = atoms.iter().map(|atom| atom.to_string()).collect();
                    toml += &format!("atoms = [{}]\n", atoms.join(", "));
                }
                if min >= 0.0 && numbers[numbers.len() / 2] < 0.02 * max {
                    toml += "transform = \"log1p\"\n";
                }
            }
            _ => toml += &format!("type = \"category\"\nlevels = {:?}\n", counts.keys().collect::<Vec<_>>()),
        }
    }
    Schema::from_toml(&toml).context("a schema")
}
