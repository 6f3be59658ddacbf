use super::*;
use crate::{lower::Lowering, sample};
use edge_ir::JsonPatchOperation;

const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
const ROUTES: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
const SECRET: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

fn patch(type_url: &str, name: &str, op: &str, path: &str, value: Option<&str>) -> Patch {
    Patch {
        origin: sample::origins("EdgePatchPolicy", "p")[0].clone(),
        index: 0,
        type_url: type_url.into(),
        name: name.into(),
        operation: JsonPatchOperation {
            op: op.into(),
            path: Some(path.into()),
            json_path: None,
            from: None,
            value: value.map(Into::into),
        },
    }
}

fn timeout(cluster: &str, seconds: &str) -> Patch {
    let value = format!("\"{seconds}\"");
    patch(CLUSTER, cluster, "replace", "/connect_timeout", Some(&value))
}

fn selecting(mut patch: Patch, expression: &str) -> Patch {
    patch.operation.json_path = Some(expression.into());
    patch
}

fn fleet(patches: Vec<Patch>) -> Fleet {
    Fleet {
        patches: Arc::new(patches),
        ..sample::fleet(vec![sample::host("*", vec![sample::route("r", "/", "c")])], &["c", "d"])
    }
}

fn read(snapshot: &Snapshot, kind: ResourceType, name: &str) -> Value {
    json(kind, &snapshot.section(kind).get(name).unwrap().body.contiguous()).unwrap()
}

/// The messages of what could not be applied.
fn problems(lowering: &Lowering) -> Vec<String> {
    let told = lowering.failures().iter().map(|failure| match &failure.problem {
        PatchProblem::NotFound(resource) => format!("no {resource}"),
        PatchProblem::Invalid(message) => message.clone(),
    });
    told.collect()
}

#[test]
fn a_patch_changes_its_resource_and_no_other() {
    let mut lowering = Lowering::new();
    let plain = lowering.lower(&fleet(vec![]));
    let patched = lowering.lower(&fleet(vec![timeout("c", "1s")]));
    assert_eq!(read(&patched, ResourceType::Cluster, "c")["connect_timeout"], "1s");
    let other = |snapshot: &Snapshot| Arc::clone(snapshot.section(ResourceType::Cluster).get("d").unwrap());
    assert!(Arc::ptr_eq(&other(&plain), &other(&patched)));
    for kind in ResourceType::ALL
        .into_iter()
        .filter(|kind| *kind != ResourceType::Cluster)
    {
        assert!(Arc::ptr_eq(plain.section(kind), patched.section(kind)), "{kind:?}");
    }
    assert!(lowering.failures().is_empty());
    assert_eq!(
        lowering.lower(&fleet(vec![])),
        plain,
        "a patch that goes leaves nothing behind"
    );
}

#[test]
fn what_is_remembered_is_what_a_new_lowering_gives() {
    let states = [
        vec![],
        vec![timeout("c", "1s")],
        vec![timeout("c", "1s"), timeout("d", "2s"), timeout("nowhere", "1s")],
        vec![
            timeout("d", "2s"),
            patch(LISTENER, "tcp-80", "add", "/stat_prefix", Some("\"x\"")),
        ],
        vec![timeout("d", "3s")],
    ];
    let mut lowering = Lowering::new();
    for patches in states {
        let fleet = fleet(patches);
        let (mut anew, kept) = (Lowering::new(), lowering.lower(&fleet));
        assert_eq!(anew.lower(&fleet), kept);
        assert_eq!(anew.failures(), lowering.failures());
    }
}

#[test]
fn a_resource_whose_patches_stay_is_not_made_again() {
    let mut lowering = Lowering::new();
    let before = lowering.lower(&fleet(vec![timeout("c", "1s")]));
    let same = lowering.lower(&fleet(vec![timeout("c", "1s")]));
    assert!(Arc::ptr_eq(
        before.section(ResourceType::Cluster),
        same.section(ResourceType::Cluster)
    ));
    let after = lowering.lower(&fleet(vec![timeout("c", "1s"), timeout("d", "1s")]));
    let entry = |snapshot: &Snapshot| Arc::clone(snapshot.section(ResourceType::Cluster).get("c").unwrap());
    assert!(Arc::ptr_eq(&entry(&before), &entry(&after)));
}

