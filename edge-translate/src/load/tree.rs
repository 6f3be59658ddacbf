//! Resources as they are written, whatever their kind, with the place of everything in them: for who judges texts
//! instead of translating them.

use super::{Chunk, Fault, Limits, LoadFinding, Node, Severity, Source, checked_split, object, place, position};
use crate::load::node::{Data, Entry};
use serde_json::Value;

/// A resource in a text.
#[derive(Clone, Debug)]
pub struct Tree<'a> {
    text: &'a str,
    chunk: Chunk,
    root: Node<'a>,
}

/// A step from a value to one in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'s> {
    /// To the value of a key.
    Key(&'s str),
    /// To an entry of a list, from 0.
    Index(usize),
}

/// Which end of an entry is meant by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The key, where the step to it is one.
    Key,
    /// The value.
    Value,
}

impl Tree<'_> {
    /// What is written.
    pub fn value(&self) -> Value {
        self.root.to_value()
    }

    /// The document that it is in, without the marker before it.
    pub fn document(&self) -> &str {
        let text = self.text.get(self.chunk.range.clone()).unwrap_or_default();
        text.strip_prefix("---").map_or(text, str::trim_start)
    }

    /// Line and column, from 1, of a value; of the nearest one around it where it isn't there.
    pub fn place<'s>(&self, steps: impl IntoIterator<Item = Step<'s>>, end: End) -> (usize, usize) {
        let (mut node, mut at) = (&self.root, self.root.at);
        for step in steps {
            let next = match (&node.data, step) {
                (Data::Map(entries), Step::Key(key)) => entries.iter().find(|entry| entry.key == key).map(below(end)),
                (Data::Seq(entries), Step::Index(index)) => entries.get(index).map(|entry| (entry, entry.at)),
                _ => None,
            };
            let Some(next) = next else { break };
            (node, at) = next;
        }
        position(self.text, &self.chunk, at)
    }
}

fn below<'n, 'a>(end: End) -> impl Fn(&'n Entry<'a>) -> (&'n Node<'a>, u32) {
    move |entry| match end {
        End::Key => (&entry.value, entry.at),
        End::Value => (&entry.value, entry.value.at),
    }
}

/// The resources of a text, those of lists apart, and what couldn't be read of it.
pub fn trees<'a>(source: &Source<'a>, limits: &Limits) -> (Vec<Tree<'a>>, Vec<LoadFinding>) {
    let chunks = match checked_split(source, limits) {
        Ok(chunks) => chunks,
        Err(finding) => return (Vec::new(), vec![*finding]),
    };
    let (mut trees, mut findings) = (Vec::new(), Vec::new());
    for chunk in &chunks {
        match super::read_chunk(source, chunk, limits) {
            Ok(roots) => {
                for root in &roots {
                    object::resources(root, &mut |resource: &Node<'a>| match resource.data {
                        Data::Map(_) => trees.push(Tree {
                            text: source.text,
                            chunk: chunk.clone(),
                            root: resource.clone(),
                        }),
                        _ => {
                            let fault = Fault::new(resource.at, object::NO_RESOURCE);
                            findings.push(place(source, chunk, fault, Severity::Error));
                        }
                    });
                }
            }
            Err(fault) => findings.push(place(source, chunk, fault, Severity::Error)),
        }
    }
    (trees, findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_its_place() {
        let text = "# one\nkind: A\n---\nkind: List\nitems:\n- kind: B\n  spec:\n    a: [1, 2]\n- 7\n---\n[\n";
        let (trees, findings) = trees(&Source { name: "f", text }, &Limits::default());
        let kinds: Vec<_> = trees.iter().map(|tree| tree.value()["kind"].clone()).collect();
        assert_eq!(kinds, ["A", "B"]);
        let steps = || [Step::Key("spec"), Step::Key("a"), Step::Index(1)];
        assert_eq!(trees[1].place(steps(), End::Value), (8, 12));
        assert_eq!(trees[1].place([Step::Key("spec"), Step::Key("a")], End::Key), (8, 5));
        assert_eq!(
            trees[1].place([Step::Key("spec"), Step::Key("gone"), Step::Index(0)], End::Value),
            (8, 5)
        );
        assert!(
            trees[1].document().starts_with("kind: List\n"),
            "{:?}",
            trees[1].document()
        );
        let places: Vec<_> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(places, [9, 11]);
    }
}
