//! Does the text stand in the composer? The one question that is asked of an agent's screen.
//!
//! Blanks and frames are ignored, since a composer wraps a text and draws a box around it. What is asked
//! is always whether something is there *once more than before*, so that a text that was said earlier and
//! stands in the conversation above is not taken for the one that was pasted now.
//!
//! A question that opens after the paste may hold the text: the command it asks about, or words of its own. So a
//! text counts for nothing while a question shows that was not there before the paste.

/// How many characters of a text's beginning and end are looked for.
const SOUGHT_CHARS: usize = 24;

/// A text shorter than this is looked for as the whole content of a row: a digit or a `y` is found in
/// any dialog.
const SHORT_TEXT_CHARS: usize = 8;

/// From this length on an agent may show that something was pasted instead of the text.
const PLACEHOLDER_TEXT_BYTES: usize = 200;

/// How many rows below its first choice a question has its second one.
const CHOICE_SPAN: usize = 3;

/// What is looked for.
#[derive(Clone, Debug)]
pub(super) struct ComposedText {
    /// Beginning and end, or the one short text.
    sought: Vec<String>,
    whole_row: bool,
    placeholder: bool,
    /// The whole text without blanks.
    plain: String,
    /// Words by which a question of the agent's is known, and how often the text itself holds them.
    questions: Vec<(String, usize)>,
}

/// How often each thing that is looked for is on a screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SightCounts {
    sought: Vec<usize>,
    placeholders: usize,
    questions: Vec<usize>,
    choices: usize,
}

/// Where the text stands, by what is around it: the row that it ends in, the next one that is not empty,
/// and how many come after. A text that was taken stands elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ComposedSpot {
    row: String,
    next: String,
    below: usize,
}

impl ComposedText {
    /// `questions` are words by which a question of the agent's is known.
    pub(super) fn new(text: &str, questions: &[String]) -> Self {
        let plain = plain_chars(text);
        let whole_row = plain.len() < SHORT_TEXT_CHARS;
        let take = plain.len().min(SOUGHT_CHARS);
        let head: String = plain[..take].iter().collect();
        let tail: String = plain[plain.len() - take..].iter().collect();
        let sought = if head == tail { vec![head] } else { vec![head, tail] };
        let whole: String = plain.into_iter().collect();
        Self {
            sought: sought.into_iter().filter(|part| !part.is_empty()).collect(),
            whole_row,
            placeholder: text.len() >= PLACEHOLDER_TEXT_BYTES || text.trim().contains('\n'),
            questions: own_words(questions, &whole),
            plain: whole,
        }
    }

    /// Counts on a screen.
    pub(super) fn count(&self, rows: &[String]) -> SightCounts {
        let shown = PlainScreen::new(rows);
        SightCounts {
            sought: self.sought.iter().map(|part| self.places(&shown, part).len()).collect(),
            placeholders: if self.placeholder { placeholder_rows(rows).len() } else { 0 },
            questions: self.questions.iter().map(|(words, _)| shown.count(words)).collect(),
            choices: self.choice_rows(rows).len(),
        }
    }

    /// Where the text stands, if something of it is there once more than before, and no question is.
    pub(super) fn spot(&self, rows: &[String], before: &SightCounts) -> Option<ComposedSpot> {
        let shown = PlainScreen::new(rows);
        if self.shows_question(&shown, before) {
            return None;
        }
        let mut last = None;
        for (index, part) in self.sought.iter().enumerate() {
            let places = self.places(&shown, part);
            if places.len() > before.sought.get(index).copied().unwrap_or(0) {
                last = last.max(places.last().copied());
            }
        }
        if self.placeholder {
            let places = placeholder_rows(rows);
            if places.len() > before.placeholders {
                last = last.max(places.last().copied());
            }
        }
        let last = last?;
        // What is chosen from stands below what it is about, and above a composer.
        let choices = self.choice_rows(rows);
        let asks = choices.len() > before.choices || choices.iter().any(|row| *row >= last);
        (!asks).then(|| ComposedSpot::at(rows, last))
    }

    /// Whether a question may show: its words, or a list to choose from.
    pub(super) fn may_be_asked(&self, rows: &[String]) -> bool {
        let shown = PlainScreen::new(rows);
        let has_words = self.questions.iter().any(|(words, _)| shown.count(words) > 0);
        has_words || !self.choice_rows(rows).is_empty()
    }

    /// Whether anything shows that may be the text, wherever.
    pub(super) fn may_be_shown(&self, rows: &[String]) -> bool {
        let shown = PlainScreen::new(rows);
        let has_text = self.sought.iter().any(|part| !self.places(&shown, part).is_empty());
        has_text || (self.placeholder && !placeholder_rows(rows).is_empty())
    }

