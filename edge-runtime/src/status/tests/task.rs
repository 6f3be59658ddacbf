//! The task that writes the document.

use super::*;

/// The task at work, and what it hears from.
struct AtWork {
    folder: tempfile::TempDir,
    ledger: Arc<Ledger>,
    requests: mpsc::Sender<DocumentRequest>,
    rejections: watch::Sender<Rejections>,
    leaving: StopSource,
    metrics: Arc<Metrics>,
    task: Task,
    _others: Others,
}

/// Those that say nothing more, but are there.
type Others = (
    watch::Sender<Option<Arc<Published>>>,
    watch::Sender<Option<Reports>>,
    watch::Sender<Deliveries>,
    watch::Sender<Findings>,
);

impl AtWork {
    fn start(folder: tempfile::TempDir) -> Self {
        let (asked, requests) = mpsc::channel(4);
        let ledger = Arc::new(Ledger::default());
        let (fleets, published) = watch::channel(None);
        let (running, reports) = watch::channel(None);
        let (rejections, rejected) = watch::channel(Rejections::new());
        let (served, deliveries) = watch::channel(Deliveries::new());
        let (found, findings) = watch::channel(Findings::default());
        found.send_replace(Arc::new(vec![finding()]));
        let (leaving, is_leaving) = StopSource::new();
        let sources = Sources {
            ledger: Arc::clone(&ledger),
            requests,
            published,
            reports,
            rejections: rejected,
            deliveries,
            findings,
        };
        let metrics = Arc::new(Metrics::default());
        let (file, measured) = (folder.path().join("state/status.yaml"), Arc::clone(&metrics));
        Self {
            folder,
            ledger,
            requests: asked,
            rejections,
            leaving,
            metrics,
            task: Task::spawn("status", |stop| {
                run(
                    sources,
                    file,
                    measured,
                    End {
                        leaving: is_leaving,
                        stop,
                    },
                )
            }),
            _others: (fleets, running, served, found),
        }
    }

    async fn counted(&self, counter: Counter) {
        let counting = async {
            while self.metrics.counted(counter) == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), counting).await.unwrap();
    }

    /// What the page says.
    async fn page(&self) -> Value {
        let (sender, answer) = oneshot::channel();
        self.requests.send(sender).await.unwrap();
        answer.await.unwrap()
    }

    fn file(&self) -> Value {
        let text = fs::read_to_string(self.folder.path().join("state/status.yaml")).unwrap();
        serde_yaml::from_str(&text).unwrap()
    }
}

fn finding() -> LoadFinding {
    LoadFinding {
        severity: Severity::Error,
        file: "a.yaml".into(),
        line: 2,
        column: 7,
        object: None,
        message: "it is torn".into(),
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_told_and_tried_again_whether_or_not_more_happens() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("state"), "in the way").unwrap();
    let at_work = AtWork::start(folder);
    at_work.ledger.put(vec![gateway()]);
    at_work.counted(Counter::StatusFailures).await;
    let page = at_work.page().await;
    assert_eq!(page["resources"][0]["name"], "gw", "the page has it all the same");
    fs::remove_file(at_work.folder.path().join("state")).unwrap();
    at_work.counted(Counter::StatusUpdates).await;
    let document = at_work.file();
    assert_eq!(document["findings"][0]["column"], 7);
    assert_eq!(document["resources"][0]["status"]["conditions"][0]["type"], "Accepted");
    at_work.task.stop(Duration::from_secs(5)).await;
}

/// Its proxies end with the controller, and with them goes what they said.
#[tokio::test]
async fn what_was_rejected_is_not_said_to_be_all_right_when_the_controller_stops() {
    let at_work = AtWork::start(tempfile::tempdir().unwrap());
    at_work.ledger.put(vec![gateway()]);
    let listener =
        |document: &Value| conditions(&document["resources"][0]["status"]["listeners"][0]["conditions"])[0].clone();
    at_work.rejections.send_replace(rejections());
    while !listener(&at_work.page().await).starts_with("Programmed=False/Invalid") {}
    at_work.leaving.stop();
    at_work.rejections.send_replace(Rejections::new());
    at_work.ledger.put(Vec::new());
    at_work.task.stop(Duration::from_secs(5)).await;
    let text = fs::read_to_string(at_work.folder.path().join("state/status.yaml")).unwrap();
    let said = listener(&serde_yaml::from_str(&text).unwrap());
    assert!(said.starts_with("Programmed=False/Invalid"), "{said}");
}
