//! What `edgectl` installs: the definitions of our kinds, in front of a real API server.

use anyhow::{Context, Result, ensure};
use e2e::{
    golden,
    lab::{Kind, Lab},
    stack::program,
};
use serde_json::Value;
use std::{
    fs,
    process::{Command, Output},
    sync::OnceLock,
};

fn edgectl(args: &[&str]) -> Result<Output> {
    Ok(Command::new(program("edgectl")?).args(args).output()?)
}

/// Installs the definitions once for all tests of this process.
pub(crate) fn defined() -> Result<&'static Lab> {
    static DONE: OnceLock<Result<(), String>> = OnceLock::new();
    let done = DONE.get_or_init(|| {
        let output = edgectl(&["x", "install", "--only-crds"]).map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(said) }
    });
    done.clone().map_err(anyhow::Error::msg)?;
    Lab::join()
}

#[test]
fn every_object_of_our_kinds_in_golden_cases_is_taken() -> Result<()> {
    let lab = defined()?;
    let namespace = "golden-objects";
    let _namespace = lab.namespace(namespace)?;
    let (mut met, mut refused) = (0, Vec::new());
    for golden::Given { case, mut object } in golden::objects(&["input", "inadmissible"])? {
        if object["apiVersion"] != "gateway.edge/v1alpha1" {
            continue;
        }
        met += 1;
        object["metadata"] = serde_json::json!({"namespace": namespace, "name": format!("object-{met}")});
        if let Err(error) = lab.apply(&object.to_string()) {
            refused.push(format!("{case}: {error:#}"));
        }
    }
    ensure!(met > 20, "only {met} objects of our kinds");
    // Cases about faults that a definition finds already, each for its reason.
    let expected = |refusal: &String| {
        EXPECTED
            .iter()
            .any(|(case, said)| refusal.contains(case) && refusal.contains(said))
    };
    refused.retain(|refusal| !expected(refusal));
    ensure!(refused.is_empty(), "{refused:#?}");
    Ok(())
}

