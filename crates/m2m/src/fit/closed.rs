//! Exact moments of features against a prior with independent columns.
//!
//! Fourier features and table cells are products over columns, and so are the terms of a question. The prior mean of a
//! product is the product of one-dimensional means: of characteristic functions for Fourier features, of probabilities
//! for cells. Nothing here is sampled.
//!
//! Besides the covariance under the prior, each routine gives its parts by the order of effects: *main*, the covariance of
//! the main effects $\sum_j (E[\cdot \mid x_j] - E[\cdot])$, and for each pair of columns that of their pure interaction.
//! For products both are products again: the column's covariance for the columns that take part, the product of means
//! for the others. What remains are interactions of three and more columns.

use std::sync::Arc;

use faer::{Mat, MatRef};

use crate::feature::{Cells, MapSpec, RffSpec, directions, inputs};
use crate::fit::points::dot;
use crate::fit::separate::Term;
use crate::fit::triangle::{Triangle, lower_product};
use crate::panel::{Layout, Value};
use crate::prior::{Axis, Independent, Place, tables};
use crate::simd::{Simd, dispatched};
use crate::{Error, Schema};

/// The features of some blocks of a release, one after the other.
pub(crate) struct Closed {
    blocks: Vec<Block>,
    mean: Vec<f64>,
}

enum Block {
    Fourier(Fourier),
    Table(Table),
}

/// A covariance with features, its main part, and the parts of pairs of columns (none but the question's own can have one).
pub(crate) struct Against {
    pub all: Vec<f64>,
    pub main: Vec<f64>,
    pub pairs: Vec<(Pair, Vec<f64>)>,
}

/// Two columns, the smaller first.
pub(crate) type Pair = (usize, usize);

/// The covariance of features, and its parts.
pub(crate) struct Gram {
    pub all: Triangle,
    pub main: Option<Triangle>,
    pub pairs: Vec<(Pair, Triangle)>,
}

/// Which parts of a Gram matrix are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Split {
    Nothing,
    Main,
    /// The main part and that of each pair of columns, for Fourier features.
    Pairs,
}

/// Whether the moments of a map are known exactly.
pub(crate) fn is_closed(map: &MapSpec) -> bool {
    matches!(map, MapSpec::Rff(_) | MapSpec::Hist(_) | MapSpec::Tables(_))
}

impl Closed {
    /// The features of all blocks but for tables that are `skipped` (by block and first place), and for each feature its
    /// block and place.
    pub fn new<'a>(
        schema: &Schema,
        maps: impl Iterator<Item = &'a MapSpec>,
        prior: &Independent,
        skipped: impl Fn(usize, usize) -> bool,
    ) -> Result<(Self, Vec<(usize, usize)>), Error> {
        let (mut blocks, mut mean, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for (block, map) in maps.enumerate() {
            if let MapSpec::Rff(spec) = map {
                let fourier = Fourier::new(schema, spec, prior)?;
                mean.extend(fourier.mean());
                kept.extend((0..spec.m).map(|feature| (block, feature)));
                blocks.push(Block::Fourier(fourier));
            }
            for (first, group) in tables(map, schema)?.into_iter().filter(|(first, _)| !skipped(block, *first)) {
                let table = Table::new(group, prior);
                mean.extend(table.outer(|column| column.masses.clone()));
                kept.extend((first..first + table.len).map(|feature| (block, feature)));
                blocks.push(Block::Table(table));
            }
        }
        Ok((Self { blocks, mean }, kept))
    }

    pub fn len(&self) -> usize {
        self.mean.len()
    }

    /// The prior means of the features.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// The covariance of a term of a question with every feature.
    pub fn against(&self, term: &Term, prior: &Independent) -> Against {
        let factors: Vec<Factor<'_>> = term
            .factors
            .iter()
            .map(|(column, table)| Factor { column: *column, mean: prior.axes[*column].mean(table), table })
            .collect();
        let mut pairs = Vec::new();
        for (i, a) in factors.iter().enumerate() {
            pairs.extend(factors[i + 1..].iter().map(|b| ((a.column, b.column), Vec::with_capacity(self.len()))));
        }
        let capacity = self.len();
        let mut against = Against { all: Vec::with_capacity(capacity), main: Vec::with_capacity(capacity), pairs };
        for block in &self.blocks {
            match block {
                Block::Fourier(fourier) => fourier.against(&factors, prior, &mut against),
                Block::Table(table) => table.against(&factors, prior, &mut against),
            }
        }
        let mean = factors.iter().map(|factor| factor.mean).product::<f64>();
        for (all, feature) in against.all.iter_mut().zip(&self.mean) {
            *all = term.coefficient * (*all - mean * feature);
        }
        against.main.iter_mut().for_each(|x| *x *= term.coefficient);
        against.pairs.iter_mut().flat_map(|(_, part)| part).for_each(|x| *x *= term.coefficient);
        against
    }

    /// Whether the parts of single pairs can be had: there are few, and the features are Fourier's.
    pub fn can_split_pairs(&self) -> bool {
        const MAX_PAIRS: usize = 200;
        const MAX_FEATURES: usize = 512;
        let few = |block: &Block| match block {
            Block::Fourier(fourier) => fourier.columns.len() * fourier.columns.len().saturating_sub(1) / 2 <= MAX_PAIRS,
            Block::Table(_) => false,
        };
        self.len() <= MAX_FEATURES && self.blocks.iter().all(few)
    }

    /// For each pair of columns of Fourier features, what the interaction of their cells adds to a sum of coefficients
    /// times features.
    pub fn pair_effects(&self, prior: &Independent, coefficients: &[f64]) -> Vec<(Pair, Mat<f64>)> {
        let mut effects: Vec<(Pair, Mat<f64>)> = Vec::new();
        let mut first = 0;
        for block in &self.blocks {
            if let Block::Fourier(fourier) = block {
                let cells: Vec<Vec<Waves>> =
                    fourier.columns.iter().map(|column| column.cell_effects(&prior.axes[column.column])).collect();
                let coefficients = &coefficients[first..first + 2 * fourier.count];
                for (i, one) in fourier.columns.iter().enumerate() {
                    for (j, two) in fourier.columns.iter().enumerate().skip(i + 1) {
                        let (one, two) = (one.column, two.column);
                        let (low, high) = if one < two { (i, j) } else { (j, i) };
                        let mut effect = Mat::zeros(cells[low].len(), cells[high].len());
                        let others = fourier.without(one, two);
                        for (d, waves) in cells[high].iter().enumerate() {
                            let mut scaled = waves.clone();
                            scaled.multiply(&others);
                            // Re(u v)·a + Im(u v)·b as one dot product with the real and imaginary parts of u.
                            let mut with_re = vec![0.0; fourier.count];
                            let mut with_im = vec![0.0; fourier.count];
                            for f in 0..fourier.count {
                                let (a, b) = (coefficients[2 * f], coefficients[2 * f + 1]);
                                with_re[f] = a * scaled.re[f] + b * scaled.im[f];
                                with_im[f] = b * scaled.re[f] - a * scaled.im[f];
                            }
                            for (c, waves) in cells[low].iter().enumerate() {
                                effect[(c, d)] = dot(&waves.re, &with_re) + dot(&waves.im, &with_im);
                            }
                        }
                        let pair = (one.min(two), one.max(two));
                        match effects.iter_mut().find(|(other, _)| *other == pair) {
                            Some((_, sum)) => *sum += effect,
                            None => effects.push((pair, effect)),
                        }
                    }
                }
            }
            first += block.len();
        }
        effects
    }

    /// The covariance of the features, with the parts that are wanted.
    pub fn gram(&self, prior: &Independent, simd: Simd, split: Split) -> Gram {
        let nothing = || Triangle::zeros(self.len());
        let mut gram = Gram { all: nothing(), main: (split != Split::Nothing).then(nothing), pairs: Vec::new() };
        let mut first = 0;
        for (at, block) in self.blocks.iter().enumerate() {
            match block {
                Block::Fourier(fourier) => {
                    let mut other_first = 0;
                    for other in &self.blocks[..=at] {
                        if let Block::Fourier(other) = other {
                            fourier.gram(other, prior, simd, (first, other_first), split, &mut gram);
                        }
                        other_first += other.len();
                    }
                }
                Block::Table(table) => {
                    let set = |matrix: &mut Triangle, cell: usize, values: &[f64]| {
                        for (feature, value) in values.iter().enumerate() {
                            *matrix.at(first + cell, feature) = *value;
                        }
                    };
                    for (cell, term) in table.terms(prior).into_iter().enumerate() {
                        let against = self.against(&term, prior);
                        set(&mut gram.all, cell, &against.all);
                        if let Some(main) = &mut gram.main {
                            set(main, cell, &against.main);
                        }
                    }
                }
            }
            first += block.len();
        }
        gram
    }
}

