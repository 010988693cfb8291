//! `ostler daemon`

use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use flows::badge::BadgeKeeper;
use flows::daemon;
use flows::notify::Notifier;
use flows::observe::ObserveScope;
use flows::service;
use flows::writer::{
    self as client, AskLimits, DaemonAnswer, DaemonCallError, DaemonHolder, DaemonOrder, HomeId,
};
use model::helper::DaemonPlace;
use model::wire::{DaemonResult, FleetLevel};
use store::writer;
use sys::dropped::NoteDropped;
use sys::lock::LockAttempt;
use sys::machine::Machine;
use sys::watch::WatchLimitError;

use crate::api::ApiService;
use crate::cli::metrics::metrics_text;
use crate::cli::{CliContext, served, version};
use crate::env;
use crate::error::Error;
use crate::helper;
use crate::render::output;
use crate::timeouts::{
    DAEMON_CHECK_INTERVAL, DAEMON_START_TIMEOUT, DAEMON_STOP_TIMEOUT, LOCK_LOOK_TIMEOUT,
};

declare_commands![
    CommandEntry {
        place: HelpPlace(SetUp, 4),
        usual_member: "status",
        ..entry!("daemon", DaemonArgs, run_daemon_command)
    },
    CommandEntry {
        place: HelpPlace(SetUp, 1),
        effect: WritesState,
        examples: &[example("daemon run", "Here, until Ctrl+C: to see what it says.").on(Served)],
        cases: &[refused("daemon run --no-such-option")],
        uncased: &[
            (Usual, "it is started and ended in tests/cli/daemon.rs"),
            ONE_HOME,
            ONE_PROGRAM
        ],
        ..entry!("daemon run")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 2),
        effect: WritesState,
        answers: &[answer::<wire::DaemonResult>()],
        examples: &[example("daemon start", "Note every end at once, from now on.").on(Served)],
        cases: &[usual("daemon start"), refused("daemon start --no-such-option")],
        uncased: &[ONE_HOME, ONE_PROGRAM],
        ..entry!("daemon start")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 3),
        effect: WritesState,
        answers: &[answer::<wire::DaemonResult>()],
        examples: &[example("daemon stop", "Stop it; everything works without it.")],
        cases: &[
            empty("daemon stop"),
            usual("daemon stop").after(&["daemon start"]),
            refused("daemon stop --no-such-option")
        ],
        uncased: &[ONE_PROGRAM],
        ..entry!("daemon stop")
    },
    CommandEntry {
        place: HelpPlace(SetUp, 4),
        answers: &[answer::<wire::DaemonResult>()],
        examples: &[example("daemon status", "Whether it runs.")],
        cases: &[
            empty("daemon status"),
            usual("daemon status").after(&["daemon start"]),
            refused("daemon status --no-such-option")
        ],
        uncased: &[ONE_PROGRAM],
        ..entry!("daemon status")
    }
];

/// Run, start, stop or look at the daemon, which finalizes sessions the moment their agent ends.
///
/// Everything works without it: then `ostler status` and `ostler doctor` finalize what has ended.
#[derive(Debug, Args)]
pub(crate) struct DaemonArgs {
    #[command(subcommand)]
    action: DaemonCommand,
}

#[derive(Debug, Subcommand)]
enum DaemonCommand {
    /// Run it here, until it is stopped.
    Run,
    /// Start it in the background.
    Start,
    /// Stop it.
    Stop,
    /// Tell whether it runs.
    Status,
}

impl DaemonArgs {
    pub(crate) fn run_daemon_command(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let machine = context.machine()?;
        match self.action {
            DaemonCommand::Run => run_in_foreground(context, machine),
            DaemonCommand::Start => start_daemon(context, machine),
            DaemonCommand::Stop => stop_daemon(context, machine),
            DaemonCommand::Status => {
                let status = daemon_status(machine)?;
                print_status(context, machine, &status)
            }
        }
    }
}

