//! The daemon's work, without its sockets: it is the writer for as long as it runs, takes the spool
//! in when it changes, and finalizes a session the moment its owner's process ends.
//!
//! It sleeps until the kernel tells it something: nothing is polled. Everything it does is also done
//! by commands, by the same code; killing it at any point loses nothing.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use adapters::Env;
use model::liveness::Observer;
use model::time::{Time, millis};
use model::wire::{DaemonResult, Swept};
use serde::{Deserialize, Serialize};
use sys::watch::Watch;

use crate::finalize::{self, SweepError, name};
use crate::hook;
use crate::work::{self, Done, Failure, Work};
use crate::writer::Writer;

mod client;

pub use client::{CallError, ask};

/// The version of what is said through the socket. Another one is refused.
pub const PROTOCOL: u32 = 2;

/// Where the daemon listens.
pub fn socket(runtime: &Path) -> PathBuf {
    runtime.join("daemon.sock")
}

/// What the daemon can be asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "order")]
pub enum Order {
    /// How it is.
    Status,
    /// To sweep now.
    #[serde(rename_all = "camelCase")]
    Sweep {
        /// Only these sessions; empty means all.
        only: Vec<String>,
        /// How long condensing may take.
        budget_ms: u64,
    },
    /// To do something as the writer.
    Work(Box<Work>),
    /// To stop.
    Stop,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "answer")]
pub enum Answer {
    /// How it is.
    Status(DaemonResult),
    /// What the sweep did.
    Swept(Swept),
    /// It is done.
    Done(Box<Done>),
    /// It is not done, and this is why.
    NotDone(Failure),
    /// It stops.
    Stopping,
    /// It could not do what was asked.
    Failed {
        /// Why.
        reason: String,
    },
}

/// How often owners are looked at whose end the kernel does not tell.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// How long condensing may take before orders are looked at again.
const BUDGET: Duration = Duration::from_secs(5);

/// How often a sweep is repeated because an owner ended meanwhile.
const MOST_ROUNDS: usize = 8;

type Asked = (Order, Box<dyn FnOnce(Answer) + Send>);

/// The way to the daemon's one thread of work.
#[derive(Debug)]
pub struct Desk {
    orders: Sender<Asked>,
    bell: io::PipeWriter,
}

impl Desk {
    /// Puts an order on the desk; `reply` is called with the answer.
    pub fn put(&self, order: Order, reply: impl FnOnce(Answer) + Send + 'static) {
        use std::io::Write;

        if let Err(refused) = self.orders.send((order, Box::new(reply))) {
            let (_, reply) = refused.0;
            reply(Answer::Failed { reason: "the daemon is stopping".to_owned() });
            return;
        }
        // A full pipe has rung already.
        let _ = (&self.bell).write(&[1]);
    }
}

/// The daemon at work.
pub struct Daemon<'a> {
    writer: Writer,
    env: Env<'a>,
    orders: Receiver<Asked>,
    bell: io::PipeReader,
    spool: Watch,
    owners: HashMap<String, OwnedFd>,
    unwatched: usize,
    about: DaemonResult,
}

impl std::fmt::Debug for Daemon<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Daemon").field("about", &self.about).finish_non_exhaustive()
    }
}

impl<'a> Daemon<'a> {
    /// Makes the daemon ready; `about` is what it says of itself.
    pub fn new(writer: Writer, env: Env<'a>, about: DaemonResult) -> io::Result<(Self, Desk)> {
        let spool = hook::spool(&writer.home);
        let directory = spool.parent().unwrap_or(&writer.home);
        sys::private::create_private_dir(directory).map_err(io::Error::other)?;
        let (bell, ring) = io::pipe()?;
        let (sender, orders) = channel();
        let daemon = Self {
            env,
            orders,
            bell,
            // Watched before it is first read: what comes between is told.
            spool: Watch::directory(directory)?,
            owners: HashMap::new(),
            unwatched: 0,
            about,
            writer,
        };
        Ok((daemon, Desk { orders: sender, bell: ring }))
    }

    /// Works until it is told to stop. The right to write is handed back, so that nobody else takes
    /// it before the daemon's door is closed.
    pub fn run(mut self, problem: &mut dyn FnMut(&str)) -> io::Result<Writer> {
        loop {
            if let Err(error) = self.look_after(&[]) {
                problem(&error.to_string());
            }
            if self.wait()? {
                return Ok(self.writer);
            }
        }
    }

    /// Sweeps, and holds on to every owner that is there.
    fn look_after(&mut self, only: &[String]) -> Result<Swept, SweepError> {
        let request =
            finalize::Request { env: self.env, now: sys::clock::now(), only, budget: BUDGET };
        let mut swept = finalize::sweep(&mut self.writer, &request)?;
        // One that ended after it was seen alive and before it was held on to is swept at once.
        for _ in 0..MOST_ROUNDS {
            if !self.hold_owners()? {
                break;
            }
            let more = finalize::sweep(&mut self.writer, &request)?;
            swept.reports += more.reports;
            swept.rejected += more.rejected;
            swept.ended.extend(more.ended);
            swept.condensed.extend(more.condensed);
            swept.launches += more.launches;
            (swept.kept, swept.pending) = (more.kept, more.pending);
        }
        Ok(swept)
    }

