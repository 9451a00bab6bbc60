//! What one row or one user can change, and that nothing leaves without noise.

mod common;

use std::collections::HashSet;

use common::{Random, Secret, csv, definition, record, records, schema, secret, sketch, sums_of, sums_of_files};
use m2m::feature::Body;
use m2m::privatise::{Budget, Mechanism, Neighbours, NoiseKind, Plan, Privacy, sensitivity};
use m2m::source::{self, Table};
use m2m::sums::Sketcher;
use m2m::{Decimal, Design, Error, Release, Schema};
use proptest::prelude::*;

fn decimal(text: &str) -> Decimal {
    text.parse().unwrap()
}

fn pure(epsilon: &str) -> Privacy {
    Privacy::new(Budget::pure(decimal(epsilon)).unwrap())
}

/// Every kind of noise: Laplace, K-norm, Gaussian under (ε, δ) and under ρ.
fn every_noise(epsilon: &str) -> [Privacy; 4] {
    let approximate = Budget::new(Some(decimal(epsilon)), Some(decimal("1e-6")), None).unwrap();
    let concentrated = Budget::new(None, None, Some(decimal("0.5"))).unwrap();
    [
        Privacy { noise: NoiseKind::Laplace, ..pure(epsilon) },
        pure(epsilon),
        Privacy::new(approximate),
        Privacy::new(concentrated),
    ]
}

fn release(schema: &Schema, design: &Design, privacy: Privacy, records: &[Vec<u8>]) -> Release {
    let plan = Plan::new(schema, design, privacy).unwrap();
    let noise = plan.draw().unwrap();
    let sketcher = Sketcher::new(schema, design).unwrap();
    sketch(&sketcher, &Table::from_csv_bytes(csv(schema, records)), 1).privatise(noise).unwrap()
}

/// The count and all sums of a release.
fn coordinates(release: &Release) -> Vec<i64> {
    std::iter::once(release.count().value)
        .chain(release.blocks().iter().flat_map(|block| block.sums()).copied())
        .collect()
}

/// Whether a change of sums is one that neighbours can make, block by block.
fn is_within(schema: &Schema, design: &Design, neighbours: Neighbours, change: &Secret) -> bool {
    design.blocks().iter().zip(&change.blocks).all(|(block, change)| {
        let body = block.map.shape(schema).unwrap().1;
        let bound = sensitivity(body, neighbours, schema.unit().max_rows()).unwrap();
        let l1: u128 = change.iter().map(|x| x.unsigned_abs()).sum();
        let l2_squared: u128 = change.iter().map(|x| x.unsigned_abs().pow(2)).sum();
        l1 <= bound.l1 && l2_squared <= bound.l2_squared
    })
}

#[test]
fn known_sensitivities() {
    use Neighbours::{AddRemove, Replace};
    let schema = schema(&[0, 1, 4, 9, 10], None);
    let of = |map: &str, neighbours, rows| {
        let design = Design::parse(map).unwrap();
        let bound = sensitivity(design.blocks()[0].map.shape(&schema).unwrap().1, neighbours, rows).unwrap();
        (bound.l1, bound.l2_squared)
    };
    assert_eq!(of("hist", AddRemove, 1), (5, 5), "a column each");
    assert_eq!(of("hist", Replace, 1), (10, 10));
    assert_eq!(of("tables:ways=2", AddRemove, 1), (10, 10), "a pair of columns each");
    assert_eq!(of("tables:ways=3", AddRemove, 4), (40, 160));
    assert_eq!(of("race:r=80,w=80", AddRemove, 1), (80, 80), "a hash each");
    assert_eq!(of("race:r=80,w=64,hash=angular", Replace, 1), (160, 160));
    // √2 (2²⁰ + 1) = 1482911.6… and √2 · 2 (2²⁰ + 1) = 2965823.3…
    let radius = (1 << 20) + 1;
    assert_eq!(of("rff:m=200", AddRemove, 1), (148_291_100, 100 * radius * radius), "√2 and 1 for each frequency");
    assert_eq!(of("rff:m=200", Replace, 1), (296_582_300, 400 * radius * radius));
    let radius = (1 << 30) + 1;
    // √2 (2³⁰ + 1) = 1518500251.3…
    assert_eq!(of("rff:m=2,precision=precise", AddRemove, 3), (4_555_500_753, 9 * radius * radius));
    let own = Body::Bounded { l1: 30, l2_squared: 200 };
    assert_eq!(sensitivity(own, Replace, 1).map(|bound| (bound.l1, bound.l2_squared)), Some((60, 800)));
}

