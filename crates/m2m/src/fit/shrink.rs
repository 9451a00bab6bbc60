//! Noisy cells of a histogram, many of which may be empty or small, freed of noise.
//!
//! Cells are taken for draws from exponential laws of some scale, or for zero. Which scales are common is learned from
//! the cells themselves (expectation maximisation), and so is how it goes on from one cell to the next: a cell of
//! numbers most often has the scale of its neighbour or the one beside it, so that a tail of cells that are faint one by one
//! is known for faint as a whole (a hidden Markov chain). Levels have no neighbours.

use crate::fit::points::dot;
use crate::privatise::Mechanism;

/// Powers of two, in standard deviations of the noise, from which on scales are tried: one cell that stands alone has to
/// stand out, many side by side do not. Each is weighed by how likely it makes the cells.
const SMALLEST: [i32; 3] = [2, 1, 0];
/// Laws that are told apart, at most: scales beyond all of them are no other.
const MOST_LAWS: usize = 32;
const ROUNDS: usize = 40;
/// Or fewer, once no probability moves by more than this.
const SETTLED: f64 = 1e-2;
/// By how much the logarithm of the likelihood has to rise for one more law.
const PRICE: f64 = 3.0;
/// How much of the noise's variance remains at least in a cell that is taken for empty.
const DOUBT: f64 = 0.2;

/// The law of the noise on a cell. Far from zero they differ: what Gaussian noise all but rules out, Laplace noise does to a
/// cell in a few hundred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tails {
    Gaussian,
    Laplace,
}

impl Tails {
    /// That of a mechanism. Points of a cross-polytope are much like independent Laplace noise.
    pub fn of(mechanism: Mechanism) -> Self {
        match mechanism {
            Mechanism::DiscreteLaplace { .. } | Mechanism::OneHotKnorm { .. } => Self::Laplace,
            Mechanism::DiscreteGaussian { .. } | Mechanism::DiscKnorm { .. } => Self::Gaussian,
        }
    }
}

/// Posterior means and variances of cells with noise of one deviation. `order` is that of the cells that have one.
pub(super) fn shrink(noisy: &[f64], noise: (f64, Tails), order: Option<Vec<usize>>) -> (Vec<f64>, Vec<f64>) {
    let tried = if order.is_some() { &SMALLEST[..] } else { &SMALLEST[..1] };
    shrink_with(tried, noisy, noise, order.unwrap_or_default())
}

/// The same for cells in order of which even those side by side have to stand out one by one.
pub(super) fn shrink_apart(noisy: &[f64], noise: (f64, Tails)) -> (Vec<f64>, Vec<f64>) {
    shrink_with(&SMALLEST[..1], noisy, noise, (0..noisy.len()).collect())
}

fn shrink_with(
    tried: &[i32],
    noisy: &[f64],
    (deviation, tails): (f64, Tails),
    chain: Vec<usize>,
) -> (Vec<f64>, Vec<f64>) {
    let mut alone = vec![true; noisy.len()];
    chain.iter().for_each(|cell| alone[*cell] = false);
    let mut chains: Vec<Vec<usize>> = (0..noisy.len()).filter(|cell| alone[*cell]).map(|cell| vec![cell]).collect();
    chains.push(chain);
    // In units of the noise.
    let z: Vec<f64> = noisy.iter().map(|x| x / deviation).collect();
    let readings: Vec<Reading> = tried.iter().map(|smallest| Reading::new(&z, tails, &chains, *smallest)).collect();
    let best = readings.iter().map(|reading| reading.evidence).fold(f64::NEG_INFINITY, f64::max);
    let mut weights: Vec<f64> = readings.iter().map(|reading| (reading.evidence - best).exp()).collect();
    normalise(&mut weights);
    let moments = |cell: usize| {
        let of = |moment: fn(&(f64, f64)) -> f64| -> f64 {
            weights.iter().zip(&readings).map(|(weight, reading)| weight * moment(&reading.moments[cell])).sum()
        };
        let (mean, square) = (of(|moments| moments.0), of(|moments| moments.1));
        (mean * deviation, (square - mean * mean).max(DOUBT) * deviation * deviation)
    };
    (0..noisy.len()).map(moments).unzip()
}

