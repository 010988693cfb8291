//! A fleet in which one member's programs are exchanged for another release's: what one publishes the other reads.

use std::process::{Child, Stdio};

use super::room::{Agent, Room, Side};

/// The sessions of the two members' agents.
const SESSIONS: [&str; 2] =
    ["66666666-6666-4666-8666-666666666666", "77777777-7777-4777-8777-777777777777"];

/// The session of an agent that starts after the exchange.
const LATER_SESSION: &str = "88888888-8888-4888-8888-888888888888";

/// The engine of the hub. It ends with the value.
struct Engine(Child);

impl Drop for Engine {
    fn drop(&mut self) {
        drop(self.0.kill().and_then(|()| self.0.wait()));
    }
}

pub(super) fn share_a_fleet(room: &Room) -> Result<String, String> {
    let mut engine = room.command("nats-server".into());
    if engine.arg("--version").output().is_err() {
        return Ok("NOT TRIED: there is no nats-server".to_owned());
    }
    let hub = Room::new(&room.running, &room.running)?;
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|one| one.local_addr());
    let listen = format!("127.0.0.1:{}", port.map_err(|error| error.to_string())?.port());
    hub.done(Side::Running, &["fleet", "init", "--listen", &listen])?;
    let mut command = hub.command(room.running.ostler());
    command.args(["fleet", "hub"]).stdout(Stdio::null()).stderr(Stdio::null());
    let _engine = Engine(command.spawn().map_err(|error| error.to_string())?);
    hub.wait_until("the hub answers", || {
        let status = hub.ostler(Side::Running, &["fleet", "status", "--json"])?;
        Ok(status.stdout.contains("\"reachable\": true"))
    })?;
    let first = join_hub(&hub, room, "first", SESSIONS[0])?;
    // Whoever asks to join must speak as the hub does; an admitted member may then become another release.
    let asked = ask_to_join(&hub, room)?;
    let second = join_hub(&hub, room, "second", SESSIONS[1])?;
    for (member, other) in [(&first, SESSIONS[1]), (&second, SESSIONS[0])] {
        wait_until_listed(&member.0, Side::Running, other)?;
    }
    let beside = look_beside_a_link(&second.0)?;
    let exchanged = exchange_programs(&first.0, &second.0)?;
    Ok(format!("{asked}; each lists the other's session; {beside}; {exchanged}"))
}

fn wait_until_listed(member: &Room, side: Side, session: &str) -> Result<(), String> {
    member.wait_until("the other member's session is listed", || {
        let listed = member.ostler(side, &["ls", "--fleet", "--json"])?;
        Ok(listed.code == 0 && listed.stdout.contains(session))
    })
}

/// The other release asks the hub of the running one to be admitted: it is, or its line is refused by name.
fn ask_to_join(hub: &Room, room: &Room) -> Result<&'static str, String> {
    let stranger = Room::new(&room.running, &room.asking)?;
    let request = join_line(&stranger, Side::Asking, "stranger")?;
    let admitted = hub.ostler(Side::Running, &["fleet", "admit", &request])?;
    if admitted.code == 0 {
        return Ok("a line of the other release is admitted");
    }
    // An older hub can only say that it cannot read it.
    let says_why = match room.running.name {
        "new" => admitted.stderr.contains("both sides need ostler of the same version"),
        _ => admitted.stderr.contains("the line cannot be used"),
    };
    if says_why {
        Ok("a line of the other release is refused, and why")
    } else {
        Err(admitted.describe())
    }
}

fn join_line(member: &Room, side: Side, name: &str) -> Result<String, String> {
    let asked = member.done(side, &["fleet", "join", "--name", name, "--json"])?.result()?;
    asked["request"].as_str().map(str::to_owned).ok_or_else(|| asked.to_string())
}

/// A member of the hub's release, with an agent and its daemon. The other release's commands are beside it.
fn join_hub(hub: &Room, room: &Room, name: &str, session: &str) -> Result<(Room, Agent), String> {
    let member = Room::new(&room.running, &room.asking)?;
    member.home.write(".config/ostler/config.toml", "[fleet]\nrenew = \"1s\"\nlook = \"1s\"\n");
    let request = join_line(&member, Side::Running, name)?;
    let admitted = hub.done(Side::Running, &["fleet", "admit", &request, "--json"])?.result()?;
    let answer = admitted["answer"].as_str().ok_or_else(|| admitted.to_string())?;
    member.done(Side::Running, &["fleet", "join", answer, "--json"])?;
    let mut agent = Agent::start(&member, session)?;
    agent.hook(&room.running, "SessionStart")?;
    member.done(Side::Running, &["daemon", "start"])?;
    Ok((member, agent))
}

/// Commands of the other release beside the link that runs.
fn look_beside_a_link(member: &Room) -> Result<&'static str, String> {
    let listed = member.ostler(Side::Asking, &["ls", "--fleet", "--json"])?;
    let reads = listed.code == 0 && listed.stdout.contains(SESSIONS[0]);
    if !reads && listed.expect_done_or_named()? {
        return Err("the other member's session is missing beside its link".to_owned());
    }
    member.ostler(Side::Asking, &["fleet", "status", "--json"])?.expect_done_or_named()?;
    Ok(match reads {
        true => "the other release reads it beside the link",
        false => "the other release names what it needs beside the link",
    })
}

/// One member's programs become the other release's while its agent and the rest of the fleet go on.
fn exchange_programs(first: &Room, second: &Room) -> Result<&'static str, String> {
    second.done(Side::Running, &["daemon", "stop"])?;
    let started = second.ostler(Side::Asking, &["daemon", "start"])?.expect_done_or_named()?;
    let side = if started { Side::Asking } else { Side::Running };
    if !started {
        second.done(side, &["daemon", "start"])?;
    }
    // What happens after the exchange is told to the fleet as before it.
    let mut agent = Agent::start(second, LATER_SESSION)?;
    agent.hook(second.release(side), "SessionStart")?;
    wait_until_listed(first, Side::Running, LATER_SESSION)?;
    wait_until_listed(second, side, SESSIONS[0])?;
    Ok(match started {
        true => "a member's programs are exchanged, and both list on",
        false => "an older program is not put in a newer one's place, and both list on",
    })
}
