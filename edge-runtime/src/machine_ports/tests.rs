//! With the kernel's own sockets; a process of its own stands for whoever else uses the machine.

use super::*;
use std::net::{TcpListener, UdpSocket};

fn question(protocol: PortProtocol, number: u16) -> MachinePort {
    MachinePort {
        protocol,
        number,
        family: IpFamily::V4,
    }
}

fn asked(port: MachinePort) -> QuestionChanges {
    QuestionChanges {
        added: vec![Question::Port(port)],
        removed: Vec::new(),
    }
}

fn dropped(port: MachinePort) -> QuestionChanges {
    QuestionChanges {
        added: Vec::new(),
        removed: vec![Question::Port(port)],
    }
}

/// As proxies bind.
fn shared_listener() -> (TcpListener, u16) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.set_reuse_port(true).unwrap();
    let any: SocketAddr = (Ipv4Addr::UNSPECIFIED, 0).into();
    socket.bind(&any.into()).unwrap();
    socket.listen(1).unwrap();
    let listener = TcpListener::from(socket);
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn own(read: fn(&Path) -> BTreeSet<u32>) -> OwnProxies {
    let folder = PathBuf::new();
    OwnProxies { folder, read }
}

/// Claims of a controller with these proxies.
fn claims(read: fn(&Path) -> BTreeSet<u32>) -> PortClaims {
    let mut claims = PortClaims::default();
    assert_eq!(claims.change_own(Some(own(read))), []);
    claims
}

fn nobody(_: &Path) -> BTreeSet<u32> {
    BTreeSet::new()
}

fn this_process(_: &Path) -> BTreeSet<u32> {
    [std::process::id()].into()
}

/// Makes the time come at which held ports are looked at again.
fn look_again(claims: &mut PortClaims) -> Vec<Fact> {
    claims.looked = claims.looked.map(|at| at - LOOK_EVERY);
    claims.look_again()
}

#[test]
fn a_port_that_a_stranger_shares_is_not_ours_until_it_is_free() {
    let (listener, number) = shared_listener();
    let port = question(PortProtocol::Tcp, number);
    let mut claims = self::claims(nobody);
    let [Fact::Port(told, Some(holder))] = &claims.follow(&asked(port))[..] else {
        panic!("{claims:?}");
    };
    assert_eq!(*told, port);
    assert!(
        holder.starts_with(&format!("process {} (", std::process::id())),
        "{holder}"
    );
    assert!(claims.wait().is_some_and(|wait| wait <= LOOK_EVERY));
    assert_eq!(look_again(&mut claims), [], "no news");
    drop(listener);
    assert_eq!(look_again(&mut claims), [Fact::Port(port, None)]);
    assert_eq!(claims.wait(), None);
}

#[test]
fn a_port_that_our_proxies_hold_is_ours() {
    let (_listener, number) = shared_listener();
    let port = question(PortProtocol::Tcp, number);
    let mut claims = self::claims(this_process);
    assert_eq!(claims.follow(&asked(port)), []);
    assert_eq!(claims.wait(), None);
    assert_eq!(claims.change_own(None), [], "none of our business");
    let [Fact::Port(told, Some(_))] = claims.change_own(Some(own(nobody)))[..] else {
        panic!("{claims:?}");
    };
    assert_eq!(told, port);
    assert_eq!(claims.change_own(None), [Fact::Port(port, None)]);
}

#[test]
fn of_two_controllers_one_has_a_port_before_anybody_binds_it() {
    let (listener, number) = shared_listener();
    drop(listener);
    let port = question(PortProtocol::Tcp, number);
    let (mut first, mut second) = (claims(nobody), claims(nobody));
    assert_eq!(first.follow(&asked(port)), []);
    let [Fact::Port(_, Some(holder))] = &second.follow(&asked(port))[..] else {
        panic!("{second:?}");
    };
    let expected = format!("another controller, process {} (", std::process::id());
    assert!(holder.starts_with(&expected), "{holder}");
    assert_eq!(first.follow(&dropped(port)), []);
    assert_eq!(look_again(&mut second), [Fact::Port(port, None)]);
}

#[test]
fn a_stranger_is_forgotten_with_the_question() {
    let (_listener, number) = shared_listener();
    let port = question(PortProtocol::Tcp, number);
    let mut claims = self::claims(nobody);
    assert_eq!(claims.follow(&asked(port)).len(), 1);
    assert_eq!(claims.follow(&dropped(port)), [Fact::Port(port, None)]);
    assert_eq!(claims.wait(), None);
}

#[test]
fn datagrams_and_connections_have_ports_of_their_own_and_so_have_families() {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let number = socket.local_addr().unwrap().port();
    let mut claims = self::claims(nobody);
    assert_eq!(claims.follow(&asked(question(PortProtocol::Udp, number))).len(), 1);

    let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
    let number = listener.local_addr().unwrap().port();
    assert_eq!(claims.follow(&asked(question(PortProtocol::Tcp, number))), []);
    let dual = MachinePort {
        family: IpFamily::DualStack,
        ..question(PortProtocol::Tcp, number)
    };
    assert_eq!(claims.follow(&asked(dual)).len(), 1);
}
