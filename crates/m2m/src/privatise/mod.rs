//! Noise: the only way from secret sums to a public release.
//!
//! A [`Plan`] is made from public things alone: design, schema, budget. It draws its [`Noise`] before any row is
//! read, and [`crate::Sums::privatise`] adds it.

mod budget;
mod calibrate;
mod exact;
mod ledger;
mod sensitivity;

pub use budget::{Budget, Neighbours, NoiseKind};
pub use calibrate::epsilon_of_rho;
pub use exact::{NoiseSource, Scale};
pub use ledger::{Entry, Ledger, LockedLedger};
pub use sensitivity::{Sensitivity, sensitivity};

use serde::{Deserialize, Serialize};

use crate::auto::refuse_first_round;
use crate::feature::{Block, Body};
use crate::schema::Unit;
use crate::{Decimal, Design, Error, Release, Schema};
pub(crate) use calibrate::{Class, classes};
use calibrate::{GaussianRule, disc_noise, one_hot_noise, round_up, to_f64};

/// How a release is to be made private.
#[derive(Clone, Copy, Debug)]
pub struct Privacy {
    /// What is spent.
    pub budget: Budget,
    /// Which tables are told apart no better than the budget allows.
    pub neighbours: Neighbours,
    /// The part of the budget that goes to the number of rows.
    pub count_share: Decimal,
    /// The noise under pure ε.
    pub noise: NoiseKind,
}

impl Privacy {
    /// A budget with everything else as usual: add-remove neighbours, 2% for the count, K-norm noise where it
    /// is the smaller one.
    pub fn new(budget: Budget) -> Self {
        Self {
            budget,
            neighbours: Neighbours::AddRemove,
            count_share: "0.02".parse().expect("a decimal"),
            noise: NoiseKind::Knorm,
        }
    }
}

/// How a block of sums is noised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Mechanism {
    /// Independent noise with $P(x) \propto e^{-|x|/t}$.
    DiscreteLaplace {
        /// t.
        scale: Scale,
    },
    /// Independent noise with $P(x) \propto e^{-x^2/2\sigma^2}$.
    DiscreteGaussian {
        /// σ.
        sigma: Scale,
    },
    /// Joint noise, uniform on the integer points of a product of discs of random radius.
    DiscKnorm {
        /// Scale of the geometric variables that add up to the radius.
        scale: Scale,
        /// The smallest radius.
        minimum_radius: u64,
    },
    /// Joint noise on groups of which a row moves one coordinate each: uniform on the points of a product of
    /// cross-polytopes of random radius, on a lattice 2²⁰ times as fine, then rounded.
    OneHotKnorm {
        /// The standard deviation before rounding, in steps of that lattice. It is the same for all coordinates, and all
        /// else follows from it and the sizes of the groups.
        deviation: u64,
    },
}

/// Steps of the lattice on which K-norm noise of one-hot groups is drawn, for one row.
pub(crate) const FINE: u64 = 1 << 20;

impl Mechanism {
    /// The standard deviation of the noise on one of `coordinates` coordinates.
    pub fn standard_deviation(&self, coordinates: usize) -> f64 {
        match self {
            Self::DiscreteLaplace { scale } => {
                // 1 - e^(-1/t) would lose its digits where t is large.
                let exponent = -1.0 / to_f64(*scale);
                (2.0 * exponent.exp()).sqrt() / -exponent.exp_m1()
            }
            Self::DiscreteGaussian { sigma } => to_f64(*sigma),
            Self::DiscKnorm { scale, .. } => {
                // A uniform point of a disc of radius ρ has variance ρ²/4 per coordinate; ρ is nearly Gamma(m + 1).
                let (t, m) = (to_f64(*scale), coordinates as f64);
                0.5 * t * ((m + 1.0) * (m + 2.0)).sqrt()
            }
            // Rounding adds the variance of a number that is uniform between two integers.
            Self::OneHotKnorm { deviation } => (*deviation as f64 / FINE as f64).hypot(1.0 / 12f64.sqrt()),
        }
    }

