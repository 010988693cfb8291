//! The palette: glyphs and styles of every state. State is always a glyph, a word and a colour.
//!
//! Colours are the terminal's own sixteen, which its owner has made readable on their ground; none is
//! the only sign of anything.

use model::rules::attention::AttentionGroup;
use ratatui_core::style::{Color, Modifier, Style};

use super::row::TopRow;

/// Whether there are colours, and signs beyond ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TopPalette {
    pub(crate) has_colour: bool,
    pub(crate) is_ascii: bool,
}

impl TopPalette {
    /// The sign of a group.
    pub(crate) const fn group_glyph(self, group: AttentionGroup) -> &'static str {
        match (group, self.is_ascii) {
            (AttentionGroup::NeedsYou, false) => "▲",
            (AttentionGroup::NeedsYou, true) => "!",
            (AttentionGroup::Working, false) => "●",
            (AttentionGroup::Working, true) => "*",
            (AttentionGroup::Done, false) => "✓",
            (AttentionGroup::Done, true) => "+",
            (AttentionGroup::Idle, false) => "○",
            (AttentionGroup::Idle, true) => "o",
            (AttentionGroup::Ended, false) => "·",
            (AttentionGroup::Ended, true) => "-",
            (AttentionGroup::Unknown, _) => "?",
        }
    }

    /// The sign of a session.
    pub(crate) fn row_glyph(self, row: &TopRow) -> &'static str {
        match (row.group(), row.status.is_terminal(), self.is_ascii) {
            (AttentionGroup::NeedsYou, true, false) => "✗",
            (AttentionGroup::NeedsYou, true, true) => "x",
            (group, ..) => self.group_glyph(group),
        }
    }

    /// The colour of a group; bold is for what needs a person alone.
    pub(crate) fn group_style(self, group: AttentionGroup) -> Style {
        let style = Style::new();
        if group == AttentionGroup::NeedsYou {
            let bold = style.add_modifier(Modifier::BOLD);
            return if self.has_colour { bold.fg(Color::Yellow) } else { bold };
        }
        if !self.has_colour {
            return style;
        }
        match group {
            AttentionGroup::Working => style.fg(Color::Cyan),
            AttentionGroup::Done => style.fg(Color::Green),
            AttentionGroup::Unknown => style.fg(Color::Magenta),
            _ => self.muted(),
        }
    }

    /// The colour of a session.
    pub(crate) fn row_style(self, row: &TopRow) -> Style {
        let is_failed = row.group() == AttentionGroup::NeedsYou && row.status.is_terminal();
        match is_failed && self.has_colour {
            true => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            false => self.group_style(row.group()),
        }
    }

    /// What may be passed over.
    pub(crate) fn muted(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// The line between things, and their names.
    pub(crate) fn accent(self) -> Style {
        match self.has_colour {
            true => Style::new().fg(Color::Yellow),
            false => Style::new().add_modifier(Modifier::UNDERLINED),
        }
    }

    /// The filled chip: how many need a person.
    pub(crate) fn chip(self) -> Style {
        let style = Style::new().add_modifier(Modifier::BOLD);
        match self.has_colour {
            true => style.fg(Color::Black).bg(Color::Yellow),
            false => style.add_modifier(Modifier::REVERSED),
        }
    }

    /// Something that is wrong.
    pub(crate) fn warning(self) -> Style {
        match self.has_colour {
            true => Style::new().fg(Color::Red),
            false => Style::new().add_modifier(Modifier::BOLD),
        }
    }

    /// A sign of anybody's, where there is only ASCII: what frames are drawn with, or that there is one.
    pub(crate) fn plain_sign(sign: char) -> char {
        match sign {
            '─' | '━' | '═' | '╌' | '┄' | '╭' | '╮' | '╰' | '╯' => '-',
            '│' | '┃' | '║' | '▌' | '▐' => '|',
            '┌'..='╬' => '+',
            '█' | '▓' | '▒' | '░' => '#',
            '❯' | '›' | '»' | '→' | '▸' | '▶' => '>',
            '…' => '.',
            '·' | '•' | '⎿' => '-',
            '●' | '◉' | '✻' | '✽' | '✶' => '*',
            '○' | '◯' => 'o',
            '✓' | '✔' => '+',
            '✗' | '✘' | '×' => 'x',
            '▲' => '!',
            '≥' => '>',
            '“' | '”' => '"',
            '‘' | '’' => '\'',
            other if other.is_ascii() => other,
            _ => '?',
        }
    }

    /// Our own signs, where there is only ASCII.
    pub(crate) fn signs(self, text: &str) -> String {
        if !self.is_ascii {
            return text.to_owned();
        }
        let plain = |sign: char| match sign {
            '▌' | '▸' | '→' => '>',
            '↑' => '^',
            '↓' => 'v',
            '·' | '•' => '-',
            other => Self::plain_sign(other),
        };
        text.chars().map(plain).collect()
    }
}
