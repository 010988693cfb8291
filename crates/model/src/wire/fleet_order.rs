//! Orders from afar: which commands an operator may give to a member, at which level and with which options.
//!
//! Pure. An order is a command's name, options by their long names, and words; nothing in it can become
//! another option, and what the table does not name is refused. Both sides read the same table.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::FleetLevel;
use crate::time::Time;

/// A command that can be ordered from afar.
#[derive(Debug, PartialEq, Eq)]
pub struct OrderRule {
    /// Its name, as it is typed.
    pub command: &'static str,
    /// What it takes.
    pub level: FleetLevel,
    /// The options that may be given.
    pub options: &'static [&'static str],
    /// Options that take more than the command alone.
    pub raised_by: &'static [(&'static str, FleetLevel)],
    /// Options that are always given.
    pub always: &'static [&'static str],
    /// Whether it waits for something by its nature.
    pub waits: bool,
    /// Whether it goes on, as a stream, instead of ending with an answer.
    pub streams: bool,
}

const fn rule(
    command: &'static str,
    level: FleetLevel,
    options: &'static [&'static str],
) -> OrderRule {
    OrderRule { command, level, options, raised_by: &[], always: &[], waits: false, streams: false }
}

use FleetLevel::{Drive, Read, Reap};

/// Every command that can be ordered.
pub const ORDER_RULES: &[OrderRule] = &[
    rule("ls", Read, &["all", "agent"]),
    rule("show", Read, &[]),
    rule("why", Read, &[]),
    rule("who", Read, &[]),
    rule("logs", Read, &["lines", "from", "limit", "blocks", "full", "all"]),
    rule("events", Read, &["since", "session"]),
    rule("peek", Read, &["screen"]),
    rule(
        "search",
        Read,
        &[
            "regex",
            "case",
            "agent",
            "since",
            "filter",
            "role",
            "tool",
            "subagents",
            "limit",
            "context",
            "sort",
        ],
    ),
    rule("usage", Read, &["by", "since", "until", "agent", "csv"]),
    rule("du", Read, &["agent", "top"]),
    rule("ps", Read, &["agent", "orphans"]),
    rule("adapters", Read, &[]),
    rule("trash ls", Read, &[]),
    rule("access list", Read, &[]),
    rule("inspect", Read, &[]),
    rule("snapshot", Read, &["format", "include-scrollback", "include-cells"]),
    // Not `out`: where a picture goes there is nobody else's to say.
    rule("screenshot", Read, &["profile", "show-cursor", "hide-cursor"]),
    rule("outcome", Read, &[]),
    OrderRule { always: &["no-sweep"], ..rule("doctor", Read, &["no-sweep"]) },
    OrderRule { always: &["no-sweep"], ..rule("status", Read, &["all", "no-sweep"]) },
    OrderRule {
        waits: true,
        ..rule("wait", Read, &["text", "regex", "gone", "exit", "idle-ms", "timeout"])
    },
    OrderRule {
        raised_by: &[("yes", Reap)],
        ..rule(
            "gc",
            Read,
            &["include", "older-than", "max-bytes", "keep", "agent", "dry-run", "yes", "plan"],
        )
    },
    rule("create", Drive, &["agent", "cwd", "name", "cols", "rows", "term", "env", "scrollback"]),
    OrderRule {
        waits: true,
        ..rule(
            "prompt",
            Drive,
            &["now", "command", "over-person", "key", "wait", "timeout", "accept-timeout"],
        )
    },
    rule("type", Drive, &["append-newline"]),
    rule("paste", Drive, &["append-newline"]),
    rule("send-keys", Drive, &[]),
    OrderRule { waits: true, ..rule("run", Drive, &["timeout", "no-wait", "capture"]) },
    rule("resize", Drive, &["cols", "rows"]),
    OrderRule { streams: true, ..rule("attach", Drive, &ATTACH_OPTIONS) },
    rule("mark", Drive, &[]),
    rule("signal", Drive, &[]),
    rule("pin", Drive, &["remove", "note"]),
    OrderRule {
        waits: true,
        ..rule("stop", Reap, &["grace", "now", "turn", "dry-run", "identity", "orphans"])
    },
    rule("destroy", Reap, &["force"]),
    rule("finalize", Reap, &["dry-run"]),
    rule("undo", Reap, &["beside"]),
    rule("access stop", Reap, &[]),
];

/// What an attachment is begun with, and what is said about it while it lasts.
const ATTACH_OPTIONS: [&str; 8] =
    ["read-only", "take", "size", "stream", "redraw", "input", "number", "end"];

