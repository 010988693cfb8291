//! Foreign text on a terminal: escaped, measured, cut.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Makes text from other programs safe to print: control characters, escape sequences and
/// characters that turn the direction of writing are shown as escapes; line breaks and tabs
/// become spaces.
pub(crate) fn one_line(text: &str) -> String {
    escape_unsafe(text, |c, out| {
        let is_blank = matches!(c, '\n' | '\r' | '\t');
        if is_blank {
            out.push(' ');
        }
        is_blank
    })
}

/// As [`one_line`], but lines stay lines.
pub(crate) fn many_lines(text: &str) -> String {
    escape_unsafe(text, |c, out| {
        if matches!(c, '\n' | '\t') {
            out.push(c);
        }
        matches!(c, '\n' | '\t' | '\r')
    })
}

/// JSON as it may be shown on a terminal: what would act on it or hide in it is written `\uXXXX`,
/// which means the same to every reader of JSON. Such characters stand only in strings there.
pub(crate) fn json_for_terminal(json: &str) -> String {
    use std::fmt::Write;

    let mut out = String::with_capacity(json.len());
    let mut before = ' ';
    for c in json.chars() {
        if c != '\n' && is_unsafe(c, before) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a text cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
        before = c;
    }
    out
}

/// Escapes every unsafe character that `take` does not take care of.
fn escape_unsafe(text: &str, take: impl Fn(char, &mut String) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    for c in text.chars() {
        if !take(c, &mut out) {
            match is_unsafe(c, before) {
                true => out.extend(c.escape_unicode()),
                false => out.push(c),
            }
        }
        before = c;
    }
    out
}

/// Whether a character acts on the terminal (controls), turns the direction of writing, breaks the
/// line, or shows nothing and can hide text in text. A joiner stays where letters or pictures need
/// it: after one that is not ASCII.
fn is_unsafe(c: char, before: char) -> bool {
    match c {
        '\u{200c}' | '\u{200d}' => before.is_ascii(),
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}' => {
            true
        }
        '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}' => true,
        '\u{e0000}'..='\u{e0fff}' => true,
        c => c.is_control(),
    }
}

/// How many columns a terminal uses for the text.
pub(crate) fn display_width(text: &str) -> usize {
    text.graphemes(true).map(UnicodeWidthStr::width).sum()
}

/// Cuts the text to `columns`, with an ellipsis where something was lost. What a person sees as
/// one character is never cut in two.
pub(crate) fn cut_right(text: &str, columns: usize) -> String {
    if display_width(text) <= columns {
        return text.to_owned();
    }
    if columns == 0 {
        return String::new();
    }
    let mut out = String::new();
    let mut used = 0;
    for grapheme in text.graphemes(true) {
        let next = UnicodeWidthStr::width(grapheme);
        if used + next > columns - 1 {
            break;
        }
        out.push_str(grapheme);
        used += next;
    }
    out.push('…');
    out
}

/// Cuts a path in the middle, where it says least: its end names the project, its beginning whose it is.
pub(crate) fn cut_middle(text: &str, columns: usize) -> String {
    if display_width(text) <= columns {
        return text.to_owned();
    }
    if columns == 0 {
        return String::new();
    }
    let width = |grapheme: &&str| UnicodeWidthStr::width(*grapheme);
    let (mut head, mut used) = (String::new(), 0);
    for grapheme in text.graphemes(true) {
        used += width(&grapheme);
        if used > (columns - 1) / 3 {
            break;
        }
        head.push_str(grapheme);
    }
    let room = columns - 1 - display_width(&head);
    let (mut tail, mut used): (Vec<&str>, usize) = (Vec::new(), 0);
    for grapheme in text.graphemes(true).rev() {
        used += width(&grapheme);
        if used > room {
            break;
        }
        tail.push(grapheme);
    }
    head.push('…');
    head.extend(tail.into_iter().rev());
    head
}

/// Breaks a line between words so that it fits, every further line moved in. A word that does not fit
/// stays whole: it may be a path that is copied.
pub(crate) fn wrap_words(text: &str, columns: Option<usize>, indent: &str) -> String {
    let Some(columns) = columns else { return text.to_owned() };
    let mut out = String::with_capacity(text.len());
    let mut used = 0;
    for (index, word) in text.split(' ').enumerate() {
        let width = display_width(word);
        if index > 0 && used + 1 + width > columns && used > indent.len() {
            out.push('\n');
            out.push_str(indent);
            used = indent.len();
        } else if index > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += width;
    }
    out
}