    /// Whether words of a question show more often than before, beside those that the text may bring.
    fn shows_question(&self, shown: &PlainScreen, before: &SightCounts) -> bool {
        self.questions.iter().enumerate().any(|(index, (words, own))| {
            shown.count(words) > before.questions.get(index).copied().unwrap_or(0) + own
        })
    }

    /// Rows with a mark before a numbered choice, of a list that is not the text's own.
    fn choice_rows(&self, rows: &[String]) -> Vec<usize> {
        let plain: Vec<(bool, String)> = rows.iter().map(|row| plain_choice(row)).collect();
        let is_foreign = |row: &str| is_numbered(row) && !self.plain.contains(row);
        let marked = plain.iter().enumerate().filter(|(at, (marked, row))| {
            let below = plain.iter().skip(at + 1).take(CHOICE_SPAN);
            let mut list = std::iter::once(row).chain(below.map(|(_, row)| row));
            *marked && is_numbered(row) && list.any(|row| is_foreign(row))
        });
        marked.map(|(at, _)| at).collect()
    }

    /// The rows in which each occurrence ends.
    fn places(&self, shown: &PlainScreen, part: &str) -> Vec<usize> {
        if self.whole_row {
            let rows = shown.by_row.iter().enumerate();
            return rows.filter(|(_, row)| *row == part).map(|(at, _)| at).collect();
        }
        let ends = shown.text.match_indices(part).map(|(at, found)| at + found.len() - 1);
        ends.map(|end| shown.row_at(end)).collect()
    }
}

impl ComposedSpot {
    fn at(rows: &[String], row: usize) -> Self {
        let mut below = rows[row + 1..].iter().filter(|row| !row.trim().is_empty());
        let next = below.next().cloned().unwrap_or_default();
        Self { row: rows[row].clone(), next, below: below.count() }
    }
}

/// A screen without blanks and frames.
struct PlainScreen {
    text: String,
    /// Where each row begins in the text.
    starts: Vec<usize>,
    /// Each row, without what marks a prompt.
    by_row: Vec<String>,
}

impl PlainScreen {
    fn new(rows: &[String]) -> Self {
        let (mut text, mut starts, mut by_row) = (String::new(), Vec::new(), Vec::new());
        for row in rows {
            starts.push(text.len());
            let plain = plain_chars(row);
            text.extend(&plain);
            by_row.push(plain.into_iter().skip_while(|c| PROMPT_MARKS.contains(c)).collect());
        }
        Self { text, starts, by_row }
    }

    fn count(&self, words: &str) -> usize {
        self.text.matches(words).count()
    }

    fn row_at(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at).saturating_sub(1)
    }
}

/// What stands before a text in a composer.
const PROMPT_MARKS: [char; 8] = ['>', '❯', '›', '$', '#', '*', '»', '▌'];

/// What stands before the choice that Enter takes.
const CHOICE_MARKS: [char; 8] = ['>', '❯', '›', '●', '→', '▶', '▸', '◉'];

fn plain_chars(text: &str) -> Vec<char> {
    text.chars().filter(|c| !is_frame(*c)).collect()
}

/// Words as they are looked for, and how often a text holds each.
fn own_words(words: &[String], plain: &str) -> Vec<(String, usize)> {
    let plain_words = words.iter().map(|words| plain_chars(words).into_iter().collect::<String>());
    let filled = plain_words.filter(|words| !words.is_empty());
    filled.map(|words| (words.clone(), plain.matches(&words).count())).collect()
}

/// A row without its mark, and whether it had one.
fn plain_choice(row: &str) -> (bool, String) {
    let plain: String = plain_chars(row).into_iter().collect();
    let bare = plain.trim_start_matches(CHOICE_MARKS);
    (bare.len() < plain.len(), bare.to_owned())
}

/// Whether a row begins with a small number and what follows one in a list.
fn is_numbered(row: &str) -> bool {
    let row = row.strip_prefix('[').unwrap_or(row);
    let rest = row.trim_start_matches(|c: char| c.is_ascii_digit());
    (1..=2).contains(&(row.len() - rest.len())) && rest.starts_with(['.', ')', ']', ':'])
}

/// Blanks, frames, and what has no width of its own.
fn is_frame(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || matches!(
            c,
            '|' | '\u{2500}'..='\u{259f}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{fe0e}'
                | '\u{fe0f}' | '\u{feff}'
        )
}

