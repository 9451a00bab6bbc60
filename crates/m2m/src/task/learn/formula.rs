//! Formulas: which columns explain which.

use std::collections::BTreeSet;

use faer::Mat;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::term::Stretch;
use crate::estimate::Sample;
use crate::expr::{Checked, Expr, Type, col, lit};
use crate::schema::Kind;
use crate::{Error, Schema, sql};

/// The name of the constant column.
pub const INTERCEPT: &str = "(intercept)";

/// More columns than this are refused: a design of as many points as are usual would not fit into memory.
const MAX_COLUMNS: usize = 500;

/// What is explained and by what, such as `income ~ age + sex + log(hours) + age:sex`, bound to a schema.
///
/// Right of `~` stand terms with `+` between them. `.` is every column that is not on the left, `- term` takes a term
/// out again, `- 1` or `+ 0` the intercept, `a:b` multiplies, and anything that is an SQL expression of one row is a
/// term too: `age * age`, `I(a + b)`, `hours > 40`. Names that are not plain words stand in double quotes.
///
/// A number is one column in its own unit, a truth one column of 0 and 1, a category one column of 0 and 1 for each
/// level but the first (for each level, in the first category of a formula without intercept). Rows in which something
/// that is needed is missing, or a category has a level that the schema does not list, are left out.
#[derive(Clone, Debug)]
pub struct Formula {
    text: String,
    response: Response,
    factors: Vec<Factor>,
    terms: Vec<Vec<usize>>,
    intercept: bool,
    names: Vec<String>,
    columns: Vec<usize>,
}

/// The left side of a formula.
#[derive(Clone, Debug)]
pub struct Response {
    name: String,
    function: Checked,
    outcome: Outcome,
}

/// What a response can be.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A number.
    Number,
    /// One of these classes; a truth has `false` and `true`.
    Class(Vec<String>),
}

#[derive(Clone, Debug)]
struct Factor {
    name: String,
    /// A number, a truth, or the place of a level.
    function: Checked,
    levels: Option<Vec<String>>,
    /// Whether the first level has a column too.
    full: bool,
}

/// Rows as a formula sees them.
pub struct Encoded {
    /// A row per row of data, a column per name of the formula; zeros in rows that are left out.
    pub design: Mat<f64>,
    /// The response: a number, or the place of the class; 0 in rows that are left out.
    pub response: Vec<f64>,
    /// Whether everything needed is there.
    pub complete: Vec<bool>,
}

impl Formula {
    /// Reads a formula and binds it to the columns of a schema.
    pub fn parse(text: &str, schema: &Schema) -> Result<Self, Error> {
        let text = sql::without_bom(text).trim();
        let tokens = sql::formula_tokens(text)?;
        let (end, tokens) = tokens.split_last().expect("the end is a token");
        let is_tilde = |token: &TokenWithSpan| token.token == Token::Tilde;
        let all = Stretch { formula: text, before: None, tokens, end };
        let tilde = tokens.iter().position(is_tilde).ok_or_else(|| all.wants("~, as in y ~ a + b"))?;
        let left = Stretch { tokens: &tokens[..tilde], end: &tokens[tilde], ..all };
        let right = Stretch { tokens: &tokens[tilde + 1..], ..all };
        if let Some(second) = right.tokens.iter().find(|token| is_tilde(token)) {
            return Err(Stretch { end: second, ..right }.wants("one ~ only"));
        }
        let response = Response::new(left, schema)?;
        let mut formula = Self {
            text: text.to_owned(),
            columns: response.function.columns(),
            response,
            factors: Vec::new(),
            terms: Vec::new(),
            intercept: true,
            names: Vec::new(),
        };
        for (positive, term) in split_terms(right)? {
            formula.take(positive, term, schema)?;
        }
        formula.finish()
    }

    /// The formula as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The left side.
    pub fn response(&self) -> &Response {
        &self.response
    }

