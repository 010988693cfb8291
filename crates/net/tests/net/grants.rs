//! Grants: an order is carried out once, soon, in the run that granted it, and as it was granted.

use std::process::Stdio;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use model::fleet_order::{OrderAnswer, OrderArguments, OrderAsk, OrderReply};
use net::fleet_files::{OPERATOR_LINK_SEED, OPERATOR_SEAL_SEED};
use net::nats::{HubConnection, HubError, HubLogin, connect_hub};
use net::seal::{SEAL_BYTES, SealKind, seal_json};
use nkeys::KeyPair;
use serde_json::json;
use testkit::pause::Pauses;
use testkit::run::ran;

use super::fleet_kit::{
    block_on, fleet_run, link_pid, link_state, member_of, signal_process, with_engine,
};
use super::kit::{ostler, wait_until};
use super::orders::Pair;

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
fn row_42_a_member_that_hangs_is_not_waited_for_and_does_nothing_later() {
    let pair = Pair::with("reap");
    pair.leave_something_to_collect();
    let link = link_pid(pair.daemon());
    signal_process(link, "-STOP");
    let asked = Instant::now();
    let mut command = with_engine(ostler(&pair.laptop));
    // Prepared only: whoever gives up has asked for nothing.
    let ended = ran(command.args(pair.collect()));
    signal_process(link, "-CONT");
    assert_eq!(ended.code, 6, "{ended:?}");
    // Less than a commit may take.
    assert!(asked.elapsed() < Duration::from_secs(45), "{:?}", asked.elapsed());
    pair.hub.wait_for_state("server", "reachable");
    assert_eq!(pair.plan(&pair.server, &[])["count"], 1, "nothing was done late");
}

#[test]
fn row_42_a_renewal_that_a_hung_hub_stores_late_is_known_as_our_own() {
    let pair = Pair::with("read");
    pair.hub.signal_engine("-STOP");
    // A renewal waits for its answer for four seconds, and is given up.
    wait_until("a renewal that was given up", || {
        Some(()).filter(|()| link_state(&pair.server) != "publishing")
    });
    pair.hub.signal_engine("-CONT");
    wait_until("the next renewal", || {
        let state = link_state(&pair.server);
        assert!(!state.contains("somebody else"), "{state}");
        Some(()).filter(|()| state == "publishing")
    });
    // It held its lease all the time: whoever asks now is answered, and does not wait for nobody.
    pair.order(&["adapters"]).exits(0);
}

#[test]
fn row_66_a_grant_of_an_earlier_run_is_refused() {
    let mut pair = Pair::with("reap");
    let id = pair.leave_something_to_collect();
    let (child, pauses) = order_held_at(&pair, "fleet.order.granted");
    pair.daemon = None;
    pair.start_server();
    pauses.release("fleet.order.granted");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(13), "{}", String::from_utf8_lossy(&output.stdout));
    fleet_run(&pair.server, &["inspect", &id]).exits(0);
}

#[test]
fn row_67_a_plan_that_changed_is_not_carried_out() {
    let pair = Pair::with("reap");
    pair.leave_something_to_collect();
    let seen = pair.plan(&pair.laptop, &["--host", "server"]);
    assert_eq!(seen["plan"], pair.plan(&pair.server, &[])["plan"]);
    // Between what somebody saw and what is ordered.
    pair.leave_something_to_collect();
    let mut line = pair.collect();
    let plan = seen["plan"].as_str().unwrap().to_owned();
    line.extend(["--plan", &plan]);
    assert_eq!(fleet_run(&pair.laptop, &line).exits(13).error(), "REFUSED");
    assert_eq!(pair.plan(&pair.server, &[])["count"], 2);
    // Between the grant and the commit.
    let (child, pauses) = order_held_at(&pair, "fleet.order.granted");
    pair.leave_something_to_collect();
    pauses.release("fleet.order.granted");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(13), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(pair.plan(&pair.server, &[])["count"], 3);
    let done = fleet_run(&pair.laptop, &pair.collect()).exits(0).result();
    assert_eq!((&done["count"], &done["applied"]), (&json!(3), &json!(true)));
}

/// An operator that says the same again, as a network that repeats would.
struct Repeater {
    hub: HubConnection,
    seal: KeyPair,
    ask: OrderAsk,
}

