//! Searching from the dashboard: as it is typed, newest first; a new key ends what is under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use flows::search::{
    EntryHit, EntryScope, QueryOptions, RunningSearch, SearchQuery, SessionScope, list_targets,
    start_search,
};
use model::conversation::ConversationRole;
use model::wire::{SearchMatch, SearchSession};
use sys::spread::OrderedStep;

use super::pane::{PaneText, PaneTone};
use super::row::harmless;
use super::work::{TopPlace, WorkOutcome};
use crate::render::{duration, text};
use crate::timeouts::{TYPING_REST, WANTED_CHECK_INTERVAL};

/// How many hits are shown at most, of each session and together.
const MAX_SESSION_HITS: usize = 5;
const MAX_FOUND_HITS: usize = 100;

/// Which search is wanted now.
#[derive(Debug, Default)]
pub(super) struct TopSearch {
    current: Arc<AtomicU64>,
    due: Option<(Instant, String)>,
}

/// One search, for as long as no other is wanted.
#[derive(Clone, Debug)]
pub(super) struct SearchTicket {
    number: u64,
    current: Arc<AtomicU64>,
}

impl SearchTicket {
    fn is_wanted(&self) -> bool {
        self.current.load(Ordering::Relaxed) == self.number
    }
}

impl TopSearch {
    /// Ends what is under way; searches for this when nobody has typed for a moment.
    pub(super) fn ask(&mut self, query: String) {
        self.current.fetch_add(1, Ordering::Relaxed);
        self.due =
            (!query.trim().is_empty()).then(|| (Instant::now() + TYPING_REST, query.to_owned()));
    }

    /// When the next search begins.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due.as_ref().map(|(at, _)| *at)
    }

    /// What is to be searched for now, once.
    pub(super) fn take_due(&mut self) -> Option<String> {
        let is_due = self.due.as_ref().is_some_and(|(at, _)| *at <= Instant::now());
        self.due.take_if(|_| is_due).map(|(_, query)| query)
    }

    pub(super) fn ticket(&self) -> SearchTicket {
        let number = self.current.load(Ordering::Relaxed);
        SearchTicket { number, current: Arc::clone(&self.current) }
    }

    pub(super) fn is_current(&self, number: u64) -> bool {
        self.current.load(Ordering::Relaxed) == number
    }
}

/// What was found so far.
#[derive(Debug, Default)]
struct FoundPage {
    lines: Vec<(PaneTone, String)>,
    hits: u64,
    sessions: u64,
}

impl TopPlace {
    /// What a search finds, once it is over.
    pub(super) fn search_whole(&self, query: &str) -> PaneText {
        let found = std::cell::RefCell::new(PaneText::default());
        let keep = |outcome| {
            if let WorkOutcome::Found { text, .. } = outcome {
                found.replace(text);
            }
            true
        };
        self.search(query, &TopSearch::default().ticket(), &keep);
        found.into_inner()
    }

    /// Searches everything that was said, and tells each session that holds it.
    pub(super) fn search(
        &self,
        query: &str,
        ticket: &SearchTicket,
        tell: &dyn Fn(WorkOutcome) -> bool,
    ) {
        let number = ticket.number;
        let say = |text: PaneText| tell(WorkOutcome::Found { number, text });
        let query = match SearchQuery::parse(query, QueryOptions::default()) {
            Ok(query) => query,
            Err(error) => {
                say(PaneText::of_sentence(&format!("This cannot be searched for: {error}.")));
                return;
            }
        };
        let observation = self.observe_all();
        let home = self.source.machine.home();
        let (targets, _) = list_targets(&observation, Some(home), &SessionScope::default());
        let scope = EntryScope { most: MAX_SESSION_HITS, ..EntryScope::default() };
        match start_search(targets, query, scope) {
            Ok(running) => gather_found(running, ticket, &say),
            Err(error) => {
                say(PaneText::of_sentence(&format!("It cannot be searched: {error}.")));
            }
        }
    }
}