impl Block {
    fn len(&self) -> usize {
        match self {
            Self::Fourier(fourier) => 2 * fourier.count,
            Self::Table(table) => table.len,
        }
    }
}

/// One function of a term.
struct Factor<'a> {
    column: usize,
    mean: f64,
    table: &'a [f64],
}

/// The covariance of two terms under the prior, and its parts.
pub(crate) struct Shared {
    pub all: f64,
    pub main: f64,
    pub pairs: Vec<(Pair, f64)>,
}

/// The covariance of two terms under the prior.
pub(crate) fn shared(a: &Term, b: &Term, prior: &Independent) -> Shared {
    // For each column of either: the product of the means, and the covariance.
    let mut columns: Vec<(usize, f64, f64)> = Vec::with_capacity(a.factors.len() + b.factors.len());
    for (column, table) in &a.factors {
        let axis = &prior.axes[*column];
        let mean = axis.mean(table);
        columns.push(match b.factors.iter().find(|(other, _)| other == column) {
            Some((_, other)) => {
                let means = mean * axis.mean(other);
                (*column, means, axis.inner(table, other) - means)
            }
            None => (*column, mean, 0.0),
        });
    }
    for (column, table) in &b.factors {
        if !a.factors.iter().any(|(other, _)| other == column) {
            columns.push((*column, prior.axes[*column].mean(table), 0.0));
        }
    }
    let without = |one: usize, two: usize| -> f64 {
        columns.iter().enumerate().filter(|(i, _)| *i != one && *i != two).map(|(_, (_, mean, _))| mean).product()
    };
    let scale = a.coefficient * b.coefficient;
    let nobody = usize::MAX;
    let all: f64 = columns.iter().map(|(_, mean, covariance)| mean + covariance).product();
    let mut result = Shared { all: scale * (all - without(nobody, nobody)), main: 0.0, pairs: Vec::new() };
    for (i, (column, _, covariance)) in columns.iter().enumerate().filter(|(_, (_, _, c))| *c != 0.0) {
        result.main += scale * covariance * without(i, nobody);
        for (j, (other, _, more)) in columns.iter().enumerate().skip(i + 1).filter(|(_, (_, _, c))| *c != 0.0) {
            let pair = ((*column).min(*other), (*column).max(*other));
            result.pairs.push((pair, scale * covariance * more * without(i, j)));
        }
    }
    result
}

/// Complex numbers of a whole block, real parts and imaginary parts.
#[derive(Clone, Default)]
struct Waves {
    re: Vec<f64>,
    im: Vec<f64>,
}

impl Waves {
    fn ones(len: usize) -> Self {
        Self { re: vec![1.0; len], im: vec![0.0; len] }
    }

