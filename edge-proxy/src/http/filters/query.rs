//! Parameters in the query of a target, as Envoy's filters read them.

use std::borrow::Cow;

use crate::message::head::Head;
use crate::percent;

/// The first value of a parameter, with its escapes undone; `None` where it isn't there.
pub(in crate::http) fn value<'t>(target: &'t str, name: &str) -> Option<Cow<'t, str>> {
    raw(target, name).map(percent::decode)
}

/// The first value of a parameter as it stands there; `None` where it isn't.
pub(super) fn raw<'t>(target: &'t str, name: &str) -> Option<&'t str> {
    let (_, query) = target.split_once('?')?;
    let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find_map(|(found, value)| (percent::decode(found) == name).then_some(value))
}

/// The target without a parameter; `None` where it doesn't have it.
pub(in crate::http) fn without(target: &str, name: &str) -> Option<String> {
    let (path, query) = target.split_once('?')?;
    let is = |pair: &&str| percent::decode(pair.split_once('=').map_or(*pair, |(found, _)| found)) == name;
    query.split('&').find(is)?;
    let left: Vec<&str> = query.split('&').filter(|pair| !is(pair)).collect();
    Some(if left.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{}", left.join("&"))
    })
}

/// Gives a parameter of a request one value, or none; `false` where that makes no target.
pub(super) fn put(name: &str, value: Option<&str>, head: &mut Head) -> bool {
    take_out(name, head);
    let Some(value) = value else { return true };
    let target = head.target.as_str();
    let sign = if target.contains('?') { '&' } else { '?' };
    let target = format!("{target}{sign}{name}={value}");
    head.set_target(&target).is_ok()
}

/// Takes a parameter out of the target of a request.
pub(super) fn take_out(name: &str, head: &mut Head) {
    if let Some(target) = without(head.target.as_str(), name) {
        // What is left of a good target is one.
        let _ = head.set_target(&target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_found_and_taken_out() {
        let target = "/p?a=1&b=x%2by&b=2&c";
        assert_eq!(value(target, "b").as_deref(), Some("x+y"));
        assert_eq!(value(target, "c").as_deref(), Some(""));
        assert_eq!((value(target, "d"), value("/p", "a")), (None, None));
        assert_eq!(without(target, "b").as_deref(), Some("/p?a=1&c"));
        assert_eq!(without("/p?a=1", "a").as_deref(), Some("/p"));
        assert_eq!(without("/p?a=1", "b"), None);
    }

    #[test]
    fn a_parameter_gets_one_value_or_none() {
        let mut head = Head::empty();
        head.set_target("/p?a=1&b=2&a=3").expect("a target");
        assert!(put("a", None, &mut head));
        assert_eq!(head.target, "/p?b=2");
        assert!(put("b", Some("9"), &mut head) && put("c", Some("4"), &mut head));
        assert_eq!(head.target, "/p?b=9&c=4");
        assert!(!put("d", Some("a b"), &mut head));
    }
}
