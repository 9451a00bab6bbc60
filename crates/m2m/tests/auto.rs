//! The default design, in two rounds: what it adds up, what it spends, how it chooses, and how well it answers.

mod common;

use std::fmt::Write as _;

use common::Random;
use m2m::auto::{self, Auto, FirstRound, SecondRound, Weight};
use m2m::estimate::Model;
use m2m::expr::{col, lit};
use m2m::feature::{Body, HistSpec, MapSpec, MergedColumn, ValueColumn};
use m2m::fit::{Fit, Options};
use m2m::privatise::{Budget, Mechanism, Neighbours, NoiseKind, Privacy};
use m2m::source::{self, Table};
use m2m::sums::Sketcher;
use m2m::task::Ask;
use m2m::{Design, Release, Schema, Sums};

const SCHEMA: &str = "
[[column]]
name = 'x'
type = 'number'
min = 0
max = 1
[[column]]
name = 'k'
type = 'integer'
min = 0
max = 9
nullable = true
[[column]]
name = 'g'
type = 'category'
levels = ['a', 'b', 'c']
";

/// Rows in which all columns depend on each other.
struct Rows(Vec<(f64, Option<i64>, &'static str)>);

impl Rows {
    fn new(count: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let row = |random: &mut Random| {
            let x = random.unit() * random.unit();
            let k = (10.0 * (0.6 * x + 0.4 * random.unit())) as i64;
            let g = if x > 0.5 { "a" } else { random.pick(&["a", "b", "b", "c"]) };
            (x, if random.below(20) == 0 { None } else { Some(k.min(9)) }, g)
        };
        Self((0..count).map(|_| row(&mut random)).collect())
    }

    fn table(&self) -> Table {
        let mut text = String::from("x,k,g\n");
        for (x, k, g) in &self.0 {
            let k = k.map_or_else(String::new, |k| k.to_string());
            writeln!(text, "{x},{k},{g}").unwrap();
        }
        Table::from_csv_bytes(text.into_bytes())
    }
}

fn schema() -> Schema {
    Schema::from_toml(SCHEMA).unwrap()
}

/// Two columns of one kind, whose histograms are of one size and have K-norm noise.
fn alike() -> Schema {
    let whole = "type = 'integer'\nmin = 0\nmax = 9\nnullable = true";
    Schema::from_toml(&SCHEMA.replace(whole, "type = 'number'\nmin = 0\nmax = 9")).unwrap()
}

fn budget(epsilon: &str, delta: Option<&str>, rho: Option<&str>) -> Budget {
    let parse = |text: &str| text.parse().unwrap();
    let epsilon = if rho.is_some() { None } else { Some(parse(epsilon)) };
    Budget::new(epsilon, delta.map(parse), rho.map(parse)).unwrap()
}

fn release(schema: &Schema, auto: &Auto, privacy: Privacy, table: &Table) -> Release {
    let first = FirstRound::new(schema, auto, privacy).unwrap();
    let (sums, _) = source::sketch(&first.sketcher().unwrap(), table, 2, &()).unwrap();
    let second = SecondRound::after(&first.privatise(sums).unwrap(), auto).unwrap();
    let (sums, _) = source::sketch(&second.sketcher().unwrap(), table, 1, &()).unwrap();
    second.privatise(sums).unwrap()
}

/// At ε = 1000, a tenth of it for the count, noise is other than 0 with probability below 10⁻¹²: tables are counted again by hand,
/// with the groups that the release itself states.
#[test]
fn tables_hold_what_is_counted_by_hand() {
    let rows = Rows::new(4000, 1);
    let privacy = Privacy { count_share: "0.1".parse().unwrap(), ..Privacy::new(budget("1000", None, None)) };
    let release = release(&schema(), &Auto::default(), privacy, &rows.table());
    assert_eq!(release.count().value, 4000);
    let MapSpec::Hist(HistSpec { bins, whole, .. }) = release.blocks()[0].map() else { panic!("histograms first") };
    assert_eq!((*bins, *whole), (251, Some(256)));
    let mut tables = 0;
    for block in release.blocks() {
        // Values are on a finer grid, and have some noise left.
        let noise = if let MapSpec::Values(_) = block.map() { 10.0 * block.noise().standard_deviation(2) } else { 0.0 };
        for (sum, counted) in block.sums().iter().zip(counted(&rows, block.map())) {
            assert!((sum - counted).abs() as f64 <= noise, "{:?}: {sum}, not {counted}", block.map());
        }
        if let MapSpec::Merged(spec) = block.map() {
            tables += spec.tables.iter().filter(|table| table.len() > 1).count();
        }
    }
    assert_eq!(tables, 4, "three pairs and one triple");
}

/// What both rounds spend adds up to the budget and no more, by the mechanisms that the release states.
#[test]
fn rounds_spend_the_budget() {
    let table = Rows::new(3000, 2).table();
    let budgets = [budget("0.7", None, None), budget("1", Some("1e-6"), None), budget("", None, Some("0.3"))];
    let alike = alike();
    let mut shares = Vec::new();
    let (mut shaped, mut signs) = (0, 0);
    for (budget, rows, schema) in budgets.iter().flat_map(|budget| {
        [None, Some(1), Some(10_000_000)]
            .into_iter()
            .flat_map(|rows| [(*budget, rows, schema()), (*budget, rows, alike.clone())])
    }) {
        for neighbours in [Neighbours::AddRemove, Neighbours::Replace] {
            let privacy = Privacy { neighbours, ..Privacy::new(budget) };
            let release = release(&schema, &Auto { rows, ..Auto::default() }, privacy, &table);
            shares.push(release.blocks()[0].share().to_string());
            // A row that is replaced leaves a cell and enters another, or turns a sign around.
            let factor = if neighbours == Neighbours::Replace { 2.0 } else { 1.0 };
            let moves = |block: &m2m::release::ReleasedBlock| match block.body() {
                Body::OneHot { groups } => (factor * groups as f64, factor * groups as f64),
                Body::Cube { coordinates, radius } => {
                    let (count, reach) = (coordinates as f64, factor * radius as f64);
                    (count * reach, count * reach * reach)
                }
                other => panic!("{other:?}"),
            };
            let scale = |s: m2m::privatise::Scale| s.numerator() as f64 / s.denominator() as f64;
            let count = release.count().noise.map(|noise| ((1.0, 1.0), vec![1], 1.0, noise));
            let sizes = |block: &m2m::release::ReleasedBlock| block.map().one_hot_groups(&schema).unwrap();
            let radius = |block: &m2m::release::ReleasedBlock| block.body().largest() as f64;
            let blocks =
                release.blocks().iter().map(|block| (moves(block), sizes(block), radius(block), block.noise()));
            let mechanisms = count.into_iter().chain(blocks);
            signs += release.blocks().iter().filter(|block| matches!(block.map(), MapSpec::Signs(_))).count();
            // Σ Δ₁/t for pure ε, Σ Δ₂²/2σ² otherwise.
            let spent: f64 = mechanisms
                .map(|((l1, l2_squared), sizes, radius, mechanism)| match mechanism {
                    Mechanism::DiscreteLaplace { scale: t } => l1 / scale(t),
                    Mechanism::DiscreteGaussian { sigma } => l2_squared / (2.0 * scale(sigma).powi(2)),
                    // B/t for the groups of each size: m + 1 steps of mean t make a radius, of which a cell has
                    // √(2/((k+1)(k+2))).
                    Mechanism::OneHotKnorm { deviation } => {
                        let mut spent = 0.0;
                        shaped += 1;
                        for size in 1..=*sizes.iter().max().unwrap() {
                            let k = size as f64;
                            let m = k * sizes.iter().filter(|other| **other == size).count() as f64;
                            if m > 0.0 {
                                let cell = (2.0 * (m + 1.0) * (m + 2.0) / ((k + 1.0) * (k + 2.0))).sqrt();
                                spent += factor * radius * (1u64 << 20) as f64 * cell / deviation as f64;
                            }
                        }
                        spent
                    }
                    Mechanism::DiscKnorm { .. } => panic!("no discs here"),
                })
                .sum();
            match budget {
                Budget::Pure { .. } => assert!(spent <= 0.7 && spent > 0.6995, "{spent}"),
                Budget::Concentrated { .. } => assert!(spent <= 0.3 && spent > 0.2999, "{spent}"),
                // One over √2ρ is the σ of a single release; (1, 10⁻⁶) needs 4.22 by Balle and Wang.
                Budget::Approximate { .. } => {
                    let sigma = 1.0 / (2.0 * spent).sqrt();
                    assert!(sigma > 4.22 && sigma < 4.4, "{sigma}");
                }
            }
            // A reader checks the same before it believes the file.
            let path = std::env::temp_dir().join(format!("m2m-auto-{}-{}.m2m", std::process::id(), shares.len()));
            release.save(&path, true).unwrap();
            assert_eq!(Release::open(&path).unwrap(), release);
            std::fs::remove_file(&path).unwrap();
        }
    }
    assert!(["0.4", "0.43", "0.5", "0.55"].iter().all(|share| shares.iter().any(|other| other == share)), "{shares:?}");
    assert!(signs >= 18, "every release of two numeric columns has signs: {signs}");
    assert!(shaped >= 6, "releases have K-norm noise: {shaped}");
    // A count whose noise would be beyond all numbers is refused while nothing is spent yet.
    let faint = Privacy { count_share: "0.000000000000000001".parse().unwrap(), ..Privacy::new(budgets[0]) };
    assert!(FirstRound::new(&schema(), &Auto::default(), faint).is_err());
}

/// A curator who wants Laplace noise has it in both rounds, also when the first came from a file.
#[test]
fn laplace_noise_stays_in_both_rounds() {
    let table = Rows::new(3000, 2).table();
    let path = std::env::temp_dir().join(format!("m2m-auto-laplace-{}.m2m", std::process::id()));
    for noise in [NoiseKind::Laplace, NoiseKind::Knorm] {
        let privacy = Privacy { noise, ..Privacy::new(budget("0.7", None, None)) };
        let first = FirstRound::new(&alike(), &Auto::default(), privacy).unwrap();
        let (sums, _) = source::sketch(&first.sketcher().unwrap(), &table, 1, &()).unwrap();
        let first = first.privatise(sums).unwrap();
        first.save(&path, true).unwrap();
        let first = Release::open(&path).unwrap();
        assert_eq!(first.reserved().unwrap().laplace, noise == NoiseKind::Laplace);
        let second = SecondRound::after(&first, &Auto::default()).unwrap();
        let (sums, _) = source::sketch(&second.sketcher().unwrap(), &table, 1, &()).unwrap();
        let release = second.privatise(sums).unwrap();
        assert_eq!(release.blocks()[0].noise(), first.blocks()[0].noise());
        let is_laplace = |noise| matches!(noise, Mechanism::DiscreteLaplace { .. });
        // Two histograms are of one size and have K-norm noise; a single table or sign has none that is smaller.
        let all = release.blocks().iter().all(|block| is_laplace(block.noise()));
        assert_eq!(all, noise == NoiseKind::Laplace, "{noise:?}");
    }
    std::fs::remove_file(&path).unwrap();
}

/// The stated number of rows decides as the noisy one does; more rows and more budget give finer tables.
#[test]
fn the_rule_follows_rows_and_budget() {
    let table = Rows::new(3000, 3).table();
    let shape = |rows: Option<u64>, epsilon: &str| {
        let release =
            release(&schema(), &Auto { rows, ..Auto::default() }, Privacy::new(budget(epsilon, None, None)), &table);
        let MapSpec::Hist(spec) = release.blocks()[0].map() else { panic!("histograms first") };
        let MapSpec::Merged(merged) = release.blocks()[1].map() else { panic!("tables follow") };
        (spec.bins, merged.columns[0].groups.iter().max().unwrap() + 1, release.blocks().len())
    };
    let fine = [shape(Some(3000), "0.1"), shape(Some(300_000), "0.1"), shape(Some(300_000), "10")];
    assert!(fine[0].0 < fine[1].0 && fine[1].0 < fine[2].0, "{fine:?}");
    assert!(fine[0].1 <= fine[1].1 && fine[1].1 < fine[2].1, "{fine:?}");
    // Histograms, tables, signs and perhaps values; and tables of three columns of their own where noise is small.
    // Stated rows that there are not make the histogram look uneven, which may be worth a closer look.
    assert!((3..=5).contains(&fine[0].2) && (5..=6).contains(&fine[2].2), "{fine:?}");
    assert_eq!(shape(None, "10").0, shape(Some(3000), "10").0);
}

#[test]
fn units_and_neighbours_are_kept() {
    let rows = Rows::new(2000, 4);
    let privacy = Privacy { neighbours: Neighbours::Replace, ..Privacy::new(budget("1", None, None)) };
    let replaced = release(&schema(), &Auto::default(), privacy, &rows.table());
    assert_eq!((replaced.count().value, replaced.count().noise), (2000, None));

    let users = Schema::from_toml(&format!("[privacy]\nunit = 'who'\nmax_rows = 2\n{SCHEMA}")).unwrap();
    let mut text = String::from("who,x,k,g\n");
    for (i, (x, k, g)) in rows.0.iter().enumerate() {
        writeln!(text, "{},{x},{},{g}", i / 10, k.unwrap_or(3)).unwrap();
    }
    let table = Table::from_csv_bytes(text.into_bytes());
    let exact = Privacy { count_share: "0.1".parse().unwrap(), ..Privacy::new(budget("1000", None, None)) };
    let bounded = release(&users, &Auto::default(), exact, &table);
    assert_eq!(bounded.count().value, 400, "two rows of each of 200 users");
    // The same two rows in both rounds: the table of x and k adds up to the histogram of g.
    for block in bounded.blocks().iter().filter(|block| matches!(block.body(), Body::OneHot { .. })) {
        assert_eq!(block.sums().iter().sum::<i64>() % 400, 0);
    }
    assert!(FirstRound::new(&users, &Auto::default(), privacy).is_err(), "a user's number of rows can change");
}

#[test]
fn sums_of_another_round_are_refused() {
    let table = Rows::new(500, 5).table();
    let privacy = Privacy::new(budget("1", None, None));
    let first = FirstRound::new(&schema(), &Auto::default(), privacy).unwrap();
    let known = FirstRound::new(&schema(), &Auto { rows: Some(500), ..Auto::default() }, privacy).unwrap();
    let (sums, _) = source::sketch(&known.sketcher().unwrap(), &table, 1, &()).unwrap();
    assert!(first.privatise(sums).is_err());
}

/// What cannot have a second round is refused before anything is spent; many levels only do without tables of three.
#[test]
fn schemas_that_do_not_fit_are_refused_at_once() {
    let privacy = Privacy::new(budget("1", None, None));
    let refused = |toml: &str| {
        FirstRound::new(&Schema::from_toml(toml).unwrap(), &Auto::default(), privacy).err().unwrap().to_string()
    };
    assert!(refused("[[column]]\nname = 'b'\ntype = 'boolean'").contains("one column"));
    let many: String = (0..500).map(|i| format!("[[column]]\nname = 'b{i}'\ntype = 'boolean'\n")).collect();
    assert!(refused(&many).contains("too many columns"));
    let levels: Vec<String> = (0..80).map(|i| format!("'l{i}'")).collect();
    let wide: String = (0..12)
        .map(|i| format!("[[column]]\nname = 'c{i}'\ntype = 'category'\nlevels = [{}]\n", levels.join(",")))
        .collect();
    let header: Vec<String> = (0..12).map(|i| format!("c{i}")).collect();
    let row: Vec<String> = (0..12).map(|i| format!("l{i}")).collect();
    let text = format!("{}\n{}", header.join(","), format!("{}\n", row.join(",")).repeat(50));
    let table = Table::from_csv_bytes(text.into_bytes());
    let privacy = Privacy::new(budget("900", None, None));
    let release = release(&Schema::from_toml(&wide).unwrap(), &Auto::default(), privacy, &table);
    assert_eq!(release.blocks().len(), 2);
}

/// Every coordinate of both rounds has the noise that the release states: sums are counted by hand, and what is left has
/// the stated variance. Five standard errors of a variance, for Laplace noise √(5/n); the noise is not seeded, so a false alarm has
/// probability 10⁻⁶ or so.
#[test]
fn every_sum_has_its_noise() {
    let rows = Rows::new(1500, 7);
    let quiet =
        |epsilon: &str| Privacy { count_share: "0.5".parse().unwrap(), ..Privacy::new(budget(epsilon, None, None)) };
    let (mut squares, mut count) = ([0.0; 4], [0.0; 4]);
    for _ in 0..12 {
        let release = release(&schema(), &Auto { rows: Some(1500), ..Auto::default() }, quiet("0.5"), &rows.table());
        assert!(release.blocks().len() <= 4, "so little budget is for pairs alone");
        for block in release.blocks() {
            let at = ["hist", "merged", "signs", "values"].iter().position(|name| *name == block.map().name()).unwrap();
            let deviation = block.noise().standard_deviation(block.sums().len());
            let exact = counted(&rows, block.map());
            assert_eq!(exact.len(), block.sums().len());
            for (sum, exact) in block.sums().iter().zip(exact) {
                squares[at] += ((sum - exact) as f64 / deviation).powi(2);
                count[at] += 1.0;
            }
        }
    }
    for (square, count) in squares.iter().zip(count).filter(|(_, count)| *count > 0.0) {
        assert!((square / count - 1.0).abs() < 5.0 * (5.0f64 / count).sqrt(), "{} of {count}", square / count);
    }
}

/// Sums of parts, made, merged and kept in files, are those of the table, in both rounds; the first is a release by itself.
#[test]
fn rounds_go_through_files() {
    let rows = Rows::new(3000, 8);
    let parts = [Rows(rows.0[..1000].to_vec()), Rows(rows.0[1000..].to_vec())];
    let dir = tempfile::tempdir().unwrap();
    let merged = |design: &Design| {
        let sketcher = Sketcher::new(&schema(), design).unwrap();
        let mut files = parts.iter().enumerate().map(|(at, part)| {
            let path = dir.path().join(format!("{at}.sums"));
            source::sketch(&sketcher, &part.table(), 2, &()).unwrap().0.save(&path, true).unwrap();
            Sums::open(&path).unwrap()
        });
        let mut total = files.next().unwrap();
        files.for_each(|part| total.merge(part).unwrap());
        total
    };
    let privacy = Privacy { count_share: "0.1".parse().unwrap(), ..Privacy::new(budget("1000", None, None)) };
    let first = FirstRound::new(&schema(), &Auto::default(), privacy).unwrap();
    let first = first.privatise(merged(&auto::first_round())).unwrap();
    assert_eq!(first.blocks()[0].sums(), counted(&rows, first.blocks()[0].map()));
    assert_eq!(first.reserved().unwrap().share.to_string(), "0.45");
    let path = dir.path().join("first.m2m");
    first.save(&path, false).unwrap();
    let first = Release::open(&path).unwrap();
    let mean = Ask::of(&Fit::new(&first, Options::default()).unwrap()).mean(&col("x")).unwrap();
    let truth = rows.0.iter().map(|row| row.0).sum::<f64>() / 3000.0;
    assert!((mean.value - truth).abs() < 0.01, "{mean:?}, not {truth}");

    let design = SecondRound::after(&first, &Auto::default()).unwrap().design().clone();
    let second = SecondRound::with_design(&first, design.clone()).unwrap();
    let release = second.privatise(merged(&design)).unwrap();
    for block in release.blocks() {
        // Values are on a finer grid, and have some noise left.
        let noise = if let MapSpec::Values(_) = block.map() { 10.0 * block.noise().standard_deviation(2) } else { 0.0 };
        for (sum, counted) in block.sums().iter().zip(counted(&rows, block.map())) {
            assert!((sum - counted).abs() as f64 <= noise, "{:?}: {sum}, not {counted}", block.map());
        }
    }
    assert!(release.blocks().len() == 5 && release.reserved().is_none());
    assert!(SecondRound::after(&release, &Auto::default()).is_err(), "nothing is left for a third round");
    let dear = Privacy::new(budget("1", None, None));
    let other = FirstRound::new(&schema(), &Auto::default(), dear).unwrap();
    let other = other.privatise(merged(&auto::first_round())).unwrap();
    assert_eq!(other.reserved().unwrap().share.to_string(), "0.6", "more for pairs where noise is large");
    assert!(SecondRound::with_design(&other, design).is_err(), "tables that follow from another first round");
    let other = Design::parse("hist").unwrap();
    assert!(SecondRound::with_design(&first, other).is_err(), "histograms are for the first round");
}

/// Weights decide what tables there are, and divide the budget between them.
#[test]
fn weights_are_kept() {
    let table = Rows::new(3000, 9).table();
    // Laplace noise depends on the number of tables alone.
    let privacy = Privacy { noise: NoiseKind::Laplace, ..Privacy::new(budget("0.5", None, None)) };
    let weight = |columns: &[&str], weight: &str| Weight {
        columns: columns.iter().map(|name| (*name).to_owned()).collect(),
        weight: weight.parse().unwrap(),
    };
    let tables = |weights: Vec<Weight>| {
        let release = release(&schema(), &Auto { rows: Some(3000), weights }, privacy, &table);
        let tables = |block: &m2m::release::ReleasedBlock| match block.map() {
            MapSpec::Merged(spec) => Some((spec.tables.clone(), block.noise().standard_deviation(1))),
            _ => None,
        };
        release.blocks().iter().filter_map(tables).collect::<Vec<_>>()
    };
    let plain = tables(Vec::new());
    assert_eq!(plain.len(), 1);
    assert_eq!(plain[0].0, [[0, 1, 2]], "all pairs are in one table");
    let plain = tables(vec![weight(&["x", "k"], "1")]);
    assert_eq!(plain[0].0, [[0, 1], [0, 2], [1, 2]], "with weights each has its own");
    let without = tables(vec![weight(&["g"], "0")]);
    assert_eq!(without.len(), 1);
    assert_eq!(without[0].0, [[0, 1]]);
    assert!((plain[0].1 / without[0].1 - 3.0).abs() < 0.01, "all of the budget for one table");
    // Of five parts, the pair of x and k has three.
    let favoured = tables(vec![weight(&["x", "k"], "3")]);
    assert_eq!((favoured[0].0.len(), favoured[1].0.as_slice()), (2, [vec![0, 1]].as_slice()));
    assert!((favoured[0].1 / favoured[1].1 - 3.0).abs() < 0.01);
    assert!((plain[0].1 / favoured[1].1 - 9.0 / 5.0).abs() < 0.01);

    let refused = |weights: Vec<Weight>| {
        FirstRound::new(&schema(), &Auto { rows: None, weights }, privacy).err().unwrap().to_string()
    };
    // What one table weighs does not come in by way of others that hold it.
    for weights in
        [vec![weight(&["x", "k", "g"], "0")], ["x", "k", "g"].map(|name| weight(&[name], "1000000")).to_vec()]
    {
        assert_eq!(tables(weights)[0].0.len(), 3);
    }

    assert!(refused(vec![weight(&["nobody"], "2")]).contains("no column `nobody`"));
    assert!(refused(vec![weight(&["x"], "0"), weight(&["k"], "0")]).contains("weight 0"));
}

/// Tables of several weights are read together: a column has the same groups in all of them, a block names its own columns
/// alone, and what was favoured is known better.
#[test]
fn weighted_tables_are_read_as_one() {
    let table = Rows::new(20_000, 6).table();
    let errors = |weights: &[(&[&str], &str)]| {
        let weight = |(columns, weight): &(&[&str], &str)| Weight {
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            weight: weight.parse().unwrap(),
        };
        let auto = Auto { rows: Some(20_000), weights: weights.iter().map(weight).collect() };
        let release = release(&schema(), &auto, Privacy::new(budget("1", None, None)), &table);
        let mut groups = std::collections::HashMap::new();
        for block in &release.blocks()[1..] {
            let MapSpec::Merged(spec) = block.map() else { continue };
            for (at, column) in spec.columns.iter().enumerate() {
                assert!(spec.tables.iter().flatten().any(|place| *place as usize == at), "{spec:?}");
                let same = groups.entry((spec.tables[0].len(), column.name.clone())).or_insert(column.groups.clone());
                assert_eq!(*same, column.groups);
            }
        }
        let fit = Fit::new(&release, Options::default()).unwrap();
        let ask = Ask::of(&fit);
        let error = ask.correlation(&["x", "k"]).unwrap().entries[0][1].parts.privacy;
        let by_level = fit.totals(&[col("x").gt(lit(0.3)).and(col("g").eq(lit("a"))).check(&schema()).unwrap()]);
        (error, by_level.estimate(0).std_error)
    };
    let (plain, by_level) = errors(&[(&["x", "k"], "1")]);
    let (favoured, other) = errors(&[(&["x", "k"], "30")]);
    assert!(favoured < 0.9 * plain && other > by_level, "{favoured} {plain}, {other} {by_level}");
    let (without, unknown) = errors(&[(&["x", "g"], "0")]);
    assert!(without < 1.1 * plain && unknown > 2.0 * by_level, "{without} {plain}, {unknown} {by_level}");
}

/// Two columns that follow each other and crowd in a few wide bins: thresholds inside of those do not lead to counts that no
/// table can have.
#[test]
fn heavy_cells_are_not_looked_into() {
    let mut random = Random::new(11);
    let mut text = String::from("left,came,month\n");
    let mut rows = Vec::new();
    for _ in 0..60_000 {
        let exponential = -(1.0 - random.unit()).ln();
        let left =
            if random.unit() < 0.6 { -random.unit() * 10.0 } else { 40.0 * exponential - 3.0 }.clamp(-43.0, 1300.0);
        let came = (left + 14.0 * (random.unit() + random.unit() - 1.2)).clamp(-86.0, 1272.0);
        let (left, came, month) = (left.round(), came.round(), random.below(12) + 1);
        writeln!(text, "{left},{came},{month}").unwrap();
        rows.push((left, came, month as f64));
    }
    let column = |name: &str, min: i32, max: i32| {
        format!("[[column]]\nname = '{name}'\ntype = 'integer'\nmin = {min}\nmax = {max}\n")
    };
    let schema = column("left", -43, 1301) + &column("came", -86, 1272) + &column("month", 1, 12);
    let schema = Schema::from_toml(&schema).unwrap();
    let table = Table::from_csv_bytes(text.into_bytes());
    let privacy = Privacy::new(budget("10", Some("1e-5"), None));
    let fit = Fit::new(&release(&schema, &Auto::default(), privacy, &table), Options::default()).unwrap();
    for (late, early, month) in [(-3.0, -1.0, 7.0), (-6.0, -4.0, 7.0), (-4.0, 2.0, 12.0), (-8.0, -8.0, 5.0)] {
        let chosen =
            col("left").ge(lit(late)).and(col("came").le(lit(early))).and(col("month").le(lit(month))).check(&schema);
        let found = fit.totals(&[chosen.unwrap()]).estimate(0).value / rows.len() as f64;
        let is_in = |row: &&(f64, f64, f64)| row.0 >= late && row.1 <= early && row.2 <= month;
        let truth = rows.iter().filter(is_in).count() as f64 / rows.len() as f64;
        assert!((found - truth).abs() < 0.05, "{late} {early} {month}: {found}, not {truth}");
    }
}

/// Numbers that are rounded to few values fill few bins, of which the parts are counted: then the values are known, and with
/// them on which side of a threshold their rows are. A column of which nothing of the kind is seen is not looked into.
#[test]
fn values_that_many_rows_share_are_found() {
    let mut random = Random::new(12);
    let mut text = String::from("rounded,smooth,g\n");
    let mut rows = Vec::new();
    for _ in 0..40_000 {
        let rounded = 4.5 + 10.0 * (9.99 * random.unit() * random.unit()).floor();
        let smooth = 100.0 * (random.unit() + random.unit() + random.unit()) / 3.0;
        let level = if rounded + smooth > 80.0 { "a" } else { "b" };
        writeln!(text, "{rounded},{smooth},{level}").unwrap();
        rows.push((rounded, smooth));
    }
    let number = |name: &str| format!("[[column]]\nname = '{name}'\ntype = 'number'\nmin = 0\nmax = 100\n");
    let schema =
        number("rounded") + &number("smooth") + "[[column]]\nname = 'g'\ntype = 'category'\nlevels = ['a', 'b']\n";
    let schema = Schema::from_toml(&schema).unwrap();
    let table = Table::from_csv_bytes(text.into_bytes());
    let privacy = Privacy::new(budget("2", Some("1e-5"), None));
    let release = release(&schema, &Auto::default(), privacy, &table);
    let looks = release.blocks().iter().filter_map(|block| match block.map() {
        MapSpec::Merged(spec) if spec.tables.iter().all(|table| table.len() == 1) => Some(spec),
        _ => None,
    });
    let names: Vec<&str> = looks.flat_map(|spec| &spec.columns).map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["rounded"]);
    let fit = Fit::new(&release, Options::default()).unwrap();
    let share = |condition: m2m::expr::Expr| {
        let estimate = fit.totals(&[condition.check(&schema).unwrap()]).estimate(0);
        (estimate.value / 40_000.0, estimate.std_error / 40_000.0)
    };
    let truth = |is_in: &dyn Fn(f64) -> bool| rows.iter().filter(|row| is_in(row.0)).count() as f64 / 40_000.0;
    for value in [4.5, 14.5, 24.5, 34.5] {
        for (found, truth) in [
            (share(col("rounded").le(lit(value))), truth(&|x| x <= value)),
            (share(col("rounded").ge(lit(value))), truth(&|x| x >= value)),
        ] {
            // Without a closer look the error would be that of the rows at the value, a tenth and more of all.
            assert!((found.0 - truth).abs() < 0.02, "{value}: {found:?}, not {truth}");
            assert!(found.1 < 0.03, "{value}: {found:?}");
        }
    }
}

/// Whatever whole numbers a schema allows, a second round follows the first, which has been paid for by then.
#[test]
fn second_rounds_follow_for_all_ranges() {
    let mut random = Random::new(13);
    let values: Vec<f64> = (0..500).map(|_| (random.unit() * 20.0).floor()).collect();
    for (low, high) in
        [("0", "9999"), ("0", "700000000"), ("0", "10000000000000"), ("0", "9007199254740991"), ("-5", "4294967300")]
    {
        let range = format!("type = 'integer'\nmin = {low}\nmax = {high}\n");
        let toml = format!("[[column]]\nname = 'a'\n{range}[[column]]\nname = 'b'\ntype = 'boolean'\n");
        let schema = Schema::from_toml(&toml).unwrap();
        let step = high.parse::<f64>().unwrap() / 40.0;
        let mut text = String::from("a,b\n");
        values.iter().for_each(|x| writeln!(text, "{},{}", (x * step).floor(), x % 2.0 == 0.0).unwrap());
        let table = Table::from_csv_bytes(text.into_bytes());
        for epsilon in ["0.1", "5", "900"] {
            let privacy = Privacy::new(budget(epsilon, None, None));
            let release = release(&schema, &Auto::default(), privacy, &table);
            Fit::new(&release, Options::default()).unwrap();
        }
    }
}

/// The bin of a number from 0 to 1, where the first of them is halved and the last is cut.
fn bin(bins: u32, halved: u32, x: f64) -> usize {
    let v = f64::from(bins) * x;
    let halves = (1..=halved).filter(|power| v >= 0.5f64.powi(*power as i32)).count();
    let is_cut = halved > 0 && f64::from(bins) - v <= 0.5f64.powi(halved as i32);
    halves + v as usize + usize::from(is_cut)
}

/// The sums of a block of tables, counted by hand.
fn counted(rows: &Rows, map: &MapSpec) -> Vec<i64> {
    // Bins and groups of each column, and the columns of each table.
    let (columns, tables) = match map {
        MapSpec::Signs(spec) => {
            assert_eq!((spec.columns.len(), &spec.pairs[..]), (2, &[[0, 1]][..]));
            let sign = |(x, k, _): &(f64, Option<i64>, &str)| {
                let x = spec.columns[0].signs[bin(spec.columns[0].bins, spec.columns[0].halved, *x)];
                i64::from(x * spec.columns[1].signs[k.map_or(10, |k| k as usize)])
            };
            return vec![rows.0.iter().map(sign).sum()];
        }
        MapSpec::Values(spec) => {
            let value = |column: &ValueColumn, unit: f64| {
                let (low, high) = (f64::from(column.low) / 65_536.0, f64::from(column.high) / 65_536.0);
                (4096.0 * ((2.0 * unit - low - high) / (high - low)).clamp(-1.0, 1.0)).round() as i64
            };
            let of = |column: &ValueColumn| {
                let unit = |(x, k, _): &(f64, Option<i64>, &str)| match column.name.as_str() {
                    "x" => Some(*x),
                    _ => k.map(|k| k as f64 / 9.0),
                };
                rows.0.iter().filter_map(unit).map(|unit| value(column, unit)).sum()
            };
            return spec.columns.iter().map(of).collect();
        }
        MapSpec::Hist(spec) => {
            // x has its bins and missing, k a cell for each of ten values and missing, g three levels, other and missing.
            let cells = [spec.bins + spec.halved + 2, 11, 5].map(|len| (0..len).collect::<Vec<u32>>());
            (cells.map(|cells| (spec.bins, spec.halved, cells)).to_vec(), vec![vec![0], vec![1], vec![2]])
        }
        MapSpec::Merged(spec) => {
            let column = |column: &MergedColumn| (column.bins, column.halved, column.groups.clone());
            let columns: Vec<_> = spec.columns.iter().map(column).collect();
            (columns, spec.tables.clone())
        }
        other => panic!("{other:?}"),
    };
    let group = |column: usize, (x, k, g): &(f64, Option<i64>, &str)| {
        let cell = match column {
            0 => bin(columns[0].0, columns[0].1, *x),
            1 => k.map_or(10, |k| k as usize),
            _ => ["a", "b", "c"].iter().position(|level| level == g).unwrap(),
        };
        columns[column].2[cell] as usize
    };
    let mut sums = Vec::new();
    for table in &tables {
        let sizes: Vec<usize> =
            table.iter().map(|column| *columns[*column as usize].2.iter().max().unwrap() as usize + 1).collect();
        let mut counts = vec![0; sizes.iter().product()];
        for row in &rows.0 {
            let place =
                table.iter().zip(&sizes).fold(0, |place, (column, size)| place * size + group(*column as usize, row));
            counts[place] += 1;
        }
        sums.extend(counts);
    }
    sums
}

/// Under pure ε the 21 pairs of seven columns are told by seven tables of three, and correlations by those and by signs. The
/// columns are normal numbers with a common part, one turned around; bounds are five times the errors that were seen.
#[test]
fn pairs_are_told_by_tables_of_three() {
    const COLUMNS: usize = 7;
    let mut random = Random::new(5);
    let mut normal = || (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
    let names: Vec<String> = (0..COLUMNS).map(|at| format!("c{at}")).collect();
    let mut text = names.join(",");
    for _ in 0..20_000 {
        let common = normal();
        let value = |at: usize| (if at == 3 { -0.8 } else { 0.8 }) * common;
        let cells: Vec<String> = (0..COLUMNS).map(|at| format!("{:.4}", value(at) + 0.6 * normal())).collect();
        write!(text, "\n{}", cells.join(",")).unwrap();
    }
    let column = |name: &String| format!("[[column]]\nname = '{name}'\ntype = 'number'\nmin = -4\nmax = 4\n");
    let schema = Schema::from_toml(&names.iter().map(column).collect::<String>()).unwrap();
    let table = Table::from_csv_bytes(text.into_bytes());
    let release = release(&schema, &Auto::default(), Privacy::new(budget("1", None, None)), &table);
    let MapSpec::Merged(spec) = release.blocks()[1].map() else { panic!("tables follow") };
    assert!(spec.tables.len() == 7 && spec.tables.iter().all(|table| table.len() == 3), "{:?}", spec.tables);
    let MapSpec::Signs(signs) = release.blocks()[2].map() else { panic!("then signs") };
    assert_eq!(signs.pairs.len(), 21);
    let fit = Fit::new(&release, Options::default()).unwrap();
    let ask = Ask::of(&fit);
    for (i, one) in names.iter().enumerate() {
        for (j, two) in names.iter().enumerate().skip(i + 1) {
            let truth = if i == 3 || j == 3 { -0.64 } else { 0.64 };
            let found = ask.correlation(&[one, two]).unwrap().entries[0][1];
            assert!((found.value - truth).abs() < 0.15 && found.std_error < 0.1, "{one} {two}: {found:?}");
        }
    }
}

/// Exact and sampled readings agree, and both with the truth.
#[test]
fn answers_are_near_the_truth() {
    let rows = Rows::new(20_000, 6);
    let schema = schema();
    let release = release(&schema, &Auto::default(), Privacy::new(budget("8", None, None)), &rows.table());
    let fit = Fit::new(&release, Options::default()).unwrap();
    let ask = Ask::of(&fit);
    let n = rows.0.len() as f64;
    let with: Vec<(f64, f64)> = rows.0.iter().filter_map(|(x, k, _)| k.map(|k| (*x, k as f64))).collect();
    let mean = |f: &dyn Fn(&(f64, f64)) -> f64| with.iter().map(f).sum::<f64>() / with.len() as f64;
    let covariance = mean(&|(x, k)| x * k) - mean(&|(x, _)| *x) * mean(&|(_, k)| *k);
    let deviation = |f: &dyn Fn(&(f64, f64)) -> f64| (mean(&|row| f(row).powi(2)) - mean(f).powi(2)).sqrt();
    let truth = covariance / (deviation(&|(x, _)| *x) * deviation(&|(_, k)| *k));
    let found = ask.correlation(&["x", "k"]).unwrap().entries[0][1];
    assert!(truth > 0.5 && (found.value - truth).abs() < 0.02, "{found:?}, not {truth}");

    let three = col("x").gt(lit(0.3)).and(col("k").ge(lit(4.0))).and(col("g").eq(lit("a")));
    let truth = rows.0.iter().filter(|(x, k, g)| *x > 0.3 && k.is_some_and(|k| k >= 4) && *g == "a").count() as f64 / n;
    let found = fit.totals(&[three.check(&schema).unwrap()]).estimate(0);
    assert!((found.value / n - truth).abs() < 0.01 && found.std_error / n < 0.02, "{found:?}, not {truth}");

    // Not a product of columns, so it is read off random points.
    let apart = (col("k") / lit(10.0)).gt(col("x"));
    let checked = apart.check(&schema).unwrap();
    assert!(!fit.is_exact(&checked));
    let truth = rows.0.iter().filter(|(x, k, _)| k.is_some_and(|k| k as f64 / 10.0 > *x)).count() as f64 / n;
    let found = fit.totals(&[checked]).estimate(0);
    assert!((found.value / n - truth).abs() < 4.0 * found.std_error / n + 0.01, "{found:?}, not {truth}");
}

/// A question asked by itself, which goes by what is kept of its factors, has the answer and the errors that it has among
/// others, which are put together cell by cell.
#[test]
fn questions_alone_are_those_among_others() {
    let (rows, schema) = (Rows::new(5_000, 12), schema());
    for (epsilon, delta) in [("0.3", None), ("4", Some("1e-6"))] {
        let privacy = Privacy::new(budget(epsilon, delta, None));
        let fit = Fit::new(&release(&schema, &Auto::default(), privacy, &rows.table()), Options::default()).unwrap();
        let (x, k, g) = (|| col("x"), || col("k"), || col("g"));
        let other = x().le(lit(0.37)).check(&schema).unwrap();
        for question in [
            x(),
            x() * x(),
            lit(3.0) * x() - lit(2.0),
            x() * k(),
            x().gt(lit(0.3)).and(k().ge(lit(4.0))),
            x().gt(lit(0.3)).and(k().lt(lit(4.0))).and(!g().eq(lit("a"))),
            g().eq(lit("b")),
            k().is_null(),
            lit(1.0),
        ] {
            let question = question.check(&schema).unwrap();
            assert!(fit.is_exact(&question));
            let alone = fit.totals(std::slice::from_ref(&question)).estimate(0);
            let among = fit.totals(&[question.clone(), other.clone()]).estimate(0);
            let parts = |estimate: &m2m::estimate::Estimate| {
                let m2m::estimate::Parts { privacy, count, sampling, approximation } = estimate.parts;
                [estimate.value, estimate.low, estimate.high, privacy, count, sampling, approximation]
            };
            // Roots of variances, of which digits were lost in differences.
            let near = |(a, b): (f64, f64)| (a - b).abs() <= 1e-6 * (1.0 + a.abs());
            assert!(parts(&alone).into_iter().zip(parts(&among)).all(near), "{alone:?}, not {among:?}");
            assert_eq!(alone.caution, among.caution);
            // Its mean is its ratio to the number of rows.
            let rows = lit(1.0).check(&schema).unwrap();
            let mean = fit.totals(std::slice::from_ref(&question)).mean(0, &fit.count());
            let ratio = fit.totals(&[question, rows]).ratio(0, 1);
            assert!(parts(&mean).into_iter().zip(parts(&ratio)).all(near), "{mean:?}, not {ratio:?}");
        }
    }
}
