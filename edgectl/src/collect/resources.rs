//! Objects of the cluster, a file for each kind and namespace.

use super::bundle::Bundle;
use crate::cluster::{client::explain, statuses::group};
use anyhow::Result;
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, ObjectList},
    core::GroupVersionKind,
    discovery::{Scope, verbs},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{collections::BTreeMap, collections::BTreeSet, fmt::Debug};

/// Groups whose every kind is the controller's business.
const GROUPS: [&str; 2] = ["gateway.networking.k8s.io", "gateway.edge"];
/// What runs, and what it is told and says, in the namespaces of the controller and its fleets.
const RUNNING: [(&str, &str, &str); 8] = [
    ("", "v1", "Pod"),
    ("", "v1", "ConfigMap"),
    ("", "v1", "ServiceAccount"),
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "DaemonSet"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler"),
    ("policy", "v1", "PodDisruptionBudget"),
    ("coordination.k8s.io", "v1", "Lease"),
];
/// What routes lead to, and what happened, in every namespace that matters.
const AROUND: [(&str, &str, &str); 3] = [
    ("", "v1", "Service"),
    ("", "v1", "Event"),
    ("discovery.k8s.io", "v1", "EndpointSlice"),
];
/// An annotation that repeats a whole object, whatever it holds.
const REPEATED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Objects asked for at a time.
const PAGE: u32 = 500;

/// Adds the objects of all namespaces, or of some; `places` are those in which something of ours runs.
pub(super) async fn collect(client: &Client, only: &[String], places: &BTreeSet<String>, bundle: &mut Bundle) {
    let mut around = places.clone();
    for name in GROUPS {
        match group(client, name).await {
            Err(problem) => bundle.tell(&format!("kinds of {name}: {problem:#}")),
            Ok(None) => bundle.tell(&format!("this cluster serves no kind of {name}")),
            Ok(Some(group)) => {
                for (resource, can) in group.recommended_resources() {
                    if can.supports_operation(verbs::LIST) {
                        let namespaces = namespaces(only, &can.scope);
                        around.extend(add(client, &resource, &namespaces, bundle).await);
                    }
                }
            }
        }
    }
    if !only.is_empty() {
        around.retain(|namespace| only.contains(namespace));
    }
    let running = RUNNING.iter().map(|kind| (kind, places));
    for ((group, version, kind), namespaces) in running.chain(AROUND.iter().map(|kind| (kind, &around))) {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let namespaces: Vec<Option<&str>> = namespaces.iter().map(|name| Some(name.as_str())).collect();
        add(client, &resource, &namespaces, bundle).await;
    }
    secrets(client, places, bundle).await;
}

/// Where objects of a kind are looked for; nothing means everywhere.
fn namespaces<'a>(only: &'a [String], scope: &Scope) -> Vec<Option<&'a str>> {
    match scope {
        Scope::Namespaced if !only.is_empty() => only.iter().map(|name| Some(name.as_str())).collect(),
        _ => vec![None],
    }
}

/// Adds the objects of a kind, and gives the namespaces that they are in.
async fn add(
    client: &Client,
    resource: &ApiResource,
    namespaces: &[Option<&str>],
    bundle: &mut Bundle,
) -> BTreeSet<String> {
    let mut by_namespace: BTreeMap<String, Vec<DynamicObject>> = BTreeMap::new();
    for namespace in namespaces {
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
            None => Api::all_with(client.clone(), resource),
        };
        let listed = pages(async |params| api.list(&params).await).await;
        match listed {
            Ok(objects) => {
                for object in objects {
                    let place = object.namespace().unwrap_or_default();
                    by_namespace.entry(place).or_default().push(without_noise(object));
                }
            }
            Err(error) => bundle.tell(&format!(
                "{:#}",
                explain(error, &format!("{} can't be listed", resource.kind))
            )),
        }
    }
    let found = by_namespace.keys().filter(|name| !name.is_empty()).cloned().collect();
    for (namespace, objects) in by_namespace {
        let folder = match namespace.as_str() {
            "" => "cluster".to_owned(),
            name => format!("namespaces/{name}"),
        };
        bundle.add(&format!("{folder}/{}.yaml", resource.plural), yaml(&objects));
    }
    found
}

/// What Secrets are called; their contents aren't asked for.
async fn secrets(client: &Client, places: &BTreeSet<String>, bundle: &mut Bundle) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Secret"));
    for namespace in places {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let listed = pages(async |params| api.list_metadata(&params).await).await;
        let listed = listed.map_err(|error| explain(error, "Secrets can't be listed"));
        let names = listed.and_then(|all| {
            let all: Vec<_> = all.into_iter().map(without_noise).collect();
            yaml(&all)
        });
        bundle.add(&format!("namespaces/{namespace}/secrets.yaml"), names);
    }
}

async fn pages<T>(list: impl AsyncFn(ListParams) -> kube::Result<ObjectList<T>>) -> kube::Result<Vec<T>>
where
    T: Clone + Debug + DeserializeOwned,
{
    let mut params = ListParams::default().limit(PAGE);
    let mut all = Vec::new();
    loop {
        let page = list(params.clone()).await?;
        all.extend(page.items);
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => params = params.continue_token(&token),
            _ => return Ok(all),
        }
    }
}

fn without_noise<T: ResourceExt>(mut object: T) -> T {
    object.managed_fields_mut().clear();
    object.annotations_mut().remove(REPEATED);
    object
}

fn yaml(objects: &impl Serialize) -> Result<String> {
    Ok(serde_yaml::to_string(objects)?)
}
