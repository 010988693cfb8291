//! A temporary home directory that looks like one agents have worked in.
//!
//! Fixtures are laid out where each agent keeps them, and a [`Snapshot`] before and after proves
//! that nothing below was touched. Everything panics on failure: a home that cannot be built is a
//! broken test.
#![expect(clippy::unwrap_used, reason = "a home that cannot be built is a broken test")]

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::sql::load_sql;

/// Where each agent has its files below a home, by the beginning of its sample's name. The sample
/// directories and the fixtures of the adapters share these names.
const PLACES: [(&str, &str); 22] = [
    ("claude-code", ".claude"),
    ("codex", ".codex"),
    ("opencode", ".local/share/opencode"),
    ("gemini", ".gemini"),
    ("pi", ".pi"),
    ("openclaw", ".openclaw"),
    ("copilot", ".copilot"),
    ("qwen", ".qwen"),
    ("factory-droid", ".factory"),
    ("droid", ".factory"),
    ("kimi", ".kimi-code"),
    ("cline", ".cline"),
    ("kilo", ".local/share/kilo"),
    ("vibe", ".vibe"),
    ("mistral-vibe", ".vibe/logs"),
    ("hermes", ".hermes"),
    ("continue", ".continue"),
    ("cursor", ".cursor"),
    ("goose", ".local/share/goose"),
    ("amp", ".local/share/amp"),
    ("aider", "repo"),
    ("crush", "repo/.crush"),
];

/// Files of a sample that no agent wrote into its home: what hooks and streams printed.
const RECORDINGS: [&str; 4] = ["-stdin.jsonl", "-events.jsonl", ".stdout.jsonl", ".stdout.json"];

/// A home directory that goes away with the value.
#[derive(Debug)]
pub struct TempHome {
    directory: tempfile::TempDir,
}

impl Default for TempHome {
    fn default() -> Self {
        Self::new()
    }
}

impl TempHome {
    /// An empty home.
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Leaves it on the disk, for a look at what went wrong.
    pub fn keep(self) -> PathBuf {
        self.directory.keep()
    }

    /// A path below it.
    pub fn join(&self, below: impl AsRef<Path>) -> PathBuf {
        self.path().join(below)
    }

    /// An environment whose only variable is this home.
    pub fn lookup(&self) -> impl Fn(&str) -> Option<OsString> + use<> {
        let home = self.path().as_os_str().to_owned();
        move |name| (name == "HOME").then(|| home.clone())
    }

    /// Copies a tree of fixtures to `below`; `x.db.sql` becomes the database `x.db`.
    pub fn lay_out(&self, fixtures: &Path, below: impl AsRef<Path>) {
        lay_out_tree(fixtures, &self.join(below));
    }

    /// Lays out one sample or fixture directory of the agent that `name` begins with.
    pub fn lay_out_agent(&self, name: &str, sample: &Path) {
        let (agent, below) = place(name);
        self.lay_out(sample, below);
        // The lab's sample holds the store of the agent `main` without its directories.
        let loose = self.join(below).join("openclaw-agent.sqlite");
        if loose.exists() {
            let main = self.join(below).join("agents/main/agent");
            fs::create_dir_all(&main).unwrap();
            fs::rename(loose, main.join("openclaw-agent.sqlite")).unwrap();
        }
        if agent == "crush" {
            // Its stores lie in the projects; only a list in the home says where.
            let project = serde_json::json!({ "path": self.join("repo"), "data_dir": ".crush" });
            let list = serde_json::json!({ "projects": [project] });
            self.write(".local/share/crush/projects.json", list.to_string());
        }
    }

    /// Writes a file, with the directories above it.
    pub fn write(&self, below: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.clear(below.as_ref());
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Appends to a file.
    pub fn append(&self, below: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
        let mut file = fs::OpenOptions::new().append(true).open(self.join(below)).unwrap();
        file.write_all(bytes.as_ref()).unwrap();
    }

    /// The bytes of a file.
    pub fn read(&self, below: impl AsRef<Path>) -> Vec<u8> {
        fs::read(self.join(below)).unwrap()
    }

    /// Opens a database, to change it as its agent would.
    pub fn database(&self, below: impl AsRef<Path>) -> rusqlite::Connection {
        rusqlite::Connection::open(self.join(below)).unwrap()
    }

    /// Puts a symbolic link there, in place of what was there.
    pub fn link(&self, below: impl AsRef<Path>, target: impl AsRef<Path>) -> PathBuf {
        let path = self.clear(below.as_ref());
        symlink(target, &path).unwrap();
        path
    }

    /// Puts a FIFO there without a writer, in place of what was there.
    pub fn fifo(&self, below: impl AsRef<Path>) -> PathBuf {
        let path = self.clear(below.as_ref());
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success(), "mkfifo {}", path.display());
        path
    }