/// What cells look like if scales begin at some size.
struct Reading {
    /// The logarithm of how likely the cells are, less the price of the laws that there can be.
    evidence: f64,
    /// Means and mean squares of the cells.
    moments: Vec<(f64, f64)>,
}

impl Reading {
    fn new(z: &[f64], tails: Tails, chains: &[Vec<usize>], smallest: i32) -> Self {
        let largest = z.iter().fold(2.0f64, |a, b| a.max(*b));
        let scales = (smallest..).map(|k| 2f64.powi(k)).take_while(|scale| *scale <= 2.0 * largest).take(MOST_LAWS - 1);
        let laws: Vec<Option<f64>> = std::iter::once(None).chain(scales.map(Some)).collect();
        let under = |z: f64, scale: Option<f64>| match (tails, scale) {
            (Tails::Gaussian, None) => zero(z),
            (Tails::Gaussian, Some(scale)) => exponential(z, scale),
            (Tails::Laplace, None) => laplace::zero(z),
            (Tails::Laplace, Some(scale)) => laplace::exponential(z, scale),
        };
        let under_all = |z: &f64| laws.iter().map(|scale| under(*z, *scale)).collect();
        let cells: Vec<Vec<Cell>> = z.iter().map(under_all).collect();
        // As many numbers side by side as the processor likes.
        match laws.len() {
            ..=8 => Self::of::<8>(&cells, chains, laws.len()),
            9..=16 => Self::of::<16>(&cells, chains, laws.len()),
            _ => Self::of::<MOST_LAWS>(&cells, chains, laws.len()),
        }
    }

    fn of<const L: usize>(cells: &[Vec<Cell>], chains: &[Vec<usize>], laws: usize) -> Self {
        let likely = Likely::<L>::new(cells);
        let mut law = Transitions::<L>::new(laws);
        for _ in 0..ROUNDS {
            let mut counts = Transitions::doubt(laws);
            chains.iter().for_each(|chain| _ = law.posterior(chain, &likely, |_, _| {}, &mut counts));
            let next = counts.normalised();
            let settled = law.distance(&next) < SETTLED;
            law = next;
            if settled {
                break;
            }
        }
        let mut moments = vec![(0.0, 0.0); cells.len()];
        let mut keep = |cell: usize, shares: &[f64; L]| {
            let mean: f64 = shares.iter().zip(&cells[cell]).map(|(share, law)| share * law.first).sum();
            let square: f64 = shares.iter().zip(&cells[cell]).map(|(share, law)| share * law.second).sum();
            moments[cell] = (mean, square);
        };
        let mut unused = Transitions::doubt(laws);
        let log: f64 = chains.iter().map(|chain| law.posterior(chain, &likely, &mut keep, &mut unused)).sum();
        Self { evidence: log + likely.log - PRICE * laws as f64, moments }
    }
}

/// How likely each cell is under each of at most `L` laws, for the likeliest being 1.
struct Likely<const L: usize> {
    shares: Vec<[f64; L]>,
    /// The logarithm of how likely all cells are under their likeliest laws.
    log: f64,
}

impl<const L: usize> Likely<L> {
    fn new(cells: &[Vec<Cell>]) -> Self {
        let mut log = 0.0;
        let share = |laws: &Vec<Cell>| {
            let best = laws.iter().fold(0.0f64, |best, law| best.max(law.likelihood));
            log += best.ln();
            let mut shares = [0.0; L];
            // Products of still smaller numbers would lose their digits, which slows processors down.
            shares.iter_mut().zip(laws).for_each(|(x, law)| *x = (law.likelihood / best).max(1e-60));
            shares
        };
        let shares = cells.iter().map(share).collect();
        Self { shares, log }
    }
}

