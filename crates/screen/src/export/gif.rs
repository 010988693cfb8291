//! An animated GIF, the same to the byte on every machine: each frame is the rectangle that changed, with
//! colours of its own.

use std::collections::HashMap;
use std::io::{self, Write};

use gif::{DisposalMethod, Encoder, EncodingError, Frame, Repeat};

use super::RecordingHeader;
use super::film::{FRAMES_A_SECOND, FilmSettings, FilmWriter, FrameSink};
use crate::palette::Rgb;
use crate::png::{FrameDrawer, IndexedPicture};

/// Hundredths of a second that a frame lasts.
const FRAME_DELAY: u64 = 100 / FRAMES_A_SECOND as u64;

/// The most colours of a frame.
const MAX_COLORS: usize = 256;

/// Writes frames as a GIF.
pub struct Gif<W: Write> {
    encoder: Encoder<W>,
    last: Option<IndexedPicture>,
}

impl<W: Write> std::fmt::Debug for Gif<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gif").finish_non_exhaustive()
    }
}

impl<W: Write> Gif<W> {
    /// A film that is written to `out`.
    pub fn new_film(
        out: W,
        header: &RecordingHeader<'_>,
        settings: FilmSettings,
    ) -> io::Result<FilmWriter<Self>> {
        let (width, height) =
            FrameDrawer::new(settings.profile.clone()).canvas_pixels(settings.canvas);
        let too_large = |_| io::Error::other("a GIF has at most 65535 pixels each way");
        let width = u16::try_from(width).map_err(too_large)?;
        let height = u16::try_from(height).map_err(too_large)?;
        let mut encoder = Encoder::new(out, width, height, &[]).map_err(as_io)?;
        encoder.set_repeat(Repeat::Infinite).map_err(as_io)?;
        Ok(FilmWriter::with_sink(Self { encoder, last: None }, header, settings))
    }

    fn write_part(
        &mut self,
        picture: &IndexedPicture,
        part: PixelRect,
        delay: u16,
    ) -> io::Result<()> {
        let (palette, buffer) = reduce_colors(picture, part);
        let frame = Frame {
            delay,
            dispose: DisposalMethod::Keep,
            left: part.left as u16,
            top: part.top as u16,
            width: part.width as u16,
            height: part.height as u16,
            palette: Some(palette),
            buffer: buffer.into(),
            ..Frame::default()
        };
        self.encoder.write_frame(&frame).map_err(as_io)
    }
}

fn as_io(error: EncodingError) -> io::Error {
    match error {
        EncodingError::Io(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

impl<W: Write> FrameSink for Gif<W> {
    fn show_frame(&mut self, picture: &IndexedPicture, frames: u64) -> io::Result<()> {
        let mut left = frames * FRAME_DELAY;
        let mut part = changed_rect(self.last.as_ref(), picture);
        // A delay has sixteen bits; a longer one is written as several frames that change one pixel to itself.
        while left > 0 {
            let delay = u16::try_from(left).unwrap_or(u16::MAX);
            self.write_part(picture, part, delay)?;
            left -= u64::from(delay);
            part = PixelRect { left: 0, top: 0, width: 1, height: 1 };
        }
        self.last = Some(picture.clone());
        Ok(())
    }

    fn end_film(&mut self) -> io::Result<()> {
        // The encoder ends the file when it is dropped; here it is told whether that worked.
        self.encoder.get_mut().flush()
    }
}

/// A part of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PixelRect {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

/// The smallest rectangle that holds every pixel that is another; one pixel where none is.
fn changed_rect(last: Option<&IndexedPicture>, picture: &IndexedPicture) -> PixelRect {
    let (width, height) = (picture.width, picture.height);
    let Some(last) = last else { return PixelRect { left: 0, top: 0, width, height } };
    let differs = |at: usize| {
        last.colors[usize::from(last.pixels[at])] != picture.colors[usize::from(picture.pixels[at])]
    };
    let row_differs = |row: &usize| (row * width..(row + 1) * width).any(differs);
    let Some(top) = (0..height).find(row_differs) else {
        return PixelRect { left: 0, top: 0, width: 1, height: 1 };
    };
    let bottom = (top..height).rev().find(row_differs).unwrap_or(top);
    let column_differs = |column: &usize| (top..=bottom).any(|row| differs(row * width + column));
    let left = (0..width).find(column_differs).unwrap_or(0);
    let right = (left..width).rev().find(column_differs).unwrap_or(left);
    PixelRect { left, top, width: right - left + 1, height: bottom - top + 1 }
}

/// The pixels of a part with at most 256 colours. Of more, those that most pixels have are kept, and the
/// others become the nearest of them.
fn reduce_colors(picture: &IndexedPicture, part: PixelRect) -> (Vec<u8>, Vec<u8>) {
    let rows = (part.top..part.top + part.height)
        .map(|row| row * picture.width + part.left)
        .flat_map(|start| &picture.pixels[start..start + part.width]);
    let mut counts: HashMap<u16, u64> = HashMap::new();
    rows.clone().for_each(|place| *counts.entry(*place).or_default() += 1);
    let mut used: Vec<(u16, u64)> = counts.into_iter().collect();
    // Colours are numbered as they were first drawn, so that the order does not depend on a hash.
    used.sort_by_key(|(place, count)| (std::cmp::Reverse(*count), *place));
    let kept: Vec<Rgb> = used
        .iter()
        .take(MAX_COLORS)
        .map(|(place, _)| picture.colors[usize::from(*place)])
        .collect();
    let mut places = vec![0_u8; picture.colors.len()];
    for (rank, (place, _)) in used.iter().enumerate() {
        let index = match rank < MAX_COLORS {
            true => rank,
            false => nearest_color(&kept, picture.colors[usize::from(*place)]),
        };
        places[usize::from(*place)] = index as u8;
    }
    (kept.concat(), rows.map(|place| places[usize::from(*place)]).collect())
}

fn nearest_color(kept: &[Rgb], color: Rgb) -> usize {
    let distance = |other: &Rgb| -> i32 {
        let parts = color.iter().zip(other).map(|(a, b)| i32::from(*a) - i32::from(*b));
        parts.map(|part| part * part).sum()
    };
    (0..kept.len()).min_by_key(|index| distance(&kept[*index])).unwrap_or(0)
}
