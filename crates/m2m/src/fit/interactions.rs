//! What columns do together, read from tables over merged cells ([`MergedSpec`]).
//!
//! Against a product of marginals ψ the density ratio is 1 + Σ_S h_S, where h_S is the pure interaction of a set S of
//! columns: it vanishes when averaged over any of them. Each h_S is a random function
//! $\sum c_{kl\dots} e_k(x_i) e_l(x_j)\cdots$ with functions $e_k$ that are orthonormal under the marginal of their column
//! (levels, missing, then the number itself and cosines of its rank) and independent
//! $c \sim N(0, s_S \prod o_k^{-decay})$, o = 1 for levels and numbers and one more than the frequency of a cosine. What
//! four and more columns do together is taken for nothing.
//!
//! **One table.** What fewer columns do, as it is known by then, is taken off a table. Errors of that are left: of one
//! column's marginal, say, times the probabilities m of another's merged cells. Let v be their variance in a cell, in the mean
//! over all columns, σ² that of the noise, and $W = I - (1 - g)\,m m^\top/|m|^2$ with $g^{-2} = 1 + v|m|^2/σ^2$. With W along every
//! column, errors and noise together are about white, and no more than that where v holds for each column. Where marginals are
//! known well next to tables, g is nearly 1, and a level that most rows have is told by its own cells; where nothing is known
//! of them, g = 0. Let $A_{gk} = E_ψ 1_g e_k$. With the singular value decomposition $W A D^{1/2} = Z S V^\top$,
//! D = diag(o^(-decay)), of every column, the model is diagonal: $y = T \cdot WZ \cdot WZ = S S\,c' + \text{noise}$ with
//! $c' \sim N(0, s)$, so that the posterior and its evidence are sums.
//!
//! **A product of signs** of the same columns is one more moment, $t = \sum a_k b_l\,c'_{kl} + \text{noise}$ with
//! $a = S Z^\top (\text{signs} - \text{their mean})$: given the table, one step of regression along one direction.
//!
//! **The scale** s of a set is averaged over its posterior. Its prior is a law on a grid that is itself fitted to all
//! tables of the same size (empirical Bayes): where most pairs are independent, a faint one is taken for noise.

use std::borrow::{Borrow, Cow};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use faer::{Mat, Side};

use crate::Error;
use crate::feature::{MapSpec, MergedSpec, SignColumn};
use crate::fit::columns::Knowledge;
use crate::fit::completion;
use crate::fit::composition::{self, Composition};
use crate::fit::points::dot;
use crate::fit::rows::Rows;
use crate::fit::separate::{Tabulated, Term};
use crate::panel::Value;
use crate::prior::{Axis, Independent, Place};
use crate::release::Release;
use crate::simd::{Simd, dispatched};

/// The interactions that a release tells of.
pub(crate) struct Interactions {
    /// For tables of two and of three columns, each column of the schema; nothing for those in no table.
    columns: [Vec<Option<Scores>>; 2],
    /// The group of each cell of those columns.
    groups: [Groups; 2],
    sets: Vec<Set>,
    at: HashMap<Vec<usize>, usize>,
    /// What pairs imply for three columns, and what is missing for their own tables to be possible.
    composed: Composition,
    /// The scale of interactions of three columns that no table tells of, over the root of that of two.
    beside_pairs: f64,
}

type Groups = Vec<Option<Vec<u32>>>;

/// The functions of one column in which its interactions are expressed.
struct Scores {
    basis: Arc<Basis>,
    /// `[score][function]`: V^⊤ D^½.
    rotation: Mat<f64>,
    /// The scores that tables tell something of; they come first.
    seen: usize,
    singular: Vec<f64>,
    /// `[group][score]`: W Z.
    readers: Mat<f64>,
    /// The prior variance of functions beyond the basis.
    outside: f64,
}

/// What no decay changes about the functions of a column.
struct Basis {
    /// Orthonormal functions, as tables on the column's axis, and their orders.
    functions: Vec<Vec<f64>>,
    orders: Vec<f64>,
    /// `[group][function]`: W A.
    moments: Mat<f64>,
    damping: Damping,
    /// A place in each group that has one of some probability. Functions of levels are the same in all of them.
    by_group: Vec<Option<usize>>,
}

/// What is known of the interaction of a set of columns: for each combination of seen scores the posterior mean, the
/// posterior variance, and how much of a moment goes into the mean.
struct Set {
    columns: Vec<usize>,
    mean: Vec<f64>,
    variance: Vec<f64>,
    gain: Vec<f64>,
    /// The variance of the noise on a moment.
    noise: f64,
    /// The posterior mean of s.
    scale: f64,
    /// What a product of signs adds to that.
    narrowed: Option<Narrowed>,
    spread: OnceLock<[Vec<f64>; 2]>,
    by_group: ByGroup,
}

/// What a set does where each of its columns is in one group, cell by cell of its table: added to the density ratio, to the
/// variance of that, and to what the noise has of it. It is made once questions ask for many single groups.
#[derive(Default)]
struct ByGroup {
    asked: AtomicU32,
    made: OnceLock<[Vec<f64>; 3]>,
}

impl Set {
    /// The bins of its columns.
    fn binned<'a>(&self, scores: &'a [Cow<'_, PointScores>]) -> Vec<&'a Binned> {
        self.columns.iter().map(|column| &scores[*column][self.columns.len() - 2]).collect()
    }

    /// For each combination of seen scores, how far the posterior variance is from the scale, and the variance that the
    /// noise has of it.
    fn spread(&self) -> [&[f64]; 2] {
        let made = self.spread.get_or_init(|| {
            let of_noise = |gain: &f64| gain.powi(2) * self.noise;
            let from_scale = |variance: &f64| variance - self.scale;
            [self.variance.iter().map(from_scale).collect(), self.gain.iter().map(of_noise).collect()]
        });
        made.each_ref().map(Vec::as_slice)
    }
}

/// What one more moment along one direction does to a posterior.
struct Narrowed {
    /// The posterior covariance is less by the product of this with itself.
    less: Vec<f64>,
    /// How much of that moment goes into the mean.
    gain: Vec<f64>,
    /// The direction, times the squared gains of the table's moments.
    felt: Vec<f64>,
    /// The variance of what the noise does to the difference between that moment and what the table implies for it.
    noise: f64,
}

/// One factor of a question's term, as the interactions see it.
pub(crate) struct Share {
    column: usize,
    mean: f64,
    /// The means in each group of the tables of two columns.
    groups: Vec<f64>,
    /// Products with the basis, and the scores, for tables of two and of three columns.
    parts: [(Vec<f64>, Vec<f64>); 2],
    /// The one group that it is zero outside of, if it is a function of levels and there is such a group.
    confined: [Option<u32>; 2],
    /// The products of scores, and the covariance that the prior gives it, with itself.
    own: [(Vec<f64>, f64); 2],
}

/// A column that two terms share, by its places among their factors; for tables of two and of three columns, the products
/// of scores, and the covariance that the prior gives the two factors.
struct Both<'a> {
    first: usize,
    second: usize,
    parts: Cow<'a, [(Vec<f64>, f64); 2]>,
}

/// The covariance of two questions: the whole, and what the noise has of it.
#[derive(Default)]
pub(crate) struct Spread {
    pub all: f64,
    pub privacy: f64,
}

/// Exponents of decay that are tried.
const DECAYS: [f64; 7] = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0];
/// Candidates for the scale of a set.
const SCALES: usize = 15;
/// The scale of interactions of three columns over the root of that of two, where no table of three tells: weaker where columns
/// are nearly independent, but not as weak as products of interactions of two would be.
const UNSEEN: f64 = 0.01;
/// How much larger it is taken to be than where tables tell of it: these see it through few groups of cells.
const ELSEWHERE: f64 = 2.0;
/// What other pairs imply for one is multiplied by at most this: it was shrunk on the way.
const MOST: f64 = 1.5;
/// Questions for single groups after which a set is tabulated.
const OFTEN: u32 = 32;
/// A cell of so many times the mass of a usual group is not looked into.
const HEAVY: f64 = 2.0;
/// Nor is one that has this part of its group.
const ALONE: f64 = 0.8;
/// The scale of a pair of columns that no table tells of.
const UNKNOWN: f64 = 1.0 / 3.0;

fn scale(candidate: usize) -> f64 {
    10f64.powf(-5.0 + 5.5 * candidate as f64 / (SCALES - 1) as f64)
}

impl Interactions {
    /// Reads the tables of a release; nothing if it has none over merged cells of the prior's own partition.
    pub fn new(
        release: &Release,
        prior: &Independent,
        known: &[Knowledge],
        counted: Rows,
    ) -> Result<Option<Self>, Error> {
        let rows = counted.value;
        let schema = release.schema();
        let mut tables = Vec::new();
        for block in release.blocks() {
            let MapSpec::Merged(spec) = block.map() else { continue };
            let deviation = (block.noise().standard_deviation(block.sums().len()) / rows).max(1e-9);
            for ((first, cells), places) in block.map().tables(schema)?.into_iter().zip(&spec.tables) {
                let sizes: Vec<usize> = cells.iter().map(|cells| cells.len()).collect();
                let columns: Vec<usize> = cells.iter().map(|cells| cells.column()).collect();
                let other_cells = |(place, column): (&u32, &usize)| {
                    spec.columns[*place as usize].groups.len() != prior.axes[*column].cells()
                };
                // Parts of bins tell of no column together with another.
                if columns.len() == 1 {
                    continue;
                }
                let in_order = columns.windows(2).all(|pair| pair[0] < pair[1]);
                if !in_order || !(2..=3).contains(&columns.len()) || places.iter().zip(&columns).any(other_cells) {
                    return Ok(None);
                }
                let len = sizes.iter().product();
                let values = block.sums()[first..][..len].iter().map(|sum| *sum as f64 / rows).collect();
                tables.push(Table { columns, sizes, values, noise: deviation * deviation, product: None });
            }
        }
        if tables.is_empty() {
            return Ok(None);
        }
        let (Some(mut two), Some(three)) = (groups_by_column(release, 2), groups_by_column(release, 3)) else {
            return Ok(None);
        };
        two.iter_mut().zip(&three).filter(|(two, _)| two.is_none()).for_each(|(two, three)| two.clone_from(three));
        let (of_three, mut of_two): (Vec<Table>, Vec<Table>) =
            tables.into_iter().partition(|table| table.columns.len() == 3);
        of_two.extend(pairs_within(&of_three, &of_two, &two, &three));
        let Some(mut products) = products_of_signs(release, &two, prior, known, counted) else { return Ok(None) };
        of_two.iter_mut().for_each(|table| table.product = products.remove(&table.columns));
        let mut found = Self {
            columns: [no_scores(prior), no_scores(prior)],
            groups: [two, three],
            sets: Vec::new(),
            at: HashMap::new(),
            composed: Composition::new(no_scores(prior), Vec::new()),
            beside_pairs: UNSEEN,
        };
        let of_columns: Vec<f64> = (found.groups[0].iter().zip(known))
            .filter_map(|(groups, known)| groups.as_ref().map(|groups| variance_of_groups(groups, known)))
            .collect();
        let of_marginals = of_columns.iter().sum::<f64>() / of_columns.len().max(1) as f64;
        found.take_in(of_two, of_marginals, counted, prior);
        found.composed = compose(&found.sets, &found.columns[0], &found.groups[0], prior);
        let of_pairs = found.noise_on_pairs(&of_three);
        found.take_in(of_three, of_pairs, counted, prior);
        found.beside_pairs = found.three_beside_pairs();
        Ok(Some(found))
    }

    /// Takes in tables of equally many columns, given the variance of errors of what fewer columns do, in a cell.
    ///
    /// An error of the number of rows by a part δ of it changes a table by δ times what is expected, which is mostly along
    /// the masses of all columns at once. There, errors of variance v in a cell are allowed for by (v/σ²)^k of the noise's
    /// σ², for k columns, and more; so v is taken for no less than makes that δ².
    fn take_in(&mut self, mut tables: Vec<Table>, variance: f64, counted: Rows, prior: &Independent) {
        let Some(columns) = tables.first().map(|table| table.columns.len()) else { return };
        let size = columns - 2;
        let groups = &self.groups[size];
        let expected = self.expected(tables.iter().map(|table| with_groups(&table.columns, groups)), prior);
        for (table, expected) in tables.iter_mut().zip(expected) {
            table.values.iter_mut().zip(expected).for_each(|(value, expected)| *value -= expected);
        }
        let noise = tables.len() as f64 / tables.iter().map(|table| 1.0 / table.noise).sum::<f64>();
        let of_count = ((counted.deviation / counted.value).powi(2) / noise).powf(1.0 / columns as f64);
        let (scores, sets) = read(&tables, groups, (variance / noise).max(of_count), prior);
        self.columns[size] = scores;
        let start = self.sets.len();
        self.at.extend(sets.iter().enumerate().map(|(at, set)| (set.columns.clone(), start + at)));
        self.sets.extend(sets);
    }

