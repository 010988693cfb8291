//! What real programs wrote, and the screen it has to give.
//!
//! `fixtures/record.py` made the streams. Each is checked in more ways than by its snapshot: cut into
//! pieces, continued from a keyframe in the middle, drawn anew from a redraw.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fmt::Write;
use std::fs;
use std::path::Path;

use ostler_screen::{Attrs, Screen, ScreenLimits, ScreenSize, StyledCell};

struct Stream {
    name: String,
    size: ScreenSize,
    steps: Vec<Step>,
}

enum Step {
    Bytes(Vec<u8>),
    Resize(ScreenSize),
}

fn streams() -> Vec<Stream> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut streams: Vec<Stream> = fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let file = path.file_name()?.to_str()?.to_owned();
            let (name, size) = file.rsplit_once('.')?;
            let (cols, rows) = size.split_once('x')?;
            let size = ScreenSize { cols: cols.parse().ok()?, rows: rows.parse().ok()? };
            Some(Stream { name: name.to_owned(), size, steps: steps(&fs::read(&path).unwrap()) })
        })
        .collect();
    streams.sort_by(|one, other| one.name.cmp(&other.name));
    streams
}

/// Cuts a stream at its resizes, which are in it as `CSI 8 ; rows ; cols t`.
fn steps(bytes: &[u8]) -> Vec<Step> {
    const START: &[u8] = b"\x1b[8;";
    let mut steps = Vec::new();
    let mut rest = bytes;
    let mut from = 0;
    while let Some(at) = rest[from..].windows(START.len()).position(|part| part == START) {
        let at = from + at;
        let tail = &rest[at + START.len()..];
        let end = tail.iter().position(|byte| !byte.is_ascii_digit() && *byte != b';').unwrap();
        let numbers = std::str::from_utf8(&tail[..end]).unwrap();
        match numbers.split_once(';') {
            Some((rows, cols)) if tail[end] == b't' => {
                steps.push(Step::Bytes(rest[..at].to_vec()));
                let (cols, rows) = (cols.parse().unwrap(), rows.parse().unwrap());
                steps.push(Step::Resize(ScreenSize { cols, rows }));
                rest = &tail[end + 1..];
                from = 0;
            }
            // Some other sequence that begins alike.
            _ => from = at + START.len(),
        }
    }
    steps.push(Step::Bytes(rest.to_vec()));
    steps
}

fn play(stream: &Stream, mut feed: impl FnMut(&mut Screen, &[u8])) -> Screen {
    let mut screen = Screen::new(stream.size, ScreenLimits::default());
    for step in &stream.steps {
        match step {
            Step::Bytes(bytes) => feed(&mut screen, bytes),
            Step::Resize(size) => assert_eq!(screen.resize(*size).fault, None),
        }
    }
    screen
}

fn whole(screen: &mut Screen, bytes: &[u8]) {
    assert_eq!(screen.advance(bytes).fault, None);
}

/// The grid for people: rows between bars, then how often each style is used, then the rest.
fn picture(screen: &Screen) -> String {
    let mut text = String::new();
    for row in screen.rows() {
        writeln!(text, "|{row}").unwrap();
    }
    let cursor = screen.cursor();
    let modes = screen.modes();
    let visible = if cursor.visible { "" } else { " hidden" };
    writeln!(text, "cursor {},{}{visible}", cursor.row, cursor.col).unwrap();
    writeln!(text, "alt {} title {:?}", screen.is_alt_screen(), screen.title()).unwrap();
    let lines = screen.scrollback(usize::MAX);
    writeln!(text, "scrollback {} first {:?}", lines.len(), lines.first()).unwrap();
    writeln!(
        text,
        "application cursor {} keypad {} paste {} kitty {} mouse {:?} {:?} focus {}",
        modes.application_cursor,
        modes.application_keypad,
        modes.bracketed_paste,
        modes.kitty_keyboard,
        modes.mouse,
        modes.mouse_encoding,
        modes.focus,
    )
    .unwrap();
    text.push_str(&styles(&screen.cells()));
    text
}

