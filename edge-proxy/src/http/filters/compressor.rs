//! Compression of responses, as Envoy's filter decides about it.
//!
//! All compressors of a request share one [`Negotiation`], in which the first that sees the response settles
//! which of them acts ([`choice`]); that one puts an encoder around the content ([`encode`]), and passes on what there
//! is with every piece that comes. A response that could be compressed says that it varies, whether or not it is.

mod choice;
mod encode;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, TRANSFER_ENCODING, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use http_body::Body as _;

use crate::config::filter::compressor::Compressor;
use crate::http::Arrived;
use crate::http::body::ResponseBody;
use crate::http::exchange::Exchange;
use crate::lines::joined;
use choice::Decision;
use encode::{EncodedBody, Encoder};

/// What the compressors of a request have in common.
#[derive(Debug, Default)]
pub(super) struct Negotiation<'a> {
    /// All of them, in the order of the chain.
    offers: RefCell<Vec<&'a Compressor>>,
    decision: Cell<Option<Decision>>,
}

/// A compressor at work on one request.
#[derive(Debug)]
pub(crate) struct Compressing<'a> {
    compressor: &'a Compressor,
    negotiation: Rc<Negotiation<'a>>,
    /// What the client takes.
    accepted: Option<String>,
}

impl<'a> Compressing<'a> {
    /// One that takes part in a negotiation.
    pub(super) fn new(compressor: &'a Compressor, negotiation: Rc<Negotiation<'a>>) -> Self {
        negotiation.offers.borrow_mut().push(compressor);
        Self {
            compressor,
            negotiation,
            accepted: None,
        }
    }

    /// The negotiation that it takes part in.
    pub(super) fn negotiation(&self) -> Rc<Negotiation<'a>> {
        Rc::clone(&self.negotiation)
    }

    /// Notes what the client takes.
    pub(super) fn request(&mut self, arrived: &mut Arrived<'_>) {
        let fields = &mut arrived.head.headers;
        self.accepted = joined(fields, &ACCEPT_ENCODING).map(Cow::into_owned);
        if self.compressor.hides_accepted {
            fields.remove(ACCEPT_ENCODING);
        }
    }

    /// Compresses the response, if that is asked for and worth it.
    pub(super) fn response(&self, exchange: &Exchange, mut response: Response<ResponseBody>) -> Response<ResponseBody> {
        let is_tunnel = exchange.tunnel.borrow().is_some();
        let fields = response.headers();
        let is_long = self.is_long(fields);
        let is_compressible = is_long && !is_tunnel && self.suits(fields);
        let acts = !response.body().is_end_stream()
            && is_long
            && self.is_chosen(fields)
            && is_compressible
            && !is_encoded_for_transfer(fields);
        if acts {
            let encoding = self.compressor.encoding;
            let fields = response.headers_mut();
            remove_strong_tag(fields);
            fields.remove(CONTENT_LENGTH);
            fields.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding.name()));
            let body = std::mem::replace(response.body_mut(), ResponseBody::Empty);
            let body = EncodedBody::new(body, Encoder::new(encoding));
            *response.body_mut() = ResponseBody::Filtered(Box::new(body));
        }
        if is_compressible {
            say_that_it_varies(response.headers_mut());
        }
        response
    }

    /// Whether it isn't known to be too short.
    fn is_long(&self, fields: &HeaderMap) -> bool {
        let Some(length) = fields.get(CONTENT_LENGTH) else {
            return true;
        };
        let length = length.to_str().ok().and_then(|length| length.parse::<u64>().ok());
        length.is_some_and(|length| length >= self.compressor.min_length)
    }

    /// Whether such a response may be compressed.
    fn suits(&self, fields: &HeaderMap) -> bool {
        let media_type = media_type(fields);
        let is_fixed = tokens(fields, CACHE_CONTROL).any(|token| token.eq_ignore_ascii_case("no-transform"));
        let is_kept = self.compressor.keeps_tagged && fields.contains_key(ETAG);
        let is_encoded = fields.contains_key(CONTENT_ENCODING);
        self.compressor.is_for(media_type) && !(is_fixed || is_kept || is_encoded)
    }

    /// Whether this is the compressor that acts.
    fn is_chosen(&self, fields: &HeaderMap) -> bool {
        let Some(accepted) = &self.accepted else { return false };
        let decision = self.negotiation.decision.get().unwrap_or_else(|| {
            let decision = choice::choose(accepted, &self.negotiation.offers.borrow(), media_type(fields));
            self.negotiation.decision.set(Some(decision));
            decision
        });
        decision == Decision::Encoding(self.compressor.encoding)
    }
}

