use sha2::{Digest, Sha256};

use super::*;
use crate::Theme;
use crate::contract::{ScreenLimits, ScreenSize};

fn screen(cols: u16, rows: u16, bytes: &[u8]) -> Screen {
    let mut screen = Screen::new(ScreenSize { cols, rows }, ScreenLimits::default());
    let _ = screen.advance(bytes);
    screen
}

struct Pixels {
    width: usize,
    height: usize,
    data: Vec<u8>,
}

impl Pixels {
    fn of(file: &[u8]) -> Pixels {
        let mut decoder = png::Decoder::new(std::io::Cursor::new(file));
        decoder.set_transformations(png::Transformations::EXPAND);
        let mut reader = decoder.read_info().unwrap();
        let mut data = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut data).unwrap();
        Pixels { width: info.width as usize, height: info.height as usize, data }
    }

    fn at(&self, x: usize, y: usize) -> [u8; 3] {
        let start = (y * self.width + x) * 3;
        [self.data[start], self.data[start + 1], self.data[start + 2]]
    }

    /// Whether anything but the background is in the cell.
    fn is_drawn(&self, col: usize, row: usize) -> bool {
        let corner = [0x1e, 0x1e, 0x2e];
        (0..16).any(|y| (0..8).any(|x| self.at(col * 8 + x, row * 16 + y) != corner))
    }
}

const SAMPLE: &str = "Plain \x1b[1mbold\x1b[0m \x1b[3mitalic\x1b[0m \x1b[4:3mcurly\x1b[0m \x1b[9mstrike\x1b[0m\r\n\
    \x1b[7minverse\x1b[0m \x1b[2mdim\x1b[0m \x1b[31;44mcolour\x1b[0m \x1b[38;2;1;200;3mtrue\x1b[0m\r\n\
    ┌─┬─┐ ╔═╦═╗ ╭──╮ ┏━┳━┓ ▁▂▃▄▅▆▇█ ░▒▓ ⣿⡇ ╱╲╳ ┄┅\r\n\
    漢字 한국 👍🏽 👨‍👩‍👧 ❤️ 🚀 é e\u{301} ✓ ✗ → ● λ ⏺ ⎿";

/// The same on every machine: a change here needs a new number in `profile.rs`.
#[test]
fn pictures_are_the_same_to_the_byte() {
    let screen = screen(80, 24, SAMPLE.as_bytes());
    let sums: Vec<String> = [Profile::reference_dark(), Profile::reference_light()]
        .iter()
        .map(|profile| {
            let file = draw_png(&screen, profile, ShowCursor::No);
            assert_eq!(file, draw_png(&screen, profile, ShowCursor::No));
            Sha256::digest(&Pixels::of(&file).data).iter().map(|b| format!("{b:02x}")).collect()
        })
        .collect();
    insta::assert_snapshot!(sums.join("\n"));
}

#[test]
fn a_screen_of_80_by_24_is_640_by_384_pixels() {
    let screen = screen(80, 24, b"");
    let pixels = Pixels::of(&draw_png(&screen, &Profile::reference_dark(), ShowCursor::No));
    assert_eq!((pixels.width, pixels.height), (640, 384));
    assert_eq!(pixels.at(0, 0), [0x1e, 0x1e, 0x2e]);
    let light = Pixels::of(&draw_png(&screen, &Profile::reference_light(), ShowCursor::No));
    assert_eq!(light.at(639, 383), [0xef, 0xf1, 0xf5]);
    let large = Profile { scale: 2, ..Profile::reference_dark() };
    assert_eq!(pixel_size(&screen, &large), (1280, 768));
}

#[test]
fn every_kind_of_text_is_drawn() {
    let text = "a é ─ █ ⣿ 漢 👍 ✓ ⏺ ℵ \u{e0b0} \u{1fb00} ﷽";
    let screen = screen(80, 2, text.as_bytes());
    let pixels = Pixels::of(&draw_png(&screen, &Profile::reference_dark(), ShowCursor::No));
    for (col, cell) in screen.cells()[0].iter().enumerate() {
        let shows = !cell.text.is_empty() && cell.text != " ";
        assert!(!shows || pixels.is_drawn(col, 0), "{}", cell.text);
    }
}

#[test]
fn the_sign_of_a_pause_is_two_bars() {
    let screen = screen(4, 1, "⏸".as_bytes());
    let pixels = Pixels::of(&draw_png(&screen, &Profile::reference_dark(), ShowCursor::No));
    let row: String =
        (0..8).map(|x| if pixels.at(x, 8) == Theme::DARK.background { ' ' } else { '#' }).collect();
    assert_eq!(row, " ##  ## ");
}

#[test]
fn the_cursor_is_drawn_only_when_asked_and_shown() {
    let dark = Profile::reference_dark();
    let mut screen = screen(10, 2, b"ab");
    let without = draw_png(&screen, &dark, ShowCursor::No);
    let with = Pixels::of(&draw_png(&screen, &dark, ShowCursor::Yes));
    assert_eq!(with.at(20, 4), Theme::DARK.cursor);
    let _ = screen.advance(b"\x1b[?25l");
    assert_eq!(draw_png(&screen, &dark, ShowCursor::Yes), without);
    let _ = screen.advance(b"\x1b[?25h\x1b[6 q");
    let bar = Pixels::of(&draw_png(&screen, &dark, ShowCursor::Yes));
    assert_eq!((bar.at(16, 4), bar.at(20, 4)), (Theme::DARK.cursor, Theme::DARK.background));
}

#[test]
fn lines_meet_from_cell_to_cell() {
    let screen = screen(4, 3, "┌─┐\r\n│ │\r\n└─┘".as_bytes());
    let pixels = Pixels::of(&draw_png(&screen, &Profile::reference_dark(), ShowCursor::No));
    let white = Theme::DARK.foreground;
    assert!((3..=19).all(|x| pixels.at(x, 7) == white), "the top is one line");
    assert!((7..=39).all(|y| pixels.at(3, y) == white), "the left side is one line");
}

#[test]
fn more_colours_than_a_palette_holds_are_drawn_in_full() {
    let mut bytes = String::new();
    for n in 0..400 {
        bytes.push_str(&format!("\x1b[48;2;{};{};7m ", n % 256, n / 256));
    }
    let pixels = Pixels::of(&draw_png(
        &screen(80, 5, bytes.as_bytes()),
        &Profile::reference_dark(),
        ShowCursor::No,
    ));
    assert_eq!(pixels.at(79 * 8, 0), [79, 0, 7]);
    assert_eq!(pixels.at(79 * 8, 4 * 16), [143, 1, 7]);
}

#[test]
fn a_user_s_profile_is_data() {
    let profile: Profile =
        toml::from_str("name = \"mine\"\nscale = 2\n[theme]\nbackground = \"#000000\"\n").unwrap();
    assert_eq!(profile.theme, Theme { background: [0, 0, 0], ..Theme::DARK });
    assert_ne!(profile.hash(), Profile::reference_dark().hash());
    let renamed = Profile { name: "other".to_owned(), ..profile.clone() };
    assert_eq!(renamed.hash(), profile.hash());
    assert_eq!(Profile::find_reference("reference-light"), Some(Profile::reference_light()));
    assert_eq!(Profile::find_reference("solarized"), None);
    for bad in ["scal = 2", "[theme]\nforeground = \"red\"", "[theme]\nansi = [\"#000000\"]"] {
        assert!(toml::from_str::<Profile>(bad).is_err(), "{bad}");
    }
}
