//! What a failed test shows of the cluster: objects without the noise, and what containers have said last.

use super::Kind;
use serde_json::Value;
use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

/// Last lines of a container's log that are shown.
const LINES: usize = 60;

/// Kinds that tell what went on in a namespace.
pub(super) fn kinds() -> Vec<Kind> {
    let gateway_api = ["Gateway", "HTTPRoute"].map(Kind::gateway_api);
    let core = ["Service", "Pod", "Event"].map(Kind::core);
    let workloads = [("apps/v1", "Deployment"), ("apps/v1", "DaemonSet"), ("batch/v1", "Job")];
    gateway_api
        .into_iter()
        .chain([Kind::edge("EdgeProxy")])
        .chain(workloads.map(|(version, kind)| Kind::new(version, kind)))
        .chain(core)
        .collect()
}

/// An object in few lines: who it is, and what is known of it.
pub(super) fn brief(object: &Value) -> String {
    if object.is_null() {
        return "nothing\n".into();
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if object["kind"] == "Event" || !object["involvedObject"].is_null() {
        let about = &object["involvedObject"];
        return format!(
            "event: {} {}: {}: {}\n",
            text(&about["kind"]),
            text(&about["name"]),
            text(&object["reason"]),
            text(&object["message"])
        );
    }
    let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
    let status = serde_yaml::to_string(&object["status"]).unwrap_or_default();
    let mut lines = format!("--- {kind} {name}\n");
    for line in status.lines() {
        // Writing to a String can't fail.
        let _ = writeln!(lines, "    {line}");
    }
    lines
}

/// The ends of the logs of a namespace's containers.
pub(super) fn logs(lab: &Path, namespace: &str) -> String {
    let mut text = String::new();
    for (title, content) in whole_logs(lab, namespace) {
        // Writing to a String can't fail.
        let _ = writeln!(text, "--- log of {title}");
        let lines: Vec<&str> = content.lines().collect();
        for line in &lines[lines.len().saturating_sub(LINES)..] {
            let _ = writeln!(text, "    {line}");
        }
    }
    text
}

/// Every line with a text in the logs of a namespace's containers.
pub(super) fn lines_with(lab: &Path, namespace: &str, text: &str) -> Vec<String> {
    let logs = whole_logs(lab, namespace);
    let lines = logs.iter().flat_map(|(_, content)| content.lines());
    lines.filter(|line| line.contains(text)).map(str::to_owned).collect()
}

/// The logs of a namespace's containers: whose, and all of it.
fn whole_logs(lab: &Path, namespace: &str) -> Vec<(String, String)> {
    let mut logs = Vec::new();
    // <namespace>_<pod>_<uid>/<container>/<restarts>.log
    let prefix = format!("{namespace}_");
    for pod in entries(&lab.join("logs/pods")) {
        let name = file_name(&pod);
        if !name.starts_with(&prefix) {
            continue;
        }
        for container in entries(&pod) {
            for log in entries(&container) {
                let content = fs::read(&log).unwrap_or_default();
                let title = format!("{} in {name}, {}", file_name(&container), file_name(&log));
                logs.push((title, String::from_utf8_lossy(&content).into_owned()));
            }
        }
    }
    logs
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = all.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_is_shown_with_its_status_only() {
        let pod = json!({"kind": "Pod", "metadata": {"name": "a"}, "spec": {"x": 1}, "status": {"phase": "Running"}});
        assert_eq!(brief(&pod), "--- Pod a\n    phase: Running\n");
        let event = json!({"kind": "Event", "involvedObject": {"kind": "Pod", "name": "a"}, "reason": "Failed", "message": "no"});
        assert_eq!(brief(&event), "event: Pod a: Failed: no\n");
    }

    #[test]
    fn logs_are_those_of_the_namespace_and_searched_whole() {
        let lab = tempfile::tempdir().unwrap();
        let more = "more\n".repeat(LINES);
        for pod in ["ns_a_1", "other_b_2"] {
            let folder = lab.path().join("logs/pods").join(pod).join("main");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("0.log"), format!("first\n{more}said by {pod}\n")).unwrap();
        }
        let shown = logs(lab.path(), "ns");
        assert!(shown.contains("said by ns_a_1") && !shown.contains("other"), "{shown}");
        assert!(!shown.contains("first"), "{shown}");
        assert_eq!(lines_with(lab.path(), "ns", "first"), ["first"]);
    }
}
