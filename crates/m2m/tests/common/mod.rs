//! Random tables that hold everything a table can hold, every map over them, and a look into the secret sums.
#![allow(dead_code)]

use std::path::Path;
use std::sync::{Arc, Mutex};

use m2m::feature::{Block, Body, Cells, FeatureMap, HistSpec, MapSpec, Simd};
use m2m::panel::Record;
use m2m::schema::{Kind, Unit};
use m2m::source::{self, CsvOptions, Table};
use m2m::sums::Sketcher;
use m2m::{Design, Schema, Sums};
use proptest::test_runner::{Config, RngSeed};

/// Property tests try the same cases on every run.
pub fn config(cases: u32) -> Config {
    Config { cases, rng_seed: RngSeed::Fixed(20_240_229), failure_persistence: None, ..Config::default() }
}

/// SplitMix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Nearly uniform on 0..n.
    pub fn below(&mut self, n: usize) -> usize {
        (self.word() % n as u64) as usize
    }

    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

/// A column of every sort. Names are `c0`, `c1`, … by place.
pub const COLUMNS: [&str; 13] = [
    "type = 'number'\nmin = -1.5\nmax = 2.25",
    "type = 'number'\nmin = 0\nmax = 1e5\ntransform = 'log1p'\natoms = [0]\nnullable = true",
    "type = 'number'\nmin = -40\nmax = 1e4\ntransform = 'asinh'\natoms = [-1, 0, 2.5]\nmissing = ['?', '-99']",
    "type = 'number'\nmin = 0.1\nmax = 0.7\natoms = [0.1, 0.3, 0.7]",
    "type = 'integer'\nmin = -3\nmax = 90\natoms = [0, 7]",
    "type = 'integer'\nmin = 0\nmax = 5",
    "type = 'integer'\nmin = 0\nmax = 1000000\ntransform = 'sqrt'\natoms = [0]",
    "type = 'date'\nmin = '1999-12-25'\nmax = '2031-01-01'\natoms = ['2000-01-01']",
    "type = 'datetime'\nmin = '2020-01-01T00:00:00Z'\nmax = '2021-01-01T00:00:00Z'",
    "type = 'boolean'\nnullable = true",
    "type = 'category'\nlevels = ['red', 'green', 'blue']\nnullable = true\nmissing = ['?']",
    "type = 'category'\nlevels = ['NA', 'x,y', 'a\"b', 'Zürich']",
    "type = 'number'\nmin = 0\nmax = 392784654.41127\natoms = [112840521.68081601]",
];

/// A schema of some of [`COLUMNS`] (one may be there twice), with `who` as the user when `max_rows` is given.
pub fn schema(columns: &[usize], max_rows: Option<u32>) -> Schema {
    let mut text = max_rows.map_or(String::new(), |rows| format!("[privacy]\nunit = 'who'\nmax_rows = {rows}\n"));
    for (place, column) in columns.iter().enumerate() {
        text += &format!("[[column]]\nname = 'c{place}'\n{}\n", COLUMNS[*column]);
    }
    Schema::from_toml(&text).unwrap()
}

/// Cells that fit no column, or fit one in an odd way, as they stand in a CSV file.
const ODD: [&[u8]; 38] = [
    b"",
    b"NA",
    b"null",
    b"NULL",
    b"?",
    b"-99",
    b"-99.0",
    b"nan",
    b"-NaN",
    b"inf",
    b"-inf",
    b"+Infinity",
    b"1e400",
    b"-1e308",
    b"5e-324",
    b"-0",
    b"-0.0",
    b"+7",
    b".5",
    b"5.",
    b".",
    b"-",
    b"1e",
    b"0x10",
    b"1_000",
    b"99999999999999999999999999",
    b"0.3000000000000000000000001",
    b"2020-02-30",
    b"2020-06-31T25:00:00Z",
    b"0000-00-00",
    b"truth",
    b"  2  ",
    b"\"1,5\"",
    b"\"two\nlines\"",
    b"\" \"",
    b"half\"quoted",
    b"\xff\xfe",
    b"\xf0\x9f\x8e\xb2",
];

