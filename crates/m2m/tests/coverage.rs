//! Do 95% intervals contain the truth 95% of the time? On artificial populations, and on real tables where they are at hand.
//!
//! `M2M_DATA=/path cargo test -p m2m --test coverage -- --nocapture` prints what was found, kind by kind, over
//! `M2M_RELEASES` releases of each table (two if it is not set). Real tables are not part of the project: without them the
//! tests about them say so and pass.

mod common;
#[path = "common/seeded.rs"]
mod seeded;

use std::collections::BTreeMap;
use std::path::PathBuf;

use common::Random;
use m2m::estimate::{Caution, Estimate, Model};
use m2m::expr::{Expr, Scalar, col, lit};
use m2m::fit::{Fit, Options};
use m2m::panel::Panel;
use m2m::schema::Kind;
use m2m::source::{self, CsvOptions, Table};
use m2m::sums::Sketcher;
use m2m::task::Ask;
use m2m::{Design, Schema};
use seeded::{Exact, POPULATION, evaluate, in_two_rounds, panels, population, pure, records, scalar};

/// What is asked.
enum Question {
    /// How many rows meet a condition.
    Count(Expr),
    /// The mean of a function over the rows that meet a condition.
    Mean(Expr, Expr),
    /// The part of the rows with a value that are at most a number.
    Cdf(Expr, f64),
    /// The value below which a part of the rows lie.
    Quantile(Expr, f64),
}

impl Question {
    fn ask(&self, model: &dyn Model) -> Estimate {
        let all = Ask::of(model);
        match self {
            Self::Count(condition) => all.filter(condition).unwrap().count().unwrap(),
            Self::Mean(of, condition) => all.filter(condition).unwrap().mean(of).unwrap(),
            Self::Cdf(of, at) => all.cdf(of, &[*at]).unwrap()[0],
            Self::Quantile(of, q) => all.quantile(of, *q).unwrap(),
        }
    }

    /// Whether the truth lies in an interval; nothing if there is no truth.
    fn is_covered(&self, schema: &Schema, rows: &[Panel], interval: (f64, f64)) -> Option<bool> {
        let values = |of: &Expr| evaluate(schema, rows, &of.check(schema).unwrap());
        let slack = 1e-9 * (interval.0.abs() + interval.1.abs());
        let inside = |truth: f64| interval.0 - slack <= truth && truth <= interval.1 + slack;
        Some(inside(match self {
            Self::Count(condition) => values(condition).iter().flatten().sum(),
            Self::Mean(of, condition) => {
                let kept = values(of).into_iter().zip(values(condition)).filter(|(_, kept)| *kept == Some(1.0));
                let known: Vec<f64> = kept.filter_map(|(value, _)| value).collect();
                if known.is_empty() {
                    return None;
                }
                known.iter().sum::<f64>() / known.len() as f64
            }
            Self::Cdf(of, at) => {
                let known: Vec<f64> = values(of).into_iter().flatten().collect();
                known.iter().filter(|value| **value <= *at).count() as f64 / known.len() as f64
            }
            Self::Quantile(of, q) => {
                let mut known: Vec<f64> = values(of).into_iter().flatten().collect();
                known.sort_by(f64::total_cmp);
                known[((q * known.len() as f64).ceil() as usize).clamp(1, known.len()) - 1]
            }
        }))
    }
}

/// A table with what is to be asked of it.
struct Case {
    schema: Schema,
    rows: Vec<Panel>,
}

impl Case {
    fn artificial(seed: u64, rows: usize) -> (Self, Vec<u8>) {
        let schema = Schema::from_toml(POPULATION).unwrap();
        let text = population(seed, rows);
        let rows = panels(&schema, &text);
        (Self { schema, rows }, text)
    }

    /// Columns of numbers, and columns of levels.
    fn columns(&self) -> (Vec<usize>, Vec<usize>) {
        (0..self.schema.columns().len()).partition(|column| self.schema.columns()[*column].kind.range().is_some())
    }

