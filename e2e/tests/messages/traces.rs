//! Traces: both data planes are asked the same, must tell backends the same and report the same spans.

mod zipkin;

use crate::bench::{Bench, Socket, backend, cluster, data_planes, endpoint};
use e2e::{
    collector::Collector,
    process::wait_for,
    stack::{DataPlane, PATIENCE},
};
use envoy_types::pb::opentelemetry::proto::common::v1::{InstrumentationScope, KeyValue, KeyValueList, any_value};
use prost::Message;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr, TcpListener},
};

const TRACE: &str = "type.googleapis.com/envoy.config.trace.v3";
const DETECTOR: &str = "type.googleapis.com/envoy.extensions.tracers.opentelemetry.resource_detectors.v3";
const SAMPLER: &str = "type.googleapis.com/envoy.extensions.tracers.opentelemetry.samplers.v3";
const OPTIONS: &str = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// `opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest` and what is in it.
#[derive(Clone, PartialEq, Message)]
struct Export {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    /// A resource looks like a list of pairs.
    #[prost(message, optional, tag = "1")]
    resource: Option<KeyValueList>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<OtlpSpan>,
}

#[derive(Clone, PartialEq, Message)]
struct OtlpSpan {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    trace_state: String,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
    #[prost(fixed32, tag = "16")]
    flags: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
    #[prost(int32, tag = "3")]
    code: i32,
}

