use super::*;
use crate::compile::files::Disk;
use crate::compile::prefixed_headers;

fn pieces(text: &str, wanted: &mut CapturedFields) -> Result<Vec<Piece>, Rejection> {
    let context = Context::new(Box::new(Disk), prefixed_headers("").unwrap(), 1);
    super::pieces(&At::root(), text, &mut Words::of(&context, wanted))
}

fn only(text: &str) -> Result<Operator, Rejection> {
    let mut pieces = pieces(text, &mut CapturedFields::default())?;
    match (pieces.pop(), pieces.is_empty()) {
        (Some(Piece::Value(operator)), true) => Ok(operator),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn every_operator_of_the_default_formats_is_known() {
    for format in [
        DEFAULT,
        "%CONNECTION_TERMINATION_DETAILS% %UPSTREAM_LOCAL_ADDRESS% 100%%",
    ] {
        pieces(DEFAULT, &mut CapturedFields::default()).unwrap();
        pieces(format, &mut CapturedFields::default()).unwrap();
    }
    let duration = Operator::Duration(Moment::Sent, Moment::Answered, 1_000_000);
    assert_eq!(only("%COMMON_DURATION(US_TX_BEG:US_RX_BEG:us)%"), Ok(duration));
    let port = Operator::Address(AddressOf::Peer, AddressPart::Port);
    assert_eq!(only("%DOWNSTREAM_DIRECT_REMOTE_PORT%"), Ok(port));
}

#[test]
fn a_path_is_told_as_it_came_or_as_it_is() {
    let field = |first, second, max_len, query| {
        Operator::Request(FieldOf {
            first,
            second,
            max_len,
            query,
        })
    };
    let original = Named::Field(0);
    for (text, expected) in [
        ("%PATH%", field(original, Some(Named::Path), None, Query::Kept)),
        ("%PATH(NQ)%", field(original, Some(Named::Path), None, Query::Cut)),
        ("%PATH(WQ:ORIG):5%", field(original, None, Some(5), Query::Kept)),
        ("%PATH(NQ:PATH)%", field(Named::Path, None, None, Query::Cut)),
    ] {
        assert_eq!(only(text), Ok(expected), "{text}");
    }
    assert!(only("%PATH(NQ:OTHER)%").is_err() && only("%PATH(XQ)%").is_err());
}

#[test]
fn what_filters_have_found_out_is_asked_for_by_a_way() {
    let at = |path: &[&str], most| {
        let path = MetadataPath {
            filter: "envoy.filters.http.jwt_authn".into(),
            path: path.iter().map(|key| (*key).into()).collect(),
        };
        Operator::Metadata(Box::new(path), most)
    };
    let said = |tail: &str| only(&format!("%DYNAMIC_METADATA(envoy.filters.http.jwt_authn{tail}%"));
    assert_eq!(said(":claims:sub)"), Ok(at(&["claims", "sub"], None)));
    assert_eq!(said("):9"), Ok(at(&[], Some(9))));
    assert!(said("):x").is_err());
}

#[test]
fn a_variable_is_a_text() {
    let said = |text: &str| pieces(text, &mut CapturedFields::default()).unwrap();
    assert_eq!(
        said("%ENVIRONMENT(CARGO_PKG_NAME)%"),
        [Piece::Text("edge-proxy".into())]
    );
    assert_eq!(said("%ENVIRONMENT(CARGO_PKG_NAME):4%"), [Piece::Text("edge".into())]);
    assert_eq!(said("%ENVIRONMENT(EDGE_NO_SUCH)%"), [Piece::Text("-".into())]);
}

#[test]
fn what_is_not_known_is_rejected_by_name() {
    for text in [
        "%NO_SUCH%",
        "%DURATION(x)%",
        "%START_TIME(%Q)%",
        "%UPSTREAM_TLS_VERSION%",
        "%COMMON_DURATION(US_RX_END:DS_TX_END)%",
        "%PROTOCOL%%UPSTREAM_PORT%",
    ] {
        let rejection = pieces(text, &mut CapturedFields::default()).unwrap_err();
        assert!(rejection.reason.contains("not supported"), "{text}: {rejection}");
    }
    assert!(pieces("50% off", &mut CapturedFields::default()).is_err());
    assert!(pieces("%REQ(x):y%", &mut CapturedFields::default()).is_err());
}

#[test]
fn a_field_that_several_logs_want_is_looked_for_once() {
    let mut wanted = CapturedFields::default();
    let found = pieces("%REQ(X-A)%%REQ(x-b?X-a):3%", &mut wanted).unwrap();
    assert_eq!(wanted.request, ["x-a", "x-b"]);
    let expected = FieldOf {
        first: Named::Field(1),
        second: Some(Named::Field(0)),
        max_len: Some(3),
        query: Query::Kept,
    };
    assert_eq!(found[1], Piece::Value(Operator::Request(expected)));
}