    /// Whether it is the same mechanism with at least as much noise, up to one part in a million.
    pub(crate) fn is_at_least(&self, needed: &Self) -> bool {
        let enough = |a: Scale, b: Scale| to_f64(a) >= to_f64(b) * (1.0 - 1e-6);
        match (*self, *needed) {
            (Self::DiscreteLaplace { scale: a }, Self::DiscreteLaplace { scale: b }) => enough(a, b),
            (Self::DiscreteGaussian { sigma: a }, Self::DiscreteGaussian { sigma: b }) => enough(a, b),
            (Self::DiscKnorm { scale: a, minimum_radius: r }, Self::DiscKnorm { scale: b, minimum_radius: s }) => {
                enough(a, b) && r as f64 >= s as f64 * (1.0 - 1e-6)
            }
            (Self::OneHotKnorm { deviation: a }, Self::OneHotKnorm { deviation: b }) => {
                a < 1 << 56 && a as f64 >= b as f64 * (1.0 - 1e-6)
            }
            _ => false,
        }
    }

    /// Draws noise for a block; `groups` are the sizes of its one-hot groups, if it has any.
    pub(crate) fn draw(&self, source: &mut NoiseSource, groups: &[usize], out: &mut [i128]) {
        match *self {
            Self::DiscreteLaplace { scale } => out.iter_mut().for_each(|x| *x = source.laplace(scale)),
            Self::DiscreteGaussian { sigma } => out.iter_mut().for_each(|x| *x = source.gaussian(sigma)),
            Self::DiscKnorm { scale, minimum_radius } => source.disc_knorm(scale, minimum_radius, out),
            Self::OneHotKnorm { deviation } => one_hot_knorm(deviation, source, groups, out),
        }
    }

    /// Whether coordinates are independent, so that parts can be drawn apart.
    fn is_independent(&self) -> bool {
        !matches!(self, Self::DiscKnorm { .. } | Self::OneHotKnorm { .. })
    }
}

/// # Privacy
/// Theorem 4: the sums, in steps of the fine lattice, plus Z; then S + ⌊Z/f + ½⌋ = ⌊(fS + Z)/f + ½⌋ as S is an integer, so
/// that the rounding sees nothing but what is private already.
fn one_hot_knorm(deviation: u64, source: &mut NoiseSource, groups: &[usize], out: &mut [i128]) {
    assert_eq!(groups.iter().sum::<usize>(), out.len(), "every coordinate is in one group");
    for class in classes(deviation, groups).expect("calibration tried the same classes") {
        let radius = source.radius(class.size * class.groups, class.scale, class.minimum);
        let mut first = 0;
        for size in groups {
            let group = &mut out[first..first + size];
            first += size;
            if *size == class.size {
                source.cross_polytope(radius, group);
                group.iter_mut().for_each(|x| *x = (*x + i128::from(FINE / 2)).div_euclid(i128::from(FINE)));
            }
        }
    }
}

/// Everything that privatising will do, decided before the data is seen.
#[derive(Clone, Debug)]
pub struct Plan {
    schema: Schema,
    design: Design,
    privacy: Privacy,
    count: Option<Mechanism>,
    blocks: Vec<PlannedBlock>,
}

/// The noise of a block, and what it needs to know of the features.
#[derive(Clone, Debug)]
pub(crate) struct PlannedBlock {
    /// How many features.
    pub len: usize,
    /// The sizes of one-hot groups, where the noise may have their shape; nothing elsewhere.
    pub groups: Vec<usize>,
    pub mechanism: Mechanism,
}

impl PlannedBlock {
    pub fn draw(&self, source: &mut NoiseSource, noise: &mut [i128]) {
        self.mechanism.draw(source, &self.groups, noise);
    }
}

