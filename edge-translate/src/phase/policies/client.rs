//! What a ClientTrafficPolicy says: read once for each policy, for all listeners that it is for.
//!
//! As with other policies, whatever can't be honoured as it is written makes the policy invalid as a whole, with a
//! sentence for each field, and what it covers is closed. Which listeners a policy is for, and whether those of a port
//! can have what their policies say, is for `listeners/client_traffic`.

use super::{merge, traffic::Problems};
use crate::{
    api::{ClientTrafficPolicySpec, Kind, Metadata, Object, TlsVersion, client_traffic as api},
    engine::reader::Reader,
    load::typed::typed,
    name::Id,
    phase::precedence::Seniority,
};
use edge_ir::{ClientSettings, ConnectionSettings, HeaderMutation, LimitHeaders, SocketSettings};
use serde_json::{Map, Value};
use std::sync::Arc;

mod connection;
mod headers;
mod http;
mod tls;
mod validation;

pub(crate) use tls::ClientTls;

/// A policy, read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClientPolicy {
    /// Age and name, which decide between policies for the same.
    pub(crate) seniority: Seniority,
    /// What it says, or why it is invalid.
    pub(crate) settled: Result<Arc<ClientTraffic>, Arc<str>>,
    /// Whether it says where the address of a client is found.
    pub(crate) detection: Detection,
}

/// Whether a policy says where the address of a client is found. What is usual can be said, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Detection {
    /// It doesn't.
    #[default]
    Unsaid,
    /// It does.
    Said,
}

/// How a listener treats clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClientTraffic {
    /// What holds for all connections of its socket.
    pub(crate) socket: SocketSettings,
    /// What holds for its own.
    pub(crate) connections: ConnectionSettings,
    /// What clients may do over HTTP.
    pub(crate) http: Arc<ClientSettings>,
    /// Who a request of HTTP/1.0 without Host is for.
    pub(crate) hostless: Hostless,
    /// A path that the proxy answers itself.
    pub(crate) probe: Option<Arc<str>>,
    /// Edits to responses.
    pub(crate) late_response: Vec<HeaderMutation>,
    /// Whether clients are told of limits, where these say nothing of it.
    pub(crate) limits: LimitHeaders,
    /// Who may call in gRPC-Web.
    pub(crate) web_calls: WebCalls,
    /// Whether HTTP/3 is spoken as well, where TLS is terminated.
    pub(crate) http3: Http3,
    /// TLS.
    pub(crate) tls: ClientTls,
}

/// Whether HTTP/3 is spoken beside what goes over TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Http3 {
    /// It isn't.
    #[default]
    Off,
    /// It is, and clients are told so.
    Offered,
}

/// Who a request of HTTP/1.0 without Host is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Hostless {
    /// Nobody.
    #[default]
    Nobody,
    /// The one host of the listener.
    Listener,
}

/// Which routes take calls in gRPC-Web.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WebCalls {
    /// GRPCRoutes.
    #[default]
    GrpcRoutes,
    /// All of them.
    All,
}

/// Reads a policy; none when it doesn't exist.
pub(crate) fn policy(reader: &Reader<'_>, id: Id) -> Option<ClientPolicy> {
    let Object::ClientTrafficPolicy(object) = reader.object(Kind::ClientTrafficPolicy, id)? else {
        return None;
    };
    let mut problems = Problems::default();
    let fields = match &object.spec {
        Value::Object(fields) => {
            let mut fields = fields.clone();
            fields.retain(|field, _| !merge::OWN.contains(&field.as_str()));
            Value::Object(fields)
        }
        Value::Null => Value::Object(Map::new()),
        // Read as what it isn't, and refused for that.
        other => other.clone(),
    };
    let mut detection = Detection::Unsaid;
    let traffic = match typed::<ClientTrafficPolicySpec>(&fields) {
        Ok(spec) => {
            if spec.client_ip_detection.is_some() {
                detection = Detection::Said;
            }
            read(reader, &object.metadata, &spec, &mut problems)
        }
        Err(error) => {
            problems.add("Spec", error.under("spec"));
            ClientTraffic::default()
        }
    };
    Some(ClientPolicy {
        seniority: Seniority::of(&object.metadata),
        settled: match problems.is_empty() {
            true => Ok(Arc::new(traffic)),
            false => Err(problems.joined()),
        },
        detection,
    })
}

fn read(
    reader: &Reader<'_>,
    policy: &Metadata,
    spec: &ClientTrafficPolicySpec,
    problems: &mut Problems,
) -> ClientTraffic {
    let headers = spec.headers.as_deref();
    let late = headers.and_then(|headers| headers.late_response_headers.as_deref());
    let web_calls = spec.grpc.as_ref().is_some_and(|grpc| grpc.enable_web);
    let http10 = spec.http1.as_deref().and_then(|http1| http1.http10.as_ref());
    ClientTraffic {
        socket: connection::socket(spec, problems),
        connections: connection::connections(spec, problems),
        http: Arc::new(http::settings(spec, problems)),
        hostless: match http10 {
            Some(http10) if http10.use_default_host => Hostless::Listener,
            Some(_) | None => Hostless::Nobody,
        },
        probe: spec.health_check.as_ref().and_then(|probe| path(probe, problems)),
        late_response: headers::mutations("LateResponseHeaders", late, problems),
        limits: match headers {
            Some(headers) if headers.disable_rate_limit_headers => LimitHeaders::No,
            Some(_) | None => LimitHeaders::Usual,
        },
        web_calls: if web_calls { WebCalls::All } else { WebCalls::GrpcRoutes },
        http3: http3(spec, problems),
        tls: tls::tls(reader, policy, spec.tls.as_deref(), problems),
    }
}

fn http3(spec: &ClientTrafficPolicySpec, problems: &mut Problems) -> Http3 {
    if spec.http3.is_none() {
        return Http3::Off;
    }
    let most = spec.tls.as_deref().and_then(|tls| tls.max_version.as_ref());
    if matches!(most, Some(TlsVersion::V1_0 | TlsVersion::V1_1 | TlsVersion::V1_2)) {
        problems.add("HTTP3", "HTTP/3 needs TLS 1.3, which tls.maxVersion leaves out");
    }
    Http3::Offered
}

fn path(probe: &api::ProbeSettings, problems: &mut Problems) -> Option<Arc<str>> {
    let path = &*probe.path;
    if path.is_empty() || path.len() > 1024 || path.chars().any(char::is_control) {
        problems.add("HealthCheck", format_args!("{path:?} is not a path"));
        return None;
    }
    Some(path.into())
}
