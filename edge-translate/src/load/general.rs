//! Every YAML document there is, one parser event at a time, with the words for what is wrong.
//!
//! Anchors, aliases, merge keys and tags are resolved here. What an alias stands for is copied, so copies count
//! against the limit of values: a text of a few lines that unfolds to millions is refused before it grows.

use std::borrow::Cow;

use granit_parser::{Event, Options, Parser, ScalarStyle, Span, StrInput};
use rustc_hash::FxHashMap;

use crate::load::node::{Data, Entry, Node, repeated};
use crate::load::scalar::{key_text, resolve};
use crate::load::{Fault, Limits};

/// Reads one document that ends at the end of `text` and begins at `start`.
pub(crate) fn read<'a>(text: &'a str, start: usize, limits: &Limits) -> Result<Vec<Node<'a>>, Fault> {
    let mut options = Options::default();
    options.emit_comments = false;
    options.block_nesting_limit = limits.depth;
    options.flow_nesting_limit = limits.depth;
    let parser = Parser::new_from_str_with_options(&text[start..], options);
    let mut composer = Composer {
        parser,
        start,
        anchors: FxHashMap::default(),
        nodes: limits.nodes,
        aliases: limits.aliases,
        depth: limits.depth,
        last: start,
    };
    let mut roots = Vec::new();
    loop {
        let (event, at) = composer.next()?;
        match event {
            Event::StreamEnd => return Ok(roots),
            Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
            event => roots.push(composer.node(event, at)?),
        }
    }
}

struct Composer<'a> {
    parser: Parser<'a, StrInput<'a>>,
    start: usize,
    anchors: FxHashMap<usize, (Node<'a>, usize)>,
    nodes: usize,
    aliases: usize,
    depth: usize,
    last: usize,
}

impl<'a> Composer<'a> {
    fn next(&mut self) -> Result<(Event<'a>, u32), Fault> {
        match self.parser.next_event() {
            None => Ok((Event::StreamEnd, self.place(self.last))),
            Some(Ok((event, span))) => {
                self.last = self.start + offset(&span);
                Ok((event, self.place(self.last)))
            }
            Some(Err(error)) => {
                let marker = error.marker();
                let at = marker.byte_offset().unwrap_or_else(|| marker.index());
                Err(Fault::new(self.place(self.start + at), syntax_advice(error.info())))
            }
        }
    }

    fn place(&self, at: usize) -> u32 {
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    fn spend(&mut self, nodes: usize, at: u32) -> Result<(), Fault> {
        match self.nodes.checked_sub(nodes) {
            Some(rest) => {
                self.nodes = rest;
                Ok(())
            }
            None => Err(Fault::new(
                at,
                "the document holds too many values: split it, and use fewer aliases",
            )),
        }
    }

    fn node(&mut self, event: Event<'a>, at: u32) -> Result<Node<'a>, Fault> {
        self.spend(1, at)?;
        let before = self.nodes;
        let (data, anchor) = match event {
            Event::Alias(id) => return self.alias(id, at),
            Event::Scalar(text, style, anchor, tag) => (
                scalar(text, style, tag.as_ref().and_then(|tag| tag.core_suffix())),
                anchor,
            ),
            Event::SequenceStart(_, anchor, _) => {
                self.descend(at)?;
                (Data::Seq(self.items()?), anchor)
            }
            Event::MappingStart(_, anchor, _) => {
                self.descend(at)?;
                (Data::Map(self.entries()?), anchor)
            }
            _ => return Err(Fault::new(at, "a value is missing here")),
        };
        if matches!(data, Data::Seq(_) | Data::Map(_)) {
            self.depth += 1;
        }
        let node = Node { at, data };
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), 1 + before - self.nodes));
        }
        Ok(node)
    }

    fn descend(&mut self, at: u32) -> Result<(), Fault> {
        self.depth = self
            .depth
            .checked_sub(1)
            .ok_or_else(|| Fault::new(at, "values are nested too deeply here: flatten the document"))?;
        Ok(())
    }

    fn alias(&mut self, id: usize, at: u32) -> Result<Node<'a>, Fault> {
        self.aliases = self
            .aliases
            .checked_sub(1)
            .ok_or_else(|| Fault::new(at, "the document uses too many aliases: write the values out"))?;
        let Some((size, node)) = self.anchors.get(&id).map(|(node, size)| (*size, node)) else {
            return Err(Fault::new(
                at,
                "the alias names an anchor that is still open: a value can't hold itself",
            ));
        };
        let copy = node.data.clone();
        self.spend(size, at)?;
        Ok(Node { at, data: copy })
    }

    fn items(&mut self) -> Result<Vec<Node<'a>>, Fault> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, at) => items.push(self.node(event, at)?),
            }
        }
    }

    fn entries(&mut self) -> Result<Vec<Entry<'a>>, Fault> {
        let mut entries = Vec::new();
        let mut merged = Vec::new();
        loop {
            let (event, at) = match self.next()? {
                (Event::MappingEnd, _) => break,
                next => next,
            };
            let plain = matches!(event, Event::Scalar(_, ScalarStyle::Plain, ..));
            let key = match event {
                Event::Scalar(text, ScalarStyle::Plain, _, None) => key_text(text),
                Event::Scalar(text, ..) => text,
                _ => return Err(Fault::new(at, "a key must be a plain word or a quoted text")),
            };
            let (event, value_at) = self.next()?;
            let value = self.node(event, value_at)?;
            if plain && key == "<<" {
                merge(value, &mut merged)?;
            } else {
                entries.push(Entry { at, key, value });
            }
        }
        if let Some(entry) = repeated(&entries) {
            return Err(Fault::new(
                entry.at,
                format!("the key `{}` stands here twice: keep one of them", entry.key),
            ));
        }
        for entry in merged {
            if !entries.iter().any(|own: &Entry<'_>| own.key == entry.key) {
                entries.push(entry);
            }
        }
        Ok(entries)
    }
}

/// Takes the entries that a merge key brings in; earlier ones win.
fn merge<'a>(value: Node<'a>, into: &mut Vec<Entry<'a>>) -> Result<(), Fault> {
    match value.data {
        Data::Map(entries) => {
            into.extend(entries);
            Ok(())
        }
        Data::Seq(items) => items.into_iter().try_for_each(|item| merge(item, into)),
        _ => Err(Fault::new(value.at, "`<<` takes a mapping or a list of mappings")),
    }
}

fn scalar<'a>(text: Cow<'a, str>, style: ScalarStyle, tag: Option<&str>) -> Data<'a> {
    match (style, tag) {
        (_, Some("str")) => Data::Text(text),
        (ScalarStyle::Plain, _) | (_, Some("int" | "float" | "bool" | "null")) => resolve(text),
        _ => Data::Text(text),
    }
}

fn offset(span: &Span) -> usize {
    span.start.byte_offset().unwrap_or_else(|| span.start.index())
}

/// The parser's words with what to do about it.
fn syntax_advice(info: impl std::fmt::Display) -> String {
    format!("not valid YAML: {info}; check the indentation and quotes here and just above")
}
