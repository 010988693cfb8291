//! A film of a terminal: frames of its screen at a fixed rate, only where something changed.
//!
//! The same log gives the same frames on every machine: times are whole numbers, and no clock is read.

use std::io::{self, Write};
use std::time::Duration;

use super::{RecordingEvent, RecordingHeader, RecordingWriter};
use crate::contract::{ScreenLimits, ScreenSize};
use crate::png::{FrameDrawer, IndexedPicture, Profile};
use crate::screen::Screen;

/// How many frames a second has: what happens within one frame is shown at its end.
pub const FRAMES_A_SECOND: u32 = 25;

/// How long one frame lasts.
const FRAME_TIME: Duration = Duration::from_millis(1000 / FRAMES_A_SECOND as u64);

/// How long the last picture stays.
const LAST_FRAME_TIME: Duration = Duration::from_secs(2);

/// How time passes in a film, and what is in the picture.
#[derive(Clone, Debug)]
pub struct FilmSettings {
    /// How fast: 100 is as it was, 200 twice as fast.
    pub speed_percent: u32,
    /// A pause that is longer lasts this long.
    pub idle_limit: Option<Duration>,
    /// Where in the recording the film begins.
    pub from: Duration,
    /// Where it ends; the end of the recording without it.
    pub to: Option<Duration>,
    /// The largest screen of the recording: every frame has this size.
    pub canvas: ScreenSize,
    /// What is drawn with.
    pub profile: Profile,
}

/// How a film's time follows a recording's.
#[derive(Clone, Copy, Debug, Default)]
struct FilmClock {
    film_time: Duration,
    /// The recording's time at the last event.
    recorded: Duration,
}

impl FilmClock {
    /// Goes on to an event. What came before the beginning took no time.
    fn pass_to(&mut self, time: Duration, settings: &FilmSettings) {
        let passed = time.saturating_sub(self.recorded.max(settings.from));
        self.recorded = self.recorded.max(time);
        let passed = settings.idle_limit.map_or(passed, |limit| passed.min(limit));
        let millis = passed.as_millis() * 100 / u128::from(settings.speed_percent.max(1));
        self.film_time += Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX));
    }
}

impl FilmSettings {
    fn is_over(&self, time: Duration) -> bool {
        self.to.is_some_and(|to| time > to)
    }
}

/// The marks of a film, each with when it stands there; nothing is drawn.
#[derive(Debug)]
pub struct FilmMarks {
    settings: FilmSettings,
    clock: FilmClock,
    pub marks: Vec<(Duration, String)>,
}

impl FilmMarks {
    pub fn new(settings: FilmSettings) -> Self {
        Self { settings, clock: FilmClock::default(), marks: Vec::new() }
    }
}

