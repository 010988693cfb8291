//! `[permits]`: how long permission requests wait for an answer.

use std::time::Duration;

use flows::permit_channel::PermitWaits;
use model::wire::ConfigSetting;
use serde::Deserialize;

use crate::render::duration;

/// `[permits]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PermitsTable {
    wait: Option<String>,
    wait_beside_dialog: Option<String>,
}

/// The settings, and where each comes from.
pub(super) fn read_permit_waits(
    table: &PermitsTable,
    file: &str,
) -> Result<(PermitWaits, Vec<ConfigSetting>), String> {
    let mut settings = Vec::new();
    let mut read = |key: &'static str, text: &Option<String>, usual: Duration| {
        let span = match text {
            None => usual,
            Some(text) => duration::parse_duration(text)
                .filter(|span| !span.is_zero())
                .ok_or_else(|| format!("`{key} = {text:?}` is not a duration like 60s or 1h"))?,
        };
        let origin = if text.is_some() { file } else { "default" }.to_owned();
        let value = format!("{:?}", duration::exact_span(span));
        settings.push(ConfigSetting { key, value, origin });
        Ok::<_, String>(span)
    };
    let usual = PermitWaits::default();
    let waits = PermitWaits {
        before_dialog: read("permits.wait", &table.wait, usual.before_dialog)?,
        beside_dialog: read(
            "permits.wait_beside_dialog",
            &table.wait_beside_dialog,
            usual.beside_dialog,
        )?,
    };
    Ok((waits, settings))
}
