//! From where to where the value of a column goes.

use crate::feature::{STEPS, clipped};

/// Parts of the rows with a number that may lie beyond either end.
const TAILS: [f64; 6] = [0.0, 0.001, 0.003, 0.01, 0.03, 0.1];
/// What noise leaves of its variance in a cell that looks empty.
const EMPTY: f64 = 0.1;
/// A value is worth its noise if no more than this part of the variance of the column's mean is left.
const WORTHWHILE: f64 = 0.9;

/// A cell of numbers, as parts of the way from the column's minimum to its maximum.
pub(super) struct Cell {
    pub low: f64,
    pub high: f64,
    /// Its probability.
    pub mass: f64,
}

/// The interval, in steps, on which a value tells most of the mean beside a histogram: a narrow one has less noise, a wide one
/// leaves less to the histogram. Cells are in order; `deviation` is that of the noise on their probabilities, `uneven` how
/// far the column may be from level within them, and `noise` that on the mean of a feature from -1 to 1. Nothing if the
/// histogram by itself tells about as much.
pub(super) fn interval(cells: &[Cell], deviation: f64, uneven: f64, noise: f64) -> Option<(u32, u32)> {
    let variance = |cell: &Cell| deviation.powi(2) * if cell.mass > deviation { 1.0 } else { EMPTY };
    let variances: Vec<f64> = cells.iter().map(variance).collect();
    let total: f64 = variances.iter().sum();
    let within: Vec<f64> = cells.iter().map(|cell| uneven * cell.mass * cell.mass / 12.0).collect();
    // Errors of the cells are independent but for adding up to nothing. Functions are given by their means over the cells
    // and by what they rise along them.
    let covariance = |f: &[(f64, f64)], g: &[(f64, f64)]| {
        let mean = |f: &[(f64, f64)]| f.iter().zip(&variances).map(|((x, _), v)| x * v).sum::<f64>() / total;
        let cells = f.iter().zip(g).zip(variances.iter().zip(&within));
        let products: f64 = cells.map(|(((x, rise), (y, other)), (v, within))| x * y * v + rise * other * within).sum();
        products - total * mean(f) * mean(g)
    };
    let tabulate = |f: &dyn Fn(f64) -> f64| -> Vec<(f64, f64)> {
        cells.iter().map(|Cell { low, high, .. }| (0.5 * (f(*low) + f(*high)), f(*high) - f(*low))).collect()
    };
    let places = tabulate(&|x| x);
    let before = covariance(&places, &places);
    let mut best = (WORTHWHILE * before, None);
    let known: f64 = cells.iter().map(|cell| cell.mass).sum();
    let ends = |tail: f64| Some((end(cells.iter(), tail * known)?.low, end(cells.iter().rev(), tail * known)?.high));
    for (below, above) in TAILS.iter().flat_map(|below| TAILS.iter().map(move |above| (*below, *above))) {
        let ((low, _), (_, high)) = (ends(below)?, ends(above)?);
        let (low, high) = ((low * f64::from(STEPS)).floor() as u32, (high * f64::from(STEPS)).ceil() as u32);
        if low >= high {
            continue;
        }
        let value = tabulate(&|x| clipped(x, low, high));
        let left = before - covariance(&places, &value).powi(2) / (covariance(&value, &value) + noise * noise);
        if left < best.0 {
            best = (left, Some((low, high)));
        }
    }
    best.1
}

/// The first cell with which more than a part of the rows has been passed.
fn end<'a>(mut cells: impl Iterator<Item = &'a Cell>, tail: f64) -> Option<&'a Cell> {
    let mut passed = 0.0;
    cells.find(|cell| {
        passed += cell.mass;
        tail == 0.0 || passed > tail
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(count: u32, mass: impl Fn(f64) -> f64) -> Vec<Cell> {
        let at = |i: u32| f64::from(i) / f64::from(count);
        let cells: Vec<Cell> = (0..count)
            .map(|i| Cell { low: at(i), high: at(i + 1), mass: mass(at(i) + 0.5 / f64::from(count)) })
            .collect();
        let total: f64 = cells.iter().map(|cell| cell.mass).sum();
        cells.into_iter().map(|cell| Cell { mass: cell.mass / total, ..cell }).collect()
    }

    /// Rows far from the ends of the domain have a narrow interval around them, and rows everywhere most of the domain.
    #[test]
    fn intervals_are_where_the_rows_are() {
        let (low, high) = interval(&cells(32, |_| 1.0), 1e-4, 0.01, 1e-4).unwrap();
        assert!(low < STEPS / 8 && high > STEPS * 7 / 8, "{low} {high}");
        let bell = cells(32, |x| (-(x - 0.5).powi(2) / 0.005).exp());
        let (low, high) = interval(&bell, 1e-3, 0.01, 1e-3).unwrap();
        assert!(low > STEPS / 6 && low < STEPS * 2 / 5 && high < STEPS * 5 / 6 && high > STEPS * 3 / 5, "{low} {high}");
    }

    /// Where rows may be anywhere in their cells, a value that goes all the way tells where they are.
    #[test]
    fn uneven_cells_ask_for_all_of_their_rows() {
        let lumpy = cells(32, |x| {
            if x < 0.4 {
                1.0
            } else if x > 0.97 {
                0.01
            } else {
                0.0
            }
        });
        let (_, even) = interval(&lumpy, 1e-4, 0.0, 4e-4).unwrap();
        let (_, uneven) = interval(&lumpy, 1e-6, 1.0, 2e-6).unwrap();
        assert!(even < STEPS / 2 && uneven == STEPS, "{even} {uneven}");
    }

    /// Two cells tell the mean as well as a value does, and a value with far more noise tells nothing.
    #[test]
    fn values_that_tell_nothing_are_left_out() {
        let two = [Cell { low: 0.0, high: 0.0, mass: 0.7 }, Cell { low: 1.0, high: 1.0, mass: 0.3 }];
        assert!(interval(&two, 1e-3, 0.01, 1e-2).is_none());
        assert!(interval(&cells(32, |_| 1.0), 1e-4, 0.01, 1e-2).is_none());
        assert!(interval(&[], 1e-4, 0.01, 1e-4).is_none());
    }

    /// Numbers that few rows have are told as well as others.
    #[test]
    fn missing_numbers_are_no_tails() {
        let few: Vec<Cell> =
            cells(32, |_| 1.0).into_iter().map(|cell| Cell { mass: 0.02 * cell.mass, ..cell }).collect();
        assert!(interval(&few, 1e-5, 0.01, 1e-5).is_some());
    }
}