impl RecordingWriter for FilmMarks {
    fn record(&mut self, time: Duration, item: RecordingEvent<'_>) -> io::Result<()> {
        if !self.settings.is_over(time) {
            self.clock.pass_to(time, &self.settings);
            if let RecordingEvent::Marker(label) = item
                && time >= self.settings.from
            {
                self.marks.push((self.clock.film_time, label.to_owned()));
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What takes the frames of a film.
pub(super) trait FrameSink {
    /// One picture, for a whole number of frames.
    fn show_frame(&mut self, picture: &IndexedPicture, frames: u64) -> io::Result<()>;

    fn end_film(&mut self) -> io::Result<()>;
}

/// Makes a film of a recording.
#[derive(Debug)]
pub struct FilmWriter<S> {
    sink: S,
    settings: FilmSettings,
    screen: Screen,
    drawer: FrameDrawer,
    clock: FilmClock,
    /// The frame that is being filled, and whether anything changed in it.
    frame: u64,
    changed: bool,
    /// The last picture and the frame it began in.
    pending: Option<(IndexedPicture, u64)>,
}

#[expect(private_bounds, reason = "there are two films, and both are made here")]
impl<S: FrameSink> FilmWriter<S> {
    pub(super) fn with_sink(sink: S, header: &RecordingHeader<'_>, settings: FilmSettings) -> Self {
        let drawer = FrameDrawer::new(settings.profile.clone());
        Self {
            sink,
            screen: Screen::new(header.size, ScreenLimits { scrollback_lines: 0 }),
            drawer,
            clock: FilmClock::default(),
            frame: 0,
            changed: true,
            pending: None,
            settings,
        }
    }

    /// Lets the film's time go on to that of an event.
    fn pass_time(&mut self, time: Duration) -> io::Result<()> {
        self.clock.pass_to(time, &self.settings);
        let frame = frame_at(self.clock.film_time);
        if frame > self.frame {
            self.close_frame()?;
            self.frame = frame;
        }
        Ok(())
    }

    /// Draws what the frame came to, if it is another picture than before.
    fn close_frame(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.changed) {
            return Ok(());
        }
        let picture = self.drawer.draw_frame(&self.screen, self.settings.canvas);
        let is_same = self.pending.as_ref().is_some_and(|(last, _)| shows_same(last, &picture));
        if is_same {
            return Ok(());
        }
        if let Some((last, began)) = self.pending.replace((picture, self.frame)) {
            self.sink.show_frame(&last, self.frame - began)?;
        }
        Ok(())
    }
}

impl<S: FrameSink> RecordingWriter for FilmWriter<S> {
    fn record(&mut self, time: Duration, item: RecordingEvent<'_>) -> io::Result<()> {
        if self.settings.is_over(time) {
            return Ok(());
        }
        self.pass_time(time)?;
        match item {
            RecordingEvent::Output(bytes) => {
                let _ = self.screen.advance(bytes);
                self.changed = true;
            }
            RecordingEvent::Resize(size) => {
                let _ = self.screen.resize(size);
                self.changed = true;
            }
            RecordingEvent::Marker(_) | RecordingEvent::Input(_) | RecordingEvent::Exit(_) => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.screen.release_frame();
        self.changed = true;
        self.close_frame()?;
        if let Some((last, began)) = self.pending.take() {
            let held = frame_at(LAST_FRAME_TIME);
            self.sink.show_frame(&last, self.frame - began + held)?;
        }
        self.sink.end_film()
    }
}

fn frame_at(time: Duration) -> u64 {
    u64::try_from(time.as_millis() / FRAME_TIME.as_millis()).unwrap_or(u64::MAX)
}

/// Whether two pictures look the same, with any numbering of their colours.
fn shows_same(one: &IndexedPicture, other: &IndexedPicture) -> bool {
    let color = |picture: &IndexedPicture, place: u16| picture.colors[usize::from(place)];
    one.pixels.len() == other.pixels.len()
        && one.pixels.iter().zip(&other.pixels).all(|(a, b)| color(one, *a) == color(other, *b))
}

/// Raw video: every frame as red, green and blue bytes, for an encoder that reads a pipe.
#[derive(Debug)]
pub struct RawVideo<W> {
    out: W,
}

impl<W: Write> RawVideo<W> {
    /// A film that is written to `out`.
    pub fn new_film(
        out: W,
        header: &RecordingHeader<'_>,
        settings: FilmSettings,
    ) -> FilmWriter<Self> {
        FilmWriter::with_sink(Self { out }, header, settings)
    }

    /// The size of its frames, in pixels. Encoders want even numbers, and cells have them.
    pub fn frame_pixels(settings: &FilmSettings) -> (usize, usize) {
        FrameDrawer::new(settings.profile.clone()).canvas_pixels(settings.canvas)
    }
}

impl<W: Write> FrameSink for RawVideo<W> {
    fn show_frame(&mut self, picture: &IndexedPicture, frames: u64) -> io::Result<()> {
        let bytes: Vec<u8> =
            picture.pixels.iter().flat_map(|place| picture.colors[usize::from(*place)]).collect();
        (0..frames).try_for_each(|_| self.out.write_all(&bytes))
    }

    fn end_film(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
