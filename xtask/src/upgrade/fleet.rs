//! Two members of one fleet, each of another release: what one publishes the other reads.

use std::process::{Child, Stdio};

use super::Release;
use super::room::{Agent, Room, Side};

/// The agents' sessions, of the release that has the hub and of the other one.
const SESSIONS: [&str; 2] =
    ["66666666-6666-4666-8666-666666666666", "77777777-7777-4777-8777-777777777777"];

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
    let members = [
        join(&hub, &room.running, "first", SESSIONS[0])?,
        join(&hub, &room.asking, "second", SESSIONS[1])?,
    ];
    for (member, other) in [(&members[0], SESSIONS[1]), (&members[1], SESSIONS[0])] {
        member.0.wait_until("the other member's session is listed", || {
            let listed = member.0.ostler(Side::Running, &["ls", "--fleet", "--json"])?;
            Ok(listed.code == 0 && listed.stdout.contains(other))
        })?;
    }
    Ok("each lists the other's session".to_owned())
}

/// A member with an agent, and its daemon.
fn join(hub: &Room, release: &Release, name: &str, session: &str) -> Result<(Room, Agent), String> {
    let member = Room::new(release, release)?;
    member.home.write(".config/ostler/config.toml", "[fleet]\nrenew = \"1s\"\nlook = \"1s\"\n");
    let asked =
        member.done(Side::Running, &["fleet", "join", "--name", name, "--json"])?.result()?;
    let request = asked["request"].as_str().ok_or_else(|| asked.to_string())?;
    let admitted = hub.done(Side::Running, &["fleet", "admit", request, "--json"])?.result()?;
    let answer = admitted["answer"].as_str().ok_or_else(|| admitted.to_string())?;
    member.done(Side::Running, &["fleet", "join", answer, "--json"])?;
    let mut agent = Agent::start(&member, session)?;
    agent.hook(release, "SessionStart")?;
    member.done(Side::Running, &["daemon", "start"])?;
    Ok((member, agent))
}
