//! Who the client is: by addresses of trusted proxies or by a header, and after edits that come before all that.

use crate::bench::{Bench, Outcome, data_planes};
use serde_json::{Value, json};

const DETECTION: &str = "type.googleapis.com/envoy.extensions.http.original_ip_detection";
const EARLY: &str = "type.googleapis.com/envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation";

fn range(address: &str, bits: u8) -> Value {
    json!({"address_prefix": address, "prefix_len": bits})
}

fn networks(address: &str, skip_append: bool) -> Value {
    extension(json!({
        "@type": format!("{DETECTION}.xff.v3.XffConfig"),
        "xff_trusted_cidrs": {"cidrs": [range(address, 8), range("10.0.0.0", 8)]},
        "skip_xff_append": skip_append,
    }))
}

fn header(trusted: bool, reject: Value) -> Value {
    extension(json!({
        "@type": format!("{DETECTION}.custom_header.v3.CustomHeaderConfig"),
        "header_name": "x-real-ip",
        "allow_extension_to_set_address_as_trusted": trusted,
        "reject_with_status": reject,
    }))
}

/// Settings of a manager with this extension; the backend is told who the client is.
fn extension(config: Value) -> Value {
    let extension = json!({"name": "detection", "typed_config": config});
    told(json!({"use_remote_address": false, "original_ip_detection_extensions": [extension]}))
}