    fn column(&self, at: usize) -> Expr {
        col(self.schema.columns()[at].name.clone())
    }

    /// The value of a random row, of those that have one.
    fn some_value(&self, random: &mut Random, column: usize) -> Scalar<'_> {
        loop {
            let panel = &self.rows[random.below(self.rows.len())];
            let value = scalar(&self.schema, panel.record(random.below(panel.len())), column);
            if value != Scalar::Null {
                return value;
            }
        }
    }

    /// A number between those of two random rows, so that no row has it.
    fn threshold(&self, random: &mut Random, column: usize) -> f64 {
        let pair = [0; 2].map(|_| self.some_value(random, column));
        let [Scalar::Number(a), Scalar::Number(b)] = pair else { panic!("a column of numbers") };
        let middle = 0.6 * a + 0.4 * b;
        if self.schema.columns()[column].kind.is_whole() { middle.floor() } else { middle }
    }

    fn level(&self, random: &mut Random, column: usize) -> Expr {
        match self.some_value(random, column) {
            Scalar::Boolean(truth) => self.column(column).eq(lit(truth)),
            Scalar::Text(level) => self.column(column).eq(lit(level)),
            _ => panic!("a column of levels"),
        }
    }

    fn side(&self, random: &mut Random, column: usize) -> Expr {
        let threshold = self.threshold(random, column);
        if random.below(2) == 0 {
            self.column(column).le(lit(threshold))
        } else {
            self.column(column).gt(lit(threshold))
        }
    }

    /// About sixty questions, by kind.
    fn questions(&self, seed: u64) -> Vec<(&'static str, Question)> {
        let mut random = Random::new(seed);
        let (numbers, levels) = self.columns();
        let mut questions = Vec::new();
        let mut add = |kind: &'static str, question: Question| questions.push((kind, question));
        for column in numbers.iter().take(6) {
            let x = || self.column(*column);
            add("mean", Question::Mean(x(), lit(true)));
            add("second moment", Question::Mean(x() * x(), lit(true)));
            if let Some(atom) = self.schema.columns()[*column].kind.range().unwrap().atoms().first() {
                add("atom count", Question::Count(x().eq(lit(*atom))));
            }
        }
        let some = |random: &mut Random, from: &[usize]| from[random.below(from.len())];
        for _ in 0..9 {
            let column = some(&mut random, &numbers);
            add("CDF", Question::Cdf(self.column(column), self.threshold(&mut random, column)));
        }
        for _ in 0..6 {
            let column = some(&mut random, &numbers);
            add("quantile", Question::Quantile(self.column(column), 0.1 + 0.8 * random.unit()));
        }
        for ways in [2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3] {
            let mut columns = numbers.clone();
            random.shuffle(&mut columns);
            let sides: Vec<Expr> = columns[..ways].iter().map(|column| self.side(&mut random, *column)).collect();
            let condition = sides.into_iter().reduce(Expr::and).unwrap();
            add(if ways == 2 { "2-way count" } else { "3-way count" }, Question::Count(condition));
        }
        if levels.is_empty() {
            return questions;
        }
        for _ in 0..7 {
            let level = some(&mut random, &levels);
            add("level count", Question::Count(self.level(&mut random, level)));
        }
        for _ in 0..7 {
            let (level, number) = (some(&mut random, &levels), some(&mut random, &numbers));
            let condition = self.level(&mut random, level).and(self.side(&mut random, number));
            add("level and number", Question::Count(condition));
        }
        for _ in 0..7 {
            let (level, number) = (some(&mut random, &levels), some(&mut random, &numbers));
            let group = self.level(&mut random, level);
            add("mean in group", Question::Mean(self.column(number), group));
        }
        questions
    }
}

/// How many intervals held the truth, of how many; and how many came with a caution.
#[derive(Clone, Copy, Default)]
struct Score {
    covered: usize,
    asked: usize,
    cautious: usize,
}

impl Score {
    fn rate(&self) -> f64 {
        self.covered as f64 / self.asked as f64
    }