/// A span in the words that both families have.
#[derive(Clone, Debug)]
struct Span {
    trace: String,
    id: String,
    parent: String,
    is_client: bool,
    tags: BTreeMap<String, String>,
    /// All else that must be the same.
    rest: String,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Span {
    fn of_otlp(span: OtlpSpan) -> Self {
        assert!(0 < span.start_time_unix_nano && span.start_time_unix_nano <= span.end_time_unix_nano);
        let tags = span.attributes.into_iter().map(|pair| match pair.value.unwrap().value {
            Some(any_value::Value::StringValue(text)) => (pair.key, text),
            other => panic!("{}: {other:?}", pair.key),
        });
        Self {
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            is_client: span.kind == 3,
            tags: tags.collect(),
            rest: format!(
                "{} kind={} state={:?} status={:?} flags={:x}",
                span.name, span.kind, span.trace_state, span.status, span.flags
            ),
        }
    }

    fn of_zipkin(span: &Value) -> Self {
        let text = |name: &str| span[name].as_str().unwrap_or_default().to_owned();
        assert!(
            span["timestamp"].as_u64().unwrap() > 0 && span["duration"].is_u64(),
            "{span}"
        );
        let tags = span["tags"].as_object().unwrap().iter();
        Self {
            trace: text("traceId"),
            id: text("id"),
            parent: text("parentId"),
            is_client: text("kind") == "CLIENT",
            tags: tags
                .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
                .collect(),
            rest: format!(
                "{} {} shared={} {} at {}",
                text("name"),
                text("kind"),
                span["shared"],
                span["annotations"][0]["value"],
                span["localEndpoint"]["serviceName"]
            ),
        }
    }
}

fn opentelemetry(more: Value) -> Value {
    let mut config = json!({
        "@type": format!("{TRACE}.OpenTelemetryConfig"), "service_name": "shop",
        "grpc_service": {
            "envoy_grpc": {"cluster_name": "collector", "authority": "spans.example.com"},
            "initial_metadata": [{"key": "x-token", "value": "t"}],
        },
        "resource_detectors": [{"name": "static", "typed_config": {
            "@type": format!("{DETECTOR}.StaticConfigResourceDetectorConfig"), "attributes": {"a": "one"},
        }}],
    });
    let fields = config.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    json!({"name": "otlp", "typed_config": config})
}

fn zipkin_config(more: Value) -> Value {
    let mut config = json!({
        "@type": format!("{TRACE}.ZipkinConfig"), "collector_cluster": "zipkin",
        "collector_endpoint": "/api/v2/spans", "collector_endpoint_version": "HTTP_JSON",
        "collector_hostname": "spans.example.com",
    });
    let fields = config.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    json!({"name": "zipkin", "typed_config": config})
}

fn socket(name: &'static str, provider: Value) -> Socket {
    let route = |path: &str, fields: Value| {
        let mut route = json!({"name": path, "match": {"prefix": path}});
        route
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        route
    };
    let to = |cluster: &str| json!({"cluster": cluster});
    let tag = |name: &str, text: &str| json!({"tag": name, "literal": {"value": text}});
    Socket {
        manager: json!({
            "server_name": "proxy", "always_set_request_id_in_response": true,
            "internal_address_config": {},
            "tracing": {
                "provider": provider, "spawn_upstream_span": true,
                "custom_tags": [
                    tag("fixed", "x"), tag("both", "manager"),
                    {"tag": "variable", "environment": {"name": "EDGE_NO_SUCH", "default_value": "otherwise"}},
                    {"tag": "nothing", "environment": {"name": "EDGE_NO_SUCH"}},
                    {"tag": "field", "request_header": {"name": "X-User", "default_value": "nobody"}},
                    {"tag": "none", "request_header": {"name": "x-none"}},
                    {"tag": "format", "value": "%RESPONSE_CODE% %PATH(NQ)% %REQ(X-NONE)%"},
                    {"tag": "expression", "value": "%CEL(request.headers['x-user'])%"},
                    {"tag": "empty", "value": "%RESP(X-NONE)%"},
                ],
            },
            "route_config": {"name": "r", "virtual_hosts": [{"name": "v", "domains": ["*"], "routes": [
                route("/plain", json!({"route": {"cluster": "backend", "prefix_rewrite": "/there"}})),
                route("/direct", json!({"direct_response": {"status": 418, "body": {"inline_string": "short"}}})),
                route("/refusing", json!({"route": to("refusing")})),
                route("/again", json!({"route": {"cluster": "refusing", "retry_policy": {
                    "retry_on": "connect-failure", "num_retries": 1,
                }}})),
                route("/tagged", json!({"route": to("backend"), "tracing": {
                    "custom_tags": [tag("both", "route"), {"tag": "route", "value": "%ROUTE_NAME%"}],
                    "operation": "%REQ(:METHOD)% tagged", "upstream_operation": "to %UPSTREAM_CLUSTER%",
                }})),
                route("/seldom", json!({"route": to("backend"), "tracing": {"random_sampling": {"numerator": 0}}})),
                route("/", json!({"route": to("backend")})),
            ]}]},
        }),
        ..Socket::of(name)
    }
}

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331";

/// What is asked, and how many spans that makes.
fn requests() -> Vec<(String, usize)> {
    let with = |line: &str, fields: &str, spans| (format!("{line} HTTP/1.1\r\nhost: h\r\n{fields}\r\n"), spans);
    let call = "content-type: application/grpc\r\ncontent-length: 0\r\ngrpc-timeout: 1S\r\n";
    vec![
        with("GET /plain?a=b", "user-agent: agent\r\nx-user: u\r\n", 2),
        with(
            "GET /parent",
            &format!("traceparent: {PARENT}-01\r\ntracestate: a=b,c=d\r\n"),
            2,
        ),
        with("GET /dropped", &format!("traceparent: {PARENT}-00\r\n"), 0),
        with(
            "GET /broken",
            "traceparent: 00-zz-b7ad6b7169203331-00\r\ntracestate: a=b\r\n",
            0,
        ),
        with("GET /direct", "", 1),
        with("GET /refusing", "", 2),
        with("GET /again", "", 3),
        with("GET /seldom", "", 0),
        with("GET /seldom/parent", &format!("traceparent: {PARENT}-01\r\n"), 0),
        with("GET /seldom/client", "x-client-trace-id: me\r\n", 2),
        (
            "POST /tagged HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n".to_owned(),
            2,
        ),
        with("POST /call", call, 2),
        with("POST /refusing/call", call, 2),
    ]
}

/// The same for Zipkin.
fn requests_of_b3() -> Vec<(String, usize)> {
    let with = |line: &str, fields: &str, spans| (format!("{line} HTTP/1.1\r\nhost: h\r\n{fields}\r\n"), spans);
    let span = "x-b3-traceid: 463ac35c9f6413ad48485a3953bb6124\r\nx-b3-spanid: a2fb4a1d1a96d312\r\n";
    vec![
        with("GET /plain?a=b", "user-agent: agent\r\n", 2),
        with("GET /parent", &format!("{span}x-b3-sampled: 1\r\n"), 2),
        with("GET /dropped", &format!("{span}x-b3-sampled: 0\r\n"), 0),
        with(
            "GET /undecided",
            &format!("{span}x-b3-parentspanid: 00000000000000aa\r\n"),
            2,
        ),
        with(
            "GET /single",
            "b3: 463ac35c9f6413ad-a2fb4a1d1a96d312-1-00000000000000aa\r\n",
            2,
        ),
        with("GET /flag", "b3: 0\r\n", 0),
        with("GET /broken", "b3: 463ac35c9f6413ad\r\n", 0),
        with("GET /direct", "", 1),
        with("GET /refusing", "", 2),
    ]
}

/// A cluster that speaks HTTP/2.
fn collecting(address: SocketAddr) -> Value {
    let mut cluster = cluster("collector", &[endpoint(address)]);
    cluster["typed_extension_protocol_options"] = json!({"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": OPTIONS, "explicit_http_config": {"http2_protocol_options": {}}}});
    cluster
}

