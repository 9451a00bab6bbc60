//! `m2m reproduce`: the experiments of the M²M paper, measured beside what was published.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use m2m::estimate::WeightedSample as _;
use m2m::source::{Table, Watch as _};
use m2m::{Decimal, Design};
use serde_json::{Value, json};

use super::Format;
use crate::console::{self, Mistake, Progress};
use crate::plot::{Axis, Chart, Figure, Line, Marker, Picture, Point, Scale, Series};
use crate::reproduce::data::Data;
use crate::reproduce::dperm;
use crate::reproduce::estimator::{Asker, Reader, columns, every, noise_floor, release, without_noise};
use crate::reproduce::logistic::{Labelled, Objective};
use crate::reproduce::metrics::{self, mean_and_error};
use crate::reproduce::questions::{MEASURES, Questions, Scores};
use crate::reproduce::random::Random;

#[derive(clap::Args)]
#[command(after_help = "Example:\n  m2m reproduce table1 --data ../shared/data --repetitions 10")]
pub struct Args {
    /// Which experiment
    #[arg(value_enum)]
    what: What,
    /// The directory of lifesci.csv.gz and occupancy.csv.gz
    #[arg(long, value_name = "DIR", default_value = "../shared/data")]
    data: PathBuf,
    /// Where figures go
    #[arg(long, value_name = "DIR", default_value = "reproduction")]
    out: PathBuf,
    /// How often each experiment is repeated
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    repetitions: u64,
    /// The values of ε in the figures
    #[arg(long, value_name = "ε,…", value_delimiter = ',', default_value = "0.01,0.03,0.1,0.3,1,3,10,30,100")]
    epsilon: Vec<Decimal>,
    /// Points of the prior
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    points: u64,
    /// How results are printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Mean relative error of the means, with and without noise
    Table1,
    /// Errors of moments, CDFs, covariances and counts against ε
    FigureErrors,
    /// AUC of a classifier against ε
    FigureOccupancy,
    /// Everything
    All,
}

/// The paper's sketches: a name, and settings for moments and for Occupancy.
const SKETCHES: [(&str, &str, &str); 3] = [
    (
        "RFF",
        "rff:m=200,sigma=1,frequencies=iid,precision=precise",
        "rff:m=200,sigma=1,frequencies=iid,precision=precise",
    ),
    ("RACE", "race:r=80,w=80,sigma=1", "race:r=80,w=80,sigma=0.1"),
    ("HIST", "hist:bins=100", "hist:bins=20"),
];

/// Table 1: data, sketch, and the published mean relative errors of `E[x]` at ε = ∞ and at ε = 1.
const PUBLISHED: [(&str, &str, f64, f64); 4] = [
    ("Random10", "RFF", 6.25e-8, 9.55e-3),
    ("Random10", "HIST", 1.87e-5, 9.10e-4),
    ("LifeSci", "RFF", 1.67e-6, 4.20e-2),
    ("LifeSci", "HIST", 5.91e-5, 3.80e-3),
];

/// The penalty of the classifier on weighted points.
const PENALTY: f64 = 1e-4;
/// The penalty of DP-ERM before its correction, and of the fit to the data itself.
const DPERM_PENALTY: f64 = 1e-5;

pub fn run(args: &Args) -> anyhow::Result<()> {
    let wanted = |what| args.what == what || args.what == What::All;
    type Experiment = fn(&Args) -> anyhow::Result<Outcome>;
    let experiments: [(What, Experiment); 3] =
        [(What::Table1, table1), (What::FigureErrors, figure_errors), (What::FigureOccupancy, figure_occupancy)];
    let (mut results, mut missing) = (Vec::new(), Vec::new());
    for (_, experiment) in experiments.into_iter().filter(|(what, _)| wanted(*what)) {
        let outcome = experiment(args)?;
        results.extend(outcome.result);
        missing.extend(outcome.missing.filter(|mistake| !missing.contains(mistake)));
    }
    if args.format == Format::Json {
        console::show!("{}", serde_json::to_string_pretty(&results)?);
    }
    let Some(last) = missing.pop() else { return Ok(()) };
    missing.into_iter().for_each(|mistake| _ = console::report(&mistake.into()));
    Err(last.into())
}

