//! Who holds a conversation, and whether it can be handed over.
//!
//! All live holders count: several processes may write one conversation. What cannot be proven to be
//! free is held.

use schemars::JsonSchema;
use serde::Serialize;

use super::refusal::DriveRefusal;
use crate::identity::Identity;
use crate::liveness::Liveness;
use crate::session::{Certainty, ClaimBasis, ProcessClaim, Session};
use crate::status::Activity;
use crate::time::Time;

/// What kind of process holds a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HolderKind {
    /// The agent's own process.
    Process,
    /// The agent's own process in a terminal that ostler hosts.
    Terminal,
    /// A server that has several conversations.
    Shared,
    /// A process that a supervisor starts again.
    Supervised,
}

/// One process that holds a conversation, or may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationHolder {
    pub kind: HolderKind,
    pub process: Identity,
    /// Whether it is there.
    pub liveness: Liveness,
    /// The terminal of ostler's that it runs in.
    pub terminal: Option<String>,
    /// Since when it runs.
    pub since: Option<Time>,
    /// What it does.
    pub activity: Activity,
    /// How it is known, in words.
    pub evidence: String,
    /// Of a server: how many conversations it has.
    pub shares: Option<u32>,
    /// The user it runs as.
    pub uid: Option<u32>,
}

/// What can be done to get a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HandOverWay {
    /// It runs in a terminal here: attach.
    Attach,
    /// It is idle: stop it and resume it here.
    StopAndResume,
    /// It works: wait for the end of the turn.
    Wait,
    /// Its supervisor's own command lets go of it.
    SupervisorCommand,
    /// It is held by nothing: resume it.
    Resume,
    /// It cannot be taken.
    None,
}

/// Who asks, for what only the caller's own processes allow.
#[derive(Clone, Copy, Debug)]
pub struct HandOverCaller {
    /// The caller's user.
    pub uid: u32,
}

/// The way to a conversation with these holders, and why that one.
pub fn decide_hand_over(
    holders: &[ConversationHolder],
    caller: HandOverCaller,
) -> (HandOverWay, &'static str) {
    let live: Vec<&ConversationHolder> =
        holders.iter().filter(|holder| !holder.liveness.is_dead()).collect();
    let [first, rest @ ..] = live.as_slice() else {
        return (HandOverWay::Resume, "nothing holds it");
    };
    if live.iter().any(|holder| !holder.liveness.is_alive()) {
        return (HandOverWay::None, "a holder cannot be looked into from here");
    }
    if live.iter().any(|holder| holder.uid.is_some_and(|uid| uid != caller.uid)) {
        return (HandOverWay::None, "a holder belongs to another user");
    }
    if live.iter().any(|holder| holder.kind == HolderKind::Shared) {
        return (HandOverWay::SupervisorCommand, "a server holds several conversations");
    }
    if live.iter().any(|holder| holder.kind == HolderKind::Supervised) {
        return (HandOverWay::SupervisorCommand, "a supervisor would start it again");
    }
    if rest.is_empty() && first.terminal.is_some() {
        return (HandOverWay::Attach, "it runs in a terminal of ostler's");
    }
    if live.iter().any(|holder| holder.activity == Activity::Waiting) {
        return (HandOverWay::None, "a question is open and would be lost");
    }
    if live.iter().any(|holder| holder.activity == Activity::Working) {
        return (HandOverWay::Wait, "it is in the middle of a turn");
    }
    if live.iter().any(|holder| holder.activity == Activity::Unknown) {
        return (HandOverWay::None, "it is not known whether it is idle");
    }
    (HandOverWay::StopAndResume, "it is idle, and its process is yours")
}

/// Whether a conversation may be resumed by a new process: only if nothing holds it, or may.
pub fn check_resumable(
    holders: &[ConversationHolder],
    unreadable: Option<&str>,
) -> Result<(), DriveRefusal> {
    let live: Vec<&ConversationHolder> =
        holders.iter().filter(|holder| holder.liveness.is_alive()).collect();
    if !live.is_empty() {
        return Err(DriveRefusal::Held {
            pids: live.iter().filter_map(|holder| holder.process.pid).collect(),
            terminal: live.iter().find_map(|holder| holder.terminal.clone()),
        });
    }
    if let Some(doubt) = holders.iter().find(|holder| !holder.liveness.is_dead()) {
        return Err(DriveRefusal::MaybeHeld { why: doubt.evidence.clone() });
    }
    match unreadable {
        Some(why) => Err(DriveRefusal::MaybeHeld { why: why.to_owned() }),
        None => Ok(()),
    }
}

