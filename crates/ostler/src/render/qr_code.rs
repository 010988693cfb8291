//! QR codes on a terminal: two modules to a character, black on white in any theme.

use std::fmt::Write;

use qrcodegen::{QrCode, QrCodeEcc};

use crate::error::Error;

/// The light margin that cameras need, in modules.
const QUIET_ZONE: i32 = 2;

/// A text as lines of half blocks.
pub(crate) fn draw_qr_code(text: &str) -> Result<String, Error> {
    let code = QrCode::encode_text(text, QrCodeEcc::Low).map_err(|_| {
        Error::usage_error("the link is too long for a QR code", "shorten `[web] url`")
    })?;
    let edge = code.size() + QUIET_ZONE;
    let mut drawn = String::new();
    for row in (-QUIET_ZONE..edge).step_by(2) {
        let _ = write!(drawn, "\u{1b}[30;107m");
        for col in -QUIET_ZONE..edge {
            // Outside of the code is light.
            drawn.push(match (code.get_module(col, row), code.get_module(col, row + 1)) {
                (true, true) => '█',
                (true, false) => '▀',
                (false, true) => '▄',
                (false, false) => ' ',
            });
        }
        let _ = writeln!(drawn, "\u{1b}[0m");
    }
    Ok(drawn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_a_square_of_half_blocks_with_a_light_margin() {
        let drawn = draw_qr_code("https://box.example/#k=abcdefghijklmnop").unwrap();
        let lines: Vec<&str> = drawn.lines().collect();
        let width = |line: &str| line.chars().filter(|c| " █▀▄".contains(*c)).count();
        assert!(lines.iter().all(|line| width(line) == width(lines[0])), "{drawn}");
        assert!(lines.len() >= width(lines[0]) / 2 && lines.len() <= width(lines[0]).div_ceil(2));
        assert!(!lines[0].contains('█') && !lines[0].contains('▀'), "{drawn}");
        assert!(draw_qr_code(&"x".repeat(5000)).is_err());
    }
}