fn told(mut settings: Value) -> Value {
    let client = json!({"header": {"key": "x-client", "value": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"}});
    settings["internal_address_config"] = json!({"cidr_ranges": [range("203.0.113.0", 24), range("10.0.0.0", 8)]});
    settings["route_config"] = json!({"name": "told", "virtual_hosts": [{
        "name": "all", "domains": ["*"], "request_headers_to_add": [client],
        "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "backend"}}],
    }]});
    settings
}

fn request(fields: &[(&str, &str)]) -> String {
    let lines: String = fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    format!("GET / HTTP/1.1\r\nhost: h\r\n{lines}\r\n")
}

/// The client as the backend was told, and whether it is internal.
fn client(outcome: &Outcome) -> (&str, bool) {
    let client = outcome.fields("x-client").first().copied().unwrap_or_default();
    (client, !outcome.fields("x-envoy-internal").is_empty())
}

#[test]
fn proxies_of_known_networks_are_believed() {
    for (name, plane) in data_planes() {
        let settings = [
            ("ours", networks("127.0.0.0", false)),
            ("silent", networks("127.0.0.0", true)),
            ("others", networks("192.0.2.0", true)),
        ];
        let bench = Bench::start(&plane, "x-envoy", &settings);
        for (told, found) in [
            ("", ("127.0.0.1", false)),
            ("203.0.113.7", ("203.0.113.7", true)),
            ("198.51.100.1, 203.0.113.7, 10.0.0.1", ("203.0.113.7", false)),
            ("10.0.0.3, 10.0.0.1", ("10.0.0.3", false)),
            ("junk, 10.0.0.1", ("127.0.0.1", false)),
            ("203.0.113.7, ,10.0.0.1", ("127.0.0.1", false)),
            ("203.0.113.7:99, 10.0.0.1", ("127.0.0.1", false)),
        ] {
            let request = request(&[("x-forwarded-for", told)]);
            for listener in ["ours", "silent"] {
                let outcome = bench.send(listener, &request);
                assert_eq!(client(&outcome), found, "{name}, {listener}: {told:?}");
                let own = outcome.fields("x-forwarded-for").concat();
                assert_eq!(
                    own == told,
                    listener == "silent",
                    "{name}, {listener}: {told:?} became {own:?}"
                );
            }
            // A stranger is believed nothing, and named.
            let outcome = bench.send("others", &request);
            assert_eq!(client(&outcome), ("127.0.0.1", false), "{name}: {told:?}");
            assert_ne!(outcome.fields("x-forwarded-for").concat(), told, "{name}");
        }
        let lines = bench.send(
            "ours",
            &request(&[("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "10.0.0.1")]),
        );
        assert_eq!(client(&lines), ("1.1.1.1", false), "{name}");
    }
}

#[test]
fn a_header_says_who_the_client_is() {
    for (name, plane) in data_planes() {
        let settings = [
            ("trusted", header(true, Value::Null)),
            ("untrusted", header(false, Value::Null)),
            ("needed", header(true, json!({"code": "Forbidden"}))),
        ];
        let bench = Bench::start(&plane, "x-envoy", &settings);
        for (values, found) in [
            (&["203.0.113.7"][..], Some("203.0.113.7")),
            (&["203.0.113.7", "10.1.1.1"], Some("203.0.113.7")),
            (&["::1"], Some("::1")),
            (&[], None),
            (&["junk"], None),
            (&["203.0.113.7:80"], None),
            (&["[::1]"], None),
            (&["203.0.113.7, 1.1.1.1"], None),
        ] {
            let fields: Vec<_> = values.iter().map(|value| ("x-real-ip", *value)).collect();
            let request = request(&fields);
            let is_internal = found == Some("203.0.113.7");
            let told = found.unwrap_or("127.0.0.1");
            assert_eq!(
                client(&bench.send("trusted", &request)),
                (told, is_internal),
                "{name}: {values:?}"
            );
            let untrusted = bench.send("untrusted", &request);
            assert_eq!(client(&untrusted), (told, false), "{name}: {values:?}");
            assert!(untrusted.fields("x-forwarded-for").is_empty(), "{name}: {untrusted:?}");
            let needed = bench.send("needed", &request);
            assert_eq!(
                needed.status,
                if found.is_some() { 200 } else { 403 },
                "{name}: {values:?}"
            );
            assert_eq!(needed.seen.is_some(), found.is_some(), "{name}: {values:?}");
        }
    }
}

#[test]
fn early_edits_come_before_all_else() {
    for (name, plane) in data_planes() {
        let put = |name: &str, value: &str| json!({"append": {"header": {"key": name, "value": value}}});
        let edits = json!({"@type": EARLY, "mutations": [
            put("x-forwarded-for", "192.0.2.9"),
            put("x-said", "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT% %REQ(x-name)%"),
            put("x_under", "one"),
            put("x-envoy-retry-on", "5xx"),
            {"remove": "x-gone"},
            {"append": {"header": {"key": "x-role", "value": "anon"}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}},
            {"append": {"header": {"key": "x-absent", "value": "d"}, "append_action": "ADD_IF_ABSENT"}},
        ]});
        let early = json!([{"name": "early", "typed_config": edits}]);
        let settings = |remote: bool| {
            let refused = json!({"headers_with_underscores_action": "REJECT_REQUEST"});
            told(
                json!({"use_remote_address": remote, "early_header_mutation_extensions": early,
                        "common_http_protocol_options": refused}),
            )
        };
        let bench = Bench::start(
            &plane,
            "x-envoy",
            &[("edge", settings(true)), ("behind", settings(false))],
        );
        let fields = [("x-name", "ann"), ("x-gone", "1"), ("x-forwarded-for", "198.51.100.1")];
        for (listener, found) in [("edge", "127.0.0.1"), ("behind", "192.0.2.9")] {
            let outcome = bench.send(listener, &request(&fields));
            assert_eq!(client(&outcome), (found, false), "{name}, {listener}");
            assert_eq!(outcome.fields("x-said"), ["127.0.0.1 ann"], "{name}, {listener}");
            assert_eq!(outcome.fields("x_under"), ["one"], "{name}, {listener}");
            assert_eq!(outcome.fields("x-gone"), [""; 0], "{name}, {listener}");
            assert_eq!(outcome.fields("x-envoy-retry-on"), [""; 0], "{name}, {listener}");
            let forwarded = outcome.fields("x-forwarded-for").join(",");
            let all: Vec<_> = forwarded.split(',').map(str::trim).collect();
            assert_eq!(&all[..2], ["198.51.100.1", "192.0.2.9"], "{name}, {listener}");
            // RFC 9110 §7.6.1: what a client calls its connection's own is what it has sent, nothing that is set here.
            for own in ["x-role, x-absent, x-said", "close, X-Role, X-Absent, X-Said"] {
                let fields = [
                    ("connection", own),
                    ("x-role", "admin"),
                    ("x-said", "mine"),
                    ("x-absent", "mine"),
                ];
                let outcome = bench.send(listener, &request(&fields));
                assert_eq!(outcome.fields("x-role"), ["anon"], "{name}, {listener}: {own}");
                assert_eq!(outcome.fields("x-absent"), ["d"], "{name}, {listener}: {own}");
                assert_eq!(outcome.fields("x-said").len(), 1, "{name}, {listener}: {own}");
                assert!(outcome.fields("connection").is_empty(), "{name}, {listener}: {own}");
            }
        }
    }
}