/// Signals that only interrupt, redraw or wake a program.
const GENTLE_SIGNALS: [&str; 3] = ["INT", "WINCH", "CONT"];

/// The most words and options of an order.
const MOST_PARTS: usize = 256;

/// The longest value or word.
const MOST_PART_BYTES: usize = 32 << 10;

/// What a command is given: options by their long names, flags without values, and words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OrderArguments {
    /// Options by their long names, without dashes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
}

impl OrderRule {
    /// The rule of a command; none if it cannot be ordered from afar.
    pub fn of_command(command: &str) -> Option<&'static Self> {
        ORDER_RULES.iter().find(|rule| rule.command == command)
    }

    /// The rule of a verb, as a subject names it.
    pub fn of_verb(verb: &str) -> Option<&'static Self> {
        ORDER_RULES.iter().find(|rule| rule.verb() == verb)
    }

    /// The command as one token of a subject.
    pub fn verb(&self) -> String {
        self.command.replace(' ', "-")
    }

    /// What an order with these arguments takes.
    pub fn level_of(&self, arguments: &OrderArguments) -> FleetLevel {
        let raised =
            self.raised_by.iter().filter(|(name, _)| arguments.options.contains_key(*name));
        let level = raised.map(|(_, level)| *level).max().unwrap_or(self.level);
        let signal = arguments.words.get(1).map_or("", String::as_str);
        let is_gentle =
            GENTLE_SIGNALS.contains(&signal.trim_start_matches("SIG").to_uppercase().as_str());
        match self.command {
            "signal" if !is_gentle => Reap,
            "attach" if only_looks(&arguments.options) => Read,
            _ => level.max(self.level),
        }
    }

    /// Why the arguments are not taken, if they are not.
    pub fn check_arguments(&self, arguments: &OrderArguments) -> Result<(), String> {
        let parts = arguments.options.values().map(Vec::len).sum::<usize>()
            + arguments.options.len()
            + arguments.words.len();
        if parts > MOST_PARTS {
            return Err("it has too many arguments".to_owned());
        }
        for (name, values) in &arguments.options {
            if !self.options.contains(&name.as_str()) {
                return Err(format!("`--{name}` of `{}` cannot be used from afar", self.command));
            }
            values.iter().try_for_each(|value| check_part(value))?;
        }
        for word in &arguments.words {
            check_part(word)?;
            // They mean this directory, the newest, or standard input: of whom would not be clear.
            if word == "-" || word == "." {
                return Err(format!("`{word}` has no meaning from afar: name the session"));
            }
        }
        Ok(())
    }

    /// The command line, without the program's name: nothing in it becomes another option.
    pub fn command_line(&self, arguments: &OrderArguments, json: bool) -> Vec<String> {
        let mut line: Vec<String> = self.command.split(' ').map(str::to_owned).collect();
        for (name, values) in &arguments.options {
            match values.is_empty() {
                true => line.push(format!("--{name}")),
                false => line.extend(values.iter().map(|value| format!("--{name}={value}"))),
            }
        }
        let missing = self.always.iter().filter(|name| !arguments.options.contains_key(**name));
        line.extend(missing.map(|name| format!("--{name}")));
        if json {
            line.push("--json".to_owned());
        }
        if !arguments.words.is_empty() {
            line.push("--".to_owned());
            line.extend(arguments.words.iter().cloned());
        }
        line
    }
}

/// Whether an attachment, or what is said about one, changes nothing. The size with which somebody begins to look is
/// only theirs; the size in what is said later is the terminal's.
fn only_looks(options: &BTreeMap<String, Vec<String>>) -> bool {
    let has = |name: &str| options.contains_key(name);
    let drives = has("input") || has("take") || (has("stream") && has("size"));
    has("read-only") && !drives
}

fn check_part(text: &str) -> Result<(), String> {
    match text.len() > MOST_PART_BYTES || text.contains('\0') {
        true => Err("an argument is too long, or holds a NUL".to_owned()),
        false => Ok(()),
    }
}

/// What an operator asks of a member; sealed by the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderAsk {
    pub v: u32,
    /// Its id: one for all that is asked about one order.
    pub id: String,
    /// The member's id.
    pub to: String,
    /// The operator's name.
    pub from: String,
    /// What it takes.
    pub level: FleetLevel,
    /// The command, as a token.
    pub verb: String,
    /// What the command is given.
    #[serde(default)]
    pub args: OrderArguments,
    /// Whether the answer is JSON.
    #[serde(default)]
    pub json: bool,
    /// The permission that was granted when it was prepared; with it, it is carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<String>,
    /// Where a long answer goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u64>,
}

