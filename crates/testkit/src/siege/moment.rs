//! When a run is killed: anywhere in it, or, more often, after it has begun to write to its journal.
//! A kill before that proves little, and most of the time of a run is spent on looking.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use super::{LONGEST_RUN, Numbers};

/// Of so many runs one is killed anywhere, the others once they are at work.
const ANYWHERE_ONE_IN: usize = 3;

/// What became of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Finished,
    /// It was killed, after it had written to its journal or before.
    Killed {
        at_work: bool,
    },
}

/// How long each command takes, as far as it is known. Homes grow, so what was measured at first is soon too short:
/// each kill makes it a little longer, each run that comes to its end says it anew.
#[derive(Debug, Default)]
pub(super) struct Moments {
    whole: BTreeMap<&'static str, Duration>,
    at_work: BTreeMap<&'static str, Duration>,
}

impl Moments {
    /// Kills a run at a moment that follows from `numbers`.
    pub(super) fn kill(
        &mut self,
        line: &'static str,
        child: &mut Child,
        trash: &Path,
        before: u64,
        numbers: &mut Numbers,
    ) -> std::io::Result<Outcome> {
        let anywhere = numbers.below(ANYWHERE_ONE_IN) == 0;
        let part = numbers.below(1000) as f64 / 1000.0;
        let spans = if anywhere { &mut self.whole } else { &mut self.at_work };
        let wait = spans.get(line).map_or(LONGEST_RUN, |longest| longest.mul_f64(part));
        let begun = Instant::now();
        let mut since = anywhere.then_some(begun);
        while since.is_none_or(|since| since.elapsed() < wait) && begun.elapsed() < LONGEST_RUN {
            if child.try_wait()?.is_some() {
                if let Some(since) = since {
                    spans.insert(line, since.elapsed().mul_f64(1.25));
                }
                return Ok(Outcome::Finished);
            }
            if since.is_none() && journal_bytes(trash) != before {
                since = Some(Instant::now());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        child.kill()?;
        child.wait()?;
        spans.entry(line).and_modify(|longest| *longest = longest.mul_f64(1.1));
        Ok(Outcome::Killed { at_work: journal_bytes(trash) != before })
    }
}

/// How much stands in all journals. Nothing but work makes it more.
pub(super) fn journal_bytes(trash: &Path) -> u64 {
    let receipts = fs::read_dir(trash).into_iter().flatten().flatten();
    receipts
        .filter_map(|receipt| fs::metadata(receipt.path().join("journal.jsonl")).ok())
        .map(|journal| journal.len() + 1)
        .sum()
}
