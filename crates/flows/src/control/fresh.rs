//! Fresh agents: one that was told nothing yet is idle, although no record of it says so.
//!
//! No turn begins without a prompt. An agent whose record holds none, whose command line named none, and into whose
//! terminal Enter was not pressed since its record would have shown it, has no turn under way and asks nothing. What a
//! dialog at the start asks is another matter: a text that is not seen in the composer gets no Enter.

use std::path::PathBuf;
use std::time::Duration;

use adapters::AgentControl;
use adapters::control::IdRule;
use model::control::obstacle::find_obstacle;
use model::session::SessionKind;
use sys::dropped::NoteDropped;

use crate::observe::{Observation, Observed};
use crate::terminal::submit::await_ready;
use crate::terminal::{HostedSession, TerminalHome};
use crate::timeouts::{FRESH_READY_TIMEOUT, SLOWEST_RECORD_SPAN};

/// Whether the agent in a terminal, whose record holds no prompt, is proven to have none.
pub(super) fn is_fresh(session: &HostedSession, control: &AgentControl) -> bool {
    let names_prompt = session.manifest.command.get(1..).is_none_or(names_prompt);
    // One that writes its record with the first answer may be at it for a long time.
    let records_prompts = control.id_rule != IdRule::ChosenPath;
    if names_prompt {
        return false;
    }
    await_ready(session, FRESH_READY_TIMEOUT).is_ok_and(|ready| {
        let nothing_sent = match ready.since_enter_ms {
            None => ready.counts_enters,
            Some(ago) => records_prompts && Duration::from_millis(ago) > SLOWEST_RECORD_SPAN,
        };
        ready.ready && nothing_sent && find_obstacle(&ready.screen, control.trust_words).is_none()
    })
}

/// Whether a command line may hold a prompt: a word that is no option nor the value of one, or an option for it.
fn names_prompt(arguments: &[String]) -> bool {
    let is_option = |word: &String| word.starts_with('-') && word.len() > 1;
    let takes_prompt = |word: &String| {
        let name = word.split('=').next().unwrap_or(word);
        name.contains("prompt") || ["-p", "-i", "-q", "--print", "--"].contains(&name)
    };
    // The only option without a value that ostler itself passes; after any other one a word is taken for its value.
    let is_switch = |word: &String| word == "--no-daemon";
    let mut after_option = false;
    for word in arguments {
        if is_option(word) {
            if takes_prompt(word) {
                return true;
            }
            after_option = !word.contains('=') && !is_switch(word);
        } else if after_option {
            after_option = false;
        } else {
            return true;
        }
    }
    false
}

/// What a terminal's program was told to begin: its conversation's id, or the path of its transcript.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ToldConversation {
    pub(super) id: Option<String>,
    pub(super) path: Option<PathBuf>,
}

/// What the program of a terminal was told to begin anew; `None` if it was told to go on with something.
fn told_to_begin(
    command: &[String],
    control: &AgentControl,
    go_on_options: &[&str],
) -> Option<ToldConversation> {
    let template = control.interactive?;
    let words = command.get(1..)?;
    if words.len() < template.len() {
        return None;
    }
    let mut told = ToldConversation::default();
    for (word, pattern) in words.iter().zip(template) {
        match *pattern {
            "{id}" => told.id = Some(word.clone()),
            "{path}" => told.path = Some(PathBuf::from(word)),
            pattern if pattern == word => {}
            _ => return None,
        }
    }
    let goes_on = |word: &String| {
        let name = word.split('=').next().unwrap_or(word);
        go_on_options.contains(&name)
    };
    (!words[template.len()..].iter().any(goes_on)).then_some(told)
}

