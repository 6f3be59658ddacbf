//! Histories of edits, and the plain world that they end in: the oracle that knows no increments.

use super::{
    platform, routes,
    words::{BACKENDS, CUSTOM, CUSTOM_GROUP, GATEWAYS, NAMESPACES, SERVICES, read},
};
use edge_ir::{Fleet, FleetKey, Infra, IpFamily, PortProtocol};
use edge_translate::{
    Change, Fact, Feature, MachinePort, Platform, Question, Settings, Translation, Translator,
    api::{Kind, Object, ObjectKey, Timestamp},
    config::extension::{ExtensionManager, GroupVersionKind},
    status::Status,
};
use proptest::{collection::vec, prelude::*, sample};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

/// One edit.
#[derive(Clone)]
pub(crate) enum Edit {
    /// An object appears or changes.
    Put(Object),
    /// An object goes, if it was there.
    Remove(ObjectKey),
    /// Other settings.
    Configure(Configuration),
    /// The time, as somebody tells it.
    Tell(Timestamp),
    /// That a stranger holds a port of the machine, or holds it no longer.
    Hold(MachinePort, bool),
}

impl fmt::Debug for Edit {
    /// One line that can be pasted into a file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put(object) => match serde_json::to_string(object) {
                Ok(text) => write!(f, "put {text}"),
                Err(_) => write!(f, "put {object:?}"),
            },
            Self::Remove(key) => write!(f, "remove {key}"),
            Self::Configure(configuration) => write!(f, "{configuration:?}"),
            Self::Tell(now) => write!(f, "it is {now}"),
            Self::Hold(port, held) => write!(f, "{port:?} held: {held}"),
        }
    }
}

/// Settings that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Configuration {
    /// The defaults, with an extension service that knows two kinds, one of backends, one for rules; Secrets may point
    /// to servers.
    Cluster,
    /// Without any of that.
    Unextended,
    /// Processes on one machine.
    Host,
    /// Kinds Backend and EdgePatchPolicy switched off.
    NoBackends,
    /// Another controller name: nothing is ours.
    Stranger,
}

impl Configuration {
    /// As the engine takes them.
    pub(crate) fn settings(self) -> Settings {
        let default = Settings {
            extensions: [service()].into(),
            sds_api: Feature::Enabled,
            ..Settings::default()
        };
        match self {
            Self::Cluster => default,
            Self::Unextended => Settings::default(),
            Self::Host => Settings {
                platform: Platform::Host,
                ..default
            },
            Self::NoBackends => Settings {
                backend_api: Feature::Disabled,
                patch_api: Feature::Disabled,
                ..default
            },
            Self::Stranger => Settings {
                controller_name: "example.com/other".into(),
                ..default
            },
        }
    }
}

/// The kinds that an extension service knows.
fn service() -> ExtensionManager {
    let kind = |kind: &str| GroupVersionKind {
        group: CUSTOM_GROUP.into(),
        version: "v1".into(),
        kind: kind.into(),
    };
    ExtensionManager {
        backend_resources: [kind("Pool")].into(),
        resources: [kind("Cache")].into(),
        ..ExtensionManager::default()
    }
}

/// Any object. What the most depends on changes the least often.
pub(crate) fn object() -> impl Strategy<Value = Object> {
    prop_oneof![
        1 => platform::gateway_class().boxed(),
        5 => platform::gateway().boxed(),
        4 => platform::listener_set().boxed(),
        12 => routes::http_route().boxed(),
        5 => routes::grpc_route().boxed(),
        4 => routes::stream_route().boxed(),
        4 => routes::tls_route().boxed(),
        5 => platform::service().boxed(),
        1 => platform::service_import().boxed(),
        6 => platform::endpoint_slice(&["IPv4", "IPv4", "IPv4", "IPv6", "FQDN"]).boxed(),
        4 => platform::backend().boxed(),
        4 => platform::secret().boxed(),
        2 => platform::namespace().boxed(),
        2 => platform::reference_grant().boxed(),
        2 => platform::edge_proxy().boxed(),
        1 => platform::policy().boxed(),
        3 => platform::tls_policy().boxed(),
        2 => platform::config_map().boxed(),
        1 => platform::trust_bundle().boxed(),
        4 => platform::custom().boxed(),
    ]
    .prop_map(read)
}

