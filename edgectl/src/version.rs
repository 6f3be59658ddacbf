//! `edgectl version`.

use crate::{
    cli::OutputFormat,
    cluster::{
        Connection, client,
        pods::{self, CONTROLLERS, Which},
    },
};
use anyhow::{Context, Result};
use edge_translate::api::GATEWAY_API_VERSION;
use serde::Serialize;
use serde_json::{Map, Value};
use std::io::{self, Write};

/// How to print versions.
#[derive(Clone, Debug, clap::Args)]
pub struct VersionArgs {
    /// Format of the output.
    #[arg(short, long, value_enum, default_value = "yaml")]
    pub output: OutputFormat,
    /// Asks the controllers of the cluster too.
    #[arg(short, long, action = clap::ArgAction::Set, num_args = 0..=1, default_value_t = true, default_missing_value = "true")]
    pub remote: bool,
    /// Which cluster.
    #[command(flatten)]
    pub connection: Connection,
}

/// What runs where.
#[derive(Debug, Serialize)]
struct Versions {
    client: Component,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    server: Vec<Value>,
}

/// Versions of one program.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Component {
    edge_gateway_version: &'static str,
    #[serde(rename = "gatewayAPIVersion")]
    gateway_api_version: &'static str,
    #[serde(rename = "gitCommitID")]
    git_commit_id: &'static str,
}

/// Prints the versions.
pub fn run(args: &VersionArgs) -> Result<()> {
    let server = if args.remote { servers(args) } else { Ok(Vec::new()) };
    let server = server.unwrap_or_else(|problem| {
        // Ours is known all the same. Standard error may be closed; there is nobody left to tell then.
        let _ = writeln!(
            io::stderr(),
            "warning: no controller could be asked (--remote=false asks none): {problem:#}"
        );
        Vec::new()
    });
    let versions = Versions {
        server,
        client: Component {
            edge_gateway_version: concat!("v", env!("CARGO_PKG_VERSION")),
            gateway_api_version: GATEWAY_API_VERSION,
            // Set by who builds a release; a build from a working tree has no single commit.
            git_commit_id: option_env!("EDGE_GATEWAY_COMMIT").unwrap_or("unknown"),
        },
    };
    let text = match args.output {
        OutputFormat::Yaml => serde_yaml::to_string(&versions)?,
        OutputFormat::Json => serde_json::to_string_pretty(&versions)? + "\n",
    };
    Ok(io::stdout().write_all(text.as_bytes())?)
}

/// What every controller of the cluster says about itself.
fn servers(args: &VersionArgs) -> Result<Vec<Value>> {
    client::block_on(async {
        let client = args.connection.client().await?;
        let mut servers = Vec::new();
        let which = Which::Labelled(CONTROLLERS);
        let found = pods::find(&client, None, which).await?;
        for (pod, body) in pods::pages(&client, which, found, "/api/info").await? {
            let info: Value = serde_json::from_slice(&body).context("its answer is not JSON")?;
            servers.push(server(&pod.namespace, &pod.name, &info));
        }
        Ok(servers)
    })
}

fn server(namespace: &str, name: &str, info: &Value) -> Value {
    let mut server = Map::new();
    server.insert("Namespace".to_owned(), namespace.into());
    server.insert("Name".to_owned(), name.into());
    for field in [
        "edgeGatewayVersion",
        "gatewayAPIVersion",
        "edgeProxyVersion",
        "gitCommitID",
    ] {
        if let Some(value) = info.get(field) {
            server.insert(field.to_owned(), value.clone());
        }
    }
    Value::Object(server)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_server_is_told_by_its_place_and_versions() {
        let info = json!({"edgeGatewayVersion": "v1", "gitCommitID": "c", "uptimeSeconds": 5});
        assert_eq!(
            server("ns", "pod", &info),
            json!({"Namespace": "ns", "Name": "pod", "edgeGatewayVersion": "v1", "gitCommitID": "c"})
        );
    }
}
