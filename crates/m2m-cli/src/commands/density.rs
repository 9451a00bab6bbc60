//! `m2m density`: how dense the rows are, at points or on a grid.

use std::path::PathBuf;

use m2m::Estimate;
use m2m::expr::{col, find_column};
use m2m::schema::{Kind, Range, time};
use m2m::sql::ColumnKind;
use m2m::task::Ask;
use serde_json::json;

use super::ask::{self, Format};
use crate::console::{self, Mistake};
use crate::table;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  m2m density people.m2m --columns age
  m2m density people.m2m --columns age,income --at 40,30000 --at 60,20000
  m2m density people.m2m --columns age,income --grid 20 --format csv > density.csv")]
pub struct Args {
    /// The release
    release: PathBuf,
    /// One or more numeric columns
    #[arg(long, value_name = "NAMES", value_delimiter = ',', required = true)]
    columns: Vec<String>,
    /// A point, a number for each column; may be given several times
    #[arg(long, value_name = "X,Y", conflicts_with = "grid", allow_hyphen_values = true)]
    at: Vec<String>,
    /// Points along each axis [default: 25 for one column, 10 for two]
    #[arg(long, value_name = "N")]
    grid: Option<usize>,
    /// Width of the Gaussian kernel for each column [default: from the estimated spread]
    #[arg(long, value_name = "H", value_delimiter = ',')]
    bandwidth: Option<Vec<f64>>,
    /// Only the rows that meet a condition, as in SQL
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    /// How it is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    reading: ask::Reading,
}

/// Points of a grid, at most.
const MAX_POINTS: usize = 10_000;

pub fn run(args: &Args) -> anyhow::Result<()> {
    ask::distinct(&args.columns)?;
    let fit = args.reading.open(&args.release)?;
    let asked = ask::restricted(&fit, args.condition.as_deref())?;
    let ranges = args.columns.iter().map(|name| range(&asked, name)).collect::<anyhow::Result<Vec<Range>>>()?;
    let bandwidth = match &args.bandwidth {
        Some(given) if given.len() == args.columns.len() => given.clone(),
        Some(_) => return Err(Mistake("--bandwidth needs a number for each column; give as many".into()).into()),
        None => usual_bandwidth(&asked, &args.columns)?,
    };
    let points = if args.at.is_empty() { grid(args, &ranges)? } else { given(&asked, args)? };
    let columns: Vec<&str> = args.columns.iter().map(String::as_str).collect();
    let densities =
        points.iter().map(|point| asked.density(&columns, point, &bandwidth)).collect::<Result<Vec<_>, _>>()?;
    let warnings = ask::warnings(densities.iter());
    match args.format {
        Format::Json => {
            let values: Vec<_> = points
                .iter()
                .zip(&densities)
                .map(|(point, density)| json!({ "at": point, "density": ask::json(density) }))
                .collect();
            let all =
                json!({ "columns": args.columns, "bandwidth": bandwidth, "points": values, "warnings": warnings });
            console::show!("{}", serde_json::to_string(&all)?);
        }
        Format::Csv => {
            let quoted: Vec<String> = args.columns.iter().map(|name| table::quoted(name)).collect();
            console::show!("{},density,std_error,low,high", quoted.join(","));
            for (point, d) in points.iter().zip(&densities) {
                let at: Vec<String> = point.iter().map(f64::to_string).collect();
                console::show!("{},{},{},{},{}", at.join(","), d.value, d.std_error, d.low, d.high);
            }
        }
        Format::Table => {
            let most = densities.iter().fold(0.0f64, |most, density| most.max(density.value)).max(1e-300);
            // Small numbers are easier to compare in a unit of their own.
            let (unit, name) = match most.log10().floor() as i32 {
                power @ ..-2 => (10f64.powi(power), format!("density in 1e{power}")),
                _ => (1.0, "density".to_owned()),
            };
            let scaled: Vec<Estimate> = densities
                .iter()
                .map(|density| Estimate {
                    value: density.value / unit,
                    std_error: density.std_error / unit,
                    ..*density
                })
                .collect();
            let header: Vec<String> = args.columns.iter().cloned().chain([name, String::new()]).collect();
            let shown = table::estimates(&scaled, ColumnKind::Plain);
            let rows: Vec<Vec<String>> = points
                .iter()
                .zip(densities.iter().zip(shown))
                .map(|(point, (density, shown))| {
                    let at = args.columns.iter().zip(point).map(|(name, x)| table::value(asked.schema(), name, *x));
                    let bar = "█".repeat((24.0 * density.value / most).round() as usize);
                    at.chain([shown, format!("{bar:24}")]).collect()
                })
                .collect();
            table::grid(&header, &rows);
        }
    }
    ask::warn(&warnings, args.format);
    Ok(())
}

