//! A hub with a thousand simulated members, measured: `cargo xtask bench fleet` runs this and compares.
//!
//! The hub is a real `nats-server` with the configuration that `ostler fleet` writes, the reader is `ostler ls --fleet`,
//! and one member is a real home with its daemon. The other members have real keys, accounts and seals; they share
//! this process. Prints one line for each number: name, value, unit, limit, with tabs between.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a measuring program")]

mod real_member;

use std::collections::HashSet;
use std::error::Error;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::connection::State;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt;
use model::identity::Identity;
use model::wire::{FleetLevel, SessionCounts};
use net::fleet_files::{
    FleetDir, LINK_SEED, MemberFile, OPERATOR_LINK_SEED, OPERATOR_SEAL_SEED, SEAL_SEED,
    this_machine,
};
use net::hub::{Hub, ensure_buckets};
use net::nats::{HubConnection, HubLogin, connect_hub};
use net::record::{
    FleetOperator, InventoryPage, LeaseState, MemberCertificate, MemberLease, RECORD_VERSION,
    compress_page,
};
use net::seal::{SealKind, member_id, seal_json, seal_record};
use nkeys::KeyPair;
use serde_json::{Value, json};

use self::real_member::RealMember;

type Failure = Box<dyn Error + Send + Sync>;

/// Of a member's sessions, so many are active.
const ACTIVE_SHARE: usize = 10;

/// How often a simulated member renews, as a real one does.
const RENEW: Duration = Duration::from_secs(5);

/// The operator that reads and orders.
const OPERATOR_NAME: &str = "member-0";

struct LoadOptions {
    ostler: PathBuf,
    directory: PathBuf,
    members: usize,
    sessions: usize,
}

impl LoadOptions {
    fn read() -> Result<Self, Failure> {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let [ostler, directory, members, sessions] = words.as_slice() else {
            return Err("usage: fleet_load OSTLER DIRECTORY MEMBERS SESSIONS".into());
        };
        let (ostler, directory) = (PathBuf::from(ostler), PathBuf::from(directory));
        Ok(Self { ostler, directory, members: members.parse()?, sessions: sessions.parse()? })
    }

    fn home(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn state(&self, name: &str) -> PathBuf {
        self.home(name).join(".local/state/ostler")
    }

    fn command(&self, home: &str) -> Command {
        let home = self.home(home);
        let mut command = Command::new(&self.ostler);
        command
            .env_clear()
            .env("HOME", &home)
            .env("XDG_RUNTIME_DIR", home.join("run"))
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, home: &str, words: &[&str]) -> Result<Value, Failure> {
        let output = self.command(home).arg("--json").args(words).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let answer: Value =
            serde_json::from_str(&text).map_err(|_| format!("{words:?}: {text}"))?;
        match answer["ok"] == true {
            true => Ok(answer["result"].clone()),
            false => Err(format!("{words:?}: {text}").into()),
        }
    }
}

/// A child that ends with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Our own child, not waited for yet.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn say(name: &str, value: f64, unit: &str, limit: Option<f64>) {
    let limit = limit.map_or(String::new(), |limit| limit.to_string());
    println!("{name}\t{value}\t{unit}\t{limit}");
}

/// A member that this process plays.
struct PlayedMember {
    certificate: MemberCertificate,
    link: KeyPair,
    seal: KeyPair,
}

impl PlayedMember {
    fn new(name: String) -> Result<Self, Failure> {
        let (link, seal) = (KeyPair::new_user(), KeyPair::new_user());
        let certificate = MemberCertificate {
            v: RECORD_VERSION,
            id: member_id(&seal.public_key())?,
            name,
            seal: seal.public_key(),
            link: link.public_key(),
            machine: this_machine(),
            admitted_at: sys::clock::now(),
            ssh: None,
        };
        Ok(Self { certificate, link, seal })
    }

