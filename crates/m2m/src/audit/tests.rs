//! Every way to make a release passes the audit, and every mistake of a long list is caught. Noise is seeded; over seeds, a
//! false alarm has probability at most [`ALARM`] for each honest case.

use super::case::{CONCENTRATED, GAUSSIAN, KNORM, LAPLACE, Path, Relation};
use super::{ALARM, Case, Finding, examine, suite};
use crate::auto;
use crate::feature::MapSpec;
use crate::privatise::{Mechanism, Neighbours, Noise, NoiseSource, Plan, PlannedBlock, Privacy, Scale};
use crate::source::{self, Table};
use crate::sums::Sketcher;
use crate::{Design, Error, Release, Schema, Sums};

const TRIALS: u64 = 4000;
/// Times as many for mistakes that are hard to see.
const MORE: u64 = 8;

/// Another source for every release.
fn source_of(table: usize, number: u64) -> NoiseSource {
    NoiseSource::seeded(2 * number + table as u64 + 1)
}

fn sums(case: &Case, table: &Table) -> Result<Sums, Error> {
    let Path::Fixed { sketcher, .. } = &case.path else { panic!("the maps are fixed") };
    Ok(source::sketch(sketcher, table, 1, &())?.0)
}

/// A release in one round whose noise somebody has tampered with.
fn tampered(
    case: &Case,
    table: usize,
    number: u64,
    tamper: impl Fn(&mut Noise, &mut NoiseSource),
) -> Result<Release, Error> {
    let Path::Fixed { plan, .. } = &case.path else { panic!("the maps are fixed") };
    let mut source = source_of(table, number);
    let mut noise = plan.draw_from(&mut source)?;
    tamper(&mut noise, &mut source);
    sums(case, &case.tables[table])?.privatise(noise)
}

/// A release in two rounds, with noise by `draw`, which also hears how often it was called before.
fn in_two_rounds(
    case: &Case,
    table: usize,
    mut draw: impl FnMut(usize, &PlannedBlock, &mut [i128]),
) -> Result<Release, Error> {
    let Path::Auto(choice) = &case.path else { panic!("the maps depend on noise") };
    let mut calls = 0;
    let mut draw = |block: &PlannedBlock, noise: &mut [i128]| {
        draw(calls, block, noise);
        calls += 1;
    };
    let (schema, table) = (&case.schema, &case.tables[table]);
    let added = |design: &Design| -> Result<_, Error> {
        let (sums, _) = source::sketch(&Sketcher::new(schema, design)?, table, 1, &())?;
        sums.into_parts(schema, design)
    };
    let (rows, _) = added(&Design::parse("hist:bins=1")?)?;
    let histograms = |map: &MapSpec| Ok(added(&Design::single(map.clone()))?.1.swap_remove(0));
    let first = auto::noised_marginals(schema, case.privacy, choice.rows, rows, histograms, &mut draw)?;
    let design = auto::second_design(&first, choice)?;
    auto::with_tables(&first, &design, added(&design)?.1, &mut draw)
}

fn honest(case: &Case, table: usize, number: u64) -> Result<Release, Error> {
    match &case.path {
        Path::Fixed { .. } => tampered(case, table, number, |_, _| ()),
        Path::Auto(_) => {
            let mut source = source_of(table, number);
            in_two_rounds(case, table, |_, block, noise| block.draw(&mut source, noise))
        }
    }
}

fn case(mechanism: &'static str, map: &str, relation: Relation) -> Case {
    Case::new(mechanism, map, relation).unwrap()
}

fn caught(case: &Case, release: impl Fn(usize, u64) -> Result<Release, Error> + Sync) -> Finding {
    // A mistake that shows at once needs few releases; a small one gets more of them.
    let trials = case.trials(TRIALS);
    let mut finding = examine(case, trials, &release).unwrap();
    if finding.holds(ALARM) {
        finding = examine(case, MORE * trials, &release).unwrap();
    }
    let bound = finding.lower_bound(1.0 - ALARM);
    assert!(!finding.holds(ALARM), "{}: at least {bound}, which is allowed; {finding:?}", case.map);
    finding
}

