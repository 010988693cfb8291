//! The tool that prompts another session, with a receipt.

use std::time::Duration;

use flows::control::deliveries::ControlLedger;
use flows::control::prompt::{PromptRequest, deliver_prompt};
use flows::observe::ObserveScope;
use model::control::delivery::delivery_failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::scope;
use super::super::server::McpCall;
use super::{McpTool, ToolEffect};
use crate::config::McpRight;
use crate::error::Error;
use crate::timeouts::PROMPT_RECORD_TIMEOUT;

pub(super) struct PromptSession;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PromptCallInput {
    /// The session's id, or an unambiguous beginning of it.
    id: String,
    text: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptOutput {
    /// Names the delivery.
    delivery: String,
    /// `accepted` only when the agent's own record holds the text.
    state: String,
    session: String,
}

impl McpTool for PromptSession {
    const NAME: &'static str = "prompt_session";
    const DESCRIPTION: &'static str = "Sends a prompt to an idle agent of this project that runs in a hosted \
        terminal, and says `accepted` only when that agent's own record holds it. Never to the caller itself.";
    const RIGHT: Option<McpRight> = Some(McpRight::Prompt);
    const EFFECT: ToolEffect = ToolEffect::Adds;
    type Input = PromptCallInput;
    type Output = PromptOutput;

    fn run(state: &McpCall<'_>, input: PromptCallInput) -> Result<PromptOutput, Error> {
        let context = state.call_context();
        let observation = context.observe_now(ObserveScope::All, &[])?;
        let target = state.find_visible(&observation, &input.id)?.session.session_name();
        let caller = scope::calling_session(&observation);
        let calling = caller.map(|one| one.session.session_name());
        if caller.is_some_and(|caller| scope::is_answering(&observation, caller, &target)) {
            return Err(Error::Refused {
                what: format!("{target} prompted this session, itself or through others"),
                hint: "answer here: whoever asked can read it with `read_talk`".to_owned(),
            });
        }
        if calling.as_ref() == Some(&target) || state.place.is_above(&target) {
            return Err(Error::Refused {
                what: format!("{target} is the session that asks, or one that started it"),
                hint: "prompt another session".to_owned(),
            });
        }
        let _turn = state.hold_target(&target)?;
        // Who reads it can tell a program's words from a person's.
        let sender = calling.map_or_else(|| "an MCP client".to_owned(), |name| name.to_string());
        let request = PromptRequest {
            target,
            text: format!("{}{}", scope::sender_mark(&sender), input.text),
            into_working: false,
            is_command: false,
            over_person: false,
            key: None,
            wait_idle: false,
            path: crate::env::lookup_variable("PATH").unwrap_or_default(),
            // One that works has not answered the last prompt yet.
            idle_timeout: Duration::ZERO,
            accept_timeout: PROMPT_RECORD_TIMEOUT,
        };
        let mut observe = || context.observe_later(&[]);
        let mut ledger = ControlLedger::new(context.machine()?);
        let home = context.terminals_home()?;
        let delivery = deliver_prompt(&home, &request, &mut ledger, &mut observe)?;
        if delivery_failure(delivery.state, None).is_some() {
            return Err(Error::NotDelivered(Box::new(delivery)));
        }
        Ok(PromptOutput {
            delivery: delivery.id,
            state: delivery.state.as_str().to_owned(),
            session: delivery.session,
        })
    }
}
