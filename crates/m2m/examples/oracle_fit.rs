//! Writes fits on public points with everything they are made of, for `tests/oracle/fit.py` to recompute.
//!
//! `cargo run -p m2m --example oracle_fit -- DIRECTORY`

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::PathBuf;

use m2m::estimate::{Model, WeightedSample};
use m2m::expr::{Checked, Expr, col, lit};
use m2m::feature::Simd;
use m2m::fit::{Fit, Lambda, Options};
use m2m::prior::{Prior, PublicTable};
use m2m::privatise::{Budget, Plan, Privacy};
use m2m::source::{self, Table};
use m2m::sums::Sketcher;
use m2m::{Design, Schema};
use serde_json::json;

const SCHEMA: &str = "
    [[column]]
    name = 'a'
    type = 'number'
    min = -2
    max = 3
    [[column]]
    name = 'b'
    type = 'number'
    min = 0
    max = 1000
    transform = 'log1p'
    atoms = [0]
    nullable = true
    [[column]]
    name = 'c'
    type = 'category'
    levels = ['red', 'green', 'blue']
";

const DESIGNS: [(&str, &str); 4] = [
    ("rff", "[[map]]\nkind = 'rff'\nm = 30\nsigma = 0.5\nshare = 1.0"),
    ("race", "[[map]]\nkind = 'race'\nr = 8\nw = 10\nsigma = 0.2\nshare = 1.0"),
    ("hist", "[[map]]\nkind = 'hist'\nbins = 6\nshare = 1.0"),
    (
        "all",
        "[[map]]\nkind = 'race'\nr = 5\nw = 4\nhash = 'angular'\nshare = 0.3\n\
         [[map]]\nkind = 'rff'\nm = 12\nsigma = 1.0\nprecision = 'precise'\nshare = 0.3\n\
         [[map]]\nkind = 'tables'\nways = 2\nbins = 3\nshare = 0.2\n\
         [[map]]\nkind = 'hist'\nbins = 4\nshare = 0.2",
    ),
];

/// Rows as CSV; the private ones lean to one side.
fn rows(seed: u64, count: usize, lean: f64) -> String {
    let mut random = common::Random::new(seed);
    let mut text = "a,b,c\n".to_owned();
    for _ in 0..count {
        let u = random.unit().powf(lean);
        let b = match random.below(8) {
            0 => String::new(),
            1 => "0".into(),
            _ => format!("{:.4}", (6.9 * u * random.unit()).exp_m1()),
        };
        let c = random.pick(&["red", "green", "blue", "pink"]);
        text += &format!("{:.5},{b},{c}\n", 5.0 * u - 2.0);
    }
    text
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = PathBuf::from(std::env::args().nth(1).ok_or("give a directory")?);
    std::fs::create_dir_all(&directory)?;
    let schema = Schema::from_toml(SCHEMA)?;
    let public = rows(1, 1500, 1.0);
    let panels = source::read(&Table::from_csv_bytes(public.clone().into_bytes()), &schema, &())?;
    // The oracle knows these by their place.
    let questions: [Expr; 6] = [
        lit(1.0),
        col("a"),
        col("a") * col("a"),
        col("b").gt(lit(20.0)),
        col("c").eq(lit("red")).and(col("a").le(lit(0.5))),
        col("a") * col("b"),
    ];
    let questions = questions.iter().map(|question| question.check(&schema)).collect::<Result<Vec<Checked>, _>>()?;
    for (name, design) in DESIGNS {
        let design = Design::from_toml(design)?;
        let sketcher = Sketcher::new(&schema, &design)?;
        let plan = Plan::new(&schema, &design, Privacy::new(Budget::pure("2".parse()?)?))?;
        let private = Table::from_csv_bytes(rows(2, 3000, 1.6).into_bytes());
        let release = source::sketch(&sketcher, &private, 1, &())?.0.privatise(plan.draw()?)?;
        let maps = design.maps(&schema, Simd::Portable)?;
        let features: Vec<Vec<i64>> = panels
            .iter()
            .flat_map(|panel| (0..panel.len()).map(|row| panel.record(row)))
            .map(|record| {
                let mut all = Vec::new();
                for map in &maps {
                    let mut features = vec![0; map.len()];
                    map.record(record, &mut features);
                    all.extend(features);
                }
                all
            })
            .collect();
        let mut fits = Vec::new();
        for (rule, multiplier) in [("theorem", 1.0), ("theorem", 20.0), ("paper", 1.0)] {
            for centred in [true, false] {
                let lambda = if rule == "paper" { Lambda::Paper(multiplier) } else { Lambda::Theorem(multiplier) };
                let prior = Prior::Sample(PublicTable::new(panels.clone())?);
                let fit = Fit::new(&release, Options { prior, lambda, centred, ..Options::default() })?;
                let totals = fit.totals(&questions);
                let answers: Vec<_> = (0..questions.len()).map(|i| totals.estimate(i)).collect();
                // The same sums, of which only the differences' errors are told.
                let pairs: Vec<_> = (1..questions.len())
                    .map(|i| {
                        let mut gradient = vec![0.0; questions.len()];
                        (gradient[i - 1], gradient[i]) = (1.0, -2.0);
                        totals.combine(0.0, &gradient).parts
                    })
                    .collect();
                fits.push(json!({
                    "rule": rule, "multiplier": multiplier, "centred": centred,
                    "answers": answers, "pairs": pairs, "weights": fit.weights(&(0..schema.columns().len()).collect::<Vec<_>>()),
                }));
            }
        }
        let document = json!({ "points": public, "features": features, "fits": fits });
        std::fs::write(directory.join(format!("fit-{name}.json")), document.to_string())?;
        release.save(directory.join(format!("fit-{name}.release.json")), true)?;
    }
    Ok(())
}
