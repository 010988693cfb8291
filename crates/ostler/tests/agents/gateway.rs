//! Rows 74 to 78: who deletes an agent when the gateway runs, does not run, or does something wrong.

use serde_json::json;
use testkit::gateway::{FakeGateway, Manner};

use super::stage::{HOUSE, Running, Stage};

const DELETE: &str = "agents delete ops --force --json --timeout 2s";

fn with(manner: Manner) -> (Stage, FakeGateway) {
    let gateway = FakeGateway::start(manner);
    (Stage::with_gateway(HOUSE, gateway.port).furnished(), gateway)
}

#[test]
fn row_74_a_closed_port_and_the_proof_that_nobody_is_there_mean_that_it_is_done_here() {
    let stage = Stage::house();
    assert_eq!(stage.run(DELETE).exits(0).result()["transport"], "local");
    assert!(!stage.has("ops-ws"));
}

#[test]
fn row_74_a_closed_port_is_no_proof_while_a_process_of_openclaws_is_there() {
    let stage = Stage::house();
    let gateway = Running::gateway(stage.home.path());
    let (code, message) = stage.unchanged(DELETE).exits(13).error();
    assert_eq!(code, "REFUSED");
    assert!(message.contains(&gateway.pid().to_string()), "{message}");
    drop(gateway);
    stage.run(DELETE).exits(0);
}

#[test]
fn a_gateway_that_runs_does_it() {
    let (stage, gateway) = with(Manner::Answers(json!({ "ok": true, "removedBindings": 3 })));
    let result = stage.unchanged(DELETE).exits(0).result();
    assert_eq!(result["transport"], "gateway");
    assert_eq!(result["removedBindings"], 3);
    assert!(result.get("receipt").is_none());
    assert_eq!(gateway.methods(), ["connect", "agents.delete"]);
    let params = json!({ "agentId": "ops", "deleteFiles": true });
    assert_eq!(gateway.asked()[1]["params"], params);
}

#[test]
fn p10_what_the_gateway_could_not_do_is_told_and_in_the_exit_code() {
    let answer = json!({ "ok": true, "removedBindings": 0, "removed": ["/w"],
        "failed": [{ "path": "/home/u/ops", "reason": "outside of the home" }], "purgeFailed": true });
    let (stage, _gateway) = with(Manner::Answers(answer));
    let ran = stage.unchanged(DELETE).exits(8);
    let result = ran.result();
    assert_eq!(result["failed"], 2);
    let items = result["items"].to_string();
    assert!(items.contains("/home/u/ops") && items.contains("outside of the home"), "{items}");
    assert!(items.contains("taken out of the store"), "{items}");
}

#[test]
fn row_75_what_was_asked_may_have_been_applied_and_nothing_is_done_here() {
    for manner in [Manner::Hangs, Manner::Drops, Manner::Babbles] {
        let (stage, gateway) = with(manner.clone());
        let (code, message) = stage.unchanged(DELETE).exits(14).error();
        assert_eq!(code, "MAY_HAVE_APPLIED", "{manner:?}");
        assert!(message.contains("may have been applied"), "{message}");
        assert_eq!(gateway.methods().len(), 2, "{manner:?}: asked once");
    }
}

#[test]
fn row_75_a_gateway_that_does_not_let_us_in_is_not_gone_around() {
    let gateway = FakeGateway::start(Manner::Answers(json!({})));
    let house = HOUSE.replace(
        "GATEWAY",
        &format!("{{ port: {}, auth: {{ token: 'bad-secret' }} }}", gateway.port),
    );
    let stage = Stage::new(&house).furnished();
    let ran = stage.unchanged(DELETE).exits(13);
    let (code, message) = ran.error();
    assert_eq!(code, "REFUSED");
    assert!(message.contains("did not let us in"), "{message}");
    assert!(!format!("{ran:?}").contains("bad-secret"), "secrets are not told");
}

#[test]
fn row_76_an_error_of_the_gateway_is_ours() {
    for manner in [Manner::Fails("INVALID_REQUEST", "agent not found"), Manner::OffersNothing] {
        let (stage, _gateway) = with(manner.clone());
        let ran = stage.unchanged(DELETE).exits(13);
        assert_eq!(ran.error().0, "REFUSED", "{manner:?}");
    }
    // One that failed on its way may have come some way.
    let (stage, _gateway) = with(Manner::Fails("UNAVAILABLE", "disk full"));
    let (code, message) = stage.unchanged(DELETE).exits(14).error();
    assert_eq!(code, "MAY_HAVE_APPLIED");
    assert!(message.contains("disk full"), "{message}");
}

#[test]
fn what_listens_there_and_is_no_gateway_is_not_gone_around() {
    for manner in [Manner::Silent, Manner::Http(404)] {
        let (stage, _gateway) = with(manner);
        assert_eq!(stage.unchanged(DELETE).exits(13).error().0, "REFUSED");
    }
}

#[test]
fn row_77_a_gateway_elsewhere_that_is_down_is_never_replaced_by_us() {
    for remote in [
        "{ mode: 'remote', remote: { url: 'wss://far.example' } }",
        "{ mode: 'remote', remote: { url: 'ws://127.0.0.1:1' } }",
        "{ mode: 'remote' }",
    ] {
        let stage = Stage::new(&HOUSE.replace("GATEWAY", remote)).furnished();
        assert_eq!(stage.unchanged(DELETE).exits(13).error().0, "REFUSED", "{remote}");
    }
    let stage = Stage::house();
    let before = stage.files();
    let mut command = stage.command(DELETE);
    let ran = super::stage::ran(command.env("OPENCLAW_GATEWAY_URL", "ws://127.0.0.1:1"));
    assert_eq!(ran.exits(13).error().0, "REFUSED");
    assert_eq!(stage.files(), before);
}

#[test]
fn row_78_a_preview_does_not_go_near_the_gateway() {
    let (stage, gateway) = with(Manner::Answers(json!({})));
    stage.unchanged("agents delete ops --dry-run --json").exits(0);
    assert_eq!(gateway.connections(), 0);
}
