//! Deliveries: what became of each prompt. One row each, without its text.

use model::control::delivery::{DeliveryRecord, TurnEnd};
use model::control::note::{ControlEvent, KeptDelivery, event_of_delivery};
use model::session::SessionName;
use model::time::Time;
use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::{StateError, StateStore, publish_event};

/// The version of the tables that brought deliveries.
const DELIVERIES_SCHEMA_VERSION: i64 = 7;

pub(super) const DELIVERY_TABLE: &str = "
    create table delivery (
        id text primary key, agent text not null, session text not null, at integer not null,
        key text, record text not null, sender text not null
    ) without rowid;
    create unique index delivery_key on delivery (agent, session, key) where key is not null;
    create index delivery_time on delivery (at);
    create index delivery_session on delivery (session, at);
";

/// Which deliveries are wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeliveryQuery<'a> {
    /// Of this session only.
    pub session: Option<&'a SessionName>,
    pub since: Option<Time>,
    /// At most so many.
    pub most: usize,
}

const SELECT_DELIVERIES: &str = "select record, sender from delivery";

impl StateStore {
    /// Notes a delivery as it stands, with the event that this is. Of a new one whose key another delivery
    /// of its session has, nothing is noted and that other one is returned.
    pub fn note_delivery(
        &mut self,
        kept: &KeptDelivery,
        now: Time,
    ) -> Result<Option<KeptDelivery>, StateError> {
        let failed = self.sqlite_error();
        let path = self.path.clone();
        let broken = |reason: String| StateError::Row { path: path.clone(), reason };
        let transaction = self.connection.transaction().map_err(&failed)?;
        let record = &kept.record;
        if let Some(key) = &record.key {
            let query = format!(
                "{SELECT_DELIVERIES} where agent = ?1 and session = ?2 and key = ?3 and id <> ?4"
            );
            let taken: Option<(String, String)> = transaction
                .query_row(&query, [&record.agent, &record.session, key, &record.id], two_texts)
                .optional()
                .map_err(&failed)?;
            if let Some(texts) = taken {
                return parse_kept(&texts).map(Some).map_err(broken);
            }
        }
        let before: Option<(String, String)> = transaction
            .query_row(&format!("{SELECT_DELIVERIES} where id = ?1"), [&record.id], two_texts)
            .optional()
            .map_err(&failed)?;
        let before = before.map(|texts| parse_kept(&texts)).transpose().map_err(broken)?;
        let encode = |value: serde_json::Result<String>| {
            value.map_err(|error| StateError::Row { path: path.clone(), reason: error.to_string() })
        };
        let row = encode(serde_json::to_string(record))?;
        let sender = encode(serde_json::to_string(&kept.sender))?;
        transaction
            .execute(
                "insert into delivery values (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
                 on conflict (id) do update set session = ?3, record = ?6, sender = ?7",
                params![
                    record.id,
                    record.agent,
                    record.session,
                    record.begun_at.as_millis(),
                    record.key,
                    row,
                    sender
                ],
            )
            .map_err(&failed)?;
        publish_changes(&transaction, before.as_ref().map(|kept| &kept.record), record, now)
            .map_err(&failed)?;
        transaction.commit().map_err(&failed)?;
        self.ring_bell();
        Ok(None)
    }

