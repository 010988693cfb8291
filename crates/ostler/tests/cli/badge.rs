//! `ostler badge`: the same counts as `ls`, with the daemon and without, and in every bar of the docs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::access::{skipped, wait_until};
use testkit::home::TempHome;

use super::daemon::Daemon;
use super::live::FakeAgent;
use super::run::{claude_session, ostler, ran, run};

/// A home with an agent that waits for its user.
fn waiting_home() -> (TempHome, FakeAgent) {
    let home = TempHome::new();
    let id = "01a1e3c6-7abc-7000-8000-000000000001";
    let agent = FakeAgent::start(&home, "claude", home.path());
    claude_session(&home, id, home.path().to_str().unwrap(), "go on");
    let mut registration = agent.registration(id, home.path());
    registration["status"] = "waiting".into();
    home.write(format!(".claude/sessions/{}.json", agent.pid()), registration.to_string());
    (home, agent)
}

fn counts(home: &TempHome) -> Value {
    let mut result = run(home, "badge --json").exits(0).result();
    result.as_object_mut().unwrap().remove("incomplete");
    result
}

#[test]
fn row_17_the_badge_says_what_ls_says() {
    let (home, agent) = waiting_home();
    let listed = run(&home, "ls --json").exits(0).sessions();
    assert_eq!(listed[0]["activity"], "waiting", "{listed:?}");
    assert_eq!(run(&home, "badge").exits(0).stdout, "▲1\n");
    assert_eq!(run(&home, "badge --format prompt").exits(0).stdout, "▲1 ");
    let ascii = ran(ostler(&home).env("LC_ALL", "C").arg("badge"));
    assert_eq!(ascii.stdout, "!1\n");
    agent.kill();
    assert_eq!(run(&home, "badge").exits(0).stdout, "");
}

#[test]
fn row_17_the_daemon_knows_the_badge_and_changes_it_at_once() {
    let (home, agent) = waiting_home();
    let daemon = Daemon::start(&home);
    let alone = counts(&home);
    // With a configuration that cannot be read only the daemon can answer.
    wait_until("the daemon has the counts", || {
        let mut command = ostler(&home);
        command.env("OSTLER_CONFIG", "/no/such/file").args(["badge"]);
        ran(&mut command).stdout == "▲1\n"
    });
    assert_eq!(counts(&home), alone);
    agent.kill();
    wait_until("the end is in the badge", || run(&home, "badge").stdout.is_empty());
    drop(daemon);
    assert_eq!(run(&home, "badge").exits(0).stdout, "");
}

/// The code blocks of the page, by language.
fn snippet(language: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/status-bars.md");
    let page = fs::read_to_string(page).unwrap();
    let fence = format!("```{language}\n");
    let at = page.find(&fence).unwrap_or_else(|| panic!("no {language} in the page")) + fence.len();
    page[at..at + page[at..].find("```").unwrap()].to_owned()
}

/// A directory whose `ostler` is ours, in front of everything else.
fn path_with_ostler(home: &TempHome) -> std::ffi::OsString {
    let directory = home.directory("bin");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ostler"), directory.join("ostler")).unwrap();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> =
        std::iter::once(directory).chain(std::env::split_paths(&others)).collect();
    std::env::join_paths(places).unwrap()
}

fn has_program(name: &str) -> bool {
    let found = Command::new(name).arg("--version").stdin(Stdio::null()).output();
    if found.is_err() {
        skipped(&format!("{name} is not installed"));
    }
    found.is_ok()
}

fn in_home(program: &str, home: &TempHome, path: &std::ffi::OsStr) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("HOME", home.path()).env("XDG_RUNTIME_DIR", home.join("run"));
    command.env("PATH", path).env("LANG", "C.UTF-8").env("TERM", "xterm");
    command.current_dir(home.path()).stdin(Stdio::null());
    command
}

#[test]
fn row_17_the_snippets_of_shells_work() {
    let (home, agent) = waiting_home();
    let path = path_with_ostler(&home);
    if has_program("zsh") {
        let script = format!("{}\nprint -rP -- \"$RPROMPT\"", snippet("zsh"));
        let shown = ran(in_home("zsh", &home, &path).args(["-f", "-c", &script])).exits(0);
        assert_eq!(shown.stdout.trim_end(), "▲1", "{shown:?}");
    }
    if has_program("fish") {
        let script = format!("{}\nfish_right_prompt", snippet("fish"));
        let shown = ran(in_home("fish", &home, &path).args(["--no-config", "-c", &script]));
        assert_eq!(shown.stdout, "▲1 ", "{shown:?}");
    }
    let starship = snippet("toml");
    let line = starship.lines().find_map(|line| line.strip_prefix("command = ")).unwrap();
    let shown = ran(in_home("sh", &home, &path).args(["-c", line.trim_matches('"')])).exits(0);
    assert_eq!(shown.stdout, "▲1\n");
    if has_program("starship") {
        home.write(".config/starship.toml", format!("format = '$custom'\n{}", snippet("toml")));
        let shown = ran(in_home("starship", &home, &path).arg("prompt"));
        assert!(shown.stdout.contains("▲1"), "{shown:?}");
    }
    agent.kill();
}

#[test]
fn row_17_the_snippet_of_tmux_works() {
    let (home, agent) = waiting_home();
    let path = path_with_ostler(&home);
    if !has_program("tmux") {
        return;
    }
    home.write("tmux.conf", snippet("tmux"));
    // A status line is drawn for a client: one at a terminal of its own.
    let mut client = in_home("script", &home, &path);
    client.args(["-qfec", "tmux -S tmux.sock -f tmux.conf new-session", "typescript"]);
    client.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut client = client.spawn().unwrap();
    wait_until("the badge is in the status line", || {
        let drawn = fs::read(home.join("typescript")).unwrap_or_default();
        String::from_utf8_lossy(&drawn).contains("▲1")
    });
    ran(in_home("tmux", &home, &path).args(["-S", "tmux.sock", "kill-server"])).exits(0);
    client.wait().unwrap();
    agent.kill();
}

#[test]
fn row_17_the_snippets_of_bars_work() {
    let (home, agent) = waiting_home();
    let path = path_with_ostler(&home);
    let waybar: Value = serde_json::from_str(&snippet("json")).unwrap();
    let line = waybar["custom/ostler"]["exec"].as_str().unwrap().to_owned();
    let shown = ran(in_home("sh", &home, &path).args(["-c", &line])).exits(0);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!((&shown["text"], &shown["class"]), (&"▲1".into(), &"needs-you".into()));
    let blocks = snippet("ini");
    let line = blocks.lines().find_map(|line| line.strip_prefix("command=")).unwrap();
    let shown = ran(in_home("sh", &home, &path).args(["-c", line])).exits(0);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["full_text"], "▲1");
    agent.kill();
}
