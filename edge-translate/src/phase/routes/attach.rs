//! Where a route attaches: a verdict for each of its parentRefs, the listeners and hostnames it gets, and what policies
//! decide for it there.

use crate::{
    api::{FromNamespaces, Metadata, ParentReference, Protocol, Text, text::Hostname},
    engine::reader::Reader,
    name::{Ancestor, ContextId, FleetId, Id, ListenerId, RouteId, RouteKind, Sym, holder},
    phase::{
        gateways::gateway::Gateway,
        hostname::{self, Specificity},
        listeners::{
            fleet::Serving,
            listener_set,
            view::{ListenerView, ListenerViews},
        },
        namespace,
        policies::{attachment::PolicyHolders, custom, effective},
    },
};
use edge_ir::{RouteTableName, Seldom};
use smallvec::SmallVec;
use std::{borrow::Cow, sync::Arc};

/// What came of a route's parentRefs. Those that lead to nobody or to another controller's Gateway are left out.
/// Nearly every route has one parent, one listener and one hostname: that takes one allocation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Attachments {
    /// In the order of the route.
    pub(crate) parents: SmallVec<[Parent; 1]>,
    /// ParentRefs that name an object which doesn't exist.
    pub(crate) lost: Seldom<Arc<ParentReference>>,
    /// Those that hold it and its rules; mostly none.
    pub(crate) held: Option<Box<PolicyHolders>>,
    /// Policies over it that only extension services know.
    pub(crate) custom: custom::OverRoute,
}

/// What came of one parentRef.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parent {
    /// The reference as written.
    pub(crate) reference: Arc<ParentReference>,
    /// The Gateway it names, or that the ListenerSet it names belongs to.
    pub(crate) gateway: Id,
    /// The ListenerSet it names.
    pub(crate) set: Option<Id>,
    /// The listener it names.
    pub(crate) section: Option<Sym>,
    /// Listeners that took the route; none if one of the reasons applies.
    pub(crate) verdict: Result<SmallVec<[Attachment; 1]>, Refusal>,
}

impl Parent {
    /// The parent as the ancestor of a policy on the route.
    pub(crate) fn ancestor(&self) -> Ancestor {
        let (kind, id) = holder(self.gateway, self.set);
        Ancestor {
            section: self.section,
            ..Ancestor::object(kind, id)
        }
    }
}

/// A listener that took the route.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Attachment {
    /// The listener.
    pub(crate) listener: ListenerId,
    /// Its fleet.
    pub(crate) fleet: FleetId,
    /// Whether it serves.
    pub(crate) serving: Serving,
    /// What policies decide for the route there.
    pub(crate) context: ContextId,
    /// The table of its virtual hosts.
    pub(crate) table: RouteTableName,
    /// Effective hostnames (of TLS listeners: server names) that requests can reach, each with the route's own hostname
    /// behind it. Empty when the listener doesn't serve.
    pub(crate) hosts: SmallVec<[AttachedHost; 1]>,
}

/// An effective hostname.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AttachedHost {
    /// The hostname, `*` for every one.
    pub(crate) host: Sym,
    /// How specific the hostname in the route is; decides between routes of the same effective hostname.
    pub(crate) own: Specificity,
}

/// Why no listener of a parent took the route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// sectionName or port selects nothing.
    NoMatchingParent,
    /// No selected listener takes this kind from this namespace.
    NotAllowedByListeners,
    /// All selected listeners are TLS listeners without usable TLS settings.
    NoReadyListeners,
    /// No hostname in common.
    NoMatchingListenerHostname,
}

/// What attachment needs of a route.
struct Subject<'a> {
    kind: RouteKind,
    namespace: &'a str,
    parents: &'a [Arc<ParentReference>],
    /// Its hostnames, without what is none; all hosts where it says nothing.
    hostnames: SmallVec<[Own<'a>; 1]>,
    /// Policies on itself.
    held: PolicyHolders,
}

/// A hostname of a route.
struct Own<'a> {
    /// In lower case.
    text: Cow<'a, str>,
    specificity: Specificity,
}

impl<'a> Own<'a> {
    /// The API server would refuse what is no hostname, and its virtual host could take the name of another.
    fn read(written: &'a str) -> Option<Self> {
        let text = match written.bytes().any(|b| b.is_ascii_uppercase()) {
            true => Cow::Owned(written.to_lowercase()),
            false => Cow::Borrowed(hostname::text(Some(written))),
        };
        let is_hostname = text == hostname::ANY || Hostname::parse(&text).is_ok();
        is_hostname.then(|| Self {
            specificity: Specificity::of(&text),
            text,
        })
    }
}

