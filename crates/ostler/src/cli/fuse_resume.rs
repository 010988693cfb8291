//! `ostler fuse set --do resume`: a conversation that goes on once its usage limit is over.
//!
//! The prompt is its user's own and stays in a file of theirs. When it is due everything is judged anew: a prompt of
//! anybody's takes it back, what somebody has open is not tried, and a file that says something else by then is not sent.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use flows::control::limits::{LimitedTurn, ResumptionFinding, find_limited_turn, judge_resumption};
use flows::fuses::{FuseSettlement, LimitedAgain, read_fuse_clock};
use flows::observe::{Observation, ObserveScope, Observed};
use model::control::fuses::{FuseClock, FuseRecord, FuseState, ResumeAtReset};
use model::session::SessionName;
use model::time::Time;
use serde_json::Value;
use sys::bounded_run::{RunLimits, run_bounded};

use crate::cli::CliContext;
use crate::cli::fuse::{parse_time, settle_as};
use crate::error::Error;
use crate::timeouts::RESUME_COMMAND_TIMEOUT;

/// How long the resumed turn is waited for, to learn whether it ran into the limit again.
const TURN_TIMEOUT: &str = "10m";

/// How the command that resumes is limited: beyond all of its own time-outs.
const RESUME_LIMITS: RunLimits = RunLimits { time: RESUME_COMMAND_TIMEOUT, output_bytes: 1 << 20 };

/// How a conversation goes on.
#[derive(Debug, Args)]
pub(super) struct ResumptionArgs {
    /// The file with the prompt that it goes on with. It is read when that is due, and must say the same then.
    #[arg(long, value_name = "PATH")]
    pub(super) file: Option<PathBuf>,
    /// How often it is tried, if it runs into the limit again [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    max: Option<u32>,
    /// Not any more after this time: RFC 3339.
    #[arg(long, value_name = "WHEN", value_parser = parse_time)]
    until: Option<Time>,
}

impl ResumptionArgs {
    pub(super) const fn is_given(&self) -> bool {
        self.file.is_some() || self.max.is_some() || self.until.is_some()
    }

    /// The plan, and when it is due if the agent's record tells.
    pub(super) fn make_plan(
        &self,
        one: &Observed,
        at_reset: bool,
        clock: &FuseClock,
    ) -> Result<(ResumeAtReset, Option<Time>), Error> {
        let id = &one.session.id;
        let limited = find_limited_turn(one).ok_or_else(|| Error::Refused {
            what: format!("the last turn of `{id}` did not end in a usage limit"),
            hint: "only what a limit ended goes on when that is over".to_owned(),
        })?;
        let due_at = match limited.resets_at.filter(|_| at_reset) {
            Some(resets_at) => Some(ResumeAtReset::due_at(resets_at, chance()?, clock.wall)),
            None if at_reset => {
                return Err(Error::Refused {
                    what: format!("the record of `{id}` does not say when its limit is over"),
                    hint: "say it with `--at TIME` instead of `--at-reset`".to_owned(),
                });
            }
            None => None,
        };
        let file = self.file.clone().unwrap_or_default();
        let (path, sha256) = read_prompt(&file)?;
        let plan = ResumeAtReset {
            file: path.to_string_lossy().into_owned(),
            sha256,
            noted_end: limited.noted_end,
            max: self.max.unwrap_or(1),
            tries: 0,
            until: self.until,
        };
        Ok((plan, due_at))
    }
}

/// Up to half a minute, so that not everything that waits for one reset begins at once.
fn chance() -> Result<Duration, Error> {
    let [byte] = sys::random::random_bytes::<1>()?;
    Ok(Duration::from_millis(u64::from(byte) * 30_000 / 255))
}

/// Where the prompt is, and what it says.
fn read_prompt(file: &Path) -> Result<(PathBuf, String), Error> {
    let failed = |reason: String| Error::Read { path: file.display().to_string(), reason };
    let path = std::fs::canonicalize(file).map_err(|error| failed(error.to_string()))?;
    let text = std::fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
    if text.trim().is_empty() {
        return Err(failed("there is no prompt in it".to_owned()));
    }
    Ok((path, sys::hash::sha256(text.as_bytes())))
}

