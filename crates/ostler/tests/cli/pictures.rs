//! The pictures of the quick start are screens of ostler itself, drawn by `ostler screenshot`.
//!
//! `OSTLER_WRITE_PICTURES=1` draws them anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::home::TempHome;

use super::live::FakeAgent;
use super::run::{claude_session, ostler, ran};

/// A picture, its size, and what is typed at the prompt in it.
const PICTURES: [(&str, &str, &str, &str); 2] = [
    ("quick-start-ls.png", "100", "9", "ostler ls"),
    ("quick-start-logs.png", "100", "8", "ostler logs 22"),
];

fn pictures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures")
}

/// A home in which one agent waits for its user, one works and one rests.
fn busy_home() -> (TempHome, Vec<FakeAgent>) {
    let home = TempHome::new();
    let mut agents = Vec::new();
    for (id, project, name, prompt, status) in [
        ("11f3a2b4", "shop", "orders", "Add the missing index to the orders table", "waiting"),
        ("22c9d07e", "site", "search", "Make the search page load in under a second", "busy"),
        ("33e15b90", "infra", "deploy", "Explain why the last deploy failed", "idle"),
    ] {
        let directory = home.directory(project);
        let agent = FakeAgent::start(&home, "claude", &directory);
        let id = format!("{id}-0000-4000-8000-000000000000");
        claude_session(&home, &id, directory.to_str().unwrap(), prompt);
        let mut registration = agent.registration(&id, &directory);
        registration["status"] = status.into();
        registration["name"] = name.into();
        home.write(format!(".claude/sessions/{}.json", agent.pid()), registration.to_string());
        agents.push(agent);
    }
    (home, agents)
}

/// ostler with a home of its own for terminals, so that none is in the picture.
fn painter(home: &TempHome) -> Command {
    let mut command = ostler(home);
    command.env("OSTLER_HOME", home.join("painter"));
    command
}

/// Width and height of a PNG.
fn png_size(bytes: &[u8]) -> (u32, u32) {
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"), "no PNG");
    let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    (number(16), number(20))
}

fn draw(home: &TempHome, name: &str, (cols, rows): (&str, &str), line: &str) -> Vec<u8> {
    let script = format!(
        "unset OSTLER_HOME; printf '$ {line}\\n'; ostler() {{ {} \"$@\"; }}; {line}; printf '$ '; exec sleep 100",
        env!("CARGO_BIN_EXE_ostler")
    );
    let words = ["create", "--name", name, "--cols", cols, "--rows", rows, "--", "/bin/sh", "-c"];
    ran(painter(home).args(words).arg(&script)).exits(0);
    let wait = ["wait", name, "--screen-stable-ms", "500", "--timeout", "30000"];
    ran(painter(home).args(wait)).exits(0);
    let shown = ran(painter(home).args(["snapshot", name, "--format", "text"])).exits(0).stdout;
    let has_content = shown.contains("22c9d07e") || shown.contains("search page");
    assert!(has_content && !shown.contains("error"), "{shown}");
    let file = home.join(name);
    ran(painter(home).args(["screenshot", name, "-o"]).arg(&file)).exits(0);
    ran(painter(home).args(["destroy", name, "--force"])).exits(0);
    fs::read(file).unwrap()
}

#[test]
fn row_17_the_quick_start_shows_screens_of_ostler() {
    let (home, _agents) = busy_home();
    let page = fs::read_to_string(pages().join("quick-start.md")).unwrap();
    for (name, cols, rows, line) in PICTURES {
        assert!(page.contains(&format!("(pictures/{name})")), "{name} is not in the quick start");
        let drawn = draw(&home, name, (cols, rows), line);
        let path = pictures().join(name);
        if std::env::var_os("OSTLER_WRITE_PICTURES").is_some() {
            fs::write(&path, &drawn).unwrap();
        }
        // Ages and pids in it change from day to day; its size and its make do not.
        assert_eq!(png_size(&fs::read(&path).unwrap()), png_size(&drawn), "{name}");
    }
}

fn pages() -> PathBuf {
    pictures().join("..")
}
