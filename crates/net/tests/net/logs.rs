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

#[test]
fn the_helpers_logs_are_private_and_set_aside_when_full() {
    const LIMIT: usize = 1 << 20;
    let home = TempHome::new();
    let place = DaemonPlace {
        socket: home.join("nowhere.sock"),
        home_id: "1:1".to_owned(),
        version: "0".to_owned(),
        program: home.join("ostler"),
    };
    let link = HelperAsk::FleetLink { place: place.clone(), settings: FleetSettings::default() };
    for (role, ask) in [("link", link), ("webhooks", HelperAsk::WebhookSender(place))] {
        let full = home.write(format!(".local/state/ostler/logs/{role}.log"), "x".repeat(LIMIT));
        let logs = full.parent().unwrap();
        let private = |mode| PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&full, private(0o600)).unwrap();
        std::fs::set_permissions(logs, private(0o700)).unwrap();
        std::fs::set_permissions(logs.parent().unwrap(), private(0o700)).unwrap();
        run_helper(&home, ask, Some("debug"));
        let text = std::fs::read_to_string(&full).unwrap();
        assert!(text.contains(&format!("begins role=\"{role}\"")), "{role}: {text}");
        for path in [full.clone(), logs.join(format!("{role}.log.old"))] {
            let about = path.metadata().unwrap();
            assert_eq!(about.permissions().mode() & 0o777, 0o600, "{}", path.display());
            assert!(about.len() <= LIMIT as u64, "{}", path.display());
        }
    }
}