/// What a route says about where it attaches: itself, its parents, its hostnames.
type Written<'a> = (&'a Metadata, &'a [Arc<ParentReference>], &'a [Text]);

fn written<'a>(reader: &Reader<'a>, route: RouteId) -> Option<Written<'a>> {
    Some(match route.kind {
        RouteKind::Http => {
            let object = reader.http_route(route.id)?;
            (&object.metadata, &object.spec.parent_refs, &object.spec.hostnames)
        }
        RouteKind::Grpc => {
            let object = reader.grpc_route(route.id)?;
            (&object.metadata, &object.spec.parent_refs, &object.spec.hostnames)
        }
        RouteKind::Tls => {
            let object = reader.tls_route(route.id)?;
            (&object.metadata, &object.spec.parent_refs, &object.spec.hostnames)
        }
        RouteKind::Tcp => {
            let object = reader.tcp_route(route.id)?;
            (&object.metadata, &object.spec.parent_refs, &[])
        }
        RouteKind::Udp => {
            let object = reader.udp_route(route.id)?;
            (&object.metadata, &object.spec.parent_refs, &[])
        }
    })
}

/// Hostnames of a route that attachment passes over.
pub(crate) fn bad_hostnames<'a>(reader: &Reader<'a>, route: RouteId) -> Vec<&'a str> {
    let hostnames = written(reader, route).map(|(_, _, hostnames)| hostnames);
    let hostnames = hostnames.unwrap_or_default().iter();
    hostnames
        .map(|own| &**own)
        .filter(|own| Own::read(own).is_none())
        .collect()
}

impl Attachments {
    /// All listeners that took the route.
    pub(crate) fn attached(&self) -> impl Iterator<Item = &Attachment> {
        self.parents.iter().flat_map(|parent| parent.verdict.iter().flatten())
    }

    /// What policies decide at a listener; none where it didn't take the route.
    pub(crate) fn context_at(&self, listener: ListenerId) -> Option<ContextId> {
        let mut attached = self.attached();
        attached.find(|a| a.listener == listener).map(|a| a.context)
    }
}

/// Attaches a route; none when it doesn't exist.
pub(crate) fn attach(reader: &Reader<'_>, route: RouteId) -> Option<Attachments> {
    let (metadata, parents, hostnames) = written(reader, route)?;
    let every = hostnames.is_empty().then_some(hostname::ANY);
    let hostnames = hostnames.iter().map(|own| &**own).chain(every);
    let subject = Subject {
        kind: route.kind,
        namespace: &metadata.namespace,
        parents,
        hostnames: hostnames.filter_map(Own::read).collect(),
        held: effective::own(reader, route),
    };
    let mut parents = SmallVec::new();
    let mut lost = Vec::new();
    for reference in subject.parents {
        match attach_to(reader, &subject, reference) {
            Ok(parent) => parents.push(parent),
            Err(Elsewhere::Nowhere) => lost.push(Arc::clone(reference)),
            Err(Elsewhere::Others) => {}
        }
    }
    let lost = lost.into();
    Some(Attachments {
        parents,
        lost,
        held: subject.held.boxed(),
        custom: custom::over_route(reader, route),
    })
}

/// Where a parentRef leads that doesn't lead to us.
enum Elsewhere {
    /// To an object of another controller, or of a kind that isn't ours.
    Others,
    /// To an object that doesn't exist.
    Nowhere,
}

fn attach_to(
    reader: &Reader<'_>,
    subject: &Subject<'_>,
    reference: &Arc<ParentReference>,
) -> Result<Parent, Elsewhere> {
    if reference.group != "gateway.networking.k8s.io" {
        return Err(Elsewhere::Others);
    }
    let namespace = reference.namespace.as_deref().unwrap_or(subject.namespace);
    let named = reader.id(namespace, &reference.name);
    let (gateway, set) = match &*reference.kind {
        "Gateway" => (named, None),
        "ListenerSet" => {
            let object = reader.listener_set(named).ok_or(Elsewhere::Nowhere)?;
            let parent = listener_set::parent(reader, object).ok_or(Elsewhere::Others)?;
            (parent, Some(named))
        }
        _ => return Err(Elsewhere::Others),
    };
    // A ListenerSet without its Gateway says so itself.
    let missing = if set.is_some() {
        Elsewhere::Others
    } else {
        Elsewhere::Nowhere
    };
    let Gateway::Member(_) = &**reader.gateway(gateway).ok_or(missing)? else {
        return Err(Elsewhere::Others);
    };
    let views = reader.listener_views(gateway).ok_or(Elsewhere::Others)?;
    let verdict = judge(reader, subject, reference, set, views);
    Ok(Parent {
        reference: Arc::clone(reference),
        gateway,
        set,
        section: reference.section_name.as_deref().map(|name| reader.sym(name)),
        verdict,
    })
}

