//! Tools that look at hosted terminals of the project: their screen, a picture of it, waiting for a change.

use flows::control::agent_wait::{AgentWait, AwaitedActivity, AwaitedAgent, wait_for_agent};
use flows::observe::ObserveScope;
use flows::terminal::screen::png::ShowCursor;
use flows::terminal::{HostedSession, look, picture, wait};
use model::hosted::wire::{RenderParams, SnapshotFormat, SnapshotParams, WaitResult};
use model::status::Activity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::quote::QuotedText;
use super::super::server::McpCall;
use super::McpTool;
use crate::error::Error;

/// The most characters of a screen.
const MOST_SCREEN_CHARS: usize = 40_000;

/// The longest wait; a client that wants more asks again.
const MOST_WAIT_MS: u64 = 300_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TerminalInput {
    /// The terminal's id or name.
    id: String,
}

pub(super) struct ReadScreen;

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReadScreenOutput {
    cols: u16,
    rows: u16,
    cursor_row: u16,
    cursor_col: u16,
    /// For `wait` with `changed`.
    screen_hash: String,
    quoted_screen: QuotedText,
}

impl McpTool for ReadScreen {
    const NAME: &'static str = "read_screen";
    const DESCRIPTION: &'static str =
        "Reads the screen of a hosted terminal of this project. It changes nothing there.";
    type Input = TerminalInput;
    type Output = ReadScreenOutput;

    fn run(state: &McpCall<'_>, input: TerminalInput) -> Result<ReadScreenOutput, Error> {
        let terminal = state.find_visible_terminal(&input.id)?;
        let params = SnapshotParams { format: SnapshotFormat::Text, ..SnapshotParams::default() };
        let seen = look::take_snapshot(&terminal, &params)?;
        let text = seen.text.as_deref().unwrap_or_default();
        Ok(ReadScreenOutput {
            cols: seen.cols,
            rows: seen.rows,
            cursor_row: seen.cursor_row,
            cursor_col: seen.cursor_col,
            quoted_screen: QuotedText::passage(text, MOST_SCREEN_CHARS),
            screen_hash: seen.screen_hash,
        })
    }
}

pub(super) struct TakeScreenshot;

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PictureOutput {
    pixel_width: u32,
    pixel_height: u32,
    #[serde(skip)]
    png: Vec<u8>,
}

impl McpTool for TakeScreenshot {
    const NAME: &'static str = "screenshot";
    const DESCRIPTION: &'static str =
        "Draws the screen of a hosted terminal of this project as a picture.";
    type Input = TerminalInput;
    type Output = PictureOutput;

    fn run(state: &McpCall<'_>, input: TerminalInput) -> Result<PictureOutput, Error> {
        let terminal = state.find_visible_terminal(&input.id)?;
        let context = state.call_context();
        let profile = context.render_profile(None)?;
        refuse_shown_secrets(&terminal)?;
        let drawn = picture::draw_terminal(&terminal, &profile, ShowCursor::No)?;
        // It may have come between the two looks.
        refuse_shown_secrets(&terminal)?;
        let (pixel_width, pixel_height) = (drawn.pixel_width, drawn.pixel_height);
        Ok(PictureOutput { pixel_width, pixel_height, png: drawn.png })
    }

    fn picture(output: &PictureOutput) -> Option<Vec<u8>> {
        Some(output.png.clone())
    }
}

/// A picture cannot be redacted.
fn refuse_shown_secrets(terminal: &HostedSession) -> Result<(), Error> {
    let params = SnapshotParams { format: SnapshotFormat::Text, ..SnapshotParams::default() };
    let seen = look::take_snapshot(terminal, &params)?;
    let (_, secrets) = flows::redact::redact(seen.text.as_deref().unwrap_or_default());
    match secrets.is_empty() {
        true => Ok(()),
        false => Err(Error::Refused {
            what: "the screen shows what looks like a secret, which a picture would give away"
                .to_owned(),
            hint: "read it with `read_screen`, which leaves secrets out".to_owned(),
        }),
    }
}

pub(super) struct WaitFor;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct WaitInput {
    /// The terminal's id or name.
    id: String,
    /// Until this text is shown.
    #[serde(default)]
    text: Option<String>,
    /// Until this text is no longer shown.
    #[serde(default)]
    gone: Option<String>,
    /// Until the screen is another one than this: `screenHash` of `read_screen`.
    #[serde(default)]
    changed: Option<String>,
    /// Until the agent in the terminal does this.
    #[serde(default)]
    agent: Option<AgentState>,
    /// How long, at most 300,000.
    #[serde(default)]
    timeout_ms: Option<u64>,
}

/// What an agent can be waited for to do.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum AgentState {
    Working,
    Waiting,
    Idle,
    Ended,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaitOutput {
    /// Whether it came; otherwise the time was up, or the program ended first.
    matched: bool,
    timed_out: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
}

impl From<WaitResult> for WaitOutput {
    fn from(result: WaitResult) -> Self {
        Self {
            matched: result.matched.unwrap_or(false),
            timed_out: result.timed_out,
            exit_code: result.exit_code,
        }
    }
}

impl McpTool for WaitFor {
    const NAME: &'static str = "wait";
    const DESCRIPTION: &'static str = "Waits until a hosted terminal shows a text, no longer shows one, changes, \
        or until the agent in it works, waits, is idle or has ended.";
    type Input = WaitInput;
    type Output = WaitOutput;

    fn run(state: &McpCall<'_>, input: WaitInput) -> Result<WaitOutput, Error> {
        let terminal = state.find_visible_terminal(&input.id)?;
        let timeout_ms = input.timeout_ms.unwrap_or(30_000).clamp(1, MOST_WAIT_MS);
        if let Some(agent) = input.agent {
            let wanted = match agent {
                AgentState::Working => AwaitedActivity::Does(Activity::Working),
                AgentState::Waiting => AwaitedActivity::Does(Activity::Waiting),
                AgentState::Idle => AwaitedActivity::Does(Activity::Idle),
                AgentState::Ended => AwaitedActivity::Ended,
            };
            let source = state.call_context().live_source(ObserveScope::Active, &[])?;
            let agent = AwaitedAgent::InTerminal(&terminal);
            let cancelled = Some(state.cancelled);
            let wait = AgentWait { agent, wanted, timeout_ms: Some(timeout_ms), cancelled };
            return Ok(wait_for_agent(&wait, source)?.into());
        }
        let params = RenderParams {
            text: input.text,
            gone: input.gone,
            changed_since: input.changed,
            timeout_ms: Some(timeout_ms),
            ..RenderParams::default()
        };
        wait::check_conditions(&params)?;
        Ok(wait::wait_for_render_unless(&terminal, &params, Some(state.cancelled))?.into())
    }
}
