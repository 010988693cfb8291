//! The adapter of OpenClaw: reads its sessions.
//!
//! Since 2026.8 each agent keeps its sessions in `agents/<agent>/agent/openclaw-agent.sqlite`;
//! before, in `agents/<agent>/sessions/` (see `files`). A session key (`agent:main:main`) stays
//! while the session behind it is replaced; the id here is the session's, the key is its name.
//! `state/openclaw.sqlite` holds leases: which process has which agent's database open, several
//! rows for one process, left behind by a kill. The schema moves with almost every release.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::conversation::ConversationEntry;
use model::identity::Identity;
use model::program::AgentProgram;
use model::session::FormatCertainty;
use model::sighting::{
    ProcessRegistration, RegistrationProof, RegistrationScope, TranscriptDigest, shorten_title,
};
use model::time::Time;
use rusqlite::{Connection, Row};

use crate::files::{EntryKind, ReadError};
use crate::{
    Adapter, AgentProfile, EnvLookup, LineConversation, Opening, Removable, Survey, SurveyProblem,
    TranscriptSource, database,
};

mod events;
mod files;

use events::OpenClawReading;

#[derive(Debug)]
pub(crate) struct OpenClaw;

static OPENCLAW_PROFILE: AgentProfile = AgentProfile {
    id: "openclaw",
    name: "OpenClaw",
    version: 1,
    certainty: FormatCertainty::Lab,
    program: AgentProgram {
        names: &["openclaw", "openclaw-agent", "openclaw-gateway", "qclaw"],
        packages: &["node_modules/openclaw"],
        servers: &["gateway"],
        helpers: &[
            "agents",
            "channels",
            "config",
            "configure",
            "dashboard",
            "doctor",
            "logs",
            "models",
            "onboard",
            "sessions",
            "setup",
            "skills",
            "status",
            "uninstall",
            "update",
        ],
    },
    resume_options: &["--session-id"],
    continue_options: &[],
    session_variables: &[],
    opening: Opening { server_has_all: true, ..Opening::ANYWHERE },
    hooks: None,
    note: "the databases of 2026.9.6; the file stores up to 2026.7 from documentation; \
           QClaw (~/.qclaw) as the same format, never run",
};

const DATABASE: &str = "openclaw-sqlite";

/// The newest schema of an agent's database that is known.
const KNOWN_SCHEMA: i64 = 23;

/// The largest event; the schema allows no larger one.
const MAX_EVENT_BYTES: usize = 4 << 20;

impl Adapter for OpenClaw {
    fn agent_profile(&self) -> &'static AgentProfile {
        &OPENCLAW_PROFILE
    }

    fn mcp_client(&self) -> Option<crate::McpClientSettings> {
        Some(crate::McpClientSettings {
            file: "~/.openclaw/openclaw.json",
            shape: crate::McpSettingsShape::NestedServers,
        })
    }

    /// Its gateway goes on with a session by itself; nothing has to be started.
    fn resume_words(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn session_roots(&self, env: &EnvLookup<'_>) -> Vec<PathBuf> {
        let profile = env.get("OPENCLAW_PROFILE").filter(|profile| profile != "default");
        let mut directory = std::ffi::OsString::from(".openclaw");
        if let Some(profile) = profile {
            directory.push("-");
            directory.push(profile);
        }
        let home = env.path_of("OPENCLAW_HOME").or_else(|| env.home_dir());
        let state = env.path_of("OPENCLAW_STATE_DIR").or_else(|| Some(home?.join(directory)));
        // QClaw keeps the same stores under its own name.
        state.into_iter().chain(env.fork_root(".qclaw")).collect()
    }

    fn survey_root(&self, survey: &mut Survey) {
        let agents = survey.root_path().join("agents");
        let mut stores = Vec::new();
        let mut kin = Kin::default();
        let listed = survey.list_wanted(&agents, |_| true);
        let names: Vec<&str> = listed
            .iter()
            .filter(|entry| entry.kind == EntryKind::Directory)
            .filter_map(|entry| entry.name.to_str())
            .collect();
        for &agent in &names {
            let path = agents.join(agent).join("agent/openclaw-agent.sqlite");
            if survey_database(survey, &path, &mut kin) {
                stores.push((agent, path));
            }
        }
        for agent in &names {
            files::survey_sessions(survey, &agents.join(agent).join("sessions"), &mut kin);
        }
        kin.assign_parents(survey);
        survey_leases(survey, &stores);
    }

    fn read_digest(&self, source: &TranscriptSource) -> Result<TranscriptDigest, ReadError> {
        if source.format != DATABASE {
            return files::digest_transcript(source);
        }
        let connection = database::open_read_only(&source.root, &source.path)?;
        let store = Store::new(&connection)?;
        let mut statement = store.select_windows("where session = ?1")?;
        let mut rows = statement.query([&source.id])?;
        let row = rows.next()?.ok_or_else(|| ReadError::unknown_format("no such session"))?;
        Ok(store.read_window(&Window::new(row)?)?.0)
    }

    /// Its index, its gateway and its own policy know every file; `gc` knows none of them.
    fn check_removable(&self, _: &TranscriptSource) -> Removable {
        Removable::OnlyThrough("ostler store cleanup")
    }

    /// Positions in a database are the events' own numbers.
    fn line_conversation(&self) -> Option<LineConversation> {
        Some(events::emit_event)
    }

    fn read_conversation(
        &self,
        source: &TranscriptSource,
        from: u64,
        say: &mut dyn FnMut(ConversationEntry),
    ) -> Result<u64, ReadError> {
        if source.format != DATABASE {
            return files::converse_transcript(source, from, say);
        }
        let connection = database::open_read_only(&source.root, &source.path)?;
        let mut position = from;
        Store::new(&connection)?.each_event(&source.id, from, |seq, event| {
            position = seq + 1;
            if let Some(event) = event {
                events::emit_event(event, say);
            }
        })?;
        Ok(position)
    }
}

