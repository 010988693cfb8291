//! Metrics: what is true now, from one observation, and what has been counted, from the store.

use std::collections::BTreeMap;

use adapters::hooks::is_failed_turn;
use model::control::fuses::FuseState;
use model::metrics::{Distribution, MetricFamily, MetricKind, span_bounds};
use model::rules::judge::proven_owners;
use model::session::SessionKind;
use model::time::Time;
use model::wire::LockKind;
use store::state::{StateError, StateStore, Tally};
use sys::machine::Machine;

use crate::fuses::list_fuses;
use crate::locks::list_locks;
use crate::observe::Observation;
use crate::permits::list_hook_requests;

type MetricLabels = Vec<(&'static str, String)>;

/// Counts of the store that are metrics as they are: kinds of events, name, labels, meaning.
const COUNTED_EVENTS: [(&[&str], &str, &[&str], &str); 4] = [
    (
        &["session.launched"],
        "ostler_launches_total",
        &["agent", "mode", "result"],
        "Agents that were launched.",
    ),
    (
        &["delivery.accepted", "delivery.failed"],
        "ostler_deliveries_total",
        &["agent", "channel", "state"],
        "Prompts, by whether they are proven to have arrived.",
    ),
    (&["session.stopped"], "ostler_stops_total", &["agent", "how"], "Sessions that were stopped."),
    (
        &["fuse.fired"],
        "ostler_fuses_fired_total",
        &["action", "result"],
        "Fuses that came due, by what became of them.",
    ),
];

/// Spans of the store that are histograms: what they are counted under, name, labels, meaning.
const COUNTED_SPANS: [(&str, &str, &[&str], &str); 3] = [
    (
        "session-duration",
        "ostler_session_duration_seconds",
        &["agent"],
        "From the first report of a session to its end, of sessions that reported by hooks.",
    ),
    (
        "delivery-accept",
        "ostler_delivery_accept_seconds",
        &["agent"],
        "From a prompt to the proof that it arrived.",
    ),
    (
        "permission-wait",
        "ostler_permission_wait_seconds",
        &[],
        "From a question to the answer that was given through ostler.",
    ),
];

/// Everything that is measured.
pub fn gather_metrics(
    observation: &Observation,
    machine: &Machine,
    version: &str,
) -> Result<Vec<MetricFamily>, StateError> {
    let state = StateStore::open_read_only(machine.home())?;
    let tallies = state.as_ref().map(StateStore::list_tallies).transpose()?.unwrap_or_default();
    let mut families = session_families(observation);
    families.extend(usage_families(observation));
    families.push(count_turns(&tallies));
    families.push(count_requests(machine));
    families.push(count_locks(observation, machine)?);
    families.push(count_fuses(machine)?);
    for (kinds, name, labels, help) in COUNTED_EVENTS {
        families.push(count_events(
            &tallies,
            kinds,
            MetricFamily::new(name, MetricKind::Counter, help),
            labels,
        ));
    }
    for (span, name, labels, help) in COUNTED_SPANS {
        families.push(count_spans(
            &tallies,
            span,
            MetricFamily::new(name, MetricKind::Histogram, help),
            labels,
        ));
    }
    families.extend(webhook_families(state.as_ref(), machine.read_clock())?);
    let mut incomplete = MetricFamily::new(
        "ostler_incomplete_sources",
        MetricKind::Gauge,
        "Sources that could not be read.",
    );
    incomplete.add_sample(Vec::new(), observation.incomplete.len() as f64);
    families.push(incomplete);
    let mut build = MetricFamily::new("ostler_build_info", MetricKind::Gauge, "Always 1.");
    build.add_sample(vec![("version", version.to_owned())], 1.0);
    families.push(build);
    Ok(families)
}

/// What is true of sessions now.
fn session_families(observation: &Observation) -> Vec<MetricFamily> {
    let mut sessions: BTreeMap<[&'static str; 4], u64> = BTreeMap::new();
    let (mut stale, mut shared) = (0, 0);
    for one in &observation.sessions {
        let kind = match one.session.kind {
            SessionKind::Native => "native",
            SessionKind::Hosted => "hosted",
            SessionKind::Access => "access",
        };
        let activity = one.verdict.activity.map_or("", |activity| activity.as_str());
        let key = [one.session.agent, kind, one.verdict.status.as_str(), activity];
        *sessions.entry(key).or_default() += 1;
        stale += u64::from(one.verdict.stale);
        let is_shared =
            one.session.kind == SessionKind::Native && proven_owners(&one.session).nth(1).is_some();
        shared += u64::from(is_shared);
    }
    let mut family = MetricFamily::new(
        "ostler_sessions",
        MetricKind::Gauge,
        "Sessions by agent, kind, status and what they do.",
    );
    for (key, count) in sessions {
        let names = ["agent", "kind", "status", "activity"];
        let labels = names.into_iter().zip(key.map(str::to_owned)).collect();
        family.add_sample(labels, count as f64);
    }
    let mut stale_family = MetricFamily::new(
        "ostler_sessions_stale",
        MetricKind::Gauge,
        "Sessions that work without a sign of life.",
    );
    stale_family.add_sample(Vec::new(), stale as f64);
    let mut shared_family = MetricFamily::new(
        "ostler_conversations_with_several_holders",
        MetricKind::Gauge,
        "Conversations that more than one process holds.",
    );
    shared_family.add_sample(Vec::new(), shared as f64);
    vec![family, stale_family, shared_family]
}

/// What the transcripts that are there say was used. `ostler usage` counts each message once; this is
/// the sum over sessions.
fn usage_families(observation: &Observation) -> [MetricFamily; 2] {
    let mut tokens: BTreeMap<(&'static str, &'static str), u64> = BTreeMap::new();
    let mut costs: BTreeMap<&'static str, u64> = BTreeMap::new();
    for one in &observation.sessions {
        let digest = &one.session.digest;
        if let Some(used) = digest.tokens {
            let kinds = [
                ("input", used.input),
                ("output", used.output),
                ("cache_read", used.cache_read),
                ("cache_write", used.cache_write),
            ];
            for (kind, count) in kinds {
                let sum = tokens.entry((one.session.agent, kind)).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        if let Some(cost) = digest.cost_micro_usd {
            let sum = costs.entry(one.session.agent).or_default();
            *sum = sum.saturating_add(cost);
        }
    }
    let mut token_family = MetricFamily::new(
        "ostler_tokens_total",
        MetricKind::Counter,
        "Tokens of the sessions whose transcripts are there.",
    );
    for ((agent, kind), count) in tokens {
        let labels = vec![("agent", agent.to_owned()), ("kind", kind.to_owned())];
        token_family.add_sample(labels, count as f64);
    }
    let mut cost_family = MetricFamily::new(
        "ostler_cost_micro_usd_total",
        MetricKind::Counter,
        "Cost that agents state, in millionths of a dollar, of the sessions whose transcripts are there.",
    );
    for (agent, cost) in costs {
        cost_family.add_sample(vec![("agent", agent.to_owned())], cost as f64);
    }
    [token_family, cost_family]
}

fn count_turns(tallies: &[Tally]) -> MetricFamily {
    let mut turns: BTreeMap<(String, &str), u64> = BTreeMap::new();
    for tally in tallies.iter().filter(|tally| tally.name == "turn-end") {
        let label = |name: &str| tally.labels.get(name).cloned().unwrap_or_default();
        let end = match is_failed_turn(&label("agent"), &label("event")) {
            true => "failed",
            false => "answered",
        };
        *turns.entry((label("agent"), end)).or_default() += tally.count;
    }
    let mut family = MetricFamily::new(
        "ostler_turns_total",
        MetricKind::Counter,
        "Turns whose end was reported by hooks.",
    );
    for ((agent, end), count) in turns {
        family.add_sample(vec![("agent", agent), ("end", end.to_owned())], count as f64);
    }
    family
}

/// Directories that are busy or locked.
fn count_locks(observation: &Observation, machine: &Machine) -> Result<MetricFamily, StateError> {
    let mut family = MetricFamily::new(
        "ostler_locks",
        MetricKind::Gauge,
        "Directories in which agents work, and those that somebody has locked.",
    );
    let locks = list_locks(observation, machine)?.locks;
    for (kind, word) in [(LockKind::Busy, "busy"), (LockKind::Manual, "manual")] {
        let count = locks.iter().filter(|lock| lock.kind == kind && !lock.stale).count();
        family.add_sample(vec![("kind", word.to_owned())], count as f64);
    }
    Ok(family)
}

/// Fuses that are armed.
fn count_fuses(machine: &Machine) -> Result<MetricFamily, StateError> {
    let mut armed: BTreeMap<&str, u64> = BTreeMap::new();
    let fuses = list_fuses(machine.home(), false)?;
    for fuse in fuses.iter().filter(|fuse| fuse.state == FuseState::Armed) {
        *armed.entry(fuse.action.as_str()).or_default() += 1;
    }
    let mut family =
        MetricFamily::new("ostler_fuses", MetricKind::Gauge, "Fuses that wait for their time.");
    for (action, count) in armed {
        family.add_sample(vec![("action", action.to_owned())], count as f64);
    }
    Ok(family)
}

/// What webhooks have sent, and what is still before them. One that is disabled is behind nothing.
fn webhook_families(
    state: Option<&StateStore>,
    now: Time,
) -> Result<[MetricFamily; 3], StateError> {
    let mut tries = MetricFamily::new(
        "ostler_webhook_tries_total",
        MetricKind::Counter,
        "Attempts of webhooks to send an event, by what came of them.",
    );
    let mut backlog = MetricFamily::new(
        "ostler_webhook_backlog",
        MetricKind::Gauge,
        "Events that a webhook has still to look at.",
    );
    let mut oldest = MetricFamily::new(
        "ostler_webhook_oldest_seconds",
        MetricKind::Gauge,
        "Age of the first of them; 0 if there is none.",
    );
    if let Some(state) = state {
        let newest = state.newest_event()?;
        for webhook in state.list_webhooks()? {
            let label = || ("webhook", webhook.id.clone());
            for (result, count) in
                [("delivered", webhook.delivered), ("failed", webhook.failed_tries)]
            {
                tries.add_sample(vec![label(), ("result", result.to_owned())], count as f64);
            }
            if webhook.disabled.is_some() {
                continue;
            }
            let behind = newest.saturating_sub(webhook.cursor).max(0);
            backlog.add_sample(vec![label()], behind as f64);
            let first = state.events_after(webhook.cursor, 1)?;
            let age = first.first().map(|event| now.since(event.at).as_secs_f64());
            oldest.add_sample(vec![label()], age.unwrap_or_default());
        }
    }
    Ok([tries, backlog, oldest])
}

/// Requests that wait for an answer. What cannot be read is none that could be answered.
fn count_requests(machine: &Machine) -> MetricFamily {
    let mut pending: BTreeMap<String, u64> = BTreeMap::new();
    for request in list_hook_requests(machine).unwrap_or_default() {
        *pending.entry(request.agent).or_default() += 1;
    }
    let mut family = MetricFamily::new(
        "ostler_permissions_pending",
        MetricKind::Gauge,
        "Permission requests that ostler could answer.",
    );
    for (agent, count) in pending {
        family.add_sample(vec![("agent", agent)], count as f64);
    }
    family
}

fn labels_of(tally: &Tally, names: &[&'static str]) -> MetricLabels {
    let value = |name: &str| match tally.labels.get(name) {
        Some(value) => value.clone(),
        // An event whose kind says how it went need not say it again.
        None if name == "state" => tally.name.rsplit('.').next().unwrap_or_default().to_owned(),
        None => String::new(),
    };
    names.iter().map(|name| (*name, value(name))).collect()
}

fn count_events(
    tallies: &[Tally],
    kinds: &[&str],
    mut family: MetricFamily,
    names: &[&'static str],
) -> MetricFamily {
    let mut counts: BTreeMap<MetricLabels, u64> = BTreeMap::new();
    for tally in tallies.iter().filter(|tally| kinds.contains(&tally.name.as_str())) {
        *counts.entry(labels_of(tally, names)).or_default() += tally.count;
    }
    counts.into_iter().for_each(|(labels, count)| family.add_sample(labels, count as f64));
    family
}

fn count_spans(
    tallies: &[Tally],
    span: &str,
    mut family: MetricFamily,
    names: &[&'static str],
) -> MetricFamily {
    let mut spans: BTreeMap<MetricLabels, Distribution> = BTreeMap::new();
    for tally in tallies.iter().filter(|tally| tally.name == span) {
        let distribution = spans.entry(labels_of(tally, names)).or_default();
        distribution.buckets.push((tally.bound_ms, tally.count));
        distribution.sum_ms = distribution.sum_ms.saturating_add(tally.sum_ms);
    }
    for (labels, distribution) in spans {
        family.add_distribution(&labels, span_bounds(span), &distribution);
    }
    family
}
