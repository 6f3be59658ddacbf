//! The world as last seen: every object, indexed the way translation asks for it.
//!
//! Written by [`World::put`], and where facts from outside or settings come, each of which says which keys a change
//! touched. An object that comes again unchanged touches nothing.

use crate::{
    api::{self, EndpointSlice, Kind, Object, ObjectKey, ParentReference, ReferenceGrant, Timestamp},
    engine::{key::Key, unit::Subject},
    fact::{Fetched, FoundModule, MachinePort},
    name::{
        Ancestor, BackendId, BackendKind, BackendPort, BackendSets, Decisions, EndpointsId, FleetId, Id, Interner,
        ModuleId, Placement, PlacementId, Sym, Table, TableRef, Target, VariantId,
    },
    settings::Settings,
};
use edge_ir::{AppProtocol, ClusterName, EndpointSetName, PatchFailure, PortProtocol};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use std::{fmt::Write, sync::Arc};

mod ancestors;
mod covers;
mod outside;
mod policies;
mod references;
mod sets;

pub(crate) use covers::Cover;
use covers::Covers;
pub(crate) use policies::{is_in_force, is_policy_for, written};
use references::References;

/// Label of an EndpointSlice that names its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label of an EndpointSlice that names its ServiceImport.
const IMPORT_NAME: &str = "multicluster.kubernetes.io/service-name";

/// Objects of one group in order of name. Nearly all groups have one.
type ByName<T> = SmallVec<[(Arc<str>, Arc<T>); 1]>;

/// What a change touched.
#[derive(Default)]
pub(crate) struct Touched {
    /// Inputs that are another.
    pub(crate) keys: SmallVec<[Key; 4]>,
    /// What appeared, changed or went.
    pub(crate) subjects: SmallVec<[Subject; 2]>,
    /// Units for which something is another that nobody else asks for.
    pub(crate) units: SmallVec<[Key; 2]>,
    /// An object that was there is another, or gone.
    pub(crate) replaced: bool,
}

impl Touched {
    fn key(key: Key) -> Self {
        Self {
            keys: smallvec![key],
            ..Self::default()
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
    names: Interner,
    /// What policies decide is numbered while units run, as names are.
    decisions: Decisions,
    /// What is in sets of backends, which are made while units run.
    sets: BackendSets,
    /// Names of clusters, each made once however many routes use it.
    cluster_names: Table<BackendId, ClusterName>,
    /// Ancestors of policies as statuses write them.
    parent_references: Table<Ancestor, Arc<ParentReference>>,
    settings: Arc<Settings>,
    objects: FxHashMap<(Kind, Id), Object>,
    grants: FxHashMap<Sym, ByName<ReferenceGrant>>,
    slices: FxHashMap<Target, ByName<EndpointSlice>>,
    /// Which backend a slice belongs to, so that it leaves the right one when its label changes.
    slice_owner: FxHashMap<(Sym, Arc<str>), Target>,
    /// Who points where.
    references: References,
    /// Which policies point where.
    covers: Covers,
    /// The time that we were told last.
    now: Option<Timestamp>,
    /// Ports of the machine that others hold, and who.
    port_holders: FxHashMap<MachinePort, Arc<str>>,
    documents: FxHashMap<Sym, Fetched>,
    modules: FxHashMap<ModuleId, FoundModule>,
    /// Patches of fleets that could not be applied, as we were told.
    patch_failures: FxHashMap<FleetId, Arc<Vec<PatchFailure>>>,
}

impl World {
    /// An empty world.
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            names: Interner::new(),
            decisions: Decisions::default(),
            sets: BackendSets::default(),
            cluster_names: Table::default(),
            parent_references: Table::default(),
            settings: Arc::new(settings),
            objects: FxHashMap::default(),
            grants: FxHashMap::default(),
            slices: FxHashMap::default(),
            slice_owner: FxHashMap::default(),
            references: References::default(),
            covers: Covers::default(),
            now: None,
            port_holders: FxHashMap::default(),
            documents: FxHashMap::default(),
            modules: FxHashMap::default(),
            patch_failures: FxHashMap::default(),
        }
    }

