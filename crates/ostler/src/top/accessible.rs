//! Accessible mode: no full screen. A numbered list, then one line for each change; commands are words.
//!
//! Nothing is ever redrawn, so a screen reader reads every line once, and a terminal that can do nothing
//! shows it all.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

use flows::live::LiveFeed;
use model::filter::FilterWords;
use model::rules::attention::AttentionGroup;
use model::session::SessionName;
use sys::clock;

use super::pane::{PaneText, evidence_of, facts_of, read_talk};
use super::replies::ReplyKeys;
use super::row::{LookedTimes, TopRow, build_rows, harmless};
use super::run::KEYS_CHUNK_BYTES;
use super::state::{TopConsent, TopMode, describe_state};
use super::work::{KeptPlan, TopPlace, WorkOutcome};
use crate::error::Error;

/// What can be said.
const WORDS: &str = "next · list · why N · show N · talk N · attach N · reply N TEXT · stop N · \
                     pin N · search TEXT · clean · undo · finalize · help · quit";

/// The longest line that is taken.
const MAX_LINE_BYTES: usize = 64 << 10;

struct AccessibleRun<'a> {
    place: TopPlace,
    attach: &'a dyn Fn(&str) -> Result<(), Error>,
    feed: LiveFeed,
    observation: Option<std::sync::Arc<flows::observe::Observation>>,
    rows: Vec<TopRow>,
    /// Numbers are given once: a session keeps its own.
    numbers: Vec<SessionName>,
    looked: LookedTimes,
    at: Option<SessionName>,
    replies: ReplyKeys,
    kept: Option<(TopConsent, KeptPlan)>,
    /// The receipt of the last clean-up from here, until it is undone.
    cleaned: Option<String>,
    /// What was said last of what is not told.
    untold: Option<String>,
}

/// Talks in lines until it is ended.
pub(crate) fn run_accessible(
    place: TopPlace,
    attach: &dyn Fn(&str) -> Result<(), Error>,
) -> Result<ExitCode, Error> {
    let feed = LiveFeed::start(place.source.clone())?;
    let mut run = AccessibleRun {
        place,
        attach,
        feed,
        observation: None,
        rows: Vec::new(),
        numbers: Vec::new(),
        looked: LookedTimes::since(Some(clock::now())),
        at: None,
        replies: ReplyKeys::begin(clock::now()),
        kept: None,
        cleaned: None,
        untold: None,
    };
    let (mut typed, mut buffer) = (Vec::new(), [0; KEYS_CHUNK_BYTES]);
    loop {
        let ready = {
            let stdin = sys::input::unbuffered_stdin();
            sys::watch::poll_readable(&[stdin.as_fd(), run.feed.descriptor()], None)?
        };
        if ready[1]
            && let Some(update) = run.feed.take_update()?
        {
            run.observation = Some(update.observation);
            if let Some(reason) = update.asks_because {
                say(&format!("Asks every second: {reason}"))?;
            }
            if let Some(reason) = update.untold.filter(|reason| run.untold.as_ref() != Some(reason))
            {
                say(&format!("Looks every minute: {reason}"))?;
                run.untold = Some(reason);
            }
            run.tell_changes(update.is_first)?;
        }
        if ready[0] {
            let count = std::io::stdin().lock().read(&mut buffer)?;
            if count == 0 {
                return Ok(ExitCode::SUCCESS);
            }
            typed.extend_from_slice(&buffer[..count]);
            typed.truncate(MAX_LINE_BYTES);
            while let Some(end) = typed.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = typed.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line).trim().to_owned();
                if !run.obey(&line)? {
                    return Ok(ExitCode::SUCCESS);
                }
            }
        }
    }
}

/// One line; foreign text in it is harmless already.
fn say(line: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}

