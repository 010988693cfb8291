//! Webhooks: one row each, with how far it got.

use model::webhook::WebhookRecord;
use rusqlite::{OptionalExtension, params};

use super::{StateError, StateStore};

/// The tables that brought webhooks.
const WEBHOOK_TABLE: &str = "select count(*) from sqlite_schema where name = 'webhook'";

impl StateStore {
    /// Whether the store is from before there were webhooks: only a writer may bring it up to date.
    fn lacks_webhooks(&self) -> Result<bool, StateError> {
        let count: i64 = self
            .connection
            .query_row(WEBHOOK_TABLE, [], |row| row.get(0))
            .map_err(self.sqlite_error())?;
        Ok(count == 0)
    }

    /// All webhooks, the oldest first.
    pub fn list_webhooks(&self) -> Result<Vec<WebhookRecord>, StateError> {
        if self.lacks_webhooks()? {
            return Ok(Vec::new());
        }
        let failed = self.sqlite_error();
        let mut statement =
            self.connection.prepare_cached("select record from webhook").map_err(&failed)?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).map_err(&failed)?;
        let mut webhooks = Vec::new();
        for row in rows {
            webhooks.push(self.parse_webhook(&row.map_err(&failed)?)?);
        }
        webhooks.sort_by(|one, other| (one.added_at, &one.id).cmp(&(other.added_at, &other.id)));
        Ok(webhooks)
    }

    pub fn find_webhook(&self, id: &str) -> Result<Option<WebhookRecord>, StateError> {
        if self.lacks_webhooks()? {
            return Ok(None);
        }
        let query = "select record from webhook where id = ?1";
        let found = self.connection.query_row(query, [id], |row| row.get::<_, String>(0));
        let found = found.optional().map_err(self.sqlite_error())?;
        found.map(|text| self.parse_webhook(&text)).transpose()
    }

    fn parse_webhook(&self, text: &str) -> Result<WebhookRecord, StateError> {
        serde_json::from_slice(text.as_bytes()).map_err(|error| StateError::Row {
            path: self.path.clone(),
            reason: format!("a webhook: {error}"),
        })
    }

    /// Keeps a webhook as it is now.
    pub fn save_webhook(&mut self, webhook: &WebhookRecord) -> Result<(), StateError> {
        let text = serde_json::to_string(webhook).unwrap_or_default();
        let row = "insert or replace into webhook values (?1, ?2)";
        self.connection
            .prepare_cached(row)
            .and_then(|mut statement| statement.execute(params![webhook.id, text]))
            .map(drop)
            .map_err(self.sqlite_error())
    }

    /// Forgets a webhook; says whether there was one.
    pub fn forget_webhook(&mut self, id: &str) -> Result<bool, StateError> {
        let row = "delete from webhook where id = ?1";
        let rows = self.connection.execute(row, [id]).map_err(self.sqlite_error())?;
        Ok(rows > 0)
    }

    /// What names this store for ever: part of every message's id.
    pub fn store_identity(&self) -> Result<String, StateError> {
        if self.lacks_webhooks()? {
            return Ok(String::new());
        }
        let query = "select id from store_identity";
        self.connection.query_row(query, [], |row| row.get(0)).map_err(self.sqlite_error())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MIGRATIONS, database_path};
    use super::*;

    #[test]
    fn a_store_from_before_there_were_webhooks_has_none() {
        let private: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        let home = tempfile::Builder::new().permissions(private).tempdir().unwrap();
        let old = rusqlite::Connection::open(database_path(home.path())).unwrap();
        for step in &MIGRATIONS[..3] {
            old.execute_batch(step).unwrap();
        }
        old.pragma_update(None, "user_version", 3).unwrap();
        drop(old);
        let state = StateStore::open_read_only(home.path()).unwrap().unwrap();
        assert_eq!(state.list_webhooks().unwrap(), []);
        drop(state);
        let state = StateStore::open(home.path()).unwrap();
        assert_eq!(state.store_identity().unwrap().len(), 16);
    }
}
