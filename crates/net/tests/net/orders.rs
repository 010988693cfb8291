//! Orders from one machine to another: levels, grants, outcomes, and what nobody does twice.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testkit::home::TempHome;
use testkit::pause::Pauses;
use testkit::run::{Ran, ran};

use super::fleet_kit::{
    TestHub, fleet_run, link_pid, publish_page, signal_process, start_member, wait_for_link,
    with_engine, write_settings,
};
use super::kit::{TestDaemon, ostler, wait_until};

/// A server that lets operators do something, and a laptop that may do everything.
pub(super) struct Pair {
    pub(super) hub: TestHub,
    pub(super) server: TempHome,
    pub(super) laptop: TempHome,
    pub(super) daemon: Option<TestDaemon>,
    pub(super) pauses: Pauses,
}

impl Pair {
    pub(super) fn with(allow: &str) -> Self {
        let hub = TestHub::start(&["--plain"]);
        let (server, laptop) = (hub.join("server", "none"), hub.join("laptop", "reap"));
        set_allow(&server, allow);
        let mut pair = Self { hub, server, laptop, daemon: None, pauses: Pauses::new() };
        pair.start_server();
        pair
    }

    pub(super) fn start_daemon(&mut self) {
        let mut command = with_engine(ostler(&self.server));
        self.pauses.apply(&mut command);
        self.daemon = Some(TestDaemon::with(command));
    }

    pub(super) fn start_server(&mut self) {
        self.start_daemon();
        self.hub.wait_for_state("server", "reachable");
        // A lease of the run before may still be fresh.
        wait_until("a member that answers", || {
            Some(()).filter(|()| self.order(&["adapters"]).code == 0)
        });
    }

    pub(super) fn daemon(&self) -> &TestDaemon {
        self.daemon.as_ref().unwrap()
    }

    /// `ostler --host server …` on the laptop.
    #[track_caller]
    pub(super) fn order(&self, words: &[&str]) -> Ran {
        let line: Vec<&str> = ["--host", "server"].iter().chain(words).copied().collect();
        fleet_run(&self.laptop, &line)
    }

    /// A terminal that is over, which a collection would take.
    pub(super) fn leave_something_to_collect(&self) -> String {
        let made = fleet_run(&self.server, &["--json", "create", "--", "true"]).exits(0).result();
        let id = made["sessionId"].as_str().unwrap().to_owned();
        let gone = ["--json", "wait", &id, "--exit", "--timeout", "10000"];
        fleet_run(&self.server, &gone).exits(0);
        // Its host outlives it by a moment; a plan that is made before that is another one.
        wait_until("a terminal that would be collected", || {
            let plan = self.plan(&self.server, &[]);
            let items = plan["items"].as_array().unwrap();
            let goes = |one: &Value| one["session"] == id.as_str() && one["action"] == "wouldGo";
            Some(()).filter(|()| items.iter().any(goes))
        });
        id
    }

    pub(super) fn plan(&self, home: &TempHome, words: &[&str]) -> Value {
        let line: Vec<&str> =
            ["--json", "gc", "--older-than", "0s"].iter().chain(words).copied().collect();
        fleet_run(home, &line).result()
    }

    pub(super) fn collect(&self) -> Vec<&'static str> {
        vec!["--json", "--host", "server", "gc", "--older-than", "0s", "--yes"]
    }
}

/// An empty level is what a home has about which nothing is said.
pub(super) fn set_allow(home: &TempHome, allow: &str) {
    let line = if allow.is_empty() { String::new() } else { format!("allow = \"{allow}\"\n") };
    write_settings(home, "10s", &line);
}

fn order_in(home: &TempHome) -> Value {
    let journal = std::fs::read(home.join(".local/state/ostler/fleet/orders.json")).unwrap();
    let journal: Value = serde_json::from_slice(&journal).unwrap();
    journal["orders"].as_array().unwrap().last().unwrap().clone()
}

