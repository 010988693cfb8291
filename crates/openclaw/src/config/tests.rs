use std::ffi::OsString;

use testkit::home::TempHome;

use super::*;

fn read_with(home: &TempHome, variables: &[(&str, &str)]) -> Result<OpenClawConfig, ConfigError> {
    let variables: Vec<(String, OsString)> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    let at_home = home.lookup();
    let lookup = move |name: &str| {
        let found = variables.iter().find(|(one, _)| one == name);
        found.map(|(_, value)| value.clone()).or_else(|| at_home(name))
    };
    OpenClawConfig::load(&EnvLookup::new(&lookup))
}

fn config(text: &str) -> (TempHome, OpenClawConfig) {
    let home = TempHome::new();
    home.write(".openclaw/openclaw.json", text);
    let config = read_with(&home, &[]).unwrap();
    (home, config)
}

fn wrong(text: &str) -> String {
    let home = TempHome::new();
    home.write(".openclaw/openclaw.json", text);
    match read_with(&home, &[]).unwrap_err() {
        ConfigError::Wrong { wrong, .. } => wrong.to_string(),
        other => panic!("{other}"),
    }
}

#[test]
fn without_a_file_there_is_the_main_agent() {
    let home = TempHome::new();
    let config = read_with(&home, &[]).unwrap();
    let [main] = &config.agents[..] else { panic!("{config:?}") };
    assert_eq!(main.id, "main");
    assert!(main.is_default && !main.is_configured);
    assert_eq!(main.workspace, home.join(".openclaw/workspace"));
    assert_eq!(main.agent_dir, home.join(".openclaw/agents/main/agent"));
    assert_eq!(main.store, home.join(".openclaw/agents/main/sessions/sessions.json"));
    assert_eq!((config.gateway.port, &config.gateway.remote), (18789, &None));
}

/// What 2026.9 makes of `agents.list` when it first writes the file.
#[test]
fn p4_keyed_agents_count_and_a_list_beside_them_does_not() {
    let (home, config) = config(
        r#"{
            agents: {
                defaults: { workspace: "~/work" },
                entries: { main: { default: true }, "Ops": { workspace: "~/ops" }, lab: {}, no: 1 },
                list: [ { id: "stale" } ],
            },
            bindings: [ { agentId: "ops" }, { agentId: "lab" } ],
        }"#,
    );
    let ids: Vec<&str> = config.agents.iter().map(|agent| agent.id.as_str()).collect();
    assert_eq!(config.agents.len(), 3, "{ids:?}");
    assert_eq!(config.default_agent(), "main");
    assert_eq!(config.find_agent("main").unwrap().workspace, home.join("work"));
    assert_eq!(config.find_agent("ops").unwrap().workspace, home.join("ops"));
    assert_eq!(config.find_agent("lab").unwrap().workspace, home.join("work/lab"));
    let pruned = config.without_agent("ops").unwrap();
    assert_eq!(pruned.bindings, 1);
    let after = String::from_utf8(pruned.bytes).unwrap();
    assert!(!after.contains("ops") && after.contains("lab: {}"), "{after}");
}

