//! Keeps what a release writes as a fixture: text where it is text, the store as SQL.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::room::{Agent, Room, Side};

/// The session that hooks tell of.
const SESSION: &str = "44444444-4444-4444-8444-444444444444";

/// What stands for the home in the fixture.
const HOME_MARK: &str = "@HOME@";

/// What is made anew wherever it is missing.
const NOT_KEPT: [&str; 7] =
    ["ostler.db", "-wal", "-shm", "writer.lock", "setup.lock", "events.bell", "daemon.log"];

/// Lets the running release write one of each, and keeps it in `directory`.
pub(super) fn record_fixture(room: &Room, directory: &Path) -> Result<(), String> {
    let done = |words: &[&str]| room.done(Side::Running, words);
    let home = &room.home;
    let mut agent = Agent::start(room, SESSION)?;
    for event in ["SessionStart", "UserPromptSubmit", "Stop"] {
        agent.hook(&room.running, event)?;
    }
    agent.kill()?;
    done(&["finalize"])?;
    done(&["pin", SESSION, "--note", "kept by the last release"])?;
    let script =
        r"for i in $(seq 30); do echo line-$i; done; printf '\033[1mbold\033[0m ü 漢'; exit 7";
    let shell = ["--", "/bin/bash", "-c", script];
    done(&[&["create", "--name", "over", "--cols", "40", "--rows", "10"][..], &shell].concat())?;
    done(&["wait", "over", "--exit"])?;
    done(&["create", "--name", "gone", "--", "/bin/echo", "still-here"])?;
    done(&["wait", "gone", "--exit"])?;
    let over = done(&["inspect", "over", "--json"])?.result()?;
    let over = over["session"]["sessionId"].as_str().or(over["sessionId"].as_str());
    let over = over.ok_or("no id")?.to_owned();
    room.wait_until("the terminal is in the trash", || {
        done(&["gc", "--yes", "--older-than", "0s", "--keep", &over])?;
        Ok(home.join(".local/state/ostler/trash").exists())
    })?;
    home.write(".claude/settings.json", "{\n  // mine\n  \"model\": \"x\",\n}\n");
    home.write(".bashrc", "PS1='$ '\n");
    done(&["setup", "--yes", "--without", "service"])?;
    // A report that no writer has taken in yet.
    let mut agent = Agent::start(room, "55555555-5555-4555-8555-555555555555")?;
    agent.hook(&room.running, "SessionStart")?;
    agent.kill()?;
    keep_files(home.path(), directory, &Marks::of_room(room, &over)?)
}

/// What is this machine's, and what stands for it in the fixture.
struct Marks(Vec<(String, &'static str)>);

impl Marks {
    fn of_room(room: &Room, terminal: &str) -> Result<Self, String> {
        let path = room.home.join(format!(".local/state/ostler/sessions/{terminal}/host.json"));
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        let host: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let word = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        let boot = word(&host["host"]["boot"]["id"]).ok_or("a host without its boot")?;
        let machine =
            word(&host["host"]["machine"]["hashed"]).ok_or("a host without its machine")?;
        Ok(Self(vec![
            (room.home.path().to_string_lossy().into_owned(), HOME_MARK),
            (room.running.directory.to_string_lossy().into_owned(), "/opt/ostler/bin"),
            (boot, "00000000-0000-4000-8000-000000000000"),
            (machine, "00000000000000000000000000000000"),
        ]))
    }

    fn replace_in(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (own, mark)| text.replace(own, mark))
    }
}

fn keep_files(home: &Path, directory: &Path, marks: &Marks) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    if directory.exists() {
        fs::remove_dir_all(directory).map_err(failed)?;
    }
    fs::create_dir_all(directory).map_err(failed)?;
    let mut left: Vec<PathBuf> =
        [".claude", ".local", ".bashrc"].iter().map(|name| home.join(name)).collect();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            for entry in fs::read_dir(&path).map_err(failed)? {
                left.push(entry.map_err(failed)?.path());
            }
            continue;
        }
        let name = path.to_string_lossy();
        if !path.is_file() || NOT_KEPT.iter().any(|end| name.ends_with(end)) {
            continue;
        }
        let inside = path.strip_prefix(home).map_err(|error| error.to_string())?;
        let bytes = fs::read(&path).map_err(failed)?;
        let bytes = match String::from_utf8(bytes) {
            Ok(text) => marks.replace_in(&text).into_bytes(),
            Err(error) => error.into_bytes(),
        };
        let to = directory.join("home").join(inside);
        fs::create_dir_all(to.parent().unwrap_or(directory)).map_err(failed)?;
        fs::write(to, bytes).map_err(failed)?;
    }
    let dump = "import sqlite3, sys\n\
                store = sqlite3.connect(sys.argv[1])\n\
                print('\\n'.join(store.iterdump()))\n\
                print(f\"PRAGMA user_version = {store.execute('pragma user_version').fetchone()[0]};\")";
    let database = home.join(".local/state/ostler/ostler.db");
    let output =
        Command::new("python3").args(["-c", dump]).arg(database).output().map_err(failed)?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let sql = marks.replace_in(&String::from_utf8_lossy(&output.stdout));
    fs::write(directory.join("store.sql"), sql).map_err(failed)
}
