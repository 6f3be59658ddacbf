//! The options of HTTP that a cluster has, in its own fields and in the extension that says more.

use std::collections::HashMap;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::{
    Http1ProtocolOptions, Http2ProtocolOptions, HttpProtocolOptions as CommonHttpOptions, UpstreamHttpProtocolOptions,
};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::HttpProtocolOptions;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::http_protocol_options::explicit_http_config::ProtocolConfig;
use envoy_types::pb::envoy::extensions::upstreams::http::v3::http_protocol_options::{
    AutoHttpConfig, UpstreamProtocolOptions,
};
use envoy_types::pb::google::protobuf::{Any, UInt32Value};

use crate::compile::credential::{self, CredentialSpec};
use crate::compile::field::{At, Rejection, fields, number, unpack};
use crate::compile::protocol;
use crate::compile::tls::HostUse;
use crate::config::cluster::UpstreamProtocol;
use crate::config::protocol::{Http1Upstream, Http2Options};

/// How a cluster speaks HTTP.
#[derive(Debug)]
pub(super) struct HttpOptions {
    pub(super) protocol: UpstreamProtocol,
    pub(super) http1: Http1Upstream,
    pub(super) http2: Http2Options,
    pub(super) idle_timeout: Option<Duration>,
    pub(super) max_connection_duration: Option<Duration>,
    pub(super) max_requests_per_connection: Option<u32>,
    pub(super) of_host: HostUse,
    pub(super) credential: Option<CredentialSpec>,
}

/// The key of the HTTP options in `typed_extension_protocol_options`.
const HTTP_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

impl HttpOptions {
    /// From the cluster's own fields and from the extension, which wins.
    pub(super) fn new(
        at: &At<'_>,
        http2: Option<&Http2ProtocolOptions>,
        common: Option<&CommonHttpOptions>,
        max_requests: Option<&UInt32Value>,
        typed: &HashMap<String, Any>,
    ) -> Result<Self, Rejection> {
        let mut options = Self {
            protocol: if http2.is_some() {
                UpstreamProtocol::Http2
            } else {
                UpstreamProtocol::Http1
            },
            http1: Http1Upstream::default(),
            http2: protocol::http2(&at.field("http2_protocol_options"), http2)?,
            idle_timeout: None,
            max_connection_duration: None,
            max_requests_per_connection: None,
            of_host: HostUse::None,
            credential: None,
        };
        options.common(&at.field("common_http_protocol_options"), common)?;
        options.max_requests_per_connection = options
            .max_requests_per_connection
            .or(number(max_requests).filter(|most| *most > 0));
        let at_options = at.field("typed_extension_protocol_options");
        let mut keys: Vec<&String> = typed.keys().collect();
        keys.sort();
        for key in keys {
            if key != HTTP_OPTIONS {
                return Err(at_options.unsupported(key));
            }
            let at = at_options.field(key);
            options.typed(&at, &unpack(&at, &typed[key])?)?;
        }
        Ok(options)
    }

    /// For hosts that requests name: where nothing is said of HTTP, each is asked for by its name and has to prove it,
    /// as Envoy has it (`dynamic_forward_proxy/cluster.cc`).
    pub(super) fn of_named_hosts(&mut self, typed: &HashMap<String, Any>) {
        if !typed.contains_key(HTTP_OPTIONS) {
            self.of_host = HostUse::Verified;
        }
    }

    fn common(&mut self, at: &At<'_>, message: Option<&CommonHttpOptions>) -> Result<(), Rejection> {
        // Nothing here bounds these for a backend: how long a stream lasts is a route's to say.
        if message.is_some_and(|message| message.max_stream_duration.is_some()) {
            return Err(at.unsupported("max_stream_duration"));
        }
        if message.is_some_and(|message| message.max_headers_count.is_some()) {
            return Err(at.unsupported("max_headers_count"));
        }
        let common = protocol::common(at, message)?;
        self.idle_timeout = common.idle_timeout;
        self.max_connection_duration = common.max_connection_duration;
        self.max_requests_per_connection = common.max_requests_per_connection;
        Ok(())
    }

    fn typed(&mut self, at: &At<'_>, message: &HttpProtocolOptions) -> Result<(), Rejection> {
        fields!(at, message => HttpProtocolOptions {
            common_http_protocol_options, upstream_http_protocol_options, http_filters, upstream_protocol_options;
            ignore;
            refuse header_validation_config, outlier_detection, request_mirror_policies, hash_policy, retry_policy
        });
        self.filters(&at.field("http_filters"), http_filters)?;
        self.common(
            &at.field("common_http_protocol_options"),
            common_http_protocol_options.as_ref(),
        )?;
        if let Some(options) = upstream_http_protocol_options {
            self.of_host = host_use(&at.field("upstream_http_protocol_options"), options)?;
        }
        self.protocol = self.protocol(at, upstream_protocol_options.as_ref())?;
        Ok(())
    }

