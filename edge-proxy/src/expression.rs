//! Expressions in CEL over attributes, as Envoy evaluates them: a tree, and what it is for a request.
//!
//! The tree is made once ([`crate::compile`]) with every attribute, function and constant pattern resolved; an
//! evaluation borrows from whoever knows the facts and looks at what it needs, when it needs it. The language is
//! Envoy's: numbers compare across types, an error on one side of `&&` and `||` is absorbed by the other, and there are
//! no loops. Deliberately absent: reading text or messages, and the facts themselves ([`Facts`]).
//! Why not the `cel` crate's interpreter: it takes its variables as owned maps, so each request would be copied into
//! them, and it differs from Envoy where rules would open (a field of what is no map is `false` there, and an error
//! here).

mod evaluate;
mod functions;
#[cfg(test)]
mod tests;
mod times;
mod value;

use std::borrow::Cow;

use http::HeaderName;
use regex::Regex;

pub use value::{Metadata, Value};

/// An expression.
#[derive(Debug)]
pub enum Expression {
    /// A constant.
    Constant(Constant),
    /// An attribute such as `request.path`.
    Attribute(Attribute),
    /// Whether an attribute is there.
    HasAttribute(Attribute),
    /// A field of a message.
    Field(Field),
    /// Whether a field is there.
    HasField(Field),
    /// The field whose name is computed.
    FieldNamed(Box<Expression>),
    /// Whether the field whose name is computed is there.
    HasFieldNamed(Box<Expression>),
    /// What filters have found out, by their names.
    Metadata,
    /// An entry of a map by a constant name.
    Member(Box<Expression>, Box<str>),
    /// Whether a map has such an entry.
    HasMember(Box<Expression>, Box<str>),
    /// An element of a list, or an entry of a map.
    Element(Box<[Expression; 2]>),
    /// Whether a list holds something, or a map has such an entry.
    In(Box<[Expression; 2]>),
    /// `&&`
    And(Box<[Expression; 2]>),
    /// `||`
    Or(Box<[Expression; 2]>),
    /// `!`
    Not(Box<Expression>),
    /// It isn't false, as far as can be told (`cel-spec`, "not_strictly_false").
    Possible(Box<Expression>),
    /// `-`
    Negative(Box<Expression>),
    /// `a ? b : c`
    Choice(Box<[Expression; 3]>),
    /// Two values are compared.
    Compare(Comparison, Box<[Expression; 2]>),
    /// Two values are computed with; whether texts may be put together.
    Compute(Arithmetic, Box<[Expression; 2]>),
    /// A list.
    List(Box<[Expression]>),
    /// A map.
    Map(Box<[[Expression; 2]]>),
    /// A regular expression is found in a text.
    Matches(Box<Expression>, Box<Regex>),
    /// A function of values, of which that before the dot is the first.
    Call(Function, Box<[Expression]>),
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// `null`
    Null,
    /// A truth value.
    Bool(bool),
    /// A number.
    Int(i64),
    /// A number that isn't below zero.
    Uint(u64),
    /// A number.
    Double(f64),
    /// A text.
    Text(Box<str>),
    /// Bytes.
    Bytes(Box<[u8]>),
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    Other,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
}

/// What two values are made into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+` of numbers and times.
    Sum,
    /// `+` of texts and bytes as well.
    SumOrText,
    /// `-`
    Difference,
    /// `*`
    Product,
    /// `/`
    Quotient,
    /// `%`
    Remainder,
}

/// Of which message a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The request's head.
    Request,
    /// The response's head.
    Response,
    /// The response's trailers.
    Trailers,
}

/// A field by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldName {
    /// `:method`
    Method,
    /// `:path`
    Path,
    /// `:authority`, and `host`.
    Authority,
    /// `:scheme`
    Scheme,
    /// `:status`
    Status,
    /// Any other.
    Named(HeaderName),
}

impl FieldName {
    /// Reads a name; `None` when no message has such a field.
    pub fn read(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            ":method" => Self::Method,
            ":path" => Self::Path,
            ":authority" | "host" => Self::Authority,
            ":scheme" => Self::Scheme,
            ":status" => Self::Status,
            name => Self::Named(HeaderName::from_bytes(name.as_bytes()).ok()?),
        })
    }
}

/// A field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Of which one.
    pub of: Message,
    /// Its name.
    pub name: FieldName,
    /// Where whoever keeps fields for later keeps it.
    pub place: usize,
}

/// An attribute of an exchange that is no field of its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is what Envoy calls so, with the first part in front")]
pub enum Attribute {
    RequestUrlPath,
    RequestQuery,
    RequestProtocol,
    RequestTime,
    /// What has come of its content.
    RequestSize,
    RequestDuration,
    ResponseCode,
    ResponseCodeDetails,
    ResponseSize,
    SourceAddress,
    SourcePort,
    DestinationAddress,
    DestinationPort,
    ConnectionMtls,
    ConnectionRequestedServerName,
    UpstreamAddress,
    UpstreamPort,
    UpstreamLocalAddress,
    UpstreamTransportFailureReason,
    UpstreamRequestAttemptCount,
    XdsClusterName,
    XdsRouteName,
    XdsFilterChainName,
}

/// Functions by name; those of operators and patterns are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is what CEL calls so")]
pub enum Function {
    Size,
    Contains,
    StartsWith,
    EndsWith,
    Bool,
    Bytes,
    Double,
    Int,
    Uint,
    Text,
    Duration,
    Timestamp,
    Dyn,
    CharAt,
    IndexOf,
    LastIndexOf,
    Join,
    LowerAscii,
    UpperAscii,
    Replace,
    Reverse,
    Split,
    Substring,
    Trim,
    Time(TimePart),
}

/// A part of a point in time, in UTC, or of a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is what CEL calls so, with get in front")]
pub enum TimePart {
    Date,
    DayOfMonth,
    DayOfWeek,
    DayOfYear,
    FullYear,
    Hours,
    Milliseconds,
    Minutes,
    Month,
    Seconds,
}

/// What expressions ask.
pub trait Facts {
    /// The value of an attribute; `None` where there is none.
    fn attribute(&self, attribute: Attribute) -> Option<Value<'_>>;

    /// All values of a field, with commas between them; `None` where it isn't there.
    fn field(&self, field: &Field) -> Option<Cow<'_, str>>;

    /// What filters have found out.
    fn metadata(&self) -> Option<&Metadata>;
}

/// An expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed;

impl Expression {
    /// Whether it is true. What has no value isn't.
    pub fn holds(&self, facts: &dyn Facts) -> bool {
        matches!(self.evaluate(facts), Ok(Value::Bool(true)))
    }
}