/// A data plane in front of everything that is asked of it.
fn bench(plane: &DataPlane, sockets: &[Socket], collector: SocketAddr, zipkin: SocketAddr) -> Bench {
    let (backend, seen) = backend("ok");
    let refusing = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap();
    let clusters = [
        cluster("backend", &[endpoint(backend)]),
        cluster("refusing", &[endpoint(refusing)]),
        collecting(collector),
        cluster("zipkin", &[endpoint(zipkin)]),
    ];
    Bench::with_sockets(&clusters, plane, "x-envoy", sockets).reporting(seen)
}

/// Which trace a backend is told that it is part of: the trace, its span, the parent of that, the rest.
fn told(seen: Option<&[String]>) -> BTreeMap<String, String> {
    const NAMES: [&str; 7] = [
        "traceparent",
        "tracestate",
        "b3",
        "x-b3-traceid",
        "x-b3-spanid",
        "x-b3-parentspanid",
        "x-b3-sampled",
    ];
    let fields = seen.iter().copied().flatten().filter_map(|line| line.split_once(':'));
    let fields = fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    fields.filter(|(name, _)| NAMES.contains(&&**name)).collect()
}

/// One request: what became of it, what its backend was told, and its spans, with ids that are drawn by chance told by
/// what they are.
fn story(line: &str, told: &BTreeMap<String, String>, spans: &[Span]) -> String {
    let mut names = BTreeMap::new();
    for span in spans {
        names.entry(span.trace.clone()).or_insert("TRACE");
    }
    for span in spans.iter().filter(|span| !span.is_client) {
        names.insert(span.id.clone(), "SERVER");
    }
    for span in spans.iter().filter(|span| span.is_client) {
        names.entry(span.id.clone()).or_insert("CLIENT");
    }
    let fixed = [
        "0af7651916cd43dd8448eb211c80319c",
        "b7ad6b7169203331",
        "463ac35c9f6413ad",
        "a2fb4a1d1a96d312",
    ];
    // In Zipkin the id of a trace may end like that of a span.
    let mut names: Vec<_> = names.into_iter().filter(|(id, _)| !id.is_empty()).collect();
    names.sort_by_key(|(id, _)| std::cmp::Reverse(id.len()));
    let named = |text: &str| {
        let mut text = text.to_owned();
        for (id, name) in &names {
            if !fixed.iter().any(|fixed| id.starts_with(fixed)) {
                text = text.replace(id.as_str(), name);
            }
        }
        text
    };
    let mut lines = vec![line.to_owned()];
    for (name, value) in told {
        // Of what isn't kept nothing is known but what the backend was told.
        let shape: String = named(value);
        let shape = match spans.is_empty() {
            true => shape
                .chars()
                .map(|char| if char.is_ascii_hexdigit() { '#' } else { char })
                .collect(),
            false => shape,
        };
        let sampled = value.rsplit('-').next().unwrap_or_default().to_owned();
        let flag = if name == "traceparent" { sampled } else { String::new() };
        lines.push(format!("  {name}: {shape} {flag}"));
    }
    for span in spans {
        let Span {
            trace,
            id,
            parent,
            tags,
            rest,
            ..
        } = span;
        lines.push(format!(
            "  {} {} below {:?}: {rest}",
            named(trace),
            named(id),
            named(parent)
        ));
        for (name, value) in tags {
            let value = match name.as_str() {
                "guid:x-request-id" => {
                    // Whether it tells of the trace.
                    value.chars().nth(14).unwrap().to_string()
                }
                // Envoy's answer says that there were several attempts, and is longer.
                "response_size" if line.contains("/again") => continue,
                "upstream_address" | "peer.address" => value.split(':').next().unwrap().to_owned(),
                _ => value.clone(),
            };
            lines.push(format!("    {name} = {value}"));
        }
    }
    lines.join("\n")
}

