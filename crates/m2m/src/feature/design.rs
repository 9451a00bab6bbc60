//! What a curator chooses: which maps, with which parameters, and how the budget is shared between them.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::feature::cells::Cells;
use crate::feature::hist::{MAX_FEATURES, Tables};
use crate::feature::projection::coordinates;
use crate::feature::race::Race;
use crate::feature::rff::Rff;
use crate::feature::signs::Signs;
use crate::feature::values::{Clipped, GRID, STEPS, Values};
use crate::feature::{Body, FeatureMap, Input, Simd, inputs};
use crate::panel::{Layout, Slot};
use crate::schema::{Column, toml_message};
use crate::{Decimal, Error, Schema};

/// Maps side by side, each with its share of the budget. With what is reserved for another round, the shares add up to 1.
///
/// ```
/// let design = m2m::Design::parse("rff:m=100,sigma=0.5")?;
/// assert_eq!(design.blocks().len(), 1);
/// let both = m2m::Design::from_toml(r#"
///     [[map]]
///     kind = "hist"
///     bins = 32
///     share = 0.4
///
///     [[map]]
///     kind = "rff"
///     share = 0.6
/// "#)?;
/// assert_eq!(both.blocks().len(), 2);
/// # Ok::<(), m2m::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawDesign", into = "RawDesign")]
pub struct Design {
    blocks: Vec<Block>,
    reserved: Decimal,
    /// In a second round: the hash of the first.
    after: Option<String>,
}

/// One map of a design.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Its part of the budget for sums.
    pub share: Decimal,
    /// The map.
    #[serde(flatten)]
    pub map: MapSpec,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDesign {
    map: Vec<Block>,
    #[serde(default, skip_serializing_if = "is_zero")]
    reserved: Decimal,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero(share: &Decimal) -> bool {
    *share == Decimal::ZERO
}

#[allow(clippy::trivially_copy_pass_by_ref)] // likewise
fn not_halved(halved: &u32) -> bool {
    *halved == 0
}

/// The description of a map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum MapSpec {
    /// Random Fourier features.
    Rff(RffSpec),
    /// Locality-sensitive hashes.
    Race(RaceSpec),
    /// A histogram of each column.
    Hist(HistSpec),
    /// Contingency tables.
    Tables(TablesSpec),
    /// Contingency tables over merged cells.
    Merged(MergedSpec),
    /// Products of signs of two columns.
    Signs(SignsSpec),
    /// Values of single columns.
    Values(ValuesSpec),
    /// A map that the user wrote.
    Custom(CustomSpec),
}

/// Parameters of random Fourier features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RffSpec {
    /// How many features: a cosine and a sine for each of m/2 frequencies.
    pub m: usize,
    /// The bandwidth of the kernel, for columns rescaled to [0, 1].
    pub sigma: f64,
    /// The kernel.
    pub kernel: Kernel,
    /// How frequencies are drawn; orthogonal unless the kernel does not allow it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequencies: Option<Frequencies>,
    /// The grid of the features.
    pub precision: Precision,
    /// The public seed.
    pub seed: u64,
    /// The columns that are used; all when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
}

impl Default for RffSpec {
    fn default() -> Self {
        Self {
            m: 200,
            sigma: 1.0,
            kernel: Kernel::Gaussian,
            frequencies: None,
            precision: Precision::Fast,
            seed: 0,
            columns: Vec::new(),
        }
    }
}

impl RffSpec {
    /// How frequencies are drawn.
    pub fn frequencies(&self) -> Frequencies {
        self.frequencies.unwrap_or(match self.kernel {
            Kernel::Laplace => Frequencies::Iid,
            _ => Frequencies::Orthogonal,
        })
    }
}

/// A shift-invariant kernel, by its law of frequencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kernel {
    /// $e^{-\|x-x'\|^2/2\sigma^2}$.
    Gaussian,
    /// $e^{-\|x-x'\|_1/\sigma}$.
    Laplace,
    /// Matérn with ν = 1/2.
    Matern12,
    /// Matérn with ν = 3/2.
    Matern32,
    /// Matérn with ν = 5/2.
    Matern52,
}

