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
        let value = match statuses.get(&key) {
            Some(computed) => with_status(object, Some(computed))?,
            None => with_status(object, Status::silence(key.kind, &outcome.controller_name).as_ref())?,
        };
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

/// What is computed, or else that we have nothing to say any more of what stands there.
fn with_status(object: &Object, computed: Option<&Status>) -> Result<Value> {
    let mut value = object.to_value()?;
    if let Some(computed) = computed.filter(|computed| value.get("status").is_some() || !is_silent(computed)) {
        value["status"] = status_of(value.get("status"), computed);
    }
    Ok(value)
}

fn is_silent(status: &Status) -> bool {
    match &status.body {
        StatusBody::Parents { parents, .. } => parents.is_empty(),
        StatusBody::Ancestors { ancestors, .. } => ancestors.is_empty(),
        _ => false,
    }
}

/// The status to show: what was computed, and what others said. Conditions carry no time, for nothing happened.
pub fn status_of(existing: Option<&Value>, computed: &Status) -> Value {
    status::merge(existing, computed, None)
}
