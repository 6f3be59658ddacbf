//! Times by a format, in UTC.

use std::time::SystemTime;

use crate::access_log::digits::{number, padded};
use crate::calendar::utc;
use crate::config::access_log::TimePart;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/// Writes a time by a format.
pub(super) fn write(out: &mut Vec<u8>, parts: &[TimePart], time: SystemTime) {
    let at = utc(time);
    for part in parts {
        match part {
            TimePart::Text(text) => out.extend_from_slice(text.as_bytes()),
            TimePart::Year => padded(out, at.year().unsigned_abs().into(), 4, b'0'),
            TimePart::Month => two(out, at.month()),
            TimePart::MonthName => name(out, &MONTHS, at.month() - 1),
            TimePart::Day => two(out, at.day()),
            TimePart::DaySpaced => padded(out, at.day().unsigned_abs().into(), 2, b' '),
            TimePart::DayOfYear => padded(out, at.day_of_year().unsigned_abs().into(), 3, b'0'),
            TimePart::Weekday => name(out, &WEEKDAYS, at.weekday().to_sunday_zero_offset()),
            TimePart::Hour => two(out, at.hour()),
            TimePart::Minute => two(out, at.minute()),
            TimePart::Second => two(out, at.second()),
            TimePart::Epoch => {
                let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                number(out, since.as_secs());
            }
            TimePart::Fraction(digits) => {
                let fraction = at.subsec_nanosecond().unsigned_abs() / 10u32.pow(9 - (*digits).min(9));
                padded(out, fraction.into(), *digits as usize, b'0');
            }
        }
    }
}

fn name(out: &mut Vec<u8>, names: &[&str], place: i8) {
    let name = usize::try_from(place).ok().and_then(|place| names.get(place));
    out.extend_from_slice(name.copied().unwrap_or_default().as_bytes());
}

/// Writes a number below a hundred with both its digits.
fn two(out: &mut Vec<u8>, number: i8) {
    let number = number.unsigned_abs();
    out.extend_from_slice(&[b'0' + number / 10 % 10, b'0' + number % 10]);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64, nanos: u32, parts: &[TimePart]) -> String {
        let mut out = Vec::new();
        write(&mut out, parts, SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos));
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
        assert_eq!(at(253_402_300_799, 0, &date), "9999,12,31,365,Fri");
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
