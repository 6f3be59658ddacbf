//! Reading a file again costs what changed in it.
//!
//! A file may hold thousands of documents, and an edit touches one. Documents that are the same as at the last reading
//! keep their objects, which are then also the same allocations as before. Those with findings or doubts are read
//! every time: what is said about them carries places.

use edge_translate::load::{Limits, Loaded, LoadedObject, Source, checked_split, load_chunk, merge};
use std::collections::HashMap;
use xxhash_rust::xxh3::xxh3_128;

/// The documents of one file as they were read last, by the hash of their text.
#[derive(Debug, Default)]
pub struct Parts {
    known: HashMap<u128, Part>,
}

#[derive(Debug)]
struct Part {
    /// Line on which the document began when it was read.
    line: usize,
    objects: Vec<LoadedObject>,
}

impl Parts {
    /// What the file holds now.
    pub fn load(&mut self, source: &Source<'_>, limits: &Limits) -> Loaded {
        let chunks = match checked_split(source, limits) {
            Ok(chunks) => chunks,
            Err(finding) => return Loaded::refused(source.text, *finding),
        };
        let mut known = HashMap::with_capacity(chunks.len());
        let parts = chunks.iter().map(|chunk| {
            let hash = xxh3_128(source.text.get(chunk.range.clone()).unwrap_or_default().as_bytes());
            let part = match self.known.remove(&hash) {
                Some(part) => part,
                None => {
                    let loaded = load_chunk(source, chunk, limits);
                    if !loaded.findings.is_empty() || !loaded.doubts.is_empty() {
                        return loaded;
                    }
                    Part {
                        line: chunk.line,
                        objects: loaded.objects,
                    }
                }
            };
            let loaded = part.at(chunk.line);
            known.insert(hash, part);
            loaded
        });
        let whole = merge(parts.collect::<Vec<_>>());
        self.known = known;
        whole
    }
}

impl Part {
    /// The same document, beginning on another line.
    fn at(&self, line: usize) -> Loaded {
        let moved = |object: &LoadedObject| LoadedObject {
            line: line + object.line.saturating_sub(self.line),
            ..object.clone()
        };
        Loaded {
            objects: self.objects.iter().map(moved).collect(),
            ..Loaded::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_translate::{api::Object, load::load};
    use std::sync::Arc;

    fn service(name: &str, port: u16) -> String {
        format!("kind: Service\napiVersion: v1\nmetadata: {{name: {name}}}\nspec: {{ports: [{{port: {port}}}]}}\n---\n")
    }

    fn text_of(loaded: &Loaded) -> String {
        let objects = loaded
            .objects
            .iter()
            .map(|o| format!("{}:{} {:?}\n", o.file, o.line, o.object));
        objects
            .chain(loaded.findings.iter().map(|f| format!("{f}\n")))
            .collect()
    }

    #[test]
    fn reading_again_gives_what_reading_afresh_gives() {
        let torn = "kind: Service\nmetadata: {name: t\n---\n";
        let twice = service("a", 1) + &service("a", 1);
        let texts = [
            service("a", 1) + &service("b", 2),
            service("new", 7) + &service("a", 1) + torn + &service("b", 3),
            "# a line more\n".to_owned() + torn + &service("b", 3) + &twice,
            String::new(),
            service("b", 3),
        ];
        let mut parts = Parts::default();
        for text in &texts {
            let source = Source { name: "f", text };
            let again = parts.load(&source, &Limits::default());
            assert_eq!(text_of(&again), text_of(&load(&source, &Limits::default())), "{text}");
        }
    }

    #[test]
    fn an_unchanged_document_keeps_its_objects() {
        let mut parts = Parts::default();
        let mut read = |text: &str| match &parts.load(&Source { name: "f", text }, &Limits::default()).objects[..] {
            [first, ..] => match &first.object {
                Object::Service(service) => Arc::clone(service),
                other => panic!("{other:?}"),
            },
            [] => panic!("nothing was read"),
        };
        let before = read(&(service("a", 1) + &service("b", 2)));
        let after = read(&(service("a", 1) + &service("b", 3)));
        assert!(Arc::ptr_eq(&before, &after));
    }
}
