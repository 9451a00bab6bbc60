//! From a release and a prior to answers: the moment-to-moment estimator.
//!
//! A release holds noisy means $\tilde z$ of features Φ. Under a prior ψ let μ = E_ψ Φ and let the table's density be
//! ψ times a random ratio with mean 1. Then a question $\bar f$ and the moments are jointly random with covariance K, the
//! noise adds a diagonal S to that of the moments, and the answer is the posterior mean
//!
//! $$\hat f = E_ψ f + K_{fΦ}\,(K_{ΦΦ} + S)^{-1} (\tilde z - μ)$$
//!
//! with posterior variance $K_{ff} - K_{fΦ}(K_{ΦΦ}+S)^{-1}K_{Φf}$: noise, approximation and distributional shift at once.
//!
//! **The paper's ridge** is K = τ² Cov_ψ (or τ² E_ψ(fg), uncentred): with Gram $G = E_ψ ΦΦ^\top$ and λ = σ²/(n²τ²) the
//! answer is $\langle a, \tilde z\rangle$, $a = (G + λI)^{-1} E_ψ(fΦ)$. Every normalisation: Φ in real units (cosines between
//! -1 and 1, cells 0 or 1), z̃ the noisy sum over the noisy count, σ² the variance of the noise on a sum, G a mean over the
//! prior and not a sum. [`Lambda`] chooses τ².
//!
//! **The default** learns ψ from the histograms in the release (a product of marginals; without histograms, from a first
//! reading against the uniform) and splits K by the order of effects. What single columns do is known from the histograms,
//! with the error of their noise and of what may hide within a bin. What two columns do together has variance τ² times
//! the covariance of their pure interaction, with a τ² of its own for every pair (where they can be told apart); three and
//! more share another. All τ² follow from the evidence of the other moments. Releases of the default design, histograms with
//! tables over their merged cells, have a posterior of their own for what two and three columns do (`interactions.rs`).
//!
//! Against a product prior and for features that are products (Fourier, tables), everything is exact (`closed.rs`); other
//! maps, other priors and functions that do not separate use random points (`points.rs`).

mod alone;
mod closed;
mod columns;
mod completion;
mod composition;
mod interactions;
mod look;
mod points;
mod rows;
mod separate;
mod shrink;
mod tree;
mod triangle;

pub(crate) use columns::{simplex, unevenness};
pub(crate) use points::Points;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use faer::linalg::solvers::{DenseSolveCore, Llt, Solve};
use faer::{Mat, Side};

use crate::estimate::{Covariance, Entry, Estimate, Model, Parts, Positive, Sample, Totals, WeightedSample};
use crate::expr::Checked;
use crate::feature::{FeatureMap, MapSpec, Simd};
use crate::panel::Value;
use crate::prior::{Independent, Place, Prior, tables};
use crate::release::Release;
use crate::stream::PublicStream;
use crate::{Design, Error, Schema};
use closed::{Closed, Gram, Pair, Split, is_closed, shared};
use columns::{Knowledge, Tilts};
use interactions::{Interactions, PointScores, Spread};
use points::dot;
use rows::Rows;
use separate::{Tables, Term, separate};
use triangle::Triangle;

/// How a release is read.
#[derive(Clone)]
pub struct Options {
    /// The distribution over the domain against which it is read.
    pub prior: Prior,
    /// How much the table may differ from the prior.
    pub lambda: Lambda,
    /// Whether answers fall back to the prior's (and not to zero) where the noise is large.
    pub centred: bool,
    /// How many random points stand for the prior where there is no closed form.
    pub samples: usize,
    /// The seed of those points.
    pub seed: u64,
    /// Whether to use random points even where there is a closed form.
    pub sampled: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            prior: Prior::Learned,
            lambda: Lambda::Evidence,
            centred: true,
            samples: 100_000,
            seed: 0,
            sampled: false,
        }
    }
}

/// The rule for the ridge λ, where the Gram matrix is a mean over the prior and σ² is the variance of the noise on a sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lambda {
    /// $\lambda = R\,\sigma^2/n^2$: the mean squared error is bounded by the objective (Theorem 1 of the paper, R = 1).
    Theorem(
        /// R.
        f64,
    ),
    /// $\lambda = R\,\sigma^2/n$: the rule as the paper's experiments print it. Far too large under this
    /// normalisation; kept for comparison.
    Paper(
        /// R.
        f64,
    ),
    /// $\lambda = \sigma^2/(n^2\tau^2)$ with τ² averaged over its posterior given the released moments.
    Evidence,
}

/// A release ready to be questioned. One factorisation serves every question.
pub struct Fit {
    schema: Schema,
    rows: f64,
    count_deviation: f64,
    prior: Independent,
    options: Options,
    taus: Taus,
    closed: Option<Closed>,
    knowledge: Vec<Knowledge>,
    /// What tables over merged cells tell of columns together.
    interactions: Option<Interactions>,
    /// Functions of one column that were asked about.
    tables: Tables,
    /// For each feature: its block and place, the released mean, the variance of its noise, the prior mean.
    kept: Vec<(usize, usize)>,
    released: Vec<f64>,
    noise: Vec<f64>,
    mean: Vec<f64>,
    factor: Option<Llt<f64>>,
    alpha: Vec<f64>,
    maps: Vec<Box<dyn FeatureMap>>,
    blocks: Vec<Moments>,
    points: OnceLock<PriorPoints>,
    /// Fewer points, by which errors of models are judged where tables tell of interactions.
    judges: OnceLock<PriorPoints>,
    /// Where points stand for every feature: of which design, and the covariance of those features.
    drawn: Option<(Design, Arc<Mat<f64>>)>,
    weights: OnceLock<Vec<f64>>,
    /// Points of which none has a negative weight, and their weights.
    positive: OnceLock<(Arc<Points>, Vec<f64>)>,
    /// The same for models, if they need fewer.
    learned_on: OnceLock<(Arc<Points>, Vec<f64>)>,
}

/// Random points of the prior, and what is found out about them when it is first needed.
struct PriorPoints {
    points: Arc<Points>,
    /// For each known column, the cell of every point.
    cells: OnceLock<Vec<Vec<u32>>>,
    /// For each column, the scores of every point.
    scores: Vec<OnceLock<PointScores>>,
    /// For each column, the tilts of its cells at the points.
    tilts: Vec<OnceLock<Tilts>>,
}

/// The variances τ² of the density ratio per direction, by the order of effects.
struct Taus {
    /// Of main effects, where nothing is known of single columns.
    main: f64,
    /// Of the interactions of two columns; those that are not listed have that of the rest.
    pairs: HashMap<Pair, f64>,
    /// Of all other interactions.
    rest: f64,
}

impl Taus {
    fn of(&self, pair: Pair) -> f64 {
        self.pairs.get(&pair).copied().unwrap_or(self.rest)
    }

    /// For a function of some columns whose interactions are not told apart.
    fn among(&self, columns: &[usize]) -> f64 {
        let pairs = columns.iter().enumerate().flat_map(|(i, a)| columns[i + 1..].iter().map(move |b| (*a, *b)));
        let taus: Vec<f64> = pairs.map(|pair| self.of(pair)).collect();
        if taus.is_empty() { self.rest } else { taus.iter().sum::<f64>() / taus.len() as f64 }
    }
}

/// The released means of a block, in real units, and the variance of the noise on each.
struct Moments {
    grid: f64,
    released: Vec<f64>,
    noise: f64,
}

/// The largest system that is solved.
const MAX_FEATURES: usize = 8192;
/// Features on which τ² is judged, at most.
const EVIDENCE_FEATURES: usize = 800;
/// A larger variance of interactions than this is not believed: moments without noise can ask for any, as no law is quite
/// a smooth change of the prior, and answers to rough questions would then be extrapolated without restraint.
const MAX_TAU: f64 = 1.0;
/// Where the moments hardly speak of a pair of columns, it is not taken for independent because others are: its variance
/// is held to this by so many observations.
const UNSEEN_TAU: f64 = 0.1;
const HELD: f64 = 0.25;
/// Points by which errors of models are judged, at most: errors need not be known as well as what they are errors of.
const JUDGES: usize = 5_000;
/// Models are learned on so many points for each row, and on so many at least.
const LEARNED_ON: f64 = 1.5;
const LEAST_LEARNED_ON: usize = 20_000;
/// Points are raked until they are this near to all tables, as a part of all rows: much nearer than random points are.
const RAKED: f64 = 1e-3;
/// Or until a sweep leaves more than this part of the distance of the last.
const SLOW: f64 = 0.97;
/// Where points are in tables is kept for so many of them, at most.
const MOST_PLACES: usize = 1 << 24;
/// The variance of interactions where nothing in the release speaks of them: any correlation is possible.
const UNKNOWN_TAU: f64 = 1.0 / 3.0;

