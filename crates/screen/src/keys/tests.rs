use super::*;
use crate::term::modes::{MouseEncoding, MouseTracking};

fn strict(key: &str) -> Result<String, KeyError> {
    let modes = Modes { application_cursor: true, kitty_keyboard: 31, ..Modes::default() };
    encode_key(key, &modes, Personality::AgentTty).map(|bytes| String::from_utf8(bytes).unwrap())
}

fn typed(key: &str, modes: Modes) -> String {
    let bytes = encode_key(key, &modes, Personality::Ostler).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn plain(key: &str) -> String {
    typed(key, Modes::default())
}

fn kitty(key: &str, flags: u8) -> String {
    typed(key, Modes { kitty_keyboard: flags, ..Modes::default() })
}

/// B 1.15, in any mode.
#[test]
fn agent_tty_keys() {
    for (key, bytes) in [
        ("Enter", "\r"),
        ("enter", "\r"),
        ("Tab", "\t"),
        ("Escape", "\x1b"),
        ("Backspace", "\x7f"),
        ("Space", " "),
        ("Up", "\x1b[A"),
        ("Down", "\x1b[B"),
        ("Right", "\x1b[C"),
        ("Left", "\x1b[D"),
        ("Home", "\x1b[H"),
        ("End", "\x1b[F"),
        ("Insert", "\x1b[2~"),
        ("Delete", "\x1b[3~"),
        ("PageUp", "\x1b[5~"),
        ("PageDown", "\x1b[6~"),
        ("F1", "\x1bOP"),
        ("F4", "\x1bOS"),
        ("F5", "\x1b[15~"),
        ("F12", "\x1b[24~"),
        ("Ctrl+Up", "\x1b[1;5A"),
        ("Alt+Shift+Left", "\x1b[1;4D"),
        ("Ctrl+Alt+Shift+End", "\x1b[1;8F"),
        ("Shift+F2", "\x1b[1;2Q"),
        ("Ctrl+Delete", "\x1b[3;5~"),
        ("Shift+Tab", "\x1b[Z"),
        ("Alt+x", "\x1bx"),
        ("Alt+Enter", "\x1b\r"),
        ("Ctrl+c", "\x03"),
        ("CTRL+C", "\x03"),
        ("Ctrl+Alt+c", "\x1b\x03"),
        ("Ctrl+Space", "\0"),
        ("Ctrl+@", "\0"),
        ("Ctrl+[", "\x1b"),
        ("Ctrl+\\", "\x1c"),
        ("Ctrl+]", "\x1d"),
        ("Ctrl+^", "\x1e"),
        ("Ctrl+_", "\x1f"),
        ("Ctrl+?", "\x7f"),
        ("Shift+a", "A"),
        ("a", "a"),
        ("A", "A"),
        ("~", "~"),
        ("-", "-"),
    ] {
        assert_eq!(strict(key).as_deref(), Ok(bytes), "{key}");
    }
}

#[test]
fn agent_tty_refuses() {
    for key in [
        "Ctrl+Enter",
        "Shift+Enter",
        "Ctrl+Tab",
        "Shift+1",
        "hello",
        "é",
        "漢",
        "+",
        "Ctrl++",
        "C-c",
        "",
        "Ctrl",
        "Ctrl+",
        "Meta+x",
        "Super+x",
        "F13",
        "F0",
        "F01",
        "Click@1,1",
        "Esc",
        "^C",
        "x+Ctrl",
        "\n",
    ] {
        assert!(strict(key).is_err(), "{key}");
    }
    assert_eq!(
        strict("Ctrl+ctrl+c"),
        Err(KeyError::Twice { key: "Ctrl+ctrl+c".into(), modifier: "Ctrl" })
    );
}

#[test]
fn every_listed_name_is_a_key_under_both_names() {
    for name in NAMES {
        assert_eq!(strict(name).unwrap(), plain(name));
    }
}

/// A.3: "no application cursor mode".
#[test]
fn application_cursor_keys_are_sent_when_the_program_asked() {
    let modes = Modes { application_cursor: true, ..Modes::default() };
    assert_eq!(typed("Up", modes), "\x1bOA");
    assert_eq!(typed("Home", modes), "\x1bOH");
    assert_eq!(typed("Ctrl+Up", modes), "\x1b[1;5A");
    assert_eq!(typed("PageUp", modes), "\x1b[5~");
    assert_eq!(plain("Up"), "\x1b[A");
}

/// A.3: "no `C-c` spelling, no non-ASCII".
#[test]
fn further_spellings() {
    for (key, bytes) in [
        ("C-c", "\x03"),
        ("^C", "\x03"),
        ("M-x", "\x1bx"),
        ("C-M-x", "\x1b\x18"),
        ("S-Tab", "\x1b[Z"),
        ("BTab", "\x1b[Z"),
        ("Esc", "\x1b"),
        ("Return", "\r"),
        ("PgDn", "\x1b[6~"),
        ("+", "+"),
        ("Ctrl+-", "\x1b[27;5;45~"),
        ("é", "é"),
        ("漢", "漢"),
        ("👨‍👩‍👧", "👨‍👩‍👧"),
        ("Alt+é", "\x1bé"),
        ("Shift+é", "É"),
        ("F13", "\x1b[25~"),
        ("Ctrl+/", "\x1f"),
    ] {
        let modes = Modes { modify_other_keys: 1, ..Modes::default() };
        assert_eq!(typed(key, modes), bytes, "{key}");
    }
    assert!(encode_key("Ctrl+-", &Modes::default(), Personality::Ostler).is_err());
    assert!(encode_key("hello", &Modes::default(), Personality::Ostler).is_err());
}

/// A.3: "no Kitty protocol".
#[test]
fn k1_ctrl_c_is_not_ctrl_shift_c() {
    assert_eq!(kitty("Ctrl+C", 1), "\x1b[99;5u");
    assert_eq!(kitty("Ctrl+C", 1), kitty("Ctrl+c", 1));
    assert_eq!(kitty("Ctrl+Shift+C", 1), "\x1b[99;6u");
    assert_eq!(kitty("Alt+C", 1), "\x1b[99;4u");
}

#[test]
fn the_kitty_protocol_is_spoken_when_the_program_asked() {
    for (key, flags, bytes) in [
        ("Escape", 1, "\x1b[27u"),
        ("Ctrl+c", 1, "\x1b[99;5u"),
        ("C-C", 1, "\x1b[99;5u"),
        ("Ctrl+Shift+c", 1, "\x1b[99;6u"),
        ("Alt+x", 1, "\x1b[120;3u"),
        ("Shift+Enter", 1, "\x1b[13;2u"),
        ("Ctrl+Tab", 1, "\x1b[9;5u"),
        ("Shift+Tab", 1, "\x1b[9;2u"),
        ("Super+a", 1, "\x1b[97;9u"),
        ("Enter", 1, "\r"),
        ("a", 1, "a"),
        ("A", 1, "A"),
        ("é", 1, "é"),
        ("Up", 1, "\x1b[A"),
        ("F3", 1, "\x1b[13~"),
        ("F13", 1, "\x1b[57376u"),
        ("Enter", 8, "\x1b[13u"),
        ("a", 8, "\x1b[97u"),
        ("A", 8, "\x1b[97;2u"),
        ("A", 8 | 4, "\x1b[97:65;2u"),
        ("a", 8 | 16, "\x1b[97;;97u"),
        ("A", 8 | 16, "\x1b[97;2;65u"),
        ("Ctrl+a", 8 | 16, "\x1b[97;5u"),
        ("Escape", 2, "\x1b"),
    ] {
        assert_eq!(kitty(key, flags), bytes, "{key} with {flags}");
    }
}

/// A.3: "no mouse".
#[test]
fn the_mouse_follows_the_modes() {
    let modes = |mouse, mouse_encoding| Modes { mouse, mouse_encoding, ..Modes::default() };
    let sgr = modes(MouseTracking::Click, MouseEncoding::Sgr);
    assert_eq!(typed("Click@10,4", sgr), "\x1b[<0;11;5M\x1b[<0;11;5m");
    assert_eq!(typed("Ctrl+RightClick@0,0", sgr), "\x1b[<18;1;1M\x1b[<18;1;1m");
    assert_eq!(typed("WheelDown@3,3", sgr), "\x1b[<65;4;4M");
    assert_eq!(
        typed("Click@0,0", modes(MouseTracking::Click, MouseEncoding::Legacy)),
        "\x1b[M !!\x1b[M#!!"
    );
    assert_eq!(typed("Click@0,0", modes(MouseTracking::Press, MouseEncoding::Legacy)), "\x1b[M !!");
    assert_eq!(
        typed("Press@1,2", modes(MouseTracking::Click, MouseEncoding::Urxvt)),
        "\x1b[32;2;3M"
    );
    assert_eq!(
        typed("Press@1,2", modes(MouseTracking::Click, MouseEncoding::Pixels)),
        "\x1b[<0;12;40M"
    );
    assert_eq!(typed("Drag@1,2", modes(MouseTracking::Drag, MouseEncoding::Sgr)), "\x1b[<32;2;3M");
    assert_eq!(
        typed("Move@1,2", modes(MouseTracking::Motion, MouseEncoding::Sgr)),
        "\x1b[<35;2;3M"
    );
    let refused = [
        ("Click@1,1", modes(MouseTracking::Off, MouseEncoding::Sgr)),
        ("Move@1,1", sgr),
        ("Drag@1,1", sgr),
        ("Click@300,1", modes(MouseTracking::Click, MouseEncoding::Legacy)),
    ];
    for (key, modes) in refused {
        let error = encode_key(key, &modes, Personality::Ostler).unwrap_err();
        assert!(matches!(error, KeyError::NoBytes { .. }), "{key}: {error}");
    }
}

#[test]
fn a_paste_cannot_leave_its_brackets() {
    assert_eq!(encode_paste("a\nb", false), b"a\nb");
    assert_eq!(encode_paste("a\nb", true), b"\x1b[200~a\nb\x1b[201~");
    let tricky = "x\x1b[20\x1b[201~1~; rm -r";
    assert_eq!(encode_paste(tricky, true), b"\x1b[200~x; rm -r\x1b[201~");
}
