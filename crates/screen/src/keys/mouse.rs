//! The mouse, by name: `Click@COL,ROW` and so on, counted from 0 like the cursor.

use super::Mods;
use crate::term::modes::{Modes, Mouse, MouseEncoding};
use crate::{CELL_HEIGHT, CELL_WIDTH};

const NOT_WANTED: &str = "the program did not ask for this kind of mouse event";
const TOO_FAR: &str = "the mouse encoding that the program asked for ends at column and row 223";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event {
    action: Action,
    button: u8,
    col: u32,
    row: u32,
    mods: Mods,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Press,
    Release,
    Click,
    DoubleClick,
    Drag,
    Move,
}

pub(super) fn parse(spelling: &str) -> Option<Event> {
    let (head, place) = spelling.rsplit_once('@')?;
    let (col, row) = place.split_once(',')?;
    let (col, row) = (col.parse::<u16>().ok()?, row.parse::<u16>().ok()?);
    let mut parts: Vec<&str> = head.split('+').collect();
    let name = parts.pop()?;
    let mut mods = Mods::default();
    for part in parts {
        mods = mods.with(match part.to_ascii_lowercase().as_str() {
            "ctrl" => Mods::CTRL,
            "alt" => Mods::ALT,
            "shift" => Mods::SHIFT,
            _ => return None,
        });
    }
    let (action, button) = match name.to_ascii_lowercase().as_str() {
        "click" => (Action::Click, 0),
        "doubleclick" => (Action::DoubleClick, 0),
        "middleclick" => (Action::Click, 1),
        "rightclick" => (Action::Click, 2),
        "press" => (Action::Press, 0),
        "release" => (Action::Release, 0),
        "drag" => (Action::Drag, 0),
        "move" => (Action::Move, 3),
        "wheelup" => (Action::Press, 64),
        "wheeldown" => (Action::Press, 65),
        "wheelleft" => (Action::Press, 66),
        "wheelright" => (Action::Press, 67),
        _ => return None,
    };
    Some(Event { action, button, col: col.into(), row: row.into(), mods })
}

pub(super) fn encode(event: &Event, modes: &Modes) -> Result<Vec<u8>, &'static str> {
    let mouse = modes.mouse;
    let steps: &[(u8, bool)] = match event.action {
        Action::Press if mouse != Mouse::Off => &[(0, true)],
        Action::Click if mouse == Mouse::Press => &[(0, true)],
        Action::DoubleClick if mouse == Mouse::Press => &[(0, true), (0, true)],
        _ if matches!(mouse, Mouse::Off | Mouse::Press) => return Err(NOT_WANTED),
        Action::Press => &[(0, true)],
        Action::Release => &[(0, false)],
        Action::Click => &[(0, true), (0, false)],
        Action::DoubleClick => &[(0, true), (0, false), (0, true), (0, false)],
        Action::Drag if mouse == Mouse::Click => return Err(NOT_WANTED),
        Action::Move if mouse != Mouse::Motion => return Err(NOT_WANTED),
        Action::Drag | Action::Move => &[(32, true)],
    };
    let mut bytes = Vec::new();
    for (motion, down) in steps {
        write(event, event.button + motion, *down, modes.mouse_encoding, &mut bytes)?;
    }
    Ok(bytes)
}

fn write(
    event: &Event,
    button: u8,
    down: bool,
    encoding: MouseEncoding,
    out: &mut Vec<u8>,
) -> Result<(), &'static str> {
    // The bits of a mouse event are shift 4, alt 8, ctrl 16: the modifiers of a key, four times.
    let mods = u32::from(event.mods.0) * 4;
    let (col, row) = (event.col + 1, event.row + 1);
    let code = u32::from(button) + mods;
    let legacy = if down { code } else { 3 + mods } + 32;
    match encoding {
        MouseEncoding::Sgr | MouseEncoding::Pixels => {
            let (x, y) = if encoding == MouseEncoding::Sgr {
                (col, row)
            } else {
                (event.col * CELL_WIDTH + CELL_WIDTH / 2, event.row * CELL_HEIGHT + CELL_HEIGHT / 2)
            };
            let end = if down { 'M' } else { 'm' };
            out.extend(format!("\x1b[<{code};{x};{y}{end}").bytes());
        }
        MouseEncoding::Urxvt => out.extend(format!("\x1b[{legacy};{col};{row}M").bytes()),
        MouseEncoding::Legacy => {
            let byte = |value: u32| u8::try_from(value).map_err(|_| TOO_FAR);
            out.extend_from_slice(b"\x1b[M");
            out.extend([byte(legacy)?, byte(col + 32)?, byte(row + 32)?]);
        }
        MouseEncoding::Utf8 => {
            let text = |value: u32| char::from_u32(value).ok_or(TOO_FAR);
            let sequence = [text(legacy)?, text(col + 32)?, text(row + 32)?];
            out.extend_from_slice(b"\x1b[M");
            out.extend(sequence.iter().collect::<String>().bytes());
        }
    }
    Ok(())
}
