//! A session's log as a recording that other programs play.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host::log::LogReader;
use host::screen::export::{
    CastV2, CastV3, FilmSettings, FrameLines, Gif, Html, RecordingEvent, RecordingHeader,
    RecordingWriter, Txt,
};
use host::screen::png::Profile;
use host::screen::{Personality, ScreenSize};
use model::hex::to_hex;
use model::hosted::wire::{ExportMetadata, ExportResult};
use model::hosted::{FaultCode, HostFault, LogFact, LogPayload};
use model::time::whole_millis;
use sha2::{Digest, Sha256};

pub use video::VideoContainer;

use super::artifacts::{self, ArtifactKind, ArtifactListing};
use super::{AGENT_TTY_CONTRACT, HostedSession, TerminalHome};

mod video;

/// The formats there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// asciicast version 2.
    Asciicast,
    /// asciicast version 3.
    CastV3,
    /// What a person would have scrolled through.
    Txt,
    /// A page that plays itself.
    Html,
    /// Pictures that move.
    Gif,
    /// Video, by the user's `ffmpeg`.
    Video(VideoContainer),
}

/// How time passes in pictures that move.
#[derive(Clone, Debug, Default)]
pub struct FilmTiming {
    /// How fast, in hundredths; as it was without it.
    pub speed_percent: Option<u32>,
    /// A longer pause lasts this long.
    pub idle_limit: Option<Duration>,
    /// Where in the recording it begins.
    pub from: Duration,
    /// Where it ends.
    pub to: Option<Duration>,
}

/// What a recording is drawn with, and how its time passes.
#[derive(Clone, Debug)]
pub struct ExportLook {
    /// Colours and size.
    pub profile: Profile,
    /// Of pictures that move.
    pub timing: FilmTiming,
}

impl ExportFormat {
    /// Reads a format's name.
    pub fn parse(text: &str) -> Result<Self, HostFault> {
        match text {
            "asciicast" => Ok(Self::Asciicast),
            "cast-v3" => Ok(Self::CastV3),
            "txt" => Ok(Self::Txt),
            "html" => Ok(Self::Html),
            "gif" => Ok(Self::Gif),
            "webm" => Ok(Self::Video(VideoContainer::Webm)),
            "mp4" => Ok(Self::Video(VideoContainer::Mp4)),
            other => Err(HostFault::invalid_input(format!(
                "--format `{other}` must be one of asciicast, cast-v3, txt, html, gif, webm, mp4"
            ))),
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Asciicast => "asciicast",
            Self::CastV3 => "cast-v3",
            Self::Txt => "txt",
            Self::Html => "html",
            Self::Gif => "gif",
            Self::Video(container) => container.as_str(),
        }
    }

    const fn extension(self) -> &'static str {
        match self {
            Self::Asciicast | Self::CastV3 => "cast",
            other => other.as_str(),
        }
    }
}

/// What passed through, and its hash.
struct HashingFile {
    file: BufWriter<File>,
    hash: Sha256,
    bytes: u64,
}

impl Write for HashingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.hash.update(&bytes[..count]);
        self.bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes the recording, to `out` or among the session's artifacts. However long the log is, only the
