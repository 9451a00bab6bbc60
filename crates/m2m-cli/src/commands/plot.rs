//! `m2m plot`: a chart of an answer, with its error bands.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use m2m::task::Ask;

use super::ask;
use crate::console::{self, Mistake};
use crate::plot::Picture;
use crate::table;
use crate::view::{Column, Correlations, Detail, Pair};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  m2m plot people.m2m hist age -o age.svg
  m2m plot people.m2m cdf income --where \"sex = 'female'\" -o income.png
  m2m plot people.m2m corr -o corr.svg
  m2m plot people.m2m density age income -o both.png
  m2m plot people.m2m hist age

Bars, lines and points have 95% intervals. Without -o, hist and cdf are drawn as text.")]
pub struct Args {
    /// The release
    release: PathBuf,
    /// What is drawn
    #[arg(value_enum)]
    what: What,
    /// One column for hist and cdf, two for density and means; for corr two or more [default: all numeric ones]
    columns: Vec<String>,
    /// Where to write the chart: a name that ends in .svg or .png
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only the rows that meet a condition, as in SQL
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    /// Bars of a histogram
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=400))]
    bins: u32,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    reading: ask::Reading,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// How the rows are spread over a column
    Hist,
    /// The share of rows up to each value
    Cdf,
    /// Correlations of numeric columns
    Corr,
    /// How the rows are spread over two columns
    Density,
    /// The mean of the second column along the first
    Means,
}

/// Pixels of a PNG to a point.
const PIXELS: f32 = 2.0;

pub fn run(args: &Args) -> anyhow::Result<()> {
    let ending = args.output.as_deref().map(ending).transpose()?;
    if let Some(output) = &args.output {
        m2m::file::check(output, args.force)?;
    }
    ask::distinct(&args.columns)?;
    let needed = match args.what {
        What::Hist | What::Cdf => 1..=1,
        What::Density | What::Means => 2..=2,
        What::Corr => 0..=usize::MAX,
    };
    if !needed.contains(&args.columns.len()) {
        let message = format!(
            "{} columns are named; name {}",
            args.columns.len(),
            if *needed.start() == 1 { "one" } else { "two" }
        );
        return Err(Mistake(message).into());
    }
    if args.columns.len() == 1 && args.what == What::Corr {
        return Err(Mistake("a correlation takes two columns; name another, or none for all".into()).into());
    }
    if ending.is_none() && !matches!(args.what, What::Hist | What::Cdf) {
        return Err(
            Mistake("this chart cannot be drawn as text; give a file with -o, such as -o chart.svg".into()).into()
        );
    }
    let fit = args.reading.open(&args.release)?;
    let asked = ask::restricted(&fit, args.condition.as_deref())?;
    let Some(ending) = ending else {
        let column = Column::with_bins(&asked, &args.columns[0], Detail::Full, args.bins.min(30))?;
        return text(&column, args.what == What::Cdf);
    };
    let picture = draw(args, &asked)?;
    let bytes = match ending {
        Ending::Svg => picture.to_svg().into_bytes(),
        Ending::Png => picture.to_png(PIXELS),
    };
    let output = args.output.as_ref().expect("its ending was read");
    let mut written = console::hold_interrupt();
    m2m::file::save(output, args.force, &bytes)?;
    *written = true;
    console::say!("wrote {}", output.display());
    Ok(())
}

fn draw(args: &Args, asked: &Ask<'_>) -> anyhow::Result<Picture> {
    Ok(match args.what {
        What::Hist => Column::with_bins(asked, &args.columns[0], Detail::Full, args.bins)?.histogram(),
        What::Cdf => {
            let column = Column::read(asked, &args.columns[0], Detail::Full)?;
            column.cumulative().ok_or_else(|| Mistake(not_numeric(&column.name)))?
        }
        What::Corr => {
            let given = (!args.columns.is_empty()).then_some(&args.columns[..]);
            let names = super::corr::numeric(asked.schema(), given);
            Correlations::read(asked, &names)?.picture()
        }
        What::Density => Pair::read(asked, &args.columns[0], &args.columns[1])?.density(),
        What::Means => {
            let pair = Pair::read(asked, &args.columns[0], &args.columns[1])?;
            pair.conditional().ok_or_else(|| Mistake(not_numeric(&args.columns[1])))?
        }
    })
}

fn not_numeric(name: &str) -> String {
    format!("`{name}` holds no numbers; name a numeric column, or ask for hist")
}

#[derive(Clone, Copy)]
enum Ending {
    Svg,
    Png,
}

fn ending(path: &Path) -> Result<Ending, Mistake> {
    match path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase).as_deref() {
        Some("svg") => Ok(Ending::Svg),
        Some("png") => Ok(Ending::Png),
        _ => {
            let path = path.display();
            Err(Mistake(format!("`{path}` ends neither in .svg nor in .png; give a name that says what to draw")))
        }
    }
}

/// A chart in text: solid as far as the value is sure, shaded as far as it may reach.
fn text(column: &Column, cumulative: bool) -> anyhow::Result<()> {
    let lines: Vec<(String, m2m::Estimate)> = if cumulative {
        if column.cdf.is_empty() {
            return Err(Mistake(not_numeric(&column.name)).into());
        }
        let step = column.cdf.len().div_ceil(21);
        let kind = column.shown_as();
        let name = |x: f64| kind.show(x).unwrap_or_else(|| table::number(x));
        column.cdf.iter().step_by(step).map(|(x, share)| (name(*x), *share)).collect()
    } else {
        column.bars.iter().map(|bar| (bar.label.clone(), bar.count)).collect()
    };
    for line in table::bars(&lines) {
        console::show!("{line}");
    }
    ask::warn(&ask::warnings(lines.iter().map(|(_, estimate)| estimate)), ask::Format::Table);
    Ok(())
}
