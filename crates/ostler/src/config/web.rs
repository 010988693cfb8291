//! `[web]`: how `ostler web` serves.

use model::wire::ConfigSetting;
use serde::Deserialize;

use crate::api::ApiRight;

/// `[web]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WebTable {
    port: Option<u16>,
    start: Option<WebStart>,
    allow: Option<Vec<String>>,
    hosts: Option<Vec<String>>,
    url: Option<String>,
}

/// When the page is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WebStart {
    /// When `ostler web` is started.
    #[default]
    Never,
    /// While the daemon runs.
    WithDaemon,
}

/// How the page is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebSettings {
    pub(crate) port: u16,
    pub(crate) start: WebStart,
    /// The rights of a new sign-in.
    pub(crate) allowed: ApiRight,
    /// Names of a TLS proxy on this machine, beside our own.
    pub(crate) hosts: Vec<String>,
    /// Where that proxy is reached.
    pub(crate) url: Option<String>,
}

impl Default for WebSettings {
    fn default() -> Self {
        Self {
            port: 7117,
            start: WebStart::Never,
            allowed: ApiRight::Watch,
            hosts: Vec::new(),
            url: None,
        }
    }
}

/// The highest of the rights in a list of words; watching is always among them.
pub(crate) fn parse_rights<'a>(words: impl Iterator<Item = &'a str>) -> Result<ApiRight, String> {
    words.into_iter().try_fold(ApiRight::Watch, |highest, word| {
        let right = ApiRight::parse(word)
            .ok_or_else(|| format!("`{word}` is not a right; there are: watch, type, manage"))?;
        Ok(highest.max(right))
    })
}

/// The settings, where each comes from, or what is wrong with them.
pub(super) fn read_web_settings(
    table: WebTable,
    file: &str,
) -> Result<(WebSettings, Vec<ConfigSetting>), String> {
    let usual = WebSettings::default();
    let origin = |is_set: bool| if is_set { file } else { "default" }.to_owned();
    let origins = [
        origin(table.port.is_some()),
        origin(table.start.is_some()),
        origin(table.allow.is_some()),
        origin(table.hosts.is_some()),
        origin(table.url.is_some()),
    ];
    let words = table.allow.unwrap_or_default();
    let allowed = parse_rights(words.iter().map(String::as_str))
        .map_err(|wrong| format!("`web.allow`: {wrong}"))?;
    let hosts = table.hosts.unwrap_or_default();
    if let Some(host) = hosts.iter().find(|host| !is_host_name(host)) {
        return Err(format!("`web.hosts` has {host:?}, which is not a name like `box.example`"));
    }
    // The documented default is written as an empty text.
    let url = table.url.filter(|url| !url.is_empty());
    if let Some(url) = url.as_deref()
        && !url
            .strip_prefix("https://")
            .is_some_and(|host| is_host_name(host.trim_end_matches('/')))
    {
        return Err(format!("`web.url = {url:?}` is not an address like https://box.example"));
    }
    let url = url.map(|url| url.trim_end_matches('/').to_owned());
    let settings = WebSettings {
        port: table.port.unwrap_or(usual.port),
        start: table.start.unwrap_or_default(),
        allowed,
        hosts,
        url,
    };
    let keys = ["web.port", "web.start", "web.allow", "web.hosts", "web.url"];
    let values = [
        settings.port.to_string(),
        match settings.start {
            WebStart::Never => "\"never\"".to_owned(),
            WebStart::WithDaemon => "\"with-daemon\"".to_owned(),
        },
        format!("{:?}", settings.allowed.as_str()),
        format!("{:?}", settings.hosts),
        format!("{:?}", settings.url.as_deref().unwrap_or("")),
    ];
    let shown = keys.into_iter().zip(values).zip(origins);
    let shown = shown.map(|((key, value), origin)| ConfigSetting { key, value, origin }).collect();
    Ok((settings, shown))
}

fn is_host_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
    !text.is_empty() && text.chars().all(is_plain) && !text.starts_with(['.', '-', ':'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_page_are_strict() {
        let read = |text: &str| {
            let table: WebTable = toml::from_str(text).map_err(|error| error.to_string())?;
            read_web_settings(table, "config.toml").map(|(settings, _)| settings)
        };
        assert_eq!(read("").unwrap(), WebSettings::default());
        let full = "port = 80\nstart = \"with-daemon\"\nallow = [\"type\"]\nhosts = [\"box.example\"]\nurl = \"https://box.example/\"";
        let full = read(full).unwrap();
        assert_eq!(
            (full.allowed, full.start, full.url.as_deref()),
            (ApiRight::Type, WebStart::WithDaemon, Some("https://box.example"))
        );
        for wrong in [
            "bind = \"0.0.0.0\"",
            "address = \"0.0.0.0\"",
            "port = 70000",
            "start = \"always\"",
            "allow = [\"all\"]",
            "hosts = [\"http://x\"]",
            "hosts = [\"\"]",
            "url = \"http://box.example\"",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
