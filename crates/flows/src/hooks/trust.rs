//! Codex runs a hook only after its user has agreed to exactly that hook: its settings then hold a
//! hash of it, under the hook's place. Without that it is skipped, and nothing is said.

use adapters::hooks::AgentHooks;
use serde_json::json;

use super::files::{SettingsFile, backup_beside};
use super::{HooksRequest, Wiring, json, toml};

/// Whether the agent will run ostler's hooks in this text.
pub(super) fn is_trust_given(
    hooks: &AgentHooks,
    wiring: &Wiring<'_>,
    request: &HooksRequest<'_>,
    text: &str,
) -> bool {
    let Some(notify) = &hooks.wiring.notify else { return true };
    let file = match request.project {
        Some(project) => hooks.wiring.project.map(|file| file(project)),
        None => (hooks.wiring.user)(&request.machine.env()),
    };
    let (Some(file), Some(settings)) = (file, (notify.user)(&request.machine.env())) else {
        return false;
    };
    let Ok(settings) = SettingsFile::read_settings(&settings, backup_beside(&settings)) else {
        return false;
    };
    let (Ok(settings), Ok(positions)) =
        (settings.settings_text(), json::hook_positions(wiring, text))
    else {
        return false;
    };
    let resolved = file.canonicalize().unwrap_or_else(|_| file.clone());
    wiring.entries.iter().all(|entry| {
        let place = positions.iter().find(|(event, _, _)| event == entry.event);
        let Some((_, group, index)) = place else { return false };
        let event = snake_case(entry.event);
        let hash = hook_hash(&event, &entry.command, entry.seconds);
        [&file, &resolved].into_iter().any(|file| {
            let name = format!("{}:{event}:{group}:{index}", file.display());
            toml::trusted_hash(settings, &name).as_deref() == Some(&hash)
        })
    })
}

/// The hash of a hook: of its meaning, not of its text. Keys are in alphabetical order.
pub(super) fn hook_hash(event: &str, command: &str, seconds: u32) -> String {
    let hook = json!({ "async": false, "command": command, "timeout": seconds, "type": "command" });
    let identity = json!({ "event_name": event, "hooks": [hook] });
    format!("sha256:{}", sys::hash::sha256(identity.to_string().as_bytes()))
}

/// `SessionStart` as `session_start`.
fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}
