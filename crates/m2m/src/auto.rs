//! The default design: two rounds, of which the second is fitted to what the first released.
//!
//! ```text
//! rows ──► sums of histograms ──► noise ──► count, marginals ──► groups of cells that go together
//!   └────► sums of tables over those groups ◄──────────────────────────┘      └──► noise ──► Release
//! ```
//!
//! **Round one** releases the count and a histogram of every column. **Round two** releases contingency tables that hold every
//! pair of columns, whose cells are those of the histograms, merged along the ranks of the released marginals: fine where
//! the data is, whatever its scale, with levels kept apart, and atoms too if they are larger than a group.
//!
//! # The rule
//! Everything follows from public things: the schema, the budget, and the number of rows, which is the released one or
//! one that the curator states. With σ the standard deviation of the noise on a sum, divided by the number of rows:
//! - **Shares.** Of what the count leaves, 43% goes to round one, the rest to round two; 40% if the noise is large, as there
//!   are more pairs than columns to be told from it, and 55% if it is small (`SHARES`). If it is so large that tables of
//!   pairs tell of little but columns that go closely together, 50% (`FAINT`): in many columns of few rows, most of what is to be
//!   had are the marginals.
//! - **Bins** of a histogram: 5.3 σ^(-1/3), or 4.2 where noise is not Gaussian and has outliers, from 7 to 251. A distribution
//!   function adds up noise over B bins (variance Bσ²); a density that leans within a bin is wrong by something like B⁻².
//!   The sum of squares would be least at B ∝ σ^(-2/5), but empty bins side by side are told as such and add less
//!   (`fit/shrink.rs`), so that more of them pay where noise is large. A column of few whole numbers has a cell for each
//!   (`CANDIDATES`). The first bin is halved again and again, as many numbers are skewed on a scale that the range does not
//!   tell, and a sliver is cut off the last, where whatever is beyond the range is counted (`HALVED`). Numbers that may be
//!   below 0 and above (profits, changes, differences) crowd at 0, if anywhere: there the bins on either side of 0 are halved instead
//!   (`ABOUT_ZERO`).
//! - **Groups** of a numeric column: 0.9 σ^(-1/3), from 3 to 16. A smooth function of two columns adds up noise over b²
//!   cells with values of size 1 (variance b²σ²), and is smeared by something like b⁻². They are
//!   formed so that ranks differ least within them, of which counts are made, and also by how far apart the numbers
//!   are (`PLACES`), of which covariances are; fewer if more would gain little, as in columns of few values.
//! - **Pairs in fewer tables.** Under pure ε noise grows with the number of tables, and tables of three columns that hold all
//!   pairs (`cover.rs`) are taken in the place of one for each pair if that leaves less of it, with 0.75 σ^(-2/7) groups, by
//!   the same reason with b³ cells.
//! - **Signs.** One contrast of two numeric columns matters more than others, whether large goes with large: a small part
//!   (`SIGNS`) goes to the products of the signs of two columns, which tell it with a fraction of the noise that it has
//!   when the cells of a table are added up (a quarter for a table of 5 × 5 cells at the same share, a ninth under pure ε).
//! - **Values.** The mean of a column adds up the noise of all bins of its histogram, and does not see where in a bin the rows
//!   are. A small part of the budget goes to the numbers themselves, each along an interval that follows from the released
//!   histogram (`interval.rs`), where they tell more of the mean than that does.
//! - **A closer look.** Where a column is uneven and a bin of it holds many rows, these may well be at few values in it. Such
//!   bins are cut into some dozens of parts, whose rows are counted with a small part of the budget (`LOOK`), which
//!   goes to pairs where no column is like that (`look.rs`).
//! - **Three columns** have tables too if that leaves little noise on what they do together (`WORTHWHILE`), with as
//!   many groups as those.
//!
//! # Privacy
//! The rounds compose: the second depends on the data only through its own sums and on the first through what that
//! released (PRIVACY.md, Theorem 6). Both are ordinary features of histograms, tables, signs and values (Lemma 2) with the noise of
//! [`Plan`] for their shares.

mod cover;
mod interval;
mod look;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use crate::feature::{
    Block, Cell, Cells, GRID, HistSpec, MapSpec, MergedColumn, MergedSpec, SignColumn, SignsSpec, ValueColumn,
    ValuesSpec,
};
use crate::fit::{simplex, unevenness};
use crate::privatise::{Calibration, Mechanism, NoiseSource, Plan, PlannedBlock, Privacy, Process};
use crate::release::{Release, ReleasedBlock};
use crate::schema::Column;
use crate::sums::{Sketcher, public};
use crate::{Decimal, Design, Error, Schema, Sums};

/// What a curator can say about the default design.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Auto {
    /// About how many rows there are, if that is public. Otherwise the released count tells.
    pub rows: Option<u64>,
    /// How much some tables matter, besides 1 for all others. Weights of one table are multiplied.
    pub weights: Vec<Weight>,
}

/// How much every table with certain columns matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weight {
    /// Names of one or more columns.
    pub columns: Vec<String>,
    /// What their tables get of the budget for each part that a table of weight 1 gets. With 0 there are no such tables.
    pub weight: Decimal,
}