proptest! {
    #![proptest_config(common::config(60))]

    /// The rows that come, go and are replaced: two like the others and one with nothing in it.
    #[test]
    fn one_row_stays_within_sensitivity(
        columns in prop::collection::vec(0..common::COLUMNS.len(), 1..=6), seed in any::<u32>(), length in 0usize..800,
    ) {
        let schema = schema(&columns, None);
        let seed = u64::from(seed);
        let design = common::every_map(&schema, seed);
        let mut table = records(&schema, seed, length);
        let without = sums_of(&schema, &design, &table);
        let empty = vec![b','; columns.len() - 1];
        let with = [record(&schema, seed, length), record(&schema, seed, length + 1), empty].map(|row| {
            table.push(row);
            let sums = sums_of(&schema, &design, &table);
            table.pop();
            sums
        });
        for one in &with {
            prop_assert!(is_within(&schema, &design, Neighbours::AddRemove, &one.minus(&without)));
            for other in &with {
                prop_assert!(is_within(&schema, &design, Neighbours::Replace, &one.minus(other)));
                prop_assert_eq!(one.rows, other.rows);
            }
        }
    }

    /// A user with many rows comes to a table of others. The change is what the user's rows alone add up to, so it
    /// does not depend on the others; it is within the bound for C rows; neither order nor files matter.
    #[test]
    fn one_user_stays_within_sensitivity(
        columns in prop::collection::vec(0..common::COLUMNS.len(), 1..=5),
        seed in any::<u32>(), others in 0usize..200, own in 1usize..25, max_rows in 1u32..6, threads in 1usize..=4,
    ) {
        let schema = schema(&columns, Some(max_rows));
        let seed = u64::from(seed);
        let design = common::every_map(&schema, seed);
        let mut table = records(&schema, seed, others);
        let newcomer: Vec<Vec<u8>> = records(&schema, !seed, own)
            .into_iter()
            .map(|mut record| {
                let end = record.iter().rposition(|byte| *byte == b',').unwrap();
                record.truncate(end);
                record.extend_from_slice(b",newcomer");
                record
            })
            .collect();
        let without = sums_of(&schema, &design, &table);
        let alone = sums_of(&schema, &design, &newcomer);
        table.extend(newcomer);
        let with = sums_of(&schema, &design, &table);
        let change = with.minus(&without);
        prop_assert!(change == alone);
        prop_assert_eq!(change.rows, own.min(max_rows as usize) as i128);
        prop_assert!(is_within(&schema, &design, Neighbours::AddRemove, &change));

        let mut random = Random::new(seed);
        random.shuffle(&mut table);
        let cut = random.below(table.len() + 1);
        let shared = sums_of_files(&schema, &design, &[&table[..cut], &table[cut..]], threads);
        prop_assert!(shared == with);
    }

    /// Cells of all sorts, in a row of the right length or not.
    #[test]
    fn an_odd_record_changes_nothing_else(
        columns in prop::collection::vec(0..common::COLUMNS.len(), 2..=6),
        seed in any::<u32>(), at in 0usize..200, cells in 1usize..9,
    ) {
        let schema = schema(&columns, None);
        let seed = u64::from(seed);
        let design = common::every_map(&schema, seed);
        const ODD: [&str; 12] =
            ["nan", "inf", "-inf", "1e999", "\"quoted,\n\"", "", "\u{0}", "\u{feff}1", "9e-999", "%s", "-", "NA"];
        let mut random = Random::new(seed);
        let odd: Vec<&str> = (0..cells).map(|_| random.pick(&ODD)).collect();
        let odd = if odd == [""] { b"x".to_vec() } else { odd.join(",").into_bytes() };
        let mut records = records(&schema, seed, 200);
        let before = sums_of(&schema, &design, &records);
        records.insert(at, odd.clone());
        let change = sums_of(&schema, &design, &records).minus(&before);
        let own = definition(&schema, &design, &[odd]);
        prop_assert!(change.rows == 1 && change.blocks == own.blocks && own.inside);
    }
}

