//! Percent-decoding, query strings and JSON bodies, made into the arguments of a command.
//!
//! Nothing here can become another option: a value stands behind its option's `=`, or behind `--`.

use std::ffi::{OsStr, OsString};

use serde_json::{Map, Value};

use super::reply::ApiFailure;
use super::route::{ApiRoute, FieldUse, RouteField, RouteFieldPlace};
use super::routes::RouteMatch;

/// What a segment or a value of a query says; `None` if it is not text, or holds a NUL.
pub(super) fn decode_percent(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// The command line that a request stands for, without the program's name.
pub(super) fn build_arguments(
    words: &[&str],
    found: &RouteMatch,
    query: Option<&str>,
    body: &[u8],
) -> Result<Vec<OsString>, ApiFailure> {
    let mut given: Map<String, Value> = read_body(found.route, body)?;
    read_query(found.route, query.unwrap_or_default(), &mut given)?;
    for (name, value) in &found.path {
        given.insert((*name).to_owned(), Value::String(value.clone()));
    }
    let asked = given.clone();
    let is_given = |name: &str| asked.contains_key(name);
    let is_set = |name: &str| asked.get(name) == Some(&Value::Bool(true));
    let mut options: Vec<OsString> = words.iter().map(Into::into).collect();
    let mut behind: Vec<OsString> = Vec::new();
    for field in found.route.fields {
        match given.remove(field.name) {
            None if field.required => {
                return Err(ApiFailure::usage(format!("`{}` is missing", field.name)));
            }
            None => match field.used {
                FieldUse::IdentityUnless(flag) if !is_set(flag) => {
                    return Err(ApiFailure::usage(format!("`{}` is missing", field.name)));
                }
                FieldUse::CountUnless(_, _, instead) if is_given(instead) => {}
                FieldUse::Count(option, most) | FieldUse::CountUnless(option, most, _) => {
                    options.push(format!("{option}={most}").into());
                }
                _ => {}
            },
            Some(value) => put_field(field, value, &mut options, &mut behind)?,
        }
    }
    if let Some(unknown) = given.keys().next() {
        return Err(ApiFailure::usage(format!("`{unknown}` is not known here")));
    }
    options.push("--json".into());
    if !behind.is_empty() {
        options.push("--".into());
        options.append(&mut behind);
    }
    Ok(options)
}

fn put_field(
    field: &RouteField,
    value: Value,
    options: &mut Vec<OsString>,
    behind: &mut Vec<OsString>,
) -> Result<(), ApiFailure> {
    let wrong = |what: &str| ApiFailure::usage(format!("`{}` must be {what}", field.name));
    match field.used {
        FieldUse::Own => {}
        FieldUse::Flag(option) => match value {
            Value::Bool(true) => options.push(option.into()),
            Value::Bool(false) => {}
            _ => return Err(wrong("true or false")),
        },
        FieldUse::Opt(option) => {
            let text = plain_text(&value).ok_or_else(|| wrong("text, a number or a list"))?;
            options.push(format!("{option}={text}").into());
        }
        FieldUse::Each(option) => {
            let values = value.as_array().ok_or_else(|| wrong("a list of texts"))?;
            for value in values {
                let text = value.as_str().filter(|text| !text.contains('\0'));
                let text = text.ok_or_else(|| wrong("a list of texts"))?;
                options.push(format!("{option}={text}").into());
            }
        }
        FieldUse::Count(option, most)
        | FieldUse::CountUnless(option, most, _)
        | FieldUse::UpTo(option, most) => {
            let count = plain_text(&value).and_then(|text| text.parse::<u32>().ok());
            let count = count.filter(|count| (1..=most).contains(count));
            let count = count.ok_or_else(|| wrong(&format!("a number from 1 to {most}")))?;
            options.push(format!("{option}={count}").into());
        }
        FieldUse::Exact => {
            let text = value.as_str().ok_or_else(|| wrong("text"))?;
            let word = check_word(field, text)?;
            behind.push([OsStr::new("="), &word].into_iter().collect());
        }
        FieldUse::Identity | FieldUse::IdentityUnless(_) => {
            let text = plain_text(&value).ok_or_else(|| wrong("text"))?;
            options.push(format!("--identity={text}").into());
        }
        FieldUse::Word => {
            let text = value.as_str().ok_or_else(|| wrong("text"))?;
            behind.push(check_word(field, text)?);
        }
        FieldUse::Words => {
            let Value::Array(words) = value else { return Err(wrong("a list of texts")) };
            for word in words {
                let word = word.as_str().ok_or_else(|| wrong("a list of texts"))?;
                behind.push(check_word(field, word)?);
            }
        }
    }
    Ok(())
}

/// Words that mean something else to a person at a terminal: standard input, this directory, the newest.
fn check_word(field: &RouteField, text: &str) -> Result<OsString, ApiFailure> {
    let is_relative = text == "-" || (text == "." && field.place == RouteFieldPlace::Path);
    if is_relative {
        return Err(ApiFailure::usage(format!("`{}` must not be `{text}`", field.name)));
    }
    if text.contains('\0') {
        return Err(ApiFailure::usage(format!("`{}` holds a NUL", field.name)));
    }
    Ok(text.into())
}

fn plain_text(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Array(items) => {
            let items: Option<Vec<String>> = items.iter().map(plain_text).collect();
            items?.join(",")
        }
        _ => return None,
    };
    (!text.contains('\0')).then_some(text)
}

