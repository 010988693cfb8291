//! The terminal that is drawn on: only cells that changed, one write for each frame, and never a wait.
//!
//! A terminal that does not read gets no further frame until the last one is through; what happened
//! meanwhile is in the next. In every case it is given back as it was.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use flows::terminal::screen::RESTORE;
use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier};

use crate::timeouts::{FLUSH_INTERVAL, RESTORE_TIMEOUT};

/// The other screen, no cursor, pastes in brackets.
const ENTER_SCREEN: &str = "\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[0m\x1b[2J";
const MOUSE_ON: &str = "\x1b[?1002h\x1b[?1006h";
const MOUSE_OFF: &str = "\x1b[?1002l\x1b[?1006l";
const FRAME_BEGIN: &str = "\x1b[?2026h";
const FRAME_END: &str = "\x1b[?2026l";

/// Everything as it was before [`ENTER_SCREEN`], the cursor included, which [`RESTORE`] moves.
pub(crate) fn leaving_bytes() -> String {
    format!("{RESTORE}\x1b8")
}

/// Whether the terminal is ours now; asked by the panic hook.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);

/// A terminal that is drawn on.
#[derive(Debug)]
pub(crate) struct TtyOutput {
    out: File,
    shown: Buffer,
    /// Bytes of the last frame that are not through.
    pending: Vec<u8>,
    has_truecolor: bool,
    raw: Option<sys::terminal::RawMode>,
}

impl TtyOutput {
    /// Takes the terminal on stdout.
    pub(crate) fn enter(mouse: bool, has_truecolor: bool) -> io::Result<Self> {
        let out = sys::terminal::reopen_stdout()?;
        let shown = Buffer::empty(Rect::default());
        let mut tty = Self { out, shown, pending: Vec::new(), has_truecolor, raw: None };
        tty.take_screen(mouse)?;
        Ok(tty)
    }

    /// Takes the screen (again): after it was given to another program.
    pub(crate) fn take_screen(&mut self, mouse: bool) -> io::Result<()> {
        self.raw = Some(sys::terminal::RawMode::enter()?);
        IS_ENTERED.store(true, Ordering::Relaxed);
        self.shown = Buffer::empty(Rect::default());
        self.pending.clear();
        self.write_control(ENTER_SCREEN);
        self.set_mouse(mouse);
        Ok(())
    }

    /// Gives the screen back as it was; `false` if the terminal did not read that.
    pub(crate) fn give_screen_back(&mut self) -> bool {
        if self.raw.is_none() {
            return true;
        }
        self.write_control(&leaving_bytes());
        let until = Instant::now() + RESTORE_TIMEOUT;
        let mut is_through = self.flush_pending();
        while !is_through && Instant::now() < until {
            std::thread::sleep(FLUSH_INTERVAL);
            is_through = self.flush_pending();
        }
        IS_ENTERED.store(false, Ordering::Relaxed);
        self.raw = None;
        is_through
    }

    pub(crate) fn set_mouse(&mut self, on: bool) {
        self.write_control(if on { MOUSE_ON } else { MOUSE_OFF });
    }

    /// Puts text on the clipboard of the person's terminal (OSC 52).
    pub(crate) fn copy_text(&mut self, text: &str) {
        use base64::Engine;
        let encoded = base64::engine::general_purpose::STANDARD.encode(text);
        self.write_control(&format!("\x1b]52;c;{encoded}\x1b\\"));
    }

    fn write_control(&mut self, text: &str) {
        self.pending.extend_from_slice(text.as_bytes());
        self.flush_pending();
    }

    /// Everything is drawn anew with the next frame.
    pub(crate) fn forget_shown(&mut self) {
        self.shown = Buffer::empty(Rect::default());
        self.pending.extend_from_slice(b"\x1b[0m\x1b[2J");
    }

    /// What is shown.
    pub(crate) fn shown(&self) -> &Buffer {
        &self.shown
    }