    fn add(&mut self, other: &Self, times: f64) {
        self.re.iter_mut().zip(&other.re).for_each(|(x, y)| *x += times * y);
        self.im.iter_mut().zip(&other.im).for_each(|(x, y)| *x += times * y);
    }

    fn multiply(&mut self, other: &Self) {
        for (((a, b), c), d) in self.re.iter_mut().zip(&mut self.im).zip(&other.re).zip(&other.im) {
            (*a, *b) = (*a * c - *b * d, *a * d + *b * c);
        }
    }
}

/// Fourier features: $\prod_j e^{i\theta_{ja}(x_j)}$ for each frequency a.
struct Fourier {
    count: usize,
    columns: Vec<FourierColumn>,
}

struct FourierColumn {
    column: usize,
    /// Angles in radians per unit, where the column has numbers.
    angles: Vec<f64>,
    /// `[place][2·count]`: cosines, then sines, in the terms of the axis.
    waves: Vec<f64>,
    /// The characteristic function.
    mean: Waves,
    /// The product of the means of the other columns.
    others: Waves,
}

impl FourierColumn {
    /// The mean wave over each cell of the axis, less that over all.
    fn cell_effects(&self, axis: &Axis) -> Vec<Waves> {
        let count = self.mean.re.len();
        (0..axis.cells())
            .map(|cell| {
                let mut mean = Waves { re: vec![0.0; count], im: vec![0.0; count] };
                project(Simd::detect(), &axis.parts_of(cell), &self.waves, &mut mean.re, &mut mean.im);
                mean.add(&self.mean, -1.0);
                mean
            })
            .collect()
    }
}

impl Fourier {
    fn new(schema: &Schema, spec: &RffSpec, prior: &Independent) -> Result<Self, Error> {
        let inputs = inputs(schema, &Layout::new(schema), &spec.columns)?;
        let directions = directions(spec, &inputs);
        let count = directions.len();
        let mut columns = Vec::with_capacity(inputs.len());
        let mut at = 0;
        for input in &inputs {
            let axis = &prior.axes[input.column];
            let angle =
                |frequency: usize, coordinate: usize| directions[frequency][at + coordinate] * std::f64::consts::TAU;
            let mut waves = vec![0.0; axis.len() * 2 * count];
            let mut interval = IntervalWaves::default();
            let mut lattice = Lattice::default();
            for (at, place) in axis.places().iter().enumerate() {
                let (done, rest) = waves.split_at_mut(at * 2 * count);
                let (cosines, sines) = rest[..2 * count].split_at_mut(count);
                let point = |place: &Place, f: usize| match place {
                    Place::Point(Value::Unit(unit)) => angle(f, 0) * unit,
                    Place::Point(Value::Missing) => angle(f, 1),
                    Place::Point(Value::Code(code)) => angle(f, *code as usize),
                    Place::Interval { low, high } => angle(f, 0) * 0.5 * (low + high),
                    Place::Slope => 0.0,
                };
                match place {
                    Place::Point(Value::Unit(unit)) if lattice.goes_on(*unit, |f| angle(f, 0), count) => {
                        turn(&done[(at - 1) * 2 * count..], &lattice.step, cosines, sines);
                    }
                    Place::Point(_) => {
                        for (f, (c, s)) in cosines.iter_mut().zip(sines).enumerate() {
                            (*s, *c) = point(place, f).sin_cos();
                        }
                    }
                    Place::Interval { low, high } => {
                        let next_to_last = interval.fits(*low, *high);
                        if !next_to_last {
                            interval = IntervalWaves::new((0..count).map(|f| angle(f, 0)), *low, *high);
                        }
                        interval.end = *high;
                        if next_to_last {
                            // One step on from the interval before.
                            turn(&done[(at - 2) * 2 * count..], &interval.step, cosines, sines);
                        } else {
                            for (f, (c, s)) in cosines.iter_mut().zip(sines).enumerate() {
                                let (sin, cos) = point(place, f).sin_cos();
                                (*c, *s) = (cos * interval.flat[f], sin * interval.flat[f]);
                            }
                        }
                    }
                    Place::Slope => {
                        let last = &done[(at - 1) * 2 * count..][..2 * count];
                        for f in 0..count {
                            cosines[f] = -interval.slope[f] * last[count + f];
                            sines[f] = interval.slope[f] * last[f];
                        }
                    }
                }
            }
            let mut mean = Waves { re: vec![0.0; count], im: vec![0.0; count] };
            project(Simd::detect(), axis.mass(), &waves, &mut mean.re, &mut mean.im);
            let angles = if input.codes.is_none() { (0..count).map(|f| angle(f, 0)).collect() } else { Vec::new() };
            at += input.codes.map_or(2, |codes| codes as usize);
            columns.push(FourierColumn { column: input.column, angles, waves, mean, others: Waves::ones(count) });
        }
        // Products of all but one, from the left and from the right.
        let mut left = Waves::ones(count);
        for column in &mut columns {
            column.others = left.clone();
            left.multiply(&column.mean);
        }
        let mut right = Waves::ones(count);
        for column in columns.iter_mut().rev() {
            column.others.multiply(&right);
            right.multiply(&column.mean);
        }
        Ok(Self { count, columns })
    }

    fn mean(&self) -> Vec<f64> {
        let mut mean = Waves::ones(self.count);
        self.columns.iter().for_each(|column| mean.multiply(&column.mean));
        interleave(&mean)
    }

    /// The product of the means of all columns but two.
    fn without(&self, one: usize, two: usize) -> Waves {
        let mut product = Waves::ones(self.count);
        for column in self.columns.iter().filter(|column| column.column != one && column.column != two) {
            product.multiply(&column.mean);
        }
        product
    }

