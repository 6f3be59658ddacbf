//! Times of the calendar, in UTC.

use std::time::SystemTime;

use crate::access_log::digits::{number, padded};
use crate::calendar::Date;
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
        match part {
            TimePart::Text(text) => out.extend_from_slice(text.as_bytes()),
            TimePart::Year => padded(out, date.year.unsigned_abs(), 4, b'0'),
            TimePart::Month => two(out, date.month.unsigned_abs()),
            TimePart::MonthName => out.extend_from_slice(MONTHS[(date.month as usize - 1) % 12].as_bytes()),
            TimePart::Day => two(out, date.day.unsigned_abs()),
            TimePart::DaySpaced => padded(out, date.day.unsigned_abs(), 2, b' '),
            TimePart::DayOfYear => padded(out, date.day_of_year.unsigned_abs(), 3, b'0'),
            TimePart::Weekday => out.extend_from_slice(WEEKDAYS[days as usize % 7].as_bytes()),
            TimePart::Hour => two(out, rest / 3600),
            TimePart::Minute => two(out, rest / 60 % 60),
            TimePart::Second => two(out, rest % 60),
            TimePart::Epoch => number(out, since.as_secs()),
            TimePart::Fraction(digits) => {
                let fraction = since.subsec_nanos() / 10u32.pow(9 - (*digits).min(9));
                padded(out, fraction.into(), *digits as usize, b'0');
            }
        }
    }
    Some(())
}

/// Writes a number below a hundred with both its digits.
fn two(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&[b'0' + (number / 10 % 10) as u8, b'0' + (number % 10) as u8]);
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
