//! Orders from one machine to another: levels, grants, outcomes, and what nobody does twice.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::home::TempHome;
use testkit::pause::Pauses;
use testkit::run::{Ran, ran};

use super::fleet_kit::{
    TestHub, fleet_run, link_pid, publish_page, signal_process, start_member, wait_for_link,
    with_engine,
};
use super::kit::{TestDaemon, ostler, wait_until};

/// A server that lets operators do something, and a laptop that may do everything.
struct Pair {
    hub: TestHub,
    server: TempHome,
    laptop: TempHome,
    daemon: Option<TestDaemon>,
    pauses: Pauses,
}

impl Pair {
    fn with(allow: &str) -> Self {
        let hub = TestHub::start(&["--plain"]);
        let (server, laptop) = (hub.join("server", "none"), hub.join("laptop", "reap"));
        set_allow(&server, allow);
        let mut pair = Self { hub, server, laptop, daemon: None, pauses: Pauses::new() };
        pair.start_server();
        pair
    }

    fn start_server(&mut self) {
        let mut command = with_engine(ostler(&self.server));
        self.pauses.apply(&mut command);
        self.daemon = Some(TestDaemon::with(command));
        self.hub.wait_for_state("server", "reachable");
        // A lease of the run before may still be fresh.
        wait_until("a member that answers", || {
            Some(()).filter(|()| self.order(&["adapters"]).code == 0)
        });
    }

    fn daemon(&self) -> &TestDaemon {
        self.daemon.as_ref().unwrap()
    }

    /// `ostler --host server …` on the laptop.
    #[track_caller]
    fn order(&self, words: &[&str]) -> Ran {
        let line: Vec<&str> = ["--host", "server"].iter().chain(words).copied().collect();
        fleet_run(&self.laptop, &line)
    }

    /// A terminal that is over, which a collection would take.
    fn leave_something_to_collect(&self) -> String {
        let made = fleet_run(&self.server, &["--json", "create", "--", "true"]).exits(0).result();
        let id = made["sessionId"].as_str().unwrap().to_owned();
        let gone = ["--json", "wait", &id, "--exit", "--timeout", "10000"];
        fleet_run(&self.server, &gone).exits(0);
        id
    }

    fn plan(&self, home: &TempHome, words: &[&str]) -> Value {
        let line: Vec<&str> =
            ["--json", "gc", "--older-than", "0s"].iter().chain(words).copied().collect();
        fleet_run(home, &line).result()
    }

    fn collect(&self) -> Vec<&'static str> {
        vec!["--json", "--host", "server", "gc", "--older-than", "0s", "--yes"]
    }
}

fn set_allow(home: &TempHome, allow: &str) {
    let text = format!("[fleet]\nrenew = \"1s\"\nlook = \"1s\"\nallow = \"{allow}\"\n");
    home.write(".config/ostler/config.toml", &text);
}

fn order_in(home: &TempHome) -> Value {
    let journal = std::fs::read(home.join(".local/state/ostler/fleet/orders.json")).unwrap();
    let journal: Value = serde_json::from_slice(&journal).unwrap();
    journal["orders"].as_array().unwrap().last().unwrap().clone()
}

