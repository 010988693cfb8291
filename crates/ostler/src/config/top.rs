//! `[top]`: how the dashboard is opened.

use std::collections::BTreeMap;

use model::wire::ConfigSetting;
use serde::Deserialize;

use crate::top::{PaneKind, TopKeyMap};

/// `[top]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TopTable {
    mouse: Option<bool>,
    preview: Option<String>,
    group: Option<String>,
    #[serde(default)]
    keys: BTreeMap<String, String>,
}

/// How the dashboard is opened.
#[derive(Debug)]
pub(crate) struct TopSettings {
    pub(crate) mouse: bool,
    pub(crate) preview: PaneKind,
    pub(crate) by_project: bool,
    pub(crate) keys: TopKeyMap,
}

/// The settings, where each comes from, or what is wrong with them.
pub(super) fn read_top_settings(
    table: &TopTable,
    file: &str,
) -> Result<(TopSettings, Vec<ConfigSetting>), String> {
    let origin = |is_set: bool| if is_set { file } else { "default" }.to_owned();
    let preview = match table.preview.as_deref() {
        None | Some("screen") => PaneKind::Screen,
        Some("talk") => PaneKind::Talk,
        Some("facts") => PaneKind::Facts,
        Some("usage") => PaneKind::Usage,
        Some(other) => {
            return Err(format!("`top.preview = {other:?}` is none of screen, talk, facts, usage"));
        }
    };
    let by_project = match table.group.as_deref() {
        None | Some("attention") => false,
        Some("project") => true,
        Some(other) => {
            return Err(format!("`top.group = {other:?}` is neither attention nor project"));
        }
    };
    let keys = TopKeyMap::with_settings(&table.keys)?;
    let mouse = table.mouse.unwrap_or(true);
    let setting = |key, value, is_set| ConfigSetting { key, value, origin: origin(is_set) };
    let group = if by_project { "project" } else { "attention" };
    let settings = vec![
        setting("top.mouse", mouse.to_string(), table.mouse.is_some()),
        setting("top.preview", preview.as_str().to_owned(), table.preview.is_some()),
        setting("top.group", group.to_owned(), table.group.is_some()),
        setting("top.keys", format!("{:?}", table.keys), !table.keys.is_empty()),
    ];
    Ok((TopSettings { mouse, preview, by_project, keys }, settings))
}
