//! The default design: two rounds, of which the second is fitted to what the first released.
//!
//! ```text
//! rows ──► sums of histograms ──► noise ──► count, marginals ──► groups of cells of about equal probability
//!   └────► sums of tables over those groups ◄──────────────────────────┘      └──► noise ──► Release
//! ```
//!
//! **Round one** releases the count and a histogram of every column. **Round two** releases a contingency table of every
//! pair of columns whose cells are those of the histograms, merged along the ranks of the released marginals: fine where
//! the data is, whatever its scale, with levels kept apart, and atoms too if they are larger than a group.
//!
//! # The rule
//! Everything follows from public things: the schema, the budget, and the number of rows, which is the released one or
//! one that the curator states. With σ the standard deviation of the noise on a sum, divided by the number of rows:
//! - **Shares.** [`MARGINALS`] of what the count leaves goes to round one, the rest to round two.
//! - **Bins** of a histogram: 2 σ^(-2/5), from 8 to 256. A distribution function adds up noise over B bins (variance Bσ²);
//!   a density that leans within a bin is wrong by something like B⁻². The sum of squares is least at B ∝ σ^(-2/5). A
//!   column of few whole numbers has a cell for each, up to 1/2σ of them, so that one stands out from its noise.
//! - **Groups** of a numeric column: 0.9 σ^(-1/3), from 3 to 16. A smooth function of two columns adds up noise over b²
//!   cells with values of size 1 (variance b²σ²), and is smeared by something like b⁻².
//! - **Three columns** have tables too if that leaves little noise on what they do together (`WORTHWHILE`), with 0.75
//!   σ^(-2/7) groups, by the same reason with b³ cells.
//!
//! # Privacy
//! The rounds compose: the second depends on the data only through its own sums and on the first through what that
//! released (PRIVACY.md, Theorem 6). Both are ordinary one-hot features (Lemma 2) with the noise of
//! [`Plan`] for their shares.

use crate::feature::{Block, Cells, HistSpec, MapSpec, MergedColumn, MergedSpec};
use crate::fit::simplex;
use crate::privatise::{Calibration, Mechanism, NoiseSource, Plan, Privacy};
use crate::release::Release;
use crate::schema::Column;
use crate::sums::{Sketcher, public};
use crate::{Decimal, Design, Error, Schema, Sums};

/// What a curator can say about the default design.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Auto {
    /// About how many rows there are, if that is public. Otherwise the released count tells.
    pub rows: Option<u64>,
}

/// The part of the budget for sums that goes to the marginals.
pub const MARGINALS: &str = "0.5";
/// The part of it that goes to tables of three columns, where there are any.
const TRIPLES: &str = "0.2";
/// Histograms that there can be: bins, and up to how many whole numbers have a cell each.
const CANDIDATES: [(u32, u32); 11] = [
    (8, 28),
    (12, 64),
    (16, 128),
    (24, 128),
    (32, 128),
    (48, 128),
    (64, 128),
    (96, 128),
    (128, 128),
    (192, 192),
    (256, 256),
];
/// Columns of levels have at most so many groups.
const MAX_GROUPS: usize = 64;
/// Tables of three columns are released if the noise on what three columns do, told by three groups each, is below this.
const WORTHWHILE: f64 = 0.02;
/// There are at most so many tables of three columns.
const MAX_TRIPLES: usize = 5000;
/// A column of numbers has at most so many groups in tables of two and of three columns.
const MAX_PAIR_GROUPS: usize = 16;
const MAX_TRIPLE_GROUPS: usize = 8;
/// Tables of two columns, and of three, have at most so many cells each.
const MAX_CELLS: usize = 1 << 22;
/// The most columns whose pairs are tabulated.
const MAX_COLUMNS: usize = 400;

