//! `ostler trash` and `ostler undo`

use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use flows::work::carry_out_work;
use flows::writer::{Work, WorkDone};
use model::time::whole_millis;
use model::wire::{
    ReceiptView, TrashEmptied, TrashLsResult, TrashVerified, UndecidedView, UndoResult,
};

use crate::cli::{CliContext, ls};
use crate::error::{self, Error};
use crate::render::{duration, output, text};

declare_commands![
    CommandEntry {
        place: HelpPlace(CleanUp, 3),
        effect: WritesFiles,
        answers: &[answer::<wire::UndoResult>()],
        examples: &[example(
            "undo ID",
            "Bring back what one command removed; without an id, the last one."
        )
        .on(Trashed)],
        cases: &[empty("undo"), usual("undo").on(Trashed), refused("undo nothing").on(Trashed)],
        uncased: &[ONE_FILE],
        ..entry!("undo", UndoArgs, run_undo)
    },
    CommandEntry {
        place: HelpPlace(CleanUp, 4),
        usual_member: "ls",
        ..entry!("trash", TrashArgs, run_trash)
    },
    CommandEntry {
        place: HelpPlace(CleanUp, 1),
        answers: &[answer::<wire::TrashLsResult>()],
        examples: &[example("trash ls", "What was removed, by which command, and when.")],
        cases: &[
            empty("trash ls"),
            usual("trash ls").on(Trashed),
            refused("trash ls --no-such-option"),
            also("trash ls")
        ],
        uncased: &[(Incomplete, "a damaged receipt is made and read in tests/cli/collect.rs")],
        ..entry!("trash ls")
    },
    CommandEntry {
        place: HelpPlace(CleanUp, 2),
        effect: WritesState,
        answers: &[answer::<wire::TrashEmptied>()],
        examples: &[example(
            "trash empty --older-than 30d",
            "What would go for good. Nothing is changed without --yes."
        )],
        cases: &[
            empty("trash empty --yes"),
            usual("trash empty --older-than 0s --yes").on(Trashed),
            refused("trash empty --older-than soon"),
            also("trash empty")
        ],
        uncased: &[ONE_PROGRAM],
        ..entry!("trash empty")
    },
    CommandEntry {
        place: HelpPlace(CleanUp, 3),
        answers: &[answer::<wire::TrashVerified>()],
        examples: &[example(
            "trash verify",
            "Whether everything removed is where its receipt says."
        )],
        cases: &[
            empty("trash verify"),
            usual("trash verify").on(Trashed),
            refused("trash verify --no-such-option"),
            also("trash verify")
        ],
        uncased: &[ONE_PROGRAM],
        ..entry!("trash verify")
    }
];

/// Look into the trash: what ostler removed, and what brings it back.
#[derive(Debug, Args)]
pub(crate) struct TrashArgs {
    #[command(subcommand)]
    action: TrashCommand,
}

#[derive(Debug, Subcommand)]
enum TrashCommand {
    /// List what was removed, by receipt.
    Ls,
    /// Remove for good what was trashed long ago. This cannot be undone.
    Empty {
        /// Only what was trashed longer ago; 30 days unless set otherwise.
        #[arg(long, value_name = "AGE", value_parser = duration::from_argument)]
        older_than: Option<Duration>,
        /// Do it. Without this nothing is changed.
        #[arg(short, long)]
        yes: bool,
    },
    /// Check that everything removed is where its receipt says.
    Verify,
}

/// Bring back what a command removed, renamed or replaced.
#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    /// The receipt, or the beginning of it; the last one without it.
    #[arg(add = crate::cli::complete::receipts())]
    receipt: Option<String>,
    /// Where something else is in the place of a thing, put it beside that, as `NAME.ostler-RECEIPT`.
    #[arg(long)]
    beside: bool,
}

impl TrashArgs {
    pub(crate) fn run_trash(&self, context: &CliContext) -> Result<ExitCode, Error> {
        match &self.action {
            TrashCommand::Ls => list_receipts(context),
            TrashCommand::Empty { older_than, yes } => empty_trash(context, *older_than, *yes),
            TrashCommand::Verify => verify_trash(context),
        }
    }
}

fn list_receipts(context: &CliContext) -> Result<ExitCode, Error> {
    let (receipts, incomplete) = reaper::list_receipts(context.machine()?.home());
    let bytes = receipts.iter().map(|receipt| receipt.bytes).sum();
    let result = TrashLsResult { bytes, receipts, incomplete };
    if context.json {
        context.print_json(&result)?;
    } else {
        output::print_text(&render_receipts_text(context, &result))?;
        ls::report_incomplete(&result.incomplete);
    }
    Ok(error::exit_code_for(&result.incomplete))
}

fn render_receipts_text(context: &CliContext, result: &TrashLsResult) -> String {
    let mut page = String::new();
    for receipt in &result.receipts {
        let ago = duration::age_phrase(context.now.since(receipt.at));
        let gone = if receipt.undoable { "" } else { ", nothing to undo" };
        let size = text::format_bytes(receipt.bytes);
        let line = format!("{}  {}  {ago}  {size}{gone}", receipt.receipt, receipt.command);
        page.push_str(&text::one_line(&line));
        page.push('\n');
        for item in &receipt.items {
            let state = if item.state == "done" { "" } else { item.state.as_str() };
            let line = format!("  {} {} {}  {state}", item.action, item.kind.as_str(), item.path);
            page.push_str(&text::one_line(line.trim_end()));
            page.push('\n');
            if let Some(copy) = &item.spare_copy {
                let line = format!("    a copy that `ostler trash empty` frees: {copy}");
                page.push_str(&text::one_line(&line));
                page.push('\n');
            }
            page.push_str(&item.undecided.as_ref().map(render_undecided_text).unwrap_or_default());
        }
    }
    if result.receipts.is_empty() {
        page.push_str("The trash is empty.\n");
    }
    page
}