impl Fit {
    /// Reads a release.
    pub fn new(release: &Release, options: Options) -> Result<Self, Error> {
        Self::with_maps(release, options, Vec::new())
    }

    /// Reads a release that has maps which a user wrote, given in the order of their blocks.
    pub fn with_maps(release: &Release, options: Options, own: Vec<Box<dyn FeatureMap>>) -> Result<Self, Error> {
        Self::read(release, options, own, None)
    }

    /// Reads another release in the same way, with the same answers as [`Fit::new`]. If it has the same schema and design
    /// and the prior is not learned from it, it shares the random points, their features and their Gram matrix: these
    /// depend neither on the table nor on the noise.
    pub fn again(&self, release: &Release) -> Result<Self, Error> {
        Self::read(release, self.options.clone(), Vec::new(), Some(self))
    }

    fn read(
        release: &Release,
        options: Options,
        own: Vec<Box<dyn FeatureMap>>,
        other: Option<&Self>,
    ) -> Result<Self, Error> {
        let mut own = own.into_iter();
        let (schema, design) = (release.schema().clone(), release.design()?);
        let maps = design.maps_with(&schema, Simd::detect(), |spec| {
            own.next().ok_or_else(|| {
                Error::Question(format!(
                    "the release has `{}`, a map that a user wrote; hand its code to the library (Fit::with_maps)",
                    spec.name
                ))
            })
        })?;
        let counted = Rows::of(release)?;
        let rows = counted.value;
        let mut learned = match options.prior {
            Prior::Learned => columns::learn(release, rows)?,
            _ => None,
        };
        let usual = options.lambda == Lambda::Evidence && options.centred && !options.sampled && only_merged(release);
        let interactions = match &mut learned {
            Some((prior, known, _)) if usual => {
                columns::observe_values(release, prior, known, counted);
                Interactions::new(release, prior, known, counted)?
            }
            _ => None,
        };
        if usual && learned.is_some() && interactions.is_none() {
            // Values are read as features then, and are not to be taken in twice.
            learned = columns::learn(release, rows)?;
        }
        let all_closed = interactions.is_some() || release.blocks().iter().all(|block| is_closed(block.map()));
        let exact = all_closed && !options.sampled && !matches!(options.prior, Prior::Sample(_));
        if let (None, Prior::Learned, true) = (&learned, &options.prior, exact && options.centred) {
            // No table to learn the columns from: a first reading against the uniform prior has to do.
            let pilot = Self::with_maps(release, Options { prior: Prior::Uniform, ..options.clone() }, Vec::new())?;
            let closed = pilot.closed.as_ref().expect("the pilot is exact too");
            let (prior, knowledge) =
                columns::learn_from(&schema, |cells, cell| pilot.probability(closed, cells, cell))?;
            learned = Some((prior, knowledge, Vec::new()));
        }
        let (prior, mut knowledge, used) = match (learned, &options.prior) {
            (Some((prior, knowledge, used)), _) if exact && options.centred => (prior, knowledge, used),
            (Some((prior, _, used)), _) => (prior, Vec::new(), used),
            (None, Prior::Marginals(table)) => (Independent::of_table(&schema, table)?, Vec::new(), Vec::new()),
            (None, _) => {
                let partitions = first_partitions(release)?;
                let prior = Independent::uniform(&schema, |column| partitions[column].as_ref());
                (prior, Vec::new(), Vec::new())
            }
        };

        let blocks = release
            .blocks()
            .iter()
            .map(|block| {
                let scale = 1.0 / (block.grid() as f64 * rows);
                Moments {
                    grid: block.grid() as f64,
                    released: block.sums().iter().map(|sum| *sum as f64 * scale).collect(),
                    noise: (block.noise().standard_deviation(block.sums().len()) * scale).powi(2),
                }
            })
            .collect();
        let mut fit = Self {
            rows,
            count_deviation: counted.deviation,
            prior,
            taus: Taus { main: 1.0, pairs: HashMap::new(), rest: UNKNOWN_TAU },
            closed: None,
            knowledge: Vec::new(),
            kept: Vec::new(),
            released: Vec::new(),
            noise: Vec::new(),
            mean: Vec::new(),
            factor: None,
            alpha: Vec::new(),
            maps,
            blocks,
            points: OnceLock::new(),
            judges: OnceLock::new(),
            drawn: None,
            interactions: None,
            tables: Tables::default(),
            weights: OnceLock::new(),
            positive: OnceLock::new(),
            learned_on: OnceLock::new(),
            schema,
            options,
        };
        let gram = if exact {
            let specs = release.blocks().iter().map(|block| block.map());
            let anova = !knowledge.is_empty();
            let (closed, kept) = Closed::new(&fit.schema, specs, &fit.prior, |block, first| {
                anova && used.iter().any(|(other, places)| *other == block && places.start == first)
            })?;
            too_large(closed.len())?;
            for (known, axis) in knowledge.iter_mut().zip(&fit.prior.axes) {
                known.set_effects(axis, &closed, &fit.prior);
            }
            let split = match fit.options.lambda {
                Lambda::Evidence if anova && closed.can_split_pairs() => Split::Pairs,
                Lambda::Evidence if fit.options.centred => Split::Main,
                _ if anova => Split::Main,
                _ => Split::Nothing,
            };
            let gram = closed.gram(&fit.prior, Simd::detect(), split);
            fit.mean = closed.mean().to_vec();
            fit.kept = kept;
            fit.closed = Some(closed);
            gram
        } else {
            let given = !matches!(fit.options.prior, Prior::Learned);
            let same = other.filter(|other| given && other.schema == fit.schema);
            let (points, gram) = match same.and_then(|other| Some((other.points.get()?, other.drawn.as_ref()?))) {
                Some((drawn, (of, gram))) if *of == design => (drawn.points.clone(), gram.clone()),
                _ => {
                    let points = fit.draw(fit.options.samples, |_| true, |_, _| true);
                    too_large(points.kept().len())?;
                    let mut gram = points.gram(Simd::detect());
                    rank_one(&mut gram, points.mean(), -1.0);
                    (Arc::new(points), Arc::new(gram))
                }
            };
            fit.mean = points.mean().to_vec();
            fit.kept = points.kept().to_vec();
            let _ = fit.points.set(fit.prior_points(points));
            fit.drawn = Some((design, gram.clone()));
            let all = Triangle::from_fn(fit.mean.len(), |i, j| gram[(i, j)]);
            Gram { all, main: None, pairs: Vec::new() }
        };
        fit.knowledge = knowledge;
        fit.interactions = interactions;
        for (block, feature) in &fit.kept {
            fit.released.push(fit.blocks[*block].released[*feature]);
            fit.noise.push(fit.blocks[*block].noise);
        }
        let marginal = |i: usize| {
            let (block, feature) = fit.kept[i];
            used.iter().any(|(other, places)| *other == block && places.contains(&feature))
        };
        // Tables that taught the prior agree with it by construction and say nothing of τ².
        let judged: Vec<usize> = (0..fit.kept.len()).filter(|i| !marginal(*i)).collect();
        fit.solve(gram, &judged)?;
        Ok(fit)
    }

