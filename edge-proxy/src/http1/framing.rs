//! Where the body of a message ends (RFC 9112 §6).
//!
//! What: [`Fields`] collects `content-length` and `transfer-encoding` while a head is read, and says which [`Framing`]
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

    fn any(self, version: Version) -> Result<Option<Framing>, Malformed> {
        match (self.length, self.chunked) {
            (Some(_), true) => Err(Malformed::Framing),
            // RFC 9112 §6.1: faulty, because an old recipient on the way would not have known the field.
            (None, true) if version < Version::HTTP_11 => Err(Malformed::Framing),
            (None, true) => Ok(Some(Framing::Chunked)),
            (Some(0), false) => Ok(Some(Framing::Empty)),
            (Some(length), false) => Ok(Some(Framing::Length(length))),
            (None, false) => Ok(None),
        }
    }

    /// What follows a request.
    pub fn of_request(self, version: Version) -> Result<Framing, Malformed> {
        Ok(self.any(version)?.unwrap_or(Framing::Empty))
    }

    /// What follows a response to a request of this method.
    pub fn of_response(self, version: Version, status: StatusCode, method: &Method) -> Result<Framing, Malformed> {
        let framing = self.any(version)?.unwrap_or(Framing::UntilClose);
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
        || *method == Method::HEAD)
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
        let of = |lengths: &[&str], codings: &[&str], version| {
            fields(lengths, codings).and_then(|fields| fields.of_request(version))
        };
        let (old, new) = (Version::HTTP_10, Version::HTTP_11);
        assert_eq!(of(&[], &[], new), Ok(Framing::Empty));
        assert_eq!(of(&["0"], &[], new), Ok(Framing::Empty));
        assert_eq!(of(&["007"], &[], old), Ok(Framing::Length(7)));
        assert_eq!(
            of(&["9999999999999999999"], &[], new),
            Ok(Framing::Length(9_999_999_999_999_999_999))
        );
        assert_eq!(of(&[], &["Chunked"], new), Ok(Framing::Chunked));
        for (lengths, codings, version, expected) in [
            (&["3", "4"][..], &[][..], new, Malformed::Framing),
            (&["3", "3"], &[], new, Malformed::Framing),
            (&["3, 3"], &[], new, Malformed::Framing),
            (&["+3"], &[], new, Malformed::Framing),
            (&["-3"], &[], new, Malformed::Framing),
            (&["0x3"], &[], new, Malformed::Framing),
            (&[""], &[], new, Malformed::Framing),
            (&["3 "], &[], new, Malformed::Framing),
            (&["18446744073709551616"], &[], new, Malformed::Framing),
            (&["3"], &["chunked"], new, Malformed::Framing),
            (&[], &["chunked"], old, Malformed::Framing),
            (&[], &["chunked", "chunked"], new, Malformed::TransferCoding),
            (&[], &["gzip, chunked"], new, Malformed::TransferCoding),
            (&[], &["chunked, identity"], new, Malformed::TransferCoding),
            (&[], &["identity"], new, Malformed::TransferCoding),
            (&[], &["xchunked"], new, Malformed::TransferCoding),
            (&[], &["chunked;q=1"], new, Malformed::TransferCoding),
            (&[], &["\x0bchunked"], new, Malformed::TransferCoding),
            (&[], &[""], new, Malformed::TransferCoding),
        ] {
            assert_eq!(
                of(lengths, codings, version),
                Err(expected),
                "{lengths:?} {codings:?} {version:?}"
            );
        }
    }

    #[test]
    fn responses_may_end_with_the_connection_and_some_have_no_content() {
        let of = |lengths: &[&str], codings: &[&str], status, method: &Method| {
            let status = StatusCode::from_u16(status).unwrap();
            fields(lengths, codings).and_then(|fields| fields.of_response(Version::HTTP_11, status, method))
        };
        assert_eq!(of(&[], &[], 200, &Method::GET), Ok(Framing::UntilClose));
        assert_eq!(of(&["5"], &[], 200, &Method::GET), Ok(Framing::Length(5)));
        assert_eq!(of(&["5"], &[], 200, &Method::HEAD), Ok(Framing::Empty));
        assert_eq!(of(&["5"], &[], 304, &Method::GET), Ok(Framing::Empty));
        assert_eq!(of(&[], &["chunked"], 204, &Method::GET), Ok(Framing::Empty));
        assert_eq!(of(&[], &[], 101, &Method::GET), Ok(Framing::Empty));
        assert_eq!(
            of(&["5"], &["chunked"], 200, &Method::GET),
            Err(Malformed::Framing)
        );
    }
}
