//! The result of `ostler badge`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many agents' sessions there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BadgeResult {
    /// That wait for a person, or failed a short while ago.
    pub needs_you: usize,
    pub working: usize,
    /// That have nothing to do.
    pub idle: usize,
    /// Of which it is not known what they do, or whether they are there.
    pub unknown: usize,
    /// What could not be read: the numbers may be too small.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub incomplete: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}
