//! The life of a fleet: joining, silence, faults of the hub, copied homes, leaving.

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};
use testkit::home::{Snapshot, TempHome};

use super::fleet_kit::{
    TestHub, fleet_run, link_pid, link_state, signal_process, start_member, with_engine,
};
use super::kit::{TestDaemon, ostler, ostler_program, wait_until};

/// A terminal that lives as long as the value.
struct LiveTerminal<'a>(&'a TempHome);

impl<'a> LiveTerminal<'a> {
    fn start(home: &'a TempHome) -> Self {
        fleet_run(home, &["create", "--name", "build", "--", "cat"]).exits(0);
        Self(home)
    }
}

impl Drop for LiveTerminal<'_> {
    fn drop(&mut self) {
        let _ = ostler(self.0).args(["destroy", "build"]).output();
    }
}

fn listed(home: &TempHome) -> (i32, Value) {
    let ran = fleet_run(home, &["--json", "ls", "--fleet"]);
    (ran.code, ran.result())
}

fn session_of(result: &Value, member: &str) -> Option<Value> {
    let sessions = result["sessions"].as_array().unwrap();
    sessions
        .iter()
        .find(|one| one["member"]["name"] == member && one["agent"] == "terminal")
        .cloned()
}

#[test]
fn row_18_joined_by_two_lines_without_a_secret_and_seen_from_elsewhere() {
    let hub = TestHub::start(&[]);
    let (server, laptop) = (hub.join("server", "none"), hub.join("laptop", "read"));
    let _daemons = [start_member(&server), start_member(&laptop)];
    for name in ["server", "laptop"] {
        hub.wait_for_state(name, "reachable");
    }
    let _terminal = LiveTerminal::start(&server);
    let found = wait_until("the server's terminal on the laptop", || {
        session_of(&listed(&laptop).1, "server")
    });
    assert_eq!(found["status"], "running");
    assert!(found["ageMs"].as_u64().unwrap() < 30_000, "{found}");
    assert!(found.get("transcript").is_none() && found.get("owner").is_none());
    let (code, result) = listed(&laptop);
    assert_eq!((code, &result["incomplete"]), (0, &serde_json::json!([])));
    // What travels holds no seed: those begin with `SU` and are in files of their own.
    let words = ["--json", "fleet", "join", "--name", "other"];
    let other = TempHome::new();
    let line = fleet_run(&other, &words).result()["request"].as_str().unwrap().to_owned();
    let seeds = std::fs::read_dir(other.join(".local/state/ostler/fleet")).unwrap();
    for file in seeds
        .map(|one| one.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "seed"))
    {
        let seed = std::fs::read_to_string(&file).unwrap();
        assert!(!line.contains(&seed) && !line.contains(&encode(&seed)), "{}", file.display());
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    // A member that is no operator reads nothing.
    let refused = fleet_run(&server, &["ls", "--fleet"]).exits(13);
    assert!(refused.stderr.contains("--level read"), "{}", refused.stderr);
}

fn encode(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
}

#[test]
fn row_28_silence_is_unreachable_since_and_its_sessions_are_unknown_with_what_was_last_known() {
    let hub = TestHub::start(&[]);
    let (server, laptop) = (hub.join("server", "none"), hub.join("laptop", "read"));
    let daemon = start_member(&server);
    let _terminal = LiveTerminal::start(&server);
    wait_until("the server's terminal", || session_of(&listed(&laptop).1, "server"));
    let link = link_pid(&daemon);
    signal_process(link, "-STOP");
    let member = hub.wait_for_state("server", "unreachable");
    assert_eq!(member["since"], member["lastSeenAt"]);
    let (code, result) = listed(&laptop);
    assert_eq!(code, 12);
    let session = session_of(&result, "server").unwrap();
    assert_eq!(session["status"], "unknown");
    assert_eq!(session["liveness"]["reason"], "member-unreachable");
    assert_eq!(session["lastKnown"]["status"], "running");
    assert!(result["incomplete"].to_string().contains("member server"), "{result}");
    let told = fleet_run(&laptop, &["ls", "--fleet"]).exits(12);
    assert!(told.stdout.contains("unknown, was"), "{}", told.stdout);
    assert_eq!(fleet_run(&laptop, &["ls", "--fleet", "--reachable"]).code, 0);
    signal_process(link, "-CONT");
    hub.wait_for_state("server", "reachable");
    assert_eq!(session_of(&listed(&laptop).1, "server").unwrap()["status"], "running");
}

