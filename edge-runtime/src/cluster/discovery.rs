//! Which of our kinds, and of those that the configuration names, the API server serves, and at which version.
//!
//! Kinds whose definitions are missing are no fault: they are looked for again and again, so that one that is installed
//! later is read without a restart, and one that goes is let go. A kind that is served only at versions that we don't
//! know is neither: its objects are there and can't be read.

use super::fault::describe;
use crate::{backoff::jittered, due, task::Stop, trouble::Trouble};
use edge_translate::api::{CustomKind, Kind, ObjectKey, Scope};
use futures_util::FutureExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIResource, APIResourceList};
use kube::{Client, Error, core::ApiResource};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, future,
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

/// How often what is missing is looked for.
const AGAIN: Duration = Duration::from_secs(5);
/// How soon after a look that failed.
const SOON: Duration = Duration::from_secs(1);
/// Looks in a row that don't find a kind which was there before it counts as gone: all that is of it goes then, and one
/// replica of an API server that has just started may not know it yet.
const MISSES: u32 = 3;
/// Kinds that every API server has served for years.
const BUILT_IN: [(Kind, &str); 5] = [
    (Kind::Namespace, "namespaces"),
    (Kind::Service, "services"),
    (Kind::Secret, "secrets"),
    (Kind::ConfigMap, "configmaps"),
    (Kind::EndpointSlice, "endpointslices"),
];

/// A kind that is read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadKind {
    /// One of ours.
    Known(Kind),
    /// One that the configuration names for extension services.
    Custom(Arc<CustomKind>),
}

impl ReadKind {
    fn group(&self) -> &str {
        match self {
            Self::Known(kind) => kind.group(),
            Self::Custom(kind) => &kind.group,
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Known(kind) => kind.as_str(),
            Self::Custom(kind) => &kind.kind,
        }
    }

    /// Versions that are read, the best first.
    pub fn versions(&self) -> Vec<&str> {
        match self {
            Self::Known(kind) => kind.versions().to_vec(),
            Self::Custom(kind) => vec![&kind.version],
        }
    }

    /// The kind under which its objects are kept.
    pub fn kept_as(&self) -> Kind {
        match self {
            Self::Known(kind) => *kind,
            Self::Custom(kind) => kind.kept_as(),
        }
    }

    /// Whether its objects live in namespaces.
    pub fn scope(&self) -> Scope {
        self.kept_as().scope()
    }

    /// An object of it.
    pub fn key(&self, namespace: &str, name: &str) -> ObjectKey {
        match self {
            Self::Known(kind) => ObjectKey::new(*kind, namespace, name),
            Self::Custom(kind) => ObjectKey::new(kind.kept_as(), namespace, kind.key_name(name)),
        }
    }
}

impl fmt::Display for ReadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(kind) => kind.fmt(f),
            Self::Custom(kind) => write!(f, "{}.{}", kind.kind, kind.group),
        }
    }
}

/// Every kind that is read.
fn all(custom: &[CustomKind]) -> Vec<ReadKind> {
    let known = Kind::ALL.iter().map(|kind| ReadKind::Known(*kind));
    let named = custom.iter().map(|kind| ReadKind::Custom(Arc::new(kind.clone())));
    known.chain(named).collect()
}

/// What the API server offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Served {
    /// The kinds, and how to ask for them.
    pub kinds: BTreeMap<ReadKind, ApiResource>,
    /// Whether a watch can begin with what is there (Kubernetes KEP-3157).
    pub streams_lists: bool,
    /// Kinds that are served only in a way in which they can't be read.
    pub unreadable: BTreeMap<ReadKind, Unreadable>,
}

/// How a kind is served that can't be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Unreadable {
    /// At which versions.
    pub versions: String,
    /// How to ask which objects of it there are; `None`: not at all, for they are the whole cluster's.
    pub resource: Option<ApiResource>,
}

impl Served {
    /// How to watch a kind, and thereby learn which objects of it there are, whether or not they can be read.
    pub fn watched_as(&self, kind: &ReadKind) -> Option<&ApiResource> {
        let unreadable = || self.unreadable.get(kind)?.resource.as_ref();
        self.kinds.get(kind).or_else(unreadable)
    }

