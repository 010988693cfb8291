//! Directory locks: one row each, under what names the directory wherever it is moved.

use model::control::locks::{DirectoryId, DirectoryLock};
use model::time::Time;
use rusqlite::{OptionalExtension, params};
use serde_json::Value;

use super::tallies::has_table;
use super::{StateError, StateStore, publish_event};

/// What becomes of a lock's row, and the event that tells of it.
#[derive(Debug)]
pub struct LockWrite<'a> {
    /// The row; `None` takes the lock away.
    pub lock: Option<&'a DirectoryLock>,
    pub directory: DirectoryId,
    /// The kind of the event; none is not published.
    pub event: Option<&'a str>,
    /// What it says.
    pub detail: Value,
}

impl StateStore {
    /// Every lock, the oldest first. A store from before there were any has none.
    pub fn list_locks(&self) -> Result<Vec<DirectoryLock>, StateError> {
        let failed = self.sqlite_error();
        if !has_table(&self.connection, "directory_lock").map_err(&failed)? {
            return Ok(Vec::new());
        }
        let query = "select record from directory_lock";
        let mut statement = self.connection.prepare_cached(query).map_err(&failed)?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).map_err(&failed)?;
        let mut locks = Vec::new();
        for row in rows {
            locks.push(self.parse_record::<DirectoryLock>(&row.map_err(&failed)?)?);
        }
        locks.sort_by_key(|lock| lock.taken_at);
        Ok(locks)
    }

    /// The lock of one directory.
    pub fn lock_of(&self, directory: &DirectoryId) -> Result<Option<DirectoryLock>, StateError> {
        let failed = self.sqlite_error();
        if !has_table(&self.connection, "directory_lock").map_err(&failed)? {
            return Ok(None);
        }
        let query = "select record from directory_lock where device = ?1 and inode = ?2";
        let key = params![directory.device as i64, directory.inode as i64];
        let text: Option<String> =
            self.connection.query_row(query, key, |row| row.get(0)).optional().map_err(&failed)?;
        let lock = text.map(|text| self.parse_record::<DirectoryLock>(&text)).transpose()?;
        Ok(lock.filter(|lock| lock.directory.is_same(directory)))
    }

    /// Writes a lock's row and its event, both or neither.
    pub fn write_lock(&mut self, write: &LockWrite<'_>, now: Time) -> Result<(), StateError> {
        let failed = self.sqlite_error();
        let transaction = self.connection.transaction().map_err(&failed)?;
        let (device, inode) = (write.directory.device as i64, write.directory.inode as i64);
        let changed = match write.lock {
            Some(lock) => transaction.execute(
                "insert or replace into directory_lock values (?1, ?2, ?3)",
                params![device, inode, serde_json::to_string(lock).unwrap_or_default()],
            ),
            None => transaction.execute(
                "delete from directory_lock where device = ?1 and inode = ?2",
                params![device, inode],
            ),
        };
        changed.map_err(&failed)?;
        if let Some(kind) = write.event {
            let (id, body) = (sys::clock::unique_suffix(now), write.detail.to_string());
            publish_event(&transaction, &id, now, kind, ("ostler", ""), &body).map_err(&failed)?;
        }
        transaction.commit().map_err(&failed)?;
        self.ring_bell();
        Ok(())
    }

    /// A row that was written as JSON.
    pub(super) fn parse_record<T: serde::de::DeserializeOwned>(
        &self,
        text: &str,
    ) -> Result<T, StateError> {
        serde_json::from_slice(text.as_bytes())
            .map_err(|error| StateError::Row { path: self.path.clone(), reason: error.to_string() })
    }
}
