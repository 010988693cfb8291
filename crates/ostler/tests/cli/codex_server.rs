//! Codex's shared server: one process that holds the threads of every window (findings B9, K4, K6).

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use testkit::home::TempHome;

use super::live::{assert_liveness, lab};
use super::openers::{rollout_place, time, touch};
use super::run::run;

const ONE: &str = "01a1e3c6-0000-7000-8000-000000000001";
const TWO: &str = "01a1e3c6-0000-7000-8000-000000000002";
const EMPTY: &str = "01a1e3c6-0000-7000-8000-000000000003";

/// Holds the locks that it is given, says so, and stays. A window that starts its server has that hold them.
const FAKE: &str = "
import fcntl, os, subprocess, sys, time
locks = os.environ.get('LOCKS', '')
if 'OWN_SERVER' in os.environ:
    del os.environ['OWN_SERVER']
    words = [sys.executable, sys.argv[0], 'app-server', '--listen', 'unix://']
    server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    server.stdout.readline()
    locks = ''
held = [open(path, 'w') for path in locks.split(':') if path]
[fcntl.flock(file, fcntl.LOCK_EX) for file in held]
print('ready', flush=True)
sys.stdin.read() if 'app-server' in sys.argv else time.sleep(1000)
";

/// A process of Codex's; ended with the value.
struct Codex(Child);

impl Codex {
    fn start(home: &TempHome, repo: &Path, words: &[&str], threads: &[&str]) -> Self {
        Self::start_with(home, repo, words, threads, |command| command)
    }

    fn start_with(
        home: &TempHome,
        repo: &Path,
        words: &[&str],
        threads: &[&str],
        more: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        let locks: Vec<String> = threads
            .iter()
            .map(|thread| home.write(format!(".codex/thread-writer-locks/{thread}.lock"), ""))
            .map(|lock| lock.to_str().unwrap().to_owned())
            .collect();
        let mut command = Command::new("python3");
        command
            .arg(home.write("bin/codex.py", FAKE))
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", home.path())
            .env("LOCKS", locks.join(":"))
            .current_dir(repo)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = more(&mut command).spawn().unwrap();
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(child)
    }

    fn server(home: &TempHome, repo: &Path, threads: &[&str]) -> Self {
        Self::start(home, repo, &["app-server", "--managed-daemon"], threads)
    }

    fn window(home: &TempHome, repo: &Path) -> Self {
        Self::start(home, repo, &[], &[])
    }

    /// A window that has started the server itself.
    fn first_window(home: &TempHome, repo: &Path, threads: &[&str]) -> Self {
        Self::start_with(home, repo, &[], threads, |command| command.env("OWN_SERVER", "1"))
    }
}

