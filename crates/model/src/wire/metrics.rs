//! The answer of `metrics` for programs that read JSON.

use schemars::JsonSchema;
use serde::Serialize;

use crate::metrics::MetricFamily;

/// The result of `metrics`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricsResult {
    /// Every family; one without samples has nothing to tell yet.
    pub metrics: Vec<MetricFamily>,
}
