//! Access sessions as a test wants them: records written by hand, agents that really run.
//!
//! Nothing here uses ostler's own code to write a record, so that a mistake in it is not repeated.
#![expect(clippy::unwrap_used, reason = "a session that cannot be laid out is a broken test")]

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::home::TempHome;

/// The session of the base fixture.
pub const ID: &str = "s-alpha01";
/// Its lifetime in seconds.
pub const TTL: i64 = 600;
/// How long ago it expired.
pub const EXPIRED_AGO: i64 = 100;

/// A home with access sessions in it.
#[derive(Debug)]
pub struct Sessions {
    /// The directory around it all, also for what must not be touched.
    pub home: TempHome,
}

impl Default for Sessions {
    fn default() -> Self {
        Self::new()
    }
}

impl Sessions {
    /// A private root without sessions.
    pub fn new() -> Self {
        let sessions = Self { home: TempHome::new() };
        let make = |path: &Path| fs::DirBuilder::new().mode(0o700).create(path).unwrap();
        make(&sessions.root());
        make(&sessions.root().join("access"));
        make(&sessions.directory());
        sessions
    }

    /// A private root with the base session: expired, its process reaped, no socket.
    pub fn expired() -> Self {
        let sessions = Self::new();
        sessions.add(ID, &reaped());
        sessions
    }

    /// `OSTLER_HOME`.
    pub fn root(&self) -> PathBuf {
        self.home.join("state")
    }

    /// `sessions/`.
    pub fn directory(&self) -> PathBuf {
        self.root().join("access/sessions")
    }

    /// A session's directory.
    pub fn of(&self, id: &str) -> PathBuf {
        self.directory().join(id)
    }

    /// A file of a session.
    pub fn file(&self, id: &str, name: &str) -> PathBuf {
        self.of(id).join(name)
    }

    /// Adds an expired session whose agent is `process`.
    pub fn add(&self, id: &str, process: &Value) {
        fs::DirBuilder::new().mode(0o700).create(self.of(id)).unwrap();
        let expires = now_s() - EXPIRED_AGO;
        let meta = json!({
            "schema": 1, "id": id,
            "created_at": rfc3339(expires - TTL), "expires_at": rfc3339(expires), "ttl_s": TTL,
            "created_boot": process["boot"], "expires_boottime_s": boottime_s() - EXPIRED_AGO,
            "agent": process,
            "keys": [{ "fingerprint": format!("SHA256:{}", "k".repeat(43)), "type": "ssh-ed25519" }],
            "openssh_version": "OpenSSH_9.2p1"
        });
        self.put(id, "meta.json", meta.to_string());
        self.put_env(id, &process["pid"].to_string());
    }

    /// Writes `agent.env` with this pid.
    pub fn put_env(&self, id: &str, pid: &str) {
        let socket = self.file(id, "agent.sock");
        let text = format!("SSH_AUTH_SOCK={}\nSSH_AGENT_PID={pid}\n", socket.display());
        self.put(id, "agent.env", text);
    }

    /// Writes a file of a session, mode 0600.
    pub fn put(&self, id: &str, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.file(id, name);
        if path.symlink_metadata().is_ok() {
            fs::remove_file(&path).unwrap();
        }
        fs::write(&path, bytes).unwrap();
        chmod(&path, 0o600);
    }

    /// The record of a session.
    pub fn meta(&self, id: &str) -> Value {
        serde_json::from_slice(&fs::read(self.file(id, "meta.json")).unwrap()).unwrap()
    }

    /// Changes the record of a session.
    pub fn edit(&self, id: &str, change: impl FnOnce(&mut Value)) {
        let mut meta = self.meta(id);
        change(&mut meta);
        self.put(id, "meta.json", meta.to_string());
    }

    /// Makes a session end in so many seconds from now, by both clocks.
    pub fn ends_in(&self, id: &str, seconds: i64) {
        self.edit(id, |meta| {
            meta["created_at"] = rfc3339(now_s() + seconds - TTL).into();
            meta["expires_at"] = rfc3339(now_s() + seconds).into();
            meta["expires_boottime_s"] = (boottime_s() + seconds).into();
        });
    }

