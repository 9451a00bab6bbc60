//! Answers as aligned text.

use m2m::schema::Kind;
use m2m::sql::{Cell, ColumnKind, Table};
use m2m::{Estimate, Schema};

use crate::console;

/// Prints an answer.
pub fn print(table: &Table) {
    for line in lines(table) {
        console::show!("{line}");
    }
}

/// An answer as lines of text: numbers to the right, errors behind `±`, and `*` where a cell should not be leaned on.
pub fn lines(table: &Table) -> Vec<String> {
    let columns: Vec<Vec<String>> = (0..table.columns.len()).map(|column| column_lines(table, column)).collect();
    let count = table.rows.len() + 1;
    let line = |at: usize| columns.iter().map(|column| column[at].as_str()).collect::<Vec<_>>().join("  ");
    (0..count).map(|at| line(at).trim_end().to_owned()).collect()
}

/// The header and the cells of a column, all of one width.
fn column_lines(table: &Table, column: usize) -> Vec<String> {
    let kind = table.kinds[column];
    let cells: Vec<(String, String)> = table.rows.iter().map(|row| parts(&row[column], kind)).collect();
    let header = clean(&table.columns[column]);
    let words = table.rows.iter().any(|row| matches!(row[column], Cell::Text(_) | Cell::Boolean(_)));
    let widest = |part: fn(&(String, String)) -> &String| cells.iter().map(|cell| width(part(cell))).max().unwrap_or(0);
    let (left, right) = (widest(|cell| &cell.0), widest(|cell| &cell.1));
    let whole = width(&header).max(left + right);
    let mut lines = vec![if words { pad_right(&header, whole) } else { pad_left(&header, whole) }];
    for (value, error) in &cells {
        lines.push(match words {
            true => pad_right(value, whole),
            false => pad_left(&format!("{}{}", pad_left(value, left), pad_right(error, right)), whole),
        });
    }
    lines
}

/// What stands before and behind the place at which numbers are aligned.
fn parts(cell: &Cell, kind: ColumnKind) -> (String, String) {
    match cell {
        Cell::Null => ("NULL".into(), String::new()),
        Cell::Text(text) => (clean(text), String::new()),
        Cell::Boolean(truth) => (truth.to_string(), String::new()),
        Cell::Number(x) => (kind.show(*x).unwrap_or_else(|| plain(*x)), String::new()),
        Cell::Estimate(estimate) => {
            let (value, error) = estimate_parts(estimate, kind);
            let mark = if estimate.caution.is_some() { "*" } else { "" };
            (value, format!(" ± {error}{mark}"))
        }
    }
}

/// A value and its error, in as many digits as the error leaves.
pub fn estimate_parts(estimate: &Estimate, kind: ColumnKind) -> (String, String) {
    let error = estimate.std_error;
    match (kind.show(estimate.value), kind) {
        (Some(day), ColumnKind::Date) => (day, format!("{} days", rounded(error, error))),
        (Some(moment), _) => {
            let (unit, name) = [(86400.0, "days"), (3600.0, "h"), (1.0, "s")]
                .into_iter()
                .find(|(unit, _)| error >= 2.0 * unit)
                .unwrap_or((1.0, "s"));
            (moment, format!("{} {name}", rounded(error / unit, error / unit)))
        }
        (None, _) => (rounded(estimate.value, error), rounded(error, error)),
    }
}

/// Prints rows under a header: the first column to the left, the others to the right.
pub fn grid(header: &[String], rows: &[Vec<String>]) {
    let lines = || std::iter::once(header).chain(rows.iter().map(Vec::as_slice));
    let widest = |at: usize| lines().map(|row| width(&row[at])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..header.len()).map(widest).collect();
    for row in lines() {
        let mut line = pad_right(&clean(&row[0]), widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            line += &format!("  {}", pad_left(&clean(cell), *width));
        }
        console::show!("{}", line.trim_end());
    }
}

/// A name as a field of a CSV file.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// An estimate as `value ± error`, with a star where it should not be leaned on.
pub fn estimate(estimate: &Estimate, kind: ColumnKind) -> String {
    let (value, error) = estimate_parts(estimate, kind);
    format!("{value} ± {error}{}", if estimate.caution.is_some() { "*" } else { "" })
}

/// Estimates as `value ± error` with the signs below each other.
pub fn estimates(estimates: &[Estimate], kind: ColumnKind) -> Vec<String> {
    let parts: Vec<(String, String)> =
        estimates.iter().map(|estimate| parts(&Cell::Estimate(*estimate), kind)).collect();
    let widest = parts.iter().map(|(_, error)| width(error)).max().unwrap_or(0);
    parts.iter().map(|(value, error)| format!("{value}{}", pad_right(error, widest))).collect()
}

/// Named values as bars of text: solid up to the lower end of the interval, shaded up to the upper one.
pub fn bars(values: &[(String, Estimate)]) -> Vec<String> {
    const LENGTH: f64 = 44.0;
    let names = values.iter().map(|(name, _)| width(name)).max().unwrap_or(0).min(30);
    let numbers = estimates(&values.iter().map(|(_, value)| *value).collect::<Vec<_>>(), ColumnKind::Plain);
    let wide = numbers.iter().map(|number| width(number)).max().unwrap_or(0);
    let largest = values.iter().map(|(_, value)| value.value).fold(0.0, f64::max);
    let most = values.iter().map(|(_, value)| value.high.min(2.0 * largest)).fold(largest, f64::max).max(1e-300);
    let cells = |x: f64| (LENGTH * x / most).round().clamp(0.0, LENGTH) as usize;
    let line = |((name, value), number): (&(String, Estimate), &String)| {
        let (sure, perhaps) = (cells(value.low), cells(value.high.min(most)));
        let bar = "█".repeat(sure) + &"▒".repeat(perhaps.saturating_sub(sure));
        let name: String = clean(name).chars().take(names).collect();
        format!("{}  {}  {bar}", pad_left(&name, names), pad_left(number, wide)).trim_end().to_owned()
    };
    values.iter().zip(&numbers).map(line).collect()
}

