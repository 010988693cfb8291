//! A cleanup's preview against a plain parse of the same index.

use std::fmt::Write as _;
use std::path::Path;

use super::{Bound, clean, peak_megabytes, side_by_side};

/// How many entries the store has; about 1.45 KB each, as they are in the field without prompts.
const ENTRIES: usize = 10_000;

pub(super) fn measure(ostler: &Path, directory: &Path, runs: usize) -> Result<Vec<Bound>, String> {
    let floor = crate::install::build_example("ostler-model", "parse")?;
    let home = std::path::absolute(directory.join("store")).map_err(|error| error.to_string())?;
    let _ = std::fs::remove_dir_all(&home);
    let sessions = home.join(".openclaw/agents/main/sessions");
    let failed = |error: std::io::Error| error.to_string();
    std::fs::create_dir_all(&sessions).map_err(failed)?;
    let index = index();
    let megabytes = index.len() as f64 / 1e6;
    let path = sessions.join("sessions.json");
    std::fs::write(&path, &index).map_err(failed)?;
    for number in 0..ENTRIES {
        let transcript = sessions.join(format!("session-{number}.jsonl"));
        std::fs::write(transcript, "{\"type\":\"session\"}\n").map_err(failed)?;
    }
    let preview = |extra: &[&str]| {
        let mut command = clean(ostler, &home);
        command.args(["store", "cleanup", "--dry-run", "--json"]).args(extra);
        command
    };
    let mut parse = clean(&floor, &home);
    parse.arg(&path);
    let mut ls = clean(ostler, &home);
    ls.args(["store", "ls", "--json"]);
    let commands = [parse, preview(&[]), preview(&["--all"]), ls];
    let [floor, few, all, ls] = side_by_side(runs, commands)?;
    eprintln!(
        "{ENTRIES} entries, {megabytes:.1} MB: parse {floor:?}, preview {few:?}, with what stays \
         {all:?}, ls {ls:?}"
    );
    let ratio = |what: &str, time: std::time::Duration| Bound {
        what: format!("store {what}, {ENTRIES} entries, against a plain parse"),
        measured: time.as_secs_f64() / floor.as_secs_f64(),
        limit: Some(3.0),
        unit: "x",
    };
    let memory = |what: &str, megabytes_used: f64| Bound {
        what: format!("peak memory of store {what}, against the size of the index"),
        measured: megabytes_used / megabytes,
        limit: Some(6.0),
        unit: "x",
    };
    Ok(vec![
        ratio("cleanup --dry-run --json", few),
        ratio("cleanup --dry-run --json --all", all),
        ratio("ls --json", ls),
        memory("cleanup --dry-run --json", peak_megabytes(&preview(&[]))?),
        memory("cleanup --dry-run --json --all", peak_megabytes(&preview(&["--all"]))?),
    ])
}

/// An index as OpenClaw writes it; half of its entries are old, and there are too many.
fn index() -> String {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis());
    let mut text = String::from("{");
    let words =
        "a line of the report on the system prompt, with tools and their sizes; ".repeat(15);
    for number in 0..ENTRIES {
        let comma = if number == 0 { "" } else { "," };
        let updated = now.saturating_sub(number as u128 * 500_000);
        let _ = write!(
            text,
            "{comma}\n  \"agent:main:whatsapp:direct:+49{number:08}\": {{\n    \"sessionId\": \
             \"session-{number}\",\n    \"updatedAt\": {updated},\n    \"status\": \"done\",\n    \
             \"chatType\": \"direct\",\n    \"model\": \"claude-opus-5-5\",\n    \
             \"modelProvider\": \"anthropic\",\n    \"totalTokens\": {number},\n    \
             \"contextTokens\": 200000,\n    \"origin\": {{ \"chatType\": \"direct\" }},\n    \
             \"systemPromptReport\": {{ \"text\": \"{words}\" }}\n  }}"
        );
    }
    text.push_str("\n}");
    text
}
