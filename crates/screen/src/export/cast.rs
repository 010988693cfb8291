//! asciicast, versions 2 and 3: a header line, then one line for each event.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use super::{RecordingEvent, RecordingHeader, RecordingWriter, Utf8Decoder};

#[derive(Serialize)]
struct Env<'a> {
    #[serde(rename = "TERM")]
    term: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HeaderV2<'a> {
    version: u8,
    width: u16,
    height: u16,
    timestamp: i64,
    title: &'a str,
    session_id: &'a str,
    env: Env<'a>,
    tool_version: &'a str,
}

#[derive(Serialize)]
struct HeaderV3<'a> {
    version: u8,
    term: Term<'a>,
    timestamp: i64,
    title: &'a str,
    tags: [&'a str; 1],
}

#[derive(Serialize)]
struct Term<'a> {
    cols: u16,
    rows: u16,
    r#type: &'a str,
}

/// Version 2: times count from the start. Inputs and exits have no place in what agent-tty writes.
#[derive(Debug)]
pub struct CastV2<W> {
    out: W,
    text: Utf8Decoder,
    last: Duration,
}

impl<W: Write> CastV2<W> {
    pub fn new(mut out: W, header: &RecordingHeader<'_>) -> io::Result<CastV2<W>> {
        let RecordingHeader { size, timestamp, title, session_id, term, tool_version } = *header;
        let env = Env { term };
        let (width, height) = (size.cols, size.rows);
        let header =
            HeaderV2 { version: 2, width, height, timestamp, title, session_id, env, tool_version };
        write_json_line(&mut out, &header)?;
        Ok(CastV2 { out, text: Utf8Decoder::default(), last: Duration::ZERO })
    }
}

impl<W: Write> RecordingWriter for CastV2<W> {
    fn record(&mut self, time: Duration, item: RecordingEvent<'_>) -> io::Result<()> {
        self.last = time;
        match encode_event(item, &mut self.text) {
            Some((code, data)) if code != 'i' && code != 'x' => {
                write_event_line(&mut self.out, time, code, &data)
            }
            _ => Ok(()),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        if let Some(rest) = self.text.take_rest() {
            write_event_line(&mut self.out, self.last, 'o', &rest)?;
        }
        self.out.flush()
    }
}

/// Version 3: each time counts from the event before it.
#[derive(Debug)]
pub struct CastV3<W> {
    out: W,
    text: Utf8Decoder,
    last: Duration,
}

impl<W: Write> CastV3<W> {
    pub fn new(mut out: W, header: &RecordingHeader<'_>) -> io::Result<CastV3<W>> {
        let RecordingHeader { size, timestamp, title, session_id, term, .. } = *header;
        let term = Term { cols: size.cols, rows: size.rows, r#type: term };
        write_json_line(
            &mut out,
            &HeaderV3 { version: 3, term, timestamp, title, tags: [session_id] },
        )?;
        Ok(CastV3 { out, text: Utf8Decoder::default(), last: Duration::ZERO })
    }

    fn write_delta_event(&mut self, time: Duration, code: char, data: &str) -> io::Result<()> {
        write_event_line(&mut self.out, time.saturating_sub(self.last), code, data)?;
        self.last = self.last.max(time);
        Ok(())
    }
}

impl<W: Write> RecordingWriter for CastV3<W> {
    fn record(&mut self, time: Duration, item: RecordingEvent<'_>) -> io::Result<()> {
        match encode_event(item, &mut self.text) {
            Some((code, data)) => self.write_delta_event(time, code, &data),
            None => Ok(()),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        if let Some(rest) = self.text.take_rest() {
            self.write_delta_event(self.last, 'o', &rest)?;
        }
        self.out.flush()
    }
}

/// The letter and the text of an event; nothing for output that is only the beginning of a character.
fn encode_event(item: RecordingEvent<'_>, text: &mut Utf8Decoder) -> Option<(char, String)> {
    Some(match item {
        RecordingEvent::Output(bytes) => {
            let text = text.decode(bytes);
            if text.is_empty() {
                return None;
            }
            ('o', text)
        }
        RecordingEvent::Input(text) => ('i', text.to_owned()),
        RecordingEvent::Resize(size) => ('r', format!("{}x{}", size.cols, size.rows)),
        RecordingEvent::Marker(label) => ('m', label.to_owned()),
        RecordingEvent::Exit(code) => ('x', code.to_string()),
    })
}

fn write_json_line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

fn write_event_line(
    out: &mut impl Write,
    time: Duration,
    code: char,
    data: &str,
) -> io::Result<()> {
    write!(out, "[{}.{:06},\"{code}\",", time.as_secs(), time.subsec_micros())?;
    serde_json::to_writer(&mut *out, data)?;
    out.write_all(b"]\n")
}
