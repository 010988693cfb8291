//! From the document to what it means: variables, paths, agents, the gateway.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use crate::rules::agent::{MAIN_AGENT, normalise_agent_id};
use adapters::EnvLookup;
use serde_json::Value;

use super::{
    ConfigError, ConfiguredAgent, GatewayAuth, GatewayConfig, OpenClawConfig, SHARED_SESSION_KEY,
    value_at, without_byte_order_mark,
};
use crate::document;
use model::edit::EditError;

/// The names of the file, newest first.
const NAMES: [&str; 2] = ["openclaw.json", "clawdbot.json"];

/// Where the gateway listens by default.
const PORT: u16 = 18789;

/// What is read of it.
const SECTIONS: [&str; 5] = ["agents", "bindings", "tools", "session", "gateway"];

/// `~` is the home; `.` and `..` are gone.
fn to_absolute(home: &Path, path: &Path) -> PathBuf {
    let path = match path.strip_prefix("~") {
        Ok(rest) => home.join(rest),
        Err(_) => path.to_owned(),
    };
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

/// The configured agents.
struct Roster<'v> {
    /// Their ids, and what is said of each.
    entries: Vec<(String, &'v Value)>,
    /// Whether they are members of an object, and not elements of a list.
    is_keyed: bool,
}

/// Turns the document into what it means here.
pub(super) struct ConfigReader<'a> {
    env: &'a EnvLookup<'a>,
    home: PathBuf,
    state: PathBuf,
    pub(super) path: PathBuf,
    /// Whether the environment names the file.
    pub(super) is_named: bool,
}

impl<'a> ConfigReader<'a> {
    /// Finds the file.
    pub(super) fn new(env: &'a EnvLookup<'a>) -> Result<Self, ConfigError> {
        let state = adapters::by_id("openclaw")
            .and_then(|adapter| adapter.session_roots(env).into_iter().next())
            .ok_or(ConfigError::NoHome)?;
        let home =
            env.path_of("OPENCLAW_HOME").or_else(|| env.home_dir()).ok_or(ConfigError::NoHome)?;
        let state = to_absolute(&home, &state);
        let named = env.path_of("OPENCLAW_CONFIG_PATH").map(|path| to_absolute(&home, &path));
        let is_named = named.is_some();
        let path = named.unwrap_or_else(|| {
            let candidates = NAMES.map(|name| state.join(name));
            let there = candidates.iter().find(|path| path.exists());
            there.unwrap_or(&candidates[0]).clone()
        });
        Ok(Self { env, home, state, path, is_named })
    }

    pub(super) fn read_config(self, bytes: Option<Vec<u8>>) -> Result<OpenClawConfig, ConfigError> {
        let path = self.path.clone();
        let config = self
            .parse_sections(bytes.as_deref())
            .and_then(|document| self.interpret_document(bytes, document));
        config.map_err(|wrong| ConfigError::Wrong { path, wrong })
    }

    fn parse_sections(&self, bytes: Option<&[u8]>) -> Result<Value, EditError> {
        let Some(bytes) = bytes else { return Ok(Value::Object(serde_json::Map::new())) };
        let document = document::parse_json5(without_byte_order_mark(bytes)?)?;
        let Some(root) = document.as_object() else {
            return Err(EditError::wrong_shape("the document is not an object"));
        };
        let sections = SECTIONS.iter().filter_map(|name| Some((*name, root.get(*name)?)));
        let including = sections.filter(|(_, section)| has_includes(section)).map(|(name, _)| name);
        let whole = root.contains_key("$include").then_some("it");
        if let Some(place) = whole.into_iter().chain(including).next() {
            return Err(EditError::wrong_shape(format!(
                "`{place}` includes other files, which ostler does not follow"
            )));
        }
        Ok(document)
    }

    fn interpret_document(
        self,
        bytes: Option<Vec<u8>>,
        document: Value,
    ) -> Result<OpenClawConfig, EditError> {
        let store = self.text_at(&document, &["session", "store"])?;
        let main_key = self.text_at(&document, &["session", "mainKey"])?;
        let dm_scope = self.text_at(&document, &["session", "dmScope"])?;
        let maintenance = value_at(&document, &["session", "maintenance"]).cloned();
        let temporary = ["TMPDIR", "TMP", "TEMP"].iter().filter_map(|name| self.env.path_of(name));
        let temporary = temporary.chain([PathBuf::from("/tmp")]).collect();
        Ok(OpenClawConfig {
            agents: self.read_agents(&document, store.as_deref())?,
            main_key: main_key.unwrap_or_else(|| MAIN_AGENT.to_owned()),
            dm_scope: dm_scope.unwrap_or_else(|| SHARED_SESSION_KEY.to_owned()),
            maintenance,
            gateway: self.read_gateway(&document)?,
            temporary,
            bytes,
            store_is_per_agent: store.is_some_and(|store| store.contains("{agentId}")),
            path: self.path,
            state: self.state,
            home: self.home,
            document,
        })
    }

