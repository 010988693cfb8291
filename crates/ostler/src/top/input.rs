//! The keyboard and the mouse: a parser from a terminal's bytes to keys, pastes and clicks.
//!
//! It holds back what may be the beginning of a sequence; a lone Escape is told by [`TopInputParser::flush_held`], a
//! moment later. What it does not know is dropped: a terminal's reply must never act as a key.

/// A key without its modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum TopKeyCode {
    Char(char),
    Enter,
    Tab,
    /// Tab with Shift.
    BackTab,
    Escape,
    Backspace,
    Delete,
    Insert,
    Function(u8),
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
}

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TopKey {
    pub(crate) code: TopKeyCode,
    pub(crate) ctrl: bool,
    pub(crate) alt: bool,
    /// Told for keys that write nothing; a letter has it in itself.
    pub(crate) shift: bool,
}

impl TopKey {
    /// The key alone.
    pub(crate) const fn plain(code: TopKeyCode) -> Self {
        Self { code, ctrl: false, alt: false, shift: false }
    }

    pub(crate) const fn ctrl(letter: char) -> Self {
        Self { ctrl: true, ..Self::plain(TopKeyCode::Char(letter)) }
    }

    /// As settings and the help write it: `n`, `Enter`, `Ctrl-c`, `Alt-Enter`.
    pub(crate) fn name(self) -> String {
        let code = match self.code {
            TopKeyCode::Char(' ') => "Space".to_owned(),
            TopKeyCode::Char(letter) => letter.to_string(),
            TopKeyCode::Escape => "Esc".to_owned(),
            TopKeyCode::PageUp => "PgUp".to_owned(),
            TopKeyCode::PageDown => "PgDn".to_owned(),
            TopKeyCode::BackTab => "Shift-Tab".to_owned(),
            TopKeyCode::Function(number) => format!("F{number}"),
            other => format!("{other:?}"),
        };
        let ctrl = if self.ctrl { "Ctrl-" } else { "" };
        let alt = if self.alt { "Alt-" } else { "" };
        let shift = if self.shift { "Shift-" } else { "" };
        format!("{ctrl}{alt}{shift}{code}")
    }

    /// Reads what [`Self::name`] writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix("Ctrl-") {
            return Some(Self { ctrl: true, ..Self::parse(rest)? });
        }
        if let Some(rest) = text.strip_prefix("Alt-") {
            return Some(Self { alt: true, ..Self::parse(rest)? });
        }
        use TopKeyCode::*;
        if let Some(rest) = text.strip_prefix("Shift-").filter(|rest| *rest != "Tab") {
            let pressed = Self::parse(rest)?;
            // What a terminal does not tell cannot be bound.
            let writes =
                matches!(pressed.code, Char(_) | Enter | Tab | BackTab | Escape | Backspace);
            return (!writes).then_some(Self { shift: true, ..pressed });
        }
        let code = match text {
            "Space" => Char(' '),
            "Esc" => Escape,
            "PgUp" => PageUp,
            "PgDn" => PageDown,
            "Enter" => Enter,
            "Tab" => Tab,
            "Shift-Tab" => BackTab,
            "Backspace" => Backspace,
            "Delete" => Delete,
            "Insert" => Insert,
            "Up" => Up,
            "Down" => Down,
            "Left" => Left,
            "Right" => Right,
            "Home" => Home,
            "End" => End,
            other => {
                let number = other.strip_prefix('F').and_then(|number| number.parse().ok());
                if let Some(number @ 1..=12) = number {
                    return Some(Self::plain(Function(number)));
                }
                let mut letters = other.chars();
                match (letters.next(), letters.next()) {
                    (Some(letter), None) if !letter.is_control() => Char(letter),
                    _ => return None,
                }
            }
        };
        Some(Self::plain(code))
    }

    /// The key without Alt, if it came as Escape and that key: on the wire the two are the same. Keys that
    /// have sequences of their own say Alt in them.
    pub(crate) fn behind_escape(self) -> Option<Self> {
        use TopKeyCode::{Backspace, Char, Enter, Tab};
        let can_follow = matches!(self.code, Char(_) | Enter | Tab | Backspace);
        (self.alt && can_follow).then_some(Self { alt: false, ..self })
    }

    /// As `send-keys` names it, so that the terminal's own modes decide its bytes.
    pub(crate) fn send_name(self) -> String {
        let code = match self.code {
            TopKeyCode::Char(' ') => "Space".to_owned(),
            TopKeyCode::Char(letter) => letter.to_string(),
            TopKeyCode::BackTab => "Shift+Tab".to_owned(),
            TopKeyCode::Function(number) => format!("F{number}"),
            other => format!("{other:?}"),
        };
        let ctrl = if self.ctrl { "Ctrl+" } else { "" };
        let alt = if self.alt { "Alt+" } else { "" };
        let shift = if self.shift { "Shift+" } else { "" };
        format!("{ctrl}{alt}{shift}{code}")
    }
}

