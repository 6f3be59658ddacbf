//! Loading: text to resources, with a place for everything that is wrong.
//!
//! A text is cut into documents ([`split`]), each is read by itself, so that a broken one costs no other, and each
//! value keeps its place until it is a typed field. Reading is in two grades: a fast reader for the YAML and JSON that
//! people write and a general one for the rest and for error messages; both build the same tree. Deliberately absent:
//! files and threads. A shell that wants to load in parallel splits, calls [`load_chunks`] where it likes and
//! [`merge`]s.

mod block;
pub(crate) mod de;
mod doubt;
mod flow;
mod general;
mod identity;
mod known;
pub(crate) mod node;
mod object;
mod one_line;
mod scalar;
mod split;
mod targets;
pub mod tree;
pub(crate) mod typed;
mod unsupported;

use std::sync::Arc;

use rustc_hash::{FxBuildHasher, FxHashMap};
use serde_json::Value;

use crate::api::{CustomKind, Object, ObjectKey};
use crate::load::node::Node;
use crate::load::object::{Read, ReadOptions};

pub use crate::load::doubt::{About, Doubt, Foreign};
pub use crate::load::one_line::OneLine;
pub use crate::load::split::{Chunk, split};

/// A text with the name that messages give it.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// File name, or `-`.
    pub name: &'a str,
    /// The whole text.
    pub text: &'a str,
}

/// How a text is read: above all, bounds that keep a hostile or mistaken one from costing more than it is worth.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Longest text in bytes: 48,000,000 holds about 45,000 routes with their Services.
    pub bytes: usize,
    /// Most documents in one text.
    pub documents: usize,
    /// Most values in one document, copies made by aliases included.
    pub nodes: usize,
    /// Deepest nesting in one document.
    pub depth: usize,
    /// Most aliases in one document.
    pub aliases: usize,
    /// Whether the JSON form of each object is kept beside it.
    pub raw: Raw,
    /// The namespace of objects that name none.
    pub namespace: Arc<str>,
    /// Kinds beside ours of which objects are read.
    pub custom: Arc<[CustomKind]>,
}

/// The namespace of objects that name none, unless [`Limits::namespace`] says otherwise.
pub const DEFAULT_NAMESPACE: &str = "default";

/// Whether the JSON form of each object is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw {
    /// Drop it: the typed object is enough.
    Drop,
    /// Keep it, for schema checks and for showing what was written.
    Keep,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 48_000_000,
            documents: 200_000,
            nodes: 500_000,
            depth: 64,
            aliases: 1000,
            raw: Raw::Drop,
            namespace: DEFAULT_NAMESPACE.into(),
            custom: Arc::default(),
        }
    }
}

impl Limits {
    /// The usual limits, with kinds beside ours of which objects are read.
    pub fn with_kinds(custom: Arc<[CustomKind]>) -> Self {
        Self {
            custom,
            ..Self::default()
        }
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Something is odd, and the object is in force.
    Warning,
    /// The document or object is not in force.
    Error,
}

/// Something wrong or odd in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadFinding {
    /// How bad it is.
    pub severity: Severity,
    /// Name of the text.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The object, if it could be made out.
    pub object: Option<ObjectKey>,
    /// What is wrong and what to do.
    pub message: String,
}

impl std::fmt::Display for LoadFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let severity = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{}:{}:{}: {severity}: ", OneLine(&self.file), self.line, self.column)?;
        if let Some(object) = &self.object {
            write!(f, "{}: ", OneLine(object))?;
        }
        write!(f, "{}", OneLine(&self.message))
    }
}

/// An object and where it stands.
#[derive(Clone, Debug)]
pub struct LoadedObject {
    /// The object with defaults filled in.
    pub object: Object,
    /// What was written, when [`Limits::raw`] asks for it.
    pub raw: Option<Arc<Value>>,
    /// Name of the text.
    pub file: Arc<str>,
    /// Line on which it begins, from 1.
    pub line: usize,
}

