//! The life of a fleet: joining, silence, faults of the hub, copied homes, leaving.

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};
use testkit::home::{Snapshot, TempHome};

use super::fleet_kit::{
    TestHub, block_on, connect_as_member, copy_home, fleet_run, link_pid, link_state, member_of,
    publish_lease, publish_page, put_as_member, signal_process, start_elsewhere, start_member,
    wait_for_link, write_settings,
};
use super::kit::{PATIENCE, TestDaemon, ostler, quickest_run, wait_until};

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
    let other = TempHome::new();
    let words = ["--json", "fleet", "join", "--name", "other", "--level", "reap"];
    let request = fleet_run(&other, &words).result()["request"].as_str().unwrap().to_owned();
    let words = ["--json", "fleet", "admit", &request];
    let answer = fleet_run(&hub.home, &words).exits(0).result();
    let answer = answer["answer"].as_str().unwrap().to_owned();
    for line in [&request, &answer] {
        let text = decode(line.split_once(':').unwrap().1);
        for directory in [other.join(".local/state/ostler/fleet"), hub.directory()] {
            assert_no_secret_in(&text, &directory);
        }
    }
    fleet_run(&other, &["fleet", "join", &answer]).exits(0);
    // A member that is no operator reads nothing.
    let refused = fleet_run(&server, &["ls", "--fleet"]).exits(13);
    assert!(refused.stderr.contains("--level read"), "{}", refused.stderr);
}

