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
//! **The paper's ridge** is K = τ² Cov_ψ (or τ² E_ψ[fg] uncentred): with Gram $G = E_ψ ΦΦ^\top$ and λ = σ²/(n²τ²) the
//! answer is $\langle a, \tilde z\rangle$, $a = (G + λI)^{-1} E_ψ[fΦ]$. Every normalisation: Φ in real units (cosines in
//! [-1, 1], cells 0 or 1), z̃ the noisy sum over the noisy count, σ² the variance of the noise on a sum, G a mean over the
//! prior and not a sum. [`Lambda`] chooses τ².
//!
//! **The default** learns ψ from the histograms in the release (a product of marginals) and splits K by the order of
//! effects: what single columns do is known from the histograms, with the error of their noise; what columns do together
//! has variance τ² Cov_ψ of the interaction parts, with τ² from the evidence of the other moments.
//!
//! Against a product prior and for features that are products (Fourier, tables), everything is exact ([`closed`]); other
//! maps, other priors and functions that do not separate use random points ([`points`]).

mod closed;
mod columns;
mod points;
mod separate;

pub(crate) use columns::simplex;

use std::sync::OnceLock;

use faer::linalg::solvers::{Llt, Solve};
use faer::{Mat, Side};

use crate::estimate::{Estimate, Model, Parts, Totals, WeightedSample};
use crate::expr::{Checked, Scalar};
use crate::feature::{FeatureMap, Simd};
use crate::prior::{Independent, Place, Prior, tables};
use crate::release::Release;
use crate::{Error, Schema};
use closed::{Closed, is_closed, pair};
use columns::Knowledge;
use points::{Points, dot};
use separate::{Term, separate};

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
    /// The variance of the density ratio per direction: of interactions, and of main effects where nothing is known of
    /// single columns.
    tau: f64,
    tau_main: f64,
    closed: Option<Closed>,
    knowledge: Vec<Knowledge>,
    /// For each feature: its block and place, the released mean, the variance of its noise, the prior mean.
    kept: Vec<(usize, usize)>,
    released: Vec<f64>,
    noise: Vec<f64>,
    mean: Vec<f64>,
    factor: Option<Llt<f64>>,
    alpha: Vec<f64>,
    maps: Vec<Box<dyn FeatureMap>>,
    blocks: Vec<Moments>,
    points: OnceLock<Points>,
    weights: OnceLock<Vec<f64>>,
    positive: OnceLock<Vec<f64>>,
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
/// The variance of interactions where nothing in the release speaks of them: any correlation is possible.
const UNKNOWN_TAU: f64 = 1.0 / 3.0;

impl Fit {
    /// Reads a release.
    pub fn new(release: &Release, options: Options) -> Result<Self, Error> {
        Self::with_maps(release, options, Vec::new())
    }

