//! Frames of HTTP/2 that move nothing, and how many of them a client may send.
//!
//! PING, SETTINGS, PRIORITY, WINDOW_UPDATE, RST_STREAM, frames of unknown kinds and those without content cost
//! work, and some of them an answer, though no request is behind them (CVE-2019-9511 to 9518). A client may send a
//! thousand within a second, and beyond that some for each stream that it opens and each frame of content that it is
//! sent: more than clients have cause for. Bytes are looked at on their way into the codec; of a frame only its head
//! (RFC 9113 §4.1), and the clock only when nothing is left.
//! Why not by kind, as Envoy counts: what costs is that they are many, and clients differ in how they mix them.

use std::time::{Duration, Instant};

/// Bytes of the client connection preface (RFC 9113 §3.4).
const PREFACE: usize = 24;
const HEAD: usize = 9;
/// So many may come ...
const AT_ONCE: u64 = 1000;
/// ... in this time.
const TIME: Duration = Duration::from_secs(1);
/// So many more for a stream that the client opens, or a frame of content that it is sent: Envoy's ten windows
/// (`max_inbound_window_update_frames_per_data_frame_sent`), of the stream and of the connection.
const FOR_EACH: u64 = 20;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;

/// What a client's frames say about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Fair,
    Flood,
}

/// The frames of a client so far.
#[derive(Debug)]
pub(super) struct Frames {
    /// Bytes before the head of the next frame.
    skipped: usize,
    head: [u8; HEAD],
    /// How much of the head has come.
    have: usize,
    /// Frames that may still come.
    left: u64,
    /// Since when nothing was taken of what may come at once.
    since: Instant,
    /// Frames of content sent that were counted in.
    sent: u64,
}

impl Frames {
    /// A connection of which nothing was read.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            skipped: PREFACE,
            head: [0; HEAD],
            have: 0,
            left: AT_ONCE,
            since: now,
            sent: 0,
        }
    }

    /// Looks at what came next. `sent` is how many frames of content the client has been sent in all.
    pub(super) fn look(&mut self, mut bytes: &[u8], now: impl Fn() -> Instant, sent: impl Fn() -> u64) -> Flow {
        while !bytes.is_empty() {
            if self.skipped > 0 {
                let count = self.skipped.min(bytes.len());
                self.skipped -= count;
                bytes = &bytes[count..];
                continue;
            }
            let count = (HEAD - self.have).min(bytes.len());
            self.head[self.have..self.have + count].copy_from_slice(&bytes[..count]);
            self.have += count;
            bytes = &bytes[count..];
            if self.have < HEAD {
                break;
            }
            self.have = 0;
            let [high, middle, low, kind, flags, ..] = self.head;
            self.skipped = u32::from_be_bytes([0, high, middle, low]) as usize;
            match kind {
                HEADERS => self.left = self.left.saturating_add(FOR_EACH),
                DATA if self.skipped > 0 || flags & END_STREAM != 0 => {}
                // Those of one head are counted by the codec.
                CONTINUATION if self.skipped > 0 => {}
                _ if self.left > 0 || self.allow_more(&now, &sent) => self.left -= 1,
                _ => return Flow::Flood,
            }
        }
        Flow::Fair
    }

    /// Looks for what the client may send now that nothing is left; false when it may send nothing.
    fn allow_more(&mut self, now: impl Fn() -> Instant, sent: impl Fn() -> u64) -> bool {
        let sent = sent();
        self.left = (sent - std::mem::replace(&mut self.sent, sent)).saturating_mul(FOR_EACH);
        if self.left == 0 {
            let now = now();
            if now.saturating_duration_since(self.since) >= TIME {
                self.since = now;
                self.left = AT_ONCE;
            }
        }
        self.left > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    /// Opens a stream and says that this is all.
    const REQUEST: [u8; 10] = [0, 0, 1, HEADERS, 5, 0, 0, 0, 1, 0x82];

    fn begun(now: Instant) -> Frames {
        let mut frames = Frames::new(now);
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        assert_eq!(frames.look(preface, || now, || 0), Flow::Fair);
        frames
    }

    /// How many of these frames are taken before it is a flood, up to this many.
    fn taken(frames: &mut Frames, frame: &[u8], most: usize, now: Instant, sent: u64) -> usize {
        let mut all = 0..most;
        all.position(|_| frames.look(frame, || now, || sent) == Flow::Flood)
            .unwrap_or(most)
    }

    #[test]
    fn a_thousand_may_come_within_a_second() {
        let start = Instant::now();
        let mut frames = begun(start);
        assert_eq!(taken(&mut frames, &PING, 2000, start, 0), 1000);
        let mut frames = begun(start);
        assert_eq!(taken(&mut frames, &PING, 1000, start, 0), 1000);
        let later = start + Duration::from_secs(1);
        assert_eq!(taken(&mut frames, &PING, 1000, later, 0), 1000);
        let soon = later + Duration::from_millis(999);
        assert_eq!(taken(&mut frames, &PING, 1000, soon, 0), 0);
    }

    #[test]
    fn more_may_come_for_streams_and_for_what_is_sent_on_them() {
        let start = Instant::now();
        let mut frames = begun(start);
        assert_eq!(taken(&mut frames, &REQUEST, 50, start, 0), 50);
        assert_eq!(taken(&mut frames, &PING, 2000, start, 0), 2000);
        assert_eq!(taken(&mut frames, &PING, 200, start, 10), 200);
        assert_eq!(taken(&mut frames, &PING, 9000, start, 11), 20);
    }

    #[test]
    fn what_has_content_or_ends_a_stream_is_free() {
        let start = Instant::now();
        let content = [0, 0, 1, DATA, 0, 0, 0, 0, 1, b'x'];
        let end = [0, 0, 0, DATA, END_STREAM, 0, 0, 0, 1];
        let rest_of_a_head = [0, 0, 1, CONTINUATION, 4, 0, 0, 0, 1, 0x82];
        let mut frames = begun(start);
        for frame in [&content[..], &end, &rest_of_a_head] {
            assert_eq!(taken(&mut frames, frame, 9000, start, 0), 9000);
        }
        for kind in [DATA, CONTINUATION, 4, 0x77] {
            let nothing = [0, 0, 0, kind, 0, 0, 0, 0, 1];
            assert_eq!(taken(&mut begun(start), &nothing, 9000, start, 0), 1000, "{kind}");
        }
    }

    #[test]
    fn frames_are_found_however_they_are_cut() {
        let start = Instant::now();
        let mut all = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        // Content that looks like the heads of frames.
        all.extend([0, 0, 90, DATA, 0, 0, 0, 0, 1]);
        all.extend([0; 90]);
        all.extend(PING.repeat(1000));
        for length in 1..40 {
            let mut frames = Frames::new(start);
            for piece in all.chunks(length) {
                assert_eq!(frames.look(piece, || start, || 0), Flow::Fair, "{length}");
            }
            assert_eq!(frames.look(&PING[..8], || start, || 0), Flow::Fair);
            assert_eq!(frames.look(&PING[8..], || start, || 0), Flow::Flood);
        }
    }
}