/// How likely a noisy cell is under one law, and what is then to be expected of it and of its square.
#[derive(Clone, Copy)]
struct Cell {
    likelihood: f64,
    first: f64,
    second: f64,
}

fn density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt()
}

fn zero(z: f64) -> Cell {
    Cell { likelihood: density(z).max(1e-290), first: 0.0, second: 0.0 }
}

fn exponential(z: f64, scale: f64) -> Cell {
    let below = |z: f64| 0.5 * libm::erfc(-z / std::f64::consts::SQRT_2);
    let centre = z - 1.0 / scale;
    // The normal law about the centre, cut off at zero; its tail far below by the first terms of a series.
    let (log_mass, ratio) = if centre > -25.0 {
        (below(centre).ln(), density(centre) / below(centre))
    } else {
        (-0.5 * centre * centre - (-centre * std::f64::consts::TAU.sqrt()).ln(), -centre - 1.0 / centre)
    };
    let likelihood = (log_mass + (0.5 / scale - z) / scale).exp() / scale;
    let first = (centre + ratio).max(0.0);
    Cell { likelihood: likelihood.max(1e-290), first, second: (1.0 + centre * first).max(first * first) }
}

/// The same under Laplace noise of standard deviation 1.
mod laplace {
    use super::Cell;

    /// e^(-|z|·RATE) · RATE / 2 is its density.
    const RATE: f64 = std::f64::consts::SQRT_2;

    pub fn zero(z: f64) -> Cell {
        Cell { likelihood: (0.5 * RATE * (-RATE * z.abs()).exp()).max(1e-290), first: 0.0, second: 0.0 }
    }

    /// Integrals of x^k e^(-x/scale) / scale times the density of noise z - x, where x is beyond z and where it is not.
    pub fn exponential(z: f64, scale: f64) -> Cell {
        let (rate, both) = (1.0 / scale, RATE + 1.0 / scale);
        let factor = 0.5 * RATE * rate;
        // Beyond max(z, 0), x falls off by both rates.
        let from = z.max(0.0);
        let at = factor * (-RATE * (from - z) - rate * from).exp() / both;
        let beyond = [at, at * (from + 1.0 / both), at * (from * from + 2.0 * from / both + 2.0 / (both * both))];
        let below = if z > 0.0 { between(z, rate).map(|integral| factor * integral) } else { [0.0; 3] };
        let [mass, first, second] = [0, 1, 2].map(|k| beyond[k] + below[k]);
        if mass < 1e-290 {
            // So far out that only the nearer tail counts.
            return Cell { likelihood: 1e-290, first: from, second: from * from };
        }
        Cell { likelihood: mass, first: first / mass, second: (second / mass).max((first / mass).powi(2)) }
    }

    /// ∫ x^k e^(-rate·x) e^(-RATE (z - x)) from 0 to z, for k = 0, 1, 2.
    fn between(z: f64, rate: f64) -> [f64; 3] {
        let slope = RATE - rate;
        let end = (-rate * z).exp();
        if (slope * z).abs() < 0.1 {
            // A power series of e^(slope·x), as differences would lose their digits.
            let start = (-RATE * z).exp();
            return [0, 1, 2].map(|k| {
                let mut term = start * z.powi(k + 1);
                let mut sum = 0.0;
                for j in 0..8 {
                    sum += term / f64::from(k + 1 + j);
                    term *= slope * z / f64::from(j + 1);
                }
                sum
            });
        }
        let zeroth = (end - (-RATE * z).exp()) / slope;
        let first = (z * end - zeroth) / slope;
        [zeroth, first, (z * z * end - 2.0 * first) / slope]
    }
}

/// How the law of a cell follows from that of the one before, where there are at most `L` laws.
struct Transitions<const L: usize> {
    /// After an empty cell, and after another one: runs of empty cells are long, whatever the others do.
    after: [Steps; 2],
    /// How common each law is where a chain begins or anything can follow. The first is that of empty cells.
    weights: [f64; L],
    laws: usize,
}

