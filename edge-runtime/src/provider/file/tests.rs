//! The provider against a real folder.

use super::{kept::Before, *};
use crate::{
    state::Coverage,
    task::Task,
    watch::{RemovalWait, Waits},
};
use edge_translate::{Change, api::ObjectKey};
use std::{fs, os::unix::fs::symlink, time::Duration};

struct Rig {
    folder: tempfile::TempDir,
    world: mpsc::Receiver<Input>,
    findings: watch::Receiver<Findings>,
    wanted: watch::Sender<FileSources>,
    known: BTreeSet<String>,
    /// As it was told last.
    coverage: Option<Coverage>,
    /// Where copies are.
    state: tempfile::TempDir,
    task: Task,
}

fn service(name: &str) -> String {
    format!("apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec: {{ports: [{{port: 80}}]}}\n---\n")
}

impl Rig {
    async fn start(prepare: impl FnOnce(&Path) -> Vec<PathBuf>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let roots = prepare(folder.path());
        Self::start_in(folder, tempfile::tempdir().unwrap(), roots).await
    }

    /// Another one in the same folders, once this one has kept what it read.
    async fn restart(self, meanwhile: impl FnOnce(&Path)) -> Self {
        let Self {
            folder,
            wanted,
            state,
            task,
            ..
        } = self;
        let roots = wanted.borrow().paths.to_vec();
        task.stop(Duration::from_secs(10)).await;
        meanwhile(folder.path());
        Self::start_in(folder, state, roots).await
    }

    async fn start_in(folder: tempfile::TempDir, state: tempfile::TempDir, roots: Vec<PathBuf>) -> Self {
        let (wanted, receiver) = watch::channel(FileSources {
            paths: roots.into(),
            custom: Arc::default(),
        });
        let (sender, world) = mpsc::channel(16);
        let (found, findings) = watch::channel(Findings::default());
        let kept = CopyStore::below_state(state.path(), Before::Proxies);
        let task = Task::spawn("files", |stop| run(receiver, kept, sender, found, stop));
        let mut rig = Self {
            folder,
            world,
            findings,
            wanted,
            known: BTreeSet::new(),
            coverage: None,
            state,
            task,
        };
        while rig.take().await.is_some() {}
        rig
    }

    /// Applies the next batch; says when its first event was seen. `None`: the provider is synced.
    async fn take(&mut self) -> Option<Instant> {
        let next = time::timeout(Duration::from_secs(10), self.world.recv()).await;
        let batch = match next.expect("a message in time") {
            Some(Input::Batch(batch)) => batch,
            Some(Input::Synced(NAME, coverage)) => {
                self.coverage = Some(coverage);
                return None;
            }
            other => panic!("not from this provider: {other:?}"),
        };
        for change in batch.changes {
            let name = |key: ObjectKey| key.name.to_string();
            match change {
                Change::Put(object) => drop(self.known.insert(name(object.key()))),
                Change::Remove(key) => drop(self.known.remove(&name(key))),
                Change::Fact(fact) => panic!("a provider of resources tells {fact:?}"),
            }
        }
        Some(batch.since)
    }

    /// Takes batches until the world holds exactly these objects.
    async fn expect(&mut self, names: &[&str]) {
        while !self.known.iter().map(String::as_str).eq(names.iter().copied()) {
            self.take().await;
        }
    }

    async fn expect_finding(&mut self, part: &str) {
        let has = |findings: &Findings| findings.iter().any(|finding| finding.to_string().contains(part));
        let waited = time::timeout(Duration::from_secs(10), self.findings.wait_for(has)).await;
        assert!(waited.is_ok_and(|found| found.is_ok()), "no finding with {part}");
    }

    fn kept(&self) -> CopyStore {
        CopyStore::below_state(self.state.path(), Before::Proxies)
    }