/// Rows that say that something was pasted.
fn placeholder_rows(rows: &[String]) -> Vec<usize> {
    let mut found = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let row = row.to_lowercase();
        for (start, word) in row.match_indices("paste") {
            let rest = &row[start + word.len()..];
            let rest = rest.strip_prefix('d').unwrap_or(rest);
            let ends = rest.chars().next().is_none_or(|c| !c.is_alphanumeric() && c != '_');
            if ends {
                found.push(at);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    fn composed(text: &str, before: &str, after: &str) -> bool {
        composed_beside(&[], text, before, after)
    }

    fn composed_beside(questions: &[&str], text: &str, before: &str, after: &str) -> bool {
        let questions: Vec<String> = questions.iter().map(|words| (*words).to_owned()).collect();
        let text = ComposedText::new(text, &questions);
        let before = text.count(&rows(before));
        text.spot(&rows(after), &before).is_some()
    }

    #[test]
    fn blanks_and_frames_do_not_matter() {
        let text = "please mend the parser and run all of its tests afterwards";
        let after = "╭──────────────────╮\n│ > please mend    │\n│   the parser and │\n│   run all of its │\n│   tests          │\n│   afterwards     │\n╰──────────────────╯";
        assert!(composed(text, "╭──╮\n│ > │\n╰──╯", after));
        // Only its end is shown.
        assert!(composed(text, "> ", "> …d run all of its tests afterwards"));
        assert!(!composed(text, "> ", "> please mend"));
    }

    #[test]
    fn what_was_said_before_is_not_the_paste() {
        let text = "go on with the next step please";
        let before = "> go on with the next step please\n\n> ";
        assert!(!composed(text, before, before));
        let after = "> go on with the next step please\n\n> go on with the next step please";
        assert!(composed(text, before, after));
    }

    #[test]
    fn row_9_a_short_text_is_not_found_in_a_dialog() {
        let dialog = "Do you want to run it?\n❯ 1. Yes\n  2. No (esc)";
        let later = "Do you want to run it? (11s)\n❯ 1. Yes\n  2. No (esc)";
        for text in ["1", "y", "no"] {
            assert!(!composed(text, dialog, later), "{text}");
        }
        assert!(composed("1", "│ > │", "│ > 1 │"));
    }

    #[test]
    fn row_09_a_question_that_holds_the_text_is_no_composer() {
        let before = "done\n> \n  ? for help";
        let asks = "Do you want to continue?\n  npm test\n  rm -rf build\n❯ 1. Yes\n  2. No (esc)";
        let bare = "Do you want to continue?\n  npm test\n  rm -rf build\n  Allow   Reject";
        for text in
            ["continue", "npm test", "rm -rf build", "want to continue", "1. Yes", "2. No (esc)"]
        {
            assert!(!composed(text, before, asks), "{text}: its choices tell it");
            assert!(!composed_beside(&["Do you want to"], text, before, bare), "{text}: its words");
            assert!(
                !composed_beside(&["Do you want to"], text, asks, asks),
                "{text}: it was there"
            );
            // One question after another: nothing is there more often.
            let other = asks.replace("rm -rf build", "ls").replace("npm test", "pwd");
            assert!(!composed(text, &other, asks), "{text}: in the place of another");
            let after = format!("done\n> {text}\n  ? for help");
            assert!(composed_beside(&["Do you want to"], text, before, &after), "{text}");
        }
    }

    #[test]
    fn row_09_a_text_may_be_a_list_or_ask_itself() {
        let list = "1. mend the parser\n2. run its tests";
        let after = "│ > 1. mend the parser │\n│   2. run its tests   │\n  ? for help";
        assert!(composed(list, "│ > │", after));
        let before = "Do you want to see more?\n> ";
        let text = "Do you want to mend the parser?";
        let words = ["Do you want to"];
        let after = "Do you want to see more?\n> Do you want to mend the parser?";
        assert!(composed_beside(&words, text, before, after));
        let asks =
            "Do you want to see more?\nDo you want to run it?\n Do you want to mend the parser?";
        assert!(!composed_beside(&words, text, before, asks));
        // A list that was said before stands above the composer.
        let said = "> 1. what I said\n 2. and this\n\n> ";
        assert!(composed(
            "go on with it",
            said,
            "> 1. what I said\n 2. and this\n\n> go on with it"
        ));
    }

    #[test]
    fn a_placeholder_stands_for_a_long_text_only() {
        let long = "line one\nline two\nline three of a longer text";
        assert!(composed(long, "> ", "> [Pasted text #1 +3 lines]"));
        assert!(!composed(long, "> [Pasted text #1]", "> [Pasted text #1]"));
        assert!(!composed(long, "> ", "> pastes pasteboard"));
        assert!(!composed("a short one here", "> ", "> [Pasted text #1]"));
    }

    #[test]
    fn a_text_that_was_taken_stands_elsewhere() {
        let text = ComposedText::new("mend the parser, please", &[]);
        let before = text.count(&rows("> "));
        let spot = |screen: &str| text.spot(&rows(screen), &before);
        let composed = spot("> mend the parser, please\n────\n ? help");
        assert!(composed.is_some());
        let taken = spot("> mend the parser, please\n\n* Working\n────\n> \n────\n ? help");
        assert!(taken.is_some() && taken != composed);
    }
}
