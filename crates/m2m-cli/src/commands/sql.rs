//! `m2m sql`: one query.

use std::io::{IsTerminal, Read, stdin};
use std::path::PathBuf;

use anyhow::Context;

use super::ask::{self, Format};
use crate::console::Mistake;

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  m2m sql people.m2m \"SELECT sex, AVG(age) FROM people GROUP BY sex\"\n  m2m sql people.m2m --format csv < query.sql"
)]
pub struct Args {
    /// The release
    release: PathBuf,
    /// The query; without it, or with -, it is read from standard input
    query: Option<String>,
    /// How the answer is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    reading: ask::Reading,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let query = match args.query.as_deref() {
        None if stdin().is_terminal() => {
            let message = "there is no query; give it as the second argument, or use `m2m shell`";
            return Err(Mistake(message.into()).into());
        }
        None | Some("-") => {
            let mut bytes = Vec::new();
            stdin().read_to_end(&mut bytes).context("cannot read the query from standard input")?;
            String::from_utf8(bytes).map_err(|_| Mistake("the query is not UTF-8 text; save it as UTF-8".into()))?
        }
        Some(query) => query.to_owned(),
    };
    ask::answer(&args.reading.open(&args.release)?, &query, args.format)
}
