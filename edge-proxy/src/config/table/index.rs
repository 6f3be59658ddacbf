//! The index of path conditions of one virtual host.

use regex::Regex;
use rustc_hash::FxHashMap;

use crate::config::route::{PathCondition, Route};
use crate::config::table::Places;

/// Finds the routes whose path condition fits a path.
#[derive(Debug, Default)]
pub struct PathIndex {
    exact: FxHashMap<Box<str>, Places>,
    separated: FxHashMap<Box<str>, Places>,
    /// `prefix: /` and the empty prefix: they fit every path that starts with `/`, the usual catch-all.
    everything: Places,
    /// Other plain prefixes by their length.
    prefixes: Vec<(usize, FxHashMap<Box<str>, Places>)>,
    /// Regular expressions, in the order of the list.
    regexes: Vec<(u32, Regex)>,
    /// Conditions that ignore case and CONNECT: looked at one by one.
    others: Vec<u32>,
}

impl PathIndex {
    /// Builds the index of a list.
    pub fn new(routes: &[Route]) -> Self {
        let mut index = Self::default();
        for (place, route) in (0_u32..).zip(routes) {
            match &route.path {
                PathCondition::Exact(path) => index.exact.entry(path.clone()).or_default().push(place),
                PathCondition::Separated(path) => index.separated.entry(path.clone()).or_default().push(place),
                PathCondition::Prefix(prefix) if &**prefix == "/" => index.everything.push(place),
                PathCondition::Prefix(prefix) => index.add_prefix(prefix, place),
                PathCondition::Regex(regex) => index.regexes.push((place, (**regex).clone())),
                PathCondition::PrefixIgnoreCase(_)
                | PathCondition::SeparatedIgnoreCase(_)
                | PathCondition::ExactIgnoreCase(_)
                | PathCondition::Connect => index.others.push(place),
            }
        }
        index.prefixes.sort_by_key(|(len, _)| *len);
        index
    }

    fn add_prefix(&mut self, prefix: &str, place: u32) {
        let at = match self.prefixes.iter().position(|(len, _)| *len == prefix.len()) {
            Some(at) => at,
            None => {
                self.prefixes.push((prefix.len(), FxHashMap::default()));
                self.prefixes.len() - 1
            }
        };
        self.prefixes[at].1.entry(prefix.into()).or_default().push(place);
    }

    /// Calls `takes` for candidates and leaves the lowest place that it accepted in `best`. Places above the best one
    /// so far are not asked.
    pub(super) fn candidates(&self, path: &str, best: &mut Option<u32>, mut takes: impl FnMut(u32) -> bool) {
        let mut visit = |places: &[u32], best: &mut Option<u32>| {
            for place in places {
                if best.is_some_and(|found| found <= *place) {
                    return;
                }
                if takes(*place) {
                    *best = Some(*place);
                    return;
                }
            }
        };
        if let Some(places) = self.exact.get(path) {
            visit(places, best);
        }
        self.visit_separated(path, best, &mut visit);
        for (len, table) in &self.prefixes {
            let Some(head) = path.get(..*len) else {
                if *len > path.len() {
                    break;
                }
                continue;
            };
            if let Some(places) = table.get(head) {
                visit(places, best);
            }
        }
        for (place, regex) in &self.regexes {
            if best.is_some_and(|found| found <= *place) {
                break;
            }
            if regex.is_match(path) {
                visit(&[*place], best);
            }
        }
        visit(&self.others, best);
        if path.starts_with('/') {
            visit(&self.everything, best);
        }
    }

    fn visit_separated(&self, path: &str, best: &mut Option<u32>, visit: &mut impl FnMut(&[u32], &mut Option<u32>)) {
        if self.separated.is_empty() {
            return;
        }
        let mut rest = path;
        loop {
            if let Some(places) = self.separated.get(rest) {
                visit(places, best);
            }
            match rest.rfind('/') {
                Some(0) | None => return,
                Some(slash) => rest = &rest[..slash],
            }
        }
    }
}
