//! Faults around a fleet: a network that swallows everything, kills at every named point, strangers who write where
//! they may not, certificates that are over.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use model::time::Time;
use serde_json::{Value, json};
use testkit::home::TempHome;
use testkit::pause::Pauses;
use testkit::run::{Ran, ran};

use super::fleet_kit::{
    TestHub, fleet_run, member_of, publish_lease, publish_page, put_as_member, signal_process,
    start_member, wait_for_link, with_engine,
};
use super::kit::{TestDaemon, free_port, ostler, quickest_run, wait_until};

/// A command in the network of another process, or in namespaces of its own.
fn wrapped(command: &Command, wrapper: &[&str]) -> Command {
    let mut outer = Command::new(wrapper[0]);
    outer.args(&wrapper[1..]).arg(command.get_program()).args(command.get_args()).env_clear();
    let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    outer.envs(set).current_dir(command.get_current_dir().unwrap_or(Path::new("/")));
    outer.stdin(Stdio::null());
    outer
}

/// Two networks of their own, with one cable between them.
pub(super) struct Cable {
    ends: [Child; 2],
}

pub(super) const HUB_ADDRESS: &str = "10.99.0.1";
const MEMBER_ADDRESS: &str = "10.99.0.2";

/// The longest pause before a link tries to connect again, and how long an attempt lasts that nobody answers.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
const LOST_ATTEMPT: Duration = Duration::from_secs(4);

impl Cable {
    pub(super) fn lay() -> Self {
        let holder = || {
            let mut command = Command::new("unshare");
            command.args(["--net", "sleep", "infinity"]).stdin(Stdio::null()).spawn().unwrap()
        };
        let cable = Self { ends: [holder(), holder()] };
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        for end in &cable.ends {
            wait_until("a network of its own", || {
                let network = std::fs::read_link(format!("/proc/{}/ns/net", end.id())).ok()?;
                Some(()).filter(|()| network != own)
            });
        }
        let peer = cable.ends[1].id().to_string();
        cable.ip(
            0,
            &["link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", &peer],
        );
        for (end, address) in [(0, HUB_ADDRESS), (1, MEMBER_ADDRESS)] {
            cable.ip(end, &["addr", "add", &format!("{address}/24"), "dev", "cable"]);
            cable.ip(end, &["link", "set", "lo", "up"]);
            cable.ip(end, &["link", "set", "cable", "up"]);
        }
        cable
    }

    fn wrapper(&self, end: usize) -> [String; 5] {
        let pid = self.ends[end].id().to_string();
        ["nsenter", "--net", "--target", &pid, "--"].map(str::to_owned)
    }

    pub(super) fn inside(&self, end: usize, command: &Command) -> Command {
        let wrapper = self.wrapper(end);
        let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
        wrapped(command, &wrapper)
    }