    /// Holds on to every owner that is there; returns whether one is already gone.
    fn hold_owners(&mut self) -> Result<bool, SweepError> {
        sys::pause::at("daemon.hold");
        let observer: Observer = sys::proc::observer();
        let mut held = HashMap::new();
        self.unwatched = 0;
        let mut gone = false;
        for tracked in self.writer.state()?.open_sessions()? {
            let owner = tracked.track.owner.as_ref();
            // The end of one that is in doubt would end nothing.
            let Some(owner) = owner.filter(|_| !tracked.track.owner_unconfirmed) else { continue };
            let key = serde_json::to_string(&(owner.pid, owner.start, &owner.boot))
                .unwrap_or_else(|_| name(&tracked.agent, &tracked.id));
            if held.contains_key(&key) {
                continue;
            }
            let known = self.owners.remove(&key);
            match known.or_else(|| sys::proc::watch(owner, &observer)) {
                Some(descriptor) => {
                    held.insert(key, descriptor);
                }
                None => {
                    gone |= sys::proc::probe(owner, &observer).is_dead();
                    self.unwatched += 1;
                }
            }
        }
        self.owners = held;
        Ok(gone)
    }

    /// Sleeps until something happens; returns whether to stop.
    fn wait(&mut self) -> io::Result<bool> {
        let mut descriptors = vec![self.bell.as_fd()];
        descriptors.extend(self.spool.descriptor());
        descriptors.extend(self.owners.values().map(AsFd::as_fd));
        let timeout = (self.unwatched > 0).then_some(LOOK_EVERY);
        let timeout = sys::watch::ASK_EVERY.or(timeout);
        let ready = sys::watch::poll(&descriptors, timeout)?;
        self.spool.clear();
        if ready[0] {
            return self.serve();
        }
        Ok(false)
    }

    /// Carries out what was ordered.
    fn serve(&mut self) -> io::Result<bool> {
        use std::io::Read;

        let mut rung = [0; 64];
        let _ = self.bell.read(&mut rung)?;
        while let Ok((order, reply)) = self.orders.try_recv() {
            match order {
                Order::Status => reply(Answer::Status(DaemonResult {
                    watching: Some(self.owners.len() as u64),
                    ..self.about.clone()
                })),
                Order::Sweep { only, budget_ms: _ } => reply(match self.look_after(&only) {
                    Ok(swept) => Answer::Swept(swept),
                    Err(error) => Answer::Failed { reason: error.to_string() },
                }),
                Order::Work(work) => {
                    let done = work::perform(&mut self.writer, &work, sys::clock::now());
                    reply(match done {
                        Ok(done) => Answer::Done(Box::new(done)),
                        Err(failure) => Answer::NotDone(failure),
                    });
                }
                Order::Stop => {
                    reply(Answer::Stopping);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// Sweeps: through the daemon if there is one, else as the writer.
///
/// Only a daemon that was never reached is replaced by doing it here. One that was reached and then
/// did not answer may have done it, and its answer is not known.
pub fn sweep(
    home: &Path,
    runtime: &Path,
    request: &finalize::Request<'_>,
) -> Result<Swept, OrderError> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let budget_ms = millis(request.budget);
    let order = Order::Sweep { only: request.only.to_vec(), budget_ms };
    match ask(runtime, &order, request.budget + BUDGET + PATIENCE) {
        Ok(Answer::Swept(swept)) => Ok(swept),
        Ok(Answer::Failed { reason }) => Err(OrderError::Failed(reason)),
        Ok(_) => Err(OrderError::Call(CallError::MayHaveApplied("an unknown answer".to_owned()))),
        Err(CallError::NotRunning) => {
            let mut writer = crate::writer::take(home, PATIENCE)?;
            Ok(finalize::sweep(&mut writer, request)?)
        }
        Err(error) => Err(error.into()),
    }
}

/// Why an order was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The daemon could not be asked, or did not answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The daemon tried and could not.
    #[error("the daemon could not do it: {0}")]
    Failed(String),
    /// It could not be done, by whoever tried.
    #[error(transparent)]
    NotDone(Failure),
    /// Nobody could be asked, and this process may not write.
    #[error(transparent)]
    Writer(#[from] crate::writer::WriterError),
    /// It was tried here and failed.
    #[error(transparent)]
    Sweep(#[from] SweepError),
}

/// When something started, for the daemon's own account of itself.
pub fn about(runtime: &Path, version: &str, started_at: Time) -> DaemonResult {
    DaemonResult {
        running: true,
        pid: Some(std::process::id()),
        version: Some(version.to_owned()),
        started_at: Some(started_at),
        socket: socket(runtime).to_string_lossy().into_owned(),
        watching: None,
    }
}