/// What a member answers; sealed by the member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderAnswer {
    pub v: u32,
    /// The order's id.
    pub id: String,
    /// The member's id.
    pub from: String,
    /// What it says.
    pub reply: OrderReply,
}

/// What a member says to an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum OrderReply {
    /// It would be done; the grant is for one use.
    #[serde(rename_all = "camelCase")]
    Prepared {
        grant: String,
        /// For how long it is good.
        expires_ms: u64,
        /// What would be done.
        would: String,
        /// The plan that it is bound to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plan: Option<String>,
    },
    /// The command has run.
    Done {
        /// How it ended.
        exit: u8,
        /// A part of what it printed, as base64.
        body: String,
        /// Where the rest is to be had.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cursor: Option<u64>,
    },
    /// Nothing was done.
    Refused { reason: String, hint: String },
    /// Too much is being done; nothing was done.
    Busy,
    /// It was handed over, and what came of it is not known.
    Unknown { reason: String },
}

/// A part of what a terminal shows; sealed by the member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalChunk {
    /// The version of this form.
    pub v: u32,
    /// The attachment's id.
    pub stream: String,
    /// How many bytes of it came before.
    pub position: u64,
    /// Whole frames, as base64.
    pub frames: String,
    /// Whether nothing follows.
    #[serde(default)]
    pub last: bool,
}

/// What a member's daemon is asked to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderedRun {
    /// The command, as a token.
    pub verb: String,
    /// What the command is given.
    pub args: OrderArguments,
    /// Whether the answer is JSON.
    pub json: bool,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderedRunResult {
    /// The exit code.
    pub exit: u8,
    /// What it printed, as base64.
    pub body: String,
}

/// What became of an order, as the member noted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OrderState {
    /// It was noted, and then handed to the daemon; its end was not noted.
    Begun,
    /// It was done.
    Applied,
    /// Nothing was done.
    NotApplied,
    /// It ran, and what it did is not certain.
    Unknown,
    /// It was asked about before it came, and is refused since.
    Void,
}

/// One order in a member's journal, noted before anything is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrderEntry {
    pub id: String,
    /// Who gave it.
    pub operator: String,
    /// What it took.
    pub level: FleetLevel,
    pub command: String,
    /// When it was noted.
    pub at: Time,
    /// What became of it.
    pub state: OrderState,
    /// How the command ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<u8>,
    /// The receipt, if something was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
}

/// A member's journal of orders: the newest ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderJournal {
    /// From the oldest to the newest.
    pub orders: Vec<OrderEntry>,
    /// Of each operator, the highest id that was dropped to make room.
    #[serde(default)]
    pub dropped: BTreeMap<String, String>,
}

/// How many orders a journal keeps.
const MOST_ENTRIES: usize = 500;

/// The journal's file, below the home.
pub const ORDER_JOURNAL: &str = "fleet/orders.json";

impl OrderJournal {
    /// An order by its id.
    pub fn find(&self, id: &str) -> Option<&OrderEntry> {
        self.orders.iter().find(|entry| entry.id == id)
    }

    /// Notes an order, or what became of it.
    pub fn note(&mut self, entry: OrderEntry) {
        match self.orders.iter_mut().find(|one| one.id == entry.id) {
            Some(one) => *one = entry,
            None => self.orders.push(entry),
        }
        let surplus = self.orders.len().saturating_sub(MOST_ENTRIES);
        for entry in self.orders.drain(..surplus) {
            let highest = self.dropped.entry(entry.operator).or_default();
            *highest = std::mem::take(highest).max(entry.id);
        }
    }

    /// What became of an order. One that was never noted was never begun, unless its entry may have been
    /// dropped.
    pub fn outcome_of(&self, operator: Option<&str>, id: &str) -> OrderState {
        match self.find(id) {
            Some(entry) => match entry.state {
                OrderState::Begun | OrderState::Unknown => OrderState::Unknown,
                OrderState::Void | OrderState::NotApplied => OrderState::NotApplied,
                OrderState::Applied => OrderState::Applied,
            },
            None => {
                let dropped = |(name, highest): (&String, &String)| {
                    operator.is_none_or(|operator| operator == name) && highest.as_str() >= id
                };
                match self.dropped.iter().any(dropped) {
                    true => OrderState::Unknown,
                    false => OrderState::NotApplied,
                }
            }
        }
    }
}

