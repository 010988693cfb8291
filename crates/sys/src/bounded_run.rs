//! Subprocesses with limits: a program is run to its end, for so long and no longer, and only so much of what
//! it prints is kept. When its time is up it ends with its whole tree.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use model::identity::Identity;

use crate::dropped::NoteDropped;
use crate::proc::{Signal, current_observer, identify_as, read_process_table, signal_process};
use crate::tree::ProcessTree;

/// How long the output of a program that has ended is waited for: what it left behind may hold it open.
const OUTPUT_DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// How often a program is asked whether it has ended, beside reading what it prints.
const END_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// How much a program may take.
#[derive(Clone, Copy, Debug)]
pub struct RunLimits {
    /// Until it is ended.
    pub time: Duration,
    /// How much of what it prints is kept, from the beginning.
    pub output_bytes: usize,
}

/// What became of a program.
#[derive(Debug)]
pub struct BoundedRun {
    /// How it ended; `None` if it was ended because its time was up.
    pub status: Option<ExitStatus>,
    /// What it printed, on either stream.
    pub output: Vec<u8>,
    /// Whether it printed more than is kept.
    pub cut: bool,
}

/// Runs a program to its end, with `input` on its standard input. What it prints is read on, however much.
pub fn run_bounded(
    command: &mut Command,
    input: &[u8],
    limits: RunLimits,
) -> io::Result<BoundedRun> {
    let (mut output, ours) = io::pipe()?;
    let stdin = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.stdin(stdin).stdout(ours.try_clone()?).stderr(ours).process_group(0);
    let mut child = command.spawn()?;
    // The command holds the other end of the pipe, and with it the end of the output.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let observer = current_observer();
    let identity = identify_as(child.id(), &observer).ok();
    if let Some(stdin) = child.stdin.take() {
        feed_input(stdin, input);
    }
    let until = Instant::now() + limits.time;
    let mut run = BoundedRun { status: None, output: Vec::new(), cut: false };
    let mut drain_until = None;
    let mut chunk = vec![0; 64 << 10];
    loop {
        if drain_until.is_none()
            && let Some(status) = child.try_wait()?
        {
            run.status = Some(status);
            drain_until = Some(Instant::now() + OUTPUT_DRAIN_TIMEOUT);
        }
        let now = Instant::now();
        if drain_until.is_some_and(|drained| now >= drained) {
            return Ok(run);
        }
        if drain_until.is_none() && now >= until {
            end_tree(&mut child, identity.as_ref());
            return Ok(run);
        }
        if !crate::watch::poll_readable(&[output.as_fd()], Some(END_CHECK_INTERVAL))?[0] {
            continue;
        }
        match output.read(&mut chunk)? {
            // Printing is no longer possible.
            0 if drain_until.is_some() => return Ok(run),
            0 => std::thread::sleep(END_CHECK_INTERVAL),
            count => {
                let room = limits.output_bytes.saturating_sub(run.output.len()).min(count);
                run.output.extend_from_slice(&chunk[..room]);
                run.cut |= room < count;
            }
        }
    }
}

/// In a thread of its own: a program that does not read must not hold its starter up.
fn feed_input(mut stdin: std::process::ChildStdin, input: &[u8]) {
    let input = input.to_owned();
    let feeding = std::thread::Builder::new().name("input".to_owned());
    let feeding = feeding.spawn(move || {
        stdin.write_all(&input).note_dropped("a program did not read its input");
    });
    feeding.note_dropped("starting a thread for a program's input");
}

/// Ends a program of ours with all that descends from it.
fn end_tree(child: &mut Child, identity: Option<&Identity>) {
    let observer = current_observer();
    let gather = || {
        identity.map(|root| ProcessTree::gather(&read_process_table(), root, &observer, |_| false))
    };
    // What it starts while the tree is read is found by the second look, below those that were found first.
    let mut tree = gather().unwrap_or_default();
    if let Some(root) = identity {
        signal_process(root, Signal::Stop, &observer).note_dropped("stopping a program");
        tree.merge(gather().unwrap_or_default());
    }
    for missed in tree.signal(Signal::Kill, &observer, |_| true) {
        tracing::warn!(%missed, "a program left a process that cannot be ended");
    }
    child.kill().note_dropped("ending a program");
    child.wait().note_dropped("reaping a program");
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RunLimits = RunLimits { time: Duration::from_secs(30), output_bytes: 1000 };

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_gets_its_input_and_its_output_is_kept() {
        let run = run_bounded(&mut shell("cat; echo err >&2"), b"in\n", LIMITS).unwrap();
        assert!(run.status.unwrap().success());
        assert_eq!((run.output.as_slice(), run.cut), (&b"in\nerr\n"[..], false));
    }

    #[test]
    fn a_flood_is_read_to_its_end_and_kept_in_part() {
        let run = run_bounded(&mut shell("head -c 200000000 /dev/zero"), b"", LIMITS).unwrap();
        assert!(run.status.unwrap().success(), "it was not held up");
        assert_eq!((run.output.len(), run.cut), (1000, true));
    }

    #[test]
    fn a_program_whose_time_is_up_ends_with_its_tree() {
        let limits = RunLimits { time: Duration::from_millis(300), ..LIMITS };
        let begun = Instant::now();
        let script = "setsid sleep 1000 & echo $!; sleep 1000";
        let run = run_bounded(&mut shell(script), b"", limits).unwrap();
        assert!(run.status.is_none() && begun.elapsed() < Duration::from_secs(20));
        let pid: u32 = String::from_utf8(run.output).unwrap().trim().parse().unwrap();
        let gone = || !read_process_table().listed_pids().contains(&pid);
        let until = Instant::now() + Duration::from_secs(5);
        while !gone() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(gone(), "its tool lives on");
    }

    #[test]
    fn what_a_program_leaves_behind_does_not_hold_it_up() {
        let run = run_bounded(&mut shell("sleep 3 & echo done"), b"", LIMITS).unwrap();
        assert_eq!(run.output, b"done\n");
    }
}