/// A key of an agent's database, and the session behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionNode {
    pub key: String,
    /// The session behind it now.
    pub session: String,
    /// When it was last changed, in milliseconds; 0 if that is not known.
    pub updated: i64,
    /// What OpenClaw keeps about it, as it is written.
    pub entry: Option<String>,
}

/// The keys of an agent's database, in their order.
pub fn list_nodes(path: &Path) -> Result<Vec<SessionNode>, ReadError> {
    let root = path.parent().unwrap_or(Path::new("/"));
    let connection = database::open_read_only(root, path)?;
    let store = Store::new(&connection)?;
    let column = |name: &str| {
        let known = store.nodes.iter().any(|column| column == name);
        if known { name.to_owned() } else { "null".to_owned() }
    };
    let mut statement = connection.prepare(&format!(
        "select session_key, current_session_id, {}, {} from session_nodes order by session_key",
        column("updated_at"),
        column("entry_json"),
    ))?;
    let node = |row: &Row<'_>| {
        Ok(SessionNode {
            key: row.get(0)?,
            session: row.get(1)?,
            updated: row.get(2).unwrap_or(0),
            entry: row.get(3).ok(),
        })
    };
    Ok(statement.query_map([], node)?.collect::<Result<_, _>>()?)
}

/// What SQLite itself finds wrong with a database; nothing if it is sound.
pub fn check_database(path: &Path) -> Result<Vec<String>, ReadError> {
    let root = path.parent().unwrap_or(Path::new("/"));
    let connection = database::open_read_only(root, path)?;
    let mut statement = connection.prepare("pragma quick_check(20)")?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
    let lines: Vec<String> = lines.collect::<Result<_, _>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}

/// Who spawned whom, by session keys, and which sessions databases hold.
#[derive(Default)]
struct Kin {
    /// The session that is now behind a key.
    current: HashMap<String, String>,
    /// A session, and the key it was spawned by.
    spawned: Vec<(String, String)>,
    /// When a database last changed each of its sessions.
    in_database: HashMap<String, Time>,
}

impl Kin {
    /// Tells every listed session its parent.
    fn assign_parents(&self, survey: &mut Survey) {
        let parents: HashMap<&str, &str> = self
            .spawned
            .iter()
            .filter_map(|(id, key)| Some((id.as_str(), self.current.get(key)?.as_str())))
            .filter(|(id, parent)| id != parent)
            .collect();
        for (source, digest) in &mut survey.ready {
            source.parent = parents.get(source.id.as_str()).map(|&parent| parent.to_owned());
            digest.parent.clone_from(&source.parent);
        }
        for source in &mut survey.sources {
            source.parent = parents.get(source.id.as_str()).map(|&parent| parent.to_owned());
        }
    }
}

/// Lists the sessions of a database; `false` if there is none.
fn survey_database(survey: &mut Survey, path: &Path, kin: &mut Kin) -> bool {
    let root = survey.root_path();
    match read_database(&root, path, kin) {
        Ok((sessions, schema)) => {
            survey.ready.extend(sessions);
            if schema > KNOWN_SCHEMA {
                let reason =
                    format!("schema {schema} is newer than {KNOWN_SCHEMA}: it may hold more");
                survey.problems.push(SurveyProblem { path: path.to_owned(), reason });
            }
        }
        Err(error) if error.is_absent() => return false,
        Err(error) => survey.note_problem(path, &error),
    }
    true
}

type Sessions = Vec<(TranscriptSource, TranscriptDigest)>;

