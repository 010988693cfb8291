//! What single sequences do: printing, movement, erasure, scrolling, modes, answers.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use ostler_screen::{
    Attrs, CursorShape, MouseEncoding, MouseTracking, Personality, PromptMark, Screen, ScreenEvent,
    ScreenLimits, ScreenSize,
};

fn screen(cols: u16, rows: u16, text: &str) -> Screen {
    let mut screen = Screen::new(ScreenSize { cols, rows }, ScreenLimits { scrollback_lines: 100 });
    assert_eq!(screen.advance(text.as_bytes()).fault, None);
    screen
}

fn rows(cols: u16, height: u16, text: &str) -> Vec<String> {
    screen(cols, height, text).rows()
}

fn place(screen: &Screen) -> (u16, u16) {
    (screen.cursor().row, screen.cursor().col)
}

fn reply(text: &str) -> String {
    reply_as(text, Personality::Ostler)
}

fn reply_as(text: &str, personality: Personality) -> String {
    let size = ScreenSize { cols: 80, rows: 24 };
    let mut screen = Screen::with_personality(size, ScreenLimits::default(), personality);
    String::from_utf8(screen.advance(text.as_bytes()).reply).unwrap()
}

#[test]
fn an_empty_screen_is_a_screen() {
    let screen = screen(80, 24, "");
    assert_eq!(screen.rows(), vec![""; 24]);
    assert_eq!(place(&screen), (0, 0));
    assert!(!screen.is_alt_screen());
}

#[test]
fn the_last_column_wraps_only_when_more_text_comes() {
    let full = screen(5, 2, "abcde");
    assert_eq!(place(&full), (0, 4));
    assert_eq!(rows(5, 2, "abcde\rX"), ["Xbcde", ""]);
    assert_eq!(rows(5, 2, "abcdef"), ["abcde", "f"]);
    assert_eq!(rows(5, 2, "abcde\x1b[?7lfg\x1b[?7h"), ["abcdg", ""]);
    assert_eq!(rows(5, 2, "abcde\x08X"), ["abcXe", ""]);
}

#[test]
fn wide_glyphs_take_two_cells_and_are_never_cut() {
    let wide = screen(6, 2, "漢字a");
    assert_eq!(wide.rows()[0], "漢字a");
    let cells: Vec<String> = wide.cells()[0].iter().map(|cell| cell.text.clone()).collect();
    assert_eq!(cells, ["漢", "", "字", "", "a", " "]);
    assert_eq!(rows(5, 2, "abcd漢"), ["abcd", "漢"]);
    assert_eq!(rows(6, 1, "漢字\x1b[1;2HX"), [" X字"]);
    assert_eq!(rows(6, 1, "漢字\x1b[1;3HX"), ["漢X"]);
    assert_eq!(rows(6, 1, "漢字\x1b[1;2H\x1b[K"), [""]);
    assert_eq!(rows(6, 1, "漢字\x1b[1;2H\x1b[P"), [" 字"]);
    assert_eq!(rows(1, 2, "漢"), ["漢", ""]);
}

#[test]
fn graphemes_are_whole() {
    for (text, cols) in [
        ("👨‍👩‍👧‍👦", 2),
        ("🇩🇪", 2),
        ("❤️", 2),
        ("👍🏽", 2),
        ("1️⃣", 2),
        ("🏳️‍🌈", 2),
        ("e\u{301}", 1),
        ("a\u{308}\u{323}", 1),
        ("\u{1112}\u{1161}\u{11ab}", 2),
        ("❤", 1),
    ] {
        let screen = screen(10, 1, text);
        assert_eq!(screen.rows()[0], text);
        assert_eq!(screen.cursor().col, cols, "{text}");
        assert_eq!(screen.cells()[0][0].text, text);
    }
    assert_eq!(rows(10, 1, "🇩🇪🇫🇷x"), ["🇩🇪🇫🇷x"]);
    assert_eq!(screen(10, 1, "🇩🇪🇫🇷x").cursor().col, 5);
    assert_eq!(rows(10, 1, "a\u{200b}b"), ["ab"], "a zero width space takes no place");
    assert_eq!(rows(10, 1, "ab\x1b[D\u{301}"), ["a\u{301}b"], "a mark after a movement");
}

