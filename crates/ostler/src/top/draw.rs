//! Drawing: a state and a time become cells. Nothing is read and nothing is remembered.

use model::rules::attention::AttentionGroup;
use model::time::Time;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};

use super::command::{help_height, help_lines};
use super::keys::{KEY_TABLE, TopCommand};
use super::layout::{preview_inside, reason_line};
use super::list::{ListLine, is_selected};
use super::palette::TopPalette;
use super::pane::{PaneKind, PaneTone};
use super::preview::ScreenPreview;
use super::row::{TopRow, harmless};
use super::state::{TopConsent, TopMode, TopState};
use crate::render::text;

/// What the keys of one command may take of the help.
const MOST_KEY_COLUMNS: usize = 14;

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

/// Tokens as a glance wants them: `950`, `182k`, `2.1M`.
fn token_label(tokens: u64) -> String {
    match tokens {
        0..1000 => tokens.to_string(),
        1000..999_500 => format!("{}k", (tokens + 500) / 1000),
        _ => text::format_count(tokens),
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

/// Leaves nothing on the screen that a terminal without UTF-8 would show as something else.
fn make_ascii(buffer: &mut Buffer) {
    let mut after_wide = false;
    for cell in &mut buffer.content {
        let is_wide = text::display_width(cell.symbol()) == 2;
        if !cell.symbol().is_ascii() {
            let first = cell.symbol().chars().next().unwrap_or(' ');
            cell.set_char(TopPalette::plain_sign(first));
        } else if after_wide {
            cell.set_char('?');
        }
        after_wide = is_wide;
    }
}

impl TopDrawing<'_> {
    /// Draws everything; says where the cursor is, if it is seen.
    pub(crate) fn draw(&self, buffer: &mut Buffer) -> Option<(u16, u16)> {
        let layout = self.state.layout();
        self.draw_header(buffer, layout.header);
        if self.state.mode == TopMode::Help {
            let body = Rect { height: layout.footer.y.saturating_sub(1), y: 1, ..layout.header };
            self.draw_help(buffer, body);
            let rows = self.state.screen_rows;
            let words = match help_lines(rows) > help_height(rows) {
                true => "↑ ↓ read on · any other key goes back",
                false => "any key goes back",
            };
            self.put(buffer, layout.footer, 1, words, self.palette.muted());
            return None;
        }
        self.draw_list(buffer, layout.list);
        let mut cursor = None;
        if let (Some(area), Some(inside)) = (layout.preview, preview_inside(&layout)) {
            self.draw_preview_frame(buffer, area, layout.is_wide);
            cursor = self.draw_preview(buffer, inside);
            if let Some(line) = reason_line(&layout) {
                self.draw_reason(buffer, line);
            }
            for row in self.state.drag.iter().flat_map(|drag| drag.marked_rows()) {
                buffer.set_style(row.intersection(inside), Modifier::REVERSED);
            }
        }
        let footer = self.draw_footer(buffer, layout.footer);
        if self.palette.is_ascii {
            make_ascii(buffer);
        }
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
            let count = match state.is_incomplete {
                true => format!("≥{count}"),
                false => count.to_string(),
            };
            let needs = if count == "1" { "needs" } else { "need" };
            let (words, style) = match group {
                AttentionGroup::NeedsYou => {
                    (format!(" {glyph} {count} {needs} you "), palette.chip())
                }
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
            parts.push(format!("{} tok", token_label(tokens)));
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
        let mut sentences = vec!["No session is like that. Esc clears the filter."];
        if self.state.filter.is_empty() {
            sentences = vec!["All quiet. Nothing is running.", ""];
            sentences.extend(["Start one: ostler create --agent claude-code"]);
            sentences.extend(["a shows ended sessions", ""]);
            sentences.extend(self.state.quiet.iter().flatten().map(String::as_str));
        }
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
            // One colour for the whole line: patches of others would be harder to read.
            let one_colour = Style::new().fg(Color::Reset).bg(Color::Reset);
            let style = one_colour.add_modifier(Modifier::REVERSED).remove_modifier(Modifier::DIM);
            buffer.set_style(area, style);
            // Its mark stands before it, not turned round with it.
            let first = Rect { width: area.width.min(1), ..area };
            buffer.set_style(first, Style::reset());
            self.put(buffer, area, 0, "▌", palette.accent());
        }
    }

    fn draw_row(&self, buffer: &mut Buffer, area: Rect, row: &TopRow) {
        let palette = self.palette;
        let style = palette.row_style(row);
        self.put(buffer, area, 1, palette.row_glyph(row), style);
        let (label_room, agent_room) = self.column_rooms(usize::from(area.width));
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

    /// How wide the columns of labels and agents are: as the widest of them, and never too wide for the rest.
    fn column_rooms(&self, width: usize) -> (usize, usize) {
        let most = match width {
            0..60 => 15,
            60..90 => 17,
            _ => 24,
        };
        let rows = &self.state.rows;
        let marks = |row: &TopRow| usize::from(row.derived) + usize::from(row.pinned);
        let label = rows.iter().map(|row| text::display_width(&row.label) + marks(row)).max();
        let agent = rows.iter().map(|row| text::display_width(&row.agent)).max();
        (label.unwrap_or(0).clamp(8, most), agent.unwrap_or(0).clamp(4, 9))
    }

    /// Age and tokens at the right end; a narrow list has the age alone.
    fn right_of(&self, row: &TopRow, width: u16) -> String {
        let age = age_label(row.last_sign, self.now);
        let is_two = self.state.list_shape().is_roomy && row.group() == AttentionGroup::NeedsYou;
        if is_two {
            return String::new();
        }
        let tokens = row.tokens.filter(|_| width >= 70).map(token_label).unwrap_or_default();
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
            words.push_str(&format!("  {} tok", token_label(tokens)));
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
        let left = u16::from(is_wide);
        let inside = (area.width.saturating_sub(left), area.height.saturating_sub(1 + left));
        let title = self.preview_title(inside);
        let line = Rect { height: 1, ..area };
        let at = self.put(buffer, line, left, "─", style);
        let at = self.put(buffer, line, at, &title, style.remove_modifier(Modifier::DIM));
        let rest = usize::from(area.width.saturating_sub(at));
        self.put(buffer, line, at, &"─".repeat(rest), style);
    }

    /// Why the selected session is where it stands in the list, one key away from all of the evidence.
    fn draw_reason(&self, buffer: &mut Buffer, area: Rect) {
        let state = self.state;
        let Some((row, why)) = state.selected_row().zip(state.why.as_ref()) else { return };
        let is_about_another = match &state.mode {
            TopMode::Confirm(_) | TopMode::Reply { .. } => true,
            TopMode::Typing { terminal, .. } => row.terminal.as_ref() != Some(terminal),
            _ => matches!(state.pane, PaneKind::Found | PaneKind::Events),
        };
        if is_about_another {
            return;
        }
        let at = self.put(buffer, area, 1, "why", self.palette.muted());
        let style = self.palette.row_style(row);
        let at = self.put(buffer, area, at + 1, self.palette.row_glyph(row), style);
        let room = usize::from(area.width.saturating_sub(at + 1));
        self.put(buffer, area, at + 1, &text::cut_right(why, room), self.palette.muted());
    }

    /// What is shown, and of whom: never of the selected session while it is about another thing.
    fn preview_title(&self, inside: (u16, u16)) -> String {
        let state = self.state;
        let whose = match &state.mode {
            TopMode::Typing { label, .. } => return format!(" TYPING → {label} (Ctrl-] ends) "),
            TopMode::Confirm(TopConsent::Stop(target)) => {
                return format!(" stop · {} ", harmless(&target.to_string()));
            }
            TopMode::Confirm(TopConsent::CleanUp { .. }) => return " clean up ".to_owned(),
            TopMode::Confirm(TopConsent::Finalize { .. }) => return " finalize ".to_owned(),
            TopMode::Reply { label, .. } => return format!(" reply · {label} "),
            _ if matches!(state.pane, PaneKind::Found | PaneKind::Events) => None,
            _ => state.selected_row(),
        };
        // Without a terminal to show, the preview is what was said.
        let is_talk = state.pane == PaneKind::Screen && self.screen.is_none();
        let pane = if is_talk { PaneKind::Talk } else { state.pane };
        let mut title = format!(" {} ", pane.as_str());
        if let Some(row) = whose {
            title.push_str(&format!("· {} · {} ", text::cut_right(&row.label, 30), row.agent));
        }
        if let Some(screen) = self.screen.filter(|_| state.pane == PaneKind::Screen) {
            title.push_str(&screen.describe_size(inside));
        }
        title
    }

    fn draw_preview(&self, buffer: &mut Buffer, inside: Rect) -> Option<(u16, u16)> {
        let state = self.state;
        if let TopMode::Reply { target, .. } = &state.mode {
            return self.draw_reply(buffer, inside, target);
        }
        let is_asked = matches!(state.mode, TopMode::Confirm(_));
        if state.pane == PaneKind::Screen
            && !is_asked
            && let Some(screen) = self.screen
        {
            let cursor = screen.draw(buffer, inside, state.pan, self.palette.has_colour);
            let is_typing = matches!(state.mode, TopMode::Typing { .. });
            return cursor.filter(|_| is_typing);
        }
        let text = if is_asked { &state.plan } else { &state.pane_text };
        let lines = text.wrap_lines(inside.width.saturating_sub(2));
        let most = lines.len().saturating_sub(usize::from(inside.height));
        let first = text.scroll.min(most);
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
        let mode_words = match &state.mode {
            TopMode::Reply { .. } => Some("Enter sends · Alt-Enter new line · Esc keeps the draft"),
            TopMode::Confirm(_) if state.is_plan_read() => {
                Some("y does it · ↑ ↓ read on · any other key does nothing")
            }
            TopMode::Confirm(_) => Some("read it first · ↑ ↓ read on · any other key does nothing"),
            TopMode::Typing { .. } => Some("every key goes to the terminal · Ctrl-] ends"),
            _ => None,
        };
        if let Some(words) = mode_words {
            let at = self.put(buffer, area, 1, words, palette.accent());
            if let Some(message) = &state.message {
                self.put(buffer, area, at + 2, &harmless(message), Style::new());
            }
            return None;
        }
        if state.mode == TopMode::Search {
            return self.draw_query(buffer, area);
        }
        if state.mode == TopMode::Filter || (!state.filter.is_empty() && state.message.is_none()) {
            return self.draw_filter(buffer, area);
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

    fn draw_query(&self, buffer: &mut Buffer, area: Rect) -> Option<(u16, u16)> {
        let at = self.put(buffer, area, 1, "search: ", self.palette.accent());
        let query = text::one_line(self.state.query.text());
        let at = self.put(buffer, area, at, &query, Style::new());
        self.put_right(buffer, area, at, "Enter keeps · Esc ends ", self.palette.muted());
        Some((area.x + at.min(area.width.saturating_sub(1)), area.y))
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
        let lines = help_lines(self.state.screen_rows);
        let width = area.width / if lines < KEY_TABLE.len() { 2 } else { 1 };
        // A column of short keys leaves its room to the words.
        let mut widest_keys = [0; 2];
        for (index, row) in KEY_TABLE.iter().enumerate() {
            let wide = text::display_width(&self.help_keys(row.command, MOST_KEY_COLUMNS));
            let widest = &mut widest_keys[(index / lines).min(1)];
            *widest = u16::try_from(wide).unwrap_or(0).max(*widest);
        }
        for (index, row) in KEY_TABLE.iter().enumerate() {
            let (column, line) = ((index / lines) as u16, index % lines);
            let Some(line) = line.checked_sub(self.state.help_scroll) else { continue };
            if line >= usize::from(area.height) {
                continue;
            }
            let place = Rect {
                x: area.x + column * width,
                y: area.y + line as u16,
                width: width.saturating_sub(1),
                height: 1,
            };
            let at = if width < 40 { 9 } else { widest_keys[usize::from(column)] + 3 };
            let keys = self.help_keys(row.command, usize::from(at));
            self.put(buffer, place, 1, &keys, Style::new().add_modifier(Modifier::BOLD));
            let does = text::cut_right(row.does, usize::from(width.saturating_sub(at + 1)));
            self.put(buffer, place, at, &does, Style::new());
        }
    }

    /// The keys of a command in so many columns. A second key that does not fit is left out, the first never.
    fn help_keys(&self, command: TopCommand, columns: usize) -> String {
        let mut keys = String::new();
        for key in self.state.keys.keys_of(command) {
            let between = usize::from(!keys.is_empty());
            if keys.is_empty() || keys.len() + between + key.len() + 2 < columns {
                keys.push_str(&" "[..between]);
                keys.push_str(&key);
            }
        }
        keys
    }
}