    /// Reads a release that has maps which a user wrote, given in the order of their blocks.
    pub fn with_maps(release: &Release, options: Options, own: Vec<Box<dyn FeatureMap>>) -> Result<Self, Error> {
        let mut own = own.into_iter();
        let schema = release.schema().clone();
        let maps = release.design()?.maps_with(&schema, Simd::detect(), |spec| {
            own.next().ok_or_else(|| {
                Error::Question(format!(
                    "the release has `{}`, a map that a user wrote; hand its code to the library (Fit::with_maps)",
                    spec.name
                ))
            })
        })?;
        let rows = (release.count().value as f64).max(1.0);
        let count_deviation = release.count().noise.map_or(0.0, |noise| noise.standard_deviation(1));
        let all_closed = release.blocks().iter().all(|block| is_closed(block.map()));
        let exact = all_closed && !options.sampled && !matches!(options.prior, Prior::Sample(_));

        let mut learned = match options.prior {
            Prior::Learned => columns::learn(release, rows)?,
            _ => None,
        };
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
            count_deviation,
            prior,
            tau: UNKNOWN_TAU,
            tau_main: 1.0,
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
            weights: OnceLock::new(),
            positive: OnceLock::new(),
            schema,
            options,
        };
        let (gram, main) = if exact {
            let specs = release.blocks().iter().map(|block| block.map());
            let anova = !knowledge.is_empty();
            let (closed, kept) = Closed::new(&fit.schema, specs, &fit.prior, |block, first| {
                anova && used.iter().any(|(other, places)| *other == block && places.start == first)
            })?;
            too_large(closed.len())?;
            for (known, axis) in knowledge.iter_mut().zip(&fit.prior.axes) {
                known.set_effects(axis, &closed, &fit.prior);
            }
            let split = anova || fit.options.lambda == Lambda::Evidence && fit.options.centred;
            let (all, main) = closed.gram(&fit.prior, Simd::detect(), split);
            fit.mean = closed.mean().to_vec();
            fit.kept = kept;
            fit.closed = Some(closed);
            (all, main)
        } else {
            let points = fit.draw(|_| true, |_, _| true);
            too_large(points.kept().len())?;
            let mut gram = points.gram(Simd::detect());
            fit.mean = points.mean().to_vec();
            fit.kept = points.kept().to_vec();
            rank_one(&mut gram, &fit.mean, -1.0);
            let _ = fit.points.set(points);
            (gram, None)
        };
        fit.knowledge = knowledge;
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
        fit.solve(gram, main, &judged)?;
        Ok(fit)
    }

    /// Chooses τ², factors K + S and solves for the released moments.
    fn solve(&mut self, mut gram: Mat<f64>, main: Option<Mat<f64>>, judged: &[usize]) -> Result<(), Error> {
        let m = self.kept.len();
        if m == 0 {
            return Ok(());
        }
        // Fixed part: noise, and the errors of single columns.
        let mut fixed = Mat::zeros(m, m);
        for (i, noise) in self.noise.iter().enumerate() {
            fixed[(i, i)] = *noise;
        }
        // The part of main effects that is not known: all of it, or that of columns without a histogram.
        let mut open = None;
        if let Some(main) = main {
            gram -= &main;
            open = self.knowledge.is_empty().then_some(main);
            for known in &self.knowledge {
                let spread = known.spread();
                if known.noise {
                    fixed += spread;
                } else {
                    match &mut open {
                        Some(open) => *open += spread,
                        None => open = Some(spread),
                    }
                }
            }
        } else if !self.options.centred {
            rank_one(&mut gram, &self.mean, 1.0);
            self.mean.fill(0.0);
        }
        let residual: Vec<f64> = self.released.iter().zip(&self.mean).map(|(z, mean)| z - mean).collect();
        (self.tau, self.tau_main) = match (self.options.lambda, &open) {
            (Lambda::Theorem(multiplier), _) => (1.0 / multiplier, 1.0 / multiplier),
            (Lambda::Paper(multiplier), _) => (1.0 / (multiplier * self.rows), 1.0 / (multiplier * self.rows)),
            (Lambda::Evidence, Some(main)) => {
                let taus = evidence(&fixed, &[&gram, main], &residual, judged);
                (taus[0], taus[1])
            }
            (Lambda::Evidence, None) => {
                let taus = evidence(&fixed, &[&gram], &residual, judged);
                (taus[0], taus[0])
            }
        };
        if let Some(main) = open {
            fixed += faer::Scale(self.tau_main) * &main;
        }
        for known in self.knowledge.iter_mut().filter(|known| !known.noise) {
            known.variance.iter_mut().for_each(|variance| *variance *= self.tau_main);
        }
        let total = &fixed + faer::Scale(self.tau) * &gram;
        let factor = factorise(total)?;
        let solved = factor.solve(column(&residual));
        self.alpha = (0..m).map(|i| solved[(i, 0)]).collect();
        self.factor = Some(factor);
        Ok(())
    }

    /// Random points of the prior with their features.
    fn draw(&self, wanted: impl Fn(usize) -> bool, keep: impl Fn(usize, usize) -> bool) -> Points {
        let panels = match &self.options.prior {
            Prior::Sample(table) => table.0.to_vec(),
            _ => self.prior.sample(&self.schema, self.options.samples.max(1), self.options.seed),
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
        self.points.get_or_init(|| {
            let kept: std::collections::HashSet<(usize, usize)> = self.kept.iter().copied().collect();
            let wanted = |block: usize| self.kept.iter().any(|(other, _)| *other == block);
            self.draw(wanted, |block, feature| kept.contains(&(block, feature)))
        })
    }

    /// Coefficients of this fit in the order of the points' features.
    fn in_order_of_points(&self, coefficients: &[f64]) -> Vec<f64> {
        let points = self.points();
        if self.closed.is_none() {
            return coefficients.to_vec();
        }
        let place: std::collections::HashMap<(usize, usize), usize> =
            self.kept.iter().enumerate().map(|(i, key)| (*key, i)).collect();
        points.kept().iter().map(|key| place.get(key).map_or(0.0, |i| coefficients[*i])).collect()
    }

    /// The estimated probability of a cell of a column.
    fn probability(&self, closed: &Closed, cells: &crate::feature::Cells, cell: usize) -> f64 {
        let column = cells.column();
        let table = self.prior.axes[column].tabulate(|value| f64::from(cells.of(value) as usize == cell));
        let term = Term { coefficient: 1.0, factors: vec![(column, table)] };
        let functional = self.closed_functional(closed, vec![term]);
        functional.mean + dot(&functional.k, &self.alpha)
    }

    /// The estimated number of rows.
    pub fn count(&self) -> Estimate {
        let parts = Parts { count: self.count_deviation, ..Parts::default() };
        Estimate::new(self.rows, parts).within(0.0, f64::INFINITY)
    }

    /// The variance τ² of the density ratio per direction: of interactions between columns, and of main effects where
    /// the release has no histograms.
    pub fn tau_squared(&self) -> (f64, f64) {
        (self.tau, self.tau_main)
    }

    /// How many features the system has.
    pub fn features(&self) -> usize {
        self.kept.len()
    }

    /// Whether a question is answered in closed form.
    pub fn is_exact(&self, function: &Checked) -> bool {
        self.closed.is_some() && separate(function, &self.schema, &self.prior).is_some()
    }

    fn closed_functional(&self, closed: &Closed, terms: Vec<Term>) -> Functional {
        let mut functional = Functional::default();
        let mut k = vec![0.0; self.kept.len()];
        let anova = !self.knowledge.is_empty();
        for term in &terms {
            let means: Vec<f64> =
                term.factors.iter().map(|(column, table)| self.prior.axes[*column].mean(table)).collect();
            let mean = term.coefficient * means.iter().product::<f64>();
            functional.mean += mean;
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
            if self.kept.is_empty() {
                continue;
            }
            let against = closed.against(term, &self.prior);
            let tau_main = if anova { 0.0 } else { self.tau_main };
            for (i, k) in k.iter_mut().enumerate() {
                *k += self.tau * (against.all[i] - against.main[i]) + tau_main * against.main[i];
                if !self.options.centred {
                    *k += self.tau * mean * closed.mean()[i];
                }
            }
        }
        if anova {
            for (column, effect, cells) in &mut functional.effects {
                *cells = self.prior.axes[*column].cell_means(effect);
                let known = &self.knowledge[*column];
                for (cell, x) in known.covariance(cells).iter().enumerate().filter(|(_, x)| **x != 0.0) {
                    for (i, k) in k.iter_mut().enumerate() {
                        *k += x * known.effects[(cell, i)];
                    }
                }
            }
        }
        functional.k = k;
        functional.terms = terms;
        functional
    }

    /// The covariance of two functionals: under the model, and under ignorance.
    fn closed_pair(&self, f: &Functional, g: &Functional) -> (f64, f64) {
        let (mut all, mut main) = (0.0, 0.0);
        for a in &f.terms {
            for b in &g.terms {
                let (x, y) = pair(a, b, &self.prior);
                all += x;
                main += y;
            }
        }
        let ignorance = main + UNKNOWN_TAU * (all - main);
        if self.knowledge.is_empty() {
            let uncentred = if self.options.centred { 0.0 } else { f.mean * g.mean };
            return (self.tau * (all - main + uncentred) + self.tau_main * main, ignorance);
        }
        let mut known = self.tau * (all - main);
        for (column, effect, cells) in &f.effects {
            if let Some((_, other, other_cells)) = g.effects.iter().find(|(other, ..)| other == column) {
                let knowledge = &self.knowledge[*column];
                known += dot(cells, &knowledge.covariance(other_cells));
                known += dot(&knowledge.within, &self.prior.axes[*column].cell_covariances(effect, other));
            }
        }
        (known, ignorance)
    }

    /// A function given by its values at the points.
    fn sampled_functional(&self, values: Vec<f64>) -> Functional {
        let points = self.points();
        let mean = values.iter().sum::<f64>() / points.count() as f64;
        let mut functional = Functional { mean, ..Functional::default() };
        if self.knowledge.is_empty() {
            let moments = points.moments(&values);
            let k = moments
                .iter()
                .zip(points.mean())
                .map(|(moment, feature)| self.tau * (moment - if self.options.centred { mean * feature } else { 0.0 }));
            functional.k = self.in_own_order(k.collect());
            functional.rest = values.iter().map(|x| x - mean).collect();
        } else {
            let mut rest: Vec<f64> = values.iter().map(|x| x - mean).collect();
            let centred = rest.clone();
            for (column, known) in self.knowledge.iter().enumerate() {
                let cells: Vec<u32> = points
                    .panels()
                    .iter()
                    .flat_map(|panel| (0..panel.len()).map(|row| known.cells.one(panel.record(row))))
                    .collect();
                let mut sums = vec![(0.0, 0.0); known.cells.len()];
                for (cell, x) in cells.iter().zip(&centred) {
                    sums[*cell as usize].0 += x;
                    sums[*cell as usize].1 += 1.0;
                }
                let means: Vec<f64> = sums.iter().map(|(sum, count): &(f64, f64)| sum / count.max(1.0)).collect();
                for (rest, cell) in rest.iter_mut().zip(&cells) {
                    *rest -= means[*cell as usize];
                }
                functional.effects.push((column, Vec::new(), means));
            }
            let rest_mean = rest.iter().sum::<f64>() / points.count() as f64;
            let moments = points.moments(&rest);
            let k =
                moments.iter().zip(points.mean()).map(|(moment, feature)| self.tau * (moment - rest_mean * feature));
            let mut k = self.in_own_order(k.collect());
            for (column, _, cells) in &functional.effects {
                let known = &self.knowledge[*column];
                for (cell, x) in known.covariance(cells).iter().enumerate().filter(|(_, x)| **x != 0.0) {
                    for (i, k) in k.iter_mut().enumerate() {
                        *k += x * known.effects[(cell, i)];
                    }
                }
            }
            functional.k = k;
            functional.rest = rest;
        }
        if !self.options.centred {
            functional.mean = 0.0;
        }
        functional.values = values;
        functional
    }

    /// Numbers per feature of the points in the order of this fit's features.
    fn in_own_order(&self, numbers: Vec<f64>) -> Vec<f64> {
        if self.closed.is_none() {
            return numbers;
        }
        let place: std::collections::HashMap<(usize, usize), usize> =
            self.points().kept().iter().enumerate().map(|(i, key)| (*key, i)).collect();
        self.kept.iter().map(|key| place.get(key).map_or(0.0, |i| numbers[*i])).collect()
    }

    fn sampled_pair(&self, f: &Functional, g: &Functional) -> (f64, f64) {
        let n = f.rest.len() as f64;
        let rest = dot(&f.rest, &g.rest) / n;
        let uncentred = if self.options.centred { 0.0 } else { dot(&f.values, &g.values) / n - rest };
        let mut known = self.tau * (rest + uncentred);
        let mut ignorance = UNKNOWN_TAU * rest;
        for ((column, _, cells), (_, _, other)) in f.effects.iter().zip(&g.effects) {
            let knowledge = &self.knowledge[*column];
            known += dot(cells, &knowledge.covariance(other));
            let masses = self.prior.axes[*column].cell_masses();
            ignorance += cells.iter().zip(other).zip(&masses).map(|((x, y), mass)| x * y * mass).sum::<f64>();
        }
        (known, ignorance)
    }

    /// Puts the answers to some functionals together.
    fn answer(&self, functionals: &[Functional], sampled: bool) -> Means {
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
                        let mut cells = vec![0.0; known.cells.len()];
                        if let Some((_, _, effect)) = functional.effects.iter().find(|(other, ..)| *other == column) {
                            cells.copy_from_slice(effect);
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
            means.values[i] = f.mean + dot(&f.k, &self.alpha);
            means.slopes[i] = f.mean - dot(&coefficients[i], &self.mean);
            for j in 0..=i {
                let g = &functionals[j];
                let (known, ignorance) = if sampled { self.sampled_pair(f, g) } else { self.closed_pair(f, g) };
                let posterior = known - dot(&f.k, &coefficients[j]);
                let mut privacy: f64 = coefficients[i]
                    .iter()
                    .zip(&coefficients[j])
                    .zip(&self.noise)
                    .map(|((a, b), noise)| a * b * noise)
                    .sum();
                for (column, known) in self.knowledge.iter().enumerate().filter(|(_, known)| known.noise) {
                    privacy += dot(&left[i][column], &known.covariance(&left[j][column]));
                }
                let set = |matrix: &mut Mat<f64>, value: f64| {
                    matrix[(i, j)] = value;
                    matrix[(j, i)] = value;
                };
                set(&mut means.privacy, privacy);
                set(&mut means.approximation, posterior - privacy);
                set(&mut means.ignorance, ignorance);
            }
            means.approximation[(i, i)] = means.approximation[(i, i)].max(0.0);
        }
        if sampled {
            let weights = self.weights();
            let weighted: Vec<Vec<f64>> = functionals
                .iter()
                .zip(&means.values)
                .map(|(f, value)| f.values.iter().zip(weights).map(|(x, w)| x * w - value).collect())
                .collect();
            let n = weights.len() as f64;
            for i in 0..count {
                for j in 0..count {
                    means.sampling[(i, j)] = dot(&weighted[i], &weighted[j]) / (n * n);
                }
            }
        }
        means
    }

    /// The estimated means over all rows, exact where every function separates.
    fn means(&self, functions: &[Checked]) -> Means {
        if let Some(closed) = &self.closed {
            let terms: Option<Vec<Vec<Term>>> =
                functions.iter().map(|function| separate(function, &self.schema, &self.prior)).collect();
            if let Some(terms) = terms {
                let functionals: Vec<Functional> =
                    terms.into_iter().map(|terms| self.closed_functional(closed, terms)).collect();
                return self.answer(&functionals, false);
            }
        }
        let points = self.points();
        let functionals: Vec<Functional> = functions
            .iter()
            .map(|function| self.sampled_functional(points.values(&self.schema, function, |value| value.weight())))
            .collect();
        self.answer(&functionals, true)
    }

    /// Weights $w = \max(0, c + τ^2 α^\top(Φ - μ))$ of mean 1 that solve $S α = \tilde z - E_w Φ$: the minimum of
    /// $E_ψ(w-1)^2/τ^2 + \|\tilde z - E_w Φ\|^2_{S^{-1}}$ over densities that are not negative. All released features take part,
    /// histograms included, so that single columns stay as they are.
    ///
    /// Each step solves with the matrix of the problem without clipping. That bounds the true one from above, so the steps
    /// never overshoot; momentum makes up for their caution.
    fn make_positive_weights(&self) -> Vec<f64> {
        const STEPS: usize = 80;
        let own;
        let points = if self.knowledge.is_empty() {
            self.points()
        } else {
            own = self.draw(|_| true, |_, _| true);
            &own
        };
        let m = points.kept().len();
        if m == 0 {
            return vec![1.0; points.count()];
        }
        let mut matrix = points.gram(Simd::detect());
        rank_one(&mut matrix, points.mean(), -1.0);
        let mut matrix = faer::Scale(self.tau) * matrix;
        let mut gap = vec![0.0; m];
        let mut noise = vec![0.0; m];
        for (i, (block, feature)) in points.kept().iter().enumerate() {
            noise[i] = self.blocks[*block].noise;
            matrix[(i, i)] += noise[i];
            gap[i] = self.blocks[*block].released[*feature] - points.mean()[i];
        }
        let Ok(factor) = factorise(matrix) else { return vec![1.0; points.count()] };
        let residual = gap.clone();
        let weigh = |alpha: &[f64]| {
            let scaled: Vec<f64> = alpha.iter().map(|a| self.tau * a).collect();
            let shift = 1.0 - dot(points.mean(), &scaled);
            clip(points.combine(&scaled).into_iter().map(|x| x + shift).collect())
        };
        let (mut alpha, mut ahead, mut pace) = (vec![0.0; m], vec![0.0; m], 1.0f64);
        for _ in 0..STEPS {
            let step = factor.solve(column(&gap));
            let last = std::mem::replace(&mut alpha, (0..m).map(|i| ahead[i] + step[(i, 0)]).collect());
            let next = 0.5 * (1.0 + (1.0 + 4.0 * pace * pace).sqrt());
            ahead = (0..m).map(|i| alpha[i] + (pace - 1.0) / next * (alpha[i] - last[i])).collect();
            pace = next;
            let shifts: Vec<f64> = weigh(&ahead).iter().map(|weight| weight - 1.0).collect();
            let moments = points.moments(&shifts);
            let improvement: f64 = (0..m).map(|i| step[(i, 0)] * gap[i]).sum();
            let size: f64 = (0..m).map(|i| alpha[i] * residual[i]).sum();
            for i in 0..m {
                gap[i] = residual[i] - noise[i] * ahead[i] - moments[i];
            }
            if improvement <= 1e-3 * size.abs() {
                break;
            }
        }
        weigh(&alpha)
    }

    /// The estimated means of functions over all rows, without their errors.
    pub fn values_of(&self, functions: &[Checked]) -> Vec<f64> {
        let value = |functional: &Functional| functional.mean + dot(&functional.k, &self.alpha);
        functions
            .iter()
            .map(|function| {
                let terms = self.closed.as_ref().and_then(|_| separate(function, &self.schema, &self.prior));
                match (&self.closed, terms) {
                    (Some(closed), Some(terms)) => value(&self.closed_functional(closed, terms)),
                    _ => {
                        let values = self.points().values(&self.schema, function, |value| value.weight());
                        value(&self.sampled_functional(values))
                    }
                }
            })
            .collect()
    }

    /// The weights with which the points stand for the table.
    fn make_weights(&self) -> Vec<f64> {
        let (base, kernel) = self.kernel();
        kernel.combine_with(&base, &self.alpha, self)
    }

    /// What the weights are made of: at each point, an offset, and the parts that α multiplies.
    fn kernel(&self) -> (Vec<f64>, Kernel) {
        let points = self.points();
        let base = if self.options.centred { 1.0 } else { 0.0 };
        let tables = self.knowledge.iter().enumerate().map(|(column, known)| {
            let cells: Vec<u32> = points
                .panels()
                .iter()
                .flat_map(|panel| (0..panel.len()).map(|row| known.cells.one(panel.record(row))))
                .collect();
            // What the points have of each cell, and not the prior: a cell of few points must not count for more.
            let mut masses = vec![0.0; known.cells.len()];
            cells.iter().for_each(|cell| masses[*cell as usize] += 1.0 / points.count() as f64);
            ColumnKernel { column, masses, cells }
        });
        (vec![base; points.count()], Kernel { columns: tables.collect() })
    }
}

