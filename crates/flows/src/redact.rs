//! Taking secrets out of text that is given to others.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// What secrets look like. The named group `keep`, where there is one, stays.
static SECRETS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----",
        r"\bsk-[A-Za-z0-9_-]{16,}",
        r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})",
        r"\bglpat-[A-Za-z0-9_-]{16,}",
        r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
        r"\bAIza[0-9A-Za-z_-]{30,}",
        r"\bxox[abeprs]-[A-Za-z0-9-]{10,}",
        r"\bnpm_[A-Za-z0-9]{30,}",
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
        r"(?P<keep>(?i:bearer|basic)\s+)[A-Za-z0-9+/._=-]{16,}",
        r"(?P<keep>://[^\s:/@]+:)[^\s:/@]+(?:@)",
        r#"(?P<keep>(?i:api[_-]?key|secret|token|passwd|password)\\?["']?\s*[:=]\s*\\?["']?)[^\s"'\\,;]{8,}"#,
    ]
    .iter()
    .filter_map(|pattern| Regex::new(pattern).ok())
    .collect()
});

/// What stands in the place of a secret.
const REDACTED: &str = "[redacted]";

/// The text without what looks like a secret, and how many there were.
pub fn redact(text: &str) -> (String, u64) {
    let mut count = 0;
    let mut text = text.to_owned();
    for secret in SECRETS.iter() {
        let replaced = secret.replace_all(&text, |found: &Captures<'_>| {
            count += 1;
            let keep = found.name("keep").map_or("", |keep| keep.as_str());
            let at = if found[0].ends_with('@') { "@" } else { "" };
            format!("{keep}{REDACTED}{at}")
        });
        text = replaced.into_owned();
    }
    (text, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_valid() {
        assert_eq!(SECRETS.len(), 12);
    }

    #[test]
    fn secrets_go_and_the_rest_stays() {
        // Put together here, so that nobody's scanner takes this file for a leak.
        let key = |head: &str, body: &str, times: usize| format!("{head}{}", body.repeat(times));
        for (secret, around) in [
            (key("sk-", "a1b2c3", 5), "key {} here"),
            (key("ghp_", "0a1b2c3d4e", 4), "{}"),
            (key("AKIA", "A1B2", 4), "id={}"),
            (key("xoxb-", "123456-", 3) + "x", "slack {}"),
            (key("hunter", "2", 8), "\"password\": \"{}\""),
            (key("hunter", "2", 8), "\\\"api_key\\\":\\\"{}\\\""),
            (key("abc", "123", 8), "Authorization: Bearer {}"),
            (key("s3", "cret", 2), "https://user:{}@example.org/x"),
            (
                key("-----BEGIN OPENSSH PRIVATE ", "KEY-----", 1)
                    + "\nabc\n-----END OPENSSH PRIVATE KEY-----",
                "x {} y",
            ),
        ] {
            let (text, count) = redact(&around.replace("{}", &secret));
            assert!(!text.contains(&secret), "{text}");
            assert_eq!(text, around.replace("{}", REDACTED));
            assert_eq!(count, 1, "{text}");
        }
        let plain = "nothing to see: let token = next(); password reset page";
        assert_eq!(redact(plain), (plain.to_owned(), 0));
    }
}
