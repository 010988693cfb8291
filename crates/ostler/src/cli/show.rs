//! `ostler show`

use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;
use flows::address;
use flows::launches;
use flows::observe::{ObserveScope, Observed};
use model::hosted::ProgramExit;
use model::rules::explain::explain_verdict;
use model::session::SessionKind;
use model::wire::{LaunchView, ShowResult};

use crate::cli::{CliContext, complete, ls};
use crate::error::{self, Error};
use crate::render::colour::Painter;
use crate::render::session_table::SessionTable;
use crate::render::{output, sessions, text};

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
        let here = context.current_dir();
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
        let exit = find_exit(one, context);
        let tmux = flows::resume::tmux_pane(one);
        if context.json {
            context.print_json(ShowResult {
                session: one.session_view(),
                evidence: explain_verdict(&one.session, &one.verdict, &observation.circumstances),
                subagents: children.iter().map(|child| child.session_view()).collect(),
                launch,
                exit,
                resume: flows::resume::resume_command(&one.session),
                tmux,
                incomplete: &observation.incomplete,
            })?;
        } else {
            let paint = Painter::for_stdout();
            let pin = observation.pins.get(&one.session.session_name());
            let notes = sessions::SessionNotes {
                pin,
                launch: launch.as_ref(),
                exit: exit.as_ref(),
                tmux: tmux.as_ref(),
            };
            let mut page = sessions::render_session_details(one, notes, context.now, paint);
            // Of a terminal people want to know what the agent in it does.
            let runs_there = |other: &&Observed| {
                let linked = &one.session.linked;
                one.session.kind == SessionKind::Hosted
                    && linked.iter().any(|link| {
                        link.agent == other.session.agent && link.id == other.session.id
                    })
            };
            for inner in observation.sessions.iter().filter(runs_there) {
                let pin = observation.pins.get(&inner.session.session_name());
                let notes = sessions::SessionNotes { pin, ..sessions::SessionNotes::default() };
                page.push('\n');
                page.push_str(&sessions::render_session_details(inner, notes, context.now, paint));
            }
            if !children.is_empty() {
                let count = text::format_plural(children.len() as u64, "sub-agent");
                page.push_str(&format!("\n{count}\n"));
                let table = SessionTable {
                    ids: &observation.short_ids(),
                    observation: &observation,
                    now: context.now,
                    paint,
                    watched: false,
                    by_urgency: false,
                };
                page.push_str(&table.render(&children));
            }
            output::print_text(&page)?;
            ls::report_incomplete(&observation.incomplete);
        }
        Ok(error::exit_code_for(&observation.incomplete))
    }
}

/// How the program of a terminal ended. One that cannot be read is named by the listing.
fn find_exit(one: &Observed, context: &CliContext) -> Option<ProgramExit> {
    let over = one.session.kind == SessionKind::Hosted && one.verdict.status.is_collectable();
    let home = over.then(|| context.terminals_home().ok()).flatten()?;
    home.open_session(&one.session.id).ok()?.manifest.program_exit()
}