    fn lease(&self, n: u64, sessions: usize) -> Result<Vec<u8>, Failure> {
        let active = (sessions / ACTIVE_SHARE) as u64;
        let counts = SessionCounts {
            working: active,
            ended: sessions as u64 - active,
            ..SessionCounts::default()
        };
        let lease = MemberLease {
            v: RECORD_VERSION,
            member: self.certificate.id.clone(),
            incarnation: "01KAAAAAAAAAAAAAAAAAAAAAAA".to_owned(),
            boot: "0b0e0d1c-0000-4000-8000-000000000000".to_owned(),
            machine: self.certificate.machine.clone(),
            pid: 1,
            start: 1,
            holder: Identity::default(),
            n,
            rev: 3,
            state: LeaseState::Up,
            sent_at: sys::clock::now(),
            up_ms: n * 5000,
            counts,
            truncated: None,
            allow: "read".to_owned(),
            lease_ms: 15_000,
            ostler: "0.1.0".to_owned(),
            rival: None,
            pages: None,
        };
        Ok(seal_json(&self.seal, SealKind::Lease, &lease)?)
    }

    fn page(&self, name: &str, sessions: std::ops::Range<usize>) -> Result<Vec<u8>, Failure> {
        let is_active = name.starts_with("active");
        let page = InventoryPage {
            v: RECORD_VERSION,
            member: self.certificate.id.clone(),
            incarnation: "01KAAAAAAAAAAAAAAAAAAAAAAA".to_owned(),
            rev: 3,
            page: name.to_owned(),
            sent_at: sys::clock::now(),
            sessions: sessions.map(|number| played_session(number, is_active)).collect(),
        };
        Ok(seal_record(&self.seal, SealKind::Page, &compress_page(&page)?)?)
    }
}

/// About as much as a real one has.
fn played_session(number: usize, is_active: bool) -> serde_json::Map<String, Value> {
    let noise = sys::random::random_bytes::<16>().map(|bytes| model::hex::to_hex(&bytes));
    let noise = noise.unwrap_or_default();
    let agent = ["claude-code", "codex", "gemini"][number % 3];
    let session = json!({
        "id": format!("{}-{}-7222-8333-{}", &noise[..8], &noise[8..12], &noise[12..24]),
        "agent": agent,
        "status": if is_active { "running" } else { "exited" },
        "activity": if is_active { "working" } else { "idle" },
        "title": format!("Mend the parser of part {number}: {noise}"),
        "cwd": format!("/home/somebody/work/project-{}", number % 17),
        "branch": format!("work/{}", &noise[..6]),
        "startedAt": "2026-11-17T08:00:00.000Z",
        "lastActivityAt": "2026-11-18T08:00:00.000Z",
        "endedAt": if is_active { Value::Null } else { json!("2026-11-18T08:00:00.000Z") },
        "liveness": {
            "state": if is_active { "alive" } else { "dead" }, "reason": "process-identity",
            "source": "process", "certainty": "proven"
        },
        "model": "some-model-5-5", "lookedMs": 12,
        "tokens": { "input": 12_345 + number, "output": 2_345 + number, "cached": 400_000 },
    });
    let mut session = session.as_object().cloned().unwrap_or_default();
    session.retain(|_, value| !value.is_null());
    session
}

/// Everybody and everything that a run needs.
struct Load {
    options: LoadOptions,
    hub: Hub,
    engine: Running,
    members: Vec<Arc<PlayedMember>>,
    operator: KeyPair,
    operator_seal: KeyPair,
}

fn free_port() -> Result<u16, Failure> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn start_engine(options: &LoadOptions) -> Result<Running, Failure> {
    let engine = options.command("hub").args(["fleet", "hub"]).stderr(Stdio::null()).spawn()?;
    Ok(Running(engine))
}