    /// Waits until of these files, and of no others, there are copies of what they hold.
    async fn expect_kept(&self, names: &[&str]) {
        let files: Vec<PathBuf> = names.iter().map(|name| self.path(name)).collect();
        let is_kept = || {
            let is_same =
                |file: &PathBuf| self.kept().copy(file).map(|copy| copy.text) == fs::read_to_string(file).ok();
            self.kept().below(self.folder.path()) == files && files.iter().all(is_same)
        };
        let waited = time::timeout(Duration::from_secs(10), async {
            while !is_kept() {
                time::sleep(Duration::from_millis(5)).await;
            }
        });
        assert!(waited.await.is_ok(), "{:?}", self.kept().below(self.folder.path()));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }
}

#[tokio::test]
async fn files_that_come_change_and_go_are_followed() {
    let mut rig = Rig::start(|folder| vec![folder.to_owned()]).await;
    rig.expect(&[]).await;
    rig.write("a.yaml", &service("a"));
    rig.expect(&["a"]).await;
    rig.write("a.yaml", &(service("a") + &service("b")));
    rig.expect(&["a", "b"]).await;
    fs::create_dir_all(rig.path("deep/er")).unwrap();
    rig.write("deep/er/c.yaml", &service("c"));
    rig.expect(&["a", "b", "c"]).await;
    fs::rename(rig.path("deep"), rig.path("moved")).unwrap();
    rig.write("moved/er/d.yaml", &service("d"));
    rig.expect(&["a", "b", "c", "d"]).await;
    fs::remove_file(rig.path("a.yaml")).unwrap();
    rig.expect(&["c", "d"]).await;
    fs::remove_dir_all(rig.path("moved")).unwrap();
    rig.expect(&[]).await;
    fs::create_dir(rig.path("moved")).unwrap();
    rig.write("moved/e.yaml", &service("e"));
    rig.expect(&["e"]).await;
}

#[tokio::test]
async fn a_file_saved_by_replacing_it_is_followed() {
    let mut rig = Rig::start(|folder| {
        fs::write(folder.join("a.yaml"), service("a")).unwrap();
        vec![folder.join("a.yaml")]
    })
    .await;
    rig.expect(&["a"]).await;
    rig.write("a.yaml.tmp", &service("b"));
    fs::rename(rig.path("a.yaml.tmp"), rig.path("a.yaml")).unwrap();
    rig.expect(&["b"]).await;
    fs::rename(rig.path("a.yaml"), rig.path("a.yaml~")).unwrap();
    rig.write("a.yaml", &service("c"));
    rig.expect(&["c"]).await;
}

#[tokio::test]
async fn a_swapped_volume_is_followed() {
    let volume = |root: &Path, version: &str, name: &str| {
        fs::create_dir_all(root.join(version)).unwrap();
        fs::write(root.join(version).join("a.yaml"), service(name)).unwrap();
    };
    let mut rig = Rig::start(|folder| {
        volume(folder, "..v1", "one");
        symlink("..v1", folder.join("..data")).unwrap();
        symlink("..data/a.yaml", folder.join("a.yaml")).unwrap();
        vec![folder.to_owned()]
    })
    .await;
    rig.expect(&["one"]).await;
    volume(rig.folder.path(), "..v2", "two");
    symlink("..v2", rig.path("..data_tmp")).unwrap();
    fs::rename(rig.path("..data_tmp"), rig.path("..data")).unwrap();
    fs::remove_dir_all(rig.path("..v1")).unwrap();
    rig.expect(&["two"]).await;
}

#[tokio::test]
async fn paths_may_come_later_and_change() {
    let mut rig = Rig::start(|folder| vec![folder.join("not/yet")]).await;
    rig.expect_finding("not/yet:1:1: error: it doesn't exist; it will be read when it does")
        .await;
    assert_eq!(
        rig.coverage,
        Some(Coverage::Partial),
        "nobody knows what would be there"
    );
    fs::create_dir_all(rig.path("not/yet")).unwrap();
    rig.write("not/yet/a.yaml", &service("a"));
    rig.expect(&["a"]).await;
    while rig.coverage != Some(Coverage::Whole) {
        rig.take().await;
    }
    fs::create_dir(rig.path("other")).unwrap();
    rig.write("other/b.yaml", &service("b"));
    let other = Arc::from([rig.path("other")]);
    rig.wanted.send_modify(|wanted| wanted.paths = other);
    rig.expect(&["b"]).await;
}