/// Parts of the budget for sums.
struct Shares {
    /// From which standard deviation on of the noise that the first leaves on the share of rows in a cell.
    from: f64,
    /// For the marginals.
    marginals: &'static str,
    /// For all tables of three columns, where there are any.
    triples: &'static str,
    /// For the values of single columns, where they tell more than histograms: under Gaussian noise, and under other noise,
    /// which shrinks faster with the share.
    values: [&'static str; 2],
}

const SHARES: [Shares; 4] = [
    FAINT_SHARES,
    Shares { from: 0.0025, marginals: "0.4", triples: "0.2", values: ["0.05", "0.08"] },
    Shares { from: 4.7e-4, marginals: "0.43", triples: "0.2", values: ["0.05", "0.1"] },
    Shares { from: 0.0, marginals: "0.55", triples: "0.15", values: ["0.05", "0.08"] },
];
/// Those of tables whose pairs of columns are told with at least so much noise on the share of rows in a cell, if pairs have
/// this part of the budget; of no others, whatever the noise of the marginals is.
const FAINT_SHARES: Shares = Shares { from: f64::INFINITY, marginals: "0.5", triples: "0.2", values: ["0.05", "0.08"] };
const FAINT: (f64, &str) = (0.055, "0.45");
/// The part of it that goes to products of signs, where two columns have them.
const SIGNS: &str = "0.04";
/// The part of it that goes to a closer look into bins, where there are some to be looked into.
const LOOK: &str = "0.05";
/// The group in the middle of a column has no sign if that costs less than this part of what signs tell of ranks.
const MIDDLE: f64 = 0.1;
/// Histograms that there can be: bins, and up to how many whole numbers have a cell each. Numbers of bins are prime: grids that
/// values lie on seldom have so many steps, and would hide where bins of the same width have a value each, all at one place.
const CANDIDATES: [(u32, u32); 11] = [
    (7, 28),
    (11, 64),
    (17, 128),
    (23, 128),
    (31, 128),
    (47, 128),
    (61, 128),
    (97, 128),
    (127, 128),
    (191, 192),
    (251, 256),
];
/// How many times the first bin of a histogram is halved, or those on either side of 0.
const HALVED: u32 = 12;
const ABOUT_ZERO: u32 = 6;
/// When groups are formed, how much it counts how far apart the numbers in a group are, beside how far apart their ranks are;
/// from so many standard deviations from the mean on all numbers are the same.
const PLACES: f64 = 0.4;
const FAR: f64 = 3.0;
/// Columns of levels have at most so many groups.
const MAX_GROUPS: usize = 64;
/// Tables of three columns are released if the noise on what three columns do, told by three groups each, is below this.
const WORTHWHILE: f64 = 0.02;
/// Pairs are told by tables of three columns if that makes the logarithm of the noise on them less by this; columns of such
/// tables have at most so many cells.
const WORTH_MERGING: f64 = 0.05;
const MAX_ADDED: usize = 12;
/// There are at most so many tables of three columns.
const MAX_TRIPLES: usize = 5000;
/// A column of numbers has at least so many groups if it has enough cells, and at most so many in tables of two and of three
/// columns.
const FEWEST_GROUPS: f64 = 3.0;
const MAX_PAIR_GROUPS: usize = 16;
const MAX_TRIPLE_GROUPS: usize = 8;
/// Tables of two columns, and of three, have at most so many cells each.
const MAX_CELLS: usize = 1 << 22;
/// A weight is at most this.
const MAX_WEIGHT: f64 = 1e6;
/// Tables have at most so many different ones.
const MAX_WEIGHTS: usize = 400;
/// The most columns whose pairs are tabulated.
const MAX_COLUMNS: usize = 400;
/// At most so many groups of cells are written down, in two or three digits each: a release is a file that can be opened again.
/// The bins of a column of numbers are fewer than this.
const MAX_WRITTEN: usize = 1 << 25;
const MOST_BINS: usize = 512;

/// The sums of a first round, made before its budget is known: all the histograms that may be chosen.
///
/// Which of them is released follows from the budget and the count; only that one is, and the shares of this design are
/// never spent.
pub fn first_round() -> Design {
    let share: Decimal = "0.01".parse().expect("a decimal");
    let mut blocks: Vec<Block> =
        CANDIDATES.iter().map(|at| Block { share, map: histograms(*at, ABOUT_ZERO) }).collect();
    blocks[0].share = blocks[1..].iter().fold(Decimal::ONE, |rest, block| rest - block.share);
    Design::new(blocks).expect("shares that add up to 1")
}

/// Refuses the sums of a first round where they are to be released by themselves: of all histograms that it may choose from, every
/// one would be published, and next to nothing spent on most. Those of another build cannot go on at all.
pub(crate) fn refuse_first_round(design: &Design) -> Result<(), Error> {
    if *design == first_round() {
        return Err(Error::Design(
            "these are all histograms that a first round may choose from; release them as the first of two rounds"
                .into(),
        ));
    }
    let share: Decimal = "0.01".parse().expect("a decimal");
    let bins = |block: &Block| match &block.map {
        MapSpec::Hist(spec) if spec.whole.is_some() && spec.columns.is_empty() => Some(spec.bins),
        _ => None,
    };
    let grow = |pair: &[Block]| {
        pair[1].share == share && matches!((bins(&pair[0]), bins(&pair[1])), (Some(fewer), Some(more)) if fewer < more)
    };
    // All builds have had as many of them.
    if design.blocks().len() == CANDIDATES.len() && design.blocks().windows(2).all(grow) {
        return Err(Error::Design(
            "these are the sums of a first round of another build, which this one cannot go on from; sketch the table again"
                .into(),
        ));
    }
    Ok(())
}

/// The first round: the count and the marginals.
pub struct FirstRound {
    schema: Schema,
    privacy: Privacy,
    rows: Option<u64>,
    /// There before any row is read; after that, drawing noise cannot fail.
    source: NoiseSource,
    process: Process,
}

impl FirstRound {
    /// Refuses what cannot be released, before any data is seen.
    pub fn new(schema: &Schema, auto: &Auto, privacy: Privacy) -> Result<Self, Error> {
        check(schema)?;
        let calibration = Calibration::new(schema, privacy)?;
        rehearse(&calibration, schema, auto)?;
        Ok(Self {
            schema: schema.clone(),
            privacy,
            rows: auto.rows,
            source: NoiseSource::from_os()?,
            process: Process::here(),
        })
    }

    /// What adds up the rows of this round.
    pub fn sketcher(&self) -> Result<Sketcher, Error> {
        Sketcher::new(&self.schema, &self.design()?)
    }

    /// The features of this round: fewer than in [`first_round`] if the number of rows is public.
    fn design(&self) -> Result<Design, Error> {
        match self.rows {
            Some(rows) => {
                let calibration = Calibration::new(&self.schema, self.privacy)?;
                Ok(Design::single(chosen(&calibration, &self.schema, rows as f64)?.map))
            }
            None => Ok(first_round()),
        }
    }

    /// Refuses a round that came here by a fork, before anything is spent on it.
    pub fn check_process(&self) -> Result<(), Error> {
        self.process.check()
    }

    /// Releases the count and the marginals. The whole budget is to be debited before.
    pub fn privatise(mut self, sums: Sums) -> Result<Release, Error> {
        self.check_process()?;
        let design = if sums.design() == &first_round() { first_round() } else { self.design()? };
        let (rows, mut histograms) = sums.into_parts(&self.schema, &design)?;
        let of = |map: &MapSpec| {
            let at = design.blocks().iter().position(|block| &block.map == map).expect("sums for each candidate");
            Ok(histograms.swap_remove(at))
        };
        noised_marginals(&self.schema, self.privacy, self.rows, rows, of, &mut |block, noise| {
            block.draw(&mut self.source, noise);
        })
    }
}

/// The count and the marginals with their noise, from the number of rows and the sums of any histograms.
///
/// # Privacy
/// The count is noised first, unless it is public. It decides which of the histograms is noised, and for which share; the
/// others are dropped.
pub(crate) fn noised_marginals(
    schema: &Schema,
    privacy: Privacy,
    public_rows: Option<u64>,
    rows: i128,
    sums: impl FnOnce(&MapSpec) -> Result<Vec<i128>, Error>,
    draw: &mut Draw<'_>,
) -> Result<Release, Error> {
    check(schema)?;
    let calibration = Calibration::new(schema, privacy)?;
    let mut count = [0];
    if let Some(mechanism) = calibration.count()? {
        draw(&PlannedBlock { len: 1, groups: Vec::new(), mechanism }, &mut count);
    }
    let count = public(rows, count[0]);
    let block = chosen(&calibration, schema, public_rows.map_or(count as f64, |rows| rows as f64))?;
    let (sums, rest) = (sums(&block.map)?, Decimal::ONE - block.share);
    let design = Design::reserving(vec![block], rest)?;
    let plan = Plan::calibrated(&calibration, &design)?;
    let blocks = noised(&plan, vec![sums], draw);
    Release::new(&plan, count, blocks)
}

/// The second round: tables of columns together.
pub struct SecondRound {
    first: Release,
    design: Design,
    /// There before any row is read.
    source: NoiseSource,
    process: Process,
}

impl SecondRound {
    /// Designs tables by what the first round released.
    pub fn after(first: &Release, auto: &Auto) -> Result<Self, Error> {
        Self::with_design(first, second_design(first, auto)?)
    }

