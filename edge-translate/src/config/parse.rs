//! From the text of the configuration file to settings, or to everything that is wrong with it.

use std::cell::RefCell;

use serde::Deserialize;

use crate::config::EdgeGateway;
use crate::config::check::check;
use crate::config::provider::{CustomProvider, ProviderType};
use crate::load::de::{Reader, Unknown, What};
use crate::load::node::{Data, Node};
use crate::load::{Fault, Limits, LoadFinding, Severity, Source, checked_split, place, read_chunk};

/// Reads and checks the configuration file; an empty one gives the defaults.
pub fn parse(source: &Source<'_>) -> Result<EdgeGateway, Vec<LoadFinding>> {
    parse_and_judge(source, |_| Vec::new()).map(|(config, _)| config)
}

/// Says of a configuration which of its fields, named by path, its reader has remarks about.
pub type Remarks = fn(&EdgeGateway) -> Vec<(&'static str, &'static str)>;

/// The same, with what whoever runs by it has to remark, each with its place.
pub fn parse_and_judge(
    source: &Source<'_>,
    remarks: Remarks,
) -> Result<(EdgeGateway, Vec<LoadFinding>), Vec<LoadFinding>> {
    let limits = Limits {
        bytes: 1_000_000,
        ..Limits::default()
    };
    let chunks = checked_split(source, &limits).map_err(|finding| vec![*finding])?;
    if let Some(another) = chunks.get(1) {
        return Err(vec![more_documents(source, another.line)]);
    }
    let Some(chunk) = chunks.first() else {
        return Ok(Default::default());
    };
    let finding = |fault: Fault| place(source, chunk, fault, Severity::Error);
    let roots = read_chunk(source, chunk, &limits).map_err(|fault| vec![finding(fault)])?;
    let Some(root) = roots.first() else {
        return Ok(Default::default());
    };
    let config = read(root).map_err(|faults| faults.into_iter().map(finding).collect::<Vec<_>>())?;
    let remark = |(path, message): (&str, &str)| {
        let fault = fault_at(root, path, &format!("{path}: {message}"));
        place(source, chunk, fault, Severity::Warning)
    };
    let remarks = remarks(&config).into_iter().map(remark).collect();
    Ok((config, remarks))
}

fn more_documents(source: &Source<'_>, line: usize) -> LoadFinding {
    LoadFinding {
        severity: Severity::Error,
        file: source.name.into(),
        line,
        column: 1,
        object: None,
        message: "a configuration file is one document of kind EdgeGateway, and here another one begins: resources belong into \
                  other files"
            .into(),
    }
}

fn read(root: &Node<'_>) -> Result<EdgeGateway, Vec<Fault>> {
    for (field, wanted) in [("apiVersion", "gateway.edge/v1alpha1"), ("kind", "EdgeGateway")] {
        let node = root.get(field);
        if node.and_then(Node::text) != Some(wanted) {
            let message = format!("{field} must be {wanted}: this is not a configuration file of Edge Gateway");
            return Err(vec![Fault::new(node.unwrap_or(root).at, message)]);
        }
    }
    let odd = RefCell::new(Vec::new());
    let mut config = EdgeGateway::deserialize(Reader::new(root, &odd)).map_err(|error| {
        let (at, path) = error.place.unwrap_or((root.at, String::new()));
        let message = if path.is_empty() {
            error.message
        } else {
            format!("{path}: {}", error.message)
        };
        vec![Fault::new(at, message)]
    })?;
    let mut faults = Vec::new();
    for odd in odd.into_inner() {
        faults.extend(match odd.what {
            What::Unknown(Unknown { meant, .. }) => {
                unknown(&odd.path, meant).map(|message| Fault::new(odd.at, message))
            }
            // A configuration file has no such fields: what is not honoured there is refused.
            What::Unsupported(_) => None,
            What::Unquoted => Some(Fault::new(
                odd.at,
                format!("{}: this must be text: put it in quotes", odd.path),
            )),
        });
    }
    move_infrastructure(&mut config, &mut |message| {
        faults.push(fault_at(root, "infrastructure", message))
    });
    check(&config, &mut |path, message| faults.push(fault_at(root, path, message)));
    if faults.is_empty() { Ok(config) } else { Err(faults) }
}

/// Why a field is not known; metadata, as resources have them, are fine.
fn unknown(path: &str, meant: Option<&str>) -> Option<String> {
    match path {
        "metadata" => None,
        "spec" => Some("spec: EdgeGateway has no spec: move its fields to the top".to_owned()),
        _ => Some(match meant {
            Some(meant) => format!("{path}: EdgeGateway has no such field: did you mean `{meant}`?"),
            None => format!("{path}: EdgeGateway has no such field: check the spelling and the indentation"),
        }),
    }
}

/// A top-level `infrastructure` means `provider.custom.infrastructure`.
fn move_infrastructure(config: &mut EdgeGateway, fault: &mut dyn FnMut(&str)) {
    let Some(infrastructure) = config.infrastructure.take() else {
        return;
    };
    if config.provider.r#type != ProviderType::Custom {
        return fault("infrastructure: this needs provider.type Custom: remove one of them");
    }
    let custom = config
        .provider
        .custom
        .get_or_insert_with(|| Box::new(CustomProvider::default()));
    match custom.infrastructure {
        Some(_) => fault("infrastructure: provider.custom.infrastructure says it already: keep one of them"),
        None => custom.infrastructure = Some(infrastructure),
    }
}

/// A fault at the deepest part of a path that was written.
fn fault_at(root: &Node<'_>, path: &str, message: &str) -> Fault {
    let mut node = root;
    for step in path.split('.').filter(|step| !step.is_empty()) {
        let inner = match (&node.data, step.parse::<usize>()) {
            (Data::Seq(items), Ok(index)) => items.get(index),
            _ => node.get(step),
        };
        match inner {
            Some(inner) => node = inner,
            None => break,
        }
    }
    Fault::new(node.at, message)
}