/// What a text held.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Objects in the order of the text; no two have the same key after [`load`] or [`merge`].
    pub objects: Vec<LoadedObject>,
    /// Everything wrong or odd, in the order of the text.
    pub findings: Vec<LoadFinding>,
    /// Documents that may not say what somebody meant, in the order of the text.
    pub doubts: Vec<Doubt>,
}

impl Loaded {
    /// A text of which nothing is taken.
    pub fn refused(text: &str, finding: LoadFinding) -> Self {
        Self {
            objects: Vec::new(),
            doubts: vec![doubt::of_text(finding.line, text)],
            findings: vec![finding],
        }
    }
}

/// A message about a place in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: u32,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn new(at: u32, message: impl Into<String>) -> Self {
        Self {
            at,
            message: message.into(),
        }
    }
}

/// Loads a text.
pub fn load(source: &Source<'_>, limits: &Limits) -> Loaded {
    let chunks = match checked_split(source, limits) {
        Ok(chunks) => chunks,
        Err(finding) => return Loaded::refused(source.text, *finding),
    };
    merge([load_chunks(source, &chunks, limits)])
}

/// Cuts a text into parts that can be loaded apart, or says why it is too large.
pub fn checked_split(source: &Source<'_>, limits: &Limits) -> Result<Vec<Chunk>, Box<LoadFinding>> {
    let refuse = |line: usize, message: String| {
        Box::new(LoadFinding {
            severity: Severity::Error,
            file: source.name.into(),
            line,
            column: 1,
            object: None,
            message,
        })
    };
    let bytes = source.text.len();
    if bytes > limits.bytes {
        let message = format!(
            "the file has {bytes} bytes, more than the {} that are read: split it into smaller files",
            limits.bytes
        );
        return Err(refuse(1, message));
    }
    let chunks = split(source.text);
    match chunks.get(limits.documents) {
        Some(chunk) => {
            let message = format!(
                "the file has more than {} documents: split it into smaller files",
                limits.documents
            );
            Err(refuse(chunk.line, message))
        }
        None => Ok(chunks),
    }
}

/// Loads one part of a text; the parts belong together again by [`merge`].
pub fn load_chunk(source: &Source<'_>, chunk: &Chunk, limits: &Limits) -> Loaded {
    load_chunks(source, [chunk], limits)
}

/// Loads some parts of a text, in order; they belong together with the rest by [`merge`].
pub fn load_chunks<'a>(source: &Source<'_>, chunks: impl IntoIterator<Item = &'a Chunk>, limits: &Limits) -> Loaded {
    let file: Arc<str> = source.name.into();
    let mut loaded = Loaded::default();
    for chunk in chunks {
        load_into(&mut loaded, source, &file, chunk, limits);
    }
    loaded
}

fn load_into(loaded: &mut Loaded, source: &Source<'_>, file: &Arc<str>, chunk: &Chunk, limits: &Limits) {
    let finding = |severity, fault: Fault, object| {
        let (line, column) = position(source.text, chunk, fault.at);
        LoadFinding {
            severity,
            file: file.clone(),
            line,
            column,
            object,
            message: fault.message,
        }
    };
    let roots = match read_chunk(source, chunk, limits) {
        Ok(roots) => roots,
        Err(fault) => {
            loaded.findings.push(finding(Severity::Error, fault, None));
            let text = source.text.get(chunk.range.clone()).unwrap_or_default();
            return loaded.doubts.push(doubt::of_text(chunk.line, text));
        }
    };
    let options = ReadOptions {
        namespace: &limits.namespace,
        custom_kinds: &limits.custom,
    };
    for root in &roots {
        object::objects(root, options, &mut |node: &Node<'_>, read: Read| {
            let error = read.remarks.iter().find(|r| r.severity == Severity::Error);
            let is_refused = error.is_some();
            let broken = error.map(|error| About::Broken(error.object.clone()));
            if let Some(about) = broken.or(read.doubt) {
                let (line, _) = position(source.text, chunk, node.at);
                loaded.doubts.push(doubt::of_document(line, node, about));
            }
            loaded
                .findings
                .extend(read.remarks.into_iter().map(|r| finding(r.severity, r.fault, r.object)));
            if let Some(object) = read.object.filter(|_| !is_refused) {
                let (line, _) = position(source.text, chunk, node.at);
                let raw = (limits.raw == Raw::Keep).then(|| Arc::new(node.to_value()));
                loaded.objects.push(LoadedObject {
                    object,
                    raw,
                    file: file.clone(),
                    line,
                });
            }
        });
    }
}