#[test]
fn row_30_and_31_a_stopped_daemon_says_so_and_a_killed_one_is_taken_over_from() {
    let hub = TestHub::start(&[]);
    let (server, laptop) = (hub.join("server", "none"), hub.join("laptop", "read"));
    let daemon = start_member(&server);
    let _terminal = LiveTerminal::start(&server);
    wait_until("the server's terminal", || session_of(&listed(&laptop).1, "server"));
    fleet_run(&server, &["daemon", "stop"]).exits(0);
    hub.wait_for_state("server", "stopped");
    let session = session_of(&listed(&laptop).1, "server").unwrap();
    assert_eq!(session["liveness"]["reason"], "daemon-stopped", "it lives on");
    drop(daemon);
    let daemon = start_member(&server);
    hub.wait_for_state("server", "reachable");
    // Killed with its link, nobody says goodbye.
    let link = link_pid(&daemon);
    signal_process(link, "-STOP");
    daemon.kill();
    signal_process(link, "-KILL");
    let begun = Instant::now();
    let _daemon = start_member(&server);
    wait_until("taking over", || Some(()).filter(|()| link_state(&server) == "publishing"));
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    hub.wait_for_state("server", "reachable");
}

#[test]
fn row_22_evicted_members_are_cut_and_forgotten_and_their_home_is_not_touched() {
    let hub = TestHub::start(&[]);
    let (server, laptop) = (hub.join("server", "none"), hub.join("laptop", "read"));
    let _daemons = [start_member(&server), start_member(&laptop)];
    hub.wait_for_state("server", "reachable");
    hub.wait_for_state("laptop", "reachable");
    let keys = server.join(".local/state/ostler/fleet/seal.seed");
    let before = std::fs::read(&keys).unwrap();
    let work = Snapshot::of(&server.path().join(".config"));
    fleet_run(&hub.home, &["fleet", "evict", "server"]).exits(0);
    assert_eq!(hub.member("server"), None);
    wait_until("the cut", || Some(()).filter(|()| link_state(&server) != "publishing"));
    assert_eq!(std::fs::read(&keys).unwrap(), before);
    assert_eq!(work.changes(&Snapshot::of(&server.path().join(".config"))), Vec::<String>::new());
    assert_eq!(hub.member("laptop").unwrap()["state"], "reachable", "nobody else is disturbed");
    fleet_run(&hub.home, &["fleet", "evict", "server"]).exits(3);
}

#[test]
fn row_23_a_member_that_leaves_says_so_and_gives_up_its_keys() {
    let hub = TestHub::start(&[]);
    let server = hub.join("server", "read");
    let _daemon = start_member(&server);
    hub.wait_for_state("server", "reachable");
    fleet_run(&server, &["fleet", "leave"]).exits(0);
    let member = hub.wait_for_state("server", "left");
    assert_eq!(member["state"], "left");
    assert_eq!(fleet_run(&hub.home, &["fleet", "status"]).code, 0, "not incomplete");
    let seed = server.join(".local/state/ostler/fleet/seal.seed");
    assert_eq!(std::fs::read(seed).unwrap(), b"");
    fleet_run(&server, &["fleet", "status"]).exits(13);
}

