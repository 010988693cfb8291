//! Session keys: what they mean, and whether a conversation behind one is for keeps.
//!
//! `agent:<agent>:<rest>`, where the rest may itself hold colons; older stores have bare keys. Matching
//! ignores case, and empty parts count for nothing. What is not recognised is [`Kind::Other`].

/// A key, in lower case and without empty parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    text: String,
    /// Where the agent's name and the rest begin, if the key has both.
    agent: Option<(usize, usize)>,
}

/// What a session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
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
    /// A device.
    Node,
    /// The periodic look around.
    Heartbeat,
    /// A probe of a model by the gateway.
    ModelRun,
    /// Anything else.
    Other,
}

impl Kind {
    /// The word for programs.
    pub const fn word(self) -> &'static str {
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

    /// A place that people come back to: kept whatever its age, and whatever the cap.
    pub const fn is_durable(self) -> bool {
        matches!(
            self,
            Self::Main | Self::Global | Self::Group | Self::Channel | Self::Thread | Self::Topic
        )
    }
}

impl Key {
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
    pub fn agent(&self) -> Option<&str> {
        self.agent.map(|(agent, rest)| &self.text[agent..rest - 1])
    }

    /// What comes after the agent; the whole of a bare key.
    pub fn rest(&self) -> &str {
        self.agent.map_or(&self.text, |(_, rest)| &self.text[rest..])
    }

    /// Whether it is an agent's key for direct chats with one peer: on all channels, on one, or on one
    /// account of one.
    pub fn is_of_one_peer(&self) -> bool {
        let parts: Vec<&str> = self.rest().split(':').collect();
        let is_direct = matches!(parts[..], ["direct", _] | [_, "direct", _] | [_, _, "direct", _]);
        // An agent's key inside of another is a name that a plugin gave.
        self.agent.is_some() && is_direct && parts[0] != "agent"
    }

    /// The key as OpenClaw writes it today.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What a session under this key is for; `main_key` is what the main session is called.
    pub fn kind(&self, main_key: &str) -> Kind {
        let rest = self.rest();
        let bare = self.agent.is_none();
        match self.text.as_str() {
            "global" => return Kind::Global,
            "unknown" => return Kind::Unknown,
            _ => {}
        }
        if rest == "main" || rest.eq_ignore_ascii_case(main_key) {
            return Kind::Main;
        }
        if let Some(made) = made_by_a_program(rest, bare) {
            return made;
        }
        if rest.strip_prefix("explicit:model-run-").is_some_and(is_uuid) && !bare {
            return Kind::ModelRun;
        }
        let parts: Vec<&str> = rest.split(':').collect();
        match parts[..] {
            _ if has_thread(rest) => Kind::Thread,
            ["telegram", "group" | "channel" | "direct" | "dm", _, ..] if has_topic(&parts) => {
                Kind::Topic
            }
            [_, "group", _, ..] => Kind::Group,
            [_, "channel", _, ..] => Kind::Channel,
            ["direct" | "dm", _, ..]
            | [_, "direct" | "dm", _, ..]
            | [_, _, "direct" | "dm", _, ..] => Kind::Direct,
            _ => Kind::Other,
        }
    }
}

/// Sub-agents and foreign agents have bare keys too; the rest only ever stand behind an agent.
fn made_by_a_program(rest: &str, bare: bool) -> Option<Kind> {
    let (first, more) = rest.split_once(':').unwrap_or((rest, ""));
    match first {
        "subagent" if !more.is_empty() => return Some(Kind::Subagent),
        "acp" if !more.is_empty() => return Some(Kind::Acp),
        _ if bare => return None,
        "cron" if !more.is_empty() => return Some(Kind::Cron),
        "acp-bridge" if !more.is_empty() => return Some(Kind::AcpBridge),
        "hook" if !more.is_empty() => return Some(Kind::Hook),
        "node" if !more.is_empty() => return Some(Kind::Node),
        _ => {}
    }
    let beats = rest == "heartbeat" || rest.ends_with(":heartbeat") || rest.contains(":heartbeat:");
    beats.then_some(Kind::Heartbeat)
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

    fn kind(key: &str) -> Kind {
        Key::new(key).kind("main")
    }

    #[test]
    fn keys_are_taken_apart() {
        let key = Key::new("Agent:Ops::slack:channel:C1");
        assert_eq!((key.agent(), key.rest()), (Some("ops"), "slack:channel:c1"));
        assert_eq!(key.text(), "agent:ops:slack:channel:c1");
        assert_eq!(Key::new("agent:ops").agent(), None);
        assert_eq!(Key::new("quietchat:direct:u1").agent(), None);
        assert_eq!(Key::new("").rest(), "");
    }

    #[test]
    fn keys_for_one_peer_are_told_from_others() {
        for key in ["agent:a:direct:u", "agent:a:x:direct:u", "Agent:A:x:work:direct:u"] {
            assert!(Key::new(key).is_of_one_peer(), "{key}");
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
            assert!(!Key::new(key).is_of_one_peer(), "{key}");
        }
    }

    #[test]
    fn row_07_a_topic_alone_is_no_thread() {
        assert_eq!(kind("agent:main:opaque:topic:x:sender:y"), Kind::Other);
        assert!(!kind("agent:main:opaque:topic:x:sender:y").is_durable());
    }

    #[test]
    fn row_08_a_channel_name_may_hold_colons() {
        assert_eq!(kind("agent:main:custom:channel:room:with:colon"), Kind::Channel);
    }

    #[test]
    fn every_form_of_a_key_is_known() {
        for (key, expected) in [
            ("agent:main:main", Kind::Main),
            ("agent:ops:main", Kind::Main),
            ("main", Kind::Main),
            ("global", Kind::Global),
            ("unknown", Kind::Unknown),
            ("agent:main:direct:u1", Kind::Direct),
            ("agent:main:whatsapp:direct:u1", Kind::Direct),
            ("agent:main:whatsapp:work:direct:u1", Kind::Direct),
            ("agent:main:slack:channel:c1", Kind::Channel),
            ("agent:main:slack:channel:c1:thread:17.1", Kind::Thread),
            ("agent:main:main:thread:17.1", Kind::Thread),
            ("agent:main:telegram:group:-1:topic:7", Kind::Topic),
            ("agent:main:telegram:direct:5:topic:7", Kind::Topic),
            ("agent:main:telegram:group:-1", Kind::Group),
            ("agent:main:cron:job", Kind::Cron),
            ("agent:main:cron:job:run:1", Kind::Cron),
            ("agent:main:subagent:x", Kind::Subagent),
            ("subagent:x", Kind::Subagent),
            ("acp:x", Kind::Acp),
            ("agent:main:acp-bridge:x", Kind::AcpBridge),
            ("agent:main:hook:gmail", Kind::Hook),
            ("agent:main:node:phone", Kind::Node),
            ("agent:main:heartbeat", Kind::Heartbeat),
            ("agent:main:main:heartbeat", Kind::Heartbeat),
            ("agent:main:slack:group:g:heartbeat:1", Kind::Heartbeat),
            ("agent:main:explicit:model-run-01234567-89ab-cdef-0123-456789abcdef", Kind::ModelRun),
            ("agent:main:explicit:model-run-1", Kind::Other),
            ("hook:x", Kind::Other),
            ("agent:main:subagent", Kind::Other),
        ] {
            assert_eq!(kind(key), expected, "{key}");
        }
        assert_eq!(Key::new("agent:a:hub").kind("Hub"), Kind::Main);
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
