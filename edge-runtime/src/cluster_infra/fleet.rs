//! One fleet: brings its objects in line with what is wanted, by server-side apply, and says how it is doing.
//!
//! A task of its own, so that what goes wrong with one fleet holds up no other. It looks at its objects whenever what is
//! wanted or what is there changes, writes only what differs, and tries again with growing pauses what failed.

use super::{
    Rendering,
    cover::covers,
    seen::{ObjectId, Seen, View, resource},
};
use crate::{
    backoff::Backoff,
    cluster::{FIELD_MANAGER, fault::Trouble, fault::describe},
    state::{Address, Availability, Report, Reports},
};
use edge_infra::{CONTROLLER, FLEET, Object, ObjectKind, REVISION};
use edge_ir::{FleetKey, Infra};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, Error,
    api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions},
    core::DynamicObject,
};
use serde_json::Value;
use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};
use tokio::{sync::watch, time};

/// The first and the longest pause after something has failed.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(60));

/// What a fleet's task works from.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    /// What is wanted; nothing: everything of it is to go.
    pub(super) wanted: Option<(Arc<Infra>, Arc<Rendering>)>,
    /// What is there.
    pub(super) view: View,
}

/// The task of a fleet.
pub(super) struct Fleet {
    pub(super) key: FleetKey,
    pub(super) client: Client,
    pub(super) reports: Arc<watch::Sender<Option<Reports>>>,
    /// Objects as they were after we had applied them, for those that never look as they were asked for, because the API
    /// server writes a value in another way.
    pub(super) settled: BTreeMap<ObjectId, (Value, u64)>,
    pub(super) trouble: Trouble,
}

