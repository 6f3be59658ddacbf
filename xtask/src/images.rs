//! What the recipes of images name exists.

use crate::workspace;
use std::fs;

/// Image and the package and program in it.
const IMAGES: [(&str, &str, &str); 2] = [
    ("controller", "edge-runtime", "edgegateway"),
    ("proxy", "edge-proxy", "edge-proxy"),
];

fn recipe(name: &str) -> String {
    fs::read_to_string(workspace::root().unwrap().join(format!("images/{name}.Dockerfile"))).unwrap()
}

#[test]
fn packages_and_programs_exist() {
    let metadata = workspace::metadata().unwrap();
    for (image, package, program) in IMAGES {
        let text = recipe(image);
        let build = format!("cargo build --profile dist --locked -p {package} --bin {program} ");
        assert!(text.contains(&build), "{image}: {text}");
        let packages = metadata["packages"].as_array().unwrap();
        let found = packages.iter().find(|found| found["name"] == package).unwrap();
        let targets = found["targets"].as_array().unwrap();
        let is_program = |target: &&serde_json::Value| target["name"] == program && target["kind"][0] == "bin";
        assert!(targets.iter().any(|target| is_program(&target)), "{image}");
    }
}

#[test]
fn stages_are_there_before_they_are_copied_from() {
    for (image, _, program) in IMAGES {
        let text = recipe(image);
        let mut stages = Vec::new();
        let mut copied = Vec::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["FROM", _, "AS", stage] => stages.push((*stage).to_owned()),
                ["COPY", from, .., source, target] if from.starts_with("--from=") => {
                    let stage = from.trim_start_matches("--from=");
                    assert!(stages.iter().any(|known| known == stage), "{image}: {line}");
                    copied.push(((*source).to_owned(), (*target).to_owned()));
                }
                _ => {}
            }
        }
        let path = format!("/usr/local/bin/{program}");
        assert!(
            copied.contains(&(format!("/out/{program}"), path.clone())),
            "{image}: {copied:?}"
        );
        for (source, _) in &copied {
            let made = text.contains(&format!("cp target/dist/{program} {source} "))
                || text.contains(&format!("cp target/dist/{program} {source}\n"))
                || text.contains(&format!("mkdir -p {source} "));
            assert!(made, "{image}: nothing makes {source}");
        }
        assert!(
            text.ends_with(&format!("USER 65532:65532\nENTRYPOINT [\"{path}\"]\n")),
            "{image}"
        );
    }
}

#[test]
fn the_compiler_is_ours() {
    let toolchain = fs::read_to_string(workspace::root().unwrap().join("rust-toolchain.toml")).unwrap();
    let channel = toolchain.split('"').nth(1).unwrap();
    for (image, ..) in IMAGES {
        let text = recipe(image);
        assert!(
            text.contains(&format!("FROM rust:{channel}-alpine AS build\n")),
            "{image}: {channel}"
        );
        assert!(
            text.contains(&format!("RUSTUP_TOOLCHAIN={channel}\n")),
            "{image}: {channel}"
        );
    }
}

/// The chart and `edgectl` ask for these names.
#[test]
fn the_chart_runs_these_images() {
    let values = fs::read_to_string(workspace::root().unwrap().join("charts/gateway-helm/values.yaml")).unwrap();
    for (image, _, program) in IMAGES {
        let tag = recipe(image)
            .lines()
            .nth(1)
            .unwrap()
            .split(" -t ")
            .nth(1)
            .unwrap()
            .split(' ')
            .next()
            .unwrap()
            .to_owned();
        assert!(tag.starts_with(&format!("edge-gateway/{program}:")), "{image}: {tag}");
        assert!(values.contains(&format!("image: {tag}\n")), "{image}: {tag}");
    }
}
