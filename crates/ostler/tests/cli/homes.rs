//! One daemon for each home (P1, B11): nothing that is asked in one home is answered or done by the
//! daemon of another, although both have one runtime directory.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use testkit::home::TempHome;

use super::agent::{Agent, state};
use super::daemon::{Daemon, home_id, say_raw};
use super::run::{Ran, claude_session, ostler, ran};
use super::writer::debris;

const ID: &str = "11111111-1111-4111-8111-111111111111";
const OTHER: &str = "22222222-2222-4222-8222-222222222222";

/// Two homes of one user with one runtime directory.
struct Homes {
    a: TempHome,
    b: TempHome,
    shared: TempHome,
}

impl Homes {
    fn new() -> Self {
        let homes = Self { a: TempHome::new(), b: TempHome::new(), shared: TempHome::new() };
        claude_session(&homes.a, ID, "/project-a", "do it");
        claude_session(&homes.b, OTHER, "/project-b", "do it");
        homes
    }

    fn command(&self, home: &TempHome) -> Command {
        let mut command = ostler(home);
        command.env("XDG_RUNTIME_DIR", self.shared.path());
        command
    }

    #[track_caller]
    fn run(&self, home: &TempHome, line: &str) -> Ran {
        ran(self.command(home).args(line.split(' ')))
    }

    #[track_caller]
    fn ask(&self, home: &TempHome, line: &str) -> Value {
        self.run(home, &format!("{line} --json")).exits(0).result()
    }

    fn daemon(&self, home: &TempHome) -> Daemon {
        Daemon::with(self.command(home))
    }

    fn socket(&self, home: &TempHome) -> std::path::PathBuf {
        self.shared.join("ostler").join(flows::writer::socket_name(home_id(home)))
    }
}

const GC: &str = "gc --agent ostler --yes";

#[test]
fn p1_nothing_asked_in_one_home_is_done_by_the_daemon_of_another() {
    let homes = Homes::new();
    let (a, b) = (&homes.a, &homes.b);
    let trashed = debris(b);
    homes.run(b, GC).exits(0);
    assert!(!trashed.exists());
    let daemon = homes.daemon(b);

    homes.run(a, &format!("pin {ID}")).exits(0);
    assert_eq!(homes.ask(a, "pin")["pins"][0]["session"], ID);
    assert_eq!(homes.ask(b, "pin")["pins"], json!([]));

    assert_eq!(homes.ask(a, "trash empty --older-than 0s --yes")["receipts"], json!([]));
    assert_ne!(homes.run(a, "undo").code, 0, "there is nothing to undo in this home");
    assert!(!trashed.exists(), "what the other home removed was not brought back");
    let debris_of_a = debris(a);
    assert_eq!(homes.ask(a, GC)["transport"], "local");
    assert!(!debris_of_a.exists());

    homes.run(b, "undo").exits(0);
    assert!(trashed.exists(), "the other home's trash is as it was");
    assert_eq!(homes.ask(b, "daemon status")["pid"], daemon.pid());
}

#[test]
fn p1_sweeps_and_doctor_are_about_their_own_home() {
    let homes = Homes::new();
    let (a, b) = (&homes.a, &homes.b);
    let daemon = homes.daemon(b);
    let mut agent = Agent::start(a, ID);
    agent.begin();
    agent.kill();
    assert_eq!(homes.ask(a, "status")["swept"]["ended"][0]["session"], ID);
    let told = homes.run(a, "doctor --no-sweep").stdout;
    assert!(told.contains("daemon: does not run"), "{told}");
    let told = homes.run(b, "doctor --no-sweep").stdout;
    assert!(told.contains(&format!("daemon: runs (pid {})", daemon.pid())), "{told}");
}

#[test]
fn b11_each_home_starts_asks_and_stops_its_own_daemon() {
    let homes = Homes::new();
    let (a, b) = (&homes.a, &homes.b);
    let of_b = homes.daemon(b);
    assert_eq!(homes.ask(a, "daemon status")["running"], false);
    assert_eq!(homes.ask(a, "daemon stop")["running"], false);
    assert_eq!(homes.ask(b, "daemon status")["pid"], of_b.pid(), "it was not stopped");

    let of_a = homes.ask(a, "daemon start");
    assert_eq!(of_a["running"], true);
    assert_ne!(of_a["pid"], of_b.pid());
    homes.run(a, &format!("pin {ID}")).exits(0);
    homes.run(b, &format!("pin {OTHER}")).exits(0);
    assert_eq!(homes.ask(a, "pin")["pins"][0]["session"], ID);
    assert_eq!(homes.ask(b, "pin")["pins"][0]["session"], OTHER);

    assert_eq!(homes.ask(a, "daemon stop")["running"], false);
    assert_eq!(homes.ask(b, "daemon status")["pid"], of_b.pid());
}

#[test]
fn p1_one_home_has_one_daemon_whatever_home_says() {
    let homes = Homes::new();
    let (a, b) = (&homes.a, &homes.b);
    let in_b = |home: &TempHome| {
        let mut command = homes.command(home);
        command.env("OSTLER_HOME", state(b));
        command
    };
    let daemon = homes.daemon(b);
    let status = ran(in_b(a).args(["daemon", "status", "--json"])).exits(0).result();
    assert_eq!(status["pid"], daemon.pid());
    let refused = ran(in_b(a).args(["daemon", "run"])).exits(13);
    assert!(refused.stderr.contains(&daemon.pid().to_string()), "{refused:?}");
    ran(in_b(a).args(["pin", ID])).exits(0);
    assert_eq!(homes.ask(b, "pin")["pins"][0]["session"], ID);
    assert_eq!(homes.ask(a, "pin")["pins"], json!([]));
}

