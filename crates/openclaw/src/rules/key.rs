//! Session keys: what they mean, and whether a conversation behind one is for keeps.
//!
//! `agent:<agent>:<rest>`, where the rest may itself hold colons; older stores have bare keys. Matching
//! ignores case, and empty parts count for nothing. What is not recognised is [`SessionKeyKind::Other`].

/// A key, in lower case and without empty parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionKey {
    text: String,
    /// Where the agent's name and the rest begin, if the key has both.
    agent: Option<(usize, usize)>,
}

/// What a session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionKeyKind {
    /// The main conversation with an agent.
    Main,
    /// The conversation that all agents share.
    Global,
    /// A conversation of unknown origin.
    Unknown,
    /// With one person.
    Direct,
    /// In a group.
    Group,
    /// In a channel.
    Channel,
    /// In a thread.
    Thread,
    /// In a topic of a chat.
    Topic,
    /// A scheduled job, or one run of it.
    Cron,
    /// Work that another session handed out.
    Subagent,
    /// A foreign agent that OpenClaw drives.
    Acp,
    /// A bridge to one.
    AcpBridge,
    /// Started by a webhook.
    Hook,
    Node,
    /// The periodic look around.
    Heartbeat,
    /// A probe of a model by the gateway.
    ModelRun,
    Other,
}

impl SessionKeyKind {
    /// The word for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Global => "global",
            Self::Unknown => "unknown",
            Self::Direct => "direct",
            Self::Group => "group",
            Self::Channel => "channel",
            Self::Thread => "thread",
            Self::Topic => "topic",
            Self::Cron => "cron",
            Self::Subagent => "subagent",
            Self::Acp => "acp",
            Self::AcpBridge => "acp-bridge",
            Self::Hook => "hook",
            Self::Node => "node",
            Self::Heartbeat => "heartbeat",
            Self::ModelRun => "model-run",
            Self::Other => "other",
        }
    }

    /// Made by a program for its own use: no group it speaks in makes it worth keeping.
    pub const fn is_disposable(self) -> bool {
        matches!(
            self,
            Self::Cron
                | Self::Subagent
                | Self::Acp
                | Self::AcpBridge
                | Self::Hook
                | Self::Node
                | Self::Heartbeat
        )
    }

    /// A place that people come back to: kept at any age and under any cap.
    pub const fn is_durable(self) -> bool {
        matches!(
            self,
            Self::Main | Self::Global | Self::Group | Self::Channel | Self::Thread | Self::Topic
        )
    }
}

impl SessionKey {
    /// Reads a key.
    pub fn new(key: &str) -> Self {
        let lower = key.trim().to_lowercase();
        let parts: Vec<&str> = lower.split(':').filter(|part| !part.is_empty()).collect();
        let text = parts.join(":");
        let agent = match parts[..] {
            ["agent", agent, _, ..] => Some((6, 6 + agent.len() + 1)),
            _ => None,
        };
        Self { text, agent }
    }

    /// The agent that the key names.
    pub fn agent_id(&self) -> Option<&str> {
        self.agent.map(|(agent, rest)| &self.text[agent..rest - 1])
    }

    /// What comes after the agent; the whole of a bare key.
    pub fn after_agent(&self) -> &str {
        self.agent.map_or(&self.text, |(_, rest)| &self.text[rest..])
    }

    /// Whether it is an agent's key for direct chats with one peer: on all channels, on one, or on one
    /// account of one.
    pub fn is_of_one_peer(&self) -> bool {
        let parts: Vec<&str> = self.after_agent().split(':').collect();
        let is_direct = matches!(parts[..], ["direct", _] | [_, "direct", _] | [_, _, "direct", _]);
        // An agent's key inside of another is a name that a plugin gave.
        self.agent.is_some() && is_direct && parts[0] != "agent"
    }

