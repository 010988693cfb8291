//! `ostler permits` and `permit`

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::{ArgGroup, Args};
use clap_complete::ArgValueCandidates;
use flows::caller::find_calling_party;
use flows::observe::ObserveScope;
use flows::permits::{self, PermitError};
use flows::work::carry_out_work;
use flows::writer::Work;
use model::address::pick_by_id;
use model::control::permits::{
    PermitAnswer, PermitRequest, PermitResult, PermitVerdict, PermitView, PermitsResult,
};
use model::time::whole_millis;
use sys::dropped::NoteDropped;

use crate::cli::{CliContext, complete};
use crate::env;
use crate::error::Error;
use crate::render::{duration, output, text};

declare_commands![
    CommandEntry {
        place: HelpPlace(Drive, 10),
        answers: &[answer::<::model::control::permits::PermitsResult>()],
        examples: &[example("permits", "What agents ask for, and since when.")],
        cases: &[
            empty("permits"),
            usual("permits").on(Asking),
            refused("permits 666e4f9b --no-such-option"),
            also("permits 666e4f9b")
        ],
        uncased: &[ONE_PROGRAM],
        ..entry!("permits", PermitsArgs, run_permits)
    },
    CommandEntry {
        place: HelpPlace(Drive, 11),
        effect: WritesState,
        answers: &[answer::<::model::control::permits::PermitResult>()],
        examples: &[
            example("permit ID --allow", "Let it do that, this once.").on(Asking),
            example("permit ID --deny --message 'use the staging host'", "Do not, and say why.")
                .on(Asking)
        ],
        cases: &[
            empty("permit 666e4f9b --allow"),
            usual("permit ID --allow").on(Asking),
            refused("permit 666e4f9b"),
            refused("permit - --allow"),
            refused("permit 666e4f9b 01J --deny")
        ],
        uncased: &[ONE_FILE],
        ..entry!("permit", PermitArgs, run_permit)
    }
];

/// The longest input that is shown on a line.
const SHOWN_INPUT_COLUMNS: usize = 100;

/// List the permissions that agents ask ostler for.
///
/// Agents ask on their own screens unless they were launched with `--permissions ostler`. A request is there for as long
/// as the agent waits for its answer; `ostler permit` gives one.
#[derive(Debug, Args)]
pub(crate) struct PermitsArgs {
    /// Only those of this session.
    #[arg(value_name = "SESSION", add = ArgValueCandidates::new(complete::complete_sessions))]
    session: Option<String>,
}

/// Answer a permission request of an agent: allow the call, or deny it with a word to the agent.
///
/// Exactly one answer is taken. One that comes too late (a person was faster, on the agent's screen or here, or its
/// time was up) is exit code 4 and changes nothing. No keys are typed, and an agent cannot answer itself.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("verdict").required(true).args(["allow", "deny"]))]
pub(crate) struct PermitArgs {
    /// The session that asks.
    #[arg(value_name = "SESSION", add = ArgValueCandidates::new(complete::complete_sessions))]
    session: String,
    /// The request, or the beginning of its id; not needed while there is only one.
    request: Option<String>,
    /// Let the tool run, this once.
    #[arg(long)]
    allow: bool,
    /// Do not let it run.
    #[arg(long)]
    deny: bool,
    /// Why not, for the agent.
    #[arg(long, value_name = "TEXT", requires = "deny")]
    message: Option<String>,
}

