//! What an access session's files and its ssh-agent's clients say.

use access::protocol::{self, SshAgentRequest};
use access::rules::agent_env::AgentEnv;
use access::rules::meta::{AccessMeta, StopRecord, is_fingerprint};

/// What is accepted is what we would have written ourselves, and safe to hand to a shell.
pub fn agent_env(bytes: &[u8]) {
    let Ok(env) = AgentEnv::parse(bytes) else { return };
    assert_eq!(AgentEnv::parse(env.to_text().as_bytes()).as_ref(), Ok(&env));
    assert!(env.socket.starts_with('/') && env.socket.len() <= 103);
    assert!(!env.socket.contains(['\'', '"', '$', '`', ';', '\\', '\n', '\0']));
    assert!((2..=4_194_304).contains(&env.pid));
    // One quoted word and one number: nothing else for a shell to see.
    assert_eq!(env.to_shell().matches('\'').count(), 2);
}

/// What is accepted keeps the rules and is read back the same; what is rejected is not quoted.
pub fn access_meta(bytes: &[u8]) {
    match AccessMeta::parse_for(bytes, "s-alpha01") {
        Ok(meta) => {
            let again = serde_json::to_vec(&meta).expect("a record can be written");
            assert_eq!(AccessMeta::parse_for(&again, "s-alpha01").as_ref(), Ok(&meta));
            assert_eq!(meta.expires_at.since(meta.created_at).as_secs(), meta.ttl_s);
            assert!(meta.keys.iter().all(|key| is_fingerprint(&key.fingerprint)));
            assert!(!String::from_utf8_lossy(&again).contains("PRIVATE KEY"));
        }
        Err(skip) => assert!(skip.reason_text().len() < 100, "{skip}"),
    }
    if let Ok(stop) = StopRecord::parse_stop(bytes) {
        let again = serde_json::to_vec(&stop).expect("a record can be written");
        assert_eq!(StopRecord::parse_stop(&again).as_ref(), Ok(&stop));
    }
}

/// Nothing is taken for something that could add or export a key unless it is named as such.
pub fn agent_protocol(bytes: &[u8]) {
    match protocol::parse_request(bytes) {
        Ok(SshAgentRequest::Identities) => assert_eq!(bytes[0], protocol::REQUEST_IDENTITIES),
        Ok(SshAgentRequest::Sign { fingerprint, destination }) => {
            assert_eq!(bytes[0], protocol::SIGN_REQUEST);
            assert!(is_fingerprint(&fingerprint));
            if let Some(user) = destination.and_then(|destination| destination.user) {
                assert!(user.chars().count() <= 64);
            }
        }
        Ok(SshAgentRequest::Bind { host_key, .. }) => assert!(is_fingerprint(&host_key)),
        Ok(SshAgentRequest::Remove) => assert!([9, 18, 19].contains(&bytes[0])),
        Ok(SshAgentRequest::Query) => assert_eq!(bytes[0], protocol::EXTENSION),
        Ok(SshAgentRequest::Private(words)) => assert!(!words.is_empty()),
        Err(_) => {}
    }
    for key in protocol::parse_identities(bytes).into_iter().flatten() {
        assert!(is_fingerprint(&key.fingerprint));
    }
}
