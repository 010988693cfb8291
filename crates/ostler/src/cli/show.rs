//! `ostler show`

use std::process::ExitCode;

use clap::Args;
use clap_complete::ArgValueCandidates;
use flows::address;
use flows::launches;
use flows::observe::{Observed, Scope};
use model::rules::explain::explain;
use model::session::Kind;
use model::wire::{LaunchView, ShowResult};

use crate::cli::{Context, complete, ls};
use crate::error::{self, Error};
use crate::render::colour::Paint;
use crate::render::{output, sessions};

/// Show one session in full.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The session: an id, an unambiguous prefix, a name, `.` or `-`.
    #[arg(add = ArgValueCandidates::new(complete::sessions))]
    id: String,
}

impl Show {
    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let observation = context.observe(Scope::All, &[])?;
        let here = std::env::current_dir().unwrap_or_default();
        let one = address::find(&observation, &self.id, &here)?;
        let children: Vec<&Observed> = observation
            .subagents
            .iter()
            .filter(|child| child.session.digest.parent.as_deref() == Some(&*one.session.id))
            .collect();
        let launch = match one.session.kind {
            Kind::Hosted => launches::of(&context.home()?, &one.session.id),
            _ => None,
        };
        let launch = launch.as_ref().map(LaunchView::from);
        if context.json {
            context.answer(ShowResult {
                session: one.view(),
                evidence: explain(&one.session, &one.verdict, &observation.circumstances),
                subagents: children.iter().map(|child| child.view()).collect(),
                launch,
                incomplete: &observation.incomplete,
            })?;
        } else {
            let paint = Paint::for_stdout();
            let pin = observation.pins.get(&one.session.name());
            let notes = sessions::Notes { pin, launch: launch.as_ref() };
            let mut page = sessions::details(one, notes, context.now, paint);
            if !children.is_empty() {
                page.push_str(&format!("\n{} sub-agents\n", children.len()));
                page.push_str(&sessions::table(&children, context.now, output::columns(), paint));
            }
            output::text(&page)?;
            ls::report_incomplete(&observation.incomplete);
        }
        Ok(error::exit_code_for(&observation.incomplete))
    }
}
