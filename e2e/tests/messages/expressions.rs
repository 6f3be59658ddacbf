//! Expressions in CEL, in rules of access and in access logs: both data planes must think the same of the same
//! requests.

use crate::access_logs::{lines, log};
use crate::bench::{Bench, data_planes};
use e2e::{process::wait_for, stack::PATIENCE};
use serde_json::{Value, json};
use tempfile::TempDir;

mod found;
mod tree;

const RBAC: &str = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3";
const CEL: &str = "type.googleapis.com/envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter";
const FORMATTER: &str = "type.googleapis.com/envoy.extensions.formatter.cel.v3.Cel";

/// What a request says behind its path.
const REQUESTS: [&str; 4] = [
    "host: h\r\nx-team: red\r\nx-n: 7\r\nuser-agent: agent\r\nx-request-id: me\r\n",
    "host: H:80\r\nx-team: red\r\nx-team: blue\r\nreferer: http://h/\r\ncontent-length: 3\r\n",
    "host: h\r\nx-team:\r\nx-n: seven\r\n",
    "host: h\r\nx-n: -9223372036854775808\r\nx-team: r\u{e9}d\r\n",
];

/// Expressions, and whether they are true for the first of the requests. What is `possible` here is called
/// `@not_strictly_false` in trees, which no text can name.
const RULES: &[(&str, bool)] = &[
    ("request.headers['x-team'] == 'red'", true),
    ("request.headers.host == 'h'", true),
    ("request.headers['X-Team'] == 'red'", true),
    ("request.headers[':method'] == 'GET'", true),
    ("request.headers[':path'].startsWith('/')", true),
    ("request.headers[':authority'] == request.host", true),
    ("request.headers['x-' + 'team'] == 'red'", true),
    ("request.headers['x-none'] == ''", false),
    ("!(request.headers['x-none'] == '')", false),
    ("request.headers['x-none'] == '' || true", true),
    ("true || request.headers['x-none'] == ''", true),
    ("request.headers['x-none'] == '' && false", false),
    ("!(request.headers['x-none'] == '' && false)", true),
    ("!(false && request.headers['x-none'] == '')", true),
    ("request.headers['x-none'] == '' || false", false),
    ("has(request.headers.host)", true),
    ("has(request.headers.nobody)", false),
    ("has(request.referer)", false),
    ("!has(request.referer)", true),
    ("has(request.size)", true),
    ("'x-team' in request.headers", true),
    ("'x-none' in request.headers", false),
    ("'path' in request", true),
    ("request['path'] == request.path", true),
    ("request.url_path.endsWith('/a/b')", true),
    ("request.query == 'q=1'", true),
    ("request.path.contains('?q=1')", true),
    ("request.method in ['GET', 'HEAD']", true),
    ("request.scheme == 'http' && request.protocol == 'HTTP/1.1'", true),
    ("request.useragent == 'agent'", true),
    ("request.id == 'me'", false),
    ("request.host == 'h'", true),
    ("request.size == 0", true),
    ("request.size > 2", false),
    ("request.size < 0.5", true),
    ("request.time > timestamp('2020-01-01T00:00:00Z')", true),
    ("request.time.getFullYear() >= 2020", true),
    ("has(request.duration)", false),
    ("has(response.code) || has(response.code_details)", false),
    ("response.size == 0", true),
    ("source.address.startsWith('127.0.0.1:')", true),
    ("source.port > 0 && destination.port > 0u", true),
    ("destination.address == '127.0.0.1:' + string(destination.port)", true),
    ("connection.mtls", false),
    ("!connection.mtls && connection.requested_server_name == ''", true),
    ("request.url_path.matches('^/[0-9]+/a')", true),
    ("request.url_path.matches('a/b')", true),
    ("matches(request.url_path, '^a')", false),
    ("request.headers['x-team'].matches('r.d')", true),
    ("1 == 1.0 && 1u == 1 && 1.0 == 1u", true),
    ("1 == 'a'", false),
    ("1 != 'a'", true),
    ("1 < 'a' || true", true),
    ("1 < 'a'", false),
    ("!(1 < 'a')", false),
    ("1 < 1.5 && 2u > 1.5 && -1 < 0u", true),
    ("9223372036854775807 < 9223372036854775808.0", false),
    ("9223372036854775807 + 1 > 0", false),
    ("1 / 0 == 1", false),
    ("7 % 4 == 3 && -7 % 4 == -3 && 7 / 2 == 3", true),
    ("1 + 1u == 2", false),
    ("1u - 2u == 0u", false),
    ("1.0 / 0.0 > 1.0", true),
    ("double('nan') == double('nan')", false),
    ("int(request.headers['x-n']) == 7", true),
    ("uint(request.headers['x-n']) == 7u", true),
    ("double(request.headers['x-n']) == 7.0", true),
    ("-int(request.headers['x-n']) < 0", true),
    ("int(1.9) == 1 && int(-1.9) == -1", true),
    ("int(1e30) == 0", false),
    ("bool('true') && !bool('False')", true),
    ("bool('yes')", false),
    ("string(7) + string(7u) == '77'", true),
    ("string(b'ab') == 'ab' && bytes('ab') == b'ab'", true),
    ("size('h\u{e9}') == 2 && 'abc'.size() == 3 && size(b'abc') == 3", true),
    ("size([1, 2]) == 2 && size({'a': 1}) == 1", true),
    ("size(request.headers['x-team']) > 2", true),
    ("[1, 2.0][1] == 2u", true),
    ("[1, 2][2] == 2", false),
    ("[1, 2][-1] == 2", false),
    ("1.0 in [1, 2] && !(3 in [1, 2])", true),
    ("{'a': [1, 2.5]}['a'][0] == 1u", true),
    ("{'a': 1}.a == 1 && has({'a': 1}.a) && !has({'a': 1}.b)", true),
    ("{1: 'a'}[1u] == 'a' && {1: 'a'}[1.0] == 'a'", true),
    ("{'a': 1, 'a': 2}['a'] == 1", false),
    ("{'a': 1, 'b': 2} == {'b': 2u, 'a': 1.0}", true),
    ("[1, 'a'] == [1.0, 'a'] && [1] != [1, 2]", true),
    ("[1] + [2] == [1, 2]", false),
    ("null == null && null != 1", true),
    ("true ? true : 1 / 0 == 1", true),
    ("request.headers['x-none'] == '' ? true : true", false),
    ("1 ? true : true", false),
    ("1", false),
    ("'true'", false),
    ("request.path.a == 1", false),
    ("!(request.path.a == 1)", false),
    ("!request.path", false),
    ("request.headers['x-team'].upperAscii() == 'RED'", true),
    ("'RED'.lowerAscii() == 'red'", true),
    ("'abc'.charAt(1) == 'b' && 'abc'.charAt(3) == ''", true),
    ("'abc'.charAt(4) == ''", false),
    (
        "'abcb'.indexOf('b') == 1 && 'abcb'.indexOf('b', 2) == 3 && 'abc'.indexOf('z') == -1",
        true,
    ),
    ("'abc'.indexOf('') == 0 && 'abc'.indexOf('', 3) == 3", true),
    ("'abc'.indexOf('b', 9) == -1", false),
    ("'abcb'.lastIndexOf('b') == 3 && 'abcb'.lastIndexOf('b', 2) == 1", true),
    ("'abc'.lastIndexOf('') == 3", true),
    ("'abc'.lastIndexOf('z') == -1", true),
    ("['a', 'b'].join() == 'ab' && ['a', 'b'].join('-') == 'a-b'", true),
    ("[1].join() == '1'", false),
    (
        "'a-b-c'.replace('-', '+') == 'a+b+c' && 'a-b-c'.replace('-', '+', 1) == 'a+b-c'",
        true,
    ),
    (
        "'a-b'.replace('-', '', 0) == 'a-b' && 'a-b-c'.replace('-', '', -1) == 'abc'",
        true,
    ),
    ("'abc'.reverse() == 'cba'", true),
    (
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c']",
        true,
    ),
    (
        "'a,b'.split(',', 0) == [] && 'a,b'.split(',', 1) == ['a,b'] && 'a,b'.split(',', -1) == ['a', 'b']",
        true,
    ),
    ("'abc'.split('') == ['a', 'b', 'c']", true),
    ("'abc'.split('', 2) == ['a', 'bc']", true),
    (
        "'abc'.substring(1) == 'bc' && 'abc'.substring(0, 2) == 'ab' && 'abc'.substring(3) == ''",
        true,
    ),
    ("'abc'.substring(2, 1) == ''", false),
    ("'abc'.substring(4) == ''", false),
    ("'  a \\t\\n'.trim() == 'a'", true),
    (
        "duration('1h30m') == duration('5400s') && duration('-1.5s') < duration('0s')",
        true,
    ),
    (
        "duration('1h30m').getHours() == 1 && duration('1h30m').getMinutes() == 90",
        true,
    ),
    (
        "duration('1.5s').getMilliseconds() == 500 && duration('61s').getSeconds() == 61",
        true,
    ),
    ("duration('x') == duration('x')", false),
    ("timestamp('2026-02-03T04:05:06.789Z').getMonth() == 1", true),
    ("timestamp('2026-02-03T04:05:06.789Z').getDate() == 3", true),
    ("timestamp('2026-02-03T04:05:06.789Z').getDayOfMonth() == 2", true),
    ("timestamp('2026-02-03T04:05:06.789Z').getDayOfWeek() == 2", true),
    ("timestamp('2026-02-03T04:05:06.789Z').getDayOfYear() == 33", true),
    ("timestamp('2026-02-03T04:05:06.789Z').getHours() == 4", true),
    ("timestamp('2026-02-03T04:05:06.789Z').getMilliseconds() == 789", true),
    (
        "timestamp('2026-02-03T04:05:06+01:00') == timestamp('2026-02-03T03:05:06Z')",
        true,
    ),
    (
        "timestamp('2026-02-03T00:00:00Z') + duration('24h') == timestamp('2026-02-04T00:00:00Z')",
        true,
    ),
    (
        "timestamp('2026-02-03T00:00:00Z') - timestamp('2026-02-02T00:00:00Z') == duration('24h')",
        true,
    ),
    ("int(timestamp('1970-01-01T00:01:00Z')) == 60", true),
    ("dyn(1) == 1", true),
    ("has(metadata.filter_metadata.nobody)", false),
    ("'nobody' in metadata.filter_metadata", false),
    ("metadata.filter_metadata['nobody']['a'] == 1", false),
    ("possible(!(request.headers['x-team'] == 'red'))", false),
    ("possible(!(request.headers['x-team'] == 'blue'))", true),
    ("possible(!(request.headers['x-none'] == 'red'))", true),
    ("!possible(!(request.headers['x-none'] == 'red'))", false),
    ("possible(!(int(request.headers['x-n']) == 7))", false),
    ("possible(!(1 / 0 == 1)) && request.method == 'GET'", true),
    ("possible(!(metadata.filter_metadata['nobody']['a'] == 1))", true),
    ("possible(!(connection.mtls && request.referer == 'a'))", true),
    ("possible(!(1 < 'a')) && possible(!request.path)", true),
    ("possible(1)", false),
];

