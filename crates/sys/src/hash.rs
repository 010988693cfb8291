//! What stands for the content of something.

use model::hex::hex;
use sha2::{Digest, Sha256};

/// The SHA-256 of some bytes, in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}
