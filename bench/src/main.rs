//! Speed of m2m beside its peers, and our side of the comparison of accuracy (`peers`). Every figure of speed is CPU
//! time, every comparison is interleaved in one run, and what is printed is the median of the rounds' ratios. Run it by
//! `cargo xtask bench`, `cargo xtask bench fit` and `cargo xtask bench-peers`.

mod fit;
mod peers;
mod plan;

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use m2m::feature::{Adder, Simd};
use m2m::panel::{PANEL, Panel};
use m2m::privatise::{NoiseSource, Scale};
use m2m::{Design, Schema};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::time::ClockId;

const COLUMNS: usize = 10;
const ROWS: usize = 1_000_000;
const ROUNDS: usize = 5;

/// Processor seconds by one of the system's clocks.
fn seconds_of(clock: ClockId) -> f64 {
    Duration::from(clock.now().expect("Linux has this clock")).as_secs_f64()
}

/// Processor seconds of this thread.
fn thread_cpu() -> f64 {
    seconds_of(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// What all finished children have used.
fn children_usage() -> Usage {
    getrusage(UsageWho::RUSAGE_CHILDREN).expect("Linux counts what children use")
}

/// Processor seconds of all finished children.
fn children_cpu() -> f64 {
    let usage = children_usage();
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

/// The Python process that runs the peers.
struct Peers {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peers {
    fn start(python: &Path, script: &Path, directory: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(python)
            .arg(script)
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", python.display()))?;
        let input = child.stdin.take().context("no stdin")?;
        let output = BufReader::new(child.stdout.take().context("no stdout")?);
        Ok(Self { child, input, output })
    }

    /// CPU seconds per record of a job.
    fn run(&mut self, job: &str) -> anyhow::Result<f64> {
        writeln!(self.input, "{job}")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let answer: serde_json::Value =
            serde_json::from_str(&line).with_context(|| format!("the peers failed at {job}"))?;
        Ok(answer["cpu"].as_f64().context("no time")? / answer["records"].as_f64().context("no count")?)
    }

    fn stop(mut self) -> anyhow::Result<()> {
        drop(self.input);
        self.child.wait()?;
        Ok(())
    }
}

fn schema() -> Schema {
    let columns: String =
        (0..COLUMNS).map(|k| format!("[[column]]\nname = \"c{k}\"\ntype = \"number\"\nmin = 0\nmax = 1\n")).collect();
    Schema::from_toml(&columns).expect("a valid schema")
}

/// Panels of uniform numbers.
fn panels(count: usize) -> Vec<Panel> {
    let mut state = 1u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..count).map(|_| Panel::from_units(&schema(), PANEL, |_, _| uniform())).collect()
}

/// CPU seconds per record of a map.
struct Kernel<'a> {
    adder: Box<dyn Adder + 'a>,
    sums: Vec<i64>,
}

impl Kernel<'_> {
    fn run(&mut self, panels: &[Panel]) -> f64 {
        // About as long as a peer's turn.
        const SECONDS: f64 = 0.2;
        let start = thread_cpu();
        let (mut seconds, mut records) = (0.0, 0);
        while seconds < SECONDS {
            for panel in panels {
                self.adder.add(panel, &mut self.sums);
            }
            records += panels.len() * PANEL;
            seconds = thread_cpu() - start;
        }
        seconds / records as f64
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What is compared: our name, the peers of which the fastest counts, and the goal.
struct Comparison {
    ours: &'static str,
    peers: &'static [&'static str],
    goal: f64,
}

const NUMPY_RFF: &[&str] = &["rff_numpy_256", "rff_numpy_1024", "rff_numpy_4096"];
/// A column at a time, as it is usually written.
const NUMPY_HIST: &[&str] = &["hist_numpy_64"];
/// With bytes for bins, or in pieces that fit the cache: the fastest that we found.
const TUNED_HIST: &[&str] = &["hist_tuned_8", "hist_tuned_64", "hist_tuned_32"];
const TORCH_RFF: &[&str] = &["rff_torch_256", "rff_torch_1024"];

const COMPARISONS: &[Comparison] = &[
    Comparison { ours: "rff_fast_avx512", peers: NUMPY_RFF, goal: 45.0 },
    Comparison { ours: "rff_fast_avx512", peers: TORCH_RFF, goal: 13.0 },
    Comparison { ours: "rff_fast_avx2", peers: NUMPY_RFF, goal: 38.0 },
    Comparison { ours: "rff_precise_avx512", peers: NUMPY_RFF, goal: 28.0 },
    Comparison { ours: "race_avx512", peers: &["race_numpy"], goal: 12.0 },
    Comparison { ours: "race_avx2", peers: &["race_numpy"], goal: 12.0 },
    Comparison { ours: "hist_avx512", peers: NUMPY_HIST, goal: 5.0 },
    Comparison { ours: "hist_avx2", peers: NUMPY_HIST, goal: 5.0 },
    Comparison { ours: "hist_avx512", peers: TUNED_HIST, goal: 1.0 },
    Comparison { ours: "csv_release", peers: &["csv_duckdb"], goal: 2.8 },
    Comparison { ours: "parquet_release", peers: &["parquet_duckdb"], goal: 0.6 },
    Comparison { ours: "laplace", peers: &["noise_opendp"], goal: 10.0 },
];

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["speed", python, binary, directory] => speed(python, binary, Path::new(directory)),
        ["fit", python, binary, directory] => fit::run(python, binary, Path::new(directory)),
        ["memory", binary, directory] => memory(binary, Path::new(directory)),
        ["large", python, binary, directory] => large(python, binary, Path::new(directory)),
        ["plan", directory, ref names @ ..] => plan::run(Path::new(directory), names),
        ["peers", directory, epsilon, delta, runs] => peers::run(Path::new(directory), epsilon, delta, runs),
        _ => bail!(
            "run it by `cargo xtask bench`, with `fit`, `memory` or `large` after it, by `cargo xtask bench-peers`, or give it `plan DIR`"
        ),
    }
}

