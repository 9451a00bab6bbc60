//! Rows to rehearse a release on: invented from a schema, drawn from a release, or public ones.

use crate::estimate::{Estimate, Model, Sample};
use crate::expr::{Expr, col, lit};
use crate::feature::Simd;
use crate::panel::{Layout, PANEL, Panel, Row, Value, missing_code};
use crate::prior::panels;
use crate::schema::{Kind, Range, Transform};
use crate::source::Table;
use crate::stream::PublicStream;
use crate::synth::Synthesis;
use crate::task::Ask;
use crate::task::learn::Rows;
use crate::{Design, Error, Schema};

use super::Question;

/// Rows that are no secret, and where typical questions about them lie.
pub struct Population {
    rows: Rows,
    landmarks: Vec<Landmarks>,
}

/// Where questions about a column are asked.
enum Landmarks {
    /// The deciles of a numeric column, without repetitions.
    Deciles(Vec<f64>),
    /// The levels of a column, the most frequent first.
    Levels(Vec<Expr>),
}

/// Levels of a column that are asked for.
const LEVELS: usize = 5;
/// What columns of the stand-in have in common.
const FACTORS: usize = 3;
/// The part of the rows where a stand-in is missing.
const MISSING: f64 = 0.05;
/// Stand-ins that differ in the shapes of their columns. A column takes its turns at all of them, as a schema does not
/// tell which it has.
pub(super) const STAND_INS: usize = 3;
/// The part of the rows at public atoms, by turns. Atoms are declared where values pile up, from a few rows to nearly
/// all; one beside a logarithm is mostly the zero of those who have none of something rare, and holds all deciles.
const ATOMS: [f64; STAND_INS] = [0.2, 0.5, 0.8];
const ATOMS_BY_LOGARITHM: [f64; STAND_INS] = [0.6, 0.95, 0.95];
/// How fast levels become rarer, as powers of their ranks, by turns.
const RARER: [f64; STAND_INS] = [0.5, 1.0, 2.0];
/// The standard deviation of numbers of both signs, as parts of the shorter way from zero to a bound, by turns. Bounds
/// are mostly where the farthest rows are, at three standard deviations if there are no outliers.
const SIGNED: [f64; STAND_INS] = [0.4, 0.3, 0.15];
/// Zero is the middle of a column of both signs if it is at least this far from the bounds, as a part of the range.
const INSIDE: f64 = 0.2;
/// Numbers that crowd in a small part of the range are rounded to this part of it: so are most that people write down.
const ROUNDED: f64 = 0.002;

impl Population {
    /// Invents rows that fit a schema, from public random numbers: numbers are spread over their range, piled up at its
    /// low end or crowded in a small part of it, few levels are frequent and many rare, and columns go together by
    /// three common factors, some more than others. Stand-ins of other numbers differ in which column has which shape.
    pub fn stand_in(schema: &Schema, count: usize, which: usize) -> Self {
        let mut stream = PublicStream::new("stand-in", which as u64);
        let laws: Vec<Law> = (schema.columns().iter().enumerate())
            .map(|(place, column)| Law::new(&column.kind, (place + which) % STAND_INS, &mut stream))
            .collect();
        let layout = Layout::new(schema);
        let mut panels = Vec::new();
        let mut panel = Panel::new(layout.clone());
        for _ in 0..count {
            let factors: [f64; FACTORS] = std::array::from_fn(|_| stream.normal());
            let (mut units, mut codes) = (Vec::new(), Vec::new());
            for (column, law) in schema.columns().iter().zip(&laws) {
                let z = law.score(&factors, stream.normal());
                let missing = column.nullable && stream.uniform() < MISSING;
                match column.kind.range() {
                    Some(_) if missing => units.push(f64::NAN),
                    Some(range) => units.push(law.unit(range, column.kind.is_whole(), z)),
                    None if missing => codes.push(missing_code(&column.kind)),
                    None => codes.push(law.code(z)),
                }
            }
            panel.push(&Row { units: units.into(), codes: codes.into() });
            if panel.len() == PANEL {
                panels.push(std::mem::replace(&mut panel, Panel::new(layout.clone())));
            }
        }
        if !panel.is_empty() {
            panels.push(panel);
        }
        Self::new(Rows::of_panels(schema, panels))
    }

    /// Rows in the image of those behind a release.
    pub(super) fn like(synthesis: &Synthesis<'_>, schema: &Schema, count: usize, which: usize) -> Self {
        Self::new(Rows::of_panels(schema, panels(schema, &synthesis.values(count, which as u64))))
    }

    /// Reads rows that are public.
    pub fn read(table: &Table, schema: &Schema) -> Result<Self, Error> {
        let columns: Vec<usize> = (0..schema.columns().len()).collect();
        Ok(Self::new(Rows::read(table, schema, &columns, &())?))
    }