/// A cell: what the column expects, within its bounds and beyond them, but for one in `odd`.
fn cell(random: &mut Random, kind: &Kind, odd: usize) -> Vec<u8> {
    if random.below(odd) == 0 {
        return random.pick(&ODD).to_vec();
    }
    let text = match kind {
        Kind::Boolean => random.pick(&["true", "FALSE", "1", "0", "yes", "n"]).to_owned(),
        Kind::Category(levels) => match random.below(levels.len() + 1) {
            level if level < levels.len() && levels[level].contains([',', '"']) => {
                format!("\"{}\"", levels[level].replace('"', "\"\""))
            }
            level if level < levels.len() => levels[level].clone(),
            _ => "unlisted".to_owned(),
        },
        Kind::Number(range) | Kind::Integer(range) | Kind::Date(range) | Kind::Datetime(range) => {
            let special = [range.min(), range.max()].into_iter().chain(range.atoms().iter().copied());
            let special: Vec<f64> = special.collect();
            let value = match random.below(4) {
                0 => special[random.below(special.len())],
                _ => range.min() + (1.2 * random.unit() - 0.1) * (range.max() - range.min()),
            };
            let near_zero = if random.below(4) == 0 { value * random.unit().powi(12) } else { value };
            match (kind, random.below(3)) {
                (Kind::Number(_), 0) => format!("{near_zero:e}"),
                (Kind::Number(_), 1) => format!("{value:.3}"),
                (Kind::Number(_), _) => format!("{value}"),
                (Kind::Integer(_), 0) => format!("{near_zero:.1}"),
                (Kind::Integer(_), _) => format!("{value:.0}"),
                _ => kind.show(value.round()),
            }
        }
    };
    text.into_bytes()
}

/// The record number `number` of an endless table. It ends in the user where the schema has one. Tables whose seed is
/// even have no quotes, and those whose half is odd hardly an odd cell, so that one such cell in many is tried too.
pub fn record(schema: &Schema, seed: u64, number: usize) -> Vec<u8> {
    let mut random = Random::new(seed ^ (number as u64).wrapping_mul(0xd134_2543_de82_ef95));
    let odd = if (seed / 2).is_multiple_of(2) { 8 } else { 2000 };
    let mut cells: Vec<Vec<u8>> = schema.columns().iter().map(|column| cell(&mut random, &column.kind, odd)).collect();
    if seed.is_multiple_of(2) {
        cells.iter_mut().filter(|cell| cell.contains(&b'"')).for_each(Vec::clear);
    }
    if let Unit::User { .. } = schema.unit() {
        cells.push(format!("u{}", random.below(7)).into_bytes());
    }
    cells.join(&b',')
}

pub fn records(schema: &Schema, seed: u64, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| record(schema, seed, number)).collect()
}

/// A CSV text.
pub fn csv(schema: &Schema, records: &[Vec<u8>]) -> Vec<u8> {
    let mut names: Vec<&str> = schema.columns().iter().map(|column| column.name.as_str()).collect();
    if let Unit::User { column, .. } = schema.unit() {
        names.push(column);
    }
    let mut text = names.join(",").into_bytes();
    for record in records {
        text.push(b'\n');
        text.extend_from_slice(record);
    }
    text.push(b'\n');
    text
}