    /// Appends the uncentred moments with a product of factors, the main part, and those of pairs.
    fn against(&self, factors: &[Factor<'_>], prior: &Independent, against: &mut Against) {
        let mut product = Waves::ones(self.count);
        let mut main = Waves { re: vec![0.0; self.count], im: vec![0.0; self.count] };
        let mut outside = 1.0;
        let mut inside = Vec::new();
        for factor in factors {
            match self.columns.iter().find(|column| column.column == factor.column) {
                None => outside *= factor.mean,
                Some(column) => {
                    let weight = prior.axes[factor.column].weight();
                    let weighted: Vec<f64> = weight.iter().zip(factor.table).map(|(weight, f)| weight * f).collect();
                    let mut moment = Waves { re: vec![0.0; self.count], im: vec![0.0; self.count] };
                    project(Simd::detect(), &weighted, &column.waves, &mut moment.re, &mut moment.im);
                    inside.push((column, factor.mean, moment));
                }
            }
        }
        // What each column of the question adds beyond the product of means.
        let beyond: Vec<Waves> = inside
            .iter()
            .map(|(column, mean, moment)| {
                let mut part = moment.clone();
                part.re.iter_mut().zip(&column.mean.re).for_each(|(x, c)| *x -= mean * c);
                part.im.iter_mut().zip(&column.mean.im).for_each(|(x, s)| *x -= mean * s);
                part
            })
            .collect();
        let rest = |one: usize, two: usize| -> f64 {
            inside.iter().enumerate().filter(|(i, _)| *i != one && *i != two).map(|(_, (_, mean, _))| mean).product()
        };
        for (at, (column, _, moment)) in inside.iter().enumerate() {
            product.multiply(moment);
            let mut part = beyond[at].clone();
            part.multiply(&column.others);
            main.add(&part, rest(at, usize::MAX));
        }
        for (pair, values) in &mut against.pairs {
            let find = |column: usize| inside.iter().position(|(other, ..)| other.column == column);
            match (find(pair.0), find(pair.1)) {
                (Some(i), Some(j)) => {
                    let mut part = self.without(pair.0, pair.1);
                    part.multiply(&beyond[i]);
                    part.multiply(&beyond[j]);
                    let scale = outside * rest(i, j);
                    values.extend(interleave(&part).into_iter().map(|x| scale * x));
                }
                _ => values.extend(std::iter::repeat_n(0.0, 2 * self.count)),
            }
        }
        for column in &self.columns {
            if !inside.iter().any(|(other, ..)| other.column == column.column) {
                product.multiply(&column.mean);
            }
        }
        against.all.extend(interleave(&product).into_iter().map(|x| outside * x));
        against.main.extend(interleave(&main).into_iter().map(|x| outside * x));
    }

    /// Writes the covariance with a block of Fourier features that is not behind this one, and its parts.
    ///
    /// With $e_a$ the product of waves, $E\,e_a\bar e_b$ and $E\,e_a e_b$ are products over columns of moments at the
    /// difference and at the sum of two frequencies; cosines and sines follow from their real and imaginary parts.
    fn gram(
        &self,
        other: &Self,
        prior: &Independent,
        simd: Simd,
        first: (usize, usize),
        split: Split,
        gram: &mut Gram,
    ) {
        let same = first.0 == first.1;
        let mut shared: Vec<(usize, Both)> = Vec::new();
        let (mut left, mut right) = (Waves::ones(self.count), Waves::ones(other.count));
        for column in &self.columns {
            let Some(twin) = other.columns.iter().find(|twin| twin.column == column.column) else {
                // The other block does not look at this column: its wave is 1 there.
                left.multiply(&column.mean);
                continue;
            };
            let axis = &prior.axes[column.column];
            let moments = if axis.is_uniform() {
                uniform_moments(simd, &column.angles, &twin.angles)
            } else {
                tabled_moments(axis, column, twin, self.count, other.count, same)
            };
            shared.push((column.column, moments));
        }
        for twin in &other.columns {
            if !self.columns.iter().any(|column| column.column == twin.column) {
                right.multiply(&twin.mean);
            }
        }
        // A part is what its columns add beyond the product of means, times the means of all others.
        let others = |one: usize, two: usize| (self.without(one, two), Both::new(&other.without(one, two)));
        let nobody = usize::MAX;
        let singles: Vec<_> = if split == Split::Nothing {
            Vec::new()
        } else {
            shared.iter().map(|(column, _)| others(*column, nobody)).collect()
        };
        let mut pairs = Vec::new();
        if split == Split::Pairs {
            for (i, (one, _)) in shared.iter().enumerate() {
                for (j, (two, _)) in shared.iter().enumerate().skip(i + 1) {
                    let key = ((*one).min(*two), (*one).max(*two));
                    let at = gram.pairs.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
                        gram.pairs.push((key, Triangle::zeros(gram.all.size())));
                        gram.pairs.len() - 1
                    });
                    pairs.push((i, j, at, others(*one, *two)));
                }
            }
        }
        let right = Both::new(&right);
        let (mean_a, mean_b) = (self.mean(), other.mean());
        let twins: Vec<(&Waves, Both)> = shared
            .iter()
            .map(|(column, _)| (&self.column(*column).mean, Both::new(&other.column(*column).mean)))
            .collect();
        for a in 0..self.count {
            let width = if same { a + 1 } else { other.count };
            let mut product = right.part(0, width);
            product.scale(&left, a);
            let mut rows: Vec<Both> = shared.iter().map(|(_, moments)| moments.part(a * other.count, width)).collect();
            rows.iter().for_each(|row| product.multiply(simd, row));
            product.write((first.0 + 2 * a, first.1), &mut gram.all);
            for i in 0..2 {
                let entries = gram.all.column_mut(first.0 + 2 * a + i)[first.1..].iter_mut();
                entries.zip(&mean_b).for_each(|(entry, mean)| *entry -= mean_a[2 * a + i] * mean);
            }
            let Some(main) = &mut gram.main else { continue };
            for (row, (mean, twin)) in rows.iter_mut().zip(&twins) {
                let mut means = twin.part(0, width);
                means.scale(mean, a);
                row.subtract(&means);
            }
            for (row, (left, right)) in rows.iter().zip(&singles) {
                let mut part = right.part(0, width);
                part.scale(left, a);
                part.multiply(simd, row);
                part.write((first.0 + 2 * a, first.1), main);
            }
            for (i, j, at, (left, right)) in &pairs {
                let mut part = right.part(0, width);
                part.scale(left, a);
                part.multiply(simd, &rows[*i]);
                part.multiply(simd, &rows[*j]);
                part.write((first.0 + 2 * a, first.1), &mut gram.pairs[*at].1);
            }
        }
    }

    fn column(&self, column: usize) -> &FourierColumn {
        self.columns.iter().find(|other| other.column == column).expect("a column that was found before")
    }
}