/// A part of 1 to three places.
pub fn fixed(x: f64) -> String {
    unsigned_zero(format!("{x:.3}"))
}

/// A number to four significant digits; a dash where there is none.
pub fn number(x: f64) -> String {
    if !x.is_finite() {
        return "-".into();
    }
    if x == 0.0 {
        return "0".into();
    }
    let size = x.abs().log10().floor() as i32;
    match size {
        -4..=6 => format!("{x:.*}", (3 - size).clamp(0, 7) as usize),
        _ => format!("{x:.3e}"),
    }
}

/// A value of a column: dates as dates, the rest as numbers.
pub fn value(schema: &Schema, column: &str, x: f64) -> String {
    match schema.position(column).map(|at| &schema.columns()[at].kind) {
        Some(kind @ (Kind::Date(_) | Kind::Datetime(_))) => kind.show(x.round()),
        _ => number(x),
    }
}

/// A number to the second significant digit of its error.
fn rounded(x: f64, error: f64) -> String {
    if !(error > 0.0 && error.is_finite()) {
        return plain(x);
    }
    // Rounding may carry the error to the next power of ten: 0.0996 is 0.10.
    let leading = format!("{error:.1e}");
    let place = leading.split_once('e').and_then(|(_, power)| power.parse::<i32>().ok()).unwrap_or(0) - 1;
    if !(-9..=15).contains(&place) || x.abs() >= 1e18 {
        return format!("{x:.3e}");
    }
    let to = |place: i32| {
        let scale = 10f64.powi(place);
        (x / scale).round() * scale
    };
    let x = match place {
        ..=0 => x,
        // Its own first digit says more than a zero, however large the error.
        1.. if x.abs() >= 1.0 && to(place) == 0.0 => to(x.abs().log10().floor() as i32),
        1.. => to(place),
    };
    unsigned_zero(format!("{x:.*}", (-place).max(0) as usize))
}

fn unsigned_zero(text: String) -> String {
    let zero = text.chars().all(|c| matches!(c, '-' | '0' | '.'));
    if zero { text.trim_start_matches('-').into() } else { text }
}

/// A number without an error, to at most 12 significant digits.
pub fn plain(x: f64) -> String {
    if x != 0.0 && !(1e-5..1e15).contains(&x.abs()) {
        return format!("{x:.6e}");
    }
    format!("{x:.11e}").parse::<f64>().unwrap_or(x).to_string()
}

/// A text without what could move the cursor.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn width(text: &str) -> usize {
    text.chars().count()
}

fn pad_left(text: &str, to: usize) -> String {
    " ".repeat(to.saturating_sub(width(text))) + text
}

fn pad_right(text: &str, to: usize) -> String {
    text.to_owned() + &" ".repeat(to.saturating_sub(width(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use m2m::estimate::{Caution, Parts};

    fn estimate(value: f64, error: f64) -> Estimate {
        Estimate::new(value, Parts { privacy: error, ..Parts::default() })
    }

    #[test]
    fn values_have_the_digits_of_their_errors() {
        for (value, error, expected) in [
            (48842.3, 12.34, "48842 ± 12"),
            (48842.3, 1234.0, "48800 ± 1200"),
            (38.6421, 0.0996, "38.64 ± 0.10"),
            (38.6421, 9.96, "39 ± 10"),
            (0.25, 0.0, "0.25 ± 0"),
            (-0.001, 0.5, "0.00 ± 0.50"),
            (38.5, 1709.0, "40 ± 1700"),
            (-0.2, 1709.0, "0 ± 1700"),
            (1e-9, 2e-11, "1.000e-9 ± 2.000e-11"),
            (3.0, f64::INFINITY, "3 ± inf"),
        ] {
            let (value, error) = estimate_parts(&estimate(value, error), ColumnKind::Plain);
            assert_eq!(format!("{value} ± {error}"), expected);
        }
        let (day, error) = estimate_parts(&estimate(0.4, 12.3), ColumnKind::Date);
        assert_eq!((day.as_str(), error.as_str()), ("1970-01-01", "12 days"));
        let (moment, error) = estimate_parts(&estimate(60.0, 7300.0), ColumnKind::Datetime);
        assert_eq!((moment.as_str(), error.as_str()), ("1970-01-01T00:01:00Z", "2.0 h"));
    }

    #[test]
    fn columns_are_aligned() {
        let table = Table {
            columns: vec!["sex".into(), "n".into(), "average".into()],
            kinds: vec![ColumnKind::Plain; 3],
            estimated: vec![false, true, true],
            rows: vec![
                vec![Cell::Text("Female".into()), Cell::Estimate(estimate(120.0, 5.5)), Cell::Null],
                vec![
                    Cell::Null,
                    Cell::Estimate(estimate(9.0, 15.0)),
                    Cell::Estimate(estimate(1.5, 0.25).with_caution(Some(Caution::Swamped))),
                ],
            ],
            warnings: vec![],
        };
        assert_eq!(
            lines(&table),
            ["sex               n       average", "Female  120.0 ± 5.5  NULL", "NULL        9 ± 15   1.50 ± 0.25*"]
        );
    }
}
