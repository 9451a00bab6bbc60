//! `m2m plan`: how accurate a release will be, before anything is spent.

use std::path::PathBuf;

use m2m::estimate::Parts;
use m2m::forecast::{Choice, Expected, Forecaster, Question, Want};
use m2m::privatise::Privacy;
use m2m::schema::Kind;
use m2m::source::Watch;
use m2m::sql::ColumnKind;
use m2m::{Design, Estimate, Release, Schema};
use serde_json::json;

use super::Format;
use super::privacy::SpendingArgs;
use super::sketch::read_design;
use crate::console::{self, Mistake, Progress};
use crate::table;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  m2m plan --schema schema.toml --rows 50000 --epsilon 1
  m2m plan --schema schema.toml --rows 50000 --want 'mean(age) ± 1%' --want 'corr(age, income) ± 0.05'
  m2m plan --like last-year.m2m --epsilon 1")]
pub struct Args {
    /// What is public about the table
    #[arg(long, value_name = "FILE", required_unless_present = "like", conflicts_with = "like")]
    schema: Option<PathBuf>,
    /// About how many rows there are; take a public guess [default with --like: as many as it tells of]
    #[arg(long, value_name = "N", required_unless_present = "like", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000_000))]
    rows: Option<u64>,
    /// A release of a table that is much like this one, of last year or of a pilot: it tells what a schema leaves open,
    /// so that predictions are nearer, and is no secret
    #[arg(long, value_name = "RELEASE")]
    like: Option<PathBuf>,
    /// Only this design, as in `m2m sketch` [default: several side by side; with --want, auto]
    #[arg(long, value_name = "DESIGN")]
    design: Option<String>,
    /// Find the smallest ε for which this standard error is expected, such as `mean(age) ± 1%` of its range, `mean(age) ±
    /// 0.5` in its units, `cdf(age) ± 0.01`, `share(sex) ± 1%`, `corr(age, income) ± 0.05`, `count(age, sex) ± 0.5%` of the
    /// rows, `rows ± 100`; +- does for ±, and all of several are met
    #[arg(long, value_name = "QUESTION ± ERROR")]
    want: Vec<String>,
    /// How it is printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    spending: SpendingArgs,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let forecaster = match (&args.like, &args.schema, args.rows) {
        (Some(release), _, rows) => Forecaster::like(&Release::open(release)?, rows)?,
        (None, Some(schema), Some(rows)) => Forecaster::new(&Schema::open(schema)?, rows)?,
        _ => return Err(Mistake("give --schema and --rows, or --like".into()).into()),
    };
    let choice = match args.design.as_deref() {
        None | Some("auto") => Choice::Auto,
        Some(design) => Choice::Design(read_design(design)?),
    };
    if args.want.is_empty() {
        if !args.spending.has_amount() {
            let message = "no budget is given; give --epsilon, --epsilon and --delta, or --rho, or --want to find ε";
            return Err(Mistake(message.into()).into());
        }
        let designs = match &args.design {
            Some(design) => vec![(design.clone(), choice)],
            None => vec![
                ("auto".into(), Choice::Auto),
                ("hist".into(), Choice::Design(Design::parse("hist")?)),
                ("hist+rff".into(), Choice::Design(Design::default())),
                ("tables".into(), Choice::Design(Design::parse("tables")?)),
            ],
        };
        return compare(args, &forecaster, &designs);
    }
    if args.spending.has_amount() {
        let message = "--want looks for an epsilon, and one is given already; leave out --epsilon or --rho, or --want";
        return Err(Mistake(message.into()).into());
    }
    let parse = |want: &String| Want::parse(want, forecaster.schema(), forecaster.rows());
    let wants: Vec<Want> = args.want.iter().map(parse).collect::<Result<_, _>>()?;
    search(args, &forecaster, &choice, &wants)
}