/// Moments of two waves at the difference and at the sum of their frequencies: of one wave with all others of a block, or
/// (one row after the other) of all with all.
struct Both {
    minus: Waves,
    plus: Waves,
}

impl Both {
    /// Where one of the two waves is 1.
    fn new(waves: &Waves) -> Self {
        let conjugate = Waves { re: waves.re.clone(), im: waves.im.iter().map(|x| -x).collect() };
        Self { minus: conjugate, plus: waves.clone() }
    }

    fn zeros(len: usize) -> Self {
        let zeros = || Waves { re: vec![0.0; len], im: vec![0.0; len] };
        Self { minus: zeros(), plus: zeros() }
    }

    /// The first few moments of a row.
    fn part(&self, first: usize, len: usize) -> Self {
        let cut = |waves: &Waves| Waves { re: waves.re[first..][..len].into(), im: waves.im[first..][..len].into() };
        Self { minus: cut(&self.minus), plus: cut(&self.plus) }
    }

    fn multiply(&mut self, simd: Simd, by: &Self) {
        multiply_all(simd, &mut self.minus.re, &mut self.minus.im, &by.minus.re, &by.minus.im);
        multiply_all(simd, &mut self.plus.re, &mut self.plus.im, &by.plus.re, &by.plus.im);
    }

    /// Multiplies all by one complex number.
    fn scale(&mut self, by: &Waves, at: usize) {
        let (c, d) = (by.re[at], by.im[at]);
        for waves in [&mut self.minus, &mut self.plus] {
            for (re, im) in waves.re.iter_mut().zip(&mut waves.im) {
                (*re, *im) = (*re * c - *im * d, *re * d + *im * c);
            }
        }
    }

    fn subtract(&mut self, other: &Self) {
        self.minus.add(&other.minus, -1.0);
        self.plus.add(&other.plus, -1.0);
    }

    /// Adds the covariances of the cosine and the sine of a wave with those of others, from `first` on.
    fn write(&self, (column, first): (usize, usize), matrix: &mut Triangle) {
        let Self { minus, plus } = self;
        for (b, pair) in matrix.column_mut(column)[first..].chunks_mut(2).take(plus.re.len()).enumerate() {
            pair[0] += 0.5 * (minus.re[b] + plus.re[b]);
            // The diagonal ends with the cosine.
            if let Some(sine) = pair.get_mut(1) {
                *sine += 0.5 * (plus.im[b] - minus.im[b]);
            }
        }
        for (b, pair) in matrix.column_mut(column + 1)[first..].chunks_exact_mut(2).take(plus.re.len()).enumerate() {
            pair[0] += 0.5 * (plus.im[b] + minus.im[b]);
            pair[1] += 0.5 * (minus.re[b] - plus.re[b]);
        }
    }
}

/// $E\,e^{i(\theta_a - \theta_b)u}$ and $E\,e^{i(\theta_a + \theta_b)u}$ for u uniform on [0, 1].
fn uniform_moments(simd: Simd, a: &[f64], b: &[f64]) -> Both {
    let halves =
        |angles: &[f64]| -> (Vec<f64>, Vec<f64>) { angles.iter().map(|angle| (0.5 * angle).sin_cos()).unzip() };
    let (sin_b, cos_b) = halves(b);
    let mut both = Both::zeros(a.len() * b.len());
    for (row, theta) in a.iter().enumerate() {
        let (sin_a, cos_a) = (0.5 * theta).sin_cos();
        let at = row * b.len()..(row + 1) * b.len();
        for (sign, waves) in [(-1.0, &mut both.minus), (1.0, &mut both.plus)] {
            uniform_row(
                simd,
                (*theta, sin_a, cos_a, sign),
                b,
                &sin_b,
                &cos_b,
                &mut waves.re[at.clone()],
                &mut waves.im[at.clone()],
            );
        }
    }
    both
}

dispatched! {
    fn uniform_row(a: (f64, f64, f64, f64), b: &[f64], sin_b: &[f64], cos_b: &[f64], re: &mut [f64], im: &mut [f64]) = uniform_row_loop
}

/// $E\,e^{ivu} = e^{iv/2}\,\mathrm{sinc}(v/2)$ at v = a ± b, with the sines and cosines of halves given.
#[inline(always)]
fn uniform_row_loop(
    (theta, sin_a, cos_a, sign): (f64, f64, f64, f64),
    b: &[f64],
    sin_b: &[f64],
    cos_b: &[f64],
    re: &mut [f64],
    im: &mut [f64],
) {
    let n = b.len();
    let (sin_b, cos_b, re, im) = (&sin_b[..n], &cos_b[..n], &mut re[..n], &mut im[..n]);
    for i in 0..n {
        let half = 0.5 * (theta + sign * b[i]);
        let s = sin_a * cos_b[i] + sign * (cos_a * sin_b[i]);
        let c = cos_a * cos_b[i] - sign * (sin_a * sin_b[i]);
        let small = half.abs() < 1e-4;
        let flat = if small { 1.0 - half * half / 6.0 } else { s / half };
        re[i] = c * flat;
        im[i] = s * flat;
    }
}

