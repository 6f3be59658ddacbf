//! Sessions: what a client says about its host, and what it is told (Envoy's `stateful_session`).
//!
//! A request that names a host of the cluster goes there; a response of another host says where to go next time.
//! The forms are Envoy's, so that either proxy understands what the other has told a client: Base64 of the address in
//! a header, and of a message with address and expiry in a cookie.
//! Deliberately absent: secrecy. A client learns an address that it can't reach, and may choose among the hosts of its
//! route, no more.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, header};
use prost::Message;

use crate::config::cluster::ClusterEntry;
use crate::config::endpoint::{Health, Host, HostAddress};
use crate::config::filter::session::{LostHost, SessionCarrier, SessionCookie, SessionPolicy};
use crate::cookies;
use crate::fault::Fault;
use crate::message::head::Head;

/// The session of one request.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    policy: &'a SessionPolicy,
    wants: Wants,
}

/// Which host a request names.
#[derive(Debug, PartialEq, Eq)]
enum Wants {
    /// None: the session begins.
    Any,
    /// This one.
    Host(HostAddress),
    /// One that can't be.
    Nobody,
}

/// What a cookie holds: Envoy's `envoy.Cookie`.
#[derive(Clone, PartialEq, prost::Message)]
struct Stub {
    #[prost(string, tag = "1")]
    address: String,
    /// In seconds since 1970; 0 is never.
    #[prost(int64, tag = "2")]
    expires: i64,
}

impl<'a> Session<'a> {
    /// The session that a request is in, or may begin.
    pub(super) fn of(policy: &'a SessionPolicy, head: &Head) -> Option<Box<Self>> {
        let address = match &policy.carrier {
            SessionCarrier::Cookie(cookie) if !cookie.covers(head.target.as_str()) => return None,
            SessionCarrier::Cookie(cookie) => in_cookie(cookie, &head.headers),
            SessionCarrier::Header(name) => head.headers.get(name).and_then(|value| decode(value.as_bytes())),
        };
        let wants = match address.as_deref() {
            None | Some("") => Wants::Any,
            Some(text) => parse(text).map_or(Wants::Nobody, Wants::Host),
        };
        Some(Box::new(Self { policy, wants }))
    }