fn read_database(
    root: &Arc<Path>,
    path: &Path,
    kin: &mut Kin,
) -> Result<(Sessions, i64), ReadError> {
    let connection = database::open_read_only(root, path)?;
    // One snapshot for all queries: a session must not change between its row and its events.
    let snapshot = connection.unchecked_transaction()?;
    let stamp = crate::files::stamp_path(path).unwrap_or_default();
    let store = Store::new(&snapshot)?;
    let mut statement = store.select_windows("order by created, session")?;
    let mut rows = statement.query([])?;
    let mut sessions = Vec::new();
    while let Some(row) = rows.next()? {
        let window = Window::new(row)?;
        let (digest, bytes) = store.read_window(&window)?;
        kin.in_database.insert(window.id.clone(), Time::from_millis(window.updated));
        if let Some(key) = window.spawned_by {
            kin.spawned.push((window.id.clone(), key));
        }
        let source = TranscriptSource {
            bytes: Some(bytes),
            ..TranscriptSource::from_file(window.id, root, path.to_owned(), stamp, DATABASE)
        };
        sessions.push((source, digest));
    }
    let mut nodes =
        snapshot.prepare("select session_key, current_session_id from session_nodes")?;
    let mut rows = nodes.query([])?;
    while let Some(row) = rows.next()? {
        kin.current.insert(row.get(0)?, row.get(1)?);
    }
    Ok((sessions, store.schema))
}

/// An agent's database whose schema is known.
struct Store<'a> {
    connection: &'a Connection,
    schema: i64,
    nodes: Vec<String>,
    windows: Vec<String>,
    events: Vec<String>,
}

/// A session: a row of `session_windows`, with the row of `session_nodes` for its key.
struct Window {
    id: String,
    key: String,
    created: i64,
    updated: i64,
    title: Option<String>,
    model: Option<String>,
    spawned_by: Option<String>,
}

impl Window {
    fn new(row: &Row<'_>) -> Result<Self, ReadError> {
        let text = |index| database::text_at(row, index);
        let number = |index| row.get::<_, i64>(index).unwrap_or(0);
        Ok(Self {
            id: row.get(0)?,
            key: row.get(1)?,
            created: number(2),
            updated: number(3),
            title: text(4).or(text(5)),
            model: text(6),
            spawned_by: text(7),
        })
    }
}

impl<'a> Store<'a> {
    fn new(connection: &'a Connection) -> Result<Self, ReadError> {
        let schema = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let columns = |table: &str, required: &[&str]| {
            database::table_columns(connection, table, required).map_err(|error| {
                ReadError::unknown_format(format!(
                    "{error} (version {schema}, known is {KNOWN_SCHEMA})"
                ))
            })
        };
        Ok(Self {
            connection,
            schema,
            nodes: columns("session_nodes", &["session_key", "current_session_id"])?,
            windows: columns("session_windows", &["session_id", "session_key", "updated_at"])?,
            events: columns("transcript_events", &["session_id", "seq", "event_json"])?,
        })
    }

    fn select_windows(&self, which: &str) -> Result<rusqlite::Statement<'a>, ReadError> {
        let column = |table: &str, columns: &[String], name: &str| {
            let known = columns.iter().any(|column| column == name);
            if known { format!("{table}.{name}") } else { "null".to_owned() }
        };
        let node = |name| column("n", &self.nodes, name);
        let window = |name| column("w", &self.windows, name);
        // A key whose session has not been written to yet has no window.
        Ok(self.connection.prepare(&format!(
            "select coalesce(w.session_id, n.current_session_id) as session, \
             coalesce(w.session_key, n.session_key), coalesce({}, {}) as created, \
             coalesce(w.updated_at, {}), {}, coalesce({}, {}), {}, coalesce({}, {}) \
             from session_windows w full join session_nodes n on n.session_key = w.session_key \
             {which}",
            window("created_at"),
            node("created_at"),
            node("updated_at"),
            node("label"),
            node("display_name"),
            window("display_name"),
            window("model"),
            window("spawned_by"),
            node("spawned_by"),
        ))?)
    }

    /// What the session's rows say, and how many bytes its events have.
    fn read_window(&self, window: &Window) -> Result<(TranscriptDigest, u64), ReadError> {
        let mut reading = OpenClawReading::new(Some(window.key.clone()));
        reading.digest.title = window.title.as_deref().map(shorten_title);
        reading.chosen_model.clone_from(&window.model);
        if window.created > 0 {
            reading.digest.widen_span(Time::from_millis(window.created));
        }
        let bytes = self.each_event(&window.id, 0, |_, event| match event {
            Some(event) => reading.read_event(event),
            None => reading.digest.damage.broken += 1,
        })?;
        if bytes == 0 && window.updated > 0 {
            reading.digest.widen_span(Time::from_millis(window.updated));
        }
        Ok((reading.into_digest(), bytes))
    }

    /// Hands out the events of a session from number `from` on; `None` is one that cannot be
    /// unpacked. Returns the bytes that they take.
    fn each_event(
        &self,
        session: &str,
        from: u64,
        mut each: impl FnMut(u64, Option<&[u8]>),
    ) -> Result<u64, ReadError> {
        let packed = if self.events.iter().any(|column| column == "event_zstd") {
            database::bounded_column("event_zstd")
        } else {
            "null".to_owned()
        };
        let query = format!(
            "select seq, {}, {packed} from transcript_events \
             where session_id = ?1 and seq >= ?2 order by seq",
            database::bounded_column("event_json"),
        );
        database::each_message_row(self.connection, &query, session, from, |seq, row| {
            let (plain, packed) =
                (database::column_bytes(row, 1)?, database::column_bytes(row, 2)?);
            match (plain, packed) {
                (Some(event), _) => each(seq, Some(event)),
                (None, Some(packed)) => {
                    each(seq, zstd::bulk::decompress(packed, MAX_EVENT_BYTES).ok().as_deref());
                }
                (None, None) => each(seq, None),
            }
            Ok(plain.or(packed).map_or(0, <[u8]>::len))
        })
    }
}