impl Fleet {
    /// Works until everything of a fleet that isn't wanted any more is gone, or until nobody gives it work.
    pub(super) async fn run(mut self, mut work: watch::Receiver<Work>) -> FleetKey {
        let mut backoff = PAUSES;
        loop {
            let now = work.borrow_and_update().clone();
            let done = self.bring(&now).await;
            self.tell(&now, done.as_ref().err()).await;
            if done.is_ok() && now.wanted.is_none() && now.view.is_empty() {
                break;
            }
            let pause = match &done {
                Ok(()) => {
                    backoff.reset();
                    None
                }
                Err(_) => Some(backoff.pause()),
            };
            let again = async {
                match pause {
                    Some(pause) => time::sleep(pause).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = work.changed() => if changed.is_err() { break },
                () = again => {}
            }
        }
        self.key
    }

    /// Writes what differs and deletes what isn't wanted. The first fault is told; it doesn't keep the rest from being
    /// tried.
    async fn bring(&mut self, work: &Work) -> Result<(), String> {
        let objects = match &work.wanted {
            Some((infra, rendering)) => rendering.objects(infra)?,
            None => Vec::new(),
        };
        let mut fault = None;
        for object in &objects {
            fault = fault.or(self.apply(object, &work.view).await.err());
        }
        // Nothing goes before what takes its place is there.
        if fault.is_none() {
            for (id, seen) in work.view.iter().filter(|(_, seen)| !seen.leaves) {
                let stays = objects.iter().any(|object| is_same(object, id));
                if !stays && !self.keeps(work, id) {
                    fault = fault.or(self.delete(id, seen).await.err());
                }
            }
        }
        fault.map_or(Ok(()), Err)
    }

    /// A Service without a port can't be asked for, and one that goes takes its address with it: while no listener serves
    /// it stays as it is.
    fn keeps(&self, work: &Work, id: &ObjectId) -> bool {
        let no_port = work.wanted.as_ref().is_some_and(|(infra, _)| infra.ports.is_empty());
        no_port && id.kind == ObjectKind::Service
    }

    async fn apply(&mut self, object: &Object, view: &View) -> Result<(), String> {
        let id = ObjectId {
            kind: object.kind,
            namespace: Arc::clone(&object.namespace),
            name: Arc::clone(&object.name),
        };
        let mark = object.body["metadata"]["annotations"][REVISION].clone();
        if let Some(seen) = view.get(&id) {
            let settled = self.settled.get(&id) == Some(&(mark.clone(), seen.fingerprint));
            if settled || covers(&seen.object, &object.body) {
                return Ok(());
            }
        }
        let failed = |error: Error| format!("{} {}: {}", id.kind.as_str(), id.name, describe(&error));
        let api = self.api(&id);
        if !view.contains_key(&id)
            && let Some(found) = api.get_opt(&id.name).await.map_err(failed)?
        {
            check_owner(&found, object)?;
        }
        let parameters = PatchParams::apply(FIELD_MANAGER).force().validation_strict();
        let applied = api
            .patch(&id.name, &parameters, &Patch::Apply(&object.body))
            .await
            .map_err(failed)?;
        tracing::info!(fleet = %self.key, kind = id.kind.as_str(), name = %id.name, "applied");
        let seen = Seen::new(id.kind, applied);
        self.settled.insert(id, (mark, seen.fingerprint));
        Ok(())
    }

    async fn delete(&mut self, id: &ObjectId, seen: &Seen) -> Result<(), String> {
        let precise = Preconditions {
            uid: Some(seen.uid.clone()),
            resource_version: None,
        };
        let parameters = DeleteParams::background().preconditions(precise);
        match self.api(id).delete(&id.name, &parameters).await {
            Ok(_) => tracing::info!(fleet = %self.key, kind = id.kind.as_str(), name = %id.name, "deleted"),
            // It has gone by itself, or made place for another one.
            Err(Error::Api(status)) if [404, 409].contains(&status.code) => {}
            Err(error) => return Err(format!("{} {}: {}", id.kind.as_str(), id.name, describe(&error))),
        }
        self.settled.remove(id);
        Ok(())
    }

    fn api(&self, id: &ObjectId) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &id.namespace, &resource(id.kind))
    }

    async fn tell(&mut self, work: &Work, fault: Option<&String>) {
        match fault {
            Some(fault) if self.trouble.is_news(fault) => {
                tracing::warn!(fleet = %self.key, "the objects of its proxies can't be made as wanted: {fault}");
            }
            None if self.trouble.is_over() => {
                tracing::info!(fleet = %self.key, "the objects of its proxies are as wanted")
            }
            _ => {}
        }
        let report = match &work.wanted {
            Some((infra, _)) => Some(self.report(infra, &work.view, fault).await),
            None => None,
        };
        self.reports.send_if_modified(|reports| {
            let Some(reports) = reports else { return false };
            match report {
                Some(report) if reports.get(&self.key) == Some(&report) => false,
                Some(report) => {
                    reports.insert(self.key.clone(), report);
                    true
                }
                None => reports.remove(&self.key).is_some(),
            }
        });
    }

    async fn report(&self, infra: &Infra, view: &View, fault: Option<&String>) -> Report {
        let of = |kinds: &[ObjectKind]| view.iter().find(|(id, _)| kinds.contains(&id.kind));
        let (replicas, available) = of(&[ObjectKind::Deployment, ObjectKind::DaemonSet])
            .map_or((0, 0), |(id, workload)| workload.pods(id.kind));
        let addresses = match of(&[ObjectKind::Service]) {
            Some((_, service)) => {
                let is_on_nodes = service.object.pointer("/spec/type").and_then(Value::as_str) == Some("NodePort");
                let nodes = if is_on_nodes { self.nodes().await } else { Vec::new() };
                service.addresses(&infra.addresses, &nodes)
            }
            None => Vec::new(),
        };
        let availability = match (fault, available) {
            (Some(fault), _) => Availability::Failed(fault.as_str().into()),
            (None, 0) => Availability::Starting,
            (None, available) => Availability::Available(available),
        };
        Report {
            availability,
            replicas,
            addresses,
            admin: None,
        }
    }

    /// Addresses of the nodes, those that are reached from outside before the others.
    async fn nodes(&self) -> Vec<Address> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let list = match nodes.list(&ListParams::default()).await {
            Ok(list) => list,
            Err(error) => {
                tracing::warn!("the addresses of nodes can't be read: {}", describe(&error));
                return Vec::new();
            }
        };
        let of_kind = |kind: &str| -> Vec<Address> {
            let addresses = list
                .items
                .iter()
                .filter_map(|node| node.status.as_ref()?.addresses.as_ref());
            let addresses = addresses.flatten().filter(|address| address.type_ == kind);
            let numbers = addresses.filter_map(|address| address.address.parse::<IpAddr>().ok());
            numbers.map(Address::Ip).collect()
        };
        match of_kind("ExternalIP") {
            external if !external.is_empty() => external,
            _ => of_kind("InternalIP"),
        }
    }
}

