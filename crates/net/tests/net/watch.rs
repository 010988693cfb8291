//! Watching a fleet: notices, silence, and what is read again.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use model::wire::{FleetChange, MemberState};
use net::fleet_watch::{FleetWatch, NoticeOutcome};
use serde_json::{Value, json};
use testkit::home::TempHome;

use super::fleet_kit::{
    TestHub, fleet_run, say_as_member, signal_process, start_member, wait_for_link, with_engine,
};
use super::kit::{ostler, wait_until};
use super::records::Forge;

#[test]
fn row_38_what_is_played_back_is_ignored() {
    let forge = Forge::new(&["a"]);
    let mut watch = FleetWatch::new(&forge.root.public_key());
    let first = watch.take_records(forge.records());
    assert!(first.iter().any(|one| matches!(one, FleetChange::Session(_))), "{first:?}");
    assert!(watch.take_records(forge.records()).is_empty(), "nothing changed");
    let subject = |what: &str| format!("ostler.v1.out.{}.state.{what}", forge.id(0));
    let lease = |n: u64, rev: u64, incarnation: &str| {
        let mut lease = forge.lease(0);
        (lease.n, lease.rev) = (n, rev);
        lease.incarnation = incarnation.to_owned();
        forge.put_lease(0, &lease, 0).bytes
    };
    let newer = watch.take_notice(&subject("lease"), &lease(5, 1, "i1"));
    assert_eq!(newer, NoticeOutcome::Changes(Vec::new()));
    for old in [5, 4, 1, 0] {
        let told = watch.take_notice(&subject("lease"), &lease(old, 1, "i1"));
        assert_eq!(told, NoticeOutcome::Ignored, "{old}");
    }
    // A change that was missed, and another run: the hub is asked.
    let missed = watch.take_notice(&subject("lease"), &lease(6, 9, "i1"));
    assert_eq!(missed, NoticeOutcome::ReadAgain);
    let other = watch.take_notice(&subject("lease"), &lease(6, 1, "i2"));
    assert_eq!(other, NoticeOutcome::ReadAgain);
    // Pages: a higher revision wins, an older one is nothing, and an unsigned one too.
    let page = |rev: u64, status: &str| {
        let mut page = forge.page(0, "active.0");
        page.rev = rev;
        page.sessions[0].insert("status".to_owned(), json!(status));
        forge.put_page(0, &page).bytes
    };
    let told = watch.take_notice(&subject("active.0"), &page(3, "exited"));
    let NoticeOutcome::Changes(changes) = told else { panic!("{told:?}") };
    assert!(
        matches!(&changes[..], [FleetChange::Session(one)] if one.text("status") == Some("exited"))
    );
    for (what, bytes) in [
        ("active.0", page(2, "running")),
        ("active.0", page(3, "running")),
        ("active.0", b"nothing".as_slice().into()),
        ("active.1", page(9, "running")),
        ("rival", b"{}".as_slice().into()),
    ] {
        assert_eq!(watch.take_notice(&subject(what), &bytes), NoticeOutcome::Ignored, "{what}");
    }
    // Another run counts anew: its first revisions are newer than the last ones of the run before, page by page.
    let mut after = forge.records();
    let of_run = |rev: u64, status: &str| {
        let mut page = forge.page(0, "active.0");
        (page.rev, page.incarnation) = (rev, "i2".to_owned());
        page.sessions[0].insert("status".to_owned(), json!(status));
        forge.put_page(0, &page)
    };
    let mut old = forge.page(0, "active.0");
    old.rev = 900;
    after.pages = vec![forge.put_page(0, &old)];
    let mut started = forge.lease(0);
    (started.n, started.rev, started.incarnation) = (1, 0, "i2".to_owned());
    after.leases = vec![forge.put_lease(0, &started, 0)];
    watch.take_records(after);
    let missed = watch.take_notice(&subject("lease"), &lease(2, 2, "i2"));
    assert_eq!(missed, NoticeOutcome::ReadAgain, "revision 2 of this run was never held");
    let told = watch.take_notice(&subject("active.0"), &of_run(1, "exited").bytes);
    assert!(matches!(told, NoticeOutcome::Changes(ref changes) if !changes.is_empty()), "{told:?}");
    let again = watch.take_notice(&subject("active.0"), &of_run(1, "running").bytes);
    assert_eq!(again, NoticeOutcome::Ignored, "within one run revisions count");
    watch.take_records(forge.records());
    let unknown = watch.take_notice("ostler.v1.out.nobody.state.lease", &lease(1, 1, "i1"));
    assert_eq!(unknown, NoticeOutcome::ReadAgain, "somebody new");
    assert_eq!(watch.sessions().len(), 1);
    // Silence, confirmed by what the hub has.
    let mut records = forge.records();
    records.leases[0] = forge.put_lease(0, &forge.lease(0), 60_000);
    let changes = watch.take_records(records);
    assert!(
        changes.iter().any(
            |one| matches!(one, FleetChange::Member(view) if view.state == MemberState::Unreachable)
        ),
        "{changes:?}"
    );
}

