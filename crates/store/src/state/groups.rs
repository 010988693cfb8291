//! Members of launch groups: one row each, open until its process is proven to be gone.

use model::control::groups::GroupMember;
use model::time::Time;
use rusqlite::params;
use serde_json::json;

use super::tallies::has_table;
use super::{StateError, StateStore, publish_event};

/// The table, as a migration.
pub(super) const GROUP_TABLE: &str = "
    create table group_member (
        name text not null, slot text not null, open integer not null, record text not null,
        primary key (name, slot)
    ) without rowid;
    create index open_member on group_member (name) where open = 1;
";

/// Which members are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberScope<'a> {
    /// All of them.
    Every,
    /// Those that are not known to be over.
    Open,
    /// Those of one group.
    Of(&'a str),
}

impl StateStore {
    /// Members, the newest first. A store from before there were any has none.
    pub fn list_members(&self, scope: MemberScope<'_>) -> Result<Vec<GroupMember>, StateError> {
        let failed = self.sqlite_error();
        if !has_table(&self.connection, "group_member").map_err(&failed)? {
            return Ok(Vec::new());
        }
        let (query, name) = match scope {
            MemberScope::Every => ("select record from group_member where ?1 = ''", ""),
            MemberScope::Open => (
                "select record from group_member indexed by open_member where open = 1 and ?1 = ''",
                "",
            ),
            MemberScope::Of(name) => ("select record from group_member where name = ?1", name),
        };
        let mut statement = self.connection.prepare_cached(query).map_err(&failed)?;
        let rows = statement.query_map([name], |row| row.get::<_, String>(0)).map_err(&failed)?;
        let mut members: Vec<GroupMember> = Vec::new();
        for row in rows {
            members.push(self.parse_record(&row.map_err(&failed)?)?);
        }
        members.sort_by(|one, other| other.id.cmp(&one.id));
        Ok(members)
    }

    /// Takes the places of members, all or none. Their previous holders are forgotten.
    pub fn put_members(&mut self, members: &[GroupMember]) -> Result<(), StateError> {
        let failed = self.sqlite_error();
        let transaction = self.connection.transaction().map_err(&failed)?;
        for member in members {
            let record = serde_json::to_string(member).unwrap_or_default();
            let name = member.group.as_deref().unwrap_or_default();
            transaction
                .execute(
                    "insert or replace into group_member values (?1, ?2, 1, ?3)",
                    params![name, member.slot, record],
                )
                .map_err(&failed)?;
        }
        transaction.commit().map_err(&failed)
    }

    /// Writes down how far a member has come, if it still has its place.
    pub fn change_member(&mut self, member: &GroupMember) -> Result<bool, StateError> {
        let record = serde_json::to_string(member).unwrap_or_default();
        let name = member.group.as_deref().unwrap_or_default();
        let changed = self.connection.execute(
            "update group_member set record = ?3 where name = ?1 and slot = ?2 \
             and json_extract(record, '$.id') = ?4",
            params![name, member.slot, record, member.id],
        );
        changed.map(|changed| changed == 1).map_err(self.sqlite_error())
    }

    /// Closes members that are over; a group of which none is open any more is done, which is told once.
    pub fn close_members(&mut self, over: &[GroupMember], now: Time) -> Result<(), StateError> {
        let failed = self.sqlite_error();
        let transaction = self.connection.transaction().map_err(&failed)?;
        let mut groups: Vec<&str> = Vec::new();
        for member in over {
            let name = member.group.as_deref().unwrap_or_default();
            let closed = transaction
                .execute(
                    "update group_member set open = 0 where name = ?1 and slot = ?2 and open = 1 \
                     and json_extract(record, '$.id') = ?3",
                    params![name, member.slot, member.id],
                )
                .map_err(&failed)?;
            if closed == 1 && !name.is_empty() && !groups.contains(&name) {
                groups.push(name);
            }
        }
        let mut told = false;
        for group in groups {
            let count = "select count(*), total(open) from group_member where name = ?1";
            let (slots, open): (i64, f64) = transaction
                .query_row(count, [group], |row| Ok((row.get(0)?, row.get(1)?)))
                .map_err(&failed)?;
            if open > 0.0 {
                continue;
            }
            let detail = json!({ "group": group, "slots": slots }).to_string();
            let id = sys::clock::unique_suffix(now);
            publish_event(&transaction, &id, now, "group.done", ("ostler", ""), &detail)
                .map_err(&failed)?;
            told = true;
        }
        transaction.commit().map_err(&failed)?;
        if told {
            self.ring_bell();
        }
        Ok(())
    }
}
