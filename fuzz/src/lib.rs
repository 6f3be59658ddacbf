//! Fuzz targets for every parser of bytes from outside, as ordinary tests.
//!
//! `cargo test -p fuzz` replays kept inputs and tries a bounded number of random ones;
//! `BOLERO_RANDOM_ITERATIONS=1000000 cargo test -p fuzz --release load` tries that many. `cargo xtask fuzz` is guided
//! by coverage (CONTRIBUTING.md).
//!
//! What is here serves the targets: [`Edited`] turns a few random numbers into a text that is almost right, because
//! random bytes alone never get past the first line of a parser; [`world`] is a fleet to start from.

use edge_translate::{
    Change, Settings, Translation, Translator,
    load::{Limits, Source, load},
};
use edge_xds::{lower::Lowering, snapshot::Snapshot};

/// One edit: where, what, and with which token.
pub type Edit = (u16, u8, u8);

/// Pieces of syntax that parsers trip over.
const TOKENS: &[&str] = &[
    ": ",
    "- ",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    "|\n",
    ">-\n",
    "#",
    " #",
    "&a ",
    "*a",
    "!!str ",
    "\t",
    "~",
    "null",
    "0x1F",
    "1e999",
    "-0",
    "0o17",
    ".inf",
    "yes",
    "\u{feff}",
    "\r\n",
    "\n---\n",
    "\n...\n",
    "%YAML 1.2\n",
    "é",
    "\u{0}",
    "\\u0041",
    "\\",
    ",",
    "<<: ",
    "? ",
    "  ",
    "\n",
    "@",
    "`",
    "18446744073709551616",
    "a: &b [*b]\n",
    "\u{85}",
    "\u{2028}",
];

/// A text with a few edits.
#[derive(Debug)]
pub struct Edited(pub String);

impl Edited {
    /// Applies edits to one of the seeds.
    pub fn new(seeds: &[&str], choice: u8, edits: &[Edit]) -> Self {
        let mut text = match seeds.get(usize::from(choice) % seeds.len().max(1)) {
            Some(seed) => (*seed).to_owned(),
            None => String::new(),
        };
        for (place, action, token) in edits.iter().take(12) {
            edit(&mut text, usize::from(*place), *action, *token);
        }
        Self(text)
    }
}

fn edit(text: &mut String, place: usize, action: u8, token: u8) {
    let mut at = place % (text.len() + 1);
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let length = usize::from(token);
    let mut end = (at + length).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    match action % 6 {
        0 | 1 => text.insert_str(at, TOKENS[length % TOKENS.len()]),
        2 => {
            let gone = text
                .get(at..)
                .and_then(|rest| rest.chars().next())
                .map_or(at, |c| at + c.len_utf8());
            text.replace_range(at..gone, TOKENS[length % TOKENS.len()]);
        }
        3 => text.replace_range(at..end, ""),
        4 => {
            let copy = text[at..end].to_owned();
            text.insert_str(at, &copy);
        }
        _ => {
            // A whole line again, at another place.
            let lines: Vec<&str> = text.lines().collect();
            let line = lines
                .get(length % lines.len().max(1))
                .map(|line| format!("{line}\n"))
                .unwrap_or_default();
            let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
            text.insert_str(start, &line);
        }
    }
}

/// Flips bytes.
pub fn edited_bytes(seed: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for (place, action, byte) in edits.iter().take(12) {
        let at = usize::from(*place) % (bytes.len() + 1);
        match action % 3 {
            0 => bytes.insert(at, *byte),
            1 => bytes.truncate(bytes.len().min(at.max(1))),
            _ => {
                if let Some(place) = bytes.get_mut(at) {
                    *place = *byte;
                }
            }
        }
    }
    bytes
}

/// A world with a little of everything.
pub const WORLD: &str = include_str!("world.yaml");

/// Translates a text.
pub fn translate(text: &str) -> Translation {
    let loaded = load(&Source { name: "-", text }, &Limits::default());
    let mut translator = Translator::new(Settings::default());
    for object in loaded.objects {
        translator.apply(Change::Put(object.object));
    }
    translator.translate()
}

/// What the fleet of [`WORLD`] is sent.
pub fn snapshot() -> Snapshot {
    let translation = translate(WORLD);
    let fleet = translation.fleets.into_values().next();
    fleet.map(|fleet| Lowering::new().lower(&fleet)).unwrap_or_default()
}