    /// Kinds of which one can learn which objects there are.
    pub fn watchable(&self) -> impl Iterator<Item = &ReadKind> {
        let unreadable = self.unreadable.iter().filter(|(_, how)| how.resource.is_some());
        self.kinds.keys().chain(unreadable.map(|(kind, _)| kind))
    }

    /// Whether a kind is served in any way.
    fn has(&self, kind: &ReadKind) -> bool {
        self.kinds.contains_key(kind) || self.unreadable.contains_key(kind)
    }

    /// How to ask for an object.
    pub fn resource_of(&self, key: &ObjectKey) -> Option<&ApiResource> {
        let Some((custom, _)) = key.custom() else {
            return self.kinds.get(&ReadKind::Known(key.kind));
        };
        let (kind, group) = custom.split_once('.')?;
        let mut kinds = self.kinds.iter();
        let found =
            kinds.find(|(read, _)| matches!(read, ReadKind::Custom(_)) && (read.name(), read.group()) == (kind, group));
        found.map(|(_, resource)| resource)
    }
}

/// Looks until asked to stop; `again` asks for a look at once.
pub async fn run(
    client: Client,
    mut custom: watch::Receiver<Arc<[CustomKind]>>,
    served: Arc<watch::Sender<Option<Arc<Served>>>>,
    again: Arc<Notify>,
    mut stop: Stop,
) {
    let mut trouble = Trouble::default();
    let mut missed = Missed::default();
    loop {
        let wanted = all(&custom.borrow_and_update());
        let found = tokio::select! {
            () = stop.requested() => return,
            found = look(&client, &wanted) => found,
        };
        let pause = match found {
            Ok(mut found) => {
                trouble.ends();
                let is_complete = found.kinds.len() == wanted.len();
                if let Some(before) = &*served.borrow() {
                    missed.confirm(before, &mut found, &wanted);
                }
                served.send_if_modified(|known| {
                    let before = known.as_deref();
                    if before == Some(&found) {
                        return false;
                    }
                    tell(before, &found, &wanted);
                    *known = Some(Arc::new(found));
                    true
                });
                (!is_complete).then_some(AGAIN)
            }
            Err(error) => {
                let reason = describe(&error);
                if trouble.begins(&reason) {
                    tracing::warn!("which kinds there are can't be told: {reason}; it is asked again");
                }
                Some(SOON)
            }
        };
        let (asked, pause) = match missed.is_empty() {
            true => (again.notified().boxed(), pause),
            // Looks that are to confirm something aren't made at once.
            false => (future::pending().boxed(), Some(SOON)),
        };
        tokio::select! {
            () = stop.requested() => return,
            () = asked => {}
            Ok(()) = custom.changed() => {}
            () = due::at(pause.map(|pause| Instant::now() + jittered(pause))) => {}
        }
    }
}

/// Kinds that were there and aren't found, and how many times in a row.
#[derive(Default)]
struct Missed(BTreeMap<ReadKind, u32>);

impl Missed {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes a look into account: what was there before and hasn't been missed often enough is there still.
    fn confirm(&mut self, before: &Served, found: &mut Served, wanted: &[ReadKind]) {
        self.0.retain(|kind, _| !found.has(kind) && wanted.contains(kind));
        for kind in before.watchable() {
            if found.has(kind) || !wanted.contains(kind) {
                continue;
            }
            let misses = self.0.entry(kind.clone()).or_default();
            *misses += 1;
            if *misses >= MISSES {
                self.0.remove(kind);
                continue;
            }
            if let Some(resource) = before.kinds.get(kind) {
                found.kinds.insert(kind.clone(), resource.clone());
            } else if let Some(how) = before.unreadable.get(kind) {
                found.unreadable.insert(kind.clone(), how.clone());
            }
        }
    }
}

