//! Both proxies accept what we make: the xDS of every golden case, and of every further input that
//! `EDGE_ENVOY_INPUTS` names, becomes a static bootstrap for `envoy --mode validate`; that of the golden cases also one
//! for `edge-proxy --mode validate`, which names what it can't honour.
//!
//! What Envoy would fetch is put where it would ask: endpoints into their cluster, route tables into the connection
//! manager, secrets beside them. References between resources are checked here, because a static configuration would
//! be more lenient about some and stricter about others than a stream is.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop where it stands"
)]

use anyhow::{Context, Result, bail, ensure};
use e2e::{mmdb::Database, stack::program};
use edge_ir::{FleetKey, Patch, PatchProblem, pod_certificate};
use edge_translate::{Answers, Feature, Settings};
use edge_xds::{
    bootstrap::{
        BootstrapSettings, NodeIdentity, ProxyZone, certificate_file, default_bootstrap, token_file, trusted_ca_file,
    },
    json::{Codec, Names},
    lower::Lowering,
    snapshot::{ResourceType, Snapshot},
};
use edgectl::translate::{Options, input, translate};
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Clusters that are never defined: a share of requests that answers 500, connections that close.
const NOWHERE: [&str; 2] = ["invalid-backend-cluster", "EmptyCluster"];

#[test]
fn golden_cases_are_accepted() {
    let inputs = inputs_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden"));
    assert!(!inputs.is_empty());
    let failures = rejected(&envoy(), &inputs);
    assert!(failures.is_empty(), "{}", list(&failures, inputs.len()));
}

/// What edge-proxy can't honour it rejects, by name. A case of what stock Envoy alone can do says so before its first
/// object, as `# edge-proxy refuses: cookies`; all others our own proxy takes.
#[test]
fn golden_cases_are_accepted_by_edge_proxy_or_refused_by_name() {
    let inputs = inputs_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden"));
    assert!(!inputs.is_empty());
    let mut found = rejected(&program("edge-proxy").unwrap(), &inputs);
    for input in &inputs {
        let Some(name) = refused_name(&fs::read_to_string(input).unwrap()) else {
            continue;
        };
        match found.remove(input) {
            Some(said) if said.contains(&name) => {}
            Some(said) => drop(found.insert(input.clone(), format!("{said}, without a word of {name}"))),
            None => drop(found.insert(input.clone(), format!("taken; {name} needn't be refused any more"))),
        }
    }
    assert!(found.is_empty(), "{}", list(&found, inputs.len()));
}

/// What edge-proxy refuses of a case, as the case says it.
fn refused_name(text: &str) -> Option<String> {
    let mut comments = text.lines().take_while(|line| line.starts_with('#'));
    comments.find_map(|line| line.strip_prefix("# edge-proxy refuses: ").map(str::to_owned))
}

/// Every kind of bootstrap that we give a proxy, with the files that lead to its secrets.
#[test]
fn bootstraps_are_accepted_by_both() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let write = |name: &str, value: Value| fs::write(folder.path().join(name), value.to_string()).unwrap();
    write("token.json", token_file(&file("sa-token")));
    fs::write(folder.path().join("sa-token"), "token").unwrap();
    let key = rcgen::generate_simple_self_signed(["edge-gateway".to_owned()]).unwrap();
    fs::write(folder.path().join("tls.crt"), key.cert.pem()).unwrap();
    fs::write(folder.path().join("tls.key"), key.signing_key.serialize_pem()).unwrap();
    write("certificate.json", certificate_file(&file("tls.crt"), &file("tls.key")));
    write("authority.json", trusted_ca_file(&file("tls.crt"), &["edge-gateway"]));
    let with = |certificate: Option<&str>, token: Option<&str>| BootstrapSettings {
        certificate_path: certificate.map(file),
        token_path: token.map(file),
        trusted_ca_path: file("authority.json"),
        node: Some(NodeIdentity {
            id: "proxy".to_owned(),
            cluster: "ns/gw".to_owned(),
        }),
        ..BootstrapSettings::default()
    };
    let zoned = BootstrapSettings {
        zone: Some(ProxyZone {
            name: "a".to_owned(),
            fleet: "ns/gw".to_owned(),
        }),
        ..with(Some("certificate.json"), Some("token.json"))
    };
    for (name, settings) in [
        ("machine", with(Some("certificate.json"), None)),
        ("cluster", with(Some("certificate.json"), Some("token.json"))),
        ("gateway-namespace", with(None, Some("token.json"))),
        ("zoned", zoned),
    ] {
        write("bootstrap.json", default_bootstrap(&settings));
        for proxy in [envoy(), program("edge-proxy").unwrap()] {
            validate(&proxy, &folder.path().join("bootstrap.json"))
                .unwrap_or_else(|error| panic!("{name} with {}: {error:#}", proxy.display()));
        }
    }
}

