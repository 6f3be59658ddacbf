//! Expressions in CEL, as text or as trees in messages → [`Expression`].
//!
//! Names of attributes, functions and constant patterns are resolved here; what this proxy can't tell as Envoy
//! does is refused by its name, so that no rule rests on a value that isn't there.

mod functions;
#[cfg(test)]
mod tests;
mod text;

use envoy_types::pb::envoy::config::core::v3::CelExpressionConfig;
use envoy_types::pb::google::api::expr::v1alpha1::constant::ConstantKind;
use envoy_types::pb::google::api::expr::v1alpha1::expr::create_struct::entry::KeyKind;
use envoy_types::pb::google::api::expr::v1alpha1::expr::{Call, CreateList, CreateStruct, ExprKind, Select};
use envoy_types::pb::google::api::expr::v1alpha1::{Constant as ProtoConstant, Expr};
use regex::RegexBuilder;

use crate::compile::field::{At, Rejection, fields};
use crate::expression::{Arithmetic, Attribute, Comparison, Constant, Expression, Field, FieldName, Function, Message};

pub(super) use text::parse;

/// Who asks, and what can be known there.
pub(super) trait Site {
    /// Where a field is kept; `None` where it can't be known.
    fn place(&mut self, of: Message, name: &FieldName) -> Option<usize>;
    /// Whether an attribute can be told as Envoy does.
    fn tells(&self, attribute: Attribute) -> bool;
    /// Whether fields can be asked for by names that are computed.
    fn takes_computed_names(&self) -> bool;
    /// Whether it is known what filters have found out.
    fn tells_metadata(&self) -> bool;
}

/// What an expression may do with texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Texts {
    /// `string()`
    converts: bool,
    /// `+`
    joins: bool,
    /// Functions that make texts of texts.
    edits: bool,
}

/// Reads what an expression may do with texts.
pub(super) fn texts(_at: &At<'_>, message: Option<&CelExpressionConfig>) -> Result<Texts, Rejection> {
    let Some(message) = message else {
        return Ok(Texts::default());
    };
    fields!(at, message => CelExpressionConfig {
        enable_string_conversion, enable_string_concat, enable_string_functions; ignore; refuse
    });
    Ok(Texts {
        converts: *enable_string_conversion,
        joins: *enable_string_concat,
        edits: *enable_string_functions,
    })
}

/// Compiles a tree.
pub(super) fn expression(at: &At<'_>, tree: &Expr, texts: Texts, site: &mut dyn Site) -> Result<Expression, Rejection> {
    let mut reading = Reading { texts, site };
    reading.part(tree, DEEPEST).map_err(|why| at.error(why))
}

/// Deepest tree: an evaluation takes a frame of the stack for each step.
const DEEPEST: usize = 64;

/// First parts of what Envoy calls attributes.
const ROOTS: [&str; 10] = [
    "request",
    "response",
    "connection",
    "upstream",
    "source",
    "destination",
    "metadata",
    "filter_state",
    "upstream_filter_state",
    "xds",
];

/// All attributes that are no fields.
const ATTRIBUTES: [(&str, &str, Attribute); 22] = [
    ("request", "url_path", Attribute::RequestUrlPath),
    ("request", "query", Attribute::RequestQuery),
    ("request", "protocol", Attribute::RequestProtocol),
    ("request", "time", Attribute::RequestTime),
    ("request", "duration", Attribute::RequestDuration),
    ("response", "code", Attribute::ResponseCode),
    ("response", "code_details", Attribute::ResponseCodeDetails),
    ("response", "size", Attribute::ResponseSize),
    ("source", "address", Attribute::SourceAddress),
    ("source", "port", Attribute::SourcePort),
    ("destination", "address", Attribute::DestinationAddress),
    ("destination", "port", Attribute::DestinationPort),
    ("connection", "mtls", Attribute::ConnectionMtls),
    (
        "connection",
        "requested_server_name",
        Attribute::ConnectionRequestedServerName,
    ),
    ("upstream", "address", Attribute::UpstreamAddress),
    ("upstream", "port", Attribute::UpstreamPort),
    ("upstream", "local_address", Attribute::UpstreamLocalAddress),
    (
        "upstream",
        "transport_failure_reason",
        Attribute::UpstreamTransportFailureReason,
    ),
    (
        "upstream",
        "request_attempt_count",
        Attribute::UpstreamRequestAttemptCount,
    ),
    ("xds", "cluster_name", Attribute::XdsClusterName),
    ("xds", "route_name", Attribute::XdsRouteName),
    ("xds", "filter_chain_name", Attribute::XdsFilterChainName),
];

