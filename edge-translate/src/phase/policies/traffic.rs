//! What a BackendTrafficPolicy says: read once for each policy and interned, so that ten thousand routes under a
//! Gateway's policy share one number.
//!
//! Whatever can't be honoured as it is written makes the policy invalid as a whole, with a sentence for each field;
//! what it covers is closed then. Fields of which this version merely does less are listed with those of other kinds
//! (`load/unsupported`).

use super::merge;
use crate::{
    api::{
        BackendTrafficPolicy, BackendTrafficPolicySpec, DurationText, MergeType, Metadata, Quantity, Unread,
        cluster_settings::ClusterSettings,
    },
    engine::reader::{Reader, Reading},
    load::typed::typed,
    name::{Id, Patience, Traffic, TrafficId, Variant},
    phase::precedence::Seniority,
};
use edge_ir::{Fraction, RetryPolicy, Timeout};
use std::{fmt::Display, sync::Arc};

mod alike;
mod balancing;
mod connection;
mod filters;
mod health;
mod placement;
mod route;
mod telemetry;

pub(super) use connection::{KEEPALIVE_PROBES, SYSTEM_BUFFERS, http2, keepalive_seconds};
pub(crate) use filters::compressor;
pub(crate) use route::patient;
pub(crate) use telemetry::holds_alone;

/// What a policy says, or why it is invalid.
pub(crate) type Settled = Result<TrafficId, Arc<str>>;

/// A policy, read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TrafficPolicy {
    /// Age and name, which decide between policies for the same.
    pub(crate) seniority: Seniority,
    /// How it merges into that of a parent; it stands alone where this is absent.
    pub(crate) merge: Option<MergeType>,
    /// What it says by itself.
    pub(crate) settled: Settled,
}

/// Reads a policy; none when it doesn't exist.
pub(crate) fn policy(reader: &Reader<'_>, id: Id) -> Option<TrafficPolicy> {
    let object = reader.backend_traffic_policy(id)?;
    let seniority = Seniority::of(&object.metadata);
    Some(match &object.unread {
        Some(unread) => TrafficPolicy {
            seniority,
            merge: unread.spec["mergeType"].as_str().map(MergeType::from),
            settled: Err(fault(unread)),
        },
        None => TrafficPolicy {
            seniority,
            merge: object.spec.merge_type.clone(),
            settled: alone(reader, object),
        },
    })
}

/// Why a policy that can't be read is invalid.
fn fault(unread: &Unread) -> Arc<str> {
    format!("{}.", unread.why).into()
}

/// What a policy says by itself.
fn alone(reader: &Reader<'_>, object: &Arc<BackendTrafficPolicy>) -> Settled {
    let settle = || settle(reader, &object.spec, Sources::alone(object));
    let Some(hash) = alike::hash(&object.spec) else {
        return settle();
    };
    let known = reader.traffic_alike(hash, |other| alike::is_alike(&object.spec, &other.spec));
    if let Some(known) = known {
        return Ok(known);
    }
    let (reading, settled) = reader.reading(settle);
    if let (Reading::Nothing, Ok(traffic)) = (reading, &settled) {
        reader.keep_traffic(hash, object, *traffic);
    }
    settled
}

/// What a policy says under that of a parent, if it merges with one.
pub(crate) fn under(reader: &Reader<'_>, policy: Id, parent: Option<Id>) -> Option<Settled> {
    let own = reader.traffic_policy(policy)?;
    let Some((how, parent)) = merge::over(&own.merge, parent) else {
        return Some(own.settled.clone());
    };
    let below = reader.backend_traffic_policy(parent)?;
    let above = reader.backend_traffic_policy(policy)?;
    if let Some(unread) = above.unread.as_ref().or(below.unread.as_ref()) {
        return Some(Err(fault(unread)));
    }
    let both = merge::merged(&below.spec, &above.spec, how);
    Some(match both {
        Some(both) => settle(reader, &both, Sources::merged(above, below)),
        None => Err("The policies can't be merged.".into()),
    })
}