impl Plan {
    /// Splits the budget: `count_share` to the number of rows (unless it is public), the rest by the shares of the
    /// design. Pure ε is split as it is; under (ε, δ) and ρ the shares divide ρ, that is $\mu^2$.
    ///
    /// # Privacy
    /// Theorems 1 to 4 of PRIVACY.md give each block its part, and the parts add up: Σ Δ₁/t ≤ ε for Laplace and
    /// K-norm noise, Σ Δ₂²/2σ² ≤ ρ for Gaussian noise, and for (ε, δ) the whole is one Gaussian mechanism.
    pub fn new(schema: &Schema, design: &Design, privacy: Privacy) -> Result<Self, Error> {
        if design.reserved() != Decimal::ZERO {
            return Err(Error::Design("these are the maps of one of two rounds; release them by the rounds".into()));
        }
        refuse_first_round(design)?;
        Self::calibrated(&Calibration::new(schema, privacy)?, design)
    }

    pub(crate) fn calibrated(calibration: &Calibration<'_>, design: &Design) -> Result<Self, Error> {
        let blocks = design.blocks().iter().map(|block| calibration.block(block)).collect::<Result<_, _>>()?;
        let (schema, privacy) = (calibration.schema.clone(), calibration.privacy);
        Ok(Self { schema, design: design.clone(), privacy, count: calibration.count()?, blocks })
    }

    /// The same with the noise that the count and the first blocks had when they were released.
    pub(crate) fn after(mut self, first: &Release) -> Self {
        self.count = first.count().noise;
        self.blocks.iter_mut().zip(first.blocks()).for_each(|(planned, block)| planned.mechanism = block.noise());
        self
    }

    /// The schema that it is for.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The design that it is for.
    pub fn design(&self) -> &Design {
        &self.design
    }

    /// What it spends and how.
    pub fn privacy(&self) -> &Privacy {
        &self.privacy
    }

    /// The noise of the count; nothing when the count is public.
    pub fn count(&self) -> Option<Mechanism> {
        self.count
    }

    /// The noise of each block.
    pub fn blocks(&self) -> impl Iterator<Item = Mechanism> {
        self.blocks.iter().map(|block| block.mechanism)
    }

    pub(crate) fn planned(&self) -> &[PlannedBlock] {
        &self.blocks
    }

    /// Draws all the noise there will be, from fresh sources of the operating system.
    pub fn draw(&self) -> Result<Noise, Error> {
        self.draw_from(&mut NoiseSource::from_os()?)
    }

    pub(crate) fn draw_from(&self, source: &mut NoiseSource) -> Result<Noise, Error> {
        let mut count = [0];
        if let Some(mechanism) = &self.count {
            mechanism.draw(source, &[], &mut count);
        }
        let blocks = self
            .blocks
            .iter()
            .map(|block| {
                let mut noise = vec![0; block.len];
                draw_block(block, &mut noise, source)?;
                Ok(noise)
            })
            .collect::<Result<Vec<_>, Error>>()?;
        Ok(Noise { plan: self.clone(), count: self.count.map(|_| count[0]), blocks, process: Process::here() })
    }
}