/// How the weight of a point depends on α.
struct Kernel {
    columns: Vec<ColumnKernel>,
}

struct ColumnKernel {
    column: usize,
    masses: Vec<f64>,
    /// The cell of each point.
    cells: Vec<u32>,
}

impl Kernel {
    /// base + K(point, Φ) α at every point.
    fn combine_with(&self, base: &[f64], alpha: &[f64], fit: &Fit) -> Vec<f64> {
        let points = fit.points();
        let coefficients: Vec<f64> = alpha.iter().map(|a| fit.tau * a).collect();
        let mut weights = points.combine(&fit.in_order_of_points(&coefficients));
        let shift = dot(&fit.mean, &coefficients);
        weights.iter_mut().zip(base).for_each(|(weight, base)| *weight += base - shift);
        for column in &self.columns {
            let known = &fit.knowledge[column.column];
            // The main effect of this column on the sum, cell by cell.
            let effect: Vec<f64> = (0..known.cells.len())
                .map(|cell| (0..alpha.len()).map(|i| known.effects[(cell, i)] * alpha[i]).sum())
                .collect();
            let learned = known.covariance(&effect);
            let per_cell: Vec<f64> = learned
                .iter()
                .zip(&effect)
                .zip(&column.masses)
                .map(|((learned, effect), mass)| if *mass > 0.0 { learned / mass - fit.tau * effect } else { 0.0 })
                .collect();
            for (weight, cell) in weights.iter_mut().zip(&column.cells) {
                *weight += per_cell[*cell as usize];
            }
        }
        weights
    }
}

