//! Clients that reset streams as soon as they have opened them.
//!
//! Each such stream costs a request to a backend, and its connection where that speaks HTTP/1. The rule is
//! Envoy's: of five hundred streams no more than half may be reset within a second, before a response.

use crate::downstream::http2::stream::End;

/// So many streams are looked at before the share of resets counts.
const STREAMS: u64 = 500;

/// The ends of a connection's streams so far.
#[derive(Debug, Default)]
pub(super) struct Resets {
    ended: u64,
    premature: u64,
}

impl Resets {
    /// Notes the end of a stream; true when it was one reset too many. Half of the streams that count may be reset even
    /// before there were that many: all others could not make up for them.
    pub(super) fn note(&mut self, end: End) -> bool {
        self.ended += 1;
        self.premature += u64::from(end == End::Premature);
        end == End::Premature && self.premature * 2 >= self.ended.max(STREAMS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_streams_may_be_reset() {
        let mut resets = Resets::default();
        assert!((0..249).all(|_| !resets.note(End::Premature)));
        assert!(resets.note(End::Premature));
        let mut resets = Resets::default();
        assert!((0..1000).all(|_| !resets.note(End::Over)));
        assert!((0..999).all(|_| !resets.note(End::Premature)));
        assert!(resets.note(End::Premature));
    }
}
