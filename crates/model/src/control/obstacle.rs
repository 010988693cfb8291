//! Start-up dialogs: what a started agent asks a person before it takes a prompt, by the headings it shows.
//!
//! Nothing here answers one. A heading is a whole phrase of a dialog; a banner that merely mentions an
//! update is none.

use super::wire::LaunchObstacle;

/// Headings of dialogs that ask for a login.
const LOGIN_HEADINGS: &[&str] = &[
    "select login method",
    "sign in with chatgpt",
    "how would you like to authenticate",
    "login required",
    "please log in",
    "you are not logged in",
    "enter your api key",
    "detected a custom api key",
];

/// Headings of dialogs that offer an update and wait for a choice.
const UPDATE_HEADINGS: &[&str] =
    &["skip until next version", "update now and restart", "would you like to update"];

/// What the screen of a started agent asks, if it is known to ask something. `trust_words` are the agent's
/// own for a directory that it was never in.
pub fn find_obstacle(screen: &str, trust_words: &[&str]) -> Option<LaunchObstacle> {
    let shown = squeeze_screen(screen);
    let shows = |words: &[&str]| words.iter().any(|one| shown.contains(&squeeze_screen(one)));
    if shows(trust_words) {
        Some(LaunchObstacle::Trust)
    } else if shows(LOGIN_HEADINGS) {
        Some(LaunchObstacle::Login)
    } else if shows(UPDATE_HEADINGS) {
        Some(LaunchObstacle::Update)
    } else {
        None
    }
}

/// A text without what frames and line breaks put between its words.
fn squeeze_screen(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUST: &[&str] = &["Do you trust", "trust this folder"];

    #[test]
    fn row_10_a_trust_dialog_is_known_through_frames_and_line_breaks() {
        let screen = "╭────────╮\n│ Do you │\n│ trust the files in this folder? │\n│ ❯ 1. Yes │";
        assert_eq!(find_obstacle(screen, TRUST), Some(LaunchObstacle::Trust));
        assert_eq!(find_obstacle("> \n  ? for shortcuts", TRUST), None);
    }

    #[test]
    fn row_34_a_login_and_an_update_dialog_are_told_apart_and_a_banner_is_none() {
        assert_eq!(find_obstacle("Select login method:", TRUST), Some(LaunchObstacle::Login));
        let update = "Update available!\n 1. Update now\n 2. Skip\n 3. Skip until next version";
        assert_eq!(find_obstacle(update, TRUST), Some(LaunchObstacle::Update));
        assert_eq!(find_obstacle("Update available! Run npm install", TRUST), None);
    }
}