#[test]
fn row_24_init_refuses_to_overwrite_and_to_listen_to_the_world_in_the_clear() {
    let home = TempHome::new();
    let refused =
        fleet_run(&home, &["fleet", "init", "--plain", "--listen", "0.0.0.0:4999"]).exits(13);
    assert!(refused.stderr.contains("TLS"), "{}", refused.stderr);
    fleet_run(&home, &["fleet", "init", "--plain", "--listen", "127.0.0.1:4999"]).exits(0);
    let file = home.join(".local/state/ostler/fleet/hub/root.seed");
    let before = std::fs::read(&file).unwrap();
    fleet_run(&home, &["fleet", "init", "--listen", "127.0.0.1:4999"]).exits(13);
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[test]
fn row_1_an_engine_that_is_too_old_is_refused_with_a_hint() {
    let home = TempHome::new();
    let old = home.directory("old");
    let program = home.write("old/nats-server", "#!/bin/sh\necho 'nats-server: v2.10.27'\n");
    std::fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", old.display());
    let ran = testkit::run::ran(ostler(&home).env("PATH", path).args(["fleet", "init"])).exits(13);
    assert!(ran.stderr.contains("2.10.27") && ran.stderr.contains("2.12.6"), "{}", ran.stderr);
    assert!(!home.join(".local/state/ostler/fleet").exists(), "nothing was made");
}

#[test]
fn row_25_a_foreign_ca_is_refused_and_said() {
    let (hub, other) = (TestHub::start(&[]), TestHub::start(&[]));
    let laptop = hub.join("laptop", "read");
    let file = laptop.join(".local/state/ostler/fleet/member.json");
    let mut member: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let ca = std::fs::read_to_string(other.directory().join("ca.pem")).unwrap();
    member["ca"] = Value::String(ca);
    std::fs::write(&file, member.to_string()).unwrap();
    let (code, result) = listed(&laptop);
    assert_eq!(code, 12);
    assert_eq!(result["hub"]["reachable"], false);
    let reason = result["hub"]["reason"].as_str().unwrap().to_lowercase();
    assert!(reason.contains("cert") || reason.contains("tls"), "{reason}");
}

#[test]
fn row_26_keys_that_others_can_read_are_refused() {
    let hub = TestHub::start(&["--plain"]);
    let laptop = hub.join("laptop", "read");
    let seed = laptop.join(".local/state/ostler/fleet/operator-link.seed");
    std::fs::set_permissions(&seed, PermissionsExt::from_mode(0o644)).unwrap();
    let ran = fleet_run(&laptop, &["ls", "--fleet"]).exits(8);
    assert!(ran.stderr.contains("operator-link.seed"), "{}", ran.stderr);
}

#[test]
fn row_33_of_two_daemons_on_copied_state_one_publishes() {
    let hub = TestHub::start(&["--plain"]);
    let server = hub.join("server", "none");
    let _daemon = start_member(&server);
    hub.wait_for_state("server", "reachable");
    let copy = copy_home(&server);
    let _second = start_member(&copy);
    wait_until("the second one's silence", || {
        Some(()).filter(|()| link_state(&copy).contains("another process"))
    });
    assert_eq!(hub.member("server").unwrap()["state"], "reachable");
    assert_eq!(link_state(&server), "publishing");
}

/// A home with the same fleet files, as a cloned disk has.
fn copy_home(home: &TempHome) -> TempHome {
    let copy = TempHome::new();
    let ostler = copy.directory(".local/state/ostler");
    std::fs::set_permissions(&ostler, PermissionsExt::from_mode(0o700)).unwrap();
    copy.directory(".config");
    for (from, to) in
        [(".local/state/ostler/fleet", ostler), (".config/ostler", copy.join(".config"))]
    {
        let copied = Command::new("cp").arg("-a").arg(home.join(from)).arg(to).status().unwrap();
        assert!(copied.success());
    }
    let _ = std::fs::remove_file(copy.join(".local/state/ostler/fleet/link.json"));
    copy
}

/// The daemon of a home on what looks like another machine, or another boot of this one.
fn start_elsewhere(home: &TempHome, bind: &str, content: &str) -> TestDaemon {
    let file = home.write("elsewhere", content);
    let script = format!(
        "mount --bind {} {bind} && exec {} \"$@\"",
        file.display(),
        ostler_program().display()
    );
    let bare = with_engine(ostler(home));
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh"]).env_clear().current_dir(home.path());
    command.envs(
        bare.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))),
    );
    TestDaemon::with(command)
}

