//! Keys as bytes: the way of xterm, and the Kitty keyboard protocol.

use super::{Key, Mods, Press};
use crate::contract::Personality;
use crate::term::modes::Modes;

pub(super) const DISAMBIGUATE: u8 = 1;
const ALTERNATE_KEYS: u8 = 4;
pub(super) const ALL_KEYS: u8 = 8;
const TEXT: u8 = 16;

const NEEDS_KITTY: &str =
    "it has a byte sequence only in the Kitty keyboard protocol, which the program did not ask for";
const LAYOUT: &str = "what it types depends on a keyboard's layout; give the character itself";

pub(super) fn encode_legacy(
    press: &Press,
    modes: &Modes,
    personality: Personality,
) -> Result<Vec<u8>, &'static str> {
    let Press { key, mods } = press;
    if mods.has(Mods::SUPER) || mods.has(Mods::HYPER) || mods.has(Mods::META) {
        return Err(NEEDS_KITTY);
    }
    let plain = *mods == Mods::default();
    Ok(match key {
        Key::Cursor(letter) if plain && modes.application_cursor => {
            format!("\x1bO{letter}").into_bytes()
        }
        Key::Cursor(letter) => with_letter(*letter, *mods),
        Key::Edit(number) => with_number(*number, *mods),
        Key::Function(number @ 1..=4) if plain => vec![0x1b, b'O', b'P' + number - 1],
        Key::Function(number @ 1..=4) => with_letter(char::from(b'P' + number - 1), *mods),
        Key::Function(number) => with_number(function_number(*number).ok_or(NEEDS_KITTY)?, *mods),
        Key::Tab if *mods == Mods::SHIFT => b"\x1b[Z".to_vec(),
        Key::Tab => encode_control(b'\t', 9, *mods, modes)?,
        Key::Enter => encode_control(b'\r', 13, *mods, modes)?,
        Key::Escape => encode_control(0x1b, 27, *mods, modes)?,
        Key::Backspace if mods.has(Mods::CTRL) && !mods.has(Mods::SHIFT) => {
            prefix_alt(vec![0x08], *mods)
        }
        Key::Backspace => encode_control(0x7f, 127, *mods, modes)?,
        Key::Text(text) => prefix_alt(encode_typed(text, *mods, modes, personality)?, *mods),
    })
}

/// A key that is one control byte; `Alt` goes before it, other modifiers have no place.
fn encode_control(byte: u8, code: u32, mods: Mods, modes: &Modes) -> Result<Vec<u8>, &'static str> {
    if !mods.has(Mods::CTRL) && !mods.has(Mods::SHIFT) {
        return Ok(prefix_alt(vec![byte], mods));
    }
    encode_other_key(code, mods, modes).ok_or(NEEDS_KITTY)
}

/// xterm's `modifyOtherKeys`, for keys that have no other spelling.
fn encode_other_key(code: u32, mods: Mods, modes: &Modes) -> Option<Vec<u8>> {
    (modes.modify_other_keys > 0)
        .then(|| format!("\x1b[27;{};{code}~", mods.csi_parameter()).into_bytes())
}

fn prefix_alt(mut bytes: Vec<u8>, mods: Mods) -> Vec<u8> {
    if mods.has(Mods::ALT) {
        bytes.insert(0, 0x1b);
    }
    bytes
}

fn encode_typed(
    text: &str,
    mods: Mods,
    modes: &Modes,
    personality: Personality,
) -> Result<Vec<u8>, &'static str> {
    let only = only_char(text);
    if mods.has(Mods::CTRL) {
        let byte = only.and_then(|c| control_byte(c, personality));
        let other = || only.and_then(|c| encode_other_key(c as u32, mods, modes));
        return byte.map(|byte| vec![byte]).or_else(other).ok_or(NEEDS_KITTY);
    }
    if mods.has(Mods::SHIFT) {
        let letter = only.filter(|c| c.is_alphabetic()).ok_or(LAYOUT)?;
        return Ok(letter.to_uppercase().to_string().into_bytes());
    }
    Ok(text.as_bytes().to_vec())
}