/// The errors of typical questions, with a column for each design.
fn compare(args: &Args, forecaster: &Forecaster, designs: &[(String, Choice)]) -> anyhow::Result<()> {
    let privacy = args.spending.privacy()?;
    let questions = Question::typical(forecaster.schema());
    let progress = Progress::steps(designs.len() as u64);
    let mut columns = Vec::new();
    for (name, choice) in designs {
        let expected = forecaster.errors(choice, privacy, &questions);
        progress.advance(1);
        match expected {
            // A design that does not suit the schema is no reason to be silent about the others.
            Err(error) if designs.len() > 1 && error.is_input() && name != "auto" => columns.push((name, Err(error))),
            expected => columns.push((name, Ok(expected?))),
        }
    }
    drop(progress);
    match args.format {
        Format::Json => {
            let designs: Vec<_> = columns
                .iter()
                .map(|(name, column)| match column {
                    Ok(expected) => {
                        let answers: Vec<_> = questions
                            .iter()
                            .zip(expected)
                            .map(|(question, expected)| to_json(forecaster.schema(), question, expected))
                            .collect();
                        json!({ "design": name, "answers": answers })
                    }
                    Err(error) => json!({ "design": name, "error": error.to_string() }),
                })
                .collect();
            let all = json!({ "rows": forecaster.rows(), "budget": privacy.budget, "designs": designs });
            console::show!("{}", serde_json::to_string(&all)?);
        }
        Format::Table => {
            console::show!("Predicted standard errors for {} rows with {}:", forecaster.rows(), privacy.budget);
            let header: Vec<String> =
                std::iter::once(String::new()).chain(columns.iter().map(|(name, _)| (*name).clone())).collect();
            let mut rows = Vec::new();
            let mut guesses = false;
            for (label, places) in lines(forecaster.schema(), &questions) {
                let mut row = vec![label];
                for (_, column) in &columns {
                    row.push(match column {
                        Ok(expected) => {
                            let all: Vec<Expected> = places.iter().map(|place| expected[*place]).collect();
                            let expected = together(&all);
                            guesses |= !expected.supported;
                            show(forecaster.schema(), &questions[places[0]], &expected)
                        }
                        Err(_) => "-".into(),
                    });
                }
                rows.push(row);
            }
            table::grid(&header, &rows);
            if guesses {
                console::say!(
                    "note: * the release would hold next to nothing about this; the error is that of a guess"
                );
            }
            for (name, column) in &columns {
                if let Err(error) = column {
                    console::say!("note: {name} does not suit this schema: {error}");
                }
            }
            say_limits(args);
        }
    }
    Ok(())
}

/// The smallest ε for what is wanted.
fn search(args: &Args, forecaster: &Forecaster, choice: &Choice, wants: &[Want]) -> anyhow::Result<()> {
    // What is searched for can be anything at first.
    let privacy = args.spending.privacy_with("1".parse()?)?;
    let needed = forecaster.smallest_epsilon(choice, privacy, wants)?;
    let privacy: Privacy = args.spending.privacy_with(needed.epsilon)?;
    let questions: Vec<Question> = wants.iter().map(|want| want.question.clone()).collect();
    let expected = forecaster.errors(choice, privacy, &questions)?;
    let decisive = needed.decisive.map(|at| wants[at].text.as_str());
    match args.format {
        Format::Json => {
            let wants: Vec<_> = wants
                .iter()
                .zip(&expected)
                .map(|(want, expected)| {
                    let mut answer = to_json(forecaster.schema(), &want.question, expected);
                    answer["want"] = json!(want.text);
                    answer["wanted"] = json!(want.error);
                    answer
                })
                .collect();
            let all = json!({
                "rows": forecaster.rows(), "budget": privacy.budget, "epsilon": needed.epsilon, "decisive": decisive, "wants": wants,
            });
            console::show!("{}", serde_json::to_string(&all)?);
        }
        Format::Table => {
            match decisive {
                Some(want) if wants.len() > 1 => console::show!("{} is enough; `{want}` decides", privacy.budget),
                Some(_) => console::show!("{} is enough", privacy.budget),
                None => console::show!("{} is enough, and so may be less", privacy.budget),
            }
            let header = ["want".to_owned(), "predicted error".to_owned()];
            let rows: Vec<Vec<String>> = wants
                .iter()
                .zip(&expected)
                .map(|(want, expected)| vec![want.text.clone(), show(forecaster.schema(), &want.question, expected)])
                .collect();
            table::grid(&header, &rows);
            if expected.iter().any(|expected| !expected.supported) {
                console::say!(
                    "note: * the release would hold next to nothing about this; the error is that of a guess"
                );
            }
            say_limits(args);
        }
    }
    Ok(())
}

