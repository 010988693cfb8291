//! `[terminal]` and `[profiles.NAME]`: how hosted terminals are kept and drawn.

use std::collections::BTreeMap;

use flows::terminal::picture;
use flows::terminal::screen::ScreenLimits;
use flows::terminal::screen::png::Profile;
use model::wire::ConfigSetting;
use serde::Deserialize;

/// `[terminal]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TerminalTable {
    scrollback: Option<usize>,
    profile: Option<String>,
}

/// How terminals are kept and drawn.
#[derive(Debug)]
pub(crate) struct TerminalSettings {
    /// How many lines that scrolled away are kept.
    pub(crate) scrollback_lines: usize,
    /// The profile that is drawn with by default.
    pub(crate) profile: String,
    /// The user's own profiles.
    pub(crate) profiles: Vec<Profile>,
}

impl Default for TerminalSettings {
    fn default() -> Self {
        Self {
            scrollback_lines: ScreenLimits::default().scrollback_lines,
            profile: Profile::reference_dark().name,
            profiles: Vec::new(),
        }
    }
}

/// The settings, where each comes from, or what is wrong with them.
pub(super) fn read_terminal_settings(
    table: TerminalTable,
    profiles: BTreeMap<String, Profile>,
    file: &str,
) -> Result<(TerminalSettings, Vec<ConfigSetting>), String> {
    let usual = TerminalSettings::default();
    let origin = |is_set: bool| if is_set { file } else { "default" }.to_owned();
    let origins = [
        origin(table.scrollback.is_some()),
        origin(table.profile.is_some()),
        origin(!profiles.is_empty()),
    ];
    let profiles = profiles
        .into_iter()
        .map(|(name, profile)| check_own_profile(name, profile))
        .collect::<Result<_, _>>()?;
    let terminals = TerminalSettings {
        scrollback_lines: table.scrollback.unwrap_or(usual.scrollback_lines),
        profile: table.profile.unwrap_or(usual.profile),
        profiles,
    };
    picture::find_profile(&terminals.profile, &terminals.profiles)
        .map_err(|fault| format!("`terminal.profile`: {}", fault.message))?;
    let names: Vec<&str> = terminals.profiles.iter().map(|one| one.name.as_str()).collect();
    let keys = ["terminal.scrollback", "terminal.profile", "profiles"];
    let values = [
        terminals.scrollback_lines.to_string(),
        format!("{:?}", terminals.profile),
        format!("{names:?}"),
    ];
    let settings = keys.into_iter().zip(values).zip(origins);
    let settings =
        settings.map(|((key, value), origin)| ConfigSetting { key, value, origin }).collect();
    Ok((terminals, settings))
}

/// One of the user's own profiles, under the name of its table.
fn check_own_profile(name: String, profile: Profile) -> Result<Profile, String> {
    let wrong = |reason: String| Err(format!("`profiles.{name}` {reason}"));
    if Profile::find_reference(&name).is_some() {
        return wrong("is always there and cannot be changed; choose another name".to_owned());
    }
    if !profile.name.is_empty() && profile.name != name {
        return wrong(format!("is called `{}` in it; leave `name` out", profile.name));
    }
    if !(1..=Profile::MAX_SCALE).contains(&profile.scale) {
        return wrong(format!(
            "has `scale = {}`, which is not 1 to {}",
            profile.scale,
            Profile::MAX_SCALE
        ));
    }
    Ok(Profile { name, ..profile })
}
