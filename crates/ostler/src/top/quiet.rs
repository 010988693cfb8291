//! What is shown while nothing runs: what ended last, or where agents were looked for.

use flows::observe::{Observation, Observed};
use model::filter::FilterWords;
use model::time::Time;

use super::draw::age_label;
use super::row::{LookedTimes, TopRow, build_rows, harmless};
use super::work::{TopPlace, WorkOutcome};
use crate::render::text;

/// How many ended sessions are shown.
const MOST_ENDED: usize = 3;

impl TopPlace {
    /// Looks at what has ended, too; this may take a while.
    pub(crate) fn describe_quiet(&self) -> WorkOutcome {
        let observation = self.observe_all();
        WorkOutcome::Quiet(quiet_lines(&observation, sys::clock::now()))
    }
}

/// The newest ended sessions, or where agents were looked for if there is no trace of one.
pub(super) fn quiet_lines(observation: &Observation, now: Time) -> Vec<String> {
    let rows = build_rows(observation, &LookedTimes::since(None), &FilterWords::default(), now);
    let mut ended: Vec<&TopRow> = rows.iter().filter(|row| row.status.is_terminal()).collect();
    ended.sort_by_key(|row| std::cmp::Reverse(row.last_sign));
    let mut lines: Vec<String> = ended
        .into_iter()
        .take(MOST_ENDED)
        .map(|row| {
            let doing = text::cut_right(&row.doing, 40);
            format!("· {}  {}  {doing}  {}", row.label, row.agent, age_label(row.last_sign, now))
        })
        .collect();
    let is_trace = |one: &Observed| one.session.kind == model::session::SessionKind::Native;
    if !observation.sessions.iter().any(is_trace) {
        lines.push("No agent has left a trace. Looked at:".to_owned());
        let agents = observation.agents.iter().filter(|agent| !agent.disabled);
        for root in agents.flat_map(|agent| &agent.roots) {
            let state = if root.exists() { "empty" } else { "not there" };
            let path = text::home_as_tilde(&root.to_string_lossy());
            lines.push(format!("  {}: {state}", harmless(&path)));
        }
    }
    lines
}