    /// Deliveries, the newest first.
    pub fn list_deliveries(
        &self,
        query: DeliveryQuery<'_>,
    ) -> Result<Vec<KeptDelivery>, StateError> {
        // Only a writer may bring an older store up to date, and without one there are no deliveries.
        if self.schema_version()? < DELIVERIES_SCHEMA_VERSION {
            return Ok(Vec::new());
        }
        let failed = self.sqlite_error();
        let since = query.since.map_or(i64::MIN, Time::as_millis);
        let (agent, session) = match query.session {
            Some(name) => (name.agent.as_str(), name.id.as_str()),
            None => ("", ""),
        };
        let filter =
            if query.session.is_some() { "agent = ?2 and session = ?3 and" } else { "?2 = ?3 and" };
        let text = format!(
            "{SELECT_DELIVERIES} where {filter} at >= ?1 order by at desc, id desc limit ?4"
        );
        let mut statement = self.connection.prepare_cached(&text).map_err(&failed)?;
        let most = i64::try_from(query.most).unwrap_or(i64::MAX);
        let rows = statement
            .query_map(params![since, agent, session, most], two_texts)
            .map_err(&failed)?;
        let rows: Vec<(String, String)> = rows.collect::<Result<_, _>>().map_err(&failed)?;
        let broken = |reason| StateError::Row { path: self.path.clone(), reason };
        rows.iter().map(|texts| parse_kept(texts).map_err(broken)).collect()
    }

    pub fn find_delivery(&self, id: &str) -> Result<Option<KeptDelivery>, StateError> {
        if self.schema_version()? < DELIVERIES_SCHEMA_VERSION {
            return Ok(None);
        }
        let query = format!("{SELECT_DELIVERIES} where id = ?1");
        let found = self.connection.query_row(&query, [id], two_texts).optional();
        let found = found.map_err(self.sqlite_error())?;
        let broken = |reason| StateError::Row { path: self.path.clone(), reason };
        found.map(|texts| parse_kept(&texts)).transpose().map_err(broken)
    }

    /// Adds an event of control to the stream.
    pub fn add_control_event(
        &mut self,
        kind: ControlEvent,
        session: &SessionName,
        detail: &serde_json::Value,
        now: Time,
    ) -> Result<(), StateError> {
        let failed = self.sqlite_error();
        let transaction = self.connection.transaction().map_err(&failed)?;
        let told = (session.agent.as_str(), session.id.as_str());
        let unique = sys::clock::unique_suffix(now);
        publish_event(&transaction, &unique, now, kind.as_str(), told, &detail.to_string())
            .map_err(&failed)?;
        transaction.commit().map_err(&failed)?;
        self.ring_bell();
        Ok(())
    }
}

fn two_texts(row: &Row<'_>) -> rusqlite::Result<(String, String)> {
    Ok((row.get(0)?, row.get(1)?))
}

fn parse_kept((record, sender): &(String, String)) -> Result<KeptDelivery, String> {
    let parse = || -> serde_json::Result<KeptDelivery> {
        Ok(KeptDelivery {
            record: serde_json::from_slice(record.as_bytes())?,
            sender: serde_json::from_slice(sender.as_bytes())?,
        })
    };
    parse().map_err(|error| error.to_string())
}

/// Tells what has changed: that it arrived or did not, and that a limit ended its turn.
fn publish_changes(
    transaction: &Transaction<'_>,
    before: Option<&DeliveryRecord>,
    record: &DeliveryRecord,
    now: Time,
) -> rusqlite::Result<()> {
    let told = (record.agent.as_str(), record.session.as_str());
    let is_limited = |record: &DeliveryRecord| {
        record.turn.as_ref().is_some_and(|turn| turn.end == TurnEnd::Limited)
    };
    let limited = is_limited(record) && !before.is_some_and(is_limited);
    let happened = [
        event_of_delivery(before.map(|before| before.state), record.state),
        limited.then_some(ControlEvent::Limited),
    ];
    for event in happened.into_iter().flatten() {
        let resets_at = record.turn.as_ref().and_then(|turn| turn.resets_at);
        let mut detail = serde_json::json!({
            "delivery": record.id,
            "state": record.state.as_str(),
            "channel": record.channel,
            "acceptedMs": record.accepted_ms,
            "resetsAt": resets_at,
        });
        if let Some(by) = &record.by {
            detail["by"] = by.clone().into();
        }
        let unique = format!("{}-{}", record.id, event.as_str());
        publish_event(transaction, &unique, now, event.as_str(), told, &detail.to_string())?;
    }
    Ok(())
}