#[test]
fn a_failing_patch_drops_only_itself() {
    let mut lowering = Lowering::new();
    let patched = lowering.lower(&fleet(vec![
        timeout("c", "1s"),
        patch(CLUSTER, "c", "replace", "/no_such_field/x", Some("1")),
        patch(CLUSTER, "c", "add", "/no_such_field", Some("1")),
        patch(CLUSTER, "c", "add", "/connect_timeout", Some("\"soon\"")),
        patch(CLUSTER, "c", "test", "/name", Some("\"d\"")),
        patch(CLUSTER, "c", "grow", "/name", Some("\"d\"")),
        patch(CLUSTER, "c", "replace", "/name", Some("\"x\"")),
        patch(CLUSTER, "c", "remove", "", None),
        patch(LISTENER, "new", "add", "", None),
        selecting(patch(CLUSTER, "c", "remove", "", None), "$..nothing"),
        selecting(patch(CLUSTER, "c", "remove", "", None), "$..["),
        selecting(patch(CLUSTER, "c", "remove", "", None), &"(".repeat(100_000)),
        patch("example.com/Teapot", "c", "remove", "/name", None),
        patch(SECRET, "system_ca_certificates", "add", "", Some("{}")),
        patch(CLUSTER, "nowhere", "remove", "/name", None),
        patch(CLUSTER, "d", "remove", "/connect_timeout", None),
    ]));
    let cluster = read(&patched, ResourceType::Cluster, "c");
    assert_eq!(
        (&cluster["connect_timeout"], &cluster["name"]),
        (&"1s".into(), &"c".into())
    );
    assert!(
        read(&patched, ResourceType::Cluster, "d")
            .get("connect_timeout")
            .is_none()
    );
    let told = problems(&lowering);
    assert_eq!(told.len(), 14, "{told:#?}");
    let says = [
        "invalid",
        "no_such_field",
        "soon",
        "value did not match",
        "grow",
        "its name must stay c",
        "remove : path is invalid",
        "Missing value for add operation with empty path.",
        "No jsonPointers were found while evaluating the jsonPath: '$..nothing'.",
        "can't be read",
        "nested",
        "unsupported patch type example.com/Teapot",
        "system_ca_certificates",
        "no type.googleapis.com/envoy.config.cluster.v3.Cluster/nowhere",
    ];
    for (told, says) in told.iter().zip(says) {
        assert!(told.contains(says), "{told} should say {says}");
    }
}

#[test]
fn an_expression_selects_what_is_patched() {
    let prefix = selecting(
        patch(LISTENER, "tcp-80", "replace", "", Some("\"x\"")),
        "$..stat_prefix",
    );
    let mut lowering = Lowering::new();
    let patched = lowering.lower(&fleet(vec![prefix]));
    assert_eq!(problems(&lowering), [""; 0]);
    let chain = &read(&patched, ResourceType::Listener, "tcp-80")["default_filter_chain"];
    assert_eq!(chain["filters"][0]["typed_config"]["stat_prefix"], "x");
}

#[test]
fn all_that_an_expression_selects_goes() {
    let table = sample::fleet(vec![], &[]).route_tables[0].name.to_string();
    let remove = selecting(
        patch(ROUTES, &table, "remove", "", None),
        "$.virtual_hosts[0].routes[*]",
    );
    let routes = ["a", "b", "e"].map(|name| sample::route(name, &format!("/{name}"), "c"));
    let fleet = Fleet {
        patches: Arc::new(vec![remove]),
        ..sample::fleet(vec![sample::host("*", routes.into())], &["c"])
    };
    let mut lowering = Lowering::new();
    let patched = lowering.lower(&fleet);
    assert_eq!(problems(&lowering), [""; 0]);
    assert!(
        read(&patched, ResourceType::Routes, &table)["virtual_hosts"][0]
            .get("routes")
            .is_none()
    );
}

