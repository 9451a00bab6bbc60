//! The ledger: what a table has spent, so that it never spends more than its total.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::privatise::{Budget, Neighbours, Privacy};
use crate::{Decimal, Error, Release, Schema, file};

/// A file with a total and every debit against it. A person may write the total and comments; debits are appended.
///
/// ```toml
/// [total]
/// epsilon = 2.0
///
/// [[spent]]
/// at = "2026-01-31T12:00:00Z"
/// what = "table.m2m"
/// unit = "row"
/// neighbours = "add-remove"
/// epsilon = 1.0
/// ```
///
/// A release in two rounds is debited as a whole before the first, with a `pledge`; its second round redeems the pledge,
/// which can be done once.
pub struct Ledger {
    path: PathBuf,
    text: String,
    record: Record,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    total: Budget,
    #[serde(default)]
    spent: Vec<Entry>,
    #[serde(default)]
    first: Vec<First>,
    #[serde(default)]
    redeemed: Vec<Redeemed>,
}

/// What a first round released, so that no other file passes for it.
#[derive(Serialize, Deserialize)]
struct First {
    pledge: String,
    hash: String,
}

/// A second round that a debit has paid for.
#[derive(Serialize, Deserialize)]
struct Redeemed {
    at: String,
    what: String,
    pledge: String,
}

/// One debit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// When, in UTC.
    pub at: String,
    /// For what.
    pub what: String,
    /// `"row"`, or the column that identifies a user.
    pub unit: String,
    /// Which tables count as neighbours.
    pub neighbours: Neighbours,
    /// How much.
    #[serde(flatten)]
    pub budget: Budget,
    /// By which the second round of the same release is known, if it is made apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pledge: Option<String>,
}

/// What is appended.
#[derive(Serialize, Default)]
struct Addition {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    spent: Vec<Entry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    first: Vec<First>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    redeemed: Vec<Redeemed>,
}

impl Ledger {
    /// Creates a ledger file with a total.
    pub fn create(path: &Path, total: Budget) -> Result<(), Error> {
        #[derive(Serialize)]
        struct Total {
            total: Budget,
        }
        let text = toml::to_string(&Total { total }).expect("a budget has a TOML form");
        file::save(path, false, text.as_bytes()).map_err(|error| match error {
            Error::Exists { path } => Error::Ledger(format!(
                "{} is there already, and a ledger is never replaced; give another name",
                path.display()
            )),
            other => other,
        })
    }