/// Spans by the path that was asked for: those of a trace belong to the request whose span has it in its URL.
fn by_request(spans: &[Span], line: &str) -> Vec<Span> {
    let path = line.split(' ').nth(1).unwrap();
    let url = format!("http://h{path}");
    let servers = spans.iter().filter(|span| span.tags.get("http.url") == Some(&url));
    let mut found = Vec::new();
    for server in servers {
        let attempts = spans
            .iter()
            .filter(|span| span.is_client && span.parent == server.id && span.trace == server.trace);
        found.extend(attempts.cloned());
        found.push(server.clone());
    }
    found
}

/// Asks everything and waits for all spans; then tells of each request.
fn stories(bench: &Bench, socket: &str, asked: &[(String, usize)], heard: impl Fn() -> Vec<Span>) -> Vec<String> {
    let outcomes: Vec<_> = asked
        .iter()
        .map(|(request, _)| (request.lines().next().unwrap(), bench.send(socket, request)))
        .collect();
    let expected: usize = asked.iter().map(|(_, spans)| spans).sum();
    let spans = wait_for("all spans", PATIENCE, || {
        let spans = heard();
        Ok((spans.len() >= expected).then_some(spans))
    });
    let spans = spans.unwrap_or_else(|error| panic!("{error:#}: {:#?}", heard())).0;
    let stories = outcomes.iter().map(|(line, outcome)| {
        let spans = by_request(&spans, line);
        let told = told(outcome.seen.as_deref());
        format!("{} {}", outcome.status, story(line, &told, &spans))
    });
    stories.collect()
}

/// What a resource says of itself, and who made the spans in it.
type Maker = (BTreeMap<String, String>, String);

fn of_otlp(collector: &Collector) -> (Vec<Span>, Vec<Maker>) {
    let (mut spans, mut makers) = (Vec::new(), Vec::new());
    for heard in collector.heard(EXPORT) {
        assert_eq!(heard.fields.get("x-token").unwrap(), "t");
        for mut one in Export::decode(&heard.message[..]).unwrap().resource_spans {
            let pairs = one.resource.take().unwrap().values.into_iter();
            let resource = pairs.map(|pair| match pair.value.unwrap().value {
                Some(any_value::Value::StringValue(text)) => (pair.key, text),
                other => panic!("{other:?}"),
            });
            for scope in one.scope_spans {
                let maker = scope.scope.map(|scope| scope.name).unwrap_or_default();
                makers.push((resource.clone().collect(), maker));
                spans.extend(scope.spans.into_iter().map(Span::of_otlp));
            }
        }
    }
    (spans, makers)
}

#[test]
fn both_trace_the_same_requests_alike() {
    let [ours, envoys] = data_planes().map(|(name, plane)| {
        let collector = Collector::start().unwrap();
        let bench = bench(
            &plane,
            &[socket("otlp", opentelemetry(json!({})))],
            collector.address,
            collector.address,
        );
        let stories = stories(&bench, "otlp", &requests(), || of_otlp(&collector).0);
        let (resource, maker) = of_otlp(&collector).1.remove(0);
        assert_eq!(resource["service.name"], "shop", "{name}");
        assert_eq!(resource["a"], "one", "{name}");
        let names: Vec<_> = resource.into_keys().collect();
        (stories, names, maker)
    });
    for (ours, envoys) in ours.0.iter().zip(&envoys.0) {
        assert_eq!(ours, envoys);
    }
    assert_eq!(ours.1, envoys.1);
    assert_eq!((&*ours.2, &*envoys.2), ("edge-proxy", "envoy"));
}