fn read_body(route: &ApiRoute, body: &[u8]) -> Result<Map<String, Value>, ApiFailure> {
    if body.is_empty() {
        return Ok(Map::new());
    }
    let wrong = || ApiFailure::usage("the body must be one JSON object");
    let given: Map<String, Value> = serde_json::from_slice(body).map_err(|_| wrong())?;
    let is_known = |name: &str| {
        route.fields.iter().any(|field| field.place == RouteFieldPlace::Body && field.name == name)
    };
    match given.keys().find(|name| !is_known(name)) {
        Some(unknown) => Err(ApiFailure::usage(format!("`{unknown}` is not known here"))),
        None => Ok(given),
    }
}

fn read_query(
    route: &ApiRoute,
    query: &str,
    given: &mut Map<String, Value>,
) -> Result<(), ApiFailure> {
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let wrong = |reason: &str| ApiFailure::usage(format!("`{pair}`: {reason}"));
        let value = decode_percent(&value.replace('+', " "));
        let value = value.ok_or_else(|| wrong("the value is not text"))?;
        let field = route
            .fields
            .iter()
            .find(|field| field.place == RouteFieldPlace::Query && field.name == name)
            .ok_or_else(|| wrong("not known here"))?;
        let value = match field.used {
            FieldUse::Each(_) => {
                let values = given.entry(name).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(values) = values {
                    values.push(Value::String(value));
                }
                continue;
            }
            FieldUse::Flag(_) => match value.as_str() {
                "" | "true" | "1" => Value::Bool(true),
                "false" | "0" => Value::Bool(false),
                _ => return Err(wrong("true or false")),
            },
            _ => Value::String(value),
        };
        if given.insert(name.to_owned(), value).is_some() {
            return Err(wrong("given twice"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::route::RouteWork;
    use super::super::routes::match_route;
    use super::*;

    fn line(method: &str, target: &str, body: &str) -> Result<Vec<String>, ApiFailure> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let found = match_route(method, path).unwrap();
        let (RouteWork::Command(words) | RouteWork::Lines(words, _)) = found.route.work else {
            panic!("no command")
        };
        let built = build_arguments(words, &found, Some(query), body.as_bytes())?;
        Ok(built.into_iter().map(|word| word.into_string().unwrap()).collect())
    }

    #[test]
    fn row_31_a_request_is_a_command_line() {
        let show = line("GET", "/v1/sessions/claude-code%3Aab", "").unwrap();
        assert_eq!(show, ["show", "--json", "--", "=claude-code:ab"]);
        let ls = line("GET", "/v1/sessions?filter=is%3Awaiting+-x&limit=5&all", "").unwrap();
        assert_eq!(ls, ["ls", "--all", "--filter=is:waiting -x", "--limit=5", "--json"]);
        let keys = line("POST", "/v1/terminals/t/keys", r#"{"keys":["--help","Enter"]}"#).unwrap();
        assert_eq!(keys, ["send-keys", "--json", "--", "=t", "--help", "Enter"]);
        let kept = line("GET", "/v1/gc?keep=%2Fa%2Cb&keep=--yes", "").unwrap();
        assert_eq!(kept, ["gc", "--keep=/a,b", "--keep=--yes", "--json"]);
        let kept = line("POST", "/v1/gc", r#"{"planHash":"7c1e","keep":["/a,b","/c"]}"#).unwrap();
        assert_eq!(kept, ["gc", "--yes", "--plan=7c1e", "--keep=/a,b", "--keep=/c", "--json"]);
        let ended = line("POST", "/v1/sessions/a/finalize", r#"{"identity":"7:9"}"#).unwrap();
        assert_eq!(ended, ["finalize", "--identity=7:9", "--json", "--", "=a"]);
        let shown = line("POST", "/v1/sessions/a/finalize", r#"{"dryRun":true}"#).unwrap();
        assert_eq!(shown, ["finalize", "--dry-run", "--json", "--", "=a"]);
        let rows = line("GET", "/v1/sessions", "").unwrap();
        assert_eq!(rows, ["ls", "--limit=500", "--json"]);
    }

    #[test]
    fn a_conversation_and_a_search_are_never_asked_for_without_an_end() {
        let talk = |query: &str| line("GET", &format!("/v1/sessions/a/talk?{query}"), "");
        let options = |query: &str| talk(query).unwrap()[2..].join(" ");
        assert_eq!(options(""), "--limit=200 --json -- =a");
        assert_eq!(options("from=7"), "--from=7 --limit=200 --json -- =a");
        assert_eq!(options("from=7&limit=20"), "--from=7 --limit=20 --json -- =a");
        assert_eq!(options("last=100"), "--lines=100 --json -- =a");
        for query in ["limit=201", "limit=0", "last=201", "last=0", "last=x"] {
            assert!(talk(query).is_err(), "{query}");
        }
        let search = |limit: &str| line("GET", &format!("/v1/search?q=a{limit}"), "");
        assert_eq!(search("").unwrap(), ["search", "--stream", "--json", "--", "a"]);
        assert!(search("&limit=1000").is_ok());
        assert!(search("&limit=0").is_err() && search("&limit=1001").is_err());
    }

    #[test]
    fn row_40_no_value_becomes_an_option_or_standard_input() {
        let shown = line("GET", "/v1/sessions/--help/why", "").unwrap();
        assert_eq!(shown, ["why", "--json", "--", "=--help"]);
        for (method, target, body) in [
            ("GET", "/v1/sessions/-", ""),
            ("GET", "/v1/sessions/.", ""),
            ("GET", "/v1/sessions?limit=1&limit=2", ""),
            ("GET", "/v1/sessions?file=x", ""),
            ("GET", "/v1/sessions?limit=501", ""),
            ("GET", "/v1/sessions?limit=0", ""),
            ("GET", "/v1/sessions?limit=x", ""),
            ("GET", "/v1/sessions?all=perhaps", ""),
            ("GET", "/v1/search", ""),
            ("POST", "/v1/sessions/a/prompt", r#"{"text":"-"}"#),
            ("POST", "/v1/sessions/a/prompt", r#"{"text":1}"#),
            ("POST", "/v1/sessions/a/prompt", r#"{"text":"a","file":"/etc/passwd"}"#),
            ("POST", "/v1/sessions/a/prompt", r#"["text"]"#),
            ("POST", "/v1/sessions/a/prompt", "{"),
            ("POST", "/v1/sessions/a/prompt", ""),
            ("POST", "/v1/gc", "{}"),
            ("POST", "/v1/sessions/a/finalize", ""),
            ("POST", "/v1/sessions/a/finalize", r#"{"dryRun":false}"#),
            ("POST", "/v1/sessions/a/reveal", ""),
            ("POST", "/v1/gc", r#"{"planHash":"7c1e","keep":"/a"}"#),
        ] {
            assert!(line(method, target, body).is_err(), "{method} {target} {body}");
        }
    }
}
