//! Keys by name, as the bytes that the program expects for them.
//!
//! What a key looks like depends on the modes the program set: application cursor keys, the Kitty
//! keyboard protocol, mouse reporting. Under the agent-tty name none of that is looked at and only its
//! spellings are taken, because programs were scripted against exactly those bytes.

mod encode;
mod mouse;
mod name;

use crate::contract::Personality;
use crate::term::modes::Modes;

/// The keys that have a name in both personalities, with their spelling.
pub const NAMES: &[&str] = name::NAMES;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("`{key}` is not a key: it is neither a name nor one character")]
    Unknown { key: String },
    #[error("`{key}` names the modifier {modifier} twice")]
    Twice { key: String, modifier: &'static str },
    #[error("`{key}` cannot be typed into this program: {reason}")]
    NoBytes { key: String, reason: &'static str },
}

/// The bytes of one key, for example `Enter`, `Ctrl+c`, `C-c`, `Alt+Shift+Left` or `Click@10,4`.
pub fn encode_key(key: &str, modes: &Modes, personality: Personality) -> Result<Vec<u8>, KeyError> {
    let no_bytes = |reason| KeyError::NoBytes { key: key.to_owned(), reason };
    if personality == Personality::AgentTty {
        let press = name::parse_key_strictly(key)?;
        return encode::encode_legacy(&press, &Modes::default(), personality).map_err(no_bytes);
    }
    if let Some(event) = mouse::parse_mouse(key) {
        return mouse::encode_mouse(&event, modes).map_err(no_bytes);
    }
    let press = name::parse_key(key)?;
    if modes.kitty_keyboard & (encode::DISAMBIGUATE | encode::ALL_KEYS) != 0 {
        return Ok(encode::encode_kitty(&press, modes.kitty_keyboard));
    }
    encode::encode_legacy(&press, modes, personality).map_err(no_bytes)
}

/// Text as a terminal pastes it. Inside brackets the closing bracket is taken out of the text, so that
/// pasted text can never pass for typed text.
pub fn encode_paste(text: &str, bracketed: bool) -> Vec<u8> {
    const END: &str = "\x1b[201~";
    if !bracketed {
        return text.as_bytes().to_vec();
    }
    let mut text = text.to_owned();
    while text.contains(END) {
        text = text.replace(END, "");
    }
    format!("\x1b[200~{text}{END}").into_bytes()
}

/// A key that goes down, with the modifiers held.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Press {
    key: Key,
    mods: Mods,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Key {
    Enter,
    Tab,
    Escape,
    Backspace,
    /// `CSI 1 ; m letter`: cursor keys, Home, End.
    Cursor(char),
    /// `CSI number ; m ~`: Insert, Delete, PageUp, PageDown.
    Edit(u8),
    Function(u8),
    /// One grapheme of text, a space included.
    Text(String),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Mods(u8);

impl Mods {
    const SHIFT: Mods = Mods(1);
    const ALT: Mods = Mods(2);
    const CTRL: Mods = Mods(4);
    const SUPER: Mods = Mods(8);
    const HYPER: Mods = Mods(16);
    const META: Mods = Mods(32);

    fn has(self, other: Mods) -> bool {
        self.0 & other.0 != 0
    }

    fn with(self, other: Mods) -> Mods {
        Mods(self.0 | other.0)
    }

    /// The number that stands for the modifiers in a sequence.
    fn csi_parameter(self) -> u8 {
        1 + self.0
    }
}

#[cfg(test)]
mod tests;
