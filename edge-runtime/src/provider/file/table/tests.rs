//! What follows from edits of files.

use super::*;
use edge_translate::load::{Limits, Source, load, merge_files};

fn service(name: &str, port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{ports: [{{port: {port}, protocol: TCP}}]}}\n---\n"
    )
}

/// Loads texts one after the other and says what the world is told each time.
struct World(Table);

impl World {
    fn new() -> Self {
        Self(Table::default())
    }

    fn write(&mut self, path: &str, text: &str) -> Vec<String> {
        let loaded = load(&Source { name: path, text }, &Limits::default());
        self.0.load(Path::new(path), loaded);
        self.changes()
    }

    fn delete(&mut self, path: &str) -> Vec<String> {
        self.0.remove(Path::new(path));
        self.changes()
    }

    fn changes(&mut self) -> Vec<String> {
        let name = |change: Change| match change {
            Change::Put(object) => match &object {
                Object::Service(service) => format!("+{}:{}", object.key().name, service.spec.ports[0].port),
                other => format!("+{}", other.key()),
            },
            Change::Remove(key) => format!("-{}", key.name),
            Change::Fact(fact) => panic!("a table of resources tells {fact:?}"),
        };
        self.0.regroup();
        let changes = self.0.take_changes(Removals::Tell);
        changes.into_iter().map(name).collect()
    }

    fn findings(&self) -> Vec<String> {
        self.0.findings().iter().map(ToString::to_string).collect()
    }
}

#[test]
fn only_what_differs_is_told() {
    let mut world = World::new();
    let both = service("a", 1) + &service("b", 2);
    assert_eq!(world.write("f", &both), ["+a:1", "+b:2"]);
    assert_eq!(world.write("f", &both), [""; 0]);
    assert_eq!(world.write("f", &(service("a", 1) + &service("b", 3))), ["+b:3"]);
    assert_eq!(world.write("f", &service("b", 3)), ["-a"]);
    assert_eq!(world.delete("f"), ["-b"]);
    assert_eq!(world.0.n_objects(), 0);
}

#[test]
fn a_broken_document_keeps_its_object_and_lets_others_follow() {
    let mut world = World::new();
    world.write("f", &(service("a", 1) + &service("b", 2) + &service("c", 3)));
    let broken = "apiVersion: v1\nkind: Service\nmetadata: {name: b}\nspec: {ports: 7}\n---\n";
    assert_eq!(world.write("f", &(service("a", 9) + broken)), ["+a:9", "-c"]);
    let findings = world.findings();
    assert!(findings[0].starts_with("f:9:"), "{findings:?}");
    assert_eq!(
        world.write("f", &service("a", 9)),
        ["-b"],
        "and goes when its document does"
    );
}

#[test]
fn a_document_that_names_nothing_may_hide_any_missing_object() {
    let mut world = World::new();
    world.write("f", &(service("a", 1) + &service("b", 2)));
    let torn = "apiVersion: v1\nkind: Service\nmetadata: {name: b\n---\n";
    assert_eq!(world.write("f", &(service("a", 5) + torn)), ["+a:5"]);
    assert_eq!(world.write("f", &(service("a", 6) + torn)), ["+a:6"], "still hiding");
    assert_eq!(world.write("f", &service("a", 6)), ["-b"]);
}

#[test]
fn a_document_that_was_always_broken_hides_nothing() {
    let mut world = World::new();
    let torn = "kind: Service\nmetadata: {name: x\n---\n";
    world.write("f", &(service("a", 1) + &service("b", 2) + torn));
    assert_eq!(world.write("f", &(service("a", 1) + torn)), ["-b"]);
}

#[test]
fn of_an_object_in_two_files_the_first_path_wins_and_the_other_takes_over() {
    let mut world = World::new();
    assert_eq!(world.write("b", &service("a", 2)), ["+a:2"]);
    assert_eq!(world.write("a", &service("a", 1)), ["+a:1"]);
    assert_eq!(world.write("b", &service("a", 3)), [""; 0], "not in force");
    let findings = world.findings();
    assert_eq!(findings.len(), 1);
    assert!(
        findings[0].contains("b:1:1: warning: Service/default/a: it stands at a:1 too"),
        "{findings:?}"
    );
    assert_eq!(world.delete("a"), ["+a:3"]);
    assert!(world.findings().is_empty());
}