/// One line for each style: its colours and attributes, and how many cells have it.
fn styles(cells: &[Vec<StyledCell>]) -> String {
    let mut counts = std::collections::BTreeMap::new();
    for cell in cells.iter().flatten() {
        let color = |color: Option<[u8; 3]>| color.map_or("-".to_owned(), StyledCell::color_hex);
        let names = [
            (Attrs::BOLD, "bold"),
            (Attrs::DIM, "dim"),
            (Attrs::ITALIC, "italic"),
            (Attrs::INVERSE, "inverse"),
            (Attrs::STRIKE, "strike"),
        ];
        let mut style = format!("{} on {}", color(cell.fg), color(cell.bg));
        for (_, name) in names.iter().filter(|(attr, _)| cell.attrs.has(*attr)) {
            style = format!("{style} {name}");
        }
        if cell.attrs.underline_style() > 0 {
            style.push_str(" underlined");
        }
        *counts.entry(style).or_insert(0) += 1;
    }
    let all = counts.len();
    let mut lines: Vec<String> =
        counts.into_iter().map(|(style, count)| format!("{count:5} {style}\n")).collect();
    lines.truncate(24);
    if all > lines.len() {
        lines.push(format!("{} more styles\n", all - lines.len()));
    }
    lines.concat()
}

#[test]
fn programs_look_as_recorded() {
    let streams = streams();
    assert!(streams.len() >= 45, "{} streams", streams.len());
    for stream in &streams {
        let screen = play(stream, whole);
        insta::with_settings!({ omit_expression => true }, {
            insta::assert_snapshot!(stream.name.clone(), picture(&screen));
        });
    }
}

#[test]
fn the_cut_of_the_bytes_does_not_matter() {
    for stream in &streams() {
        let expected = picture(&play(stream, whole));
        for size in [1, 7, 1000] {
            let cut = play(stream, |screen, bytes| {
                bytes.chunks(size).for_each(|piece| whole(screen, piece));
            });
            assert_eq!(picture(&cut), expected, "{} in pieces of {size}", stream.name);
        }
    }
}

#[test]
fn a_keyframe_anywhere_changes_nothing() {
    for stream in &streams() {
        let expected = picture(&play(stream, whole));
        let resumed = play(stream, |screen, bytes| {
            for piece in bytes.chunks(bytes.len() / 3 + 1) {
                whole(screen, piece);
                *screen = Screen::from_keyframe(&screen.to_keyframe()).unwrap();
            }
        });
        assert_eq!(picture(&resumed), expected, "{}", stream.name);
    }
}

#[test]
fn a_redraw_shows_the_same() {
    for stream in &streams() {
        let mut screen = play(stream, whole);
        screen.release_frame();
        let mut fresh = Screen::new(screen.size(), ScreenLimits::default());
        whole(&mut fresh, &screen.redraw());
        assert_eq!(screen.cells(), fresh.cells(), "{}", stream.name);
        assert_eq!(screen.cursor(), fresh.cursor(), "{}", stream.name);
        assert_eq!(screen.modes(), fresh.modes(), "{}", stream.name);
    }
}

/// Bounded and deterministic: the fuzz target's corpus of one afternoon, so to speak. Real streams with
/// bytes changed, dropped and doubled, at sizes that do not fit them.
#[test]
fn damaged_streams_never_cause_a_fault() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below.max(1) as u64) as usize
    };
    for stream in &streams() {
        let size = ScreenSize { cols: 1 + next(100) as u16, rows: 1 + next(40) as u16 };
        let mut screen = Screen::new(size, ScreenLimits { scrollback_lines: next(300) });
        for step in &stream.steps {
            let Step::Bytes(bytes) = step else { continue };
            let mut bytes = bytes.clone();
            bytes.truncate(20_000);
            for _ in 0..bytes.len() / 50 {
                let at = next(bytes.len());
                match next(3) {
                    0 => bytes[at] = next(256) as u8,
                    1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, bytes[next(at + 1)]),
                }
            }
            for piece in bytes.chunks(1 + next(500)) {
                assert_eq!(screen.advance(piece).fault, None, "{}", stream.name);
                if next(20) == 0 {
                    let size = ScreenSize { cols: 1 + next(120) as u16, rows: 1 + next(50) as u16 };
                    assert_eq!(screen.resize(size).fault, None, "{}", stream.name);
                }
            }
        }
        assert_eq!(screen.rows().len(), usize::from(screen.size().rows));
    }
}