#[test]
fn invalid_and_cut_utf8() {
    let mut screen = Screen::new(ScreenSize { cols: 10, rows: 1 }, ScreenLimits::default());
    for byte in b"\xe6\xbc\xa2\xff\xe6\xbca\xf0\x9f\x91\x8d" {
        let _ = screen.advance(&[*byte]);
    }
    assert_eq!(screen.rows()[0], "漢\u{fffd}\u{fffd}a👍");
}

#[test]
fn movement_stays_on_the_screen() {
    for (text, expected) in [
        ("\x1b[5;7H", (4, 6)),
        ("\x1b[99;99H", (9, 19)),
        ("\x1b[3;3H\x1b[A\x1b[D", (1, 1)),
        ("\x1b[3;3H\x1b[99A\x1b[99D", (0, 0)),
        ("\x1b[99B\x1b[99C", (9, 19)),
        ("\x1b[3;3H\x1b[2E", (4, 0)),
        ("\x1b[3;3H\x1b[F", (1, 0)),
        ("\x1b[3;3H\x1b[8G", (2, 7)),
        ("\x1b[3;3H\x1b[8d", (7, 2)),
        ("\t", (0, 8)),
        ("\t\t\x1b[Z", (0, 8)),
        ("abc\x1bH\r\t", (0, 3)),
        ("\x1b[3g\t", (0, 19)),
        ("\x1b[2;5r\x1b[?6h\x1b[2;2H", (2, 1)),
        ("\x1b[2;5r\x1b[?6h\x1b[99;2H", (4, 1)),
        ("\x1b[4;4H\x1b7\x1b[H\x1b8", (3, 3)),
        ("\x1b[4;4H\x1b[s\x1b[H\x1b[u", (3, 3)),
    ] {
        assert_eq!(place(&screen(20, 10, text)), expected, "{text:?}");
    }
}

#[test]
fn erasing() {
    let text = "aaaa\r\nbbbb\r\ncccc\x1b[2;3H";
    let after = |sequence: &str| rows(4, 3, &format!("{text}{sequence}"));
    assert_eq!(after("\x1b[J"), ["aaaa", "bb", ""]);
    assert_eq!(after("\x1b[1J"), ["", "   b", "cccc"]);
    assert_eq!(after("\x1b[2J"), ["", "", ""]);
    assert_eq!(after("\x1b[K"), ["aaaa", "bb", "cccc"]);
    assert_eq!(after("\x1b[1K"), ["aaaa", "   b", "cccc"]);
    assert_eq!(after("\x1b[2K"), ["aaaa", "", "cccc"]);
    assert_eq!(after("\x1b[X"), ["aaaa", "bb b", "cccc"]);
    assert_eq!(after("\x1b[P"), ["aaaa", "bbb", "cccc"]);
    assert_eq!(after("\x1b[@"), ["aaaa", "bb b", "cccc"]);
    assert_eq!(after("\x1b[L"), ["aaaa", "", "bbbb"]);
    assert_eq!(after("\x1b[M"), ["aaaa", "cccc", ""]);
    assert_eq!(after("\x1b[4hX\x1b[4l"), ["aaaa", "bbXb", "cccc"]);
    assert_eq!(rows(8, 1, "ab\x1b[3b"), ["abbbb"]);
}

#[test]
fn erased_cells_keep_the_background() {
    let screen = screen(4, 1, "\x1b[41m\x1b[2J");
    assert!(screen.cells()[0].iter().all(|cell| cell.bg == Some([0xf3, 0x8b, 0xa8])));
    assert_eq!(screen.rows()[0], "");
}

#[test]
fn scrolling_keeps_what_leaves_the_top() {
    let scrolled = screen(4, 2, "1\r\n2\r\n3\r\n4");
    assert_eq!(scrolled.rows(), ["3", "4"]);
    assert_eq!(scrolled.scrollback(10), ["1", "2"]);
    assert_eq!(scrolled.scrollback(1), ["2"]);
    let region = screen(4, 4, "a\r\nb\r\nc\r\nd\x1b[2;3r\x1b[3;1H\r\nX");
    assert_eq!(region.rows(), ["a", "c", "X", "d"]);
    assert!(region.scrollback(10).is_empty(), "only the top of the screen is the past");
    assert_eq!(rows(4, 3, "a\r\nb\r\nc\x1b[H\x1bM"), ["", "a", "b"]);
    assert_eq!(rows(4, 3, "a\r\nb\r\nc\x1b[2S"), ["c", "", ""]);
    assert_eq!(rows(4, 3, "a\r\nb\r\nc\x1b[T"), ["", "a", "b"]);
    assert!(screen(4, 2, "1\r\n2\r\n3\x1b[3J").scrollback(10).is_empty());
    assert_eq!(screen(4, 2, "1\r\n2\r\n3\x1b[2J").scrollback(10), ["1"]);
}

