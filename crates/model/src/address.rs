//! Session addresses: what a person types to mean one session, and why it means none or several.
//!
//! One rule for every command: an exact id beats a name, a name beats a prefix, a prefix beats a
//! title, and nothing is ever guessed. The short ids that listings print are made by the same rule.
//! Programs write `=` in front, and then mean an exact id and nothing else.

/// Why no single session is meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Nothing fits.
    #[error("no session `{0}`")]
    NotFound(String),
    #[error("`{text}` could mean {} sessions", .candidates.len())]
    Ambiguous {
        /// What was typed.
        text: String,
        /// `agent:id` of each.
        candidates: Vec<String>,
    },
}

/// By what a session can be addressed.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionHandle<'a> {
    /// Its agent, or `terminal`; empty where all are of one kind.
    pub agent: &'a str,
    pub id: &'a str,
    /// The name that a person gave it.
    pub name: Option<&'a str>,
    /// Its title, which may be the agent's own words.
    pub title: Option<&'a str>,
    /// Whether it is live: a name may be used again once its session is over.
    pub live: bool,
}

impl SessionHandle<'_> {
    fn full_name(&self) -> String {
        match self.agent {
            "" => self.id.to_owned(),
            agent => format!("{agent}:{}", self.id),
        }
    }
}

/// What stands in front of an id that is exact.
pub const EXACT_SIGN: char = '=';

/// Finds the one of `all` that `text` means. `agent:` in front narrows it to one agent, `=` before that
/// means an exact id. Of several with one name it is the live one, else the first: list the newest first.
pub fn pick_session<'a, T>(
    all: &[&'a T],
    text: &str,
    handle_of: impl Fn(&'a T) -> SessionHandle<'a>,
) -> Result<&'a T, AddressError> {
    let (text, is_exact) = match text.strip_prefix(EXACT_SIGN) {
        Some(exact) => (exact, true),
        None => (text, false),
    };
    let not_found = || AddressError::NotFound(text.to_owned());
    let handles: Vec<(SessionHandle<'a>, &'a T)> =
        all.iter().map(|one| (handle_of(one), *one)).collect();
    let (agent, id) = match text.split_once(':') {
        Some((agent, id)) if handles.iter().any(|(one, _)| one.agent == agent) => (Some(agent), id),
        _ => (None, text),
    };
    if id.is_empty() {
        return Err(not_found());
    }
    let asked: Vec<&(SessionHandle<'a>, &'a T)> =
        handles.iter().filter(|(one, _)| agent.is_none_or(|agent| one.agent == agent)).collect();
    let mut named: Vec<_> = asked.iter().filter(|(one, _)| one.name == Some(id)).collect();
    if named.iter().any(|(one, _)| one.live) {
        named.retain(|(one, _)| one.live);
    } else {
        named.truncate(1);
    }
    let fitting = |fits: &dyn Fn(&SessionHandle<'a>) -> bool| -> Vec<_> {
        asked.iter().filter(|(one, _)| fits(one)).collect()
    };
    let lower = id.to_ascii_lowercase();
    let attempts = [
        fitting(&|one| one.id == id),
        named,
        fitting(&|one| begins_with(one.id, id)),
        fitting(&|one| begins_with(&one.id.to_ascii_lowercase(), &lower)),
        fitting(&|one| one.title == Some(id)),
    ];
    for found in attempts.into_iter().take(if is_exact { 1 } else { usize::MAX }) {
        match found[..] {
            [] => {}
            [(_, one)] => return Ok(one),
            _ => {
                let candidates = found.iter().map(|(one, _)| one.full_name()).collect();
                return Err(AddressError::Ambiguous { text: text.to_owned(), candidates });
            }
        }
    }
    Err(not_found())
}

/// Why a typed text means no single thing of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSingleId<T> {
    /// Nothing begins with it, or nothing was typed.
    Nothing,
    Several(Vec<T>),
}

