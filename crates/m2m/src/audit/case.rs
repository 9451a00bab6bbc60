//! Neighbouring tables that are as far apart as the schema and the map allow, for every way to make a release.

use serde_json::Value as Json;

use super::Observation;
use crate::auto::{Auto, FirstRound, SecondRound};
use crate::feature::{Body, CustomSpec, FeatureMap, MapSpec, Simd};
use crate::panel::{Panel, Record, Value};
use crate::privatise::{
    Budget, Class, FINE, Mechanism, Neighbours, NoiseKind, Plan, Privacy, Scale, classes, epsilon_of_rho, sensitivity,
};
use crate::source::{self, Table};
use crate::sums::Sketcher;
use crate::{Design, Error, Release, Schema};

/// A promise, and two tables on which it would show if it were broken.
pub struct Case {
    /// The noise: `"Laplace"`, `"K-norm"`, `"Gaussian"` or `"Gaussian ρ"`.
    pub mechanism: &'static str,
    /// The maps.
    pub map: String,
    /// Whom the promise is for: `"row"`, or `"user × 3"`.
    pub unit: String,
    /// `"add-remove"` or `"replace"`.
    pub neighbours: &'static str,
    pub(super) schema: Schema,
    pub(super) privacy: Privacy,
    pub(super) path: Path,
    pub(super) tables: [Table; 2],
    /// The rows of each that count.
    counted: [Vec<Panel>; 2],
    /// A slow case has this many times fewer releases.
    cost: u64,
}

/// How a release comes about. There is one for each case: its size does not matter.
#[allow(clippy::large_enum_variant)]
pub(super) enum Path {
    /// Maps that are fixed beforehand, with the exact sums of either table.
    Fixed { sketcher: Sketcher, plan: Plan, exact: [Exact; 2] },
    /// Two rounds.
    Auto(Auto),
}

/// The true number of rows, and the true sums of each block.
pub(super) struct Exact {
    rows: i64,
    pub blocks: Vec<Vec<i64>>,
}

impl Case {
    /// Releases of either table that this case gets when a usual one gets so many.
    pub fn trials(&self, usual: u64) -> u64 {
        (usual / self.cost).max(8)
    }

    /// What is promised, as ε and δ. For ρ it is the ε that every ρ-zCDP release has at [`DELTA`].
    pub fn claim(&self) -> (f64, f64) {
        match self.privacy.budget {
            Budget::Pure { epsilon } => (epsilon.to_f64(), 0.0),
            Budget::Approximate { epsilon, delta } => (epsilon.to_f64(), delta.to_f64()),
            Budget::Concentrated { rho } => (epsilon_of_rho(rho.to_f64(), DELTA), DELTA),
        }
    }

    /// A release of the first or the second table, from its rows to the end, as any curator would make it.
    pub fn release(&self, table: usize) -> Result<Release, Error> {
        match &self.path {
            Path::Fixed { sketcher, plan, .. } => {
                let noise = plan.draw()?;
                let (sums, _) = source::sketch(sketcher, &self.tables[table], 1, &())?;
                sums.privatise(noise)
            }
            Path::Auto(auto) => {
                let first = FirstRound::new(&self.schema, auto, self.privacy)?;
                let (sums, _) = source::sketch(&first.sketcher()?, &self.tables[table], 1, &())?;
                let second = SecondRound::after(&first.privatise(sums)?, auto)?;
                let (sums, _) = source::sketch(&second.sketcher()?, &self.tables[table], 1, &())?;
                second.privatise(sums)
            }
        }
    }

