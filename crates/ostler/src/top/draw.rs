//! Drawing: a state and a time become cells. Nothing is read and nothing is remembered.

use model::rules::attention::AttentionGroup;
use model::time::Time;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};

use super::keys::KEY_TABLE;
use super::layout::preview_inside;
use super::list::{ListLine, is_selected};
use super::palette::TopPalette;
use super::pane::{PaneKind, PaneTone};
use super::preview::ScreenPreview;
use super::row::{TopRow, harmless};
use super::state::{TopMode, TopState};
use crate::render::text;

/// Everything that is drawn beside the state.
pub(crate) struct TopDrawing<'a> {
    pub(crate) state: &'a TopState,
    pub(crate) screen: Option<&'a ScreenPreview>,
    pub(crate) palette: TopPalette,
    pub(crate) now: Time,
}

/// An age that changes at most once a minute: `now`, `4m`, `2h`, `3d`.
pub(crate) fn age_label(last: Option<Time>, now: Time) -> String {
    let Some(last) = last else { return String::new() };
    match now.since(last).as_secs() {
        0..60 => "now".to_owned(),
        seconds @ 60..3600 => format!("{}m", seconds / 60),
        seconds @ 3600..86_400 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// When the next of these labels changes.
pub(crate) fn next_age_change(rows: &[TopRow], now: Time) -> Option<Time> {
    let next = |row: &TopRow| {
        let last = row.last_sign?;
        let age = now.since(last).as_secs();
        let unit = match age {
            0..3600 => 60,
            3600..86_400 => 3600,
            _ => 86_400,
        };
        Some(last.plus(std::time::Duration::from_secs((age / unit + 1) * unit)))
    };
    rows.iter().filter_map(next).min()
}

impl TopDrawing<'_> {
    /// Draws everything; says where the cursor is, if it is seen.
    pub(crate) fn draw(&self, buffer: &mut Buffer) -> Option<(u16, u16)> {
        let layout = self.state.layout();
        self.draw_header(buffer, layout.header);
        if self.state.mode == TopMode::Help {
            let body = Rect { height: layout.footer.y.saturating_sub(1), y: 1, ..layout.header };
            self.draw_help(buffer, body);
            self.put(buffer, layout.footer, 0, "any key goes back", self.palette.muted());
            return None;
        }
        self.draw_list(buffer, layout.list);
        let mut cursor = None;
        if let (Some(area), Some(inside)) = (layout.preview, preview_inside(&layout)) {
            self.draw_preview_frame(buffer, area, layout.is_wide);
            cursor = self.draw_preview(buffer, inside);
        }
        let footer = self.draw_footer(buffer, layout.footer);
        footer.or(cursor)
    }

    /// Text in a rectangle's line, cut to what is left of it; returns the column after it.
    fn put(&self, buffer: &mut Buffer, area: Rect, at: u16, text: &str, style: Style) -> u16 {
        if area.height == 0 || at >= area.width {
            return at;
        }
        let text = self.palette.signs(text);
        let room = usize::from(area.width - at);
        let (end, _) = buffer.set_stringn(area.x + at, area.y, &text, room, style);
        end - area.x
    }

    /// Text at the right end.
    fn put_right(&self, buffer: &mut Buffer, area: Rect, after: u16, text: &str, style: Style) {
        let width = u16::try_from(text::display_width(text)).unwrap_or(u16::MAX);
        if let Some(at) = area.width.checked_sub(width).filter(|at| *at > after) {
            self.put(buffer, area, at, text, style);
        }
    }

    fn draw_header(&self, buffer: &mut Buffer, area: Rect) {
        let (state, palette) = (self.state, self.palette);
        let mut at = self.put(buffer, area, 1, "ostler", Style::new().add_modifier(Modifier::BOLD));
        let is_wide = area.width >= 72;
        at += if is_wide { 3 } else { 2 };
        for group in AttentionGroup::ALL {
            let count = state.count_group(group);
            if count == 0 || (group == AttentionGroup::Ended && !state.shows_ended) {
                continue;
            }
            let glyph = palette.group_glyph(group);
            let (words, style) = match group {
                AttentionGroup::NeedsYou => (
                    format!(" {glyph} {count} need{} you ", if count == 1 { "s" } else { "" }),
                    palette.chip(),
                ),
                group if is_wide => {
                    (format!("{glyph} {count} {}", group.as_str()), palette.group_style(group))
                }
                group => (format!("{glyph} {count}"), palette.group_style(group)),
            };
            at = self.put(buffer, area, at, &words, style) + if is_wide { 3 } else { 2 };
        }
        if state.is_loading {
            at = self.put(buffer, area, at, "looking…", palette.muted());
        } else if state.rows.is_empty() && state.filter.is_empty() {
            at = self.put(buffer, area, at, "all quiet", palette.muted());
        }
        self.put_right(buffer, area, at, &self.sums(), palette.muted());
    }

    /// What the sessions that are shown have used: stated cost and tokens, never a guess.
    fn sums(&self) -> String {
        let cost: u64 = self.state.rows.iter().filter_map(|row| row.cost_micro_usd).sum();
        let tokens: u64 = self.state.rows.iter().filter_map(|row| row.tokens).sum();
        let mut parts = Vec::new();
        if cost > 0 {
            parts.push(format!("${:.2} stated", cost as f64 / 1e6));
        }
        if tokens > 0 {
            parts.push(format!("{} tok", text::format_count(tokens)));
        }
        parts.join(" · ") + " "
    }

    fn draw_list(&self, buffer: &mut Buffer, area: Rect) {
        let state = self.state;
        let shape = state.list_shape();
        let mut below = -(isize::try_from(state.scroll).unwrap_or(0));
        let lines = state.list_lines();
        for line in &lines {
            let height = shape.height_of(line, &state.rows) as isize;
            for part in 0..height {
                let y = below + part;
                if y >= 0 && y < isize::try_from(area.height).unwrap_or(0) {
                    let row = Rect { y: area.y + y as u16, height: 1, ..area };
                    self.draw_line(buffer, row, line, part == 1);
                }
            }
            below += height;
        }
        if lines.is_empty() && !state.is_loading {
            self.draw_empty(buffer, area);
        }
    }

    fn draw_empty(&self, buffer: &mut Buffer, area: Rect) {
        let sentences: &[&str] = match self.state.filter.is_empty() {
            true => &[
                "All quiet. Nothing is running.",
                "",
                "Start one: ostler create --agent claude-code",
                "a shows ended sessions",
            ],
            false => &["No session is like that. Esc clears the filter."],
        };
        for (index, sentence) in sentences.iter().enumerate() {
            let y = index as u16 + 1;
            if y < area.height {
                let line = Rect { y: area.y + y, height: 1, ..area };
                self.put(buffer, line, 2, sentence, self.palette.muted());
            }
        }
    }

    fn draw_line(&self, buffer: &mut Buffer, area: Rect, line: &ListLine, is_second: bool) {
        let palette = self.palette;
        let selected = self.state.selection.as_ref();
        let is_here = selected.is_some_and(|one| is_selected(line, &self.state.rows, one));
        match line {
            ListLine::Heading(heading) => {
                let heading = heading.to_uppercase();
                let at = self.put(buffer, area, 1, &heading, palette.muted());
                let rest = usize::from(area.width.saturating_sub(at + 2));
                self.put(buffer, area, at + 1, &"─".repeat(rest), palette.muted());
            }
            ListLine::Fold { group, count, note } => {
                let style = palette.group_style(*group);
                let mut words =
                    format!("{} {count} {}", palette.group_glyph(*group), group.as_str());
                if !note.is_empty() {
                    words.push_str(&format!(": {note}"));
                }
                self.put(buffer, area, 1, &format!("{words} ▸"), style);
            }
            ListLine::Row(place) => {
                if let Some(row) = self.state.rows.get(*place) {
                    match is_second {
                        false => self.draw_row(buffer, area, row),
                        true => self.draw_second(buffer, area, row),
                    }
                }
            }
        }
        if is_here {
            if !is_second {
                self.put(buffer, area, 0, "▌", palette.accent());
            }
            // One colour for the whole line: patches of others would be harder to read.
            let one_colour = Style::new().fg(Color::Reset).bg(Color::Reset);
            let style = one_colour.add_modifier(Modifier::REVERSED).remove_modifier(Modifier::DIM);
            buffer.set_style(area, style);
        }
    }

    fn draw_row(&self, buffer: &mut Buffer, area: Rect, row: &TopRow) {
        let palette = self.palette;
        let style = palette.row_style(row);
        self.put(buffer, area, 1, palette.row_glyph(row), style);
        let width = usize::from(area.width);
        let (label_room, agent_room) = match width {
            0..60 => (15, 8),
            60..90 => (17, 8),
            _ => (24, 9),
        };
        let mark = if row.derived { "~" } else { "" };
        let pin = if row.pinned { "*" } else { "" };
        let label = text::cut_right(&format!("{}{mark}{pin}", row.label), label_room);
        let label_style = match row.group() {
            AttentionGroup::NeedsYou => Style::new().add_modifier(Modifier::BOLD),
            AttentionGroup::Ended => palette.muted(),
            _ => Style::new(),
        };
        self.put(buffer, area, 3, &label, label_style);
        let agent_at = 3 + label_room as u16 + 1;
        self.put(buffer, area, agent_at, &text::cut_right(&row.agent, agent_room), palette.muted());
        let doing_at = agent_at + agent_room as u16 + 1;
        let right = self.right_of(row, area.width);
        let right_width = u16::try_from(text::display_width(&right)).unwrap_or(0);
        let room = area.width.saturating_sub(doing_at + right_width + 2);
        let doing = match row.stale {
            true => format!("stale: no sign for {}", age_label(row.last_sign, self.now)),
            false => row.doing.clone(),
        };
        let doing_style = match row.group() {
            AttentionGroup::NeedsYou => palette.row_style(row),
            AttentionGroup::Ended => palette.muted(),
            _ => Style::new(),
        };
        let doing = text::cut_right(&doing, usize::from(room));
        self.put(buffer, area, doing_at, &doing, doing_style);
        self.put_right(buffer, area, agent_at, &right, palette.muted());
    }

    /// Age and tokens at the right end; a narrow list has the age alone.
    fn right_of(&self, row: &TopRow, width: u16) -> String {
        let age = age_label(row.last_sign, self.now);
        let is_two = self.state.list_shape().is_roomy && row.group() == AttentionGroup::NeedsYou;
        if is_two {
            return String::new();
        }
        let tokens = row.tokens.filter(|_| width >= 70).map(text::format_count).unwrap_or_default();
        match width {
            70.. => format!("{age:>4} {tokens:>7} "),
            _ => format!("{age:>4} "),
        }
    }

    fn draw_second(&self, buffer: &mut Buffer, area: Rect, row: &TopRow) {
        let mut parts = vec![row.project.clone()];
        parts.extend(Some(row.branch.clone()).filter(|branch| !branch.is_empty()));
        let mut words = text::cut_right(&parts.join(" · "), 28);
        words.push_str(&format!("  {}", age_label(row.last_sign, self.now)));
        if let Some(tokens) = row.tokens {
            words.push_str(&format!("  {} tok", text::format_count(tokens)));
        }
        if let Some(cost) = row.cost_micro_usd {
            words.push_str(&format!("  ${:.2}", cost as f64 / 1e6));
        }
        self.put(buffer, area, 3, &words, self.palette.muted());
    }

    fn draw_preview_frame(&self, buffer: &mut Buffer, area: Rect, is_wide: bool) {
        let state = self.state;
        let is_typing = matches!(state.mode, TopMode::Typing { .. });
        let style = if is_typing { self.palette.accent() } else { self.palette.muted() };
        if is_wide {
            for y in area.y..area.y + area.height {
                let line = Rect { y, height: 1, ..area };
                let edge = if is_typing && !self.palette.is_ascii { "┃" } else { "│" };
                self.put(buffer, line, 0, edge, style);
            }
        }
        let mut title = match &state.mode {
            TopMode::Typing { label, .. } => format!(" TYPING → {label} (Ctrl-] ends) "),
            // Without a terminal to show, the preview is what was said.
            _ if state.pane == PaneKind::Screen && self.screen.is_none() => " talk ".to_owned(),
            _ => format!(" {} ", state.pane.as_str()),
        };
        if let Some(row) = state.selected_row().filter(|_| !is_typing) {
            title.push_str(&format!("· {} · {} ", text::cut_right(&row.label, 30), row.agent));
        }
        if state.pane == PaneKind::Screen
            && let Some(screen) = self.screen
        {
            let inside = (area.width.saturating_sub(u16::from(is_wide)), area.height - 1);
            title.push_str(&screen.describe_size(inside));
        }
        let line = Rect { height: 1, ..area };
        let left = u16::from(is_wide);
        let at = self.put(buffer, line, left, "─", style);
        let at = self.put(buffer, line, at, &title, style.remove_modifier(Modifier::DIM));
        let rest = usize::from(area.width.saturating_sub(at));
        self.put(buffer, line, at, &"─".repeat(rest), style);
    }

    fn draw_preview(&self, buffer: &mut Buffer, inside: Rect) -> Option<(u16, u16)> {
        let state = self.state;
        if let TopMode::Reply { target, .. } = &state.mode {
            return self.draw_reply(buffer, inside, target);
        }
        if state.pane == PaneKind::Screen
            && let Some(screen) = self.screen
        {
            let cursor = screen.draw(buffer, inside, state.pan, self.palette.has_colour);
            let is_typing = matches!(state.mode, TopMode::Typing { .. });
            return cursor.filter(|_| is_typing);
        }
        let lines = state.pane_text.wrap_lines(inside.width.saturating_sub(2));
        let most = lines.len().saturating_sub(usize::from(inside.height));
        let first = state.pane_text.scroll.min(most);
        for (index, (tone, line)) in lines.iter().skip(first).enumerate() {
            if index >= usize::from(inside.height) {
                break;
            }
            let area = Rect { y: inside.y + index as u16, height: 1, ..inside };
            let style = match tone {
                PaneTone::Plain => Style::new(),
                PaneTone::Heading => self.palette.group_style(AttentionGroup::Working),
                PaneTone::Muted => self.palette.muted(),
            };
            self.put(buffer, area, 1, line, style);
        }
        None
    }

    /// The box that a prompt is written in.
    fn draw_reply(
        &self,
        buffer: &mut Buffer,
        inside: Rect,
        target: &model::session::SessionName,
    ) -> Option<(u16, u16)> {
        let TopMode::Reply { label, .. } = &self.state.mode else { return None };
        let head = format!("reply to {label} ({target})");
        let line = Rect { height: 1, ..inside };
        self.put(buffer, line, 1, &head, self.palette.accent());
        let draft = self.state.drafts.get(target).map_or("", |draft| draft.text());
        let columns = usize::from(inside.width.saturating_sub(4)).max(1);
        let mut lines = Vec::new();
        for part in draft.split('\n') {
            let safe = text::one_line(part);
            lines.extend(text::wrap_words(&safe, Some(columns), "").lines().map(str::to_owned));
            if safe.is_empty() {
                lines.push(String::new());
            }
        }
        let room = usize::from(inside.height.saturating_sub(2)).max(1);
        let first = lines.len().saturating_sub(room);
        let mut cursor = (inside.x + 2, inside.y + 1);
        for (index, part) in lines.iter().skip(first).enumerate() {
            let y = inside.y + 1 + index as u16;
            if y >= inside.y + inside.height {
                break;
            }
            let at = self.put(buffer, Rect { y, height: 1, ..inside }, 2, part, Style::new());
            // A blank at the end is not drawn by what breaks lines.
            cursor = (inside.x + at, y);
        }
        Some(cursor)
    }

    fn draw_footer(&self, buffer: &mut Buffer, area: Rect) -> Option<(u16, u16)> {
        let (state, palette) = (self.state, self.palette);
        let is_filtered = !state.filter.is_empty() && state.message.is_none();
        if state.mode == TopMode::Filter || is_filtered {
            return self.draw_filter(buffer, area);
        }
        let mode_words = match &state.mode {
            TopMode::Reply { .. } => Some("Enter sends · Alt-Enter new line · Esc keeps the draft"),
            TopMode::Confirm(_) => Some("y does it · any other key does nothing"),
            TopMode::Typing { .. } => Some("every key goes to the terminal · Ctrl-] ends"),
            _ => None,
        };
        if let Some(words) = mode_words {
            self.put(buffer, area, 1, words, palette.accent());
            return None;
        }
        let said = state.message.as_ref().or(state.notices.first());
        if let Some(message) = said {
            self.put(buffer, area, 1, &harmless(message), palette.accent());
            return None;
        }
        let mut at = 1;
        let help = state.keys.keys_of(super::keys::TopCommand::Help).join(" ") + " help ";
        let help_width = help.len() as u16 + 1;
        for row in KEY_TABLE.iter().filter(|row| !row.short.is_empty() && row.short != "help") {
            let Some(key) = state.keys.keys_of(row.command).into_iter().next() else { continue };
            let width = (key.len() + row.short.len() + 4) as u16;
            if at + width + help_width > area.width {
                break;
            }
            if at > 1 {
                at = self.put(buffer, area, at, " · ", palette.muted());
            }
            at = self.put(buffer, area, at, &key, Style::new().add_modifier(Modifier::BOLD));
            at = self.put(buffer, area, at + 1, row.short, palette.muted());
        }
        self.put_right(buffer, area, 0, &help, palette.muted());
        None
    }

    fn draw_filter(&self, buffer: &mut Buffer, area: Rect) -> Option<(u16, u16)> {
        let state = self.state;
        let filter = text::one_line(state.filter.text());
        let at = self.put(buffer, area, 1, "/", self.palette.accent());
        let start = area.x + at;
        let at = self.put(buffer, area, at, &filter, Style::new());
        if let Some((reason, place)) = &state.filter_error {
            // The place of the error is marked where it stands.
            let columns = |end: usize| {
                let before = state.filter.text().get(..end).unwrap_or(state.filter.text());
                text::display_width(before) as u16
            };
            let from = start + columns(place.start);
            let width = columns(place.end).saturating_sub(columns(place.start)).max(1);
            let marked = Rect { x: from, width, ..area }.intersection(area);
            buffer.set_style(marked, self.palette.warning().add_modifier(Modifier::UNDERLINED));
            self.put(buffer, area, at + 2, reason, self.palette.warning());
        } else if state.mode == TopMode::Filter {
            self.put_right(buffer, area, at, "Enter keeps · Esc clears ", self.palette.muted());
        }
        (state.mode == TopMode::Filter).then_some((area.x + at, area.y))
    }

    fn draw_help(&self, buffer: &mut Buffer, area: Rect) {
        let columns = if usize::from(area.height) < KEY_TABLE.len() { 2 } else { 1 };
        let rows = KEY_TABLE.len().div_ceil(columns);
        let width = area.width / columns as u16;
        for (index, row) in KEY_TABLE.iter().enumerate() {
            let (column, line) = ((index / rows) as u16, (index % rows) as u16);
            if line >= area.height {
                continue;
            }
            let place = Rect { x: area.x + column * width, y: area.y + line, width, height: 1 };
            let keys = self.state.keys.keys_of(row.command).join(" ");
            self.put(buffer, place, 1, &keys, Style::new().add_modifier(Modifier::BOLD));
            let does = text::cut_right(row.does, usize::from(width.saturating_sub(14)));
            self.put(buffer, place, 13, &does, Style::new());
        }
    }
}