    fn ip(&self, end: usize, words: &[&str]) {
        let mut command = Command::new("ip");
        let ran =
            ran(self.inside(end, command.args(words)).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"));
        assert_eq!(ran.code, 0, "ip {words:?}: {}", ran.stderr);
    }

    /// Frames go to an address that nobody has: nothing arrives, and nobody is told.
    fn swallow(&self) {
        for (end, other) in [(0, MEMBER_ADDRESS), (1, HUB_ADDRESS)] {
            let nobody = ["lladdr", "02:00:00:00:00:99", "nud", "permanent", "dev", "cable"];
            self.ip(end, &[&["neigh", "replace", other][..], &nobody].concat());
        }
    }

    fn heal(&self) {
        for (end, other) in [(0, MEMBER_ADDRESS), (1, HUB_ADDRESS)] {
            self.ip(end, &["neigh", "del", other, "dev", "cable"]);
        }
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for end in &mut self.ends {
            let _ = end.kill();
            let _ = end.wait();
        }
    }
}

#[test]
fn row_43_a_member_behind_a_black_hole_is_unreachable_and_comes_back() {
    let cable = Cable::lay();
    let at_hub = |home: &TempHome, words: &[&str]| -> Ran {
        ran(&mut cable.inside(0, with_engine(ostler(home)).args(words)))
    };
    let home = TempHome::new();
    let listen = format!("{HUB_ADDRESS}:4222");
    at_hub(&home, &["--json", "fleet", "init", "--listen", &listen]).exits(0);
    let mut hub = TestHub::of(home);
    // The hub's own configuration with quicker pings: it gives a member up after two, which takes it a minute else.
    let quick = "include \"nats.conf\"\nping_interval: \"3s\"\n";
    std::fs::write(hub.directory().join("quick.conf"), quick).unwrap();
    hub.take_engine(cable.inside(0, &hub.bare_engine("quick.conf")));
    let status = |name: &str| -> Option<Value> {
        let told = at_hub(&hub.home, &["--json", "fleet", "status"]).result();
        let members = told["members"].as_array().unwrap().clone();
        members.into_iter().find(|one| one["name"] == name)
    };
    wait_until("a hub", || {
        let told = at_hub(&hub.home, &["--json", "fleet", "status"]);
        Some(()).filter(|()| told.stdout.contains("\"reachable\": true"))
    });
    let [server, slow, laptop] = [("server", "none"), ("slow", "none"), ("laptop", "reap")]
        .map(|(name, level)| hub.join_by(name, level, at_hub));
    // One whose lease outlasts the hole: what is asked of it goes on its way.
    slow.write(".config/ostler/config.toml", "[fleet]\nrenew = \"60s\"\nallow = \"reap\"\n");
    let start = |home| TestDaemon::with(cable.inside(1, &with_engine(ostler(home))));
    let _daemons = [start(&server), start(&slow)];
    let is = |state: &'static str| move |one: Value| Some(one).filter(|one| one["state"] == state);
    let answers = |name: &str| at_hub(&laptop, &["--host", name, "adapters"]).code == 0;
    for name in ["server", "slow"] {
        wait_until("a member that answers", || Some(()).filter(|()| answers(name)));
    }
    // First it is asked, and nothing comes back; nothing was done, and that is said. It is found before: the hub gives it
    // up some seconds after the hole.
    let asked = ["--json", "--host", "slow", "destroy", "nothing"];
    let pauses = Pauses::new();
    pauses.arm("fleet.order.ready");
    let mut command = with_engine(ostler(&laptop));
    pauses.apply(command.args(asked));
    let child = cable.inside(0, &command).stdout(Stdio::piped()).spawn().unwrap();
    pauses.wait("fleet.order.ready");
    cable.swallow();
    pauses.release("fleet.order.ready");
    let output = child.wait_with_output().unwrap();
    let late = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(6), "{late}");
    assert!(late.contains("did not answer in time; nothing was done"), "{late}");
    // When the hub's pings have found out, whoever asks is told at once.
    wait_until("the hub's own verdict", || {
        let begun = Instant::now();
        let told = at_hub(&laptop, &asked).exits(6);
        // Whoever is not told waits for ten seconds.
        let at_once = begun.elapsed() < Duration::from_secs(10);
        Some(()).filter(|()| at_once && told.stdout.contains("nobody answers there"))
    });
    let member = wait_until("silence", || status("server").and_then(is("unreachable")));
    assert_eq!(member["since"], member["lastSeenAt"]);
    // Now it is known before anything is sent.
    let told = at_hub(&laptop, &["--host", "server", "adapters"]).exits(6);
    assert!(told.stderr.contains("nothing was sent"), "{}", told.stderr);
    // On its own machine nobody waits for the hub.
    let quickest = quickest_run(|| {
        ran(&mut cable.inside(1, ostler(&server).arg("ls"))).exits(0);
    });
    assert!(quickest < Duration::from_secs(4), "{quickest:?}");
    cable.heal();
    let begun = Instant::now();
    wait_until("the server again", || status("server").and_then(is("reachable")));
    println!("reachable {:?} after it healed", begun.elapsed());
    for name in ["server", "slow"] {
        wait_until("an answer", || Some(()).filter(|()| answers(name)));
    }
    // The two seconds are those of an attempt; before it is the longest pause (decision 231), and another attempt that
    // began in the hole.
    let most = LONGEST_PAUSE + LOST_ATTEMPT + Duration::from_secs(2);
    let back = begun.elapsed();
    println!("both answer {back:?} after it healed");
    assert!(back < most, "{back:?}");
}

