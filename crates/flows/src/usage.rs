//! Token usage and cost over time, from every agent's transcripts.
//!
//! Each API message counts once, however often it was written: again for every block, again in the
//! history that a resumed or forked session copied. Cost is what the agent stated, else what the
//! settings' prices make of it, else there is none; the sums keep the three apart.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use model::session::SessionKind;
use model::time::Time;
use model::usage::{MessageUsage, PriceTable};
use model::wire::{IncompleteSource, UsageGrouping, UsageResult, UsageSeries, UsageStep, UsageSum};
use sys::spread::parallel_map;

use crate::observe::{Observation, Observed};

/// What is asked.
#[derive(Clone, Copy)]
pub struct UsageQuestion<'a> {
    /// What to sum up by.
    pub by: UsageGrouping,
    /// Not what is older.
    pub since: Option<Time>,
    /// Not what is newer.
    pub until: Option<Time>,
    /// Prices that a person set.
    pub prices: &'a PriceTable,
    /// The local day of a time.
    pub day_of: &'a dyn Fn(Time) -> String,
}

impl std::fmt::Debug for UsageQuestion<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UsageQuestion").field("by", &self.by).finish_non_exhaustive()
    }
}

/// What one session used.
struct SessionUsage {
    messages: Vec<MessageUsage>,
    /// Whether the agent tells only totals.
    is_whole: bool,
    problem: Option<IncompleteSource>,
}

/// One message and whose it is.
struct CountedMessage<'a> {
    one: &'a Observed,
    usage: MessageUsage,
}

/// Sums up what all sessions used.
pub fn sum_usage(observation: &Observation, question: &UsageQuestion<'_>) -> UsageResult {
    let all = observation.sessions.iter().chain(&observation.subagents);
    let native: Vec<&Observed> =
        all.filter(|one| one.session.kind == SessionKind::Native && one.source.is_some()).collect();
    let read = parallel_map(&native, 1, |one| read_session(one));
    let mut incomplete = observation.incomplete.clone();
    let mut counted: Vec<CountedMessage<'_>> = Vec::new();
    let mut known: HashMap<(&str, u64), usize> = HashMap::new();
    let mut sessions_counted_whole = 0;
    for (&one, session) in native.iter().zip(read) {
        incomplete.extend(session.problem);
        sessions_counted_whole += u64::from(session.is_whole);
        for usage in session.messages {
            let key = usage.id.map(|id| (one.session.agent, id));
            match key.and_then(|key| known.get(&key)) {
                Some(&place) => keep_fuller(&mut counted[place].usage, usage),
                None => {
                    if let Some(key) = key {
                        known.insert(key, counted.len());
                    }
                    counted.push(CountedMessage { one, usage });
                }
            }
        }
    }
    let mut sums = UsageSums { question, groups: BTreeMap::new(), total: OpenSum::default() };
    let states_cost = sessions_that_state_cost(&native);
    for message in &counted {
        let name = (message.one.session.agent, message.one.session.id.as_str());
        let parent = message.one.session.digest.parent.as_deref();
        let by_parent =
            parent.is_some_and(|parent| states_cost.covering.contains(&(name.0, parent)));
        sums.add_message(message, states_cost.own.contains(&name) || by_parent);
    }
    for one in &native {
        if states_cost.own.contains(&(one.session.agent, one.session.id.as_str())) {
            sums.add_session_cost(one, &states_cost);
        }
    }
    sums.into_result(sessions_counted_whole, incomplete)
}

/// What one session used, answer by answer; each counts once.
pub fn read_usage_series(one: &Observed) -> (UsageSeries, Option<IncompleteSource>) {
    let SessionUsage { messages, problem, .. } = read_session(one);
    let mut known: HashMap<u64, usize> = HashMap::new();
    let mut counted: Vec<MessageUsage> = Vec::new();
    for usage in messages {
        match usage.id.and_then(|id| known.get(&id).copied()) {
            Some(place) => keep_fuller(&mut counted[place], usage),
            None => {
                if let Some(id) = usage.id {
                    known.insert(id, counted.len());
                }
                counted.push(usage);
            }
        }
    }
    let steps = counted.into_iter().map(|usage| UsageStep {
        at: usage.at,
        model: usage.model,
        context: usage.tokens.input + usage.tokens.cache_read + usage.tokens.cache_write,
        tokens: usage.tokens,
        cost_micro_usd: usage.cost_micro_usd,
    });
    let (agent, id) = (one.session.agent.to_owned(), one.session.id.clone());
    (UsageSeries { agent, id, steps: steps.collect() }, problem)
}

fn read_session(one: &Observed) -> SessionUsage {
    let mut session = SessionUsage { messages: Vec::new(), is_whole: false, problem: None };
    let (Some(source), Some(adapter)) = (&one.source, adapters::by_id(one.session.agent)) else {
        return session;
    };
    match adapter.read_usage(source, &mut |usage| session.messages.push(usage)) {
        Ok(true) => {}
        Ok(false) => {
            let digest = &one.session.digest;
            session.is_whole = digest.tokens.is_some();
            session.messages.extend(digest.tokens.map(|tokens| MessageUsage {
                id: None,
                at: one.session.last_activity_at(),
                model: digest.model.clone(),
                tokens,
                cost_micro_usd: None,
            }));
        }
        Err(error) if error.is_absent() || matches!(error, adapters::ReadError::Empty) => {}
        Err(error) => {
            session.problem = Some(IncompleteSource {
                source: one.session.agent.to_owned(),
                path: Some(source.path.to_string_lossy().into_owned()),
                reason: error.to_string(),
            });
        }
    }
    session
}

