//! Points in time and durations: reading them, and their parts.

use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};

use crate::expression::value::Value;
use crate::expression::{Failed, TimePart};

/// Units of durations, the longer names first.
const UNITS: [(&str, f64); 7] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3_600e9),
];

/// Reads a duration such as `1h30m` or `-1.5s`.
pub(super) fn duration(text: &str) -> Result<SignedDuration, Failed> {
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if rest.is_empty() {
        return Err(Failed);
    }
    let mut nanos = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|char: char| !char.is_ascii_digit() && char != '.');
        let (digits, behind) = rest.split_at(end.ok_or(Failed)?);
        let number: f64 = digits.parse().map_err(|_| Failed)?;
        let unit = UNITS.iter().find(|(name, _)| behind.starts_with(name)).ok_or(Failed)?;
        nanos += number * unit.1;
        rest = &behind[unit.0.len()..];
    }
    let nanos = if is_negative { -nanos } else { nanos };
    SignedDuration::try_from_secs_f64(nanos / 1e9).map_err(|_| Failed)
}

/// Reads a point in time as RFC 3339 has it.
pub(super) fn timestamp(text: &str) -> Result<Timestamp, Failed> {
    text.parse().map_err(|_| Failed)
}

/// A part of a point in time or of a duration.
pub(super) fn part(part: TimePart, value: &Value<'_>) -> Result<i64, Failed> {
    match value {
        Value::Timestamp(at) => Ok(of_date(part, Offset::UTC.to_datetime(*at))),
        Value::Duration(duration) => match part {
            TimePart::Hours => Ok(duration.as_secs() / 3600),
            TimePart::Minutes => Ok(duration.as_secs() / 60),
            TimePart::Seconds => Ok(duration.as_secs()),
            TimePart::Milliseconds => Ok(i64::from(duration.subsec_millis())),
            _ => Err(Failed),
        },
        _ => Err(Failed),
    }
}

fn of_date(part: TimePart, date: DateTime) -> i64 {
    match part {
        TimePart::Date => date.day().into(),
        TimePart::DayOfMonth => i64::from(date.day()) - 1,
        TimePart::DayOfWeek => date.weekday().to_sunday_zero_offset().into(),
        TimePart::DayOfYear => i64::from(date.day_of_year()) - 1,
        TimePart::FullYear => date.year().into(),
        TimePart::Month => i64::from(date.month()) - 1,
        TimePart::Hours => date.hour().into(),
        TimePart::Minutes => date.minute().into(),
        TimePart::Seconds => date.second().into(),
        TimePart::Milliseconds => date.millisecond().into(),
    }
}