/// Runs a command until it stops at a point, and kills it and its helper there.
fn kill_at(home: &TempHome, words: &[&str], point: &str) {
    let pauses = Pauses::new();
    pauses.arm(point);
    let mut command = with_engine(ostler(home));
    pauses.apply(&mut command);
    let mut child =
        command.args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    pauses.wait(point);
    let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap();
    let helpers: String = tasks
        .filter_map(|one| std::fs::read_to_string(one.ok()?.path().join("children")).ok())
        .collect();
    child.kill().unwrap();
    child.wait().unwrap();
    for helper in helpers.split_whitespace() {
        signal_process(helper.parse().unwrap(), "-KILL");
    }
}

/// Every point at which a command that changes a fleet can be killed, by the sources.
fn points_of_membership() -> std::collections::BTreeSet<String> {
    let sources = ["membership", "hub", "hub_setup", "fleet_files"].map(|name| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/{name}.rs"));
        std::fs::read_to_string(path).unwrap()
    });
    let named = sources.iter().flat_map(|text| text.split("pause_at(\"").skip(1));
    named.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

#[test]
fn row_27_whatever_is_killed_while_it_joins_or_admits_can_be_done_again() {
    let hub = TestHub::start(&["--plain"]);
    let witness = hub.join("witness", "read");
    let _witness = start_member(&witness);
    hub.wait_for_state("witness", "reachable");
    let mut killed = std::collections::BTreeSet::new();
    let mut kill = |home: &TempHome, words: &[&str], point: &str| {
        kill_at(home, words, point);
        killed.insert(point.to_owned());
    };
    let laptop = TempHome::new();
    laptop.write(".config/ostler/config.toml", "[fleet]\nrenew = \"1s\"\n");
    let join = ["--json", "fleet", "join", "--name", "laptop"];
    kill(&laptop, &join, "fleet.join.key");
    let asked = fleet_run(&laptop, &join).exits(0).result();
    let request = asked["request"].as_str().unwrap();
    assert_eq!(request, fleet_run(&laptop, &join).exits(0).result()["request"], "the same keys");
    let admit = ["--json", "fleet", "admit", request];
    for point in ["fleet.saved", "fleet.reloaded", "fleet.published", "fleet.admit.applied"] {
        kill(&hub.home, &admit, point);
        assert_eq!(hub.member("witness").unwrap()["state"], "reachable", "{point}");
    }
    let admitted = fleet_run(&hub.home, &admit).exits(0).result();
    let again = fleet_run(&hub.home, &admit).exits(0).result();
    assert_eq!(admitted["answer"], again["answer"], "whoever was admitted is admitted once");
    let answer = admitted["answer"].as_str().unwrap();
    kill(&laptop, &["fleet", "join", answer], "fleet.join.answered");
    assert_eq!(fleet_run(&laptop, &["fleet", "status"]).code, 13, "it is no member yet");
    kill(&laptop, &["fleet", "join", answer], "fleet.join.joined");
    fleet_run(&laptop, &["fleet", "join", answer]).exits(0);
    let daemon = start_member(&laptop);
    hub.wait_for_state("laptop", "reachable");
    daemon.kill();
    // New keys, killed when the old ones are gone: the same command makes them.
    let anew = ["--json", "fleet", "join", "--new", "--name", "laptop-2"];
    kill(&laptop, &anew, "fleet.join.anew");
    let asked = fleet_run(&laptop, &anew).exits(0).result();
    let admit = ["--json", "fleet", "admit", asked["request"].as_str().unwrap()];
    let admitted = fleet_run(&hub.home, &admit).exits(0).result();
    fleet_run(&laptop, &["fleet", "join", admitted["answer"].as_str().unwrap()]).exits(0);
    let daemon = start_member(&laptop);
    hub.wait_for_state("laptop-2", "reachable");
    daemon.kill();
    // Evicting, killed before and after the hub has forgotten half of it.
    for (name, point) in [("laptop", "fleet.saved"), ("laptop-2", "fleet.evict.applied")] {
        kill(&hub.home, &["fleet", "evict", name], point);
        let again = fleet_run(&hub.home, &["fleet", "evict", name]);
        assert!(matches!(again.code, 0 | 3), "{again:?}");
        assert_eq!(hub.member(name), None, "{point}");
    }
    // Leaving, killed after it was noted and between its keys: they are given up by doing it again.
    let seed = |name: &str| {
        std::fs::read(witness.join(format!(".local/state/ostler/fleet/{name}.seed"))).unwrap()
    };
    for point in ["fleet.leave.noted", "fleet.keys.sealed"] {
        kill(&witness, &["fleet", "leave"], point);
        assert_ne!(seed("seal"), b"", "{point}");
        fleet_run(&witness, &["fleet", "status"]).exits(13);
    }
    fleet_run(&witness, &["fleet", "leave"]).exits(0);
    for name in ["seal", "link", "operator-seal", "operator-link"] {
        assert_eq!(seed(name), b"", "{name}");
    }
    fleet_run(&witness, &["fleet", "leave"]).exits(13);
    // And with the hub itself: what was half made is made again, what was made can be run.
    for (point, code) in
        [("fleet.init.key", 0), ("fleet.init.certificates", 0), ("fleet.init.described", 13)]
    {
        let home = TempHome::new();
        let listen = format!("127.0.0.1:{}", free_port());
        let init = ["--json", "fleet", "init", "--listen", &listen];
        kill(&home, &init, point);
        fleet_run(&home, &init).exits(code);
        TestHub::of(home).run_engine();
    }
    assert_eq!(killed, points_of_membership(), "every named point");
}