/// What changes from call to call.
pub(super) fn steady(mut envelope: Value) -> Value {
    for name in ["timestamp", "member", "via"] {
        envelope.as_object_mut().unwrap().remove(name);
    }
    fn strip(value: &mut Value) {
        match value {
            Value::Array(values) => values.iter_mut().for_each(strip),
            Value::Object(values) => {
                values.retain(|name, _| {
                    !name.ends_with("Ms") && !name.ends_with("At") && name != "uptime"
                });
                values.values_mut().for_each(strip);
            }
            _ => {}
        }
    }
    strip(&mut envelope);
    envelope
}

#[test]
fn row_60_by_default_nothing_but_reading_is_allowed_and_nothing_changes() {
    let pair = Pair::with("");
    let id = pair.leave_something_to_collect();
    let before = pair.plan(&pair.server, &[]);
    for words in [
        &["gc", "--older-than", "0s", "--yes"][..],
        &["create", "--", "true"],
        &["destroy", &id],
        &["undo"],
        &["type", &id, "x"],
    ] {
        let refused = pair.order(words).exits(13);
        assert!(refused.stderr.contains("lets operators do `read`"), "{}", refused.stderr);
    }
    assert_eq!(pair.plan(&pair.server, &[])["plan"], before["plan"]);
    assert!(!pair.server.join(".local/state/ostler/fleet/orders.json").exists());
    // An operator's own level counts too, and the hub itself stands in the way.
    set_allow(&pair.server, "reap");
    fleet_run(&pair.hub.home, &["fleet", "operator", "laptop", "--level", "drive"]).exits(0);
    pair.order(&["gc", "--older-than", "0s", "--yes"]).exits(13);
    assert_eq!(pair.plan(&pair.server, &[])["plan"], before["plan"]);
}

/// Puts an operator list at the hub that is not the one of its own commands.
fn publish_list(hub: &net::hub::Hub) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut admin = hub.connect_admin().await.unwrap();
        hub.publish_meta(&mut admin).await.unwrap();
    });
}

#[test]
fn row_61_an_operator_list_with_a_lower_version_is_refused() {
    let mut pair = Pair::with("reap");
    pair.order(&["--json", "adapters"]).exits(0);
    let older = net::hub::Hub::open(&pair.hub.home.join(".local/state/ostler")).unwrap();
    fleet_run(&pair.hub.home, &["fleet", "operator", "laptop", "--level", "drive"]).exits(0);
    pair.order(&["--json", "adapters"]).exits(0);
    // The hub brings back the list in which the laptop might do everything.
    publish_list(&older);
    let refused = pair.order(&["adapters"]).exits(13);
    assert!(refused.stderr.contains("older operator list"), "{}", refused.stderr);
    // What was seen is remembered by the next run too.
    pair.daemon = None;
    pair.start_daemon();
    wait_for_link(&pair.server);
    let refused = wait_until("an answer of the next run", || {
        Some(pair.order(&["adapters"])).filter(|told| told.code == 13)
    });
    assert!(refused.stderr.contains("older operator list"), "{}", refused.stderr);
}

