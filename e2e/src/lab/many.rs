//! Many objects at once, and how often the statuses of objects become others: what measurements do in a cluster.

use super::{Kind, Lab, Object};
use anyhow::{Context, Result};
use futures_util::{StreamExt, TryStreamExt, future, stream};
use kube::{
    api::{DynamicObject, PostParams},
    runtime::watcher::{self, Event, watcher},
};
use serde_json::Value;
use std::{collections::BTreeMap, pin::pin};
use tokio::{sync::watch, task::AbortHandle};

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

    /// Counts from now on how often the statuses of a kind's objects in a namespace become others.
    pub fn count_status_writes(&self, kind: &Kind, namespace: &str) -> Result<StatusWrites> {
        let api = self.api(&kind.named(namespace, ""))?;
        let (sender, counts) = watch::channel(BTreeMap::new());
        let (ready, is_ready) = tokio::sync::oneshot::channel();
        let task = self.runtime.spawn(async move {
            let mut ready = Some(ready);
            let mut statuses = BTreeMap::new();
            let mut events = pin!(watcher(api, watcher::Config::default()));
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::InitApply(object)) => drop(statuses.insert(name(&object), status(&object))),
                    Ok(Event::InitDone) => {
                        // Who waits for it may have given up.
                        let _ = ready.take().map(|ready| ready.send(()));
                    }
                    Ok(Event::Apply(object)) => {
                        let (name, now) = (name(&object), status(&object));
                        let before = statuses.insert(name.clone(), now.clone());
                        if before.is_some_and(|before| before != now) {
                            sender.send_modify(|counts| *counts.entry(name).or_default() += 1);
                        }
                    }
                    // The watch goes on after a fault.
                    Ok(Event::Init | Event::Delete(_)) | Err(_) => {}
                }
            }
        });
        let task = task.abort_handle();
        self.runtime.block_on(is_ready).context("the watch has ended")?;
        Ok(StatusWrites { counts, task })
    }
}

fn name(object: &DynamicObject) -> String {
    object.metadata.name.clone().unwrap_or_default()
}

fn status(object: &DynamicObject) -> Value {
    object.data["status"].clone()
}

/// A count that goes on until it is dropped.
#[derive(Debug)]
pub struct StatusWrites {
    counts: watch::Receiver<BTreeMap<String, usize>>,
    task: AbortHandle,
}

impl StatusWrites {
    /// How often each object's status became another; objects with the status that they had are not in it.
    pub fn so_far(&self) -> BTreeMap<String, usize> {
        self.counts.borrow().clone()
    }
}

impl Drop for StatusWrites {
    fn drop(&mut self) {
        self.task.abort();
    }
}