/// Cases whose fault is found before the controller sees it, and the words for it.
const EXPECTED: [(&str, &str); 72] = [
    ("telemetry/access-log-json-empty", "json field needs to be set"),
    ("backend-traffic/unreadable", "requestTimeout: expected string"),
    ("backend-traffic/unreadable-targets", "targetRefs: expected list"),
    ("class/parameters-slip", "Unsupported value"),
    ("client-traffic/address-invalid", "exactly one of xForwardedFor"),
    (
        "client-traffic/connection-invalid",
        "should be greater than or equal to 1",
    ),
    (
        "client-traffic/forwarded-certificate-idle",
        "certDetailsToAdd can only be set",
    ),
    ("client-traffic/headers-invalid", "earlyRequestHeaders"),
    (
        "client-traffic/tls-invalid",
        "minVersion must be smaller or equal to maxVersion",
    ),
    ("extension/ext-proc-interval", "baseInterval in body should match"),
    ("extension/ext-proc-invalid", "FailOpen must be false"),
    ("extension/ext-proc-port", "Must have port for Service reference"),
    ("extension/wrong-type", "spec.extProc"),
    ("extension/unknown-field", "field not declared in schema"),
    (
        "extension-service/backend-elsewhere",
        "BackendRefs only supports Service, ServiceImport, and Backend kind.",
    ),
    ("extension/wasm-unknown-field", "field not declared in schema"),
    ("gateway/parameters-slip", "Unsupported value"),
    ("patch/refused", "jsonPatches[0].type: Unsupported value"),
    (
        "custom-backend/mixed",
        "fqdn addresses cannot be mixed with other address types",
    ),
    (
        "custom-backend/tls-refused",
        "minVersion must be smaller or equal to maxVersion",
    ),
    ("custom-backend/tls-refused", "when InsecureSkipVerify is enabled"),
    ("backend-traffic/invalid", "should be greater than or equal to 0"),
    ("backend-traffic/stream", "should be greater than or equal to 0"),
    ("route-filter/rewrite-invalid", "pattern: Required value"),
    (
        "route-filter/rewrite-invalid",
        "header must be specified for Header type",
    ),
    (
        "route-filter/rewrite-invalid",
        "pathRegex must be specified for PathRegex type",
    ),
    (
        "route-filter/answer-refused",
        "header.remove is not supported for DirectResponse",
    ),
    ("route-filter/answer", "duplicate entries for key"),
    ("policy/target-unknown-beside", "targetRefs"),
    ("policy/target-unreadable", "targetRefs"),
    ("traffic-filter/override-header-long", "Too long"),
    ("policy/target-unreadable", "targetrefs"),
    ("security/authorization-invalid", "clientCIDRs"),
    ("security/cors-invalid", "allowOrigins"),
    ("security/ext-auth-invalid", "statusOnError"),
    ("security/ext-auth-merge", "one of grpc or http must be specified"),
    ("security/ext-auth-merge-lent", "one of grpc or http must be specified"),
    ("security/jwt-invalid", "optional and failOpen cannot both be set"),
    ("security/oidc-invalid", "sameSite: Unsupported value"),
    ("security/oidc-merge", "oidc.provider: Required value"),
    ("security/oidc-merge-lent", "oidc.provider.issuer: Required value"),
    ("security/own-home", "field not declared in schema"),
    ("security/places-files", "cityDbSource.local.path in body should match"),
    ("security/places-invalid", "clientIPGeoLocations"),
    ("security/replace", "Replace is not a valid MergeType"),
    ("security/unknown-field", "field not declared in schema"),
    ("security/wrong-type", "expected list"),
    ("telemetry/metrics-invalid", "host or backendRefs needs to be set"),
    ("traffic-filter/admission-invalid", "minSuccessRate"),
    ("traffic-filter/compressor-invalid", "Unsupported value"),
    ("traffic-filter/override-invalid", "responseHeaders"),
    ("traffic-filter/rate-limit", "methods[2].value: Unsupported value"),
    (
        "traffic-filter/rate-limit-global-invalid",
        "limit.unit: Unsupported value",
    ),
    ("traffic-filter/rate-limit-invalid", "limit.unit: Unsupported value"),
    (
        "traffic-filter/telemetry-invalid",
        "numerator must be less than or equal",
    ),
    ("telemetry/older-forms", "backendRef is not supported"),
    ("backend-traffic/zones-invalid", "cannot be specified together"),
    ("backend-traffic/zones-invalid", "not supported for ConsistentHash"),
    ("backend-traffic/zones-invalid", "should be greater than or equal to 1"),
    ("traffic-filter/override-prefix", "only ReplaceFullPath"),
    ("extension/ext-proc-backend-one", "backendRef is not supported"),
    ("security/jwt-backend-one", "backendRef is not supported"),
    ("security/oidc-backend-one", "backendRef is not supported"),
    (
        "backend-traffic/invalid-beside",
        "only works with RoundRobin or Random load balancers",
    ),
    ("backend-traffic/invalid-beside", "should be greater than or equal to 0"),
    ("backend-traffic/health-payload-empty", "must be of type byte"),
    ("class/parameters-unknown", "Unsupported value"),
    (
        "class/parameters-unknown",
        "provided bootstrap patch doesn't match the configured patch type",
    ),
    ("client-traffic/validation-names-invalid", "at least 1 chars long"),
    ("client-traffic/header-limit-large", "must be of type boolean: \"null\""),
    ("extension/out-of-bounds", "should have at least 1 items"),
    ("telemetry/paths-empty", "at least 1 chars long"),
];