/// The same with all noise drawn by other mechanisms than planned.
fn caught_with(case: &Case, other: impl Fn(usize, Mechanism) -> Mechanism + Sync) -> Finding {
    caught(case, |table, number| {
        tampered(case, table, number, |noise, source| {
            let planned = noise.plan.planned().to_vec();
            for (at, (block, planned)) in noise.blocks.iter_mut().zip(planned).enumerate() {
                other(at, planned.mechanism).draw(source, &planned.groups, block);
            }
        })
    })
}

/// The mechanism with its scale multiplied by a fraction.
fn scaled(mechanism: Mechanism, (up, down): (u64, u64)) -> Mechanism {
    let by = |scale: Scale| Scale::new(scale.numerator() * up / down, scale.denominator()).unwrap();
    match mechanism {
        Mechanism::DiscreteLaplace { scale } => Mechanism::DiscreteLaplace { scale: by(scale) },
        Mechanism::DiscreteGaussian { sigma } => Mechanism::DiscreteGaussian { sigma: by(sigma) },
        Mechanism::DiscKnorm { scale, minimum_radius } => {
            Mechanism::DiscKnorm { scale: by(scale), minimum_radius: minimum_radius * up / down }
        }
        Mechanism::OneHotKnorm { deviation } => Mechanism::OneHotKnorm { deviation: deviation * up / down },
    }
}

/// What another curator would have planned.
fn planned(case: &Case, schema: &Schema, privacy: Privacy) -> Vec<Mechanism> {
    let Path::Fixed { plan, .. } = &case.path else { panic!("the maps are fixed") };
    Plan::new(schema, plan.design(), privacy).unwrap().blocks().collect()
}

/// K-norm noise is not taken where it is no smaller: the cases are such that it is.
#[test]
fn cases_of_shaped_noise_have_it() {
    let is_shaped = |noise| matches!(noise, Mechanism::DiscKnorm { .. } | Mechanism::OneHotKnorm { .. });
    for case in suite().unwrap().iter().filter(|case| case.mechanism == KNORM) {
        let release = honest(case, 0, 0).unwrap();
        let all = release.blocks().iter().all(|block| is_shaped(block.noise()));
        let any = release.blocks().iter().any(|block| is_shaped(block.noise()));
        // Some blocks have a single table of each size.
        let some = matches!(&*case.map, "hist + rff" | "auto, three columns");
        assert!(if some { any } else { all }, "{} {}", case.map, case.neighbours);
    }
}

#[test]
fn honest_releases_pass() {
    for case in suite().unwrap() {
        let finding = examine(&case, case.trials(TRIALS), &|table, number| honest(&case, table, number)).unwrap();
        let name = format!("{} {} {} {}", case.mechanism, case.map, case.unit, case.neighbours);
        assert!(finding.holds(ALARM), "{name}: {finding:?}");
    }
}

#[test]
fn the_tables_are_as_far_apart_as_neighbours_can_be() {
    for case in suite().unwrap() {
        let attained = case.attained().unwrap();
        let name = format!("{} {} {} {}", case.mechanism, case.map, case.unit, case.neighbours);
        assert!(attained > 0.995 && attained <= 1.0, "{name}: {attained}");
    }
}

/// The audit is no formality: where nothing is lost on the way, it comes near to what is claimed.
#[test]
fn the_bound_is_near_the_claim() {
    for (mechanism, map) in [(LAPLACE, "tables"), (LAPLACE, "own"), (GAUSSIAN, "rff"), (GAUSSIAN, "own")] {
        let case = case(mechanism, map, Relation::Row);
        let finding = examine(&case, 6 * TRIALS, &|table, number| honest(&case, table, number)).unwrap();
        assert!(finding.lower_bound(0.95) > 0.85, "{mechanism} {map}: {finding:?}");
    }
}

