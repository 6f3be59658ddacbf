//! With whom that goes which is made once for a controller.

use crate::cluster::{Api, fault::describe};
use edge_ir::Owner;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api as Objects;

/// The name of the controller's Deployment, in every installation.
const DEPLOYMENT: &str = "edge-gateway";

/// The controller's own Deployment; none where it runs otherwise. Without an owner objects outlive an uninstallation,
/// and nothing else is the matter, so what can't be found out is only told.
pub(super) async fn controller(api: &Api, namespace: &str) -> Option<Owner> {
    let deployments: Objects<Deployment> = Objects::namespaced(api.client(), namespace);
    match deployments.get_metadata_opt(DEPLOYMENT).await {
        Ok(found) => Some(Owner {
            api_version: "apps/v1".into(),
            kind: "Deployment".into(),
            name: DEPLOYMENT.into(),
            uid: found?.metadata.uid?.into(),
        }),
        Err(error) => {
            tracing::warn!(
                "the controller's Deployment can't be read, so nothing is owned by it: {}",
                describe(&error)
            );
            None
        }
    }
}
