//! The public file: noisy sums with everything needed to read them.

mod file;

use serde::{Deserialize, Serialize};

use crate::feature::{Block, Body, MapSpec};
use crate::privatise::{Budget, Calibration, Mechanism, Neighbours, NoiseKind, Plan, Privacy};
use crate::{Decimal, Design, Error, Schema};

/// One differentially private release. Everything in it is public.
#[derive(Clone, Debug, PartialEq)]
pub struct Release {
    schema: Schema,
    statement: Statement,
    count: Count,
    blocks: Vec<ReleasedBlock>,
    reserved: Option<Reserved>,
}

/// What the first of two rounds left to the second. The statement is about both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reserved {
    /// The part of the budget for sums.
    pub share: Decimal,
    /// By which the ledger that paid for both rounds knows the second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pledge: Option<String>,
    /// Whether the curator wants Laplace noise in the second round, too, though K-norm noise may be smaller.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub laplace: bool,
}

/// What the release promises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// What was spent.
    pub budget: Budget,
    /// Which tables are told apart no better than that.
    pub neighbours: Neighbours,
    /// `"row"`, or the column that identifies a user.
    pub unit: String,
    /// How many rows of one unit count.
    pub max_rows: u32,
    /// The part of the budget that went to the number of rows; nothing when that number is public.
    pub count_share: Option<Decimal>,
}

/// The number of rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Count {
    /// Noisy, or exact where it is public. May be negative.
    pub value: i64,
    /// Its noise.
    pub noise: Option<Mechanism>,
}

/// The noisy sums of one map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleasedBlock {
    share: Decimal,
    map: MapSpec,
    grid: u64,
    body: Body,
    noise: Mechanism,
    sums: Vec<i64>,
}

impl ReleasedBlock {
    /// Its part of the budget for sums.
    pub fn share(&self) -> Decimal {
        self.share
    }

    /// The map.
    pub fn map(&self) -> &MapSpec {
        &self.map
    }

    /// Integer features are this many times the real ones.
    pub fn grid(&self) -> u64 {
        self.grid
    }

    /// What one row could add.
    pub fn body(&self) -> Body {
        self.body
    }

    /// Its noise.
    pub fn noise(&self) -> Mechanism {
        self.noise
    }

    /// The noisy sums.
    pub fn sums(&self) -> &[i64] {
        &self.sums
    }
}

impl Release {
    pub(crate) fn new(plan: &Plan, count: i64, sums: Vec<Vec<i64>>) -> Result<Self, Error> {
        let schema = plan.schema().clone();
        let privacy = plan.privacy();
        let statement = Statement {
            budget: privacy.budget,
            neighbours: privacy.neighbours,
            unit: schema.unit().name().to_owned(),
            max_rows: schema.unit().max_rows(),
            count_share: plan.count().map(|_| privacy.count_share),
        };
        let blocks = plan
            .design()
            .blocks()
            .iter()
            .zip(plan.blocks())
            .zip(sums)
            .map(|((block, noise), sums)| {
                let body = block.map.shape(&schema)?.1;
                Ok(ReleasedBlock {
                    share: block.share,
                    grid: block.map.grid(),
                    map: block.map.clone(),
                    body,
                    noise,
                    sums,
                })
            })
            .collect::<Result<_, Error>>()?;
        let share = plan.design().reserved();
        let laplace = matches!(privacy.budget, Budget::Pure { .. }) && privacy.noise == NoiseKind::Laplace;
        let reserved = (share != Decimal::ZERO).then_some(Reserved { share, pledge: None, laplace });
        Ok(Self { statement, count: Count { value: count, noise: plan.count() }, blocks, schema, reserved })
    }

    /// Notes which pledge of a ledger pays for the second round.
    pub fn with_pledge(mut self, pledge: String) -> Self {
        if let Some(reserved) = &mut self.reserved {
            reserved.pledge = Some(pledge);
        }
        self
    }

    /// The schema of the table.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// What is promised.
    pub fn statement(&self) -> &Statement {
        &self.statement
    }

    /// The number of rows.
    pub fn count(&self) -> &Count {
        &self.count
    }

    /// The noisy sums, map by map.
    pub fn blocks(&self) -> &[ReleasedBlock] {
        &self.blocks
    }

    /// What is left for a second round, if this is a first.
    pub fn reserved(&self) -> Option<&Reserved> {
        self.reserved.as_ref()
    }

    /// The design it was made with.
    pub fn design(&self) -> Result<Design, Error> {
        let blocks = self.blocks.iter().map(|block| Block { share: block.share, map: block.map.clone() }).collect();
        Design::reserving(blocks, self.reserved.as_ref().map_or(Decimal::ZERO, |reserved| reserved.share))
    }

    /// How it was made private, and is to be in a second round.
    pub(crate) fn privacy(&self) -> Privacy {
        let laplace = self.reserved.as_ref().is_some_and(|reserved| reserved.laplace);
        Privacy {
            budget: self.statement.budget,
            neighbours: self.statement.neighbours,
            count_share: self.statement.count_share.unwrap_or_default(),
            noise: if laplace { NoiseKind::Laplace } else { NoiseKind::Knorm },
        }
    }

    /// Checks what a file says of itself: sizes, bounds, and that the noise is at least what the stated budget needs.
    fn check(&self) -> Result<(), Error> {
        let wrong = |what: &str| {
            Err(Error::Release(format!("{what}, so it is damaged or was not made by m2m; get the original")))
        };
        if self.statement.unit != self.schema.unit().name() || self.statement.max_rows != self.schema.unit().max_rows()
        {
            return wrong("the privacy unit of its statement is not that of its schema");
        }
        // Sizes before contents: a map of a line can take as long to check as a schema has columns.
        self.design()?;
        for block in &self.blocks {
            let (len, body) = block.map.shape(&self.schema)?;
            if block.sums.len() != len || block.body != body || block.grid != block.map.grid() {
                return wrong("a block of sums does not fit its map");
            }
        }
        let plan = |noise| {
            let privacy = Privacy { noise, ..self.privacy() };
            Plan::calibrated(&Calibration::new(&self.schema, privacy)?, &self.design()?)
        };
        let shaped = plan(NoiseKind::Knorm)?;
        let is_enough = match (self.count.noise, shaped.count()) {
            (None, None) => true,
            (Some(stated), Some(needed)) => stated.is_at_least(&needed),
            _ => false,
        };
        // Each block may have either kind of noise: both spend its share and no more.
        let lacks = |plan: &Plan| -> Vec<bool> {
            self.blocks.iter().zip(plan.blocks()).map(|(block, needed)| !block.noise.is_at_least(&needed)).collect()
        };
        let mut lacking = lacks(&shaped);
        if lacking.contains(&true) {
            lacking.iter_mut().zip(lacks(&plan(NoiseKind::Laplace)?)).for_each(|(lacking, plain)| *lacking &= plain);
        }
        if !is_enough || lacking.contains(&true) {
            return wrong("its noise is less than its stated budget needs");
        }
        Ok(())
    }
}