#[test]
fn row_62_an_operator_whose_time_is_over_and_one_that_was_removed_are_refused() {
    let pair = Pair::with("reap");
    let id = pair.leave_something_to_collect();
    let mut newer = net::hub::Hub::open(&pair.hub.home.join(".local/state/ostler")).unwrap();
    newer.file.operators_version += 1;
    let laptop = newer.file.operators.iter_mut().find(|one| one.name == "laptop").unwrap();
    laptop.not_after = Some(model::time::Time::from_millis(1));
    newer.save().unwrap();
    publish_list(&newer);
    for words in [&["adapters"][..], &["gc", "--older-than", "0s", "--yes"]] {
        let refused = pair.order(words).exits(13);
        assert!(refused.stderr.contains("was an operator until"), "{}", refused.stderr);
    }
    // The same by the hub's own commands; what is not said stays, also for whoever is admitted again.
    let operator = |words: &[&str]| {
        let words = [&["--json", "fleet", "operator"][..], words].concat();
        let told = fleet_run(&pair.hub.home, &words).exits(0).result();
        let found =
            told["operators"].as_array().unwrap().iter().find(|one| one["name"] == "laptop");
        found.cloned().unwrap()
    };
    assert!(operator(&["laptop", "--until", "never"]).get("notAfter").is_none());
    pair.order(&["adapters"]).exits(0);
    let past = "2020-01-02T03:04:05.000Z";
    assert_eq!(operator(&["laptop", "--until", past])["notAfter"], past);
    let ended = operator(&["laptop", "--level", "reap"]);
    assert_eq!((&ended["notAfter"], &ended["level"]), (&json!(past), &json!("reap")));
    let refused = pair.order(&["adapters"]).exits(13);
    assert!(refused.stderr.contains("was an operator until 2020-01-02"), "{}", refused.stderr);
    let told = fleet_run(&pair.hub.home, &["fleet", "operator"]).exits(0);
    assert!(told.stdout.contains("laptop  reap  until 2020-01-02"), "{}", told.stdout);
    let mut newer = net::hub::Hub::open(&pair.hub.home.join(".local/state/ostler")).unwrap();
    // One that was taken off the list while the hub's engine still knows its key.
    newer.file.operators_version += 1;
    newer.file.operators.retain(|one| one.name != "laptop");
    publish_list(&newer);
    let refused = pair.order(&["gc", "--older-than", "0s", "--yes"]).exits(13);
    assert!(refused.stderr.contains("is no operator"), "{}", refused.stderr);
    // And one that the hub's own command removed.
    fleet_run(&pair.hub.home, &["fleet", "operator", "laptop", "--level", "none"]).exits(0);
    assert_ne!(pair.order(&["adapters"]).code, 0);
    fleet_run(&pair.server, &["inspect", &id]).exits(0);
}

#[test]
fn row_70_a_collection_from_afar_is_undone_from_afar() {
    let pair = Pair::with("reap");
    let id = pair.leave_something_to_collect();
    let done = fleet_run(&pair.laptop, &pair.collect()).exits(0).result();
    let receipt = done["receipt"].as_str().unwrap();
    let order = order_in(&pair.server);
    assert_eq!((&order["state"], &order["operator"]), (&json!("applied"), &json!("laptop")));
    assert_eq!(order["receipt"], receipt);
    fleet_run(&pair.server, &["inspect", &id]).exits(3);
    pair.order(&["undo", receipt]).exits(0);
    fleet_run(&pair.server, &["inspect", &id]).exits(0);
}

#[test]
fn row_68_a_live_session_stays_whatever_is_ordered_and_whatever_the_hub_shows() {
    let pair = Pair::with("reap");
    let made = fleet_run(&pair.server, &["--json", "create", "--name", "build", "--", "cat"]);
    let id = made.exits(0).result()["sessionId"].as_str().unwrap().to_owned();
    // The hub's record says that it is over, with a valid seal.
    let dead = json!({
        "id": id, "agent": "terminal", "status": "exited", "endedAt": "2026-01-01T00:00:00.000Z",
        "liveness": {"state": "dead", "reason": "forged", "source": "process", "certainty": "proven"}
    });
    wait_until("the forged page", || {
        publish_page(&pair.server, "active.0", u64::MAX, std::slice::from_ref(&dead));
        let seen = fleet_run(&pair.laptop, &["--json", "ls", "--fleet"]).result();
        let sessions = seen["sessions"].as_array().unwrap().clone();
        sessions.into_iter().find(|one| one["id"] == id.as_str() && one["status"] == "exited")
    });
    pair.leave_something_to_collect();
    let done = fleet_run(&pair.laptop, &pair.collect()).exits(0).result();
    assert_eq!(done["count"], 1, "{done}");
    assert_eq!(pair.order(&["--json", "inspect", "build"]).exits(0).envelope()["ok"], true);
    pair.order(&["destroy", "build"]).exits(0);
}