fn gather_found(running: RunningSearch, ticket: &SearchTicket, say: &dyn Fn(PaneText) -> bool) {
    let RunningSearch { targets, mut work } = running;
    let mut page = FoundPage::default();
    for target in targets.iter() {
        let scan = loop {
            // Dropping the work ends it.
            if !ticket.is_wanted() {
                return;
            }
            match work.next_within(WANTED_CHECK_INTERVAL) {
                OrderedStep::Done(scan) => break scan,
                OrderedStep::Finished => return,
                OrderedStep::Pending => {}
            }
        };
        if scan.total == 0 && scan.matched.is_empty() {
            continue;
        }
        page.add_session(&target.session, scan.total);
        for matched in scan.matched {
            page.add_match(&target.session, &matched);
        }
        for hit in scan.hits {
            page.add_hit(&target.session, hit);
        }
        let is_full = page.hits as usize >= MAX_FOUND_HITS;
        if !say(page.so_far(None)) || is_full {
            break;
        }
    }
    say(page.so_far(Some(targets.len())));
}

impl FoundPage {
    fn add_session(&mut self, session: &SearchSession, total: u64) {
        self.sessions += 1;
        let title = session.title.as_deref().unwrap_or(&session.id);
        let project = session.cwd.as_deref().map_or("", model::filter::project_name);
        let age =
            session.last_activity_at.map(|at| duration::short_age(sys::clock::now().since(at)));
        let hits = if total > 0 { text::format_plural(total, "hit") } else { String::new() };
        let parts = [
            text::cut_right(&harmless(title), 60),
            harmless(&session.agent),
            harmless(project),
            age.unwrap_or_default(),
            hits,
        ];
        let known: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        self.lines.push((PaneTone::Heading, known.join(" · ")));
    }

    fn add_hit(&mut self, session: &SearchSession, hit: EntryHit) {
        self.hits += 1;
        let role = match hit.entry.role {
            ConversationRole::User => "you",
            ConversationRole::Assistant => "agent",
            ConversationRole::Tool => "tool",
            ConversationRole::Result => "result",
            ConversationRole::System => "system",
        };
        let found = hit.ranges.first().cloned().unwrap_or(0..0);
        self.lines
            .push((PaneTone::Plain, format!("  {role}: {}", shorten(&hit.entry.text, found))));
        if let (Some(entry), false) = (hit.number, session.only_in_vault) {
            let id = text::one_line(&session.id);
            self.lines.push((PaneTone::Muted, format!("    ostler logs {id} --from {entry}")));
        }
    }

    /// What fits of a session beside its conversation.
    fn add_match(&mut self, session: &SearchSession, matched: &SearchMatch) {
        self.hits += 1;
        let bytes = |place: u64| {
            let mut chars = matched.text.char_indices();
            let place = usize::try_from(place).unwrap_or(usize::MAX);
            chars.nth(place).map_or(matched.text.len(), |(at, _)| at)
        };
        let found = matched.ranges.first().map_or(0..0, |[from, to]| bytes(*from)..bytes(*to));
        let field = matched.field.as_str();
        self.lines.push((PaneTone::Plain, format!("  {field}: {}", shorten(&matched.text, found))));
        if !session.only_in_vault {
            let id = text::one_line(&session.id);
            self.lines.push((PaneTone::Muted, format!("    ostler show {id}")));
        }
    }

    fn so_far(&self, searched: Option<usize>) -> PaneText {
        let mut lines = self.lines.clone();
        let sessions = |count: u64| text::format_plural(count, "session");
        let hits = text::format_plural(self.hits, "hit");
        lines.push(match (searched, self.hits) {
            (None, _) => (PaneTone::Muted, "…".to_owned()),
            (Some(all), 0) => {
                (PaneTone::Muted, format!("Nothing found in {}.", sessions(all as u64)))
            }
            (Some(_), _) => (
                PaneTone::Muted,
                format!("{hits} shown, of {}; `ostler search` shows all.", sessions(self.sessions)),
            ),
        });
        PaneText { lines, scroll: 0 }
    }
}

/// One line of the text round a match, which is marked by brackets.
fn shorten(said: &str, found: std::ops::Range<usize>) -> String {
    const AROUND: usize = 80;
    let before = said.get(..found.start).unwrap_or("");
    let after = said.get(found.end..).unwrap_or("");
    let from = before.char_indices().rev().take(AROUND).last().map_or(0, |(place, _)| place);
    let to = after.char_indices().nth(AROUND).map_or(after.len(), |(place, _)| place);
    let matched = text::one_line(said.get(found).unwrap_or(""));
    let (left, right) = (text::one_line(&before[from..]), text::one_line(&after[..to]));
    format!("{}[{matched}]{}", left.trim_start(), right.trim_end())
}