/// The maps of this crate with their variants, side by side. Maps that name columns take them in a random order.
pub fn every_map(schema: &Schema, seed: u64) -> Design {
    let mut names: Vec<String> = schema.columns().iter().map(|column| column.name.clone()).collect();
    Random::new(seed).shuffle(&mut names);
    let some = format!("columns = {:?}", &names[..names.len().div_ceil(2)]);
    let all = format!("columns = {names:?}");
    let pair = format!("groups = [{:?}]\nbins = 60", &names[..names.len().min(2)]);
    let ways = |ways: usize| {
        format!("ways = {}\nbins = 4\ncolumns = {:?}", ways.min(names.len()), &names[..names.len().min(4)])
    };
    let mut maps: Vec<(&str, String)> = Vec::new();
    for kernel in ["gaussian", "laplace", "matern12", "matern32", "matern52"] {
        for frequencies in ["iid", "orthogonal"] {
            if (kernel, frequencies) == ("laplace", "orthogonal") {
                continue;
            }
            for precision in ["fast", "precise"] {
                let which = format!("kernel = '{kernel}'\nfrequencies = '{frequencies}'\nprecision = '{precision}'");
                maps.push(("rff", format!("m = 14\nsigma = 0.4\nseed = {seed}\n{which}")));
            }
        }
    }
    maps.push(("rff", format!("m = 10\nsigma = 1e-3\n{some}")));
    maps.push(("rff", format!("m = 6\nsigma = 0.2\nprecision = 'precise'\n{all}")));
    maps.push(("race", "r = 7\nw = 5\nsigma = 1.0".into()));
    maps.push(("race", format!("r = 6\nw = 80\nsigma = 0.002\n{all}")));
    maps.push(("race", format!("r = 1\nw = 4096\nsigma = 1e-4\n{some}")));
    maps.push(("race", "r = 5\nw = 2\nhash = 'angular'".into()));
    maps.push(("race", format!("r = 3\nw = 64\nhash = 'angular'\n{some}")));
    maps.push(("hist", String::new()));
    maps.push(("hist", format!("bins = 1\n{some}")));
    maps.push(("hist", "bins = 7\nhalved = 9".into()));
    maps.push(("hist", "bins = 9\nhalved = 2\nabout_zero = 3".into()));
    maps.push(("hist", format!("bins = 150\nabout_zero = 24\n{all}")));
    maps.push(("hist", format!("bins = 200\nwhole = 3\nhalved = 24\n{all}")));
    maps.push(("tables", ways(1)));
    maps.push(("tables", ways(2)));
    maps.push(("tables", ways(3)));
    maps.push(("tables", pair));
    maps.extend(signs(schema, &names, seed).map(|signs| ("signs", signs)));
    maps.extend(values(schema, &names, seed).map(|values| ("values", values)));
    let rest = 100 - (maps.len() - 1);
    let mut text = String::new();
    for (at, (kind, parameters)) in maps.iter().enumerate() {
        let share = if at == 0 { rest } else { 1 };
        text += &format!("[[map]]\nkind = '{kind}'\nshare = {}\n{parameters}\n", share as f64 / 100.0);
    }
    Design::from_toml(&text).unwrap()
}

/// Products of signs of all pairs of columns, the signs at random; nothing for a single column.
fn signs(schema: &Schema, names: &[String], seed: u64) -> Option<String> {
    let mut random = Random::new(seed);
    let spec = HistSpec { columns: names.to_vec(), halved: 2, about_zero: 4, ..HistSpec::with_bins(5) };
    let histograms = MapSpec::Hist(spec).tables(schema).unwrap();
    let column = |(name, (_, cells)): (&String, &(usize, Vec<Cells>))| {
        let signs: Vec<i64> = (0..cells[0].len()).map(|_| random.below(3) as i64 - 1).collect();
        format!("{{ name = {name:?}, bins = 5, halved = 2, about_zero = 4, signs = {signs:?} }}")
    };
    let columns: Vec<String> = names.iter().zip(&histograms).map(column).collect();
    let pairs: Vec<[usize; 2]> = (0..names.len()).flat_map(|i| (i + 1..names.len()).map(move |j| [i, j])).collect();
    (!pairs.is_empty()).then(|| format!("columns = [{}]\npairs = {pairs:?}", columns.join(", ")))
}

/// Values of all numeric columns, each between two places at random; nothing if there is none.
fn values(schema: &Schema, names: &[String], seed: u64) -> Option<String> {
    let mut random = Random::new(seed);
    let is_numeric = |name: &&String| schema.columns()[schema.position(name).unwrap()].kind.range().is_some();
    let column = |name: &String| {
        let low = random.below(65_536);
        let high = low + 1 + random.below(65_536 - low);
        format!("{{ name = {name:?}, low = {low}, high = {high} }}")
    };
    let columns: Vec<String> = names.iter().filter(is_numeric).map(column).collect();
    (!columns.is_empty()).then(|| format!("columns = [{}]", columns.join(", ")))
}

/// Secret sums, read from their file by its documented layout alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    pub rows: i128,
    pub blocks: Vec<Vec<i128>>,
    pub users: Vec<[u8; 32]>,
}

impl Secret {
    /// What has to be added to `other` to get this.
    pub fn minus(&self, other: &Self) -> Self {
        let difference = |(a, b): (&Vec<i128>, &Vec<i128>)| a.iter().zip(b).map(|(a, b)| a - b).collect();
        assert_eq!(self.blocks.len(), other.blocks.len());
        Self {
            rows: self.rows - other.rows,
            blocks: self.blocks.iter().zip(&other.blocks).map(difference).collect(),
            users: self.users.iter().filter(|user| !other.users.contains(user)).copied().collect(),
        }
    }
}

pub fn secret(sums: &Sums) -> Secret {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("part.sums");
    sums.save(&path, false).unwrap();
    let sizes: Vec<usize> =
        sums.design().blocks().iter().map(|block| block.map.shape(sums.schema()).unwrap().0).collect();
    parse(&std::fs::read(path).unwrap(), &sizes)
}

