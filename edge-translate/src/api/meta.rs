//! Metadata and the references that every kind uses.

use std::sync::Arc;

use edge_ir::Seldom;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::api::Text;
use crate::api::label;
use crate::api::string_map::StringMap;
use crate::api::text::{Symbol, is_default, open_enum, visit_text};

/// What is kept of an object's metadata; `resourceVersion`, `managedFields` and the like are not read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Name.
    #[serde(default)]
    pub name: Arc<str>,
    /// Namespace; empty for kinds without one. Loading fills in `default` where a namespaced object names none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub namespace: Arc<str>,
    /// Labels.
    #[serde(default, skip_serializing_if = "is_default")]
    pub labels: StringMap,
    /// Annotations.
    #[serde(default, skip_serializing_if = "is_default")]
    pub annotations: StringMap,
    /// What tells the object from another that had its name before. Kept only of kinds that own what we make.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uid: Option<Text>,
    /// Counts changes of the spec; 0 for objects that come from files.
    #[serde(default, skip_serializing_if = "is_default")]
    pub generation: i64,
    /// When the object was made; decides between conflicting objects, absent counts as oldest.
    #[serde(default, skip_serializing_if = "is_default")]
    pub creation_timestamp: Option<Timestamp>,
    /// What was written and this version doesn't honour, as sentences; filled in while loading.
    #[serde(skip)]
    pub unsupported: Seldom<Text>,
}

/// A status as it was read. Whoever writes it, it is no wish: two objects that differ in nothing else are equal, so
/// that the echo of our own writing changes nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StatusAsRead(pub Option<Box<Value>>);

impl StatusAsRead {
    /// Whether there is none.
    pub fn is_absent(&self) -> bool {
        self.0.is_none()
    }
}

impl PartialEq for StatusAsRead {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A point in time in whole seconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Reads an RFC 3339 time; fractions of a second are cut off, as the cluster does.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let number = |from: usize, len: usize| -> Option<i64> {
            let digits = text.get(from..from + len)?;
            digits
                .bytes()
                .all(|b| b.is_ascii_digit())
                .then(|| digits.parse().ok())?
        };
        let marks = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
        if bytes.len() < 20
            || marks.iter().any(|(at, mark)| bytes[*at] != *mark)
            || !matches!(bytes[10], b'T' | b't' | b' ')
        {
            return None;
        }
        let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
        let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
        if !(1..=12).contains(&month)
            || !(1..=days_in(year, month)).contains(&day)
            || hour > 23
            || minute > 59
            || second > 60
        {
            return None;
        }
        let mut zone = 19;
        if bytes[zone] == b'.' {
            zone += 1 + bytes[20..].iter().take_while(|b| b.is_ascii_digit()).count();
        }
        let offset = match bytes.get(zone)? {
            b'Z' | b'z' if bytes.len() == zone + 1 => 0,
            sign @ (b'+' | b'-') if bytes.len() == zone + 6 && bytes[zone + 3] == b':' => {
                let seconds = number(zone + 1, 2)? * 3600 + number(zone + 4, 2)? * 60;
                if *sign == b'+' { seconds } else { -seconds }
            }
            _ => return None,
        };
        Some(Self(
            days_since_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset,
        ))
    }
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar, counted in years that begin in March.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (days, rest) = (self.0.div_euclid(86_400) + 719_468, self.0.rem_euclid(86_400));
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let (day, month) = (
            day_of_year - (153 * shifted + 2) / 5 + 1,
            if shifted < 10 { shifted + 3 } else { shifted - 9 },
        );
        let year = era * 400 + year_of_era + i64::from(month <= 2);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
            rest / 3600,
            rest / 60 % 60,
            rest % 60
        )
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        visit_text(deserializer, |text| {
            Self::parse(text).ok_or_else(|| {
                serde::de::Error::custom(format_args!("{text:?} is not a time: write it as 2006-01-02T15:04:05Z"))
            })
        })?
    }
}

/// Chooses objects by their labels; an empty selector chooses all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that must have these values.
    #[serde(default, skip_serializing_if = "is_default")]
    pub match_labels: StringMap,
    /// Further conditions, which must all hold.
    #[serde(default, skip_serializing_if = "is_default")]
    pub match_expressions: Box<[LabelRequirement]>,
}