    /// The variance of the noise on what tables of two columns tell of a cell of these tables of three; of infinite size if
    /// there is a pair that none tells of.
    fn noise_on_pairs(&self, of_three: &[Table]) -> f64 {
        let (mut sum, mut pairs) = (0.0, 0.0);
        for Table { columns, sizes, .. } in of_three {
            for pair in [[0, 1], [0, 2], [1, 2]] {
                let Some(at) = self.at.get(&pair.map(|place| columns[place])[..]) else { return f64::INFINITY };
                let set = &self.sets[*at];
                let groups = |place: usize| self.scores(set, columns[place]).readers.nrows() as f64;
                sum += set.noise * pair.map(|place| groups(place) / sizes[place] as f64).iter().product::<f64>();
                pairs += 1.0;
            }
        }
        sum / f64::max(pairs, 1.0)
    }

    /// What the interactions see of a term's factors.
    pub fn shares<'a>(&self, term: &'a Term, prior: &Independent) -> Vec<&'a Share> {
        let share = |(column, table): &'a (usize, Arc<Tabulated>)| {
            table.share.get_or_init(|| self.share(*column, table, &prior.axes[*column]))
        };
        term.factors.iter().map(share).collect()
    }

    fn share(&self, column: usize, table: &[f64], axis: &Axis) -> Share {
        let weighted: Vec<f64> = axis.weight().iter().zip(table).map(|(weight, x)| weight * x).collect();
        let parts = self.columns.each_ref().map(|columns| match &columns[column] {
            Some(scores) => {
                let basis: Vec<f64> = scores.basis.functions.iter().map(|e| dot(&weighted, e)).collect();
                let scores = scores.rotate(&basis);
                (basis, scores)
            }
            None => (Vec::new(), Vec::new()),
        });
        let groups = self.composed.groups(column).map_or_else(Vec::new, |groups| groups.of(axis, table));
        let mean = axis.mean(table);
        let variance = dot(&weighted, table) - mean * mean;
        let own = std::array::from_fn(|size| self.products(size, column, [&parts[size], &parts[size]], variance));
        let levels = axis.is_levels();
        let confined = self.groups.each_ref().map(|groups| {
            let groups = groups[column].as_ref().filter(|_| levels)?;
            let mut present = axis.partition().iter().zip(table).filter(|(_, x)| **x != 0.0);
            let group = groups[*present.next()?.0 as usize];
            present.all(|(cell, _)| groups[*cell as usize] == group).then_some(group)
        });
        Share { column, mean, groups, parts, confined, own }
    }

    /// The products of the scores of two functions of a column that have this covariance, and the covariance that the prior
    /// gives them.
    fn products(&self, size: usize, column: usize, of: [&(Vec<f64>, Vec<f64>); 2], inner: f64) -> (Vec<f64>, f64) {
        let Some(scores) = &self.columns[size][column] else { return (Vec::new(), inner) };
        let [(basis, mine), (other_basis, others)] = of;
        let products: Vec<f64> = mine.iter().zip(others).map(|(x, y)| x * y).collect();
        let beyond = scores.outside * (inner - dot(basis, other_basis));
        let kernel = products.iter().sum::<f64>() + beyond;
        (products, kernel)
    }

    /// For functions that are each confined to one group, what their set adds to the mean of their product, the variance of
    /// that, and what the noise has of it, for means of 1. Nothing unless that was asked for often.
    fn by_group(&self, set: &Set, shares: &[&Share]) -> Option<[f64; 3]> {
        let size = shares.len() - 2;
        let mut at = 0;
        for share in shares {
            let groups = self.scores(set, share.column).readers.nrows();
            at = at * groups + share.confined[size]? as usize;
        }
        if set.by_group.asked.fetch_add(1, Ordering::Relaxed) < OFTEN && set.by_group.made.get().is_none() {
            return None;
        }
        let made = set.by_group.made.get_or_init(|| self.tabulate(set));
        Some([made[0][at], made[1][at], made[2][at]])
    }

    /// What a set of columns of levels does, cell by cell of its table.
    fn tabulate(&self, set: &Set) -> [Vec<f64>; 3] {
        let [from_scale, of_noise] = set.spread();
        let scores: Vec<Vec<Vec<f64>>> =
            set.columns.iter().map(|column| self.scores(set, *column).by_group()).collect();
        [(&set.mean[..], 1), (from_scale, 2), (of_noise, 2)].map(|(table, power)| {
            let mut values = table.to_vec();
            for by_group in &scores {
                let seen = by_group.first().map_or(0, Vec::len);
                values = turn(&values, seen, by_group.len(), |score, group| by_group[group][score].powi(power));
            }
            values
        })
    }

    /// What interactions add to the mean of a term.
    pub fn value<S: Borrow<Share>>(&self, coefficient: f64, shares: &[S]) -> f64 {
        let mut sum = 0.0;
        for_subsets(shares.len(), |subset| {
            let share = |at: usize| -> &Share { shares[at].borrow() };
            let columns = &each(subset, |at| share(at).column)[..subset.len()];
            let rest = others(shares, subset);
            if let Some(at) = self.at.get(columns) {
                let set = &self.sets[*at];
                let chosen = each(subset, share);
                sum += rest
                    * match self.by_group(set, &chosen[..subset.len()]) {
                        Some([ratio, ..]) => subset.iter().map(|at| share(*at).mean).product::<f64>() * ratio,
                        None => {
                            let factors = each(subset, |at| &share(at).parts[subset.len() - 2].1[..]);
                            let [value] = self.contract(&factors[..subset.len()], set, [&set.mean]);
                            value
                        }
                    };
            }
            let means = each(subset, |at| &share(at).groups[..]);
            sum += rest * self.composed.value(columns, &means[..subset.len()]);
        });
        coefficient * sum
    }

    /// The covariance of the interactions of two terms.
    pub fn spread(&self, a: &Term, b: &Term, prior: &Independent, sum: &mut Spread) {
        let (one, two) = (self.shares(a, prior), self.shares(b, prior));
        // The columns that both have, with the covariance of what lies in the seen scores, and of all.
        let mut both: Vec<Both<'_>> = Vec::with_capacity(one.len());
        for (i, share) in one.iter().enumerate() {
            let Some(j) = two.iter().position(|other| other.column == share.column) else { continue };
            let other = two[j];
            let parts = if std::ptr::eq(*share, other) {
                Cow::Borrowed(&share.own)
            } else {
                let inner = prior.axes[share.column].inner(&a.factors[i].1, &b.factors[j].1) - share.mean * other.mean;
                Cow::Owned(std::array::from_fn(|size| {
                    self.products(size, share.column, [&share.parts[size], &other.parts[size]], inner)
                }))
            };
            both.push(Both { first: i, second: j, parts });
        }
        for_subsets(both.len(), |subset| {
            let count = subset.len();
            let columns = &each(subset, |at| one[both[at].first].column)[..count];
            let (first, second) = (each(subset, |at| both[at].first), each(subset, |at| both[at].second));
            let (first, second) = (&first[..count], &second[..count]);
            let rest = a.coefficient * b.coefficient * others(&one, first) * others(&two, second);
            let size = count - 2;
            if rest == 0.0 {
                return;
            }
            let kernel: f64 = subset.iter().map(|at| both[*at].parts[size].1).product();
            let Some(at) = self.at.get(columns) else {
                sum.all += rest * self.unseen(columns) * kernel;
                return;
            };
            let set = &self.sets[*at];
            let chosen = each(subset, |at| one[both[at].first]);
            let same = subset.iter().all(|at| matches!(both[*at].parts, Cow::Borrowed(_)));
            let [all, privacy] = match self.by_group(set, &chosen[..count]).filter(|_| same) {
                Some([_, all, privacy]) => {
                    let squares: f64 = chosen[..count].iter().map(|share| share.mean * share.mean).product();
                    [squares * all, squares * privacy]
                }
                None => {
                    let factors = each(subset, |at| &both[at].parts[size].0[..]);
                    self.contract(&factors[..count], set, set.spread())
                }
            };
            sum.all += rest * (set.scale * kernel + all);
            sum.privacy += rest * privacy;
            if let Some(narrowed) = &set.narrowed {
                let along = |shares: &[&Share], places: &[usize]| {
                    let factors = each(places, |at| &shares[at].parts[size].1[..]);
                    self.contract(&factors[..count], set, [&narrowed.less, &narrowed.gain, &narrowed.felt])
                };
                let mine = along(&one, first);
                let other = if std::ptr::eq(a, b) { mine } else { along(&two, second) };
                narrowed.spread(mine, other, rest, set.noise, sum);
            }
        });
    }

    /// The scale of a set of columns that no table tells of.
    fn unseen(&self, columns: &[usize]) -> f64 {
        match *columns {
            [_, _] => UNKNOWN,
            [a, b, c] => self.beside_pairs * self.root_of_pairs([a, b, c]),
            _ => 0.0,
        }
    }

    /// The root of the mean scale of three pairs of columns.
    fn root_of_pairs(&self, [a, b, c]: [usize; 3]) -> f64 {
        let pair = |pair: [usize; 2]| self.at.get(&pair[..]).map_or(UNKNOWN, |at| self.sets[*at].scale);
        ((pair([a, b]) + pair([a, c]) + pair([b, c])) / 3.0).sqrt()
    }

    /// The scale of interactions of three columns over the root of that of two, as the tables of three columns tell it, held to
    /// what is usual by one table's worth. Without any it is the usual one.
    fn three_beside_pairs(&self) -> f64 {
        let tables =
            self.sets.iter().filter_map(|set| <[usize; 3]>::try_from(&set.columns[..]).ok().map(|at| (set, at)));
        let (mut scales, mut roots, mut count) = (0.0, 0.0, 0.0);
        for (set, columns) in tables {
            scales += set.scale;
            roots += self.root_of_pairs(columns);
            count += 1.0;
        }
        let held = if count > 0.0 { roots / count } else { 1.0 };
        (ELSEWHERE * scales + UNSEEN * held) / (roots + held)
    }

    /// Σ over combinations of seen scores of the numbers of some tables times the product of the factors.
    fn contract<const N: usize>(&self, factors: &[&[f64]], set: &Set, tables: [&[f64]; N]) -> [f64; N] {
        let seen = |place: usize| &factors[place][..self.scores(set, set.columns[place]).seen];
        // The last index is the fastest: rows are added up along it, several numbers at once.
        let last = seen(factors.len() - 1);
        let mut rows = vec![0.0; N * last.len()];
        let mut at = 0;
        let mut add = |times: f64| {
            for (sums, table) in rows.chunks_exact_mut(last.len().max(1)).zip(&tables) {
                sums.iter_mut().zip(&table[at..][..last.len()]).for_each(|(sum, x)| *sum += times * x);
            }
            at += last.len();
        };
        match factors.len() {
            2 => seen(0).iter().for_each(|x| add(*x)),
            3 => seen(0).iter().for_each(|x| seen(1).iter().for_each(|y| add(x * y))),
            _ => unreachable!("sets are of two or three columns"),
        }
        std::array::from_fn(|table| dot(&rows[table * last.len()..][..last.len()], last))
    }

    fn scores(&self, set: &Set, column: usize) -> &Scores {
        self.columns[set.columns.len() - 2][column].as_ref().expect("it is in a table")
    }

    /// Puts points in bins of a column, given the places of its axis at which they are, each with where in the place it is,
    /// from -1 to 1.
    pub fn at(&self, column: usize, prior: &Independent, points: &[(u32, f32)]) -> PointScores {
        std::array::from_fn(|size| match (&self.columns[size][column], &self.groups[size][column]) {
            (Some(scores), Some(groups)) => Binned::new(scores, groups, &prior.axes[column], points, BINS[size]),
            _ => Binned::default(),
        })
    }

    /// What interactions of some columns add to the weight of each point, given the bins of these columns and the cell
    /// of every point.
    pub fn weights(&self, scores: &[Cow<'_, PointScores>], cells: &[Vec<u32>], columns: &[usize]) -> Vec<f64> {
        let mut weights = self.composed.weights(cells, columns);
        for set in self.among(columns) {
            let binned = set.binned(scores);
            let mut table = set.mean.clone();
            for column in &binned {
                table = turn(&table, column.scores.len(), column.count, |score, bin| column.scores[score][bin]);
            }
            for_places(&binned, |point, place| weights[point] += table[place]);
        }
        weights
    }

    /// What composition adds to the weight of each point, given the cell of every point.
    pub fn composed(&self, cells: &[Vec<u32>], columns: &[usize]) -> Vec<f64> {
        self.composed.weights(cells, columns)
    }

    /// The sets of which all columns are among these: the others do nothing to functions of these alone.
    fn among(&self, columns: &[usize]) -> impl Iterator<Item = &Set> {
        self.sets.iter().filter(move |set| set.columns.iter().all(|column| columns.contains(column)))
    }

    /// The means over points of a function of some columns times the products of scores, set by set of those columns.
    pub fn project(&self, scores: &[Cow<'_, PointScores>], values: &[f64], columns: &[usize]) -> Vec<Vec<f64>> {
        let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
        let sets: Vec<&Set> = self.among(columns).collect();
        let share = sets.len().div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            let running: Vec<_> = sets
                .chunks(share)
                .map(|sets| scope.spawn(move || sets.iter().map(|set| project_on(set, scores, values)).collect()))
                .collect();
            running.into_iter().flat_map(|part| -> Vec<Vec<f64>> { part.join().expect("sums do not panic") }).collect()
        })
    }

    /// What the tables add to the mean of a function of some columns that is given by its projections.
    pub fn projected_value(&self, projections: &[Vec<f64>], columns: &[usize]) -> f64 {
        self.among(columns).zip(projections).map(|(set, v)| dot(&set.mean, v)).sum()
    }

    /// The covariance of two functions that are given by their projections, and the scalar product of what they have
    /// beyond the effects of single columns.
    pub fn projected_spread(&self, f: &[Vec<f64>], g: &[Vec<f64>], rest: f64, columns: &[usize]) -> Spread {
        let mut sum = Spread::default();
        for ((set, f), g) in self.among(columns).zip(f).zip(g) {
            for (at, (f, g)) in f.iter().zip(g).enumerate() {
                sum.all += f * g * set.variance[at];
                sum.privacy += f * g * set.gain[at].powi(2) * set.noise;
            }
            if let Some(narrowed) = &set.narrowed {
                let along = |v: &[f64]| [&narrowed.less, &narrowed.gain, &narrowed.felt].map(|vector| dot(vector, v));
                narrowed.spread(along(f), along(g), 1.0, set.noise, &mut sum);
            }
        }
        let scale = self.sets.iter().map(|set| set.scale).sum::<f64>() / self.sets.len().max(1) as f64;
        let columns: Vec<f64> = self.columns[0].iter().flatten().map(|scores| scores.outside).collect();
        let outside = columns.iter().sum::<f64>() / columns.len().max(1) as f64;
        sum.all += scale * outside * rest;
        sum
    }

    /// The sets of columns with their groups of cells.
    pub fn tables(&self) -> impl Iterator<Item = Vec<(usize, &[u32])>> + Clone {
        self.sets.iter().map(|set| with_groups(&set.columns, &self.groups[set.columns.len() - 2]))
    }

    /// The fitted probabilities of the cells of each of [`Self::tables`].
    pub fn probabilities(&self, prior: &Independent) -> Vec<Vec<f64>> {
        self.expected(self.tables(), prior)
    }

    /// The fitted probabilities of the cells of some tables.
    fn expected<'a>(
        &self,
        tables: impl Iterator<Item = Vec<(usize, &'a [u32])>> + Clone,
        prior: &Independent,
    ) -> Vec<Vec<f64>> {
        let share = |column: usize, groups: &[u32], group: u32| {
            let axis = &prior.axes[column];
            let inside =
                |(cell, place): (&u32, &Place)| f64::from(groups[*cell as usize] == group && *place != Place::Slope);
            let table: Vec<f64> = axis.partition().iter().zip(axis.places()).map(inside).collect();
            self.share(column, &table, axis)
        };
        let mut known: HashMap<(usize, usize), Vec<Share>> = HashMap::new();
        for table in tables.clone() {
            for (column, groups) in &table {
                known.entry((table.len(), *column)).or_insert_with(|| {
                    let last = groups.iter().max().copied().unwrap_or(0);
                    (0..=last).map(|group| share(*column, groups, group)).collect()
                });
            }
        }
        let of = |table: Vec<(usize, &[u32])>| {
            let shares: Vec<&[Share]> = table.iter().map(|(column, _)| &known[&(table.len(), *column)][..]).collect();
            self.products_of(&shares)
        };
        tables.map(of).collect()
    }

    /// The means of products of functions, for every choice of one for each of two or three columns, the last changing fastest.
    fn products_of(&self, shares: &[&[Share]]) -> Vec<f64> {
        let mut values = vec![1.0];
        for shares in shares {
            values = values.iter().flat_map(|value| shares.iter().map(move |share| value * share.mean)).collect();
        }
        for_subsets(shares.len(), |subset| {
            let (size, columns) = (subset.len(), each(subset, |at| shares[at][0].column));
            let columns = &columns[..size];
            let groups = |at: &usize| -> Vec<&[f64]> { shares[*at].iter().map(|share| &share.groups[..]).collect() };
            let mut table = self.composed.values(columns, &subset.iter().map(groups).collect::<Vec<_>>());
            if let Some(at) = self.at.get(columns) {
                let mut read = self.sets[*at].mean.clone();
                for (place, column) in subset.iter().zip(columns) {
                    let seen = self.scores(&self.sets[*at], *column).seen;
                    let of = shares[*place];
                    read = turn(&read, seen, of.len(), |score, choice| of[choice].parts[size - 2].1[score]);
                }
                table.iter_mut().zip(read).for_each(|(sum, x)| *sum += x);
            }
            // Neighbours in the table along each place; none along the one that is left out.
            let sizes: [usize; 3] = std::array::from_fn(|place| shares.get(place).map_or(1, |shares| shares.len()));
            let step = |place: usize| match subset.iter().position(|at| *at == place) {
                Some(at) => subset[at + 1..].iter().map(|later| sizes[*later]).product(),
                None => 0,
            };
            let steps: [usize; 3] = std::array::from_fn(step);
            let left_out = (0..shares.len()).find(|place| !subset.contains(place));
            let mut all = values.iter_mut();
            for i in 0..sizes[0] {
                for j in 0..sizes[1] {
                    for (k, value) in all.by_ref().take(sizes[2]).enumerate() {
                        let chosen = [i, j, k];
                        let rest = left_out.map_or(1.0, |place| shares[place][chosen[place]].mean);
                        *value += rest * table[i * steps[0] + j * steps[1] + k * steps[2]];
                    }
                }
            }
        });
        values
    }

    /// The density of two columns together over the product of their own, for each two cells; 1 where no table tells.
    pub fn ratios(&self, one: usize, two: usize, prior: &Independent) -> Vec<Vec<f64>> {
        let (first, second) = (one.min(two), one.max(two));
        let cells = |column: usize| prior.axes[column].cells();
        let mut ratios = vec![vec![1.0; cells(two)]; cells(one)];
        let Some(set) = self.at.get(&[first, second][..]).map(|at| &self.sets[*at]) else { return ratios };
        // `[score][cell]`
        let means = |column: usize| -> Vec<Vec<f64>> {
            let (scores, axis) = (self.scores(set, column), &prior.axes[column]);
            let mean = |score: usize| {
                let mut table = vec![0.0; axis.len()];
                for (at, e) in scores.basis.functions.iter().enumerate() {
                    table.iter_mut().zip(e).for_each(|(x, y)| *x += scores.rotation[(score, at)] * y);
                }
                axis.cell_means(&table)
            };
            (0..scores.seen).map(mean).collect()
        };
        let (of_one, of_two) = (means(one), means(two));
        let seen = if one == first { of_two.len() } else { of_one.len() };
        for (i, row) in ratios.iter_mut().enumerate() {
            for (l, score) in of_two.iter().enumerate() {
                let mean = |k: usize| set.mean[if one == first { k * seen + l } else { l * seen + k }];
                let slope: f64 = of_one.iter().enumerate().map(|(k, score)| score[i] * mean(k)).sum();
                row.iter_mut().zip(score).for_each(|(x, y)| *x += slope * y);
            }
        }
        ratios
    }

    /// What two columns tell of each other, in nats, by their groups; nothing where no table tells.
    pub fn information(&self, one: usize, two: usize) -> f64 {
        self.composed.information([one.min(two), one.max(two)])
    }

    /// The posterior mean of s of a pair of columns.
    pub fn strength(&self, one: usize, two: usize) -> f64 {
        self.at.get(&[one.min(two), one.max(two)][..]).map_or(UNKNOWN, |at| self.sets[*at].scale)
    }
}

