//! What no other source knows: reports of hooks, what ended and what was kept of it.
//!
//! One connection writes, and its owner holds the writer lock (`flows::writer`); readers open
//! the file read-only and never wait for long. Every change is one transaction, and what it
//! publishes to others (the event rows) is in the same one.

use std::path::{Path, PathBuf};
use std::time::Duration;
use sys::dropped::NoteDropped;

use model::event::HookReport;
use model::rules::track::{HookTrack, TrackChange, TrackEnd};
use model::time::Time;
use model::wire::EventView;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, params};

mod cursors;
mod deliveries;
mod fuses;
mod groups;
mod locks;
mod pages;
mod permits;
mod pins;
mod tallies;
mod tracks;
mod webhooks;

pub use deliveries::DeliveryQuery;
pub use groups::MemberScope;
pub use locks::LockWrite;
pub use permits::AnsweredPermit;
pub use pins::{PinChange, read_pins};
pub use tallies::Tally;
use tracks::{count_duration, load_track, newest_within, parse_track, save_track};

/// Each step brings the tables from one version to the next; steps are only ever added.
const MIGRATIONS: &[&str] = &[
    "
    create table event (
        seq integer primary key autoincrement, id text not null unique,
        at integer not null, kind text not null,
        agent text not null, session text not null, body text not null
    );
    create table session (
        agent text not null, id text not null, track text not null,
        open integer not null, condensed integer not null, ended_at integer,
        primary key (agent, id)
    ) without rowid;
    create index open_session on session (agent, id) where open = 1;
    create index uncondensed_session on session (agent, id) where open = 0 and condensed = 0;
    create index ended_session on session (ended_at) where open = 0;
    create table turn (
        agent text not null, session text not null, number integer not null,
        started_at integer not null, ended_at integer, owner text,
        primary key (agent, session, number)
    ) without rowid;
    create table spool (ino integer primary key, offset integer not null, tail blob not null);
    create table kept (
        agent text not null, session text not null, at integer not null, manifest text not null,
        primary key (agent, session)
    ) without rowid;
",
    "
    alter table session add column cwd text;
    update session set cwd = json_extract(track, '$.cwd');
    create index ended_session_in on session (cwd, ended_at) where ended_at is not null;
",
    "
    create table pin (
        agent text not null, session text not null, at integer not null, note text,
        primary key (agent, session)
    ) without rowid;
",
    "
    drop table turn;
",
    include_str!("state/cursors_and_tallies.sql"),
    include_str!("state/locks_and_fuses.sql"),
    deliveries::DELIVERY_TABLE,
    "
    create table webhook (id text primary key, record text not null) without rowid;
    create table store_identity (id text not null);
    insert into store_identity values (lower(hex(randomblob(8))));
",
    pages::KEPT_TAB_TABLE,
    groups::GROUP_TABLE,
];

/// How long another connection's transaction is waited for.
const SQLITE_BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// SQLite said no.
    #[error("the store {} cannot be used: {source}", path.display())]
    Sqlite { path: PathBuf, source: rusqlite::Error },
    /// Another version of ostler wrote it.
    #[error(
        "the store {} was written by a newer ostler (version {found} of its tables, \
         this one knows {known}): update this program, or use that one", path.display()
    )]
    Newer {
        path: PathBuf,
        /// What it is.
        found: i64,
        /// The newest that is understood.
        known: i64,
    },
    /// Its directory is not ours alone.
    #[error(transparent)]
    NotPrivate(#[from] sys::private::PrivateError),
    /// A row cannot be understood.
    #[error("the store {} holds a row that cannot be understood: {reason}", path.display())]
    Row {
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// The store of one home.
#[derive(Debug)]
pub struct StateStore {
    connection: Connection,
    path: PathBuf,
}

/// How far a file of the spool has been taken in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpoolMark {
    pub ino: u64,
    /// Everything before has been taken in.
    pub offset: u64,
    /// The bytes just before, so that another file under the same number is not mistaken for it.
    pub tail: Vec<u8>,
}

/// One session as hooks told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackedSession {
    /// The adapter's id.
    pub agent: String,
    /// The agent's own session id.
    pub id: String,
    /// What was told.
    pub track: HookTrack,
}

