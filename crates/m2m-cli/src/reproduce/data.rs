//! The tables of the paper, every column rescaled to [0, 1] by its smallest and largest value.
//!
//! The paper takes those two values from the data, so this code does, too: a curator must not.

use std::fmt::Write as _;
use std::io::Read;
use std::path::Path;

use m2m::Schema;

use super::random::Random;
use crate::console::Mistake;

/// A table of numbers in [0, 1], column by column.
#[derive(Clone)]
pub struct Data {
    pub schema: Schema,
    pub columns: Vec<Vec<f64>>,
}

impl Data {
    fn new(columns: Vec<Vec<f64>>, whole: impl Fn(usize) -> bool) -> Self {
        let mut text = String::new();
        for at in 0..columns.len() {
            let kind = if whole(at) { "integer" } else { "number" };
            let _ = writeln!(text, "[[column]]\nname = \"{}\"\ntype = \"{kind}\"\nmin = 0\nmax = 1", name(at));
        }
        Self { schema: Schema::from_toml(&text).expect("a plain schema"), columns }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.columns[0].len()
    }

    /// The rows at some places.
    pub fn rows(&self, places: &[usize]) -> Self {
        let pick = |column: &Vec<f64>| places.iter().map(|at| column[*at]).collect();
        Self { schema: self.schema.clone(), columns: self.columns.iter().map(pick).collect() }
    }

    /// The table as a CSV file.
    pub fn to_csv(&self) -> Vec<u8> {
        let names: Vec<String> = (0..self.columns.len()).map(name).collect();
        let mut text = names.join(",");
        for row in 0..self.len() {
            for (at, column) in self.columns.iter().enumerate() {
                let _ = write!(text, "{}{}", if at == 0 { '\n' } else { ',' }, column[row]);
            }
        }
        text.push('\n');
        text.into_bytes()
    }

    /// Random10: 27,000 rows of ten independent uniform columns.
    pub fn random10(repetition: u64) -> Self {
        let mut random = Random::new("random10", repetition);
        Self::new((0..10).map(|_| (0..27_000).map(|_| random.uniform()).collect()).collect(), |_| false)
    }

    /// LifeSci: ten principal components of 26,733 compounds.
    pub fn lifesci(directory: &Path) -> Result<Self, Mistake> {
        let names: Vec<String> = (1..=10).map(|i| format!("pc{i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let columns = LIFESCI.read(directory, &names)?;
        Ok(Self::new(columns.iter().map(|column| rescale(column)).collect(), |_| false))
    }

    /// Occupancy: five sensors of an office in 20,560 minutes, and in the last column whether somebody was there.
    pub fn occupancy(directory: &Path) -> Result<Self, Mistake> {
        let names = ["temperature", "humidity", "light", "co2", "humidity_ratio", "occupancy"];
        let columns = OCCUPANCY.read(directory, &names)?;
        Ok(Self::new(columns.iter().map(|column| rescale(column)).collect(), |at| at == 5))
    }
}

/// The name of a column.
pub fn name(at: usize) -> String {
    format!("x{}", at + 1)
}

fn rescale(column: &[f64]) -> Vec<f64> {
    let low = column.iter().copied().fold(f64::INFINITY, f64::min);
    let high = column.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    column.iter().map(|x| (x - low) / (high - low)).collect()
}

/// A file that does not come with the program.
struct Source {
    file: &'static str,
    origin: &'static str,
}

const LIFESCI: Source = Source {
    file: "lifesci.csv.gz",
    origin: "it is ds1.10 of Komarek's data sets (komarix.org/ac/ds) under the header pc1,…,pc10,reactivity, gzipped",
};
const OCCUPANCY: Source = Source {
    file: "occupancy.csv.gz",
    origin: "it is UCI's \"Occupancy Detection\" (archive.ics.uci.edu/dataset/357), its three files in one, gzipped, \
             under the header epoch_s,temperature,humidity,light,co2,humidity_ratio,occupancy",
};

impl Source {
    /// Columns by name.
    fn read(&self, directory: &Path, names: &[&str]) -> Result<Vec<Vec<f64>>, Mistake> {
        let path = directory.join(self.file);
        let mistake = |problem: String| Mistake(format!("{}: {problem}; {}", path.display(), self.origin));
        let file = std::fs::File::open(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Mistake(format!(
                "{} is not there; get it (or name its directory with --data): {}",
                path.display(),
                self.origin
            )),
            _ => mistake(error.to_string()),
        })?;
        let mut text = String::new();
        flate2::read::MultiGzDecoder::new(file)
            .read_to_string(&mut text)
            .map_err(|error| mistake(format!("not a gzipped text: {error}")))?;
        let mut lines = text.lines();
        let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let mut places = Vec::new();
        for name in names {
            let place = header.iter().position(|field| field == name);
            places.push(place.ok_or_else(|| mistake(format!("there is no column `{name}`")))?);
        }
        let mut columns = vec![Vec::new(); names.len()];
        for (row, line) in lines.enumerate() {
            let fields: Vec<&str> = line.split(',').collect();
            for (column, place) in columns.iter_mut().zip(&places) {
                let number = fields.get(*place).and_then(|field| field.parse().ok()).filter(|x: &f64| x.is_finite());
                let number = number
                    .ok_or_else(|| mistake(format!("row {}, column `{}` is not a number", row + 1, header[*place])))?;
                column.push(number);
            }
        }
        if columns[0].len() < 10 {
            return Err(mistake("it has next to no rows".into()));
        }
        Ok(columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_named_with_its_origin() {
        let directory = tempfile::tempdir().unwrap();
        let error = Data::occupancy(directory.path()).err().unwrap();
        let text = error.to_string();
        assert!(text.contains("occupancy.csv.gz is not there") && text.contains("archive.ics.uci.edu"), "{text}");
    }

    #[test]
    fn a_table_is_rescaled_and_comes_back_from_its_csv() {
        let directory = tempfile::tempdir().unwrap();
        let mut text = String::from("reactivity,pc1,pc2,pc3,pc4,pc5,pc6,pc7,pc8,pc9,pc10\n");
        for row in 0..12 {
            text += &format!("0{}\n", format!(",{}", f64::from(row) * 2.5 - 7.0).repeat(10));
        }
        let file = std::fs::File::create(directory.path().join("lifesci.csv.gz")).unwrap();
        let mut writer = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        std::io::Write::write_all(&mut writer, text.as_bytes()).unwrap();
        writer.finish().unwrap();
        let data = Data::lifesci(directory.path()).unwrap();
        assert_eq!((data.columns.len(), data.len()), (10, 12));
        assert_eq!((data.columns[3][0], data.columns[3][11]), (0.0, 1.0));
        let csv = String::from_utf8(data.rows(&[11, 0]).to_csv()).unwrap();
        assert!(csv.starts_with("x1,x2,") && csv.lines().nth(1).unwrap().starts_with("1,1,"), "{csv}");
    }
}
