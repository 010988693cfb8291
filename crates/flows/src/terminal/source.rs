//! Where text for a terminal comes from: the command line, a file, or standard input.

use std::io::Read;
use std::path::Path;

use host::screen::Personality;
use model::hosted::Fault;
use sys::private::PrivateError;

/// The largest text that is read.
pub const LARGEST: u64 = 10_000_000;

/// Takes the text from where it was put. `what` is the word for it in messages.
pub fn text(
    what: &str,
    given: Option<&str>,
    file: Option<&Path>,
    personality: Personality,
) -> Result<String, Fault> {
    match (given, file) {
        (Some(_), Some(_)) => {
            let message =
                format!("A positional <{what}> argument and --file are mutually exclusive.");
            Err(Fault::input(message))
        }
        (None, None) => {
            let message =
                format!("Provide either a positional <{what}> argument or --file <path>.");
            Err(Fault::input(message))
        }
        (Some("-"), None) if personality == Personality::Ostler => read("-", std::io::stdin()),
        (Some(""), None) => Err(Fault::input(format!("{} must not be empty.", capital(what)))),
        (Some(text), None) => Ok(text.to_owned()),
        (None, Some(path)) if path.as_os_str() == "-" && personality == Personality::Ostler => {
            read("-", std::io::stdin())
        }
        (None, Some(path)) => from_file(path),
    }
}

fn from_file(path: &Path) -> Result<String, Fault> {
    let shown = path.display();
    let file = sys::private::open_regular(path).map_err(|error| match &error {
        PrivateError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Fault::input(format!("the file `{shown}` was not found"))
        }
        _ => Fault::input(format!("the file `{shown}` is not a regular file that can be read")),
    })?;
    read(&shown.to_string(), file)
}

fn read(name: &str, from: impl Read) -> Result<String, Fault> {
    let mut bytes = Vec::new();
    from.take(LARGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Fault::input(format!("`{name}` cannot be read: {error}")))?;
    if bytes.len() as u64 > LARGEST {
        return Err(Fault::input(format!("`{name}` is larger than {LARGEST} bytes")));
    }
    if bytes.is_empty() {
        return Err(Fault::input(format!("`{name}` must not be empty.")));
    }
    String::from_utf8(bytes).map_err(|_| Fault::input(format!("`{name}` is not UTF-8 text")))
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}
