//! The daemon's event loop, without its sockets: it is the writer for as long as it runs, takes the spool
//! in when it changes, and finalizes a session the moment its owner's process ends.
//!
//! It sleeps until the kernel tells it something: nothing is polled. Everything it does is also done
//! by commands, by the same code; killing it at any point loses nothing.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use model::control::fuses::FuseRecord;
use model::identity::Identity;
use model::time::Time;
use model::wire::{DaemonResult, SweepResult};
use sys::machine::Machine;
use sys::private::PrivateDir;
use sys::watch::DirectoryWatch;

use crate::finalize::{self, SweepError};
use crate::fuses::{FuseEngine, read_fuse_clock};
use crate::notify::Notifier;
use crate::timeouts::{CONDENSE_TIME_BUDGET, OWNER_CHECK_INTERVAL};
use crate::writer::{DaemonAnswer, DaemonOrder, HomeId};
use crate::{hook, work};
use model::failure::{Failure, FailureKind};
use store::state::{MemberScope, StateError};
use store::writer::StoreWriter;

/// How often a sweep is repeated because an owner ended meanwhile.
const MAX_SWEEP_ROUNDS: usize = 8;

/// Gives the order when the daemon turns to it; none if the client is gone.
type TakeOrder = Box<dyn FnOnce() -> Option<DaemonOrder> + Send>;
type Reply = Box<dyn FnOnce(DaemonAnswer) + Send>;

/// The way to the daemon's one thread of work.
#[derive(Debug)]
pub struct OrderQueue {
    orders: Sender<(TakeOrder, Reply)>,
    bell: io::PipeWriter,
    about: DaemonResult,
    watching: Arc<AtomicU64>,
}

impl OrderQueue {
    /// Puts an order in the queue; `reply` is called with the answer.
    pub fn put(&self, order: DaemonOrder, reply: impl FnOnce(DaemonAnswer) + Send + 'static) {
        self.put_untaken(move || Some(order), reply);
    }

    /// As [`Self::put`], with an order that is fetched when its turn comes.
    pub fn put_untaken(
        &self,
        take: impl FnOnce() -> Option<DaemonOrder> + Send + 'static,
        reply: impl FnOnce(DaemonAnswer) + Send + 'static,
    ) {
        use std::io::Write;

        // When the daemon has stopped, both are dropped, which wakes their waiters.
        if self.orders.send((Box::new(take), Box::new(reply))).is_ok() {
            // A full pipe has rung already.
            let _ = (&self.bell).write(&[1]);
        }
    }

    /// What the daemon says of itself, without waiting for it.
    pub fn status(&self) -> DaemonResult {
        let watching = Some(self.watching.load(Ordering::Relaxed));
        DaemonResult { watching, ..self.about.clone() }
    }
}

/// The daemon at work.
pub struct Daemon {
    writer: StoreWriter,
    /// As it was when the daemon began; each turn has its own.
    machine: Machine,
    home: PrivateDir,
    orders: Receiver<(TakeOrder, Reply)>,
    bell: io::PipeReader,
    spool: DirectoryWatch,
    owners: HashMap<String, OwnedFd>,
    unwatched: usize,
    about: DaemonResult,
    watching: Arc<AtomicU64>,
    notifier: Option<Notifier>,
    fuses: FuseEngine,
}

impl std::fmt::Debug for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Daemon").field("about", &self.about).finish_non_exhaustive()
    }
}

impl Daemon {
    /// Makes the daemon ready; `about` is what it says of itself.
    pub fn new(
        writer: StoreWriter,
        machine: Machine,
        about: DaemonResult,
    ) -> io::Result<(Self, OrderQueue)> {
        // Held open: its inode is not given to another directory while the daemon runs.
        let home = PrivateDir::open(&writer.home)?;
        let spool = hook::spool_path(&writer.home);
        let directory = spool.parent().unwrap_or(&writer.home);
        sys::private::create_private_dir(directory).map_err(io::Error::other)?;
        let (bell, ring) = io::pipe()?;
        let (sender, orders) = channel();
        let watching = Arc::new(AtomicU64::new(0));
        let queue = OrderQueue {
            orders: sender,
            bell: ring,
            about: about.clone(),
            watching: Arc::clone(&watching),
        };
        let daemon = Self {
            home,
            machine,
            orders,
            bell,
            // Watched before it is first read: what comes between is told.
            spool: DirectoryWatch::watch_directory(directory)?,
            owners: HashMap::new(),
            unwatched: 0,
            about,
            watching,
            notifier: None,
            fuses: FuseEngine::new()?,
            writer,
        };
        Ok((daemon, queue))
    }