/// What an experiment found, and the file without which part of it could not be done.
struct Outcome {
    result: Option<Value>,
    missing: Option<Mistake>,
}

/// Prints a line, unless a program reads the results.
macro_rules! tell {
    ($args:expr, $($text:tt)*) => { if $args.format == Format::Table { console::show!($($text)*) } };
}

/// The tables on which moments are compared; Random10 is drawn anew in every repetition.
enum Source {
    Random10,
    LifeSci(Data),
}

impl Source {
    /// Those that there are, and why one is missing.
    fn all(directory: &Path) -> (Vec<Self>, Option<Mistake>) {
        match Data::lifesci(directory) {
            Ok(data) => (vec![Self::Random10, Self::LifeSci(data)], None),
            Err(mistake) => (vec![Self::Random10], Some(mistake)),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Random10 => "Random10",
            Self::LifeSci(_) => "LifeSci",
        }
    }

    fn draw(&self, repetition: u64) -> Data {
        match self {
            Self::Random10 => Data::random10(repetition),
            Self::LifeSci(data) => data.clone(),
        }
    }
}

/// A design with the frequencies or hashes of one repetition.
fn design(settings: &str, repetition: u64) -> Result<Design, m2m::Error> {
    Design::parse(&if settings.starts_with("hist") {
        settings.to_owned()
    } else {
        format!("{settings},seed={repetition}")
    })
}

/// How many repetitions ask for the noise floor.
const FLOORS: u64 = 5;

/// What one repetition found at one ε.
struct Finding {
    scores: Scores,
    /// What the noise alone does to the mean relative error of `E[x]`; it hardly differs between repetitions.
    floor: Option<f64>,
}

/// One repetition: draws a table, sketches it by each of some settings and asks everything, at each ε; none is ∞. The
/// findings are `[sketch][ε]`.
fn moments(
    source: &Source,
    sketches: &[&str],
    repetition: u64,
    points: usize,
    losses: &[Option<Decimal>],
) -> anyhow::Result<Vec<Vec<Finding>>> {
    let data = source.draw(repetition);
    let questions = Questions::new(&data, repetition);
    let table = Table::from_csv_bytes(data.to_csv());
    let sketched = |settings: &&str| {
        let design = design(settings, repetition)?;
        let mut asker = Asker::new(&questions);
        let mut reader = Reader::new(points, repetition, false);
        let mut find = |loss: &Option<Decimal>| {
            let fit = reader.read(&release(&data, &table, &design, loss.unwrap_or_else(without_noise))?)?;
            let floor = (repetition < FLOORS).then(|| {
                let means = questions.functions.iter().zip(questions.means());
                metrics::mean(means.map(|(mean, truth)| noise_floor(fit, mean) / truth))
            });
            Ok(Finding { scores: questions.score(&asker.means(fit)?), floor })
        };
        losses.iter().map(&mut find).collect()
    };
    sketches.iter().map(sketched).collect()
}

/// What all experiments share.
const ESTIMATOR: &str = "Releases: Laplace noise, 2% of ε for the number of rows. Estimator: uniform prior, λ = σ²/n² \
                         (Theorem 1), centred on the prior.";

