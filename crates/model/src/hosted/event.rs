//! A line of `events.jsonl`, apart from output, which is written and read as bytes.

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// What `exitCode` says when a signal ended the program.
pub const EXIT_CODE_OF_A_SIGNAL: i32 = 0;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEvent<'a> {
    /// Its place, from 0, without gaps.
    pub seq: u64,
    pub at: Time,
    pub payload: LogPayload<'a>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPayload<'a> {
    /// The program wrote these bytes.
    Output(&'a [u8]),
    Fact(LogFact),
}

/// What happened, apart from output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "payload", rename_all = "snake_case")]
pub enum LogFact {
    /// Text was typed.
    #[serde(rename_all = "camelCase")]
    InputText {
        /// As it was sent.
        data: String,
        /// Who, where that is known: the tab of a page.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// Text was pasted.
    #[serde(rename_all = "camelCase")]
    InputPaste {
        /// As it was sent, with its brackets.
        data: String,
        /// Who, where that is known: the tab of a page.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// Keys were pressed.
    #[serde(rename_all = "camelCase")]
    InputKeys {
        keys: Vec<String>,
        /// Who, where that is known: the tab of a page.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A command was given to the shell.
    #[serde(rename_all = "camelCase")]
    InputRun {
        command: String,
        /// Whether no client waits for its end.
        no_wait: bool,
        /// Names the run, when a client waits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        marker: Option<String>,
        /// Who, where that is known: the tab of a page.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A command that was waited for ended.
    #[serde(rename_all = "camelCase")]
    RunComplete {
        /// Names the run.
        marker: String,
        /// The event that began it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input_run_seq: Option<u64>,
        /// How it ended; written under ostler's name only.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
    },
    /// The terminal changed its size.
    Resize { cols: u16, rows: u16 },
    /// A mark was set.
    Marker {
        /// What it says.
        label: String,
    },
    /// A signal was sent.
    Signal { signal: String },
    /// The program ended: the last event.
    #[serde(rename_all = "camelCase")]
    Exit {
        exit_code: Option<i32>,
        /// The number of the signal that ended it.
        exit_signal: Option<String>,
    },
    /// Nothing could be written for a while; written under ostler's name only.
    Gap {
        /// Bytes of output that are missing.
        bytes: u64,
        /// Events that are missing.
        events: u64,
        reason: String,
    },
}
