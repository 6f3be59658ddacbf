//! The world as last seen: every object, indexed the way translation asks for it.
//!
//! Written only by [`World::apply`], which says which keys a change touched. An object that comes again unchanged
//! touches nothing.

use crate::{
    api::{self, EndpointSlice, Kind, Object, ObjectKey, ReferenceGrant},
    change::Change,
    engine::key::Key,
    name::{BackendId, BackendKind, BackendPort, Encryption, Id, Interner, Sym, Target},
    settings::Settings,
};
use edge_ir::{AppProtocol, ClusterName, EndpointSetName, PortProtocol};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    hash::Hash,
    sync::Arc,
};

mod guards;

use guards::{Guard, Guards, guards_of};
pub(crate) use guards::{NamedTarget, Reach, named_targets, protects};

/// Label of an EndpointSlice that names its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label of an EndpointSlice that names its ServiceImport.
const IMPORT_NAME: &str = "multicluster.kubernetes.io/service-name";

/// Objects of one group, by namespace and name where both count, in order of name.
type ByName<T> = BTreeMap<Arc<str>, Arc<T>>;

/// What a change touched.
#[derive(Default)]
pub(crate) struct Touched {
    /// Inputs.
    pub(crate) keys: SmallVec<[Key; 2]>,
    /// Ports that the object has or had, if it can be a backend.
    pub(crate) ports: SmallVec<[BackendPort; 2]>,
}

impl Touched {
    fn key(key: Key) -> Self {
        Self {
            keys: smallvec![key],
            ports: SmallVec::new(),
        }
    }

    fn nothing() -> Self {
        Self::default()
    }

    fn push(&mut self, key: Key) {
        self.keys.push(key);
    }
}

/// All objects.
pub(crate) struct World {
    /// Names are interned while units run, which only see a shared world.
    names: RefCell<Interner>,
    /// Names of clusters, each made once however many routes use it.
    cluster_names: RefCell<FxHashMap<BackendId, ClusterName>>,
    settings: Arc<Settings>,
    objects: FxHashMap<(Kind, Id), Object>,
    grants: FxHashMap<Sym, ByName<ReferenceGrant>>,
    slices: FxHashMap<Target, ByName<EndpointSlice>>,
    /// Which backend a slice belongs to, so that it leaves the right one when its label changes.
    slice_owner: FxHashMap<(Sym, Arc<str>), Target>,
    /// Classes and Gateways that name an EdgeProxy as their parameters.
    proxy_users: FxHashMap<Id, BTreeSet<(Kind, Id)>>,
    /// BackendTLSPolicies by what they point at.
    tls_policies: FxHashMap<Target, BTreeSet<Id>>,
    /// ListenerSets by the Gateway that they name.
    listener_sets: FxHashMap<Id, BTreeSet<Id>>,
    /// What protective policies cover.
    guards: Guards,
}