/// Has the laptop collect on the server; the work is done, and the hub is killed before the answer is sent.
/// What the laptop was told, and the order's id.
fn lose_answer(pair: &mut Pair) -> (Value, String) {
    pair.pauses.arm("fleet.order.done");
    let mut command = with_engine(ostler(&pair.laptop));
    command.args(pair.collect()).stdout(Stdio::piped());
    let child = command.spawn().unwrap();
    pair.pauses.wait("fleet.order.done");
    cut_operator(&pair.hub);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(14), "{}", String::from_utf8_lossy(&output.stdout));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let id = order_in(&pair.server)["id"].as_str().unwrap().to_owned();
    assert_eq!(pair.plan(&pair.server, &[])["count"], 0, "it was done");
    (said, id)
}

#[test]
fn row_64_an_answer_that_is_lost_is_not_known_and_the_outcome_tells() {
    let mut pair = Pair::with("reap");
    pair.leave_something_to_collect();
    let (said, id) = lose_answer(&mut pair);
    assert_eq!(said["error"]["code"], "MAY_HAVE_APPLIED");
    let hint = said["error"]["hint"].as_str().unwrap();
    assert!(hint.contains(&format!("--host server outcome {id}")), "{hint}");
    // The member goes on, and notes the end of what nobody heard.
    pair.pauses.release("fleet.order.done");
    pair.hub.run_engine();
    let outcome = wait_until("the outcome", || {
        let told = pair.order(&["--json", "outcome", &id]);
        Some(told).filter(|told| told.code == 0).map(|told| told.result())
    });
    assert_eq!(outcome["state"], "applied", "{outcome}");
    let receipt = outcome["order"]["receipt"].as_str().unwrap();
    pair.order(&["undo", receipt]).exits(0);
}

#[test]
fn row_64_a_member_that_died_with_the_answer_says_that_it_does_not_know() {
    let mut pair = Pair::with("reap");
    pair.leave_something_to_collect();
    let (_, id) = lose_answer(&mut pair);
    // The work is done; whoever was to say so is gone.
    signal_process(link_pid(pair.daemon()), "-KILL");
    pair.hub.run_engine();
    pair.daemon = None;
    pair.start_server();
    let outcome = pair.order(&["--json", "outcome", &id]).exits(0).result();
    assert_eq!(outcome["state"], "unknown", "its end was not noted: {outcome}");
}

/// The hub is killed: nobody's answer comes any more.
fn cut_operator(hub: &TestHub) {
    hub.signal_engine("-KILL");
}

#[test]
fn row_65_killed_between_journal_and_work_is_said_and_not_tried_again() {
    let mut pair = Pair::with("reap");
    let id = pair.leave_something_to_collect();
    pair.pauses.arm("fleet.order.noted");
    let mut command = with_engine(ostler(&pair.laptop));
    let mut child = command.args(pair.collect()).stdout(Stdio::null()).spawn().unwrap();
    pair.pauses.wait("fleet.order.noted");
    let link = link_pid(pair.daemon());
    pair.daemon.take().unwrap().kill();
    signal_process(link, "-KILL");
    child.kill().unwrap();
    child.wait().unwrap();
    let order = order_in(&pair.server);
    assert_eq!(order["state"], "begun");
    pair.start_server();
    let order = order["id"].as_str().unwrap();
    let outcome = pair.order(&["--json", "outcome", order]).exits(0).result();
    assert_eq!(
        (&outcome["state"], &outcome["order"]["operator"]),
        (&json!("unknown"), &json!("laptop"))
    );
    fleet_run(&pair.server, &["inspect", &id]).exits(0);
    // One that was never heard of is not applied, and cannot be any more.
    let outcome = pair.order(&["--json", "outcome", "01KNEVER"]).exits(0).result();
    assert_eq!(outcome["state"], "not-applied");
}