    /// For sums that were made with the design of a second round.
    pub fn with_design(first: &Release, design: Design) -> Result<Self, Error> {
        both(first, &design)?;
        Ok(Self { first: first.clone(), design, source: NoiseSource::from_os()?, process: Process::here() })
    }

    /// The features of this round.
    pub fn design(&self) -> &Design {
        &self.design
    }

    /// What adds up the rows of this round.
    pub fn sketcher(&self) -> Result<Sketcher, Error> {
        Sketcher::new(self.first.schema(), &self.design)
    }

    /// Refuses a round that came here by a fork, before anything is redeemed for it.
    pub fn check_process(&self) -> Result<(), Error> {
        self.process.check()
    }

    /// Adds noise to the tables, and puts the release together. A pledge is to be redeemed before.
    pub fn privatise(mut self, sums: Sums) -> Result<Release, Error> {
        self.check_process()?;
        let (_, tables) = sums.into_parts(self.first.schema(), &self.design)?;
        with_tables(&self.first, &self.design, tables, &mut |block, noise| {
            block.draw(&mut self.source, noise);
        })
    }
}

/// The tables that follow from what the first round released.
pub(crate) fn second_design(first: &Release, auto: &Auto) -> Result<Design, Error> {
    check(first.schema())?;
    let [marginals] = first.blocks() else { return Err(no_first_round()) };
    // Earlier builds laid no edge at 0.
    let candidates = CANDIDATES.iter().flat_map(|candidate| [ABOUT_ZERO, 0].map(|times| histograms(*candidate, times)));
    if !candidates.into_iter().any(|candidate| candidate == *marginals.map()) {
        return Err(no_first_round());
    }
    let reserved = first.reserved().ok_or_else(no_first_round)?.share;
    let schema = first.schema();
    let calibration = Calibration::new(schema, first.privacy())?;
    let scale = auto.rows.map_or(first.count().value as f64, |rows| rows as f64).max(1.0);
    let tables = Tables {
        schema,
        calibration: &calibration,
        scale,
        first: marginals,
        histograms: histograms_of(schema, marginals)?,
        weights: &Weights::new(schema, auto)?,
        formed: RefCell::default(),
    };
    Ok(Design::reserving(tables.blocks(reserved)?, Decimal::ONE - reserved)?.after(first.hash()))
}

/// Refuses, before anything is spent, weights or a budget with which either round would fail. Shares and noise follow from
/// these alone, whatever the marginals are.
fn rehearse(calibration: &Calibration<'_>, schema: &Schema, auto: &Auto) -> Result<(), Error> {
    let weights = Weights::new(schema, auto)?;
    let (signs, look): (Decimal, Decimal) = (SIGNS.parse()?, LOOK.parse()?);
    calibration.count()?;
    let (pairs, triples, numeric) = (weights.pairs(), weights.triples(), weights.numeric_pairs(schema));
    if !numeric.is_empty() {
        calibration.cube(numeric.len(), 1, signs)?;
    }
    let columns = schema.columns().iter().filter(|column| column.kind.range().is_some()).count();
    if columns > 0 {
        calibration.tables(columns, look)?;
    }
    for shares in &SHARES {
        let (first, third): (Decimal, Decimal) = (shares.marginals.parse()?, shares.triples.parse()?);
        let rest = Decimal::ONE - first;
        let values = shares.values(marginals(calibration, schema, first)?)?;
        if columns > 0 {
            calibration.cube(columns, GRID as u64, values)?;
        }
        for (share, tables) in [
            (rest, &pairs),
            (rest - signs - values - look, &pairs),
            (rest - third - signs - values - look, &pairs),
            (third, &triples),
        ] {
            for (share, tables) in weights.shares(share, tables)? {
                calibration.tables(tables.len(), share)?;
            }
        }
    }
    Ok(())
}

/// The release of both rounds.
pub(crate) fn with_tables(
    first: &Release,
    design: &Design,
    tables: Vec<Vec<i128>>,
    draw: &mut Draw<'_>,
) -> Result<Release, Error> {
    let (second, both) = both(first, design)?;
    let mut blocks = vec![first.blocks()[0].sums().to_vec()];
    blocks.extend(noised(&second, tables, draw));
    Release::new(&both, first.count().value, blocks)
}

/// What the second round does, and what both do together: the shares of the second add up to what the first reserved.
fn both(first: &Release, design: &Design) -> Result<(Plan, Plan), Error> {
    let Some(reserved) = first.reserved() else { return Err(no_first_round()) };
    let fits = design.first() == Some(first.hash().as_str())
        && design.reserved() == Decimal::ONE - reserved.share
        && design
            .blocks()
            .iter()
            .all(|block| matches!(block.map, MapSpec::Merged(_) | MapSpec::Signs(_) | MapSpec::Values(_)))
        && matches!(first.blocks(), [block] if matches!(block.map(), MapSpec::Hist(_)));
    if !fits {
        return Err(Error::Design(
            "these are not the two rounds of one release; sketch the second with --after, by what the first released"
                .into(),
        ));
    }
    let mut blocks = first.design()?.blocks().to_vec();
    blocks.extend(design.blocks().iter().cloned());
    let calibration = Calibration::new(first.schema(), first.privacy())?;
    let both = Plan::calibrated(&calibration, &Design::new(blocks)?)?.after(first);
    Ok((Plan::calibrated(&calibration, design)?, both))
}

fn no_first_round() -> Error {
    Error::Design(
        "a second round follows a first one; make that with `m2m release` of the sums of a first round".into(),
    )
}

/// Refuses, before anything is spent, a schema whose second round would be empty or too large.
fn check(schema: &Schema) -> Result<(), Error> {
    let count = schema.columns().len();
    if count < 2 {
        return Err(Error::Design("auto: there is only one column; take --design hist".into()));
    }
    // Over all pairs, twice the products of sizes make up the square of their sum, but for the squares.
    let sizes = sizes(schema, MAX_PAIR_GROUPS);
    let sum: usize = sizes.iter().sum();
    let cells = (sum * sum - sizes.iter().map(|size| size * size).sum::<usize>()) / 2;
    if count > MAX_COLUMNS || cells > MAX_CELLS {
        return Err(Error::Design(
            "auto: there are too many columns or levels to tabulate all pairs of; take --design hist, or name the tables in a .toml file".into(),
        ));
    }
    Ok(())
}

/// The most groups that each column can have, if numbers have so many besides "missing", which has one where it is allowed.
fn sizes(schema: &Schema, groups: usize) -> Vec<usize> {
    let size = |column: &Column| match column.kind.codes() {
        Some(codes) => (codes as usize).min(MAX_GROUPS),
        None => groups + usize::from(column.nullable),
    };
    schema.columns().iter().map(size).collect()
}

/// Draws the noise of a block.
pub(crate) type Draw<'a> = dyn FnMut(&PlannedBlock, &mut [i128]) + 'a;

/// Sums plus the noise of a plan's blocks, every one of them.
fn noised(plan: &Plan, sums: Vec<Vec<i128>>, draw: &mut Draw<'_>) -> Vec<Vec<i64>> {
    assert_eq!(plan.planned().len(), sums.len(), "every block has its noise");
    let noised = |(block, sums): (&PlannedBlock, Vec<i128>)| {
        let mut noise = vec![0; sums.len()];
        draw(block, &mut noise);
        sums.into_iter().zip(noise).map(|(sum, noise)| public(sum, noise)).collect()
    };
    plan.planned().iter().zip(sums).map(noised).collect()
}

fn histograms((bins, whole): (u32, u32), about_zero: u32) -> MapSpec {
    MapSpec::Hist(HistSpec { bins, whole: Some(whole), halved: HALVED, about_zero, columns: Vec::new() })
}

/// The noise of the histograms, however many cells they have.
fn marginals(calibration: &Calibration<'_>, schema: &Schema, share: Decimal) -> Result<Mechanism, Error> {
    calibration.tables(schema.columns().len(), share)
}

/// The histograms that have as many bins as the noise makes worthwhile, with their share.
fn chosen(calibration: &Calibration<'_>, schema: &Schema, rows: f64) -> Result<Block, Error> {
    let noise = |share| Ok::<_, Error>(marginals(calibration, schema, share)?.standard_deviation(1) / rows.max(1.0));
    let mut share = FAINT_SHARES.marginals.parse()?;
    if noise_on_pairs(calibration, schema, rows) < FAINT.0 {
        for Shares { from, marginals, .. } in &SHARES {
            share = marginals.parse()?;
            if noise(share)? >= *from {
                break;
            }
        }
    }
    let bins =
        if is_gaussian(marginals(calibration, schema, share)?) { 5.3 } else { 4.2 } * noise(share)?.powf(-1.0 / 3.0);
    let fits = CANDIDATES.iter().rfind(|(candidate, _)| f64::from(*candidate) <= bins);
    Ok(Block { share, map: histograms(*fits.unwrap_or(&CANDIDATES[0]), ABOUT_ZERO) })
}

/// The noise on the share of rows in a cell of two columns of a table with so many rows, whatever its tables will be: beyond
/// all numbers if that of all pairs is, though weights may leave fewer to be told of.
fn noise_on_pairs(calibration: &Calibration<'_>, schema: &Schema, rows: f64) -> f64 {
    let all = Weights { columns: schema.columns().len() as u32, given: Vec::new() };
    let (pairs, share) = (all.pairs(), FAINT.1.parse().expect("a decimal"));
    let noise = |tables: &[Places]| calibration.tables(tables.len(), share).ok();
    let of_cell = |mechanism: Mechanism| mechanism.standard_deviation(1) / rows.max(1.0);
    let Some(plain) = noise(&pairs) else { return f64::INFINITY };
    if is_gaussian(plain) || schema.columns().len() > cover::MAX_COLUMNS {
        return of_cell(plain);
    }
    let sizes = sizes(schema, FEWEST_GROUPS as usize);
    let tables = cover::cover(&pairs, &sizes, MAX_ADDED);
    let covered = noise(&tables).map(|noise| of_cell(noise) * cover::louder(&pairs, &tables, &sizes));
    covered.map_or(of_cell(plain), |covered| covered.min(of_cell(plain)))
}

fn is_gaussian(mechanism: Mechanism) -> bool {
    matches!(mechanism, Mechanism::DiscreteGaussian { .. })
}

impl Shares {
    /// Those beside this share of the marginals.
    fn beside(marginals: Decimal) -> Result<&'static Self, Error> {
        let same = |shares: &&Self| shares.marginals.parse::<Decimal>().is_ok_and(|share| share == marginals);
        SHARES.iter().find(same).ok_or_else(no_first_round)
    }

