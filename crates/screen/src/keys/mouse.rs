//! The mouse, by name: `Click@COL,ROW` and so on, counted from 0 like the cursor.

use super::Mods;
use crate::term::modes::{Modes, MouseEncoding, MouseTracking};
use crate::{CELL_HEIGHT, CELL_WIDTH};

const NOT_WANTED: &str = "the program did not ask for this kind of mouse event";
const TOO_FAR: &str = "the mouse encoding that the program asked for ends at column and row 223";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MouseEvent {
    action: MouseAction,
    button: u8,
    col: u32,
    row: u32,
    mods: Mods,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MouseAction {
    Press,
    Release,
    Click,
    DoubleClick,
    Drag,
    Move,
}

pub(super) fn parse_mouse(spelling: &str) -> Option<MouseEvent> {
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
        "click" => (MouseAction::Click, 0),
        "doubleclick" => (MouseAction::DoubleClick, 0),
        "middleclick" => (MouseAction::Click, 1),
        "rightclick" => (MouseAction::Click, 2),
        "press" => (MouseAction::Press, 0),
        "release" => (MouseAction::Release, 0),
        "drag" => (MouseAction::Drag, 0),
        "move" => (MouseAction::Move, 3),
        "wheelup" => (MouseAction::Press, 64),
        "wheeldown" => (MouseAction::Press, 65),
        "wheelleft" => (MouseAction::Press, 66),
        "wheelright" => (MouseAction::Press, 67),
        _ => return None,
    };
    Some(MouseEvent { action, button, col: col.into(), row: row.into(), mods })
}

pub(super) fn encode_mouse(event: &MouseEvent, modes: &Modes) -> Result<Vec<u8>, &'static str> {
    let mouse = modes.mouse;
    let steps: &[(u8, bool)] = match event.action {
        MouseAction::Press if mouse != MouseTracking::Off => &[(0, true)],
        MouseAction::Click if mouse == MouseTracking::Press => &[(0, true)],
        MouseAction::DoubleClick if mouse == MouseTracking::Press => &[(0, true), (0, true)],
        _ if matches!(mouse, MouseTracking::Off | MouseTracking::Press) => return Err(NOT_WANTED),
        MouseAction::Press => &[(0, true)],
        MouseAction::Release => &[(0, false)],
        MouseAction::Click => &[(0, true), (0, false)],
        MouseAction::DoubleClick => &[(0, true), (0, false), (0, true), (0, false)],
        MouseAction::Drag if mouse == MouseTracking::Click => return Err(NOT_WANTED),
        MouseAction::Move if mouse != MouseTracking::Motion => return Err(NOT_WANTED),
        MouseAction::Drag | MouseAction::Move => &[(32, true)],
    };
    let mut bytes = Vec::new();
    for (motion, down) in steps {
        write_mouse_report(event, event.button + motion, *down, modes.mouse_encoding, &mut bytes)?;
    }
    Ok(bytes)
}

fn write_mouse_report(
    event: &MouseEvent,
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
