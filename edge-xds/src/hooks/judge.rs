//! What a service gave back, judged before it is served: it must be what it was asked about, still.
//!
//! What can't be read as its type, whatever stands inside it by name of its type included, is refused here and not by
//! proxies. Maps are put into one order, because each program writes them in its own, and equal content is one version.

use super::{
    Hook, Resources,
    split::{self, NAME, ROUTE_NAME},
};
use crate::{
    json::{Codec, Names},
    snapshot::ResourceType,
};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

impl Hook {
    /// The type of what it is asked about.
    fn message(self) -> &'static str {
        match self {
            Self::Route => "envoy.config.route.v3.Route",
            Self::VirtualHost => "envoy.config.route.v3.VirtualHost",
            Self::HttpListener => ResourceType::Listener.type_url(),
            Self::Cluster => ResourceType::Cluster.type_url(),
            Self::Endpoints => ResourceType::Endpoints.type_url(),
            Self::Translation => ResourceType::Routes.type_url(),
        }
    }

    fn name_field(self) -> u32 {
        match self {
            Self::Route => ROUTE_NAME,
            _ => NAME,
        }
    }
}

/// What is served of what a service gave back for one resource: what was asked about, where it says nothing else.
pub fn judge(hook: Hook, asked: &Bytes, returned: Option<Bytes>) -> Result<Bytes, String> {
    let Some(returned) = returned.filter(|returned| returned != asked) else {
        return Ok(asked.clone());
    };
    let bytes = canonical(hook.message(), &returned)?;
    let name = |bytes: &Bytes| -> Option<String> {
        let fields = split::fields(bytes)?;
        split::text(&fields, hook.name_field()).map(str::to_owned)
    };
    let (before, after) = (name(asked).unwrap_or_default(), name(&bytes).unwrap_or_default());
    if before != after {
        return Err(format!("the name must stay `{before}`, and is `{after}`"));
    }
    let is_same = canonical(hook.message(), asked).is_ok_and(|asked| asked == bytes);
    Ok(if is_same { asked.clone() } else { bytes })
}

/// What is served of what a service gave back for a whole fleet. Of kinds that it was asked about it gives all, of
/// others what it adds.
pub fn judge_all(asked: &Resources, returned: Resources) -> Result<Resources, String> {
    let mut all = Resources::new();
    for (kind, resources) in returned {
        if kind == ResourceType::Endpoints {
            continue;
        }
        let before: BTreeMap<String, &Bytes> = asked
            .get(&kind)
            .into_iter()
            .flatten()
            .filter_map(|bytes| Some((name_of(bytes)?, bytes)))
            .collect();
        let mut names = BTreeSet::new();
        let mut judged = Vec::with_capacity(resources.len());
        for resource in resources {
            let known = name_of(&resource).and_then(|name| before.get(&name).copied());
            let bytes = match known {
                Some(known) => judge_kind(kind, known, &resource)?,
                None => canonical(kind.type_url(), &resource)?,
            };
            let name = name_of(&bytes).filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| format!("a resource of type {} has no name", kind.type_url()))?;
            if !names.insert(name.clone()) {
                return Err(format!("there are two resources `{name}` of type {}", kind.type_url()));
            }
            judged.push(bytes);
        }
        all.insert(kind, judged);
    }
    Ok(all)
}

fn judge_kind(kind: ResourceType, asked: &Bytes, returned: &Bytes) -> Result<Bytes, String> {
    if asked == returned {
        return Ok(asked.clone());
    }
    let bytes = canonical(kind.type_url(), returned)?;
    let is_same = canonical(kind.type_url(), asked).is_ok_and(|asked| asked == bytes);
    Ok(if is_same { asked.clone() } else { bytes })
}

/// The name of a resource of any kind.
pub(super) fn name_of(resource: &Bytes) -> Option<String> {
    let fields = split::fields(resource)?;
    split::text(&fields, NAME).map(str::to_owned)
}

fn canonical(name: &str, bytes: &Bytes) -> Result<Bytes, String> {
    let codec = Codec::cached().map_err(|error| error.to_string())?;
    let checked = codec.bytes_to_json(name, bytes, Names::Proto);
    let sorted = checked.and_then(|_| codec.with_sorted_maps(name, bytes));
    sorted.map(Bytes::from).map_err(|error| error.to_string())
}