/// The bounds of counts are not only kept but reached, so they are not too large either.
#[test]
fn one_hot_bounds_are_attained() {
    let schema = schema(&[0, 5, 9, 10], None);
    let design =
        Design::from_toml("[[map]]\nkind = 'hist'\nshare = 0.5\n[[map]]\nkind = 'tables'\nways = 2\nshare = 0.5")
            .unwrap();
    let sums = |record: &str| sums_of(&schema, &design, &[record.as_bytes().to_vec()]);
    let change = sums("0,1,true,red").minus(&sums("2,5,false,blue"));
    for (block, groups) in change.blocks.iter().zip([4, 6]) {
        let bound = sensitivity(Body::OneHot { groups }, Neighbours::Replace, 1).unwrap();
        assert_eq!(block.iter().map(|x| x.unsigned_abs()).sum::<u128>(), bound.l1);
        assert_eq!(block.iter().map(|x| x.unsigned_abs().pow(2)).sum::<u128>(), bound.l2_squared);
    }
}

#[test]
fn of_each_user_max_rows_count() {
    let schema = schema(&[5], Some(3));
    let design = Design::parse("hist").unwrap();
    let rows = |text: &str| -> Vec<Vec<u8>> { text.split_whitespace().map(|row| row.as_bytes().to_vec()).collect() };
    let sums = sums_of(&schema, &design, &rows("1,a 1,a 1,a 1,a 2,b 3,b 4,c"));
    assert_eq!(sums.rows, 3 + 2 + 1, "equal rows count one by one");
    assert_eq!(sums.blocks[0], [0, 3, 1, 1, 1, 0, 0]);
    assert_eq!(sums.users.len(), 3);
}

/// A user's id is the same user's in every kind of file, with the blanks that some pad it with.
#[test]
fn a_user_is_one_in_every_kind_of_file() {
    use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray};
    use parquet::arrow::ArrowWriter;
    use std::sync::Arc;
    let schema =
        Schema::from_toml("[privacy]\nunit = 'id'\nmax_rows = 1\n[[column]]\nname = 'x'\ntype = 'boolean'").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("plain.csv"), "id,x\n7,true\n").unwrap();
    std::fs::write(at("padded.csv"), "id,x\n7   ,true\n").unwrap();
    std::fs::write(at("quoted.csv"), "id,x\n\"7  \",true\n").unwrap();
    let (ids, cells) = (Arc::new(StringArray::from(vec!["7   "])), Arc::new(BooleanArray::from(vec![true])));
    let batch = RecordBatch::try_from_iter([("id", ids as ArrayRef), ("x", cells as ArrayRef)]).unwrap();
    let mut writer =
        ArrowWriter::try_new(std::fs::File::create(at("padded.parquet")).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let all: Vec<_> = ["plain.csv", "padded.csv", "quoted.csv", "padded.parquet"].map(at).to_vec();
    let sketcher = Sketcher::new(&schema, &Design::parse("hist").unwrap()).unwrap();
    let sums = |paths: &[_]| sketch(&sketcher, &Table::open(paths, Default::default()).unwrap(), 1);
    assert_eq!(secret(&sums(&all)).rows, 1);
    for other in &all[1..] {
        let merged = sums(&all[..1]).merge(sums(std::slice::from_ref(other)));
        assert!(matches!(merged, Err(Error::Sums(_))), "{}", other.display());
    }
}

#[test]
fn rows_without_a_user_are_left_out() {
    let schema = schema(&[5, 9], Some(2));
    let design = Design::parse("hist").unwrap();
    let own = [b"1,true,a".to_vec(), b"2,false,b".to_vec()];
    let mixed = [b"3,true,".to_vec(), own[0].clone(), b"4,true".to_vec(), b"5,true,  ".to_vec(), own[1].clone()];
    assert_eq!(sums_of(&schema, &design, &mixed), sums_of(&schema, &design, &own));
    let sketcher = Sketcher::new(&schema, &design).unwrap();
    let (_, report) = source::sketch(&sketcher, &Table::from_csv_bytes(csv(&schema, &mixed)), 1, &()).unwrap();
    assert_eq!((report.rows, report.without_user), (5, 3));
}

#[test]
fn parts_that_share_a_user_do_not_merge() {
    let schema = schema(&[5], Some(2));
    let sketcher = Sketcher::new(&schema, &Design::parse("hist").unwrap()).unwrap();
    let part = |records: &[&str]| {
        let records: Vec<Vec<u8>> = records.iter().map(|record| record.as_bytes().to_vec()).collect();
        sketch(&sketcher, &Table::from_csv_bytes(csv(&schema, &records)), 1)
    };
    let mut sums = part(&["1,a", "2,b"]);
    assert!(matches!(sums.merge(part(&["3,c", "4,b"])), Err(Error::Sums(_))));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("part.sums");
    sums.save(&path, false).unwrap();
    let mut sums = m2m::Sums::open(&path).unwrap();
    assert!(matches!(sums.merge(part(&["4,b"])), Err(Error::Sums(_))), "a file remembers its users");
    sums.merge(part(&["3,c"])).unwrap();
    assert_eq!(secret(&sums), secret(&part(&["1,a", "2,b", "3,c"])));
}

