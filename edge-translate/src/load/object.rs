//! From one tree to the objects in it: kind and identity first, then the type, then what was odd about it.

use std::cell::RefCell;
use std::sync::Arc;

use crate::api::{
    BackendTrafficPolicy, CustomKind, CustomObject, CustomRole, Generic, Kind, Metadata, Object, ObjectKey, Scope, Text,
};
use crate::load::de::{Odd, Reader, Unknown, What};
use crate::load::known::{self, loses_a_condition};
use crate::load::node::{Data, Entry, Node};
use crate::load::{About, Fault, Foreign, Severity, identity, targets, unsupported};
use edge_ir::Seldom;
use serde::Deserialize as _;

/// Something to report about a place, before lines are counted.
pub(crate) struct Remark {
    pub(crate) severity: Severity,
    pub(crate) fault: Fault,
    pub(crate) object: Option<ObjectKey>,
}

/// One object and everything odd about it; neither is a guarantee of the other. An object with an error could be read,
/// and most likely doesn't mean what it says: nobody but an API server that took it can vouch for it.
pub(crate) struct Read {
    pub(crate) object: Option<Object>,
    pub(crate) remarks: Vec<Remark>,
    /// What it may be, where it has no error and all the same isn't what it says.
    pub(crate) doubt: Option<About>,
}

/// How objects are read.
#[derive(Clone, Copy)]
pub(crate) struct ReadOptions<'a> {
    /// The namespace of objects that name none.
    pub(crate) namespace: &'a Arc<str>,
    /// Kinds beside ours that are read.
    pub(crate) custom_kinds: &'a [CustomKind],
}

/// What is said of a document that can't be a resource.
pub(crate) const NO_RESOURCE: &str = "a document must be one resource: a mapping with apiVersion, kind and metadata";

/// The objects of a tree: one, or the items of a list.
pub(crate) fn objects(root: &Node<'_>, options: ReadOptions<'_>, sink: &mut impl FnMut(&Node<'_>, Read)) {
    resources(root, &mut |resource: &Node<'_>| match resource.data {
        Data::Map(_) => sink(resource, object(resource, options)),
        _ => sink(resource, failed(resource.at, NO_RESOURCE)),
    });
}

/// The trees in a tree that should be resources, each by itself.
pub(crate) fn resources<'a>(root: &Node<'a>, sink: &mut impl FnMut(&Node<'a>)) {
    match &root.data {
        Data::Null => {}
        Data::Map(entries) => match list_items(root) {
            Some((kind, items)) => items.iter().for_each(|item| list_item(root, kind, item, sink)),
            None if entries.is_empty() => {}
            None => sink(root),
        },
        _ => sink(root),
    }
}

/// The items of a `List` or `XxxList`, with the kind they have unless they say otherwise.
fn list_items<'n, 'a>(root: &'n Node<'a>) -> Option<(&'n str, &'n [Node<'a>])> {
    let kind = root.get("kind")?.text()?.strip_suffix("List")?;
    match &root.get("items")?.data {
        Data::Seq(items) => Some((kind, items)),
        _ => None,
    }
}

fn list_item<'a>(list: &Node<'a>, kind: &str, item: &Node<'a>, sink: &mut impl FnMut(&Node<'a>)) {
    let typed = !kind.is_empty() && item.get("kind").is_none();
    let (Data::Map(entries), true) = (&item.data, typed) else {
        return resources(item, sink);
    };
    let mut whole: Vec<Entry<'a>> = entries.clone();
    let text = |key: &'static str, text: &str| Entry {
        at: item.at,
        key: key.into(),
        value: Node {
            at: item.at,
            data: Data::Text(text.to_owned().into()),
        },
    };
    whole.push(text("kind", kind));
    if item.get("apiVersion").is_none() {
        whole.push(text(
            "apiVersion",
            list.get("apiVersion").and_then(Node::text).unwrap_or_default(),
        ));
    }
    let whole = Node {
        at: item.at,
        data: Data::Map(whole),
    };
    resources(&whole, sink);
}

fn failed(at: u32, message: impl Into<String>) -> Read {
    Read {
        object: None,
        remarks: vec![remark(Severity::Error, at, message, None)],
        doubt: None,
    }
}

fn remark(severity: Severity, at: u32, message: impl Into<String>, object: Option<ObjectKey>) -> Remark {
    Remark {
        severity,
        fault: Fault::new(at, message),
        object,
    }
}

