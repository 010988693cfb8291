//! Typing since the last Enter (is the composer empty?), read from the bytes that go to the program.
//!
//! What counts is what would stand in a composer: letters, pastes, keys in either encoding. Moving about,
//! mouse and focus reports do not. A doubt counts as typing: taking back what was typed is not recognised.

/// What the bytes so far amount to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum InputState {
    #[default]
    Ground,
    /// After a backslash, which makes the next Enter a line break in several composers.
    Backslash,
    Escape,
    /// `ESC [`, with the numbers so far.
    Csi {
        first: u32,
        second: u32,
        field: u8,
    },
    /// `ESC O`.
    Ss3,
    /// A string that is an answer, up to its end.
    Answer,
    AnswerEscape,
}

/// Follows the input of a program.
#[derive(Debug, Default)]
pub(super) struct TypingWatch {
    state: InputState,
    pasting: bool,
    typed: bool,
    /// How often Enter was pressed, in any encoding.
    enters: u64,
}

/// A Kitty or xterm modifier parameter of 1 or 0 means none; Shift alone still types a letter.
const SHIFT_ONLY: u32 = 2;

impl TypingWatch {
    /// Whether something was typed since the last Enter.
    pub(super) const fn has_unsent(&self) -> bool {
        self.typed
    }

    /// How often Enter was pressed.
    pub(super) const fn enters(&self) -> u64 {
        self.enters
    }

    /// A line was sent by other means than a key.
    pub(super) const fn note_line_sent(&mut self) {
        *self = Self {
            state: InputState::Ground,
            pasting: false,
            typed: false,
            enters: self.enters.saturating_add(1),
        };
    }

    /// Something stands there that the bytes do not tell of.
    pub(super) const fn note_unsent(&mut self) {
        self.typed = true;
    }

    /// What was typed is seen not to stand there.
    pub(super) const fn forget_unsent(&mut self) {
        self.typed = false;
    }

    /// Looks at what goes to the program.
    pub(super) fn note_input(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.state = self.step(byte);
        }
    }

    const fn step(&mut self, byte: u8) -> InputState {
        match (self.state, byte) {
            (InputState::Escape, b'[') => InputState::Csi { first: 0, second: 0, field: 0 },
            (InputState::Escape, b'O') => InputState::Ss3,
            (InputState::Escape, b']' | b'P' | b'_' | b'^' | b'X') => InputState::Answer,
            (InputState::Escape, 0x1b) => InputState::Escape,
            (InputState::Escape, _) => {
                // Alt with a key; with Enter it is a line break.
                self.typed |= matches!(byte, b'\r' | b'\n');
                InputState::Ground
            }
            (InputState::Csi { first, second, field }, _) => self.csi(first, second, field, byte),
            (InputState::Ss3, _) => {
                // Enter of the keypad.
                if byte == b'M' {
                    self.typed = false;
                    self.enters = self.enters.saturating_add(1);
                }
                InputState::Ground
            }
            (InputState::Answer, 0x1b) => InputState::AnswerEscape,
            (InputState::Answer, 0x07) | (InputState::AnswerEscape, b'\\') => InputState::Ground,
            (InputState::Answer | InputState::AnswerEscape, _) => InputState::Answer,
            (_, 0x1b) => InputState::Escape,
            (state, b'\r') if !self.pasting => {
                self.typed = matches!(state, InputState::Backslash);
                self.enters = self.enters.saturating_add(1);
                InputState::Ground
            }
            // Ctrl+J is a line break in a composer, and Enter of a `run` in a shell, which has none.
            (_, b'\n') if !self.pasting => InputState::Ground,
            (_, b'\\') => {
                self.typed = true;
                InputState::Backslash
            }
            (_, b'\t' | 0x20..=0x7e | 0x80..=0xff) => {
                self.typed = true;
                InputState::Ground
            }
            (_, _) => {
                self.typed |= self.pasting;
                InputState::Ground
            }
        }
    }

    const fn csi(&mut self, first: u32, second: u32, field: u8, byte: u8) -> InputState {
        match byte {
            b'0'..=b'9' => {
                let digit = (byte - b'0') as u32;
                match field {
                    0 => InputState::Csi {
                        first: first.saturating_mul(10).saturating_add(digit),
                        second,
                        field,
                    },
                    1 => InputState::Csi {
                        first,
                        second: second.saturating_mul(10).saturating_add(digit),
                        field,
                    },
                    _ => InputState::Csi { first, second, field },
                }
            }
            b';' => InputState::Csi { first, second, field: field.saturating_add(1) },
            // Sub-parameters and private marks belong to what is no text.
            b':' | 0x20..=0x3f => {
                InputState::Csi { first, second, field: if field == 0 { 0 } else { 2 } }
            }
            b'u' => {
                match (first, second) {
                    (13 | 57414, 0 | 1) => {
                        self.typed = false;
                        self.enters = self.enters.saturating_add(1);
                    }
                    (13 | 57414, _) | (32.., 0..=SHIFT_ONLY) => self.typed = true,
                    _ => {}
                }
                InputState::Ground
            }
            b'~' => {
                match first {
                    200 => self.pasting = true,
                    201 => self.pasting = false,
                    _ => {}
                }
                InputState::Ground
            }
            0x1b => InputState::Escape,
            _ => InputState::Ground,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unsent(chunks: &[&[u8]]) -> bool {
        let mut watch = TypingWatch::default();
        chunks.iter().for_each(|chunk| watch.note_input(chunk));
        watch.has_unsent()
    }

    #[test]
    fn row_13_enter_is_counted_in_every_form_and_only_as_a_key() {
        for (bytes, expected) in [
            (b"half".as_slice(), 0),
            (b"one\r", 1),
            (b"\x1bOM", 1),
            (b"\x1b[13u", 1),
            (b"\x1b[200~two\rlines\x1b[201~", 0),
            (b"\x1b[I\x1b[?1u\x1b[?62c", 0),
        ] {
            let mut watch = TypingWatch::default();
            watch.note_input(bytes);
            assert_eq!(watch.enters(), expected, "{bytes:?}");
        }
    }

    #[test]
    fn row_15_what_was_typed_and_not_sent_is_known() {
        for (chunks, expected) in [
            (&[b"hal".as_slice(), b"f"] as &[&[u8]], true),
            (&[b"half\r"], false),
            (&[b"half\r", b"again"], true),
            (&[b"one\\\r"], true),
            (&[b"one\x1b\r"], true),
            (&[b"\x1b[A\x1b[B\x1bOC\x1b[I\x1b[O"], false),
            (&[b"\x1b[<0;10;10M"], false),
            (&[b"\x1b[20", b"0~one\rtwo\x1b[201~"], true),
            (&[b"\x1b[200~one\rtwo\x1b[201~", b"\r"], false),
            (&[b"\x1b[97u"], true),
            (&[b"\x1b[97;5u"], false),
            (&[b"a\x1b[13u"], false),
            (&[b"a\x1b[13;2u"], true),
            (&[b"\x1b]11;rgb:1/2/3\x1b\\"], false),
            (&["é".as_bytes()], true),
            (&[b"a\x7f"], true),
            (&[b"\x03"], false),
        ] {
            assert_eq!(unsent(chunks), expected, "{chunks:?}");
        }
    }
}