/// Runs a hub's engine with a small disk of its own below its store.
fn run_on_small_disk(hub: &mut TestHub) {
    let store = hub.directory().join("store");
    let script = "cp -a \"$0\" \"$0.kept\" && mount -t tmpfs -o size=1m none \"$0\" && \
                  cp -a \"$0.kept/.\" \"$0\" && exec \"$@\"";
    let wrapper = ["unshare", "--mount", "sh", "-c", script, store.to_str().unwrap()];
    let command = wrapped(&with_engine(ostler(&hub.home)), &wrapper);
    hub.spawn_engine(command);
    hub.wait_until_it_answers();
}

#[test]
fn row_44_a_full_disk_of_the_hub_is_told_and_members_keep_working() {
    let mut hub = TestHub::start(&["--plain"]);
    let (server, laptop) = (hub.join("server", "none"), hub.join("laptop", "read"));
    hub.kill_engine();
    run_on_small_disk(&mut hub);
    let _daemon = start_member(&server);
    hub.wait_for_state("server", "reachable");
    wait_for_link(&server);
    fleet_run(&server, &["create", "--name", "build", "--", "cat"]).exits(0);
    let is_seen = |status: &str| {
        let told = fleet_run(&laptop, &["--json", "ls", "--fleet"]).result();
        let sessions = told["sessions"].as_array().unwrap().clone();
        sessions.into_iter().find(|one| one["name"] == "build" && one["status"] == status)
    };
    wait_until("the terminal", || is_seen("running"));
    let filler = hub.directory().join("store/filler");
    let target = hub.engine_pid().to_string();
    let fill = format!("of={}", filler.display());
    let filled = Command::new("nsenter")
        .args(["--mount", "--target", &target, "dd", "if=/dev/zero", &fill, "bs=1k"])
        .output();
    assert!(String::from_utf8_lossy(&filled.unwrap().stderr).contains("No space left"));
    let told = wait_until("a doctor that tells", || {
        let told = fleet_run(&hub.home, &["fleet", "doctor"]);
        Some(told).filter(|told| told.stdout.contains("no space left"))
    });
    assert!(told.code == 1 && told.stdout.contains("make room"), "{told:?}");
    // At home everything goes on; elsewhere it is unknown and not gone.
    fleet_run(&server, &["type", "build", "still-here\n"]).exits(0);
    let words = ["wait", "build", "--text", "still-here", "--timeout", "20000"];
    fleet_run(&server, &words).exits(0);
    fleet_run(&server, &["ls"]).exits(0);
    let unknown = wait_until("silence", || is_seen("unknown"));
    assert_eq!(unknown["lastKnown"]["status"], "running");
    // With room again, and started again.
    hub.kill_engine();
    hub.run_engine();
    wait_until("the terminal again", || is_seen("running"));
    fleet_run(&server, &["destroy", "build"]).exits(0);
}

