//! Writing a function of a record as a sum of products of functions of one column each, where it is one.
//!
//! Against a prior with independent columns such a function has exact integrals. Conditions become sums of products by
//! inclusion and exclusion, `CASE` by its branches, and nulls by carrying for each expression two functions: what it adds
//! where it has a value, and whether it has one.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::Schema;
use crate::expr::{Checked, Function, Node, Op, Scalar, value_of};
use crate::fit::alone::Effect;
use crate::fit::interactions::Share;
use crate::panel::Value;
use crate::prior::{Axis, Independent};
use crate::schema::Range;

/// A product of functions of one column each, as tables on the axes of a prior.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub coefficient: f64,
    /// Columns in increasing order, each with its table.
    pub factors: Vec<(usize, Arc<Tabulated>)>,
}

impl Term {
    /// A function of one column.
    pub fn of(coefficient: f64, column: usize, table: Vec<f64>) -> Self {
        Self { coefficient, factors: vec![(column, Arc::new(table.into()))] }
    }
}

/// A function of one column as a table on its axis. What interactions see of it is found once, however many questions have
/// this factor; it belongs to the one fit that made the table.
pub(crate) struct Tabulated {
    table: Vec<f64>,
    pub share: OnceLock<Share>,
    /// The same for what it does by itself.
    pub effect: OnceLock<Effect>,
}

impl Deref for Tabulated {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        &self.table
    }
}

impl From<Vec<f64>> for Tabulated {
    fn from(table: Vec<f64>) -> Self {
        Self { table, share: OnceLock::new(), effect: OnceLock::new() }
    }
}

impl fmt::Debug for Tabulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table.fmt(f)
    }
}

/// Beyond this many products a function is sampled instead.
const MAX_TERMS: usize = 64;

/// The terms of a function; nothing if it does not separate.
pub(crate) fn separate(function: &Checked, schema: &Schema, prior: &Independent, tables: &Tables) -> Option<Vec<Term>> {
    let polynomial = match &function.node {
        node @ Node::Binary(Op::And, ..) => yes(node)?,
        node => match of(node)? {
            Parts::Number { value, .. } => value,
            Parts::Truth { yes, .. } => yes,
            Parts::Text => return Some(Vec::new()),
            Parts::Column { column, node } => Polynomial::atom(column, node, Take::Value),
        },
    };
    let mut terms: Vec<Term> = Vec::new();
    for monomial in polynomial.0 {
        let mut term = Term { coefficient: monomial.coefficient, factors: Vec::new() };
        let mut rest = &monomial.atoms[..];
        while let Some((column, _)) = rest.first() {
            let end = rest.iter().position(|(other, _)| other != column).unwrap_or(rest.len());
            let axis = &prior.axes[*column];
            let table = tables.get(schema, axis, &rest[..end]);
            match constant(axis, &table) {
                Some(constant) => term.coefficient *= constant,
                None => term.factors.push((*column, table)),
            }
            rest = &rest[end..];
        }
        add(&mut terms, term);
    }
    Some(terms)
}

