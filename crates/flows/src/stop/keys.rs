//! The keys of an agent: how it is asked to end its turn, and to quit, in its own terminal.

use std::time::Instant;

use adapters::AgentControl;
use model::hosted::HostFault;
use model::status::Activity;
use sys::dropped::NoteDropped;

use super::{INTERRUPT_TIMEOUT, SessionGlance};
use crate::terminal::submit::{ask_readiness, await_ready};
use crate::terminal::{HostedSession, TerminalHome, ask};
use crate::timeouts::{COMPOSER_CHECK_TIMEOUT, TURN_POLL_INTERVAL};

/// Presses keys in a terminal.
pub(super) fn press_keys(
    terminals: &TerminalHome,
    hosted: &HostedSession,
    keys: &[&str],
) -> Result<(), HostFault> {
    let keys = keys.iter().map(|key| (*key).to_owned()).collect();
    ask::send_keys(terminals, hosted, keys).map(|_| ())
}

/// Empties the composer of an agent that puts an interrupted prompt back there. What a person typed is left alone: the
/// host knows of that, and not of what the agent itself put there.
pub(super) fn clear_restored(
    terminals: &TerminalHome,
    hosted: &HostedSession,
    control: &AgentControl,
) {
    if control.clear_keys.is_empty() {
        return;
    }
    let ready = await_ready(hosted, COMPOSER_CHECK_TIMEOUT);
    if ready.is_ok_and(|ready| ready.ready && ready.counts_enters && !ready.unsent) {
        press_keys(terminals, hosted, control.clear_keys).note_dropped("emptying a composer");
    }
}

/// Whether the agent's quit keys would do nothing but quit, by a look of this moment: it is idle, nothing that was typed
/// stands in its composer, and its screen shows no question.
pub(super) fn may_be_quit(
    hosted: &HostedSession,
    control: &AgentControl,
    look_again: &dyn Fn() -> Option<SessionGlance>,
) -> bool {
    if !look_again().is_some_and(|seen| seen.activity == Activity::Idle) {
        return false;
    }
    let Some(ready) = ask_readiness(hosted).ok_or_note("the composer of an agent to be stopped")
    else {
        return false;
    };
    let plain = |text: &str| text.split_whitespace().collect::<String>();
    let screen = plain(&ready.screen);
    let asks = control.words_of_questions().iter().any(|words| screen.contains(&plain(words)));
    !ready.ended && ready.counts_enters && !ready.unsent && !asks
}

/// Whether the agent does what is wanted in time; one that cannot be seen any more counts as well.
pub(super) fn await_activity(
    look_again: &dyn Fn() -> Option<SessionGlance>,
    is_wanted: impl Fn(Activity) -> bool,
) -> bool {
    let until = Instant::now() + INTERRUPT_TIMEOUT;
    loop {
        if look_again().is_none_or(|seen| is_wanted(seen.activity)) {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(TURN_POLL_INTERVAL);
    }
}
