//! The tables, letter by letter.

use super::*;
use crate::cli::{Cli, Command, Experimental};
use clap::Parser as _;
use edge_translate::status::has_status;
use serde_json::json;

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": format!("It is {reason}."),
        "observedGeneration": 3, "lastTransitionTime": "2026-01-02T03:04:05Z",
    })
}

fn objects() -> Vec<Value> {
    let accepted = || condition("Accepted", "True", "Accepted");
    let resolved = condition("ResolvedRefs", "False", "BackendNotFound");
    let parent = |name: &str, last: &Value| json!({ "parentRef": { "name": name }, "conditions": [accepted(), last] });
    vec![
        json!({ "kind": "GatewayClass", "name": "edge", "status": { "conditions": [accepted()] } }),
        json!({ "kind": "Gateway", "namespace": "default", "name": "quickstart",
            "status": { "conditions": [accepted(), condition("Programmed", "True", "Programmed")] } }),
        json!({ "kind": "HTTPRoute", "namespace": "default", "name": "www",
            "status": { "parents": [parent("quickstart", &resolved), parent("b", &resolved)] } }),
        json!({ "kind": "HTTPRoute", "namespace": "shop", "name": "cart",
            "status": { "parents": [parent("quickstart", &resolved)] } }),
        json!({ "kind": "BackendTLSPolicy", "namespace": "default", "name": "tls",
            "status": { "ancestors": [{ "ancestorRef": { "kind": "Gateway", "name": "quickstart" },
                "conditions": [accepted()] }] } }),
    ]
}

fn args(line: &str) -> StatusArgs {
    let words = ["edgectl", "x", "status"].into_iter().chain(line.split_whitespace());
    let Command::Experimental(Experimental::Status(args)) = Cli::try_parse_from(words).unwrap().command else {
        panic!("{line}");
    };
    args
}

fn shown(line: &str) -> String {
    render(&args(line), &objects())
}

#[test]
fn a_cluster_that_is_named_is_asked() {
    for line in ["all --context c", "all --kubeconfig k"] {
        assert_eq!(Source::of(&args(line)).unwrap(), Source::Cluster, "{line}");
    }
    let document = Source::of(&args("all --status-file s")).unwrap();
    assert_eq!(document, Source::File("s".into()));
    let both = ["edgectl", "x", "status", "all", "--context", "c", "--status-file", "s"];
    assert!(Cli::try_parse_from(both).is_err(), "one or the other");
}

#[test]
fn all_are_the_kinds_with_a_status() {
    for kind in Kind::ALL {
        assert_eq!(Family::of(*kind).is_some(), has_status(*kind), "{kind}");
    }
    let mut policies = args("xpolicy").kind.kinds();
    assert!(policies.all(|(kind, _)| kind.as_str().ends_with("Policy")));
    let set = json!({ "kind": "ListenerSet", "namespace": "default", "name": "more",
        "status": { "conditions": [condition("Accepted", "True", "Accepted")] } });
    let expected = "\
NAME               TYPE       STATUS    REASON
listenerset/more   Accepted   True      Accepted
";
    assert_eq!(render(&args("all"), &[set]), expected);
}

#[test]
fn all_kinds_that_have_something_to_say() {
    let expected = "\
NAME                TYPE       STATUS    REASON
gatewayclass/edge   Accepted   True      Accepted

NAME                 TYPE         STATUS    REASON
gateway/quickstart   Programmed   True      Programmed
                     Accepted     True      Accepted

NAME            PARENT               TYPE           STATUS    REASON
httproute/www   gateway/quickstart   ResolvedRefs   False     BackendNotFound
                                     Accepted       True      Accepted
                gateway/b            ResolvedRefs   False     BackendNotFound
                                     Accepted       True      Accepted

NAME                   ANCESTOR REFERENCE   TYPE       STATUS    REASON
backendtlspolicy/tls   gateway/quickstart   Accepted   True      Accepted
";
    assert_eq!(shown("all"), expected);
}

#[test]
fn a_listener_that_is_not_well_is_shown_below_its_gateway() {
    let listener = |name: &str, conditions: Value| json!({ "name": name, "conditions": conditions });
    let fine = json!([
        condition("Conflicted", "False", "NoConflicts"),
        condition("Accepted", "True", "Accepted")
    ]);
    let bad = json!([
        condition("Programmed", "False", "Invalid"),
        condition("Accepted", "True", "Accepted"),
        condition("ResolvedRefs", "False", "InvalidCertificateRef"),
    ]);
    let gateway = json!({ "kind": "Gateway", "namespace": "default", "name": "g", "status": {
        "conditions": [condition("Programmed", "True", "Programmed")],
        "listeners": [listener("http", fine), listener("https", bad)],
    } });
    let expected = "\
NAME               TYPE           STATUS    REASON
g                  Programmed     True      Programmed
  listener https   ResolvedRefs   False     InvalidCertificateRef
                   Programmed     False     Invalid
";
    assert_eq!(render(&args("gateway"), std::slice::from_ref(&gateway)), expected);
    assert_eq!(
        render(&args("gateway -q"), &[gateway]).lines().count(),
        2,
        "the latest alone"
    );
}

#[test]
fn one_kind_by_any_of_its_names() {
    let expected = "\
NAME         TYPE         STATUS    REASON
quickstart   Programmed   True      Programmed
";
    for name in ["gateway -q", "Gateway --quiet", "GTW -q", "gw -q"] {
        assert_eq!(shown(name), expected, "{name}");
    }
    assert_eq!(shown("tcproute"), "NAME      PARENT    TYPE      STATUS    REASON\n");
}

#[test]
fn every_namespace_briefly() {
    let expected = "\
NAMESPACE   NAME      PARENT               TYPE           STATUS    REASON
default     www       gateway/quickstart   ResolvedRefs   False     BackendNotFound
                      gateway/b            ResolvedRefs   False     BackendNotFound
shop        cart      gateway/quickstart   ResolvedRefs   False     BackendNotFound
";
    assert_eq!(shown("httproute -A -q"), expected);
    let expected = "\
NAME             PARENT               TYPE           STATUS    REASON
httproute/cart   gateway/quickstart   ResolvedRefs   False     BackendNotFound
";
    assert_eq!(shown("xroute -n shop -q"), expected);
}

#[test]
fn everything_about_a_condition() {
    let expected = "\
NAME      TYPE       STATUS    REASON     MESSAGE           OBSERVED GENERATION   LAST TRANSITION TIME
edge      Accepted   True      Accepted   It is Accepted.   3                     2026-01-02T03:04:05Z
";
    assert_eq!(shown("gc --verbose"), expected);
}

#[test]
fn an_unknown_kind_is_told_which_there_are() {
    let error = Cli::try_parse_from(["edgectl", "x", "status", "pod"]).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("GatewayClass (gc)"), "{error}");
}

#[test]
fn a_document_that_is_not_there_names_the_flag() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("status.yaml");
    let source = Source::File(path.clone());
    let error = format!("{:#}", source.objects(&args("all")).unwrap_err());
    assert!(error.contains("--status-file"), "{error}");
    fs::write(&path, "kind: List\n").unwrap();
    let error = format!("{:#}", source.objects(&args("all")).unwrap_err());
    assert!(error.contains("no list `resources`"), "{error}");
    fs::write(&path, "findings: []\nresources:\n- { kind: Gateway, name: a }\n").unwrap();
    assert_eq!(
        source.objects(&args("all")).unwrap(),
        [json!({ "kind": "Gateway", "name": "a" })]
    );
}
