//! Paths of fields, rejections, and the small conversions that every resource needs.

use std::fmt::{self, Write as _};
use std::time::Duration;

use envoy_types::pb::google::protobuf::{Any, BoolValue, Duration as ProtoDuration, UInt32Value};
use prost::{Message, Name};

/// Why a resource can't be honoured. Its text is one line: see [`Rejected`](crate::xds::Rejected).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Rejection {
    /// The virtual host that it is about, if it has a name.
    pub virtual_host: Option<String>,
    /// The route that it is about, if it has a name.
    pub route: Option<String>,
    /// The field of the route, else of the virtual host, else of the resource, e.g.
    /// `filter_chains[0].filters[0].typed_config.codec_type`.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Rejection {
    /// Says in which route.
    pub(super) fn of_route(self, name: &str) -> Self {
        let route = Some(name).filter(|name| !name.is_empty()).map(str::to_owned);
        Self { route, ..self }
    }

    /// Says in which virtual host.
    pub(super) fn of_virtual_host(self, name: &str) -> Self {
        let virtual_host = Some(name).filter(|name| !name.is_empty()).map(str::to_owned);
        Self { virtual_host, ..self }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.virtual_host {
            write!(f, "virtual host {name:?}: ")?;
        }
        if let Some(name) = &self.route {
            write!(f, "route {name:?}: ")?;
        }
        write!(f, "{}: {}", self.field, self.reason)
    }
}

/// Everything that is wrong with a resource, a line for each; at least one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Rejections {
    first: Rejection,
    more: Vec<Rejection>,
}

impl Rejections {
    /// So many are written; of the others only how many there are.
    const SHOWN: usize = 20;

    /// Adds what is wrong elsewhere.
    pub(super) fn collect(into: &mut Option<Self>, other: impl Into<Self>) {
        let other: Self = other.into();
        match into {
            Some(all) => all.more.extend(std::iter::once(other.first).chain(other.more)),
            None => *into = Some(other),
        }
    }

    /// All of them changed.
    pub(super) fn map(self, change: impl Fn(Rejection) -> Rejection) -> Self {
        Self {
            first: change(self.first),
            more: self.more.into_iter().map(change).collect(),
        }
    }
}

impl From<Rejection> for Rejections {
    fn from(first: Rejection) -> Self {
        let more = Vec::new();
        Self { first, more }
    }
}

/// The first stands for all where only one can be told.
impl From<Rejections> for Rejection {
    fn from(all: Rejections) -> Self {
        all.first
    }
}

impl fmt::Display for Rejections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        for rejection in self.more.iter().take(Self::SHOWN - 1) {
            write!(f, "\n{rejection}")?;
        }
        match self.more.len().saturating_sub(Self::SHOWN - 1) {
            0 => Ok(()),
            rest => write!(f, "\nand {rest} more"),
        }
    }
}

/// A place in a message. Lives on the stack; it is only written out when something is wrong.
#[derive(Clone, Copy)]
pub struct At<'a> {
    parent: Option<&'a At<'a>>,
    part: Part<'a>,
}

#[derive(Clone, Copy)]
enum Part<'a> {
    Root,
    Field(&'a str),
    Index(usize),
}

impl<'a> At<'a> {
    /// The whole message.
    pub fn root() -> At<'static> {
        At {
            parent: None,
            part: Part::Root,
        }
    }

    /// Whether this is the whole message.
    pub(super) fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    /// A field of this message.
    pub fn field(&'a self, name: &'a str) -> At<'a> {
        At {
            parent: Some(self),
            part: Part::Field(name),
        }
    }

    /// An element of this list.
    pub fn index(&'a self, index: usize) -> At<'a> {
        At {
            parent: Some(self),
            part: Part::Index(index),
        }
    }

    /// A rejection of this place.
    pub fn error(&self, reason: impl Into<String>) -> Rejection {
        let mut reason: String = reason.into();
        if reason.contains(['\n', '\r']) {
            // A rejection is a line.
            reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
        }
        Rejection {
            virtual_host: None,
            route: None,
            field: self.to_string(),
            reason,
        }
    }

    /// A rejection of a field of this place that is not implemented.
    pub fn unsupported(&self, field: &str) -> Rejection {
        self.field(field).error("not supported by this proxy")
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        render(self, &mut text)?;
        f.write_str(if text.is_empty() { "." } else { &text })
    }
}

fn render(at: &At<'_>, text: &mut String) -> fmt::Result {
    if let Some(parent) = at.parent {
        render(parent, text)?;
    }
    match at.part {
        Part::Root => Ok(()),
        Part::Field(name) if text.is_empty() => text.write_str(name),
        Part::Field(name) => write!(text, ".{name}"),
        Part::Index(index) => write!(text, "[{index}]"),
    }
}

/// Takes a message apart by an exhaustive pattern: fields to use, fields to ignore, and fields that must be unset.
macro_rules! fields {
    ($at:expr, $message:expr => $first:ident $(:: $rest:ident)* {
        $($used:ident),* $(,)? ; ignore $($ignored:ident),* $(,)? ; refuse $($refused:ident),* $(,)?
    }) => {
        #[allow(deprecated, clippy::unneeded_field_pattern)]
        let $first $(:: $rest)* { $($used,)* $($ignored: _,)* $($refused,)* } = $message;
        $(if !$crate::compile::field::is_unset($refused) {
            return Err($at.unsupported(stringify!($refused)).into());
        })*
    };
}
pub(crate) use fields;

/// Whether a field has its default value.
pub fn is_unset<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A duration that must not be negative.
pub fn duration(at: &At<'_>, value: &ProtoDuration) -> Result<Duration, Rejection> {
    let (Ok(seconds), Ok(nanos)) = (u64::try_from(value.seconds), u32::try_from(value.nanos)) else {
        return Err(at.error("must not be negative"));
    };
    Ok(Duration::new(seconds, nanos.min(999_999_999)))
}

/// A duration with a default.
pub fn duration_or(at: &At<'_>, value: Option<&ProtoDuration>, default: Duration) -> Result<Duration, Rejection> {
    value.map_or(Ok(default), |value| duration(at, value))
}

/// A deadline: unset takes the default, zero switches it off.
pub fn deadline(
    at: &At<'_>,
    value: Option<&ProtoDuration>,
    default: Option<Duration>,
) -> Result<Option<Duration>, Rejection> {
    match value {
        None => Ok(default),
        Some(value) => duration(at, value).map(|duration| (!duration.is_zero()).then_some(duration)),
    }
}

/// A wrapped bool, false when unset.
pub fn truth(value: Option<&BoolValue>) -> bool {
    value.is_some_and(|value| value.value)
}

/// A wrapped number.
pub fn number(value: Option<&UInt32Value>) -> Option<u32> {
    value.map(|value| value.value)
}

/// Whether an `Any` carries this type.
pub fn is<M: Name>(any: &Any) -> bool {
    type_name(any) == M::full_name()
}

/// The full message name of an `Any`.
pub fn type_name(any: &Any) -> &str {
    any.type_url.rsplit('/').next().unwrap_or_default()
}

/// The message in an `Any`, which must be of this type.
pub fn unpack<M: Message + Name + Default>(at: &At<'_>, any: &Any) -> Result<M, Rejection> {
    if !is::<M>(any) {
        return Err(at.error(format!("type {:?} is not supported by this proxy", type_name(any))));
    }
    M::decode(any.value.as_slice()).map_err(|error| at.error(format!("not a valid {}: {error}", M::full_name())))
}