    /// How near the two tables come to what the noise is made for: 1 where they are as far apart as any neighbours.
    pub fn attained(&self) -> Result<f64, Error> {
        let Path::Fixed { plan, exact, .. } = &self.path else { return Ok(1.0) };
        let rows = self.schema.unit().max_rows();
        let mut least = f64::INFINITY;
        for ((block, mechanism), (a, b)) in
            plan.design().blocks().iter().zip(plan.blocks()).zip(exact[0].blocks.iter().zip(&exact[1].blocks))
        {
            let change: Vec<f64> = a.iter().zip(b).map(|(a, b)| (a - b) as f64).collect();
            let body = block.map.shape(&self.schema)?.1;
            let bound = sensitivity(body, self.privacy.neighbours, rows).expect("a small case");
            let l2 = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
            least = least.min(match (mechanism, body) {
                (Mechanism::DiscreteLaplace { .. } | Mechanism::OneHotKnorm { .. }, _) => {
                    change.iter().map(|x| x.abs()).sum::<f64>() / bound.l1 as f64
                }
                (Mechanism::DiscreteGaussian { .. }, _) => l2(&change) / (bound.l2_squared as f64).sqrt(),
                (Mechanism::DiscKnorm { .. }, Body::Discs { pairs, .. }) => {
                    let reach = (bound.l2_squared as f64 / pairs as f64).sqrt();
                    change.chunks_exact(2).map(l2).fold(0.0, f64::max) / reach
                }
                (Mechanism::DiscKnorm { .. }, _) => unreachable!("noise of discs is for discs"),
            });
        }
        Ok(least)
    }

    /// What an auditor makes of a release.
    pub(super) fn observe(&self, release: &Release) -> Result<Observation, Error> {
        let coordinates = std::iter::once(release.count().value)
            .chain(release.blocks().iter().flat_map(|block| block.sums()).copied())
            .collect();
        let made;
        let exact = match &self.path {
            Path::Fixed { exact, .. } => exact,
            Path::Auto(_) => {
                let maps = release.design()?.maps(&self.schema, Simd::Portable)?;
                made = self.counted.each_ref().map(|rows| Exact::of(&maps, rows));
                &made
            }
        };
        let groups: Vec<Vec<usize>> =
            release.blocks().iter().map(|block| block.map().one_hot_groups(&self.schema)).collect::<Result<_, _>>()?;
        let [first, second] = exact.each_ref().map(|exact| log_likelihoods(release, &groups, exact));
        let ratios = first.iter().zip(second).map(|(first, second)| first - second).collect();
        Ok(Observation { ratios, coordinates })
    }
}

impl Exact {
    /// By the definition of the maps, one record after the other.
    pub fn of(maps: &[Box<dyn FeatureMap>], rows: &[Panel]) -> Self {
        let mut exact = Self { rows: 0, blocks: maps.iter().map(|map| vec![0; map.len()]).collect() };
        for record in rows.iter().flat_map(|panel| (0..panel.len()).map(|row| panel.record(row))) {
            exact.rows += 1;
            for (map, sums) in maps.iter().zip(&mut exact.blocks) {
                let mut features = vec![0; map.len()];
                map.record(record, &mut features);
                sums.iter_mut().zip(features).for_each(|(sum, feature)| *sum += feature);
            }
        }
        exact
    }
}

/// The logarithms of the probabilities of the count and of each block, up to what does not depend on the table.
///
/// `groups`: the sizes of each block's one-hot groups.
fn log_likelihoods(release: &Release, groups: &[Vec<usize>], exact: &Exact) -> Vec<f64> {
    let count = release.count();
    let of_count = count.noise.map_or(0.0, |noise| log_mass(noise, &[], &[count.value], &[exact.rows]));
    let of_blocks = release.blocks().iter().zip(groups).zip(&exact.blocks);
    std::iter::once(of_count)
        .chain(of_blocks.map(|((block, groups), exact)| log_mass(block.noise(), groups, block.sums(), exact)))
        .collect()
}

fn log_mass(mechanism: Mechanism, groups: &[usize], released: &[i64], exact: &[i64]) -> f64 {
    let noise = || released.iter().zip(exact).map(|(released, exact)| released.saturating_sub(*exact) as f64);
    let value = |scale: Scale| scale.numerator() as f64 / scale.denominator() as f64;
    match mechanism {
        Mechanism::DiscreteLaplace { scale } => -noise().map(f64::abs).sum::<f64>() / value(scale),
        Mechanism::DiscreteGaussian { sigma } => -0.5 * noise().map(|z| z * z).sum::<f64>() / value(sigma).powi(2),
        Mechanism::DiscKnorm { scale, minimum_radius } => {
            let noise: Vec<f64> = noise().collect();
            let radius = noise.chunks_exact(2).map(|pair| pair[0].hypot(pair[1])).fold(0.0, f64::max);
            -radius.max(minimum_radius as f64) / value(scale)
        }
        // But for the rounding.
        Mechanism::OneHotKnorm { deviation } => {
            let noise: Vec<f64> = noise().collect();
            let mut rest = &noise[..];
            let mut norms = Vec::new();
            for size in groups {
                norms.push((size, rest[..*size].iter().map(|z| z.abs()).sum::<f64>() * FINE as f64));
                rest = &rest[*size..];
            }
            let of_class = |class: &Class| {
                let of_size = norms.iter().filter(|(size, _)| **size == class.size);
                -of_size.fold(class.minimum as f64, |radius, (_, norm)| radius.max(*norm)) / value(class.scale)
            };
            classes(deviation, groups).expect("it was drawn from them").iter().map(of_class).sum()
        }
    }
}

