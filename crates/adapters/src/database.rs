//! Foreign SQLite databases, opened read-only without side effects (no `-wal`, no `-shm`).
//!
//! Opening a cleanly closed WAL database with `mode=ro` creates `-wal` and `-shm` files beside it, and
//! reading one whose writer was killed rebuilds its `-shm`. So: no `-wal` file, and the database is
//! opened as immutable; otherwise read-only with a read-only index, in which case SQLite keeps its
//! notes in memory and its own locking keeps the answer consistent.
//!
//! The schema belongs to others, too, and a schema is code: views are refused, its functions are not
//! trusted, and every connection has a budget of processor time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::sighting::TranscriptDigest;
use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};

use crate::files::{self, MAX_RECORD_BYTES, ReadError};
use crate::{Survey, TranscriptSource};

/// The processor time that reading one database may take. It is not the time on the clock: a process that
/// reads the answer slowly must not make it an error.
const DATABASE_CPU_BUDGET: Duration = Duration::from_secs(10);

/// After how many steps of SQLite's machine the budget is looked at: less than a millisecond.
const STEPS_BETWEEN_LOOKS: i32 = 20_000;

/// Opens a database below `root` for reading.
#[expect(clippy::disallowed_methods, reason = "the one place that opens foreign databases")]
pub fn open_read_only(root: &Path, path: &Path) -> Result<Connection, ReadError> {
    // Everything a plain file is refused for is refused here too.
    let (_, stamp) = files::open_file(root, path)?;
    if stamp.bytes == 0 {
        return Err(ReadError::Empty);
    }
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        files::stamp_path(Path::new(&name))
    };
    let how = match (beside("-wal"), beside("-shm")) {
        (None, _) => "immutable=1",
        (Some(_), Some(_)) => "readonly_shm=1",
        (Some(log), None) if log.bytes == 0 => "immutable=1",
        (Some(_), None) => {
            return Err(ReadError::unknown_format(
                "its write-ahead log has lost its index (-shm) and cannot be read without writing \
                 there; start the agent once",
            ));
        }
    };
    let uri = format!("file:{}?mode=ro&{how}", escape_uri_path(path));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(uri, flags)?;
    connection.busy_timeout(Duration::from_millis(250))?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    let begun = sys::clock::thread_cpu_time();
    connection.progress_handler(
        STEPS_BETWEEN_LOOKS,
        Some(move || sys::clock::thread_cpu_time().saturating_sub(begun) > DATABASE_CPU_BUDGET),
    )?;
    Ok(connection)
}

/// A store of one row per session, whose messages are rows, too.
pub(crate) trait SessionRows: Sized {
    /// What stands behind `select … from sessions` to list them all.
    const ORDER: &'static str;

    /// Checks that the schema is one that is known.
    fn check_schema(connection: &Connection) -> Result<Self, ReadError>;

    /// The columns of `sessions` that `read_session` expects, in their order.
    fn session_columns(&self) -> String;