    /// Reads a ledger.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => absent(path),
            _ => Error::Read { path: path.to_owned(), error },
        })?;
        let record: Record = toml::from_str(&text).map_err(|error| {
            Error::Ledger(format!(
                "{}: {}; a ledger starts with [total] and epsilon = 2.0",
                path.display(),
                error.to_string().trim_end()
            ))
        })?;
        let ledger = Self { path: path.to_owned(), text, record };
        for entry in &ledger.record.spent {
            ledger.cost(entry.budget)?;
        }
        Ok(ledger)
    }

    /// The total.
    pub fn total(&self) -> Budget {
        self.record.total
    }

    /// The debits so far.
    pub fn spent(&self) -> &[Entry] {
        &self.record.spent
    }

    /// What is left, in the units of the total: (ε or ρ, δ).
    pub fn left(&self) -> (Decimal, Decimal) {
        let (total, total_delta) = match self.record.total {
            Budget::Pure { epsilon } => (epsilon, Decimal::ZERO),
            Budget::Approximate { epsilon, delta } => (epsilon, delta),
            Budget::Concentrated { rho } => (rho, Decimal::ZERO),
        };
        let mut left = (total, total_delta);
        for entry in &self.record.spent {
            let (amount, delta) = self.cost(entry.budget).expect("checked when opened");
            left = (left.0 - amount, left.1 - delta);
        }
        left
    }

    /// What a budget costs in the units of the total. ε and δ add up; a pure ε costs ρ = ε²/2.
    fn cost(&self, budget: Budget) -> Result<(Decimal, Decimal), Error> {
        match (self.record.total, budget) {
            (Budget::Pure { .. } | Budget::Approximate { .. }, Budget::Pure { epsilon }) => {
                Ok((epsilon, Decimal::ZERO))
            }
            (Budget::Approximate { .. }, Budget::Approximate { epsilon, delta }) => Ok((epsilon, delta)),
            (Budget::Concentrated { .. }, Budget::Concentrated { rho }) => Ok((rho, Decimal::ZERO)),
            (Budget::Concentrated { .. }, Budget::Pure { epsilon }) => Ok((epsilon.half_square_up(), Decimal::ZERO)),
            (total, budget) => Err(Error::Ledger(format!(
                "{}: a total of {total} cannot pay for {budget}; keep a ledger whose total is of the same kind",
                self.path.display()
            ))),
        }
    }

    /// What is left, as text.
    pub fn left_in_words(&self) -> String {
        let (amount, delta) = self.left();
        match self.record.total {
            Budget::Pure { .. } => format!("ε = {amount}"),
            Budget::Approximate { .. } => format!("ε = {amount}, δ = {delta}"),
            Budget::Concentrated { .. } => format!("ρ = {amount}"),
        }
    }

    /// Whether a release of a table with this schema may be made: enough is left, and the debits so far protect the same unit against the same
    /// neighbours, as budgets of different kinds do not add up.
    pub fn check(&self, schema: &Schema, privacy: &Privacy) -> Result<(), Error> {
        let budget = privacy.budget;
        let (unit, neighbours) = (schema.unit().name(), privacy.neighbours);
        if self.record.spent.iter().any(|entry| entry.unit != unit || entry.neighbours != neighbours) {
            return Err(Error::Ledger(format!(
                "{} has debits for another privacy unit or other neighbours, with which this one does not add up; keep a ledger for each",
                self.path.display()
            )));
        }
        let (amount, delta) = self.cost(budget)?;
        let left = self.left();
        if left.0.checked_sub(amount).is_some() && left.1.checked_sub(delta).is_some() {
            return Ok(());
        }
        Err(Error::Ledger(format!(
            "{} has {} left of {}, too little for {budget}, so nothing was spent; ask for no more than is left",
            self.path.display(),
            self.left_in_words(),
            self.record.total
        )))
    }

    /// The pledge of a first round, if this ledger holds it and it was not redeemed.
    pub fn check_pledge<'a>(&self, first: &'a Release) -> Result<&'a str, Error> {
        let refuse = |why: &str| {
            Err(Error::Ledger(format!(
                "{} {why}, so nothing was released; start again with a first round, which costs its budget anew",
                self.path.display()
            )))
        };
        let Some(pledge) = first.reserved().and_then(|reserved| reserved.pledge.as_deref()) else {
            return refuse("was not debited for this first round");
        };
        let statement = first.statement();
        let paid = |entry: &Entry| {
            entry.pledge.as_deref() == Some(pledge)
                && entry.unit == statement.unit
                && entry.neighbours == statement.neighbours
                && entry.budget == statement.budget
        };
        let hash = first.hash();
        let released = |first: &First| first.pledge == pledge && first.hash == hash;
        if !self.record.spent.iter().any(paid) || !self.record.first.iter().any(released) {
            return refuse("was not debited for this first round");
        }
        if self.record.redeemed.iter().any(|redeemed| redeemed.pledge == pledge) {
            return refuse("has paid for one second round, and that was made");
        }
        Ok(pledge)
    }

    /// Waits until no other process holds the ledger, and holds it.
    pub fn lock(path: &Path) -> Result<LockedLedger, Error> {
        let real = real_path(path)?;
        Ok(LockedLedger { _lock: lock(&real)?, path: path.to_owned(), real })
    }

    /// Debits what a release spends, or refuses and changes nothing. See [`LockedLedger::debit`].
    pub fn debit(path: &Path, schema: &Schema, privacy: &Privacy, what: &str) -> Result<Self, Error> {
        Self::lock(path)?.debit(schema, privacy, what)
    }
}

/// A ledger that no other process can debit until this is dropped.
pub struct LockedLedger {
    /// As it was given.
    path: PathBuf,
    /// Behind any links.
    real: PathBuf,
    _lock: File,
}

impl LockedLedger {
    /// Debits what a release spends, or refuses and changes nothing.
    ///
    /// The debit is on disk, after an fsync, when this returns: only then may noise be added. A crash afterwards leaves a
    /// debit without a release, never a release without a debit.
    pub fn debit(self, schema: &Schema, privacy: &Privacy, what: &str) -> Result<Ledger, Error> {
        self.spend(schema, privacy, what, None)
    }

