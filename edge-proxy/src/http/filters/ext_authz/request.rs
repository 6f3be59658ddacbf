//! A service that is asked by a request like the one that it is about.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{Changes, Decision, Denial, is_of_message};
use crate::calls::ask::ServiceReply;
use crate::config::filter::ext_authz::{Authorizer, AuthorizerPath};
use crate::config::header::PutAction;
use crate::config::header::StringCondition;
use crate::message::head::Head;

const TO_REMOVE: HeaderName = HeaderName::from_static("x-envoy-auth-headers-to-remove");

/// What a service is asked: host, method and path, the credentials, and the headers that it may see. `None` where that
/// is no request.
pub(super) fn head(
    filter: &Authorizer,
    path: &AuthorizerPath,
    added: &[(HeaderName, HeaderValue)],
    of: &Head,
) -> Option<Head> {
    let mut head = Head {
        method: of.method.clone(),
        scheme: "http",
        // As from Envoy, it is told whose host it decides about; where it is is the cluster's to know.
        authority: of.authority.clone(),
        target: of.target.clone(),
        headers: HeaderMap::new(),
        random: 0,
        client: None,
        spelling: None,
    };
    let target = match path {
        AuthorizerPath::Behind(prefix) => format!("{prefix}{}", of.target.as_str()),
        AuthorizerPath::Fixed(path) => path.to_string(),
    };
    head.set_target(&target).ok()?;
    for (name, value) in &of.headers {
        let is_allowed = name == AUTHORIZATION || filter.allowed.iter().any(|allowed| matches(allowed, name));
        if is_allowed && !matches(&filter.disallowed, name) && !is_of_message(name) {
            head.headers.append(name, value.clone());
        }
    }
    for (name, value) in added {
        head.headers.insert(name, value.clone());
    }
    Some(head)
}

fn matches(conditions: &[StringCondition], name: &HeaderName) -> bool {
    conditions.iter().any(|condition| condition.matches(name.as_str()))
}

/// Names that a service says the backend must not get.
fn removed(fields: &HeaderMap) -> Vec<HeaderName> {
    let lists = fields.get_all(TO_REMOVE).into_iter();
    let names = lists.flat_map(|list| list.as_bytes().split(|byte| *byte == b','));
    let names = names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok());
    names.filter(|name| !is_of_message(name)).collect()
}

/// What a service has said. `lists`: which of its headers the backend gets, in place of others and beside them, and the
/// client, of a refusal and otherwise.
pub(super) fn decision(told: &ServiceReply, lists: [&[StringCondition]; 4]) -> Decision {
    let [to_backend, to_backend_too, to_client, on_success] = lists;
    // An error of the service is no decision.
    if told.status.is_server_error() {
        return Decision::Nothing;
    }
    let those = |list: &[StringCondition]| {
        let fields = told.fields.iter();
        let fields = fields.filter(|(name, _)| !is_of_message(name) && matches(list, name));
        fields
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect::<Vec<_>>()
    };
    if told.status == http::StatusCode::OK {
        return Decision::Allowed(Changes {
            set: those(to_backend),
            added: those(to_backend_too),
            removed: removed(&told.fields),
            told: those(on_success)
                .into_iter()
                .map(|(name, value)| (name, value, PutAction::Append))
                .collect(),
            ..Changes::default()
        });
    }
    let always = ["www-authenticate", "location", "content-type"];
    let fields = told.fields.iter().filter(|(name, _)| {
        !is_of_message(name) && (to_client.is_empty() || matches(to_client, name) || always.contains(&name.as_str()))
    });
    Decision::Denied(Denial {
        // As in Envoy: whoever reads a success would take for done what was refused.
        status: match told.status.is_success() {
            true => http::StatusCode::FORBIDDEN,
            false => told.status,
        },
        fields: fields.map(|(name, value)| (name.clone(), value.clone())).collect(),
        body: told.body.clone(),
    })
}