fn run_in_foreground(context: &CliContext, machine: &Machine) -> Result<ExitCode, Error> {
    let lock = match client::hold_daemon_lock(machine, LOCK_LOOK_TIMEOUT).map_err(not_private)? {
        LockAttempt::Taken(lock) => lock,
        LockAttempt::Held(holder) => {
            return Err(Error::DaemonRuns { pid: holder.and_then(|holder| holder.pid) });
        }
    };
    let writer = match writer::become_writer(machine.home(), LOCK_LOOK_TIMEOUT) {
        Err(error) => {
            if let Some(earlier) = client::previous::status(machine) {
                return Err(Error::DaemonRuns { pid: earlier.pid });
            }
            return Err(Error::Order(error.into()));
        }
        Ok(writer) => writer,
    };
    // A daemon that cannot note what it hears would be of no use, and is better not there.
    writer.state().map_err(|error| Error::Order(writer::WriterError::from(error).into()))?;
    let home = HomeId::of_path(machine.home())?;
    // The process that left a socket behind was a writer, and there is none but us.
    let (listener, socket) = client::listen(machine, home)
        .map_err(|error| Error::Order(DaemonCallError::Socket(error).into()))?;
    let about = daemon::describe_daemon(&socket, version::OSTLER_VERSION, context.now);
    let (daemon, queue) = daemon::Daemon::new(writer, machine.clone(), about).map_err(|error| {
        match WatchLimitError::from_error(&error) {
            Some(limit) => Error::Refused { what: limit.to_string(), hint: limit.remedy() },
            None => error.into(),
        }
    })?;
    // A daemon that cannot look does everything else.
    let source =
        context.live_source(ObserveScope::Active, &[]).ok_or_note("what the badge is counted from");
    let badge = source.map(BadgeKeeper::new);
    let daemon = daemon.with_notifier(start_notifier(context)?);
    let place = DaemonPlace {
        socket,
        home_id: home.to_string(),
        version: version::OSTLER_VERSION.to_owned(),
        program: sys::spawn::this_program()?,
    };
    let helpers = helper::HelperKeeper::start(machine.clone(), place)?;
    let helper = crate::daemon::HelperDesk {
        home: machine.home().to_owned(),
        wake: helpers.waker(),
        source: context
            .live_source(ObserveScope::All, &[])
            .ok_or_note("what the network helper is told from"),
        allowed: allowed_level,
        result: served::ordered_result,
        join: crate::cli::terminal::attach::join_for_operator,
    };
    let services = crate::daemon::DoorServices {
        badge,
        helper,
        measure: metrics_text,
        api: ApiService::new(served::COMMAND_RUNNER),
    };
    let door = crate::daemon::DaemonSocketServer::open(listener, queue, home, services)?;
    output::print_notice(&format!("ostler daemon: pid {}", std::process::id()));
    let ended =
        daemon.run(&mut |problem| output::print_notice(&format!("ostler daemon: {problem}")));
    // First: what they ask through the door is held back until something happens.
    helpers.stop();
    door.close();
    drop(ended?);
    // Last: with this lock free, everything is.
    drop(lock);
    Ok(ExitCode::SUCCESS)
}

/// What operators may do here, by the settings as they are now. Settings that cannot be read allow nothing.
fn allowed_level() -> FleetLevel {
    crate::config::load_config().map_or(FleetLevel::None, |loaded| loaded.fleet.allow)
}

/// What tells people that they are needed, if they asked for it.
fn start_notifier(context: &CliContext) -> Result<Option<Notifier>, Error> {
    let settings = context.load_config()?.notify;
    if !settings.is_on() {
        return Ok(None);
    }
    let problem = |problem: &str| output::print_notice(&format!("ostler daemon: {problem}"));
    Ok(Some(Notifier::start(settings, problem)?))
}

