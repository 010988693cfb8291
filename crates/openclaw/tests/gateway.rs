//! The gateway of OpenClaw: what is made of everything that it may do wrong, and the proof that it
//! does not run, with real processes.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use adapters::EnvLookup;
use ostler_openclaw::config::OpenClawConfig;
use ostler_openclaw::gateway::{
    GatewayCallError, GatewayError, GatewayOwner, GatewayRoute, dispatch_change, find_owner,
    prove_unowned,
};
use serde_json::{Value, json};
use sys::machine::Machine;
use testkit::gateway::{FakeGateway, Manner, TOKEN, closed_port};
use testkit::home::TempHome;

/// Long enough for a busy machine, short enough for a gateway that never answers.
const PATIENCE: Duration = Duration::from_millis(1500);

/// A home of OpenClaw's with a temporary directory of its own.
/// This machine; it needs no home of its own here.
fn machine() -> Machine {
    Machine::with_home("/nowhere".into())
}

struct Stage {
    home: TempHome,
}

impl Stage {
    fn new(gateway: &str) -> Self {
        let home = TempHome::new();
        home.write(".openclaw/openclaw.json", format!("{{ gateway: {gateway} }}"));
        home.directory("tmp");
        Self { home }
    }

    fn on(port: u16) -> Self {
        Self::new(&format!("{{ port: {port}, auth: {{ token: '{TOKEN}' }} }}"))
    }

    fn config(&self) -> OpenClawConfig {
        let variables: Vec<(&str, OsString)> =
            vec![("HOME", self.home.path().into()), ("TMPDIR", self.home.join("tmp").into())];
        let lookup = |name: &str| {
            let found = variables.iter().find(|(one, _)| *one == name);
            found.map(|(_, value)| value.clone())
        };
        OpenClawConfig::load(&EnvLookup::new(&lookup)).unwrap()
    }

    fn ask(&self) -> Result<GatewayRoute, GatewayError> {
        let params = json!({ "agentId": "ops", "deleteFiles": true });
        dispatch_change(&self.config(), "agents.delete", &params, PATIENCE, &machine())
    }

    /// A gateway's lock, where versions up to 2026.7 put it.
    fn lock(&self, payload: &Value) {
        let config = self.home.join(".openclaw/openclaw.json");
        self.lock_as(&lock_name(&config), payload);
    }

    fn lock_as(&self, name: &str, payload: &Value) {
        let directory = format!("tmp/openclaw-{}", sys::proc::current_observer().uid);
        self.home.write(format!("{directory}/{name}"), payload.to_string());
    }
}

fn lock_name(config: &Path) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(config.to_str().unwrap());
    let hex: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("gateway.{hex}.lock")
}

/// A process that looks like OpenClaw's, in an environment.
struct Running(Child);