/// Columns with the groups of their cells.
fn with_groups<'a>(columns: &[usize], groups: &'a Groups) -> Vec<(usize, &'a [u32])> {
    columns.iter().map(|column| (*column, groups[*column].as_deref().expect("it is in a table"))).collect()
}

/// No table of any column.
fn no_scores<T>(prior: &Independent) -> Vec<Option<T>> {
    prior.axes.iter().map(|_| None).collect()
}

/// The composition of what was read of pairs.
fn compose(sets: &[Set], columns: &[Option<Scores>], groups: &Groups, prior: &Independent) -> Composition {
    let grouped: Vec<Option<composition::Groups>> = (prior.axes.iter().zip(groups))
        .map(|(axis, groups)| groups.as_ref().map(|groups| composition::Groups::new(axis, groups)))
        .collect();
    // `[score][group]`: the means of the seen scores where a row is in the group, and of zero elsewhere.
    let scores: Vec<Vec<Vec<f64>>> = (columns.iter().zip(&grouped).zip(&prior.axes))
        .map(|((scores, groups), axis)| match (scores, groups) {
            (Some(scores), Some(groups)) => {
                let means: Vec<Vec<f64>> = scores.basis.functions.iter().map(|e| groups.of(axis, e)).collect();
                let rotated = |score: usize| {
                    let mut sums = vec![0.0; groups.masses.len()];
                    for (at, means) in means.iter().enumerate() {
                        sums.iter_mut().zip(means).for_each(|(sum, x)| *sum += scores.rotation[(score, at)] * x);
                    }
                    sums
                };
                (0..scores.seen).map(rotated).collect()
            }
            _ => Vec::new(),
        })
        .collect();
    let masses = |column: usize| &grouped[column].as_ref().expect("it is in a table").masses;
    let fitted = |set: &Set| {
        let &[a, b] = &set.columns[..] else { unreachable!("these are of two columns") };
        let mut table: Vec<f64> = masses(a).iter().flat_map(|p| masses(b).iter().map(move |q| p * q)).collect();
        for (at, mean) in set.mean.iter().enumerate() {
            let (one, two) = (&scores[a][at / scores[b].len()], &scores[b][at % scores[b].len()]);
            for (row, x) in table.chunks_exact_mut(two.len()).zip(one) {
                row.iter_mut().zip(two).for_each(|(p, y)| *p += mean * x * y);
            }
        }
        ([a, b], table)
    };
    let fitted: Vec<([usize; 2], Vec<f64>)> = sets.iter().map(fitted).collect();
    Composition::new(grouped, fitted)
}

