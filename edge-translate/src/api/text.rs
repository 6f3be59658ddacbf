//! Small text types shared by every kind: open enums, symbols, durations, quantities and names.
//!
//! The kinds keep what was written and judge it later: a duration or an enum value that nobody knows must become a
//! finding on its object, with the rest of the object still in force, so nothing here rejects a value while loading.
//! The parsers beside the types are what translation calls when it needs the value.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::api::Text;

/// True when a value equals its type's default, so that output leaves it out.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Declares an enum of strings that keeps a value it doesn't know instead of refusing the object that carries it.
///
/// The first variant is the `Default`, as the CRD fills it in.
macro_rules! open_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $(
                #[doc = concat!("`", $text, "`.")]
                $variant,
            )+
            /// A value the specification doesn't name; validation reports it.
            Other(crate::api::Text),
        }

        impl $name {
            /// Every value the specification names, in its order.
            pub const KNOWN: &'static [&'static str] = &[$($text),+];

            /// The text as written in a resource.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)+
                    other => Self::Other(other.into()),
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::from(Self::KNOWN[0])
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                crate::api::text::visit_text(deserializer, |text| Self::from(text))
            }
        }
    };
}
pub(crate) use open_enum;

/// Deserializes a string without allocating it, and maps it.
pub(crate) fn visit_text<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    map: impl FnOnce(&str) -> T,
) -> Result<T, D::Error> {
    struct Text<F>(F);
    impl<T, F: FnOnce(&str) -> T> serde::de::Visitor<'_> for Text<F> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }
        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
            Ok((self.0)(text))
        }
    }
    deserializer.deserialize_str(Text(map))
}

/// A group, kind or other word that is nearly always one of a few: those cost no allocation.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Symbol(Text);

/// The words that symbols share.
const COMMON: &[&str] = &[
    "",
    "Service",
    "Gateway",
    "gateway.networking.k8s.io",
    "gateway.edge",
    "Backend",
    "Secret",
    "ConfigMap",
    "HTTPRoute",
    "GRPCRoute",
    "TLSRoute",
    "TCPRoute",
    "UDPRoute",
    "ListenerSet",
    "EdgeProxy",
    "GatewayClass",
    "HTTPRouteFilter",
    "ServiceImport",
    "multicluster.x-k8s.io",
    "ReferenceGrant",
    "Namespace",
];

impl Symbol {
    /// A symbol for a word known when this was written.
    pub const fn new(text: &'static str) -> Self {
        Self(Text::new(text))
    }

    /// The word.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Symbol {
    fn from(text: &str) -> Self {
        match COMMON.iter().find(|known| **known == text) {
            Some(known) => Self::new(known),
            None => Self(text.into()),
        }
    }
}

impl Deref for Symbol {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Symbol {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Symbol {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Symbol {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Symbol {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        visit_text(deserializer, |text| Self::from(text))
    }
}

/// Declares a text newtype that keeps what was written.
macro_rules! text_type {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Box<str>);

        impl $name {
            /// The text as written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.as_str())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

text_type! {
    /// A Gateway API duration as written, such as `1h30m` (GEP-2257).
    DurationText
}

text_type! {
    /// An amount as written, such as `64Ki` or `1G`.
    Quantity
}

impl<'de> Deserialize<'de> for DurationText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        visit_text(deserializer, |text| Self::from(text))
    }
}

/// Quantities may be written as plain numbers too (`32768`), as the cluster accepts them.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match IntOrText::deserialize(deserializer)? {
            IntOrText::Int(number) => Self(number.to_string().into()),
            IntOrText::Text(text) => Self(text),
        })
    }
}

/// A number, or a name or percentage, as `targetPort` and `minAvailable` take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum IntOrText {
    /// A plain number.
    Int(i64),
    /// A name or a percentage.
    Text(Box<str>),
}

impl<'de> Deserialize<'de> for IntOrText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = IntOrText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a string")
            }
            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<IntOrText, E> {
                Ok(IntOrText::Int(number))
            }
            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<IntOrText, E> {
                i64::try_from(number)
                    .map(IntOrText::Int)
                    .map_err(|_| E::custom("number too large"))
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<IntOrText, E> {
                Ok(IntOrText::Text(text.into()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Why a duration, quantity or name isn't one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Not in the duration grammar.
    #[error(
        "{0:?} is not a duration: write 1 to 4 numbers of at most 5 digits, each followed by h, m, s or ms, such as 1m30s"
    )]
    Duration(Box<str>),
    /// Not in the quantity grammar.
    #[error(
        "{0:?} is not a quantity: write a number with an optional suffix k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi or Ei"
    )]
    Quantity(Box<str>),
    /// Not a DNS name.
    #[error("{0:?} is not a host name: write lower-case DNS labels joined by dots, with at most one leading `*.`")]
    Hostname(Box<str>),
    /// Not a section name.
    #[error(
        "{0:?} is not a section name: write 1 to 253 lower-case letters, digits, `-` and `.`, starting and ending with a letter or digit"
    )]
    SectionName(Box<str>),
}

