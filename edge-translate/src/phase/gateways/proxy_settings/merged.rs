//! An EdgeProxy laid over a less specific one: that of the controller's configuration, of the class, of the Gateway.

use crate::{
    api::{
        EdgeProxy, MergeType,
        edge_proxy::{EdgeProxySpec, MergeType as Asked},
    },
    phase::policies::lay,
    settings::Settings,
};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Members of which an EdgeProxy has one, by where they are: the more specific one's stands in place of the other's.
const ALTERNATIVES: [(&[&str], [&str; 2]); 6] = [
    (&[], ["lua", "luaValidation"]),
    (&["provider", "cluster"], ["envoyDeployment", "envoyDaemonSet"]),
    // Nothing scales what runs on every node.
    (&["provider", "cluster"], ["envoyHpa", "envoyDaemonSet"]),
    (&["provider", "cluster", "envoyPDB"], ["minAvailable", "maxUnavailable"]),
    (&["provider", "cluster", "envoyDeployment", "container"], IMAGES),
    (&["provider", "cluster", "envoyDaemonSet", "container"], IMAGES),
];
const IMAGES: [&str; 2] = ["image", "imageRepository"];

/// Members that refer to objects, which are beside the EdgeProxy that names them where no namespace is told.
const REFERENCES: [&str; 3] = ["backendRef", "backendRefs", "clientCertificateRef"];

/// Members that an API server fills in where they aren't written, with what it fills in. Above another EdgeProxy they
/// say nothing: nobody can tell them from what somebody wrote, and a fleet that is kept inside must not be published
/// because its Gateway adds a label.
const FILLED_IN: [(&[&str], &str, &str); 3] = [
    (&["logging", "level"], "default", "warn"),
    (&["provider", "cluster", "envoyService"], "type", "LoadBalancer"),
    (
        &["provider", "cluster", "envoyService"],
        "externalTrafficPolicy",
        "Local",
    ),
];

/// An EdgeProxy as it is in force above a less specific one: alone unless it asks to be merged.
pub(crate) fn over(own: &Arc<EdgeProxy>, below: Option<&Arc<EdgeProxy>>, settings: &Settings) -> Arc<EdgeProxy> {
    let (Some(how), Some(below)) = (way(own), below) else {
        return Arc::clone(own);
    };
    let Some(spec) = both(homed(own, settings), homed(below, settings), &how) else {
        return Arc::clone(own);
    };
    Arc::new(EdgeProxy {
        spec,
        ..EdgeProxy::clone(own)
    })
}

/// Whether an EdgeProxy asks to be merged into a less specific one.
pub(crate) fn is_merged(proxy: &EdgeProxy) -> bool {
    way(proxy).is_some()
}

fn way(proxy: &EdgeProxy) -> Option<MergeType> {
    match &proxy.spec.merge_type {
        Some(Asked::StrategicMerge) => Some(MergeType::StrategicMerge),
        Some(Asked::JsonMerge) => Some(MergeType::JsonMerge),
        Some(Asked::Replace | Asked::Other(_)) | None => None,
    }
}

fn both(own: Option<Map<String, Value>>, below: Option<Map<String, Value>>, how: &MergeType) -> Option<EdgeProxySpec> {
    let (mut base, mut above) = (below?, own?);
    unsay(&mut above);
    for (place, [one, other]) in ALTERNATIVES {
        let at = |fields| {
            place.iter().try_fold(fields, |fields: &Map<String, Value>, name| {
                fields.get(*name)?.as_object()
            })
        };
        let is_said = |name: &str| at(&above).is_some_and(|fields| fields.contains_key(name));
        let given_up: Vec<&str> = [(one, other), (other, one)]
            .into_iter()
            .filter(|(said, _)| is_said(said))
            .map(|(_, given_up)| given_up)
            .collect();
        let within = place
            .iter()
            .try_fold(&mut base, |fields, name| fields.get_mut(*name)?.as_object_mut());
        let Some(within) = within else { continue };
        within.retain(|name, _| !given_up.contains(&&**name));
    }
    lay(&mut base, above, how);
    serde_json::from_value(Value::Object(base)).ok()
}

/// What an EdgeProxy says, each reference with its namespace: one that is laid over another must lead to where it led
/// by itself.
fn homed(proxy: &EdgeProxy, settings: &Settings) -> Option<Map<String, Value>> {
    let home = match &*proxy.metadata.namespace {
        "" => &*settings.controller_namespace,
        own => own,
    };
    let mut fields = fields(&proxy.spec)?;
    fields.values_mut().for_each(|member| stay_at(home, member));
    Some(fields)
}

/// Plain data, which always can be written. How it merges is its own.
fn fields(spec: &EdgeProxySpec) -> Option<Map<String, Value>> {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(spec) else {
        return None;
    };
    fields.remove("mergeType");
    Some(fields)
}

/// Leaves out what an API server may have filled in.
fn unsay(fields: &mut Map<String, Value>) {
    for (place, member, filled_in) in FILLED_IN {
        let within = place
            .iter()
            .try_fold(&mut *fields, |fields, name| fields.get_mut(*name)?.as_object_mut());
        if let Some(within) = within
            && within.get(member).is_some_and(|value| value == filled_in)
        {
            within.remove(member);
        }
    }
}

/// Tells references without a namespace where they come from.
fn stay_at(home: &str, value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if REFERENCES.contains(&&**name) {
                    settle(home, member);
                }
                stay_at(home, member);
            }
        }
        Value::Array(entries) => entries.iter_mut().for_each(|entry| stay_at(home, entry)),
        _ => {}
    }
}

fn settle(home: &str, reference: &mut Value) {
    match reference {
        Value::Array(several) => several.iter_mut().for_each(|one| settle(home, one)),
        Value::Object(one) => {
            one.entry("namespace").or_insert_with(|| home.into());
        }
        _ => {}
    }
}
