//! The estimator against its definition: brute-force integrals and plain linear algebra, Monte Carlo, and what must hold of
//! any answer.

mod common;
#[path = "common/seeded.rs"]
mod seeded;

use common::Random;
use m2m::estimate::{Estimate, Model, Sample, Totals, WeightedSample};
use m2m::expr::{Checked, Expr, Function, col, lit};
use m2m::feature::{Body, FeatureMap, Simd};
use m2m::fit::{Fit, Lambda, Options};
use m2m::panel::{Record, Value};
use m2m::prior::{Prior, PublicTable};
use m2m::privatise::{Neighbours, Privacy};
use m2m::source::Table;
use m2m::sums::Sketcher;
use m2m::task::Ask;
use m2m::{Design, Release, Schema};
use seeded::{Exact, POPULATION, evaluate, panels, population, pure};

const SMALL: &str = "
    [[column]]
    name = 'x'
    type = 'number'
    min = -1.5
    max = 2.25
    [[column]]
    name = 'y'
    type = 'number'
    min = 0
    max = 50000
    transform = 'log1p'
    atoms = [0]
    nullable = true
    [[column]]
    name = 'k'
    type = 'integer'
    min = 0
    max = 6
    [[column]]
    name = 'c'
    type = 'category'
    levels = ['red', 'green', 'blue']
    nullable = true
";

/// One record of [`SMALL`].
#[derive(Clone, Copy)]
struct Row {
    x: f64,
    y: Option<f64>,
    k: f64,
    c: Option<&'static str>,
}

impl Row {
    fn csv(&self) -> String {
        format!("{},{},{},{}\n", self.x, self.y.map_or(String::new(), |y| y.to_string()), self.k, self.c.unwrap_or(""))
    }
}

fn csv(rows: &[Row]) -> Vec<u8> {
    let lines: String = rows.iter().map(Row::csv).collect();
    format!("x,y,k,c\n{lines}").into_bytes()
}

/// A table that is far from the uniform law, with dependent columns.
fn table(seed: u64, rows: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let rows: Vec<Row> = (0..rows)
        .map(|_| {
            let u = random.unit();
            let x = -1.5 + 3.75 * u * random.unit();
            let y = match random.below(10) {
                0 => None,
                1 | 2 => Some(0.0),
                _ => Some((8.0 * u + 2.0 * random.unit()).exp()),
            };
            let k = (6.99 * (1.0 - u) * random.unit()).floor();
            let c = [Some("red"), Some("green"), Some("blue"), Some("pink"), None];
            Row { x, y, k, c: c[random.below(if u < 0.5 { 2 } else { 5 })] }
        })
        .collect();
    csv(&rows)
}

/// Where questions about x and y have a step.
const X_STEP: f64 = 0.4;
const Y_STEP: f64 = 100.0;

/// Points and weights of the Gauss rule on [-1, 1] that is exact up to degree nine.
const GAUSS: [(f64, f64); 5] = [
    (-0.906_179_845_938_664, 0.236_926_885_056_189_08),
    (-0.538_469_310_105_683_1, 0.478_628_670_499_366_47),
    (0.0, 0.568_888_888_888_888_9),
    (0.538_469_310_105_683_1, 0.478_628_670_499_366_47),
    (0.906_179_845_938_664, 0.236_926_885_056_189_08),
];

/// Points of [0, 1] with weights that add up to 1: the rule on each interval between the edges of four bins and a step.
fn unit_points(step: f64) -> Vec<(f64, f64)> {
    let mut edges = [0.0, 0.25, 0.5, 0.75, 1.0, step];
    edges.sort_by(f64::total_cmp);
    let rule = |w: &[f64]| {
        let (middle, half) = (0.5 * (w[0] + w[1]), 0.5 * (w[1] - w[0]));
        GAUSS.map(|(t, weight)| (middle + half * t, half * weight))
    };
    edges.windows(2).flat_map(rule).collect()
}

/// The uniform law on the domain of [`SMALL`], as points with probabilities. Besides the plain domain it has 1/32 for an
/// atom, 0.01 for an unlisted level and 0.05 for "missing", before all is brought to 1.
fn grid() -> (Vec<Row>, Vec<f64>) {
    let (low, width) = (0.0, 50_001f64.ln());
    let x: Vec<(f64, f64)> =
        unit_points((X_STEP + 1.5) / 3.75).into_iter().map(|(u, weight)| (-1.5 + 3.75 * u, weight)).collect();
    let mut y: Vec<(Option<f64>, f64)> = unit_points((Y_STEP.ln_1p() - low) / width)
        .into_iter()
        .map(|(u, weight)| (Some((low + u * width).exp_m1()), weight))
        .collect();
    y.extend([(Some(0.0), 1.0 / 32.0), (None, 0.05)]);
    let third = 1.0 / 3.0;
    let c = [(Some("red"), third), (Some("green"), third), (Some("blue"), third), (Some("pink"), 0.01), (None, 0.05)];
    let (mut rows, mut weights) = (Vec::new(), Vec::new());
    for (x, a) in &x {
        for (y, b) in &y {
            for k in 0..7 {
                for (c, d) in &c {
                    rows.push(Row { x: *x, y: *y, k: f64::from(k), c: *c });
                    weights.push(a * b / (1.0 + 1.0 / 32.0 + 0.05) / 7.0 * d / 1.06);
                }
            }
        }
    }
    assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    (rows, weights)
}

/// A question with what it means.
type Question = (Expr, fn(&Row) -> f64);

fn case(condition: Expr, value: Expr) -> Expr {
    Expr::Case { branches: vec![(condition, value)], otherwise: None }
}

fn truth(condition: bool) -> f64 {
    f64::from(condition)
}

