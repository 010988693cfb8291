//! Names and values, one pair per line: the one way in which a single thing is shown to a person.

use std::fmt::Write;

use flows::terminal::screen::Personality;

use crate::render::colour::{Colour, Painter};
use crate::render::text;

/// How wide the names are, unless one is wider.
const NAME_COLUMNS: usize = 12;

/// Lines of a name and a value; what is not known has none.
pub(crate) struct FieldPage {
    fields: Vec<(String, String)>,
    paint: Painter,
    /// agent-tty's programs look for `Name: value`.
    as_agent_tty: bool,
}

impl FieldPage {
    pub(crate) const fn new(paint: Painter) -> Self {
        Self { fields: Vec::new(), paint, as_agent_tty: false }
    }

    /// For a command that agent-tty has, too.
    pub(crate) fn for_personality(personality: Personality) -> Self {
        let as_agent_tty = personality == Personality::AgentTty;
        Self { as_agent_tty, ..Self::new(Painter::for_stdout()) }
    }

    /// Adds a line, unless the value is empty, which is made safe for a terminal.
    pub(crate) fn push_field(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.fields.push((name.to_owned(), text::one_line(value)));
        }
    }

    pub(crate) fn into_text(self) -> String {
        let widest = self.fields.iter().map(|(name, _)| name.len()).max();
        let columns = widest.unwrap_or_default().max(NAME_COLUMNS);
        self.fields.iter().fold(String::new(), |mut text, (name, value)| {
            // Writing to a String cannot fail.
            let _ = if self.as_agent_tty {
                writeln!(text, "{name}: {value}")
            } else {
                let name = format!("{:>columns$}", name.to_lowercase());
                writeln!(text, "{}  {value}", self.paint.paint(Colour::Dim, &name))
            };
            text
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_flush_with_each_other_and_what_is_empty_has_no_line() {
        let mut page = FieldPage::new(Painter::without_colour());
        page.push_field("ID", "a\x1b[31m");
        page.push_field("title", "");
        page.push_field("Host pid", "12");
        assert_eq!(page.into_text(), "          id  a\\u{1b}[31m\n    host pid  12\n");
    }

    #[test]
    fn agent_ttys_programs_find_what_they_look_for() {
        let mut page = FieldPage::new(Painter::without_colour());
        page.as_agent_tty = true;
        page.push_field("Host pid", "12");
        assert_eq!(page.into_text(), "Host pid: 12\n");
    }
}
