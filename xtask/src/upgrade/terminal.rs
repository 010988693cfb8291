//! A terminal whose host is of one release, used by the other.

use super::room::{Room, Side};

pub(super) fn use_a_running_host(room: &Room) -> Result<String, String> {
    let ask = |words: &[&str]| room.done(Side::Asking, words);
    room.done(Side::Running, &["create", "--name", "work", "--", "/bin/bash", "--norc"])?;
    room.done(Side::Running, &["run", "work", "echo made-$((40+2))"])?;
    let inspected = ask(&["inspect", "work", "--json"])?;
    if !inspected.stdout.contains("\"running\"") {
        return Err(inspected.describe());
    }
    ask(&["type", "work", "echo typed-$((1+1))"])?;
    ask(&["send-keys", "work", "Enter"])?;
    ask(&["wait", "work", "--text", "typed-2", "--timeout", "30000"])?;
    let ran = ask(&["run", "work", "echo ran-$((1+2))", "--capture"])?;
    if !ran.stdout.contains("ran-3") {
        return Err(ran.describe());
    }
    ask(&["resize", "work", "--cols", "100", "--rows", "30"])?;
    ask(&["mark", "work", "here"])?;
    let shown = ask(&["snapshot", "work", "--format", "text"])?;
    for text in ["made-42", "typed-2", "ran-3"] {
        if !shown.stdout.contains(text) {
            return Err(format!("{text} is not shown: {}", shown.describe()));
        }
    }
    ask(&["screenshot", "work"])?;
    let listed = ask(&["ls", "--json"])?;
    if !listed.stdout.contains("work") {
        return Err(listed.describe());
    }
    ask(&["destroy", "work"])?;
    Ok("typed, run, waited for, resized, marked, drawn, destroyed".to_owned())
}

/// A terminal that is over, and one whose host was killed.
pub(super) fn read_a_finished_terminal(room: &Room) -> Result<String, String> {
    let script = "for i in $(seq 300); do echo line-$i; done; exit 7";
    room.done(Side::Running, &["create", "--name", "over", "--", "/bin/bash", "-c", script])?;
    room.done(Side::Running, &["wait", "over", "--exit", "--timeout", "30000"])?;
    let both = |words: &[&str]| -> Result<(String, String), String> {
        let one = room.done(Side::Running, words)?.stdout;
        Ok((one, room.done(Side::Asking, words)?.stdout))
    };
    for words in [
        &["snapshot", "over", "--format", "text", "--include-scrollback"][..],
        &["record", "export", "over", "--format", "txt", "-o", "-"],
    ] {
        // An option that one of them does not know says nothing about the log.
        let Ok((one, other)) = both(words) else { continue };
        if one != other {
            return Err(format!("{words:?} differs: {one:?} and {other:?}"));
        }
    }
    let snapshot = room.done(Side::Asking, &["snapshot", "over", "--format", "text"])?;
    if !snapshot.stdout.contains("line-300") {
        return Err(snapshot.describe());
    }
    room.done(Side::Asking, &["verify", "over"])?;
    room.done(Side::Running, &["create", "--name", "lost", "--", "/bin/bash", "--norc"])?;
    room.done(Side::Running, &["run", "lost", "echo before-$((2+2))"])?;
    kill_host(room)?;
    room.wait_until("the end of the host is seen", || {
        Ok(!room
            .ostler(Side::Asking, &["inspect", "lost", "--json"])?
            .stdout
            .contains("\"running\""))
    })?;
    let snapshot = room.done(Side::Asking, &["snapshot", "lost", "--format", "text"])?;
    if !snapshot.stdout.contains("before-4") {
        return Err(snapshot.describe());
    }
    Ok("read, replayed and verified, also after a kill of the host".to_owned())
}

fn kill_host(room: &Room) -> Result<(), String> {
    let inspected = room.done(Side::Running, &["inspect", "lost"])?;
    let pid = inspected.stdout.lines().find_map(|line| line.strip_prefix("Host pid: "));
    let pid = pid.ok_or_else(|| inspected.describe())?;
    let killed = std::process::Command::new("kill").args(["-KILL", pid]).status();
    match killed {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("the host {pid} cannot be killed")),
    }
}