    /// Makes a file or directory unreadable for everyone but root.
    pub fn forbid(&self, below: impl AsRef<Path>) -> PathBuf {
        let path = self.join(below);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).unwrap();
        path
    }

    /// Puts a directory with nothing in it there, in place of what was there.
    pub fn directory(&self, below: impl AsRef<Path>) -> PathBuf {
        let path = self.clear(below.as_ref());
        fs::create_dir(&path).unwrap();
        path
    }

    /// Takes away what is there.
    pub fn remove(&self, below: impl AsRef<Path>) -> PathBuf {
        self.clear(below.as_ref())
    }

    /// Makes sure that nothing is there, but the directories above it are.
    fn clear(&self, below: &Path) -> PathBuf {
        let path = self.join(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&path).unwrap(),
            Ok(_) => fs::remove_file(&path).unwrap(),
            Err(_) => {}
        }
        path
    }

    /// Everything below the home as it is now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(self.path())
    }
}

/// The agent that the name of a sample begins with, and where it has its files below a home.
///
/// # Panics
/// If the agent is not known.
pub fn place(name: &str) -> (&'static str, &'static str) {
    let found = PLACES.into_iter().find(|(agent, _)| {
        let rest = name.strip_prefix(agent);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    });
    found.unwrap_or_else(|| panic!("no place for samples of {name}"))
}

/// Lays out every sample below `samples` where its agent would have it. Both `<agent>-<version>/`
/// (the lab's samples) and `<agent>/<version>/` (the adapters' fixtures) are understood; several
/// versions of one agent share its directory.
pub fn lay_out_samples(home: &TempHome, samples: &Path) {
    for (name, path) in children(samples) {
        if place(&name).0 == name {
            for (_, version) in children(&path) {
                home.lay_out_agent(&name, &version);
            }
        } else {
            home.lay_out_agent(&name, &path);
        }
    }
}

/// The directories in a directory, by name.
fn children(directory: &Path) -> Vec<(String, PathBuf)> {
    let entries =
        fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let mut found: Vec<_> = entries
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_dir())
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.path()))
        .collect();
    found.sort();
    found
}

fn lay_out_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let entries = fs::read_dir(from).unwrap_or_else(|e| panic!("{}: {e}", from.display()));
    for entry in entries {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            lay_out_tree(&entry.path(), &to.join(name));
        } else if let Some(database) = name.strip_suffix(".sql") {
            lay_out_database(&entry.path(), &to.join(database));
        } else if !RECORDINGS.iter().any(|end| name.ends_with(end)) {
            // A sample marks the registration of a background process in its name; Claude does not.
            fs::copy(entry.path(), to.join(name.replace(".background.json", ".json"))).unwrap();
        }
    }
}

/// Loads a dump. Of several versions of one store, the first is kept.
fn lay_out_database(sql: &Path, database: &Path) {
    if database.exists() {
        return;
    }
    let connection = load_sql(sql, database);
    // A dump does not hold it, and this store is read only at versions that are known.
    if database.ends_with("openclaw-agent.sqlite") {
        connection.pragma_update(None, "user_version", 23).unwrap();
    }
    connection.close().unwrap();
}

/// Every entry of a tree: what it is and what it holds. Two are equal if nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    entries: BTreeMap<PathBuf, Seen>,
}

/// One entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    /// File type and permissions.
    mode: u32,
    mtime_ns: i128,
    len: u64,
    /// The content of a file, or where a link leads.
    hash: u64,
}