/// What changes from call to call.
fn steady(mut envelope: Value) -> Value {
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
fn row_59_each_answer_equals_the_local_commands() {
    let pair = Pair::with("read");
    let made = fleet_run(&pair.server, &["--json", "create", "--name", "build", "--", "cat"]);
    let id = made.exits(0).result()["sessionId"].as_str().unwrap().to_owned();
    let lines: &[&[&str]] = &[
        &["show", "build"],
        &["why", &id],
        &["who", &id],
        &["inspect", &id],
        &["adapters"],
        &["du"],
        &["trash", "ls"],
        &["snapshot", &id],
        &["gc"],
        &["logs", &id],
        &["peek", &id],
        &["search", "no-such-word"],
        &["usage"],
        &["access", "list"],
        &["outcome", "01KABCDEFGHJKMNPQRSTVWXYZ0"],
        &["wait", &id, "--idle-ms", "10"],
    ];
    for line in lines {
        let with_json: Vec<&str> = ["--json"].iter().chain(*line).copied().collect();
        let (afar, near) = (pair.order(&with_json), fleet_run(&pair.server, &with_json));
        assert_eq!(afar.code, near.code, "{line:?}: {afar:?}");
        assert_eq!(steady(afar.envelope()), steady(near.envelope()), "{line:?}");
    }
    // The same for people, and by an address instead of the option.
    let afar = fleet_run(&pair.laptop, &["show", "server/build"]).exits(0);
    assert!(afar.stdout.contains(&id[..8]) || afar.stdout.contains("build"), "{}", afar.stdout);
    let missing = pair.order(&["--json", "show", "no-such-session"]).exits(3);
    assert_eq!(missing.error(), "SESSION_NOT_FOUND");
    let missing = pair.order(&["show", "no-such-session"]).exits(3);
    assert!(missing.stderr.contains("server: "), "{}", missing.stderr);
    fleet_run(&pair.laptop, &["show", "nowhere/build"]).exits(3);
    pair.order(&["setup"]).exits(2);
    pair.order(&["prompt", &id, "x", "--file", "/etc/passwd"]).exits(2);
    fleet_run(&pair.server, &["destroy", "build"]).exits(0);
}

#[test]
fn row_60_by_default_nothing_but_reading_is_allowed_and_nothing_changes() {
    let pair = Pair::with("read");
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

#[test]
fn rows_61_and_62_an_older_list_and_a_removed_operator_are_refused() {
    let pair = Pair::with("reap");
    pair.order(&["--json", "adapters"]).exits(0);
    let hub_home = pair.hub.home.join(".local/state/ostler");
    let older = net::hub::Hub::open(&hub_home).unwrap();
    fleet_run(&pair.hub.home, &["fleet", "operator", "laptop", "--level", "drive"]).exits(0);
    pair.order(&["--json", "adapters"]).exits(0);
    // The hub brings back the list in which the laptop might do everything.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut admin = older.connect_admin().await.unwrap();
        older.publish_meta(&mut admin).await.unwrap();
    });
    let refused = pair.order(&["adapters"]).exits(13);
    assert!(refused.stderr.contains("older operator list"), "{}", refused.stderr);
    // One whose time is over.
    let mut newer = net::hub::Hub::open(&hub_home).unwrap();
    newer.file.operators_version += 1;
    let laptop = newer.file.operators.iter_mut().find(|one| one.name == "laptop").unwrap();
    laptop.not_after = Some(model::time::Time::from_millis(1));
    newer.save().unwrap();
    runtime.block_on(async {
        let mut admin = newer.connect_admin().await.unwrap();
        newer.publish_meta(&mut admin).await.unwrap();
    });
    let refused = pair.order(&["adapters"]).exits(13);
    assert!(refused.stderr.contains("was an operator until"), "{}", refused.stderr);
    fleet_run(&pair.hub.home, &["fleet", "operator", "laptop", "--level", "none"]).exits(0);
    let refused = pair.order(&["adapters"]);
    assert_ne!(refused.code, 0, "{refused:?}");
}

