//! A small program for the tests of this crate: it identifies, probes and walks from wherever it
//! is started (another namespace, another user, below a wrapper), and plays the processes that are
//! looked at. Identities travel as `key=value` words.

#![allow(clippy::print_stdout, reason = "its output is what the tests read")]

use std::io::{Read, Write};
use std::process::{Command, ExitCode};

use model::identity::{BootId, Identity, IdentityRecorder, MachineId};
use model::program::AgentProgram;
use model::time::Time;

type Failure = Box<dyn std::error::Error>;

const AGENTS: [(&str, AgentProgram); 1] = [(
    "claude",
    AgentProgram {
        names: &["claude"],
        packages: &["@anthropic-ai/claude-code"],
        servers: &[],
        helpers: &["bg-spare"],
    },
)];

fn main() -> Result<ExitCode, Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = args.split_first().ok_or("which command?")?;
    match command.as_str() {
        "identify" => {
            let pid = rest.first().map_or(Ok(std::process::id()), |pid| pid.parse())?;
            println!("{}", write_identity(&ostler_sys::proc::identify_process(pid)?));
        }
        "probe" => {
            let observer = ostler_sys::proc::current_observer();
            let liveness = ostler_sys::proc::probe_liveness(&read_identity(rest)?, &observer);
            println!("{} {}", liveness.as_str(), liveness.reason_code());
        }
        "observe" => println!("{:?}", ostler_sys::proc::current_observer()),
        "flock-holder" => {
            let (dev, ino) = (rest[0].parse()?, rest[1].parse()?);
            println!("{:?}", ostler_sys::proc::flock_holder(dev, ino));
        }
        "table" => {
            let table = ostler_sys::proc::read_process_table();
            println!("listed={} rows={}", table.was_listed(), table.rows().len());
        }
        "owner" => print_owner(rest)?,
        "orphan" => {
            // Whoever started it names itself, and is gone before anything is said.
            let parent = rustix::process::Pid::from_raw(rest[0].parse()?);
            while rustix::process::getppid() == parent {
                std::thread::yield_now();
            }
            print_owner(&[])?;
        }
        "run" => return run(rest),
        "age" => {
            // Owners that no rule knows must have been there for a second.
            std::thread::sleep(std::time::Duration::from_millis(1100));
            return run(rest);
        }
        "wait" => wait_for_the_end()?,
        #[cfg(target_os = "linux")]
        "subreaper" => return linux::run_as_subreaper(rest),
        #[cfg(target_os = "linux")]
        "wait-untraceable" => linux::wait_untraceable()?,
        #[cfg(target_os = "linux")]
        "wait-in-thread" => linux::wait_in_thread()?,
        #[cfg(target_os = "linux")]
        "reuse" => linux::reuse_pids(rest[0].parse()?)?,
        other => return Err(format!("no command {other}").into()),
    }
    Ok(ExitCode::SUCCESS)
}

fn print_owner(claims: &[String]) -> Result<(), Failure> {
    let claims: Vec<u32> = claims.iter().map(|claim| claim.parse()).collect::<Result<_, _>>()?;
    match ostler_sys::owner::capture_owner(&AGENTS, &claims) {
        Some(owner) => println!("{} {:?}", owner.identity.pid.unwrap_or(0), owner.basis),
        None => println!("none"),
    }
    Ok(())
}