#[test]
fn row_36_a_member_whose_clock_is_a_day_off_is_told_with_its_skew() {
    const DAY: i64 = 86_400_000;
    let hub = TestHub::start(&["--plain"]);
    let (server, laptop) = (hub.join("server", "none"), hub.join("laptop", "read"));
    for skew in [-DAY, DAY] {
        publish_lease(&server, Time::from_millis(sys::clock::now().as_millis() - skew));
        let member = hub.member("server").unwrap();
        assert_eq!(member["state"], "reachable", "{member}");
        assert!(member["ageMs"].as_i64().unwrap() < DAY / 2, "by the hub's clock: {member}");
        let told = member["clockSkewMs"].as_i64().unwrap();
        assert!((told - skew).abs() < DAY / 2, "{member}");
        let told = fleet_run(&laptop, &["fleet", "doctor"]);
        assert!(told.stdout.contains("its clock differs from the hub's"), "{told:?}");
    }
}

#[test]
fn row_35_a_write_without_asking_is_noticed_and_overwritten() {
    let hub = TestHub::start(&["--plain"]);
    let server = hub.join("server", "none");
    let _daemon = start_member(&server);
    hub.wait_for_state("server", "reachable");
    wait_for_link(&server);
    let (_, file) = member_of(&server);
    put_as_member(&server, &format!("$KV.lease.{}", file.id), b"no lease at all".to_vec());
    let violations = wait_until("the member's notice", || {
        let report = server.read(".local/state/ostler/fleet/link.json");
        let report: Value = serde_json::from_slice(&report).ok()?;
        Some(report["violations"].clone()).filter(|found| found.is_array())
    });
    assert!(violations.to_string().contains("did not sign"), "{violations}");
    hub.wait_for_state("server", "reachable");
    wait_for_link(&server);
}

#[test]
fn row_25_a_certificate_that_is_over_is_refused_and_said() {
    let mut hub = TestHub::start(&[]);
    let laptop = hub.join("laptop", "read");
    hub.kill_engine();
    hub.issue_certificate(-400);
    // `ostler fleet hub` would issue another one.
    hub.take_engine(hub.bare_engine("nats.conf"));
    let reason = wait_until("a hub that listens", || {
        let told = fleet_run(&laptop, &["--json", "ls", "--fleet"]).exits(12).result();
        let reason = told["hub"]["reason"].as_str().unwrap().to_lowercase();
        Some(reason).filter(|reason| !reason.contains("refused"))
    });
    assert!(reason.contains("expired") || reason.contains("certificate"), "{reason}");
    let told = fleet_run(&laptop, &["fleet", "doctor"]).exits(1);
    assert!(told.stdout.to_lowercase().contains("cert"), "{}", told.stdout);
}

