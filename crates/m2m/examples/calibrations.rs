//! Prints what Gaussian budgets are calibrated to, for `tests/oracle/accounting.py`: a line for each of
//! `approximate EPSILON DELTA MU_SQUARED`, where MU_SQUARED is the sum of Δ₂²/σ² over the count and the blocks, and
//! `concentrated RHO DELTA EPSILON TWICE_RHO`, with the ε that is implied and the same sum.

use m2m::feature::Body;
use m2m::privatise::{Budget, Mechanism, Neighbours, Plan, Privacy, epsilon_of_rho, sensitivity};
use m2m::{Design, Schema};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let schema = Schema::from_toml("[[column]]\nname = 'x'\ntype = 'number'\nmin = 0\nmax = 1")?;
    // Changes of millions: the variance that Theorem 3a sets aside does not show.
    let design = Design::parse("rff:m=200")?;
    let spent = |budget: Budget| -> Result<f64, Box<dyn std::error::Error>> {
        let plan = Plan::new(&schema, &design, Privacy { neighbours: Neighbours::Replace, ..Privacy::new(budget) })?;
        let body: Body = design.blocks()[0].map.shape(&schema)?.1;
        let change = sensitivity(body, Neighbours::Replace, 1).ok_or("a small map")?.l2_squared as f64;
        let Some(Mechanism::DiscreteGaussian { sigma }) = plan.blocks().next() else {
            return Err("no Gaussian".into());
        };
        Ok(change / (sigma.numerator() as f64 / sigma.denominator() as f64).powi(2))
    };
    for epsilon in ["0.01", "0.1", "0.5", "1", "2", "5", "10", "50"] {
        for delta in ["1e-3", "1e-5", "1e-6", "1e-9", "1e-12"] {
            let budget = Budget::new(Some(epsilon.parse()?), Some(delta.parse()?), None)?;
            println!("approximate {epsilon} {delta} {:e}", spent(budget)?);
        }
    }
    for rho in ["0.001", "0.01", "0.1", "0.5", "2", "10"] {
        for delta in ["1e-1", "1e-3", "1e-6", "1e-9"] {
            let spent = spent(Budget::new(None, None, Some(rho.parse()?))?)?;
            println!("concentrated {rho} {delta} {:e} {spent:e}", epsilon_of_rho(rho.parse()?, delta.parse()?));
        }
    }
    Ok(())
}
