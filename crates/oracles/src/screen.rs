//! The terminal emulator.

use screen::{Screen, ScreenLimits, ScreenSize};

const LIMITS: ScreenLimits = ScreenLimits { scrollback_lines: 100 };

/// Bytes that no text has, so that recorded streams are inputs as they are: what comes next is a size.
const RESIZE: u8 = 0xff;

/// Go on from a keyframe.
const KEYFRAME: u8 = 0xfe;

/// Draw the screen on another terminal.
const REDRAW: u8 = 0xfd;

/// Nothing makes the emulator fail, and no cut of the bytes changes the screen.
pub fn screen(bytes: &[u8]) {
    let _ = Screen::from_keyframe(bytes);
    let mut whole = Screen::new(ScreenSize { cols: 20, rows: 6 }, LIMITS);
    let mut cut = Screen::new(ScreenSize { cols: 20, rows: 6 }, LIMITS);
    let mut rest = bytes;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte >= REDRAW).unwrap_or(rest.len());
        let (text, mark) = rest.split_at(end);
        assert_eq!(whole.advance(text).fault, None);
        text.chunks(1).for_each(|byte| assert_eq!(cut.advance(byte).fault, None));
        rest = match mark {
            [RESIZE, cols, rows, rest @ ..] => {
                let size = size(*cols, *rows);
                assert_eq!(whole.resize(size).fault, None);
                assert_eq!(cut.resize(size).fault, None);
                rest
            }
            [KEYFRAME, rest @ ..] => {
                whole = Screen::from_keyframe(&whole.to_keyframe()).expect("its own");
                rest
            }
            [REDRAW, rest @ ..] => {
                let mut fresh = Screen::new(whole.size(), ScreenLimits { scrollback_lines: 0 });
                assert_eq!(fresh.advance(&whole.redraw()).fault, None);
                rest
            }
            _ => break,
        };
    }
    assert_eq!(whole.rows(), cut.rows());
    assert_eq!(whole.cursor(), cut.cursor());
    assert_eq!(whole.scrollback(usize::MAX), cut.scrollback(usize::MAX));
}

/// Small, so that many inputs are tried, and not always sound.
fn size(cols: u8, rows: u8) -> ScreenSize {
    ScreenSize { cols: u16::from(cols % 48), rows: u16::from(rows % 16) }
}
