//! The options that say what is spent and how.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;
use m2m::privatise::{Budget, Ledger, Neighbours, Noise, NoiseKind, Plan, Privacy};
use m2m::{Decimal, Design, Release, Schema, Sums};

use crate::console::{self, Mistake};

#[derive(clap::Args)]
#[command(next_help_heading = "Privacy")]
pub struct PrivacyArgs {
    /// Privacy loss; with it alone the release is purely ε-private
    #[arg(long, value_name = "ε")]
    epsilon: Option<Decimal>,
    /// Failure probability of (ε, δ)-privacy, far below one over the number of rows
    #[arg(long, value_name = "δ")]
    delta: Option<Decimal>,
    /// Zero-concentrated privacy loss, in place of epsilon
    #[arg(long, value_name = "ρ", conflicts_with_all = ["epsilon", "delta"])]
    rho: Option<Decimal>,
    /// Which tables must look alike
    #[arg(long, value_enum, default_value_t)]
    neighbours: NeighboursArg,
    /// Part of the budget for the number of rows
    #[arg(long, value_name = "SHARE", default_value = "0.02")]
    count_share: Decimal,
    /// Noise of Fourier features under pure ε: knorm has half the standard deviation of laplace
    #[arg(long, value_enum, default_value_t)]
    noise: NoiseArg,
    /// Debit this ledger before noise is added, and refuse to overspend it
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum NeighboursArg {
    /// One row or user more or less; the number of rows is protected
    #[default]
    AddRemove,
    /// One row replaced by another; the number of rows is published as it is
    Replace,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum NoiseArg {
    #[default]
    Laplace,
    Knorm,
}

impl PrivacyArgs {
    pub fn is_given(&self) -> bool {
        self.epsilon.is_some() || self.delta.is_some() || self.rho.is_some()
    }

    pub fn plan(&self, schema: &Schema, design: &Design) -> anyhow::Result<Plan> {
        let privacy = Privacy {
            budget: Budget::new(self.epsilon, self.delta, self.rho)?,
            neighbours: match self.neighbours {
                NeighboursArg::AddRemove => Neighbours::AddRemove,
                NeighboursArg::Replace => Neighbours::Replace,
            },
            count_share: self.count_share,
            noise: match self.noise {
                NoiseArg::Laplace => NoiseKind::Laplace,
                NoiseArg::Knorm => NoiseKind::Knorm,
            },
        };
        Ok(Plan::new(schema, design, privacy)?)
    }

    /// Refuses early what the ledger would refuse late.
    pub fn check_ledger(&self, plan: &Plan, output: &Path) -> anyhow::Result<()> {
        if let Some(path) = &self.ledger {
            Ledger::open(path)?.check(plan)?;
            if output.exists() && output.canonicalize()? == path.canonicalize()? {
                return Err(Mistake("the output would replace the ledger; give it another name".into()).into());
            }
        }
        Ok(())
    }

    /// Debits the ledger, then adds noise, then writes.
    pub fn publish(
        &self,
        sums: Sums,
        plan: &Plan,
        noise: Noise,
        output: &Path,
        force: bool,
    ) -> anyhow::Result<Release> {
        let _whole = console::hold_interrupt();
        let budget = plan.privacy().budget;
        if let Some(path) = &self.ledger {
            Ledger::debit(path, plan, &output.display().to_string())?;
        }
        let release = sums.privatise(noise)?;
        let written = release.save(output, force);
        match &self.ledger {
            Some(ledger) => written.with_context(|| {
                format!("{} was debited {budget}, but the release was not written", ledger.display())
            })?,
            None => written?,
        }
        Ok(release)
    }
}
