//! The options that say what is spent and how.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;
use m2m::auto::{FirstRound, SecondRound};
use m2m::privatise::{Budget, Ledger, LockedLedger, Neighbours, Noise, NoiseKind, Plan, Privacy};
use m2m::{Decimal, Release, Schema, Sums};

use crate::console::{self, Mistake};

#[derive(clap::Args)]
#[command(next_help_heading = "Privacy")]
pub struct PrivacyArgs {
    #[command(flatten)]
    spending: SpendingArgs,
    /// Debit this ledger before noise is added, and refuse to overspend it
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
}

/// What is spent, without the account of it.
#[derive(clap::Args)]
#[command(next_help_heading = "Privacy")]
pub struct SpendingArgs {
    /// Privacy loss; with it alone the release is purely ε-private
    #[arg(long, value_name = "ε", allow_negative_numbers = true)]
    epsilon: Option<Decimal>,
    /// Failure probability of (ε, δ)-privacy, far below one over the number of rows
    #[arg(long, value_name = "δ", allow_negative_numbers = true)]
    delta: Option<Decimal>,
    /// Zero-concentrated privacy loss, in place of epsilon
    #[arg(long, value_name = "ρ", allow_negative_numbers = true, conflicts_with_all = ["epsilon", "delta"])]
    rho: Option<Decimal>,
    /// Which tables must look alike [default: add-remove]
    #[arg(long, value_enum)]
    neighbours: Option<NeighboursArg>,
    /// Part of the budget for the number of rows [default: 0.02]
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    count_share: Option<Decimal>,
    /// Noise under pure ε: knorm, the default, is taken where it is smaller than laplace (half for Fourier features)
    #[arg(long, value_enum)]
    noise: Option<NoiseArg>,
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
    Laplace,
    #[default]
    Knorm,
}

impl SpendingArgs {
    fn is_given(&self) -> bool {
        self.has_amount()
            || self.delta.is_some()
            || self.count_share.is_some()
            || self.neighbours.is_some()
            || self.noise.is_some()
    }

    /// Whether it says how much is spent.
    pub fn has_amount(&self) -> bool {
        self.epsilon.is_some() || self.rho.is_some()
    }

    /// What is to be spent and how.
    pub fn privacy(&self) -> anyhow::Result<Privacy> {
        self.privacy_of(Budget::new(self.epsilon, self.delta, self.rho)?)
    }

    /// The same with another ε.
    pub fn privacy_with(&self, epsilon: Decimal) -> anyhow::Result<Privacy> {
        self.privacy_of(Budget::new(Some(epsilon), self.delta, None)?)
    }

    fn privacy_of(&self, budget: Budget) -> anyhow::Result<Privacy> {
        let usual = Privacy::new(budget);
        let privacy = Privacy {
            budget: usual.budget,
            neighbours: match self.neighbours.unwrap_or_default() {
                NeighboursArg::AddRemove => Neighbours::AddRemove,
                NeighboursArg::Replace => Neighbours::Replace,
            },
            count_share: self.count_share.unwrap_or(usual.count_share),
            noise: match self.noise.unwrap_or_default() {
                NoiseArg::Laplace => NoiseKind::Laplace,
                NoiseArg::Knorm => NoiseKind::Knorm,
            },
        };
        if self.noise.is_some() && !matches!(privacy.budget, Budget::Pure { .. }) {
            return Err(
                Mistake("--noise chooses the noise of pure ε; leave it out with --delta or --rho".into()).into()
            );
        }
        Ok(privacy)
    }
}

impl PrivacyArgs {
    pub fn is_given(&self) -> bool {
        self.spending.is_given() || self.ledger.is_some()
    }

    pub fn has_ledger(&self) -> bool {
        self.ledger.is_some()
    }

    /// What is to be spent and how.
    pub fn privacy(&self) -> anyhow::Result<Privacy> {
        self.spending.privacy()
    }

    /// Refuses early what the ledger would refuse late.
    pub fn check_ledger(&self, schema: &Schema, privacy: &Privacy, output: &Path) -> anyhow::Result<()> {
        if let Some(path) = &self.ledger {
            Ledger::open(path)?.check(schema, privacy)?;
            apart(path, output)?;
        }
        Ok(())
    }

