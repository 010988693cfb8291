use super::*;

const TOKEN: &str = "a1b2c3";

/// Feeds the chunks and lets time pass afterwards.
fn through(runs: &mut Runs, chunks: &[&[u8]]) -> (String, Vec<Option<i32>>) {
    let (mut shown, mut ends) = (Vec::new(), Vec::new());
    let now = Instant::now();
    let mut pass = |piece| match piece {
        OutputPiece::Bytes(bytes) => shown.extend_from_slice(&bytes),
        OutputPiece::Done(done) => ends.push(done.exit),
    };
    for chunk in chunks {
        runs.filter_output(chunk, now, &mut pass);
    }
    runs.release_held(now + 2 * SENTINEL_HOLD_TIMEOUT, false, &mut pass);
    (String::from_utf8(shown).unwrap(), ends)
}

fn armed(before: &str) -> Runs {
    let mut runs = Runs::default();
    runs.note_passed(before.as_bytes());
    runs.arm_run(TOKEN, "echo hi", false, ShellKind::Posix);
    runs
}

const LINE: &str = "printf '\\033_os:a1b2c3:%d\\033\\134' $?";
const END: &str = "\x1b_os:a1b2c3:3\x1b\\";

fn bash() -> String {
    format!("echo hi\r\n\x1b[?2004l\rhi\r\n\x1b[?2004h$  {LINE}\r\n\x1b[?2004l\r{END}\x1b[?2004h$ ")
}

#[test]
fn a_shell_with_a_line_editor_shows_one_prompt_and_no_trace() {
    let (shown, ends) = through(&mut armed("$ "), &[bash().as_bytes()]);
    assert_eq!(ends, [Some(3)]);
    let expected = "echo hi\r\n\x1b[?2004l\rhi\r\n\x1b[?2004h$  \x08\x1b[?2004l\x1b[?2004h";
    assert_eq!(shown, expected);
}

#[test]
fn the_terminals_own_echo_comes_before_the_output() {
    let text = format!("echo hi\r\n {LINE}\r\nhi\r\n$ {END}$ ");
    let (shown, ends) = through(&mut armed("$ "), &[text.as_bytes()]);
    assert_eq!((shown.as_str(), ends), ("echo hi\r\n \x08hi\r\n$ ", vec![Some(3)]));
}

#[test]
fn output_without_a_line_break_at_its_end_stays() {
    let text = format!("printf foo\r\nfoo$  {LINE}\r\n{END}$ ");
    let (shown, _) = through(&mut armed("$ "), &[text.as_bytes()]);
    assert_eq!(shown, "printf foo\r\nfoo$  \x08");
}

#[test]
fn another_prompt_gets_a_line_of_its_own() {
    let text = format!("false\r\n[1]$  {LINE}\r\n{END}[0]$ ");
    let (shown, _) = through(&mut armed("[0]$ "), &[text.as_bytes()]);
    assert_eq!(shown, "false\r\n[1]$  \x08\r\n[0]$ ");
}

#[test]
fn it_does_not_matter_how_the_output_is_cut() {
    let text = bash();
    let (whole, _) = through(&mut armed("$ "), &[text.as_bytes()]);
    for at in 0..text.len() {
        let (one, two) = text.as_bytes().split_at(at);
        let (shown, ends) = through(&mut armed("$ "), &[one, two]);
        assert_eq!((shown.as_str(), ends), (whole.as_str(), vec![Some(3)]), "cut at {at}");
    }
    let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
    assert_eq!(through(&mut armed("$ "), &bytes).0, whole);
}

#[test]
fn a_wrapped_echo_is_recognised() {
    let (one, two) = LINE.split_at(17);
    let text = format!("$  {one} \r{two}\r\n{END}$ ");
    let (shown, ends) = through(&mut armed(""), &[text.as_bytes()]);
    assert_eq!((shown.as_str(), ends), ("$  \x08", vec![Some(3)]));
}

#[test]
fn f6_2_8_a_line_that_ends_at_the_margin_shows_nothing() {
    // As bash paints it at 40 columns: the last character once more.
    let text = format!("$  {LINE} \r\x1b[A\x1b[C\x1b[C\x1b[K?\r\n{END}$ ");
    let (shown, ends) = through(&mut armed(""), &[text.as_bytes()]);
    assert_eq!((shown.as_str(), ends), ("$  \x08", vec![Some(3)]));
    // Another line that begins the same is ordinary output.
    let text = format!("{LINE} x\r\n");
    assert_eq!(through(&mut armed(""), &[text.as_bytes()]).0, text);
}

#[test]
fn everything_else_passes_unchanged() {
    for text in ["printf 'hello'\r\n", "\x1b_other\x1b\\", "\x1b_os:ffffff:0\x1b\\", "pppp\x1b"] {
        assert_eq!(through(&mut armed(""), &[text.as_bytes()]).0, text);
    }
    let mut runs = Runs::default();
    assert!(!runs.is_active());
    assert_eq!(through(&mut runs, &[b"plain"]).0, "plain");
}

