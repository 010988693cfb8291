//! Looking inside: the log, and the tarball for a bug report.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use testkit::home::TempHome;

use super::agent::{Agent, state};
use super::daemon::Daemon;
use super::run::{claude_session, ostler, ran, run};
use super::web::client::WebUnderTest;

const ID: &str = "0198c3de-0000-7000-8000-00000000abcd";
/// Looks like a token, and is none.
const CANARY: &str = "ghp_C4n4ryC4n4ryC4n4ryC4n4ryC4n4ryC4n4r";

#[test]
fn a_command_tells_what_happens_inside_only_when_asked() {
    let home = TempHome::new();
    assert_eq!(run(&home, "ls").exits(0).stderr, "");
    for told in [
        ran(ostler(&home).args(["ls", "-v"])).exits(0),
        ran(ostler(&home).env("OSTLER_LOG", "debug").arg("ls")).exits(0),
    ] {
        assert!(told.stderr.contains("DEBUG") && told.stderr.contains("command="), "{told:?}");
        assert_eq!(told.stdout, run(&home, "ls").stdout);
    }
    let quiet = ran(ostler(&home).env("OSTLER_LOG", "error").arg("ls")).exits(0);
    assert_eq!(quiet.stderr, "");
}

#[test]
fn a_hook_is_silent_whatever_is_to_be_logged() {
    let home = TempHome::new();
    let ran = ran(ostler(&home).env("OSTLER_LOG", "trace").args(["hook", "claude-code", "Stop"]))
        .exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    assert!(!state(&home).join("logs").exists());
}

#[test]
fn the_daemon_logs_to_a_private_file_of_its_own() {
    let home = TempHome::new();
    let mut command = ostler(&home);
    command.env("OSTLER_LOG", "debug");
    let daemon = Daemon::with(command);
    let mut agent = Agent::start(&home, ID);
    agent.begin();
    run(&home, "finalize").exits(0);
    agent.kill();
    run(&home, "finalize").exits(0);
    drop(daemon);
    let text = read_private_log(&home, "daemon");
    for said in [
        "INFO ",
        "DEBUG",
        "begins role=\"daemon\"",
        "an order was taken order=\"sweep\"",
        "an order was answered order=\"sweep\" outcome=\"done\"",
        "the spool was taken in reports=",
        "a session was ended",
        "swept ended=",
    ] {
        assert!(text.contains(said), "{said} is not in {text}");
    }
    assert!(
        text.contains(ID) && !text.contains("do it"),
        "what was asked of an agent is not told: {text}"
    );
}

#[test]
fn the_page_logs_to_a_file_of_its_own() {
    let home = TempHome::new();
    let mut command = ostler(&home);
    command.env("OSTLER_LOG", "info").args(["web", "--port", "0", "--json"]);
    let web = WebUnderTest::spawn(command);
    let token = web.sign_in();
    drop(web);
    let text = read_private_log(&home, "web");
    assert!(text.contains("begins role=\"web\"") && text.contains("signed in"), "{text}");
    assert!(!text.contains(&token), "{text}");
}

#[test]
fn a_host_and_a_keeper_log_to_files_that_are_set_aside_when_full() {
    let home = TempHome::new();
    for role in ["host", "keeper"] {
        fill_log(&home, role);
    }
    let logged = |line: &str| {
        let mut command = ostler(&home);
        ran(command.env("OSTLER_LOG", "debug").args(line.split(' '))).exits(0)
    };
    logged("create --name build -- /bin/cat");
    logged("destroy --force build");
    let opened = logged("access open --ttl 5m --generate --label work --json").result();
    logged(&format!("access stop {}", opened["id"].as_str().unwrap()));
    for role in ["host", "keeper"] {
        let text = read_private_log(&home, role);
        assert!(text.contains(&format!("begins role=\"{role}\"")), "{role}: {text}");
        let aside = state(&home).join(format!("logs/{role}.log.old")).metadata().unwrap();
        assert_eq!(aside.permissions().mode() & 0o777, 0o600, "{role}");
        assert!(aside.len() <= LOG_LIMIT && (text.len() as u64) < LOG_LIMIT, "{role}");
    }
}

/// The longest log file.
const LOG_LIMIT: u64 = 1 << 20;

/// A log of a role that has no room for one line more.
fn fill_log(home: &TempHome, role: &str) {
    let line = format!("{}\n", "x".repeat(63));
    let lines = usize::try_from(LOG_LIMIT).unwrap() / line.len();
    let log = home.write(format!(".local/state/ostler/logs/{role}.log"), line.repeat(lines));
    testkit::access::chmod(&log, 0o600);
    for below in ["", "logs"] {
        testkit::access::chmod(&state(home).join(below), 0o700);
    }
}