/// Attributes of requests that are fields.
const FIELDS: [(&str, &str); 7] = [
    ("path", ":path"),
    ("host", ":authority"),
    ("scheme", ":scheme"),
    ("method", ":method"),
    ("referer", "referer"),
    ("useragent", "user-agent"),
    ("id", "x-request-id"),
];

/// How something is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Value,
    Presence,
}

/// What something is asked of.
enum Base<'e> {
    /// One of [`ROOTS`].
    Root(&'static str),
    /// All fields of a message.
    Fields(Message),
    /// Anything else.
    Value(&'e Expr),
}

struct Reading<'s> {
    texts: Texts,
    site: &'s mut dyn Site,
}

type Read = Result<Expression, String>;

impl Reading<'_> {
    fn part(&mut self, tree: &Expr, depth: usize) -> Read {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(format!("an expression is nested deeper than {DEEPEST}"));
        };
        match &tree.expr_kind {
            Some(ExprKind::ConstExpr(constant)) => constant_of(constant).map(Expression::Constant),
            Some(ExprKind::IdentExpr(name)) => Err(unsupported(&name.name)),
            Some(ExprKind::SelectExpr(select)) => self.select(select, depth),
            Some(ExprKind::CallExpr(call)) => self.call(call, depth),
            Some(ExprKind::ListExpr(list)) => self.list(list, depth),
            Some(ExprKind::StructExpr(map)) => self.map(map, depth),
            Some(ExprKind::ComprehensionExpr(_)) => Err("expressions run no loops".to_owned()),
            None => Err("an expression is required".to_owned()),
        }
    }

    fn pair(&mut self, one: &Expr, other: &Expr, depth: usize) -> Result<Box<[Expression; 2]>, String> {
        Ok(Box::new([self.part(one, depth)?, self.part(other, depth)?]))
    }

    fn select(&mut self, select: &Select, depth: usize) -> Read {
        let Some(operand) = &select.operand else {
            return Err("an operand is required".to_owned());
        };
        let access = match select.test_only {
            true => Access::Presence,
            false => Access::Value,
        };
        self.member(operand, &select.field, access, depth)
    }

    /// An entry by a constant name.
    fn member(&mut self, of: &Expr, name: &str, access: Access, depth: usize) -> Read {
        match base(of) {
            Base::Root("metadata") if name == "filter_metadata" => match access {
                Access::Value if self.site.tells_metadata() => Ok(Expression::Metadata),
                _ => Err(unsupported("metadata.filter_metadata")),
            },
            Base::Root(root) => self.attribute(root, name, access),
            Base::Fields(message) => self.field(message, name, access),
            Base::Value(of) => {
                let of = Box::new(self.part(of, depth)?);
                Ok(match access {
                    Access::Value => Expression::Member(of, name.into()),
                    Access::Presence => Expression::HasMember(of, name.into()),
                })
            }
        }
    }

    fn attribute(&mut self, root: &str, name: &str, access: Access) -> Read {
        if root == "request" {
            if name == "size" {
                return self.request_size(access);
            }
            if let Some((_, field)) = FIELDS.iter().find(|(known, _)| *known == name) {
                return self.field(Message::Request, field, access);
            }
        }
        let known = ATTRIBUTES.iter().find(|(of, known, _)| *of == root && *known == name);
        let known = known.filter(|(_, _, attribute)| self.site.tells(*attribute));
        let (_, _, attribute) = known.ok_or_else(|| unsupported(&format!("{root}.{name}")))?;
        Ok(match access {
            Access::Value => Expression::Attribute(*attribute),
            Access::Presence => Expression::HasAttribute(*attribute),
        })
    }

    /// What the request says of its length, else what has come.
    fn request_size(&mut self, access: Access) -> Read {
        if access == Access::Presence {
            return Ok(Expression::Constant(Constant::Bool(true)));
        }
        let said = |reading: &mut Self, access| reading.field(Message::Request, "content-length", access);
        Ok(Expression::Choice(Box::new([
            said(self, Access::Presence)?,
            Expression::Call(Function::Int, Box::new([said(self, Access::Value)?])),
            Expression::Attribute(Attribute::RequestSize),
        ])))
    }

    fn field(&mut self, of: Message, name: &str, access: Access) -> Read {
        let Some(known) = FieldName::read(name) else {
            return Err(format!("{name:?} is not a header name"));
        };
        let Some(place) = self.site.place(of, &known) else {
            return Err(unsupported(&format!("{name:?} of {}", named(of))));
        };
        let field = Field { of, name: known, place };
        Ok(match access {
            Access::Value => Expression::Field(field),
            Access::Presence => Expression::HasField(field),
        })
    }

    fn element(&mut self, of: &Expr, key: &Expr, access: Access, depth: usize) -> Read {
        let is_value = matches!(base(of), Base::Value(_));
        match (text_of(key), base(of)) {
            (Some(name), _) if !is_value => self.member(of, name, access, depth),
            (_, Base::Fields(Message::Request)) if self.site.takes_computed_names() => {
                let name = Box::new(self.part(key, depth)?);
                Ok(match access {
                    Access::Value => Expression::FieldNamed(name),
                    Access::Presence => Expression::HasFieldNamed(name),
                })
            }
            (_, Base::Root(_) | Base::Fields(_)) => Err("names of attributes and fields must be constants".to_owned()),
            (_, Base::Value(of)) => Ok(match access {
                Access::Value => Expression::Element(self.pair(of, key, depth)?),
                Access::Presence => Expression::In(self.pair(key, of, depth)?),
            }),
        }
    }

    fn call(&mut self, call: &Call, depth: usize) -> Read {
        match (call.function.as_str(), call.target.as_deref(), &call.args[..]) {
            ("_[_]", None, [of, key]) => self.element(of, key, Access::Value, depth),
            ("@in", None, [key, of]) => self.element(of, key, Access::Presence, depth),
            ("_&&_", None, [one, other]) => self.pair(one, other, depth).map(Expression::And),
            ("_||_", None, [one, other]) => self.pair(one, other, depth).map(Expression::Or),
            ("!_", None, [one]) => Ok(Expression::Not(Box::new(self.part(one, depth)?))),
            ("@not_strictly_false", None, [one]) => Ok(Expression::Possible(Box::new(self.part(one, depth)?))),
            ("-_", None, [one]) => Ok(Expression::Negative(Box::new(self.part(one, depth)?))),
            ("_?_:_", None, [condition, one, other]) => {
                let condition = self.part(condition, depth)?;
                let [one, other] = *self.pair(one, other, depth)?;
                Ok(Expression::Choice(Box::new([condition, one, other])))
            }
            ("matches", None, [text, pattern]) | ("matches", Some(text), [pattern]) => {
                self.matches(text, pattern, depth)
            }
            (name, None, [one, other]) if let Some(comparison) = comparison(name) => {
                Ok(Expression::Compare(comparison, self.pair(one, other, depth)?))
            }
            (name, None, [one, other]) if let Some(arithmetic) = self.arithmetic(name) => {
                Ok(Expression::Compute(arithmetic, self.pair(one, other, depth)?))
            }
            (name, target, arguments) => self.function(name, target, arguments, depth),
        }
    }

    fn matches(&mut self, text: &Expr, pattern: &Expr, depth: usize) -> Read {
        // Whoever sends the pattern could choose one that takes long to make.
        let pattern = text_of(pattern).ok_or("a regular expression must be a constant")?;
        let pattern = RegexBuilder::new(pattern).build();
        let pattern = pattern.map_err(|error| format!("is not a regular expression: {error}"))?;
        Ok(Expression::Matches(
            Box::new(self.part(text, depth)?),
            Box::new(pattern),
        ))
    }

    fn function(&mut self, name: &str, target: Option<&Expr>, arguments: &[Expr], depth: usize) -> Read {
        let Some(function) = functions::named(name, target.is_some(), arguments.len(), self.texts) else {
            return Err(format!("function {name} is not supported by this proxy"));
        };
        let arguments = target.into_iter().chain(arguments);
        let arguments = arguments.map(|argument| self.part(argument, depth));
        Ok(Expression::Call(function, arguments.collect::<Result<_, _>>()?))
    }

    fn arithmetic(&self, name: &str) -> Option<Arithmetic> {
        Some(match name {
            "_+_" if self.texts.joins => Arithmetic::SumOrText,
            "_+_" => Arithmetic::Sum,
            "_-_" => Arithmetic::Difference,
            "_*_" => Arithmetic::Product,
            "_/_" => Arithmetic::Quotient,
            "_%_" => Arithmetic::Remainder,
            _ => return None,
        })
    }

    fn list(&mut self, list: &CreateList, depth: usize) -> Read {
        if !list.optional_indices.is_empty() {
            return Err("optional elements are not supported by this proxy".to_owned());
        }
        let elements = list.elements.iter().map(|element| self.part(element, depth));
        elements.collect::<Result<_, _>>().map(Expression::List)
    }

    fn map(&mut self, map: &CreateStruct, depth: usize) -> Read {
        if !map.message_name.is_empty() {
            return Err(unsupported(&map.message_name));
        }
        let entries = map.entries.iter().map(|entry| match (&entry.key_kind, &entry.value) {
            (Some(KeyKind::MapKey(key)), Some(value)) if !entry.optional_entry => {
                Ok([self.part(key, depth)?, self.part(value, depth)?])
            }
            _ => Err("an entry of a map needs a key and a value".to_owned()),
        });
        entries.collect::<Result<_, String>>().map(Expression::Map)
    }
}

