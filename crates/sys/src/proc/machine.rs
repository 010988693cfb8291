//! How a machine is written down.

use hmac_sha256::Hash;
use model::hex::to_hex;

/// So that the machine's own id, which is meant to stay confidential, is never written down.
const MACHINE_HASH_KEY: &[u8] = b"ostler machine 1\0";

/// The id hashed with our key, in a way that does not ask first what the processor can do: that would
/// take longer, and every hook waits for it.
pub(super) fn hash_machine_id(id: &str) -> String {
    let mut hash = Hash::new();
    hash.update(MACHINE_HASH_KEY);
    hash.update(id);
    to_hex(&hash.finalize()[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_hashed_with_a_key_of_our_own() {
        let id = "0123456789abcdef0123456789abcdef";
        assert_eq!(hash_machine_id(id), "8ec29bc4a1c97cfa3f345b279f0abef6");
        assert_ne!(hash_machine_id(id), hash_machine_id("another"));
        assert!(!hash_machine_id(id).contains(id));
    }
}
