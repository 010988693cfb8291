//! `ostler daemon`

use std::os::unix::fs::OpenOptionsExt;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use flows::daemon::{self, Answer, CallError, Order};
use flows::writer::{self, WriterError};
use model::wire::DaemonResult;
use sys::dirs::Dirs;

use crate::cli::{Context, version};
use crate::env;
use crate::error::Error;
use crate::render::output;

/// Run, start, stop or look at the daemon, which finalizes sessions the moment their agent ends.
///
/// Everything works without it: then `ostler status` and `ostler doctor` finalize what has ended.
#[derive(Debug, Args)]
pub(crate) struct Daemon {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Run it here, until it is stopped.
    Run,
    /// Start it in the background.
    Start,
    /// Stop it.
    Stop,
    /// Tell whether it runs.
    Status,
}

/// How long the daemon is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

impl Daemon {
    pub(crate) fn name(&self) -> &'static str {
        match self.action {
            Action::Run => "daemon run",
            Action::Start => "daemon start",
            Action::Stop => "daemon stop",
            Action::Status => "daemon status",
        }
    }

    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let dirs = context.dirs()?;
        match self.action {
            Action::Run => run(context, &dirs),
            Action::Start => start(context, &dirs),
            Action::Stop => stop(context, &dirs),
            Action::Status => {
                let status = status(&dirs)?;
                tell(context, &status)
            }
        }
    }
}

fn run(context: &Context, dirs: &Dirs) -> Result<ExitCode, Error> {
    let writer = match writer::take(&dirs.home, Duration::ZERO) {
        Err(WriterError::Held(holder)) if is_running(dirs) => {
            return Err(Error::DaemonRuns { pid: holder.and_then(|holder| holder.pid) });
        }
        taken => taken.map_err(|error| Error::Order(error.into()))?,
    };
    // A daemon that cannot note what it hears would be of no use, and is better not there.
    writer.state().map_err(|error| Error::Order(WriterError::from(error).into()))?;
    // Whoever left a socket behind was a writer, and there is none but us.
    let listener = sys::socket::listen(&daemon::socket(&dirs.runtime))
        .map_err(|error| Error::Order(CallError::Socket(error).into()))?;
    let about = daemon::about(&dirs.runtime, version::VERSION, context.now);
    let env = flows::Env::new(&env::lookup);
    let (daemon, desk) = daemon::Daemon::new(writer, env, about)?;
    let door = crate::daemon::Door::open(listener, desk)?;
    output::talk(&format!("ostler daemon: pid {}", std::process::id()));
    let ended = daemon.run(&mut |problem| output::talk(&format!("ostler daemon: {problem}")));
    door.close();
    drop(ended?);
    Ok(ExitCode::SUCCESS)
}

fn start(context: &Context, dirs: &Dirs) -> Result<ExitCode, Error> {
    let before = status(dirs)?;
    if before.running {
        return Err(Error::DaemonRuns { pid: before.pid });
    }
    sys::private::create_private_dir(&dirs.home).map_err(|error| Error::Write {
        path: dirs.home.to_string_lossy().into_owned(),
        reason: error.to_string(),
    })?;
    let path = dirs.home.join("daemon.log");
    let mut options = std::fs::File::options();
    let log = options.write(true).create(true).truncate(true).mode(0o600).open(&path);
    let log = log.map_err(|error| Error::Write {
        path: path.to_string_lossy().into_owned(),
        reason: error.to_string(),
    })?;
    let mut command = std::process::Command::new(sys::spawn::this_program()?);
    command.args(["daemon", "run"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    sys::spawn::detached(&mut command)?.wait()?;
    let begun = Instant::now();
    loop {
        let now = status(dirs)?;
        if now.running {
            return tell(context, &now);
        }
        if begun.elapsed() > PATIENCE {
            return Err(Error::Read {
                path: path.to_string_lossy().into_owned(),
                reason: "the daemon did not start; this file may say why".to_owned(),
            });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn stop(context: &Context, dirs: &Dirs) -> Result<ExitCode, Error> {
    match daemon::ask(&dirs.runtime, &Order::Stop, PATIENCE) {
        Ok(_) => {}
        Err(CallError::NotRunning) => return tell(context, &not_running(dirs)),
        Err(error) => return Err(Error::Order(error.into())),
    }
    // It is gone when its lock is free.
    let _ = sys::lock::take_within(&writer::lock_path(&dirs.home), PATIENCE);
    let now = status(dirs)?;
    tell(context, &now)
}

fn not_running(dirs: &Dirs) -> DaemonResult {
    let socket = daemon::socket(&dirs.runtime).to_string_lossy().into_owned();
    DaemonResult { socket, ..DaemonResult::default() }
}

fn is_running(dirs: &Dirs) -> bool {
    status(dirs).is_ok_and(|status| status.running)
}

/// What the daemon says of itself.
pub(crate) fn status(dirs: &Dirs) -> Result<DaemonResult, Error> {
    match daemon::ask(&dirs.runtime, &Order::Status, PATIENCE) {
        Ok(Answer::Status(status)) => Ok(status),
        Ok(_) | Err(CallError::NotRunning) => Ok(not_running(dirs)),
        Err(error) => Err(Error::Order(error.into())),
    }
}

fn tell(context: &Context, status: &DaemonResult) -> Result<ExitCode, Error> {
    if context.json {
        context.answer(status)?;
    } else if status.running {
        let pid = status.pid.unwrap_or_default();
        let watching = status.watching.unwrap_or_default();
        output::text(&format!("running (pid {pid}), watching {watching} owners\n"))?;
    } else {
        output::text("not running\n")?;
    }
    Ok(ExitCode::SUCCESS)
}
