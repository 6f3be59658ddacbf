//! Dates of the calendar, in UTC.

use std::time::SystemTime;

/// A day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date {
    /// Year.
    pub(crate) year: i64,
    /// 1 to 12.
    pub(crate) month: i64,
    /// 1 to 31.
    pub(crate) day: i64,
    /// 1 to 366.
    pub(crate) day_of_year: i64,
}

impl Date {
    /// The date so many days after the first of January 1970, by the era method: years start in March, eras have 400
    /// years.
    pub(crate) fn of(days: u64) -> Self {
        let shifted = days as i64 + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let from_march = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_index = (5 * from_march + 2) / 153;
        let day = from_march - (153 * month_index + 2) / 5 + 1;
        let month = if month_index < 10 {
            month_index + 3
        } else {
            month_index - 9
        };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let leaps = i64::from(year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
        let day_of_year = if month > 2 {
            from_march + 60 + leaps
        } else {
            from_march - 305
        };
        Self {
            year,
            month,
            day,
            day_of_year,
        }
    }
}

/// `2026-11-21T12:00:00.000Z`, the default form of `%START_TIME%`.
pub(crate) fn iso(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (days, rest) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let Date { year, month, day, .. } = Date::of(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
        since.subsec_millis()
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        let at = |seconds| iso(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_827_696), "2000-02-29T12:34:56.000Z");
        assert_eq!(at(1_798_761_599), "2026-12-31T23:59:59.000Z");
    }
}