/// The file that is written to after every change that others are told about. A commit cannot be
/// watched: SQLite makes it visible in shared memory, after it has written to its log.
fn bell_path(database: &Path) -> PathBuf {
    database.with_file_name("events.bell")
}

/// The file of a home.
pub fn database_path(home: &Path) -> PathBuf {
    home.join("ostler.db")
}

impl StateStore {
    /// Opens the store for writing, making it if need be. Only the writer may.
    pub fn open(home: &Path) -> Result<Self, StateError> {
        sys::private::create_private_dir(home)?;
        let path = database_path(home);
        // SQLite would make it readable for everyone.
        sys::append::append_bytes(&path, b"")
            .map_err(|source| sys::private::PrivateError::Io { path: path.clone(), source })?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut state = Self::open_connection(path, flags)?;
        state.migrate()?;
        // A writer that was killed may have had no time to.
        state.ring_bell();
        Ok(state)
    }

    /// Opens the store for reading. `None` if there is none yet.
    pub fn open_read_only(home: &Path) -> Result<Option<Self>, StateError> {
        let path = database_path(home);
        if !path.exists() {
            return Ok(None);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let state = Self::open_connection(path, flags)?;
        match state.schema_version()? {
            0 => Ok(None),
            _ => Ok(Some(state)),
        }
    }

    fn open_connection(path: PathBuf, flags: OpenFlags) -> Result<Self, StateError> {
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open_with_flags(&path, flags)?;
            connection.busy_timeout(SQLITE_BUSY_TIMEOUT)?;
            Ok(connection)
        };
        let connection = match open() {
            Ok(connection) => connection,
            Err(source) => return Err(StateError::Sqlite { path, source }),
        };
        Ok(Self { connection, path })
    }

    /// Tells followers of the events that there may be new ones.
    fn ring_bell(&self) {
        use std::os::unix::fs::OpenOptionsExt;

        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        // Followers are not woken; the events are there all the same.
        options
            .open(bell_path(&self.path))
            .and_then(|mut bell| std::io::Write::write_all(&mut bell, b"\n"))
            .note_dropped("ringing the bell of the events");
    }

    fn sqlite_error(&self) -> impl Fn(rusqlite::Error) -> StateError + use<> {
        let path = self.path.clone();
        move |source| StateError::Sqlite { path: path.clone(), source }
    }

    fn schema_version(&self) -> Result<i64, StateError> {
        let found = self
            .connection
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .map_err(self.sqlite_error())?;
        let known = MIGRATIONS.len() as i64;
        if found > known {
            return Err(StateError::Newer { path: self.path.clone(), found, known });
        }
        Ok(found)
    }

    fn migrate(&mut self) -> Result<(), StateError> {
        let failed = self.sqlite_error();
        let version = self.schema_version()?;
        // A commit that a power cut takes back is still in the spool: what was taken in is marked in
        // the same transaction, and files of the spool are removed only after a checkpoint.
        for pragma in [("journal_mode", "wal"), ("synchronous", "normal")] {
            self.connection
                .pragma_update_and_check(None, pragma.0, pragma.1, |_| Ok(()))
                .or_else(|error| match error {
                    rusqlite::Error::QueryReturnedNoRows => Ok(()),
                    error => Err(error),
                })
                .map_err(&failed)?;
        }
        for (index, step) in MIGRATIONS.iter().enumerate().skip(version as usize) {
            let transaction = self.connection.transaction().map_err(&failed)?;
            transaction.execute_batch(step).map_err(&failed)?;
            transaction.pragma_update(None, "user_version", index as i64 + 1).map_err(&failed)?;
            transaction.commit().map_err(&failed)?;
            tracing::info!(version = index + 1, "the store was migrated");
        }
        Ok(())
    }

    /// How far a file of the spool was taken in.
    pub fn spool_mark(&self, ino: u64) -> Result<Option<SpoolMark>, StateError> {
        self.connection
            .query_row("select offset, tail from spool where ino = ?1", [ino as i64], |row| {
                Ok(SpoolMark { ino, offset: row.get::<_, i64>(0)? as u64, tail: row.get(1)? })
            })
            .optional()
            .map_err(self.sqlite_error())
    }

