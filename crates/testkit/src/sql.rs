//! SQLite stores kept as text: `.sql` fixtures become databases.

use std::path::Path;

use rusqlite::Connection;

/// Loads the statements of `sql` into a new database and returns it open, for what a dump cannot
/// hold (`user_version`) and for rows that only one test needs.
///
/// A full-text table brings its shadow tables along, and a dump lists those as well; they are the
/// only ones written as `CREATE TABLE '…'`, and creating them twice fails, so they are left out.
///
/// # Panics
/// If a file cannot be read or written, or a statement fails: a broken fixture is a broken test.
#[expect(clippy::unwrap_used, reason = "fixtures are part of the test")]
pub fn load_sql(sql: &Path, database: &Path) -> Connection {
    let dump =
        std::fs::read_to_string(sql).unwrap_or_else(|error| panic!("{}: {error}", sql.display()));
    let statements: String =
        dump.split_inclusive('\n').filter(|line| !line.starts_with("CREATE TABLE '")).collect();
    if let Some(directory) = database.parent() {
        std::fs::create_dir_all(directory).unwrap();
    }
    let connection = Connection::open(database).unwrap();
    // Dumps list tables by name, not by dependency; and this one need not outlive a power cut.
    connection.pragma_update(None, "foreign_keys", false).unwrap();
    connection.pragma_update(None, "synchronous", false).unwrap();
    connection
        .execute_batch(&statements)
        .unwrap_or_else(|error| panic!("{}: {error}", sql.display()));
    connection
}

/// Runs statements in a database that is there.
///
/// # Errors
/// What the database says.
pub fn run_sql(database: &Path, statements: &str) -> Result<(), String> {
    let failed = |error: rusqlite::Error| format!("{}: {error}", database.display());
    Connection::open(database).and_then(|one| one.execute_batch(statements)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shadow_tables_of_a_full_text_table_are_left_to_it() {
        let directory = tempfile::tempdir().unwrap();
        let sql = directory.path().join("dump.sql");
        std::fs::write(
            &sql,
            "CREATE VIRTUAL TABLE words USING fts5(word);\n\
             CREATE TABLE 'words_data'(id INTEGER PRIMARY KEY, block BLOB);\n\
             CREATE TABLE plain (a);\nINSERT INTO plain VALUES ('x;\n--y');\n",
        )
        .unwrap();
        let connection = load_sql(&sql, &directory.path().join("below/new.db"));
        let read: String =
            connection.query_row("select a from plain", [], |row| row.get(0)).unwrap();
        assert_eq!(read, "x;\n--y");
        connection.execute("insert into words values ('found')", []).unwrap();
    }
}