impl PermitsArgs {
    pub(crate) fn run_permits(&self, context: &CliContext) -> Result<ExitCode, Error> {
        let mut requests = permits::list_requests(context.machine()?)?;
        if let Some(session) = &self.session {
            let id = find_session(context, &requests, session)?;
            requests.retain(|request| request.session == id);
        }
        let requests: Vec<PermitView> = requests.iter().map(PermitView::from).collect();
        if context.json {
            context.print_json(&PermitsResult { requests })?;
        } else {
            let mut page: String = requests.iter().map(|one| request_line(context, one)).collect();
            if page.is_empty() {
                page.push_str("no agent asks for anything\n");
            }
            output::print_text(&page)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl PermitArgs {
    pub(crate) fn run_permit(&self, context: &CliContext) -> Result<ExitCode, Error> {
        if self.session == "-" {
            return Err(Error::usage_error(
                "`-` is whichever session is newest, and an answer must go to one that was meant",
                "name the session by its id, a prefix or its name",
            ));
        }
        let machine = context.machine()?;
        let requests = permits::list_requests(machine)?;
        let session = find_session(context, &requests, &self.session)?;
        let request = permits::choose_request(&requests, &session, self.request.as_deref())?;
        let verdict = if self.allow { PermitVerdict::Allow } else { PermitVerdict::Deny };
        let by = find_calling_party(machine, &env::user_name()).name;
        let answer = PermitAnswer { verdict, message: self.message.clone(), by: by.clone() };
        permits::answer_request(machine, &request, &answer)?;
        let machine = machine.next_turn();
        let wait_ms = whole_millis(machine.now().since(request.asked_at));
        let work = Work::NotePermit(Box::new(flows::writer::PermitNote {
            agent: request.agent.clone(),
            session: request.session.clone(),
            request: request.id.clone(),
            verdict,
            by: by.clone(),
            wait_ms,
        }));
        // The agent has its answer, whether that can be written down or not.
        carry_out_work(&work, &machine, &mut |_, _| {})
            .note_dropped("the event of an answered permission");
        let result =
            PermitResult { request: PermitView::from(&request), answered: verdict, by, wait_ms };
        if context.json {
            context.print_json(&result)?;
        } else {
            let word = if self.allow { "allowed" } else { "denied" };
            let line = format!("{word} {}", summarize_request(&result.request));
            output::print_text(&(text::one_line(&line) + "\n"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The session that is meant. One that asks is found without a look at the machine.
fn find_session(
    context: &CliContext,
    requests: &[PermitRequest],
    session: &str,
) -> Result<String, Error> {
    let asking: BTreeSet<&str> = requests.iter().map(|one| one.session.as_str()).collect();
    if session.len() >= 4
        && let Ok(one) = pick_by_id(asking, session, |id| [*id])
    {
        return Ok(one.to_owned());
    }
    let observation = context.observe_now(ObserveScope::All, &[])?;
    let here = context.current_dir();
    let one = flows::address::resolve_session(&observation, session, &here)?;
    // A terminal stands for the agent in it.
    let linked = one.session.linked.iter().find(|linked| {
        requests.iter().any(|request| request.session == linked.id && request.agent == linked.agent)
    });
    Ok(linked.map_or_else(|| one.session.id.clone(), |linked| linked.id.clone()))
}

fn request_line(context: &CliContext, one: &PermitView) -> String {
    let age = duration::age_phrase(context.now.since(one.asked_at));
    let line = format!("{}  {}:{}  {age}  ", one.request, one.agent, one.session);
    text::one_line(&(line + &summarize_request(one))) + "\n"
}

fn summarize_request(one: &PermitView) -> String {
    let tool = one.tool.as_deref().unwrap_or("a tool");
    let input = match &one.input {
        _ if one.cut => "(its input is longer than what was read)".to_owned(),
        serde_json::Value::Null => String::new(),
        input => text::cut_right(&input.to_string(), SHOWN_INPUT_COLUMNS),
    };
    let subagent = one.subagent.as_ref().map(|id| format!(" of sub-agent {id}"));
    format!("{tool}{} {input}", subagent.unwrap_or_default())
}

impl From<PermitError> for Error {
    fn from(error: PermitError) -> Self {
        match error {
            PermitError::Several { text, candidates } => {
                Self::Address(model::address::AddressError::Ambiguous { text, candidates })
            }
            PermitError::IsCalling => Self::Drive(model::control::refusal::DriveRefusal::IsCalling),
            PermitError::Files { directory, reason } => {
                Self::Read { path: directory.display().to_string(), reason }
            }
            other => Self::Permit(other),
        }
    }
}
