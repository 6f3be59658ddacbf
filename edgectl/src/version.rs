//! `edgectl version`.

use crate::cli::OutputFormat;
use anyhow::Result;
use serde::Serialize;
use std::io::{self, Write};

/// How to print versions.
#[derive(Clone, Debug, clap::Args)]
pub struct VersionArgs {
    /// Format of the output.
    #[arg(short, long, value_enum, default_value = "yaml")]
    pub output: OutputFormat,
}

/// What runs where. Servers are listed once there is a way to ask them.
#[derive(Debug, Serialize)]
struct Versions {
    client: Component,
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

/// The release of Gateway API whose kinds and conditions we follow.
const GATEWAY_API_VERSION: &str = "v1.7.0";

/// Prints the versions.
pub fn run(args: &VersionArgs) -> Result<()> {
    let versions = Versions {
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