#[test]
fn a_file_that_cannot_be_read_keeps_what_it_held() {
    let mut world = World::new();
    world.write("f", &service("a", 1));
    world.0.fail(Path::new("f"), "permission denied");
    assert_eq!(world.changes(), [""; 0]);
    assert_eq!(world.findings(), ["f:1:1: error: permission denied"]);
    assert_eq!(world.write("f", &service("a", 2)), ["+a:2"]);
    assert!(world.findings().is_empty());
}

#[test]
fn any_history_of_edits_ends_in_what_the_files_hold() {
    // Every order of four edits gives the world that reading the last texts from scratch gives.
    let edits = [
        ("a", service("m", 1)),
        ("b", service("m", 2)),
        ("a", service("o", 3)),
        ("b", service("p", 4) + &service("o", 5)),
    ];
    let orders = [
        [0, 1, 2, 3],
        [1, 0, 3, 2],
        [0, 2, 1, 3],
        [1, 3, 0, 2],
        [3, 2, 1, 0],
        [2, 0, 3, 1],
    ];
    for order in orders {
        let (mut world, mut fresh) = (World::new(), World::new());
        let mut last: BTreeMap<&str, &str> = BTreeMap::new();
        for index in order {
            let (path, text) = &edits[index];
            world.write(path, text);
            last.insert(path, text);
        }
        last.into_iter().for_each(|(path, text)| drop(fresh.write(path, text)));
        assert_eq!(world.0.edits.in_force(), fresh.0.edits.in_force(), "order {order:?}");
    }
}

#[test]
fn files_together_mean_what_they_mean_offline() {
    let texts = [("a", "x y"), ("b", "y z"), ("c", "x z w"), ("d/a", "v x")];
    let files = texts.map(|(path, names)| {
        let text: String = names
            .split(' ')
            .map(|name| {
                format!(
                    "apiVersion: v1\nkind: Service\nmetadata: {{name: s-{name}, labels: {{in: n{}}}}}\n---\n",
                    path.len()
                )
            })
            .collect();
        (
            path,
            load(
                &Source {
                    name: path,
                    text: &text,
                },
                &Limits::default(),
            ),
        )
    });
    let offline = merge_files(files.iter().map(|(_, loaded)| loaded.clone()));
    let mut table = Table::default();
    // Files come in any order.
    for (path, loaded) in files.into_iter().rev() {
        table.load(Path::new(path), loaded);
    }
    let mut online: Vec<Object> = table
        .take_changes(Removals::Tell)
        .into_iter()
        .map(|change| match change {
            Change::Put(object) => object,
            other => panic!("{other:?}"),
        })
        .collect();
    online.sort_by_key(Object::key);
    let mut expected: Vec<Object> = offline.objects.into_iter().map(|loaded| loaded.object).collect();
    expected.sort_by_key(Object::key);
    assert_eq!(online, expected);
    assert_eq!(table.findings(), offline.findings);
    assert_eq!(offline.findings.len(), 4);
}

/// A policy that keeps everybody out, with something in its place.
fn guard(was: &str, is: &str) -> String {
    let text = "apiVersion: gateway.edge/v1alpha1\nkind: SecurityPolicy\nmetadata: {name: guard, namespace: default}\nspec:\n  \
                targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}]\n  authorization: {defaultAction: \
                Deny}\n---\n";
    assert!(text.contains(was), "{was}");
    text.replace(was, is)
}

#[test]
fn no_slip_removes_a_guard() {
    let slips = [
        ("name: guard", "name: Guard"),
        ("name: guard", "name: guard_1"),
        ("namespace: default", "namespace: Default"),
        (
            "guard, namespace: default}\nspec:\n  targetRefs",
            "guard2}\nspec:\n  tragetRefs",
        ),
        (
            "SecurityPolicy\nmetadata: {name: guard",
            "SecurityPolcy\nmetadata: {name: guard2",
        ),
        ("apiVersion: gateway.edge/v1alpha1\n", ""),
        ("gateway.edge/v1alpha1", "gateway.networking.k8s.io/v1"),
        ("gateway.edge/v1alpha1", "v1alpha1"),
        ("gateway.edge/v1alpha1", "v1"),
        ("gateway.edge/v1alpha1", "gateway.edge"),
        ("gateway.edge/v1alpha1", "security.gateway.edge/v1alpha1"),
        ("gateway.edge/v1alpha1", "edge.gateway/v1alpha1"),
        ("gateway.edge/v1alpha1", "policies.example.com/v1alpha1"),
        ("SecurityPolicy", "SecurityPolicies"),
        ("SecurityPolicy", "Policy"),
        ("SecurityPolicy", "EdgeSecurityPolicy"),
        ("SecurityPolicy", "{{ .kind }}"),
        ("targetRefs", "targetReferences"),
        ("targetRefs", "targets"),
        ("targetRefs", "target"),
        ("kind: HTTPRoute", "kind: HttpRoute"),
        ("kind: HTTPRoute", "kind: HTTPRoutes"),
        (", name: r", ""),
    ];
    for (was, is) in slips {
        let mut world = World::new();
        assert_eq!(world.write("g", &guard("", "")), ["+SecurityPolicy/default/guard"]);
        let slip = guard(was, is);
        assert_eq!(world.write("g", &slip), [""; 0], "{slip}");
        let findings = world.findings();
        assert!(
            findings.iter().any(|line| line.contains("error")),
            "{slip}: {findings:?}"
        );
        assert_eq!(world.write("g", &(slip.clone() + &service("s", 1))), ["+s:1"], "{slip}");
        assert_eq!(world.write("g", &service("s", 1)), ["-guard"], "{slip}");
    }
}

