//! Where the body of a message ends (RFC 9112 §6).
//!
//! [`Fields`] collects `content-length` and `transfer-encoding` while a head is read, and says which [`Framing`]
//! follows. Why strict: whoever stands before or behind the proxy may read a doubtful message differently. A message
//! with both fields, with two lengths, or with a coding other than one final `chunked` is refused.

use http::{Method, StatusCode, Version};

use crate::http1::Malformed;

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    Empty,
    /// So many bytes, at least one.
    Length(u64),
    /// Its last chunk says so.
    Chunked,
    /// The connection ends with it (responses only).
    UntilClose,
}

/// The framing fields of one head.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fields {
    length: Option<u64>,
    chunked: bool,
}

impl Fields {
    /// A `content-length` field. A second one is refused even when it says the same, as is a list (RFC 9112 §6.3 leaves
    /// the choice).
    pub fn length(&mut self, value: &[u8]) -> Result<(), Malformed> {
        // Digits alone: `parse` would take a sign. 19 of them always fit.
        if self.length.is_some() || value.len() > 19 || !value.iter().all(u8::is_ascii_digit) {
            return Err(Malformed::Framing);
        }
        let text = std::str::from_utf8(value).map_err(|_| Malformed::Framing)?;
        self.length = Some(text.parse().map_err(|_| Malformed::Framing)?);
        Ok(())
    }

    /// A `transfer-encoding` field.
    pub fn coding(&mut self, value: &[u8]) -> Result<(), Malformed> {
        if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
            return Err(Malformed::TransferCoding);
        }
        self.chunked = true;
        Ok(())
    }

    fn any(self) -> Result<Option<Framing>, Malformed> {
        match (self.length, self.chunked) {
            (Some(_), true) => Err(Malformed::Framing),
            (None, true) => Ok(Some(Framing::Chunked)),
            (Some(0), false) => Ok(Some(Framing::Empty)),
            (Some(length), false) => Ok(Some(Framing::Length(length))),
            (None, false) => Ok(None),
        }
    }

    /// Whether the connection must end with the message: a coding in HTTP/1.0 is faulty framing, because an old
    /// recipient on the way would not have known the field (RFC 9112 §6.1).
    pub fn ends_connection(self, version: Version) -> bool {
        self.chunked && version < Version::HTTP_11
    }

    /// What follows a request.
    pub fn of_request(self) -> Result<Framing, Malformed> {
        Ok(self.any()?.unwrap_or(Framing::Empty))
    }

    /// What follows a response to a request of this method.
    pub fn of_response(self, status: StatusCode, method: &Method) -> Result<Framing, Malformed> {
        let framing = self.any()?.unwrap_or(Framing::UntilClose);
        Ok(if has_content(status, method) {
            framing
        } else {
            Framing::Empty
        })
    }
}

/// Whether a response has content at all (RFC 9112 §6.3, cases 1 and 2).
pub fn has_content(status: StatusCode, method: &Method) -> bool {
    !(status.is_informational()
        || status == StatusCode::NO_CONTENT
        || status == StatusCode::NOT_MODIFIED
        || *method == Method::HEAD
        || (*method == Method::CONNECT && status.is_success()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lengths: &[&str], codings: &[&str]) -> Result<Fields, Malformed> {
        let mut fields = Fields::default();
        for length in lengths {
            fields.length(length.as_bytes())?;
        }
        for coding in codings {
            fields.coding(coding.as_bytes())?;
        }
        Ok(fields)
    }

    #[test]
    fn requests_end_by_length_by_chunk_or_at_once() {
        let of = |lengths: &[&str], codings: &[&str]| fields(lengths, codings).and_then(Fields::of_request);
        assert_eq!(of(&[], &[]), Ok(Framing::Empty));
        assert_eq!(of(&["0"], &[]), Ok(Framing::Empty));
        assert_eq!(of(&["007"], &[]), Ok(Framing::Length(7)));
        assert_eq!(
            of(&["9999999999999999999"], &[]),
            Ok(Framing::Length(9_999_999_999_999_999_999))
        );
        assert_eq!(of(&[], &["Chunked"]), Ok(Framing::Chunked));
        for (lengths, codings, expected) in [
            (&["3", "4"][..], &[][..], Malformed::Framing),
            (&["3", "3"], &[], Malformed::Framing),
            (&["3, 3"], &[], Malformed::Framing),
            (&["+3"], &[], Malformed::Framing),
            (&["-3"], &[], Malformed::Framing),
            (&["0x3"], &[], Malformed::Framing),
            (&[""], &[], Malformed::Framing),
            (&["3 "], &[], Malformed::Framing),
            (&["18446744073709551616"], &[], Malformed::Framing),
            (&["3"], &["chunked"], Malformed::Framing),
            (&[], &["chunked", "chunked"], Malformed::TransferCoding),
            (&[], &["gzip, chunked"], Malformed::TransferCoding),
            (&[], &["chunked, identity"], Malformed::TransferCoding),
            (&[], &["identity"], Malformed::TransferCoding),
            (&[], &["xchunked"], Malformed::TransferCoding),
            (&[], &["chunked;q=1"], Malformed::TransferCoding),
            (&[], &["\x0bchunked"], Malformed::TransferCoding),
            (&[], &[""], Malformed::TransferCoding),
        ] {
            assert_eq!(of(lengths, codings), Err(expected), "{lengths:?} {codings:?}");
        }
    }

    #[test]
    fn a_coding_in_http_1_0_ends_the_connection() {
        let chunked = fields(&[], &["chunked"]).unwrap();
        assert!(chunked.ends_connection(Version::HTTP_10));
        assert!(!chunked.ends_connection(Version::HTTP_11));
        assert!(!fields(&["3"], &[]).unwrap().ends_connection(Version::HTTP_10));
    }

    #[test]
    fn responses_may_end_with_the_connection_and_some_have_no_content() {
        let of = |lengths: &[&str], codings: &[&str], status, method: &Method| {
            let status = StatusCode::from_u16(status).unwrap();
            fields(lengths, codings).and_then(|fields| fields.of_response(status, method))
        };
        assert_eq!(of(&[], &[], 200, &Method::GET), Ok(Framing::UntilClose));
        assert_eq!(of(&["5"], &[], 200, &Method::GET), Ok(Framing::Length(5)));
        assert_eq!(of(&["5"], &[], 200, &Method::HEAD), Ok(Framing::Empty));
        assert_eq!(of(&["5"], &[], 304, &Method::GET), Ok(Framing::Empty));
        assert_eq!(of(&[], &["chunked"], 204, &Method::GET), Ok(Framing::Empty));
        assert_eq!(of(&[], &[], 101, &Method::GET), Ok(Framing::Empty));
        assert_eq!(of(&["5"], &["chunked"], 200, &Method::GET), Err(Malformed::Framing));
    }
}
