//! The page of one release and commands of the other; the network helper of the other release.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use super::room::{Room, Side};

/// The page runs, the other release asks for its tabs and for a link, and the link is answered.
pub(super) fn ask_a_running_page(room: &Room) -> Result<String, String> {
    let mut command = room.command(room.running.ostler());
    command.args(["web", "--port", "0"]).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut page = command.spawn().map_err(|error| error.to_string())?;
    let checked = ask_for_links(room, &mut page);
    page.kill().map_err(|error| error.to_string())?;
    page.wait().map_err(|error| error.to_string())?;
    checked
}

fn ask_for_links(room: &Room, page: &mut std::process::Child) -> Result<String, String> {
    let printed = page.stdout.take().ok_or("no output")?;
    let mut first = String::new();
    let mut lines = BufReader::new(printed);
    while !first.contains("http://") {
        first.clear();
        if lines.read_line(&mut first).map_err(|error| error.to_string())? == 0 {
            return Err("the page does not start".to_owned());
        }
    }
    let listed = room.ostler(Side::Asking, &["web", "ls", "--json"])?.expect_done_or_named()?;
    let link = room.ostler(Side::Asking, &["web", "link", "--json"])?;
    if link.stdout.contains("unrecognized subcommand") {
        return Ok("tabs listed; links are not known to the older one".to_owned());
    }
    let address = link.result().ok().and_then(|link| Some(link["link"].as_str()?.to_owned()));
    if !link.expect_done_or_named()? || !listed {
        return Ok("the page is of another release, which is named".to_owned());
    }
    let address = address.ok_or("a link without an address")?;
    let host = address.strip_prefix("http://").and_then(|rest| rest.split('/').next());
    let host = host.ok_or_else(|| format!("{address} is no link"))?;
    let mut stream = std::net::TcpStream::connect(host).map_err(|error| error.to_string())?;
    write!(stream, "GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")
        .map_err(|error| error.to_string())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
    if !answer.starts_with("HTTP/1.1 200") {
        return Err(format!("the page answers {answer:?}"));
    }
    Ok("tabs listed, a link made and answered".to_owned())
}

/// ostler of one release beside the helper of the other: a webhook is delivered, or both are named.
pub(super) fn send_through_the_other_helper(room: &Room) -> Result<String, String> {
    let both = room.home.directory("both");
    for (from, name) in [(room.running.ostler(), "ostler"), (room.asking.helper(), "ostler-net")] {
        fs::copy(&from, both.join(name)).map_err(|error| format!("{}: {error}", from.display()))?;
    }
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let port = listener.local_addr().map_err(|error| error.to_string())?.port();
    let receiver = std::thread::spawn(move || receive_one(&listener));
    let url = format!("http://127.0.0.1:{port}/hook");
    let ask = |words: &[&str]| {
        let mut command = room.command(both.join("ostler"));
        command.args(words).output().map_err(|error| error.to_string())
    };
    let added = ask(&["webhook", "add", "--url", &url, "--json"])?;
    if !added.status.success() {
        let (printed, said) = (&added.stdout, &added.stderr);
        let text = [printed.as_slice(), said.as_slice()].concat();
        return Err(String::from_utf8_lossy(&text).into_owned());
    }
    let added: serde_json::Value =
        serde_json::from_slice(&added.stdout).map_err(|error| error.to_string())?;
    let id =
        added["result"]["webhooks"][0]["id"].as_str().ok_or_else(|| added.to_string())?.to_owned();
    let tested = ask(&["webhook", "test", &id])?;
    let said = String::from_utf8_lossy(&tested.stderr);
    if !tested.status.success() {
        return match said.contains("install both from the same version") {
            true => Ok("it is named that both must be of one release".to_owned()),
            false => Err(said.into_owned()),
        };
    }
    let received = receiver.join().map_err(|_| "the receiver broke")??;
    if !received.contains("webhook-signature") {
        return Err(format!("not signed: {received}"));
    }
    Ok("a webhook is delivered and signed".to_owned())
}

/// Takes one request and answers it.
fn receive_one(listener: &TcpListener) -> Result<String, String> {
    let (mut stream, _) = listener.accept().map_err(|error| error.to_string())?;
    let limit = Some(Duration::from_secs(10));
    stream.set_read_timeout(limit).map_err(|error| error.to_string())?;
    let mut head = String::new();
    let mut lines = BufReader::new(stream.try_clone().map_err(|error| error.to_string())?);
    while !head.ends_with("\r\n\r\n") {
        if lines.read_line(&mut head).map_err(|error| error.to_string())? == 0 {
            break;
        }
    }
    stream
        .write_all(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        .map_err(|error| error.to_string())?;
    Ok(head.to_ascii_lowercase())
}
