//! Times of the calendar, in UTC.

use std::io::Write as _;
use std::time::SystemTime;

use crate::config::access_log::TimePart;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
/// 1970 began on a Thursday.
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// Writes a time by a format.
pub(super) fn write(out: &mut Vec<u8>, parts: &[TimePart], time: SystemTime) -> Option<()> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (days, rest) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let date = Date::of(days);
    for part in parts {
        let written = match part {
            TimePart::Text(text) => out.write_all(text.as_bytes()),
            TimePart::Year => write!(out, "{:04}", date.year),
            TimePart::Month => write!(out, "{:02}", date.month),
            TimePart::MonthName => out.write_all(MONTHS[(date.month as usize - 1) % 12].as_bytes()),
            TimePart::Day => write!(out, "{:02}", date.day),
            TimePart::DaySpaced => write!(out, "{:2}", date.day),
            TimePart::DayOfYear => write!(out, "{:03}", date.day_of_year),
            TimePart::Weekday => out.write_all(WEEKDAYS[days as usize % 7].as_bytes()),
            TimePart::Hour => write!(out, "{:02}", rest / 3600),
            TimePart::Minute => write!(out, "{:02}", rest / 60 % 60),
            TimePart::Second => write!(out, "{:02}", rest % 60),
            TimePart::Epoch => write!(out, "{}", since.as_secs()),
            TimePart::Fraction(digits) => {
                let fraction = since.subsec_nanos() / 10u32.pow(9 - (*digits).min(9));
                write!(out, "{fraction:0width$}", width = *digits as usize)
            }
        };
        // Writing to memory can't fail.
        written.ok()?;
    }
    Some(())
}

struct Date {
    year: i64,
    month: i64,
    day: i64,
    day_of_year: i64,
}

impl Date {
    /// By the era method: years start in March, eras have 400 years.
    fn of(days: u64) -> Self {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64, nanos: u32, parts: &[TimePart]) -> String {
        let mut out = Vec::new();
        write(&mut out, parts, SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn times_are_written_in_utc() {
        use TimePart::{
            Day, DayOfYear, DaySpaced, Epoch, Fraction, Hour, Minute, Month, MonthName, Second, Weekday, Year,
        };
        let comma = || TimePart::Text(",".into());
        let date = [Year, comma(), Month, comma(), Day, comma(), DayOfYear, comma(), Weekday];
        assert_eq!(at(0, 0, &date), "1970,01,01,001,Thu");
        assert_eq!(at(951_827_696, 0, &date), "2000,02,29,060,Tue");
        assert_eq!(at(951_914_096, 0, &date), "2000,03,01,061,Wed");
        assert_eq!(at(1_798_761_599, 0, &date), "2026,12,31,365,Thu");
        let time = [
            Hour,
            comma(),
            Minute,
            comma(),
            Second,
            comma(),
            Fraction(3),
            comma(),
            Fraction(9),
        ];
        assert_eq!(at(951_827_696, 7_654_321, &time), "12,34,56,007,007654321");
        assert_eq!(
            at(86_400 * 31, 0, &[DaySpaced, comma(), MonthName, comma(), Epoch]),
            " 1,Feb,2678400"
        );
    }
}
