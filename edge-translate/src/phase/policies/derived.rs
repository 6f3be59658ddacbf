//! Keys made of one secret, so that what is signed with one of them means nothing where another is asked for.

use sha2::{Digest, Sha256};

/// Bytes that SHA-256 takes at a time.
const BLOCK: usize = 64;

/// HMAC-SHA-256 (RFC 2104) of a message: a key that tells nothing of the secret.
pub(super) fn key(secret: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0; BLOCK];
    if secret.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(secret));
    } else {
        block[..secret.len()].copy_from_slice(secret);
    }
    let padded = |byte: u8| block.map(|own| own ^ byte);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message);
    let outer = Sha256::new().chain_update(padded(0x5c)).chain_update(inner.finalize());
    outer.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_standard() {
        // RFC 4231 §4.3 and §4.7.
        for (secret, message, expected) in [
            (
                &b"Jefe"[..],
                &b"what do ya want for nothing?"[..],
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ] {
            let found: String = key(secret, message).iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(found, expected);
        }
    }
}
