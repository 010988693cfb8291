//! The databases of 2026.8 and later, read only.

use model::openclaw::key::Key;
use model::openclaw::wire::StoreSession;
use model::time::Time;

use super::find::Place;
use super::list::Listing;
use super::plan::millis_since;
use super::{StoreError, display};

/// The sessions of a database.
pub(super) fn sessions(
    listing: &Listing<'_>,
    place: &Place,
) -> Result<Vec<StoreSession>, StoreError> {
    let failed = |error: adapters::ReadError| StoreError::Read {
        path: place.path.clone(),
        reason: error.to_string(),
    };
    let view = |node: adapters::openclaw::Node| {
        let key = Key::new(&node.key);
        let updated_at = (node.updated > 0).then(|| Time::from_millis(node.updated));
        StoreSession {
            kind: key.kind(listing.main_key).word(),
            agent_id: key.agent().map(str::to_owned).or_else(|| place.agent.clone()),
            store: display(&place.path),
            session_id: Some(node.session).filter(|id| !id.is_empty()),
            updated_at,
            age_ms: updated_at.map(|at| millis_since(listing.now, at)),
            status: None,
            label: node.title,
            model: node.model,
            model_provider: None,
            total_tokens: None,
            context_tokens: None,
            aborted_last_run: false,
            spawned_by: node.spawned_by,
            fault: None,
            key: node.key,
        }
    };
    let nodes = adapters::openclaw::nodes(&place.path).map_err(failed)?;
    Ok(nodes.into_iter().map(view).collect())
}
