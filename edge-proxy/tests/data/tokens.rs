//! Tokens, where clients try to say more than theirs do: backends see what they see behind stock Envoy 1.40 with the
//! same filter.

use crate::filters::Filtered;
use crate::support::run;

const CHAIN: &str = r#"
- name: envoy.filters.http.jwt_authn
  typed_config:
    "@type": HTTP/jwt_authn.v3.JwtAuthentication
    providers:
      a:
        issuer: a
        claim_to_headers: [{header_name: x-a-sub, claim_name: sub}]
        local_jwks: {inline_string: '{"keys": [{"kty": "oct", "alg": "HS256", "kid": "a", "k": "a2V5IG9mIGE"}]}'}
      b:
        issuer: b
        forward: true
        from_headers: [{name: x-b}]
        forward_payload_header: x-b-payload
        claim_to_headers: [{header_name: x-b-sub, claim_name: sub}]
        local_jwks: {inline_string: '{"keys": [{"kty": "oct", "alg": "HS256", "kid": "b", "k": "a2V5IG9mIGI"}]}'}
    requirement_map:
      a: {provider_name: a}
      b: {provider_name: b}
      any: {requires_any: {requirements: [{provider_name: a}, {provider_name: b}]}}
- {name: envoy.filters.http.router, typed_config: {"@type": HTTP/router.v3.Router}}
"#;

const ROUTES: &str = r#"
- match: {prefix: /a}
  route: {cluster: c0}
  typed_per_filter_config:
    envoy.filters.http.jwt_authn: {"@type": HTTP/jwt_authn.v3.PerRouteConfig, requirement_name: a}
- match: {prefix: /b}
  route: {cluster: c0}
  typed_per_filter_config:
    envoy.filters.http.jwt_authn: {"@type": HTTP/jwt_authn.v3.PerRouteConfig, requirement_name: b}
- match: {prefix: /any}
  route: {cluster: c0}
  typed_per_filter_config:
    envoy.filters.http.jwt_authn: {"@type": HTTP/jwt_authn.v3.PerRouteConfig, requirement_name: any}
- match: {prefix: /off}
  route: {cluster: c0}
  typed_per_filter_config:
    envoy.filters.http.jwt_authn: {"@type": HTTP/jwt_authn.v3.PerRouteConfig, disabled: true}
- match: {prefix: /}
  route: {cluster: c0}
"#;

/// Of issuer `a`, for `ann`, by HS256 with the key above.
const A: &str =
    "eyJhbGciOiJIUzI1NiIsImtpZCI6ImEifQ.eyJpc3MiOiJhIiwic3ViIjoiYW5uIn0.qUlC4sm1eV2eHoyYZlmdXcV52UHI4_vWHZZab_gz_t0";
pub(crate) const BEARER_A: &str = "Bearer eyJhbGciOiJIUzI1NiIsImtpZCI6ImEifQ.eyJpc3MiOiJhIiwic3ViIjoiYW5uIn0.\
    qUlC4sm1eV2eHoyYZlmdXcV52UHI4_vWHZZab_gz_t0";
/// For `https://a.example`.
const OF_AN_ORIGIN: &str = "Bearer eyJhbGciOiJIUzI1NiIsImtpZCI6ImEifQ.eyJpc3MiOiJhIiwic3ViIjoiaHR0cHM6Ly9hLmV4YW1wbGUifQ.\
    aGVVyv6hpDxGVghGHUPnvmAnrkBNj_xJfAwopNpEjFc";
/// The same of issuer `b`.
const B: &str =
    "eyJhbGciOiJIUzI1NiIsImtpZCI6ImIifQ.eyJpc3MiOiJiIiwic3ViIjoiYW5uIn0._eqYuLi-eDz_s7hCk7TEGh6YoVAzkve0dlAjc7jMOKA";

#[test]
fn nobody_but_a_good_token_tells_claims() {
    run(async {
        let filtered = Filtered::with(CHAIN, ROUTES).await;
        let forged = [("x-a-sub", "eve"), ("x-b-sub", "eve"), ("x-b-payload", "e30")];
        let mut with_token = forged.to_vec();
        with_token.push(("authorization", BEARER_A));
        for path in ["/a", "/any"] {
            let told = filtered.told(path, &with_token).await;
            assert_eq!(told, (200, format!("{path} host: h.example, x-a-sub: ann")));
        }
        // Where no token is asked for nobody tells any.
        for path in ["/off", "/none"] {
            let told = filtered.told(path, &forged).await;
            assert_eq!(told, (200, format!("{path} host: h.example")));
        }
    });
}