/// Keys that objects are likely to have.
fn key() -> impl Strategy<Value = ObjectKey> {
    let named = |kind: Kind, names: &'static [&'static str]| {
        (sample::select(NAMESPACES), sample::select(names)).prop_map(move |(ns, name)| ObjectKey::new(kind, ns, name))
    };
    let global = |kind: Kind, names: &'static [&'static str]| {
        sample::select(names).prop_map(move |name| ObjectKey::new(kind, "", name))
    };
    prop_oneof![
        1 => global(Kind::GatewayClass, &["plain", "merged"]).boxed(),
        3 => named(Kind::Gateway, GATEWAYS).boxed(),
        2 => named(Kind::ListenerSet, super::words::SETS).boxed(),
        6 => named(Kind::HttpRoute, routes::ROUTES).boxed(),
        2 => named(Kind::GrpcRoute, routes::ROUTES).boxed(),
        1 => named(Kind::TlsRoute, routes::ROUTES).boxed(),
        1 => named(Kind::TcpRoute, routes::ROUTES).boxed(),
        1 => named(Kind::UdpRoute, routes::ROUTES).boxed(),
        2 => named(Kind::Service, SERVICES).boxed(),
        1 => named(Kind::ServiceImport, &["s0"]).boxed(),
        4 => named(Kind::EndpointSlice, &["e0", "e1", "e2"]).boxed(),
        2 => named(Kind::Backend, BACKENDS).boxed(),
        1 => named(Kind::Secret, super::words::SECRETS).boxed(),
        1 => global(Kind::Namespace, NAMESPACES).boxed(),
        1 => named(Kind::ReferenceGrant, &["r0", "r1"]).boxed(),
        1 => named(Kind::EdgeProxy, super::words::PROXIES).boxed(),
        1 => named(Kind::SecurityPolicy, &["x0", "x1"]).boxed(),
        1 => named(Kind::EdgeExtensionPolicy, &["x0", "x1"]).boxed(),
        2 => named(Kind::BackendTlsPolicy, &["x0", "x1"]).boxed(),
        1 => named(Kind::ConfigMap, super::words::AUTHORITIES).boxed(),
        1 => global(Kind::ClusterTrustBundle, &["ca0"]).boxed(),
        2 => custom_key().boxed(),
    ]
}

fn custom_key() -> impl Strategy<Value = ObjectKey> {
    let kind = sample::select(&["Pool", "Cache"]);
    (sample::select(NAMESPACES), kind, sample::select(CUSTOM))
        .prop_map(|(ns, kind, name)| ObjectKey::new(Kind::Custom, ns, format!("{kind}.{CUSTOM_GROUP}/{name}")))
}

/// Any edit; more comes than goes.
pub(crate) fn edit() -> impl Strategy<Value = Edit> {
    let configuration = sample::select(&[
        Configuration::Cluster,
        Configuration::Cluster,
        Configuration::Cluster,
        Configuration::Unextended,
        Configuration::Host,
        Configuration::NoBackends,
        Configuration::Stranger,
    ]);
    let times = sample::select(&[EARLY, NOW, NOW, Timestamp(NOW.0 + 1), LATE]);
    prop_oneof![
        1 => times.prop_map(Edit::Tell),
        1 => (machine_port(), any::<bool>()).prop_map(|(port, held)| Edit::Hold(port, held)),
        24 => object().prop_map(Edit::Put),
        5 => key().prop_map(Edit::Remove),
        1 => configuration.prop_map(Edit::Configure),
    ]
}

