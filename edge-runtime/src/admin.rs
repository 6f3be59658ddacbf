//! The controller's own pages: admin, health and metrics.
//!
//! Each is a function from a request to an answer over the published state; the sockets are [`crate::http`]'s. The
//! admin pages show everything but secrets' contents, and are bound to loopback unless the configuration says
//! otherwise. Deliberately absent: pages that change anything, and profiling.

use crate::{
    http::{Query, Reply, json, reply, text},
    metrics::Metrics,
    state::{AdminAddresses, Availability, FleetState, Input, Published, Report, Reports},
    status::{DocumentRequest, to_yaml},
    task::Failures,
};
use edge_translate::api::{Kind, Object};
use edge_xds::snapshot::{ResourceType, version_text};
use http::StatusCode;
use serde_json::{Map, Value, json as object};
use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Instant};
use tokio::sync::{mpsc, oneshot, watch};

/// What the pages show.
#[derive(Clone, Debug)]
pub struct Pages {
    /// The latest state.
    pub published: watch::Receiver<Option<Arc<Published>>>,
    /// What a provider waits for before anything is published, and what it can't follow afterwards.
    pub awaited: watch::Receiver<Option<Arc<str>>>,
    /// Who knows the resources.
    pub world: mpsc::Sender<Input>,
    /// Tasks that have failed.
    pub failures: watch::Receiver<Failures>,
    /// How the proxies are.
    pub reports: watch::Receiver<Option<Reports>>,
    /// Where those of this machine answer.
    pub admins: watch::Receiver<AdminAddresses>,
    /// Who knows the statuses.
    pub status: mpsc::Sender<DocumentRequest>,
    /// Measurements.
    pub metrics: Arc<Metrics>,
    /// What is known about the process.
    pub info: Arc<Value>,
    /// When it started.
    pub started: Instant,
}

/// What stands in the place of a secret.
const REDACTED: &str = "[redacted]";

const OVERVIEW: &str = "Edge Gateway controller\n\n\
    /status              statuses of all objects and findings (YAML; ?format=json)\n\
    /config_dump         what the fleets are served: names, versions, where from\n\
    /server_info         version, addresses, uptime, proxies\n\
    /stats               metrics of the controller\n\
    /api/info            same as /server_info\n\
    /api/config_dump     resources in force with their statuses, and findings (?resource=<kind> for one kind)\n\
    /api/metrics         same as /stats\n";

impl Pages {
    /// A page of the admin interface.
    pub async fn admin(self, query: Query) -> Reply {
        match query.path.as_str() {
            "/" => text(StatusCode::OK, OVERVIEW),
            "/server_info" | "/api/info" | "/api/server_info" => pretty(&self.server_info()),
            "/config_dump" => pretty(&self.config_dump()),
            "/stats" | "/api/metrics" => self.metrics_page(),
            "/status" => match (self.statuses().await, query.param("format")) {
                (None, _) => unavailable(),
                (Some(document), Some("json")) => pretty(&document),
                (Some(document), _) => reply(StatusCode::OK, "application/yaml", to_yaml(&document)),
            },
            "/api/config_dump" => match self.resources(query.param("resource").unwrap_or("all")).await {
                None => unavailable(),
                Some(document) => pretty(&document),
            },
            _ => text(StatusCode::NOT_FOUND, "no such page; / lists them\n"),
        }
    }

    /// A page of the health interface: alive as long as it answers, ready after the first translation and while every
    /// task runs. A watch that fails later is told and keeps nobody from being ready: all replicas would leave at once,
    /// and take their configuration from proxies that start, for a fault that none of them can mend.
    pub async fn health(self, query: Query) -> Reply {
        match query.path.as_str() {
            "/healthz" => text(StatusCode::OK, "ok\n"),
            "/readyz" => self.readiness(),
            _ => text(StatusCode::NOT_FOUND, "try /healthz or /readyz\n"),
        }
    }

    /// A page of the metrics interface.
    pub async fn metrics(self, query: Query) -> Reply {
        match query.path.as_str() {
            "/metrics" => self.metrics_page(),
            _ => text(StatusCode::NOT_FOUND, "try /metrics\n"),
        }
    }

    fn readiness(&self) -> Reply {
        let failures = self.failures.borrow();
        let down = failures
            .down
            .iter()
            .map(|(task, how)| format!("the task `{task}` {how}\n"));
        let mut problems: Vec<String> = down.collect();
        let awaited = self.awaited.borrow().as_ref().map(|awaited| format!("{awaited}\n"));
        let awaited = awaited.unwrap_or_default();
        if self.published.borrow().is_none() {
            problems.push(format!("the first translation isn't done yet\n{awaited}"));
        }
        match problems.is_empty() {
            true => text(StatusCode::OK, format!("ok\n{awaited}")),
            false => text(StatusCode::SERVICE_UNAVAILABLE, problems.concat()),
        }
    }

    fn metrics_page(&self) -> Reply {
        reply(
            StatusCode::OK,
            "text/plain; version=0.0.4; charset=utf-8",
            self.metrics.render(),
        )
    }