dispatched! {
    fn multiply_all(re: &mut [f64], im: &mut [f64], by_re: &[f64], by_im: &[f64]) = multiply_loop
}

#[inline(always)]
fn multiply_loop(re: &mut [f64], im: &mut [f64], by_re: &[f64], by_im: &[f64]) {
    for (((a, b), c), d) in re.iter_mut().zip(im).zip(by_re).zip(by_im) {
        (*a, *b) = (*a * c - *b * d, *a * d + *b * c);
    }
}

/// The same moments for any axis, from the tables of the waves; of a block with itself, those up to the diagonal.
fn tabled_moments(axis: &Axis, a: &FourierColumn, b: &FourierColumn, rows: usize, width: usize, same: bool) -> Both {
    const PLACES: usize = 256;
    let mut product = Mat::zeros(2 * rows, 2 * width);
    let mut weighted = Vec::new();
    let chunks = a.waves.chunks(PLACES * 2 * rows).zip(b.waves.chunks(PLACES * 2 * width));
    for ((a, b), weight) in chunks.zip(axis.weight().chunks(PLACES)) {
        weighted.clear();
        for (waves, weight) in a.chunks_exact(2 * rows).zip(weight) {
            weighted.extend(waves.iter().map(|wave| wave * weight));
        }
        let a = MatRef::from_column_major_slice(&weighted, 2 * rows, weight.len());
        let b = MatRef::from_row_major_slice(b, weight.len(), 2 * width);
        if same {
            lower_product(&mut product, a, b);
        } else {
            product += a * b;
        }
    }
    let mut both = Both::zeros(rows * width);
    for i in 0..rows {
        for j in 0..if same { i + 1 } else { width } {
            let (cc, ss) = (product[(i, j)], product[(rows + i, width + j)]);
            let sc = product[(rows + i, j)];
            let cs = if same { product[(rows + j, i)] } else { product[(i, width + j)] };
            let at = i * width + j;
            (both.minus.re[at], both.minus.im[at]) = (cc + ss, sc - cs);
            (both.plus.re[at], both.plus.im[at]) = (cc - ss, sc + cs);
        }
    }
    both
}

dispatched! {
    fn project(weighted: &[f64], waves: &[f64], re: &mut [f64], im: &mut [f64]) = project_loop
}

/// Adds `weighted[place]` times the waves of each place.
#[inline(always)]
fn project_loop(weighted: &[f64], waves: &[f64], re: &mut [f64], im: &mut [f64]) {
    let count = re.len();
    for (weight, waves) in weighted.iter().zip(waves.chunks_exact(2 * count)) {
        if *weight == 0.0 {
            continue;
        }
        let (cosines, sines) = waves.split_at(count);
        for (sum, c) in re.iter_mut().zip(cosines) {
            *sum += weight * c;
        }
        for (sum, s) in im.iter_mut().zip(sines) {
            *sum += weight * s;
        }
    }
}

/// What the waves on intervals of one width have in common.
#[derive(Default)]
struct IntervalWaves {
    width: f64,
    end: f64,
    /// The mean of a wave over an interval, relative to its value in the middle: sinc θa, where a is half the width.
    flat: Vec<f64>,
    /// Its slope relative to its mean, but for a quarter turn: $3 j_1(θa)/\mathrm{sinc}\,θa$, j₁ the spherical Bessel function.
    slope: Vec<f64>,
    /// From one interval to the next.
    step: Waves,
}

impl IntervalWaves {
    fn new(angles: impl Iterator<Item = f64>, low: f64, high: f64) -> Self {
        let width = high - low;
        let mut waves = Self { width, end: high, ..Self::default() };
        for angle in angles {
            let x = 0.5 * angle * width;
            waves.flat.push(sinc(x));
            waves.slope.push(3.0 * bessel(x) / sinc(x));
            let (s, c) = (angle * width).sin_cos();
            waves.step.re.push(c);
            waves.step.im.push(s);
        }
        waves
    }

    /// Whether an interval follows the last one and is as wide.
    fn fits(&self, low: f64, high: f64) -> bool {
        self.width > 0.0 && low == self.end && ((high - low) / self.width - 1.0).abs() < 1e-9
    }
}

/// Points at equal distances, such as whole numbers: the wave at one follows from that at the one before.
#[derive(Default)]
struct Lattice {
    last: Option<f64>,
    distance: f64,
    /// From one point to the next.
    step: Waves,
    turns: u32,
}

impl Lattice {
    /// Whether a point is a step on from the last one. Every now and then the answer is no, so that rounding stays small.
    fn goes_on(&mut self, unit: f64, angle: impl Fn(usize) -> f64, count: usize) -> bool {
        const TURNS: u32 = 32;
        let Some(last) = self.last.replace(unit) else { return false };
        if (unit - last - self.distance).abs() > 1e-12 {
            self.distance = unit - last;
            let (im, re) = (0..count).map(|f| (angle(f) * self.distance).sin_cos()).unzip();
            self.step = Waves { re, im };
        }
        self.turns = (self.turns + 1) % TURNS;
        self.turns != 0
    }
}

/// Waves one step on.
fn turn(last: &[f64], step: &Waves, cosines: &mut [f64], sines: &mut [f64]) {
    let count = cosines.len();
    let (last_cosines, last_sines) = last[..2 * count].split_at(count);
    for f in 0..count {
        cosines[f] = last_cosines[f] * step.re[f] - last_sines[f] * step.im[f];
        sines[f] = last_cosines[f] * step.im[f] + last_sines[f] * step.re[f];
    }
}

