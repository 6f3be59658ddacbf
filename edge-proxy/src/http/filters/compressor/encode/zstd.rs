//! One frame of Zstandard (RFC 8878 §3.1.1), written while its content comes.
//!
//! The library compresses whole contents alone, each to a frame of its own. A piece is compressed so, and its
//! blocks are taken over into the one frame that the client reads; they refer to nothing outside their piece.
//! Why not a frame for each piece: a client need not read beyond the first.

use std::io::Cursor;

use ruzstd::encoding::{CompressionLevel, FrameCompressor, MatchGeneratorDriver};

/// Magic number, a descriptor that announces nothing but a window (§3.1.1.1.1), and the window: that of the library's
/// own frames, 128 KiB.
const HEADER: [u8; 6] = [0x28, 0xB5, 0x2F, 0xFD, 0x00, 7 << 3];

/// As much fits into a block, so nothing of one is needed to read the next.
const MAX_BLOCK: usize = 128 * 1024;

/// The bit of a block's header that says that it is the last.
const LAST: u8 = 1;

/// A frame that is being written.
pub(in crate::http::filters::compressor) struct Zstd {
    is_begun: bool,
    library: FrameCompressor<Cursor<Vec<u8>>, Vec<u8>, MatchGeneratorDriver>,
}

impl Zstd {
    /// A frame without content.
    pub(super) fn new() -> Self {
        Self {
            is_begun: false,
            library: FrameCompressor::new(CompressionLevel::Fastest),
        }
    }

    /// All there is to send once this has come.
    pub(super) fn pass(&mut self, data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        if !std::mem::replace(&mut self.is_begun, true) {
            out.extend_from_slice(&HEADER);
        }
        for piece in data.chunks(MAX_BLOCK) {
            let at = out.len();
            out.extend_from_slice(self.compressed(piece).get(HEADER.len()..).unwrap_or_default());
            open(&mut out[at..]);
        }
        out
    }

    /// The rest, after the last piece.
    pub(super) fn finish(&mut self, data: &[u8]) -> Vec<u8> {
        let mut out = self.pass(data);
        // An empty raw block that is the last.
        out.extend_from_slice(&[LAST, 0, 0]);
        out
    }

    /// A piece as a frame.
    fn compressed(&mut self, piece: &[u8]) -> Vec<u8> {
        self.library.set_source(Cursor::new(piece.to_vec()));
        self.library.set_drain(Vec::new());
        self.library.compress();
        self.library.take_drain().unwrap_or_default()
    }
}

/// Takes the mark of the last block off, so that others may follow.
fn open(blocks: &mut [u8]) {
    let mut at = 0;
    while let Some([first, second, third]) = blocks.get(at..at + 3) {
        let header = u32::from_le_bytes([*first, *second, *third, 0]);
        let is_repeated = header >> 1 & 3 == 1;
        let length = if is_repeated { 1 } else { header >> 3 };
        blocks[at] &= !LAST;
        at += 3 + length as usize;
    }
}