/// Reads one resource; one that names no namespace gets the one given.
pub(crate) fn object(root: &Node<'_>, options: ReadOptions<'_>) -> Read {
    let ReadOptions {
        namespace,
        custom_kinds,
    } = options;
    let required = |key: &str| match root.get(key) {
        None => Err(failed(
            root.at,
            format!("the field `{key}` is missing: every resource needs apiVersion, kind and metadata.name"),
        )),
        Some(node) => match node.text() {
            Some(text) if !text.is_empty() => Ok((text, node.at)),
            _ => Err(failed(node.at, format!("{key} must be a string that is not empty"))),
        },
    };
    let (api_version, version_at) = match required("apiVersion") {
        Ok(found) => found,
        Err(read) => return read,
    };
    let (kind_text, kind_at) = match required("kind") {
        Ok(found) => found,
        Err(read) => return read,
    };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = match Kind::of(group, kind_text) {
        Some(kind) => kind,
        None => {
            let mut known = custom_kinds
                .iter()
                .filter(|k| (&*k.group, &*k.kind) == (group, kind_text));
            let message = match known.next() {
                Some(kind) if *kind.version == *version => return custom(root, kind, namespace),
                Some(kind) => format!(
                    "kind {kind_text} is read at version {} of {group}, as the configuration says, and left out at {version}",
                    kind.version
                ),
                None => return unknown_kind(root, (group, api_version, kind_text), kind_at, namespace),
            };
            return Read {
                object: None,
                remarks: vec![remark(Severity::Warning, kind_at, message, None)],
                doubt: None,
            };
        }
    };
    let mut remarks = Vec::new();
    if !kind.versions().contains(&version) {
        let message = format!(
            "{kind} is not known at version {version}: it is read as {}",
            kind.api_version()
        );
        remarks.push(remark(Severity::Warning, version_at, message, None));
    }
    typed(root, kind, namespace, remarks)
}

/// Reads an object of a kind that the configuration names.
pub(crate) fn custom(root: &Node<'_>, kind: &CustomKind, namespace: &Arc<str>) -> Read {
    let object = match CustomObject::read(kind, root.to_value(), namespace) {
        Ok(object) => object,
        Err(message) => return failed(root.at, message),
    };
    let fault = identity::fault(kind.kept_as(), root, &object.metadata);
    let object = match kind.role {
        CustomRole::Resource => Object::Custom(Arc::new(object)),
        CustomRole::Policy => Object::CustomPolicy(Arc::new(object)),
    };
    let Some(fault) = fault else {
        return Read {
            object: Some(object),
            remarks: Vec::new(),
            doubt: None,
        };
    };
    Read {
        remarks: vec![Remark {
            severity: Severity::Error,
            fault,
            object: Some(object.key()),
        }],
        object: None,
        doubt: None,
    }
}

/// A kind that isn't ours. One that is nearly ours, or stands in a group or version where there can be none but ours,
/// is a slip: an API server would refuse it, and what is in force of the object stays.
fn unknown_kind(
    root: &Node<'_>,
    (group, api_version, kind): (&str, &str, &str),
    at: u32,
    namespace: &Arc<str>,
) -> Read {
    let of = |severity, message: String, object, doubt| Read {
        object: None,
        remarks: vec![remark(severity, at, message, object)],
        doubt,
    };
    if (group, kind) == ("gateway.edge", "EdgeGateway") {
        let message =
            "EdgeGateway is the configuration file of the controller, not a resource: pass it with --config-path";
        return of(Severity::Warning, message.to_owned(), None, None);
    }
    if let Some(meant) = known::meant_kind(group, kind) {
        let message = format!(
            "kind {kind} of {api_version} is not known: did you mean kind {meant} of {}? As it is, it is not taken",
            meant.api_version()
        );
        return of(Severity::Error, message, written_key(meant, namespace, root), None);
    }
    if known::is_nobody_elses(group, api_version, kind) {
        let message = format!("kind {kind} of {api_version} is not known: check apiVersion and kind");
        return of(Severity::Error, message, None, None);
    }
    let namesake = Kind::ALL.iter().find(|known| known.as_str().eq_ignore_ascii_case(kind));
    let hint = namesake.map(|known| format!(": did you mean kind {known} of {}?", known.api_version()));
    let hint = hint.unwrap_or_default();
    let message = format!("kind {kind} of {api_version} is not known and is left out{hint}");
    let written = |field| root.get("metadata").and_then(|metadata| metadata.get(field)?.text());
    let foreign = Foreign {
        group: group.into(),
        kind: kind.into(),
        namespace: written("namespace").map_or_else(|| Arc::clone(namespace), Arc::from),
        name: written("name").unwrap_or_default().into(),
    };
    of(Severity::Warning, message, None, Some(About::Foreign(foreign)))
}