/// What the mouse did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TopMouseDoes {
    Press,
    Drag,
    Release,
    WheelUp,
    WheelDown,
}

/// The mouse, at a place counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TopMouse {
    pub(crate) does: TopMouseDoes,
    pub(crate) column: u16,
    pub(crate) row: u16,
}

/// What came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TopInput {
    Key(TopKey),
    Mouse(TopMouse),
    Paste(String),
    /// A paste longer than [`MAX_PASTE_BYTES`]: half of one may mean something else, so nothing is kept.
    PasteTooLong,
}

/// How much may be pasted at once.
pub(crate) const MAX_PASTE_BYTES: usize = 8 << 20;

/// The longest sequence that is waited for.
const MAX_SEQUENCE_BYTES: usize = 64;

const PASTE_BEGIN: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

/// Bytes in, keys out.
#[derive(Debug, Default)]
pub(crate) struct TopInputParser {
    held: Vec<u8>,
    pasted: Option<PasteInProgress>,
}

/// A paste whose end has not come yet.
#[derive(Debug, Default)]
struct PasteInProgress {
    bytes: Vec<u8>,
    is_too_long: bool,
}

/// How a beginning reads.
enum Reading {
    /// So many bytes, and what they are; none if nothing.
    Whole(usize, Option<TopInput>),
    /// More bytes are needed.
    Partial,
}

impl TopInputParser {
    /// Whether something is held back that is a key of its own if nothing follows. `ESC [` is not: it
    /// begins a paste, whose rest comes however slow the line is, and must not be read as keys; nor is half
    /// a letter behind Escape.
    pub(crate) fn is_holding(&self) -> bool {
        match self.held.as_slice() {
            [0x1b] => self.pasted.is_none(),
            [0x1b, next] => self.pasted.is_none() && b"O]P_^".contains(next),
            _ => false,
        }
    }

    /// Parses bytes of the terminal into keys; what may go on waits for more.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<TopInput> {
        self.held.extend_from_slice(bytes);
        let mut told = Vec::new();
        while !self.held.is_empty() {
            if self.pasted.is_some() {
                if !self.take_pasted(&mut told) {
                    break;
                }
                continue;
            }
            if self.held.starts_with(PASTE_BEGIN) {
                self.held.drain(..PASTE_BEGIN.len());
                self.pasted = Some(PasteInProgress::default());
                continue;
            }
            // What lies beyond a sequence that never ends is read, in however many pieces it came.
            let within = self.held.len().min(MAX_SEQUENCE_BYTES);
            match read_input(&self.held[..within]) {
                Reading::Whole(count, input) => {
                    self.held.drain(..count);
                    told.extend(input);
                }
                Reading::Partial if within < MAX_SEQUENCE_BYTES => break,
                Reading::Partial => {
                    self.held.drain(..MAX_SEQUENCE_BYTES);
                }
            }
        }
        told
    }

    /// Takes what is held as it is: an Escape that nothing followed.
    pub(crate) fn flush_held(&mut self) -> Vec<TopInput> {
        if !self.is_holding() {
            return Vec::new();
        }
        let held = std::mem::take(&mut self.held);
        match held.as_slice() {
            [0x1b] => vec![TopInput::Key(TopKey::plain(TopKeyCode::Escape))],
            [0x1b, byte] if *byte >= b' ' && *byte < 0x7f => {
                let code = TopKeyCode::Char(char::from(*byte));
                vec![TopInput::Key(TopKey { alt: true, ..TopKey::plain(code) })]
            }
            _ => Vec::new(),
        }
    }

    /// Takes what belongs to a paste; says whether its end has come.
    fn take_pasted(&mut self, told: &mut Vec<TopInput>) -> bool {
        let end = self.held.windows(PASTE_END.len()).position(|window| window == PASTE_END);
        let kept = match end {
            Some(end) => end,
            // The end may be cut in two.
            None => self.held.len().saturating_sub(PASTE_END.len() - 1),
        };
        let part: Vec<u8> = self.held.drain(..kept).collect();
        if let Some(pasted) = &mut self.pasted {
            pasted.is_too_long |= pasted.bytes.len() + part.len() > MAX_PASTE_BYTES;
            match pasted.is_too_long {
                true => pasted.bytes.clear(),
                false => pasted.bytes.extend_from_slice(&part),
            }
        }
        if end.is_some() {
            self.held.drain(..PASTE_END.len());
            let pasted = self.pasted.take().unwrap_or_default();
            told.push(match pasted.is_too_long {
                true => TopInput::PasteTooLong,
                false => TopInput::Paste(String::from_utf8_lossy(&pasted.bytes).into_owned()),
            });
        }
        end.is_some()
    }
}

