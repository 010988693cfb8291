//! What may stand behind the options that `ls` shares with other commands: agents, states, spans, filter words.

use std::path::{Path, PathBuf};
use std::time::Duration;

use model::filter::FilterWords;
use model::rules::attention::AttentionGroup;
use model::status::{Activity, Status};
use model::time::Time;

use super::StatusWord;
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

/// The word that was probably meant: the one with the fewest letters to change, at most a third.
pub(crate) fn nearest_word<'a>(text: &str, words: &[&'a str]) -> Option<&'a str> {
    let text: Vec<char> = text.to_lowercase().chars().take(64).collect();
    let near = words.iter().map(|word| (edit_distance(&text, word), *word)).min()?;
    (near.0 <= near.1.len().max(3) / 3).then_some(near.1)
}

/// How many letters to put in, take out, replace or swap with the next one (optimal string alignment).
pub(super) fn edit_distance(text: &[char], word: &str) -> usize {
    let word: Vec<char> = word.chars().collect();
    let mut rows = vec![(0..=text.len()).collect::<Vec<usize>>()];
    for (above, letter) in word.iter().enumerate() {
        let last = &rows[above];
        let mut row = vec![above + 1];
        for (index, own) in text.iter().enumerate() {
            let replaced = last[index] + usize::from(own != letter);
            let mut least = replaced.min(last[index + 1] + 1).min(row[index] + 1);
            let is_swapped = above > 0 && index > 0;
            if is_swapped && text[index - 1] == *letter && word[above - 1] == *own {
                least = least.min(rows[above - 1][index - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows.last().and_then(|row| row.last()).copied().unwrap_or(usize::MAX)
}

pub(super) fn parse_status(text: &str) -> Result<StatusWord, String> {
    match text {
        "alive" => return Ok(StatusWord::Alive),
        "dead" => return Ok(StatusWord::Dead),
        _ => {}
    }
    let words: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
    let found = Status::ALL.into_iter().find(|status| status.as_str() == text);
    found.map(StatusWord::Is).ok_or_else(|| format!("one of alive, dead, {}", words.join(", ")))
}

pub(super) fn parse_group(text: &str) -> Result<AttentionGroup, String> {
    let word = |group: AttentionGroup| group.as_str().replace(' ', "-");
    // What is done depends on when a person looked, which a list does not know.
    let known = AttentionGroup::ALL.into_iter().filter(|group| *group != AttentionGroup::Done);
    let words: Vec<String> = known.clone().map(word).collect();
    let found = known.into_iter().find(|group| word(*group) == text);
    found.ok_or_else(|| format!("one of {}", words.join(", ")))
}

pub(super) fn parse_activity(text: &str) -> Result<Activity, String> {
    let words: Vec<&str> = Activity::ALL.iter().map(|activity| activity.as_str()).collect();
    Activity::ALL
        .into_iter()
        .find(|activity| activity.as_str() == text)
        .ok_or_else(|| format!("one of {}", words.join(", ")))
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