    /// The id of a session, what its rows say, and how many bytes its messages have.
    fn read_session(&self, connection: &Connection, row: &Row<'_>)
    -> Result<SessionRow, ReadError>;
}

/// Id, digest and bytes of a session.
pub(crate) type SessionRow = (String, TranscriptDigest, u64);

/// Adds every session of such a store to a survey.
pub(crate) fn survey_session_rows<S: SessionRows>(
    survey: &mut Survey,
    path: &Path,
    format: &'static str,
) {
    match list_session_rows::<S>(&survey.root_path(), path, format) {
        Ok(sessions) => survey.ready.extend(sessions),
        Err(error) => survey.note_problem(path, &error),
    }
}

/// Every session of such a store.
pub(crate) fn list_session_rows<S: SessionRows>(
    root: &Arc<Path>,
    path: &Path,
    format: &'static str,
) -> Result<Vec<(TranscriptSource, TranscriptDigest)>, ReadError> {
    list_sessions(root, path, format, |connection| {
        let store = S::check_schema(connection)?;
        let (columns, order) = (store.session_columns(), S::ORDER);
        let mut statement =
            connection.prepare(&format!("select {columns} from sessions {order}"))?;
        let mut rows = statement.query([])?;
        let mut sessions = Vec::new();
        while let Some(row) = rows.next()? {
            sessions.push(store.read_session(connection, row)?);
        }
        Ok(sessions)
    })
}

/// One session of such a store.
pub(crate) fn read_session_row<S: SessionRows>(
    source: &TranscriptSource,
) -> Result<TranscriptDigest, ReadError> {
    let connection = open_read_only(&source.root, &source.path)?;
    let store = S::check_schema(&connection)?;
    let columns = store.session_columns();
    let mut statement =
        connection.prepare(&format!("select {columns} from sessions where id = ?1"))?;
    let mut rows = statement.query([&source.id])?;
    let row = rows.next()?.ok_or_else(|| ReadError::unknown_format("no such session"))?;
    Ok(store.read_session(&connection, row)?.1)
}

/// The sessions of a store: `read` gives id, digest and bytes of each, all from one snapshot, so that
/// a session does not change between its row and its messages.
pub(crate) fn list_sessions(
    root: &Arc<Path>,
    path: &Path,
    format: &'static str,
    read: impl FnOnce(&Connection) -> Result<Vec<SessionRow>, ReadError>,
) -> Result<Vec<(TranscriptSource, TranscriptDigest)>, ReadError> {
    let connection = open_read_only(root, path)?;
    let snapshot = connection.unchecked_transaction()?;
    let stamp = files::stamp_path(path).unwrap_or_default();
    let source = |id: String, parent: Option<String>, bytes: u64| TranscriptSource {
        parent,
        bytes: Some(bytes),
        ..TranscriptSource::from_file(id, root, path.to_owned(), stamp, format)
    };
    let sessions = read(&snapshot)?
        .into_iter()
        .map(|(id, digest, bytes)| (source(id, digest.parent.clone(), bytes), digest));
    Ok(sessions.collect())
}

/// Whether the table has that column: the gate in front of a query on a schema that may have moved.
pub fn has_column(connection: &Connection, table: &str, column: &str) -> Result<bool, ReadError> {
    let mut statement =
        connection.prepare("select 1 from pragma_table_info(?1) where name = ?2")?;
    Ok(statement.exists([table, column])?)
}

/// The columns of a table that must have at least `required`. Anything else is a schema that is
/// not known, and says so by name: it must never look like an empty store.
pub fn table_columns(
    connection: &Connection,
    table: &str,
    required: &[&str],
) -> Result<Vec<String>, ReadError> {
    let form: Option<String> = connection
        .prepare("select type from pragma_table_list(?1) where schema = 'main'")?
        .query_map([table], |row| row.get(0))?
        .next()
        .transpose()?;
    if let Some(form) = form.filter(|form| form != "table") {
        return Err(ReadError::unknown_format(format!(
            "unknown schema: `{table}` is a {form} and not a table"
        )));
    }
    let mut statement = connection.prepare("select name from pragma_table_info(?1)")?;
    let columns =
        statement.query_map([table], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    let missing = |name: &&&str| !columns.iter().any(|column| column == **name);
    match required.iter().find(missing) {
        None => Ok(columns),
        Some(_) if columns.is_empty() => {
            Err(ReadError::unknown_format(format!("unknown schema: no table `{table}`")))
        }
        Some(name) => Err(ReadError::unknown_format(format!(
            "unknown schema: table `{table}` has no column `{name}`"
        ))),
    }
}

/// The names in `wanted` as a select list, with `null` for each that this schema does not have.
pub fn select_list(columns: &[String], wanted: &str) -> String {
    let item = |name: &str| {
        let known = columns.iter().any(|column| column == name);
        if known { format!("\"{name}\"") } else { format!("null as \"{name}\"") }
    };
    wanted.split_whitespace().map(item).collect::<Vec<_>>().join(", ")
}

/// A column that is read only if it is no larger than any record may be; else it is `null`.
pub fn bounded_column(column: &str) -> String {
    format!("case when octet_length({column}) <= {MAX_RECORD_BYTES} then {column} end")
}

/// A time that is stored as seconds, or as milliseconds by some versions.
pub fn time_from_epoch(time: i64) -> model::time::Time {
    let in_seconds = time.abs() < 100_000_000_000;
    model::time::Time::from_millis(if in_seconds { time.saturating_mul(1000) } else { time })
}

/// The bytes of a text or blob.
pub fn column_bytes<'a>(
    row: &'a rusqlite::Row<'_>,
    index: usize,
) -> Result<Option<&'a [u8]>, ReadError> {
    Ok(match row.get_ref(index)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Some(bytes),
        _ => None,
    })
}

/// A text column. An empty one, and one of an unexpected type, are read as absent: the rest of the row
/// still counts.
pub(crate) fn text_at(row: &Row<'_>, index: usize) -> Option<String> {
    row.get::<_, String>(index).ok().filter(|text| !text.is_empty())
}

/// As [`text_at`], of a number that cannot be negative.
pub(crate) fn count_at(row: &Row<'_>, index: usize) -> Option<u64> {
    row.get::<_, i64>(index).ok().and_then(|count| u64::try_from(count).ok())
}

/// Hands the rows of a session's messages to `each`, which returns how many bytes a message has; returns
/// the sum. Column 0 of `query` is a message's number; its parameters are the session and the number to
/// begin at or after, as it says.
pub(crate) fn each_message_row(
    connection: &Connection,
    query: &str,
    session: &str,
    from: u64,
    mut each: impl FnMut(u64, &Row<'_>) -> Result<usize, ReadError>,
) -> Result<u64, ReadError> {
    let mut statement = connection.prepare_cached(query)?;
    let from = i64::try_from(from).unwrap_or(i64::MAX);
    let mut rows = statement.query(rusqlite::params![session, from])?;
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let number = u64::try_from(row.get::<_, i64>(0)?).unwrap_or(0);
        bytes += each(number, row)? as u64;
    }
    Ok(bytes)
}

/// A path as the path part of an SQLite URI.
fn escape_uri_path(path: &Path) -> String {
    use std::fmt::Write;
    use std::os::unix::ffi::OsStrExt;

    let mut out = String::new();
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02x}");
        }
    }
    out
}