#[test]
fn further_inputs_are_accepted() {
    let folders = env::var_os("EDGE_ENVOY_INPUTS").unwrap_or_default();
    let inputs: Vec<PathBuf> = env::split_paths(&folders)
        .filter(|f| !f.as_os_str().is_empty())
        .flat_map(|f| inputs_below(&f))
        .collect();
    let failures = rejected(&envoy(), &inputs);
    assert!(failures.is_empty(), "{}", list(&failures, inputs.len()));
}

/// The two tests above could pass by not looking.
#[test]
fn what_is_rejected_is_noticed() {
    let check = |spoil: fn(&mut Resources)| {
        let input = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/match/path-regex/input.yaml");
        let outcome = translate(&input::read(&[input]).unwrap().texts, &Options::default());
        let (key, snapshot) = outcome.snapshots.first_key_value().unwrap();
        let mut resources = Resources::of(snapshot).unwrap();
        spoil(&mut resources);
        check_resources(&envoy(), tempfile::tempdir().unwrap().path(), key, resources).map_err(|e| e.to_string())
    };
    check(|_| {}).unwrap();
    let error = check(|resources| resources.clusters.clear()).unwrap_err();
    assert!(error.contains("service/default/app/80"), "{error}");
    let error = check(|resources| {
        for table in resources.tables.values_mut() {
            table["virtualHosts"][0]["routes"][0]["match"] = json!({ "safeRegex": { "regex": "/v[" } });
        }
    });
    assert!(error.unwrap_err().contains("missing ]"));
}

/// What a patch makes is refused for its values where Envoy refuses it for these, and tells so itself.
#[test]
fn values_that_patches_may_not_make_are_refused_by_envoy() {
    let cases = inputs_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/patch"));
    let folder = tempfile::tempdir().unwrap();
    let mut refused = 0;
    for case in cases {
        let outcome = translate(&input::read(&[case]).unwrap().texts, &Options::default());
        for (key, fleet) in &outcome.translation.fleets {
            let mut lowering = Lowering::new();
            let unpatched = edge_ir::Fleet {
                patches: Arc::default(),
                ..(**fleet).clone()
            };
            let before = lowering.lower(&unpatched);
            lowering.lower(fleet);
            for failure in lowering.failures().iter() {
                let PatchProblem::Invalid(message) = &failure.problem else {
                    continue;
                };
                if !message.contains(", err:in ") {
                    continue;
                }
                let mut patches = fleet.patches.iter();
                let is_meant = |patch: &&Patch| patch.origin == failure.origin && patch.index == failure.index;
                let resources = patched(&before, patches.find(is_meant).unwrap()).unwrap();
                let said = check_resources(&envoy(), folder.path(), key, resources)
                    .unwrap_err()
                    .to_string();
                // It reads durations of less than nothing so little that it never comes to their bounds.
                let is_meant = said.contains("ValidationError") || said.contains("Invalid duration");
                assert!(is_meant, "{message}\nEnvoy says: {said}");
                refused += 1;
            }
        }
    }
    assert!(refused > 15, "{refused}");
}

