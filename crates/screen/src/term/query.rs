//! Answers to programs that ask what terminal this is.
//!
//! Under the agent-tty name only what agent-tty answers is answered: the colours 10 and 11, and
//! `CSI 5 n`. Programs that were scripted against its silence keep seeing it.

use super::Term;
use crate::contract::Personality;
use crate::palette::ColorSlot;
use crate::sequence::{End, Sequence};
use crate::{CELL_HEIGHT, CELL_WIDTH};

/// What `XTGETTCAP` may ask for.
const CAPABILITIES: &[(&str, &str)] = &[
    ("TN", "xterm-256color"),
    ("name", "xterm-256color"),
    ("Co", "256"),
    ("colors", "256"),
    ("RGB", "8"),
];

impl Term {
    fn send_reply(&mut self, text: &str) {
        self.effects.reply.extend_from_slice(text.as_bytes());
    }

    fn answers_queries(&self) -> bool {
        self.personality == Personality::Ostler
    }

    /// A VT220 with colours.
    pub(crate) fn primary_attributes(&mut self) {
        if self.answers_queries() {
            self.send_reply("\x1b[?62;22c");
        }
    }

    pub(crate) fn secondary_attributes(&mut self) {
        if self.answers_queries() {
            self.send_reply("\x1b[>1;100;0c");
        }
    }

    pub(crate) fn report_version(&mut self) {
        if self.answers_queries() {
            self.send_reply(concat!("\x1bP>|ostler(", env!("CARGO_PKG_VERSION"), ")\x1b\\"));
        }
    }

    pub(crate) fn report_status(&mut self, what: usize) {
        match what {
            5 => self.send_reply("\x1b[0n"),
            6 if self.answers_queries() => {
                let (row, col) = self.reported_cursor();
                self.send_reply(&format!("\x1b[{row};{col}R"));
            }
            _ => {}
        }
    }

    pub(crate) fn report_private_status(&mut self, what: usize) {
        if !self.answers_queries() {
            return;
        }
        match what {
            6 => {
                let (row, col) = self.reported_cursor();
                self.send_reply(&format!("\x1b[?{row};{col}R"));
            }
            996 => self.send_reply("\x1b[?997;1n"),
            _ => {}
        }
    }

    fn reported_cursor(&self) -> (usize, usize) {
        let corner = if self.modes.origin { self.area.clone() } else { self.whole_area() };
        let row = self.cursor.row.saturating_sub(corner.rows.start);
        let col = self.cursor.col.saturating_sub(corner.cols.start);
        (row + 1, col + 1)
    }

    /// `DECRQM`: 1 set, 2 reset, 3 always set, 0 unknown.
    pub(crate) fn report_mode(&mut self, sequence: &Sequence) {
        if !self.answers_queries() {
            return;
        }
        let number = sequence.value(0, 0) as u16;
        let state = |on: bool| if on { 1 } else { 2 };
        if sequence.marker == 0 {
            let value = match number {
                4 => state(self.modes.insert),
                20 => state(self.modes.newline),
                _ => 0,
            };
            return self.send_reply(&format!("\x1b[{number};{value}$y"));
        }
        let modes = self.modes;
        let value = match number {
            47 | 1047 | 1049 => state(self.alt),
            9 | 1000 | 1002 | 1003 => {
                state(super::Modes::mouse_number(modes.mouse) == Some(number))
            }
            1005 | 1006 | 1015 | 1016 => {
                state(super::Modes::encoding_number(modes.mouse_encoding) == Some(number))
            }
            2027 => 3,
            _ => self.modes.private_switch(number).map_or(0, |on| state(*on)),
        };
        self.send_reply(&format!("\x1b[?{number};{value}$y"));
    }

    pub(crate) fn report_keyboard(&mut self) {
        if self.answers_queries() {
            self.send_reply(&format!("\x1b[?{}u", self.modes.kitty_keyboard));
        }
    }

    pub(crate) fn report_window(&mut self, what: usize) {
        if !self.answers_queries() {
            return;
        }
        let (cols, rows) = (self.cols(), self.rows());
        let (width, height) = (CELL_WIDTH as usize, CELL_HEIGHT as usize);
        self.send_reply(&match what {
            14 => format!("\x1b[4;{};{}t", rows * height, cols * width),
            16 => format!("\x1b[6;{height};{width}t"),
            _ => format!("\x1b[8;{rows};{cols}t"),
        });
    }

    /// The in-band size report of mode 2048.
    pub(crate) fn report_size(&mut self) {
        if !self.answers_queries() {
            return;
        }
        let (cols, rows) = (self.cols(), self.rows());
        let (width, height) = (cols * CELL_WIDTH as usize, rows * CELL_HEIGHT as usize);
        self.send_reply(&format!("\x1b[48;{rows};{cols};{height};{width}t"));
    }

    pub(crate) fn report_color(&mut self, slot: ColorSlot, name: &str, end: End) {
        if !self.answers_queries() && !matches!(slot, ColorSlot::Foreground | ColorSlot::Background)
        {
            return;
        }
        let [r, g, b] = self.palette.get_color(slot);
        let end = end.as_str();
        self.send_reply(&format!(
            "\x1b]{name};rgb:{r:02x}{r:02x}/{g:02x}{g:02x}/{b:02x}{b:02x}{end}"
        ));
    }

    /// `XTGETTCAP` and `DECRQSS`.
    pub(crate) fn dispatch_dcs(&mut self, sequence: &Sequence, data: &[u8]) {
        if !self.answers_queries() || sequence.last != b'q' {
            return;
        }
        match sequence.intermediate {
            b'+' => data.split(|&byte| byte == b';').for_each(|name| self.report_capability(name)),
            b'$' => self.report_setting(data),
            _ => {}
        }
    }

    fn report_capability(&mut self, asked: &[u8]) {
        let Some(hex) = std::str::from_utf8(asked).ok().filter(|hex| is_hex(hex)) else { return };
        let known = CAPABILITIES.iter().find(|(name, _)| to_hex(name).eq_ignore_ascii_case(hex));
        self.send_reply(&match known {
            Some((_, value)) => format!("\x1bP1+r{hex}={}\x1b\\", to_hex(value)),
            None => format!("\x1bP0+r{hex}\x1b\\"),
        });
    }

    fn report_setting(&mut self, asked: &[u8]) {
        let setting = match asked {
            b"m" => Some(format!("{}m", super::sgr::sgr_parameters(self.cursor.pen))),
            b"r" => Some(format!("{};{}r", self.area.rows.start + 1, self.area.rows.end)),
            b" q" => Some(format!("{} q", self.cursor_shape)),
            _ => None,
        };
        self.send_reply(&match setting {
            Some(setting) => format!("\x1bP1$r{setting}\x1b\\"),
            None => "\x1bP0$r\x1b\\".to_owned(),
        });
    }
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn to_hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}
