//! One look, printed: for scripts, pipes and `--once`.

use flows::observe::{Observation, Observed};
use model::rules::attention::{AttentionGroup, AttentionPlace};
use model::time::Time;
use model::wire::{TopGroup, TopResult};

use super::draw::age_label;
use super::list::{ListLine, ListShape};
use super::palette::TopPalette;
use super::row::{LookedTimes, TopRow, build_rows};
use crate::render::text;

/// Everything by group, as JSON has it.
pub(crate) fn grouped_result<'a>(
    observation: &'a Observation,
    words: &model::filter::FilterWords,
    shows_ended: bool,
    now: Time,
) -> TopResult<'a> {
    let fits = |one: &&Observed| words.is_empty() || words.matches(&one.session_view());
    let mut placed: Vec<(AttentionPlace, &Observed)> = observation
        .sessions
        .iter()
        .filter(fits)
        .map(|one| (AttentionPlace::of_session(&one.session, &one.verdict, None, now), one))
        .filter(|(place, _)| shows_ended || place.group != AttentionGroup::Ended)
        .collect();
    placed.sort_by(|one, other| one.0.cmp(&other.0));
    let groups = AttentionGroup::ALL.into_iter().filter_map(|group| {
        let own = placed.iter().filter(|(place, _)| place.group == group);
        let sessions: Vec<&str> = own.map(|(_, one)| one.session.id.as_str()).collect();
        (!sessions.is_empty()).then_some(TopGroup { group, count: sessions.len(), sessions })
    });
    TopResult {
        groups: groups.collect(),
        sessions: placed.iter().map(|(_, one)| one.session_view()).collect(),
        incomplete: &observation.incomplete,
    }
}

/// Everything by group, as text. Nothing is folded: it cannot be unfolded.
pub(crate) fn render_once(
    observation: &Observation,
    words: &model::filter::FilterWords,
    shows_ended: bool,
    palette: TopPalette,
    now: Time,
) -> String {
    let mut rows = build_rows(observation, &LookedTimes::since(None), words, now);
    rows.retain(|row| row.fits);
    rows.sort_by(|one, other| one.place.cmp(&other.place));
    let shape = ListShape {
        by_project: false,
        folds_idle: false,
        folds_unknown: false,
        shows_ended,
        has_headings: true,
        is_roomy: false,
    };
    let lines = shape.list_lines(&rows);
    if lines.is_empty() {
        return "All quiet. Nothing is running.\n".to_owned();
    }
    let mut page = String::new();
    for line in lines {
        match line {
            ListLine::Heading(heading) => page.push_str(&format!("{}\n", heading.to_uppercase())),
            ListLine::Row(place) => page.push_str(&row_line(&rows[place], palette, now)),
            ListLine::Fold { .. } => {}
        }
    }
    palette.signs(&page)
}

/// One session in one line, whole: what reads it can cut it.
pub(crate) fn row_line(row: &TopRow, palette: TopPalette, now: Time) -> String {
    let mark = if row.derived { "~" } else { "" };
    let age = age_label(row.last_sign, now);
    let tokens = row.tokens.map(text::format_count).unwrap_or_default();
    let what = match row.group() {
        AttentionGroup::Unknown => format!("{} · {}", row.doubt, row.doing),
        _ => row.doing.clone(),
    };
    let label = text::cut_right(&format!("{}{mark}", row.label), 24);
    let pad = 24usize.saturating_sub(text::display_width(&label));
    let line = format!(
        "{} {label}{} {:<10} {age:>4} {tokens:>7}  {}",
        palette.row_glyph(row),
        " ".repeat(pad),
        row.agent,
        text::cut_right(&what, 100),
    );
    format!("{}\n", line.trim_end())
}
