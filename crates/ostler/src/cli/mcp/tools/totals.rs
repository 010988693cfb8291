//! Tools that sum up: usage, disk use and the clean-up plan.

use flows::observe::ObserveScope;
use flows::usage::UsageQuestion;
use flows::writer::{GcInclude, GcRequest};
use model::wire::{ItemFate, UsageGrouping};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::quote::QuotedText;
use super::super::server::McpCall;
use super::McpTool;
use super::look::{MOST_ROWS, NoArguments, unread_count};
use crate::error::Error;

pub(super) struct SumUsage;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UsageInput {
    /// What to sum up by.
    #[serde(default)]
    by: SummedBy,
}

/// What usage is summed up by.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum SummedBy {
    #[default]
    Day,
    Agent,
    Project,
    Model,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsageOutput {
    groups: Vec<UsageRow>,
    total_tokens: u64,
    unread: u64,
}

/// The usage of one day, agent, project or model.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsageRow {
    quoted_key: QuotedText,
    tokens: u64,
    /// Millionths of a dollar that agents stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    stated_micro_usd: Option<u64>,
}

impl McpTool for SumUsage {
    const NAME: &'static str = "usage";
    const DESCRIPTION: &'static str = "Sums up the tokens that sessions used, and the cost where their agent \
        states it.";
    type Input = UsageInput;
    type Output = UsageOutput;

    fn run(state: &McpCall<'_>, input: UsageInput) -> Result<UsageOutput, Error> {
        let context = state.call_context();
        let config = context.load_config()?.config;
        let question = UsageQuestion {
            by: match input.by {
                SummedBy::Day => UsageGrouping::Day,
                SummedBy::Agent => UsageGrouping::Agent,
                SummedBy::Project => UsageGrouping::Project,
                SummedBy::Model => UsageGrouping::Model,
            },
            since: None,
            until: None,
            prices: &config.prices,
            day_of: &sys::clock::local_day,
        };
        let observation = state.observe_visible()?;
        let result = flows::usage::sum_usage(&observation, &question);
        // Days are in their order, and the newest are what is asked for.
        let skipped = match input.by {
            SummedBy::Day => result.groups.len().saturating_sub(MOST_ROWS),
            _ => 0,
        };
        let groups = result.groups.iter().skip(skipped).take(MOST_ROWS).map(|group| UsageRow {
            quoted_key: QuotedText::label(&group.key),
            tokens: group.tokens.total(),
            stated_micro_usd: group.stated_micro_usd,
        });
        Ok(UsageOutput {
            groups: groups.collect(),
            total_tokens: result.total.tokens.total(),
            unread: unread_count(&result.incomplete),
        })
    }
}

pub(super) struct DiskUse;

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DiskUseOutput {
    agents: Vec<DiskUseRow>,
    total_bytes: u64,
    unread: u64,
}

/// What the sessions of one agent take.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct DiskUseRow {
    agent: String,
    bytes: u64,
    sessions: u64,
}

impl McpTool for DiskUse {
    const NAME: &'static str = "disk_use";
    const DESCRIPTION: &'static str = "Says how many bytes the sessions of each agent take.";
    type Input = NoArguments;
    type Output = DiskUseOutput;

    fn run(state: &McpCall<'_>, _input: NoArguments) -> Result<DiskUseOutput, Error> {
        let observation = state.observe_visible()?;
        let mut rows: Vec<DiskUseRow> = Vec::new();
        for one in &observation.sessions {
            let bytes = one.session.transcript.as_ref().map_or(0, |transcript| transcript.bytes);
            match rows.iter_mut().find(|row| row.agent == one.session.agent) {
                Some(row) => {
                    row.bytes += bytes;
                    row.sessions += 1;
                }
                None => {
                    rows.push(DiskUseRow {
                        agent: one.session.agent.to_owned(),
                        bytes,
                        sessions: 1,
                    });
                }
            }
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
        Ok(DiskUseOutput {
            total_bytes: rows.iter().map(|row| row.bytes).sum(),
            agents: rows,
            unread: unread_count(&observation.incomplete),
        })
    }
}

pub(super) struct CleanUpPlan;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GcInput {
    /// With what agents left beside their sessions: temporary files and archives.
    #[serde(default)]
    temps: bool,
    /// With worktrees that are merged, clean and nobody's directory.
    #[serde(default)]
    worktrees: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct GcOutput {
    /// What would go, the biggest first. No tool carries it out: a person runs `ostler gc`.
    items: Vec<GcRow>,
    more: u64,
    /// Bytes of what would go.
    bytes: u64,
    unread: u64,
}

/// A thing that may go.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct GcRow {
    kind: String,
    bytes: u64,
    quoted_path: QuotedText,
    quoted_why: QuotedText,
}

impl McpTool for CleanUpPlan {
    const NAME: &'static str = "gc_plan";
    const DESCRIPTION: &'static str = "Shows what a clean-up would take and why. It only plans: a person \
        carries it out.";
    type Input = GcInput;
    type Output = GcOutput;

    fn run(state: &McpCall<'_>, input: GcInput) -> Result<GcOutput, Error> {
        let context = state.call_context();
        let machine = context.machine()?;
        let asked = [(input.temps, GcInclude::Temps), (input.worktrees, GcInclude::Worktrees)];
        let config = context.load_config()?.config;
        let mut ask = GcRequest {
            include: asked
                .into_iter()
                .filter(|(wanted, _)| *wanted)
                .map(|(_, kind)| kind)
                .collect(),
            older_than_ms: None,
            max_bytes: None,
            keep: Vec::new(),
            agents: Vec::new(),
            retention: config.retention,
            runtime: machine.runtime().to_owned(),
            variables: std::collections::BTreeMap::new(),
            adapter_roots: config.adapter_roots,
        };
        let plan = flows::gc::plan_gc_here(&mut ask, machine).into_preview();
        let observation = context.observe_now(ObserveScope::All, &[])?;
        let is_visible = |path: &str, session: Option<&str>| {
            let of_session =
                session.and_then(|id| observation.sessions.iter().find(|one| one.session.id == id));
            of_session
                .map_or_else(|| state.scope.contains(Some(path)), |one| state.scope.shows(one))
        };
        let mut rows: Vec<_> = plan
            .items
            .iter()
            .filter(|one| one.action == ItemFate::WouldGo)
            .filter(|one| is_visible(&one.item.path, one.item.session.as_deref()))
            .collect();
        rows.sort_by_key(|one| std::cmp::Reverse(one.item.bytes));
        Ok(GcOutput {
            bytes: rows.iter().map(|one| one.item.bytes).sum(),
            more: rows.len().saturating_sub(MOST_ROWS) as u64,
            items: rows
                .iter()
                .take(MOST_ROWS)
                .map(|one| GcRow {
                    kind: one.item.kind.as_str().to_owned(),
                    bytes: one.item.bytes,
                    quoted_path: QuotedText::label(&one.item.path),
                    quoted_why: QuotedText::label(&one.item.why),
                })
                .collect(),
            unread: unread_count(&plan.incomplete),
        })
    }
}
