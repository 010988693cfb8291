//! `ostler store cleanup`

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use flows::openclaw_store::clean;
use openclaw::config::OpenClawConfig;
use openclaw::store::{
    SessionStoreRequest, StoreError, StoreSelection, preview_cleanup, read_policy,
};
use openclaw::wire::{PolicyView, SettingView, StoreCleanup, StoreCleanupResult, StoreItem};

use super::ls::age_cell;
use crate::cli::CliContext;
use crate::cli::ls::report_incomplete;
use crate::error::{self, Error};
use crate::render::colour::{Colour, Painter};
use crate::render::progress::ProgressLine;
use crate::render::table::{ColumnGive, TableCell, TableColumn, render_table};
use crate::render::{consent, duration, output, text};

declare_commands![CommandEntry {
    place: HelpPlace(OpenClaw, 3),
    effect: WritesFiles,
    answers: &[answer::<openclaw_wire::StoreCleanupResult>()],
    examples: &[
        example("store cleanup --dry-run", "The plan, by the policy of OpenClaw.").on(Store),
        example("store cleanup --yes", "Carry it out.").on(Store)
    ],
    cases: &[
        empty("store cleanup --dry-run"),
        usual("store cleanup --dry-run -a").on(Store).harmless(),
        refused("store cleanup").on(Store).harmless(),
        also("store cleanup --yes --fix-missing --fix-dm-scope").on(Store)
    ],
    uncased: &[ONE_FILE],
    ..entry!("store cleanup", StoreCleanupArgs, run_store_cleanup)
}];

/// Apply OpenClaw's maintenance policy to a store.
///
/// The policy is OpenClaw's own (`session.maintenance`): by age, by number, by bytes. Main sessions,
/// groups, channels and threads stay, and so does everything that is live or may be. On a terminal the
/// plan is shown first. What goes can be brought back with `ostler undo`, unless OpenClaw's gateway runs:
/// then it deletes the entries of the plan, key by key, and nothing else is done. A database (OpenClaw
/// 2026.8 and later) is cleaned up by the gateway's own rules, which cannot be shown first.
#[derive(Debug, Args)]
pub(crate) struct StoreCleanupArgs {
    #[command(flatten)]
    which: super::StoreSelectionArgs,
    /// Show the plan, and change nothing.
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Act although the policy only warns; do not ask.
    #[arg(long)]
    enforce: bool,
    /// Also remove entries whose transcript is missing or holds no message, wherever they belong, and
    /// repair those that lead astray from a transcript of their own.
    #[arg(long)]
    fix_missing: bool,
    /// Also remove direct chats with single peers if `session.dmScope` is `main`: they share the main
    /// session now.
    #[arg(long)]
    fix_dm_scope: bool,
    /// Also remove entries that are no sessions.
    #[arg(long)]
    drop_unusable: bool,
    /// Keep this key, whatever the policy says.
    #[arg(long, value_name = "KEY")]
    active_key: Option<String>,
    /// List what stays, too.
    #[arg(short, long)]
    all: bool,
    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
}

/// How often a plan that has changed meanwhile is shown again.
const MAX_CONSENT_ROUNDS: usize = 3;

impl StoreCleanupArgs {
    pub(crate) fn run_store_cleanup(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let machine = context.machine()?;
        let config = super::load_openclaw_config(machine)?;
        let mut ask = self.store_request();
        if self.dry_run {
            return print_cleanup(context, &self.plan_cleanup(context, &config, &ask)?);
        }
        for _ in 0..MAX_CONSENT_ROUNDS {
            match self.plan_cleanup(context, &config, &ask) {
                Ok(plan) if plan.stores.iter().all(|store| !store.would_mutate) => {}
                Ok(plan) if !self.is_consent() => {
                    if !ask_consent(context, &plan)? {
                        return Ok(ExitCode::SUCCESS);
                    }
                    let plans = plan.stores.into_iter().filter_map(|store| store.plan_hash);
                    ask.consent = Some(plans.collect());
                }
                // Only its gateway can say what becomes of a database: nothing can be shown first.
                Err(Error::Store(StoreError::Database(path))) if self.which.store.is_none() => {
                    if !self.is_consent() && !agreed_unseen(context, &path)? {
                        return Ok(ExitCode::SUCCESS);
                    }
                }
                other => {
                    other?;
                }
            }
            let mut progress = ProgressLine::new("cleaning up");
            let show = &mut |done, total| progress.show_progress(done, total);
            let result = clean(machine, &ask, show)?;
            drop(progress);
            if result.stores.iter().all(|store| !store.replanned) || self.is_consent() {
                return print_cleanup(context, &result);
            }
            if result.receipt.is_some() {
                // One store was as agreed, another was not.
                output::print_notice(render_cleanup_text(&result).trim_end());
            }
        }
        Err(Error::Refused {
            what: "the store keeps changing, and nothing was removed".to_owned(),
            hint: "try again when OpenClaw is quiet".to_owned(),
        })
    }

