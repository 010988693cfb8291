//! Serialised screen state (a checkpoint): to bytes, and back.
//!
//! A keyframe is a cache of what the log says: one that is damaged, or of another version, is refused
//! and the log is replayed. So there is no migration, only [`VERSION`].

use sha2::{Digest, Sha256};

use crate::parser::Parser;
use crate::screen::Screen;
use crate::term::Term;

const MAGIC: &[u8; 7] = b"ostlerK";
/// Changes with every change of what is stored.
const VERSION: u8 = 2;
const CHECKSUM: usize = 16;
const MAX_KEYFRAME_BYTES: usize = 256 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyframeError {
    #[error("not a keyframe")]
    NotAKeyframe,
    #[error("a keyframe of version {found}, not {VERSION}")]
    Version { found: u8 },
    #[error("a damaged keyframe")]
    Damaged,
}

impl Screen {
    /// Everything: both screens, scrollback, modes, and the sequence that is only half read.
    pub fn to_keyframe(&self) -> Vec<u8> {
        let state = (&self.parser, &self.term, self.generation, self.held_bytes);
        let payload = postcard::to_stdvec(&state).unwrap_or_default();
        let payload = zstd::bulk::compress(&payload, 1).unwrap_or_default();
        let mut bytes = Vec::with_capacity(MAGIC.len() + 1 + CHECKSUM + payload.len());
        bytes.extend_from_slice(MAGIC);
        bytes.push(VERSION);
        bytes.extend_from_slice(&checksum(&payload));
        bytes.extend_from_slice(&payload);
        bytes
    }

    /// A screen that goes on where the keyframe was taken.
    pub fn from_keyframe(bytes: &[u8]) -> Result<Screen, KeyframeError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(KeyframeError::NotAKeyframe)?;
        let (&version, rest) = rest.split_first().ok_or(KeyframeError::Damaged)?;
        if version != VERSION {
            return Err(KeyframeError::Version { found: version });
        }
        let (sum, payload) = rest.split_at_checked(CHECKSUM).ok_or(KeyframeError::Damaged)?;
        if sum != checksum(payload) {
            return Err(KeyframeError::Damaged);
        }
        Screen::from_payload(payload).ok_or(KeyframeError::Damaged)
    }

    fn from_payload(payload: &[u8]) -> Option<Screen> {
        let mut reader = zstd::stream::read::Decoder::new(payload).ok()?;
        let mut state = Vec::new();
        std::io::Read::read_to_end(
            &mut std::io::Read::take(&mut reader, MAX_KEYFRAME_BYTES as u64),
            &mut state,
        )
        .ok()?;
        type State = (Parser, Term, u64, usize);
        let (parser, term, generation, held_bytes): State = postcard::from_bytes(&state).ok()?;
        term.is_sound().then_some(Screen { parser, term, generation, held_bytes })
    }
}

fn checksum(payload: &[u8]) -> [u8; CHECKSUM] {
    let mut sum = [0; CHECKSUM];
    sum.copy_from_slice(&Sha256::digest(payload)[..CHECKSUM]);
    sum
}