#[test]
fn row_69_one_member_that_fails_stops_nobody_else() {
    let pair = Pair::with("reap");
    pair.leave_something_to_collect();
    let third = pair.hub.join("third", "none");
    write_settings(&third, "10s", "");
    let _daemon = start_member(&third);
    pair.hub.wait_for_state("third", "reachable");
    wait_for_link(&third);
    let silent = pair.hub.join("silent", "none");
    let seen = fleet_run(&pair.laptop, &["--json", "gc", "--fleet", "--older-than", "0s"]).exits(6);
    let seen = seen.result();
    let of = |seen: &Value, name: &str| {
        let members = seen["members"].as_array().unwrap();
        members.iter().find(|one| one["member"] == name).cloned().unwrap()
    };
    assert_eq!(of(&seen, "server")["result"]["count"], 1);
    assert_eq!(of(&seen, "third")["result"]["count"], 0);
    assert_eq!(of(&seen, "here")["via"], "local");
    assert!(of(&seen, "silent")["error"].as_str().unwrap().contains("silent"), "{seen}");
    let text = fleet_run(&pair.laptop, &["gc", "--fleet", "--older-than", "0s"]).exits(6);
    assert!(text.stdout.contains("server  1 thing"), "{}", text.stdout);
    let words = ["--json", "gc", "--fleet", "--older-than", "0s", "--yes"];
    let done = fleet_run(&pair.laptop, &words).exits(13).result();
    assert_eq!(of(&done, "server")["result"]["applied"], true);
    assert_eq!(of(&done, "third")["exit"], 13, "it allows reading only");
    assert_eq!(of(&done, "silent")["exit"], 6);
    assert_eq!(pair.plan(&pair.server, &[])["count"], 0);
    drop(silent);
}

#[test]
fn an_agent_may_only_look_unless_somebody_says_more() {
    let pair = Pair::with("reap");
    // A process that looks like an agent gives the order.
    let agent = pair.laptop.join("claude");
    std::fs::copy("/bin/sh", &agent).unwrap();
    let by_agent = |words: &[&str]| {
        let mut command = with_engine(ostler(&pair.laptop));
        let program = command.get_program().to_owned();
        let environment: Vec<_> = command
            .get_envs()
            .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
            .collect();
        command = Command::new(&agent);
        command.env_clear().envs(environment).current_dir(pair.laptop.path());
        command.args(["-c", "\"$0\" \"$@\"; exit $?"]).arg(program);
        ran(command.args(["--host", "server"]).args(words))
    };
    by_agent(&["adapters"]).exits(0);
    let refused = by_agent(&["gc", "--older-than", "0s", "--yes"]).exits(13);
    assert!(refused.stderr.contains("agents_may"), "{}", refused.stderr);
    write_settings(&pair.laptop, "10s", "agents_may = \"reap\"\n");
    by_agent(&["gc", "--older-than", "0s", "--yes"]).exits(0);
}

#[test]
fn a_long_answer_comes_in_parts() {
    let pair = Pair::with("read");
    let script = "i=0; while [ $i -lt 4000 ]; do echo \"line $i of many, and some more words\"; i=$((i+1)); done; cat";
    let made =
        fleet_run(&pair.server, &["--json", "create", "--name", "build", "--", "sh", "-c", script]);
    made.exits(0);
    fleet_run(&pair.server, &["wait", "build", "--text", "line 3999", "--timeout", "20000"])
        .exits(0);
    let words = ["--json", "snapshot", "build", "--include-scrollback"];
    let near = wait_until("a whole screen", || {
        let near = fleet_run(&pair.server, &words).exits(0);
        Some(near).filter(|near| near.stdout.len() > 100_000)
    });
    let afar = pair.order(&words).exits(0);
    assert_eq!(steady(afar.envelope()), steady(near.envelope()));
    fleet_run(&pair.server, &["destroy", "build"]).exits(0);
}

/// A shell on the server, and the words that have it print more than goes into one part of an answer.
fn start_talker(pair: &Pair) -> [&'static str; 7] {
    fleet_run(&pair.server, &["create", "--name", "build", "--", "sh"]).exits(0);
    ["--json", "--host", "server", "run", "build", "seq 1 15000", "--capture"]
}