/// The means over points of a function times the products of a set's scores.
fn project_on(set: &Set, scores: &[Cow<'_, PointScores>], values: &[f64]) -> Vec<f64> {
    let binned = set.binned(scores);
    let mut table = vec![0.0; binned.iter().map(|column| column.count).product()];
    for_places(&binned, |point, place| table[place] += values[point]);
    for column in &binned {
        table = turn(&table, column.count, column.scores.len(), |bin, score| column.scores[score][bin]);
    }
    table.iter_mut().for_each(|sum| *sum /= values.len() as f64);
    table
}

/// The bins of a column that points are in, for tables of two and of three columns.
pub(crate) type PointScores = [Binned; 2];

/// Points in bins of a column so narrow that the seen scores hardly vary within them. Sums over points of products of scores
/// are then sums over few combinations of bins.
#[derive(Clone, Default)]
pub(crate) struct Binned {
    /// Of each point.
    bins: Vec<u16>,
    count: usize,
    /// `[score][bin]`: the means over the points of a bin.
    scores: Vec<Vec<f64>>,
}

/// About how many bins there are of a column for tables of two columns, and of three. All scores are the same in bins of
/// levels and missing cells; the seen ones among cosines of the rank change by a fraction of their period.
const BINS: [usize; 2] = [64, 20];
/// Parts of a place that are told apart.
const PARTS: usize = 8;

impl Binned {
    fn new(scores: &Scores, groups: &[u32], axis: &Axis, points: &[(u32, f32)], most: usize) -> Self {
        let places = axis.places();
        let part = |(place, t): (u32, f32)| {
            place as usize * PARTS + (((t + 1.0) * (0.5 * PARTS as f32)) as usize).min(PARTS - 1)
        };
        // For each part of a place, how many points it has and where they are on the whole.
        let mut parts = vec![(0u32, 0.0f64); places.len() * PARTS];
        for point in points {
            let (count, sum) = &mut parts[part(*point)];
            *count += 1;
            *sum += f64::from(point.1);
        }
        // Parts of one group side by side, in the order of their numbers.
        let unit = |place: usize| places[place].middle().unwrap_or(-1.0 - place as f64);
        let group = |place: usize| groups[axis.partition()[place] as usize];
        let mut order: Vec<usize> = (0..parts.len()).filter(|part| parts[*part].0 > 0).collect();
        order.sort_by(|a, b| {
            let (one, two) = (a / PARTS, b / PARTS);
            group(one).cmp(&group(two)).then(unit(one).total_cmp(&unit(two))).then(a.cmp(b))
        });
        let room = (points.len() / most).max(1) as u32;
        let mut bin_of = vec![0u16; parts.len()];
        let mut held: Vec<u32> = Vec::new();
        let mut last = None;
        for part in &order {
            let (place, count) = (part / PARTS, parts[*part].0);
            let apart = !matches!(places[place], Place::Interval { .. } | Place::Point(Value::Unit(_)));
            let alike = last == Some((group(place), false)) && !apart;
            match held.last_mut() {
                Some(held) if alike && *held + count <= room => *held += count,
                _ => held.push(count),
            }
            last = Some((group(place), apart));
            bin_of[*part] = (held.len() - 1) as u16;
        }
        let score = |score: usize| {
            let mut table = vec![0.0; places.len() + 1];
            for (at, e) in scores.basis.functions.iter().enumerate() {
                table.iter_mut().zip(e).for_each(|(x, y)| *x += scores.rotation[(score, at)] * y);
            }
            let mut means = vec![0.0; held.len()];
            for part in &order {
                let (place, (count, sum)) = (part / PARTS, parts[*part]);
                let slope = if places.get(place + 1) == Some(&Place::Slope) { table[place + 1] } else { 0.0 };
                means[bin_of[*part] as usize] += f64::from(count) * table[place] + sum * slope;
            }
            means.iter_mut().zip(&held).for_each(|(mean, count)| *mean /= f64::from(*count));
            means
        };
        Self {
            bins: points.iter().map(|point| bin_of[part(*point)]).collect(),
            count: held.len(),
            scores: (0..scores.seen).map(score).collect(),
        }
    }
}

/// Calls with every point and its place in the table of the bins of some columns, the last of them fastest.
#[inline(always)]
fn for_places(binned: &[&Binned], mut call: impl FnMut(usize, usize)) {
    match binned {
        [a, b] => a.bins.iter().zip(&b.bins).enumerate().for_each(|(point, (i, j))| {
            call(point, usize::from(*i) * b.count + usize::from(*j));
        }),
        [a, b, c] => a.bins.iter().zip(&b.bins).zip(&c.bins).enumerate().for_each(|(point, ((i, j), k))| {
            call(point, (usize::from(*i) * b.count + usize::from(*j)) * c.count + usize::from(*k));
        }),
        _ => unreachable!("sets are of two or three columns"),
    }
}

/// Contracts the first index of a table, of so many values, with a matrix whose other index becomes the last.
pub(super) fn turn(table: &[f64], size: usize, width: usize, matrix: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let rest = table.len() / size.max(1);
    let mut turned = vec![0.0; rest * width];
    if turned.is_empty() {
        return turned;
    }
    let mut row = vec![0.0; width];
    for (at, values) in table.chunks_exact(rest).enumerate() {
        row.iter_mut().enumerate().for_each(|(other, x)| *x = matrix(at, other));
        for (sums, value) in turned.chunks_exact_mut(width).zip(values) {
            sums.iter_mut().zip(&row).for_each(|(sum, x)| *sum += value * x);
        }
    }
    turned
}

/// The product of the means of all factors but those of a subset.
fn others<S: Borrow<Share>>(shares: &[S], subset: &[usize]) -> f64 {
    let mean = |share: &S| -> f64 { share.borrow().mean };
    shares.iter().enumerate().filter(|(at, _)| !subset.contains(at)).map(|(_, share)| mean(share)).product()
}

/// What belongs to each of two or three places; the first again in the place of a third that there is not.
fn each<T: Copy>(places: &[usize], of: impl Fn(usize) -> T) -> [T; 3] {
    std::array::from_fn(|at| of(places[if at < places.len() { at } else { 0 }]))
}

/// Calls with every subset of two or three of 0..count.
fn for_subsets(count: usize, mut call: impl FnMut(&[usize])) {
    for i in 0..count {
        for j in i + 1..count {
            call(&[i, j]);
            for k in j + 1..count {
                call(&[i, j, k]);
            }
        }
    }
}

/// The groups of the cells of each column that is in a table of so many columns; nothing if there are two ways.
fn groups_by_column(release: &Release, size: usize) -> Option<Groups> {
    let schema = release.schema();
    let mut groups: Groups = schema.columns().iter().map(|_| None).collect();
    for block in release.blocks() {
        let MapSpec::Merged(MergedSpec { columns, tables }) = block.map() else { continue };
        for place in tables.iter().filter(|table| table.len() == size).flatten() {
            let column = &columns[*place as usize];
            let at = schema.position(&column.name).expect("the map was checked against the schema");
            match &groups[at] {
                Some(other) if *other != column.groups => return None,
                Some(_) => {}
                None => groups[at] = Some(column.groups.clone()),
            }
        }
    }
    Some(groups)
}

/// The tables of pairs that have none of their own, added up from those of three columns that have the groups of tables of
/// two. Several that tell of a pair are averaged by their noise.
fn pairs_within(of_three: &[Table], of_two: &[Table], two: &Groups, three: &Groups) -> Vec<Table> {
    let own: HashSet<&[usize]> = of_two.iter().map(|table| &table.columns[..]).collect();
    let mut found: Vec<Table> = Vec::new();
    for table in of_three {
        for left_out in 0..3 {
            let [a, b] = [[1, 2], [0, 2], [0, 1]][left_out];
            let columns = vec![table.columns[a], table.columns[b]];
            let same = |column: &usize| two[*column] == three[*column];
            if own.contains(&columns[..]) || !columns.iter().all(same) {
                continue;
            }
            let sizes = vec![table.sizes[a], table.sizes[b]];
            let mut values = vec![0.0; sizes[0] * sizes[1]];
            for (cell, value) in table.values.iter().enumerate() {
                let at = [
                    cell / table.sizes[2] / table.sizes[1],
                    cell / table.sizes[2] % table.sizes[1],
                    cell % table.sizes[2],
                ];
                values[at[a] * sizes[1] + at[b]] += value;
            }
            let noise = table.noise * table.sizes[left_out] as f64;
            match found.iter_mut().find(|other| other.columns == columns) {
                Some(other) => {
                    let weight = other.noise / (other.noise + noise);
                    other.values.iter_mut().zip(values).for_each(|(mean, value)| *mean += weight * (value - *mean));
                    other.noise *= 1.0 - weight;
                }
                None => found.push(Table { columns, sizes, values, noise, product: None }),
            }
        }
    }
    found
}

/// The products of signs of a release, by their columns. Nothing if the signs of a column differ within its groups.
fn products_of_signs(
    release: &Release,
    groups: &Groups,
    prior: &Independent,
    known: &[Knowledge],
    counted: Rows,
) -> Option<HashMap<Vec<usize>, Product>> {
    let mut products = HashMap::new();
    let (rows, of_count) = (counted.value, counted.deviation / counted.value);
    for block in release.blocks() {
        let MapSpec::Signs(spec) = block.map() else { continue };
        let deviation = (block.noise().standard_deviation(block.sums().len()) / rows).max(1e-9);
        let columns = spec.columns.iter().map(|column| Signs::new(release, column, groups, prior, known));
        let columns = columns.collect::<Option<Vec<Signs>>>()?;
        for ([one, two], sum) in spec.pairs.iter().zip(block.sums()) {
            let (one, two) = (&columns[*one as usize], &columns[*two as usize]);
            let mean = *sum as f64 / rows;
            // An error of one column's marginal counts by the mean sign of the other, one of the count by the mean product.
            let of_marginals = one.mean.powi(2) * two.variance + two.mean.powi(2) * one.variance;
            let noise = deviation.powi(2) + of_marginals + (mean * of_count).powi(2);
            let value = mean - one.mean * two.mean;
            let mut both = [one, two];
            both.sort_by_key(|signs| signs.column);
            let signs = both.map(|signs| signs.centred.clone());
            products.insert(both.map(|signs| signs.column).to_vec(), Product { signs, value, noise });
        }
    }
    Some(products)
}

/// The signs of a column.
struct Signs {
    column: usize,
    /// By group, less their mean.
    centred: Vec<f64>,
    mean: f64,
    /// Of the error of the mean.
    variance: f64,
}

impl Signs {
    fn new(
        release: &Release,
        spec: &SignColumn,
        groups: &Groups,
        prior: &Independent,
        known: &[Knowledge],
    ) -> Option<Self> {
        let column = release.schema().position(&spec.name)?;
        let groups = groups[column].as_ref().filter(|groups| groups.len() == spec.signs.len())?;
        let masses = prior.axes[column].cell_masses();
        let mut by_group: Vec<Option<i8>> = vec![None; groups.iter().max().map_or(0, |last| *last as usize + 1)];
        for (group, sign) in groups.iter().zip(&spec.signs) {
            if *by_group[*group as usize].get_or_insert(*sign) != *sign {
                return None;
            }
        }
        let signs: Vec<f64> = spec.signs.iter().map(|sign| f64::from(*sign)).collect();
        let mean = dot(&signs, &masses);
        let centred = by_group.iter().map(|sign| f64::from(sign.unwrap_or(0)) - mean).collect();
        let variance = dot(&signs, &known[column].covariance(&signs)).max(0.0);
        Some(Self { column, centred, mean, variance })
    }
}

/// The variance of the error of the mass of a group of a column's cells, in the mean over its groups.
fn variance_of_groups(groups: &[u32], known: &Knowledge) -> f64 {
    let count = groups.iter().max().map_or(0, |last| last + 1);
    let variance = |group: u32| {
        let inside: Vec<f64> = groups.iter().map(|other| f64::from(*other == group)).collect();
        dot(&inside, &known.covariance(&inside)).max(0.0)
    };
    (0..count).map(variance).sum::<f64>() / f64::from(count.max(1))
}

/// The posterior of tables of equally many columns under the decay that fits them best, with the scores of each column.
///
/// What fewer columns do has errors, with a variance that is given as a multiple of the noise on a table.
fn read(tables: &[Table], groups: &Groups, errors: f64, prior: &Independent) -> (Vec<Option<Scores>>, Vec<Set>) {
    // A column with crowded cells has few groups; what a usual one holds is told by the column with the most.
    let usual = (prior.axes.iter().zip(groups).filter(|(axis, _)| !axis.is_levels()))
        .filter_map(|(_, groups)| groups.as_ref()?.iter().max())
        .fold(0, |most, last| most.max(*last as usize + 1));
    let basis = |(axis, groups): (&Axis, &Option<Vec<u32>>)| {
        groups.as_ref().map(|groups| Arc::new(Basis::new(axis, groups, usual, errors)))
    };
    let bases: Vec<Option<Arc<Basis>>> = prior.axes.iter().zip(groups).map(basis).collect();
    let best = best_look(|decay| Look::with_decay(&bases, tables, decay));
    let sets = best.likelihoods.posteriors(&best.readings, tables.iter().map(|table| &table.columns[..]));
    let sets = if tables.iter().all(|table| table.columns.len() == 2) { best.again(sets) } else { sets };
    (best.columns, sets)
}

/// The reading under the decay that fits best, found by going uphill from the middle of those that are tried.
fn best_look(look: impl Fn(f64) -> Look) -> Look {
    let mut at = DECAYS.len() / 2;
    let mut best = look(DECAYS[at]);
    for step in [-1, 1] {
        let start = at;
        while let Some((next, decay)) = at.checked_add_signed(step).and_then(|next| Some((next, DECAYS.get(next)?))) {
            let other = look(*decay);
            if other.likelihoods.evidence <= best.likelihoods.evidence {
                break;
            }
            (at, best) = (next, other);
        }
        if at != start {
            break;
        }
    }
    best
}

/// A reading of tables of equally many columns.
struct Look {
    columns: Vec<Option<Scores>>,
    readings: Vec<Reading>,
    likelihoods: Likelihoods,
}

impl Look {
    /// The posterior under one decay.
    fn with_decay(bases: &[Option<Arc<Basis>>], tables: &[Table], decay: f64) -> Self {
        let columns: Vec<Option<Scores>> =
            bases.iter().map(|basis| basis.as_ref().map(|basis| Scores::new(basis, decay))).collect();
        let readings: Vec<Reading> = tables.iter().map(|table| table.read(&columns)).collect();
        let likelihoods = Likelihoods::new(&readings);
        Self { columns, readings, likelihoods }
    }

    /// The posterior of pairs of columns if it is taken for known beforehand what the other pairs imply for each, unless the
    /// tables speak against it. How far to go towards that is the same for all, and fitted to the tables.
    fn again(&self, mut sets: Vec<Set>) -> Vec<Set> {
        let guesses = self.guesses(&sets);
        let expected = |(guess, reading): (&Vec<f64>, &Reading)| -> Vec<f64> {
            guess.iter().zip(&reading.singular).map(|(guess, singular)| guess * singular).collect()
        };
        let expected: Vec<Vec<f64>> = guesses.iter().zip(&self.readings).map(expected).collect();
        let along = |(expected, reading): (&Vec<f64>, &Reading)| {
            let of_product = |product: &Along| product.of(expected) * product.value / product.noise;
            dot(expected, &reading.moments) / reading.noise + reading.product.as_ref().map_or(0.0, of_product)
        };
        let square = |(expected, reading): (&Vec<f64>, &Reading)| {
            let of_product = |product: &Along| product.of(expected).powi(2) / product.noise;
            dot(expected, expected) / reading.noise + reading.product.as_ref().map_or(0.0, of_product)
        };
        let total: f64 = expected.iter().zip(&self.readings).map(square).sum();
        let way = expected.iter().zip(&self.readings).map(along).sum::<f64>() / total.max(1e-300);
        let way = way.clamp(0.0, MOST);
        let left = |(expected, reading): (&Vec<f64>, &Reading)| Reading {
            moments: reading.moments.iter().zip(expected).map(|(y, x)| y - way * x).collect(),
            singular: reading.singular.clone(),
            noise: reading.noise,
            product: reading.product.as_ref().map(|product| Along {
                direction: product.direction.clone(),
                value: product.value - way * product.of(expected),
                noise: product.noise,
            }),
        };
        let left: Vec<Reading> = expected.iter().zip(&self.readings).map(left).collect();
        let likelihoods = Likelihoods::new(&left);
        if likelihoods.evidence <= self.likelihoods.evidence {
            return sets;
        }
        let corrections = likelihoods.posteriors(&left, sets.iter().map(|set| &set.columns[..]));
        // What tables say nothing of keeps the scale of the whole interaction, of which this is but what was left.
        for ((set, correction), guess) in sets.iter_mut().zip(corrections).zip(&guesses) {
            set.mean = correction.mean.iter().zip(guess).map(|(x, guess)| x + way * guess).collect();
            (set.variance, set.gain, set.narrowed) = (correction.variance, correction.gain, correction.narrowed);
        }
        sets
    }

    /// What the other pairs imply for each, in its scores.
    fn guesses(&self, sets: &[Set]) -> Vec<Vec<f64>> {
        // Seen scores in terms of as many orthonormal functions: R R^⊤ = L L^⊤.
        let root = |scores: &Option<Scores>| {
            let Some(Scores { seen, rotation, .. }) = scores.as_ref().filter(|scores| scores.seen > 0) else {
                return Mat::zeros(0, 0);
            };
            let rows = rotation.as_ref().subrows(0, *seen);
            let root = (rows * rows.transpose()).llt(Side::Lower).expect("scores are independent");
            root.L().to_owned()
        };
        let roots: Vec<Mat<f64>> = self.columns.iter().map(root).collect();
        let sizes: Vec<usize> = roots.iter().map(Mat::nrows).collect();
        let block = |set: &Set| {
            let &[a, b] = &set.columns[..] else { unreachable!("these are of two columns") };
            let mean = Mat::from_fn(sizes[a], sizes[b], |r, c| set.mean[r * sizes[b] + c]);
            ([a, b], roots[a].transpose() * mean * &roots[b])
        };
        let pairs: Vec<completion::Pair> = sets.iter().map(block).collect();
        let in_scores = |(([a, b], _), guess): (&completion::Pair, Mat<f64>)| {
            let half = solve_transposed(&roots[*a], guess);
            let whole = solve_transposed(&roots[*b], half.transpose().to_owned());
            (0..sizes[*a]).flat_map(|r| (0..sizes[*b]).map(move |c| (r, c))).map(|(r, c)| whole[(c, r)]).collect()
        };
        pairs.iter().zip(completion::guesses(&sizes, &pairs)).map(in_scores).collect()
    }
}

/// L^-⊤ B for a lower triangular L.
fn solve_transposed(lower: &Mat<f64>, mut b: Mat<f64>) -> Mat<f64> {
    for c in 0..b.ncols() {
        for r in (0..b.nrows()).rev() {
            let known: f64 = (r + 1..b.nrows()).map(|k| lower[(k, r)] * b[(k, c)]).sum();
            b[(r, c)] = (b[(r, c)] - known) / lower[(r, r)];
        }
    }
    b
}

/// How likely tables are under each candidate for their scale.
struct Likelihoods {
    /// The logarithm for all tables together, under the law of scales that fits them best.
    evidence: f64,
    law: [f64; SCALES],
    /// Logarithms, table by table.
    each: Vec<[f64; SCALES]>,
}

impl Likelihoods {
    fn new(readings: &[Reading]) -> Self {
        let simd = Simd::detect();
        let each: Vec<[f64; SCALES]> = readings.iter().map(|reading| reading.likelihoods(simd)).collect();
        let (law, evidence) = fit_law(&each);
        Self { evidence, law, each }
    }

    /// The posteriors of the tables, which have these columns.
    fn posteriors<'a>(&self, readings: &[Reading], columns: impl Iterator<Item = &'a [usize]>) -> Vec<Set> {
        let posterior = |((reading, columns), likelihoods): ((&Reading, &[usize]), &[f64; SCALES])| {
            reading.posterior(columns, likelihoods, &self.law)
        };
        readings.iter().zip(columns).zip(&self.each).map(posterior).collect()
    }
}