fn start_daemon(context: &CliContext, machine: &Machine) -> Result<ExitCode, Error> {
    let before = daemon_status(machine)?;
    if before.running {
        // One of an earlier version cannot do what it is wanted for.
        if is_previous(machine, &before) {
            return Err(Error::DaemonRuns { pid: before.pid });
        }
        // Otherwise what was asked for is so.
        output::print_notice("it runs already");
        return print_status(context, machine, &before);
    }
    sys::private::create_private_dir(machine.home()).map_err(|error| Error::Write {
        path: machine.home().to_string_lossy().into_owned(),
        reason: error.to_string(),
    })?;
    let path = machine.home().join("daemon.log");
    let mut options = std::fs::File::options();
    let log = options.write(true).create(true).truncate(true).mode(0o600).open(&path);
    let log = log.map_err(|error| Error::Write {
        path: path.to_string_lossy().into_owned(),
        reason: error.to_string(),
    })?;
    let mut command = std::process::Command::new(sys::spawn::this_program()?);
    command
        .args(["daemon", "run"])
        .env(env::NO_COLOR_VARIABLE, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    sys::spawn::spawn_detached(&mut command)?.wait()?;
    let begun = Instant::now();
    loop {
        // It holds its lock before it listens: until then it does not answer, and that is no fault.
        match daemon_status(machine) {
            Ok(now) if now.running => return print_status(context, machine, &now),
            Ok(_) | Err(Error::DaemonSilent { .. }) => {}
            Err(error) => return Err(error),
        }
        if let Some(error) = read_failure(&path) {
            return Err(error);
        }
        if begun.elapsed() > DAEMON_START_TIMEOUT {
            return Err(Error::Read {
                path: path.to_string_lossy().into_owned(),
                reason: "the daemon did not start; this file may say why".to_owned(),
            });
        }
        std::thread::sleep(DAEMON_CHECK_INTERVAL);
    }
}

/// Why a new daemon gave up, from its log: it says nothing there before it has begun but this.
fn read_failure(log: &Path) -> Option<Error> {
    let text = std::fs::read_to_string(log).ok()?;
    let (said, hint) = text.strip_prefix("error: ")?.split_once("\nhint: ")?;
    let hint = hint.strip_suffix('\n')?;
    let what = format!("the daemon did not start: {said}");
    Some(Error::Refused { what, hint: hint.to_owned() })
}

fn stop_daemon(context: &CliContext, machine: &Machine) -> Result<ExitCode, Error> {
    match client::ask(machine, &DaemonOrder::Stop, AskLimits::LONG) {
        Ok(_) => {
            if let Some(DaemonHolder { pid }) =
                client::wait_for_end(machine.home(), DAEMON_STOP_TIMEOUT).map_err(not_private)?
            {
                return Err(Error::DaemonStays { pid });
            }
        }
        Err(DaemonCallError::NotRunning) => {
            if client::previous::stop(machine) {
                let lock = sys::lock::take_within(
                    &sys::writer_lock::writer_lock_path(machine.home()),
                    DAEMON_STOP_TIMEOUT,
                );
                if let LockAttempt::Held(holder) = lock.map_err(not_private)? {
                    let pid = holder.and_then(|holder| holder.pid);
                    return Err(Error::DaemonStays { pid });
                }
            }
        }
        Err(error) => return Err(Error::Order(error.into())),
    }
    // The locks tell, not the socket: it may be closed while its daemon runs.
    let now = daemon_status(machine)?;
    print_status(context, machine, &now)
}

fn not_private(error: sys::private::PrivateError) -> Error {
    Error::Order(writer::WriterError::Lock(error.into()).into())
}

/// What the daemon of this home says of itself. One that runs and does not answer is an error.
pub(crate) fn daemon_status(machine: &Machine) -> Result<DaemonResult, Error> {
    match client::ask(machine, &DaemonOrder::Status, AskLimits::SHORT) {
        Ok(DaemonAnswer::Status(status)) => return Ok(status),
        Ok(_) | Err(DaemonCallError::NotRunning) => {}
        Err(error) => return Err(Error::Order(error.into())),
    }
    if let Some(DaemonHolder { pid }) =
        client::wait_for_end(machine.home(), Duration::ZERO).map_err(not_private)?
    {
        return Err(Error::DaemonSilent { pid });
    }
    Ok(client::previous::status(machine).unwrap_or_else(|| {
        let name = HomeId::of_path(machine.home()).map(client::socket_name);
        let socket =
            name.map_or_else(|_| machine.runtime().to_owned(), |name| machine.runtime().join(name));
        DaemonResult { socket: socket.to_string_lossy().into_owned(), ..DaemonResult::default() }
    }))
}

/// Whether it is a daemon of an earlier version, which listens at a place of its own.
fn is_previous(machine: &Machine, status: &DaemonResult) -> bool {
    status.socket == client::previous::socket(machine.runtime()).to_string_lossy()
}

/// What is to be said of a daemon of another release, and what to do: it goes on as it is, but what only one of the
/// two knows cannot be asked for.
pub(crate) fn name_other_release(status: &DaemonResult) -> Option<(String, &'static str)> {
    let own = version::OSTLER_VERSION;
    let running = status.version.as_deref().filter(|running| *running != own)?;
    let remedy = match service::is_later_version(running, own) {
        true => "update this program, or have it replaced by `ostler daemon stop`",
        false => {
            "`ostler daemon stop`, then `ostler daemon start` (a service: `ostler service install`)"
        }
    };
    Some((format!("is of ostler {running}, and this is {own}"), remedy))
}

fn print_status(
    context: &CliContext,
    machine: &Machine,
    status: &DaemonResult,
) -> Result<ExitCode, Error> {
    if context.json {
        context.print_json(status)?;
    } else if status.running {
        let pid = status.pid.unwrap_or_default();
        let watching = status.watching.unwrap_or_default();
        output::print_text(&format!("running (pid {pid}), watching {watching} owners\n"))?;
        if is_previous(machine, status) {
            output::print_notice(
                "it is of an earlier version, which cannot be asked for anything but this: \
                 `ostler daemon stop`, then `ostler daemon start`",
            );
        } else if let Some((what, remedy)) = name_other_release(status) {
            output::print_notice(&format!("it {what}: {remedy}"));
        }
    } else {
        output::print_text("not running\n")?;
    }
    Ok(ExitCode::SUCCESS)
}