fn control_byte(c: char, personality: Personality) -> Option<u8> {
    Some(match c {
        'a'..='z' | 'A'..='Z' => c as u8 & 0x1f,
        ' ' | '@' => 0,
        '[' => 0x1b,
        '\\' => 0x1c,
        ']' => 0x1d,
        '^' => 0x1e,
        '_' => 0x1f,
        '?' => 0x7f,
        '/' if personality == Personality::Ostler => 0x1f,
        _ => return None,
    })
}

fn only_char(text: &str) -> Option<char> {
    let mut chars = text.chars();
    let first = chars.next()?;
    chars.next().is_none().then_some(first)
}

fn with_letter(letter: char, mods: Mods) -> Vec<u8> {
    match mods.csi_parameter() {
        1 => format!("\x1b[{letter}").into_bytes(),
        mods => format!("\x1b[1;{mods}{letter}").into_bytes(),
    }
}

fn with_number(number: u8, mods: Mods) -> Vec<u8> {
    match mods.csi_parameter() {
        1 => format!("\x1b[{number}~").into_bytes(),
        mods => format!("\x1b[{number};{mods}~").into_bytes(),
    }
}

/// The number of a function key in `CSI number ~`; there are gaps for reasons of the VT220.
fn function_number(key: u8) -> Option<u8> {
    const NUMBERS: [u8; 16] = [15, 17, 18, 19, 20, 21, 23, 24, 25, 26, 28, 29, 31, 32, 33, 34];
    NUMBERS.get(usize::from(key.checked_sub(5)?)).copied()
}

/// The Kitty keyboard protocol with the enhancements the program asked for.
pub(super) fn encode_kitty(press: &Press, flags: u8) -> Vec<u8> {
    let Press { key, mods } = press;
    let all = flags & ALL_KEYS != 0;
    let plain = *mods == Mods::default();
    match key {
        Key::Enter if plain && !all => vec![b'\r'],
        Key::Tab if plain && !all => vec![b'\t'],
        Key::Backspace if plain && !all => vec![0x7f],
        Key::Enter => with_code("13", *mods, None),
        Key::Tab => with_code("9", *mods, None),
        Key::Backspace => with_code("127", *mods, None),
        Key::Escape => with_code("27", *mods, None),
        Key::Cursor(letter) => with_letter(*letter, *mods),
        Key::Edit(number) => with_number(*number, *mods),
        Key::Function(3) => with_number(13, *mods),
        Key::Function(number @ 1..=4) => with_letter(char::from(b'P' + number - 1), *mods),
        Key::Function(number @ 5..=12) => {
            with_number(function_number(*number).unwrap_or(15), *mods)
        }
        Key::Function(number) => {
            with_code(&(57_376 + u32::from(*number) - 13).to_string(), *mods, None)
        }
        Key::Text(text) => encode_kitty_text(text, *mods, flags),
    }
}

fn encode_kitty_text(text: &str, mods: Mods, flags: u8) -> Vec<u8> {
    let Some(c) = only_char(text) else { return text.as_bytes().to_vec() };
    let lower = c.to_lowercase().next().unwrap_or(c);
    // `Ctrl+C` names the key that has a C on it, as everywhere; Shift is held only when it is said.
    let shifted = c != lower && !mods.has(Mods::CTRL);
    let mods = if shifted { mods.with(Mods::SHIFT) } else { mods };
    let upper = lower.to_uppercase().next().unwrap_or(lower);
    let shown = if mods.has(Mods::SHIFT) { upper } else { c };
    let types = mods == Mods::default() || mods == Mods::SHIFT;
    if types && flags & ALL_KEYS == 0 {
        return shown.to_string().into_bytes();
    }
    let mut code = (lower as u32).to_string();
    if flags & ALTERNATE_KEYS != 0 && mods.has(Mods::SHIFT) && upper != lower {
        code = format!("{code}:{}", upper as u32);
    }
    with_code(&code, mods, (types && flags & TEXT != 0).then_some(shown))
}

fn with_code(code: &str, mods: Mods, text: Option<char>) -> Vec<u8> {
    let mods = match mods.csi_parameter() {
        1 => String::new(),
        mods => mods.to_string(),
    };
    match text {
        Some(text) => format!("\x1b[{code};{mods};{}u", text as u32),
        None if mods.is_empty() => format!("\x1b[{code}u"),
        None => format!("\x1b[{code};{mods}u"),
    }
    .into_bytes()
}
