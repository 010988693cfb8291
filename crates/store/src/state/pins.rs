//! Pins: what a person said is never to be collected. One row each, changed one at a time.

use std::path::Path;

use model::rules::pins::{PinRecord, Pins};
use model::session::SessionName;
use model::time::Time;
use rusqlite::{OptionalExtension, Row, params};

use super::{StateError, StateStore};

/// The version of the tables that brought pins.
const PINS_SCHEMA_VERSION: i64 = 3;

/// The pins of a home; those of one that cannot be read are unknown, and protect everything.
pub fn read_pins(home: &Path) -> Pins {
    let read = StateStore::open_read_only(home);
    Pins::from_read(
        read.and_then(|state| state.as_ref().map(StateStore::list_pins).transpose())
            .map(Option::unwrap_or_default),
    )
}

/// What became of a session that was to be pinned, or not to be pinned any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinChange {
    /// Its pin, if it has one now.
    pub pin: Option<PinRecord>,
    /// Whether that is new.
    pub changed: bool,
}

const SELECT_PINS: &str = "select agent, session, at, note from pin";

fn pin_from_row(row: &Row<'_>) -> rusqlite::Result<PinRecord> {
    Ok(PinRecord {
        session: SessionName { agent: row.get(0)?, id: row.get(1)? },
        at: Time::from_millis(row.get(2)?),
        note: row.get(3)?,
    })
}

impl StateStore {
    /// All pins, the newest first.
    pub fn list_pins(&self) -> Result<Vec<PinRecord>, StateError> {
        // Only a writer may bring an older store up to date, and without one there are no pins.
        if self.schema_version()? < PINS_SCHEMA_VERSION {
            return Ok(Vec::new());
        }
        let failed = self.sqlite_error();
        let query = format!("{SELECT_PINS} order by at desc, agent, session");
        let mut statement = self.connection.prepare_cached(&query).map_err(&failed)?;
        let pins = statement.query_map([], pin_from_row).map_err(&failed)?;
        pins.collect::<rusqlite::Result<_>>().map_err(&failed)
    }

    /// The pin of one session.
    pub fn pin_of(&self, session: &SessionName) -> Result<Option<PinRecord>, StateError> {
        if self.schema_version()? < PINS_SCHEMA_VERSION {
            return Ok(None);
        }
        let failed = self.sqlite_error();
        let query = format!("{SELECT_PINS} where agent = ?1 and session = ?2");
        let mut statement = self.connection.prepare_cached(&query).map_err(&failed)?;
        let found = statement.query_row([&session.agent, &session.id], pin_from_row);
        found.optional().map_err(&failed)
    }

    /// Pins a session. One that is pinned already stays so from the time it was; a note replaces
    /// the one before.
    pub fn add_pin(
        &mut self,
        session: &SessionName,
        note: Option<&str>,
        now: Time,
    ) -> Result<PinChange, StateError> {
        let row = "insert into pin values (?1, ?2, ?3, ?4) \
                   on conflict do update set note = excluded.note \
                   where excluded.note is not null and excluded.note is not note";
        let values = params![session.agent, session.id, now.as_millis(), note];
        let rows = self.change_durably(row, values)?;
        Ok(PinChange { pin: self.pin_of(session)?, changed: rows > 0 })
    }

    /// Takes a pin away.
    pub fn remove_pin(&mut self, session: &SessionName) -> Result<PinChange, StateError> {
        let row = "delete from pin where agent = ?1 and session = ?2";
        let rows = self.change_durably(row, params![session.agent, session.id])?;
        Ok(PinChange { pin: None, changed: rows > 0 })
    }

    /// Changes a row, and comes back when it is on the disk: unlike a report, which is still in the
    /// spool, it could not be told again after a power cut.
    fn change_durably(
        &mut self,
        change: &str,
        values: impl rusqlite::Params,
    ) -> Result<usize, StateError> {
        let failed = self.sqlite_error();
        let pragma = |level: &str| {
            self.connection.pragma_update(None, "synchronous", level).map_err(self.sqlite_error())
        };
        pragma("full")?;
        let rows = self
            .connection
            .prepare_cached(change)
            .and_then(|mut statement| statement.execute(values))
            .map_err(failed);
        pragma("normal")?;
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MIGRATIONS, database_path};
    use super::*;

    fn a_home() -> tempfile::TempDir {
        tempfile::Builder::new().permissions(private()).tempdir().unwrap()
    }

    fn private() -> std::fs::Permissions {
        std::os::unix::fs::PermissionsExt::from_mode(0o700)
    }

    fn at(millis: i64) -> Time {
        Time::from_millis(millis)
    }

    #[test]
    fn a_pin_is_one_row_that_keeps_its_time_and_takes_a_new_note() {
        let home = a_home();
        let mut state = StateStore::open(home.path()).unwrap();
        let (one, other) = (SessionName::new("codex", "1"), SessionName::new("claude-code", "1"));
        let pinned = state.add_pin(&one, Some("the migration"), at(10)).unwrap();
        assert!(pinned.changed);
        assert!(!state.add_pin(&one, None, at(20)).unwrap().changed);
        assert!(!state.add_pin(&one, Some("the migration"), at(20)).unwrap().changed);
        let renoted = state.add_pin(&one, Some("the schema"), at(30)).unwrap();
        let pin =
            PinRecord { session: one.clone(), at: at(10), note: Some("the schema".to_owned()) };
        assert_eq!(renoted, PinChange { pin: Some(pin.clone()), changed: true });
        assert_eq!(state.pin_of(&other).unwrap(), None, "the same id of another agent");
        state.add_pin(&other, None, at(40)).unwrap();
        let names: Vec<SessionName> =
            state.list_pins().unwrap().into_iter().map(|pin| pin.session).collect();
        assert_eq!(names, [other, one.clone()]);
        assert!(state.remove_pin(&one).unwrap().changed);
        assert!(!state.remove_pin(&one).unwrap().changed);
        assert_eq!(state.pin_of(&one).unwrap(), None);
    }

    #[test]
    fn a_store_from_before_there_were_pins_has_none() {
        let home = a_home();
        let old = rusqlite::Connection::open(database_path(home.path())).unwrap();
        for step in &MIGRATIONS[..2] {
            old.execute_batch(step).unwrap();
        }
        old.pragma_update(None, "user_version", 2).unwrap();
        drop(old);
        let state = StateStore::open_read_only(home.path()).unwrap().unwrap();
        assert_eq!(state.list_pins().unwrap(), []);
        assert_eq!(state.pin_of(&SessionName::new("codex", "1")).unwrap(), None);
        let mut state = StateStore::open(home.path()).unwrap();
        assert!(state.add_pin(&SessionName::new("codex", "1"), None, at(1)).unwrap().changed);
    }
}