/// A path as people write it: their home is `~`.
pub(crate) fn home_as_tilde(path: &str) -> String {
    let home = crate::env::home_dir().filter(|home| home.is_absolute() && home.parent().is_some());
    let below =
        home.and_then(|home| Some(std::path::Path::new(path).strip_prefix(home).ok()?.to_owned()));
    match below {
        Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Some(below) => format!("~/{}", below.display()),
        None => path.to_owned(),
    }
}

/// Our own signs, for a terminal that has no others than ASCII. Each stays one column wide.
pub(crate) fn for_locale(text: String) -> String {
    if text.is_ascii() || !crate::env::is_ascii_locale() {
        return text;
    }
    let plain = |c| match c {
        '•' => '*',
        '▲' => '!',
        '●' => '*',
        '→' | '↳' => '>',
        '⇄' => '=',
        '…' => '.',
        '·' | '–' => '-',
        other => other,
    };
    text.chars().map(plain).collect()
}

/// Bytes as people read them.
pub(crate) fn format_bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KB", "MB", "GB", "TB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 || value >= 99.95 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// A number of things: `1 thing`, `2 things`.
pub(crate) fn format_plural(count: u64, thing: &str) -> String {
    plural_of(count, thing, &format!("{thing}s"))
}

/// A number of things that have a plural of their own: `1 entry`, `2 entries`.
pub(crate) fn plural_of(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// A count as people read it: `950`, `12.3k`, `4.5M`.
pub(crate) fn format_count(count: u64) -> String {
    match count {
        0..1000 => count.to_string(),
        1000..1_000_000 => format!("{:.1}k", count as f64 / 1e3),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_cannot_reach_the_terminal() {
        assert_eq!(one_line("a\x1b[31mb\nc\x07\u{202e}d"), "a\\u{1b}[31mb c\\u{7}\\u{202e}d");
        assert_eq!(many_lines("a\r\n\tb\u{9b}"), "a\n\tb\\u{9b}");
    }

    #[test]
    fn m10_what_hides_or_turns_text_is_shown() {
        let hidden =
            ['\u{200b}', '\u{200d}', '\u{2060}', '\u{ad}', '\u{e0041}', '\u{202e}', '\u{2028}'];
        for c in hidden {
            assert_eq!(one_line(&format!("a{c}b")), format!("a{}b", c.escape_unicode()));
        }
        assert_eq!(one_line("👩‍👧 می‌خواهم ❤️"), "👩‍👧 می‌خواهم ❤️", "joiners where they belong");
    }

    #[test]
    fn m10_json_on_a_terminal_means_the_same() {
        let value =
            serde_json::json!({"a": "\u{9b}31m \u{202e} \u{2028} \u{e0041} \u{7f} é", "b": ["\n"]});
        let shown = json_for_terminal(&serde_json::to_string_pretty(&value).unwrap());
        assert!(
            shown.contains("\\u009b") && shown.contains("\\udb40\\udc41") && shown.contains('é')
        );
        assert!(shown.chars().all(|c| c == '\n' || !c.is_control()));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    #[test]
    fn text_is_cut_by_columns_and_never_inside_a_character() {
        assert_eq!(cut_right("日本語テキスト", 7), "日本語…");
        assert_eq!(display_width(&cut_right("日本語テキスト", 6)), 5);
        assert_eq!(cut_right("👩‍👩‍👧‍👦 family", 4), "👩‍👩‍👧‍👦 …");
        assert_eq!(cut_right("short", 5), "short");
        assert_eq!(cut_right("longer", 5), "long…");
        assert_eq!(cut_middle("/home/user/code/project", 14), "/hom…e/project");
        assert_eq!(cut_middle("日本語テキスト", 7), "日…スト");
        assert_eq!(cut_middle("x", 0), "");
        assert_eq!(cut_right("x", 0), "");
    }

    #[test]
    fn lines_are_wrapped_between_words() {
        assert_eq!(wrap_words("one two three", Some(8), "  "), "one two\n  three");
        assert_eq!(
            wrap_words("a  bb /a/very/long/path x", Some(6), " "),
            "a  bb\n /a/very/long/path\n x"
        );
        assert_eq!(wrap_words("one two", None, "  "), "one two");
        assert_eq!(wrap_words("日本語 日本語", Some(8), " "), "日本語\n 日本語");
    }

    #[test]
    fn sizes_are_short() {
        let sizes = [0, 999, 1000, 12_345, 999_949, 1_500_000_000, 472_000_000_000];
        let words: Vec<String> = sizes.iter().map(|&size| format_bytes(size)).collect();
        assert_eq!(words, ["0 B", "999 B", "1.0 KB", "12.3 KB", "1.0 MB", "1.5 GB", "472 GB"]);
    }
}
