//! `agent-tty home`: the list of homes that sessions were made in.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use model::time::Time;
use serde::{Deserialize, Serialize};

use crate::cli::Context;
use crate::env;
use crate::error::Error;
use crate::render::{output, text};

/// Manage the list of homes.
#[derive(Debug, Args)]
pub(crate) struct Homes {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List homes with sessions in them.
    List {
        /// Homes with nothing but sessions that are over, too.
        #[arg(long)]
        all: bool,
    },
    /// Take a home off the list; nothing in it is touched.
    Forget {
        /// The home.
        path: PathBuf,
    },
}

/// `homes.json`
#[derive(Debug, Default, Serialize, Deserialize)]
struct Registry {
    version: u32,
    homes: Vec<Known>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Known {
    pub(super) path: PathBuf,
    last_seen_at: Time,
}

fn file() -> Option<PathBuf> {
    let state = env::lookup("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let state = state.or_else(|| Some(env::home()?.join(".local/state")))?;
    Some(state.join("agent-tty/homes.json"))
}

/// The homes on the list, newest first. One that cannot be read is empty: it is only a convenience.
pub(super) fn known() -> Vec<Known> {
    let read = || serde_json::from_slice::<Registry>(&std::fs::read(file()?).ok()?).ok();
    read().map(|registry| registry.homes).unwrap_or_default()
}

pub(super) fn write(mut homes: Vec<Known>) {
    homes.sort_by_key(|known| std::cmp::Reverse(known.last_seen_at));
    let write = || -> Option<()> {
        let path = file()?;
        std::fs::create_dir_all(path.parent()?).ok()?;
        let text = serde_json::to_string_pretty(&Registry { version: 1, homes }).ok()? + "\n";
        sys::atomic::replace(&path, text.as_bytes()).ok()
    };
    let _ = write();
}

/// Notes the home in use.
pub(super) fn register(context: &Context) {
    let Ok(home) = context.terminals() else { return };
    let mut homes = known();
    homes.retain(|known| known.path != home.root);
    homes.push(Known { path: home.root, last_seen_at: context.now });
    write(homes);
}

#[derive(Serialize)]
struct Listed {
    homes: Vec<Row>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    path: String,
    active_sessions: usize,
    total_sessions: usize,
    last_seen_at: Time,
}

#[derive(Serialize)]
struct Forgotten {
    path: String,
    forgotten: bool,
}

impl Homes {
    pub(crate) const fn name(&self) -> &'static str {
        match self.what {
            What::List { .. } => "home list",
            What::Forget { .. } => "home forget",
        }
    }

    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        match &self.what {
            What::List { all } => list(context, *all),
            What::Forget { path } => forget(context, path),
        }
    }
}

fn list(context: &Context, all: bool) -> Result<ExitCode, Error> {
    let mut homes = Vec::new();
    for known in known() {
        let Some(globals) = &context.agent_tty else { break };
        let sessions = match globals.terminals_in(&known.path).readable_sessions() {
            Ok(sessions) => sessions,
            Err(fault) => {
                output::talk(&text::one_line(&fault.message));
                continue;
            }
        };
        let active = sessions.iter().filter(|one| one.manifest.status.is_active()).count();
        let visible = if all { sessions.len() } else { active };
        if visible > 0 {
            homes.push(Row {
                path: known.path.to_string_lossy().into_owned(),
                active_sessions: active,
                total_sessions: sessions.len(),
                last_seen_at: known.last_seen_at,
            });
        }
    }
    if context.json {
        context.answer(Listed { homes })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = String::new();
    for home in &homes {
        let path = text::one_line(&home.path);
        let (active, total) = (home.active_sessions, home.total_sessions);
        let _ = writeln!(out, "{path}  {active} active  {total} total  {}", home.last_seen_at);
    }
    output::text(if out.is_empty() { "No registered Homes.\n" } else { &out })?;
    Ok(ExitCode::SUCCESS)
}

fn forget(context: &Context, path: &Path) -> Result<ExitCode, Error> {
    let path = super::absolute(path)?;
    let mut homes = known();
    let before = homes.len();
    homes.retain(|known| known.path != path);
    let forgotten = homes.len() < before;
    if forgotten {
        write(homes);
    }
    let path = path.to_string_lossy().into_owned();
    if context.json {
        context.answer(Forgotten { path, forgotten })?;
    } else if forgotten {
        output::text(&format!("Forgot Home: {}\n", text::one_line(&path)))?;
    } else {
        output::text(&format!("Home is not registered: {}\n", text::one_line(&path)))?;
    }
    Ok(ExitCode::SUCCESS)
}