/// How frequencies are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Frequencies {
    /// Independently, as in the paper.
    Iid,
    /// Orthogonal in blocks, with stratified lengths.
    Orthogonal,
}

/// The grid of Fourier features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 2⁻²⁰, single-precision arithmetic.
    Fast,
    /// 2⁻³⁰, double-precision arithmetic.
    Precise,
}

/// Parameters of RACE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RaceSpec {
    /// How many hashes.
    pub r: usize,
    /// Buckets of each hash; a power of two for the angular hash.
    pub w: usize,
    /// Width of a bucket before wrapping (Euclidean hash).
    pub sigma: f64,
    /// The kind of hash.
    pub hash: Hash,
    /// The public seed.
    pub seed: u64,
    /// The columns that are used; all when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
}

impl Default for RaceSpec {
    fn default() -> Self {
        Self { r: 80, w: 80, sigma: 1.0, hash: Hash::Euclidean, seed: 0, columns: Vec::new() }
    }
}

/// A family of locality-sensitive hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hash {
    /// Which slab between parallel planes, for Euclidean distance.
    Euclidean,
    /// On which side of planes through the middle, for angles.
    Angular,
}

/// Parameters of histograms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HistSpec {
    /// Bins of a numeric column, besides its atoms and "missing".
    pub bins: u32,
    /// A column of whole numbers that has up to this many gets a cell for each; as many as `bins` unless it is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole: Option<u32>,
    /// How many times the first bin is halved towards the low end of the range, where numbers crowd whose scale is not that of
    /// the range. If it is at all, the last is cut as near to the high end, unless whole numbers leave too little of it.
    #[serde(skip_serializing_if = "not_halved")]
    pub halved: u32,
    /// How many times the bins on either side of 0 are halved towards it instead, where the range of a column goes on beyond
    /// both: numbers that may be below 0 crowd there, if anywhere. Bins begin at 0 then. Not of dates, nor of whole numbers
    /// without a transform.
    #[serde(skip_serializing_if = "not_halved")]
    pub about_zero: u32,
    /// The columns that are used; all when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
}

impl Default for HistSpec {
    fn default() -> Self {
        Self::with_bins(32)
    }
}

impl HistSpec {
    /// Histograms of all columns.
    pub fn with_bins(bins: u32) -> Self {
        Self { bins, whole: None, halved: 0, about_zero: 0, columns: Vec::new() }
    }

    /// How many bins a column is cut into.
    pub(crate) fn bins_of(&self, column: &Column) -> u32 {
        let values =
            column.kind.range().filter(|_| column.kind.is_whole()).map(|range| range.max() - range.min() + 1.0);
        match (self.whole, values) {
            (Some(whole), Some(values)) if values <= f64::from(whole) => whole,
            _ => self.bins,
        }
    }
}

/// Parameters of contingency tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TablesSpec {
    /// A table for every group of this many columns, unless `groups` names them.
    pub ways: usize,
    /// The groups of columns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Vec<String>>,
    /// Bins of a numeric column, besides its atoms and "missing".
    pub bins: u32,
    /// The columns from which groups are formed; all when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
}

impl Default for TablesSpec {
    fn default() -> Self {
        Self { ways: 2, groups: Vec::new(), bins: 8, columns: Vec::new() }
    }
}

/// Parameters of contingency tables whose columns have the cells of a histogram, merged into groups: those of about equal
/// probability, say, when an earlier round has released the histograms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MergedSpec {
    /// The columns.
    pub columns: Vec<MergedColumn>,
    /// The tables, each by the places of its columns in that list.
    pub tables: Vec<Vec<u32>>,
}

/// A column of [`MergedSpec`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MergedColumn {
    /// Its name.
    pub name: String,
    /// Bins of its histogram, as in [`HistSpec`].
    pub bins: u32,
    /// How many times its first bin is halved, likewise.
    #[serde(default, skip_serializing_if = "not_halved")]
    pub halved: u32,
    /// How many times those about 0 are halved, likewise.
    #[serde(default, skip_serializing_if = "not_halved")]
    pub about_zero: u32,
    /// The group of each cell of that histogram, numbered from 0.
    pub groups: Vec<u32>,
}