#[tokio::test]
async fn a_linked_file_is_followed_where_it_lies() {
    let elsewhere = tempfile::tempdir().unwrap();
    let real = elsewhere.path().join("real.yaml");
    fs::write(&real, service("a")).unwrap();
    let mut rig = Rig::start(|folder| {
        symlink(&real, folder.join("link.yaml")).unwrap();
        vec![folder.to_owned()]
    })
    .await;
    rig.expect(&["a"]).await;
    fs::write(&real, service("b")).unwrap();
    rig.expect(&["b"]).await;
}

#[tokio::test]
async fn bad_files_cost_nobody_else_and_are_told() {
    let mut rig = Rig::start(|folder| {
        fs::write(folder.join("a.yaml"), service("a")).unwrap();
        vec![folder.to_owned()]
    })
    .await;
    rig.expect(&["a"]).await;
    rig.write("bad.yaml", "kind: Service\n  oops: [\n");
    rig.expect_finding("bad.yaml:2:").await;
    // A file of 50 MB that takes no room on the disk.
    fs::File::create(rig.path("huge.yaml"))
        .unwrap()
        .set_len(50_000_000)
        .unwrap();
    rig.expect_finding("the file has 50000000 bytes, more than the 48000000")
        .await;
    fs::write(rig.path("latin.yaml"), b"# caf\xe9\n").unwrap();
    rig.expect_finding("it is no UTF-8 text (byte 5)").await;
    rig.write("a.yaml", "kind: [torn");
    rig.expect_finding("a.yaml:1:").await;
    rig.write("b.yaml", &service("b"));
    rig.expect(&["a", "b"]).await;
}

/// Objects of a second file arrive, so everything that was done before has been looked at.
async fn everything_is_seen(rig: &mut Rig, mark: &str, others: &[&str]) {
    rig.write(&format!("z-{mark}.yaml"), &service(mark));
    let mut all: Vec<&str> = others.iter().copied().chain([mark]).collect();
    all.sort_unstable();
    rig.expect(&all).await;
}

#[tokio::test]
async fn a_file_that_is_being_written_is_waited_for() {
    use std::io::Write as _;
    let mut rig = Rig::start(|folder| vec![folder.to_owned()]).await;
    rig.write("a.yaml", &(service("a") + &service("b")));
    rig.expect(&["a", "b"]).await;
    let mut file = fs::File::create(rig.path("a.yaml")).unwrap();
    file.write_all(service("a").as_bytes()).unwrap();
    everything_is_seen(&mut rig, "m", &["a", "b"]).await;
    file.write_all(service("c").as_bytes()).unwrap();
    drop(file);
    rig.expect(&["a", "c", "m"]).await;
}

#[tokio::test]
async fn a_file_that_became_empty_is_waited_for_until_it_stays_so() {
    let mut rig = Rig::start(|folder| vec![folder.to_owned()]).await;
    rig.write("a.yaml", &service("a"));
    rig.expect(&["a"]).await;
    rig.write("a.yaml", "");
    everything_is_seen(&mut rig, "m", &["a"]).await;
    rig.expect(&["m"]).await;
}

#[tokio::test]
async fn a_watched_folder_that_vanishes_keeps_what_it_held() {
    let mut rig = Rig::start(|folder| {
        for name in ["one", "two"] {
            fs::create_dir(folder.join(name)).unwrap();
            fs::write(folder.join(name).join(format!("{name}.yaml")), service(name)).unwrap();
        }
        vec![folder.join("one"), folder.join("two")]
    })
    .await;
    rig.expect(&["one", "two"]).await;
    fs::rename(rig.path("one"), rig.path("away")).unwrap();
    rig.expect_finding("the folder is gone; what it held stays in force")
        .await;
    rig.write("two/more.yaml", &service("more"));
    rig.expect(&["more", "one", "two"]).await;
    fs::rename(rig.path("away"), rig.path("one")).unwrap();
    fs::remove_file(rig.path("one/one.yaml")).unwrap();
    rig.expect(&["more", "two"]).await;
    // The configuration is the place to say that a folder is not meant any more.
    fs::rename(rig.path("two"), rig.path("away")).unwrap();
    let one = [rig.path("one")].into();
    rig.wanted.send_modify(|wanted| wanted.paths = one);
    rig.expect(&[]).await;
}