/// Somebody who follows the fleet, and what was told so far: the last word on every session.
struct Follower {
    child: Child,
    told: Arc<Mutex<BTreeMap<String, Value>>>,
}

impl Follower {
    fn start(home: &TempHome) -> Self {
        let mut command = with_engine(ostler(home));
        let mut child = command
            .args(["--json", "events", "--fleet", "--follow"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let told: Arc<Mutex<BTreeMap<String, Value>>> = Arc::default();
        let (lines, keep) = (BufReader::new(child.stdout.take().unwrap()), Arc::clone(&told));
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let change: Value = serde_json::from_str(&line).unwrap();
                let mut told = keep.lock().unwrap();
                let key = match change["change"].as_str().unwrap() {
                    "member" => format!("member {}", change["name"]),
                    "hub" => "hub".to_owned(),
                    _ => format!("session {}", change["id"]),
                };
                match change["change"] == "sessionGone" {
                    true => drop(told.remove(&key)),
                    false => drop(told.insert(key, change)),
                }
            }
        });
        Self { child, told }
    }

    fn last(&self, key: &str) -> Option<Value> {
        self.told.lock().unwrap().get(key).cloned()
    }

    /// The helper that speaks to the hub.
    fn helper(&self) -> u32 {
        wait_until("a helper", || {
            let path = format!("/proc/{0}/task/{0}/children", self.child.id());
            std::fs::read_to_string(path).ok()?.split_whitespace().next()?.parse().ok()
        })
    }

    fn statuses(&self) -> BTreeMap<String, Value> {
        let told = self.told.lock().unwrap();
        let sessions = told.iter().filter(|(key, _)| key.starts_with("session"));
        sessions.map(|(key, change)| (key.clone(), change["status"].clone())).collect()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn fresh_statuses(home: &TempHome) -> BTreeMap<String, Value> {
    let listed = fleet_run(home, &["--json", "ls", "--fleet", "-a"]).result();
    let sessions = listed["sessions"].as_array().unwrap().clone();
    let others = sessions.into_iter().filter(|one| one["member"]["name"] == "server");
    others.map(|one| (format!("session {}", one["id"]), one["status"].clone())).collect()
}

#[test]
fn row_47_a_watcher_that_hung_is_cut_off_and_ends_with_what_a_fresh_reader_sees() {
    let mut hub = TestHub::start(&["--plain"]);
    let (server, laptop) = (hub.join("server", "none"), hub.join("laptop", "read"));
    let daemon = start_member(&server);
    hub.wait_for_state("server", "reachable");
    wait_for_link(&server);
    fleet_run(&server, &["create", "--name", "build", "--", "cat"]).exits(0);
    let follower = Follower::start(&laptop);
    wait_until("the terminal", || {
        follower.statuses().into_values().find(|status| status == "running")
    });
    signal_process(follower.helper(), "-STOP");
    // More than any buffer holds, for longer than the hub waits for somebody who does not read.
    let noise: Vec<u8> = (0..90_000_u32).map(|byte| (byte % 251) as u8).collect();
    say_as_member(&server, "state.active.7", &noise, 400);
    fleet_run(&server, &["destroy", "build"]).exits(0);
    let log = || std::fs::read_to_string(hub.directory().join("hub.log")).unwrap();
    wait_until("the hub's patience", || Some(()).filter(|()| log().contains("Slow Consumer")));
    signal_process(follower.helper(), "-CONT");
    wait_until("the same as a fresh reader", || {
        let fresh = fresh_statuses(&laptop);
        Some(()).filter(|()| !fresh.is_empty() && follower.statuses() == fresh)
    });
    // A silent member is unreachable, then there again; a lost hub is told.
    signal_process(daemon.0.id(), "-STOP");
    signal_process(super::fleet_kit::link_pid(&daemon), "-STOP");
    wait_until("silence", || {
        follower.last("member \"server\"").filter(|one| one["state"] == "unreachable")
    });
    signal_process(super::fleet_kit::link_pid(&daemon), "-CONT");
    signal_process(daemon.0.id(), "-CONT");
    wait_until("its return", || {
        follower.last("member \"server\"").filter(|one| one["state"] == "reachable")
    });
    hub.kill_engine();
    wait_until("the loss of the hub", || follower.last("hub"));
    hub.run_engine();
    fleet_run(&server, &["create", "--name", "again", "--", "cat"]).exits(0);
    let begun = std::time::Instant::now();
    while !follower.statuses().values().any(|status| status == "running") {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not follow any more");
        std::thread::sleep(Duration::from_millis(50));
    }
    fleet_run(&server, &["destroy", "again"]).exits(0);
}
