//! Sign-in: one-time keys, tab tokens, tickets for sockets, codes that ask for a right.
//!
//! Everything lives in this process, and a restart signs everybody out but browsers that asked to be kept
//! (`model::page::KeptTab`). Secrets are 256 random bits, held as SHA-256 hashes and compared in constant
//! time. Time is an argument.

use std::collections::VecDeque;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::page::{KEPT_TAB_LIFETIME, KeptTab};
use model::time::Time;
use sha2::{Digest, Sha256};

use crate::api::{ApiFailure, ApiRight};
use crate::timeouts::{CODE_LIFETIME, LINK_KEY_LIFETIME, TICKET_LIFETIME, WRONG_SECRET_WINDOW};

/// How many keys, tickets and codes are remembered; the oldest go.
const MOST_PENDING: usize = 64;
/// How many tabs may be signed in; the one that was used longest ago goes.
const MOST_TABS: usize = 256;
/// How many wrong secrets a minute are told apart from too many.
const MOST_WRONG: usize = 10;

type SecretHash = [u8; 32];

const TAB_PREFIX: &str = "tab-";

/// A tab that is signed in.
#[derive(Clone, Debug)]
pub(super) struct SignedTab {
    pub(super) name: String,
    pub(super) right: ApiRight,
    pub(super) since: Time,
    pub(super) last_used: Time,
    /// Until when it stays signed in, even beyond this process.
    pub(super) kept_until: Option<Time>,
    hash: SecretHash,
}

impl SignedTab {
    /// Its name in events and logs, where there are others than tabs.
    pub(super) fn audit_name(&self) -> String {
        format!("web:{}", self.name)
    }

    fn is_over(&self, now: Time) -> bool {
        self.kept_until.is_some_and(|until| until <= now)
    }
}

/// A secret that is good once, until then.
#[derive(Debug)]
struct PendingSecret<T> {
    hash: SecretHash,
    until: Instant,
    meaning: T,
}

/// Everybody who is signed in or may sign in.
#[derive(Debug, Default)]
pub(super) struct SignIns {
    keys: VecDeque<PendingSecret<()>>,
    tickets: VecDeque<PendingSecret<String>>,
    codes: VecDeque<PendingSecret<(String, ApiRight)>>,
    tabs: Vec<SignedTab>,
    wrong: VecDeque<Instant>,
    made: u64,
}

impl SignIns {
    /// A key for one tab.
    pub(super) fn new_key(&mut self, now: Instant) -> std::io::Result<String> {
        let key = random_secret()?;
        put_pending(&mut self.keys, &key, now + LINK_KEY_LIFETIME, ());
        Ok(key)
    }

    /// Signs a tab in. The token is told here and never again.
    pub(super) fn redeem_key(
        &mut self,
        key: &str,
        right: ApiRight,
        now: Instant,
    ) -> Result<(String, SignedTab), ApiFailure> {
        if take_pending(&mut self.keys, key, now).is_none() {
            return Err(self.refuse(now, "the link was used, is too old, or is not of this server"));
        }
        let internal = |error: std::io::Error| {
            ApiFailure::new("INTERNAL_ERROR", error.to_string(), "try again")
        };
        let token = random_secret().map_err(internal)?;
        self.made += 1;
        let at = sys::clock::now();
        let name = format!("{TAB_PREFIX}{}", self.made);
        let hash = hash_secret(&token);
        let tab = SignedTab { name, right, since: at, last_used: at, kept_until: None, hash };
        if self.is_full()
            && let Some(oldest) =
                (0..self.tabs.len()).min_by_key(|at| self.tabs[*at].last_used.as_millis())
        {
            self.tabs.remove(oldest);
        }
        self.tabs.push(tab.clone());
        Ok((token, tab))
    }

    /// The tab of a token. A right one is never refused for the wrong ones of others.
    pub(super) fn check_token(
        &mut self,
        token: Option<&str>,
        now: Instant,
    ) -> Result<SignedTab, ApiFailure> {
        let Some(token) = token else {
            return Err(ApiFailure::new("UNAUTHORIZED", "a token is needed", SIGN_IN_HINT));
        };
        let hash = hash_secret(token);
        let at = sys::clock::now();
        self.tabs.retain(|tab| !tab.is_over(at));
        match self.tabs.iter_mut().find(|tab| is_same(&tab.hash, &hash)) {
            Some(tab) => {
                tab.last_used = at;
                Ok(tab.clone())
            }
            None => Err(self.refuse(now, "the token is not known here")),
        }
    }

