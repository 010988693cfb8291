//! The panes beside the list: what each is called, and the text that most of them show.

use std::fmt::Write;

use flows::converse::{TalkWindow, read_talk_end};
use flows::observe::{Observation, Observed};
use model::conversation::{ConversationEntry, ConversationRole};
use model::rules::explain::explain_verdict;
use model::session::{SessionKind, SessionName};
use model::time::Time;
use model::wire::Collectability;

use super::row::harmless;
use crate::render::colour::Painter;
use crate::render::sessions::{self, SessionNotes};
use crate::render::{duration, text};

/// What the preview shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PaneKind {
    Screen,
    Talk,
    Facts,
    Usage,
    Why,
    Events,
    /// What a search found.
    Found,
}

impl PaneKind {
    /// The one after it, as `v` goes round.
    pub(crate) const fn next(self) -> Self {
        match self {
            Self::Screen => Self::Talk,
            Self::Talk => Self::Facts,
            Self::Facts => Self::Usage,
            Self::Usage | Self::Why | Self::Events | Self::Found => Self::Screen,
        }
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Screen => "screen",
            Self::Talk => "talk",
            Self::Facts => "facts",
            Self::Usage => "usage",
            Self::Why => "why",
            Self::Events => "events",
            Self::Found => "search",
        }
    }
}

/// How a line of a pane is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PaneTone {
    #[default]
    Plain,
    Heading,
    Muted,
}

/// A pane that is text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PaneText {
    pub(crate) lines: Vec<(PaneTone, String)>,
    pub(crate) scroll: usize,
}

impl PaneText {
    pub(crate) fn of_sentence(sentence: &str) -> Self {
        Self { lines: vec![(PaneTone::Muted, harmless(sentence))], scroll: 0 }
    }

    /// Text that was written for a terminal, without its colours.
    pub(crate) fn of_page(page: &str) -> Self {
        let lines = page.lines().map(|line| {
            let tone = if line.starts_with("  ") { PaneTone::Muted } else { PaneTone::Plain };
            (tone, text::one_line(line))
        });
        Self { lines: lines.collect(), scroll: 0 }
    }

    /// Lines of a name and a value each, as people read them: none is less than another.
    pub(crate) fn of_facts(page: &str) -> Self {
        let lines = page.lines().map(|line| (PaneTone::Plain, text::one_line(line)));
        Self { lines: lines.collect(), scroll: 0 }
    }

    /// The lines broken so that they fit.
    pub(crate) fn wrap_lines(&self, columns: u16) -> Vec<(PaneTone, String)> {
        let columns = usize::from(columns.max(1));
        let mut wrapped = Vec::new();
        for (tone, line) in &self.lines {
            let indent: String = line.chars().take_while(|c| *c == ' ').take(12).collect();
            let whole = text::wrap_words(line, Some(columns), &indent);
            for part in whole.lines() {
                wrapped.extend(break_line(part, columns).into_iter().map(|part| (*tone, part)));
            }
            if line.is_empty() {
                wrapped.push((*tone, String::new()));
            }
        }
        wrapped
    }
}

/// A line that is one long word (a path) is broken where it has to be.
fn break_line(line: &str, columns: usize) -> Vec<String> {
    use unicode_segmentation::UnicodeSegmentation;

    let mut parts = vec![String::new()];
    let mut used = 0;
    for grapheme in line.graphemes(true) {
        let width = text::display_width(grapheme);
        if used + width > columns && used > 0 {
            parts.push(String::new());
            used = 0;
        }
        if let Some(last) = parts.last_mut() {
            last.push_str(grapheme);
        }
        used += width;
    }
    parts
}

pub(super) fn find_session<'a>(
    observation: &'a Observation,
    name: &SessionName,
) -> Option<&'a Observed> {
    let is_it = |one: &&Observed| one.session.agent == name.agent && one.session.id == name.id;
    observation.sessions.iter().find(is_it)
}

const NO_COLOURS: Painter = Painter::without_colour();

/// Everything that is known of a session.
pub(crate) fn facts_of(observation: &Observation, name: &SessionName, now: Time) -> PaneText {
    let Some(one) = find_session(observation, name) else {
        return PaneText::of_sentence("It is no longer there.");
    };
    let notes = SessionNotes { pin: observation.pins.get(name), ..SessionNotes::default() };
    PaneText::of_facts(&sessions::render_session_details(one, notes, now, NO_COLOURS))
}

/// Every fact that a verdict stands on, and whether the session may be collected.
pub(crate) fn evidence_of(observation: &Observation, name: &SessionName) -> PaneText {
    let Some(one) = find_session(observation, name) else {
        return PaneText::of_sentence("It is no longer there.");
    };
    let circumstances = &observation.circumstances;
    let evidence = explain_verdict(&one.session, &one.verdict, circumstances);
    let collect = match observation.pins.allow(std::slice::from_ref(name)) {
        Ok(()) => Collectability::from_guard(&one.session, &one.verdict, circumstances.now),
        Err(refusal) => Collectability::from(&refusal),
    };
    let liveness = one.verdict.liveness;
    let mut page = format!(
        "{} is {}: {} ({})\n",
        text::one_line(&one.session.id),
        one.verdict.status.as_str(),
        liveness.as_str(),
        liveness.reason_code()
    );
    page.push_str(&sessions::render_evidence(&evidence, NO_COLOURS));
    let may = if collect.allowed { "may be collected" } else { "may not be collected" };
    // Writing to a text cannot fail.
    let _ = write!(page, "It {may}: {}", collect.reason);
    if let Some(remedy) = &collect.remedy {
        let _ = write!(page, "; {remedy}");
    }
    PaneText::of_page(&page)
}

