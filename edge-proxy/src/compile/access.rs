//! RBAC rules → [`AccessRules`], for requests and for connections.

use envoy_types::pb::envoy::config::core::v3::CidrRange;
use envoy_types::pb::envoy::config::rbac::v3::permission::{Rule, Set as PermissionSet};
use envoy_types::pb::envoy::config::rbac::v3::principal::{Authenticated, Identifier, Set as PrincipalSet};
use envoy_types::pb::envoy::config::rbac::v3::rbac::Action;
use envoy_types::pb::envoy::config::rbac::v3::{
    MetadataSource, Permission, Policy, Principal, Rbac as Rules, SourcedMetadata,
};
use envoy_types::pb::envoy::r#type::matcher::v3::metadata_matcher::path_segment::Segment;
use envoy_types::pb::envoy::r#type::matcher::v3::path_matcher::Rule as PathRule;
use envoy_types::pb::envoy::r#type::matcher::v3::{
    DoubleMatcher, MetadataMatcher, OrMatcher, PathMatcher, ValueMatcher, double_matcher, list_matcher, value_matcher,
};
use envoy_types::pb::envoy::r#type::metadata::v3::MetadataKey;
use envoy_types::pb::envoy::r#type::metadata::v3::metadata_key::path_segment::Segment as KeySegment;

use crate::compile::expression::{self, Site};
use crate::compile::field::{At, Rejection, fields};
use crate::compile::header::{header_condition, string_condition};
use crate::compile::http::address_ranges;
use crate::config::access::{AccessPolicy, AccessRules, Condition, Effect, MetadataCondition, MetadataPath, ValueTest};
use crate::config::address::AddressRange;
use crate::expression::{Attribute, FieldName, Message};

/// What rules are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// Requests.
    Requests,
    /// Connections, of which nothing but the connection is known.
    Connections,
}

/// Compiles rules.
pub(super) fn rules(at: &At<'_>, message: &Rules, about: About) -> Result<AccessRules, Rejection> {
    fields!(at, message => Rules { action, policies; ignore; refuse audit_logging_options });
    let effect = match Action::try_from(*action) {
        Ok(Action::Allow) => Effect::Allow,
        Ok(Action::Deny) => Effect::Deny,
        Ok(Action::Log) => Effect::Log,
        Err(_) => return Err(at.unsupported("action")),
    };
    let at = at.field("policies");
    let mut named: Vec<(&String, &Policy)> = policies.iter().collect();
    named.sort_by_key(|(name, _)| *name);
    let policies = named
        .into_iter()
        .map(|(name, message)| policy(&at.field(name), name, message, about));
    Ok(AccessRules {
        effect,
        policies: policies.collect::<Result<_, _>>()?,
    })
}

fn policy(at: &At<'_>, name: &str, message: &Policy, about: About) -> Result<AccessPolicy, Rejection> {
    fields!(at, message => Policy {
        permissions, principals, condition, cel_config; ignore; refuse checked_condition
    });
    let texts = expression::texts(&at.field("cel_config"), cel_config.as_ref())?;
    let condition = condition.as_ref().map(|tree| {
        let at = at.field("condition");
        match about {
            About::Requests => expression::expression(&at, tree, texts, &mut OfRequests),
            About::Connections => Err(at.error("of a connection is not supported by this proxy")),
        }
    });
    Ok(AccessPolicy {
        name: name.into(),
        permission: Condition::OneOf(each(&at.field("permissions"), permissions, |at, one| {
            permission(at, one, about)
        })?),
        principal: Condition::OneOf(each(&at.field("principals"), principals, |at, one| {
            principal(at, one, about)
        })?),
        condition: condition.transpose()?,
    })
}

/// What is known of a request before it has gone anywhere.
struct OfRequests;

impl Site for OfRequests {
    fn place(&mut self, of: Message, _: &FieldName) -> Option<usize> {
        (of == Message::Request).then_some(0)
    }

    fn tells(&self, attribute: Attribute) -> bool {
        matches!(
            attribute,
            Attribute::RequestUrlPath
                | Attribute::RequestQuery
                | Attribute::RequestProtocol
                | Attribute::RequestTime
                | Attribute::RequestSize
                | Attribute::RequestDuration
                | Attribute::ResponseCode
                | Attribute::ResponseCodeDetails
                | Attribute::ResponseSize
                | Attribute::SourceAddress
                | Attribute::SourcePort
                | Attribute::DestinationAddress
                | Attribute::DestinationPort
                | Attribute::ConnectionMtls
                | Attribute::ConnectionRequestedServerName
                | Attribute::XdsFilterChainName
        )
    }

    fn takes_computed_names(&self) -> bool {
        true
    }

    fn tells_metadata(&self) -> bool {
        true
    }
}