fn machine_port() -> impl Strategy<Value = MachinePort> {
    sample::select(&[80, 443, 8080]).prop_map(|number| MachinePort {
        protocol: PortProtocol::Tcp,
        number,
        family: IpFamily::V4,
    })
}

/// A history that begins with what a proxy needs to do anything at all.
pub(crate) fn history(edits: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Edit>> {
    vec(edit(), edits).prop_map(|edits| seed().into_iter().map(Edit::Put).chain(edits).collect())
}

/// Without these most worlds would translate to nothing. They can be edited away like everything else.
pub(crate) fn seed() -> Vec<Object> {
    let values = serde_json::json!([
        {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "plain"},
         "spec": {"controllerName": "gateway.edge/gatewayclass-controller"}},
        {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "merged"},
         "spec": {"controllerName": "gateway.edge/gatewayclass-controller",
                  "parametersRef": {"group": "gateway.edge", "kind": "EdgeProxy", "name": "p0", "namespace": "a"}}},
        {"apiVersion": "gateway.edge/v1alpha1", "kind": "EdgeProxy", "metadata": {"name": "p0", "namespace": "a"},
         "spec": {"mergeGateways": true}},
        {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "g0", "namespace": "a"},
         "spec": {"gatewayClassName": "plain", "allowedListeners": {"namespaces": {"from": "All"}}, "tls": {"backend": {"clientCertificateRef": {"name": "c0"}}}, "listeners": [
             {"name": "l0", "protocol": "HTTP", "port": 80, "allowedRoutes": {"namespaces": {"from": "All"}}},
             {"name": "l1", "protocol": "HTTPS", "port": 443, "hostname": "*.example.com",
              "tls": {"certificateRefs": [{"name": "c0"}]}, "allowedRoutes": {"namespaces": {"from": "All"}}},
             {"name": "l4", "protocol": "TLS", "port": 443, "hostname": "b.a.example.com", "tls": {"mode": "Passthrough"},
              "allowedRoutes": {"namespaces": {"from": "All"}}},
             {"name": "l5", "protocol": "TLS", "port": 8443, "tls": {"certificateRefs": [{"name": "c0"}]},
              "allowedRoutes": {"namespaces": {"from": "All"}}},
             {"name": "l3", "protocol": "TCP", "port": 8080, "allowedRoutes": {"namespaces": {"from": "All"}}},
             {"name": "l2", "protocol": "HTTPS", "port": 443, "hostname": "a.example.com",
              "tls": {"certificateRefs": [{"name": "c0"}, {"name": "c1"}]}}]}},
        {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "ListenerSet", "metadata": {"name": "t0", "namespace": "b"},
         "spec": {"parentRef": {"name": "g0", "namespace": "a"}, "listeners": [
             {"name": "l0", "protocol": "HTTP", "port": 80, "hostname": "a.example.com",
              "allowedRoutes": {"namespaces": {"from": "All"}}},
             {"name": "l1", "protocol": "TCP", "port": 8080}]}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c0", "namespace": "a"},
         "stringData": platform::good_certificate()},
        {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "g1", "namespace": "b"},
         "spec": {"gatewayClassName": "merged", "listeners": [
             {"name": "l0", "protocol": "HTTP", "port": 80, "hostname": "*.example.com",
              "allowedRoutes": {"namespaces": {"from": "All"}}},
             {"name": "l1", "protocol": "HTTP", "port": 80, "allowedRoutes": {"namespaces": {"from": "All"}}}]}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s0", "namespace": "a"},
         "spec": {"clusterIP": "10.0.0.1", "ports": [{"name": "x", "port": 80}, {"name": "y", "port": 81}]}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s1", "namespace": "b"},
         "spec": {"clusterIP": "10.0.0.1", "ports": [{"name": "x", "port": 80}, {"name": "y", "port": 81}]}},
        {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "BackendTLSPolicy",
         "metadata": {"name": "x0", "namespace": "a"},
         "spec": {"targetRefs": [{"group": "", "kind": "Service", "name": "s0", "sectionName": "y"}],
                  "validation": {"hostname": "x.example.com", "wellKnownCACertificates": "System"}}},
        {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "BackendTLSPolicy",
         "metadata": {"name": "x1", "namespace": "a"},
         "spec": {"targetRefs": [{"group": "", "kind": "Service", "name": "s0", "sectionName": "y"}],
                  "validation": {"hostname": "x.example.com",
                                 "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca0"}]}}},
        {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "FQDN",
         "metadata": {"name": "e0", "namespace": "b", "labels": {"kubernetes.io/service-name": "s1"}},
         "endpoints": [{"addresses": ["pod9.example.net"]}], "ports": [{"name": "x", "port": 8080}]},
        {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
         "metadata": {"name": "e0", "namespace": "a", "labels": {"kubernetes.io/service-name": "s0"}},
         "endpoints": [{"addresses": ["10.2.0.9"]}], "ports": [{"name": "x", "port": 8080}]},
        {"apiVersion": "sample.example.com/v1", "kind": "Pool", "metadata": {"name": "q0", "namespace": "a"}},
        {"apiVersion": "sample.example.com/v1", "kind": "Cache", "metadata": {"name": "q0", "namespace": "a"}},
        {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
         "metadata": {"name": "r2", "namespace": "a"},
         "spec": {"parentRefs": [{"name": "g0"}], "hostnames": ["b.a.example.com"], "rules": [{
             "filters": [{"type": "ExtensionRef",
                          "extensionRef": {"group": "sample.example.com", "kind": "Cache", "name": "q0"}}],
             "backendRefs": [{"group": "sample.example.com", "kind": "Pool", "name": "q0"}]}]}},
        {"apiVersion": "gateway.edge/v1alpha1", "kind": "Backend", "metadata": {"name": "b0", "namespace": "a"},
         "spec": {"endpoints": [{"fqdn": {"hostname": "host.example.net", "port": 80}}]}},
        {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
         "metadata": {"name": "r0", "namespace": "a"},
         "spec": {"from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "b"}],
                  "to": [{"group": "", "kind": "Service"}]}},
        {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "TCPRoute",
         "metadata": {"name": "r0", "namespace": "a"},
         "spec": {"parentRefs": [{"name": "g0"}], "rules": [{"backendRefs": [{"name": "s0", "port": 81}]}]}},
        {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
         "metadata": {"name": "r1", "namespace": "a"},
         "spec": {"parentRefs": [{"name": "g0"}], "hostnames": ["a.example.com"],
                  "rules": [{"backendRefs": [{"group": "gateway.edge", "kind": "Backend", "name": "b0"}]}]}},
        {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
         "metadata": {"name": "r0", "namespace": "a"},
         "spec": {"parentRefs": [{"name": "g0"}, {"name": "g1", "namespace": "b"}],
                  "rules": [{"backendRefs": [{"name": "s0", "port": 80}, {"name": "nowhere", "port": 80}]}]}},
    ]);
    let values = values.as_array().cloned().unwrap_or_default();
    values.into_iter().map(read).collect()
}