fn is_same(object: &Object, id: &ObjectId) -> bool {
    (object.kind, &object.namespace, &object.name) == (id.kind, &id.namespace, &id.name)
}

/// An object of that name that isn't this fleet's isn't touched.
fn check_owner(found: &DynamicObject, wanted: &Object) -> Result<(), String> {
    let label = |name: &str| found.metadata.labels.as_ref().and_then(|labels| labels.get(name));
    let annotation = |name: &str| found.metadata.annotations.as_ref().and_then(|all| all.get(name));
    let labels = wanted.body["metadata"]["labels"].as_object();
    let labelled = labels.into_iter().flatten().filter(|(name, _)| is_owner_label(name));
    let is_labelled = labelled.clone().count() > 0
        && labelled
            .into_iter()
            .all(|(name, value)| label(name).map(String::as_str) == value.as_str());
    // What has lost its marks is known by its labels, and the other way round.
    let marks = &wanted.body["metadata"]["annotations"];
    let is_marked = |mark: &str| annotation(mark).map(|value| marks[mark] == **value);
    match [CONTROLLER, FLEET].map(is_marked) {
        [Some(true), Some(true)] => return Ok(()),
        [Some(false), _] | [_, Some(false)] => {}
        _ if is_labelled => return Ok(()),
        _ => {}
    }
    Err(format!(
        "{} {}/{} exists and is not of this Gateway: rename or delete it, or give this Gateway's another name in an EdgeProxy",
        wanted.kind.as_str(),
        wanted.namespace,
        wanted.name,
    ))
}

/// Labels by which an object tells whose it is.
fn is_owner_label(name: &str) -> bool {
    name == "app.kubernetes.io/managed-by" || name.starts_with("gateway.edge/owning-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_is_known_by_its_marks_or_by_its_labels_and_a_foreign_one_is_left_alone() {
        let labels = json!({"app.kubernetes.io/managed-by": "edge-gateway", "gateway.edge/owning-gateway-name": "g"});
        let marks = json!({CONTROLLER: "c", FLEET: "ns/g", REVISION: "1"});
        let wanted = Object {
            kind: ObjectKind::Service,
            namespace: "ns".into(),
            name: "n".into(),
            body: json!({"metadata": {"labels": labels, "annotations": marks}}),
        };
        let found = |labels: &Value, annotations: Value| -> Result<(), String> {
            let found = json!({"metadata": {"name": "n", "labels": labels, "annotations": annotations}});
            check_owner(&serde_json::from_value(found).unwrap(), &wanted)
        };
        let none = json!({});
        assert_eq!(found(&labels, marks.clone()), Ok(()));
        assert_eq!(found(&none, marks.clone()), Ok(()), "somebody took the labels away");
        assert_eq!(found(&labels, none.clone()), Ok(()), "somebody took the marks away");
        let other_controller = json!({CONTROLLER: "other", FLEET: "ns/g"});
        for (labels, marks) in [
            (&none, none.clone()),
            (&labels, other_controller),
            (&labels, json!({FLEET: "ns/h"})),
        ] {
            let message = found(labels, marks).unwrap_err();
            assert!(
                message.starts_with("Service ns/n exists and is not of this Gateway"),
                "{message}"
            );
        }
    }
}