    /// The key as OpenClaw writes it today.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What a session under this key is for; `main_key` is what the main session is called.
    pub fn key_kind(&self, main_key: &str) -> SessionKeyKind {
        let rest = self.after_agent();
        let bare = self.agent.is_none();
        match self.text.as_str() {
            "global" => return SessionKeyKind::Global,
            "unknown" => return SessionKeyKind::Unknown,
            _ => {}
        }
        if rest == "main" || rest.eq_ignore_ascii_case(main_key) {
            return SessionKeyKind::Main;
        }
        if let Some(made) = made_by_a_program(rest, bare) {
            return made;
        }
        if rest.strip_prefix("explicit:model-run-").is_some_and(is_uuid) && !bare {
            return SessionKeyKind::ModelRun;
        }
        let parts: Vec<&str> = rest.split(':').collect();
        match parts[..] {
            _ if has_thread(rest) => SessionKeyKind::Thread,
            ["telegram", "group" | "channel" | "direct" | "dm", _, ..] if has_topic(&parts) => {
                SessionKeyKind::Topic
            }
            [_, "group", _, ..] => SessionKeyKind::Group,
            [_, "channel", _, ..] => SessionKeyKind::Channel,
            ["direct" | "dm", _, ..]
            | [_, "direct" | "dm", _, ..]
            | [_, _, "direct" | "dm", _, ..] => SessionKeyKind::Direct,
            _ => SessionKeyKind::Other,
        }
    }
}

/// Sub-agents and foreign agents have bare keys too; the rest only ever stand behind an agent.
fn made_by_a_program(rest: &str, bare: bool) -> Option<SessionKeyKind> {
    let (first, more) = rest.split_once(':').unwrap_or((rest, ""));
    match first {
        "subagent" if !more.is_empty() => return Some(SessionKeyKind::Subagent),
        "acp" if !more.is_empty() => return Some(SessionKeyKind::Acp),
        _ if bare => return None,
        "cron" if !more.is_empty() => return Some(SessionKeyKind::Cron),
        "acp-bridge" if !more.is_empty() => return Some(SessionKeyKind::AcpBridge),
        "hook" if !more.is_empty() => return Some(SessionKeyKind::Hook),
        "node" if !more.is_empty() => return Some(SessionKeyKind::Node),
        _ => {}
    }
    let beats = rest == "heartbeat" || rest.ends_with(":heartbeat") || rest.contains(":heartbeat:");
    beats.then_some(SessionKeyKind::Heartbeat)
}

fn has_thread(rest: &str) -> bool {
    rest.rsplit_once(":thread:").is_some_and(|(_, thread)| !thread.is_empty())
}

fn has_topic(parts: &[&str]) -> bool {
    parts.iter().skip(3).rev().skip(1).any(|part| *part == "topic")
}

