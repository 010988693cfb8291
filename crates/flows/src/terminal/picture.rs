//! A picture of a session's screen, from its host or from its files.

use host::client::ask_host;
use host::picture;
pub use host::picture::{DrawnPicture, find_profile};
use host::screen::png::{Profile, ShowCursor};
use model::hosted::wire::{ScreenshotParams, ScreenshotResult};
use model::hosted::{FaultCode, HostFault};

use super::{HostedSession, TerminalHome, look};
use crate::timeouts::FOREIGN_DRAWING_TIMEOUT;

/// Draws the screen and keeps nothing of it.
pub fn draw_terminal(
    session: &HostedSession,
    profile: &Profile,
    cursor: ShowCursor,
) -> Result<DrawnPicture, HostFault> {
    // A host of agent-tty's gives no screen, and keeps what it draws: its log is as good.
    let is_foreign = session.holder.is_none() && session.asks_host();
    let screen = match is_foreign {
        true => look::replay_session(session)?.screen,
        false => look::load_screen(session)?.0,
    };
    picture::draw_picture(&screen, profile, cursor)
}

/// Draws the screen and keeps the picture. The host is spared the drawing: it gives its screen.
pub fn take_screenshot(
    home: &TerminalHome,
    session: &HostedSession,
    profile: &Profile,
    cursor: ShowCursor,
) -> Result<ScreenshotResult, HostFault> {
    if session.holder.is_none() && session.asks_host() {
        // A host of agent-tty's draws by itself.
        let query = ScreenshotParams {
            profile: Some(profile.name.clone()),
            show_cursor: cursor == ShowCursor::Yes,
            renderer_name: None,
        };
        match ask_host(session.host(), &query, Some(FOREIGN_DRAWING_TIMEOUT)) {
            Err(fault) if fault.code == FaultCode::HostUnreachable => {}
            drawn => return drawn,
        }
    }
    let (screen, seq) = look::load_screen(session)?;
    picture::draw_screenshot(
        session.artifact_dir(home.personality),
        (&screen, seq),
        profile,
        cursor,
    )
}
