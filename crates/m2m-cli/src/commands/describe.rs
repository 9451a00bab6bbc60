//! `m2m describe`: every column at a glance.

use std::path::PathBuf;

use m2m::Estimate;
use m2m::expr::{Expr, col};
use m2m::schema::Kind;
use m2m::sql::ColumnKind;
use m2m::task::{Ask, Bin};
use serde_json::{Map, Value, json};

use super::{Format, ask};
use crate::{console, table};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  m2m describe people.m2m
  m2m describe people.m2m --columns age,income --where \"sex = 'Female'\" --format json")]
pub struct Args {
    /// The release
    release: PathBuf,
    /// The columns [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Only the rows that meet a condition, as in SQL
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    /// Draw every histogram in full, with its error bands
    #[arg(long)]
    plots: bool,
    /// How it is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    reading: ask::Reading,
}

/// Bars of a histogram in text.
const BARS: u32 = 24;
/// Levels that are shown of a category.
const LEVELS: usize = 8;

/// One column, described.
struct Description {
    name: String,
    kind: Kind,
    count: Estimate,
    missing: Estimate,
    moments: Vec<(&'static str, Estimate)>,
    bins: Vec<Bin>,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let fit = args.reading.open(&args.release)?;
    let asked = ask::restricted(&fit, args.condition.as_deref())?;
    let schema = asked.schema();
    let names = match &args.columns {
        Some(names) => names.clone(),
        None => schema.columns().iter().map(|column| column.name.clone()).collect(),
    };
    let rows = asked.count()?;
    let described =
        names.iter().map(|name| describe(&asked, name)).collect::<Result<Vec<Description>, anyhow::Error>>()?;
    let warnings = ask::warnings([&rows].into_iter().chain(described.iter().flat_map(Description::estimates)));
    match args.format {
        Format::Json => {
            let columns: Vec<Value> = described.iter().map(Description::to_json).collect();
            let all = json!({ "rows": ask::json(&rows), "columns": columns, "warnings": warnings });
            console::show!("{}", serde_json::to_string(&all)?);
        }
        Format::Table => {
            console::show!("{} rows", table::estimate(&rows, ColumnKind::Plain));
            described.iter().for_each(|column| column.print(args.plots));
            ask::warn(&warnings, ask::Format::Table);
        }
    }
    Ok(())
}

fn describe(asked: &Ask<'_>, name: &str) -> anyhow::Result<Description> {
    let schema = asked.schema();
    let place = m2m::expr::find_column(schema, name)?;
    let column = &schema.columns()[place];
    let x: Expr = col(column.name.as_str());
    let known = asked.filter(&x.clone().is_not_null())?;
    let missing = asked.filter(&x.clone().is_null())?.count()?;
    let mut moments = Vec::new();
    if column.kind.range().is_some() {
        moments.push(("mean", known.mean(&x)?));
        moments.push(("std", known.std_dev(&x)?));
        for (label, part) in [("25%", 0.25), ("50%", 0.5), ("75%", 0.75)] {
            moments.push((label, known.quantile(&x, part)?));
        }
    }
    Ok(Description {
        name: column.name.clone(),
        kind: column.kind.clone(),
        count: known.count()?,
        missing,
        moments,
        bins: asked.histogram(&column.name, BARS)?,
    })
}

impl Description {
    fn shown_as(&self) -> ColumnKind {
        match self.kind {
            Kind::Date(_) => ColumnKind::Date,
            Kind::Datetime(_) => ColumnKind::Datetime,
            _ => ColumnKind::Plain,
        }
    }

    /// All numbers that it has, but for the bars of a histogram.
    fn estimates(&self) -> impl Iterator<Item = &Estimate> {
        let moments = self.moments.iter().map(|(_, estimate)| estimate);
        let levels = self.bins.iter().filter(|bin| bin.bounds.is_none()).map(|bin| &bin.count);
        [&self.count, &self.missing].into_iter().chain(moments).chain(levels)
    }