    fn new(rows: Rows) -> Self {
        let schema = Sample::schema(&rows);
        let landmarks = (0..schema.columns().len()).map(|column| landmarks(&rows, column)).collect();
        Self { rows, landmarks }
    }

    /// The schema.
    pub fn schema(&self) -> &Schema {
        Sample::schema(&self.rows)
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sums of a design's features over all rows.
    pub(super) fn sums(&self, design: &Design) -> Result<Vec<Vec<i64>>, Error> {
        let maps = design.maps(self.schema(), Simd::detect())?;
        Ok(maps
            .iter()
            .map(|map| {
                let mut sums = vec![0; map.len()];
                let mut adder = map.adder();
                self.rows.panels().iter().for_each(|panel| adder.add(panel, &mut sums));
                sums
            })
            .collect())
    }

    /// What is true of these rows.
    pub fn truth(&self, question: &Question) -> Result<Vec<f64>, Error> {
        Ok(self.ask(&self.rows, question)?.iter().map(|estimate| estimate.value).collect())
    }

    /// What a model answers to a question, at each of the places where these rows suggest to ask it.
    pub fn ask(&self, model: &dyn Model, question: &Question) -> Result<Vec<Estimate>, Error> {
        let all = Ask::of(model);
        let name = |column: usize| self.schema().columns()[column].name.as_str();
        Ok(match question {
            Question::Rows => vec![all.count()?],
            Question::Mean(column) => vec![all.mean(&col(name(*column)))?],
            Question::Cdf(column) => match &self.landmarks[*column] {
                Landmarks::Deciles(deciles) => all.cdf(&col(name(*column)), deciles)?,
                Landmarks::Levels(_) => Vec::new(),
            },
            Question::Correlation([a, b]) => vec![all.correlation(&[name(*a), name(*b)])?.entries[1][0]],
            Question::Count(columns) => (0..self.variants(columns))
                .map(|variant| {
                    let conditions = columns.iter().map(|column| self.condition(*column, variant));
                    all.filter(&conditions.reduce(Expr::and).unwrap_or(lit(true)))?.share()
                })
                .collect::<Result<_, _>>()?,
        })
    }

    fn variants(&self, columns: &[usize]) -> usize {
        match (columns, columns.first().map(|column| &self.landmarks[*column])) {
            ([_], Some(Landmarks::Levels(levels))) => levels.len(),
            _ => 3,
        }
    }

    /// A condition on a column that a person might think of: numbers below, above or between deciles, one of the levels.
    fn condition(&self, column: usize, variant: usize) -> Expr {
        let x = col(self.schema().columns()[column].name.as_str());
        match &self.landmarks[column] {
            Landmarks::Levels(levels) => match levels.get(variant % levels.len().max(1)) {
                Some(level) => x.eq(level.clone()),
                None => x.is_not_null(),
            },
            Landmarks::Deciles(deciles) => {
                let at = |part: f64| deciles[((deciles.len() - 1) as f64 * part).round() as usize];
                match (deciles.is_empty(), (variant + column) % 3) {
                    (true, _) => x.is_not_null(),
                    (_, 0) => x.le(lit(at(0.5))),
                    (_, 1) => x.gt(lit(at(0.6))),
                    _ => x.between(lit(at(0.2)), lit(at(0.7))),
                }
            }
        }
    }
}

/// The deciles or the most frequent levels of a column.
fn landmarks(rows: &Rows, column: usize) -> Landmarks {
    let kind = &Sample::schema(rows).columns()[column].kind;
    let values =
        rows.panels().iter().flat_map(|panel| (0..panel.len()).map(move |row| panel.record(row).value(column)));
    match kind.range() {
        Some(range) => {
            let mut units: Vec<f64> = values
                .filter_map(|value| match value {
                    Value::Unit(unit) => Some(unit),
                    _ => None,
                })
                .collect();
            units.sort_by(f64::total_cmp);
            let decile = |k: usize| {
                let value = range.value(units[units.len() * k / 10]);
                if kind.is_whole() { value.round() } else { value }
            };
            let mut deciles: Vec<f64> = if units.is_empty() { Vec::new() } else { (1..10).map(decile).collect() };
            deciles.dedup();
            Landmarks::Deciles(deciles)
        }
        None => {
            // "Other" and "missing" are no levels to ask for.
            let named = match kind {
                Kind::Category(levels) => levels.len(),
                _ => 2,
            };
            let mut counts = vec![0u64; named];
            for value in values {
                if let Value::Code(code) = value
                    && let Some(count) = counts.get_mut(code as usize)
                {
                    *count += 1;
                }
            }
            let mut order: Vec<usize> = (0..named).collect();
            order.sort_by_key(|code| std::cmp::Reverse(counts[*code]));
            let level = |code: &usize| match kind {
                Kind::Boolean => lit(*code == 1),
                _ => lit(kind.label(*code as u32)),
            };
            Landmarks::Levels(order.iter().take(LEVELS).map(level).collect())
        }
    }
}

/// The law of one column of a stand-in, and how it goes together with others.
struct Law {
    loadings: [f64; FACTORS],
    /// The part of the score that is the column's own.
    own: f64,
    shape: Shape,
    /// The part of the rows at atoms.
    atoms: f64,
    /// Upper ends of the levels in [0, 1].
    levels: Vec<f64>,
}

/// How numbers lie in their range, which is [0, 1] here.
enum Shape {
    /// Around a place, farther above it than below.
    Bell { centre: f64, width: f64, skew: f64 },
    /// The same with outliers, so that most rows are in a small part of the range, and rounded.
    Crowded { centre: f64, width: f64 },
    /// Exponential from the lower bound on.
    Piled { mean: f64 },
}

impl Law {
    /// The law of a column at one of its turns.
    fn new(kind: &Kind, turn: usize, stream: &mut PublicStream) -> Self {
        let direction: [f64; FACTORS] = std::array::from_fn(|_| stream.normal());
        let length = direction.iter().map(|x| x * x).sum::<f64>().sqrt();
        let common: f64 = 0.2 + 0.6 * stream.uniform();
        let named = match kind {
            Kind::Boolean => 2,
            Kind::Category(levels) => levels.len(),
            _ => 0,
        };
        let weights: Vec<f64> = (1..=named).map(|rank| (rank as f64).powf(-RARER[turn])).collect();
        let total: f64 = weights.iter().sum();
        let levels = weights.iter().scan(0.0, |below, weight| {
            *below += weight / total;
            Some(*below)
        });
        let logarithm = kind.range().is_some_and(|range| range.transform() != Transform::None);
        Self {
            loadings: direction.map(|x| x * common.sqrt() / length),
            own: (1.0 - common).sqrt(),
            shape: Shape::new(kind, turn, [stream.uniform(), stream.uniform()]),
            atoms: if logarithm { ATOMS_BY_LOGARITHM } else { ATOMS }[turn],
            levels: levels.collect(),
        }
    }

