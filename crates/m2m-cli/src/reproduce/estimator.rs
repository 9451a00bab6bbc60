//! Sketches of a table and what the paper's estimator makes of them, both by the product itself: the curator's way to a
//! release, and a fit against the uniform prior with the paper's λ.

use m2m::estimate::{Model, Sample, WeightedSample};
use m2m::expr::Checked;
use m2m::fit::{Fit, Lambda, Options};
use m2m::prior::Prior;
use m2m::privatise::{Budget, Plan, Privacy};
use m2m::schema::Column;
use m2m::source::{self, Table};
use m2m::sums::Sketcher;
use m2m::{Decimal, Design, Release};

use super::data::Data;
use super::questions::Questions;

/// What stands for ε = ∞, the largest that a release can have. Histograms then have no noise at all (but for one draw in
/// e⁹⁸), Fourier features a thousandth of that at ε = 1, far below what the features themselves leave open.
pub fn without_noise() -> Decimal {
    "1000".parse().expect("a decimal")
}

/// A release at ε: discrete Laplace noise, 2% of ε for the number of rows.
pub fn release(data: &Data, csv: &Table, design: &Design, epsilon: Decimal) -> anyhow::Result<Release> {
    let plan = Plan::new(&data.schema, design, Privacy::new(Budget::pure(epsilon)?))?;
    let noise = plan.draw()?;
    let (sums, _) = source::sketch(&Sketcher::new(&data.schema, design)?, csv, 1, &())?;
    Ok(sums.privatise(noise)?)
}

/// The paper's estimator: uniform prior, λ = σ²/n² (Theorem 1), centred on the prior.
pub struct Reader {
    options: Options,
    last: Option<Fit>,
}

impl Reader {
    /// `sampled` asks for points of the prior even where there are closed forms, as implicit M²M needs them.
    pub fn new(points: usize, seed: u64, sampled: bool) -> Self {
        let options = Options {
            prior: Prior::Uniform,
            lambda: Lambda::Theorem(1.0),
            centred: true,
            samples: points,
            seed,
            sampled,
        };
        Self { options, last: None }
    }

    /// Reads a release. Releases of one design share the points of the prior and their Gram matrix.
    pub fn read(&mut self, release: &Release) -> anyhow::Result<&Fit> {
        let fit = match &self.last {
            Some(fit) => fit.again(release)?,
            None => Fit::new(release, self.options.clone())?,
        };
        Ok(self.last.insert(fit))
    }
}

/// Estimated means of functions that are asked of many releases of one design.
pub struct Asker<'a> {
    questions: &'a Questions,
    /// Where there is no closed form: the points, column by column, which do not depend on the release.
    points: Option<Vec<Vec<f64>>>,
}

impl<'a> Asker<'a> {
    pub fn new(questions: &'a Questions) -> Self {
        Self { questions, points: None }
    }

    pub fn means(&mut self, fit: &Fit) -> anyhow::Result<Vec<f64>> {
        let Questions { functions, products, .. } = self.questions;
        if functions.first().is_none_or(|function| fit.is_exact(function)) {
            return Ok(fit.values_of(functions));
        }
        let points = match &mut self.points {
            Some(points) => points,
            None => self.points.insert(columns(fit)?),
        };
        let weights = fit.weights(&every(fit));
        Ok(products.iter().map(|product| product.mean(points, Some(&weights))).collect())
    }
}

/// All columns.
pub fn every(fit: &Fit) -> Vec<usize> {
    (0..Sample::schema(fit).columns().len()).collect()
}

/// The points of a fit, column by column.
pub fn columns(fit: &Fit) -> anyhow::Result<Vec<Vec<f64>>> {
    let schema = Sample::schema(fit);
    let read = |column: &Column| Ok(fit.values(&m2m::expr::col(column.name.as_str()).check(schema)?));
    schema.columns().iter().map(read).collect()
}

/// The mean absolute error that the noise alone leaves in the mean of a function, $\sqrt{2/\pi}$ standard deviations: a
/// sum over many features is close to normal whatever the law of each noise.
pub fn noise_floor(fit: &Fit, function: &Checked) -> f64 {
    let total = fit.totals(std::slice::from_ref(function)).estimate(0);
    let deviation = total.parts.privacy / fit.count().value;
    std::f64::consts::FRAC_2_PI.sqrt() * deviation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_without_noise_know_every_mean_to_a_bin() {
        let data = Data::random10(5).rows(&(0..3000).collect::<Vec<_>>());
        let questions = Questions::new(&data, 5);
        let design = Design::parse("hist:bins=20").unwrap();
        let table = Table::from_csv_bytes(data.to_csv());
        let release = release(&data, &table, &design, without_noise()).unwrap();
        let (mut exact, mut sampled) = (Reader::new(4000, 1, false), Reader::new(4000, 1, true));
        let (exact, sampled) = (exact.read(&release).unwrap(), sampled.read(&release).unwrap());
        let means = Asker::new(&questions).means(exact).unwrap();
        let weighted = Asker::new(&questions).means(sampled).unwrap();
        for (at, truth) in questions.means().iter().enumerate() {
            assert!((means[at] - truth).abs() < 0.002, "{} {truth}", means[at]);
            assert!((weighted[at] - truth).abs() < 0.002, "{} {truth}", weighted[at]);
            assert!(noise_floor(exact, &questions.functions[at]) < 1e-6);
        }
    }

    #[test]
    fn a_reader_of_several_releases_reads_each_as_if_it_were_alone() {
        let data = Data::random10(6).rows(&(0..2000).collect::<Vec<_>>());
        let questions = Questions::new(&data, 6);
        let table = Table::from_csv_bytes(data.to_csv());
        for settings in ["race:r=20,w=20,sigma=0.5", "rff:m=20", "hist:bins=8"] {
            let design = Design::parse(settings).unwrap();
            let (mut reader, mut asker) = (Reader::new(1000, 2, true), Asker::new(&questions));
            for epsilon in ["0.1", "1", "10"] {
                let release = release(&data, &table, &design, epsilon.parse().unwrap()).unwrap();
                let shared = asker.means(reader.read(&release).unwrap()).unwrap();
                let alone = Fit::new(&release, reader.options.clone()).unwrap();
                for ((shared, alone), function) in shared.iter().zip(alone.values_of(&questions.functions)).zip(0..) {
                    assert!((shared - alone).abs() < 1e-9, "{settings} {epsilon} {function}: {shared} {alone}");
                }
            }
        }
    }
}
