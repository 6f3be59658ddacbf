//! What a copy says of a file in which something is broken: the last good text of each object that is in force.
//!
//! A text of which everything is in force is its own copy. Else the documents that are in force are copied, and beside
//! them the objects that are held, as they stood in the copies before. A document with both is copied object by object.

use crate::provider::file::table::Settled;
use edge_translate::{
    api::ObjectKey,
    load::{Limits, LoadedObject, Raw, Source, checked_split, load, load_chunk},
};
use std::collections::BTreeSet;

/// What of a file is in force, and where that stands.
pub(in crate::provider::file) struct InForce<'a> {
    /// Its text now.
    pub(in crate::provider::file) text: &'a str,
    /// Copies in which objects stand that are held.
    pub(in crate::provider::file) before: Vec<String>,
    /// Objects that are held.
    pub(in crate::provider::file) held: BTreeSet<ObjectKey>,
    /// Objects that stand in its text and are not in force by it.
    pub(in crate::provider::file) dropped: BTreeSet<ObjectKey>,
    /// What is doubtful in it and hides nothing.
    pub(in crate::provider::file) settled: Settled,
}

impl InForce<'_> {
    /// The copy.
    pub(in crate::provider::file) fn copy(mut self, limits: &Limits) -> String {
        if self.held.is_empty() && self.dropped.is_empty() {
            return self.text.to_owned();
        }
        let limits = Limits {
            raw: Raw::Keep,
            ..limits.clone()
        };
        let mut copy = String::new();
        self.copy_good(&limits, &mut copy);
        let mut wanted = std::mem::take(&mut self.held);
        for text in &self.before {
            let known = load(&Source { name: "", text }, &limits);
            let held = known.objects.iter().filter(|found| wanted.remove(&found.object.key()));
            held.for_each(|found| add(&mut copy, found));
        }
        copy
    }

    /// The documents of the text that are in force.
    fn copy_good(&mut self, limits: &Limits, copy: &mut String) {
        let text = self.text;
        let source = Source { name: "", text };
        for chunk in checked_split(&source, limits).unwrap_or_default() {
            let loaded = load_chunk(&source, &chunk, limits);
            let is_in_force = |found: &&LoadedObject| {
                let key = found.object.key();
                !self.held.contains(&key) && !self.dropped.contains(&key)
            };
            let good: Vec<_> = loaded.objects.iter().filter(is_in_force).collect();
            let mut settled = self.settled.clone();
            let is_settled = loaded.doubts.iter().all(|doubt| settled.take(doubt));
            let written = text.get(chunk.range).unwrap_or_default();
            // A directive belongs before the marker.
            let is_plain = !written.lines().any(|line| line.starts_with('%'));
            match is_plain && is_settled && good.len() == loaded.objects.len() {
                true => {
                    self.settled = settled;
                    add_text(copy, written);
                }
                false => good.into_iter().for_each(|found| add(copy, found)),
            }
        }
    }
}

fn add_text(copy: &mut String, text: &str) {
    if !copy.is_empty() && !copy.ends_with('\n') {
        copy.push('\n');
    }
    if !text.starts_with("---") {
        copy.push_str("---\n");
    }
    copy.push_str(text);
}

fn add(copy: &mut String, found: &LoadedObject) {
    if let Some(raw) = &found.raw {
        add_text(copy, &format!("{raw}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str, port: u16) -> String {
        format!("apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{ports: [{{port: {port}}}]}}\n")
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(edge_translate::api::Kind::Service, "default", name)
    }

    fn keys(text: &str) -> Vec<String> {
        let loaded = load(&Source { name: "f", text }, &Limits::default());
        loaded
            .objects
            .iter()
            .map(|found| found.object.key().name.to_string())
            .collect()
    }

    #[test]
    fn what_is_in_force_is_copied_and_nothing_else() {
        let list = format!(
            "kind: List\napiVersion: v1\nitems:\n- {}- {{apiVersion: v1, kind: Service, metadata: {{name: b}}, spec: 7}}\n",
            service("a", 1).replace('\n', "\n  ").trim_end_matches(' ')
        );
        let text = format!(
            "{list}---\n# torn\nkind: [\n---\n{}---\n{}",
            service("c", 2),
            service("d", 3)
        );
        let before = vec![format!("{}---\n{}", service("b", 9), service("gone", 9))];
        let in_force = InForce {
            text: &text,
            before,
            held: [key("b")].into(),
            dropped: [key("d")].into(),
            settled: Settled::default(),
        };
        let copy = in_force.copy(&Limits::default());
        assert_eq!(keys(&copy), ["a", "c", "b"], "{copy}");
        assert!(copy.contains("\"port\":9") && !copy.contains("torn"), "{copy}");
    }

    #[test]
    fn a_text_that_is_in_force_is_its_own_copy() {
        let text = format!("# first\n{}---\nkind: [\n", service("a", 1));
        let in_force = InForce {
            text: &text,
            before: Vec::new(),
            held: BTreeSet::new(),
            dropped: BTreeSet::new(),
            settled: Settled::default(),
        };
        assert_eq!(in_force.copy(&Limits::default()), text);
    }
}
