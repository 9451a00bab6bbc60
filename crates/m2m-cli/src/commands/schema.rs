//! `m2m schema`: a draft to fill in, and a check of what was filled in.

use std::path::PathBuf;

use m2m::Schema;
use m2m::source::{CsvOptions, Table};

use super::Format;
use super::sketch::expand;

#[derive(clap::Subcommand)]
pub enum Command {
    /// Write a draft from the names and types in a file's header; bounds and levels are yours to fill in
    #[command(after_help = "Example:\n  m2m schema draft people.csv > schema.toml")]
    Draft {
        /// A file of the table
        data: String,
    },
    /// Check a schema and show what it says
    #[command(after_help = "Example:\n  m2m schema check schema.toml")]
    Check {
        /// The schema
        schema: PathBuf,
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
}

pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Draft { data } => {
            let table = Table::open(&expand(&[data])?, CsvOptions::default())?;
            print!("{}", m2m::schema::draft(&table.fields()?));
            eprintln!("took the names from the header; fill in what is marked, then run `m2m schema check`");
        }
        Command::Check { schema, format } => {
            let schema = Schema::open(schema)?;
            match format {
                Format::Json => println!("{}", serde_json::to_string_pretty(&schema)?),
                Format::Table => {
                    println!("{}", super::info::unit_in_words(schema.unit()));
                    for column in schema.columns() {
                        println!("{}", super::info::column_in_words(column));
                    }
                }
            }
        }
    }
    Ok(())
}
