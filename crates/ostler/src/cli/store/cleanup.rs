//! `ostler store cleanup`

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use flows::openclaw_store::clean;
use openclaw::config::Config;
use openclaw::store::{Ask, Selection, StoreError, policy, preview};
use openclaw::wire::{PolicyView, SettingView, StoreCleanup, StoreCleanupResult, StoreItem};

use super::ls::age;
use crate::cli::Context;
use crate::cli::ls::report_incomplete;
use crate::error::{self, Error};
use crate::render::colour::{Colour, Paint};
use crate::render::progress::Progress;
use crate::render::table::{Cell, Column, Give, draw};
use crate::render::{consent, duration, output, text};

/// Apply OpenClaw's maintenance policy to a store.
///
/// The policy is OpenClaw's own (`session.maintenance`): by age, by number, by bytes. Main sessions,
/// groups, channels and threads stay, and so does everything that is live or may be. On a terminal the
/// plan is shown first. What goes can be brought back with `ostler undo`, unless OpenClaw's gateway runs:
/// then it deletes the entries of the plan, key by key, and nothing else is done. A database (OpenClaw
/// 2026.8 and later) is cleaned up by the gateway's own rules, which cannot be shown first.
#[derive(Debug, Args)]
pub(crate) struct Cleanup {
    #[command(flatten)]
    which: super::Which,
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
const MOST_ROUNDS: usize = 3;

impl Cleanup {
    pub(crate) fn run(&self, context: &Context) -> Result<ExitCode, Error> {
        let config = super::configuration()?;
        let mut ask = self.ask();
        if self.dry_run {
            return tell(context, &self.plan(context, &config, &ask)?);
        }
        for _ in 0..MOST_ROUNDS {
            match self.plan(context, &config, &ask) {
                Ok(plan) if plan.stores.iter().all(|store| !store.would_mutate) => {}
                Ok(plan) if !self.is_consent() => {
                    if !agreed(context, &plan)? {
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
            let mut progress = Progress::new("cleaning up");
            let result = super::at_the_desk(context, |desk| {
                clean(desk, &ask, &mut |done, total| progress.show(done, total))
            })?;
            drop(progress);
            if result.stores.iter().all(|store| !store.replanned) || self.is_consent() {
                return tell(context, &result);
            }
            if result.receipt.is_some() {
                // One store was as agreed, another was not.
                output::talk(words(&result).trim_end());
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

    fn ask(&self) -> Ask {
        Ask {
            enforce: self.enforce,
            active: self.active_key.clone(),
            fix_missing: self.fix_missing,
            fix_dm_scope: self.fix_dm_scope,
            drop_unusable: self.drop_unusable,
            with_kept: self.all,
            ..super::plain(self.which.selection(Selection::Default))
        }
    }

    fn plan(
        &self,
        context: &Context,
        config: &Config,
        ask: &Ask,
    ) -> Result<StoreCleanupResult, Error> {
        let policy = policy(config).map_err(Error::Store)?;
        let (places, skipped) = super::places(config, &ask.selection)?;
        let pins = store::state::read_pins(&context.dirs()?.home);
        let cleanup = ask.cleanup(config, &policy, &pins, context.now);
        preview(&cleanup, &places, skipped).map_err(Error::Store)
    }
}

/// Asks for a database, of which no plan can be shown.
fn agreed_unseen(context: &Context, database: &std::path::Path) -> Result<bool, Error> {
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
    output::talk(&text::one_line(&what));
    Ok(consent::ask("Have it done?"))
}

/// Shows a plan and asks. Without anybody to ask, nothing is done.
fn agreed(context: &Context, plan: &StoreCleanupResult) -> Result<bool, Error> {
    if context.json || !consent::can_ask() {
        return Err(Error::Refused {
            what: format!("{}; nothing was changed", outlook(plan)),
            hint: "`--dry-run` shows what and why, `--yes` does it".to_owned(),
        });
    }
    output::talk(words(plan).trim_end());
    Ok(consent::ask("Carry this out?"))
}

fn tell(context: &Context, result: &StoreCleanupResult) -> Result<ExitCode, Error> {
    if context.json {
        context.answer(result.clone().with_openclaw_names())?;
    } else {
        output::text(&words(result))?;
        report_incomplete(&result.incomplete);
    }
    Ok(error::exit_code_for(&result.incomplete))
}

fn things(result: &StoreCleanupResult) -> String {
    format!("{}, {}", text::plural(result.count as u64, "thing"), text::bytes(result.bytes))
}

fn repaired(result: &StoreCleanupResult) -> usize {
    result.stores.iter().map(|store| store.repaired).sum()
}

/// What would become of a store.
fn outlook(plan: &StoreCleanupResult) -> String {
    match (plan.count, repaired(plan)) {
        (0, 0) => "nothing would go".to_owned(),
        (0, mended) => format!("{mended} would be repaired"),
        (_, 0) => format!("{} would go", things(plan)),
        (_, mended) => format!("{} would go, {mended} would be repaired", things(plan)),
    }
}

fn words(result: &StoreCleanupResult) -> String {
    let mut page = String::new();
    for store in &result.stores {
        page.push_str(&one(store));
        page.push('\n');
    }
    let last = match (result.dry_run, &result.receipt, result.transport.as_deref()) {
        (true, ..) => outlook(result),
        (_, _, Some("gateway")) => match result.count {
            0 => "nothing went".to_owned(),
            gone => format!(
                "{} went, deleted by OpenClaw's gateway; `ostler undo` does not bring them back",
                text::plural_of(gone as u64, "entry", "entries")
            ),
        },
        (_, Some(receipt), _) => {
            let undo = format!("`ostler undo {receipt}` makes everything as it was.");
            match (result.count, repaired(result)) {
                (0, mended) => format!("{mended} repaired. {undo}"),
                (_, 0) => format!("{} went. {undo}", things(result)),
                (_, mended) => format!("{} went, {mended} repaired. {undo}", things(result)),
            }
        }
        _ => "nothing went".to_owned(),
    };
    page.push_str(&last);
    page.push('\n');
    page
}

const COLUMNS: [Column; 6] = [
    Column { head: "ACTION", give: Give::Rigid, right: false },
    Column { head: "KEY OR FILE", give: Give::Cut(26), right: false },
    Column { head: "AGE", give: Give::Rigid, right: true },
    Column { head: "BYTES", give: Give::Drop(3), right: true },
    Column { head: "LABEL", give: Give::Drop(4), right: false },
    Column { head: "WHY", give: Give::Cut(20), right: false },
];

fn one(store: &StoreCleanup) -> String {
    let mut page = text::one_line(&format!("Store: {}", store.path));
    page.push('\n');
    page.push_str(&format!("Policy: {}\n", policy_words(&store.policy)));
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
            text::bytes(budget.total_bytes_before),
            text::bytes(budget.total_bytes_after),
            text::bytes(budget.max_bytes),
            if budget.unsatisfiable { "; what must stay is more than is aimed at" } else { "" }
        ));
    }
    if store.replanned {
        page.push_str("The store had changed meanwhile; the plan was made anew.\n");
    }
    if !store.items.is_empty() {
        let rows: Vec<Vec<Cell>> = store.items.iter().map(row).collect();
        page.push_str(&draw(&COLUMNS, &rows, output::columns(), Paint::for_stdout()));
    }
    page
}

fn policy_words(policy: &PolicyView) -> String {
    fn setting<T>(name: &str, setting: &SettingView<T>, words: impl Fn(&T) -> String) -> String {
        let value = setting.value.as_ref().map_or_else(|| "off".to_owned(), words);
        format!("{name} {value} ({})", setting.origin)
    }
    let span = |millis: &u64| duration::exact(Duration::from_millis(*millis));
    let mut words = vec![
        setting("mode", &policy.mode, |mode| mode.to_string()),
        setting("pruneAfter", &policy.prune_after_ms, span),
        setting("maxEntries", &policy.max_entries, usize::to_string),
        setting("resetArchiveRetention", &policy.reset_archive_retention_ms, span),
        setting("maxDiskBytes", &policy.max_disk_bytes, |bytes| text::bytes(*bytes)),
    ];
    if policy.max_disk_bytes.value.is_some() {
        words
            .push(setting("highWaterBytes", &policy.high_water_bytes, |bytes| text::bytes(*bytes)));
    }
    words.join(", ")
}

fn row(item: &StoreItem) -> Vec<Cell> {
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
        (age(item.age_ms), None),
        (item.bytes.map(text::bytes).unwrap_or_default(), None),
        (text::one_line(item.label.as_deref().unwrap_or("")), None),
        (text::one_line(&why), None),
    ]
}
