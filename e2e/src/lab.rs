//! A test's place in the test cluster: objects come and go as YAML, and what they shall say is awaited by watches.
//!
//! Tests of tier `cluster` run inside a lab (`e2e/kubelab`), where the API server, Services and pods can be reached.
//! All tests of one target share a lab, so each has namespaces of its own and looks at no others.

mod many;
mod object;
mod report;
mod tenant;
mod token;
mod versions;

pub use object::{Kind, Object, condition, is, is_held, is_rolled_out, on_parent};
pub use tenant::{ECHO, Installation, Tenant, Terms};
pub use versions::{Record, said_once, writes};

use crate::process::{self, Signal, processes_with, signal};
use anyhow::{Context, Result, bail, ensure};
use futures_util::StreamExt;
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
    discovery::{self, Scope},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap, env, fmt::Write, fs, path::PathBuf, pin::pin, process::Command, sync::LazyLock,
    time::Duration,
};
use tokio::{runtime::Runtime, sync::Mutex};

/// How long anything in the cluster may take before a test gives up: a pod's start on a busy machine, or informers that
/// come back after the API server was away.
pub const PATIENCE: Duration = Duration::from_secs(240);
/// Pause between two looks at what can't be watched.
const POLL: Duration = Duration::from_millis(50);
/// Who writes a test's objects.
const MANAGER: &str = "edge-e2e";

/// Waits until `look` finds something in the cluster.
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    process::wait_with_pauses(POLL, what, PATIENCE, look).map(|(found, _)| found)
}

/// The lab that this process runs in.
pub struct Lab {
    runtime: Runtime,
    client: Client,
    folder: PathBuf,
    kinds: Mutex<BTreeMap<Kind, (ApiResource, Scope)>>,
}

static LAB: LazyLock<Result<Lab, String>> = LazyLock::new(|| Lab::connect().map_err(|error| format!("{error:#}")));