    fn read_agents(
        &self,
        document: &Value,
        store: Option<&str>,
    ) -> Result<Vec<ConfiguredAgent>, EditError> {
        let Roster { entries, is_keyed } = self.roster(document)?;
        let chosen = |entry: &&(String, &Value)| entry.1.get("default").is_some_and(is_truthy);
        // Of a list the first is the default; of keyed entries the only one.
        let implied = entries.first().filter(|_| !is_keyed || entries.len() == 1);
        let default = entries.iter().find(chosen).or(implied);
        let default = default.map_or_else(|| MAIN_AGENT.to_owned(), |(id, _)| id.clone());
        let common = self.path_at(document, &["agents", "defaults", "workspace"])?;
        let mut agents: Vec<ConfiguredAgent> = Vec::new();
        for (id, entry) in entries {
            if agents.iter().any(|agent| agent.id == id) {
                continue;
            }
            let mut agent = self.implied_agent(&id, &default, common.as_deref(), store)?;
            agent.is_configured = true;
            if let Some(workspace) = self.path_at(entry, &["workspace"])? {
                agent.workspace = workspace;
            }
            if let Some(agent_dir) = self.path_at(entry, &["agentDir"])? {
                agent.agent_dir = agent_dir;
            }
            agents.push(agent);
        }
        if agents.is_empty() {
            agents.push(self.implied_agent(MAIN_AGENT, &default, common.as_deref(), store)?);
        }
        Ok(agents)
    }

