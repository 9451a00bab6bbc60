//! `m2m shell`: queries, one after the other.

use std::io::{BufRead, IsTerminal, stdin};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use m2m::Schema;
use m2m::estimate::Model;
use m2m::schema::Kind;
use m2m::sql::{AGGREGATES, FUNCTIONS};
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Editor, Helper};

use super::ask::{self, Format};
use super::info;
use crate::console::{self, Mistake};

#[derive(clap::Args)]
#[command(after_help = "Examples:\n  m2m shell people.m2m\n  m2m shell people.m2m < queries.sql")]
pub struct Args {
    /// The release
    release: PathBuf,
    /// How answers are printed
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    reading: ask::Reading,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let model = args.reading.open(&args.release)?;
    let session =
        Session { model: &model, format: args.format, timing: false, draft: Draft::default(), asked: 0, failed: 0 };
    if stdin().is_terminal() { session.talk() } else { session.read(stdin().lock()) }
}

const HELP: &str = "\
Queries end with a semicolon and may span lines:
  SELECT sex, COUNT(*), AVG(age) FROM people WHERE age >= 40 GROUP BY sex;
Commands:
  \\d       the columns of the table
  \\h, \\?   this help
  \\timing  how long each query takes, on or off
  \\q       the end";

struct Session<'a> {
    model: &'a dyn Model,
    format: Format,
    timing: bool,
    /// What was typed of a query that has not ended yet.
    draft: Draft,
    asked: usize,
    failed: usize,
}

impl Session<'_> {
    /// With a person at a terminal.
    fn talk(mut self) -> anyhow::Result<()> {
        let config = Config::builder().completion_type(CompletionType::List).history_ignore_space(true).build();
        let mut editor: Editor<Words, FileHistory> = Editor::with_config(config).context("cannot use the terminal")?;
        editor.set_helper(Some(Words { schema: self.model.schema().clone() }));
        let history = history_file();
        if let Some(file) = &history {
            let _ = editor.load_history(file);
        }
        console::say!("\\h for help, \\q to leave");
        loop {
            match editor.readline(if self.draft.is_empty() { "m2m> " } else { "...> " }) {
                Ok(line) => {
                    let _ = editor.add_history_entry(line.as_str());
                    if !self.take(&line) {
                        break;
                    }
                }
                Err(ReadlineError::Interrupted) => self.draft = Draft::default(),
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(error).context("cannot read from the terminal"),
            }
        }
        // A history is a comfort: where it cannot be kept, nothing is lost.
        if let Some(file) = &history {
            let _ = file.parent().map(std::fs::create_dir_all);
            let _ = editor.save_history(file);
        }
        Ok(())
    }

    /// From a file or a pipe.
    fn read(mut self, input: impl BufRead) -> anyhow::Result<()> {
        for line in input.split(b'\n') {
            let line = line.context("cannot read the queries from standard input")?;
            let line = String::from_utf8(line)
                .map_err(|_| Mistake("the queries are not UTF-8 text; save them as UTF-8".into()))?;
            if !self.take(line.trim_end_matches('\r')) {
                return self.end();
            }
        }
        if let Some(rest) = std::mem::take(&mut self.draft).rest() {
            self.ask(&rest);
        }
        self.end()
    }

    fn end(&self) -> anyhow::Result<()> {
        match self.failed {
            0 => Ok(()),
            failed => {
                Err(Mistake(format!("{failed} of {} queries failed; correct those named above", self.asked)).into())
            }
        }
    }

    /// Takes in one line; false at the end.
    fn take(&mut self, line: &str) -> bool {
        for piece in self.draft.take(line) {
            match piece {
                Piece::Query(query) => self.ask(&query),
                Piece::Command(command) => {
                    if !self.command(&command) {
                        return false;
                    }
                }
            }
        }
        true
    }

    fn ask(&mut self, query: &str) {
        let started = Instant::now();
        self.asked += 1;
        if let Err(error) = ask::answer(self.model, query.trim(), self.format) {
            self.failed += 1;
            console::report(&error);
        }
        if self.timing {
            console::say!("Time: {:.1} ms", started.elapsed().as_secs_f64() * 1000.0);
        }
    }

    fn command(&mut self, command: &str) -> bool {
        match command {
            "\\q" => return false,
            "\\h" | "\\?" => console::show!("{HELP}"),
            "\\timing" => {
                self.timing = !self.timing;
                console::say!("timing is {}", if self.timing { "on" } else { "off" });
            }
            "\\d" => {
                for column in self.model.schema().columns() {
                    console::show!("{}", info::column_in_words(column));
                }
            }
            other => {
                self.asked += 1;
                self.failed += 1;
                console::say!("error: there is no command {other}\nhint: \\h lists them");
            }
        }
        true
    }
}

/// What was typed since the last query ended. Every character is looked at once, however many lines a query has.
#[derive(Default)]
struct Draft {
    text: String,
    /// Where the text ends.
    place: Place,
    /// Whether there is more than blanks and comments.
    says_something: bool,
}

/// Something to be done.
#[derive(Debug, PartialEq)]
enum Piece {
    Query(String),
    Command(String),
}