/// Probabilities that the law stays the same, is one beside it, or any; also their expected numbers.
#[derive(Clone, Copy)]
struct Steps {
    same: f64,
    beside: f64,
    any: f64,
}

impl<const L: usize> Transitions<L> {
    fn new(laws: usize) -> Self {
        let steps = Steps { same: 0.4, beside: 0.3, any: 0.3 };
        Self { after: [steps; 2], weights: Self::even(laws), laws }
    }

    /// What is counted from: one cell's worth of doubt, and as much about each step.
    fn doubt(laws: usize) -> Self {
        let steps = Steps { same: 1.0, beside: 1.0, any: 1.0 };
        Self { after: [steps; 2], weights: Self::even(laws), laws }
    }

    fn even(laws: usize) -> [f64; L] {
        std::array::from_fn(|law| if law < laws { 1.0 / laws as f64 } else { 0.0 })
    }

    /// The largest difference of two probabilities.
    fn distance(&self, other: &Self) -> f64 {
        let steps = |law: &Self| law.after.map(|steps| [steps.same, steps.beside, steps.any]);
        let of_steps = steps(self).into_iter().flatten().zip(steps(other).into_iter().flatten());
        let of_weights = self.weights.iter().copied().zip(other.weights.iter().copied());
        of_steps.chain(of_weights).map(|(one, two)| (one - two).abs()).fold(0.0, f64::max)
    }

    /// From numbers to probabilities.
    fn normalised(mut self) -> Self {
        for steps in &mut self.after {
            let total = steps.same + steps.beside + steps.any;
            *steps = Steps { same: steps.same / total, beside: steps.beside / total, any: steps.any / total };
        }
        normalise(&mut self.weights);
        self
    }

    /// Calls with the probabilities of the laws of each cell of a chain, and adds to counts. Returns the logarithm of the
    /// likelihood.
    fn posterior(
        &self,
        chain: &[usize],
        likely: &Likely<L>,
        mut call: impl FnMut(usize, &[f64; L]),
        counts: &mut Self,
    ) -> f64 {
        // Forward: the laws of each cell given the cells up to it.
        let mut forward: Vec<[f64; L]> = Vec::with_capacity(chain.len());
        let (mut log, mut product) = (0.0, 1.0);
        for cell in chain {
            let mut here = forward.last().map_or(self.weights, |before| self.step(before));
            here.iter_mut().zip(&likely.shares[*cell]).for_each(|(p, likelihood)| *p *= likelihood);
            product *= normalise(&mut here);
            // Logarithms take long.
            if product < 1e-200 {
                log += f64::ln(product);
                product = 1.0;
            }
            forward.push(here);
        }
        // Backward: how likely the cells after it are under each law of a cell.
        let [empty, other] = self.after;
        let mut backward = [1.0; L];
        for (at, cell) in chain.iter().enumerate().rev() {
            let mut here = times(&forward[at], &backward);
            normalise(&mut here);
            call(*cell, &here);
            let mut later = times(&likely.shares[*cell], &backward);
            normalise(&mut later);
            let near = self.beside(&later);
            let from_any = dot(&self.weights, &later).max(1e-300);
            let mut began = 1.0;
            if at > 0 {
                let from = &forward[at - 1];
                // From an empty cell, and from others. Going to either side is as likely from one law to another as back.
                let (same, beside) = (from[0] * later[0], from[0] * near[0]);
                let taken = [
                    (empty, same, beside, from[0]),
                    (other, dot(from, &later) - same, dot(from, &near) - beside, 1.0 - from[0]),
                ]
                .map(|(steps, same, beside, any)| Steps {
                    same: steps.same * same.max(0.0),
                    beside: steps.beside * beside.max(0.0),
                    any: steps.any * any.max(0.0) * from_any,
                });
                let total = taken.iter().map(|steps| steps.same + steps.beside + steps.any).sum::<f64>().max(1e-300);
                began = 0.0;
                for (count, steps) in counts.after.iter_mut().zip(&taken) {
                    count.same += steps.same / total;
                    count.beside += steps.beside / total;
                    count.any += steps.any / total;
                    began += steps.any / total;
                }
            }
            let began = began / from_any;
            for s in 0..L {
                counts.weights[s] += began * self.weights[s] * later[s];
                backward[s] = other.same * later[s] + other.beside * near[s] + other.any * from_any;
            }
            backward[0] = empty.same * later[0] + empty.beside * near[0] + empty.any * from_any;
        }
        log + product.ln()
    }