fn range(asked: &Ask<'_>, name: &str) -> anyhow::Result<Range> {
    let column = &asked.schema().columns()[find_column(asked.schema(), name)?];
    let range = column.kind.range().cloned();
    Ok(range.ok_or_else(|| Mistake(format!("`{name}` holds no numbers; name numeric columns")))?)
}

/// Scott's rule: the spread times n to the power of -1/(d + 4).
fn usual_bandwidth(asked: &Ask<'_>, columns: &[String]) -> anyhow::Result<Vec<f64>> {
    let rows = asked.count()?.value.max(2.0);
    let power = rows.powf(-1.0 / (columns.len() as f64 + 4.0));
    columns
        .iter()
        .map(|name| {
            let width = range(asked, name)?;
            let spread = asked.std_dev(&col(name.as_str()))?.value;
            Ok(power * spread.max(1e-3 * (width.max() - width.min())))
        })
        .collect()
}

fn given(asked: &Ask<'_>, args: &Args) -> anyhow::Result<Vec<Vec<f64>>> {
    let schema = asked.schema();
    let kinds = args.columns.iter().map(|name| Ok(&schema.columns()[find_column(schema, name)?].kind));
    let kinds = kinds.collect::<Result<Vec<&Kind>, m2m::Error>>()?;
    let coordinate = |kind: &Kind, text: &str| match kind {
        Kind::Date(_) => time::parse_date(text),
        Kind::Datetime(_) => time::parse_datetime(text),
        _ => text.parse().ok(),
    };
    args.at
        .iter()
        .map(|text| {
            let words: Vec<&str> = text.split(',').map(str::trim).collect();
            let point: Option<Vec<f64>> = if words.len() == kinds.len() {
                kinds.iter().zip(words).map(|(k, x)| coordinate(k, x)).collect()
            } else {
                None
            };
            let point = point.filter(|point| point.iter().all(|x| x.is_finite()));
            let wrong = || {
                Mistake(format!(
                    "--at {text} is not a finite number (or date) for each column; give one for each, as in --at 40,3.5"
                ))
            };
            Ok(point.ok_or_else(wrong)?)
        })
        .collect()
}

fn grid(args: &Args, ranges: &[Range]) -> anyhow::Result<Vec<Vec<f64>>> {
    let steps = args.grid.unwrap_or(if ranges.len() == 1 { 25 } else { 10 });
    if steps < 2 || steps.checked_pow(ranges.len() as u32).is_none_or(|points| points > MAX_POINTS) {
        return Err(
            Mistake(format!("a grid of {steps} points along each axis; give 2 or more, {MAX_POINTS} in all")).into()
        );
    }
    let mut points = vec![Vec::new()];
    for range in ranges {
        let place = |i: usize| range.min() + (range.max() - range.min()) * i as f64 / (steps - 1) as f64;
        points = points.iter().flat_map(|point| (0..steps).map(move |i| [&point[..], &[place(i)]].concat())).collect();
    }
    Ok(points)
}