/// The first round: the count and the marginals.
pub struct FirstRound {
    schema: Schema,
    privacy: Privacy,
    /// The histograms that may be chosen, and their design.
    candidates: Vec<MapSpec>,
    design: Design,
    rows: Option<u64>,
    /// Drawn before any row is read: for the count unless it is public, and for the largest of the candidates, which all
    /// have the same mechanism.
    count_noise: Option<i128>,
    noise: Vec<i128>,
}

impl FirstRound {
    /// Decides what can be decided before any data is seen, and draws the noise of this round.
    pub fn new(schema: &Schema, auto: &Auto, privacy: Privacy) -> Result<Self, Error> {
        Self::drawn_by(schema, auto, privacy, &mut from_os()?)
    }

    /// The same, with noise from elsewhere: for forecasts, which have no data.
    pub(crate) fn drawn_by(schema: &Schema, auto: &Auto, privacy: Privacy, draw: &mut Draw<'_>) -> Result<Self, Error> {
        check(schema)?;
        let calibration = Calibration::new(schema, privacy)?;
        let count_noise = calibration.count()?.map(|mechanism| draw(mechanism, 1)[0]);
        let all = || CANDIDATES.map(histograms).to_vec();
        let candidates = match auto.rows {
            Some(rows) => vec![all().swap_remove(choose(marginals(&calibration, schema)?, rows as f64))],
            None => all(),
        };
        // Which of the candidates is released is chosen later; these shares are never spent.
        let share: Decimal = "0.01".parse()?;
        let mut blocks: Vec<Block> = candidates.iter().map(|map| Block { share, map: map.clone() }).collect();
        blocks[0].share = blocks[1..].iter().fold(Decimal::ONE, |rest, block| rest - block.share);
        let mut longest = 0;
        for map in &candidates {
            longest = longest.max(map.shape(schema)?.0);
        }
        let noise = draw(marginals(&calibration, schema)?, longest);
        let design = Design::new(blocks)?;
        Ok(Self { schema: schema.clone(), privacy, candidates, design, rows: auto.rows, count_noise, noise })
    }

    /// What adds up the rows of this round.
    pub fn sketcher(&self) -> Result<Sketcher, Error> {
        Sketcher::new(&self.schema, &self.design)
    }

    /// Releases the count and the marginals, and designs the second round by them. The whole budget is to be debited before.
    ///
    /// # Privacy
    /// The count is noised first. It decides which of the histograms is noised; the others are dropped.
    pub fn privatise(self, sums: Sums) -> Result<SecondRound, Error> {
        let (rows, candidates) = sums.into_parts(&self.schema, &self.design)?;
        self.continue_with(rows, candidates, &mut from_os()?)
    }

    /// The features of this round.
    pub(crate) fn design(&self) -> &Design {
        &self.design
    }

    /// What follows from sums, given where the noise of the second round comes from.
    pub(crate) fn continue_with(
        self,
        rows: i128,
        candidates: Vec<Vec<i128>>,
        draw: &mut Draw<'_>,
    ) -> Result<SecondRound, Error> {
        let calibration = Calibration::new(&self.schema, self.privacy)?;
        assert_eq!(self.count_noise.is_some(), calibration.count()?.is_some(), "a count that is not public has noise");
        let count = public(rows, self.count_noise.unwrap_or(0));
        let scale = self.rows.map_or(count as f64, |rows| rows as f64).max(1.0);
        let at = match self.rows {
            Some(_) => 0,
            None => choose(marginals(&calibration, &self.schema)?, scale),
        };
        let first = Block { share: MARGINALS.parse()?, map: self.candidates[at].clone() };
        let chosen = candidates.into_iter().nth(at).expect("sums for each candidate");
        let marginals = noised(chosen, self.noise);
        let tables =
            Tables { schema: &self.schema, calibration: &calibration, scale, first: &first.map, marginals: &marginals };
        let mut blocks = tables.blocks(Decimal::ONE - first.share)?;
        blocks.insert(0, first);
        let plan = Plan::calibrated(&calibration, &Design::new(blocks)?)?;
        let noise = plan
            .design()
            .blocks()
            .iter()
            .zip(plan.blocks())
            .skip(1)
            .map(|(block, mechanism)| Ok(draw(mechanism, block.map.shape(&self.schema)?.0)))
            .collect::<Result<_, Error>>()?;
        Ok(SecondRound { plan, count, marginals, noise })
    }
}

