//! A directory of its own, the command, and people who do not exist.

// Each test file is a crate that uses its part of this.
#![allow(dead_code)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;

/// A directory in which commands run, so that messages name files as a person would type them.
pub struct Desk(tempfile::TempDir);

impl Desk {
    /// With `schema.toml` and, as `people.csv`, the first few people.
    pub fn new() -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        desk.put("schema.toml", SCHEMA).put("people.csv", csv(&people(40)));
        desk
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Self {
        fs::write(self.path(name), bytes).unwrap();
        self
    }

    pub fn get(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub fn text(&self, name: &str) -> String {
        String::from_utf8(self.get(name)).unwrap()
    }

    pub fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// All names in the directory, hidden ones too.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The command with arguments separated by blanks.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_m2m"));
        command.args(line.split_whitespace());
        self.settle(&mut command);
        command
    }

    /// The command as from a keyboard, where Ctrl-C is heard: what a script starts in the background has it ignored.
    pub fn at_keyboard(&self, line: &str) -> Command {
        let mut command = Command::new("env");
        command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_m2m")]).args(line.split_whitespace());
        self.settle(&mut command);
        command
    }

    /// A line of bash in which `m2m` is the command.
    pub fn bash(&self, line: &str) -> Command {
        let mut command = Command::new("bash");
        command.args(["-c", &format!("m2m() {{ '{}' \"$@\"; }}; {line}", env!("CARGO_BIN_EXE_m2m"))]);
        command.env("M2M", env!("CARGO_BIN_EXE_m2m"));
        self.settle(&mut command);
        command
    }

    fn settle(&self, command: &mut Command) {
        command.current_dir(self.0.path()).env_remove("RUST_BACKTRACE").env_remove("COLUMNS").stdin(Stdio::null());
    }

    pub fn m2m(&self, line: &str) -> Outcome {
        Outcome::of(&mut self.command(line))
    }

    /// The command with something on standard input.
    pub fn feed(&self, line: &str, input: &[u8]) -> Outcome {
        let mut command = self.command(line);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("m2m starts");
        let mut stdin = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // The command may refuse before it has read everything.
                let _ = stdin.write_all(input);
            });
            child.wait_with_output().unwrap().into()
        })
    }

    /// Runs a command that must refuse its input: exit code 2, nothing on standard output, no file touched. What it
    /// said.
    pub fn refused(&self, line: &str) -> String {
        let before = self.contents();
        let outcome = self.m2m(line);
        assert_eq!(outcome.code, Some(2), "m2m {line}: {outcome:?}");
        assert_eq!(outcome.stdout, "", "m2m {line}");
        assert!(self.contents() == before, "m2m {line} left something behind: {:?}", self.names());
        outcome.stderr
    }

    /// Every file with its bytes.
    pub fn contents(&self) -> Vec<(String, Vec<u8>)> {
        let files = self.names().into_iter().filter(|name| self.path(name).is_file());
        files.map(|name| (name.clone(), self.get(&name))).collect()
    }
}

