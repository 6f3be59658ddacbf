//! Dates and times of day of the calendar, in UTC.

use std::time::SystemTime;

use jiff::civil::{DateTime, date};
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

/// The beginning of all times here.
const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

/// What calendar and clock show at a time.
pub(crate) fn utc(time: SystemTime) -> DateTime {
    match Timestamp::try_from(time) {
        Ok(timestamp) => Offset::UTC.to_datetime(timestamp),
        // A timestamp ends a day before the calendar, and so before certificates that never expire (RFC 5280 §4.1.2.5).
        Err(_) => {
            let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            EPOCH.saturating_add(SignedDuration::try_from(since).unwrap_or(SignedDuration::MAX))
        }
    }
}

/// `2026-11-21T12:00:00.000Z`, the default form of `%START_TIME%`.
pub(crate) fn iso(time: SystemTime) -> String {
    format!("{:.3}Z", utc(time))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        let at = |seconds, nanos| iso(SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos));
        assert_eq!(at(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_827_696, 999_999_999), "2000-02-29T12:34:56.999Z");
        assert_eq!(at(1_798_761_599, 7_000_000), "2026-12-31T23:59:59.007Z");
        assert_eq!(at(253_402_300_799, 0), "9999-12-31T23:59:59.000Z", "never");
    }
}