    /// That of all values beside noise of this kind.
    fn values(&self, mechanism: Mechanism) -> Result<Decimal, Error> {
        self.values[usize::from(!is_gaussian(mechanism))].parse()
    }
}

/// A table, by the places of its columns.
type Places = Vec<u32>;

/// How much tables matter.
struct Weights {
    columns: u32,
    given: Vec<(Vec<u32>, f64)>,
}

impl Weights {
    fn new(schema: &Schema, auto: &Auto) -> Result<Self, Error> {
        let place = |name: &String| {
            let at = schema.columns().iter().position(|column| &column.name == name);
            at.map(|at| at as u32).ok_or_else(|| {
                Error::Design(format!("auto: there is no column `{name}` to give a weight to; take one of the schema"))
            })
        };
        let given = |weight: &Weight| {
            let columns = weight.columns.iter().map(place).collect::<Result<_, Error>>()?;
            if weight.weight.to_f64() > MAX_WEIGHT {
                let message = format!("auto: the weight {} is more than {MAX_WEIGHT}; give less", weight.weight);
                return Err(Error::Design(message));
            }
            Ok((columns, weight.weight.to_f64()))
        };
        let given = auto.weights.iter().map(given).collect::<Result<_, Error>>()?;
        let weights = Self { columns: schema.columns().len() as u32, given };
        if weights.pairs().is_empty() {
            return Err(Error::Design("auto: every pair of columns has weight 0; take --design hist".into()));
        }
        if !weights.given.is_empty() && weights.written(schema) > MAX_WRITTEN {
            return Err(Error::Design(
                "auto: tables of each weight name the group of every level, which is too much for so many; give fewer weights"
                    .into(),
            ));
        }
        Ok(weights)
    }

    /// How many groups of cells are written down: tables of each weight have a block that names that of every cell of their
    /// columns.
    fn written(&self, schema: &Schema) -> usize {
        let cells = |at: u32| {
            let kind = &schema.columns()[at as usize].kind;
            kind.codes()
                .map_or_else(|| MOST_BINS + kind.range().map_or(0, |range| range.atoms().len()), |codes| codes as usize)
        };
        let of_tables = |tables: Vec<Places>| {
            let of_weight = |table: &Places| table.iter().map(|at| (self.of(table).to_bits(), *at)).collect::<Vec<_>>();
            let named: HashSet<(u64, u32)> = tables.iter().flat_map(of_weight).collect();
            named.into_iter().map(|(_, at)| cells(at)).sum::<usize>()
        };
        of_tables(self.pairs()) + of_tables(self.triples())
    }

    fn of(&self, table: &[u32]) -> f64 {
        let applies = |columns: &[u32]| columns.iter().all(|column| table.contains(column));
        self.given.iter().filter(|(columns, _)| applies(columns)).map(|(_, weight)| weight).product()
    }

    /// The pairs of columns that matter.
    fn pairs(&self) -> Vec<Places> {
        let all = (0..self.columns).flat_map(|i| (i + 1..self.columns).map(move |j| vec![i, j]));
        all.filter(|pair| self.of(pair) > 0.0).collect()
    }

