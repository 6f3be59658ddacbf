//! HTTP filters on the way of requests: what clients and backends see is what stock Envoy 1.40 showed with the same
//! chain, the same routes and the same requests. (Each filter's settings are tried where they are compiled.)

use std::sync::Arc;

use edge_proxy::compile::secret::Secrets;
use edge_proxy::compile::{Context, files, listener, prefixed_headers};
use envoy_types::pb::envoy::config::listener::v3::Listener as ProtoListener;
use http::{HeaderName, HeaderValue, Method, Request, Response};
use http_body_util::Full;

use crate::support::{Backend, Config, Proxy, Reply, Speaks, cluster, entry, get, run, snapshot_with, table};

/// Every filter that a route below switches on, and one that acts by itself.
const CHAIN: &str = r#"
- {name: envoy.filters.http.fault, typed_config: {"@type": HTTP/fault.v3.HTTPFault}}
- {name: envoy.filters.http.cors, typed_config: {"@type": HTTP/cors.v3.Cors}}
- {name: envoy.filters.http.csrf, disabled: true, typed_config: {"@type": HTTP/csrf.v3.CsrfPolicy}}
- name: envoy.filters.http.header_mutation
  typed_config:
    "@type": HTTP/header_mutation.v3.HeaderMutation
    mutations:
      request_mutations: [{append: {header: {key: x-req, value: r}, append_action: ADD_IF_ABSENT}}]
      response_mutations:
      - {append: {header: {key: x-mut, value: 'm%%'}}}
      - {remove: x-gone}
      - {remove_on_match: {key_matcher: {prefix: x-drop-}}}
- {name: envoy.filters.http.api_key_auth, disabled: true, typed_config: {"@type": HTTP/api_key_auth.v3.ApiKeyAuth}}
- name: envoy.filters.http.basic_auth
  disabled: true
  typed_config:
    "@type": HTTP/basic_auth.v3.BasicAuth
    users: {inline_string: '# nobody'}
    forward_username_header: x-user
- {name: envoy.filters.http.buffer, disabled: true, typed_config: {"@type": HTTP/buffer.v3.Buffer, max_request_bytes: 99}}
- {name: envoy.filters.http.rbac, typed_config: {"@type": HTTP/rbac.v3.RBAC}}
- {name: envoy.filters.http.local_ratelimit, typed_config: {"@type": HTTP/local_ratelimit.v3.LocalRateLimit, stat_prefix: x}}
- {name: own.lua, disabled: true, typed_config: {"@type": HTTP/lua.v3.Lua}}
- {name: envoy.filters.http.router, typed_config: {"@type": HTTP/router.v3.Router}}
"#;

const ROUTES: &str = r#"
- match: {prefix: /basic}
  route: {cluster: c0}
  response_headers_to_add:
  - header: {key: x-route, value: '%UPSTREAM_CLUSTER%'}
  - {header: {key: www-authenticate, value: r}, append_action: OVERWRITE_IF_EXISTS_OR_ADD}
  typed_per_filter_config:
    envoy.filters.http.basic_auth:
      "@type": HTTP/basic_auth.v3.BasicAuthPerRoute
      users: {inline_string: 'ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ='}
    envoy.filters.http.cors: &cors
      "@type": HTTP/cors.v3.CorsPolicy
      allow_origin_string_match: [{exact: 'https://a.example'}]
- match: {prefix: /key}
  route: {cluster: c0}
  typed_per_filter_config:
    envoy.filters.http.api_key_auth:
      "@type": HTTP/api_key_auth.v3.ApiKeyAuthPerRoute
      credentials: [{key: k1, client: ann}, {key: k2, client: bob}]
      key_sources: [{header: x-key}, {query: key}, {cookie: key}]
      forwarding: {header: x-client, hide_credentials: true}
      allowed_clients: [ann]
- match: {prefix: /csrf}
  route: {cluster: c0}
  typed_per_filter_config:
    envoy.filters.http.csrf:
      "@type": HTTP/csrf.v3.CsrfPolicy
      filter_enabled: &all {default_value: {numerator: 100}}
