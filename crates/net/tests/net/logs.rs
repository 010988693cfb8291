//! What the helper notes of itself: the same log as `ostler`'s, in a file for each of its roles.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use model::helper::{DaemonPlace, FleetSettings, HELPER_PROTOCOL, HelperAsk, HelperRequest};
use testkit::home::TempHome;
use testkit::run::bare;

/// Starts the helper with a request and waits until it ends with its input.
fn run_helper(home: &TempHome, ask: HelperAsk, level: Option<&str>) {
    let state = home.join(".local/state/ostler");
    let request =
        HelperRequest { protocol: HELPER_PROTOCOL, home: state.clone(), cache: state, ask };
    let mut command: Command = bare(env!("CARGO_BIN_EXE_ostler-net"), home);
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    if let Some(level) = level {
        command.env("OSTLER_LOG", level);
    }
    let mut child = command.spawn().unwrap();
    let mut line = serde_json::to_vec(&request).unwrap();
    line.push(b'\n');
    child.stdin.take().unwrap().write_all(&line).unwrap();
    child.wait().unwrap();
}

#[test]
fn the_link_logs_to_a_private_file_of_its_own_only_when_asked() {
    let home = TempHome::new();
    let place = DaemonPlace {
        socket: home.join("nowhere.sock"),
        home_id: "1:1".to_owned(),
        version: "0".to_owned(),
        program: home.join("ostler"),
    };
    let link = || HelperAsk::FleetLink { place: place.clone(), settings: FleetSettings::default() };
    let logs = home.join(".local/state/ostler/logs");
    run_helper(&home, link(), None);
    assert!(!logs.exists());
    run_helper(&home, link(), Some("debug"));
    let log = logs.join("link.log");
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("begins role=\"link\"") && text.contains("net::link: no link"), "{text}");
    assert_eq!(log.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}
