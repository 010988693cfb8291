//! The web server of `ostler web`: the API behind tokens, a page that is a client of it, terminals over
//! one WebSocket per tab.
//!
//! It is a process of its own and holds no writer lock: killing it loses nothing. It listens on loopback only,
//! and the order of its checks is fixed: `Host`, then the route, then `Origin`, then the token, then the
//! right (`guard`, `sign_in`). No cookie exists, because browsers send cookies to every port.

mod assets;
mod control;
mod guard;
mod notes;
mod read_soon;
mod server;
mod sessions;
mod sign_in;
mod socket;
#[cfg(test)]
mod stream_tests;
mod terminal_channel;
mod terminals;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use flows::live::LiveSource;
use flows::terminal::TerminalHome;
use model::page::KeptTab;
use sys::machine::Machine;
use tokio::sync::{Semaphore, oneshot};

use crate::api::{ApiRight, ApiService, CommandRunner};
use crate::timeouts::EXPIRY_CHECK_INTERVAL;

use control::ControlServer;
pub(crate) use control::{WebAnswer, WebControlError, WebOrder, ask_web, hold_web_lock};
use guard::HostRules;
use notes::PageNotes;
use sessions::SessionHub;
use sign_in::SignIns;
use terminals::TerminalHub;

/// How many pages may be open.
const MOST_VIEWERS: usize = 64;

/// How a server is set up.
#[derive(Debug)]
pub(crate) struct WebSetup {
    pub(crate) port: u16,
    /// Names of a TLS proxy on this machine.
    pub(crate) hosts: Vec<String>,
    /// The rights of a new sign-in.
    pub(crate) allowed: ApiRight,
    pub(crate) runner: CommandRunner,
    pub(crate) terminals: TerminalHome,
    pub(crate) live: LiveSource,
    pub(crate) dirs: sys::dirs::Dirs,
    pub(crate) machine: Machine,
    /// Browsers that stay signed in.
    pub(crate) kept: Vec<KeptTab>,
    /// Where a proxy is reached: links begin with it.
    pub(crate) proxy_url: Option<String>,
}

/// What all connections share.
#[derive(Debug)]
struct WebState {
    api: ApiService,
    hosts: HostRules,
    sign_ins: Mutex<SignIns>,
    /// Rises when a token is revoked or gets a right, so that sockets look at theirs again.
    revised: tokio::sync::watch::Sender<u64>,
    terminals: Arc<TerminalHub>,
    sessions: Arc<SessionHub>,
    /// One place for every page that is open.
    viewers: Arc<Semaphore>,
    assets: assets::AssetTable,
    allowed: ApiRight,
    url: String,
    notes: PageNotes,
}

impl WebState {
    fn sign_ins(&self) -> MutexGuard<'_, SignIns> {
        self.sign_ins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends when a tab is not signed in any more: revoked, or its time is over.
    async fn await_sign_out(&self, tab: &str) {
        let mut revised = self.revised.subscribe();
        loop {
            let now = sys::clock::now();
            let until = match self.sign_ins().find_tab(tab, now) {
                Some(tab) => tab.kept_until,
                None => return,
            };
            // A clock that is set, and a machine that slept, are seen at the next look.
            let look_again = async {
                match until {
                    Some(until) => {
                        let left = until.since(now).min(EXPIRY_CHECK_INTERVAL);
                        tokio::time::sleep(left).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = revised.changed() => {}
                () = look_again => {}
            }
        }
    }

    fn note_revision(&self) {
        self.revised.send_modify(|revision| *revision += 1);
    }
}

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub(crate) struct WebServer {
    state: Arc<WebState>,
    listeners: Vec<TcpListener>,
    control: ControlServer,
    port: u16,
}

impl WebServer {
    /// Listens on 127.0.0.1 and, where there is one, on ::1, both with the same port.
    pub(crate) fn listen(setup: WebSetup) -> std::io::Result<Self> {
        let first = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, setup.port)))?;
        let port = first.local_addr()?.port();
        let mut listeners = vec![first];
        match TcpListener::bind(SocketAddr::from((Ipv6Addr::LOCALHOST, port))) {
            Ok(second) => listeners.push(second),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => return Err(error),
            // A machine without IPv6 has nothing that could connect there.
            Err(error) => tracing::debug!(%error, "no listener on ::1"),
        }
        let control = ControlServer::listen(&setup.dirs)?;
        let mut sign_ins = SignIns::default();
        sign_ins.restore_tabs(&setup.kept);
        let state = WebState {
            api: ApiService::new(setup.runner),
            hosts: HostRules::new(port, setup.hosts),
            sign_ins: Mutex::new(sign_ins),
            revised: tokio::sync::watch::Sender::new(0),
            terminals: Arc::new(TerminalHub::new(setup.terminals)),
            sessions: Arc::new(SessionHub::new(setup.live)),
            viewers: Arc::new(Semaphore::new(MOST_VIEWERS)),
            assets: assets::AssetTable::build(),
            allowed: setup.allowed,
            url: setup.proxy_url.unwrap_or_else(|| format!("http://127.0.0.1:{port}")),
            notes: PageNotes::start(setup.machine)?,
        };
        Ok(Self { state: Arc::new(state), listeners, control, port })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// A link that signs one tab in, once, within ten minutes; its key is in the fragment, which no
    /// server, log or referrer sees.
    pub(crate) fn new_link(&self) -> std::io::Result<String> {
        make_link(&self.state)
    }

    /// Where pages reach it.
    pub(crate) fn url(&self) -> &str {
        &self.state.url
    }

    /// What makes further links while the server runs.
    pub(crate) fn link_maker(&self) -> impl Fn() -> std::io::Result<String> + Send + use<> {
        let state = Arc::clone(&self.state);
        move || make_link(&state)
    }

    /// Serves until the process ends, or until something is said through `stop`.
    pub(crate) fn serve(self, stop: oneshot::Receiver<()>) -> std::io::Result<()> {
        server::serve_all(self.state, self.listeners, self.control, stop)
    }
}

fn make_link(state: &WebState) -> std::io::Result<String> {
    let key = state.sign_ins().new_key(Instant::now())?;
    Ok(format!("{}/#k={key}", state.url))
}
