//! What `edgegateway` answers besides serving.

use serde_json::Value;
use tokio::process::Command;

#[tokio::test]
async fn the_other_commands_answer_and_wrong_usage_is_2() {
    let home = tempfile::tempdir().unwrap();
    let run = async |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_edgegateway"));
        let output = command.args(args).env("HOME", home.path()).output().await.unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = run(&["version", "-o", "json"]).await;
    assert_eq!(code, 0);
    assert!(serde_json::from_str::<Value>(&text).unwrap()["edgeGatewayVersion"].is_string());
    let (code, text) = run(&["certgen", "--local"]).await;
    assert_eq!(
        (code, text.starts_with("certificates were made in")),
        (0, true),
        "{text}"
    );
    let (_, text) = run(&["certgen", "--local"]).await;
    assert!(text.contains("are complete and stay"), "{text}");
    assert!(
        home.path()
            .join(".config/edge-gateway/certs/edge-gateway/tls.key")
            .exists()
    );
    assert_eq!(run(&["certgen"]).await.0, 1);
    assert_eq!(run(&["server", "--nonsense"]).await.0, 2);
    assert_eq!(run(&["server", "--config-path", "missing.yaml"]).await.0, 1);
}
