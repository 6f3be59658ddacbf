//! What filters have found out, as expressions in logs see it: the claims of a token.

use super::{CEL, FORMATTER};
use crate::access_logs::{lines, log};
use crate::bench::{Bench, data_planes};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use e2e::{process::wait_for, stack::PATIENCE};
use rcgen::{KeyPair, PKCS_ED25519, SigningKey as _};
use serde_json::{Value, json};

const FILTERS: &str = "type.googleapis.com/envoy.extensions.filters.http";

/// What a log says of each request; `F` is what the filter has found.
const SAID: [&str; 8] = [
    "F['claims']['sub']",
    "F['claims']['level'] == 7.0",
    "F['claims']['level'] > 6.5",
    "'red' in F['claims']['teams']",
    "F.claims.nested.inner",
    "has(F.claims.nobody)",
    "'envoy.filters.http.jwt_authn' in metadata.filter_metadata",
    "metadata.filter_metadata['nobody']['a']",
];

fn whole(text: &str) -> String {
    let is_found = text.starts_with('F') || text.contains(" F[") || text.contains("(F.");
    match is_found {
        true => text.replacen('F', "metadata.filter_metadata['envoy.filters.http.jwt_authn']", 1),
        false => text.to_owned(),
    }
}

/// A token with its issuer's keys (RFC 7515 §7.1, RFC 8037).
fn token() -> (String, String) {
    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({
        "iss": "issuer", "exp": 4_102_444_800_u64, "sub": "somebody", "level": 7, "teams": ["red"],
        "nested": {"inner": true},
    });
    let signed = format!("{}.{}", part(&json!({"alg": "EdDSA", "kid": "one"})), part(&claims));
    let signature = URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes()).unwrap());
    let public = URL_SAFE_NO_PAD.encode(key.public_key_raw());
    let keys = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": "one", "x": public}]});
    (format!("{signed}.{signature}"), keys.to_string())
}

#[test]
fn logs_are_told_what_filters_have_found() {
    let (token, keys) = token();
    let planes = data_planes().map(|(name, plane)| {
        let folder = tempfile::tempdir().unwrap();
        let commands: Vec<_> = SAID.iter().map(|text| format!("%CEL({})%", whole(text))).collect();
        let format = json!({
            "text_format_source": {"inline_string": commands.join("|") + "\n"},
            "formatters": [{"name": "envoy.formatter.cel", "typed_config": {"@type": FORMATTER}}],
        });
        let filter = json!({"extension_filter": {
            "name": "envoy.access_loggers.extension_filters.cel",
            "typed_config": {"@type": CEL, "expression": whole("F['claims']['sub'] == 'somebody'")},
        }});
        let path = json!({"text_format_source": {"inline_string": "%REQ(:PATH)%\n"}});
        let logs = [
            log(folder.path(), "said", None, Some(format)),
            log(folder.path(), "taken", Some(filter), Some(path)),
        ];
        let tokens = json!({
            "@type": format!("{FILTERS}.jwt_authn.v3.JwtAuthentication"),
            "providers": {"one": {
                "issuer": "issuer", "local_jwks": {"inline_string": keys}, "payload_in_metadata": "claims",
            }},
            "requirement_map": {"any": {"requires_any": {"requirements": [
                {"provider_name": "one"}, {"allow_missing": {}},
            ]}}},
        });
        let of_route = json!({"@type": format!("{FILTERS}.jwt_authn.v3.PerRouteConfig"), "requirement_name": "any"});
        let manager = json!({
            "access_log": logs,
            "http_filters": [
                {"name": "envoy.filters.http.jwt_authn", "typed_config": tokens},
                {"name": "router", "typed_config": {"@type": format!("{FILTERS}.router.v3.Router")}},
            ],
            "route_config": {"name": "all", "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{
                "match": {"prefix": "/"}, "route": {"cluster": "backend"},
                "typed_per_filter_config": {"envoy.filters.http.jwt_authn": of_route},
            }]}]},
        });
        let bench = Bench::start(&plane, "x-envoy", &[("in", manager)]);
        let bearer = format!("GET /with HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {token}\r\n\r\n");
        for request in [bearer.as_str(), "GET /without HTTP/1.1\r\nhost: h\r\n\r\n"] {
            assert_eq!(bench.send("in", request).status, 200, "{name}");
        }
        wait_for("both lines", PATIENCE, || {
            bench.order("/reopen_logs");
            let count = |name: &str| lines(folder.path(), name).len();
            Ok((count("said") == 2 && count("taken") == 1).then_some(()))
        })
        .unwrap();
        (lines(folder.path(), "said"), lines(folder.path(), "taken"))
    });
    let [ours, envoys] = planes;
    assert_eq!(ours, envoys);
    assert!(
        ours.0[0].starts_with("somebody|true|true|true|true|false|true|"),
        "{ours:?}"
    );
    assert_eq!(ours.1, ["/with"]);
}