#[tokio::test]
async fn what_is_broken_before_the_start_counts_as_it_was_when_it_could_be_read() {
    let mut rig = Rig::start(|folder| {
        fs::write(folder.join("a.yaml"), service("a") + &service("b")).unwrap();
        fs::write(folder.join("c.yaml"), service("c")).unwrap();
        fs::write(folder.join("d.yaml"), service("d")).unwrap();
        vec![folder.to_owned()]
    })
    .await;
    rig.expect(&["a", "b", "c", "d"]).await;
    rig.expect_kept(&["a.yaml", "c.yaml", "d.yaml"]).await;
    let mut rig = rig
        .restart(|folder| {
            fs::write(
                folder.join("a.yaml"),
                service("b2") + "kind: Service\n\tmetadata: {name: a}\n",
            )
            .unwrap();
            fs::write(folder.join("c.yaml"), b"# caf\xe9\n").unwrap();
            fs::remove_file(folder.join("d.yaml")).unwrap();
        })
        .await;
    rig.expect(&["a", "b", "b2", "c"]).await;
    assert_eq!(rig.coverage, Some(Coverage::Whole), "all that was in force is");
    rig.expect_finding("a.yaml:").await;
    rig.expect_finding("c.yaml:1:1: error: it is no UTF-8 text").await;
    // Not by what it held when it was broken, and not by what is gone.
    let mut rig = rig.restart(|_| ()).await;
    rig.expect(&["a", "b", "b2", "c"]).await;
    rig.write("a.yaml", &service("a"));
    rig.expect(&["a", "c"]).await;
    fs::write(rig.path("c.yaml"), service("c")).unwrap();
    rig.expect_kept(&["a.yaml", "c.yaml"]).await;
    let mut rig = rig
        .restart(|folder| fs::write(folder.join("a.yaml"), "kind: [torn").unwrap())
        .await;
    rig.expect(&["a", "c"]).await;
}

#[tokio::test]
async fn a_file_that_is_renamed_while_it_is_broken_keeps_what_it_held() {
    let mut rig = Rig::start(|folder| {
        fs::write(folder.join("a.yaml"), service("a")).unwrap();
        vec![folder.to_owned()]
    })
    .await;
    rig.expect(&["a"]).await;
    rig.expect_kept(&["a.yaml"]).await;
    rig.write("a.yaml", "kind: [torn");
    rig.expect_finding("a.yaml:1:").await;
    fs::rename(rig.path("a.yaml"), rig.path("b.yaml")).unwrap();
    rig.expect_finding("b.yaml:1:").await;
    everything_is_seen(&mut rig, "m", &["a"]).await;
    let mut rig = rig.restart(|_| ()).await;
    rig.expect(&["a", "m"]).await;
}

#[test]
fn what_moves_from_a_file_to_another_is_never_gone() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let roots = [folder.path().to_owned()];
    let waiting = Waits {
        removals: RemovalWait::Open,
        busy: [folder.path().join("b.yaml")].into(),
        ..Waits::default()
    };
    write("a.yaml", &service("guard"));
    let reader = Reader::new(CopyStore::below_state(folder.path(), Before::Proxies));
    let (reader, look) = reader.look(&roots, &Waits::default());
    assert_eq!(look.changes.len(), 1);
    // A checkout removes it here, is looked at, and brings it there.
    write("a.yaml", &service("other"));
    let (reader, look) = reader.look(&roots, &waiting);
    assert!(look.changes.is_empty(), "{:?}", look.changes);
    write("z.yaml", &service("guard"));
    let (reader, look) = reader.look(&roots, &waiting);
    assert!(matches!(&look.changes[..], [Change::Put(_)]), "{:?}", look.changes);
    write("z.yaml", "# none\n");
    let (reader, look) = reader.look(&roots, &waiting);
    assert!(look.changes.is_empty(), "{:?}", look.changes);
    let (_, look) = reader.look(&roots, &Waits::default());
    assert!(matches!(&look.changes[..], [Change::Remove(_)]), "{:?}", look.changes);
}

