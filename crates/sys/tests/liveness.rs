//! The liveness table with real processes, one test per row, and the cases that cannot be argued
//! about but only seen: namespaces, hidden processes, reused pids, zombies, threads.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests")]

mod support;

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use model::identity::{BootId, Identity, IdentityRecorder, MachineId};
use model::liveness::{Death, Doubt, Life, Liveness, Observer, PidLookup, WallClock};
use ostler_sys::proc::{
    IdentifyError, Signal, SignalError, current_observer, identify_process, look_up_pid,
    probe_liveness, signal_process,
};
use support::{
    Running, UNSHARE_MOUNT, UNSHARE_PID, helper, helper_named, in_own_mounts, output, permits,
    pid_only, probed, with_ticks, words,
};

const ALIVE: Liveness = Liveness::Alive(Life::Running);

#[test]
fn row_1_implausible_pids_are_incomplete() {
    let identity = identify_process(std::process::id()).unwrap();
    for pid in [None, Some(0), Some(1), Some(u32::MAX)] {
        let record = Identity { pid, ..identity.clone() };
        assert_eq!(probed(&record), Liveness::Unknown(Doubt::Incomplete), "{pid:?}");
    }
}

#[test]
fn row_4_another_boot_of_this_machine_is_dead() {
    let process = Running::helper("wait");
    let identity = identify_process(process.pid()).unwrap();
    let record = Identity { boot: Some(BootId::Id("another".into())), ..identity };
    assert_eq!(probed(&record), Liveness::Dead(Death::Rebooted));
}

#[test]
fn row_5_another_machine_or_none_is_unknown() {
    let process = Running::helper("wait");
    let identity = identify_process(process.pid()).unwrap();
    let elsewhere = Identity {
        boot: Some(BootId::Id("another".into())),
        machine: Some(MachineId::Hashed("another".into())),
        ..identity.clone()
    };
    assert_eq!(probed(&elsewhere), Liveness::Unknown(Doubt::ForeignHost));
    let nowhere = Identity { machine: None, ..elsewhere };
    assert_eq!(probed(&nowhere), Liveness::Unknown(Doubt::BootUnknown));
    if !permits(&UNSHARE_MOUNT) {
        return;
    }
    let record = Identity { boot: Some(BootId::Id("another".into())), ..identity };
    let mut args = vec![helper().display().to_string(), "probe".into()];
    args.extend(words(&record));
    let script = "for id in /etc/machine-id /var/lib/dbus/machine-id; do \
        [ ! -e $id ] || mount --bind /dev/null $id; done; exec \"$@\"";
    assert_eq!(output(&mut in_own_mounts(script, &args)), "unknown boot-unknown");
}

#[test]
fn row_7_no_such_pid_is_gone() {
    let process = Running::helper("wait");
    let identity = identify_process(process.pid()).unwrap();
    assert_eq!(probed(&identity), ALIVE);
    process.end();
    assert_eq!(probed(&identity), Liveness::Dead(Death::Gone));
    assert_eq!(probed(&pid_only(&identity)), Liveness::Dead(Death::Gone));
}

#[test]
fn row_9_a_pid_that_is_now_a_thread() {
    let process = Running::helper("wait-in-thread");
    let thread: u32 = process.ready.rsplit('/').next().unwrap().parse().unwrap();
    assert_ne!(thread, process.pid());
    assert_eq!(look_up_pid(thread), PidLookup::Thread);
    let identity = identify_process(process.pid()).unwrap();
    let record = Identity { pid: Some(thread), ..identity.clone() };
    assert_eq!(probed(&record), Liveness::Dead(Death::Reused));
    assert_eq!(probed(&pid_only(&record)), Liveness::Dead(Death::Reused));
    assert_eq!(probed(&identity), ALIVE);
    assert!(matches!(identify_process(thread), Err(IdentifyError::NotRunning(_))));
}

