//! `ostler peek`

use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;
use flows::address;
use flows::control::peek::peek_session;
use flows::observe::ObserveScope;
use model::control::wire::PeekResult;
use model::conversation::ConversationRole;

use crate::cli::{CliContext, complete};
use crate::error::Error;
use crate::render::{output, text};

declare_commands![CommandEntry {
    place: HelpPlace(Drive, 3),
    answers: &[answer::<::model::control::wire::PeekResult>()],
    examples: &[
        example("peek 666e4f9b", "What it does, and the last three things that were said."),
        example("peek build --screen", "With what its terminal shows.").on(Driven)
    ],
    cases: &[
        empty("peek 666e4f9b"),
        usual("peek 666e4f9b -n 2"),
        refused("peek no-such-session").on(Worked),
        also("peek build --screen").on(Driven)
    ],
    uncased: &[ONE_FILE],
    ..entry!("peek", PeekArgs, run_peek)
}];

/// Glance at an agent: what it does, what was said last, and the question that is open.
#[derive(Debug, Args)]
pub(crate) struct PeekArgs {
    /// The session, or the terminal that its agent runs in.
    #[arg(value_name = "SESSION", add = ArgValueCandidates::new(complete::complete_sessions))]
    id: String,
    /// How many messages.
    #[arg(short = 'n', value_name = "N", default_value_t = 3)]
    last: usize,
    /// Also what its terminal shows.
    #[arg(long)]
    screen: bool,
}

impl PeekArgs {
    pub(crate) fn run_peek(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let observation = context.observe_now(ObserveScope::All, &[])?;
        let here = context.current_dir();
        let one = address::resolve_session(&observation, &self.id, &here)?;
        let terminals = context.terminals_home()?;
        let result = peek_session(&observation, one, &terminals, self.last, self.screen);
        if context.json {
            context.print_json(&result)?;
        } else {
            output::print_text(&render_peek(&result))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// How much of a message is shown.
const MAX_MESSAGE_COLUMNS: usize = 300;

fn render_peek(result: &PeekResult) -> String {
    let mut page = format!("{} {}  {}", result.agent, result.session, result.status.as_str());
    if let Some(activity) = result.activity {
        page.push_str(&format!(", {}", activity.as_str()));
    }
    if let Some(what) = &result.waiting_for {
        page.push_str(&format!(": {what}"));
    }
    let mut page = text::one_line(&page) + "\n";
    for message in &result.messages {
        let who = match message.role {
            ConversationRole::User => "you",
            ConversationRole::Tool => "tool",
            ConversationRole::Result => "error",
            _ => "agent",
        };
        let said = match &message.tool {
            Some(tool) => format!("{tool} {}", message.text),
            None => message.text.clone(),
        };
        let said = text::cut_right(&text::one_line(said.trim()), MAX_MESSAGE_COLUMNS);
        page.push_str(&format!("  {who:<5} {said}\n"));
    }
    if let Some(screen) = &result.screen {
        page.push_str(&format!("\n{}\n", text::many_lines(screen)));
    }
    page
}