impl Drop for Compressing<'_> {
    /// A route that was found to be another takes back what it has offered.
    fn drop(&mut self) {
        let mut offers = self.negotiation.offers.borrow_mut();
        offers.retain(|offer| !std::ptr::eq(*offer, self.compressor));
    }
}

/// The members of a field that is a list.
fn tokens(fields: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let lines = fields.get_all(name).into_iter();
    let texts = lines.filter_map(|line| line.to_str().ok());
    texts.flat_map(|text| text.split(',').map(str::trim))
}

/// The type of the content, without parameters.
fn media_type(fields: &HeaderMap) -> Option<&str> {
    let text = fields.get(CONTENT_TYPE)?.to_str().unwrap_or_default();
    Some(text.split(';').next().unwrap_or(text).trim())
}

fn is_encoded_for_transfer(fields: &HeaderMap) -> bool {
    tokens(fields, TRANSFER_ENCODING).any(|coding| {
        ["gzip", "br", "deflate", "compress", "zstd"]
            .iter()
            .any(|known| coding.eq_ignore_ascii_case(known))
    })
}

/// What is compressed is another sequence of bytes (RFC 9110 §8.8.1), so only a weak tag stays.
fn remove_strong_tag(fields: &mut HeaderMap) {
    let is_strong = fields.get(ETAG).is_some_and(|tag| {
        let tag = tag.as_bytes();
        tag.len() > 2 && !tag[..2].eq_ignore_ascii_case(b"w/")
    });
    if is_strong {
        fields.remove(ETAG);
    }
}

fn say_that_it_varies(fields: &mut HeaderMap) {
    const ACCEPTED: HeaderValue = HeaderValue::from_static("Accept-Encoding");
    if tokens(fields, VARY).any(|token| token.eq_ignore_ascii_case("accept-encoding")) {
        return;
    }
    let value = joined(fields, &VARY).and_then(|said| HeaderValue::try_from(format!("{said}, Accept-Encoding")).ok());
    fields.insert(VARY, value.unwrap_or(ACCEPTED));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::filter::compressor::Encoding;

    fn fields(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut fields = HeaderMap::new();
        for (name, value) in lines {
            fields.append(*name, HeaderValue::from_static(value));
        }
        fields
    }

    fn compressor() -> Compressor {
        Compressor {
            encoding: Encoding::Gzip,
            min_length: 30,
            media_types: ["text/plain".into()].into(),
            is_first: false,
            keeps_tagged: false,
            hides_accepted: false,
        }
    }

    #[test]
    fn what_may_not_be_changed_or_is_encoded_stays() {
        let compressor = compressor();
        let compressing = Compressing::new(&compressor, Rc::default());
        let suits = |lines: &[(&'static str, &'static str)]| compressing.suits(&fields(lines));
        assert!(suits(&[]) && suits(&[("content-type", "Text/Plain; charset=utf-8"), ("etag", "\"a\"")]));
        assert!(!suits(&[("content-type", "image/png")]));
        assert!(!suits(&[("cache-control", "public, No-Transform")]));
        assert!(!suits(&[("content-encoding", "identity")]));
        assert!(compressing.is_long(&fields(&[])) && compressing.is_long(&fields(&[("content-length", "30")])));
        assert!(!compressing.is_long(&fields(&[("content-length", "29")])));
        let keeping = Compressor {
            keeps_tagged: true,
            ..self::compressor()
        };
        assert!(!Compressing::new(&keeping, Rc::default()).suits(&fields(&[("etag", "\"a\"")])));
    }

    #[test]
    fn a_response_says_once_that_it_varies() {
        for (before, after) in [
            (&[][..], "Accept-Encoding"),
            (&[("vary", "origin")], "origin, Accept-Encoding"),
            (&[("vary", "a"), ("vary", "b")], "a,b, Accept-Encoding"),
            (&[("vary", "accept-encoding")], "accept-encoding"),
        ] {
            let mut fields = fields(before);
            say_that_it_varies(&mut fields);
            assert_eq!(fields[VARY], after);
            assert_eq!(fields.get_all(VARY).iter().count(), 1);
        }
    }

    #[test]
    fn only_weak_tags_stay() {
        for (tag, stays) in [("\"a\"", false), ("W/\"a\"", true), ("w/\"a\"", true)] {
            let mut fields = fields(&[("etag", tag)]);
            remove_strong_tag(&mut fields);
            assert_eq!(fields.contains_key(ETAG), stays, "{tag}");
        }
    }
}