    /// Forgets a file of the spool that is no more.
    pub fn forget_mark(&mut self, ino: u64) -> Result<(), StateError> {
        let done = self.connection.execute("delete from spool where ino = ?1", [ino as i64]);
        done.map(drop).map_err(self.sqlite_error())
    }

    /// Takes reports in, in their order, and with them the place up to which they were read. A
    /// report that is already there counts once. Returns how many were new.
    pub fn take_in(
        &mut self,
        reports: &[HookReport],
        mark: &SpoolMark,
    ) -> Result<usize, StateError> {
        let (failed, path) = (self.sqlite_error(), self.path.clone());
        let transaction = self.connection.transaction().map_err(&failed)?;
        let mut new = 0;
        let mut tracks: Vec<TrackedSession> = Vec::new();
        for report in reports {
            let body = serde_json::to_string(report).unwrap_or_default();
            let happening = report.hook.happening.as_str();
            let told = (report.agent.as_str(), report.hook.session.as_str());
            if !publish_event(&transaction, &report.id, report.at, happening, told, &body)
                .map_err(&failed)?
            {
                continue;
            }
            new += 1;
            if let Some(request) = &report.permit {
                permits::publish_request(&transaction, report, request).map_err(&failed)?;
            }
            let known = tracks.iter().position(|one| (one.agent.as_str(), one.id.as_str()) == told);
            let index = match known {
                Some(index) => index,
                None => {
                    let track = load_track(&transaction, &path, told)?.unwrap_or_default();
                    tracks.push(TrackedSession { agent: told.0.into(), id: told.1.into(), track });
                    tracks.len() - 1
                }
            };
            let change = tracks[index].track.apply_report(report);
            if change == TrackChange::Ended {
                count_duration(&transaction, told.0, &tracks[index].track).map_err(&failed)?;
            }
            if change == TrackChange::Revived {
                let condensed = "update session set condensed = 0 where agent = ?1 and id = ?2";
                transaction.execute(condensed, [told.0, told.1]).map_err(&failed)?;
            }
        }
        for tracked in &tracks {
            save_track(&transaction, tracked).map_err(&failed)?;
        }
        transaction
            .execute(
                "insert or replace into spool values (?1, ?2, ?3)",
                params![mark.ino as i64, mark.offset as i64, mark.tail],
            )
            .map_err(&failed)?;
        transaction.commit().map_err(&failed)?;
        if new > 0 {
            self.ring_bell();
        }
        Ok(new)
    }

    pub fn find_track(&self, agent: &str, id: &str) -> Result<Option<HookTrack>, StateError> {
        load_track(&self.connection, &self.path, (agent, id))
    }

    /// Every session that is not known to be over.
    pub fn open_sessions(&self) -> Result<Vec<TrackedSession>, StateError> {
        self.query_sessions(
            "select agent, id, track from session indexed by open_session where open = 1",
            &[],
        )
    }

