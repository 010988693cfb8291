//! Foreign databases are read without leaving a trace, whatever state their writer left them in.
#![expect(clippy::disallowed_methods, reason = "the test plays the writer")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use ostler_adapters::database;
use rusqlite::Connection;
use testkit::home::TempHome;

/// A database in WAL mode with one row, and the connection that keeps it so.
fn writer(home: &TempHome) -> Connection {
    let connection = Connection::open(home.join("live.db")).unwrap();
    connection.pragma_update(None, "journal_mode", "wal").unwrap();
    connection.execute_batch("create table t (x); insert into t values (1)").unwrap();
    connection
}

fn count(home: &TempHome, name: &str) -> i64 {
    let root = std::fs::canonicalize(home.path()).unwrap();
    let connection = database::open_read_only(&root, &root.join(name)).unwrap();
    connection.query_row("select count(*) from t", [], |row| row.get(0)).unwrap()
}

fn copy(home: &TempHome, parts: &[&str]) {
    for part in parts {
        let bytes = home.read(format!("live.db{part}"));
        home.write(format!("left.db{part}"), bytes);
    }
}

#[test]
fn a_killed_writer_left_its_log_and_its_index() {
    let home = TempHome::new();
    let _writer = writer(&home);
    copy(&home, &["", "-wal", "-shm"]);
    let before = home.snapshot();
    assert_eq!(count(&home, "left.db"), 1, "what stands only in the log is read");
    assert_eq!(before.changes(&home.snapshot()), Vec::<String>::new());
}

#[test]
fn a_log_without_its_index_is_named_not_ignored() {
    let home = TempHome::new();
    let _writer = writer(&home);
    copy(&home, &["", "-wal"]);
    let before = home.snapshot();
    let root = std::fs::canonicalize(home.path()).unwrap();
    let error = database::open_read_only(&root, &root.join("left.db")).unwrap_err();
    assert!(error.to_string().contains("write-ahead log"), "{error}");
    assert_eq!(before.changes(&home.snapshot()), Vec::<String>::new());
}

#[test]
fn a_cleanly_closed_database() {
    let home = TempHome::new();
    drop(writer(&home));
    copy(&home, &[""]);
    let before = home.snapshot();
    assert_eq!(count(&home, "left.db"), 1);
    assert_eq!(before.changes(&home.snapshot()), Vec::<String>::new());
}

/// Another process that writes: within one process, connections share their view of the index.
const WRITER: &str = r#"
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("pragma journal_mode = wal")
db.execute("create table t (x)")
for statement in sys.stdin:
    db.execute(statement)
    print("done", flush=True)
"#;

#[test]
fn a_live_writer_is_not_disturbed() {
    let home = TempHome::new();
    let mut child = Command::new("python3")
        .args(["-c", WRITER])
        .arg(home.join("live.db"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut execute = |statement: &str| {
        writeln!(input, "{statement}").unwrap();
        assert_eq!(answers.next().unwrap().unwrap(), "done");
    };
    execute("insert into t values (1)");
    let before = home.snapshot();
    assert_eq!(count(&home, "live.db"), 1);
    assert_eq!(before.changes(&home.snapshot()), Vec::<String>::new());
    execute("insert into t values (2)");
    assert_eq!(count(&home, "live.db"), 2);
    execute("begin immediate");
    execute("insert into t values (3)");
    assert_eq!(count(&home, "live.db"), 2, "not committed");
    execute("commit");
    assert_eq!(count(&home, "live.db"), 3);
    drop(input);
    child.wait().unwrap();
}