#[test]
fn half_noise_is_caught() {
    for (mechanism, map) in [
        (LAPLACE, "hist"),
        (LAPLACE, "tables"),
        (LAPLACE, "race"),
        (LAPLACE, "rff"),
        (LAPLACE, "own"),
        (GAUSSIAN, "hist"),
        (GAUSSIAN, "rff"),
        (CONCENTRATED, "rff"),
        (KNORM, "rff"),
        (KNORM, "hist"),
        (KNORM, "signs"),
        (GAUSSIAN, "signs"),
        (KNORM, "values"),
        (GAUSSIAN, "values"),
        (LAPLACE, "values"),
        (KNORM, "race"),
    ] {
        caught_with(&case(mechanism, map, Relation::Row), |_, mechanism| scaled(mechanism, (1, 2)));
    }
}

/// Two columns noised as if a row were in one histogram, and a disc as if its radius bounded |c| + |s|.
#[test]
fn a_wrong_sensitivity_is_caught() {
    caught_with(&case(LAPLACE, "hist", Relation::Row), |_, mechanism| scaled(mechanism, (1, 2)));
    caught_with(&case(LAPLACE, "rff", Relation::Row), |_, mechanism| scaled(mechanism, (1000, 1415)));
}

#[test]
fn a_shared_draw_is_caught() {
    for mechanism in [LAPLACE, GAUSSIAN] {
        let case = case(mechanism, "hist", Relation::Row);
        let finding = caught(&case, |table, number| {
            tampered(&case, table, number, |noise, _| {
                for block in &mut noise.blocks {
                    let first = block[0];
                    block.fill(first);
                }
            })
        });
        assert!(finding.event.contains('−'), "a difference tells: {finding:?}");
    }
}

#[test]
fn an_empty_cell_without_noise_is_caught() {
    let case = case(LAPLACE, "hist", Relation::Row);
    let Path::Fixed { exact, .. } = &case.path else { panic!("the maps are fixed") };
    caught(&case, |table, number| {
        tampered(&case, table, number, |noise, _| {
            for (block, exact) in noise.blocks.iter_mut().zip(&exact[table].blocks) {
                block.iter_mut().zip(exact).filter(|(_, sum)| **sum == 0).for_each(|(noise, _)| *noise = 0);
            }
        })
    });
}

#[test]
fn an_exact_count_is_caught() {
    for mechanism in [LAPLACE, GAUSSIAN, CONCENTRATED, KNORM] {
        let case = case(mechanism, "rff", Relation::Row);
        let finding = caught(&case, |table, number| tampered(&case, table, number, |noise, _| noise.count = Some(0)));
        assert!(finding.event.starts_with("count"), "{finding:?}");
    }
}

/// Laplace noise in single precision, as −t·sign·ln u: its low bits are those of the format.
#[test]
fn floating_point_noise_is_caught() {
    let case = case(LAPLACE, "rff precise", Relation::Row);
    caught(&case, |table, number| {
        tampered(&case, table, number, |noise, source| {
            let planned: Vec<Mechanism> = noise.plan.blocks().collect();
            for (block, mechanism) in noise.blocks.iter_mut().zip(planned) {
                let Mechanism::DiscreteLaplace { scale } = mechanism else { panic!("pure ε") };
                let t = scale.numerator() as f32 / scale.denominator() as f32;
                // A uniform number of 24 bits, from noise that is good.
                let bits = Mechanism::DiscreteLaplace { scale: Scale::new(1 << 40, 1).unwrap() };
                bits.draw(source, &[], block);
                for noise in block {
                    let (sign, word) = (if *noise & (1 << 30) == 0 { 1.0 } else { -1.0 }, *noise & ((1 << 24) - 1));
                    *noise = (sign * t * -((word as f32 + 0.5) / (1 << 24) as f32).ln()) as i128;
                }
            }
        })
    });
}

