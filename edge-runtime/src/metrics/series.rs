//! The list of series: name, labels, meaning. Variants of one name stand together.

macro_rules! series {
    ($(#[$doc:meta])* $kind:ident { $($(#[$item:meta])* $variant:ident = ($name:literal, $labels:literal, $help:literal);)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $kind {
            $($(#[$item])* $variant,)+
        }

        impl $kind {
            /// Every series of this sort, in the order of the page.
            pub(super) const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Name, labels and meaning.
            pub(super) fn series(self) -> (&'static str, &'static str, &'static str) {
                match self {
                    $(Self::$variant => ($name, $labels, $help),)+
                }
            }
        }
    };
}

series! {
    /// Series that only grow.
    Counter {
        /// Batches of changes taken from providers.
        ChangeBatches = ("watchable_subscribe_total", "message=\"resources\"", "Batches taken from a queue between tasks.");
        /// Translations published.
        Publications = ("watchable_publish_total", "message=\"translation\"", "States published between tasks.");
        /// Tasks that failed and were started again.
        TaskFailures = ("watchable_panics_recovered_total", "runner=\"task\"", "Tasks and units of work that failed and were recovered.");
        /// Units of translation that panicked.
        TranslationPanics = ("watchable_panics_recovered_total", "runner=\"gateway-api\"", "Tasks and units of work that failed and were recovered.");
        /// Statuses that were laid over an object's.
        StatusUpdates = ("status_update_total", "status=\"success\"", "Statuses of objects written.");
        /// Status files that could not be written.
        StatusFailures = ("status_update_total", "status=\"failure\"", "Statuses of objects written.");
        /// Statuses that somebody else had written to meanwhile.
        StatusConflicts = ("status_update_total", "status=\"conflict\"", "Statuses of objects written.");
        /// Watches of the cluster that had to begin again.
        WatchRestarts = ("watch_restarts_total", "", "Watches of the cluster that failed and began again.");
        /// Pods that were told their zone.
        ZonesTold = ("topology_injector_events_total", "status=\"success\"", "Bindings of pods that the topology injector was asked about.");
        /// Pods that aren't ours, or whose node has no zone.
        ZonesUntold = ("topology_injector_events_total", "status=\"skipped\"", "Bindings of pods that the topology injector was asked about.");
        /// Pods whose zone couldn't be found out.
        ZonesUnknown = ("topology_injector_events_total", "status=\"failure\"", "Bindings of pods that the topology injector was asked about.");
        /// Answers of extension services that were taken.
        ExtensionCalls = ("extension_calls_total", "status=\"success\"", "Calls of extension services.");
        /// Calls of extension services that failed, or whose answer couldn't be used.
        ExtensionFailures = ("extension_calls_total", "status=\"failure\"", "Calls of extension services.");
        /// Fleets that appeared.
        SnapshotsCreated = ("xds_snapshot_create_total", "", "Fleets that got their first snapshot.");
        /// Snapshots that replaced another.
        SnapshotsUpdated = ("xds_snapshot_update_total", "", "Snapshots that replaced another one.");
        /// Rejected listeners.
        NackListener = ("xds_nack_total", "type=\"listener\"", "Responses that a proxy rejected.");
        /// Rejected route configurations.
        NackRoute = ("xds_nack_total", "type=\"route\"", "Responses that a proxy rejected.");
        /// Rejected clusters.
        NackCluster = ("xds_nack_total", "type=\"cluster\"", "Responses that a proxy rejected.");
        /// Rejected endpoints.
        NackEndpoint = ("xds_nack_total", "type=\"endpoint\"", "Responses that a proxy rejected.");
        /// Rejected secrets.
        NackSecret = ("xds_nack_total", "type=\"secret\"", "Responses that a proxy rejected.");
        /// Anything else that was rejected.
        NackOther = ("xds_nack_total", "type=\"other\"", "Responses that a proxy rejected.");
        /// Bytes of listeners in responses.
        SentListener = ("xds_sent_bytes_total", "type=\"listener\"", "Bytes of responses to proxies, as encoded.");
        /// Bytes of route configurations in responses.
        SentRoute = ("xds_sent_bytes_total", "type=\"route\"", "Bytes of responses to proxies, as encoded.");
        /// Bytes of clusters in responses.
        SentCluster = ("xds_sent_bytes_total", "type=\"cluster\"", "Bytes of responses to proxies, as encoded.");
        /// Bytes of endpoints in responses.
        SentEndpoint = ("xds_sent_bytes_total", "type=\"endpoint\"", "Bytes of responses to proxies, as encoded.");
        /// Bytes of secrets in responses.
        SentSecret = ("xds_sent_bytes_total", "type=\"secret\"", "Bytes of responses to proxies, as encoded.");
        /// Proxy processes that were started.
        ProxiesStarted = ("resource_apply_total", "kind=\"process\",status=\"success\"", "Infrastructure created or updated.");
        /// Proxy processes that could not be started.
        ProxiesFailed = ("resource_apply_total", "kind=\"process\",status=\"failure\"", "Infrastructure created or updated.");
        /// Proxy processes that were stopped because nobody needs them.
        ProxiesStopped = ("resource_delete_total", "kind=\"process\",status=\"success\"", "Infrastructure deleted.");
    }
}

series! {
    /// Series that go up and down.
    Gauge {
        /// Changes that wait for the world.
        ChangesWaiting = ("watchable_depth", "message=\"resources\"", "Entries waiting in a queue between tasks.");
        /// Statuses that wait to be written.
        StatusesWaiting = ("watchable_depth", "message=\"statuses\"", "Entries waiting in a queue between tasks.");
        /// Kinds, and namespaces of kinds, that can't be watched at the moment.
        WatchesFailing = ("watches_failing", "", "Watches of the cluster that fail; what they read before stays in force.");
        /// Whether this replica writes.
        Leading = ("leader", "", "Whether this replica is the leader.");
        /// Open xDS streams.
        Streams = ("xds_streams", "", "Open discovery streams.");
        /// Bugs of the translation that stand.
        TranslationFaults = ("translate_faults", "", "Units of translation that failed over their input and keep their last result.");
        /// What stands at its last good version, or isn't served, because an extension service fails over it.
        ExtensionHeld = ("extension_held", "", "Resources that are kept back because an extension service fails over them.");
        /// Fleets that are served.
        Fleets = ("xds_fleets", "", "Fleets that have a snapshot.");
    }
}

series! {
    /// Series of durations.
    Timer {
        /// Time that the world spent on a batch of changes.
        Batch = ("watchable_subscribe_duration_seconds", "message=\"resources\"", "Time to handle a batch.");
        /// Time to write the status file.
        StatusWrite = ("status_update_duration_seconds", "", "Time to write statuses.");
        /// Lifetime of streams.
        StreamLife = ("xds_stream_duration_seconds", "", "Lifetime of discovery streams.");
        /// From an event on the input to the proxies' acknowledgement.
        Propagation = ("xds_propagation_seconds", "", "Time from an input event to the acknowledgement of a proxy.");
        /// Time of a translation with its lowering.
        Translate = ("translate_duration_seconds", "", "Time to translate and lower a batch of changes.");
        /// From the start of a proxy process to its readiness.
        ProxyStart = ("resource_apply_duration_seconds", "kind=\"process\"", "Time until infrastructure was there.");
        /// Time that stopping a proxy process took.
        ProxyStop = ("resource_delete_duration_seconds", "kind=\"process\"", "Time until infrastructure was gone.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeMap, env, fs, path::Path};

    /// Name, sort, labels with all their values, and meaning of every series, as a table.
    fn table() -> String {
        let sorts = [
            ("counter", Counter::ALL.map(Counter::series).to_vec()),
            ("gauge", Gauge::ALL.map(Gauge::series).to_vec()),
            ("timer", Timer::ALL.map(Timer::series).to_vec()),
        ];
        let mut rows: BTreeMap<&str, (&str, Vec<&str>, &str)> = BTreeMap::new();
        for (sort, series) in &sorts {
            for (name, labels, help) in series {
                let row = rows.entry(name).or_insert((sort, Vec::new(), help));
                assert_eq!((row.0, row.2), (*sort, *help), "{name} means one thing");
                row.1.extend((!labels.is_empty()).then_some(*labels));
            }
        }
        let mut text = "| series | sort | labels | meaning |\n|---|---|---|---|\n".to_owned();
        for (name, (sort, labels, help)) in rows {
            let labels: Vec<String> = labels.iter().map(|labels| format!("`{labels}`")).collect();
            text.push_str(&format!("| `{name}` | {sort} | {} | {help} |\n", labels.join(", ")));
        }
        text
    }

    /// `EDGE_UPDATE=1` writes the table.
    #[test]
    fn every_series_is_documented() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
        let text = fs::read_to_string(&path).unwrap();
        let (before, rest) = text.split_once("<!-- series -->\n").unwrap();
        let (written, after) = rest.split_once("<!-- end:series -->").unwrap();
        if env::var_os("EDGE_UPDATE").is_some() {
            let text = format!("{before}<!-- series -->\n{}<!-- end:series -->{after}", table());
            fs::write(&path, text).unwrap();
        } else {
            assert_eq!(
                written,
                table(),
                "EDGE_UPDATE=1 cargo test -p edge-runtime --lib every_series writes it"
            );
        }
    }
}