    /// A world without objects and names, of which all else is known as here.
    pub(crate) fn emptied(&self) -> Self {
        let empty = Self {
            settings: Arc::clone(&self.settings),
            now: self.now,
            port_holders: self.port_holders.clone(),
            ..Self::new(Settings::default())
        };
        let told = self.patch_failures.iter();
        let patch_failures =
            told.map(|(fleet, failures)| (FleetId(empty.sym(&self.text(fleet.0))), Arc::clone(failures)));
        let patch_failures = patch_failures.collect();
        let fetched = self.documents.iter();
        let documents = fetched.map(|(url, fetched)| (empty.sym(&self.text(*url)), fetched.clone()));
        let documents = documents.collect();
        let modules = self.modules.iter();
        let modules = modules.map(|(id, found)| (empty.module_id(&self.wanted_module(*id)), found.clone()));
        let modules = modules.collect();
        Self {
            patch_failures,
            documents,
            modules,
            ..empty
        }
    }

    /// How much was numbered: names, decisions, and names of clusters and ancestors.
    pub(crate) fn numbers(&self) -> usize {
        let written = self.cluster_names.len() + self.parent_references.len();
        self.names.len() + self.decisions.len() + written
    }

    /// Makes what units added as cheap to read as the rest: they ask for that through a lock.
    pub(crate) fn settle(&mut self) {
        self.names.settle();
        self.decisions.settle();
        self.sets.settle();
        self.cluster_names.settle();
        self.parent_references.settle();
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
        self.names.sym(name)
    }

    /// The word for a namespace and name.
    pub(crate) fn id(&self, namespace: &str, name: &str) -> Id {
        Id {
            namespace: self.names.sym(namespace),
            name: self.names.sym(name),
        }
    }

    /// The name behind a word.
    pub(crate) fn text(&self, sym: Sym) -> Arc<str> {
        self.names.text(sym).share()
    }

    fn id_of(&mut self, key: &ObjectKey) -> Id {
        Id {
            namespace: self.names.sym_of_shared(&key.namespace),
            name: self.names.sym_of_shared(&key.name),
        }
    }

    /// What policies decide.
    pub(crate) fn decisions(&self) -> &Decisions {
        &self.decisions
    }

    /// The name of a cluster: that of the backend and what a context changes about it, so that neither the position in
    /// a route nor the route itself matters.
    pub(crate) fn cluster_name(&self, backend: BackendId) -> ClusterName {
        self.cluster_names
            .get_or_make(backend, || self.make_cluster_name(backend))
    }

    /// The name of a backend's endpoints, the same for every protocol and variant: that of its HTTP/1.1 cluster.
    pub(crate) fn endpoint_set_name(&self, port: BackendPort) -> EndpointSetName {
        EndpointSetName::new(self.cluster_name(BackendId {
            port,
            protocol: AppProtocol::Http1,
            variant: VariantId::OWN,
        }))
    }

    /// The list of endpoints that a cluster uses.
    pub(crate) fn endpoints_of(&self, backend: BackendId) -> EndpointsId {
        EndpointsId {
            port: backend.port,
            placement: self.decisions.placement_of(backend.variant),
        }
    }

