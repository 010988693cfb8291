//! Browsers that stay signed in to `ostler web`, and events of who did what from a page.

use std::path::Path;

use model::failure::{Failure, FailureKind};
use model::page::KeptTab;
use model::time::Time;
use store::state::{StateError, StateStore};
use store::writer::StoreWriter;

use crate::writer::PageOrder;

/// Browsers that are still signed in.
pub fn list_kept_tabs(home: &Path, now: Time) -> Result<Vec<KeptTab>, StateError> {
    let Some(state) = StateStore::open_read_only(home)? else { return Ok(Vec::new()) };
    let mut kept = state.list_kept_tabs()?;
    kept.retain(|tab| tab.until > now);
    Ok(kept)
}

/// Does it. The caller holds the writer lock.
pub(crate) fn perform_page_order(
    writer: &mut StoreWriter,
    order: &PageOrder,
    now: Time,
) -> Result<(), Failure> {
    let done = writer.state_mut().and_then(|state| match order {
        PageOrder::Note(note) => state.note_page_act(note, now),
        PageOrder::Keep(tab) => state.keep_tab(tab, now),
        PageOrder::Forget { name } => state.forget_tab(name),
    });
    done.map_err(|error| Failure {
        kind: FailureKind::Write,
        message: format!("nothing was kept of the page: {error}"),
        hint: "`ostler doctor` tells what is wrong".to_owned(),
    })
}