#[test]
fn p4_of_keyed_agents_the_only_one_is_the_default() {
    let (home, sole) = config(r#"{ agents: { entries: { ops: {} } } }"#);
    assert_eq!(sole.default_agent(), "ops");
    assert_eq!(sole.find_agent("ops").unwrap().workspace, home.join(".openclaw/workspace"));
    let (home, several) = config(r#"{ agents: { entries: { ops: {}, lab: {} } } }"#);
    assert!(several.agents.iter().all(|agent| !agent.is_default));
    assert_eq!(several.find_agent("lab").unwrap().workspace, home.join(".openclaw/workspace-lab"));
    assert!(wrong("{ agents: { entries: [] } }").contains("agents.entries"));
}

#[test]
fn agents_are_where_the_file_says() {
    let (home, config) = config(
        r#"{
            // the crew
            agents: {
                defaults: { workspace: "~/work" },
                list: [
                    { id: "Ops!", workspace: "~/ops/../ops-ws" },
                    { id: 'main', default: true },
                    { id: "lab", agentDir: "/srv/lab" },
                    "not an agent", null,
                    { id: "lab", workspace: "/second/does/not/count" },
                ],
            },
            session: { store: "~/stores/{agentId}.json", maintenance: { maxEntries: 7 } },
            gateway: { port: 0x4000, auth: { token: "${TOKEN_THAT_IS_NOT_SET}" } },
        }"#,
    );
    let ids: Vec<&str> = config.agents.iter().map(|agent| agent.id.as_str()).collect();
    assert_eq!(ids, ["ops", "main", "lab"]);
    assert_eq!(config.default_agent(), "main");
    assert_eq!(config.agents[0].workspace, home.join("ops-ws"));
    assert_eq!(config.agents[1].workspace, home.join("work"));
    assert_eq!(config.agents[2].workspace, home.join("work/lab"));
    assert_eq!(config.agents[2].agent_dir, Path::new("/srv/lab"));
    assert_eq!(config.agents[2].store, home.join("stores/lab.json"));
    assert_eq!(config.store_owner(&config.agents[2]), "lab");
    assert_eq!(config.maintenance, Some(serde_json::json!({ "maxEntries": 7 })));
    assert_eq!(config.gateway.port, 0x4000);
    assert_eq!(config.gateway.auth, GatewayAuth::default());
}

#[test]
fn the_first_agent_is_the_default_one_and_owns_what_names_nobody() {
    let (_home, config) = config(r#"{"agents":{"list":[{"id":"ops"},{"id":"lab"}]}}"#);
    assert_eq!(config.default_agent(), "ops");
    assert!(!config.has_agent("main"));
    assert_eq!(config.store_owner(&config.agents[1]), "ops");
}

#[test]
fn variables_stand_for_what_the_environment_says() {
    let home = TempHome::new();
    home.write(
        "elsewhere/openclaw.json",
        r#"{"agents":{"list":[{"id":"ops","workspace":"${BASE}/ws/$${BASE}$x"}]},
            "gateway":{"auth":{"token":"a-${BASE}"}}}"#,
    );
    let path = home.join("elsewhere/openclaw.json");
    let variables = [("OPENCLAW_CONFIG_PATH", path.to_str().unwrap()), ("BASE", "/base")];
    let config = read_with(&home, &variables).unwrap();
    assert_eq!(config.agents[0].workspace, Path::new("/base/ws/${BASE}$x"));
    assert_eq!(config.gateway.auth.token.as_deref(), Some("a-/base"));
    assert!(!format!("{config:?}").contains("a-/base"), "secrets are not printed");
    let error = read_with(&home, &variables[..1]).unwrap_err().to_string();
    assert!(error.contains("BASE, which is not set"), "{error}");
}

#[test]
fn a_gateway_elsewhere_is_known_by_the_file_or_the_environment() {
    let (home, remote) =
        config(r#"{"gateway":{"mode":"remote","remote":{"url":"wss://far.example","token":"t"}}}"#);
    assert_eq!(remote.gateway.remote.as_deref(), Some("wss://far.example"));
    assert_eq!(remote.gateway.auth.token.as_deref(), Some("t"));
    let named = read_with(&home, &[("OPENCLAW_GATEWAY_URL", "ws://127.0.0.1:7")]).unwrap();
    assert_eq!(named.gateway.remote.as_deref(), Some("ws://127.0.0.1:7"));
    let (_home, lost) = config(r#"{"gateway":{"mode":"remote"}}"#);
    assert_eq!(lost.gateway.remote.as_deref(), Some(""));
    let moved = read_with(&home, &[("OPENCLAW_GATEWAY_PORT", "0.0.0.0:4321")]).unwrap();
    assert_eq!(moved.gateway.port, 4321);
}

#[test]
fn what_cannot_be_used_is_an_error_and_never_a_default() {
    for (text, expected) in [
        ("", "it is empty"),
        ("[]", "the document is not an object"),
        ("{\"agents\": {\n", "line 1, column 12: "),
        ("{agents:{list:{}}}", "`agents.list` is not a list"),
        ("{agents:{list:[{id:7}]}}", "`id` is not a string"),
        ("{agents:{list:[{id:'✨'}]}}", "`✨` is not an id of an agent"),
        ("{agents:{list:[{id:'a',workspace:'ws'}]}}", "not an absolute path"),
        ("{session:{store:'sessions.json'}}", "not an absolute path"),
        ("{gateway:{port:0}}", "`gateway.port` is not a port"),
        ("{agents:{},agents:{}}", "`agents` is there twice"),
        ("{$include:'x.json'}", "`it` includes other files"),
        ("{agents:{list:[{$include:'x.json'}]}}", "`agents` includes other files"),
    ] {
        assert!(wrong(text).contains(expected), "{text}: {}", wrong(text));
    }
    let home = TempHome::new();
    home.directory(".openclaw/openclaw.json");
    assert!(matches!(read_with(&home, &[]), Err(ConfigError::Read { .. })));
    let named = [("OPENCLAW_CONFIG_PATH", "/no/such/file.json")];
    assert!(matches!(read_with(&home, &named), Err(ConfigError::Read { .. })));
}

#[test]
fn row_92_an_agent_leaves_the_file_with_its_bindings_and_its_name_in_the_allow_list() {
    let (_home, config) = config(
        "\u{feff}{\r\n  // agents of the house\r\n  agents: { list: [\r\n    { id: 'main' }, // keeps\r\n    { id: 'OPS', x: [1, {y: 2}] }, // goes\r\n    { id: 'lab' },\r\n  ] },\r\n  bindings: [ {agentId: 'ops', match: {}}, {agentId: 'lab'}, { agentId: \"ops\" } ],\r\n  tools: { agentToAgent: { enabled: true, allow: ['main', 'ops', 'ops-2'] } },\r\n  own: { 'ops': \"ops\" } }\r\n",
    );
    let pruned = config.without_agent("ops").unwrap();
    assert_eq!((pruned.bindings, pruned.allowed), (2, 1));
    assert_eq!(
        String::from_utf8(pruned.bytes).unwrap(),
        "\u{feff}{\r\n  // agents of the house\r\n  agents: { list: [\r\n    { id: 'main' }, // keeps\r\n     // goes\r\n    { id: 'lab' },\r\n  ] },\r\n  bindings: [ {agentId: 'lab'} ],\r\n  tools: { agentToAgent: { enabled: true, allow: ['main', 'ops-2'] } },\r\n  own: { 'ops': \"ops\" } }\r\n"
    );
}

#[test]
fn the_last_of_a_list_leaves_an_empty_one() {
    let (_home, config) = config(
        "{\n  \"agents\": {\n    \"list\": [\n      { \"id\": \"ops\" }\n    ]\n  },\n  \"bindings\": [{ \"agentId\": \"ops\" }]\n}\n",
    );
    let pruned = config.without_agent("ops").unwrap();
    let text = String::from_utf8(pruned.bytes).unwrap();
    assert_eq!(text, "{\n  \"agents\": {\n    \"list\": []\n  },\n  \"bindings\": []\n}\n");
    assert_eq!((pruned.bindings, pruned.allowed), (1, 0));
}