    async fn statuses(&self) -> Option<Value> {
        let (sender, answer) = oneshot::channel();
        self.status.send(sender).await.ok()?;
        answer.await.ok()
    }

    /// The resources in force, of one kind or of all.
    async fn resources(&self, kind: &str) -> Option<Value> {
        let (reply, answer) = oneshot::channel();
        self.world.send(Input::ListObjects(reply)).await.ok()?;
        let objects = answer.await.ok()?;
        let mut document = self.statuses().await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let entries = document["resources"].take();
        let entries = entries.as_array().into_iter().flatten();
        let mut statuses: BTreeMap<[String; 3], Value> = entries
            .map(|entry| {
                let name = [&entry["kind"], &entry["namespace"], &entry["name"]].map(text);
                (name, entry["status"].clone())
            })
            .collect();
        let wanted = objects
            .values()
            .filter(|object| kind == "all" || object.kind().as_str().eq_ignore_ascii_case(kind));
        document["resources"] = wanted.filter_map(|object| shown(object, &mut statuses)).collect();
        Some(document)
    }

    fn server_info(&self) -> Value {
        let mut info = Value::clone(&self.info);
        info["uptimeSeconds"] = self.started.elapsed().as_secs().into();
        info["ready"] = self.published.borrow().is_some().into();
        let admins = self.admins.borrow().clone();
        info["proxies"] = match &*self.reports.borrow() {
            Some(reports) => reports
                .iter()
                .map(|(fleet, report)| proxy(fleet, report, admins.get(fleet)))
                .collect(),
            None => Value::Null,
        };
        info
    }

    fn config_dump(&self) -> Value {
        let published = self.published.borrow().clone();
        let fleets = published.iter().flat_map(|published| &published.fleets);
        let dumps: Map<String, Value> = fleets.map(|(key, fleet)| (key.to_string(), dump(fleet))).collect();
        object!({ "fleets": dumps })
    }
}

fn proxy(fleet: &str, report: &Report, admin: Option<&SocketAddr>) -> Value {
    let (state, reason) = match &report.availability {
        Availability::Starting => ("starting", None),
        Availability::Available(_) => ("available", None),
        Availability::Unavailable(reason) => ("unavailable", Some(Arc::clone(reason))),
        Availability::Failed(reason) => ("failed", Some(Arc::clone(reason))),
    };
    object!({ "fleet": fleet, "state": state, "reason": reason, "admin": admin })
}

fn dump(fleet: &FleetState) -> Value {
    let section = |kind: ResourceType| -> Value {
        let entries = fleet.snapshot.section(kind).entries().iter();
        let entry = |entry: &Arc<edge_xds::snapshot::Entry>| {
            let origins: Vec<String> = entry.origins.iter().map(ToString::to_string).collect();
            object!({ "name": entry.name, "version": version_text(entry.version), "from": origins })
        };
        entries.map(entry).collect()
    };
    object!({
        "clusters": section(ResourceType::Cluster),
        "endpoints": section(ResourceType::Endpoints),
        "secrets": section(ResourceType::Secret),
        "listeners": section(ResourceType::Listener),
        "routes": section(ResourceType::Routes),
        "infra": fleet.infra,
    })
}

/// An object as it is shown: with its status, and without anything secret.
fn shown(object: &Object, statuses: &mut BTreeMap<[String; 3], Value>) -> Option<Value> {
    let key = object.key();
    let mut value = object.to_value().ok()?;
    if key.kind == Kind::Secret {
        // In annotations tools keep copies of what they applied (kubectl's `last-applied-configuration`, for one).
        for map in ["/data", "/metadata/annotations"] {
            value.pointer_mut(map).map(redact);
        }
    }
    let name = [key.kind.as_str(), &*key.namespace, &*key.name].map(str::to_owned);
    if let Some(status) = statuses.remove(&name) {
        value["status"] = status;
    }
    Some(value)
}

/// Leaves of a map its keys.
fn redact(map: &mut Value) {
    for value in map.as_object_mut().into_iter().flat_map(Map::values_mut) {
        *value = REDACTED.into();
    }
}

fn pretty(value: &Value) -> Reply {
    match serde_json::to_string_pretty(value) {
        Ok(text) => json(text + "\n"),
        Err(error) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("can't be written as JSON: {error}\n"),
        ),
    }
}

fn unavailable() -> Reply {
    text(StatusCode::SERVICE_UNAVAILABLE, "the controller is stopping\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_translate::load::from_value;

    #[test]
    fn a_secret_is_shown_by_its_names_alone() {
        let secret = object!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": { "key": "aHVzaA==" },
            "metadata": { "name": "s", "namespace": "n", "annotations": { "kapp.k14s.io/original": "{hush}" } },
        });
        let (secret, _) = from_value(&secret).unwrap();
        let shown = shown(&secret, &mut BTreeMap::new()).unwrap();
        assert_eq!(shown["data"]["key"], REDACTED);
        assert_eq!(shown["metadata"]["annotations"]["kapp.k14s.io/original"], REDACTED);
        assert_eq!(shown["metadata"]["name"], "s");
    }
}