    /// The standard deviation, which for dates and moments is a number of days.
    fn spread(&self, estimate: &Estimate) -> String {
        let (unit, name) = match self.kind {
            Kind::Date(_) => (1.0, " days"),
            Kind::Datetime(_) => (86400.0, " days"),
            _ => (1.0, ""),
        };
        let shown = Estimate { value: estimate.value / unit, std_error: estimate.std_error / unit, ..*estimate };
        table::estimate(&shown, ColumnKind::Plain) + name
    }

    fn print(&self, plots: bool) {
        let plain = ColumnKind::Plain;
        console::show!("");
        let missing = if self.missing.value > (2.0 * self.missing.std_error).max(0.5) {
            format!(", {} missing", table::estimate(&self.missing, plain))
        } else {
            String::new()
        };
        console::show!("{} ({}; {} values{missing})", self.name, self.kind.name(), table::estimate(&self.count, plain));
        if self.moments.is_empty() {
            if plots {
                self.plot()
            } else {
                self.print_levels()
            }
            return;
        }
        let line = |from: usize, to: usize| {
            let words: Vec<String> = self.moments[from..to]
                .iter()
                .map(|(label, estimate)| match *label {
                    "std" => format!("std {}", self.spread(estimate)),
                    label => format!("{label} {}", table::estimate(estimate, self.shown_as())),
                })
                .collect();
            format!("  {}", words.join("   "))
        };
        console::show!("{}", line(0, 2));
        console::show!("{}", line(2, 5));
        if plots {
            return self.plot();
        }
        let (first, last) = (&self.bins[0], &self.bins[self.bins.len() - 1]);
        let ends = (first.bounds.map_or(0.0, |(low, _)| low), last.bounds.map_or(0.0, |(_, high)| high));
        console::show!("  {} {} {}", self.kind.show(ends.0), bars(&self.bins), self.kind.show(ends.1));
    }

    /// Every bar on a line of its own.
    fn plot(&self) {
        let bars: Vec<(String, Estimate)> = self.bins.iter().map(|bin| (bin.label.clone(), bin.count)).collect();
        table::bars(&bars).iter().for_each(|line| console::show!("  {line}"));
    }

    fn print_levels(&self) {
        let mut order: Vec<&Bin> = self.bins.iter().collect();
        order.sort_by(|a, b| b.count.value.total_cmp(&a.count.value));
        let widest = order.iter().take(LEVELS).map(|bin| bin.label.chars().count()).max().unwrap_or(0);
        let most = order.first().map_or(1.0, |bin| bin.count.value).max(1.0);
        for bin in order.iter().take(LEVELS) {
            let bar = "█".repeat((20.0 * bin.count.value / most).round() as usize);
            let count = table::estimate(&bin.count, ColumnKind::Plain);
            console::show!("{}", format!("  {:widest$}  {count:>16}  {bar}", bin.label).trim_end());
        }
        if order.len() > LEVELS {
            console::show!("  and {} more levels", order.len() - LEVELS);
        }
    }

    fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("name".into(), json!(self.name));
        object.insert("type".into(), json!(self.kind.name()));
        object.insert("count".into(), ask::json(&self.count));
        object.insert("missing".into(), ask::json(&self.missing));
        for (label, estimate) in &self.moments {
            object.insert((*label).into(), ask::json(estimate));
        }
        let bins = self.bins.iter().map(|bin| match bin.bounds {
            Some((low, high)) => json!({ "low": low, "high": high, "count": ask::json(&bin.count) }),
            None => json!({ "level": bin.label, "count": ask::json(&bin.count) }),
        });
        object.insert("histogram".into(), bins.collect());
        Value::Object(object)
    }
}

/// A histogram as one line of bars.
fn bars(bins: &[Bin]) -> String {
    const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = bins.iter().fold(0.0f64, |most, bin| most.max(bin.count.value)).max(1e-300);
    bins.iter().map(|bin| HEIGHTS[(8.0 * bin.count.value / most).round().clamp(0.0, 8.0) as usize]).collect()
}
