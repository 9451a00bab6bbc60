//! What commands that question a release share.

use std::path::Path;

use clap::ValueEnum;
use m2m::estimate::{Caution, Model};
use m2m::fit::{Fit, Lambda, Options};
use m2m::prior::{Prior, PublicTable};
use m2m::source::{self, CsvOptions, Table};
use m2m::sql::{self, Query};
use m2m::task::Ask;
use m2m::{Estimate, Release};
use serde_json::{Value, json};

use crate::console::{self, Mistake};
use crate::table;

/// How answers are printed.
#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
    /// For spreadsheets
    Csv,
}

/// Answers a query and prints the answer.
pub fn answer(model: &dyn Model, query: &str, format: Format) -> anyhow::Result<()> {
    print(&Query::parse(query, model.schema())?.run(model)?, format)
}

fn print(answer: &sql::Table, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Table => table::print(answer),
        Format::Json => console::show!("{}", serde_json::to_string(&answer.to_json())?),
        Format::Csv => console::show!("{}", answer.to_csv().trim_end_matches('\n')),
    }
    warn(&answer.warnings, format);
    Ok(())
}

/// Questions about the rows that meet a condition given in SQL.
pub fn restricted<'m>(model: &'m dyn Model, condition: Option<&str>) -> anyhow::Result<Ask<'m>> {
    let all = Ask::of(model);
    match condition {
        None => Ok(all),
        Some(condition) => Ok(all.filter(&sql::condition(condition, model.schema())?)?),
    }
}

/// Refuses a column that is named twice.
pub fn distinct(columns: &[String]) -> Result<(), Mistake> {
    match columns.iter().enumerate().find(|(i, name)| columns[..*i].contains(name)) {
        Some((_, twice)) => Err(Mistake(format!("column `{twice}` is named twice; name it once"))),
        None => Ok(()),
    }
}

/// An estimate as JSON, as in the answers to SQL.
pub fn json(estimate: &Estimate) -> Value {
    let mut json = json!({
        "value": estimate.value,
        "std_error": estimate.std_error,
        "low": estimate.low,
        "high": estimate.high,
    });
    if let Some(caution) = estimate.caution {
        json["caution"] = json!(caution);
    }
    json
}

/// What to say about numbers that should not be leaned on.
pub fn warnings<'e>(estimates: impl Iterator<Item = &'e Estimate>) -> Vec<String> {
    let (mut all, mut swamped, mut unsupported) = (0, 0, 0);
    for estimate in estimates {
        all += 1;
        match estimate.caution {
            Some(Caution::Swamped) => swamped += 1,
            Some(Caution::Unsupported) => unsupported += 1,
            None => {}
        }
    }
    let mut warnings = Vec::new();
    if swamped > 0 {
        warnings.push(format!(
            "in {swamped} of {all} numbers the noise is larger than the rows that they are about; ask about more rows"
        ));
    }
    if unsupported > 0 {
        warnings.push(format!(
            "the release says next to nothing about {unsupported} of {all} numbers; those are mostly the prior's"
        ));
    }
    warnings
}

/// Says warnings where they do not stand in the answer itself.
pub fn warn(warnings: &[String], format: Format) {
    for warning in warnings {
        match format {
            Format::Table => console::say!("* {warning}"),
            Format::Csv => console::say!("warning: {warning}"),
            Format::Json => {}
        }
    }
}

/// How a release is read.
#[derive(clap::Args)]
#[command(next_help_heading = "How the release is read")]
pub struct Reading {
    /// Against which distribution: learned (from the release itself), uniform, marginals:FILE or sample:FILE (of a public
    /// table)
    #[arg(long, default_value = "learned", value_name = "PRIOR", hide_short_help = true)]
    prior: String,
    /// The rule for the ridge: evidence, theorem or paper, the last two with a factor as in theorem:2
    #[arg(long, default_value = "evidence", value_name = "RULE", hide_short_help = true)]
    lambda: String,
    /// Let answers fall back to zero and not to the prior's where the noise is large
    #[arg(long, hide_short_help = true)]
    uncentred: bool,
    /// Random points that stand for the prior where there is no closed form
    #[arg(long, default_value_t = 100_000, value_name = "N", hide_short_help = true)]
    samples: usize,
}

impl Reading {
    /// Opens a release and makes it ready for questions.
    pub fn open(&self, path: &Path) -> anyhow::Result<Fit> {
        self.open_seeded(path, 0)
    }

    /// The same with random points of a seed.
    pub fn open_seeded(&self, path: &Path, seed: u64) -> anyhow::Result<Fit> {
        self.read(&Release::open(path)?, seed)
    }

    /// Makes a release ready for questions.
    pub fn read(&self, release: &Release, seed: u64) -> anyhow::Result<Fit> {
        let (rule, factor) = self.lambda.split_once(':').unwrap_or((&self.lambda, "1"));
        let factor: f64 =
            factor.parse().ok().filter(|factor| *factor > 0.0 && *factor < f64::INFINITY).ok_or_else(|| {
                Mistake(format!("the factor `{factor}` of --lambda is not a number above 0; give one, as in theorem:2"))
            })?;
        let lambda = match rule {
            "evidence" if self.lambda == rule => Lambda::Evidence,
            "theorem" => Lambda::Theorem(factor),
            "paper" => Lambda::Paper(factor),
            _ => {
                let message = format!("there is no rule `{}`; choose evidence, theorem or paper", self.lambda);
                return Err(Mistake(message).into());
            }
        };
        let public = |file: &str| -> anyhow::Result<PublicTable> {
            let table = Table::open(&[file.into()], CsvOptions::default())?;
            Ok(PublicTable::new(source::read(&table, release.schema(), &())?)?)
        };
        let prior = match self.prior.split_once(':') {
            None if self.prior == "learned" => Prior::Learned,
            None if self.prior == "uniform" => Prior::Uniform,
            Some(("marginals", file)) => Prior::Marginals(public(file)?),
            Some(("sample", file)) => Prior::Sample(public(file)?),
            _ => {
                let message = format!(
                    "there is no prior `{}`; choose learned, uniform, marginals:FILE or sample:FILE",
                    self.prior
                );
                return Err(Mistake(message).into());
            }
        };
        if !(100..=10_000_000).contains(&self.samples) {
            let message = format!("--samples is {}; give a number from 100 to 10000000", self.samples);
            return Err(Mistake(message).into());
        }
        let options =
            Options { prior, lambda, centred: !self.uncentred, samples: self.samples, seed, ..Options::default() };
        Ok(Fit::new(release, options)?)
    }
}
