//! Code of users in the path of requests: services that process them, scripts, and modules.

use crate::{ClusterName, RetryPolicy, Timeout, Undecided};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A service that sees requests and responses, and may change them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalProcessor {
    /// Its cluster.
    pub cluster: ClusterName,
    /// Host that it is called as.
    pub authority: Arc<str>,
    /// When a call is begun again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
    /// Longest wait for an answer to a message.
    pub message_timeout: Timeout,
    /// What becomes of a request when it fails.
    pub undecided: Undecided,
    /// What it sees of requests; nothing when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Processed>,
    /// What it sees of responses; nothing when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Processed>,
    /// What its answers mean.
    #[serde(default)]
    pub answers: ProcessorAnswers,
    /// Namespaces of metadata that it reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readable: Vec<Arc<str>>,
    /// Namespaces of metadata that it writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writable: Vec<Arc<str>>,
}

/// What the answers of a processor mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProcessorAnswers {
    /// They are followed, and what it sees stays as it is set.
    #[default]
    Followed,
    /// They are followed, and may change what it sees of the rest.
    Steering,
    /// Nobody waits for them.
    Ignored,
}

/// What a processor sees of a message: its headers, and what is said here.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Processed {
    /// How it sees the body.
    #[serde(default)]
    pub body: ProcessedBody,
    /// Attributes that are sent along.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<Arc<str>>,
}

/// How a processor sees a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProcessedBody {
    /// Not at all.
    #[default]
    Hidden,
    /// Piece by piece, each answered before the next.
    Streamed,
    /// As a whole.
    Buffered,
    /// As much of it as fits.
    BufferedPartial,
    /// Piece by piece, with answers at any time, trailers too.
    FullDuplexStreamed,
}

/// A script that sees requests and responses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LuaScript {
    /// Its text.
    pub code: Arc<str>,
    /// A JSON object that it is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Arc<str>>,
}

/// A filter of a native module that the proxy loads.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NativeFilter {
    /// The module.
    pub module: NativeModule,
    /// The filter inside of it.
    pub filter: Arc<str>,
    /// Settings of the filter, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Arc<str>>,
}

/// A native module.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NativeModule {
    /// Its name, for metrics.
    pub name: Arc<str>,
    /// Where the proxy finds it.
    pub source: ModuleSource,
    /// Whether it is never unloaded.
    #[serde(default)]
    pub stays: bool,
    /// Whether other modules see its symbols.
    #[serde(default)]
    pub is_global: bool,
}

/// Where a proxy finds a module.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ModuleSource {
    /// In a file beside it.
    File(Arc<str>),
    /// Behind a URL.
    Download(Download),
}

/// What a proxy fetches itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Download {
    /// The URL.
    pub url: Arc<str>,
    /// SHA-256 of what is there, in hexadecimal digits.
    pub sha256: Arc<str>,
    /// Who is asked for it.
    pub cluster: ClusterName,
}

/// A filter of a Wasm module, which runs in a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WasmFilter {
    /// Its name, for logs and metrics.
    pub name: Arc<str>,
    /// The id under which the module has registered it.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub root_id: Arc<str>,
    /// Where the module is fetched.
    pub module: Download,
    /// Settings of the filter, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Arc<str>>,
    /// Variables of the proxy's environment that the module sees.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<Arc<str>>,
    /// What becomes of requests while it can't run.
    #[serde(default)]
    pub failing: Failing,
}

/// What becomes of requests while a filter can't run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Failing {
    /// They are refused.
    #[default]
    Closed,
    /// They go on without it.
    Open,
}
