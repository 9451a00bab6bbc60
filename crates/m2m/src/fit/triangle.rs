//! Symmetric matrices, of which every entry is held once.

use std::borrow::Cow;

use faer::linalg::matmul::triangular::{BlockStructure, matmul};
use faer::{Accum, Mat, MatRef, Par};

use crate::fit::points::dot;
use crate::simd::{Simd, dispatched};

/// The upper triangle of a symmetric matrix, column by column.
#[derive(Clone)]
pub(crate) struct Triangle {
    size: usize,
    numbers: Vec<f64>,
}

impl Triangle {
    pub fn zeros(size: usize) -> Self {
        Self { size, numbers: vec![0.0; size * (size + 1) / 2] }
    }

    /// `entry` is asked for places of the upper triangle only.
    pub fn from_fn(size: usize, entry: impl Fn(usize, usize) -> f64) -> Self {
        let mut numbers = Vec::with_capacity(size * (size + 1) / 2);
        (0..size).for_each(|j| numbers.extend((0..=j).map(|i| entry(i, j))));
        Self { size, numbers }
    }

    pub fn size(&self) -> usize {
        self.size
    }

    /// A column down to the diagonal.
    pub fn column_mut(&mut self, column: usize) -> &mut [f64] {
        &mut self.numbers[column * (column + 1) / 2..][..=column]
    }

    pub fn at(&mut self, i: usize, j: usize) -> &mut f64 {
        &mut self.column_mut(i.max(j))[i.min(j)]
    }

    /// The rows and columns that are chosen.
    pub fn pick(&self, chosen: &[usize]) -> Cow<'_, Self> {
        if chosen.len() == self.size {
            return Cow::Borrowed(self);
        }
        let at = |i: usize, j: usize| self.numbers[j * (j + 1) / 2 + i];
        Cow::Owned(Self::from_fn(chosen.len(), |i, j| {
            let (i, j) = (chosen[i], chosen[j]);
            at(i.min(j), i.max(j))
        }))
    }

    pub fn add(&mut self, times: f64, other: &Self) {
        self.add_all([(times, other)]);
    }

    /// Adds multiples of others, piece by piece, so that the sum stays in the nearest cache.
    pub fn add_all<'a>(&mut self, others: impl IntoIterator<Item = (f64, &'a Self)>) {
        const PIECE: usize = 2048;
        let others: Vec<(f64, &Self)> = others.into_iter().collect();
        let simd = Simd::detect();
        for (at, sums) in self.numbers.chunks_mut(PIECE).enumerate() {
            for (times, other) in &others {
                add_multiple(simd, sums, *times, &other.numbers[at * PIECE..]);
            }
        }
    }

    /// Adds a multiple of v vᵀ.
    pub fn add_outer(&mut self, times: f64, v: &[f64]) {
        for j in 0..self.size {
            let scale = times * v[j];
            self.column_mut(j).iter_mut().zip(v).for_each(|(sum, x)| *sum += scale * x);
        }
    }

    /// Adds the sum of v vᵀ over some vectors.
    pub fn add_squares(&mut self, vectors: &[Vec<f64>]) {
        let all = vectors.concat();
        let all = MatRef::from_column_major_slice(&all, self.size, vectors.len());
        let mut product = Mat::zeros(self.size, self.size);
        lower_product(&mut product, all, all.transpose());
        for j in 0..self.size {
            self.column_mut(j).iter_mut().enumerate().for_each(|(i, sum)| *sum += product[(j, i)]);
        }
    }

    /// The sum of the products of all entries: the trace of the product.
    pub fn inner(&self, other: &Self) -> f64 {
        let diagonal: f64 =
            (0..self.size).map(|j| j * (j + 3) / 2).map(|at| self.numbers[at] * other.numbers[at]).sum();
        2.0 * wide_dot(Simd::detect(), &self.numbers, &other.numbers) - diagonal
    }

    /// As a matrix whose lower triangle is filled.
    pub fn lower(&self) -> Mat<f64> {
        let mut matrix = Mat::zeros(self.size, self.size);
        for j in 0..self.size {
            let column = &self.numbers[j * (j + 1) / 2..][..=j];
            column.iter().enumerate().for_each(|(i, x)| matrix[(j, i)] = *x);
        }
        matrix
    }
}

dispatched! {
    fn wide_dot(a: &[f64], b: &[f64]) -> f64 = dot
}

dispatched! {
    fn add_multiple(sums: &mut [f64], times: f64, numbers: &[f64]) = add_multiple_loop
}

#[inline(always)]
fn add_multiple_loop(sums: &mut [f64], times: f64, numbers: &[f64]) {
    sums.iter_mut().zip(numbers).for_each(|(sum, x)| *sum += times * x);
}

/// Adds the lower triangle of a product.
pub(crate) fn lower_product(sum: &mut Mat<f64>, left: MatRef<'_, f64>, right: MatRef<'_, f64>) {
    matmul(
        sum.as_mut(),
        BlockStructure::TriangularLower,
        Accum::Add,
        left,
        BlockStructure::Rectangular,
        right,
        BlockStructure::Rectangular,
        1.0,
        Par::Seq,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the same operations on whole matrices.
    #[test]
    fn half_of_a_symmetric_matrix_is_all_of_it() {
        let entry = |i: usize, j: usize| (1 + i * j) as f64 / (2 + i + j) as f64;
        let size = 23;
        let (whole, half) = (Mat::from_fn(size, size, entry), Triangle::from_fn(size, entry));
        let v: Vec<f64> = (0..size).map(|i| 0.3 - i as f64 / 7.0).collect();
        let w: Vec<f64> = v.iter().map(|x| x * x).collect();
        let outer = Mat::from_fn(size, size, |i, j| v[i] * v[j]);
        let mut sum = half.clone();
        sum.add_outer(2.0, &v);
        sum.add(-0.5, &half);
        sum.add_squares(&[v.clone(), w.clone()]);
        let expected = Mat::from_fn(size, size, |i, j| 0.5 * whole[(i, j)] + 3.0 * outer[(i, j)] + w[i] * w[j]);
        let lower = sum.lower();
        let chosen = [1, 2, 5, 22];
        let picked = sum.pick(&chosen).lower();
        let mut inner = 0.0;
        for i in 0..size {
            for j in 0..size {
                inner += expected[(i, j)] * whole[(i, j)];
                let found = if i >= j { lower[(i, j)] } else { *sum.at(i, j) };
                assert!((found - expected[(i, j)]).abs() < 1e-9 * expected[(i, j)].abs().max(1.0));
            }
        }
        assert_eq!(picked[(3, 1)], lower[(22, 2)]);
        assert!((sum.inner(&half) - inner).abs() < 1e-9 * inner.abs());
    }
}
