use super::client::forwarded;
use super::*;

fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers
}

fn head(fields: &[(&'static str, &'static str)]) -> Head {
    Head {
        headers: headers(fields),
        ..Head::empty()
    }
}

#[test]
fn the_authority_comes_from_one_host_or_from_the_target() {
    let authority = http::uri::Authority::from_static("target.example");
    let take = |fields: &[(&'static str, &'static str)], authority, version| {
        let mut head = head(fields);
        take_authority(&mut head, authority, version, &Http1Options::default())
            .map(|()| head.authority_text().to_owned())
    };
    let (one, two) = (Version::HTTP_11, Version::HTTP_2);
    assert_eq!(
        take(&[("host", "a.example:80")], None, one),
        Ok("a.example:80".to_owned())
    );
    assert_eq!(
        take(&[("host", "lie")], Some(&authority), one),
        Ok("target.example".to_owned())
    );
    assert_eq!(take(&[], Some(&authority), two), Ok("target.example".to_owned()));
    assert_eq!(take(&[("host", "")], None, one), Ok(String::new()));
    for bad in [
        take(&[], None, one),
        take(&[], Some(&authority), one),
        take(&[("host", "a"), ("host", "b")], None, one),
        take(&[("host", "a"), ("host", "a")], None, one),
        take(&[("host", "user@a")], None, one),
        take(&[("host", "a/b")], None, one),
        take(&[("host", "a b")], None, one),
    ] {
        assert_eq!(bad, Err(Fault::BadRequest));
    }
}

#[test]
fn requests_of_http_1_0_alone_may_leave_the_host_to_the_listener() {
    let options = Http1Options {
        default_host: Some(HeaderValue::from_static("www.example.com")),
        ..Http1Options::default()
    };
    let take = |fields: &[(&'static str, &'static str)], version| {
        let mut head = head(fields);
        take_authority(&mut head, None, version, &options).map(|()| head.authority_text().to_owned())
    };
    assert_eq!(take(&[], Version::HTTP_10), Ok("www.example.com".to_owned()));
    assert_eq!(take(&[("host", "a")], Version::HTTP_10), Ok("a".to_owned()));
    assert_eq!(take(&[], Version::HTTP_11), Err(Fault::BadRequest));
}

#[test]
fn only_chunked_alone_is_a_coding_that_is_understood() {
    let check = |fields: &[(&'static str, &'static str)]| {
        let headers = headers(fields);
        check_framing(&headers, &scan(&headers, "x-edge-"))
    };
    assert_eq!(check(&[]), Ok(()));
    assert_eq!(check(&[("transfer-encoding", " Chunked")]), Ok(()));
    for value in ["gzip, chunked", "chunked, chunked", "identity", ""] {
        assert_eq!(
            check(&[("transfer-encoding", value)]),
            Err(Fault::TransferCoding),
            "{value}"
        );
    }
    let twice = [("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")];
    assert_eq!(check(&twice), Err(Fault::TransferCoding));
}

#[test]
fn upgrades_need_both_fields() {
    let note = |fields: &[(&'static str, &'static str)]| {
        let mut head = head(fields);
        let seen = scan(&head.headers, "x-edge-");
        let mut notes = Notes::default();
        let ignored = [StringCondition::Prefix("TLS/".into())];
        note_upgrade(&mut head, &mut notes, &seen, &ignored, None).map(|()| notes.upgrade.as_deref().map(str::to_owned))
    };
    assert_eq!(
        note(&[("connection", "keep-alive, Upgrade"), ("upgrade", "WebSocket")]),
        Ok(Some("websocket".into()))
    );
    assert_eq!(note(&[("upgrade", "websocket")]), Ok(None));
    assert_eq!(note(&[("connection", "upgrade")]), Ok(None));
    assert_eq!(
        note(&[("connection", "Upgrade, HTTP2-Settings"), ("upgrade", "h2c")]),
        Ok(None)
    );
    assert_eq!(
        note(&[("connection", "Upgrade"), ("upgrade", "TLS/1.2, TLS/1.3")]),
        Ok(None)
    );
    assert_eq!(
        note(&[("connection", "Upgrade"), ("upgrade", "TLS/1.3, websocket")]),
        Ok(Some("websocket".into()))
    );
}

