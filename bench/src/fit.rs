//! Speed of fits and of questions to them. Run it by `cargo xtask bench fit`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};
use m2m::estimate::Model;
use m2m::expr::{Expr, col, lit};
use m2m::fit::{Fit, Lambda, Options};
use m2m::prior::Prior;
use m2m::privatise::{Budget, Plan, Privacy};
use m2m::source::{self, Table};
use m2m::sums::Sketcher;
use m2m::{Design, Release};
use nix::time::ClockId;

use crate::{COLUMNS, Peers, median, schema, seconds_of};

const ROWS: usize = 27_000;
const ROUNDS: usize = 5;

/// Processor seconds of this process, all threads.
pub fn process_cpu() -> f64 {
    seconds_of(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// Processor seconds of one of many runs, that take as long as a peer's turn together.
fn seconds(mut job: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    const SECONDS: f64 = 0.2;
    let start = process_cpu();
    let (mut runs, mut spent) = (0.0, 0.0);
    while spent < SECONDS {
        job()?;
        runs += 1.0;
        spent = process_cpu() - start;
    }
    Ok(spent / runs)
}

/// A table of uniform numbers.
fn table() -> Vec<u8> {
    let mut text = (0..COLUMNS).map(|k| format!("c{k}")).collect::<Vec<_>>().join(",");
    let mut state = 7u64;
    for _ in 0..ROWS {
        let cells: Vec<String> = (0..COLUMNS)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                format!("0.{:06}", (state >> 33) % 1_000_000)
            })
            .collect();
        text += &format!("\n{}", cells.join(","));
    }
    text.push('\n');
    text.into_bytes()
}

fn release(design: &Design, table: &[u8]) -> anyhow::Result<Release> {
    let schema = schema();
    let plan = Plan::new(&schema, design, Privacy::new(Budget::pure("1".parse()?)?))?;
    let sketcher = Sketcher::new(&schema, design)?;
    let sums = source::sketch(&sketcher, &Table::from_csv_bytes(table.to_vec()), 2, &())?.0;
    Ok(sums.privatise(plan.draw()?)?)
}

/// What is compared: our fit (or its Gram matrix alone, given points and prior), the peers of which the fastest counts, and
/// the goal.
struct Comparison {
    ours: &'static str,
    design: &'static str,
    sampled: bool,
    gram: bool,
    peers: &'static [&'static str],
    goal: f64,
}

const RFF: &[&str] = &["rff_numpy", "rff_numpy_chunks"];
const RACE: &[&str] = &["race_scipy_active", "race_scipy_full"];
const HIST: &[&str] = &["hist_numpy_bincount", "hist_numpy_matmul", "hist_numpy_add_at"];

/// The ridge as it is written: a one-hot matrix times itself.
const HIST_GRAM: &[&str] = &["hist_gram_matmul"];
/// The quickest way that we know in numpy.
const HIST_PAIRS: &[&str] = &["hist_gram_bincount"];

const fn fit(
    ours: &'static str,
    design: &'static str,
    sampled: bool,
    peers: &'static [&'static str],
    goal: f64,
) -> Comparison {
    Comparison { ours, design, sampled, gram: false, peers, goal }
}

