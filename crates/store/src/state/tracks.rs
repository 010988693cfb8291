//! Rows of sessions as hooks told of them.

use std::path::Path;

use model::rules::track::HookTrack;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::{StateError, TrackedSession, tallies};

/// The question for the newest that ended in the directory ?1, or between ?2 and ?3. The index alone
/// tells which they are; only those are read whole.
pub(super) fn newest_within(cwd: &str, since: i64, most: usize) -> String {
    let ended = format!("select agent, id, ended_at from session where ended_at >= {since}");
    format!(
        "select session.agent, session.id, track from (\
             {ended} and {cwd} = ?1 union all {ended} and {cwd} > ?2 and {cwd} < ?3 \
             order by ended_at desc limit {most}\
         ) as newest cross join session using (agent, id) order by newest.ended_at desc"
    )
}

pub(super) fn load_track(
    connection: &Connection,
    path: &Path,
    (agent, id): (&str, &str),
) -> Result<Option<HookTrack>, StateError> {
    let failed = |source| StateError::Sqlite { path: path.to_owned(), source };
    let mut statement = connection
        .prepare_cached("select track from session where agent = ?1 and id = ?2")
        .map_err(failed)?;
    let text: Option<String> =
        statement.query_row([agent, id], |row| row.get(0)).optional().map_err(failed)?;
    text.map(|text| parse_track(path, &text)).transpose()
}

pub(super) fn parse_track(path: &Path, text: &str) -> Result<HookTrack, StateError> {
    serde_json::from_slice(text.as_bytes())
        .map_err(|error| StateError::Row { path: path.to_owned(), reason: error.to_string() })
}

pub(super) fn save_track(
    transaction: &Transaction<'_>,
    tracked: &TrackedSession,
) -> rusqlite::Result<()> {
    let track = serde_json::to_string(&tracked.track)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let ended_at = tracked.track.end.as_ref().map(|end| end.at.as_millis());
    transaction
        .prepare_cached(
            "insert into session values (?1, ?2, ?3, ?4, 0, ?5, ?6) on conflict (agent, id) \
             do update set track = ?3, open = ?4, ended_at = ?5, cwd = ?6",
        )?
        .execute(params![
            tracked.agent,
            tracked.id,
            track,
            i64::from(tracked.track.is_open()),
            ended_at,
            tracked.track.cwd
        ])
        .map(drop)
}

/// Counts how long a session that has just ended was there.
pub(super) fn count_duration(
    transaction: &Transaction<'_>,
    agent: &str,
    track: &HookTrack,
) -> rusqlite::Result<()> {
    let Some((end, began)) = track.end.as_ref().zip(track.began_at) else { return Ok(()) };
    let span = model::time::whole_millis(end.at.since(began));
    tallies::count_span(transaction, "session-duration", agent, span)
}