async fn connect_admin(hub: &Hub) -> Result<HubConnection, Failure> {
    let begun = Instant::now();
    loop {
        match hub.connect_admin().await {
            Ok(admin) => return Ok(admin),
            Err(error) if begun.elapsed() > Duration::from_secs(60) => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

impl Load {
    /// A hub that knows everybody, its engine, and a home that reads.
    async fn prepare(options: LoadOptions) -> Result<Self, Failure> {
        std::fs::create_dir_all(options.home("hub"))?;
        let listen = format!("127.0.0.1:{}", free_port()?);
        options.run("hub", &["fleet", "init", "--listen", &listen])?;
        let mut hub = Hub::open(&options.state("hub"))?;
        let names = (0..options.members).map(|number| format!("member-{number}"));
        let members: Result<Vec<_>, _> =
            names.map(|name| PlayedMember::new(name).map(Arc::new)).collect();
        let members = members?;
        let (operator, operator_seal) = (KeyPair::new_user(), KeyPair::new_user());
        hub.file.members.extend(members.iter().map(|member| member.certificate.clone()));
        hub.file.operators.push(FleetOperator {
            name: OPERATOR_NAME.to_owned(),
            seal: operator_seal.public_key(),
            link: operator.public_key(),
            level: FleetLevel::Reap,
            not_after: None,
        });
        hub.file.operators_version += 1;
        hub.save()?;
        let begun = Instant::now();
        let engine = start_engine(&options)?;
        let mut admin = connect_admin(&hub).await?;
        say("hub with its configuration: start", begun.elapsed().as_secs_f64(), "s", None);
        ensure_buckets(&mut admin, options.members).await?;
        hub.publish_meta(&mut admin).await?;
        let load = Self { options, hub, engine, members, operator, operator_seal };
        load.write_reader()?;
        Ok(load)
    }

    /// The first member's home, which is an operator and reads the fleet.
    fn write_reader(&self) -> Result<(), Failure> {
        let member = &self.members[0];
        let dir = FleetDir::create(&self.options.state("reader"), "fleet")?;
        for (name, key) in [
            (LINK_SEED, &member.link),
            (SEAL_SEED, &member.seal),
            (OPERATOR_LINK_SEED, &self.operator),
            (OPERATOR_SEAL_SEED, &self.operator_seal),
        ] {
            dir.write(name, key.seed()?.as_bytes())?;
        }
        let certificate = self.hub.sealed_certificate(&member.certificate)?;
        let file = MemberFile {
            id: member.certificate.id.clone(),
            name: member.certificate.name.clone(),
            site: self.hub.file.site.clone(),
            url: self.hub.file.url.clone(),
            ca: self.hub.ca().map(str::to_owned),
            root: self.hub.root.public_key(),
            certificate: STANDARD.encode(certificate),
            level: FleetLevel::Reap,
            joined_at: sys::clock::now(),
            left: false,
        };
        Ok(dir.write_json("member.json", &file)?)
    }

    fn login<'a>(&'a self, key: &'a KeyPair, inbox: &'a str, stays: bool) -> HubLogin<'a> {
        HubLogin {
            url: &self.hub.file.url,
            ca: self.hub.ca(),
            key,
            inbox,
            timeout: Duration::from_secs(30),
            stays,
        }
    }

    fn engine_rss(&self) -> Result<f64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.engine.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.trim().split(' ').next()?.parse::<f64>().ok());
        Ok(kilobytes.ok_or("no VmRSS")? / 1000.0)
    }
}

/// How the played members go on, as seen from outside.
#[derive(Default)]
struct Chorus {
    /// Ends everybody.
    ended: AtomicBool,
    /// Leases that the hub acknowledged, of everybody.
    renewals: AtomicU64,
    /// How often connections broke.
    breaks: AtomicU64,
    /// Members that have published everything since the hub was last killed, and are connected.
    complete: Mutex<HashSet<String>>,
    /// Whether pages are published again after a break.
    pages: AtomicU64,
}