/// What a terminal's program was told to begin, if `one` cannot be that: it was last written before the terminal was
/// there. An agent that registers nothing is taken for the holder of what was written just before it began.
pub(super) fn begins_another(
    terminals: &TerminalHome,
    terminal: &Observed,
    one: &Observed,
) -> Option<ToldConversation> {
    let hosted =
        terminals.open_session(&terminal.session.id).ok_or_note("the terminal of a new agent")?;
    let adapter = adapters::by_id(one.session.agent)?;
    let profile = adapter.agent_profile();
    let go_on = [profile.resume_options, profile.continue_options].concat();
    let told = told_to_begin(&hosted.manifest.command, adapter.control_table()?, &go_on)?;
    let is_it = told.id.as_ref() == Some(&one.session.id)
        || one.source.as_ref().is_some_and(|source| told.path.as_ref() == Some(&source.path));
    let written = one.session.last_activity_at();
    let is_older = written.is_some_and(|written| written < hosted.manifest.created_at);
    (!is_it && is_older).then_some(told)
}

/// The conversation that the agent of a terminal has by now which was started for this one: it went on to another, as by
/// `/clear`, and leaves no word of that in its files.
pub(super) fn moved_on_to(
    observation: &Observation,
    terminals: &TerminalHome,
    one: &Observed,
) -> Option<String> {
    let own = &one.session.id;
    let mut linked = observation.sessions.iter().filter_map(|terminal| {
        let is_hosted = terminal.session.kind == SessionKind::Hosted;
        let is_alive = is_hosted && terminal.verdict.liveness.is_alive();
        let mut others = terminal.session.linked.iter().filter(|_| is_alive);
        let other = others.find(|link| link.agent == one.session.agent && link.id != *own)?;
        Some((terminal, other.id.clone()))
    });
    let was_for_it = |terminal: &Observed| {
        let hosted = terminals.open_session(&terminal.session.id);
        let names = |word: &String| word.rsplit('=').next() == Some(own.as_str());
        hosted.is_ok_and(|hosted| hosted.manifest.command.iter().any(names))
    };
    linked.find(|(terminal, _)| was_for_it(terminal)).map(|(_, now)| now)
}

/// The agent in a terminal that has no conversation yet: its adapter's id, and where it works.
pub(super) fn find_unattached<'a>(
    observation: &'a Observation,
    terminals: &TerminalHome,
    terminal: &Observed,
) -> Option<(&'static str, Option<&'a str>)> {
    let hosted =
        terminals.open_session(&terminal.session.id).ok_or_note("the terminal of a new agent")?;
    let program = hosted.holder.as_ref()?.child.as_ref()?;
    let table = sys::proc::read_process_table();
    let mut within =
        observation.unattached.iter().filter(|one| table.descends_from(one.pid, program));
    let first = within.next()?;
    within.next().is_none().then_some((first.agent, first.cwd.as_deref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_38_what_a_program_was_told_to_begin_is_in_its_command_line() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        let chosen =
            AgentControl { interactive: Some(&["--id", "{id}"]), ..AgentControl::TERMINAL_ONLY };
        let told = |text: &str, control| told_to_begin(&words(text), control, &["--resume", "-c"]);
        let id = Some(ToldConversation { id: Some("7".to_owned()), path: None });
        assert_eq!(told("agent --id 7 --model m", &chosen), id);
        assert_eq!(told("agent --resume 7", &chosen), None);
        assert_eq!(told("agent --id 7 --resume=8", &chosen), None);
        let plain = &AgentControl::TERMINAL_ONLY;
        assert_eq!(told("agent --model m", plain), Some(ToldConversation::default()));
        assert_eq!(told("agent -c", plain), None);
    }

    #[test]
    fn row_13_a_command_line_with_a_prompt_is_no_fresh_start() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        for fresh in ["--session-id 1-2", "--no-daemon", "--provider lab --model m --session /p"] {
            assert!(!names_prompt(&words(fresh)), "{fresh}");
        }
        for told in ["--no-daemon do-it", "do-it", "-i do-it", "--prompt=x", "-m a do-it", "-- x"] {
            assert!(names_prompt(&words(told)), "{told}");
        }
    }
}