/// The trees of one part of a text: by the fast reader, or by the general one if that gives up.
pub(crate) fn read_chunk<'a>(source: &Source<'a>, chunk: &Chunk, limits: &Limits) -> Result<Vec<Node<'a>>, Fault> {
    let Some(body) = source.text.get(..chunk.range.end) else {
        return Ok(Vec::new());
    };
    let start = chunk.range.start;
    if let Some(at) = lone_carriage_return(&body[start..]) {
        let message = "a carriage return alone ends this line, which many programs don't see: save the file with the line \
                       ends of Unix (LF) or Windows (CRLF)";
        return Err(Fault::new(u32::try_from(start + at).unwrap_or(u32::MAX), message));
    }
    let read = block::read(body, start, limits).map_or_else(|| general::read(body, start, limits), Ok);
    read.map_err(|fault| unrendered(body, fault))
}

/// Where a line ends as none has since the first Macintosh. To YAML it ends all the same (1.2.2 §5.4), so that what
/// follows a comment there would be read by some and passed over by others.
fn lone_carriage_return(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    memchr::memchr_iter(b'\r', bytes).find(|at| bytes.get(at + 1).is_some_and(|next| *next != b'\n'))
}

/// What a parser says about the braces of a template helps nobody.
fn unrendered(text: &str, fault: Fault) -> Fault {
    let (before, after) = usize::try_from(fault.at)
        .ok()
        .and_then(|at| text.split_at_checked(at))
        .unwrap_or((text, ""));
    // Some faults show only behind the line that causes them.
    let line = before.trim_end().rfind('\n').map_or(0, |n| n + 1);
    let end = before.len() + after.find('\n').unwrap_or(after.len());
    match text.get(line..end).and_then(|near| near.find("{{")) {
        Some(braces) => Fault::new(
            u32::try_from(line + braces).unwrap_or(fault.at),
            "this looks like a template that was not rendered: render it first (`helm template`, say), and load what \
             comes out",
        ),
        None => fault,
    }
}

/// A fault as a finding at its place.
pub(crate) fn place(source: &Source<'_>, chunk: &Chunk, fault: Fault, severity: Severity) -> LoadFinding {
    let (line, column) = position(source.text, chunk, fault.at);
    LoadFinding {
        severity,
        file: source.name.into(),
        line,
        column,
        object: None,
        message: fault.message,
    }
}

