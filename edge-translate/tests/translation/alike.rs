//! Policies that say the same as others, and what their statuses say: neither depends on who came first.

use crate::rig::{GATEWAY, Rig};
use edge_translate::api::Kind;

fn route(name: &str) -> String {
    format!(
        r"
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}}}
spec: {{parentRefs: [{{name: g}}], hostnames: [{name}.example.com], rules: [{{filters: []}}]}}
"
    )
}

fn policy(kind: &str, name: &str, targets: &str, spec: &str) -> String {
    format!(
        r"
apiVersion: gateway.edge/v1alpha1
kind: {kind}
metadata: {{name: {name}}}
spec:
  targetRefs: [{targets}]
  {spec}
"
    )
}

fn target(route: &str) -> String {
    format!("{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {route}}}")
}

/// Whether a policy is accepted: the reason, and the message.
fn accepted(rig: &Rig, kind: Kind, name: &str) -> (String, String) {
    let condition = rig.condition(kind, name, "Accepted").unwrap();
    (condition.reason.to_string(), condition.message.to_string())
}

#[test]
fn the_words_about_a_policy_do_not_depend_on_which_target_came_first() {
    let parts = ["{}, sectionName: left", "{}, sectionName: right"];
    let targets: Vec<String> = ["r1", "r2"]
        .into_iter()
        .zip(parts)
        .map(|(route, part)| {
            let whole = target(route);
            format!("{{{}}}", part.replace("{}", whole.trim_matches(['{', '}'])))
        })
        .collect();
    let policy = policy(
        "BackendTrafficPolicy",
        "p",
        &targets.join(", "),
        "retry: {numRetries: 1}",
    );
    let words = |routes: [&str; 2]| {
        let mut rig = Rig::new(GATEWAY);
        for name in routes {
            rig.put(&route(name));
        }
        rig.put(&policy);
        accepted(&rig, Kind::BackendTrafficPolicy, "p")
    };
    let (reason, message) = words(["r1", "r2"]);
    assert_eq!(reason, "TargetNotFound");
    assert!(message.contains("left"), "{message}");
    assert_eq!(words(["r2", "r1"]), (reason, message));
}

#[test]
fn a_copy_of_a_policy_that_merges_in_an_unknown_way_is_none() {
    for (kind, kind_of, spec) in [
        ("SecurityPolicy", Kind::SecurityPolicy, "cors: {allowMethods: [GET]}"),
        (
            "BackendTrafficPolicy",
            Kind::BackendTrafficPolicy,
            "retry: {numRetries: 1}",
        ),
    ] {
        let mut rig = Rig::new(GATEWAY);
        for (name, more) in [("one", ""), ("two", ""), ("three", "\n  mergeType: Sideways")] {
            rig.put(&route(name));
            let spec = format!("{spec}{more}");
            rig.put(&policy(kind, name, &target(name), &spec));
            let (reason, message) = accepted(&rig, kind_of, name);
            let expected = if more.is_empty() { "Accepted" } else { "Invalid" };
            assert_eq!(reason, expected, "{kind} {name}: {message}");
        }
    }
}