    /// Whether there is nothing to ask.
    fn is_consent(&self) -> bool {
        self.yes || self.enforce
    }

    fn store_request(&self) -> SessionStoreRequest {
        SessionStoreRequest {
            enforce: self.enforce,
            active: self.active_key.clone(),
            fix_missing: self.fix_missing,
            fix_dm_scope: self.fix_dm_scope,
            drop_unusable: self.drop_unusable,
            with_kept: self.all,
            ..super::plain_request(self.which.store_selection(StoreSelection::Default))
        }
    }

    fn plan_cleanup(
        &self,
        context: &CliContext,
        config: &OpenClawConfig,
        ask: &SessionStoreRequest,
    ) -> Result<StoreCleanupResult, Error> {
        let policy = read_policy(config).map_err(Error::Store)?;
        let (places, skipped) = super::find_stores(config, &ask.selection)?;
        let machine = context.machine()?;
        let pins = store::state::read_pins(machine.home());
        let cleanup = ask.cleanup_request(config, &policy, &pins, machine);
        preview_cleanup(&cleanup, &places, skipped).map_err(Error::Store)
    }
}

/// Asks for a database, of which no plan can be shown.
fn agreed_unseen(context: &CliContext, database: &std::path::Path) -> Result<bool, Error> {
    let what = format!(
        "OpenClaw's gateway would clean {} up by its own policy, which can neither be shown first nor undone",
        database.display()
    );
    if context.json || !consent::can_ask() {
        return Err(Error::Refused {
            what: format!("{what}; nothing was changed"),
            hint: "`openclaw sessions cleanup --dry-run` shows it, `--yes` does it".to_owned(),
        });
    }
    output::print_notice(&text::one_line(&what));
    Ok(consent::ask_yes_no("Have it done?"))
}

/// Shows a plan and asks. Without anybody to ask, nothing is done.
fn ask_consent(context: &CliContext, plan: &StoreCleanupResult) -> Result<bool, Error> {
    if context.json || !consent::can_ask() {
        return Err(Error::Refused {
            what: format!("{}; nothing was changed", render_outlook(plan)),
            hint: "`--dry-run` shows what and why, `--yes` does it".to_owned(),
        });
    }
    output::print_notice(render_cleanup_text(plan).trim_end());
    Ok(consent::ask_yes_no("Carry this out?"))
}

fn print_cleanup(context: &CliContext, result: &StoreCleanupResult) -> Result<ExitCode, Error> {
    if context.json {
        context.print_json(result.clone().with_openclaw_names())?;
    } else {
        output::print_text(&render_cleanup_text(result))?;
        report_incomplete(&result.incomplete);
    }
    Ok(error::exit_code_for(&result.incomplete))
}

fn describe_removed(result: &StoreCleanupResult) -> String {
    format!(
        "{}, {}",
        text::format_plural(result.count as u64, "thing"),
        text::format_bytes(result.bytes)
    )
}

fn count_repaired(result: &StoreCleanupResult) -> usize {
    result.stores.iter().map(|store| store.repaired).sum()
}

/// What would become of a store.
fn render_outlook(plan: &StoreCleanupResult) -> String {
    match (plan.count, count_repaired(plan)) {
        (0, 0) => "nothing would go".to_owned(),
        (0, mended) => format!("{mended} would be repaired"),
        (_, 0) => format!("{} would go", describe_removed(plan)),
        (_, mended) => format!("{} would go, {mended} would be repaired", describe_removed(plan)),
    }
}

fn render_cleanup_text(result: &StoreCleanupResult) -> String {
    let mut page = String::new();
    for store in &result.stores {
        page.push_str(&render_store_text(store));
        page.push('\n');
    }
    let last = match (result.dry_run, &result.receipt, result.transport.as_deref()) {
        (true, ..) => render_outlook(result),
        (_, _, Some("gateway")) => match result.count {
            0 => "nothing went".to_owned(),
            gone => format!(
                "{} went, deleted by OpenClaw's gateway; `ostler undo` does not bring them back",
                text::plural_of(gone as u64, "entry", "entries")
            ),
        },
        (_, Some(receipt), _) => {
            let undo = format!("`ostler undo {receipt}` makes everything as it was.");
            match (result.count, count_repaired(result)) {
                (0, mended) => format!("{mended} repaired. {undo}"),
                (_, 0) => format!("{} went. {undo}", describe_removed(result)),
                (_, mended) => {
                    format!("{} went, {mended} repaired. {undo}", describe_removed(result))
                }
            }
        }
        _ => "nothing went".to_owned(),
    };
    page.push_str(&last);
    page.push('\n');
    page
}