    /// The pairs of numeric columns that matter.
    fn numeric_pairs(&self, schema: &Schema) -> Vec<Places> {
        let is_numeric = |column: &u32| schema.columns()[*column as usize].kind.range().is_some();
        self.pairs().into_iter().filter(|pair| pair.iter().all(is_numeric)).collect()
    }

    /// The triples of columns that matter; none if there are too many.
    fn triples(&self) -> Vec<Places> {
        let n = self.columns;
        let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
        let all = pairs.flat_map(|(i, j)| (j + 1..n).map(move |k| vec![i, j, k]));
        let triples: Vec<_> = all.filter(|triple| self.of(triple) > 0.0).take(MAX_TRIPLES + 1).collect();
        if triples.len() > MAX_TRIPLES { Vec::new() } else { triples }
    }

    /// The tables of each weight, with their part of a share. The parts add up to it.
    fn shares(&self, share: Decimal, tables: &[Places]) -> Result<Vec<(Decimal, Vec<Places>)>, Error> {
        let mut weights: Vec<f64> = tables.iter().map(|table| self.of(table)).collect();
        let total: f64 = weights.iter().sum();
        weights.sort_by(f64::total_cmp);
        weights.dedup();
        if weights.len() > MAX_WEIGHTS {
            return Err(Error::Design(format!("auto: tables have more than {MAX_WEIGHTS} weights; give fewer")));
        }
        let mut rest = share;
        let mut shares = Vec::with_capacity(weights.len());
        for (at, weight) in weights.iter().enumerate() {
            let same: Vec<Places> = tables.iter().filter(|table| self.of(table) == *weight).cloned().collect();
            let is_last = at + 1 == weights.len();
            let part = if is_last { rest } else { floor(share.to_f64() * weight * same.len() as f64 / total)? };
            rest = rest.checked_sub(part).ok_or_else(too_far_apart)?;
            shares.push((part, same));
        }
        Ok(shares)
    }
}

/// What the tables of the second round are made from.
struct Tables<'a> {
    schema: &'a Schema,
    calibration: &'a Calibration<'a>,
    /// The number of rows.
    scale: f64,
    /// What was released of the histograms.
    first: &'a ReleasedBlock,
    /// The same, column by column.
    histograms: Vec<Histogram>,
    /// Columns whose tables matter more or less.
    weights: &'a Weights,
    /// The groups of columns that were formed, by how many there can be at most.
    formed: RefCell<HashMap<(usize, u32), Vec<u32>>>,
}

