//! EdgeProxy, under each class and Gateway that names it.

use super::{ancestor, of_services, out_of_place, warning};
use crate::{
    api::{EdgeProxy, Kind, edge_proxy::EdgeProxySpec},
    engine::reader::Reader,
    name::Id,
    phase::{
        backends::defaults,
        gateways::{
            class::Class,
            gateway::{Gateway, Member, Merge, NO_SAY, OF_CLASS},
            geoip,
            proxy_settings::{self, IDLE_COMPONENT, is_merged},
            telemetry,
        },
    },
    settings::Platform,
    status::{Condition, ParentStatus, Status},
};

/// The status of an EdgeProxy; none inside when nobody of ours names it.
pub(super) fn status(reader: &Reader<'_>, id: Id) -> Option<Option<Status>> {
    let object = reader.edge_proxy(id)?;
    let settings = reader.settings();
    let backend_tls = defaults::defaults(reader, object);
    let unfit = backend_tls.as_ref().err().cloned();
    let mut told = telemetry::telemetry(reader, object, "", backend_tls).problems;
    told.extend(unfit);
    let places = object.spec.geo_ip.is_some().then(|| geoip::databases(Some(object)));
    told.extend(places.and_then(Result::err));
    let mut conditions = vec![match proxy_settings::check_written(object, settings) {
        Err(errors) => Condition::no("Accepted", "InvalidParameters", errors),
        Ok(()) if !told.is_empty() => Condition::no("Accepted", "InvalidParameters", told.join("; ")),
        Ok(()) => Condition::yes("Accepted", "Accepted", "EdgeProxy has been accepted."),
    }];
    conditions.extend(warned(&object.spec, settings.platform));
    let users = reader
        .proxy_users(id)
        .filter(|(kind, user)| is_ours(reader, *kind, *user));
    let under = |(kind, user)| ParentStatus {
        parent: ancestor::whole(reader, kind, user),
        conditions: match refusal(reader, object, kind, user) {
            Some(why) => {
                let refused = Condition::no("Accepted", "InvalidParameters", why);
                let others = conditions.iter().skip(1).cloned();
                [refused].into_iter().chain(others).collect()
            }
            None => conditions.clone(),
        },
    };
    let mut ancestors = users.map(under).peekable();
    let is_used = ancestors.peek().is_some();
    Some(is_used.then(|| ancestor::told(reader, object.metadata.generation, ancestors)))
}

/// What is old, and what nobody follows.
fn warned(spec: &EdgeProxySpec, platform: Platform) -> Option<Condition> {
    let old = spec.lua_validation.is_some().then(|| {
        let message = "spec.luaValidation is deprecated, use spec.lua.validationType instead";
        Condition::yes("Warning", "DeprecatedField", message)
    });
    let idle = spec.logging.level.contains_key(IDLE_COMPONENT).then(|| {
        let message = format!("spec.logging.level.{IDLE_COMPONENT} has no effect: proxies have no such component");
        Condition::yes("Warning", "UnsupportedField", message)
    });
    let mut told = of_services::of_proxy(spec);
    told.extend(out_of_place::of_proxy(spec, platform));
    let told = (!told.is_empty()).then(|| Condition::yes("Warning", "UnsupportedField", told.join("; ")));
    warning::all([old, idle, told])
}

fn is_ours(reader: &Reader<'_>, kind: Kind, id: Id) -> bool {
    match kind {
        Kind::GatewayClass => reader.class(id.name).is_some_and(|c| !matches!(**c, Class::Foreign)),
        _ => reader.gateway(id).is_some_and(|g| !matches!(**g, Gateway::Foreign)),
    }
}

/// Why a class or Gateway can't have an EdgeProxy, whatever that says otherwise.
fn refusal(reader: &Reader<'_>, object: &EdgeProxy, kind: Kind, user: Id) -> Option<String> {
    if kind == Kind::GatewayClass {
        return match &**reader.class(user.name)? {
            Class::Refused { error, .. } => Some(error.clone()),
            Class::Accepted { .. } | Class::Foreign => None,
        };
    }
    let Gateway::Member(member) = &**reader.gateway(user)? else {
        return None;
    };
    match member.merge {
        Merge::Class => Some(format!("It {NO_SAY}.")),
        Merge::Own if object.spec.merge_gateways => Some(OF_CLASS.to_owned()),
        Merge::Own => unmergeable(reader, object, member),
    }
}

/// What doesn't make sense of an EdgeProxy of a Gateway together with that of its class, which is sound by itself.
fn unmergeable(reader: &Reader<'_>, object: &EdgeProxy, member: &Member) -> Option<String> {
    let is_sound = reader
        .class(member.class)
        .is_some_and(|class| matches!(**class, Class::Accepted { .. }));
    let merged = member.proxy.as_ref().filter(|_| is_sound && is_merged(object))?;
    proxy_settings::check(merged, reader.settings()).err()
}
