//! What is said of each thing that can be wrong with a policy: the sentences of the contract that no golden case shows,
//! because the definitions of the kinds keep them from a file, or because one case shows another fault of the area.
//!
//! Every row closes what its policy covers, too.

use crate::rig::{Rig, all_closed, hosts};
use edge_ir::{Fleet, Network};
use edge_translate::{Feature, Settings, api::Kind, status::Truth};

const WORLD: &str = r"
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: edge
  listeners: [{name: http, protocol: HTTP, port: 80}, {name: tcp, protocol: TCP, port: 90}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: route}
spec: {parentRefs: [{name: gw}], rules: [{name: one, backendRefs: [{name: app, port: 80}]}]}
---
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: TCPRoute
metadata: {name: stream}
spec: {parentRefs: [{name: gw, sectionName: tcp}], rules: [{backendRefs: [{name: app, port: 80}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: app}
spec: {ports: [{port: 80}]}
---
apiVersion: gateway.edge/v1alpha1
kind: Backend
metadata: {name: own}
spec: {endpoints: [{fqdn: {hostname: own.example.com, port: 80}}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: odd}
data: {a: '1', b: '2'}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: empty}
---
apiVersion: v1
kind: Secret
metadata: {name: edge-oidc-hmac, namespace: edge-gateway-system}
stringData: {hmac-secret: 0123456789abcdef0123456789abcdef}
---
apiVersion: v1
kind: Secret
metadata: {name: plain}
stringData: {.htpasswd: 'ann'}
---
apiVersion: v1
kind: Secret
metadata: {name: short}
stringData: {.htpasswd: 'ann:{SHA}!'}
---
apiVersion: v1
kind: Secret
metadata: {name: hashed}
stringData: {.htpasswd: 'ann:$apr1$x'}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {ann: 'k'}
---
apiVersion: v1
kind: Secret
metadata: {name: client}
stringData: {client-secret: 's'}
";

/// A policy and what is said of it.
struct Row {
    kind: Kind,
    /// Its target.
    target: &'static str,
    /// What it says besides.
    spec: &'static str,
    message: &'static str,
}

const GATEWAY: &str = "{group: gateway.networking.k8s.io, kind: Gateway, name: gw}";
const ROUTE: &str = "{group: gateway.networking.k8s.io, kind: HTTPRoute, name: route}";
const STREAM: &str = "{group: gateway.networking.k8s.io, kind: TCPRoute, name: stream}";

const fn of(kind: Kind, target: &'static str, spec: &'static str, message: &'static str) -> Row {
    Row {
        kind,
        target,
        spec,
        message,
    }
}

const fn clients(spec: &'static str, message: &'static str) -> Row {
    of(Kind::ClientTrafficPolicy, GATEWAY, spec, message)
}

const fn traffic(spec: &'static str, message: &'static str) -> Row {
    of(Kind::BackendTrafficPolicy, ROUTE, spec, message)
}

const fn security(spec: &'static str, message: &'static str) -> Row {
    of(Kind::SecurityPolicy, ROUTE, spec, message)
}

const fn extension(spec: &'static str, message: &'static str) -> Row {
    of(Kind::EdgeExtensionPolicy, ROUTE, spec, message)
}

/// Rows of status.md §7, area by area.
const ROWS: &[Row] = &[
    clients(
        "http2: {initialConnectionWindowSize: 1Ki}",
        "HTTP2: InitialConnectionWindowSize value 1Ki is out of range, must be between 65535 and 2147483647.",
    ),
    clients(
        "headers: {maxRequestHeaderLimit: 9Mi}",
        "Headers: MaxRequestHeaderLimit value 9Mi exceeds the maximum of 8192Ki.",
    ),
    clients(
        "headers: {lateResponseHeaders: {remove: [x-a], removeOnMatch: [{type: Prefix, value: ''}]}}",
        "Headers: LateResponseHeaders cannot remove a header with an empty matcher value.",
    ),
    clients(
        "timeout: {http: {requestReceivedTimeout: soon}}",
        "Timeout: invalid HTTP RequestReceivedTimeout value soon.",
    ),
    clients(
        "timeout: {http: {idleTimeout: soon}}",
        "Timeout: invalid HTTP IdleTimeout value soon.",
    ),
    clients(
        "timeout: {http: {streamIdleTimeout: soon}}",
        "Timeout: invalid HTTP StreamIdleTimeout value soon.",
    ),
    clients(
        "timeout: {http: {requestHeadersReceivedTimeout: soon}}",
        "Timeout: invalid HTTP RequestHeadersReceivedTimeout value soon.",
    ),
    clients(
        "timeout: {tcp: {idleTimeout: soon}}",
        "Timeout: invalid TCP IdleTimeout value soon.",
    ),
    clients(
        "timeout: {tcp: {tlsHandshakeTimeout: soon}}",
        "Timeout: invalid TCP TLSHandshakeTimeout value soon.",
    ),
    clients(
        "timeout: {tcp: {connectionInspectionTimeout: soon}}",
        "Timeout: invalid TCP ConnectionInspectionTimeout value soon.",
    ),
    clients(
        "connection: {bufferLimit: much}",
        "Connection: invalid BufferLimit value much.",
    ),
    clients(
        "connection: {connectionLimit: {value: 1, closeDelay: soon}}",
        "Connection: invalid CloseDelay value soon.",
    ),
    clients(
        "connection: {connectionLimit: {maxConnectionDuration: soon}}",
        "Connection: invalid MaxConnectionDuration value soon.",
    ),
    clients(
        "connection: {connectionLimit: {maxStreamDuration: soon}}",
        "Connection: invalid MaxStreamDuration value soon.",
    ),
    clients(
        "tls: {clientValidation: {optional: true}}",
        "TLS: tls.clientValidation.optional=true requires caCertificateRefs (maps to mode \"VerifyIfGiven\").",
    ),
    clients(
        "tls: {clientValidation: {caCertificateRefs: [{group: certificates.k8s.io, kind: ClusterTrustBundle, name: none}]}}",
        "TLS: failed to get certificate from ref: ref ClusterTrustBundle [none] not found.",
    ),
    clients(
        "tls: {clientValidation: {caCertificateRefs: [{group: '', kind: ConfigMap, name: odd}]}}",
        "TLS: failed to get certificate from ref: ref configmap [odd] has none of the expected keys [ca.crt] and more than \
         one entry.",
    ),
    traffic(
        "timeout: {tcp: {connectTimeout: soon}}",
        "Timeout: invalid ConnectTimeout value soon.",
    ),
    traffic(
        "timeout: {http: {maxConnectionDuration: soon}}",
        "Timeout: invalid MaxConnectionDuration value soon.",
    ),
    traffic(
        "connection: {bufferLimit: 5Gi}",
        "BackendConnection: BufferLimit value 5Gi is out of range.",
    ),
    traffic(
        "connection: {bufferLimit: much}",
        "BackendConnection: invalid BufferLimit value much.",
    ),
    traffic(
        "circuitBreaker: {maxParallelRetries: -1}",
        "CircuitBreaker: invalid MaxParallelRetries value -1.",
    ),
    traffic(
        "circuitBreaker: {maxRequestsPerConnection: -1}",
        "CircuitBreaker: invalid MaxRequestsPerConnection value -1.",
    ),
    traffic(
        "responseOverride: [{match: {statusCodes: [{type: Value, value: 404}]}, response: {body: {type: ValueRef, valueRef: \
         {group: '', kind: ConfigMap, name: empty}}}}]",
        "ResponseOverride: can't find the key response.body in the referenced configmap default/empty.",
    ),
    traffic(
        "retry: {perRetry: {backOff: {baseInterval: 0s}}}",
        "Retry: baseInterval cannot be set to 0s.",
    ),
    traffic(
        "retry: {perRetry: {backOff: {baseInterval: 2s, maxInterval: 1s}}}",
        "Retry: maxInterval cannot be less than baseInterval.",
    ),
    security(
        "apiKeyAuth: {credentialRefs: [{name: keys}], extractFrom: [{headers: [x], params: [key]}]}",
        "APIKeyAuth: only one of headers, params or cookies must be specified.",
    ),
    security(
        "basicAuth: {users: {name: plain}}",
        "BasicAuth: invalid htpasswd format: each line must be in the format 'username:password'.",
    ),
    security(
        "basicAuth: {users: {name: hashed}}",
        "BasicAuth: unsupported htpasswd format: please use {SHA}.",
    ),
    security(
        "basicAuth: {users: {name: short}}",
        "BasicAuth: invalid htpasswd format: {SHA} must be base64-encoded SHA1.",
    ),
    security(
        "jwt: {providers: [{name: '', remoteJWKS: {uri: 'https://a.example/keys'}}]}",
        "JWT: jwt provider cannot be an empty string.",
    ),
    security(
        "jwt: {providers: [{name: p, remoteJWKS: {uri: ''}}]}",
        "JWT: uri must be set for remote JWKS provider: p.",
    ),
    security(
        "oidc: {provider: {issuer: 'https://a.example', authorizationEndpoint: 'https://a.example/a', tokenEndpoint: \
         'https://a.example/t'}, clientIDRef: {name: client}, clientSecret: {name: client}}",
        "OIDC: client ID not found in secret default/client.",
    ),
    security(
        "extAuth: {grpc: {backendRefs: [{name: app, port: 80}]}, http: {backendRefs: [{name: app, port: 80}]}}",
        "ExtAuth: only one of grpc or http can be specified.",
    ),
    security("extAuth: {}", "ExtAuth: one of grpc or http must be specified."),
    of(
        Kind::SecurityPolicy,
        STREAM,
        "authorization: {rules: [{action: Allow, cel: 'true'}]}",
        "Authorization: rule 0: CEL not supported for TCP.",
    ),
    extension(
        "extProc: [{backendRefs: [{group: gateway.edge, kind: Backend, name: own}]}]",
        "ExtProc: resource own of type Backend cannot be used since Backend is disabled in Edge Gateway configuration.",
    ),
    extension(
        "lua: [{type: Inline, inline: 'function envoy_on_request(h) end'}]",
        "Lua: Skipping Lua EdgeExtensionPolicy as feature is disabled in the Gateway.",
    ),
];

/// Without what the last rows ask for.
fn settings() -> Settings {
    Settings {
        backend_api: Feature::Disabled,
        lua_api: Feature::Disabled,
        ..Settings::default()
    }
}

/// Whether a listener of streams lets nobody through, or all routes of HTTP answer 500.
fn is_closed(fleet: &Fleet, target: &str) -> bool {
    if target == STREAM {
        let chains = fleet
            .listeners
            .iter()
            .flat_map(|listener| listener.chains.iter().chain(&listener.default_chain));
        let mut streams = chains.filter_map(|chain| match &chain.network {
            Network::Tcp(stream) => Some(stream),
            Network::Http(_) => None,
        });
        return streams.all(|stream| stream.shares.is_empty());
    }
    let routes: Vec<_> = hosts(fleet).iter().flat_map(|host| &host.routes).cloned().collect();
    all_closed(&routes)
}

#[test]
fn each_fault_is_told_in_its_words_and_closes_what_is_covered() {
    let mut wrong = Vec::new();
    for Row {
        kind,
        target,
        spec,
        message,
    } in ROWS
    {
        let mut rig = Rig::with(settings(), WORLD);
        let was_closed = is_closed(rig.fleet(), target);
        rig.put(&format!(
            "apiVersion: gateway.edge/v1alpha1\nkind: {kind}\nmetadata: {{name: p}}\nspec:\n  targetRefs: [{target}]\n  \
             {spec}\n"
        ));
        let said = rig.condition(*kind, "p", "Accepted").unwrap();
        if (said.status, &*said.reason, &*said.message) != (Truth::False, "Invalid", message) {
            wrong.push(format!(
                "{spec}: {}: {} instead of {message}",
                said.reason, said.message
            ));
        }
        if was_closed || !is_closed(rig.fleet(), target) {
            wrong.push(format!("{spec}: what it covers is open"));
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Of two policies for the same the younger is conflicted, in words that name what both are for.
#[test]
fn each_conflict_names_what_is_held() {
    let set = r"
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: set}
spec:
  parentRef: {name: gw}
  listeners: [{name: extra, protocol: HTTP, port: 91}]
";
    let listeners = |name: &str| format!("{{group: gateway.networking.k8s.io, {name}}}");
    let whole = listeners("kind: Gateway, name: gw");
    let section = listeners("kind: Gateway, name: gw, sectionName: http");
    let of_set = listeners("kind: ListenerSet, name: set, sectionName: extra");
    let rule = listeners("kind: HTTPRoute, name: route, sectionName: one");
    for (kind, target, what) in [
        (Kind::ClientTrafficPolicy, &whole, "Gateway gw"),
        (Kind::ClientTrafficPolicy, &section, "section of gw"),
        (Kind::ClientTrafficPolicy, &of_set, "Listener set/extra"),
        (Kind::BackendTrafficPolicy, &section, "Listener gw/http"),
        (Kind::SecurityPolicy, &of_set, "Listener set/extra"),
        (Kind::EdgeExtensionPolicy, &rule, "RouteRule route/one"),
        (Kind::BackendTrafficPolicy, &rule, "RouteRule route/one"),
    ] {
        let open = WORLD.replace(
            "name: gw}\nspec:",
            "name: gw}\nspec:\n  allowedListeners: {namespaces: {from: All}}",
        );
        let mut rig = Rig::new(&format!("{open}---{set}"));
        for name in ["p", "older"] {
            let year = if name == "p" { 2025 } else { 2024 };
            let created = format!("{year}-01-01T00:00:00Z");
            rig.put(&format!(
                "apiVersion: gateway.edge/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}, creationTimestamp: \
                 '{created}'}}\nspec:\n  targetRefs: [{target}]\n"
            ));
        }
        let said = rig.condition(kind, "p", "Accepted").unwrap();
        let message = format!("Unable to target {what}, another {kind} has already attached to it");
        assert_eq!((&*said.reason, &*said.message), ("Conflicted", &*message));
    }
}