/// The table of a product of functions of the column of an axis.
fn tabulate(schema: &Schema, axis: &Axis, atoms: &[(usize, Atom<'_>)]) -> Vec<f64> {
    let column = axis.column();
    let jumps = jumps(schema, column, atoms);
    let at = |value| atoms.iter().map(|(_, atom)| atom.at(schema, column, value)).product();
    if atoms.iter().all(|(_, atom)| is_step(atom.node)) && tells_near(schema, column) {
        let steps = Steps::new(&jumps);
        return axis.tabulate_steps(&jumps, NEAR, |value| steps.at(value, at));
    }
    axis.tabulate(&jumps, at)
}

/// Whether a function of a column does not change between the numbers that stand in it.
fn is_step(node: &Node) -> bool {
    match node {
        Node::Column(_) | Node::Number(_) => false,
        Node::Boolean(_) | Node::Null => true,
        Node::IsNull(inner) => is_step(inner) || matches!(**inner, Node::Column(_)),
        Node::Not(inner) => is_step(inner),
        Node::Binary(Op::And | Op::Or, left, right) => is_step(left) && is_step(right),
        Node::Binary(op, left, right) => {
            op.compares()
                && matches!(
                    (&**left, &**right),
                    (Node::Column(_), Node::Number(_)) | (Node::Number(_), Node::Column(_))
                )
        }
        _ => false,
    }
}

/// A function that is constant between its jumps, asked once for each stretch between two of them.
struct Steps {
    jumps: Vec<f64>,
    stretches: Vec<Cell<Option<f64>>>,
}

impl Steps {
    fn new(jumps: &[f64]) -> Self {
        let mut jumps = jumps.to_vec();
        jumps.sort_by(f64::total_cmp);
        Self { stretches: vec![Cell::new(None); jumps.len() + 1], jumps }
    }

    fn at(&self, value: Value, function: impl Fn(Value) -> f64) -> f64 {
        let Value::Unit(unit) = value else { return function(value) };
        let stretch = self.jumps.iter().filter(|jump| **jump < unit).count();
        // At a jump it is the function that knows to which side a value belongs.
        if self.jumps.iter().any(|jump| (jump - unit).abs() < NEAR) {
            return function(value);
        }
        let kept = &self.stretches[stretch];
        let found = kept.get().unwrap_or_else(|| function(value));
        kept.set(Some(found));
        found
    }
}

/// What counts as near a jump, in parts of a column's range: far more than numbers lose on the way to [0, 1] and back.
const NEAR: f64 = 1e-4;

/// Whether numbers of a column that are near each other can be told apart, as cannot those of a narrow range far from 0.
fn tells_near(schema: &Schema, column: usize) -> bool {
    let size = |range: &Range| range.min().abs().max(range.max().abs());
    schema.columns()[column].kind.range().is_some_and(|range| range.max() - range.min() > NEAR * size(range))
}

/// Tables that were made before, for one prior: a page asks for many numbers with the same filter and the same bins.
pub(crate) struct Tables {
    kept: Mutex<Kept>,
    /// The bytes that are kept, at most.
    most: usize,
}

#[derive(Default)]
struct Kept {
    tables: HashMap<Vec<u8>, Arc<Tabulated>>,
    bytes: usize,
}

impl Default for Tables {
    fn default() -> Self {
        Self { kept: Mutex::default(), most: 16 << 20 }
    }
}

/// What an entry takes besides its text and its numbers, about: most of it is what interactions see of the table.
const ENTRY: usize = 1024;

impl Tables {
    /// As [`tabulate`].
    fn get(&self, schema: &Schema, axis: &Axis, atoms: &[(usize, Atom<'_>)]) -> Arc<Tabulated> {
        let mut key = Vec::with_capacity(64);
        for (column, Atom { node, take }) in atoms {
            key.extend(column.to_le_bytes());
            key.push(*take as u8);
            write(node, &mut key);
        }
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = kept().tables.get(&key) {
            return table.clone();
        }
        let table: Arc<Tabulated> = Arc::new(tabulate(schema, axis, atoms).into());
        let bytes = key.len() + 8 * table.len() + ENTRY;
        let mut kept = kept();
        if kept.bytes + bytes > self.most {
            *kept = Kept::default();
        }
        kept.bytes += bytes;
        kept.tables.insert(key, table.clone());
        table
    }
}

/// Writes an expression so that different ones look different, whatever follows.
fn write(node: &Node, key: &mut Vec<u8>) {
    let head = |key: &mut Vec<u8>, kind: u8, number: u64| {
        key.push(kind);
        key.extend(number.to_le_bytes());
    };
    match node {
        Node::Column(column) => head(key, 0, *column as u64),
        Node::Number(x) => head(key, 1, x.to_bits()),
        Node::Text(text) => {
            head(key, 2, text.len() as u64);
            key.extend(text.as_bytes());
        }
        Node::Boolean(truth) => head(key, 3, u64::from(*truth)),
        Node::Null => head(key, 4, 0),
        Node::Negate(inner) => {
            head(key, 5, 0);
            write(inner, key);
        }
        Node::Not(inner) => {
            head(key, 6, 0);
            write(inner, key);
        }
        Node::IsNull(inner) => {
            head(key, 7, 0);
            write(inner, key);
        }
        Node::Binary(op, left, right) => {
            head(key, 8, *op as u64);
            write(left, key);
            write(right, key);
        }
        Node::Like { text, pattern, ignore_case } => {
            head(key, 9, 2 * pattern.len() as u64 + u64::from(*ignore_case));
            key.extend(pattern.iter().flat_map(|c| u32::from(*c).to_le_bytes()));
            write(text, key);
        }
        Node::Case { branches, otherwise } => {
            head(key, 10, branches.len() as u64);
            branches.iter().flat_map(|(condition, value)| [condition, value]).for_each(|part| write(part, key));
            write(otherwise, key);
        }
        Node::Call(function, arguments) => {
            head(key, 11, *function as u64);
            head(key, 11, arguments.len() as u64);
            arguments.iter().for_each(|argument| write(argument, key));
        }
    }
}

/// Where functions of a column may jump: at the numbers that stand in them. Whole numbers begin and end half a step away.
fn jumps(schema: &Schema, column: usize, atoms: &[(usize, Atom<'_>)]) -> Vec<f64> {
    let kind = &schema.columns()[column].kind;
    let Some(range) = kind.range() else { return Vec::new() };
    let mut numbers = Vec::new();
    atoms.iter().for_each(|(_, atom)| atom.node.constants(&mut numbers));
    let steps: &[f64] = if kind.is_whole() { &[-0.5, 0.5] } else { &[0.0] };
    numbers.iter().flat_map(|x| steps.iter().map(move |step| range.unit(x + step))).collect()
}

/// The value of a table that is the same wherever the prior has mass.
fn constant(axis: &Axis, table: &[f64]) -> Option<f64> {
    let mut weighted = axis.weight().iter().zip(table).zip(axis.places()).filter(|((weight, _), _)| **weight > 0.0);
    let ((_, first), _) = weighted.next()?;
    let slope = |place: &crate::prior::Place| *place == crate::prior::Place::Slope;
    weighted.all(|((_, value), place)| if slope(place) { *value == 0.0 } else { value == first }).then_some(*first)
}

/// Adds a term, together with one that differs from it in a single table only if both have just that.
fn add(terms: &mut Vec<Term>, term: Term) {
    let alike = |other: &&mut Term| match (&other.factors[..], &term.factors[..]) {
        ([], []) => true,
        ([(a, _)], [(b, _)]) => a == b,
        _ => false,
    };
    match terms.iter_mut().find(alike) {
        Some(other) => {
            for ((_, table), (_, more)) in other.factors.iter_mut().zip(&term.factors) {
                let both = table.iter().zip(&***more).map(|(x, y)| x * other.coefficient + y * term.coefficient);
                *table = Arc::new(both.collect::<Vec<f64>>().into());
            }
            other.coefficient = if term.factors.is_empty() { other.coefficient + term.coefficient } else { 1.0 };
        }
        None => terms.push(term),
    }
}

/// What an expression is made of.
enum Parts<'a> {
    /// What it adds where it has a value (0 elsewhere), and whether it has one.
    Number { value: Polynomial<'a>, known: Polynomial<'a> },
    /// Whether it is true, and whether it is false.
    Truth { yes: Polynomial<'a>, no: Polynomial<'a> },
    /// A text, which adds nothing.
    Text,
    /// Any function of one column.
    Column { column: usize, node: &'a Node },
}

/// A function of one column.
#[derive(Clone, Copy, Debug)]
struct Atom<'a> {
    node: &'a Node,
    take: Take,
}

/// What is taken of an expression's value.
#[derive(Clone, Copy, Debug)]
enum Take {
    Value,
    Known,
    Yes,
    No,
    /// One over the value, 0 where there is none.
    Inverse,
    /// Whether there is a value other than zero.
    Divides,
}

impl Atom<'_> {
    fn at(&self, schema: &Schema, column: usize, value: Value) -> f64 {
        let scalar = self.node.value(&|_| value_of(schema, column, value));
        match (self.take, scalar) {
            (Take::Value, scalar) => scalar.weight(),
            (Take::Known, scalar) => f64::from(scalar != Scalar::Null),
            (Take::Yes, scalar) => f64::from(scalar == Scalar::Boolean(true)),
            (Take::No, scalar) => f64::from(scalar == Scalar::Boolean(false)),
            (Take::Inverse, Scalar::Number(x)) if (1.0 / x).is_finite() => 1.0 / x,
            (Take::Divides, Scalar::Number(x)) if (1.0 / x).is_finite() => 1.0,
            (Take::Inverse | Take::Divides, _) => 0.0,
        }
    }
}

#[derive(Clone)]
struct Monomial<'a> {
    coefficient: f64,
    /// Ordered by column.
    atoms: Vec<(usize, Atom<'a>)>,
}

#[derive(Clone)]
struct Polynomial<'a>(Vec<Monomial<'a>>);

impl<'a> Polynomial<'a> {
    fn constant(coefficient: f64) -> Self {
        Self(if coefficient == 0.0 { vec![] } else { vec![Monomial { coefficient, atoms: vec![] }] })
    }

    fn atom(column: usize, node: &'a Node, take: Take) -> Self {
        Self(vec![Monomial { coefficient: 1.0, atoms: vec![(column, Atom { node, take })] }])
    }

    fn plus(mut self, other: Self, times: f64) -> Option<Self> {
        self.0.extend(other.0.into_iter().map(|m| Monomial { coefficient: m.coefficient * times, ..m }));
        (self.0.len() <= MAX_TERMS).then_some(self)
    }

    fn times(&self, other: &Self) -> Option<Self> {
        if self.0.len() * other.0.len() > MAX_TERMS {
            return None;
        }
        let product = |(a, b): (&Monomial<'a>, &Monomial<'a>)| {
            let mut atoms = [&a.atoms[..], &b.atoms[..]].concat();
            atoms.sort_by_key(|(column, _)| *column);
            Monomial { coefficient: a.coefficient * b.coefficient, atoms }
        };
        Some(Self(self.0.iter().flat_map(|a| other.0.iter().map(move |b| (a, b))).map(product).collect()))
    }

    /// 1 - self.
    fn complement(self) -> Option<Self> {
        Self::constant(1.0).plus(self, -1.0)
    }
}

/// The columns that an expression reads.
enum Reads {
    None,
    One(usize),
    Several,
}

fn reads(node: &Node) -> Reads {
    let mut found = Reads::None;
    node.each_column(&mut |column| {
        found = match found {
            Reads::None => Reads::One(column),
            Reads::One(other) if other == column => Reads::One(column),
            _ => Reads::Several,
        }
    });
    found
}

fn of(node: &Node) -> Option<Parts<'_>> {
    match reads(node) {
        Reads::None => return Some(constant_parts(node)),
        Reads::One(column) => return Some(Parts::Column { column, node }),
        Reads::Several => {}
    }
    Some(match node {
        Node::Negate(inner) => {
            let (value, known) = number(inner)?;
            Parts::Number { value: Polynomial(vec![]).plus(value, -1.0)?, known }
        }
        Node::Not(inner) => {
            let (yes, no) = truth(inner)?;
            Parts::Truth { yes: no, no: yes }
        }
        Node::IsNull(inner) => {
            let known = match of(inner)? {
                Parts::Number { known, .. } => known,
                Parts::Truth { yes, no } => yes.plus(no, 1.0)?,
                Parts::Column { column, node } => Polynomial::atom(column, node, Take::Known),
                Parts::Text => return None,
            };
            Parts::Truth { no: known.clone(), yes: known.complement()? }
        }
        Node::Binary(op @ (Op::And | Op::Or), left, right) => {
            let ((a_yes, a_no), (b_yes, b_no)) = (truth(left)?, truth(right)?);
            if *op == Op::And {
                let yes = a_yes.times(&b_yes)?;
                let overlap = a_no.times(&b_no)?;
                Parts::Truth { yes, no: a_no.plus(b_no, 1.0)?.plus(overlap, -1.0)? }
            } else {
                let no = a_no.times(&b_no)?;
                let overlap = a_yes.times(&b_yes)?;
                Parts::Truth { yes: a_yes.plus(b_yes, 1.0)?.plus(overlap, -1.0)?, no }
            }
        }
        Node::Binary(op @ (Op::Add | Op::Subtract), left, right) => {
            let ((a, a_known), (b, b_known)) = (number(left)?, number(right)?);
            let sign = if *op == Op::Add { 1.0 } else { -1.0 };
            Parts::Number { value: a.times(&b_known)?.plus(b.times(&a_known)?, sign)?, known: a_known.times(&b_known)? }
        }
        Node::Binary(Op::Multiply, left, right) => {
            let ((a, a_known), (b, b_known)) = (number(left)?, number(right)?);
            Parts::Number { value: a.times(&b)?, known: a_known.times(&b_known)? }
        }
        Node::Binary(Op::Divide, left, right) => {
            let (a, a_known) = number(left)?;
            let (inverse, divides) = match reads(right) {
                Reads::One(column) => {
                    (Polynomial::atom(column, right, Take::Inverse), Polynomial::atom(column, right, Take::Divides))
                }
                Reads::None => {
                    let nothing = |_| Scalar::Null;
                    let inverse = 1.0 / right.value(&nothing).weight();
                    let divides = inverse.is_finite();
                    let inverse = if divides { inverse } else { 0.0 };
                    (Polynomial::constant(inverse), Polynomial::constant(f64::from(divides)))
                }
                Reads::Several => return None,
            };
            Parts::Number { value: a.times(&inverse)?, known: a_known.times(&divides)? }
        }
        Node::Call(Function::Coalesce, arguments) => {
            let (mut value, mut open) = (Polynomial(vec![]), Polynomial::constant(1.0));
            for argument in arguments {
                let (a, known) = number(argument)?;
                value = value.plus(open.times(&a)?, 1.0)?;
                open = open.times(&known.complement()?)?;
            }
            Parts::Number { value, known: open.complement()? }
        }
        Node::Case { branches, otherwise } => case(branches, otherwise)?,
        _ => return None,
    })
}

fn case<'a>(branches: &'a [(Node, Node)], otherwise: &'a Node) -> Option<Parts<'a>> {
    let mut open = Polynomial::constant(1.0);
    let (mut first, mut second) = (Polynomial(vec![]), Polynomial(vec![]));
    let mut truths = None;
    let last = std::iter::once((None, otherwise));
    for (condition, value) in branches.iter().map(|(condition, value)| (Some(condition), value)).chain(last) {
        let yes = match condition {
            Some(condition) => yes(condition)?,
            None => Polynomial::constant(1.0),
        };
        let here = open.times(&yes)?;
        if *value != Node::Null {
            let (is_truth, a, b) = match of(value)? {
                Parts::Number { value, known } => (false, value, known),
                Parts::Truth { yes, no } => (true, yes, no),
                Parts::Column { column, node } => {
                    (false, Polynomial::atom(column, node, Take::Value), Polynomial::atom(column, node, Take::Known))
                }
                Parts::Text => return None,
            };
            if *truths.get_or_insert(is_truth) != is_truth {
                return None;
            }
            first = first.plus(here.times(&a)?, 1.0)?;
            second = second.plus(here.times(&b)?, 1.0)?;
        }
        open = open.times(&yes.complement()?)?;
    }
    Some(match truths {
        Some(true) => Parts::Truth { yes: first, no: second },
        _ => Parts::Number { value: first, known: second },
    })
}

/// Whether a condition is true. When it is false takes more products, which nobody asks for here.
fn yes(node: &Node) -> Option<Polynomial<'_>> {
    match node {
        Node::Binary(Op::And, left, right) if matches!(reads(node), Reads::Several) => yes(left)?.times(&yes(right)?),
        _ => match of(node)? {
            Parts::Column { column, node } => Some(Polynomial::atom(column, node, Take::Yes)),
            _ => Some(truth(node)?.0),
        },
    }
}

fn number(node: &Node) -> Option<(Polynomial<'_>, Polynomial<'_>)> {
    match of(node)? {
        Parts::Number { value, known } => Some((value, known)),
        Parts::Column { column, node } => {
            Some((Polynomial::atom(column, node, Take::Value), Polynomial::atom(column, node, Take::Known)))
        }
        _ => None,
    }
}

fn truth(node: &Node) -> Option<(Polynomial<'_>, Polynomial<'_>)> {
    match of(node)? {
        Parts::Truth { yes, no } => Some((yes, no)),
        Parts::Column { column, node } => {
            Some((Polynomial::atom(column, node, Take::Yes), Polynomial::atom(column, node, Take::No)))
        }
        // A null condition is neither true nor false.
        Parts::Number { .. } if *node == Node::Null => Some((Polynomial(vec![]), Polynomial(vec![]))),
        _ => None,
    }
}

fn constant_parts<'a>(node: &Node) -> Parts<'a> {
    match node.value(&|_| Scalar::Null) {
        Scalar::Number(x) => Parts::Number { value: Polynomial::constant(x), known: Polynomial::constant(1.0) },
        Scalar::Boolean(truth) => {
            Parts::Truth { yes: Polynomial::constant(f64::from(truth)), no: Polynomial::constant(f64::from(!truth)) }
        }
        Scalar::Text(_) => Parts::Text,
        Scalar::Null => Parts::Number { value: Polynomial(vec![]), known: Polynomial(vec![]) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{col, lit};

    /// Whatever is kept or was thrown away, a table is the one that is made anew.
    #[test]
    fn kept_tables_are_those_made_anew() {
        let text = "[[column]]\nname='x'\ntype='number'\nmin=0\nmax=8\nnullable=true\n\
                    [[column]]\nname='k'\ntype='integer'\nmin=0\nmax=20\n";
        let schema = Schema::from_toml(text).unwrap();
        let prior = Independent::uniform(&schema, |_| None);
        let functions: Vec<Checked> = (0..40)
            .flat_map(|at| {
                let at = f64::from(at) / 5.0;
                let sum = (col("x") - lit(at)) * (col("k") + lit(-at));
                [col("x").le(lit(at)), col("x").lt(lit(at)), col("x").le(lit(-at)), sum, col("k").ge(lit(at))]
            })
            .map(|function| function.check(&schema).unwrap())
            .collect();
        let nothing = Tables { most: 0, ..Tables::default() };
        // Some are kept until the next is wanted, and all.
        for most in [60_000, 16 << 20] {
            let tables = Tables { most, ..Tables::default() };
            for _ in 0..3 {
                for function in &functions {
                    let [kept, anew] =
                        [&tables, &nothing].map(|tables| separate(function, &schema, &prior, tables).unwrap());
                    assert_eq!(format!("{kept:?}"), format!("{anew:?}"));
                }
            }
            let kept = tables.kept.lock().unwrap();
            assert!(kept.bytes <= most && kept.tables.len() > 5 && nothing.kept.lock().unwrap().tables.len() < 2);
        }
    }
}
