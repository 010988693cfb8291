//! The configuration file: one TOML, strict. An unknown key is an error with its line. What only looks
//! goes on with the rest of the file (`salvage`).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use flows::terminal::screen::png::Profile;
use model::config::{OstlerConfig, Retention};
use model::usage::{PriceTable, TokenPrice};
use model::wire::{ConfigSetting, IncompleteSource};
use serde::Deserialize;

use crate::env;
use crate::error::Error;
use crate::render::{duration, size};

mod fleet;
mod mcp;
mod notify;
mod permits;
mod salvage;
mod terminal;
mod top;
mod web;

use mcp::McpTable;
pub(crate) use mcp::{McpRight, McpServerSettings};
pub(crate) use terminal::TerminalSettings;
use terminal::TerminalTable;
pub(crate) use top::TopSettings;
use top::TopTable;
use web::WebTable;
pub(crate) use web::{WebSettings, WebStart, parse_rights};

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    stale_after: Option<String>,
    disabled_adapters: Option<Vec<String>>,
    #[serde(default)]
    adapters: BTreeMap<String, AdapterTable>,
    #[serde(default)]
    retention: RetentionTable,
    #[serde(default)]
    fleet: fleet::FleetTable,
    #[serde(default)]
    terminal: TerminalTable,
    #[serde(default)]
    top: TopTable,
    #[serde(default)]
    web: WebTable,
    #[serde(default)]
    mcp: McpTable,
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
    #[serde(default)]
    prices: BTreeMap<String, PriceEntry>,
    #[serde(default)]
    notify: notify::NotifyTable,
    #[serde(default)]
    permits: permits::PermitsTable,
}

/// `[prices."model"]`: dollars for a million tokens of each kind.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceEntry {
    input: f64,
    output: f64,
    #[serde(default)]
    cache_read: f64,
    #[serde(default)]
    cache_write: f64,
}

/// `[adapters.ID]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdapterTable {
    #[serde(default)]
    roots: Vec<String>,
}

/// `[retention]`: ages like `30d`, sizes like `20GB`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RetentionTable {
    terminals: Option<String>,
    spills: Option<String>,
    launches: Option<String>,
    vault_bytes: Option<String>,
    temps: Option<String>,
    archives: Option<String>,
    worktrees: Option<String>,
    transcripts: Option<String>,
    transcript_bytes: Option<String>,
    trash: Option<String>,
}

/// Settings together with where each came from.
#[derive(Debug)]
pub(crate) struct LoadedConfig {
    pub(crate) config: OstlerConfig,
    pub(crate) terminals: TerminalSettings,
    pub(crate) top: TopSettings,
    pub(crate) fleet: model::helper::FleetSettings,
    /// How ssh reaches members of the fleet, by name.
    pub(crate) fleet_ssh: BTreeMap<String, String>,
    pub(crate) web: WebSettings,
    pub(crate) mcp: McpServerSettings,
    pub(crate) notify: flows::notify::NotifySettings,
    pub(crate) permits: flows::permit_channel::PermitWaits,
    pub(crate) file: Option<PathBuf>,
    pub(crate) settings: Vec<ConfigSetting>,
    /// What of the file does not hold; only [`load_what_holds`] goes on beside it.
    pub(crate) problems: Vec<IncompleteSource>,
}

/// Where the file is, whether or not it exists.
pub(crate) fn config_path() -> Option<PathBuf> {
    env::config_file()
        .or_else(|| Some(sys::dirs::of_this_process().ok()?.config.join("config.toml")))
}

/// Reads the settings: environment over file over default.
pub(crate) fn load_config() -> Result<LoadedConfig, Error> {
    let path = config_path();
    let file = match &path {
        Some(path) => read_config_file(path)?,
        None => File::default(),
    };
    settle_settings(file, path)
}

/// The same for commands that only look: a key that is wrong has its default and is a line of
/// `problems`. What changes anything asks [`load_config`].
pub(crate) fn load_what_holds() -> Result<LoadedConfig, Error> {
    match (load_config(), config_path()) {
        (Err(Error::Config { .. } | Error::Read { .. }), Some(path)) => {
            salvage::salvage_settings(path)
        }
        (loaded, _) => loaded,
    }
}