/// The policies that parts of a spec come from which refer to others, or are counted by whose they are. Where policies
/// are merged lists stand in place of each other as a whole, and a part of both is the more specific one's.
#[derive(Clone, Copy)]
struct Sources<'a> {
    /// Other responses, whose bodies are in ConfigMaps of its namespace.
    overrides: &'a Metadata,
    /// Local rate limits, of which some are shared by the routes of the policy.
    limits: &'a Metadata,
    /// Global ones, likewise.
    global_limits: &'a Metadata,
    /// Refusals while too many requests fail, of all that the policy is for.
    admission: &'a Metadata,
}

impl<'a> Sources<'a> {
    /// Of a policy that stands alone.
    fn alone(policy: &'a BackendTrafficPolicy) -> Self {
        Self {
            overrides: &policy.metadata,
            limits: &policy.metadata,
            global_limits: &policy.metadata,
            admission: &policy.metadata,
        }
    }

    /// Of a policy laid over that of a parent.
    fn merged(above: &'a BackendTrafficPolicy, below: &'a BackendTrafficPolicy) -> Self {
        let of = |is_above: bool| match is_above {
            true => &above.metadata,
            false => &below.metadata,
        };
        let limits = above.spec.rate_limit.as_deref();
        let local = limits.and_then(|limit| limit.local.as_ref());
        let global = limits.and_then(|limit| limit.global.as_ref());
        Self {
            overrides: of(!above.spec.response_override.is_empty()),
            limits: of(local.is_some_and(|local| !local.rules.is_empty())),
            global_limits: of(global.is_some_and(|global| !global.rules.is_empty())),
            admission: of(above.spec.admission_control.is_some()),
        }
    }
}

/// What settings of a service that a policy asks change about its cluster, and when it is asked again.
pub(crate) fn of_service(settings: &ClusterSettings, problems: &mut Problems) -> (Variant, Option<RetryPolicy>) {
    // The same fields: a policy has more beside them.
    let spec = serde_json::to_value(settings)
        .ok()
        .and_then(|fields| typed(&fields).ok());
    let Some(spec) = spec else {
        problems.add("BackendSettings", "they can't be read");
        return Default::default();
    };
    let variant = Variant {
        load_balancing: balancing::balancing(&spec, problems),
        placement: Arc::new(placement::placement(&spec, problems)),
        zone_preference: placement::zone_preference(&spec, problems),
        upstream: Arc::new(connection::upstream(&spec, problems)),
        ..Variant::default()
    };
    // None of it comes to pass (statuses/of_services), but it can be wrong.
    balancing::hash(&spec, problems);
    (variant, route::retry(&spec, problems))
}

fn settle(reader: &Reader<'_>, spec: &BackendTrafficPolicySpec, sources: Sources<'_>) -> Settled {
    let mut problems = Problems::default();
    let traffic = read(reader, spec, sources, &mut problems);
    match problems.is_empty() {
        true => Ok(reader.traffic_id(traffic)),
        false => Err(problems.joined()),
    }
}

fn read(
    reader: &Reader<'_>,
    spec: &BackendTrafficPolicySpec,
    sources: Sources<'_>,
    problems: &mut Problems,
) -> Traffic {
    match &spec.merge_type {
        None | Some(MergeType::StrategicMerge | MergeType::JsonMerge) => {}
        Some(other) => problems.add("MergeType", format_args!("{other} is not StrategicMerge or JSONMerge")),
    }
    let mut traffic = Traffic {
        load_balancing: balancing::balancing(spec, problems),
        placement: Arc::new(placement::placement(spec, problems)),
        load_reports: balancing::load_reports(spec),
        zone_preference: placement::zone_preference(spec, problems),
        upstream: Arc::new(connection::upstream(spec, problems)),
        timeout: route::timeout(spec, problems),
        retry: route::retry(spec, problems).map(Arc::new),
        route: route::route(spec, problems),
        patience: Patience::default(),
        telemetry: None,
        filters: filters::filters(reader, spec, sources, problems),
    };
    traffic.patience = route::patience(traffic.route.as_ref());
    traffic.telemetry = route::telemetry(traffic.route.as_deref());
    traffic
}

/// What is wrong with a policy, a sentence each.
#[derive(Default)]
pub(crate) struct Problems(Vec<String>);

