//! Many objects at once: what measurements do in a cluster.

use super::{Lab, Object};
use anyhow::{Context, Result};
use futures_util::{StreamExt as _, TryStreamExt as _, future, stream};
use kube::api::{DynamicObject, PostParams};
use serde_json::Value;

/// Objects that are created at a time.
const AT_A_TIME: usize = 16;

impl Lab {
    /// Creates objects that aren't there yet, many at a time.
    pub fn create_all(&self, documents: &[Value]) -> Result<()> {
        let requests = documents.iter().map(|document| {
            let object = Object::of(document).with_context(|| format!("not an object: {document}"))?;
            let (api, content) = (self.api(&object)?, serde_json::from_value(document.clone())?);
            Ok((api, object, content))
        });
        let requests: Vec<_> = requests.collect::<Result<_>>()?;
        let answers = requests
            .into_iter()
            .map(|(api, object, content): (_, _, DynamicObject)| async move {
                let created = api.create(&PostParams::default(), &content).await;
                created.with_context(|| format!("can't create {object}"))
            });
        let all = stream::iter(answers).buffer_unordered(AT_A_TIME);
        self.runtime.block_on(all.try_for_each(|_| future::ok(())))
    }
}
