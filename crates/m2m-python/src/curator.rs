//! The curator's side: schemas, budgets, secret sums, and the ways from them to a release.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use m2m::auto::{self, Auto, Weight};
use m2m::forecast::{Choice, Forecaster, Question, Want};
use m2m::privatise::{self, Budget, Ledger, Neighbours, NoiseKind, Plan};
use m2m::source::{Report, sketch};
use m2m::sums::Sketcher;
use m2m::{Decimal, Design};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json;

use crate::analyst::Release;
use crate::input::Source;
use crate::run::{interruptible, whole};
use crate::{Error, fail, raise};

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Schema>()?;
    module.add_class::<Privacy>()?;
    module.add_class::<Source>()?;
    module.add_class::<Sums>()?;
    module.add_class::<OneRound>()?;
    module.add_class::<FirstRound>()?;
    module.add_class::<SecondRound>()?;
    module.add_class::<Rehearsal>()?;
    for function in [
        wrap_pyfunction!(add_up, module)?,
        wrap_pyfunction!(read_design, module)?,
        wrap_pyfunction!(draft, module)?,
        wrap_pyfunction!(plan, module)?,
        wrap_pyfunction!(wanted, module)?,
        wrap_pyfunction!(ledger_new, module)?,
        wrap_pyfunction!(ledger_show, module)?,
        wrap_pyfunction!(ledger_check, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}

/// What is public about a table.
#[pyclass(frozen, module = "m2m._native", from_py_object)]
#[derive(Clone)]
pub struct Schema(pub Arc<m2m::Schema>);

#[pymethods]
impl Schema {
    #[staticmethod]
    fn from_toml(text: &str) -> PyResult<Self> {
        Ok(Self(Arc::new(m2m::Schema::from_toml(text).map_err(raise)?)))
    }

    #[staticmethod]
    fn open(path: PathBuf) -> PyResult<Self> {
        Ok(Self(Arc::new(m2m::Schema::open(path).map_err(raise)?)))
    }

    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        // Errors of ours come through the reader of JSON with their words, and a place that says nothing here.
        let schema: m2m::Schema = serde_json::from_str(text).map_err(|error| {
            let text = error.to_string();
            let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
            Error::new_err(format!("schema: {}", text.trim_start_matches("schema: ")))
        })?;
        Ok(Self(Arc::new(schema)))
    }

    fn to_toml(&self) -> String {
        self.0.to_toml()
    }

    fn to_json(&self) -> String {
        serde_json::to_string(&*self.0).expect("a schema has a JSON form")
    }

    /// The column that identifies users; nothing where rows are protected.
    fn user(&self) -> Option<String> {
        match self.0.unit() {
            m2m::schema::Unit::Row => None,
            m2m::schema::Unit::User { column, .. } => Some(column.clone()),
        }
    }

    fn equals(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

/// What is spent, and how.
#[pyclass(frozen, module = "m2m._native", from_py_object)]
#[derive(Clone, Copy)]
pub struct Privacy(privatise::Privacy);

#[pymethods]
impl Privacy {
    #[new]
    fn new(
        epsilon: Option<&str>,
        delta: Option<&str>,
        rho: Option<&str>,
        neighbours: &str,
        count_share: Option<&str>,
        noise: Option<&str>,
    ) -> PyResult<Self> {
        let number = |text: Option<&str>| text.map(|text| text.parse::<Decimal>().map_err(raise)).transpose();
        let budget = Budget::new(number(epsilon)?, number(delta)?, number(rho)?).map_err(raise)?;
        let usual = privatise::Privacy::new(budget);
        if noise.is_some() && !matches!(budget, Budget::Pure { .. }) {
            return fail("--noise chooses the noise of pure ε; leave it out with --delta or --rho");
        }
        Ok(Self(privatise::Privacy {
            neighbours: match neighbours {
                "add-remove" => Neighbours::AddRemove,
                "replace" => Neighbours::Replace,
                _ => return fail("there are no such neighbours; choose add-remove or replace"),
            },
            count_share: number(count_share)?.unwrap_or(usual.count_share),
            noise: match noise {
                Some("laplace") => NoiseKind::Laplace,
                None | Some("knorm") => NoiseKind::Knorm,
                Some(_) => return fail("there is no such noise; choose laplace or knorm"),
            },
            ..usual
        }))
    }

    /// The same with another ε.
    fn with_epsilon(&self, epsilon: &str) -> PyResult<Self> {
        let epsilon: Decimal = epsilon.parse().map_err(raise)?;
        let budget = match self.0.budget {
            Budget::Approximate { delta, .. } => Budget::new(Some(epsilon), Some(delta), None),
            _ => Budget::pure(epsilon),
        };
        Ok(Self(privatise::Privacy { budget: budget.map_err(raise)?, ..self.0 }))
    }

    fn __str__(&self) -> String {
        self.0.budget.to_string()
    }
}

/// Exact sums of a table or of a part of it. There is no way to look at them but `to_bytes` and `save`, which hand out the secret.
#[pyclass(frozen, module = "m2m._native")]
pub struct Sums(Mutex<Option<m2m::Sums>>);

impl Sums {
    fn new(sums: m2m::Sums) -> Self {
        Self(Mutex::new(Some(sums)))
    }

    /// The sums themselves, of which nothing stays here: added twice, they would count twice.
    fn take(&self) -> PyResult<m2m::Sums> {
        let taken = self.0.lock().ok().and_then(|mut sums| sums.take());
        taken.ok_or_else(|| Error::new_err(USED))
    }

    fn with<T>(&self, look: impl FnOnce(&m2m::Sums) -> T) -> PyResult<T> {
        let sums = self.0.lock().map_err(|_| Error::new_err(USED))?;
        sums.as_ref().map(look).ok_or_else(|| Error::new_err(USED))
    }
}

const USED: &str = "sums: these were merged or released already, so they would count twice; add up the rows anew";

#[pymethods]
impl Sums {
    fn merge(&self, other: &Self) -> PyResult<()> {
        if std::ptr::eq(self, other) {
            return fail("sums: these are merged with themselves, so their rows would count twice; merge other parts");
        }
        let mut mine = self.0.lock().map_err(|_| Error::new_err(USED))?;
        let mine = mine.as_mut().ok_or_else(|| Error::new_err(USED))?;
        mine.merge(other.take()?).map_err(raise)
    }

    /// The same, of which nothing stays here.
    fn moved(&self) -> PyResult<Self> {
        self.take().map(Self::new)
    }

    fn schema(&self) -> PyResult<Schema> {
        self.with(|sums| Schema(Arc::new(sums.schema().clone())))
    }

    fn design(&self) -> PyResult<String> {
        self.with(|sums| written(sums.design()))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.with(|sums| PyBytes::new(py, &sums.to_secret_bytes()))
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        let bytes = bytes.to_vec();
        whole(py, || m2m::Sums::from_secret_bytes(bytes)).map(Self::new)
    }

    fn save(&self, path: PathBuf, force: bool) -> PyResult<()> {
        self.with(|sums| sums.save(&path, force))?.map_err(raise)
    }

    #[staticmethod]
    fn open(path: PathBuf) -> PyResult<Self> {
        Ok(Self::new(m2m::Sums::open(&path).map_err(raise)?))
    }
}

/// A design as a text that [`read_design`] reads.
fn written(design: &Design) -> String {
    serde_json::to_string(design).expect("a design has a JSON form")
}

fn parse_design(text: &str) -> Result<Design, m2m::Error> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|error| {
            let text = error.to_string();
            let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
            m2m::Error::Design(text.trim_start_matches("design: ").into())
        });
    }
    if text.ends_with(".toml") {
        let path = PathBuf::from(text);
        let toml = std::fs::read_to_string(&path).map_err(|error| m2m::Error::Read { path, error })?;
        return Design::from_toml(&toml);
    }
    Design::parse(text)
}

