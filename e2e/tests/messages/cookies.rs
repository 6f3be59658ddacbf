//! Cookies as conditions of routes: which requests a route takes.

use crate::bench::{Bench, data_planes};
use serde_json::{Value, json};

/// A route table in which the requests that the condition holds for answer 204.
fn table(condition: &Value) -> Value {
    let taken = json!({"match": {"prefix": "/", "cookies": [condition]}, "direct_response": {"status": 204}});
    let rest = json!({"match": {"prefix": "/"}, "direct_response": {"status": 202}});
    json!({"route_config": {"name": "all", "virtual_hosts": [
        {"name": "all", "domains": ["*"], "routes": [taken, rest]},
    ]}})
}

#[test]
fn routes_are_chosen_by_cookies() {
    let exact = json!({"name": "a", "string_match": {"exact": "1"}});
    let others = json!({"name": "a", "string_match": {"exact": "1"}, "invert_match": true});
    let any = json!({"name": "a", "string_match": {"safe_regex": {"regex": ".*"}}});
    let tables = [("exact", exact), ("others", others), ("any", any)];
    let settings: Vec<_> = tables
        .iter()
        .map(|(name, condition)| (*name, table(condition)))
        .collect();
    // The lines of a request, and which listeners' conditions hold for it.
    let rows: [(&str, &[&str]); 15] = [
        ("", &["others"]),
        ("cookie: a=1\r\n", &["exact", "any"]),
        ("cookie: a=\"1\"\r\n", &["exact", "any"]),
        ("cookie: a=2\r\n", &["others", "any"]),
        ("cookie: A=1\r\n", &["others"]),
        ("cookie: a=\r\n", &["others", "any"]),
        ("cookie: a\r\n", &["others"]),
        ("cookie: b=2; a=1\r\n", &["exact", "any"]),
        ("cookie: b=2;a=1;c=3\r\n", &["exact", "any"]),
        ("cookie: a=1; a=2\r\n", &["exact", "any"]),
        ("cookie: a=2; a=1\r\n", &["others", "any"]),
        ("cookie: a=1 ; b=2\r\n", &["others", "any"]),
        ("cookie: b=2\r\ncookie: a=1\r\n", &["exact", "any"]),
        ("cookie: ba=1\r\n", &["others"]),
        ("cookie: a=1=2\r\n", &["others", "any"]),
    ];
    for (plane, data_plane) in data_planes() {
        let bench = Bench::start(&data_plane, "x-envoy", &settings);
        for (lines, wanted) in &rows {
            let holds = tables.iter().filter(|(listener, _)| {
                let request = format!("GET / HTTP/1.1\r\nhost: h\r\n{lines}\r\n");
                bench.send(listener, &request).status == 204
            });
            let holds: Vec<_> = holds.map(|(name, _)| *name).collect();
            assert_eq!(holds, *wanted, "{plane}: {lines:?}");
        }
    }
}
