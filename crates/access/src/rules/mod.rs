//! Access sessions: an ssh-agent lent to a piece of work, and taken back.
//!
//! Everything here is a pure function over bytes and facts gathered elsewhere: the records
//! and their rules ([`meta`], [`agent_env`]), what state they amount to ([`state`]), whether the
//! agent is still there ([`presence`]), and the codes by which an entry is kept ([`model::refusal::SkipCode`]). Presence
//! is `model::liveness` and nothing else; only the mapping differs. There *dead* triggers
//! bookkeeping, here it permits deletion, so every doubt keeps.

pub mod agent_env;
pub mod log;
pub mod meta;
pub mod presence;
pub mod state;

use std::fmt::Write as _;

/// The name under which access sessions are listed among the agents.
pub const ACCESS_AGENT_NAME: &str = "ssh-agent";

/// What an access is bound to that was opened for a command, in the place of an agent.
pub const COMMAND_BINDING: &str = "command";

/// The record of a session.
pub const META_FILE: &str = "meta.json";
/// What a shell needs to use the session.
pub const AGENT_ENV_FILE: &str = "agent.env";
/// The socket that is lent.
pub const LENT_SOCKET: &str = "agent.sock";
/// The ssh-agent's own socket, behind the lent one.
pub const KEYS_SOCKET: &str = "keys.sock";
/// Written when the session was stopped.
pub const STOP_FILE: &str = "stop.json";

/// Every name that ostler creates in a session's directory, in the order in which they are removed:
/// as long as the last one stands, what is left can still be judged.
pub const SESSION_FILE_NAMES: [&str; 5] =
    [LENT_SOCKET, KEYS_SOCKET, AGENT_ENV_FILE, STOP_FILE, META_FILE];

/// The most that is read of a `meta.json`.
pub const MAX_META_BYTES: u64 = 16 * 1024;
/// The most that is read of an `agent.env` or `stop.json`.
pub const MAX_SMALL_FILE_BYTES: u64 = 4 * 1024;
/// The longest socket path: the smallest `sun_path` of any platform, less its end.
pub const MAX_SOCKET_PATH_BYTES: usize = 103;

/// Pids of any kernel: 1 is never an agent of ours.
pub const AGENT_PIDS: std::ops::RangeInclusive<u32> = 2..=4_194_304;

/// In front of a session's directory while it is being removed.
pub const PRUNING_PREFIX: &str = ".pruning-";

/// Whether `name` can be the id of an access session: `[a-z0-9][a-z0-9-]{7,63}`.
pub fn is_id(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (8..=64).contains(&name.len())
        && name.bytes().next().is_some_and(plain)
        && name.bytes().all(|byte| plain(byte) || byte == b'-')
}

/// The id in the name of a directory that a removal left behind.
pub fn id_of_leftover(name: &str) -> Option<&str> {
    let (id, random) = name.strip_prefix(PRUNING_PREFIX)?.rsplit_once('-')?;
    (is_id(id) && !random.is_empty()).then_some(id)
}

/// Text from outside as a terminal may see it: control bytes as `\xNN`, everything else that is not
/// plain text as the code point it is.
pub fn escape_untrusted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let value = u32::from(c);
        if c.is_ascii_control() {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\x{value:02x}");
        } else if c.is_control() || is_invisible(c) {
            let _ = write!(out, "\\u{{{value:x}}}");
        } else {
            out.push(c);
        }
    }
    out
}

/// Characters that reorder or hide what stands beside them.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The longest run of key-like characters that a comment or label may have.
const MAX_KEYLIKE_RUN: usize = 40;

/// Whether the text could be, or contain, a private key entered in the wrong field. Such a
/// field is refused as a whole: it must not be printed to say why. A long run of hexadecimal digits
/// is an id, not a key.
pub fn may_be_secret(text: &str) -> bool {
    let is_key_like = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    let mut runs = text.as_bytes().split(|byte| !is_key_like(*byte));
    text.contains("PRIVATE KEY")
        || runs.any(|run| run.len() >= MAX_KEYLIKE_RUN && !run.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_plain_words() {
        for id in ["s-alpha01", "12345678", "a-------", &"a".repeat(64)] {
            assert!(is_id(id), "{id}");
        }
        for id in ["", "short01", "-alpha01", "S-alpha01", "s_alpha01", "..%2f", "A b", ".hidden"] {
            assert!(!is_id(id), "{id}");
        }
        assert!(!is_id(&"a".repeat(65)));
        assert!(!is_id("s-alpha01\n"));
    }

    #[test]
    fn leftovers_name_their_session() {
        assert_eq!(id_of_leftover(".pruning-s-alpha01-9f"), Some("s-alpha01"));
        for name in [".pruning-", ".pruning-s-alpha01-", ".pruning-x-1", "s-alpha01"] {
            assert_eq!(id_of_leftover(name), None, "{name}");
        }
    }

    #[test]
    fn control_bytes_are_shown_not_sent() {
        assert_eq!(
            escape_untrusted("a\x1b[2J\u{9b}b\u{202e}\n"),
            "a\\x1b[2J\\u{9b}b\\u{202e}\\x0a"
        );
    }

    #[test]
    fn keys_are_recognised_and_people_are_not() {
        assert!(may_be_secret("-----BEGIN OPENSSH PRIVATE KEY-----"));
        assert!(may_be_secret("b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAA"));
        for comment in [
            "anna@example.org",
            "deploy key for a-rather-long-host-name.example.org",
            "",
            &"0123456789abcdef".repeat(4),
        ] {
            assert!(!may_be_secret(comment), "{comment}");
        }
    }
}