/// Runs jobs on all cores and shows how far they are. Results come in the order of the jobs.
fn in_parallel<T: Send>(jobs: usize, job: impl Fn(usize) -> anyhow::Result<T> + Sync) -> anyhow::Result<Vec<T>> {
    let (next, progress) = (AtomicUsize::new(0), Progress::steps(jobs as u64));
    let done: Mutex<Vec<(usize, anyhow::Result<T>)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from).min(jobs) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= jobs {
                        return;
                    }
                    let result = job(at);
                    if result.is_err() {
                        next.store(jobs, Ordering::Relaxed);
                    }
                    done.lock().expect("no job panics while it holds the list").push((at, result));
                    progress.advance(1);
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no job panics while it holds the list");
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// What the repetitions on moments redraw.
const ANEW: &str = "the frequencies or hashes, the points of the prior, the conjunctions and Random10 itself; for every ε \
                    the noise";

fn table1(args: &Args) -> anyhow::Result<Outcome> {
    let (sources, missing) = Source::all(&args.data);
    let losses = [None, Some("1".parse().expect("a decimal"))];
    tell!(args, "Mean relative error of E[x], {} repetitions\n", args.repetitions);
    tell!(
        args,
        "{:<10} {:<6} {:>4}  {:>21}  {:>10}  {:>12}",
        "data",
        "sketch",
        "ε",
        "measured",
        "published",
        "noise floor"
    );
    let mut cells = Vec::new();
    for source in &sources {
        let rows: Vec<_> = PUBLISHED.into_iter().filter(|cell| cell.0 == source.name()).collect();
        let settings: Vec<&str> = rows.iter().map(|(_, sketch, ..)| SKETCHES[place(sketch)].1).collect();
        let found = in_parallel(args.repetitions as usize, |repetition| {
            moments(source, &settings, repetition as u64, args.points as usize, &losses)
        })?;
        for (row, (_, sketch, exact, private)) in rows.into_iter().enumerate() {
            for (at, published) in [exact, private].into_iter().enumerate() {
                let errors: Vec<f64> = found.iter().map(|findings| findings[row][at].scores[0]).collect();
                let (measured, error) = mean_and_error(&errors);
                let floor = metrics::mean(found.iter().filter_map(|findings| findings[row][at].floor));
                let epsilon = if at == 0 { "1000" } else { "1" };
                tell!(
                    args,
                    "{:<10} {sketch:<6} {epsilon:>4}  {:>21}  {published:>10.2e}  {:>12}",
                    source.name(),
                    format!("{measured:.2e} ± {error:.0e}"),
                    format!("{floor:.2e}")
                );
                cells.push(json!({
                    "data": source.name(), "sketch": sketch, "epsilon": epsilon, "measured": measured,
                    "std_error": error, "published": published, "noise_floor": floor,
                }));
            }
        }
    }
    tell!(
        args,
        "\nThe noise floor is the error that the noise alone would leave. ε = 1000 stands for the published ε = ∞: what remains\nthere is what 200 Fourier features of bandwidth 1, or 100 bins, leave open.\n{ESTIMATOR}\nAnew in every repetition: {ANEW}.\n"
    );
    Ok(Outcome { result: Some(json!({"experiment": "table1", "cells": cells})), missing })
}