    fn add(&mut self, other: Self) {
        self.covered += other.covered;
        self.asked += other.asked;
        self.cautious += other.cautious;
    }
}

const DESIGNS: [(&str, &str); 4] = [
    ("hist+rff", "[[map]]\nkind = 'hist'\nshare = 0.5\n[[map]]\nkind = 'rff'\nshare = 0.5"),
    ("hist", "[[map]]\nkind = 'hist'\nshare = 1.0"),
    ("rff", "[[map]]\nkind = 'rff'\nshare = 1.0"),
    ("auto", ""),
];
/// Designs with histograms, and Fourier features alone: the prior comes from the release in another way.
const WITH_HISTOGRAMS: &[usize] = &[0, 1];
const FOURIER_ALONE: &[usize] = &[2];
/// The default.
const AUTO: &[usize] = &[3];
const EPSILONS: [&str; 3] = ["0.1", "1", "10"];

/// Coverage by ε, design and kind.
#[derive(Default)]
struct Tally(BTreeMap<(usize, usize, &'static str), Score>);

impl Tally {
    fn run(&mut self, case: &Case, table: &Table, designs: &[usize], seed: u64) {
        let questions = case.questions(seed);
        for d in designs.iter().copied() {
            for (e, epsilon) in EPSILONS.iter().enumerate() {
                let release = if DESIGNS[d].0 == "auto" {
                    let rows = records(&case.rows).count() as u64;
                    in_two_rounds(&case.schema, pure(epsilon), table, rows, seed)
                } else {
                    let design = Design::from_toml(DESIGNS[d].1).unwrap();
                    let sketcher = Sketcher::new(&case.schema, &design).unwrap();
                    Exact::of(&sketcher, pure(epsilon), table).release(seed)
                };
                let fit = Fit::new(&release, Options::default()).unwrap();
                for (kind, question) in &questions {
                    let estimate = question.ask(&fit);
                    let interval = (estimate.low, estimate.high);
                    assert!(interval.0 <= interval.1, "{kind}: {estimate:?}");
                    if let Some(covered) = question.is_covered(&case.schema, &case.rows, interval) {
                        let cautious = usize::from(estimate.caution.is_some());
                        let score = Score { covered: usize::from(covered), asked: 1, cautious };
                        self.0.entry((e, d, kind)).or_default().add(score);
                    }
                }
            }
        }
    }

    fn total(&self, wanted: impl Fn(usize, usize, &str) -> bool) -> Score {
        let mut total = Score::default();
        self.0.iter().filter(|((e, d, kind), _)| wanted(*e, *d, kind)).for_each(|(_, score)| total.add(*score));
        total
    }

    /// Prints the table, and checks the whole of each ε.
    fn judge(&self, title: &str) {
        println!("\n{title}: covered by 95% intervals (answers with a caution)");
        let mut kinds: Vec<&str> = self.0.keys().map(|(_, _, kind)| *kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let mut columns: Vec<(usize, usize)> = self.0.keys().map(|(e, d, _)| (*e, *d)).collect();
        columns.dedup();
        print!("{:18}", "");
        columns.iter().for_each(|(e, d)| print!("{:>16}", format!("{} {}", DESIGNS[*d].0, EPSILONS[*e])));
        println!();
        for kind in kinds.into_iter().chain(["all"]) {
            print!("{kind:18}");
            for (e, d) in &columns {
                let score = self.total(|a, b, other| a == *e && b == *d && (kind == "all" || kind == other));
                print!("{:>16}", format!("{:.1}% ({})", 100.0 * score.rate(), score.cautious));
            }
            println!();
        }
        let totals: Vec<(&str, Score)> =
            EPSILONS.iter().enumerate().map(|(e, epsilon)| (*epsilon, self.total(|a, _, _| a == e))).collect();
        for (epsilon, total) in &totals {
            println!("epsilon {epsilon}: {:.1}% of {}", 100.0 * total.rate(), total.asked);
        }
        for (epsilon, total) in totals {
            let rate = total.rate();
            // Real sets are there to be looked at: two releases of each, and Fourier features alone know little of levels.
            let limits = if title.starts_with("artificial") { 0.90..=0.995 } else { 0.85..=1.0 };
            assert!(limits.contains(&rate), "{title}, epsilon {epsilon}: {:.1}% are covered", 100.0 * rate);
        }
    }
}

fn artificial(designs: &[usize]) {
    let mut tally = Tally::default();
    for (seed, rows) in [(1, 3000), (2, 8000), (3, 30_000), (4, 12_000)] {
        let (case, text) = Case::artificial(seed, rows);
        tally.run(&case, &Table::from_csv_bytes(text), designs, seed);
    }
    tally.judge("artificial populations");
}

/// Seeds are fixed. Were they not: 95% of some hundred partly dependent answers leave 90% to 99.5% with probability below
/// one in a hundred.
#[test]
fn intervals_cover_artificial_populations() {
    artificial(WITH_HISTOGRAMS);
}

#[test]
fn intervals_of_the_default_design_cover_artificial_populations() {
    artificial(AUTO);
}

#[test]
fn intervals_of_fourier_features_alone_cover_artificial_populations() {
    artificial(FOURIER_ALONE);
}

/// Histograms alone know nothing of how columns depend on each other, and say so.
#[test]
fn correlation_from_histograms_is_called_unsupported() {
    let (case, text) = Case::artificial(5, 20_000);
    let release = Exact::new(&case.schema, &Design::parse("hist").unwrap(), pure("1"), &text).release(5);
    let fit = Fit::new(&release, Options::default()).unwrap();
    let (x, y) = ("score", "wait");
    let found = Ask::of(&fit).correlation(&[x, y]).unwrap().entries[0][1];
    let values = |name: &str| -> Vec<f64> {
        evaluate(&case.schema, &case.rows, &col(name).check(&case.schema).unwrap()).into_iter().flatten().collect()
    };
    let (x, y) = (values(x), values(y));
    let n = x.len() as f64;
    let mean = |v: &[f64]| v.iter().sum::<f64>() / n;
    let product = |a: &[f64], b: &[f64]| {
        let (p, q) = (mean(a), mean(b));
        a.iter().zip(b).map(|(x, y)| (x - p) * (y - q)).sum::<f64>() / n
    };
    let truth = product(&x, &y) / (product(&x, &x) * product(&y, &y)).sqrt();
    assert!(truth > 0.1, "{truth}");
    assert!(found.low <= truth && truth <= found.high, "{found:?}, not {truth}");
    assert!(found.std_error > 0.3, "{found:?}");
    assert_eq!(found.caution, Some(Caution::Unsupported), "{found:?}");
}

/// Where real tables are.
fn data() -> PathBuf {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    std::env::var_os("M2M_DATA").map_or_else(beside, PathBuf::from)
}

/// The table of a name; nothing, and a plain word about it, if it is not there.
fn open(name: &str) -> Option<Table> {
    let path = data().join(format!("{name}.csv.gz"));
    if !path.exists() {
        println!("NOT RUN: {} is not there; set M2M_DATA to a directory that has it", path.display());
        return None;
    }
    Some(Table::open(&[path], CsvOptions::default()).unwrap())
}

fn real(name: &str, schema: &str, designs: &[usize]) {
    let Some(table) = open(name) else { return };
    let schema = Schema::from_toml(schema).unwrap();
    let rows = source::read(&table, &schema, &()).unwrap();
    let case = Case { schema, rows };
    let mut tally = Tally::default();
    let releases = std::env::var("M2M_RELEASES").map_or(2, |text| text.parse().expect("M2M_RELEASES is a number"));
    for seed in 1..=releases {
        tally.run(&case, &table, designs, seed);
    }
    tally.judge(name);
}

fn number(name: &str, (min, max): (f64, f64)) -> String {
    format!("[[column]]\nname = '{name}'\ntype = 'number'\nmin = {min}\nmax = {max}\n")
}

fn integer(name: &str, min: i64, max: i64) -> String {
    format!("[[column]]\nname = '{name}'\ntype = 'integer'\nmin = {min}\nmax = {max}\n")
}

fn category(name: &str, levels: &[&str]) -> String {
    format!("[[column]]\nname = '{name}'\ntype = 'category'\nlevels = {levels:?}\n")
}

fn adult() -> String {
    let workclass = [
        "Private",
        "Self-emp-not-inc",
        "Local-gov",
        "State-gov",
        "Self-emp-inc",
        "Federal-gov",
        "Without-pay",
        "Never-worked",
    ];
    [
        integer("age", 17, 90),
        integer("education_num", 1, 16),
        number("capital_gain", (0.0, 100_000.0)) + "transform = 'log1p'\natoms = [0]\n",
        integer("hours_per_week", 1, 99),
        category("sex", &["Female", "Male"]),
        category("workclass", &workclass) + "nullable = true\nmissing = ['?']\n",
        category("income", &["<=50K", ">50K"]),
    ]
    .concat()
}

fn lifesci() -> String {
    let bounds = [
        (-14.0, 0.0),
        (-7.0, 6.0),
        (-8.0, 6.0),
        (-5.0, 6.0),
        (-7.0, 5.0),
        (-6.0, 7.0),
        (-5.0, 7.0),
        (-5.0, 5.0),
        (-6.0, 5.0),
        (-4.0, 5.0),
    ];
    let column = |(at, bounds): (usize, &(f64, f64))| number(&format!("pc{}", at + 1), *bounds);
    bounds.iter().enumerate().map(column).collect::<String>() + "[[column]]\nname = 'reactivity'\ntype = 'boolean'\n"
}

fn magic() -> String {
    let columns = [
        ("f_length", (0.0, 400.0)),
        ("f_width", (0.0, 300.0)),
        ("f_size", (1.0, 6.0)),
        ("f_conc", (0.0, 1.0)),
        ("f_conc1", (0.0, 1.0)),
        ("f_asym", (-500.0, 600.0)),
        ("f_m3_long", (-400.0, 300.0)),
        ("f_m3_trans", (-300.0, 300.0)),
        ("f_alpha", (0.0, 90.0)),
        ("f_dist", (0.0, 500.0)),
    ];
    columns.iter().map(|(name, bounds)| number(name, *bounds)).collect::<String>() + &category("class", &["g", "h"])
}

#[test]
fn intervals_cover_adult() {
    real("adult", &adult(), WITH_HISTOGRAMS);
}

#[test]
fn intervals_of_fourier_features_alone_cover_adult() {
    real("adult", &adult(), FOURIER_ALONE);
}

#[test]
fn intervals_of_the_default_design_cover_real_tables() {
    real("adult", &adult(), AUTO);
    real("lifesci", &lifesci(), AUTO);
    real("magic04", &magic(), AUTO);
}

#[test]
fn intervals_cover_lifesci() {
    real("lifesci", &lifesci(), WITH_HISTOGRAMS);
}

#[test]
fn intervals_of_fourier_features_alone_cover_lifesci() {
    real("lifesci", &lifesci(), FOURIER_ALONE);
}

#[test]
fn intervals_cover_magic() {
    real("magic04", &magic(), WITH_HISTOGRAMS);
}

#[test]
fn intervals_of_fourier_features_alone_cover_magic() {
    real("magic04", &magic(), FOURIER_ALONE);
}

/// The kinds of column that the questions know.
#[test]
fn the_population_has_every_kind_of_column() {
    let (case, _) = Case::artificial(1, 100);
    let (numbers, levels) = case.columns();
    assert!(numbers.len() >= 5 && levels.len() >= 3);
    assert!(levels.iter().any(|column| case.schema.columns()[*column].kind == Kind::Boolean));
    assert!((55..=65).contains(&case.questions(1).len()), "{}", case.questions(1).len());
}
