//! Films: frames are the screens that were shown, their times are right, and the bytes never differ.

use std::time::Duration;

use super::{FilmSettings, Gif, RawVideo, RecordingEvent, RecordingHeader, RecordingWriter};
use crate::contract::ScreenSize;
use crate::png::Profile;

const SIZE: ScreenSize = ScreenSize { cols: 10, rows: 3 };

fn header() -> RecordingHeader<'static> {
    RecordingHeader {
        size: SIZE,
        timestamp: 0,
        title: "t",
        session_id: "s",
        term: "xterm-256color",
        tool_version: "0",
    }
}

fn settings() -> FilmSettings {
    FilmSettings {
        speed_percent: 100,
        idle_limit: None,
        from: Duration::ZERO,
        to: None,
        canvas: SIZE,
        profile: Profile::reference_dark(),
    }
}

const LINES: [(u64, &str); 4] =
    [(0, "one"), (10, " more"), (1000, "\r\ntwo"), (61_000, "\x1b[31mred")];

fn record_lines(film: &mut dyn RecordingWriter) {
    for (millis, text) in LINES {
        film.record(Duration::from_millis(millis), RecordingEvent::Output(text.as_bytes()))
            .unwrap();
    }
    film.finish().unwrap();
}

fn gif_of(settings: FilmSettings) -> Vec<u8> {
    let mut bytes = Vec::new();
    record_lines(&mut Gif::new_film(&mut bytes, &header(), settings).unwrap());
    bytes
}

/// The pictures that a decoder puts together, each with how many hundredths it lasts.
fn decode_gif(bytes: &[u8]) -> Vec<(Vec<[u8; 3]>, u64)> {
    let mut options = gif::DecodeOptions::new();
    options.set_color_output(gif::ColorOutput::RGBA);
    let mut decoder = options.read_info(bytes).unwrap();
    let (width, height) = (usize::from(decoder.width()), usize::from(decoder.height()));
    let mut canvas = vec![[0; 3]; width * height];
    let mut shown = Vec::new();
    while let Some(frame) = decoder.read_next_frame().unwrap() {
        let pixels = frame.buffer.chunks_exact(4);
        for (at, pixel) in pixels.enumerate() {
            let row = usize::from(frame.top) + at / usize::from(frame.width);
            let column = usize::from(frame.left) + at % usize::from(frame.width);
            canvas[row * width + column] = [pixel[0], pixel[1], pixel[2]];
        }
        shown.push((canvas.clone(), u64::from(frame.delay)));
    }
    shown
}

/// The same film as raw frames: what the GIF has to look like.
fn raw_frames(settings: FilmSettings) -> Vec<Vec<[u8; 3]>> {
    let (width, height) = RawVideo::<Vec<u8>>::frame_pixels(&settings);
    let mut bytes = Vec::new();
    record_lines(&mut RawVideo::new_film(&mut bytes, &header(), settings));
    let frame =
        |bytes: &[u8]| bytes.chunks_exact(3).map(|part| [part[0], part[1], part[2]]).collect();
    bytes.chunks_exact(width * height * 3).map(frame).collect()
}

#[test]
fn a_gif_shows_what_raw_frames_show_at_the_same_times() {
    let raw = raw_frames(settings());
    let mut at = 0;
    for (picture, hundredths) in decode_gif(&gif_of(settings())) {
        assert_eq!(hundredths % 4, 0, "whole frames");
        for frame in &raw[at..at + usize::try_from(hundredths / 4).unwrap()] {
            assert!(*frame == picture, "another picture at frame {at}");
        }
        at += usize::try_from(hundredths / 4).unwrap();
    }
    assert_eq!(at, raw.len());
    // A minute and the two seconds that the last picture stays.
    assert_eq!(raw.len(), (61 + 2) * 25);
}

#[test]
fn the_same_recording_gives_the_same_bytes() {
    assert_eq!(gif_of(settings()), gif_of(settings()));
}

#[test]
fn pauses_speed_and_parts_change_how_long_it_lasts() {
    let seconds = |settings: FilmSettings| {
        decode_gif(&gif_of(settings)).iter().map(|(_, hundredths)| hundredths).sum::<u64>() / 100
    };
    assert_eq!(seconds(settings()), 63);
    assert_eq!(seconds(FilmSettings { idle_limit: Some(Duration::from_secs(3)), ..settings() }), 6);
    assert_eq!(seconds(FilmSettings { speed_percent: 200, ..settings() }), 32);
    let part = FilmSettings {
        from: Duration::from_secs(1),
        to: Some(Duration::from_secs(2)),
        ..settings()
    };
    let shown = decode_gif(&gif_of(part.clone()));
    assert_eq!(shown.len(), 1, "what came before is there at once");
    assert!(shown[0].0 != decode_gif(&gif_of(settings()))[0].0);
    assert_eq!(seconds(part), 2);
}

#[test]
fn a_screen_that_grows_stays_inside_of_its_frames() {
    let mut bytes = Vec::new();
    let canvas = ScreenSize { cols: 20, rows: 6 };
    let mut film =
        Gif::new_film(&mut bytes, &header(), FilmSettings { canvas, ..settings() }).unwrap();
    film.record(Duration::ZERO, RecordingEvent::Output("日本語".as_bytes())).unwrap();
    film.record(Duration::from_secs(1), RecordingEvent::Resize(canvas)).unwrap();
    film.record(Duration::from_secs(2), RecordingEvent::Resize(ScreenSize { cols: 40, rows: 20 }))
        .unwrap();
    film.record(Duration::from_secs(2), RecordingEvent::Output(b"\x1b[20;40Hx")).unwrap();
    film.finish().unwrap();
    drop(film);
    assert!(!decode_gif(&bytes).is_empty());
}

#[test]
fn many_colours_are_reduced_to_the_nearest() {
    let mut bytes = Vec::new();
    let canvas = ScreenSize { cols: 80, rows: 24 };
    let header = RecordingHeader { size: canvas, ..header() };
    let mut film =
        Gif::new_film(&mut bytes, &header, FilmSettings { canvas, ..settings() }).unwrap();
    let cells: String = (0..80 * 24)
        .map(|n| format!("\x1b[48;2;{};{};{}m ", n % 256, n / 8, 255 - n / 8))
        .collect();
    film.record(Duration::ZERO, RecordingEvent::Output(cells.as_bytes())).unwrap();
    film.finish().unwrap();
    drop(film);
    let shown = decode_gif(&bytes);
    let first = shown[0].0[0];
    assert!(first[0] < 40 && first[2] > 200, "near to what it was: {first:?}");
}