impl DurationText {
    /// The value by the Gateway API grammar `^([0-9]{1,5}(h|m|s|ms)){1,4}$` (GEP-2257).
    pub fn parse(&self) -> Result<std::time::Duration, TextError> {
        let error = || TextError::Duration(self.0.clone());
        let mut rest = self.as_str();
        let mut millis = 0_u64;
        for part in 0.. {
            if part == 4 || rest.is_empty() {
                break;
            }
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if !(1..=5).contains(&digits) {
                return Err(error());
            }
            let (number, unit) = rest.split_at(digits);
            let number: u64 = number.parse().map_err(|_| error())?;
            let (factor, len) = match unit.as_bytes() {
                [b'm', b's', ..] => (1, 2),
                [b'h', ..] => (3_600_000, 1),
                [b'm', ..] => (60_000, 1),
                [b's', ..] => (1000, 1),
                _ => return Err(error()),
            };
            millis += number * factor;
            rest = &unit[len..];
        }
        if rest.is_empty() && !self.0.is_empty() {
            Ok(std::time::Duration::from_millis(millis))
        } else {
            Err(error())
        }
    }

    /// The value, where it may also be one number with a fraction, as `0.2s`: what clients of the API write, and a
    /// cluster's schema refuses.
    pub fn parse_with_fraction(&self) -> Result<std::time::Duration, TextError> {
        let error = || TextError::Duration(self.0.clone());
        let Some((whole, rest)) = self.0.split_once('.') else {
            return self.parse();
        };
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (fraction, unit) = rest.split_at(digits);
        let is_number = |digits: &str| (1..=5).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        let factor: u64 = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(error()),
        };
        if !is_number(whole) || !is_number(fraction) {
            return Err(error());
        }
        let number = |digits: &str| digits.parse::<u64>().map_err(|_| error());
        let scale = 10_u64.pow(u32::try_from(digits).unwrap_or_default());
        let millis = number(whole)? * factor + number(fraction)? * factor / scale;
        Ok(std::time::Duration::from_millis(millis))
    }
}

impl Quantity {
    /// The amount in whole units, fractions rounded up as the cluster does; negative amounts are refused.
    pub fn parse(&self) -> Result<u64, TextError> {
        let error = || TextError::Quantity(self.0.clone());
        let text = self.as_str();
        let end = text.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let (number, suffix) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if number.is_empty()
            || (whole.is_empty() && fraction.is_empty())
            || fraction.contains('.')
            || fraction.len() > 9
        {
            return Err(error());
        }
        let (multiply, divide): (u128, u128) = match suffix {
            "" => (1, 1),
            "n" => (1, 1_000_000_000),
            "u" => (1, 1_000_000),
            "m" => (1, 1000),
            "k" => (1000, 1),
            "M" => (1_000_000, 1),
            "G" => (1_000_000_000, 1),
            "T" => (1_000_000_000_000, 1),
            "P" => (1_000_000_000_000_000, 1),
            "E" => (1_000_000_000_000_000_000, 1),
            "Ki" => (1 << 10, 1),
            "Mi" => (1 << 20, 1),
            "Gi" => (1 << 30, 1),
            "Ti" => (1 << 40, 1),
            "Pi" => (1 << 50, 1),
            "Ei" => (1 << 60, 1),
            _ => return Err(error()),
        };
        let scale = 10_u128.pow(u32::try_from(fraction.len()).map_err(|_| error())?);
        let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| error())?;
        let total = digits.checked_mul(multiply).ok_or_else(error)?.div_ceil(divide * scale);
        u64::try_from(total).map_err(|_| error())
    }
}

/// True for a lower-case DNS subdomain (RFC 1123) of at most 253 characters.
pub fn is_dns_subdomain(text: &str) -> bool {
    // In one pass: every object has names, and every route hostnames.
    let mut before = b'.';
    let is_fine = text.bytes().all(|byte| {
        let is_fine = match byte {
            b'a'..=b'z' | b'0'..=b'9' => true,
            b'-' => before != b'.',
            b'.' => before != b'.' && before != b'-',
            _ => false,
        };
        before = byte;
        is_fine
    });
    is_fine && text.len() <= 253 && before != b'.' && before != b'-'
}

/// True for a lower-case DNS label (RFC 1123) of at most 63 characters.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_dns_label_body(text)
}

fn is_dns_label_body(label: &str) -> bool {
    let bytes = label.as_bytes();
    let alnum = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    bytes.first().is_some_and(alnum) && bytes.last().is_some_and(alnum) && bytes.iter().all(|b| alnum(b) || *b == b'-')
}

/// Checks a section name (rule, listener or port name): a DNS subdomain.
pub fn check_section_name(text: &str) -> Result<(), TextError> {
    if is_dns_subdomain(text) {
        Ok(())
    } else {
        Err(TextError::SectionName(text.into()))
    }
}

/// A host name of a listener or route: exact, or everything below a suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hostname<'a> {
    /// One name.
    Exact(&'a str),
    /// `*.suffix`: any number of labels in front of the suffix, which is kept without the `*.`.
    Wildcard(&'a str),
}

impl<'a> Hostname<'a> {
    /// Reads a Gateway API Hostname (PreciseHostname is the `Exact` case).
    pub fn parse(text: &'a str) -> Result<Self, TextError> {
        let (suffix, wildcard) = match text.strip_prefix("*.") {
            Some(suffix) => (suffix, true),
            None => (text, false),
        };
        match (text.len() <= 253 && is_dns_subdomain(suffix), wildcard) {
            (false, _) => Err(TextError::Hostname(text.into())),
            (true, true) => Ok(Self::Wildcard(suffix)),
            (true, false) => Ok(Self::Exact(suffix)),
        }
    }
}

#[cfg(test)]
mod tests;
