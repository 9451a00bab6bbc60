//! The project's own commands: `cargo xtask test` and `cargo xtask bench`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "usage:
  cargo xtask test            everything that must pass: formatting, lints, docs, oracles, tests
  cargo xtask bench           speed beside the peers, in one interleaved run
  cargo xtask bench fit       speed of fits and questions beside numpy and scipy
  cargo xtask bench memory    peak memory on a 10 GB table through a pipe";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["test"] => test(),
        ["bench"] => bench(),
        ["bench", "fit"] => bench_fit(),
        ["bench", "memory"] => bench_memory(),
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
    oracles()?;
    cargo(&["test", "--workspace"])
}

/// Checks by programs that share no code with ours: a naive Python re-implementation of every map, the ridge in numpy,
/// OpenDP's samplers, and a JSON Schema validator.
fn oracles() -> Outcome {
    let python = venv("oracles", &["numpy", "opendp", "jsonschema"])?;
    let oracle = root().join("crates/m2m/tests/oracle");
    let work = root().join("target/oracle");
    std::fs::create_dir_all(&work).map_err(|error| format!("cannot make {}: {error}", work.display()))?;
    cargo(&["build", "--package", "m2m", "--examples"])?;
    let examples = target().join("debug/examples");
    run(Command::new(examples.join("oracle_case")).arg(&work))?;
    for table in ["rows", "users"] {
        let files = ["json", "csv", "sums"].map(|ending| work.join(format!("{table}.{ending}")));
        run(Command::new(&python).arg(oracle.join("naive.py")).args(files))?;
    }
    let fits = work.join("fit");
    run(Command::new(examples.join("oracle_fit")).arg(&fits))?;
    run(Command::new(&python).arg(oracle.join("fit.py")).arg(&fits))?;
    run(Command::new(&python).arg(oracle.join("opendp_noise.py")).arg(examples.join("draws")))?;
    run(Command::new(&python)
        .arg(oracle.join("release_schema.py"))
        .arg(root().join("docs/release.schema.json"))
        .arg(root().join("crates/m2m/tests/golden"))
        .arg(&work))
}

fn bench() -> Outcome {
    let python = venv("peers", &["numpy", "torch", "duckdb", "pyarrow", "opendp"])?;
    cargo(&["build", "--release", "--package", "m2m-bench", "--package", "m2m-cli"])?;
    let release = target().join("release");
    run(Command::new(release.join("m2m-bench"))
        .arg("speed")
        .arg(python)
        .arg(release.join("m2m"))
        .arg(root().join("target/bench")))
}

fn bench_fit() -> Outcome {
    let python = venv("peers", &["numpy", "scipy"])?;
    cargo(&["build", "--release", "--package", "m2m-bench", "--package", "m2m-cli"])?;
    let release = target().join("release");
    run(Command::new(release.join("m2m-bench"))
        .arg("fit")
        .arg(python)
        .arg(release.join("m2m"))
        .arg(root().join("target/bench")))
}

fn bench_memory() -> Outcome {
    cargo(&["build", "--release", "--package", "m2m-bench", "--package", "m2m-cli"])?;
    let release = target().join("release");
    run(Command::new(release.join("m2m-bench")).arg("memory").arg(release.join("m2m")).arg(root().join("target/bench")))
}

/// The Python of a virtual environment under `target`, made and filled on first use.
fn venv(name: &str, packages: &[&str]) -> Outcome<PathBuf> {
    let directory = root().join("target").join(format!("venv-{name}"));
    let python = directory.join("bin/python");
    let marker = directory.join(format!("has-{}", packages.join("-")));
    if !marker.exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&directory))
            .map_err(|error| format!("{error}\ninstall Python 3.10 or newer with its venv module"))?;
        run(Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(packages))?;
        std::fs::write(&marker, "").map_err(|error| format!("cannot write {}: {error}", marker.display()))?;
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