/// Says what is new about what is missing.
fn tell(before: Option<&Served>, now: &Served, wanted: &[ReadKind]) {
    let missing = |served: &Served| -> Vec<String> {
        let missing = wanted.iter().filter(|kind| !served.has(kind));
        missing.map(ToString::to_string).collect()
    };
    let kinds = missing(now);
    if !kinds.is_empty() && before.map(missing).as_ref() != Some(&kinds) {
        let kinds = kinds.join(", ");
        tracing::info!(
            kinds,
            "the API server doesn't serve these; they are read as soon as it does"
        );
    }
    for (kind, how) in &now.unreadable {
        if before.is_none_or(|before| before.unreadable.get(kind) != Some(how)) {
            let (versions, known) = (&how.versions, kind.versions().join(", "));
            tracing::warn!(
                "{kind} is served as {versions} only, and read as {known}; install a definition that has one of these"
            );
        }
    }
    for (kind, resource) in &now.kinds {
        let is_old = kind.versions().first() != Some(&resource.version.as_str());
        if is_old && before.and_then(|before| before.kinds.get(kind)) != Some(resource) {
            let (version, best) = (&resource.version, kind.versions().first().copied().unwrap_or_default());
            tracing::warn!(
                "{kind} is served as {version}, not as {best}; install a newer definition of it to use all its fields"
            );
        }
    }
}

async fn look(client: &Client, wanted: &[ReadKind]) -> Result<Served, Error> {
    let version = client.apiserver_version().await?;
    let mut served = Served {
        streams_lists: streams_lists(&version.major, &version.minor),
        ..Served::default()
    };
    for (kind, plural) in BUILT_IN {
        let kind = ReadKind::Known(kind);
        let resource = resource(&kind, "v1", plural);
        served.kinds.insert(kind, resource);
    }
    let groups: BTreeSet<&str> = wanted.iter().map(ReadKind::group).collect();
    for group in groups {
        let kinds: Vec<&ReadKind> = wanted.iter().filter(|kind| kind.group() == group).collect();
        if kinds.iter().any(|kind| !served.kinds.contains_key(kind)) {
            look_at(client, group, &kinds, &mut served).await?;
        }
    }
    Ok(served)
}

/// Which kinds of a group there are.
async fn look_at(client: &Client, group: &str, kinds: &[&ReadKind], served: &mut Served) -> Result<(), Error> {
    let Some(APIGroup { versions, .. }) = get(client, &format!("/apis/{group}")).await? else {
        return Ok(());
    };
    let mut found: BTreeMap<&ReadKind, BTreeMap<String, APIResource>> = BTreeMap::new();
    for version in versions {
        let path = format!("/apis/{group}/{}", version.version);
        let Some(APIResourceList { resources, .. }) = get(client, &path).await? else {
            continue;
        };
        // Names with a slash are parts of resources, such as their status.
        for resource in resources.into_iter().filter(|resource| !resource.name.contains('/')) {
            let Some(kind) = kinds.iter().find(|kind| kind.name() == resource.kind) else {
                continue;
            };
            // Objects of the configuration's kinds belong to what names them, in its namespace.
            let version = match (kind, resource.namespaced) {
                (ReadKind::Custom(_), false) => format!("{} for the whole cluster", version.version),
                _ => version.version.clone(),
            };
            found.entry(kind).or_default().insert(version, resource);
        }
    }
    for (kind, versions) in found {
        let best = kind
            .versions()
            .into_iter()
            .find_map(|version| versions.get_key_value(version));
        match best {
            Some((version, found)) => {
                served.kinds.insert(kind.clone(), resource(kind, version, &found.name));
            }
            None => {
                let names: Vec<&str> = versions.keys().map(String::as_str).collect();
                let is_watchable = |found: &APIResource| found.namespaced == (kind.scope() == Scope::Namespaced);
                let watched = versions.iter().find(|(_, found)| is_watchable(found));
                let how = Unreadable {
                    versions: names.join(", "),
                    resource: watched.map(|(version, found)| resource(kind, version, &found.name)),
                };
                served.unreadable.insert(kind.clone(), how);
            }
        }
    }
    Ok(())
}