    /// Every session that is over, and when it ended.
    pub fn recorded_ends(&self) -> Result<Vec<(String, String, Time)>, StateError> {
        let failed = self.sqlite_error();
        let query = "select agent, id, ended_at from session indexed by ended_session \
                     where open = 0 and ended_at is not null";
        let mut statement = self.connection.prepare_cached(query).map_err(&failed)?;
        let end = |row: &rusqlite::Row<'_>| {
            Ok((row.get(0)?, row.get(1)?, Time::from_millis(row.get(2)?)))
        };
        let ends = statement.query_map([], end).map_err(&failed)?;
        ends.collect::<Result<_, _>>().map_err(&failed)
    }

    /// Sessions that are over and have not been condensed.
    pub fn uncondensed_sessions(&self) -> Result<Vec<TrackedSession>, StateError> {
        self.query_sessions(
            "select agent, id, track from session indexed by uncondensed_session \
             where open = 0 and condensed = 0",
            &[],
        )
    }

    /// Sessions that ended since, in a directory or below it if one is named, the newest first, at most
    /// so many.
    pub fn ended_sessions(
        &self,
        since: Time,
        within: Option<&str>,
        most: usize,
    ) -> Result<Vec<TrackedSession>, StateError> {
        let since = since.as_millis();
        let Some(directory) = within else {
            return self.query_sessions(
                &format!(
                    "select agent, id, track from session indexed by ended_session \
                     where open = 0 and ended_at >= {since} order by ended_at desc limit {most}"
                ),
                &[],
            );
        };
        // Everything below it is between its name with a slash and its name with what follows one.
        let name = directory.trim_end_matches('/');
        let (below, beyond) = (format!("{name}/"), format!("{name}0"));
        // The column came with the second version, and only a writer may bring an older store up to it.
        let cwd = if self.schema_version()? < 2 { "json_extract(track, '$.cwd')" } else { "cwd" };
        self.query_sessions(&newest_within(cwd, since, most), &[directory, &below, &beyond])
    }

    fn query_sessions(
        &self,
        query: &str,
        values: &[&str],
    ) -> Result<Vec<TrackedSession>, StateError> {
        let failed = self.sqlite_error();
        let mut statement = self.connection.prepare_cached(query).map_err(&failed)?;
        let mut rows = statement.query(rusqlite::params_from_iter(values)).map_err(&failed)?;
        let mut sessions = Vec::new();
        while let Some(row) = rows.next().map_err(&failed)? {
            let (agent, id, text): (String, String, String) = row
                .get(0)
                .and_then(|agent| Ok((agent, row.get(1)?, row.get(2)?)))
                .map_err(&failed)?;
            let track = parse_track(&self.path, &text)?;
            sessions.push(TrackedSession { agent, id, track });
        }
        Ok(sessions)
    }

    /// Marks a session as exited, if `still` says so of what the store holds now. Its end is the last
    /// report or the last other `evidence` of it. Returns the end.
    pub fn mark_exited(
        &mut self,
        agent: &str,
        id: &str,
        evidence: Option<Time>,
        now: Time,
        still: impl FnOnce(&HookTrack) -> bool,
    ) -> Result<Option<TrackEnd>, StateError> {
        let (failed, path) = (self.sqlite_error(), self.path.clone());
        let transaction = self.connection.transaction().map_err(&failed)?;
        let Some(mut track) = load_track(&transaction, &path, (agent, id))?.filter(still) else {
            return Ok(None);
        };
        track.last_sign_at = track.last_sign_at.max(evidence.filter(|evidence| *evidence <= now));
        if track.mark_exited() != TrackChange::Ended {
            return Ok(None);
        }
        let Some(end) = track.end.clone() else { return Ok(None) };
        count_duration(&transaction, agent, &track).map_err(&failed)?;
        let tracked = TrackedSession { agent: agent.into(), id: id.into(), track };
        save_track(&transaction, &tracked).map_err(&failed)?;
        let body = serde_json::to_string(&end).unwrap_or_default();
        publish_event(
            &transaction,
            &sys::clock::unique_suffix(now),
            now,
            "exited",
            (agent, id),
            &body,
        )
        .map_err(&failed)?;
        transaction.commit().map_err(&failed)?;
        self.ring_bell();
        Ok(Some(end))
    }

    /// Notes what was kept of a session. `at` is the end that was condensed: a session that has been
    /// revived since stays uncondensed.
    pub fn mark_condensed(
        &mut self,
        agent: &str,
        id: &str,
        end: Option<&TrackEnd>,
        now: Time,
        manifest: &str,
    ) -> Result<bool, StateError> {
        let (failed, path) = (self.sqlite_error(), self.path.clone());
        let transaction = self.connection.transaction().map_err(&failed)?;
        let known = load_track(&transaction, &path, (agent, id))?;
        if known.is_none_or(|track| track.end.as_ref() != end) {
            return Ok(false);
        }
        transaction
            .execute(
                "insert or replace into kept values (?1, ?2, ?3, ?4)",
                params![agent, id, now.as_millis(), manifest],
            )
            .map_err(&failed)?;
        transaction
            .execute("update session set condensed = 1 where agent = ?1 and id = ?2", [agent, id])
            .map_err(&failed)?;
        let unique = sys::clock::unique_suffix(now);
        publish_event(&transaction, &unique, now, "condensed", (agent, id), "{}")
            .map_err(&failed)?;
        transaction.commit().map_err(&failed)?;
        self.ring_bell();
        Ok(true)
    }

    /// Notes what was kept of a session that no hook told of, unless something of it is noted already.
    pub fn note_kept(
        &self,
        agent: &str,
        id: &str,
        now: Time,
        manifest: &str,
    ) -> Result<(), StateError> {
        let failed = self.sqlite_error();
        self.connection
            .execute(
                "insert or ignore into kept values (?1, ?2, ?3, ?4)",
                params![agent, id, now.as_millis(), manifest],
            )
            .map_err(&failed)?;
        Ok(())
    }

    /// What was kept of every session, as manifests, the newest first.
    pub fn list_kept(&self) -> Result<Vec<String>, StateError> {
        let failed = self.sqlite_error();
        let mut statement = self
            .connection
            .prepare("select manifest from kept order by at desc, agent, session")
            .map_err(&failed)?;
        let rows = statement.query_map([], |row| row.get(0)).map_err(&failed)?;
        rows.collect::<rusqlite::Result<_>>().map_err(&failed)
    }

    /// Events after `cursor`, in order, at most so many.
    pub fn events_after(&self, cursor: i64, limit: usize) -> Result<Vec<EventView>, StateError> {
        let failed = self.sqlite_error();
        let mut statement = self
            .connection
            .prepare_cached(
                "select seq, at, kind, agent, session, body from event where seq > ?1 \
                 order by seq limit ?2",
            )
            .map_err(&failed)?;
        let rows = statement
            .query_map(params![cursor, limit as i64], |row| {
                let body: String = row.get(5)?;
                Ok(EventView {
                    cursor: row.get(0)?,
                    at: Time::from_millis(row.get(1)?),
                    kind: row.get(2)?,
                    agent: row.get(3)?,
                    session: row.get(4)?,
                    detail: serde_json::from_str(&body).unwrap_or_default(),
                })
            })
            .map_err(&failed)?;
        rows.collect::<rusqlite::Result<_>>().map_err(&failed)
    }

    /// The newest event's cursor; 0 when there is none.
    pub fn newest_event(&self) -> Result<i64, StateError> {
        let newest = "select coalesce(max(seq), 0) from event";
        self.connection.query_row(newest, [], |row| row.get(0)).map_err(self.sqlite_error())
    }

    /// How many sessions are over and not condensed.
    pub fn count_uncondensed(&self) -> Result<u64, StateError> {
        let query = "select count(*) from session indexed by uncondensed_session \
                     where open = 0 and condensed = 0";
        let count = self.connection.query_row(query, [], |row| row.get::<_, i64>(0));
        count.map(|count| count as u64).map_err(self.sqlite_error())
    }

    /// What SQLite finds wrong with the file; empty when it is sound.
    pub fn check_integrity(&self) -> Result<Vec<String>, StateError> {
        let failed = self.sqlite_error();
        let mut statement = self.connection.prepare("pragma quick_check").map_err(&failed)?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).map_err(&failed)?;
        let found: Vec<String> = rows.collect::<rusqlite::Result<_>>().map_err(&failed)?;
        Ok(found.into_iter().filter(|line| line != "ok").collect())
    }

    /// Makes everything committed so far survive a power cut.
    pub fn checkpoint(&mut self) -> Result<(), StateError> {
        let done = self.connection.query_row("pragma wal_checkpoint(full)", [], |_| Ok(()));
        done.map_err(self.sqlite_error())
    }
}

/// Adds one event, unless it is there already. Returns whether it was added.
fn publish_event(
    transaction: &Transaction<'_>,
    id: &str,
    at: Time,
    kind: &str,
    (agent, session): (&str, &str),
    body: &str,
) -> rusqlite::Result<bool> {
    let added = transaction
        .prepare_cached(
            "insert or ignore into event (id, at, kind, agent, session, body) \
             values (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![id, at.as_millis(), kind, agent, session, body])?;
    if added == 1 {
        tallies::count_event(transaction, kind, agent, body)?;
    }
    Ok(added == 1)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod upgrade_tests;