#[tokio::test]
async fn a_mended_file_is_not_warned_of() {
    let mut rig = Rig::start(|folder| {
        fs::write(folder.join("a.yaml"), service("a").replace("kind: Service\n", "")).unwrap();
        fs::write(folder.join("g.yaml"), gateway(80)).unwrap();
        vec![folder.to_owned()]
    })
    .await;
    rig.expect_finding("the field `kind` is missing").await;
    // Both are judged by then, though of the first nothing is told beside our own words.
    rig.expect_finding("an API server would refuse this").await;
    rig.write("a.yaml", &service("a"));
    rig.expect(&["a", "g"]).await;
    let seen = rig.findings.borrow_and_update().clone();
    assert!(
        !seen.iter().any(|finding| finding.to_string().contains("a.yaml")),
        "{seen:?}"
    );
}

#[tokio::test]
async fn what_stands_in_a_folder_that_is_not_there_yet_counts_as_it_was() {
    let mut rig = Rig::start(|folder| {
        for name in ["one", "two"] {
            fs::create_dir(folder.join(name)).unwrap();
            fs::write(folder.join(name).join(format!("{name}.yaml")), service(name)).unwrap();
        }
        vec![folder.join("one"), folder.join("two")]
    })
    .await;
    rig.expect(&["one", "two"]).await;
    rig.expect_kept(&["one/one.yaml", "two/two.yaml"]).await;
    let mut rig = rig
        .restart(|folder| {
            fs::rename(folder.join("one"), folder.join("away")).unwrap();
            fs::remove_file(folder.join("two/two.yaml")).unwrap();
        })
        .await;
    rig.expect_finding("the folder is gone; what it held stays in force")
        .await;
    rig.expect(&["one"]).await;
    rig.write("away/more.yaml", &service("more"));
    fs::rename(rig.path("away"), rig.path("one")).unwrap();
    rig.expect(&["more", "one"]).await;
}

#[tokio::test]
async fn an_empty_folder_of_another_device_is_taken_for_one_that_is_not_mounted() {
    let mut rig = Rig::start(|folder| {
        fs::write(folder.join("a.yaml"), service("a")).unwrap();
        vec![folder.to_owned()]
    })
    .await;
    rig.expect(&["a"]).await;
    rig.expect_kept(&["a.yaml"]).await;
    let kept = rig.kept();
    let mut rig = rig
        .restart(|folder| {
            fs::remove_file(folder.join("a.yaml")).unwrap();
            kept.note_mount(folder, &u64::MAX.to_string()).unwrap();
        })
        .await;
    rig.expect_finding("it is on another device or mount than before").await;
    rig.expect(&["a"]).await;
    rig.write("none.yaml", "# Nothing is to be here.\n");
    rig.expect(&[]).await;
}

#[test]
fn a_file_that_cannot_be_kept_holds_up_no_other() {
    let folder = tempfile::tempdir().unwrap();
    // With what stands behind a name while it is written, this is longer than a name may be.
    let long = format!("a{}.yaml", "a".repeat(248));
    for (name, service_name) in [(&*long, "a"), ("z.yaml", "z")] {
        fs::write(folder.path().join(name), service(service_name)).unwrap();
    }
    let kept = CopyStore::below_state(folder.path(), Before::Proxies);
    let (reader, _) = Reader::new(kept.clone()).look(&[folder.path().to_owned()], &Waits::default());
    let _ = reader.keep();
    assert_eq!(kept.below(folder.path()), [folder.path().join("z.yaml")]);
}

