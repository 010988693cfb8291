//! Orders about pages of `ostler web`.

use model::page::{KeptTab, PageNote};
use serde::{Deserialize, Serialize};

/// An order about pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "page")]
pub enum PageOrder {
    /// Note who did what.
    Note(PageNote),
    /// Keep a browser signed in.
    Keep(KeptTab),
    Forget {
        name: String,
    },
}