#[test]
fn row_32_a_clone_with_another_boot_keeps_silent_and_both_are_known() {
    let hub = TestHub::start(&["--plain"]);
    let server = hub.join("server", "none");
    let _daemon = start_member(&server);
    hub.wait_for_state("server", "reachable");
    let clone = copy_home(&server);
    let boot = "11111111-2222-4333-8444-555555555555\n";
    let _clone_daemon = start_elsewhere(&clone, "/proc/sys/kernel/random/boot_id", boot);
    wait_until("the clone's silence", || {
        Some(()).filter(|()| link_state(&clone).contains("rival"))
    });
    let member = hub.wait_for_state("server", "rival");
    assert!(member["reason"].as_str().unwrap().contains("claims"), "{member}");
}

#[test]
fn row_34_keys_on_another_machine_are_refused() {
    let hub = TestHub::start(&["--plain"]);
    let server = hub.join("server", "none");
    let copy = copy_home(&server);
    let machine = "0123456789abcdef0123456789abcdef\n";
    let _daemon = start_elsewhere(&copy, "/etc/machine-id", machine);
    wait_until("the refusal", || Some(()).filter(|()| link_state(&copy).contains("copied")));
    assert_eq!(hub.member("server").unwrap()["state"], "silent");
}

#[test]
fn row_39_and_40_members_come_back_by_themselves_also_to_an_empty_hub() {
    let mut hub = TestHub::start(&[]);
    let homes: Vec<TempHome> =
        ["one", "two", "three"].iter().map(|name| hub.join(name, "read")).collect();
    let _daemons: Vec<TestDaemon> = homes.iter().map(start_member).collect();
    let _terminal = LiveTerminal::start(&homes[0]);
    wait_until("the terminal", || session_of(&listed(&homes[1]).1, "one"));
    hub.kill_engine();
    // Row 45: lost, not empty.
    let (code, result) = listed(&homes[1]);
    assert_eq!(code, 12);
    let session = session_of(&result, "one").expect("what was read before, with its age");
    assert_eq!(
        (&session["status"], &session["liveness"]["reason"]),
        (&"unknown".into(), &"hub-lost".into())
    );
    hub.run_engine();
    for name in ["one", "two", "three"] {
        hub.wait_for_state(name, "reachable");
    }
    hub.kill_engine();
    std::fs::remove_dir_all(hub.directory().join("store")).unwrap();
    hub.run_engine();
    for name in ["one", "two", "three"] {
        hub.wait_for_state(name, "reachable");
    }
    wait_until("the whole inventory again", || {
        session_of(&listed(&homes[1]).1, "one").filter(|one| one["status"] == "running")
    });
}

#[test]
fn row_41_a_hub_that_hangs_costs_the_time_out_and_nothing_local() {
    let hub = TestHub::start(&["--plain"]);
    let laptop = hub.join("laptop", "read");
    let _terminal = LiveTerminal::start(&laptop);
    hub.signal_engine("-STOP");
    let begun = Instant::now();
    fleet_run(&laptop, &["ls"]).exits(0);
    assert!(begun.elapsed() < Duration::from_secs(2));
    let begun = Instant::now();
    let (code, result) = listed(&laptop);
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert_eq!(code, 12);
    assert_eq!(result["hub"]["reachable"], false);
    let local = result["sessions"].as_array().unwrap();
    assert!(local.iter().any(|one| one["agent"] == "terminal"), "what is here is there");
    hub.signal_engine("-CONT");
}

#[test]
fn row_21_nobody_is_disconnected_when_one_is_admitted_and_row_20_it_works_at_once() {
    let hub = TestHub::start(&["--plain"]);
    let one = hub.join("one", "read");
    let _first = start_member(&one);
    hub.wait_for_state("one", "reachable");
    let two = hub.join("two", "read");
    let _second = start_member(&two);
    hub.wait_for_state("two", "reachable");
    let log = std::fs::read_to_string(hub.directory().join("hub.log")).unwrap();
    assert!(!log.contains("Authorization Violation"), "{log}");
    assert_eq!(link_state(&one), "publishing");
    let operators = fleet_run(&hub.home, &["--json", "fleet", "operator"]).exits(0).result();
    assert_eq!(operators["operators"].as_array().unwrap().len(), 2);
    fleet_run(&hub.home, &["fleet", "operator", "two", "--level", "none"]).exits(0);
    let refused = fleet_run(&two, &["--json", "ls", "--fleet"]);
    assert_eq!(refused.code, 12, "a removed operator reads nothing: {refused:?}");
    assert_eq!(refused.result()["hub"]["reachable"], false);
}