impl World {
    /// An empty world.
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            names: RefCell::new(Interner::new()),
            cluster_names: RefCell::default(),
            settings: Arc::new(settings),
            objects: FxHashMap::default(),
            grants: FxHashMap::default(),
            slices: FxHashMap::default(),
            slice_owner: FxHashMap::default(),
            proxy_users: FxHashMap::default(),
            tls_policies: FxHashMap::default(),
            listener_sets: FxHashMap::default(),
            guards: Guards::default(),
        }
    }

    /// The controller's settings.
    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Takes new settings; says whether they differ.
    pub(crate) fn set_settings(&mut self, settings: Settings) -> bool {
        let differ = *self.settings != settings;
        self.settings = Arc::new(settings);
        differ
    }

    /// The word for a name.
    pub(crate) fn sym(&self, name: &str) -> Sym {
        self.names.borrow_mut().sym(name)
    }

    /// The word for a namespace and name.
    pub(crate) fn id(&self, namespace: &str, name: &str) -> Id {
        let mut names = self.names.borrow_mut();
        Id {
            namespace: names.sym(namespace),
            name: names.sym(name),
        }
    }

    /// The name behind a word.
    pub(crate) fn text(&self, sym: Sym) -> Arc<str> {
        Arc::clone(self.names.borrow().text(sym))
    }

    fn id_of(&self, key: &ObjectKey) -> Id {
        let mut names = self.names.borrow_mut();
        Id {
            namespace: names.sym_of_shared(&key.namespace),
            name: names.sym_of_shared(&key.name),
        }
    }

    /// The name of a cluster: that of the backend, so that neither the position in a route nor the route itself matters.
    pub(crate) fn cluster_name(&self, backend: BackendId) -> ClusterName {
        let mut names = self.cluster_names.borrow_mut();
        names
            .entry(backend)
            .or_insert_with(|| self.make_cluster_name(backend))
            .clone()
    }

    /// The name of a backend's endpoints, the same for every protocol: that of its HTTP/1.1 cluster.
    pub(crate) fn endpoint_set_name(&self, port: BackendPort) -> EndpointSetName {
        let protocol = AppProtocol::Http1;
        let encryption = Encryption::Policy;
        EndpointSetName::new(self.cluster_name(BackendId {
            port,
            protocol,
            encryption,
        }))
    }

    fn make_cluster_name(&self, backend: BackendId) -> ClusterName {
        let BackendPort {
            target: Target { kind, id },
            port,
            transport,
        } = backend.port;
        let names = self.names.borrow();
        let (namespace, name) = (names.text(id.namespace), names.text(id.name));
        let transport = match transport {
            PortProtocol::Tcp => "",
            PortProtocol::Udp => "/udp",
        };
        let protocol = match backend.protocol {
            AppProtocol::Http1 => "",
            AppProtocol::Http2 => "/http2",
        };
        let protocol = match backend.encryption {
            Encryption::Policy => protocol,
            Encryption::Client => "/passthrough",
        };
        match kind {
            BackendKind::Backend => format!("{}/{namespace}/{name}{transport}{protocol}", kind.word()).into(),
            _ => format!("{}/{namespace}/{name}/{port}{transport}{protocol}", kind.word()).into(),
        }
    }

    /// An object's key in words of the API.
    pub(crate) fn object_key(&self, kind: Kind, id: Id) -> ObjectKey {
        ObjectKey::new(kind, self.text(id.namespace), self.text(id.name))
    }

    /// One object.
    pub(crate) fn object(&self, kind: Kind, id: Id) -> Option<&Object> {
        self.objects.get(&(kind, id))
    }

    /// All ReferenceGrants in a namespace, by name.
    pub(crate) fn grants(&self, namespace: Sym) -> impl Iterator<Item = &Arc<ReferenceGrant>> {
        self.grants.get(&namespace).into_iter().flat_map(BTreeMap::values)
    }

    /// All EndpointSlices of a backend, by name.
    pub(crate) fn slices(&self, target: Target) -> impl Iterator<Item = &Arc<EndpointSlice>> {
        self.slices.get(&target).into_iter().flat_map(BTreeMap::values)
    }

    /// Every object that units are made for; in no order.
    pub(crate) fn subjects(&self) -> impl Iterator<Item = (Kind, Id)> {
        self.objects.keys().copied()
    }

    /// The ports of an object that can be a backend.
    pub(crate) fn backend_ports(&self, kind: Kind, id: Id) -> SmallVec<[BackendPort; 2]> {
        self.object(kind, id).map(|o| ports_of(id, o)).unwrap_or_default()
    }

    /// Takes a change in, and says what it touched.
    pub(crate) fn apply(&mut self, change: Change) -> Touched {
        let (key, object) = match change {
            Change::Put(object) => (object.key(), Some(object)),
            Change::Remove(key) => (key, None),
        };
        match (key.kind, object) {
            (Kind::EndpointSlice, Some(Object::EndpointSlice(slice))) => self.put_slice(&key, Some(slice)),
            (Kind::EndpointSlice, _) => self.put_slice(&key, None),
            (Kind::ReferenceGrant, Some(Object::ReferenceGrant(grant))) => self.put_grant(&key, Some(grant)),
            (Kind::ReferenceGrant, _) => self.put_grant(&key, None),
            (kind, object) => self.put_object(kind, &key, object),
        }
    }

    fn put_object(&mut self, kind: Kind, key: &ObjectKey, object: Option<Object>) -> Touched {
        let id = self.id_of(key);
        let before = match object.clone() {
            Some(object) => self.objects.insert((kind, id), object),
            None => self.objects.remove(&(kind, id)),
        };
        if before == object {
            return Touched::nothing();
        }
        let mut touched = Touched::key(Key::Object(kind, id));
        for object in [&before, &object].into_iter().flatten() {
            touched.ports.extend(ports_of(id, object));
        }
        touched.ports.sort_unstable();
        touched.ports.dedup();
        let (was, now) = (self.parameters_of(before.as_ref()), self.parameters_of(object.as_ref()));
        if let Some(proxy) = was.filter(|_| was != now) {
            self.proxy_users.entry(proxy).or_default().remove(&(kind, id));
            touched.push(Key::ProxyUsers(proxy));
        }
        if let Some(proxy) = now.filter(|_| was != now) {
            self.proxy_users.entry(proxy).or_default().insert((kind, id));
            touched.push(Key::ProxyUsers(proxy));
        }
        self.point_tls_policy(id, before.as_ref(), object.as_ref(), &mut touched);
        self.point_listener_set(id, before.as_ref(), object.as_ref(), &mut touched);
        self.move_guards((kind, id), before.as_ref(), object.as_ref(), &mut touched);
        touched
    }

    /// The EdgeProxy that a class or Gateway names.
    fn parameters_of(&self, object: Option<&Object>) -> Option<Id> {
        match object? {
            Object::GatewayClass(class) => {
                let reference = class.spec.parameters_ref.as_deref().filter(|r| r.kind == "EdgeProxy")?;
                Some(self.id(reference.namespace.as_deref()?, &reference.name))
            }
            Object::Gateway(gateway) => {
                let infrastructure = gateway.spec.infrastructure.as_deref()?;
                let reference = infrastructure
                    .parameters_ref
                    .as_ref()
                    .filter(|r| r.kind == "EdgeProxy")?;
                Some(self.id(&gateway.metadata.namespace, &reference.name))
            }
            _ => None,
        }
    }

    /// Keeps the index of BackendTLSPolicies.
    fn point_tls_policy(&mut self, id: Id, was: Option<&Object>, now: Option<&Object>, touched: &mut Touched) {
        let (was, now) = (self.tls_targets(was), self.tls_targets(now));
        let turned = point(&mut self.tls_policies, id, &was, &now);
        touched.keys.extend(turned.into_iter().map(Key::TlsPolicies));
    }

    /// Keeps the index of ListenerSets.
    fn point_listener_set(&mut self, id: Id, was: Option<&Object>, now: Option<&Object>, touched: &mut Touched) {
        let (was, now) = (self.extended_gateway(was), self.extended_gateway(now));
        let turned = point(&mut self.listener_sets, id, &was, &now);
        touched.keys.extend(turned.into_iter().map(Key::ListenerSets));
    }

    /// The Gateway that a ListenerSet names.
    fn extended_gateway(&self, object: Option<&Object>) -> BTreeSet<Id> {
        let Some(Object::ListenerSet(set)) = object else {
            return BTreeSet::new();
        };
        let parent = &set.spec.parent_ref;
        let namespace = parent.namespace.as_deref().unwrap_or(&set.metadata.namespace);
        BTreeSet::from([self.id(namespace, &parent.name)])
    }

    /// ListenerSets that name a Gateway.
    pub(crate) fn listener_sets(&self, gateway: Id) -> impl Iterator<Item = Id> {
        self.listener_sets.get(&gateway).into_iter().flatten().copied()
    }

    /// The backends that a BackendTLSPolicy points at.
    fn tls_targets(&self, object: Option<&Object>) -> BTreeSet<Target> {
        let Some(Object::BackendTlsPolicy(policy)) = object else {
            return BTreeSet::new();
        };
        let target = |t: &api::PolicyTargetRef| {
            Some(Target {
                kind: BackendKind::of(&t.group, &t.kind)?,
                id: self.id(&policy.metadata.namespace, &t.name),
            })
        };
        policy.spec.target_refs.iter().filter_map(target).collect()
    }

    /// BackendTLSPolicies that point at a backend.
    pub(crate) fn tls_policies(&self, target: Target) -> impl Iterator<Item = Id> {
        self.tls_policies.get(&target).into_iter().flatten().copied()
    }

    /// Classes and Gateways that name an EdgeProxy.
    pub(crate) fn proxy_users(&self, proxy: Id) -> impl Iterator<Item = (Kind, Id)> {
        self.proxy_users.get(&proxy).into_iter().flatten().copied()
    }

    /// Keeps the list of what policies protect.
    fn move_guards(&mut self, policy: (Kind, Id), was: Option<&Object>, now: Option<&Object>, touched: &mut Touched) {
        let [was, now] = [was, now].map(|object| object.map(|o| guards_of(self, o)).unwrap_or_default());
        for guard in &was {
            self.guards.remove(*guard, policy);
        }
        for guard in &now {
            self.guards.add(*guard, policy);
        }
        let places = was.into_iter().chain(now).flat_map(|guard| self.guarded_places(guard));
        touched.keys.extend(places);
    }

    /// Where a policy may cover something.
    fn guarded_places(&self, guard: Guard) -> Vec<Key> {
        match guard {
            Guard::One(kind, id) => vec![Key::Guards(kind, id.namespace)],
            Guard::All(kind, namespace) => vec![Key::Guards(kind, namespace)],
            // Whoever asks in a namespace that comes later finds the policy there.
            Guard::Beyond(Reach { target, .. }) => {
                let places = self.objects.keys().filter(|(kind, _)| *kind == target);
                let namespaces: BTreeSet<Sym> = places.map(|(_, id)| id.namespace).collect();
                namespaces.into_iter().map(|n| Key::Guards(target, n)).collect()
            }
        }
    }

    /// Policies of its own namespace that can't be honoured and cover the object.
    pub(crate) fn guards(&self, kind: Kind, id: Id) -> impl Iterator<Item = (Kind, Id)> {
        self.guards.near(kind, id)
    }

    /// Policies of other namespaces that can't be honoured, and that cover objects of a kind where they are let in.
    pub(crate) fn guards_beyond(&self, kind: Kind) -> impl Iterator<Item = (Reach, &BTreeSet<Id>)> {
        self.guards.beyond(kind)
    }

    fn put_grant(&mut self, key: &ObjectKey, grant: Option<Arc<ReferenceGrant>>) -> Touched {
        let namespace = self.sym(&key.namespace);
        let group = self.grants.entry(namespace).or_default();
        let changed = replace(group, &key.name, grant);
        if group.is_empty() {
            self.grants.remove(&namespace);
        }
        if changed {
            Touched::key(Key::Grants(namespace))
        } else {
            Touched::nothing()
        }
    }

    fn put_slice(&mut self, key: &ObjectKey, slice: Option<Arc<EndpointSlice>>) -> Touched {
        let owner = slice.as_deref().and_then(|s| self.owner_of(&key.namespace, s));
        let place = (self.sym(&key.namespace), Arc::clone(&key.name));
        let before = match owner {
            Some(owner) => self.slice_owner.insert(place, owner),
            None => self.slice_owner.remove(&place),
        };
        let mut touched = Touched::nothing();
        if let Some(before) = before.filter(|b| Some(*b) != owner)
            && self.replace_slice(before, &key.name, None)
        {
            touched.push(Key::Slices(before));
        }
        if let Some(owner) = owner
            && self.replace_slice(owner, &key.name, slice)
        {
            touched.push(Key::Slices(owner));
        }
        touched
    }

    fn replace_slice(&mut self, owner: Target, name: &Arc<str>, slice: Option<Arc<EndpointSlice>>) -> bool {
        let group = self.slices.entry(owner).or_default();
        let changed = replace(group, name, slice);
        if group.is_empty() {
            self.slices.remove(&owner);
        }
        changed
    }

    fn owner_of(&self, namespace: &str, slice: &EndpointSlice) -> Option<Target> {
        let labels = &slice.metadata.labels;
        let (kind, name) = match (labels.get(SERVICE_NAME), labels.get(IMPORT_NAME)) {
            (_, Some(name)) => (BackendKind::ServiceImport, name),
            (Some(name), None) => (BackendKind::Service, name),
            (None, None) => return None,
        };
        Some(Target {
            kind,
            id: self.id(namespace, name),
        })
    }
}