/// Says which process it is, and stays until its standard input is closed.
fn wait_for_the_end() -> Result<(), Failure> {
    println!("{}", std::process::id());
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Runs a program below this one. `{}` becomes our pid.
fn run(args: &[String]) -> Result<ExitCode, Failure> {
    let args: Vec<String> =
        args.iter().map(|arg| arg.replace("{}", &std::process::id().to_string())).collect();
    let (program, args) = args.split_first().ok_or("run what?")?;
    let status = Command::new(program).args(args).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write_identity(identity: &Identity) -> String {
    let mut words = Vec::new();
    let mut number = |key: &str, value: Option<u64>| {
        words.extend(value.map(|value| format!("{key}={value}")));
    };
    number("pid", identity.pid.map(u64::from));
    number("uid", identity.uid.map(u64::from));
    number("start", identity.start);
    number("pid_ns", identity.pid_ns);
    number("time_ns", identity.time_ns);
    number("pidfd_ino", identity.pidfd_ino);
    words.extend(identity.recorded_at.map(|time| format!("recorded_at={}", time.as_millis())));
    words.extend(identity.boot.as_ref().map(|boot| match boot {
        BootId::Id(id) => format!("boot_id={id}"),
        BootId::Time(time) => format!("boot_time={time}"),
    }));
    words.extend(identity.machine.as_ref().map(|machine| match machine {
        MachineId::Hashed(id) => format!("machine_hashed={id}"),
        MachineId::Plain(id) => format!("machine_plain={id}"),
    }));
    if identity.recorder == IdentityRecorder::Agent {
        words.push("recorder=agent".into());
    }
    words.join(" ")
}

fn read_identity(words: &[String]) -> Result<Identity, Failure> {
    let mut identity = Identity::default();
    for word in words {
        let (key, value) = word.split_once('=').ok_or("not key=value")?;
        match key {
            "pid" => identity.pid = Some(value.parse()?),
            "uid" => identity.uid = Some(value.parse()?),
            "start" => identity.start = Some(value.parse()?),
            "pid_ns" => identity.pid_ns = Some(value.parse()?),
            "time_ns" => identity.time_ns = Some(value.parse()?),
            "pidfd_ino" => identity.pidfd_ino = Some(value.parse()?),
            "recorded_at" => identity.recorded_at = Some(Time::from_millis(value.parse()?)),
            "boot_id" => identity.boot = Some(BootId::Id(value.into())),
            "boot_time" => identity.boot = Some(BootId::Time(value.parse()?)),
            "machine_hashed" => identity.machine = Some(MachineId::Hashed(value.into())),
            "machine_plain" => identity.machine = Some(MachineId::Plain(value.into())),
            "recorder" => identity.recorder = IdentityRecorder::Agent,
            other => return Err(format!("no field {other}").into()),
        }
    }
    Ok(identity)
}

#[cfg(target_os = "linux")]
mod linux {
    use std::process::{Child, Command, ExitCode, Stdio};

    use rustix::process::{
        DumpableBehavior, WaitOptions, getpid, set_child_subreaper, set_dumpable_behavior, wait,
    };

    use super::{Failure, Read, Write};

    /// Runs a program and adopts what it leaves behind, until the last of it is gone.
    pub(super) fn run_as_subreaper(args: &[String]) -> Result<ExitCode, Failure> {
        set_child_subreaper(Some(getpid()))?;
        let code = super::run(args)?;
        while wait(WaitOptions::empty()).is_ok() {}
        Ok(code)
    }

    /// Waits as an agent does that forbids to be traced.
    pub(super) fn wait_untraceable() -> Result<(), Failure> {
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        super::wait_for_the_end()
    }

    /// Says the number of a second thread, and ends the first one on a line from standard input:
    /// the process then looks like a zombie although the other thread still runs.
    pub(super) fn wait_in_thread() -> Result<(), Failure> {
        let (begin, begun) = std::sync::mpsc::channel::<()>();
        std::thread::spawn(move || {
            // "<pid>/task/<tid>"
            let place = std::fs::read_link("/proc/thread-self").unwrap_or_default();
            println!("{} {}", std::process::id(), place.display());
            let _ = std::io::stdout().flush();
            let mut first = [0];
            let _ = std::io::stdin().read_exact(&mut first);
            drop(begin);
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            std::process::exit(0);
        });
        let _ = begun.recv();
        #[allow(unsafe_code, reason = "nothing safe ends one thread without its process")]
        // SAFETY: ends this thread alone, which holds no lock and no guard.
        unsafe {
            libc::syscall(libc::SYS_exit, 0);
        }
        Ok(())
    }

    /// Forces pids to be handed on, which needs a pid namespace of our own, and counts what the
    /// old identity is then taken for.
    pub(super) fn reuse_pids(times: u32) -> Result<(), Failure> {
        let observer = ostler_sys::proc::current_observer();
        let (mut reused, mut same_tick, mut wrong) = (0, 0, 0);
        let mut tries = 0;
        while reused < times && tries < times * 20 {
            tries += 1;
            let mut first = sleeper()?;
            let pid = first.id();
            let identity = ostler_sys::proc::identify_process(pid)?;
            first.kill()?;
            first.wait()?;
            std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string())?;
            let mut second = sleeper()?;
            if second.id() == pid {
                reused += 1;
                let now = ostler_sys::proc::identify_process(pid)?;
                same_tick += u32::from(now.start == identity.start);
                let liveness = ostler_sys::proc::probe_liveness(&identity, &observer);
                wrong += u32::from(liveness.reason_code() != "reused");
                if !ostler_sys::proc::probe_liveness(&now, &observer).is_alive() {
                    wrong += 1;
                }
                // Nor is the new process signalled in the old one's name.
                let signal = ostler_sys::proc::Signal::Kill;
                let sent = ostler_sys::proc::signal_process(&identity, signal, &observer);
                wrong += u32::from(sent.is_ok());
            }
            second.kill()?;
            second.wait()?;
        }
        println!("reused={reused} same_tick={same_tick} wrong={wrong}");
        Ok(())
    }

    fn sleeper() -> std::io::Result<Child> {
        Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn()
    }
}