    /// Debits what both rounds of a release spend, and gives the pledge with which the second can be made once.
    pub fn pledge(self, schema: &Schema, privacy: &Privacy, what: &str) -> Result<String, Error> {
        let pledge = new_pledge()?;
        self.spend(schema, privacy, what, Some(pledge.clone()))?;
        Ok(pledge)
    }

    /// Notes what a first round has released. Without this its pledge is worth nothing.
    pub fn seal(self, first: &Release) -> Result<(), Error> {
        let ledger = Ledger::open(&self.path)?;
        let Some(pledge) = first.reserved().and_then(|reserved| reserved.pledge.clone()) else { return Ok(()) };
        let first = First { pledge, hash: first.hash() };
        self.append(&ledger, &Addition { first: vec![first], ..Addition::default() })?;
        Ok(())
    }

    /// Notes that the second round of a release is made, or refuses if this ledger has not paid for it, or it was made before.
    pub fn redeem(self, first: &Release, what: &str) -> Result<(), Error> {
        let ledger = Ledger::open(&self.path)?;
        let pledge = ledger.check_pledge(first)?.to_owned();
        self.append(
            &ledger,
            &Addition { redeemed: vec![Redeemed { at: now(), what: what.to_owned(), pledge }], ..Addition::default() },
        )?;
        Ok(())
    }

    fn spend(self, schema: &Schema, privacy: &Privacy, what: &str, pledge: Option<String>) -> Result<Ledger, Error> {
        let ledger = Ledger::open(&self.path)?;
        ledger.check(schema, privacy)?;
        let entry = Entry {
            at: now(),
            what: what.to_owned(),
            unit: schema.unit().name().to_owned(),
            neighbours: privacy.neighbours,
            budget: privacy.budget,
            pledge,
        };
        self.append(&ledger, &Addition { spent: vec![entry], ..Addition::default() })
    }

    fn append(self, ledger: &Ledger, addition: &Addition) -> Result<Ledger, Error> {
        let addition = toml::to_string(addition).expect("an entry has a TOML form");
        let text = format!("{}\n\n{addition}", ledger.text.trim_end());
        if toml::from_str::<Record>(&text).is_err() {
            return Err(Error::Ledger(format!(
                "{}: a debit cannot be appended to what is there; write earlier debits as [[spent]] tables",
                self.path.display()
            )));
        }
        file::write(&self.real, true, file::Mode::Keep, |out| std::io::Write::write_all(out, text.as_bytes()))
            .map_err(|error| match error {
                Error::Write { error, .. } => Error::Write { path: self.path.clone(), error },
                other => other,
            })?;
        Ledger::open(&self.path)
    }
}

/// The ledger itself behind any symbolic links: a debit replaces the file at this path, and must not replace a link. A
/// file with several names is refused, as only one of them would be debited.
fn real_path(path: &Path) -> Result<PathBuf, Error> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => absent(path),
        _ => Error::Read { path: path.to_owned(), error },
    };
    let real = std::fs::canonicalize(path).map_err(failed)?;
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::nlink(&std::fs::metadata(&real).map_err(failed)?) > 1 {
        return Err(Error::Ledger(format!("{} has several names (hard links); keep it under one", real.display())));
    }
    Ok(real)
}

fn absent(path: &Path) -> Error {
    Error::Ledger(format!("{} is not there; start one with `m2m ledger new`", path.display()))
}

/// An exclusive lock beside the ledger, given up when dropped or when the process ends. The file itself cannot
/// carry the lock, as every debit replaces it.
fn lock(path: &Path) -> Result<File, Error> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let lock_path = PathBuf::from(name);
    let failed = |error| Error::Write { path: lock_path.clone(), error };
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path).map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}

