//! `agent-tty home`: the list of homes that sessions were made in.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use model::time::Time;
use serde::{Deserialize, Serialize};
use sys::dropped::NoteDropped;

use crate::cli::CliContext;
use crate::env;
use crate::error::Error;
use crate::render::{output, text};

/// Manage the list of homes.
#[derive(Debug, Args)]
pub(crate) struct HomesArgs {
    #[command(subcommand)]
    what: HomesCommand,
}

#[derive(Debug, Subcommand)]
enum HomesCommand {
    /// List homes with sessions in them.
    List {
        /// Homes with nothing but sessions that are over, too.
        #[arg(long)]
        all: bool,
    },
    /// Take a home off the list; nothing in it is touched.
    Forget { path: PathBuf },
}

/// `homes.json`
#[derive(Debug, Default, Serialize, Deserialize)]
struct HomeRegistry {
    version: u32,
    homes: Vec<KnownHome>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct KnownHome {
    pub(super) path: PathBuf,
    last_seen_at: Time,
}

fn registry_file() -> Option<PathBuf> {
    let state =
        env::lookup_variable("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let state = state.or_else(|| Some(env::home_dir()?.join(".local/state")))?;
    Some(state.join("agent-tty/homes.json"))
}

/// The homes on the list, newest first. One that cannot be read is empty: it is only a convenience.
pub(super) fn list_known_homes() -> Vec<KnownHome> {
    let read =
        || serde_json::from_slice::<HomeRegistry>(&std::fs::read(registry_file()?).ok()?).ok();
    read().map(|registry| registry.homes).unwrap_or_default()
}

pub(super) fn write_registry(mut homes: Vec<KnownHome>) {
    homes.sort_by_key(|known| std::cmp::Reverse(known.last_seen_at));
    let write = || -> Option<()> {
        let path = registry_file()?;
        std::fs::create_dir_all(path.parent()?).ok_or_note("the list of homes")?;
        let text = serde_json::to_string_pretty(&HomeRegistry { version: 1, homes }).ok()? + "\n";
        sys::atomic::write_unsynced(&path, text.as_bytes()).ok_or_note("the list of homes")
    };
    let _ = write();
}

/// Notes the home in use.
pub(super) fn register_home(context: &CliContext) {
    let Ok(home) = context.terminals_home() else { return };
    let mut homes = list_known_homes();
    homes.retain(|known| known.path != home.root);
    homes.push(KnownHome { path: home.root, last_seen_at: context.now });
    write_registry(homes);
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

impl HomesArgs {
    pub(crate) const fn envelope_name(&self) -> &'static str {
        match self.what {
            HomesCommand::List { .. } => "home list",
            HomesCommand::Forget { .. } => "home forget",
        }
    }

    pub(crate) fn run_homes(&self, context: &CliContext) -> Result<ExitCode, Error> {
        match &self.what {
            HomesCommand::List { all } => list_homes(context, *all),
            HomesCommand::Forget { path } => forget_home(context, path),
        }
    }
}

fn list_homes(context: &CliContext, all: bool) -> Result<ExitCode, Error> {
    let mut homes = Vec::new();
    for known in list_known_homes() {
        let Some(globals) = &context.agent_tty else { break };
        let sessions = match globals.terminals_in(&known.path, &context.machine).readable_sessions()
        {
            Ok(sessions) => sessions,
            Err(fault) => {
                output::print_notice(&text::one_line(&fault.message));
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
        context.print_json(Listed { homes })?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = String::new();
    for home in &homes {
        let path = text::one_line(&home.path);
        let (active, total) = (home.active_sessions, home.total_sessions);
        let _ = writeln!(out, "{path}  {active} active  {total} total  {}", home.last_seen_at);
    }
    output::print_text(if out.is_empty() { "No registered Homes.\n" } else { &out })?;
    Ok(ExitCode::SUCCESS)
}

fn forget_home(context: &CliContext, path: &Path) -> Result<ExitCode, Error> {
    let path = std::path::absolute(path).map_err(|error| {
        let message = format!("`{}` is not a path: {error}", path.display());
        model::hosted::HostFault::invalid_input(message)
    })?;
    let path = super::absolute_home(&path)?;
    let mut homes = list_known_homes();
    let before = homes.len();
    homes.retain(|known| known.path != path);
    let forgotten = homes.len() < before;
    if forgotten {
        write_registry(homes);
    }
    let path = path.to_string_lossy().into_owned();
    if context.json {
        context.print_json(Forgotten { path, forgotten })?;
    } else if forgotten {
        output::print_text(&format!("Forgot Home: {}\n", text::one_line(&path)))?;
    } else {
        output::print_text(&format!("Home is not registered: {}\n", text::one_line(&path)))?;
    }
    Ok(ExitCode::SUCCESS)
}
