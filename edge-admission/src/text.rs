//! Texts of resources, judged document by document. A document that was judged before costs a look at its hash: rules
//! in CEL take half a millisecond an object, and an edit touches one of thousands.

use crate::{
    definition::{Catalogue, Channel},
    path::{Path, Segment},
    refusal::Refusal,
};
use edge_translate::load::{
    Chunk, Limits, LoadFinding, Severity, Source, checked_split,
    tree::{End, Step, Tree, trees},
};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};
use xxhash_rust::xxh3::xxh3_128;

/// Judges texts, and remembers what was said of the documents of the last one.
#[derive(Debug)]
pub struct Judge {
    channel: Channel,
    /// By the hash of a document's text.
    known: BTreeMap<u128, Arc<[Remark]>>,
}

/// What is said of a document.
#[derive(Debug)]
struct Remark {
    /// From the document's first, which is 0.
    line: usize,
    column: usize,
    message: String,
}

impl Judge {
    /// One that goes by the definitions of a channel, and of our own kinds.
    pub fn new(channel: Channel) -> Self {
        Self {
            channel,
            known: BTreeMap::new(),
        }
    }

    /// A warning for everything that an API server would refuse. What can't be read is for loaders to tell.
    pub fn judge(&mut self, source: &Source<'_>) -> Vec<LoadFinding> {
        let Ok(chunks) = checked_split(source, &Limits::default()) else {
            return Vec::new();
        };
        let file: Arc<str> = source.name.into();
        let mut known = BTreeMap::new();
        let mut findings = Vec::new();
        for chunk in &chunks {
            let text = source.text.get(chunk.range.clone()).unwrap_or_default();
            let hash = xxh3_128(text.as_bytes());
            let remarks = self.known.remove(&hash).unwrap_or_else(|| self.document(text));
            findings.extend(remarks.iter().map(|remark| finding(&file, chunk, remark)));
            known.insert(hash, remarks);
        }
        self.known = known;
        findings
    }

    fn document(&self, text: &str) -> Arc<[Remark]> {
        let catalogue = Catalogue::of(self.channel);
        let (trees, _) = trees(&Source { name: "", text }, &Limits::default());
        let remarks = trees.iter().flat_map(|tree| {
            let value = tree.value();
            let verdict = catalogue.judge(&value);
            let refusals = verdict.map(|verdict| verdict.refusals).unwrap_or_default();
            let remark = |refusal: Refusal| remark(tree, &value, &refusal);
            refusals.into_iter().map(remark).collect::<Vec<_>>()
        });
        remarks.collect()
    }
}

fn remark(tree: &Tree<'_>, value: &Value, refusal: &Refusal) -> Remark {
    let (line, column) = place(tree, refusal);
    let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&value["kind"]), text(&value["metadata"]["name"]));
    Remark {
        line: line.saturating_sub(1),
        column,
        message: format!("{kind} {name}: an API server would refuse this: {refusal}"),
    }
}

fn finding(file: &Arc<str>, chunk: &Chunk, remark: &Remark) -> LoadFinding {
    LoadFinding {
        severity: Severity::Warning,
        file: Arc::clone(file),
        line: chunk.line + remark.line,
        column: remark.column,
        object: None,
        message: remark.message.clone(),
    }
}

/// Line and column of what a refusal is about: a field that is too many by its name, others by what they hold.
pub fn place(tree: &Tree<'_>, refusal: &Refusal) -> (usize, usize) {
    let end = if refusal.is_of_name() { End::Key } else { End::Value };
    tree.place(steps(&refusal.path), end)
}

fn steps(path: &Path) -> impl Iterator<Item = Step<'_>> {
    path.segments().iter().map(|segment| match segment {
        Segment::Field(name) | Segment::Key(name) => Step::Key(name),
        Segment::Index(index) => Step::Index(*index),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "kind: Gateway\napiVersion: gateway.networking.k8s.io/v1\nmetadata: {name: g}\n\
                        spec: {gatewayClassName: edge, listeners: [{name: http, protocol: HTTP, port: 80}]}\n";

    fn told(judge: &mut Judge, text: &str) -> Vec<String> {
        let findings = judge.judge(&Source { name: "f.yaml", text });
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_a_server_refuses_is_told_with_its_place_wherever_the_document_moves() {
        let mut judge = Judge::new(Channel::Standard);
        let bad = GOOD.replace("port: 80", "port: 0");
        assert_eq!(told(&mut judge, GOOD), [""; 0]);
        let first = told(&mut judge, &bad);
        let message = "warning: Gateway g: an API server would refuse this: spec.listeners[0].port: Invalid value: 0: \
                       spec.listeners[0].port in body should be greater than or equal to 1";
        assert_eq!(first, [format!("f.yaml:4:79: {message}")]);
        let moved = told(&mut judge, &format!("{GOOD}---\n{bad}---\n[\n"));
        assert_eq!(moved, [format!("f.yaml:9:79: {message}")]);
        assert_eq!(judge.known.len(), 3);
        assert_eq!(told(&mut judge, ""), [""; 0]);
        assert!(judge.known.is_empty(), "what is gone is forgotten");
    }
}
