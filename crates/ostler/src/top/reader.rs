//! Reading for the preview: one thread at most, and what was asked for last is read next.
//!
//! A conversation that is written to all the time asks for it with every change. Each reading in a thread of its
//! own would leave it to chance which of them is shown in the end.

use std::sync::{Arc, Mutex, PoisonError};

use super::work::{TopWorkers, WorkOutcome};

type PaneReading = Box<dyn FnOnce() -> WorkOutcome + Send>;

/// What is being read, and what is wanted after it.
#[derive(Clone, Default)]
pub(super) struct PaneReader(Arc<Mutex<ReadingTurn>>);

#[derive(Default)]
struct ReadingTurn {
    wanted: Option<PaneReading>,
    is_reading: bool,
}

impl PaneReader {
    /// Reads this, after what is being read, and instead of anything else that waits.
    pub(super) fn ask(
        &self,
        workers: &TopWorkers,
        reading: impl FnOnce() -> WorkOutcome + Send + 'static,
    ) {
        {
            let mut turn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            turn.wanted = Some(Box::new(reading));
            if std::mem::replace(&mut turn.is_reading, true) {
                return;
            }
        }
        let mut place = ReadingPlace { turn: Arc::clone(&self.0), is_left: false };
        workers.begin_telling(move |tell| {
            while let Some(reading) = place.next_wanted() {
                let outcome = reading();
                sys::pause::pause_at("top.read");
                if !tell(outcome) {
                    return;
                }
            }
        });
    }
}

/// The place of the one reader: free again when there is nothing to read, and also if it broke off.
struct ReadingPlace {
    turn: Arc<Mutex<ReadingTurn>>,
    is_left: bool,
}

impl ReadingPlace {
    fn next_wanted(&mut self) -> Option<PaneReading> {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = turn.wanted.take();
        // Under the same lock: whoever asks next finds a reader that still looks, or none.
        (turn.is_reading, self.is_left) = (wanted.is_some(), wanted.is_none());
        wanted
    }
}

impl Drop for ReadingPlace {
    fn drop(&mut self) {
        if !self.is_left {
            self.turn.lock().unwrap_or_else(PoisonError::into_inner).is_reading = false;
        }
    }
}
