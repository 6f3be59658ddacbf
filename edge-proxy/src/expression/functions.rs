//! Functions that are called by name.

use std::borrow::Cow;

use crate::expression::times;
use crate::expression::value::Value;
use crate::expression::{Failed, Function};

type Outcome<'a> = Result<Value<'a>, Failed>;

/// Calls a function; that before the dot is the first argument.
pub(super) fn call<'a>(function: Function, mut arguments: Vec<Value<'a>>) -> Outcome<'a> {
    use Value::{Bool, Int, Text};
    match (function, &mut arguments[..]) {
        (Function::Size, [of]) => int(of.size()?),
        (Function::Dyn, [of]) => Ok(of.clone()),
        (Function::Contains, [Text(text), Text(part)]) => Ok(Bool(text.contains(&**part))),
        (Function::StartsWith, [Text(text), Text(part)]) => Ok(Bool(text.starts_with(&**part))),
        (Function::EndsWith, [Text(text), Text(part)]) => Ok(Bool(text.ends_with(&**part))),
        (Function::Time(part), [of]) => times::part(part, of).map(Int),
        (
            Function::Bool
            | Function::Bytes
            | Function::Double
            | Function::Int
            | Function::Uint
            | Function::Text
            | Function::Duration
            | Function::Timestamp,
            [of],
        ) => convert(function, of),
        (_, [Text(text), rest @ ..]) => of_text(function, text, rest),
        (Function::Join, [list]) => join(list, ""),
        (Function::Join, [list, Text(between)]) => join(list, between),
        _ => Err(Failed),
    }
}

fn int<'a>(number: usize) -> Outcome<'a> {
    i64::try_from(number).map(Value::Int).map_err(|_| Failed)
}

fn convert<'a>(function: Function, of: &Value<'a>) -> Outcome<'a> {
    use Value::{Bool, Bytes, Double, Duration, Int, Text, Timestamp, Uint};
    // The bounds of whole numbers as doubles; both are one beyond.
    const INT: f64 = 9_223_372_036_854_775_808.0;
    const UINT: f64 = 18_446_744_073_709_551_616.0;
    let made = match (function, of) {
        (Function::Bool, Bool(_))
        | (Function::Bytes, Bytes(_))
        | (Function::Double, Double(_))
        | (Function::Int, Int(_))
        | (Function::Uint, Uint(_))
        | (Function::Text, Text(_))
        | (Function::Duration, Duration(_))
        | (Function::Timestamp, Timestamp(_)) => Some(of.clone()),
        (Function::Bool, Text(text)) => match &**text {
            "1" | "t" | "true" | "TRUE" | "True" => Some(Bool(true)),
            "0" | "f" | "false" | "FALSE" | "False" => Some(Bool(false)),
            _ => None,
        },
        (Function::Bytes, Text(text)) => Some(Bytes(match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.clone().into_bytes()),
        })),
        (Function::Double, Int(number)) => Some(Double(*number as f64)),
        (Function::Double, Uint(number)) => Some(Double(*number as f64)),
        (Function::Double, Text(text)) => text.parse().ok().map(Double),
        (Function::Int, Uint(number)) => i64::try_from(*number).ok().map(Int),
        (Function::Int, Double(number)) => (*number > -INT && *number < INT).then_some(Int(*number as i64)),
        (Function::Int, Text(text)) => text.parse().ok().map(Int),
        (Function::Int, Timestamp(at)) => Some(Int(at.as_second())),
        (Function::Uint, Int(number)) => u64::try_from(*number).ok().map(Uint),
        (Function::Uint, Double(number)) => (*number >= 0.0 && *number < UINT).then_some(Uint(*number as u64)),
        (Function::Uint, Text(text)) => text.parse().ok().map(Uint),
        (Function::Text, Int(number)) => Some(Value::text(number.to_string())),
        (Function::Text, Uint(number)) => Some(Value::text(number.to_string())),
        (Function::Text, Bool(value)) => Some(Value::text(if *value { "true" } else { "false" })),
        (Function::Text, Bytes(bytes)) => String::from_utf8(bytes.to_vec()).ok().map(Value::text),
        (Function::Duration, Text(text)) => times::duration(text).ok().map(Duration),
        (Function::Timestamp, Text(text)) => times::timestamp(text).ok().map(Timestamp),
        (Function::Timestamp, Int(seconds)) => jiff::Timestamp::from_second(*seconds).ok().map(Timestamp),
        _ => None,
    };
    made.ok_or(Failed)
}

fn join<'a>(list: &Value<'a>, between: &str) -> Outcome<'a> {
    let elements = list.elements().ok_or(Failed)?;
    let texts = elements.iter().map(|element| match element {
        Value::Text(text) => Ok(&**text),
        _ => Err(Failed),
    });
    Ok(Value::text(texts.collect::<Result<Vec<_>, _>>()?.join(between)))
}

