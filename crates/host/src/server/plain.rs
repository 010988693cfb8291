//! Plain text of a terminal's output: escape sequences are dropped, nothing is emulated.

/// One step through output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlainStep {
    /// A byte that is shown, or a line break.
    Text,
    /// A carriage return or backspace.
    Move,
    /// An escape sequence of that many bytes; `mode` when it sets or resets a private mode.
    Escape { length: usize, mode: bool },
    /// An escape sequence whose end has not come yet.
    Incomplete,
}

/// What the output says next. `bytes` is not empty.
pub(super) fn next_step(bytes: &[u8]) -> PlainStep {
    match bytes[0] {
        b'\r' | 0x08 | 0x07 | 0x0e | 0x0f => PlainStep::Move,
        0x1b => skip_escape(bytes),
        _ => PlainStep::Text,
    }
}

fn skip_escape(bytes: &[u8]) -> PlainStep {
    let Some(kind) = bytes.get(1) else { return PlainStep::Incomplete };
    let done = |length, mode| PlainStep::Escape { length, mode };
    match kind {
        b'[' => match bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte)) {
            Some(at) => done(at + 3, bytes[2] == b'?' && matches!(bytes[at + 2], b'h' | b'l')),
            None => PlainStep::Incomplete,
        },
        b']' | b'P' | b'_' | b'^' | b'X' => {
            let body = &bytes[2..];
            let bell = memchr::memchr(0x07, body).filter(|_| *kind == b']');
            let string_end = memchr::memmem::find(body, b"\x1b\\");
            match (bell, string_end) {
                (Some(bell), Some(end)) if end < bell => done(end + 4, false),
                (Some(bell), _) => done(bell + 3, false),
                (None, Some(end)) => done(end + 4, false),
                (None, None) => PlainStep::Incomplete,
            }
        }
        b'(' | b')' | b'*' | b'+' | b'#' | b'%' => match bytes.len() {
            2 => PlainStep::Incomplete,
            _ => done(3, false),
        },
        _ => done(2, false),
    }
}

/// The text alone.
pub(crate) fn strip_sequences(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match next_step(&bytes[at..]) {
            PlainStep::Text => {
                out.push(bytes[at]);
                at += 1;
            }
            PlainStep::Move => at += 1,
            PlainStep::Escape { length, .. } => at += length,
            PlainStep::Incomplete => break,
        }
    }
    out
}

/// The sequences that set and reset private modes, alone.
pub(super) fn mode_sequences(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match next_step(&bytes[at..]) {
            PlainStep::Text | PlainStep::Move => at += 1,
            PlainStep::Escape { length, mode } => {
                if mode {
                    out.extend_from_slice(&bytes[at..at + length]);
                }
                at += length;
            }
            PlainStep::Incomplete => break,
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_left_out() {
        let bytes = b"\x1b]0;title\x07\x1b[1;32muser\x1b[0m:\x1b]8;;x\x1b\\~\x1b(B$ \x1b[?2004h\r";
        assert_eq!(strip_sequences(bytes), b"user:~$ ");
        assert_eq!(mode_sequences(bytes), b"\x1b[?2004h");
        assert_eq!(strip_sequences(b"end\x1b[3"), b"end");
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(bytes: Vec<u8>) {
            strip_sequences(&bytes);
            mode_sequences(&bytes);
        }
    }
}
