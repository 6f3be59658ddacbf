//! Objects of a cluster with what the controller says of them.

use super::client::explain;
use anyhow::{Context, Result, anyhow};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams},
    discovery::{self, ApiGroup},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Objects asked for at a time.
const PAGE: u32 = 500;

/// A kind, as the cluster files it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindQuery<'a> {
    /// API group.
    pub group: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// The namespace asked for; nothing for all of them, and for kinds without.
    pub namespace: Option<&'a str>,
}

/// Objects of some kinds: maps with `kind`, `namespace`, `name` and `status`. A kind that the cluster doesn't serve has
/// none; if it is the only one, that is an error.
///
/// # Errors
/// When the cluster can't be asked.
pub async fn list(client: &Client, wanted: &[KindQuery<'_>]) -> Result<Vec<Value>> {
    let mut groups: BTreeMap<&str, Option<ApiGroup>> = BTreeMap::new();
    let mut found = Vec::new();
    for kind in wanted {
        if !groups.contains_key(kind.group) {
            groups.insert(kind.group, group(client, kind.group).await?);
        }
        let served = groups.get(kind.group).and_then(Option::as_ref);
        let Some((resource, _)) = served.and_then(|group| group.recommended_kind(kind.kind)) else {
            match wanted.len() {
                1 => return Err(anyhow!("this cluster serves no {} of {}", kind.kind, kind.group)),
                _ => continue,
            }
        };
        let api: Api<DynamicObject> = match kind.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let listed = api.list(&params).await;
            let listed = listed.map_err(|error| explain(error, &format!("{} can't be listed", kind.kind)))?;
            found.extend(listed.items.iter().map(|object| shown(kind.kind, object)));
            match listed.metadata.continue_ {
                Some(token) if !token.is_empty() => params = params.continue_token(&token),
                _ => break,
            }
        }
    }
    Ok(found)
}

/// An API group with its kinds, if the cluster serves it.
///
/// # Errors
/// When the cluster can't be asked.
pub async fn group(client: &Client, name: &str) -> Result<Option<ApiGroup>> {
    let groups = client
        .list_api_groups()
        .await
        .map_err(|error| explain(error, "API groups can't be listed"))?;
    if !groups.groups.iter().any(|group| group.name == name) {
        return Ok(None);
    }
    Ok(Some(
        discovery::group(client, name).await.with_context(|| name.to_owned())?,
    ))
}

fn shown(kind: &str, object: &DynamicObject) -> Value {
    json!({
        "kind": kind, "namespace": object.namespace(), "name": object.name_any(), "status": object.data["status"],
    })
}
