//! The key table: what every key does, for the keyboard, the help and the settings alike.

use std::collections::BTreeMap;

use super::input::TopKey;

/// What a key asks for in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum TopCommand {
    Down,
    Up,
    First,
    Last,
    PageDown,
    PageUp,
    PanLeft,
    PanRight,
    Next,
    Previous,
    Open,
    Peek,
    Pane,
    Why,
    TypeHere,
    Reply,
    Stop,
    Pin,
    Finalize,
    CleanUp,
    Undo,
    Filter,
    Search,
    Group,
    Fold,
    Ended,
    CopyId,
    Mouse,
    Events,
    Help,
    Focus,
    Back,
    Quit,
    Suspend,
    Redraw,
}

impl TopCommand {
    /// Whether it ends or changes something without asking first.
    pub(crate) const fn acts_at_once(self) -> bool {
        matches!(self, Self::Undo | Self::Pin | Self::Quit | Self::Suspend)
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyBinding {
    pub(crate) command: TopCommand,
    /// Its name in `[top.keys]`.
    pub(crate) name: &'static str,
    /// The keys that do it, the first of them shown below the list.
    pub(crate) keys: &'static [&'static str],
    /// What it does, for the help.
    pub(crate) does: &'static str,
    /// The word below the list; empty where it is not shown there.
    pub(crate) short: &'static str,
}

const fn row(
    command: TopCommand,
    name: &'static str,
    keys: &'static [&'static str],
    does: &'static str,
    short: &'static str,
) -> KeyBinding {
    KeyBinding { command, name, keys, does, short }
}

pub(crate) const KEY_TABLE: &[KeyBinding] = &[
    row(TopCommand::Next, "next", &["n"], "next that needs you", "next"),
    row(TopCommand::Previous, "previous", &["N"], "previous that needs you", ""),
    row(TopCommand::Open, "open", &["Enter"], "attach; Ctrl-] comes back", "attach"),
    row(TopCommand::TypeHere, "type-here", &["i"], "type here; Ctrl-] ends", "type here"),
    row(TopCommand::Reply, "reply", &["r"], "write a prompt and send it", "reply"),
    row(TopCommand::Why, "why", &["w"], "why: the evidence", "why"),
    row(TopCommand::Stop, "stop", &["s"], "stop, after showing what ends", "stop"),
    row(TopCommand::Pin, "pin", &["p"], "pin or unpin", "pin"),
    row(TopCommand::CleanUp, "clean-up", &["c"], "clean up, showing what goes", "clean up"),
    row(TopCommand::Undo, "undo", &["u"], "undo the last clean-up", ""),
    row(TopCommand::Finalize, "finalize", &["f"], "finalize, showing what ends", ""),
    row(TopCommand::Filter, "filter", &["/"], "filter; Esc clears it", "filter"),
    row(TopCommand::Search, "search", &["S"], "search all that was said", ""),
    row(TopCommand::Peek, "peek", &["Space"], "peek: what was said last", ""),
    row(TopCommand::Pane, "pane", &["v"], "screen, talk, facts or usage", ""),
    row(TopCommand::Events, "events", &["e"], "events since the start", ""),
    row(TopCommand::Focus, "focus", &["Tab"], "the preview alone, and back", ""),
    row(TopCommand::Group, "group", &["o"], "group by attention or project", ""),
    row(TopCommand::Fold, "fold", &["z"], "fold idle and unknown", ""),
    row(TopCommand::Ended, "ended", &["a"], "ended ones, too", ""),
    row(TopCommand::CopyId, "copy-id", &["y"], "copy the id, and show it", ""),
    row(TopCommand::Mouse, "mouse", &["m"], "the mouse off and on", ""),
    row(TopCommand::Down, "down", &["j", "Down"], "down", ""),
    row(TopCommand::Up, "up", &["k", "Up"], "up", ""),
    row(TopCommand::First, "first", &["g", "Home"], "to the first", ""),
    row(TopCommand::Last, "last", &["G", "End"], "to the last", ""),
    row(TopCommand::PageDown, "page-down", &["PgDn", "Ctrl-d"], "a page down", ""),
    row(TopCommand::PageUp, "page-up", &["PgUp", "Ctrl-u"], "a page up", ""),
    row(TopCommand::PanLeft, "pan-left", &["Left"], "the preview to the left", ""),
    row(TopCommand::PanRight, "pan-right", &["Right"], "the preview to the right", ""),
    row(TopCommand::Help, "help", &["?"], "all keys", "help"),
    row(TopCommand::Back, "back", &["Esc"], "back", ""),
    row(TopCommand::Redraw, "redraw", &["Ctrl-l"], "draw everything anew", ""),
    row(TopCommand::Suspend, "suspend", &["Ctrl-z"], "suspend", ""),
    row(TopCommand::Quit, "quit", &["q", "Ctrl-c"], "quit", ""),
];

