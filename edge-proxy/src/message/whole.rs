//! Content that is there as a whole.

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};

/// A body that has been read.
#[derive(Debug, Default)]
pub(crate) struct Whole {
    data: Bytes,
    trailers: Option<HeaderMap>,
}

impl Whole {
    /// Content without trailers.
    pub(crate) fn of(data: Bytes) -> Self {
        Self { data, trailers: None }
    }

    /// Content with trailers, if there are any.
    pub(crate) fn with_trailers(data: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self { data, trailers }
    }

    /// What is left of the content.
    pub(crate) fn content(&self) -> &Bytes {
        &self.data
    }

    /// What is next; there is nothing to wait for.
    pub(crate) fn next(&mut self) -> Option<Frame<Bytes>> {
        if self.data.is_empty() {
            return self.trailers.take().map(Frame::trailers);
        }
        Some(Frame::data(std::mem::take(&mut self.data)))
    }

    /// Whether all has been taken.
    pub(crate) fn is_over(&self) -> bool {
        self.data.is_empty() && self.trailers.is_none()
    }

    /// What is left. Where trailers follow that isn't said: behind a length they have no place in HTTP/1.
    pub(crate) fn size_hint(&self) -> SizeHint {
        match self.trailers {
            None => SizeHint::with_exact(self.data.len() as u64),
            Some(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_what_trailers_follow_is_not_said() {
        let data = Bytes::from_static(b"abc");
        assert_eq!(Whole::of(data.clone()).size_hint().exact(), Some(3));
        let mut whole = Whole::with_trailers(data, Some(HeaderMap::new()));
        assert_eq!(whole.size_hint().exact(), None);
        assert!(whole.next().is_some() && whole.next().is_some() && whole.is_over());
        assert_eq!(whole.size_hint().exact(), Some(0));
    }
}
