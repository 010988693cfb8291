//! Several steps in one call: the whole plan is checked before anything is sent.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use host::screen::{self, Personality};
use model::hosted::wire::{BatchResult, RenderParams, RunParams, StepError, StepRecord};
use model::hosted::{FaultCode, HostFault};
use model::time::whole_millis;
use serde::Deserialize;
use serde_json::Value;

use super::{HostedSession, TerminalHome, ask, wait};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchStep {
    Type(String),
    Paste(String),
    SendKeys(Vec<String>),
    /// Give the shell a command.
    Run {
        command: String,
        /// Do not wait for its end.
        no_wait: bool,
        /// How long to wait for it.
        timeout: Option<u64>,
    },
    /// Wait for something on the screen.
    Wait(RenderParams),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenStep {
    r#type: Option<String>,
    paste: Option<String>,
    send_keys: Option<Vec<String>>,
    run: Option<String>,
    no_wait: Option<bool>,
    timeout: Option<u64>,
    wait: Option<WrittenWait>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenWait {
    text: Option<String>,
    regex: Option<String>,
    gone: Option<String>,
    screen_stable_ms: Option<u64>,
    cursor_row: Option<u16>,
    cursor_col: Option<u16>,
    timeout: Option<u64>,
}

impl BatchStep {
    const fn kind_name(&self) -> &'static str {
        match self {
            Self::Type(_) => "type",
            Self::Paste(_) => "paste",
            Self::SendKeys(_) => "sendKeys",
            Self::Run { .. } => "run",
            Self::Wait(_) => "wait",
        }
    }
}

/// Reads a plan: a JSON array of objects with one verb each.
pub fn parse_batch(text: &str, personality: Personality) -> Result<Vec<BatchStep>, HostFault> {
    let wrong =
        |reason: String| HostFault::invalid_input(format!("The steps are not valid: {reason}"));
    let steps: Vec<Value> = serde_json::from_slice(text.as_bytes())
        .map_err(|error| wrong(format!("not a JSON array ({error})")))?;
    if steps.is_empty() {
        return Err(wrong("there must be at least one".to_owned()));
    }
    steps
        .into_iter()
        .enumerate()
        .map(|(index, step)| {
            parse_step(step, personality).map_err(|fault| HostFault {
                code: fault.code,
                ..wrong(format!("step {index}: {}", fault.message))
            })
        })
        .collect()
}

fn parse_step(step: Value, personality: Personality) -> Result<BatchStep, HostFault> {
    let step: WrittenStep = serde_json::from_value(step)
        .map_err(|error| HostFault::invalid_input(error.to_string()))?;
    let verbs = usize::from(step.r#type.is_some())
        + usize::from(step.paste.is_some())
        + usize::from(step.send_keys.is_some())
        + usize::from(step.run.is_some())
        + usize::from(step.wait.is_some());
    if verbs != 1 {
        return Err(HostFault::invalid_input(
            "exactly one of type, paste, sendKeys, run and wait is needed",
        ));
    }
    if step.run.is_none() && (step.no_wait.is_some() || step.timeout.is_some()) {
        return Err(HostFault::invalid_input("noWait and timeout belong to run"));
    }
    let text = |name: &str, text: String| {
        if text.is_empty() {
            Err(HostFault::invalid_input(format!("{name} must not be empty")))
        } else {
            Ok(text)
        }
    };
    if let Some(typed) = step.r#type {
        return Ok(BatchStep::Type(text("type", typed)?));
    }
    if let Some(pasted) = step.paste {
        return Ok(BatchStep::Paste(text("paste", pasted)?));
    }
    if let Some(keys) = step.send_keys {
        if keys.is_empty() {
            return Err(HostFault::invalid_input("sendKeys must not be empty"));
        }
        let code = match personality {
            Personality::Ostler => FaultCode::InvalidInput,
            Personality::AgentTty => FaultCode::InvalidKeys,
        };
        for key in &keys {
            screen::keys::encode_key(key, &screen::Modes::default(), personality)
                .map_err(|error| HostFault::new(code, error.to_string()))?;
        }
        return Ok(BatchStep::SendKeys(keys));
    }
    if let Some(command) = step.run {
        if step.timeout == Some(0) {
            return Err(HostFault::invalid_input("timeout must be positive"));
        }
        let no_wait = step.no_wait.unwrap_or(false);
        return Ok(BatchStep::Run {
            command: text("run", command)?,
            no_wait,
            timeout: step.timeout,
        });
    }
    let Some(written) = step.wait else { return Err(HostFault::invalid_input("nothing to do")) };
    let params = RenderParams {
        text: written.text,
        regex: written.regex,
        gone: written.gone,
        screen_stable_ms: written.screen_stable_ms,
        cursor_row: written.cursor_row,
        cursor_col: written.cursor_col,
        timeout_ms: written.timeout,
        ..RenderParams::default()
    };
    wait::check_conditions(&params)?;
    Ok(BatchStep::Wait(params))
}

/// Runs the plan. `interrupted` is asked between steps; a step that waits is given up when `cancelled` can be read.
pub fn run_batch(
    home: &TerminalHome,
    session: &HostedSession,
    steps: &[BatchStep],
    keep_going: bool,
    interrupted: &dyn Fn() -> bool,
    cancelled: Option<BorrowedFd<'_>>,
) -> BatchResult {
    let mut baseline = None;
    let mut records = Vec::with_capacity(steps.len());
    let mut stopped = None;
    for (index, step) in steps.iter().enumerate() {
        let kind = step.kind_name();
        if stopped.is_none() && interrupted() {
            stopped = Some("interrupted");
        }
        if let Some(status) = stopped {
            records.push(StepRecord { index, kind, status, ..StepRecord::default() });
            stopped = Some("not-run");
            continue;
        }
        let begun = Instant::now();
        let mut record = StepRecord { index, kind, status: "completed", ..StepRecord::default() };
        let waits = (&mut baseline, cancelled);
        if let Err(fault) = perform_step(home, session, step, waits, &mut record) {
            record.status = if interrupted() { "interrupted" } else { "failed" };
            if interrupted() {
                // What was waited for may come or not: there is no waiter any more.
                record.wait_baseline = None;
            } else {
                let (code, message) = (fault.code.as_str(), fault.message);
                record.error = Some(StepError { code, message });
            }
            if !keep_going || interrupted() {
                stopped = Some("not-run");
            }
        }
        record.duration_ms = whole_millis(begun.elapsed());
        records.push(record);
    }
    let failed = |record: &&StepRecord| record.status == "failed";
    BatchResult {
        completed_count: records.iter().filter(|record| record.status == "completed").count(),
        failed_indices: records.iter().filter(failed).map(|record| record.index).collect(),
        steps: records,
    }
}

fn perform_step(
    home: &TerminalHome,
    session: &HostedSession,
    step: &BatchStep,
    (baseline, cancelled): (&mut Option<i64>, Option<BorrowedFd<'_>>),
    record: &mut StepRecord,
) -> Result<(), HostFault> {
    let mut sent = |record: &mut StepRecord, seq: u64| {
        record.seq = Some(seq);
        *baseline = i64::try_from(seq).ok();
    };
    match step {
        BatchStep::Type(text) => sent(record, ask::type_text(session, text.clone())?.seq),
        BatchStep::Paste(text) => {
            let always = home.personality == Personality::AgentTty;
            sent(record, ask::paste_text(session, text.clone(), always)?.seq);
        }
        BatchStep::SendKeys(keys) => sent(record, ask::send_keys(home, session, keys.clone())?.seq),
        BatchStep::Run { command, no_wait, timeout } => {
            record.no_wait = Some(*no_wait);
            let params = RunParams {
                command: command.clone(),
                no_wait: *no_wait,
                timeout_ms: *timeout,
                capture: false,
                by: None,
            };
            let result = ask::run_command(session, params)?;
            sent(record, result.seq);
            record.completed = result.completed;
            record.timed_out = result.timed_out;
            record.exit_code = result.exit_code;
            let outcome = match (no_wait, result.completed, result.timed_out) {
                (true, ..) => "started",
                (false, Some(true), _) => "completed",
                (false, _, Some(true)) => "timedOut",
                _ => "sessionExited",
            };
            record.run_outcome = Some(outcome);
            match outcome {
                "timedOut" => {
                    return Err(HostFault::new(
                        FaultCode::WaitTimeout,
                        "the command did not end in time",
                    ));
                }
                "sessionExited" => {
                    let message = "the session ended before the command did";
                    return Err(HostFault::new(FaultCode::SessionNotRunning, message));
                }
                _ => {}
            }
        }
        BatchStep::Wait(params) => {
            let target =
                || session.reread_manifest().unwrap_or_else(|| session.clone()).check_can_receive();
            target()?;
            record.wait_baseline = *baseline;
            let params = RenderParams { after_seq: *baseline, ..params.clone() };
            let result = wait::wait_for_render_unless(session, &params, cancelled)?;
            record.matched = result.matched;
            record.timed_out = Some(result.timed_out);
            record.matched_text = result.matched_text;
            record.captured_at_seq = result.captured_at_seq;
            record.screen_hash = result.screen_hash;
            if result.timed_out {
                let message = format!(
                    "what was waited for did not come in time: {}",
                    result.condition.unwrap_or_default()
                );
                return Err(HostFault::new(FaultCode::WaitTimeout, message));
            }
            target()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_refused_as_a_whole() {
        for wrong in [
            "",
            "{}",
            "[]",
            "[{}]",
            "[{\"type\":\"a\",\"paste\":\"b\"}]",
            "[{\"type\":\"\"}]",
            "[{\"type\":\"a\",\"extra\":1}]",
            "[{\"type\":\"a\",\"timeout\":5}]",
            "[{\"sendKeys\":[]}]",
            "[{\"sendKeys\":[\"NoSuchKey\"]}]",
            "[{\"run\":\"x\",\"timeout\":0}]",
            "[{\"wait\":{}}]",
            "[{\"wait\":{\"regex\":\"(\"}}]",
            "[{\"wait\":{\"text\":\"a\",\"regex\":\"b\"}}]",
        ] {
            let fault = parse_batch(wrong, Personality::AgentTty).unwrap_err();
            let keys = wrong.contains("NoSuchKey");
            let code = if keys { FaultCode::InvalidKeys } else { FaultCode::InvalidInput };
            assert_eq!(fault.code, code, "{wrong}");
        }
        let plan = "[{\"run\":\"ls\",\"noWait\":true},{\"sendKeys\":[\"Enter\"]},{\"wait\":{\"text\":\"x\",\"timeout\":0}}]";
        assert_eq!(parse_batch(plan, Personality::AgentTty).unwrap().len(), 3);
    }
}