    /// The laws of the next cell, given those of one.
    #[inline(always)]
    fn step(&self, from: &[f64; L]) -> [f64; L] {
        let [empty, other] = self.after;
        let any = empty.any * from[0] + other.any * (1.0 - from[0]);
        let mut beside = times(from, &[other.beside; L]);
        beside[0] = empty.beside * from[0];
        let mut next = self.beside(&beside);
        for s in 0..L {
            next[s] += other.same * from[s] + any * self.weights[s];
        }
        next[0] += (empty.same - other.same) * from[0];
        next
    }

    /// Half to either side; at an end the half that would leave stays. What comes to lie beyond the last law is of no
    /// account: no cell is likely there.
    #[inline(always)]
    fn beside(&self, from: &[f64; L]) -> [f64; L] {
        let (mut near, last) = ([0.0; L], self.laws - 1);
        for s in 1..L - 1 {
            near[s] = 0.5 * (from[s - 1] + from[s + 1]);
        }
        near[0] = 0.5 * (from[0] + from[1]);
        near[last] = 0.5 * (from[last - 1] + from[last]);
        near
    }
}

#[inline(always)]
fn times<const L: usize>(a: &[f64; L], b: &[f64; L]) -> [f64; L] {
    let mut product = [0.0; L];
    for s in 0..L {
        product[s] = a[s] * b[s];
    }
    product
}

const ONES: [f64; MOST_LAWS] = [1.0; MOST_LAWS];