/// Resources with what one patch makes of them, whatever its values.
fn patched(snapshot: &Snapshot, patch: &Patch) -> Result<Resources> {
    let codec = Codec::cached()?;
    let kind = ResourceType::from_type_url(&patch.type_url).context("no type of a resource")?;
    let operation = &patch.operation;
    let value: Value = operation
        .value
        .as_deref()
        .map_or(Ok(Value::Null), serde_json::from_str)?;
    let path = operation.path.as_deref().unwrap_or_default();
    let mut resource = match snapshot.section(kind).get(&patch.name) {
        Some(entry) => codec.bytes_to_json(kind.type_url(), &entry.body.contiguous(), Names::Proto)?,
        None => Value::Null,
    };
    let step = json!([{"op": &*operation.op, "path": path, "value": value}]);
    json_patch::patch(&mut resource, &serde_json::from_value::<json_patch::Patch>(step)?)?;
    let bytes = codec.bytes_from_json(kind.type_url(), resource)?;
    let mut resources = Resources::of(snapshot)?;
    let of_kind = match kind {
        ResourceType::Cluster => &mut resources.clusters,
        ResourceType::Endpoints => &mut resources.endpoints,
        ResourceType::Secret => &mut resources.secrets,
        ResourceType::Listener => &mut resources.listeners,
        ResourceType::Routes => &mut resources.tables,
    };
    let resource = codec.bytes_to_json(kind.type_url(), &bytes, Names::Camel)?;
    of_kind.insert(patch.name.to_string(), resource);
    Ok(resources)
}

/// Every `input.yaml` below a folder.
fn inputs_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(inputs_below(&path));
        } else if path.file_name().is_some_and(|name| name == "input.yaml") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn envoy() -> PathBuf {
    let path = env::var_os("EDGE_ENVOY").map(PathBuf::from);
    path.filter(|p| p.is_file())
        .expect("EDGE_ENVOY must name an Envoy binary: run `cargo xtask test --tier envoy`")
}