/// Asked of the kernel, not of the code that is tested.
fn kernel_has_pidfs() -> bool {
    use rustix::process::{PidfdFlags, getpid, pidfd_open};
    let pidfd = pidfd_open(getpid(), PidfdFlags::empty());
    pidfd.is_ok_and(|fd| rustix::fs::fstatfs(fd).is_ok_and(|system| system.f_type == 0x5049_4446))
}

#[test]
fn row_10_a_reused_pid_is_another_process_even_within_one_tick() {
    if !permits(&UNSHARE_PID) {
        return;
    }
    let mut command = Command::new(UNSHARE_PID[0]);
    // Below pid 1, which would have to reap.
    command.args(&UNSHARE_PID[1..]).arg(helper()).arg("run").arg(helper()).args(["reuse", "50"]);
    let says = output(&mut command);
    println!("{says}");
    if !kernel_has_pidfs() {
        println!("SKIPPED: this kernel has no pidfs, so one tick cannot be told from another");
        return;
    }
    assert!(says.starts_with("reused=50 ") && says.ends_with(" wrong=0"), "{says}");
}

#[test]
fn row_10_another_start_is_another_process() {
    let process = Running::helper("wait");
    let identity = identify_process(process.pid()).unwrap();
    let before = Identity { start: identity.start.map(|start| start - 1), ..identity.clone() };
    assert_eq!(probed(&before), Liveness::Dead(Death::Reused));
    let younger_than_record = Identity {
        recorded_at: identity
            .recorded_at
            .map(|time| time.minus(std::time::Duration::from_secs(10))),
        ..pid_only(&identity)
    };
    // Only a clock that was watched when the process was started can tell.
    assert_eq!(probed(&younger_than_record), Liveness::Unknown(Doubt::ClockUnproven));
    let here = current_observer();
    let clock = WallClock { steady_since: Some(Duration::ZERO), ..here.clock };
    let watching = Observer { clock, ..here };
    assert_eq!(probe_liveness(&younger_than_record, &watching), Liveness::Dead(Death::Reused));
    assert_eq!(probed(&pid_only(&identity)), Liveness::Unknown(Doubt::Incomplete));
}

#[test]
fn row_11_a_zombie_is_dead() {
    let mut process = Running::helper("wait");
    let identity = identify_process(process.pid()).unwrap();
    process.end_unreaped();
    assert_eq!(probed(&identity), Liveness::Dead(Death::Zombie));
    assert_eq!(probed(&pid_only(&identity)), Liveness::Dead(Death::Zombie));
}

#[test]
fn row_11_a_leader_that_exited_before_its_threads_is_alive() {
    let mut process = Running::helper("wait-in-thread");
    let identity = identify_process(process.pid()).unwrap();
    process.tell("x");
    // The kernel says no word when one thread ends; its own line does.
    let status = format!("/proc/{}/stat", process.pid());
    while !std::fs::read_to_string(&status).unwrap().contains(") Z ") {
        std::thread::yield_now();
    }
    assert_eq!(probed(&identity), ALIVE);
    assert_eq!(probed(&with_ticks(&identity)), ALIVE);
}

#[test]
fn row_12_running_stopped_traced() {
    let process = Running::helper("wait");
    let identity = identify_process(process.pid()).unwrap();
    let observer = current_observer();
    assert_eq!(probe_liveness(&identity, &observer), ALIVE);
    let pid = rustix::process::Pid::from_raw(process.pid().try_into().unwrap());
    signal_process(&identity, Signal::Stop, &observer).unwrap();
    rustix::process::waitpid(pid, rustix::process::WaitOptions::UNTRACED).unwrap();
    assert_eq!(probe_liveness(&identity, &observer), Liveness::Alive(Life::Stopped));
    signal_process(&identity, Signal::Continue, &observer).unwrap();
    rustix::process::waitpid(pid, rustix::process::WaitOptions::CONTINUED).unwrap();
    assert_eq!(probe_liveness(&identity, &observer), ALIVE);
}

