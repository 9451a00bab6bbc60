//! What two columns are likely to do together, judged by what all others do with them.
//!
//! Let e be orthonormal functions of all columns, put one below the other. The matrix G = E[e e^⊤] has identities on its
//! diagonal and the interactions of pairs beside them. If columns i and k had to do with each other only through the
//! others R, as in a Gaussian model that leaves out their edge, then
//! $G_{ik} = G_{iR} G_{RR}^{-1} G_{Rk}$.
//!
//! The right side does not know the table of i and k, so that its noise is not in it: it is a guess which that table can
//! then correct, as if it had been known beforehand. Along a chain of columns it is all that there is to say; what it is
//! worth in general, the tables tell (`interactions::Look::again`).
//!
//! With J = (G + λ)^{-1}, the Schur complement of R in G + λ is the inverse of the blocks of J at i and k, and beside its
//! diagonal it is G_ik less the guess: one large inverse serves all pairs.

use faer::linalg::solvers::Solve;
use faer::{Mat, Side};

/// Two columns, and what they do together: `[function of the first][function of the second]`.
pub(crate) type Pair = ([usize; 2], Mat<f64>);

/// How much is added to the diagonal at least, as G is not known well, and how large its least eigenvalue has to be then.
const RIDGE: f64 = 0.5;
const LEAST: f64 = 0.3;

/// The guess for each pair of columns that is given; `sizes` says how many functions each column has.
pub(crate) fn guesses(sizes: &[usize], pairs: &[Pair]) -> Vec<Mat<f64>> {
    let mut first = vec![0];
    sizes.iter().for_each(|size| first.push(first[first.len() - 1] + size));
    let total = first[sizes.len()];
    let mut matrix = Mat::<f64>::zeros(total, total);
    for ([i, k], block) in pairs {
        for r in 0..sizes[*i] {
            for c in 0..sizes[*k] {
                matrix[(first[*i] + r, first[*k] + c)] = block[(r, c)];
                matrix[(first[*k] + c, first[*i] + r)] = block[(r, c)];
            }
        }
    }
    let mut ridge = RIDGE;
    let with = |matrix: &Mat<f64>, ridge: f64| {
        Mat::from_fn(total, total, |r, c| matrix[(r, c)] + if r == c { 1.0 + ridge } else { 0.0 })
    };
    while with(&matrix, ridge - LEAST).llt(Side::Lower).is_err() {
        ridge *= 1.5;
    }
    let identity = |size: usize| Mat::<f64>::identity(size, size);
    let positive = "it is positive definite";
    let inverse = with(&matrix, ridge).llt(Side::Lower).expect(positive).solve(identity(total));
    let guess = |([i, k], block): &Pair| {
        let at = |place: usize| if place < sizes[*i] { first[*i] + place } else { first[*k] + place - sizes[*i] };
        let both = sizes[*i] + sizes[*k];
        let part = Mat::from_fn(both, both, |r, c| inverse[(at(r), at(c))]);
        let rest = part.llt(Side::Lower).expect(positive).solve(identity(both));
        Mat::from_fn(sizes[*i], sizes[*k], |r, c| block[(r, c)] - rest[(r, sizes[*i] + c)])
    };
    pairs.iter().map(guess).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::PublicStream;

    /// Four columns of 2, 3, 1 and 2 functions, all pairs but that of the last two columns.
    fn case(seed: u64) -> (Vec<usize>, Vec<Pair>) {
        let sizes = vec![2, 3, 1, 2];
        let mut random = PublicStream::new("test", seed);
        let pairs = [[0, 1], [0, 2], [1, 2], [0, 3], [1, 3]];
        let block = |[i, k]: [usize; 2]| ([i, k], Mat::from_fn(sizes[i], sizes[k], |_, _| 0.2 * random.normal()));
        let pairs = pairs.map(block).to_vec();
        (sizes, pairs)
    }

    /// The guess is that of the formula, by an inverse of the others' matrix alone.
    #[test]
    fn guesses_are_those_of_the_formula() {
        for seed in 0..20 {
            let (sizes, pairs) = case(seed);
            let first: Vec<usize> = (0..4).map(|column| sizes[..column].iter().sum()).collect();
            let mut matrix = Mat::<f64>::zeros(8, 8);
            (0..8).for_each(|at| matrix[(at, at)] = 1.0 + RIDGE);
            for ([i, k], block) in &pairs {
                for r in 0..sizes[*i] {
                    for c in 0..sizes[*k] {
                        matrix[(first[*i] + r, first[*k] + c)] = block[(r, c)];
                        matrix[(first[*k] + c, first[*i] + r)] = block[(r, c)];
                    }
                }
            }
            let places = |columns: &[usize]| -> Vec<usize> {
                columns.iter().flat_map(|column| first[*column]..first[*column] + sizes[*column]).collect()
            };
            let part = |rows: &[usize], columns: &[usize]| {
                let (rows, columns) = (places(rows), places(columns));
                Mat::from_fn(rows.len(), columns.len(), |r, c| matrix[(rows[r], columns[c])])
            };
            for (([i, k], _), guess) in pairs.iter().zip(guesses(&sizes, &pairs)) {
                let others: Vec<usize> = (0..4).filter(|column| column != i && column != k).collect();
                let solved = part(&others, &others).partial_piv_lu().solve(part(&others, &[*k]));
                let expected = part(&[*i], &others) * solved;
                assert!((&guess - &expected).norm_max() < 1e-9, "{i} {k}: {guess:?}, not {expected:?}");
            }
        }
    }

    /// The table of a pair has no say in the guess for it.
    #[test]
    fn a_guess_does_not_know_its_own_table() {
        let (sizes, mut pairs) = case(1);
        let before = guesses(&sizes, &pairs);
        pairs[0].1 = Mat::from_fn(2, 3, |r, c| 0.1 * (r as f64 - c as f64));
        let after = guesses(&sizes, &pairs);
        assert!((&before[0] - &after[0]).norm_max() < 1e-12);
        assert!((&before[1] - &after[1]).norm_max() > 1e-3);
    }

    /// Along a chain of columns the guess for its ends is the product of the steps, less for the ridge.
    #[test]
    fn chains_are_completed() {
        let step = |x: f64| Mat::from_fn(1, 1, |_, _| x);
        let pairs = [([0, 1], step(0.6)), ([1, 2], step(0.5)), ([0, 2], step(0.0))];
        let guess = guesses(&[1, 1, 1], &pairs)[2][(0, 0)];
        assert!((guess - 0.3 / (1.0 + RIDGE)).abs() < 1e-12, "{guess}");
    }
}