/// Checks every value of a file, and adds what it does not say.
fn settle_settings(file: File, path: Option<PathBuf>) -> Result<LoadedConfig, Error> {
    let from_file = path.as_ref().map_or_else(String::new, |path| path.display().to_string());
    let wrong = |reason: String| Error::Config { path: from_file.clone(), reason };
    let defaults = OstlerConfig::default();

    let (stale_after, stale_origin) = read_stale_after(file.stale_after.as_deref(), &from_file)?;
    let (disabled_adapters, disabled_origin) = match file.disabled_adapters {
        Some(ids) => (ids, from_file.clone()),
        None => (defaults.disabled_adapters, "default".to_owned()),
    };
    if let Some(unknown) = disabled_adapters.iter().find(|id| !flows::is_adapter(id)) {
        return Err(wrong(format!(
            "`disabled_adapters` names `{unknown}`, which is no adapter; there are: {}",
            flows::adapter_ids().collect::<Vec<_>>().join(", ")
        )));
    }
    let adapter_roots = read_adapter_roots(&file.adapters).map_err(&wrong)?;
    let (retention, kept) = read_retention(&file.retention, &from_file)?;
    let mut settings = vec![
        ConfigSetting {
            key: "stale_after",
            value: show_duration(stale_after),
            origin: stale_origin,
        },
        ConfigSetting {
            key: "disabled_adapters",
            value: format!("{disabled_adapters:?}"),
            origin: disabled_origin,
        },
    ];
    if !adapter_roots.is_empty() {
        settings.push(ConfigSetting {
            key: "adapters",
            value: format!("{adapter_roots:?}"),
            origin: from_file.clone(),
        });
    }
    settings.extend(kept);
    let (terminals, drawn) =
        terminal::read_terminal_settings(file.terminal, file.profiles, &from_file)
            .map_err(&wrong)?;
    settings.extend(drawn);
    let (top, opened) = top::read_top_settings(&file.top, &from_file).map_err(&wrong)?;
    settings.extend(opened);
    let (fleet, shared) = fleet::read_fleet_settings(&file.fleet, &from_file).map_err(&wrong)?;
    settings.extend(shared);
    let (web, paged) = web::read_web_settings(file.web, &from_file).map_err(&wrong)?;
    settings.extend(paged);
    let (mcp, served) = mcp::read_mcp_settings(file.mcp, &from_file).map_err(&wrong)?;
    settings.extend(served);
    let (notify, told) = notify::read_notify_settings(file.notify, &from_file).map_err(&wrong)?;
    settings.extend(told);
    let (permits, asked) = permits::read_permit_waits(&file.permits, &from_file).map_err(&wrong)?;
    settings.extend(asked);
    let prices = read_prices(&file.prices).map_err(wrong)?;
    let origin = if prices.is_empty() { "default" } else { &from_file };
    settings.push(ConfigSetting {
        key: "prices",
        value: format!("{:?}", prices.keys().collect::<Vec<_>>()),
        origin: origin.to_owned(),
    });
    let config = OstlerConfig { stale_after, disabled_adapters, adapter_roots, retention, prices };
    let problems = Vec::new();
    Ok(LoadedConfig {
        config,
        terminals,
        web,
        top,
        fleet,
        fleet_ssh: file.fleet.ssh,
        mcp,
        notify,
        permits,
        file: path,
        settings,
        problems,
    })
}

/// From when on a silent session counts as stale, and who says so: the environment before the file.
fn read_stale_after(text: Option<&str>, from_file: &str) -> Result<(Duration, String), Error> {
    if let Some(text) = env::stale_after() {
        let parsed = duration::parse_duration(&text).ok_or_else(|| {
            Error::usage_error(
                format!("`{}={text}` is not a duration", env::STALE_AFTER_VARIABLE),
                "write it like 90s, 30m, 2h or 1d",
            )
        })?;
        return Ok((parsed, env::STALE_AFTER_VARIABLE.to_owned()));
    }
    let Some(text) = text else {
        return Ok((OstlerConfig::default().stale_after, "default".to_owned()));
    };
    let parsed = duration::parse_duration(text).ok_or_else(|| Error::Config {
        path: from_file.to_owned(),
        reason: format!("`stale_after = {text:?}` is not a duration like 90s, 30m, 2h or 1d"),
    })?;
    Ok((parsed, from_file.to_owned()))
}