    /// Writes a valid `stop.json`.
    pub fn mark_stopped(&self, id: &str) {
        let agent = self.meta(id)["agent"].clone();
        let mut stop = json!({ "stopped_at": rfc3339(now_s()), "pid": agent["pid"] });
        if let Some(start) = agent.get("start") {
            stop["start"] = start.clone();
        }
        self.put(id, "stop.json", stop.to_string());
    }
}

/// Sets permission bits.
pub fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Gives a path to another user.
pub fn chown(path: &Path, uid: u32) {
    std::os::unix::fs::lchown(path, Some(uid), Some(uid)).unwrap();
}

/// Whether this test may do what only root may; says so visibly if not.
pub fn is_root() -> bool {
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !root {
        skipped("only root can do what this test does");
    }
    root
}

/// Says visibly that a test, or a part of it, was not run.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
pub fn skipped(why: &str) {
    eprintln!("SKIPPED: {why}");
}

/// Seconds since 1970.
pub fn now_s() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

/// Seconds since boot.
pub fn boottime_s() -> i64 {
    let text = fs::read_to_string("/proc/uptime").unwrap();
    text.split('.').next().unwrap().parse().unwrap()
}

/// A time as records write it.
pub fn rfc3339(seconds: i64) -> String {
    format!("{:.3}", jiff::Timestamp::from_second(seconds).unwrap())
}

/// What names a running process, as a record writes it.
pub fn record_of(pid: u32) -> Value {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let start = stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap();
    let inode = |name: &str| fs::metadata(format!("/proc/self/ns/{name}")).unwrap().ino();
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    json!({
        "pid": pid, "start": start.parse::<u64>().unwrap(),
        "boot": fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim(),
        "pid_ns": inode("pid"), "time_ns": inode("time"),
        "uid": fs::metadata(format!("/proc/{pid}")).unwrap().uid(), "comm": comm.trim(),
    })
}

/// The record of a process that has ended and was reaped.
pub fn reaped() -> Value {
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let record = record_of(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    record
}

/// An agent that really runs, without a keeper, on a session's own socket.
#[derive(Debug)]
pub struct Agent {
    child: Child,
    pub record: Value,
    socket: PathBuf,
}

impl Agent {
    /// Starts one on a socket.
    pub fn start(socket: &Path) -> Self {
        let child = Command::new("ssh-agent")
            .arg("-D")
            .arg("-a")
            .arg(socket)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("OpenSSH is installed");
        wait_until("ssh-agent listens", || std::os::unix::net::UnixStream::connect(socket).is_ok());
        let record = record_of(child.id());
        Self { child, record, socket: socket.to_owned() }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What `ssh-add -l` says: 0 keys, 1 no keys, 2 no agent.
    pub fn answers(&self) -> Option<i32> {
        ssh_add(&self.socket, &["-l"])
    }

    /// Sends it a signal by name.
    pub fn signal(&self, name: &str) {
        let args = [format!("-{name}"), self.pid().to_string()];
        assert!(Command::new("kill").args(args).status().unwrap().success());
    }

    /// Stops it, and waits until it has stopped.
    pub fn stop(&self) {
        self.signal("STOP");
        let stat = format!("/proc/{}/stat", self.pid());
        wait_until("it has stopped", || fs::read_to_string(&stat).unwrap().contains(") T "));
    }

    /// Kills it and leaves it unreaped: a zombie.
    pub fn become_zombie(&mut self) {
        self.child.kill().unwrap();
        let stat = format!("/proc/{}/stat", self.pid());
        wait_until("it is a zombie", || fs::read_to_string(&stat).unwrap().contains(") Z "));
    }

    /// Whether it has ended, and by which signal.
    pub fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Fails for one that has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs ssh-add against a socket, and says how it ended.
pub fn ssh_add(socket: &Path, args: &[&str]) -> Option<i32> {
    let mut command = Command::new("ssh-add");
    command.args(args).env("SSH_AUTH_SOCK", socket).stdin(Stdio::null());
    command.output().unwrap().status.code()
}

/// Makes a key pair without a passphrase and returns the private one's path.
pub fn make_key(directory: &Path, comment: &str) -> PathBuf {
    let path = directory.join("id_test");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", comment, "-f"])
        .arg(&path)
        .status()
        .unwrap();
    assert!(made.success());
    path
}

/// Waits for a condition, by name.
///
/// # Panics
/// If it does not come true.
pub fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