fn typed(root: &Node<'_>, kind: Kind, namespace: &Arc<str>, mut remarks: Vec<Remark>) -> Read {
    let odd = RefCell::new(Vec::new());
    let reader = Reader::new(root, &odd);
    let object = match Object::deserialize_as(kind, reader, |metadata| {
        complete(kind, namespace, metadata);
        metadata.unsupported = unsupported_fields(&odd.borrow());
    }) {
        Ok(object) => object,
        Err(error) => {
            let (at, path) = error.place.unwrap_or((root.at, String::new()));
            let message = if path.is_empty() {
                error.message
            } else {
                format!("{path}: {}", error.message)
            };
            let key = written_key(kind, namespace, root);
            match unread(root, kind, namespace, &message) {
                // An error would leave in force what was there before, or nothing.
                Some(policy) => {
                    remarks.push(remark(Severity::Warning, at, message, key));
                    policy
                }
                None => {
                    remarks.push(remark(Severity::Error, at, message, key));
                    return refused(remarks);
                }
            }
        }
    };
    if object.metadata().name.is_empty() {
        remarks.push(remark(
            Severity::Error,
            root.at,
            "the field `metadata.name` is missing: give the resource a name",
            None,
        ));
        return refused(remarks);
    }
    let fault = identity::fault(kind, root, object.metadata());
    if let Some(fault) = fault.or_else(|| targets::fault(kind, root)) {
        remarks.push(Remark {
            severity: Severity::Error,
            fault,
            object: Some(object.key()),
        });
        return refused(remarks);
    }
    let doubt = targets::missed(kind, root).map(|why| About::Aimless(object.key(), why.into()));
    remarks.extend(odd.into_inner().into_iter().map(|odd| odd_remark(kind, odd)));
    if !remarks.is_empty() {
        let key = object.key();
        remarks.iter_mut().for_each(|remark| remark.object = Some(key.clone()));
    }
    Read {
        object: Some(object),
        remarks,
        doubt,
    }
}

fn refused(remarks: Vec<Remark>) -> Read {
    Read {
        object: None,
        remarks,
        doubt: None,
    }
}

/// A policy of traffic whose spec can't be read: what it is for is closed, as with policies that are kept as written.
fn unread(root: &Node<'_>, kind: Kind, namespace: &Arc<str>, why: &str) -> Option<Object> {
    if kind != Kind::BackendTrafficPolicy {
        return None;
    }
    let odd = RefCell::new(Vec::new());
    let mut written = Generic::deserialize(Reader::new(root, &odd)).ok()?;
    complete(kind, namespace, &mut written.metadata);
    let policy = BackendTrafficPolicy::unread(written, why.into());
    Some(Object::BackendTrafficPolicy(Arc::new(policy)))
}

/// What to say about something odd in an object of a kind.
fn odd_remark(kind: Kind, odd: Odd) -> Remark {
    let Odd { at, path, what } = odd;
    let (severity, message) = match what {
        What::Unknown(unknown) => unknown_field(kind, &path, unknown),
        What::Unsupported(instead) => (Severity::Warning, unsupported::field(&path, instead)),
        What::Unquoted => (
            Severity::Warning,
            format!("{path}: this is read as text: put it in quotes"),
        ),
    };
    remark(severity, at, message, None)
}

fn unknown_field(kind: Kind, path: &str, unknown: Unknown) -> (Severity, String) {
    match unknown.meant {
        Some(meant) if loses_a_condition(unknown) => (
            Severity::Error,
            format!(
                "{path}: {kind} has no such field: did you mean `{meant}`? Without it the object would be in force for \
                 more than was meant, so it is not taken"
            ),
        ),
        Some(meant) => (
            Severity::Warning,
            format!("{path}: {kind} has no such field, it is ignored: did you mean `{meant}`?"),
        ),
        None => (
            Severity::Warning,
            format!("{path}: {kind} has no such field, it is ignored: check the spelling and the indentation"),
        ),
    }
}

/// What of an object this version doesn't honour, for its status.
fn unsupported_fields(odd: &[Odd]) -> Seldom<Text> {
    let texts = odd.iter().filter_map(|odd| match odd.what {
        What::Unsupported(instead) => Some(unsupported::field(&odd.path, instead).into()),
        _ => None,
    });
    let mut texts: Vec<Text> = texts.collect();
    // The order of fields in a text means nothing.
    texts.sort_unstable();
    texts.into()
}

fn complete(kind: Kind, namespace: &Arc<str>, metadata: &mut Metadata) {
    if !matches!(kind, Kind::GatewayClass | Kind::Gateway) {
        metadata.uid = None;
    }
    match kind.scope() {
        Scope::Cluster => metadata.namespace = Arc::default(),
        Scope::Namespaced if metadata.namespace.is_empty() => metadata.namespace = namespace.clone(),
        Scope::Namespaced => {}
    }
}

/// The identity that an object has by what is written of it, whether the rest of it can be read or not; nothing if its
/// kind is none of ours or it has no name.
pub(crate) fn identity(root: &Node<'_>, namespace: &Arc<str>) -> Option<ObjectKey> {
    let api_version = root.get("apiVersion")?.text()?;
    let (group, _) = api_version.split_once('/').unwrap_or_default();
    let kind = Kind::of(group, root.get("kind")?.text()?)?;
    written_key(kind, namespace, root)
}

/// The identity that a broken object would have, so that its last good form can stay in force.
fn written_key(kind: Kind, namespace: &Arc<str>, root: &Node<'_>) -> Option<ObjectKey> {
    let metadata = root.get("metadata")?;
    let mut written = Metadata {
        name: metadata.get("name")?.text()?.into(),
        namespace: metadata
            .get("namespace")
            .and_then(Node::text)
            .unwrap_or_default()
            .into(),
        ..Metadata::default()
    };
    complete(kind, namespace, &mut written);
    Some(ObjectKey {
        kind,
        namespace: written.namespace,
        name: written.name,
    })
}