#[test]
fn a_long_answer_of_an_order_that_was_carried_out_comes_whole() {
    let pair = Pair::with("drive");
    let words = start_talker(&pair);
    let told = fleet_run(&pair.laptop, &words).exits(0);
    assert!(told.stdout.len() > 48 << 10, "it is long: {}", told.stdout.len());
    assert!(told.stdout.contains("15000") && told.envelope()["ok"] == true, "it is whole");
    fleet_run(&pair.server, &["destroy", "build", "--force"]);
}

#[test]
fn when_the_rest_of_an_answer_is_lost_it_is_said_that_it_may_have_been_done() {
    let mut pair = Pair::with("drive");
    let words = start_talker(&pair);
    let pauses = Pauses::new();
    pauses.arm("fleet.order.rest");
    let mut command = with_engine(ostler(&pair.laptop));
    pauses.apply(&mut command);
    let child = command.args(words).stdout(Stdio::piped()).spawn().unwrap();
    pauses.wait("fleet.order.rest");
    cut_operator(&pair.hub);
    pauses.release("fleet.order.rest");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(14), "{}", String::from_utf8_lossy(&output.stdout));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["error"]["code"], "MAY_HAVE_APPLIED", "{said}");
    // What became of it is known there.
    let id = order_in(&pair.server)["id"].as_str().unwrap().to_owned();
    pair.hub.run_engine();
    let outcome = wait_until("the outcome", || {
        let told = pair.order(&["--json", "outcome", &id]);
        Some(told).filter(|told| told.code == 0).map(|told| told.result())
    });
    assert_eq!(outcome["state"], "applied", "{outcome}");
    fleet_run(&pair.server, &["destroy", "build", "--force"]);
}

#[test]
fn questions_about_orders_that_never_came_push_nothing_out_of_the_journal() {
    let pair = Pair::with("reap");
    pair.leave_something_to_collect();
    fleet_run(&pair.laptop, &pair.collect()).exits(0);
    let noted = order_in(&pair.server);
    for number in 0..3 {
        let told = pair.order(&["--json", "outcome", &format!("01KNEVER{number}")]).exits(0);
        assert_eq!(told.result()["state"], "not-applied");
    }
    assert_eq!(order_in(&pair.server), noted, "nothing is written for a question");
}

#[test]
fn what_is_allowed_is_looked_up_for_every_order() {
    let pair = Pair::with("read");
    let words = ["create", "--name", "build", "--", "cat"];
    pair.order(&words).exits(13);
    set_allow(&pair.server, "drive");
    pair.order(&words).exits(0);
    wait_until("a lease that says it", || {
        pair.hub.member("server").filter(|one| one["allow"] == "drive")
    });
    set_allow(&pair.server, "read");
    pair.order(&["type", "build", "x"]).exits(13);
    fleet_run(&pair.server, &["destroy", "build"]).exits(0);
}

#[test]
fn an_operator_list_counts_in_its_own_fleet_and_a_lost_note_permits_nothing() {
    let mut pair = Pair::with("reap");
    let seen = pair.server.join(".local/state/ostler/fleet/operators-seen.json");
    // Another fleet went much further.
    pair.daemon = None;
    std::fs::write(&seen, "{\"UANOTHERFLEET\": 4000}").unwrap();
    pair.start_server();
    // The run before may answer still, and has nothing new to note.
    let noted = wait_until("a note of both fleets", || {
        pair.order(&["adapters"]).exits(0);
        let noted: Value = serde_json::from_slice(&std::fs::read(&seen).unwrap()).unwrap();
        Some(noted).filter(|noted| noted.as_object().unwrap().len() == 2)
    });
    assert_eq!(noted["UANOTHERFLEET"], 4000);
    pair.daemon = None;
    std::fs::write(&seen, "{").unwrap();
    pair.start_daemon();
    let refused = wait_until("an answer of the next run", || {
        Some(pair.order(&["adapters"])).filter(|told| told.code == 13)
    });
    assert!(refused.stderr.contains("which operator list is the newest"), "{}", refused.stderr);
    assert!(refused.stderr.contains("operators-seen.json"), "{}", refused.stderr);
}
