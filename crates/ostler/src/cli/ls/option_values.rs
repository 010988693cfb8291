//! What may stand behind the options that `ls` shares with other commands: agents, states, spans, filter words.

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::filter::FilterWords;
use model::rules::attention::AttentionGroup;
use model::status::{Activity, Status};
use model::time::Time;

use super::StatusWord;
use crate::cli::usage_error::nearest_word;
use crate::error::Error;
use crate::render::duration;

/// An agent that there is, by its id or the name people use, or what there is.
pub(crate) fn parse_agent(text: &str) -> Result<String, String> {
    if flows::is_agent(text) || text == access::rules::ACCESS_AGENT_NAME {
        return Ok(text.to_owned());
    }
    if let Some(agent) = flows::agent_named(text) {
        return Ok(agent.to_owned());
    }
    let known: Vec<&str> = flows::adapter_ids().collect();
    let listed = known.join(", ");
    Err(match nearest_word(text, &known) {
        Some(near) => format!("no such agent; did you mean `{near}`? there are: {listed}"),
        None => format!("no such agent; there are: {listed}"),
    })
}

pub(super) fn parse_status(text: &str) -> Result<StatusWord, String> {
    match text {
        "alive" => return Ok(StatusWord::Alive),
        "dead" => return Ok(StatusWord::Dead),
        _ => {}
    }
    let words: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
    let found = Status::ALL.into_iter().find(|status| status.as_str() == text);
    let words = [&["alive", "dead"], words.as_slice()].concat();
    found.map(StatusWord::Is).ok_or_else(|| name_choices(text, &words))
}

pub(super) fn parse_group(text: &str) -> Result<AttentionGroup, String> {
    let word = |group: AttentionGroup| group.as_str().replace(' ', "-");
    // What is done depends on when a person looked, which a list does not know.
    let known = AttentionGroup::ALL.into_iter().filter(|group| *group != AttentionGroup::Done);
    let words: Vec<String> = known.clone().map(word).collect();
    let found = known.into_iter().find(|group| word(*group) == text);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    found.ok_or_else(|| name_choices(text, &words))
}

/// What may stand there, and which of it was probably meant.
fn name_choices(text: &str, words: &[&str]) -> String {
    let listed = words.join(", ");
    match nearest_word(text, words) {
        Some(near) => format!("did you mean `{near}`? one of {listed}"),
        None => format!("one of {listed}"),
    }
}

pub(super) fn parse_activity(text: &str) -> Result<Activity, String> {
    let words: Vec<&str> = Activity::ALL.iter().map(|activity| activity.as_str()).collect();
    Activity::ALL
        .into_iter()
        .find(|activity| activity.as_str() == text)
        .ok_or_else(|| name_choices(text, &words))
}

pub(super) fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if !(0.2..=86_400.0).contains(&seconds) {
        return Err("between 0.2 and 86400 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// The directory that `--cwd` names, links resolved where it is there.
pub(crate) fn absolute_directory(cwd: Option<&Path>) -> Result<Option<PathBuf>, Error> {
    let absolute = |path: &Path| {
        let path = std::fs::canonicalize(path).or_else(|_| std::path::absolute(path));
        path.map_err(|error| {
            Error::usage_error(format!("`--cwd` cannot be used: {error}"), "name a directory")
        })
    };
    cwd.map(absolute).transpose()
}

/// The time that `--since` names: a span before `now`, or itself.
pub(crate) fn parse_since(since: Option<&str>, now: Time) -> Result<Option<Time>, Error> {
    let Some(text) = since else {
        return Ok(None);
    };
    let time =
        duration::parse_duration(text).map(|span| now.minus(span)).or_else(|| Time::parse(text));
    time.map(Some).ok_or_else(|| {
        Error::usage_error(
            format!("`--since {text}` is neither a span nor a time"),
            "write it like 2h, 3d or 2026-11-15T12:00:00Z",
        )
    })
}

/// The words of `--filter`.
pub(crate) fn parse_filter(filter: Option<&str>, now: Time) -> Result<FilterWords, Error> {
    FilterWords::parse(filter.unwrap_or_default(), now).map_err(|error| {
        Error::usage_error(
            format!("`--filter` cannot be understood: {error}"),
            "words, is:waiting, agent:, project:, branch:, model:, since:2d, tokens:>1M, cost:>1, \
             -word",
        )
    })
}
