//! `ostler events`

use std::process::ExitCode;

use clap::Args;
use flows::events::FollowTerms;
use flows::observe::ObserveScope;
use model::helper::HelperAsk;
use model::wire::{EventView, FleetChange};

use crate::cli::{CliContext, fleet};
use crate::error::Error;
use crate::helper;
use crate::render::{duration, output, text};

declare_commands![CommandEntry {
    place: HelpPlace(See, 8),
    answers: &[stream::<wire::EventView>(""), stream::<wire::FleetChange>(" --fleet")],
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
    /// With --follow: how every member of the fleet and each of its sessions is, and every change (docs/fleet.md).
    #[arg(long, requires = "follow", conflicts_with_all = ["since", "session"])]
    fleet: bool,
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
        if self.fleet {
            return follow_fleet(context);
        }
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
        let follow = self.follow.then_some(FollowTerms {
            // A command is ended by its signal; a server goes on, and has to look whether its client left.
            is_heard: if output::is_served() { Some(&|| !output::is_reader_gone()) } else { None },
            notice: &mut notice,
        });
        flows::events::read_events(home, cursor, follow, &mut each).map_err(Error::Events)?;
        if let Some(error) = failed {
            return Err(error);
        }
        // Of a session that hooks told nothing of there are no events; of one that is not there, none
        // can come. After a cursor, silence is an answer.
        let unseen = !seen && self.since.is_none();
        if unseen && self.session.is_none() && output::is_terminal() {
            output::print_notice("nothing was reported yet: `ostler setup` lets agents report");
        }
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

/// Prints what happens in the fleet until it is interrupted.
fn follow_fleet(context: &CliContext) -> Result<ExitCode, Error> {
    fleet::need_fleet(context)?;
    let mut failed = None;
    helper::follow_helper(context.machine()?, HelperAsk::FleetFollow, &mut |line| {
        let told = match context.json {
            true => output::print_foreign(line),
            false => match serde_json::from_slice::<FleetChange>(line) {
                Ok(change) => output::print_text(&describe_change(&change)),
                Err(error) => Err(error.into()),
            },
        };
        failed = told.err();
        failed.is_none()
    })?;
    match failed {
        Some(error) => Err(error),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn describe_change(change: &FleetChange) -> String {
    let line = match change {
        FleetChange::Member(view) => fleet::member_line(view),
        FleetChange::MemberGone { member } => format!("{}  is no member any more", member.name),
        FleetChange::Session(one) => {
            let text = |name: &str| one.text(name).unwrap_or("");
            let state = one.text("activity").unwrap_or_else(|| text("status"));
            let name = &one.member.name;
            format!("{name}/{}  {}  {state}  {}", text("id"), text("agent"), text("title"))
        }
        FleetChange::SessionGone { member, agent, id } => {
            format!("{}/{id}  {agent}  is not told of any more", member.name)
        }
        FleetChange::Hub(hub) => {
            format!("hub {}  {}", hub.url, hub.reason.as_deref().unwrap_or("is lost"))
        }
    };
    text::one_line(line.trim_end()) + "\n"
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
