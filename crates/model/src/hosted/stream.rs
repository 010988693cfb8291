//! The attach protocol: length-prefixed frames, both ways, between a host and an attached viewer.
//!
//! A frame is a kind, a length (four bytes, big end first) and that many bytes.

/// The longest frame that is accepted.
const MAX_FRAME_BYTES: usize = 1 << 20;

/// What a frame is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// To the viewer: output. From the viewer: input.
    Bytes = b'b',
    /// A size, as JSON.
    Size = b's',
    /// To the viewer: who has the keyboard, a [`Keyboard`].
    Writer = b'w',
    /// To the viewer: the session is over; how, as words.
    Over = b'o',
    /// From the viewer: give me the keyboard.
    Take = b't',
    /// From the viewer: show me the whole screen again.
    Redraw = b'r',
}

/// Who has the keyboard, as a viewer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keyboard {
    /// What this viewer types reaches the program.
    Yours,
    /// Another viewer types.
    Anothers,
    /// There is no typist; the next viewer who does has it.
    Free,
}

impl Keyboard {
    /// The payload of a frame.
    pub const fn word(self) -> &'static [u8] {
        match self {
            Self::Yours => b"1",
            Self::Anothers => b"0",
            Self::Free => b"f",
        }
    }

    /// What a payload says.
    pub fn parse(payload: &[u8]) -> Self {
        match payload {
            b"1" => Self::Yours,
            b"f" => Self::Free,
            _ => Self::Anothers,
        }
    }
}

impl FrameKind {
    const ALL: [Self; 6] =
        [Self::Bytes, Self::Size, Self::Writer, Self::Over, Self::Take, Self::Redraw];
}

/// Appends a frame.
pub fn put_frame(out: &mut Vec<u8>, kind: FrameKind, payload: &[u8]) {
    for part in payload.chunks(MAX_FRAME_BYTES).chain(payload.is_empty().then_some(&[][..])) {
        out.push(kind as u8);
        out.extend_from_slice(&u32::try_from(part.len()).unwrap_or(0).to_be_bytes());
        out.extend_from_slice(part);
    }
}

/// What came in does not follow the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a frame")]
pub struct NotAFrame;

/// Takes the next whole frame off the front of `bytes`.
pub fn take_frame(bytes: &mut Vec<u8>) -> Result<Option<(FrameKind, Vec<u8>)>, NotAFrame> {
    let Some((&first, rest)) = bytes.split_first() else { return Ok(None) };
    let kind = *FrameKind::ALL.iter().find(|kind| **kind as u8 == first).ok_or(NotAFrame)?;
    let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if length > MAX_FRAME_BYTES {
        return Err(NotAFrame);
    }
    let Some(payload) = rest.get(..length) else { return Ok(None) };
    let payload = payload.to_vec();
    bytes.drain(..5 + length);
    Ok(Some((kind, payload)))
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn frames_come_back_however_they_are_cut(payloads: Vec<Vec<u8>>, cut in 1usize..9) {
            let mut sent = Vec::new();
            for payload in &payloads {
                put_frame(&mut sent, FrameKind::Bytes, payload);
            }
            let (mut buffer, mut came) = (Vec::new(), Vec::new());
            for part in sent.chunks(cut) {
                buffer.extend_from_slice(part);
                while let Some((kind, payload)) = take_frame(&mut buffer).unwrap() {
                    proptest::prop_assert_eq!(kind, FrameKind::Bytes);
                    came.push(payload);
                }
            }
            proptest::prop_assert_eq!(came, payloads);
        }

        #[test]
        fn garbage_is_refused_and_never_panics(mut bytes: Vec<u8>) {
            while let Ok(Some(_)) = take_frame(&mut bytes) {}
        }
    }
}