/// A message that is written while it streams grows: the fullest account of it counts, on the day of
/// the first.
fn keep_fuller(known: &mut MessageUsage, again: MessageUsage) {
    if again.tokens.output > known.tokens.output {
        known.tokens = again.tokens;
    }
    known.cost_micro_usd = known.cost_micro_usd.max(again.cost_micro_usd);
    known.at = match (known.at, again.at) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
}

/// Sessions whose agent states one cost for the whole of them.
#[derive(Default)]
struct StatedCosts<'a> {
    own: HashSet<(&'a str, &'a str)>,
    /// Those whose cost is their sub-agents' too.
    covering: HashSet<(&'a str, &'a str)>,
}

fn sessions_that_state_cost<'a>(native: &[&'a Observed]) -> StatedCosts<'a> {
    let mut stated = StatedCosts::default();
    for one in native {
        let digest = &one.session.digest;
        if digest.cost_micro_usd.is_some() {
            let name = (one.session.agent, one.session.id.as_str());
            stated.own.insert(name);
            if digest.cost_covers_subagents {
                stated.covering.insert(name);
            }
        }
    }
    stated
}

/// A sum that is still growing.
#[derive(Default)]
struct OpenSum {
    sum: UsageSum,
    models: BTreeSet<String>,
}

struct UsageSums<'a> {
    question: &'a UsageQuestion<'a>,
    groups: BTreeMap<String, OpenSum>,
    total: OpenSum,
}

impl UsageSums<'_> {
    fn is_asked(&self, at: Option<Time>) -> bool {
        let question = self.question;
        let after = question.since.is_none_or(|since| at.is_some_and(|at| at >= since));
        after && question.until.is_none_or(|until| at.is_some_and(|at| at < until))
    }

    fn key_of(&self, one: &Observed, at: Option<Time>, model: Option<&str>) -> String {
        let key = match self.question.by {
            UsageGrouping::Day => at.map(|at| (self.question.day_of)(at)),
            UsageGrouping::Agent => Some(one.session.agent.to_owned()),
            UsageGrouping::Project => one.session.digest.cwd.clone(),
            UsageGrouping::Model => model.map(str::to_owned),
        };
        key.unwrap_or_else(|| "unknown".to_owned())
    }

    fn add_message(&mut self, message: &CountedMessage<'_>, session_states_cost: bool) {
        let usage = &message.usage;
        if !self.is_asked(usage.at) {
            return;
        }
        let key = self.key_of(message.one, usage.at, usage.model.as_deref());
        let price = usage.model.as_ref().and_then(|model| self.question.prices.get(model));
        for open in [self.groups.entry(key).or_default(), &mut self.total] {
            let sum = &mut open.sum;
            sum.tokens.add_usage(usage.tokens);
            sum.messages += 1;
            if let Some(model) = &usage.model
                && !open.models.contains(model)
            {
                open.models.insert(model.clone());
            }
            if session_states_cost {
                // Stated for the session as a whole, and added once.
            } else if let Some(cost) = usage.cost_micro_usd {
                *sum.stated_micro_usd.get_or_insert_default() += cost;
            } else if let Some(price) = price {
                *sum.priced_micro_usd.get_or_insert_default() += price.cost_micro_usd(usage.tokens);
            } else {
                sum.unpriced_tokens = sum.unpriced_tokens.saturating_add(usage.tokens.total());
            }
        }
    }

    /// The cost of a whole session belongs to the day of its last activity and to its last model.
    fn add_session_cost(&mut self, one: &Observed, stated: &StatedCosts<'_>) {
        let (session, digest) = (&one.session, &one.session.digest);
        let covered = digest
            .parent
            .as_deref()
            .is_some_and(|parent| stated.covering.contains(&(session.agent, parent)));
        let at = session.last_activity_at();
        let Some(cost) = digest.cost_micro_usd.filter(|_| !covered && self.is_asked(at)) else {
            return;
        };
        let key = self.key_of(one, at, digest.model.as_deref());
        for open in [self.groups.entry(key).or_default(), &mut self.total] {
            *open.sum.stated_micro_usd.get_or_insert_default() += cost;
        }
    }

    fn into_result(
        self,
        sessions_counted_whole: u64,
        incomplete: Vec<IncompleteSource>,
    ) -> UsageResult {
        let close = |key: String, open: OpenSum| UsageSum {
            key,
            models: open.models.into_iter().collect(),
            ..open.sum
        };
        let mut groups: Vec<UsageSum> =
            self.groups.into_iter().map(|(key, open)| close(key, open)).collect();
        if self.question.by != UsageGrouping::Day {
            groups.sort_by_key(|group| std::cmp::Reverse(group.tokens.total()));
        }
        let total = close("total".to_owned(), self.total);
        let by = self.question.by;
        UsageResult { by, groups, total, sessions_counted_whole, incomplete }
    }
}