fn each<T>(
    at: &At<'_>,
    list: &[T],
    compile: impl Fn(&At<'_>, &T) -> Result<Condition, Rejection>,
) -> Result<Box<[Condition]>, Rejection> {
    let list = list.iter().enumerate();
    list.map(|(index, one)| compile(&at.index(index), one)).collect()
}

fn permission(at: &At<'_>, message: &Permission, about: About) -> Result<Condition, Rejection> {
    let all = |field: &str, PermissionSet { rules }: &PermissionSet| {
        let at = at.field(field);
        each(&at.field("rules"), rules, |at, one| permission(at, one, about))
    };
    Ok(match &message.rule {
        Some(Rule::Any(true)) => Condition::Any,
        Some(Rule::Any(false)) => return Err(at.field("any").error("must be true")),
        Some(Rule::AndRules(set)) => Condition::All(all("and_rules", set)?),
        Some(Rule::OrRules(set)) => Condition::OneOf(all("or_rules", set)?),
        Some(Rule::NotRule(one)) => Condition::Not(Box::new(permission(&at.field("not_rule"), one, about)?)),
        Some(Rule::Header(matcher)) if about == About::Requests => {
            Condition::Header(Box::new(header_condition(&at.field("header"), matcher)?))
        }
        Some(Rule::UrlPath(matcher)) if about == About::Requests => path(&at.field("url_path"), matcher)?,
        #[allow(deprecated)]
        Some(Rule::Metadata(matcher)) if about == About::Requests => metadata(&at.field("metadata"), matcher)?,
        Some(Rule::SourcedMetadata(message)) if about == About::Requests => {
            sourced(&at.field("sourced_metadata"), message)?
        }
        Some(Rule::DestinationIp(range)) => Condition::Local(address(&at.field("destination_ip"), range)?),
        Some(Rule::DestinationPort(port)) => Condition::LocalPort(*port, port.saturating_add(1)),
        Some(Rule::DestinationPortRange(range)) => {
            let bound =
                |port: i32| u32::try_from(port).map_err(|_| at.field("destination_port_range").error("is none"));
            Condition::LocalPort(bound(range.start)?, bound(range.end)?)
        }
        Some(Rule::RequestedServerName(matcher)) => {
            Condition::ServerName(string_condition(&at.field("requested_server_name"), matcher)?)
        }
        Some(Rule::Matcher(_)) => return Err(at.unsupported("matcher")),
        Some(Rule::UriTemplate(_)) => return Err(at.unsupported("uri_template")),
        Some(_) => return Err(at.error("a connection has no headers, path or metadata")),
        None => return Err(at.error("a rule is required")),
    })
}

fn principal(at: &At<'_>, message: &Principal, about: About) -> Result<Condition, Rejection> {
    let all = |field: &str, PrincipalSet { ids }: &PrincipalSet| {
        let at = at.field(field);
        each(&at.field("ids"), ids, |at, one| principal(at, one, about))
    };
    Ok(match &message.identifier {
        Some(Identifier::Any(true)) => Condition::Any,
        Some(Identifier::Any(false)) => return Err(at.field("any").error("must be true")),
        Some(Identifier::AndIds(set)) => Condition::All(all("and_ids", set)?),
        Some(Identifier::OrIds(set)) => Condition::OneOf(all("or_ids", set)?),
        Some(Identifier::NotId(one)) => Condition::Not(Box::new(principal(&at.field("not_id"), one, about)?)),
        Some(Identifier::Authenticated(message)) => authenticated(&at.field("authenticated"), message)?,
        #[allow(deprecated)]
        Some(Identifier::SourceIp(range)) => Condition::Source(address(&at.field("source_ip"), range)?),
        Some(Identifier::DirectRemoteIp(range)) => Condition::Peer(address(&at.field("direct_remote_ip"), range)?),
        Some(Identifier::RemoteIp(range)) => Condition::Client(address(&at.field("remote_ip"), range)?),
        Some(Identifier::Header(matcher)) if about == About::Requests => {
            Condition::Header(Box::new(header_condition(&at.field("header"), matcher)?))
        }
        Some(Identifier::UrlPath(matcher)) if about == About::Requests => path(&at.field("url_path"), matcher)?,
        #[allow(deprecated)]
        Some(Identifier::Metadata(matcher)) if about == About::Requests => metadata(&at.field("metadata"), matcher)?,
        Some(Identifier::SourcedMetadata(message)) if about == About::Requests => {
            sourced(&at.field("sourced_metadata"), message)?
        }
        Some(Identifier::FilterState(_)) => return Err(at.unsupported("filter_state")),
        Some(Identifier::Custom(_)) => return Err(at.unsupported("custom")),
        Some(_) => return Err(at.error("a connection has no headers, path or metadata")),
        None => return Err(at.error("an identifier is required")),
    })
}

fn authenticated(at: &At<'_>, message: &Authenticated) -> Result<Condition, Rejection> {
    fields!(at, message => Authenticated { principal_name; ignore; refuse });
    let name = principal_name.as_ref();
    name.map(|name| string_condition(&at.field("principal_name"), name))
        .transpose()
        .map(Condition::Certificate)
}

fn address(at: &At<'_>, range: &CidrRange) -> Result<AddressRange, Rejection> {
    let ranges = address_ranges(at, std::slice::from_ref(range))?;
    ranges.into_iter().next().ok_or_else(|| at.error("is required"))
}

fn path(at: &At<'_>, message: &PathMatcher) -> Result<Condition, Rejection> {
    match &message.rule {
        Some(PathRule::Path(matcher)) => string_condition(&at.field("path"), matcher).map(Condition::Path),
        None => Err(at.field("path").error("is required")),
    }
}

fn sourced(at: &At<'_>, message: &SourcedMetadata) -> Result<Condition, Rejection> {
    fields!(at, message => SourcedMetadata { metadata_matcher, metadata_source; ignore; refuse });
    if *metadata_source != MetadataSource::Dynamic as i32 {
        return Err(at.unsupported("metadata_source"));
    }
    let at = at.field("metadata_matcher");
    match metadata_matcher {
        Some(matcher) => metadata(&at, matcher),
        None => Err(at.error("is required")),
    }
}

fn metadata(at: &At<'_>, message: &MetadataMatcher) -> Result<Condition, Rejection> {
    metadata_condition(at, message).map(|condition| Condition::Metadata(Box::new(condition)))
}

/// Compiles where something is that filters have found out.
pub(super) fn metadata_path(at: &At<'_>, key: &MetadataKey) -> Result<MetadataPath, Rejection> {
    let list = at.field("path");
    let steps = key.path.iter().enumerate().map(|(index, step)| match &step.segment {
        Some(KeySegment::Key(key)) => Ok(key.as_str().into()),
        _ => Err(list.index(index).error("a key is required")),
    });
    Ok(MetadataPath {
        filter: key.key.as_str().into(),
        path: steps.collect::<Result<_, _>>()?,
    })
}

/// Compiles a condition on what filters have found out.
pub(super) fn metadata_condition(at: &At<'_>, message: &MetadataMatcher) -> Result<MetadataCondition, Rejection> {
    fields!(at, message => MetadataMatcher { filter, path, value, invert; ignore; refuse });
    let list = at.field("path");
    let steps = path.iter().enumerate().map(|(index, step)| match &step.segment {
        Some(Segment::Key(key)) => Ok(key.as_str().into()),
        None => Err(list.index(index).error("a key is required")),
    });
    let at_value = at.field("value");
    let Some(value) = value else {
        return Err(at_value.error("is required"));
    };
    Ok(MetadataCondition {
        filter: filter.as_str().into(),
        path: steps.collect::<Result<_, _>>()?,
        test: test(&at_value, value)?,
        invert: *invert,
    })
}

fn test(at: &At<'_>, message: &ValueMatcher) -> Result<ValueTest, Rejection> {
    use value_matcher::MatchPattern;
    Ok(match &message.match_pattern {
        Some(MatchPattern::NullMatch(_)) => ValueTest::Null,
        Some(MatchPattern::DoubleMatch(DoubleMatcher { match_pattern })) => match match_pattern {
            Some(double_matcher::MatchPattern::Range(range)) => ValueTest::Range(range.start, range.end),
            Some(double_matcher::MatchPattern::Exact(number)) => ValueTest::Number(*number),
            None => return Err(at.field("double_match").error("range or exact is required")),
        },
        Some(MatchPattern::StringMatch(matcher)) => {
            ValueTest::Text(string_condition(&at.field("string_match"), matcher)?)
        }
        Some(MatchPattern::BoolMatch(value)) => ValueTest::Bool(*value),
        Some(MatchPattern::PresentMatch(true)) => ValueTest::Present,
        // As in Envoy, which finds nothing absent by it.
        Some(MatchPattern::PresentMatch(false)) => ValueTest::Never,
        Some(MatchPattern::ListMatch(list)) => {
            let at = at.field("list_match");
            match &list.match_pattern {
                Some(list_matcher::MatchPattern::OneOf(one)) => {
                    ValueTest::Element(Box::new(test(&at.field("one_of"), one)?))
                }
                None => return Err(at.field("one_of").error("is required")),
            }
        }
        Some(MatchPattern::OrMatch(OrMatcher { value_matchers })) => {
            let list = at.field("or_match");
            let tests = value_matchers.iter().enumerate();
            ValueTest::OneOf(
                tests
                    .map(|(index, one)| test(&list.index(index), one))
                    .collect::<Result<_, _>>()?,
            )
        }
        None => return Err(at.error("a pattern is required")),
    })
}