/// A design in any of its forms, as one that is always read the same.
#[pyfunction]
fn read_design(text: &str) -> PyResult<String> {
    Ok(written(&parse_design(text).map_err(raise)?))
}

/// Adds up the rows of a table. Returns the sums, and what a curator should hear about the rows.
#[pyfunction]
fn add_up(
    py: Python<'_>,
    source: &Source,
    schema: &Schema,
    design: &str,
    threads: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Sums, Vec<String>)> {
    let sketcher = Sketcher::new(&schema.0, &parse_design(design).map_err(raise)?).map_err(raise)?;
    let threads = threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let table = source.0.clone();
    let (sums, report) = interruptible(py, progress, move |flag| sketch(&sketcher, &table, threads, flag))?;
    Ok((Sums::new(sums), notes(&report)))
}

/// What was odd about the rows: counts and places, never a value.
fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    let list = |counts: &[(String, u64)]| {
        let odd: Vec<String> = counts.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name} {n}")).collect();
        (!odd.is_empty()).then(|| odd.join(", "))
    };
    if report.rows == 0 {
        notes.push("no rows were read".into());
    }
    if let Some(columns) = list(&report.unreadable) {
        notes.push(format!("cells that could not be read count as missing: {columns}"));
    }
    if report.ragged > 0 {
        notes.push(format!("rows with too few or too many fields: {}", report.ragged));
    }
    if let Some(place) = &report.first {
        notes.push(format!("the first is in {}: {place}", place.source));
    }
    if let Some(columns) = list(&report.other) {
        notes.push(format!("levels that the schema does not list count as other: {columns}"));
    }
    if report.outside > 0 {
        notes.push(format!("values outside their bounds were clamped: {}", report.outside));
    }
    if report.without_user > 0 {
        notes.push(format!("rows without a user were left out: {}", report.without_user));
    }
    notes
}