/// event at hand is in memory.
pub fn export_recording(
    home: &TerminalHome,
    session: &HostedSession,
    format: ExportFormat,
    out: Option<&Path>,
    look: &ExportLook,
) -> Result<ExportResult, HostFault> {
    let failed = |what: &Path, error: &io::Error| {
        HostFault::new(
            FaultCode::ExportError,
            format!("cannot export to {}: {error}", what.display()),
        )
    };
    let directory = session.artifact_dir(home.personality).directory();
    let out =
        out.map(std::path::absolute).transpose().map_err(|error| failed(&directory, &error))?;
    if let Some(parent) = out.as_ref().and_then(|out| out.parent())
        && !parent.is_dir()
    {
        let message = format!("the directory {} does not exist", parent.display());
        return Err(HostFault::new(FaultCode::ExportError, message));
    }
    if let Some(out) = out.as_ref().filter(|out| out.is_dir()) {
        let code = match home.personality {
            Personality::Ostler => FaultCode::ExportError,
            Personality::AgentTty => FaultCode::StorageWriteError,
        };
        let message = format!("cannot export to {}: it is a directory", out.display());
        return Err(HostFault::new(code, message).with("out", &*out.to_string_lossy()));
    }
    std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700)
        .create(&directory)
        .map_err(|error| failed(&directory, &error))?;
    let beside = out.as_ref().and_then(|out| out.parent()).unwrap_or(&directory);
    let temporary = beside.join(format!(".{}.{}.tmp", session.id, std::process::id()));
    let written = match format {
        ExportFormat::Video(container) => video::write_video(session, container, &temporary, look),
        _ => write_recording(session, format, &temporary, look),
    };
    let (metadata, seq, duration, sha256, bytes) = match written {
        Ok(written) => written,
        Err(error) => {
            discard_unfinished(&temporary);
            return Err(failed(&temporary, &error));
        }
    };
    let filename = format!("recording-{seq}-{}.{}", format.as_str(), format.extension());
    let path: PathBuf = out.clone().unwrap_or_else(|| directory.join(&filename));
    let mut about = match serde_json::to_value(&metadata) {
        Ok(serde_json::Value::Object(about)) => about,
        _ => serde_json::Map::new(),
    };
    if let Some(out) = &out {
        about.insert("path".to_owned(), out.to_string_lossy().into());
    }
    let listing = ArtifactListing {
        kind: ArtifactKind::Recording,
        filename,
        seq,
        sha256: &sha256,
        bytes,
        metadata: about,
    };
    let shelf = session.artifact_dir(home.personality);
    artifacts::list_and_place(shelf, &listing, &path, || {
        #[expect(clippy::disallowed_methods, reason = "a file of this process gets its name")]
        sys::atomic::rename_over(&temporary, &path).map_err(|error| failed(&path, &error))
    })
    .inspect_err(|_| discard_unfinished(&temporary))?;
    Ok(ExportResult {
        session_id: session.id.clone(),
        format: format.as_str(),
        artifact_path: path.to_string_lossy().into_owned(),
        bytes,
        sha256,
        captured_at_seq: seq,
        duration_ms: duration.map(whole_millis),
        metadata,
    })
}

/// Removes what has not got its name. It may have it already: then there is nothing to remove.
fn discard_unfinished(temporary: &Path) {
    #[expect(clippy::disallowed_methods, reason = "a file that this process was writing")]
    sys::atomic::remove_own(temporary);
}

/// Writes the recording as frames, one JSON object on a line, beginning with what was on the screen at `from`.
pub fn write_frames(
    session: &HostedSession,
    out: &mut dyn Write,
    profile: &Profile,
    from: Duration,
) -> Result<(), HostFault> {
    let failed = |error: io::Error| {
        let message = format!("the log of session `{}` cannot be replayed: {error}", session.id);
        HostFault::new(FaultCode::ReplayError, message)
    };
    let header = describe_recording(session).map_err(failed)?;
    let mut lines = FrameLines::new(out, &header, profile.theme.clone(), from);
    match replay_log(session, &header, &mut lines) {
        // The player has left.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        replayed => replayed.map(drop).map_err(failed),
    }
}

/// What was written: about it, the last event, how long it is, its hash and its bytes.
type WrittenRecording = (ExportMetadata, i64, Option<Duration>, String, u64);

fn write_recording(
    session: &HostedSession,
    format: ExportFormat,
    path: &Path,
    look: &ExportLook,
) -> io::Result<WrittenRecording> {
    let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    let mut out = HashingFile {
        file: BufWriter::with_capacity(256 << 10, file),
        hash: Sha256::new(),
        bytes: 0,
    };
    let header = describe_recording(session)?;
    let (metadata, seq, last) = {
        let mut recorder: Box<dyn RecordingWriter + '_> = match format {
            ExportFormat::Asciicast => Box::new(CastV2::new(&mut out, &header)?),
            ExportFormat::CastV3 => Box::new(CastV3::new(&mut out, &header)?),
            ExportFormat::Txt => Box::new(Txt::new(&mut out, &header)),
            ExportFormat::Html => {
                Box::new(Html::new(&mut out, &header, look.profile.theme.clone())?)
            }
            ExportFormat::Gif | ExportFormat::Video(_) => {
                Box::new(Gif::new_film(&mut out, &header, film_settings(session, look)?)?)
            }
        };
        replay_log(session, &header, &mut *recorder)?
    };
    out.flush()?;
    let sha256 = to_hex(&out.hash.finalize());
    Ok((metadata, seq, last, sha256, out.bytes))
}