fn figure_errors(args: &Args) -> anyhow::Result<Outcome> {
    let (sources, missing) = Source::all(&args.data);
    let losses: Vec<Option<Decimal>> = args.epsilon.iter().map(|epsilon| Some(*epsilon)).collect();
    let (mut charts, mut points) = (Vec::new(), Vec::new());
    for source in &sources {
        let mut lines: [Vec<Series>; 5] = Default::default();
        tell!(args, "{}, {} repetitions\n", source.name(), args.repetitions);
        let names = MEASURES.map(|name| format!("{name:>22}")).concat();
        tell!(args, "{:<6} {:>6} {names} {:>15} {:>15}", "sketch", "ε", "E[x], published", "E[x], floor");
        let found = in_parallel(args.repetitions as usize, |repetition| {
            let settings = SKETCHES.map(|(_, settings, _)| settings);
            moments(source, &settings, repetition as u64, args.points as usize, &losses)
        })?;
        for (style, (sketch, ..)) in SKETCHES.into_iter().enumerate() {
            let mut series: [Vec<Point>; 5] = Default::default();
            for (at, epsilon) in args.epsilon.iter().enumerate() {
                let mut row = String::new();
                for (measure, line) in series.iter_mut().enumerate() {
                    let errors: Vec<f64> = found.iter().map(|findings| findings[style][at].scores[measure]).collect();
                    let (x, (y, error)) = (epsilon.to_f64(), mean_and_error(&errors));
                    line.push(Point { x, y, band: Some(quantiles(errors, 0.1, 0.9)) });
                    row += &format!("{:>22}", format!("{y:.2e} ± {error:.0e}"));
                    points.push(json!({
                        "data": source.name(), "sketch": sketch, "epsilon": x, "measure": MEASURES[measure],
                        "error": y, "std_error": error,
                    }));
                }
                let cell = PUBLISHED.iter().find(|cell| (cell.0, cell.1) == (source.name(), sketch));
                let cell = cell.filter(|_| epsilon.to_f64() == 1.0).map_or("".into(), |cell| format!("{:.2e}", cell.3));
                let floor = metrics::mean(found.iter().filter_map(|findings| findings[style][at].floor));
                tell!(args, "{sketch:<6} {:>6} {row} {cell:>15} {:>15}", epsilon.to_string(), format!("{floor:.2e}"));
            }
            for (lines, points) in lines.iter_mut().zip(series) {
                lines.push(Series::new(sketch, style, points));
            }
        }
        tell!(args, "");
        for (at, mut series) in lines.into_iter().enumerate() {
            if at == 0 {
                series.extend(published(source.name()));
            }
            charts.push(Chart {
                title: format!("{}: {}", source.name(), MEASURES[at]),
                x: Axis::new("ε", Scale::Log),
                y: Axis::new(if at == 0 { "error" } else { "" }, Scale::Log),
                series,
            });
        }
    }
    for (sketch, settings, _) in SKETCHES {
        tell!(args, "{sketch}: {settings}");
    }
    tell!(args, "{ESTIMATOR} {} points where there is no closed form.", args.points);
    tell!(args, "Anew in every repetition: {ANEW}.\n");
    let figure = Figure {
        title: "Errors of one private sketch".into(),
        subtitle: format!(
            "Mean of {} repetitions, band from the 10% to the 90% quantile; RFF m = 200, RACE R = W = 80, HIST 100 bins",
            args.repetitions
        ),
        columns: 5,
        chart_size: (262.0, 228.0),
        charts,
    };
    save(args, "figure-errors", &figure.draw())?;
    Ok(Outcome { result: Some(json!({"experiment": "figure-errors", "points": points})), missing })
}

/// The place of a sketch among [`SKETCHES`].
fn place(sketch: &str) -> usize {
    SKETCHES.iter().position(|(name, ..)| *name == sketch).expect("a published sketch is known")
}

/// The published errors at ε = 1, as rings in the colour of their sketch.
fn published(data: &str) -> impl Iterator<Item = Series> {
    PUBLISHED.into_iter().filter(move |cell| cell.0 == data).map(|(_, sketch, _, error)| {
        let points = vec![Point { x: 1.0, y: error, band: None }];
        let label = format!("{sketch}, published");
        Series { marker: Marker::Ring, line: Line::None, ..Series::new(label, place(sketch), points) }
    })
}

