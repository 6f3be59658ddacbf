use super::*;

const BOTH: &[Version] = &[Version::V1, Version::V2];

fn of(client: &str, local: &str) -> Addresses {
    Addresses {
        client: client.parse().unwrap(),
        local: local.parse().unwrap(),
    }
}

/// What a whole header says.
fn read(bytes: &[u8]) -> Result<Said, Malformed> {
    match look(bytes, BOTH)? {
        Look::Line(length) if length == bytes.len() => text(bytes),
        Look::Fixed => {
            let (head, rest) = bytes.split_first_chunk().unwrap();
            let announced = fixed(head)?;
            assert_eq!(announced.addresses + announced.rest, rest.len());
            binary(&rest[..announced.addresses])
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_written_is_read() {
    for (addresses, line) in [
        (
            of("192.0.2.1:1", "198.51.100.2:443"),
            "PROXY TCP4 192.0.2.1 198.51.100.2 1 443\r\n",
        ),
        (
            of("[2001:db8::1]:65535", "[2001:db8::2]:80"),
            "PROXY TCP6 2001:db8::1 2001:db8::2 65535 80\r\n",
        ),
        // A socket for both families shows addresses of version 4 like this.
        (
            of("[::ffff:192.0.2.1]:1", "198.51.100.2:2"),
            "PROXY TCP4 192.0.2.1 198.51.100.2 1 2\r\n",
        ),
        (
            of("192.0.2.1:1", "[2001:db8::2]:2"),
            "PROXY TCP6 ::ffff:192.0.2.1 2001:db8::2 1 2\r\n",
        ),
    ] {
        assert_eq!(header(Version::V1, Some(addresses), None), line.as_bytes());
        for version in [Version::V1, Version::V2] {
            let said = read(&header(version, Some(addresses), None));
            assert_eq!(said, Ok(Said::Behalf(of_one_family(addresses))), "{version:?}");
        }
    }
}

#[test]
fn a_proxy_that_speaks_for_itself_says_so() {
    let own = of("127.0.0.1:4000", "127.0.0.1:80");
    assert_eq!(
        header(Version::V1, None, Some(own)),
        b"PROXY TCP4 127.0.0.1 127.0.0.1 4000 80\r\n"
    );
    assert_eq!(header(Version::V1, None, None), b"PROXY UNKNOWN\r\n");
    assert_eq!(header(Version::V2, None, Some(own)), b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0");
    for nobody in [
        &b"PROXY UNKNOWN\r\n"[..],
        b"PROXY UNKNOWN ffff::1 ::1 65535 65535\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
        b"\r\n\r\n\0\r\nQUIT\n\x20\xff\0\x02ab",
    ] {
        assert_eq!(read(nobody), Ok(Said::Nobody));
    }
}

#[test]
fn a_header_is_known_by_its_first_bytes() {
    for (bytes, versions, found) in [
        (&b""[..], BOTH, Look::Partial),
        (b"PRO", BOTH, Look::Partial),
        (b"PROXY ", BOTH, Look::Partial),
        (b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r", BOTH, Look::Partial),
        (b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\nGET /", BOTH, Look::Line(32)),
        (b"\r\n\r\n\0\r\nQUIT\n", BOTH, Look::Partial),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", BOTH, Look::Fixed),
        (b"GET / HTTP/1.1\r\n", BOTH, Look::Nothing),
        (b"PRI * HTTP/2.0", BOTH, Look::Nothing),
        (b"\r\n\r\nGET", BOTH, Look::Nothing),
        (b"\x16\x03\x01", BOTH, Look::Nothing),
        (b"proxy tcp4", BOTH, Look::Nothing),
        (b"PROXY TCP4", &[Version::V2], Look::Nothing),
        (b"\r\n\r\n\0", &[Version::V1], Look::Nothing),
    ] {
        assert_eq!(look(bytes, versions), Ok(found), "{bytes:?}");
    }
}

#[test]
fn lines_are_bounded_and_without_control_characters() {
    let long = format!("PROXY TCP6 {}", "f".repeat(200));
    let ends_late = format!("PROXY UNKNOWN {}\r\n", "f".repeat(LONGEST_LINE - 15));
    for bad in [
        long.as_bytes(),
        ends_late.as_bytes(),
        b"PROXY TCP4 1.1.1.1\n",
        b"PROXY TCP4\t1.1.1.1",
        b"PROXY TCP4 \r1.1.1.1",
        b"PROXY \xff",
    ] {
        assert_eq!(look(bad, BOTH), Err(Malformed), "{bad:?}");
    }
    let longest = format!("PROXY UNKNOWN {}\r\n", "f".repeat(LONGEST_LINE - 16));
    assert_eq!(look(longest.as_bytes(), BOTH), Ok(Look::Line(LONGEST_LINE)));
}

#[test]
fn a_line_that_is_not_right_is_refused() {
    for bad in [
        "PROXY\r\n",
        "PROXY TCP\r\n",
        "PROXY TCP4\r\n",
        "PROXY TCP4 1.1.1.1 2.2.2.2 1\r\n",
        "PROXY TCP4 1.1.1.1 2.2.2.2 1 2 \r\n",
        "PROXY TCP4 1.1.1.1  2.2.2.2 1 2\r\n",
        "PROXY TCP4 1.1.1.1 2.2.2.2 1 65536\r\n",
        "PROXY TCP4 1.1.1.1 2.2.2.2 -1 2\r\n",
        "PROXY TCP4 1.1.1.1 2.2.2.2 +1 2\r\n",
        "PROXY TCP4 01.1.1.1 2.2.2.2 1 2\r\n",
        "PROXY TCP4 1.1.1 2.2.2.2 1 2\r\n",
        "PROXY TCP4 ::1 ::2 1 2\r\n",
        "PROXY TCP6 1.1.1.1 2.2.2.2 1 2\r\n",
        "PROXY TCP6 ::1%lo ::2 1 2\r\n",
        "PROXY TCP4 0.0.0.0 2.2.2.2 1 2\r\n",
        "PROXY TCP4 224.0.0.1 2.2.2.2 1 2\r\n",
        "PROXY TCP4 1.1.1.1 255.255.255.255 1 2\r\n",
        "PROXY TCP6 :: ::2 1 2\r\n",
        "PROXY TCP6 ff02::1 ::2 1 2\r\n",
        "PROXY TCP6 ::ffff:0.0.0.0 ::2 1 2\r\n",
        "PROXY TCP6 ::2 ::ffff:224.0.0.1 1 2\r\n",
        "PROXY UDP4 1.1.1.1 2.2.2.2 1 2\r\n",
    ] {
        assert_eq!(text(bad.as_bytes()), Err(Malformed), "{bad:?}");
    }
}

#[test]
fn a_fixed_part_that_is_not_right_is_refused() {
    let with = |kind, family, length: u16| {
        let mut bytes = [0; FIXED];
        bytes[..12].copy_from_slice(&SIGNATURE);
        bytes[12..14].copy_from_slice(&[kind, family]);
        bytes[14..].copy_from_slice(&length.to_be_bytes());
        fixed(&bytes)
    };
    for (kind, family, length) in [
        (0x11, 0x11, 12),  // another version
        (0x22, 0x11, 12),  // another command
        (0x21, 0x00, 12),  // no family
        (0x21, 0x31, 216), // sockets of Unix
        (0x21, 0x10, 12),  // no transport
        (0x21, 0x13, 12),
        (0x21, 0x11, 11),
        (0x21, 0x21, 35),
    ] {
        assert_eq!(
            with(kind, family, length),
            Err(Malformed),
            "{kind:x} {family:x} {length}"
        );
    }
    let announced = |addresses, rest| Ok(Announced { addresses, rest });
    assert_eq!(with(0x21, 0x11, 12), announced(12, 0));
    assert_eq!(with(0x21, 0x22, 40), announced(36, 4));
    assert_eq!(with(0x20, 0x11, 5), announced(0, 5));
}