/// Why a session's state is what it is, in one line: the fact that decides it, since when, and how sure
/// that is.
pub(crate) fn why_of(observation: &Observation, name: &SessionName) -> Option<String> {
    let one = find_session(observation, name)?;
    let evidence = explain_verdict(&one.session, &one.verdict, &observation.circumstances);
    let first = |effects: &[&str]| {
        let does = |effect: &str| effects.iter().any(|wanted| effect.starts_with(wanted));
        evidence.iter().find(|fact| does(&fact.effect))
    };
    let fact =
        first(&["decides the activity", "fits the activity"]).or_else(|| first(&["decides"]))?;
    let sure = match one.verdict.liveness {
        liveness if !liveness.is_alive() && !liveness.is_dead() => "not proven",
        _ if sessions::is_derived(one) => "derived",
        _ => "proven",
    };
    let mut why = format!("{sure}: {}", harmless(&fact.fact));
    // What is read anew with every look has no time of its own.
    if fact.age_ms >= 1000 {
        let at = duration::local_time(fact.observed_at);
        let _ = write!(why, ", {}", at.split(' ').next_back().unwrap_or(""));
    }
    Some(why)
}

/// How many entries of a conversation are shown, and how much of each.
const MAX_TALK_ENTRIES: usize = 60;
const MAX_ENTRY_CHARS: usize = 2000;

/// What was said, newest first.
pub(crate) fn talk_of(entries: &[ConversationEntry]) -> PaneText {
    let talk = entries.iter().rev().filter(|entry| entry.role != ConversationRole::System);
    let mut lines = Vec::new();
    for entry in talk.take(MAX_TALK_ENTRIES) {
        let role = match entry.role {
            ConversationRole::User => "you",
            ConversationRole::Assistant => "agent",
            ConversationRole::Tool => "tool",
            ConversationRole::Result => "result",
            ConversationRole::System => "system",
        };
        let mut head = role.to_owned();
        if let Some(tool) = &entry.tool {
            let _ = write!(head, " {}", harmless(tool));
        }
        if let Some(at) = entry.at {
            let _ = write!(head, " {}", duration::local_time(at));
        }
        lines.push((PaneTone::Heading, head));
        let cut = entry.text.char_indices().nth(MAX_ENTRY_CHARS);
        let said = &entry.text[..cut.map_or(entry.text.len(), |(end, _)| end)];
        let is_talk = matches!(entry.role, ConversationRole::User | ConversationRole::Assistant);
        let tone = if is_talk { PaneTone::Plain } else { PaneTone::Muted };
        let most = if is_talk { usize::MAX } else { 4 };
        for line in text::many_lines(said).lines().take(most) {
            lines.push((tone, format!("  {}", line.replace('\t', "    "))));
        }
    }
    if lines.is_empty() {
        return PaneText::of_sentence("Nothing was said yet.");
    }
    PaneText { lines, scroll: 0 }
}

/// Reads the end of a conversation; this may take a while.
pub(crate) fn read_talk(observation: &Observation, name: &SessionName) -> PaneText {
    let Some(one) = find_session(observation, name) else {
        return PaneText::of_sentence("It is no longer there.");
    };
    let read = match (one.session.kind, &one.session.transcript, &one.source) {
        (SessionKind::Hosted, Some(log), _) => {
            let directory = log.path.parent().unwrap_or(&log.path);
            let mut window = TalkWindow::new(0, Some(MAX_TALK_ENTRIES), None).without_system(true);
            let mut keep = |entry| window.add_entry(entry);
            flows::terminal::tell::read_log_conversation(directory, 0, &mut keep)
                .map(|_| window.into_part().entries)
                .map_err(|error| error.to_string())
        }
        (_, _, Some(source)) => read_talk_end(one.session.agent, source, MAX_TALK_ENTRIES)
            .map_err(|error| error.to_string()),
        _ => return PaneText::of_sentence("Nothing was written yet."),
    };
    match read {
        Ok(entries) => talk_of(&entries),
        Err(error) => PaneText::of_sentence(&format!("It cannot be read: {error}")),
    }
}

/// What happened since the start, newest first.
pub(crate) fn events_of(events: &[(Time, String)]) -> PaneText {
    if events.is_empty() {
        return PaneText::of_sentence("Nothing has happened since this was opened.");
    }
    let line = |(at, what): &(Time, String)| {
        let at = duration::local_time(*at);
        let clock = at.split(' ').next_back().unwrap_or("");
        (PaneTone::Plain, format!("{clock}  {what}"))
    };
    PaneText { lines: events.iter().rev().map(line).collect(), scroll: 0 }
}