/// The log of a role, which nobody else may read.
fn read_private_log(home: &TempHome, role: &str) -> String {
    let log = state(home).join(format!("logs/{role}.log"));
    assert_eq!(log.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::read_to_string(log).unwrap()
}

#[test]
fn a_bundle_holds_what_helps_and_no_secret_from_anywhere() {
    let home = TempHome::new();
    claude_session(&home, ID, "/home/u/secret-repo", &format!("my title with {CANARY}"));
    home.write(".config/ostler/config.toml", format!("stale_after = \"{CANARY}\"\n"));
    home.write(".local/state/ostler/logs/daemon.log", format!("x token={CANARY} y\n"));
    home.write(
        ".local/state/ostler/hook-problems.log",
        format!("Authorization: Bearer {CANARY}\n"),
    );
    for below in ["", "logs", "logs/daemon.log", "hook-problems.log"] {
        let path = state(&home).join(below);
        let mode = if path.is_dir() { 0o700 } else { 0o600 };
        testkit::access::chmod(&path, mode);
    }
    let secret = "plainsecretvalue";
    home.append(".local/state/ostler/logs/daemon.log", format!("echo {secret}\n"));
    let mut command = ostler(&home);
    command.env("SOME_API_KEY", secret).env("OTHER", CANARY);
    let made = ran(command.args(["doctor", "--no-sweep", "--bundle", "report.tar.zst"]));
    assert!(made.stdout.contains("logs/daemon.log"), "what is inside is said: {made:?}");
    let path = home.join("report.tar.zst");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let plain = zstd_decode(&path);
    for name in ["version.txt", "doctor.json", "config.txt", "daemon.json", "files.txt"] {
        assert!(holds(&plain, name), "{name} is in it");
    }
    for foreign in [CANARY, secret, "my title", "/home/u/secret-repo"] {
        assert!(!holds(&plain, foreign), "{foreign} is in it");
    }
    // With settings that hold, agents are looked for too: counted, not told.
    home.remove(".config/ostler/config.toml");
    let mut command = ostler(&home);
    command.env("SOME_API_KEY", secret).env("OTHER", CANARY);
    ran(command.args(["doctor", "--no-sweep", "--bundle", "second.tar.zst"]));
    let plain = zstd_decode(&home.join("second.tar.zst"));
    assert!(holds(&plain, "adapters.txt") && holds(&plain, "claude-code: 1 sessions"));
    for foreign in [CANARY, secret, "my title", "/home/u/secret-repo"] {
        assert!(!holds(&plain, foreign), "{foreign} is in it");
    }
    let again = ran(ostler(&home).args(["doctor", "--no-sweep", "--bundle", "report.tar.zst"]));
    assert_eq!(again.code, 2, "nothing is written over: {again:?}");
}

#[test]
fn a_bundle_is_a_tarball_that_others_can_read() {
    let home = TempHome::new();
    ran(ostler(&home).args(["doctor", "--no-sweep", "--bundle"]));
    let plain = zstd_decode(&home.join("ostler-bundle.tar.zst"));
    home.write("plain.tar", plain);
    let listed = Command::new("tar").arg("-tf").arg(home.join("plain.tar")).output().unwrap();
    let names = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.status.success() && names.contains("version.txt\n"), "{names}");
}

#[test]
fn a_secret_in_the_json_of_a_bundle_goes_too_and_a_failed_bundle_leaves_nothing() {
    let home = TempHome::new();
    let secret = r#"pa"ss\canary"#;
    // It stands in the answers as JSON has it: in the name of the directory that they tell of.
    let mut command = ostler(&home);
    command.env("SOME_API_KEY", secret).env("OSTLER_HOME", home.join(secret));
    ran(command.args(["doctor", "--no-sweep", "--bundle", "report.tar.zst"]));
    let plain = zstd_decode(&home.join("report.tar.zst"));
    assert!(holds(&plain, "[redacted]") && !holds(&plain, "canary"), "in no form");
    let failed = ran(ostler(&home).args(["doctor", "--no-sweep", "--bundle", "no/such.tar.zst"]));
    assert!(failed.stderr.contains("in a directory that exists"), "{failed:?}");
    // Files may not grow, as on a full disk.
    let program = env!("CARGO_BIN_EXE_ostler");
    let line = format!("trap '' XFSZ; ulimit -f 0; {program} doctor --no-sweep --bundle full");
    let failed = ran(testkit::run::bare("/bin/sh", &home).args(["-c", &line]));
    assert!(failed.stderr.contains("on a disk with room"), "{failed:?}");
    assert!(!home.join("full").exists(), "no half of it is left");
}

fn zstd_decode(path: &std::path::Path) -> Vec<u8> {
    zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap()
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