    /// Has people told when they are needed.
    pub fn with_notifier(self, notifier: Option<Notifier>) -> Self {
        Self { notifier, ..self }
    }

    /// Which home it serves.
    pub fn home_id(&self) -> io::Result<HomeId> {
        HomeId::of_dir(&self.home)
    }

    /// Refuses to go on when the home's path leads elsewhere: everything below it is written by path.
    fn check_home(&self) -> io::Result<()> {
        let path = &self.writer.home;
        match (HomeId::of_path(path), self.home_id()?) {
            (Ok(now), held) if now == held => Ok(()),
            _ => Err(io::Error::other(format!(
                "the home `{}` was moved or replaced; nothing was written there, and this daemon ends",
                path.display()
            ))),
        }
    }

    /// Works until it is told to stop, or its home is no longer where it was. The right to write is handed back, so that no other process takes
    /// it before the daemon's door is closed.
    pub fn run(mut self, problem: &mut dyn FnMut(&str)) -> io::Result<StoreWriter> {
        loop {
            self.check_home()?;
            let swept = self.sweep_and_hold(&[]).map(drop);
            if let Err(error) = swept.and_then(|()| self.notify_people()) {
                problem(&error.to_string());
            }
            if let Err(error) = self.fire_fuses() {
                problem(&error.to_string());
            }
            if self.wait_for_events()? {
                return Ok(self.writer);
            }
        }
    }

    /// Sweeps, and holds on to every owner that is there.
    fn sweep_and_hold(&mut self, only: &[String]) -> Result<SweepResult, SweepError> {
        let machine = self.machine.next_turn();
        let request =
            finalize::SweepRequest { machine: &machine, only, budget: CONDENSE_TIME_BUDGET };
        let mut swept = finalize::sweep_sessions(&mut self.writer, &request)?;
        // One that ended after it was seen alive and before it was held on to is swept at once.
        for _ in 0..MAX_SWEEP_ROUNDS {
            if !self.hold_owners(&machine)? {
                break;
            }
            let more = finalize::sweep_sessions(&mut self.writer, &request)?;
            swept.reports += more.reports;
            swept.rejected += more.rejected;
            swept.ended.extend(more.ended);
            swept.condensed.extend(more.condensed);
            swept.launches += more.launches;
            (swept.kept, swept.pending) = (more.kept, more.pending);
        }
        tracing::debug!(
            ended = swept.ended.len(),
            condensed = swept.condensed.len(),
            kept = swept.kept.len(),
            pending = swept.pending,
            watching = self.owners.len(),
            unwatched = self.unwatched,
            "swept"
        );
        Ok(swept)
    }

    fn fire_fuses(&mut self) -> Result<(), StateError> {
        let machine = self.machine.next_turn();
        let clock = read_fuse_clock(&machine);
        let state = self.writer.state_mut()?;
        self.fuses.fire_due(state, &machine, &clock, &mut start_carrier)
    }

    fn notify_people(&mut self) -> Result<(), SweepError> {
        let Some(notifier) = &mut self.notifier else { return Ok(()) };
        Ok(notifier.notify_of_events(self.writer.state_mut()?)?)
    }

    /// Holds on to every owner that is there; returns whether one is already gone.
    fn hold_owners(&mut self, machine: &Machine) -> Result<bool, SweepError> {
        sys::pause::pause_at("daemon.hold");
        let mut held = HashMap::new();
        self.unwatched = 0;
        let mut gone = false;
        let state = self.writer.state()?;
        let mut owners: Vec<Identity> = Vec::new();
        for tracked in state.open_sessions()? {
            // The end of one that is in doubt would end nothing.
            owners.extend(tracked.track.owner.filter(|_| !tracked.track.owner_unconfirmed));
        }
        for member in state.list_members(MemberScope::Open)? {
            owners.extend(member.deciding_process().cloned());
        }
        for owner in &owners {
            let key = serde_json::to_string(&(owner.pid, owner.start, &owner.boot))
                .unwrap_or_else(|_| format!("{:?}", owner.pid));
            if held.contains_key(&key) {
                continue;
            }
            let known = self.owners.remove(&key);
            match known.or_else(|| sys::proc::watch_process_end(owner, machine.observer())) {
                Some(descriptor) => {
                    held.insert(key, descriptor);
                }
                None => {
                    gone |= machine.probe_process(owner).is_dead();
                    self.unwatched += 1;
                }
            }
        }
        self.owners = held;
        self.watching.store(self.owners.len() as u64, Ordering::Relaxed);
        Ok(gone)
    }

