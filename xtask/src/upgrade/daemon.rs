//! A daemon of one release, commands and hooks of the other.

use super::room::{Agent, Room, Side};

const FIRST: &str = "11111111-1111-4111-8111-111111111111";
const SECOND: &str = "22222222-2222-4222-8222-222222222222";

/// The running daemon takes in what both releases' hooks report, and does what the other release orders or says
/// what stands in the way. Replaced by the other release's, or by its own again, it has everything.
pub(super) fn ask_a_running_daemon(room: &Room) -> Result<String, String> {
    let mut said = Vec::new();
    let mut agent = Agent::start(room, FIRST)?;
    let _other = Agent::start(room, SECOND)?;
    room.done(Side::Running, &["daemon", "start"])?;
    agent.hook(&room.running, "SessionStart")?;
    agent.hook(&room.asking, "UserPromptSubmit")?;
    agent.hook(&room.running, "Stop")?;
    agent.hook(&room.asking, "UserPromptSubmit")?;
    let expected = ["session-start", "turn-start", "turn-end", "turn-start"];
    room.wait_until("the daemon has both releases' reports", || {
        Ok(room.events(Side::Running)? == expected)
    })?;
    room.done(Side::Running, &["pin", FIRST, "--note", "of the one that runs"])?;

    let listed = room.ostler(Side::Asking, &["ls", "-a", "--json"])?;
    if ![0, 12].contains(&listed.code) || !listed.stdout.contains(FIRST) {
        return Err(listed.describe());
    }
    let pins = room.ostler(Side::Asking, &["pin"])?;
    let read = pins.stdout.contains("of the one that runs");
    if !read {
        pins.expect_done_or_named()?;
    }
    said.push(if read { "its store is read" } else { "its store is named as newer" });
    let ordered = room.ostler(Side::Asking, &["pin", SECOND, "--note", "asked"])?;
    let ordered = ordered.expect_done_or_named()?;
    said.push(if ordered { "it takes orders" } else { "it refuses orders and says what to do" });
    check_status(room)?;

    room.done(Side::Asking, &["daemon", "stop"])?;
    let restarted = room.ostler(Side::Asking, &["daemon", "start"])?.expect_done_or_named()?;
    said.push(if restarted { "replaced" } else { "not replaced by an older one" });
    if !restarted {
        room.done(Side::Running, &["daemon", "start"])?;
    }
    agent.hook(&room.asking, "Stop")?;
    agent.kill()?;
    let keeper = if restarted { Side::Asking } else { Side::Running };
    room.wait_until("the end of the agent is noted", || {
        Ok(room.events(keeper)?.iter().any(|kind| kind == "exited"))
    })?;
    let events = room.events(keeper)?;
    if events[..4] != expected || events[4] != "turn-end" {
        return Err(format!("events were lost: {events:?}"));
    }
    let pins = room.done(keeper, &["pin", "--json"])?.stdout;
    if !pins.contains("of the one that runs") || pins.contains("asked") != ordered {
        return Err(format!("pins were lost: {pins}"));
    }
    Ok(said.join(", "))
}

/// A daemon of another release is called that, with what to do.
fn check_status(room: &Room) -> Result<(), String> {
    let version = |side| -> Result<String, String> {
        let version = room.done(side, &["version", "--json"])?.result()?["version"].to_string();
        Ok(version.trim_matches('"').to_owned())
    };
    let status = room.done(Side::Asking, &["daemon", "status"])?;
    let (running, asking) = (version(Side::Running)?, version(Side::Asking)?);
    // An older release need not know this.
    let knows = room.asking.name == "new" && running != asking;
    let names = status.stderr.contains(&running) && status.stderr.contains("ostler daemon stop");
    if !status.stdout.starts_with("running") || (knows && !names) {
        return Err(status.describe());
    }
    Ok(())
}

/// Without a daemon, the two write in turns.
pub(super) fn write_in_turns(room: &Room) -> Result<String, String> {
    let mut agent = Agent::start(room, FIRST)?;
    agent.hook(&room.running, "SessionStart")?;
    room.done(Side::Running, &["pin", FIRST, "--note", "first"])?;
    let second = room.ostler(Side::Asking, &["pin", FIRST, "--note", "second"])?;
    let second = second.expect_done_or_named()?;
    let third = room.ostler(Side::Running, &["pin", FIRST, "--note", "third"])?;
    let third = third.expect_done_or_named()?;
    agent.hook(&room.asking, "UserPromptSubmit")?;
    let newer = if room.asking.name == "new" { Side::Asking } else { Side::Running };
    room.done(newer, &["status"])?;
    let events = room.events(newer)?;
    let expected = ["session-start", "turn-start"];
    if events != expected {
        return Err(format!("events were lost: {events:?}"));
    }
    let pins = room.done(newer, &["pin", "--json"])?.stdout;
    let last = if third {
        "third"
    } else if second {
        "second"
    } else {
        "first"
    };
    if !pins.contains(last) {
        return Err(format!("the last note is not {last}: {pins}"));
    }
    Ok(match (second, third) {
        (true, true) => "both write".to_owned(),
        _ => "the older one is told that the store is newer".to_owned(),
    })
}
