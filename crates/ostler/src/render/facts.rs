//! What is known of one thing: a name and a value on each line, with one margin between them.

use std::fmt::Write;

use crate::render::colour::{Colour, Painter};
use crate::render::text;

/// Lines of a name and a value; what is not known has none.
#[derive(Debug)]
pub(crate) struct FactSheet {
    page: String,
    paint: Painter,
}

impl FactSheet {
    pub(crate) const fn new(paint: Painter) -> Self {
        Self { page: String::new(), paint }
    }

    /// Adds a line. What acts on a terminal is escaped.
    pub(crate) fn add_fact(&mut self, name: &str, value: impl Into<Option<String>>) {
        let value: Option<String> = value.into();
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let name = self.paint.paint(Colour::Dim, &format!("{name:>12}"));
            // Writing to a String cannot fail.
            let _ = writeln!(self.page, "{name}  {}", text::one_line(&value));
        }
    }

    pub(crate) fn into_page(self) -> String {
        self.page
    }
}