    /// Signs in browsers that were kept.
    pub(super) fn restore_tabs(&mut self, kept: &[KeptTab]) {
        for tab in kept {
            let hash = URL_SAFE_NO_PAD.decode(&tab.token_hash).ok();
            let hash: Option<SecretHash> = hash.and_then(|hash| hash.try_into().ok());
            let (Some(hash), Some(right)) = (hash, ApiRight::parse(&tab.right)) else { continue };
            // A name is used once.
            let number = tab.name.strip_prefix(TAB_PREFIX).and_then(|number| number.parse().ok());
            self.made = self.made.max(number.unwrap_or(0));
            self.tabs.push(SignedTab {
                name: tab.name.clone(),
                right,
                since: tab.since,
                last_used: tab.since,
                kept_until: Some(tab.until),
                hash,
            });
        }
    }

    /// What is to be kept of a tab, from now on; nothing, if it is not signed in any more.
    pub(super) fn describe_kept(&self, name: &str, now: Time) -> Option<KeptTab> {
        let tab = self.find_tab(name, now)?;
        Some(KeptTab {
            name: tab.name.clone(),
            token_hash: URL_SAFE_NO_PAD.encode(tab.hash),
            right: tab.right.as_str().to_owned(),
            since: tab.since,
            until: tab.kept_until.unwrap_or(now.plus(KEPT_TAB_LIFETIME)),
        })
    }

    /// Notes that a tab is kept.
    pub(super) fn note_kept(&mut self, kept: &KeptTab) -> Option<SignedTab> {
        let tab = self.tabs.iter_mut().find(|tab| tab.name == kept.name)?;
        tab.kept_until = Some(kept.until);
        Some(tab.clone())
    }

    /// The tab of that name, if it is still signed in.
    pub(super) fn find_tab(&self, name: &str, now: Time) -> Option<&SignedTab> {
        self.tabs.iter().find(|tab| tab.name == name && !tab.is_over(now))
    }

    /// Whether a further tab takes the place of another.
    pub(super) fn is_full(&self) -> bool {
        self.tabs.len() >= MOST_TABS
    }

    pub(super) fn list_tabs(&self) -> &[SignedTab] {
        &self.tabs
    }

    /// Signs a tab out; whether there was one.
    pub(super) fn revoke_tab(&mut self, name: &str) -> bool {
        let before = self.tabs.len();
        self.tabs.retain(|tab| tab.name != name);
        self.tickets.retain(|ticket| ticket.meaning != name);
        self.codes.retain(|code| code.meaning.0 != name);
        self.tabs.len() < before
    }

    /// A ticket for one socket of a tab.
    pub(super) fn new_ticket(&mut self, tab: &SignedTab, now: Instant) -> std::io::Result<String> {
        let ticket = random_secret()?;
        put_pending(&mut self.tickets, &ticket, now + TICKET_LIFETIME, tab.name.clone());
        Ok(ticket)
    }

    /// The tab that a ticket was made for.
    pub(super) fn redeem_ticket(
        &mut self,
        ticket: Option<&str>,
        now: Instant,
    ) -> Result<SignedTab, ApiFailure> {
        let name = ticket.and_then(|ticket| take_pending(&mut self.tickets, ticket, now));
        let found = name.and_then(|name| self.find_tab(&name, sys::clock::now()).cloned());
        match found {
            Some(tab) => Ok(tab),
            None => Err(self.refuse(now, "the ticket was used, is too old, or is not known here")),
        }
    }

