//! What must be true of ostler's answers, as pure functions over its JSON: each says nothing if
//! all is well, or what was expected and what was found.

use std::path::PathBuf;

use serde_json::Value;

use super::model_server::{USAGE_INPUT, USAGE_OUTPUT};

/// A session that the lab made.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) agent: &'static str,
    pub(crate) prompt: String,
    /// Stated by the agent itself, if it does.
    pub(crate) id: Option<String>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) model: String,
    /// Model requests that belong to this session.
    pub(crate) requests: u64,
    pub(crate) turns: u64,
    /// A title that the model made up instead of the prompt.
    pub(crate) made_title: Option<&'static str>,
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

/// The sessions of a listing.
pub(crate) fn sessions(listing: &Value) -> &[Value] {
    listing["sessions"].as_array().map_or(&[], Vec::as_slice)
}

/// The one session of this agent that is not among `known`.
pub(crate) fn newest<'a>(
    listing: &'a Value,
    agent: &str,
    known: &[String],
) -> Result<&'a Value, String> {
    let is_new =
        |s: &&Value| text(s, "/agent") == agent && !known.iter().any(|id| id == text(s, "/id"));
    let found: Vec<&Value> = sessions(listing).iter().filter(is_new).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => Err(format!("no new {agent} session among {} listed", sessions(listing).len())),
        many => {
            let ids: Vec<&str> = many.iter().map(|s| text(s, "/id")).collect();
            Err(format!("{} new {agent} sessions instead of one: {}", ids.len(), ids.join(" ")))
        }
    }
}

/// Nothing was left out, and nothing is listed but the `known` sessions, which are all that were
/// `made`.
pub(crate) fn only(listing: &Value, known: &[String], made: usize) -> Result<(), String> {
    let incomplete = listing["incomplete"].as_array().map_or(0, Vec::len);
    if incomplete > 0 {
        return Err(format!("incomplete: {}", listing["incomplete"]));
    }
    let strange = |s: &&Value| !known.iter().any(|id| id == text(s, "/id"));
    let phantoms: Vec<String> = sessions(listing)
        .iter()
        .filter(strange)
        .map(|s| format!("{} {}", text(s, "/agent"), text(s, "/id")))
        .collect();
    if !phantoms.is_empty() {
        return Err(format!("phantom sessions: {}", phantoms.join(", ")));
    }
    let listed = sessions(listing).len();
    if listed != made {
        return Err(format!("{made} sessions were made, {listed} are listed"));
    }
    Ok(())
}

/// Status, liveness and activity of one session; an empty expectation is not looked at.
pub(crate) fn state(
    session: &Value,
    status: &str,
    liveness: &str,
    activity: &str,
) -> Result<(), String> {
    for (pointer, expected) in
        [("/status", status), ("/liveness/state", liveness), ("/activity", activity)]
    {
        if !expected.is_empty() && text(session, pointer) != expected {
            let reason = text(session, "/liveness/reason");
            return Err(format!(
                "{pointer} is {:?}, expected {expected:?} (status {:?}, liveness {:?} {reason}, activity {:?})",
                text(session, pointer),
                text(session, "/status"),
                text(session, "/liveness/state"),
                text(session, "/activity"),
            ));
        }
    }
    Ok(())
}

/// What is known about a finished session: every difference is named.
pub(crate) fn facts(session: &Value, made: &Made) -> Result<(), String> {
    let mut wrong = Vec::new();
    let mut expect = |what: &str, found: &str, expected: &str| {
        if found != expected {
            wrong.push(format!("{what}: expected {expected:?}, found {found:?}"));
        }
    };
    if let Some(id) = &made.id {
        expect("id", text(session, "/id"), id);
    }
    expect("agent", text(session, "/agent"), made.agent);
    if let Some(cwd) = &made.cwd {
        expect("cwd", text(session, "/cwd"), &cwd.to_string_lossy());
    }
    expect("model", text(session, "/model"), &made.model);
    let title = text(session, "/title");
    let short: String = made.prompt.chars().take(200).collect();
    if made.made_title != Some(title) {
        expect("title", title, &short);
    }
    let number = |pointer: &str| session.pointer(pointer).and_then(Value::as_u64);
    for (what, expected) in [
        ("/tokens/input", made.requests * USAGE_INPUT),
        ("/tokens/output", made.requests * USAGE_OUTPUT),
        ("/turns", made.turns),
    ] {
        let found = number(what).map_or("nothing".to_owned(), |n| n.to_string());
        expect(what.trim_start_matches('/'), &found, &expected.to_string());
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

/// The log of a session holds the prompt and, apart from it, the answer.
pub(crate) fn log(texts: &[String], prompt: &str, answer: &str) -> Result<(), String> {
    if !texts.iter().any(|text| text.contains(prompt)) {
        return Err(format!("the prompt is not in the log ({} texts)", texts.len()));
    }
    // The prompt tells the model what to say, so the answer must be found elsewhere.
    let apart = |text: &&String| text.contains(answer) && !text.contains("[[say:");
    if !texts.iter().any(|text| apart(&text)) {
        return Err("the answer is not in the log".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn session() -> Value {
        json!({ "id": "a", "agent": "pi", "status": "running", "activity": "working",
                "liveness": { "state": "alive", "reason": "running" }, "cwd": "/r",
                "title": "hi", "model": "m", "turns": 1, "tokens": { "input": 1234, "output": 56 } })
    }

    fn made() -> Made {
        Made {
            agent: "pi",
            prompt: "hi".into(),
            id: Some("a".into()),
            cwd: Some("/r".into()),
            model: "m".into(),
            requests: 1,
            turns: 1,
            made_title: None,
        }
    }

    #[test]
    fn facts_name_every_difference() {
        assert_eq!(facts(&session(), &made()), Ok(()));
        let other = Made { requests: 2, prompt: "ho".into(), ..made() };
        let said = facts(&session(), &other).unwrap_err();
        assert!(
            said.contains("title") && said.contains("tokens/input: expected \"2468\""),
            "{said}"
        );
        assert!(facts(&json!({}), &made()).unwrap_err().contains("found \"nothing\""));
    }

    #[test]
    fn states_are_compared_where_expected() {
        assert_eq!(state(&session(), "running", "alive", "working"), Ok(()));
        assert_eq!(state(&session(), "running", "", ""), Ok(()));
        assert!(state(&session(), "exited", "", "").unwrap_err().contains("/status"));
    }

    #[test]
    fn phantoms_and_losses_are_seen() {
        let listing = json!({ "sessions": [session()], "incomplete": [] });
        assert!(newest(&listing, "pi", &[]).is_ok());
        assert!(newest(&listing, "pi", &["a".into()]).is_err());
        assert_eq!(only(&listing, &["a".into()], 1), Ok(()));
        assert!(only(&listing, &[], 0).unwrap_err().contains("phantom"));
        assert!(
            only(&listing, &["a".into(), "b".into()], 2)
                .unwrap_err()
                .contains("2 sessions were made")
        );
    }

    #[test]
    fn the_answer_must_be_apart_from_the_prompt() {
        let prompt = "p [[say:yes]]".to_owned();
        assert!(log(std::slice::from_ref(&prompt), &prompt, "yes").is_err());
        assert_eq!(log(&[prompt.clone(), "yes".into()], &prompt, "yes"), Ok(()));
    }
}