/// Parameters of products of signs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignsSpec {
    /// The columns.
    pub columns: Vec<SignColumn>,
    /// The pairs of which products are added up, each by the places of its columns in that list.
    pub pairs: Vec<[u32; 2]>,
}

/// A column of [`SignsSpec`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignColumn {
    /// Its name.
    pub name: String,
    /// Bins of its histogram, as in [`HistSpec`].
    pub bins: u32,
    /// How many times its first bin is halved, likewise.
    #[serde(default, skip_serializing_if = "not_halved")]
    pub halved: u32,
    /// How many times those about 0 are halved, likewise.
    #[serde(default, skip_serializing_if = "not_halved")]
    pub about_zero: u32,
    /// The sign of each cell of that histogram: -1, 0 or 1.
    pub signs: Vec<i8>,
}

/// Parameters of values of single columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValuesSpec {
    /// The columns, all numeric.
    pub columns: Vec<ValueColumn>,
}

/// A column of [`ValuesSpec`]: its feature goes from -1 at the low end of an interval to 1 at the high end, stays there
/// beyond, and is 0 where the number is missing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueColumn {
    /// Its name.
    pub name: String,
    /// The low end, in 65536ths of the way from the column's minimum to its maximum.
    pub low: u32,
    /// The high end.
    pub high: u32,
}

/// What a release says about a map that the user wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomSpec {
    /// A name by which its analysts find the code.
    pub name: String,
    /// Whatever that code needs to know.
    #[serde(default)]
    pub parameters: serde_json::Value,
    /// How many features.
    pub features: usize,
    /// The bound on one record.
    pub body: Body,
}

const MAX_TABLES: usize = 100_000;
/// Columns of all tables of a map, added up: what a file may ask for before its cells are counted.
const MAX_PLACES: usize = 1 << 20;
/// The most bins of a column.
const MAX_BINS: u32 = 100_000;
/// The first bin of a histogram is halved at most so many times.
const MAX_HALVED: u32 = 24;
/// Random numbers in the description of one map.
const MAX_DRAWS: usize = 1 << 27;
/// The largest feature of a user's map: a panel of them adds up within 64 bits.
const MAX_CUSTOM: u64 = 1 << 40;

impl Design {
    /// A design of blocks whose shares add up to 1.
    pub fn new(blocks: Vec<Block>) -> Result<Self, Error> {
        Self::reserving(blocks, Decimal::ZERO)
    }

    /// A design of one round, whose shares and what is left for another round add up to 1.
    pub(crate) fn reserving(blocks: Vec<Block>, reserved: Decimal) -> Result<Self, Error> {
        if blocks.is_empty() || blocks.len() > 1000 {
            return Err(Error::Design("give between 1 and 1000 maps".into()));
        }
        let total = blocks.iter().fold(reserved, |sum, block| sum + block.share);
        if blocks.iter().any(|block| block.share == Decimal::ZERO) {
            return Err(Error::Design("a map has no share of the budget; give it one, or remove it".into()));
        }
        if total != Decimal::ONE {
            return Err(Error::Design(format!(
                "the shares of the maps add up to {total}; change them so that they add up to 1"
            )));
        }
        Ok(Self { blocks, reserved, after: None })
    }

    /// A design of one map.
    pub fn single(map: MapSpec) -> Self {
        Self { blocks: vec![Block { share: Decimal::ONE, map }], reserved: Decimal::ZERO, after: None }
    }

    /// The maps with their shares.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The part of the budget for sums that another round has.
    pub fn reserved(&self) -> Decimal {
        self.reserved
    }

    /// The same as the second round after a first with this hash.
    pub(crate) fn after(self, first: String) -> Self {
        Self { after: Some(first), ..self }
    }

    /// The hash of the first round that this is the second for.
    pub(crate) fn first(&self) -> Option<&str> {
        self.after.as_deref()
    }

    /// Reads the TOML form: a `[[map]]` with `kind`, `share` and its parameters for each.
    pub fn from_toml(text: &str) -> Result<Self, Error> {
        let design: Self = toml::from_str(text).map_err(|error| Error::Design(toml_message(&error, "design: ")))?;
        if design.reserved != Decimal::ZERO || design.after.is_some() {
            return Err(Error::Design(
                "`reserved` and `after` are for the rounds of --design auto; give all of the budget to maps".into(),
            ));
        }
        Ok(design)
    }