/// The δ at which audits are made: large enough that thousands of releases show a breach.
pub const DELTA: f64 = 0.1;

pub(super) const LAPLACE: &str = "Laplace";
pub(super) const KNORM: &str = "K-norm";
pub(super) const GAUSSIAN: &str = "Gaussian";
pub(super) const CONCENTRATED: &str = "Gaussian ρ";

/// How many rows of a user count where the unit is a user.
const MAX_ROWS: u32 = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Relation {
    Row,
    Replace,
    User,
}

/// Every mechanism with every kind of map, unit and neighbours that go together.
pub fn suite() -> Result<Vec<Case>, Error> {
    use Relation::{Replace, Row, User};
    let mut cases = Vec::new();
    for mechanism in [LAPLACE, GAUSSIAN, CONCENTRATED] {
        for relation in [Row, Replace, User] {
            for map in ["hist", "tables", "signs", "values", "race", "rff", "own", "auto"] {
                cases.push(Case::new(mechanism, map, relation)?);
            }
        }
        for map in ["race angular", "rff precise", "hist + rff", "auto, three columns"] {
            cases.push(Case::new(mechanism, map, Row)?);
        }
    }
    for relation in [Row, Replace, User] {
        for map in ["hist", "signs", "values", "race", "rff", "auto, three columns"] {
            cases.push(Case::new(KNORM, map, relation)?);
        }
    }
    for map in ["rff precise", "hist + rff"] {
        cases.push(Case::new(KNORM, map, Row)?);
    }
    Ok(cases)
}

/// One feature from −1000 to 1000, as a user might write it.
struct Own;

impl FeatureMap for Own {
    fn len(&self) -> usize {
        1
    }

    fn body(&self) -> Body {
        Body::Bounded { l1: 1000, l2_squared: 1_000_000 }
    }

    fn record(&self, record: Record<'_>, features: &mut [i64]) {
        if let Value::Unit(u) = record.value(0) {
            features[0] = (2000.0 * u) as i64 - 1000;
        }
    }
}

impl Case {
    pub(super) fn new(mechanism: &'static str, map: &str, relation: Relation) -> Result<Self, Error> {
        let budget = match mechanism {
            GAUSSIAN => Budget::new(Some("1".parse()?), Some(DELTA.to_string().parse()?), None)?,
            CONCENTRATED => Budget::new(None, None, Some("0.5".parse()?))?,
            _ => Budget::pure("1".parse()?)?,
        };
        let neighbours = if relation == Relation::Replace { Neighbours::Replace } else { Neighbours::AddRemove };
        let noise = if mechanism == KNORM { NoiseKind::Knorm } else { NoiseKind::Laplace };
        let privacy = Privacy { neighbours, noise, ..Privacy::new(budget) };
        let schema = schema(map, relation)?;
        let rows = |rows: &[&str]| Rows::new(&schema, rows);
        let auto = match map {
            "auto" => Some(Auto::default()),
            // So many rows are stated that three columns have a table, too.
            "auto, three columns" => Some(Auto { rows: Some(100_000), ..Auto::default() }),
            _ => None,
        };
        let (path, [first, second]) = if let Some(auto) = auto {
            let apart = if map == "auto" { ["0.1,a", "0.9,b"] } else { ["0.1,a,0.1", "0.9,b,0.9"] };
            (Path::Auto(auto), rows(&apart).neighbours(relation, 1, 0))
        } else {
            let design = design(map)?;
            let sketcher = match map {
                "own" => Sketcher::custom(&schema, "own", Json::Null, Box::new(Own))?,
                _ => Sketcher::new(&schema, &design)?,
            };
            let maps = design.maps_with(&schema, Simd::Portable, |_| Ok(Box::new(Own)))?;
            let candidates = candidates(&schema);
            let rows = rows(&candidates.iter().map(String::as_str).collect::<Vec<_>>());
            let (apart, from) = rows.furthest(&maps, relation)?;
            let texts = rows.neighbours(relation, apart, from);
            let plan = Plan::new(&schema, &design, privacy)?;
            let mut exact = Vec::new();
            for (_, counted) in &texts {
                exact.push(Exact::of(&maps, &read(&schema, counted)?));
            }
            let exact = exact.try_into().unwrap_or_else(|_| unreachable!("there are two tables"));
            (Path::Fixed { sketcher, plan, exact }, texts)
        };
        let counted = [read(&schema, &first.1)?, read(&schema, &second.1)?];
        let cost = match (map, mechanism) {
            ("auto, three columns", _) => 16,
            ("auto", _) => 4,
            _ => 1,
        };
        Ok(Self {
            mechanism,
            map: map.to_owned(),
            unit: match relation {
                Relation::User => format!("user × {MAX_ROWS}"),
                _ => "row".to_owned(),
            },
            neighbours: if relation == Relation::Replace { "replace" } else { "add-remove" },
            privacy,
            path,
            tables: [first.0, second.0].map(|text| Table::from_csv_bytes(text.into_bytes())),
            counted,
            cost,
            schema,
        })
    }
}