/// Questions about one, two and three columns, with nulls, conditions, branches and quotients.
fn questions() -> Vec<Question> {
    let (x, y, k, c) = (|| col("x"), || col("y"), || col("k"), || col("c"));
    let below = || x().le(lit(X_STEP));
    let above = || y().gt(lit(Y_STEP));
    let red = || c().eq(lit("red"));
    vec![
        (lit(1.0), |_| 1.0),
        (x(), |row| row.x),
        (x() * x(), |row| row.x * row.x),
        (below(), |row| truth(row.x <= X_STEP)),
        (y(), |row| row.y.unwrap_or(0.0)),
        (y().is_null(), |row| truth(row.y.is_none())),
        (y().eq(lit(0.0)), |row| truth(row.y == Some(0.0))),
        (above(), |row| truth(row.y > Some(Y_STEP))),
        (k(), |row| row.k),
        (k().ge(lit(3.0)), |row| truth(row.k >= 3.0)),
        (red(), |row| truth(row.c == Some("red"))),
        (c().is_null(), |row| truth(row.c.is_none())),
        (c().eq(lit("(other)")), |row| truth(row.c == Some("pink"))),
        (c().ne(lit("red")), |row| truth(row.c.is_some_and(|c| c != "red"))),
        (below().and(k().ge(lit(3.0))), |row| truth(row.x <= X_STEP && row.k >= 3.0)),
        (red().and(above()), |row| truth(row.c == Some("red") && row.y > Some(Y_STEP))),
        (below().or(above()), |row| truth(row.x <= X_STEP || row.y > Some(Y_STEP))),
        (!above().and(red()), |row| truth(row.y.is_some_and(|y| y <= Y_STEP) || row.c.is_some_and(|c| c != "red"))),
        (below().and(k().ge(lit(3.0))).and(red()), |row| {
            truth(row.x <= X_STEP && row.k >= 3.0 && row.c == Some("red"))
        }),
        (x() * k(), |row| row.x * row.k),
        (x() * y(), |row| row.x * row.y.unwrap_or(0.0)),
        (y() + k(), |row| row.y.map_or(0.0, |y| y + row.k)),
        (x() / k(), |row| if row.k == 0.0 { 0.0 } else { row.x / row.k }),
        (case(red(), x()), |row| truth(row.c == Some("red")) * row.x),
        (Expr::Call(Function::Coalesce, vec![y(), x()]), |row| row.y.unwrap_or(row.x)),
        (
            Expr::Case { branches: vec![(above(), k()), (red(), x())], otherwise: Some(Box::new(lit(2.0))) },
            |row| match (row.y > Some(Y_STEP), row.c) {
                (true, _) => row.k,
                (_, Some("red")) => row.x,
                _ => 2.0,
            },
        ),
    ]
}

fn check(schema: &Schema, expr: &Expr) -> Checked {
    expr.check(schema).unwrap()
}

fn ask(fit: &Fit, expr: &Expr) -> Estimate {
    fit.totals(&[check(Model::schema(fit), expr)]).estimate(0)
}

/// The ridge by its definition on weighted points.
struct Naive {
    /// `[point][feature]`.
    features: Vec<Vec<f64>>,
    weights: Vec<f64>,
    mean: Vec<f64>,
    covariance: Vec<Vec<f64>>,
    released: Vec<f64>,
    /// Variances of the noise on the released means.
    noise: Vec<f64>,
    rows: f64,
    count_deviation: f64,
}

/// The number of rows and the deviation of its error: the count and the sums of the cells of each table, every one an
/// observation of the same number with noise of its own.
fn counted(release: &Release) -> (f64, f64) {
    let count = release.count();
    let mut observed = vec![(count.value as f64, count.noise.unwrap().standard_deviation(1).powi(2))];
    for block in release.blocks().iter().filter(|block| matches!(block.map().name(), "hist" | "tables")) {
        let variance = block.noise().standard_deviation(block.sums().len()).powi(2);
        for (first, columns) in block.map().tables(release.schema()).unwrap() {
            let len = columns.iter().map(|cells| cells.len()).product();
            let sum = block.sums()[first..][..len].iter().sum::<i64>() as f64;
            observed.push((sum, len as f64 * variance));
        }
    }
    let precision: f64 = observed.iter().map(|(_, variance)| 1.0 / variance).sum();
    (observed.iter().map(|(x, variance)| x / variance).sum::<f64>() / precision, (1.0 / precision).sqrt())
}

/// An answer in full: total, and the standard deviations of its privacy, count and approximation parts.
struct Answer {
    value: f64,
    privacy: f64,
    count: f64,
    approximation: f64,
}

impl Naive {
    fn new(release: &Release, points: &[Row], weights: &[f64]) -> Self {
        let schema = release.schema();
        let maps = release.design().unwrap().maps(schema, Simd::Portable).unwrap();
        let panels = panels(schema, &csv(points));
        let mut features: Vec<Vec<f64>> = Vec::with_capacity(points.len());
        for record in seeded::records(&panels) {
            let mut row = Vec::new();
            for (map, block) in maps.iter().zip(release.blocks()) {
                let mut integers = vec![0; map.len()];
                map.record(record, &mut integers);
                row.extend(integers.iter().map(|x| *x as f64 / block.grid() as f64));
            }
            features.push(row);
        }
        assert_eq!(features.len(), points.len());
        let (rows, count_deviation) = counted(release);
        let (mut released, mut noise) = (Vec::new(), Vec::new());
        for block in release.blocks() {
            let scale = 1.0 / (block.grid() as f64 * rows);
            let deviation = block.noise().standard_deviation(block.sums().len()) * scale;
            released.extend(block.sums().iter().map(|sum| *sum as f64 * scale));
            noise.extend(block.sums().iter().map(|_| deviation * deviation));
        }
        let m = released.len();
        let mut mean = vec![0.0; m];
        let mut covariance = vec![vec![0.0; m]; m];
        for (row, weight) in features.iter().zip(weights) {
            for (i, x) in row.iter().enumerate().filter(|(_, x)| **x != 0.0) {
                mean[i] += weight * x;
                for (sum, y) in covariance[i].iter_mut().zip(row) {
                    *sum += weight * x * y;
                }
            }
        }
        for i in 0..m {
            for j in 0..m {
                covariance[i][j] -= mean[i] * mean[j];
            }
        }
        Self { features, weights: weights.to_vec(), mean, covariance, released, noise, rows, count_deviation }
    }

