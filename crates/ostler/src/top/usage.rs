//! The usage pane: what a session has used, answer by answer and together.

use std::collections::BTreeMap;

use flows::observe::Observation;
use flows::usage::read_usage_series;
use model::session::SessionName;
use model::sighting::TokenUsage;

use super::pane::{PaneText, PaneTone, find_session};
use super::row::harmless;
use crate::render::{duration, text};

/// How many answers are listed.
const MAX_LISTED_ANSWERS: usize = 200;

/// What one session used; this may take a while.
pub(super) fn read_usage(observation: &Observation, name: &SessionName) -> PaneText {
    let Some(one) = find_session(observation, name) else {
        return PaneText::of_sentence("It is no longer there.");
    };
    let (series, problem) = read_usage_series(one);
    let mut lines = Vec::new();
    if let Some(problem) = problem {
        lines.push((PaneTone::Plain, harmless(&format!("Not all of it: {}", problem.reason))));
    }
    let mut models: BTreeMap<String, (u64, TokenUsage)> = BTreeMap::new();
    for step in &series.steps {
        let model = step.model.clone().unwrap_or_else(|| "unknown model".to_owned());
        let sum = models.entry(model).or_default();
        sum.0 += 1;
        sum.1.add_usage(step.tokens);
    }
    for (model, (answers, tokens)) in &models {
        lines.push((PaneTone::Heading, harmless(model)));
        let answers = text::format_plural(*answers, "answer");
        lines.push((PaneTone::Plain, format!("  {} in {answers}", describe_tokens(*tokens))));
    }
    if let Some(cost) = one.session.digest.cost_micro_usd {
        lines.push((PaneTone::Plain, format!("  ${:.2} stated", cost as f64 / 1e6)));
    }
    if models.is_empty() {
        return PaneText::of_sentence("It tells no tokens.");
    }
    lines.push((PaneTone::Plain, String::new()));
    lines.push((PaneTone::Heading, "answers, newest first".to_owned()));
    for step in series.steps.iter().rev().take(MAX_LISTED_ANSWERS) {
        let at = step.at.map(duration::local_time).unwrap_or_default();
        let context = text::format_count(step.context);
        let output = text::format_count(step.tokens.output);
        lines.push((PaneTone::Muted, format!("  {at}  context {context}  output {output}")));
    }
    PaneText { lines, scroll: 0 }
}

fn describe_tokens(tokens: TokenUsage) -> String {
    let count = text::format_count;
    format!(
        "{} tokens (input {}, output {}, cache read {}, cache write {})",
        count(tokens.total()),
        count(tokens.input),
        count(tokens.output),
        count(tokens.cache_read),
        count(tokens.cache_write)
    )
}