fn read(schema: &Schema, text: &str) -> Result<Vec<Panel>, Error> {
    source::read(&Table::from_csv_bytes(text.as_bytes().to_vec()), schema, &())
}

fn schema(map: &str, relation: Relation) -> Result<Schema, Error> {
    let number = |name: &str| format!("[[column]]\nname = '{name}'\ntype = 'number'\nmin = 0\nmax = 1\n");
    // With one listed level, which makes three with "other" and "missing", both histograms are of one size.
    let listed = if map == "hist" { "'a'" } else { "'a', 'b'" };
    let levels = format!("[[column]]\nname = 'g'\ntype = 'category'\nlevels = [{listed}]\n");
    let mut text = match relation {
        Relation::User => format!("[privacy]\nunit = 'who'\nmax_rows = {MAX_ROWS}\n"),
        _ => String::new(),
    };
    text += &number("x");
    if matches!(map, "hist" | "tables" | "signs" | "hist + rff") || map.starts_with("auto") {
        text += &levels;
    }
    if matches!(map, "values" | "auto, three columns") {
        text += &number("y");
    }
    Schema::from_toml(&text)
}

fn design(map: &str) -> Result<Design, Error> {
    match map {
        "hist" => Design::parse("hist:bins=2"),
        "tables" => Design::parse("tables:bins=2"),
        // One pair, twice: of more than two columns, not all products can change their sign at once.
        "signs" => Design::from_toml(
            "[[map]]\nkind = 'signs'\nshare = 1.0\npairs = [[0, 1], [0, 1]]\ncolumns = [{ name = 'x', bins = 2, signs = [-1, 1, 0] }, { name = 'g', bins = 1, signs = [-1, 1, 0, 0] }]",
        ),
        "values" => Design::from_toml(
            "[[map]]\nkind = 'values'\nshare = 1.0\ncolumns = [{ name = 'x', low = 10000, high = 20000 }, { name = 'y', low = 0, high = 65536 }]",
        ),
        "race" => Design::parse("race:r=2,w=4,sigma=0.1"),
        "race angular" => Design::parse("race:r=2,w=4,hash=angular"),
        "rff" => Design::parse("rff:m=2,sigma=0.1"),
        "rff precise" => Design::parse("rff:m=2,sigma=0.1,precision=precise"),
        "own" => {
            let spec = CustomSpec { name: "own".into(), parameters: Json::Null, features: 1, body: Own.body() };
            Ok(Design::single(MapSpec::Custom(spec)))
        }
        _ => Design::from_toml(
            "[[map]]\nkind = 'hist'\nshare = 0.5\nbins = 2\n[[map]]\nkind = 'rff'\nshare = 0.5\nm = 2\nsigma = 0.1\ncolumns = ['x']",
        ),
    }
}

