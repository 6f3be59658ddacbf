//! The fields of B3 (openzipkin/b3-propagation): several of them, or all in one.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::traces::{Context, Malformed, Propagation};

const B3: HeaderName = HeaderName::from_static("b3");
const TRACE: HeaderName = HeaderName::from_static("x-b3-traceid");
const SPAN: HeaderName = HeaderName::from_static("x-b3-spanid");
const PARENT: HeaderName = HeaderName::from_static("x-b3-parentspanid");
const SAMPLED: HeaderName = HeaderName::from_static("x-b3-sampled");

/// What a caller says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Its span.
    pub(super) parent: Option<Context>,
    /// Whether the trace is kept.
    pub(super) is_sampled: bool,
    /// How it says so.
    pub(super) propagation: Propagation,
}

/// Looks for it; where the caller doesn't decide, `is_wanted` does.
pub(super) fn find(headers: &HeaderMap, is_wanted: bool) -> Result<Found, Malformed> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().map_err(|_| Malformed));
    if let Some(single) = headers.get(B3) {
        return single_field(single.to_str().map_err(|_| Malformed)?, is_wanted);
    }
    let sampled = headers.get(SAMPLED).map(HeaderValue::as_bytes);
    let is_sampled = sampled.map_or(is_wanted, |sampled| sampled == b"1" || sampled == b"true");
    let (trace, span) = (text(TRACE).transpose()?, text(SPAN).transpose()?);
    let parent = match (trace, span) {
        (Some(trace), Some(span)) => {
            let (high, low) = halves(trace)?;
            let parent = text(PARENT).transpose()?.filter(|parent| !parent.is_empty());
            Some(Context {
                high,
                low,
                span: hex(span)?,
                parent: parent.map(hex).transpose()?.filter(|parent| *parent != 0),
                is_remote: true,
                is_sampled,
            })
        }
        _ => None,
    };
    Ok(Found {
        parent,
        is_sampled,
        propagation: Propagation::Usual,
    })
}

/// `trace-span`, `-sampled` and `-parent` behind it; or whether it is sampled alone.
fn single_field(text: &str, is_wanted: bool) -> Result<Found, Malformed> {
    let flag = |text: &str| match text {
        "1" | "d" => Ok(true),
        "0" => Ok(false),
        _ => Err(Malformed),
    };
    let mut parts = text.split('-');
    let first = parts.next().unwrap_or_default();
    let Some(span) = parts.next() else {
        return Ok(Found {
            parent: None,
            is_sampled: flag(first)?,
            propagation: Propagation::Single,
        });
    };
    if !matches!(first.len(), 16 | 32) || span.len() != 16 {
        return Err(Malformed);
    }
    let is_sampled = parts.next().map(flag).transpose()?.unwrap_or(is_wanted);
    let parent = parts.next();
    if parts.next().is_some() || parent.is_some_and(|parent| parent.len() != 16) {
        return Err(Malformed);
    }
    let (high, low) = halves(first)?;
    Ok(Found {
        parent: Some(Context {
            high,
            low,
            span: hex(span)?,
            parent: parent.map(hex).transpose()?.filter(|parent| *parent != 0),
            is_remote: true,
            is_sampled,
        }),
        is_sampled,
        propagation: Propagation::Single,
    })
}

/// Both halves of a trace's id; the first is 0 where it has one.
fn halves(text: &str) -> Result<(u64, u64), Malformed> {
    match text.len() {
        32 => Ok((hex(&text[..16])?, hex(&text[16..])?)),
        _ => Ok((0, hex(text)?)),
    }
}

fn hex(text: &str) -> Result<u64, Malformed> {
    let is_hex = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u64::from_str_radix(text, 16).ok();
    number.filter(|_| is_hex).ok_or(Malformed)
}

/// A trace's id.
pub(super) fn trace(context: &Context) -> String {
    match context.high {
        0 => format!("{:016x}", context.low),
        high => format!("{high:016x}{:016x}", context.low),
    }
}

/// Tells a backend.
pub(super) fn tell(
    context: &Context,
    propagation: &Propagation,
    span: u64,
    parent: Option<u64>,
    headers: &mut HeaderMap,
) {
    let sampled = if context.is_sampled { "1" } else { "0" };
    let mut put = |name, value: String| {
        if let Ok(value) = HeaderValue::from_maybe_shared(bytes::Bytes::from(value)) {
            headers.insert(name, value);
        }
    };
    if *propagation == Propagation::Single {
        let parent = parent.map(|parent| format!("-{parent:016x}")).unwrap_or_default();
        put(B3, format!("{}-{span:016x}-{sampled}{parent}", trace(context)));
        return;
    }
    put(TRACE, trace(context));
    put(SPAN, format!("{span:016x}"));
    if let Some(parent) = parent {
        put(PARENT, format!("{parent:016x}"));
    }
    headers.insert(SAMPLED, HeaderValue::from_static(sampled));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[(&'static str, &'static str)]) -> Result<Found, Malformed> {
        let headers = fields.iter().map(|(name, value)| {
            let value = HeaderValue::from_static(value);
            (HeaderName::from_static(name), value)
        });
        find(&headers.collect(), true)
    }

    #[test]
    fn both_forms_say_the_same() {
        let several = of(&[
            ("x-b3-traceid", "463ac35c9f6413ad48485a3953bb6124"),
            ("x-b3-spanid", "a2fb4a1d1a96d312"),
            ("x-b3-parentspanid", "0020000000000001"),
            ("x-b3-sampled", "0"),
        ]);
        let single = "463ac35c9f6413ad48485a3953bb6124-a2fb4a1d1a96d312-0-0020000000000001";
        let one = of(&[("b3", single)]).unwrap();
        assert_eq!(several.unwrap().parent, one.parent);
        let parent = one.parent.unwrap();
        let mut headers = HeaderMap::new();
        tell(&parent, &one.propagation, parent.span, parent.parent, &mut headers);
        assert_eq!(headers[B3], single);
        assert!(!parent.is_sampled);
    }

    #[test]
    fn a_caller_may_decide_without_a_span() {
        assert!(!of(&[("b3", "0")]).unwrap().is_sampled);
        assert!(!of(&[("x-b3-sampled", "0")]).unwrap().is_sampled);
        assert!(of(&[]).unwrap().is_sampled);
        assert_eq!(of(&[("x-b3-traceid", "1")]).map(|found| found.parent), Ok(None));
    }

    #[test]
    fn what_makes_no_sense_is_no_trace() {
        for bad in [
            "",
            "463ac35c9f6413ad",
            "463ac35c9f6413ad-a2fb4a1d1a96d312-2",
            "463ac35c9f6413ad-a2fb4a1d1a96d31",
            "463ac35c9f6413ad-a2fb4a1d1a96d312-1-1",
            "463ac35c9f6413a+-a2fb4a1d1a96d312-1",
        ] {
            assert_eq!(of(&[("b3", bad)]), Err(Malformed), "{bad}");
        }
        assert_eq!(of(&[("x-b3-traceid", "x"), ("x-b3-spanid", "1")]), Err(Malformed));
    }
}
