//! Orders about launch groups.

use model::control::groups::GroupMember;
use serde::{Deserialize, Serialize};

/// An order about members of launch groups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "group")]
pub enum GroupOrder {
    /// Take these places, all or none.
    Reserve { members: Vec<GroupMember> },
    /// Write down how far one has come.
    Note {
        /// As it is now.
        member: Box<GroupMember>,
    },
}