    /// Reads the configured agents: `agents.entries` (since 2026.9) counts, and `agents.list` only where
    /// that is absent. What is no object means nothing to OpenClaw either.
    fn roster<'v>(&self, document: &'v Value) -> Result<Roster<'v>, EditError> {
        let id = |id: &str| {
            normalise_agent_id(id)
                .ok_or_else(|| EditError::wrong_shape(format!("`{id}` is not an id of an agent")))
        };
        let mut entries = Vec::new();
        match (value_at(document, &["agents", "entries"]), value_at(document, &["agents", "list"]))
        {
            (Some(Value::Object(keyed)), _) => {
                for (name, entry) in keyed.iter().filter(|(_, entry)| entry.is_object()) {
                    entries.push((id(name)?, entry));
                }
                return Ok(Roster { entries, is_keyed: true });
            }
            (Some(_), _) => {
                return Err(EditError::wrong_shape("`agents.entries` is not an object"));
            }
            (None, Some(Value::Array(list))) => {
                for entry in list.iter().filter(|entry| entry.is_object()) {
                    let name = self.text_at(entry, &["id"])?;
                    entries.push((id(name.as_deref().unwrap_or(MAIN_AGENT))?, entry));
                }
            }
            (None, Some(_)) => return Err(EditError::wrong_shape("`agents.list` is not a list")),
            (None, None) => {}
        }
        Ok(Roster { entries, is_keyed: false })
    }

    /// An agent about which nothing more is said.
    fn implied_agent(
        &self,
        id: &str,
        default: &str,
        workspaces: Option<&Path>,
        store: Option<&str>,
    ) -> Result<ConfiguredAgent, EditError> {
        let is_default = id == default;
        let own = self.state.join("agents").join(id);
        let workspace = match workspaces {
            Some(common) if is_default => common.to_owned(),
            Some(common) => common.join(id),
            None if is_default => self.default_workspace(),
            None => self.state.join(format!("workspace-{id}")),
        };
        let store = match store {
            None => own.join("sessions/sessions.json"),
            Some(store) => self.absolute_path("session.store", &store.replace("{agentId}", id))?,
        };
        Ok(ConfiguredAgent {
            id: id.to_owned(),
            is_default,
            is_configured: false,
            workspace,
            agent_dir: own.join("agent"),
            sessions_dir: own.join("sessions"),
            store,
        })
    }

    fn default_workspace(&self) -> PathBuf {
        if let Some(workspace) = self.env.path_of("OPENCLAW_WORKSPACE_DIR") {
            return to_absolute(&self.home, &workspace);
        }
        let profile = self.env.get("OPENCLAW_PROFILE").filter(|profile| profile != "default");
        let mut name = OsString::from("workspace");
        if let Some(profile) = profile {
            name.push("-");
            name.push(profile);
        }
        self.home.join(".openclaw").join(name)
    }

    fn read_gateway(&self, document: &Value) -> Result<GatewayConfig, EditError> {
        let port = match self.env.get("OPENCLAW_GATEWAY_PORT") {
            Some(value) => port_of(&value.to_string_lossy()),
            None => None,
        };
        let configured = match value_at(document, &["gateway", "port"]) {
            None => None,
            Some(value) => Some(
                value
                    .as_u64()
                    .and_then(|port| u16::try_from(port).ok())
                    .filter(|port| *port > 0)
                    .ok_or_else(|| EditError::wrong_shape("`gateway.port` is not a port"))?,
            ),
        };
        let is_remote = self.text_at(document, &["gateway", "mode"])?.as_deref() == Some("remote");
        let url = match self.env.get("OPENCLAW_GATEWAY_URL") {
            Some(url) => Some(url.to_string_lossy().trim().to_owned()),
            None if is_remote => {
                Some(self.text_at(document, &["gateway", "remote", "url"])?.unwrap_or_default())
            }
            None => None,
        };
        let place = if is_remote { "remote" } else { "auth" };
        let secret = |name: &str, variable: &str| {
            // One that is kept elsewhere is not known here: the gateway will say what it wants.
            let written = self.text_at(document, &["gateway", place, name]).ok().flatten();
            written.or_else(|| self.env.get(variable)?.into_string().ok())
        };
        Ok(GatewayConfig {
            port: port.or(configured).unwrap_or(PORT),
            remote: url,
            tls: value_at(document, &["gateway", "tls", "enabled"]) == Some(&Value::Bool(true)),
            auth: GatewayAuth {
                token: secret("token", "OPENCLAW_GATEWAY_TOKEN"),
                password: secret("password", "OPENCLAW_GATEWAY_PASSWORD"),
            },
        })
    }

    fn path_at(&self, value: &Value, path: &[&str]) -> Result<Option<PathBuf>, EditError> {
        let Some(text) = self.text_at(value, path)? else { return Ok(None) };
        self.absolute_path(&path.join("."), &text).map(Some)
    }

    /// A relative path means another place in every directory that OpenClaw is started in.
    fn absolute_path(&self, name: &str, text: &str) -> Result<PathBuf, EditError> {
        let path = to_absolute(&self.home, Path::new(&text.replace('\0', "")));
        if path.is_absolute() {
            return Ok(path);
        }
        Err(EditError::wrong_shape(format!("`{name}` is `{text}`, which is not an absolute path")))
    }

    /// A string, with the variables it names. Blank is the same as not there.
    fn text_at(&self, value: &Value, path: &[&str]) -> Result<Option<String>, EditError> {
        let name = path.join(".");
        match value_at(value, path) {
            None => Ok(None),
            Some(Value::String(text)) => {
                let text = self.with_variables(&name, text)?;
                let text = text.trim();
                Ok((!text.is_empty()).then(|| text.to_owned()))
            }
            Some(_) => Err(EditError::wrong_shape(format!("`{name}` is not a string"))),
        }
    }

    /// `${NAME}` stands for a variable, `$${NAME}` for itself.
    fn with_variables(&self, place: &str, text: &str) -> Result<String, EditError> {
        let is_name = |name: &str| {
            let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            !name.starts_with(|c: char| c.is_ascii_digit())
                && !name.is_empty()
                && name.chars().all(plain)
        };
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            let (escaped, opened) = match rest[at + 1..].strip_prefix('$') {
                Some(after) => (true, after.strip_prefix('{')),
                None => (false, rest[at + 1..].strip_prefix('{')),
            };
            match opened.and_then(|opened| opened.split_once('}')) {
                Some((name, after)) if is_name(name) => {
                    if escaped {
                        out.push_str(&format!("${{{name}}}"));
                    } else {
                        out.push_str(&self.variable_value(place, name)?);
                    }
                    rest = after;
                }
                _ => {
                    out.push('$');
                    rest = &rest[at + 1..];
                }
            }
        }
        out.push_str(rest);
        Ok(out)
    }

    fn variable_value(&self, place: &str, name: &str) -> Result<String, EditError> {
        let value = self.env.get(name).and_then(|value| value.into_string().ok());
        value.ok_or_else(|| {
            EditError::wrong_shape(format!(
                "`{place}` names the variable {name}, which is not set here"
            ))
        })
    }
}

/// Whether some object of a section includes another file.
fn has_includes(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.contains_key("$include") || map.values().any(has_includes),
        Value::Array(list) => list.iter().any(has_includes),
        _ => false,
    }
}

fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Number(number) => number.as_f64() != Some(0.0),
        _ => true,
    }
}

/// `18789`, or the last part of `127.0.0.1:18789`.
fn port_of(text: &str) -> Option<u16> {
    let text = text.trim();
    let digits = text.rsplit_once(':').map_or(text, |(_, port)| port);
    digits.parse().ok().filter(|port| *port > 0)
}
