//! Matrix files: which agents a group has, in strict TOML.

use std::path::{Path, PathBuf};

use model::control::groups::{check_label, usual_slot_name};
use serde::Deserialize;
use toml::Spanned;

use crate::cli::launch::find_agent;
use crate::error::Error;

/// One agent of a group, as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupSlot {
    /// Its name in the group.
    pub(crate) slot: String,
    /// The adapter's id.
    pub(crate) agent: String,
    pub(crate) model: Option<String>,
    pub(crate) arguments: Vec<String>,
}

/// What a matrix file says.
#[derive(Debug)]
pub(crate) struct LaunchMatrix {
    pub(crate) base: Option<String>,
    /// Where the prompt is, relative to the file.
    pub(crate) prompt_file: Option<PathBuf>,
    pub(crate) slots: Vec<GroupSlot>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MatrixFile {
    base: Option<String>,
    prompt_file: Option<PathBuf>,
    #[serde(default)]
    slot: Vec<MatrixSlot>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MatrixSlot {
    agent: Spanned<String>,
    model: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    name: Option<Spanned<String>>,
}

/// Reads a matrix; every error names its line.
pub(crate) fn parse_matrix(path: &Path, text: &str) -> Result<LaunchMatrix, Error> {
    let hint =
        "`base`, `prompt_file` and `[[slot]]` with `agent`, `model`, `args` and `name` are known";
    let shown = path.display();
    let wrong = |reason: String| Error::usage_error(format!("the matrix {shown}: {reason}"), hint);
    let file: MatrixFile = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
    if file.slot.is_empty() {
        let last = text.lines().count().max(1);
        return Err(wrong(format!("line {last}: it ends without a `[[slot]]`")));
    }
    let mut slots: Vec<GroupSlot> = Vec::new();
    for one in file.slot {
        let at = one.name.as_ref().map_or(one.agent.span(), Spanned::span).start;
        let line = text[..at].matches('\n').count() + 1;
        let agent = find_agent(one.agent.get_ref())
            .map_err(|error| wrong(format!("line {line}: {error}")))?
            .to_owned();
        let usual = || usual_slot_name(&agent, one.model.as_deref());
        let slot = one.name.map_or_else(usual, Spanned::into_inner);
        check_label(&slot).map_err(|reason| wrong(format!("line {line}: `{slot}`: {reason}")))?;
        if slots.iter().any(|other| other.slot == slot) {
            return Err(wrong(format!("line {line}: two slots are called `{slot}`")));
        }
        slots.push(GroupSlot { slot, agent, model: one.model, arguments: one.args });
    }
    let directory = path.parent().unwrap_or(Path::new(""));
    let prompt_file = file.prompt_file.map(|prompt| directory.join(prompt));
    Ok(LaunchMatrix { base: file.base, prompt_file, slots })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<LaunchMatrix, String> {
        parse_matrix(Path::new("/m/race.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_matrix_names_agents_models_and_arguments() {
        let text = "base = 'main'\nprompt_file = 'p.md'\n[[slot]]\nagent = 'claude'\nmodel = 'opus'\n\
                    [[slot]]\nagent = 'codex'\nname = 'second'\nargs = ['--search']\n";
        let matrix = parse(text).unwrap();
        assert_eq!(matrix.base.as_deref(), Some("main"));
        assert_eq!(matrix.prompt_file.as_deref(), Some(Path::new("/m/p.md")));
        let slots: Vec<_> = matrix.slots.iter().map(|one| one.slot.as_str()).collect();
        assert_eq!(slots, ["claude-code-opus", "second"]);
        assert_eq!(matrix.slots[1].arguments, ["--search"]);
    }

    #[test]
    fn row_73_what_is_wrong_is_told_with_its_line() {
        let two = "[[slot]]\nagent = 'codex'\n\n[[slot]]\nagent = 'codex'\n";
        let rows = [
            ("base = 'x'\ntimeout = 3\n[[slot]]\nagent = 'codex'\n", "line 2"),
            ("[[slot]]\nagent = 'codex'\ncolour = 'red'\n", "line 3"),
            ("base = 'main'\n", "line 1"),
            ("", "line 1"),
            (two, "line 5: two slots are called `codex`"),
            ("[[slot]]\nagent = 'nobody'\n", "line 2: `nobody` is no agent"),
            ("[[slot]]\nagent = 'codex'\nname = '../x'\n", "line 3"),
            ("[[slot]]\nagent = 7\n", "line 2"),
        ];
        for (text, wanted) in rows {
            let said = parse(text).unwrap_err();
            assert!(said.contains(wanted), "{text:?}: {said}");
        }
    }
}
