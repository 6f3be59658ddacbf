//! What a connection begins with: whose it is (PROXY protocol), and which server is meant (TLS).

use bolero::check;
use edge_proxy::{
    config::listener::{Hello, Listener, ProxyProtocol},
    proxied,
    proxy_protocol::{self, Version},
    xds::assembly::{Assembly, Origin},
};
use rustls::server::{Accepted, Acceptor};
use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    panic::AssertUnwindSafe,
    sync::Arc,
};

use crate::proxy::{context, good_resources};

/// What a listener may expect of the header; a byte chooses.
const EXPECTED: [&[Version]; 3] = [&[Version::V1, Version::V2], &[Version::V1], &[Version::V2]];

/// A header is whole and right or none, and what it says is what it says when it is written again.
#[test]
fn proxy_header() {
    check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        let Some((choice, bytes)) = bytes.split_first() else {
            return;
        };
        let expected = ProxyProtocol {
            optional: choice & 4 != 0,
            versions: EXPECTED[usize::from(*choice & 3) % EXPECTED.len()].into(),
        };
        let mut rest = bytes;
        let Ok(said) = proxied::whole(&mut rest, &expected) else {
            return;
        };
        let taken = bytes.len() - rest.len();
        if taken == 0 {
            assert!(expected.optional && said.is_none(), "a header of nothing");
            return;
        }
        // It ends where it ends, whatever comes behind it, and a part of it is no header.
        let mut alone = &bytes[..taken];
        assert_eq!(proxied::whole(&mut alone, &expected).ok(), Some(said));
        assert!(alone.is_empty());
        let strict = ProxyProtocol {
            optional: false,
            ..expected.clone()
        };
        for end in 0..taken {
            assert!(proxied::whole(&mut &bytes[..end], &strict).is_err(), "{end} of {taken}");
        }
        for version in [Version::V1, Version::V2] {
            let written = proxy_protocol::header(version, said, None);
            let any = ProxyProtocol {
                optional: false,
                versions: EXPECTED[0].into(),
            };
            let again = proxied::whole(&mut written.as_slice(), &any).unwrap();
            assert_eq!(again.map(canonical), said.map(canonical), "{version:?}");
        }
    });
}

/// An IPv4 address stays one, in whichever family it is written.
fn canonical(ends: proxy_protocol::Addresses) -> [(IpAddr, u16); 2] {
    [ends.client, ends.local].map(|end| (end.ip().to_canonical(), end.port()))
}

/// Any bytes as a client hello, at the listener of a Gateway with a certificate: cut or whole it means the same server,
/// and the handshake goes on or ends.
#[test]
fn client_hello() {
    // What a panic leaves behind is not looked at.
    let listener = AssertUnwindSafe(tls_listener());
    check!().with_iterations(2000).for_each(|bytes: &[u8]| {
        let Some((piece, bytes)) = bytes.split_first() else {
            return;
        };
        let whole = accept(bytes, bytes.len().max(1));
        let cut = accept(bytes, usize::from(*piece) + 1);
        assert_eq!(whole.as_ref().map(server_name), cut.as_ref().map(server_name));
        let Some(accepted) = whole else { return };
        let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let server_name = server_name(&accepted);
        let chain = listener.chain_for(Hello::Tls(server_name.as_deref()), client);
        if let Some(tls) = chain.and_then(|chain| chain.tls.as_ref())
            && let Ok(mut connection) = accepted.into_connection(Arc::clone(tls.config()))
        {
            assert!(connection.is_handshaking(), "nobody has proved anything yet");
            connection.write_tls(&mut io::sink()).unwrap();
        }
    });
}

fn server_name(accepted: &Accepted) -> Option<String> {
    let hello = accepted.client_hello();
    hello.server_name().map(str::to_ascii_lowercase)
}

/// The hello at the front of all bytes of a connection, if it is whole and can be understood.
fn accept(mut bytes: &[u8], piece: usize) -> Option<Accepted> {
    let mut acceptor = Acceptor::default();
    loop {
        let mut next = &bytes[..piece.min(bytes.len())];
        let read = acceptor.read_tls(&mut next).ok()?;
        bytes = &bytes[read..];
        match acceptor.accept() {
            Ok(Some(accepted)) => return Some(accepted),
            Ok(None) if read > 0 => {}
            Ok(None) | Err(_) => return None,
        }
    }
}

fn tls_listener() -> Arc<Listener> {
    let mut assembly = Assembly::new(context());
    for (kind, resource) in good_resources() {
        assert_eq!(assembly.apply(kind, Origin::Dynamic, &[resource], &[]), []);
    }
    assembly.settle();
    let listeners = Arc::clone(&assembly.snapshot().listeners);
    Arc::clone(listeners.values().find(|listener| listener.inspects_tls).unwrap())
}
