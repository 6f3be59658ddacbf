//! Resources as they were read, each with the status that was computed for it.

use crate::translate::Outcome;
use anyhow::Result;
use edge_translate::{
    api::{Kind, Object, ObjectKey},
    status::{self, Status, StatusBody},
};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, sync::Arc};

/// Where objects of a kind stand in the output.
enum OutputKey {
    /// In a list under this key.
    List(&'static str),
    /// Alone under the first key; where there are several, all of them in a list under the second.
    Single(&'static str, &'static str),
}

/// The key of a kind; kinds without one have no status of ours and aren't shown.
fn place(kind: Kind) -> Option<OutputKey> {
    Some(match kind {
        Kind::GatewayClass => OutputKey::Single("gatewayClass", "gatewayClasses"),
        Kind::EdgeProxy => OutputKey::Single("edgeProxy", "edgeProxies"),
        Kind::Gateway => OutputKey::List("gateways"),
        Kind::ListenerSet => OutputKey::List("listenerSets"),
        Kind::HttpRoute => OutputKey::List("httpRoutes"),
        Kind::GrpcRoute => OutputKey::List("grpcRoutes"),
        Kind::TlsRoute => OutputKey::List("tlsRoutes"),
        Kind::TcpRoute => OutputKey::List("tcpRoutes"),
        Kind::UdpRoute => OutputKey::List("udpRoutes"),
        Kind::BackendTlsPolicy => OutputKey::List("backendTLSPolicies"),
        Kind::BackendTrafficPolicy => OutputKey::List("backendTrafficPolicies"),
        Kind::ClientTrafficPolicy => OutputKey::List("clientTrafficPolicies"),
        Kind::SecurityPolicy => OutputKey::List("securityPolicies"),
        Kind::EdgeExtensionPolicy => OutputKey::List("edgeExtensionPolicies"),
        Kind::EdgePatchPolicy => OutputKey::List("edgePatchPolicies"),
        Kind::Backend => OutputKey::List("backends"),
        Kind::CustomPolicy => OutputKey::List("extensionServerPolicies"),
        Kind::HttpRouteFilter
        | Kind::ReferenceGrant
        | Kind::Namespace
        | Kind::Service
        | Kind::ServiceImport
        | Kind::EndpointSlice
        | Kind::Secret
        | Kind::ConfigMap
        | Kind::ClusterTrustBundle
        | Kind::Custom => return None,
    })
}

/// The objects by output key, sorted by namespace and name.
pub(super) fn with_statuses(outcome: &Outcome) -> Result<Map<String, Value>> {
    let statuses = computed(outcome);
    let mut objects: BTreeMap<ObjectKey, &Object> = BTreeMap::new();
    for loaded in &outcome.objects {
        objects.insert(loaded.object.key(), &loaded.object);
    }
    let mut shown = Map::new();
    for (key, object) in objects {
        let Some(place) = place(key.kind) else { continue };
        let value = with_status(object, statuses.get(&key).copied(), &outcome.controller_name)?;
        match place {
            OutputKey::List(list) => push(&mut shown, list, value),
            OutputKey::Single(single, _) if !shown.contains_key(single) => {
                shown.insert(single.to_owned(), value);
            }
            OutputKey::Single(single, list) => {
                if !shown.contains_key(list) {
                    let first = shown[single].clone();
                    push(&mut shown, list, first);
                }
                push(&mut shown, list, value);
            }
        }
    }
    Ok(shown)
}

fn push(shown: &mut Map<String, Value>, list: &str, value: Value) {
    if let Value::Array(list) = shown.entry(list).or_insert_with(|| Value::Array(Vec::new())) {
        list.push(value);
    }
}

fn computed(outcome: &Outcome) -> BTreeMap<&ObjectKey, &Arc<Status>> {
    outcome
        .translation
        .statuses
        .iter()
        .filter_map(|(key, status)| Some((key, status.as_ref()?)))
        .filter(|(_, status)| !matches!(status.body, StatusBody::Unattached(_)))
        .collect()
}

/// With what is computed, or else without what we said before and have no reason to say any more.
fn with_status(object: &Object, computed: Option<&Arc<Status>>, controller: &Arc<str>) -> Result<Value> {
    let mut value = object.to_value()?;
    let existing = value.get("status");
    let status = match computed {
        Some(computed) => Some(status_of(existing, computed)),
        None => existing.and_then(|said| {
            let silence = Status::silence(object.key().kind, controller)?;
            Some(status_of(Some(said), &silence))
        }),
    };
    if let Some(status) = status {
        value["status"] = status;
    }
    Ok(value)
}

/// The status to show: what was computed, and what others said. Conditions carry no time, for nothing happened.
pub fn status_of(existing: Option<&Value>, computed: &Status) -> Value {
    status::merge(existing, computed, None)
}