/// What a person must decide, where everything is, and how.
fn render_undecided_text(matter: &UndecidedView) -> String {
    let mut page = String::new();
    for line in std::iter::once(format!("    {}", matter.reason))
        .chain(matter.places.iter().map(|place| format!("    kept: {place}")))
        .chain([format!("    {}", matter.remedy)])
    {
        page.push_str(&text::one_line(&line));
        page.push('\n');
    }
    page
}

fn empty_trash(
    context: &CliContext,
    older_than: Option<Duration>,
    yes: bool,
) -> Result<ExitCode, Error> {
    let machine = context.machine()?;
    let older_than = match older_than {
        Some(age) => age,
        None => context.load_config()?.config.retention.trash,
    };
    let (result, applied) = if yes {
        let older_than_ms = whole_millis(older_than);
        let work = Work::EmptyTrash { older_than_ms };
        let done = carry_out_work(&work, machine, &mut |_, _| {});
        match done.map_err(Error::Order)? {
            (WorkDone::EmptyTrash(result), _) => (result, true),
            _ => return Err(error::unexpected_answer()),
        }
    } else {
        let old = |receipt: &&ReceiptView| {
            receipt.bytes > 0 && context.now.since(receipt.at) >= older_than
        };
        let (receipts, failed) = reaper::list_receipts(machine.home());
        let old: Vec<&ReceiptView> = receipts.iter().filter(old).collect();
        let bytes = old.iter().map(|receipt| receipt.bytes).sum();
        let receipts = old.iter().map(|receipt| receipt.receipt.clone()).collect();
        (TrashEmptied { applied: false, receipts, bytes, failed }, false)
    };
    if context.json {
        context.print_json(&result)?;
    } else {
        let (count, size) = (result.receipts.len(), text::format_bytes(result.bytes));
        let receipts = text::format_plural(count as u64, "receipt");
        output::print_text(&match (applied, count) {
            (false, 0) => "nothing in the trash is that old\n".to_owned(),
            (false, _) => {
                format!("{receipts}, {size}, would be removed for good; `--yes` does it\n")
            }
            (true, _) => format!("{receipts} emptied, {size} freed\n"),
        })?;
        ls::report_incomplete(&result.failed);
    }
    Ok(error::exit_code_for(&result.failed))
}

fn verify_trash(context: &CliContext) -> Result<ExitCode, Error> {
    let result = reaper::verify_trash(context.machine()?.home());
    if context.json {
        context.print_json(&result)?;
    } else {
        output::print_text(&render_verified_text(&result))?;
        ls::report_incomplete(&result.problems);
    }
    Ok(error::exit_code_for(&result.problems))
}

fn render_verified_text(result: &TrashVerified) -> String {
    let mut page = format!(
        "where it should be: {} of {}\n",
        text::format_plural(result.items, "thing"),
        text::format_plural(result.receipts, "receipt")
    );
    if result.interrupted > 0 {
        let steps = text::format_plural(result.interrupted, "interrupted step");
        let _ = writeln!(page, "{steps}, which the next removal finishes");
    }
    if result.spare > 0 {
        let copies = if result.spare == 1 { "copy" } else { "copies" };
        let _ = writeln!(
            page,
            "{} {copies} that nobody needs any more, which the next `ostler trash empty` frees",
            result.spare
        );
    }
    for matter in &result.undecided {
        page.push_str(&text::one_line(&format!("for you to decide: {}", matter.path)));
        page.push('\n');
        page.push_str(&render_undecided_text(matter));
    }
    page
}

impl UndoArgs {
    pub(crate) fn run_undo(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let machine = context.machine()?;
        let work = Work::Undo { receipt: self.receipt.clone(), beside: self.beside };
        let done = carry_out_work(&work, machine, &mut |_, _| {});
        let result = match done.map_err(Error::Order)? {
            (WorkDone::Undo(result), _) => result,
            _ => return Err(error::unexpected_answer()),
        };
        if context.json {
            context.print_json(&result)?;
        } else {
            output::print_text(&render_undone_text(&result))?;
        }
        let refused = result.items.iter().any(|item| item.refused.is_some());
        Ok(if refused { error::exit_code_of("REFUSED") } else { ExitCode::SUCCESS })
    }
}

fn render_undone_text(result: &UndoResult) -> String {
    let mut page = String::new();
    for item in &result.items {
        let line = match &item.refused {
            None => match &item.beside {
                Some(beside) => format!("brought back {} as {beside}", item.path),
                None => format!("brought back {}", item.path),
            },
            Some(refusal) => {
                format!("left in the trash {}: {}; {}", item.path, refusal.reason, refusal.remedy)
            }
        };
        page.push_str(&text::one_line(&line));
        page.push('\n');
    }
    if result.items.is_empty() {
        let _ = writeln!(page, "nothing of {} is left to undo", result.receipt);
    }
    page
}
