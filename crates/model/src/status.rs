//! The status policy: what each lifecycle state means, in one table.
//!
//! Every place that asks a question about a status calls the predicate named after the question.
//! A new status does not compile until it has a row, and a row that breaks an invariant does not
//! compile at all.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Makes the statuses, the list of all of them and their words from one list: what is in the enum is in
/// [`Status::ALL`], and so under the invariants below.
macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        /// The lifecycle state of a session.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "lowercase")]
        pub enum Status {
            $($(#[$doc])* $name,)*
        }

        impl Status {
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$name),*];

            /// The word used in JSON, filters and tables.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }
        }
    };
}

statuses! {
    /// Its process is there.
    Running = "running",
    /// A hosted session whose child is gone and whose log is being closed.
    Exiting = "exiting",
    /// Its process is gone: a clean quit as much as a kill.
    Exited = "exited",
    /// It ended without ever having run.
    Failed = "failed",
    /// It is being destroyed on request.
    Destroying = "destroying",
    /// It was destroyed on request.
    Destroyed = "destroyed",
    /// Sight was lost: another host, another namespace, unreadable. It protects.
    Unknown = "unknown",
}

/// One row of the policy table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusPolicy {
    /// Listed by default, and never collected.
    pub active: bool,
    /// Over for good, unless a later sign of life revives it.
    pub terminal: bool,
    /// Accepts input, resize, signals.
    pub commandable: bool,
    /// A host process answers for it.
    pub live_host: bool,
    /// Screens and answers come from its log.
    pub offline_replay: bool,
    /// The reaper may consider it.
    pub collectable: bool,
    /// Its end was asked for by a person or program.
    pub destroyed: bool,
}

const NO_PERMISSIONS: StatusPolicy = StatusPolicy {
    active: false,
    terminal: false,
    commandable: false,
    live_host: false,
    offline_replay: false,
    collectable: false,
    destroyed: false,
};

impl StatusPolicy {
    /// Whether the row keeps the invariants that the rest of ostler relies on.
    pub const fn is_sound(self) -> bool {
        (self.active != self.terminal)
            && (!self.collectable || self.terminal)
            && (!self.commandable || self.active)
            && (self.live_host != self.offline_replay)
            && (!self.destroyed || self.terminal)
    }
}

/// Refuses, at compile time, a table with a row that is not sound.
pub const fn assert_sound(table: &[StatusPolicy]) {
    let mut row = 0;
    while row < table.len() {
        assert!(table[row].is_sound(), "a status policy row breaks an invariant");
        row += 1;
    }
}

const _: () = {
    let mut rows = [NO_PERMISSIONS; Status::ALL.len()];
    let mut row = 0;
    while row < rows.len() {
        rows[row] = Status::ALL[row].policy();
        row += 1;
    }
    assert_sound(&rows);
};

impl Status {
    pub const fn policy(self) -> StatusPolicy {
        match self {
            Self::Running => {
                StatusPolicy { active: true, commandable: true, live_host: true, ..NO_PERMISSIONS }
            }
            Self::Exiting => StatusPolicy { active: true, live_host: true, ..NO_PERMISSIONS },
            Self::Exited | Self::Failed => StatusPolicy {
                terminal: true,
                offline_replay: true,
                collectable: true,
                ..NO_PERMISSIONS
            },
            Self::Destroying => {
                StatusPolicy { active: true, offline_replay: true, ..NO_PERMISSIONS }
            }
            Self::Destroyed => StatusPolicy {
                terminal: true,
                offline_replay: true,
                collectable: true,
                destroyed: true,
                ..NO_PERMISSIONS
            },
            Self::Unknown => StatusPolicy { active: true, offline_replay: true, ..NO_PERMISSIONS },
        }
    }

    /// Is it listed by default and protected from collection?
    pub const fn is_active(self) -> bool {
        self.policy().active
    }

    /// Is it over?
    pub const fn is_terminal(self) -> bool {
        self.policy().terminal
    }

    /// May it be sent input, resized or signalled?
    pub const fn accepts_commands(self) -> bool {
        self.policy().commandable
    }

    /// Does a host process answer for it?
    pub const fn has_live_host(self) -> bool {
        self.policy().live_host
    }

    /// Are its screens derived from the log alone?
    pub const fn replays_offline(self) -> bool {
        self.policy().offline_replay
    }

    /// May the reaper consider it?
    pub const fn is_collectable(self) -> bool {
        self.policy().collectable
    }

    /// Was its end asked for?
    pub const fn is_destroyed(self) -> bool {
        self.policy().destroyed
    }
}

/// What a session that may be live is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Activity {
    /// A turn was started and has not ended.
    Working,
    /// It asked for permission or input.
    Waiting,
    /// The last turn ended.
    Idle,
    /// Nothing says.
    Unknown,
}

impl Activity {
    pub const ALL: [Self; 4] = [Self::Working, Self::Waiting, Self::Idle, Self::Unknown];

    /// The word used in JSON, filters and tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Waiting => "waiting",
            Self::Idle => "idle",
            Self::Unknown => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the design, as people read it.
    #[test]
    fn the_policy_table_is_the_one_in_the_design() {
        let table: Vec<String> = Status::ALL
            .iter()
            .map(|status| {
                let p = status.policy();
                let marks = [
                    p.active,
                    p.terminal,
                    p.commandable,
                    p.live_host,
                    p.offline_replay,
                    p.collectable,
                    p.destroyed,
                ]
                .map(|mark| if mark { 'x' } else { '.' });
                format!("{:<10} {}", status.as_str(), String::from_iter(marks))
            })
            .collect();
        assert_eq!(
            table,
            [
                "running    x.xx...",
                "exiting    x..x...",
                "exited     .x..xx.",
                "failed     .x..xx.",
                "destroying x...x..",
                "destroyed  .x..xxx",
                "unknown    x...x..",
            ]
        );
    }

    #[test]
    fn p11_the_glossary_has_the_same_table() {
        let glossary = include_str!("../../../docs/glossary.md");
        for status in Status::ALL {
            let p = status.policy();
            let columns = [
                p.active,
                p.terminal,
                p.commandable,
                p.live_host,
                p.offline_replay,
                p.collectable,
                p.destroyed,
            ];
            let cells = columns.map(|mark| if mark { " x |" } else { " |" }).concat();
            let row = format!("| {} |{cells}", status.as_str());
            assert!(glossary.lines().any(|line| line == row), "no line {row}");
        }
    }

    #[test]
    fn words_are_the_json_words() {
        for status in Status::ALL {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
        for activity in Activity::ALL {
            assert_eq!(serde_json::to_value(activity).unwrap(), activity.as_str());
        }
    }
}
