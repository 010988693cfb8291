//! Permission requests of agents that serve them themselves: on a loopback port that ostler chose when it started
//! them, behind a password that is in their environment and nowhere else.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use adapters::Adapter;
use adapters::control::{PermissionChannel, PermissionServer};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::control::permits::{PermitAnswer, PermitRequest, PermitRoute, PermitVerdict};
use model::identity::Identity;
use model::session::is_safe_id;
use serde_json::{Value, json};
use sys::dropped::NoteDropped;
use sys::machine::Machine;
use sys::proc::{ProcessTable, read_process_table};

use crate::timeouts::PERMIT_SERVER_TIMEOUT;

/// The most that is read of an answer.
const MAX_SERVED_BYTES: u64 = 8 << 20;

/// What is added to the start of an agent that serves its requests.
#[derive(Debug)]
pub(crate) struct ServerArrangement {
    pub(crate) arguments: Vec<String>,
    pub(crate) secret: (String, String),
}

/// Chooses a port that nobody listens on, and a password of 128 random bits.
pub(crate) fn arrange_server(server: PermissionServer) -> std::io::Result<ServerArrangement> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let password: String =
        sys::random::random_bytes::<16>()?.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(ServerArrangement {
        arguments: vec![server.port_option.to_owned(), port.to_string()],
        secret: (server.password_variable.to_owned(), password),
    })
}

/// The open requests of all such servers. One that does not answer has none that could be answered.
pub(crate) fn list_server_requests(machine: &Machine) -> Vec<PermitRequest> {
    let table = read_process_table();
    let mut requests = Vec::new();
    for (adapter, server) in permission_servers() {
        for running in find_servers(adapter, server, &table) {
            let Ok(owner) = machine.identify_process(running.pid) else { continue };
            let served = ask_server(&running, "GET", "/permission", None)
                .ok_or_note("the permission requests of an agent's server");
            let Some((200, Value::Array(all))) = served else { continue };
            let agent = adapter.agent_profile().id;
            let read = |one: &Value| read_request(one, agent, running.port, &owner, machine);
            requests.extend(all.iter().filter_map(read));
        }
    }
    requests
}

/// Answers one; false if it is not open any more.
pub(crate) fn answer_server_request(
    request: &PermitRequest,
    port: u16,
    answer: &PermitAnswer,
) -> Result<bool, String> {
    let table = read_process_table();
    let is_it = |one: &RunningServer| one.port == port && request.asker.pid == Some(one.pid);
    let mut servers =
        permission_servers().flat_map(|(adapter, server)| find_servers(adapter, server, &table));
    let Some(running) = servers.find(is_it) else { return Ok(false) };
    let (_, open) = ask_server(&running, "GET", "/permission", None)?;
    let is_open = |one: &Value| one["id"] == *request.id;
    if !open.as_array().is_some_and(|all| all.iter().any(is_open)) {
        return Ok(false);
    }
    let mut reply = match answer.verdict {
        PermitVerdict::Allow => json!({ "reply": "once" }),
        PermitVerdict::Deny => json!({ "reply": "reject" }),
    };
    if let Some(message) = &answer.message {
        reply["message"] = message.as_str().into();
    }
    let path = format!("/permission/{}/reply", request.id);
    match ask_server(&running, "POST", &path, Some(&reply))? {
        (200..=299, _) => Ok(true),
        (404, _) => Ok(false),
        (status, _) => Err(format!("the agent's server answered {status}")),
    }
}

