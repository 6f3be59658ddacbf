//! What a plain scalar means, as `kubectl` reads it: YAML 1.1 with Go's number syntax.
//!
//! `yes`, `on` and `y` are true, `0777` is 511, `1_000` is 1000, and a number with a fraction of zero is whole. Times
//! stay text. Quoted scalars never come here.

use std::borrow::Cow;

use crate::load::node::Data;

/// The value of a plain scalar.
pub(crate) fn resolve(text: Cow<'_, str>) -> Data<'_> {
    known(&text).unwrap_or(Data::Text(text))
}

/// The value of a plain scalar that is something else than text.
fn known(text: &str) -> Option<Data<'static>> {
    match text.as_bytes() {
        [] => Some(Data::Null),
        [b'0'..=b'9' | b'+' | b'-' | b'.', ..] => number(text),
        [
            b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~',
            ..,
        ] => word(text),
        _ => None,
    }
}

fn word(text: &str) -> Option<Data<'static>> {
    match text {
        _ if text.len() > "false".len() => None,
        "~" | "null" | "Null" | "NULL" => Some(Data::Null),
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "y" | "Y" => Some(Data::Bool(true)),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "n" | "N" => Some(Data::Bool(false)),
        _ => None,
    }
}

fn number(text: &str) -> Option<Data<'static>> {
    let decimal = text.len() < 19 && text.bytes().all(|b| b.is_ascii_digit());
    if decimal && !text.starts_with('0') {
        return text.parse().ok().map(Data::Int);
    }
    match text {
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Some(Data::Float(f64::INFINITY)),
        "-.inf" | "-.Inf" | "-.INF" => return Some(Data::Float(f64::NEG_INFINITY)),
        ".nan" | ".NaN" | ".NAN" => return Some(Data::Float(f64::NAN)),
        _ => {}
    }
    // The cheap test first: most texts that start with a digit are addresses and times.
    if !text
        .bytes()
        .all(|b| b.is_ascii_hexdigit() || b"+-._xXoObB".contains(&b))
    {
        return None;
    }
    let plain: Cow<'_, str> = if text.contains('_') {
        text.replace('_', "").into()
    } else {
        text.into()
    };
    integer(&plain).or_else(|| float(&plain))
}

fn integer(text: &str) -> Option<Data<'static>> {
    let (negative, digits) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if !digits.bytes().next().is_some_and(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    match (i64::try_from(magnitude), negative) {
        (Ok(int), true) => Some(Data::Int(-int)),
        (Ok(int), false) => Some(Data::Int(int)),
        (Err(_), false) => Some(Data::UInt(magnitude)),
        (Err(_), true) => (magnitude == 1 << 63).then_some(Data::Int(i64::MIN)),
    }
}

fn float(text: &str) -> Option<Data<'static>> {
    if !text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b)) || !text.bytes().any(|b| b.is_ascii_digit()) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    Some(whole(value).unwrap_or(Data::Float(value)))
}

/// A float without a fraction as an integer: `1e3` is as good as `1000` where a number of things is wanted.
fn whole(value: f64) -> Option<Data<'static>> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() != 0.0 || value.abs() > EXACT {
        return None;
    }
    format!("{value:.0}").parse().ok().map(Data::Int)
}

/// The key of a mapping as text: kubectl turns keys of other types into their JSON form.
pub(crate) fn key_text(text: Cow<'_, str>) -> Cow<'_, str> {
    match known(&text) {
        Some(Data::Bool(flag)) => Cow::Owned(flag.to_string()),
        Some(Data::Int(int)) => Cow::Owned(int.to_string()),
        Some(Data::UInt(int)) => Cow::Owned(int.to_string()),
        Some(Data::Null) => Cow::Borrowed("null"),
        _ => text,
    }
}