    /// What is said of endpoints besides their addresses.
    pub(crate) fn placement(&self, id: PlacementId) -> TableRef<'_, Placement> {
        self.decisions.placement(id)
    }

    /// The name of a list of endpoints: that of the backend's, and what is said of them besides.
    pub(crate) fn endpoints_name(&self, list: EndpointsId) -> EndpointSetName {
        let own = self.endpoint_set_name(list.port);
        match list.placement {
            PlacementId::OWN => own,
            placement => {
                let suffix = self.decisions.placement_suffix(placement);
                EndpointSetName::new(format!("{own}{suffix}"))
            }
        }
    }

    /// What stands behind the name of a cluster for what a context changes about it.
    pub(crate) fn variant_suffix(&self, variant: VariantId) -> Option<Arc<str>> {
        self.decisions.suffix(variant)
    }

    fn make_cluster_name(&self, backend: BackendId) -> ClusterName {
        let BackendPort {
            target: Target { kind, id },
            port,
            transport,
        } = backend.port;
        let (namespace, name) = (self.names.text(id.namespace), self.names.text(id.name));
        let transport = match transport {
            PortProtocol::Tcp => "",
            PortProtocol::Udp => "/udp",
        };
        let protocol = match backend.protocol {
            AppProtocol::Http1 => "",
            AppProtocol::Http2 => "/http2",
        };
        let variant = self.variant_suffix(backend.variant);
        let variant = variant.as_deref().unwrap_or_default();
        // Every backend has one, and the formatter would take ten times as long.
        let mut text = String::with_capacity(kind.word().len() + namespace.len() + name.len() + variant.len() + 24);
        text.push_str(kind.word());
        for part in [&*namespace, &*name].into_iter().filter(|part| !part.is_empty()) {
            text.push('/');
            text.push_str(part);
        }
        let has_port = match kind {
            BackendKind::Service | BackendKind::ServiceImport => true,
            BackendKind::Custom => port > 0,
            BackendKind::Backend | BackendKind::Set => false,
        };
        if has_port {
            // Writing to a String can't fail.
            let _ = write!(text, "/{port}");
        }
        for part in [transport, protocol, variant] {
            text.push_str(part);
        }
        text.into()
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
        self.grants
            .get(&namespace)
            .into_iter()
            .flatten()
            .map(|(_, object)| object)
    }

    /// All EndpointSlices of a backend, by name.
    pub(crate) fn slices(&self, target: Target) -> impl Iterator<Item = &Arc<EndpointSlice>> {
        self.slices.get(&target).into_iter().flatten().map(|(_, object)| object)
    }

    /// Every object that units are made for; in no order.
    pub(crate) fn subjects(&self) -> impl Iterator<Item = (Kind, Id)> {
        self.objects.keys().copied()
    }

    /// Every object, in no order.
    pub(crate) fn everything(&self) -> impl Iterator<Item = Object> {
        let grants = self.grants.values().flatten().map(|(_, object)| object);
        let slices = self.slices.values().flatten().map(|(_, object)| object);
        let objects = self.objects.values().cloned();
        objects
            .chain(grants.map(|grant| Object::ReferenceGrant(Arc::clone(grant))))
            .chain(slices.map(|slice| Object::EndpointSlice(Arc::clone(slice))))
    }

    /// The ports of an object that can be a backend.
    pub(crate) fn backend_ports(&self, Target { kind, id }: Target) -> SmallVec<[BackendPort; 2]> {
        let object = kind.kind().and_then(|kind| self.object(kind, id));
        object.map(|object| ports_of(id, object)).unwrap_or_default()
    }

    /// Takes an object as it is now, or that it is gone, and says what that touched.
    pub(crate) fn put(&mut self, key: ObjectKey, object: Option<Object>) -> Touched {
        let touched = self.put_any(key, object);
        self.names.settle();
        touched
    }

    fn put_any(&mut self, key: ObjectKey, object: Option<Object>) -> Touched {
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
        touched.replaced = before.is_some();
        touched.subjects.extend(Subject::of(kind, id));
        if kind == Kind::Secret && self.is_certificate(id) {
            touched.subjects.push(Subject::Certificate(id));
        }
        let mut ports: SmallVec<[BackendPort; 2]> = SmallVec::new();
        for object in [&before, &object].into_iter().flatten() {
            ports.extend(ports_of(id, object));
        }
        ports.sort_unstable();
        ports.dedup();
        touched.subjects.extend(ports.into_iter().map(Subject::Port));
        self.turn_covers((kind, id), before.as_ref(), object.as_ref(), &mut touched);
        let (was, now) = (self.references_of(before.as_ref()), self.references_of(object.as_ref()));
        for target in self.references.turn((kind, id), &was, &now) {
            touched.push(Key::Referrers(target.0, target.1));
            if let (Kind::Secret, secret) = target {
                touched.subjects.push(Subject::Certificate(secret));
            }
        }
        touched
    }

    /// Who names an object.
    pub(crate) fn pointers(&self, kind: Kind, id: Id) -> impl Iterator<Item = (Kind, Id)> {
        self.references.to((kind, id))
    }

    /// Whether a certificate is one that somebody names as their own.
    pub(crate) fn is_certificate(&self, secret: Id) -> bool {
        self.pointers(Kind::Secret, secret).next().is_some()
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

/// Puts or removes one entry; says whether that made a difference.
fn replace<T: PartialEq>(group: &mut ByName<T>, name: &Arc<str>, value: Option<Arc<T>>) -> bool {
    match (group.binary_search_by(|(known, _)| known.cmp(name)), value) {
        (Ok(place), Some(value)) if group[place].1 == value => false,
        (Ok(place), Some(value)) => {
            group[place].1 = value;
            true
        }
        (Ok(place), None) => {
            group.remove(place);
            true
        }
        (Err(place), Some(value)) => {
            group.insert(place, (Arc::clone(name), value));
            true
        }
        (Err(_), None) => false,
    }
}
