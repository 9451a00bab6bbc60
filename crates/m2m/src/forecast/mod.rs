//! What a release will be able to tell, before there is one.
//!
//! ```text
//! Schema ──► Populations (invented) ──────────────────────────────────────┐
//! Release of a table much like this one ──► Populations (drawn from it) ──┴─► sums
//!                                                                              │
//!                 Expected ◄── fit::Fit ◄── noise as large as the budget asks for
//! ```
//!
//! A forecast needs no data and spends nothing: it rehearses the release on rows that are invented from the schema,
//! with the number of rows that the curator expects, and looks at the errors of typical answers. They depend on the
//! noise, which is known exactly, and on the rows, of which three stand-ins have different shapes: a forecast for one
//! question can be wrong by a factor of two or three. In the mean over questions of a kind, on eleven public tables,
//! six in seven forecasts of means, shares and numbers of rows were within a factor of 1.5 and nearly all within 2; of
//! the others three in five and six in seven (`m2m-bench plan`). Numbers that are rounded to few values, of which a
//! schema tells nothing, make distribution functions and counts several times worse. A release of a table that is much
//! like the one to come tells such things ([`Forecaster::like`]): on four public tables and six budgets, more
//! than nine in ten of the forecasts for a kind of question were then within a factor of 1.5, and all within 2.
//!
//! ```
//! use m2m::forecast::{Choice, Forecaster, Want};
//! use m2m::privatise::{Budget, Privacy};
//!
//! let schema = m2m::Schema::from_toml(
//!     "[[column]]\nname = 'age'\ntype = 'integer'\nmin = 0\nmax = 100\n[[column]]\nname = 'smoker'\ntype = 'boolean'",
//! )?;
//! let forecaster = Forecaster::new(&schema, 50_000)?;
//! let privacy = Privacy::new(Budget::pure("1".parse()?)?);
//! let want = Want::parse("mean(age) ± 1%", &schema, 50_000)?;
//! let expected = forecaster.errors(&Choice::Auto, privacy, &[want.question.clone()])?;
//! assert!(expected[0].std_error < want.error);
//! let needed = forecaster.smallest_epsilon(&Choice::Auto, privacy, &[want])?;
//! assert!(needed.epsilon < "1".parse()?);
//! # Ok::<(), m2m::Error>(())
//! ```
//!
//! # Privacy
//! No row of a real table is near: rows are invented, or drawn from a release, which is public. The noise of a rehearsal
//! comes from public random numbers and goes to plain numbers of such rows; [`Sums`](crate::Sums) cannot be given it.

mod population;
mod want;

pub use population::Population;
pub use want::Want;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use crate::auto::{Auto, noised_marginals, second_design, with_tables};
use crate::estimate::{Caution, Estimate};
use crate::feature::MapSpec;
use crate::fit::{Fit, Options};
use crate::privatise::{Budget, Mechanism, Plan, PlannedBlock, Privacy};
use crate::release::Release;
use crate::stream::PublicStream;
use crate::sums::public;
use crate::synth::Synthesis;
use crate::{Decimal, Design, Error, Schema};

use population::STAND_INS;

/// A question of which the error is foretold. Columns are given by their places in the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// How many rows there are.
    Rows,
    /// The mean of a numeric column, in its units.
    Mean(usize),
    /// The part of the rows at or below a value of a numeric column.
    Cdf(usize),
    /// The correlation of two numeric columns.
    Correlation([usize; 2]),
    /// The part of the rows that meet a condition on each of some columns: a level, or an interval of numbers.
    Count(Vec<usize>),
}

impl Question {
    /// What people usually ask of a table: its number of rows, mean and distribution function of each numeric column, the
    /// share of each level, correlations, and counts over two and three columns. Of pairs and triples there are a few.
    pub fn typical(schema: &Schema) -> Vec<Self> {
        let all: Vec<usize> = (0..schema.columns().len()).collect();
        let (numeric, levels): (Vec<usize>, Vec<usize>) =
            all.iter().partition(|column| schema.columns()[**column].kind.range().is_some());
        let mut questions = vec![Self::Rows];
        questions.extend(numeric.iter().copied().map(Self::Mean));
        questions.extend(numeric.iter().copied().map(Self::Cdf));
        questions.extend(levels.iter().map(|column| Self::Count(vec![*column])));
        questions.extend(groups(&numeric, 2).into_iter().map(|pair| Self::Correlation([pair[0], pair[1]])));
        questions.extend(groups(&all, 2).into_iter().map(Self::Count));
        questions.extend(groups(&all, 3).into_iter().map(Self::Count));
        questions
    }

