//! Query of a search: what the words mean, and a test that lets most files pass unread.
//!
//! Every term is a regular expression of the linear-time engine, made here from plain words or taken
//! as it is. Case is folded one character at a time, so that the words, and the raw bytes of a file
//! that may hold them escaped, are compared by the same rule.

use std::fmt::Write;

use memchr::memmem::Finder;
use regex::{Regex, RegexBuilder};

/// The largest automaton of one term: a hostile pattern is refused, not obeyed.
const MAX_PATTERN_BYTES: usize = 8 << 20;

/// How a query is to be read.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueryOptions {
    /// The whole query is one regular expression.
    pub regex: bool,
    /// Case counts even if the query has no capital.
    pub case: bool,
}

/// Why a query cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// Nothing is looked for.
    #[error("there is nothing to look for")]
    Nothing,
    /// Only what must not occur was said.
    #[error("only words that must not occur were given")]
    OnlyExclusions,
    /// A quote that is not closed.
    #[error("a quote is not closed: {0}")]
    OpenQuote(String),
    /// Not a regular expression, or one that would take too much.
    #[error("not a regular expression that can be used: {0}")]
    Pattern(String),
}

/// What to look for in one entry: all of some terms, and none of others.
#[derive(Debug)]
pub struct SearchQuery {
    wanted: Vec<Regex>,
    unwanted: Vec<Regex>,
    prefilter: RawPrefilter,
}

impl SearchQuery {
    /// Reads a query: words, `"exact words"` and `-word`; or one regular expression.
    pub fn parse(text: &str, options: QueryOptions) -> Result<Self, QueryError> {
        if text.trim().is_empty() {
            return Err(QueryError::Nothing);
        }
        if options.regex {
            let folds = !options.case && !has_capital_in_pattern(text);
            let pattern = compile(RegexBuilder::new(text).case_insensitive(folds))?;
            return Ok(Self {
                wanted: vec![pattern],
                unwanted: Vec::new(),
                prefilter: RawPrefilter::LetsAllPass,
            });
        }
        let words = split_query(text)?;
        let folds =
            !options.case && !words.iter().any(|(_, word)| word.contains(char::is_uppercase));
        let (mut wanted, mut unwanted) = (Vec::new(), Vec::new());
        let mut raw = RawPrefilter::LetsAllPass;
        for (excludes, word) in &words {
            let term = compile(&mut RegexBuilder::new(&pattern_of(word, folds)))?;
            if *excludes {
                unwanted.push(term);
            } else {
                wanted.push(term);
                let other = RawPrefilter::for_word(word, folds)?;
                if other.strength() > raw.strength() {
                    raw = other;
                }
            }
        }
        match wanted.is_empty() {
            true => Err(QueryError::OnlyExclusions),
            false => Ok(Self { wanted, unwanted, prefilter: raw }),
        }
    }

    /// Whether an entry with this text is a hit.
    pub fn matches(&self, text: &str) -> bool {
        self.wanted.iter().all(|term| term.is_match(text))
            && !self.unwanted.iter().any(|term| term.is_match(text))
    }

    /// Where the wanted terms stand, in order, overlaps joined.
    pub fn ranges_in(&self, text: &str) -> Vec<std::ops::Range<usize>> {
        let found = self.wanted.iter().flat_map(|term| term.find_iter(text));
        let mut ranges: Vec<_> = found.map(|found| found.range()).collect();
        ranges.sort_by_key(|range| (range.start, range.end));
        let mut joined: Vec<std::ops::Range<usize>> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        joined
    }

    /// The terms that must occur.
    pub(super) fn wanted_terms(&self) -> &[Regex] {
        &self.wanted
    }

    /// The terms that must not.
    pub(super) fn unwanted_terms(&self) -> &[Regex] {
        &self.unwanted
    }

    /// What the raw bytes of a file with a hit must hold.
    pub(super) fn prefilter(&self) -> &RawPrefilter {
        &self.prefilter
    }
}

/// A test of raw bytes that no hit can fail, however its text was escaped.
#[derive(Debug)]
pub(super) enum RawPrefilter {
    /// Nothing is known that the bytes must hold.
    LetsAllPass,
    /// These very bytes.
    Bytes(Box<Finder<'static>>),
    /// A pattern; none of its matches is longer than `longest`.
    Pattern { pattern: regex::bytes::Regex, longest: usize, strength: usize },
}

impl RawPrefilter {
    /// Whether these bytes may hold a hit.
    pub(super) fn may_hold(&self, bytes: &[u8]) -> bool {
        match self {
            Self::LetsAllPass => true,
            Self::Bytes(finder) => finder.find(bytes).is_some(),
            Self::Pattern { pattern, .. } => pattern.is_match(bytes),
        }
    }