fn interleave(waves: &Waves) -> Vec<f64> {
    waves.re.iter().zip(&waves.im).flat_map(|(re, im)| [*re, *im]).collect()
}

/// sin x / x.
fn sinc(x: f64) -> f64 {
    if x.abs() < 1e-4 { 1.0 - x * x / 6.0 } else { x.sin() / x }
}

/// The spherical Bessel function j₁ = sin x / x² - cos x / x.
fn bessel(x: f64) -> f64 {
    if x.abs() < 0.1 { x / 3.0 * (1.0 - x * x / 10.0 * (1.0 - x * x / 28.0)) } else { (x.sin() / x - x.cos()) / x }
}

/// A contingency table.
struct Table {
    columns: Vec<TableColumn>,
    len: usize,
}

struct TableColumn {
    column: usize,
    /// For each cell, the entries of its indicator's table that are not zero.
    indicators: Vec<Vec<(u32, f64)>>,
    masses: Vec<f64>,
}

impl Table {
    fn new(group: Vec<Cells>, prior: &Independent) -> Self {
        let columns: Vec<TableColumn> = group.iter().map(|cells| TableColumn::new(cells, prior)).collect();
        let len = columns.iter().map(|column| column.masses.len()).product();
        Self { columns, len }
    }

    /// The products over the cells of a vector per column; the last column varies fastest.
    fn outer(&self, vector: impl Fn(&TableColumn) -> Vec<f64>) -> Vec<f64> {
        let mut product = vec![1.0];
        for column in &self.columns {
            let vector = vector(column);
            product = product.iter().flat_map(|x| vector.iter().map(move |y| x * y)).collect();
        }
        product
    }

