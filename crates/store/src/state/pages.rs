//! Browsers that stay signed in, and events of pages.

use model::page::{KeptTab, PageNote};
use model::time::Time;
use rusqlite::params;
use serde_json::json;

use super::{StateError, StateStore, publish_event};

/// What the migration brought.
pub(super) const KEPT_TAB_TABLE: &str = "
    create table kept_tab (name text primary key, record text not null) without rowid;
";

impl StateStore {
    /// All browsers that were kept, also those whose time is over.
    pub fn list_kept_tabs(&self) -> Result<Vec<KeptTab>, StateError> {
        let failed = self.sqlite_error();
        let query = "select count(*) from sqlite_schema where name = 'kept_tab'";
        let tables: i64 =
            self.connection.query_row(query, [], |row| row.get(0)).map_err(&failed)?;
        if tables == 0 {
            // A store from before: only a writer may bring it up to date.
            return Ok(Vec::new());
        }
        let mut statement =
            self.connection.prepare_cached("select record from kept_tab").map_err(&failed)?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).map_err(&failed)?;
        let mut tabs: Vec<KeptTab> = Vec::new();
        for row in rows {
            let text = row.map_err(&failed)?;
            tabs.push(serde_json::from_slice(text.as_bytes()).map_err(|error| {
                StateError::Row { path: self.path.clone(), reason: format!("a kept tab: {error}") }
            })?);
        }
        tabs.sort_by_key(|tab| tab.since);
        Ok(tabs)
    }

    /// Keeps a browser signed in, as it is now; those whose time is over go.
    pub fn keep_tab(&mut self, tab: &KeptTab, now: Time) -> Result<(), StateError> {
        for over in self.list_kept_tabs()?.into_iter().filter(|one| one.until <= now) {
            self.forget_tab(&over.name)?;
        }
        let text = serde_json::to_string(tab).unwrap_or_default();
        let row = "insert or replace into kept_tab values (?1, ?2)";
        let kept = self.connection.execute(row, params![tab.name, text]);
        kept.map(drop).map_err(self.sqlite_error())
    }

    /// Forgets a browser.
    pub fn forget_tab(&mut self, name: &str) -> Result<(), StateError> {
        let row = "delete from kept_tab where name = ?1";
        self.connection.execute(row, [name]).map(drop).map_err(self.sqlite_error())
    }

    /// Tells who did what from a page.
    pub fn note_page_act(&mut self, note: &PageNote, now: Time) -> Result<(), StateError> {
        let failed = self.sqlite_error();
        let transaction = self.connection.transaction().map_err(&failed)?;
        let mut detail = json!({ "by": note.by });
        if let Some(command) = &note.command {
            detail["command"] = json!(command);
        }
        if let Some(outcome) = &note.outcome {
            detail["outcome"] = json!(outcome);
        }
        let id = "select 'page.' || lower(hex(randomblob(16)))";
        let id: String = transaction.query_row(id, [], |row| row.get(0)).map_err(&failed)?;
        let told = (note.agent.as_str(), note.session.as_str());
        let kind = note.act.event_kind();
        publish_event(&transaction, &id, now, kind, told, &detail.to_string()).map_err(&failed)?;
        transaction.commit().map_err(&failed)?;
        self.ring_bell();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_kept_tab_is_there_until_it_is_forgotten_or_its_time_is_over() {
        let private: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        let home = tempfile::Builder::new().permissions(private).tempdir().unwrap();
        let mut state = StateStore::open(home.path()).unwrap();
        let at = |seconds| Time::from_millis(seconds * 1000);
        let tab = |name: &str, until: i64| KeptTab {
            name: name.to_owned(),
            token_hash: "ab".repeat(32),
            right: "watch".to_owned(),
            since: at(1),
            until: at(until),
        };
        state.keep_tab(&tab("tab-1", 10), at(1)).unwrap();
        state.keep_tab(&tab("tab-2", 100), at(1)).unwrap();
        assert_eq!(state.list_kept_tabs().unwrap().len(), 2);
        state.keep_tab(&tab("tab-3", 100), at(50)).unwrap();
        let names: Vec<String> =
            state.list_kept_tabs().unwrap().into_iter().map(|tab| tab.name).collect();
        assert_eq!(names, ["tab-2", "tab-3"]);
        state.forget_tab("tab-2").unwrap();
        drop(state);
        let state = StateStore::open_read_only(home.path()).unwrap().unwrap();
        assert_eq!(state.list_kept_tabs().unwrap(), [tab("tab-3", 100)]);
        assert!(Duration::from_secs(86_400) < model::page::KEPT_TAB_LIFETIME);
    }
}
