//! Looks at real folders, one after another, and controllers one after another.

use super::*;
use edge_translate::Change;
use std::os::unix::fs::symlink;

mod edits;

fn service(name: &str, port: u16) -> String {
    format!("apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{ports: [{{port: {port}}}]}}\n---\n")
}

/// A controller's looks at a folder.
struct Rig {
    folder: tempfile::TempDir,
    state: tempfile::TempDir,
    before: Before,
    reader: Option<Reader>,
    look: Option<Look>,
    known: BTreeMap<String, u16>,
}

impl Rig {
    fn new(before: Before) -> Self {
        let mut rig = Self {
            folder: tempfile::tempdir().unwrap(),
            state: tempfile::tempdir().unwrap(),
            before,
            reader: None,
            look: None,
            known: BTreeMap::new(),
        };
        rig.begin();
        rig
    }

    /// Another controller in the same folders.
    fn begin(&mut self) {
        self.reader = Some(Reader::new(CopyStore::below_state(self.state.path(), self.before)));
        self.known.clear();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("in").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// What is in force after a look.
    fn look(&mut self) -> String {
        let roots = [self.folder.path().join("in")];
        let (reader, look) = self.reader.take().unwrap().look(&roots, &Waits::default());
        for change in &look.changes {
            match change {
                Change::Put(object) => {
                    let edge_translate::api::Object::Service(service) = object else {
                        panic!("{object:?}")
                    };
                    let port = service.spec.ports[0].port;
                    self.known.insert(object.key().name.to_string(), port);
                }
                Change::Remove(key) => drop(self.known.remove(&*key.name)),
                Change::Fact(fact) => panic!("{fact:?}"),
            }
        }
        self.reader = Some(reader.keep());
        self.look = Some(look);
        let known: Vec<String> = self.known.iter().map(|(name, port)| format!("{name}:{port}")).collect();
        known.join(" ")
    }

    fn look_found(&self) -> &Look {
        self.look.as_ref().unwrap()
    }
}

const TORN: &str = "kind: [\n---\n";

#[test]
fn a_copy_holds_the_last_good_form_of_each_object() {
    let mut rig = Rig::new(Before::Proxies);
    rig.write("g.yaml", &(service("other", 1) + &service("guard", 1)));
    assert_eq!(rig.look(), "guard:1 other:1");
    let broken = service("other", 1).replace("port: 1", "port: x");
    rig.write("g.yaml", &(broken.clone() + &service("guard", 2)));
    assert_eq!(rig.look(), "guard:2 other:1");
    rig.write("g.yaml", &(broken.clone() + &service("guard", 2) + &service("new", 5)));
    assert_eq!(rig.look(), "guard:2 new:5 other:1");
    rig.write("g.yaml", &(broken + TORN));
    assert_eq!(rig.look(), "guard:2 new:5 other:1");
    for _ in 0..2 {
        rig.begin();
        assert_eq!(rig.look(), "guard:2 new:5 other:1");
    }
    rig.write("g.yaml", &service("guard", 3));
    assert_eq!(rig.look(), "guard:3");
}

#[test]
fn what_always_was_broken_holds_nothing_for_the_next_controller() {
    let mut rig = Rig::new(Before::Proxies);
    rig.write("g.yaml", &(service("a", 1) + TORN + &service("b", 1)));
    assert_eq!(rig.look(), "a:1 b:1");
    rig.begin();
    rig.write("g.yaml", &(service("a", 1) + TORN));
    assert_eq!(rig.look(), "a:1");
    rig.write("g.yaml", TORN);
    assert_eq!(rig.look(), "");
}

#[test]
fn a_copy_that_cannot_be_written_is_written_when_it_can_be() {
    let mut rig = Rig::new(Before::Proxies);
    // Nothing can be made behind a link to nothing.
    symlink("/nowhere/kept", rig.state.path().join(".kept")).unwrap();
    rig.write("g.yaml", &service("guard", 1));
    rig.look();
    assert!(rig.reader.as_ref().unwrap().owes_copies());
    rig.write("g.yaml", TORN);
    assert_eq!(rig.look(), "guard:1");
    fs::remove_file(rig.state.path().join(".kept")).unwrap();
    rig.look();
    assert!(!rig.reader.as_ref().unwrap().owes_copies());
    rig.begin();
    assert_eq!(rig.look(), "guard:1");
}

#[test]
fn copies_that_somebody_removes_are_made_anew() {
    let mut rig = Rig::new(Before::Proxies);
    rig.write("g.yaml", &service("guard", 1));
    rig.look();
    fs::remove_dir_all(rig.state.path().join(".kept")).unwrap();
    rig.look();
    rig.look();
    rig.write("g.yaml", TORN);
    rig.begin();
    assert_eq!(rig.look(), "guard:1");
}

#[test]
fn a_broken_file_that_is_renamed_between_controllers_keeps_what_it_held() {
    let mut rig = Rig::new(Before::Proxies);
    rig.write("g.yaml", &service("guard", 1));
    rig.look();
    rig.write("g.yaml", TORN);
    assert_eq!(rig.look(), "guard:1");
    fs::rename(rig.path("g.yaml"), rig.path("h.yaml")).unwrap();
    for _ in 0..2 {
        rig.begin();
        assert_eq!(rig.look(), "guard:1");
        assert_eq!(rig.look_found().coverage, Coverage::Whole);
    }
    fs::remove_file(rig.path("h.yaml")).unwrap();
    rig.begin();
    assert_eq!(rig.look(), "");
}

#[test]
fn what_moves_and_breaks_is_held_for_the_next_controller() {
    let mut rig = Rig::new(Before::Proxies);
    rig.write("a.yaml", &(service("r", 1) + &service("guard", 1)));
    rig.look();
    rig.write("a.yaml", &service("r", 1));
    rig.write("b.yaml", &service("guard", 1).replace("port: 1", "port: x"));
    assert_eq!(rig.look(), "guard:1 r:1");
    rig.begin();
    assert_eq!(rig.look(), "guard:1 r:1");
    // And back, while the file that it came from is broken.
    rig.write("a.yaml", TORN);
    rig.look();
    rig.write("b.yaml", "");
    rig.write("c.yaml", &(service("guard", 2) + &service("r", 2)));
    assert_eq!(rig.look(), "guard:2 r:2");
    rig.begin();
    assert_eq!(rig.look(), "guard:2 r:2");
}

#[test]
fn what_a_link_led_to_stays_until_the_link_is_removed() {
    let mut rig = Rig::new(Before::Proxies);
    let elsewhere = rig.folder.path().join("elsewhere");
    fs::create_dir_all(elsewhere.join("site")).unwrap();
    fs::write(elsewhere.join("g.yaml"), service("guard", 1)).unwrap();
    fs::write(elsewhere.join("site/s.yaml"), service("site", 1)).unwrap();
    rig.write("other.yaml", &service("other", 1));
    symlink(elsewhere.join("g.yaml"), rig.path("g.yaml")).unwrap();
    symlink(elsewhere.join("site"), rig.path("site")).unwrap();
    assert_eq!(rig.look(), "guard:1 other:1 site:1");
    let away = rig.folder.path().join("away");
    fs::rename(&elsewhere, &away).unwrap();
    assert_eq!(rig.look(), "guard:1 other:1 site:1");
    assert!(rig.look_found().is_partial, "nothing tells when it is back");
    rig.begin();
    assert_eq!(rig.look(), "guard:1 other:1 site:1");
    fs::write(away.join("g.yaml"), service("guard", 2)).unwrap();
    fs::rename(&away, &elsewhere).unwrap();
    assert_eq!(rig.look(), "guard:2 other:1 site:1");
    fs::rename(&elsewhere, &away).unwrap();
    fs::remove_file(rig.path("g.yaml")).unwrap();
    fs::remove_file(rig.path("site")).unwrap();
    assert_eq!(rig.look(), "other:1");
}

#[test]
fn what_becomes_a_pipe_or_device_keeps_what_it_held() {
    let mut rig = Rig::new(Before::Proxies);
    rig.write("g.yaml", &service("guard", 1));
    assert_eq!(rig.look(), "guard:1");
    fs::remove_file(rig.path("g.yaml")).unwrap();
    symlink("/dev/zero", rig.path("g.yaml")).unwrap();
    for _ in 0..2 {
        assert_eq!(rig.look(), "guard:1");
        let told = &rig.look_found().findings[0].message;
        assert!(told.contains("neither a file nor a folder"), "{told}");
        rig.begin();
    }
    fs::remove_file(rig.path("g.yaml")).unwrap();
    assert_eq!(rig.look(), "");
}

#[test]
fn a_broken_file_leaves_all_known_unless_it_may_hold_what_is_served() {
    let coverage = |rig: &mut Rig| {
        rig.look();
        rig.look_found().coverage
    };
    // Nothing ran when it was first seen.
    let mut rig = Rig::new(Before::Nothing);
    rig.write("bad.yaml", "kind: X\n");
    rig.write("a.yaml", &service("a", 1));
    assert_eq!(coverage(&mut rig), Coverage::Whole);
    rig.before = Before::Proxies;
    rig.begin();
    assert_eq!(coverage(&mut rig), Coverage::Whole);
    rig.write("worse.yaml", "kind: X\n");
    assert_eq!(coverage(&mut rig), Coverage::Whole, "it came while all was known");
    // Proxies ran, and nobody knows by what.
    let mut rig = Rig::new(Before::Proxies);
    rig.write("bad.yaml", "kind: X\n");
    assert_eq!(coverage(&mut rig), Coverage::Partial);
    rig.begin();
    assert_eq!(coverage(&mut rig), Coverage::Partial, "nobody knows more by now");
    rig.write("bad.yaml", &service("a", 1));
    assert_eq!(coverage(&mut rig), Coverage::Whole);
    rig.write("bad.yaml", "kind: X\n");
    rig.begin();
    assert_eq!(coverage(&mut rig), Coverage::Whole);
}