/// A released table, as shares of the rows.
struct Table {
    columns: Vec<usize>,
    sizes: Vec<usize>,
    values: Vec<f64>,
    noise: f64,
    /// For two columns, where there is one.
    product: Option<Product>,
}

/// The mean of the product of two columns' signs, less what they do by themselves.
struct Product {
    /// Of each group of the two columns, less their mean.
    signs: [Vec<f64>; 2],
    value: f64,
    /// The variance of its error.
    noise: f64,
}

/// The same as a moment of what a table tells of.
struct Along {
    /// In terms of the table's moments, were they free of noise.
    direction: Vec<f64>,
    value: f64,
    noise: f64,
}

impl Along {
    /// What it would be for given moments of the table.
    fn of(&self, moments: &[f64]) -> f64 {
        dot(&self.direction, moments)
    }
}

/// A table, diagonalised.
struct Reading {
    moments: Vec<f64>,
    /// The product of the singular values for each moment.
    singular: Vec<f64>,
    noise: f64,
    product: Option<Along>,
}

impl Table {
    fn read(&self, columns: &[Option<Scores>]) -> Reading {
        let scores: Vec<&Scores> =
            self.columns.iter().map(|column| columns[*column].as_ref().expect("it is in a table")).collect();
        let mut values = self.values.clone();
        for (scores, size) in scores.iter().zip(&self.sizes) {
            values = turn(&values, *size, scores.seen, |group, score| scores.readers[(group, score)]);
        }
        let mut singular = vec![1.0];
        for scores in &scores {
            singular = singular
                .iter()
                .flat_map(|product| scores.singular[..scores.seen].iter().map(move |s| product * s))
                .collect();
        }
        let along = |product: &Product| {
            let read = |at: usize| -> Vec<f64> {
                let readers = &scores[at].readers;
                let of =
                    |score: usize| product.signs[at].iter().enumerate().map(|(g, x)| x * readers[(g, score)]).sum();
                (0..scores[at].seen).map(of).collect()
            };
            let (one, two) = (read(0), read(1));
            let direction = one.iter().flat_map(|x| two.iter().map(move |y| x * y)).collect();
            Along { direction, value: product.value, noise: product.noise }
        };
        Reading { moments: values, singular, noise: self.noise, product: self.product.as_ref().map(along) }
    }
}

impl Reading {
    /// The logarithm of the likelihood of each candidate for s.
    fn likelihoods(&self, simd: Simd) -> [f64; SCALES] {
        // What each moment would have without noise and for s = 1, and its square, both in terms of the noise.
        let clear: Vec<f64> = self.singular.iter().map(|singular| singular * singular / self.noise).collect();
        let squares: Vec<f64> = self.moments.iter().map(|y| y * y / self.noise).collect();
        let of_noise = clear.len() as f64 * self.noise.ln();
        std::array::from_fn(|candidate| {
            let s = scale(candidate);
            let (logarithms, quotients) = log_and_quotients(simd, s, &clear, &squares);
            let of_product = self.product.as_ref().map_or(0.0, |product| {
                let (miss, variance) = self.miss(product, s);
                variance.ln() + miss * miss / variance
            });
            -0.5 * (of_noise + logarithms + quotients + of_product)
        })
    }

    /// How far a product of signs is from what the table implies for it, under a scale, and the variance of that.
    fn miss(&self, product: &Along, s: f64) -> (f64, f64) {
        let (mut implied, mut variance) = (0.0, product.noise);
        for ((y, singular), x) in self.moments.iter().zip(&self.singular).zip(&product.direction) {
            let kept = s * singular * singular / (s * singular * singular + self.noise);
            implied += x * kept * y;
            variance += x * x * kept * self.noise;
        }
        (product.value - implied, variance)
    }

    fn posterior(&self, columns: &[usize], likelihoods: &[f64; SCALES], law: &[f64; SCALES]) -> Set {
        let weights = weigh(likelihoods, law).0;
        let len = self.moments.len();
        let (mut mean, mut variance, mut gain) = (vec![0.0; len], vec![0.0; len], vec![0.0; len]);
        for (candidate, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 1e-12) {
            let s = scale(candidate);
            for (i, singular) in self.singular.iter().enumerate() {
                let total = s * singular * singular + self.noise;
                let g = s * singular / total;
                gain[i] += weight * g;
                variance[i] += weight * (s * self.noise / total + (g * self.moments[i]).powi(2));
            }
        }
        for i in 0..len {
            mean[i] = gain[i] * self.moments[i];
            variance[i] -= mean[i] * mean[i];
        }
        let narrowed = self.product.as_ref().map(|product| {
            let (steps, narrowed) = self.narrow(product, &weights, &gain);
            mean.iter_mut().zip(steps).for_each(|(mean, step)| *mean += step);
            narrowed
        });
        let scale = weights.iter().enumerate().map(|(candidate, weight)| weight * scale(candidate)).sum();
        let (spread, by_group) = (OnceLock::new(), ByGroup::default());
        Set { columns: columns.to_vec(), mean, variance, gain, noise: self.noise, scale, narrowed, spread, by_group }
    }

    /// How far a product of signs moves the mean, and what else it does to the posterior, averaged over the scales. The
    /// average of u u^⊤ is no less than that of u times itself, so that the covariance stays one.
    fn narrow(&self, product: &Along, weights: &[f64; SCALES], gains: &[f64]) -> (Vec<f64>, Narrowed) {
        let len = self.moments.len();
        let (mut steps, mut less, mut gain) = (vec![0.0; len], vec![0.0; len], vec![0.0; len]);
        for (candidate, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 1e-12) {
            let s = scale(candidate);
            let (miss, variance) = self.miss(product, s);
            for (i, singular) in self.singular.iter().enumerate() {
                let left = s * self.noise / (s * singular * singular + self.noise);
                let along = left * singular * product.direction[i];
                less[i] += weight * along / variance.sqrt();
                gain[i] += weight * along / variance;
                steps[i] += weight * along / variance * miss;
            }
        }
        let direction: Vec<f64> = product.direction.iter().zip(&self.singular).map(|(x, s)| x * s).collect();
        let felt: Vec<f64> = direction.iter().zip(gains).map(|(x, gain)| x * gain * gain).collect();
        let noise = product.noise + self.noise * dot(&direction, &felt);
        (steps, Narrowed { less, gain, felt, noise })
    }
}

