//! A picture of a session's screen, from its host or from its files.

use host::picture;
pub use host::picture::profile;
use host::screen::png::{Profile, ShowCursor};
use model::hosted::Fault;
use model::hosted::wire::ScreenshotResult;

use super::{Home, Session, look};

/// Draws the screen and keeps the picture. The host is spared the drawing: it gives its screen.
pub fn screenshot(
    home: &Home,
    session: &Session,
    profile: &Profile,
    cursor: ShowCursor,
) -> Result<ScreenshotResult, Fault> {
    let (screen, seq) = look::screen(session)?;
    picture::screenshot(session.shelf(home.personality), (&screen, seq), profile, cursor)
}
