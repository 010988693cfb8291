//! `ostler why`

use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;
use flows::address;
use flows::observe::Scope;
use model::rules::explain::explain;
use model::wire::{Collect, VerdictView, WhyResult};

use crate::cli::{Context, complete, ls};
use crate::error::{self, Error};
use crate::render::colour::{Colour, Paint};
use crate::render::{output, sessions, text};

/// Explain a verdict: every fact, where it was read, how old it is, what it did.
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// The session: an id, an unambiguous prefix, a name, `.` or `-`.
    #[arg(add = ArgValueCandidates::new(complete::sessions))]
    id: String,
}

impl Why {
    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let observation = context.observe(Scope::All, &[])?;
        let here = std::env::current_dir().unwrap_or_default();
        let one = address::find(&observation, &self.id, &here)?;
        let evidence = explain(&one.session, &one.verdict, &observation.circumstances);
        let collect = match observation.pins.allow(&[one.session.name()]) {
            Ok(()) => Collect::of(&one.session, &one.verdict, observation.circumstances.now),
            Err(refusal) => Collect::from(&refusal),
        };
        if context.json {
            context.answer(WhyResult {
                session: one.view(),
                verdict: VerdictView::from(&one.verdict),
                evidence,
                collect,
                incomplete: &observation.incomplete,
            })?;
        } else {
            let paint = Paint::for_stdout();
            let view = VerdictView::from(&one.verdict);
            let heading = format!(
                "{} is {}: {} ({})",
                text::one_line(&one.session.id),
                view.status.word(),
                view.liveness,
                view.reason
            );
            let mut page = paint.paint(Colour::Bold, &heading) + "\n";
            page.push_str(&sessions::evidence(&evidence, paint));
            let may = if collect.allowed { "may be collected" } else { "may not be collected" };
            page.push_str(&format!("It {may}: {}", collect.reason));
            if let Some(remedy) = &collect.remedy {
                page.push_str(&format!("; {remedy}"));
            }
            page.push('\n');
            output::text(&page)?;
            ls::report_incomplete(&observation.incomplete);
        }
        Ok(error::exit_code_for(&observation.incomplete))
    }
}
