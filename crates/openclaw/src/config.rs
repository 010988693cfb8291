//! OpenClaw's configuration: `openclaw.json`, which is JSON5, may name environment variables in its
//! strings and may include other files.
//!
//! A file that cannot be read is an error, never an empty configuration: what would be deleted by
//! default is decided in it. Files that include others are refused for the same reason.

use std::io;
use std::path::{Path, PathBuf};

use crate::rules::agent::{MAIN_AGENT, normalise_agent_id};
use adapters::EnvLookup;
use serde_json::Value;

use super::document::{self, TakenOut};
use model::edit::EditError;

mod reader;

use reader::ConfigReader;

/// The largest file that is read.
const MAX_CONFIG_BYTES: u64 = 16 << 20;

/// Why OpenClaw's configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Without a home there is none.
    #[error("it is not known where OpenClaw keeps its files: `HOME` is not set")]
    NoHome,
    /// The file cannot be read.
    #[error("OpenClaw's configuration {} cannot be read: {source}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    /// Its content cannot be used.
    #[error("OpenClaw's configuration {} cannot be used: {wrong}", .path.display())]
    Wrong {
        path: PathBuf,
        /// What is wrong.
        wrong: EditError,
    },
}

/// An agent as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredAgent {
    /// Its id, as OpenClaw writes it.
    pub id: String,
    /// Whether it is used when none is named.
    pub is_default: bool,
    /// Whether the configuration names it. `main` is there without.
    pub is_configured: bool,
    /// Where it works.
    pub workspace: PathBuf,
    /// Where it keeps its own things.
    pub agent_dir: PathBuf,
    /// Where its transcripts are.
    pub sessions_dir: PathBuf,
    /// The store of its sessions. Several agents may share one.
    pub store: PathBuf,
}

/// Which gateway there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayConfig {
    /// The port on this machine.
    pub port: u16,
    /// Another place: `gateway.mode` is `remote`, or `OPENCLAW_GATEWAY_URL` is set. Empty if it is
    /// said to be elsewhere, but not where.
    pub remote: Option<String>,
    /// Whether it speaks TLS.
    pub tls: bool,
    /// What it wants to be shown.
    pub auth: GatewayAuth,
}

/// A secret to be shown to the gateway. It is never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct GatewayAuth {
    /// `auth.token`.
    pub token: Option<String>,
    /// `auth.password`.
    pub password: Option<String>,
}

impl std::fmt::Debug for GatewayAuth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |secret: &Option<String>| secret.as_ref().map(|_| "…");
        let mut shape = f.debug_struct("GatewayAuth");
        shape.field("token", &shown(&self.token)).field("password", &shown(&self.password)).finish()
    }
}

/// OpenClaw's configuration, as far as ostler reads it.
#[derive(Debug)]
pub struct OpenClawConfig {
    pub path: PathBuf,
    /// OpenClaw's state directory, where agents are.
    pub state: PathBuf,
    /// The home that `~` means.
    pub home: PathBuf,
    /// The agents. There is always one.
    pub agents: Vec<ConfiguredAgent>,
    /// What `session.mainKey` calls an agent's main session.
    pub main_key: String,
    /// Whose direct chats share a session: `session.dmScope`.
    pub dm_scope: String,
    /// `session.maintenance`, as it is written.
    pub maintenance: Option<Value>,
    pub gateway: GatewayConfig,
    /// Where temporary files of this user's programs are, most likely first.
    pub temporary: Vec<PathBuf>,
    /// The bytes of the file; `None` if there is none.
    pub bytes: Option<Vec<u8>>,
    store_is_per_agent: bool,
    document: Value,
}

/// All direct chats belong into the main session.
pub const SHARED_SESSION_KEY: &str = "main";

/// A configuration without an agent.
#[derive(Debug, PartialEq, Eq)]
pub struct PrunedConfig {
    /// The file afterwards.
    pub bytes: Vec<u8>,
    /// How many bindings went with it.
    pub bindings: usize,
    /// How many entries of the list of agents that others may call.
    pub allowed: usize,
}

impl OpenClawConfig {
    /// Finds and reads it. A file that is not there is an empty one, unless
    /// `OPENCLAW_CONFIG_PATH` names it.
    pub fn load(env: &EnvLookup<'_>) -> Result<Self, ConfigError> {
        let reader = ConfigReader::new(env)?;
        let bytes = match read_bytes(&reader.path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !reader.is_named => None,
            Err(source) => return Err(ConfigError::Read { path: reader.path, source }),
        };
        reader.read_config(bytes)
    }