#[test]
fn row_17_the_doctor_sees_a_bucket_that_is_less_strict_than_it_must_be() {
    let hub = TestHub::start(&["--plain"]);
    fleet_run(&hub.home, &["fleet", "doctor"]).exits(0);
    let opened = net::hub::Hub::open(&hub.home.join(".local/state/ostler")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut admin = opened.connect_admin().await.unwrap();
        let mut config = net::hub::bucket_config("inv", 0);
        config["allow_rollup_hdrs"] = true.into();
        admin.ask_engine("$JS.API.STREAM.UPDATE.KV_inv", &config).await.unwrap();
    });
    let told = fleet_run(&hub.home, &["fleet", "doctor"]).exits(1);
    assert!(told.stdout.contains("allow_rollup_hdrs"), "{}", told.stdout);
}

#[test]
fn row_56_what_the_hub_does_not_keep_is_asked_for() {
    let hub = TestHub::start(&["--plain"]);
    let (server, laptop) = (hub.join("server", "none"), hub.join("laptop", "read"));
    let id = "0199f2aa-1111-7222-8333-444455556666";
    let line = |kind: &str, text: &str| {
        serde_json::json!({
            "type": kind, "sessionId": id, "timestamp": "2026-10-01T08:00:00.000Z", "cwd": "/tmp",
            "uuid": text, "parentUuid": null, "version": "2.1.0",
            "message": { "role": kind, "content": [{ "type": "text", "text": text }] },
        })
        .to_string()
    };
    let text = format!("{}\n{}\n", line("user", "hello"), line("assistant", "hello too"));
    let file = server.write(format!(".claude/projects/-tmp/{id}.jsonl"), text);
    let old = Command::new("touch").args(["-d", "2026-10-01"]).arg(&file).status();
    assert!(old.unwrap().success());
    let _daemon = start_member(&server);
    hub.wait_for_state("server", "reachable");
    super::fleet_kit::wait_for_link(&server);
    let ids = |words: &[&str]| {
        let listed = fleet_run(&laptop, words).result();
        let sessions = listed["sessions"].as_array().unwrap().clone();
        sessions
            .iter()
            .filter(|one| one["member"]["name"] == "server")
            .map(|one| one["id"].clone())
            .collect::<Vec<_>>()
    };
    wait_until("the member's counts", || {
        hub.member("server").filter(|one| one["counts"]["ended"] == 1)
    });
    assert_eq!(ids(&["--json", "ls", "--fleet", "-a"]), Vec::<Value>::new(), "too old for the hub");
    assert_eq!(ids(&["--json", "ls", "--host", "server", "-a"]), [id]);
    let listed = fleet_run(&laptop, &["--json", "ls", "--host", "server", "-a"]).exits(0);
    assert_eq!(listed.result()["incomplete"], serde_json::json!([]));
}

#[test]
fn a_member_that_starts_again_never_seems_to_have_no_sessions() {
    let hub = TestHub::start(&["--plain"]);
    let (server, laptop) = (hub.join("server", "none"), hub.join("laptop", "read"));
    let daemon = start_member(&server);
    let _terminal = LiveTerminal::start(&server);
    wait_until("the server's terminal", || session_of(&listed(&laptop).1, "server"));
    daemon.kill();
    let _daemon = start_member(&server);
    wait_until("the terminal of the new run", || {
        let (_, result) = listed(&laptop);
        let found = session_of(&result, "server");
        assert!(found.is_some(), "nobody said that it is gone: {result}");
        found.filter(|one| one["status"] == "running" && one.get("superseded").is_none())
    });
}