fn unsupported(what: &str) -> String {
    format!("{what} in an expression is not supported by this proxy")
}

fn named(message: Message) -> &'static str {
    match message {
        Message::Request => "request.headers",
        Message::Response => "response.headers",
        Message::Trailers => "response.trailers",
    }
}

fn text_of(tree: &Expr) -> Option<&str> {
    match &tree.expr_kind {
        Some(ExprKind::ConstExpr(ProtoConstant {
            constant_kind: Some(ConstantKind::StringValue(text)),
        })) => Some(text),
        _ => None,
    }
}

/// What something is asked of.
fn base(tree: &Expr) -> Base<'_> {
    let (of, name) = match &tree.expr_kind {
        Some(ExprKind::IdentExpr(name)) => {
            let root = ROOTS.into_iter().find(|root| *root == name.name);
            return root.map_or(Base::Value(tree), Base::Root);
        }
        Some(ExprKind::SelectExpr(select)) if !select.test_only => (select.operand.as_deref(), Some(&*select.field)),
        Some(ExprKind::CallExpr(call)) if call.function == "_[_]" => {
            (call.args.first(), call.args.get(1).and_then(text_of))
        }
        _ => return Base::Value(tree),
    };
    let root = of.map(|of| match &of.expr_kind {
        Some(ExprKind::IdentExpr(root)) => root.name.as_str(),
        _ => "",
    });
    match (root, name) {
        (Some("request"), Some("headers")) => Base::Fields(Message::Request),
        (Some("response"), Some("headers")) => Base::Fields(Message::Response),
        (Some("response"), Some("trailers")) => Base::Fields(Message::Trailers),
        _ => Base::Value(tree),
    }
}