#[test]
fn p1_an_order_for_another_home_is_refused() {
    let homes = Homes::new();
    homes.ask(&homes.a, "finalize");
    let _daemon = homes.daemon(&homes.b);
    let pin = r#"{"order":"work","work":"pin","sessions":[],"note":null,"remove":false}"#;
    for order in [pin, r#"{"order":"stop"}"#, r#"{"order":"status"}"#] {
        for home in [format!("x-ostler-home: {}\r\n", home_id(&homes.a)), String::new()] {
            let headers = format!("x-ostler-protocol: 3\r\n{home}");
            let answer = say_raw(&homes.socket(&homes.b), &headers, order);
            assert!(answer.starts_with("HTTP/1.1 421"), "{answer}");
            assert!(answer.contains("another home"), "{answer}");
        }
    }
    // A socket that somebody moved to another home's name: the command says why it ends.
    std::fs::rename(homes.socket(&homes.b), homes.socket(&homes.a)).unwrap();
    let refused = homes.run(&homes.a, &format!("pin {ID} --json")).exits(13);
    assert!(refused.message().contains("serves another home"), "{refused:?}");
}

#[test]
fn p1_a_home_that_is_moved_or_replaced_is_not_written_to() {
    let homes = Homes::new();
    let b = &homes.b;
    let daemon = homes.daemon(b);
    homes.ask(b, "finalize");
    let moved = homes.b.join("moved");
    std::fs::rename(state(b), &moved).unwrap();
    std::fs::create_dir(state(b)).unwrap();
    std::fs::set_permissions(state(b), PermissionsExt::from_mode(0o700)).unwrap();
    // The new home is nobody's yet: its commands do their own work.
    assert_eq!(homes.ask(b, "daemon status")["running"], false);
    // The moved one is still served, until its daemon sees that its paths lead elsewhere.
    let mut command = homes.command(b);
    command.env("OSTLER_HOME", &moved).args(["pin", OTHER, "--json"]);
    let refused = ran(&mut command).exits(13);
    assert!(refused.message().contains("moved or replaced"), "{refused:?}");
    assert!(!daemon.wait(), "it ends, and not as if it had been told to");
    assert!(is_empty(&state(b)), "nothing was written at the old path");
    ran(&mut command).exits(0);
    assert!(is_empty(&state(b)));
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn p1_a_daemon_listens_and_is_found_however_long_the_paths_are() {
    let home = TempHome::new();
    let (runtime, state) = (home.join("r".repeat(180)), home.join("s".repeat(180)));
    let line = |words: &str| {
        let mut command = ostler(&home);
        command.env("XDG_RUNTIME_DIR", &runtime).env("OSTLER_HOME", &state);
        command.args(words.split(' '));
        ran(&mut command)
    };
    line("daemon start").exits(0);
    assert_eq!(line("daemon status --json").exits(0).result()["running"], true);
    assert_eq!(line("daemon stop --json").exits(0).result()["running"], false);
}

/// A daemon of the version before: one socket for all homes, which holds the lock of one of them.
struct PreviousDaemon {
    socket: std::path::PathBuf,
}

impl PreviousDaemon {
    fn start(homes: &Homes, home: &TempHome) -> Self {
        use std::io::Write;
        use std::os::unix::net::UnixListener;

        let directory = homes.shared.join("ostler");
        sys::private::create_private_dir(&directory).unwrap();
        sys::private::create_private_dir(&state(home)).unwrap();
        let lock = state(home).join("writer.lock");
        let mut lock = sys::lock::try_take(&lock).unwrap().into_lock().unwrap();
        lock.write_holder(&sys::proc::identify_self().unwrap()).unwrap();
        let socket = directory.join("daemon.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let (pid, path) = (std::process::id(), socket.display().to_string());
        let mut lock = Some(lock);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let heard = super::writer::hear_all(&mut stream);
                let is_stop = heard.contains(r#""order":"stop""#);
                let body = match is_stop {
                    true => r#"{"answer":"stopping"}"#.to_owned(),
                    false => json!({
                        "answer": "status", "running": true, "pid": pid, "socket": path, "watching": 0
                    })
                    .to_string(),
                };
                let length = body.len();
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
                if heard.contains("x-ostler-protocol: 2\r\n") && is_stop {
                    drop(lock.take());
                    return;
                }
            }
        });
        Self { socket }
    }
}

impl Drop for PreviousDaemon {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
    }
}

#[test]
fn p1_a_daemon_of_the_previous_version_is_told_and_stopped_only_in_its_own_home() {
    let homes = Homes::new();
    let (a, b) = (&homes.a, &homes.b);
    let _daemon = PreviousDaemon::start(&homes, b);
    assert_eq!(homes.ask(a, "daemon status")["running"], false, "it is not this home's");
    assert_eq!(homes.ask(a, "daemon stop")["running"], false);
    let told = homes.run(b, "daemon status").exits(0);
    assert!(told.stdout.contains(&format!("running (pid {})", std::process::id())), "{told:?}");
    assert!(told.stderr.contains("earlier version"), "{told:?}");
    homes.run(b, "daemon start").exits(13);
    assert_eq!(homes.ask(b, "daemon stop")["running"], false);
    homes.run(b, &format!("pin {OTHER}")).exits(0);
}
