//! Hooks that are a program in the agent's own language: a file that is ostler's alone.

use super::command::HOOK_VERSION;
use super::{EditError, State, Wiring};

const MARK: &str = "// ostler-hooks ";

/// The whole file.
pub(super) fn render_script(template: &str, program: &str) -> String {
    let literal = serde_json::Value::from(program).to_string();
    template.replace("@VERSION@", &HOOK_VERSION.to_string()).replace("@PROGRAM@", &literal)
}

/// How far the file is ostler's.
pub(super) fn script_state(wiring: &Wiring<'_>, template: &str, text: &str) -> State {
    let Some(version) = script_version(text) else { return State::NotInstalled };
    if text == render_script(template, wiring.program) {
        return State::Installed;
    }
    let as_written =
        script_program(text).is_some_and(|program| text == render_script(template, &program));
    if version != HOOK_VERSION || as_written { State::Outdated } else { State::ForeignEdited }
}

/// The file as it should be, unless what is there is not ostler's.
pub(super) fn replace_script(
    wiring: &Wiring<'_>,
    template: &str,
    text: &str,
) -> Result<String, EditError> {
    if !text.trim().is_empty() && script_version(text).is_none() {
        return Err(EditError::wrong_shape("it was not written by ostler"));
    }
    Ok(render_script(template, wiring.program))
}

fn script_version(text: &str) -> Option<u32> {
    text.lines().next()?.strip_prefix(MARK)?.trim().parse().ok()
}

/// The program that the file starts.
pub(super) fn script_program(text: &str) -> Option<String> {
    let literal = text.lines().find_map(|line| line.strip_prefix("const OSTLER = "))?;
    serde_json::from_str(literal.strip_suffix(';')?).ok()
}