/// Line and column of a byte, counted only when there is something to report.
fn position(text: &str, chunk: &Chunk, at: u32) -> (usize, usize) {
    let start = chunk.range.start;
    let mut at = usize::try_from(at).unwrap_or(start).clamp(start, text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let before = &text[start..at];
    let line_start = before.rfind('\n').map_or(0, |n| n + 1);
    (
        chunk.line + before.bytes().filter(|b| *b == b'\n').count(),
        before[line_start..].chars().count() + 1,
    )
}

/// Joins what was loaded apart, in order: of two objects with one key the later stays, and a warning tells.
pub fn merge(parts: impl IntoIterator<Item = Loaded>) -> Loaded {
    let mut whole = Loaded::default();
    for part in parts {
        whole.objects.extend(part.objects);
        whole.findings.extend(part.findings);
        whole.doubts.extend(part.doubts);
    }
    let mut last = FxHashMap::with_capacity_and_hasher(whole.objects.len(), FxBuildHasher);
    let mut replaced = Vec::new();
    for (index, loaded) in whole.objects.iter().enumerate() {
        let metadata = loaded.object.metadata();
        let custom = loaded
            .object
            .custom()
            .map(|custom| (&*custom.content.group, &*custom.content.kind));
        let key = (loaded.object.kind(), custom, &*metadata.namespace, &*metadata.name);
        if let Some(earlier) = last.insert(key, index) {
            replaced.push((earlier, index));
        }
    }
    for (earlier, later) in &replaced {
        let (earlier, later) = (&whole.objects[*earlier], &whole.objects[*later]);
        let key = earlier.object.key();
        let message = format!(
            "{key} stands at {}:{} too, and that one is used: remove one of them",
            later.file, later.line
        );
        whole.findings.push(LoadFinding {
            severity: Severity::Warning,
            file: earlier.file.clone(),
            line: earlier.line,
            column: 1,
            object: Some(key),
            message,
        });
    }
    let mut gone = replaced.into_iter().map(|(earlier, _)| earlier).collect::<Vec<_>>();
    gone.sort_unstable();
    let mut index = 0;
    whole.objects.retain(|_| {
        index += 1;
        gone.binary_search(&(index - 1)).is_err()
    });
    whole
}

/// Joins what whole files held, in order of their paths: of an object in two files the first stays, and a warning
/// tells. Everything wrong or odd is put in order of file and place.
pub fn merge_files(files: impl IntoIterator<Item = Loaded>) -> Loaded {
    let mut whole = Loaded::default();
    let mut known: FxHashMap<ObjectKey, (Arc<str>, usize)> = FxHashMap::default();
    for file in files {
        whole.findings.extend(file.findings);
        whole.doubts.extend(file.doubts);
        for found in file.objects {
            let key = found.object.key();
            if let Some((first, line)) = known.get(&key) {
                whole.findings.push(LoadFinding {
                    severity: Severity::Warning,
                    file: found.file,
                    line: found.line,
                    column: 1,
                    object: Some(key),
                    message: in_force_elsewhere(first, *line),
                });
                continue;
            }
            known.insert(key, (found.file.clone(), found.line));
            whole.objects.push(found);
        }
    }
    whole
        .findings
        .sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
    whole
}

/// What is said about an object that another file holds too, whose path comes first.
pub fn in_force_elsewhere(file: &str, line: usize) -> String {
    format!("it stands at {file}:{line} too, and that one is in force; remove one of them")
}

/// Why an object from elsewhere, such as a cluster, is not in force, or what is odd about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The object, if it could be made out.
    pub object: Option<ObjectKey>,
    /// What is wrong, with the path of the field.
    pub message: String,
}

/// Reads an object that an API server holds, of a kind that the configuration names.
pub fn custom_from_value(kind: &CustomKind, value: &Value) -> Result<Object, Warning> {
    let read = object::custom(&Node::from_value(value), kind, &DEFAULT_NAMESPACE.into());
    read.object.ok_or_else(|| Warning {
        object: None,
        message: read
            .remarks
            .into_iter()
            .map(|r| r.fault.message)
            .next()
            .unwrap_or_default(),
    })
}

/// Which object an API server speaks of, by its kind and metadata alone: that it is gone is true whether it could be
/// read or not. Nothing if its kind isn't read, or it has no name.
pub fn key_of(value: &Value) -> Option<ObjectKey> {
    object::identity(&Node::from_value(value), &DEFAULT_NAMESPACE.into())
}

/// Reads one object that an API server holds, by the same rules as a file, except that a field nobody here knows is no
/// slip: the server knows it, or would have dropped it. Of one that is gone ask [`key_of`] alone.
pub fn from_value(value: &Value) -> Result<(Object, Vec<Warning>), Warning> {
    let options = ReadOptions {
        namespace: &DEFAULT_NAMESPACE.into(),
        custom_kinds: &[],
    };
    let read = object::object(&Node::from_value(value), options);
    let mut warnings: Vec<Warning> = read
        .remarks
        .into_iter()
        .map(|r| Warning {
            object: r.object,
            message: r.fault.message,
        })
        .collect();
    match read.object {
        Some(object) => Ok((object, warnings)),
        None => Err(warnings.pop().unwrap_or(Warning {
            object: None,
            message: "not a resource".to_owned(),
        })),
    }
}

#[cfg(test)]
mod tests;
