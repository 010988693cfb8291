//! Packs the fonts that pictures are drawn with. Unpacked they would be a seventh of the program, and most
//! commands draw nothing (docs/decisions/0160-what-the-program-weighs.md).

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let directory = std::env::var_os("OUT_DIR").ok_or("cargo names no directory")?;
    let fonts: [(&str, &[u8]); 6] = [
        ("mono", dejavu::sans_mono::regular()),
        ("mono-bold", dejavu::sans_mono::bold()),
        ("mono-oblique", dejavu::sans_mono::oblique()),
        ("mono-bold-oblique", dejavu::sans_mono::bold_oblique()),
        ("symbols", dejavu::sans::regular()),
        ("emoji", epaint_default_fonts::NOTO_EMOJI_REGULAR),
    ];
    for (name, bytes) in fonts.into_iter().chain([("bitmaps", &*bitmap_records())]) {
        let path = Path::new(&directory).join(format!("{name}.zz"));
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::best());
        packed.write_all(bytes)?;
        std::fs::write(path, packed.finish()?)?;
    }
    Ok(())
}

/// The bitmap font: per character its number, its width and its rows, as `src/png/packed.rs` reads them.
fn bitmap_records() -> Vec<u8> {
    let mut records = Vec::new();
    for (c, glyph) in unifont::enumerate_glyphs() {
        records.extend_from_slice(&u32::from(c).to_le_bytes());
        records.push(glyph.get_width() as u8);
        for y in 0..16 {
            let lit = (0..16).filter(|&x| glyph.get_pixel(x, y));
            let row = lit.fold(0_u16, |row, x| row | 0x8000 >> x);
            records.extend_from_slice(&row.to_le_bytes());
        }
    }
    records
}