/// What a debit is written for, and where.
type Account = Option<(PathBuf, String)>;

/// Refuses what the ledger, if there is one, would refuse, before anything is used up for it.
fn affordable(account: &Account, schema: &m2m::Schema, privacy: &privatise::Privacy) -> PyResult<()> {
    match account {
        Some((path, _)) => Ledger::open(path).and_then(|ledger| ledger.check(schema, privacy)).map_err(raise),
        None => Ok(()),
    }
}

/// Debits the ledger, if there is one. Only after this may noise be added.
fn debit(account: Account, schema: &m2m::Schema, privacy: &privatise::Privacy) -> Result<(), m2m::Error> {
    match account {
        Some((path, what)) => Ledger::debit(&path, schema, privacy, &what).map(|_| ()),
        None => Ok(()),
    }
}

/// A release of fixed maps, with its noise drawn and no row read.
#[pyclass(frozen, module = "m2m._native")]
pub struct OneRound {
    plan: Plan,
    noise: Mutex<Option<privatise::Noise>>,
}

#[pymethods]
impl OneRound {
    #[new]
    fn new(py: Python<'_>, schema: &Schema, design: &str, privacy: &Privacy) -> PyResult<Self> {
        let plan = Plan::new(&schema.0, &parse_design(design).map_err(raise)?, privacy.0).map_err(raise)?;
        let noise = whole(py, || plan.draw())?;
        Ok(Self { plan, noise: Mutex::new(Some(noise)) })
    }

    fn design(&self) -> String {
        written(self.plan.design())
    }

    /// Debits, adds noise, and has the release.
    fn privatise(&self, py: Python<'_>, sums: &Sums, account: Account) -> PyResult<Release> {
        let matches = sums.with(|sums| sums.schema() == self.plan.schema() && sums.design() == self.plan.design())?;
        if !matches {
            return fail("sums: the noise was drawn for another schema or design; add up the rows for this one");
        }
        affordable(&account, self.plan.schema(), self.plan.privacy())?;
        let noise = take(&self.noise, privatise::Noise::check_process)?;
        let sums = sums.take()?;
        whole(py, || {
            debit(account, self.plan.schema(), self.plan.privacy())?;
            sums.privatise(noise)
        })
        .map(Release::new)
    }
}

