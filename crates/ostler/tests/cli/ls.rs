//! `ostler ls`: what is listed, in which order, and how it looks.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use testkit::home::TempHome;
use unicode_width::UnicodeWidthStr;

use super::run::{claude_session, ostler, ran, run, sample_home};

fn id(n: u32) -> String {
    format!("{n:08}-0000-4000-8000-000000000000")
}

#[test]
fn an_empty_home_is_no_error() {
    let home = TempHome::new();
    let live = run(&home, "ls").exits(0);
    assert_eq!(live.stdout, "No live agent sessions. `ostler ls -a` lists ended ones.\n");
    assert_eq!(live.stderr, "");
    assert_eq!(run(&home, "").exits(0).stdout, live.stdout, "no command lists");
    let json = run(&home, "ls -a --json").exits(0).result();
    assert_eq!(json, serde_json::json!({"sessions": [], "total": 0, "shown": 0, "incomplete": []}));
}

#[test]
fn ended_sessions_are_listed_on_request() {
    let home = TempHome::new();
    claude_session(&home, &id(1), "/repo", "hello");
    assert_eq!(run(&home, "ls -q").stdout, "");
    assert_eq!(run(&home, "ls -a -q").stdout, format!("{}\n", id(1)));
    assert_eq!(run(&home, "ls --status exited -q").stdout, format!("{}\n", id(1)));
}

#[test]
fn filters_and_order() {
    let home = TempHome::new();
    claude_session(&home, &id(1), "/repo/a", "alpha");
    claude_session(&home, &id(2), "/repo/b", "beta");
    claude_session(&home, &id(3), "/repository", "gamma");
    home.append(
        format!(".claude/projects/-repo-b/{}.jsonl", id(2)),
        "{\"type\":\"user\",\"gitBranch\":\"fix\",\"timestamp\":\"2026-11-15T11:00:00.000Z\",\"message\":{\"content\":\"more\"}}\n",
    );
    let ids = |line: &str| -> Vec<u32> {
        let out = run(&home, &format!("ls -a -q {line}")).exits(0).stdout;
        out.lines().map(|line| line[..8].parse().unwrap()).collect()
    };
    assert_eq!(ids(""), [2, 1, 3], "newest activity first, then by id");
    assert_eq!(ids("--cwd /repo"), [2, 1], "/repository is not below /repo");
    assert_eq!(ids("--cwd /repo/a"), [1]);
    assert_eq!(ids("--branch fix"), [2]);
    assert_eq!(ids("--since 2026-11-15T10:30:00Z"), [2]);
    assert_eq!(ids("--agent codex"), Vec::<u32>::new());
    assert_eq!(ids("--agent codex,claude-code --limit 2"), [2, 1]);
    assert_eq!(ids("--sort title"), [1, 2, 3]);
    assert_eq!(ids("--sort cwd"), [1, 2, 3]);
    assert_eq!(ids("--sort size")[0], 2);
    let json = run(&home, "ls -a --json --limit 1").result();
    assert_eq!((&json["total"], &json["shown"]), (&3.into(), &1.into()));
}

#[test]
fn the_table_fits_and_stays_aligned() {
    let home = TempHome::new();
    claude_session(
        &home,
        &id(1),
        "/home/user/a/rather/long/path/to/a/project",
        "日本語のとても長いタイトルが切られる場所を確かめる",
    );
    claude_session(&home, &id(2), "/b", "👩‍👩‍👧‍👦 family, flags 🇩🇪🇫🇷 and é́ combining");
    claude_session(&home, &id(3), "/c", "plain");
    for columns in [40, 60, 80, 100, 140, 200] {
        let mut command = ostler(&home);
        command.env("COLUMNS", columns.to_string()).args(["ls", "-a"]);
        let table = ran(&mut command).exits(0).stdout;
        for line in table.lines() {
            assert!(line.width() <= columns, "{columns}: {} in\n{table}", line.width());
        }
        let title_at = table.lines().next().unwrap().find("TITLE");
        if let Some(at) = title_at {
            for (line, begins) in table.lines().skip(1).zip(["日本", "👩", "plain"]) {
                let before = &line[..line.find(begins).unwrap()];
                assert_eq!(before.width(), at, "{columns}\n{table}");
            }
        }
    }
}

