//! ApiKeyAuth → [`ApiKeyAuth`].

use envoy_types::pb::envoy::extensions::filters::http::api_key_auth::v3::{
    ApiKeyAuth as ProtoAuth, ApiKeyAuthPerRoute, Credential, Forwarding as ProtoForwarding, KeySource as ProtoSource,
};
use envoy_types::pb::google::protobuf::Any;

use crate::compile::Context;
use crate::compile::field::{At, Rejection, fields, unpack};
use crate::compile::template::header_name;
use crate::config::filter::api_key::{ApiKeyAuth, Forwarding, KeySource, Keys};
use crate::config::filter::{FilterKind, FilterSettings};

/// Compiles the filter of a chain.
pub(super) fn on_chain(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterKind, Rejection> {
    let message: ProtoAuth = unpack(at, config)?;
    fields!(at, &message => ProtoAuth { credentials, key_sources, forwarding; ignore; refuse });
    auth(at, credentials, key_sources, forwarding.as_ref(), &[]).map(FilterKind::ApiKeyAuth)
}

/// Compiles what a route says.
pub(super) fn of_route(at: &At<'_>, config: &Any, _: &mut Context) -> Result<FilterSettings, Rejection> {
    let message: ApiKeyAuthPerRoute = unpack(at, config)?;
    fields!(at, &message => ApiKeyAuthPerRoute {
        credentials, key_sources, allowed_clients, forwarding; ignore; refuse
    });
    auth(at, credentials, key_sources, forwarding.as_ref(), allowed_clients).map(FilterSettings::ApiKeyAuth)
}

fn auth(
    at: &At<'_>,
    credentials: &[Credential],
    sources: &[ProtoSource],
    forwarding: Option<&ProtoForwarding>,
    clients: &[String],
) -> Result<ApiKeyAuth, Rejection> {
    let list = at.field("key_sources");
    let sources = sources.iter().enumerate();
    Ok(ApiKeyAuth {
        keys: (!credentials.is_empty())
            .then(|| keys(&at.field("credentials"), credentials))
            .transpose()?,
        sources: sources
            .map(|(index, one)| source(&list.index(index), one))
            .collect::<Result<_, _>>()?,
        forwarding: forwarding
            .map(|message| self::forwarding(&at.field("forwarding"), message))
            .transpose()?,
        clients: clients.iter().map(|client| client.as_str().into()).collect(),
    })
}

/// What is wrong is told without the key: it is a secret.
fn keys(at: &At<'_>, credentials: &[Credential]) -> Result<Keys, Rejection> {
    let mut keys = Keys::default();
    for (index, credential) in credentials.iter().enumerate() {
        let at = at.index(index);
        fields!(at, credential => Credential { key, client; ignore; refuse });
        if key.is_empty() {
            return Err(at.field("key").error("is required"));
        }
        if client.is_empty() {
            return Err(at.field("client").error("is required"));
        }
        if keys.0.insert(key.as_str().into(), client.as_str().into()).is_some() {
            return Err(at.field("key").error("is there already"));
        }
    }
    Ok(keys)
}

fn source(at: &At<'_>, message: &ProtoSource) -> Result<KeySource, Rejection> {
    fields!(at, message => ProtoSource { header, query, cookie; ignore; refuse });
    if !header.is_empty() {
        header_name(&at.field("header"), header).map(KeySource::Header)
    } else if !query.is_empty() {
        Ok(KeySource::Query(query.as_str().into()))
    } else if !cookie.is_empty() {
        Ok(KeySource::Cookie(cookie.as_str().into()))
    } else {
        Err(at.error("header, query or cookie is required"))
    }
}

fn forwarding(at: &At<'_>, message: &ProtoForwarding) -> Result<Forwarding, Rejection> {
    fields!(at, message => ProtoForwarding { header, hide_credentials; ignore; refuse });
    Ok(Forwarding {
        client: (!header.is_empty())
            .then(|| header_name(&at.field("header"), header))
            .transpose()?,
        hides_key: *hide_credentials,
    })
}
