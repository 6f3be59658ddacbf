//! Users with passwords, and keys of clients, from Secrets.

use super::{Guards, header};
use crate::{
    api::{
        Kind, Secret, Text,
        security::{ApiKeyAuth as KeysSpec, BasicAuth as BasicSpec, ExtractFrom, PolicyRef},
    },
    engine::reader::Reader,
    name::Id,
    phase::{
        policies::traffic::Problems,
        reference::{self, SecretRefusal},
    },
};
use base64::{Engine, engine::general_purpose::STANDARD};
use edge_ir::{
    ApiKey, ApiKeyAuth, BasicAuth, FilterEffect, FilterId, FilterInstance, FilterKind, FilterSettings, KeySeen,
    KeySource, SecretBytes,
};
use std::{collections::BTreeMap, sync::Arc};

/// Follows a reference to a Secret that may be read and is there.
pub(super) fn permitted(reader: &Reader<'_>, area: &str, reference: &PolicyRef, problems: &mut Problems) -> Option<Id> {
    let namespace = reference.namespace.as_deref().unwrap_or(&reference.home);
    let name = &reference.name;
    let id = match reference::secret(reader, Kind::SecurityPolicy, &reference.home, &reference.secret()) {
        Ok(id) => id,
        Err(SecretRefusal::Kind) => {
            let (group, kind) = (&reference.group, &reference.kind);
            problems.add(area, format_args!("{group}/{kind} {name} is not a Secret"));
            return None;
        }
        Err(SecretRefusal::NotPermitted) => {
            problems.add(
                area,
                format_args!("ref to Secret {namespace}/{name} not permitted by any ReferenceGrant"),
            );
            return None;
        }
    };
    if reader.secret(id).is_none() {
        problems.add(area, format_args!("secret {namespace}/{name} does not exist"));
        return None;
    }
    Some(id)
}

fn secret<'a>(
    reader: &Reader<'a>,
    area: &str,
    reference: &PolicyRef,
    problems: &mut Problems,
) -> Option<&'a Arc<Secret>> {
    reader.secret(permitted(reader, area, reference, problems)?)
}

/// Key of the users in their Secret.
const USERS: &str = ".htpasswd";
const BASIC: &str = "BasicAuth";

/// Users with passwords.
pub(super) fn basic(reader: &Reader<'_>, spec: &BasicSpec, guards: &mut Guards<'_, '_>, problems: &mut Problems) {
    let forwarded = header(
        BASIC,
        "forwardUsernameHeader",
        spec.forward_username_header.as_deref(),
        problems,
    );
    let Some(found) = secret(reader, BASIC, &spec.users, problems) else {
        return;
    };
    let users = found.data.get(USERS).map(|bytes| &**bytes.expose()).unwrap_or_default();
    let Some(users) = users_of(users, problems) else {
        return;
    };
    let users = BasicAuth {
        users: SecretBytes::new(users.into_bytes()),
    };
    let effect = FilterEffect::BasicAuth(Arc::new(users));
    // What the header is called is a matter of the instance: there is one for each name.
    let Some(name) = forwarded else {
        guards.filters.shared(FilterKind::BasicAuth, effect);
        return;
    };
    let instance = FilterInstance {
        id: FilterId {
            kind: FilterKind::BasicAuth,
            owner: Arc::clone(&name),
        },
        settings: FilterSettings::UserHeader(name),
    };
    guards.filters.instance(instance, Vec::new(), effect);
}