#[test]
fn the_table() {
    let home = sample_home();
    let mut command = ostler(&home);
    command.env("COLUMNS", "120").args(["ls", "-a", "--sort", "agent"]);
    let ran = ran(&mut command);
    let mut ageless: Vec<String> = ran
        .stdout
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
        .collect();
    // Sessions without a time of their own are as old as the test.
    ageless.sort();
    let ageless = ageless.join("\n");
    insta::assert_snapshot!(ageless);
}

#[test]
fn hostile_text_does_not_reach_the_terminal() {
    let home = TempHome::new();
    claude_session(&home, &id(1), "/repo", "a\u{1b}[2Jb\u{7}\n\u{202e}c\u{9b}31m");
    for line in ["ls -a", "show 0000", "why 0000", "logs 0000", "du"] {
        let out = run(&home, line).stdout;
        assert!(!out.contains(['\u{1b}', '\u{7}', '\u{202e}', '\u{9b}']), "{line}: {out:?}");
    }
    let json = run(&home, "ls -a --json").session(&id(1));
    assert!(json["title"].as_str().unwrap().contains("\u{1b}[2Jb"), "JSON keeps the text raw");
}

#[test]
fn colours_only_when_asked_for() {
    let home = TempHome::new();
    claude_session(&home, &id(1), "/repo", "hello");
    assert!(!run(&home, "ls -a").stdout.contains('\u{1b}'), "not a terminal");
    let mut command = ostler(&home);
    command.env("CLICOLOR_FORCE", "1").args(["ls", "-a"]);
    assert!(ran(&mut command).stdout.contains("\u{1b}["));
    command.env("NO_COLOR", "1");
    assert!(!ran(&mut command).stdout.contains('\u{1b}'));
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_listed() {
    let home = TempHome::new();
    claude_session(&home, &id(1), "/repo", "hello");
    home.write(".claude/projects/-repo/broken.jsonl", b"{\"type\":\"user\"\nnot json\n");
    home.link(".claude/projects/-repo/secret.jsonl", "/etc/passwd");
    home.fifo(".claude/projects/-repo/pipe.jsonl");
    home.write(".claude/projects/-repo/empty.jsonl", b"");
    let ran = run(&home, "ls -a --json").exits(12);
    assert_eq!(ran.session(&id(1))["title"], "hello");
    let incomplete = ran.result()["incomplete"].as_array().unwrap().clone();
    for name in ["broken.jsonl", "secret.jsonl", "pipe.jsonl", "empty.jsonl"] {
        assert!(
            incomplete.iter().any(|one| one["path"].as_str().unwrap().ends_with(name)
                && one["source"] == "claude-code"),
            "{name} in {incomplete:?}"
        );
    }
    let human = run(&home, "ls -a").exits(12);
    assert!(human.stderr.starts_with("4 things could not be read:\n"), "{}", human.stderr);
}

#[test]
fn watching_looks_again() {
    let home = TempHome::new();
    claude_session(&home, &id(1), "/repo", "hello");
    let mut child = ostler(&home)
        .args(["ls", "-a", "--json", "--watch"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut total = || {
        let line: serde_json::Value =
            serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        line["total"].as_u64().unwrap()
    };
    assert_eq!(total(), 1);
    claude_session(&home, &id(2), "/repo", "another");
    assert_eq!(total(), 2, "one line for what was there, one for what came");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn watching_clears_only_a_terminal() {
    let home = TempHome::new();
    let mut child =
        ostler(&home).args(["ls", "--watch", "0.2"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let seen: Vec<String> = (0..2).map(|_| lines.next().unwrap().unwrap()).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(seen, ["No live agent sessions. `ostler ls -a` lists ended ones."; 2]);
}

#[test]
fn the_lab_samples_as_a_home() {
    // The same files as our fixtures, in the directories of the lab.
    let home = sample_home();
    let sessions = run(&home, "ls -a --json").sessions();
    for agent in [
        "claude-code",
        "codex",
        "opencode",
        "gemini",
        "pi",
        "openclaw",
        "copilot",
        "qwen",
        "droid",
        "kimi",
        "cline",
    ] {
        let of_agent: Vec<_> =
            sessions.iter().filter(|session| session["agent"] == agent).collect();
        assert!(!of_agent.is_empty(), "no session of {agent}");
        for session in of_agent {
            assert_eq!(session["kind"], "native");
            assert_eq!(session["origin"]["adapter"], agent);
        }
    }
}
