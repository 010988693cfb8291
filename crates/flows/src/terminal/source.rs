//! Where text for a terminal comes from: the command line, a file, or standard input.

use std::io::Read;
use std::path::Path;

use host::screen::Personality;
use model::hosted::HostFault;
use sys::private::PrivateError;

/// The largest text that is read.
pub const MAX_TEXT_BYTES: u64 = 10_000_000;

/// Takes the text from where it was put. `what` is the word for it in messages.
pub fn read_text(
    what: &str,
    given: Option<&str>,
    file: Option<&Path>,
    personality: Personality,
) -> Result<String, HostFault> {
    match (given, file) {
        (Some(_), Some(_)) => {
            let message =
                format!("A positional <{what}> argument and --file are mutually exclusive.");
            Err(HostFault::invalid_input(message))
        }
        (None, None) => {
            let message =
                format!("Provide either a positional <{what}> argument or --file <path>.");
            Err(HostFault::invalid_input(message))
        }
        (Some("-"), None) if personality == Personality::Ostler => {
            read_limited("-", std::io::stdin())
        }
        (Some(""), None) => {
            Err(HostFault::invalid_input(format!("{} must not be empty.", capitalize_word(what))))
        }
        (Some(text), None) => Ok(text.to_owned()),
        (None, Some(path)) if path.as_os_str() == "-" && personality == Personality::Ostler => {
            read_limited("-", std::io::stdin())
        }
        (None, Some(path)) => from_file(path),
    }
}

fn from_file(path: &Path) -> Result<String, HostFault> {
    let shown = path.display();
    let file = sys::private::open_regular(path).map_err(|error| match &error {
        PrivateError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            HostFault::invalid_input(format!("the file `{shown}` was not found"))
        }
        _ => HostFault::invalid_input(format!(
            "the file `{shown}` is not a regular file that can be read"
        )),
    })?;
    read_limited(&shown.to_string(), file)
}

fn read_limited(name: &str, from: impl Read) -> Result<String, HostFault> {
    let mut bytes = Vec::new();
    from.take(MAX_TEXT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| HostFault::invalid_input(format!("`{name}` cannot be read: {error}")))?;
    if bytes.len() as u64 > MAX_TEXT_BYTES {
        return Err(HostFault::invalid_input(format!(
            "`{name}` is larger than {MAX_TEXT_BYTES} bytes"
        )));
    }
    if bytes.is_empty() {
        return Err(HostFault::invalid_input(format!("`{name}` must not be empty.")));
    }
    String::from_utf8(bytes)
        .map_err(|_| HostFault::invalid_input(format!("`{name}` is not UTF-8 text")))
}

fn capitalize_word(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}
