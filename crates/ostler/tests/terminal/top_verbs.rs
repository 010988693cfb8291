//! What the dashboard does, not only shows: typing, pasting, replying, stopping, searching, marking.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::stage::{Name, Stage, is_alive, kill, until};
use super::top::{keys, seat, seat_of, select, shows, subject};

const SESSION: &str = "5b1e0c52-8a5e-4b8e-9a55-d0a3a0c3c001";

/// An agent that keeps Claude Code's files, on a terminal, and what it took.
pub(super) fn start_agent(stage: &Stage, options: &[&str]) -> (String, PathBuf) {
    let record = stage.home.join("record");
    let files = format!("claude={}", stage.home.join(".claude").display());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/terminal/fake_agent.py");
    let mut command = vec!["python3", script.to_str().unwrap(), record.to_str().unwrap(), &files];
    command.extend(options);
    let terminal = subject(stage, "parser", &command);
    until("the agent is linked to its terminal", || {
        let shown = stage.run(&["show", SESSION, "--json"]).stdout;
        let shown: Value = serde_json::from_str(&shown).unwrap_or_default();
        shown["result"]["session"]["linked"][0]["id"] == *terminal
            || shown["result"]["linked"][0]["id"] == *terminal
    });
    (terminal, record)
}

pub(super) fn prompts(record: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(record).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter_map(|line| Some(line["prompt"].as_str()?.to_owned())).collect()
}

/// Writes a reply to the agent's session and sends it.
fn reply(stage: &Stage, seat: &str, text: &str) {
    select(stage, seat, "agent:claude");
    shows(stage, seat, "▌");
    keys(stage, seat, &["r"]);
    shows(stage, seat, "Enter sends");
    stage.ok(&["type", seat, text]);
    shows(stage, seat, text);
    keys(stage, seat, &["Enter"]);
}

#[test]
fn row_09_the_preview_switches_while_output_floods() {
    let stage = Stage::new(Name::Ostler);
    subject(&stage, "flood", &["/bin/bash", "-c", "x=ing; while :; do echo $RANDOM flood$x; done"]);
    subject(&stage, "quiet", &["/bin/bash", "-c", "x=QUIET; echo ALL $x HERE; cat"]);
    let seat = seat(&stage, (120, 40), "");
    for _ in 0..3 {
        select(&stage, &seat, "flood");
        shows(&stage, &seat, "flooding");
        keys(&stage, &seat, &["Escape"]);
        select(&stage, &seat, "quiet");
        shows(&stage, &seat, "ALL QUIET HERE");
        assert!(!stage.screen(&seat).contains("flooding"), "{}", stage.screen(&seat));
        keys(&stage, &seat, &["Escape"]);
    }
}

#[test]
fn escape_and_the_next_key_in_one_write_are_both_heard() {
    let stage = Stage::new(Name::Ostler);
    let script = "stty raw -echo; echo READY; cat -v";
    let typist = subject(&stage, "typist", &["/bin/bash", "-c", script]);
    let seat = seat(&stage, (120, 40), "");
    let both = |text: &str| stage.ok(&["type", &seat, &format!("\u{1b}{text}")]);
    select(&stage, &seat, "first");
    // In a filtered list, and while a filter is written.
    for filter in ["second", "third"] {
        both(&format!("/{filter}"));
        shows(&stage, &seat, &format!("/{filter}"));
    }
    keys(&stage, &seat, &["Enter", "Escape", "S"]);
    shows(&stage, &seat, "search:");
    both("/fourth");
    shows(&stage, &seat, "/fourth");
    keys(&stage, &seat, &["Enter", "Escape", "?"]);
    shows(&stage, &seat, "any key goes back");
    both("/typist");
    shows(&stage, &seat, "/typist");
    keys(&stage, &seat, &["Enter"]);
    shows(&stage, &seat, "READY");
    keys(&stage, &seat, &["i"]);
    shows(&stage, &seat, "TYPING");
    // Behind Escape, what ends typing does so, and the Escape is the program's.
    both("\u{1d}");
    stage.ok(&["wait", &typist, "--text", "^["]);
    until("the list again", || !stage.screen(&seat).contains("TYPING"));
    assert!(!stage.screen(&typist).contains("^]"), "{}", stage.screen(&typist));
    keys(&stage, &seat, &["i"]);
    shows(&stage, &seat, "TYPING");
    // Keys that programs cycle their modes by.
    stage.ok(&["type", &seat, "\u{1b}[Z\u{1b}OP"]);
    stage.ok(&["wait", &typist, "--text", "^[^[[Z^[OP"]);
}

