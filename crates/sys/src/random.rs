//! Random bytes from the kernel (`getrandom`), and the ULIDs and UUIDs made of them.

use std::io;

/// Fills an array with random bytes.
pub fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// A new ULID: sortable by time, 26 characters.
pub fn new_ulid() -> io::Result<String> {
    const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let millis = u128::try_from(crate::clock::now().as_millis()).unwrap_or(0);
    let chance = random_bytes::<10>()?;
    let chance = chance.iter().fold(0, |number, byte| number << 8 | u128::from(*byte));
    let number = (millis & ((1 << 48) - 1)) << 80 | chance;
    let letter = |place: u32| char::from(LETTERS[(number >> (5 * place) & 31) as usize]);
    Ok((0..26).rev().map(letter).collect())
}

/// A new random UUID (version 4).
pub fn new_uuid() -> io::Result<String> {
    let mut bytes = random_bytes::<16>()?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    Ok(parts.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_says_that_it_is_random() {
        let one = new_uuid().unwrap();
        assert_eq!(one.len(), 36);
        assert_eq!(one.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&one.as_bytes()[19]));
        assert_ne!(one, new_uuid().unwrap());
    }

    #[test]
    fn ids_are_unique_and_sort_by_time() {
        let ids: Vec<String> = (0..1000).map(|_| new_ulid().unwrap()).collect();
        let mut unique = ids.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 26 && id.starts_with("01")));
        assert!(ids[0][..10] <= ids[999][..10]);
    }
}
