//! What three columns do together, by what each two of them do.
//!
//! Tables tell of pairs of columns (and, with a large budget, of some triples). Additive effects of pairs alone leave nothing
//! for three, and where pairs are strong they even give some places a negative probability. Among the laws of three columns
//! that have the fitted tables of the three pairs, the one of the greatest entropy assumes the least beyond them: it has no
//! interaction of three on the scale of logarithms, and on that of probabilities the one which pairs imply. It is found by
//! iterative proportional fitting over the groups of cells of the tables, triple by triple and when first asked for.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::fit::interactions::turn;
use crate::prior::Axis;

/// Steps in which a table gets its margins.
const SWEEPS: usize = 30;
/// The same for three columns, at most; as many as it takes until no margin is further away than this.
const MOST_SWEEPS: usize = 60;
const CLOSE: f64 = 1e-5;
/// Triples of which two pairs are not at least this strong (φ, the root of Pearson's χ² over the rows) have next to nothing
/// to compose.
const WEAK: f64 = 0.02;
/// Triples that are composed, at most: points need all of them.
const MOST: usize = 500;
/// Groups that are all but impossible stay what the prior makes of them.
const POSSIBLE: f64 = 1e-7;

/// The composed interactions of a release.
pub(crate) struct Composition {
    /// The groups of each column that is in a table of two.
    columns: Vec<Option<Groups>>,
    pairs: HashMap<[usize; 2], Pair>,
    triples: HashMap<[usize; 3], OnceLock<Ratios>>,
}

/// What is added to a density ratio, `[group][group]…` with the last index fastest.
type Ratios = Vec<f64>;

/// The groups of a column's cells, with their probabilities.
pub(crate) struct Groups {
    of_cell: Vec<u32>,
    pub masses: Vec<f64>,
    /// Whether it is a column of levels.
    levels: bool,
}

struct Pair {
    /// Probabilities, none of them negative, with the masses of both columns as margins.
    table: Vec<f64>,
    /// What lacks the fitted table to be that; nothing unless both columns are of levels. Numbers are more than their groups:
    /// moving whole groups bends what the fit says within them (measured: covariances 10% worse at ε = 10).
    correction: Ratios,
    /// φ.
    strength: f64,
}

impl Groups {
    pub fn new(axis: &Axis, of_cell: &[u32]) -> Self {
        let count = of_cell.iter().max().map_or(0, |last| *last as usize + 1);
        let mut groups = Self { of_cell: of_cell.to_vec(), masses: vec![0.0; count], levels: axis.is_levels() };
        groups.masses = groups.of(axis, &vec![1.0; axis.len()]);
        groups
    }

    /// The means of a function where a row is in each group, and of zero elsewhere.
    pub fn of(&self, axis: &Axis, table: &[f64]) -> Vec<f64> {
        let mut means = vec![0.0; self.masses.len()];
        for ((cell, mass), x) in axis.partition().iter().zip(axis.mass()).zip(table) {
            means[self.of_cell[*cell as usize] as usize] += mass * x;
        }
        means
    }

    fn possible(&self, group: usize) -> bool {
        self.masses[group] > POSSIBLE
    }
}

impl Composition {
    /// Of the fitted probabilities of pairs, group by group; some may be negative.
    pub fn new(columns: Vec<Option<Groups>>, fitted: Vec<([usize; 2], Vec<f64>)>) -> Self {
        let of = |column: usize| columns[column].as_ref().expect("it is in a table");
        let pair = |(at, fitted): ([usize; 2], Vec<f64>)| (at, Pair::new(of(at[0]), of(at[1]), &fitted));
        let pairs: HashMap<[usize; 2], Pair> = fitted.into_iter().map(pair).collect();
        let triples = strongest(&pairs, columns.len()).into_iter().map(|at| (at, OnceLock::new())).collect();
        Self { columns, pairs, triples }
    }

    pub fn groups(&self, column: usize) -> Option<&Groups> {
        self.columns[column].as_ref()
    }

    /// What is added to the mean of a product of functions of two or three columns, of which the means in each group are
    /// given.
    pub fn value(&self, columns: &[usize], means: &[&[f64]]) -> f64 {
        match (columns, means) {
            (&[a, b], [f, g]) => self.pairs.get(&[a, b]).map_or(0.0, |pair| double(&pair.correction, f, g)),
            (&[a, b, c], [f, g, h]) => self.triple([a, b, c]).map_or(0.0, |ratios| {
                let rest = g.len() * h.len();
                let present = ratios.chunks_exact(rest).zip(*f).filter(|(_, x)| **x != 0.0);
                present.map(|(ratios, x)| x * double(ratios, g, h)).sum()
            }),
            _ => 0.0,
        }
    }

