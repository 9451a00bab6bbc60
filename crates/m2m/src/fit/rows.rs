//! How many rows there are, by all that a release tells of it.

use crate::Error;
use crate::feature::Body;
use crate::release::Release;

/// The number of rows.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    /// At least 1.
    pub value: f64,
    /// The standard deviation of its error.
    pub deviation: f64,
}

impl Rows {
    /// Every record is in one cell of each histogram and of each table, so that the cells of each add up to the number of
    /// rows. Their sums are averaged with the released count, each by what noise leaves it worth: a column of few cells often
    /// tells more than the count, on which little is spent.
    pub fn of(release: &Release) -> Result<Self, Error> {
        let count = release.count();
        let Some(noise) = count.noise else {
            return Ok(Self { value: (count.value as f64).max(1.0), deviation: 0.0 });
        };
        let mut precision = noise.standard_deviation(1).max(SMALLEST).powi(-2);
        let mut sum = precision * count.value as f64;
        for block in release.blocks().iter().filter(|block| matches!(block.body(), Body::OneHot { .. })) {
            let variance = block.noise().standard_deviation(block.sums().len()).max(SMALLEST).powi(2);
            let mut rest = block.sums();
            for cells in block.map().one_hot_groups(release.schema())? {
                let (group, others) = rest.split_at(cells);
                let worth = 1.0 / (cells as f64 * variance);
                precision += worth;
                sum += worth * group.iter().map(|sum| *sum as f64).sum::<f64>();
                rest = others;
            }
        }
        Ok(Self { value: (sum / precision).max(1.0), deviation: precision.powf(-0.5) })
    }
}

/// Noise that is all but none still has a scale.
const SMALLEST: f64 = 1e-9;