/// The world as plain data.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) objects: BTreeMap<ObjectKey, Object>,
    pub(crate) configuration: Configuration,
    pub(crate) now: Timestamp,
    /// Ports that strangers hold.
    pub(crate) held: BTreeSet<MachinePort>,
}

/// The certificates of the tests are good then.
pub(crate) const NOW: Timestamp = Timestamp(2_000_000_000);
/// And not yet then.
pub(crate) const EARLY: Timestamp = Timestamp(1_000_000_000);
/// And no longer then.
pub(crate) const LATE: Timestamp = Timestamp(6_000_000_000);

impl World {
    /// Nothing, with default settings.
    pub(crate) fn empty() -> Self {
        Self {
            objects: BTreeMap::new(),
            configuration: Configuration::Cluster,
            now: NOW,
            held: BTreeSet::new(),
        }
    }

    /// Takes an edit in.
    pub(crate) fn apply(&mut self, edit: &Edit) {
        match edit {
            Edit::Put(object) => {
                self.objects.insert(object.key(), object.clone());
            }
            Edit::Remove(key) => {
                self.objects.remove(key);
            }
            Edit::Configure(configuration) => self.configuration = *configuration,
            Edit::Tell(now) => self.now = *now,
            Edit::Hold(port, true) => drop(self.held.insert(*port)),
            Edit::Hold(port, false) => drop(self.held.remove(port)),
        }
    }
}