    /// Reads the short form `kind` or `kind:key=value,key=value`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (kind, settings) = text.split_once(':').unwrap_or((text, ""));
        if !matches!(kind, "rff" | "race" | "hist" | "tables") {
            return Err(Error::Design(format!(
                "there is no map `{kind}`; choose rff, race, hist or tables, or give a .toml file with several"
            )));
        }
        let mut toml = format!("kind = \"{kind}\"\nshare = 1.0\n");
        for setting in settings.split(',').filter(|setting| !setting.trim().is_empty()) {
            let Some((key, value)) = setting.split_once('=') else {
                return Err(Error::Design(format!("`{setting}` is not a setting such as m=200")));
            };
            let (key, value) = (key.trim(), value.trim());
            let simple = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "_.+-".contains(c));
            if key.is_empty() || value.is_empty() || !simple(key) || !simple(value) {
                return Err(Error::Design(format!("`{setting}` is not a setting such as m=200")));
            }
            let quoted = if value.parse::<f64>().is_ok() { value.to_owned() } else { format!("\"{value}\"") };
            toml += &format!("{key} = {quoted}\n");
        }
        let block: Block =
            toml::from_str(&toml).map_err(|error| Error::Design(format!("{text}: {}", error.message())))?;
        Self::new(vec![block])
    }

    /// Builds the maps for a schema. A wider [`Simd`] than the processor has is narrowed to what it has.
    pub fn maps(&self, schema: &Schema, simd: Simd) -> Result<Vec<Box<dyn FeatureMap>>, Error> {
        self.maps_with(schema, simd, |spec| {
            Err(Error::Design(format!(
                "`{}` is a map that a user wrote; hand its code to the library (Sketcher::with_maps)",
                spec.name
            )))
        })
    }

    /// The same, with the user's own maps from elsewhere.
    pub(crate) fn maps_with(
        &self,
        schema: &Schema,
        simd: Simd,
        mut custom: impl FnMut(&CustomSpec) -> Result<Box<dyn FeatureMap>, Error>,
    ) -> Result<Vec<Box<dyn FeatureMap>>, Error> {
        let simd = simd.min(Simd::detect());
        let layout = Layout::new(schema);
        let mut maps: Vec<Box<dyn FeatureMap>> = Vec::with_capacity(self.blocks.len());
        for Block { map, .. } in &self.blocks {
            map.check(schema)?;
            maps.push(match map {
                MapSpec::Rff(spec) => Box::new(Rff::new(spec, &inputs(schema, &layout, &spec.columns)?, simd)?),
                MapSpec::Race(spec) => Box::new(Race::new(spec, &inputs(schema, &layout, &spec.columns)?, simd)?),
                MapSpec::Hist(_) | MapSpec::Tables(_) | MapSpec::Merged(_) => {
                    Box::new(Tables::new(map.groups(schema)?, simd)?)
                }
                MapSpec::Signs(spec) => Box::new(spec.map(schema, simd)?),
                MapSpec::Values(spec) => Box::new(spec.map(schema)?),
                MapSpec::Custom(spec) => custom(spec)?,
            });
        }
        if maps.iter().map(|map| map.len()).sum::<usize>() > MAX_FEATURES {
            return Err(Error::Design(format!("more than {MAX_FEATURES} features in all; take smaller maps")));
        }
        Ok(maps)
    }
}

impl Default for Design {
    /// Histograms and Fourier features, half the budget each.
    fn default() -> Self {
        let half: Decimal = "0.5".parse().expect("a decimal");
        let block = |map| Block { share: half, map };
        let blocks = vec![block(MapSpec::Hist(HistSpec::default())), block(MapSpec::Rff(RffSpec::default()))];
        Self { blocks, reserved: Decimal::ZERO, after: None }
    }
}

impl TryFrom<RawDesign> for Design {
    type Error = Error;
    fn try_from(raw: RawDesign) -> Result<Self, Error> {
        Ok(Self { after: raw.after, ..Self::reserving(raw.map, raw.reserved)? })
    }
}