/// Finds the one thing whose id is `text`, else the one that has an id that begins with it. A thing may go by
/// several ids. Empty text means nothing: it begins every id, and only one thing would be no reason to mean it.
pub fn pick_by_id<T, const N: usize>(
    all: impl IntoIterator<Item = T>,
    text: &str,
    ids_of: impl for<'x> Fn(&'x T) -> [&'x str; N],
) -> Result<T, NoSingleId<T>> {
    if text.is_empty() {
        return Err(NoSingleId::Nothing);
    }
    let begins = |one: &T| ids_of(one).iter().any(|id| id.starts_with(text));
    let mut found: Vec<T> = all.into_iter().filter(begins).collect();
    let is_exact = |one: &T| ids_of(one).contains(&text);
    if found.iter().any(is_exact) {
        found.retain(is_exact);
    }
    match found.len() {
        0 => Err(NoSingleId::Nothing),
        1 => Ok(found.swap_remove(0)),
        _ => Err(NoSingleId::Several(found)),
    }
}

/// Whether an id begins with that, with or without its constant prefix.
fn begins_with(id: &str, text: &str) -> bool {
    id.starts_with(text) || without_constant_prefix(id).starts_with(text)
}

/// An id without the word that every id of its agent begins with (`ses_`, `session_`).
fn without_constant_prefix(id: &str) -> &str {
    let is_word = |word: &str| {
        (2..=10).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase())
    };
    match id.split_once('_') {
        Some((word, rest)) if is_word(word) && rest.len() >= SHORT_ID_CHARS => rest,
        _ => id,
    }
}

/// How long a short id is at least.
const SHORT_ID_CHARS: usize = 8;

/// The shortest ids that [`pick_session`] takes: unambiguous among all that it could be asked about.
#[derive(Clone, Debug, Default)]
pub struct ShortIds<'a> {
    /// Every id, whole and without its constant prefix, sorted.
    sorted: Vec<&'a str>,
}

impl<'a> ShortIds<'a> {
    /// Short ids among these.
    pub fn among(ids: impl IntoIterator<Item = &'a str>) -> Self {
        let mut sorted: Vec<&str> = Vec::new();
        for id in ids {
            sorted.push(id);
            let rest = without_constant_prefix(id);
            if rest.len() < id.len() {
                sorted.push(rest);
            }
        }
        sorted.sort_unstable();
        sorted.dedup();
        Self { sorted }
    }

