//! What is known of an exchange, for its logs.
//!
//! Filled while the exchange goes its way; values of fields are shared with the messages, not copied.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use http::header::HeaderName;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};

use crate::config::access::Metadata;
use crate::config::access_log::{AccessLogs, CapturedFields, Flags};
use crate::config::cluster::Cluster;
use crate::config::endpoint::Host;
use crate::fault::Fault;
use crate::message::head::Head;
use crate::upstream::Lease;

/// Values of the fields that logs want, by their places.
pub(crate) type Values = Vec<Option<HeaderValue>>;

/// What is known of an exchange.
#[derive(Debug)]
pub(crate) struct Record {
    /// The logs that want to know, if there are any.
    pub(crate) logs: Option<Arc<AccessLogs>>,
    /// The heads as they are, where more than logs wants to know.
    pub(crate) heads: Option<Box<Heads>>,
    /// The request, once there is one that makes sense.
    pub(crate) request: Option<Request>,
    /// Its version; unset for HTTP/2.
    pub(crate) version: Option<Version>,
    /// The client, where proxies before this one have said who it is.
    pub(crate) client: Option<IpAddr>,
    /// A number for logs that tell of some requests only.
    pub(crate) random: u64,
    /// The status of the response, 0 before.
    pub(crate) status: u16,
    /// Fields of the response.
    pub(crate) response: Values,
    /// Fields of its trailers.
    pub(crate) trailers: Values,
    /// What expressions want of the response and its trailers.
    pub(crate) whole: [Values; 2],
    /// What went wrong.
    pub(crate) flags: Flags,
    /// Who has made the response and why, in Envoy's words.
    pub(crate) details: Cow<'static, str>,
    /// Why there is no connection to a backend.
    pub(crate) failure: &'static str,
    /// The health check filter has answered.
    pub(crate) health_check: bool,
    /// The route's name.
    pub(crate) route: Option<Arc<str>>,
    /// Where it was sent.
    pub(crate) upstream: Upstream,
    /// Moments.
    pub(crate) times: Times,
    /// Content of the request.
    pub(crate) received: u64,
    /// Content of the response.
    pub(crate) sent: u64,
    /// What filters have found out.
    pub(crate) metadata: Metadata,
    /// The ids of the trace and the span that it is part of.
    pub(crate) trace: Option<(u128, u64)>,
    /// What passed in a session of datagrams.
    pub(crate) session: Option<Session>,
}

/// The fields of an exchange.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    /// Of the request.
    pub(crate) request: HeaderMap,
    /// Of the response.
    pub(crate) response: HeaderMap,
    /// Of its trailers.
    pub(crate) trailers: HeaderMap,
}

/// What a session of datagrams is known by beside the rest: its cluster, and what passed from the client and to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Session {
    pub(crate) cluster: Option<Arc<Cluster>>,
    pub(crate) datagrams_received: u64,
    pub(crate) datagrams_sent: u64,
    pub(crate) errors_sent: u64,
}

/// When something happened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// The head of the request had arrived.
    pub(crate) begun: Instant,
    /// The same by the calendar.
    pub(crate) calendar: SystemTime,
    /// The request had arrived.
    pub(crate) read: Option<Instant>,
    /// The request went to a backend.
    pub(crate) sent: Option<Instant>,
    /// The head of the response had arrived.
    pub(crate) answered: Option<Instant>,
    /// Everything was over.
    pub(crate) over: Instant,
}

/// What has become of a request so far, which is all but the heads.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) flags: Flags,
    pub(crate) details: Cow<'static, str>,
    pub(crate) failure: &'static str,
    pub(crate) route: Option<Arc<str>>,
    pub(crate) upstream: Upstream,
    pub(crate) times: Times,
    pub(crate) received: u64,
    pub(crate) metadata: Metadata,
    pub(crate) trace: Option<(u128, u64)>,
}

/// The head of a request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) target: PathAndQuery,
    pub(crate) authority: HeaderValue,
    pub(crate) scheme: &'static str,
    /// Fields.
    pub(crate) values: Values,
    /// Fields with all their values.
    pub(crate) whole: Values,
    /// Which of the conditions hold, a bit for each.
    pub(crate) holds: u32,
}

/// Where a request was sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Upstream {
    pub(crate) cluster: Option<Arc<Cluster>>,
    pub(crate) host: Option<Arc<Host>>,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) protocol: Option<&'static str>,
    /// There was a connection to it.
    pub(crate) is_connected: bool,
    pub(crate) attempts: u32,
}

impl Record {
    /// Of an exchange that begins.
    pub(crate) fn new(logs: Option<Arc<AccessLogs>>, now: Instant, random: u64) -> Self {
        let times = Times {
            begun: now,
            calendar: SystemTime::now(),
            read: None,
            sent: None,
            answered: None,
            over: now,
        };
        Self::at(logs, times, random)
    }

    fn at(logs: Option<Arc<AccessLogs>>, times: Times, random: u64) -> Self {
        Self {
            logs,
            heads: None,
            request: None,
            version: None,
            client: None,
            random,
            status: 0,
            response: Values::new(),
            trailers: Values::new(),
            whole: Default::default(),
            flags: Flags::default(),
            details: Cow::Borrowed(""),
            failure: "",
            health_check: false,
            route: None,
            upstream: Upstream::default(),
            times,
            received: 0,
            sent: 0,
            metadata: Metadata::new(),
            trace: None,
            session: None,
        }
    }