impl From<Design> for RawDesign {
    fn from(design: Design) -> Self {
        Self { map: design.blocks, reserved: design.reserved, after: design.after }
    }
}

impl MapSpec {
    /// The word for the map.
    pub fn name(&self) -> &str {
        match self {
            Self::Rff(_) => "rff",
            Self::Race(_) => "race",
            Self::Hist(_) => "hist",
            Self::Tables(_) => "tables",
            Self::Merged(_) => "merged",
            Self::Signs(_) => "signs",
            Self::Values(_) => "values",
            Self::Custom(spec) => &spec.name,
        }
    }

    /// Integer features are this many times the real ones.
    pub fn grid(&self) -> u64 {
        match self {
            Self::Rff(RffSpec { precision: Precision::Fast, .. }) => super::rff::FAST,
            Self::Rff(RffSpec { precision: Precision::Precise, .. }) => super::rff::PRECISE,
            Self::Values(_) => GRID as u64,
            _ => 1,
        }
    }

    /// The most that a bin of any column is halved.
    fn halved(&self) -> u32 {
        match self {
            Self::Hist(spec) => spec.halved.max(spec.about_zero),
            Self::Merged(spec) => {
                spec.columns.iter().map(|column| column.halved.max(column.about_zero)).max().unwrap_or(0)
            }
            Self::Signs(spec) => {
                spec.columns.iter().map(|column| column.halved.max(column.about_zero)).max().unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// Whether the parameters make sense for a schema.
    fn check(&self, schema: &Schema) -> Result<(), Error> {
        let fail = |message: &str| Err(Error::Design(format!("{}: {message}", self.name())));
        let drawn = |directions: usize, columns: &[String]| {
            let inputs = inputs(schema, &Layout::new(schema), columns)?;
            if directions.saturating_mul(coordinates(&inputs)) > MAX_DRAWS {
                return Err(Error::Design(format!(
                    "{}: too many features for so many columns and levels; name fewer columns, or take a smaller map",
                    self.name()
                )));
            }
            Ok(())
        };
        if self.halved() > MAX_HALVED {
            return fail(&format!("bins are halved {} times; give a number up to {MAX_HALVED}", self.halved()));
        }
        match self {
            Self::Rff(spec) => {
                if spec.m == 0 || spec.m % 2 == 1 || spec.m > MAX_FEATURES {
                    return fail(&format!("m must be an even number from 2 to {MAX_FEATURES}"));
                }
                check_sigma(spec.sigma)?;
                if spec.kernel == Kernel::Laplace && spec.frequencies == Some(Frequencies::Orthogonal) {
                    return fail("the Laplace kernel has no orthogonal frequencies; take frequencies = \"iid\"");
                }
                drawn(spec.m / 2, &spec.columns)
            }
            Self::Race(spec) => {
                if spec.r == 0 || !(2..=4096).contains(&spec.w) || spec.r.saturating_mul(spec.w) > MAX_FEATURES {
                    return fail(&format!("r must be at least 1, w from 2 to 4096, and r·w at most {MAX_FEATURES}"));
                }
                if spec.hash == Hash::Angular && !spec.w.is_power_of_two() {
                    return fail("the angular hash needs w to be a power of two");
                }
                check_sigma(spec.sigma)?;
                drawn(spec.r * spec.w.ilog2() as usize, &spec.columns)
            }
            Self::Hist(HistSpec { bins, .. }) | Self::Tables(TablesSpec { bins, .. })
                if !(1..=MAX_BINS).contains(bins) =>
            {
                fail(&format!("bins is {bins}; give a number from 1 to {MAX_BINS}"))
            }
            Self::Hist(HistSpec { whole: Some(whole), .. }) if !(1..=MAX_BINS).contains(whole) => {
                fail(&format!("whole is {whole}; give a number from 1 to {MAX_BINS}"))
            }
            Self::Hist(_) => Ok(()),
            Self::Tables(TablesSpec { groups, .. }) => {
                if groups.len() > MAX_TABLES || groups.iter().map(Vec::len).sum::<usize>() > MAX_PLACES {
                    return fail(&format!("give at most {MAX_TABLES} groups, of {MAX_PLACES} columns in all"));
                }
                Ok(())
            }
            Self::Merged(spec) => {
                if spec.tables.is_empty() || spec.tables.len() > MAX_TABLES {
                    return fail(&format!("give from 1 to {MAX_TABLES} tables"));
                }
                if spec.tables.iter().map(Vec::len).sum::<usize>() > MAX_PLACES {
                    return fail(&format!("give tables of at most {MAX_PLACES} columns in all"));
                }
                if spec.columns.iter().any(|column| !(1..=MAX_BINS).contains(&column.bins)) {
                    return fail(&format!("give every column from 1 to {MAX_BINS} bins"));
                }
                let wrong = |table: &Vec<u32>| {
                    table.is_empty()
                        || table.iter().any(|column| *column as usize >= spec.columns.len())
                        || table.windows(2).any(|pair| pair[0] >= pair[1])
                };
                if spec.tables.iter().any(wrong) {
                    return fail("name the columns of each table by their places, in increasing order");
                }
                Ok(())
            }
            Self::Signs(spec) => {
                if spec.pairs.is_empty() || spec.pairs.len() > MAX_TABLES {
                    return fail(&format!("give from 1 to {MAX_TABLES} pairs of columns"));
                }
                if spec.columns.iter().any(|column| !(1..=MAX_BINS).contains(&column.bins)) {
                    return fail(&format!("give every column from 1 to {MAX_BINS} bins"));
                }
                let wrong = |[one, two]: &[u32; 2]| one >= two || *two as usize >= spec.columns.len();
                if spec.pairs.iter().any(wrong) {
                    return fail("name the columns of each pair by their places, in increasing order");
                }
                Ok(())
            }
            Self::Values(spec) => {
                if spec.columns.is_empty() || spec.columns.len() > MAX_TABLES {
                    return fail(&format!("give from 1 to {MAX_TABLES} columns"));
                }
                if spec.columns.iter().any(|column| column.low >= column.high || column.high > STEPS) {
                    return fail(&format!("give every column a low end below its high end, from 0 to {STEPS}"));
                }
                Ok(())
            }
            Self::Custom(spec) => {
                if !matches!(spec.body, Body::Bounded { .. }) {
                    return fail("declare Body::Bounded, the bound that is enforced on every record");
                }
                if spec.features == 0 || spec.features > MAX_FEATURES || spec.body.largest() > MAX_CUSTOM {
                    return fail(&format!("give 1 to {MAX_FEATURES} features, each at most {MAX_CUSTOM} in size"));
                }
                Ok(())
            }
        }
    }

    /// The cells of the columns of each table.
    fn groups(&self, schema: &Schema) -> Result<Vec<Vec<Cells>>, Error> {
        match self {
            Self::Hist(spec) => spec.cells(schema),
            Self::Tables(spec) => spec.cells(schema),
            Self::Merged(spec) => spec.cells(schema),
            _ => Ok(Vec::new()),
        }
    }

    /// For histograms and tables: where each table starts, and the cells of its columns.
    pub fn tables(&self, schema: &Schema) -> Result<Vec<(usize, Vec<Cells>)>, Error> {
        self.check(schema)?;
        let mut first = 0;
        Ok(self
            .groups(schema)?
            .into_iter()
            .map(|group| {
                let at = first;
                first += group.iter().map(Cells::len).product::<usize>();
                (at, group)
            })
            .collect())
    }

    /// For maps of which a record moves at most one feature of each of some groups: how many features are in each, in their
    /// order. Nothing for others.
    pub fn one_hot_groups(&self, schema: &Schema) -> Result<Vec<usize>, Error> {
        self.check(schema)?;
        match self {
            Self::Race(spec) => Ok(vec![spec.w; spec.r]),
            Self::Signs(spec) => Ok(vec![1; spec.pairs.len()]),
            Self::Values(spec) => Ok(vec![1; spec.columns.len()]),
            _ => Ok(self.groups(schema)?.iter().map(|group| group.iter().map(Cells::len).product()).collect()),
        }
    }

    /// How many features and what bounds them, without building the map.
    pub fn shape(&self, schema: &Schema) -> Result<(usize, Body), Error> {
        self.check(schema)?;
        match self {
            Self::Rff(spec) => Ok((spec.m, Body::Discs { pairs: spec.m as u64 / 2, radius: self.grid() + 1 })),
            Self::Race(spec) => Ok((spec.r * spec.w, Body::OneHot { groups: spec.r as u64 })),
            Self::Custom(spec) => Ok((spec.features, spec.body)),
            Self::Signs(spec) => {
                let map = spec.map(schema, Simd::Portable)?;
                Ok((map.len(), map.body()))
            }
            Self::Values(spec) => {
                let map = spec.map(schema)?;
                Ok((map.len(), map.body()))
            }
            Self::Hist(_) | Self::Tables(_) | Self::Merged(_) => {
                let map = Tables::new(self.groups(schema)?, Simd::Portable)?;
                Ok((map.len(), map.body()))
            }
        }
    }
}

fn check_sigma(sigma: f64) -> Result<(), Error> {
    if sigma.is_finite() && sigma > 0.0 {
        Ok(())
    } else {
        Err(Error::Design(format!("sigma is {sigma}; give a finite number above 0, such as 1.0")))
    }
}

impl HistSpec {
    fn cells(&self, schema: &Schema) -> Result<Vec<Vec<Cells>>, Error> {
        let inputs = inputs(schema, &Layout::new(schema), &self.columns)?;
        let cells = |input: &Input| {
            let bins = self.bins_of(&schema.columns()[input.column]);
            Cells::new(schema, input, bins, self.halved, self.about_zero)
        };
        Ok(inputs.iter().map(|input| vec![cells(input)]).collect())
    }
}

impl TablesSpec {
    fn cells(&self, schema: &Schema) -> Result<Vec<Vec<Cells>>, Error> {
        let layout = Layout::new(schema);
        let groups: Vec<Vec<String>> = if self.groups.is_empty() {
            let names: Vec<String> = inputs(schema, &layout, &self.columns)?
                .iter()
                .map(|input| schema.columns()[input.column].name.clone())
                .collect();
            combinations(&names, self.ways)?
        } else {
            self.groups.clone()
        };
        if groups.is_empty() || groups.iter().any(Vec::is_empty) {
            return Err(Error::Design(format!(
                "tables: there is no group of {} among the columns; name groups, or take fewer ways",
                self.ways
            )));
        }
        // Those of one column share their atoms, however many groups it is in.
        let mut of_column: HashMap<usize, Cells> = HashMap::new();
        let mut cells = |input: &Input| {
            of_column.entry(input.column).or_insert_with(|| Cells::new(schema, input, self.bins, 0, 0)).clone()
        };
        groups.iter().map(|group| Ok(inputs(schema, &layout, group)?.iter().map(&mut cells).collect())).collect()
    }
}

impl MergedSpec {
    fn cells(&self, schema: &Schema) -> Result<Vec<Vec<Cells>>, Error> {
        let names: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
        let inputs = inputs(schema, &Layout::new(schema), &names)?;
        let cells = self
            .columns
            .iter()
            .zip(&inputs)
            .map(|(column, input)| {
                let MergedColumn { name, bins, halved, about_zero, groups } = column;
                Cells::new(schema, input, *bins, *halved, *about_zero).merge(groups).ok_or_else(|| {
                    Error::Design(format!("merged: column `{name}` needs a group for each of its cells, without gaps"))
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(self.tables.iter().map(|table| table.iter().map(|at| cells[*at as usize].clone()).collect()).collect())
    }
}

impl SignsSpec {
    fn map(&self, schema: &Schema, simd: Simd) -> Result<Signs, Error> {
        let names: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
        let inputs = inputs(schema, &Layout::new(schema), &names)?;
        let cells = |(column, input): (&SignColumn, &Input)| {
            (Cells::new(schema, input, column.bins, column.halved, column.about_zero), column.signs.clone())
        };
        Signs::new(self.columns.iter().zip(&inputs).map(cells).collect(), self.pairs.clone(), simd)
    }
}

impl ValuesSpec {
    fn map(&self, schema: &Schema) -> Result<Values, Error> {
        let names: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
        let inputs = inputs(schema, &Layout::new(schema), &names)?;
        let clipped = |(column, input): (&ValueColumn, &Input)| match input.slot {
            Slot::Unit(slot) => Ok(Clipped::new(input.column, slot, column.low, column.high)),
            Slot::Code(_) => {
                Err(Error::Design(format!("values: column `{}` has no numbers; leave it out", column.name)))
            }
        };
        Ok(Values::new(self.columns.iter().zip(&inputs).map(clipped).collect::<Result<_, _>>()?))
    }
}

/// All subsets of `ways` names, in order.
fn combinations(names: &[String], ways: usize) -> Result<Vec<Vec<String>>, Error> {
    if ways == 0 || ways > 8 {
        return Err(Error::Design(format!("tables: ways is {ways}; give a number from 1 to 8")));
    }
    let mut all: Vec<Vec<usize>> = vec![vec![]];
    for _ in 0..ways {
        let mut longer = Vec::new();
        for group in &all {
            let next = group.last().map_or(0, |last| last + 1);
            longer.extend((next..names.len()).map(|i| [&group[..], &[i]].concat()));
            if longer.len() > MAX_TABLES {
                return Err(Error::Design(format!("tables: more than {MAX_TABLES} groups; name the groups instead")));
            }
        }
        all = longer;
    }
    Ok(all.into_iter().map(|group| group.into_iter().map(|i| names[i].clone()).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_agree() {
        let short = Design::parse("rff:m=100, sigma=0.5, kernel=matern32, frequencies=iid, precision=precise").unwrap();
        let long = Design::from_toml(
            "[[map]]\nkind='rff'\nshare=1.0\nm=100\nsigma=0.5\nkernel='matern32'\nfrequencies='iid'\nprecision='precise'",
        )
        .unwrap();
        assert_eq!(short, long);
        let json = serde_json::to_string(&Design::default()).unwrap();
        assert_eq!(serde_json::from_str::<Design>(&json).unwrap(), Design::default());
    }

    /// What a file asks for is refused before any of it is made.
    #[test]
    fn tables_of_millions_of_columns_are_refused() {
        let schema = Schema::from_toml("[[column]]\nname='a'\ntype='boolean'").unwrap();
        let column = MergedColumn { name: "a".into(), bins: 1, halved: 0, about_zero: 0, groups: vec![0; 3] };
        let tables = |count| vec![(0..2000).collect::<Vec<u32>>(); count];
        let merged = |count| MapSpec::Merged(MergedSpec { columns: vec![column.clone(); 2000], tables: tables(count) });
        let groups = |count| {
            MapSpec::Tables(TablesSpec { groups: vec![vec!["a".into(); 2000]; count], ..TablesSpec::default() })
        };
        for map in [merged(600), groups(600)] {
            let error = map.tables(&schema).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("columns in all"), "{error}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let schema = Schema::from_toml("[[column]]\nname='a'\ntype='boolean'").unwrap();
        let cases = [
            ("fft", "rff, race, hist"),
            ("rff:m=3", "even"),
            ("rff:m", "m=200"),
            ("rff:q=3", "q"),
            ("rff:sigma=0", "sigma"),
            ("rff:sigma=nan", "sigma"),
            ("rff:sigma=1e-12", "larger sigma"),
            ("rff:kernel=laplace,frequencies=orthogonal", "iid"),
            ("race:w=1", "w from 2"),
            ("race:w=80,hash=angular", "power of two"),
            ("hist:bins=0", "bins"),
            ("tables:ways=2", "no group"),
            ("tables:ways=9", "ways"),
            ("hist:columns=b", "columns"),
        ];
        for (text, expected) in cases {
            let result = Design::parse(text).and_then(|design| design.maps(&schema, Simd::detect()).map(|_| ()));
            let message = result.unwrap_err().to_string();
            assert!(message.contains(expected), "{text} gave {message}");
        }
        for (text, expected) in [
            ("[[map]]\nkind='hist'\nshare=0.5", "add up to 0.5"),
            ("[[map]]\nkind='hist'\nshare=0.5\n[[map]]\nkind='rff'\nshare=0.6", "add up to 1.1"),
            ("[[map]]\nkind='hist'\nshare=1.0\nbin=3", "bin"),
            ("[[map]]\nkind='hist'", "share"),
            ("map = []", "between 1"),
        ] {
            let message = Design::from_toml(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text} gave {message}");
        }
    }
}
