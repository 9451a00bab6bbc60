//! `m2m audit`: does a release keep its promise, as far as counting can tell?

use m2m::audit::{self, ALARM, Case, Finding};
use m2m::source::Watch;
use serde_json::json;

use super::Format;
use crate::console::{self, Progress};
use crate::table;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  m2m audit
  m2m audit --trials 200000 --format json

Each line is one way to make a release, on two neighbouring tables of which one has the rows that change the sums most. \
Some of the releases choose the event that tells the tables apart best, the others count it; exact intervals for the two \
probabilities give a lower bound on ε. The verdict is `broken` if a bound is above the claim that would be so by chance once \
in ten thousand runs of the whole audit. A bound below the claim proves nothing; the proofs are in PRIVACY.md.")]
pub struct Args {
    /// Releases of either table of a case; the slow ones of the default design get a part of them
    #[arg(long, value_name = "N", default_value_t = 16_000, value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    trials: u64,
    /// How it is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// A promise was seen to be broken.
#[derive(Debug)]
struct Broken(usize);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let promises = if self.0 == 1 { "promise is" } else { "promises are" };
        write!(f, "{} {promises} broken; publish nothing with this program, and report it as SECURITY.md says", self.0)
    }
}

impl std::error::Error for Broken {}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let cases = audit::suite()?;
    let alarm = ALARM / cases.len() as f64;
    let progress = Progress::steps(cases.len() as u64);
    let mut findings = Vec::with_capacity(cases.len());
    for case in &cases {
        findings.push(audit::audit(case, case.trials(args.trials))?);
        progress.advance(1);
    }
    drop(progress);
    let verdict = |finding: &Finding| if finding.holds(alarm) { "holds" } else { "broken" };
    match args.format {
        Format::Json => {
            let line = |(case, finding): (&Case, &Finding)| {
                Ok(json!({
                    "mechanism": case.mechanism,
                    "map": case.map,
                    "unit": case.unit,
                    "neighbours": case.neighbours,
                    "epsilon": finding.epsilon,
                    "delta": finding.delta,
                    "attained": case.attained()?,
                    "lower_bound_95": finding.lower_bound(0.95),
                    "lower_bound_99": finding.lower_bound(0.99),
                    "event": finding.event,
                    "trials": finding.trials,
                    "happened": finding.happened,
                    "verdict": verdict(finding),
                }))
            };
            let lines = cases.iter().zip(&findings).map(line).collect::<anyhow::Result<Vec<_>>>()?;
            console::show!("{}", serde_json::to_string(&json!({ "alarm": ALARM, "cases": lines }))?);
        }
        Format::Table => {
            let header = ["mechanism", "map", "unit", "neighbours", "claimed ε", "δ", "95%", "99%", "verdict", "by"];
            let row = |(case, finding): (&Case, &Finding)| {
                vec![
                    case.mechanism.to_owned(),
                    case.map.clone(),
                    case.unit.clone(),
                    case.neighbours.to_owned(),
                    format!("{:.3}", finding.epsilon),
                    finding.delta.to_string(),
                    format!("{:.3}", finding.lower_bound(0.95)),
                    format!("{:.3}", finding.lower_bound(0.99)),
                    verdict(finding).to_owned(),
                    finding.event.clone(),
                ]
            };
            let rows: Vec<Vec<String>> = cases.iter().zip(&findings).map(row).collect();
            table::grid(&header.map(str::to_owned), &rows);
        }
    }
    let broken = findings.iter().filter(|finding| !finding.holds(alarm)).count();
    if broken > 0 {
        return Err(Broken(broken).into());
    }
    let releases: u64 = cases.iter().map(|case| 2 * case.trials(args.trials)).sum();
    console::say!("{releases} releases, {} promises, none seen broken", cases.len());
    Ok(())
}
