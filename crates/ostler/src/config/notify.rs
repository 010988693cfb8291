//! `[notify]`: how a person is told that an agent needs them.

use flows::notify::NotifySettings;
use model::rules::notice::NoticeKind;
use model::wire::ConfigSetting;
use serde::Deserialize;

/// `[notify]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NotifyTable {
    desktop: Option<bool>,
    bell: Option<bool>,
    command: Option<Vec<String>>,
    on: Option<Vec<NoticeKind>>,
}

/// The settings, and where each comes from.
pub(super) fn read_notify_settings(
    table: NotifyTable,
    file: &str,
) -> Result<(NotifySettings, Vec<ConfigSetting>), String> {
    let origin = |is_set: bool| if is_set { file } else { "default" }.to_owned();
    let origins = [
        origin(table.desktop.is_some()),
        origin(table.bell.is_some()),
        origin(table.command.is_some()),
        origin(table.on.is_some()),
    ];
    let settings = NotifySettings {
        desktop: table.desktop.unwrap_or(false),
        bell: table.bell.unwrap_or(false),
        command: table.command.unwrap_or_default(),
        on: table.on.unwrap_or_else(|| NoticeKind::ALL.to_vec()),
    };
    if settings.command.first().is_some_and(String::is_empty) {
        return Err("`notify.command` names no program".to_owned());
    }
    let told: Vec<&str> = settings.on.iter().map(|kind| kind.as_str()).collect();
    let keys = ["notify.desktop", "notify.bell", "notify.command", "notify.on"];
    let values = [
        settings.desktop.to_string(),
        settings.bell.to_string(),
        format!("{:?}", settings.command),
        format!("{told:?}"),
    ];
    let shown = keys.into_iter().zip(values).zip(origins);
    let shown = shown.map(|((key, value), origin)| ConfigSetting { key, value, origin }).collect();
    Ok((settings, shown))
}
