//! Hooks that another ostler had installed, say one from another package, and that a setup has put right: what
//! stood there before is known to the byte, and is put back.

use std::path::{Path, PathBuf};

use model::wire::HookAgent;

use super::files::{RemoveSettings, SettingsPlan};
use super::made::SettingsDirectories;
use super::{
    HookAction, HooksError, HooksRequest, SettingsPart, State, Wiring, apply_settings_plan,
    find_hooks, is_present, overall_state, plan_view, settings_parts,
};

/// A file of an agent that had hooks of ostler's already, before an installation and after it.
#[derive(Debug)]
pub(crate) struct SettingsRewrite {
    pub(crate) path: PathBuf,
    /// The content; `None` if there is no file. A byte order mark is part of it.
    pub(crate) before: Option<String>,
    pub(crate) after_hash: String,
    /// The program that the hooks named.
    pub(crate) program: Option<String>,
    /// Whether the installation makes a copy of the file beside it.
    pub(crate) was_copied: bool,
}

/// The hash of a content; one of its own for no file.
pub(crate) fn hash_content(content: Option<&[u8]>) -> String {
    content.map_or_else(|| "none".to_owned(), sys::hash::sha256)
}

/// The files that an installation would change of an agent that has hooks of ostler's already; none if it has
/// no such hooks.
pub(crate) fn plan_rewrites(
    agent: &str,
    request: &HooksRequest<'_>,
) -> Result<Vec<SettingsRewrite>, HooksError> {
    let (adapter, hooks) = find_hooks(agent)?;
    let wiring = Wiring::for_agent(adapter, hooks, request)?;
    let mut rewrites = Vec::new();
    let mut has_hooks = false;
    for part in settings_parts(adapter, hooks, request)? {
        let plan = part.plan_change(&wiring, HookAction::Install)?;
        let text = plan.seen.text_or_empty();
        let wrong = |wrong| part.to_hooks_error(wrong);
        let state = part.text_state(&wiring, text).map_err(wrong)?;
        has_hooks |= state.is_some_and(|state| state != State::NotInstalled);
        let (before, after) = plan.contents();
        if before == after {
            continue;
        }
        rewrites.push(SettingsRewrite {
            path: part.path.clone(),
            before: before.map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
            after_hash: hash_content(after),
            program: part.hooked_program(&wiring, text).map_err(wrong)?,
            was_copied: plan.makes_copy(),
        });
    }
    Ok(if has_hooks { rewrites } else { Vec::new() })
}

/// What is to be put back into one file.
#[derive(Debug)]
pub(crate) struct RestoredFile<'a> {
    pub(crate) path: &'a Path,
    pub(crate) before: Option<&'a str>,
    /// The hashes of what setups have made of it.
    pub(crate) after_hashes: &'a [String],
    pub(crate) program: Option<&'a str>,
    pub(crate) was_copied: bool,
}

/// Puts files back as they were before their hooks were put right. In one that others have changed since, the
/// hooks name the program again that they named, and everything else stays.
pub(crate) fn restore_settings(
    agent: &str,
    request: &HooksRequest<'_>,
    files: &[RestoredFile<'_>],
    dry_run: bool,
    remove: RemoveSettings<'_>,
) -> Result<HookAgent, HooksError> {
    let (adapter, hooks) = find_hooks(agent)?;
    let wiring = Wiring::for_agent(adapter, hooks, request)?;
    let directories = SettingsDirectories {
        home: Some(request.machine.home()),
        boundary: request.machine.env().home_dir(),
        kept: &[],
    };
    let mut views = Vec::new();
    for part in settings_parts(adapter, hooks, request)? {
        let Some(file) = files.iter().find(|file| file.path == part.path) else { continue };
        let plan_anew = || {
            let program = file.program.unwrap_or(wiring.program);
            let request = HooksRequest { program: Path::new(program), ..*request };
            plan_restore(&part, file, &Wiring::for_agent(adapter, hooks, &request)?)
        };
        let mut plan = plan_anew()?;
        if !dry_run {
            apply_settings_plan(&mut plan, &plan_anew, &directories, remove)?;
        }
        views.push(plan_view(&plan, dry_run));
    }
    let (state, notes) = overall_state(adapter, hooks, &wiring, request)?;
    let agent = adapter.agent_profile().id.to_owned();
    let present = is_present(&agent, request.machine);
    Ok(HookAgent { agent, present, state: Some(state), files: views, notes, problem: None })
}

fn plan_restore(
    part: &SettingsPart,
    file: &RestoredFile<'_>,
    before: &Wiring<'_>,
) -> Result<SettingsPlan, HooksError> {
    let seen = part.read()?;
    let text = seen.settings_text()?;
    let state = part.text_state(before, text).map_err(|wrong| part.to_hooks_error(wrong))?;
    let plan = SettingsPlan::leave_unchanged(seen);
    let hash = hash_content(plan.contents().0);
    if file.after_hashes.contains(&hash) {
        let content = file.before.map(|text| text.as_bytes().to_owned());
        return Ok(SettingsPlan::put_back(plan.seen, content, file.was_copied));
    }
    match state {
        // Somebody has taken them out.
        None | Some(State::NotInstalled) => Ok(plan),
        Some(_) if hash == hash_content(file.before.map(str::as_bytes)) => Ok(plan),
        Some(_) => part.plan_change(before, HookAction::Install),
    }
}