    /// The same for every choice of one function for each column, the last changing fastest.
    pub fn values<F: AsRef<[f64]>>(&self, columns: &[usize], means: &[impl AsRef<[F]>]) -> Vec<f64> {
        let count = means.iter().map(|means| means.as_ref().len()).product();
        let ratios = match *columns {
            [a, b] => self.pairs.get(&[a, b]).map(|pair| &pair.correction).filter(|ratios| !ratios.is_empty()),
            [a, b, c] => self.triple([a, b, c]),
            _ => None,
        };
        // One column after the other gives its place to the functions.
        ratios.map_or_else(
            || vec![0.0; count],
            |ratios| {
                means.iter().map(AsRef::as_ref).fold(ratios.clone(), |ratios, means| {
                    let groups = means.first().map_or(0, |mean| mean.as_ref().len());
                    turn(&ratios, groups, means.len(), |group, choice| means[choice].as_ref()[group])
                })
            },
        )
    }

    /// The mutual information of two columns, group by group.
    pub fn information(&self, columns: [usize; 2]) -> f64 {
        let (Some(pair), [Some(one), Some(two)]) = (self.pairs.get(&columns), columns.map(|at| self.groups(at))) else {
            return 0.0;
        };
        let products = one.masses.iter().flat_map(|p| two.masses.iter().map(move |q| p * q));
        let of = |(p, product): (&f64, f64)| if *p > 0.0 && product > 0.0 { p * (p / product).ln() } else { 0.0 };
        pair.table.iter().zip(products).map(of).sum()
    }

    /// What some columns add to the density ratio at points, given the cell of every point in each column.
    pub fn weights(&self, cells: &[Vec<u32>], columns: &[usize]) -> Vec<f64> {
        let asked = |set: &[usize]| set.iter().all(|column| columns.contains(column));
        let count = cells.first().map_or(0, Vec::len);
        let groups: Vec<Vec<u32>> = (self.columns.iter().zip(cells))
            .map(|(groups, cells)| match groups {
                Some(groups) => cells.iter().map(|cell| groups.of_cell[*cell as usize]).collect(),
                None => Vec::new(),
            })
            .collect();
        let size = |column: usize| self.columns[column].as_ref().map_or(0, |groups| groups.masses.len());
        let mut weights = vec![0.0; count];
        for ([a, b], pair) in self.pairs.iter().filter(|(at, pair)| asked(&at[..]) && !pair.correction.is_empty()) {
            let places = groups[*a].iter().zip(&groups[*b]).map(|(i, j)| *i as usize * size(*b) + *j as usize);
            weights.iter_mut().zip(places).for_each(|(weight, at)| *weight += pair.correction[at]);
        }
        for [a, b, c] in self.triples.keys().filter(|at| asked(&at[..])) {
            let Some(ratios) = self.triple([*a, *b, *c]) else { continue };
            let pairs = groups[*a].iter().zip(&groups[*b]).map(|(i, j)| *i as usize * size(*b) + *j as usize);
            let places = pairs.zip(&groups[*c]).map(|(at, k)| at * size(*c) + *k as usize);
            weights.iter_mut().zip(places).for_each(|(weight, at)| *weight += ratios[at]);
        }
        weights
    }

    /// What three columns add to the density ratio; nothing where their pairs are weak.
    fn triple(&self, columns: [usize; 3]) -> Option<&Ratios> {
        self.triples.get(&columns).map(|made| made.get_or_init(|| self.compose(columns)))
    }

