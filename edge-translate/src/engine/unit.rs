//! The table of units: in which stage each runs, and what it lives with.
//!
//! A unit comes to life with its *subject* and is woken whenever that appears, changes or goes. So a unit may read the
//! object it is about without a record, and one that gives nothing keeps its reads for as long as its subject is there:
//! it may give something tomorrow. Both directions come from one row, so that no unit can be woken by one thing and
//! believe that it lives with another.

use super::{
    Translator,
    index::Index,
    key::Key,
    memo::{MemoKey, Role},
};
use crate::{
    api::Kind,
    name::{BackendId, BackendPort, EndpointsId, FleetId, HostId, Id, Interner, RouteId, RouteKind, SocketId},
    phase::statuses::has_status,
    world::World,
};
use smallvec::SmallVec;

/// What a unit lives with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// An object.
    Object(Kind, Id),
    /// A route object.
    Route(RouteId),
    /// A Secret that is named as a certificate.
    Certificate(Id),
    /// A port of an object that can be a backend.
    Port(BackendPort),
    /// A fleet, for as long as it has a Gateway.
    Fleet(FleetId),
    /// A socket of a fleet, for as long as a listener serves there.
    Socket(SocketId),
    /// A hostname of a listener, for as long as something attaches there.
    Host(HostId),
    /// A backend that a fleet sends traffic to.
    Backend(FleetId, BackendId),
    /// A port of a backend whose endpoints a fleet needs.
    Endpoints(FleetId, EndpointsId),
}

impl Subject {
    /// The object that it is, or is a part of: every change to it wakes the subject's units.
    pub(crate) fn object(self) -> Option<(Kind, Id)> {
        match self {
            Self::Object(kind, id) => Some((kind, id)),
            Self::Route(route) => Some((route.kind.kind(), route.id)),
            Self::Certificate(id) => Some((Kind::Secret, id)),
            Self::Port(port) => Some((port.target.kind.kind()?, port.target.id)),
            Self::Fleet(_) | Self::Socket(_) | Self::Host(_) | Self::Backend(..) | Self::Endpoints(..) => None,
        }
    }

    /// Whether it is there.
    pub(super) fn exists(self, world: &World, index: &Index) -> bool {
        match self {
            Self::Object(kind, id) => world.object(kind, id).is_some(),
            Self::Route(route) => world.object(route.kind.kind(), route.id).is_some(),
            Self::Certificate(id) => world.object(Kind::Secret, id).is_some() && world.is_certificate(id),
            Self::Port(port) => world.backend_ports(port.target).contains(&port),
            Self::Fleet(fleet) => !index.members(fleet).is_empty(),
            Self::Socket(socket) => !index.socket_listeners(socket).is_empty(),
            Self::Host(host) => index.host_routes(host).is_some(),
            Self::Backend(fleet, backend) => index.is_used(fleet, backend),
            Self::Endpoints(fleet, list) => index.needs_endpoints(fleet, list),
        }
    }

    /// The subjects that an object is by itself: not its ports, nor a certificate, which it is for who names it.
    pub(crate) fn of(kind: Kind, id: Id) -> impl Iterator<Item = Self> {
        let route = RouteKind::of(kind).map(|kind| Self::Route(RouteId { kind, id }));
        [Self::Object(kind, id)].into_iter().chain(route)
    }
}

macro_rules! units {
    (
        inputs { $($input:ident)+ }
        indexes { $($keeper:literal: $($index:ident)+;)+ }
        units { $($stage:literal $unit:ident($($field:ident),+) lives with $subject:tt $(if $guard:expr)?;)+ }
    ) => {
        impl MemoKey for Key {
            fn role(&self) -> Role {
                match self {
                    $(Self::$input { .. } => Role::Input,)+
                    $($(Self::$index { .. } => Role::Index($keeper),)+)+
                    $(Self::$unit { .. } => Role::Unit($stage),)+
                }
            }

            fn is_followed(&self) -> bool {
                matches!(self, Self::Fact(_))
            }
        }

        /// The names of units, in the order of the table.
        const NAMES: &[&str] = &[$(stringify!($unit)),+];

        /// The stages of units, in the order of the table.
        #[cfg(test)]
        const STAGES: &[usize] = &[$($stage),+];

        /// Where a unit stands in the table.
        enum Row {
            $($unit),+
        }

        impl Key {
            /// Where the unit stands in the table; none for what is no unit.
            fn row(&self) -> Option<usize> {
                match self {
                    $(Self::$unit { .. } => Some(Row::$unit as usize),)+
                    _ => None,
                }
            }

            /// What the unit lives with; none for what is no unit.
            pub(crate) fn subject(&self) -> Option<Subject> {
                match *self {
                    $(Self::$unit($($field),+) => Some(units!(@subject $subject)),)+
                    _ => None,
                }
            }
        }

        impl Subject {
            /// The units that live with it.
            pub(crate) fn units(self) -> SmallVec<[Key; 4]> {
                let mut units = SmallVec::new();
                $(
                    if let units!(@subject $subject) = self $(&& $guard)? {
                        units.push(Key::$unit($($field),+));
                    }
                )+
                units
            }
        }
    };
    (@subject { $($subject:tt)+ }) => { $($subject)+ };
}

