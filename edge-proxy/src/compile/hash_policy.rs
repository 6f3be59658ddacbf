//! Hash policies of routes.

use std::fmt::Write as _;

use envoy_types::pb::envoy::config::route::v3::route_action::HashPolicy as ProtoPolicy;
use envoy_types::pb::envoy::config::route::v3::route_action::hash_policy::{
    ConnectionProperties, Cookie, Header, PolicySpecifier, QueryParameter,
};
use http::HeaderValue;

use crate::compile::field::{At, Rejection, duration, fields};
use crate::compile::header::regex_rewrite;
use crate::compile::template::header_name;
use crate::config::hashing::{HashCookie, HashPolicy, HashSource};

/// Compiles the hash policies of a route.
pub(super) fn hash_policies(at: &At<'_>, list: &[ProtoPolicy]) -> Result<Box<[HashPolicy]>, Rejection> {
    let mut policies = Vec::with_capacity(list.len());
    for (index, policy) in list.iter().enumerate() {
        let at = at.index(index);
        if let Some(source) = source(&at, policy.policy_specifier.as_ref())? {
            policies.push(HashPolicy {
                source,
                terminal: policy.terminal,
            });
        }
    }
    Ok(policies.into())
}

/// `None` for a policy that asks for nothing.
fn source(at: &At<'_>, message: Option<&PolicySpecifier>) -> Result<Option<HashSource>, Rejection> {
    Ok(match message {
        Some(PolicySpecifier::Header(header)) => {
            let at = at.field("header");
            fields!(at, header => Header { header_name, regex_rewrite; ignore; refuse });
            let rewrite = regex_rewrite
                .as_ref()
                .map(|rewrite| self::regex_rewrite(&at.field("regex_rewrite"), rewrite).map(Box::new))
                .transpose()?;
            Some(HashSource::Header(
                self::header_name(&at.field("header_name"), header_name)?,
                rewrite,
            ))
        }
        Some(PolicySpecifier::Cookie(cookie)) => Some(HashSource::Cookie(self::cookie(&at.field("cookie"), cookie)?)),
        Some(PolicySpecifier::ConnectionProperties(properties)) => {
            fields!(at, properties => ConnectionProperties { source_ip; ignore; refuse });
            source_ip.then_some(HashSource::Address)
        }
        Some(PolicySpecifier::QueryParameter(parameter)) => {
            fields!(at, parameter => QueryParameter { name; ignore; refuse });
            Some(HashSource::Query(name.as_str().into()))
        }
        Some(PolicySpecifier::FilterState(_)) => return Err(at.unsupported("filter_state")),
        None => return Err(at.error("a policy is required")),
    })
}

fn cookie(at: &At<'_>, message: &Cookie) -> Result<HashCookie, Rejection> {
    fields!(at, message => Cookie { name, ttl, path, attributes; ignore; refuse });
    let Some(ttl) = ttl else {
        return Ok(HashCookie {
            name: name.as_str().into(),
            attributes: None,
        });
    };
    let mut text = String::new();
    let seconds = duration(&at.field("ttl"), ttl)?.as_secs();
    if seconds > 0 {
        // Writing to a String can't fail.
        let _ = write!(text, "; Max-Age={seconds}");
    }
    if !path.is_empty() {
        let _ = write!(text, "; Path={path}");
    }
    for attribute in attributes {
        let _ = match attribute.value.as_str() {
            "" => write!(text, "; {}", attribute.name),
            value => write!(text, "; {}={value}", attribute.name),
        };
    }
    text.push_str("; HttpOnly");
    if HeaderValue::from_str(&format!("{name}{text}")).is_err() {
        return Err(at.error("does not make a header"));
    }
    Ok(HashCookie {
        name: name.as_str().into(),
        attributes: Some(text.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use envoy_types::pb::envoy::config::route::v3::route_action::hash_policy::CookieAttribute;
    use envoy_types::pb::google::protobuf::Duration;

    #[test]
    fn a_cookie_says_what_envoy_says() {
        let message = |ttl: Option<i64>| Cookie {
            name: "session".into(),
            ttl: ttl.map(|seconds| Duration { seconds, nanos: 0 }),
            path: "/x".into(),
            attributes: vec![
                CookieAttribute {
                    name: "SameSite".into(),
                    value: "Strict".into(),
                },
                CookieAttribute {
                    name: "Secure".into(),
                    value: String::new(),
                },
            ],
        };
        let attributes = |ttl| {
            let cookie = cookie(&At::root(), &message(ttl)).expect("a cookie");
            cookie.attributes.map(String::from)
        };
        let common = "; Path=/x; SameSite=Strict; Secure; HttpOnly";
        assert_eq!(attributes(None), None);
        assert_eq!(attributes(Some(0)), Some(common.to_owned()));
        assert_eq!(attributes(Some(60)), Some(format!("; Max-Age=60{common}")));
    }
}
