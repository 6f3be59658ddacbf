use super::*;

const LIMITS: Limits = Limits {
    bytes: 1024,
    fields: 8,
    names: Names::Lowered,
};

fn parse(text: &[u8]) -> Result<Option<RequestHead>, Malformed> {
    let mut buffer = BytesMut::from(text);
    request(&mut buffer, &mut Unfinished::default(), LIMITS, &mut HeaderMap::new())
}

fn parse_response(text: &str, method: &Method) -> Result<Option<ResponseHead>, Malformed> {
    let mut buffer = BytesMut::from(text);
    let mut headers = HeaderMap::new();
    response(&mut buffer, &mut Unfinished::default(), LIMITS, method, &mut headers)
}

#[test]
fn a_head_is_taken_off_and_what_follows_stays() {
    let mut buffer =
        BytesMut::from("POST /p?q HTTP/1.1\r\nHost: h\r\nX-A:  1 \r\nX-a: 2\r\ncontent-length: 3\r\n\r\nabcGET");
    let head = request(&mut buffer, &mut Unfinished::default(), LIMITS, &mut HeaderMap::new())
        .unwrap()
        .unwrap();
    assert_eq!((head.method, head.version), (Method::POST, Version::HTTP_11));
    assert_eq!(head.uri, "/p?q");
    let values: Vec<_> = head.headers.get_all("x-a").iter().collect();
    assert_eq!(values, ["1", "2"]);
    assert_eq!((head.framing, head.keep_alive), (Framing::Length(3), true));
    assert_eq!(&buffer[..], b"abcGET");
}

#[test]
fn heads_that_the_grammar_does_not_allow() {
    for bad in [
        "GET /\r\n\r\n",
        "GET / HTTP/1.1\r\nx : a\r\n\r\n",
        "GET / HTTP/1.1\r\n: a\r\n\r\n",
        "GET / HTTP/1.1\r\nx\r\n\r\n",
        "GET / HTTP/1.1\r\nx@y: a\r\n\r\n",
        "GET / HTTP/1.1\r\nx: a\r\n b\r\n\r\n",
        "GET / HTTP/1.1\r\n x: a\r\n\r\n",
        "GET / HTTP/1.1\r\nx: a\rb\r\n\r\n",
        "GET / HTTP/1.1\r\nx: a\0b\r\n\r\n",
        "GET / HTTP/1.1\r\nx: a\x7fb\r\n\r\n",
        "GET / HTTP/1.1\r\nx\0: a\r\n\r\n",
        "GET  / HTTP/1.1\r\n\r\n",
        "GET /  HTTP/1.1\r\n\r\n",
        "GET\t/\tHTTP/1.1\r\n\r\n",
        "GET / HTTP/1.2\r\n\r\n",
        "GET / HTTP/2.0\r\n\r\n",
        "GET / http/1.1\r\n\r\n",
        "GET / HTTP/1.1 \r\n\r\n",
        "G@T / HTTP/1.1\r\n\r\n",
        " GET / HTTP/1.1\r\n\r\n",
        "GET /a#b HTTP/1.1\r\n\r\n",
        "GET /\u{e9} HTTP/1.1\r\n\r\n",
        "GET * HTTP/1.1\r\n\r\n",
        "GET h:80 HTTP/1.1\r\n\r\n",
        "GET ftp://h/ HTTP/1.1\r\n\r\n",
        "GET p HTTP/1.1\r\n\r\n",
        "CONNECT / HTTP/1.1\r\n\r\n",
        "CONNECT http://h/ HTTP/1.1\r\n\r\n",
        "\x16\x03\x01\x02",
    ] {
        assert_eq!(parse(bad.as_bytes()).map(|_| ()), Err(Malformed::Head), "{bad:?}");
    }
}

#[test]
fn targets_depend_on_the_method() {
    for (line, target) in [
        ("OPTIONS * HTTP/1.1", "*"),
        ("CONNECT h:443 HTTP/1.1", "h:443"),
        ("GET http://h/p HTTP/1.1", "http://h/p"),
        ("\r\n\r\nGET /p HTTP/1.1", "/p"),
    ] {
        let head = parse(format!("{line}\r\n\r\n").as_bytes()).unwrap().unwrap();
        assert_eq!(head.uri.to_string(), target);
    }
}

#[test]
fn connections_stay_as_the_version_and_the_fields_say() {
    let keeps = |version, field: &str| {
        let text = format!("GET / HTTP/{version}\r\n{field}\r\n");
        parse(text.as_bytes()).unwrap().unwrap().keep_alive
    };
    assert!(keeps("1.1", ""));
    assert!(!keeps("1.1", "connection: Close\r\n"));
    assert!(!keeps("1.1", "connection: x, close\r\nconnection: keep-alive\r\n"));
    assert!(keeps("1.1", "connection: closed\r\n"));
    assert!(!keeps("1.0", ""));
    assert!(keeps("1.0", "connection: keep-alive\r\n"));
    assert!(!keeps(
        "1.0",
        "connection: keep-alive\r\ntransfer-encoding: chunked\r\n"
    ));
}

