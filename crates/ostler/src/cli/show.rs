//! `ostler show`

use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;
use flows::address;
use flows::launches;
use flows::observe::{ObserveScope, Observed};
use model::rules::explain::explain_verdict;
use model::session::SessionKind;
use model::wire::{LaunchView, ShowResult};

use crate::cli::{CliContext, complete, ls};
use crate::error::{self, Error};
use crate::render::colour::Painter;
use crate::render::{output, sessions};

declare_commands![CommandEntry {
    place: HelpPlace(Everyday, 2),
    answers: &[answer::<wire::ShowResult<'static>>()],
    examples: &[
        example("show 666e4f9b", "A session, by the beginning of its id."),
        example("show -", "The newest one.")
    ],
    cases: &[
        empty("show 666e4f9b"),
        usual("show 666e4f9b"),
        refused("show no-such-session").on(Worked),
        refused("show 0").on(Worked),
        incomplete("show 666e4f9b")
    ],
    ..entry!("show", ShowArgs, run_show)
}];

/// Show one session in full.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The session: an id, an unambiguous prefix, a name, `.` or `-`.
    #[arg(add = ArgValueCandidates::new(complete::complete_sessions))]
    id: String,
}

impl ShowArgs {
    pub(crate) fn run_show(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let observation = context.observe_now(ObserveScope::All, &[])?;
        let here = std::env::current_dir().unwrap_or_default();
        let one = address::resolve_session(&observation, &self.id, &here)?;
        let children: Vec<&Observed> = observation
            .subagents
            .iter()
            .filter(|child| child.session.digest.parent.as_deref() == Some(&*one.session.id))
            .collect();
        let launch = match one.session.kind {
            SessionKind::Hosted => launches::find_launch(&context.ostler_home()?, &one.session.id),
            _ => None,
        };
        let launch = launch.as_ref().map(LaunchView::from);
        if context.json {
            context.print_json(ShowResult {
                session: one.session_view(),
                evidence: explain_verdict(&one.session, &one.verdict, &observation.circumstances),
                subagents: children.iter().map(|child| child.session_view()).collect(),
                launch,
                incomplete: &observation.incomplete,
            })?;
        } else {
            let paint = Painter::for_stdout();
            let pin = observation.pins.get(&one.session.session_name());
            let notes = sessions::SessionNotes { pin, launch: launch.as_ref() };
            let mut page = sessions::render_session_details(one, notes, context.now, paint);
            if !children.is_empty() {
                page.push_str(&format!("\n{} sub-agents\n", children.len()));
                page.push_str(&sessions::render_session_table(
                    &children,
                    context.now,
                    output::output_columns(),
                    paint,
                ));
            }
            output::print_text(&page)?;
            ls::report_incomplete(&observation.incomplete);
        }
        Ok(error::exit_code_for(&observation.incomplete))
    }
}
