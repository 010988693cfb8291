//! The ssh-agent protocol, as far as a keeper must understand it.
//!
//! Numbers, strings and lists are decoded by `ssh-encoding`; here is only which message means what.
//! Messages that carry a private key are recognised by their number and never decoded: what a keeper
//! does not read it cannot lose.

use crate::rules::log::LoginDestination;
use crate::rules::meta::LentKey;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest, Sha256};
use ssh_encoding::{Decode, Error, Reader};

/// The longest message that OpenSSH's agent takes.
pub const MAX_MESSAGE_BYTES: usize = 256 * 1024;

/// `SSH_AGENT_FAILURE`.
pub const FAILURE: u8 = 5;
/// `SSH_AGENT_SUCCESS`.
pub const SUCCESS: u8 = 6;
/// `SSH_AGENTC_REQUEST_IDENTITIES`.
pub const REQUEST_IDENTITIES: u8 = 11;
/// `SSH_AGENT_IDENTITIES_ANSWER`.
pub const IDENTITIES_ANSWER: u8 = 12;
/// `SSH_AGENTC_SIGN_REQUEST`.
pub const SIGN_REQUEST: u8 = 13;
/// `SSH_AGENT_SIGN_RESPONSE`.
pub const SIGN_RESPONSE: u8 = 14;
/// `SSH_AGENTC_REMOVE_IDENTITY`.
pub const REMOVE_IDENTITY: u8 = 18;
/// `SSH_AGENTC_REMOVE_ALL_IDENTITIES`.
pub const REMOVE_ALL_IDENTITIES: u8 = 19;
/// The same for version 1 of the protocol; ssh-add still sends both.
const REMOVE_ALL_OLD_IDENTITIES: u8 = 9;
/// `SSH_AGENTC_EXTENSION`.
pub const EXTENSION: u8 = 27;
/// The extension by which a client says which host it talks to.
const SESSION_BIND: &str = "session-bind@openssh.com";
/// The extension that asks for the extensions there are.
const QUERY: &str = "query";
/// `SSH_MSG_USERAUTH_REQUEST`.
const USERAUTH_REQUEST: u8 = 50;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SshAgentRequest {
    /// The public keys.
    Identities,
    Sign {
        /// Which key, by its fingerprint.
        fingerprint: String,
        /// The user it logs in as, and the host key it does so with, where the data says.
        destination: Option<LoginDestination>,
    },
    /// That keys are forgotten.
    Remove,
    /// To bind this connection to a host.
    Bind {
        /// The host, by its key's fingerprint.
        host_key: String,
        /// Whether the agent is forwarded there.
        forwarded: bool,
    },
    /// Which extensions there are.
    Query,
    /// Something that adds keys, locks the agent or is unknown, in words.
    Private(&'static str),
}

/// Understands one message, without the length in front.
pub fn parse_request(message: &[u8]) -> Result<SshAgentRequest, Error> {
    let mut reader = message;
    let kind = u8::decode(&mut reader)?;
    Ok(match kind {
        REQUEST_IDENTITIES => SshAgentRequest::Identities,
        SIGN_REQUEST => {
            let key = Vec::<u8>::decode(&mut reader)?;
            let data = Vec::<u8>::decode(&mut reader)?;
            let _flags = u32::decode(&mut reader)?;
            SshAgentRequest::Sign {
                fingerprint: key_fingerprint(&key),
                destination: login_in(&data),
            }
        }
        REMOVE_IDENTITY | REMOVE_ALL_IDENTITIES | REMOVE_ALL_OLD_IDENTITIES => {
            SshAgentRequest::Remove
        }
        EXTENSION => {
            let name = String::decode(&mut reader)?;
            match name.as_str() {
                SESSION_BIND => {
                    let host_key = key_fingerprint(&Vec::<u8>::decode(&mut reader)?);
                    let _session = Vec::<u8>::decode(&mut reader)?;
                    let _signature = Vec::<u8>::decode(&mut reader)?;
                    let forwarded = u8::decode(&mut reader)? != 0;
                    SshAgentRequest::Bind { host_key, forwarded }
                }
                QUERY => SshAgentRequest::Query,
                _ => SshAgentRequest::Private("an unknown extension"),
            }
        }
        17 => SshAgentRequest::Private("add a key"),
        20 | 26 => SshAgentRequest::Private("add keys of a token"),
        21 => SshAgentRequest::Private("remove keys of a token"),
        22 => SshAgentRequest::Private("lock the agent"),
        23 => SshAgentRequest::Private("unlock the agent"),
        25 => SshAgentRequest::Private("add a constrained key"),
        _ => SshAgentRequest::Private("an unknown request"),
    })
}

/// Where the data to be signed logs in, if it is a login at all (RFC 4252 §7, and OpenSSH's
/// host-bound form of it).
fn login_in(data: &[u8]) -> Option<LoginDestination> {
    let mut reader = data;
    let _session = Vec::<u8>::decode(&mut reader).ok()?;
    if u8::decode(&mut reader).ok()? != USERAUTH_REQUEST {
        return None;
    }
    let user = String::decode(&mut reader).ok()?;
    let _service = String::decode(&mut reader).ok()?;
    let method = String::decode(&mut reader).ok()?;
    let _has_signature = u8::decode(&mut reader).ok()?;
    let _algorithm = String::decode(&mut reader).ok()?;
    let _key = Vec::<u8>::decode(&mut reader).ok()?;
    let host_key = (method == "publickey-hostbound-v00@openssh.com")
        .then(|| Vec::<u8>::decode(&mut reader).ok())
        .flatten();
    let user = user.chars().take(64).collect::<String>();
    let user = (!crate::rules::may_be_secret(&user)).then_some(user);
    Some(LoginDestination {
        user,
        host_key: host_key.map(|key| key_fingerprint(&key)),
        forwarded: false,
    })
}

/// The keys of an answer to [`REQUEST_IDENTITIES`].
pub fn parse_identities(message: &[u8]) -> Result<Vec<LentKey>, Error> {
    let mut reader = message;
    if u8::decode(&mut reader)? != IDENTITIES_ANSWER {
        return Err(Error::Length);
    }
    let count = u32::decode(&mut reader)?;
    let mut keys = Vec::new();
    for _ in 0..count {
        let blob = Vec::<u8>::decode(&mut reader)?;
        let comment = Vec::<u8>::decode(&mut reader)?;
        let kind = String::decode(&mut blob.as_slice())?;
        keys.push(LentKey {
            fingerprint: key_fingerprint(&blob),
            kind,
            comment: LentKey::plain_comment(&String::from_utf8_lossy(&comment)),
        });
    }
    if reader.is_finished() {
        Ok(keys)
    } else {
        Err(Error::TrailingData { remaining: reader.len() })
    }
}

/// A public key's fingerprint as OpenSSH writes it.
pub fn key_fingerprint(key: &[u8]) -> String {
    format!("SHA256:{}", STANDARD_NO_PAD.encode(Sha256::digest(key)))
}

#[cfg(test)]
mod tests {
    use ssh_encoding::Encode;

    use super::*;

    fn message(kind: u8, fields: &[&[u8]], tail: &[u8]) -> Vec<u8> {
        let mut message = vec![kind];
        for field in fields {
            field.encode(&mut message).unwrap();
        }
        message.extend_from_slice(tail);
        message
    }

    #[test]
    fn requests_are_told_apart() {
        assert_eq!(parse_request(&[11]).unwrap(), SshAgentRequest::Identities);
        assert_eq!(parse_request(&[19]).unwrap(), SshAgentRequest::Remove);
        for kind in [17, 20, 22, 23, 25, 26, 1, 99, 255] {
            assert!(
                matches!(parse_request(&[kind, 1, 2]).unwrap(), SshAgentRequest::Private(_)),
                "{kind}"
            );
        }
        let query = message(27, &[b"query"], &[]);
        assert_eq!(parse_request(&query).unwrap(), SshAgentRequest::Query);
        let bind = message(27, &[b"session-bind@openssh.com", b"host", b"id", b"sig"], &[1]);
        let expected =
            SshAgentRequest::Bind { host_key: key_fingerprint(b"host"), forwarded: true };
        assert_eq!(parse_request(&bind).unwrap(), expected);
    }

    #[test]
    fn a_login_names_its_user_and_host() {
        let mut data = Vec::new();
        b"session".as_slice().encode(&mut data).unwrap();
        let method = b"publickey-hostbound-v00@openssh.com".as_slice();
        data.extend(message(50, &[b"anna", b"ssh-connection", method], &[1]));
        for field in [b"ssh-ed25519".as_slice(), b"key", b"host"] {
            field.encode(&mut data).unwrap();
        }
        let sign = message(13, &[b"key", &data], &[0, 0, 0, 0]);
        let SshAgentRequest::Sign { fingerprint: key, destination: Some(to) } =
            parse_request(&sign).unwrap()
        else {
            panic!("not a login");
        };
        assert_eq!(key, key_fingerprint(b"key"));
        assert_eq!(to.user.as_deref(), Some("anna"));
        assert_eq!(to.host_key, Some(key_fingerprint(b"host")));
        let other = message(13, &[b"key", b"a file"], &[0, 0, 0, 0]);
        assert!(matches!(
            parse_request(&other).unwrap(),
            SshAgentRequest::Sign { destination: None, .. }
        ));
    }

    #[test]
    fn what_is_cut_off_is_an_error_and_never_a_panic() {
        let whole = message(13, &[b"key", b"data"], &[0, 0, 0, 0]);
        for end in 0..whole.len() {
            assert!(parse_request(&whole[..end]).is_err(), "{end}");
        }
        assert!(parse_request(&[13, 0xff, 0xff, 0xff, 0xff]).is_err());
        assert!(parse_identities(&[12, 0xff, 0xff, 0xff, 0xff]).is_err());
        assert!(parse_identities(&[12, 0, 0, 0, 0, 1]).is_err());
    }

    #[test]
    fn a_fingerprint_is_the_one_openssh_prints() {
        // The hash of nothing, so that the encoding is known.
        assert_eq!(key_fingerprint(b""), "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU");
    }
}
