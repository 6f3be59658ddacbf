//! `edgectl x status`: conditions of objects as tables.
//!
//! [`kinds`] says which kinds have statuses, [`rows`] reads the conditions of an object, [`table`]
//! lays them out. Where the objects come from is a [`Source`]; the rest doesn't know.

use crate::cluster::{
    Connection, client,
    statuses::{self, KindQuery},
};
use anyhow::{Context, Result, bail};
use edge_translate::api::{Kind, Scope};
use serde_json::Value;
use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

pub mod kinds;
mod rows;
mod table;
#[cfg(test)]
mod tests;

use kinds::{Family, Selection};
use rows::rows;
use table::Table;

/// What to show, and how.
#[derive(Clone, Debug, clap::Args)]
pub struct StatusArgs {
    /// What to show: a kind, or `xRoute`, `xPolicy` or `all`.
    #[arg(value_name = "KIND", value_parser = kinds::select)]
    pub kind: Selection,
    /// The namespace.
    #[arg(short, long, default_value = "default", conflicts_with = "all_namespaces")]
    pub namespace: String,
    /// Every namespace.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Only the latest condition of each.
    #[arg(short, long)]
    pub quiet: bool,
    /// Also messages, generations, and when a condition turned last.
    #[arg(short, long)]
    pub verbose: bool,
    /// The document of statuses that a controller on this machine keeps in its stateHome.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"])]
    pub status_file: Option<PathBuf>,
    /// The cluster. Without --status-file it is asked if it is named here or by KUBECONFIG, or if no controller runs on
    /// this machine.
    #[command(flatten)]
    pub connection: Connection,
}

/// Where objects with their statuses come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The document that a controller on this machine keeps.
    File(PathBuf),
    /// A cluster.
    Cluster,
}

impl Source {
    fn of(args: &StatusArgs) -> Result<Self> {
        if let Some(path) = &args.status_file {
            return Ok(Self::File(path.clone()));
        }
        let is_named = args.connection.kubeconfig.is_some() || args.connection.context.is_some();
        if is_named || env::var_os("KUBECONFIG").is_some_and(|path| !path.is_empty()) {
            return Ok(Self::Cluster);
        }
        let home = env::home_dir().filter(|home| !home.as_os_str().is_empty());
        let home = home.context("there is no home folder; name the document with --status-file")?;
        let document = home.join(".local/state/edge-gateway/status.yaml");
        Ok(match !document.exists() && home.join(".kube/config").exists() {
            true => Self::Cluster,
            false => Self::File(document),
        })
    }

    /// All objects: maps with `kind`, `namespace`, `name` and `status`.
    fn objects(&self, args: &StatusArgs) -> Result<Vec<Value>> {
        match self {
            Self::File(path) => read(path),
            Self::Cluster => ask(args),
        }
    }
}

fn ask(args: &StatusArgs) -> Result<Vec<Value>> {
    let kinds = args.kind.kinds();
    let wanted: Vec<KindQuery<'_>> = kinds
        .map(|(kind, _)| KindQuery {
            group: kind.group(),
            kind: kind.as_str(),
            namespace: (is_namespaced(kind) && !args.all_namespaces).then_some(args.namespace.as_str()),
        })
        .collect();
    client::block_on(async { Box::pin(statuses::list(&args.connection.client().await?, &wanted)).await })
}

fn read(path: &Path) -> Result<Vec<Value>> {
    let shown = path.display();
    let text = fs::read_to_string(path).with_context(|| {
        format!("{shown}: can't be read; is a controller running? --status-file names its <stateHome>/status.yaml")
    })?;
    let mut document: Value = serde_yaml::from_str(&text).with_context(|| shown.to_string())?;
    match document["resources"].take() {
        Value::Array(objects) => Ok(objects),
        _ => bail!("{shown}: no document of statuses: it has no list `resources`"),
    }
}

/// Prints the tables.
pub fn run(args: &StatusArgs) -> Result<()> {
    let objects = Source::of(args)?.objects(args)?;
    Ok(io::stdout().write_all(render(args, &objects).as_bytes())?)
}

/// The tables as text.
fn render(args: &StatusArgs, objects: &[Value]) -> String {
    let is_one = matches!(args.kind, Selection::One(_));
    let mut tables = Vec::new();
    for (kind, family) in args.kind.kinds() {
        let mut table = Table::new(header(args, kind, family));
        for object in objects.iter().filter(|object| is_shown(args, kind, object)) {
            // An object with several rows is named by the first.
            let mut identity = identity(args, kind, object);
            for row in rows(family, object, args.quiet) {
                let blank = vec![String::new(); identity.len()];
                let mut cells = std::mem::replace(&mut identity, blank);
                // A listener is named in the column of its object, below that or behind it.
                if let Some(name) = cells.last_mut() {
                    name.push_str(&row.part);
                }
                cells.extend(statement(args, family, row));
                table.push(cells);
            }
        }
        // Of several kinds, those without anything to say are left out.
        if is_one || !table.is_empty() {
            tables.push(table.to_string());
        }
    }
    tables.join("\n")
}

fn is_namespaced(kind: Kind) -> bool {
    kind.scope() == Scope::Namespaced
}

fn is_shown(args: &StatusArgs, kind: Kind, object: &Value) -> bool {
    let in_namespace = args.all_namespaces || !is_namespaced(kind) || object["namespace"] == *args.namespace;
    object["kind"] == kind.as_str() && in_namespace
}

fn header(args: &StatusArgs, kind: Kind, family: Family) -> Vec<String> {
    let mut header = Vec::new();
    if args.all_namespaces && is_namespaced(kind) {
        header.push("NAMESPACE");
    }
    header.push("NAME");
    header.extend(family.reference_column());
    header.extend(["TYPE", "STATUS", "REASON"]);
    if args.verbose {
        header.extend(["MESSAGE", "OBSERVED GENERATION", "LAST TRANSITION TIME"]);
    }
    header.into_iter().map(str::to_owned).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The cells that say which object it is. Of several kinds, names come with theirs.
fn identity(args: &StatusArgs, kind: Kind, object: &Value) -> Vec<String> {
    let mut cells = Vec::new();
    if args.all_namespaces && is_namespaced(kind) {
        cells.push(text(&object["namespace"]));
    }
    let name = text(&object["name"]);
    cells.push(match args.kind {
        Selection::One(_) => name,
        Selection::Ending(_) => format!("{}/{name}", kind.as_str().to_lowercase()),
    });
    cells
}

/// The cells that say what is said of it.
fn statement(args: &StatusArgs, family: Family, row: rows::Row<'_>) -> Vec<String> {
    let mut cells = Vec::new();
    if family.reference_column().is_some() {
        cells.push(row.reference);
    }
    let condition = row.condition;
    cells.extend(["type", "status", "reason"].map(|field| text(&condition[field])));
    if args.verbose {
        cells.push(text(&condition["message"]));
        cells.push(condition["observedGeneration"].to_string());
        cells.push(text(&condition["lastTransitionTime"]));
    }
    cells
}
