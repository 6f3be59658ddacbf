//! Those who are told: backends of ours, or what an address names.

use crate::{
    api::{
        self,
        cluster_settings::{BackendRef, ClusterSettings},
        shape::Backends,
    },
    engine::reader::Reader,
    name::{BackendId, BackendKind, BackendPort, SetMember, Target, Variant, VariantId},
    phase::{
        backends::{
            asked::{self, asked},
            defaults::TlsDefaults,
            set, settings,
        },
        hostname::authority,
        policies::traffic::{self, Problems},
    },
};
use edge_ir::{AppProtocol, ClusterName, CollectorRef, Pairs};
use std::{collections::BTreeSet, sync::Arc};

/// The cluster of one who is told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Collector {
    /// Its name, by what is told.
    pub(crate) name: ClusterName,
    /// What is spoken there.
    pub(crate) protocol: AppProtocol,
    /// Where it is.
    pub(crate) target: CollectorTarget,
}

/// Where one is who is told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CollectorTarget {
    /// A backend, or a set of several.
    Backend(BackendId),
    /// A host and a port.
    Host(Arc<str>, u16),
}

impl Collector {
    /// The backend whose endpoints are discovered.
    pub(crate) fn backend(&self) -> Option<BackendId> {
        match &self.target {
            CollectorTarget::Backend(backend) => Some(*backend),
            CollectorTarget::Host(..) => None,
        }
    }
}

/// Follows references, and keeps what it found.
pub(super) struct Finder<'a, 'r> {
    pub(super) reader: &'r Reader<'a>,
    /// Namespace of what names none.
    pub(super) home: &'r str,
    /// The fleet's key.
    pub(super) fleet: &'r str,
    /// How TLS is spoken, where a backend says nothing of it; or why it can't be spoken at all.
    pub(super) tls: Result<TlsDefaults, String>,
    pub(super) found: Vec<Collector>,
    /// Backends that are named, whether or not they can be told.
    pub(super) named: BTreeSet<BackendPort>,
}

impl Finder<'_, '_> {
    /// One who is told, under a name of its cluster.
    pub(super) fn collector(
        &mut self,
        name: &str,
        protocol: AppProtocol,
        backends: Backends<'_>,
        address: Option<(&str, u16)>,
        headers: Pairs,
    ) -> Result<CollectorRef, String> {
        if backends.single.is_some() {
            return Err("BackendRefs must be used, backendRef is not supported.".to_owned());
        }
        let (target, authority) = match (backends.listed, address) {
            ([], Some((host, port))) => self.at_host(host, port)?,
            ([], None) => return Err("host or backendRefs needs to be set".to_owned()),
            (listed, _) => self.at_backends(listed, protocol, backends.settings)?,
        };
        let cluster = ClusterName::from(name);
        self.found.push(Collector {
            name: cluster.clone(),
            protocol,
            target,
        });
        Ok(CollectorRef {
            cluster,
            authority,
            headers,
        })
    }

    pub(super) fn at_host(&self, host: &str, port: u16) -> Result<(CollectorTarget, Arc<str>), String> {
        let is_host = matches!(api::Hostname::parse(host), Ok(api::Hostname::Exact(_)));
        if !is_host && host.parse::<std::net::IpAddr>().is_err() {
            return Err(format!("{host:?} is neither a host name nor an address"));
        }
        if port == 0 {
            return Err("port 0 can't be reached".to_owned());
        }
        Ok((CollectorTarget::Host(host.into(), port), authority(host, port).into()))
    }

    fn at_backends(
        &mut self,
        listed: &[BackendRef],
        protocol: AppProtocol,
        settings: Option<&ClusterSettings>,
    ) -> Result<(CollectorTarget, Arc<str>), String> {
        let variant = settings.map_or(Ok(VariantId::OWN), |settings| self.variant(settings))?;
        let mut authority = None;
        let mut found = Vec::new();
        for reference in listed.iter().filter(|reference| reference.weight > 0) {
            let (port, host) = self.backend(reference)?;
            authority.get_or_insert(host);
            found.push(SetMember {
                port,
                weight: reference.weight,
                priority: set::priority_of(self.reader, port, reference.fallback),
            });
        }
        let Some(authority) = authority else {
            return Err("no backendRef has a weight".to_owned());
        };
        self.named.extend(found.iter().map(|member| member.port));
        let port = match found.as_slice() {
            [one] => one.port,
            _ => self.reader.backend_set(found),
        };
        if let Some(why) = asked::refusal(self.reader, port) {
            return Err(why.into_owned());
        }
        if let (true, Err(why)) = (settings::wants_tls(self.reader, port), &self.tls) {
            return Err(why.clone());
        }
        let backend = BackendId {
            port,
            protocol,
            variant,
        };
        Ok((CollectorTarget::Backend(backend), authority.into()))
    }

    fn variant(&self, settings: &ClusterSettings) -> Result<VariantId, String> {
        let mut problems = Problems::default();
        if settings.retry.is_some() {
            problems.add("Retry", "what is told is not told again");
        }
        let (variant, _): (Variant, _) = traffic::of_service(settings, &mut problems);
        match problems.is_empty() {
            true => Ok(self.reader.variant_id(variant)),
            false => Err(problems.joined().to_string()),
        }
    }

    /// The backend behind a reference, and the host that it is asked as. Who runs proxies says whom they tell, in
    /// whatever namespace that is: no ReferenceGrant is asked for.
    pub(super) fn backend(&self, reference: &BackendRef) -> Result<(BackendPort, String), String> {
        let kind = BackendKind::of(&reference.group, &reference.kind);
        let Some(kind @ (BackendKind::Service | BackendKind::Backend)) = kind else {
            return Err("BackendRefs only support Service and Backend kind.".to_owned());
        };
        let namespace = reference.namespace.as_deref().unwrap_or(self.home);
        let id = self.reader.id(namespace, &reference.name);
        // What is told decides what is spoken.
        let usual = AppProtocol::Http1;
        let (backend, host) = asked(self.reader, Target { kind, id }, reference.port, usual)?;
        Ok((backend.port, host))
    }
}
