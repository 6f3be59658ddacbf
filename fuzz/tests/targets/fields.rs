//! What clients put into fields and targets, and scripts into content: cookies, addresses, parameters, tokens, base64.

use bolero::check;
use edge_proxy::{config::filter::session::SessionCookie, readers};
use http::{HeaderMap, HeaderValue, header, uri::PathAndQuery};

/// The name of whatever is looked for.
const NAME: &str = "n";

/// Any value of a field: what is found of it stands in it, and what is taken out is gone.
#[test]
fn values() {
    check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        let Some((choice, bytes)) = bytes.split_first() else {
            return;
        };
        match choice % 5 {
            0 => cookies(bytes),
            1 => forwarded(bytes),
            2 => parameters(bytes),
            3 => tokens(bytes),
            _ => base64(usize::from(choice / 5) + 1, bytes),
        }
    });
}

/// Lines of a field, as many as the bytes have.
fn lines(name: header::HeaderName, bytes: &[u8]) -> HeaderMap {
    let lines = bytes.split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| Some((name.clone(), HeaderValue::from_bytes(line).ok()?)))
        .collect()
}

fn contains(whole: &[u8], part: &[u8]) -> bool {
    part.is_empty() || whole.windows(part.len()).any(|window| window == part)
}

fn cookies(bytes: &[u8]) {
    let mut fields = lines(header::COOKIE, bytes);
    let found = readers::cookie(&fields, NAME).map(<[u8]>::to_vec);
    assert!(found.is_none_or(|value| contains(bytes, &value)));
    let cookie = SessionCookie {
        name: NAME.into(),
        path: "/".into(),
        lifetime: None,
        attributes: "".into(),
    };
    // An address that nobody has is no host's.
    let _ = readers::session_host(&fields, &cookie);
    let other = readers::cookie(&fields, "other").map(<[u8]>::to_vec);
    let rest = readers::without_cookie(&fields, NAME);
    fields.remove(header::COOKIE);
    fields.extend(rest.map(|rest| (header::COOKIE, rest)));
    assert_eq!(readers::cookie(&fields, NAME), None);
    assert_eq!(readers::cookie(&fields, "other").map(<[u8]>::to_vec), other);
}

fn forwarded(bytes: &[u8]) {
    let fields = lines(header::HeaderName::from_static("x-forwarded-for"), bytes);
    let clients: Vec<_> = (0..4).map(|skip| readers::forwarded_client(&fields, skip)).collect();
    // Where a list ends, it has ended for those who skip more.
    let text = String::from_utf8_lossy(bytes);
    let most = text.split([',', '\n']).count();
    assert!(clients.iter().skip(most).all(Option::is_none), "{text:?}: {clients:?}");
}

fn parameters(bytes: &[u8]) {
    let Ok(target) = PathAndQuery::try_from(bytes) else {
        return;
    };
    let target = target.as_str();
    let found = readers::parameter(target, NAME);
    let rest = readers::without_parameter(target, NAME);
    assert_eq!(found.is_some(), rest.is_some(), "{target}");
    if let Some(rest) = rest {
        assert_eq!(readers::parameter(&rest, NAME), None, "{target} became {rest}");
        assert_eq!(
            readers::parameter(&rest, "other"),
            readers::parameter(target, "other"),
            "{target} became {rest}"
        );
    }
}

fn tokens(bytes: &[u8]) {
    let Ok(token) = std::str::from_utf8(bytes) else { return };
    match readers::claims(token) {
        Ok(claims) => assert!(claims.is_object() && token.split('.').count() == 3, "{token}"),
        Err(why) => assert!(why.starts_with("Jwt"), "{token}: {why}"),
    }
}

fn base64(piece: usize, bytes: &[u8]) {
    let pieces: Vec<&[u8]> = bytes.chunks(piece).collect();
    assert_eq!(
        readers::content_of_base64(&pieces),
        readers::content_of_base64(&[bytes])
    );
}