dispatched! {
    fn log_and_quotients(s: f64, x: &[f64], y: &[f64]) -> (f64, f64) = log_and_quotients_loop
}

/// Σ ln(1 + s x) and Σ y / (1 + s x). Logarithms are taken of products of so few factors that they stay finite: noise is at least 10⁻¹⁸ of what it is added to,
/// and s at most 4.
#[inline(always)]
fn log_and_quotients_loop(s: f64, x: &[f64], y: &[f64]) -> (f64, f64) {
    const FACTORS: usize = 16;
    const LANES: usize = 8;
    let (mut logarithms, mut quotients) = (0.0, [0.0; LANES]);
    for (x, y) in x.chunks(FACTORS * LANES).zip(y.chunks(FACTORS * LANES)) {
        let mut products = [1.0; LANES];
        let (whole, ends) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
        let (last, end) = (whole.remainder(), ends.remainder());
        for (x, y) in whole.zip(ends) {
            for lane in 0..LANES {
                let total = 1.0 + s * x[lane];
                products[lane] *= total;
                quotients[lane] += y[lane] / total;
            }
        }
        for (lane, (x, y)) in last.iter().zip(end).enumerate() {
            let total = 1.0 + s * x;
            products[lane] *= total;
            quotients[lane] += y / total;
        }
        logarithms += products.iter().map(|product| product.ln()).sum::<f64>();
    }
    (logarithms, quotients.iter().sum())
}

impl Narrowed {
    /// What it adds to the covariance of two questions, given the scalar products of each with `less`, `gain` and `felt`,
    /// and the variance of the noise on the table's moments.
    fn spread(&self, f: [f64; 3], g: [f64; 3], times: f64, noise: f64, sum: &mut Spread) {
        sum.all -= times * f[0] * g[0];
        // The noise of the table comes in by its own gains, less those by way of the product.
        sum.privacy += times * (f[1] * g[1] * self.noise - noise * (f[1] * g[2] + f[2] * g[1]));
    }
}

/// The posterior of the candidates, and the logarithm of their mean likelihood.
fn weigh(likelihoods: &[f64; SCALES], law: &[f64; SCALES]) -> ([f64; SCALES], f64) {
    let best = largest(likelihoods);
    let weights: [f64; SCALES] = std::array::from_fn(|i| law[i] * (likelihoods[i] - best).exp());
    let total: f64 = weights.iter().sum();
    (weights.map(|weight| weight / total), best + total.ln())
}

/// The law of the scale under which the tables are most likely, held to the uniform one by one table's worth, and the
/// logarithm of the likelihood.
fn fit_law(likelihoods: &[[f64; SCALES]]) -> ([f64; SCALES], f64) {
    const ROUNDS: usize = 50;
    // Up to a factor for each table, in which the law does not matter.
    let plain: Vec<[f64; SCALES]> = likelihoods.iter().map(|table| table.map(|x| (x - largest(table)).exp())).collect();
    let mut law = [1.0 / SCALES as f64; SCALES];
    for _ in 0..ROUNDS {
        let mut next = [1.0 / SCALES as f64; SCALES];
        for table in &plain {
            let weights: [f64; SCALES] = std::array::from_fn(|i| law[i] * table[i]);
            let total: f64 = weights.iter().sum();
            next.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += weight / total);
        }
        law = next.map(|x| x / (likelihoods.len() + 1) as f64);
    }
    let log = likelihoods.iter().map(|table| weigh(table, &law).1).sum();
    (law, log)
}

fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().fold(f64::NEG_INFINITY, |largest, x| largest.max(*x))
}

/// Standard deviations from the mean beyond which a number counts as no farther, lest few rows have all the say.
const FARTHEST: f64 = 3.0;
/// Cosines of a rank, at most.
const COSINES: usize = 16;

/// W: what lies along the masses of a column's groups is made smaller, the rest is left as it is.
struct Damping {
    masses: Vec<f64>,
    /// How much is left of what lies along them, if the errors of what fewer columns do have this variance, as a multiple of the
    /// noise: so much that both together are no more there than the noise is elsewhere.
    left: f64,
}

impl Damping {
    fn new(masses: Vec<f64>, errors: f64) -> Self {
        let left = (1.0 + errors * dot(&masses, &masses)).powf(-0.5);
        Self { masses, left }
    }

    fn apply(&self, columns: &mut Mat<f64>) {
        let square = dot(&self.masses, &self.masses).max(1e-300);
        for at in 0..columns.ncols() {
            let along: f64 = self.masses.iter().enumerate().map(|(group, mass)| mass * columns[(group, at)]).sum();
            let less = (1.0 - self.left) * along / square;
            self.masses.iter().enumerate().for_each(|(group, mass)| columns[(group, at)] -= less * mass);
        }
    }
}

impl Basis {
    /// Of a column whose usual groups hold one part in `usual` of the rows.
    fn new(axis: &Axis, groups: &[u32], usual: usize, errors: f64) -> Self {
        let count = groups.iter().max().map_or(0, |last| *last as usize + 1);
        let (functions, orders) = functions(axis, groups, count, usual);
        // E 1_g e_k.
        let mut masses = vec![0.0; count];
        let mut moments = Mat::<f64>::zeros(count, functions.len());
        let mut by_group = vec![None; count];
        for (place, cell) in axis.partition().iter().enumerate() {
            let group = groups[*cell as usize] as usize;
            masses[group] += axis.mass()[place];
            if axis.mass()[place] > 1e-9 {
                by_group[group].get_or_insert(place);
            }
            for (at, e) in functions.iter().enumerate() {
                moments[(group, at)] += axis.mass()[place] * e[place];
            }
        }
        let damping = Damping::new(masses, errors);
        damping.apply(&mut moments);
        Self { functions, orders, moments, damping, by_group }
    }

    /// The prior variance of what lies beyond the functions: of the next cosine, or of levels that are merged.
    fn outside(&self, decay: f64) -> f64 {
        let last = self.orders.iter().fold(1.0f64, |last, order| last.max(*order));
        if last == 1.0 { 1.0 } else { (last + 1.0).powf(-decay) }
    }
}

impl Scores {
    fn new(basis: &Arc<Basis>, decay: f64) -> Self {
        let (count, k) = (basis.moments.nrows(), basis.moments.ncols());
        let (outside, basis) = (basis.outside(decay), basis.clone());
        if k == 0 {
            let (rotation, readers) = (Mat::zeros(0, 0), Mat::zeros(count, 0));
            return Self { basis, rotation, seen: 0, singular: vec![], readers, outside };
        }
        let root: Vec<f64> = basis.orders.iter().map(|order| order.powf(-0.5 * decay)).collect();
        let matrix = Mat::from_fn(count, k, |group, at| basis.moments[(group, at)] * root[at]);
        let eigen = (matrix.transpose() * &matrix)
            .self_adjoint_eigen(Side::Lower)
            .expect("a finite symmetric matrix has eigenvectors");
        let (vectors, squares) = (eigen.U(), eigen.S().column_vector());
        // Eigenvalues come in increasing order.
        let largest = squares[k - 1].max(1e-300);
        let singular: Vec<f64> = (0..k).rev().map(|at| squares[at].max(0.0).sqrt()).collect();
        let seen = singular.iter().take_while(|s| **s * **s > 1e-10 * largest).count();
        let rotation = Mat::from_fn(k, k, |score, at| vectors[(at, k - 1 - score)] * root[at]);
        let mut readers = Mat::from_fn(count, seen, |group, score| {
            (0..k).map(|at| matrix[(group, at)] * vectors[(at, k - 1 - score)]).sum::<f64>() / singular[score]
        });
        basis.damping.apply(&mut readers);
        Self { basis, rotation, seen, singular, readers, outside }
    }

    /// `[group][score]`: what the seen scores of a column of levels are.
    fn by_group(&self) -> Vec<Vec<f64>> {
        let functions = &self.basis.functions;
        let score = |score: usize, place: usize| -> f64 {
            functions.iter().enumerate().map(|(at, e)| self.rotation[(score, at)] * e[place]).sum()
        };
        let of_group = |place: &Option<usize>| match place {
            Some(place) => (0..self.seen).map(|at| score(at, *place)).collect(),
            None => vec![0.0; self.seen],
        };
        self.basis.by_group.iter().map(of_group).collect()
    }

    fn rotate(&self, basis: &[f64]) -> Vec<f64> {
        let k = basis.len();
        (0..k).map(|score| (0..k).map(|at| self.rotation[(score, at)] * basis[at]).sum()).collect()
    }
}

/// Functions of a column that are orthonormal under its marginal and to constants, with their orders: what stands apart
/// (groups of levels, missing) first, then the number and cosines of its rank.
fn functions(axis: &Axis, groups: &[u32], count: usize, usual: usize) -> (Vec<Vec<f64>>, Vec<f64>) {
    let places = axis.places();
    let mut apart: Vec<(f64, Vec<f64>)> = Vec::new();
    let mut of_group: HashMap<Option<u32>, usize> = HashMap::new();
    for (at, place) in places.iter().enumerate().filter(|(at, _)| axis.mass()[*at] > 1e-9) {
        let key = match place {
            Place::Point(Value::Code(_)) => Some(groups[axis.partition()[at] as usize]),
            Place::Point(Value::Missing) => None,
            _ => continue,
        };
        let found = *of_group.entry(key).or_insert_with(|| {
            apart.push((1.0, vec![0.0; places.len()]));
            apart.len() - 1
        });
        apart[found].1[at] = 1.0;
    }
    let mut candidates = apart;
    // Ranks among the numbers.
    let mut numbers: Vec<(f64, usize)> =
        places.iter().enumerate().filter_map(|(at, place)| place.middle().map(|unit| (unit, at))).collect();
    numbers.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = numbers.iter().map(|(_, at)| axis.mass()[*at]).sum();
    if total > 1e-9 {
        let cosines = count.clamp(6, COSINES).min(numbers.len().saturating_sub(1));
        let crowded = crowded(axis, groups, HEAVY / count.max(usual) as f64);
        let mut number = clipped_number(axis, groups, &numbers);
        even_out(axis, &crowded, &mut number);
        candidates.push((1.0, number));
        for k in 1..=cosines {
            let angle = std::f64::consts::PI * k as f64;
            let mut table = vec![0.0; places.len()];
            let mut below = 0.0;
            for (_, at) in &numbers {
                let width = axis.mass()[*at] / total;
                let middle = (angle * (below + 0.5 * width)).cos();
                if let Place::Interval { .. } = places[*at] {
                    let (low, high) = ((angle * below).cos(), (angle * (below + width)).cos());
                    table[*at] = (low + 4.0 * middle + high) / 6.0;
                    table[*at + 1] = 0.5 * (high - low);
                } else {
                    table[*at] = middle;
                }
                below += width;
            }
            even_out(axis, &crowded, &mut table);
            candidates.push((k as f64 + 1.0, table));
        }
    }
    let one: Vec<f64> = places.iter().map(|place| f64::from(*place != Place::Slope)).collect();
    let (mut basis, mut orders): (Vec<Vec<f64>>, Vec<f64>) = (Vec::new(), Vec::new());
    for (order, mut table) in candidates {
        let size = axis.inner(&table, &table);
        // Twice, as once leaves rounding errors behind.
        for _ in 0..2 {
            for other in std::iter::once(&one).chain(&basis) {
                let along = axis.inner(&table, other);
                table.iter_mut().zip(other).for_each(|(x, y)| *x -= along * y);
            }
        }
        let norm = axis.inner(&table, &table);
        if norm > 1e-6 * size && norm > 1e-14 {
            table.iter_mut().for_each(|x| *x /= norm.sqrt());
            basis.push(table);
            orders.push(order);
        }
    }
    (basis, orders)
}