/// Functions of texts. Places in them count characters.
fn of_text<'a>(function: Function, text: &Cow<'a, str>, rest: &[Value<'a>]) -> Outcome<'a> {
    use Value::{Int, Text};
    match (function, rest) {
        (Function::LowerAscii, []) => Ok(Value::text(text.to_ascii_lowercase())),
        (Function::UpperAscii, []) => Ok(Value::text(text.to_ascii_uppercase())),
        (Function::Trim, []) => Ok(Value::text(text.trim().to_owned())),
        (Function::Reverse, []) => Ok(Value::text(text.chars().rev().collect::<String>())),
        (Function::CharAt, [Int(place)]) => {
            let place = usize::try_from(*place).map_err(|_| Failed)?;
            let found = text.chars().nth(place).map(String::from);
            // Behind the last one there is nothing, and further on no place.
            let is_end = || (text.chars().count() == place).then(String::new);
            found.or_else(is_end).map(Value::text).ok_or(Failed)
        }
        (Function::IndexOf, [Text(part)]) => find(text, part, 0),
        (Function::IndexOf, [Text(part), Int(from)]) => find(text, part, *from),
        (Function::LastIndexOf, [Text(part)]) => find_last(text, part, None),
        (Function::LastIndexOf, [Text(part), Int(from)]) => find_last(text, part, Some(*from)),
        (Function::Substring, [Int(from)]) => cut(text, *from, None),
        (Function::Substring, [Int(from), Int(before)]) => cut(text, *from, Some(*before)),
        (Function::Replace, [Text(part), Text(by)]) => Ok(Value::text(text.replace(&**part, by))),
        (Function::Replace, [Text(part), Text(by), Int(most)]) => Ok(Value::text(match usize::try_from(*most) {
            Ok(most) => text.replacen(&**part, by, most),
            Err(_) => text.replace(&**part, by),
        })),
        (Function::Split, [Text(at)]) => Ok(split(text, at, -1)),
        (Function::Split, [Text(at), Int(most)]) => Ok(split(text, at, *most)),
        _ => Err(Failed),
    }
}

/// Where a character stands in bytes; that behind the last one counts.
fn offset(text: &str, place: i64) -> Result<usize, Failed> {
    let place = usize::try_from(place).map_err(|_| Failed)?;
    let offsets = text.char_indices().map(|(offset, _)| offset);
    offsets.chain([text.len()]).nth(place).ok_or(Failed)
}

fn place_of<'a>(text: &str, offset: Option<usize>) -> Outcome<'a> {
    match offset {
        Some(offset) => int(text[..offset].chars().count()),
        None => Ok(Value::Int(-1)),
    }
}

fn find<'a>(text: &str, part: &str, from: i64) -> Outcome<'a> {
    let from = offset(text, from)?;
    place_of(text, text[from..].find(part).map(|found| from + found))
}

fn find_last<'a>(text: &str, part: &str, from: Option<i64>) -> Outcome<'a> {
    let from = from.map_or(Ok(text.len()), |from| offset(text, from))?;
    let places = text.rmatch_indices(part).map(|(offset, _)| offset);
    let mut places = places.chain(part.is_empty().then_some(0));
    place_of(text, places.find(|offset| *offset <= from))
}

fn cut<'a>(text: &str, from: i64, before: Option<i64>) -> Outcome<'a> {
    let from = offset(text, from)?;
    let before = before.map_or(Ok(text.len()), |before| offset(text, before))?;
    let part = text.get(from..before).ok_or(Failed)?;
    Ok(Value::text(part.to_owned()))
}

fn split<'a>(text: &str, at: &str, most: i64) -> Value<'a> {
    let owned = |part: &str| Value::text(part.to_owned());
    let parts: Vec<_> = match (usize::try_from(most), at) {
        (Ok(0), _) => Vec::new(),
        (Ok(1), _) => vec![owned(text)],
        // Between characters, not around them.
        (most, "") => {
            let most = most.unwrap_or(usize::MAX);
            let mut parts = Vec::new();
            let mut rest = text;
            while let Some(char) = rest.chars().next() {
                if parts.len() + 1 == most {
                    parts.push(owned(rest));
                    break;
                }
                parts.push(owned(&rest[..char.len_utf8()]));
                rest = &rest[char.len_utf8()..];
            }
            parts
        }
        (Ok(most), at) => text.splitn(most, at).map(owned).collect(),
        (Err(_), at) => text.split(at).map(owned).collect(),
    };
    Value::List(parts.into())
}