    /// Refuses a second round that was not paid for, or that says anew what the first has settled.
    pub fn check_second(&self, first: &Release, output: &Path) -> anyhow::Result<()> {
        if self.spending.is_given() {
            let message = "the first round has settled budget and noise for both; leave them out";
            return Err(Mistake(message.into()).into());
        }
        let pledged = first.reserved().is_some_and(|reserved| reserved.pledge.is_some());
        match &self.ledger {
            Some(path) => {
                Ledger::open(path)?.check_pledge(first)?;
                apart(path, output)
            }
            None if pledged => Err(Mistake(
                "a ledger has paid for this release; give it with --ledger, which lets the second round be made once"
                    .into(),
            )
            .into()),
            None => Ok(()),
        }
    }

    /// Debits the ledger. From when this returns until the guard is released, an interruption waits.
    pub fn debit(&self, schema: &Schema, privacy: &Privacy, output: &Path) -> anyhow::Result<console::Interrupt> {
        Ok(self.pay(|ledger| ledger.debit(schema, privacy, &output.display().to_string()))?.1)
    }

    /// Has the ledger changed, if there is one. From when this returns until the guard is released, an interruption waits.
    fn pay<T>(
        &self,
        change: impl FnOnce(LockedLedger) -> Result<T, m2m::Error>,
    ) -> anyhow::Result<(Option<T>, console::Interrupt)> {
        // Others may hold the ledger for long; until it is ours, an interruption changes nothing.
        let ledger = self.ledger.as_deref().map(Ledger::lock).transpose()?;
        let past_recall = console::hold_interrupt();
        Ok((ledger.map(change).transpose()?, past_recall))
    }

    /// Says of what fails from here on that the ledger has paid for it.
    fn paid<T, E>(&self, result: Result<T, E>) -> anyhow::Result<T>
    where
        Result<T, E>: Context<T, E>,
        anyhow::Error: From<E>,
    {
        match &self.ledger {
            Some(ledger) => {
                result.with_context(|| format!("{} was debited, but nothing was released", ledger.display()))
            }
            None => Ok(result?),
        }
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
        let mut past_recall = self.debit(plan.schema(), plan.privacy(), output)?;
        *past_recall = true;
        let release = sums.privatise(noise)?;
        self.write(&release, output, force)?;
        Ok(release)
    }

    /// Debits the ledger for both rounds, then adds the noise of the first, then writes.
    pub fn publish_first(
        &self,
        first: FirstRound,
        sums: Sums,
        privacy: &Privacy,
        output: &Path,
        force: bool,
    ) -> anyhow::Result<()> {
        let what = output.display().to_string();
        let (pledge, mut past_recall) = self.pay(|ledger| ledger.pledge(sums.schema(), privacy, &what))?;
        *past_recall = true;
        let mut release = self.paid(first.privatise(sums))?;
        if let (Some(ledger), Some(pledge)) = (&self.ledger, pledge) {
            release = release.with_pledge(pledge);
            self.paid(Ledger::lock(ledger).and_then(|ledger| ledger.seal(&release)))?;
        }
        self.write(&release, output, force)?;
        console::say!(
            "wrote {}: the first of two rounds, {} in all; go on with `m2m sketch DATA --after {0} …`",
            output.display(),
            release.statement().budget
        );
        Ok(())
    }

    /// Redeems the ledger's pledge, then adds the noise of the second round, then writes the whole release.
    pub fn publish_second(
        &self,
        first: &Release,
        second: SecondRound,
        sums: Sums,
        output: &Path,
        force: bool,
    ) -> anyhow::Result<()> {
        let (_, mut past_recall) = self.pay(|ledger| ledger.redeem(first, &output.display().to_string()))?;
        *past_recall = true;
        let release = self.paid(second.privatise(sums))?;
        self.write(&release, output, force)?;
        console::say!("wrote {}: {}", output.display(), release.statement().budget);
        if self.ledger.is_none() {
            console::say!(
                "note: both rounds together cost this once; another second round after the same first would cost more"
            );
        }
        Ok(())
    }

    /// Writes a release that the ledger was debited for.
    pub fn write(&self, release: &Release, output: &Path, force: bool) -> anyhow::Result<()> {
        let written = release.save(output, force);
        match &self.ledger {
            Some(ledger) => written.with_context(|| {
                let budget = release.statement().budget;
                format!("{} was debited {budget}, but the release was not written", ledger.display())
            })?,
            None => written?,
        }
        Ok(())
    }
}

fn apart(ledger: &Path, output: &Path) -> anyhow::Result<()> {
    if output.exists() && output.canonicalize()? == ledger.canonicalize()? {
        return Err(Mistake("the output would replace the ledger; give it another name".into()).into());
    }
    Ok(())
}
