//! `top --once --json`.

use schemars::JsonSchema;
use serde::Serialize;

use super::{IncompleteSource, SessionView};
use crate::rules::attention::AttentionGroup;

/// The result of `top --once`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TopResult<'a> {
    /// The groups that have sessions, the most urgent first.
    pub groups: Vec<TopGroup<'a>>,
    /// The sessions, in the order of their groups.
    pub sessions: Vec<SessionView<'a>>,
    /// What could not be read.
    pub incomplete: &'a [IncompleteSource],
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct TopGroup<'a> {
    pub group: AttentionGroup,
    /// How many there are.
    pub count: usize,
    /// Their ids, in order.
    pub sessions: Vec<&'a str>,
}