/// Numbers rescaled by the smallest and the largest of the table, as many programs do.
#[test]
fn bounds_from_the_data_are_caught() {
    let case = case(LAPLACE, "hist", Relation::Row);
    let tables = [vec![], vec![1.0]].map(|outlier: Vec<f64>| {
        let rows: Vec<f64> = (0..20).map(|row| 0.2 + 0.01 * f64::from(row)).chain(outlier).collect();
        let (low, high) =
            rows.iter().fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), x| (low.min(*x), high.max(*x)));
        let lines = rows.iter().map(|x| format!("{},a\n", (x - low) / (high - low)));
        Table::from_csv_bytes(format!("x,g\n{}", lines.collect::<String>()).into_bytes())
    });
    let Path::Fixed { plan, .. } = &case.path else { panic!("the maps are fixed") };
    caught(&case, |table, number| {
        sums(&case, &tables[table])?.privatise(plan.draw_from(&mut source_of(table, number))?)
    });
}

#[test]
fn a_fixed_seed_is_caught() {
    for (mechanism, map) in [(LAPLACE, "hist"), (GAUSSIAN, "rff"), (KNORM, "rff"), (KNORM, "hist")] {
        let case = case(mechanism, map, Relation::Row);
        caught(&case, |table, _| {
            tampered(&case, table, 0, |noise, _| {
                let again = noise.plan.draw_from(&mut NoiseSource::seeded(5)).unwrap();
                (noise.count, noise.blocks) = (again.count, again.blocks);
            })
        });
    }
}

#[test]
fn three_rows_of_a_one_row_user_are_caught() {
    let case = case(LAPLACE, "hist", Relation::User);
    let text = "[privacy]\nunit = 'who'\nmax_rows = 1\n[[column]]\nname = 'x'\ntype = 'number'\nmin = 0\nmax = 1\n[[column]]\nname = 'g'\ntype = 'category'\nlevels = ['a', 'b']";
    let others = planned(&case, &Schema::from_toml(text).unwrap(), case.privacy);
    caught_with(&case, |at, _| others[at]);
}

#[test]
fn replacing_under_the_noise_for_adding_is_caught() {
    for (mechanism, map) in [
        (LAPLACE, "hist"),
        (LAPLACE, "rff"),
        (GAUSSIAN, "rff"),
        (GAUSSIAN, "signs"),
        (KNORM, "rff"),
        (KNORM, "hist"),
        (KNORM, "signs"),
        (KNORM, "values"),
        (KNORM, "race"),
    ] {
        let case = case(mechanism, map, Relation::Replace);
        let privacy = Privacy { neighbours: Neighbours::AddRemove, ..case.privacy };
        let others = planned(&case, &case.schema, privacy);
        caught_with(&case, |at, _| others[at]);
    }
}

#[test]
fn knorm_noise_of_two_thirds_is_caught() {
    for map in ["rff", "hist", "signs", "values", "race"] {
        caught_with(&case(KNORM, map, Relation::Row), |_, mechanism| scaled(mechanism, (2, 3)));
    }
}

#[test]
fn gaussian_noise_of_four_fifths_is_caught() {
    caught_with(&case(GAUSSIAN, "rff", Relation::Row), |_, mechanism| scaled(mechanism, (4, 5)));
}

/// The first two draws are the count's and the histograms'.
#[test]
fn too_little_noise_in_one_of_two_rounds_is_caught() {
    // Three columns are slow and have fewer releases, so that less noise is needed to show.
    let cases = [(GAUSSIAN, "auto", 4), (KNORM, "auto, three columns", 24)];
    for (first, (noise, map, part)) in [true, false].into_iter().flat_map(|first| cases.map(|case| (first, case))) {
        let case = case(noise, map, Relation::Row);
        caught(&case, |table, number| {
            let mut source = source_of(table, number);
            in_two_rounds(&case, table, |calls, block, noise| {
                let less = (calls < 2) == first;
                let mechanism = if less { scaled(block.mechanism, (1, part)) } else { block.mechanism };
                mechanism.draw(&mut source, &block.groups, noise);
            })
        });
    }
}
