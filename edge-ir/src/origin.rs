//! Where a piece of configuration came from, so that a rejection, a metric or a command can lead back to the object.

use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// One resource that a piece of IR was made from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// The resource's kind, e.g. `HTTPRoute`.
    pub kind: Arc<str>,
    /// Its namespace; empty for cluster-scoped kinds.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// The part of it: a listener's name, a rule's name or `rule/<index>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<Arc<str>>,
    /// Annotations of the resource with the product's prefix, sorted by key.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub annotations: Arc<[(Arc<str>, Arc<str>)]>,
}

/// All resources that a piece of IR was made from, most specific first. Usually one.
pub type Origins = Arc<[Origin]>;

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)?;
        match &self.section {
            Some(section) => write!(f, "/{section}"),
            None => Ok(()),
        }
    }
}