impl Lab {
    /// The lab, or how to get into one.
    pub fn join() -> Result<&'static Self> {
        LAB.as_ref().map_err(|error| anyhow::anyhow!("{error}"))
    }

    fn connect() -> Result<Self> {
        let folder = env::var_os("KUBELAB_DIR")
            .context("this test runs inside of the test cluster: `cargo xtask test --tier cluster`")?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let client = runtime.block_on(Client::try_default())?;
        Ok(Self {
            runtime,
            client,
            folder: folder.into(),
            kinds: Mutex::default(),
        })
    }

    /// Creates or changes every object of a YAML text, in its order.
    pub fn apply(&self, yaml: &str) -> Result<()> {
        let documents: Vec<Value> = serde_yaml::from_multiple(yaml)?;
        for document in documents.into_iter().filter(|document| !document.is_null()) {
            let object = Object::of(&document).with_context(|| format!("not an object: {document}"))?;
            self.put(&object, &document)
                .with_context(|| format!("can't apply {object}"))?;
        }
        Ok(())
    }

    fn put(&self, object: &Object, document: &Value) -> Result<()> {
        let api = self.api(object)?;
        let params = PatchParams::apply(MANAGER).force();
        self.runtime
            .block_on(api.patch(&object.name, &params, &Patch::Apply(document)))?;
        Ok(())
    }

    /// Changes fields of an object; null takes one away (RFC 7396).
    pub fn change(&self, object: &Object, fields: &Value) -> Result<()> {
        let api = self.api(object)?;
        let params = PatchParams::default();
        let done = self
            .runtime
            .block_on(api.patch(&object.name, &params, &Patch::Merge(fields)));
        done.map(drop).with_context(|| format!("can't change {object}"))
    }

    /// The same for what another controller says about it.
    pub fn change_status(&self, object: &Object, fields: &Value) -> Result<()> {
        let api = self.api(object)?;
        let params = PatchParams::default();
        let done = self
            .runtime
            .block_on(api.patch_status(&object.name, &params, &Patch::Merge(fields)));
        done.map(drop)
            .with_context(|| format!("can't change the status of {object}"))
    }

    /// An object as it is now; null when there is none.
    pub fn get(&self, object: &Object) -> Result<Value> {
        let found = self.runtime.block_on(self.api(object)?.get_opt(&object.name))?;
        Ok(serde_json::to_value(found)?)
    }

    /// All objects of a kind in a namespace that carry some labels (`name=value,…`).
    pub fn list(&self, kind: &Kind, namespace: &str, labels: &str) -> Result<Vec<Value>> {
        let api = self.api(&kind.named(namespace, ""))?;
        let found = self.runtime.block_on(api.list(&ListParams::default().labels(labels)))?;
        Ok(found
            .items
            .into_iter()
            .map(serde_json::to_value)
            .collect::<Result<_, _>>()?)
    }

    /// Deletes an object, and doesn't wait for its end.
    pub fn delete(&self, object: &Object) -> Result<()> {
        self.delete_as(object, &DeleteParams::background())
    }

    /// The same, with what it owns before it (`--cascade=foreground`).
    pub fn delete_dependents_first(&self, object: &Object) -> Result<()> {
        self.delete_as(object, &DeleteParams::foreground())
    }

    fn delete_as(&self, object: &Object, how: &DeleteParams) -> Result<()> {
        match self.runtime.block_on(self.api(object)?.delete(&object.name, how)) {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error).with_context(|| format!("can't delete {object}")),
        }
    }

    /// Kills a pod's processes of a program, as a crash does: nothing is asked, told or given up. They are gone then.
    pub fn crash(&self, pod: &str, program: &str) -> Result<()> {
        let processes = self.processes(pod, program)?;
        ensure!(!processes.is_empty(), "no {program} runs in pod {pod}");
        processes.iter().try_for_each(|pid| signal(*pid, Signal::Kill))?;
        wait_for("killed processes to end", || {
            let is_over = |pid: &u32| !fs::exists(format!("/proc/{pid}")).unwrap_or(true);
            Ok(processes.iter().all(is_over).then_some(()))
        })
    }

    /// Has a pod's processes of a program do nothing any more, as if they hung.
    pub fn hang(&self, pod: &str, program: &str) -> Result<()> {
        let processes = self.processes(pod, program)?;
        ensure!(!processes.is_empty(), "no {program} runs in pod {pod}");
        processes.iter().try_for_each(|pid| signal(*pid, Signal::Stop))
    }

    /// A pod's processes of a program.
    pub fn processes(&self, pod: &str, program: &str) -> Result<Vec<u32>> {
        let hostname = format!("HOSTNAME={pod}");
        let mut found = processes_with(program)?;
        found.retain(|(pid, _)| {
            // It may have ended since.
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let mut variables = environment.split(|byte| *byte == 0);
            variables.any(|variable| variable == hostname.as_bytes())
        });
        Ok(found.into_iter().map(|(pid, _)| pid).collect())
    }

    /// Waits until an object says what it shall, and gives it. What doesn't exist is null.
    pub fn wait_until(&self, object: &Object, wish: &str, holds: impl Fn(&Value) -> bool) -> Result<Value> {
        let api = self.api(object)?;
        let mut last = Value::Null;
        let waiting = async {
            let mut versions = pin!(watcher::watch_object(api, &object.name).default_backoff());
            while let Some(version) = versions.next().await {
                // The watch goes on after a fault: the API server may be away for a while, as some tests want.
                let Ok(version) = version else { continue };
                last = serde_json::to_value(version)?;
                if holds(&last) {
                    return Ok(());
                }
            }
            bail!("the watch of {object} has ended")
        };
        let in_time = self
            .runtime
            .block_on(async { tokio::time::timeout(PATIENCE, waiting).await });
        match in_time {
            Ok(done) => done.map(|()| last),
            Err(_) => bail!(
                "waited {PATIENCE:?} in vain for {object} {wish}; it is:\n{}",
                report::brief(&last)
            ),
        }
    }

    /// Waits until an object's own condition is `True` for its present text.
    pub fn wait_until_true(&self, object: &Object, kind: &str) -> Result<Value> {
        self.wait_until(object, &format!("to be {kind}"), |object| is(object, kind, "True"))
    }

    /// Waits until an object is gone.
    pub fn wait_until_gone(&self, object: &Object) -> Result<()> {
        self.wait_until(object, "to be gone", Value::is_null).map(drop)
    }

    /// Stops the API server. What is running goes on; nobody is told anything any more.
    pub fn stop_api_server(&self) -> Result<()> {
        self.command("stop", "apiserver")
    }

    /// Starts it again, and waits until it answers.
    pub fn start_api_server(&self) -> Result<()> {
        self.command("start", "apiserver")?;
        let node = Kind::core("Node").for_all("kubelab");
        wait_for("the API server", || self.get(&node).map(Some)).map(drop)
    }

    /// Has it take connections and answer nothing.
    pub fn freeze_api_server(&self) -> Result<()> {
        self.command("freeze", "apiserver")
    }

    /// Has it go on.
    pub fn thaw_api_server(&self) -> Result<()> {
        self.command("thaw", "apiserver")
    }

    /// Stops, starts, freezes or thaws a part of the cluster.
    fn command(&self, verb: &str, component: &str) -> Result<()> {
        let program = env::var_os("KUBELAB_EXE").context("the lab doesn't say where its program is")?;
        let output = Command::new(program).args([verb, component]).output()?;
        if !output.status.success() {
            bail!(
                "the lab can't {verb} {component}: {}",
                String::from_utf8_lossy(&output.stdout)
            );
        }
        Ok(())
    }

    /// A namespace of its own for a test, with its objects deleted when the test is over.
    pub fn namespace(&'static self, name: &str) -> Result<Namespace> {
        let namespace = Namespace {
            lab: self,
            name: name.to_owned(),
        };
        self.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).to_string())?;
        // Pods can't be made before.
        let account = Kind::core("ServiceAccount").named(name, "default");
        self.wait_until(&account, "to exist", |account| !account.is_null())?;
        Ok(namespace)
    }

    /// What the containers of a namespace have said last.
    pub fn logs(&self, namespace: &str) -> String {
        report::logs(&self.folder, namespace)
    }

    /// Every line with a text that containers of a namespace have said.
    pub fn lines_with(&self, namespace: &str, text: &str) -> Vec<String> {
        report::lines_with(&self.folder, namespace, text)
    }

    /// What a reader of a failure wants to see of some namespaces.
    pub fn report(&self, namespaces: &[&str]) -> String {
        let mut text = String::new();
        for namespace in namespaces {
            // Writing to a String can't fail.
            let _ = writeln!(text, "=== namespace {namespace}");
            for kind in report::kinds() {
                // A kind may not be installed, or the API server be what has failed.
                for object in self.list(&kind, namespace, "").unwrap_or_default() {
                    text.push_str(&report::brief(&object));
                }
            }
            text.push_str(&self.logs(namespace));
        }
        text
    }

    /// What the API server says to the creation of an object, which it then doesn't keep; none if it would take it.
    pub fn refusal(&self, document: &Value) -> Result<Option<String>> {
        let object = Object::of(document).with_context(|| format!("not an object: {document}"))?;
        let Ok(api) = self.api(&object) else {
            // What `kubectl` says of a kind that the server doesn't know.
            let Kind { api_version, kind } = &object.kind;
            return Ok(Some(format!("no matches for kind {kind:?} in version {api_version:?}")));
        };
        let url = api.resource_url();
        let request = http::Request::post(format!("{url}?dryRun=All&fieldValidation=Strict"))
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(document.to_string().into_bytes())?;
        match self.runtime.block_on(self.client.request::<Value>(request)) {
            Ok(_) => Ok(None),
            Err(kube::Error::Api(status)) if [400, 422].contains(&status.code) => Ok(Some(status.message.clone())),
            Err(error) => Err(error).with_context(|| format!("{object} gets no judgement")),
        }
    }

    fn api(&self, object: &Object) -> Result<Api<DynamicObject>> {
        let (resource, scope) = self.resource(&object.kind)?;
        let client = self.client.clone();
        Ok(match (&scope, &object.namespace) {
            (Scope::Namespaced, Some(namespace)) => Api::namespaced_with(client, namespace, &resource),
            (Scope::Namespaced, None) => Api::namespaced_with(client, "default", &resource),
            (Scope::Cluster, _) => Api::all_with(client, &resource),
        })
    }

    /// Waits until a kind is served: that follows its definition after a while.
    pub fn wait_until_served(&self, kind: &Kind) -> Result<()> {
        let what = format!("{} of {} to be served", kind.kind, kind.api_version);
        wait_for(&what, || Ok(self.resource(kind).ok().map(drop)))
    }

    fn resource(&self, kind: &Kind) -> Result<(ApiResource, Scope)> {
        let known = self.kinds.blocking_lock().get(kind).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let (group, version) = kind.api_version.rsplit_once('/').unwrap_or(("", &kind.api_version));
        let wanted = GroupVersionKind::gvk(group, version, &kind.kind);
        let (resource, can) = self
            .runtime
            .block_on(discovery::pinned_kind(&self.client, &wanted))
            .with_context(|| format!("the cluster knows no {} of {}", kind.kind, kind.api_version))?;
        let found = (resource, can.scope);
        self.kinds.blocking_lock().insert(kind.clone(), found.clone());
        Ok(found)
    }
}

/// A test's own namespace. Dropping it deletes it, without waiting: names aren't used again in a lab.
pub struct Namespace {
    lab: &'static Lab,
    /// Its name.
    pub name: String,
}

impl Namespace {
    /// Does something with it, and puts all that the namespace holds into the error if that fails.
    pub fn explain(&self, result: Result<()>) -> Result<()> {
        result.map_err(|error| anyhow::anyhow!("{error:#}\n{}", self.lab.report(&[&self.name])))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The lab ends soon in any case.
        let _ = self.lab.delete(&Kind::core("Namespace").for_all(&self.name));
    }
}