fn say_limits(args: &Args) {
    if args.like.is_some() {
        console::say!("note: predicted on rows drawn from that release; nothing was spent");
        console::say!("note: real errors can be half or twice as large if the table differs from it");
        return;
    }
    console::say!("note: predicted from the schema alone, on invented rows; nothing was read or spent");
    console::say!(
        "note: real errors can be half or twice as large, depending on the rows; --like a release they are nearer"
    );
}

/// The lines of the table: a question for each column, and pairs and triples together.
fn lines(schema: &Schema, questions: &[Question]) -> Vec<(String, Vec<usize>)> {
    let mut lines: Vec<(String, Vec<usize>)> = Vec::new();
    for (place, question) in questions.iter().enumerate() {
        let label = match question {
            Question::Correlation(_) => "correlation of two columns".into(),
            Question::Count(columns) if columns.len() == 1 => question.show(schema).replacen("count", "share", 1),
            Question::Count(columns) if columns.len() == 2 => "share of rows, by two columns".into(),
            Question::Count(_) => "share of rows, by three columns".into(),
            _ => question.show(schema),
        };
        match lines.iter_mut().find(|(known, _)| *known == label) {
            Some((_, places)) => places.push(place),
            None => lines.push((label, vec![place])),
        }
    }
    lines
}

/// One error for several questions of a kind.
fn together(expected: &[Expected]) -> Expected {
    let squares: f64 = expected.iter().map(|expected| expected.std_error.powi(2)).sum();
    let supported = expected.iter().filter(|expected| expected.supported).count();
    Expected { std_error: (squares / expected.len() as f64).sqrt(), supported: 2 * supported >= expected.len() }
}

/// An error for people: of a mean in the units of its column and as a part of its range, of a share in percent.
fn show(schema: &Schema, question: &Question, expected: &Expected) -> String {
    let two_digits = |error: f64, kind: ColumnKind| {
        table::estimate_parts(&Estimate::new(0.0, Parts { privacy: error, ..Parts::default() }), kind).1
    };
    let plain = |error: f64| two_digits(error, ColumnKind::Plain);
    let error = expected.std_error;
    let text = match question {
        Question::Rows | Question::Correlation(_) => plain(error),
        Question::Cdf(_) | Question::Count(_) => format!("{}%", plain(100.0 * error)),
        Question::Mean(column) => {
            let kind = match schema.columns()[*column].kind {
                Kind::Date(_) => ColumnKind::Date,
                Kind::Datetime(_) => ColumnKind::Datetime,
                _ => ColumnKind::Plain,
            };
            format!("{} ({}%)", two_digits(error, kind), plain(100.0 * part_of_range(schema, *column, error)))
        }
    };
    if expected.supported { text } else { text + "*" }
}

fn part_of_range(schema: &Schema, column: usize, error: f64) -> f64 {
    schema.columns()[column].kind.range().map_or(f64::NAN, |range| error / (range.max() - range.min()))
}

fn to_json(schema: &Schema, question: &Question, expected: &Expected) -> serde_json::Value {
    let mut answer = json!({
        "question": question.show(schema),
        "std_error": expected.std_error,
        "supported": expected.supported,
    });
    if let Question::Mean(column) = question {
        answer["part_of_range"] = json!(part_of_range(schema, *column, expected.std_error));
    }
    answer
}