#[test]
#[allow(unsafe_code, reason = "nothing safe asks to be traced")]
fn row_12_traced() {
    let mut command = Command::new("sleep");
    command.arg("1000");
    // SAFETY: one system call, which is safe between fork and exec.
    unsafe {
        command.pre_exec(|| {
            if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) == -1 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            println!("SKIPPED: tracing is not permitted here: {error}");
            return;
        }
    };
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::UNTRACED).unwrap();
    let identity = identify_process(child.id()).unwrap();
    assert_eq!(probed(&identity), Liveness::Alive(Life::Traced));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_boot_captured_by_time_still_counts_when_the_boot_id_is_readable() {
    let process = Running::helper("wait");
    let mut record = identify_process(process.pid()).unwrap();
    assert!(matches!(record.boot, Some(BootId::Id(_))));
    if permits(&UNSHARE_MOUNT) {
        let script = "mount --bind /dev/null /proc/sys/kernel/random/boot_id; exec \"$@\"";
        let args = [helper().display().to_string(), "identify".into(), process.pid().to_string()];
        let captured = output(&mut in_own_mounts(script, &args));
        assert!(captured.contains("boot_time=") && !captured.contains("boot_id="), "{captured}");
        let mut command = Command::new(helper());
        command.arg("probe").args(captured.split(' '));
        assert_eq!(output(&mut command), "alive running");
    }
    record.boot = current_observer().boot_time().map(BootId::Time);
    assert_eq!(probed(&record), ALIVE);
    process.end();
    assert_eq!(probed(&record), Liveness::Dead(Death::Gone));
}

#[test]
fn a_name_with_a_parenthesis_and_a_newline() {
    let home = tempfile::tempdir().unwrap();
    let path = helper_named(home.path(), "a) Z 1\n(b");
    let process = Running::start(Command::new(path).arg("wait"));
    let identity = identify_process(process.pid()).unwrap();
    assert_eq!(identity.comm.as_deref(), Some("a) Z 1\n(b"));
    assert_eq!(probed(&identity), ALIVE);
    process.end();
    assert_eq!(probed(&identity), Liveness::Dead(Death::Gone));
}

#[test]
fn claudes_record_needs_no_boot_but_the_machine_and_namespace_it_names() {
    let process = Running::helper("wait");
    let identity = identify_process(process.pid()).unwrap();
    let observer = current_observer();
    let record = Identity {
        machine: observer.machine_plain.clone().map(MachineId::Plain),
        pid_ns: identity.pid_ns,
        ..with_ticks(&identity)
    };
    assert_eq!(probe_liveness(&record, &observer), ALIVE);
    let shared_home =
        Identity { machine: Some(MachineId::Plain("another".into())), ..record.clone() };
    assert_eq!(probe_liveness(&shared_home, &observer), Liveness::Unknown(Doubt::ForeignHost));
    process.end();
    assert_eq!(probe_liveness(&record, &observer), Liveness::Dead(Death::Gone));
    assert_eq!(probe_liveness(&shared_home, &observer), Liveness::Unknown(Doubt::ForeignHost));
}

