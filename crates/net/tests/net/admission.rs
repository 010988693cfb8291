//! Who is admitted, with which keys and at which level, and that no change of the hub is lost.

use std::process::Stdio;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use net::fleet_files::{FleetDir, SEAL_SEED};
use net::hub::Hub;
use net::record::FleetOperator;
use net::seal::{SEAL_BYTES, SealKind, seal_json};
use nkeys::KeyPair;
use serde_json::{Value, json};
use testkit::home::TempHome;

use super::fleet_kit::{TestHub, fleet_run, member_of, with_engine};
use super::kit::ostler;

/// The line with which a home asks, and what its keys are known by.
fn ask_to_join(home: &TempHome, name: &str, level: &str) -> (String, Value) {
    let words = ["--json", "fleet", "join", "--name", name, "--level", level];
    let asked = fleet_run(home, &words).exits(0).result();
    (asked["request"].as_str().unwrap().to_owned(), asked["fingerprint"].clone())
}

fn open_hub(hub: &TestHub) -> Hub {
    Hub::open(&hub.home.join(".local/state/ostler")).unwrap()
}

#[test]
fn whoever_is_admitted_at_the_same_time_is_admitted() {
    const MANY: usize = 6;
    let hub = TestHub::start(&["--plain"]);
    hub.join("first", "drive");
    let before = open_hub(&hub).file.operators_version;
    let homes: Vec<TempHome> = (0..MANY).map(|_| TempHome::new()).collect();
    let line = |(at, home): (usize, &TempHome)| ask_to_join(home, &format!("m{at}"), "read").0;
    let lines: Vec<String> = homes.iter().enumerate().map(line).collect();
    let admit = |line: &String| {
        let mut command = with_engine(ostler(&hub.home));
        command.args(["--json", "fleet", "admit", line]).stdout(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<_> = lines.iter().map(admit).collect();
    // Beside them somebody's level is changed.
    fleet_run(&hub.home, &["fleet", "operator", "first", "--level", "reap"]).exits(0);
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let file = open_hub(&hub).file;
    assert_eq!(file.members.len(), MANY + 1, "{:?}", file.members);
    assert_eq!(file.operators.len(), MANY + 1, "{:?}", file.operators);
    assert_eq!(file.operators_version, before + MANY as u64 + 1, "one version for each change");
    let told = fleet_run(&hub.home, &["fleet", "doctor"]).stdout;
    assert!(!told.contains("the operator list"), "the hub has the list that is written: {told}");
}

/// A line with something in it changed, and the seal that it had.
fn altered(line: &str, alter: impl FnOnce(&mut Value)) -> String {
    let (prefix, rest) = line.split_once(':').unwrap();
    let sealed = URL_SAFE_NO_PAD.decode(rest).unwrap();
    let mut body: Value = serde_json::from_slice(&sealed[SEAL_BYTES..]).unwrap();
    alter(&mut body);
    let forged = [&sealed[..SEAL_BYTES], &serde_json::to_vec(&body).unwrap()].concat();
    format!("{prefix}:{}", URL_SAFE_NO_PAD.encode(forged))
}

#[test]
fn a_line_that_brings_other_keys_beside_a_members_own_is_refused() {
    let hub = TestHub::start(&["--plain"]);
    let victim = hub.join("victim", "drive");
    let (line, shown) = ask_to_join(&TempHome::new(), "other", "reap");
    let (_, file) = member_of(&victim);
    let before = open_hub(&hub).file;
    let known = before.members.iter().find(|one| one.id == file.id).unwrap().clone();
    let key = KeyPair::new_user().public_key();
    for forged in [
        altered(&line, |body| body["link"] = json!(key)),
        altered(&line, |body| body["operator"]["seal"] = json!(key)),
        altered(&line, |body| body["level"] = json!("read")),
        altered(&line, |body| {
            (body["seal"], body["name"]) = (json!(known.seal), json!(known.name));
        }),
    ] {
        let refused = fleet_run(&hub.home, &["fleet", "admit", &forged]).exits(2);
        assert!(refused.stderr.contains("its seal is not valid"), "{}", refused.stderr);
    }
    // As it was before lines were sealed.
    let body = URL_SAFE_NO_PAD.encode(json!({ "v": 1, "seal": known.seal }).to_string());
    fleet_run(&hub.home, &["fleet", "admit", &format!("ostler-join:{body}")]).exits(2);
    assert_eq!(open_hub(&hub).file, before);
    // The real one is known by the same words on both sides, and they are of every key.
    let admitted = fleet_run(&hub.home, &["--json", "fleet", "admit", &line]).exits(0).result();
    assert_eq!(admitted["fingerprint"], shown);
    let home = TempHome::new();
    let (_, plain) = ask_to_join(&home, "more", "none");
    let (_, more) = ask_to_join(&home, "more", "read");
    assert_ne!(plain, more, "an operator's keys are covered too");
}

/// A line that somebody sealed who brings whatever keys it likes.
fn resealed(home: &TempHome, line: &str, alter: impl FnOnce(&mut Value)) -> String {
    let (prefix, rest) = line.split_once(':').unwrap();
    let sealed = URL_SAFE_NO_PAD.decode(rest).unwrap();
    let mut body: Value = serde_json::from_slice(&sealed[SEAL_BYTES..]).unwrap();
    alter(&mut body);
    let dir = FleetDir::open(&home.join(".local/state/ostler"), "fleet").unwrap().unwrap();
    let key = dir.need_key(SEAL_SEED).unwrap();
    let sealed = seal_json(&key, SealKind::Join, &body).unwrap();
    format!("{prefix}:{}", URL_SAFE_NO_PAD.encode(sealed))
}

#[test]
fn row_18_nobody_is_admitted_with_a_key_that_another_connects_with() {
    let mut hub = TestHub::start(&["--plain"]);
    hub.join("first", "drive");
    let before = open_hub(&hub).file;
    let home = TempHome::new();
    let (line, _) = ask_to_join(&home, "second", "read");
    let admin = open_hub(&hub).dir.need_key("admin.seed").unwrap().public_key();
    let (member, operator) = (&before.members[0].link, &before.operators[0].link);
    for (what, taken) in
        [("member `first`", member), ("operator `first`", operator), ("the hub", &admin)]
    {
        for own in ["/link", "/operator/link"] {
            let line = resealed(&home, &line, |body| {
                *body.pointer_mut(own).unwrap() = json!(taken);
            });
            let refused = fleet_run(&hub.home, &["fleet", "admit", &line]).exits(13);
            assert!(refused.stderr.contains(what), "{own}: {}", refused.stderr);
        }
    }
    // Both of its own are one.
    let line = resealed(&home, &line, |body| body["link"] = body["operator"]["link"].clone());
    fleet_run(&hub.home, &["fleet", "admit", &line]).exits(13);
    assert_eq!(open_hub(&hub).file, before, "nothing was written");
    hub.kill_engine();
    hub.run_engine();
}

#[test]
fn more_than_looking_is_given_only_by_whoever_says_so() {
    let hub = TestHub::start(&["--plain"]);
    let home = TempHome::new();
    let (line, _) = ask_to_join(&home, "laptop", "reap");
    let told = fleet_run(&home, &["fleet", "join", "--name", "laptop", "--level", "reap"]).exits(0);
    assert!(told.stdout.contains(" --level reap\n"), "{}", told.stdout);
    let admitted = fleet_run(&hub.home, &["--json", "fleet", "admit", &line]).exits(0).result();
    assert_eq!((&admitted["asked"], &admitted["level"]), (&json!("reap"), &json!("read")));
    let told = fleet_run(&hub.home, &["fleet", "admit", &line]).exits(0);
    assert!(told.stdout.contains("it asks for `reap`"), "{}", told.stdout);
    let level_of = |words: &[&str]| {
        let words = [&["--json", "fleet", "admit", &*line][..], words].concat();
        fleet_run(&hub.home, &words).exits(0).result()["level"].clone()
    };
    assert_eq!(level_of(&["--level", "drive"]), "drive");
    assert_eq!(level_of(&["--level", "reap", "--ssh", "far"]), "reap");
    assert_eq!(open_hub(&hub).file.operators[0].level.as_str(), "reap");
    // Row 62: until when, which stays, too.
    let end_of = || open_hub(&hub).file.operators[0].not_after.map(|end| end.to_string());
    level_of(&["--until", "2027-01-01T00:00:00.000Z"]);
    level_of(&["--level", "drive"]);
    assert_eq!(end_of().as_deref(), Some("2027-01-01T00:00:00.000Z"));
    level_of(&["--level", "reap"]);
    // How ssh reaches it stands in its certificate, and stays there.
    level_of(&[]);
    assert_eq!(open_hub(&hub).file.members[0].ssh.as_deref(), Some("far"));
    fleet_run(&hub.home, &["fleet", "admit", &line, "--ssh=-oProxyCommand=x"]).exits(2);
}

#[test]
fn a_list_that_members_would_refuse_is_not_written() {
    let hub = TestHub::start(&["--plain"]);
    let mut opened = open_hub(&hub);
    let key = KeyPair::new_user().public_key();
    opened.file.operators.extend((0..500).map(|number| FleetOperator {
        name: format!("operator-{number}"),
        seal: key.clone(),
        link: key.clone(),
        level: model::wire::FleetLevel::Read,
        not_after: None,
    }));
    opened.dir.write_json("hub.json", &opened.file).unwrap();
    let (line, _) = ask_to_join(&TempHome::new(), "laptop", "read");
    let refused = fleet_run(&hub.home, &["fleet", "admit", &line]).exits(13);
    assert!(refused.stderr.contains("too many for one list"), "{}", refused.stderr);
    assert_eq!(open_hub(&hub).file, opened.file);
}