fn figure_occupancy(args: &Args) -> anyhow::Result<Outcome> {
    let data = match Data::occupancy(&args.data) {
        Ok(data) => data,
        Err(mistake) => return Ok(Outcome { result: None, missing: Some(mistake) }),
    };
    let methods = ["RFF", "RACE", "HIST", "DP-ERM", "without privacy"];
    let jobs = args.repetitions as usize * methods.len();
    let found = in_parallel(jobs, |job| {
        let (method, repetition) = (job / args.repetitions as usize, job as u64 % args.repetitions);
        let split = Split::new(&data, repetition);
        match SKETCHES.get(method) {
            Some((_, _, settings)) => split.sketched(settings, repetition, args),
            None if method == 3 => Ok(split.dperm(repetition, &args.epsilon)),
            None => Ok(vec![split.plain(); args.epsilon.len()]),
        }
    })?;
    tell!(args, "Occupancy: AUC of logistic regression on a tenth of the rows, {} repetitions\n", args.repetitions);
    tell!(args, "{:>6} {}", "ε", methods.iter().map(|name| format!("{name:>18}")).collect::<String>());
    let (mut lines, mut points) = (vec![Vec::new(); methods.len()], Vec::new());
    for (at, epsilon) in args.epsilon.iter().enumerate() {
        let mut row = String::new();
        for (method, found) in found.chunks_exact(args.repetitions as usize).enumerate() {
            let scores: Vec<f64> = found.iter().map(|auc| auc[at]).collect();
            let (x, (y, error)) = (epsilon.to_f64(), mean_and_error(&scores));
            let band = (method < 4).then(|| quantiles(scores, 0.1, 0.9));
            lines[method].push(Point { x, y, band });
            row += &format!("{:>18}", format!("{y:.4} ± {error:.4}"));
            points.push(json!({"method": methods[method], "epsilon": x, "auc": y, "std_error": error}));
        }
        tell!(args, "{:>6} {row}", epsilon.to_string());
    }
    tell!(
        args,
        "\nPublished: RFF close to DP-ERM; RACE at least 0.9 from ε = 0.3; HIST useless; above 0.99 without privacy.\nHistograms do not see columns together; additive weights even rank backwards.\n"
    );
    for (sketch, _, settings) in SKETCHES {
        tell!(args, "{sketch}: {settings}");
    }
    tell!(args, "{ESTIMATOR} Loss over {} weighted points, negative weights kept, penalty {PENALTY}.", args.points);
    tell!(args, "DP-ERM: objective perturbation for the replacement of a row, penalty {DPERM_PENALTY}.");
    tell!(args, "Anew in every repetition: the split, the frequencies or hashes, the points; for every ε the noise.\n");
    let distances: Vec<Vec<Point>> = lines.iter().map(|line| line.iter().map(below_one).collect()).collect();
    let series = |lines: Vec<Vec<Point>>| {
        let named = methods.iter().zip(lines).enumerate();
        let one = |(style, (method, points)): (usize, (&&str, Vec<Point>))| {
            let line = if style == 4 { Line::Dashed } else { Line::Solid };
            Series { line, ..Series::new(*method, style, points) }
        };
        named.map(one).collect::<Vec<_>>()
    };
    let figure = Figure {
        title: "Occupancy: a classifier learned from one private sketch".into(),
        subtitle: format!(
            "Mean of {} repetitions on held-out rows, band from the 10% to the 90% quantile; RFF m = 200, RACE R = W = 80 \
             with σ = 0.1, HIST 20 bins",
            args.repetitions
        ),
        columns: 2,
        chart_size: (460.0, 340.0),
        charts: vec![
            Chart {
                title: "AUC".into(),
                x: Axis::new("ε", Scale::Log),
                y: Axis::new("AUC", Scale::Linear).including(&[0.0, 1.0]),
                series: series(lines),
            },
            Chart {
                title: "What is missing to 1".into(),
                x: Axis::new("ε", Scale::Log),
                y: Axis::new("1 − AUC", Scale::Log),
                series: series(distances),
            },
        ],
    };
    save(args, "figure-occupancy", &figure.draw())?;
    Ok(Outcome { result: Some(json!({"experiment": "figure-occupancy", "points": points})), missing: None })
}

/// Occupancy, nine tenths to learn from and one to test on.
struct Split {
    train: Data,
    test: Data,
}