const fn gram(ours: &'static str, sampled: bool, peers: &'static [&'static str], goal: f64) -> Comparison {
    Comparison { ours, design: "hist:bins=100", sampled, gram: true, peers, goal }
}

/// Where the goal is 1 the work that cannot be saved is most of it.
const COMPARISONS: &[Comparison] = &[
    fit("rff closed", "rff:m=200,frequencies=iid", false, RFF, 300.0),
    fit("rff sampled", "rff:m=200,frequencies=iid", true, RFF, 1.0),
    fit("race", "race:r=80,w=80,sigma=1", true, RACE, 60.0),
    fit("hist closed", "hist:bins=100", false, HIST, 1.0),
    fit("hist sampled", "hist:bins=100", true, HIST, 1.0),
    gram("hist Gram, closed, beside matmul", false, HIST_GRAM, 50.0),
    gram("hist Gram, sampled, beside matmul", true, HIST_GRAM, 50.0),
    gram("hist Gram, sampled, beside bincount", true, HIST_PAIRS, 1.0),
];

pub fn run(python: &str, binary: &str, directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fit_peers.py");
    let mut peers = Peers::start(Path::new(python), &script, directory)?;
    let table = table();
    let mut releases = Vec::new();
    for comparison in COMPARISONS {
        releases.push(release(&Design::parse(comparison.design)?, &table)?);
    }
    let options = |sampled| Options {
        prior: Prior::Uniform,
        lambda: Lambda::Theorem(1.0),
        samples: 100_000,
        sampled,
        ..Options::default()
    };
    let mut ratios = vec![Vec::new(); COMPARISONS.len()];
    let mut times = vec![Vec::new(); COMPARISONS.len()];
    let mut floor = Vec::new();
    // The first round warms up and is not counted.
    for round in 0..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        let mut known: Vec<(&str, f64)> = Vec::new();
        for (at, comparison) in COMPARISONS.iter().enumerate() {
            for peer in comparison.peers {
                if !known.iter().any(|(name, _)| name == peer) {
                    known.push((peer, peers.run(peer)?));
                }
            }
            let options = options(comparison.sampled);
            let ours = if comparison.gram {
                let fit = Fit::new(&releases[at], options)?;
                seconds(|| {
                    std::hint::black_box(fit.gram_again());
                    Ok(())
                })?
            } else {
                seconds(|| {
                    std::hint::black_box(Fit::new(&releases[at], options.clone())?);
                    Ok(())
                })?
            };
            let theirs = known.iter().filter(|(name, _)| comparison.peers.contains(name)).map(|(_, time)| *time);
            let theirs = theirs.fold(f64::INFINITY, f64::min);
            if round > 0 {
                ratios[at].push(theirs / ours);
                times[at].push((ours, theirs));
            }
        }
        floor.push(peers.run("hist_factor")?);
    }
    peers.stop()?;

    println!(
        "Whole fits, or Gram matrices alone, CPU time of one thread each, 10 columns, 100,000 points where there are any, median of {ROUNDS} interleaved rounds:"
    );
    println!("  {:<36} {:>10} {:>12} {:>8} {:>6} {:>18}", "ours", "ms", "fastest peer", "ratio", "goal", "range");
    for ((comparison, ratios), times) in COMPARISONS.iter().zip(&ratios).zip(&times) {
        let (low, high) = ratios.iter().fold((f64::INFINITY, 0.0f64), |(low, high), r| (low.min(*r), high.max(*r)));
        let milliseconds = |pick: fn(&(f64, f64)) -> f64| 1e3 * median(times.iter().map(pick).collect());
        println!(
            "  {:<36} {:>10.3} {:>12.1} {:>8.1} {:>6.0} {:>18}",
            comparison.ours,
            milliseconds(|(ours, _)| *ours),
            milliseconds(|(_, theirs)| *theirs),
            median(ratios.clone()),
            comparison.goal,
            format!("{low:.1} to {high:.1}")
        );
    }
    println!("  (factoring a system of 1000 takes numpy {:.1} ms by itself)", 1e3 * median(floor));
    questions(&table, options(false))?;
    command(binary, directory, &table)
}

/// Separable questions to a fit in memory.
fn questions(table: &[u8], paper: Options) -> anyhow::Result<()> {
    println!("\nSeparable questions after the fit, CPU time (goal: under 100 µs on the first release):");
    let condition = || col("c0").le(lit(0.37)).and(col("c1").gt(lit(0.61)));
    let functions: [(&str, Vec<Expr>); 3] = [
        ("mean of a column", vec![col("c0")]),
        ("mean with its count", vec![lit(1.0), col("c0")]),
        ("2-way count", vec![condition()]),
    ];
    let fits = [
        ("rff, uniform prior", Design::parse("rff:m=200")?, paper),
        ("rff, as by default", Design::parse("rff:m=200")?, Options::default()),
        ("hist and rff, as by default", Design::default(), Options::default()),
    ];
    for (name, design, options) in fits {
        let fit = Fit::new(&release(&design, table)?, options)?;
        for (question, functions) in &functions {
            let checked = functions.iter().map(|f| f.check(Model::schema(&fit))).collect::<Result<Vec<_>, _>>()?;
            let mut times = Vec::new();
            for _ in 0..ROUNDS {
                times.push(seconds(|| {
                    std::hint::black_box(fit.totals(&checked).estimate(0));
                    Ok(())
                })?);
            }
            println!("  {name:<28} {question:<20} {:>8.1} µs", 1e6 * median(times));
        }
    }
    Ok(())
}

/// A whole process that answers one query.
fn command(binary: &str, directory: &Path, table: &[u8]) -> anyhow::Result<()> {
    const RUNS: usize = 20;
    let path = directory.join("fit.m2m");
    release(&Design::default(), table)?.save(&path, true)?;
    for query in ["SELECT AVG(c0) FROM t", "SELECT COUNT(*) FROM t WHERE c0 < 0.3 AND c1 > 0.5"] {
        let mut times = Vec::new();
        for _ in 0..RUNS {
            let start = Instant::now();
            let status = Command::new(binary).arg("sql").arg(&path).arg(query).stdout(Stdio::null()).status()?;
            if !status.success() {
                bail!("m2m sql failed");
            }
            times.push(start.elapsed().as_secs_f64());
        }
        let best = times.iter().copied().reduce(f64::min).context("no runs")?;
        println!(
            "\nm2m sql on a default release, \"{query}\": {:.1} ms of wall time, median of {RUNS} (least {:.1}; goal: under 50)",
            1e3 * median(times),
            1e3 * best
        );
    }
    Ok(())
}