#[test]
fn both_speak_zipkin_alike() {
    for more in [
        json!({}),
        json!({"trace_id_128bit": true, "shared_span_context": false}),
    ] {
        let [ours, envoys] = data_planes().map(|(_, plane)| {
            let collector = zipkin::Collector::start();
            let address = collector.address;
            let bench = bench(
                &plane,
                &[socket("zipkin", zipkin_config(more.clone()))],
                address,
                address,
            );
            stories(&bench, "zipkin", &requests_of_b3(), || {
                collector.heard().iter().map(Span::of_zipkin).collect()
            })
        });
        for (ours, envoys) in ours.iter().zip(&envoys) {
            assert_eq!(ours, envoys, "{more}");
        }
    }
}

/// Whether the backend is told that a trace is kept, for callers that keep theirs, that don't, and that have none.
fn kept(plane: &DataPlane, sampler: Value) -> Vec<String> {
    let collector = Collector::start().unwrap();
    let provider = opentelemetry(json!({"sampler": sampler}));
    let bench = bench(plane, &[socket("otlp", provider)], collector.address, collector.address);
    let parents = [format!("{PARENT}-01"), format!("{PARENT}-00"), String::new()];
    let kept = parents.map(|parent| {
        let field = match parent.is_empty() {
            true => String::new(),
            false => format!("traceparent: {parent}\r\n"),
        };
        let outcome = bench.send("otlp", &format!("GET /x HTTP/1.1\r\nhost: h\r\n{field}\r\n"));
        let told = told(outcome.seen.as_deref());
        told["traceparent"].rsplit('-').next().unwrap().to_owned()
    });
    kept.into()
}

#[test]
fn samplers_keep_the_same() {
    let all = json!({"name": "all", "typed_config": {"@type": format!("{SAMPLER}.AlwaysOnSamplerConfig")}});
    let ratio = |numerator: u32| {
        json!({"name": "ratio", "typed_config": {
            "@type": format!("{SAMPLER}.TraceIdRatioBasedSamplerConfig"),
            "sampling_percentage": {"numerator": numerator, "denominator": "MILLION"},
        }})
    };
    let parent = |wrapped: Value| {
        json!({"name": "parent", "typed_config": {
            "@type": format!("{SAMPLER}.ParentBasedSamplerConfig"), "wrapped_sampler": wrapped,
        }})
    };
    for (sampler, expected) in [
        (all.clone(), ["01", "01", "01"]),
        (ratio(0), ["00", "00", "00"]),
        (parent(all), ["01", "00", "01"]),
        (parent(ratio(0)), ["01", "00", "00"]),
    ] {
        for (name, plane) in data_planes() {
            assert_eq!(kept(&plane, sampler.clone()), expected, "{name}: {sampler}");
        }
    }
    // Shares go by the same half of a trace's id, read the same way.
    let first = u64::from_str_radix(&PARENT[3..19], 16).unwrap().swap_bytes();
    let share = u32::try_from(first % 1_000_000).unwrap();
    for (name, plane) in data_planes() {
        assert_eq!(kept(&plane, ratio(share))[0], "00", "{name}");
        assert_eq!(kept(&plane, ratio(share + 1))[0], "01", "{name}");
    }
}

#[test]
fn spans_are_counted_and_what_nobody_takes_is_bounded() {
    let away = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = away.local_addr().unwrap();
    drop(away);
    let bench = bench(
        &DataPlane::EdgeProxy,
        &[socket("otlp", opentelemetry(json!({})))],
        address,
        address,
    );
    let long = "a".repeat(16 << 10);
    let stat = |name: &str| {
        let stats = bench.stats();
        let line = stats
            .lines()
            .find_map(|line| line.strip_prefix(name).map(str::to_owned));
        line.unwrap_or_else(|| panic!("{name}: {stats}"))
    };
    // More than a mebibyte, while what went before is tried again.
    for _ in 0..100 {
        let request = format!("GET /direct HTTP/1.1\r\nhost: h\r\nuser-agent: {long}\r\n\r\n");
        assert_eq!(bench.send("otlp", &request).status, 418);
    }
    assert_eq!(stat("http.otlp.tracing.random_sampling: "), "100");
    assert_ne!(stat("tracing.opentelemetry.spans_dropped: "), "0");
    assert_eq!(stat("tracing.opentelemetry.spans_sent: "), "0");
}
