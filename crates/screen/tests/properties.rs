//! What holds for any bytes whatsoever.

use ostler_screen::{Modes, RESTORE, Screen, ScreenLimits, ScreenSize};
use proptest::prelude::*;

const SIZE: ScreenSize = ScreenSize { cols: 20, rows: 6 };
const LIMITS: ScreenLimits = ScreenLimits { scrollback_lines: 50 };

/// Pieces that programs write, so that random input reaches deep into the emulator.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![Just(String::new()), (0u16..30).prop_map(|n| n.to_string())];
    let csi = (number.clone(), number, "[@A-Za-z`]")
        .prop_map(|(a, b, last)| format!("\x1b[{a};{b}{last}").into_bytes());
    let modes = [
        1, 3, 5, 6, 7, 12, 25, 47, 66, 69, 1000, 1002, 1004, 1006, 1047, 1048, 1049, 2004, 2026,
        2048,
    ];
    let mode = (proptest::sample::select(modes.to_vec()), "[hl]")
        .prop_map(|(mode, end)| format!("\x1b[?{mode}{end}").into_bytes());
    let fixed: Vec<&'static str> = vec![
        "\x1b7",
        "\x1b8",
        "\x1bM",
        "\x1bD",
        "\x1bE",
        "\x1bH",
        "\x1bc",
        "\x1b#8",
        "\x1b(0",
        "\x1b(B",
        "\x0e",
        "\x0f",
        "\x1b[4h",
        "\x1b[4l",
        "\x1b[20h",
        "\x1b[!p",
        "\x1b[38;5;200m",
        "\x1b[48:2::1:2:3m",
        "\x1b[1;3;4:3m",
        "\x1b[3J",
        "\x1b]0;title\x07",
        "\x1b]133;D;1\x1b\\",
        "\x1bP+q544e\x1b\\",
        "\x1b]11;?\x07",
        "\x1b]4;1;#ff0000\x07",
        "\x1b[>1u",
        "\x1b[<u",
        "\x1b[=3;2u",
        "\x1b[6n",
        "\x1b[c",
        "\x1b[>4;2m",
        "\x1b[2 q",
        "漢字",
        "👨‍👩‍👧",
        "❤️",
        "🇩🇪",
        "e\u{301}",
        "👍🏽",
        "\t",
        "\r\n",
        "\n",
        "\r",
        "\x08",
        "\x1b[5;10s",
        "\x1b[2;5r",
        "\x1b_Ga=q\x1b\\",
        "\u{200b}",
        "한",
    ];
    let fixed = proptest::sample::select(fixed).prop_map(|text| text.as_bytes().to_vec());
    prop_oneof![
        3 => "[ -~]{0,30}".prop_map(String::into_bytes),
        2 => "\\PC{0,6}".prop_map(String::into_bytes),
        4 => csi,
        2 => mode,
        4 => fixed,
        1 => proptest::collection::vec(any::<u8>(), 0..12),
    ]
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(piece(), 0..40).prop_map(|pieces| pieces.concat())
}

/// Many plain lines at once, some of them too long for a row.
fn lines() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec("[ -~]{0,45} {0,3}", 0..40).prop_map(|lines| {
        lines.iter().flat_map(|line| format!("{line}\r\n").into_bytes()).collect()
    })
}

fn size() -> impl Strategy<Value = ScreenSize> {
    (1u16..40, 1u16..12).prop_map(|(cols, rows)| ScreenSize { cols, rows })
}

/// All that a caller can learn of a screen.
fn seen(screen: &Screen) -> impl PartialEq + std::fmt::Debug + use<> {
    (
        screen.rows(),
        screen.scrollback(usize::MAX),
        screen.cells(),
        screen.cursor(),
        (screen.is_alt_screen(), screen.title().to_owned(), screen.size()),
        screen.modes(),
    )
}

fn fed(bytes: &[u8]) -> Screen {
    let mut screen = Screen::new(SIZE, LIMITS);
    let output = screen.advance(bytes);
    assert_eq!(output.fault, None);
    screen
}

