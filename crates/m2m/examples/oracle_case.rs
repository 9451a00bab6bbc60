//! Writes tables with their sums and releases, for `tests/oracle/naive.py` to recompute.
//!
//! `cargo run -p m2m --example oracle_case -- DIRECTORY [ROWS]`

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::{Path, PathBuf};

use m2m::auto::{Auto, FirstRound, SecondRound};
use m2m::privatise::{Budget, Plan, Privacy};
use m2m::source::{self, Table};
use m2m::sums::Sketcher;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().ok_or("give a directory")?);
    let rows = arguments.next().map_or(Ok(2000), |rows| rows.parse())?;
    std::fs::create_dir_all(&directory)?;
    let columns: Vec<usize> = (0..common::COLUMNS.len()).collect();
    for (name, max_rows, seed) in [("rows", None, 13), ("users", Some(150), 12)] {
        let schema = common::schema(&columns, max_rows);
        let design = common::every_map(&schema, seed);
        let csv = common::csv(&schema, &common::records(&schema, seed, rows));
        let sketcher = Sketcher::new(&schema, &design)?;
        let plan = Plan::new(&schema, &design, Privacy::new(Budget::pure("1".parse()?)?))?;
        let noise = plan.draw()?;
        let (sums, _) = source::sketch(&sketcher, &Table::from_csv_bytes(csv.clone()), 2, &())?;
        let path = |ending: &str| directory.join(format!("{name}.{ending}"));
        std::fs::write(path("csv"), csv)?;
        sums.save(&path("sums"), true)?;
        sums.privatise(noise)?.save(path("json"), true)?;
    }
    two_rounds(&directory, rows)
}

/// The default design, with so little noise that there are tables of three columns too. Its sums are taken again by the
/// design that the release describes.
fn two_rounds(directory: &Path, rows: usize) -> Result<(), Box<dyn std::error::Error>> {
    let columns: Vec<usize> = (0..common::COLUMNS.len()).collect();
    let schema = common::schema(&columns, None);
    let csv = common::csv(&schema, &common::records(&schema, 11, rows));
    let table = Table::from_csv_bytes(csv.clone());
    let privacy = Privacy::new(Budget::pure("1000".parse()?)?);
    let first = FirstRound::new(&schema, &Auto::default(), privacy)?;
    let (sums, _) = source::sketch(&first.sketcher()?, &table, 2, &())?;
    let second = SecondRound::after(&first.privatise(sums)?, &Auto::default())?;
    let (sums, _) = source::sketch(&second.sketcher()?, &table, 2, &())?;
    let release = second.privatise(sums)?;
    let (sums, _) = source::sketch(&Sketcher::new(&schema, &release.design()?)?, &table, 2, &())?;
    std::fs::write(directory.join("auto.csv"), csv)?;
    sums.save(&directory.join("auto.sums"), true)?;
    release.save(directory.join("auto.json"), true)?;
    Ok(())
}
