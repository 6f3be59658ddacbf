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
        self.0.take_changes().into_iter().map(name).collect()
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
        assert_eq!(world.0.published, fresh.0.published, "order {order:?}");
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
        .take_changes()
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