fn comparison(name: &str) -> Option<Comparison> {
    Some(match name {
        "_==_" => Comparison::Equal,
        "_!=_" => Comparison::Other,
        "_<_" => Comparison::Less,
        "_<=_" => Comparison::AtMost,
        "_>_" => Comparison::Greater,
        "_>=_" => Comparison::AtLeast,
        _ => return None,
    })
}

fn constant_of(constant: &ProtoConstant) -> Result<Constant, String> {
    Ok(match &constant.constant_kind {
        Some(ConstantKind::NullValue(_)) => Constant::Null,
        Some(ConstantKind::BoolValue(value)) => Constant::Bool(*value),
        Some(ConstantKind::Int64Value(value)) => Constant::Int(*value),
        Some(ConstantKind::Uint64Value(value)) => Constant::Uint(*value),
        Some(ConstantKind::DoubleValue(value)) => Constant::Double(*value),
        Some(ConstantKind::StringValue(text)) => Constant::Text(text.as_str().into()),
        Some(ConstantKind::BytesValue(bytes)) => Constant::Bytes(bytes.as_slice().into()),
        #[allow(deprecated)]
        Some(ConstantKind::DurationValue(_) | ConstantKind::TimestampValue(_)) => {
            return Err(unsupported("a constant time"));
        }
        None => return Err("a constant needs a value".to_owned()),
    })
}
