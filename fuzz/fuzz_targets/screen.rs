//! No bytes, sizes or keyframes make the emulator fail, and no cut of the bytes changes the screen.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use screen::{Limits, Screen, Size};

#[derive(Debug, Arbitrary)]
enum Step<'a> {
    Bytes(&'a [u8]),
    Resize(u8, u8),
    Keyframe,
    Redraw,
}

fuzz_target!(|input: (u8, u8, Vec<Step<'_>>, &[u8])| {
    let (cols, rows, steps, garbage) = input;
    let size = Size { cols: cols.into(), rows: rows.into() };
    let mut whole = Screen::new(size, Limits { scrollback_lines: 100 });
    let mut cut = Screen::new(size, Limits { scrollback_lines: 100 });
    for step in steps {
        match step {
            Step::Bytes(bytes) => {
                assert_eq!(whole.advance(bytes).fault, None);
                bytes.chunks(1).for_each(|byte| assert_eq!(cut.advance(byte).fault, None));
            }
            Step::Resize(cols, rows) => {
                let size = Size { cols: cols.into(), rows: rows.into() };
                assert_eq!(whole.resize(size).fault, None);
                assert_eq!(cut.resize(size).fault, None);
            }
            Step::Keyframe => whole = Screen::from_keyframe(&whole.keyframe()).expect("its own"),
            Step::Redraw => {
                let mut fresh = Screen::new(whole.size(), Limits { scrollback_lines: 0 });
                assert_eq!(fresh.advance(&whole.redraw()).fault, None);
            }
        }
    }
    assert_eq!(whole.rows(), cut.rows());
    assert_eq!(whole.cursor(), cut.cursor());
    assert_eq!(whole.scrollback(usize::MAX), cut.scrollback(usize::MAX));
    let _ = Screen::from_keyframe(garbage);
});