#[test]
fn a_guard_that_breaks_as_another_document_always_was_is_held() {
    let broken = "kind: Service\nmetadata: {name: x}\n---\n";
    let mut world = World::new();
    world.write("g", &(broken.to_owned() + &guard("", "")));
    let slip = guard("apiVersion: gateway.edge/v1alpha1\n", "");
    assert_eq!(world.write("g", &(broken.to_owned() + &slip)), [""; 0]);
    assert_eq!(world.write("g", broken), ["-guard"]);
    let mut world = World::new();
    world.write("g", &(slip.clone() + &service("s", 1)));
    assert_eq!(
        world.write("g", &(slip.clone() + &slip)),
        [""; 0],
        "one more of the same"
    );
    assert_eq!(world.write("g", &slip), ["-s"]);
}

#[test]
fn what_others_read_holds_its_namesakes_alone() {
    let other = |kind: &str, name: &str, spec: u8| {
        format!("apiVersion: example.com/v1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n---\n")
    };
    let mut world = World::new();
    world.write("g", &(service("a", 1) + &other("Teapot", "a", 1)));
    assert_eq!(
        world.write("g", &other("Teapot", "a", 2)),
        ["-a"],
        "it was there before"
    );
    world.write("g", &service("a", 1));
    assert_eq!(world.write("g", &other("Teapot", "b", 1)), ["-a"], "it is another");
    world.write("g", &service("a", 1));
    assert_eq!(world.write("g", &other("Teapot", "a", 1)), [""; 0]);
    let findings = world.findings();
    assert!(
        findings
            .iter()
            .any(|line| line.contains("save the file without it once")),
        "{findings:?}"
    );
    assert_eq!(world.write("g", ""), ["-a"]);
}

#[test]
fn a_policy_that_was_always_for_nothing_follows_its_text() {
    let mut world = World::new();
    let aimless = guard("targetRefs", "targets");
    assert_eq!(world.write("g", &aimless), ["+SecurityPolicy/default/guard"]);
    let edited = aimless.replace("Deny", "Allow");
    assert_eq!(world.write("g", &edited), ["+SecurityPolicy/default/guard"]);
}

#[test]
fn what_is_held_for_a_file_and_comes_in_another_stands_there() {
    let torn = "kind: [\n---\n";
    for to in ["b", "0"] {
        let mut world = World::new();
        world.write("a", &(service("r", 1) + &service("guard", 1)));
        world.0.load(
            Path::new("a"),
            load(&Source { name: "a", text: torn }, &Limits::default()),
        );
        let text = service("guard", 2);
        assert_eq!(world.write(to, &text), ["+guard:2"]);
        assert!(
            world.findings().iter().all(|line| !line.contains("in force")),
            "{:?}",
            world.findings()
        );
        assert_eq!(world.delete(to), ["-guard"]);
    }
    // What stood in both before is no move.
    let mut world = World::new();
    world.write("a", &service("guard", 1));
    world.write("b", &service("guard", 2));
    assert_eq!(world.write("a", torn), [""; 0]);
}

#[test]
fn what_moves_to_another_file_and_breaks_on_the_way_is_held_there() {
    let mut world = World::new();
    world.write("a", &(service("r", 1) + &service("guard", 1)));
    let broken = service("guard", 1).replace("80", "x").replace("port: 1", "port: x");
    assert_eq!(world.write("b", &broken), [""; 0]);
    assert_eq!(world.write("a", &service("r", 1)), [""; 0]);
    assert_eq!(world.write("b", &service("guard", 3)), ["+guard:3"]);
    assert_eq!(world.delete("b"), ["-guard"]);
}