/// A listener with a route for each expression, which answers 204 where it is true, and 403 else.
fn rules() -> Value {
    let texts = json!({
        "enable_string_conversion": true, "enable_string_concat": true, "enable_string_functions": true,
    });
    let routes = RULES.iter().enumerate().map(|(at, (text, _))| {
        let policy = json!({
            "permissions": [{"any": true}], "principals": [{"any": true}],
            "condition": tree::of(text), "cel_config": texts,
        });
        let rules = json!({"action": "ALLOW", "policies": {"p": policy}});
        json!({
            "match": {"prefix": format!("/{at}/")}, "direct_response": {"status": 204},
            "typed_per_filter_config": {
                "rbac": {"@type": format!("{RBAC}.RBACPerRoute"), "rbac": {"rules": rules}},
            },
        })
    });
    json!({
        "http_filters": [
            {"name": "rbac", "typed_config": {"@type": format!("{RBAC}.RBAC")}},
            {"name": "router", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
            }},
        ],
        "route_config": {"name": "all", "virtual_hosts": [
            {"name": "all", "domains": ["*"], "routes": routes.collect::<Vec<_>>()},
        ]},
    })
}

#[test]
fn rules_of_access_are_decided_alike() {
    let settings = [("in", rules())];
    let [ours, envoys] = data_planes().map(|(_, plane)| {
        let bench = Bench::start(&plane, "x-envoy", &settings);
        let answers = REQUESTS.iter().map(|fields| {
            let body = if fields.contains("content-length") { "abc" } else { "" };
            let ask = |at: usize| {
                let request = format!("GET /{at}/a/b?q=1 HTTP/1.1\r\n{fields}\r\n{body}");
                bench.send("in", &request).status == 204
            };
            (0..RULES.len()).map(ask).collect::<Vec<_>>()
        });
        answers.collect::<Vec<_>>()
    });
    let mut differences = Vec::new();
    for (nth, (own, envoys)) in ours.iter().zip(&envoys).enumerate() {
        for ((own, envoys), (text, wanted)) in own.iter().zip(envoys).zip(RULES) {
            if own != envoys || (nth == 0 && own != wanted) {
                differences.push(format!("request {nth}: {text}: {own} for {envoys}"));
            }
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

/// What a log says of each request.
const SAID: &[&str] = &[
    "request.path",
    "request.url_path",
    "request.query",
    "request.headers['x-team']",
    "request.headers['x-none']",
    "request.method == 'GET'",
    "request.host",
    "request.referer",
    "request.size",
    "request.protocol",
    "request.duration < duration('10s')",
    "response.code",
    "response.code_details",
    "response.size",
    "response.headers['x-kept']",
    "response.headers[':status']",
    "'x-none' in response.headers",
    "size(request.path)",
    "response.code + 1",
    "1u",
    "source.address.startsWith('127.0.0.1:')",
    "destination.port == source.port",
    "connection.mtls",
    "connection.requested_server_name",
    "has(upstream.address)",
    "upstream.address == ''",
    "upstream.port > 0",
    "upstream.transport_failure_reason",
    "upstream.request_attempt_count",
    "xds.cluster_name",
    "xds.route_name",
    "xds.filter_chain_name",
    "1 / 0",
];

/// Filters by expressions.
const TAKEN: [&str; 5] = [
    "response.code >= 400",
    "'x-team' in request.headers && request.headers['x-team'].contains(',')",
    "request.headers['x-none'] == 'a' || response.code == 200",
    "request.path.startsWith('/there') && connection.mtls == false",
    "request.headers['x-none'] != 'a'",
];

#[test]
fn logs_say_and_leave_out_the_same() {
    let planes = data_planes().map(|(_, plane)| said(&plane));
    let [ours, envoys] = &planes;
    let mut differences = Vec::new();
    for (name, own, envoys) in ours.1.iter().zip(&envoys.1).map(|((name, a), (_, b))| (name, a, b)) {
        if own.len() != envoys.len() {
            differences.push(format!("{name}: {own:?} for {envoys:?}"));
        }
        for (own, envoys) in own.iter().zip(envoys) {
            let (own, envoys) = (own.split('|'), envoys.split('|'));
            for ((own, envoys), text) in own.zip(envoys).zip(SAID) {
                if own != envoys {
                    differences.push(format!("{name}: {text}: {own} for {envoys}"));
                }
            }
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
    let count = |name: &str| ours.1.iter().find(|(known, _)| known == name).unwrap().1.len();
    assert_eq!(["all", "0", "1", "2", "3", "4"].map(count), [8, 4, 2, 4, 4, 0]);
}

/// The lines of each log.
fn said(plane: &e2e::stack::DataPlane) -> (TempDir, Vec<(String, Vec<String>)>) {
    let folder = tempfile::tempdir().unwrap();
    let commands: Vec<_> = SAID.iter().map(|text| format!("%CEL({text})%")).collect();
    let format = json!({
        "text_format_source": {"inline_string": commands.join("|") + "\n"},
        "formatters": [{"name": "envoy.formatter.cel", "typed_config": {"@type": FORMATTER}}],
    });
    let mut logs = vec![log(folder.path(), "all", None, Some(format))];
    for (at, text) in TAKEN.iter().enumerate() {
        let filter = json!({"extension_filter": {
            "name": "envoy.access_loggers.extension_filters.cel",
            "typed_config": {"@type": CEL, "expression": text},
        }});
        let format = json!({"text_format_source": {"inline_string": "%REQ(:PATH)% %RESPONSE_CODE%\n"}});
        logs.push(log(folder.path(), &at.to_string(), Some(filter), Some(format)));
    }
    let added = |value| json!({"header": {"key": "x-kept", "value": value}});
    let settings = [(
        "in",
        json!({
            "access_log": logs,
            "route_config": {"name": "all", "response_headers_to_add": [added("one"), added("two")], "virtual_hosts": [{
                "name": "all", "domains": ["*"], "routes": [
                {"name": "direct", "match": {"prefix": "/direct"}, "direct_response": {"status": 418}},
                {"name": "sent", "match": {"prefix": "/"}, "route": {"cluster": "backend", "prefix_rewrite": "/there/"}},
            ]}]},
        }),
    )];
    let bench = Bench::start(plane, "x-envoy", &settings);
    for path in ["/direct?a", "/sent?q=1"] {
        for fields in REQUESTS {
            let (method, body) = match fields.contains("content-length") {
                true => ("POST", "abc"),
                false => ("GET", ""),
            };
            bench.send("in", &format!("{method} {path} HTTP/1.1\r\n{fields}\r\n{body}"));
        }
    }
    // Each file is written when its own buffer is.
    wait_for("all lines", PATIENCE, || {
        bench.order("/reopen_logs");
        let count = |name: &str| lines(folder.path(), name).len();
        Ok((["all", "0", "1", "2", "3"].map(count) == [8, 4, 2, 4, 4]).then_some(()))
    })
    .unwrap();
    let names = ["all", "0", "1", "2", "3", "4"];
    let told = names.map(|name| (name.to_owned(), lines(folder.path(), name)));
    (folder, told.into())
}