    /// Chooses τ², factors K + S and solves for the released moments.
    fn solve(&mut self, gram: Gram, judged: &[usize]) -> Result<(), Error> {
        let m = self.kept.len();
        if m == 0 {
            return Ok(());
        }
        let Gram { all: mut rest, main, pairs } = gram;
        // Fixed part: noise, and the errors of single columns.
        let mut fixed = Triangle::zeros(m);
        for (i, noise) in self.noise.iter().enumerate() {
            *fixed.at(i, i) = *noise;
        }
        // The part of main effects that is not known at all.
        let mut open = None;
        if let Some(main) = main {
            rest.add(-1.0, &main);
            open = self.knowledge.is_empty().then_some(main);
            let spread: Vec<Vec<f64>> = self.knowledge.iter().flat_map(Knowledge::spread).collect();
            fixed.add_squares(&spread);
        } else if !self.options.centred {
            rest.add_outer(1.0, &self.mean);
            self.mean.fill(0.0);
        }
        rest.add_all(pairs.iter().map(|(_, part)| (-1.0, part)));
        let residual: Vec<f64> = self.released.iter().zip(&self.mean).map(|(z, mean)| z - mean).collect();
        let mut parts: Vec<&Triangle> = pairs.iter().map(|(_, part)| part).collect();
        parts.push(&rest);
        parts.extend(&open);
        let taus = match self.options.lambda {
            Lambda::Theorem(multiplier) => vec![1.0 / multiplier; parts.len()],
            Lambda::Paper(multiplier) => vec![1.0 / (multiplier * self.rows); parts.len()],
            Lambda::Evidence => evidence(&fixed, &parts, pairs.len(), &residual, judged),
        };
        fixed.add_all(taus.iter().copied().zip(parts.iter().copied()));
        self.taus = Taus {
            pairs: pairs.iter().zip(&taus).map(|((pair, _), tau)| (*pair, *tau)).collect(),
            rest: taus[pairs.len()],
            main: taus.get(pairs.len() + 1).copied().unwrap_or(taus[pairs.len()]),
        };
        let factor = factorise(fixed.lower())?;
        let solved = factor.solve(column(&residual));
        self.alpha = (0..m).map(|i| solved[(i, 0)]).collect();
        self.factor = Some(factor);
        Ok(())
    }

    /// Random points of the prior with their features.
    fn draw(&self, samples: usize, wanted: impl Fn(usize) -> bool, keep: impl Fn(usize, usize) -> bool) -> Points {
        let panels = match &self.options.prior {
            Prior::Sample(table) => table.0.to_vec(),
            _ => self.prior.sample(&self.schema, samples.max(1), self.options.seed),
        };
        let maps: Vec<(usize, &dyn FeatureMap, f64)> = self
            .maps
            .iter()
            .enumerate()
            .filter(|(block, _)| wanted(*block))
            .map(|(block, map)| (block, map.as_ref(), self.blocks[block].grid))
            .collect();
        Points::new(panels, &maps, keep)
    }

    fn points(&self) -> &Points {
        &self.all_points().points
    }

    fn all_points(&self) -> &PriorPoints {
        self.points.get_or_init(|| {
            let kept: std::collections::HashSet<(usize, usize)> = self.kept.iter().copied().collect();
            let wanted = |block: usize| self.kept.iter().any(|(other, _)| *other == block);
            let keep = |block: usize, feature: usize| kept.contains(&(block, feature));
            self.prior_points(Arc::new(self.draw(self.options.samples, wanted, keep)))
        })
    }

    /// The points by which errors of models are judged.
    fn judging_points(&self) -> &PriorPoints {
        if self.interactions.is_none() || self.options.samples <= JUDGES {
            return self.all_points();
        }
        // Without features: where tables tell of interactions nothing else is solved for.
        self.judges.get_or_init(|| self.prior_points(Arc::new(self.draw(JUDGES, |_| false, |_, _| false))))
    }

    fn prior_points(&self, points: Arc<Points>) -> PriorPoints {
        let columns = self.schema.columns();
        let scores = columns.iter().map(|_| OnceLock::new()).collect();
        let tilts = columns.iter().map(|_| OnceLock::new()).collect();
        PriorPoints { points, cells: OnceLock::new(), scores, tilts }
    }

    /// Coefficients of this fit in the order of the points' features.
    fn in_order_of_points(&self, coefficients: &[f64]) -> Vec<f64> {
        reorder(&self.kept, coefficients, self.points().kept())
    }

    /// The estimated probability of a cell of a column.
    fn probability(&self, closed: &Closed, cells: &crate::feature::Cells, cell: usize) -> f64 {
        let column = cells.column();
        let table = self.prior.axes[column]
            .tabulate(&cells.edges().unwrap_or_default(), |value| f64::from(cells.of(value) as usize == cell));
        let functional = self.closed_functional(closed, vec![Term::of(1.0, column, table)]);
        functional.mean + dot(&functional.k, &self.alpha)
    }

    /// The estimated number of rows.
    pub fn count(&self) -> Estimate {
        let parts = Parts { count: self.count_deviation, ..Parts::default() };
        Estimate::new(self.rows, parts).within(0.0, f64::INFINITY)
    }

    /// The variance τ² of the density ratio per direction, of interactions between two columns.
    pub fn tau_squared(&self, one: usize, two: usize) -> f64 {
        if let Some(interactions) = &self.interactions {
            return interactions.strength(one, two);
        }
        self.taus.of((one.min(two), one.max(two)))
    }

    /// Computes the Gram matrix once more, for benchmarks, and returns its last entry.
    #[doc(hidden)]
    pub fn gram_again(&self) -> f64 {
        let Some(last) = self.kept.len().checked_sub(1) else { return 0.0 };
        match &self.closed {
            Some(closed) => *closed.gram(&self.prior, Simd::detect(), Split::Nothing).all.at(last, last),
            None => self.points().gram(Simd::detect())[(last, last)],
        }
    }

    /// How many features the system has.
    pub fn features(&self) -> usize {
        self.kept.len()
    }

    /// Whether a question is answered in closed form.
    pub fn is_exact(&self, function: &Checked) -> bool {
        self.closed.is_some() && self.separated(function).is_some()
    }