#[test]
fn margins_left_and_right() {
    let text = "abcdef\r\nghijkl\r\nmnopqr\x1b[?69h\x1b[2;4s\x1b[3;2H\n";
    assert_eq!(rows(6, 3, text), ["ahijef", "gnopkl", "m   qr"]);
    assert_eq!(rows(6, 2, "\x1b[?69h\x1b[2;4s\x1b[1;2Hwxyz"), [" wxy", " z"]);
}

#[test]
fn the_alternate_screen_leaves_the_main_one_alone() {
    let mut screen = screen(6, 2, "main\x1b[?1049hother");
    assert!(screen.is_alt_screen());
    assert_eq!(screen.rows(), ["    ot", "her"]);
    let _ = screen.advance(b"\r\n\n\n\x1b[?1049l!");
    assert_eq!(screen.rows(), ["main!", ""]);
    assert!(screen.scrollback(10).is_empty());
    let _ = screen.advance(b"\x1b[?1049h");
    assert_eq!(screen.rows(), ["", ""], "it is blank each time");
}

#[test]
fn line_drawing_characters() {
    assert_eq!(rows(6, 1, "\x1b(0lqk\x1b(Bq"), ["┌─┐q"]);
    assert_eq!(rows(6, 1, "\x1b)0\x0elq\x0fl"), ["┌─l"]);
}

#[test]
fn styles() {
    let text =
        "\x1b[1;3;4:3;9;31;48;5;202mA\x1b[0;7;38;2;1;2;3;48:2::4:5:6mB\x1b[mC\x1b[2;5;8;53mD";
    let cells = &screen(8, 1, text).cells()[0];
    assert!(cells[0].attrs.has(Attrs::BOLD) && cells[0].attrs.has(Attrs::ITALIC));
    assert!(cells[0].attrs.has(Attrs::STRIKE) && cells[0].attrs.underline_style() == 3);
    assert_eq!(cells[0].bg, Some([255, 95, 0]));
    assert_eq!((cells[1].fg, cells[1].bg), (Some([1, 2, 3]), Some([4, 5, 6])));
    assert!(cells[1].attrs.has(Attrs::INVERSE) && !cells[1].attrs.has(Attrs::BOLD));
    assert_eq!((cells[2].fg, cells[2].bg, cells[2].attrs), (None, None, Attrs::default()));
    assert!(cells[3].attrs.has(Attrs::DIM) && cells[3].attrs.has(Attrs::OVERLINE));
}

#[test]
fn modes_are_what_the_program_asked_for() {
    let modes = screen(8, 1, "\x1b[?1h\x1b=\x1b[?2004h\x1b[>5u\x1b[?1002;1006h\x1b[?1004h").modes();
    assert!(modes.application_cursor && modes.application_keypad && modes.bracketed_paste);
    assert_eq!((modes.kitty_keyboard, modes.mouse), (5, MouseTracking::Drag));
    assert_eq!((modes.mouse_encoding, modes.focus), (MouseEncoding::Sgr, true));
    let modes = screen(8, 1, "\x1b[>5u\x1b[>1u\x1b[<u\x1b[=2;2u\x1b[?1000h\x1b[?1000l").modes();
    assert_eq!((modes.kitty_keyboard, modes.mouse), (7, MouseTracking::Off));
    let alt = screen(8, 1, "\x1b[>5u\x1b[?1049h").modes();
    assert_eq!(alt.kitty_keyboard, 0, "each screen has flags of its own");
    let shaped = screen(8, 1, "\x1b[4 q\x1b[?25l").cursor();
    assert_eq!((shaped.shape, shaped.visible), (CursorShape::Underline, false));
}

