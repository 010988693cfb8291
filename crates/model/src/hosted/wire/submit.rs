//! Submitting a prompt to the program on a terminal: one paste, a look whether it stands in the composer,
//! Enter; and how far that came.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The longest text that is submitted through a terminal, in bytes.
pub const LONGEST_SUBMISSION: usize = 64 << 10;

/// The longest name of a delivery.
const LONGEST_DELIVERY: usize = 128;

/// A text to be submitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubmitParams {
    /// Names this submission, so that its proof can be told by another request; chosen by the client.
    pub delivery: String,
    pub text: String,
    /// Also while a person types here.
    #[serde(default)]
    pub over_person: bool,
    /// How long the program may take until it is ready for a text; 0 for not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_timeout_ms: Option<u64>,
    /// Only if Enter was pressed so often by then: whoever looked whether the agent is idle saw that count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_enters: Option<u64>,
    /// Words by which a question of the program's is known. While they show more often than before the paste, Enter
    /// is not pressed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<String>,
}

impl SubmitParams {
    /// The text as it is pasted: line breaks are line feeds.
    pub fn pasted_text(&self) -> String {
        self.text.replace("\r\n", "\n")
    }

    /// Refuses what must not reach a terminal. Nothing has been written then.
    pub fn check_text(&self) -> Result<(), String> {
        if self.delivery.is_empty() || self.delivery.len() > LONGEST_DELIVERY {
            return Err(format!("`delivery` must have 1 to {LONGEST_DELIVERY} bytes"));
        }
        if self.text.len() > LONGEST_SUBMISSION {
            return Err(format!(
                "the text has {} bytes; a terminal takes {LONGEST_SUBMISSION}",
                self.text.len()
            ));
        }
        if self.text.trim().is_empty() {
            return Err("the text is empty".to_owned());
        }
        match self.pasted_text().chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
            Some(control) => Err(format!(
                "the text has the control character U+{:04X}; only line feeds and tabs are submitted",
                u32::from(control)
            )),
            None => Ok(()),
        }
    }
}

/// How far a submission came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SubmissionState {
    /// The program did not become ready for a text. Nothing was written.
    NotReady,
    /// Something stands in the composer that was typed and not sent. Nothing was written.
    ComposerNotEmpty,
    /// A person types here. Nothing was written.
    PersonTypes,
    /// Enter was pressed more often than the client knew. Nothing was written.
    Overtaken,
    /// The text was pasted and not seen on the screen. Enter was not pressed.
    NotComposed,
    /// Enter was pressed and the text has left the composer, or the client has proof.
    Submitted,
    /// Enter was pressed as often as may be, and the text still stands in the composer.
    Stuck,
    /// The program ended before more could be said.
    Ended,
}

/// The result of a submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubmitResult {
    /// How far it came.
    pub state: SubmissionState,
    /// How often Enter was pressed.
    pub enters: u32,
    /// The last event before anything was written; -1 when there was none.
    pub noted_seq: i64,
    /// From the paste until the text was seen to stand in the composer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub composed_ms: Option<u64>,
    /// What the screen showed at the end.
    pub screen: String,
}

/// The client has found the proof of its submission, or gives it up: Enter is not pressed again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubmissionProofParams {
    pub delivery: String,
    /// Only if Enter was pressed: what was recorded before that is no proof of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub if_entered: bool,
}

/// Whether that made a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubmissionProofAnswer {
    /// Whether the submission was still under way.
    pub under_way: bool,
    /// Whether Enter was not pressed yet, so that it stays so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub too_early: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> Result<(), String> {
        let params =
            SubmitParams { delivery: "d".to_owned(), text: text.to_owned(), ..Default::default() };
        params.check_text()
    }

    #[test]
    fn row_12_control_characters_are_refused_before_a_byte_is_written() {
        for text in ["a\x1bb", "a\x03", "x\x1b[201~y", "a\0", "one\rtwo", "\u{9b}31m", "a\x7f"] {
            assert!(refusal(text).unwrap_err().contains("control character"), "{text:?}");
        }
        for text in ["one\r\ntwo", "a\tb", "日本 👩‍👩‍👧", "--help", "-"] {
            assert_eq!(refusal(text), Ok(()), "{text:?}");
        }
    }

    #[test]
    fn row_90_an_empty_text_and_one_that_is_too_long_are_refused() {
        assert!(refusal("").is_err() && refusal(" \n\t ").is_err());
        assert!(refusal(&"a".repeat(LONGEST_SUBMISSION)).is_ok());
        assert!(refusal(&"a".repeat(LONGEST_SUBMISSION + 1)).is_err());
    }
}