#[test]
fn row_11_what_is_typed_reaches_the_terminal_and_nothing_of_it_the_list() {
    let stage = Stage::new(Name::Ostler);
    let typist = subject(&stage, "typist", &["/bin/cat"]);
    let seat = seat(&stage, (120, 40), "");
    shows(&stage, &seat, "typist");
    select(&stage, &seat, "typist");
    keys(&stage, &seat, &["i"]);
    shows(&stage, &seat, "TYPING → typist");
    shows(&stage, &seat, "every key goes to the terminal");
    stage.ok(&["type", &seat, "jq?\u{e9}\r"]);
    stage.ok(&["wait", &typist, "--text", "jq?\u{e9}"]);
    keys(&stage, &seat, &["Ctrl+]"]);
    until("the list again", || !stage.screen(&seat).contains("TYPING"));
    assert!(stage.screen(&seat).contains("/typist"), "{}", stage.screen(&seat));
    keys(&stage, &seat, &["q"]);
    shows(&stage, &seat, "left with 0");
    assert_eq!(stage.ok(&["inspect", &typist])["session"]["status"], "running");
}

#[test]
fn a_large_paste_loses_no_byte_even_if_its_terminal_is_left() {
    const BYTES: usize = 1_000_000;
    let stage = Stage::new(Name::Ostler);
    // Slower than anybody pastes.
    let script = format!(
        "stty raw -echo; echo READY; sleep 0.5; head -c {BYTES} >got; sleep 0.2; echo GOT; cat >rest"
    );
    subject(&stage, "eater", &["/bin/bash", "-c", &script]);
    let seat = seat(&stage, (120, 40), "");
    select(&stage, &seat, "eater");
    shows(&stage, &seat, "READY");
    keys(&stage, &seat, &["i"]);
    shows(&stage, &seat, "TYPING");
    let text: String = (0..BYTES / 10).map(|n| format!("{n:09} ")).collect();
    let file = stage.home.write("pasted", &text);
    stage.ok(&["paste", &seat, "--file", file.to_str().unwrap()]);
    keys(&stage, &seat, &["Ctrl+]", "q"]);
    shows(&stage, &seat, "left with 0");
    let got = stage.home.join("got");
    until("all of it", || std::fs::metadata(&got).is_ok_and(|file| file.len() == BYTES as u64));
    assert!(std::fs::read_to_string(&got).unwrap() == text, "and in its order");
}

#[test]
fn row_12_a_reply_to_a_conversation_that_was_replaced_is_refused_and_kept() {
    let stage = Stage::new(Name::Ostler);
    let (terminal, record) = start_agent(&stage, &[]);
    let seat = seat(&stage, (120, 40), "");
    shows(&stage, &seat, "? help");
    select(&stage, &seat, "agent:claude");
    keys(&stage, &seat, &["r"]);
    shows(&stage, &seat, "Enter sends");
    stage.ok(&["type", &seat, "go on with the first plan"]);
    shows(&stage, &seat, "go on with the first plan");
    // As after /clear: the same process goes on with another conversation.
    let pid = stage.pid(&terminal, "childPid");
    let path = stage.home.join(format!(".claude/sessions/{pid}.json"));
    let other = std::fs::read_to_string(&path).unwrap().replace("5b1e0c52", "6c2f1d63");
    std::fs::write(&path, other).unwrap();
    until("the other conversation", || stage.run(&["ls", "-q"]).stdout.contains("6c2f1d63"));
    keys(&stage, &seat, &["Enter"]);
    shows(&stage, &seat, "not proven alive");
    assert_eq!(prompts(&record), Vec::<String>::new(), "nothing reached the other conversation");
    // The draft is of the conversation that it was begun for, and of no other.
    keys(&stage, &seat, &["Escape"]);
    select(&stage, &seat, "agent:claude is:ended");
    shows(&stage, &seat, "▌");
    keys(&stage, &seat, &["r"]);
    shows(&stage, &seat, "go on with the first plan");
}