fn peers_script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers.py")
}

fn speed(python: &str, binary: &str, directory: &Path) -> anyhow::Result<()> {
    let mut peers = Peers::start(Path::new(python), &peers_script(), directory)?;
    write_table(directory)?;
    peers.run("make_parquet")?;

    let schema = schema();
    let panels = panels(128);
    let mut maps = Vec::new();
    for simd in Simd::available() {
        for (name, design) in [
            ("rff_fast", "rff:m=200,frequencies=iid"),
            ("rff_precise", "rff:m=200,frequencies=iid,precision=precise"),
            ("race", "race:r=80,w=80"),
            ("hist", "hist:bins=100"),
        ] {
            if simd != Simd::Portable {
                let map = Design::parse(design)?.maps(&schema, simd)?.remove(0);
                maps.push((format!("{name}_{simd:?}").to_lowercase(), map));
            }
        }
    }
    let mut kernels: Vec<(String, Kernel<'_>)> = maps
        .iter()
        .map(|(name, map)| (name.clone(), Kernel { adder: map.adder(), sums: vec![0; map.len()] }))
        .collect();

    let mut times: Vec<(String, Vec<f64>)> = Vec::new();
    let mut note = |name: &str, time: f64| match times.iter_mut().find(|(known, _)| known == name) {
        Some((_, times)) => times.push(time),
        None => times.push((name.to_owned(), vec![time])),
    };
    // The first round warms up and is not counted.
    for round in 0..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        let mut results = Vec::new();
        for comparison in COMPARISONS {
            for peer in comparison.peers {
                if !results.iter().any(|(name, _)| name == peer) {
                    results.push(((*peer).to_owned(), peers.run(peer)?));
                }
            }
            // Our side runs right after its peer.
            for (name, kernel) in kernels.iter_mut().filter(|(name, _)| name == comparison.ours) {
                if !results.iter().any(|(known, _)| known == name) {
                    results.push((name.clone(), kernel.run(&panels)));
                }
            }
            match comparison.ours {
                "csv_release" => results.push((comparison.ours.into(), release(binary, directory, "table.csv")?)),
                "parquet_release" => {
                    results.push((comparison.ours.into(), release(binary, directory, "table.parquet")?))
                }
                "laplace" => results.push((comparison.ours.into(), draws(|source, scale| source.laplace(scale))?)),
                _ => {}
            }
        }
        results.push(("gaussian".into(), draws(|source, scale| source.gaussian(scale))?));
        if round > 0 {
            results.iter().for_each(|(name, time)| note(name, *time));
        }
    }
    peers.stop()?;

    println!("CPU time per record, median of {ROUNDS} interleaved rounds, as million records a second on two cores:");
    for (name, times) in &times {
        println!("  {name:<20} {:>9.2}", 2e-6 / median(times.clone()));
    }
    println!("\nSpeed beside the fastest variant of the peer, median of the rounds' ratios:");
    println!("  {:<20} {:<16} {:>8} {:>8} {:>16}", "ours", "peer", "ratio", "goal", "range");
    let all = |name: &str| times.iter().find(|(known, _)| known == name).map(|(_, times)| times.clone());
    for comparison in COMPARISONS {
        let Some(ours) = all(comparison.ours) else {
            println!("  {:<20} not on this processor", comparison.ours);
            continue;
        };
        let ratios: Vec<f64> = (0..ROUNDS)
            .map(|round| {
                let peer = comparison.peers.iter().filter_map(|peer| all(peer)).map(|times| times[round]);
                peer.fold(f64::INFINITY, f64::min) / ours[round]
            })
            .collect();
        let (low, high) = ratios.iter().fold((f64::INFINITY, 0.0f64), |(low, high), r| (low.min(*r), high.max(*r)));
        let name = comparison.peers[0].trim_end_matches(|c: char| c == '_' || c.is_ascii_digit());
        let range = format!("{low:.2} to {high:.2}");
        println!(
            "  {:<20} {name:<16} {:>8.2} {:>8.1} {range:>16}",
            comparison.ours,
            median(ratios.clone()),
            comparison.goal
        );
    }
    for name in ["laplace", "gaussian"] {
        let seconds = median(all(name).expect("drawn in every round")) * 1e7 / 2.0;
        println!("\n10^7 exact {name} draws on two cores: {seconds:.2} s (goal: under 3)");
    }
    Ok(())
}