impl Chorus {
    fn complete_of<T>(&self, work: impl FnOnce(&mut HashSet<String>) -> T) -> T {
        work(&mut self.complete.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn publish_all(
    member: &PlayedMember,
    hub: &mut HubConnection,
    sessions: usize,
) -> Result<u64, Failure> {
    let id = &member.certificate.id;
    let active = sessions / ACTIVE_SHARE;
    let sequence =
        hub.put_record(&format!("$KV.lease.{id}"), None, member.lease(1, sessions)?).await?;
    let half = active + (sessions - active) / 2;
    for (name, range) in
        [("active.0", 0..active), ("ended.0", active..half), ("ended.1", half..sessions)]
    {
        let page = member.page(name, range)?;
        hub.put_record(&format!("$KV.inv.{id}.{name}"), None, page).await?;
    }
    Ok(sequence)
}

/// Renews as a member does until everybody is ended. After a break everything is said again, until it was heard.
async fn play(
    member: Arc<PlayedMember>,
    mut hub: HubConnection,
    mut sequence: u64,
    sessions: usize,
    chorus: Arc<Chorus>,
) {
    const RETRY_PAUSE: Duration = Duration::from_millis(200);
    /// As long as a link waits for one answer.
    const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);
    let id = &member.certificate.id;
    let mut n = 1;
    let random = || sys::random::random_bytes::<1>().map_or(0.5, |[byte]| f64::from(byte) / 255.0);
    let mut pause = RENEW.mul_f64(random());
    let mut said_over = hub.count_connects();
    let mut counted = said_over;
    while !chorus.ended.load(Ordering::Relaxed) {
        // Not by the event: a question that waits for its answer reads those, too.
        let connects = hub.count_connects();
        chorus.breaks.fetch_add(connects - counted, Ordering::Relaxed);
        counted = connects;
        if connects != said_over {
            // What was sent into a break is answered by nobody.
            let saying = publish_all(&member, &mut hub, sessions);
            match tokio::time::timeout(ANSWER_TIMEOUT, saying).await {
                Ok(Ok(found)) => {
                    (sequence, said_over) = (found, connects);
                    chorus.pages.fetch_add(3, Ordering::Relaxed);
                    chorus.complete_of(|complete| complete.insert(id.clone()));
                }
                _ => tokio::time::sleep(RETRY_PAUSE).await,
            }
            continue;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            // One that breaks again is not back; an event of an earlier break says nothing.
            Some(_) = hub.events.recv() => {
                if hub.client.connection_state() != State::Connected {
                    chorus.complete_of(|complete| complete.remove(id));
                }
                continue;
            }
        }
        n += 1;
        pause = RENEW.mul_f64(0.9 + 0.2 * random());
        let Ok(lease) = member.lease(n, sessions) else { return };
        let subject = format!("$KV.lease.{id}");
        let renewing = hub.put_record(&subject, Some(sequence), lease.clone());
        if let Ok(Ok(found)) = tokio::time::timeout(ANSWER_TIMEOUT, renewing).await {
            sequence = found;
            chorus.renewals.fetch_add(1, Ordering::Relaxed);
            let notice = format!("ostler.v1.out.{id}.state.lease");
            // Nobody may listen.
            let _ = hub.client.publish(notice, lease.into()).await;
        }
    }
}

async fn connect_everybody(load: &Load, chorus: &Arc<Chorus>) -> Result<(), Failure> {
    let begun = Instant::now();
    let sessions = load.options.sessions;
    let joining = load.members.iter().map(|member| async move {
        let login = load.login(&member.link, &member.certificate.id, true);
        let mut hub = connect_hub(&login).await?;
        let sequence = publish_all(member, &mut hub, sessions).await?;
        // What happened until now is no news.
        while hub.events.try_recv().is_ok() {}
        Ok::<_, Failure>((Arc::clone(member), hub, sequence))
    });
    let joined: Vec<Result<_, Failure>> =
        futures_util::stream::iter(joining).buffer_unordered(64).collect().await;
    for one in joined {
        let (member, hub, sequence) = one?;
        tokio::spawn(play(member, hub, sequence, sessions, Arc::clone(chorus)));
    }
    say("everybody connected and published", begun.elapsed().as_secs_f64(), "s", None);
    Ok(())
}

/// `ls --fleet` as a person runs it: time and CPU, medians.
fn measure_reading(load: &Load, words: &[&str], runs: usize) -> Result<(f64, f64, usize), Failure> {
    let (mut times, mut costs, mut count) = (Vec::new(), Vec::new(), 0);
    for _ in 0..runs {
        let mut timed = Command::new("time");
        timed.args(["-q", "-f", "%e %U %S"]).arg(&load.options.ostler).args(words).env_clear();
        let base = load.options.command("reader");
        timed.envs(base.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = timed.stdin(Stdio::null()).stderr(Stdio::piped()).output()?;
        let told: Value = serde_json::from_slice(&output.stdout)?;
        count = told["result"]["total"].as_u64().unwrap_or(0) as usize;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let numbers: Vec<f64> = text
            .lines()
            .last()
            .unwrap_or("")
            .split(' ')
            .filter_map(|number| number.parse().ok())
            .collect();
        let [elapsed, user, system] = numbers.as_slice() else {
            return Err(format!("`time` said {text:?}").into());
        };
        times.push(*elapsed);
        costs.push(user + system);
    }
    times.sort_by(f64::total_cmp);
    costs.sort_by(f64::total_cmp);
    Ok((times[runs / 2], costs[runs / 2], count))
}

/// What goes to the hub and comes from it while nothing happens.
async fn measure_idle(load: &Load, chorus: &Chorus) -> Result<(), Failure> {
    const TIME: Duration = Duration::from_secs(30);
    let before = load.hub.read_engine_stats().await?;
    let pages = chorus.pages.load(Ordering::Relaxed);
    let begun = Instant::now();
    tokio::time::sleep(TIME).await;
    let after = load.hub.read_engine_stats().await?;
    let seconds = begun.elapsed().as_secs_f64();
    let each = |name: &str| {
        let bytes = |stats: &Value| stats[name].as_f64().unwrap_or(0.0);
        (bytes(&after) - bytes(&before)) / seconds / load.members.len() as f64
    };
    let (in_bytes, out_bytes) = (each("in_bytes"), each("out_bytes"));
    say("row 78: idle member: to the hub and from it", in_bytes + out_bytes, "B/s", Some(256.0));
    let sent = chorus.pages.load(Ordering::Relaxed) - pages;
    say("row 78: pages that idle members sent", sent as f64, "", Some(0.0));
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the directory is this benchmark's own")]
fn set_store_aside(hub: &std::path::Path) -> std::io::Result<()> {
    std::fs::rename(hub.join("store"), hub.join(format!("store-{}", std::process::id())))
}

/// The hub is killed and started again; from then until everybody is back with everything.
async fn measure_return(load: &mut Load, chorus: &Chorus, wipe: bool) -> Result<f64, Failure> {
    load.engine.0.kill()?;
    load.engine.0.wait()?;
    let begun = Instant::now();
    // Nobody has said anything to the next engine yet.
    chorus.complete_of(HashSet::clear);
    if wipe {
        set_store_aside(load.hub.dir.path())?;
    }
    load.engine = start_engine(&load.options)?;
    let back = || chorus.complete_of(|complete| complete.len());
    while back() < load.members.len() {
        if begun.elapsed() > Duration::from_secs(120) {
            return Err(format!("only {} came back", back()).into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(begun.elapsed().as_secs_f64())
}

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(measure_load(LoadOptions::read()?));
    runtime.shutdown_background();
    result
}

async fn measure_load(options: LoadOptions) -> Result<(), Failure> {
    let (members, sessions) = (options.members, options.sessions);
    let mut load = Load::prepare(options).await?;
    let chorus = Arc::new(Chorus::default());
    connect_everybody(&load, &chorus).await?;
    let shape = format!("{members} x {sessions}");
    // Reading is another process; this one goes on playing meanwhile.
    let reading = |load: Load, words: &'static [&'static str], runs| async move {
        let done = tokio::task::spawn_blocking(move || {
            let measured = measure_reading(&load, words, runs).map_err(|error| error.to_string());
            (load, measured)
        });
        let (load, measured) = done.await?;
        Ok::<_, Failure>((load, measured?))
    };
    let (back, (time, cpu, count)) = reading(load, &["ls", "--fleet", "--json"], 7).await?;
    eprintln!("ls --fleet lists {count}");
    say(&format!("row 77: ls --fleet, {shape}: time"), time, "s", Some(1.0));
    say(&format!("row 77: ls --fleet, {shape}: CPU"), cpu, "s", Some(0.5));
    let (back, (time, cpu, count)) = reading(back, &["ls", "--fleet", "-a", "--json"], 3).await?;
    eprintln!("ls --fleet -a lists {count}");
    say(&format!("row 77: ls --fleet -a, {shape}: time"), time, "s", None);
    say(&format!("row 77: ls --fleet -a, {shape}: CPU"), cpu, "s", Some(2.0));
    load = back;
    measure_idle(&load, &chorus).await?;
    say(&format!("row 80: hub, {shape}: resident"), load.engine_rss()?, "MB", Some(300.0));
    let breaks = chorus.breaks.load(Ordering::Relaxed);
    let real = RealMember::start(&load)?;
    real.measure_deaths(&load).await?;
    let broken = chorus.breaks.load(Ordering::Relaxed) - breaks;
    say("row 21: connections that broke when one was admitted", broken as f64, "", Some(0.0));
    real.measure_orders(&load).await?;
    real.measure_rest(&load).await?;
    let back = measure_return(&mut load, &chorus, false).await?;
    say("row 39: hub killed: everybody back and complete", back, "s", Some(15.0));
    let back = measure_return(&mut load, &chorus, true).await?;
    say("row 40: hub killed and its store lost: the same", back, "s", Some(15.0));
    eprintln!("{} renewals in all", chorus.renewals.load(Ordering::Relaxed));
    chorus.ended.store(true, Ordering::Relaxed);
    Ok(())
}