    /// As [`OpenClawConfig::load`], if these were the bytes of the file.
    pub fn with_bytes(env: &EnvLookup<'_>, bytes: Vec<u8>) -> Result<Self, ConfigError> {
        ConfigReader::new(env)?.read_config(Some(bytes))
    }

    /// The agent with that id.
    pub fn find_agent(&self, id: &str) -> Option<&ConfiguredAgent> {
        self.agents.iter().find(|agent| agent.id == id)
    }

    /// The agent that is used when none is named.
    pub fn default_agent(&self) -> &str {
        self.agents.iter().find(|agent| agent.is_default).map_or(MAIN_AGENT, |agent| &agent.id)
    }

    /// Whether an agent of that id is there, configured or not.
    pub fn has_agent(&self, id: &str) -> bool {
        self.find_agent(id).is_some()
    }

    /// Whose the rows of an agent's store are that name no agent.
    pub fn store_owner<'a>(&'a self, agent: &'a ConfiguredAgent) -> &'a str {
        if self.store_is_per_agent { &agent.id } else { self.default_agent() }
    }

    /// The file without an agent: its entry, its bindings, and its name in the list of agents that
    /// others may call. Everything else stays as it is written.
    pub fn without_agent(&self, id: &str) -> Result<PrunedConfig, ConfigError> {
        let wrong = |wrong| ConfigError::Wrong { path: self.path.clone(), wrong };
        let bytes = self.bytes.as_deref().unwrap_or_default();
        let text = without_byte_order_mark(bytes).map_err(wrong)?;
        let named = |value: &Value, member: &str| {
            let named = value.get(member).and_then(Value::as_str);
            value.is_object()
                && normalise_agent_id(named.unwrap_or(MAIN_AGENT)).as_deref() == Some(id)
        };
        let allowed = |value: &Value| value.as_str().is_some_and(|name| name.trim() == id);
        let marks = |path: &[&str], goes: &dyn Fn(&Value) -> bool| -> Vec<bool> {
            let list = value_at(&self.document, path).and_then(Value::as_array);
            list.map_or_else(Vec::new, |list| list.iter().map(goes).collect())
        };
        const ENTRIES: &[&str] = &["agents", "entries"];
        const AGENTS: &[&str] = &["agents", "list"];
        const BINDINGS: &[&str] = &["bindings"];
        const ALLOWED: &[&str] = &["tools", "agentToAgent", "allow"];
        let entries = value_at(&self.document, ENTRIES).and_then(Value::as_object);
        let entries = entries.into_iter().flat_map(|entries| entries.keys());
        let entries =
            entries.filter(|name| normalise_agent_id(name).as_deref() == Some(id)).cloned();
        let bound = marks(BINDINGS, &|binding| named(binding, "agentId"));
        let callable = marks(ALLOWED, &allowed);
        let count = |marks: &[bool]| marks.iter().filter(|goes| **goes).count();
        let (bindings, allowed) = (count(&bound), count(&callable));
        let cuts = [
            (ENTRIES, TakenOut::Members(entries.collect())),
            (AGENTS, TakenOut::Elements(marks(AGENTS, &|agent| named(agent, "id")))),
            (BINDINGS, TakenOut::Elements(bound)),
            (ALLOWED, TakenOut::Elements(callable)),
        ];
        let after = document::remove_elements(text, &cuts).map_err(wrong)?;
        let mark = &bytes[..bytes.len() - text.len()];
        Ok(PrunedConfig { bytes: [mark, after.as_bytes()].concat(), bindings, allowed })
    }
}

/// The value that members lead to.
fn value_at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(name)).filter(|value| !value.is_null())
}

/// Reads a file of OpenClaw's; a pipe in its place is not waited for.
pub(crate) fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    if metadata.len() > MAX_CONFIG_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large"));
    }
    std::fs::read(path)
}

/// The text without its byte order mark.
fn without_byte_order_mark(bytes: &[u8]) -> Result<&str, EditError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        EditError::wrong_shape(format!("byte {} is not UTF-8", error.valid_up_to() + 1))
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

#[cfg(test)]
mod tests;