    fn compose(&self, [a, b, c]: [usize; 3]) -> Ratios {
        let pairs = [[a, b], [a, c], [b, c]].map(|pair| &self.pairs[&pair]);
        let columns = [a, b, c].map(|column| self.columns[column].as_ref().expect("it is in a table"));
        let [one, two, three] = columns.map(|groups| groups.masses.len());
        let mut law = Law { sizes: [one, two, three], values: vec![0.0; one * two * three] };
        // One over the mass of each group, and zero for those that are all but impossible.
        let over = columns.map(|groups| -> Vec<f64> {
            (0..groups.masses.len()).map(|at| if groups.possible(at) { 1.0 / groups.masses[at] } else { 0.0 }).collect()
        });
        let [ab, ac, bc] = pairs.map(|pair| &pair.table);
        law.fill(|i, j, k, _| {
            ab[i * two + j] * ac[i * three + k] * bc[j * three + k] * (over[0][i] * over[1][j] * over[2][k])
        });
        let mut last = f64::INFINITY;
        for _ in 0..MOST_SWEEPS {
            let gap =
                [ab, ac, bc].into_iter().enumerate().map(|(pair, target)| law.fit(pair, target)).fold(0.0, f64::max);
            // Three noisy tables need not be those of any law; then the steps go round and round.
            if gap < CLOSE || gap > 0.9 * last {
                break;
            }
            last = gap;
        }
        // The pure part: less what the law's own pairs and columns do.
        let [mut of_ab, mut of_ac, mut of_bc] = [0, 1, 2].map(|pair| law.margin(pair));
        // Turns a margin into a density ratio, and gives those of its two columns.
        let ratios = |margin: &mut [f64], a: usize, b: usize| {
            let width = over[b].len();
            let (mut of_rows, mut of_columns) = (vec![0.0; over[a].len()], vec![0.0; width]);
            for (row, (values, of_row)) in margin.chunks_exact_mut(width).zip(&mut of_rows).enumerate() {
                for (column, x) in values.iter_mut().enumerate() {
                    *of_row += *x * over[a][row];
                    of_columns[column] += *x * over[b][column];
                    *x *= over[a][row] * over[b][column];
                }
            }
            (of_rows, of_columns)
        };
        let (of_a, of_b) = ratios(&mut of_ab, 0, 1);
        let (_, of_c) = ratios(&mut of_ac, 0, 2);
        ratios(&mut of_bc, 1, 2);
        law.fill(|i, j, k, p| {
            let of_all = over[0][i] * over[1][j] * over[2][k];
            if of_all == 0.0 {
                return 0.0;
            }
            let two_by_two = of_ab[i * two + j] + of_ac[i * three + k] + of_bc[j * three + k];
            p * of_all - two_by_two + (of_a[i] + of_b[j] + of_c[k]) - 1.0
        });
        law.values
    }
}

/// The triples that are composed: those whose pairs all have a table and of which two are not weak, the strongest first and
/// no more than can be afforded.
fn strongest(pairs: &HashMap<[usize; 2], Pair>, columns: usize) -> Vec<[usize; 3]> {
    let mut strengths = vec![f64::NAN; columns * columns];
    pairs.iter().for_each(|([a, b], pair)| strengths[a * columns + b] = pair.strength);
    let mut found: Vec<(f64, [usize; 3])> = Vec::new();
    for (a, b) in (0..columns).flat_map(|a| (a + 1..columns).map(move |b| (a, b))) {
        let one = strengths[a * columns + b];
        for c in (b + 1..columns).filter(|_| !one.is_nan()) {
            let mut all = [one, strengths[a * columns + c], strengths[b * columns + c]];
            all.sort_by(f64::total_cmp);
            if !all[2].is_nan() && all[1] >= WEAK {
                found.push((all[1] * all[2], [a, b, c]));
            }
        }
    }
    found.sort_by(|one, two| two.0.total_cmp(&one.0).then(one.1.cmp(&two.1)));
    found.into_iter().take(MOST).map(|(_, at)| at).collect()
}

/// Σ ratio · f · g over two groups.
fn double(ratios: &[f64], f: &[f64], g: &[f64]) -> f64 {
    let row = |(ratios, x): (&[f64], &f64)| x * ratios.iter().zip(g).map(|(ratio, y)| ratio * y).sum::<f64>();
    // A level is in one group, and all others are nothing.
    ratios.chunks_exact(g.len()).zip(f).filter(|(_, x)| **x != 0.0).map(row).sum()
}

impl Pair {
    fn new(one: &Groups, two: &Groups, fitted: &[f64]) -> Self {
        let width = two.masses.len();
        let mut table: Vec<f64> = fitted.iter().map(|p| p.max(0.0)).collect();
        give_margins(&mut table.chunks_exact_mut(width).collect::<Vec<_>>(), &one.masses, &two.masses);
        let mut strength = 0.0;
        let mut correction = vec![0.0; if one.levels && two.levels { table.len() } else { 0 }];
        for (at, (p, fitted)) in table.iter().zip(fitted).enumerate() {
            let (i, j) = (at / width, at % width);
            if one.possible(i) && two.possible(j) {
                let product = one.masses[i] * two.masses[j];
                if let Some(ratio) = correction.get_mut(at) {
                    *ratio = (p - fitted) / product;
                }
                strength += (p - product).powi(2) / product;
            }
        }
        Self { table, correction, strength: strength.sqrt() }
    }
}