impl AccessibleRun<'_> {
    fn number_of(&mut self, name: &SessionName) -> usize {
        match self.numbers.iter().position(|known| known == name) {
            Some(place) => place + 1,
            None => {
                self.numbers.push(name.clone());
                self.numbers.len()
            }
        }
    }

    fn tell_changes(&mut self, is_first: bool) -> Result<(), Error> {
        let Some(observation) = &self.observation else { return Ok(()) };
        let words = FilterWords::default();
        let mut rows = build_rows(observation, &self.looked, &words, clock::now());
        rows.sort_by(|one, other| one.place.cmp(&other.place));
        let before = std::mem::replace(&mut self.rows, rows.clone());
        if is_first {
            return self.list_rows();
        }
        for row in &rows {
            let was = before.iter().find(|was| was.name == row.name);
            let is_other = was.is_none_or(|was| describe_state(was) != describe_state(row));
            if is_other && (was.is_some() || row.group() != AttentionGroup::Ended) {
                let number = self.number_of(&row.name);
                say(&format!("{number} {} {}", row.label, describe_state(row)))?;
            }
        }
        for was in before {
            if !rows.iter().any(|row| row.name == was.name) && was.group() != AttentionGroup::Ended
            {
                let number = self.number_of(&was.name);
                say(&format!("{number} {} is gone", was.label))?;
            }
        }
        Ok(())
    }

    fn list_rows(&mut self) -> Result<(), Error> {
        let rows: Vec<TopRow> =
            self.rows.iter().filter(|row| row.group() != AttentionGroup::Ended).cloned().collect();
        if rows.is_empty() {
            say("All quiet. Nothing is running.")?;
        }
        for row in rows {
            let number = self.number_of(&row.name);
            let state = describe_state(&row);
            say(&format!("{number} {} ({}) {state}", row.label, row.agent))?;
        }
        say(WORDS)
    }

    /// Does what a line says; `false` ends it.
    fn obey(&mut self, line: &str) -> Result<bool, Error> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "" => {}
            "quit" | "q" | "exit" => return Ok(false),
            "help" | "?" => say(WORDS)?,
            "list" | "ls" => self.list_rows()?,
            "next" | "n" => self.tell_next()?,
            "yes" | "y" => self.carry_out()?,
            "search" if rest.trim().is_empty() => say("search needs words.")?,
            "search" => say_pane(&self.place.search_whole(rest))?,
            "clean" => {
                let planned = self.place.plan_clean_up();
                self.ask(planned)?;
            }
            "finalize" => {
                let planned = self.place.plan_finalize();
                self.ask(planned)?;
            }
            "undo" => match self.cleaned.clone() {
                Some(receipt) => {
                    let outcome = self.place.undo(receipt);
                    self.say_cleaned(outcome)?;
                }
                None => say("Nothing was cleaned up from here.")?,
            },
            _ => self.obey_about(word, rest)?,
        }
        if !matches!(word, "stop" | "clean" | "finalize" | "yes" | "y") {
            self.kept = None;
        }
        Ok(true)
    }

    fn tell_next(&mut self) -> Result<(), Error> {
        let needing = self.rows.iter().filter(|row| row.group() == AttentionGroup::NeedsYou);
        let needing: Vec<TopRow> = needing.cloned().collect();
        if needing.is_empty() {
            return say("Nobody needs you.");
        }
        let here = self.at.as_ref().and_then(|at| needing.iter().position(|row| row.name == *at));
        let row = needing[here.map_or(0, |here| (here + 1) % needing.len())].clone();
        self.at = Some(row.name.clone());
        let number = self.number_of(&row.name);
        say(&format!("{number} {} {}", row.label, describe_state(&row)))
    }

    /// A command about one session: its number, and what else is said.
    fn obey_about(&mut self, word: &str, rest: &str) -> Result<(), Error> {
        const ABOUT: [&str; 7] = ["why", "show", "talk", "attach", "reply", "stop", "pin"];
        if !ABOUT.contains(&word) {
            return say(&format!("{} is no command. {WORDS}", harmless(word)));
        }
        let (number, text) = rest.split_once(' ').unwrap_or((rest, ""));
        let number = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let name = number.and_then(|place| self.numbers.get(place)).cloned();
        let row = self.rows.iter().find(|row| Some(&row.name) == name.as_ref()).cloned();
        let (Some(row), Some(observation)) = (row, self.observation.clone()) else {
            return say(&format!("{word} needs the number of a session; list shows them."));
        };
        self.looked.note_look(&row.name, clock::now());
        match word {
            "why" => say_pane(&evidence_of(&observation, &row.name)),
            "show" => say_pane(&facts_of(&observation, &row.name, clock::now())),
            "talk" => say_pane(&read_talk(&observation, &row.name)),
            "attach" => match &row.terminal {
                Some(terminal) => match (self.attach)(terminal) {
                    Ok(()) => Ok(()),
                    Err(error) => say(&harmless(&error.to_string())),
                },
                None => say(&format!("{} is in no terminal of ostler's.", row.label)),
            },
            "reply" if text.is_empty() => say("reply needs a text."),
            "reply" => {
                let Some(key) = self.replies.key_for(&row.name, text) else { return Ok(()) };
                let outcome = self.place.deliver(row.name, text.to_owned(), key);
                if let WorkOutcome::Delivered { target, text, outcome, .. } = &outcome {
                    self.replies.settle(target, text, *outcome);
                }
                say_outcome(outcome)
            }
            "pin" => say_outcome(self.place.pin(row.name, row.pinned)),
            _ => {
                let planned = self.place.plan_stop(&row.name);
                self.ask(planned)
            }
        }
    }

    /// Says what would be done, and waits for a yes; a plan that was asked for before is forgotten.
    fn ask(&mut self, planned: WorkOutcome) -> Result<(), Error> {
        self.kept = None;
        match planned {
            WorkOutcome::Plan { text, mode: TopMode::Confirm(consent), plan } => {
                self.kept = Some((consent, plan));
                say_pane(&text)?;
                say("Say yes to do it; anything else does nothing.")
            }
            other => say_outcome(other),
        }
    }

    fn carry_out(&mut self) -> Result<(), Error> {
        match self.kept.take() {
            Some((TopConsent::Stop(name), KeptPlan::Stop(plan))) => {
                say_outcome(self.place.carry_out_stop(*plan, &name))
            }
            Some((_, KeptPlan::CleanUp { ask, consent })) => {
                let outcome = self.place.carry_out_clean_up(*ask, consent);
                self.say_cleaned(outcome)
            }
            Some((_, KeptPlan::Finalize { sessions })) => {
                say_outcome(self.place.carry_out_finalize(&sessions))
            }
            _ => say("There is nothing to say yes to."),
        }
    }

    fn say_cleaned(&mut self, outcome: WorkOutcome) -> Result<(), Error> {
        if let WorkOutcome::CleanedUp { receipt, .. } = &outcome {
            self.cleaned.clone_from(receipt);
        }
        say_outcome(outcome)
    }
}

fn say_pane(pane: &PaneText) -> Result<(), Error> {
    pane.lines.iter().try_for_each(|(_, line)| say(line))
}

fn say_outcome(outcome: WorkOutcome) -> Result<(), Error> {
    match outcome {
        WorkOutcome::Said(sentence) | WorkOutcome::CleanedUp { sentence, .. } => {
            say(&harmless(&sentence))
        }
        WorkOutcome::Delivered { receipt, .. } => say(&harmless(&receipt)),
        WorkOutcome::Quiet(lines) => lines.iter().try_for_each(|line| say(line)),
        WorkOutcome::Plan { text, .. }
        | WorkOutcome::Text { text, .. }
        | WorkOutcome::Found { text, .. } => say_pane(&text),
    }
}
