//! Documents that may not say what somebody meant.
//!
//! A text without an object that was in it before has either been rid of it, or says it in a way that nobody can read:
//! with a slip in its kind, its name or its indentation. What stands in the text beside that decides. Each document
//! that was not taken is a [`Doubt`]; whoever follows a text over time asks which are new, and which object each may
//! be.

use super::{known, node::Node};
use crate::api::ObjectKey;
use std::{
    hash::{DefaultHasher, Hasher as _},
    sync::Arc,
};

/// A document, or an item of a list, that was not taken, or hardly means what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// Line on which it begins, from 1.
    pub line: usize,
    /// What it says, as a number that tells it from other documents wherever it stands.
    pub digest: u64,
    /// What it may be.
    pub about: About,
}

/// What a document that is doubtful may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// It has an error: it is the object that it names, if it names one, or any with a slip.
    Broken(Option<ObjectKey>),
    /// It is of a kind that nobody here knows.
    Foreign(Foreign),
    /// An object that was taken: a policy that is for nothing, or for less than it names.
    Aimless(ObjectKey, Arc<str>),
}

/// What a document of a kind of others is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Foreign {
    /// API group.
    pub group: Arc<str>,
    /// Kind.
    pub kind: Arc<str>,
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl Doubt {
    /// Whether it says that it is this object.
    pub fn names(&self, key: &ObjectKey) -> bool {
        matches!(&self.about, About::Broken(Some(named)) if named == key)
    }

    /// Whether it may be what has become of an object that is missing, where these are missing together.
    pub fn may_be(&self, key: &ObjectKey, is_missing: impl Fn(&ObjectKey) -> bool) -> bool {
        match &self.about {
            About::Broken(Some(named)) => named == key || !is_missing(named),
            About::Broken(None) => true,
            About::Foreign(foreign) => foreign.may_be(key),
            About::Aimless(..) => false,
        }
    }
}

impl Foreign {
    /// Others have kinds and names of their own: it is one of ours with a slip only where either is the same.
    fn may_be(&self, key: &ObjectKey) -> bool {
        let is_namesake = key.name == self.name && (key.namespace.is_empty() || key.namespace == self.namespace);
        is_namesake || known::is_slip_of(&self.kind, key.kind.as_str())
    }
}

/// A document that was not taken.
pub(super) fn of_document(line: usize, root: &Node<'_>, about: About) -> Doubt {
    let digest = match &about {
        // Of what others read, nothing but the name matters here.
        About::Foreign(foreign) => digest(foreign),
        About::Aimless(key, why) => digest((key, why)),
        About::Broken(_) => digest(root.to_value().to_string()),
    };
    Doubt { line, digest, about }
}

/// A text that can't be parsed, or not be cut.
pub(super) fn of_text(line: usize, text: &str) -> Doubt {
    // Where a document is added or taken away before it, its marker comes or goes.
    let text = text.trim_start();
    let text = text.strip_prefix("---").unwrap_or(text).trim();
    Doubt {
        line,
        digest: digest(text),
        about: About::Broken(None),
    }
}

fn digest(said: impl std::hash::Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    said.hash(&mut hasher);
    hasher.finish()
}