#[test]
fn events() {
    let mut screen = Screen::new(ScreenSize { cols: 20, rows: 4 }, ScreenLimits::default());
    let text = "\x07\x07\x1b]0;one\x07\x1b]2;two\x1b\\\x1b]133;A\x07$ \x1b]133;B\x07\x1b]133;C\x07\x1b]133;D;127\x07";
    let output = screen.advance(text.as_bytes());
    assert_eq!(
        output.events,
        [
            ScreenEvent::Bell,
            ScreenEvent::Title("two".to_owned()),
            ScreenEvent::Mark(PromptMark::Prompt),
            ScreenEvent::Mark(PromptMark::Command),
            ScreenEvent::Mark(PromptMark::Output),
            ScreenEvent::Mark(PromptMark::End { exit: Some(127) }),
        ]
    );
    let quiet = screen.advance(
        b"\x1b]52;c;aGk=\x07\x1b]8;;http://x\x07link\x1b]8;;\x07\x1b_Gi=1;AAAA\x1b\\\x1bPq#0\x1b\\",
    );
    assert!(quiet.events.is_empty() && quiet.reply.is_empty());
    assert_eq!(screen.rows()[0], "$ link");
}

/// A.3: "answers what a real terminal answers".
#[test]
fn answers() {
    for (question, answer) in [
        ("\x1b[c", "\x1b[?62;22c"),
        ("\x1b[0c", "\x1b[?62;22c"),
        ("\x1b[>c", "\x1b[>1;100;0c"),
        ("\x1b[5n", "\x1b[0n"),
        ("\x1b[3;7H\x1b[6n", "\x1b[3;7R"),
        ("\x1b[3;9r\x1b[?6h\x1b[2;2H\x1b[6n", "\x1b[2;2R"),
        ("\x1b[?6n", "\x1b[?1;1R"),
        ("\x1b[?2004$p", "\x1b[?2004;2$y"),
        ("\x1b[?2004h\x1b[?2004$p", "\x1b[?2004;1$y"),
        ("\x1b[?2026$p", "\x1b[?2026;2$y"),
        ("\x1b[?2027$p", "\x1b[?2027;3$y"),
        ("\x1b[?1006h\x1b[?1006$p", "\x1b[?1006;1$y"),
        ("\x1b[?1049$p", "\x1b[?1049;2$y"),
        ("\x1b[?4242$p", "\x1b[?4242;0$y"),
        ("\x1b[4$p", "\x1b[4;2$y"),
        ("\x1b[?u", "\x1b[?0u"),
        ("\x1b[>3u\x1b[?u", "\x1b[?3u"),
        ("\x1b]10;?\x07", "\x1b]10;rgb:cdcd/d6d6/f4f4\x07"),
        ("\x1b]11;?\x1b\\", "\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\"),
        ("\x1b]12;?\x07", "\x1b]12;rgb:f5f5/e0e0/dcdc\x07"),
        ("\x1b]4;1;?\x07", "\x1b]4;1;rgb:f3f3/8b8b/a8a8\x07"),
        ("\x1b]4;1;#010203\x07\x1b]4;1;?\x07", "\x1b]4;1;rgb:0101/0202/0303\x07"),
        ("\x1b]4;1;#010203\x07\x1b]104\x07\x1b]4;1;?\x07", "\x1b]4;1;rgb:f3f3/8b8b/a8a8\x07"),
        ("\x1b]10;?;?\x07", "\x1b]10;rgb:cdcd/d6d6/f4f4\x07\x1b]11;rgb:1e1e/1e1e/2e2e\x07"),
        ("\x1bP+q544e\x1b\\", "\x1bP1+r544e=787465726d2d323536636f6c6f72\x1b\\"),
        ("\x1bP+q436f;6b626173\x1b\\", "\x1bP1+r436f=323536\x1b\\\x1bP0+r6b626173\x1b\\"),
        ("\x1b[1;31m\x1bP$qm\x1b\\", "\x1bP1$r0;1;31m\x1b\\"),
        ("\x1bP$q q\x1b\\", "\x1bP1$r0 q\x1b\\"),
        ("\x1b[18t", "\x1b[8;24;80t"),
        ("\x1b[14t", "\x1b[4;384;640t"),
        ("\x1b[?996n", "\x1b[?997;1n"),
    ] {
        assert_eq!(reply(question), answer, "{question:?}");
    }
    assert!(reply("\x1b[>q").starts_with("\x1bP>|ostler("));
}

/// B 1.16: the colours 10 and 11 and `CSI 5 n`, nothing else.
#[test]
fn answers_under_the_agent_tty_name() {
    let strict = |question: &str| reply_as(question, Personality::AgentTty);
    assert_eq!(strict("\x1b[5n"), "\x1b[0n");
    assert_eq!(strict("\x1b]10;?\x07"), "\x1b]10;rgb:cdcd/d6d6/f4f4\x07");
    assert_eq!(strict("\x1b]11;?\x1b\\"), "\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\");
    for question in [
        "\x1b[c",
        "\x1b[>c",
        "\x1b[6n",
        "\x1b[?6n",
        "\x1b[>q",
        "\x1b[?2004$p",
        "\x1b[?u",
        "\x1b]12;?\x07",
        "\x1b]4;1;?\x07",
        "\x1bP+q544e\x1b\\",
        "\x1b[18t",
        "\x1b[?996n",
        "\x1b[?2048h",
        "\x1bP$qm\x1b\\",
    ] {
        assert_eq!(strict(question), "", "{question:?}");
    }
}

#[test]
fn a_program_that_asked_is_told_of_a_resize() {
    let mut screen = screen(80, 24, "\x1b[?2048h");
    let output = screen.resize(ScreenSize { cols: 100, rows: 30 });
    assert_eq!(output.reply, b"\x1b[48;30;100;480;800t");
}

#[test]
fn a_resize_wraps_text_anew_and_keeps_the_cursor_on_its_letter() {
    let mut screen = screen(10, 4, "one two three four five\r\n$ ls");
    let _ = screen.resize(ScreenSize { cols: 30, rows: 4 });
    assert_eq!(screen.rows(), ["one two three four five", "$ ls", "", ""]);
    assert_eq!(place(&screen), (1, 4));
    let _ = screen.resize(ScreenSize { cols: 5, rows: 4 });
    assert_eq!(screen.rows(), ["ree f", "our f", "ive", "$ ls"]);
    assert_eq!(screen.scrollback(9), ["one t", "wo th"]);
    let _ = screen.resize(ScreenSize { cols: 30, rows: 2 });
    assert_eq!(screen.rows(), ["one two three four five", "$ ls"]);
    let _ = screen.resize(ScreenSize { cols: 30, rows: 1 });
    assert_eq!((screen.rows(), screen.scrollback(9).len()), (vec!["$ ls".to_owned()], 1));
    let _ = screen.resize(ScreenSize { cols: 30, rows: 3 });
    assert_eq!(screen.rows(), ["one two three four five", "$ ls", ""]);
}

#[test]
fn a_redraw_does_not_fill_the_gap_before_a_wide_glyph() {
    let original = screen(4, 2, "abc漢\rX");
    assert_eq!(original.rows(), ["abc", "X"]);
    let mut copy = screen(4, 2, "");
    let _ = copy.advance(&original.redraw());
    assert_eq!(copy.rows(), ["abc", "X"]);
}

#[test]
fn the_generation_tells_of_changes_that_can_be_seen() {
    let mut screen = screen(10, 2, "");
    let mut grows = |bytes: &str| {
        let before = screen.generation();
        let _ = screen.advance(bytes.as_bytes());
        screen.generation() > before
    };
    assert!(grows("a") && grows("\x1b[H") && grows("\x1b[?25l") && grows("\r"));
    assert!(!grows("\x1b]0;title\x07") && !grows("\x07") && !grows("\x1b[c") && !grows("\x1b["));
}

#[test]
fn sizes_that_cannot_be_are_brought_to_ones_that_can() {
    let mut tiny = Screen::new(ScreenSize { cols: 0, rows: 0 }, ScreenLimits::default());
    assert_eq!(tiny.size(), ScreenSize { cols: 1, rows: 1 });
    let _ = tiny.resize(ScreenSize { cols: u16::MAX, rows: u16::MAX });
    assert_eq!(tiny.size(), ScreenSize { cols: u16::MAX, rows: 16 });
}

#[test]
fn f6_3_a_prompt_begins_on_a_fresh_line() {
    assert_eq!(rows(10, 3, "out\x1b]133;A\x07$ "), ["out", "$", ""]);
    assert_eq!(rows(10, 3, "out\r\n\x1b]133;A\x07$ "), ["out", "$", ""]);
    assert_eq!(rows(3, 3, "out\x1b]133;A\x07$ "), ["out", "$", ""]);
}

#[test]
fn f6_3_protected_text_stays_when_others_are_erased_selectively() {
    let text = "ab\x1b[1\"qKEEP\x1b[0mX\x1b[0\"qcd";
    assert_eq!(rows(12, 2, &format!("{text}\x1b[?2K")), ["  KEEPX", ""]);
    assert_eq!(rows(12, 2, &format!("{text}\x1b[?2J")), ["  KEEPX", ""]);
    assert_eq!(rows(12, 2, &format!("{text}\x1b[1G\x1b[?K")), ["  KEEPX", ""]);
    assert_eq!(rows(12, 2, &format!("{text}\x1b[2K")), ["", ""]);
}

#[test]
fn f6_3_a_single_shift_holds_for_one_character() {
    assert_eq!(rows(10, 1, "\x1b*0\x1bNqq"), ["─q"]);
    assert_eq!(rows(10, 1, "\x1b+0\x1bOxx"), ["│x"]);
}

#[test]
fn f6_3_a_mark_at_a_full_line_is_on_what_was_printed_last_and_as_agent_tty_one_before() {
    assert_eq!(rows(3, 1, "abc\u{301}"), ["abc\u{301}"]);
    let size = ScreenSize { cols: 3, rows: 1 };
    let mut screen = Screen::with_personality(size, ScreenLimits::default(), Personality::AgentTty);
    let _ = screen.advance("abc\u{301}".as_bytes());
    assert_eq!(screen.rows(), ["ab\u{301}c"]);
}

#[test]
fn a_wide_glyph_wrapped_at_the_right_margin_is_redrawn_in_its_place() {
    let wrapped = screen(20, 6, "\x1b[?69h\x1b[5;10s\x1b[9;a漢");
    let redraw = String::from_utf8(wrapped.redraw()).unwrap();
    assert_eq!(rows(20, 6, &redraw), wrapped.rows());
    assert_eq!(wrapped.rows()[1], "    漢");
}

#[test]
fn a_cursor_saved_in_origin_mode_comes_back_into_a_region_set_since() {
    let restored = screen(20, 6, "\x1b[?6h\x1b[6;3H\x1b7\x1b[2;5r\x1b8");
    assert_eq!(place(&restored), (4, 2));
    let redraw = String::from_utf8(restored.redraw()).unwrap();
    assert_eq!(place(&screen(20, 6, &redraw)), (4, 2));
    let wider = "\x1b[r\x1b8";
    assert_eq!(place(&screen(20, 6, &format!("{redraw}{wider}"))), (5, 2), "saved where it was");
}

#[test]
fn a_glyph_in_the_last_column_that_a_later_character_widens_goes_to_the_next_line() {
    let full = "x".repeat(19);
    for heart in ["❤\u{fe0f}", "\u{1f1e9}\u{1f1ea}"] {
        let widened = screen(20, 6, &format!("{full}{heart}"));
        assert_eq!(widened.rows()[..2], [full.clone(), heart.to_owned()]);
        assert_eq!(place(&widened), (1, 2));
        let redraw = String::from_utf8(widened.redraw()).unwrap();
        assert_eq!(rows(20, 6, &redraw), widened.rows());
    }
    let narrow = screen(20, 6, &format!("\x1b[?7l{full}❤\u{fe0f}"));
    assert_eq!(narrow.rows()[0], format!("{full}❤"), "no line to go to");
}

#[test]
fn a_wide_glyph_at_the_end_of_a_row_stays_whole_when_a_cell_before_it_is_deleted() {
    let shifted = screen(6, 2, "abcd漢\r\x1b[P");
    let texts: Vec<String> = shifted.cells()[0].iter().map(|cell| cell.text.clone()).collect();
    assert_eq!(texts, ["b", "c", "d", "漢", "", " "]);
}

#[test]
fn in_origin_mode_a_tab_back_stops_at_the_left_margin() {
    let tabbed = screen(20, 6, "\x1b[?6h\x1b[?69h\x1b[5;10s\x1b[Z");
    assert_eq!(place(&tabbed), (0, 4));
}