/// Eight, four, four, four and twelve hexadecimal digits.
pub(super) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Whether a session can have this id: it becomes part of a file's name.
pub fn is_session_id(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=128).contains(&id.len())
        && id.as_bytes()[0].is_ascii_alphanumeric()
        && id.bytes().all(plain)
        && !id.rsplit_once(".checkpoint.").is_some_and(|(_, uuid)| is_uuid(uuid))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(key: &str) -> SessionKeyKind {
        SessionKey::new(key).key_kind("main")
    }

    #[test]
    fn keys_are_taken_apart() {
        let key = SessionKey::new("Agent:Ops::slack:channel:C1");
        assert_eq!((key.agent_id(), key.after_agent()), (Some("ops"), "slack:channel:c1"));
        assert_eq!(key.as_str(), "agent:ops:slack:channel:c1");
        assert_eq!(SessionKey::new("agent:ops").agent_id(), None);
        assert_eq!(SessionKey::new("quietchat:direct:u1").agent_id(), None);
        assert_eq!(SessionKey::new("").after_agent(), "");
    }

    #[test]
    fn keys_for_one_peer_are_told_from_others() {
        for key in ["agent:a:direct:u", "agent:a:x:direct:u", "Agent:A:x:work:direct:u"] {
            assert!(SessionKey::new(key).is_of_one_peer(), "{key}");
        }
        for key in [
            "direct:u",
            "x:direct:u",
            "agent:a:main",
            "agent:a:direct",
            "agent:a:x:dm:u",
            "agent:a:matrix:direct:@u:server",
            "agent:a:agent:b:direct:u",
            "agent:a:x:group:g",
        ] {
            assert!(!SessionKey::new(key).is_of_one_peer(), "{key}");
        }
    }

    #[test]
    fn row_07_a_topic_alone_is_no_thread() {
        assert_eq!(kind("agent:main:opaque:topic:x:sender:y"), SessionKeyKind::Other);
        assert!(!kind("agent:main:opaque:topic:x:sender:y").is_durable());
    }

    #[test]
    fn row_08_a_channel_name_may_hold_colons() {
        assert_eq!(kind("agent:main:custom:channel:room:with:colon"), SessionKeyKind::Channel);
    }

    #[test]
    fn every_form_of_a_key_is_known() {
        for (key, expected) in [
            ("agent:main:main", SessionKeyKind::Main),
            ("agent:ops:main", SessionKeyKind::Main),
            ("main", SessionKeyKind::Main),
            ("global", SessionKeyKind::Global),
            ("unknown", SessionKeyKind::Unknown),
            ("agent:main:direct:u1", SessionKeyKind::Direct),
            ("agent:main:whatsapp:direct:u1", SessionKeyKind::Direct),
            ("agent:main:whatsapp:work:direct:u1", SessionKeyKind::Direct),
            ("agent:main:slack:channel:c1", SessionKeyKind::Channel),
            ("agent:main:slack:channel:c1:thread:17.1", SessionKeyKind::Thread),
            ("agent:main:main:thread:17.1", SessionKeyKind::Thread),
            ("agent:main:telegram:group:-1:topic:7", SessionKeyKind::Topic),
            ("agent:main:telegram:direct:5:topic:7", SessionKeyKind::Topic),
            ("agent:main:telegram:group:-1", SessionKeyKind::Group),
            ("agent:main:cron:job", SessionKeyKind::Cron),
            ("agent:main:cron:job:run:1", SessionKeyKind::Cron),
            ("agent:main:subagent:x", SessionKeyKind::Subagent),
            ("subagent:x", SessionKeyKind::Subagent),
            ("acp:x", SessionKeyKind::Acp),
            ("agent:main:acp-bridge:x", SessionKeyKind::AcpBridge),
            ("agent:main:hook:gmail", SessionKeyKind::Hook),
            ("agent:main:node:phone", SessionKeyKind::Node),
            ("agent:main:heartbeat", SessionKeyKind::Heartbeat),
            ("agent:main:main:heartbeat", SessionKeyKind::Heartbeat),
            ("agent:main:slack:group:g:heartbeat:1", SessionKeyKind::Heartbeat),
            (
                "agent:main:explicit:model-run-01234567-89ab-cdef-0123-456789abcdef",
                SessionKeyKind::ModelRun,
            ),
            ("agent:main:explicit:model-run-1", SessionKeyKind::Other),
            ("hook:x", SessionKeyKind::Other),
            ("agent:main:subagent", SessionKeyKind::Other),
        ] {
            assert_eq!(kind(key), expected, "{key}");
        }
        assert_eq!(SessionKey::new("agent:a:hub").key_kind("Hub"), SessionKeyKind::Main);
    }

    #[test]
    fn ids_of_sessions_are_names_of_files() {
        for id in ["a", "0c5e-11.x_y", "A1"] {
            assert!(is_session_id(id), "{id}");
        }
        let checkpoint = "a.checkpoint.01234567-89ab-cdef-0123-456789abcdef";
        for id in ["", "../x", ".x", "a/b", "a b", checkpoint, &"a".repeat(129)] {
            assert!(!is_session_id(id), "{id}");
        }
    }
}