    /// A code by which a person gives a tab a right.
    pub(super) fn ask_right(
        &mut self,
        tab: &SignedTab,
        right: ApiRight,
        now: Instant,
    ) -> std::io::Result<String> {
        // Letters and digits that are not confused; 32 of them, so that a byte's low bits choose fairly.
        const LETTERS: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
        let random: [u8; 8] = sys::random::random_bytes()?;
        let code: String =
            random.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect();
        self.codes.retain(|code| code.meaning != (tab.name.clone(), right));
        put_pending(&mut self.codes, &code, now + CODE_LIFETIME, (tab.name.clone(), right));
        Ok(format!("{}-{}", &code[..4], &code[4..]))
    }

    /// Gives the right that a code asks for; the tab that has it now.
    pub(super) fn allow_code(&mut self, code: &str, now: Instant) -> Option<SignedTab> {
        let code: String =
            code.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_uppercase();
        let (name, right) = take_pending(&mut self.codes, &code, now)?;
        let tab = self.tabs.iter_mut().find(|tab| tab.name == name)?;
        tab.right = tab.right.max(right);
        Some(tab.clone())
    }

    fn refuse(&mut self, now: Instant, message: &str) -> ApiFailure {
        while self.wrong.front().is_some_and(|at| now.duration_since(*at) > WRONG_SECRET_WINDOW) {
            self.wrong.pop_front();
        }
        if self.wrong.len() >= MOST_WRONG {
            return ApiFailure::new("TOO_MANY", "too many wrong secrets", "wait a minute");
        }
        self.wrong.push_back(now);
        ApiFailure::new("UNAUTHORIZED", message, SIGN_IN_HINT)
    }
}

const SIGN_IN_HINT: &str = "press Enter where `ostler web` runs, and open the new link";

fn random_secret() -> std::io::Result<String> {
    Ok(URL_SAFE_NO_PAD.encode(sys::random::random_bytes::<32>()?))
}

fn hash_secret(secret: &str) -> SecretHash {
    Sha256::digest(secret.as_bytes()).into()
}

/// Compares every byte, even after a difference (constant time).
fn is_same(one: &SecretHash, other: &SecretHash) -> bool {
    one.iter().zip(other).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
}

fn put_pending<T>(
    pending: &mut VecDeque<PendingSecret<T>>,
    secret: &str,
    until: Instant,
    meaning: T,
) {
    if pending.len() >= MOST_PENDING {
        pending.pop_front();
    }
    pending.push_back(PendingSecret { hash: hash_secret(secret), until, meaning });
}

