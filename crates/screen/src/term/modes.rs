//! What the program asked of the terminal.

use serde::{Deserialize, Serialize};

/// Which mouse events the program wants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MouseTracking {
    #[default]
    Off,
    /// Presses only (mode 9).
    Press,
    /// Presses and releases (1000).
    Click,
    /// And motion while a button is down (1002).
    Drag,
    /// And all motion (1003).
    Motion,
}

/// How mouse events are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MouseEncoding {
    #[default]
    Legacy,
    Utf8,
    Sgr,
    Urxvt,
    Pixels,
}

/// The modes that decide what a key, a click or a paste looks like, and how text is placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Modes {
    pub application_cursor: bool,
    pub application_keypad: bool,
    pub bracketed_paste: bool,
    /// The Kitty keyboard protocol's progressive enhancements, as its bits.
    pub kitty_keyboard: u8,
    /// xterm's `modifyOtherKeys` level.
    pub modify_other_keys: u8,
    pub mouse: MouseTracking,
    pub mouse_encoding: MouseEncoding,
    pub focus: bool,
    pub alternate_scroll: bool,
    pub autowrap: bool,
    pub insert: bool,
    pub newline: bool,
    pub origin: bool,
    pub margins: bool,
    pub reverse_screen: bool,
    pub cursor_visible: bool,
    pub cursor_blink: bool,
    /// The program is drawing a frame that must not be shown in parts (2026).
    pub synchronized: bool,
    pub color_scheme_updates: bool,
    pub resize_reports: bool,
}

impl Default for Modes {
    fn default() -> Self {
        Modes {
            application_cursor: false,
            application_keypad: false,
            bracketed_paste: false,
            kitty_keyboard: 0,
            modify_other_keys: 0,
            mouse: MouseTracking::Off,
            mouse_encoding: MouseEncoding::Legacy,
            focus: false,
            alternate_scroll: true,
            autowrap: true,
            insert: false,
            newline: false,
            origin: false,
            margins: false,
            reverse_screen: false,
            cursor_visible: true,
            cursor_blink: false,
            synchronized: false,
            color_scheme_updates: false,
            resize_reports: false,
        }
    }
}

impl Modes {
    /// The mode behind a DEC private number that is nothing but a switch.
    pub(crate) fn private_switch(&mut self, number: u16) -> Option<&mut bool> {
        Some(match number {
            1 => &mut self.application_cursor,
            5 => &mut self.reverse_screen,
            6 => &mut self.origin,
            7 => &mut self.autowrap,
            12 => &mut self.cursor_blink,
            25 => &mut self.cursor_visible,
            66 => &mut self.application_keypad,
            69 => &mut self.margins,
            1004 => &mut self.focus,
            1007 => &mut self.alternate_scroll,
            2004 => &mut self.bracketed_paste,
            2026 => &mut self.synchronized,
            2031 => &mut self.color_scheme_updates,
            2048 => &mut self.resize_reports,
            _ => return None,
        })
    }

    /// Every number [`Modes::private_switch`] knows, for redraws.
    pub(crate) const SWITCHES: [u16; 14] =
        [1, 5, 6, 7, 12, 25, 66, 69, 1004, 1007, 2004, 2026, 2031, 2048];

    pub(crate) fn mouse_number(mouse: MouseTracking) -> Option<u16> {
        match mouse {
            MouseTracking::Off => None,
            MouseTracking::Press => Some(9),
            MouseTracking::Click => Some(1000),
            MouseTracking::Drag => Some(1002),
            MouseTracking::Motion => Some(1003),
        }
    }

    pub(crate) fn encoding_number(encoding: MouseEncoding) -> Option<u16> {
        match encoding {
            MouseEncoding::Legacy => None,
            MouseEncoding::Utf8 => Some(1005),
            MouseEncoding::Sgr => Some(1006),
            MouseEncoding::Urxvt => Some(1015),
            MouseEncoding::Pixels => Some(1016),
        }
    }

    pub(crate) fn set_mouse(&mut self, number: u16, on: bool) -> bool {
        let mouse = match number {
            9 => MouseTracking::Press,
            1000 => MouseTracking::Click,
            1002 => MouseTracking::Drag,
            1003 => MouseTracking::Motion,
            _ => return self.set_mouse_encoding(number, on),
        };
        self.mouse = if on { mouse } else { MouseTracking::Off };
        true
    }

    fn set_mouse_encoding(&mut self, number: u16, on: bool) -> bool {
        let encoding = match number {
            1005 => MouseEncoding::Utf8,
            1006 => MouseEncoding::Sgr,
            1015 => MouseEncoding::Urxvt,
            1016 => MouseEncoding::Pixels,
            _ => return false,
        };
        if on {
            self.mouse_encoding = encoding;
        } else if self.mouse_encoding == encoding {
            self.mouse_encoding = MouseEncoding::Legacy;
        }
        true
    }
}