fn key(code: TopKeyCode) -> Option<TopInput> {
    Some(TopInput::Key(TopKey::plain(code)))
}

fn read_input(bytes: &[u8]) -> Reading {
    match bytes {
        [0x1b] => Reading::Partial,
        [0x1b, b'[', rest @ ..] => read_control_sequence(rest),
        [0x1b, b'O'] => Reading::Partial,
        [0x1b, b'O', letter @ b'P'..=b'S', ..] => {
            Reading::Whole(3, key(TopKeyCode::Function(letter - b'P' + 1)))
        }
        [0x1b, b'O', letter, ..] => Reading::Whole(3, arrow(*letter).and_then(key)),
        // What a terminal answers (OSC, DCS, APC) ends with ST or BEL.
        [0x1b, b']' | b'P' | b'_' | b'^', rest @ ..] => read_string(rest),
        [0x1b, 0x1b, ..] => Reading::Whole(1, key(TopKeyCode::Escape)),
        [0x1b, rest @ ..] => match read_input(rest) {
            Reading::Whole(count, Some(TopInput::Key(pressed))) => {
                Reading::Whole(count + 1, Some(TopInput::Key(TopKey { alt: true, ..pressed })))
            }
            Reading::Whole(count, other) => Reading::Whole(count + 1, other),
            Reading::Partial => Reading::Partial,
        },
        [b'\r' | b'\n', ..] => Reading::Whole(1, key(TopKeyCode::Enter)),
        [b'\t', ..] => Reading::Whole(1, key(TopKeyCode::Tab)),
        [0x7f | 0x08, ..] => Reading::Whole(1, key(TopKeyCode::Backspace)),
        [0, ..] => Reading::Whole(1, Some(TopInput::Key(TopKey::ctrl(' ')))),
        [byte @ 1..=0x1a, ..] => {
            let letter = char::from(byte - 1 + b'a');
            Reading::Whole(1, Some(TopInput::Key(TopKey::ctrl(letter))))
        }
        [byte @ 0x1c..=0x1f, ..] => {
            let letter = char::from(byte + 0x40);
            Reading::Whole(1, Some(TopInput::Key(TopKey::ctrl(letter))))
        }
        _ => read_letter(bytes),
    }
}

fn read_letter(bytes: &[u8]) -> Reading {
    let length = match bytes.first() {
        Some(0x00..=0x7f) => 1,
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => return Reading::Whole(1, None),
    };
    let Some(letter) = bytes.get(..length) else { return Reading::Partial };
    match std::str::from_utf8(letter).ok().and_then(|text| text.chars().next()) {
        Some(letter) if !letter.is_control() => {
            Reading::Whole(length, key(TopKeyCode::Char(letter)))
        }
        _ => Reading::Whole(1, None),
    }
}

/// A string of the terminal's own, after its introducer: nothing of it is a key.
fn read_string(rest: &[u8]) -> Reading {
    let bell = rest.iter().position(|byte| *byte == 0x07).map(|at| at + 1);
    let end = rest.windows(2).position(|pair| pair == b"\x1b\\").map(|at| at + 2);
    match bell.into_iter().chain(end).min() {
        Some(end) => Reading::Whole(2 + end, None),
        None => Reading::Partial,
    }
}

