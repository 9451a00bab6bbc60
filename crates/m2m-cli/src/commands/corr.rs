//! `m2m corr`: how columns go together.

use std::path::PathBuf;

use m2m::schema::Schema;
use serde_json::json;

use super::ask::{self, Format};
use crate::{console, table};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  m2m corr people.m2m
  m2m corr people.m2m --columns age,income,hours --covariance --format csv")]
pub struct Args {
    /// The release
    release: PathBuf,
    /// The columns [default: all numeric ones]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Covariances instead of correlations
    #[arg(long)]
    covariance: bool,
    /// Only the rows that meet a condition, as in SQL
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    /// How it is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    reading: ask::Reading,
}

/// The names that are given, or all numeric columns.
pub fn numeric(schema: &Schema, names: Option<&[String]>) -> Vec<String> {
    match names {
        Some(names) => names.to_vec(),
        None => schema
            .columns()
            .iter()
            .filter(|column| column.kind.range().is_some())
            .map(|column| column.name.clone())
            .collect(),
    }
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    ask::distinct(args.columns.as_deref().unwrap_or_default())?;
    let fit = args.reading.open(&args.release)?;
    let asked = ask::restricted(&fit, args.condition.as_deref())?;
    let names = numeric(asked.schema(), args.columns.as_deref());
    let columns: Vec<&str> = names.iter().map(String::as_str).collect();
    let matrix = if args.covariance { asked.covariance(&columns)? } else { asked.correlation(&columns)? };
    let below = matrix.entries.iter().enumerate().flat_map(|(i, row)| &row[..i + usize::from(args.covariance)]);
    let warnings = ask::warnings(below);
    match args.format {
        Format::Json => {
            let rows: Vec<Vec<_>> = matrix.entries.iter().map(|row| row.iter().map(ask::json).collect()).collect();
            let all = json!({ "columns": matrix.names, "matrix": rows, "warnings": warnings });
            console::show!("{}", serde_json::to_string(&all)?);
        }
        Format::Csv => {
            console::show!("a,b,value,std_error,low,high");
            for (i, row) in matrix.entries.iter().enumerate() {
                for (j, entry) in row.iter().enumerate().take(i + 1) {
                    let (a, b) = (table::quoted(&matrix.names[i]), table::quoted(&matrix.names[j]));
                    console::show!("{a},{b},{},{},{},{}", entry.value, entry.std_error, entry.low, entry.high);
                }
            }
        }
        Format::Table => {
            let header: Vec<String> = std::iter::once(String::new()).chain(matrix.names.iter().cloned()).collect();
            let rows: Vec<Vec<String>> = matrix
                .names
                .iter()
                .zip(&matrix.entries)
                .enumerate()
                .map(|(i, (name, row))| {
                    let cells = row.iter().enumerate().map(|(j, entry)| match j.cmp(&i) {
                        std::cmp::Ordering::Greater => String::new(),
                        std::cmp::Ordering::Equal if !args.covariance => "1".into(),
                        _ => table::estimate(entry, m2m::sql::ColumnKind::Plain),
                    });
                    std::iter::once(name.clone()).chain(cells).collect()
                })
                .collect();
            table::grid(&header, &rows);
        }
    }
    ask::warn(&warnings, args.format);
    Ok(())
}