#[test]
fn what_a_command_printed_is_told() {
    let mut runs = Runs::default();
    runs.note_passed(b"user@host:~$ ");
    runs.arm_run(TOKEN, "seq 2", true, ShellKind::Posix);
    let text =
        format!("seq 2\r\n\x1b[?2004l\r1\r\n2\r\n\x1b[1muser@host\x1b[m:~$  {LINE}\r\n{END}");
    let mut output = None;
    runs.filter_output(text.as_bytes(), Instant::now(), &mut |piece| {
        if let OutputPiece::Done(done) = piece {
            output = done.output;
        }
    });
    assert_eq!(output, Some(("1\n2\n".to_owned(), false)));
}

#[test]
fn f6_2_1_a_run_that_is_typed_ahead_of_the_end_of_another_keeps_its_end() {
    let line = |token: &str| LINE.replace(TOKEN, token);
    let end = |token: &str| END.replace(TOKEN, token);
    let both = || {
        let mut runs = armed("$ ");
        runs.arm_run("d4e5f6", "echo second", false, ShellKind::Posix);
        runs
    };
    // The terminal echoes what is typed while the first command runs, then readline does again.
    let text = format!(
        "sleep 3\r\n {0}\r\necho second\r\n {1}\r\n$  {0}\r\n{2}$ echo second\r\nsecond\r\n$  {1}\r\n{3}$ ",
        line(TOKEN),
        line("d4e5f6"),
        end(TOKEN),
        end("d4e5f6"),
    );
    let (whole, ends) = through(&mut both(), &[text.as_bytes()]);
    assert_eq!(ends, [Some(3), Some(3)]);
    assert!(!whole.contains("printf") && !whole.contains("os:"), "{whole:?}");
    assert!(whole.contains("echo second\r\nsecond\r\n$ "), "{whole:?}");
    for at in 0..text.len() {
        let (one, two) = text.as_bytes().split_at(at);
        let (shown, ends) = through(&mut both(), &[one, two]);
        assert_eq!((shown.as_str(), ends.len()), (whole.as_str(), 2), "cut at {at}");
    }
}

#[test]
fn a_prompt_that_the_next_command_follows_at_once_is_known_after_output_without_a_newline() {
    let mut runs = Runs::default();
    runs.note_passed(b"$ ");
    runs.arm_run(TOKEN, "true", false, ShellKind::Posix);
    let typed = |command: &str| format!("{command}\r\n");
    let mut output = None;
    let mut feed = |runs: &mut Runs, text: String| {
        runs.filter_output(text.as_bytes(), Instant::now(), &mut |piece| {
            if let OutputPiece::Done(done) = piece {
                output = done.output;
            }
        });
    };
    feed(&mut runs, format!("{}$  {LINE}\r\n{END}", typed("true")));
    // Each next one is typed before the prompt of the last has settled.
    for (command, printed) in [("printf x", "x"), ("echo plain", "plain\r\n")] {
        runs.arm_run(TOKEN, command, true, ShellKind::Posix);
        feed(&mut runs, format!("$ {}{printed}$  {LINE}\r\n{END}", typed(command)));
    }
    assert_eq!(output, Some(("plain\n".to_owned(), false)));
}

#[test]
fn f6_2_2_fish_is_asked_for_its_own_status() {
    let typed = Runs::default().arm_run(TOKEN, "ls", false, ShellKind::of_program("/usr/bin/fish"));
    let typed = String::from_utf8(typed).unwrap();
    assert!(typed.ends_with("$status\n") && !typed.contains("$?"), "{typed}");
    assert_eq!(ShellKind::of_program("bash"), ShellKind::Posix);
}

#[test]
fn f6_2_8_a_program_that_is_no_shell_shows_nothing_of_it() {
    // The terminal's echo, then `cat` prints what it read.
    let text = format!("echo hi\r\n {LINE}\r\necho hi\r\n {LINE}\r\n");
    let (shown, ends) = through(&mut armed(""), &[text.as_bytes()]);
    assert_eq!((shown.as_str(), ends), ("echo hi\r\n \x08echo hi\r\n \x08", vec![]));
}

proptest::proptest! {
    #[test]
    fn nothing_is_lost_without_a_sentinel(chunks: Vec<Vec<u8>>) {
        let mut runs = armed("$ ");
        let mut shown = Vec::new();
        let now = Instant::now();
        let mut pass = |piece| if let OutputPiece::Bytes(bytes) = piece { shown.extend(bytes) };
        for chunk in &chunks {
            runs.filter_output(chunk, now, &mut pass);
        }
        runs.release_held(now, true, &mut pass);
        proptest::prop_assert_eq!(shown, chunks.concat());
    }
}