    fn closed_functional(&self, closed: &Closed, terms: Vec<Term>) -> Functional {
        let mut functional = Functional::default();
        let mut k = vec![0.0; self.kept.len()];
        let anova = !self.knowledge.is_empty();
        for term in &terms {
            let means: Vec<f64> =
                term.factors.iter().map(|(column, table)| self.prior.axes[*column].mean(table)).collect();
            let mean = term.coefficient * means.iter().product::<f64>();
            functional.prior_mean += mean;
            for (at, (column, table)) in term.factors.iter().enumerate() {
                let rest = means.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, m)| m).product::<f64>()
                    * term.coefficient;
                let axis = &self.prior.axes[*column];
                let effect: Vec<f64> = table
                    .iter()
                    .zip(axis.places())
                    .map(|(x, place)| rest * if *place == Place::Slope { *x } else { x - means[at] })
                    .collect();
                functional.add_effect(*column, effect);
            }
            if let Some(interactions) = &self.interactions {
                let shares = interactions.shares(term, &self.prior);
                functional.interaction += interactions.value(term.coefficient, &shares);
            }
            if self.kept.is_empty() {
                continue;
            }
            let against = closed.against(term, &self.prior);
            // Known columns are accounted for below.
            let main = if anova { 0.0 } else { self.taus.main } - self.taus.rest;
            for (i, k) in k.iter_mut().enumerate() {
                *k += self.taus.rest * against.all[i] + main * against.main[i];
                if !self.options.centred {
                    *k += self.taus.rest * mean * closed.mean()[i];
                }
            }
            for (pair, part) in &against.pairs {
                let more = self.taus.of(*pair) - self.taus.rest;
                k.iter_mut().zip(part).for_each(|(k, x)| *k += more * x);
            }
        }
        if anova {
            for Effect { column, table, cells, shared } in &mut functional.effects {
                *cells = self.prior.axes[*column].cell_means(table);
                let known = &self.knowledge[*column];
                let axis = &self.prior.axes[*column];
                if !k.is_empty() {
                    known.add_tilts(&axis.cell_products(&known.tilted, table), &mut k);
                }
                known.add_effects(cells, &mut k);
                if let Some(observed) = &known.observed {
                    let rest;
                    (*shared, rest) = observed.shared(known, axis, table, cells);
                    functional.interaction += rest;
                }
            }
        }
        functional.mean = if self.options.centred { functional.prior_mean } else { 0.0 };
        functional.k = k;
        functional.terms = terms;
        functional
    }

    /// The covariance of two functionals: under the model, under ignorance, and what noise on tables has of the first.
    fn closed_pair(&self, f: &Functional, g: &Functional) -> (f64, f64, f64) {
        let (mut all, mut main, mut known) = (0.0, 0.0, 0.0);
        let mut spread = Spread::default();
        for a in &f.terms {
            for b in &g.terms {
                if let Some(interactions) = &self.interactions {
                    interactions.spread(a, b, &self.prior, &mut spread);
                }
                let part = shared(a, b, &self.prior);
                all += part.all;
                main += part.main;
                for (pair, x) in part.pairs {
                    known += (self.taus.of(pair) - self.taus.rest) * x;
                }
            }
        }
        known += self.taus.rest * (all - main);
        let ignorance = main + UNKNOWN_TAU * (all - main);
        if self.knowledge.is_empty() {
            let uncentred = if self.options.centred { 0.0 } else { f.prior_mean * g.prior_mean };
            return (known + self.taus.rest * uncentred + self.taus.main * main, ignorance, 0.0);
        }
        if self.interactions.is_some() {
            known = spread.all;
        }
        for effect in &f.effects {
            if let Some(other) = g.effects.iter().find(|other| other.column == effect.column) {
                let (knowledge, axis) = (&self.knowledge[effect.column], &self.prior.axes[effect.column]);
                known += dot(&effect.cells, &knowledge.covariance(&other.cells));
                known += dot(&knowledge.within, &axis.cell_covariances(&effect.table, &other.table));
                known -= knowledge.explained(effect.shared, other.shared);
            }
        }
        (known, ignorance, spread.privacy)
    }

    /// Functions, sampled at the points. All have the variance of the interactions of all their columns, so that answers
    /// stay linear.
    fn sampled(&self, functions: &[Checked], columns: &[usize]) -> Vec<Functional> {
        let at = self.all_points();
        let (tau, composed) = (self.taus.among(columns), self.composed(at, columns));
        functions
            .iter()
            .map(|function| {
                let values = at.points.values(&self.schema, function, |value| value.weight());
                self.sampled_functional(at, values, tau, columns, &composed)
            })
            .collect()
    }

    /// A function of some columns, given by its values at points, where composition adds this to the weights.
    fn sampled_functional(
        &self,
        at: &PriorPoints,
        values: Vec<f64>,
        tau: f64,
        columns: &[usize],
        composed: &[f64],
    ) -> Functional {
        let points = &*at.points;
        let mean = values.iter().sum::<f64>() / points.count() as f64;
        let mut functional = Functional { mean, tau, ..Functional::default() };
        if self.knowledge.is_empty() {
            let moments = points.moments(&values);
            let k = moments
                .iter()
                .zip(points.mean())
                .map(|(moment, feature)| tau * (moment - if self.options.centred { mean * feature } else { 0.0 }));
            functional.k = reorder(points.kept(), &k.collect::<Vec<_>>(), &self.kept);
            functional.rest = values.iter().map(|x| x - mean).collect();
        } else {
            let mut rest: Vec<f64> = values.iter().map(|x| x - mean).collect();
            let mut tilted = vec![0.0; self.kept.len()];
            let centred = rest.clone();
            let all = self.knowledge.iter().zip(self.point_cells(at)).enumerate();
            // Tables tell columns apart, and what others do to this function is only the points' accident.
            let asked = |column: &usize| self.interactions.is_none() || columns.contains(column);
            for (column, (known, cells)) in all.filter(|(column, _)| asked(column)) {
                let tilts = at.tilts[column].get_or_init(|| Tilts::new(known, cells, &points.column(column)));
                let (mut means, mut shares) = (vec![0.0; known.cells.len()], vec![0.0; known.cells.len()]);
                for ((cell, tilt), x) in cells.iter().zip(&tilts.of_points).zip(&centred) {
                    means[*cell as usize] += x;
                    shares[*cell as usize] += x * tilt;
                }
                for ((mean, share), count) in means.iter_mut().zip(&mut shares).zip(&tilts.points) {
                    *mean /= count;
                    *share /= count;
                }
                for ((rest, cell), tilt) in rest.iter_mut().zip(cells).zip(&tilts.of_points) {
                    *rest -= means[*cell as usize] + shares[*cell as usize] * tilt;
                }
                known.add_tilts(&shares, &mut tilted);
                let shared = known.observed.as_ref().map_or(0.0, |observed| observed.shared_by_cells(&means));
                functional.effects.push(Effect { column, table: Vec::new(), cells: means, shared });
            }
            let rest_mean = rest.iter().sum::<f64>() / points.count() as f64;
            let moments = points.moments(&rest);
            let k = moments.iter().zip(points.mean()).map(|(moment, feature)| tau * (moment - rest_mean * feature));
            let mut k = reorder(points.kept(), &k.collect::<Vec<_>>(), &self.kept);
            for effect in &functional.effects {
                self.knowledge[effect.column].add_effects(&effect.cells, &mut k);
            }
            k.iter_mut().zip(tilted).for_each(|(k, x)| *k += x);
            functional.k = k;
            if let Some(interactions) = &self.interactions {
                functional.projections = interactions.project(&self.scores(at, columns), &rest, columns);
                functional.interaction = interactions.projected_value(&functional.projections, columns)
                    + dot(composed, &rest) / points.count() as f64;
            }
            functional.rest = rest;
        }
        if !self.options.centred {
            functional.mean = 0.0;
        }
        functional.values = values;
        functional
    }

    /// The scores of every point in some columns, by the place of the column; nothing for the others.
    fn scores<'a>(&self, at: &'a PriorPoints, columns: &[usize]) -> Vec<Cow<'a, PointScores>> {
        let of = |column: usize, interactions: &Interactions| {
            let (axis, panels) = (&self.prior.axes[column], at.points.panels());
            let places: Vec<(u32, f32)> = panels
                .iter()
                .flat_map(|panel| (0..panel.len()).map(|row| axis.locate(panel.record(row).value(column))))
                .collect();
            interactions.at(column, &self.prior, &places)
        };
        let kept = |(column, scores)| match &self.interactions {
            Some(interactions) if columns.contains(&column) => {
                let scores: &'a OnceLock<PointScores> = scores;
                Cow::Borrowed(scores.get_or_init(|| of(column, interactions)))
            }
            _ => Cow::Owned(PointScores::default()),
        };
        at.scores.iter().enumerate().map(kept).collect()
    }

    /// What the composition of some columns adds to the weight of every point.
    fn composed(&self, at: &PriorPoints, columns: &[usize]) -> Vec<f64> {
        match &self.interactions {
            Some(interactions) => interactions.composed(self.point_cells(at), columns),
            None => Vec::new(),
        }
    }

    fn sampled_pair(&self, f: &Functional, g: &Functional, columns: &[usize]) -> (f64, f64, f64) {
        let n = f.rest.len() as f64;
        let rest = dot(&f.rest, &g.rest) / n;
        let spread = self
            .interactions
            .as_ref()
            .map(|interactions| interactions.projected_spread(&f.projections, &g.projections, rest, columns));
        let uncentred = if self.options.centred { 0.0 } else { dot(&f.values, &g.values) / n - rest };
        let mut known = match &spread {
            Some(spread) => spread.all,
            None => (f.tau * g.tau).sqrt() * (rest + uncentred),
        };
        let mut ignorance = UNKNOWN_TAU * rest;
        for (effect, other) in f.effects.iter().zip(&g.effects) {
            let knowledge = &self.knowledge[effect.column];
            known += dot(&effect.cells, &knowledge.covariance(&other.cells));
            known -= knowledge.explained(effect.shared, other.shared);
            let masses = self.prior.axes[effect.column].cell_masses();
            let products = effect.cells.iter().zip(&other.cells).zip(&masses).map(|((x, y), mass)| x * y * mass);
            ignorance += products.sum::<f64>();
        }
        (known, ignorance, spread.map_or(0.0, |spread| spread.privacy))
    }

    /// Puts the answers to some functionals together.
    fn answer(&self, functionals: &[Functional], sampled: Option<(&PriorPoints, &[usize])>) -> Means {
        let (count, m) = (functionals.len(), self.kept.len());
        let solved =
            self.factor.as_ref().map(|factor| factor.solve(Mat::from_fn(m, count, |i, j| functionals[j].k[i])));
        let coefficients: Vec<Vec<f64>> = (0..count)
            .map(|j| solved.as_ref().map_or_else(Vec::new, |a| (0..m).map(|i| a[(i, j)]).collect()))
            .collect();
        // What is left of each column's errors after the moments had their say.
        let left: Vec<Vec<Vec<f64>>> = functionals
            .iter()
            .zip(&coefficients)
            .map(|(functional, a)| {
                self.knowledge
                    .iter()
                    .enumerate()
                    .map(|(column, known)| {
                        let effect = functional.effects.iter().find(|effect| effect.column == column);
                        let mut cells = match effect {
                            Some(effect) => effect.cells.clone(),
                            // Nothing is left of what was nothing.
                            None if a.is_empty() => return Vec::new(),
                            None => vec![0.0; known.cells.len()],
                        };
                        if let (Some(effect), Some(observed)) = (effect, &known.observed) {
                            let gain = effect.shared / observed.total;
                            cells.iter_mut().zip(&observed.cells).for_each(|(x, y)| *x -= gain * y);
                        }
                        if known.noise {
                            for (i, a) in a.iter().enumerate() {
                                for (cell, x) in cells.iter_mut().enumerate() {
                                    *x -= known.effects[(cell, i)] * a;
                                }
                            }
                        }
                        cells
                    })
                    .collect()
            })
            .collect();
        let mut means = Means::new(count);
        for i in 0..count {
            let f = &functionals[i];
            means.values[i] = self.value(f);
            means.slopes[i] = f.mean - dot(&coefficients[i], &self.mean);
            for j in 0..=i {
                let g = &functionals[j];
                let (known, ignorance, tables) = match sampled {
                    Some((_, columns)) => self.sampled_pair(f, g, columns),
                    None => self.closed_pair(f, g),
                };
                let posterior = known - dot(&f.k, &coefficients[j]);
                let mut privacy: f64 = coefficients[i]
                    .iter()
                    .zip(&coefficients[j])
                    .zip(&self.noise)
                    .map(|((a, b), noise)| a * b * noise)
                    .sum::<f64>()
                    + tables;
                for (column, known) in self.knowledge.iter().enumerate().filter(|(_, known)| known.noise) {
                    let (one, other) = (&left[i][column], &left[j][column]);
                    if !one.is_empty() && !other.is_empty() {
                        privacy += dot(one, &known.covariance(other));
                    }
                    if let Some(observed) = &known.observed {
                        let gain = |functional: &Functional| functional.shared(column) / observed.total;
                        privacy += gain(f) * gain(g) * observed.noise;
                    }
                }
                let entry = Entry { privacy, sampling: 0.0, approximation: posterior - privacy, ignorance };
                means.covariance[(i, j)] = entry;
                means.covariance[(j, i)] = entry;
            }
            let own = &mut means.covariance[(i, i)].approximation;
            *own = own.max(0.0);
        }
        if let Some((at, columns)) = sampled {
            let weights = self.weights_at(at, columns);
            let weighted: Vec<Vec<f64>> = functionals
                .iter()
                .zip(&means.values)
                .map(|(f, value)| f.values.iter().zip(&*weights).map(|(x, w)| x * w - value).collect())
                .collect();
            let n = weights.len() as f64;
            for i in 0..count {
                for j in 0..count {
                    means.covariance[(i, j)].sampling = dot(&weighted[i], &weighted[j]) / (n * n);
                }
            }
        }
        means
    }

    /// Questions, prepared: exactly where every function separates, and else by the points; then with the columns that they
    /// are about.
    fn functionals(&self, functions: &[Checked]) -> (Vec<Functional>, Option<Vec<usize>>) {
        if let Some(closed) = &self.closed {
            let terms: Option<Vec<Vec<Term>>> = functions.iter().map(|function| self.separated(function)).collect();
            if let Some(terms) = terms {
                return (terms.into_iter().map(|terms| self.closed_functional(closed, terms)).collect(), None);
            }
        }
        let mut columns: Vec<usize> = functions.iter().flat_map(Checked::columns).collect();
        columns.sort_unstable();
        columns.dedup();
        (self.sampled(functions, &columns), Some(columns))
    }

    fn separated(&self, function: &Checked) -> Option<Vec<Term>> {
        separate(function, &self.schema, &self.prior, &self.tables)
    }

    /// The estimated mean of a functional.
    fn value(&self, functional: &Functional) -> f64 {
        functional.mean + dot(&functional.k, &self.alpha) + functional.interaction
    }

    /// The nearest weights to the unbiased ones that are not negative, have mean 1 and (nearly) the fitted means of all
    /// released features, histograms included: $w = \max(0, c + w_0 + τ^2 β^\top(Φ - μ))$ with
    /// $S β = \hat z - E_w Φ$.
    ///
    /// Each step solves with the matrix of the problem without clipping. That bounds the true one from above, so the steps
    /// never overshoot; momentum makes up for their caution.
    fn make_positive_weights(&self) -> Vec<f64> {
        const STEPS: usize = 60;
        let unbiased = self.all_weights();
        let own;
        let points = if self.knowledge.is_empty() {
            self.points()
        } else {
            own = self.draw(self.options.samples, |_| true, |_, _| true);
            &own
        };
        let m = points.kept().len();
        let start = clip(unbiased.to_vec());
        if m == 0 || unbiased.iter().all(|weight| *weight >= 0.0) {
            return start;
        }
        let tau = self.taus.among(&(0..self.schema.columns().len()).collect::<Vec<_>>());
        let mut matrix = match &self.drawn {
            Some((_, gram)) => faer::Scale(tau) * &**gram,
            None => {
                let mut matrix = points.gram(Simd::detect());
                rank_one(&mut matrix, points.mean(), -1.0);
                faer::Scale(tau) * matrix
            }
        };
        let noise: Vec<f64> = points.kept().iter().map(|(block, _)| self.blocks[*block].noise).collect();
        for (i, noise) in noise.iter().enumerate() {
            matrix[(i, i)] += noise;
        }
        let factor = factorise(matrix).expect(SOLVABLE);
        // The fitted moments, as far as they differ from the prior's.
        let place: HashMap<(usize, usize), usize> = self.kept.iter().enumerate().map(|(i, key)| (*key, i)).collect();
        let fitted = |i: usize| self.released[i] - self.noise[i] * self.alpha[i] - self.mean[i];
        let target: Vec<f64> = points
            .kept()
            .iter()
            .zip(points.mean())
            .map(|(key, mean)| match place.get(key) {
                Some(i) if self.options.centred => mean + fitted(*i),
                Some(i) => fitted(*i),
                None => *mean,
            })
            .collect();
        let gap_of = |weights: &[f64], beta: &[f64]| -> Vec<f64> {
            let moments = points.moments(weights);
            (0..m).map(|i| target[i] - moments[i] - noise[i] * beta[i]).collect()
        };
        let weigh = |beta: &[f64]| {
            let scaled: Vec<f64> = beta.iter().map(|b| tau * b).collect();
            let shift = dot(points.mean(), &scaled);
            clip(points.combine(&scaled).iter().zip(unbiased).map(|(x, weight)| weight + x - shift).collect())
        };
        let mut gap = gap_of(&start, &vec![0.0; m]);
        let (mut beta, mut ahead, mut pace) = (vec![0.0; m], vec![0.0; m], 1.0f64);
        let mut first = None;
        for _ in 0..STEPS {
            let step = factor.solve(column(&gap));
            let improvement: f64 = (0..m).map(|i| step[(i, 0)] * gap[i]).sum();
            let last = std::mem::replace(&mut beta, (0..m).map(|i| ahead[i] + step[(i, 0)]).collect());
            let next = 0.5 * (1.0 + (1.0 + 4.0 * pace * pace).sqrt());
            ahead = (0..m).map(|i| beta[i] + (pace - 1.0) / next * (beta[i] - last[i])).collect();
            pace = next;
            if improvement <= 1e-3 * *first.get_or_insert(improvement) {
                break;
            }
            gap = gap_of(&weigh(&ahead), &ahead);
        }
        weigh(&beta)
    }

    /// Rakes weights of points in some cells to what tables should add up to, and to the marginals.
    fn raked_to(
        &self,
        interactions: &Interactions,
        mut targets: Vec<Vec<f64>>,
        mut weights: Vec<f64>,
        cells: &[Vec<u32>],
    ) -> Vec<f64> {
        let every: Vec<Vec<u32>> = self.prior.axes.iter().map(|axis| (0..axis.cells() as u32).collect()).collect();
        let mut margins: Vec<Places<'_>> = interactions.tables().map(|table| Places::new(&table, cells)).collect();
        for (column, every) in every.iter().enumerate() {
            let places = Places::new(&[(column, every)], cells);
            let mut target = vec![0.0; places.size];
            cells[column].iter().for_each(|cell| target[*cell as usize] += 1.0);
            margins.push(places);
            targets.push(target);
        }
        // Where each point is in each table: once, if there is room for it.
        let room = margins.len() * weights.len() <= MOST_PLACES;
        let filled = |margin: &Places<'_>, mut places: Vec<u32>| {
            margin.fill(&mut places);
            places
        };
        let made: Vec<Vec<u32>> =
            margins.iter().filter(|_| room).map(|margin| filled(margin, vec![0; weights.len()])).collect();
        let mut scratch = vec![0; if room { 0 } else { weights.len() }];
        // Columns that go closely together take many sweeps; where there are many tables, time does not allow them.
        let sweeps = (2000 / margins.len().max(1)).clamp(10, 40);
        let (mut sums, mut next) = (Vec::new(), Vec::new());
        let (mut summed, mut last) = (false, f64::INFINITY);
        for _ in 0..sweeps {
            let mut farthest = 0.0f64;
            for (at, (margin, target)) in margins.iter().zip(&targets).enumerate() {
                if !room {
                    scratch = filled(margin, scratch);
                }
                let places = made.get(at).unwrap_or(&scratch);
                if !summed {
                    sums = vec![0.0; target.len()];
                    weights.iter().zip(places).for_each(|(weight, place)| sums[*place as usize] += weight);
                }
                let gap = target.iter().zip(&sums).map(|(x, y)| (x.max(0.0) - y).abs()).sum::<f64>();
                farthest = farthest.max(gap / weights.len() as f64);
                // What the weights are to be multiplied by.
                for (sum, target) in sums.iter_mut().zip(target) {
                    *sum = if *sum > 0.0 { (target.max(0.0) / *sum).clamp(0.2, 5.0) } else { 1.0 };
                }
                // In the same go the next table is added up: weights and places come from far away in memory.
                let after = (at + 1) % margins.len();
                summed = room;
                if room {
                    next.clear();
                    next.resize(targets[after].len(), 0.0);
                    for ((weight, place), other) in weights.iter_mut().zip(places).zip(&made[after]) {
                        *weight *= sums[*place as usize];
                        next[*other as usize] += *weight;
                    }
                    std::mem::swap(&mut sums, &mut next);
                } else {
                    weights.iter_mut().zip(places).for_each(|(weight, place)| *weight *= sums[*place as usize]);
                }
            }
            // Tables that contradict each other a little are met no better by going on.
            if farthest < RAKED || farthest > SLOW * last {
                break;
            }
            last = farthest;
        }
        normalised(weights)
    }

    /// Points of which none has a negative weight, and their weights.
    pub(crate) fn row_points(&self) -> &(Arc<Points>, Vec<f64>) {
        self.positive.get_or_init(|| match &self.interactions {
            Some(interactions) => self.raked_points(interactions, self.options.samples.max(1)),
            None => (self.all_points().points.clone(), self.make_positive_weights()),
        })
    }

    /// Those that models are learned on: of a table of few rows, several times as many tell nothing more.
    fn model_points(&self) -> &(Arc<Points>, Vec<f64>) {
        match &self.interactions {
            Some(interactions) if self.model_count() < self.options.samples => {
                self.learned_on.get_or_init(|| self.raked_points(interactions, self.model_count()))
            }
            _ => self.row_points(),
        }
    }

    fn model_count(&self) -> usize {
        ((LEARNED_ON * self.rows) as usize).max(LEAST_LEARNED_ON).min(self.options.samples)
    }

    fn raked_points(&self, interactions: &Interactions, count: usize) -> (Arc<Points>, Vec<f64>) {
        let (panels, cells) = tree::sample(interactions, &self.prior, &self.schema, count, self.options.seed);
        // Probabilities below 0 count as 0; what that adds is taken off all others, or tables would contradict each other.
        let targets = interactions.probabilities(&self.prior);
        let target = |table: &Vec<f64>| simplex(table).into_iter().map(|p| p * count as f64).collect();
        let targets: Vec<Vec<f64>> = targets.iter().map(target).collect();
        let weights = self.raked_to(interactions, targets, vec![1.0; count], &cells);
        (Arc::new(Points::new(panels, &[], |_, _| true)), weights)
    }

    /// Unbiased weights of the points for functions of any columns.
    fn all_weights(&self) -> &[f64] {
        self.weights.get_or_init(|| self.make_weights())
    }

    /// The same for functions of some columns, where tables tell of their interactions.
    fn weights_among(&self, interactions: &Interactions, at: &PriorPoints, columns: &[usize]) -> Vec<f64> {
        let mut weights = interactions.weights(&self.scores(at, columns), self.point_cells(at), columns);
        weights.iter_mut().for_each(|weight| *weight += 1.0);
        normalised(weights)
    }

    /// Unbiased weights of points for functions of some columns.
    fn weights_at(&self, at: &PriorPoints, columns: &[usize]) -> Cow<'_, [f64]> {
        let all = self.points.get().is_some_and(|points| std::ptr::eq(points, at));
        match &self.interactions {
            Some(interactions) if !all || columns.len() < self.schema.columns().len() => {
                Cow::Owned(self.weights_among(interactions, at, columns))
            }
            _ => Cow::Borrowed(self.all_weights()),
        }
    }

    /// The estimated means of functions over all rows, without their errors.
    pub fn values_of(&self, functions: &[Checked]) -> Vec<f64> {
        let one = |function: &Checked| self.value(&self.functionals(std::slice::from_ref(function)).0[0]);
        functions.iter().map(one).collect()
    }

    /// Another value of a column where the prior does not tell it from this one.
    pub(crate) fn redrawn(&self, column: usize, value: Value, stream: &mut PublicStream) -> Value {
        match &self.options.prior {
            Prior::Sample(_) => value,
            _ => self.prior.axes[column].redraw(value, &self.schema.columns()[column].kind, stream),
        }
    }

    /// The cell of every point in each column that is known.
    fn point_cells<'a>(&self, at: &'a PriorPoints) -> &'a [Vec<u32>] {
        at.cells.get_or_init(|| {
            let panels = at.points.panels();
            let of = |known: &Knowledge| {
                panels.iter().flat_map(|panel| (0..panel.len()).map(|row| known.cells.one(panel.record(row)))).collect()
            };
            self.knowledge.iter().map(of).collect()
        })
    }

    /// The weights for the plain ridge, solved on the points themselves: coefficients from exact moments would be blown up
    /// in directions that the points happen to lack.
    fn weights_of_points(&self) -> Vec<f64> {
        let points = self.points();
        let tau = self.taus.rest.max(self.taus.main);
        let mut matrix = points.gram(Simd::detect());
        let mut mean = points.mean().to_vec();
        if self.options.centred {
            rank_one(&mut matrix, &mean, -1.0);
        } else {
            mean.fill(0.0);
        }
        let mut matrix = faer::Scale(tau) * matrix;
        let mut residual = Vec::with_capacity(mean.len());
        for (i, (block, feature)) in points.kept().iter().enumerate() {
            matrix[(i, i)] += self.blocks[*block].noise;
            residual.push(self.blocks[*block].released[*feature] - mean[i]);
        }
        let factor = factorise(matrix).expect(SOLVABLE);
        let solved = factor.solve(column(&residual));
        let scaled: Vec<f64> = (0..mean.len()).map(|i| tau * solved[(i, 0)]).collect();
        let shift = if self.options.centred { 1.0 } else { 0.0 } - dot(&mean, &scaled);
        normalised(points.combine(&scaled).into_iter().map(|x| x + shift).collect())
    }

    /// The weights with which the points stand for the table: $1 + K_{xΦ}α$, with the effects of one and two columns taken
    /// cell by cell.
    fn make_weights(&self) -> Vec<f64> {
        let points = self.points();
        if let Some(interactions) = &self.interactions {
            let every: Vec<usize> = (0..self.schema.columns().len()).collect();
            return self.weights_among(interactions, self.all_points(), &every);
        }
        if self.knowledge.is_empty() && self.closed.is_some() {
            return self.weights_of_points();
        }
        let scaled: Vec<f64> = self.alpha.iter().map(|a| self.taus.rest * a).collect();
        let mut weights = points.combine(&self.in_order_of_points(&scaled));
        let shift = if self.options.centred { 1.0 } else { 0.0 } - dot(&self.mean, &scaled);
        weights.iter_mut().for_each(|weight| *weight += shift);
        if self.alpha.is_empty() || self.knowledge.is_empty() {
            return normalised(weights);
        }
        let cells = self.point_cells(self.all_points());
        for (known, cells) in self.knowledge.iter().zip(cells) {
            // What the points have of each cell, and not the prior: a cell of few points must not count for more.
            let mut masses = vec![0.0; known.cells.len()];
            cells.iter().for_each(|cell| masses[*cell as usize] += 1.0 / points.count() as f64);
            let effect: Vec<f64> = (0..known.cells.len())
                .map(|cell| (0..self.alpha.len()).map(|i| known.effects[(cell, i)] * self.alpha[i]).sum())
                .collect();
            let per_cell: Vec<f64> = known
                .covariance(&effect)
                .iter()
                .zip(&effect)
                .zip(&masses)
                .map(|((known, effect), mass)| if *mass > 0.0 { known / mass - self.taus.rest * effect } else { 0.0 })
                .collect();
            weights.iter_mut().zip(cells).for_each(|(weight, cell)| *weight += per_cell[*cell as usize]);
        }
        let closed = self.closed.as_ref().expect("columns are known of exact fits only");
        if !self.taus.pairs.is_empty() {
            for ((one, two), effect) in closed.pair_effects(&self.prior, &self.alpha) {
                let more = self.taus.of((one, two)) - self.taus.rest;
                for ((weight, c), d) in weights.iter_mut().zip(&cells[one]).zip(&cells[two]) {
                    *weight += more * effect[(*c as usize, *d as usize)];
                }
            }
        }
        normalised(weights)
    }
}

