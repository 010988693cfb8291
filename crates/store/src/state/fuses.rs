//! Fuses: one row each. Every change is a compare-and-swap on its state, so that nothing fires twice.

use model::control::fuses::{FuseRecord, FuseState};
use model::time::Time;
use rusqlite::{OptionalExtension, params};
use serde_json::json;

use super::tallies::has_table;
use super::{StateError, StateStore, publish_event};

impl StateStore {
    /// Fuses, the oldest first; without `all` only those from which something may still come.
    pub fn list_fuses(&self, all: bool) -> Result<Vec<FuseRecord>, StateError> {
        let failed = self.sqlite_error();
        if !has_table(&self.connection, "fuse").map_err(&failed)? {
            return Ok(Vec::new());
        }
        let query = match all {
            true => "select record from fuse order by id",
            false => {
                "select record from fuse indexed by pending_fuse \
                 where state in ('armed', 'firing') order by id"
            }
        };
        let mut statement = self.connection.prepare_cached(query).map_err(&failed)?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).map_err(&failed)?;
        let mut fuses = Vec::new();
        for row in rows {
            fuses.push(self.parse_record(&row.map_err(&failed)?)?);
        }
        Ok(fuses)
    }

    pub fn find_fuse(&self, id: &str) -> Result<Option<FuseRecord>, StateError> {
        if !has_table(&self.connection, "fuse").map_err(self.sqlite_error())? {
            return Ok(None);
        }
        let query = "select record from fuse where id = ?1";
        let found = self.connection.query_row(query, [id], |row| row.get::<_, String>(0));
        let text = found.optional().map_err(self.sqlite_error())?;
        text.map(|text| self.parse_record(&text)).transpose()
    }

    /// Adds a fuse.
    pub fn add_fuse(&mut self, fuse: &FuseRecord) -> Result<(), StateError> {
        let record = serde_json::to_string(fuse).unwrap_or_default();
        let row = "insert into fuse values (?1, ?2, ?3)";
        let done = self.connection.execute(row, params![fuse.id, fuse.state.as_str(), record]);
        done.map(drop).map_err(self.sqlite_error())
    }

    /// Changes a fuse that is in state `from`, and tells of it once nothing more can come of it. Returns whether
    /// it was in that state.
    pub fn change_fuse(
        &mut self,
        fuse: &FuseRecord,
        from: FuseState,
        now: Time,
    ) -> Result<bool, StateError> {
        let failed = self.sqlite_error();
        let transaction = self.connection.transaction().map_err(&failed)?;
        let record = serde_json::to_string(fuse).unwrap_or_default();
        let changed = transaction
            .execute(
                "update fuse set state = ?2, record = ?3 where id = ?1 and state = ?4",
                params![fuse.id, fuse.state.as_str(), record, from.as_str()],
            )
            .map_err(&failed)?;
        if changed == 0 {
            return Ok(false);
        }
        if !fuse.state.is_pending() && fuse.state != FuseState::Cancelled {
            let session = fuse.target.session_name();
            let told = session.as_ref().map_or(("ostler", ""), |name| (&name.agent, &name.id));
            let detail = json!({
                "fuse": fuse.id,
                "action": fuse.action.as_str(),
                "result": fuse.state.as_str(),
                "outcome": fuse.outcome,
                "cwd": fuse.target.directory(),
            });
            let id = sys::clock::unique_suffix(now);
            publish_event(&transaction, &id, now, "fuse.fired", told, &detail.to_string())
                .map_err(&failed)?;
        }
        transaction.commit().map_err(&failed)?;
        self.ring_bell();
        Ok(true)
    }
}
