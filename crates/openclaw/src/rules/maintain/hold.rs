//! Retention holds: why an entry stays at any age.

use std::collections::HashMap;

use super::{HoldReason, KeepReason, StoreSnapshot};
use crate::rules::document::StoreEntry;
use crate::rules::key::{SessionKey, SessionKeyKind};

/// Why an entry stays as far as age, cap and budget are concerned.
pub(super) fn keep_reason(
    entry: &StoreEntry<'_>,
    kind: SessionKeyKind,
    hold: Option<HoldReason>,
) -> KeepReason {
    if let Some(hold) = hold {
        return KeepReason::Held(hold);
    }
    if let Some(fault) = entry.fault {
        return KeepReason::Unusable(fault);
    }
    if kind.is_durable() {
        return KeepReason::Place(kind);
    }
    let chat = [&entry.view.chat_type, &entry.view.origin_chat_type];
    let is_place = |chat: &str| {
        ["group", "channel", "thread"].iter().any(|place| chat.eq_ignore_ascii_case(place))
    };
    if !kind.is_disposable() && chat.into_iter().flatten().any(|chat| is_place(chat)) {
        return KeepReason::Chat;
    }
    match entry.view.updated_at {
        Some(_) => KeepReason::Recent,
        None => KeepReason::Undated,
    }
}

/// What holds each entry: a session is held under every key that leads to it.
pub(super) fn hold_reasons(
    store: &StoreSnapshot<'_>,
    active: Option<&str>,
) -> Vec<Option<HoldReason>> {
    let active = active.map(SessionKey::new);
    let own: Vec<Option<HoldReason>> = std::iter::zip(&store.document.entries, store.facts)
        .map(|(entry, facts)| {
            let named = active
                .as_ref()
                .is_some_and(|key| key.as_str() == SessionKey::new(&entry.key).as_str());
            facts.hold.or(named.then_some(HoldReason::Active))
        })
        .collect();
    let mut by_session: HashMap<&str, HoldReason> = HashMap::new();
    for (entry, hold) in std::iter::zip(&store.document.entries, &own) {
        if let (Some(id), Some(hold)) = (entry.view.session_id.as_deref(), hold) {
            by_session.entry(id).or_insert(*hold);
        }
    }
    std::iter::zip(&store.document.entries, own)
        .map(|(entry, own)| {
            let shared = || by_session.get(entry.view.session_id.as_deref()?).copied();
            own.or_else(shared)
        })
        .collect()
}
