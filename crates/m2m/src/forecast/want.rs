//! What a curator wants to know how well, in words: `mean(age) ± 1%`.

use super::Question;
use crate::expr::{find_column, nearest};
use crate::{Error, Schema};

/// A question and the standard error that its answer should have at most.
#[derive(Clone, Debug, PartialEq)]
pub struct Want {
    /// As it was written.
    pub text: String,
    /// The question.
    pub question: Question,
    /// The error: in units of the column for a mean, in rows for the number of rows, otherwise a part of 1.
    pub error: f64,
}

const WORDS: [&str; 6] = ["rows", "mean", "cdf", "share", "corr", "count"];

impl Want {
    /// Reads `question ± error`, where `+-` does for `±`. Questions are `rows`, `mean(column)`, `cdf(column)`,
    /// `share(column)`, `corr(column, column)` and `count(column, …)` of up to three columns. An error in percent is one of
    /// the range for a mean, of the rows for `rows`, and otherwise of 1. Names with odd characters stand in double quotes.
    pub fn parse(text: &str, schema: &Schema, rows: u64) -> Result<Self, Error> {
        let mut reader = Reader { text, at: 0 };
        let (start, word) = reader.word(&['(', '±', '+']);
        let Some(kind) = WORDS.iter().find(|known| word.eq_ignore_ascii_case(known)) else {
            let known = "rows, mean, cdf, share, corr or count";
            return Err(match nearest(word, WORDS.into_iter()) {
                _ if word.is_empty() => reader.wrong(start, &format!("expected {known}")),
                Some(near) => reader.wrong(start, &format!("there is no question `{word}`, but there is `{near}`")),
                None => reader.wrong(start, &format!("there is no question `{word}`, there are {known}")),
            });
        };
        let (columns_start, columns) = reader.columns(*kind == "rows")?;
        let columns: Vec<usize> = columns.iter().map(|name| find_column(schema, name)).collect::<Result<_, Error>>()?;
        if let Some((_, twice)) = columns.iter().enumerate().find(|(i, column)| columns[..*i].contains(column)) {
            let name = &schema.columns()[*twice].name;
            return Err(reader.wrong(columns_start, &format!("column `{name}` is named twice")));
        }
        let width = |column: usize| schema.columns()[column].kind.range().map(|range| range.max() - range.min());
        if let ("mean" | "cdf" | "corr", Some(column)) =
            (*kind, columns.iter().find(|column| width(**column).is_none()))
        {
            let name = &schema.columns()[*column].name;
            return Err(Error::Question(format!(
                "`{name}` holds levels, so it has no {kind}; ask for share({name}), or name a numeric column"
            )));
        }
        // A percentage is one of this.
        let (question, whole) = match (*kind, &columns[..]) {
            ("rows", []) => (Question::Rows, rows as f64),
            ("mean", [column]) => (Question::Mean(*column), width(*column).expect("it is numeric")),
            ("cdf", [column]) => (Question::Cdf(*column), 1.0),
            ("share", [_]) | ("count", [_] | [_, _] | [_, _, _]) => (Question::Count(columns), 1.0),
            ("corr", [a, b]) => (Question::Correlation([*a, *b]), 1.0),
            _ => {
                let takes = match *kind {
                    "rows" => "rows has no columns",
                    "corr" => "corr is of two columns",
                    "count" => "count is of one to three columns",
                    _ => "this is of one column",
                };
                return Err(reader.wrong(columns_start, takes));
            }
        };
        let error = reader.error()?;
        Ok(Self {
            text: text.trim().to_owned(),
            question,
            error: error.unwrap_or_else(|percent| percent / 100.0 * whole),
        })
    }
}

/// A place in the text that is read.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Where the next thing begins, and the text up to one of some characters, without blanks around it.
    fn word(&mut self, ends: &[char]) -> (usize, &'a str) {
        self.skip_blanks();
        let start = self.at;
        self.at += self.rest().find(ends).unwrap_or(self.rest().len());
        (start, self.text[start..self.at].trim_end())
    }

    fn take(&mut self, what: &str) -> bool {
        self.skip_blanks();
        let found = self.rest().starts_with(what);
        if found {
            self.at += what.len();
        }
        found
    }

    /// The names between parentheses, and where they begin.
    fn columns(&mut self, optional: bool) -> Result<(usize, Vec<String>), Error> {
        let mut names = Vec::new();
        if !self.take("(") {
            return if optional { Ok((self.at, names)) } else { Err(self.expected("(")) };
        }
        self.skip_blanks();
        let start = self.at;
        if optional && self.take(")") {
            return Ok((start, names));
        }
        loop {
            names.push(self.name()?);
            if self.take(")") {
                return Ok((start, names));
            }
            if !self.take(",") {
                return Err(self.expected(", or )"));
            }
        }
    }

    fn name(&mut self) -> Result<String, Error> {
        if !self.take("\"") {
            let (_, name) = self.word(&[',', '(', ')', '"', '±']);
            return if name.is_empty() { Err(self.expected("a column")) } else { Ok(name.to_owned()) };
        }
        let mut name = String::new();
        loop {
            let Some(end) = self.rest().find('"') else {
                self.at = self.text.len();
                return Err(self.expected("\""));
            };
            name += &self.rest()[..end];
            self.at += end + 1;
            // Two quotes within a name stand for one.
            if !self.rest().starts_with('"') {
                return Ok(name);
            }
            name.push('"');
            self.at += 1;
        }
    }

    /// A number, or a percentage.
    fn error(&mut self) -> Result<Result<f64, f64>, Error> {
        if !["±", "+-", "+/-"].into_iter().any(|sign| self.take(sign)) {
            return Err(self.expected("±"));
        }
        let (start, number) = self.word(&['%']);
        let percent = self.take("%");
        match number.parse::<f64>() {
            _ if !self.rest().trim().is_empty() => Err(self.expected("the end")),
            Ok(error) if error > 0.0 && error.is_finite() => Ok(if percent { Err(error) } else { Ok(error) }),
            _ => Err(self.wrong(start, "expected a number above 0, such as 0.5 or 1%")),
        }
    }

    fn expected(&mut self, what: &str) -> Error {
        self.skip_blanks();
        let found = match self.rest().chars().next() {
            Some(found) => format!("`{found}`"),
            None => "the end".into(),
        };
        self.wrong(self.at, &format!("expected {what}, found {found}"))
    }

    /// A mistake at a place.
    fn wrong(&self, at: usize, problem: &str) -> Error {
        let before: String = self.text[..at].chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let column = before.chars().count();
        let shown: String = self.text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Error::Question(format!(
            "column {}: {problem}; correct it here:\n  {shown}\n  {}^",
            column + 1,
            " ".repeat(column)
        ))
    }
}