/// The keys as they are bound now.
#[derive(Clone, Debug)]
pub(crate) struct TopKeyMap {
    by_key: BTreeMap<TopKey, TopCommand>,
}

impl Default for TopKeyMap {
    fn default() -> Self {
        let keys = KEY_TABLE.iter().flat_map(|row| row.keys.iter().map(|key| (*key, row.command)));
        let by_key = keys.filter_map(|(key, command)| Some((TopKey::parse(key)?, command)));
        Self { by_key: by_key.collect() }
    }
}

impl TopKeyMap {
    /// The table with a person's own keys: each takes the place of those that the command had.
    pub(crate) fn with_settings(own: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut map = Self::default();
        let mut taken: BTreeMap<TopKey, &str> = BTreeMap::new();
        for (name, key) in own {
            let Some(row) = KEY_TABLE.iter().find(|row| row.name == name) else {
                let names: Vec<&str> = KEY_TABLE.iter().map(|row| row.name).collect();
                return Err(format!(
                    "`top.keys.{name}` is no action; there are: {}",
                    names.join(", ")
                ));
            };
            let Some(pressed) = TopKey::parse(key) else {
                return Err(format!(
                    "`top.keys.{name} = {key:?}` is no key; write it like n, Enter, Ctrl-n or Alt-n"
                ));
            };
            if let Some(other) = taken.insert(pressed, name) {
                return Err(format!("`top.keys` gives {key:?} to both `{other}` and `{name}`"));
            }
            map.by_key.retain(|_, command| *command != row.command);
        }
        for (pressed, name) in taken {
            let Some(row) = KEY_TABLE.iter().find(|row| row.name == name) else { continue };
            if let Some(other) = map.by_key.insert(pressed, row.command) {
                let other = KEY_TABLE.iter().find(|row| row.command == other);
                return Err(format!(
                    "`top.keys` gives {:?} to `{name}`, and `{}` has it; give that another key",
                    pressed.name(),
                    other.map_or("", |other| other.name)
                ));
            }
        }
        Ok(map)
    }

    /// What a key does; with Shift, which nobody bound, what it does without.
    pub(crate) fn command_of(&self, pressed: TopKey) -> Option<TopCommand> {
        let unshifted = TopKey { shift: false, ..pressed };
        self.by_key.get(&pressed).or_else(|| self.by_key.get(&unshifted)).copied()
    }

    /// The keys that do something, in the order of the table where they are its own.
    pub(crate) fn keys_of(&self, command: TopCommand) -> Vec<String> {
        let row = KEY_TABLE.iter().find(|row| row.command == command);
        let order = |name: &str| row.and_then(|row| row.keys.iter().position(|key| *key == name));
        let bound = self.by_key.iter().filter(|(_, bound)| **bound == command);
        let mut names: Vec<String> = bound.map(|(key, _)| key.name()).collect();
        names.sort_by_key(|name| order(name).unwrap_or(usize::MAX));
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_29_every_key_of_the_table_is_bound_and_none_twice() {
        let all: Vec<&str> = KEY_TABLE.iter().flat_map(|row| row.keys).copied().collect();
        let map = TopKeyMap::default();
        assert_eq!(map.by_key.len(), all.len(), "no key is in the table twice");
        for row in KEY_TABLE {
            assert_eq!(map.keys_of(row.command), row.keys, "{}", row.name);
            assert!(!row.does.is_empty());
        }
        let names: std::collections::BTreeSet<&str> =
            KEY_TABLE.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), KEY_TABLE.len());
    }

    #[test]
    fn a_persons_own_keys_take_the_place_of_ours_and_never_two_actions() {
        let own = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(name, key)| ((*name).to_owned(), (*key).to_owned()));
            TopKeyMap::with_settings(&pairs.collect())
        };
        let map = own(&[("next", "Ctrl-n")]).unwrap();
        assert_eq!(map.keys_of(TopCommand::Next), ["Ctrl-n"]);
        assert_eq!(map.command_of(TopKey::parse("n").unwrap()), None);
        let swapped = own(&[("next", "N"), ("previous", "n")]).unwrap();
        assert_eq!(swapped.keys_of(TopCommand::Previous), ["n"]);
        assert!(own(&[("next", "q")]).unwrap_err().contains("`quit` has it"));
        assert!(own(&[("next", "x"), ("stop", "x")]).unwrap_err().contains("both"));
        assert!(own(&[("fly", "x")]).unwrap_err().contains("no action"));
        assert!(own(&[("next", "xx")]).unwrap_err().contains("no key"));
    }
}