impl Repeater {
    async fn connect(pair: &Pair) -> Self {
        let ((dir, file), (_, server)) = (member_of(&pair.laptop), member_of(&pair.server));
        let login = HubLogin {
            url: &file.url,
            ca: None,
            key: &dir.need_key(OPERATOR_LINK_SEED).unwrap(),
            inbox: "laptop",
            timeout: super::kit::PATIENCE,
            stays: false,
        };
        let hub = connect_hub(&login).await.unwrap();
        let mut args = OrderArguments::default();
        args.options.insert("yes".to_owned(), Vec::new());
        args.options.insert("older-than".to_owned(), vec!["0s".to_owned()]);
        let ask = OrderAsk {
            v: 1,
            id: "01KREPEATED".to_owned(),
            to: server.id,
            from: "laptop".to_owned(),
            level: model::wire::FleetLevel::Reap,
            verb: "gc".to_owned(),
            args,
            json: true,
            grant: None,
            cursor: None,
        };
        Self { hub, seal: dir.need_key(OPERATOR_SEAL_SEED).unwrap(), ask }
    }

    async fn send(&mut self) -> OrderReply {
        self.try_send().await.unwrap()
    }

    async fn try_send(&mut self) -> Result<OrderReply, HubError> {
        let subject = format!("ostler.v1.ask.{}.reap.laptop.gc", self.ask.to);
        let sealed = seal_json(&self.seal, SealKind::Ask, &self.ask).unwrap();
        let answer = self.hub.ask(&subject, HeaderMap::new(), sealed.into()).await?;
        let answer: OrderAnswer = serde_json::from_slice(&answer.payload[SEAL_BYTES..]).unwrap();
        Ok(answer.reply)
    }

    async fn prepare(&mut self) {
        self.ask.grant = None;
        let OrderReply::Prepared { grant, .. } = self.send().await else { panic!("no grant") };
        self.ask.grant = Some(grant);
    }
}

/// Longer than a grant lasts by the member's own clock.
const TOO_LATE: Duration = Duration::from_secs(32);

/// The operator keeps its connection alive meanwhile: the hub gives up whoever does not answer it.
#[test]
fn row_42_an_order_that_arrives_late_is_refused() {
    let pair = Pair::with("reap");
    pair.leave_something_to_collect();
    block_on(async {
        let mut operator = Repeater::connect(&pair).await;
        operator.prepare().await;
        tokio::time::sleep(TOO_LATE).await;
        let late = operator.send().await;
        assert!(matches!(late, OrderReply::Refused { .. }), "{late:?}");
    });
    assert_eq!(pair.plan(&pair.server, &[])["count"], 1, "nothing was done late");
}

/// What becomes of the order depends on who gave the hub up in the meantime: it reaches nobody, its answer does not
/// come, or it is refused. It is never carried out.
#[test]
fn row_42_an_order_that_hung_in_the_hub_is_not_carried_out() {
    let pair = Pair::with("reap");
    pair.leave_something_to_collect();
    block_on(async {
        let mut operator = Repeater::connect(&pair).await;
        operator.prepare().await;
        pair.hub.signal_engine("-STOP");
        let healing = async {
            tokio::time::sleep(TOO_LATE).await;
            pair.hub.signal_engine("-CONT");
        };
        let (answer, ()) = tokio::join!(operator.try_send(), healing);
        assert!(!matches!(answer, Ok(OrderReply::Done { .. })), "{answer:?}");
    });
    pair.hub.wait_for_state("server", "reachable");
    wait_until("a member that answers", || {
        Some(()).filter(|()| pair.order(&["adapters"]).code == 0)
    });
    assert_eq!(pair.plan(&pair.server, &[])["count"], 1, "nothing was done late");
}

#[test]
fn row_63_a_commit_that_is_repeated_is_done_once() {
    let pair = Pair::with("reap");
    pair.leave_something_to_collect();
    let refused = |reply: &OrderReply| matches!(reply, OrderReply::Refused { .. });
    block_on(async {
        let mut repeater = Repeater::connect(&pair).await;
        repeater.prepare().await;
        let first = repeater.send().await;
        assert!(matches!(first, OrderReply::Done { exit: 0, .. }), "{first:?}");
        pair.leave_something_to_collect();
        for _ in 0..2 {
            let again = repeater.send().await;
            assert!(refused(&again), "{again:?}");
        }
        // A grant is for the arguments that it was given for.
        repeater.ask.id = "01KOTHER".to_owned();
        repeater.prepare().await;
        repeater.ask.args.options.insert("include".to_owned(), vec!["temps".to_owned()]);
        let other = repeater.send().await;
        assert!(refused(&other), "{other:?}");
    });
    assert_eq!(pair.plan(&pair.server, &[])["count"], 1, "what came later is still there");
}