/// A filter behind looks at what this one has made of the head.
#[test]
fn what_a_token_tells_concerns_the_filters_behind() {
    run(async {
        let chain = CHAIN.replace("header_name: x-a-sub", "header_name: origin");
        let cors = "- {name: envoy.filters.http.cors, typed_config: {\"@type\": HTTP/cors.v3.Cors}}";
        let router = "- {name: envoy.filters.http.router";
        let chain = chain.replace(router, &format!("{cors}\n{router}"));
        let policy = "envoy.filters.http.cors: {\"@type\": HTTP/cors.v3.CorsPolicy, \
            allow_origin_string_match: [{exact: 'https://a.example'}]}";
        let tokens = "    envoy.filters.http.jwt_authn";
        let routes = ROUTES.replace(tokens, &format!("    {policy}\n{tokens}"));
        let filtered = Filtered::with(&chain, &routes).await;
        let reply = filtered.get("/a", &[("authorization", OF_AN_ORIGIN)]).await;
        assert_eq!(
            (reply.status, reply.header("access-control-allow-origin")),
            (200, "https://a.example")
        );
    });
}

#[test]
fn another_token_beside_is_refused() {
    run(async {
        let filtered = Filtered::with(CHAIN, ROUTES).await;
        let good = filtered.get("/b", &[("x-b", B)]).await;
        assert_eq!((good.status, good.text().contains("x-b-sub: ann")), (200, true));
        for lines in [[("x-b", B), ("x-b", "e30.e30.AA")], [("x-b", "e30.e30.AA"), ("x-b", B)]] {
            assert_eq!(filtered.get("/b", &lines).await.status, 401);
        }
        assert_eq!(filtered.backend.requests(), 1);
    });
}

#[test]
fn a_token_stays_here_wherever_it_was() {
    run(async {
        let filtered = Filtered::with(CHAIN, ROUTES).await;
        let seen = |path: &str| (200, format!("{path} host: h.example, x-a-sub: ann"));
        assert_eq!(
            filtered.told("/a?x=1", &[("authorization", BEARER_A)]).await,
            seen("/a?x=1")
        );
        let target = format!("/a?x=1&access_token={A}&y=2");
        assert_eq!(filtered.told(&target, &[]).await, seen("/a?x=1&y=2"));
    });
}

/// Another look at the routes leads to none whose guards nobody has asked: neither those before the filter that looks,
/// nor that filter itself for another token. With the same guards as the first route it does.
#[test]
fn another_look_at_the_routes_leads_past_no_guard() {
    run(async {
        let chain = CHAIN.replace(
            "        issuer: a\n",
            "        issuer: a\n        clear_route_cache: true\n",
        );
        let keys = "- {name: envoy.filters.http.api_key_auth, disabled: true, typed_config: \
            {\"@type\": HTTP/api_key_auth.v3.ApiKeyAuth}}\n";
        let rules = "- {name: envoy.filters.http.rbac, typed_config: {\"@type\": HTTP/rbac.v3.RBAC}}\n";
        let router = "- {name: envoy.filters.http.router";
        let chain = format!("{keys}{}", chain.replace(router, &format!("{rules}{router}")));
        let tokens = |name: &str| {
            format!(
                "    envoy.filters.http.jwt_authn: {{\"@type\": HTTP/jwt_authn.v3.PerRouteConfig, requirement_name: {name}}}\n"
            )
        };
        let keys = "    envoy.filters.http.api_key_auth: {\"@type\": HTTP/api_key_auth.v3.ApiKeyAuthPerRoute, \
            credentials: [{key: secret, client: me}], key_sources: [{header: x-key}]}\n";
        let rules =
            "    envoy.filters.http.rbac: {\"@type\": HTTP/rbac.v3.RBACPerRoute, rbac: {rules: {action: ALLOW}}}\n";
        let of_ann = |path: &str, said: &str| {
            let said = match said {
                "" => String::new(),
                said => format!("  typed_per_filter_config:\n{said}"),
            };
            format!(
                "- match: {{prefix: {path}, headers: [{{name: x-a-sub, string_match: {{exact: ann}}}}]}}\n  \
                 direct_response: {{status: 201}}\n{said}"
            )
        };
        let first = |path: &str, said: &str| {
            format!("- match: {{prefix: {path}}}\n  route: {{cluster: c0}}\n  typed_per_filter_config:\n{said}")
        };
        let a = tokens("a");
        let routes = [
            of_ann("/open", ""),
            first("/open", &a),
            of_ann("/same", &a),
            first("/same", &a),
            of_ann("/key", &format!("{keys}{a}")),
            first("/key", &a),
            of_ann("/both", &format!("{keys}{a}")),
            first("/both", &format!("{keys}{a}")),
            of_ann("/other", &tokens("b")),
            first("/other", &a),
            of_ann("/behind", &format!("{rules}{a}")),
            first("/behind", &a),
        ];
        let filtered = Filtered::with(&chain, &routes.concat()).await;
        let bearer = ("authorization", BEARER_A);
        for (path, wanted) in [
            ("/open", 201),
            ("/same", 201),
            ("/key", 403),
            ("/both", 201),
            ("/other", 403),
            ("/behind", 403),
        ] {
            let reply = filtered.get(path, &[bearer, ("x-key", "secret")]).await;
            assert_eq!(reply.status, wanted, "{path}");
        }
        assert_eq!(filtered.get("/both", &[bearer]).await.status, 401);
        assert_eq!(filtered.backend.requests(), 0);
    });
}
