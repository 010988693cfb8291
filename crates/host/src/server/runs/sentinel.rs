//! The sentinel of a run and the echo of its line, recognised byte by byte.

use crate::server::plain::{self, PlainStep};

/// How many characters of a line that ends at the margin may come again.
const LONGEST_REPAINT: usize = 8;

/// Whether something was found.
pub(super) enum Found<T> {
    Yes(usize, T),
    /// It may be, once more is there.
    Perhaps,
    No,
}

/// `ESC _os:TOKEN:CODE ESC \`.
pub(super) fn match_sentinel(bytes: &[u8], token: &str) -> Found<Option<i32>> {
    let head = format!("\x1b_os:{token}:");
    let head = head.as_bytes();
    if bytes.len() < head.len() {
        return if head.starts_with(bytes) { Found::Perhaps } else { Found::No };
    }
    let Some(rest) = bytes.strip_prefix(head) else { return Found::No };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match &rest[digits..] {
        [] | [0x1b] if digits <= 10 => Found::Perhaps,
        [0x1b, b'\\', ..] => {
            let exit = std::str::from_utf8(&rest[..digits]).ok().and_then(|text| text.parse().ok());
            Found::Yes(head.len() + digits + 2, exit)
        }
        _ => Found::No,
    }
}

/// The line as the terminal or a line editor echoes it: with a wrap at the margin, and with the
/// sequences a line editor needs; up to and with the line break.
pub(super) fn match_echo(bytes: &[u8], line: &[u8]) -> Found<Vec<u8>> {
    let (mut at, mut matched) = (0, 0);
    let mut kept = Vec::new();
    // A line that ends at the margin is repainted: its last characters come once more.
    let mut repainted = Vec::new();
    while at < bytes.len() {
        if matched < line.len() && bytes[at] == line[matched] {
            at += 1;
            matched += 1;
            continue;
        }
        if matched == line.len() && bytes[at] == b'\n' {
            let same = line.ends_with(&repainted);
            return if same { Found::Yes(at + 1, kept) } else { Found::No };
        }
        match (plain::next_step(&bytes[at..]), bytes[at]) {
            (PlainStep::Move, _) => at += 1,
            (PlainStep::Escape { length, mode }, _) if bytes[at + 1] == b'[' => {
                if mode {
                    kept.extend_from_slice(&bytes[at..at + length]);
                }
                at += length;
            }
            (PlainStep::Incomplete, _) => return Found::Perhaps,
            (PlainStep::Text, b' ') => match bytes.get(at + 1) {
                None => return Found::Perhaps,
                Some(b'\r') => at += 2,
                Some(_) => return Found::No,
            },
            (PlainStep::Text, byte)
                if matched == line.len() && repainted.len() < LONGEST_REPAINT =>
            {
                repainted.push(byte);
                at += 1;
            }
            _ => return Found::No,
        }
    }
    Found::Perhaps
}

/// How many bytes of moves and mode changes come first; `None` when more may follow.
pub(super) fn skip_noise(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < bytes.len() {
        match plain::next_step(&bytes[at..]) {
            PlainStep::Move => at += 1,
            PlainStep::Escape { length, mode: true } => at += length,
            PlainStep::Escape { .. } | PlainStep::Text => return Some(at),
            PlainStep::Incomplete if bytes[at..].starts_with(b"\x1b_") => return Some(at),
            PlainStep::Incomplete => return None,
        }
    }
    // What is not there yet cannot be noise.
    if at == 0 { Some(0) } else { None }
}