#[cfg(unix)]
#[test]
fn only_the_owner_reads_sums() {
    use std::os::unix::fs::PermissionsExt;
    let schema = schema(&[5], None);
    let sketcher = Sketcher::new(&schema, &Design::parse("hist").unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("part.sums");
    std::fs::write(&path, "was readable by all").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    sketch(&sketcher, &Table::from_csv_bytes(b"c0\n1\n".to_vec()), 1).save(&path, true).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

/// Empty cells too. A coordinate keeps its value over 30 releases with probability below 0.2²⁹ (at ε = 0.5 no value of
/// any of these distributions has more than 0.2), so among fewer than 10⁵ coordinates a false alarm has probability
/// below 10⁻¹⁵.
#[test]
fn every_coordinate_is_noised() {
    let schema = schema(&[0, 5, 9, 10], None);
    let design = common::every_map(&schema, 1);
    for privacy in every_noise("0.5") {
        let first = coordinates(&release(&schema, &design, privacy, &[]));
        let mut constant: HashSet<usize> = (0..first.len()).collect();
        for _ in 1..30 {
            let again = coordinates(&release(&schema, &design, privacy, &[]));
            constant.retain(|at| first[*at] == again[*at]);
        }
        assert!(constant.is_empty(), "{privacy:?}: coordinates {constant:?} are not noised");
    }
}

/// Two draws agree in all coordinates with probability below 0.2⁵⁰⁰.
#[test]
fn two_releases_of_the_same_sums_differ() {
    let schema = schema(&[0, 5, 9, 10], None);
    let design = common::every_map(&schema, 2);
    let records = records(&schema, 2, 100);
    for privacy in every_noise("1") {
        let releases = [0, 1].map(|_| coordinates(&release(&schema, &design, privacy, &records)));
        assert_ne!(releases[0], releases[1]);
    }
}

/// Released minus exact has mean 0 and the stated variance. With 8,000 coordinates the bounds are more than 6 standard
/// errors wide for noise with a fourth moment of at most 6σ⁴: a false alarm has probability below 10⁻⁷.
#[test]
fn noise_variance_is_as_stated() {
    let schema = schema(&[0], None);
    let design = Design::parse("hist:bins=7999").unwrap();
    let records = records(&schema, 3, 1000);
    let exact = sums_of(&schema, &design, &records).blocks.remove(0);
    for privacy in every_noise("0.1") {
        let release = release(&schema, &design, privacy, &records);
        let block = &release.blocks()[0];
        let n = exact.len() as f64;
        let deviation = block.noise().standard_deviation(exact.len());
        let noise =
            || block.sums().iter().zip(&exact).map(|(sum, exact)| (i128::from(*sum) - exact) as f64 / deviation);
        let (mean, variance) = (noise().sum::<f64>() / n, noise().map(|z| z * z).sum::<f64>() / n);
        assert!(mean.abs() < 6.0 / n.sqrt(), "{privacy:?}: mean {mean}");
        assert!((variance - 1.0).abs() < 6.0 * (5.0 / n).sqrt(), "{privacy:?}: variance {variance}");
    }
}

/// The radius of K-norm noise is common to all coordinates: a sum of m + 1 nearly exponential variables, with relative
/// standard deviation 1/√m. Given the radius the pairs are independent, z² having standard deviation below 1.1. For
/// m = 4000 the bound is 6 standard errors wide: a false alarm has probability below 10⁻⁷.
#[test]
fn knorm_variance_is_as_stated() {
    let schema = schema(&[0], None);
    let design = Design::parse("rff:m=4000").unwrap();
    let release = release(&schema, &design, Privacy { noise: NoiseKind::Knorm, ..pure("1") }, &[]);
    let block = &release.blocks()[0];
    assert!(matches!(block.noise(), Mechanism::DiscKnorm { .. }));
    let deviation = block.noise().standard_deviation(4000);
    let variance = block.sums().iter().map(|sum| (*sum as f64 / deviation).powi(2)).sum::<f64>() / 4000.0;
    assert!((variance - 1.0).abs() < 6.0 * (4.0f64 / 4000.0 + 1.3 / 4000.0).sqrt(), "{variance}");
}

/// The same for one-hot groups, here of RACE: 400 groups of 10 cells. The cells of a group are not independent, and the
/// radius is common to all; the bound is more than 6 standard errors wide.
#[test]
fn one_hot_knorm_variance_is_as_stated() {
    let schema = schema(&[0], None);
    let design = Design::parse("race:r=400,w=10").unwrap();
    let release = release(&schema, &design, Privacy { noise: NoiseKind::Knorm, ..pure("1") }, &[]);
    let block = &release.blocks()[0];
    assert!(matches!(block.noise(), Mechanism::OneHotKnorm { .. }), "{:?}", block.noise());
    let deviation = block.noise().standard_deviation(4000);
    // Laplace noise would have √2 · 400 / 0.98.
    assert!((deviation / (577.2 * 10.0 / 132f64.sqrt()) - 1.0).abs() < 2e-3, "{deviation}");
    let variance = block.sums().iter().map(|sum| (*sum as f64 / deviation).powi(2)).sum::<f64>() / 4000.0;
    assert!((variance - 1.0).abs() < 6.0 * (4.0f64 / 4000.0 + 5.0 / 4000.0).sqrt(), "{variance}");
}

/// With replace-one neighbours all tables have the same number of rows. With add-remove ones that number is noised:
/// 20 releases all show the true one with probability below 0.02²⁰.
#[test]
fn only_a_public_count_is_exact() {
    let schema = schema(&[0, 10], None);
    let design = Design::parse("hist").unwrap();
    let records = records(&schema, 4, 321);
    let count = |neighbours| {
        let privacy = Privacy { neighbours, ..pure("1") };
        let release = release(&schema, &design, privacy, &records);
        assert_eq!(release.count().noise.is_none(), neighbours == Neighbours::Replace);
        release.count().value
    };
    assert!((0..20).all(|_| count(Neighbours::Replace) == 321));
    assert!((0..20).any(|_| count(Neighbours::AddRemove) != 321));
}

/// A user who leaves changes the number of rows, so it cannot be public.
#[test]
fn users_have_no_public_count() {
    let schema = schema(&[0], Some(2));
    let privacy = Privacy { neighbours: Neighbours::Replace, ..pure("1") };
    assert!(matches!(Plan::new(&schema, &Design::parse("hist").unwrap(), privacy), Err(Error::Budget(_))));
}

/// A release states the plan that its noise was drawn for, and noise for other features is refused.
#[test]
fn noise_carries_its_plan() {
    let schema = schema(&[0], None);
    let design = Design::parse("hist").unwrap();
    let sums = || sketch(&Sketcher::new(&schema, &design).unwrap(), &Table::from_csv_bytes(b"c0\n1\n".to_vec()), 1);
    for privacy in [pure("1000"), Privacy { neighbours: Neighbours::Replace, ..pure("0.01") }] {
        let release = sums().privatise(Plan::new(&schema, &design, privacy).unwrap().draw().unwrap()).unwrap();
        assert_eq!(release.statement().budget, privacy.budget);
        assert_eq!(release.statement().neighbours, privacy.neighbours);
    }
    let other = Plan::new(&schema, &Design::parse("hist:bins=7").unwrap(), pure("1")).unwrap();
    assert!(sums().privatise(other.draw().unwrap()).is_err());
}

/// Twice the users' rows need twice the noise, and a strict budget more than a generous one.
#[test]
fn noise_grows_with_sensitivity() {
    let deviation = |max_rows: Option<u32>, privacy: Privacy| {
        let schema = schema(&[0, 10], max_rows);
        let plan = Plan::new(&schema, &Design::parse("rff:m=20").unwrap(), privacy).unwrap();
        plan.blocks().next().unwrap().standard_deviation(20)
    };
    for privacy in every_noise("1") {
        let one = deviation(None, privacy);
        assert!((deviation(Some(1), privacy) / one - 1.0).abs() < 1e-6);
        assert!((deviation(Some(6), privacy) / one - 6.0).abs() < 1e-3, "{privacy:?}");
        let replace = deviation(None, Privacy { neighbours: Neighbours::Replace, ..privacy });
        // No share goes to the count, so it is a little less than twice.
        assert!((1.9..2.0).contains(&(replace / one)), "{privacy:?}: {}", replace / one);
    }
}
