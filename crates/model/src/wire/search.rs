//! What `search` answers.

use schemars::JsonSchema;
use serde::Serialize;

use super::IncompleteSource;
use crate::conversation::ConversationRole;
use crate::status::{Activity, Status};
use crate::time::Time;

/// The result of `search`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SearchResult {
    /// The sessions with hits, newest activity first.
    pub sessions: Vec<SearchSession>,
    /// The hits, by session and then in the order of the conversation.
    pub hits: Vec<SearchHit>,
    /// How much was looked through.
    pub scanned: SearchedAmount,
    /// Whether everything that was asked for was looked through to its end.
    pub complete: bool,
    /// What could not be read.
    pub incomplete: Vec<IncompleteSource>,
}

/// A session with hits.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchSession {
    /// The adapter id.
    pub agent: String,
    /// The agent's own session id.
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Where the agent worked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The lifecycle state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// What it is doing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<Activity>,
    /// Last sign of life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_activity_at: Option<Time>,
    /// The session that this one is a sub-agent or fork of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Whether only the copy in the vault is left: `ostler vault cat` prints it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub only_in_vault: bool,
    /// How many of its entries are hits, shown or not.
    pub hits: u64,
    /// What else of it fits. Told where no entry does, and where all of a conversation was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub matched: Vec<SearchMatch>,
}

/// Something that is known of a session beside its conversation, and fits.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchMatch {
    pub field: SearchField,
    /// The part around the first match.
    pub text: String,
    /// Every match in `text`: the first character and the one after the last.
    pub ranges: Vec<[u64; 2]>,
}

/// What of a session is searched beside its conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SearchField {
    Title,
    /// The name that a person gave it.
    Name,
    /// The directory that the agent worked in.
    Cwd,
}

impl SearchField {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Name => "name",
            Self::Cwd => "cwd",
        }
    }
}

/// One entry of a conversation that fits.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchHit {
    /// The adapter id.
    pub agent: String,
    pub session: String,
    /// The number of the entry, counted from 1: `ostler logs ID --from N` begins there. Absent for a
    /// record that is too large to be an entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<u64>,
    pub role: ConversationRole,
    /// The name of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// The lines around the first match; of a tool's input the values.
    pub text: String,
    /// Whether that is not the whole text.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Every match in `text`: the first character and the one after the last.
    pub ranges: Vec<[u64; 2]>,
}

/// How much was looked through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SearchedAmount {
    pub sessions: u64,
    /// Bytes of transcripts.
    pub bytes: u64,
}

/// One line of `search --stream`: a session with hits, one of its hits, or the end.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SearchLine {
    /// A session; its hits follow.
    Session(SearchSession),
    Hit(SearchHit),
    /// The last line.
    End(SearchEnd),
}

/// How a search ended.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SearchEnd {
    /// How much was looked through.
    pub scanned: SearchedAmount,
    /// Whether that was everything.
    pub complete: bool,
    /// What could not be read.
    pub incomplete: Vec<IncompleteSource>,
}
