//! Metrics in the Prometheus text format (exposition format 0.0.4): families, samples, and their text.
//!
//! No id, path or text of a session is a label: labels are words of a fixed list, so that the number of
//! series does not grow with the number of sessions.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::Serialize;

/// What kind of metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MetricKind {
    /// Only ever grows.
    Counter,
    /// How it is now.
    Gauge,
    /// A distribution, in buckets.
    Histogram,
}

impl MetricKind {
    /// The word in the text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricSample {
    /// What follows the family's name: `_bucket`, `_sum`, `_count`, or nothing.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub suffix: &'static str,
    /// Names and values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(&'static str, String)>,
    pub value: f64,
}

/// One name, what it means, and its values.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricFamily {
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    pub kind: MetricKind,
    pub samples: Vec<MetricSample>,
}

impl MetricFamily {
    /// A family without values.
    pub const fn new(name: &'static str, kind: MetricKind, help: &'static str) -> Self {
        Self { name, help, kind, samples: Vec::new() }
    }

    /// With one more value.
    pub fn add_sample(&mut self, labels: Vec<(&'static str, String)>, value: f64) {
        self.samples.push(MetricSample { suffix: "", labels, value });
    }

    /// With one more distribution: how many were at most each bound (milliseconds), and the sum of all.
    pub fn add_distribution(
        &mut self,
        labels: &[(&'static str, String)],
        bounds_ms: &[u64],
        distribution: &Distribution,
    ) {
        let mut below = 0;
        for &bound in bounds_ms {
            below += distribution.count_at(bound);
            self.add_bucket(labels, format_seconds(bound), below);
        }
        self.add_bucket(labels, "+Inf".to_owned(), distribution.count());
        let labels = labels.to_vec();
        let sum = distribution.sum_ms as f64 / 1000.0;
        self.samples.push(MetricSample { suffix: "_sum", labels: labels.clone(), value: sum });
        let count = distribution.count() as f64;
        self.samples.push(MetricSample { suffix: "_count", labels, value: count });
    }

    fn add_bucket(&mut self, labels: &[(&'static str, String)], bound: String, below: u64) {
        let mut labels = labels.to_vec();
        labels.push(("le", bound));
        self.samples.push(MetricSample { suffix: "_bucket", labels, value: below as f64 });
    }
}

/// Spans in buckets, as they were counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Upper bound in milliseconds, and how many were at most that and more than the bound before.
    pub buckets: Vec<(u64, u64)>,
    /// All of them together.
    pub sum_ms: u64,
}

impl Distribution {
    fn count_at(&self, bound: u64) -> u64 {
        self.buckets.iter().filter(|(own, _)| *own == bound).map(|(_, count)| count).sum()
    }

    fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }
}

/// The bound of a bucket that has none.
pub const NO_BOUND_MS: u64 = i64::MAX as u64;

/// The bounds of spans that are counted in buckets, by the name they are counted under.
pub const SPAN_BOUNDS_MS: [(&str, &[u64]); 3] = [
    (
        "session-duration",
        &[
            60_000, 300_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 14_400_000, 28_800_000,
            86_400_000,
        ],
    ),
    ("delivery-accept", &[100, 250, 500, 1_000, 2_500, 5_000, 10_000, 15_000, 30_000]),
    ("permission-wait", &[1_000, 5_000, 15_000, 60_000, 300_000, 900_000, 3_600_000]),
];

/// The bounds of one of them.
pub fn span_bounds(name: &str) -> &'static [u64] {
    SPAN_BOUNDS_MS.iter().find(|(own, _)| *own == name).map_or(&[], |(_, bounds)| bounds)
}

/// The bucket that a span falls into.
pub fn bucket_of(name: &str, span_ms: u64) -> u64 {
    span_bounds(name).iter().copied().find(|bound| span_ms <= *bound).unwrap_or(NO_BOUND_MS)
}

fn format_seconds(millis: u64) -> String {
    format!("{}", millis as f64 / 1000.0)
}

/// The text that Prometheus reads. A family without values is left out.
pub fn render_prometheus(families: &[MetricFamily]) -> String {
    let mut text = String::new();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        let name = family.name;
        let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
        text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {}\n", family.kind.as_str()));
        for sample in &family.samples {
            text.push_str(name);
            text.push_str(sample.suffix);
            push_labels(&mut text, &sample.labels);
            // A `String` takes everything.
            let _ = writeln!(text, " {}", sample.value);
        }
    }
    text
}

fn push_labels(text: &mut String, labels: &[(&'static str, String)]) {
    for (index, (name, value)) in labels.iter().enumerate() {
        text.push(if index == 0 { '{' } else { ',' });
        text.push_str(name);
        text.push_str("=\"");
        for letter in value.chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                other => text.push(other),
            }
        }
        text.push('"');
    }
    if !labels.is_empty() {
        text.push('}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_87_label_values_are_escaped_and_names_are_told_once() {
        let mut family = MetricFamily::new("x_total", MetricKind::Counter, "a \\ b\nc");
        family.add_sample(vec![("agent", "a\"}\\ 1\nx_total 7".to_owned())], 2.0);
        family.add_sample(vec![("agent", "b".to_owned())], 3.0);
        let empty = MetricFamily::new("y", MetricKind::Gauge, "nothing");
        assert_eq!(
            render_prometheus(&[family, empty]),
            "# HELP x_total a \\\\ b\\nc\n# TYPE x_total counter\n\
             x_total{agent=\"a\\\"}\\\\ 1\\nx_total 7\"} 2\nx_total{agent=\"b\"} 3\n"
        );
    }

    #[test]
    fn a_distribution_is_cumulative_and_ends_with_all() {
        let name = "permission-wait";
        let buckets = [500, 4_000, 4_500, 10_000_000].map(|span| (bucket_of(name, span), 1));
        let spans = Distribution { buckets: buckets.to_vec(), sum_ms: 9_000 };
        let mut family = MetricFamily::new("w", MetricKind::Histogram, "h");
        family.add_distribution(&[], span_bounds(name), &spans);
        let values: Vec<f64> = family.samples.iter().map(|sample| sample.value).collect();
        assert_eq!(values, [1.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 4.0, 9.0, 4.0]);
    }
}