fn parse(file: &[u8], sizes: &[usize]) -> Secret {
    let mut rest = file.strip_prefix(b"M2MSUMS\x01").unwrap();
    let mut take = |n: usize| {
        let (first, others) = rest.split_at(n);
        rest = others;
        first
    };
    let header = u64::from_le_bytes(take(8).try_into().unwrap());
    take(header as usize);
    let mut number = || i128::from_le_bytes(take(16).try_into().unwrap());
    let rows = number();
    let blocks = sizes.iter().map(|size| (0..*size).map(|_| number()).collect()).collect();
    let users = u64::from_le_bytes(take(8).try_into().unwrap());
    let users = (0..users).map(|_| take(32).try_into().unwrap()).collect();
    assert_eq!(take(32).len() + rest.len(), 32, "the hash ends the file");
    Secret { rows, blocks, users }
}

pub fn sketch(sketcher: &Sketcher, table: &Table, threads: usize) -> Sums {
    source::sketch(sketcher, table, threads, &()).unwrap().0
}

/// The sums of records in memory.
pub fn sums_of(schema: &Schema, design: &Design, records: &[Vec<u8>]) -> Secret {
    let sketcher = Sketcher::new(schema, design).unwrap();
    secret(&sketch(&sketcher, &Table::from_csv_bytes(csv(schema, records)), 1))
}

/// The sums of records cut into files, read by several threads.
pub fn sums_of_files(schema: &Schema, design: &Design, parts: &[&[Vec<u8>]], threads: usize) -> Secret {
    let folder = tempfile::tempdir().unwrap();
    let sketcher = Sketcher::new(schema, design).unwrap();
    secret(&sketch(&sketcher, &files(folder.path(), schema, parts), threads))
}

/// A table of several files in a folder.
pub fn files(folder: &Path, schema: &Schema, parts: &[&[Vec<u8>]]) -> Table {
    let paths: Vec<_> = (0..parts.len()).map(|part| folder.join(format!("{part}.csv"))).collect();
    for (path, part) in paths.iter().zip(parts) {
        std::fs::write(path, csv(schema, part)).unwrap();
    }
    Table::open(&paths, CsvOptions::default()).unwrap()
}

/// Sums by definition: [`FeatureMap::record`] of one record after the other.
pub struct Definition {
    pub blocks: Vec<Vec<i128>>,
    /// Whether all features lay in the bodies of their maps.
    pub inside: bool,
}

/// Adds up a table by definition. A map of the user's own is what gets to see single records, so one is made that
/// asks the maps of the design.
pub fn definition(schema: &Schema, design: &Design, records: &[Vec<u8>]) -> Definition {
    let maps = design.maps(schema, Simd::Portable).unwrap();
    let blocks = maps.iter().map(|map| vec![0; map.len()]).collect();
    let total = Arc::new(Mutex::new(Definition { blocks, inside: true }));
    let sketcher = custom(schema, ByDefinition { maps, total: total.clone() });
    sketch(&sketcher, &Table::from_csv_bytes(csv(schema, records)), 1);
    drop(sketcher);
    Arc::into_inner(total).unwrap().into_inner().unwrap()
}

pub fn custom(schema: &Schema, map: impl FeatureMap + 'static) -> Sketcher {
    Sketcher::custom(schema, "test", serde_json::Value::Null, Box::new(map)).unwrap()
}

struct ByDefinition {
    maps: Vec<Box<dyn FeatureMap>>,
    total: Arc<Mutex<Definition>>,
}

impl FeatureMap for ByDefinition {
    fn len(&self) -> usize {
        1
    }

    fn body(&self) -> Body {
        Body::Bounded { l1: 1, l2_squared: 1 }
    }

    fn record(&self, record: Record<'_>, _: &mut [i64]) {
        let mut total = self.total.lock().unwrap();
        let Definition { blocks, inside } = &mut *total;
        for (map, block) in self.maps.iter().zip(blocks) {
            let mut features = vec![0; map.len()];
            map.record(record, &mut features);
            *inside &= map.body().contains(&features);
            block.iter_mut().zip(&features).for_each(|(sum, feature)| *sum += i128::from(*feature));
        }
    }
}

/// A design of one map.
pub fn single(map: MapSpec) -> Design {
    Design::new(vec![Block { share: "1".parse().unwrap(), map }]).unwrap()
}