/// A question, prepared: its prior mean, its covariance with the features, and what its variance is made of.
#[derive(Default)]
struct Functional {
    /// What the answer is if the moments say nothing: the prior's mean, or zero (uncentred).
    mean: f64,
    prior_mean: f64,
    /// For sampled questions, the variance of their interactions.
    tau: f64,
    k: Vec<f64>,
    terms: Vec<Term>,
    /// What interactions and values add to the answer; for sampled questions also their projections.
    interaction: f64,
    projections: Vec<Vec<f64>>,
    effects: Vec<Effect>,
    /// At the points: the values, and what main effects leave of them.
    values: Vec<f64>,
    rest: Vec<f64>,
}

impl Functional {
    fn add_effect(&mut self, column: usize, effect: Vec<f64>) {
        match self.effects.iter_mut().find(|other| other.column == column) {
            Some(other) => other.table.iter_mut().zip(effect).for_each(|(sum, x)| *sum += x),
            None => self.effects.push(Effect { column, table: effect, cells: Vec::new(), shared: 0.0 }),
        }
    }

    /// What the effect of a column shares with the observed mean of it.
    fn shared(&self, column: usize) -> f64 {
        self.effects.iter().find(|effect| effect.column == column).map_or(0.0, |effect| effect.shared)
    }
}

