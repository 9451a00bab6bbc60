//! Checks that take too long for every change: faults, fuzzing, and the comparison with an independent program.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::{Outcome, USAGE, build, cargo, root, run, target, venv};

/// The tests of faults with many kills; only their report is shown.
pub fn faults(kills: u64) -> Outcome {
    let (lines, succeeded) = listen(
        Command::new("cargo").current_dir(root()).env("M2M_KILLS", kills.to_string()).args([
            "test",
            "--package",
            "m2m-cli",
            "--test",
            "faults",
            "--",
            "--nocapture",
            "--test-threads=1",
        ]),
        |line| line.contains("faults: ") || line.starts_with("test ") || line.contains("panicked"),
    )?;
    let killed: u64 = lines
        .iter()
        .filter_map(|line| line.split("faults: ").nth(1)?.split_once(": ")?.1.split(' ').next()?.parse::<u64>().ok())
        .sum();
    println!("{killed} processes killed");
    if succeeded { Ok(()) } else { Err("a fault was not survived; see above".into()) }
}

/// The tests of hostile input with many more cases; only their report is shown.
pub fn fuzz(options: &[&str]) -> Outcome {
    let (runs, targets) = chosen(options)?;
    let mut command = Command::new("cargo");
    command.current_dir(root()).env("M2M_FUZZ_CASES", runs.to_string());
    command.args(["test", "--workspace", "--test", "fuzz", "--", "--nocapture"]);
    if targets.len() < TARGETS.len() {
        command.args(targets.iter().flat_map(|(_, tests)| *tests));
    }
    in_memory(&mut command);
    let (_, succeeded) = listen(&mut command, |line| {
        line.contains("fuzz: ") || line.starts_with("test ") || line.contains("it panics")
    })?;
    if succeeded { Ok(()) } else { Err("an input was not survived; see above".into()) }
}

/// Small files of a test are best kept in memory.
fn in_memory(command: &mut Command) {
    if std::path::Path::new("/dev/shm").is_dir() {
        command.env("TMPDIR", "/dev/shm");
    }
}

/// What is fuzzed, and the tests that do so without a fuzzer.
const TARGETS: [(&str, &[&str]); 7] = [
    ("release", &["damaged_bytes", "forged_documents"]),
    ("sums", &["damaged_sums"]),
    ("ledger", &["damaged_ledgers"]),
    ("schema", &["damaged_schemas"]),
    ("csv", &["damaged_tables"]),
    ("sql", &["soup_of_sql"]),
    ("http", &["damaged_requests"]),
];