    /// The names of the columns of the design; [`INTERCEPT`] is the first if there is one.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether there is a constant column.
    pub fn has_intercept(&self) -> bool {
        self.intercept
    }

    /// The columns of the schema that are read, in increasing order.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The points of a sample as the formula sees them.
    pub fn encode(&self, sample: &dyn Sample) -> Encoded {
        let response = sample.values(&self.response.function);
        let known: Vec<bool> = response.iter().map(|y| y.is_finite()).collect();
        let (design, complete) = self.terms_of(sample, known);
        let mut kept = vec![0.0; response.len()];
        fill(&mut kept, &complete, |row| response[row]);
        Encoded { design, response: kept, complete }
    }

    /// The right side of the formula alone, for rows whose response is not known: the design, and in which rows
    /// everything needed is there.
    pub fn design(&self, sample: &dyn Sample) -> (Mat<f64>, Vec<bool>) {
        self.terms_of(sample, vec![true; sample.len()])
    }

    /// The columns of the schema that the right side reads, in increasing order.
    pub fn inputs(&self) -> Vec<usize> {
        let all: BTreeSet<usize> = self.factors.iter().flat_map(|factor| factor.function.columns()).collect();
        all.into_iter().collect()
    }

    /// The design over the rows of which something else is known already.
    fn terms_of(&self, sample: &dyn Sample, known: Vec<bool>) -> (Mat<f64>, Vec<bool>) {
        let values: Vec<Vec<f64>> = self.factors.iter().map(|factor| sample.values(&factor.function)).collect();
        let complete: Vec<bool> = known
            .into_iter()
            .enumerate()
            .map(|(row, known)| known && values.iter().all(|values| values[row].is_finite()))
            .collect();
        let mut design = Mat::zeros(complete.len(), self.names.len());
        let mut at = 0;
        if self.intercept {
            fill(design.col_as_slice_mut(0), &complete, |_| 1.0);
            at = 1;
        }
        for term in &self.terms {
            if term.iter().any(|factor| self.factors[*factor].first() == self.factors[*factor].end()) {
                continue;
            }
            // Each combination of levels, the last factor's turning fastest.
            let firsts: Vec<usize> = term.iter().map(|factor| self.factors[*factor].first()).collect();
            let mut levels = firsts.clone();
            'combinations: loop {
                fill(design.col_as_slice_mut(at), &complete, |row| {
                    term.iter()
                        .zip(&levels)
                        .map(|(factor, level)| match self.factors[*factor].levels {
                            Some(_) => f64::from(values[*factor][row] == *level as f64),
                            None => values[*factor][row],
                        })
                        .product()
                });
                at += 1;
                for place in (0..term.len()).rev() {
                    levels[place] += 1;
                    if levels[place] < self.factors[term[place]].end() {
                        continue 'combinations;
                    }
                    levels[place] = firsts[place];
                }
                break;
            }
        }
        (design, complete)
    }

    /// Adds a term, or takes it out again.
    fn take(&mut self, positive: bool, term: Stretch<'_>, schema: &Schema) -> Result<(), Error> {
        match term.text().as_str() {
            "1" => self.intercept = positive,
            "0" if positive => self.intercept = false,
            "." if positive => {
                for (index, column) in schema.columns().iter().enumerate() {
                    if !self.response.function.columns().contains(&index) {
                        let factor = Factor::new(column.name.clone(), &col(&column.name), schema)?;
                        self.add(vec![factor]);
                    }
                }
            }
            "." => return Err(fail("nothing is left without `.`; leave out single terms, as in y ~ . - a".into())),
            _ => {
                let factors = split(term, |token| *token == Token::Colon)
                    .into_iter()
                    .map(|factor| Factor::new(factor.text(), &factor.parse()?, schema))
                    .collect::<Result<Vec<_>, _>>()?;
                let own = |factor: &Factor| factor.name == self.response.name;
                if let Some(factor) = factors.iter().find(|factor| own(factor)) {
                    return Err(fail(format!("`{}` is on both sides of ~; leave it out on the right", factor.name)));
                }
                if positive {
                    self.add(factors);
                } else {
                    let places = self.places(factors);
                    let before = self.terms.len();
                    self.terms.retain(|other| *other != places);
                    if self.terms.len() == before {
                        return Err(fail(format!("there is no term `{}` to take out; leave out the `-`", term.text())));
                    }
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, factors: Vec<Factor>) {
        let term = self.places(factors);
        if !self.terms.contains(&term) {
            self.terms.push(term);
        }
    }

    /// Where the factors of a term are kept; each only once.
    fn places(&mut self, factors: Vec<Factor>) -> Vec<usize> {
        let mut places = Vec::new();
        for factor in factors {
            let known = self.factors.iter().position(|other| other.function == factor.function);
            places.push(known.unwrap_or(self.factors.len()));
            if known.is_none() {
                self.factors.push(factor);
            }
        }
        places.sort_unstable();
        places
    }

    /// Forgets factors of terms that were taken out, and names the columns.
    fn finish(mut self) -> Result<Self, Error> {
        let used: Vec<usize> =
            (0..self.factors.len()).filter(|at| self.terms.iter().flatten().any(|f| f == at)).collect();
        self.factors = used.iter().map(|at| self.factors[*at].clone()).collect();
        for place in self.terms.iter_mut().flatten() {
            *place = used.binary_search(place).expect("every factor of a term is used");
        }
        if !self.intercept {
            let main = self.terms.iter().filter(|term| term.len() == 1).map(|term| term[0]);
            if let Some(category) = main.into_iter().find(|factor| self.factors[*factor].levels.is_some()) {
                self.factors[category].full = true;
            }
        }
        let width = |term: &Vec<usize>| {
            term.iter().map(|f| self.factors[*f].end() - self.factors[*f].first()).fold(1, usize::saturating_mul)
        };
        let count = self.terms.iter().map(width).fold(usize::from(self.intercept), usize::saturating_add);
        if count > MAX_COLUMNS {
            return Err(fail(format!(
                "the formula makes {count} columns, more than {MAX_COLUMNS}; leave out categories with many levels"
            )));
        }
        if count == 0 {
            return Err(fail("nothing is right of ~; write 1 for the intercept alone".into()));
        }
        self.names.extend(self.intercept.then(|| INTERCEPT.to_owned()));
        for term in &self.terms {
            let mut names = vec![String::new()];
            for factor in term.iter().map(|at| &self.factors[*at]) {
                let between = |name: &String| if name.is_empty() { String::new() } else { format!("{name}:") };
                names = names
                    .iter()
                    .flat_map(|name| factor.names().into_iter().map(move |own| format!("{}{own}", between(name))))
                    .collect();
            }
            self.names.extend(names);
        }
        for factor in &self.factors {
            self.columns.extend(factor.function.columns());
        }
        self.columns.sort_unstable();
        self.columns.dedup();
        Ok(self)
    }
}

impl Response {
    fn new(left: Stretch<'_>, schema: &Schema) -> Result<Self, Error> {
        if left.is_blank() {
            return Err(left.wants("what is to be explained, as in y ~ a + b"));
        }
        let Factor { name, function, levels, .. } = Factor::new(left.text(), &left.parse()?, schema)?;
        let outcome = match (levels, function.kind()) {
            (Some(levels), _) => Outcome::Class(levels),
            (None, Type::Boolean) => Outcome::Class(vec!["false".into(), "true".into()]),
            (None, _) => Outcome::Number,
        };
        Ok(Self { name, function, outcome })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The lowest value that the schema lets it have, as far as it is found.
    pub(super) fn lowest(&self, schema: &Schema) -> Option<f64> {
        self.function.lowest(schema)
    }

    /// What it can be.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }
}

impl Factor {
    fn new(text: String, expr: &Expr, schema: &Schema) -> Result<Self, Error> {
        let function = expr.check(schema)?;
        let column = match (expr, &function.columns()[..]) {
            (Expr::Column(_), [column]) => Some(&schema.columns()[*column]),
            _ => None,
        };
        let name = column.map_or(text, |column| column.name.clone());
        match (function.kind(), column.map(|column| &column.kind)) {
            (Type::Text, Some(Kind::Category(levels))) => {
                let place = |(at, level): (usize, &String)| (col(&name).eq(lit(level.as_str())), lit(at as f64));
                let branches = levels.iter().enumerate().map(place).collect();
                let function = Expr::Case { branches, otherwise: None }.check(schema)?;
                Ok(Self { name, function, levels: Some(levels.clone()), full: false })
            }
            (Type::Text, _) => Err(fail(format!("`{name}` is a text; use a category by itself, or a condition on it"))),
            (Type::Null, _) => Err(fail(format!("`{name}` is always null; leave it out"))),
            (_, None) if function.columns().is_empty() => {
                Err(fail(format!("`{name}` is the same in all rows; use a column, or 1 for the intercept")))
            }
            _ => Ok(Self { name, function, levels: None, full: false }),
        }
    }

    /// The first level that has a column.
    fn first(&self) -> usize {
        usize::from(self.levels.is_some() && !self.full)
    }

    /// One past the last.
    fn end(&self) -> usize {
        self.levels.as_ref().map_or(1, Vec::len)
    }

    fn names(&self) -> Vec<String> {
        match &self.levels {
            Some(levels) => levels[self.first()..].iter().map(|level| format!("{}[{level}]", self.name)).collect(),
            None => vec![self.name.clone()],
        }
    }
}

fn fail(message: String) -> Error {
    Error::Question(message)
}

fn fill(column: &mut [f64], complete: &[bool], value: impl Fn(usize) -> f64) {
    for (row, cell) in column.iter_mut().enumerate() {
        *cell = if complete[row] { value(row) } else { 0.0 };
    }
}

/// The terms with whether they are added or taken out.
fn split_terms(right: Stretch<'_>) -> Result<Vec<(bool, Stretch<'_>)>, Error> {
    let mut terms = Vec::new();
    for term in split(right, |token| matches!(token, Token::Plus | Token::Minus)) {
        match (term.before, term.is_blank()) {
            (None, true) => {}
            (Some(sign), true) => return Err(term.wants(&format!("a term behind {sign}"))),
            (sign, false) => terms.push((sign.is_none_or(|sign| sign.token == Token::Plus), term)),
        }
    }
    if terms.is_empty() {
        return Err(right.wants("terms behind ~ (1 for the intercept alone, . for all columns)"));
    }
    Ok(terms)
}

/// The stretches between separators that stand in no bracket and no CASE.
fn split(whole: Stretch<'_>, separates: impl Fn(&Token) -> bool) -> Vec<Stretch<'_>> {
    let mut depth = 0i32;
    // After an operator, a sign belongs to the number that follows.
    let mut operand = true;
    let mut stretches = Vec::new();
    let (mut before, mut start) = (whole.before, 0);
    for (at, token) in whole.tokens.iter().enumerate() {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::Word(word) if word.keyword == Keyword::CASE => depth += 1,
            Token::Word(word) if word.keyword == Keyword::END => depth -= 1,
            _ => {}
        }
        if depth == 0 && operand && separates(&token.token) {
            stretches.push(Stretch { before, tokens: &whole.tokens[start..at], end: token, ..whole });
            (before, start) = (Some(token), at + 1);
        }
        if !sql::is_blank(token) {
            operand = !matches!(
                token.token,
                Token::Mul
                    | Token::Div
                    | Token::Caret
                    | Token::Lt
                    | Token::Gt
                    | Token::LtEq
                    | Token::GtEq
                    | Token::Eq
                    | Token::Neq
            );
        }
    }
    stretches.push(Stretch { before, tokens: &whole.tokens[start..], ..whole });
    stretches
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = "[[column]]\nname='age'\ntype='integer'\nmin=0\nmax=100\n\
        [[column]]\nname='hours-per-week'\ntype='number'\nmin=0\nmax=100\n\
        [[column]]\nname='edu'\ntype='category'\nlevels=['A','B','C']\n\
        [[column]]\nname='sex'\ntype='category'\nlevels=['Female','Male']\n\
        [[column]]\nname='smoker'\ntype='boolean'";

    fn names(text: &str) -> Result<Vec<String>, Error> {
        Formula::parse(text, &Schema::from_toml(SCHEMA).unwrap()).map(|formula| formula.names)
    }

    #[test]
    fn columns_are_named_as_in_r() {
        for (text, expected) in [
            ("age ~ .", "(intercept) hours-per-week edu[B] edu[C] sex[Male] smoker"),
            ("age ~ . - edu - smoker", "(intercept) hours-per-week sex[Male]"),
            ("log(age) ~ . - edu -sex", "(intercept) hours-per-week smoker"),
            ("age ~ edu + sex - 1", "edu[A] edu[B] edu[C] sex[Male]"),
            ("age ~ 0 + smoker", "smoker"),
            ("age ~ 1", "(intercept)"),
            ("smoker ~ sex:age + age:sex", "(intercept) sex[Male]:age"),
            ("smoker ~ edu:sex", "(intercept) edu[B]:sex[Male] edu[C]:sex[Male]"),
            ("smoker ~ AGE + age", "(intercept) age"),
            ("sex ~ I(age+1)+age*-2", "(intercept) I(age+1) age*-2"),
            ("sex ~ log(\"hours-per-week\" + 1) + age^2", "(intercept) log(\"hours-per-week\" + 1) age^2"),
            (
                "sex ~ CASE WHEN age > 1e-5 THEN 1 + age ELSE 0 END",
                "(intercept) CASE WHEN age > 1e-5 THEN 1 + age ELSE 0 END",
            ),
            ("edu = 'A' ~ age > 40", "(intercept) age > 40"),
        ] {
            let shown: Vec<String> = names(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(shown.join(" "), expected, "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("", "expected ~, as in y ~ a + b, found the end"),
            ("age", "expected ~, as in y ~ a + b, found the end"),
            ("age ~ sex ~ edu", "column 11: expected one ~ only, found ~"),
            ("~ age", "column 1: expected what is to be explained, as in y ~ a + b, found ~"),
            ("age + ~ sex", "column 7: expected an expression, found ~"),
            (
                "age ~",
                "column 6: expected terms behind ~ (1 for the intercept alone, . for all columns), found the end",
            ),
            ("age ~ 0", "nothing is right"),
            ("age ~ sexx", "did you mean `sex`?"),
            ("agee ~ sex", "did you mean `age`?"),
            ("age ~ age", "both sides"),
            ("\u{feff} age ~ sex + ", "column 12: expected a term behind +, found the end"),
            ("age ~ sex + + edu", "column 13: expected a term behind +, found +"),
            ("age ~ sex: + edu", "column 12: expected an expression, found +"),
            ("age ~ sex - edu", "no term `edu`"),
            ("age ~ sex smoker", "column 11: expected + between terms, found smoker"),
            (
                "age ~ (smoker",
                "column 14: expected ), found the end; correct it here:\n  age ~ (smoker\n               ^",
            ),
            ("age ~ smoker)", "column 13: expected + between terms, found )"),
            ("age ~ foo(sex)", "no function `foo`"),
            ("age ~ 2", "same in all rows"),
            ("age ~ edu * sex", "needs numbers"),
            ("age ~ 'x", "cannot be read"),
            ("age ~ (SELECT 1)", "not possible"),
            ("edu = 'D' ~ age", "no level `D`"),
        ] {
            let message = names(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