impl Snapshot {
    /// The tree below `root`, links not followed. Access times are left out: reading changes them. So is
    /// `.cache`, which any command may write, and with it the time of the root.
    pub fn of(root: &Path) -> Self {
        let mut entries = BTreeMap::new();
        let mut pending = vec![root.to_owned()];
        while let Some(path) = pending.pop() {
            // What a process that is ending takes away while we look is not there.
            let found = match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                found => found.unwrap(),
            };
            let is_root = path == root;
            let mut hasher = DefaultHasher::new();
            if found.is_dir() {
                let inside = fs::read_dir(&path).into_iter().flatten();
                let inside = inside.map(|entry| entry.unwrap().path());
                pending.extend(inside.filter(|path| *path != root.join(".cache")));
            } else if found.is_symlink() {
                fs::read_link(&path).unwrap().hash(&mut hasher);
            } else if found.is_file() {
                // One that may not be read cannot have been written either.
                fs::read(&path).unwrap_or_default().hash(&mut hasher);
            }
            let seen = Seen {
                mode: found.mode(),
                mtime_ns: if is_root {
                    0
                } else {
                    i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec())
                },
                len: if is_root { 0 } else { found.len() },
                hash: hasher.finish(),
            };
            entries.insert(path.strip_prefix(root).unwrap().to_owned(), seen);
        }
        Self { entries }
    }

    /// The same without one entry and its directory's time: for a file that another thread writes.
    #[must_use]
    pub fn without(mut self, path: &Path) -> Self {
        self.entries.retain(|seen, _| !path.ends_with(seen) || seen.as_os_str().is_empty());
        self
    }

    /// What differs, in words; empty when nothing does.
    pub fn changes(&self, later: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        for (path, seen) in &self.entries {
            match later.entries.get(path) {
                None => changes.push(format!("{} is gone", path.display())),
                Some(now) if now != seen => {
                    changes.push(format!("{} was {seen:?} and is {now:?}", path.display()));
                }
                Some(_) => {}
            }
        }
        let new = later.entries.keys().filter(|path| !self.entries.contains_key(*path));
        changes.extend(new.map(|path| format!("{} is new", path.display())));
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_and_fixtures_land_where_agents_keep_their_files() {
        let samples = TempHome::new();
        samples.write("claude-code-2.1.325/sessions/7.background.json", "{}");
        samples.write("claude-code-2.1.325/hooks-stdin.jsonl", "{}");
        samples.write("gemini/0.61.0/tmp/repo/logs.json", "[]");
        samples.write("openclaw-2026.9.6/openclaw-agent.sqlite.sql", "create table t (a);");
        let home = TempHome::new();
        lay_out_samples(&home, samples.path());
        assert!(home.join(".claude/sessions/7.json").is_file());
        assert!(!home.join(".claude/hooks-stdin.jsonl").exists());
        assert!(home.join(".gemini/tmp/repo/logs.json").is_file());
        let store = home.join(".openclaw/agents/main/agent/openclaw-agent.sqlite");
        let header = b"SQLite format 3\0";
        assert!(fs::read(store).unwrap().starts_with(header));
    }

    #[test]
    fn a_snapshot_notices_every_kind_of_change() {
        let home = TempHome::new();
        home.write("a/b", "one");
        let before = home.snapshot();
        assert!(before.changes(&home.snapshot()).is_empty());
        let modified = fs::metadata(home.join("a/b")).unwrap().modified().unwrap();
        let rewrite = |bytes: &str| {
            let file = fs::File::create(home.join("a/b")).unwrap();
            (&file).write_all(bytes.as_bytes()).unwrap();
            file.set_modified(modified).unwrap();
        };
        rewrite("two");
        assert_eq!(before.changes(&home.snapshot()).len(), 1, "same length and time");
        rewrite("one");
        assert!(before.changes(&home.snapshot()).is_empty());
        fs::set_permissions(home.join("a/b"), fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(before.changes(&home.snapshot()).len(), 1, "mode");
        home.write("a/c", "new");
        let changes = before.changes(&home.snapshot());
        assert!(changes.iter().any(|change| change == "a/c is new"), "{changes:?}");
    }

    #[test]
    fn what_is_left_out_may_change() {
        let home = TempHome::new();
        home.write("a/b", "one");
        let before = home.snapshot().without(Path::new("a/b"));
        home.append("a/b", "two");
        assert!(before.changes(&home.snapshot().without(Path::new("a/b"))).is_empty());
    }
}