const ITEM_COLUMNS: [TableColumn; 6] = [
    TableColumn { head: "ACTION", give: ColumnGive::Rigid, right: false },
    TableColumn { head: "KEY OR FILE", give: ColumnGive::Cut(26), right: false },
    TableColumn { head: "AGE", give: ColumnGive::Rigid, right: true },
    TableColumn { head: "BYTES", give: ColumnGive::Drop(3), right: true },
    TableColumn { head: "LABEL", give: ColumnGive::Drop(4), right: false },
    TableColumn { head: "WHY", give: ColumnGive::Cut(20), right: false },
];

fn render_store_text(store: &StoreCleanup) -> String {
    let mut page = text::one_line(&format!("Store: {}", store.path));
    page.push('\n');
    page.push_str(&format!("Policy: {}\n", render_policy_text(&store.policy)));
    for note in &store.policy.notes {
        page.push_str(&format!("  note: {}\n", text::one_line(note)));
    }
    let (before, after) = (store.before_count, store.after_count);
    page.push_str(&format!(
        "Entries: {before} -> {after} (remove {})\n",
        before - after.min(before)
    ));
    if store.cap.unsatisfiable {
        page.push_str(&format!(
            "The cap of {} cannot be kept: {} entries must stay\n",
            store.cap.max_entries, store.cap.protected
        ));
    }
    if let Some(budget) = store.disk_budget.as_ref().filter(|budget| budget.over_budget) {
        page.push_str(&format!(
            "Disk: {} -> {} of {}{}\n",
            text::format_bytes(budget.total_bytes_before),
            text::format_bytes(budget.total_bytes_after),
            text::format_bytes(budget.max_bytes),
            if budget.unsatisfiable { "; what must stay is more than is aimed at" } else { "" }
        ));
    }
    if store.replanned {
        page.push_str("The store had changed meanwhile; the plan was made anew.\n");
    }
    if !store.items.is_empty() {
        let rows: Vec<Vec<TableCell>> = store.items.iter().map(item_row).collect();
        page.push_str(&render_table(
            &ITEM_COLUMNS,
            &rows,
            output::output_columns(),
            Painter::for_stdout(),
        ));
    }
    page
}

fn render_policy_text(policy: &PolicyView) -> String {
    fn render_setting<T>(
        name: &str,
        setting: &SettingView<T>,
        words: impl Fn(&T) -> String,
    ) -> String {
        let value = setting.value.as_ref().map_or_else(|| "off".to_owned(), words);
        format!("{name} {value} ({})", setting.origin)
    }
    let span = |millis: &u64| duration::exact_span(Duration::from_millis(*millis));
    let mut words = vec![
        render_setting("mode", &policy.mode, |mode| mode.to_string()),
        render_setting("pruneAfter", &policy.prune_after_ms, span),
        render_setting("maxEntries", &policy.max_entries, usize::to_string),
        render_setting("resetArchiveRetention", &policy.reset_archive_retention_ms, span),
        render_setting("maxDiskBytes", &policy.max_disk_bytes, |bytes| text::format_bytes(*bytes)),
    ];
    if policy.max_disk_bytes.value.is_some() {
        words.push(render_setting("highWaterBytes", &policy.high_water_bytes, |bytes| {
            text::format_bytes(*bytes)
        }));
    }
    words.join(", ")
}

fn item_row(item: &StoreItem) -> Vec<TableCell> {
    let rule = if item.kind == "entry" { &item.rule } else { &item.action };
    let action = match &*item.action {
        "skip" => "skip".to_owned(),
        _ => rule.to_string(),
    };
    let colour = match &*item.action {
        "keep" | "skip" => Colour::Dim,
        _ if item.only_with_enforce => Colour::Dim,
        _ => Colour::Yellow,
    };
    let why = match &item.refused {
        Some(refused) => format!("{}; {}", refused.reason, refused.remedy),
        None if item.only_with_enforce => format!("only with --enforce: {}", item.reason),
        None => item.reason.clone(),
    };
    vec![
        (action, Some(colour)),
        (text::one_line(&item.id), None),
        (age_cell(item.age_ms), None),
        (item.bytes.map(text::format_bytes).unwrap_or_default(), None),
        (text::one_line(item.label.as_deref().unwrap_or("")), None),
        (text::one_line(&why), None),
    ]
}
