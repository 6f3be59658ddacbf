//! Names of routes as proxies have them: the object, the rule and the match.

use crate::{name::RouteKind, phase::precedence::Seniority};
use std::sync::Arc;

/// Names of the routes of an object. What they have in common is written once.
pub(super) struct RouteNames {
    text: String,
    /// Length of the part that stays.
    object: usize,
}

impl RouteNames {
    /// The beginning of names.
    pub(super) fn new(kind: RouteKind, route: &Seniority) -> Self {
        let kind = kind.kind().as_str();
        let mut text = String::with_capacity(kind.len() + route.namespace.len() + route.name.len() + 32);
        text.push_str(kind);
        text.make_ascii_lowercase();
        for part in ["/", &*route.namespace, "/", &*route.name] {
            text.push_str(part);
        }
        let object = text.len();
        Self { text, object }
    }

    /// The name of a match.
    pub(super) fn of(&mut self, rule: usize, match_index: usize) -> Arc<str> {
        self.write(rule, match_index);
        Arc::from(&*self.text)
    }

    /// The name of one of the routes that a match has where its backends have routes of their own.
    pub(super) fn of_part(&mut self, rule: usize, match_index: usize, part: usize) -> Arc<str> {
        self.write(rule, match_index);
        self.text.push_str("/part/");
        push_number(&mut self.text, part);
        Arc::from(&*self.text)
    }

    fn write(&mut self, rule: usize, match_index: usize) {
        self.text.truncate(self.object);
        self.text.push_str("/rule/");
        push_number(&mut self.text, rule);
        self.text.push_str("/match/");
        push_number(&mut self.text, match_index);
    }
}

/// Writes a number in decimal. Three times for a usual route, where the formatter would cost more than all the rest of
/// a name.
fn push_number(text: &mut String, number: usize) {
    if number >= 10 {
        push_number(text, number / 10);
    }
    text.push(char::from(b'0' + (number % 10) as u8));
}