/// A CSV of uniform numbers with six digits.
fn write_table(directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)?;
    let path = directory.join("table.csv");
    if path.exists() {
        return Ok(());
    }
    let mut text = (0..COLUMNS).map(|k| format!("c{k}")).collect::<Vec<_>>().join(",");
    let mut state = 7u64;
    for _ in 0..ROWS {
        for k in 0..COLUMNS {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let separator = if k == 0 { '\n' } else { ',' };
            write!(text, "{separator}0.{:06}", (state >> 33) % 1_000_000)?;
        }
    }
    text.push('\n');
    std::fs::write(path, text)?;
    let toml = schema().to_toml();
    std::fs::write(directory.join("schema.toml"), toml)?;
    Ok(())
}

/// CPU seconds per record of the whole command, from the file to a written release.
fn release(binary: &str, directory: &Path, table: &str) -> anyhow::Result<f64> {
    let before = children_cpu();
    let status = Command::new(binary)
        .current_dir(directory)
        .args([
            "sketch",
            table,
            "--schema",
            "schema.toml",
            "--design",
            "rff:m=200",
            "--epsilon",
            "1",
            "-o",
            "out.m2m",
            "--force",
        ])
        .stderr(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("m2m sketch failed");
    }
    Ok((children_cpu() - before) / ROWS as f64)
}

/// Streams a generated table of 10 GB through a pipe and reports the peak memory of the reader.
fn memory(binary: &str, directory: &Path) -> anyhow::Result<()> {
    const BYTES: u64 = 10_000_000_000;
    write_table(directory)?;
    let table = std::fs::read(directory.join("table.csv"))?;
    let header = table.iter().position(|byte| *byte == b'\n').context("a header")? + 1;
    let mut child = Command::new(binary)
        .current_dir(directory)
        .args(["sketch", "-", "--schema", "schema.toml", "--epsilon", "1", "-o", "out.m2m", "--force"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut input = child.stdin.take().context("no stdin")?;
    let start = std::time::Instant::now();
    input.write_all(&table[..header])?;
    let mut written = header as u64;
    while written < BYTES {
        input.write_all(&table[header..])?;
        written += (table.len() - header) as u64;
    }
    drop(input);
    if !child.wait()?.success() {
        bail!("m2m sketch failed");
    }
    let seconds = start.elapsed().as_secs_f64();
    let peak = children_usage().max_rss() as f64 / 1024.0;
    println!(
        "{:.1} GB through a pipe in {seconds:.1} s: peak memory {peak:.0} MB (goal: under 200)",
        written as f64 / 1e9
    );
    Ok(())
}

/// Releases a generated table of 10⁷ rows and 20 columns by the default design, from Parquet.
fn large(python: &str, binary: &str, directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)?;
    let mut peers = Peers::start(Path::new(python), &peers_script(), directory)?;
    peers.run("make_large")?;
    peers.stop()?;
    let peers_peak = children_usage().max_rss();
    let (before, start) = (children_cpu(), std::time::Instant::now());
    let status = Command::new(binary)
        .current_dir(directory)
        .args(["sketch", "large.parquet", "--schema", "large.toml", "--epsilon", "1", "-o", "large.m2m", "--force"])
        .stderr(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("m2m sketch failed");
    }
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), children_cpu() - before);
    // The largest of all children so far: ours only if it is above the one that made the table.
    let peak = children_usage().max_rss();
    let bound = if peak > peers_peak { "" } else { "at most " };
    println!(
        "10^7 rows of 20 columns, default design, from Parquet: {seconds:.1} s (goal: under 60), {cpu:.1} s of CPU, peak memory {bound}{} MB",
        peak / 1024
    );
    Ok(())
}

/// CPU seconds per exact draw.
fn draws(draw: impl Fn(&mut NoiseSource, Scale) -> i128) -> anyhow::Result<f64> {
    const DRAWS: usize = 1_000_000;
    let scale = Scale::new(1000 << 20, 1 << 20).context("a valid scale")?;
    let mut source = NoiseSource::from_os()?;
    let start = thread_cpu();
    let mut sum = 0i128;
    for _ in 0..DRAWS {
        sum = sum.wrapping_add(draw(&mut source, scale));
    }
    std::hint::black_box(sum);
    Ok((thread_cpu() - start) / DRAWS as f64)
}