/// Fits a table, row by row, to the margins of its rows and columns by proportional fitting.
pub(crate) fn give_margins(table: &mut [&mut [f64]], rows: &[f64], columns: &[f64]) {
    let fitted = |target: f64, sum: f64| if sum > 0.0 { target / sum } else { 0.0 };
    for _ in 0..SWEEPS {
        let mut sums = vec![0.0; columns.len()];
        table.iter().for_each(|row| row.iter().zip(&mut sums).for_each(|(x, sum)| *sum += x));
        let scales: Vec<f64> = columns.iter().zip(&sums).map(|(target, sum)| fitted(*target, *sum)).collect();
        for (row, target) in table.iter_mut().zip(rows) {
            row.iter_mut().zip(&scales).for_each(|(x, scale)| *x *= scale);
            let scale = fitted(*target, row.iter().sum());
            row.iter_mut().for_each(|x| *x *= scale);
        }
    }
}

/// A table of three columns.
struct Law {
    sizes: [usize; 3],
    values: Vec<f64>,
}

impl Law {
    /// Gives every cell what a function makes of its place and of what it has.
    fn fill(&mut self, value: impl Fn(usize, usize, usize, f64) -> f64) {
        let [_, two, three] = self.sizes;
        for (i, table) in self.values.chunks_exact_mut(two * three).enumerate() {
            for (j, row) in table.chunks_exact_mut(three).enumerate() {
                row.iter_mut().enumerate().for_each(|(k, x)| *x = value(i, j, k, *x));
            }
        }
    }

    /// Calls with every row of cells along the third column, and with where its margin begins: the place of the row for the
    /// first two columns, and of its first cell for the first and third, or for the second and third.
    fn for_rows(&mut self, pair: usize, mut call: impl FnMut(&mut [f64], usize)) {
        let [_, two, three] = self.sizes;
        for (at, row) in self.values.chunks_exact_mut(three).enumerate() {
            call(row, [at, at / two * three, at % two * three][pair]);
        }
    }

    fn margin(&mut self, pair: usize) -> Vec<f64> {
        let [one, two, three] = self.sizes;
        let mut sums = vec![0.0; [one * two, one * three, two * three][pair]];
        self.for_rows(pair, |row, at| match pair {
            0 => sums[at] = row.iter().sum(),
            _ => sums[at..][..three].iter_mut().zip(row).for_each(|(sum, x)| *sum += *x),
        });
        sums
    }

