//! Colours, only where a person sees them; nothing is ever said by colour alone.

use std::io::IsTerminal;

use crate::env;

/// Paints text, or leaves it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Painter {
    on: bool,
}

/// The colours in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    Bold,
    Dim,
    Green,
    Yellow,
    /// What a person must see first.
    BoldYellow,
    Cyan,
    Red,
}

impl Painter {
    /// For what goes to stdout.
    pub(crate) fn for_stdout() -> Self {
        let wanted =
            env::force_color() || (std::io::stdout().is_terminal() && !env::dumb_terminal());
        Self { on: wanted && !env::no_color() }
    }

    /// For what is drawn in another way.
    pub(crate) const fn without_colour() -> Self {
        Self { on: false }
    }

    /// Whether there is colour.
    pub(crate) fn has_colour(self) -> bool {
        self.on
    }

    /// For what goes to stderr.
    pub(crate) fn for_stderr() -> Self {
        let wanted =
            env::force_color() || (std::io::stderr().is_terminal() && !env::dumb_terminal());
        Self { on: wanted && !env::no_color() }
    }

    /// The text in that colour.
    pub(crate) fn paint(self, colour: Colour, text: &str) -> String {
        if !self.on || text.is_empty() {
            return text.to_owned();
        }
        let code = match colour {
            Colour::Bold => "1",
            Colour::Dim => "2",
            Colour::Red => "31",
            Colour::Green => "32",
            Colour::Yellow => "33",
            Colour::BoldYellow => "1;33",
            Colour::Cyan => "36",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}
