//! `[fleet]`: what this member lets operators do, and how much it says of itself.

use std::collections::BTreeMap;

use model::helper::FleetSettings;
use model::time::whole_millis;
use model::wire::{ConfigSetting, FleetLevel};
use serde::Deserialize;

use crate::render::duration;

/// `[fleet]` as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FleetTable {
    allow: Option<String>,
    share: Option<String>,
    renew: Option<String>,
    look: Option<String>,
    agents_may: Option<String>,
    timeout: Option<String>,
    /// How ssh reaches members, by name.
    #[serde(default)]
    pub(super) ssh: BTreeMap<String, String>,
}

/// Reads the settings, with what `config show` lists of them.
pub(super) fn read_fleet_settings(
    table: &FleetTable,
    file: &str,
) -> Result<(FleetSettings, Vec<ConfigSetting>), String> {
    let mut settings = FleetSettings::default();
    for (name, text, level) in [
        ("allow", &table.allow, &mut settings.allow),
        ("agents_may", &table.agents_may, &mut settings.agents_may),
    ] {
        let Some(text) = text else { continue };
        *level = FleetLevel::parse(text)
            .ok_or_else(|| format!("`fleet.{name} = {text:?}` is not none, read, drive or reap"))?;
    }
    let is_target = |target: &String| {
        !target.is_empty() && !target.starts_with('-') && !target.contains(char::is_control)
    };
    if let Some((name, target)) = table.ssh.iter().find(|(_, target)| !is_target(target)) {
        return Err(format!("`fleet.ssh.{name} = {target:?}` cannot name a machine for ssh"));
    }
    settings.minimal = match table.share.as_deref() {
        None | Some("full") => false,
        Some("minimal") => true,
        Some(text) => return Err(format!("`fleet.share = {text:?}` is not full or minimal")),
    };
    let span = |name: &str, text: &Option<String>, least: u64, most: u64, default: u64| {
        let Some(text) = text else { return Ok(default) };
        let parsed = duration::parse_duration(text).map(whole_millis);
        parsed.filter(|span| (least..=most).contains(span)).ok_or_else(|| {
            format!(
                "`fleet.{name} = {text:?}` is not a span of {} to {} s",
                least / 1000,
                most / 1000
            )
        })
    };
    settings.renew_ms = span("renew", &table.renew, 1000, 60_000, settings.renew_ms)?;
    settings.look_ms = span("look", &table.look, 1000, 3_600_000, settings.look_ms)?;
    settings.timeout_ms = span("timeout", &table.timeout, 1000, 60_000, settings.timeout_ms)?;
    let origin = |is_set: bool| if is_set { file.to_owned() } else { "default".to_owned() };
    let listed = vec![
        ConfigSetting {
            key: "fleet.allow",
            value: settings.allow.as_str().to_owned(),
            origin: origin(table.allow.is_some()),
        },
        ConfigSetting {
            key: "fleet.share",
            value: if settings.minimal { "minimal" } else { "full" }.to_owned(),
            origin: origin(table.share.is_some()),
        },
        ConfigSetting {
            key: "fleet.agents_may",
            value: settings.agents_may.as_str().to_owned(),
            origin: origin(table.agents_may.is_some()),
        },
        ConfigSetting {
            key: "fleet.ssh",
            value: format!("{:?}", table.ssh),
            origin: origin(!table.ssh.is_empty()),
        },
    ];
    Ok((settings, listed))
}