/// A live process under a clock that is stepped: the observer carries the reading, as a process
/// cannot be given a wall clock of its own.
#[test]
fn h1_no_step_of_the_clock_makes_a_live_process_dead() {
    let process = Running::helper("wait");
    let identity = identify_process(process.pid()).unwrap();
    let real = current_observer();
    let booted_at = real.clock.booted_at.unwrap();
    let claude = Identity {
        machine: real.machine_plain.clone().map(MachineId::Plain),
        pid_ns: identity.pid_ns,
        ..with_ticks(&identity)
    };
    let ostler_by_time = Identity { boot: real.boot_time().map(BootId::Time), ..identity.clone() };
    for hours in -720_i64..=720 {
        let span = Duration::from_secs(hours.unsigned_abs() * 3600);
        let stepped_boot = if hours < 0 { booted_at.minus(span) } else { booted_at.plus(span) };
        for steady_since in [None, Some(ostler_sys::clock::time_since_boot())] {
            let clock = WallClock {
                booted_at: Some(stepped_boot),
                earliest_boot: Some(stepped_boot.min(booted_at)),
                steady_since,
            };
            let stepped = Observer { clock, ..real.clone() };
            for record in [&identity, &claude, &ostler_by_time] {
                assert_eq!(probe_liveness(record, &stepped), ALIVE, "{hours} h: {record:?}");
            }
            let verdict = probe_liveness(&pid_only(&identity), &stepped);
            assert!(matches!(verdict, Liveness::Unknown(_)), "{hours} h: {verdict:?}");
        }
    }
    process.end();
    let late = Observer {
        clock: WallClock {
            booted_at: Some(booted_at.plus(Duration::from_hours(720))),
            ..real.clock
        },
        ..real
    };
    assert_eq!(probe_liveness(&claude, &late), Liveness::Dead(Death::Gone));
}

#[test]
fn an_identity_names_everything_it_should() {
    let process = Running::helper("wait");
    let identity = identify_process(process.pid()).unwrap();
    let observer = current_observer();
    assert_eq!(identity.pid, Some(process.pid()));
    assert_eq!(identity.uid, Some(observer.uid));
    assert!(identity.start.is_some() && identity.recorded_at.is_some());
    assert_eq!(identity.boot, observer.boot_id.clone().map(BootId::Id));
    assert_eq!(identity.machine, observer.machine_hashed.clone().map(MachineId::Hashed));
    assert_eq!((identity.pid_ns, identity.time_ns), (observer.pid_ns, observer.time_ns));
    assert_eq!(identity.recorder, IdentityRecorder::Ostler);
    assert_eq!(identity.comm.as_deref(), Some("probe"));
    assert_eq!(identity.exe.as_deref(), helper().canonicalize().unwrap().to_str());
    assert_eq!(probe_liveness(&ostler_sys::proc::identify_self().unwrap(), &observer), ALIVE);
}

#[test]
fn nothing_that_has_ended_can_be_identified() {
    let mut process = Running::helper("wait");
    let pid = process.pid();
    process.end_unreaped();
    assert!(matches!(identify_process(pid), Err(IdentifyError::NotRunning(_))), "a zombie");
    process.end();
    assert!(matches!(identify_process(pid), Err(IdentifyError::NotRunning(_))), "gone");
}

#[test]
fn a_signal_reaches_the_recorded_process_and_no_other() {
    let observer = current_observer();
    let process = Running::helper("wait");
    let identity = identify_process(process.pid()).unwrap();
    let before = Identity { start: identity.start.map(|start| start - 1), ..identity.clone() };
    let pid_alone = pid_only(&identity);
    for doubtful in [&before, &pid_alone] {
        let refused = signal_process(doubtful, Signal::Kill, &observer).unwrap_err();
        assert!(matches!(refused, SignalError::NotAlive(_)), "{refused}");
    }
    assert_eq!(probe_liveness(&identity, &observer), ALIVE, "nothing was sent");
    signal_process(&identity, Signal::Terminate, &observer).unwrap();
    assert_eq!(process.ended_by_signal(), Some(15));
    let refused = signal_process(&identity, Signal::Kill, &observer).unwrap_err();
    assert!(matches!(refused, SignalError::NotAlive(Liveness::Dead(Death::Gone))), "{refused}");
}

#[test]
fn a_zombie_is_not_signalled() {
    let mut process = Running::helper("wait");
    let identity = identify_process(process.pid()).unwrap();
    process.end_unreaped();
    let refused = signal_process(&identity, Signal::Kill, &current_observer()).unwrap_err();
    assert!(matches!(refused, SignalError::NotAlive(Liveness::Dead(Death::Zombie))), "{refused}");
}