/// An answer, or that there is none.
async fn get<T: serde::de::DeserializeOwned>(client: &Client, path: &str) -> Result<Option<T>, Error> {
    let request = http::Request::get(path).body(Vec::new()).map_err(Error::HttpError)?;
    match client.request(request).await {
        Ok(answer) => Ok(Some(answer)),
        Err(Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

fn resource(kind: &ReadKind, version: &str, plural: &str) -> ApiResource {
    let group = kind.group();
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: match group {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        },
        kind: kind.name().to_owned(),
        plural: plural.to_owned(),
    }
}

/// Those before 1.27 ignore that it is asked for, and would never say that the list is over; since 1.32 it is on.
fn streams_lists(major: &str, minor: &str) -> bool {
    let digits = minor.trim_end_matches(|c: char| !c.is_ascii_digit());
    major == "1" && digits.parse::<u32>().is_ok_and(|minor| minor >= 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::client::Body;
    use serde_json::json;
    use std::convert::Infallible;
    use tower::service_fn;

    #[test]
    fn a_kind_is_gone_when_it_was_missed_again_and_again() {
        let kind = ReadKind::Known(Kind::HttpRoute);
        let all = || Served {
            kinds: BTreeMap::from([(kind.clone(), resource(&kind, "v1", "httproutes"))]),
            ..Served::default()
        };
        let mut missed = Missed::default();
        let mut is_there = |found: Served| {
            let mut found = found;
            missed.confirm(&all(), &mut found, std::slice::from_ref(&kind));
            (found.kinds.contains_key(&kind), missed.is_empty())
        };
        let none = Served::default;
        assert_eq!([none(), none()].map(&mut is_there), [(true, false), (true, false)]);
        assert_eq!(is_there(all()), (true, true), "it was there all the time");
        let last = [none(), none(), none()].map(&mut is_there);
        assert_eq!(last, [(true, false), (true, false), (false, true)]);
    }

    /// A client of an API server that has these versions of SecurityPolicy, and nothing else.
    fn serving(versions: &'static [&'static str]) -> Client {
        let answer = move |request: http::Request<Body>| async move {
            let group = "/apis/gateway.edge";
            let version = |name: &str| json!({ "version": name, "groupVersion": format!("gateway.edge/{name}") });
            let listed = |name: &&&str| request.uri().path() == format!("{group}/{name}");
            let (code, body) = match (request.uri().path(), versions.iter().find(listed)) {
                ("/version", _) => (
                    200,
                    json!({ "major": "1", "minor": "32", "gitVersion": "", "gitCommit": "",
                    "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": "" }),
                ),
                (path, _) if path == group => (
                    200,
                    json!({ "name": "gateway.edge",
                    "versions": versions.iter().map(|name| version(name)).collect::<Vec<_>>() }),
                ),
                (_, Some(name)) => (
                    200,
                    json!({ "groupVersion": format!("gateway.edge/{name}"), "resources": [
                    { "name": "securitypolicies", "singularName": "", "namespaced": true, "kind": "SecurityPolicy", "verbs": [] },
                    { "name": "securitypolicies/status", "singularName": "", "namespaced": true, "kind": "SecurityPolicy",
                      "verbs": [] },
                ] }),
                ),
                _ => (
                    404,
                    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
                    "reason": "NotFound", "message": "the server could not find the requested resource" }),
                ),
            };
            let mut response = http::Response::new(Body::from(body.to_string().into_bytes()));
            *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
            Ok::<_, Infallible>(response)
        };
        Client::new(service_fn(answer), "default")
    }

    #[tokio::test]
    async fn a_kind_at_versions_that_nobody_knows_is_there_and_not_missing() {
        let kind = ReadKind::Known(Kind::SecurityPolicy);
        let wanted = std::slice::from_ref(&kind);
        let before = look(&serving(&["v1alpha1"]), wanted).await.unwrap();
        assert_eq!(before.kinds[&kind].version, "v1alpha1");
        let mut missed = Missed::default();
        for _ in 0..=MISSES {
            let mut found = look(&serving(&["v1beta1"]), wanted).await.unwrap();
            missed.confirm(&before, &mut found, wanted);
            assert!(missed.is_empty() && !found.kinds.contains_key(&kind));
            assert_eq!(found.watched_as(&kind).map(|found| &*found.version), Some("v1beta1"));
            assert_eq!(found.unreadable[&kind].versions, "v1beta1");
        }
        let both = look(&serving(&["v1beta1", "v1alpha1"]), wanted).await.unwrap();
        assert_eq!(both.watched_as(&kind).map(|found| &*found.version), Some("v1alpha1"));
    }
}
