//! `m2m ledger`: the budget of a table.

use std::path::PathBuf;

use m2m::Decimal;
use m2m::privatise::{Budget, Ledger};
use serde_json::json;

use super::Format;
use crate::console;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Start a ledger with a total
    #[command(after_help = "Example:\n  m2m ledger new budget.toml --epsilon 3")]
    New {
        /// The ledger
        ledger: PathBuf,
        /// Total ε
        #[arg(long, value_name = "ε", allow_negative_numbers = true)]
        epsilon: Option<Decimal>,
        /// Total δ
        #[arg(long, value_name = "δ", allow_negative_numbers = true)]
        delta: Option<Decimal>,
        /// Total ρ
        #[arg(long, value_name = "ρ", allow_negative_numbers = true)]
        rho: Option<Decimal>,
    },
    /// Show what was spent and what is left
    #[command(after_help = "Example:\n  m2m ledger show budget.toml")]
    Show {
        /// The ledger
        ledger: PathBuf,
        /// How it is printed
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
}

pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::New { ledger, epsilon, delta, rho } => {
            let total = Budget::new(*epsilon, *delta, *rho)?;
            Ledger::create(ledger, total)?;
            console::say!("wrote {}: {total} in all", ledger.display());
        }
        Command::Show { ledger, format } => {
            let ledger = Ledger::open(ledger)?;
            let left = ledger.left();
            match format {
                Format::Json => {
                    let left = match ledger.total() {
                        Budget::Pure { .. } => json!({"epsilon": left.0.to_f64()}),
                        Budget::Approximate { .. } => json!({"epsilon": left.0.to_f64(), "delta": left.1.to_f64()}),
                        Budget::Concentrated { .. } => json!({"rho": left.0.to_f64()}),
                    };
                    console::show!("{}", json!({"total": ledger.total(), "spent": ledger.spent(), "left": left}));
                }
                Format::Table => {
                    console::show!("total  {}", ledger.total());
                    for entry in ledger.spent() {
                        console::show!("spent  {}  {}  {}", entry.budget, entry.at, entry.what);
                    }
                    console::show!("left   {}", ledger.left_in_words());
                }
            }
        }
    }
    Ok(())
}
