//! Edits of several files, one after another, at given times.

use super::*;
use crate::watch::Patience;
use std::time::Duration;
use tokio::time::Instant;

fn route(name: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: {name}}}\n\
         spec: {{parentRefs: [{{name: gw}}]}}\n---\n"
    )
}

fn guard(name: &str, target: &str) -> String {
    format!(
        "apiVersion: gateway.edge/v1alpha1\nkind: SecurityPolicy\nmetadata: {{name: {name}}}\n\
         spec: {{targetRefs: [{{kind: HTTPRoute, name: {target}}}]}}\n---\n"
    )
}

/// A folder, and looks at it at given times.
struct Edits {
    folder: tempfile::TempDir,
    reader: Option<Reader>,
    patience: Patience,
    start: Instant,
    known: BTreeSet<String>,
}

impl Edits {
    fn of(files: &[(&str, String)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kept = CopyStore::below_state(&folder.path().join("state"), Before::Proxies);
        let mut edits = Self {
            reader: Some(Reader::new(kept)),
            folder,
            patience: Patience::default(),
            start: Instant::now(),
            known: BTreeSet::new(),
        };
        fs::create_dir(edits.path("")).unwrap();
        edits.write(files);
        edits.at(0);
        edits
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("in").join(name)
    }

    fn write(&self, files: &[(&str, String)]) {
        for (name, text) in files {
            // Another file each time, however coarse the clock of the file system is.
            fs::write(self.path("new"), text).unwrap();
            fs::rename(self.path("new"), self.path(name)).unwrap();
        }
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    /// What is in force after a look at this time.
    fn at(&mut self, ms: u64) -> String {
        let now = self.start + Duration::from_millis(ms);
        let waits = self.patience.waits(now);
        let (reader, mut look) = self.reader.take().unwrap().look(&[self.path("")], &waits);
        self.reader = Some(reader);
        self.patience.note_found(std::mem::take(&mut look.waiting), now);
        for change in &look.changes {
            match change {
                Change::Put(object) => drop(self.known.insert(object.key().name.to_string())),
                Change::Remove(key) => drop(self.known.remove(&*key.name)),
                Change::Fact(fact) => panic!("{fact:?}"),
            }
        }
        let known: Vec<&str> = self.known.iter().map(String::as_str).collect();
        known.join(" ")
    }

    /// The same after writing one file.
    fn edit(&mut self, ms: u64, name: &str, text: String) -> String {
        self.write(&[(name, text)]);
        self.at(ms)
    }

    /// The same when something that waits has waited long enough, and at which time that is.
    fn when_due(&mut self) -> (u64, String) {
        let due = self.patience.next().expect("something waits") - self.start;
        let ms = u64::try_from(due.as_millis()).unwrap();
        (ms, self.at(ms))
    }
}

#[tokio::test]
async fn an_edit_of_a_file_that_alone_changes_is_in_force_at_once() {
    let mut edits = Edits::of(&[("a.yaml", service("one", 1)), ("b.yaml", service("b", 1))]);
    assert_eq!(edits.edit(5000, "a.yaml", service("two", 1)), "b two");
    assert_eq!(
        edits.edit(5200, "a.yaml", service("one", 1)),
        "b one",
        "as often as it likes"
    );
    assert_eq!(edits.edit(5400, "a.yaml", "# none\n".into()), "b");
    assert_eq!(edits.patience.next(), None);
}

#[tokio::test]
async fn an_edit_is_in_force_in_one_go_whatever_else_is_written() {
    let mut edits = Edits::of(&[("a.yaml", service("one", 1)), ("b.yaml", service("b", 1))]);
    let churn = |n: u16| service(&format!("b{n}"), n);
    assert_eq!(edits.edit(5000, "b.yaml", churn(0)), "b0 one");
    assert_eq!(
        edits.edit(5400, "a.yaml", service("two", 1)),
        "b0 one",
        "all of it waits"
    );
    assert_eq!(edits.when_due(), (6400, "b0 two".into()));
    // Another that never rests.
    assert_eq!(edits.edit(9000, "b.yaml", churn(1)), "b1 two");
    assert_eq!(edits.edit(9400, "a.yaml", service("three", 1)), "b1 two");
    for step in 1..4 {
        assert_eq!(edits.edit(9400 + 400 * step, "b.yaml", churn(2)), "b1 two");
    }
    edits.edit(11_300, "b.yaml", churn(3));
    assert_eq!(edits.when_due(), (11_400, "b3 three".into()));
    // In one look, as where a folder is swapped.
    edits.write(&[("c.yaml", service("c", 1)), ("b.yaml", churn(3) + &service("more", 1))]);
    edits.remove("a.yaml");
    assert_eq!(edits.at(20_000), "b3 three");
    assert_eq!(edits.when_due(), (21_000, "b3 c more".into()));
}

#[tokio::test]
async fn what_comes_by_itself_waits_for_nothing() {
    let mut edits = Edits::of(&[
        ("a.yaml", service("a", 1) + &service("gone", 1)),
        ("b.yaml", service("b", 1)),
    ]);
    edits.edit(5000, "b.yaml", service("b", 2));
    assert_eq!(
        edits.edit(5300, "a.yaml", service("a", 1)),
        "a b gone",
        "it may come elsewhere"
    );
    assert_eq!(edits.edit(5600, "c.yaml", service("c", 1)), "a b c gone");
    assert_eq!(edits.when_due(), (6600, "a b c".into()));
}

#[tokio::test]
async fn what_is_gone_waits_for_a_file_that_is_just_being_written() {
    let mut edits = Edits::of(&[("a.yaml", guard("guard", "r")), ("b.yaml", service("b", 1))]);
    // Emptied first, as some programs save.
    fs::write(edits.path("b.yaml"), "").unwrap();
    assert_eq!(edits.edit(5000, "a.yaml", service("a", 1)), "b guard");
    let both = service("b", 1) + &guard("guard", "r");
    assert_eq!(edits.edit(5500, "b.yaml", both), "a b guard");
}

#[tokio::test]
async fn a_file_that_is_removed_and_made_anew_was_never_gone() {
    let guarded = || service("s", 1) + &guard("guard", "r");
    let mut edits = Edits::of(&[("a.yaml", route("r")), ("g.yaml", guarded())]);
    edits.remove("g.yaml");
    assert_eq!(edits.at(5000), "guard r s");
    assert_eq!(edits.edit(5050, "g.yaml", guarded()), "guard r s");
    assert_eq!(edits.patience.next(), None, "nothing is gone");
    // What is written anew says what is meant.
    edits.remove("g.yaml");
    assert_eq!(edits.at(7000), "guard r s");
    assert_eq!(edits.edit(7050, "g.yaml", guard("other", "r")), "other r");
    edits.remove("g.yaml");
    assert_eq!(edits.at(9000), "other r");
    assert_eq!(edits.when_due(), (10_000, "r".into()), "it is meant");
}

#[tokio::test]
async fn what_a_quiet_ends_with_is_no_part_of_it() {
    let mut edits = Edits::of(&[("a.yaml", service("a", 1)), ("b.yaml", service("b", 1))]);
    edits.remove("a.yaml");
    assert_eq!(edits.at(5000), "a b");
    edits.write(&[("b.yaml", "# none\n".into())]);
    assert_eq!(edits.when_due(), (6000, "a b".into()), "a change at just that time");
    assert_eq!(edits.when_due(), (7000, String::new()));
}

#[tokio::test]
async fn a_guard_does_not_wait_where_what_it_guards_came_before_it() {
    let mut edits = Edits::of(&[("g.yaml", guard("g1", "r1")), ("a.yaml", route("r1"))]);
    assert_eq!(edits.edit(5000, "a.yaml", route("r1") + &route("r2")), "g1 r1 r2");
    assert_eq!(edits.edit(5300, "g.yaml", guard("g2", "r2")), "g1 g2 r1 r2");
    assert_eq!(edits.when_due(), (6300, "g2 r1 r2".into()));
    // What isn't in force yet is not open.
    assert_eq!(edits.edit(9000, "b.yaml", service("b", 1)), "b g2 r1 r2");
    let renamed = route("r1") + &route("r3");
    assert_eq!(edits.edit(9300, "a.yaml", renamed), "b g2 r1 r2");
    assert_eq!(
        edits.edit(9400, "g.yaml", guard("g2", "r2") + &guard("g3", "r3")),
        "b g2 r1 r2"
    );
    assert_eq!(edits.when_due(), (10_400, "b g2 g3 r1 r3".into()));
}

#[tokio::test]
async fn what_its_guard_has_left_does_not_wait() {
    let mut edits = Edits::of(&[("g.yaml", guard("g", "r1")), ("a.yaml", route("r1") + &service("s", 1))]);
    assert_eq!(edits.edit(5000, "g.yaml", guard("g", "r2")), "g r1 s");
    assert_eq!(edits.edit(5300, "a.yaml", route("r2")), "g r2 s");
    assert_eq!(edits.when_due(), (6300, "g r2".into()));
    assert_eq!(edits.edit(9000, "g.yaml", "# none\n".into()), "r2");
    assert_eq!(edits.edit(9300, "a.yaml", service("s", 1)), "s");
}

#[tokio::test]
async fn a_guard_whose_edit_has_waited_long_enough_goes_where_another_came_with_it() {
    for (is, then) in [
        (guard("g2", "r"), "b g2 r"),
        (service("s", 1), "b g1 r s"),
        (guard("g2", "other"), "b g1 g2 r"),
    ] {
        let mut edits = Edits::of(&[
            ("g.yaml", guard("g1", "r")),
            ("a.yaml", route("r")),
            ("b.yaml", service("b", 1)),
        ]);
        edits.edit(5000, "b.yaml", service("b", 2));
        assert_eq!(edits.edit(5300, "g.yaml", is), "b g1 r");
        edits.edit(6200, "b.yaml", service("b", 3));
        edits.edit(7100, "b.yaml", service("b", 4));
        assert_eq!(edits.when_due(), (7300, then.into()));
    }
}