/// Listeners of one Gateway.
type Candidates<'a> = SmallVec<[&'a ListenerView; 8]>;

fn judge(
    reader: &Reader<'_>,
    subject: &Subject<'_>,
    reference: &ParentReference,
    set: Option<Id>,
    views: &ListenerViews,
) -> Result<SmallVec<[Attachment; 1]>, Refusal> {
    let selected: Candidates<'_> = views
        .listeners
        .iter()
        .filter(|d| d.id.set == set && selects(reference, d))
        .collect();
    if selected.is_empty() {
        return Err(Refusal::NoMatchingParent);
    }
    let of_kind: Candidates<'_> = selected
        .iter()
        .copied()
        .filter(|d| d.kinds.contains(&subject.kind.kind()))
        .collect();
    if of_kind.is_empty()
        && subject.kind.is_by_host()
        && selected
            .iter()
            .all(|d| d.protocol == Protocol::Tls && d.serving == Serving::No)
    {
        return Err(Refusal::NoReadyListeners);
    }
    let allowed: Candidates<'_> = of_kind
        .into_iter()
        .filter(|d| allows_namespace(reader, d, subject.namespace))
        .collect();
    if allowed.is_empty() {
        return Err(Refusal::NotAllowedByListeners);
    }
    let attachments: SmallVec<[Attachment; 1]> = allowed
        .into_iter()
        .filter_map(|d| enter(reader, subject, views.fleet, d))
        .collect();
    if attachments.is_empty() {
        Err(Refusal::NoMatchingListenerHostname)
    } else {
        Ok(attachments)
    }
}

fn selects(reference: &ParentReference, view: &ListenerView) -> bool {
    reference.section_name.as_deref().is_none_or(|name| name == &*view.name)
        && reference.port.is_none_or(|port| port == view.port)
}

fn allows_namespace(reader: &Reader<'_>, view: &ListenerView, route: &str) -> bool {
    match view.namespaces.from {
        FromNamespaces::All => true,
        // The same as that of the object which the listener stands in.
        FromNamespaces::Same => *route == *reader.text(view.id.set.unwrap_or(view.id.gateway).namespace),
        FromNamespaces::Selector => {
            let selector = view.namespaces.selector.as_ref();
            selector.is_some_and(|selector| namespace::is_selected(reader, selector, route))
        }
        FromNamespaces::None | FromNamespaces::Other(_) => false,
    }
}

/// A route on a listener, with the hostnames that it gets there; none when they have none in common.
fn enter(reader: &Reader<'_>, subject: &Subject<'_>, fleet: FleetId, view: &ListenerView) -> Option<Attachment> {
    // Plain streams have no host: what serves is decided where the socket is built.
    let has_hosts = subject.kind.is_by_host() || view.protocol == Protocol::Tls;
    let hosts = match has_hosts {
        true => common_hosts(reader, subject, view)?,
        false => SmallVec::new(),
    };
    Some(Attachment {
        listener: view.id,
        fleet,
        serving: view.serving,
        context: effective::effective(reader, subject.kind, &subject.held, &view.inherited),
        table: view.table.clone(),
        hosts,
    })
}

/// The hostnames that a route and a listener have in common and that are served there; none when there are none.
fn common_hosts(
    reader: &Reader<'_>,
    subject: &Subject<'_>,
    view: &ListenerView,
) -> Option<SmallVec<[AttachedHost; 1]>> {
    let mut hosts = SmallVec::new();
    let mut common = false;
    for own in &subject.hostnames {
        let Some(effective) = hostname::intersect(&view.hostname, &own.text) else {
            continue;
        };
        common = true;
        let shadowed = view.narrower.iter().any(|n| hostname::covers(n, effective));
        if view.serving == Serving::No || shadowed {
            continue;
        }
        let host = reader.sym(effective);
        let own = own.specificity;
        match hosts.iter_mut().find(|h: &&mut AttachedHost| h.host == host) {
            Some(host) => host.own = host.own.max(own),
            None => hosts.push(AttachedHost { host, own }),
        }
    }
    common.then_some(hosts)
}