/// How a command ended and what it said.
#[derive(Debug)]
pub struct Outcome {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<std::process::Output> for Outcome {
    fn from(output: std::process::Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("m2m speaks UTF-8");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Outcome {
    pub fn of(command: &mut Command) -> Self {
        command.output().expect("the command starts").into()
    }

    /// It must have succeeded.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// Everything it said.
    pub fn said(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

/// Cases with what is said of each, as a person would see them one after the other.
pub fn transcript(cases: &[&str], said: impl Fn(&str) -> String) -> String {
    let show = |case: &str| case.replace('\n', "⏎").replace('\r', "␍");
    cases.iter().map(|case| format!("> {}\n{}\n\n", show(case), trim(&said(case)))).collect()
}

/// Without blanks at the ends of lines, which an inline snapshot cannot show.
pub fn trim(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Replaces what stands between two texts by `…`, everywhere.
pub fn mask(text: &str, before: &str, after: &str) -> String {
    let mut parts = text.split(before);
    let mut masked = parts.next().unwrap_or("").to_owned();
    for part in parts {
        let end = part.find(after).expect("the text after is there");
        masked += &format!("{before}…{}", &part[end..]);
    }
    masked
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// What is public about the people.
pub const SCHEMA: &str = r#"[[column]]
name = "age"
type = "integer"
min = 0
max = 120

[[column]]
name = "height"
type = "number"
min = 100
max = 230

[[column]]
name = "income"
type = "number"
min = 0
max = 1000000
transform = "log1p"
atoms = [0]
nullable = true

[[column]]
name = "town"
type = "category"
levels = ["north", "south", "in, between"]
nullable = true
missing = ["?"]

[[column]]
name = "smoker"
type = "boolean"
nullable = true

[[column]]
name = "born"
type = "date"
min = "1900-01-01"
max = "2025-12-31"

[[column]]
name = "seen"
type = "datetime"
min = "2020-01-01T00:00:00Z"
max = "2026-01-01T00:00:00Z"
"#;

pub const COLUMNS: [&str; 7] = ["age", "height", "income", "town", "smoker", "born", "seen"];

/// One row, exact in every format: heights are quarters, incomes whole cents.
#[derive(Clone)]
pub struct Person {
    pub age: i64,
    pub height: f64,
    pub cents: Option<i64>,
    pub town: Option<&'static str>,
    pub smoker: Option<bool>,
    /// Days from 1970-01-01.
    pub born: i32,
    /// Seconds from 1970-01-01.
    pub seen: i64,
}

/// The same people every time; some cells are missing, out of bounds or unlisted.
pub fn people(count: usize) -> Vec<Person> {
    let mut random = Random(1);
    (0..count)
        .map(|_| Person {
            age: random.below(125) as i64,
            height: 95.0 + random.below(560) as f64 / 4.0,
            cents: (random.below(10) > 0).then(|| random.below(20_000_000) as i64 * (random.below(8) > 0) as i64),
            town: [Some("north"), Some("south"), Some("in, between"), Some("elsewhere"), None][random.below(5)],
            smoker: [Some(true), Some(false), None][random.below(3)],
            born: random.below(20_000) as i32 - 1_000,
            seen: 1_577_836_800 + random.below(200_000_000) as i64,
        })
        .collect()
}

impl Person {
    /// The fields in the order of [`COLUMNS`]; nothing where a cell is missing.
    pub fn fields(&self) -> [Option<String>; 7] {
        [
            Some(self.age.to_string()),
            Some(self.height.to_string()),
            self.cents.map(|cents| format!("{}.{:02}", cents / 100, cents % 100)),
            self.town.map(str::to_owned),
            self.smoker.map(|smoker| smoker.to_string()),
            Some(iso_date(i64::from(self.born))),
            Some(iso_moment(self.seen)),
        ]
    }
}

/// Civil date of a day count, after Howard Hinnant's `civil_from_days`.
pub fn iso_date(days: i64) -> String {
    let z = days + 719_468;
    let (era, of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

pub fn iso_moment(seconds: i64) -> String {
    let (day, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    format!("{}T{:02}:{:02}:{:02}Z", iso_date(day), rest / 3600, rest / 60 % 60, rest % 60)
}

/// The plainest CSV, with quotes only where a field holds the delimiter.
pub fn csv(people: &[Person]) -> String {
    let mut text = COLUMNS.join(",") + "\n";
    for person in people {
        let fields = person.fields().map(|field| {
            let field = field.unwrap_or_default();
            if field.contains(',') { format!("\"{field}\"") } else { field }
        });
        text += &(fields.join(",") + "\n");
    }
    text
}

/// SplitMix64, so that every run tests the same things.
pub struct Random(pub u64);

impl Random {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.word() % n as u64) as usize
    }
}

/// Who may do what with a file.
pub fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}