/// A condition on one label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelRequirement {
    /// Name of the label.
    pub key: Text,
    /// What is asked of it.
    pub operator: LabelOperator,
    /// Values for `In` and `NotIn`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub values: Box<[Text]>,
}

open_enum! {
    /// What is asked of a label.
    pub enum LabelOperator {
        In = "In",
        NotIn = "NotIn",
        Exists = "Exists",
        DoesNotExist = "DoesNotExist",
    }
}

impl LabelSelector {
    /// Whether the labels fulfil every condition; `None` when an operator is unknown.
    pub fn matches(&self, labels: &StringMap) -> Option<bool> {
        let mut all = self
            .match_labels
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value));
        for requirement in &self.match_expressions {
            let value = labels.get(&requirement.key);
            let is_listed = |value: &str| requirement.values.iter().any(|listed| **listed == *value);
            all &= match requirement.operator {
                LabelOperator::In => value.is_some_and(is_listed),
                LabelOperator::NotIn => !value.is_some_and(is_listed),
                LabelOperator::Exists => value.is_some(),
                LabelOperator::DoesNotExist => value.is_none(),
                LabelOperator::Other(_) => return None,
            };
        }
        Some(all)
    }

    /// What keeps the selector from choosing anything, for people.
    pub fn fault(&self) -> Option<String> {
        let mut labels = self.match_labels.iter();
        let of_labels = labels.find_map(|(key, value)| label::name_error(key).or_else(|| label::value_error(value)));
        of_labels.or_else(|| self.match_expressions.iter().find_map(LabelRequirement::fault))
    }
}

impl LabelRequirement {
    fn fault(&self) -> Option<String> {
        let operator = &self.operator;
        match operator {
            LabelOperator::Other(operator) => Some(format!("\"{operator}\" is not a valid label selector operator")),
            LabelOperator::In | LabelOperator::NotIn if self.values.is_empty() => {
                Some(format!("values must not be empty for operator {operator}"))
            }
            LabelOperator::Exists | LabelOperator::DoesNotExist if !self.values.is_empty() => {
                Some(format!("values must be empty for operator {operator}"))
            }
            _ => {
                label::name_error(&self.key).or_else(|| self.values.iter().find_map(|value| label::value_error(value)))
            }
        }
    }
}

/// What a route attaches to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentReference {
    /// API group.
    #[serde(default = "gateway_group")]
    pub group: Symbol,
    /// Kind.
    #[serde(default = "gateway_kind")]
    pub kind: Symbol,
    /// Namespace; absent means the route's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub namespace: Option<Text>,
    /// Name.
    pub name: Text,
    /// Name of one listener; absent means all that match.
    #[serde(default, skip_serializing_if = "is_default")]
    pub section_name: Option<Text>,
    /// Port of the listeners; absent means any.
    #[serde(default, skip_serializing_if = "is_default")]
    pub port: Option<u16>,
}

/// A reference to a Secret, unless group and kind say otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretRef {
    /// API group; empty is core.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group: Symbol,
    /// Kind.
    #[serde(default = "secret_kind")]
    pub kind: Symbol,
    /// Name.
    pub name: Text,
    /// Namespace; absent means that of the referrer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub namespace: Option<Text>,
}

/// A reference to an object of any kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// API group; empty is core.
    #[serde(default)]
    pub group: Symbol,
    /// Kind.
    pub kind: Symbol,
    /// Name.
    pub name: Text,
    /// Namespace; absent means that of the referrer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub namespace: Option<Text>,
}

/// A reference to an object of the same namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LocalObjectRef {
    /// API group; empty is core.
    #[serde(default)]
    pub group: Symbol,
    /// Kind.
    pub kind: Symbol,
    /// Name.
    pub name: Text,
}

fn gateway_group() -> Symbol {
    Symbol::new("gateway.networking.k8s.io")
}

fn gateway_kind() -> Symbol {
    Symbol::new("Gateway")
}

fn secret_kind() -> Symbol {
    Symbol::new("Secret")
}

#[cfg(test)]
mod tests;