#[test]
fn row_13_a_reply_tells_its_receipt_whatever_becomes_of_it() {
    for (options, receipt, taken) in [
        (&[][..], "accepted by claude-code", 1),
        (&["alter=1"], "altered", 1),
        (&["swallow=99"], "stuck", 0),
        (&["late=60"], "unproven", 1),
        (&["show=600"], "not-composed", 0),
        (&["status=waiting", "dialog=1"], "It asks a question", 0),
    ] {
        let stage = Stage::new(Name::Ostler);
        let (_, record) = start_agent(&stage, options);
        let seat = seat(&stage, (160, 40), "");
        shows(&stage, &seat, "? help");
        let asks = options.contains(&"dialog=1");
        if asks {
            select(&stage, &seat, "agent:claude");
            keys(&stage, &seat, &["r"]);
        } else {
            reply(&stage, &seat, "run the tests of the parser");
        }
        let begun = std::time::Instant::now();
        while !stage.screen(&seat).contains(receipt) {
            assert!(begun.elapsed().as_secs() < 60, "{receipt}: {}", stage.screen(&seat));
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!(prompts(&record).len(), taken, "{receipt}");
        if receipt == "unproven" {
            // Sent again, it asks what became of the first: nothing is typed a second time.
            keys(&stage, &seat, &["r"]);
            shows(&stage, &seat, "Enter sends");
            keys(&stage, &seat, &["Enter"]);
            // How long it is sending is up to the machine; the box closes first.
            until("the answer", || {
                let screen = stage.screen(&seat);
                !screen.contains("Enter sends") && !screen.contains("Sending")
            });
            assert_eq!(prompts(&record).len(), 1, "{}", stage.screen(&seat));
        }
    }
}

#[test]
fn row_13_a_refusal_says_why_and_what_to_do_and_keeps_the_draft() {
    let stage = Stage::new(Name::Ostler);
    let (_, record) = start_agent(&stage, &[]);
    let seat = seat(&stage, (200, 40), "");
    shows(&stage, &seat, "? help");
    reply(&stage, &seat, "/clear all of it");
    shows(&stage, &seat, "which this agent takes for a command; begin with a word");
    assert_eq!(prompts(&record), Vec::<String>::new());
    keys(&stage, &seat, &["r"]);
    shows(&stage, &seat, "/clear all of it");
}

#[test]
fn row_14_stop_names_the_process_and_claims_nothing_that_others_did() {
    let stage = Stage::new(Name::Ostler);
    let build = subject(&stage, "build", &["/bin/bash", "-c", "sleep 1000 & wait"]);
    let pid = stage.pid(&build, "childPid");
    let seat = seat(&stage, (120, 40), "");
    shows(&stage, &seat, "build");
    select(&stage, &seat, "build");
    keys(&stage, &seat, &["s"]);
    shows(&stage, &seat, &format!("pid {pid} bash (started "));
    shows(&stage, &seat, "sleep (started ");
    shows(&stage, &seat, "any other key does nothing");
    keys(&stage, &seat, &["n"]);
    shows(&stage, &seat, "Nothing was done.");
    assert!(is_alive(pid));
    // Somebody else ends it while the question is open.
    keys(&stage, &seat, &["s"]);
    shows(&stage, &seat, &format!("pid {pid} bash (started "));
    stage.ok(&["destroy", "--force", &build]);
    until("its end", || !is_alive(pid));
    shows(&stage, &seat, "y does it");
    keys(&stage, &seat, &["y"]);
    shows(&stage, &seat, "was gone already: nothing was signalled");
    keys(&stage, &seat, &["Escape"]);
    // And what is there is ended by it.
    let other = subject(&stage, "other", &["/bin/sleep", "1000"]);
    let pid = stage.pid(&other, "childPid");
    shows(&stage, &seat, "other");
    select(&stage, &seat, "other");
    keys(&stage, &seat, &["s"]);
    shows(&stage, &seat, &format!("pid {pid} sleep (started "));
    shows(&stage, &seat, "y does it");
    keys(&stage, &seat, &["y"]);
    shows(&stage, &seat, "Stopped terminal:");
    assert!(!is_alive(pid));
}

#[test]
fn row_18_a_drag_puts_what_is_drawn_on_the_clipboard() {
    use base64::Engine;

    let stage = Stage::new(Name::Ostler);
    // The list shows a command, too: the words that are looked for come from the screen alone.
    let script = "printf 'hello %s\\nsecond\\n' clipboard; cat";
    subject(&stage, "speaker", &["/bin/bash", "-c", script]);
    let seat = seat(&stage, (120, 40), "");
    select(&stage, &seat, "speaker");
    shows(&stage, &seat, "hello clipboard");
    let screen = stage.screen(&seat);
    let row = screen.lines().position(|line| line.contains("hello clipboard")).unwrap();
    let line = screen.lines().nth(row).unwrap();
    let column = line[..line.find("hello clipboard").unwrap()].chars().count();
    let mouse = |button: u8, x: usize, y: usize, end: char| {
        stage.ok(&["type", &seat, &format!("\u{1b}[<{button};{};{}{end}", x + 1, y + 1)]);
    };
    mouse(0, column, row, 'M');
    mouse(32, column + 5, row + 1, 'M');
    mouse(0, column + 5, row + 1, 'm');
    shows(&stage, &seat, "Copied 2 lines.");
    let copied = base64::engine::general_purpose::STANDARD.encode("hello clipboard\nsecond");
    let log = std::fs::read_to_string(stage.directory(&seat).join("events.jsonl")).unwrap();
    assert!(log.contains(&format!("]52;c;{copied}")), "the clipboard is told");
    // Off, the mouse is the terminal's own.
    keys(&stage, &seat, &["m"]);
    shows(&stage, &seat, "The mouse is off.");
}

#[test]
fn searching_shows_what_was_said_and_a_new_key_ends_it() {
    let stage = Stage::new(Name::Ostler);
    let (_, record) = start_agent(&stage, &[]);
    stage.run(&["prompt", SESSION, "where is the needle hidden?", "--json"]).exits(0);
    assert_eq!(prompts(&record).len(), 1);
    let seat = seat(&stage, (120, 40), "");
    shows(&stage, &seat, "? help");
    keys(&stage, &seat, &["S"]);
    shows(&stage, &seat, "search:");
    stage.ok(&["type", &seat, "needle"]);
    shows(&stage, &seat, "where is the [needle] hidden?");
    shows(&stage, &seat, &format!("ostler logs {SESSION} --from "));
    stage.ok(&["type", &seat, "s-not-there"]);
    shows(&stage, &seat, "Nothing found in");
    keys(&stage, &seat, &["Escape"]);
    until("the list", || !stage.screen(&seat).contains("search:"));
}

#[test]
fn usage_is_a_pane_of_its_own() {
    let stage = Stage::new(Name::Ostler);
    start_agent(&stage, &[]);
    stage.run(&["prompt", SESSION, "count your tokens", "--json"]).exits(0);
    let seat = seat(&stage, (120, 40), "");
    shows(&stage, &seat, "? help");
    select(&stage, &seat, "agent:claude");
    keys(&stage, &seat, &["v", "v", "v"]);
    // The agent's own first turn, and this one.
    shows(&stage, &seat, "4 tokens (input 2, output 2, cache read 0, cache write 0) in");
    shows(&stage, &seat, "2 answers");
}

#[test]
fn row_22_without_watches_the_dashboard_says_that_it_asks() {
    let limit = "echo 3 > /proc/sys/user/max_inotify_watches";
    let can = std::process::Command::new("unshare").args(["-Ur", "sh", "-c", limit]).status();
    if !can.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no user namespace with limits of its own");
        return;
    }
    let stage = Stage::new(Name::Ostler);
    let ostler = env!("CARGO_BIN_EXE_ostler");
    let words = format!("unshare -Ur sh -c '{limit}; exec {ostler} top'");
    let seat = seat_of(&stage, (160, 40), &words);
    shows(&stage, &seat, "Asks every second: no inotify watch is left");
    subject(&stage, "later", &["/bin/cat"]);
    shows(&stage, &seat, "later");
    keys(&stage, &seat, &["q"]);
    shows(&stage, &seat, "left with 0");
}

