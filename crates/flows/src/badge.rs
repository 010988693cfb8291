//! The counts of `ostler badge`, and the daemon's thread that keeps them up to date.
//!
//! Counting costs nothing without a reader: the thread is started by the first question and ends when there
//! was none for a while.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use model::rules::attention::{AttentionFacts, AttentionGroup};
use model::session::SessionKind;
use model::time::Time;
use model::wire::BadgeResult;

use crate::live::{LiveSessions, LiveSource};
use crate::observe::Observation;
use crate::timeouts::BADGE_UNASKED_TIMEOUT;

/// Counts agents' sessions by the attention they need. A terminal without an agent is none.
pub fn count_badge(observation: &Observation, now: Time) -> BadgeResult {
    let mut counts =
        BadgeResult { incomplete: observation.incomplete.len(), ..BadgeResult::default() };
    let agents = observation.sessions.iter().filter(|one| one.session.kind == SessionKind::Native);
    for one in agents {
        let facts = AttentionFacts::of_session(&one.session, &one.verdict);
        match facts.attention_group(None, now) {
            AttentionGroup::NeedsYou => counts.needs_you += 1,
            AttentionGroup::Working => counts.working += 1,
            AttentionGroup::Done | AttentionGroup::Idle => counts.idle += 1,
            AttentionGroup::Unknown => counts.unknown += 1,
            AttentionGroup::Ended => {}
        }
    }
    counts
}

/// The counts as they are now, kept by a thread while there are requests.
#[derive(Debug)]
pub struct BadgeKeeper {
    source: LiveSource,
    shared: Arc<Mutex<SharedCounts>>,
}

#[derive(Debug)]
struct SharedCounts {
    counts: Option<BadgeResult>,
    is_watched: bool,
    asked_at: Instant,
}

impl BadgeKeeper {
    /// Nothing is looked at before the first request.
    pub fn new(source: LiveSource) -> Self {
        let shared = SharedCounts { counts: None, is_watched: false, asked_at: Instant::now() };
        Self { source, shared: Arc::new(Mutex::new(shared)) }
    }

    /// The counts; none while the first look is under way, or if it is not possible to look.
    pub fn current_counts(&self) -> Option<BadgeResult> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.asked_at = Instant::now();
        if !shared.is_watched {
            let (source, theirs) = (self.source.clone(), Arc::clone(&self.shared));
            let thread = std::thread::Builder::new().name("badge".to_owned());
            // Without a thread each request computes its own answer.
            shared.is_watched = thread.spawn(move || keep_counts(source, &theirs)).is_ok();
        }
        shared.counts
    }
}

/// Says that nobody watches any more, however the thread ends: otherwise the last counts would be given for ever.
struct WatchEnd<'a>(&'a Mutex<SharedCounts>);

impl Drop for WatchEnd<'_> {
    fn drop(&mut self) {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (shared.counts, shared.is_watched) = (None, false);
    }
}

fn keep_counts(source: LiveSource, shared: &Mutex<SharedCounts>) {
    let _end = WatchEnd(shared);
    let mut live = LiveSessions::new(source);
    loop {
        let change = live.next_change(Some(BADGE_UNASKED_TIMEOUT), None);
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = match change {
            Ok(Some(update)) => {
                shared.counts = Some(count_badge(&update.observation, update.at));
                shared.asked_at.elapsed() >= BADGE_UNASKED_TIMEOUT
            }
            Ok(None) => shared.asked_at.elapsed() >= BADGE_UNASKED_TIMEOUT,
            // Each request computes its own answer, and the next question begins anew.
            Err(_) => true,
        };
        if is_over {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d6_counts_are_not_given_after_their_thread_broke() {
        for breaks_at_its_own in [true, false] {
            let counts = Some(BadgeResult::default());
            let shared = SharedCounts { counts, is_watched: true, asked_at: Instant::now() };
            let shared = Arc::new(Mutex::new(shared));
            let theirs = Arc::clone(&shared);
            let thread = std::thread::spawn(move || {
                let _end = WatchEnd(&theirs);
                // It breaks while it looks, or while it counts.
                let _held = (!breaks_at_its_own).then(|| theirs.lock().unwrap());
                panic!("as a fault in a reader would");
            });
            assert!(thread.join().is_err());
            let shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            assert!(shared.counts.is_none() && !shared.is_watched);
        }
    }
}
