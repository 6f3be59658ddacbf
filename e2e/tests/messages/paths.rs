//! Paths before routing: an access rule must see what the backend will see.

use crate::bench::{Bench, data_planes};
use serde_json::{Value, json};

/// A path and what must become of it: the target that the backend gets, or the status and location.
enum Becomes {
    Target(&'static str),
    /// Other than with Envoy, whose result would change again if it were normalised again.
    TargetNotEnvoys(&'static str),
    Refused,
    Redirect(&'static str),
}
use Becomes::{Redirect, Refused, Target, TargetNotEnvoys};

fn settings(escaped: &str) -> Value {
    json!({"normalize_path": true, "merge_slashes": true, "path_with_escaped_slashes_action": escaped})
}

const KEEP: &str = "KEEP_UNCHANGED";
const REJECT: &str = "REJECT_REQUEST";
const FORWARD: &str = "UNESCAPE_AND_FORWARD";
const REDIRECT: &str = "UNESCAPE_AND_REDIRECT";
const ALL: [&str; 4] = [KEEP, REJECT, FORWARD, REDIRECT];

/// Under every setting for escaped slashes.
const ALWAYS: &[(&str, Becomes)] = &[
    ("/public/%%32%65%%32%65/admin", Target("/public/%252e%252e/admin")),
    ("/p/%2%65/x", Target("/p/%252e/x")),
    ("/p/%%32%66x", Target("/p/%252fx")),
    ("/p/..%2%66x", Target("/p/..%252fx")),
    ("/p/%%35%63x", Target("/p/%255cx")),
    ("/p/..%5%63x", Target("/p/..%255cx")),
    ("/p/%%30%30", Target("/p/%2500")),
    ("/p/a%0%30", Target("/p/a%2500")),
    ("/p/%%326x", Target("/p/%2526x")),
    ("/p/%2%35x", Target("/p/%2525x")),
    ("/p/%e%32", Target("/p/%25e2")),
    ("/p/%%2e", Target("/p/%.")),
    ("/p/%%%%32%65", Target("/p/%%%252e")),
    ("/p/%zz", Target("/p/%zz")),
    ("/p/%", Target("/p/%")),
    ("/p/%252e%252e/", Target("/p/%252e%252e/")),
    ("/p/%C0%AE%C0%AE/x", Target("/p/%C0%AE%C0%AE/x")),
    ("/public/..;/admin", Target("/admin")),
    ("/public/..;x=y/admin", Target("/admin")),
    ("/public/.;/../admin", Target("/admin")),
    ("/public/.;/admin", Target("/public/admin")),
    ("/public/..;x", Target("/")),
    ("/public/.;", Target("/public/")),
    ("/public/..%3b/admin", Target("/public/..%3b/admin")),
    ("/public/a;/../admin", Target("/public/admin")),
    ("/public/a;x=..;/admin", Target("/public/a;x=..;/admin")),
    ("/public/...;/admin", Target("/public/...;/admin")),
    ("/a//..;/b", Target("/a/b")),
    ("/a/b/..;x?q=..;/", Target("/a/?q=..;/")),
    ("/public/%2e%2e;/admin", TargetNotEnvoys("/admin")),
    ("/public/..;\\admin", TargetNotEnvoys("/admin")),
    ("/p/a\"b^{c|d}", Target("/p/a%22b%5E%7Bc%7Cd%7D")),
    ("/p/<a>`b`", Target("/p/%3Ca%3E%60b%60")),
    // Envoy hands these on as they came.
    ("/p/x?<a>\"b\"", TargetNotEnvoys("/p/x?%3Ca%3E%22b%22")),
    ("/p/.%00./x", Refused),
];

const BY_SETTING: &[(&str, &str, Becomes)] = &[
    (KEEP, "/p/..%2fx", Target("/p/..%2fx")),
    (REJECT, "/p/..%2fx", Refused),
    (REJECT, "/public/..;%2fadmin", Refused),
    (FORWARD, "/p/..%2fx", Target("/x")),
    (FORWARD, "/p/..%5Cx?%2f", Target("/x?%2f")),
    (REDIRECT, "/p/..%2fx?%2f", Redirect("/x?%2f")),
    (REDIRECT, "/public/..;%2fadmin", Redirect("/admin")),
];

#[test]
fn paths_become_what_the_backend_would_make_of_them() {
    for (name, plane) in data_planes() {
        let listeners: Vec<_> = ALL.iter().map(|action| (*action, settings(action))).collect();
        let bench = Bench::start(&plane, "x-envoy", &listeners);
        let always = ALL
            .iter()
            .flat_map(|action| ALWAYS.iter().map(|(path, becomes)| (*action, *path, becomes)));
        let by_setting = BY_SETTING
            .iter()
            .map(|(action, path, becomes)| (*action, *path, becomes));
        for (action, path, becomes) in always.chain(by_setting) {
            let outcome = bench.send(action, &format!("GET {path} HTTP/1.1\r\nhost: h\r\n\r\n"));
            let got = (outcome.status, outcome.target(), outcome.location.as_deref());
            let want = match *becomes {
                Target(target) => (200, Some(target), None),
                TargetNotEnvoys(target) if name == "edge-proxy" => (200, Some(target), None),
                TargetNotEnvoys(target) => {
                    assert_ne!(outcome.target(), Some(target), "{name} now agrees about {path}");
                    continue;
                }
                Refused => (400, None, None),
                Redirect(location) => (307, None, Some(location)),
            };
            assert_eq!(got, want, "{name}, {action}: {path}");
        }
    }
}