impl Draft {
    fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// A query without a semicolon.
    fn rest(self) -> Option<String> {
        self.says_something.then(|| self.text.trim().to_owned())
    }

    /// Takes in one line and gives out what is complete.
    fn take(&mut self, line: &str) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut at = self.text.len();
        self.text += line;
        self.text.push('\n');
        let mut text = std::mem::take(&mut self.text);
        // Where the query starts that is being read.
        let mut start = 0;
        while at < text.len() {
            let rest = &text[at..];
            let bare = self.place == Place::Text;
            if bare && rest.starts_with(';') {
                if self.says_something {
                    pieces.push(Piece::Query(text[start..at].trim().to_owned()));
                }
                at += 1;
                (start, self.says_something) = (at, false);
            } else if bare && !self.says_something && rest.starts_with('\\') {
                let end = at + 1 + rest[1..].find([';', '\\', '\n']).unwrap_or(rest.len() - 1);
                pieces.push(Piece::Command(text[at..end].trim().to_owned()));
                at = end;
                start = at;
            } else {
                let (place, length) = self.place.after(rest.as_bytes());
                let blank = rest.starts_with(|c: char| c.is_whitespace() || c == BOM);
                let comment = self.place.is_comment() || place.is_comment();
                self.says_something |= !blank && !comment;
                // All that is looked for is ASCII, so that other bytes may be passed one by one.
                at += length;
                while !text.is_char_boundary(at) {
                    at += 1;
                }
                self.place = place;
            }
        }
        if self.says_something || self.place != Place::Text {
            text.drain(..start);
            self.text = text;
        }
        pieces
    }
}

/// The mark that some editors put at the start of a file.
const BOM: char = '\u{feff}';

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Place {
    #[default]
    Text,
    Quoted(u8),
    /// To the end of the line.
    Line,
    /// Within so many `/*`.
    Block(u32),
}

impl Place {
    fn is_comment(self) -> bool {
        matches!(self, Self::Line | Self::Block(_))
    }

    /// Where a text stands behind the next of its bytes, and how many those are.
    fn after(self, rest: &[u8]) -> (Self, usize) {
        match (self, rest) {
            (Self::Text, [b'-', b'-', ..]) => (Self::Line, 2),
            (Self::Text, [b'/', b'*', ..]) => (Self::Block(1), 2),
            (Self::Text, [quote @ (b'\'' | b'"'), ..]) => (Self::Quoted(*quote), 1),
            (Self::Quoted(quote), [c, ..]) if *c == quote => (Self::Text, 1),
            (Self::Line, [b'\n', ..]) => (Self::Text, 1),
            (Self::Block(depth), [b'/', b'*', ..]) => (Self::Block(depth + 1), 2),
            (Self::Block(1), [b'*', b'/', ..]) => (Self::Text, 2),
            (Self::Block(depth), [b'*', b'/', ..]) => (Self::Block(depth - 1), 2),
            _ => (self, 1),
        }
    }
}

/// Where the text in single quotes starts that a line ends in.
fn open_quote(line: &str) -> Option<usize> {
    let (mut place, mut at, mut opened) = (Place::Text, 0, None);
    while at < line.len() {
        let (next, length) = place.after(&line.as_bytes()[at..]);
        if place != next {
            opened = (next == Place::Quoted(b'\'')).then_some(at);
        }
        (place, at) = (next, at + length);
    }
    opened
}

/// `$XDG_STATE_HOME/m2m/history`, by default in `~/.local/state`.
fn history_file() -> Option<PathBuf> {
    let given = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = given("XDG_STATE_HOME").or_else(|| given("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("m2m").join("history"))
}

const KEYWORDS: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "HAVING",
    "ORDER BY",
    "LIMIT",
    "OFFSET",
    "AS",
    "AND",
    "OR",
    "NOT",
    "IN",
    "BETWEEN",
    "LIKE",
    "ILIKE",
    "IS NULL",
    "IS NOT NULL",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "FILTER (WHERE",
    "WITHIN GROUP (ORDER BY",
    "DISTINCT",
    "ASC",
    "DESC",
    "NULLS FIRST",
    "NULLS LAST",
    "TRUE",
    "FALSE",
    "NULL",
];
const COMMANDS: &[&str] = &["\\d", "\\h", "\\q", "\\timing"];

/// What can be completed.
struct Words {
    schema: Schema,
}

impl Words {
    /// Where the word before the cursor starts, and what it can become.
    fn choices(&self, line: &str) -> (usize, Vec<String>) {
        if let Some(quote) = open_quote(line) {
            let levels = self.levels(&line[..quote]).map(|level| level.replace('\'', "''") + "'").collect();
            return (quote + 1, matching(&line[quote + 1..], levels));
        }
        let start = line
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == '\\'))
            .map_or(0, |at| at + line[at..].chars().next().map_or(1, char::len_utf8));
        let word = &line[start..];
        if word.is_empty() {
            return (start, Vec::new());
        }
        let columns = self.schema.columns().iter().map(|column| quoted(&column.name));
        let functions = AGGREGATES.iter().chain(FUNCTIONS).map(|name| format!("{}(", name.to_uppercase()));
        let others = KEYWORDS.iter().chain(COMMANDS).map(|word| word.to_string());
        (start, matching(word, columns.chain(functions).chain(others).collect()))
    }

    /// The levels of the last category that a text names, or of all.
    fn levels(&self, before: &str) -> impl Iterator<Item = &String> {
        let columns = self.schema.columns();
        let named = before
            .rsplit(|c: char| !(c.is_alphanumeric() || c == '_'))
            .filter_map(|word| columns.iter().find(|column| column.name.eq_ignore_ascii_case(word)))
            .find(|column| matches!(column.kind, Kind::Category(_)));
        columns
            .iter()
            .filter(move |column| named.is_none_or(|named| named.name == column.name))
            .filter_map(|column| if let Kind::Category(levels) = &column.kind { Some(levels) } else { None })
            .flatten()
    }
}