/// The second round: tables of pairs of columns.
pub struct SecondRound {
    plan: Plan,
    count: i64,
    marginals: Vec<i64>,
    /// Drawn before a row is read for this round.
    noise: Vec<Vec<i128>>,
}

impl SecondRound {
    /// What adds up the rows of this round.
    pub fn sketcher(&self) -> Result<Sketcher, Error> {
        Sketcher::new(self.plan.schema(), &self.design()?)
    }

    /// The blocks of this round; their shares are of the whole, so that the first takes up what the marginals had.
    pub(crate) fn design(&self) -> Result<Design, Error> {
        let mut blocks = self.plan.design().blocks()[1..].to_vec();
        blocks[0].share = blocks[1..].iter().fold(Decimal::ONE, |rest, block| rest - block.share);
        Design::new(blocks)
    }

    /// Adds noise to the tables, and puts the release together.
    pub fn privatise(self, sums: Sums) -> Result<Release, Error> {
        let (_, tables) = sums.into_parts(self.plan.schema(), &self.design()?)?;
        self.finish_with(tables)
    }

    /// The release that follows from sums.
    pub(crate) fn finish_with(self, tables: Vec<Vec<i128>>) -> Result<Release, Error> {
        assert_eq!(tables.len(), self.noise.len(), "every block has its noise");
        let mut blocks = vec![self.marginals];
        blocks.extend(tables.into_iter().zip(self.noise).map(|(sums, noise)| noised(sums, noise)));
        Release::new(&self.plan, self.count, blocks)
    }
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

/// The most groups that each column can have, if numbers have so many besides "missing".
fn sizes(schema: &Schema, groups: usize) -> Vec<usize> {
    let size = |column: &Column| column.kind.codes().map_or(groups + 1, |codes| (codes as usize).min(MAX_GROUPS));
    schema.columns().iter().map(size).collect()
}

/// Draws so much noise of a mechanism.
pub(crate) type Draw<'a> = dyn FnMut(Mechanism, usize) -> Vec<i128> + 'a;

/// Noise as releases have it.
fn from_os() -> Result<impl FnMut(Mechanism, usize) -> Vec<i128>, Error> {
    let mut source = NoiseSource::from_os()?;
    Ok(move |mechanism: Mechanism, len| {
        let mut noise = vec![0; len];
        mechanism.draw(&mut source, &mut noise);
        noise
    })
}

/// Sums plus noise, every one of them. The noise is used up; there may be more than is needed.
fn noised(sums: Vec<i128>, noise: Vec<i128>) -> Vec<i64> {
    assert!(sums.len() <= noise.len(), "every sum has its noise");
    sums.into_iter().zip(noise).map(|(sum, noise)| public(sum, noise)).collect()
}

fn histograms((bins, whole): (u32, u32)) -> MapSpec {
    MapSpec::Hist(HistSpec { bins, whole: Some(whole), columns: Vec::new() })
}

/// The noise of the histograms, however many cells they have.
fn marginals(calibration: &Calibration<'_>, schema: &Schema) -> Result<Mechanism, Error> {
    calibration.tables(schema.columns().len(), MARGINALS.parse()?)
}

/// Which of the candidates has as many bins as the noise makes worthwhile.
fn choose(noise: Mechanism, rows: f64) -> usize {
    let bins = 2.0 * (noise.standard_deviation(1) / rows).powf(-0.4);
    CANDIDATES.iter().rposition(|(candidate, _)| f64::from(*candidate) <= bins).unwrap_or(0)
}

/// What the tables of the second round are made from.
struct Tables<'a> {
    schema: &'a Schema,
    calibration: &'a Calibration<'a>,
    /// The number of rows.
    scale: f64,
    /// The histograms, and what was released of them.
    first: &'a MapSpec,
    marginals: &'a [i64],
}

