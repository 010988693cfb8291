//! A session's log as a recording that other programs play.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host::log::Reader;
use host::screen::export::{CastV2, CastV3, Header, Html, Item, Recorder, Txt};
use host::screen::{Size, Theme};
use model::hex::hex;
use model::hosted::wire::{ExportMetadata, ExportResult};
use model::hosted::{Code, Fact, Fault, Payload};
use model::time::millis;
use sha2::{Digest, Sha256};

use super::artifacts::{self, Kind, Listing};
use super::{Home, Session};

/// The formats there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// asciicast version 2.
    Asciicast,
    /// asciicast version 3.
    CastV3,
    /// What a person would have scrolled through.
    Txt,
    /// A page that plays itself.
    Html,
}

impl Format {
    /// Reads a format's name.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        match text {
            "asciicast" => Ok(Self::Asciicast),
            "cast-v3" => Ok(Self::CastV3),
            "txt" => Ok(Self::Txt),
            "html" => Ok(Self::Html),
            "webm" => Err(Fault::new(
                Code::ExportError,
                "video is not written by this version; `--format html` gives a page that plays itself",
            )),
            other => Err(Fault::input(format!(
                "--format `{other}` must be one of asciicast, cast-v3, txt, html"
            ))),
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Asciicast => "asciicast",
            Self::CastV3 => "cast-v3",
            Self::Txt => "txt",
            Self::Html => "html",
        }
    }

    const fn extension(self) -> &'static str {
        match self {
            Self::Asciicast | Self::CastV3 => "cast",
            Self::Txt => "txt",
            Self::Html => "html",
        }
    }
}

/// What passed through, and its hash.
struct Counted {
    file: BufWriter<File>,
    hash: Sha256,
    bytes: u64,
}

impl Write for Counted {
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
pub fn export(
    home: &Home,
    session: &Session,
    format: Format,
    out: Option<&Path>,
    theme: Theme,
) -> Result<ExportResult, Fault> {
    let failed = |what: &Path, error: &io::Error| {
        Fault::new(Code::ExportError, format!("cannot export to {}: {error}", what.display()))
    };
    let directory = session.shelf(home.personality).directory();
    let out =
        out.map(std::path::absolute).transpose().map_err(|error| failed(&directory, &error))?;
    if let Some(parent) = out.as_ref().and_then(|out| out.parent())
        && !parent.is_dir()
    {
        let message = format!("the directory {} does not exist", parent.display());
        return Err(Fault::new(Code::ExportError, message));
    }
    std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700)
        .create(&directory)
        .map_err(|error| failed(&directory, &error))?;
    let beside = out.as_ref().and_then(|out| out.parent()).unwrap_or(&directory);
    let temporary = beside.join(format!(".{}.{}.tmp", session.id, std::process::id()));
    let written = write(session, format, &temporary, theme);
    let (metadata, seq, duration, sha256, bytes) = match written {
        Ok(written) => written,
        Err(error) => {
            sys::atomic::abandon(&temporary);
            return Err(failed(&temporary, &error));
        }
    };
    let filename = format!("recording-{seq}-{}.{}", format.word(), format.extension());
    let path: PathBuf = out.clone().unwrap_or_else(|| directory.join(&filename));
    sys::atomic::put(&temporary, &path).map_err(|error| failed(&path, &error))?;
    let mut about = match serde_json::to_value(&metadata) {
        Ok(serde_json::Value::Object(about)) => about,
        _ => serde_json::Map::new(),
    };
    if let Some(out) = &out {
        about.insert("path".to_owned(), out.to_string_lossy().into());
    }
    artifacts::list(
        session.shelf(home.personality),
        &Listing { kind: Kind::Recording, filename, seq, sha256: &sha256, bytes, metadata: about },
    )
    .inspect_err(|_| {
        if out.is_none() {
            sys::atomic::abandon(&path);
        }
    })?;
    Ok(ExportResult {
        session_id: session.id.clone(),
        format: format.word(),
        artifact_path: path.to_string_lossy().into_owned(),
        bytes,
        sha256,
        captured_at_seq: seq,
        duration_ms: duration.map(millis),
        metadata,
    })
}

type Written = (ExportMetadata, i64, Option<Duration>, String, u64);

fn write(session: &Session, format: Format, path: &Path, theme: Theme) -> io::Result<Written> {
    let manifest = &session.manifest;
    let file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    let mut out =
        Counted { file: BufWriter::with_capacity(256 << 10, file), hash: Sha256::new(), bytes: 0 };
    let mut reader = Reader::open(&session.directory)?;
    let size = Size {
        cols: manifest.creation_cols.unwrap_or(manifest.cols),
        rows: manifest.creation_rows.unwrap_or(manifest.rows),
    };
    let first = match reader.next_event()? {
        Some(event) => event.at,
        None => manifest.created_at,
    };
    let mut reader = Reader::open(&session.directory)?;
    let header = Header {
        size,
        timestamp: first.millis().div_euclid(1000),
        title: &session.id,
        session_id: &session.id,
        term: "xterm-256color",
        tool_version: env!("CARGO_PKG_VERSION"),
    };
    let mut metadata = ExportMetadata {
        width: size.cols,
        height: size.rows,
        title: session.id.clone(),
        timestamp: header.timestamp,
        ..ExportMetadata::default()
    };
    let (mut seq, mut last) = (-1, None);
    {
        let mut recorder: Box<dyn Recorder + '_> = match format {
            Format::Asciicast => Box::new(CastV2::new(&mut out, &header)?),
            Format::CastV3 => Box::new(CastV3::new(&mut out, &header)?),
            Format::Txt => Box::new(Txt::new(&mut out, &header)),
            Format::Html => Box::new(Html::new(&mut out, &header, theme)?),
        };
        while let Some(event) = reader.next_event()? {
            seq = i64::try_from(event.seq).unwrap_or(i64::MAX);
            let time = event.at.since(first);
            last = Some(time);
            match event.payload {
                Payload::Output(bytes) => {
                    metadata.output_event_count += 1;
                    recorder.record(time, Item::Output(bytes))?;
                }
                Payload::Fact(fact) => record(&mut *recorder, time, &fact, &mut metadata)?,
            }
        }
        recorder.finish()?;
    }
    out.flush()?;
    let sha256 = hex(&out.hash.finalize());
    Ok((metadata, seq, last, sha256, out.bytes))
}

fn record(
    recorder: &mut dyn Recorder,
    time: Duration,
    fact: &Fact,
    metadata: &mut ExportMetadata,
) -> io::Result<()> {
    match fact {
        Fact::Resize { cols, rows } => {
            metadata.resize_event_count += 1;
            recorder.record(time, Item::Resize(Size { cols: *cols, rows: *rows }))
        }
        Fact::Marker { label } => {
            metadata.marker_count += 1;
            recorder.record(time, Item::Marker(label))
        }
        Fact::InputText { data } | Fact::InputPaste { data } => {
            recorder.record(time, Item::Input(data))
        }
        Fact::InputRun { command, .. } => {
            recorder.record(time, Item::Input(&format!("{command}\n")))
        }
        Fact::Exit { exit_code, .. } => {
            recorder.record(time, Item::Exit(exit_code.unwrap_or_default()))
        }
        Fact::InputKeys { .. }
        | Fact::RunComplete { .. }
        | Fact::Signal { .. }
        | Fact::Gap { .. } => Ok(()),
    }
}