#[test]
fn fields_that_connection_names_go_with_it() {
    let mut headers = headers(&[
        ("connection", "x-a, Close"),
        ("connection", "content-length"),
        ("x-a", "1"),
        ("x-b", "2"),
        ("host", "h"),
        ("content-length", "3"),
        ("keep-alive", "1"),
        ("te", "deflate, trailers"),
        ("trailer", "x"),
        ("expect", "100-continue"),
    ]);
    let mut notes = Notes::default();
    let seen = scan(&headers, "x-edge-");
    assert_eq!(remove_nominated(&mut headers, &seen), Ok(()));
    remove_hop_by_hop(&mut headers, &seen, &mut notes);
    let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
    left.sort_unstable();
    assert_eq!(left, ["content-length", "host", "x-b"]);
    assert!(notes.te_trailers);
}

#[test]
fn connection_must_not_name_what_proxies_rely_on() {
    let refused = |value| {
        let mut headers = headers(&[("connection", value), ("x-forwarded-for", "1.1.1.1")]);
        let seen = scan(&headers, "x-edge-");
        remove_nominated(&mut headers, &seen) == Err(Fault::BadRequest)
    };
    for value in [
        "X-Forwarded-For",
        "close, x-forwarded-host",
        "x-forwarded-proto",
        "host",
        ":path",
        "a,b,c,d,e,f,g,h,i,j",
    ] {
        assert!(refused(value), "{value}");
    }
    for value in ["close", "x-forwarded-port", "a,b,c,d,e,f,g,h,i", ""] {
        assert!(!refused(value), "{value}");
    }
}

#[test]
fn crumbs_of_a_cookie_become_one_field() {
    let mut two = headers(&[("cookie", "a=b"), ("x-a", "1"), ("cookie", "c=d; e=f")]);
    join_cookies(&mut two);
    let cookies: Vec<_> = two.get_all("cookie").iter().collect();
    assert_eq!(cookies, ["a=b; c=d; e=f"]);
}

#[test]
fn the_scan_sees_underscores_and_the_prefix() {
    let seen = |name| scan(&headers(&[(name, "1")]), "x-edge-");
    assert!(seen("x_a").underscore && !seen("x-a").underscore);
    assert!(seen("x-edge-internal").prefixed && !seen("x-edges").prefixed);
}

#[test]
fn forwarded_addresses_are_counted_from_the_right() {
    let lines = headers(&[("x-forwarded-for", "1.1.1.1, 2.2.2.2"), ("x-forwarded-for", "3.3.3.3")]);
    let at = |skip| forwarded(&lines, skip).map(|address| address.to_string());
    assert_eq!(at(0).as_deref(), Some("3.3.3.3"));
    assert_eq!(at(1).as_deref(), Some("2.2.2.2"));
    assert_eq!(at(2).as_deref(), Some("1.1.1.1"));
    assert_eq!(at(3), None);
    assert_eq!(forwarded(&headers(&[("x-forwarded-for", "nonsense")]), 0), None);
}

/// As from stock Envoy 1.40.
#[test]
fn ports_go_if_they_are_any_or_the_listeners() {
    for (authority, any, matching) in [
        ("a.example:80", Some("a.example"), Some("a.example")),
        ("a.example:080", Some("a.example"), Some("a.example")),
        ("a.example:81", Some("a.example"), None),
        ("a.example:99999", Some("a.example"), None),
        ("[::1]:80", Some("[::1]"), Some("[::1]")),
        ("a.example:", None, None),
        ("a.example:x", None, None),
        ("a.example", None, None),
        ("[::1]", None, None),
    ] {
        let by = |unwanted| without_unwanted_port(authority, unwanted, 80);
        assert_eq!(by(StripPort::Any), any, "{authority}");
        assert_eq!(by(StripPort::Matching), matching, "{authority}");
        assert_eq!(by(StripPort::Keep), None, "{authority}");
    }
}
