//! A picture of a session's screen, and the profiles it is drawn with.

use model::hosted::wire::ScreenshotResult;
use model::hosted::{FaultCode, HostFault};
use screen::Screen;
use screen::png::{self, Profile, ShowCursor};
use serde_json::{Map, Value};

use crate::artifacts::{self, ArtifactDir, ArtifactKind, NewArtifact};

/// What draws screens, by its name.
pub const RENDERER_NAME: &str = "ostler";

/// How many pixels a picture may have: drawing it must neither hold up its host for long nor take much
/// memory.
const MOST_PIXELS: u64 = 40_000_000;

/// The longest name of a profile.
const MAX_PROFILE_NAME: usize = 100;

/// Finds a profile by its name, among `own` and those that are always there.
pub fn find_profile(name: &str, own: &[Profile]) -> Result<Profile, HostFault> {
    if name.is_empty() || name.chars().count() > MAX_PROFILE_NAME {
        let fault = HostFault::invalid_input("Screenshot request is invalid.");
        return Err(fault.with("profile", name));
    }
    own.iter()
        .find(|profile| profile.name == name)
        .cloned()
        .or_else(|| Profile::find_reference(name))
        .ok_or_else(|| {
            let own = own.iter().map(|profile| format!(", {}", profile.name));
            HostFault::invalid_input(format!(
                "unknown render profile `{name}`; there are: reference-dark, reference-light{}",
                own.collect::<String>()
            ))
            .with("profile", name)
        })
}

/// A picture of a screen, not kept anywhere.
#[derive(Clone, Debug)]
pub struct DrawnPicture {
    pub png: Vec<u8>,
    pub pixel_width: u32,
    pub pixel_height: u32,
}

/// Draws the screen, unless the picture would be too large.
pub fn draw_picture(
    screen: &Screen,
    profile: &Profile,
    cursor: ShowCursor,
) -> Result<DrawnPicture, HostFault> {
    let (pixel_width, pixel_height) = png::pixel_size(screen, profile);
    let size = screen.size();
    if u64::from(pixel_width) * u64::from(pixel_height) > MOST_PIXELS {
        let message = format!(
            "a picture of {}x{} cells would have {pixel_width}x{pixel_height} pixels, which is too many; \
             make the terminal smaller (`resize`), or take a snapshot",
            size.cols, size.rows
        );
        return Err(HostFault::new(FaultCode::InvalidDimensions, message));
    }
    Ok(DrawnPicture { png: png::draw_png(screen, profile, cursor), pixel_width, pixel_height })
}

/// Draws the screen and keeps the picture.
pub fn draw_screenshot(
    shelf: ArtifactDir<'_>,
    (screen, seq): (&Screen, i64),
    profile: &Profile,
    cursor: ShowCursor,
) -> Result<ScreenshotResult, HostFault> {
    let DrawnPicture { png, pixel_width, pixel_height } = draw_picture(screen, profile, cursor)?;
    let size = screen.size();
    // An event's number is never negative in the list.
    let listed = seq.max(0);
    let (hash, name) = (profile.hash(), profile.name.clone());
    let metadata = Map::from_iter([
        ("profileName".to_owned(), Value::from(name.clone())),
        ("renderProfileHash".to_owned(), hash.clone().into()),
        ("pixelWidth".to_owned(), pixel_width.into()),
        ("pixelHeight".to_owned(), pixel_height.into()),
        ("cols".to_owned(), size.cols.into()),
        ("rows".to_owned(), size.rows.into()),
        ("pngSizeBytes".to_owned(), png.len().into()),
        ("rendererBackend".to_owned(), RENDERER_NAME.into()),
    ]);
    let (path, sha256) = artifacts::keep_artifact(
        shelf,
        NewArtifact {
            kind: ArtifactKind::Screenshot,
            filename: format!("screenshot-{listed}-{}.png", file_name(&name)),
            seq: listed,
            content: &png,
            metadata,
        },
    )?;
    Ok(ScreenshotResult {
        session_id: shelf.id.to_owned(),
        captured_at_seq: seq,
        profile_name: name,
        cols: size.cols,
        rows: size.rows,
        artifact_path: path.to_str().map(str::to_owned).ok_or_else(|| {
            HostFault::new(FaultCode::StorageWriteError, "the path of the picture is not text")
        })?,
        png_size_bytes: png.len() as u64,
        cursor_visible: cursor == ShowCursor::Yes && screen.cursor().visible,
        renderer_backend: RENDERER_NAME.to_owned(),
        pixel_width,
        pixel_height,
        sha256,
        render_profile_hash: hash,
    })
}

/// A profile's name, as far as it can be part of a file's.
fn file_name(name: &str) -> String {
    name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "_")
}
