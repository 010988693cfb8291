//! Seals: ed25519 signatures over records, each bound to its kind.
//!
//! A sealed record is `"o1"`, the signature (64 bytes) and the body; signed is the kind, a zero byte and
//! the body, so that a signature of one kind is void as another. Every member and operator has two keys:
//! `link` proves itself to the hub by signing a nonce that the hub chose, `seal` signs records. With one
//! key a hub could choose a record as its nonce.

use nkeys::KeyPair;
use sha2::{Digest, Sha256};

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealKind {
    /// A member's renewal.
    Lease,
    /// A part of a member's inventory.
    Page,
    /// An order to a member.
    Ask,
    /// A member's answer.
    Answer,
    /// A part of what a terminal shows.
    Chunk,
    /// Who is a member.
    Certificate,
    /// Who is an operator.
    Operators,
    /// What somebody asks for who wants to be a member.
    Join,
}

impl SealKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Lease,
        Self::Page,
        Self::Ask,
        Self::Answer,
        Self::Chunk,
        Self::Certificate,
        Self::Operators,
        Self::Join,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Page => "page",
            Self::Ask => "ask",
            Self::Answer => "answer",
            Self::Chunk => "chunk",
            Self::Certificate => "cert",
            Self::Operators => "operators",
            Self::Join => "join",
        }
    }

    fn signed_bytes(self, body: &[u8]) -> Vec<u8> {
        let mut bytes = format!("ostler.{}.v1\0", self.as_str()).into_bytes();
        bytes.extend_from_slice(body);
        bytes
    }
}

const MAGIC: &[u8; 2] = b"o1";
const SIGNATURE_BYTES: usize = 64;

/// How many bytes a seal adds.
pub const SEAL_BYTES: usize = MAGIC.len() + SIGNATURE_BYTES;

/// Why a record is not what it claims to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// It is no sealed record.
    #[error("it is no sealed record")]
    NoSeal,
    /// Another key, another kind, or altered bytes.
    #[error("its seal is not valid")]
    Invalid,
    /// The key is none.
    #[error("the key is not valid")]
    Key,
}

/// Seals a body.
pub fn seal_record(key: &KeyPair, kind: SealKind, body: &[u8]) -> Result<Vec<u8>, SealError> {
    let signature = key.sign(&kind.signed_bytes(body)).map_err(|_| SealError::Key)?;
    let mut sealed = Vec::with_capacity(SEAL_BYTES + body.len());
    sealed.extend_from_slice(MAGIC);
    sealed.extend_from_slice(&signature);
    sealed.extend_from_slice(body);
    Ok(sealed)
}

/// Seals a record as JSON.
pub fn seal_json(
    key: &KeyPair,
    kind: SealKind,
    record: &impl serde::Serialize,
) -> Result<Vec<u8>, SealError> {
    let body = serde_json::to_vec(record).map_err(|_| SealError::NoSeal)?;
    seal_record(key, kind, &body)
}

/// The body of a record that this key sealed as that kind.
pub fn open_record<'a>(
    public: &str,
    kind: SealKind,
    sealed: &'a [u8],
) -> Result<&'a [u8], SealError> {
    let rest = sealed.strip_prefix(MAGIC).ok_or(SealError::NoSeal)?;
    let (signature, body) = rest.split_at_checked(SIGNATURE_BYTES).ok_or(SealError::NoSeal)?;
    let key = KeyPair::from_public_key(public).map_err(|_| SealError::Key)?;
    key.verify(&kind.signed_bytes(body), signature).map_err(|_| SealError::Invalid)?;
    Ok(body)
}

/// A member's id: the beginning of the hash of its seal key, so that it names its own key.
pub fn member_id(seal: &str) -> Result<String, SealError> {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let (_, raw) = nkeys::from_public_key(seal).map_err(|_| SealError::Key)?;
    let hash = Sha256::digest(raw);
    let digit = |index: usize| {
        let bit = index * 5;
        let pair = u16::from_be_bytes([hash[bit / 8], hash.get(bit / 8 + 1).copied().unwrap_or(0)]);
        ALPHABET[usize::from(pair >> (11 - bit % 8) & 31)] as char
    };
    Ok((0..26).map(digit).collect())
}

/// What people compare keys by: all of them together, in their order.
pub fn fingerprint(keys: &[&str]) -> String {
    let hash = model::hex::to_hex(&Sha256::digest(keys.join("\n").as_bytes()));
    hash.as_bytes()[..24]
        .chunks(4)
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect::<Vec<_>>()
        .join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_51_a_seal_is_of_one_key_one_kind_and_one_body() {
        let (key, other) = (KeyPair::new_user(), KeyPair::new_user());
        let sealed = seal_record(&key, SealKind::Lease, b"body").unwrap();
        assert_eq!(open_record(&key.public_key(), SealKind::Lease, &sealed), Ok(&b"body"[..]));
        for kind in SealKind::ALL.into_iter().filter(|kind| *kind != SealKind::Lease) {
            let opened = open_record(&key.public_key(), kind, &sealed);
            assert_eq!(opened, Err(SealError::Invalid), "{kind:?}");
        }
        let opened = open_record(&other.public_key(), SealKind::Lease, &sealed);
        assert_eq!(opened, Err(SealError::Invalid));
        for index in 0..sealed.len() {
            let mut altered = sealed.clone();
            altered[index] ^= 1;
            assert!(open_record(&key.public_key(), SealKind::Lease, &altered).is_err(), "{index}");
        }
    }

    #[test]
    fn an_id_names_its_own_key() {
        let (key, other) = (KeyPair::new_user().public_key(), KeyPair::new_user().public_key());
        let id = member_id(&key).unwrap();
        assert_eq!(id.len(), 26);
        assert!(id.bytes().all(|byte| byte.is_ascii_lowercase() || (b'2'..=b'7').contains(&byte)));
        assert_eq!(id, member_id(&key).unwrap());
        assert_ne!(id, member_id(&other).unwrap());
        assert!(member_id("no key").is_err());
    }
}
