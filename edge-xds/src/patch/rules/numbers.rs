//! Numbers and durations.

use super::Judged;
use envoy_types::pb::{google::protobuf::Duration, validate::DurationRules};
use prost_reflect::{DynamicMessage, Value};
use std::fmt;

/// Where a number may lie.
pub(super) struct Range<T> {
    pub(super) equal: Option<T>,
    pub(super) below: Option<T>,
    pub(super) at_most: Option<T>,
    pub(super) above: Option<T>,
    pub(super) at_least: Option<T>,
    pub(super) among: Vec<T>,
    pub(super) not_among: Vec<T>,
    /// Zero, which is not to be told from nothing, is taken.
    pub(super) takes_zero: bool,
}

/// The range of a rule for numbers; each type of them has its own type of rules, with the same fields.
macro_rules! range {
    ($rules:expr) => {
        $crate::patch::rules::numbers::Range {
            equal: $rules.r#const,
            below: $rules.lt,
            at_most: $rules.lte,
            above: $rules.gt,
            at_least: $rules.gte,
            among: $rules.r#in.clone(),
            not_among: $rules.not_in.clone(),
            takes_zero: $rules.ignore_empty(),
        }
    };
}
pub(super) use range;

impl<T: PartialOrd + fmt::Display + Copy + Default> Range<T> {
    pub(super) fn judge(&self, value: T) -> Judged {
        let is_low = self.above.is_some_and(|bound| value <= bound) || self.at_least.is_some_and(|bound| value < bound);
        let is_high = self.below.is_some_and(|bound| value >= bound) || self.at_most.is_some_and(|bound| value > bound);
        let is_outside = match self.is_gap() {
            true => is_low && is_high,
            false => is_low || is_high,
        };
        let is_wrong = is_outside
            || self.equal.is_some_and(|wanted| wanted != value)
            || (!self.among.is_empty() && !self.among.contains(&value))
            || self.not_among.contains(&value);
        match is_wrong && !(self.takes_zero && value == T::default()) {
            true => Err(self.expected()),
            false => Ok(()),
        }
    }

    /// Whether what lies between the bounds is what is refused, and not what is taken.
    fn is_gap(&self) -> bool {
        let (low, high) = (self.above.or(self.at_least), self.below.or(self.at_most));
        low.zip(high).is_some_and(|(low, high)| high < low)
    }

    fn expected(&self) -> String {
        let one = |name: &str, bound: Option<T>| bound.map(|bound| format!("{name} {bound}"));
        let all = |name: &str, values: &[T]| {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            (!values.is_empty()).then(|| format!("{name} {}", values.join(", ")))
        };
        let parts = [
            one("equal to", self.equal),
            one("greater than", self.above),
            one("at least", self.at_least),
            one("less than", self.below),
            one("at most", self.at_most),
            all("one of", &self.among),
            all("other than", &self.not_among),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        format!("must be {}", parts.join(if self.is_gap() { " or " } else { " and " }))
    }
}

/// A duration as a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Nanoseconds(i128);

const SECOND: i128 = 1_000_000_000;

impl Nanoseconds {
    /// That of a message.
    pub(super) fn of(message: &DynamicMessage) -> Self {
        let part = |name: &str| match message.get_field_by_name(name).as_deref() {
            Some(Value::I64(seconds)) => i128::from(*seconds),
            Some(Value::I32(nanos)) => i128::from(*nanos),
            _ => 0,
        };
        Self(part("seconds") * SECOND + part("nanos"))
    }

    fn from(duration: Duration) -> Self {
        Self(i128::from(duration.seconds) * SECOND + i128::from(duration.nanos))
    }
}

impl fmt::Display for Nanoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, rest) = (self.0.abs() / SECOND, self.0.abs() % SECOND);
        let sign = if self.0 < 0 { "-" } else { "" };
        let fraction = format!(".{rest:09}");
        write!(
            f,
            "{sign}{seconds}{}s",
            fraction.trim_end_matches('0').trim_end_matches('.')
        )
    }
}

pub(super) fn duration(value: Nanoseconds, rules: &DurationRules) -> Judged {
    let bound = |bound: &Option<Duration>| bound.map(Nanoseconds::from);
    let list = |list: &[Duration]| list.iter().copied().map(Nanoseconds::from).collect();
    let range = Range {
        equal: bound(&rules.r#const),
        below: bound(&rules.lt),
        at_most: bound(&rules.lte),
        above: bound(&rules.gt),
        at_least: bound(&rules.gte),
        among: list(&rules.r#in),
        not_among: list(&rules.not_in),
        takes_zero: false,
    };
    range.judge(value)
}