#[test]
fn row_23_an_open_dashboard_rests_and_writes_nothing() {
    let stage = Stage::new(Name::Ostler);
    for number in 0..5 {
        subject(&stage, &format!("quiet-{number}"), &["/bin/cat"]);
    }
    let seat = seat(&stage, (120, 40), "");
    select(&stage, &seat, "quiet-3");
    shows(&stage, &seat, "80×24");
    let (_, child) = super::top::processes(&stage, &seat);
    let spent = || -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap();
        let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let written = || stage.directory(&seat).join("events.jsonl").metadata().unwrap().len();
    // A minute has one change of an age at most; here a part of one. What is looked at after the start is over by
    // then: its own output is a sign of life, shown 10 s later, and that is output once more.
    std::thread::sleep(std::time::Duration::from_secs(24));
    let before = (spent(), written());
    std::thread::sleep(std::time::Duration::from_secs(8));
    let after = (spent(), written());
    assert!(after.0 - before.0 <= 1, "ticks: {before:?} {after:?}");
    assert!(after.1 - before.1 <= 300, "bytes: {before:?} {after:?}");
}

#[test]
fn row_28_after_a_stop_there_is_one_refresh() {
    let stage = Stage::new(Name::Ostler);
    let mut command = stage.command();
    command.args(["ls", "-a", "--json", "--watch"]);
    let mut watching = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(watching.stdout.take().unwrap()));
    let (sender, updates) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let line: Value = serde_json::from_str(&line).unwrap();
            sender.send(line["total"].as_u64().unwrap()).unwrap();
        }
    });
    assert_eq!(updates.recv().unwrap(), 0);
    kill(watching.id(), "-STOP");
    for number in 0..20 {
        let id = format!("11111111-1111-4111-8111-{number:012}");
        let line = serde_json::json!({
            "type": "user", "sessionId": id, "cwd": "/a", "timestamp": "2026-11-15T10:00:00.000Z",
            "message": { "role": "user", "content": "hello" }
        });
        stage.home.write(format!(".claude/projects/-a/{id}.jsonl"), format!("{line}\n"));
    }
    kill(watching.id(), "-CONT");
    let first = updates.recv().unwrap();
    assert!(first == 20, "one refresh has all of it: {first}");
    // Directories that are not under watch yet are looked at once more, which finds nothing new to tell.
    let second = updates.recv_timeout(std::time::Duration::from_secs(2));
    assert!(second.is_err(), "a second update: {second:?}");
    watching.kill().unwrap();
    watching.wait().unwrap();
    reader.join().unwrap();
}

