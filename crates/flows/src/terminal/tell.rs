//! A hosted session's log as a conversation: what was typed, and what came of it.

use std::io;
use std::path::Path;

use model::conversation::{Entry, Role};
use model::hosted::{Fact, Payload};
use model::time::Time;

/// How much output is one entry at most.
const LONGEST: usize = 64 << 10;

/// Tells the log that begins at `position` and gives where it ends. Output that follows output is one
/// entry, as text.
pub fn converse(directory: &Path, position: u64, say: &mut dyn FnMut(Entry)) -> io::Result<u64> {
    let mut reader = host::log::Reader::open_anywhere(directory, position)?;
    let mut output: Option<(Time, Vec<u8>)> = None;
    let flush = |output: &mut Option<(Time, Vec<u8>)>, say: &mut dyn FnMut(Entry)| {
        if let Some((at, bytes)) = output.take() {
            say(entry(Role::Result, at, None, host::plain_text(&bytes)));
        }
    };
    while let Some(event) = reader.next_event()? {
        let fact = match event.payload {
            Payload::Output(bytes) => {
                let (_, gathered) = output.get_or_insert_with(|| (event.at, Vec::new()));
                gathered.extend_from_slice(bytes);
                if gathered.len() > LONGEST {
                    flush(&mut output, say);
                }
                continue;
            }
            Payload::Fact(fact) => fact,
        };
        flush(&mut output, say);
        let (role, tool, text) = match fact {
            Fact::InputText { data } | Fact::InputPaste { data } => (Role::User, None, data),
            Fact::InputKeys { keys } => (Role::User, None, keys.join(" ")),
            Fact::InputRun { command, .. } => (Role::User, Some("run"), command),
            Fact::Marker { label } => (Role::System, Some("mark"), label),
            Fact::Resize { cols, rows } => (Role::System, Some("resize"), format!("{cols}x{rows}")),
            Fact::Signal { signal } => (Role::System, Some("signal"), signal),
            Fact::Gap { bytes, reason, .. } => {
                (Role::System, Some("gap"), format!("{bytes} bytes missing: {reason}"))
            }
            Fact::Exit { exit_code, exit_signal } => {
                let how = match (exit_code, exit_signal) {
                    (_, Some(signal)) => format!("signal {signal}"),
                    (Some(code), None) => format!("code {code}"),
                    (None, None) => "unknown".to_owned(),
                };
                (Role::System, Some("exit"), how)
            }
            Fact::RunComplete { .. } => continue,
        };
        say(entry(role, event.at, tool, text));
    }
    flush(&mut output, say);
    Ok(reader.offset())
}

fn entry(role: Role, at: Time, tool: Option<&str>, text: String) -> Entry {
    Entry { role, at: Some(at), tool: tool.map(str::to_owned), text, subagent: None }
}