    /// Of an exchange that has begun earlier, and no log is told of.
    pub(crate) fn late(begun: Instant, now: Instant) -> Self {
        let mut record = Self::new(None, begun, 0);
        record.times.calendar -= now.saturating_duration_since(begun);
        record
    }

    /// Of an exchange that goes on.
    pub(crate) fn of(logs: Arc<AccessLogs>, course: Course, random: u64) -> Self {
        let Course {
            flags,
            details,
            failure,
            route,
            upstream,
            times,
            received,
            metadata,
            trace,
        } = course;
        Self {
            flags,
            details,
            failure,
            route,
            upstream,
            received,
            metadata,
            trace,
            ..Self::at(Some(logs), times, random)
        }
    }

    /// What has become of the request so far.
    pub(crate) fn course(&self) -> Course {
        Course {
            flags: self.flags,
            details: self.details.clone(),
            failure: self.failure,
            route: self.route.clone(),
            upstream: self.upstream.clone(),
            times: self.times,
            received: self.received,
            metadata: self.metadata.clone(),
            trace: self.trace,
        }
    }

    /// Keeps heads as they are from now on.
    pub(crate) fn keep(&mut self, head: &Head) {
        self.heads = Some(Box::default());
        self.client = head.client;
        self.request(head);
    }

    fn wanted(&self) -> &CapturedFields {
        self.logs.as_ref().map_or(CapturedFields::NOTHING, |logs| &logs.wanted)
    }

    /// Takes the head of the request as it is now.
    pub(crate) fn request(&mut self, head: &Head) {
        if let Some(heads) = &mut self.heads {
            heads.request = head.headers.clone();
        }
        let wanted = self.wanted();
        let view = head.view();
        let conditions = wanted.conditions.iter().enumerate();
        let holds = conditions.filter(|(_, condition)| condition.holds(&view));
        self.request = Some(Request {
            method: head.method.clone(),
            target: head.target.clone(),
            authority: head.authority.clone(),
            scheme: head.scheme,
            values: values(&wanted.request, &head.headers),
            whole: whole(&wanted.whole.request, &head.headers),
            holds: holds.map(|(at, _)| 1 << at).sum(),
        });
    }

    /// The request goes to a backend.
    pub(crate) fn sent_on(&mut self, lease: &Lease, now: Instant) {
        self.upstream.local = lease.local();
        self.upstream.protocol = Some(lease.protocol());
        self.upstream.is_connected = true;
        self.times.sent = Some(now);
    }

    /// Takes the head of the response as the client gets it.
    pub(crate) fn response(&mut self, status: StatusCode, headers: &HeaderMap) {
        self.status = status.as_u16();
        let wanted = self.wanted();
        let (response, whole) = (
            values(&wanted.response, headers),
            whole(&wanted.whole.response, headers),
        );
        (self.response, self.whole[0]) = (response, whole);
        if let Some(heads) = &mut self.heads {
            heads.response = headers.clone();
        }
    }

    /// Takes the trailers of the response.
    pub(crate) fn trailers(&mut self, trailers: &HeaderMap) {
        let wanted = self.wanted();
        let (values, whole) = (
            values(&wanted.trailers, trailers),
            whole(&wanted.whole.trailers, trailers),
        );
        (self.trailers, self.whole[1]) = (values, whole);
        if let Some(heads) = &mut self.heads {
            heads.trailers = trailers.clone();
        }
    }

    /// Something went wrong.
    pub(crate) fn fault(&mut self, fault: Fault) {
        let verdict = fault.verdict();
        self.flag(verdict.flag);
        self.details = verdict.details.into();
        self.failure = fault.transport_failure();
    }

    /// Sets a response flag by its short name.
    pub(crate) fn flag(&mut self, short: &str) {
        if let Some(flag) = Flags::named(short) {
            self.flags.add(flag);
        }
    }
}

/// A message with more fields is asked for each that is wanted; of one with fewer, comparing all costs less than
/// hashing.
const FEW: usize = 16;

/// The values of fields.
pub(crate) fn values(names: &[HeaderName], headers: &HeaderMap) -> Values {
    if headers.len() > FEW {
        return names.iter().map(|name| headers.get(name).cloned()).collect();
    }
    let mut values = vec![None; names.len()];
    for (name, value) in headers {
        let place = names.iter().position(|wanted| wanted == name);
        // The first of several, as a look-up has it.
        if let Some(place) = place.and_then(|at| values.get_mut(at)).filter(|place| place.is_none()) {
            *place = Some(value.clone());
        }
    }
    values
}

/// All values of each field, with commas between them.
pub(crate) fn whole(names: &[HeaderName], headers: &HeaderMap) -> Values {
    let whole = |name: &HeaderName| {
        let mut all = headers.get_all(name).iter();
        let first = all.next()?;
        let mut rest = all.peekable();
        if rest.peek().is_none() {
            return Some(first.clone());
        }
        let all = std::iter::once(first).chain(rest).map(HeaderValue::as_bytes);
        HeaderValue::from_bytes(&all.collect::<Vec<_>>().join(&b',')).ok()
    };
    names.iter().map(whole).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_the_same_however_they_are_found() {
        let names = ["b", "absent", "twice"].map(HeaderName::from_static);
        let mut headers = HeaderMap::new();
        for (name, value) in [("a", "1"), ("twice", "2"), ("b", "3"), ("twice", "4")] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let expected = [Some("3"), None, Some("2")].map(|value| value.map(HeaderValue::from_static));
        assert_eq!(values(&names, &headers), expected);
        for _ in 0..=FEW {
            headers.append("more", HeaderValue::from_static("5"));
        }
        assert_eq!(values(&names, &headers), expected);
    }
}
