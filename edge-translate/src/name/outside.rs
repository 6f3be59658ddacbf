//! Services outside, by the address that names them.

use super::VariantId;
use edge_ir::ClusterName;
use std::{net::IpAddr, sync::Arc};

/// A service that an address names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OutsideService {
    /// Its host.
    pub(crate) host: Arc<str>,
    /// Its port.
    pub(crate) port: u16,
    /// How it is spoken to.
    pub(crate) scheme: Scheme,
    /// What is asked of the connections to it.
    pub(crate) variant: VariantId,
}

/// How a service is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scheme {
    /// In clear.
    Http,
    /// In TLS, verified by the authorities of the system.
    Https,
}

impl OutsideService {
    /// The service behind a URL, or why there is none.
    pub(crate) fn at(url: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = match url.split_once("://") {
            Some(("https", rest)) => (Scheme::Https, rest),
            Some(("http", rest)) => (Scheme::Http, rest),
            _ => return Err("it must begin with https:// or http://"),
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if url.bytes().any(|b| !b.is_ascii_graphic()) || authority.contains('@') {
            return Err("it must hold no blanks and no user");
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        if host.is_empty() {
            return Err("it has no host");
        }
        let port = match (port, scheme) {
            (Some(port), _) => port.parse().map_err(|_| "its port is none")?,
            (None, Scheme::Https) => 443,
            (None, Scheme::Http) => 80,
        };
        Ok(Self {
            host: host.into(),
            port,
            scheme,
            variant: VariantId::OWN,
        })
    }

    /// Its address, where its host is one.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// The name of its cluster: host and port, how it is spoken to where that is not what the port is for, and what tells
    /// its variant from others.
    pub(crate) fn cluster(&self, variant: &str) -> ClusterName {
        let unusual = match (self.scheme, self.port) {
            (Scheme::Https, 80) => "_https",
            (Scheme::Https, _) | (Scheme::Http, 80) => "",
            (Scheme::Http, _) => "_http",
        };
        let name = format!("{}_{}{unusual}{variant}", self.host.replace(['.', ':'], "_"), self.port);
        ClusterName::from(&*name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_host_port_and_scheme() {
        for (url, cluster) in [
            ("https://IdP.example/keys?x", "idp_example_443"),
            ("http://idp.example/keys", "idp_example_80"),
            ("http://idp.example:8080/keys", "idp_example_8080_http"),
            ("https://idp.example:80", "idp_example_80_https"),
            ("https://[::1]:8443/keys", "__1_8443"),
            ("https://10.0.0.1/keys", "10_0_0_1_443"),
        ] {
            let at = OutsideService::at(url).expect(url);
            assert_eq!(&*at.cluster(""), cluster, "{url}");
        }
        for url in [
            "idp.example",
            "ftp://a",
            "https://",
            "https://a:b",
            "https://u@a",
            "https://a b",
        ] {
            assert!(OutsideService::at(url).is_err(), "{url}");
        }
    }
}