/// A name that no other debit has, anywhere.
fn new_pledge() -> Result<String, Error> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| Error::Random(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(epsilon: &str, delta: &str, rho: &str) -> Budget {
        let parse = |text: &str| if text.is_empty() { None } else { Some(text.parse().unwrap()) };
        Budget::new(parse(epsilon), parse(delta), parse(rho)).unwrap()
    }

    fn debit(path: &Path, budget: Budget, neighbours: Neighbours) -> Result<Ledger, Error> {
        let schema = Schema::from_toml("[[column]]\nname='a'\ntype='boolean'").unwrap();
        let privacy = Privacy { neighbours, ..Privacy::new(budget) };
        Ledger::debit(path, &schema, &privacy, "x")
    }

    fn spend(path: &Path, epsilon: &str, delta: &str, rho: &str) -> Result<Ledger, Error> {
        debit(path, budget(epsilon, delta, rho), Neighbours::AddRemove)
    }

    #[test]
    fn tenths_add_up_exactly() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("budget.toml");
        std::fs::write(&path, "# ours\n[total]\nepsilon = 0.3\n").unwrap();
        for _ in 0..3 {
            spend(&path, "0.1", "", "").unwrap();
        }
        let message = spend(&path, "0.000001", "", "").err().unwrap().to_string();
        assert!(message.contains("ε = 0 left of ε = 0.3"), "{message}");
        assert!(std::fs::read_to_string(&path).unwrap().starts_with("# ours\n"));
        assert_eq!(Ledger::open(&path).unwrap().spent().len(), 3);
    }

    #[test]
    fn kinds_are_kept_apart() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str, total| {
            let path = dir.path().join(name);
            Ledger::create(&path, total).unwrap();
            path
        };
        let pure = at("pure", budget("1", "", ""));
        assert!(spend(&pure, "0.1", "1e-6", "").is_err());
        assert!(spend(&pure, "", "", "0.1").is_err());
        debit(&pure, budget("0.1", "", ""), Neighbours::Replace).unwrap();
        assert!(spend(&pure, "0.1", "", "").is_err());
        let approximate = at("approximate", budget("1", "1e-6", ""));
        spend(&approximate, "0.5", "1e-6", "").unwrap();
        assert!(spend(&approximate, "0.1", "1e-9", "").is_err());
        spend(&approximate, "0.5", "", "").unwrap();
        let concentrated = at("concentrated", budget("", "", "0.5"));
        spend(&concentrated, "1", "", "").unwrap();
        assert!(spend(&concentrated, "", "", "0.000000000001").is_err());
    }

    /// Both rounds are paid for before the first; the second can be made once, and only where it was paid for.
    #[test]
    fn a_pledge_is_redeemed_once() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ["one.toml", "two.toml"].map(|name| dir.path().join(name));
        let schema =
            Schema::from_toml("[[column]]\nname='a'\ntype='boolean'\n[[column]]\nname='b'\ntype='boolean'").unwrap();
        let privacy = Privacy::new(budget("0.5", "", ""));
        let sums = |design| crate::sums::Sketcher::new(&schema, &design).unwrap().partial().finish();
        let auto = crate::auto::Auto::default();
        let round = crate::auto::FirstRound::new(&schema, &auto, privacy).unwrap();
        let first = round.privatise(sums(crate::auto::first_round())).unwrap();
        for path in &paths {
            Ledger::create(path, budget("1", "", "")).unwrap();
        }
        let redeem = |path: &Path, first: &Release| Ledger::lock(path).unwrap().redeem(first, "x");
        assert!(redeem(&paths[0], &first).is_err(), "not paid for");
        let pledge = Ledger::lock(&paths[0]).unwrap().pledge(&schema, &privacy, "first").unwrap();
        let paid = first.clone().with_pledge(pledge);
        assert!(redeem(&paths[0], &paid).is_err(), "the ledger has not heard what was released");
        Ledger::lock(&paths[0]).unwrap().seal(&paid).unwrap();
        assert!(redeem(&paths[1], &paid).is_err(), "paid for elsewhere");
        redeem(&paths[0], &paid).unwrap();
        assert!(redeem(&paths[0], &paid).err().unwrap().to_string().contains("was made"));
        let other = first.with_pledge("0".repeat(32));
        assert!(redeem(&paths[0], &other).is_err());
        // The second round cost nothing more.
        assert_eq!(Ledger::open(&paths[0]).unwrap().left().0.to_string(), "0.5");
    }

    #[cfg(unix)]
    #[test]
    fn other_names_spend_from_the_same_ledger() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("budget.toml"), dir.path().join("link.toml"));
        Ledger::create(&path, budget("1", "", "")).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        spend(&link, "1", "", "").unwrap();
        assert!(spend(&path, "1", "", "").is_err());
        assert!(spend(&link, "1", "", "").is_err());
        std::fs::hard_link(&path, dir.path().join("other.toml")).unwrap();
        assert!(spend(&path, "1", "", "").err().unwrap().to_string().contains("hard links"));
    }
}