/// How far a number is from the mean, in standard deviations, up to [`FARTHEST`] and to the means of the first and the last
/// group: of numbers beyond, tables do not tell what others do with them. Ranks leave out how far apart the largest numbers
/// are, which products of two columns rest on.
fn clipped_number(axis: &Axis, groups: &[u32], numbers: &[(f64, usize)]) -> Vec<f64> {
    let mean_of = |f: &dyn Fn(f64) -> f64, of: &dyn Fn(usize) -> bool| {
        let inside = || numbers.iter().filter(|(_, at)| of(*at));
        let mass: f64 = inside().map(|(_, at)| axis.mass()[*at]).sum();
        inside().map(|(unit, at)| f(*unit) * axis.mass()[*at]).sum::<f64>() / mass.max(1e-300)
    };
    let mean = mean_of(&|unit| unit, &|_| true);
    let deviation = mean_of(&|unit| (unit - mean).powi(2), &|_| true).sqrt().max(1e-12);
    let group = |at: usize| groups[axis.partition()[at] as usize];
    let end = |number: Option<&(f64, usize)>| {
        let last = number.map_or(0, |(_, at)| group(*at));
        (mean_of(&|unit| unit, &|at| group(at) == last) - mean) / deviation
    };
    let (least, most) = (end(numbers.first()).clamp(-FARTHEST, 0.0), end(numbers.last()).clamp(0.0, FARTHEST));
    let mut table = vec![0.0; axis.places().len()];
    for (unit, at) in numbers {
        let far = (unit - mean) / deviation;
        table[*at] = far.clamp(least, most);
        if let Place::Interval { low, high } = axis.places()[*at]
            && least < far
            && far < most
        {
            table[*at + 1] = 0.5 * (high - low) / deviation;
        }
    }
    table
}

/// The cells that are heavier than a limit or nearly all of their group: what other columns do with one part of a cell that is
/// a group, and not with another, no table tells.
fn crowded(axis: &Axis, groups: &[u32], limit: f64) -> Vec<bool> {
    let masses = axis.cell_masses();
    let mut by_group = vec![0.0; groups.iter().max().map_or(0, |last| *last as usize + 1)];
    masses.iter().zip(groups).for_each(|(mass, group)| by_group[*group as usize] += mass);
    masses.iter().zip(groups).map(|(mass, group)| *mass > limit.min(ALONE * by_group[*group as usize])).collect()
}

/// Gives a function its mean throughout each crowded cell. Carried on from smaller cells beside it, strong dependence gave
/// counts beyond all rows.
fn even_out(axis: &Axis, crowded: &[bool], table: &mut [f64]) {
    let mut sums = vec![(0.0, 0.0); axis.cells()];
    for (at, cell) in axis.partition().iter().enumerate() {
        let (mass, sum) = &mut sums[*cell as usize];
        *mass += axis.mass()[at];
        *sum += axis.mass()[at] * table[at];
    }
    for (at, cell) in axis.partition().iter().enumerate().filter(|(_, cell)| crowded[**cell as usize]) {
        let (mass, sum) = sums[*cell as usize];
        table[at] = if axis.places()[at] == Place::Slope { 0.0 } else { sum / mass };
    }
}

#[cfg(test)]
mod tests {
    use faer::linalg::solvers::Solve;

    use super::*;
    use crate::Schema;
    use crate::feature::HistSpec;
    use crate::stream::PublicStream;

    /// A lattice with missing values, a category, and a continuous column, none of them uniform.
    fn prior() -> Independent {
        let schema = Schema::from_toml(
            "[[column]]\nname='k'\ntype='integer'\nmin=0\nmax=6\nnullable=true\n\
             [[column]]\nname='g'\ntype='category'\nlevels=['a','b','c']\n\
             [[column]]\nname='x'\ntype='number'\nmin=0\nmax=1\natoms=[0]",
        )
        .unwrap();
        let mut random = PublicStream::new("test", 3);
        let tables = MapSpec::Hist(HistSpec::with_bins(8)).tables(&schema).unwrap();
        let axes = tables
            .iter()
            .map(|(_, cells)| {
                let mut axis = Axis::new(&schema, cells[0].column(), Some(&cells[0]));
                let raw: Vec<f64> = (0..cells[0].len()).map(|_| 0.2 + random.uniform()).collect();
                let total: f64 = raw.iter().sum();
                axis.set_cells(&raw.iter().map(|x| x / total).collect::<Vec<_>>());
                axis
            })
            .collect();
        Independent { axes }
    }

    /// Groups of the cells of the three columns: 8, 5 and 10 of them.
    fn groups() -> Groups {
        vec![Some(vec![0, 0, 1, 1, 2, 2, 3, 4]), Some(vec![0, 1, 2, 3, 3]), Some(vec![0, 0, 1, 1, 2, 2, 3, 3, 4, 3])]
    }

    #[test]
    fn functions_are_orthonormal() {
        let prior = prior();
        for (axis, groups) in prior.axes.iter().zip(groups()) {
            let Basis { functions: basis, orders, .. } = Basis::new(axis, &groups.unwrap(), 5, 0.0);
            assert!(basis.len() >= 3 && orders.len() == basis.len());
            for (i, e) in basis.iter().enumerate() {
                assert!(axis.mean(e).abs() < 1e-9);
                for (j, f) in basis.iter().enumerate() {
                    assert!((axis.inner(e, f) - f64::from(i == j)).abs() < 1e-8, "{i} {j}");
                }
            }
        }
    }

    /// In standard deviations from the mean, and level beyond the means of the first and the last group.
    #[test]
    fn numbers_are_level_beyond_their_end_groups() {
        let prior = prior();
        let axis = &prior.axes[0];
        // The numbers 0 to 6, then missing.
        let groups = [0, 0, 1, 1, 2, 2, 2, 3];
        let numbers: Vec<(f64, usize)> = (axis.places().iter().enumerate())
            .filter_map(|(at, place)| place.middle().map(|unit| (unit, at)))
            .collect();
        assert_eq!(numbers.len(), 7);
        let table = clipped_number(axis, &groups, &numbers);
        let mean = |from: usize, to: usize, f: &dyn Fn(f64) -> f64| -> f64 {
            let part = &numbers[from..to];
            let mass: f64 = part.iter().map(|(_, at)| axis.mass()[*at]).sum();
            part.iter().map(|(unit, at)| f(*unit) * axis.mass()[*at]).sum::<f64>() / mass
        };
        let (middle, low, high) = (mean(0, 7, &|x| x), mean(0, 2, &|x| x), mean(4, 7, &|x| x));
        let deviation = mean(0, 7, &|x| (x - middle).powi(2)).sqrt();
        for (unit, at) in &numbers {
            let expected = (unit.clamp(low, high) - middle) / deviation;
            assert!((table[*at] - expected).abs() < 1e-12, "{unit}: {}, not {expected}", table[*at]);
        }
        let (last, at) = numbers[6];
        assert!(table[at] < (last - middle) / deviation - 0.1, "the last is not clipped");
    }

    /// The diagonal posterior is the one of dense Gaussian algebra, with the effects of fewer columns as unknowns of
    /// enormous variance where nothing is known of them, and as more noise along the masses where they have errors.
    #[test]
    fn posterior_is_that_of_dense_algebra() {
        let prior = prior();
        let groups = groups();
        let decay = 1.5;
        let mut random = PublicStream::new("test", 4);
        let cases = [vec![0usize, 1], vec![0, 2], vec![1, 2], vec![0, 1, 2]];
        for (set, errors) in
            cases.into_iter().flat_map(|set| [f64::INFINITY, 2.0, 0.0].map(|errors| (set.clone(), errors)))
        {
            let columns: Vec<Option<Scores>> = prior
                .axes
                .iter()
                .zip(&groups)
                .map(|(axis, groups)| {
                    Some(Scores::new(&Arc::new(Basis::new(axis, groups.as_ref().unwrap(), 5, errors)), decay))
                })
                .collect();
            let group = |column: usize| groups[column].as_ref().unwrap();
            let sizes: Vec<usize> = set.iter().map(|c| *group(*c).iter().max().unwrap() as usize + 1).collect();
            let len: usize = sizes.iter().product();
            let noise = 4e-4;
            let values: Vec<f64> = (0..len).map(|_| 0.05 * random.uniform()).collect();
            let table =
                Table { columns: set.clone(), sizes: sizes.clone(), values: values.clone(), noise, product: None };
            let reading = table.read(&columns);
            let candidate = 9;
            let s = scale(candidate);
            let mut law = [0.0; SCALES];
            law[candidate] = 1.0;
            let posterior = reading.posterior(&set, &reading.likelihoods(Simd::detect()), &law);
            let size = set.len() - 2;
            let mut both = [vec![], vec![]];
            both[size] = columns;
            let interactions = Interactions {
                columns: if size == 0 {
                    [std::mem::take(&mut both[0]), no_columns()]
                } else {
                    [no_columns(), std::mem::take(&mut both[1])]
                },
                groups: [groups.clone(), groups.clone()],
                at: [(set.clone(), 0)].into(),
                sets: vec![posterior],
                composed: Composition::new(vec![None, None, None], Vec::new()),
                beside_pairs: UNSEEN,
            };

            // A question that is a product of functions with values drawn at random, of mean zero, so that it asks for what
            // all of its columns do together.
            let factors: Vec<(usize, Arc<Tabulated>)> = set
                .iter()
                .map(|column| {
                    let axis = &prior.axes[*column];
                    let point = |place: &Place| f64::from(*place != Place::Slope);
                    let raw: Vec<f64> = axis.places().iter().map(|place| point(place) * random.uniform()).collect();
                    let mean = axis.mean(&raw);
                    let centred = raw.iter().zip(axis.places()).map(|(x, place)| x - mean * point(place));
                    (*column, Arc::new(centred.collect::<Vec<f64>>().into()))
                })
                .collect();
            let term = Term { coefficient: 2.0, factors };
            let shares = interactions.shares(&term, &prior);
            let value = interactions.value(term.coefficient, &shares);
            let mut spread = Spread::default();
            interactions.spread(&term, &term, &prior, &mut spread);

            // Dense: coefficients of all products of basis functions, then nuisances; rows are cells of the table.
            let bases: Vec<(Vec<Vec<f64>>, Vec<f64>)> =
                set.iter().zip(&sizes).map(|(c, size)| functions(&prior.axes[*c], group(*c), *size, 5)).collect();
            let in_group = |c: usize, g: usize, e: Option<&Vec<f64>>| -> f64 {
                let axis = &prior.axes[c];
                (0..axis.len())
                    .filter(|p| group(c)[axis.partition()[*p] as usize] as usize == g)
                    .map(|p| axis.mass()[p] * e.map_or(f64::from(axis.places()[p] != Place::Slope), |e| e[p]))
                    .sum()
            };
            let cells: Vec<Vec<usize>> = (0..len)
                .map(|at| {
                    let mut rest = at;
                    let mut cell: Vec<usize> = sizes
                        .iter()
                        .rev()
                        .map(|size| {
                            let g = rest % size;
                            rest /= size;
                            g
                        })
                        .collect();
                    cell.reverse();
                    cell
                })
                .collect();
            let mut indices: Vec<Vec<usize>> = vec![vec![]];
            for (basis, _) in &bases {
                indices = indices.iter().flat_map(|i| (0..basis.len()).map(move |k| [&i[..], &[k]].concat())).collect();
            }
            let mut design: Vec<Vec<f64>> = Vec::new();
            let (mut variance, mut question) = (Vec::new(), Vec::new());
            for index in &indices {
                design.push(
                    cells
                        .iter()
                        .map(|cell| {
                            (0..set.len()).map(|j| in_group(set[j], cell[j], Some(&bases[j].0[index[j]]))).product()
                        })
                        .collect(),
                );
                variance.push(s * (0..set.len()).map(|j| bases[j].1[index[j]].powf(-decay)).product::<f64>());
                question.push(
                    term.coefficient
                        * (0..set.len())
                            .map(|j| prior.axes[set[j]].inner(&term.factors[j].1, &bases[j].0[index[j]]))
                            .product::<f64>(),
                );
            }
            // What any function of fewer columns does: masses of one column times anything in the others.
            for j in (0..set.len()).filter(|_| errors.is_infinite()) {
                for other in 0..len / sizes[j] {
                    design.push(
                        cells
                            .iter()
                            .map(|cell| {
                                let rest: usize =
                                    (0..set.len()).filter(|k| *k != j).fold(0, |sum, k| sum * sizes[k] + cell[k]);
                                if rest == other { in_group(set[j], cell[j], None) } else { 0.0 }
                            })
                            .collect(),
                    );
                    variance.push(1e6);
                    question.push(0.0);
                }
            }
            // Noise of a column's cells, in terms of that on the table, with the errors along its masses.
            let along = |j: usize, a: usize, b: usize| {
                let of_errors = if errors.is_infinite() { 0.0 } else { errors };
                f64::from(a == b) + of_errors * in_group(set[j], a, None) * in_group(set[j], b, None)
            };
            let v = Mat::from_fn(len, len, |a, b| {
                design.iter().zip(&variance).map(|(column, v)| v * column[a] * column[b]).sum::<f64>()
                    + noise * (0..set.len()).map(|j| along(j, cells[a][j], cells[b][j])).product::<f64>()
            });
            let k: Vec<f64> = (0..len)
                .map(|a| design.iter().zip(&variance).zip(&question).map(|((column, v), q)| v * column[a] * q).sum())
                .collect();
            let solved = v.partial_piv_lu().solve(Mat::from_fn(len, 1, |i, _| k[i]));
            let mean: f64 = (0..len).map(|a| solved[(a, 0)] * values[a]).sum();
            let all: f64 = variance.iter().zip(&question).map(|(v, q)| v * q * q).sum();
            let left = all - (0..len).map(|a| solved[(a, 0)] * k[a]).sum::<f64>();
            assert!((value - mean).abs() < 1e-4 * mean.abs().max(left.sqrt()), "{set:?} {errors}: {value}, not {mean}");
            // The rest is what lies beyond the basis.
            assert!(spread.all >= left * (1.0 - 1e-3), "{set:?}: {}, not {left}", spread.all);
            let within: f64 = (0..set.len())
                .map(|j| {
                    let axis = &prior.axes[set[j]];
                    let f = &term.factors[j].1;
                    let a: Vec<f64> = bases[j].0.iter().map(|e| axis.inner(f, e)).collect();
                    let inside: f64 = a.iter().zip(&bases[j].1).map(|(a, o)| a * a * o.powf(-decay)).sum();
                    let beyond = axis.inner(f, f) - axis.mean(f).powi(2) - dot(&a, &a);
                    let last = bases[j].1.iter().fold(1.0f64, |x, y| x.max(*y));
                    inside + if last == 1.0 { 1.0 } else { (last + 1.0).powf(-decay) } * beyond
                })
                .product();
            let beyond = term.coefficient.powi(2) * s * within - all;
            assert!((spread.all - left - beyond).abs() < 1e-3 * left, "{set:?}: {} {left} {beyond}", spread.all);
            assert!(spread.privacy > 0.0 && spread.privacy < left);
        }
    }