impl Tables<'_> {
    /// The tables of all pairs of columns and, where the noise allows, of all triples; the products of the signs of
    /// numeric columns, their values, and what is found in bins that are looked into.
    fn blocks(&self, share: Decimal) -> Result<Vec<Block>, Error> {
        let (pairs, triples) = (self.weights.pairs(), self.weights.triples());
        let shares = Shares::beside(Decimal::ONE - share)?;
        let (third, signs): (Decimal, Decimal) = (shares.triples.parse()?, SIGNS.parse()?);
        let mut single = self.values(shares.values(self.first.noise())?)?.into_iter().collect::<Vec<_>>();
        single.extend(self.closer_look(LOOK.parse()?)?);
        let mut rest = share;
        let mut of_three = Vec::new();
        if !triples.is_empty() && self.cells(&triples, MAX_TRIPLE_GROUPS) <= MAX_CELLS {
            let noise = self.noise(third, &triples)?;
            if 3f64.powf(1.5) * noise <= WORTHWHILE {
                rest = rest - third;
                let groups = self.groups(third, &triples, triple_groups)?;
                of_three = self.by_weight(third, &triples, groups)?;
            }
        }
        rest = single.iter().fold(rest, |rest, block| rest - block.share);
        let (tables, groups) = self.of_pairs(rest - signs, pairs, of_three.is_empty())?;
        let signed = self.signed(groups);
        let numeric: Vec<Places> = self.weights.numeric_pairs(self.schema);
        let numeric: Vec<Places> =
            numeric.into_iter().filter(|pair| pair.iter().all(|at| signed[*at as usize].is_some())).collect();
        if !numeric.is_empty() {
            rest = rest - signs;
        }
        let mut blocks = self.by_weight(rest, &tables, groups)?;
        blocks.extend(of_three);
        if !numeric.is_empty() {
            blocks.push(signs_block(signs, &numeric, &signed));
        }
        blocks.extend(single);
        Ok(blocks)
    }

    /// A block for the tables of each weight.
    fn by_weight(&self, share: Decimal, tables: &[Places], groups: u32) -> Result<Vec<Block>, Error> {
        let shares = self.weights.shares(share, tables)?;
        Ok(shares.into_iter().map(|(share, tables)| self.tables(share, &tables, groups)).collect())
    }

    /// The tables that tell of pairs of columns, and how many groups columns have there. Where that is less noise, some have
    /// three columns, unless these have tables of their own or the curator gave weights.
    fn of_pairs(&self, share: Decimal, pairs: Vec<Places>, alone: bool) -> Result<(Vec<Places>, u32), Error> {
        let groups = self.groups(share, &pairs, pair_groups)?;
        if !alone || !self.weights.given.is_empty() || self.schema.columns().len() > cover::MAX_COLUMNS {
            return Ok((pairs, groups));
        }
        let plain = self.noise(share, &pairs)?.ln() - WORTH_MERGING;
        let mut best = (plain, pairs.clone(), groups);
        for largest in 2..=MAX_ADDED {
            let (mut groups, mut noise, mut tables) = (groups, 0.0, Vec::new());
            // Groups follow from the noise, that from the number of tables, and which of them there can be from the groups.
            for _ in 0..4 {
                let sizes = sizes(self.schema, groups as usize);
                tables = cover::cover(&pairs, &sizes, largest);
                let of_cell = self.noise(share, &tables)?;
                noise = (of_cell * cover::louder(&pairs, &tables, &sizes)).ln();
                groups = triple_groups(of_cell);
            }
            let fits = self.cells(&tables, groups as usize) <= MAX_CELLS && tables.len() < pairs.len();
            if fits && noise < best.0 {
                best = (noise, tables, groups);
            }
        }
        Ok((best.1, best.2))
    }

    /// How many groups a column has in tables that share a part of the budget: the same in those of all weights, so that
    /// they can be read together, and as many as their noise makes worthwhile, where each counts by its share.
    fn groups(&self, share: Decimal, tables: &[Places], groups: fn(f64) -> u32) -> Result<u32, Error> {
        let mut noise = 0.0;
        for (part, tables) in self.weights.shares(share, tables)? {
            noise += part.to_f64() / share.to_f64() * self.noise(part, &tables)?;
        }
        Ok(groups(noise))
    }

    /// The standard deviation of the noise on the share of rows in a cell: one-hot noise does not depend on how many
    /// cells there are.
    fn noise(&self, share: Decimal, tables: &[Vec<u32>]) -> Result<f64, Error> {
        Ok(self.calibration.tables(tables.len(), share)?.standard_deviation(1) / self.scale)
    }

    /// How many cells tables have in which every column has so many groups, and columns of levels one for each.
    fn cells(&self, tables: &[Vec<u32>], groups: usize) -> usize {
        let sizes = sizes(self.schema, groups);
        let cells = |table: &Vec<u32>| table.iter().map(|column| sizes[*column as usize]).product::<usize>();
        tables.iter().map(cells).fold(0, usize::saturating_add)
    }

    fn tables(&self, share: Decimal, tables: &[Places], groups: u32) -> Block {
        let (used, tables) = places(tables);
        let column = |at: &u32| {
            let Histogram { name, bins, halved, about_zero, cells, law } = &self.histograms[*at as usize];
            let groups = self.formed(cells, law, groups);
            MergedColumn { name: name.clone(), bins: *bins, halved: *halved, about_zero: *about_zero, groups }
        };
        Block { share, map: MapSpec::Merged(MergedSpec { columns: used.iter().map(column).collect(), tables }) }
    }

    /// The groups of a column's cells.
    fn formed(&self, cells: &Cells, law: &[f64], groups: u32) -> Vec<u32> {
        let mut formed = self.formed.borrow_mut();
        formed.entry((cells.column(), groups)).or_insert_with(|| merge(self.schema, cells, law, groups)).clone()
    }

    /// The columns of numbers with the signs of their cells, where these are not all the same.
    fn signed(&self, groups: u32) -> Vec<Option<SignColumn>> {
        let signed = |Histogram { name, bins, halved, about_zero, cells, law }: &Histogram| {
            let signs = signs(cells, law, &self.formed(cells, law, groups))?;
            Some(SignColumn { name: name.clone(), bins: *bins, halved: *halved, about_zero: *about_zero, signs })
        };
        self.histograms.iter().map(signed).collect()
    }

    /// The values of the columns whose means they tell better than histograms do; nothing if there are none.
    fn values(&self, share: Decimal) -> Result<Option<Block>, Error> {
        let numeric: Vec<_> =
            self.histograms.iter().filter_map(|histogram| Some((histogram, self.cells_of(histogram)?))).collect();
        if numeric.is_empty() {
            return Ok(None);
        }
        let deviation = self.first.noise().standard_deviation(self.first.sums().len()) / self.scale;
        let noise = self.calibration.cube(numeric.len(), GRID as u64, share)?.standard_deviation(numeric.len());
        let noise = noise / (GRID as f64 * self.scale);
        let column = |(histogram, cells): (&Histogram, Vec<interval::Cell>)| {
            let (low, high) =
                interval::interval(&cells, deviation, unevenness(&histogram.cells, &histogram.law, deviation), noise)?;
            Some(ValueColumn { name: histogram.name.clone(), low, high })
        };
        let columns: Vec<ValueColumn> = numeric.into_iter().filter_map(column).collect();
        Ok((!columns.is_empty()).then_some(Block { share, map: MapSpec::Values(ValuesSpec { columns }) }))
    }

    /// The parts of bins in which something may hide; nothing if there are none.
    fn closer_look(&self, share: Decimal) -> Result<Option<Block>, Error> {
        let deviation = self.first.noise().standard_deviation(self.first.sums().len()) / self.scale;
        let mut candidates = Vec::new();
        for histogram in &self.histograms {
            candidates.extend(look::Candidate::new(self.schema, histogram, deviation, self.scale)?);
        }
        candidates.sort_by(|a, b| b.most().total_cmp(&a.most()));
        let hidden: Vec<f64> = candidates.iter().map(look::Candidate::most).collect();
        let noise = |count| Ok::<_, Error>(self.calibration.tables(count, share)?.standard_deviation(1) / self.scale);
        let count = look::worthwhile(&hidden, noise)?;
        if count == 0 {
            return Ok(None);
        }
        let noise = noise(count)?;
        let columns: Vec<MergedColumn> = candidates[..count].iter().map(|candidate| candidate.table(noise)).collect();
        let tables = (0..count as u32).map(|at| vec![at]).collect();
        Ok(Some(Block { share, map: MapSpec::Merged(MergedSpec { columns, tables }) }))
    }

    /// The cells of a column of numbers, from low to high.
    fn cells_of(&self, Histogram { cells, law, .. }: &Histogram) -> Option<Vec<interval::Cell>> {
        let range = self.schema.columns()[cells.column()].kind.range()?;
        let edges = cells.edges()?;
        let ends = |cell: usize| match cells.describe(self.schema, cell) {
            Cell::Atom(x) => (range.unit(x), range.unit(x)),
            _ => (edges[cell], edges[cell + 1]),
        };
        let cell = |cell: usize| interval::Cell { low: ends(cell).0, high: ends(cell).1, mass: law[cell] };
        Some(cells.in_order()?.into_iter().map(cell).collect())
    }
}

/// What the first round released of each column.
fn histograms_of(schema: &Schema, first: &ReleasedBlock) -> Result<Vec<Histogram>, Error> {
    let MapSpec::Hist(spec) = first.map() else { return Err(no_first_round()) };
    let histogram = |(from, cells): (usize, Vec<Cells>)| {
        let cells = cells.into_iter().next().expect("a histogram has one column");
        let column = &schema.columns()[cells.column()];
        let sums = first.sums()[from..][..cells.len()].iter().map(|sum| *sum as f64);
        let total: f64 = sums.clone().map(|sum| sum.max(0.0)).sum::<f64>().max(1.0);
        let law = simplex(&sums.map(|sum| sum / total).collect::<Vec<_>>());
        let HistSpec { halved, about_zero, .. } = *spec;
        Histogram { name: column.name.clone(), bins: spec.bins_of(column), halved, about_zero, cells, law }
    };
    Ok(first.map().tables(schema)?.into_iter().map(histogram).collect())
}

/// What the first round released of a column.
struct Histogram {
    name: String,
    bins: u32,
    halved: u32,
    about_zero: u32,
    cells: Cells,
    /// The probabilities of the cells.
    law: Vec<f64>,
}

/// The columns of some tables in order, and the tables by places among those.
fn places(tables: &[Places]) -> (Vec<u32>, Vec<Places>) {
    let mut used: Vec<u32> = tables.iter().flatten().copied().collect();
    used.sort_unstable();
    used.dedup();
    let place = |column: &u32| used.partition_point(|other| other < column) as u32;
    let tables = tables.iter().map(|table| table.iter().map(place).collect()).collect();
    (used, tables)
}

fn signs_block(share: Decimal, pairs: &[Places], signed: &[Option<SignColumn>]) -> Block {
    let (used, pairs) = places(pairs);
    let columns =
        used.iter().map(|at| signed[*at as usize].clone().expect("pairs are of columns with signs")).collect();
    let pairs = pairs.into_iter().map(|pair| [pair[0], pair[1]]).collect();
    Block { share, map: MapSpec::Signs(SignsSpec { columns, pairs }) }
}

