//! At most so many rows of each user, whatever their order.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use crate::panel::Row;

/// The SHA-256 of a user's identifier.
pub(crate) type UserId = [u8; 32];

/// Keeps of each user the `max_rows` rows whose contents have the smallest hashes.
///
/// # Privacy
/// Which rows are kept is a function of that user's rows alone: adding or removing a user changes the sums by that
/// user's kept rows and nothing else. It does not depend on order, threads or files either. Rows with equal hashes
/// are equal.
pub(crate) struct Bounder {
    max_rows: usize,
    users: HashMap<UserId, Vec<(u128, Row)>>,
}

impl Bounder {
    pub fn new(max_rows: usize) -> Self {
        Self { max_rows, users: HashMap::new() }
    }

    pub fn offer(&mut self, user: UserId, row: Row) {
        let key = key(&row);
        let kept = self.users.entry(user).or_default();
        insert(kept, key, row, self.max_rows);
    }

    pub fn absorb(&mut self, other: Self) {
        for (user, rows) in other.users {
            let kept = self.users.entry(user).or_default();
            for (key, row) in rows {
                insert(kept, key, row, self.max_rows);
            }
        }
    }

    pub fn into_rows(self) -> impl Iterator<Item = (UserId, impl Iterator<Item = Row>)> {
        self.users.into_iter().map(|(user, rows)| (user, rows.into_iter().map(|(_, row)| row)))
    }
}

/// `kept` stays sorted by key.
fn insert(kept: &mut Vec<(u128, Row)>, key: u128, row: Row, max_rows: usize) {
    let at = kept.partition_point(|(other, _)| *other <= key);
    if at < max_rows {
        kept.insert(at, (key, row));
        kept.truncate(max_rows);
    }
}

fn key(row: &Row) -> u128 {
    let mut hash = Sha256::new();
    for unit in &row.units {
        // All NaNs mean "missing", whatever their bits.
        let unit = if unit.is_nan() { f64::NAN } else { *unit };
        hash.update(unit.to_bits().to_le_bytes());
    }
    for code in &row.codes {
        hash.update(code.to_le_bytes());
    }
    let mut first = [0; 16];
    first.copy_from_slice(&hash.finalize()[..16]);
    u128::from_le_bytes(first)
}