/// The holders of a session by its claims: one for each process, the strongest claim of each, proven
/// ones before those that only could have it open.
pub fn holders_of_session(session: &Session) -> Vec<ConversationHolder> {
    let terminal = session.linked.iter().find(|linked| linked.agent == "terminal");
    let mut holders: Vec<ConversationHolder> = Vec::new();
    let mut claims: Vec<&ProcessClaim> = session
        .claims
        .iter()
        .filter(|claim| claim.how != ClaimBasis::RecordedEnd && claim.identity.pid.is_some())
        .collect();
    claims.sort_by_key(|claim| (claim.how.certainty() == Certainty::Derived, claim.how));
    for claim in claims {
        // A process that merely could have it open holds nothing; it is a doubt while it lives.
        let liveness = match (claim.how, claim.liveness) {
            (ClaimBasis::CouldOpen, Liveness::Dead(_)) => {
                Liveness::Unknown(crate::liveness::Doubt::MaybeOpen)
            }
            (_, liveness) => liveness,
        };
        if liveness.is_dead() || holders.iter().any(|held| held.process.pid == claim.identity.pid) {
            continue;
        }
        let kind = match (claim.how, terminal) {
            _ if claim.shared.is_some() => HolderKind::Shared,
            (ClaimBasis::Served, _) => HolderKind::Shared,
            (_, Some(_)) => HolderKind::Terminal,
            (_, None) => HolderKind::Process,
        };
        holders.push(ConversationHolder {
            kind,
            process: claim.identity.clone(),
            liveness,
            terminal: terminal.map(|linked| linked.id.clone()),
            since: claim.started_at,
            activity: claim.activity.unwrap_or_else(|| session.digest.turn.activity()),
            evidence: claim.how.describe_fact().to_owned(),
            shares: claim.shared.map(|shared| shared.conversations),
            uid: claim.identity.uid,
        });
    }
    holders
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::liveness::{Death, Doubt, Life};

    fn holder(activity: Activity) -> ConversationHolder {
        ConversationHolder {
            kind: HolderKind::Process,
            process: Identity { pid: Some(7), uid: Some(1000), ..Identity::default() },
            liveness: Liveness::Alive(Life::Running),
            terminal: None,
            since: None,
            activity,
            evidence: "registered".to_owned(),
            shares: None,
            uid: Some(1000),
        }
    }

    fn way(holders: &[ConversationHolder]) -> HandOverWay {
        decide_hand_over(holders, HandOverCaller { uid: 1000 }).0
    }

    #[test]
    fn row_50_only_an_idle_process_of_ones_own_is_taken_over() {
        assert_eq!(way(&[holder(Activity::Idle)]), HandOverWay::StopAndResume);
        assert_eq!(way(&[holder(Activity::Working)]), HandOverWay::Wait);
        assert_eq!(way(&[holder(Activity::Waiting)]), HandOverWay::None);
        assert_eq!(way(&[holder(Activity::Unknown)]), HandOverWay::None);
        let shared = ConversationHolder { kind: HolderKind::Shared, ..holder(Activity::Idle) };
        assert_eq!(way(&[shared]), HandOverWay::SupervisorCommand);
        let other = ConversationHolder { uid: Some(0), ..holder(Activity::Idle) };
        assert_eq!(way(&[other]), HandOverWay::None);
        let unknown = ConversationHolder {
            liveness: Liveness::Unknown(Doubt::Hidden),
            ..holder(Activity::Idle)
        };
        assert_eq!(way(&[unknown]), HandOverWay::None);
        let hosted =
            ConversationHolder { terminal: Some("t".to_owned()), ..holder(Activity::Working) };
        assert_eq!(way(&[hosted]), HandOverWay::Attach);
        assert_eq!(way(&[]), HandOverWay::Resume);
    }

    #[test]
    fn rows_41_42_what_is_held_or_may_be_is_not_resumed() {
        assert!(check_resumable(&[], None).is_ok());
        let held = check_resumable(&[holder(Activity::Idle)], None).unwrap_err();
        assert_eq!(held.code(), "held");
        let unknown = ConversationHolder {
            liveness: Liveness::Unknown(Doubt::ForeignNamespace),
            ..holder(Activity::Idle)
        };
        assert_eq!(check_resumable(&[unknown], None).unwrap_err().code(), "maybe-held");
        assert_eq!(check_resumable(&[], Some("cut off")).unwrap_err().code(), "maybe-held");
        let dead =
            ConversationHolder { liveness: Liveness::Dead(Death::Gone), ..holder(Activity::Idle) };
        assert!(check_resumable(&[dead], None).is_ok());
    }
}