/// The sign of each cell of numbers, the same for all of a group: on which side of the middle the group's mean rank is.
/// The group that holds the middle has none if next to nothing is lost by that, so that signs add up to about nothing; nor
/// have missing numbers. Nothing for levels, or where there is but one sign.
fn signs(cells: &Cells, law: &[f64], groups: &[u32]) -> Option<Vec<i8>> {
    let order = cells.in_order()?;
    let last = order.iter().map(|cell| groups[*cell]).max()? as usize;
    let mut masses = vec![0.0; last + 1];
    order.iter().for_each(|cell| masses[groups[*cell] as usize] += law[*cell]);
    let total: f64 = masses.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let mut below = 0.0;
    // How far the mean rank of each group is from the middle, and whether the group holds the middle.
    let ranks: Vec<(f64, bool)> = (masses.iter())
        .map(|mass| {
            let (from, mass) = (below, mass / total);
            below += mass;
            (from + 0.5 * mass - 0.5, from < 0.5 && below > 0.5)
        })
        .collect();
    let all: f64 = ranks.iter().zip(&masses).map(|((rank, _), mass)| rank.abs() * mass).sum();
    let sign = |((rank, holds_middle), mass): (&(f64, bool), &f64)| {
        if *holds_middle && rank.abs() * mass < MIDDLE * all { 0 } else { rank.signum() as i8 }
    };
    let of_groups: Vec<i8> = ranks.iter().zip(&masses).map(sign).collect();
    let of_cell = |group: &u32| of_groups.get(*group as usize).copied().unwrap_or(0);
    let differ = of_groups.iter().any(|sign| *sign != of_groups[0]);
    differ.then(|| groups.iter().map(of_cell).collect())
}

/// Groups of a column in tables of two columns whose shares have this noise.
fn pair_groups(noise: f64) -> u32 {
    (0.9 * noise.powf(-1.0 / 3.0)).round().clamp(FEWEST_GROUPS, MAX_PAIR_GROUPS as f64) as u32
}

/// The same for three.
fn triple_groups(noise: f64) -> u32 {
    (0.75 * noise.powf(-2.0 / 7.0)).round().clamp(FEWEST_GROUPS, MAX_TRIPLE_GROUPS as f64) as u32
}

/// A share in whole millionths.
fn floor(share: f64) -> Result<Decimal, Error> {
    let millionths = (share * 1e6).floor();
    if millionths < 1.0 {
        return Err(too_far_apart());
    }
    Decimal::from_f64(millionths / 1e6)
}

fn too_far_apart() -> Error {
    Error::Design("auto: the weights are so far apart that some tables get nothing; give those 0".into())
}

/// The group of each cell: numbers by rank and place, levels one each (the rarest together if there are many), missing apart
/// where there can be any.
fn merge(schema: &Schema, cells: &Cells, law: &[f64], groups: u32) -> Vec<u32> {
    let mut keys = vec![0u32; cells.len()];
    match cells.in_order() {
        Some(order) => {
            let points = points(schema, cells, &order, law);
            for (cell, group) in order.into_iter().zip(compact(&points, groups as usize)) {
                keys[cell] = group;
            }
            let last = keys.iter().max().copied().unwrap_or(0);
            let nullable = schema.columns()[cells.column()].nullable;
            *keys.last_mut().expect("missing is a cell") = last + u32::from(nullable);
        }
        None => {
            let mut by_mass: Vec<usize> = (0..cells.len()).collect();
            by_mass.sort_by(|a, b| law[*b].total_cmp(&law[*a]));
            for (place, cell) in by_mass.into_iter().enumerate() {
                keys[cell] = place.min(MAX_GROUPS - 1) as u32;
            }
        }
    }
    without_gaps(&keys)
}

/// A cell of numbers: its probability, its middle rank from 0 to √12, and its middle in standard deviations from the mean, both
/// of them with variance 1 in a column that is spread evenly.
struct Point {
    mass: f64,
    at: [f64; 2],
}

fn points(schema: &Schema, cells: &Cells, order: &[usize], law: &[f64]) -> Vec<Point> {
    let middle = |cell: &usize| match cells.describe(schema, *cell) {
        Cell::Bin { low, high } => 0.5 * (low + high),
        Cell::Atom(x) => x,
        Cell::Level(_) | Cell::Missing => unreachable!("cells of numbers are in order"),
    };
    let middles: Vec<f64> = order.iter().map(middle).collect();
    let masses: Vec<f64> = order.iter().map(|cell| law[*cell]).collect();
    let total: f64 = masses.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let mean = masses.iter().zip(&middles).map(|(mass, x)| mass * x).sum::<f64>() / total;
    let square = masses.iter().zip(&middles).map(|(mass, x)| mass * (x - mean).powi(2)).sum::<f64>() / total;
    let deviations = |x: &f64| if square > 0.0 { (x - mean) / square.sqrt() } else { 0.0 };
    let mut below = 0.0;
    let point = |(mass, x): (&f64, &f64)| {
        let rank = (below + 0.5 * mass) / total;
        below += mass;
        Point { mass: mass / total, at: [12f64.sqrt() * rank, deviations(x).clamp(-FAR, FAR)] }
    };
    masses.iter().zip(&middles).map(point).collect()
}

/// The groups of neighbouring points whose ranks and places differ least within them (by squares, weighed by `PLACES`), of
/// all ways to form at most so many.
fn compact(points: &[Point], groups: usize) -> Vec<u32> {
    let n = points.len();
    // Sums over the first points of masses, and of first and second moments of both coordinates.
    let mut sums = vec![[0.0; 5]; n + 1];
    for (at, Point { mass, at: [rank, place] }) in points.iter().enumerate() {
        let before = sums[at];
        let terms = [*mass, mass * rank, mass * rank * rank, mass * place, mass * place * place];
        sums[at + 1] = std::array::from_fn(|k| before[k] + terms[k]);
    }
    let within = |from: usize, to: usize| {
        let [mass, rank, rank_square, place, place_square] = std::array::from_fn(|k| sums[to][k] - sums[from][k]);
        if mass <= 0.0 {
            return 0.0;
        }
        (rank_square - rank * rank / mass) + PLACES * (place_square - place * place / mass)
    };
    let groups = groups.min(n);
    // The least for the first points in so many groups, and where the last of these begins.
    let mut least: Vec<f64> = (0..=n).map(|to| if to == 0 { 0.0 } else { within(0, to) }).collect();
    let mut begins: Vec<Vec<usize>> = vec![vec![0; n + 1]];
    for count in 1..groups {
        let mut next = least.clone();
        let mut begin = vec![0; n + 1];
        for to in count + 1..=n {
            let (best, from) = (count..to)
                .map(|from| (least[from] + within(from, to), from))
                .min_by(|a, b| a.0.total_cmp(&b.0))
                .expect("there is room for another group");
            (next[to], begin[to]) = (best, from);
        }
        // One more group of a column that is spread evenly would gain twice as much.
        if count > 1 && least[n] - next[n] < (groups as f64).powi(-3) {
            break;
        }
        least = next;
        begins.push(begin);
    }
    let mut group = vec![0; n];
    let mut to = n;
    for (at, begin) in begins.iter().enumerate().rev() {
        let from = if at == 0 { 0 } else { begin[to] };
        group[from..to].fill(at as u32);
        to = from;
    }
    group
}