    /// How many bytes at the end of a chunk may be the beginning of what it looks for.
    pub(super) fn overlap(&self) -> usize {
        match self {
            Self::LetsAllPass => 0,
            Self::Bytes(finder) => finder.needle().len().saturating_sub(1),
            Self::Pattern { longest, .. } => *longest,
        }
    }

    /// How much it asks for: more lets fewer files pass.
    fn strength(&self) -> usize {
        match self {
            Self::LetsAllPass => 0,
            Self::Bytes(finder) => finder.needle().len(),
            Self::Pattern { strength, .. } => *strength,
        }
    }

    /// The strongest test for one word.
    fn for_word(word: &str, folds: bool) -> Result<Self, QueryError> {
        let longest_run = |is_part: fn(char) -> bool| {
            word.split(|c| !is_part(c)).max_by_key(|run| run.len()).unwrap_or("")
        };
        let plain = longest_run(is_never_escaped);
        let other = longest_run(|c| !c.is_ascii() && !c.is_whitespace());
        if plain.is_empty() && other.is_empty() {
            return Ok(Self::LetsAllPass);
        }
        if plain.len() < other.len() {
            return Self::for_escaped(other, folds);
        }
        if !folds || !plain.contains(|c: char| c.is_ascii_alphabetic()) {
            return Ok(Self::Bytes(Box::new(Finder::new(plain.as_bytes()).into_owned())));
        }
        let mut pattern = regex::bytes::RegexBuilder::new(&regex::escape(plain));
        let pattern = pattern.unicode(false).case_insensitive(true).build().map_err(wrong)?;
        Ok(Self::Pattern { pattern, longest: plain.len(), strength: plain.len() })
    }

    /// Characters that a writer of JSON may put as they are or as `\uXXXX`; escaped once more where a
    /// tool's input is JSON inside of JSON, so any number of backslashes may stand before.
    fn for_escaped(run: &str, folds: bool) -> Result<Self, QueryError> {
        const MAX_CHARS: usize = 8;
        const LONGEST_ESCAPE: usize = 2 * 16;
        let mut pattern = String::new();
        let mut count = 0;
        for c in run.chars().take(MAX_CHARS) {
            count += 1;
            pattern.push_str("(?:");
            for (index, variant) in case_variants(c, folds).into_iter().enumerate() {
                pattern.push_str(if index > 0 { "|" } else { "" });
                pattern.push_str(&regex::escape(&variant.to_string()));
                pattern.push('|');
                for unit in variant.encode_utf16(&mut [0; 2]) {
                    // Writing to a text cannot fail.
                    let _ = write!(pattern, r"\\{{1,10}}u(?i-u:{unit:04x})");
                }
            }
            pattern.push(')');
        }
        let mut pattern = regex::bytes::RegexBuilder::new(&pattern);
        let pattern = pattern.size_limit(MAX_PATTERN_BYTES).build().map_err(wrong)?;
        Ok(Self::Pattern { pattern, longest: count * LONGEST_ESCAPE, strength: run.len() })
    }
}

/// Whether no writer of JSON that is known escapes the character.
fn is_never_escaped(c: char) -> bool {
    c.is_ascii_graphic() && !r#""\/<>&'+`"#.contains(c)
}

/// The characters that one of a query stands for.
fn case_variants(c: char, folds: bool) -> Vec<char> {
    let mut variants = vec![c];
    if folds {
        let one =
            |mut of: Box<dyn Iterator<Item = char>>| of.next().filter(|_| of.next().is_none());
        let upper = one(Box::new(c.to_uppercase()));
        let lower = one(Box::new(upper.unwrap_or(c).to_lowercase()));
        for variant in [upper, lower, one(Box::new(c.to_lowercase()))].into_iter().flatten() {
            // Letters outside ASCII that fold to an ASCII one are left alone, and the other way round.
            if !variants.contains(&variant) && variant.is_ascii() == c.is_ascii() {
                variants.push(variant);
            }
        }
    }
    variants
}

/// A word or phrase as a pattern: white space stands for any white space.
fn pattern_of(word: &str, folds: bool) -> String {
    let mut pattern = String::new();
    let mut in_blank = false;
    for c in word.chars() {
        if c.is_whitespace() {
            pattern.push_str(if in_blank { "" } else { r"\s+" });
            in_blank = true;
            continue;
        }
        in_blank = false;
        let variants = case_variants(c, folds);
        let several = variants.len() > 1;
        pattern.push_str(if several { "[" } else { "" });
        for variant in variants {
            pattern.push_str(&regex::escape(&variant.to_string()));
        }
        pattern.push_str(if several { "]" } else { "" });
    }
    pattern
}

fn compile(builder: &mut RegexBuilder) -> Result<Regex, QueryError> {
    builder.size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES).build().map_err(wrong)
}

fn wrong(error: regex::Error) -> QueryError {
    QueryError::Pattern(error.to_string())
}