units! {
    inputs { Settings Object Slices Grants Referrers Covers Fact Patched }
    indexes {
        1: Members PortClaims;
        4: RoutePolicies;
        5: ListenerRoutes Attached Ancestors Filters InVain;
    }
    units {
        0 Class(name) lives with { Subject::Object(Kind::GatewayClass, Id { namespace: Interner::EMPTY, name }) };
        0 Certificate(id) lives with { Subject::Certificate(id) };
        1 CertificateView(id) lives with { Subject::Certificate(id) };
        0 SecurityPolicy(id) lives with { Subject::Object(Kind::SecurityPolicy, id) };
        0 ExtensionPolicy(id) lives with { Subject::Object(Kind::EdgeExtensionPolicy, id) };
        0 ClientPolicy(id) lives with { Subject::Object(Kind::ClientTrafficPolicy, id) };
        0 TrafficPolicy(id) lives with { Subject::Object(Kind::BackendTrafficPolicy, id) };
        1 Gateway(id) lives with { Subject::Object(Kind::Gateway, id) };
        2 Listeners(fleet) lives with { Subject::Fleet(fleet) };
        2 BackendTls(port) lives with { Subject::Port(port) };
        3 FleetShape(fleet) lives with { Subject::Fleet(fleet) };
        3 Patches(fleet) lives with { Subject::Fleet(fleet) };
        3 CustomPolicies(fleet) lives with { Subject::Fleet(fleet) };
        3 ListenerViews(id) lives with { Subject::Object(Kind::Gateway, id) };
        3 Ready(port) lives with { Subject::Port(port) };
        4 Attach(route) lives with { Subject::Route(route) };
        5 Bound(route) lives with { Subject::Route(route) };
        6 Host(host) lives with { Subject::Host(host) };
        6 Cluster(fleet, backend) lives with { Subject::Backend(fleet, backend) };
        6 Endpoints(fleet, list) lives with { Subject::Endpoints(fleet, list) };
        6 Socket(socket) lives with { Subject::Socket(socket) };
        6 Collectors(fleet) lives with { Subject::Fleet(fleet) };
        6 Proxies(fleet) lives with { Subject::Fleet(fleet) };
        6 Infra(fleet) lives with { Subject::Fleet(fleet) };
        7 Status(kind, id) lives with { Subject::Object(kind, id) } if has_status(kind);
    }
}

/// Number of stages.
pub(crate) const N_STAGES: usize = 8;

/// The name of a unit; empty for what is no unit.
pub(super) fn unit_name(key: Key) -> &'static str {
    key.row().map(|row| NAMES[row]).unwrap_or_default()
}

/// How many units of each name ran.
#[derive(Default)]
pub(super) struct Runs([u32; NAMES.len()]);

impl Runs {
    /// A unit ran.
    pub(super) fn count(&mut self, key: Key) {
        if let Some(row) = key.row() {
            self.0[row] += 1;
        }
    }

    /// Those that ran at all, by name, and begins anew.
    pub(super) fn take(&mut self) -> Vec<(&'static str, u32)> {
        let runs = NAMES.iter().copied().zip(std::mem::take(&mut self.0));
        runs.filter(|(_, n)| *n > 0).collect()
    }
}

impl Translator {
    /// A subject appeared, changed or went.
    pub(super) fn wake(&mut self, subject: Subject) {
        for unit in subject.units() {
            self.memo.want(unit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{NAMES, STAGES};
    use std::collections::BTreeSet;

    #[test]
    fn the_table_of_the_phases_names_every_unit_in_its_stage() {
        let phases = include_str!("../phase.rs").lines();
        let rows = phases.filter_map(|line| line.strip_prefix("//! | ")?.split_once(" | "));
        let told: BTreeSet<(usize, &str)> = rows
            .filter_map(|(stage, rest)| Some((stage.parse().ok()?, rest.split_once(" | ")?.0)))
            .flat_map(|(stage, units)| units.split(' ').map(move |unit| (stage, unit.trim_matches('`'))))
            .collect();
        let real: BTreeSet<(usize, &str)> = STAGES.iter().copied().zip(NAMES.iter().copied()).collect();
        assert_eq!(told, real);
    }
}
