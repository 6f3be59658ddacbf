//! Random numbers of one worker: xoshiro256++ seeded from the system.
//!
//! Numbers for load balancing, weights, jitter and request ids. Not for secrets.
//! Why own: no lock, no shared state, one nanosecond a number.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

use http::HeaderValue;

/// A generator.
#[derive(Debug)]
pub(crate) struct Random {
    state: [Cell<u64>; 4],
}

impl Random {
    /// A generator with a seed of its own.
    pub(crate) fn new() -> Self {
        // RandomState draws its keys from the system once per thread and counts them up after that.
        Self {
            state: [0u64, 1, 2, 3].map(|n| Cell::new(RandomState::new().hash_one(n) | 1)),
        }
    }

    /// The next number.
    pub(crate) fn next(&self) -> u64 {
        let [a, b, c, d] = &self.state;
        let (s0, s1, s2, s3) = (a.get(), b.get(), c.get(), d.get());
        let result = s0.wrapping_add(s3).rotate_left(23).wrapping_add(s0);
        let shifted = s1 << 17;
        let t2 = s2 ^ s0;
        let t3 = s3 ^ s1;
        b.set(s1 ^ t2);
        a.set(s0 ^ t3);
        c.set(t2 ^ shifted);
        d.set(t3.rotate_left(45));
        result
    }

    /// A number in `0..bound` (0 for an empty range).
    pub(crate) fn below(&self, bound: usize) -> usize {
        // Multiply-shift: the bias is below 2^-32 for the sizes met here.
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// A UUID of version 4 (RFC 9562 §5.4) in its text form.
    pub(crate) fn uuid(&self) -> HeaderValue {
        /// Where the digits of each byte stand between the dashes.
        const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
        let mut bytes = [0u8; 16];
        bytes[..8].copy_from_slice(&self.next().to_be_bytes());
        bytes[8..].copy_from_slice(&self.next().to_be_bytes());
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let mut text = [b'-'; 36];
        for (place, byte) in PLACES.into_iter().zip(bytes) {
            text[place..place + 2].copy_from_slice(&HEX[usize::from(byte)]);
        }
        HeaderValue::from_bytes(&text).unwrap_or_else(|_| HeaderValue::from_static("0"))
    }
}

/// The two digits of every byte.
const HEX: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut table = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_version_4_and_differ() {
        let random = Random::new();
        let (one, two) = (random.uuid(), random.uuid());
        assert_ne!(one, two);
        for id in [one, two] {
            let text = id.to_str().unwrap().to_owned();
            let parts: Vec<usize> = text.split('-').map(str::len).collect();
            assert_eq!(parts, [8, 4, 4, 4, 12]);
            assert_eq!(&text[14..15], "4");
            assert!(matches!(&text[19..20], "8" | "9" | "a" | "b"), "{text}");
        }
    }

    #[test]
    fn numbers_below_a_bound_reach_every_value() {
        let random = Random::new();
        let mut seen = [0u32; 7];
        for _ in 0..7000 {
            seen[random.below(7)] += 1;
        }
        assert!(seen.iter().all(|n| (700..1300).contains(n)), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }
}
