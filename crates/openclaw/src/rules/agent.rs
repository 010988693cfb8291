//! OpenClaw's agents: their ids, and which of them a row of a session store belongs to.

/// The agent that is there without being configured, and that cannot be deleted.
pub const MAIN_AGENT: &str = "main";

/// The longest id.
const MAX_AGENT_ID_CHARS: usize = 64;

/// An agent's id as OpenClaw writes it: lower case, letters, digits, `-` and `_`. `None` if nothing
/// is left of it: OpenClaw would then take the default agent, which was not asked for.
pub fn normalise_agent_id(id: &str) -> Option<String> {
    let lower = id.trim().to_lowercase();
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    let begins_well = lower.starts_with(|c: char| is_plain(c) && c != '_' && c != '-');
    if begins_well && lower.len() <= MAX_AGENT_ID_CHARS && lower.chars().all(is_plain) {
        return Some(lower);
    }
    let mut id = String::new();
    let mut in_run = false;
    for c in lower.chars() {
        match is_plain(c) {
            true => id.push(c),
            false if !in_run => id.push('-'),
            false => {}
        }
        in_run = !is_plain(c);
    }
    let id = id.trim_matches('-');
    let id = &id[..id.len().min(MAX_AGENT_ID_CHARS)];
    (!id.is_empty()).then(|| id.to_owned())
}

/// What decides whom a row of a session store belongs to.
#[derive(Clone, Copy, Debug)]
pub struct RowOwners<'a> {
    /// The agent that is used when none is named.
    pub default: &'a str,
    /// Whether an agent `main` is configured, or none at all.
    pub has_main: bool,
    /// What the main session of an agent is called.
    pub main_key: &'a str,
    /// Whose store it is: the default agent's if several share it.
    pub store: &'a str,
}

impl RowOwners<'_> {
    /// The agent that the row of this key belongs to. `None` for rows without an agent, and for
    /// keys that cannot be read: those are kept.
    pub fn owner_of(&self, key: &str) -> Option<String> {
        let key = key.trim().to_lowercase();
        if key.is_empty() || key == "global" || key == "unknown" {
            return None;
        }
        let mut parts = key.split(':').filter(|part| !part.is_empty());
        if parts.next() != Some("agent") {
            return normalise_agent_id(self.store);
        }
        let agent = normalise_agent_id(parts.next()?)?;
        let rest = parts.collect::<Vec<_>>().join(":");
        if rest.is_empty() {
            return None;
        }
        let is_main_session = rest == MAIN_AGENT || rest == self.main_key.to_lowercase();
        let is_alias =
            agent == MAIN_AGENT && !self.has_main && self.store == self.default && is_main_session;
        Some(if is_alias { self.default.to_owned() } else { agent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_as_openclaw_writes_them() {
        let cases = [
            ("ops", Some("ops")),
            (" OPS! ", Some("ops")),
            ("Night Shift", Some("night-shift")),
            ("a__b-c9", Some("a__b-c9")),
            ("--x--", Some("x")),
            ("a-!?b", Some("a--b")),
            ("агент✨", None),
            ("", None),
            ("-", None),
        ];
        for (id, normal) in cases {
            assert_eq!(normalise_agent_id(id).as_deref(), normal, "{id}");
        }
        assert_eq!(normalise_agent_id(&"a".repeat(80)).unwrap().len(), 64);
    }

    #[test]
    fn row_90_only_rows_that_name_the_agent_are_its_own_in_a_shared_store() {
        let shared = RowOwners { default: "main", has_main: true, main_key: "main", store: "main" };
        let owner = |key| shared.owner_of(key);
        assert_eq!(owner("agent:ops:direct:u1").as_deref(), Some("ops"));
        assert_eq!(owner("Agent:OPS:main").as_deref(), Some("ops"));
        assert_eq!(owner("main").as_deref(), Some("main"));
        assert_eq!(owner("quietchat:direct:u1").as_deref(), Some("main"));
        assert_eq!(owner("agent:main:main").as_deref(), Some("main"));
        for nobody in ["global", "unknown", "GLOBAL", "agent:ops", "agent::", "agent:✨:main", ""]
        {
            assert_eq!(owner(nobody), None, "{nobody}");
        }
    }

    #[test]
    fn row_91_the_old_name_of_the_main_session_belongs_to_the_default_agent() {
        let own = RowOwners { default: "ops", has_main: false, main_key: "main", store: "ops" };
        assert_eq!(own.owner_of("agent:main:main").as_deref(), Some("ops"));
        assert_eq!(own.owner_of("agent:main:x:direct:u2").as_deref(), Some("main"));
        assert_eq!(own.owner_of("global"), None);
        let with_main = RowOwners { has_main: true, ..own };
        assert_eq!(with_main.owner_of("agent:main:main").as_deref(), Some("main"));
        let elsewhere = RowOwners { store: "other", ..own };
        assert_eq!(elsewhere.owner_of("agent:main:main").as_deref(), Some("main"));
        let renamed = RowOwners { main_key: "Home", ..own };
        assert_eq!(renamed.owner_of("agent:main:home").as_deref(), Some("ops"));
    }
}