/// The agents that serve their requests, and how.
pub(crate) fn permission_servers() -> impl Iterator<Item = (&'static dyn Adapter, PermissionServer)>
{
    adapters::ALL_ADAPTERS.iter().filter_map(|adapter| {
        match adapter.control_table()?.permission_channel {
            PermissionChannel::Server(server) => Some((*adapter, server)),
            _ => None,
        }
    })
}

/// One that runs.
struct RunningServer {
    pid: u32,
    port: u16,
    password: String,
    user: &'static str,
}

/// Processes of the agent that were started with a port and a password; of our own user only, because only their
/// environment is handed out.
fn find_servers(
    adapter: &dyn Adapter,
    server: PermissionServer,
    table: &ProcessTable,
) -> Vec<RunningServer> {
    let program = &adapter.agent_profile().program;
    let mut found: Vec<RunningServer> = Vec::new();
    for row in table.rows() {
        let Some(look) = table.appearance(row.pid).filter(|look| program.matches(look)) else {
            continue;
        };
        let at = look.args.iter().position(|word| word == server.port_option);
        let port = at.and_then(|at| look.args.get(at + 1)).and_then(|word| word.parse().ok());
        let password = table.environ_value(row.pid, server.password_variable);
        let password = password.and_then(|password| password.into_string().ok());
        if let (Some(port), Some(password)) = (port, password) {
            // A wrapper and its agent have the same words: one of them is asked.
            if !found.iter().any(|known| known.port == port) {
                found.push(RunningServer { pid: row.pid, port, password, user: server.user });
            }
        }
    }
    found
}

fn read_request(
    one: &Value,
    agent: &str,
    port: u16,
    owner: &Identity,
    machine: &Machine,
) -> Option<PermitRequest> {
    let text = |name: &str| one[name].as_str().map(str::to_owned);
    let id = text("id").filter(|id| is_safe_id(id))?;
    let now = machine.read_clock();
    let tool = text("permission").or_else(|| text("type"));
    let mut input = serde_json::Map::new();
    for name in ["patterns", "pattern", "metadata", "title"] {
        if let Some(value) = one.get(name).filter(|value| !value.is_null()) {
            input.insert(name.to_owned(), value.clone());
        }
    }
    Some(PermitRequest {
        id,
        agent: agent.to_owned(),
        session: text("sessionID")?,
        subagent: None,
        tool,
        input: Value::Object(input),
        cut: false,
        cwd: None,
        asked_at: now,
        until: PermitRequest::NO_END,
        asker: owner.clone(),
        owner: Some(owner.clone()),
        route: Some(PermitRoute::Server { port }),
    })
}

/// One request to a server of this machine: the status, and the JSON that it answers.
fn ask_server(
    server: &RunningServer,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Result<(u16, Value), String> {
    let RunningServer { port, password, user, .. } = server;
    let port = *port;
    let failed = |error: std::io::Error| format!("the agent's server on port {port}: {error}");
    let address = (Ipv4Addr::LOCALHOST, port).into();
    let mut stream = TcpStream::connect_timeout(&address, PERMIT_SERVER_TIMEOUT).map_err(failed)?;
    stream.set_read_timeout(Some(PERMIT_SERVER_TIMEOUT)).map_err(failed)?;
    stream.set_write_timeout(Some(PERMIT_SERVER_TIMEOUT)).map_err(failed)?;
    let secret = STANDARD.encode(format!("{user}:{password}"));
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Basic {secret}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = Vec::new();
    stream.take(MAX_SERVED_BYTES).read_to_end(&mut answer).map_err(failed)?;
    let not_understood = || format!("the agent's server on port {port} is not understood");
    let (head, body) = split_answer(&answer).ok_or_else(not_understood)?;
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if is_chunked { join_chunks(body) } else { body.to_vec() };
    let value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Ok((status.ok_or_else(not_understood)?, value))
}

fn split_answer(answer: &[u8]) -> Option<(&str, &[u8])> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some((std::str::from_utf8(&answer[..end]).ok()?, &answer[end + 4..]))
}

/// The body behind its chunk sizes; what is not whole is left out.
fn join_chunks(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|window| window == b"\r\n") {
        let size = std::str::from_utf8(&rest[..end]).ok();
        let size = size.and_then(|text| text.split(';').next());
        let size = size.and_then(|text| usize::from_str_radix(text.trim(), 16).ok());
        let Some(size) = size.filter(|size| *size > 0) else { break };
        // The size is the server's word: it may be any number.
        let Some(chunk) = rest.get(end + 2..).and_then(|rest| rest.get(..size)) else { break };
        body.extend_from_slice(chunk);
        rest = rest.get(end + 4 + size..).unwrap_or_default();
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_whole_or_in_chunks() {
        let (head, body) = split_answer(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n[1]").unwrap();
        assert_eq!((head, body), ("HTTP/1.1 200 OK\r\nA: b", &b"[1]"[..]));
        assert_eq!(join_chunks(b"2\r\n[1\r\n1;x=y\r\n]\r\n0\r\n\r\n"), b"[1]");
        assert_eq!(join_chunks(b"ff\r\n[1"), b"", "what is cut is left out");
        assert_eq!(join_chunks(b"ffffffffffffffff\r\n[1"), b"", "and no number is too large");
    }

    #[test]
    fn each_start_has_a_port_and_a_password_of_its_own() {
        let (_, server) = permission_servers().next().unwrap();
        let (one, other) = (arrange_server(server).unwrap(), arrange_server(server).unwrap());
        assert_eq!(one.secret.1.len(), 32);
        assert_ne!(one.secret.1, other.secret.1);
        assert_eq!(one.arguments[0], server.port_option);
    }
}
