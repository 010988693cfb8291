//! What `ostler fleet doctor` finds, each with its reason and its remedy, and engines that are too old.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use testkit::home::TempHome;

use super::fleet_kit::{
    TestHub, block_on, connect_as_member, copy_home, fleet_run, link_state, member_of,
    publish_lease, start_elsewhere, start_member,
};
use super::kit::wait_until;

/// What the doctor of a home says of something: grade, finding, remedy.
fn findings_of(home: &TempHome, what: &str) -> Vec<(String, String, String)> {
    let told = fleet_run(home, &["--json", "fleet", "doctor", "--timeout", "20"]).result();
    let text = |one: &Value, name: &str| one[name].as_str().unwrap_or("").to_owned();
    let all = told["findings"].as_array().unwrap();
    let own = all.iter().filter(|one| one["what"] == what);
    own.map(|one| (text(one, "grade"), text(one, "finding"), text(one, "remedy"))).collect()
}

/// The doctor finds something wrong, and says why and what helps.
#[track_caller]
fn assert_found(home: &TempHome, what: &str, reason: &str, remedy: &str) {
    let found = findings_of(home, what);
    let is_meant = |(grade, finding, told): &(String, String, String)| {
        grade != "ok" && finding.contains(reason) && told.contains(remedy)
    };
    assert!(found.iter().any(is_meant), "{what}: {reason}: {found:?}");
    let shown = fleet_run(home, &["fleet", "doctor"]).exits(1);
    assert!(shown.stdout.contains(reason) && shown.stdout.contains(remedy), "{}", shown.stdout);
}

#[track_caller]
fn assert_good(home: &TempHome, what: &str) {
    let found = findings_of(home, what);
    assert!(
        !found.is_empty() && found.iter().all(|(grade, ..)| grade == "ok"),
        "{what}: {found:?}"
    );
}

/// A way to a hub on which the engine's version is another one. The engine behind it is real.
fn aged_engine(hub: &TestHub) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let opened = net::hub::Hub::open(&hub.home.join(".local/state/ostler")).unwrap();
    let target = opened.file.listen;
    std::thread::spawn(move || {
        while let Ok((near, _)) = listener.accept() {
            let Ok(far) = TcpStream::connect(&target) else { return };
            let (near_too, far_too) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            std::thread::spawn(move || pass_bytes(near, far, false));
            std::thread::spawn(move || pass_bytes(far_too, near_too, true));
        }
    });
    format!("nats://127.0.0.1:{port}")
}