- match: {prefix: /allow}
  route: {cluster: c0}
  typed_per_filter_config:
    envoy.filters.http.rbac:
      "@type": HTTP/rbac.v3.RBACPerRoute
      rbac:
        rules:
          policies:
            allowed:
              permissions: [{any: true}]
              principals:
              - and_ids:
                  ids:
                  - {remote_ip: {address_prefix: 127.0.0.0, prefix_len: 8}}
                  - {not_id: {header: {name: x-bad, present_match: true}}}
                  - {not_id: {header: {name: x-role, string_match: {exact: banned}}}}
                  - {not_id: {header: {name: upgrade, string_match: {exact: websocket}}}}
                  - {not_id: {url_path: {path: {exact: /allow/not}}}}
- match: {prefix: /http-fault}
  route: {cluster: c0}
  typed_per_filter_config:
    envoy.filters.http.fault:
      "@type": HTTP/fault.v3.HTTPFault
      abort: {http_status: 418, percentage: {numerator: 100}}
- match: {prefix: /grpc-fault}
  route: {cluster: c0}
  typed_per_filter_config:
    envoy.filters.http.fault:
      "@type": HTTP/fault.v3.HTTPFault
      abort: {grpc_status: 5, percentage: {numerator: 100}}
      delay: {fixed_delay: 0.02s, percentage: {numerator: 100}}
- match: {prefix: /buffer}
  route: {cluster: c0}
  typed_per_filter_config:
    envoy.filters.http.buffer: {"@type": HTTP/buffer.v3.BufferPerRoute, buffer: {max_request_bytes: 10}}
- match: {prefix: /limit}
  route: {cluster: c0}
  typed_per_filter_config:
    envoy.filters.http.local_ratelimit:
      "@type": HTTP/local_ratelimit.v3.LocalRateLimit
      stat_prefix: x
      filter_enabled: *all
      filter_enforced: *all
      enable_x_ratelimit_headers: DRAFT_VERSION_03
      token_bucket: {max_tokens: 2, tokens_per_fill: 2, fill_interval: 3600s}
- match: {prefix: /each}
  route: {cluster: c0}
  typed_per_filter_config:
    envoy.filters.http.local_ratelimit:
      "@type": HTTP/local_ratelimit.v3.LocalRateLimit
      stat_prefix: x
      filter_enabled: *all
      filter_enforced: *all
      always_consume_default_token_bucket: false
      token_bucket: {max_tokens: 100, fill_interval: 3600s}
      descriptors:
      - {entries: [{key: user}], token_bucket: {max_tokens: 1, fill_interval: 3600s}}
      rate_limits: [{actions: [{request_headers: {header_name: x-u, descriptor_key: user}}]}]
- match: {prefix: /direct}
  direct_response: {status: 200, body: {inline_string: hi}}
  typed_per_filter_config: {envoy.filters.http.cors: *cors}
- match: {prefix: /moved}
  redirect: {path_redirect: /there}
- match: {prefix: /off}
  route: {cluster: c0}
  typed_per_filter_config:
    envoy.filters.http.header_mutation: {"@type": type.googleapis.com/envoy.config.route.v3.FilterConfig, disabled: true}
- match: {prefix: /misfit}
  route: {cluster: c0}
  typed_per_filter_config:
    own.lua: *cors
- match: {prefix: /plain}
  route: {cluster: c0}
"#;

/// A proxy with filters before a backend that tells what it saw.
pub(crate) struct Filtered {
    pub(crate) proxy: Proxy,
    pub(crate) backend: Backend,
}

/// A listener with these filters and routes. The name of a type is short above.
pub(crate) fn compiled(chain: &str, routes: &str) -> Arc<edge_proxy::config::listener::Listener> {
    compiled_with(chain, routes, "")
}

