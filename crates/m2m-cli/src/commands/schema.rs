//! `m2m schema`: a draft to fill in, and a check of what was filled in.

use std::path::PathBuf;

use m2m::Schema;
use m2m::source::{CsvOptions, Table};

use super::Format;
use super::sketch::{delimiter, expand};
use crate::console;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Write a draft from the names and types in a file's header; bounds and levels are yours to fill in
    #[command(after_help = "Example:\n  m2m schema draft people.csv > schema.toml")]
    Draft {
        /// A file of the table
        data: String,
        /// What stands between the fields of a CSV file: one character, or `tab`
        #[arg(long, value_name = "CHAR", value_parser = delimiter)]
        delimiter: Option<u8>,
    },
    /// Check a schema and show what it says
    #[command(after_help = "Example:\n  m2m schema check schema.toml")]
    Check {
        /// The schema
        schema: PathBuf,
        /// How it is printed
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
}

pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Draft { data, delimiter } => {
            let table = Table::open(&expand(&[data])?, CsvOptions { delimiter })?;
            console::show!("{}", m2m::schema::draft(&table.fields()?).trim_end());
            console::say!("took the names from the header; fill in what is marked, then run `m2m schema check`");
        }
        Command::Check { schema, format } => {
            let schema = Schema::open(schema)?;
            match format {
                Format::Json => console::show!("{}", serde_json::to_string_pretty(&schema)?),
                Format::Table => {
                    console::show!("{}", super::info::unit_in_words(schema.unit()));
                    for column in schema.columns() {
                        console::show!("{}", super::info::column_in_words(column));
                    }
                }
            }
        }
    }
    Ok(())
}
