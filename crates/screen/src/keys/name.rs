//! How keys are spelt.

use unicode_segmentation::UnicodeSegmentation;

use super::{Key, KeyError, Mods, Press};

pub(super) const NAMES: &[&str] = &[
    "Enter",
    "Tab",
    "Escape",
    "Backspace",
    "Space",
    "Up",
    "Down",
    "Left",
    "Right",
    "Home",
    "End",
    "Insert",
    "Delete",
    "PageUp",
    "PageDown",
    "F1",
    "F2",
    "F3",
    "F4",
    "F5",
    "F6",
    "F7",
    "F8",
    "F9",
    "F10",
    "F11",
    "F12",
];

/// Case-insensitive names, `Ctrl`, `Alt`, `Shift` before them, else one printable ASCII character.
pub(super) fn parse_key_strictly(spelling: &str) -> Result<Press, KeyError> {
    let unknown = || KeyError::Unknown { key: spelling.to_owned() };
    let mut parts: Vec<&str> = spelling.split('+').collect();
    let base = parts.pop().ok_or_else(unknown)?;
    let mut mods = Mods::default();
    for part in parts {
        let (modifier, name) = match part.to_ascii_lowercase().as_str() {
            "ctrl" => (Mods::CTRL, "Ctrl"),
            "alt" => (Mods::ALT, "Alt"),
            "shift" => (Mods::SHIFT, "Shift"),
            _ => return Err(unknown()),
        };
        mods = add_modifier(mods, modifier, name, spelling)?;
    }
    let key = match named_key(base) {
        Some(Key::Function(13..)) => None,
        Some(key) => Some(key),
        None => one_character(base).filter(|c| c.is_ascii()).map(|c| Key::Text(c.to_string())),
    };
    Ok(Press { key: key.ok_or_else(unknown)?, mods })
}

/// The same and more: `C-c`, `M-x`, `^C`, further modifiers and names, any grapheme, `+` itself.
pub(super) fn parse_key(spelling: &str) -> Result<Press, KeyError> {
    let mut mods = Mods::default();
    let mut rest = spelling;
    while let Some((modifier, name, after)) = split_modifier(rest) {
        mods = add_modifier(mods, modifier, name, spelling)?;
        rest = after;
    }
    if let Some(letter) = rest.strip_prefix('^').and_then(one_character) {
        mods = add_modifier(mods, Mods::CTRL, "Ctrl", spelling)?;
        return Ok(Press { key: Key::Text(letter.to_lowercase().to_string()), mods });
    }
    if rest.eq_ignore_ascii_case("BTab") || rest.eq_ignore_ascii_case("BackTab") {
        return Ok(Press { key: Key::Tab, mods: mods.with(Mods::SHIFT) });
    }
    let key = named_key(rest).or_else(|| alias_key(rest)).or_else(|| {
        let one = rest.graphemes(true).count() == 1 && !rest.contains(char::is_control);
        one.then(|| Key::Text(rest.to_owned()))
    });
    let key = key.ok_or_else(|| KeyError::Unknown { key: spelling.to_owned() })?;
    Ok(Press { key, mods })
}

fn add_modifier(
    mods: Mods,
    modifier: Mods,
    name: &'static str,
    spelling: &str,
) -> Result<Mods, KeyError> {
    if mods.has(modifier) {
        return Err(KeyError::Twice { key: spelling.to_owned(), modifier: name });
    }
    Ok(mods.with(modifier))
}

/// The modifier that a spelling begins with, and the rest; the rest is never empty.
fn split_modifier(spelling: &str) -> Option<(Mods, &'static str, &str)> {
    const PREFIXES: &[(&str, Mods, &str)] = &[
        ("C-", Mods::CTRL, "Ctrl"),
        ("M-", Mods::ALT, "Alt"),
        ("A-", Mods::ALT, "Alt"),
        ("S-", Mods::SHIFT, "Shift"),
        ("Ctrl+", Mods::CTRL, "Ctrl"),
        ("Control+", Mods::CTRL, "Ctrl"),
        ("Alt+", Mods::ALT, "Alt"),
        ("Option+", Mods::ALT, "Alt"),
        ("Shift+", Mods::SHIFT, "Shift"),
        ("Super+", Mods::SUPER, "Super"),
        ("Cmd+", Mods::SUPER, "Super"),
        ("Hyper+", Mods::HYPER, "Hyper"),
        ("Meta+", Mods::META, "Meta"),
    ];
    PREFIXES.iter().find_map(|(prefix, modifier, name)| {
        let (head, rest) = spelling.split_at_checked(prefix.len())?;
        (head.eq_ignore_ascii_case(prefix) && !rest.is_empty()).then_some((*modifier, *name, rest))
    })
}

fn one_character(text: &str) -> Option<char> {
    let mut chars = text.chars();
    let first = chars.next().filter(|c| !c.is_control())?;
    chars.next().is_none().then_some(first)
}

fn named_key(name: &str) -> Option<Key> {
    let name = name.to_ascii_lowercase();
    if let Some(number) = name.strip_prefix('f').and_then(|number| number.parse::<u8>().ok()) {
        let plain = !name.contains('+') && !name[1..].starts_with('0');
        return (plain && (1..=24).contains(&number)).then_some(Key::Function(number));
    }
    Some(match name.as_str() {
        "enter" => Key::Enter,
        "tab" => Key::Tab,
        "escape" => Key::Escape,
        "backspace" => Key::Backspace,
        "space" => Key::Text(" ".to_owned()),
        "up" => Key::Cursor('A'),
        "down" => Key::Cursor('B'),
        "right" => Key::Cursor('C'),
        "left" => Key::Cursor('D'),
        "home" => Key::Cursor('H'),
        "end" => Key::Cursor('F'),
        "insert" => Key::Edit(2),
        "delete" => Key::Edit(3),
        "pageup" => Key::Edit(5),
        "pagedown" => Key::Edit(6),
        _ => return None,
    })
}

/// What tmux, vim and browsers call the same keys.
fn alias_key(name: &str) -> Option<Key> {
    Some(match name.to_ascii_lowercase().as_str() {
        "return" | "cr" => Key::Enter,
        "esc" => Key::Escape,
        "bspace" | "bs" => Key::Backspace,
        "arrowup" => Key::Cursor('A'),
        "arrowdown" => Key::Cursor('B'),
        "arrowright" => Key::Cursor('C'),
        "arrowleft" => Key::Cursor('D'),
        "ins" | "ic" => Key::Edit(2),
        "del" | "dc" => Key::Edit(3),
        "pgup" | "ppage" => Key::Edit(5),
        "pgdn" | "pgdown" | "npage" => Key::Edit(6),
        "plus" => Key::Text("+".to_owned()),
        _ => return None,
    })
}