impl Drop for Codex {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A thread whose last turn ended so many seconds ago.
fn thread(home: &TempHome, repo: &Path, id: &str, seconds_ago: i64) -> PathBuf {
    let at = time(seconds_ago);
    let event = |payload: Value| json!({"timestamp": at, "type": "event_msg", "payload": payload});
    let lines = [
        json!({"timestamp": at, "type": "session_meta", "payload": {"id": id, "cwd": repo}}),
        event(json!({"type": "user_message", "message": "do it"})),
        event(json!({"type": "task_started"})),
        event(json!({"type": "task_complete"})),
    ];
    let path = home.write(rollout_place(id), lines.map(|line| format!("{line}\n")).concat());
    touch(&path, seconds_ago);
    path
}

#[test]
fn b9_windows_of_a_server_are_not_said_to_have_no_session() {
    let (home, repo) = lab();
    thread(&home, &repo, ONE, 3600);
    thread(&home, &repo, TWO, 0);
    let _server = Codex::server(&home, home.path(), &[ONE, TWO]);
    // The first has resumed an old conversation without a word.
    let _windows = [Codex::window(&home, &repo), Codex::window(&home, &repo)];
    let listed = run(&home, "ls --json").exits(0);
    assert_eq!(listed.result()["unattached"], Value::Null, "{listed:?}");
    // A third has no conversation to show, and is named from the first second.
    let third = Codex::window(&home, &repo);
    let unattached = run(&home, "ls --json").exits(0).result()["unattached"].take();
    assert_eq!(unattached.as_array().map(Vec::len), Some(1), "{unattached}");
    assert_eq!(unattached[0]["pid"], third.0.id());
}

/// As after `/new`: what the window had before is held by nobody.
#[test]
fn b9_a_window_that_started_the_server_has_open_what_that_holds() {
    let (home, repo) = lab();
    thread(&home, &repo, ONE, 60);
    thread(&home, &repo, TWO, 0);
    let window = Codex::first_window(&home, &repo, &[TWO]);
    let listed = run(&home, "ls -a --json").exits(0);
    assert_eq!(listed.result()["unattached"], Value::Null, "{listed:?}");
    assert_liveness(&listed.session(TWO), "running", "alive", "running", "proven");
    let earlier = listed.session(ONE);
    assert_eq!(earlier["status"], "exited", "{earlier}");
    drop(window);
}

#[test]
fn b9_a_thread_that_only_its_server_holds_is_said_to_be_left() {
    let (home, repo) = lab();
    thread(&home, &repo, ONE, 60);
    let server = Codex::server(&home, home.path(), &[ONE]);
    let window = Codex::window(&home, &repo);
    let session = run(&home, "ls --json").session(ONE);
    assert_liveness(&session, "running", "alive", "running", "proven");
    assert_eq!(session["owner"]["shared"], json!({"conversations": 1, "windows": 1}));
    assert!(!run(&home, "ls").stderr.contains("nobody is attached"));
    drop(window);
    let left = run(&home, "ls");
    let words = format!(
        "{ONE} is held by codex's server (pid {}), which has 1 conversation; no codex \
         runs in its directory, so nobody is attached",
        server.0.id()
    );
    assert!(left.stderr.contains(&words), "{}", left.stderr);
    assert_eq!(run(&home, "ls --json").session(ONE)["owner"]["shared"]["windows"], 0);
    assert!(run(&home, &format!("show {ONE}")).stdout.contains("nobody is attached"));
    let why = run(&home, &format!("why {ONE}")).stdout;
    assert!(why.contains("a server with 1 conversation, and nobody is attached"), "{why}");
}

#[test]
fn b9_what_a_server_keeps_ready_and_nobody_wrote_to_is_no_row() {
    let (home, repo) = lab();
    thread(&home, &repo, ONE, 60);
    let _server = Codex::server(&home, home.path(), &[ONE, EMPTY]);
    let _window = Codex::window(&home, &repo);
    let sessions = run(&home, "ls -a --json").exits(0).result()["sessions"].take();
    let ids: Vec<&str> =
        sessions.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids, [ONE]);
}

#[test]
fn b9_a_process_that_holds_an_empty_thread_itself_is_a_row_with_its_directory() {
    let (home, repo) = lab();
    let agent = Codex::start(&home, &repo, &["--no-daemon"], &[EMPTY]);
    let session = run(&home, "ls --json").session(EMPTY);
    assert_liveness(&session, "running", "alive", "running", "proven");
    assert_eq!(session["owner"]["pid"], agent.0.id());
    assert_eq!(session["cwd"], repo.to_str().unwrap());
    assert_eq!(session["owner"]["shared"], Value::Null);
}

#[test]
fn b9_why_names_no_process_that_a_free_lock_does_not_have() {
    let (home, repo) = lab();
    thread(&home, &repo, ONE, 60);
    home.write(format!(".codex/thread-writer-locks/{ONE}.lock"), "");
    let why = run(&home, &format!("why {ONE}")).stdout;
    assert!(why.contains("nobody holds the session's writer lock"), "{why}");
    assert!(!why.contains("no pid recorded"), "{why}");
}

#[test]
fn k4_a_shared_holder_is_shown_as_such_and_never_stopped() {
    let (home, repo) = lab();
    thread(&home, &repo, ONE, 60);
    thread(&home, &repo, TWO, 60);
    let mut server = Codex::server(&home, home.path(), &[ONE, TWO]);
    let who = run(&home, &format!("who {ONE} --json")).exits(0).result();
    let holder = &who["conversations"][0]["holders"][0];
    assert_eq!((&holder["kind"], &holder["shares"]), (&json!("shared"), &json!(2)), "{who:#}");
    run(&home, &format!("stop {ONE} --now")).exits(13);
    assert!(server.0.try_wait().unwrap().is_none(), "the server was ended");
}

#[test]
fn k6_a_window_without_its_server_makes_no_conversation_run() {
    let (home, repo) = lab();
    let server = Codex::server(&home, home.path(), &[ONE, TWO]);
    let window = Codex::window(&home, &repo);
    // The window has the old one open; the newest was written by the server for another that left.
    thread(&home, &repo, ONE, 3600);
    thread(&home, &repo, TWO, 0);
    drop(server);
    let sessions = |id| run(&home, "ls -a --json").session(id);
    assert_liveness(&sessions(TWO), "unknown", "unknown", "maybe-open", "derived");
    assert_liveness(&sessions(ONE), "exited", "dead", "not-attached", "derived");
    drop(window);
    assert_eq!(sessions(TWO)["status"], "exited");
}