#[test]
fn row_50_what_a_hostile_member_writes_is_text_on_a_terminal_and_exact_in_json() {
    let hub = TestHub::start(&["--plain"]);
    let (server, laptop) = (hub.join("server", "none"), hub.join("laptop", "read"));
    let daemon = start_member(&server);
    hub.wait_for_state("server", "reachable");
    wait_for_link(&server);
    let evil =
        "\x1b]0;title\x07\x1b[2J\r\n\tx\u{202e}gnp.\u{2066}\u{9b}31m\u{0}\u{200f}\u{fffd}end";
    let mut session = json!({ "lookedMs": 1 });
    for name in
        ["id", "agent", "status", "activity", "title", "cwd", "branch", "name", "waitingFor"]
    {
        session[name] = json!(format!("{name}{evil}"));
    }
    // The daemon goes first: it would publish what is really there.
    signal_process(daemon.0.id(), "-STOP");
    publish_page(&server, "active.7", u64::MAX, &[session.clone()]);
    let listed = fleet_run(&laptop, &["--json", "ls", "--fleet"]).result();
    let sessions = listed["sessions"].as_array().unwrap();
    let found = sessions.iter().find(|one| one["id"] == session["id"]).expect("it is listed");
    for name in ["agent", "title", "cwd", "branch", "name"] {
        assert_eq!(found[name], session[name], "{name} is exact");
    }
    for words in [&["ls", "--fleet"][..], &["ls", "--fleet", "-q"], &["fleet", "status"]] {
        let shown = fleet_run(&laptop, words);
        for text in [&shown.stdout, &shown.stderr] {
            let odd = |one: &char| {
                (one.is_control() && *one != '\n')
                    || matches!(one, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
            };
            let found: Vec<char> = text.chars().filter(odd).collect();
            assert!(found.is_empty(), "{words:?}: {found:?} in {text:?}");
        }
    }
    signal_process(daemon.0.id(), "-CONT");
}

#[test]
fn row_57_no_secret_and_nothing_private_is_in_any_byte_at_the_hub() {
    let hub = TestHub::start(&["--plain"]);
    let server = hub.join("server", "none");
    let secret = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8";
    let place = server.directory("canary-place");
    let bytes_at_hub = || {
        let opened = net::hub::Hub::open(&hub.home.join(".local/state/ostler")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let records = runtime.block_on(async {
            let mut admin = opened.connect_admin().await.unwrap();
            let subject = "$JS.API.DIRECT.GET.KV_inv";
            admin.read_records(subject, "$KV.inv.>", Duration::from_secs(5)).await.unwrap()
        });
        let mut all = Vec::new();
        for record in records {
            all.extend_from_slice(&record.bytes);
            all.extend(zstd::decode_all(&record.bytes[net::seal::SEAL_BYTES..]).unwrap());
        }
        String::from_utf8_lossy(&all).into_owned()
    };
    let name = format!("use {secret}");
    let place = place.to_str().unwrap();
    let words = ["create", "--name", &name, "--cwd", place, "--", "cat"];
    fleet_run(&server, &words).exits(0);
    let daemon = start_member(&server);
    let full = wait_until("the terminal at the hub", || {
        Some(bytes_at_hub()).filter(|text| text.contains("canary-place"))
    });
    assert!(!full.contains(secret), "what looks like a secret is taken out");
    daemon.kill();
    server.write(".config/ostler/config.toml", "[fleet]\nrenew = \"1s\"\nshare = \"minimal\"\n");
    let _daemon = start_member(&server);
    let minimal = wait_until("the same, with little shared", || {
        Some(bytes_at_hub()).filter(|text| !text.contains("canary-place"))
    });
    assert!(minimal.contains("\"agent\":\"terminal\""), "it is still there: {minimal:?}");
    assert!(!minimal.contains(secret) && !minimal.contains("use "));
    fleet_run(&server, &["destroy", &name]).exits(0);
}