    /// Gives the law the margin of a pair of columns, and says how far it was from that.
    fn fit(&mut self, pair: usize, target: &[f64]) -> f64 {
        let three = self.sizes[2];
        let mut scales = self.margin(pair);
        let mut gap = 0.0f64;
        for (sum, target) in scales.iter_mut().zip(target) {
            gap = gap.max((target - *sum).abs());
            *sum = if *sum > 0.0 { target / *sum } else { 0.0 };
        }
        self.for_rows(pair, |row, at| match pair {
            0 => row.iter_mut().for_each(|x| *x *= scales[at]),
            _ => row.iter_mut().zip(&scales[at..][..three]).for_each(|(x, scale)| *x *= scale),
        });
        gap
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::PublicStream;

    const SIZES: [usize; 3] = [3, 4, 2];

    fn cells() -> impl Iterator<Item = [usize; 3]> {
        let [one, two, three] = SIZES;
        (0..one * two * three).map(move |at| [at / (two * three), at / three % two, at % three])
    }

    /// A law without an interaction of three on the scale of logarithms: a product of functions of pairs.
    fn law(seed: u64) -> Vec<f64> {
        let mut random = PublicStream::new("test", seed);
        let mut factor = |size: usize| -> Vec<f64> { (0..size).map(|_| (1.2 * random.normal()).exp()).collect() };
        let [one, two, three] = SIZES;
        let (ab, ac, bc) = (factor(one * two), factor(one * three), factor(two * three));
        let raw: Vec<f64> = cells().map(|[i, j, k]| ab[i * two + j] * ac[i * three + k] * bc[j * three + k]).collect();
        let total: f64 = raw.iter().sum();
        raw.iter().map(|x| x / total).collect()
    }

    /// The probabilities of some of the columns, cell by cell.
    fn margin(law: &[f64], kept: &[usize]) -> Vec<f64> {
        let mut sums = vec![0.0; kept.iter().map(|column| SIZES[*column]).product()];
        for (cell, p) in cells().zip(law) {
            sums[kept.iter().fold(0, |at, column| at * SIZES[*column] + cell[*column])] += p;
        }
        sums
    }

    fn composition(law: &[f64], levels: bool) -> Composition {
        let groups = |column: usize| {
            let of_cell = (0..SIZES[column] as u32).collect();
            Some(Groups { of_cell, masses: margin(law, &[column]), levels })
        };
        let pairs = [[0, 1], [0, 2], [1, 2]].map(|pair| (pair, margin(law, &pair)));
        Composition::new((0..3).map(groups).collect(), pairs.to_vec())
    }

    /// Such a law is found from its pairs alone: what they add, and what is composed, are the law.
    #[test]
    fn a_law_of_pairs_is_composed_of_them() {
        for seed in 0..20 {
            let law = law(seed);
            let composition = composition(&law, false);
            let single: Vec<Vec<f64>> = (0..3).map(|column| margin(&law, &[column])).collect();
            let pair = |a: usize, b: usize, cell: &[usize; 3]| {
                margin(&law, &[a, b])[cell[a] * SIZES[b] + cell[b]] - single[a][cell[a]] * single[b][cell[b]]
            };
            for (cell, truth) in cells().zip(&law) {
                let m = |column: usize| single[column][cell[column]];
                let additive =
                    m(0) * m(1) * m(2) + pair(0, 1, &cell) * m(2) + pair(0, 2, &cell) * m(1) + pair(1, 2, &cell) * m(0);
                let inside = |column: usize| -> Vec<f64> {
                    (0..SIZES[column]).map(|group| if group == cell[column] { m(column) } else { 0.0 }).collect()
                };
                let [f, g, h] = [inside(0), inside(1), inside(2)];
                let composed = composition.value(&[0, 1, 2], &[&f, &g, &h]);
                assert!((additive + composed - truth).abs() < 2e-5, "{additive} + {composed}, not {truth}");
            }
            // It is pure: nothing is left of it when any column is summed over.
            let all: Vec<&[f64]> = single.iter().map(|masses| &masses[..]).collect();
            for column in 0..3 {
                let mut one = vec![0.0; SIZES[column]];
                one[1] = 1.0;
                let mut means = all.clone();
                means[column] = &one;
                assert!(composition.value(&[0, 1, 2], &means).abs() < 1e-9);
            }
        }
    }

    /// Points are weighted as questions are answered.
    #[test]
    fn weights_are_those_of_the_answers() {
        let law = law(3);
        let composition = composition(&law, true);
        let points: Vec<Vec<u32>> = (0..3).map(|column| cells().map(|cell| cell[column] as u32).collect()).collect();
        let one = |size: usize, at: usize| -> Vec<f64> { (0..size).map(|i| f64::from(i == at)).collect() };
        for (cell, weight) in cells().zip(composition.weights(&points, &[0, 1, 2])) {
            let of = [0, 1, 2].map(|column| one(SIZES[column], cell[column]));
            let pairs = [[0, 1], [0, 2], [1, 2]].map(|pair| composition.value(&pair, &pair.map(|c| &of[c][..])));
            let all = composition.value(&[0, 1, 2], &[&of[0], &of[1], &of[2]]);
            assert!((weight - pairs.iter().sum::<f64>() - all).abs() < 1e-9);
        }
    }

    /// Levels have no negative probabilities together, and as many rows each as before.
    #[test]
    fn tables_of_levels_are_made_possible() {
        let masses = [vec![0.5, 0.3, 0.2], vec![0.6, 0.4]];
        let fitted = [0.32, 0.18, 0.32, -0.02, -0.04, 0.24];
        let groups = |column: usize| {
            let of_cell = (0..masses[column].len() as u32).collect();
            Some(Groups { of_cell, masses: masses[column].clone(), levels: true })
        };
        let composition = Composition::new((0..2).map(groups).collect(), vec![([0, 1], fitted.to_vec())]);
        let mut sums = [0.0; 3];
        for (at, p) in fitted.iter().enumerate() {
            let (i, j) = (at / 2, at % 2);
            let inside = |masses: &[f64], group: usize| -> Vec<f64> {
                masses.iter().enumerate().map(|(at, mass)| if at == group { *mass } else { 0.0 }).collect()
            };
            let (f, g) = (inside(&masses[0], i), inside(&masses[1], j));
            let p = p + composition.value(&[0, 1], &[&f, &g]);
            assert!(p > -1e-12, "{p}");
            sums[i] += p;
        }
        assert!(sums.iter().zip(&masses[0]).all(|(sum, mass)| (sum - mass).abs() < 1e-9), "{sums:?}");
    }
}
