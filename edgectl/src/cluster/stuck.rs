//! Pods that don't start, and why: what somebody who waits for them wants to know before the time is up.

use super::{client::explain, objects::Objects};
use anyhow::Result;
use k8s_openapi::api::core::v1::{ContainerStateWaiting, Pod};
use kube::api::ListParams;

/// Reasons that pass by themselves.
const PASSING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

impl Objects {
    /// What keeps a pod with these labels from starting, if anything does.
    ///
    /// # Errors
    /// When the cluster can't be asked.
    pub async fn stuck(&self, namespace: &str, labels: &str) -> Result<Option<String>> {
        let pods = self.pods(namespace).list(&ListParams::default().labels(labels)).await;
        let pods = pods.map_err(|error| explain(error, "pods can't be listed"))?;
        Ok(pods.items.iter().find_map(reason))
    }
}

/// Why a container of a pod doesn't start.
fn reason(pod: &Pod) -> Option<String> {
    let containers = pod.status.as_ref()?.container_statuses.as_deref()?;
    containers.iter().find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let ContainerStateWaiting { reason, message } = waiting;
        let reason = reason.as_deref().filter(|reason| !PASSING.contains(reason))?;
        let what = match reason {
            "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" => format!(
                "image {} can't be pulled; build and push it, and name its registry by global.imageRegistry",
                container.image
            ),
            _ => format!("container {} doesn't start", container.name),
        };
        let more = message.as_deref().unwrap_or_default();
        Some(format!(
            "{what} ({})",
            format!("{reason}: {more}").trim_end_matches(": ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    fn waiting(reason: &str, message: Option<&str>) -> Option<String> {
        let state = json!({"waiting": {"reason": reason, "message": message}});
        let container = json!({
            "name": "c", "image": "a/b:v1", "imageID": "", "ready": false, "restartCount": 0, "state": state,
        });
        let pod = json!({"metadata": {}, "status": {"containerStatuses": [container]}});
        super::reason(&serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn an_image_that_cannot_be_pulled_is_named() {
        let said = waiting("ImagePullBackOff", Some("no such host")).unwrap();
        assert!(said.starts_with("image a/b:v1 can't be pulled;"), "{said}");
        assert!(said.ends_with("(ImagePullBackOff: no such host)"), "{said}");
    }

    #[test]
    fn what_takes_a_moment_is_not_told() {
        assert_eq!(waiting("ContainerCreating", None), None);
        assert_eq!(
            waiting("CrashLoopBackOff", None).unwrap(),
            "container c doesn't start (CrashLoopBackOff)"
        );
    }
}
