//! The kinds whose statuses can be shown, and how they may be asked for on the command line.

use crate::kinds;
use edge_translate::api::Kind;

/// Where a kind keeps its conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// In the status itself.
    Own,
    /// For each parent.
    Parents,
    /// For each ancestor.
    Ancestors,
}

impl Family {
    /// That of a kind, if it has a status of ours.
    pub fn of(kind: Kind) -> Option<Self> {
        match kind {
            Kind::GatewayClass | Kind::Gateway | Kind::ListenerSet | Kind::Backend => Some(Self::Own),
            Kind::HttpRoute | Kind::GrpcRoute | Kind::TlsRoute | Kind::TcpRoute | Kind::UdpRoute => Some(Self::Parents),
            Kind::BackendTlsPolicy
            | Kind::EdgeProxy
            | Kind::ClientTrafficPolicy
            | Kind::BackendTrafficPolicy
            | Kind::SecurityPolicy
            | Kind::EdgeExtensionPolicy
            | Kind::EdgePatchPolicy
            | Kind::CustomPolicy => Some(Self::Ancestors),
            Kind::ReferenceGrant
            | Kind::Namespace
            | Kind::Service
            | Kind::ServiceImport
            | Kind::EndpointSlice
            | Kind::Secret
            | Kind::ConfigMap
            | Kind::ClusterTrustBundle
            | Kind::HttpRouteFilter
            | Kind::Custom => None,
        }
    }

    /// The column that says for whom a condition holds.
    pub fn reference_column(self) -> Option<&'static str> {
        match self {
            Self::Own => None,
            Self::Parents => Some("PARENT"),
            Self::Ancestors => Some("ANCESTOR REFERENCE"),
        }
    }
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Every kind whose name ends so.
    Ending(&'static str),
    /// One kind.
    One(Kind),
}

impl Selection {
    /// The kinds, in the order in which they are shown, with where they keep their conditions.
    pub fn kinds(self) -> impl Iterator<Item = (Kind, Family)> {
        let kinds = Kind::ALL.iter().copied().filter(move |kind| match self {
            Self::Ending(end) => kind.as_str().ends_with(end),
            Self::One(one) => *kind == one,
        });
        kinds.filter_map(|kind| Some((kind, Family::of(kind)?)))
    }
}

/// Reads what was asked for; case doesn't matter.
pub fn select(text: &str) -> Result<Selection, String> {
    for (name, end) in [("all", ""), ("xRoute", "Route"), ("xPolicy", "Policy")] {
        if name.eq_ignore_ascii_case(text) {
            return Ok(Selection::Ending(end));
        }
    }
    let found = kinds::find(text).filter(|kind| Family::of(*kind).is_some());
    found.map(Selection::One).ok_or_else(|| {
        let known = Selection::Ending("").kinds().map(|(kind, _)| kind);
        format!("there are all, xRoute, xPolicy, {}", kinds::list(known))
    })
}