/// Prices, in millionths of a dollar.
fn read_prices(entries: &BTreeMap<String, PriceEntry>) -> Result<PriceTable, String> {
    const MAX_DOLLARS: f64 = 1e6;
    let micro = |model: &str, kind: &str, dollars: f64| match dollars {
        0.0..=MAX_DOLLARS => Ok(model::usage::micro_usd(dollars)),
        _ => Err(format!("`prices.{model:?}.{kind} = {dollars}` is not a price in dollars")),
    };
    let price = |(model, entry): (&String, &PriceEntry)| {
        let price = TokenPrice {
            input: micro(model, "input", entry.input)?,
            output: micro(model, "output", entry.output)?,
            cache_read: micro(model, "cache_read", entry.cache_read)?,
            cache_write: micro(model, "cache_write", entry.cache_write)?,
        };
        Ok((model.clone(), price))
    };
    entries.iter().map(price).collect()
}

/// Further places of adapters' formats. One that is not absolute would depend on where ostler runs.
fn read_adapter_roots(
    tables: &BTreeMap<String, AdapterTable>,
) -> Result<BTreeMap<String, Vec<PathBuf>>, String> {
    let mut found = BTreeMap::new();
    for (id, table) in tables {
        if !flows::is_adapter(id) {
            return Err(format!(
                "`[adapters.{id}]` is of no adapter; there are: {}",
                flows::adapter_ids().collect::<Vec<_>>().join(", ")
            ));
        }
        let mut roots = Vec::new();
        for text in &table.roots {
            let below_home = || {
                Some(PathBuf::from(env::lookup_variable("HOME")?).join(text.strip_prefix("~/")?))
            };
            let path = below_home().unwrap_or_else(|| PathBuf::from(text));
            if !path.is_absolute() {
                return Err(format!(
                    "`roots` of `[adapters.{id}]` has {text:?}, which is neither absolute nor below `~/`"
                ));
            }
            roots.push(path);
        }
        found.insert(id.clone(), roots);
    }
    Ok(found)
}

/// How long things are kept, and where each of these settings comes from.
fn read_retention(
    table: &RetentionTable,
    file: &str,
) -> Result<(Retention, Vec<ConfigSetting>), Error> {
    let mut kept = Retention::default();
    let mut settings = Vec::new();
    let wrong = |key: &str, text: &str, what: &str| Error::Config {
        path: file.to_owned(),
        reason: format!("`{key} = {text:?}` is not {what}"),
    };
    let mut note = |key: &'static str, value: String, is_set: bool| {
        let origin = if is_set { file } else { "default" }.to_owned();
        settings.push(ConfigSetting { key, value, origin });
    };
    let age = |key: &str, text: &Option<String>, default: Duration| match text {
        None => Ok(default),
        Some(text) => duration::parse_duration(text)
            .ok_or_else(|| wrong(key, text, "a duration like 90s, 12h or 30d")),
    };
    macro_rules! ages {
        ($($field:ident),*) => {$(
            let key = concat!("retention.", stringify!($field));
            kept.$field = age(key, &table.$field, kept.$field)?;
            note(key, show_duration(kept.$field), table.$field.is_some());
        )*};
    }
    ages!(terminals, spills, launches, temps, archives, worktrees, trash);
    let key = "retention.transcripts";
    if table.transcripts.is_some() {
        kept.transcripts = Some(age(key, &table.transcripts, Duration::ZERO)?);
    }
    let shown = kept.transcripts.map_or("\"for ever\"".to_owned(), show_duration);
    note(key, shown, table.transcripts.is_some());
    let size = |key: &str, text: &Option<String>| match text {
        None => Ok(None),
        Some(text) => size::parse_size(text)
            .map(Some)
            .ok_or_else(|| wrong(key, text, "a size like 500MB or 20GB")),
    };
    macro_rules! sizes {
        ($($field:ident),*) => {$(
            let key = concat!("retention.", stringify!($field));
            kept.$field = size(key, &table.$field)?;
            let shown = kept.$field.map_or("\"no limit\"".to_owned(), |bytes| bytes.to_string());
            note(key, shown, table.$field.is_some());
        )*};
    }
    sizes!(vault_bytes, transcript_bytes);
    Ok((kept, settings))
}

fn show_duration(span: Duration) -> String {
    format!("{:?}", duration::exact_span(span))
}

fn read_config_file(path: &std::path::Path) -> Result<File, Error> {
    match std::fs::read_to_string(path) {
        Ok(text) => toml::from_str(&text).map_err(|error| Error::Config {
            path: path.display().to_string(),
            reason: error.to_string().trim_end().to_owned(),
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(File::default()),
        Err(error) => {
            Err(Error::Read { path: path.display().to_string(), reason: error.to_string() })
        }
    }
}