/// After `ESC [`.
fn read_control_sequence(rest: &[u8]) -> Reading {
    let Some(end) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        return Reading::Partial;
    };
    let (parameters, last, whole) = (&rest[..end], rest[end], end + 3);
    if let Some(report) = parameters.strip_prefix(b"<") {
        return Reading::Whole(whole, read_mouse(report, last == b'M').map(TopInput::Mouse));
    }
    let numbers: Vec<u16> =
        parameters.split(|byte| *byte == b';').map(|part| decimal(part).unwrap_or(0)).collect();
    let code = match last {
        b'~' => match numbers.first() {
            Some(1 | 7) => Some(TopKeyCode::Home),
            Some(2) => Some(TopKeyCode::Insert),
            Some(3) => Some(TopKeyCode::Delete),
            Some(4 | 8) => Some(TopKeyCode::End),
            Some(5) => Some(TopKeyCode::PageUp),
            Some(6) => Some(TopKeyCode::PageDown),
            Some(number) => function_key(*number),
            _ => None,
        },
        b'Z' => Some(TopKeyCode::BackTab),
        // F1 to F4 with a key held. `R` is also how a terminal says where its cursor is: nobody asks here.
        letter @ b'P'..=b'S' if matches!(numbers[..], [1, 2..=8]) => {
            Some(TopKeyCode::Function(letter - b'P' + 1))
        }
        letter => arrow(letter),
    };
    let held = numbers.get(1).copied().unwrap_or(1).saturating_sub(1);
    let pressed = code.map(|code| {
        let shift = held & 1 != 0 && code != TopKeyCode::BackTab;
        TopInput::Key(TopKey { code, ctrl: held & 4 != 0, alt: held & 2 != 0, shift })
    });
    Reading::Whole(whole, pressed)
}

/// `CSI number ~`, as the VT220 numbered its keys.
fn function_key(number: u16) -> Option<TopKeyCode> {
    let place = match number {
        11..=15 => number - 10,
        17..=21 => number - 11,
        23 | 24 => number - 12,
        _ => return None,
    };
    u8::try_from(place).ok().map(TopKeyCode::Function)
}

fn arrow(letter: u8) -> Option<TopKeyCode> {
    Some(match letter {
        b'A' => TopKeyCode::Up,
        b'B' => TopKeyCode::Down,
        b'C' => TopKeyCode::Right,
        b'D' => TopKeyCode::Left,
        b'H' => TopKeyCode::Home,
        b'F' => TopKeyCode::End,
        b'M' => TopKeyCode::Enter,
        _ => return None,
    })
}