proptest! {
    #[test]
    fn any_cut_of_the_bytes_gives_the_same_screen(
        bytes in stream(),
        cuts in proptest::collection::vec(0usize..4000, 0..8),
    ) {
        let whole = fed(&bytes);
        let mut parts = Screen::new(SIZE, LIMITS);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let mut reply = Vec::new();
        for pair in cuts.windows(2) {
            reply.extend(parts.advance(&bytes[pair[0]..pair[1]]).reply);
        }
        prop_assert_eq!(seen(&whole), seen(&parts));
        prop_assert_eq!(Screen::new(SIZE, LIMITS).advance(&bytes).reply, reply);
    }

    #[test]
    fn lines_that_nobody_can_see_scroll_like_any_others(
        parts in proptest::collection::vec((stream(), lines()), 1..4),
        after in stream(),
        first in size(),
        size in size(),
    ) {
        let bytes: Vec<u8> = parts.into_iter().flat_map(|(some, lines)| [some, lines]).flatten().collect();
        let (mut whole, mut slow) = (Screen::new(first, LIMITS), Screen::new(first, LIMITS));
        prop_assert_eq!(whole.advance(&bytes).fault, None);
        for byte in &bytes {
            let _ = slow.advance(&[*byte]);
        }
        prop_assert_eq!(seen(&whole), seen(&slow));
        // What cannot be seen: how the lines were wrapped, and what would be repeated.
        for screen in [&mut whole, &mut slow] {
            let _ = screen.advance(b"\x1b[3b");
            let _ = screen.resize(size);
            let _ = screen.advance(&after);
        }
        prop_assert_eq!(seen(&whole), seen(&slow));
    }

    #[test]
    fn a_screen_read_from_a_keyframe_goes_on_as_if_it_had_never_stopped(
        before in stream(),
        after in stream(),
        size in size(),
    ) {
        let mut screen = fed(&before);
        let mut copy = Screen::from_keyframe(&screen.to_keyframe()).unwrap();
        prop_assert_eq!(seen(&screen), seen(&copy));
        prop_assert_eq!(screen.advance(&after), copy.advance(&after));
        prop_assert_eq!(seen(&screen), seen(&copy));
        prop_assert_eq!(screen.resize(size), copy.resize(size));
        prop_assert_eq!(screen.advance(&before), copy.advance(&before));
        prop_assert_eq!(seen(&screen), seen(&copy));
        prop_assert_eq!(screen.generation(), copy.generation());
    }

    #[test]
    fn a_damaged_keyframe_is_refused(bytes in stream(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut keyframe = fed(&bytes).to_keyframe();
        let at = at.index(keyframe.len());
        keyframe[at] ^= 1 << bit;
        prop_assert!(Screen::from_keyframe(&keyframe).is_err());
        prop_assert!(Screen::from_keyframe(&keyframe[..at]).is_err());
    }

    #[test]
    fn garbage_is_not_a_keyframe(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Screen::from_keyframe(&bytes).is_err());
    }

    #[test]
    fn random_bytes_never_cause_a_fault(
        bytes in proptest::collection::vec(any::<u8>(), 0..2000),
        size in size(),
    ) {
        let mut screen = Screen::new(size, LIMITS);
        prop_assert_eq!(screen.advance(&bytes).fault, None);
        prop_assert_eq!(screen.rows().len(), usize::from(size.rows));
    }

    #[test]
    fn resizing_in_the_middle_never_causes_a_fault(
        parts in proptest::collection::vec((stream(), size()), 1..6),
    ) {
        let mut screen = Screen::new(SIZE, LIMITS);
        for (bytes, size) in parts {
            prop_assert_eq!(screen.advance(&bytes).fault, None);
            prop_assert_eq!(screen.resize(size).fault, None);
            prop_assert_eq!(screen.rows().len(), usize::from(size.rows));
            prop_assert!(screen.cursor().row < size.rows && screen.cursor().col < size.cols);
            prop_assert!(screen.cells().iter().all(|row| row.len() == usize::from(size.cols)));
        }
    }

    #[test]
    fn resizing_loses_no_text(
        lines in proptest::collection::vec("[a-z0-9 漢👍]{0,60}", 0..20),
        sizes in proptest::collection::vec(size(), 1..5),
    ) {
        let text = lines.join("\r\n");
        let mut screen = Screen::new(SIZE, ScreenLimits { scrollback_lines: 5000 });
        let _ = screen.advance(text.as_bytes());
        for size in sizes.into_iter().filter(|size| size.cols > 1) {
            let _ = screen.resize(size);
            let all = [screen.scrollback(usize::MAX), screen.rows()].concat().concat();
            let words = |text: &str| text.replace([' ', '\r', '\n'], "");
            prop_assert_eq!(words(&all), words(&text));
        }
        let _ = screen.resize(ScreenSize { cols: 130, rows: 40 });
        let all = [screen.scrollback(usize::MAX), screen.rows()].concat();
        let expected: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
        prop_assert_eq!(&all[..expected.len()], &expected[..]);
    }

    #[test]
    fn a_redraw_recreates_the_screen_on_a_fresh_terminal(bytes in stream()) {
        let mut screen = fed(&bytes);
        screen.release_frame();
        let mut fresh = Screen::new(SIZE, LIMITS);
        let output = fresh.advance(&screen.redraw());
        prop_assert_eq!(output.reply.len(), if screen.modes().resize_reports { output.reply.len() } else { 0 });
        prop_assert_eq!(screen.rows(), fresh.rows());
        prop_assert_eq!(screen.cells(), fresh.cells());
        prop_assert_eq!(screen.cursor(), fresh.cursor());
        prop_assert_eq!(screen.modes(), fresh.modes());
        prop_assert_eq!(screen.is_alt_screen(), fresh.is_alt_screen());
    }

    #[test]
    fn whatever_was_set_can_be_undone(bytes in stream()) {
        let mut screen = fed(&bytes);
        // A sequence that is only half read would swallow the beginning.
        let _ = screen.advance(b"\x18");
        let _ = screen.advance(RESTORE.as_bytes());
        prop_assert_eq!(screen.modes(), Modes::default());
        prop_assert!(!screen.is_alt_screen() && !screen.is_holding());
        let cursor = screen.cursor();
        let _ = screen.advance(b"\x1b]4;1;?\x07\x1b[999;1H\nq");
        let last = screen.rows().pop();
        prop_assert_eq!(last.as_deref(), Some("q"), "no region, plain characters, {:?}", cursor);
    }
}
