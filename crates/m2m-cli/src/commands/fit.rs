//! `m2m fit`: a model of the rows behind a release.

use std::path::PathBuf;

use clap::ValueEnum;
use m2m::estimate::Sample;
use m2m::source::{CsvOptions, Table};
use m2m::task::learn::{self, Fitted, Formula, Learner, Metrics, Options, Rows, Weights};
use serde_json::json;

use super::{Format, ask};
use crate::console::{self, Mistake, Progress};
use crate::table;

#[derive(clap::Args)]
#[command(
    override_usage = "m2m fit <RELEASE> --linear|--ridge|--logistic|--multinomial|--poisson|--svm <FORMULA> [OPTIONS]"
)]
#[command(after_help = "Examples:
  m2m fit people.m2m --linear 'income ~ age + sex + log(hours) + age:sex'
  m2m fit people.m2m --logistic 'smoker ~ .' --test mine.csv
  m2m fit people.m2m --poisson 'visits ~ age + \"blood-pressure\" - 1' --penalty 0.01 --format json

A formula has + between terms; . is every other column, a:b a product, - takes a term out, - 1 the intercept.")]
pub struct Args {
    /// The release
    release: PathBuf,
    #[command(flatten)]
    model: Model,
    /// Strength of the penalty on squared coefficients, of columns with standard deviation 1 [default: 0 for linear, 0.01
    /// for ridge, 1e-6 for the others]
    #[arg(long, value_name = "λ", allow_negative_numbers = true)]
    penalty: Option<f64>,
    /// Weights of the points; unbiased ones can be negative [default: unbiased for squares, else positive]
    #[arg(long, value_enum)]
    weights: Option<WeightsArg>,
    /// A table of your own to try the model on; only the columns of the formula are needed
    #[arg(long, value_name = "DATA")]
    test: Option<PathBuf>,
    /// What stands between fields of the table
    #[arg(long, value_name = "CHAR", value_parser = super::sketch::delimiter, requires = "test")]
    delimiter: Option<u8>,
    /// How it is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    reading: ask::Reading,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Model {
    /// Least squares
    #[arg(long, value_name = "FORMULA")]
    linear: Option<String>,
    /// Least squares with a penalty
    #[arg(long, value_name = "FORMULA")]
    ridge: Option<String>,
    /// Probability of the second of two classes
    #[arg(long, value_name = "FORMULA")]
    logistic: Option<String>,
    /// Probabilities of several classes
    #[arg(long, value_name = "FORMULA")]
    multinomial: Option<String>,
    /// Mean of counts
    #[arg(long, value_name = "FORMULA")]
    poisson: Option<String>,
    /// Linear support vector machine with the squared hinge loss
    #[arg(long, value_name = "FORMULA")]
    svm: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum WeightsArg {
    Positive,
    Unbiased,
}

impl Model {
    fn chosen(&self) -> (Learner, &str) {
        let all = [
            (Learner::Linear, &self.linear),
            (Learner::Ridge, &self.ridge),
            (Learner::Logistic, &self.logistic),
            (Learner::Multinomial, &self.multinomial),
            (Learner::Poisson, &self.poisson),
            (Learner::Svm, &self.svm),
        ];
        let given = all.into_iter().find_map(|(learner, formula)| Some((learner, formula.as_deref()?)));
        given.expect("clap demands one of them")
    }
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let sample = args.reading.open(&args.release)?;
    let (learner, formula) = args.model.chosen();
    let formula = Formula::parse(formula, Sample::schema(&sample))?;
    let options = Options {
        penalty: args.penalty,
        weights: args.weights.map(|weights| match weights {
            WeightsArg::Positive => Weights::Positive,
            WeightsArg::Unbiased => Weights::Unbiased,
        }),
    };
    let fitted = learn::fit(&sample, &formula, learner, &options)?;
    let metrics = match &args.test {
        Some(path) => {
            let table = Table::open(std::slice::from_ref(path), CsvOptions { delimiter: args.delimiter })?;
            let progress = Progress::new(table.bytes());
            let rows = Rows::read(&table, Sample::schema(&sample), formula.columns(), &progress)?;
            if Sample::is_empty(&rows) {
                let message = format!("{} has no rows; give a table that has some", path.display());
                return Err(Mistake(message).into());
            }
            Some(fitted.evaluate(&formula.encode(&rows)))
        }
        None => None,
    };
    match args.format {
        Format::Json => {
            let mut json = json!(fitted);
            if let Some(metrics) = &metrics {
                json["test"] = json!(metrics);
            }
            console::show!("{}", serde_json::to_string_pretty(&json)?);
        }
        Format::Table => print(&fitted, metrics.as_ref()),
    }
    Ok(())
}

fn print(fitted: &Fitted, metrics: Option<&Metrics>) {
    for note in &fitted.notes {
        console::say!("note: {note}");
    }
    let what = match (fitted.kind, &fitted.classes[..]) {
        (Learner::Linear, _) => "linear".into(),
        (Learner::Ridge, _) => format!("ridge, penalty {}", fitted.penalty),
        (Learner::Poisson, _) => "Poisson, logarithm of the mean".into(),
        (Learner::Logistic, [_, second]) => format!("logistic, log odds of {second}"),
        (Learner::Svm, [_, second]) => format!("support vector machine, score of {second}"),
        (_, classes) => format!("multinomial, log odds against {}", classes.first().map_or("", String::as_str)),
    };
    console::show!("{} ({what}; about {:.0} rows)", fitted.formula, fitted.rows);
    let header = ["", "estimate", "std error", "low", "high"].map(str::to_owned);
    let rows: Vec<Vec<String>> = fitted
        .names
        .iter()
        .zip(&fitted.coefficients)
        .map(|(name, c)| {
            let numbers = [c.value, c.std_error, c.low, c.high].map(table::number);
            std::iter::once(name.clone()).chain(numbers).collect()
        })
        .collect();
    table::grid(&header, &rows);
    let Some(metrics) = metrics else { return };
    console::show!("On your {} rows ({} left out):", metrics.rows, metrics.left_out);
    let all = [
        ("accuracy", metrics.accuracy),
        ("AUC", metrics.auc),
        ("log loss", metrics.log_loss),
        ("RMSE", metrics.rmse),
        ("R²", metrics.r_squared),
    ];
    for (name, value) in all.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        console::show!("  {name}: {}", table::number(value));
    }
}