fn decimal(digits: &[u8]) -> Option<u16> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// A report of the mouse: `button;column;row`, counted from 1.
fn read_mouse(report: &[u8], is_press: bool) -> Option<TopMouse> {
    let mut parts = report.split(|byte| *byte == b';').map(decimal);
    let (button, column, row) = (parts.next()??, parts.next()??, parts.next()??);
    let does = match button {
        64 => TopMouseDoes::WheelUp,
        65 => TopMouseDoes::WheelDown,
        0 if is_press => TopMouseDoes::Press,
        0 => TopMouseDoes::Release,
        32 => TopMouseDoes::Drag,
        _ => return None,
    };
    Some(TopMouse { does, column: column.checked_sub(1)?, row: row.checked_sub(1)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(bytes: &[u8]) -> Vec<String> {
        let mut parser = TopInputParser::default();
        let mut told = parser.feed(bytes);
        told.extend(parser.flush_held());
        let name = |input: TopInput| match input {
            TopInput::Key(pressed) => pressed.name(),
            other => format!("{other:?}"),
        };
        told.into_iter().map(name).collect()
    }

    #[test]
    fn keys_have_their_names() {
        assert_eq!(
            names(b"n\x1b[A\x1bOB\x1b[5~\r\t "),
            ["n", "Up", "Down", "PgUp", "Enter", "Tab", "Space"]
        );
        assert_eq!(names(b"\x03\x1b\x0d\x1d\x1bx"), ["Ctrl-c", "Alt-Enter", "Ctrl-]", "Alt-x"]);
        assert_eq!(names("é漢".as_bytes()), ["é", "漢"]);
        assert_eq!(names(b"\x1b"), ["Esc"]);
        assert_eq!(names(b"\x1b[Z\x1bOP\x1b[24~\x1b[2~"), ["Shift-Tab", "F1", "F12", "Insert"]);
        assert_eq!(
            names(b"\x1b[1;2A\x1b[1;6D\x1b[1;2P\x1b[1;5S\x1b[15;2~\x1b[3;4~"),
            ["Shift-Up", "Ctrl-Shift-Left", "Shift-F1", "Ctrl-F4", "Shift-F5", "Alt-Shift-Delete"]
        );
        let names_of_keys = ["n", "Enter", "Ctrl-c", "Alt-Enter", "Esc", "PgDn", "Space", "Ctrl-]"];
        for name in
            names_of_keys.into_iter().chain(["Shift-Tab", "F5", "F", "Shift-F5", "Ctrl-Shift-Up"])
        {
            assert_eq!(TopKey::parse(name).unwrap().name(), name);
        }
        assert_eq!(TopKey::parse("Hyper-x"), None);
        assert_eq!(TopKey::parse("Shift-x"), None, "it is X");
    }

    #[test]
    fn what_a_terminal_answers_is_no_key() {
        assert_eq!(names(b"\x1b[?62;1c\x1b]11;rgb:0/0/0\x07\x1b[3;1R\x1bP>|x\x1b\\q"), ["q"]);
    }

    #[test]
    fn a_paste_is_one_thing_and_the_mouse_is_another() {
        let told = names(b"\x1b[200~a\x1b[201\nq\x1b[201~\x1b[<0;3;2M");
        assert_eq!(told[0], r#"Paste("a\u{1b}[201\nq")"#);
        assert_eq!(told[1], "Mouse(TopMouse { does: Press, column: 2, row: 1 })");
    }

    #[test]
    fn a_sequence_that_comes_in_pieces_is_never_keys() {
        let mut parser = TopInputParser::default();
        let mut told = Vec::new();
        // A slow line: each piece may take longer than an Escape is waited for.
        for part in ["\x1b[", "2", "0", "0", "~", "rm -rf\r", "q", "\x1b", "[", "201~"] {
            told.extend(parser.feed(part.as_bytes()));
            told.extend(parser.flush_held());
        }
        assert_eq!(told, [TopInput::Paste("rm -rf\rq".to_owned())]);
    }

    #[test]
    fn half_a_letter_behind_escape_is_waited_for() {
        let mut parser = TopInputParser::default();
        let mut told = parser.feed(b"\x1b\xc3");
        told.extend(parser.flush_held());
        assert_eq!(told, []);
        told.extend(parser.feed(b"\xa9"));
        let pressed = TopKey { alt: true, ..TopKey::plain(TopKeyCode::Char('é')) };
        assert_eq!(told, [TopInput::Key(pressed)]);
    }

    #[test]
    fn a_paste_is_whole_or_not_there() {
        let paste = |size: usize| {
            let mut parser = TopInputParser::default();
            let mut told = parser.feed(PASTE_BEGIN);
            for part in vec![b'x'; size].chunks(4096) {
                told.extend(parser.feed(part));
            }
            told.extend(parser.feed(b"\x1b[201~q"));
            told
        };
        let q = TopInput::Key(TopKey::plain(TopKeyCode::Char('q')));
        let whole = TopInput::Paste("x".repeat(MAX_PASTE_BYTES));
        assert!(paste(MAX_PASTE_BYTES) == [whole, q.clone()]);
        assert!(paste(MAX_PASTE_BYTES + 1) == [TopInput::PasteTooLong, q]);
    }

    #[test]
    fn what_comes_behind_a_string_without_an_end_is_read_whole_or_in_pieces() {
        let mut bytes = b"\x1b]".to_vec();
        bytes.resize(MAX_SEQUENCE_BYTES, b'x');
        bytes.extend(b"qu");
        let whole = TopInputParser::default().feed(&bytes);
        let mut parser = TopInputParser::default();
        let parts: Vec<TopInput> = bytes.iter().flat_map(|byte| parser.feed(&[*byte])).collect();
        let typed = ['q', 'u'].map(|letter| key(TopKeyCode::Char(letter)).unwrap());
        assert_eq!((whole, parts), (typed.to_vec(), typed.to_vec()));
    }

    proptest::proptest! {
        #[test]
        fn the_cut_changes_nothing_and_garbage_never_panics(bytes: Vec<u8>, cut in 1usize..5) {
            let whole = TopInputParser::default().feed(&bytes);
            let mut parser = TopInputParser::default();
            let parts: Vec<TopInput> = bytes.chunks(cut).flat_map(|part| parser.feed(part)).collect();
            proptest::prop_assert_eq!(whole, parts);
        }
    }
}