fn take_pending<T>(
    pending: &mut VecDeque<PendingSecret<T>>,
    secret: &str,
    now: Instant,
) -> Option<T> {
    pending.retain(|one| one.until > now);
    let hash = hash_secret(secret);
    let place = pending.iter().position(|one| is_same(&one.hash, &hash))?;
    pending.remove(place).map(|one| one.meaning)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn signed_in(sign_ins: &mut SignIns, now: Instant) -> (String, SignedTab) {
        let key = sign_ins.new_key(now).unwrap();
        sign_ins.redeem_key(&key, ApiRight::Watch, now).unwrap()
    }

    #[test]
    fn row_35_a_key_is_good_once_for_ten_minutes_and_cannot_be_guessed() {
        let (mut sign_ins, now) = (SignIns::default(), Instant::now());
        let key = sign_ins.new_key(now).unwrap();
        let late = sign_ins.new_key(now).unwrap();
        sign_ins.redeem_key(&key, ApiRight::Watch, now).unwrap();
        let again = sign_ins.redeem_key(&key, ApiRight::Watch, now).unwrap_err();
        assert_eq!(again.code, "UNAUTHORIZED");
        let after = now + LINK_KEY_LIFETIME + Duration::from_millis(1);
        assert!(sign_ins.redeem_key(&late, ApiRight::Watch, after).is_err());
        let guesses = (0..20).map(|guess| {
            sign_ins.redeem_key(&format!("{guess}"), ApiRight::Watch, after).unwrap_err().code
        });
        let guesses: Vec<_> = guesses.collect();
        assert_eq!(guesses.first(), Some(&"UNAUTHORIZED"));
        assert_eq!(guesses.last(), Some(&"TOO_MANY"));
        // The wrong ones of others lock no other client out.
        let (token, _) = signed_in(&mut sign_ins, after);
        sign_ins.check_token(Some(&token), after).unwrap();
    }

    #[test]
    fn row_36_a_ticket_is_good_once_for_ten_seconds_and_of_its_own_tab() {
        let (mut sign_ins, now) = (SignIns::default(), Instant::now());
        let (_, one) = signed_in(&mut sign_ins, now);
        let (_, other) = signed_in(&mut sign_ins, now);
        let ticket = sign_ins.new_ticket(&one, now).unwrap();
        assert_eq!(sign_ins.redeem_ticket(Some(&ticket), now).unwrap().name, one.name);
        assert!(sign_ins.redeem_ticket(Some(&ticket), now).is_err());
        let late = sign_ins.new_ticket(&one, now).unwrap();
        assert!(sign_ins.redeem_ticket(Some(&late), now + TICKET_LIFETIME).is_err());
        let revoked = sign_ins.new_ticket(&other, now).unwrap();
        assert!(sign_ins.revoke_tab(&other.name));
        assert!(sign_ins.redeem_ticket(Some(&revoked), now).is_err());
        assert!(sign_ins.redeem_ticket(None, now).is_err());
    }

    #[test]
    fn row_64_a_code_gives_its_right_to_its_tab_once() {
        let (mut sign_ins, now) = (SignIns::default(), Instant::now());
        let (token, tab) = signed_in(&mut sign_ins, now);
        let code = sign_ins.ask_right(&tab, ApiRight::Type, now).unwrap();
        assert!(sign_ins.allow_code("AAAA-AAAA", now).is_none());
        let allowed = sign_ins.allow_code(&code.to_lowercase(), now).unwrap();
        assert_eq!((allowed.name, allowed.right), (tab.name.clone(), ApiRight::Type));
        assert!(sign_ins.allow_code(&code, now).is_none());
        assert_eq!(sign_ins.check_token(Some(&token), now).unwrap().right, ApiRight::Type);
        // A smaller right takes nothing away, and a code that is too old gives nothing.
        let watch = sign_ins.ask_right(&tab, ApiRight::Watch, now).unwrap();
        assert_eq!(sign_ins.allow_code(&watch, now).unwrap().right, ApiRight::Type);
        let late = sign_ins.ask_right(&tab, ApiRight::Manage, now).unwrap();
        assert!(sign_ins.allow_code(&late, now + CODE_LIFETIME).is_none());
    }

    #[test]
    fn a_kept_browser_is_signed_in_after_a_restart_until_its_time_is_over() {
        let (mut sign_ins, now) = (SignIns::default(), Instant::now());
        let (token, tab) = signed_in(&mut sign_ins, now);
        let kept = sign_ins.describe_kept(&tab.name, sys::clock::now()).unwrap();
        assert!(!format!("{kept:?}").contains(&token), "only a hash is kept");
        let mut again = SignIns::default();
        again.restore_tabs(std::slice::from_ref(&kept));
        assert_eq!(again.check_token(Some(&token), now).unwrap().name, tab.name);
        let (_, other) = signed_in(&mut again, now);
        assert_ne!(other.name, tab.name);
        let mut late = SignIns::default();
        let until = sys::clock::now().plus(Duration::from_secs(60));
        late.restore_tabs(&[KeptTab { until, ..kept.clone() }]);
        assert!(late.find_tab(&kept.name, sys::clock::now()).is_some());
        assert!(late.find_tab(&kept.name, until).is_none(), "its time is over");
        let mut late = SignIns::default();
        late.restore_tabs(&[KeptTab { until: Time::from_millis(1), ..kept }]);
        assert!(late.check_token(Some(&token), now).is_err());
    }

    #[test]
    fn row_39_no_secret_is_in_what_is_remembered() {
        let (mut sign_ins, now) = (SignIns::default(), Instant::now());
        let key = sign_ins.new_key(now).unwrap();
        let kept = sign_ins.new_key(now).unwrap();
        let (token, tab) = sign_ins.redeem_key(&key, ApiRight::Watch, now).unwrap();
        let ticket = sign_ins.new_ticket(&tab, now).unwrap();
        let shown = format!("{sign_ins:?} {tab:?}");
        for secret in [key, kept, token, ticket] {
            assert!(secret.len() >= 43);
            assert!(!shown.contains(&secret));
        }
    }
}
