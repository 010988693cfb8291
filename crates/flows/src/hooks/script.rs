//! Hooks that are a program in the agent's own language: a file that is ostler's alone.

use super::command::VERSION;
use super::{State, Wiring, Wrong};

const MARK: &str = "// ostler-hooks ";

/// The whole file.
pub(super) fn render(template: &str, program: &str) -> String {
    let literal = serde_json::Value::from(program).to_string();
    template.replace("@VERSION@", &VERSION.to_string()).replace("@PROGRAM@", &literal)
}

/// How far the file is ostler's.
pub(super) fn state(wiring: &Wiring<'_>, template: &str, text: &str) -> State {
    let Some(version) = version(text) else { return State::NotInstalled };
    if text == render(template, wiring.program) {
        return State::Installed;
    }
    let as_written = program(text).is_some_and(|program| text == render(template, &program));
    if version != VERSION || as_written { State::Outdated } else { State::ForeignEdited }
}

/// The file as it should be, unless what is there is not ostler's.
pub(super) fn with(wiring: &Wiring<'_>, template: &str, text: &str) -> Result<String, Wrong> {
    if !text.trim().is_empty() && version(text).is_none() {
        return Err(Wrong::shape("it was not written by ostler"));
    }
    Ok(render(template, wiring.program))
}

fn version(text: &str) -> Option<u32> {
    text.lines().next()?.strip_prefix(MARK)?.trim().parse().ok()
}

/// The program that the file starts.
fn program(text: &str) -> Option<String> {
    let literal = text.lines().find_map(|line| line.strip_prefix("const OSTLER = "))?;
    serde_json::from_str(literal.strip_suffix(';')?).ok()
}