    /// Means of products for all choices of functions at once are those asked one by one.
    #[test]
    fn products_are_those_of_single_questions() {
        let (prior, groups) = (prior(), groups());
        let scores = || -> Vec<Option<Scores>> {
            let of = |(axis, groups): (&Axis, &Option<Vec<u32>>)| {
                Some(Scores::new(&Arc::new(Basis::new(axis, groups.as_ref().unwrap(), 5, 0.0)), 1.0))
            };
            prior.axes.iter().zip(&groups).map(of).collect()
        };
        let mut random = PublicStream::new("test", 12);
        let law = std::array::from_fn(|at| f64::from(at == 9));
        let places = [vec![0, 1], vec![0, 2], vec![1, 2], vec![0, 1, 2]];
        let mut read = |columns: &Vec<usize>| {
            let size = |column: &usize| groups[*column].as_ref().unwrap().iter().max().unwrap() + 1;
            let sizes: Vec<usize> = columns.iter().map(|column| size(column) as usize).collect();
            let values = (0..sizes.iter().product()).map(|_| 0.05 * random.uniform()).collect();
            let reading = Table { columns: columns.clone(), sizes, values, noise: 4e-4, product: None }.read(&scores());
            reading.posterior(columns, &reading.likelihoods(Simd::detect()), &law)
        };
        let sets: Vec<Set> = places.iter().map(&mut read).collect();
        let composed = compose(&sets[..3], &scores(), &groups, &prior);
        let at = places.iter().cloned().enumerate().map(|(at, columns)| (columns, at)).collect();
        let both = [groups.clone(), groups.clone()];
        let interactions =
            Interactions { columns: [scores(), scores()], groups: both, sets, at, composed, beside_pairs: UNSEEN };
        let mut share = |column: usize| {
            let axis = &prior.axes[column];
            let x: Vec<f64> = (0..axis.len()).map(|_| random.uniform()).collect();
            interactions.share(column, &x, axis)
        };
        let shares = [0, 1, 2].map(|column| (0..column + 2).map(|_| share(column)).collect::<Vec<Share>>());
        for columns in places {
            let chosen: Vec<&[Share]> = columns.iter().map(|column| &shares[*column][..]).collect();
            let all = interactions.products_of(&chosen);
            assert_eq!(all.len(), chosen.iter().map(|shares| shares.len()).product::<usize>());
            for (at, found) in all.into_iter().enumerate() {
                let mut rest = at;
                let mut one: Vec<&Share> = Vec::new();
                for shares in chosen.iter().rev() {
                    one.insert(0, &shares[rest % shares.len()]);
                    rest /= shares.len();
                }
                let apart: f64 = one.iter().map(|share| share.mean).product();
                let interaction = interactions.value(1.0, &one);
                assert!(interaction.abs() > 1e-6 && (found - apart - interaction).abs() < 1e-12, "{columns:?} {at}");
            }
        }
    }

    /// Tables of three columns tell how strong such interactions are where there is no table; without any it is the usual.
    #[test]
    fn three_columns_are_judged_by_those_that_have_tables() {
        let set = |columns: &[usize], scale: f64| {
            let (mean, variance, gain) = (Vec::new(), Vec::new(), Vec::new());
            let (spread, by_group) = (OnceLock::new(), ByGroup::default());
            Set { columns: columns.to_vec(), mean, variance, gain, noise: 1.0, scale, narrowed: None, spread, by_group }
        };
        let count = 7;
        let pairs = (0..count).flat_map(|a| (a + 1..count).map(move |b| vec![a, b]));
        let mut sets: Vec<Set> = pairs.map(|pair| set(&pair, 0.25)).collect();
        let mut with = |tables: &[[usize; 3]], scale: f64| {
            sets.retain(|set| set.columns.len() == 2);
            sets.extend(tables.iter().map(|columns| set(columns, scale)));
            let at = sets.iter().enumerate().map(|(at, set)| (set.columns.clone(), at)).collect();
            let mut all = Interactions {
                columns: [no_columns(), no_columns()],
                groups: [vec![None; count], vec![None; count]],
                sets: std::mem::take(&mut sets),
                at,
                composed: Composition::new((0..count).map(|_| None).collect(), Vec::new()),
                beside_pairs: 0.0,
            };
            all.beside_pairs = all.three_beside_pairs();
            let found = all.unseen(&[0, 1, 6]);
            sets = all.sets;
            found
        };
        assert!((with(&[], 0.0) - UNSEEN * 0.5).abs() < 1e-15);
        let tables: Vec<[usize; 3]> = (0..5).flat_map(|a| (a + 1..6).map(move |b| [a, b, 6])).skip(1).collect();
        let told = with(&tables, 0.03);
        let weight = tables.len() as f64 / (tables.len() + 1) as f64;
        let expected = weight * ELSEWHERE * 0.03 + (1.0 - weight) * UNSEEN * 0.5;
        assert!((told - expected).abs() < 1e-12, "{told}, not {expected}");
    }

    /// Sums with one logarithm for many factors against those of single numbers, for any length and all instructions.
    #[test]
    fn logarithms_of_products_are_sums_of_logarithms() {
        let mut random = PublicStream::new("test", 13);
        for len in [0, 1, 7, 8, 9, 127, 128, 129, 1000] {
            let x: Vec<f64> = (0..len).map(|_| 10f64.powf(-6.0 + 24.0 * random.uniform())).collect();
            let y: Vec<f64> = (0..len).map(|_| random.uniform()).collect();
            let expected = (
                x.iter().map(|x| (4.0 * x).ln_1p()).sum::<f64>(),
                x.iter().zip(&y).map(|(x, y)| y / (1.0 + 4.0 * x)).sum::<f64>(),
            );
            for simd in Simd::available() {
                let (logarithms, quotients) = log_and_quotients(simd, 4.0, &x, &y);
                assert!(
                    (logarithms - expected.0).abs() <= 1e-12 * expected.0,
                    "{len}: {logarithms}, not {}",
                    expected.0
                );
                assert!((quotients - expected.1).abs() <= 1e-12 * expected.1, "{len}: {quotients}, not {}", expected.1);
            }
        }
    }

    fn no_columns() -> Vec<Option<Scores>> {
        vec![None, None, None]
    }

    /// Tables of independent columns are read as such; dependent ones keep their scale.
    /// Mean and covariance with a product of signs are those of regression with one more row, computed with full matrices.
    #[test]
    fn a_product_of_signs_is_one_more_moment() {
        let mut random = PublicStream::new("test", 6);
        let (len, noise, candidate) = (6, 3e-3, 11);
        let mut some = |size: f64| -> Vec<f64> { (0..len).map(|_| size * random.normal()).collect() };
        let (moments, direction, singular) = (some(0.2), some(1.0), some(0.4));
        let product = Along { direction, value: 0.3, noise: 1e-3 };
        let reading = Reading { moments, singular, noise, product: Some(product) };
        // All weight on one scale.
        let law = std::array::from_fn(|at| f64::from(at == candidate));
        let set = reading.posterior(&[0, 1], &[0.0; SCALES], &law);
        let (s, product) = (scale(candidate), reading.product.as_ref().unwrap());
        let along: Vec<f64> =
            product.direction.iter().zip(&reading.singular).map(|(x, singular)| x * singular).collect();
        let precision = Mat::from_fn(len, len, |i, j| {
            let own = if i == j { 1.0 / s + reading.singular[i].powi(2) / noise } else { 0.0 };
            own + along[i] * along[j] / product.noise
        });
        let right = Mat::from_fn(len, 1, |i, _| {
            reading.singular[i] * reading.moments[i] / noise + along[i] * product.value / product.noise
        });
        let factored = precision.llt(Side::Lower).unwrap();
        let (mean, covariance) = (factored.solve(&right), factored.solve(Mat::<f64>::identity(len, len)));
        let narrowed = set.narrowed.as_ref().unwrap();
        for i in 0..len {
            assert!((set.mean[i] - mean[(i, 0)]).abs() < 1e-9, "{} {}", set.mean[i], mean[(i, 0)]);
            for j in 0..len {
                let own = if i == j { set.variance[i] } else { 0.0 };
                let found = own - narrowed.less[i] * narrowed.less[j];
                assert!((found - covariance[(i, j)]).abs() < 1e-9, "{found} {}", covariance[(i, j)]);
            }
        }
        // What noise does to the mean: the same regression, applied to noise alone.
        let of_noise = |row: &dyn Fn(usize) -> f64| factored.solve(Mat::from_fn(len, 1, |i, _| row(i)));
        let mut expected = Mat::<f64>::zeros(len, len);
        for k in 0..len {
            let gain = of_noise(&|i| if i == k { reading.singular[i] / noise } else { 0.0 });
            expected += (&gain * gain.transpose()) * faer::Scale(noise);
        }
        let gain = of_noise(&|i| along[i] / product.noise);
        expected += (&gain * gain.transpose()) * faer::Scale(product.noise);
        for (i, j) in (0..len).flat_map(|i| (0..len).map(move |j| (i, j))) {
            let mut sum = Spread::default();
            let unit = |at: usize| [narrowed.less[at], narrowed.gain[at], narrowed.felt[at]];
            narrowed.spread(unit(i), unit(j), 1.0, noise, &mut sum);
            let own = if i == j { set.gain[i].powi(2) * noise } else { 0.0 };
            assert!((own + sum.privacy - expected[(i, j)]).abs() < 1e-9, "{i} {j}");
        }
    }

    #[test]
    fn scales_are_told_from_noise() {
        let mut random = PublicStream::new("test", 5);
        let mut reading = |size: f64| Reading {
            moments: (0..25).map(|_| 0.01 * random.normal() + size * random.normal()).collect(),
            singular: vec![1.0; 25],
            noise: 1e-4,
            product: None,
        };
        let faint: Vec<[f64; SCALES]> = (0..30).map(|_| reading(0.0).likelihoods(Simd::detect())).collect();
        let strong: Vec<[f64; SCALES]> = (0..10).map(|_| reading(0.3).likelihoods(Simd::detect())).collect();
        let (law, _) = fit_law(&[&faint[..], &strong[..]].concat());
        let mean = |likelihoods: &[f64; SCALES]| {
            weigh(likelihoods, &law).0.iter().enumerate().map(|(i, w)| w * scale(i)).sum::<f64>()
        };
        assert!(faint.iter().all(|table| mean(table) < 1e-3));
        assert!(strong.iter().all(|table| mean(table) > 0.03 && mean(table) < 0.3));
    }
}