/// What an exit code says about whether something was done.
pub const fn state_of_exit(exit: u8) -> OrderState {
    match exit {
        0 | 12 => OrderState::Applied,
        2..=4 | 13 => OrderState::NotApplied,
        _ => OrderState::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(options: &[(&str, &str)], words: &[&str]) -> OrderArguments {
        let mut made = OrderArguments::default();
        for (name, value) in options {
            let values = made.options.entry((*name).to_owned()).or_default();
            values.extend(Some((*value).to_owned()).filter(|value| !value.is_empty()));
        }
        made.words = words.iter().map(|word| (*word).to_owned()).collect();
        made
    }

    #[test]
    fn levels_follow_from_the_command_and_what_it_is_given() {
        let level = |command: &str, arguments: &OrderArguments| {
            OrderRule::of_command(command).unwrap().level_of(arguments)
        };
        assert_eq!(level("show", &arguments(&[], &["x"])), Read);
        assert_eq!(level("gc", &arguments(&[], &[])), Read);
        assert_eq!(level("gc", &arguments(&[("yes", "")], &[])), Reap);
        assert_eq!(level("signal", &arguments(&[], &["x", "SIGINT"])), Drive);
        assert_eq!(level("signal", &arguments(&[], &["x", "int"])), Drive);
        assert_eq!(level("signal", &arguments(&[], &["x", "KILL"])), Reap);
        assert_eq!(level("signal", &arguments(&[], &["x"])), Reap);
        let attach = |names: &[&str]| {
            let options: Vec<_> = names.iter().map(|name| (*name, "x")).collect();
            level("attach", &arguments(&options, &["x"]))
        };
        assert_eq!(attach(&[]), Drive);
        for only_looks in [&["read-only"][..], &["read-only", "size"], &["read-only", "stream"]] {
            assert_eq!(attach(only_looks), Read, "{only_looks:?}");
        }
        // To say that one only looks lowers nothing that types.
        for drives in [&["input", "number"][..], &["take"], &["size"]] {
            assert_eq!(
                attach(&[&["read-only", "stream"][..], drives].concat()),
                Drive,
                "{drives:?}"
            );
        }
        assert_eq!(attach(&["read-only", "take"]), Drive);
        assert!(OrderRule::of_command("setup").is_none());
        assert!(OrderRule::of_command("fleet evict").is_none());
    }

    #[test]
    fn row_72_no_argument_becomes_another() {
        let show = OrderRule::of_command("show").unwrap();
        let line = show.command_line(&arguments(&[], &["--help"]), true);
        assert_eq!(line, ["show", "--json", "--", "--help"]);
        assert!(show.check_arguments(&arguments(&[("file", "/etc/passwd")], &[])).is_err());
        assert!(show.check_arguments(&arguments(&[], &["-"])).is_err());
        assert!(show.check_arguments(&arguments(&[], &["a\0b"])).is_err());
        let status = OrderRule::of_command("status").unwrap();
        assert_eq!(
            status.command_line(&OrderArguments::default(), false),
            ["status", "--no-sweep"]
        );
        assert_eq!(OrderRule::of_verb("trash-ls").unwrap().command, "trash ls");
    }

    #[test]
    fn a_journal_says_not_applied_only_of_what_it_would_know() {
        let entry = |number: usize, state| OrderEntry {
            id: format!("{number:04}"),
            operator: "ada".to_owned(),
            level: Reap,
            command: "gc".to_owned(),
            at: Time::from_millis(0),
            state,
            exit: None,
            receipt: None,
        };
        let mut journal = OrderJournal::default();
        journal.note(entry(1, OrderState::Begun));
        assert_eq!(journal.outcome_of(Some("ada"), "0001"), OrderState::Unknown);
        journal.note(entry(1, OrderState::Applied));
        assert_eq!(journal.outcome_of(Some("ada"), "0001"), OrderState::Applied);
        assert_eq!(journal.orders.len(), 1);
        assert_eq!(journal.outcome_of(Some("ada"), "0000"), OrderState::NotApplied);
        (2..=MOST_ENTRIES + 1).for_each(|number| journal.note(entry(number, OrderState::Applied)));
        assert_eq!(journal.outcome_of(Some("ada"), "0001"), OrderState::Unknown);
        assert_eq!(journal.outcome_of(Some("bob"), "0001"), OrderState::NotApplied);
        assert_eq!(journal.outcome_of(Some("ada"), "9999"), OrderState::NotApplied);
    }
}
