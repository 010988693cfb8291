//! Live sessions for pages: one watch for all tabs, and what changed since a tab was told.
//!
//! The watch (`flows::live`) begins with the first page that asks, and then sleeps until the kernel tells
//! that something may have changed.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use flows::live::{LiveSessions, LiveSource, LiveUpdate};
use flows::observe::Observed;
use model::filter::FilterWords;
use model::rules::attention::{AttentionGroup, AttentionPlace};
use model::session::SessionKind;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::api::ApiFailure;

/// How many rows a page is given that names no number; further ones are counted.
const USUAL_ROWS: usize = 200;
/// The most rows that a page is given.
const MOST_ROWS: usize = 2000;

/// Sessions as they are now, for all tabs.
#[derive(Debug)]
pub(super) struct SessionHub {
    source: LiveSource,
    latest: watch::Sender<Option<Arc<LiveUpdate>>>,
    is_started: Mutex<bool>,
}

impl SessionHub {
    pub(super) fn new(source: LiveSource) -> Self {
        Self { source, latest: watch::Sender::new(None), is_started: Mutex::new(false) }
    }

    /// What is known now, and changes as they come.
    pub(super) fn subscribe(
        self: &Arc<Self>,
    ) -> std::io::Result<watch::Receiver<Option<Arc<LiveUpdate>>>> {
        let receiver = self.latest.subscribe();
        let mut is_started = self.is_started.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_started {
            let hub = Arc::clone(self);
            let thread = std::thread::Builder::new().name("live".to_owned());
            thread.spawn(move || hub.watch_sessions())?;
            *is_started = true;
        }
        Ok(receiver)
    }

    fn watch_sessions(&self) {
        let mut live = LiveSessions::new(self.source.clone());
        loop {
            match live.next_change(None, None) {
                Ok(Some(update)) => drop(self.latest.send_replace(Some(Arc::new(update)))),
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(%error, "sessions are not watched any more");
                    *self.is_started.lock().unwrap_or_else(PoisonError::into_inner) = false;
                    return;
                }
            }
        }
    }
}

/// A subscription of a tab to sessions.
pub(super) struct SessionsChannel {
    ch: u32,
    filter: FilterWords,
    /// How many rows.
    window: usize,
    revision: u64,
    /// Rows by key, as the page has them.
    told: HashMap<String, Value>,
    told_order: Vec<String>,
    told_about: Value,
}

impl SessionsChannel {
    pub(super) fn open(ch: u32, filter: &str, window: Option<usize>) -> Result<Self, ApiFailure> {
        let filter = FilterWords::parse(filter, sys::clock::now()).map_err(|error| {
            let hint = "words, is:waiting, agent:, project:, branch:, model:, since:2d, -word";
            ApiFailure::new(
                "INVALID_INPUT",
                format!("the filter cannot be understood: {error}"),
                hint,
            )
        })?;
        Ok(Self {
            ch,
            filter,
            window: window.unwrap_or(USUAL_ROWS).min(MOST_ROWS),
            revision: 0,
            told: HashMap::new(),
            told_order: Vec::new(),
            told_about: Value::Null,
        })
    }

    /// What the page must be told, as JSON: everything at first, then what changed.
    pub(super) fn next_frame(&mut self, update: &LiveUpdate) -> Option<String> {
        let placed = self.place_sessions(update);
        let mut groups: HashMap<AttentionGroup, usize> = HashMap::new();
        for (place, _) in &placed {
            *groups.entry(place.group).or_default() += 1;
        }
        let count = |group: &AttentionGroup| groups.get(group).copied().unwrap_or(0);
        let groups: Vec<Value> = AttentionGroup::ALL
            .iter()
            .map(|group| json!({ "group": group, "count": count(group) }))
            .collect();
        let about = json!({
            "groups": groups,
            "incomplete": update.observation.incomplete,
            "unattached": update.observation.unattached,
            "asks": update.asks_because,
        });
        let rows: Vec<(String, Value)> = placed
            .iter()
            .take(self.window)
            .filter_map(|(place, one)| {
                Some((row_key(one), row_value(one, place.group, &update.observation.sessions)?))
            })
            .collect();
        let order: Vec<String> = rows.iter().map(|(key, _)| key.clone()).collect();
        let put: Vec<&Value> = rows
            .iter()
            .filter(|(key, row)| self.told.get(key) != Some(row))
            .map(|(_, row)| row)
            .collect();
        let listed: HashSet<&String> = order.iter().collect();
        let gone: Vec<&String> = self.told.keys().filter(|key| !listed.contains(key)).collect();
        let nothing = put.is_empty()
            && gone.is_empty()
            && order == self.told_order
            && about == self.told_about
            && self.revision > 0;
        if nothing {
            return None;
        }
        let mut frame =
            json!({ "ch": self.ch, "rev": self.revision + 1, "put": put, "gone": gone });
        if order != self.told_order || self.revision == 0 {
            frame["order"] = json!(order);
        }
        if about != self.told_about {
            frame["about"] = about.clone();
        }
        self.revision += 1;
        self.told = rows.into_iter().collect();
        (self.told_order, self.told_about) = (order, about);
        Some(frame.to_string())
    }

    /// Sessions that the filter fits, each with its place; a terminal and its agent are one.
    fn place_sessions<'a>(&self, update: &'a LiveUpdate) -> Vec<(AttentionPlace, &'a Observed)> {
        let sessions = &update.observation.sessions;
        let is_listed = |agent: &str, id: &str| {
            sessions.iter().any(|one| one.session.agent == agent && one.session.id == id)
        };
        let is_folded = |one: &Observed| {
            one.session.kind == SessionKind::Hosted
                && one.session.linked.iter().any(|other| is_listed(other.agent, &other.id))
        };
        let mut placed: Vec<(AttentionPlace, &Observed)> = sessions
            .iter()
            .filter(|one| one.session.kind != SessionKind::Access && !is_folded(one))
            .filter(|one| self.filter.is_empty() || self.filter.matches(&one.session_view()))
            .map(|one| {
                let place = AttentionPlace::of_session(&one.session, &one.verdict, None, update.at);
                (place, one)
            })
            .collect();
        placed.sort_by(|one, other| one.0.cmp(&other.0));
        placed
    }
}

fn row_key(one: &Observed) -> String {
    one.session.session_name().to_string()
}

/// A session as `ls` has it, with its group, and the name of the terminal that it runs in.
fn row_value(one: &Observed, group: AttentionGroup, all: &[Observed]) -> Option<Value> {
    let mut row = model::json_text::to_json_value(&one.session_view()).ok()?;
    let is_its_terminal = |other: &&Observed| {
        other.session.kind == SessionKind::Hosted
            && one.session.linked.iter().any(|linked| linked.id == other.session.id)
    };
    if let Some(name) =
        all.iter().find(is_its_terminal).and_then(|it| it.session.digest.name.as_ref())
    {
        row["terminalName"] = json!(name);
    }
    row["key"] = Value::String(row_key(one));
    row["group"] = json!(group);
    Some(row)
}