/// What is known of a recording before its first event.
fn describe_recording(session: &HostedSession) -> io::Result<RecordingHeader<'_>> {
    let manifest = &session.manifest;
    let first = LogReader::open(&session.directory)?.next_event()?.map(|event| event.at);
    Ok(RecordingHeader {
        size: ScreenSize {
            cols: manifest.creation_cols.unwrap_or(manifest.cols),
            rows: manifest.creation_rows.unwrap_or(manifest.rows),
        },
        timestamp: first.unwrap_or(manifest.created_at).as_millis().div_euclid(1000),
        title: &session.id,
        session_id: &session.id,
        term: "xterm-256color",
        tool_version: match session.personality {
            Personality::Ostler => env!("CARGO_PKG_VERSION"),
            Personality::AgentTty => AGENT_TTY_CONTRACT,
        },
    })
}

/// How a film of the session is made: its frames have room for the largest screen there was.
fn film_settings(session: &HostedSession, look: &ExportLook) -> io::Result<FilmSettings> {
    let mut canvas = describe_recording(session)?.size;
    let mut reader = LogReader::open(&session.directory)?;
    while let Some(event) = reader.next_event()? {
        if let LogPayload::Fact(LogFact::Resize { cols, rows }) = event.payload {
            canvas.cols = canvas.cols.max(cols);
            canvas.rows = canvas.rows.max(rows);
        }
    }
    Ok(FilmSettings {
        speed_percent: look.timing.speed_percent.unwrap_or(100),
        idle_limit: look.timing.idle_limit,
        from: look.timing.from,
        to: look.timing.to,
        canvas,
        profile: look.profile.clone(),
    })
}

/// Gives every event of a log to a recorder, in order; what it was about, the last event, and how long.
fn replay_log(
    session: &HostedSession,
    header: &RecordingHeader<'_>,
    recorder: &mut dyn RecordingWriter,
) -> io::Result<(ExportMetadata, i64, Option<Duration>)> {
    let mut metadata = ExportMetadata {
        width: header.size.cols,
        height: header.size.rows,
        title: session.id.clone(),
        timestamp: header.timestamp,
        ..ExportMetadata::default()
    };
    let (mut seq, mut last, mut first) = (-1, None, None);
    let mut reader = LogReader::open(&session.directory)?;
    while let Some(event) = reader.next_event()? {
        seq = i64::try_from(event.seq).unwrap_or(i64::MAX);
        let time = event.at.since(*first.get_or_insert(event.at));
        last = Some(time);
        match event.payload {
            LogPayload::Output(bytes) => {
                metadata.output_event_count += 1;
                recorder.record(time, RecordingEvent::Output(bytes))?;
            }
            LogPayload::Fact(fact) => record_fact(recorder, time, &fact, &mut metadata)?,
        }
    }
    recorder.finish()?;
    Ok((metadata, seq, last))
}

fn record_fact(
    recorder: &mut dyn RecordingWriter,
    time: Duration,
    fact: &LogFact,
    metadata: &mut ExportMetadata,
) -> io::Result<()> {
    match fact {
        LogFact::Resize { cols, rows } => {
            metadata.resize_event_count += 1;
            recorder.record(time, RecordingEvent::Resize(ScreenSize { cols: *cols, rows: *rows }))
        }
        LogFact::Marker { label } => {
            metadata.marker_count += 1;
            recorder.record(time, RecordingEvent::Marker(label))
        }
        LogFact::InputText { data, .. } | LogFact::InputPaste { data, .. } => {
            recorder.record(time, RecordingEvent::Input(data))
        }
        LogFact::InputRun { command, .. } => {
            recorder.record(time, RecordingEvent::Input(&format!("{command}\n")))
        }
        LogFact::Exit { exit_code, .. } => {
            recorder.record(time, RecordingEvent::Exit(exit_code.unwrap_or_default()))
        }
        LogFact::InputKeys { .. }
        | LogFact::RunComplete { .. }
        | LogFact::Signal { .. }
        | LogFact::Gap { .. } => Ok(()),
    }
}