#[test]
fn a_cluster_goes_by_the_name_of_the_only_rule_that_it_serves() {
    let named = |clusters: [&str; 2]| {
        let routes = [0, 1].map(|at| sample::route("r", &format!("/{at}"), clusters[at]));
        Fleet {
            patches: Arc::new(vec![timeout("httproute/default/r/rule/0", "1s")]),
            ..sample::fleet(vec![sample::host("*", routes.into())], &["c", "d"])
        }
    };
    let mut lowering = Lowering::new();
    let patched = lowering.lower(&named(["c", "c"]));
    assert_eq!(read(&patched, ResourceType::Cluster, "c")["connect_timeout"], "1s");
    lowering.lower(&named(["c", "d"]));
    assert_eq!(lowering.failures().len(), 1, "two clusters are meant");
}

#[test]
fn a_resource_is_added_by_a_patch_without_path() {
    let value = r#"{"name": "new", "type": "EDS", "connectTimeout": "1s"}"#;
    let mut lowering = Lowering::new();
    let add = patch(CLUSTER, "new", "add", "", Some(value));
    let patched = lowering.lower(&fleet(vec![add, timeout("new", "2s")]));
    assert_eq!(read(&patched, ResourceType::Cluster, "new")["connect_timeout"], "2s");
    let entry = patched.section(ResourceType::Cluster).get("new").unwrap();
    assert_eq!(entry.warmed_by.as_deref(), Some("new"));
}

#[test]
fn nothing_of_a_secret_is_told() {
    let key = "add /generic_secret to a secret";
    let add = patch(
        SECRET,
        "s",
        "add",
        "",
        Some(&format!(r#"{{"name": "s", "oops": "{key}"}}"#)),
    );
    let mut lowering = Lowering::new();
    lowering.lower(&fleet(vec![add]));
    let told = problems(&lowering);
    assert!(told.len() == 1 && !told[0].contains(key), "{told:?}");
}

#[test]
fn a_field_by_its_other_name_is_the_same_field() {
    let add = |path: &str| patch(CLUSTER, "c", "add", path, Some("\"1s\""));
    let mut lowering = Lowering::new();
    let patched = lowering.lower(&fleet(vec![add("/connectTimeout"), add("/cleanupInterval")]));
    let told = problems(&lowering);
    assert!(told.len() == 1, "{told:?}");
    assert!(
        told[0].contains("`connectTimeout` and `connect_timeout` name the same field"),
        "{told:?}"
    );
    let cluster = read(&patched, ResourceType::Cluster, "c");
    assert_ne!(cluster["connect_timeout"], "1s");
    assert_eq!(cluster["cleanup_interval"], "1s");
}

#[test]
fn equal_patches_give_equal_bytes() {
    let labels: Vec<String> = (0..20)
        .map(|i| format!(r#""key-{i}": {{"a{i}": 1, "b": {{"c": 2, "d": 3}}}}"#))
        .collect();
    let value = format!("{{{}}}", labels.join(","));
    let add = patch(CLUSTER, "c", "add", "/metadata/filter_metadata", Some(&value));
    let make = || Lowering::new().lower(&fleet(vec![add.clone()]));
    let first = make();
    assert!((0..5).all(|_| make() == first));
}

#[test]
fn a_pointer_says_what_a_path_says() {
    assert_eq!(operation::pointer("$['a'][0]['b/c~d']"), "/a/0/b~1c~0d");
    assert_eq!(operation::pointer("$['it\\'s ]']['x']"), "/it's ]/x");
    assert_eq!(operation::pointer("$"), "");
}

#[test]
fn a_table_is_named_as_it_is_whatever_guards_stand_before_it() {
    let name = "default/gw/http";
    let header = r#"{"header": {"key": "x", "value": "y"}}"#;
    let mut guarded = fleet(vec![patch(
        ROUTES,
        name,
        "add",
        "/response_headers_to_add",
        Some(&format!("[{header}]")),
    )]);
    let tables = Arc::make_mut(&mut guarded.route_tables);
    Arc::make_mut(&mut tables[0]).guards = "0123abcd".into();
    let mut lowering = Lowering::new();
    let patched = lowering.lower(&guarded);
    assert_eq!(problems(&lowering), [""; 0]);
    let table = read(&patched, ResourceType::Routes, "default/gw/http~0123abcd");
    assert_eq!(table["response_headers_to_add"][0]["header"]["key"], "x");
    assert!(patched.section(ResourceType::Routes).get(name).is_none());
}