/// Carries out a fuse whose conversation is to go on.
pub(super) fn carry_out_resumption(
    context: &CliContext,
    observation: &Observation,
    fuse: &FuseRecord,
    plan: &ResumeAtReset,
) -> Result<FuseSettlement, Error> {
    let Some(name) = fuse.target.session_name() else {
        return Ok(settle_as(FuseState::Moot, "it names no conversation"));
    };
    let now = read_fuse_clock(context.machine()?).wall;
    match judge_resumption(observation, &name, plan, now) {
        ResumptionFinding::Free => {}
        ResumptionFinding::Moot(why) => return Ok(settle_as(FuseState::Moot, why)),
        ResumptionFinding::HeldBack(why) => return Ok(settle_as(FuseState::HeldBack, why)),
        ResumptionFinding::Prompted => {
            return Ok(settle_as(FuseState::Cancelled, "somebody prompted it meanwhile"));
        }
    }
    match read_prompt(Path::new(&plan.file)) {
        Ok((_, sha256)) if sha256 == plan.sha256 => {}
        Ok(_) => return Ok(settle_as(FuseState::Failed, "its prompt says something else by now")),
        Err(error) => return Ok(settle_as(FuseState::Failed, format!("its prompt: {error}"))),
    }
    let words = ["resume", &name.to_string(), "--file", &plan.file, "--wait", "idle"];
    let (code, answer) = match ask_ostler(&[&words[..], &["--timeout", TURN_TIMEOUT]].concat()) {
        Ok(told) => told,
        Err(error) => return Ok(settle_as(FuseState::Failed, error.to_string())),
    };
    let launch = match answer["error"]["details"]["launch"].is_object() {
        true => &answer["error"]["details"]["launch"],
        false => &answer["result"],
    };
    if launch["delivery"]["turn"]["end"] == "limited" {
        return end_limited(context, &name, launch);
    }
    let said = answer["error"]["message"].as_str().unwrap_or_default();
    Ok(match code {
        Some(0 | 12) => settle_as(FuseState::Fired, "it went on"),
        Some(11) => settle_as(FuseState::Fired, "it goes on"),
        Some(16) => settle_as(FuseState::Fired, format!("a person is asked: {said}")),
        Some(13) => settle_as(FuseState::HeldBack, said),
        _ => settle_as(FuseState::Failed, said),
    })
}

/// It ran into the limit again. What was started for it is ended: nobody sits before it, and held it could not go on.
fn end_limited(
    context: &CliContext,
    name: &SessionName,
    launch: &Value,
) -> Result<FuseSettlement, Error> {
    if let Some(terminal) = launch["terminal"].as_str() {
        ask_ostler(&["stop", terminal])?;
    }
    let observation = context.next_turn().observe_now(ObserveScope::All, &[])?;
    let one = observation.sessions.iter().find(|one| one.session.session_name() == *name);
    let settlement = settle_as(FuseState::Failed, "limited again");
    let now = read_fuse_clock(context.machine()?).wall;
    match one.and_then(find_limited_turn) {
        Some(LimitedTurn { resets_at: Some(resets_at), noted_end }) => {
            let due_at = ResumeAtReset::due_at(resets_at, chance()?, now);
            let limited = Some(LimitedAgain { due_at, noted_end });
            Ok(FuseSettlement { limited, ..settlement })
        }
        _ => {
            Ok(settle_as(FuseState::Failed, "limited again, and its record does not say how long"))
        }
    }
}

/// Runs this program, as a person would, and gives its exit code and answer.
fn ask_ostler(words: &[&str]) -> std::io::Result<(Option<i32>, Value)> {
    let mut command = Command::new(sys::spawn::this_program()?);
    command.args(words).arg("--json");
    let run = run_bounded(&mut command, b"", RESUME_LIMITS)?;
    // Notices may stand before it: they are on the other stream.
    let text = String::from_utf8_lossy(&run.output);
    let from = if text.starts_with('{') { Some(0) } else { text.find("\n{") };
    let from = from.unwrap_or(text.len());
    let mut values = serde_json::Deserializer::from_str(&text[from..]).into_iter::<Value>();
    let answer = values.next().and_then(Result::ok).unwrap_or_default();
    Ok((run.status.and_then(|status| status.code()), answer))
}