/// Whether a pattern has a capital that is not part of an escape such as `\S`.
fn has_capital_in_pattern(pattern: &str) -> bool {
    let mut escaped = false;
    pattern.chars().any(|c| {
        let counts = c.is_uppercase() && !escaped;
        escaped = c == '\\' && !escaped;
        counts
    })
}

/// The words of a query, and whether each excludes.
fn split_query(text: &str) -> Result<Vec<(bool, String)>, QueryError> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let after_dash =
            rest.strip_prefix('-').filter(|after| !after.starts_with(char::is_whitespace));
        let excludes = first == '-' && after_dash.is_some_and(|after| !after.is_empty());
        let body = after_dash.filter(|_| excludes).unwrap_or(rest);
        let (word, after) = match body.strip_prefix('"') {
            Some(quoted) => quoted
                .split_once('"')
                .ok_or_else(|| QueryError::OpenQuote(body.chars().take(40).collect()))?,
            None => body.split_at(body.find(char::is_whitespace).unwrap_or(body.len())),
        };
        if !word.trim().is_empty() {
            words.push((excludes, word.trim().to_owned()));
        }
        rest = after.trim_start();
    }
    if words.is_empty() { Err(QueryError::Nothing) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> SearchQuery {
        SearchQuery::parse(text, QueryOptions::default()).unwrap()
    }

    #[test]
    fn row_74_any_language_any_case_one_character() {
        for (text, found) in [
            ("日本", "これは日本語です"),
            ("本", "日本"),
            ("🦀", "a 🦀 b"),
            ("straße", "Die STRAßE"),
            ("éclair", "ÉCLAIR"),
            ("привет", "ПРИВЕТ, мир"),
            ("x", "aXb"),
            ("k", "K"),
        ] {
            assert!(query(text).matches(found), "{text}");
        }
        for (text, other) in [("Rust", "rust"), ("É", "é"), ("k", "\u{212a}"), ("日本", "日 本")]
        {
            assert!(!query(text).matches(other), "{text}");
        }
        let strict = QueryOptions { case: true, ..QueryOptions::default() };
        assert!(!SearchQuery::parse("rust", strict).unwrap().matches("Rust"));
    }

    #[test]
    fn row_75_words_phrases_exclusions() {
        let all = query("alpha beta -gamma");
        assert!(all.matches("a betamax of ALPHA"));
        assert!(!all.matches("alpha") && !all.matches("alpha beta gamma"));
        let phrase = query("\"one two\" -\"x y\"");
        assert!(phrase.matches("one\r\n\ttwo") && !phrase.matches("two one"));
        assert!(!phrase.matches("one two x\ny"));
        assert!(query("a - b").matches("a - b") && !query("a - b").matches("a b"));
        assert!(query("-x y").matches("y"));
        for wrong in ["", "  ", "\"\"", "-x", "\"open"] {
            assert!(SearchQuery::parse(wrong, QueryOptions::default()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn row_75_hostile_patterns_are_linear_or_refused() {
        let regex = QueryOptions { regex: true, case: false };
        let parse = |text: &str| SearchQuery::parse(text, regex);
        let text = "a".repeat(200_000) + "!";
        for pattern in ["(a+)+$", "(a|aa)+$", "(.*)*b", r"(\w+\s?)*z"] {
            let begun = std::time::Instant::now();
            assert!(!parse(pattern).unwrap().matches(&text), "{pattern}");
            assert!(begun.elapsed().as_secs() < 20, "{pattern}");
        }
        for refused in ["a{1000}{1000}{1000}", "(", r"(a)\1", "(?=x)"] {
            assert!(parse(refused).is_err(), "{refused}");
        }
        assert!(parse(r"fo+\S").unwrap().matches("FOOx"));
        assert!(!parse(r"Fo+").unwrap().matches("foo"));
    }

    #[test]
    fn row_73_the_raw_test_knows_every_way_to_escape() {
        let holds = |text: &str, raw: &str| query(text).prefilter().may_hold(raw.as_bytes());
        for (text, raw) in [
            ("naïve", r#""na\u00efve""#),
            ("naïve", "\"naïve\""),
            ("日本", r#""\u65e5\u672C""#),
            ("日本", r#""{\"x\":\"\\u65E5\\u672c\"}""#),
            ("🦀", r#""\ud83e\udd80""#),
            ("🦀", r#""\uD83E\uDD80""#),
            ("é", r#""\u00C9""#),
            ("a/b", r#""a\/b""#),
            ("</script>", r#""\u003c\/script\u003e""#),
            ("say \"hi there\"", r#""SAY \"hi\nthere\"""#),
        ] {
            assert!(holds(text, raw), "{text} in {raw}");
        }
        assert!(!holds("needle", "hay") && !holds("日本", "\"中国\""));
    }

    #[test]
    fn overlapping_terms_are_one_mark() {
        let text = "abcd abc";
        assert_eq!(query("abc bcd").ranges_in(text), [0..4, 5..8]);
    }
}