/// A name as it is written in a query.
fn quoted(name: &str) -> String {
    let plain =
        name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.starts_with(|c: char| c.is_numeric());
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

fn matching(start: &str, words: Vec<String>) -> Vec<String> {
    let start = start.to_lowercase();
    let begins = |word: &String| word.trim_start_matches('"').to_lowercase().starts_with(&start);
    words.into_iter().filter(begins).take(200).collect()
}

impl Completer for Words {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &rustyline::Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, words) = self.choices(&line[..at]);
        Ok((start, words.into_iter().map(|word| Pair { display: word.clone(), replacement: word }).collect()))
    }
}

impl Helper for Words {}
impl Highlighter for Words {}
impl Hinter for Words {
    type Hint = String;
}
impl Validator for Words {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces of some lines, and what is left.
    fn pieces(lines: &[&str]) -> (Vec<Piece>, Option<String>) {
        let mut draft = Draft::default();
        let pieces = lines.iter().flat_map(|line| draft.take(line)).collect();
        (pieces, draft.rest())
    }

    #[test]
    fn queries_end_at_a_bare_semicolon() {
        for (lines, expected, rest) in [
            (&["SELECT 1"][..], &[][..], Some("SELECT 1")),
            (&["SELECT 1; x"], &["SELECT 1"], Some("x")),
            (&["SELECT ';'; x;;"], &["SELECT ';'", "x"], None),
            (&["SELECT 'it''s;' ;"], &["SELECT 'it''s;'"], None),
            (&["SELECT \"a;b\";"], &["SELECT \"a;b\""], None),
            (&["-- no; ", "SELECT 1;"], &["SELECT 1"], None),
            (&["SELECT -- no;", "é'\\", "';"], &["SELECT -- no;\né'\\\n'"], None),
            (&["/* no;", "/* no; */", "no; */ x;"], &["/* no;\n/* no; */\nno; */ x"], None),
            (&["/*/ no; */ x;"], &["/*/ no; */ x"], None),
            (&["-- no;", " /* nothing */ ", "\u{feff}"], &[], None),
        ] {
            let (pieces, left) = pieces(lines);
            let expected: Vec<Piece> = expected.iter().map(|query| Piece::Query((*query).into())).collect();
            assert_eq!((pieces, left.as_deref()), (expected, rest), "{lines:?}");
        }
    }

    #[test]
    fn commands_stand_between_queries() {
        let said = pieces(&["-- first", " \\d;SELECT 1; \\timing \\?", "SELECT '\\q", "'; -- then", "\\q"]).0;
        let (query, command) = (|text: &str| Piece::Query(text.into()), |text: &str| Piece::Command(text.into()));
        let expected = [
            command("\\d"),
            query("SELECT 1"),
            command("\\timing"),
            command("\\?"),
            query("SELECT '\\q\n'"),
            command("\\q"),
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn words_are_completed() {
        let schema = Schema::from_toml(
            "[[column]]\nname='age'\ntype='integer'\nmin=0\nmax=9\n[[column]]\nname='sex'\ntype='category'\nlevels=['Female','Male']\n\
             [[column]]\nname='hours-per-week'\ntype='integer'\nmin=0\nmax=9\n[[column]]\nname='job'\ntype='category'\nlevels=['Manager']",
        )
        .unwrap();
        let words = Words { schema };
        for (line, expected) in [
            ("sel", (0, vec!["SELECT"])),
            ("SELECT AV", (7, vec!["AVG("])),
            ("SELECT AVG(ag", (11, vec!["age"])),
            ("SELECT AVG(hou", (11, vec!["\"hours-per-week\""])),
            ("WHERE sex = '", (13, vec!["Female'", "Male'"])),
            ("WHERE sex IN ('Female', 'm", (25, vec!["Male'"])),
            ("WHERE job = 'm", (13, vec!["Manager'"])),
            ("\\ti", (0, vec!["\\timing"])),
            ("", (0, vec![])),
        ] {
            let (start, got) = words.choices(line);
            assert_eq!((start, got.iter().map(String::as_str).collect()), expected, "{line}");
        }
    }
}
