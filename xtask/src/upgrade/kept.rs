//! What one release wrote down and the other reads: receipts, copies, what setup did.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::room::{Agent, Room, Side};

pub(super) fn undo_what_the_other_removed(room: &Room) -> Result<String, String> {
    room.done(Side::Running, &["create", "--name", "gone", "--", "/bin/echo", "still-here"])?;
    room.done(Side::Running, &["wait", "gone", "--exit", "--timeout", "30000"])?;
    // Its host ends a moment after its program, and until then nothing of it goes.
    room.wait_until("the terminal is in the trash", || {
        room.done(Side::Running, &["gc", "--yes", "--older-than", "0s"])?;
        let listed = room.done(Side::Asking, &["trash", "ls", "--json"])?.result()?;
        Ok(listed["receipts"].as_array().is_some_and(|receipts| !receipts.is_empty()))
    })?;
    room.done(Side::Asking, &["trash", "verify"])?;
    room.done(Side::Asking, &["undo"])?;
    for side in [Side::Asking, Side::Running] {
        let shown = room.done(side, &["snapshot", "gone", "--format", "text"])?;
        if !shown.stdout.contains("still-here") {
            return Err(shown.describe());
        }
    }
    Ok("listed, verified, undone".to_owned())
}

pub(super) fn read_the_vault(room: &Room) -> Result<String, String> {
    const ID: &str = "33333333-3333-4333-8333-333333333333";
    let mut agent = Agent::start(room, ID)?;
    agent.hook(&room.running, "SessionStart")?;
    agent.hook(&room.running, "UserPromptSubmit")?;
    agent.kill()?;
    room.done(Side::Running, &["finalize"])?;
    let listed = room.ostler(Side::Asking, &["vault", "ls", "--json"])?;
    if !listed.stdout.contains(ID) {
        // What is kept is listed by the store, which may be newer; the copies are files.
        listed.expect_done_or_named()?;
        return Ok("the store is named as newer".to_owned());
    }
    room.done(Side::Asking, &["vault", "verify"])?;
    let shown = room.done(Side::Asking, &["vault", "cat", ID])?;
    if !shown.stdout.contains("do it") {
        return Err(shown.describe());
    }
    Ok("listed, verified, read".to_owned())
}

/// Every file below a directory, but ostler's own.
fn picture(home: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![home.to_owned()];
    let own = [".local/state", ".cache", "run"].map(|own| home.join(own));
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).map_err(|error| error.to_string())? {
            let path = entry.map_err(|error| error.to_string())?.path();
            if own.contains(&path) {
                continue;
            }
            if path.is_dir() {
                left.push(path);
            } else {
                let bytes = fs::read(&path).map_err(|error| error.to_string())?;
                found.insert(path, bytes);
            }
        }
    }
    Ok(found)
}

pub(super) fn take_back_what_the_other_set_up(room: &Room) -> Result<String, String> {
    let home = &room.home;
    home.write(".claude/settings.json", "{\n  // mine\n  \"model\": \"x\",\n}\n");
    home.write(".gemini/settings.json", "{\"general\":{\"enableAutoUpdate\":false}}");
    home.write(".qwen/settings.json", "{}\r\n");
    home.write(".codex/config.toml", "# mine\nmodel = \"x\"\n");
    home.write(".bashrc", "PS1='$ '\n");
    let before = picture(home.path())?;
    let setup = ["setup", "--yes", "--without", "service"];
    room.done(Side::Running, &setup)?;
    if picture(home.path())? == before {
        return Err("nothing was set up".to_owned());
    }
    room.done(Side::Asking, &["hooks", "status"])?;
    // A newer one puts the older one's right; both are taken back.
    room.done(Side::Asking, &setup)?;
    room.done(Side::Asking, &["setup", "--undo", "--yes"])?;
    let after = picture(home.path())?;
    let paths = before.keys().chain(after.keys());
    let changed: Vec<&PathBuf> =
        paths.filter(|path| before.get(*path) != after.get(*path)).collect();
    if !changed.is_empty() {
        return Err(format!("not as before: {changed:?}"));
    }
    Ok("set up by one, again by the other, taken back to the byte".to_owned())
}
