//! Events by which two tables could be told apart, and the choice of the most telling one.

use std::fmt;

/// What an auditor looks at in a release.
pub(super) struct Observation {
    /// How much likelier each part is from the first table than from the second, as a logarithm: the count, then block by
    /// block.
    pub ratios: Vec<f64>,
    /// The count, then the sums. A design that depends on noise has more or fewer of them.
    pub coordinates: Vec<i64>,
}

/// A number computed from a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Statistic {
    /// The likelihood ratio of the whole release.
    Ratio,
    /// That of a block alone: it sees where other blocks drown out.
    BlockRatio(usize),
    Coordinate(usize),
    Difference(usize, usize),
    LowBits {
        at: usize,
        bits: u32,
    },
}

/// The most coordinates that are looked at one by one, and in pairs.
const SINGLES: usize = 32;
const PAIRED: usize = 6;
const LOW_BITS: [u32; 3] = [1, 4, 6];

impl Statistic {
    /// Everything that is looked at where all releases have at least so many blocks and coordinates.
    fn all(blocks: usize, coordinates: usize) -> Vec<Self> {
        let singles = coordinates.min(SINGLES);
        let mut all = vec![Self::Ratio];
        if blocks > 1 {
            all.extend((1..=blocks).map(Self::BlockRatio));
        }
        all.extend((0..singles).map(Self::Coordinate));
        for i in 0..singles {
            all.extend((i + 1..singles).filter(|j| *j < PAIRED || *j == i + 1).map(|j| Self::Difference(i, j)));
        }
        let low = |at| LOW_BITS.map(|bits| Self::LowBits { at, bits });
        all.extend((0..singles.min(PAIRED)).flat_map(low));
        all
    }

    fn value(self, observation: &Observation) -> f64 {
        let at = |i: usize| observation.coordinates.get(i).copied().unwrap_or(0);
        match self {
            Self::Ratio => observation.ratios.iter().sum(),
            Self::BlockRatio(block) => observation.ratios.get(block).copied().unwrap_or(0.0),
            Self::Coordinate(i) => at(i) as f64,
            Self::Difference(i, j) => at(i).saturating_sub(at(j)) as f64,
            Self::LowBits { at: i, bits } => (at(i) & ((1 << bits) - 1)) as f64,
        }
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |i: usize| if i == 0 { "count".to_owned() } else { format!("sum {i}") };
        match *self {
            Self::Ratio => write!(f, "likelihood ratio"),
            Self::BlockRatio(block) => write!(f, "likelihood ratio of block {block}"),
            Self::Coordinate(i) => write!(f, "{}", name(i)),
            Self::Difference(i, j) => write!(f, "{} − {}", name(i), name(j)),
            Self::LowBits { at, bits } => write!(f, "{} mod {}", name(at), 1u64 << bits),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Test {
    AtLeast(f64),
    AtMost(f64),
    Equal(f64),
}

/// Something that happens or not to a release, and is to be likelier for one of two tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Event {
    statistic: Statistic,
    test: Test,
    /// Which of the tables it is likelier for.
    pub likelier: usize,
}

impl Event {
    pub fn happens(&self, observation: &Observation) -> bool {
        let value = self.statistic.value(observation);
        match self.test {
            Test::AtLeast(limit) => value >= limit,
            Test::AtMost(limit) => value <= limit,
            Test::Equal(exact) => value == exact,
        }
    }

    /// The event that promises the highest lower bound on ε at δ, going by releases of either table. Those are used for
    /// nothing else: what is concluded comes from fresh ones.
    pub fn choose(seen: &[Vec<Observation>; 2], delta: f64) -> Self {
        let least = |size: fn(&Observation) -> usize| seen.iter().flatten().map(size).min().unwrap_or(0);
        let blocks = least(|observation| observation.ratios.len().saturating_sub(1));
        let coordinates = least(|observation| observation.coordinates.len());
        let mut best = (f64::NEG_INFINITY, Self { statistic: Statistic::Ratio, test: Test::AtLeast(0.0), likelier: 0 });
        for statistic in Statistic::all(blocks, coordinates) {
            let sorted = [0, 1].map(|table: usize| {
                let mut values: Vec<f64> = seen[table].iter().map(|observation| statistic.value(observation)).collect();
                values.sort_by(f64::total_cmp);
                values
            });
            for (test, happened) in candidates(&sorted) {
                for likelier in [0, 1] {
                    let (more, less) = (happened[likelier], happened[1 - likelier]);
                    let score = promise(more, less, seen[0].len(), delta);
                    if score > best.0 {
                        best = (score, Self { statistic, test, likelier });
                    }
                }
            }
        }
        best.1
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, value) = match self.test {
            Test::AtLeast(value) => ("≥", value),
            Test::AtMost(value) => ("≤", value),
            Test::Equal(value) => ("=", value),
        };
        let value = match self.statistic {
            Statistic::Ratio | Statistic::BlockRatio(_) => format!("{value:.2}"),
            _ => value.to_string(),
        };
        write!(f, "{} {sign} {value}", self.statistic)
    }
}

/// Tests of a statistic at the values that it took, with how often each came out for either table.
fn candidates(sorted: &[Vec<f64>; 2]) -> Vec<(Test, [usize; 2])> {
    const STEPS: usize = 200;
    let below = |limit: f64| [0, 1].map(|table: usize| sorted[table].partition_point(|value| *value < limit));
    let up_to = |limit: f64| [0, 1].map(|table: usize| sorted[table].partition_point(|value| *value <= limit));
    let mut limits: Vec<f64> =
        sorted.iter().flat_map(|values| values.iter().step_by((values.len() / STEPS).max(1))).copied().collect();
    // A value that comes up again and again stands beside itself.
    limits.extend(sorted.iter().flat_map(|values| {
        let far = (values.len() / 50).max(1);
        values.windows(far + 1).step_by(far).filter(move |run| run[0] == run[far]).map(|run| run[0])
    }));
    limits.sort_by(f64::total_cmp);
    limits.dedup();
    let mut tests = Vec::with_capacity(3 * limits.len());
    for limit in limits {
        let (below, up_to) = (below(limit), up_to(limit));
        tests.push((Test::AtLeast(limit), [0, 1].map(|table: usize| sorted[table].len() - below[table])));
        tests.push((Test::AtMost(limit), up_to));
        tests.push((Test::Equal(limit), [0, 1].map(|table: usize| up_to[table] - below[table])));
    }
    tests
}

/// About the lower bound on ε that such counts give, by Wilson's intervals.
fn promise(more: usize, less: usize, trials: usize, delta: f64) -> f64 {
    const Z: f64 = 3.0;
    let n = trials as f64;
    let bound = |count: usize, z: f64| {
        let p = count as f64 / n;
        (p + z * z / (2.0 * n) + z * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt()) / (1.0 + z * z / n)
    };
    ((bound(more, -Z) - delta).max(0.0) / bound(less, Z)).ln()
}