    /// The answer with variance `tau` of the density ratio: the posterior mean of the total and its variance.
    fn answer(&self, values: &[f64], tau: f64, centred: bool) -> Answer {
        let m = self.mean.len();
        let base = if centred { 0.0 } else { 1.0 };
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mean = dot(values, &self.weights);
        let square: f64 = values.iter().zip(&self.weights).map(|(f, weight)| f * f * weight).sum();
        let mut k = vec![0.0; m];
        for ((row, weight), f) in self.features.iter().zip(&self.weights).zip(values).filter(|(_, f)| **f != 0.0) {
            k.iter_mut().zip(row).for_each(|(k, x)| *k += weight * f * x);
        }
        for (k, feature) in k.iter_mut().zip(&self.mean) {
            *k = tau * (*k - (1.0 - base) * mean * feature);
        }
        let matrix = (0..m)
            .map(|i| {
                let entry = |j: usize| {
                    tau * (self.covariance[i][j] + base * self.mean[i] * self.mean[j])
                        + if i == j { self.noise[i] } else { 0.0 }
                };
                (0..m).map(entry).collect()
            })
            .collect();
        let a = eliminate(matrix, k.clone());
        let prior = 1.0 - base;
        let gap: f64 = (0..m).map(|i| a[i] * (self.released[i] - prior * self.mean[i])).sum();
        let privacy: f64 = (0..m).map(|i| a[i] * a[i] * self.noise[i]).sum();
        let posterior = tau * (square - prior * mean * mean) - dot(&a, &k);
        Answer {
            value: self.rows * (prior * mean + gap),
            privacy: self.rows * privacy.sqrt(),
            count: prior * (mean - dot(&a, &self.mean)),
            approximation: self.rows * (posterior - privacy).max(0.0).sqrt(),
        }
    }
}

/// Solves a linear system by Gauss's elimination with partial pivoting.
fn eliminate(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let n = right.len();
    for at in 0..n {
        let pivot = (at..n).max_by(|a, b| matrix[*a][at].abs().total_cmp(&matrix[*b][at].abs())).unwrap();
        matrix.swap(at, pivot);
        right.swap(at, pivot);
        let (upper, lower) = matrix.split_at_mut(at + 1);
        let top = &upper[at];
        for (i, row) in lower.iter_mut().enumerate() {
            let factor = row[at] / top[at];
            if factor != 0.0 {
                row[at..].iter_mut().zip(&top[at..]).for_each(|(x, y)| *x -= factor * y);
                right[at + 1 + i] -= factor * right[at];
            }
        }
    }
    for at in (0..n).rev() {
        let known: f64 = (at + 1..n).map(|j| matrix[at][j] * right[j]).sum();
        right[at] = (right[at] - known) / matrix[at][at];
    }
    right
}

/// Fourier features, histograms, contingency tables, and all three at once.
const DESIGNS: [&str; 4] = [
    "[[map]]\nkind = 'rff'\nm = 40\nsigma = 0.6\nprecision = 'precise'\nshare = 1.0",
    "[[map]]\nkind = 'hist'\nbins = 4\nshare = 1.0",
    "[[map]]\nkind = 'tables'\nways = 2\nbins = 4\nshare = 1.0",
    "[[map]]\nkind = 'tables'\ngroups = [['x', 'c'], ['k', 'y']]\nbins = 4\nshare = 0.3\n\
     [[map]]\nkind = 'rff'\nm = 20\nsigma = 0.8\nseed = 5\ncolumns = ['k', 'y', 'c']\nprecision = 'precise'\nshare = 0.3\n\
     [[map]]\nkind = 'hist'\nbins = 4\nshare = 0.2\n\
     [[map]]\nkind = 'rff'\nm = 20\nsigma = 1.0\nkernel = 'matern52'\nfrequencies = 'iid'\nprecision = 'precise'\nshare = 0.2",
];

fn small(design: &str, privacy: Privacy, seed: u64) -> Release {
    let schema = Schema::from_toml(SMALL).unwrap();
    Exact::new(&schema, &Design::from_toml(design).unwrap(), privacy, &table(1, 5000)).release(seed)
}