/// The same order with numbers from 0 on.
fn without_gaps(keys: &[u32]) -> Vec<u32> {
    let mut used = keys.to_vec();
    used.sort_unstable();
    used.dedup();
    keys.iter().map(|key| used.partition_point(|other| other < key) as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::privatise::Budget;
    use crate::stream::PublicStream;

    /// No other way to form three groups of neighbours leaves less within them, by trying all.
    #[test]
    fn groups_are_the_most_compact() {
        let mut random = PublicStream::new("test", 21);
        for _ in 0..50 {
            let raw: Vec<f64> = (0..9).map(|_| random.uniform().powi(3)).collect();
            let total: f64 = raw.iter().sum();
            let mut below = 0.0;
            let points: Vec<Point> = (raw.iter().enumerate())
                .map(|(at, x)| {
                    let mass = x / total;
                    below += mass;
                    Point { mass, at: [12f64.sqrt() * (below - 0.5 * mass), at as f64 / 2.0] }
                })
                .collect();
            let within = |from: usize, to: usize| -> f64 {
                let mass: f64 = points[from..to].iter().map(|point| point.mass).sum();
                [0, 1]
                    .map(|k| {
                        let mean = points[from..to].iter().map(|point| point.mass * point.at[k]).sum::<f64>() / mass;
                        let square = |point: &Point| point.mass * (point.at[k] - mean).powi(2);
                        [1.0, PLACES][k] * points[from..to].iter().map(square).sum::<f64>()
                    })
                    .iter()
                    .sum()
            };
            let pairs = (1..9).flat_map(|a| (a + 1..9).map(move |b| (a, b)));
            let of = |(a, b): (usize, usize)| within(0, a) + within(a, b) + within(b, 9);
            let best = pairs.map(of).fold(f64::INFINITY, f64::min);
            let groups = compact(&points, 3);
            assert!(groups.windows(2).all(|pair| pair[0] <= pair[1]) && groups[0] == 0);
            let end = |group: u32| groups.partition_point(|other| *other <= group);
            if groups[8] == 2 {
                let found = of((end(0), end(1)));
                assert!(found <= best + 1e-12, "{found}, not {best}");
            } else {
                let found = within(0, end(0)) + within(end(0), 9);
                assert!(found - best < 1.0 / 27.0, "a third group gains {}", found - best);
            }
        }
    }

    /// Whoever made the file, a second round is designed only after histograms that a first one can have.
    #[test]
    fn second_rounds_refuse_other_histograms() {
        let columns = ["x", "y"].map(|name| format!("[[column]]\nname='{name}'\ntype='number'\nmin=0\nmax=1\n"));
        let schema = Schema::from_toml(&columns.concat()).unwrap();
        let privacy = Privacy::new(Budget::new(Some(Decimal::ONE), None, None).unwrap());
        let calibration = Calibration::new(&schema, privacy).unwrap();
        let usual = chosen(&calibration, &schema, 500.0).unwrap();
        let MapSpec::Hist(spec) = usual.map else { panic!("a first round is histograms") };
        let second = |spec: &HistSpec| {
            let block = Block { share: usual.share, map: MapSpec::Hist(spec.clone()) };
            let cells = block.map.shape(&schema).unwrap().0;
            let design = Design::reserving(vec![block], Decimal::ONE - usual.share).unwrap();
            let plan = Plan::calibrated(&calibration, &design).unwrap();
            SecondRound::after(&Release::new(&plan, 500, vec![vec![9; cells]]).unwrap(), &Auto::default())
        };
        assert!(second(&spec).is_ok());
        assert!(second(&HistSpec { about_zero: 0, ..spec.clone() }).is_ok());
        for other in [
            HistSpec { bins: spec.bins + 1, ..spec.clone() },
            HistSpec { bins: 100_000, ..spec.clone() },
            HistSpec { halved: spec.halved + 1, ..spec.clone() },
            HistSpec { about_zero: spec.about_zero + 1, ..spec.clone() },
            HistSpec { whole: None, ..spec.clone() },
            HistSpec { columns: vec!["x".into()], ..spec.clone() },
        ] {
            let error = second(&other).err().expect("it is refused").to_string();
            assert!(error.contains("a second round follows a first one"), "{other:?}: {error}");
        }
    }

    /// Sums of all histograms that there can be are no ordinary design, whichever build made them.
    #[test]
    fn first_rounds_are_not_released_by_themselves() {
        let of = |about_zero: u32| {
            let map = |(bins, whole)| histograms((bins, whole), about_zero);
            let mut blocks: Vec<Block> =
                CANDIDATES.iter().map(|at| Block { share: "0.01".parse().unwrap(), map: map(*at) }).collect();
            blocks[0].share = "0.9".parse().unwrap();
            Design::new(blocks).unwrap()
        };
        assert_eq!(of(ABOUT_ZERO), first_round());
        let refused = |design: &Design| refuse_first_round(design).unwrap_err().to_string();
        assert!(refused(&first_round()).contains("the first of two rounds"));
        assert!(refused(&of(0)).contains("another build"));
        let single = Design::single(histograms(CANDIDATES[0], 0));
        assert!(refuse_first_round(&single).is_ok() && refuse_first_round(&Design::parse("hist").unwrap()).is_ok());
    }

    /// What cannot be opened again is refused before anything is spent.
    #[test]
    fn weights_of_many_levels_are_refused_where_a_release_would_be_huge() {
        let levels: Vec<String> = (0..200_000).map(|at| format!("'{at}'")).collect();
        let mut toml = format!("[[column]]\nname='k'\ntype='category'\nlevels=[{}]\n", levels.join(","));
        (0..200).for_each(|at| toml += &format!("[[column]]\nname='b{at}'\ntype='boolean'\n"));
        let schema = Schema::from_toml(&toml).unwrap();
        let privacy = Privacy::new(Budget::new(Some(Decimal::ONE), None, None).unwrap());
        let auto = |count: u32| {
            let weight = |at| Weight {
                columns: vec!["k".into(), format!("b{at}")],
                weight: format!("1.{at:03}").parse().unwrap(),
            };
            Auto { rows: None, weights: (1..count).map(weight).collect() }
        };
        assert!(FirstRound::new(&schema, &auto(20), privacy).is_ok());
        let error = FirstRound::new(&schema, &auto(200), privacy).err().expect("it is refused").to_string();
        assert!(error.contains("give fewer weights"), "{error}");
        // Where the rounds are made apart, the second is the one that hears of the weights.
        assert!(Weights::new(&schema, &Auto::default()).is_ok());
        let error = Weights::new(&schema, &auto(200)).err().expect("it is refused").to_string();
        assert!(error.contains("give fewer weights"), "{error}");
    }

    /// A column of fewer values than there are groups has one for each.
    #[test]
    fn few_values_are_kept_apart() {
        let point = |at: u32| Point { mass: 0.25, at: [12f64.sqrt() * (0.25 * f64::from(at) + 0.125), f64::from(at)] };
        let points: Vec<Point> = (0..4).map(point).collect();
        assert_eq!(compact(&points, 16), [0, 1, 2, 3]);
        assert_eq!(compact(&points, 1), [0; 4]);
    }
}
