//! Answers about what may go, what went, and what came back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::IncompleteSource;
use crate::plan::{PlanItem, Refusal, RemovableKind};
use crate::time::Time;

/// Why something stays, for programs and people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusalView {
    #[serde(flatten)]
    pub refusal: Refusal,
    pub reason: String,
    /// What can be done.
    pub remedy: String,
}

impl From<&Refusal> for RefusalView {
    fn from(refusal: &Refusal) -> Self {
        Self {
            refusal: refusal.clone(),
            reason: refusal.reason_text(),
            remedy: refusal.remedy().to_owned(),
        }
    }
}

/// What the reaper would do, or did, with one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ItemFate {
    /// It would go.
    WouldGo,
    /// It went to the trash.
    Trashed,
    /// It was removed for good: there was nothing in it to keep.
    Discarded,
    Stays,
}

/// One line of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedItem {
    /// What is done with it.
    pub action: ItemFate,
    /// What it is, and why it may go.
    #[serde(flatten)]
    pub item: PlanItem,
    /// Why it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusalView>,
}

/// The result of `gc`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GcResult {
    /// Whether something was done; a preview otherwise.
    pub applied: bool,
    /// What stands for this plan: the same things in the same state give the same.
    pub plan: String,
    /// Whether the plan is another one than the one that was consented to.
    pub replanned: bool,
    /// Everything that would go, went, or stays for a reason.
    pub items: Vec<PlannedItem>,
    /// How many things would go, or went.
    pub count: u64,
    /// How many bytes they take.
    pub bytes: u64,
    /// What gives them back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    /// Who did it: `daemon` or `local`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// What could not be looked at.
    pub incomplete: Vec<IncompleteSource>,
}

/// One thing that was put back, or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UndoneItem {
    /// What it is.
    pub kind: RemovableKind,
    /// Where it was, and is again.
    pub path: String,
    /// How many bytes it takes.
    pub bytes: u64,
    /// Where it is now, if something else has its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// Where it is kept, if it was not put back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_at: Option<String>,
    /// Why it was not put back; it stays in the trash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusalView>,
}

/// The result of `undo`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UndoResult {
    /// What was undone.
    pub receipt: String,
    /// The command that it came from.
    pub command: String,
    /// Everything it had taken away, the last first.
    pub items: Vec<UndoneItem>,
}

/// One thing in the trash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrashedItem {
    /// What it is.
    pub kind: RemovableKind,
    /// Where it was.
    pub path: String,
    /// What was done with it: `trashed`, `renamed`, `replaced` or `discarded`.
    pub action: String,
    /// What became of that: `done`, `notDone`, `undone`, `emptied`, `interrupted` or `undecided`.
    pub state: String,
    pub why: String,
    /// How many bytes it takes.
    pub bytes: u64,
    /// What a person must decide about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undecided: Option<UndecidedView>,
    /// A copy that lies in the trash although it was not taken, or has been undone or emptied. The next
    /// `trash empty` frees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare_copy: Option<String>,
}

/// Something that a person must decide: there is work in more than one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UndecidedView {
    /// The run that it comes from.
    pub receipt: String,
    /// What it is about.
    pub path: String,
    pub reason: String,
    /// Everything that was kept, where it is.
    pub places: Vec<String>,
    /// What can be done.
    pub remedy: String,
}

/// One run of the reaper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptView {
    /// What `undo` takes.
    pub receipt: String,
    /// What was run.
    pub command: String,
    pub at: Time,
    /// Whether something of it can be undone.
    pub undoable: bool,
    /// How many bytes lie in the trash because of it.
    pub bytes: u64,
    /// What it took away.
    pub items: Vec<TrashedItem>,
}

/// The result of `trash ls`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrashLsResult {
    /// How many bytes lie in the trash.
    pub bytes: u64,
    /// Every run, the newest first.
    pub receipts: Vec<ReceiptView>,
    /// What could not be read.
    pub incomplete: Vec<IncompleteSource>,
}

/// The result of `trash empty`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrashEmptied {
    /// Whether something was done; a preview otherwise.
    pub applied: bool,
    /// Runs of which nothing is, or would be, left.
    pub receipts: Vec<String>,
    /// How many bytes were, or would be, freed.
    pub bytes: u64,
    /// What could not be removed.
    pub failed: Vec<IncompleteSource>,
}

/// The result of `trash verify`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrashVerified {
    /// How many runs were looked at.
    pub receipts: u64,
    /// How many things lie in the trash.
    pub items: u64,
    /// Steps that were interrupted; the next run of the reaper finishes them.
    pub interrupted: u64,
    /// Copies that are not needed any more; the next `trash empty` frees them.
    pub spare: u64,
    /// What a person must decide.
    pub undecided: Vec<UndecidedView>,
    /// What is not as its journal says.
    pub problems: Vec<IncompleteSource>,
}
