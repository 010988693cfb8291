//! The argv of a known agent in a terminal: its program, what its control table says of a new conversation,
//! and the arguments that were given.
//!
//! Where the agent takes an id chosen by the caller, the conversation is known before it begins.

use std::ffi::OsStr;

use adapters::control::{IdRule, TemplateValues, fill_template};
use adapters::{AgentProfile, by_id};
use model::hosted::{FaultCode, HostFault};

/// How an agent is started, and which conversation that makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentCommand {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// The id of the new conversation, where it can be chosen.
    pub session: Option<String>,
}

/// The command that starts a known agent: the first of its programs that is found, with `arguments`.
pub fn agent_command(
    agent: &str,
    arguments: &[String],
    path: &OsStr,
) -> Result<AgentCommand, HostFault> {
    let adapter = by_id(agent).ok_or_else(|| {
        let known: Vec<&str> = crate::adapter_ids().collect();
        HostFault::invalid_input(format!("`{agent}` is no agent; there are: {}", known.join(", ")))
    })?;
    let profile = adapter.agent_profile();
    let names = profile.program.names;
    let is_there = |name: &&&str| std::env::split_paths(path).any(|one| one.join(name).is_file());
    let program = names.iter().find(is_there).ok_or_else(|| {
        HostFault::invalid_input(format!(
            "no program of `{agent}` ({}) is on the PATH; install it, or give its path after `--` \
             without --agent",
            names.join(", ")
        ))
    })?;
    let control = adapter.control_table();
    let template = control.and_then(|control| Some((control.interactive?, control.id_rule)));
    let (mut front, mut session) = (Vec::new(), None);
    match template {
        Some((words, IdRule::ChosenUuid)) if begins_conversation(profile, arguments) => {
            let id = sys::random::new_uuid()
                .map_err(|error| HostFault::new(FaultCode::InternalError, error.to_string()))?;
            let values = TemplateValues { id: Some(&id), ..TemplateValues::default() };
            front = fill_template(words, &values).unwrap_or_default();
            session = Some(id);
        }
        // A path is chosen by the caller; these agents say their ids themselves.
        Some((words, IdRule::Registered | IdRule::AtFirstPrompt))
            if !is_other_command(profile, arguments) =>
        {
            front = words.iter().map(|word| (*word).to_owned()).collect();
        }
        _ => {}
    }
    front.retain(|word| !arguments.contains(word));
    // `codex resume --no-daemon`: options of a command of the agent's follow it.
    let resumes = arguments.first().filter(|word| profile.resume_options.contains(&word.as_str()));
    let split = usize::from(resumes.is_some_and(|word| !word.starts_with('-')));
    let words = [&[(*program).to_owned()], &arguments[..split], &front, &arguments[split..]];
    Ok(AgentCommand { words: words.concat(), session })
}

/// Whether these arguments begin a conversation, as opposed to going on with one.
fn begins_conversation(profile: &AgentProfile, arguments: &[String]) -> bool {
    let options = profile.resume_options.iter().chain(profile.continue_options);
    let goes_on = |word: &String| {
        let name = word.split('=').next().unwrap_or(word);
        options.clone().any(|option| *option == name)
    };
    !arguments.iter().any(goes_on) && !is_other_command(profile, arguments)
}

/// Whether the first argument is a command of the agent's that has no conversation in a terminal.
fn is_other_command(profile: &AgentProfile, arguments: &[String]) -> bool {
    let known = profile.program.helpers.iter().chain(profile.program.servers);
    let mut words = known.filter_map(|line| line.split(' ').next());
    arguments.first().is_some_and(|first| first == "exec" || words.any(|word| word == first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(agent: &str, line: &str) -> AgentCommand {
        let home = tempfile::tempdir().unwrap();
        for name in ["claude", "codex", "pi", "kimi"] {
            std::fs::write(home.path().join(name), "").unwrap();
        }
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        agent_command(agent, &arguments, home.path().as_os_str()).unwrap()
    }

    #[test]
    fn k4_codex_is_started_without_its_shared_server() {
        let words = |line| command("codex", line).words.join(" ");
        assert_eq!(words(""), "codex --no-daemon");
        assert_eq!(words("--model x"), "codex --no-daemon --model x");
        assert_eq!(words("resume --last"), "codex resume --no-daemon --last");
        assert_eq!(words("resume --no-daemon 01a1"), "codex resume --no-daemon 01a1");
        // These have no conversation in a terminal, or none that a server could hold.
        assert_eq!(words("exec hello"), "codex exec hello");
        assert_eq!(words("login"), "codex login");
        assert_eq!(command("codex", "").session, None);
    }

    #[test]
    fn k7_an_id_is_chosen_only_for_a_new_conversation() {
        let new = command("claude-code", "--model x");
        let id = new.session.unwrap();
        assert_eq!(new.words, ["claude", "--session-id", &id, "--model", "x"]);
        assert_eq!((id.len(), &id[14..15]), (36, "4"));
        for line in ["--resume abc", "-r", "--resume=abc", "-c", "--session-id abc", "mcp list"] {
            let given = command("claude-code", line);
            assert_eq!(given.session, None, "{line}");
            assert_eq!(given.words.join(" "), format!("claude {line}"));
        }
        assert_eq!(command("kimi", "").words, ["kimi"]);
        assert_eq!(command("pi", "").words, ["pi"], "its path is not ours to choose");
    }
}