/// Values to 10⁻⁵ of the spread of the question, noise to 10⁻³. The prior variance of a step is known to a part in a
/// hundred only (its square is that of a straight line within one interval of the axis), and so is the approximation part.
#[test]
fn closed_form_is_the_ridge_by_brute_force() {
    let (points, weights) = grid();
    let questions = questions();
    let values: Vec<Vec<f64>> = questions.iter().map(|(_, f)| points.iter().map(f).collect()).collect();
    let mut wrong = Vec::new();
    for (number, design) in DESIGNS.iter().enumerate() {
        let release = small(design, pure("4"), number as u64);
        let naive = Naive::new(&release, &points, &weights);
        for lambda in [Lambda::Theorem(1.0), Lambda::Theorem(40.0), Lambda::Paper(1.0)] {
            for centred in [true, false] {
                let options = Options { prior: Prior::Uniform, lambda, centred, ..Options::default() };
                let fit = Fit::new(&release, options).unwrap();
                let tau = match lambda {
                    Lambda::Theorem(r) => 1.0 / r,
                    Lambda::Paper(r) => 1.0 / (r * naive.rows),
                    Lambda::Evidence => unreachable!(),
                };
                for ((expr, _), values) in questions.iter().zip(&values) {
                    let checked = check(release.schema(), expr);
                    assert!(fit.is_exact(&checked), "{expr:?} separates");
                    let estimate = fit.totals(&[checked]).estimate(0);
                    let expected = naive.answer(values, tau, centred);
                    let square: f64 = values.iter().zip(&weights).map(|(f, weight)| f * f * weight).sum();
                    let spread = naive.rows * square.sqrt();
                    let near = |a: f64, b: f64, relative: f64, absolute: f64| {
                        (a - b).abs() <= relative * b.abs() + absolute * spread
                    };
                    let count = naive.count_deviation * expected.count.abs();
                    let deviation = spread * tau.sqrt();
                    if !(near(estimate.value, expected.value, 0.0, 1e-5)
                        && near(estimate.parts.privacy, expected.privacy, 1e-3, 1e-9)
                        && near(estimate.parts.count, count, 1e-3, 1e-8)
                        && (estimate.parts.approximation - expected.approximation).abs() <= 1e-2 * deviation)
                    {
                        wrong.push(format!(
                            "design {number} {lambda:?} centred {centred} {expr:?}:\n  {} {} {} {}\n  {} {} {count} {}",
                            estimate.value,
                            estimate.parts.privacy,
                            estimate.parts.count,
                            estimate.parts.approximation,
                            expected.value,
                            expected.privacy,
                            expected.approximation,
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong, such as\n{}", wrong.len(), wrong[..wrong.len().min(12)].join("\n"));
}

/// What is asked of the whole [`POPULATION`]: one and more columns, separable all.
fn mixed() -> Vec<Expr> {
    vec![
        col("age"),
        col("score") * col("score"),
        col("income").gt(lit(20_000.0)),
        col("income").eq(lit(0.0)),
        col("wait").le(lit(10.0)).and(col("score").gt(lit(0.5))),
        col("region").eq(lit("south")).and(col("visits").ge(lit(2.0))),
        col("plan").eq(lit("gold")).and(col("score").gt(lit(0.0))).and(col("age").lt(lit(50.0))),
        case(col("plan").eq(lit("basic")), col("wait")),
        col("age") * col("score"),
        col("smoker").eq(lit(true)),
    ]
}

fn people(design: &Design, epsilon: &str, rows: usize, seed: u64) -> Release {
    let schema = Schema::from_toml(POPULATION).unwrap();
    Exact::new(&schema, design, pure(epsilon), &population(seed, rows)).release(seed)
}

/// The same ridge on random points. The difference is Monte Carlo error, of which the stated part is an upper bound;
/// over 104 questions six standard deviations are passed with probability below 10⁻⁶.
#[test]
fn random_points_give_the_closed_form() {
    for (number, design) in DESIGNS.iter().enumerate() {
        let release = small(design, pure("4"), number as u64);
        for centred in [true, false] {
            let options = Options {
                prior: Prior::Uniform,
                lambda: Lambda::Theorem(1.0),
                samples: 30_000,
                seed: 3,
                centred,
                ..Options::default()
            };
            let exact = Fit::new(&release, options.clone()).unwrap();
            let sampled = Fit::new(&release, Options { sampled: true, ..options }).unwrap();
            let mut squares = 0.0;
            let questions = questions();
            for (expr, _) in &questions {
                let (a, b) = (ask(&exact, expr), ask(&sampled, expr));
                assert!(!sampled.is_exact(&check(release.schema(), expr)) && b.parts.sampling > 0.0);
                assert_eq!(a.parts.sampling, 0.0);
                let score = (a.value - b.value) / b.parts.sampling;
                squares += score * score;
                assert!(
                    score.abs() < 6.0,
                    "design {number} {expr:?}: {} and {} ± {}",
                    a.value,
                    b.value,
                    b.parts.sampling
                );
                // Errors are as near as 30,000 points allow.
                let ratio = b.parts.privacy / a.parts.privacy.max(1e-9);
                assert!(a.parts.privacy < 1e-6 || (0.9..1.1).contains(&ratio), "design {number} {expr:?}: {ratio}");
            }
            let root = (squares / questions.len() as f64).sqrt();
            println!("design {number}, centred {centred}: differences are {root:.2} of the stated sampling part");
            assert!(root < 1.5, "design {number}: {root}");
        }
    }
}

/// A factor that is always 1 but reads two columns makes any question inseparable. Six standard deviations of sampling, 20
/// questions: a false alarm has probability below 10⁻⁷, and all seeds are fixed.
#[test]
fn inseparable_questions_agree_with_their_separable_twins() {
    let release = people(&Design::default(), "1", 20_000, 5);
    let options = |lambda| Options { samples: 40_000, lambda, ..Options::default() };
    for lambda in [Lambda::Evidence, Lambda::Theorem(1.0)] {
        let fit = Fit::new(&release, options(lambda)).unwrap();
        for expr in mixed() {
            let separable = check(release.schema(), &expr);
            let one = case((col("score") * col("age") + col("wait")).gt(lit(-1e9)), lit(1.0));
            let number = case(expr.clone().eq(lit(true)), lit(1.0)) * one.clone();
            let twin = if separable.kind() == m2m::expr::Type::Boolean { number } else { expr.clone() * one };
            let twin = check(release.schema(), &twin);
            assert!(fit.is_exact(&separable) && !fit.is_exact(&twin), "{expr:?}");
            let (a, b) = (fit.totals(&[separable]).estimate(0), fit.totals(&[twin]).estimate(0));
            let score = (a.value - b.value) / b.parts.sampling;
            println!(
                "{lambda:?} {expr:?}: {:.1} ± {:.1} and {:.1} ± {:.1} (sampling {:.1}, {score:.2})",
                a.value, a.std_error, b.value, b.std_error, b.parts.sampling
            );
            // Evidence gives every pair of columns a variance of its own, which points cannot tell apart: their answers then
            // differ by more than sampling, but not by more than twice their own errors.
            let scale = if lambda == Lambda::Evidence { b.std_error / 3.0 } else { b.parts.sampling };
            let score = score * b.parts.sampling / scale.max(b.parts.sampling);
            assert!(score.abs() < 6.0, "{expr:?}: {} and {} ± {}", a.value, b.value, b.parts.sampling);
            // Random points take what the cells leave of a function for an interaction: their errors are larger for it.
            let besides = (b.std_error.powi(2) - b.parts.sampling.powi(2)).sqrt();
            let ratio = besides / a.std_error;
            assert!(lambda != Lambda::Evidence || ratio > 0.3, "{expr:?}: {ratio} of the error");
        }
    }
}

/// The largest of some numbers in size.
fn largest(numbers: impl IntoIterator<Item = f64>) -> f64 {
    numbers.into_iter().fold(0.0, |largest, x| largest.max(x.abs()))
}

/// Designs for the population: the default, each half of it, and pairs.
fn designs() -> Vec<Design> {
    let pairs = "[[map]]\nkind = 'tables'\ngroups = [['age', 'region'], ['score', 'plan'], ['wait']]\nshare = 1.0";
    vec![
        Design::default(),
        Design::parse("hist").unwrap(),
        Design::parse("rff:m=100").unwrap(),
        Design::from_toml(pairs).unwrap(),
    ]
}

/// A combination of totals that is zero by logic is zero in value and has no error. What is left of a variance that rounding
/// makes of zero is its square root. Inseparable questions to a closed form are not `whole`: each has a variance of its own for
/// interactions, kept from going below zero, so that they add up within a small part of their error only.
fn assert_vanishes(totals: &Totals, gradient: &[f64], whole: bool, what: &str) {
    let value: f64 = totals.values.iter().zip(gradient).map(|(value, g)| value * g).sum();
    let scale = largest(totals.values.iter().zip(gradient).map(|(value, g)| value * g));
    let error = largest((0..gradient.len()).map(|i| totals.estimate(i).std_error * gradient[i]));
    assert!(value.abs() < if whole { 1e-7 * scale } else { 0.1 * error }, "{what}: {value} of {scale} ± {error}");
    let parts = totals.combine(value, gradient).parts;
    let left = [parts.privacy, parts.count, parts.sampling, parts.approximation];
    assert!(!whole || largest(left) < 2e-4 * error, "{what}: {parts:?} beside {error}");
}

#[test]
fn answers_are_linear_in_the_question() {
    for (number, design) in designs().iter().enumerate() {
        let release = people(design, "1", 3000, 7);
        for sampled in [false, true] {
            let fit = Fit::new(&release, Options { samples: 5000, sampled, ..Options::default() }).unwrap();
            let twice = |f: Expr, g: Expr| vec![f.clone(), g.clone(), f * lit(2.0) + g];
            let number_of = |condition: &Expr| case(condition.clone(), lit(1.0));
            let inseparable = (col("score") + col("wait") / lit(10.0)).gt(lit(1.0));
            for functions in [
                twice(col("age"), col("score") * col("score")),
                twice(number_of(&col("wait").le(lit(10.0))), col("age") * col("score")),
                twice(Expr::Call(Function::Coalesce, vec![col("income"), lit(0.0)]), col("visits")),
                twice(number_of(&inseparable), col("wait")),
            ] {
                let checked: Vec<Checked> = functions
                    .iter()
                    .map(|function| {
                        let zero = Expr::Call(Function::Coalesce, vec![function.clone(), lit(0.0)]);
                        check(release.schema(), &zero)
                    })
                    .collect();
                // A null counts as zero on both sides.
                let parts = [&functions[0], &functions[1]]
                    .map(|part| Expr::Call(Function::Coalesce, vec![part.clone(), lit(0.0)]));
                let sum = check(release.schema(), &(parts[0].clone() * lit(2.0) + parts[1].clone()));
                let totals = fit.totals(&[checked[0].clone(), checked[1].clone(), sum]);
                let whole = sampled || checked.iter().all(|function| fit.is_exact(function));
                assert_vanishes(
                    &totals,
                    &[2.0, 1.0, -1.0],
                    whole,
                    &format!("design {number}, sampled {sampled}, {functions:?}"),
                );
            }
        }
    }
}

#[test]
fn complements_add_up_to_the_total() {
    for (number, design) in designs().iter().enumerate() {
        let release = people(design, "1", 3000, 8);
        for sampled in [false, true] {
            let fit = Fit::new(&release, Options { samples: 5000, sampled, ..Options::default() }).unwrap();
            for condition in [
                col("age").le(lit(40.0)),
                col("score").gt(lit(0.3)).and(col("region").eq(lit("west"))),
                col("wait").lt(lit(5.0)).or(col("visits").ge(lit(3.0))),
                (col("score") + col("wait") / lit(10.0)).gt(lit(1.0)),
                col("smoker").eq(lit(true)),
                col("income").gt(lit(5000.0)).and(col("plan").eq(lit("plus"))),
            ] {
                // True, false and unknown are all there is.
                let parts = [condition.clone(), !condition.clone(), condition.clone().is_null(), lit(true)];
                let checked: Vec<Checked> = parts.iter().map(|part| check(release.schema(), part)).collect();
                let totals = fit.totals(&checked);
                let whole = sampled || checked.iter().all(|function| fit.is_exact(function));
                assert_vanishes(
                    &totals,
                    &[1.0, 1.0, 1.0, -1.0],
                    whole,
                    &format!("design {number}, sampled {sampled}, {condition:?}"),
                );
                assert!((totals.values[3] - fit.count().value).abs() < 1e-6 * fit.count().value);
            }
        }
    }
}

/// A fit that finds out every error, and keeps no two questions together.
struct Plain<'a>(&'a Fit);

impl Model for Plain<'_> {
    fn schema(&self) -> &Schema {
        Model::schema(self.0)
    }

    fn totals(&self, functions: &[Checked]) -> Totals {
        self.0.totals(functions)
    }
}

/// What is asked without errors, or together, is what is asked with them, one by one: for closed forms and random points.
#[test]
fn quantiles_are_those_found_one_by_one() {
    let merged = Release::from_bytes(include_bytes!("../../../fuzz/corpus/release/merged.json")).unwrap();
    let inseparable = [col("score") * col("age"), col("age") + case(col("flag").eq(lit(true)), lit(2.0))];
    let releases = [(people(&Design::default(), "1", 2000, 5), "score"), (merged, "age")];
    for ((release, column), together) in releases.into_iter().zip(inseparable) {
        let fit = Fit::new(&release, Options { samples: 500, ..Options::default() }).unwrap();
        let (plain, x) = (Plain(&fit), col(column));
        for filter in [lit(true), x.clone().gt(lit(0.25)), together.gt(lit(5.0))] {
            let (all, alone) = (Ask::of(&fit).filter(&filter).unwrap(), Ask::of(&plain).filter(&filter).unwrap());
            let parts = [0.05, 0.5, 0.9, 1.0];
            for (q, found) in parts.iter().zip(all.quantiles(&x, &parts).unwrap()) {
                assert_eq!(format!("{found:?}"), format!("{:?}", alone.quantile(&x, *q).unwrap()));
            }
            let functions = [lit(1.0), x.clone(), x.clone() * x.clone()];
            assert_eq!(all.total_values(&functions).unwrap(), alone.totals(&functions).unwrap().values);
        }
    }
}

#[test]
fn group_counts_add_up_to_the_total() {
    let groups = [
        ("region", vec!["north", "south", "east", "west", "isles", "(other)"]),
        ("plan", vec!["basic", "plus", "gold", "(other)"]),
    ];
    for (number, design) in designs().iter().enumerate() {
        let release = people(design, "1", 3000, 9);
        let fit = Fit::new(&release, Options::default()).unwrap();
        for (column, levels) in &groups {
            for filter in [lit(true), col("score").gt(lit(0.0))] {
                let mut parts: Vec<Expr> = levels.iter().map(|level| col(*column).eq(lit(*level))).collect();
                parts.push(col(*column).is_null());
                let mut gradient = vec![1.0; parts.len()];
                parts.push(lit(true));
                gradient.push(-1.0);
                let checked: Vec<Checked> =
                    parts.iter().map(|part| check(release.schema(), &part.clone().and(filter.clone()))).collect();
                assert_vanishes(
                    &fit.totals(&checked),
                    &gradient,
                    true,
                    &format!("design {number}, {column} where {filter:?}"),
                );
            }
        }
    }
}

/// The mean and the standard deviation of some numbers.
fn moments(numbers: &[f64]) -> (f64, f64) {
    let n = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / n;
    (mean, (numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt())
}

const DRAWS: u64 = 80;
/// With 79 degrees of freedom the ratio of an empirical variance to the true one is outside 0.53 to 1.71 with probability
/// 10⁻⁴ under a normal law (chi-square); these answers add up many Laplace draws. The seeds are fixed.
const CHI_SQUARE: std::ops::Range<f64> = 0.53..1.71;

/// The number of rows is public here, so that the answer is linear in the noise.
#[test]
fn the_privacy_part_is_the_spread_over_noise() {
    let schema = Schema::from_toml(SMALL).unwrap();
    let privacy = Privacy { neighbours: Neighbours::Replace, ..pure("2") };
    for (number, design) in DESIGNS.iter().enumerate() {
        let exact = Exact::new(&schema, &Design::from_toml(design).unwrap(), privacy, &table(2, 3000));
        let checked: Vec<Checked> = questions()[1..].iter().map(|(expr, _)| check(&schema, expr)).collect();
        let options = Options { prior: Prior::Uniform, lambda: Lambda::Theorem(1.0), ..Options::default() };
        let mut answers = vec![Vec::new(); checked.len()];
        let mut stated = Vec::new();
        for seed in 0..DRAWS {
            let totals = Fit::new(&exact.release(seed), options.clone()).unwrap().totals(&checked);
            answers.iter_mut().zip(&totals.values).for_each(|(answers, value)| answers.push(*value));
            stated = (0..checked.len()).map(|i| totals.estimate(i).parts).collect();
        }
        for ((answers, parts), (expr, _)) in answers.iter().zip(&stated).zip(&questions()[1..]) {
            let ratio = (moments(answers).1 / parts.privacy).powi(2);
            assert_eq!(parts.count, 0.0);
            assert!(CHI_SQUARE.contains(&ratio), "design {number} {expr:?}: variance is {ratio} of what is stated");
        }
    }
}

/// Cells of histograms add up to the number of rows, which is known better for it than by the count, and as well as stated.
#[test]
fn histograms_tell_the_number_of_rows_too() {
    let schema = Schema::from_toml(SMALL).unwrap();
    let exact = Exact::new(&schema, &Design::parse("hist:bins=8").unwrap(), pure("1"), &table(3, 2000));
    let (mut own, mut stated, mut of_count) = (0.0, 0.0, 0.0);
    for seed in 0..DRAWS {
        let release = exact.release(seed);
        let count = Fit::new(&release, Options::default()).unwrap().count();
        own += (count.value - exact.rows()).powi(2);
        stated += count.std_error.powi(2);
        of_count += (release.count().value as f64 - exact.rows()).powi(2);
    }
    assert!(own < 0.5 * of_count, "{own} against {of_count}");
    assert!((0.5..2.0).contains(&(own / stated)), "{own}, stated {stated}");
}

/// A thousandth of a small budget for the count, and a ridge so heavy that nothing else is noisy.
#[test]
fn the_count_part_is_the_spread_over_counts() {
    let schema = Schema::from_toml(SMALL).unwrap();
    let privacy = Privacy { count_share: "0.005".parse().unwrap(), ..pure("1") };
    for (number, design) in DESIGNS.iter().enumerate() {
        let exact = Exact::new(&schema, &Design::from_toml(design).unwrap(), privacy, &table(2, 5000));
        let checked: Vec<Checked> = questions().iter().map(|(expr, _)| check(&schema, expr)).collect();
        let options = Options { prior: Prior::Uniform, lambda: Lambda::Theorem(1e7), ..Options::default() };
        let mut answers = vec![Vec::new(); checked.len()];
        let mut squares = vec![0.0; checked.len()];
        for seed in 0..DRAWS {
            let totals = Fit::new(&exact.release(seed), options.clone()).unwrap().totals(&checked);
            for i in 0..checked.len() {
                let parts = totals.estimate(i).parts;
                assert!(parts.count > parts.privacy, "design {number}: {parts:?}");
                answers[i].push(totals.values[i]);
                squares[i] += (parts.count.powi(2) + parts.privacy.powi(2)) / DRAWS as f64;
            }
        }
        // One Laplace number has a kurtosis of 6, so its empirical variance from 80 draws has a deviation of 0.25: 2.5 is
        // passed with probability below 10⁻⁴, and 0.35 hardly ever.
        for (i, (expr, _)) in questions().iter().enumerate() {
            let ratio = moments(&answers[i]).1.powi(2) / squares[i];
            assert!((0.35..2.5).contains(&ratio), "design {number} {expr:?}: variance is {ratio} of what is stated");
        }
    }
}

/// Rows drawn from the uniform law on the domain of ten numbers.
fn uniform_table(seed: u64, columns: usize, rows: usize) -> (Schema, Vec<u8>) {
    let mut random = Random::new(seed);
    let column = |k: usize| format!("[[column]]\nname = 'u{k}'\ntype = 'number'\nmin = 0\nmax = 1\n");
    let schema = Schema::from_toml(&(0..columns).map(column).collect::<String>()).unwrap();
    let names: Vec<String> = (0..columns).map(|k| format!("u{k}")).collect();
    let mut text = names.join(",");
    for _ in 0..rows {
        let cells: Vec<String> = (0..columns).map(|_| format!("{:.6}", random.unit())).collect();
        text += &format!("\n{}", cells.join(","));
    }
    text.push('\n');
    (schema, text.into_bytes())
}

/// Four standard errors on 18 answers: a false alarm has probability below 2·10⁻³ if errors are stated exactly, and the
/// seeds are fixed. With this budget, and with rows that follow the prior, the answers are good too.
#[test]
fn race_answers_lie_within_their_errors() {
    let (schema, text) = uniform_table(11, 3, 20_000);
    let rows = panels(&schema, &text);
    for design in ["race:r=40,w=20,sigma=0.3", "race:r=60,w=8,hash=angular"] {
        let exact = Exact::new(&schema, &Design::parse(design).unwrap(), pure("50"), &text);
        let release = exact.release(1);
        for lambda in [Lambda::Theorem(1.0), Lambda::Evidence] {
            let fit = Fit::new(&release, Options { samples: 20_000, lambda, ..Options::default() }).unwrap();
            assert!(fit.features() < release.blocks()[0].sums().len(), "buckets that no point hits are left out");
            for k in 0..3 {
                let column = col(format!("u{k}"));
                let mean = Ask::of(&fit).mean(&column).unwrap();
                let truth = evaluate(&schema, &rows, &check(&schema, &column));
                let truth = truth.iter().flatten().sum::<f64>() / truth.len() as f64;
                assert!(
                    (mean.value - truth).abs() < 4.0 * mean.std_error,
                    "{design} {lambda:?}: {mean:?}, not {truth}"
                );
                assert!((mean.value - truth).abs() < 0.02, "{design} {lambda:?}: {mean:?}, not {truth}");
                assert!(mean.parts.sampling > 0.0 && mean.parts.privacy > 0.0);
            }
        }
    }
}

/// Readings that share points and their Gram matrix do the same operations as those that draw them anew; readings that can
/// not share them (a learned prior, another map, closed forms) do as well.
#[test]
fn another_release_is_read_as_if_it_were_the_first() {
    let (schema, text) = uniform_table(12, 3, 5000);
    let release = |design: &str, epsilon: &str, seed: u64| {
        Exact::new(&schema, &Design::parse(design).unwrap(), pure(epsilon), &text).release(seed)
    };
    let (race, fourier) = ("race:r=20,w=10,sigma=0.3,seed=1", "rff:m=20,seed=1");
    let first = release(race, "1", 1);
    let others =
        [release(race, "0.1", 2), release("race:r=20,w=10,sigma=0.3,seed=2", "10", 3), release(fourier, "1", 4)];
    let question = check(&schema, &(col("u0") * col("u1") * col("u2")));
    for (prior, lambda) in [(Prior::Uniform, Lambda::Theorem(1.0)), (Prior::Learned, Lambda::Evidence)] {
        let options = Options { prior, lambda, samples: 2000, seed: 7, ..Options::default() };
        let read = Fit::new(&first, options.clone()).unwrap();
        for other in &others {
            let (again, anew) = (read.again(other).unwrap(), Fit::new(other, options.clone()).unwrap());
            assert_eq!(again.weights(&[0, 1, 2]), anew.weights(&[0, 1, 2]));
            assert_eq!(again.positive().weights, anew.positive().weights);
            let answer = |fit: &Fit| fit.totals(std::slice::from_ref(&question)).estimate(0);
            assert_eq!(answer(&again), answer(&anew));
        }
    }
}

/// Powers of the first column on a grid of a thousandth, and whether the second lies above its middle.
struct Powers;

impl FeatureMap for Powers {
    fn len(&self) -> usize {
        4
    }
    fn body(&self) -> Body {
        Body::Bounded { l1: 4000, l2_squared: 4_000_000 }
    }
    fn record(&self, record: Record<'_>, features: &mut [i64]) {
        if let (Value::Unit(u), Value::Unit(v)) = (record.value(0), record.value(1)) {
            for (power, feature) in features[..3].iter_mut().enumerate() {
                *feature = (1000.0 * u.powi(power as i32 + 1)).round() as i64;
            }
            features[3] = if v > 0.5 { 1000 } else { 0 };
        }
    }
}

/// Answers that the features span: only noise is left of the error. Five standard errors: a false alarm has probability
/// below 10⁻⁴ over all questions, and the seed is fixed.
#[test]
fn a_map_of_the_users_own_is_read() {
    let (schema, _) = uniform_table(0, 2, 1);
    let mut random = Random::new(13);
    let text: String =
        (0..10_000).map(|_| format!("{:.6},{:.6}\n", random.unit().powi(3), random.unit().sqrt())).collect();
    let text = format!("u0,u1\n{text}").into_bytes();
    let rows = panels(&schema, &text);
    let sketcher = Sketcher::custom(&schema, "powers", serde_json::Value::Null, Box::new(Powers)).unwrap();
    let release = Exact::of(&sketcher, pure("1"), &Table::from_csv_bytes(text)).release(3);
    let options = Options { samples: 20_000, lambda: Lambda::Theorem(1.0), ..Options::default() };
    let message = Fit::new(&release, options.clone()).err().unwrap().to_string();
    assert!(message.contains("`powers`") && message.contains("with_maps"), "{message}");
    let fit = Fit::with_maps(&release, options, vec![Box::new(Powers)]).unwrap();
    assert_eq!(fit.features(), 4);
    // The grid of the map is its own: one unit of a feature is one.
    let x = || col("u0");
    for function in [x(), x() * x(), x() * x() * x(), case(col("u1").gt(lit(0.5)), lit(1.0))] {
        let checked = check(&schema, &function);
        let estimate = fit.totals(std::slice::from_ref(&checked)).estimate(0);
        let truth: f64 = evaluate(&schema, &rows, &checked).iter().flatten().sum();
        assert!((estimate.value - truth).abs() < 5.0 * estimate.std_error, "{function:?}: {estimate:?}, not {truth}");
        assert!(estimate.std_error < 0.05 * truth, "{function:?}: {estimate:?}, not {truth}");
    }
}

/// A public table that is the private one: every answer is its own, whatever the noise, and weights stay near 1.
#[test]
fn a_sample_prior_answers_by_its_rows() {
    let schema = Schema::from_toml(POPULATION).unwrap();
    let text = population(17, 4000);
    let rows = panels(&schema, &text);
    let release = Exact::new(&schema, &Design::parse("rff:m=20").unwrap(), pure("50"), &text).release(4);
    let prior = Prior::Sample(PublicTable::new(rows.clone()).unwrap());
    let fit = Fit::new(&release, Options { prior, ..Options::default() }).unwrap();
    assert_eq!(Sample::len(&fit), 4000);
    for expr in mixed() {
        let checked = check(&schema, &expr);
        let truth: f64 = evaluate(&schema, &rows, &checked).iter().flatten().sum();
        let estimate = fit.totals(std::slice::from_ref(&checked)).estimate(0);
        assert!((estimate.value - truth).abs() < 4.0 * estimate.std_error, "{expr:?}: {estimate:?}, not {truth}");
    }
    let mean = |weights: &[f64]| weights.iter().sum::<f64>() / weights.len() as f64;
    let positive = fit.positive().weights;
    assert!((mean(&fit.weights(&every(&schema))) - 1.0).abs() < 1e-9);
    assert!((mean(positive) - 1.0).abs() < 1e-9);
    assert!(positive.iter().all(|weight| *weight >= 0.0));
}

fn every(schema: &Schema) -> Vec<usize> {
    (0..schema.columns().len()).collect()
}

/// The weights are the answers: a total is the weighted mean of its function over the points.
#[test]
fn weights_reproduce_the_answers() {
    for design in designs() {
        let release = people(&design, "1", 3000, 10);
        for options in [
            Options { samples: 5000, sampled: true, ..Options::default() },
            Options { samples: 5000, prior: Prior::Uniform, sampled: true, ..Options::default() },
        ] {
            let fit = Fit::new(&release, options).unwrap();
            for expr in mixed() {
                let checked = check(release.schema(), &expr);
                let values = fit.values(&checked);
                let weights = fit.weights(&every(release.schema()));
                let known = values.iter().zip(weights.iter()).filter(|(x, _)| !x.is_nan());
                let sum: f64 = known.map(|(x, weight)| x * weight).sum();
                let total = fit.totals(&[checked]).values[0];
                let expected = sum / values.len() as f64 * fit.rows();
                let scale = largest(values.iter().filter(|x| !x.is_nan()).copied()) * fit.rows();
                assert!((total - expected).abs() < 1e-7 * scale, "{expr:?}: {total} and {expected}");
            }
        }
    }
}