/// The main effect of a column on a question.
struct Effect {
    column: usize,
    /// Of the place in the column (closed form), and its means over the column's cells.
    table: Vec<f64>,
    cells: Vec<f64>,
    /// The covariance of its error with the observed mean of the column, if there is one.
    shared: f64,
}

/// Estimated means with the covariances of their errors.
struct Means {
    values: Vec<f64>,
    /// How the total of each depends on the number of rows.
    slopes: Vec<f64>,
    covariance: Covariance,
}

impl Means {
    fn new(count: usize) -> Self {
        Self { values: vec![0.0; count], slopes: vec![0.0; count], covariance: Covariance::zeros(count) }
    }
}

impl Model for Fit {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn totals(&self, functions: &[Checked]) -> Totals {
        if let ([function], Some(_)) = (functions, &self.closed)
            && let Some([term]) = self.separated(function).as_deref()
            && let Some(total) = self.alone(term)
        {
            return total;
        }
        let (functionals, sampled) = self.functionals(functions);
        let means = self.answer(&functionals, sampled.as_deref().map(|columns| (self.all_points(), columns)));
        Totals {
            values: means.values.iter().map(|mean| mean * self.rows).collect(),
            count: means.slopes.iter().map(|slope| slope * self.count_deviation).collect(),
            covariance: means.covariance.scaled(self.rows),
        }
    }