    /// The kind of question, in words.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Mean(_) => "mean",
            Self::Cdf(_) => "cdf",
            Self::Correlation(_) => "correlation",
            Self::Count(columns) => match columns.len() {
                0 | 1 => "share",
                2 => "2-way count",
                _ => "3-way count",
            },
        }
    }

    /// As [`Want::parse`] reads it.
    pub fn show(&self, schema: &Schema) -> String {
        let name = |column: &usize| {
            let name = &schema.columns()[*column].name;
            let plain = !name.contains(['(', ')', ',', '"', '±', '+']) && name.trim() == name;
            if plain { name.clone() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
        };
        let names = |columns: &[usize]| columns.iter().map(name).collect::<Vec<_>>().join(", ");
        match self {
            Self::Rows => "rows".into(),
            Self::Mean(column) => format!("mean({})", name(column)),
            Self::Cdf(column) => format!("cdf({})", name(column)),
            Self::Correlation(pair) => format!("corr({})", names(pair)),
            Self::Count(columns) => format!("count({})", names(columns)),
        }
    }
}

/// A few different groups of so many of the columns, always the same ones.
fn groups(columns: &[usize], size: usize) -> Vec<Vec<usize>> {
    let mut groups = BTreeSet::new();
    if columns.len() < size {
        return Vec::new();
    }
    let mut stream = PublicStream::new("groups", size as u64);
    for _ in 0..10 * GROUPS {
        let mut group = BTreeSet::new();
        while group.len() < size {
            group.insert(columns[stream.below(columns.len() as u64) as usize]);
        }
        groups.insert(group.into_iter().collect());
        if groups.len() == GROUPS {
            break;
        }
    }
    groups.into_iter().collect()
}

/// A way to make a release.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// Two rounds, as in [`crate::auto`]; histograms if there is only one column.
    Auto,
    /// Fixed maps.
    Design(Design),
}

/// What is foretold of a question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// The standard error of an answer.
    pub std_error: f64,
    /// Whether the release tells about it at all; if not, the error is that of a guess.
    pub supported: bool,
}

/// The smallest ε that is expected to reach what is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needed {
    /// ε, to two digits.
    pub epsilon: Decimal,
    /// Which of the wants asks for so much; none if the smallest ε that is tried reaches all.
    pub decisive: Option<usize>,
}

/// Rehearses releases of tables that fit a schema.
pub struct Forecaster {
    /// Stand-ins of different shapes, as a schema does not tell which one the table has; or draws from a release.
    stand_ins: Vec<Population>,
    /// Whether it is known which columns go together.
    alike: bool,
    rows: u64,
    /// Questions by which stated errors are compared with those that the stand-ins show, with what is true of each.
    references: Vec<(Question, OnceLock<Vec<Vec<f64>>>)>,
}

/// More rows than any table has.
const MAX_ROWS: u64 = 1_000_000_000_000_000;
/// A stand-in has as many rows as the table, up to this many.
const MOST_INVENTED: u64 = 10_000;
/// Pairs and triples of columns that are typical, and references of each kind.
const GROUPS: usize = 12;
/// Maps of more sums than this are rehearsed once.
const MANY_SUMS: usize = 2000;
/// The ratio of shown and stated errors is held to 1 by so many observations.
const DOUBT: f64 = 4.0;
/// The powers of ten between which ε is searched.
const POWERS: std::ops::Range<i32> = -4..3;

impl Forecaster {
    /// For tables of so many rows.
    pub fn new(schema: &Schema, rows: u64) -> Result<Self, Error> {
        let stand_in = |which| Population::stand_in(schema, rows.min(MOST_INVENTED) as usize, which);
        Self::on(schema, rows, false, stand_in)
    }

    /// For a table like the one behind a release, of another year or of a pilot; of as many rows if none are given. The
    /// rehearsals are on rows drawn from the release, which tells what the schema leaves open.
    pub fn like(release: &Release, rows: Option<u64>) -> Result<Self, Error> {
        let fit = Fit::new(release, Options::default())?;
        let synthesis = Synthesis::new(&fit)?;
        let rows = rows.unwrap_or_else(|| fit.count().value.round().max(1.0) as u64);
        let count = rows.min(MOST_INVENTED) as usize;
        Self::on(release.schema(), rows, true, |which| Population::like(&synthesis, release.schema(), count, which))
    }