/// Brings numbers, at most one for each law, to sum 1, and returns what it was.
#[inline(always)]
fn normalise(numbers: &mut [f64]) -> f64 {
    let total = dot(numbers, &ONES[..numbers.len()]).max(1e-300);
    let inverse = 1.0 / total;
    numbers.iter_mut().for_each(|x| *x *= inverse);
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::PublicStream;

    /// The posterior of a chain is that of adding up over all sequences of laws.
    #[test]
    fn chains_are_summed_over_all_sequences() {
        let after = [Steps { same: 0.7, beside: 0.1, any: 0.2 }, Steps { same: 0.5, beside: 0.3, any: 0.2 }];
        let law = Transitions::<4> { after, weights: [0.2, 0.5, 0.3, 0.0], laws: 3 };
        let z = [0.3, 5.0, 1.0, -0.7];
        let cells: Vec<Vec<Cell>> =
            z.iter().map(|z| vec![zero(*z), exponential(*z, 1.0), exponential(*z, 4.0)]).collect();
        let step = |a: usize, b: usize| {
            let to_side = |side: i32| ((a as i32 + side).clamp(0, 2) == b as i32) as u8 as f64;
            let Steps { same, beside, any } = law.after[usize::from(a > 0)];
            same * f64::from(a == b) + beside * 0.5 * (to_side(-1) + to_side(1)) + any * law.weights[b]
        };
        let mut expected = vec![vec![0.0; 3]; 4];
        for code in 0..81usize {
            let laws: Vec<usize> = (0..4).map(|at| code / 3usize.pow(at) % 3).collect();
            let mut p = law.weights[laws[0]];
            p *= laws.windows(2).map(|w| step(w[0], w[1])).product::<f64>();
            p *= laws.iter().zip(&cells).map(|(law, cell)| cell[*law].likelihood).product::<f64>();
            laws.iter().zip(&mut expected).for_each(|(law, sums)| sums[*law] += p);
        }
        let total: f64 = expected[0].iter().sum();
        expected.iter_mut().for_each(|sums| _ = normalise(sums));
        let mut found = vec![Vec::new(); 4];
        let likely = Likely::new(&cells);
        let keep = |cell: usize, shares: &[f64; 4]| found[cell] = shares.to_vec();
        let log = law.posterior(&[0, 1, 2, 3], &likely, keep, &mut Transitions::doubt(3)) + likely.log;
        assert!((log - total.ln()).abs() < 1e-12, "{log}, not {}", total.ln());
        for (found, expected) in found.iter().zip(&expected) {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}, not {expected:?}");
        }
    }

    /// Moments of an exponential law seen through noise, by adding up over a fine grid.
    #[test]
    fn exponential_laws_have_their_moments() {
        let laplace_density = |z: f64| (-2f64.sqrt() * z.abs()).exp() / 2f64.sqrt();
        type Law<'a> = (fn(f64, f64) -> Cell, &'a dyn Fn(f64) -> f64);
        let densities: [Law<'_>; 2] = [(exponential, &density), (laplace::exponential, &laplace_density)];
        let points =
            [(0.5, 0.25), (-2.0, 1.0), (3.0, 4.0), (30.0, 16.0), (-1.0, 0.25), (4.0, 0.7), (4.0, 0.72), (9.0, 0.5)];
        for ((exponential, density), (z, scale)) in densities.iter().flat_map(|law| points.map(|point| (law, point))) {
            let weight = |x: f64| density(z - x) * (-x / scale).exp() / scale;
            let step = 1e-3;
            let grid = (0..80_000).map(|i| (i as f64 + 0.5) * step);
            let (mut total, mut first, mut second) = (0.0, 0.0, 0.0);
            for x in grid {
                let w = weight(x) * step;
                (total, first, second) = (total + w, first + w * x, second + w * x * x);
            }
            let cell = exponential(z, scale);
            assert!((cell.likelihood / total - 1.0).abs() < 1e-4, "{z} {scale}: {} {total}", cell.likelihood);
            assert!((cell.first - first / total).abs() < 1e-3 && (cell.second - second / total).abs() < 1e-2);
        }
    }

    /// A faint tail keeps about the mass that it has; levels that stand out are kept as they are.
    #[test]
    fn tails_are_not_inflated() {
        let mut random = PublicStream::new("test", 7);
        let truth: Vec<f64> = (0..64).map(|i| if i < 6 { 40.0 - 5.0 * i as f64 } else { 0.02 }).collect();
        let (mut tail, mut head) = (0.0, 0.0);
        const RUNS: usize = 40;
        for _ in 0..RUNS {
            let noisy: Vec<f64> = truth.iter().map(|x| x + random.normal()).collect();
            let (means, _) = shrink(&noisy, (1.0, Tails::Gaussian), Some((0..64).collect()));
            tail += means[8..].iter().sum::<f64>() / RUNS as f64;
            head += means[..6].iter().sum::<f64>() / RUNS as f64;
        }
        assert!(tail < 4.0, "{tail}");
        assert!((head - 165.0).abs() < 2.0, "{head}");
    }

    /// Laplace noise throws one empty cell in a few hundred far out: that is known for noise, and Gaussian tails would not.
    #[test]
    fn outliers_of_laplace_noise_are_not_believed() {
        let mut random = PublicStream::new("test", 9);
        let mut square = |tails: Tails| {
            let mut sum = 0.0;
            for _ in 0..100 {
                let mut laplace = || (random.uniform().ln() - random.uniform().ln()) * 0.5f64.sqrt();
                let noisy: Vec<f64> =
                    (0..64).map(|i| laplace() + if i < 6 { 40.0 - 5.0 * f64::from(i) } else { 0.0 }).collect();
                let (means, _) = shrink(&noisy, (1.0, tails), Some((0..64).collect()));
                sum += means[8..].iter().map(|mean| mean * mean).sum::<f64>();
            }
            sum
        };
        let (wrong, right) = (square(Tails::Gaussian), square(Tails::Laplace));
        assert!(right < 0.5 * wrong, "{right} against {wrong}");
    }
}