/// An engine with what came of it so far.
pub(crate) struct Engine {
    pub(crate) translator: Translator,
    pub(crate) translation: Translation,
    /// Statuses put together from what each translation said had changed.
    pub(crate) heard: BTreeMap<ObjectKey, Arc<Status>>,
    /// Questions put together from what each translation said was wanted.
    pub(crate) asked: BTreeSet<Question>,
    /// Ports that strangers hold.
    held: BTreeSet<MachinePort>,
}

impl Engine {
    pub(crate) fn new(configuration: Configuration) -> Self {
        Self::of(Translator::new(configuration.settings()))
    }

    /// An engine that knows nothing yet.
    pub(crate) fn of(translator: Translator) -> Self {
        let mut engine = Self {
            translator,
            translation: Translation::default(),
            heard: BTreeMap::new(),
            asked: BTreeSet::new(),
            held: BTreeSet::new(),
        };
        engine.take(&Edit::Tell(NOW));
        engine
    }

    /// Takes an edit in without translating.
    pub(crate) fn take(&mut self, edit: &Edit) {
        match edit {
            Edit::Put(object) => self.translator.apply(Change::Put(object.clone())),
            Edit::Remove(key) => self.translator.apply(Change::Remove(key.clone())),
            Edit::Tell(now) => self.translator.apply(Change::Fact(Fact::Time(*now))),
            Edit::Hold(port, held) => {
                match held {
                    true => self.held.insert(*port),
                    false => self.held.remove(port),
                };
                self.answer(*port);
            }
            Edit::Configure(configuration) => self.translator.set_settings(configuration.settings()),
        }
    }

    fn answer(&mut self, port: MachinePort) {
        let holder = self.held.contains(&port).then(|| "a stranger".into());
        self.translator.apply(Change::Fact(Fact::Port(port, holder)));
    }

    /// Translates, and answers what is asked anew, until nothing is.
    pub(crate) fn translate(&mut self) {
        loop {
            self.translate_once();
            let added = self.translation.wanted.added.iter();
            let ports: Vec<MachinePort> = added
                .filter_map(|question| match question {
                    Question::Port(port) if self.held.contains(port) => Some(*port),
                    _ => None,
                })
                .collect();
            if ports.is_empty() {
                return;
            }
            ports.into_iter().for_each(|port| self.answer(port));
        }
    }

    fn translate_once(&mut self) {
        self.translation = self.translator.translate();
        // A unit that panics costs no more than itself; here that is a failure all the same.
        assert_eq!(self.translation.faults, []);
        let wanted = &self.translation.wanted;
        self.asked.extend(wanted.added.iter().cloned());
        self.asked.retain(|question| !wanted.removed.contains(question));
        for (key, status) in &self.translation.statuses {
            match status {
                Some(status) => self.heard.insert(key.clone(), Arc::clone(status)),
                None => self.heard.remove(key),
            };
        }
    }

    pub(crate) fn fleets(&self) -> &BTreeMap<FleetKey, Arc<Fleet>> {
        &self.translation.fleets
    }

    pub(crate) fn infra(&self) -> &BTreeMap<FleetKey, Arc<Infra>> {
        &self.translation.infra
    }
}
