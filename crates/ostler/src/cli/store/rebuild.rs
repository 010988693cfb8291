//! `ostler store rebuild`

use std::process::ExitCode;

use clap::Args;
use flows::openclaw_store::rebuild;
use openclaw::store::{StoreSelection, preview_rebuild};
use openclaw::wire::StoreRebuildResult;

use crate::cli::CliContext;
use crate::error::Error;
use crate::render::{consent, output, text};

declare_commands![CommandEntry {
    place: HelpPlace(OpenClaw, 5),
    effect: WritesFiles,
    answers: &[answer::<openclaw_wire::StoreRebuildResult>()],
    examples: &[example("store rebuild --dry-run", "What a new index would hold.").on(Store)],
    cases: &[
        empty("store rebuild --dry-run"),
        usual("store rebuild --dry-run").on(Store).harmless(),
        refused("store rebuild").on(Store).harmless(),
        also("store rebuild --yes").on(Store)
    ],
    uncased: &[ONE_FILE],
    ..entry!("store rebuild", StoreRebuildArgs, run_store_rebuild)
}];

/// Make a new index for a store whose index is lost or damaged.
///
/// Everything that can still be read of the old index is kept as it is written; then come entries from
/// writes that did not finish and from old copies, then one for every transcript that no entry leads
/// to. The old index goes to the trash: `ostler undo` brings it back.
#[derive(Debug, Args)]
pub(crate) struct StoreRebuildArgs {
    /// The store of this agent.
    #[arg(long, value_name = "AGENT", conflicts_with = "store")]
    agent: Option<String>,
    /// This index, wherever it lies.
    #[arg(long, value_name = "PATH")]
    store: Option<std::path::PathBuf>,
    /// Say what the new index would hold, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
}

impl StoreRebuildArgs {
    pub(crate) fn run_store_rebuild(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let machine = context.machine()?;
        let config = super::load_openclaw_config(machine)?;
        let selection = match (&self.agent, &self.store) {
            (Some(agent), _) => StoreSelection::Agent(agent.clone()),
            (_, Some(path)) => super::store_at_path(path),
            _ => StoreSelection::Default,
        };
        let ask = super::plain_request(selection);
        let preview = preview_rebuild(&config, &ask, machine).map_err(Error::Store)?;
        let needless = preview.fault.is_none() && preview.added.is_empty();
        if self.dry_run || needless {
            return print_rebuild(context, &preview);
        }
        if !self.yes {
            if !consent::can_ask() {
                return Err(Error::Refused {
                    what: format!("nothing was written to {}", preview.path),
                    hint: "`--dry-run` shows the new index, `--yes` writes it".to_owned(),
                });
            }
            output::print_notice(render_rebuild_text(&preview).trim_end());
            if !consent::ask_yes_no("Write this index?") {
                return Ok(ExitCode::SUCCESS);
            }
        }
        let result = rebuild(machine, &ask)?;
        print_rebuild(context, &result)
    }
}

fn print_rebuild(context: &CliContext, result: &StoreRebuildResult) -> Result<ExitCode, Error> {
    if context.json {
        context.print_json(result)?;
    } else {
        output::print_text(&render_rebuild_text(result))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn render_rebuild_text(result: &StoreRebuildResult) -> String {
    let mut page = text::one_line(&result.path);
    page.push('\n');
    match &result.fault {
        Some(fault) => page.push_str(&format!("  as it is: {}\n", text::one_line(fault))),
        None if result.added.is_empty() => {
            page.push_str("  is sound, and every transcript has an entry\n");
            return page;
        }
        None => {}
    }
    page.push_str(&format!("  {} entries are kept as they are\n", result.kept));
    for one in &result.added {
        let line = format!("  {}  {}  from {}", one.how, one.key, one.from);
        page.push_str(&text::one_line(&line));
        page.push('\n');
    }
    match (&result.receipt, result.applied) {
        (Some(receipt), true) => {
            page.push_str(&format!("written. `ostler undo {receipt}` brings the old one back.\n"));
        }
        _ if result.applied => page.push_str("written\n"),
        _ => page.push_str("nothing was written\n"),
    }
    page
}
