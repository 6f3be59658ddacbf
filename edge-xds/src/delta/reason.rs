//! A proxy's message, cut to what a user can use.
//!
//! Envoy adds the whole resource in text form, hundreds of lines, and wraps a cause in the names of all messages around
//! it. What matters is the innermost cause and the field that it names. The whole message is for the log.

/// Longest reason, in bytes.
const MAX_REASON: usize = 400;
/// What Envoy marks dumps with.
const DUMPS: [&str; 2] = ["goo.gle/debugonly", "goo.gle/debugstr"];
/// What Envoy puts between a message and the one inside that is at fault.
const CAUSE: &str = "caused by ";

/// The first meaningful line of a message: without the name of the resource in front, dumps and wrappings.
pub fn reason(detail: &str, resource: &str) -> String {
    let without_marks = |line: &str| DUMPS.iter().fold(line.to_owned(), |line, mark| line.replace(mark, ""));
    let mut lines = detail.lines().map(|line| without_marks(line).trim().to_owned());
    let line = lines.find(|line| !line.is_empty()).unwrap_or_default();
    let cause = match line.rfind(CAUSE) {
        Some(start) => innermost(&line[start + CAUSE.len()..]),
        None => line,
    };
    let cause = cause
        .strip_prefix(resource)
        .map_or(cause.as_str(), |rest| rest.trim_start_matches([':', ' ']));
    let cause = without_name(without_name(cause, "virtual host"), "route");
    let cause = cause.trim_end_matches([':', ';', ' ']);
    if cause.is_empty() {
        return "the proxy gives no reason".to_owned();
    }
    let end = cause.floor_char_boundary(MAX_REASON);
    match end == cause.len() {
        true => cause.to_owned(),
        false => format!("{}…", cause[..end].trim_end()),
    }
}

/// edge-proxy names a virtual host and a route in front, which a user knows by other names.
fn without_name<'a>(text: &'a str, what: &str) -> &'a str {
    let name = text.strip_prefix(what).and_then(|rest| rest.strip_prefix(" \""));
    name.and_then(|name| name.split_once("\": "))
        .map_or(text, |(_, rest)| rest)
}

/// `RouteMatchValidationError.Path: value …)` as `RouteMatch.Path: value …`.
fn innermost(cause: &str) -> String {
    let cause = cause.trim_end_matches([':', ' ']);
    // The bracket was opened before the cause.
    let unbalanced = cause.matches(')').count() > cause.matches('(').count();
    let cause = if unbalanced {
        cause.strip_suffix(')').unwrap_or(cause)
    } else {
        cause
    };
    cause.replacen("ValidationError.", ".", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_cause_is_what_is_told() {
        let detail = "Proto constraint validation failed (RouteConfigurationValidationError.VirtualHosts[0]: embedded \
                      message failed validation | caused by VirtualHostValidationError.Routes[0]: embedded message \
                      failed validation | caused by RouteMatchValidationError.PathSeparatedPrefix: value does not \
                      match regex pattern \"^[^?#]+[^?#/]$\"): goo.gle/debugonly \nname: \"default/gw/http\"\n\
                      virtual_hosts {\n}\n";
        assert_eq!(
            reason(detail, "default/gw/http"),
            "RouteMatch.PathSeparatedPrefix: value does not match regex pattern \"^[^?#]+[^?#/]$\""
        );
    }

    #[test]
    fn one_line_is_enough_and_the_name_is_known() {
        assert_eq!(
            reason("\n\nt: routes[0]: no such thing; \nmore", "t"),
            "routes[0]: no such thing"
        );
        assert_eq!(reason("goo.gle/debugstr missing ]: (a[)", "t"), "missing ]: (a[)");
        let detail =
            "t: virtual host \"t/h\": route \"a/rule/0/match/0/h\": match.safe_regex.regex: unclosed group\nt: more";
        assert_eq!(reason(detail, "t"), "match.safe_regex.regex: unclosed group");
        assert_eq!(reason("  ", "t"), "the proxy gives no reason");
        let long = reason(&"ä".repeat(1000), "t");
        assert!(long.len() < 410 && long.ends_with('…'), "{long}");
    }
}