impl Problems {
    /// Whether nothing is.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of it, a line each.
    pub(crate) fn joined(&self) -> Arc<str> {
        self.0.join("\n").into()
    }

    /// Something is wrong in an area of the spec.
    pub(crate) fn add(&mut self, area: &str, what: impl Display) {
        self.0.push(format!("{area}: {what}."));
    }

    /// Milliseconds of a duration.
    pub(crate) fn millis(&mut self, area: &str, field: &str, text: Option<&DurationText>) -> Option<Timeout> {
        match text?.parse_with_fraction() {
            Ok(duration) => Some(Timeout(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))),
            Err(_) => {
                self.add(area, format_args!("invalid {field} value {}", text?.as_str()));
                None
            }
        }
    }

    /// Milliseconds of a duration that must not be 0.
    pub(crate) fn positive(&mut self, area: &str, field: &str, text: Option<&DurationText>) -> Option<Timeout> {
        let millis = self.millis(area, field, text)?;
        if millis.0 == 0 {
            self.add(area, format_args!("invalid {field} value {}", text?.as_str()));
        }
        Some(millis)
    }

    /// A number of bytes within bounds.
    pub(crate) fn bytes(
        &mut self,
        area: &str,
        field: &str,
        text: Option<&Quantity>,
        bounds: std::ops::RangeInclusive<u32>,
    ) -> Option<u32> {
        let value = self.quantity(area, field, text)?;
        let within = u32::try_from(value).ok().filter(|value| bounds.contains(value));
        if within.is_none() {
            let (low, high) = bounds.into_inner();
            self.add(
                area,
                format_args!(
                    "{field} value {} is out of range, must be between {low} and {high}",
                    text?.as_str()
                ),
            );
        }
        within
    }

    /// A number of bytes.
    pub(crate) fn quantity(&mut self, area: &str, field: &str, text: Option<&Quantity>) -> Option<u64> {
        let text = text?;
        // The grammar of the field is narrower than that of quantities: whole numbers with a unit of at least 1000.
        let is_written_so = text.as_str().bytes().next().is_some_and(|digit| digit.is_ascii_digit())
            && !text.as_str().ends_with(['m', 'u', 'n'])
            && !text.as_str().contains('.');
        let value = text.parse().ok().filter(|_| is_written_so);
        if value.is_none() {
            self.add(area, format_args!("invalid {field} value {}", text.as_str()));
        }
        value
    }

    /// A number within bounds.
    pub(crate) fn number(&mut self, area: &str, field: &str, value: u32, bounds: std::ops::RangeInclusive<u32>) -> u32 {
        if !bounds.contains(&value) {
            let (low, high) = bounds.into_inner();
            self.add(
                area,
                format_args!("{field} value {value} is out of range, must be between {low} and {high}"),
            );
        }
        value
    }

    /// A percentage, as a fraction.
    pub(crate) fn percent(&mut self, area: &str, field: &str, percent: f64) -> Fraction {
        if !(0.0..=100.0).contains(&percent) {
            self.add(
                area,
                format_args!("{field} value {percent} is out of range, must be between 0 and 100"),
            );
            return Fraction(0);
        }
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at most a million, and never below 0"
        )]
        Fraction((percent * 10_000.0).round() as u32)
    }

    /// A list of status codes.
    pub(crate) fn codes(&mut self, area: &str, field: &str, codes: &[u16]) -> Vec<u16> {
        for code in codes.iter().filter(|code| !(100..600).contains(*code)) {
            self.add(
                area,
                format_args!("{field} value {code} is out of range, must be between 100 and 599"),
            );
        }
        codes.to_vec()
    }

    /// A name as HTTP has it for headers (RFC 9110 §5.6.2).
    pub(crate) fn token(&mut self, area: &str, field: &str, name: &str) -> Arc<str> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_token) {
            self.add(area, format_args!("{field} {name:?} is not a valid name"));
        }
        name.into()
    }

    /// A text that may stand in a header: no control characters.
    pub(crate) fn text(&mut self, area: &str, field: &str, text: &str) -> Arc<str> {
        if text.chars().any(char::is_control) {
            self.add(area, format_args!("{field} {text:?} holds control characters"));
        }
        text.into()
    }
}