#[test]
fn row_25_the_hostile_corpus_goes_through_every_pane_and_does_nothing() {
    use testkit::hostile::{CORPUS, MARKER, is_harmless, lay_out_corpus};

    let stage = Stage::new(Name::Ostler);
    lay_out_corpus(&stage.home);
    let seat = seat(&stage, (120, 40), "--all");
    select(&stage, &seat, "agent:claude");
    shows(&stage, &seat, MARKER);
    for pane in
        [("Space", "─ talk"), ("v", "─ facts"), ("v", "─ usage"), ("w", "─ why"), ("e", "─ events")]
    {
        keys(&stage, &seat, &[pane.0]);
        shows(&stage, &seat, pane.1);
        for _ in &CORPUS {
            keys(&stage, &seat, &["j"]);
            let screen = stage.screen(&seat);
            assert!(screen.starts_with(" ostler ") && is_harmless(&screen), "{screen}");
        }
        keys(&stage, &seat, &["g"]);
    }
    keys(&stage, &seat, &["S"]);
    shows(&stage, &seat, "search:");
    stage.ok(&["type", &seat, MARKER]);
    shows(&stage, &seat, "[PWNED]");
    keys(&stage, &seat, &["Enter", "PageDown"]);
    assert_eq!(stage.ok(&["snapshot", &seat])["isAltScreen"], true);
    assert!(is_harmless(&stage.screen(&seat)));
    // Nothing but our own sequences was ever sent.
    let log = std::fs::read_to_string(stage.directory(&seat).join("events.jsonl")).unwrap();
    let events = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let sent: String = events
        .filter(|event| event["type"] == "output")
        .map(|event| event["payload"]["data"].as_str().unwrap().to_owned())
        .collect();
    assert!(sent.contains(MARKER), "the log is of the dashboard");
    for bad in [
        "\u{1b}]0;PWNED",
        "\u{1b}]52;",
        "\u{1b}]8;",
        "\u{202e}",
        "\u{9b}",
        "\u{1b}c",
        "\u{1b}[?1000h",
    ] {
        assert!(!sent.contains(bad), "{bad:?}");
    }
    // Out of what was found, then out of the search.
    until("the list", || {
        keys(&stage, &seat, &["Escape"]);
        !stage.screen(&seat).contains("─ search")
    });
    keys(&stage, &seat, &["q"]);
    shows(&stage, &seat, "left with 0");
}
