//! Releases with noise from a seed, artificial populations, and records as values.
#![allow(dead_code)]

use m2m::auto::{Auto, FirstRound, SecondRound};
use m2m::expr::{Checked, Scalar};
use m2m::panel::{Panel, Record, Value};
use m2m::privatise::{Budget, NoiseKind, Plan, Privacy};
use m2m::schema::Kind;
use m2m::source::{self, Table};
use m2m::sums::Sketcher;
use m2m::{Design, Release, Schema, Sums};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

use crate::common::{Random, Secret, secret, sketch};

/// Pure ε with Laplace noise, which a seed can draw, and everything else as usual.
pub fn pure(epsilon: &str) -> Privacy {
    Privacy { noise: NoiseKind::Laplace, ..Privacy::new(Budget::pure(epsilon.parse().unwrap()).unwrap()) }
}

/// The exact sums of a table, from which releases with seeded noise are made: the library itself takes its noise from the
/// operating system only.
pub struct Exact {
    secret: Secret,
    /// A release of the table, as a document.
    document: Json,
}

impl Exact {
    pub fn new(schema: &Schema, design: &Design, privacy: Privacy, csv: &[u8]) -> Self {
        Self::of(&Sketcher::new(schema, design).unwrap(), privacy, &Table::from_csv_bytes(csv.to_vec()))
    }

    pub fn of(sketcher: &Sketcher, privacy: Privacy, table: &Table) -> Self {
        let plan = Plan::new(sketcher.schema(), sketcher.design(), privacy).unwrap();
        Self::noised(sketch(sketcher, table, 2), |sums| sums.privatise(plan.draw().unwrap()).unwrap())
    }

    fn noised(sums: Sums, privatise: impl FnOnce(Sums) -> Release) -> Self {
        let secret = secret(&sums);
        Self { secret, document: serde_json::from_str(&privatise(sums).to_json()).unwrap() }
    }

    /// The number of rows.
    pub fn rows(&self) -> f64 {
        self.secret.rows as f64
    }

    /// The same release with the noise of a seed.
    pub fn release(&self, seed: u64) -> Release {
        let mut random = Random::new(seed);
        let mut document = self.document.clone();
        // A second round has the count and the sums of the first as those were released.
        let released = document["blocks"].as_array().unwrap().len() - self.secret.blocks.len();
        if released == 0 && !document["count"]["noise"].is_null() {
            let noise = laplace(&mut random, &document["count"]["noise"]);
            document["count"]["value"] = json!(self.secret.rows as i64 + noise);
        }
        let blocks = &mut document["blocks"].as_array_mut().unwrap()[released..];
        for (block, sums) in blocks.iter_mut().zip(&self.secret.blocks) {
            let noisy: Vec<i64> = sums.iter().map(|sum| *sum as i64 + laplace(&mut random, &block["noise"])).collect();
            block["sums"] = json!(noisy);
        }
        Release::from_bytes(hashed(&document).as_bytes()).unwrap()
    }
}

/// A release of the default design with the noise of a seed, for a table whose number of rows is public.
pub fn in_two_rounds(schema: &Schema, privacy: Privacy, table: &Table, rows: u64, seed: u64) -> Release {
    let auto = Auto { rows: Some(rows), ..Auto::default() };
    let first = FirstRound::new(schema, &auto, privacy).unwrap();
    let sums = sketch(&first.sketcher().unwrap(), table, 1);
    let first = Exact::noised(sums, |sums| first.privatise(sums).unwrap()).release(seed);
    let second = SecondRound::after(&first, &auto).unwrap();
    let sums = sketch(&second.sketcher().unwrap(), table, 1);
    Exact::noised(sums, |sums| second.privatise(sums).unwrap()).release(!seed)
}

/// Discrete Laplace noise: the difference of two geometric variables, which are exponential ones rounded down.
fn laplace(random: &mut Random, mechanism: &Json) -> i64 {
    assert_eq!(mechanism["kind"], "discrete-laplace", "seeded noise is Laplace noise");
    let part = |name: &str| mechanism["scale"][name].as_f64().unwrap();
    let scale = part("numerator") / part("denominator");
    let mut geometric = || (-(1.0 - random.unit()).ln() * scale).floor() as i64;
    geometric() - geometric()
}

/// A release document with its hash made right.
fn hashed(document: &Json) -> String {
    let text = document.to_string();
    let at = text.find("sha256:").unwrap() + "sha256:".len();
    let with = |digits: &str| [&text[..at], digits, &text[at + 64..]].concat();
    let hash: String = Sha256::digest(with(&"0".repeat(64))).iter().map(|byte| format!("{byte:02x}")).collect();
    with(&hash)
}