const SPENT: &str = "this round was used already, and its noise is good for one release; start anew";

/// What is good for one release, of which nothing stays here; unless it came by a fork.
fn take<T>(kept: &Mutex<Option<T>>, check: impl FnOnce(&T) -> Result<(), m2m::Error>) -> PyResult<T> {
    let mut kept = kept.lock().map_err(|_| Error::new_err(SPENT))?;
    check(kept.as_ref().ok_or_else(|| Error::new_err(SPENT))?).map_err(raise)?;
    Ok(kept.take().expect("it was there"))
}

/// What the curator says about the design.
fn preferences(rows: Option<u64>, weights: Vec<(Vec<String>, String)>) -> PyResult<Auto> {
    let weight = |(columns, weight): (Vec<String>, String)| Ok(Weight { columns, weight: weight.parse()? });
    let weights = weights.into_iter().map(weight).collect::<Result<_, m2m::Error>>().map_err(raise)?;
    Ok(Auto { rows, weights })
}

/// The first of two rounds: the count and the marginals.
#[pyclass(frozen, module = "m2m._native")]
pub struct FirstRound {
    schema: Arc<m2m::Schema>,
    privacy: privatise::Privacy,
    auto: Auto,
    design: Design,
    round: Mutex<Option<auto::FirstRound>>,
}

#[pymethods]
impl FirstRound {
    #[new]
    fn new(
        py: Python<'_>,
        schema: &Schema,
        privacy: &Privacy,
        rows: Option<u64>,
        weights: Vec<(Vec<String>, String)>,
    ) -> PyResult<Self> {
        let auto = preferences(rows, weights)?;
        let round = whole(py, || auto::FirstRound::new(&schema.0, &auto, privacy.0))?;
        let design = round.sketcher().map_err(raise)?.design().clone();
        Ok(Self { schema: schema.0.clone(), privacy: privacy.0, auto, design, round: Mutex::new(Some(round)) })
    }

    fn design(&self) -> String {
        written(&self.design)
    }

    /// Debits for both rounds, adds the noise of this one, and designs the next by it.
    fn privatise(&self, py: Python<'_>, sums: &Sums, account: Account) -> PyResult<SecondRound> {
        let (round, sums) = self.take(sums, &account)?;
        let second = whole(py, || {
            debit(account, &self.schema, &self.privacy)?;
            // What the first round released is not handed out by itself, so that there is one second round.
            auto::SecondRound::after(&round.privatise(sums)?, &self.auto)
        })?;
        Ok(SecondRound::new(self.schema.clone(), second, None))
    }

    /// Debits for both rounds, and has what this one releases. The ledger pledges one second round to it.
    fn publish(&self, py: Python<'_>, sums: &Sums, account: Account) -> PyResult<Release> {
        let (round, sums) = self.take(sums, &account)?;
        let Some((path, what)) = account else { return whole(py, || round.privatise(sums)).map(Release::new) };
        let pledge = whole(py, || Ledger::lock(&path)?.pledge(&self.schema, &self.privacy, &what))?;
        let released = whole(py, || {
            let release = round.privatise(sums)?.with_pledge(pledge);
            Ledger::lock(&path)?.seal(&release)?;
            Ok(release)
        });
        paid(&path, released).map(Release::new)
    }
}

impl FirstRound {
    /// The round and the sums that it is for, both used up.
    fn take(&self, sums: &Sums, account: &Account) -> PyResult<(auto::FirstRound, m2m::Sums)> {
        if !sums.with(|sums| sums.schema() == &*self.schema && sums.design() == &self.design)? {
            return fail(OTHER_ROUND);
        }
        affordable(account, &self.schema, &self.privacy)?;
        let round = take(&self.round, auto::FirstRound::check_process)?;
        Ok((round, sums.take()?))
    }
}

