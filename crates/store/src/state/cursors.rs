//! Cursors: how far a reader has read the events, by name. Moved before what follows from them is done,
//! so that it is done once.

use model::event::HookHappening;
use model::session::SessionName;
use rusqlite::{OptionalExtension, params};

use super::tallies::has_table;
use super::{StateError, StateStore};

impl StateStore {
    /// How far the reader of that name has read; `None` if it never has.
    pub fn read_cursor(&self, name: &str) -> Result<Option<i64>, StateError> {
        if !has_table(&self.connection, "cursor").map_err(self.sqlite_error())? {
            return Ok(None);
        }
        self.connection
            .query_row("select seq from cursor where name = ?1", [name], |row| row.get(0))
            .optional()
            .map_err(self.sqlite_error())
    }

    pub fn move_cursor(&mut self, name: &str, seq: i64) -> Result<(), StateError> {
        let row = "insert into cursor values (?1, ?2) on conflict do update set seq = ?2";
        self.connection.execute(row, params![name, seq]).map(drop).map_err(self.sqlite_error())
    }

    /// What the last report before that event said the session itself is doing.
    pub fn happening_before(
        &self,
        session: &SessionName,
        seq: i64,
    ) -> Result<Option<HookHappening>, StateError> {
        // From the newest on: of a session that has just reported it is not far away.
        let query = "select kind from event where seq < ?1 and agent = ?2 and session = ?3 \
                     and kind in ('session-start', 'turn-start', 'progress', 'waiting', 'turn-end', \
                                  'session-end', 'exited') \
                     and json_extract(body, '$.subagent') is null order by seq desc limit 1";
        let kind: Option<String> = self
            .connection
            .prepare_cached(query)
            .and_then(|mut statement| {
                let values = params![seq, session.agent, session.id];
                statement.query_row(values, |row| row.get(0)).optional()
            })
            .map_err(self.sqlite_error())?;
        let named = |kind: String| HookHappening::ALL.into_iter().find(|one| one.as_str() == kind);
        Ok(kind.and_then(named))
    }
}
