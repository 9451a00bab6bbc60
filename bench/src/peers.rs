//! Our side of the comparison of accuracy: the answers of the default design to given questions. `cargo xtask
//! bench-peers` writes the questions, scores the answers, and runs the peers.

use std::path::Path;

use anyhow::{Context, bail};
use m2m::Schema;
use m2m::auto::{Auto, FirstRound, SecondRound};
use m2m::estimate::{Model, WeightedSample};
use m2m::expr::{Checked, Expr, col, lit};
use m2m::fit::{Fit, Options};
use m2m::privatise::{Budget, Privacy};
use m2m::source::{self, CsvOptions, Table};
use m2m::synth::{self, Synthesis};
use m2m::task::learn::{self, Formula, Learner, Rows};
use serde_json::{Map, Value, json};

use crate::fit::process_cpu;

/// One question: the mean of a product over all rows.
struct Question {
    function: Checked,
    /// Whether it is the share of rows that meet a condition.
    is_share: bool,
}

/// A classifier to be trained on the release and tested on rows that it never saw.
struct Target {
    formula: Formula,
    held_out: Rows,
}

/// Synthetic rows that are scored as those of the peers are.
const ROWS: usize = 200_000;

/// Prints a line of JSON for each release of the table in a directory.
pub fn run(directory: &Path, epsilon: &str, delta: &str, runs: &str) -> anyhow::Result<()> {
    let schema = Schema::open(directory.join("schema.toml"))?;
    let table = open(&directory.join("table.csv"))?;
    let text = std::fs::read_to_string(directory.join("questions.json"))?;
    let file: Value = serde_json::from_str(&text).context("questions.json is no JSON")?;
    let mut kinds = Vec::new();
    for (kind, questions) in file["questions"].as_object().context("no questions")? {
        let questions = questions.as_array().context("no list of questions")?;
        let questions = questions.iter().map(|factors| question(factors, &schema));
        kinds.push((kind.as_str(), questions.collect::<anyhow::Result<Vec<_>>>()?));
    }
    let target = match file["formula"].as_str() {
        Some(text) => {
            let formula = Formula::parse(text, &schema)?;
            let rows = open(&directory.join("held_out.csv"))?;
            let held_out = Rows::read(&rows, &schema, formula.columns(), &())?;
            Some(Target { formula, held_out })
        }
        None => None,
    };
    let delta = (delta != "0").then(|| delta.parse()).transpose()?;
    let budget = Budget::new(Some(epsilon.parse()?), delta, None)?;
    for run in 0..runs.parse()? {
        let (mut line, fit) = one_run(&schema, &table, budget, &kinds, target.as_ref())?;
        let (path, start) = (directory.join(format!("rows-{}-{run}.csv", std::process::id())), process_cpu());
        let synthesis = Synthesis::new(&fit)?;
        synth::save(&path, true, synthesis.schema(), synthesis.rows(ROWS, run))?;
        line.insert("rows".into(), json!(path));
        line.insert("rows_cpu".into(), json!(process_cpu() - start));
        println!("{}", Value::Object(line));
    }
    Ok(())
}

/// Releases the table, fits the release and asks everything.
fn one_run(
    schema: &Schema,
    table: &Table,
    budget: Budget,
    kinds: &[(&str, Vec<Question>)],
    target: Option<&Target>,
) -> anyhow::Result<(Map<String, Value>, Fit)> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let start = process_cpu();
    let first = FirstRound::new(schema, &Auto::default(), Privacy::new(budget))?;
    let (sums, _) = source::sketch(&first.sketcher()?, table, threads, &())?;
    let second = SecondRound::after(&first.privatise(sums)?, &Auto::default())?;
    let (sums, _) = source::sketch(&second.sketcher()?, table, threads, &())?;
    let release = second.privatise(sums)?;
    let released = process_cpu();
    let fit = Fit::new(&release, Options::default())?;
    let fitted = process_cpu();
    let rows = fit.count();
    let answer = |question: &Question| {
        let mut mean = fit.totals(std::slice::from_ref(&question.function)).mean(0, &rows);
        if question.is_share {
            mean = mean.within(0.0, 1.0);
        }
        json!([mean.value, mean.low, mean.high])
    };
    let mut line = Map::new();
    let answers: Map<String, Value> =
        kinds.iter().map(|(kind, all)| ((*kind).to_owned(), all.iter().map(answer).collect())).collect();
    line.insert("answers".into(), answers.into());
    let asked = process_cpu();
    // What a release and its fit need, before the points that learning draws.
    let peak = peak_memory();
    if let Some(Target { formula, held_out }) = target {
        let model = learn::fit(&fit as &dyn WeightedSample, formula, Learner::Logistic, &learn::Options::default())?;
        line.insert("auc".into(), json!(model.evaluate(&formula.encode(held_out)).auc));
    }
    line.insert("release_cpu".into(), json!(released - start));
    line.insert("fit_cpu".into(), json!(fitted - released));
    line.insert("ask_cpu".into(), json!(asked - fitted));
    line.insert("learn_cpu".into(), json!(process_cpu() - asked));
    line.insert("memory".into(), json!(peak));
    Ok((line, fit))
}

/// A product of factors, each a column brought to [0, 1] or a condition on one.
fn question(factors: &Value, schema: &Schema) -> anyhow::Result<Question> {
    let mut is_share = true;
    let mut product: Option<Expr> = None;
    for factor in factors.as_array().context("no list of factors")? {
        let column = || factor["column"].as_str().map(col).context("no column");
        let number = |key: &str| factor[key].as_f64();
        let (condition, factor) = if let (Some(low), Some(high)) = (number("low"), number("high")) {
            (false, (column()? - lit(low)) / lit(high - low))
        } else if let Some(bound) = number("at_most") {
            (true, column()?.le(lit(bound)))
        } else if let Some(bound) = number("at_least") {
            (true, column()?.ge(lit(bound)))
        } else if let Some(level) = factor["is"].as_str() {
            (true, column()?.eq(lit(level)))
        } else {
            bail!("cannot read the factor {factor}");
        };
        is_share &= condition;
        product = Some(match product {
            None => factor,
            Some(before) if is_share => before.and(factor),
            Some(before) if !condition => before * factor,
            Some(_) => bail!("a question mixes numbers and conditions"),
        });
    }
    Ok(Question { function: product.context("a question without factors")?.check(schema)?, is_share })
}

fn open(path: &Path) -> anyhow::Result<Table> {
    Table::open(&[path.to_owned()], CsvOptions::default()).with_context(|| format!("cannot open {}", path.display()))
}

/// The most memory that this process has used, in MB. The kernel's other count of it, in `getrusage`, starts from what
/// the parent used.
fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<f64>().ok()? / 1024.0)
}
