//! Text to a JSON string, as fast as the log needs it.

/// Appends `text` as the inside of a JSON string.
pub(super) fn escape_json(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut rest = text.as_bytes();
    out.reserve(rest.len() + rest.len() / 8);
    while let Some(at) = first_special(rest) {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            byte => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 15)]);
            }
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Where the first byte is that cannot stand in a JSON string as it is.
fn first_special(bytes: &[u8]) -> Option<usize> {
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let found = special_bytes(u64::from_le_bytes(*word));
        if found != 0 {
            return Some(index * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let special = |byte: &u8| *byte < b' ' || matches!(*byte, b'"' | b'\\');
    tail.iter().position(special).map(|at| words.len() * 8 + at)
}

/// Eight bytes at once: the high bit of every byte that is a control, a quote or a backslash. The bytes
/// above the first of them may be marked wrongly, for a borrow; below it none is.
fn special_bytes(word: u64) -> u64 {
    bytes_below(word, b' ') | delimiter_bytes(word)
}

/// The same for quotes and backslashes alone.
fn delimiter_bytes(word: u64) -> u64 {
    let equal = |byte: u8| bytes_below(word ^ (ONES * u64::from(byte)), 1);
    equal(b'"') | equal(b'\\')
}

const ONES: u64 = u64::from_ne_bytes([1; 8]);

fn bytes_below(word: u64, bound: u8) -> u64 {
    const HIGH: u64 = ONES << 7;
    word.wrapping_sub(ONES * u64::from(bound)) & !word & HIGH
}

/// How many bytes are copied at once.
const COPY_SIZE: usize = 16;

/// Puts what the inside of a JSON string says, up to its closing quote, at the beginning of `out`, which
/// is made long enough and never shorter. Gives the lengths of the inside and of what it says, or `None`
/// when it is no such string.
pub(super) fn unescape_json(inside: &[u8], out: &mut Vec<u8>) -> Option<(usize, usize)> {
    // Nothing is longer than what stands for it, but pieces are put down whole.
    if out.len() < inside.len() + COPY_SIZE {
        out.resize(inside.len() + COPY_SIZE, 0);
    }
    let (mut at, mut to) = (0, 0);
    loop {
        let plain = copy_plain(&inside[at..], &mut out[to..]);
        (at, to) = (at + plain, to + plain);
        let byte = match (inside.get(at)?, inside.get(at + 1)) {
            (b'"', _) => return Some((at, to)),
            (_, Some(b'u')) => {
                let (c, length) = parse_unicode_escape(&inside[at + 2..])?;
                at += 2 + length;
                to += match u8::try_from(c).ok().filter(u8::is_ascii) {
                    // Nearly always: what full-screen programs write is half escapes.
                    Some(byte) => {
                        out[to] = byte;
                        1
                    }
                    None => c.encode_utf8(&mut out[to..]).len(),
                };
                continue;
            }
            (_, Some(b'n')) => b'\n',
            (_, Some(b'r')) => b'\r',
            (_, Some(b't')) => b'\t',
            (_, Some(b'b')) => 0x08,
            (_, Some(b'f')) => 0x0c,
            (_, Some(byte @ (b'"' | b'\\' | b'/'))) => *byte,
            _ => return None,
        };
        out[to] = byte;
        (at, to) = (at + 2, to + 1);
    }
}

/// Copies everything before the next quote or backslash, and gives its length. It is copied before it is
/// looked at: that costs less than a look and then a copy.
fn copy_plain(bytes: &[u8], out: &mut [u8]) -> usize {
    let (pieces, tail) = bytes.as_chunks::<COPY_SIZE>();
    let (places, _) = out.as_chunks_mut::<COPY_SIZE>();
    for (index, (piece, place)) in pieces.iter().zip(places).enumerate() {
        *place = *piece;
        let word = |half: usize| u64::from_le_bytes(piece.as_chunks::<8>().0[half]);
        let (low, high) = (delimiter_bytes(word(0)), delimiter_bytes(word(1)));
        if low | high != 0 {
            let bits = if low != 0 { low.trailing_zeros() } else { 64 + high.trailing_zeros() };
            return index * COPY_SIZE + bits as usize / 8;
        }
    }
    let at = tail.iter().position(|byte| matches!(byte, b'"' | b'\\')).unwrap_or(tail.len());
    let begins = pieces.len() * COPY_SIZE;
    out[begins..begins + at].copy_from_slice(&tail[..at]);
    begins + at
}

/// The character behind `\u`, and how many bytes name it.
fn parse_unicode_escape(text: &[u8]) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 4)?;
        digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
    };
    let first = unit(0)?;
    if !(0xd800..0xdc00).contains(&first) {
        return Some((char::from_u32(first)?, 4));
    }
    if text.get(4..6)? != b"\\u" {
        return None;
    }
    let second = unit(6)?.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
    Some((char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + second)?, 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_found_at_every_place() {
        for byte in 0..=u8::MAX {
            let special = byte < b' ' || byte == b'"' || byte == b'\\';
            for (at, around) in (0..20).flat_map(|at| [(at, b'x'), (at, b'!'), (at, 0xff)]) {
                let mut bytes = [around; 20];
                bytes[at] = byte;
                assert_eq!(first_special(&bytes), special.then_some(at), "{byte:#x} at {at}");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_escaped_is_json_and_comes_back(text: String) {
            let mut escaped = vec![b'"'];
            escape_json(&text, &mut escaped);
            escaped.push(b'"');
            proptest::prop_assert_eq!(&serde_json::from_slice::<String>(&escaped).unwrap(), &text);
            let mut back = Vec::new();
            let lengths = Some((escaped.len() - 2, text.len()));
            proptest::prop_assert_eq!(unescape_json(&escaped[1..], &mut back), lengths);
            proptest::prop_assert_eq!(&back[..text.len()], text.as_bytes());
        }

        #[test]
        fn other_writers_are_understood_too(text: String) {
            let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
            let mut back = vec![b'x'; 3];
            let (_, length) = unescape_json(format!("{escaped}\"").as_bytes(), &mut back).unwrap();
            proptest::prop_assert_eq!(&back[..length], text.as_bytes());
        }

        #[test]
        fn a_sign_is_no_digit(digits in "[+-][0-9a-f]{3}") {
            proptest::prop_assert_eq!(unescape_json(format!("\\u{digits}\"").as_bytes(), &mut Vec::new()), None);
        }

        #[test]
        fn garbage_is_refused_and_never_panics(bytes: Vec<u8>) {
            unescape_json(&bytes, &mut Vec::new());
        }
    }
}
