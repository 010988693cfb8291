//! Errors as people read them: in one style, whoever worded them.

use super::Error;

impl Error {
    /// The thing and the reason, without the number that the system gives its reasons. Faults of terminals are
    /// worded as agent-tty words them, with a capital and a full stop that no other error has.
    pub(crate) fn to_sentence(&self) -> String {
        let message = without_system_number(&self.to_string());
        match self {
            Self::Terminal(_) => in_lower_case(message.strip_suffix('.').unwrap_or(&message)),
            _ => message,
        }
    }

    /// What can be done about a command line that was refused, where its error names nothing better.
    pub(crate) fn usage_hint(&self, command: &str) -> Option<String> {
        let is_usage = super::exit_number_of(self.stable_code()) == super::USAGE_EXIT;
        (is_usage && command != "ostler")
            .then(|| format!("`ostler {command} --help` shows how it is used"))
    }
}

/// `No such file or directory (os error 2)`: the number helps nobody who reads the words.
fn without_system_number(text: &str) -> String {
    const BEGINNING: &str = " (os error ";
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEGINNING) {
        let number = after.find(')').filter(|end| after[..*end].parse::<u32>().is_ok());
        plain.push_str(before);
        rest = match number {
            Some(end) => &after[end + 1..],
            None => {
                plain.push_str(BEGINNING);
                after
            }
        };
    }
    plain.push_str(rest);
    plain
}

/// A sentence that begins with a word in small letters, unless the word is a name or an abbreviation.
fn in_lower_case(text: &str) -> String {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if first.is_uppercase() && second.is_lowercase() => {
            first.to_lowercase().chain(text.chars().skip(1)).collect()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{in_lower_case, without_system_number};

    #[test]
    fn reasons_of_the_system_lose_their_number_and_nothing_else() {
        for (text, plain) in [
            (
                "cannot run `x`: No such file or directory (os error 2); give",
                "cannot run `x`: No such file or directory; give",
            ),
            ("a (os error 13) and b (os error 2)", "a and b"),
            ("a (os error x) (os error 7", "a (os error x) (os error 7"),
            ("nothing of the kind", "nothing of the kind"),
        ] {
            assert_eq!(without_system_number(text), plain);
        }
    }

    #[test]
    fn only_ordinary_words_lose_their_capital() {
        assert_eq!(in_lower_case("Text must not be empty"), "text must not be empty");
        assert_eq!(in_lower_case("RPC is not spoken"), "RPC is not spoken");
        assert_eq!(in_lower_case("`x` is no size"), "`x` is no size");
    }
}
