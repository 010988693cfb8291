//! The result of a lab run: a matrix of agents and checks for people, and the same as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// What came of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    Fail,
    /// Cannot be asked of this agent, or there was no ostler to ask.
    NotApplicable,
}

impl Verdict {
    fn name(&self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "FAIL",
            Verdict::NotApplicable => "n/a",
        }
    }
}

/// One cell of the matrix.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) check: &'static str,
    pub(crate) verdict: Verdict,
    /// Why it failed or does not apply; for a pass, how it was asked if that is not obvious.
    pub(crate) reason: String,
}

/// One row of the matrix.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) agent: &'static str,
    pub(crate) version: String,
    pub(crate) outcomes: Vec<Outcome>,
}

/// The columns, in the order they are printed.
pub(crate) const CHECKS: &[&str] = &[
    "drive",
    "session",
    "working",
    "exited",
    "logs",
    "tui-working",
    "idle",
    "waiting",
    "tui-session",
    "killed",
    "listing",
];

/// The whole report.
#[derive(Debug)]
pub(crate) struct Report {
    /// The columns.
    checks: &'static [&'static str],
    pub(crate) rows: Vec<Row>,
}

impl Report {
    pub(crate) fn new(checks: &'static [&'static str]) -> Report {
        Report { checks, rows: Vec::new() }
    }

    pub(crate) fn failed(&self) -> bool {
        self.rows.iter().flat_map(|row| &row.outcomes).any(|o| o.verdict == Verdict::Fail)
    }

    /// The matrix, then the reasons. A check with several outcomes shows the worst.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{:<24}", "agent");
        for check in self.checks {
            let _ = write!(text, " {check:<11}");
        }
        for row in &self.rows {
            let _ = write!(text, "\n{:<24}", format!("{} {}", row.agent, row.version));
            for check in self.checks {
                let _ = write!(text, " {:<11}", row.verdict(check).map_or("-", Verdict::name));
            }
        }
        text.push('\n');
        for row in &self.rows {
            for outcome in row.outcomes.iter().filter(|outcome| !outcome.reason.is_empty()) {
                let (check, verdict) = (outcome.check, outcome.verdict.name());
                let _ = write!(text, "\n{} {check}: {verdict}: {}", row.agent, outcome.reason);
            }
        }
        // No line may end in blanks.
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn json(&self) -> Value {
        let outcome = |o: &Outcome| json!({ "check": o.check, "verdict": o.verdict.name().to_lowercase(), "reason": o.reason });
        let row = |row: &Row| {
            let checks: Vec<Value> = row.outcomes.iter().map(outcome).collect();
            json!({ "agent": row.agent, "version": row.version, "checks": checks })
        };
        json!({ "ok": !self.failed(), "agents": self.rows.iter().map(row).collect::<Vec<_>>() })
    }
}

impl Row {
    fn verdict(&self, check: &str) -> Option<&Verdict> {
        let mut verdicts: Vec<&Verdict> =
            self.outcomes.iter().filter(|o| o.check == check).map(|o| &o.verdict).collect();
        verdicts.sort_by_key(|verdict| match verdict {
            Verdict::Fail => 0,
            Verdict::Pass => 1,
            Verdict::NotApplicable => 2,
        });
        verdicts.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let outcome =
            |check, verdict, reason: &str| Outcome { check, verdict, reason: reason.into() };
        Report {
            checks: CHECKS,
            rows: vec![Row {
                agent: "pi",
                version: "0.73.1".into(),
                outcomes: vec![
                    outcome("session", Verdict::Pass, ""),
                    outcome("session", Verdict::Fail, "title: expected \"a\", found \"b\""),
                    outcome("waiting", Verdict::NotApplicable, "not on disk"),
                ],
            }],
        }
    }

    #[test]
    fn the_matrix_shows_the_worst_and_says_why() {
        let text = report().text();
        let row = text.lines().find(|line| line.starts_with("pi 0.73.1")).unwrap();
        let cells: Vec<&str> = row.split_whitespace().skip(2).collect();
        let column = |name| CHECKS.iter().position(|check| *check == name).unwrap();
        assert_eq!(cells[column("session")], "FAIL");
        assert_eq!(cells[column("waiting")], "n/a");
        assert_eq!(cells[column("idle")], "-");
        assert!(text.contains("pi session: FAIL: title: expected \"a\", found \"b\""));
        assert!(text.lines().all(|line| line.trim_end() == line));
    }

    #[test]
    fn the_json_says_the_same() {
        let json = report().json();
        assert_eq!(json["ok"], false);
        assert_eq!(json["agents"][0]["checks"][1]["verdict"], "fail");
        assert_eq!(Report::new(CHECKS).json()["ok"], true);
    }
}
