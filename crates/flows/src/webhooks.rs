//! Webhooks: adding and removing them, and what their sender has to do next.
//!
//! The sender is another program (`ostler-net`), which asks the daemon for batches of events and
//! reports what came of them; every change goes through the writer.

use std::path::Path;

use model::failure::{Failure, FailureKind};
use model::time::Time;
use model::webhook::{WebhookChange, WebhookRecord, strip_details};
use model::wire::{EventView, WebhookBatch, WebhooksResult};
use store::state::{StateError, StateStore};
use store::writer::StoreWriter;

/// How many webhooks there may be: each has a connection of its own.
const MOST_WEBHOOKS: usize = 32;

/// How many events a sender is given at once.
const EVENTS_PER_BATCH: usize = 100;

/// A new secret, as Standard Webhooks writes it.
pub fn new_secret() -> std::io::Result<String> {
    use base64::Engine;

    let key = sys::random::random_bytes::<32>()?;
    Ok(format!("whsec_{}", base64::engine::general_purpose::STANDARD.encode(key)))
}

/// All webhooks of a home.
pub fn list_webhooks(home: &Path) -> Result<WebhooksResult, StateError> {
    let Some(state) = StateStore::open_read_only(home)? else {
        return Ok(WebhooksResult::default());
    };
    list_webhooks_in(&state)
}

fn list_webhooks_in(state: &StateStore) -> Result<WebhooksResult, StateError> {
    let (webhooks, newest) = (state.list_webhooks()?, state.newest_event()?);
    Ok(WebhooksResult { webhooks, newest, transport: None })
}

/// What the sender of a webhook has to do next.
pub fn next_batch(home: &Path, id: &str) -> Result<WebhookBatch, StateError> {
    let gone = WebhookBatch {
        store: String::new(),
        webhook: None,
        again: Vec::new(),
        events: Vec::new(),
        through: 0,
    };
    let Some(state) = StateStore::open_read_only(home)? else { return Ok(gone) };
    let Some(webhook) = state.find_webhook(id)? else { return Ok(gone) };
    let mut batch = WebhookBatch {
        store: state.store_identity()?,
        through: webhook.cursor,
        webhook: None,
        ..gone
    };
    if webhook.disabled.is_none() {
        let seen = state.events_after(webhook.cursor, EVENTS_PER_BATCH)?;
        batch.through = seen.last().map_or(webhook.cursor, |event| event.cursor);
        let wanted = seen.into_iter().filter(|event| webhook.wants_kind(&event.kind));
        batch.events = wanted.map(|event| strip_event(event, &webhook)).collect();
        for aside in webhook.set_aside.iter().filter(|one| one.retry).take(EVENTS_PER_BATCH) {
            let found = state.events_after(aside.cursor - 1, 1)?;
            let found = found.into_iter().filter(|event| event.cursor == aside.cursor);
            batch.again.extend(found.map(|event| strip_event(event, &webhook)));
        }
    }
    batch.webhook = Some(webhook);
    Ok(batch)
}

fn strip_event(mut event: EventView, webhook: &WebhookRecord) -> EventView {
    strip_details(&mut event.detail, &webhook.include);
    event
}

/// Changes what is known of webhooks. The caller holds the writer lock.
pub(crate) fn perform_webhook_change(
    writer: &mut StoreWriter,
    what: &WebhookChange,
    now: Time,
) -> Result<WebhooksResult, Failure> {
    let state = writer.state_mut().map_err(|error| not_written(&error))?;
    let mut result = WebhooksResult::default();
    match what {
        WebhookChange::Add(webhook) => {
            let known = state.list_webhooks().map_err(|error| not_written(&error))?;
            if known.len() >= MOST_WEBHOOKS {
                return Err(Failure {
                    kind: FailureKind::Refused,
                    message: format!("there are {MOST_WEBHOOKS} webhooks already"),
                    hint: "`ostler webhook rm ID` removes one".to_owned(),
                });
            }
            let newest = state.newest_event().map_err(|error| not_written(&error))?;
            let webhook = WebhookRecord { cursor: newest, ..(**webhook).clone() };
            state.save_webhook(&webhook).map_err(|error| not_written(&error))?;
            result.webhooks.push(webhook);
        }
        WebhookChange::Remove { id } => {
            let webhook = find_webhook(state, id)?;
            state.forget_webhook(id).map_err(|error| not_written(&error))?;
            result.webhooks.push(webhook);
        }
        WebhookChange::Retry { id } => {
            let mut webhook = find_webhook(state, id)?;
            webhook.retry_now();
            state.save_webhook(&webhook).map_err(|error| not_written(&error))?;
            result.webhooks.push(webhook);
        }
        WebhookChange::Report { id, outcomes } => {
            let mut webhook = find_webhook(state, id)?;
            outcomes.iter().for_each(|outcome| webhook.apply_outcome(outcome, now));
            sys::pause::pause_at("webhook.reported");
            state.save_webhook(&webhook).map_err(|error| not_written(&error))?;
            result.webhooks.push(webhook);
        }
    }
    result.newest = state.newest_event().map_err(|error| not_written(&error))?;
    Ok(result)
}

fn find_webhook(state: &StateStore, id: &str) -> Result<WebhookRecord, Failure> {
    let found = state.find_webhook(id).map_err(|error| not_written(&error))?;
    found.ok_or_else(|| Failure {
        kind: FailureKind::NotFound,
        message: format!("there is no webhook `{id}`"),
        hint: "`ostler webhook ls` lists what there is".to_owned(),
    })
}

fn not_written(error: &StateError) -> Failure {
    Failure {
        kind: FailureKind::Write,
        message: format!("the webhook was not changed: {error}"),
        hint: "`ostler doctor` tells what is wrong".to_owned(),
    }
}