    fn on(schema: &Schema, rows: u64, alike: bool, stand_in: impl Fn(usize) -> Population) -> Result<Self, Error> {
        if !(1..=MAX_ROWS).contains(&rows) {
            return Err(Error::Question(format!("{rows} rows; give a number from 1 to {MAX_ROWS}")));
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let mut references = Question::typical(schema);
        references.retain(|question| {
            let count = counts.entry(question.kind()).or_default();
            *count += 1;
            *count <= GROUPS && *question != Question::Rows
        });
        Ok(Self {
            stand_ins: (0..STAND_INS).map(stand_in).collect(),
            alike,
            rows,
            references: references.into_iter().map(|question| (question, OnceLock::new())).collect(),
        })
    }

    /// The schema.
    pub fn schema(&self) -> &Schema {
        self.stand_ins[0].schema()
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The standard errors that answers to questions are expected to have.
    ///
    /// Stated errors are averaged over stand-ins of different shapes, by their logarithms, as none is likelier than
    /// another. A fit states errors that allow for rough tables, and a stand-in itself shows others. Real tables are
    /// found between the two, so the forecast is their geometric mean: the stated error times the root of the ratio,
    /// which all typical questions of a kind judge together. Of a mean it is the stated one; a guess and a
    /// distribution function are as wrong as on the stand-ins, and so is what is asked of a table like that behind a
    /// release, but for correlations.
    pub fn errors(&self, choice: &Choice, privacy: Privacy, questions: &[Question]) -> Result<Vec<Expected>, Error> {
        let kinds: BTreeSet<&str> = questions.iter().map(Question::kind).collect();
        let mut asked: Vec<Asked<'_>> = self
            .references
            .iter()
            .filter(|(question, _)| kinds.contains(question.kind()))
            .map(|(question, truth)| {
                let of = |stand_in: &Population| stand_in.truth(question).expect("it is of the schema");
                let truth = truth.get_or_init(|| self.stand_ins.iter().map(of).collect());
                Asked::new(question, Some(truth))
            })
            .collect();
        for question in questions {
            if asked.iter().all(|other| other.question != question) {
                asked.push(Asked::new(question, None));
            }
        }
        let rehearsals = self.rehearsals(choice)?;
        for which in 0..rehearsals {
            let fit = Fit::new(&self.rehearse(choice, privacy, which)?, Options::default())?;
            for asked in &mut asked {
                let answers = self.stand_ins[which].ask(&fit, asked.question)?;
                asked.hear(which, &answers, self.largest(asked.question));
            }
        }
        Ok(questions
            .iter()
            .map(|question| {
                let own = asked.iter().find(|asked| asked.question == question).expect("every question is asked");
                let alike = || asked.iter().filter(|other| other.question.kind() == question.kind());
                let ratios: Vec<f64> = alike().filter_map(Asked::ratio).collect();
                let ratio = ratios.iter().sum::<f64>() / (ratios.len() as f64 + DOUBT / rehearsals as f64);
                let stated = match question {
                    // Which columns go together is not known, so no pair is better off than another.
                    Question::Correlation(_) if !self.alike => {
                        (alike().map(|other| other.stated().ln()).sum::<f64>() / alike().count() as f64).exp()
                    }
                    _ => own.stated(),
                };
                let supported = own.unsupported <= 0.5 * own.answers;
                let shown = match question {
                    _ if !supported => 1.0,
                    // Nearly all of it is noise, whose size is known.
                    Question::Mean(_) => 0.0,
                    // Rows drawn from a release go together in no way that the next one could not tell.
                    Question::Correlation(_) => 0.5,
                    // What may hide within a bin is mostly less than a fit allows for.
                    Question::Cdf(_) => 1.0,
                    _ if self.alike => 1.0,
                    _ => 0.5,
                };
                // Where the noise swamps everything, bounds are all that is known.
                let (error, largest) = (stated * (shown * ratio).exp(), self.largest(question));
                Expected { std_error: if error < largest { error } else { largest }, supported }
            })
            .collect())
    }

    /// The smallest ε from 0.0001 to 1000 with which all wants are expected to be met, to two digits. A δ in the privacy
    /// stays as it is; its ε does not matter.
    pub fn smallest_epsilon(&self, choice: &Choice, privacy: Privacy, wants: &[Want]) -> Result<Needed, Error> {
        let delta = match privacy.budget {
            Budget::Pure { .. } => None,
            Budget::Approximate { delta, .. } => Some(delta),
            Budget::Concentrated { .. } => {
                return Err(Error::Budget("what is wanted leads to an epsilon; leave out rho".into()));
            }
        };
        let mut steps: Vec<Decimal> = POWERS
            .flat_map(|power| (10..100).map(move |digits| format!("{digits}e{}", power - 1)))
            .map(|text| text.parse())
            .collect::<Result<_, _>>()?;
        steps.push("1000".parse()?);
        let questions: Vec<Question> = wants.iter().map(|want| want.question.clone()).collect();
        // Which want is missed by the largest factor, if one is.
        let missed = |step: usize| -> Result<Option<(usize, f64)>, Error> {
            let budget = Budget::new(Some(steps[step]), delta, None)?;
            let expected = self.errors(choice, Privacy { budget, ..privacy }, &questions)?;
            let factors = expected.iter().zip(wants).map(|(expected, want)| expected.std_error / want.error);
            Ok(factors.enumerate().filter(|(_, factor)| *factor > 1.0).max_by(|a, b| a.1.total_cmp(&b.1)))
        };
        let (mut low, mut high) = (0, steps.len() - 1);
        if let Some((want, factor)) = missed(high)? {
            let want = &wants[want];
            return Err(Error::Question(format!(
                "`{}` is out of reach: even with ε = 1000 the error is expected to be {factor:.1} times as large; want less, or try another --design",
                want.text
            )));
        }
        let Some((mut decisive, _)) = missed(low)? else {
            return Ok(Needed { epsilon: steps[0], decisive: None });
        };
        while high - low > 1 {
            let middle = (low + high) / 2;
            match missed(middle)? {
                Some((want, _)) => (low, decisive) = (middle, want),
                None => high = middle,
            }
        }
        Ok(Needed { epsilon: steps[high], decisive: Some(decisive) })
    }

    /// An error beyond this says nothing, as the answer has bounds.
    fn largest(&self, question: &Question) -> f64 {
        match question {
            Question::Rows => f64::INFINITY,
            Question::Mean(column) => {
                self.schema().columns()[*column].kind.range().map_or(1.0, |range| range.max() - range.min())
            }
            _ => 1.0,
        }
    }

    /// One for each stand-in, but only one for maps of many sums, which take long to fit.
    fn rehearsals(&self, choice: &Choice) -> Result<usize, Error> {
        let Choice::Design(design) = choice else { return Ok(STAND_INS) };
        let mut sums = 0;
        for block in design.blocks() {
            sums += block.map.shape(self.schema())?.0;
        }
        Ok(if sums > MANY_SUMS { 1 } else { STAND_INS })
    }

    /// A release as it could be, but for its rows and its noise.
    fn rehearse(&self, choice: &Choice, privacy: Privacy, which: usize) -> Result<Release, Error> {
        let mut stream = PublicStream::new("rehearsal", which as u64);
        let mut draw_from = |mechanism: Mechanism, noise: &mut [i128]| {
            let pretended = pretend(mechanism, noise.len(), &mut stream);
            noise.iter_mut().zip(pretended).for_each(|(noise, pretended)| *noise = pretended.round() as i128);
        };
        let rows = i128::from(self.rows);
        let mut draw = |block: &PlannedBlock, noise: &mut [i128]| draw_from(block.mechanism, noise);
        let design = match choice {
            Choice::Auto if self.schema().columns().len() > 1 => {
                let auto = Auto { rows: Some(self.rows), ..Auto::default() };
                let histograms = |map: &MapSpec| Ok(self.sums(which, &Design::single(map.clone()))?.swap_remove(0));
                let first = noised_marginals(self.schema(), privacy, auto.rows, rows, histograms, &mut draw)?;
                let design = second_design(&first, &auto)?;
                return with_tables(&first, &design, self.sums(which, &design)?, &mut draw);
            }
            Choice::Auto => Design::parse("hist")?,
            Choice::Design(design) => design.clone(),
        };
        let plan = Plan::new(self.schema(), &design, privacy)?;
        let mut noised = |mechanism: Mechanism, sums: Vec<i128>| -> Vec<i64> {
            let mut noise = vec![0; sums.len()];
            draw_from(mechanism, &mut noise);
            sums.into_iter().zip(noise).map(|(sum, noise)| public(sum, noise)).collect()
        };
        let count = plan.count().map_or(self.rows as i64, |mechanism| noised(mechanism, vec![rows])[0]);
        let sums = self.sums(which, &design)?;
        let blocks = plan.blocks().zip(sums).map(|(mechanism, sums)| noised(mechanism, sums)).collect();
        Release::new(&plan, count, blocks)
    }

    /// The sums of a design's features, as if a stand-in had as many rows as the table.
    fn sums(&self, which: usize, design: &Design) -> Result<Vec<Vec<i128>>, Error> {
        let scale = self.rows as f64 / self.stand_ins[which].len() as f64;
        let scaled = |sums: Vec<i64>| sums.iter().map(|sum| (*sum as f64 * scale).round() as i128).collect();
        Ok(self.stand_ins[which].sums(design)?.into_iter().map(scaled).collect())
    }
}

/// A question and what its answers were like.
struct Asked<'a> {
    question: &'a Question,
    /// What is true of the stand-ins.
    truth: Option<&'a [Vec<f64>]>,
    /// Sums over rehearsals of the logarithms of stated errors, and of squares of shown errors over stated ones.
    stated: f64,
    shown: f64,
    rehearsals: f64,
    unsupported: f64,
    answers: f64,
}

impl<'a> Asked<'a> {
    fn new(question: &'a Question, truth: Option<&'a Vec<Vec<f64>>>) -> Self {
        let truth = truth.map(Vec::as_slice);
        Self { question, truth, stated: 0.0, shown: 0.0, rehearsals: 0.0, unsupported: 0.0, answers: 0.0 }
    }