/// Which processes have an agent's database open.
fn survey_leases(survey: &mut Survey, stores: &[(&str, PathBuf)]) {
    let root = survey.root_path();
    let path = root.join("state/openclaw.sqlite");
    match read_leases(&root, &path, stores) {
        Ok(leases) => survey.registrations.extend(leases),
        Err(error) if error.is_absent() => {}
        Err(error) => {
            // Any of them may be open, in a process that cannot be read.
            survey.note_problem(&path, &error);
            let unknown = |(_, store): &(&str, PathBuf)| {
                lease_registration(&path, store.clone(), Identity::recorded_by_agent(None))
            };
            survey.registrations.extend(stores.iter().map(unknown));
        }
    }
}

fn read_leases(
    root: &Arc<Path>,
    path: &Path,
    stores: &[(&str, PathBuf)],
) -> Result<Vec<ProcessRegistration>, ReadError> {
    let connection = database::open_read_only(root, path)?;
    // The table is made by the first process that needs it.
    let table = "select 1 from sqlite_schema where name = 'agent_database_leases'";
    if !connection.prepare(table)?.exists([])? {
        return Ok(Vec::new());
    }
    let required = ["agent_id", "path", "owner_pid", "owner_start_time", "opened_at"];
    database::table_columns(&connection, "agent_database_leases", &required)?;
    let mut statement = connection.prepare(
        "select agent_id, path, owner_pid, owner_start_time, max(opened_at) \
         from agent_database_leases group by agent_id, path, owner_pid, owner_start_time",
    )?;
    let mut rows = statement.query([])?;
    let mut leases = Vec::new();
    while let Some(row) = rows.next()? {
        let number = |index| row.get::<_, i64>(index).ok();
        let agent: String = row.get(0)?;
        let identity = Identity {
            start: number(3).and_then(|ticks| u64::try_from(ticks).ok()),
            recorded_at: number(4).map(Time::from_millis),
            comm: Some("openclaw".to_owned()),
            ..Identity::recorded_by_agent(number(2).and_then(|pid| u32::try_from(pid).ok()))
        };
        let store = leased_store(&agent, PathBuf::from(row.get::<_, String>(1)?), stores);
        leases.push(lease_registration(path, store, identity));
    }
    Ok(leases)
}

/// The database a lease is about, as it was listed here: the very file, else the one of that agent
/// (a home that was moved or is mounted elsewhere).
fn leased_store(agent: &str, path: PathBuf, stores: &[(&str, PathBuf)]) -> PathBuf {
    let same_file = |store: &Path| {
        let (one, other) = (std::fs::canonicalize(&path), std::fs::canonicalize(store));
        matches!((one, other), (Ok(one), Ok(other)) if one == other)
    };
    let found = stores
        .iter()
        .find(|(_, store)| same_file(store))
        .or_else(|| stores.iter().find(|(name, _)| *name == agent));
    found.map_or_else(|| path.clone(), |(_, store)| store.clone())
}

fn lease_registration(source: &Path, store: PathBuf, identity: Identity) -> ProcessRegistration {
    ProcessRegistration {
        scope: RegistrationScope::Store(store),
        proof: RegistrationProof::Process { identity, holds: None },
        source: source.to_owned(),
        activity: None,
        waiting_for: None,
        digest: TranscriptDigest::default(),
    }
}