#[test]
fn mistakes_are_refused_with_their_reason() -> Result<()> {
    let lab = defined()?;
    let namespace = "mistakes";
    let _namespace = lab.namespace(namespace)?;
    for (kind, spec, said) in [
        (
            "Backend",
            "{endpoints: [{}]}",
            "one of fqdn, ip or unix must be specified",
        ),
        (
            "Backend",
            "{endpoints: [{ip: {address: 10.0.0.1, port: 70000}}]}",
            "less than or equal to 65535",
        ),
        (
            "EdgeProxy",
            "{provider: {type: Cluster, cluster: {envoyDeployment: {}, envoyDaemonSet: {}}}}",
            "only one of envoyDeployment or envoyDaemonSet can be specified",
        ),
        (
            "EdgeProxy",
            "{ipFamily: IPv5}",
            "supported values: \"IPv4\", \"IPv6\", \"DualStack\"",
        ),
        ("EdgeProxy", "{shutdown: {drainTimeout: soon}}", "should match"),
        (
            "ClientTrafficPolicy",
            "{}",
            "either targetRef or targetRefs must be used",
        ),
        (
            "ClientTrafficPolicy",
            "{targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}]}",
            "this policy can only have a targetRefs[*].kind of Gateway or ListenerSet",
        ),
        (
            "BackendTrafficPolicy",
            "{targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: g}], mergeType: StrategicMerge}",
            "mergeType can only be used with xRoute targets",
        ),
        (
            "BackendTrafficPolicy",
            "{targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: g}], loadBalancer: {type: Random, \
             slowStart: {window: 1s}}}",
            "Currently SlowStart is only supported",
        ),
        (
            "SecurityPolicy",
            "{targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: g}], jwt: {providers: [{name: p}]}}",
            "either remoteJWKS or localJWKS must be specified",
        ),
        (
            "EdgeExtensionPolicy",
            "{targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: g}], lua: [{type: Inline}]}",
            "Exactly one of inline or valueRef must be set with correct type",
        ),
        (
            "HTTPRouteFilter",
            "{urlRewrite: {hostname: {type: Header}}}",
            "header must be specified for Header type",
        ),
        ("EdgePatchPolicy", "{type: JSONPatch}", "targetRef"),
    ] {
        let name = kind.to_lowercase();
        let text = format!(
            "{{apiVersion: gateway.edge/v1alpha1, kind: {kind}, metadata: {{name: {name}, namespace: {namespace}}}, spec: \
             {spec}}}"
        );
        let error = lab
            .apply(&text)
            .err()
            .with_context(|| format!("{kind} {spec} was taken"))?;
        let error = format!("{error:#}");
        ensure!(error.contains(said), "{kind} {spec}: {error}");
    }
    Ok(())
}

#[test]
fn defaults_are_filled_in() -> Result<()> {
    let lab = defined()?;
    let namespace = "defaults";
    let _namespace = lab.namespace(namespace)?;
    lab.apply(&format!(
        "{{apiVersion: gateway.edge/v1alpha1, kind: EdgeProxy, metadata: {{name: p, namespace: {namespace}}}, spec: {{provider: \
         {{type: Cluster, cluster: {{envoyService: {{}}}}}}}}}}"
    ))?;
    let found = lab.get(&Kind::edge("EdgeProxy").named(namespace, "p"))?;
    let service = &found["spec"]["provider"]["cluster"]["envoyService"];
    ensure!(
        service["type"] == "LoadBalancer" && service["externalTrafficPolicy"] == "Local",
        "{found}"
    );
    ensure!(found["spec"]["logging"]["level"]["default"] == "warn", "{found}");
    Ok(())
}

#[test]
fn who_may_not_install_is_told_what_is_missing() -> Result<()> {
    let lab = defined()?;
    let namespace = "no-rights";
    let _namespace = lab.namespace(namespace)?;
    // The lab's own way to the cluster, without saying who we are.
    let own = fs::read_to_string(std::env::var("KUBECONFIG")?)?;
    let mut config: Value = serde_yaml::from_str(&own)?;
    config["users"][0]["user"] = serde_json::json!({});
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("config");
    fs::write(&path, serde_json::to_string(&config)?)?;
    let output = edgectl(&["x", "install", "--only-crds", "--kubeconfig", &path.to_string_lossy()])?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(1), "{said}");
    for words in [
        "CustomResourceDefinition backends.gateway.edge can't be read",
        "not allowed",
        "cannot get resource",
    ] {
        ensure!(said.contains(words), "{words}: {said}");
    }
    Ok(())
}
