//! Services outside, by the address that names them.

use super::VariantId;
use crate::{own_host, settings::Platform};
use edge_ir::ClusterName;
use std::{
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

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

/// What is wrong with a URL that proxies are told and send browsers to. They judge it as one that they ask themselves,
/// and refuse the listener.
pub(crate) fn check_told(url: &str) -> Result<(), &'static str> {
    OutsideService::at(url).map(|_| ())
}

/// What is wrong with a URL as such, whoever asks at it or doesn't.
pub(crate) fn check(url: &str) -> Result<(), &'static str> {
    read(url).map(|_| ())
}

/// What is wrong with a URL that a policy has the controller ask.
pub(crate) fn check_fetched(url: &str, platform: Platform) -> Result<(), String> {
    let (_, host, _) = read(url)?;
    not_own(&host, platform)
}

/// How a URL has its host spoken to, the host, and the port.
fn read(url: &str) -> Result<(Scheme, Arc<str>, u16), &'static str> {
    let (scheme, rest) = match url.split_once("://") {
        Some(("https", rest)) => (Scheme::Https, rest),
        Some(("http", rest)) => (Scheme::Http, rest),
        _ => return Err("it must begin with https:// or http://"),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if url.bytes().any(|b| !b.is_ascii_graphic()) || authority.contains('@') {
        return Err("it must hold no blanks and no user");
    }
    // Delimiters (RFC 3986 appendix C), and what is for the browser alone (§3.5).
    if url.bytes().any(|b| b"\"<>`#".contains(&b)) {
        return Err("it must hold no quotes, no angle brackets and no fragment");
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let host = read_host(host)?;
    let port = match (port, scheme) {
        (Some(port), _) => read_port(port).ok_or("its port is none")?,
        (None, Scheme::Https) => 443,
        (None, Scheme::Http) => 80,
    };
    Ok((scheme, host, port))
}

/// Digits alone: a number may have a sign, a port none (RFC 3986 §3.2.3).
fn read_port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()))
}

fn not_own(host: &str, platform: Platform) -> Result<(), String> {
    match own_host::host_flaw(host, platform) {
        Some(flaw) => Err(format!("its host {host} {flaw}")),
        None => Ok(()),
    }
}

impl OutsideService {
    /// The service behind a URL, or why there is none. A name with an underscore is none: names of clusters have one in
    /// place of a dot, and of keys with one in their host Envoy refuses the whole listener.
    pub(crate) fn at(url: &str) -> Result<Self, &'static str> {
        let (scheme, host, port) = read(url)?;
        if host.contains('_') {
            return Err("proxies take no host with an underscore");
        }
        Ok(Self {
            host,
            port,
            scheme,
            variant: VariantId::OWN,
        })
    }

    /// The service behind a URL that a policy has a proxy ask, or why it may not.
    pub(crate) fn asked_at(url: &str, platform: Platform) -> Result<Self, String> {
        let at = Self::at(url)?;
        not_own(&at.host, platform)?;
        Ok(at)
    }

    /// Its address, where its host is one.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// The name of its cluster: host and port, how it is spoken to where that is not what the port is for, and what
    /// tells its variant from others. No two hosts have one name: else whoever names the one could take the place of
    /// the other.
    pub(crate) fn cluster(&self, variant: &str) -> ClusterName {
        let unusual = match (self.scheme, self.port) {
            (Scheme::Https, 80) => "_https",
            (Scheme::Https, _) | (Scheme::Http, 80) => "",
            (Scheme::Http, _) => "_http",
        };
        let name = format!("{}_{}{unusual}{variant}", self.host_in_names(), self.port);
        ClusterName::from(&*name)
    }

    /// Its host with what no host has for what names of clusters don't.
    fn host_in_names(&self) -> String {
        match self.ip() {
            // In brackets, as no name is; one of IPv4 at its end has dots.
            Some(IpAddr::V6(_)) => format!("[{}]", self.host.replace('.', "-").replace(':', "_")),
            Some(IpAddr::V4(_)) | None => self.host.replace('.', "_"),
        }
    }
}

/// The host of a URL: a name, of what names have (RFC 1123 §2.1, and underscores, which names of containers have), or
/// an address, of IPv6 in brackets and in one form.
fn read_host(text: &str) -> Result<Arc<str>, &'static str> {
    if let Some(inner) = text.strip_prefix('[') {
        let ip = inner.strip_suffix(']').and_then(|inner| inner.parse::<Ipv6Addr>().ok());
        return Ok(ip.ok_or("its host is no address of IPv6")?.to_string().into());
    }
    if text.is_empty() {
        return Err("it has no host");
    }
    let name = text.to_ascii_lowercase();
    let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if !name.bytes().all(is_of_host) {
        return Err("its host is no name");
    }
    Ok(name.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_url_names_host_port_and_scheme() {
        for (url, cluster) in [
            ("https://IdP.example/keys?x", "idp_example_443"),
            ("http://idp.example/keys", "idp_example_80"),
            ("http://idp.example:8080/keys", "idp_example_8080_http"),
            ("https://idp.example:80", "idp_example_80_https"),
            ("https://[::1]:8443/keys", "[__1]_8443"),
            ("https://[FD00:0::1]/keys", "[fd00__1]_443"),
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
            "https://fd00::1",
            "https://[fd00::1",
            "https://[idp.example]",
            "https://a%5fb",
            "https://idp_one.example/keys",
            "https://a:+443/keys",
            "https://a/keys#f",
            "https://a/k<y",
            "https://a/k>y",
            "https://a/k`y",
            "https://a/k\"y",
        ] {
            assert!(OutsideService::at(url).is_err(), "{url}");
            assert!(check_told(url).is_err(), "{url}");
        }
    }

    #[test]
    fn who_makes_no_cluster_of_a_host_takes_an_underscore() {
        assert_eq!(check("http://my_registry:5000/x.wasm"), Ok(()));
        assert!(check("http://a%5fb/x.wasm").is_err());
        for platform in [Platform::Cluster, Platform::Host] {
            assert_eq!(check_fetched("http://my_registry:5000/x.wasm", platform), Ok(()));
        }
    }

    #[test]
    fn no_two_hosts_have_one_name() {
        let urls = [
            "https://idp.bank.example/k",
            "https://idp-bank.example/k",
            "https://127.0.0.1/k",
            "https://[fd00::1]/k",
            "https://fd00--1/k",
            "https://[::ffff:1.2.3.4]/k",
            "https://[::ffff:1:2:3:4]/k",
        ];
        let names: BTreeSet<_> = urls
            .iter()
            .map(|url| OutsideService::at(url).expect(url).cluster(""))
            .collect();
        assert_eq!(names.len(), urls.len(), "{names:?}");
    }

    #[test]
    fn nobody_has_a_proxy_ask_itself() {
        for url in [
            "http://127.0.0.1:19000/x",
            "http://[::ffff:7f00:1]/",
            "http://LOCALHOST",
            "http://0x7f.1/",
        ] {
            assert!(OutsideService::asked_at(url, Platform::Cluster).is_err(), "{url}");
            assert!(check_fetched(url, Platform::Cluster).is_err(), "{url}");
            assert!(OutsideService::asked_at(url, Platform::Host).is_ok(), "{url}");
            assert!(check_fetched(url, Platform::Host).is_ok(), "{url}");
        }
    }
}