    fn total_values(&self, functions: &[Checked]) -> Vec<f64> {
        let (functionals, _) = self.functionals(functions);
        functionals.iter().map(|functional| self.value(functional) * self.rows).collect()
    }
}

impl Sample for Fit {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn len(&self) -> usize {
        self.points().count()
    }

    fn values(&self, function: &Checked) -> Vec<f64> {
        self.points().numbers(&self.schema, function)
    }
}

impl WeightedSample for Fit {
    fn rows(&self) -> f64 {
        self.rows
    }

    fn weights(&self, columns: &[usize]) -> Cow<'_, [f64]> {
        self.weights_at(self.all_points(), columns)
    }

    fn positive(&self) -> Positive<'_> {
        let (points, weights) = self.model_points();
        Positive { sample: Box::new(Drawn { schema: &self.schema, points }), weights }
    }

    fn judges(&self) -> Box<dyn Sample + '_> {
        Box::new(Drawn { schema: &self.schema, points: &self.judging_points().points })
    }

    fn covariance(&self, functions: &Mat<f64>, columns: &[usize]) -> Mat<f64> {
        let tau = self.taus.among(&(0..self.schema.columns().len()).collect::<Vec<_>>());
        let at = self.judging_points();
        let composed = self.composed(at, columns);
        let functional =
            |j: usize| self.sampled_functional(at, functions.col_as_slice(j).to_vec(), tau, columns, &composed);
        let functionals: Vec<Functional> = (0..functions.ncols()).map(functional).collect();
        let means = self.answer(&functionals, Some((at, columns)));
        let relative = self.count_deviation / self.rows;
        // Models are learned on more points than they are judged by.
        let judges = at.points.count();
        let fewer = self.interactions.as_ref().map_or(1.0, |_| judges as f64 / self.model_count().max(judges) as f64);
        Mat::from_fn(functions.ncols(), functions.ncols(), |i, j| {
            let shift = |i: usize| (means.slopes[i] - means.values[i]) * relative;
            let Entry { privacy, sampling, approximation, .. } = means.covariance[(i, j)];
            privacy + approximation + sampling * fewer + shift(i) * shift(j)
        })
    }
}

/// Points without their weights.
struct Drawn<'a> {
    schema: &'a Schema,
    points: &'a Points,
}

impl Sample for Drawn<'_> {
    fn schema(&self) -> &Schema {
        self.schema
    }

    fn len(&self) -> usize {
        self.points.count()
    }

    fn values(&self, function: &Checked) -> Vec<f64> {
        self.points.numbers(self.schema, function)
    }
}

/// Where points are in a table.
struct Places<'a> {
    /// For each column, the group of each of its cells, times the step of that group, and the cell of each point.
    columns: Vec<(Vec<u32>, &'a [u32])>,
    size: usize,
}

impl<'a> Places<'a> {
    fn new(table: &[(usize, &[u32])], cells: &'a [Vec<u32>]) -> Self {
        let mut size = 1;
        let of = |(column, groups): &(usize, &[u32])| {
            let steps = groups.iter().map(|group| group * size as u32).collect();
            size *= groups.iter().max().map_or(0, |last| *last as usize + 1);
            (steps, &cells[*column][..])
        };
        // The last column's step is 1.
        let columns = table.iter().rev().map(of).collect();
        Self { columns, size }
    }

    /// The cell of the table that every point is in.
    fn fill(&self, places: &mut [u32]) {
        places.fill(0);
        for (steps, cells) in &self.columns {
            places.iter_mut().zip(*cells).for_each(|(place, cell)| *place += steps[*cell as usize]);
        }
    }
}

/// Numbers for features that are named by block and place, in another order; 0 for features that have none.
fn reorder(from: &[(usize, usize)], numbers: &[f64], to: &[(usize, usize)]) -> Vec<f64> {
    if from == to {
        return numbers.to_vec();
    }
    let of: HashMap<&(usize, usize), f64> = from.iter().zip(numbers.iter().copied()).collect();
    to.iter().map(|key| of.get(key).copied().unwrap_or(0.0)).collect()
}