/// Reads a CSV text as records.
pub fn panels(schema: &Schema, csv: &[u8]) -> Vec<Panel> {
    source::read(&Table::from_csv_bytes(csv.to_vec()), schema, &()).unwrap()
}

pub fn records(panels: &[Panel]) -> impl Iterator<Item = Record<'_>> {
    panels.iter().flat_map(|panel| (0..panel.len()).map(|row| panel.record(row)))
}

/// The value of a column in a record.
pub fn scalar<'a>(schema: &'a Schema, record: Record<'_>, column: usize) -> Scalar<'a> {
    let kind = &schema.columns()[column].kind;
    match (record.value(column), kind) {
        (Value::Missing, _) => Scalar::Null,
        (Value::Unit(unit), _) => {
            let x = kind.range().unwrap().value(unit);
            Scalar::Number(if kind.is_whole() { x.round() } else { x })
        }
        (Value::Code(code), Kind::Boolean) => {
            if code < 2 {
                Scalar::Boolean(code == 1)
            } else {
                Scalar::Null
            }
        }
        (Value::Code(code), _) if code + 1 == kind.codes().unwrap() => Scalar::Null,
        (Value::Code(code), _) => Scalar::Text(kind.label(code)),
    }
}

/// The values of a function of a record over a table; nothing where it has none.
pub fn evaluate(schema: &Schema, panels: &[Panel], function: &Checked) -> Vec<Option<f64>> {
    let value = |record: Record<'_>| match function.value(&|column| scalar(schema, record, column)) {
        Scalar::Number(x) => Some(x),
        Scalar::Boolean(truth) => Some(f64::from(truth)),
        _ => None,
    };
    records(panels).map(value).collect()
}

/// A population with all that makes estimating hard: skewed and correlated numbers, a point mass, integers, levels that are
/// rare or unlisted, missing cells that depend on other columns.
pub const POPULATION: &str = "
    [[column]]
    name = 'age'
    type = 'integer'
    min = 18
    max = 90
    [[column]]
    name = 'income'
    type = 'number'
    min = 0
    max = 200000
    transform = 'log1p'
    atoms = [0]
    nullable = true
    [[column]]
    name = 'score'
    type = 'number'
    min = -4
    max = 4
    [[column]]
    name = 'wait'
    type = 'number'
    min = 0
    max = 60
    [[column]]
    name = 'visits'
    type = 'integer'
    min = 0
    max = 12
    [[column]]
    name = 'region'
    type = 'category'
    levels = ['north', 'south', 'east', 'west', 'isles']
    [[column]]
    name = 'plan'
    type = 'category'
    levels = ['basic', 'plus', 'gold']
    nullable = true
    [[column]]
    name = 'smoker'
    type = 'boolean'
    nullable = true
";

/// Rows of [`POPULATION`] as CSV.
pub fn population(seed: u64, rows: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut text = String::from("age,income,score,wait,visits,region,plan,smoker\n");
    for _ in 0..rows {
        let latent = normal(&mut random);
        let age = (18.0 - 17.0 * (1.0 - random.unit()).ln() + 12.0 * latent.abs()).min(95.0).round();
        let works = random.unit() < if age > 64.0 { 0.3 } else { 0.8 };
        let income = (10.0 + 0.6 * latent + 0.4 * normal(&mut random)).exp();
        let income = match (random.unit() < 0.06, works) {
            (true, _) => String::new(),
            (_, false) => "0".into(),
            _ => format!("{income:.2}"),
        };
        let score = 0.8 * latent + 0.6 * normal(&mut random);
        let wait = -(5.0 + 2.0 * (score + 4.0)) * (1.0 - random.unit()).ln();
        let visits = (-(1.0 - random.unit()).ln() * (0.5 + age / 30.0)).floor();
        let region = match random.unit() + 0.15 * latent {
            u if u < 0.35 => "north",
            u if u < 0.65 => "south",
            u if u < 0.85 => "east",
            u if u < 1.0 => "west",
            u if u < 1.03 => "abroad",
            _ => "isles",
        };
        let plan = match random.unit() + 0.2 * score {
            _ if random.unit() < 0.1 => "",
            u if u < 0.5 => "basic",
            u if u < 0.9 => "plus",
            _ => "gold",
        };
        let smoker = match random.unit() {
            u if u < 0.05 => "",
            u if u < 0.05 + 0.3 * (1.0 - age / 120.0) => "true",
            _ => "false",
        };
        text += &format!("{age},{income},{score:.5},{wait:.3},{visits},{region},{plan},{smoker}\n");
    }
    text.into_bytes()
}

/// A standard normal number, by Box and Muller.
pub fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}
