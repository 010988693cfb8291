//! The private Unix socket by which `ostler web ls|revoke|allow` reach the server: one line of JSON each way.
//!
//! The peer's user is the credential. One server serves a home; its lock says so.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use flows::writer::{HomeId, fallback_directory};
use model::wire::WebTab;
use serde::{Deserialize, Serialize};
use sys::dirs::Dirs;
use sys::lock::{AdvisoryLock, LockAttempt};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::server::tab_view;
use super::{WebState, make_link};
use crate::timeouts::{CONTROL_TIMEOUT, PAGE_ACCEPT_BACKOFF};

/// The longest line.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// What can be asked of the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum WebOrder {
    /// Who is signed in.
    Ls,
    /// Sign a tab out.
    Revoke { name: String },
    /// Give the right that a code asks for.
    Allow { code: String },
    /// Make another link.
    Link,
}

/// What it answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WebAnswer {
    pub(crate) pid: u32,
    pub(crate) url: String,
    /// Whether what was asked for was there.
    pub(crate) found: bool,
    pub(crate) tabs: Vec<WebTab>,
    /// The link that was asked for.
    #[serde(default)]
    pub(crate) link: Option<String>,
    /// Why it was not done.
    #[serde(default)]
    pub(crate) failed: Option<String>,
}

/// Why the server was not asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WebControlError {
    #[error("`ostler web` does not run for this home")]
    NotRunning,
    #[error("`ostler web` does not answer: {0}")]
    Broken(#[from] io::Error),
    #[error("the `ostler web` that runs is of another release, which does not understand this")]
    OtherRelease,
}

/// The lock of the one server of a home; an error that is `WouldBlock` if another has it.
pub(crate) fn hold_web_lock(home: &Path) -> io::Result<AdvisoryLock> {
    sys::private::create_private_dir(home).map_err(io::Error::other)?;
    match sys::lock::try_take(&home.join("web.lock")).map_err(io::Error::other)? {
        LockAttempt::Taken(lock) => Ok(lock),
        LockAttempt::Held(_) => Err(io::ErrorKind::WouldBlock.into()),
    }
}

/// Where the socket may be, best first.
fn socket_paths(dirs: &Dirs) -> io::Result<[PathBuf; 2]> {
    let name = format!("web-{}.sock", HomeId::of_path(&dirs.home)?);
    Ok([dirs.runtime.join(&name), fallback_directory(&dirs.home).join(&name)])
}

/// The socket while it is listened on.
#[derive(Debug)]
pub(super) struct ControlServer {
    listener: UnixListener,
    path: PathBuf,
}

impl ControlServer {
    /// Listens. The caller holds the lock.
    pub(super) fn listen(dirs: &Dirs) -> io::Result<Self> {
        let [best, other] = socket_paths(dirs)?;
        let listened = sys::socket::listen_private(&best).map(|listener| (listener, best));
        let (listener, path) = match listened {
            Ok(listened) => listened,
            Err(error) => {
                tracing::debug!(%error, "the runtime directory cannot be used");
                (sys::socket::listen_private(&other).map_err(io::Error::other)?, other)
            }
        };
        Ok(Self { listener, path })
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        #[expect(clippy::disallowed_methods, reason = "the socket is this process's own")]
        sys::socket::abandon_socket(&self.path);
    }
}

/// Answers orders, one connection at a time.
pub(super) fn serve_control(
    server: ControlServer,
    state: Arc<WebState>,
) -> io::Result<impl Future<Output = ()>> {
    let listener = server.listener.try_clone()?;
    listener.set_nonblocking(true)?;
    let listener = tokio::net::UnixListener::from_std(listener)?;
    Ok(async move {
        let _server = server;
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(PAGE_ACCEPT_BACKOFF).await;
                continue;
            };
            if !sys::socket::peer_of(&stream).is_ok_and(|peer| peer.is_us()) {
                continue;
            }
            // An asker that is too slow asks again.
            let _ = timeout(CONTROL_TIMEOUT, answer_order(stream, &state)).await;
        }
    })
}

async fn answer_order(mut stream: tokio::net::UnixStream, state: &Arc<WebState>) -> io::Result<()> {
    let (reader, mut writer) = stream.split();
    let mut line = String::new();
    tokio::io::BufReader::new(reader.take(MAX_LINE_BYTES)).read_line(&mut line).await?;
    let order: WebOrder = serde_json::from_slice(line.as_bytes())?;
    let worker = Arc::clone(state);
    // What is kept of tabs is written by the writer, who may be busy.
    let answer = tokio::task::spawn_blocking(move || carry_out(&worker, &order)).await;
    let mut answer = serde_json::to_vec(&answer.map_err(io::Error::other)?)?;
    answer.push(b'\n');
    writer.write_all(&answer).await
}

fn carry_out(state: &WebState, order: &WebOrder) -> WebAnswer {
    let mut sign_ins = state.sign_ins();
    let tabs: Vec<_> = match order {
        WebOrder::Ls => sign_ins.list_tabs().to_vec(),
        WebOrder::Revoke { name } => {
            let tab = sign_ins.find_tab(name, sys::clock::now()).cloned();
            sign_ins.revoke_tab(name);
            tab.into_iter().collect()
        }
        WebOrder::Allow { code } => sign_ins.allow_code(code, Instant::now()).into_iter().collect(),
        WebOrder::Link => Vec::new(),
    };
    drop(sign_ins);
    let is_question = matches!(order, WebOrder::Ls | WebOrder::Link);
    if !is_question {
        state.note_revision();
    }
    let kept = tabs.iter().filter(|tab| !is_question && tab.kept_until.is_some());
    let mut failed: Option<String> = kept
        .filter_map(|tab| match order {
            WebOrder::Revoke { name } => state.notes.forget_tab(name).err(),
            _ => {
                let kept = state.sign_ins().describe_kept(&tab.name, sys::clock::now())?;
                state.notes.keep_tab(kept).err()
            }
        })
        .map(|failure| failure.message)
        .next();
    let link = match order {
        WebOrder::Link => make_link(state).map_err(|error| failed = Some(error.to_string())).ok(),
        _ => None,
    };
    WebAnswer {
        pid: std::process::id(),
        url: state.url.clone(),
        found: is_question || !tabs.is_empty(),
        tabs: tabs.iter().map(|tab| tab_view(tab, state)).collect(),
        link,
        failed,
    }
}

/// Asks the server of this home.
pub(crate) fn ask_web(dirs: &Dirs, order: &WebOrder) -> Result<WebAnswer, WebControlError> {
    let paths = match socket_paths(dirs) {
        Ok(paths) => paths,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(WebControlError::NotRunning);
        }
        Err(error) => return Err(error.into()),
    };
    let stream = paths.iter().find_map(|path| sys::socket::connect_private(path).ok());
    let stream = stream.ok_or(WebControlError::NotRunning)?;
    exchange_lines(&stream, order)
}

fn exchange_lines(mut stream: &UnixStream, order: &WebOrder) -> Result<WebAnswer, WebControlError> {
    stream.set_read_timeout(Some(CONTROL_TIMEOUT))?;
    stream.set_write_timeout(Some(CONTROL_TIMEOUT))?;
    let mut line = serde_json::to_vec(order).map_err(io::Error::from)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    // One that does not understand an order says nothing; one that says more than this knows is newer.
    serde_json::from_slice(answer.as_bytes()).map_err(|_| WebControlError::OtherRelease)
}
