//! What can be asked. `docs/explore.openapi.json` describes it; a test holds the two together.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use m2m::estimate::{Model, Sample};
use m2m::expr::{Checked, col};
use m2m::schema::Kind;
use m2m::sql::{self, Cell, ColumnKind};
use m2m::synth::{self, Format, Synthesis};
use m2m::task::Ask;
use m2m::task::learn::{self, Fitted, Formula, Learner};
use m2m::{Estimate, Schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Explorer;
use super::problem::Problem;
use super::work::{Lane, Stop, Watched};
use crate::commands::{ask, info};
use crate::plot::charts::{self, Named};
use crate::table;
use crate::view::{self, Column, Correlations, Detail, Pair, worded};

type Shared = State<Arc<Explorer>>;
type Answer = Result<Json<Value>, Problem>;

/// What most questions have.
#[derive(Deserialize)]
pub struct Common {
    /// A condition on the rows, as in SQL.
    #[serde(rename = "where")]
    condition: Option<String>,
    /// Whether charts are wanted too.
    #[serde(default)]
    charts: bool,
    /// Whether an overview has every column.
    #[serde(default = "yes")]
    cards: bool,
}

fn yes() -> bool {
    true
}

impl Common {
    fn new(condition: Option<String>, charts: bool) -> Self {
        Self { condition, charts, cards: true }
    }

    /// Questions about the rows that meet the condition.
    fn ask<'m>(&self, model: &'m dyn Model) -> Result<Ask<'m>, Problem> {
        let all = Ask::of(model);
        match self.condition.as_deref().map(str::trim).filter(|condition| !condition.is_empty()) {
            None => Ok(all),
            Some(condition) => Ok(all.filter(&sql::condition(condition, model.schema())?)?),
        }
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Problem::question(&format!("{}; see /api/openapi.json", rejection.body_text().replace("; ", ", ")))
    }
}

impl From<PathRejection> for Problem {
    fn from(rejection: PathRejection) -> Self {
        Problem::question(&format!("{}; see /api/openapi.json", rejection.body_text().replace("; ", ", ")))
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        let status = match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => StatusCode::PAYLOAD_TOO_LARGE,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            _ => StatusCode::BAD_REQUEST,
        };
        Problem::new(status, &format!("{}; see /api/openapi.json", rejection.body_text().replace("; ", ", ")))
    }
}

/// The release and every column at a glance.
pub async fn overview(State(explorer): Shared, query: Result<Query<Common>, QueryRejection>) -> Answer {
    let Query(common) = query?;
    let shared = explorer.clone();
    let work = move |stop: &Stop| {
        if common.charts
            && common.cards
            && common.condition.as_deref().is_none_or(|condition| condition.trim().is_empty())
        {
            return Ok(first_view(&shared));
        }
        describe(&shared, &common, stop)
    };
    Ok(Json(explorer.lanes.run(Lane::Quick, work).await?))
}

/// The overview of all rows with its charts: made once.
pub fn first_view(explorer: &Explorer) -> Value {
    let common = Common::new(None, true);
    let make =
        || describe(explorer, &common, &Stop::default()).unwrap_or_else(|problem| json!({ "error": problem.error }));
    explorer.overview.get_or_init(make).clone()
}

fn describe(explorer: &Explorer, common: &Common, stop: &Stop) -> Result<Value, Problem> {
    let watched = Watched { fit: &explorer.fit, stop, condition: None };
    let release = &explorer.release;
    let schema = release.schema();
    let rows = common.ask(&watched)?.count()?;
    let most = if common.cards { MOST_CARDS.min(schema.columns().len()) } else { 0 };
    let columns = cards(&schema.columns()[..most], common, &watched)?;
    let kinds: Vec<Value> = schema.columns().iter().map(described).collect();
    Ok(json!({
        "name": explorer.name,
        "hash": release.hash(),
        "rows": worded(&rows, ColumnKind::Plain),
        "privacy": info::privacy_json(release),
        "contents": release.blocks().iter().map(info::block_in_words).collect::<Vec<_>>(),
        "schema": kinds,
        "columns": columns,
        "words": { "aggregates": sql::AGGREGATES, "functions": sql::FUNCTIONS },
    }))
}

