//! What a configuration file means.

use super::*;
use crate::task::Task;
use std::time::Duration;
use tokio::sync::mpsc;

const STANDALONE: &str = "apiVersion: gateway.edge/v1alpha1
kind: EdgeGateway
provider:
  type: Custom
  custom:
    resource: { type: File, file: { paths: [./gateway.d, /etc/more.yaml] } }
    infrastructure:
      type: Host
      host: { configHome: home, stateHome: state, runtimeDir: run, proxyBinary: bin/envoy }
extensionApis: { enableBackend: true }
";

fn write(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("edge-gateway.yaml");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn paths_are_taken_from_the_folder_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), STANDALONE);
    let config = read(Some(&path), &Overrides::default()).unwrap();
    assert_eq!(
        *config.paths,
        [folder.path().join("gateway.d"), "/etc/more.yaml".into()]
    );
    assert_eq!(config.folders.state_home, folder.path().join("state"));
    assert_eq!(
        config.proxies,
        Proxies::Processes(Some(folder.path().join("bin/envoy")))
    );
    assert_eq!(config.admin, "127.0.0.1:19000".parse().unwrap());
    assert_eq!(config.backend_api, Feature::Enabled);
    let overrides = Overrides {
        proxy_binary: Some("/opt/envoy".into()),
    };
    let config = read(Some(&path), &overrides).unwrap();
    assert_eq!(config.proxies, Proxies::Processes(Some("/opt/envoy".into())));
}

#[test]
fn what_cannot_be_used_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let error = |text: &str| {
        read(Some(&write(folder.path(), text)), &Overrides::default())
            .unwrap_err()
            .to_string()
    };
    let typo = error(&STANDALONE.replace("extensionApis", "extensionApi"));
    assert!(
        typo.contains("edge-gateway.yaml:10:") && typo.contains("extensionApi"),
        "{typo}"
    );
    let cluster = error("apiVersion: gateway.edge/v1alpha1\nkind: EdgeGateway\n");
    assert!(
        cluster.contains("provider.type: this build has standalone mode only"),
        "{cluster}"
    );
    let missing = read(Some(&folder.path().join("none")), &Overrides::default())
        .unwrap_err()
        .to_string();
    assert!(
        missing.contains("none: it doesn't exist; --config-path must name"),
        "{missing}"
    );
    let host = error(&STANDALONE.replace(
        "extensionApis:",
        "admin: { address: { host: 'no such host' } }\nextensionApis:",
    ));
    assert!(
        host.contains("admin.address.host: `no such host` is no address"),
        "{host}"
    );
}

#[test]
fn parts_that_standalone_mode_lacks_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "{STANDALONE}admin: {{ enablePprof: true }}\nxdsServer: {{ maxConnectionAge: 5m, maxReceiveMessageSize: 8Mi }}\n"
    );
    let config = read(Some(&write(folder.path(), &text)), &Overrides::default()).unwrap();
    assert_eq!(
        config.ignored,
        ["admin.enablePprof: this build has no profiling pages; the field is ignored"]
    );
    assert_eq!(config.xds.connection_age, Some(Duration::from_secs(300)));
    assert_eq!(config.xds.message_size, 8 << 20);
}

#[tokio::test]
async fn a_valid_change_is_sent_and_an_invalid_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), STANDALONE);
    let current = read(Some(&path), &Overrides::default()).unwrap();
    let (sender, mut changes) = mpsc::channel(4);
    let file = path.clone();
    let _task = Task::spawn("follow", |stop| {
        follow(file, Overrides::default(), current, sender, stop)
    });
    write(folder.path(), "kind: [broken");
    write(folder.path(), &STANDALONE.replace("gateway.d", "other.d"));
    let config = tokio::time::timeout(Duration::from_secs(10), changes.recv())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(config.paths[0], folder.path().join("other.d"));
}