    /// Takes the filters of requests on their way to hosts: of those that do something, the injector of a credential.
    fn filters(&mut self, list: &At<'_>, filters: &[HttpFilter]) -> Result<(), Rejection> {
        for (index, filter) in filters.iter().enumerate() {
            let at = list.index(index);
            match filter.name.as_str() {
                // Nothing can switch it on here.
                _ if filter.disabled => {}
                "envoy.filters.http.upstream_codec" => {}
                "envoy.filters.http.credential_injector" if self.credential.is_none() => {
                    self.credential = Some(credential::injector(&at, filter)?);
                }
                name => return Err(at.error(format!("filter {name:?} is not supported by this proxy"))),
            }
        }
        Ok(())
    }

    /// Takes the options of the protocols that are spoken with hosts, and gives which these are.
    fn protocol(
        &mut self,
        at: &At<'_>,
        options: Option<&UpstreamProtocolOptions>,
    ) -> Result<UpstreamProtocol, Rejection> {
        let http1 = |options: Option<&_>| http1(&at.field("http_protocol_options"), options);
        let http2 = |options: Option<&_>| protocol::http2(&at.field("http2_protocol_options"), options);
        Ok(match options {
            Some(UpstreamProtocolOptions::ExplicitHttpConfig(explicit)) => match &explicit.protocol_config {
                Some(ProtocolConfig::Http2ProtocolOptions(options)) => {
                    self.http2 = http2(Some(options))?;
                    UpstreamProtocol::Http2
                }
                Some(ProtocolConfig::HttpProtocolOptions(options)) => {
                    self.http1 = http1(Some(options))?;
                    UpstreamProtocol::Http1
                }
                Some(ProtocolConfig::Http3ProtocolOptions(_)) => {
                    return Err(at.unsupported("http3_protocol_options"));
                }
                None => UpstreamProtocol::Http1,
            },
            Some(UpstreamProtocolOptions::UseDownstreamProtocolConfig(options)) => {
                self.http1 = http1(options.http_protocol_options.as_ref())?;
                self.http2 = http2(options.http2_protocol_options.as_ref())?;
                UpstreamProtocol::Downstream
            }
            Some(UpstreamProtocolOptions::AutoConfig(options)) => {
                let at = at.field("auto_config");
                fields!(at, options => AutoHttpConfig {
                    http_protocol_options, http2_protocol_options;
                    // It remembers who speaks HTTP/3.
                    ignore alternate_protocols_cache_options;
                    refuse http3_protocol_options
                });
                self.http1 = http1(http_protocol_options.as_ref())?;
                self.http2 = http2(http2_protocol_options.as_ref())?;
                UpstreamProtocol::Auto
            }
            None => return Err(at.error("upstream_protocol_options is required")),
        })
    }
}

/// What the host of a request is used for in TLS.
fn host_use(at: &At<'_>, options: &UpstreamHttpProtocolOptions) -> Result<HostUse, Rejection> {
    fields!(at, options => UpstreamHttpProtocolOptions {
        auto_sni, auto_san_validation;
        ignore;
        refuse override_auto_sni_header
    });
    match (*auto_sni, *auto_san_validation) {
        (true, true) => Ok(HostUse::Verified),
        (true, false) => Ok(HostUse::Asked),
        (false, false) => Ok(HostUse::None),
        (false, true) => Err(at.unsupported("auto_san_validation")),
    }
}

/// What options of HTTP/1 say of what is sent to hosts and comes from them.
fn http1(at: &At<'_>, options: Option<&Http1ProtocolOptions>) -> Result<Http1Upstream, Rejection> {
    let options = protocol::http1(at, options)?;
    Ok(Http1Upstream {
        enable_trailers: options.enable_trailers,
        keeps_names: options.keeps_names,
    })
}

/// A credential is injected for the server of the configuration alone.
pub(super) fn misplaced_credential(at: &At<'_>) -> Rejection {
    let at = at.field("typed_extension_protocol_options");
    let at = at.field(HTTP_OPTIONS);
    at.field("http_filters")
        .error("a credential is injected only for the cluster of ads_config by this proxy")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_what_backends_send_are_refused() {
        let refused = |options: CommonHttpOptions| {
            let rejection = HttpOptions::new(&At::root(), None, Some(&options), None, &HashMap::new());
            rejection.err().map(|rejection| rejection.field)
        };
        let stream = CommonHttpOptions {
            max_stream_duration: Some(Default::default()),
            ..CommonHttpOptions::default()
        };
        let headers = CommonHttpOptions {
            max_headers_count: Some(UInt32Value { value: 7 }),
            ..CommonHttpOptions::default()
        };
        let in_common = |field: &str| Some(format!("common_http_protocol_options.{field}"));
        assert_eq!(refused(stream), in_common("max_stream_duration"));
        assert_eq!(refused(headers), in_common("max_headers_count"));
        assert_eq!(refused(CommonHttpOptions::default()), None);
    }
}