#[tokio::test]
async fn what_was_emptied_before_the_start_is_waited_for() {
    let mut rig = Rig::start(|folder| {
        fs::write(folder.join("a.yaml"), service("a")).unwrap();
        fs::write(folder.join("b.yaml"), service("b")).unwrap();
        vec![folder.join("a.yaml"), folder.to_owned()]
    })
    .await;
    rig.expect(&["a", "b"]).await;
    rig.expect_kept(&["a.yaml", "b.yaml"]).await;
    let mut rig = rig
        .restart(|folder| fs::write(folder.join("a.yaml"), "").unwrap())
        .await;
    assert!(rig.known.iter().map(String::as_str).eq(["a", "b"]), "{:?}", rig.known);
    rig.expect(&["b"]).await;
}

#[tokio::test]
async fn what_comes_into_a_folder_behind_a_link_is_read() {
    let mut rig = Rig::start(|folder| {
        for name in ["outside", "inside", "release"] {
            fs::create_dir(folder.join(name)).unwrap();
        }
        symlink("../outside", folder.join("inside/link")).unwrap();
        symlink("release", folder.join("current")).unwrap();
        vec![folder.join("inside"), folder.join("current")]
    })
    .await;
    rig.expect(&[]).await;
    rig.write("outside/one.yaml", &service("one"));
    rig.expect(&["one"]).await;
    fs::create_dir(rig.path("outside/sub")).unwrap();
    rig.write("outside/sub/two.yaml", &service("two"));
    rig.expect(&["one", "two"]).await;
    rig.write("release/three.yaml", &service("three"));
    rig.expect(&["one", "three", "two"]).await;
    fs::remove_file(rig.path("outside/one.yaml")).unwrap();
    rig.expect(&["three", "two"]).await;
}

#[tokio::test]
async fn a_watched_folder_behind_a_link_that_vanishes_keeps_what_it_held() {
    let mut rig = Rig::start(|folder| {
        fs::create_dir(folder.join("release")).unwrap();
        fs::write(folder.join("release/one.yaml"), service("one")).unwrap();
        symlink("release", folder.join("current")).unwrap();
        vec![folder.join("current")]
    })
    .await;
    rig.expect(&["one"]).await;
    fs::rename(rig.path("release"), rig.path("away")).unwrap();
    rig.expect_finding("the folder is gone; what it held stays in force")
        .await;
    rig.write("away/two.yaml", &service("two"));
    fs::rename(rig.path("away"), rig.path("release")).unwrap();
    rig.expect(&["one", "two"]).await;
}

#[test]
fn what_could_not_be_read_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    // Reading the beginning of one's own memory is an error of the device.
    symlink("/proc/self/mem", folder.path().join("a.yaml")).unwrap();
    let roots = [folder.path().to_owned()];
    let (reader, look) =
        Reader::new(CopyStore::below_state(folder.path(), Before::Proxies)).look(&roots, &Waits::default());
    assert!(
        look.findings[0].message.contains("it can't be read"),
        "{:?}",
        look.findings
    );
    assert!(look.is_partial && reader.read.is_empty());
}

/// One with a listener twice.
fn gateway(port: u16) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: g}}\nspec:\n  gatewayClassName: c\n  \
         listeners: [{{name: http, protocol: HTTP, port: {port}}}, {{name: http, protocol: HTTP, port: 81}}]\n"
    )
}

#[tokio::test]
async fn what_an_api_server_would_refuse_is_told_until_it_is_mended() {
    let mut rig = Rig::start(|folder| {
        fs::write(folder.join("g.yaml"), gateway(80)).unwrap();
        vec![folder.to_owned()]
    })
    .await;
    rig.expect_finding(
        "g.yaml:6:55: warning: Gateway g: an API server would refuse this: spec.listeners[1]: Duplicate value",
    )
    .await;
    rig.write(
        "g.yaml",
        &gateway(80).replace("{name: http, protocol: HTTP, port: 81}", ""),
    );
    let waited = time::timeout(Duration::from_secs(10), rig.findings.wait_for(|found| found.is_empty())).await;
    assert!(waited.is_ok_and(|found| found.is_ok()), "it is told for ever");
}
