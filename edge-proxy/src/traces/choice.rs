//! Which requests are traced, and how their ids say so.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::config::http_manager::PrefixedHeaders;
use crate::config::request_id::TracesInIds;
use crate::config::tracing::Shares;
use crate::random::Random;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub(super) const X_CLIENT_TRACE_ID: HeaderName = HeaderName::from_static("x-client-trace-id");

/// How long an id is that can say why a request is traced, and where it does.
const ID: (usize, usize) = (36, 14);
/// Shares count by the first digits of ids, as a number below this.
const RANGE: u64 = 10_000;

/// Why a request is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It isn't.
    NotTraceable,
    /// By chance.
    Sampled,
    /// A service wants it.
    Forced,
    /// The client wants it.
    Client,
}

/// Chooses: who came before has the first word, then the client, a service that is trusted, and chance.
pub(super) fn choose(
    shares: &Shares,
    traces: TracesInIds,
    names: &PrefixedHeaders,
    headers: &mut HeaderMap,
    random: &Random,
) -> Reason {
    if !traces.decide {
        return Reason::Sampled;
    }
    let Some(number) = headers.get(X_REQUEST_ID).and_then(number) else {
        return Reason::NotTraceable;
    };
    let before = headers.get(X_REQUEST_ID).filter(|_| traces.packs_reason);
    let mut reason = before.map_or(Reason::NotTraceable, said);
    if reason == Reason::NotTraceable {
        if headers.contains_key(X_CLIENT_TRACE_ID) && shares.client.takes(random.next()) {
            reason = Reason::Client;
        } else if headers.contains_key(&names.force_trace) {
            reason = Reason::Forced;
        } else if shares.random.takes(number) {
            reason = Reason::Sampled;
        }
    }
    if !shares.overall.takes(number) {
        reason = Reason::NotTraceable;
    }
    if traces.packs_reason {
        say(reason, headers);
    }
    reason
}

/// The number that stands at the beginning of an id.
fn number(id: &HeaderValue) -> Option<u64> {
    let text = id.to_str().ok()?.get(..8)?;
    u64::from_str_radix(text, 16).ok().map(|number| number % RANGE)
}

/// What an id says.
fn said(id: &HeaderValue) -> Reason {
    match id.as_bytes().get(ID.1) {
        Some(b'9') if id.len() == ID.0 => Reason::Sampled,
        Some(b'a') if id.len() == ID.0 => Reason::Forced,
        Some(b'b') if id.len() == ID.0 => Reason::Client,
        _ => Reason::NotTraceable,
    }
}

/// Lets the id say it.
fn say(reason: Reason, headers: &mut HeaderMap) {
    let digit = match reason {
        Reason::NotTraceable => b'4',
        Reason::Sampled => b'9',
        Reason::Forced => b'a',
        Reason::Client => b'b',
    };
    let Some(id) = headers.get_mut(X_REQUEST_ID).filter(|id| id.len() == ID.0) else {
        return;
    };
    if id.as_bytes()[ID.1] == digit {
        return;
    }
    let mut text = id.as_bytes().to_vec();
    text[ID.1] = digit;
    if let Ok(new) = HeaderValue::from_maybe_shared(bytes::Bytes::from(text)) {
        *id = new;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::prefixed_headers;
    use crate::config::route::Fraction;

    fn shares(client: u32, random: u32, overall: u32) -> Shares {
        let [client, random, overall] = [client, random, overall].map(|numerator| Fraction {
            numerator,
            denominator: 100,
        });
        Shares {
            client,
            random,
            overall,
        }
    }

    /// What is chosen for a request with these fields, and its id then.
    fn chosen(shares: Shares, traces: TracesInIds, fields: &[(&'static str, &'static str)]) -> (Reason, String) {
        let mut headers: HeaderMap = fields
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let names = prefixed_headers("").unwrap();
        let reason = choose(&shares, traces, &names, &mut headers, &Random::new());
        let id = headers.get(X_REQUEST_ID).map(|id| id.to_str().unwrap().to_owned());
        (reason, id.unwrap_or_default())
    }

    // 0x00000010 = 16
    const ID: (&str, &str) = ("x-request-id", "00000010-0000-4000-8000-000000000000");

    #[test]
    fn ids_decide_and_say_so() {
        let usual = TracesInIds::default();
        for (reason, digit, shares, more) in [
            (Reason::Sampled, '9', shares(0, 17, 100), None),
            (Reason::NotTraceable, '4', shares(0, 16, 100), None),
            (Reason::NotTraceable, '4', shares(0, 100, 16), None),
            (
                Reason::Client,
                'b',
                shares(100, 0, 100),
                Some(("x-client-trace-id", "c")),
            ),
            (
                Reason::NotTraceable,
                '4',
                shares(0, 0, 100),
                Some(("x-client-trace-id", "c")),
            ),
            (
                Reason::Forced,
                'a',
                shares(0, 0, 100),
                Some(("x-envoy-force-trace", "1")),
            ),
        ] {
            let fields: Vec<_> = [ID].into_iter().chain(more).collect();
            let (chosen, id) = chosen(shares, usual, &fields);
            assert_eq!(
                (chosen, id.chars().nth(14)),
                (reason, Some(digit)),
                "{shares:?} {more:?}"
            );
        }
    }

    #[test]
    fn who_came_before_has_the_first_word() {
        let before = ("x-request-id", "00000010-0000-9000-8000-000000000000");
        let usual = TracesInIds::default();
        assert_eq!(chosen(shares(0, 0, 100), usual, &[before]).0, Reason::Sampled);
        assert_eq!(chosen(shares(0, 0, 16), usual, &[before]).0, Reason::NotTraceable);
        let untold = TracesInIds {
            packs_reason: false,
            ..usual
        };
        let (reason, id) = chosen(shares(0, 0, 100), untold, &[before]);
        assert_eq!((reason, &*id), (Reason::NotTraceable, before.1));
    }

    #[test]
    fn without_an_id_that_is_one_nothing_is_traced_unless_all_is() {
        let usual = TracesInIds::default();
        let other = ("x-request-id", "mine");
        assert_eq!(
            chosen(shares(100, 100, 100), usual, &[other]),
            (Reason::NotTraceable, "mine".into())
        );
        assert_eq!(chosen(shares(100, 100, 100), usual, &[]).0, Reason::NotTraceable);
        let all = TracesInIds { decide: false, ..usual };
        assert_eq!(chosen(shares(0, 0, 0), all, &[]).0, Reason::Sampled);
    }
}
