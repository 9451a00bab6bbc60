//! Random frequencies whose Fourier features have a given kernel. Public draws, reproducible on any machine.

use crate::feature::{Frequencies, Inputs, Kernel, Precision, RffSpec, phase};
use crate::stream::PublicStream;

/// Candidates per stratum of the radius.
const CANDIDATES: usize = 16;

/// A direction per frequency over the coordinates of [`super::projection`], in turns.
///
/// The kernel $k(x - x') = E\,e^{i\omega^\top(x-x')}$ is Gaussian $e^{-\|x-x'\|^2/2\sigma^2}$ for normal ω,
/// Matérn for multivariate Student t, and $e^{-\|x-x'\|_1/\sigma}$ (Laplace) for independent Cauchy.
/// Levels and missing numbers are coordinates like any other (one-hot), independent of the rest. Fast features take them
/// to the grid of [`phase`].
pub(crate) fn directions(spec: &RffSpec, inputs: &Inputs) -> Vec<Vec<f64>> {
    let count = spec.m / 2;
    let mut stream = PublicStream::new("rff", spec.seed);
    let numeric = inputs.iter().filter(|input| input.codes.is_none()).count();
    let mut radial = match spec.frequencies() {
        Frequencies::Orthogonal if numeric > 0 => {
            Some(orthogonal(&mut stream, spec.kernel, count, numeric).into_iter())
        }
        _ => None,
    };
    let turns = 1.0 / (spec.sigma * std::f64::consts::TAU);
    (0..count)
        .map(|_| {
            let (divisor, mut numbers) = match radial.as_mut().and_then(Iterator::next) {
                Some((divisor, vector)) => (divisor, Some(vector.into_iter())),
                None => (divisor(&mut stream, spec.kernel), None),
            };
            let mut direction = Vec::new();
            let draw = |stream: &mut PublicStream| coordinate(stream, spec.kernel, divisor) * turns;
            for input in inputs {
                match input.codes {
                    Some(codes) => direction.extend((0..codes).map(|_| draw(&mut stream))),
                    None => {
                        direction.push(match &mut numbers {
                            Some(vector) => vector.next().expect("one entry per number") * turns,
                            None => draw(&mut stream),
                        });
                        direction.push(draw(&mut stream));
                    }
                }
            }
            if spec.precision == Precision::Fast {
                phase::on_grid(inputs, &mut direction);
            }
            direction
        })
        .collect()
}

/// One coordinate of ω·σ.
fn coordinate(stream: &mut PublicStream, kernel: Kernel, divisor: f64) -> f64 {
    match kernel {
        Kernel::Laplace => stream.normal() / stream.normal(),
        _ => stream.normal() / divisor,
    }
}

/// What all coordinates of one frequency share: $\sqrt{\chi^2_{2\nu}/2\nu}$ for Matérn-ν, 1 for the others.
fn divisor(stream: &mut PublicStream, kernel: Kernel) -> f64 {
    let degrees = match kernel {
        Kernel::Gaussian | Kernel::Laplace => return 1.0,
        Kernel::Matern12 => 1,
        Kernel::Matern32 => 3,
        Kernel::Matern52 => 5,
    };
    (norm_squared(stream, degrees) / degrees as f64).sqrt()
}

fn norm_squared(stream: &mut PublicStream, n: usize) -> f64 {
    (0..n).map(|_| stream.normal()).fold(0.0, |sum, z| sum + z * z)
}

/// Vectors with the right marginal law whose directions are orthogonal in blocks of d and whose lengths are
/// stratified, each with its divisor. Halves the error of the kernel at the same number of frequencies.
///
/// Lengths: draw 16 candidates per vector, sort, take one at random from each run of 16, shuffle. A vector
/// picked at random then has exactly the law of a single candidate.
fn orthogonal(stream: &mut PublicStream, kernel: Kernel, count: usize, dimension: usize) -> Vec<(f64, Vec<f64>)> {
    let mut candidates: Vec<(f64, f64)> = (0..count * CANDIDATES)
        .map(|_| {
            let length = norm_squared(stream, dimension).sqrt();
            let divisor = divisor(stream, kernel);
            (length / divisor, divisor)
        })
        .collect();
    candidates.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut lengths: Vec<(f64, f64)> =
        candidates.chunks_exact(CANDIDATES).map(|stratum| stratum[stream.below(CANDIDATES as u64) as usize]).collect();
    for i in (1..lengths.len()).rev() {
        lengths.swap(i, stream.below(i as u64 + 1) as usize);
    }
    let mut vectors = Vec::with_capacity(count);
    while vectors.len() < count {
        let block = orthonormal(stream, dimension.min(count - vectors.len()), dimension);
        vectors.extend(block);
    }
    lengths
        .into_iter()
        .zip(vectors)
        .map(|((length, divisor), direction)| (divisor, direction.into_iter().map(|x| x * length).collect()))
        .collect()
}

