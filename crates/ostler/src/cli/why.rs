//! `ostler why`

use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;
use flows::address;
use flows::observe::ObserveScope;
use model::rules::explain::explain_verdict;
use model::wire::{Collectability, VerdictView, WhyResult};

use crate::cli::{CliContext, complete, ls};
use crate::error::{self, Error};
use crate::render::colour::{Colour, Painter};
use crate::render::{output, sessions, text};

declare_commands![CommandEntry {
    place: HelpPlace(Everyday, 3),
    answers: &[answer::<wire::WhyResult<'static>>()],
    examples: &[example("why 666e4f9b", "Every fact that the verdict stands on.")],
    cases: &[
        empty("why 666e4f9b"),
        usual("why 666e4f9b"),
        refused("why no-such-session").on(Worked),
        incomplete("why 666e4f9b"),
        also("why 2f8e36cc"),
        also("why 666e4f9b").after(&["pin 666e4f9b --note keep"]),
        also("why ID").on(Access)
    ],
    ..entry!("why", WhyArgs, run_why)
}];

/// Explain a verdict: every fact, where it was read, how old it is, what it did.
#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// The session: an id, an unambiguous prefix, a name, `.` or `-`.
    #[arg(add = ArgValueCandidates::new(complete::complete_sessions))]
    id: String,
}

impl WhyArgs {
    pub(crate) fn run_why(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let observation = context.observe_now(ObserveScope::All, &[])?;
        let here = context.current_dir();
        let one = address::resolve_session(&observation, &self.id, &here)?;
        let evidence = explain_verdict(&one.session, &one.verdict, &observation.circumstances);
        let collect = match observation.pins.allow(&[one.session.session_name()]) {
            Ok(()) => Collectability::from_guard(
                &one.session,
                &one.verdict,
                observation.circumstances.now,
            ),
            Err(refusal) => Collectability::from(&refusal),
        };
        if context.json {
            context.print_json(WhyResult {
                session: one.session_view(),
                verdict: VerdictView::from(&one.verdict),
                evidence,
                collect,
                incomplete: &observation.incomplete,
            })?;
        } else {
            let paint = Painter::for_stdout();
            let view = VerdictView::from(&one.verdict);
            let heading = format!(
                "{} is {}: {} ({})",
                text::one_line(&one.session.id),
                view.status.as_str(),
                view.liveness,
                view.reason
            );
            let mut page = paint.paint(Colour::Bold, &heading) + "\n";
            page.push_str(&sessions::render_evidence(&evidence, paint));
            let may = if collect.allowed { "may be collected" } else { "may not be collected" };
            page.push_str(&format!("It {may}: {}", collect.reason));
            if let Some(remedy) = &collect.remedy {
                page.push_str(&format!("; {remedy}"));
            }
            page.push('\n');
            output::print_text(&page)?;
            ls::report_incomplete(&observation.incomplete);
        }
        Ok(error::exit_code_for(&observation.incomplete))
    }
}
