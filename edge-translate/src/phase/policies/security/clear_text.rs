//! URLs that begin with `https` and are asked in clear text: whether a backend is spoken to in TLS is said by a
//! BackendTLSPolicy or by a Backend itself, and not by the URL that it is asked for. An identity provider in the
//! cluster is often asked in clear, by the name that clients know, so the policy stands and says so.

use super::KIND;
use crate::{
    api::{
        Generic,
        security::{SecuritySettings, Services},
    },
    engine::reader::Reader,
    load::typed::typed_fields,
    phase::policies::{services, written::homed},
};

/// What of a policy is asked so, a sentence each.
pub(crate) fn asked_in_clear(reader: &Reader<'_>, policy: &Generic) -> Vec<String> {
    // What nearly no policy has needs no closer look.
    if policy.spec["jwt"].is_null() && policy.spec["oidc"].is_null() {
        return Vec::new();
    }
    let Ok(settings) = typed_fields::<SecuritySettings>(&homed(policy)) else {
        return Vec::new();
    };
    let providers = settings.jwt.iter().flat_map(|jwt| &jwt.providers).enumerate();
    let mut told: Vec<String> = providers
        .filter_map(|(n, provider)| {
            let keys = provider.remote_jwks.as_deref()?;
            let place = format!("spec.jwt.providers[{n}].remoteJWKS");
            warning(reader, &place, &keys.uri, &keys.services())
        })
        .collect();
    told.extend(settings.oidc.as_deref().and_then(|oidc| {
        let provider = &oidc.provider;
        // What an issuer names is asked as safely as the issuer.
        let url = provider.token_endpoint.as_ref().unwrap_or(&provider.issuer);
        warning(reader, "spec.oidc.provider", url, &provider.services())
    }));
    told
}

fn warning(reader: &Reader<'_>, place: &str, url: &str, services: &Services<'_>) -> Option<String> {
    if !url.starts_with("https://") {
        return None;
    }
    let in_clear: Vec<String> = services
        .references
        .iter()
        .filter(|one| one.weight != Some(0) && services::is_in_clear(reader, KIND, one))
        .map(|one| {
            let namespace = one.namespace.as_deref().unwrap_or(&one.home);
            format!("{} {namespace}/{}", one.kind, one.name)
        })
        .collect();
    (!in_clear.is_empty()).then(|| {
        format!(
            "{place}.backendRefs: {url} is asked in clear text, as nothing says that {} speaks TLS: a BackendTLSPolicy \
             does",
            in_clear.join(", ")
        )
    })
}
