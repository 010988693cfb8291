//! The databases of 2026.8 and later, read only.

use crate::rules::document::{self, IndexDocument};
use crate::wire::{StoreFinding, StoreSession};
use model::time::Time;

use super::StoreError;
use super::find::StorePlace;
use super::list::{StoreListing, session_view};

fn read_failed(place: &StorePlace) -> impl Fn(adapters::ReadError) -> StoreError {
    let path = place.path.clone();
    move |error| StoreError::Read { path: path.clone(), reason: error.to_string() }
}

/// The sessions of a database. What it keeps about each is what an index would hold.
pub(super) fn database_sessions(
    listing: &StoreListing<'_>,
    place: &StorePlace,
) -> Result<Vec<StoreSession>, StoreError> {
    let mut sessions = Vec::new();
    for node in adapters::openclaw::list_nodes(&place.path).map_err(read_failed(place))? {
        let entry = node.entry.as_deref().unwrap_or("{}");
        let text = document::write_index([(node.key.as_str(), entry)]);
        let mut one =
            match IndexDocument::parse(text.as_bytes()).as_ref().map(|one| &one.entries[..]) {
                Ok([entry]) => session_view(listing, place, entry),
                // The key and its session are known all the same.
                _ => {
                    let bare = document::write_index([(node.key.as_str(), "{}")]);
                    match IndexDocument::parse(bare.as_bytes()).as_ref().map(|one| &one.entries[..])
                    {
                        Ok([entry]) => session_view(listing, place, entry),
                        _ => continue,
                    }
                }
            };
        one.session_id = Some(node.session).filter(|id| !id.is_empty());
        if node.updated > 0 {
            one = one.with_update_time(Time::from_millis(node.updated), listing.now);
        }
        sessions.push(one);
    }
    Ok(sessions)
}

/// The keys of a database.
pub(super) fn keys(place: &StorePlace) -> Result<Vec<String>, StoreError> {
    let nodes = adapters::openclaw::list_nodes(&place.path).map_err(read_failed(place))?;
    Ok(nodes.into_iter().map(|node| node.key).collect())
}

/// What is wrong with a database.
pub(super) fn verify_database(place: &StorePlace) -> Result<Vec<StoreFinding>, StoreError> {
    let lines = adapters::openclaw::check_database(&place.path).map_err(read_failed(place))?;
    let finding = |line: String| StoreFinding {
        code: "damaged-database",
        problem: true,
        id: "openclaw-agent.sqlite".to_owned(),
        reason: line,
        remedy: "`openclaw doctor` repairs its databases".to_owned(),
        bytes: None,
    };
    Ok(lines.into_iter().map(finding).collect())
}