/// The inputs whose xDS a proxy rejects, and what it says.
fn rejected(proxy: &Path, inputs: &[PathBuf]) -> BTreeMap<PathBuf, String> {
    let folder = tempfile::tempdir().unwrap();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..thread::available_parallelism().unwrap().get())
            .map(|_| {
                scope.spawn(|| {
                    let mut failures = Vec::new();
                    while let Some(input) = inputs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if let Err(error) = check_input(proxy, folder.path(), input) {
                            failures.push((input.clone(), format!("{error:#}")));
                        }
                    }
                    failures
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

fn list(failures: &BTreeMap<PathBuf, String>, inputs: usize) -> String {
    let lines: Vec<String> = failures
        .iter()
        .map(|(input, said)| format!("{}: {said}", input.display()))
        .collect();
    format!("{} of {inputs} rejected:\n{}", lines.len(), lines.join("\n"))
}

fn check_input(proxy: &Path, folder: &Path, input: &Path) -> Result<()> {
    let texts = input::read(&[input.to_owned()])?.texts;
    let options = Options {
        settings: settings(&texts),
        answers: texts
            .iter()
            .map(|text| documents(&text.text))
            .next()
            .unwrap_or_default(),
        ..Options::default()
    };
    let outcome = translate(&texts, &options);
    for (key, snapshot) in &outcome.snapshots {
        check_fleet(proxy, folder, key, snapshot).with_context(|| format!("fleet {key}"))?;
    }
    Ok(())
}

/// The usual settings, and what a case says before its first object of those that are off by default.
fn settings(texts: &[input::Text]) -> Settings {
    let points_to_servers =
        |text: &input::Text| text.text.contains("\n# extensionApis: { enableSDSSecretRef: true }\n");
    let usual = Options::default().settings;
    match texts.iter().any(points_to_servers) {
        true => Settings {
            sds_api: Feature::Enabled,
            ..usual
        },
        false => usual,
    }
}

/// What stands at URLs and in images, as a case says it before its first object: `# document: URL TEXT`.
fn documents(text: &str) -> Answers {
    let comments = text.lines().take_while(|line| line.starts_with('#'));
    let documents = comments.filter_map(|line| line.strip_prefix("# document: ")?.split_once(' '));
    let mut answers = Answers::default();
    documents.for_each(|(url, text)| answers.put(url, text.as_bytes()));
    answers
}

fn check_fleet(proxy: &Path, folder: &Path, key: &FleetKey, snapshot: &Snapshot) -> Result<()> {
    check_resources(proxy, folder, key, Resources::of(snapshot)?)
}

fn check_resources(proxy: &Path, folder: &Path, key: &FleetKey, resources: Resources) -> Result<()> {
    resources.check_references()?;
    let mut bootstrap = resources.into_bootstrap(key);
    // Threads work in one folder, so names must be unique.
    let thread = format!("{:?}", thread::current().id());
    put_files(&mut bootstrap, &folder.join(format!("{thread}-files")))?;
    let file = folder.join(format!("{}-{thread}.json", key.replace('/', "-")));
    fs::write(&file, serde_json::to_vec(&bootstrap)?)?;
    validate(proxy, &file)
}

fn validate(proxy: &Path, file: &Path) -> Result<()> {
    let output = Command::new(proxy)
        .args(["--mode", "validate", "--log-level", "error", "-c"])
        .arg(file)
        .output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        bail!("{}", text.trim());
    }
    Ok(())
}

/// The resources of a fleet as JSON, by name.
struct Resources {
    clusters: BTreeMap<String, Value>,
    endpoints: BTreeMap<String, Value>,
    secrets: BTreeMap<String, Value>,
    listeners: BTreeMap<String, Value>,
    tables: BTreeMap<String, Value>,
}

impl Resources {
    fn of(snapshot: &Snapshot) -> Result<Self> {
        let codec = Codec::cached()?;
        let section = |kind: ResourceType| -> Result<BTreeMap<String, Value>> {
            let entries = snapshot.section(kind).entries().iter();
            let json = |bytes: &[u8]| codec.bytes_to_json(kind.type_url(), bytes, Names::Camel);
            entries
                .map(|entry| Ok((entry.name.to_string(), json(&entry.body.contiguous())?)))
                .collect()
        };
        Ok(Self {
            clusters: section(ResourceType::Cluster)?,
            endpoints: section(ResourceType::Endpoints)?,
            secrets: section(ResourceType::Secret)?,
            listeners: section(ResourceType::Listener)?,
            tables: section(ResourceType::Routes)?,
        })
    }

    /// Every name that is used is there; every table, cluster and set of endpoints that is there is used.
    fn check_references(&self) -> Result<()> {
        let mut used = BTreeSet::new();
        for value in self
            .listeners
            .values()
            .chain(self.clusters.values())
            .chain(self.tables.values())
        {
            references(value, &mut used);
        }
        let known = |kind: &Reference, name: &str| match kind {
            Reference::Cluster => self.clusters.contains_key(name) || NOWHERE.contains(&name),
            Reference::Table => self.tables.contains_key(name),
            Reference::Secret => self.secrets.contains_key(name),
        };
        let missing: Vec<_> = used.iter().filter(|(kind, name)| !known(kind, name)).collect();
        ensure!(missing.is_empty(), "used and not there: {missing:?}");
        let unused: Vec<_> = self
            .tables
            .keys()
            .filter(|t| !used.contains(&(Reference::Table, (*t).clone())))
            .collect();
        ensure!(unused.is_empty(), "tables that no listener uses: {unused:?}");
        Ok(())
    }

    /// A bootstrap with everything in place.
    fn into_bootstrap(mut self, key: &FleetKey) -> Value {
        let own = self.endpoints.get(&**key).cloned();
        if let Some(own) = &own {
            let local = json!({"name": **key, "type": "STATIC", "connectTimeout": "1s", "loadAssignment": own});
            self.clusters.insert(key.to_string(), local);
        }
        for (name, cluster) in &mut self.clusters {
            let eds = cluster.as_object_mut().and_then(|c| c.remove("edsClusterConfig"));
            if let Some(eds) = eds {
                let set = eds["serviceName"].as_str().unwrap_or(name);
                cluster["type"] = "STATIC".into();
                cluster["loadAssignment"] = self
                    .endpoints
                    .get(set)
                    .cloned()
                    .unwrap_or(json!({ "clusterName": set }));
            }
        }
        let mut listeners: Vec<_> = self.listeners.values().cloned().collect();
        listeners
            .iter_mut()
            .chain(self.clusters.values_mut())
            .for_each(|value| put_in_place(value, &self.tables));
        let mut bootstrap = json!({
            // Who asks servers of secrets has to say who it is.
            "node": {"id": "proxy", "cluster": **key},
            "staticResources": {
                "listeners": listeners,
                "clusters": self.clusters.values().collect::<Vec<_>>(),
                "secrets": self.secrets.values().collect::<Vec<_>>(),
            },
            "layeredRuntime": { "layers": [{ "name": "static", "staticLayer": { "re2.max_program_size.error_level": 4294967295_u32 } }] },
        });
        if let Some(own) = &own {
            bootstrap["node"]["locality"] = own["endpoints"][0]["locality"].clone();
            bootstrap["clusterManager"] = json!({"localClusterName": **key});
        }
        bootstrap
    }
}

/// What a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reference {
    Cluster,
    Table,
    Secret,
}

/// Collects what a resource refers to by name.
fn references(value: &Value, found: &mut BTreeSet<(Reference, String)>) {
    let mut add = |kind, name: &Value| {
        if let Some(name) = name.as_str() {
            found.insert((kind, name.to_owned()));
        }
    };
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match key.as_str() {
                    "cluster" => add(Reference::Cluster, value),
                    "weightedClusters" => each(&value["clusters"], |entry| add(Reference::Cluster, &entry["name"])),
                    "rds" => add(Reference::Table, &value["routeConfigName"]),
                    "tlsCertificateSdsSecretConfigs" => each(value, |entry| add_secret(entry, &mut add)),
                    "validationContextSdsSecretConfig" => add_secret(value, &mut add),
                    // The extension that injects has a name too.
                    "credential" if value.get("sdsConfig").is_some() => add(Reference::Secret, &value["name"]),
                    _ => {}
                }
            }
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

/// What has its source in the stream must be there; of what a server has, the server. Files are put there
/// ([`put_files`]).
fn add_secret(secret: &Value, mut add: impl FnMut(Reference, &Value)) {
    if secret.pointer("/sdsConfig/pathConfigSource").is_some() {
        return;
    }
    match secret.pointer("/sdsConfig/apiConfigSource/grpcServices/0/envoyGrpc/clusterName") {
        Some(server) => add(Reference::Cluster, server),
        None => add(Reference::Secret, &secret["name"]),
    }
}

/// A proxy opens the files of a configuration when it reads it: each database becomes one that knows nothing, and what
/// leads to the certificate of a pod one with a certificate in it. `at`: where they are put, without an extension.
fn put_files(value: &mut Value, at: &Path) -> Result<()> {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(path) if key.ends_with("DbPath") => {
                        let file = at.with_extension("mmdb");
                        fs::write(&file, Database::new("City").bytes()?)?;
                        *path = file.display().to_string();
                    }
                    Value::Object(source) if key == "pathConfigSource" => {
                        let file = at.with_extension("json");
                        fs::write(&file, certificate_of_pod(at)?.to_string())?;
                        let named = source.insert("path".to_owned(), file.display().to_string().into());
                        ensure!(named == Some(pod_certificate::FILE.into()), "another file: {named:?}");
                    }
                    other => put_files(other, at)?,
                }
            }
            Ok(())
        }
        Value::Array(list) => list.iter_mut().try_for_each(|value| put_files(value, at)),
        _ => Ok(()),
    }
}