    fn against(&self, factors: &[Factor<'_>], prior: &Independent, against: &mut Against) {
        let in_table = |factor: &&Factor<'_>| self.columns.iter().any(|column| column.column == factor.column);
        let outside: f64 = factors.iter().filter(|factor| !in_table(factor)).map(|factor| factor.mean).product();
        let inside: Vec<(&Factor<'_>, Vec<f64>)> = factors
            .iter()
            .filter(in_table)
            .map(|factor| {
                let column = self.columns.iter().find(|column| column.column == factor.column).expect("in the table");
                (factor, column.moments(&prior.axes[factor.column], factor.table))
            })
            .collect();
        let moments = |column: &TableColumn| inside.iter().find(|(factor, _)| factor.column == column.column);
        against.all.extend(
            self.outer(|column| moments(column).map_or_else(|| column.masses.clone(), |(_, moments)| moments.clone()))
                .into_iter()
                .map(|x| outside * x),
        );
        let mut main = vec![0.0; self.len];
        for (factor, moments) in &inside {
            let rest: f64 =
                inside.iter().filter(|(other, _)| other.column != factor.column).map(|(other, _)| other.mean).product();
            let part = self.outer(|column| {
                if column.column == factor.column {
                    moments.iter().zip(&column.masses).map(|(moment, mass)| moment - factor.mean * mass).collect()
                } else {
                    column.masses.clone()
                }
            });
            main.iter_mut().zip(part).for_each(|(sum, part)| *sum += outside * rest * part);
        }
        against.main.extend(main);
        for (pair, values) in &mut against.pairs {
            let both: Vec<_> =
                inside.iter().filter(|(factor, _)| factor.column == pair.0 || factor.column == pair.1).collect();
            if both.len() < 2 {
                values.extend(std::iter::repeat_n(0.0, self.len));
                continue;
            }
            let apart = |(other, _): &&(&Factor<'_>, Vec<f64>)| other.column != pair.0 && other.column != pair.1;
            let rest: f64 = inside.iter().filter(apart).map(|(other, _)| other.mean).product();
            let part = self.outer(|column| match both.iter().find(|(factor, _)| factor.column == column.column) {
                Some((factor, moments)) => {
                    moments.iter().zip(&column.masses).map(|(moment, mass)| moment - factor.mean * mass).collect()
                }
                None => column.masses.clone(),
            });
            values.extend(part.into_iter().map(|x| outside * rest * x));
        }
    }

    /// The features themselves as terms.
    fn terms(&self, prior: &Independent) -> Vec<Term> {
        let mut terms = vec![Term { coefficient: 1.0, factors: Vec::new() }];
        for column in &self.columns {
            terms = terms
                .iter()
                .flat_map(|term| {
                    (0..column.masses.len()).map(|cell| {
                        let mut table = vec![0.0; prior.axes[column.column].len()];
                        for (place, value) in &column.indicators[cell] {
                            table[*place as usize] = *value;
                        }
                        let mut factors = term.factors.clone();
                        factors.push((column.column, Arc::new(table.into())));
                        Term { coefficient: 1.0, factors }
                    })
                })
                .collect();
        }
        terms
    }
}

impl TableColumn {
    fn new(cells: &Cells, prior: &Independent) -> Self {
        let axis = &prior.axes[cells.column()];
        let mut indicators = vec![Vec::new(); cells.len()];
        for (i, place) in axis.places().iter().enumerate() {
            match place {
                Place::Point(value) => indicators[cells.of(*value) as usize].push((i as u32, 1.0)),
                Place::Interval { low, high } => {
                    // The ends are looked at from inside; cells in between are wholly inside too.
                    let inset = 1e-9 * (high - low);
                    let (from, to) = (cells.of(Value::Unit(low + inset)), cells.of(Value::Unit(high - inset)));
                    if from == to {
                        indicators[from as usize].push((i as u32, 1.0));
                        continue;
                    }
                    let edges = cells.edges().expect("an interval lies in bins");
                    for cell in from..=to {
                        let (a, b) = (edges[cell as usize].max(*low), edges[cell as usize + 1].min(*high));
                        let (mean, center) = ((b - a) / (high - low), (a + b - low - high) / (high - low));
                        indicators[cell as usize].extend([(i as u32, mean), (i as u32 + 1, 3.0 * mean * center)]);
                    }
                }
                Place::Slope => {}
            }
        }
        let masses = indicators
            .iter()
            .map(|entries| entries.iter().map(|(place, value)| axis.mass()[*place as usize] * value).sum())
            .collect();
        Self { column: cells.column(), indicators, masses }
    }

    /// The uncentred moment of a function with each indicator.
    fn moments(&self, axis: &Axis, table: &[f64]) -> Vec<f64> {
        let entry = |(place, value): &(u32, f64)| axis.weight()[*place as usize] * value * table[*place as usize];
        self.indicators.iter().map(|entries| entries.iter().map(entry).sum()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Design;

    /// The parts of the Gram matrix against their definition, by enumeration of a small domain. Two blocks, so that features
    /// also meet those of others, and whole numbers enough for waves to be turned from one to the next.
    #[test]
    fn parts_are_covariances_of_effects() {
        let columns = "[[column]]\nname='a'\ntype='boolean'\n[[column]]\nname='b'\ntype='integer'\nmin=0\nmax=39\n\
                       [[column]]\nname='c'\ntype='category'\nlevels=['x','y']\nnullable=true\n";
        let schema = Schema::from_toml(columns).unwrap();
        let prior = Independent::uniform(&schema, |_| None);
        let design = |text| Design::parse(text).unwrap().blocks()[0].map.clone();
        let maps = [design("rff:m=6,sigma=0.5"), design("rff:m=4,seed=3")];
        let (closed, kept) = Closed::new(&schema, maps.iter(), &prior, |_, _| false).unwrap();
        // Every record with its probability and its features.
        let lengths: Vec<usize> = prior.axes.iter().map(Axis::len).collect();
        let records: Vec<[usize; 3]> = (0..lengths.iter().product())
            .map(|at| [at / lengths[2] / lengths[1], at / lengths[2] % lengths[1], at % lengths[2]])
            .collect();
        let mass = |record: &[usize; 3], columns: &[usize]| -> f64 {
            columns.iter().map(|column| prior.axes[*column].mass()[record[*column]]).product()
        };
        let waves: Vec<Vec<Vec<f64>>> = maps
            .iter()
            .map(|map| {
                let MapSpec::Rff(spec) = map else { unreachable!("all are Fourier features") };
                directions(spec, &inputs(&schema, &Layout::new(&schema), &spec.columns).unwrap())
            })
            .collect();
        let feature = |record: &[usize; 3], (block, feature): (usize, usize)| {
            let direction = &waves[block][feature / 2];
            let (mut first, mut turns) = (0, 0.0);
            for (axis, place) in prior.axes.iter().zip(record) {
                turns += match axis.places()[*place] {
                    Place::Point(Value::Unit(unit)) => unit * direction[first],
                    Place::Point(Value::Missing) => direction[first + 1],
                    Place::Point(Value::Code(code)) => direction[first + code as usize],
                    _ => unreachable!("all places are points"),
                };
                first += if axis.column() == 1 { 2 } else { axis.len() };
            }
            let (sine, cosine) = (turns * std::f64::consts::TAU).sin_cos();
            if feature % 2 == 0 { cosine } else { sine }
        };
        let features: Vec<Vec<f64>> =
            kept.iter().map(|key| records.iter().map(|record| feature(record, *key)).collect()).collect();
        // For each feature and record, sums of means given some columns of the record.
        let effects = |subsets: &[(&[usize], f64)]| -> Vec<Vec<f64>> {
            let mean = |values: &[f64], at: &[usize; 3], given: &[usize]| -> f64 {
                let free: Vec<usize> = (0..3).filter(|column| !given.contains(column)).collect();
                let all = records.iter().zip(values);
                let fits = all.filter(|(record, _)| given.iter().all(|column| record[*column] == at[*column]));
                fits.map(|(record, value)| mass(record, &free) * value).sum()
            };
            let of = |values: &[f64], at: &[usize; 3]| {
                subsets.iter().map(|(given, sign)| sign * mean(values, at, given)).sum()
            };
            features.iter().map(|values| records.iter().map(|at| of(values, at)).collect()).collect()
        };
        let check = |found: &mut Triangle, parts: &[Vec<Vec<f64>>]| {
            for i in 0..kept.len() {
                for j in 0..=i {
                    let expected: f64 = parts
                        .iter()
                        .map(|effects| {
                            let both = records.iter().zip(effects[i].iter().zip(&effects[j]));
                            both.map(|(record, (x, y))| mass(record, &[0, 1, 2]) * x * y).sum::<f64>()
                        })
                        .sum();
                    assert!((*found.at(i, j) - expected).abs() < 1e-10, "{i} {j} {} {expected}", found.at(i, j));
                }
            }
        };
        let all = effects(&[(&[0, 1, 2], 1.0), (&[], -1.0)]);
        let main: Vec<_> = (0..3).map(|column| effects(&[(&[column], 1.0), (&[], -1.0)])).collect();
        let pairs = [(0, 1), (0, 2), (1, 2)]
            .map(|(a, b)| ((a, b), effects(&[(&[a, b], 1.0), (&[a], -1.0), (&[b], -1.0), (&[], 1.0)])));
        for simd in Simd::available() {
            let mut gram = closed.gram(&prior, simd, Split::Pairs);
            check(&mut gram.all, std::slice::from_ref(&all));
            check(gram.main.as_mut().unwrap(), &main);
            assert_eq!(gram.pairs.len(), pairs.len());
            for (pair, part) in &mut gram.pairs {
                let (_, effects) = pairs.iter().find(|(other, _)| other == pair).unwrap();
                check(part, std::slice::from_ref(effects));
            }
        }
    }
}