/// The ports of an object that can be a backend.
fn ports_of(id: Id, object: &Object) -> SmallVec<[BackendPort; 2]> {
    let on = |kind, port, transport| BackendPort {
        target: Target { kind, id },
        port,
        transport,
    };
    let of = |kind, ports: &[api::ServicePort]| {
        let served = ports.iter().filter_map(|p| Some((p.port, transport(&p.protocol)?)));
        served.map(|(port, transport)| on(kind, port, transport)).collect()
    };
    match object {
        Object::Service(service) => of(BackendKind::Service, &service.spec.ports),
        Object::ServiceImport(import) => of(BackendKind::ServiceImport, &import.spec.ports),
        Object::Backend(_) => [PortProtocol::Tcp, PortProtocol::Udp]
            .map(|t| on(BackendKind::Backend, 0, t))
            .into_iter()
            .collect(),
        _ => SmallVec::new(),
    }
}

/// The transport protocol of a Service's port, where it is one that is served.
pub(crate) fn transport(protocol: &api::IpProtocol) -> Option<PortProtocol> {
    match protocol {
        api::IpProtocol::Tcp => Some(PortProtocol::Tcp),
        api::IpProtocol::Udp => Some(PortProtocol::Udp),
        _ => None,
    }
}

/// Moves an object from the places that it pointed at to those that it points at; says which these are.
fn point<K: Copy + Ord + Hash>(
    index: &mut FxHashMap<K, BTreeSet<Id>>,
    id: Id,
    was: &BTreeSet<K>,
    now: &BTreeSet<K>,
) -> Vec<K> {
    let (gone, come) = (was.difference(now), now.difference(was));
    for place in gone.clone() {
        if let Some(ids) = index.get_mut(place) {
            ids.remove(&id);
            if ids.is_empty() {
                index.remove(place);
            }
        }
    }
    for place in come.clone() {
        index.entry(*place).or_default().insert(id);
    }
    gone.chain(come).copied().collect()
}

/// Puts or removes one entry; says whether that made a difference.
fn replace<T: PartialEq>(group: &mut ByName<T>, name: &Arc<str>, value: Option<Arc<T>>) -> bool {
    match value {
        Some(value) => match group.get(name) {
            Some(old) if *old == value => false,
            _ => {
                group.insert(Arc::clone(name), value);
                true
            }
        },
        None => group.remove(name).is_some(),
    }
}