const OTHER_ROUND: &str =
    "sums: these have another schema or design than the round that they are for; add up the rows for this one";

/// Says of what failed that the ledger has paid for it.
fn paid<T>(ledger: &Path, result: PyResult<T>) -> PyResult<T> {
    result.map_err(|error| {
        Error::new_err(format!("{} was debited, but nothing was released: {}", ledger.display(), words(&error)))
    })
}

/// What an error says, without its kind.
fn words(error: &PyErr) -> String {
    Python::attach(|py| error.value(py).to_string())
}

/// The second of two rounds: tables fitted to what the first released.
#[pyclass(frozen, module = "m2m._native")]
pub struct SecondRound {
    schema: Arc<m2m::Schema>,
    design: Design,
    /// What the first round released, if that was handed out.
    first: Option<Arc<m2m::Release>>,
    round: Mutex<Option<auto::SecondRound>>,
}

impl SecondRound {
    fn new(schema: Arc<m2m::Schema>, round: auto::SecondRound, first: Option<Arc<m2m::Release>>) -> Self {
        Self { schema, design: round.design().clone(), first, round: Mutex::new(Some(round)) }
    }
}

#[pymethods]
impl SecondRound {
    /// The round that follows what a first one released, at any later time.
    #[staticmethod]
    fn after(
        py: Python<'_>,
        first: &Release,
        rows: Option<u64>,
        weights: Vec<(Vec<String>, String)>,
    ) -> PyResult<Self> {
        let auto = preferences(rows, weights)?;
        let first = first.released().clone();
        let round = whole(py, || auto::SecondRound::after(&first, &auto))?;
        Ok(Self::new(Arc::new(first.schema().clone()), round, Some(first)))
    }

    fn schema(&self) -> Schema {
        Schema(self.schema.clone())
    }

    fn design(&self) -> String {
        written(&self.design)
    }

    /// Refuses early a ledger that would refuse late.
    fn check(&self, path: PathBuf) -> PyResult<()> {
        match &self.first {
            Some(first) => Ledger::open(&path).and_then(|ledger| ledger.check_pledge(first).map(drop)).map_err(raise),
            None => Ok(()),
        }
    }

    /// Redeems the ledger's pledge if there is one, adds the noise that was paid for with the first round, and has the
    /// release.
    fn privatise(&self, py: Python<'_>, sums: &Sums, account: Account) -> PyResult<Release> {
        let pledged = |first: &Arc<m2m::Release>| first.reserved().is_some_and(|reserved| reserved.pledge.is_some());
        if account.is_none() && self.first.as_ref().is_some_and(pledged) {
            return fail("a ledger has paid for this release; give it, which lets the second round be made once");
        }
        if !sums.with(|sums| sums.schema() == &*self.schema && sums.design() == &self.design)? {
            return fail(OTHER_ROUND);
        }
        // What the ledger refuses uses nothing up.
        account.as_ref().map_or(Ok(()), |(path, _)| self.check(path.clone()))?;
        let round = take(&self.round, auto::SecondRound::check_process)?;
        let sums = sums.take()?;
        let (Some(first), Some((path, what))) = (&self.first, account) else {
            return whole(py, || round.privatise(sums)).map(Release::new);
        };
        whole(py, || Ledger::lock(&path)?.redeem(first, &what))?;
        paid(&path, whole(py, || round.privatise(sums))).map(Release::new)
    }
}

#[pyfunction]
fn draft(source: &Source) -> PyResult<String> {
    Ok(m2m::schema::draft(&source.fields_of()?))
}

impl Source {
    fn fields_of(&self) -> PyResult<Vec<(String, Option<&'static str>)>> {
        self.0.fields().map_err(raise)
    }
}

fn choice(design: &str) -> Result<Choice, m2m::Error> {
    Ok(if design == "auto" { Choice::Auto } else { Choice::Design(parse_design(design)?) })
}