    /// Sleeps until something happens; returns whether to stop.
    fn wait_for_events(&mut self) -> io::Result<bool> {
        let mut descriptors = vec![self.bell.as_fd()];
        descriptors.extend(self.spool.descriptor());
        descriptors.extend(self.owners.values().map(AsFd::as_fd));
        descriptors.extend(self.fuses.descriptors());
        let timeout = (self.unwatched > 0).then_some(OWNER_CHECK_INTERVAL);
        let timeout = sys::watch::POLL_INTERVAL.or(timeout);
        let ready = sys::watch::poll_readable(&descriptors, timeout)?;
        let first = 1 + usize::from(self.spool.descriptor().is_some());
        let ended =
            ready.iter().skip(first).take(self.owners.len()).filter(|ready| **ready).count();
        if ended > 0 {
            tracing::info!(processes = ended, "owners ended");
        }
        self.spool.clear();
        if ready[0] {
            return self.serve_orders();
        }
        Ok(false)
    }

    /// Carries out what was ordered.
    fn serve_orders(&mut self) -> io::Result<bool> {
        use std::io::Read;

        let mut rung = [0; 64];
        let _ = self.bell.read(&mut rung)?;
        while let Ok((take, reply)) = self.orders.try_recv() {
            // A client that gave up before this has ordered nothing.
            let Some(order) = take() else { continue };
            let (name, begun) = (order.name(), Instant::now());
            tracing::debug!(order = name, "an order was taken");
            // Noted first: whoever has its answer finds it in the log.
            let reply = |answer: DaemonAnswer| {
                let took_ms = begun.elapsed().as_millis() as u64;
                tracing::info!(
                    order = name,
                    outcome = answer.outcome(),
                    took_ms,
                    "an order was answered"
                );
                reply(answer);
            };
            sys::pause::pause_at("daemon.taken");
            if let Err(error) = self.check_home() {
                reply(DaemonAnswer::NotDone(Failure {
                    kind: FailureKind::Refused,
                    message: error.to_string(),
                    hint: "try again".to_owned(),
                }));
                return Err(error);
            }
            match order {
                DaemonOrder::Status => reply(DaemonAnswer::Status(DaemonResult {
                    watching: Some(self.owners.len() as u64),
                    ..self.about.clone()
                })),
                DaemonOrder::Sweep { only } => reply(match self.sweep_and_hold(&only) {
                    Ok(swept) => DaemonAnswer::Swept(swept),
                    Err(error) => DaemonAnswer::Failed { reason: error.to_string() },
                }),
                DaemonOrder::Work(work) => {
                    let machine = self.machine.next_turn();
                    let done =
                        work::perform_work(&mut self.writer, &work, &machine, &mut |_, _| {});
                    reply(match done {
                        Ok(done) => DaemonAnswer::Done(Box::new(done)),
                        Err(failure) => DaemonAnswer::NotDone(failure),
                    });
                }
                DaemonOrder::Stop => {
                    reply(DaemonAnswer::Stopping);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// Starts the process that carries a fuse out. It outlives the daemon, and tells the writer what became of it.
fn start_carrier(fuse: &FuseRecord) -> io::Result<()> {
    let mut command = std::process::Command::new(sys::spawn::this_program()?);
    let null = std::process::Stdio::null;
    command.args(["fuse", "carry-out", &fuse.id]).stdin(null()).stdout(null()).stderr(null());
    sys::spawn::spawn_detached(&mut command)?.wait().map(drop)
}

/// What the daemon says of itself.
pub fn describe_daemon(socket: &Path, version: &str, started_at: Time) -> DaemonResult {
    DaemonResult {
        running: true,
        pid: Some(std::process::id()),
        version: Some(version.to_owned()),
        started_at: Some(started_at),
        socket: socket.to_string_lossy().into_owned(),
        watching: None,
    }
}
