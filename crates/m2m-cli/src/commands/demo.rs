//! `m2m demo`: the main job, end to end, on people who do not exist.

use std::fmt::Write as _;
use std::path::PathBuf;

use m2m::auto::{Auto, FirstRound, SecondRound};
use m2m::estimate::Model;
use m2m::fit::{Fit, Options};
use m2m::privatise::{Budget, Privacy};
use m2m::source::{self, Table};
use m2m::sql::{Cell, ColumnKind, Query};
use m2m::task::learn::Rows;
use m2m::{Decimal, Schema};

use crate::{console, table};

#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  m2m demo --out demo && m2m sql demo/people.m2m \"SELECT region, AVG(income) FROM people GROUP BY region\""
)]
pub struct Args {
    /// Keep people.csv, schema.toml and people.m2m in this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Privacy loss of the release
    #[arg(long, value_name = "ε", default_value = "1")]
    epsilon: Decimal,
    /// Replace existing files
    #[arg(long)]
    force: bool,
}

const PEOPLE: usize = 50_000;
const SCHEMA: &str = include_str!("people.toml");

pub fn run(args: &Args) -> anyhow::Result<()> {
    let schema = Schema::from_toml(SCHEMA)?;
    let first = FirstRound::new(&schema, &Auto::default(), Privacy::new(Budget::pure(args.epsilon)?))?;
    let paths = args.out.as_ref().map(|dir| ["people.csv", "schema.toml", "people.m2m"].map(|name| dir.join(name)));
    if let Some(paths) = &paths
        && !args.force
        && let Some(path) = paths.iter().find(|path| path.exists())
    {
        return Err(m2m::Error::Exists { path: path.clone() }.into());
    }
    let people = population();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let csv = Table::from_csv_bytes(people.clone().into_bytes());
    let (sums, report) = source::sketch(&first.sketcher()?, &csv, threads, &())?;
    let second = SecondRound::after(&first.privatise(sums)?, &Auto::default())?;
    let (sums, _) = source::sketch(&second.sketcher()?, &csv, threads, &())?;
    let release = second.privatise(sums)?;
    console::show!("{} people who do not exist, {} columns, one release.\n", report.rows, schema.columns().len());
    super::info::print(&release);
    let all: Vec<usize> = (0..schema.columns().len()).collect();
    let truth = Rows::read(&csv, &schema, &all, &())?;
    let fit = Fit::new(&release, Options::default())?;
    for question in QUESTIONS {
        console::show!("\n{question}\n");
        beside_truth(&fit, &truth, question)?;
    }
    console::show!(
        "\nEvery line is an answer from the release, its standard error, and the truth that only the curator knows."
    );
    if let Some([csv, toml, m2m]) = &paths {
        let mut written = console::hold_interrupt();
        let dir = csv.parent().expect("a file in a directory");
        std::fs::create_dir_all(dir).map_err(|error| m2m::Error::Write { path: dir.to_owned(), error })?;
        m2m::file::save(csv, true, people.as_bytes())?;
        m2m::file::save(toml, true, SCHEMA.as_bytes())?;
        release.save(m2m, true)?;
        *written = true;
        console::say!("\nwrote {}, {} and {}", csv.display(), toml.display(), m2m.display());
    }
    Ok(())
}

/// What is asked of the release.
const QUESTIONS: [&str; 3] = [
    "SELECT education, COUNT(*) AS people, AVG(age) AS age FROM people GROUP BY education",
    "SELECT sex, AVG(height) AS height, AVG(hours) AS hours FROM people WHERE age < 60 GROUP BY sex",
    "SELECT MEDIAN(age) AS age, STDDEV(height) AS height, CORR(age, hours) AS r, AVG(smoker) AS smoke FROM people",
];

/// The answers to a query, one by one, beside those of the table itself.
fn beside_truth(fit: &Fit, truth: &Rows, question: &str) -> anyhow::Result<()> {
    let schema = Model::schema(fit);
    let (released, true_rows) =
        (Query::parse(question, schema)?.run(fit)?, Query::parse(question, schema)?.run(truth)?);
    let mut rows = Vec::new();
    for row in &released.rows {
        let key = match &row[0] {
            Cell::Text(key) => key.clone(),
            _ => String::new(),
        };
        let same = true_rows.rows.iter().find(|other| !matches!(row[0], Cell::Text(_)) || other[0] == row[0]);
        for (at, cell) in row.iter().enumerate() {
            let Cell::Estimate(estimate) = cell else { continue };
            let exact = same.and_then(|other| match &other[at] {
                Cell::Estimate(exact) => Some(exact.value),
                Cell::Number(exact) => Some(*exact),
                _ => None,
            });
            rows.push(vec![
                format!("  {key:<16}{}", released.columns[at]),
                table::estimate(estimate, ColumnKind::Plain),
                exact.map_or_else(String::new, table::number),
            ]);
        }
    }
    table::grid(&["".into(), "released".into(), "truth".into()], &rows);
    Ok(())
}

/// An artificial population: skewed, correlated, with missing cells.
fn population() -> String {
    let mut random = Random(2026);
    let education = ["none", "school", "apprenticeship", "bachelor", "master", "doctorate"];
    let regions = ["north", "east", "south", "west"];
    let mut text = String::from("age,sex,education,region,height,hours,income,smoker,registered\n");
    for _ in 0..PEOPLE {
        let age = (18.0 + 77.0 * random.uniform().powf(1.3)).floor();
        let female = random.uniform() < 0.51;
        let schooling = (2.2 + 1.3 * random.normal() - 0.01 * (age - 45.0)).clamp(0.0, 5.0).floor();
        let region = ((random.uniform() + 0.08 * schooling / 5.0) * 4.0).min(3.9) as usize;
        let height = if female { 165.0 } else { 178.0 } + 6.8 * random.normal() - 0.03 * (age - 40.0);
        let works = age < 67.0 && random.uniform() < 0.82;
        let hours = if works {
            (38.0 + 9.0 * random.normal() - if female { 5.0 } else { 0.0 }).clamp(1.0, 99.0).round()
        } else {
            0.0
        };
        let income = if works {
            (9.7 + 0.18 * schooling + 0.012 * (age - 18.0).min(35.0) + 0.012 * (hours - 38.0) + 0.45 * random.normal())
                .exp()
                .min(1e6)
                .round()
        } else if random.uniform() < 0.35 {
            0.0
        } else {
            (9.3 + 0.3 * random.normal()).exp().round()
        };
        let smoker = random.uniform() < 0.34 - 0.045 * schooling;
        let day = (random.uniform() * 3650.0) as i64;
        let _ = write!(text, "{age},{},", if female { "female" } else { "male" });
        let _ = write!(text, "{},{},{height:.1},{hours},", education[schooling as usize], regions[region]);
        if random.uniform() > 0.06 {
            let _ = write!(text, "{income}");
        }
        text.push(',');
        if random.uniform() > 0.03 {
            text.push_str(if smoker { "yes" } else { "no" });
        }
        let _ = writeln!(text, ",{}", m2m::schema::time::show_date((14_610 + day) as f64));
    }
    text
}

/// A small generator for the demo's people; nothing private depends on it.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}