/// Large independent blocks are drawn by several threads, each with a source of its own.
fn draw_block(block: &PlannedBlock, noise: &mut [i128], source: &mut NoiseSource) -> Result<(), Error> {
    const LARGE: usize = 100_000;
    if noise.len() < LARGE || !block.mechanism.is_independent() {
        block.draw(source, noise);
        return Ok(());
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = noise
            .chunks_mut(noise.len().div_ceil(threads))
            .map(|part| {
                scope.spawn(move || {
                    block.draw(&mut NoiseSource::from_os()?, part);
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("drawing noise does not panic"))
    })
}

/// Noise for one release, with the plan that it was drawn for: drawn once, used once. It cannot be copied or read.
pub struct Noise {
    pub(crate) plan: Plan,
    pub(crate) count: Option<i128>,
    pub(crate) blocks: Vec<Vec<i128>>,
    pub(crate) process: Process,
}

impl Noise {
    /// Refuses noise that came here by a fork. Adding it to sums refuses too; this does so before anything is spent.
    pub fn check_process(&self) -> Result<(), Error> {
        self.process.check()
    }
}

/// The process in which noise was drawn, or its source was keyed.
///
/// # Privacy
/// A fork copies noise and sources. Added in both processes to sums that differ, the same noise would leave their
/// difference bare; so it is used in the process that made it and in no other.
#[derive(Clone, Copy)]
pub(crate) struct Process(u32);

impl Process {
    pub fn here() -> Self {
        Self(std::process::id())
    }

    pub fn check(self) -> Result<(), Error> {
        if self.0 == std::process::id() {
            return Ok(());
        }
        Err(Error::Sums(
            "this noise was made in another process; release in that one, or start anew in this one".into(),
        ))
    }
}

/// From a budget to the noise of each block. What a block gets depends on nothing but the budget, the unit, its share and
/// its body, so that blocks of a later round can be designed by what an earlier one released.
pub(crate) struct Calibration<'a> {
    schema: &'a Schema,
    privacy: Privacy,
    /// How Gaussian noise is judged, unless the budget is pure.
    rule: Option<GaussianRule>,
}

impl<'a> Calibration<'a> {
    pub fn new(schema: &'a Schema, privacy: Privacy) -> Result<Self, Error> {
        let replace = privacy.neighbours == Neighbours::Replace;
        if replace && !matches!(schema.unit(), Unit::Row) {
            return Err(Error::Budget(
                "replace-one neighbours are for the unit \"row\", as a user's number of rows can change; use add-remove".into(),
            ));
        }
        if !replace && (privacy.count_share == Decimal::ZERO || privacy.count_share >= Decimal::ONE) {
            return Err(Error::Budget(format!(
                "the count's share is {}; give a number between 0 and 1, such as 0.02",
                privacy.count_share
            )));
        }
        let rule = match privacy.budget {
            Budget::Pure { .. } => None,
            Budget::Concentrated { rho } => Some(GaussianRule::Concentrated(rho.to_f64() * (1.0 - 1e-12))),
            Budget::Approximate { epsilon, delta } => {
                if epsilon.to_f64() < 1e-6 {
                    return Err(Error::Budget(
                        "with delta, epsilon must be at least 0.000001; give a larger one, or leave out delta".into(),
                    ));
                }
                // Either rule is valid for all blocks; the one that is better for a typical block is taken.
                let typical = |rule: &GaussianRule| rule.sigma(1.0, 0.02);
                let rule = GaussianRule::all(epsilon.to_f64(), delta.to_f64(), MAX_COORDINATES)
                    .into_iter()
                    .min_by(|a, b| typical(a).total_cmp(&typical(b)))
                    .ok_or_else(|| {
                        Error::Budget("epsilon and delta are too small to calibrate noise for; give larger ones".into())
                    })?;
                Some(rule)
            }
        };
        Ok(Self { schema, privacy, rule })
    }

    /// The noise of the count; nothing when the count is public.
    pub fn count(&self) -> Result<Option<Mechanism>, Error> {
        match self.privacy.neighbours {
            Neighbours::Replace => Ok(None),
            Neighbours::AddRemove => {
                let share = self.privacy.count_share.to_f64();
                self.mechanism(Body::OneHot { groups: 1 }, &[], share).map(Some)
            }
        }
    }

    /// The features of a block, and their noise.
    pub fn block(&self, block: &Block) -> Result<PlannedBlock, Error> {
        let (len, body) = block.map.shape(self.schema)?;
        let shaped = self.rule.is_none() && self.privacy.noise == NoiseKind::Knorm;
        let groups = if shaped { block.map.one_hot_groups(self.schema)? } else { Vec::new() };
        let mechanism = self.mechanism(body, &groups, self.besides_count() * block.share.to_f64())?;
        Ok(PlannedBlock { len, groups, mechanism })
    }

    /// The noise of a block of so many histograms or tables, whatever their sizes; from above, as K-norm noise of known
    /// sizes may be smaller.
    pub fn tables(&self, count: usize, share: Decimal) -> Result<Mechanism, Error> {
        self.mechanism(Body::OneHot { groups: count as u64 }, &[], self.besides_count() * share.to_f64())
    }

    /// The noise of a block of so many features of at most this size.
    pub fn cube(&self, count: usize, radius: u64, share: Decimal) -> Result<Mechanism, Error> {
        let body = Body::Cube { coordinates: count as u64, radius };
        self.mechanism(body, &vec![1; count], self.besides_count() * share.to_f64())
    }

    fn besides_count(&self) -> f64 {
        match self.privacy.neighbours {
            Neighbours::Replace => 1.0,
            Neighbours::AddRemove => 1.0 - self.privacy.count_share.to_f64(),
        }
    }

    /// `groups` are the sizes of one-hot groups, where they are known.
    fn mechanism(&self, body: Body, groups: &[usize], share: f64) -> Result<Mechanism, Error> {
        let rows = self.schema.unit().max_rows();
        let neighbours = self.privacy.neighbours;
        let sensitivity = sensitivity(body, neighbours, rows).ok_or_else(|| {
            Error::Budget("the sensitivity overflows; take a smaller map or fewer rows per user".into())
        })?;
        if let Some(rule) = self.rule {
            return Ok(Mechanism::DiscreteGaussian {
                sigma: round_up(rule.sigma(sensitivity.l2_squared as f64, share))?,
            });
        }
        let Budget::Pure { epsilon } = self.privacy.budget else { unreachable!("other budgets have a rule") };
        let epsilon = epsilon.to_f64() * (1.0 - 1e-12) * share;
        let laplace = Mechanism::DiscreteLaplace { scale: round_up(sensitivity.l1 as f64 / epsilon)? };
        if self.privacy.noise == NoiseKind::Laplace {
            return Ok(laplace);
        }
        // How far one unit moves a point of the body, in its own norm.
        let reach = f64::from(rows) * if neighbours == Neighbours::Replace { 2.0 } else { 1.0 };
        let (shaped, coordinates) = match body {
            Body::Discs { pairs, radius } => {
                let noise = disc_noise(pairs, reach * radius as f64, epsilon).ok();
                let mechanism = noise.map(|(scale, minimum_radius)| Mechanism::DiscKnorm { scale, minimum_radius });
                (mechanism, 2 * pairs as usize)
            }
            Body::OneHot { .. } | Body::Cube { .. } => {
                let reach = reach * if let Body::Cube { radius, .. } = body { radius as f64 } else { 1.0 };
                let deviation = one_hot_noise(groups, reach * FINE as f64, epsilon);
                (deviation.map(|deviation| Mechanism::OneHotKnorm { deviation }), groups.len())
            }
            Body::Bounded { .. } => (None, 0),
        };
        let smaller = |shaped: &Mechanism| shaped.standard_deviation(coordinates) < laplace.standard_deviation(1);
        Ok(shaped.filter(smaller).unwrap_or(laplace))
    }
}

/// More coordinates than any release has: features of all blocks of a design, and the count.
const MAX_COORDINATES: usize = 1 << 25;

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Schema {
        Schema::from_toml("[[column]]\nname='a'\ntype='number'\nmin=0\nmax=1\n[[column]]\nname='b'\ntype='boolean'")
            .unwrap()
    }

    /// The parts of the budget add up to no more than the whole, computed from the rational scales that are used.
    #[test]
    fn parts_add_up_to_the_budget() {
        let schema = schema();
        let design = Design::default();
        let race = Design::parse("race:r=10,w=8").unwrap();
        for (noise, design) in [
            (NoiseKind::Laplace, &design),
            (NoiseKind::Knorm, &design),
            (NoiseKind::Laplace, &race),
            (NoiseKind::Knorm, &race),
        ] {
            for epsilon in ["0.01", "1", "7.3", "100"] {
                let privacy = Privacy { noise, ..Privacy::new(Budget::pure(epsilon.parse().unwrap()).unwrap()) };
                let plan = Plan::new(&schema, design, privacy).unwrap();
                let loss = |mechanism: Mechanism, body: Body| match mechanism {
                    Mechanism::DiscreteLaplace { scale } => {
                        sensitivity(body, Neighbours::AddRemove, 1).unwrap().l1 as f64 / to_f64(scale)
                    }
                    Mechanism::DiscKnorm { scale, minimum_radius } => {
                        let Body::Discs { pairs, radius } = body else { panic!() };
                        let radius = radius as f64;
                        radius / to_f64(scale) + calibrate::disc_slack(pairs, radius, minimum_radius as f64)
                    }
                    // The sum of Theorem 4 as it stands there, for RACE's groups.
                    Mechanism::OneHotKnorm { deviation } => {
                        let [class] = classes(deviation, &[8; 10]).unwrap()[..] else { panic!() };
                        let (b, r, h) = (FINE as f64, class.minimum as f64, 4.0);
                        let term = |i: f64| ((i + h) / (r - h)).ln_1p() - ((i - h) / (r + b + h)).ln_1p();
                        b / to_f64(class.scale) + (1..=80).map(|i| term(f64::from(i))).sum::<f64>()
                    }
                    Mechanism::DiscreteGaussian { .. } => panic!(),
                };
                let shaped = matches!(plan.blocks().next(), Some(Mechanism::OneHotKnorm { .. }));
                assert_eq!(
                    shaped,
                    noise == NoiseKind::Knorm && design == &race && epsilon != "100",
                    "{noise:?} {epsilon}"
                );
                let bodies = design.blocks().iter().map(|block| block.map.shape(&schema).unwrap().1);
                let total = loss(plan.count().unwrap(), Body::OneHot { groups: 1 })
                    + plan.blocks().zip(bodies).map(|(mechanism, body)| loss(mechanism, body)).sum::<f64>();
                let epsilon: f64 = epsilon.parse().unwrap();
                assert!(total <= epsilon && total > 0.999 * epsilon, "{noise:?} {epsilon}: {total}");
            }
        }
        let plan =
            Plan::new(&schema, &design, Privacy::new(Budget::new(None, None, Some("0.5".parse().unwrap())).unwrap()))
                .unwrap();
        let mut rho = 0.0;
        let bodies = design.blocks().iter().map(|block| block.map.shape(&schema).unwrap().1);
        for (mechanism, body) in
            plan.count().into_iter().chain(plan.blocks()).zip(std::iter::once(Body::OneHot { groups: 1 }).chain(bodies))
        {
            let Mechanism::DiscreteGaussian { sigma } = mechanism else { panic!() };
            rho +=
                sensitivity(body, Neighbours::AddRemove, 1).unwrap().l2_squared as f64 / (2.0 * to_f64(sigma).powi(2));
        }
        assert!(rho <= 0.5 && rho > 0.4999, "{rho}");
    }

    /// Groups of two sizes, in turns: every coordinate has the stated deviation, and groups of a size share their radius.
    /// Five standard errors, seeded.
    #[test]
    fn groups_of_several_sizes_have_the_same_noise() {
        let groups = [2usize, 3, 2, 1, 3, 2];
        let deviation = one_hot_noise(&groups, FINE as f64, 0.1).unwrap();
        let mechanism = Mechanism::OneHotKnorm { deviation };
        let (n, mut source) = (200_000, NoiseSource::seeded(3));
        let mut squares = [0.0; 13];
        for _ in 0..n {
            let mut noise = [0; 13];
            mechanism.draw(&mut source, &groups, &mut noise);
            squares.iter_mut().zip(noise).for_each(|(sum, x)| *sum += (x as f64).powi(2));
        }
        let expected = mechanism.standard_deviation(13).powi(2);
        for square in squares {
            let ratio = square / n as f64 / expected;
            assert!((ratio - 1.0).abs() < 5.0 * (5.0 / n as f64).sqrt() + 2e-3, "{squares:?}, not {expected}");
        }
    }

    #[test]
    fn knorm_halves_the_noise_of_fourier_features() {
        let design = Design::parse("rff:m=200").unwrap();
        let deviation = |noise| {
            let privacy = Privacy { noise, ..Privacy::new(Budget::pure(Decimal::ONE).unwrap()) };
            let plan = Plan::new(&schema(), &design, privacy).unwrap();
            plan.blocks().next().unwrap().standard_deviation(200) / (1 << 20) as f64
        };
        assert!((deviation(NoiseKind::Laplace) / 204.1 - 1.0).abs() < 0.01);
        assert!((deviation(NoiseKind::Knorm) / 102.5 - 1.0).abs() < 0.01);
    }
}
