//! ISO dates and moments as numbers: days and seconds from 1970-01-01.

use jiff::civil::{Date, DateTime};
use jiff::{SignedDuration, Timestamp};

const EPOCH: Date = Date::constant(1970, 1, 1);

/// Days from 1970-01-01 of `2020-01-31`; a time of day behind it is dropped.
pub fn parse_date(text: &str) -> Option<f64> {
    let date: Date = text.parse().ok()?;
    Some(f64::from(EPOCH.until(date).ok()?.get_days()))
}

/// Seconds from 1970-01-01T00:00:00Z of `2020-01-31T12:00:00Z`. Without an offset the moment is read as UTC.
pub fn parse_datetime(text: &str) -> Option<f64> {
    let since = match text.parse::<Timestamp>() {
        Ok(moment) => moment.as_duration(),
        Err(_) => text.parse::<DateTime>().ok()?.duration_since(DateTime::from(EPOCH)),
    };
    Some(since.as_secs_f64())
}

/// The ISO text of a number of days.
pub fn show_date(days: f64) -> String {
    match EPOCH.checked_add(SignedDuration::from_hours(24 * days as i64)) {
        Ok(date) => date.to_string(),
        Err(_) => format!("{days} days"),
    }
}

/// The ISO text of a number of seconds.
pub fn show_datetime(seconds: f64) -> String {
    match SignedDuration::try_from_secs_f64(seconds).ok().and_then(|d| Timestamp::from_duration(d).ok()) {
        Some(moment) => moment.to_string(),
        None => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_count_from_1970() {
        assert_eq!(parse_date("1970-01-01"), Some(0.0));
        assert_eq!(parse_date("2000-03-01"), Some(11017.0));
        assert_eq!(parse_date("1969-12-31"), Some(-1.0));
        assert_eq!(parse_date("2020-02-30"), None);
        assert_eq!(show_date(11017.0), "2000-03-01");
        assert_eq!(parse_datetime("1970-01-02T00:00:00Z"), Some(86400.0));
        assert_eq!(parse_datetime("1970-01-02T01:00:00+01:00"), Some(86400.0));
        assert_eq!(parse_datetime("1970-01-01 00:00:01.5"), Some(1.5));
        assert_eq!(parse_datetime("1970-01-02"), Some(86400.0));
        assert_eq!(parse_datetime("yesterday"), None);
        assert_eq!(show_datetime(86400.0), "1970-01-02T00:00:00Z");
    }
}