    /// What to poll for writing, while the terminal does not read.
    pub(crate) fn stalled_descriptor(&self) -> Option<BorrowedFd<'_>> {
        (!self.pending.is_empty()).then(|| self.out.as_fd())
    }

    /// Whether a frame can be taken.
    pub(crate) fn is_ready(&mut self) -> bool {
        self.flush_pending()
    }

    /// Writes what is left; says whether that is all. A terminal that is gone takes everything.
    fn flush_pending(&mut self) -> bool {
        while !self.pending.is_empty() {
            match self.out.write(&self.pending) {
                Ok(count) => {
                    self.pending.drain(..count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(_) => {
                    self.pending.clear();
                    return true;
                }
            }
        }
        true
    }

    /// Shows a frame.
    pub(crate) fn show_frame(&mut self, next: Buffer, cursor: Option<(u16, u16)>) {
        if self.shown.area != next.area {
            self.forget_shown();
            self.shown = Buffer::empty(next.area);
        }
        let mut frame = String::from(FRAME_BEGIN);
        let changes = self.shown.diff(&next);
        let nothing_changed = changes.is_empty();
        self.encode_changes(&changes, &mut frame);
        // Writing to a text cannot fail.
        let _ = match cursor {
            Some((x, y)) => write!(frame, "\x1b[{};{}H\x1b[?25h", y + 1, x + 1),
            None => write!(frame, "\x1b[?25l"),
        };
        frame.push_str(FRAME_END);
        self.shown = next;
        if nothing_changed && cursor.is_none() && self.pending.is_empty() {
            return;
        }
        self.pending.extend_from_slice(frame.as_bytes());
        self.flush_pending();
    }

    fn encode_changes(&self, changes: &[(u16, u16, &Cell)], frame: &mut String) {
        let mut pen: Option<(Color, Color, Modifier)> = None;
        let mut after = None;
        for (x, y, cell) in changes {
            if after != Some((*x, *y)) {
                let _ = write!(frame, "\x1b[{};{}H", y + 1, x + 1);
            }
            let wanted = (cell.fg, cell.bg, cell.modifier);
            if pen != Some(wanted) {
                self.encode_style(wanted, frame);
                pen = Some(wanted);
            }
            frame.push_str(cell.symbol());
            let width = crate::render::text::display_width(cell.symbol()).max(1) as u16;
            after = Some((x + width, *y));
        }
        if pen.is_some() {
            frame.push_str("\x1b[0m");
        }
    }

    fn encode_style(&self, (fg, bg, modifier): (Color, Color, Modifier), frame: &mut String) {
        frame.push_str("\x1b[0");
        for (one, code) in [
            (Modifier::BOLD, 1),
            (Modifier::DIM, 2),
            (Modifier::ITALIC, 3),
            (Modifier::UNDERLINED, 4),
            (Modifier::REVERSED, 7),
            (Modifier::HIDDEN, 8),
            (Modifier::CROSSED_OUT, 9),
        ] {
            if modifier.contains(one) {
                let _ = write!(frame, ";{code}");
            }
        }
        self.encode_colour(fg, 30, frame);
        self.encode_colour(bg, 40, frame);
        frame.push('m');
    }

    fn encode_colour(&self, colour: Color, base: u8, frame: &mut String) {
        let _ = match colour {
            Color::Black => write!(frame, ";{base}"),
            Color::Red => write!(frame, ";{}", base + 1),
            Color::Green => write!(frame, ";{}", base + 2),
            Color::Yellow => write!(frame, ";{}", base + 3),
            Color::Magenta => write!(frame, ";{}", base + 5),
            Color::Cyan => write!(frame, ";{}", base + 6),
            Color::Indexed(index) => write!(frame, ";{};5;{index}", base + 8),
            Color::Rgb(r, g, b) if self.has_truecolor => {
                write!(frame, ";{};2;{r};{g};{b}", base + 8)
            }
            Color::Rgb(r, g, b) => write!(frame, ";{};5;{}", base + 8, nearest_of_cube(r, g, b)),
            _ => Ok(()),
        };
    }
}

impl Drop for TtyOutput {
    fn drop(&mut self) {
        self.give_screen_back();
    }
}

/// The nearest colour of the 6×6×6 cube, for terminals that have no others.
fn nearest_of_cube(r: u8, g: u8, b: u8) -> u8 {
    let step = |value: u8| match value {
        0..48 => 0,
        48..115 => 1,
        value => (value - 35) / 40,
    };
    16 + 36 * step(r) + 6 * step(g) + step(b)
}

/// A panic is told on the terminal as it was, not on a screen that goes away. One of another thread ends nothing
/// here: whoever waits for that thread tells it, and until then it is not written over what is drawn.
pub(crate) fn restore_before_panics() {
    let (told, drawing) = (std::panic::take_hook(), std::thread::current().id());
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().id() != drawing && IS_ENTERED.load(Ordering::Relaxed) {
            tracing::error!("{panic}");
            return;
        }
        if IS_ENTERED.swap(false, Ordering::Relaxed) {
            // There is no one to tell that the terminal is gone.
            let _ = io::stdout().write_all(leaving_bytes().as_bytes());
            let _ = io::stdout().flush();
        }
        told(panic);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_of_the_cube_are_near() {
        assert_eq!(nearest_of_cube(0, 0, 0), 16);
        assert_eq!(nearest_of_cube(255, 255, 255), 231);
        assert_eq!(nearest_of_cube(255, 0, 0), 196);
    }
}