#[test]
fn rows_67_and_70_a_collection_from_afar_is_bound_to_its_plan_and_can_be_undone() {
    let pair = Pair::with("reap");
    let id = pair.leave_something_to_collect();
    let seen = pair.plan(&pair.laptop, &["--host", "server"]);
    assert_eq!(seen["plan"], pair.plan(&pair.server, &[])["plan"]);
    let other = pair.leave_something_to_collect();
    let mut line = pair.collect();
    let plan = seen["plan"].as_str().unwrap().to_owned();
    line.extend(["--plan", &plan]);
    assert_eq!(fleet_run(&pair.laptop, &line).exits(13).error(), "REFUSED");
    assert_eq!(pair.plan(&pair.server, &[])["count"], 2);
    let done = fleet_run(&pair.laptop, &pair.collect()).exits(0).result();
    assert_eq!((&done["count"], &done["applied"]), (&json!(2), &json!(true)));
    let receipt = done["receipt"].as_str().unwrap();
    let order = order_in(&pair.server);
    assert_eq!((&order["state"], &order["operator"]), (&json!("applied"), &json!("laptop")));
    assert_eq!(order["receipt"], receipt);
    fleet_run(&pair.server, &["inspect", &id]).exits(3);
    pair.order(&["undo", receipt]).exits(0);
    for id in [&id, &other] {
        fleet_run(&pair.server, &["inspect", id]).exits(0);
    }
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
fn rows_63_and_66_a_grant_is_for_one_use_and_one_run() {
    let mut pair = Pair::with("reap");
    let id = pair.leave_something_to_collect();
    // The grant was given; then the member starts anew.
    let pauses = Pauses::new();
    pauses.arm("fleet.order.granted");
    let mut command = with_engine(ostler(&pair.laptop));
    pauses.apply(&mut command);
    let child = command.args(pair.collect()).stdout(Stdio::piped()).spawn().unwrap();
    pauses.wait("fleet.order.granted");
    pair.daemon = None;
    pair.start_server();
    pauses.release("fleet.order.granted");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(13), "{}", String::from_utf8_lossy(&output.stdout));
    fleet_run(&pair.server, &["inspect", &id]).exits(0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(repeat_commit(&pair));
    assert_eq!(pair.plan(&pair.server, &[])["count"], 0);
}

/// Prepares a collection and carries it out three times, as a network that repeats would.
async fn repeat_commit(pair: &Pair) {
    use model::fleet_order::{OrderArguments, OrderAsk, OrderReply};
    use net::fleet_files::{FleetDir, MemberFile, OPERATOR_LINK_SEED, OPERATOR_SEAL_SEED};

    let home = pair.laptop.join(".local/state/ostler");
    let dir = FleetDir::open(&home, "fleet").unwrap().unwrap();
    let file: MemberFile = dir.read_json("member.json").unwrap().unwrap();
    let key = dir.need_key(OPERATOR_LINK_SEED).unwrap();
    let seal = dir.need_key(OPERATOR_SEAL_SEED).unwrap();
    let server: MemberFile = {
        let home = pair.server.join(".local/state/ostler");
        FleetDir::open(&home, "fleet").unwrap().unwrap().read_json("member.json").unwrap().unwrap()
    };
    let mut hub = net::nats::connect_hub(&net::nats::HubLogin {
        url: &file.url,
        ca: None,
        key: &key,
        inbox: "laptop",
        timeout: Duration::from_secs(20),
        stays: false,
    })
    .await
    .unwrap();
    let mut args = OrderArguments::default();
    args.options.insert("yes".to_owned(), Vec::new());
    args.options.insert("older-than".to_owned(), vec!["0s".to_owned()]);
    let mut ask = OrderAsk {
        v: 1,
        id: "01KREPEATED".to_owned(),
        to: server.id.clone(),
        from: "laptop".to_owned(),
        level: model::wire::FleetLevel::Reap,
        verb: "gc".to_owned(),
        args,
        json: true,
        grant: None,
        cursor: None,
    };
    let subject = format!("ostler.v1.ask.{}.reap.laptop.gc", server.id);
    let mut replies = Vec::new();
    for _ in 0..4 {
        let sealed = net::seal::seal_json(&seal, net::seal::SealKind::Ask, &ask).unwrap();
        let answer = hub.ask(&subject, async_nats::HeaderMap::new(), sealed.into()).await.unwrap();
        let answer: model::fleet_order::OrderAnswer =
            serde_json::from_slice(&answer.payload[net::seal::SEAL_BYTES..]).unwrap();
        if let OrderReply::Prepared { grant, .. } = &answer.reply {
            ask.grant = Some(grant.clone());
        }
        replies.push(answer.reply);
    }
    assert!(matches!(replies[1], OrderReply::Done { exit: 0, .. }), "{replies:?}");
    let refused = |reply: &OrderReply| matches!(reply, OrderReply::Refused { .. });
    assert!(replies[2..].iter().all(refused), "{replies:?}");
    // Another's arguments with a grant of its own.
    ask.grant = None;
    ask.id = "01KOTHER".to_owned();
    let mut send = async |ask: &OrderAsk| {
        let sealed = net::seal::seal_json(&seal, net::seal::SealKind::Ask, ask).unwrap();
        let answer = hub.ask(&subject, async_nats::HeaderMap::new(), sealed.into()).await.unwrap();
        let answer: model::fleet_order::OrderAnswer =
            serde_json::from_slice(&answer.payload[net::seal::SEAL_BYTES..]).unwrap();
        answer.reply
    };
    let OrderReply::Prepared { grant, .. } = send(&ask).await else { panic!("no grant") };
    ask.grant = Some(grant);
    ask.args.options.insert("include".to_owned(), vec!["temps".to_owned()]);
    assert!(refused(&send(&ask).await));
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

/// A collection that the laptop orders and holds at a named point.
fn order_held_at(pair: &Pair, point: &str) -> (std::process::Child, Pauses) {
    let pauses = Pauses::new();
    pauses.arm(point);
    let mut command = with_engine(ostler(&pair.laptop));
    pauses.apply(&mut command);
    let child = command.args(pair.collect()).stdout(Stdio::piped()).spawn().unwrap();
    pauses.wait(point);
    (child, pauses)
}

#[test]
fn row_42_what_is_asked_while_the_hub_hangs_grants_nothing_to_anybody() {
    let pair = Pair::with("reap");
    pair.leave_something_to_collect();
    let (child, pauses) = order_held_at(&pair, "fleet.order.ready");
    pair.hub.signal_engine("-STOP");
    pauses.release("fleet.order.ready");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{}", String::from_utf8_lossy(&output.stdout));
    // Now it arrives, and whoever asked has given up.
    pair.hub.signal_engine("-CONT");
    pair.hub.wait_for_state("server", "reachable");
    wait_until("a member that answers", || {
        Some(()).filter(|()| pair.order(&["adapters"]).code == 0)
    });
    assert_eq!(pair.plan(&pair.server, &[])["count"], 1, "nothing was done late");
}

#[test]
fn row_42_an_order_that_arrives_late_is_refused() {
    let late = Pair::with("reap");
    late.leave_something_to_collect();
    let hung = Pair::with("reap");
    hung.leave_something_to_collect();
    let (late_child, late_pauses) = order_held_at(&late, "fleet.order.granted");
    let (hung_child, hung_pauses) = order_held_at(&hung, "fleet.order.granted");
    hung.hub.signal_engine("-STOP");
    hung_pauses.release("fleet.order.granted");
    // Longer than a grant lasts by the member's own clock.
    std::thread::sleep(Duration::from_secs(32));
    late_pauses.release("fleet.order.granted");
    hung.hub.signal_engine("-CONT");
    let output = late_child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(13), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(late.plan(&late.server, &[])["count"], 1, "nothing was done late");
    // Links may have given the hub up in the meantime: then the order reached nobody, or its answer did
    // not come. It is never told as done.
    let output = hung_child.wait_with_output().unwrap();
    assert_ne!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(hung.plan(&hung.server, &[])["count"], 1, "nothing was done late");
}

#[test]
fn row_42_a_member_that_hangs_is_not_waited_for_and_does_nothing_later() {
    let pair = Pair::with("reap");
    pair.leave_something_to_collect();
    let link = link_pid(pair.daemon());
    signal_process(link, "-STOP");
    let asked = std::time::Instant::now();
    let mut command = with_engine(ostler(&pair.laptop));
    // Prepared only: whoever gives up has asked for nothing.
    let ended = ran(command.args(pair.collect()));
    signal_process(link, "-CONT");
    assert_eq!(ended.code, 6, "{ended:?}");
    assert!(asked.elapsed() < Duration::from_secs(20));
    pair.hub.wait_for_state("server", "reachable");
    assert_eq!(pair.plan(&pair.server, &[])["count"], 1, "nothing was done late");
}

#[test]
fn row_69_one_member_that_fails_stops_nobody_else() {
    let pair = Pair::with("reap");
    pair.leave_something_to_collect();
    let third = pair.hub.join("third", "none");
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
    let text = "[fleet]\nrenew = \"1s\"\nagents_may = \"reap\"\n";
    pair.laptop.write(".config/ostler/config.toml", text);
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