/// The users of a text as htpasswd writes it; none where one of them can't be honoured.
fn users_of(text: &[u8], problems: &mut Problems) -> Option<String> {
    let text = std::str::from_utf8(text).unwrap_or_default();
    let lines = text.lines().map(str::trim);
    let mut users: BTreeMap<&str, &str> = BTreeMap::new();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let fault = match line.split_once(':') {
            None | Some(("", _)) => {
                Some("invalid htpasswd format: each line must be in the format 'username:password'")
            }
            Some((user, password)) => match password.strip_prefix("{SHA}") {
                None => Some("unsupported htpasswd format: please use {SHA}"),
                Some(hash) if !STANDARD.decode(hash).is_ok_and(|hash| hash.len() == 20) => {
                    Some("invalid htpasswd format: {SHA} must be base64-encoded SHA1")
                }
                Some(_) if users.insert(user, password).is_some() => {
                    Some("invalid htpasswd format: a user is listed twice")
                }
                Some(_) => None,
            },
        };
        if let Some(fault) = fault {
            problems.add(BASIC, fault);
            return None;
        }
    }
    if users.is_empty() {
        problems.add(BASIC, format_args!("the Secret has no users under the key `{USERS}`"));
        return None;
    }
    let lines = users.into_iter().map(|(user, password)| format!("{user}:{password}\n"));
    Some(lines.collect())
}

const KEYS: &str = "APIKeyAuth";

/// Keys of clients, and where requests carry them.
pub(super) fn api_keys(reader: &Reader<'_>, spec: &KeysSpec, problems: &mut Problems) -> ApiKeyAuth {
    let mut by_key: BTreeMap<Arc<[u8]>, Arc<str>> = BTreeMap::new();
    let mut clients: BTreeMap<Arc<str>, Arc<[u8]>> = BTreeMap::new();
    for reference in &spec.credential_refs {
        let Some(found) = secret(reader, KEYS, reference, problems) else {
            continue;
        };
        for (client, key) in &found.data {
            let (client, key): (Arc<str>, Arc<[u8]>) = ((&**client).into(), Arc::clone(key.expose()));
            if key.is_empty() || !key.iter().all(u8::is_ascii_graphic) {
                problems.add(KEYS, format_args!("the key of client {client} can't stand in a header"));
                continue;
            }
            // The Secret that is named first has the word about a client.
            if clients.contains_key(&client) {
                continue;
            }
            if by_key.insert(Arc::clone(&key), Arc::clone(&client)).is_some() {
                problems.add(KEYS, "duplicated API key");
            }
            clients.insert(client, key);
        }
    }
    if clients.is_empty() && problems.is_empty() {
        problems.add(KEYS, "the Secrets hold no keys");
    }
    let sources: Vec<KeySource> = spec
        .extract_from
        .iter()
        .flat_map(|one| sources(one, problems))
        .collect();
    if sources.is_empty() {
        problems.add(KEYS, "extractFrom names no place for keys");
    }
    ApiKeyAuth {
        keys: clients
            .into_iter()
            .map(|(client, key)| ApiKey {
                client,
                key: SecretBytes::new(key),
            })
            .collect(),
        sources,
        client_header: header(
            KEYS,
            "forwardClientIDHeader",
            spec.forward_client_id_header.as_deref(),
            problems,
        ),
        seen: match spec.sanitize {
            Some(true) => KeySeen::Removed,
            Some(false) | None => KeySeen::Kept,
        },
    }
}

/// Makes a place of the name of a header, parameter or cookie.
type MakeKeySource = fn(Arc<str>) -> KeySource;

fn sources(from: &ExtractFrom, problems: &mut Problems) -> Vec<KeySource> {
    let lists: [(&[Text], MakeKeySource); 3] = [
        (&from.headers, KeySource::Header),
        (&from.params, KeySource::Query),
        (&from.cookies, KeySource::Cookie),
    ];
    if lists.iter().filter(|(names, _)| !names.is_empty()).count() != 1 {
        problems.add(KEYS, "only one of headers, params or cookies must be specified");
    }
    let named = lists
        .into_iter()
        .flat_map(|(names, place)| names.iter().map(move |name| (name, place)));
    named
        .map(|(name, place)| {
            let name = problems.token(KEYS, "extractFrom", name);
            place(name)
        })
        .collect()
}