/// Rehearses releases of tables that fit a schema, or that are like one of which there is a release.
#[pyclass(frozen, module = "m2m._native")]
struct Rehearsal(Arc<Forecaster>);

#[pymethods]
impl Rehearsal {
    #[staticmethod]
    fn of(schema: &Schema, rows: u64) -> PyResult<Self> {
        Forecaster::new(&schema.0, rows).map(|forecaster| Self(Arc::new(forecaster))).map_err(raise)
    }

    #[staticmethod]
    fn like(py: Python<'_>, release: &Release, rows: Option<u64>) -> PyResult<Self> {
        let release = release.released().clone();
        interruptible(py, None, move |_| Ok(Self(Arc::new(Forecaster::like(&release, rows)?))))
    }

    #[getter]
    fn rows(&self) -> u64 {
        self.0.rows()
    }
}

/// Errors that are expected: for each question its text, kind, standard error, and whether the release tells of it.
#[pyfunction]
fn plan(
    py: Python<'_>,
    rehearsal: &Rehearsal,
    privacy: &Privacy,
    design: &str,
    questions: Option<Vec<String>>,
) -> PyResult<Vec<(String, &'static str, f64, bool)>> {
    let (forecaster, privacy, design) = (rehearsal.0.clone(), privacy.0, design.to_owned());
    interruptible(py, None, move |_| {
        let schema = forecaster.schema();
        let questions: Vec<Question> = match questions {
            None => Question::typical(schema),
            Some(texts) => texts
                .iter()
                .map(|text| Ok(Want::parse(text, schema, forecaster.rows())?.question))
                .collect::<Result<_, m2m::Error>>()?,
        };
        let expected = forecaster.errors(&choice(&design)?, privacy, &questions)?;
        Ok(questions
            .iter()
            .zip(expected)
            .map(|(question, expected)| {
                (question.show(schema), question.kind(), expected.std_error, expected.supported)
            })
            .collect())
    })
}

/// The smallest ε for what is wanted, as text, and which of the wants decides.
#[pyfunction]
fn wanted(
    py: Python<'_>,
    rehearsal: &Rehearsal,
    privacy: &Privacy,
    design: &str,
    wants: Vec<String>,
) -> PyResult<(String, Option<usize>)> {
    let (forecaster, privacy, design) = (rehearsal.0.clone(), privacy.0, design.to_owned());
    interruptible(py, None, move |_| {
        let parse = |want: &String| Want::parse(want, forecaster.schema(), forecaster.rows());
        let wants: Vec<Want> = wants.iter().map(parse).collect::<Result<_, m2m::Error>>()?;
        let needed = forecaster.smallest_epsilon(&choice(&design)?, privacy, &wants)?;
        Ok((needed.epsilon.to_string(), needed.decisive))
    })
}

#[pyfunction]
fn ledger_new(path: PathBuf, privacy: &Privacy) -> PyResult<()> {
    Ledger::create(&path, privacy.0.budget).map_err(raise)
}

/// A ledger as JSON: total, debits, what is left.
#[pyfunction]
fn ledger_show(path: PathBuf) -> PyResult<String> {
    let ledger = Ledger::open(&path).map_err(raise)?;
    let (amount, delta) = ledger.left();
    let left = match ledger.total() {
        Budget::Pure { .. } => json!({"epsilon": amount.to_f64()}),
        Budget::Approximate { .. } => json!({"epsilon": amount.to_f64(), "delta": delta.to_f64()}),
        Budget::Concentrated { .. } => json!({"rho": amount.to_f64()}),
    };
    let words = ledger.left_in_words();
    Ok(json!({"total": ledger.total(), "spent": ledger.spent(), "left": left, "words": words}).to_string())
}

/// Refuses early what the ledger would refuse late.
#[pyfunction]
fn ledger_check(path: PathBuf, schema: &Schema, privacy: &Privacy) -> PyResult<()> {
    affordable(&Some((path, String::new())), &schema.0, &privacy.0)
}