/// A question, prepared: its prior mean, its covariance with the features, and what its variance is made of.
#[derive(Default)]
struct Functional {
    mean: f64,
    k: Vec<f64>,
    terms: Vec<Term>,
    /// Per column: the main effect as a table (closed form), and its means over the column's cells.
    effects: Vec<(usize, Vec<f64>, Vec<f64>)>,
    /// At the points: the values, and what main effects leave of them.
    values: Vec<f64>,
    rest: Vec<f64>,
}

impl Functional {
    fn add_effect(&mut self, column: usize, effect: Vec<f64>) {
        match self.effects.iter_mut().find(|(other, ..)| *other == column) {
            Some((_, sum, _)) => sum.iter_mut().zip(effect).for_each(|(sum, x)| *sum += x),
            None => self.effects.push((column, effect, Vec::new())),
        }
    }
}

/// Estimated means with the covariances of their errors.
struct Means {
    values: Vec<f64>,
    /// How the total of each depends on the number of rows.
    slopes: Vec<f64>,
    privacy: Mat<f64>,
    sampling: Mat<f64>,
    approximation: Mat<f64>,
    ignorance: Mat<f64>,
}

impl Means {
    fn new(count: usize) -> Self {
        let zeros = || Mat::zeros(count, count);
        Self {
            values: vec![0.0; count],
            slopes: vec![0.0; count],
            privacy: zeros(),
            sampling: zeros(),
            approximation: zeros(),
            ignorance: zeros(),
        }
    }
}

