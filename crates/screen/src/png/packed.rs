//! Fonts as the build script packed them: each is unpacked when something is first drawn with it.

use std::io::Read;
use std::sync::LazyLock;

use flate2::read::ZlibDecoder;

/// One font of the program.
pub(crate) type PackedFont = LazyLock<Vec<u8>>;

macro_rules! packed_font {
    ($name:literal) => {
        LazyLock::new(|| unpack(include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".zz"))))
    };
}

pub(crate) static MONO: PackedFont = packed_font!("mono");
pub(crate) static MONO_BOLD: PackedFont = packed_font!("mono-bold");
pub(crate) static MONO_OBLIQUE: PackedFont = packed_font!("mono-oblique");
pub(crate) static MONO_BOLD_OBLIQUE: PackedFont = packed_font!("mono-bold-oblique");
pub(crate) static SYMBOLS: PackedFont = packed_font!("symbols");
pub(crate) static EMOJI: PackedFont = packed_font!("emoji");
static BITMAPS: PackedFont = packed_font!("bitmaps");

/// What the build script has written can be read; were it not so, nothing would be drawn with the font.
fn unpack(packed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    match ZlibDecoder::new(packed).read_to_end(&mut bytes) {
        Ok(_) => bytes,
        Err(_) => Vec::new(),
    }
}

/// A character of the bitmap font.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BitmapGlyph {
    pub(crate) width: usize,
    rows: &'static [u8],
}

impl BitmapGlyph {
    pub(crate) const HEIGHT: usize = 16;
    const RECORD_BYTES: usize = 5 + 2 * Self::HEIGHT;

    /// The glyph of a character, of those in the first plane.
    pub(crate) fn find(c: char) -> Option<Self> {
        let (records, _) = BITMAPS.as_chunks::<{ Self::RECORD_BYTES }>();
        let number = |record: &[u8; Self::RECORD_BYTES]| {
            u32::from_le_bytes([record[0], record[1], record[2], record[3]])
        };
        let at = records.binary_search_by_key(&u32::from(c), number).ok()?;
        Some(Self { width: usize::from(records[at][4]), rows: &records[at][5..] })
    }

    pub(crate) fn is_lit(&self, x: usize, y: usize) -> bool {
        let row = u16::from_le_bytes([self.rows[2 * y], self.rows[2 * y + 1]]);
        row & 0x8000 >> x != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_fonts_are_what_was_packed() {
        assert_eq!(*MONO, dejavu::sans_mono::regular());
        assert_eq!(*MONO_BOLD, dejavu::sans_mono::bold());
        assert_eq!(*MONO_OBLIQUE, dejavu::sans_mono::oblique());
        assert_eq!(*MONO_BOLD_OBLIQUE, dejavu::sans_mono::bold_oblique());
        assert_eq!(*SYMBOLS, dejavu::sans::regular());
        assert_eq!(*EMOJI, epaint_default_fonts::NOTO_EMOJI_REGULAR);
    }

    #[test]
    fn every_bitmap_is_what_was_packed() {
        for c in (0..=0xffff).filter_map(char::from_u32) {
            let (found, packed) = (BitmapGlyph::find(c), unifont::get_glyph(c));
            assert_eq!(
                found.map(|glyph| glyph.width),
                packed.map(unifont::Glyph::get_width),
                "{c}"
            );
            let Some((found, packed)) = found.zip(packed) else { continue };
            for (x, y) in (0..16).flat_map(|x| (0..16).map(move |y| (x, y))) {
                assert_eq!(found.is_lit(x, y), packed.get_pixel(x, y), "{c} at {x},{y}");
            }
        }
        assert!(BitmapGlyph::find('\u{1f600}').is_none());
    }
}