#[test]
fn a_100_is_wanted_only_where_there_is_a_body_and_who_knows_it() {
    let wants = |version, fields: &str| {
        let text = format!("PUT / HTTP/{version}\r\nexpect: 100-Continue\r\n{fields}\r\n");
        parse(text.as_bytes()).unwrap().unwrap().expects_continue
    };
    assert!(wants("1.1", "content-length: 1\r\n"));
    assert!(!wants("1.1", "content-length: 0\r\n"));
    assert!(!wants("1.0", "content-length: 1\r\n"));
}

#[test]
fn heads_have_limits() {
    let many = |n| format!("GET / HTTP/1.1\r\n{}\r\n", "x: a\r\n".repeat(n));
    assert!(parse(many(8).as_bytes()).unwrap().is_some());
    assert_eq!(parse(many(9).as_bytes()).map(|_| ()), Err(Malformed::HeadTooLarge));
    let long = |n| format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "a".repeat(n));
    assert!(parse(long(1001).as_bytes()).unwrap().is_some());
    assert_eq!(parse(long(1002).as_bytes()).map(|_| ()), Err(Malformed::HeadTooLarge));
    let endless = format!("GET / HTTP/1.1\r\nx: {}", "a".repeat(2000));
    assert_eq!(parse(endless.as_bytes()).map(|_| ()), Err(Malformed::HeadTooLarge));
    assert_eq!(
        parse("\r\n".repeat(600).as_bytes()).map(|_| ()),
        Err(Malformed::HeadTooLarge)
    );
    // More fields than are parsed without heap memory.
    let limits = Limits {
        names: Names::Lowered,
        bytes: 65_536,
        fields: 300,
    };
    let mut buffer = BytesMut::from(many(300).as_str());
    let head = request(&mut buffer, &mut Unfinished::default(), limits, &mut HeaderMap::new());
    assert_eq!(head.unwrap().unwrap().headers.len(), 300);
}

#[test]
fn a_head_may_come_byte_by_byte_and_is_not_parsed_for_each() {
    for text in [
        "GET / HTTP/1.1\r\nhost: h\r\n\r\n",
        "GET / HTTP/1.1\nhost: h\n\n",
        "\r\nGET / HTTP/1.1\r\n\r\n",
    ] {
        let mut buffer = BytesMut::new();
        let mut unfinished = Unfinished::default();
        for (at, byte) in text.bytes().enumerate() {
            buffer.extend_from_slice(&[byte]);
            let head = request(&mut buffer, &mut unfinished, LIMITS, &mut HeaderMap::new()).unwrap();
            assert_eq!(head.is_some(), at == text.len() - 1, "{text:?} {at}");
        }
        assert!(buffer.is_empty());
    }
    let seen = Unfinished { seen: 3 };
    assert!(!seen.may_be_complete(b"GET / HTTP/1.1\r\nhost: h\r\n"));
    assert!(seen.may_be_complete(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n"));
}

#[test]
fn responses_say_how_they_end() {
    let of = |text: &str| {
        let head = parse_response(text, &Method::GET).unwrap().unwrap();
        (head.status.as_u16(), head.framing, head.keep_alive)
    };
    assert_eq!(
        of("HTTP/1.1 200 Fine\r\ncontent-length: 2\r\n\r\n"),
        (200, Framing::Length(2), true)
    );
    assert_eq!(of("HTTP/1.1 200\r\n\r\n"), (200, Framing::UntilClose, false));
    assert_eq!(of("HTTP/1.1 600 x\r\ncontent-length: 0\r\n\r\n").0, 600);
    assert_eq!(
        of("HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n"),
        (200, Framing::Length(2), false)
    );
    assert_eq!(
        of("HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n"),
        (200, Framing::Chunked, false)
    );
    for (bad, expected) in [
        ("SSH-2.0-x\r\n\r\n", Malformed::Head),
        ("HTTP/1.1 20 OK\r\n\r\n", Malformed::Head),
        ("HTTP/1.1 200 OK\r\nx: a\r\n b\r\n\r\n", Malformed::Head),
        ("HTTP/1.1 200 OK\r\nx : a\r\n\r\n", Malformed::Head),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n",
            Malformed::Framing,
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n",
            Malformed::Framing,
        ),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
            Malformed::TransferCoding,
        ),
    ] {
        assert_eq!(parse_response(bad, &Method::GET).map(|_| ()), Err(expected), "{bad:?}");
    }
}

#[test]
fn what_clients_send_raw_though_it_may_not_be_is_escaped() {
    for (target, uri) in [
        ("/a<b>`c`?<d>`\"e\"", "/a%3Cb%3E%60c%60?%3Cd%3E`%22e%22"),
        ("/a\"b", "/a\"b"),
        ("/a?b", "/a?b"),
    ] {
        let head = parse(format!("GET {target} HTTP/1.1\r\nhost: h\r\n\r\n").as_bytes());
        assert_eq!(head.unwrap().unwrap().uri, uri, "{target}");
    }
    assert!(parse(b"GET http://h/<a> HTTP/1.1\r\nhost: h\r\n\r\n").is_err());
}