/// The same with a further field of the connection manager.
pub(crate) fn compiled_with(chain: &str, routes: &str, more: &str) -> Arc<edge_proxy::config::listener::Listener> {
    let indented = |text: &str| text.trim().replace('\n', "\n          ");
    let yaml = format!(
        r#"
name: in
address: {{socket_address: {{address: 127.0.0.1, port_value: 0}}}}
filter_chains:
- filters:
  - name: http
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: h
      use_remote_address: true
      {more}
      route_config:
        name: r
        virtual_hosts:
        - name: v
          domains: ["*"]
          routes:
          {}
      http_filters:
          {}
"#,
        indented(routes),
        indented(chain)
    );
    let yaml = yaml.replace("HTTP/", "type.googleapis.com/envoy.extensions.filters.http.");
    let message: ProtoListener = edge_xds::json::from_json(serde_yaml::from_str(&yaml).unwrap()).unwrap();
    let mut context = Context::new(Box::new(files::Disk), prefixed_headers("x-edge").unwrap(), 2);
    for (id, name) in ["c0", "c1", "c2"].into_iter().enumerate() {
        assert_eq!(context.clusters.intern(name) as usize, id);
    }
    let spec = listener::listener(&mut context, &message).unwrap();
    Arc::new(spec.finish(&Secrets::new(), None).unwrap())
}

impl Filtered {
    async fn start() -> Self {
        Self::with(CHAIN, ROUTES).await
    }

