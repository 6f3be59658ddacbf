//! `traceparent` and `tracestate` (W3C Trace Context).

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::traces::{Context, Malformed, Propagation};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The span of the caller, if it tells of one.
pub(super) fn find(headers: &HeaderMap) -> Result<Option<(Context, Propagation)>, Malformed> {
    let Some(parent) = headers.get(TRACEPARENT) else {
        return Ok(None);
    };
    let context = parent.to_str().ok().and_then(parse).ok_or(Malformed)?;
    let state = headers.get(TRACESTATE).filter(|state| !state.is_empty());
    Ok(Some((
        context,
        state.map_or(Propagation::Usual, |state| Propagation::State(state.clone())),
    )))
}

/// `version-trace-span-flags`, in so many digits each (§3.2). As in Envoy, other lengths of later versions aren't
/// known.
fn parse(text: &str) -> Option<Context> {
    let mut parts = text.split('-');
    let mut number = |digits: usize| {
        let part = parts.next().filter(|part| part.len() == digits)?;
        let is_hex = part.bytes().all(|byte| byte.is_ascii_hexdigit());
        u128::from_str_radix(part, 16).ok().filter(|_| is_hex)
    };
    let (_version, trace, span, flags) = (number(2)?, number(32)?, number(16)?, number(2)?);
    if trace == 0 || span == 0 || parts.next().is_some() {
        return None;
    }
    Some(Context {
        high: (trace >> 64) as u64,
        low: trace as u64,
        span: span as u64,
        parent: None,
        is_remote: true,
        is_sampled: flags & 1 == 1,
    })
}

/// Tells a backend.
pub(super) fn tell(context: &Context, propagation: &Propagation, span: u64, headers: &mut HeaderMap) {
    let Context { high, low, .. } = context;
    let flags = u8::from(context.is_sampled);
    let parent = format!("00-{high:016x}{low:016x}-{span:016x}-{flags:02x}");
    if let Ok(parent) = HeaderValue::from_maybe_shared(bytes::Bytes::from(parent)) {
        headers.insert(TRACEPARENT, parent);
    }
    // Empty where there is none, as in Envoy: a state that belongs to no trace must not go on.
    let state = match propagation {
        Propagation::State(state) => state.clone(),
        Propagation::Usual | Propagation::Single => HeaderValue::from_static(""),
    };
    headers.insert(TRACESTATE, state);
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_trace_goes_on_as_it_came() {
        let mut headers = HeaderMap::new();
        assert_eq!(find(&headers), Ok(None));
        headers.insert(TRACEPARENT, HeaderValue::from_static(PARENT));
        headers.insert(TRACESTATE, HeaderValue::from_static("a=b"));
        let (context, propagation) = find(&headers).unwrap().unwrap();
        assert!(context.is_sampled && context.is_remote);
        tell(&context, &propagation, 1, &mut headers);
        assert_eq!(
            headers[TRACEPARENT],
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000001-01"
        );
        assert_eq!(headers[TRACESTATE], "a=b");
        assert_eq!(
            parse(&PARENT.replace("-01", "-00")).map(|context| context.is_sampled),
            Some(false)
        );
    }

    #[test]
    fn what_makes_no_sense_is_no_trace() {
        for bad in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-02",
        ] {
            let headers = HeaderMap::from_iter([(TRACEPARENT, HeaderValue::from_str(bad).unwrap())]);
            assert_eq!(find(&headers), Err(Malformed), "{bad}");
        }
    }
}