/// Columns at a glance, on all processors.
fn cards(columns: &[m2m::schema::Column], common: &Common, watched: &Watched<'_>) -> Result<Vec<Value>, Problem> {
    let card = |column: &m2m::schema::Column| -> Result<Value, Problem> {
        let card = Column::read(&common.ask(watched)?, &column.name, Detail::Card)?;
        let mut json = card.to_json();
        json["words"] = json!(info::column_in_words(column));
        if common.charts {
            json["charts"] = json!({ "spark": card.spark().to_element() });
        }
        Ok(json)
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = columns.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let running: Vec<_> = columns
            .chunks(share)
            .map(|part| scope.spawn(move || part.iter().map(card).collect::<Result<Vec<Value>, Problem>>()))
            .collect();
        let mut all = Vec::with_capacity(columns.len());
        for part in running {
            // Who was told to stop there stops here.
            all.extend(part.join().unwrap_or_else(|stopped| std::panic::resume_unwind(stopped))?);
        }
        Ok(all)
    })
}

/// Cards of an overview; other columns are listed only.
const MOST_CARDS: usize = 60;

/// A column as the schema has it, for choosing.
fn described(column: &m2m::schema::Column) -> Value {
    let mut json = json!({ "name": column.name, "type": column.kind.name() });
    match &column.kind {
        Kind::Category(levels) => json["levels"] = json!(levels.iter().take(200).collect::<Vec<_>>()),
        Kind::Boolean => json["levels"] = json!(["false", "true"]),
        kind => {
            let range = kind.range().expect("a numeric column has a range");
            json["min"] = json!(kind.show(range.min()));
            json["max"] = json!(kind.show(range.max()));
        }
    }
    json
}

#[derive(Deserialize)]
pub struct OfColumn {
    bins: Option<u32>,
    #[serde(rename = "where")]
    condition: Option<String>,
    #[serde(default)]
    charts: bool,
}

/// One column in full.
pub async fn column(
    State(explorer): Shared,
    name: Result<Path<String>, PathRejection>,
    query: Result<Query<OfColumn>, QueryRejection>,
) -> Answer {
    let (Path(name), Query(query)) = (name?, query?);
    let bins = query.bins.unwrap_or(40);
    if !(1..=400).contains(&bins) {
        return Err(Problem::question(&format!("{bins} bins; give a number from 1 to 400")));
    }
    let shared = explorer.clone();
    let work = move |stop: &Stop| {
        let watched = Watched { fit: &shared.fit, stop, condition: None };
        let common = Common::new(query.condition, query.charts);
        let found = Column::with_bins(&common.ask(&watched)?, &name, Detail::Full, bins)?;
        let mut json = found.to_json();
        if common.charts {
            let mut charts = Map::new();
            charts.insert("histogram".into(), found.histogram().to_element().into());
            if let Some(curve) = found.cumulative() {
                charts.insert("cdf".into(), curve.to_element().into());
            }
            json["charts"] = charts.into();
        }
        json["warnings"] = json!(ask::warnings(found.estimates()));
        Ok(json)
    };
    Ok(Json(explorer.lanes.run(Lane::Quick, work).await?))
}

/// The correlations of all numeric columns.
pub async fn correlations(State(explorer): Shared, query: Result<Query<Common>, QueryRejection>) -> Answer {
    let Query(common) = query?;
    let shared = explorer.clone();
    let work = move |stop: &Stop| {
        let watched = Watched { fit: &shared.fit, stop, condition: None };
        let asked = common.ask(&watched)?;
        let found = Correlations::read(&asked, &view::numeric(asked.schema()))?;
        let mut json = found.to_json();
        if common.charts {
            json["charts"] = json!({ "matrix": found.picture().to_element() });
        }
        let below = found.0.entries.iter().enumerate().flat_map(|(i, row)| &row[..i]);
        json["warnings"] = json!(ask::warnings(below));
        Ok(json)
    };
    Ok(Json(explorer.lanes.run(Lane::Quick, work).await?))
}

#[derive(Deserialize)]
pub struct OfPair {
    x: String,
    y: String,
    #[serde(rename = "where")]
    condition: Option<String>,
    #[serde(default)]
    charts: bool,
}

