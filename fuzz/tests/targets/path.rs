//! Paths of requests: what the proxy makes of them before it looks at its rules.

use bolero::check;
use bytes::Bytes;
use edge_proxy::{
    config::http_manager::{EscapedSlashes, PathNormalization},
    path::{Normalized, normalize},
};
use http::uri::PathAndQuery;

/// What a server makes of a path that decodes it once.
fn decoded(path: &str) -> Vec<u8> {
    let bytes = path.as_bytes();
    let hex = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut out, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        match (bytes[at], hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

/// Whether a server sees a dot segment here, which takes parameters off and decodes once. (An escaped `;` begins no
/// parameter: RFC 3986 §2.2.)
fn is_dots(segment: &str) -> bool {
    let name = segment.split(';').next().unwrap_or_default();
    matches!(&*decoded(name), b"." | b"..")
}

/// All that a listener may want of paths, apart from wanting nothing.
const SETTINGS: [PathNormalization; 5] = [
    with(true, EscapedSlashes::Keep),
    with(true, EscapedSlashes::Reject),
    with(true, EscapedSlashes::UnescapeAndForward),
    with(true, EscapedSlashes::UnescapeAndRedirect),
    with(false, EscapedSlashes::UnescapeAndForward),
];

const fn with(normalize: bool, escaped_slashes: EscapedSlashes) -> PathNormalization {
    PathNormalization {
        normalize,
        merge_slashes: true,
        escaped_slashes,
    }
}

/// The laws of `edge_proxy::path`: it is done after one time, and hides nothing from those who decode once more.
fn holds(setting: u8, path: &str) {
    let setting = SETTINGS[usize::from(setting) % SETTINGS.len()];
    let now = match normalize(path, setting) {
        Normalized::Same => path.to_owned(),
        Normalized::Changed(path) | Normalized::Redirect(path) => path,
        Normalized::Reject => return,
    };
    assert_eq!(normalize(&now, setting), Normalized::Same, "{path} became {now}");
    let of = |text: &str| text.split('?').next().unwrap_or_default().to_owned();
    let (was, now) = (of(path), of(&now));
    if setting.normalize {
        let hidden = now.split('/').find(|segment| is_dots(segment));
        assert_eq!(hidden, None, "{path} became {now}");
    }
    if setting.escaped_slashes != EscapedSlashes::Keep {
        let slashes = |path: &[u8]| path.iter().filter(|byte| matches!(byte, b'/' | b'\\')).count();
        assert_eq!(slashes(&decoded(&now)), slashes(now.as_bytes()), "{path} became {now}");
        assert!(
            slashes(now.as_bytes()) <= slashes(&decoded(&was)),
            "{path} became {now}"
        );
    }
}

/// Over paths made of what attackers use.
#[test]
fn made_of_pieces() {
    const PIECES: [&str; 24] = [
        "/", "/", ".", "..", "%", "%2", "2", "e", "E", "%32", "%65", "%66", "%2e", "%2F", "%5c", "\\", ";", "x", "%25",
        "5", "%3b", "\"", "é", "?",
    ];
    check!()
        .with_iterations(20_000)
        .with_type::<(u8, Vec<u8>)>()
        .for_each(|(setting, pieces)| {
            let pieces = pieces.iter().map(|piece| PIECES[usize::from(*piece) % PIECES.len()]);
            holds(*setting, &format!("/{}", pieces.take(24).collect::<String>()));
        });
}

/// Over any path that the reader of requests takes.
#[test]
fn canonical() {
    check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        let Some((setting, target)) = bytes.split_first() else {
            return;
        };
        let target = Bytes::copy_from_slice(target);
        if let Ok(target) = PathAndQuery::from_maybe_shared(target)
            && target.as_str().starts_with('/')
        {
            holds(*setting, target.as_str());
        }
    });
}
