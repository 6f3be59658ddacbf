//! Which resource a patch is about.

use crate::{
    lower::table_of_name,
    snapshot::{ResourceType, Snapshot, clusters_of},
};
use edge_ir::{Fleet, Origin, Patch, PatchProblem};
use serde_json::Value;
use std::{collections::BTreeSet, sync::Arc};

/// A resource by type and name.
pub(super) type PatchTarget = (ResourceType, Arc<str>);

/// The secret that all who trust the proxy's system share.
const RESERVED: &str = "system_ca_certificates";

/// The resource that a patch names, whether or not it is there.
pub(super) fn target(snapshot: &Snapshot, fleet: &Fleet, patch: &Patch) -> Result<PatchTarget, PatchProblem> {
    let Some(kind) = ResourceType::from_type_url(&patch.type_url) else {
        return Err(PatchProblem::Invalid(format!(
            "unsupported patch type {}",
            patch.type_url
        )));
    };
    if kind == ResourceType::Secret && &*patch.name == RESERVED {
        let message = format!("the secret {RESERVED} is reserved and can't be patched");
        return Err(PatchProblem::Invalid(message));
    }
    if snapshot.section(kind).get(&patch.name).is_some() {
        return Ok((kind, Arc::clone(&patch.name)));
    }
    let meant = match kind {
        ResourceType::Listener => carrier(snapshot, &patch.name),
        ResourceType::Cluster => cluster_of_rule(fleet, &patch.name),
        ResourceType::Routes => table_of_name(snapshot.section(kind), &patch.name).map(|entry| Arc::clone(&entry.name)),
        ResourceType::Endpoints | ResourceType::Secret => None,
    };
    Ok((kind, meant.unwrap_or_else(|| Arc::clone(&patch.name))))
}

/// The resource that carries a listener of a Gateway (`<namespace>/<gateway>/<listener>`) or of a ListenerSet
/// (`<namespace>/<gateway>/<namespace>/<set>/<listener>`).
fn carrier(snapshot: &Snapshot, name: &str) -> Option<Arc<str>> {
    let is_meant = |origin: &Origin| {
        let Some(section) = origin.section.as_deref() else {
            return false;
        };
        let own = format!("{}/{}/{section}", origin.namespace, origin.name);
        match &*origin.kind {
            "Gateway" => name == own,
            "ListenerSet" => name.strip_suffix(&own).is_some_and(|gateway| gateway.ends_with('/')),
            _ => false,
        }
    };
    let mut entries = snapshot.section(ResourceType::Listener).entries().iter();
    let found = entries.find(|entry| entry.origins.iter().any(is_meant))?;
    Some(Arc::clone(&found.name))
}

/// The cluster of a rule (`httproute/<namespace>/<name>/rule/<index>`), when there is exactly one.
fn cluster_of_rule(fleet: &Fleet, name: &str) -> Option<Arc<str>> {
    if !name.starts_with("httproute/") && !name.starts_with("grpcroute/") {
        return None;
    }
    let hosts = fleet.route_tables.iter().flat_map(|table| table.hosts.iter());
    let routes = hosts.flat_map(|host| host.routes.iter());
    let of_rule = routes.filter(|route| route.name.is_below(name));
    let clusters: BTreeSet<&str> = of_rule.flat_map(|route| clusters_of(route)).collect();
    match clusters.len() {
        1 => clusters.first().map(|cluster| Arc::from(*cluster)),
        _ => None,
    }
}

/// The name that a resource gives itself.
pub(super) fn name(kind: ResourceType, value: &Value) -> Option<&str> {
    let field = match kind {
        ResourceType::Endpoints => "cluster_name",
        _ => "name",
    };
    value.get(field)?.as_str()
}

/// The endpoints without which a resource doesn't become usable.
pub(super) fn endpoints(kind: ResourceType, value: &Value) -> Option<&str> {
    if kind != ResourceType::Cluster || value.get("type")?.as_str()? != "EDS" {
        return None;
    }
    let service = value
        .get("eds_cluster_config")
        .and_then(|config| config.get("service_name"));
    service.or_else(|| value.get("name"))?.as_str()
}
