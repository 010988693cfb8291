//! Video of a terminal: frames through a pipe to the user's `ffmpeg`, marks as chapters.
//!
//! No encoder is part of ostler: those for video are large, and people who want video have one.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use host::screen::export::{FRAMES_A_SECOND, FilmMarks, RawVideo};
use sha2::{Digest, Sha256};

use super::{ExportLook, WrittenRecording, describe_recording, film_settings, replay_log};
use crate::terminal::HostedSession;
use crate::timeouts::LAST_CHAPTER_SPAN;

/// The most of an encoder's complaint that is told.
const MAX_COMPLAINT_BYTES: usize = 2_000;

/// The most marks that become chapters: they are told on the encoder's command line.
const MAX_CHAPTERS: usize = 500;

/// What a video is wrapped in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VideoContainer {
    /// VP9 in WebM.
    Webm,
    /// H.264 in MP4.
    Mp4,
}

impl VideoContainer {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Webm => "webm",
            Self::Mp4 => "mp4",
        }
    }

    /// Encoder options: text must stay sharp, and every player must show it.
    const fn encoder_options(self) -> &'static [&'static str] {
        match self {
            Self::Webm => &["-c:v", "libvpx-vp9", "-crf", "24", "-b:v", "0", "-row-mt", "1"],
            Self::Mp4 => {
                &["-c:v", "libx264", "-crf", "18", "-preset", "medium", "-movflags", "+faststart"]
            }
        }
    }
}

/// Writes a video to `path`, with the marks as chapters.
pub(super) fn write_video(
    session: &HostedSession,
    container: VideoContainer,
    path: &Path,
    look: &ExportLook,
) -> io::Result<WrittenRecording> {
    let settings = film_settings(session, look)?;
    let header = describe_recording(session)?;
    // The encoder wants chapters before the first frame.
    let mut film_marks = FilmMarks::new(settings.clone());
    replay_log(session, &header, &mut film_marks)?;
    let (width, height) = RawVideo::<io::Sink>::frame_pixels(&settings);
    let mut command = Command::new("ffmpeg");
    command
        .args(["-nostdin", "-hide_banner", "-loglevel", "error"])
        .args(["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", &format!("{width}x{height}")])
        .args(["-r", &FRAMES_A_SECOND.to_string(), "-i", "pipe:0"]);
    if !film_marks.marks.is_empty() {
        let chapters = STANDARD.encode(chapter_list(&film_marks.marks));
        let address = format!("data:text/plain;base64,{chapters}");
        command.args(["-f", "ffmetadata", "-i", &address, "-map_metadata", "1", "-map", "0:v"]);
    }
    command
        .args(container.encoder_options())
        .args(["-pix_fmt", "yuv420p", "-f", container.as_str(), "-n"])
        .arg(path);
    let mut replayed = None;
    run_encoder(&mut command, |pipe| {
        let mut film = RawVideo::new_film(pipe, &header, settings);
        replayed = Some(replay_log(session, &header, &mut film)?);
        Ok(())
    })?;
    let (sha256, bytes) = hash_file(path)?;
    let (metadata, seq, last) = replayed.ok_or_else(|| io::Error::other("nothing was replayed"))?;
    Ok((metadata, seq, last, sha256, bytes))
}

/// Whether the program that encodes video is on the `PATH`.
pub fn has_video_encoder() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join("ffmpeg").is_file())
}

/// Runs ffmpeg, feeds its standard input, and tells what it complained of.
fn run_encoder(
    command: &mut Command,
    feed: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<()> {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::other(
            "video is encoded by `ffmpeg`, which is not on the PATH: install it, or use `--format gif` or \
             `--format html`",
        ),
        _ => error,
    })?;
    let complaint = child.stderr.take().map(|mut stderr| {
        std::thread::spawn(move || {
            let mut told = Vec::new();
            // What cannot be read is not told.
            let _ = stderr.read_to_end(&mut told);
            told.truncate(MAX_COMPLAINT_BYTES);
            String::from_utf8_lossy(&told).trim().to_owned()
        })
    });
    let fed = match child.stdin.take() {
        Some(stdin) => feed(&mut io::BufWriter::with_capacity(1 << 20, stdin)),
        None => Ok(()),
    };
    let status = child.wait()?;
    let complaint = complaint.and_then(|thread| thread.join().ok()).unwrap_or_default();
    match (status.success(), fed) {
        (true, fed) => fed,
        (false, _) => Err(io::Error::other(format!("ffmpeg ended with {status}: {complaint}"))),
    }
}

/// The chapters in ffmpeg's own words.
fn chapter_list(marks: &[(Duration, String)]) -> String {
    let mut list = ";FFMETADATA1\n".to_owned();
    for (index, (start, label)) in marks.iter().take(MAX_CHAPTERS).enumerate() {
        let next = marks.get(index + 1).map(|(next, _)| *next);
        let end = next.unwrap_or(*start + LAST_CHAPTER_SPAN);
        let mut title = String::new();
        for character in label.chars().filter(|character| !character.is_control()) {
            if matches!(character, '=' | ';' | '#' | '\\') {
                title.push('\\');
            }
            title.push(character);
        }
        list.push_str(&format!(
            "[CHAPTER]\nTIMEBASE=1/1000\nSTART={}\nEND={}\ntitle={title}\n",
            start.as_millis(),
            end.as_millis().max(start.as_millis() + 1)
        ));
    }
    list
}

fn hash_file(path: &Path) -> io::Result<(String, u64)> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let bytes = io::copy(&mut file, &mut HashOnly(&mut hash))?;
    Ok((model::hex::to_hex(&hash.finalize()), bytes))
}

/// Takes bytes for their hash alone.
struct HashOnly<'a>(&'a mut Sha256);

impl io::Write for HashOnly<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