    pub(crate) async fn with(chain: &str, routes: &str) -> Self {
        let backend = Backend::start(Speaks::Http1, |request: &Request<bytes::Bytes>| {
            let mut seen: Vec<String> = request
                .headers()
                .iter()
                .filter(|(name, _)| {
                    let name = name.as_str();
                    !name.starts_with("x-edge") && !name.starts_with("x-forwarded") && name != "x-request-id"
                })
                .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
                .collect();
            seen.sort();
            let response = Response::builder().header("x-gone", "1").header("x-drop-a", "1");
            let body = format!("{} {}", request.uri(), seen.join(", "));
            response.body(Full::from(body)).unwrap()
        })
        .await;
        let clusters = vec![entry(0, cluster(0), &[backend.address])];
        let snapshot = snapshot_with(compiled(chain, routes), table("*", Vec::new()), clusters);
        let proxy = Proxy::start(Config { snapshot, workers: 1 });
        Self { proxy, backend }
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        fields: &[(&'static str, &'static str)],
        body: &'static str,
    ) -> Reply {
        let (mut parts, _) = get("h.example", path).into_parts();
        parts.method = method;
        for (name, value) in fields {
            parts
                .headers
                .append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let request = Request::from_parts(parts, Full::from(body));
        self.proxy.http1().await.send(request).await
    }

    pub(crate) async fn get(&self, path: &str, fields: &[(&'static str, &'static str)]) -> Reply {
        self.ask(Method::GET, path, fields, "").await
    }

    /// What a GET is answered.
    pub(crate) async fn told(&self, path: &str, fields: &[(&'static str, &'static str)]) -> (u16, String) {
        let reply = self.get(path, fields).await;
        (reply.status, reply.text().to_owned())
    }
}

/// `ann:secret`
const ANN: (&str, &str) = ("authorization", "Basic YW5uOnNlY3JldA==");
const GRPC: (&str, &str) = ("content-type", "application/grpc");

#[test]
fn users_show_their_password() {
    run(async {
        let filtered = Filtered::start().await;
        for (value, why) in [
            (None, "Missing username and password."),
            (Some("Bearer x"), "Expected 'Basic' authentication scheme."),
            (Some("Basic bm9jb2xvbg=="), "Invalid basic credential format."),
            (Some("Basic !!!"), "Invalid basic credential format."),
            (Some("Basic YW5uOng="), "Invalid username/password combination."),
            (Some("Basic YW5uOnNlY3JldDp4"), "Invalid username/password combination."),
        ] {
            let fields: Vec<_> = value.map(|value| ("authorization", value)).into_iter().collect();
            let reply = filtered.get("/basic?a=b", &fields).await;
            let text = format!("User authentication failed. {why}");
            assert_eq!((reply.status, reply.text()), (401, &*text), "{value:?}");
            let realm = reply.header("www-authenticate");
            assert_eq!(realm, "Basic realm=\"http://h.example/basic?a=b\"");
            assert_eq!(reply.headers.get_all("www-authenticate").iter().count(), 1);
            // It is an answer of the route, whoever gives it, as long as that says nothing else.
            assert_eq!(reply.header("x-route"), "c0");
        }
        assert_eq!(filtered.backend.requests(), 0);
        // What the client says of itself is overwritten.
        let let_in = "/basic authorization: Basic YW5uOnNlY3JldA==, host: h.example, x-req: r, x-user: ann";
        let told = filtered.told("/basic", &[ANN, ("x-user", "mallory")]).await;
        assert_eq!(told, (200, let_in.to_owned()));
        let reply = filtered.get("/basic", &[GRPC]).await;
        assert_eq!((reply.status, reply.header("grpc-status")), (200, "16"));
        // Not by Envoy's word.
        let reply = filtered
            .get("/basic", &[("content-type", "application/grpc;a=b")])
            .await;
        assert_eq!((reply.status, reply.header("grpc-status")), (401, ""));
        // A backend could choose the other one.
        let (status, text) = filtered
            .told("/basic", &[ANN, ("authorization", "Basic YW5uOng=")])
            .await;
        assert_eq!(
            (status, text.ends_with("Invalid basic credential format.")),
            (401, true)
        );
    });
}

#[test]
fn clients_show_their_key() {
    run(async {
        let filtered = Filtered::start().await;
        let unknown = || (401, "Client authentication failed.".to_owned());
        assert_eq!(filtered.told("/key", &[]).await, unknown());
        assert_eq!(filtered.told("/key", &[("x-key", "no")]).await, unknown());
        // The first place that has a key decides.
        assert_eq!(filtered.told("/key?key=k1", &[("x-key", "no")]).await, unknown());
        let forbidden = (403, "Client is forbidden.".to_owned());
        assert_eq!(filtered.told("/key", &[("x-key", "k2")]).await, forbidden);
        let seen = |rest: &str| (200, format!("{rest}host: h.example, x-client: ann, x-req: r"));
        for key in ["k1", "Bearer k1"] {
            assert_eq!(filtered.told("/key", &[("x-key", key)]).await, seen("/key "));
        }
        assert_eq!(filtered.told("/key?a=1&key=k%31&b=2", &[]).await, seen("/key?a=1&b=2 "));
        let told = filtered.told("/key", &[("cookie", "a=1; key=\"k1\"; b=2")]).await;
        assert_eq!(told, seen("/key cookie: a=1; b=2, "));
    });
}

#[test]
fn other_sites_are_refused_what_changes_something() {
    run(async {
        let filtered = Filtered::start().await;
        for (method, fields, status) in [
            (Method::POST, &[][..], 403),
            (Method::POST, &[("origin", "https://h.example")], 200),
            (Method::DELETE, &[("referer", "http://h.example/page")], 200),
            (
                Method::PUT,
                &[("origin", "null"), ("referer", "http://h.example/")],
                403,
            ),
            (Method::GET, &[("origin", "http://other.example")], 200),
        ] {
            let reply = filtered.ask(method.clone(), "/csrf", fields, "").await;
            assert_eq!(reply.status, status, "{method} {fields:?}");
            assert!(status == 200 || reply.text() == "Invalid origin");
        }
    });
}

#[test]
fn rules_and_limits_answer_for_the_backend() {
    run(async {
        let filtered = Filtered::start().await;
        let denied = || (403, "RBAC: access denied".to_owned());
        assert_eq!(filtered.get("/allow", &[]).await.status, 200);
        assert_eq!(filtered.told("/allow", &[("x-bad", "1")]).await, denied());
        // Each line counts.
        for roles in [["banned", "x"], ["x", "banned"]] {
            let told = filtered.told("/allow", &roles.map(|role| ("x-role", role))).await;
            assert_eq!(told, denied());
        }
        assert_eq!(filtered.told("/allow/not?q", &[]).await, denied());
        let upgrade = [("connection", "upgrade"), ("upgrade", "websocket")];
        assert_eq!(filtered.told("/allow", &upgrade).await, denied());
        // What a client says of its address is not what it is.
        assert_eq!(
            filtered.get("/allow", &[("x-forwarded-for", "192.0.2.1")]).await.status,
            200
        );

        for (status, left, reset) in [(200, "1", "0"), (200, "0", "1800"), (429, "0", "1800")] {
            let reply = filtered.get("/limit", &[]).await;
            let told =
                ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"].map(|name| reply.header(name));
            assert_eq!((reply.status, told), (status, ["2", left, reset]));
        }
        let reply = filtered.get("/limit", &[GRPC]).await;
        let told = (reply.header("grpc-status"), reply.header("grpc-message"));
        assert_eq!(told, ("14", "local_rate_limited"));
        for (user, status) in [("a", 200), ("a", 429), ("b", 200), ("b", 429)] {
            assert_eq!(filtered.get("/each", &[("x-u", user)]).await.status, status, "{user}");
        }
        assert_eq!(filtered.get("/each", &[]).await.status, 200);
    });
}

#[test]
fn faults_are_answered_as_they_are_asked_for() {
    run(async {
        let filtered = Filtered::start().await;
        let text = || "fault filter abort".to_owned();
        assert_eq!(filtered.told("/http-fault", &[]).await, (418, text()));
        assert_eq!(filtered.told("/grpc-fault", &[]).await, (200, text()));
        for (path, status) in [("/http-fault", "2"), ("/grpc-fault", "5")] {
            let reply = filtered.get(path, &[GRPC]).await;
            assert_eq!((reply.status, reply.header("grpc-status")), (200, status), "{path}");
        }
        assert_eq!(filtered.backend.requests(), 0);
    });
}

#[test]
fn a_request_is_read_whole_as_far_as_it_may_be() {
    run(async {
        let filtered = Filtered::start().await;
        let whole = filtered.ask(Method::POST, "/buffer", &[], "1234567890").await;
        assert!(whole.text().contains("content-length: 10"), "{whole:?}");
        let large = filtered.ask(Method::POST, "/buffer", &[], "1234567890a").await;
        assert_eq!((large.status, large.text()), (413, "Payload Too Large"));
        assert_eq!(filtered.get("/buffer", &[]).await.status, 200);
        assert_eq!(filtered.backend.requests(), 2);
    });
}

#[test]
fn responses_go_back_through_all_filters() {
    run(async {
        let filtered = Filtered::start().await;
        let named = |reply: &Reply| ["x-mut", "x-gone", "x-drop-a"].map(|name| reply.header(name).to_owned());
        // Whoever has made them.
        for path in ["/plain", "/http-fault", "/direct", "/nowhere"] {
            assert_eq!(named(&filtered.get(path, &[]).await), ["m%", "", ""], "{path}");
        }
        assert_eq!(named(&filtered.get("/off", &[]).await), ["", "1", "1"]);
        let told = filtered.told("/plain", &[("x-req", "own")]).await;
        assert_eq!(told, (200, "/plain host: h.example, x-req: own".to_owned()));
        // A script may read why it was refused; what the proxy says in place of a backend is nobody's page.
        let origin = ("origin", "https://a.example");
        let allowed = "access-control-allow-origin";
        let refused = filtered.get("/basic", &[origin]).await;
        assert_eq!((refused.status, refused.header(allowed)), (401, origin.1));
        assert_eq!(filtered.get("/direct", &[origin]).await.header(allowed), "");
    });
}

#[test]
fn settings_of_another_filter_let_nothing_pass() {
    run(async {
        let filtered = Filtered::start().await;
        assert_eq!(filtered.get("/misfit", &[]).await.status, 500);
        assert_eq!(filtered.backend.requests(), 0);
    });
}

/// As from stock Envoy 1.40: a call is answered as one, wherever it is to go.
#[test]
fn a_redirect_of_a_call_is_told_as_its_status() {
    run(async {
        let filtered = Filtered::start().await;
        let (page, call) = (filtered.get("/moved", &[]).await, filtered.get("/moved", &[GRPC]).await);
        assert_eq!((page.status, page.header("location")), (301, "http://h.example/there"));
        assert_eq!((call.status, call.header("location")), (200, "http://h.example/there"));
        assert_eq!((call.header("grpc-status"), call.header("content-type")), ("2", GRPC.1));
    });
}