fn decode(text: &str) -> String {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(text).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// No key of a directory is in a text, whole or in part, and nobody else reads them.
#[track_caller]
fn assert_no_secret_in(text: &str, directory: &std::path::Path) {
    let mut count = 0;
    for file in std::fs::read_dir(directory).unwrap().map(|one| one.unwrap().path()) {
        if !file.extension().is_some_and(|end| end == "seed" || end == "key") {
            continue;
        }
        count += 1;
        let secret = std::fs::read_to_string(&file).unwrap();
        let lines = secret.lines().filter(|line| line.len() > 20 && !line.contains("-----"));
        for line in lines {
            assert!(!text.contains(&line[..20]), "{}: {text}", file.display());
        }
        assert!(!text.contains("PRIVATE KEY"), "{text}");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert!(count >= 4, "{}", directory.display());
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
fn row_30_a_daemon_that_stops_says_so_and_its_session_lives_on() {
    let hub = TestHub::start(&["--plain"]);
    let (server, laptop) = (hub.join("server", "none"), hub.join("laptop", "read"));
    let _daemon = start_member(&server);
    let _terminal = LiveTerminal::start(&server);
    wait_until("the server's terminal", || session_of(&listed(&laptop).1, "server"));
    fleet_run(&server, &["daemon", "stop"]).exits(0);
    hub.wait_for_state("server", "stopped");
    let session = session_of(&listed(&laptop).1, "server").unwrap();
    assert_eq!(
        (&session["status"], &session["liveness"]["reason"]),
        (&"unknown".into(), &"daemon-stopped".into())
    );
    let alive = fleet_run(&server, &["--json", "inspect", "build"]).exits(0).result();
    assert!(alive.to_string().contains("running"), "{alive}");
}

#[test]
fn row_31_a_killed_daemon_takes_over_from_itself_within_a_second() {
    let hub = TestHub::start(&["--plain"]);
    let server = hub.join("server", "none");
    // A lease that is good for much longer than a restart takes.
    server.write(".config/ostler/config.toml", "[fleet]\nrenew = \"60s\"\nlook = \"1s\"\n");
    let mut daemon = Some(start_member(&server));
    wait_until("a link that publishes", || {
        Some(()).filter(|()| link_state(&server) == "publishing")
    });
    let report = server.join(".local/state/ostler/fleet/link.json");
    let mut times = Vec::new();
    for _ in 0..3 {
        // Killed with its link, nobody says goodbye.
        let killed = daemon.take().unwrap();
        let link = link_pid(&killed);
        signal_process(link, "-STOP");
        killed.kill();
        signal_process(link, "-KILL");
        std::fs::remove_file(&report).unwrap();
        daemon = Some(start_member(&server));
        let begun = Instant::now();
        wait_until("taking over", || Some(()).filter(|()| link_state(&server) == "publishing"));
        times.push(begun.elapsed());
    }
    // The others may have waited for a busy machine; none of them for the old lease.
    assert!(times.iter().min().unwrap() < &Duration::from_secs(1), "{times:?}");
    assert!(times.iter().all(|time| *time < Duration::from_secs(60)), "{times:?}");
    hub.wait_for_state("server", "reachable");
}

#[test]
fn row_22_evicted_members_are_cut_and_forgotten_and_their_home_is_not_touched() {
    let hub = TestHub::start(&[]);
    let (server, laptop) = (hub.join("server", "none"), hub.join("laptop", "read"));
    let _daemons = [start_member(&server), start_member(&laptop)];
    hub.wait_for_state("server", "reachable");
    hub.wait_for_state("laptop", "reachable");
    fleet_run(&hub.home, &["fleet", "evict", "server"]).exits(0);
    assert_eq!(hub.member("server"), None);
    wait_until("the cut", || Some(()).filter(|()| link_state(&server) != "publishing"));
    assert_eq!(hub.member("laptop").unwrap()["state"], "reachable", "nobody else is disturbed");
    fleet_run(&hub.home, &["fleet", "evict", "server"]).exits(3);
    // Homes in which nothing runs, so that whatever changes there is the hub's doing.
    let mut times = Vec::new();
    for name in ["one", "two", "three"] {
        let home = hub.join(name, "read");
        let (_, file) = member_of(&home);
        publish_lease(&home, sys::clock::now());
        let session = serde_json::json!({ "id": "s1", "agent": "codex", "status": "running" });
        publish_page(&home, "active.0", 1, &[session]);
        assert_eq!(hub.subjects_of(&file.id).len(), 3, "lease, page, certificate");
        let before = Snapshot::of(home.path());
        times.push(time_of_cut(&hub, &home, name));
        assert_eq!(before.changes(&Snapshot::of(home.path())), Vec::<String>::new());
        assert_eq!(hub.subjects_of(&file.id), Vec::<String>::new(), "{name}");
    }
    assert!(times.iter().min().unwrap() < &Duration::from_secs(1), "{times:?}");
}

/// Evicts a member that is connected; from the reload that the hub's command asks for until its connection ends.
fn time_of_cut(hub: &TestHub, home: &TempHome, name: &str) -> Duration {
    block_on(async {
        let (mut member, ..) = connect_as_member(home).await;
        let log = || std::fs::read_to_string(hub.directory().join("hub.log")).unwrap();
        let reloads = log().matches("Reloaded").count();
        let mut evicting = ostler(&hub.home);
        let mut evicting = evicting.args(["fleet", "evict", name]).spawn().unwrap();
        let begun = tokio::time::timeout(PATIENCE, async {
            while log().matches("Reloaded").count() == reloads {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Instant::now()
        });
        let cut = async {
            loop {
                match member.events.recv().await {
                    Some(async_nats::Event::Disconnected) | None => return Instant::now(),
                    Some(_) => {}
                }
            }
        };
        let (begun, cut) = tokio::join!(begun, tokio::time::timeout(PATIENCE, cut));
        assert!(evicting.wait().unwrap().success());
        cut.unwrap().saturating_duration_since(begun.unwrap())
    })
}

#[test]
fn row_23_a_member_that_leaves_says_so_and_gives_up_its_keys() {
    let hub = TestHub::start(&[]);
    let server = hub.join("server", "read");
    let _daemon = start_member(&server);
    hub.wait_for_state("server", "reachable");
    wait_for_link(&server);
    let (_, file) = member_of(&server);
    let _terminal = LiveTerminal::start(&server);
    wait_until("the server's terminal", || session_of(&listed(&hub.home).1, "server"));
    fleet_run(&server, &["fleet", "leave"]).exits(0);
    assert_eq!(hub.sessions_at_hub(&file.id), 0, "its pages are empty");
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

#[test]
fn row_32_a_clone_with_another_boot_keeps_silent_and_both_are_known() {
    let hub = TestHub::start(&["--plain"]);
    let server = hub.join("server", "none");
    write_settings(&server, "10s", "");
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
fn whoever_watches_another_holder_hears_its_own_daemon_end() {
    let hub = TestHub::start(&["--plain"]);
    let server = hub.join("server", "none");
    // Its lease is good for three minutes, and whoever watches it renews ten times as often.
    write_settings(&server, "60s", "");
    let daemon = start_member(&server);
    hub.wait_for_state("server", "reachable");
    signal_process(link_pid(&daemon), "-STOP");
    let clone = copy_home(&server);
    write_settings(&clone, "5s", "");
    let boot = "11111111-2222-4333-8444-555555555555\n";
    let other = start_elsewhere(&clone, "/proc/sys/kernel/random/boot_id", boot);
    let link = link_pid(&other);
    wait_until("a link that watches", || {
        Some(()).filter(|()| link_state(&clone).contains("watching"))
    });
    // Longer than a lease of its own would be good for.
    let begun = Instant::now();
    wait_until("the end of that time", || {
        assert_ne!(link_state(&clone), "publishing");
        Some(()).filter(|()| begun.elapsed() > Duration::from_secs(17))
    });
    other.kill();
    wait_until("the end of its link", || {
        let line = std::fs::read(format!("/proc/{link}/cmdline")).unwrap_or_default();
        Some(()).filter(|()| !String::from_utf8_lossy(&line).contains("\0link"))
    });
    signal_process(link_pid(&daemon), "-CONT");
}

#[test]
fn only_pages_that_have_ever_had_something_are_at_the_hub() {
    let hub = TestHub::start(&["--plain"]);
    let (server, laptop) = (hub.join("server", "none"), hub.join("laptop", "read"));
    let daemon = start_member(&server);
    let (_, file) = member_of(&server);
    let pages = || {
        let mut subjects = hub.subjects_of(&file.id);
        subjects.retain(|subject| subject.contains("KV.inv"));
        subjects
    };
    {
        let _terminal = LiveTerminal::start(&server);
        wait_until("the terminal", || session_of(&listed(&laptop).1, "server"));
    }
    assert!(pages().len() <= 2, "{:?}", pages());
    // Another run publishes what is there, also that it is empty.
    daemon.kill();
    put_as_member(&server, &format!("$KV.inv.{}.active.0", file.id), b"left behind".to_vec());
    let _daemon = start_member(&server);
    wait_until("a page without it", || {
        let told = listed(&laptop).1;
        let member = told["members"].as_array().unwrap().iter().find(|one| one["name"] == "server");
        Some(()).filter(|()| member.is_some_and(|one| one["state"] == "reachable"))
    });
    assert!(session_of(&listed(&laptop).1, "server").is_none_or(|one| one["status"] != "running"));
    assert!(pages().len() <= 2, "{:?}", pages());
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

/// A hub with three members, one of them with a terminal, which another one sees.
struct SmallFleet {
    hub: TestHub,
    homes: Vec<TempHome>,
    _daemons: Vec<TestDaemon>,
}

const SMALL_FLEET: [&str; 3] = ["one", "two", "three"];

impl SmallFleet {
    fn start() -> Self {
        let hub = TestHub::start(&[]);
        let homes: Vec<TempHome> = SMALL_FLEET.iter().map(|name| hub.join(name, "read")).collect();
        let daemons = homes.iter().map(start_member).collect();
        fleet_run(&homes[0], &["create", "--name", "build", "--", "cat"]).exits(0);
        let fleet = Self { hub, homes, _daemons: daemons };
        fleet.wait_until_complete();
        fleet
    }

    fn wait_until_complete(&self) {
        for name in SMALL_FLEET {
            self.hub.wait_for_state(name, "reachable");
        }
        wait_until("the whole inventory", || {
            session_of(&listed(&self.homes[1]).1, "one").filter(|one| one["status"] == "running")
        });
    }
}

impl Drop for SmallFleet {
    fn drop(&mut self) {
        let _ = ostler(&self.homes[0]).args(["destroy", "build"]).output();
    }
}

#[test]
fn row_39_a_hub_that_was_killed_has_everybody_back_by_themselves() {
    let mut fleet = SmallFleet::start();
    fleet.hub.kill_engine();
    // Row 45: lost, not empty.
    let (code, result) = listed(&fleet.homes[1]);
    assert_eq!(code, 12);
    let session = session_of(&result, "one").expect("what was read before, with its age");
    assert_eq!(
        (&session["status"], &session["liveness"]["reason"]),
        (&"unknown".into(), &"hub-lost".into())
    );
    assert!(session["ageMs"].is_u64() && session["lastKnown"]["status"] == "running", "{session}");
    fleet.hub.run_engine();
    fleet.wait_until_complete();
}

#[test]
fn row_40_a_hub_that_lost_its_store_has_everything_again() {
    let mut fleet = SmallFleet::start();
    fleet.hub.kill_engine();
    std::fs::remove_dir_all(fleet.hub.directory().join("store")).unwrap();
    fleet.hub.run_engine();
    fleet.wait_until_complete();
}

#[test]
fn row_41_a_hub_that_hangs_costs_the_time_out_and_nothing_local() {
    let hub = TestHub::start(&["--plain"]);
    let laptop = hub.join("laptop", "read");
    let _terminal = LiveTerminal::start(&laptop);
    hub.signal_engine("-STOP");
    let local = quickest_run(|| drop(fleet_run(&laptop, &["ls"]).exits(0)));
    assert!(local < Duration::from_secs(2), "{local:?}");
    // Two seconds unless something else is said.
    let fleet = quickest_run(|| drop(listed(&laptop)));
    assert!((2.0..4.0).contains(&fleet.as_secs_f64()), "{fleet:?}");
    let words = ["--json", "ls", "--fleet", "--timeout", "1"];
    let shorter = quickest_run(|| drop(fleet_run(&laptop, &words)));
    assert!((1.0..3.0).contains(&shorter.as_secs_f64()), "{shorter:?}");
    let (code, result) = listed(&laptop);
    assert_eq!(code, 12);
    assert_eq!(result["hub"]["reachable"], false);
    let local = result["sessions"].as_array().unwrap();
    assert!(local.iter().any(|one| one["agent"] == "terminal"), "what is here is there");
    // Whoever never read the hub before knows nobody, and does not say that there is nobody.
    for words in [&["--json", "ls", "--host", "server"][..], &["--json", "show", "server/build"]] {
        let lost = fleet_run(&laptop, words);
        assert!(matches!(lost.code, 5 | 6), "{words:?}: {lost:?}");
        assert!(!lost.stdout.contains("there is no member"), "{words:?}: {lost:?}");
    }
    hub.signal_engine("-CONT");
}

#[test]
fn row_20_whoever_was_just_admitted_publishes_and_reads_at_once() {
    let hub = TestHub::start(&["--plain"]);
    let laptop = hub.join("laptop", "read");
    // An account that is new in a reload works only after the next one: no second try is needed here.
    let (_, member) = member_of(&laptop);
    put_as_member(&laptop, &format!("$KV.lease.{}", member.id), b"first".to_vec());
    let (_, result) = listed(&laptop);
    assert_eq!(result["hub"]["reachable"], true, "{result}");
    let _daemon = start_member(&laptop);
    hub.wait_for_state("laptop", "reachable");
    let operators = fleet_run(&hub.home, &["--json", "fleet", "operator"]).exits(0).result();
    assert_eq!(operators["operators"].as_array().unwrap().len(), 1);
    fleet_run(&hub.home, &["fleet", "operator", "laptop", "--level", "none"]).exits(0);
    let refused = fleet_run(&laptop, &["--json", "ls", "--fleet"]);
    assert_eq!(refused.code, 12, "a removed operator reads nothing: {refused:?}");
    assert_eq!(refused.result()["hub"]["reachable"], false);
}

#[test]
fn row_21_nobody_is_disconnected_when_one_is_admitted() {
    let hub = TestHub::start(&["--plain"]);
    let one = hub.join("one", "read");
    let first = start_member(&one);
    hub.wait_for_state("one", "reachable");
    let ports = || open_ports(link_pid(&first));
    let before = wait_until("its connection", || Some(ports()).filter(|ports| !ports.is_empty()));
    for name in ["two", "three"] {
        hub.join(name, "read");
    }
    assert_eq!(ports(), before, "the same connection as before");
    assert_eq!(link_state(&one), "publishing");
}

/// The established TCP connections of a process, by its own ports.
fn open_ports(pid: u32) -> Vec<String> {
    let directory = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let sockets: Vec<String> = directory
        .filter_map(|one| std::fs::read_link(one.ok()?.path()).ok())
        .filter_map(|target| Some(target.to_str()?.strip_prefix("socket:[")?.replace(']', "")))
        .collect();
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
    table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| words.len() > 9 && words[3] == "01")
        .filter(|words| sockets.iter().any(|inode| inode == words[9]))
        .map(|words| words[1].to_owned())
        .collect()
}

#[test]
fn row_17_the_doctor_sees_a_bucket_that_is_less_strict_than_it_must_be() {
    let hub = TestHub::start(&["--plain"]);
    fleet_run(&hub.home, &["fleet", "doctor"]).exits(0);
    let opened = net::hub::Hub::open(&hub.home.join(".local/state/ostler")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (flag, value) in [
        ("allow_rollup_hdrs", Value::from(true)),
        ("allow_direct", false.into()),
        ("discard", "old".into()),
        ("max_msgs_per_subject", 5.into()),
        ("max_msg_size", 1_000_000.into()),
        ("max_consumers", 7.into()),
        ("max_age", 3_600_000_000_000_u64.into()),
        ("duplicate_window", 120_000_000_000_u64.into()),
        ("subjects", serde_json::json!(["$KV.inv.>", "$KV.more.>"])),
    ] {
        let changed = runtime.block_on(async {
            let mut admin = opened.connect_admin().await.unwrap();
            let mut config = net::hub::bucket_config("inv", 0);
            config[flag] = value;
            admin.ask_engine("$JS.API.STREAM.UPDATE.KV_inv", &config).await
        });
        match changed {
            Ok(_) => {
                let told = fleet_run(&hub.home, &["fleet", "doctor"]).exits(1);
                assert!(told.stdout.contains(&format!("KV_inv: {flag} is")), "{}", told.stdout);
            }
            // The engine keeps these itself.
            Err(error) => assert_eq!(flag, "max_consumers", "{error}"),
        }
    }
    // Any change of who belongs to it makes them strict again.
    hub.join("anybody", "none");
    fleet_run(&hub.home, &["fleet", "doctor"]);
    let told = fleet_run(&hub.home, &["fleet", "doctor"]);
    assert!(told.stdout.contains("they are as strict as they must be"), "{}", told.stdout);
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
