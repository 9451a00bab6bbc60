//! Few tables that hold many pairs of columns.
//!
//! Where noise grows with the number of tables and not with its root, as under pure ε, it can be less to release tables of
//! three columns, of which every one holds three pairs, and to add up the third column: with n tables in the place of
//! all pairs, and k cells of that column, the noise on a pair is n√k instead of the number of pairs. (For ten columns 17
//! tables are enough for 45 pairs; Qardaji, Yang and Li, 2014, choose views of a table in this way.)

use super::Places;
use crate::stream::PublicStream;

/// More columns than this are not searched for tables of three.
pub(super) const MAX_COLUMNS: usize = 64;

/// How often the search is tried, if each takes few steps; and how many steps it may take in all.
const TRIES: usize = 60;
const STEPS: usize = 500_000;
/// By how many pairs a table may seem better than it is, at random, from the second try on: the fewest tables are not always
/// found by taking the best one first.
const JITTER: f64 = 1.2;

/// Tables of two and three columns that hold all of some pairs. Those of three have columns of at most `largest` cells, and
/// no pair that was not asked for.
///
/// Greedy: the table that holds the most pairs which no other does, again and again; and then with some chance in it, which
/// is public and always the same. The fewest tables of all tries are taken, and of these those with the fewest cells.
pub(super) fn cover(pairs: &[Places], sizes: &[usize], largest: usize) -> Vec<Places> {
    let d = sizes.len();
    let place = |i: usize, j: usize| i * d + j;
    let mut asked = vec![false; d * d];
    pairs.iter().for_each(|pair| asked[place(pair[0] as usize, pair[1] as usize)] = true);
    let small: Vec<usize> = (0..d).filter(|column| sizes[*column] <= largest).collect();
    let mut triples = Vec::new();
    for (at, &i) in small.iter().enumerate() {
        for (next, &j) in small.iter().enumerate().skip(at + 1).filter(|(_, j)| asked[place(i, **j)]) {
            let rest = small[next + 1..].iter().filter(|k| asked[place(i, **k)] && asked[place(j, **k)]);
            triples.extend(rest.map(|&k| [i, j, k]));
        }
    }
    let tries = if triples.is_empty() { 1 } else { (STEPS / (triples.len() * pairs.len())).clamp(1, TRIES) };
    let mut stream = PublicStream::new("cover", d as u64);
    let mut attempt = |number: usize| {
        let jitter: Vec<f64> =
            triples.iter().map(|_| if number == 0 { 0.0 } else { JITTER * stream.uniform() }).collect();
        let mut open = asked.clone();
        let mut tables: Vec<Places> = Vec::new();
        loop {
            let mut best = (0.0, [0; 3]);
            for (&[i, j, k], jitter) in triples.iter().zip(&jitter) {
                let within = [place(i, j), place(i, k), place(j, k)];
                let gained = within.iter().filter(|pair| open[**pair]).count();
                if gained > 1 && gained as f64 + jitter > best.0 {
                    best = (gained as f64 + jitter, [i, j, k]);
                }
            }
            let (gained, [i, j, k]) = best;
            if gained == 0.0 {
                break;
            }
            [place(i, j), place(i, k), place(j, k)].iter().for_each(|pair| open[*pair] = false);
            tables.push(vec![i as u32, j as u32, k as u32]);
        }
        tables.extend(pairs.iter().filter(|pair| open[place(pair[0] as usize, pair[1] as usize)]).cloned());
        tables
    };
    let cells = |table: &Places| table.iter().map(|column| sizes[*column as usize]).product::<usize>();
    let size = |tables: &Vec<Places>| (tables.len(), tables.iter().map(cells).sum::<usize>());
    (0..tries).map(&mut attempt).min_by_key(size).expect("at least one try")
}

/// By how much the noise on a pair is more than on a cell of a table, as a geometric mean over some pairs.
pub(super) fn louder(pairs: &[Places], tables: &[Places], sizes: &[usize]) -> f64 {
    let logarithms: f64 = added(pairs, tables, sizes).iter().map(|cells| cells.ln()).sum();
    (0.5 * logarithms / pairs.len() as f64).exp()
}

/// How many cells are added up for each of some pairs: those of the third column, and fewer where several tables tell of it,
/// as their mean has less noise.
fn added(pairs: &[Places], tables: &[Places], sizes: &[usize]) -> Vec<f64> {
    let d = sizes.len();
    let mut precisions = vec![0.0; d * d];
    for table in tables {
        let cells: usize = table.iter().map(|column| sizes[*column as usize]).product();
        for (at, &i) in table.iter().enumerate() {
            for &j in &table[at + 1..] {
                let (i, j) = (i as usize, j as usize);
                precisions[i * d + j] += (sizes[i] * sizes[j]) as f64 / cells as f64;
            }
        }
    }
    pairs.iter().map(|pair| 1.0 / precisions[pair[0] as usize * d + pair[1] as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all_pairs(columns: u32) -> Vec<Places> {
        (0..columns).flat_map(|i| (i + 1..columns).map(move |j| vec![i, j])).collect()
    }

    proptest! {
        /// Whatever the pairs are, each is in a table, and no table has another.
        #[test]
        fn tables_hold_the_pairs_and_no_others(
            sizes in prop::collection::vec(2usize..9, 2..14), keep in any::<u64>(), largest in 0usize..9,
        ) {
            let kept = |(at, _): &(usize, Places)| keep >> (at % 61) & 1 == 1;
            let pairs: Vec<Places> =
                all_pairs(sizes.len() as u32).into_iter().enumerate().filter(kept).map(|(_, pair)| pair).collect();
            let tables = cover(&pairs, &sizes, largest);
            prop_assert!(tables.len() <= pairs.len());
            for pair in &pairs {
                prop_assert!(tables.iter().any(|table| pair.iter().all(|column| table.contains(column))));
            }
            for table in &tables {
                prop_assert!(table.windows(2).all(|pair| pair[0] < pair[1]));
                prop_assert!(table.len() == 2 || table.iter().all(|column| sizes[*column as usize] <= largest));
                for (at, i) in table.iter().enumerate() {
                    prop_assert!(table[at + 1..].iter().all(|j| pairs.contains(&vec![*i, *j])));
                }
            }
            let added = added(&pairs, &tables, &sizes);
            prop_assert!(added.iter().all(|cells| *cells > 0.0 && *cells <= 8.0));
        }
    }

    /// The fewest triples that hold all pairs of 6, 7, 9, 10 and 13 columns are 6, 7, 12, 17 and 26.
    #[test]
    fn covers_are_near_the_smallest() {
        for (columns, fewest) in [(6, 6), (7, 7), (9, 12), (10, 17), (13, 26)] {
            let found = cover(&all_pairs(columns), &vec![3; columns as usize], 3).len();
            assert!(found >= fewest && found <= fewest + 2, "{columns}: {found}, not {fewest}");
        }
    }
}
