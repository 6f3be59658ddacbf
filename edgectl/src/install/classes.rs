//! GatewayClasses at the end of their controller: nobody will be left who lets go of those that somebody deletes.

use super::rivals::CONFIGURATION;
use crate::cluster::{inventory::Entry, objects::Objects};
use anyhow::Result;
use edge_translate::{api::CLASS_IN_USE, load::Source};
use serde_json::{Value, json};

/// What held classes for the controller of an installation holds them no longer. The controller has ended.
pub(super) async fn release(objects: &Objects, namespace: &str) -> Result<()> {
    let configuration = Entry::new("v1", "ConfigMap", Some(namespace), CONFIGURATION);
    let configuration = objects.get(&configuration).await?;
    let Some(controller) = configuration.as_ref().and_then(controller_name) else {
        return Ok(());
    };
    let (version, kind) = ("gateway.networking.k8s.io/v1", "GatewayClass");
    for class in objects.list(version, kind).await? {
        if let Some(patch) = released(&class, &controller) {
            let name = class["metadata"]["name"].as_str().unwrap_or_default();
            objects.change(&Entry::new(version, kind, None, name), &patch).await?;
        }
    }
    Ok(())
}

/// The name that a controller with this configuration goes by; none if it would refuse the configuration.
pub(super) fn controller_name(configuration: &Value) -> Option<String> {
    let source = Source {
        name: "edge-gateway.yaml",
        text: configuration["data"]["edge-gateway.yaml"].as_str()?,
    };
    let (config, _) = edge_admission::configuration(&source, |_| Vec::new()).ok()?;
    Some(config.gateway.controller_name.to_string())
}

/// What changes a class of a controller so that it isn't held any more; nothing if it isn't.
fn released(class: &Value, controller: &str) -> Option<Value> {
    let all = class["metadata"]["finalizers"].as_array()?;
    let others: Vec<&Value> = all.iter().filter(|name| *name != CLASS_IN_USE).collect();
    let is_held = class["spec"]["controllerName"] == controller && others.len() < all.len();
    let version = &class["metadata"]["resourceVersion"];
    is_held.then(|| json!({ "metadata": { "resourceVersion": version, "finalizers": others } }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_the_controller_are_let_go_and_no_others() {
        let class = |finalizers: &[&str]| {
            json!({
                "metadata": { "resourceVersion": "7", "finalizers": finalizers },
                "spec": { "controllerName": "gateway.edge/us" },
            })
        };
        let patch = |finalizers: &[&str]| Some(json!({ "metadata": class(finalizers)["metadata"] }));
        let held = class(&["theirs", CLASS_IN_USE]);
        assert_eq!(released(&held, "gateway.edge/us"), patch(&["theirs"]));
        assert_eq!(released(&held, "gateway.edge/them"), None);
        assert_eq!(released(&class(&["theirs"]), "gateway.edge/us"), None);
        assert_eq!(released(&json!({"metadata": {}}), "gateway.edge/us"), None);
    }

    #[test]
    fn a_controller_goes_by_the_name_in_its_configuration() {
        let name = |text: &str| controller_name(&json!({ "data": { "edge-gateway.yaml": text } }));
        let header = "apiVersion: gateway.edge/v1alpha1\nkind: EdgeGateway\nprovider: {type: Cluster}\n";
        assert_eq!(
            name(&format!("{header}gateway: {{controllerName: gateway.edge/us}}\n")).as_deref(),
            Some("gateway.edge/us")
        );
        assert_eq!(
            name(header).as_deref(),
            Some("gateway.edge/gatewayclass-controller"),
            "unsaid"
        );
        assert_eq!(name("kind: Odd\n"), None);
    }
}
