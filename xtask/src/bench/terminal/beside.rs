//! The real agent-tty, where it is installed, and ostler under its name: the same commands in turns.

use std::path::Path;
use std::process::Command;

use super::{Bound, Stage, done, in_turns};

/// How often each side is run: one of them takes seconds.
const RUNS: usize = 5;

pub(super) fn agent_tty(
    stage: &Stage,
    other: &Path,
    bounds: &mut Vec<Bound>,
) -> Result<(), String> {
    // A home of its own: two programs that both believe it is theirs would measure each other.
    let theirs = |args: &[&str]| {
        let mut command = stage.program(other, args);
        command.env("AGENT_TTY_HOME", stage.home.join("agent-tty"));
        command
    };
    let ours = |args: &[&str]| stage.command(&[&["agent-tty"], args].concat());
    let create = ["create", "--json", "--", "/bin/bash", "--norc"];
    let mine = id_of(&mut ours(&create))?;
    let its = match id_of(&mut theirs(&create)) {
        Ok(id) => id,
        Err(reason) => {
            eprintln!("{} does not work here: {reason}", other.display());
            return Ok(());
        }
    };
    for (args, limit) in [
        (&create[..], Some(1.0 / 60.0)),
        (&["run", "ID", "true"], None),
        (&["snapshot", "ID"], None),
        (&["inspect", "ID"], None),
        (&["list"], None),
    ] {
        let of = |id: &str| args.join(" ").replace("ID", id);
        let (mine, its) = (of(&mine), of(&its));
        let (mine, its) = in_turns(
            RUNS,
            |_| done(&mut ours(&mine.split(' ').collect::<Vec<_>>())),
            |_| done(&mut theirs(&its.split(' ').collect::<Vec<_>>())),
        )?;
        eprintln!("{}: ostler {:.1} ms, agent-tty {:.1} ms", args[0], mine * 1e3, its * 1e3);
        let what = format!("{}, against the agent-tty that is installed", args[0]);
        bounds.push(Bound { what, measured: mine / its, limit, unit: "x" });
    }
    for id in names_in(&stage.home.join("agent-tty/sessions")) {
        let _ = done(&mut theirs(&["destroy", "--force", &id]));
    }
    Ok(())
}

fn id_of(create: &mut Command) -> Result<String, String> {
    let output = create.output().map_err(|error| error.to_string())?;
    let created: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let id = created["result"]["sessionId"].as_str();
    id.map(str::to_owned).ok_or_else(|| "no session was made".to_owned())
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
