//! What may be spent, and against which neighbours it protects.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Decimal, Error};

/// A privacy budget. Values are exact decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawBudget", into = "RawBudget")]
pub enum Budget {
    /// Pure ε-differential privacy.
    Pure {
        /// ε.
        epsilon: Decimal,
    },
    /// (ε, δ)-differential privacy.
    Approximate {
        /// ε.
        epsilon: Decimal,
        /// δ.
        delta: Decimal,
    },
    /// ρ-zero-concentrated differential privacy.
    Concentrated {
        /// ρ.
        rho: Decimal,
    },
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBudget {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epsilon: Option<Decimal>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delta: Option<Decimal>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rho: Option<Decimal>,
}

impl Budget {
    /// From the three numbers of which some are given: ε, ε and δ, or ρ.
    pub fn new(epsilon: Option<Decimal>, delta: Option<Decimal>, rho: Option<Decimal>) -> Result<Self, Error> {
        let fail = |message: String| Err(Error::Budget(message));
        let amount = |value: Decimal, name: &str| {
            if value == Decimal::ZERO || value.to_f64() > 1000.0 {
                Err(Error::Budget(format!("{name} is {value}; give a number above 0 and at most 1000, such as 1.0")))
            } else {
                Ok(value)
            }
        };
        match (epsilon, delta, rho) {
            (Some(epsilon), None, None) => Ok(Self::Pure { epsilon: amount(epsilon, "epsilon")? }),
            (Some(epsilon), Some(delta), None) => {
                let epsilon = amount(epsilon, "epsilon")?;
                if delta == Decimal::ZERO || delta >= Decimal::ONE {
                    return fail(format!(
                        "delta is {delta}; give a number between 0 and 1, far below one over the number of rows, such as 1e-6, or leave it out"
                    ));
                }
                Ok(Self::Approximate { epsilon, delta })
            }
            (None, None, Some(rho)) => Ok(Self::Concentrated { rho: amount(rho, "rho")? }),
            (None, Some(_), None) => fail("delta stands alone; give epsilon beside it".into()),
            (None, None, None) => fail("no budget is given; give --epsilon, --epsilon and --delta, or --rho".into()),
            (_, _, Some(_)) => fail("rho is given with epsilon or delta; leave those out".into()),
        }
    }

    /// Pure ε.
    pub fn pure(epsilon: Decimal) -> Result<Self, Error> {
        Self::new(Some(epsilon), None, None)
    }
}

impl TryFrom<RawBudget> for Budget {
    type Error = Error;
    fn try_from(raw: RawBudget) -> Result<Self, Error> {
        Self::new(raw.epsilon, raw.delta, raw.rho)
    }
}

impl From<Budget> for RawBudget {
    fn from(budget: Budget) -> Self {
        let (epsilon, delta, rho) = match budget {
            Budget::Pure { epsilon } => (Some(epsilon), None, None),
            Budget::Approximate { epsilon, delta } => (Some(epsilon), Some(delta), None),
            Budget::Concentrated { rho } => (None, None, Some(rho)),
        };
        Self { epsilon, delta, rho }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pure { epsilon } => write!(f, "ε = {epsilon}"),
            Self::Approximate { epsilon, delta } => write!(f, "ε = {epsilon}, δ = {delta}"),
            Self::Concentrated { rho } => write!(f, "ρ = {rho}"),
        }
    }
}

/// Which tables count as neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Neighbours {
    /// One unit is added or removed; the number of rows is protected.
    #[default]
    AddRemove,
    /// One row is replaced by another; the number of rows is public.
    Replace,
}

/// The family of noise under pure ε.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoiseKind {
    /// Independent discrete Laplace noise on each coordinate.
    Laplace,
    /// K-norm noise, shaped like what a row can do to the sums, wherever it is smaller than Laplace noise at the same ε: half
    /// of it for Fourier features, k/√((k+1)(k+2)) of it for many histograms or tables of k cells.
    #[default]
    Knorm,
}