impl Model for Fit {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn totals(&self, functions: &[Checked]) -> Totals {
        let means = self.means(functions);
        let square = self.rows * self.rows;
        let scaled = |matrix: &Mat<f64>| faer::Scale(square) * matrix;
        let variance = self.count_deviation * self.count_deviation;
        Totals {
            values: means.values.iter().map(|mean| mean * self.rows).collect(),
            privacy: scaled(&means.privacy),
            sampling: scaled(&means.sampling),
            approximation: scaled(&means.approximation),
            ignorance: scaled(&means.ignorance),
            count: Mat::from_fn(functions.len(), functions.len(), |i, j| variance * means.slopes[i] * means.slopes[j]),
        }
    }
}

impl WeightedSample for Fit {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn len(&self) -> usize {
        self.points().count()
    }

    fn rows(&self) -> f64 {
        self.rows
    }

    fn values(&self, function: &Checked) -> Vec<f64> {
        self.points().values(&self.schema, function, |value| match value {
            Scalar::Number(x) => x,
            Scalar::Boolean(truth) => f64::from(truth),
            _ => f64::NAN,
        })
    }

    fn weights(&self) -> &[f64] {
        self.weights.get_or_init(|| self.make_weights())
    }

    fn positive_weights(&self) -> &[f64] {
        self.positive.get_or_init(|| self.make_positive_weights())
    }