fn pass_bytes(mut from: TcpStream, mut to: TcpStream, from_engine: bool) {
    let mut buffer = [0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let mut bytes = buffer[..count].to_vec();
        let mark = b"\"version\":\"";
        let at = bytes.windows(mark.len()).position(|part| part == mark).filter(|_| from_engine);
        if let Some(at) = at.map(|at| at + mark.len()) {
            let end = at + bytes[at..].iter().position(|byte| *byte == b'"').unwrap();
            drop(bytes.splice(at..end, *b"2.10.27"));
        }
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

fn fleet_file(home: &TempHome, name: &str) -> PathBuf {
    home.join(".local/state/ostler/fleet").join(name)
}

fn change_url(home: &TempHome, url: &str) {
    let file = fleet_file(home, "member.json");
    let mut member: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    member["url"] = url.into();
    std::fs::write(&file, member.to_string()).unwrap();
}

#[test]
fn row_1_a_member_and_its_doctor_refuse_an_engine_that_is_too_old() {
    let hub = TestHub::start(&["--plain"]);
    let server = hub.join("server", "read");
    change_url(&server, &aged_engine(&hub));
    let _daemon = start_member(&server);
    wait_until("the link's refusal", || {
        Some(()).filter(|()| link_state(&server).contains("2.10.27, which is too old"))
    });
    assert!(link_state(&server).contains("2.12.6"), "{}", link_state(&server));
    assert_eq!(hub.member("server").unwrap()["state"], "silent", "nothing was published");
    assert_found(&server, "hub", "2.10.27, which is too old", "2.11.15, 2.12.6 or newer");
}

/// What a member hears that writes where it may not.
fn try_forbidden_write(home: &TempHome, subject: &str) -> String {
    block_on(async {
        let (mut hub, ..) = connect_as_member(home).await;
        hub.put_record(subject, None, b"forged".to_vec()).await.unwrap_err().to_string()
    })
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn row_26_every_key_file_and_directory_that_others_can_read_is_refused_and_named() {
    let hub = TestHub::start(&[]);
    let laptop = hub.join("laptop", "reap");
    for name in
        ["link.seed", "seal.seed", "operator-link.seed", "operator-seal.seed", "member.json"]
    {
        let file = fleet_file(&laptop, name);
        set_mode(&file, 0o640);
        assert_found(&laptop, "files", name, "chmod 600");
        set_mode(&file, 0o600);
    }
    let seal = fleet_file(&laptop, "operator-seal.seed");
    set_mode(&seal, 0o604);
    let refused = fleet_run(&laptop, &["--host", "nobody", "adapters"]).exits(8);
    assert!(refused.stderr.contains("operator-seal.seed"), "{}", refused.stderr);
    set_mode(&seal, 0o600);
    let directory = fleet_file(&laptop, "");
    set_mode(&directory, 0o755);
    fleet_run(&laptop, &["ls", "--fleet"]).exits(8);
    assert_found(&laptop, "files", "fleet", "chmod 700");
    set_mode(&directory, 0o700);
    // The link does not use a key that others can read either.
    let link = fleet_file(&laptop, "link.seed");
    set_mode(&link, 0o660);
    let _daemon = start_member(&laptop);
    wait_until("the link's refusal", || {
        Some(()).filter(|()| link_state(&laptop).contains("link.seed"))
    });
    assert_eq!(hub.member("laptop").unwrap()["state"], "silent");
    // On the hub.
    for name in ["root.seed", "admin.seed", "system.seed", "ca.key", "hub.key", "hub.json"] {
        let file = hub.directory().join(name);
        set_mode(&file, 0o644);
        assert_found(&hub.home, "files", name, "chmod 600");
        set_mode(&file, 0o600);
    }
    assert_good(&hub.home, "files");
}

#[test]
fn the_doctor_tells_copies_and_rivals_with_their_remedy() {
    let hub = TestHub::start(&["--plain"]);
    let server = hub.join("server", "none");
    let daemon = start_member(&server);
    hub.wait_for_state("server", "reachable");
    let clone = copy_home(&server);
    let boot = "11111111-2222-4333-8444-555555555555\n";
    let _clone_daemon = start_elsewhere(&clone, "/proc/sys/kernel/random/boot_id", boot);
    hub.wait_for_state("server", "rival");
    assert_found(&hub.home, "member server", "rival", "fleet join --new");
    let laptop = hub.join("laptop", "read");
    let copy = copy_home(&laptop);
    let machine = "0123456789abcdef0123456789abcdef\n";
    let _copy_daemon = start_elsewhere(&copy, "/etc/machine-id", machine);
    wait_until("the refusal", || Some(()).filter(|()| link_state(&copy).contains("copied")));
    assert_found(&copy, "link", "copied", "fleet join --new");
    drop(daemon);
}

#[test]
fn the_doctor_tells_what_does_not_fit_who_was_refused_and_who_is_loud() {
    let hub = TestHub::start(&["--plain"]);
    let (server, quiet) = (hub.join("server", "none"), hub.join("quiet", "none"));
    let _quiet = start_member(&quiet);
    hub.wait_for_state("quiet", "reachable");
    assert_good(&hub.home, "violations");
    assert_good(&hub.home, "traffic");
    let (_, victim) = member_of(&quiet);
    let told = try_forbidden_write(&server, &format!("$KV.lease.{}", victim.id));
    assert!(told.contains("Violation"), "{told}");
    assert_found(&hub.home, "violations", "most of them (1) by `server`", "fleet evict");
    assert_found(&hub.home, "violations", &victim.id, "fleet evict");
    block_on(async {
        let (hub_connection, _, file) = connect_as_member(&server).await;
        let subject = format!("ostler.v1.out.{}.state.active.7", file.id);
        for _ in 0..60 {
            let noise = vec![b'x'; 90_000].into();
            hub_connection.client.publish(subject.clone(), noise).await.unwrap();
        }
        hub_connection.client.flush().await.unwrap();
        // It stays connected while the doctor looks.
        wait_until("the loudest one", || {
            let found = findings_of(&hub.home, "traffic");
            let is_named = |(grade, finding, _): &(String, String, String)| {
                grade == "warning" && finding.contains("`server`")
            };
            Some(()).filter(|()| found.iter().any(is_named))
        });
    });
}

#[test]
fn the_doctor_tells_certificates_that_end_and_the_hub_issues_others() {
    let mut hub = TestHub::start(&[]);
    let laptop = hub.join("laptop", "read");
    assert_good(&hub.home, "certificate");
    hub.issue_certificate(20);
    assert_found(&hub.home, "certificate", "19 more days", "fleet hub");
    hub.issue_certificate(-1);
    assert_found(&hub.home, "certificate", "members refuse it", "fleet hub");
    let before = std::fs::read(hub.directory().join("ca.pem")).unwrap();
    hub.kill_engine();
    hub.run_engine();
    assert_good(&hub.home, "certificate");
    assert_eq!(std::fs::read(hub.directory().join("ca.pem")).unwrap(), before, "members pin it");
    let seen = fleet_run(&laptop, &["--json", "fleet", "status", "--timeout", "20"]).result();
    assert_eq!(seen["hub"]["reachable"], true, "{seen}");
}

#[test]
fn the_doctor_tells_certificates_at_the_hub_that_are_not_those_that_were_signed() {
    let hub = TestHub::start(&["--plain"]);
    let (one, two) = (hub.join("one", "read"), hub.join("two", "read"));
    assert_good(&hub.home, "certificates");
    let ((_, one), (_, two)) = (member_of(&one), member_of(&two));
    let subject = |id: &str| format!("$KV.meta.member.{id}");
    hub.put_as_admin(&subject(&two.id), b"no certificate");
    assert_found(&hub.home, "certificates", "`two`", "fleet admit");
    hub.purge_as_admin("meta", &subject(&one.id));
    assert_found(&hub.home, "certificates", "that of `one` is missing", "fleet admit");
    hub.purge_as_admin("meta", "$KV.meta.operators");
    assert_found(&hub.home, "certificates", "operator", "fleet operator");
    hub.put_as_admin(&subject("nobody"), b"of nobody");
    assert_found(&hub.home, "certificates", "nobody", "fleet admit");
    // Its remedy helps.
    fleet_run(&hub.home, &["fleet", "operator", "one", "--level", "drive"]).exits(0);
    assert_good(&hub.home, "certificates");
}

#[test]
fn how_members_are_is_read_from_their_leases_and_what_they_published_is_not() {
    let hub = TestHub::start(&["--plain"]);
    let (server, laptop) = (hub.join("server", "none"), hub.join("laptop", "read"));
    publish_lease(&server, sys::clock::now());
    let id = member_of(&server).1.id;
    hub.put_as_admin(&format!("$KV.inv.{id}.active.0"), b"this is no page");
    let state = |words: &[&str]| {
        let told = fleet_run(&laptop, words).result();
        let members = told["members"].as_array().unwrap();
        members.iter().find(|one| one["name"] == "server").unwrap()["state"].clone()
    };
    assert_eq!(state(&["--json", "ls", "--fleet"]), "unreadable");
    assert_eq!(state(&["--json", "fleet", "status"]), "reachable");
    let doctor = fleet_run(&laptop, &["fleet", "doctor"]);
    assert!(doctor.stdout.contains("active.0"), "{}", doctor.stdout);
}