    /// The host that the request must go to; `None` leaves the choice to the balancer.
    pub(crate) fn host<'e>(&self, entry: &'e ClusterEntry) -> Result<Option<&'e Arc<Host>>, Fault> {
        let found = match &self.wants {
            Wants::Any => return Ok(None),
            Wants::Host(address) => entry.endpoints.host_at(address),
            Wants::Nobody => None,
        };
        match (found, self.policy.lost) {
            (Some(host), _) if host.health() != Health::Unhealthy => Ok(Some(host)),
            (_, LostHost::Replace) => Ok(None),
            (Some(_), LostHost::Refuse(_)) => Err(Fault::NoHealthyUpstream),
            (None, LostHost::Refuse(status)) => Err(Fault::NoSuchHost(status)),
        }
    }

    /// Tells the client which host has served it, unless it knows.
    pub(crate) fn tell(&self, host: &Host, fields: &mut HeaderMap) {
        if matches!(&self.wants, Wants::Host(address) if *address == host.address) {
            return;
        }
        let Some(address) = text(&host.address) else { return };
        match &self.policy.carrier {
            SessionCarrier::Header(name) => {
                if let Ok(value) = HeaderValue::try_from(STANDARD.encode(address)) {
                    fields.insert(name, value);
                }
            }
            SessionCarrier::Cookie(cookie) => {
                let expires = cookie
                    .lifetime
                    .map_or(0, |lifetime| now().saturating_add_unsigned(lifetime.as_secs()));
                let stub = STANDARD.encode(Stub { address, expires }.encode_to_vec());
                let (name, attributes) = (&cookie.name, &cookie.attributes);
                if let Ok(value) = HeaderValue::try_from(format!("{name}=\"{stub}\"{attributes}")) {
                    fields.append(header::SET_COOKIE, value);
                }
            }
        }
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// The address in the first cookie of this name, unless it has expired.
pub(in crate::http) fn in_cookie(cookie: &SessionCookie, fields: &HeaderMap) -> Option<String> {
    let bytes = STANDARD.decode(cookies::value(fields, &cookie.name)?).ok()?;
    match Stub::decode(bytes.as_slice()) {
        Ok(stub) if stub.expires != 0 && stub.expires < now() => None,
        Ok(stub) => Some(stub.address),
        // An address alone, as older versions of Envoy wrote it.
        Err(_) => String::from_utf8(bytes).ok(),
    }
}

fn decode(value: &[u8]) -> Option<String> {
    String::from_utf8(STANDARD.decode(value).ok()?).ok()
}

fn parse(text: &str) -> Option<HostAddress> {
    if text.starts_with('/') {
        return Some(HostAddress::Pipe(Path::new(text).into()));
    }
    text.parse::<SocketAddr>().ok().map(HostAddress::Socket)
}

/// An address as a client keeps it; the proxy's own interface has none.
fn text(address: &HostAddress) -> Option<String> {
    match address {
        HostAddress::Socket(address) => Some(address.to_string()),
        HostAddress::Pipe(path) => path.to_str().map(str::to_owned),
        HostAddress::Internal(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookie() -> SessionCookie {
        SessionCookie {
            name: "sess".into(),
            path: "/".into(),
            lifetime: None,
            attributes: "".into(),
        }
    }

    fn read(lines: &[&'static str]) -> Option<String> {
        let fields = lines
            .iter()
            .map(|line| (header::COOKIE, HeaderValue::from_static(line)));
        in_cookie(&cookie(), &fields.collect())
    }

    /// What stock Envoy 1.40 wrote for 127.0.0.1:21082: for the session, until 1000 and until 99999999999.
    #[test]
    fn cookies_of_envoy_are_understood() {
        let host = Some("127.0.0.1:21082".to_owned());
        for line in [
            "sess=Cg8xMjcuMC4wLjE6MjEwODI=",
            "a=b; sess=\"Cg8xMjcuMC4wLjE6MjEwODI=\"; c=d",
            "sess=Cg8xMjcuMC4wLjE6MjEwODIQAA==",
            "sess=Cg8xMjcuMC4wLjE6MjEwODIQ/8/bw/QC",
            "sess=MTI3LjAuMC4xOjIxMDgy",
        ] {
            assert_eq!(read(&[line]), host, "{line}");
        }
        let first = ["x=y", "sess=Cg8xMjcuMC4wLjE6MjEwODI=", "sess=MTI3LjAuMC4xOjIxMDgx"];
        assert_eq!(read(&first), host);
        for line in [
            "sess=Cg8xMjcuMC4wLjE6MjEwODIQ6Ac=",
            "sess=Cg8xMjcuMC4wLjE6MjEwODI",
            "sess=?",
            "sessx=Cg8xMjcuMC4wLjE6MjEwODI=",
            "xsess=Cg8xMjcuMC4wLjE6MjEwODI=",
            "sess=Cg8xMjcuMC4wLjE6MjEwODI= ; b=2",
            "\tsess=Cg8xMjcuMC4wLjE6MjEwODI=",
        ] {
            assert_eq!(read(&[line]), None, "{line}");
        }
    }

    #[test]
    fn what_is_told_is_what_envoy_tells() {
        let host = Host {
            id: crate::config::endpoint::HostId(1),
            address: HostAddress::Socket("127.0.0.1:21082".parse().expect("an address")),
            hostname: "".into(),
            weight: 1,
            health: Health::Healthy,
            stats: Arc::default(),
            vitals: Arc::default(),
            check: None,
            socket: None,
        };
        let attributes = "; Path=/session; HttpOnly".into();
        let policy = SessionPolicy {
            carrier: SessionCarrier::Cookie(SessionCookie { attributes, ..cookie() }),
            lost: LostHost::Replace,
        };
        let tell = |wants| {
            let (policy, mut fields) = (&policy, HeaderMap::new());
            Session { policy, wants }.tell(&host, &mut fields);
            fields.get(header::SET_COOKIE).cloned()
        };
        let said = tell(Wants::Nobody).expect("a cookie");
        assert_eq!(said, "sess=\"Cg8xMjcuMC4wLjE6MjEwODI=\"; Path=/session; HttpOnly");
        assert_eq!(tell(Wants::Host(host.address.clone())), None);
    }
}