/// Rows that the search may take: numbers on a fine grid, with every level.
fn candidates(schema: &Schema) -> Vec<String> {
    const STEPS: u32 = 400;
    let others: &[&str] = match schema.columns().get(1).map(|column| column.kind.range()) {
        Some(None) => &[",a", ",b"],
        Some(Some(_)) => &[",0", ",1"],
        None => &[""],
    };
    (0..=STEPS)
        .flat_map(|step| others.iter().map(move |other| format!("{}{other}", f64::from(step) / f64::from(STEPS))))
        .collect()
}

/// Rows from which tables are made.
struct Rows<'a> {
    schema: &'a Schema,
    rows: Vec<String>,
    users: bool,
}

/// A table: all of it, and the rows of it that count.
type Texts = (String, String);

impl<'a> Rows<'a> {
    fn new(schema: &'a Schema, rows: &[&str]) -> Self {
        let users = schema.unit().name() != "row";
        Self { schema, rows: rows.iter().map(|row| (*row).to_owned()).collect(), users }
    }

    /// Which row changes the sums most when it comes (or replaces another, which is the second of the two).
    fn furthest(&self, maps: &[Box<dyn FeatureMap>], relation: Relation) -> Result<(usize, usize), Error> {
        let mut all = Vec::new();
        for row in &self.rows {
            all.push(Exact::of(maps, &read(self.schema, &self.text(&[(row.as_str(), "")]))?));
        }
        let nothing: Vec<Vec<i64>> = maps.iter().map(|map| vec![0; map.len()]).collect();
        let l1 = |a: &[Vec<i64>], b: &[Vec<i64>]| {
            let block =
                |(a, b): (&Vec<i64>, &Vec<i64>)| a.iter().zip(b).map(|(a, b)| (a - b).abs() as f64).sum::<f64>();
            // Each block counts by its own size.
            maps.iter().zip(a.iter().zip(b)).map(|(map, pair)| block(pair) / map.body().largest() as f64).sum::<f64>()
        };
        let mut best = (f64::NEG_INFINITY, (0, 0));
        for (at, own) in all.iter().enumerate() {
            if relation == Relation::Replace {
                for (from, other) in all.iter().enumerate().take(at) {
                    let distance = l1(&own.blocks, &other.blocks);
                    if distance > best.0 {
                        best = (distance, (at, from));
                    }
                }
            } else {
                let distance = l1(&own.blocks, &nothing);
                if distance > best.0 {
                    best = (distance, (at, 0));
                }
            }
        }
        // The rows that stay are another one, in other cells if there is one.
        let (at, from) = best.1;
        if relation == Relation::Replace {
            return Ok((at, from));
        }
        let apart = |other: &usize| (1e6 * l1(&all[at].blocks, &all[*other].blocks)) as i64;
        Ok((at, (0..all.len()).max_by_key(apart).unwrap_or(0)))
    }

    /// A table that holds some rows of the kind `from` and, the second time, one unit of the kind `at` more; or, for
    /// [`Relation::Replace`], one of either kind beside them.
    fn neighbours(&self, relation: Relation, at: usize, from: usize) -> [Texts; 2] {
        let (own, other) = (self.rows[at].as_str(), self.rows[from].as_str());
        let stay = [(other, "u1"), (other, "u2")];
        let table = |more: &[(&str, &str)], counted: usize| {
            let all = [&stay[..], more].concat();
            (self.text(&all), self.text(&all[..stay.len() + counted]))
        };
        match relation {
            Relation::Row => [table(&[], 0), table(&[(own, "")], 1)],
            Relation::Replace => [table(&[(other, "")], 1), table(&[(own, "")], 1)],
            // More rows than count, all alike.
            Relation::User => [table(&[], 0), table(&[(own, "new"); 5], MAX_ROWS as usize)],
        }
    }

    /// A CSV text of rows with their users.
    fn text(&self, rows: &[(&str, &str)]) -> String {
        let mut names: Vec<&str> = self.schema.columns().iter().map(|column| column.name.as_str()).collect();
        if self.users {
            names.push(self.schema.unit().name());
        }
        let mut text = names.join(",") + "\n";
        for (row, user) in rows {
            text += row;
            if self.users {
                text += ",";
                text += user;
            }
            text += "\n";
        }
        text
    }
}