/// What a pod has of its certificate.
fn certificate_of_pod(at: &Path) -> Result<Value> {
    let pair = rcgen::generate_simple_self_signed(["*.edge-gateway-system".to_owned()])?;
    let [certificate, key] = ["crt", "key"].map(|extension| at.with_extension(extension));
    fs::write(&certificate, pair.cert.pem())?;
    fs::write(&key, pair.signing_key.serialize_pem())?;
    let path = |file: &Path| file.display().to_string();
    Ok(certificate_file(&path(&certificate), &path(&key)))
}

fn each(list: &Value, f: impl FnMut(&Value)) {
    list.as_array().into_iter().flatten().for_each(f);
}

/// Replaces references over a stream by what they refer to.
fn put_in_place(value: &mut Value, tables: &BTreeMap<String, Value>) {
    match value {
        Value::Object(map) => {
            if let Some(rds) = map.remove("rds") {
                let name = rds["routeConfigName"].as_str().unwrap_or_default();
                let mut table = tables.get(name).cloned().unwrap_or_else(|| Map::new().into());
                // The cluster that is never defined is meant; `check_references` looks after the others.
                table["validateClusters"] = false.into();
                map.insert("routeConfig".to_owned(), table);
            }
            // A secret without a source is looked up among the static ones.
            if map.get("sdsConfig").is_some_and(|source| source.get("ads").is_some()) {
                map.remove("sdsConfig");
            }
            map.values_mut().for_each(|value| put_in_place(value, tables));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| put_in_place(value, tables)),
        _ => {}
    }
}