    /// What was answered about one of the stand-ins, and the error beyond which bounds tell more.
    fn hear(&mut self, which: usize, answers: &[Estimate], largest: f64) {
        if answers.is_empty() {
            return;
        }
        let mean = |of: &dyn Fn(usize) -> f64| (0..answers.len()).map(of).sum::<f64>() / answers.len() as f64;
        let stated = mean(&|at| answers[at].std_error.min(largest).powi(2)).max(f64::MIN_POSITIVE);
        self.stated += 0.5 * stated.ln();
        let shown = self.truth.map_or(0.0, |truth| mean(&|at| (answers[at].value - truth[which][at]).powi(2)));
        self.shown += shown / stated;
        self.rehearsals += 1.0;
        self.unsupported += answers.iter().filter(|answer| answer.caution == Some(Caution::Unsupported)).count() as f64;
        self.answers += answers.len() as f64;
    }

    fn stated(&self) -> f64 {
        (self.stated / self.rehearsals).exp()
    }

    /// The logarithm of the errors that were shown over those that were stated, within reason.
    fn ratio(&self) -> Option<f64> {
        let ratio = self.truth.map(|_| 0.5 * (self.shown / self.rehearsals).ln())?;
        (!ratio.is_nan()).then_some(ratio.clamp(-3.0, 3.0))
    }
}

/// Numbers with about the distribution of a mechanism's noise, from public draws. No secret may ever rest on them.
fn pretend(mechanism: Mechanism, len: usize, stream: &mut PublicStream) -> Vec<f64> {
    let deviation = mechanism.standard_deviation(len);
    let exponential = |stream: &mut PublicStream| -stream.uniform().ln();
    match mechanism {
        Mechanism::DiscreteGaussian { .. } => (0..len).map(|_| deviation * stream.normal()).collect(),
        // Cells of a table of not too few have nearly independent Laplace noise with K-norm noise, too.
        Mechanism::DiscreteLaplace { .. } | Mechanism::OneHotKnorm { .. } => {
            let scale = deviation * std::f64::consts::FRAC_1_SQRT_2;
            (0..len).map(|_| scale * (exponential(stream) - exponential(stream))).collect()
        }
        // Points of discs whose common radius hardly varies, as there are many.
        Mechanism::DiscKnorm { .. } => (0..len)
            .map(|_| 2.0 * deviation * stream.uniform().sqrt() * (std::f64::consts::TAU * stream.uniform()).cos())
            .collect(),
    }
}

#[cfg(test)]
mod tests;