/// Weights with mean 1, but for the error of the points.
fn normalised(mut weights: Vec<f64>) -> Vec<f64> {
    let mean = weights.iter().sum::<f64>() / weights.len() as f64;
    if mean > 0.0 {
        weights.iter_mut().for_each(|weight| *weight /= mean);
    }
    weights
}

/// max(0, w + c) with c such that the mean is 1.
fn clip(weights: Vec<f64>) -> Vec<f64> {
    let n = weights.len() as f64;
    let mut shift = 0.0;
    for _ in 0..50 {
        let (mut sum, mut active) = (0.0, 0.0);
        for weight in weights.iter().filter(|weight| **weight + shift > 0.0) {
            sum += weight + shift;
            active += 1.0;
        }
        // Where nothing is left above zero, start again from the largest.
        let step = if active > 0.0 {
            (n - sum) / active
        } else {
            -weights.iter().fold(f64::MIN, |a, b| a.max(*b)) - shift + 1.0
        };
        shift += step;
        if step.abs() < 1e-12 {
            break;
        }
    }
    weights.into_iter().map(|weight| (weight + shift).max(0.0)).collect()
}

/// Whether a release consists of histograms, tables over their merged cells, products of signs, and values.
fn only_merged(release: &Release) -> bool {
    release.blocks().iter().all(|block| {
        matches!(block.map(), MapSpec::Hist(_) | MapSpec::Merged(_) | MapSpec::Signs(_) | MapSpec::Values(_))
    }) && release.blocks().iter().any(|block| matches!(block.map(), MapSpec::Merged(_)))
}

/// For each column the cells of the first table that has it.
fn first_partitions(release: &Release) -> Result<Vec<Option<crate::feature::Cells>>, Error> {
    let schema = release.schema();
    let mut found: Vec<Option<crate::feature::Cells>> = schema.columns().iter().map(|_| None).collect();
    for block in release.blocks() {
        for (_, group) in tables(block.map(), schema)? {
            for cells in group {
                let column = cells.column();
                found[column].get_or_insert(cells);
            }
        }
    }
    Ok(found)
}

fn too_large(features: usize) -> Result<(), Error> {
    if features > MAX_FEATURES {
        return Err(Error::Question(format!(
            "the release has {features} features besides its histograms, more than the {MAX_FEATURES} that a fit can \
             solve for; ask for a release with smaller maps"
        )));
    }
    Ok(())
}

fn column(numbers: &[f64]) -> Mat<f64> {
    Mat::from_fn(numbers.len(), 1, |i, _| numbers[i])
}

/// Adds a multiple of v vᵀ.
fn rank_one(matrix: &mut Mat<f64>, v: &[f64], times: f64) {
    for j in 0..v.len() {
        for i in 0..v.len() {
            matrix[(i, j)] += times * v[i] * v[j];
        }
    }
}

/// Why a system of points can be factored: it is the covariance of finite features plus noise, and a hair up to a thousandth
/// of its size is added where rounding needs it.
const SOLVABLE: &str = "a covariance of finite features has a factor";

/// The Cholesky factor, with a hair on the diagonal where rounding needs it.
fn factorise(mut matrix: Mat<f64>) -> Result<Llt<f64>, Error> {
    let size = (0..matrix.nrows()).map(|i| matrix[(i, i)]).fold(0.0, f64::max);
    let mut hair = size * 1e-14;
    for _ in 0..12 {
        if let Ok(factor) = matrix.llt(Side::Lower) {
            return Ok(factor);
        }
        for i in 0..matrix.nrows() {
            matrix[(i, i)] += hair;
        }
        hair *= 10.0;
    }
    Err(Error::Question("the moments of the release contradict each other; get the original file".into()))
}

/// The variances τ² of parts of the model, given residuals r ~ N(0, fixed + Σ τ² part). The first `pairs` of the parts
/// are pairs of columns, which start from a common variance.
///
/// First each variance (that of all pairs as one) in turn becomes its mean over its posterior given the others, under a
/// prior that is flat in its logarithm from 10⁻³ to 1. Then they part ways: each moves to the maximum of its evidence, at
/// which its part of the residuals is as large as expected. Pairs are held to a variance that allows for strong
/// dependence, so that no pair is taken for independent because others are.
fn evidence(fixed: &Triangle, parts: &[&Triangle], pairs: usize, residual: &[f64], judged: &[usize]) -> Vec<f64> {
    const ROUNDS: usize = 6;
    // Where pairs part ways afterwards, a coarse start is enough.
    let steps = if pairs < 2 { 6 } else { 3 };
    if judged.is_empty() {
        return vec![UNKNOWN_TAU; parts.len()];
    }
    let every = judged.len().div_ceil(EVIDENCE_FEATURES);
    let judged: Vec<usize> = judged.iter().copied().step_by(every).collect();
    let m = judged.len();
    let fixed = fixed.pick(&judged);
    let parts: Vec<Cow<'_, Triangle>> = parts.iter().map(|part| part.pick(&judged)).collect();
    let residual = column(&judged.iter().map(|i| residual[*i]).collect::<Vec<_>>());
    let mut groups: Vec<(std::ops::Range<usize>, Cow<'_, Triangle>)> = Vec::new();
    if pairs > 0 {
        let mut sum = Triangle::zeros(m);
        sum.add_all(parts[..pairs].iter().map(|part| (1.0, &**part)));
        groups.push((0..pairs, Cow::Owned(sum)));
    }
    groups.extend((pairs..parts.len()).map(|part| (part..part + 1, Cow::Borrowed(&*parts[part]))));
    let mut common = vec![0.05; groups.len()];
    let sweeps = if groups.len() == 1 || pairs >= 2 { 1 } else { 2 };
    for turn in 0..sweeps * groups.len() {
        let at = turn % groups.len();
        let mut rest = fixed.clone().into_owned();
        for (other, (_, matrix)) in groups.iter().enumerate().filter(|(other, _)| *other != at) {
            rest.add(common[other], matrix);
        }
        let candidates: Vec<(f64, f64)> = (0..=steps)
            .filter_map(|step| {
                let tau = 10f64.powf(-3.0 + 3.0 * f64::from(step) / f64::from(steps));
                let mut total = rest.clone();
                total.add(tau, &groups[at].1);
                let factor = factorise(total.lower()).ok()?;
                let solved = factor.solve(&residual);
                let quadratic: f64 = (0..m).map(|i| residual[(i, 0)] * solved[(i, 0)]).sum();
                let determinant: f64 = (0..m).map(|i| factor.L()[(i, i)].ln()).sum::<f64>() * 2.0;
                Some((tau, -0.5 * (quadratic + determinant)))
            })
            .collect();
        let best = candidates.iter().fold(f64::NEG_INFINITY, |best, (_, log)| best.max(*log));
        let weights: f64 = candidates.iter().map(|(_, log)| (log - best).exp()).sum();
        common[at] = candidates.iter().map(|(tau, log)| tau * (log - best).exp()).sum::<f64>() / weights;
    }
    let mut taus: Vec<f64> =
        groups.iter().zip(&common).flat_map(|((range, _), tau)| range.clone().map(move |_| *tau)).collect();
    if pairs < 2 {
        return taus;
    }
    for _ in 0..ROUNDS {
        let mut total = fixed.clone().into_owned();
        total.add_all(taus.iter().copied().zip(parts.iter().map(|part| &**part)));
        let Ok(factor) = factorise(total.lower()) else { break };
        let alpha = factor.solve(&residual);
        let inverse = factor.inverse();
        let inverse = Triangle::from_fn(m, |i, j| inverse[(i, j)]);
        let square = Triangle::from_fn(m, |i, j| alpha[(i, 0)] * alpha[(j, 0)]);
        for (at, (part, tau)) in parts.iter().zip(&mut taus).enumerate() {
            let (gained, expected) = (part.inner(&square), part.inner(&inverse));
            let held = if at < pairs { UNSEEN_TAU } else { common[at + 1 - pairs] };
            let prior = HELD / *tau;
            *tau *= ((gained + prior * held / *tau) / (expected + prior)).clamp(0.1, 10.0);
            *tau = tau.clamp(1e-5, MAX_TAU);
        }
    }
    taus
}