    fn covariance(&self, functions: &Mat<f64>) -> Mat<f64> {
        let functionals: Vec<Functional> = (0..functions.ncols())
            .map(|j| self.sampled_functional((0..functions.nrows()).map(|i| functions[(i, j)]).collect()))
            .collect();
        let means = self.answer(&functionals, true);
        let relative = self.count_deviation / self.rows;
        Mat::from_fn(functions.ncols(), functions.ncols(), |i, j| {
            let shift = |i: usize| (means.slopes[i] - means.values[i]) * relative;
            means.privacy[(i, j)] + means.approximation[(i, j)] + means.sampling[(i, j)] + shift(i) * shift(j)
        })
    }
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

/// The variances τ² of parts of the model, given residuals r ~ N(0, fixed + Σ τ² part): each in turn becomes its mean over
/// its posterior given the others, under a prior that is flat in its logarithm from 10⁻⁴ to 10.
fn evidence(fixed: &Mat<f64>, parts: &[&Mat<f64>], residual: &[f64], judged: &[usize]) -> Vec<f64> {
    const STEPS: i32 = 12;
    let mut taus = vec![UNKNOWN_TAU; parts.len()];
    if judged.is_empty() {
        return taus;
    }
    let every = judged.len().div_ceil(EVIDENCE_FEATURES);
    let judged: Vec<usize> = judged.iter().copied().step_by(every).collect();
    let m = judged.len();
    let pick = |matrix: &Mat<f64>| Mat::from_fn(m, m, |i, j| matrix[(judged[i], judged[j])]);
    let fixed = pick(fixed);
    let parts: Vec<Mat<f64>> = parts.iter().map(|part| pick(part)).collect();
    let residual = column(&judged.iter().map(|i| residual[*i]).collect::<Vec<_>>());
    let sweeps = if parts.len() == 1 { 1 } else { 2 };
    for turn in 0..sweeps * parts.len() {
        let part = turn % parts.len();
        let mut rest = fixed.clone();
        for (other, matrix) in parts.iter().enumerate().filter(|(other, _)| *other != part) {
            rest += faer::Scale(taus[other]) * matrix;
        }
        let candidates: Vec<(f64, f64)> = (0..=STEPS)
            .filter_map(|step| {
                let tau = 10f64.powf(-4.0 + 5.0 * f64::from(step) / f64::from(STEPS));
                let factor = factorise(&rest + faer::Scale(tau) * &parts[part]).ok()?;
                let solved = factor.solve(&residual);
                let quadratic: f64 = (0..m).map(|i| residual[(i, 0)] * solved[(i, 0)]).sum();
                let determinant: f64 = (0..m).map(|i| factor.L()[(i, i)].ln()).sum::<f64>() * 2.0;
                Some((tau, -0.5 * (quadratic + determinant)))
            })
            .collect();
        let best = candidates.iter().fold(f64::NEG_INFINITY, |best, (_, log)| best.max(*log));
        let weights: f64 = candidates.iter().map(|(_, log)| (log - best).exp()).sum();
        taus[part] = candidates.iter().map(|(tau, log)| tau * (log - best).exp()).sum::<f64>() / weights;
    }
    taus
}