type Target = (&'static str, &'static [&'static str]);

/// How many executions, of which targets: all, unless some are named.
fn chosen(mut options: &[&str]) -> Outcome<(u64, Vec<Target>)> {
    let (mut runs, mut targets) = (1_000_000, Vec::new());
    while let [word, rest @ ..] = options {
        options = match (*word, rest) {
            ("--runs", [number, rest @ ..]) => {
                runs = number.replace('_', "").parse().map_err(|_| USAGE.to_owned())?;
                rest
            }
            _ => {
                targets.push(*TARGETS.iter().find(|(name, _)| name == word).ok_or(USAGE)?);
                rest
            }
        };
    }
    Ok((runs, if targets.is_empty() { TARGETS.to_vec() } else { targets }))
}

/// Every fuzz target, with a corpus of its own below `target` that grows; that in the repository is only read.
pub fn fuzz_guided(options: &[&str]) -> Outcome {
    let (runs, targets) = chosen(options)?;
    cargo(&["+nightly", "fuzz", "build", "--sanitizer", "none"]).map_err(|error| {
        format!("{error}\ninstall it: `rustup toolchain install nightly` and `cargo install cargo-fuzz`")
    })?;
    let mut failed = Vec::new();
    let mut report = Vec::new();
    for (name, _) in targets {
        let found = target().join("fuzz").join(name);
        std::fs::create_dir_all(&found).map_err(|error| format!("cannot make {}: {error}", found.display()))?;
        let mut command = Command::new("cargo");
        command.current_dir(root()).args(["+nightly", "fuzz", "run", "--sanitizer", "none", name]);
        command.arg(&found).arg(root().join("fuzz/corpus").join(name));
        if name == "release" {
            command.arg(root().join("crates/m2m/tests/golden"));
        }
        command.args(["--", &format!("-runs={runs}"), "-max_len=8192", "-timeout=20", "-rss_limit_mb=1024"]);
        command.args(["-print_final_stats=1", "-verbosity=0"]);
        in_memory(&mut command);
        let (lines, succeeded) = listen(&mut command, |line| {
            line.contains("panicked") || line.contains("ERROR") || line.contains("SUMMARY") || line.contains("artifact")
        })?;
        let stat = |name: &str| {
            let text = lines.iter().find_map(|line| line.split_once(name).map(|(_, value)| value.trim().to_owned()));
            text.unwrap_or_else(|| "?".into())
        };
        let executions = stat("stat::number_of_executed_units:");
        let memory = stat("stat::peak_rss_mb:");
        report.push(format!("{name:<10}{executions:>12} executions, {memory:>5} MB at most"));
        println!("{}", report[report.len() - 1]);
        if !succeeded {
            failed.push(name);
        }
    }
    println!("\n{}", report.join("\n"));
    if failed.is_empty() { Ok(()) } else { Err(format!("these targets failed: {}", failed.join(", "))) }
}

/// Checks by programs that share no code with ours: a naive Python re-implementation of every map and another in numpy,
/// the ridge in numpy, OpenDP's samplers, the accountants of dp-accounting, and a JSON Schema validator.
pub fn oracles() -> Outcome {
    let mut asked = Oracles::new()?;
    asked.all()?;
    asked.close();
    Ok(())
}

/// The same, and the sums of many records.
pub fn oracle(records: u64) -> Outcome {
    let mut asked = Oracles::new()?;
    asked.all()?;
    let work = target().join("oracle-many");
    asked.example("oracle_case", &[work.as_os_str(), records.to_string().as_ref()])?;
    asked.ask("vector.py", &[work.as_os_str()])?;
    asked.close();
    Ok(())
}

/// Independent programs, and what they say in the end.
struct Oracles {
    python: PathBuf,
    examples: PathBuf,
    closing: Vec<[String; 3]>,
}

impl Oracles {
    fn new() -> Outcome<Self> {
        let python = venv("oracles", crate::ORACLES)?;
        build()?;
        Ok(Self { python, examples: target().join("debug/examples"), closing: Vec::new() })
    }

    fn all(&mut self) -> Outcome {
        let work = target().join("oracle");
        let fits = work.join("fit");
        std::fs::create_dir_all(&work).map_err(|error| format!("cannot make {}: {error}", work.display()))?;
        self.example("oracle_case", &[work.as_os_str()])?;
        self.ask("naive.py", &[work.as_os_str()])?;
        self.ask("vector.py", &[work.as_os_str()])?;
        self.example("oracle_fit", &[fits.as_os_str()])?;
        self.ask("fit.py", &[fits.as_os_str()])?;
        let [draws, calibrations] = ["draws", "calibrations"].map(|name| self.examples.join(name));
        self.ask("opendp_noise.py", &[draws.as_os_str()])?;
        self.ask("accounting.py", &[calibrations.as_os_str()])?;
        let (schema, golden) = (root().join("docs/release.schema.json"), root().join("crates/m2m/tests/golden"));
        self.ask("release_schema.py", &[schema.as_os_str(), golden.as_os_str(), work.as_os_str()])
    }

    /// Has one of our examples write what is to be checked.
    fn example(&self, name: &str, arguments: &[&OsStr]) -> Outcome {
        run(Command::new(self.examples.join(name)).args(arguments))
    }

    /// Runs an oracle, and keeps the line that it closes with: `= name | comparisons | worst`.
    fn ask(&mut self, script: &str, arguments: &[&OsStr]) -> Outcome {
        let mut command = Command::new(&self.python);
        command.arg(root().join("crates/m2m/tests/oracle").join(script)).args(arguments);
        let (lines, succeeded) = listen(&mut command, |line| !line.starts_with("= "))?;
        let found = self.closing.len();
        for line in lines.iter().filter_map(|line| line.strip_prefix("= ")) {
            let mut parts = line.split(" | ").map(str::to_owned);
            self.closing.push(std::array::from_fn(|_| parts.next().unwrap_or_default()));
        }
        match succeeded {
            true if self.closing.len() > found => Ok(()),
            true => Err(format!("{script} does not say what it compared")),
            false => Err(format!("{script} disagrees; see above")),
        }
    }

    /// Everything at a glance.
    fn close(&self) {
        let head = ["oracle", "comparisons", "worst"].map(str::to_owned);
        let width = |at: usize| {
            std::iter::once(&head).chain(&self.closing).map(|line| line[at].chars().count()).max().unwrap_or(0)
        };
        println!();
        for line in std::iter::once(&head).chain(&self.closing) {
            println!("{:<one$} | {:<two$} | {}", line[0], line[1], line[2], one = width(0), two = width(1));
        }
    }
}

/// Runs a command and shows some of the lines that it prints. All of them, and whether it succeeded.
fn listen(command: &mut Command, shown: impl Fn(&str) -> bool + Sync) -> Outcome<(Vec<String>, bool)> {
    let words = format!("{command:?}").replace('"', "");
    eprintln!("xtask: {words}");
    let failed = |error: std::io::Error| format!("xtask: cannot run {words}: {error}");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let lines = std::thread::scope(|scope| {
        let shown = &shown;
        let read = |input: Box<dyn std::io::Read + Send>| {
            BufReader::new(input)
                .split(b'\n')
                .map_while(Result::ok)
                .map(|line| String::from_utf8_lossy(&line).into_owned())
                .inspect(|line| {
                    if shown(line) {
                        println!("{line}");
                    }
                })
                .collect::<Vec<_>>()
        };
        let beside = scope.spawn({
            let err = Box::new(err.expect("it is piped"));
            move || read(err)
        });
        let mut lines = read(Box::new(out.expect("it is piped")));
        lines.extend(beside.join().expect("reading lines does not panic"));
        lines
    });
    let status = child.wait().map_err(failed)?;
    Ok((lines, status.success()))
}