/// Normal vectors made orthonormal by Gram–Schmidt, each subtraction done twice.
fn orthonormal(stream: &mut PublicStream, count: usize, dimension: usize) -> Vec<Vec<f64>> {
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(count);
    while basis.len() < count {
        let mut vector: Vec<f64> = (0..dimension).map(|_| stream.normal()).collect();
        let before = dot(&vector, &vector);
        for _ in 0..2 {
            for other in &basis {
                let along = dot(&vector, other);
                vector.iter_mut().zip(other).for_each(|(x, y)| *x -= along * y);
            }
        }
        let after = dot(&vector, &vector);
        if after > before * 1e-20 {
            let length = after.sqrt();
            vector.iter_mut().for_each(|x| *x /= length);
            basis.push(vector);
        }
    }
    basis
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).fold(0.0, |sum, (x, y)| sum + x * y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feature::Input;
    use crate::panel::Slot;

    /// The kernel itself, to be compared with what the features give.
    fn kernel(kernel: Kernel, sigma: f64, difference: &[f64]) -> f64 {
        let r = dot(difference, difference).sqrt() / sigma;
        match kernel {
            Kernel::Gaussian => (-0.5 * r * r).exp(),
            Kernel::Laplace => (-difference.iter().map(|x| x.abs()).sum::<f64>() / sigma).exp(),
            Kernel::Matern12 => (-r).exp(),
            Kernel::Matern32 => {
                let a = 3f64.sqrt() * r;
                (1.0 + a) * (-a).exp()
            }
            Kernel::Matern52 => {
                let a = 5f64.sqrt() * r;
                (1.0 + a + a * a / 3.0) * (-a).exp()
            }
        }
    }

    fn error(kernel_name: Kernel, frequencies: Frequencies, m: usize, seed: u64) -> f64 {
        let d = 4;
        let inputs: Inputs = (0..d).map(|i| Input { column: i, slot: Slot::Unit(i), codes: None }).collect();
        let spec =
            RffSpec { m, sigma: 0.7, kernel: kernel_name, frequencies: Some(frequencies), seed, ..RffSpec::default() };
        let directions = directions(&spec, &inputs);
        let mut stream = PublicStream::new("test", 7);
        let mut total = 0.0;
        for _ in 0..200 {
            let difference: Vec<f64> = (0..d).map(|_| stream.uniform() - stream.uniform()).collect();
            let estimate = directions
                .iter()
                .map(|direction| (0..d).map(|k| difference[k] * direction[2 * k]).sum::<f64>())
                .map(|turns| (turns * std::f64::consts::TAU).cos())
                .sum::<f64>()
                / directions.len() as f64;
            total += (estimate - kernel(kernel_name, 0.7, &difference)).powi(2);
        }
        (total / 200.0).sqrt()
    }

    /// An average of 20,000 cosines has standard deviation at most 0.005; seeds are fixed.
    #[test]
    fn features_have_the_stated_kernel() {
        for kernel in [Kernel::Gaussian, Kernel::Laplace, Kernel::Matern12, Kernel::Matern32, Kernel::Matern52] {
            let error = error(kernel, Frequencies::Iid, 40_000, 1);
            assert!(error < 0.015, "{kernel:?} {error}");
            if kernel != Kernel::Laplace {
                let error = self::error(kernel, Frequencies::Orthogonal, 40_000, 1);
                assert!(error < 0.015, "{kernel:?} {error}");
            }
        }
    }

    #[test]
    fn orthogonal_frequencies_halve_the_error() {
        let mean =
            |frequencies| (0..20).map(|seed| error(Kernel::Gaussian, frequencies, 200, seed)).sum::<f64>() / 20.0;
        assert!(mean(Frequencies::Orthogonal) < 0.6 * mean(Frequencies::Iid));
    }
}
