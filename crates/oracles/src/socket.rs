//! The socket of a hosted session: a real host in this process, with a real terminal.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use host::screen::Personality;
use host::server::{InProcessHost, StartRequest};
use host::stream;
use serde_json::Value;
use tempfile::TempDir;

/// Ends what one connection says; what follows is said by another one, at the same time.
const NEXT_CONNECTION: u8 = 0x1e;

/// How many connections there are at a time.
const MOST_CONNECTIONS: usize = 8;

/// How many hosts are ended by what they are told. The thread that reads a host's terminal stays as long as
/// its process, which is short for a host, but not here.
const MOST_HOSTS: usize = 200;

/// For any input of clients, every answer is one, and the host goes on to answer others.
pub fn socket(bytes: &[u8]) {
    thread_local! {
        static STAGE: RefCell<(usize, Option<Stage>)> = const { RefCell::new((0, None)) };
    }
    STAGE.with_borrow_mut(|(hosts, stage)| {
        let ends = |word: &[u8]| bytes.windows(word.len()).any(|part| part == word);
        if *hosts >= MOST_HOSTS && (ends(b"destroy") || ends(b"signal")) {
            return;
        }
        let running = stage.get_or_insert_with(|| {
            *hosts += 1;
            Stage::new()
        });
        running.ask(bytes);
        if running.host.is_over() {
            *stage = None;
        }
    });
}

struct Stage {
    host: InProcessHost,
    directory: TempDir,
}

impl Stage {
    fn new() -> Self {
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        let directory = tempfile::Builder::new().permissions(private).tempdir();
        let directory = directory.expect("a temporary directory");
        let request = StartRequest {
            session_id: "01J".to_owned(),
            directory: directory.path().join("session"),
            socket: directory.path().join("socket"),
            personality: Personality::Ostler,
            // Keys that would end it are not the point.
            command: ["/bin/sh", "-c", "trap '' INT QUIT TSTP; exec sleep 1000000"]
                .map(str::to_owned)
                .to_vec(),
            cwd: "/".to_owned(),
            name: None,
            env: BTreeMap::new(),
            inherit: Vec::new(),
            unset: Vec::new(),
            shell: None,
            term: "xterm-256color".to_owned(),
            cols: 20,
            rows: 6,
            idle_timeout_ms: 0,
            scrollback_lines: 100,
            version: "0".to_owned(),
            headless: None,
        };
        Self { host: InProcessHost::start(request).expect("a host"), directory }
    }

    fn ask(&mut self, bytes: &[u8]) {
        let said: Vec<&[u8]> =
            bytes.split(|byte| *byte == NEXT_CONNECTION).take(MOST_CONNECTIONS).collect();
        let mut clients: Vec<Client> = said.iter().map(|said| self.client(said)).collect();
        self.settle(&mut clients);
        for (said, client) in said.iter().zip(&clients) {
            check_answer(said, &client.heard);
        }
        drop(clients);
        self.settle(&mut []);
        if self.host.is_over() {
            return;
        }
        let mut clients =
            [self.client(b"{\"id\":\"7\",\"method\":\"inspect\",\"dialect\":\"ostler\"}\n")];
        self.settle(&mut clients);
        let Ok(answer) = serde_json::from_slice::<Value>(&clients[0].heard) else {
            assert!(self.host.is_over(), "no answer");
            return;
        };
        assert_eq!((&answer["id"], &answer["ok"]), (&Value::from("7"), &Value::from(true)));
        assert_eq!(answer["result"]["viewers"], 0, "nobody watches any more");
    }

    fn client(&self, says: &[u8]) -> Client {
        let path = self.directory.path().join("socket");
        let mut stream = UnixStream::connect(path).expect("it listens");
        stream.set_nonblocking(true).expect("a socket");
        // What does not fit is not said; one that talks without end is no other case.
        let _ = stream.write(says);
        Client { stream, heard: Vec::new() }
    }

    /// Goes on until the host has nothing to do and its clients nothing to hear.
    fn settle(&mut self, clients: &mut [Client]) {
        loop {
            let mut busy = !self.host.is_over() && self.host.turn();
            for client in clients.iter_mut() {
                busy |= client.hear();
            }
            if !busy {
                return;
            }
        }
    }
}

struct Client {
    stream: UnixStream,
    heard: Vec<u8>,
}

impl Client {
    /// Hears what there is; says whether there was anything.
    fn hear(&mut self) -> bool {
        let before = self.heard.len();
        let end = self.stream.read_to_end(&mut self.heard);
        assert!(end.is_ok() || end.is_err_and(|error| is_quiet(error.kind())));
        self.heard.len() > before
    }
}

/// Nothing more now, or never: a host that has read less than it was told resets the connection.
fn is_quiet(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::ConnectionReset)
}

/// An answer is a line with the request's id, or no line at all; after it come whole frames.
fn check_answer(said: &[u8], heard: &[u8]) {
    let Some(end) = heard.iter().position(|byte| *byte == b'\n') else {
        assert!(heard.is_empty(), "half a line of {} bytes", heard.len());
        return;
    };
    let answer: Value = serde_json::from_slice(&heard[..end]).expect("an answer is JSON");
    let asked = said.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if answer["ok"] == false {
        assert!(answer["error"]["code"].is_string() && answer["error"]["message"].is_string());
    } else {
        assert_eq!(answer["ok"], true);
        assert!(answer.get("result").is_some());
    }
    if let Ok(asked) = serde_json::from_slice::<Value>(asked) {
        // One that is not understood has no id.
        assert!(answer["id"] == asked["id"] || answer["error"]["code"] == "RPC_ERROR");
    }
    let mut frames = heard[end + 1..].to_vec();
    while stream::take_frame(&mut frames).expect("what follows are frames").is_some() {}
}