impl Tables<'_> {
    /// The tables of all pairs of columns and, where the noise allows, of all triples.
    fn blocks(&self, share: Decimal) -> Result<Vec<Block>, Error> {
        let count = self.schema.columns().len() as u32;
        let pairs: Vec<Vec<u32>> = (0..count).flat_map(|i| (i + 1..count).map(move |j| vec![i, j])).collect();
        let third: Decimal = TRIPLES.parse()?;
        let triples: Vec<Vec<u32>> = pairs
            .iter()
            .flat_map(|pair| (pair[1] + 1..count).map(|k| vec![pair[0], pair[1], k]))
            .take(MAX_TRIPLES + 1)
            .collect();
        if !triples.is_empty() && triples.len() <= MAX_TRIPLES && self.cells(&triples, MAX_TRIPLE_GROUPS) <= MAX_CELLS {
            let noise = self.noise(third, &triples)?;
            if 3f64.powf(1.5) * noise <= WORTHWHILE {
                let groups = (0.75 * noise.powf(-2.0 / 7.0)).round().clamp(3.0, MAX_TRIPLE_GROUPS as f64);
                let rest = share - third;
                return Ok(vec![self.pairs(rest, pairs)?, self.block(third, &triples, groups as u32)?]);
            }
        }
        Ok(vec![self.pairs(share, pairs)?])
    }

    fn pairs(&self, share: Decimal, pairs: Vec<Vec<u32>>) -> Result<Block, Error> {
        let groups = (0.9 * self.noise(share, &pairs)?.powf(-1.0 / 3.0)).round().clamp(3.0, MAX_PAIR_GROUPS as f64);
        self.block(share, &pairs, groups as u32)
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

    fn block(&self, share: Decimal, tables: &[Vec<u32>], groups: u32) -> Result<Block, Error> {
        let MapSpec::Hist(spec) = self.first else { unreachable!("round one is of histograms") };
        let columns = self
            .first
            .tables(self.schema)?
            .iter()
            .map(|(first, cells)| {
                let column = &self.schema.columns()[cells[0].column()];
                let sums: Vec<f64> = self.marginals[*first..][..cells[0].len()].iter().map(|sum| *sum as f64).collect();
                let groups = merge(&cells[0], &sums, groups, column.nullable);
                MergedColumn { name: column.name.clone(), bins: spec.bins_of(column), groups }
            })
            .collect();
        Ok(Block { share, map: MapSpec::Merged(MergedSpec { columns, tables: tables.to_vec() }) })
    }
}

/// The group of each cell: numbers by the rank of the middle of their cell, levels one each (the rarest together if there
/// are many), missing apart where there can be any.
fn merge(cells: &Cells, sums: &[f64], groups: u32, nullable: bool) -> Vec<u32> {
    let total: f64 = sums.iter().map(|sum| sum.max(0.0)).sum::<f64>().max(1.0);
    let law = simplex(&sums.iter().map(|sum| sum / total).collect::<Vec<_>>());
    let mut keys = vec![0u32; cells.len()];
    match cells.in_order() {
        Some(order) => {
            let mut below = 0.0;
            for cell in order {
                let rank = below + 0.5 * law[cell];
                keys[cell] = ((f64::from(groups) * rank) as u32).min(groups - 1);
                below += law[cell];
            }
            *keys.last_mut().expect("missing is a cell") = if nullable { groups } else { groups - 1 };
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

/// The same order with numbers from 0 on.
fn without_gaps(keys: &[u32]) -> Vec<u32> {
    let mut used = keys.to_vec();
    used.sort_unstable();
    used.dedup();
    keys.iter().map(|key| used.partition_point(|other| other < key) as u32).collect()
}
