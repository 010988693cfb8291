//! A hosted session's log as a conversation: input, and the output it led to.

use std::io;
use std::path::Path;

use model::conversation::{ConversationEntry, ConversationRole};
use model::hosted::{LogFact, LogPayload};
use model::time::Time;

/// How much output is one entry at most.
const MAX_ENTRY_BYTES: usize = 64 << 10;

/// Tells the log that begins at `position` and gives where it ends. Output that follows output is one
/// entry, as text.
pub fn read_log_conversation(
    directory: &Path,
    position: u64,
    say: &mut dyn FnMut(ConversationEntry),
) -> io::Result<u64> {
    let mut reader = host::log::LogReader::open_anywhere(directory, position)?;
    let mut output: Option<(Time, Vec<u8>)> = None;
    let flush = |output: &mut Option<(Time, Vec<u8>)>, say: &mut dyn FnMut(ConversationEntry)| {
        if let Some((at, bytes)) = output.take() {
            say(make_entry(ConversationRole::Result, at, None, host::plain_text(&bytes)));
        }
    };
    while let Some(event) = reader.next_event()? {
        let fact = match event.payload {
            LogPayload::Output(bytes) => {
                let (_, gathered) = output.get_or_insert_with(|| (event.at, Vec::new()));
                gathered.extend_from_slice(bytes);
                if gathered.len() > MAX_ENTRY_BYTES {
                    flush(&mut output, say);
                }
                continue;
            }
            LogPayload::Fact(fact) => fact,
        };
        flush(&mut output, say);
        let (role, tool, text) = match fact {
            LogFact::InputText { data, .. } | LogFact::InputPaste { data, .. } => {
                (ConversationRole::User, None, data)
            }
            LogFact::InputKeys { keys, .. } => (ConversationRole::User, None, keys.join(" ")),
            LogFact::InputRun { command, .. } => (ConversationRole::User, Some("run"), command),
            LogFact::Marker { label } => (ConversationRole::System, Some("mark"), label),
            LogFact::Resize { cols, rows } => {
                (ConversationRole::System, Some("resize"), format!("{cols}x{rows}"))
            }
            LogFact::Signal { signal } => (ConversationRole::System, Some("signal"), signal),
            LogFact::Gap { bytes, reason, .. } => {
                (ConversationRole::System, Some("gap"), format!("{bytes} bytes missing: {reason}"))
            }
            LogFact::Exit { exit_code, exit_signal } => {
                let how = match (exit_code, exit_signal) {
                    (_, Some(signal)) => format!("signal {signal}"),
                    (Some(code), None) => format!("code {code}"),
                    (None, None) => "unknown".to_owned(),
                };
                (ConversationRole::System, Some("exit"), how)
            }
            LogFact::RunComplete { .. } => continue,
        };
        say(make_entry(role, event.at, tool, text));
    }
    flush(&mut output, say);
    Ok(reader.offset())
}

fn make_entry(
    role: ConversationRole,
    at: Time,
    tool: Option<&str>,
    text: String,
) -> ConversationEntry {
    let tool = tool.map(str::to_owned);
    ConversationEntry { role, at: Some(at), tool, text, subagent: None, failed: false }
}
