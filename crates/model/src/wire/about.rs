//! What ostler says about itself: adapters, version, settings, skills.

use schemars::JsonSchema;
use serde::Serialize;

use super::IncompleteSource;
use crate::session::FormatCertainty;

/// The result of `adapters`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AdaptersResult {
    pub adapters: Vec<AdapterView>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct AdapterView {
    pub id: &'static str,
    /// The agent's name.
    pub name: &'static str,
    /// Where it looks.
    pub roots: Vec<String>,
    /// Whether any of these is there.
    pub present: bool,
    /// How many sessions it found.
    pub found: usize,
    /// How many processes of the agent run.
    pub processes: usize,
    /// How well the formats are known.
    pub certainty: FormatCertainty,
    /// How far the knowledge goes.
    pub note: &'static str,
    /// Whether the configuration leaves it out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// What could not be read.
    pub problems: Vec<IncompleteSource>,
}

/// The result of `version`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionResult {
    pub name: &'static str,
    pub version: &'static str,
    /// What it was built for.
    pub target: &'static str,
}

/// The result of `config show`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ConfigResult {
    /// The file that was read, or would be.
    pub file: String,
    pub settings: Vec<ConfigSetting>,
    /// What of the file does not hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<IncompleteSource>,
}

/// One setting and where it comes from.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ConfigSetting {
    pub key: &'static str,
    /// The value as it would be written in the file.
    pub value: String,
    /// `default`, `file`, or the environment variable.
    pub origin: String,
}

/// The result of `skills list`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SkillsResult {
    /// What there is.
    pub skills: Vec<SkillView>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct SkillView {
    pub name: &'static str,
    /// When to use it.
    pub description: &'static str,
    /// Always `bundled`.
    pub source: &'static str,
}

/// The result of `skills get`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SkillResult {
    pub name: &'static str,
    /// Always `bundled`.
    pub source: &'static str,
    /// Where a copy of it is.
    pub path: String,
    /// What it says.
    pub content: &'static str,
}

/// The result of `skills path`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SkillPathResult {
    pub name: &'static str,
    /// Always `bundled`.
    pub source: &'static str,
    /// The directory that a copy of it is in.
    pub path: String,
}