    /// Standard normal, and correlated with the scores of other columns.
    fn score(&self, factors: &[f64; FACTORS], own: f64) -> f64 {
        self.loadings.iter().zip(factors).map(|(loading, factor)| loading * factor).sum::<f64>() + self.own * own
    }

    fn unit(&self, range: &Range, whole: bool, z: f64) -> f64 {
        let rank = normal(z);
        let atoms = range.atoms();
        if !atoms.is_empty() && rank < self.atoms {
            return range.unit(atoms[((rank / self.atoms * atoms.len() as f64) as usize).min(atoms.len() - 1)]);
        }
        let unit = self.shape.at(z).clamp(0.0, 1.0);
        if whole { range.unit(range.value(unit).round()) } else { unit }
    }

    fn code(&self, z: f64) -> u32 {
        let rank = normal(z);
        self.levels.partition_point(|end| *end < rank).min(self.levels.len() - 1) as u32
    }
}

impl Shape {
    /// What the range leaves open is decided by the turn, and two uniform numbers.
    fn new(kind: &Kind, turn: usize, [u, v]: [f64; 2]) -> Self {
        let between = |low: f64, high: f64| low * (high / low).powf(v);
        let range = kind.range();
        // The zero of dates is nothing that rows lie around.
        let zero = match kind {
            Kind::Number(range) | Kind::Integer(range) if range.min() < 0.0 => Some(range.unit(0.0)),
            _ => None,
        };
        match (turn, zero) {
            (_, Some(zero)) if (INSIDE..1.0 - INSIDE).contains(&zero) => {
                Self::Bell { centre: zero, width: SIGNED[turn] * zero.min(1.0 - zero), skew: 0.2 }
            }
            // Of a column that needs a logarithm, most rows are within a few powers of ten of the largest.
            _ if range.is_some_and(|range| range.transform() != Transform::None) => {
                Self::Bell { centre: 0.6 + 0.25 * u, width: between(0.06, 0.15), skew: 0.01 }
            }
            (0, _) => Self::Bell { centre: 0.3 + 0.3 * u, width: between(0.1, 0.2), skew: 0.2 },
            (1, _) => Self::Piled { mean: between(0.05, 0.3) },
            _ => Self::Crowded { centre: 0.1 + 0.4 * u, width: between(0.02, 0.06) },
        }
    }

    /// The place of a row with this score, which can be out of range.
    fn at(&self, z: f64) -> f64 {
        let bell = |centre: f64, width: f64, skew: f64| centre + width * (skew * z).exp_m1() / skew;
        match *self {
            Self::Bell { centre, width, skew } => bell(centre, width, skew),
            Self::Crowded { centre, width } => {
                (bell(centre, width * (0.05 * z * z).exp(), 0.4) / ROUNDED).round() * ROUNDED
            }
            Self::Piled { mean } => -mean * normal(-z).ln(),
        }
    }
}

/// The distribution function of the standard normal law.
fn normal(z: f64) -> f64 {
    0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2)
}