/// Two columns together.
pub async fn pairs(State(explorer): Shared, query: Result<Query<OfPair>, QueryRejection>) -> Answer {
    let Query(query) = query?;
    let shared = explorer.clone();
    let work = move |stop: &Stop| {
        let watched = Watched { fit: &shared.fit, stop, condition: None };
        let common = Common::new(query.condition, query.charts);
        let pair = Pair::read(&common.ask(&watched)?, &query.x, &query.y)?;
        let mut json = pair.to_json();
        if common.charts {
            let mut charts = Map::new();
            charts.insert("density".into(), pair.density().to_element().into());
            if let Some(means) = pair.conditional() {
                charts.insert("means".into(), means.to_element().into());
            }
            json["charts"] = charts.into();
        }
        Ok(json)
    };
    Ok(Json(explorer.lanes.run(Lane::Quick, work).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfSql {
    query: String,
    #[serde(rename = "where")]
    condition: Option<String>,
    #[serde(default)]
    charts: bool,
}

/// A query in SQL.
pub async fn sql(State(explorer): Shared, body: Result<Json<OfSql>, JsonRejection>) -> Answer {
    let Json(asked) = body?;
    let shared = explorer.clone();
    let work = move |stop: &Stop| {
        let watched = Watched { fit: &shared.fit, stop, condition: None };
        let schema = Model::schema(&watched);
        let mut query = sql::Query::parse(&asked.query, schema)?;
        if let Some(condition) = asked.condition.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
            query = query.restrict(&sql::condition(condition, schema)?)?;
        }
        let answer = query.run(&watched)?;
        let mut json = answer.to_json();
        let text: Vec<Vec<String>> = answer.rows.iter().map(|row| shown(row, &answer.kinds)).collect();
        json["text"] = json!(text);
        json["csv"] = json!(answer.to_csv());
        if let Some(chart) = asked.charts.then(|| chart_of(&answer)).flatten() {
            json["charts"] = json!({ "answer": chart });
        }
        Ok(json)
    };
    Ok(Json(explorer.lanes.run(Lane::Quick, work).await?))
}

/// A line of an answer as people read it.
fn shown(row: &[Cell], kinds: &[ColumnKind]) -> Vec<String> {
    let cell = |(cell, kind): (&Cell, &ColumnKind)| match cell {
        Cell::Null => "NULL".to_owned(),
        Cell::Text(text) => text.clone(),
        Cell::Boolean(truth) => truth.to_string(),
        Cell::Number(x) => kind.show(*x).unwrap_or_else(|| table::plain(*x)),
        Cell::Estimate(estimate) => table::estimate(estimate, *kind),
    };
    row.iter().zip(kinds).map(cell).collect()
}

/// The first estimated column of an answer beside the keys of its lines; nothing where that is no chart.
fn chart_of(answer: &sql::Table) -> Option<String> {
    const MOST: usize = 60;
    let at = answer.estimated.iter().position(|estimated| *estimated)?;
    let keys: Vec<usize> = (0..answer.columns.len()).filter(|column| !answer.estimated[*column]).collect();
    if keys.is_empty() || !(2..=MOST).contains(&answer.rows.len()) || answer.kinds[at] != ColumnKind::Plain {
        return None;
    }
    let all: Vec<Named<'_>> = answer
        .rows
        .iter()
        .filter_map(|row| {
            let Cell::Estimate(value) = &row[at] else { return None };
            let texts = shown(row, &answer.kinds);
            let name = keys.iter().map(|key| texts[*key].as_str()).collect::<Vec<_>>().join(", ");
            Some(Named { name, value, words: texts[at].clone() })
        })
        .collect();
    let (title, label) = (format!("{} by {}", answer.columns[at], answer.columns[keys[0]]), &answer.columns[at]);
    // Counts start at nothing; other numbers lie where they lie.
    let picture = if label.to_lowercase().starts_with("count") {
        charts::levels(&title, &all)
    } else {
        charts::intervals(&title, label, &all, false)
    };
    Some(picture.to_element())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfFit {
    formula: String,
    #[serde(default)]
    learner: Learner,
    penalty: Option<f64>,
    #[serde(rename = "where")]
    condition: Option<String>,
    #[serde(default)]
    charts: bool,
}

/// A model of the rows.
pub async fn fit(State(explorer): Shared, body: Result<Json<OfFit>, JsonRejection>) -> Answer {
    let Json(asked) = body?;
    let shared = explorer.clone();
    let work = move |stop: &Stop| {
        let schema = Sample::schema(&shared.fit);
        let formula = Formula::parse(&asked.formula, schema)?;
        let condition = checked(asked.condition.as_deref(), schema)?;
        let watched = Watched { fit: &shared.fit, stop, condition: condition.as_ref() };
        let learner = asked.learner;
        let options = learn::Options { penalty: asked.penalty, weights: None };
        let fitted = learn::fit(&watched, &formula, learner, &options)?;
        let common = Common::new(asked.condition, asked.charts);
        model(&fitted, &common.ask(&watched)?, common.charts)
    };
    Ok(Json(explorer.lanes.run(Lane::Slow, work).await?))
}

/// A condition, checked; nothing for an empty one.
fn checked(condition: Option<&str>, schema: &Schema) -> Result<Option<Checked>, Problem> {
    match condition.map(str::trim).filter(|condition| !condition.is_empty()) {
        Some(condition) => Ok(Some(sql::condition(condition, schema)?.check_condition(schema)?)),
        None => Ok(None),
    }
}

/// Coefficients with their intervals, and what each numeric column does by itself.
fn model(fitted: &Fitted, asked: &Ask<'_>, charts: bool) -> Result<Value, Problem> {
    let coefficients: Vec<Value> = fitted
        .names
        .iter()
        .zip(&fitted.coefficients)
        .map(|(name, value)| {
            let mut json = worded(value, ColumnKind::Plain);
            json["name"] = json!(name);
            if !value.std_error.is_finite() {
                json["text"] = json!("left at 0");
            }
            json
        })
        .collect();
    let mut json = json!({
        "formula": fitted.formula,
        "learner": fitted.kind,
        "classes": fitted.classes,
        "coefficients": coefficients,
        "penalty": fitted.penalty,
        "rows": fitted.rows,
        "notes": fitted.notes,
    });
    if !charts {
        return Ok(json);
    }
    // One standard deviation of a number is comparable with being in a level.
    let mut scaled: Vec<(String, Estimate)> = Vec::new();
    let mut effects = Vec::new();
    for (name, value) in fitted.names.iter().zip(&fitted.coefficients) {
        let is_constant = name == learn::INTERCEPT || name.ends_with(&format!(": {}", learn::INTERCEPT));
        // An interval that says nothing would leave no room for the others.
        if is_constant || !value.std_error.is_finite() || value.caution.is_some() {
            continue;
        }
        let place = asked.schema().position(name).filter(|at| asked.schema().columns()[*at].kind.range().is_some());
        let Some(place) = place else {
            scaled.push((name.clone(), *value));
            continue;
        };
        let kind = &asked.schema().columns()[place].kind;
        let (mean, spread) = (asked.mean(&col(name.as_str()))?, asked.std_dev(&col(name.as_str()))?);
        scaled.push((format!("{name} (1 sd)"), times(value, spread.value)));
        if effects.len() < MOST_EFFECTS {
            effects.push(json!({ "name": name, "svg": effect(name, value, kind, mean.value, spread.value) }));
        }
    }
    let named: Vec<Named<'_>> = scaled
        .iter()
        .map(|(name, value)| Named { name: name.clone(), value, words: table::estimate(value, ColumnKind::Plain) })
        .collect();
    let label = match fitted.kind {
        Learner::Linear | Learner::Ridge => "change of the mean",
        Learner::Poisson => "change of the logarithm of the mean",
        Learner::Svm => "change of the score",
        Learner::Logistic | Learner::Multinomial => "change of the log odds",
    };
    let forest = charts::intervals("Coefficients with 95% intervals", label, &named, true).to_element();
    json["charts"] = json!({ "coefficients": forest, "effects": effects });
    Ok(json)
}

/// Charts of partial effects, at most.
const MOST_EFFECTS: usize = 12;

fn times(value: &Estimate, factor: f64) -> Estimate {
    let (low, high) = (value.low * factor, value.high * factor);
    Estimate {
        value: value.value * factor,
        std_error: value.std_error * factor.abs(),
        low: low.min(high),
        high: low.max(high),
        ..*value
    }
}

/// What a column does to the score, against its mean: a line, whose error grows with the distance.
fn effect(name: &str, slope: &Estimate, kind: &Kind, mean: f64, spread: f64) -> String {
    const POINTS: usize = 24;
    let range = kind.range().expect("a numeric column has a range");
    let (low, high) = ((mean - 2.5 * spread).max(range.min()), (mean + 2.5 * spread).min(range.max()));
    let at = |i: usize| low + (high - low) * i as f64 / POINTS as f64;
    let points: Vec<(f64, Option<Estimate>)> =
        (0..=POINTS).map(|i| (at(i), Some(times(slope, at(i) - mean)))).collect();
    let title = format!("Partial effect of {name}");
    let ends = (low, high, view::shown_as(kind));
    charts::band(&title, [name, "against its mean"], ends, None, &points, false).to_element()
}

#[derive(Deserialize)]
pub struct OfSynth {
    #[serde(default = "usual_rows")]
    rows: usize,
    #[serde(default)]
    seed: u64,
    #[serde(rename = "where")]
    condition: Option<String>,
    #[serde(default)]
    format: SynthFormat,
}

fn usual_rows() -> usize {
    100
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SynthFormat {
    #[default]
    Json,
    Csv,
    Parquet,
}

/// Rows that a browser is given at once, to look at and as a file.
const MOST_SHOWN: usize = 1000;
const MOST_LOADED: usize = 1_000_000;

/// Synthetic rows.
pub async fn synth(
    State(explorer): Shared,
    query: Result<Query<OfSynth>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(asked) = query?;
    let most = if asked.format == SynthFormat::Json { MOST_SHOWN } else { MOST_LOADED };
    if !(1..=most).contains(&asked.rows) {
        let message = format!("{} rows; give a number from 1 to {most}, or use `m2m synth` for more", asked.rows);
        return Err(Problem::question(&message));
    }
    let shared = explorer.clone();
    let work = move |_: &Stop| {
        let schema = Sample::schema(&shared.fit);
        let mut synthesis = Synthesis::new(&shared.fit)?;
        if let Some(condition) = asked.condition.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
            synthesis = synthesis.filter(&sql::condition(condition, schema)?)?;
        }
        let batches = synthesis.rows(asked.rows, asked.seed);
        let format = if asked.format == SynthFormat::Parquet { Format::Parquet } else { Format::Csv };
        let mut bytes = Vec::new();
        synth::write(&mut bytes, format, synthesis.schema(), batches).map_err(|_| Problem::failed())?;
        Ok((bytes, asked.format))
    };
    let (bytes, format) = explorer.lanes.run(Lane::Slow, work).await?;
    let file = |kind: &str, name: &str| {
        let place = format!("attachment; filename=\"{name}\"");
        ([(header::CONTENT_TYPE, kind.to_owned()), (header::CONTENT_DISPOSITION, place)], Body::from(bytes.clone()))
            .into_response()
    };
    Ok(match format {
        SynthFormat::Csv => file("text/csv; charset=utf-8", "synthetic.csv"),
        SynthFormat::Parquet => file("application/vnd.apache.parquet", "synthetic.parquet"),
        SynthFormat::Json => {
            let lines = records(&String::from_utf8_lossy(&bytes));
            let mut lines = lines.into_iter();
            let columns = lines.next().unwrap_or_default();
            Json(json!({ "columns": columns, "rows": lines.collect::<Vec<_>>() })).into_response()
        }
    })
}

/// The fields of a CSV text that we wrote ourselves.
fn records(text: &str) -> Vec<Vec<String>> {
    let mut records = vec![vec![String::new()]];
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let record = records.last_mut().expect("there is one");
        let field = record.last_mut().expect("there is one");
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(String::new()),
            '\n' if !quoted => records.push(vec![String::new()]),
            c => field.push(c),
        }
    }
    records.pop();
    records
}
