//! Dates and times of day of the calendar, in UTC.

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

/// A point in time, the epoch for one that no calendar has.
fn timestamp(time: SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap_or_default()
}

/// What calendar and clock show at a time.
pub(crate) fn utc(time: SystemTime) -> DateTime {
    Offset::UTC.to_datetime(timestamp(time))
}

/// `2026-11-21T12:00:00.000Z`, the default form of `%START_TIME%`.
pub(crate) fn iso(time: SystemTime) -> String {
    format!("{:.3}", timestamp(time))
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
    }
}
