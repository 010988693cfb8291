//! `ostler events`

use std::process::ExitCode;

use clap::Args;
use flows::observe::ObserveScope;
use model::wire::EventView;

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::{duration, output, text};

declare_commands![CommandEntry {
    place: HelpPlace(See, 5),
    answers: &[stream::<wire::EventView>("")],
    examples: &[
        example("events", "Everything that hooks told so far."),
        example(
            "events --since 0 --json",
            "The same for programs; each event has a cursor to go on from."
        )
    ],
    cases: &[
        empty("events"),
        usual("events").on(Kept),
        refused("events --since yesterday"),
        also("events")
    ],
    uncased: &[ONE_FILE],
    ..entry!("events", EventsArgs, run_events)
}];

/// Show what hooks reported and what was finalized, as a stream that can be resumed.
///
/// Every event has a cursor; `--since CURSOR` gives what came after it, also after a restart of
/// anything. The daemon publishes at once; without it, events appear when `ostler status` or
/// `ostler finalize` takes the spool in.
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// Go on with what comes next, until interrupted.
    #[arg(short, long)]
    follow: bool,
    /// Only what came after this cursor; `now` for only what is yet to come.
    #[arg(long, value_name = "CURSOR", value_parser = parse_cursor)]
    since: Option<EventCursor>,
    /// Only of this session, by its full id.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

#[derive(Clone, Copy, Debug)]
enum EventCursor {
    After(i64),
    Now,
}

fn parse_cursor(text: &str) -> Result<EventCursor, String> {
    if text == "now" {
        return Ok(EventCursor::Now);
    }
    let number = text.parse().ok().filter(|number| *number >= 0);
    number.map(EventCursor::After).ok_or_else(|| "a number that an event gave, or `now`".to_owned())
}

impl EventsArgs {
    pub(crate) fn run_events(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let home = context.machine()?.home();
        let cursor = match self.since {
            None => 0,
            Some(EventCursor::After(cursor)) => cursor,
            Some(EventCursor::Now) => {
                flows::events::newest_cursor(home).map_err(|error| Error::Events(error.into()))?
            }
        };
        let (mut failed, mut seen) = (None, false);
        let mut each = |event: EventView| {
            if self.session.as_ref().is_some_and(|wanted| *wanted != event.session) {
                return true;
            }
            seen = true;
            let told =
                if context.json { output::print_json_line(&event) } else { print_event(&event) };
            failed = told.err();
            failed.is_none()
        };
        let mut notice = |said: &str| output::print_notice(&text::one_line(said));
        flows::events::read_events(home, cursor, self.follow, &mut each, &mut notice)
            .map_err(Error::Events)?;
        if let Some(error) = failed {
            return Err(error);
        }
        // Of a session that hooks told nothing of there are no events; of one that is not there, none
        // can come. After a cursor, silence is an answer.
        let unseen = !seen && self.since.is_none();
        if let Some(text) = self.session.as_ref().filter(|_| unseen) {
            let observation = context.observe_now(ObserveScope::All, &[])?;
            let here = context.current_dir();
            let found = flows::address::resolve_session(&observation, text, &here)?;
            let id = &found.session.id;
            if id != text {
                return Err(Error::usage_error(
                    format!("`--session {text}` is not a full id"),
                    format!("`--session {id}` is"),
                ));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print_event(event: &EventView) -> Result<(), Error> {
    let said = |name: &str| event.detail.get(name).and_then(|value| value.as_str());
    let more = said("prompt").or_else(|| said("message")).or_else(|| said("detail")).unwrap_or("");
    let line = format!(
        "{}  {}  {:13}  {}:{}  {more}",
        event.cursor,
        duration::local_time(event.at),
        event.kind,
        event.agent,
        event.session
    );
    output::print_text(&format!("{}\n", text::one_line(line.trim_end())))
}