impl Split {
    fn new(data: &Data, repetition: u64) -> Self {
        let mut order: Vec<usize> = (0..data.len()).collect();
        Random::new("split", repetition).shuffle(&mut order);
        let (test, train) = order.split_at(data.len() / 10);
        Self { train: data.rows(train), test: data.rows(test) }
    }

    /// The AUC of coefficients of the sensors and the intercept.
    fn auc(&self, theta: &[f64]) -> f64 {
        let points = labelled(&self.test.columns, 1.0);
        let scores: Vec<f64> = points.rows.iter().map(|row| row.iter().zip(theta).map(|(x, t)| x * t).sum()).collect();
        metrics::auc(&scores, &points.labels.iter().map(|label| *label > 0.0).collect::<Vec<_>>())
    }

    /// Implicit M²M: the loss over points of the prior, weighted as the sketch says. Negative weights stay: clipped
    /// ones would no longer have the sketch's moments (AUC 0.96 instead of 0.98).
    fn sketched(&self, settings: &str, repetition: u64, args: &Args) -> anyhow::Result<Vec<f64>> {
        let design = design(settings, repetition)?;
        let table = Table::from_csv_bytes(self.train.to_csv());
        let mut reader = Reader::new(args.points as usize, repetition, true);
        let mut points = None;
        let mut learn = |epsilon: &Decimal| {
            let fit = reader.read(&release(&self.train, &table, &design, *epsilon)?)?;
            let points = match &mut points {
                Some(points) => points,
                None => points.insert(labelled(&columns(fit)?, 1.0)),
            };
            let weights = fit.weights(&every(fit));
            let objective = Objective { points, weights: Some(&weights), penalty: PENALTY, linear: None };
            Ok(self.auc(&objective.minimise(6)))
        };
        args.epsilon.iter().map(&mut learn).collect()
    }

    fn dperm(&self, repetition: u64, losses: &[Decimal]) -> Vec<f64> {
        // Six numbers in [0, 1]: divided by √6, a row has norm at most 1.
        let points = labelled(&self.train.columns, 6f64.sqrt());
        let mut random = Random::new("dperm", repetition);
        let learn = |epsilon: &Decimal| self.auc(&dperm::fit(&points, epsilon.to_f64(), DPERM_PENALTY, &mut random));
        losses.iter().map(learn).collect()
    }

    fn plain(&self) -> f64 {
        let points = labelled(&self.train.columns, 1.0);
        self.auc(&Objective { points: &points, weights: None, penalty: DPERM_PENALTY, linear: None }.minimise(6))
    }
}

/// Sensors and an intercept, divided by a number, with the last column as the label.
fn labelled(columns: &[Vec<f64>], divisor: f64) -> Labelled {
    let (label, sensors) = columns.split_last().expect("a label");
    let row = |at: usize| sensors.iter().map(|column| column[at]).chain([1.0]).map(|x| x / divisor).collect();
    let rows = (0..label.len()).map(row).collect();
    Labelled { rows, labels: label.iter().map(|y| if *y > 0.5 { 1.0 } else { -1.0 }).collect() }
}

/// What an AUC lacks.
fn below_one(auc: &Point) -> Point {
    Point { x: auc.x, y: 1.0 - auc.y, band: auc.band.map(|(low, high)| (1.0 - high, 1.0 - low)) }
}

fn quantiles(mut values: Vec<f64>, low: f64, high: f64) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[(share * (values.len() - 1) as f64).round() as usize];
    (at(low), at(high))
}

fn save(args: &Args, name: &str, picture: &Picture) -> anyhow::Result<()> {
    std::fs::create_dir_all(&args.out).map_err(|error| m2m::Error::Write { path: args.out.clone(), error })?;
    for (ending, bytes) in [("svg", picture.to_svg().into_bytes()), ("png", picture.to_png(2.0))] {
        let path = args.out.join(format!("{name}.{ending}"));
        m2m::file::save(&path, true, &bytes)?;
        console::say!("wrote {}", path.display());
    }
    Ok(())
}
