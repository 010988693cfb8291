//! Tallies: counts that only grow, kept in the same transaction as what they count, so that neither a restart
//! nor the loss of an event takes one back.

use std::collections::BTreeMap;

use model::metrics::bucket_of;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde_json::Value;

use super::{StateError, StateStore};

/// Fields of an event that say what kind of it is being counted.
const LABEL_FIELDS: [&str; 8] =
    ["event", "mode", "result", "channel", "state", "how", "action", "end"];

/// The longest word that is a label; what is longer is no word.
const MAX_LABEL_BYTES: usize = 40;

/// Events that tell how long something took: the field, and what it is counted under.
const SPAN_FIELDS: [(&str, &str, &str); 2] = [
    ("delivery.accepted", "acceptedMs", "delivery-accept"),
    ("permission.answered", "waitMs", "permission-wait"),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// The kind of event, or the name of a span.
    pub name: String,
    /// What kind of it.
    pub labels: BTreeMap<String, String>,
    /// The upper bound of its bucket in milliseconds; 0 if it is no bucket.
    pub bound_ms: u64,
    pub count: u64,
    /// Of a bucket: all of them together, in milliseconds.
    pub sum_ms: u64,
}

impl StateStore {
    /// Every count. A store from before there were any has none.
    pub fn list_tallies(&self) -> Result<Vec<Tally>, StateError> {
        let failed = self.sqlite_error();
        if !has_table(&self.connection, "tally").map_err(&failed)? {
            return Ok(Vec::new());
        }
        let query = "select name, labels, le, count, sum from tally order by name, labels, le";
        let mut statement = self.connection.prepare_cached(query).map_err(&failed)?;
        let tally = |row: &rusqlite::Row<'_>| {
            let labels: String = row.get(1)?;
            Ok(Tally {
                name: row.get(0)?,
                labels: serde_json::from_str(&labels).unwrap_or_default(),
                bound_ms: row.get::<_, i64>(2)? as u64,
                count: row.get::<_, i64>(3)? as u64,
                sum_ms: row.get::<_, i64>(4)? as u64,
            })
        };
        let rows = statement.query_map([], tally).map_err(&failed)?;
        rows.collect::<rusqlite::Result<_>>().map_err(&failed)
    }
}

/// Whether the store has that table: only a writer may bring an older one up to date.
pub(super) fn has_table(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    let query = "select 1 from sqlite_master where type = 'table' and name = ?1";
    connection.query_row(query, [name], |_| Ok(())).optional().map(|found| found.is_some())
}

/// Counts an event that was just published.
pub(super) fn count_event(
    transaction: &Transaction<'_>,
    kind: &str,
    agent: &str,
    body: &str,
) -> rusqlite::Result<()> {
    if kind != "turn-end" && !kind.contains('.') {
        return Ok(());
    }
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    if body.get("subagent").is_some() {
        return Ok(());
    }
    let mut labels = BTreeMap::new();
    if !agent.is_empty() {
        labels.insert("agent", agent);
    }
    for field in LABEL_FIELDS {
        let value = body.get(field).and_then(Value::as_str);
        if let Some(value) = value.filter(|value| value.len() <= MAX_LABEL_BYTES) {
            labels.insert(field, value);
        }
    }
    add_tally(transaction, kind, &labels, 0, 0)?;
    for (counted, field, name) in SPAN_FIELDS {
        let span = body.get(field).and_then(Value::as_u64).filter(|_| counted == kind);
        if let Some(span) = span {
            count_span(transaction, name, agent, span)?;
        }
    }
    Ok(())
}

/// Counts how long something took.
pub(super) fn count_span(
    transaction: &Transaction<'_>,
    name: &str,
    agent: &str,
    span_ms: u64,
) -> rusqlite::Result<()> {
    let labels = BTreeMap::from([("agent", agent)]);
    add_tally(transaction, name, &labels, bucket_of(name, span_ms), span_ms)
}

fn add_tally(
    transaction: &Transaction<'_>,
    name: &str,
    labels: &BTreeMap<&str, &str>,
    bound_ms: u64,
    sum_ms: u64,
) -> rusqlite::Result<()> {
    let labels = serde_json::to_string(labels).unwrap_or_default();
    transaction
        .prepare_cached(
            "insert into tally values (?1, ?2, ?3, 1, ?4) on conflict do update \
             set count = count + 1, sum = sum + ?4",
        )?
        .execute(params![name, labels, bound_ms as i64, sum_ms.min(i64::MAX as u64) as i64])
        .map(drop)
}