impl Running {
    fn openclaw(arguments: &[&str], home: &Path) -> Self {
        // It waits for its input, and never gets to what stands behind it.
        let mut command = Command::new("/bin/cat");
        command.arg0("openclaw-gateway").args(["--", "-"]).args(arguments);
        command.env_clear().env("HOME", home).stdin(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn row_74_a_closed_port_and_nobody_there_leave_it_to_us() {
    let stage = Stage::on(closed_port());
    let asked = stage.ask();
    assert!(matches!(asked, Ok(GatewayRoute::Local(_))), "{asked:?}");
}

#[test]
fn a_gateway_that_answers_does_it() {
    let gateway = FakeGateway::start(Manner::Answers(json!({ "removedBindings": 2 })));
    let answer = Stage::on(gateway.port).ask().unwrap();
    let GatewayRoute::Gateway(answer) = answer else { panic!("{answer:?}") };
    assert_eq!(answer, json!({ "removedBindings": 2 }));
    assert_eq!(gateway.methods(), ["connect", "agents.delete"]);
    let [connect, ask] = &gateway.asked()[..] else { panic!() };
    assert_eq!(connect["params"]["scopes"], json!(["operator.admin"]));
    assert_eq!(ask["params"], json!({ "agentId": "ops", "deleteFiles": true }));
}

/// What a gateway does, what is made of it, and what the words are.
fn outcome(manner: Manner) -> (GatewayCallError, FakeGateway) {
    let gateway = FakeGateway::start(manner);
    let error = match Stage::on(gateway.port).ask() {
        Err(GatewayError::Call(error)) => error,
        other => panic!("{other:?}"),
    };
    (error, gateway)
}

#[test]
fn row_75_what_goes_wrong_after_the_question_may_have_been_applied() {
    for manner in [Manner::Hangs, Manner::Drops, Manner::Babbles] {
        let (error, gateway) = outcome(manner.clone());
        assert!(matches!(error, GatewayCallError::MayHaveApplied(_)), "{manner:?}: {error}");
        assert!(error.to_string().contains("may have been applied"));
        assert_eq!(gateway.methods(), ["connect", "agents.delete"], "{manner:?}: asked once");
    }
}

#[test]
fn row_75_a_gateway_that_does_not_let_us_in_is_not_gone_around() {
    let gateway = FakeGateway::start(Manner::Answers(Value::Null));
    let stage = Stage::new(&format!("{{ port: {}, auth: {{ token: 'wrong' }} }}", gateway.port));
    let error = stage.ask().unwrap_err().to_string();
    assert!(error.contains("token mismatch"), "{error}");
    assert!(!error.contains("wrong"), "the secret is not told: {error}");
    assert_eq!(gateway.methods(), ["connect"]);
    let (error, _) = outcome(Manner::Closes(1008, "unauthorized"));
    assert!(matches!(error, GatewayCallError::Rejected { .. }), "{error}");
}

#[test]
fn row_76_an_error_and_an_unknown_method_are_told() {
    let (error, _) = outcome(Manner::Fails("INVALID_REQUEST", "agent \"ops\" not found"));
    let GatewayCallError::Refused { code, message } = &error else { panic!("{error}") };
    assert_eq!((&code[..], &message[..]), ("INVALID_REQUEST", "agent \"ops\" not found"));
    let (error, gateway) = outcome(Manner::OffersNothing);
    assert!(error.to_string().contains("does not offer `agents.delete`"), "{error}");
    assert_eq!(gateway.methods(), ["connect"], "nothing was asked");
}

#[test]
fn what_listens_and_is_no_gateway_is_not_gone_around() {
    for manner in [Manner::Silent, Manner::Http(404), Manner::Closes(1011, "starting")] {
        let (error, gateway) = outcome(manner.clone());
        assert!(matches!(error, GatewayCallError::NotAsked { .. }), "{manner:?}: {error}");
        assert_eq!(gateway.asked(), Vec::<Value>::new());
    }
}

#[test]
fn row_77_a_gateway_elsewhere_is_never_replaced_by_us() {
    let port = closed_port();
    for remote in [
        "{ mode: 'remote', remote: { url: 'wss://user:secret@far.example/?token=secret' } }",
        "{ mode: 'remote', remote: { url: 'ws://192.0.2.1:18789' } }",
        "{ mode: 'remote' }",
        &format!("{{ mode: 'remote', remote: {{ url: 'ws://127.0.0.1:{port}' }} }}"),
    ] {
        let error = match Stage::new(remote).ask() {
            Err(GatewayError::Call(error)) => error,
            other => panic!("{remote}: {other:?}"),
        };
        let told = error.to_string();
        let right = matches!(
            error,
            GatewayCallError::Elsewhere { .. } | GatewayCallError::NotRunning { .. }
        );
        assert!(right && !told.contains("secret"), "{told}");
    }
    let gateway = FakeGateway::start(Manner::Answers(json!({})));
    let url = format!("ws://127.0.0.1:{}/", gateway.port);
    let remote = format!("{{ mode: 'remote', remote: {{ url: '{url}', token: '{TOKEN}' }} }}");
    assert!(matches!(Stage::new(&remote).ask(), Ok(GatewayRoute::Gateway(_))));
}

#[test]
fn a_lock_of_a_live_gateway_refuses_and_names_it() {
    let stage = Stage::on(closed_port());
    let other = Command::new("/bin/sleep").arg("60").spawn().unwrap();
    let other = Running(other);
    let who = sys::proc::identify_process(other.pid()).unwrap();
    let payload = |pid: u32, start: Option<u64>| {
        let config = stage.home.join(".openclaw/openclaw.json");
        json!({ "pid": pid, "startTime": start, "createdAt": sys::clock::now().to_string(), "configPath": config })
    };
    stage.lock(&payload(other.pid(), who.start));
    let found = find_owner(&stage.config(), &machine());
    let GatewayOwner::Live { who: found, why } = found else { panic!("{found:?}") };
    assert_eq!(found.pid, Some(other.pid()));
    assert!(why.contains(&format!("process {}", other.pid())), "{why}");
    let refused = prove_unowned(&stage.config(), &machine()).unwrap_err().to_string();
    assert!(refused.contains("in use"), "{refused}");
    // The same number, another process: the gateway is gone.
    stage.lock(&payload(other.pid(), who.start.map(|start| start + 1)));
    assert_eq!(find_owner(&stage.config(), &machine()), GatewayOwner::Nobody);
    // Nothing is known but a number that somebody has.
    stage.lock(&json!({ "pid": other.pid() }));
    assert!(matches!(find_owner(&stage.config(), &machine()), GatewayOwner::Doubt(_)));
    stage.lock(&json!("damaged"));
    assert!(matches!(find_owner(&stage.config(), &machine()), GatewayOwner::Doubt(_)));
    drop(other);
    stage.lock(&payload(who.pid.unwrap(), who.start));
    assert_eq!(find_owner(&stage.config(), &machine()), GatewayOwner::Nobody);
}

#[test]
fn a_lock_of_another_configuration_is_not_ours() {
    let stage = Stage::on(closed_port());
    let other = Running(Command::new("/bin/sleep").arg("60").spawn().unwrap());
    let start = sys::proc::identify_process(other.pid()).unwrap().start;
    let payload =
        json!({ "pid": other.pid(), "startTime": start, "configPath": "/elsewhere/openclaw.json" });
    stage.lock_as("gateway.00000000.lock", &payload);
    assert_eq!(find_owner(&stage.config(), &machine()), GatewayOwner::Nobody);
    // Since 2026.8 it lies in the state directory, and is then about it whatever it is called.
    let inside =
        format!(".openclaw/tmp/openclaw-{}/gateway.state.lock", sys::proc::current_observer().uid);
    stage.home.write(inside, payload.to_string());
    assert!(matches!(find_owner(&stage.config(), &machine()), GatewayOwner::Live { .. }));
}

#[test]
fn something_on_the_port_is_a_doubt() {
    let gateway = FakeGateway::start(Manner::Silent);
    let found = find_owner(&Stage::on(gateway.port).config(), &machine());
    let GatewayOwner::Doubt(why) = found else { panic!("{found:?}") };
    assert!(why.contains(&gateway.port.to_string()), "{why}");
}

#[test]
fn a_process_of_openclaws_owns_the_files_that_its_environment_names() {
    let stage = Stage::on(closed_port());
    let elsewhere = TempHome::new();
    let _other = Running::openclaw(&[], elsewhere.path());
    assert_eq!(
        find_owner(&stage.config(), &machine()),
        GatewayOwner::Nobody,
        "it uses another directory"
    );
    let _profile = Running::openclaw(&["--profile", "night"], stage.home.path());
    assert_eq!(
        find_owner(&stage.config(), &machine()),
        GatewayOwner::Nobody,
        "it uses another profile"
    );
    let gateway = Running::openclaw(&[], stage.home.path());
    let found = find_owner(&stage.config(), &machine());
    let GatewayOwner::Live { who, .. } = found else { panic!("{found:?}") };
    assert_eq!(who.pid, Some(gateway.pid()));
    let error = stage.ask().unwrap_err().to_string();
    assert!(error.contains(&gateway.pid().to_string()), "{error}");
    drop(gateway);
    assert_eq!(find_owner(&stage.config(), &machine()), GatewayOwner::Nobody);
}