    /// The part of an id to print: of at least eight characters, without a constant prefix.
    pub fn shorten<'i>(&self, id: &'i str) -> &'i str {
        let part = without_constant_prefix(id);
        let shared =
            |other: &str| other.chars().zip(part.chars()).take_while(|(a, b)| a == b).count();
        let (Ok(at) | Err(at)) = self.sorted.binary_search(&part);
        let before = at.checked_sub(1).map_or(0, |before| shared(self.sorted[before]));
        let beside = self.sorted.get(at).filter(|other| **other != part);
        let after = beside.or(self.sorted.get(at + 1)).map_or(0, |other| shared(other));
        let count = before.max(after).max(SHORT_ID_CHARS - 1) + 1;
        part.char_indices().nth(count).map_or(part, |(end, _)| &part[..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pick<'a>(all: &'a [SessionHandle<'a>], text: &str) -> Result<&'a str, AddressError> {
        let all: Vec<&SessionHandle<'_>> = all.iter().collect();
        pick_session(&all, text, |one| *one).map(|one| one.id)
    }

    fn handle<'a>(agent: &'a str, id: &'a str) -> SessionHandle<'a> {
        SessionHandle { agent, id, ..SessionHandle::default() }
    }

    #[test]
    fn b5_every_short_id_is_taken_and_means_its_session() {
        let ids = [
            "01a1e3c6-7abc-7000-8000-000000000001",
            "01a1e3c6-7abc-7000-8000-000000000002",
            "01a1e3c6-9abc-7000-8000-000000000003",
            "session_0f3a9b1c-4d5e",
            "session_0f3a9b1c-9999",
            "ses_e1c3aaaaffBcDeFgH",
            "ses_e1c3aaaaffZZZZZZZ",
            "01KAY3N0Q5T8V9W2X4Y6Z8A0B2",
            "short",
            "ses_x",
            "日本語のとても長い名前です",
        ];
        let all: Vec<SessionHandle<'_>> = ids.iter().map(|id| handle("x", id)).collect();
        let short = ShortIds::among(ids);
        for id in ids {
            let part = short.shorten(id);
            assert_eq!(pick(&all, part), Ok(id), "{part}");
            assert!(part == "ses_x" || !part.starts_with("ses"), "{part} says nothing");
        }
        assert_eq!(short.shorten(ids[3]), "0f3a9b1c-4");
        assert_eq!(short.shorten(ids[7]), "01KAY3N0");
        assert_eq!(short.shorten("session_77777777-1"), "77777777", "not among them");
    }

    #[test]
    fn b5_ids_of_which_one_begins_the_other() {
        let ids = ["abcdefgh", "abcdefghij", "ses_abcdefghijkl"];
        let all: Vec<SessionHandle<'_>> = ids.iter().map(|id| handle("x", id)).collect();
        let short = ShortIds::among(ids);
        for id in ids {
            assert_eq!(pick(&all, short.shorten(id)), Ok(id));
        }
    }

    #[test]
    fn an_exact_address_means_an_id_and_nothing_else() {
        let all = [
            SessionHandle {
                name: Some("work"),
                title: Some("a title"),
                ..handle("a", "abcdefgh1")
            },
            handle("b", "abcdefgh1"),
            handle("b", "other"),
        ];
        assert_eq!(pick(&all, "=other"), Ok("other"));
        assert_eq!(pick(&all, "=b:other"), Ok("other"));
        assert_eq!(pick(&all, "=a:abcdefgh1"), Ok("abcdefgh1"));
        for loose in ["=oth", "=work", "=a title", "=OTHER", "=a:other", "=", "=a:", "==other"] {
            let text = loose.strip_prefix(EXACT_SIGN).unwrap();
            assert_eq!(pick(&all, loose), Err(AddressError::NotFound(text.to_owned())), "{loose}");
        }
        let shared = pick(&all, "=abcdefgh1");
        assert!(matches!(shared, Err(AddressError::Ambiguous { .. })), "{shared:?}");
    }

    #[test]
    fn an_id_is_picked_by_its_beginning_and_empty_text_means_nothing() {
        let all = [("a1", "one"), ("a12", "two"), ("b", "a9")];
        let pick = |text: &str| pick_by_id(all, text, |(id, name)| [*id, *name]);
        assert_eq!(pick("b"), Ok(all[2]));
        assert_eq!(pick("a1"), Ok(all[0]), "a whole id is exact");
        assert_eq!(pick("tw"), Ok(all[1]));
        assert_eq!(pick("a"), Err(NoSingleId::Several(all.to_vec())));
        assert_eq!(pick("z"), Err(NoSingleId::Nothing));
        assert_eq!(pick_by_id(["only"], "", |id| [*id]), Err(NoSingleId::Nothing));
    }

    #[test]
    fn b6_a_name_used_again_means_the_live_one_else_the_newest() {
        let named = |id, live| SessionHandle { name: Some("work"), live, ..handle("terminal", id) };
        assert_eq!(pick(&[named("new", false), named("old", false)], "work"), Ok("new"));
        assert_eq!(pick(&[named("new", false), named("old", true)], "work"), Ok("old"));
        let both = [named("a", true), named("b", true)];
        assert!(matches!(pick(&both, "work"), Err(AddressError::Ambiguous { .. })));
    }

    #[test]
    fn an_id_beats_a_name_a_name_a_prefix_and_a_prefix_a_title() {
        let all = [
            SessionHandle { name: Some("abc"), ..handle("a", "first") },
            SessionHandle { title: Some("first2"), ..handle("a", "abc") },
            SessionHandle { title: Some("sec"), ..handle("b", "abcd") },
            handle("b", "second"),
            SessionHandle { title: Some("a title"), ..handle("b", "third") },
        ];
        assert_eq!(pick(&all, "abc"), Ok("abc"));
        assert_eq!(pick(&all[..1], "abc"), Ok("first"));
        assert_eq!(pick(&all, "sec"), Ok("second"));
        assert_eq!(pick(&all, "a title"), Ok("third"));
        assert_eq!(pick(&all, "b:abc"), Ok("abcd"));
        assert_eq!(pick(&all, "THI"), Ok("third"));
        for text in ["", "b:", "nope", "b:first"] {
            assert_eq!(pick(&all, text), Err(AddressError::NotFound(text.to_owned())));
        }
    }
}
